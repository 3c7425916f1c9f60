"""The specification: each public algorithm in plain NumPy.

Nothing here knows of a GPU. The tests hold these functions against independent
oracles, and the kernels against these functions.
"""

from .coo_multiply import coo_multiply
from .gemv import gemv
from .nnls import nnls
from .partition import replicate, scatter, stable_partition
from .reduce import all, any, maximum_segment_sum, reduce
from .scan import scan, segmented_scan
from .segments import segment_flags, segmented_reduce
from .spmv import spmv

__all__ = [
    "all",
    "any",
    "coo_multiply",
    "gemv",
    "maximum_segment_sum",
    "nnls",
    "reduce",
    "replicate",
    "scan",
    "scatter",
    "segment_flags",
    "segmented_reduce",
    "segmented_scan",
    "spmv",
    "stable_partition",
]
