"""Batched solvers for NVIDIA GPUs, on CuPy; the same calls run on NumPy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._blocks.map import map, unzip, zip
from ._blocks.partition import replicate, scatter, stable_partition
from ._blocks.reduce import all, any, maximum_segment_sum, reduce
from ._blocks.scan import scan, segmented_scan
from ._blocks.segments import segment_flags, segmented_reduce
from ._device.config import show_config
from ._gemv.gemv import gemv
from ._nnls.bounded_qp import bounded_qp
from ._nnls.feasibility import Proof
from ._nnls.gradients import Gradients
from ._nnls.nnls import lsq_linear, nnls
from ._nnls.regularization_path import RegularizationPath, regularization_path
from ._nnls.result import NNLSResult
from .monoid import Map, Monoid

if TYPE_CHECKING:
    from . import emulator, gam, reference, sparse, studies

__version__ = "0.1.0"
__all__ = [
    "Gradients",
    "Map",
    "Monoid",
    "NNLSResult",
    "Proof",
    "RegularizationPath",
    "all",
    "any",
    "bounded_qp",
    "emulator",
    "gam",
    "gemv",
    "lsq_linear",
    "map",
    "maximum_segment_sum",
    "nnls",
    "reduce",
    "reference",
    "regularization_path",
    "replicate",
    "scan",
    "scatter",
    "segment_flags",
    "segmented_reduce",
    "segmented_scan",
    "show_config",
    "sparse",
    "stable_partition",
    "studies",
    "unzip",
    "zip",
]

# Pickles store the module of a class. The public one stays valid if a class moves.
for _class in (Gradients, Map, Monoid, NNLSResult, Proof, RegularizationPath):
    _class.__module__ = __name__


def __getattr__(name: str) -> Any:
    """Import a package of `__all__` when it is first used: each needs a while."""
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
