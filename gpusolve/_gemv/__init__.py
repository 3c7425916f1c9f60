"""Dense matrix times vector."""
