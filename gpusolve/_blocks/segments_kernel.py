"""Segments on a device: flags, and the launches of ``cuda_src/segments.cu``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import monoid
from .._device.arrays import Array, contiguous, namespace
from .._device.kernels import CUDA_TYPES, Device
from .._device.launch import THREADS, WARP, Tile, blocks_for, ceil_div
from ..monoid import Monoid
from .operators import ELEMENT_TYPES, Operators, operators
from .scan_kernel import scan_rows, tile_for
from .scatter_kernel import scatter

MAX_GRID_Y = 65535
"""The largest second dimension of a grid."""


class MergePath(NamedTuple):
    """The merge path of segment ends and entries, divided into tiles.

    Attributes
    ----------
    tile : Tile
    tiles : int
    tile_rows : (tiles + 1,) array of int64
        The segment in which each tile begins, and the number of segments.
    """

    tile: Tile
    tiles: int
    tile_rows: Array


def offsets_of(lengths: Array, device: Device) -> Array:
    """(m,) lengths -> (m + 1,) offsets of int64, by an exclusive scan."""
    with device.current():
        offsets = device.zeros((1, len(lengths) + 1), np.int64)
        offsets[0, :-1] = lengths
        scan_rows(offsets, monoid.add, offsets, device, exclusive=True)
        return offsets[0]


def segment_flags(lengths: Array, total: int, device: Device) -> Array:
    """(m,) lengths -> (total,) flags; an empty segment has none."""
    with device.current():
        starts = offsets_of(lengths, device)[:-1]
        starts = namespace(lengths).where(lengths == 0, -1, starts)
        return flags_at(starts, total, device)


def flags_at(starts: Array, total: int, device: Device) -> Array:
    """(total,) flags, set at these indices; indices outside are ignored."""
    flags = device.zeros((total,), np.bool_)
    scatter(flags, starts, namespace(starts).ones(len(starts), bool), device)
    return flags


def path_of_segments(
    ends: Array, entries: int, tile: Tile, device: Device
) -> MergePath:
    """Divide segments into tiles of equal work.

    `ends` are contiguous, of int32 or int64.
    """
    segments = len(ends)
    tiles = ceil_div(segments + entries, tile.size)
    instance = f"split_path<{CUDA_TYPES[ends.dtype]}>"
    with device.current():
        tile_rows = device.empty((tiles + 1,), np.int64)
        sizes = np.int64(segments), np.int32(tile.size), np.int64(tiles)
        device.kernel("segments", instance, ELEMENT_TYPES)(
            (blocks_for(tiles + 1),), (THREADS,), (ends, *sizes, tile_rows)
        )
    return MergePath(tile, tiles, tile_rows)


def add_carries(
    path: MergePath,
    carries: Array,
    y: Array,
    monoid: str,
    definitions: str,
    device: Device,
) -> None:
    """Add the carries of the tiles, (vectors, tiles), to y, (vectors, segments).

    `monoid` is the name of a type in the definitions.
    """
    if path.tiles < 2:
        return
    sizes = np.int64(path.tiles), np.int64(y.shape[1])
    device.kernel("segments", f"add_carries<{monoid}>", definitions)(
        (blocks_for(path.tiles * WARP), min(len(y), MAX_GRID_Y)),
        (THREADS,),
        (path.tile_rows, *sizes, carries, np.int64(len(y)), y),
    )


def segmented_reduce(x: Array, offsets: Array, monoid: Monoid, device: Device) -> Array:
    """(n, *element) -> (m, *element), by the merge path.

    `offsets` is (m + 1,) of int64, checked.
    """
    ops = operators(monoid, x.dtype)
    segments = len(offsets) - 1
    with device.current():
        y = device.empty((1, segments, *ops.element_shape), ops.dtype)
        if segments:
            x, ends = contiguous(x), contiguous(offsets[1:])
            path = path_of_segments(ends, len(x), tile_for(ops.element_bytes), device)
            carries = device.empty((1, path.tiles, *ops.element_shape), ops.dtype)
            instance = segmented_reduce_instance(ops)
            device.kernel("segments", instance, ops.definitions)(
                (path.tiles,),
                (path.tile.threads,),
                (x, ends, np.int64(segments + len(x)), path.tile_rows, y, carries),
            )
            add_carries(path, carries, y, ops.monoid, ops.definitions, device)
        return y[0]


def segmented_reduce_instance(ops: Operators) -> str:
    """The kernel's name with its template arguments."""
    tile = tile_for(ops.element_bytes)
    return f"segmented_reduce<{ops.monoid}, {ops.map}, {tile.threads}, {tile.items}>"
