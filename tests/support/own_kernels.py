"""Kernels of the tests on the emulator, which may include the package's headers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gpusolve import _emulator
from gpusolve._device import kernels
from gpusolve._device.kernels import CUDA_TYPES

FOLDER = Path(__file__).parents[1]


def own_kernel(
    file: str, name: str, dtype: Any = None, definitions: str = ""
) -> _emulator.Kernel:
    """A kernel of a file in ``tests/``, perhaps an instance for a dtype."""
    instance = f"{name}<{CUDA_TYPES[np.dtype(dtype)]}>" if dtype else name
    path, headers = FOLDER / file, kernels.source_directory()
    if path.parent.name == "faulty_kernels":
        headers = path.parent
    return _emulator.Kernel(path, instance, headers, definitions)


empty = _emulator.empty
"""Memory without values: the emulator reports what reads it."""
