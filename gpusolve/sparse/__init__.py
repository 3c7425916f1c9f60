"""Sparse arrays and matrices, of SciPy on a CPU and of CuPy on a GPU."""

from .multiply import multiply
from .random import random_coo

__all__ = ["multiply", "random_coo"]
