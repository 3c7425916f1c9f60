"""Maps on a device: the launch of ``cuda_src/map.cu``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._device.arrays import Array, contiguous
from .._device.kernels import Device
from .._device.launch import THREADS, blocks_for
from ..monoid import Map
from .operators import Operators, map_operators


def map_arrays(f: Map, arrays: Sequence[Array], device: Device) -> Array:
    """Arrays of equal shapes, (...) -> (...), or (..., k) if `f` has k expressions."""
    given = tuple([array.dtype for array in arrays])
    ops = map_operators(f, given, f.dtype_of(*given), f.result_shape)
    x, *more = [contiguous(array).reshape(1, -1) for array in arrays]
    return map_elements(x, ops, device, more).reshape(arrays[0].shape + f.result_shape)


def map_elements(
    x: Array, ops: Operators, device: Device, more: Sequence[Array] = ()
) -> Array:
    """Apply the map in a separate pass; return x if the map is the identity.

    x is (rows, length, *element), contiguous. `more` are other arrays of numbers, as
    many.
    """
    if ops.map == ops.keep:
        return x
    rows, length = x.shape[:2]
    y = device.empty((rows, length, *ops.element_shape), ops.dtype)
    instances = (f"map_elements<{ops.map}{ops.more}>",)
    (kernel,) = device.kernels("map", instances, ops.definitions)
    size = rows * length
    kernel((blocks_for(size),), (THREADS,), (x, np.int64(size), y, *more))
    return y
