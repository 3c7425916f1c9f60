"""The launches of ``cuda_src/partition.cu`` and ``cuda_src/scatter.cu``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import monoid
from .._device.arrays import Array
from .._device.kernels import CUDA_TYPES, Device
from .._device.launch import THREADS, WARP, blocks_for, ceil_div
from .operators import predicate
from .scan_kernel import scan

TILE_BYTES = 16 * 1024
"""What the elements of a tile take in shared memory."""
MAX_ITEMS = 16
MONOID = '#include "monoid.cuh"'
"""Where the types of elements are defined."""


def items_for(dtype: np.dtype[Any]) -> int:
    """Items of a thread."""
    return min(MAX_ITEMS, max(1, TILE_BYTES // (THREADS * dtype.itemsize)))


def stable_partition(
    x: Array, tested: Array, test: monoid.Map | None, device: Device
) -> tuple[Array, Array]:
    """(n,) -> count, (n,): what is kept, then the rest.

    `tested` is the mask where there is no `test`, and x itself where there is one.
    """
    n = len(x)
    y = device.empty((n,), x.dtype)
    items = items_for(x.dtype)
    tile = THREADS * items
    tiles = ceil_div(n, tile)
    kept_before = device.zeros((1, tiles + 1), np.int64)
    if n:
        kept = device.empty((tiles * tile // WARP,), np.uint32)
        definitions, name = predicate(test, tested.dtype)
        count = f"count_kept<{name}, {THREADS}, {items}>"
        move = f"move<{CUDA_TYPES[x.dtype]}, {THREADS}, {items}>"
        size = np.int64(n)
        device.kernel("partition", count, definitions)(
            (tiles,), (THREADS,), (tested, size, kept, kept_before)
        )
        scan(kept_before, monoid.add, kept_before, device, exclusive=True)
        device.kernel("partition", move, MONOID)(
            (tiles,), (THREADS,), (x, size, kept, kept_before, y)
        )
    return kept_before[0, tiles:].reshape(()).copy(), y


def scatter(target: Array, indices: Array, values: Array, device: Device) -> None:
    """target[indices] = values, in place; all are contiguous."""
    width = math.prod(target.shape[1:])
    count = len(indices) * width
    if count == 0:
        return
    name = f"scatter<{CUDA_TYPES[target.dtype]}>"
    device.kernel("scatter", name, MONOID)(
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
