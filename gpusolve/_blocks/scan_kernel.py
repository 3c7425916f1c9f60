"""Scan and segmented scan on a device: the launch of ``cuda_src/scan.cu``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .._device.arrays import (
    Array,
    as_rows,
    can_write_to,
    contiguous,
    namespace,
    written,
)
from .._device.kernels import Device
from .._device.launch import CACHED, THREADS, WARP, Launch, Tile, ceil_div
from ..monoid import Map, Monoid
from .inputs import Elements, SegmentFlags
from .operators import Operators, operators

ITEMS = {1: 20, 4: 15, 8: 7, 16: 3}
"""Items per thread, by the largest element size in bytes; 1 for larger elements. They
avoid bank conflicts, except for 2 bytes: see the kernel. Not measured on a GPU yet."""
LARGE_ELEMENTS_BYTES = 8 * 1024
"""The most bytes of a tile of larger elements. A thread has several elements in its
registers, and spills them if they have more than 128 bytes."""
WORD_BYTES, MAX_WORDS = 4, 4
"""Bytes of an element in a word of a tile's state, and the most words."""


def tile_for(element_bytes: int) -> Tile:
    """The tile for elements of this size in bytes."""
    for most, items in ITEMS.items():
        if element_bytes <= most:
            return Tile(THREADS, items)
    threads = THREADS
    while threads > WARP and element_bytes * threads > LARGE_ELEMENTS_BYTES:
        threads //= 2
    return Tile(threads, 1)


def state_words(element_bytes: int) -> int:
    """Words of a tile's state: for an element with its status, or the status alone."""
    words = ceil_div(element_bytes, WORD_BYTES)
    return words if words <= MAX_WORDS else 1


def scan(
    given: Elements, device: Device, out: Array | None, *, exclusive: bool
) -> Array:
    """Scan along an axis, in one pass."""

    def scan_into(x: Array, more: Sequence[Array], y: Array) -> None:
        scan_rows(
            x, given.monoid, y, device, exclusive=exclusive, map=given.map, more=more
        )

    return scan_along_axis(given, device, out, scan_into)


def segmented_scan(
    given: Elements,
    segments: SegmentFlags,
    device: Device,
    out: Array | None,
    *,
    exclusive: bool,
) -> Array:
    """Scan each segment of the last axis, in one pass."""
    length = given.shape[-1]

    def scan_into(x: Array, more: Sequence[Array], y: Array) -> None:
        flags, packed = segments
        if packed and length % 8 and len(x) > 1:  # rows do not begin at bits 0
            flags, packed = segments.unpacked(length)
        flags = contiguous(flags).view(np.uint8)
        scan_rows(
            x,
            given.monoid,
            y,
            device,
            exclusive=exclusive,
            flags=flags,
            packed=packed,
            map=given.map,
            more=more,
        )

    return scan_along_axis(given, device, out, scan_into)


def scan_along_axis(
    given: Elements,
    device: Device,
    out: Array | None,
    scan_into: Callable[[Array, Sequence[Array], Array], None],
) -> Array:
    """Scan along an axis, by a function that scans rows x into y, of any shape.

    The function also gets the rows of the other arrays that the map reads. Blocks write
    tiles while others still read: results may be written to `out` only if `out` is an
    input array itself, or overlaps none.
    """
    (axis,), leading, shape = given.axes, given.leading, given.shape
    arrays = (given.x, *given.more)
    x, *more = rows = [as_rows(array, given.axes, leading) for array in arrays]
    pairs = zip(rows, arrays, strict=True)
    others = [row for row, array in pairs if array is not out]
    if out is not None and axis == leading - 1 and can_write_to(out, *others):
        scan_into(x, more, out)
        return out
    rest = shape[:axis] + shape[axis + 1 :]
    of_rows = (*rest, shape[axis], *given.monoid.element_shape)
    y = device.empty(of_rows, given.dtype)
    scan_into(x, more, y)
    return written(namespace(y).moveaxis(y, leading - 1, axis), out)


def scan_rows(
    x: Array,
    monoid: Monoid,
    y: Array,
    device: Device,
    *,
    exclusive: bool,
    flags: Array | None = None,
    packed: bool = False,
    map: Map | None = None,
    more: Sequence[Array] = (),
) -> None:
    """Scan the rows of x, (rows, length, *element), into y, on the current stream.

    `flags` mark where segments begin within the rows: a byte, or a bit if packed, for
    each element. The map reads x and `more`. y has as many elements, in any shape; it
    may be x or an array of `more`.
    """
    rows, length = x.shape[:2]
    size = rows * length
    if size == 0:
        return
    if flags is None:
        segments = "rows" if rows > 1 else "none"
    else:
        segments = "bits" if packed else "bytes"
    ops = operators(monoid, x.dtype, map, tuple([array.dtype for array in more]))
    plan = plan_of(ops, segments)
    (kernel,) = device.kernels("scan", plan.instances, ops.definitions)
    resident = kernel.resident_blocks(plan.tile.threads, 0)
    tiles, launch = _launch_of(plan.tile, size, length, resident)
    states = device.zeros((1 + tiles * plan.words,), np.uint64)
    values = None
    if not plan.fits:
        values = device.empty((2 * tiles, *ops.element_shape), ops.dtype)
    numbers = (*launch.numbers, flags, np.bool_(exclusive))
    kernel(launch.grid, launch.block, (x, *numbers, y, states, values, *more))


class ScanPlan(NamedTuple):
    """How elements of a size are scanned.

    Attributes
    ----------
    instances : tuple of str
        The kernel with its template arguments.
    tile : Tile
    words : int
        Words of a tile's state.
    fits : bool
        Whether these words hold an element.
    """

    instances: tuple[str]
    tile: Tile
    words: int
    fits: bool


@functools.lru_cache(CACHED)
def plan_of(ops: Operators, segments: str) -> ScanPlan:
    """The kernel, the tiles and their states."""
    words = state_words(ops.element_bytes)
    fits = words * WORD_BYTES >= ops.element_bytes
    tile = tile_for(ops.element_bytes)
    return ScanPlan((scan_instance(ops, segments),), tile, words, fits)


@functools.lru_cache(CACHED)
def _launch_of(tile: Tile, size: int, length: int, resident: int) -> tuple[int, Launch]:
    """The number of tiles, and the launch."""
    tiles = ceil_div(size, tile.size)
    numbers = np.int64(size), np.int64(length)
    return tiles, Launch((min(tiles, resident),), (tile.threads,), numbers)


def scan_instance(ops: Operators, segments: str) -> str:
    """The kernel's name with its template arguments."""
    tile, words = tile_for(ops.element_bytes), state_words(ops.element_bytes)
    return (
        f"scan<{ops.monoid}, {ops.map}, Segments::{segments}, "
        f"{tile.threads}, {tile.items}, {words}{ops.more}>"
    )
