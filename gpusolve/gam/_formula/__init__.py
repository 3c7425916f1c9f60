"""Formulas, which patsy reads, and the columns that they compute."""
