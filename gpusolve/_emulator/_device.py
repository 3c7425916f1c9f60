"""Facts of the emulated device, and memory on it.

They are those of a small GPU of compute capability 8.6, the least shared memory that a
block may ask for since Ampere: what runs here fits everywhere. Two multiprocessors hold
enough blocks for these to race, and few enough that a persistent grid takes many turns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

multiprocessors = 2
shared_memory_per_block = 99 * 1024
threads_per_block = 1024
warp_threads = 32

_THREADS_PER_MULTIPROCESSOR = 1536
_BLOCKS_PER_MULTIPROCESSOR = 16
resident_threads = multiprocessors * _THREADS_PER_MULTIPROCESSOR
_SHARED_MEMORY_PER_MULTIPROCESSOR = 100 * 1024
_SHARED_MEMORY_RESERVED = 1024
"""What the system keeps of it for each block."""

_LARGEST_BLOCK = (1024, 1024, 64)
_LARGEST_GRID = (2**31 - 1, 65535, 65535)

POISON = 0xFF


def empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array that nobody wrote: NaN in floating point, -1 in signed integers.

    Examples
    --------
    >>> empty(2, np.float64)
    array([nan, nan])
    """
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[...] = POISON
    return array


def zeros(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of zeros."""
    return np.zeros(shape, dtype)


def resident_blocks(threads: int, shared_bytes: int) -> int:
    """How many blocks the device holds at once.

    Parameters
    ----------
    threads, shared_bytes : int
        Of one block; all its shared memory, static and dynamic.
    """
    if threads > threads_per_block or shared_bytes > shared_memory_per_block:
        return 0
    warps = max(1, -(-threads // warp_threads))
    per_multiprocessor = min(
        _BLOCKS_PER_MULTIPROCESSOR,
        _THREADS_PER_MULTIPROCESSOR // (warps * warp_threads),
        _SHARED_MEMORY_PER_MULTIPROCESSOR // (shared_bytes + _SHARED_MEMORY_RESERVED),
    )
    return multiprocessors * per_multiprocessor


def checked_shape(what: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """The grid's or block's shape in three dimensions, if the device takes it.

    Parameters
    ----------
    what : {"grid", "block"}
    """
    limits = _LARGEST_GRID if what == "grid" else _LARGEST_BLOCK
    if not 1 <= len(shape) <= 3:
        raise ValueError(
            f"{what} has {len(shape)} dimensions, {shape}; 1 to 3 are wanted"
        )
    x, y, z = (*(int(size) for size in shape), 1, 1)[:3]
    for size, limit in zip((x, y, z), limits, strict=True):
        if not 1 <= size <= limit:
            raise ValueError(f"{what} is {shape}; each size must be 1 to {limits}")
    if what == "block" and x * y * z > threads_per_block:
        raise ValueError(
            f"block is {shape}, {x * y * z} threads; "
            f"at most {threads_per_block} are wanted"
        )
    return x, y, z


def check_shared_memory(static: int, dynamic: int) -> None:
    """Raise ValueError if a block may not have so many bytes of shared memory."""
    if dynamic < 0:
        raise ValueError(f"shared_mem is {dynamic}; no less than 0 is wanted")
    if static + dynamic > shared_memory_per_block:
        raise ValueError(
            f"shared_mem is {dynamic}, and the kernel's own shared variables take "
            f"{static} bytes; together at most {shared_memory_per_block} are wanted"
        )
