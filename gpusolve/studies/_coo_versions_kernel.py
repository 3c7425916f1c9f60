"""The kernels of Cupp's document on a device: launches ``cuda_src/coo_versions.cu``.

Version 1 and 2, the first attempt, and what section 5.3 proposes, for study.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, namespace
from .._device.kernels import CUDA_TYPES, Device
from .._device.launch import THREADS, blocks_for, ceil_div
from ..sparse._coo_multiply_kernel import (
    ProductReport,
    allocate,
    completed,
    make_keys,
    sorted_entries,
    tile_states,
    to_common_dtypes,
    to_coordinates,
)
from ..sparse._inputs import Container, Coordinates, coordinates

SCRATCHPAD_BYTES = 4096
"""Shared memory of a block for its results, as large as a HammerBlade tile's."""


class Grid(NamedTuple):
    """The blocks of a launch, the tiles of the document, and their threads.

    Without a number of blocks there is a thread for each element, but no more blocks
    than are resident.
    """

    blocks: int | None = None
    threads: int = THREADS

    def blocks_for(self, elements: int, kernel: Any, shared_bytes: int = 0) -> int:
        """The number of blocks."""
        if self.blocks is not None:
            return self.blocks
        resident = int(kernel.resident_blocks(self.threads, shared_bytes))
        return min(max(1, ceil_div(elements, self.threads)), resident)


Version = Callable[[Coordinates, Coordinates, Grid, Device], Coordinates]
"""Launches kernels that multiply two operands; the products are in the order of A."""


def coo_versions(
    A: Container, B: Container, method: str, grid: Grid, device: Device
) -> Coordinates:
    """The product, sorted by row and column, without zeros, on the current stream.

    Raises
    ------
    MemoryError
        If the method is "scratchpad", and a block has too many results.
    """
    a, b = coordinates(A), coordinates(B)
    if not (_can_be_multiplied(a, device) and _can_be_multiplied(b, device)):
        a, b = completed(a, b, device)
    if method in ("binary", "even"):
        b = to_coordinates(sorted_entries(b, device), b.shape, b.rows.dtype)
    a, b = to_common_dtypes(a, b)
    if len(a.values) == 0 or len(b.values) == 0:
        return allocate(0, a, device)
    product = VERSIONS[method](a, b, grid, device)
    return _sort_by_key(_take(product, product.values != 0), device)


def _can_be_multiplied(operand: Coordinates, device: Device) -> bool:
    """Whether no place is stored twice, and all values are finite."""
    keys, increasing = make_keys(operand, device)
    xp, values = namespace(keys), operand.values
    if not increasing:
        keys = xp.sort(keys)
        if bool((keys[1:] == keys[:-1]).any()):
            return False
    return values.dtype.kind not in "fc" or bool(xp.isfinite(values).all())


def _sort_by_key(product: Coordinates, device: Device) -> Coordinates:
    """The entries sorted by key."""
    keys, increasing = make_keys(product, device)
    return product if increasing else _take(product, namespace(keys).argsort(keys))


def _take(entries: Coordinates, indices: Array) -> Coordinates:
    """The entries with these indices, or of this mask."""
    rows, columns, values = (array[indices] for array in entries[:3])
    return Coordinates(rows, columns, values, entries.shape)


# ---- versions 1 and 2 ----------------------------------------------------------------

SEARCHES = {"linear": "LinearSearch", "binary": "BinarySearch"}
"""Versions 1 and 2, and the template arguments of their kernels."""


def search_twice(
    search: str, a: Coordinates, b: Coordinates, grid: Grid, device: Device
) -> Coordinates:
    """Search and count the matches, then search again and multiply."""
    counts = count_found(search, a, b, grid, device)
    return multiply_found(search, a, b, counts, grid.threads, device)


def count_found(
    search: str, a: Coordinates, b: Coordinates, grid: Grid, device: Device
) -> Array:
    """The number of matches of each block's part of A."""
    instances = search_instances(search, a.values.dtype, a.rows.dtype, grid.threads)
    count, _ = device.kernels("coo_versions", instances)
    blocks = grid.blocks_for(len(a.values), count)
    counts = device.empty((blocks,), np.int64)
    left = a.rows, a.columns, np.int64(len(a.values))
    right = b.rows, b.columns, np.int64(len(b.values))
    count((blocks,), (grid.threads,), (*left, *right, np.int64(a.shape[1]), counts))
    return counts


def multiply_found(
    search: str,
    a: Coordinates,
    b: Coordinates,
    counts: Array,
    threads: int,
    device: Device,
) -> Coordinates:
    """The products. A block writes after the matches of all blocks before it."""
    instances = search_instances(search, a.values.dtype, a.rows.dtype, threads)
    _, multiply = device.kernels("coo_versions", instances)
    product = allocate(int(counts.sum()), a, device)
    left, right = ((*entries[:3], np.int64(len(entries.values))) for entries in (a, b))
    multiply(
        (len(counts),),
        (threads,),
        (*left, *right, np.int64(a.shape[1]), counts, *product[:3]),
    )
    return product


