"""NumPy's arrays on a device, with the strides and the alignment that they have.

`cupy.asarray` would make them contiguous.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds


def on_device(cupy: Any, array: np.ndarray[Any, Any]) -> Any:
    """The array on the current device, laid out in memory as on the host."""
    flags = array.flags
    if array.size == 0 or (flags.c_contiguous and flags.aligned):
        return cupy.asarray(array)
    if not array.dtype.isnative:
        return on_device(cupy, array.astype(array.dtype.newbyteorder("=")))
    low, high = byte_bounds(array)
    gap = low % array.itemsize
    room = np.zeros(gap + high - low, np.uint8)
    room[gap:] = np.frombuffer(ctypes.string_at(low, high - low), np.uint8)
    first = gap + array.ctypes.data - low
    memory = cupy.asarray(room).data + first
    return cupy.ndarray(array.shape, array.dtype, memory, array.strides)
