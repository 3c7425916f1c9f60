"""Sparse matrix times vectors on a device: the launches of ``cuda_src/spmv.cu``."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .._blocks.operators import ELEMENT_TYPES
from .._blocks.scan_kernel import scan_rows
from .._blocks.segments_kernel import (
    MAX_GRID_Y,
    MergePath,
    add_carries,
    carries_instance,
    segment_flags,
    split_instance,
    split_path,
)
from .._device.arrays import Array, contiguous, namespace
from .._device.kernels import CUDA_TYPES, Device
from .._device.launch import CACHED, THREADS, Launch, Tile, blocks_for, ceil_div
from ._csr import CompressedRows
from ._semiring import Semiring

ITEMS = {4: 7, 8: 5, 16: 3}
"""Steps per thread, by the larger size in bytes of an entry and a result. All are odd:
threads that read shared memory with this stride have no bank conflicts."""


def tile_for(*dtypes: np.dtype[Any]) -> Tile:
    """The tile for entries and results of these dtypes."""
    largest = max(dtype.itemsize for dtype in dtypes)
    return Tile(THREADS, next(ITEMS[most] for most in ITEMS if largest <= most))


def merge_path(
    matrix: CompressedRows, result: np.dtype[Any], device: Device
) -> MergePath:
    """Divide the matrix into tiles of equal work, for results of this dtype."""
    tile, ends = tile_for(matrix.values.dtype, result), matrix.ends
    instances = (split_instance(ends.dtype),)
    (split,) = device.kernels("segments", instances, ELEMENT_TYPES)
    return split_path(ends, len(matrix.values), tile, split, device)


def spmv(
    matrix: CompressedRows,
    path: MergePath | None,
    x: Array,
    semiring: Semiring,
    device: Device,
) -> Array:
    """(..., n) -> (..., m); by "fused" if there is a path, else "segmented_scan"."""
    if path is not None:
        return fused(matrix, path, contiguous(x), semiring, device)
    vectors = contiguous(x).reshape(math.prod(x.shape[:-1]), matrix.shape[1])
    y = segmented_scan(matrix, vectors, semiring, device)
    return y.reshape(*x.shape[:-1], matrix.shape[0])


def fused(
    matrix: CompressedRows,
    path: MergePath,
    x: Array,
    semiring: Semiring,
    device: Device,
) -> Array:
    """(..., n) -> (..., m), in one pass over the entries.

    Results that are larger than the merge path's tiles allow need smaller tiles.
    """
    if path.tile != tile_for(matrix.values.dtype, semiring.result):
        path = merge_path(matrix, semiring.result, device)
    batch = x.shape[:-1]
    y = device.empty((*batch, matrix.shape[0]), semiring.result)
    if y.size:
        carries = device.empty((math.prod(batch), path.tiles), semiring.result)
        _multiply(matrix, path, x, semiring, device, y, carries)
        instances = (carries_instance("Sum"),)
        (add,) = device.kernels("segments", instances, semiring.definitions)
        add_carries(path, carries, y, add)
    return y


def _multiply(
    matrix: CompressedRows,
    path: MergePath,
    x: Array,
    semiring: Semiring,
    device: Device,
    y: Array,
    carries: Array,
) -> None:
    """Launch blocks that fill the device; the blocks of a tile share the vectors."""
    instances = (multiply_instance(matrix, x.dtype, path.tile),)
    (kernel,) = device.kernels("spmv", instances, semiring.definitions)
    resident = kernel.resident_blocks(path.tile.threads, 0)
    entries, vectors = len(matrix.values), len(carries)
    launch = _launch_of(matrix.shape, entries, path.tile, vectors, resident)
    rows, steps, columns, count = launch.numbers
    kernel(
        launch.grid,
        launch.block,
        (
            *(path.ends, matrix.columns, matrix.values, rows, steps),
            *(path.tile_rows, x, columns, count, y, carries),
        ),
    )


@functools.lru_cache(CACHED)
def _launch_of(
    shape: tuple[int, int], entries: int, tile: Tile, vectors: int, resident: int
) -> Launch:
    (rows, columns), steps = shape, shape[0] + entries
    tiles = ceil_div(steps, tile.size)
    wanted = max(1, resident // tiles)
    numbers = tuple(map(np.int64, (rows, steps, columns, vectors)))
    return Launch((tiles, min(vectors, wanted, MAX_GRID_Y)), (tile.threads,), numbers)


def segmented_scan(
    matrix: CompressedRows, x: Array, semiring: Semiring, device: Device
) -> Array:
    """(vectors, n) -> (vectors, m), by flat parallelism.

    Products by gather, flags by scatter, a segmented scan, and the last of each row.
    """
    xp = namespace(x)
    identity = xp.asarray(semiring.add.identity_of(semiring.result))
    entries = len(matrix.values)
    if entries == 0 or len(x) == 0:
        return xp.full((len(x), matrix.shape[0]), identity, semiring.result)
    lengths = xp.diff(matrix.offsets)
    flags = segment_flags(lengths.astype(np.int64), entries, device)
    flags = contiguous(xp.broadcast_to(flags, (len(x), entries))).view(np.uint8)
    products = _multiply_entries(matrix, x, semiring, device)
    prefixes = device.empty(products.shape, semiring.result)
    add = semiring.add
    scan_rows(products, add, prefixes, device, exclusive=False, flags=flags)
    last = prefixes[:, xp.maximum(matrix.ends - 1, 0)]
    return xp.where(lengths == 0, identity, last)


def _multiply_entries(
    matrix: CompressedRows, x: Array, semiring: Semiring, device: Device
) -> Array:
    products = device.empty((len(x), len(matrix.values)), semiring.factor)
    instances = (f"multiply_entries<Product, {_operand_types(matrix, x.dtype)}>",)
    (kernel,) = device.kernels("spmv", instances, semiring.definitions)
    kernel(
        (blocks_for(products.size),),
        (THREADS,),
        (
            matrix.columns,
            matrix.values,
            np.int64(len(matrix.values)),
            x,
            np.int64(matrix.shape[1]),
            np.int64(len(x)),
            products,
        ),
    )
    return products


def multiply_instance(matrix: CompressedRows, number: np.dtype[Any], tile: Tile) -> str:
    """The kernel name with template arguments, for vectors of dtype `number`."""
    operands = _operand_types(matrix, number)
    return f"multiply<Sum, Product, {operands}, {tile.threads}, {tile.items}>"


def _operand_types(matrix: CompressedRows, number: np.dtype[Any]) -> str:
    dtypes = matrix.values.dtype, number, matrix.columns.dtype
    return ", ".join([CUDA_TYPES[dtype] for dtype in dtypes])