def search_instances(
    search: str, dtype: np.dtype[Any], index: np.dtype[Any], threads: int = THREADS
) -> tuple[str, str]:
    """The kernels of a version, with their template arguments."""
    found = f"{CUDA_TYPES[index]}, {search}, {threads}>"
    return f"count_found<{found}", f"multiply_found<{CUDA_TYPES[dtype]}, {found}"


# ---- the first attempt ---------------------------------------------------------------


def multiply_in_scratchpad(
    a: Coordinates, b: Coordinates, grid: Grid, device: Device
) -> Coordinates:
    """Search once; the products wait in shared memory until all blocks have counted."""
    dtype, index = a.values.dtype, a.rows.dtype
    instances = (scratchpad_instance(dtype, index, grid.threads),)
    (multiply,) = device.kernels("coo_versions", instances)
    blocks = grid.blocks_for(len(a.values), multiply, SCRATCHPAD_BYTES)
    places = scratchpad_places(dtype, index)
    counts = device.empty((blocks,), np.int64)
    product = allocate(min(len(a.values), len(b.values)), a, device)
    arrived = device.zeros((1,), np.uint64)
    left, right = ((*entries[:3], np.int64(len(entries.values))) for entries in (a, b))
    numbers = np.int64(a.shape[1]), np.int64(places)
    multiply(
        (blocks,),
        (grid.threads,),
        (*left, *right, *numbers, counts, arrived, *product[:3]),
        shared_mem=SCRATCHPAD_BYTES,
        cooperative=True,
    )
    if (most := int(counts.max())) > places:
        raise MemoryError(
            f"method 'scratchpad' must have at most {places} results for each block, "
            f"got {most} with {blocks} blocks"
        )
    return _take(product, slice(int(counts.sum())))


def scratchpad_places(dtype: np.dtype[Any], index: np.dtype[Any]) -> int:
    """Products that a scratchpad can hold, in multiples of 16."""
    return SCRATCHPAD_BYTES // (dtype.itemsize + 2 * index.itemsize) // 16 * 16


def scratchpad_instance(
    dtype: np.dtype[Any], index: np.dtype[Any], threads: int = THREADS
) -> str:
    """The kernel of "scratchpad", with its template arguments."""
    numbers = f"{CUDA_TYPES[dtype]}, {CUDA_TYPES[index]}"
    return f"multiply_in_scratchpad<{numbers}, {threads}>"


# ---- even multiplications ------------------------------------------------------------


def multiply_evenly(
    a: Coordinates, b: Coordinates, grid: Grid, device: Device
) -> Coordinates:
    """Search once and store the matches; then give each block equally many of them."""
    return multiply_matches(find_matches(a, b, device), a, b, grid, device)


def find_matches(a: Coordinates, b: Coordinates, device: Device) -> Array:
    """The positions of equal keys, in A and in B, in the order of A."""
    find, _ = device.kernels(
        "coo_versions", even_instances(a.values.dtype, a.rows.dtype)
    )
    tiles = blocks_for(len(a.values))
    report, states = tile_states(tiles, device)
    matches = device.empty((len(a.values), 2), np.int64)
    left = a.rows, a.columns, np.int64(len(a.values))
    right = b.rows, b.columns, np.int64(len(b.values))
    find(
        (tiles,),
        (THREADS,),
        (*left, *right, np.int64(a.shape[1]), states, report, matches),
    )
    return matches[: ProductReport(*map(int, report.tolist())).results]


def multiply_matches(
    matches: Array, a: Coordinates, b: Coordinates, grid: Grid, device: Device
) -> Coordinates:
    """The products of all matches, of which each block has an equal part."""
    _, multiply = device.kernels(
        "coo_versions", even_instances(a.values.dtype, a.rows.dtype, grid.threads)
    )
    results = len(matches)
    product = allocate(results, a, device)
    multiply(
        (grid.blocks_for(results, multiply),),
        (grid.threads,),
        (matches, np.int64(results), *a[:3], b.values, *product[:3]),
    )
    return product


def even_instances(
    dtype: np.dtype[Any], index: np.dtype[Any], threads: int = THREADS
) -> tuple[str, str]:
    """The kernels of "even", with their template arguments; the second has tiles."""
    find = f"find_matches<{CUDA_TYPES[index]}, {THREADS}>"
    numbers = f"{CUDA_TYPES[dtype]}, {CUDA_TYPES[index]}"
    return find, f"multiply_matches<{numbers}, {threads}>"


VERSIONS: dict[str, Version] = {
    **{name: partial(search_twice, search) for name, search in SEARCHES.items()},
    "scratchpad": multiply_in_scratchpad,
    "even": multiply_evenly,
}
