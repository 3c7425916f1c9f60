"""Boosting of learners of any kind, any family, and several fits as a batch."""
