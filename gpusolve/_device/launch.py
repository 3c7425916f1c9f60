"""Launch arithmetic: threads, blocks, tiles, and how much work one launch takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

WARP = 32
THREADS = 256
"""Threads of a block. Not measured on a GPU yet."""
MAX_BLOCKS = 2**31 - 1
"""Blocks of a grid. CuPy passes 32 bits of a larger number on."""
LAUNCH_SECONDS = 0.25
"""The longest launch where a watchdog stops kernels, which it does after about 2 s."""


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
    """Blocks of `THREADS` that have this many threads together, at least one."""
    return max(1, ceil_div(threads, THREADS))


def pieces(total: int, most: int) -> Iterator[slice]:
    """``range(total)`` in order, in slices of at most `most`."""
    for first in range(0, total, most):
        yield slice(first, min(first + most, total))
