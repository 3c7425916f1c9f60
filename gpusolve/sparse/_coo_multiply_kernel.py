"""The element-wise product on a device: launches ``cuda_src/coo_multiply.cu``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import monoid
from .._blocks.scan_kernel import scan_rows
from .._blocks.segments_kernel import segmented_reduce
from .._device.arrays import Array, contiguous, namespace
from .._device.kernels import CUDA_TYPES, Device
from .._device.launch import THREADS, blocks_for, ceil_div
from ._inputs import Container, Coordinates, coordinates

MERGE_ITEMS = 7
"""Steps of the merge path per thread."""
GALLOP_ITEMS = 4
"""Keys of the shorter list per thread: the first is found by binary search, the others
by galloping from the previous position."""
GALLOP_RATIO = 44
"""Ratio of the list lengths from which on galloping moves fewer bytes.

With lists of n and r n keys, merging reads 8 n (1 + r) bytes. Galloping reads 8 n and,
for each key, 2 log2(r) sectors of 32 bytes: fewer where r > 8 log2(r). Not measured
on a GPU yet.
"""


class Entries(NamedTuple):
    """Sorted entries.

    Attributes
    ----------
    keys : (n,) array of int64
        row * columns + column, strictly increasing.
    values : (n,) array
    """

    keys: Array
    values: Array


class Matches(NamedTuple):
    """The positions of equal keys in both operands.

    Attributes
    ----------
    in_a, in_b : (tiles * capacity,) array of int64
        The matches of tile t start at ``t * capacity``.
    counts : (tiles + 1,) array of int64
        The number of matches of each tile, and a zero.
    """

    in_a: Array
    in_b: Array
    counts: Array


def coo_multiply(
    A: Container, B: Container, method: str, device: Device
) -> Coordinates:
    """The product, sorted by row and column, without zeros, on the current stream."""
    with device.current():
        product = _product(coordinates(A), coordinates(B), method, device)
        return _without_zeros(product)


def _product(
    A: Coordinates, B: Coordinates, method: str, device: Device
) -> Coordinates:
    a, b = sorted_entries(A, device), sorted_entries(B, device)
    a, b = with_zeros(a, b, device), with_zeros(b, a, device)
    dtype = np.result_type(a.values.dtype, b.values.dtype)
    a, b = (one._replace(values=one.values.astype(dtype, copy=False)) for one in (a, b))
    index = np.result_type(A.rows.dtype, B.rows.dtype)
    if len(a.keys) == 0 or len(b.keys) == 0:
        return _allocate(0, A.shape, index, dtype, device)
    if method == "auto":
        method = best_method(len(a.keys), len(b.keys))
    if method in SEARCHES:
        return _search_twice(a, b, SEARCHES[method], A.shape, index, device)
    matches = FINDERS[method](a.keys, b.keys, device)
    return _multiply_matches(matches, a, b, A.shape, index, device)


def best_method(a_count: int, b_count: int) -> str:
    """The method that moves the fewest bytes for operands of these sizes."""
    shorter, longer = sorted((a_count, b_count))
    return "gallop" if longer > GALLOP_RATIO * shorter else "merge"


# ---- keys ----------------------------------------------------------------------------


def sorted_entries(operand: Coordinates, device: Device) -> Entries:
    """The entries sorted by key, with duplicates summed; the operand is not changed.

    Whether the entries are sorted already is read from the device.
    """
    keys, increasing = _keys(operand, device)
    if increasing:
        return Entries(keys, contiguous(operand.values))
    return _sums_by_key(keys, operand.values, device)


def with_zeros(entries: Entries, others: Entries, device: Device) -> Entries:
    """Add a zero at each key of the others whose value is not finite."""
    if others.values.dtype.kind not in "fc":
        return entries
    keys, values = entries
    xp = namespace(keys)
    needed = others.keys[~xp.isfinite(others.values)]
    if len(needed) == 0:
        return entries
    zeros = xp.zeros(len(needed), values.dtype)
    keys, values = xp.concatenate([keys, needed]), xp.concatenate([values, zeros])
    return _sums_by_key(keys, values, device)


def _keys(operand: Coordinates, device: Device) -> tuple[Array, bool]:
    """The key of each entry, and whether the keys are strictly increasing."""
    count = len(operand.values)
    keys = device.empty((count,), np.int64)
    disorder = device.zeros((1,), np.int32)
    rows, columns = contiguous(operand.rows), contiguous(operand.columns)
    kernel = device.kernel("coo_multiply", f"make_keys<{CUDA_TYPES[rows.dtype]}>")
    kernel(
        (blocks_for(count),),
        (THREADS,),
        (rows, columns, np.int64(count), np.int64(operand.shape[1]), keys, disorder),
    )
    return keys, not int(disorder[0])


def _sums_by_key(keys: Array, values: Array, device: Device) -> Entries:
    """Sort by key, and sum the values of equal keys."""
    xp = namespace(keys)
    order = xp.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    bounds = xp.ones((len(keys) + 1,), bool)
    bounds[1:-1] = keys[1:] != keys[:-1]
    offsets = xp.flatnonzero(bounds)
    if len(offsets) == len(keys) + 1:
        return Entries(keys, values)
    sums = segmented_reduce(values, offsets, monoid.add, device)
    return Entries(keys[offsets[:-1]], sums)


# ---- two searches --------------------------------------------------------------------

SEARCHES = {"linear": "LinearSearch", "binary": "BinarySearch"}
"""The methods of the document, and the template arguments of its kernels."""


def _search_twice(
    a: Entries,
    b: Entries,
    search: str,
    shape: tuple[int, int],
    index: np.dtype[Any],
    device: Device,
) -> Coordinates:
    """Search and count the matches, then search again and multiply."""
    dtype = a.values.dtype
    count = device.kernel("coo_multiply", f"count_found<{search}, {THREADS}>")
    blocks = min(blocks_for(len(a.keys)), count.resident_blocks(THREADS, 0))
    launch = (blocks,), (THREADS,)
    counts = device.empty((blocks,), np.int64)
    sizes = np.int64(len(a.keys)), np.int64(len(b.keys))
    count(*launch, (a.keys, sizes[0], b.keys, sizes[1], counts))
    product = _allocate(int(counts.sum()), shape, index, dtype, device)
    numbers = f"{CUDA_TYPES[dtype]}, {CUDA_TYPES[index]}"
    device.kernel("coo_multiply", f"multiply_found<{numbers}, {search}, {THREADS}>")(
        *launch,
        (
            *(a.keys, a.values, sizes[0]),
            *(b.keys, b.values, sizes[1]),
            *(counts, np.int64(shape[1])),
            *(product.rows, product.columns, product.values),
        ),
    )
    return product


# ---- one search ----------------------------------------------------------------------


def find_by_merge(a_keys: Array, b_keys: Array, device: Device) -> Matches:
    """The matches, by merging; every block has the same work."""
    sizes = np.int64(len(a_keys)), np.int64(len(b_keys))
    tile_size = THREADS * MERGE_ITEMS
    tiles = ceil_div(len(a_keys) + len(b_keys), tile_size)
    shape = f"{THREADS}, {MERGE_ITEMS}"
    operands = a_keys, sizes[0], b_keys, sizes[1]
    splits = device.empty((tiles + 1,), np.int64)
    device.kernel("coo_multiply", f"split_path<{shape}>")(
        (blocks_for(tiles + 1),), (THREADS,), (*operands, np.int64(tiles), splits)
    )
    matches = _allocate_matches(tiles, (tile_size + 1) // 2, device)
    device.kernel("coo_multiply", f"find_by_merge<{shape}>")(
        (tiles,), (THREADS,), (*operands, splits, *matches)
    )
    return matches


def find_by_gallop(a_keys: Array, b_keys: Array, device: Device) -> Matches:
    """The matches, by searching the longer list for each key of the shorter one."""
    if len(a_keys) > len(b_keys):
        swapped = find_by_gallop(b_keys, a_keys, device)
        return Matches(swapped.in_b, swapped.in_a, swapped.counts)
    sizes = np.int64(len(a_keys)), np.int64(len(b_keys))
    tile_size = THREADS * GALLOP_ITEMS
    tiles = ceil_div(len(a_keys), tile_size)
    matches = _allocate_matches(tiles, tile_size, device)
    shape = f"{THREADS}, {GALLOP_ITEMS}"
    device.kernel("coo_multiply", f"find_by_gallop<{shape}>")(
        (tiles,), (THREADS,), (a_keys, sizes[0], b_keys, sizes[1], *matches)
    )
    return matches


FINDERS = {"merge": find_by_merge, "gallop": find_by_gallop}


def _allocate_matches(tiles: int, capacity: int, device: Device) -> Matches:
    in_a, in_b = (device.empty((tiles * capacity,), np.int64) for _ in "AB")
    return Matches(in_a, in_b, device.zeros((tiles + 1,), np.int64))


def _multiply_matches(
    matches: Matches,
    a: Entries,
    b: Entries,
    shape: tuple[int, int],
    index: np.dtype[Any],
    device: Device,
) -> Coordinates:
    """The products of all matches, in the order of the tiles."""
    dtype = a.values.dtype
    before = matches.counts
    tiles = len(before) - 1
    rows = before.reshape(1, -1)
    scan_rows(rows, monoid.add, rows, device, exclusive=True)
    product = _allocate(int(before[tiles]), shape, index, dtype, device)
    numbers = f"{CUDA_TYPES[dtype]}, {CUDA_TYPES[index]}"
    device.kernel("coo_multiply", f"multiply_matches<{numbers}>")(
        (tiles,),
        (THREADS,),
        (
            *(matches.in_a, matches.in_b, np.int64(len(matches.in_a) // tiles), before),
            *(a.keys, a.values, b.values, np.int64(shape[1])),
            *(product.rows, product.columns, product.values),
        ),
    )
    return product


# ---- results -------------------------------------------------------------------------


def _allocate(
    count: int,
    shape: tuple[int, int],
    index: np.dtype[Any],
    dtype: np.dtype[Any],
    device: Device,
) -> Coordinates:
    """Allocate the coordinates of `count` entries."""
    rows, columns = (device.empty((count,), index) for _ in shape)
    return Coordinates(rows, columns, device.empty((count,), dtype), shape)


def _without_zeros(product: Coordinates) -> Coordinates:
    """The entries whose value is not zero; NaN is not zero."""
    rows, columns, values, shape = product
    kept = namespace(values).flatnonzero(values != 0)
    if len(kept) == len(values):
        return product
    return Coordinates(rows[kept], columns[kept], values[kept], shape)
