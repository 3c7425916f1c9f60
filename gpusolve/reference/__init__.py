"""The specification: each public algorithm in plain NumPy, without a GPU.

The tests compare these functions with independent oracles, and the kernels with these
functions.
"""

from ._boosting import (
    degrees_of_freedom,
    design_matrix,
    equidistant_knots,
    smoothing_parameter,
)
from ._coo_multiply import coo_multiply
from ._gemv import gemv
from ._map import map, unzip, zip
from ._nnls import nnls
from ._partition import replicate, scatter, stable_partition
from ._reduce import all, all_by_division, any, maximum_segment_sum, reduce
from ._scan import scan, segmented_scan
from ._segments import segment_flags, segmented_reduce
from ._spmv import spmv

__all__ = [
    "all",
    "all_by_division",
    "any",
    "coo_multiply",
    "degrees_of_freedom",
    "design_matrix",
    "equidistant_knots",
    "gemv",
    "map",
    "maximum_segment_sum",
    "nnls",
    "reduce",
    "replicate",
    "scan",
    "scatter",
    "segment_flags",
    "segmented_reduce",
    "segmented_scan",
    "smoothing_parameter",
    "spmv",
    "stable_partition",
    "unzip",
    "zip",
]
