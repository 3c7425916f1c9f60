"""Scan and segmented scan on a device: the launch of ``cuda_src/scan.cu``."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ._arrays import Array
from ._kernels import Device
from ._operators import Operators, operators
from .monoid import Monoid


class Tile(NamedTuple):
    """What a block scans at once."""

    threads: int
    items: int

    @property
    def size(self) -> int:
        """Elements of a tile."""
        return self.threads * self.items


WARP = 32
THREADS = 256
ITEMS = {4: 15, 8: 7, 16: 3}
"""Items of a thread, by the most bytes an element may have; of a larger one it has 1.
All are odd: see the kernel."""
TILE_BYTES = 32 * 1024
"""The most shared memory that a tile may take."""


def tile_for(element_bytes: int) -> Tile:
    """The tile for elements of this size."""
    items = next((ITEMS[most] for most in ITEMS if element_bytes <= most), 1)
    threads = THREADS
    # A flag may take as much room as the element, for alignment.
    while threads > WARP and 2 * element_bytes * threads * items > TILE_BYTES:
        threads //= 2
    return Tile(threads, items)


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

    `flags`, as bytes or bits, say where segments begin within the rows. x and y may be
    the same array.
    """
    rows, length = x.shape[:2]
    size = rows * length
    if size == 0:
        return
    ops = operators(monoid, x.dtype)
    tile = tile_for(ops.element_bytes)
    tiles = -(-size // tile.size)
    kernel = device.kernel(
        "scan", scan_instance(ops, flags is not None or rows > 1, tile), ops.definitions
    )
    kernel(
        (min(tiles, kernel.resident_blocks(tile.threads, 0)),),
        (tile.threads,),
        (
            x,
            np.int64(size),
            np.int64(length),
            flags,
            np.bool_(packed),
            np.bool_(exclusive),
            y,
            device.zeros((1 + tiles,), np.uint64),
            device.empty((2 * tiles, *ops.element_shape), ops.dtype),
        ),
    )


def scan_instance(ops: Operators, segmented: bool, tile: Tile) -> str:
    """The kernel's name with its template arguments."""
    lifted = str(segmented).lower()
    return f"scan<{ops.monoid}, {ops.map}, {lifted}, {tile.threads}, {tile.items}>"


def packed_bytes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the flags of rows, packed eight to a byte."""
    return (*shape[:-1], math.ceil(shape[-1] / 8))
