"""The element-wise product on a device: launches ``cuda_src/coo_multiply.cu``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import monoid
from .._blocks.scan_kernel import state_words
from .._blocks.segments_kernel import segmented_reduce
from .._device.arrays import Array, contiguous, namespace
from .._device.kernels import CUDA_TYPES, Device
from .._device.launch import CACHED, THREADS, blocks_for, ceil_div
from ._inputs import Container, Coordinates, coordinates

MERGE_ITEMS = 7
"""Steps of the merge path per thread."""
GALLOP_ITEMS = 4
"""Keys of the shorter list per thread: the first is found by binary search, the others
by galloping from the previous position."""
GALLOP_RATIO = 1024
"""Ratio of the numbers of entries above which "gallop" is chosen.

Both methods read all keys. Galloping also searches for each key of the shorter list;
merging reads the longer list's values, which galloping needs only to check whether they
are finite. By the counted sectors of 65,536 entries, galloping moves less from a ratio
between 128 and 256 on for int32, 256 and 512 for bool, and 512 and 1024 for float32,
float64 and complex128: the largest is chosen. Not measured on a GPU yet.
"""

STATE_WORDS = state_words(np.dtype(np.int64).itemsize)
"""Words of a tile's state in ``look_back.cuh``, for a count of 64 bits."""


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


Multiply = Callable[[Coordinates, Coordinates, Coordinates, Device], Array]
"""Launches kernels that write the product of two operands; returns their report."""


class ProductReport(NamedTuple):
    """What a launch reports; ``ProductReport`` in ``coo.cuh``.

    Attributes
    ----------
    disorder : int
        Not zero if the keys of an operand do not strictly increase.
    unmatched : int
        If they do, the number of values without a match that are not finite.
    results : int
    """

    disorder: int
    unmatched: int
    results: int


def coo_multiply(
    A: Container, B: Container, method: str, device: Device
) -> Coordinates:
    """The product, sorted by row and column, without zeros, on the current stream."""
    a, b = coordinates(A), coordinates(B)
    if method == "auto":
        method = best_method(len(a.values), len(b.values))
    return _search_once(a, b, ONE_SEARCH[method], device)


def best_method(a_count: int, b_count: int) -> str:
    """The method for operands of these sizes, by the bytes that it moves."""
    shorter, longer = sorted((a_count, b_count))
    return "gallop" if longer > GALLOP_RATIO * shorter else "merge"


# ---- operands ------------------------------------------------------------------------


def to_common_dtypes(A: Coordinates, B: Coordinates) -> tuple[Coordinates, Coordinates]:
    """Both operands as contiguous arrays, with common dtypes of indices and values."""
    index, dtype = _common(A.rows, B.rows), _common(A.values, B.values)
    a, b = (
        Coordinates(
            contiguous(matrix.rows, index),
            contiguous(matrix.columns, index),
            contiguous(matrix.values, dtype),
            matrix.shape,
        )
        for matrix in (A, B)
    )
    return a, b


def _common(a: Array, b: Array) -> np.dtype[Any]:
    """The dtype to which both are converted."""
    return a.dtype if a.dtype == b.dtype else np.result_type(a.dtype, b.dtype)


def completed(
    A: Coordinates, B: Coordinates, device: Device
) -> tuple[Coordinates, Coordinates]:
    """Both operands sorted, with zeros where the other operand is not finite."""
    a, b = sorted_entries(A, device), sorted_entries(B, device)
    index = _common(A.rows, B.rows)
    return (
        to_coordinates(add_zeros(a, b, device), A.shape, index),
        to_coordinates(add_zeros(b, a, device), A.shape, index),
    )


def sorted_entries(operand: Coordinates, device: Device) -> Entries:
    """The entries sorted by key, with duplicates summed; the operand is not changed.

    Whether the entries are sorted already is read from the device.
    """
    keys, increasing = make_keys(operand, device)
    if increasing:
        return Entries(keys, contiguous(operand.values))
    return _sums_by_key(keys, operand.values, device)


def add_zeros(entries: Entries, others: Entries, device: Device) -> Entries:
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


def make_keys(operand: Coordinates, device: Device) -> tuple[Array, bool]:
    """The key of each entry, and whether the keys are strictly increasing."""
    count = len(operand.values)
    keys = device.empty((count,), np.int64)
    disorder = device.zeros((1,), np.int32)
    rows, columns = contiguous(operand.rows), contiguous(operand.columns)
    instances = (f"make_keys<{CUDA_TYPES[rows.dtype]}>",)
    (kernel,) = device.kernels("coo_multiply", instances)
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


def to_coordinates(
    entries: Entries, shape: tuple[int, int], index: np.dtype[Any]
) -> Coordinates:
    """The entries, with row and column instead of the key."""
    keys, values = entries
    rows = keys // shape[1]
    columns = keys - rows * shape[1]
    return Coordinates(rows.astype(index), columns.astype(index), values, shape)


# ---- one search ----------------------------------------------------------------------


