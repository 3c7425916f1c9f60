"""Learners before the data: terms, and the design matrices that they make."""
