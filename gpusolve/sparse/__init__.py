"""Sparse arrays and matrices, of SciPy on a CPU and of CuPy on a GPU."""

from .multiply import multiply
from .plan import SpMVPlan
from .random import random_coo
from .spmv import spmv

__all__ = ["SpMVPlan", "multiply", "random_coo", "spmv"]
