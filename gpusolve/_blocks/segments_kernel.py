"""Segments on a device: flags, and the launches of ``cuda_src/segments.cu``."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from .. import monoid
from .._device.arrays import Array, contiguous, namespace
from .._device.kernels import CUDA_TYPES, Device, Kernel
from .._device.launch import (
    CACHED,
    THREADS,
    WARP,
    Launch,
    Tile,
    blocks_for,
    ceil_div,
)
from ..monoid import Monoid
from .operators import Operators, operators
from .scan_kernel import scan_rows, tile_for
from .scatter_kernel import scatter

MAX_GRID_Y = 65535
"""The largest second dimension of a grid."""


class MergePath(NamedTuple):
    """The merge path of segment ends and entries, divided into tiles.

    Attributes
    ----------
    ends : array of int32 or int64
        Where each segment ends.
    tile : Tile
    tiles : int
    tile_rows : (tiles + 1,) array of int64
        The segment in which each tile begins, and the number of segments.
    """

    ends: Array
    tile: Tile
    tiles: int
    tile_rows: Array


def offsets_of(lengths: Array, device: Device) -> Array:
    """(m,) lengths -> (m + 1,) offsets of int64, by an exclusive scan."""
    offsets = device.zeros((1, len(lengths) + 1), np.int64)
    offsets[0, :-1] = lengths
    scan_rows(offsets, monoid.add, offsets, device, exclusive=True)
    return offsets[0]


def segment_flags(lengths: Array, total: int, device: Device) -> Array:
    """(m,) lengths -> (total,) flags; an empty segment has none."""
    starts = offsets_of(lengths, device)[:-1]
    starts = namespace(lengths).where(lengths == 0, -1, starts)
    return flags_at(starts, total, device)


def flags_at(starts: Array, total: int, device: Device) -> Array:
    """(total,) flags, set at these indices; indices outside are ignored."""
    flags = device.zeros((total,), np.bool_)
    scatter(flags, starts, namespace(starts).ones(len(starts), bool), device)
    return flags


def split_path(
    ends: Array, entries: int, tile: Tile, kernel: Kernel, device: Device
) -> MergePath:
    """Divide segments into tiles of equal work, by the kernel `split_instance`.

    `ends` are contiguous, of int32 or int64.
    """
    tiles, launch = _launch_of_split(len(ends), entries, tile)
    tile_rows = device.empty((tiles + 1,), np.int64)
    kernel(launch.grid, launch.block, (ends, *launch.numbers, tile_rows))
    return MergePath(ends, tile, tiles, tile_rows)


@functools.lru_cache(CACHED)
def _launch_of_split(segments: int, entries: int, tile: Tile) -> tuple[int, Launch]:
    """The number of tiles, and the launch."""
    tiles = ceil_div(segments + entries, tile.size)
    numbers = np.int64(segments), np.int32(tile.size), np.int64(tiles)
    return tiles, Launch((blocks_for(tiles + 1),), (THREADS,), numbers)


def add_carries(path: MergePath, carries: Array, y: Array, kernel: Kernel) -> None:
    """Add the carries of the tiles, (vectors, tiles), to y, (..., segments)."""
    if path.tiles > 1:
        launch = _launch_of_carries(path.tiles, len(path.ends), len(carries))
        grid, block, numbers = launch
        tiles, segments, vectors = numbers
        kernel(grid, block, (path.tile_rows, tiles, segments, carries, vectors, y))


@functools.lru_cache(CACHED)
def _launch_of_carries(tiles: int, segments: int, vectors: int) -> Launch:
    grid = blocks_for(tiles * WARP), min(vectors, MAX_GRID_Y)
    numbers = np.int64(tiles), np.int64(segments), np.int64(vectors)
    return Launch(grid, (THREADS,), numbers)


def segmented_reduce(x: Array, offsets: Array, monoid: Monoid, device: Device) -> Array:
    """(n, *element) -> (m, *element), by the merge path.

    `offsets` is (m + 1,) of int64, checked.
    """
    ops = operators(monoid, x.dtype)
    segments = len(offsets) - 1
    y = device.empty((segments, *ops.element_shape), ops.dtype)
    if segments:
        x, ends = contiguous(x), contiguous(offsets[1:])
        # A thread holds elements of x, which `logical_and` makes smaller.
        tile = tile_for(max(ops.element_bytes, x.itemsize))
        instances = segmented_reduce_instances(ops, tile)
        split, fold, add = device.kernels("segments", instances, ops.definitions)
        path = split_path(ends, len(x), tile, split, device)
        carries = device.empty((1, path.tiles, *ops.element_shape), ops.dtype)
        fold(
            (path.tiles,),
            (path.tile.threads,),
            (x, ends, np.int64(segments + len(x)), path.tile_rows, y, carries),
        )
        add_carries(path, carries, y, add)
    return y


@functools.lru_cache(CACHED)
def segmented_reduce_instances(ops: Operators, tile: Tile) -> tuple[str, str, str]:
    """The kernels of `segmented_reduce`, in the order of their launches."""
    shape = f"{tile.threads}, {tile.items}"
    return (
        split_instance(np.dtype(np.int64)),
        f"segmented_reduce<{ops.monoid}, {ops.map}, {shape}>",
        carries_instance(ops.monoid),
    )


def split_instance(index: np.dtype[Any]) -> str:
    """The kernel of `split_path`, for ends of this dtype."""
    return f"split_path<{CUDA_TYPES[index]}>"


def carries_instance(monoid: str) -> str:
    """The kernel of `add_carries`; `monoid` is a type in the definitions."""
    return f"add_carries<{monoid}>"
