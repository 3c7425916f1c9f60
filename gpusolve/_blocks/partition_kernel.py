"""Stable partition on a device: the launches of ``cuda_src/partition.cu``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import monoid
from .._device.arrays import Array, contiguous
from .._device.kernels import CUDA_TYPES, Device
from .._device.launch import THREADS, WARP, ceil_div
from ..monoid import Map
from .operators import ELEMENT_TYPES, predicate_source
from .scan_kernel import scan_rows

TILE_BYTES = 16 * 1024
"""Shared memory for the elements of a tile."""
MAX_ITEMS = 16


def items_for(dtype: np.dtype[Any]) -> int:
    """Items per thread."""
    return min(MAX_ITEMS, max(1, TILE_BYTES // (THREADS * dtype.itemsize)))


def stable_partition(
    x: Array, test: Array | Map, device: Device
) -> tuple[Array, Array]:
    """(n,) -> count, (n,): the elements that are kept, then the others.

    `test` is a mask of the elements, or a predicate.
    """
    n = len(x)
    items = items_for(x.dtype)
    tile = THREADS * items
    tiles = ceil_div(n, tile)
    with device.current():
        x = contiguous(x)
        predicate, tested = (test, x) if isinstance(test, Map) else (None, test)
        y = device.empty((n,), x.dtype)
        kept_before = device.zeros((1, tiles + 1), np.int64)
        if n:
            kept = device.empty((tiles * tile // WARP,), np.uint32)
            definitions, name = predicate_source(predicate, tested.dtype)
            count = f"count_kept<{name}, {THREADS}, {items}>"
            move = f"move<{CUDA_TYPES[x.dtype]}, {THREADS}, {items}>"
            size = np.int64(n)
            device.kernel("partition", count, definitions)(
                (tiles,), (THREADS,), (contiguous(tested), size, kept, kept_before)
            )
            scan_rows(kept_before, monoid.add, kept_before, device, exclusive=True)
            device.kernel("partition", move, ELEMENT_TYPES)(
                (tiles,), (THREADS,), (x, size, kept, kept_before, y)
            )
        return kept_before[0, tiles:].reshape(()).copy(), y
