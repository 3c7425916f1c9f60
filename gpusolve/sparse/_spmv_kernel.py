"""Sparse matrix times vectors on a device: the launches of ``cuda_src/spmv.cu``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._blocks.scan_kernel import scan_rows
from .._blocks.segments_kernel import (
    MAX_GRID_Y,
    MergePath,
    add_carries,
    path_of_segments,
    segment_flags,
)
from .._device.arrays import Array, contiguous, namespace
from .._device.kernels import CUDA_TYPES, Device
from .._device.launch import THREADS, Tile, blocks_for
from ._csr import CompressedRows
from ._semiring import Semiring

ITEMS = {4: 7, 8: 5, 16: 3}
"""Steps per thread, by the larger size in bytes of an entry and a result. All are odd:
threads that read shared memory with this stride have no bank conflicts."""


def tile_for(*dtypes: np.dtype[Any]) -> Tile:
    """The tile for entries and results of these dtypes."""
    largest = max(one.itemsize for one in dtypes)
    return Tile(THREADS, next(ITEMS[most] for most in ITEMS if largest <= most))


def merge_path(
    matrix: CompressedRows, result: np.dtype[Any], device: Device
) -> MergePath:
    """Divide the matrix into tiles of equal work, for results of this dtype."""
    tile = tile_for(matrix.values.dtype, result)
    return path_of_segments(matrix.offsets[1:], len(matrix.values), tile, device)


def spmv(
    matrix: CompressedRows,
    path: MergePath | None,
    x: Array,
    semiring: Semiring,
    device: Device,
) -> Array:
    """(..., n) -> (..., m); by "fused" if there is a path, else "segmented_scan"."""
    batch, (m, n) = x.shape[:-1], matrix.shape
    with device.current():
        vectors = contiguous(x).reshape(math.prod(batch), n)
        if path is None:
            y = segmented_scan(matrix, vectors, semiring, device)
        else:
            y = fused(matrix, path, vectors, semiring, device)
        return y.reshape(*batch, m)


def fused(
    matrix: CompressedRows,
    path: MergePath,
    x: Array,
    semiring: Semiring,
    device: Device,
) -> Array:
    """(vectors, n) -> (vectors, m), in one pass over the entries.

    Results that are larger than those of the path need smaller tiles.
    """
    if path.tile != tile_for(matrix.values.dtype, semiring.result):
        path = merge_path(matrix, semiring.result, device)
    y = device.empty((len(x), matrix.shape[0]), semiring.result)
    if y.size:
        carries = device.empty((len(x), path.tiles), semiring.result)
        _multiply(matrix, path, x, semiring, device, y, carries)
        add_carries(path, carries, y, "Sum", semiring.definitions, device)
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
    instance = multiply_instance(matrix, x.dtype, path.tile)
    kernel = device.kernel("spmv", instance, semiring.definitions)
    wanted = max(1, kernel.resident_blocks(path.tile.threads, 0) // path.tiles)
    kernel(
        (path.tiles, min(len(x), wanted, MAX_GRID_Y)),
        (path.tile.threads,),
        (
            matrix.offsets[1:],
            matrix.columns,
            matrix.values,
            np.int64(matrix.shape[0]),
            np.int64(matrix.shape[0] + len(matrix.values)),
            path.tile_rows,
            x,
            np.int64(matrix.shape[1]),
            np.int64(len(x)),
            y,
            carries,
        ),
    )


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
    last = prefixes[:, xp.maximum(matrix.offsets[1:] - 1, 0)]
    return xp.where(lengths == 0, identity, last)


def _multiply_entries(
    matrix: CompressedRows, x: Array, semiring: Semiring, device: Device
) -> Array:
    products = device.empty((len(x), len(matrix.values)), semiring.factor)
    instance = f"multiply_entries<Product, {_operand_types(matrix, x.dtype)}>"
    kernel = device.kernel("spmv", instance, semiring.definitions)
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
    return ", ".join(CUDA_TYPES[dtype] for dtype in dtypes)
