"""Generalised additive models, boosted."""
