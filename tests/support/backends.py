"""Backends: parametrisations, whether there is a GPU, and copies of arrays to it."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.lib.array_utils import byte_bounds

from gpusolve._device.arrays import is_cupy as is_cupy
from gpusolve._device.arrays import namespace as namespace
from gpusolve._device.arrays import on_host as on_host
from gpusolve._emulator import nvcc, why_missing

CUDA = pytest.param("cuda", marks=pytest.mark.gpu)

numpy_only = pytest.mark.parametrize("backend", ["numpy"], indirect=True)
on_emulator = pytest.mark.parametrize("backend", ["emulator"], indirect=True)
without_gpu = pytest.mark.parametrize("backend", ["numpy", "emulator"], indirect=True)
"""Restrictions of the `backend` fixture."""

also_by_fallback = pytest.mark.parametrize(
    "backend", ["numpy", "fallback", "emulator", CUDA], indirect=True
)
"""All backends, and NumPy as if the CPU solver had not been compiled."""

needs_emulator = pytest.mark.skipif(
    bool(why_missing()), reason="the emulator cannot run: see `show_config()`"
)
needs_nvcc = pytest.mark.skipif(
    bool(why_missing() or nvcc.why_missing()),
    reason="whole programs need nvcc: `make test` installs it",
)


def by_object(solve: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a solver for which the compiled object computes, not the emulator."""
    with mock.patch.dict(os.environ):
        os.environ.pop("GPUSOLVE_EMULATE", None)
        return solve(*arguments, **options)


# ---- GPUs ----------------------------------------------------------------------------

STAND_IN = os.environ.get("GPUSOLVE_TEST_STAND_IN", "") not in ("", "0")
"""Whether GPU tests run on the stand-in for CuPy, and so on the emulator."""


@functools.cache
def why_no_cuda() -> str:
    """Why the tests cannot use a GPU; empty if they can."""
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        return f"CuPy finds no usable GPU: {error}"
    return ""


def copy_to_device(cupy: Any, array: np.ndarray[Any, Any]) -> Any:
    """A copy on the current device with the same strides and alignment.

    `cupy.asarray` makes a contiguous copy instead.
    """
    flags = array.flags
    if array.size == 0 or (flags.c_contiguous and flags.aligned):
        return cupy.asarray(array)
    if not array.dtype.isnative:
        return copy_to_device(cupy, array.astype(array.dtype.newbyteorder("=")))
    low, high = byte_bounds(array)
    misalignment = low % array.itemsize
    buffer = np.zeros(misalignment + high - low, np.uint8)
    buffer[misalignment:] = np.frombuffer(ctypes.string_at(low, high - low), np.uint8)
    first = misalignment + array.ctypes.data - low
    pointer = cupy.asarray(buffer).data + first
    return cupy.ndarray(array.shape, array.dtype, pointer, array.strides)
