"""Batched solvers for NVIDIA GPUs, on CuPy; the same calls run on NumPy."""

from . import reference
from ._config import show_config
from .nnls import NNLSResult, nnls

__version__ = "0.1.0"
__all__ = ["NNLSResult", "nnls", "reference", "show_config"]
