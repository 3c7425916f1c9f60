"""Batched solvers for NVIDIA GPUs, on CuPy; the same calls run on NumPy."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import emulator, gam, reference, sparse, studies
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

_MODULES = {
    "_blocks.map": "map unzip zip",
    "_blocks.partition": "replicate scatter stable_partition",
    "_blocks.reduce": "all any maximum_segment_sum reduce",
    "_blocks.scan": "scan segmented_scan",
    "_blocks.segments": "segment_flags segmented_reduce",
    "_device.config": "show_config",
    "_gemv.gemv": "gemv",
    "_nnls.bounded_qp": "bounded_qp",
    "_nnls.feasibility": "Proof",
    "_nnls.gradients": "Gradients",
    "_nnls.nnls": "lsq_linear nnls",
    "_nnls.regularization_path": "RegularizationPath regularization_path",
    "_nnls.result": "NNLSResult",
    "monoid": "Map Monoid",
}
"""Where public names are defined."""

_MODULE_OF = {name: key for key, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is first used: each module needs a while."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_MODULE_OF.get(name, name)}")
    found = getattr(module, name) if name in _MODULE_OF else module
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__]
