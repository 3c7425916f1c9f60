"""Scatter on a device: the launch of ``cuda_src/scatter.cu``."""

from __future__ import annotations

import math

import numpy as np

from .._device.arrays import Array, contiguous, namespace, written
from .._device.kernels import CUDA_TYPES, Device
from .._device.launch import THREADS, blocks_for
from .operators import ELEMENT_TYPES


def scatter_into(target: Array, indices: Array, values: Array, device: Device) -> Array:
    """``target[indices] = values``; the inputs may overlap the target."""
    written_to = contiguous(target)  # a copy only if it is misaligned
    places = indices.astype(np.int64, copy=False)  # too large: negative, also left out
    values = values.astype(target.dtype, copy=False)
    places, values = (_not_overlapping(target, a) for a in (places, values))
    scatter(written_to, places, values, device)
    return target if written_to is target else written(written_to, target)


def scatter(target: Array, indices: Array, values: Array, device: Device) -> None:
    """``target[indices] = values``, in place; all are contiguous."""
    width = math.prod(target.shape[1:])
    count = len(indices) * width
    if count == 0:
        return
    instances = (f"scatter<{CUDA_TYPES[target.dtype]}>",)
    (kernel,) = device.kernels("scatter", instances, ELEMENT_TYPES)
    kernel(
        (blocks_for(count),),
        (THREADS,),
        (
            indices,
            values,
            np.int64(len(indices)),
            np.int64(width),
            target,
            np.int64(len(target)),
        ),
    )


def _not_overlapping(target: Array, array: Array) -> Array:
    """`array`, contiguous; a copy if it may share memory with `target`."""
    if namespace(target).may_share_memory(target, array):
        return array.copy()
    return contiguous(array)
