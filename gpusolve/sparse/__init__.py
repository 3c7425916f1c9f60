"""Sparse arrays and matrices, of SciPy on a CPU and of CuPy on a GPU."""

from ._coo_multiply import multiply
from ._random_coo import random_coo
from ._spmv import SpMVPlan, spmv

__all__ = ["SpMVPlan", "multiply", "random_coo", "spmv"]

SpMVPlan.__module__ = __name__  # as for the classes of gpusolve
