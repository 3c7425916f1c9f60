"""Scan and segmented scan on a device: the launch of ``cuda_src/scan.cu``."""

from __future__ import annotations

import numpy as np

from .._device.arrays import Array
from .._device.kernels import Device
from .._device.launch import THREADS, WARP, Tile, ceil_div
from ..monoid import Monoid
from .operators import Operators, operators

ITEMS = {4: 15, 8: 7, 16: 3}
"""Items of a thread, by the most bytes an element may have; of a larger one it has 1.
All are odd: see the kernel. Not measured on a GPU yet."""
WORD_BYTES, MAX_WORDS = 4, 4
"""What of an element travels in one word of a tile's state, and in how many words."""
TILE_BYTES = 16 * 1024
"""The most shared memory that the elements of a tile may take."""


def tile_for(element_bytes: int) -> Tile:
    """The tile for elements of this size."""
    items = next((ITEMS[most] for most in ITEMS if element_bytes <= most), 1)
    threads = THREADS
    while threads > WARP and element_bytes * threads * items > TILE_BYTES:
        threads //= 2
    return Tile(threads, items)


def state_words(element_bytes: int) -> int:
    """Words of a tile's state: as many as hold an element, or one for its status."""
    words = ceil_div(element_bytes, WORD_BYTES)
    return words if words <= MAX_WORDS else 1


def scan(
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

    `flags`, a byte or, packed, a bit for each element, say where segments begin within
    the rows. x and y may be the same array.
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
