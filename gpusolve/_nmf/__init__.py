"""Non-negative matrix factorisation over the batched solver."""
