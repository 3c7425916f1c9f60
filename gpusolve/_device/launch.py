"""Launch arithmetic: threads, blocks, tiles, and the limits of a launch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

WARP = 32
THREADS = 256
"""Threads per block. Not measured on a GPU yet."""
MAX_BLOCKS = 2**31 - 1
"""The most blocks of a grid. CuPy truncates larger numbers to 32 bits."""
LAUNCH_SECONDS = 0.25
"""The longest launch on a GPU with a watchdog, which stops kernels after about 2 s."""

CACHED = 1024
"""The most entries of a cache of kernels or launches. The key of a launch has shapes
and dtypes, never arrays."""


class Launch(NamedTuple):
    """The shape of a launch.

    Attributes
    ----------
    grid, block : tuple of int
    numbers : tuple
        The kernel's arguments that are numbers and depend on the shapes only.
    """

    grid: tuple[int, ...]
    block: tuple[int, ...]
    numbers: tuple[Any, ...]


class Tile(NamedTuple):
    """The elements that a block processes at once."""

    threads: int
    items: int

    @property
    def size(self) -> int:
        """Elements of a tile."""
        return self.threads * self.items


def ceil_div(a: int, b: int) -> int:
    """``a / b``, rounded up."""
    return -(-a // b)


def round_up(a: int, multiple: int) -> int:
    """The smallest multiple of `multiple` that is at least `a`."""
    return ceil_div(a, multiple) * multiple


def blocks_for(threads: int) -> int:
    """The least number of blocks of `THREADS` with these threads; at least 1."""
    return max(1, ceil_div(threads, THREADS))


def pieces(total: int, most: int) -> Iterator[slice]:
    """``range(total)`` in order, in slices of at most `most`."""
    for first in range(0, total, most):
        yield slice(first, min(first + most, total))


def within(part: slice, most: int) -> Iterator[slice]:
    """The items of a slice, in slices of at most `most`, or of a single item."""
    for piece in pieces(part.stop - part.start, max(1, most)):
        yield slice(part.start + piece.start, part.start + piece.stop)
