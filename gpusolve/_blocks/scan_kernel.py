"""Scan and segmented scan on a device: the launch of ``cuda_src/scan.cu``."""

from __future__ import annotations

from collections.abc import Callable

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
from .._device.launch import THREADS, WARP, Tile, ceil_div
from ..monoid import Monoid
from .inputs import Elements, SegmentFlags
from .operators import Operators, operators

ITEMS = {1: 20, 4: 15, 8: 7, 16: 3}
"""Items per thread, by the largest element size in bytes; 1 for larger elements. They
avoid bank conflicts, except for 2 bytes: see the kernel. Not measured on a GPU yet."""
LARGE_ELEMENTS_BYTES = 8 * 1024
"""The most bytes of a tile of larger elements. A thread has several elements in its
registers, and spills them if they have more than 128 bytes."""
WORD_BYTES, MAX_WORDS = 4, 4
"""Bytes of an element in one word of a tile's state, and the most words."""


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
    """Words of a tile's state: those that hold an element, or one for its status."""
    words = ceil_div(element_bytes, WORD_BYTES)
    return words if words <= MAX_WORDS else 1


def scan(
    given: Elements, device: Device, out: Array | None, *, exclusive: bool
) -> Array:
    """Scan along one axis, in one pass."""

    def scan_into(x: Array, y: Array) -> None:
        scan_rows(x, given.monoid, y, device, exclusive=exclusive)

    return by_rows(given, device, out, scan_into)


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

    def scan_into(x: Array, y: Array) -> None:
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
        )

    return by_rows(given, device, out, scan_into)


def by_rows(
    given: Elements,
    device: Device,
    out: Array | None,
    scan_into: Callable[[Array, Array], None],
) -> Array:
    """Scan along one axis, by a function that scans rows x into rows y.

    Blocks write tiles while others still read: the rows may be written to `out` only
    if it is `x` itself or does not overlap it.
    """
    (axis,), leading = given.axes, given.leading
    with device.current():
        x = as_rows(given.x, given.axes, leading)
        others = () if out is given.x else (x,)
        if out is not None and axis == leading - 1 and can_write_to(out, *others):
            scan_into(x, out.reshape(x.shape))
            return out
        y = device.empty(x.shape, given.dtype)
        scan_into(x, y)
        rest = given.shape[:axis] + given.shape[axis + 1 :]
        y = y.reshape(*rest, given.shape[axis], *given.monoid.element_shape)
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
) -> None:
    """Scan the rows of x into y, both (rows, length, *element), on the current stream.

    `flags` mark where segments begin within the rows: a byte, or a bit if packed, for
    each element. x and y may be the same array.
    """
    rows, length = x.shape[:2]
    size = rows * length
    if size == 0:
        return
    if flags is None:
        segments = "rows" if rows > 1 else "none"
    else:
        segments = "bits" if packed else "bytes"
    ops = operators(monoid, x.dtype)
    tile = tile_for(ops.element_bytes)
    tiles = ceil_div(size, tile.size)
    words = state_words(ops.element_bytes)
    fits = words * WORD_BYTES >= ops.element_bytes
    kernel = device.kernel("scan", scan_instance(ops, segments), ops.definitions)
    kernel(
        (min(tiles, kernel.resident_blocks(tile.threads, 0)),),
        (tile.threads,),
        (
            x,
            np.int64(size),
            np.int64(length),
            flags,
            np.bool_(exclusive),
            y,
            device.zeros((1 + tiles * words,), np.uint64),
            None if fits else device.empty((2 * tiles, *ops.element_shape), ops.dtype),
        ),
    )


def scan_instance(ops: Operators, segments: str) -> str:
    """The kernel's name with its template arguments."""
    tile, words = tile_for(ops.element_bytes), state_words(ops.element_bytes)
    return (
        f"scan<{ops.monoid}, {ops.map}, Segments::{segments}, "
        f"{tile.threads}, {tile.items}, {words}>"
    )
