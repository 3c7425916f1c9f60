"""Batched solvers for NVIDIA GPUs, on CuPy; the same calls run on NumPy."""

from . import gam, reference, sparse
from ._config import show_config
from .gemv import gemv
from .monoid import Map, Monoid
from .nnls import NNLSResult, nnls
from .partition import replicate, scatter, stable_partition
from .reduce import all, any, maximum_segment_sum, reduce
from .scan import scan, segmented_scan
from .segments import segment_flags, segmented_reduce

__version__ = "0.1.0"
__all__ = [
    "Map",
    "Monoid",
    "NNLSResult",
    "all",
    "any",
    "gam",
    "gemv",
    "maximum_segment_sum",
    "nnls",
    "reduce",
    "reference",
    "replicate",
    "scan",
    "scatter",
    "segment_flags",
    "segmented_reduce",
    "segmented_scan",
    "show_config",
    "sparse",
    "stable_partition",
]
