"""Stable partition on a device: the launches of ``cuda_src/partition.cu``.

A variant needs no kernel of its own: it is written with scans, maps and a scatter.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from .. import monoid
from .._device.arrays import Array, contiguous
from .._device.kernels import CUDA_TYPES, Device
from .._device.launch import CACHED, THREADS, WARP, ceil_div
from ..monoid import Map
from .map_kernel import map_arrays
from .operators import Operators, map_operators, mask_operators
from .scan_kernel import scan_rows
from .scatter_kernel import scatter

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
    plan = plan_of(x.dtype, test if isinstance(test, Map) else None)
    tile, size = THREADS * plan.items, np.int64(n)
    tiles = ceil_div(n, tile)
    x = contiguous(x)
    tested = x if isinstance(test, Map) else contiguous(test)
    y = device.empty((n,), x.dtype)
    # Its exclusive scan ends with the number of all kept elements.
    kept_before = device.zeros((1, tiles + 1), np.int64)
    if n:
        count, move = device.kernels("partition", plan.instances, plan.definitions)
        kept = device.empty((tiles * tile // WARP,), np.uint32)
        count((tiles,), (THREADS,), (tested, size, kept, kept_before))
        scan_rows(kept_before, monoid.add, kept_before, device, exclusive=True)
        move((tiles,), (THREADS,), (x, size, kept, kept_before, y))
    return kept_before[0, tiles:].reshape(()).copy(), y


PLACE = Map(
    "place",
    "(is_kept ? kept : others) - 1",
    lambda is_kept, kept, others: np.subtract(np.where(is_kept, kept, others), 1),
    parameters=("is_kept", "kept", "others"),
)
"""The index of an element, from the numbers of elements of both groups up to it."""


def partition_by_two_scans(
    x: Array, test: Array | Map, device: Device
) -> tuple[Array, Array]:
    """`stable_partition` by two scans, a map and a scatter.

    It is partition2 of the slides: scans of ones and zeros count the kept elements and
    the others, and each element is written to its place.
    """
    n, x = len(x), contiguous(x)
    y = device.empty((n,), x.dtype)
    if n == 0:
        return device.zeros((), np.int64), y
    is_kept = map_arrays(test, (x,), device) if isinstance(test, Map) else test
    counts = device.empty((2, n), np.int64)
    counts[0], counts[1] = is_kept, ~is_kept
    scan_rows(counts, monoid.add, counts, device, exclusive=False)
    kept, others = counts
    others += kept[-1]  # they follow all kept elements
    scatter(y, map_arrays(PLACE, (is_kept, kept, others), device), x, device)
    return kept[-1].copy(), y


class PartitionPlan(NamedTuple):
    """The kernels that count and move, their definitions, and items per thread."""

    instances: tuple[str, str]
    definitions: str
    items: int


@functools.lru_cache(CACHED)
def plan_of(dtype: np.dtype[Any], predicate: Map | None) -> PartitionPlan:
    """The kernels for elements of this dtype, with a predicate or a mask."""
    items, test = items_for(dtype), predicate_operators(predicate, dtype)
    count = f"count_kept<{test.map}, {THREADS}, {items}>"
    move = f"move<{CUDA_TYPES[dtype]}, {THREADS}, {items}>"
    return PartitionPlan((count, move), test.definitions, items)


def predicate_operators(predicate: Map | None, dtype: np.dtype[Any]) -> Operators:
    """The map to bool: the predicate, or the identity map of a mask."""
    if predicate is None:
        return mask_operators()
    return map_operators(predicate, (dtype,), np.dtype(bool), ())
