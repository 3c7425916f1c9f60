"""Strided views, and copies of NumPy arrays to a device with strides and alignment.

`cupy.asarray` makes a contiguous copy instead.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

STRIDED_VIEWS = [
    lambda x: x.T,
    lambda x: x[::-1],
    lambda x: x[:, ::-2],
    lambda x: x[1:, 3:],
    lambda x: x.T[::3].T,
    lambda x: x[:, None, :],
]
"""Views of an array with two axes."""


def copy_to_device(cupy: Any, array: np.ndarray[Any, Any]) -> Any:
    """A copy on the current device with the same memory layout."""
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