def _search_once(
    A: Coordinates, B: Coordinates, multiply: Multiply, device: Device
) -> Coordinates:
    """Search, multiply and check at once; sort and repeat only if the check fails."""
    product, report = _attempt(A, B, multiply, device)
    if report.disorder or report.unmatched:
        A, B = completed(A, B, device)
        product, report = _attempt(A, B, multiply, device)
    rows, columns, values = (array[: report.results] for array in product[:3])
    return Coordinates(rows, columns, values, A.shape)


def _attempt(
    A: Coordinates, B: Coordinates, multiply: Multiply, device: Device
) -> tuple[Coordinates, ProductReport]:
    """The product in the first places of arrays, if the report confirms the operands.

    Reading the report is the only synchronisation.
    """
    a, b = to_common_dtypes(A, B)
    places = min(len(a.values), len(b.values))
    product = allocate(places, a, device)
    if len(a.values) + len(b.values) == 0:
        return product, ProductReport(0, 0, 0)
    report = multiply(a, b, product, device)
    return product, ProductReport(*map(int, report.tolist()))


def multiply_by_merge(
    a: Coordinates, b: Coordinates, product: Coordinates, device: Device
) -> Array:
    """Launch the merge of both operands, and return the report."""
    tiles, numbers = _merge_numbers(len(a.values), len(b.values), a.shape[1])
    a_count, b_count, width, tile_count = numbers
    splits = device.empty((tiles + 1,), np.int64)
    report, states = tile_states(tiles, device)
    instances = merge_instances(a.values.dtype, a.rows.dtype)
    split, merge = device.kernels("coo_multiply", instances)
    split(
        (blocks_for(tiles + 1),),
        (THREADS,),
        (
            *(a.rows, a.columns, a_count, b.rows, b.columns, b_count),
            *(width, tile_count, splits),
        ),
    )
    merge(
        (tiles,),
        (THREADS,),
        (
            *(*a[:3], a_count, *b[:3], b_count, width),
            *(splits, states, report, *product[:3]),
        ),
    )
    return report


@functools.lru_cache(CACHED)
def _merge_numbers(
    a_count: int, b_count: int, columns: int
) -> tuple[int, tuple[np.int64, ...]]:
    """The number of tiles; and all numbers, as arguments of the kernels."""
    tiles = ceil_div(a_count + b_count, THREADS * MERGE_ITEMS)
    return tiles, tuple(map(np.int64, (a_count, b_count, columns, tiles)))


def multiply_by_gallop(
    a: Coordinates, b: Coordinates, product: Coordinates, device: Device
) -> Array:
    """Launch the search of the longer operand for each key of the shorter operand."""
    swapped = len(a.values) > len(b.values)
    few, many = (b, a) if swapped else (a, b)
    sizes = np.int64(len(few.values)), np.int64(len(many.values))
    width = np.int64(a.shape[1])
    tiles = max(1, ceil_div(len(few.values), THREADS * GALLOP_ITEMS))
    report, states = tile_states(tiles, device)
    instances = gallop_instances(a.values.dtype, a.rows.dtype)
    check, gallop = device.kernels("coo_multiply", instances)
    check(
        (blocks_for(len(many.values)),),
        (THREADS,),
        (*many[:3], sizes[1], width, report),
    )
    gallop(
        (tiles,),
        (THREADS,),
        (
            *(*few[:3], sizes[0], *many[:3], sizes[1], width, np.bool_(swapped)),
            *(states, report, *product[:3]),
        ),
    )
    return report


ONE_SEARCH = {"merge": multiply_by_merge, "gallop": multiply_by_gallop}


def merge_instances(dtype: np.dtype[Any], index: np.dtype[Any]) -> tuple[str, str]:
    """The kernels of "merge", with their template arguments."""
    integer, shape = CUDA_TYPES[index], f"{THREADS}, {MERGE_ITEMS}"
    merge = f"multiply_by_merge<{CUDA_TYPES[dtype]}, {integer}, {shape}>"
    return f"split_path<{integer}, {shape}>", merge


def gallop_instances(dtype: np.dtype[Any], index: np.dtype[Any]) -> tuple[str, str]:
    """The kernels of "gallop", with their template arguments."""
    numbers = f"{CUDA_TYPES[dtype]}, {CUDA_TYPES[index]}"
    gallop = f"multiply_by_gallop<{numbers}, {THREADS}, {GALLOP_ITEMS}>"
    return f"check_entries<{numbers}>", gallop


def tile_states(tiles: int, device: Device) -> tuple[Array, Array]:
    """A launch's report, and the states of its tiles after their counter."""
    report = len(ProductReport._fields)
    zeros = device.zeros((report + 1 + STATE_WORDS * tiles,), np.uint64)
    return zeros[:report], zeros[report:]


# ---- results -------------------------------------------------------------------------


def allocate(count: int, like: Coordinates, device: Device) -> Coordinates:
    """Coordinates of `count` entries, with the dtypes and the shape of others."""
    rows, columns = (device.empty((count,), like.rows.dtype) for _ in like.shape)
    values = device.empty((count,), like.values.dtype)
    return Coordinates(rows, columns, values, like.shape)
