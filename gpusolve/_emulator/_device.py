"""Limits of the emulated device.

The limits are taken from compute capability 8.6, which has the least shared memory per
block since Ampere: a kernel that fits here fits there, too. With two multiprocessors,
several blocks run concurrently, and each block of a persistent grid does several tiles.
"""

from __future__ import annotations

import math

from ._errors import LaunchError
from ._setting import Setting

INVALID_VALUE, INVALID_CONFIGURATION, COOPERATIVE_LAUNCH_TOO_LARGE = 1, 9, 720
"""Errors of CUDA: cudaErrorInvalidValue and so on."""

multiprocessors = 2
static_shared_memory = 48 * 1024
threads_per_block = 1024
warp_threads = 32

threads_per_multiprocessor = 1536
blocks_per_multiprocessor = 16
resident_threads = multiprocessors * threads_per_multiprocessor
_SHARED_MEMORY_RESERVED = 1024
"""Bytes per block that CUDA reserves."""

SHARED_MEMORY = Setting("shared memory", lambda: 100 * 1024)
"""Bytes of a multiprocessor. A `with` statement can choose the size of another GPU."""

_LARGEST_BLOCK = (1024, 1024, 64)
_LARGEST_GRID = (2**31 - 1, 65535, 65535)


def shared_memory_per_block() -> int:
    """The most bytes of shared memory of a block."""
    return SHARED_MEMORY.value() - _SHARED_MEMORY_RESERVED


def resident_blocks(
    threads: int, shared_bytes: int, most_threads: int = threads_per_block
) -> int:
    """The number of blocks that are resident on the device at the same time.

    Parameters
    ----------
    threads, shared_bytes : int
        Threads and shared memory per block, static and dynamic.
    most_threads : int, optional
        Of a block of the kernel.
    """
    if threads > most_threads or shared_bytes > shared_memory_per_block():
        return 0
    warps = max(1, -(-threads // warp_threads))
    per_multiprocessor = min(
        blocks_per_multiprocessor,
        threads_per_multiprocessor // (warps * warp_threads),
        SHARED_MEMORY.value() // (shared_bytes + _SHARED_MEMORY_RESERVED),
    )
    return multiprocessors * per_multiprocessor


def checked_shape(what: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """The shape in three dimensions; LaunchError if it exceeds the device's limits.

    Parameters
    ----------
    what : {"grid", "block"}
    shape : tuple of int
    """
    if not hasattr(shape, "__len__"):
        raise TypeError(f"{what} must be a tuple of 1 to 3 integers, got {shape!r}")
    limits = _LARGEST_GRID if what == "grid" else _LARGEST_BLOCK
    if not 1 <= len(shape) <= 3:
        raise ValueError(f"{what} must have 1 to 3 dimensions, got {shape}")
    x, y, z = (*(int(size) for size in shape), 1, 1)[:3]
    for size, limit in zip((x, y, z), limits, strict=True):
        if not 1 <= size <= limit:
            raise LaunchError(
                f"{what} must be at least 1 and at most {limits} in x, y and z, got "
                f"{shape}",
                INVALID_CONFIGURATION,
            )
    if what == "block" and x * y * z > threads_per_block:
        raise LaunchError(
            f"block must have at most {threads_per_block} threads, got {shape}, which "
            f"has {x * y * z}",
            INVALID_CONFIGURATION,
        )
    return x, y, z


def check_launch_bounds(
    block: tuple[int, int, int],
    most_threads: int,
    required: tuple[int, ...] | None,
) -> None:
    """Raise LaunchError if a kernel does not allow the block.

    Parameters
    ----------
    block : tuple of int
        Within the limits of the device.
    most_threads, required :
        `LoadedKernel.most_threads` and `block`.
    """
    if required is not None and block != required:
        raise LaunchError(
            f"block must be {required}, which the kernel requires by .reqntid, got "
            f"{block}",
            INVALID_VALUE,
        )
    if math.prod(block) > most_threads:
        raise LaunchError(
            f"block must have at most {most_threads} threads, which the kernel's "
            f"__launch_bounds__ (.maxntid) allow, got {block}, which has "
            f"{math.prod(block)}",
            INVALID_VALUE,
        )


def check_shared_memory(static: int, dynamic: int) -> None:
    """Raise LaunchError if a block cannot have these bytes of shared memory."""
    if dynamic < 0:
        raise LaunchError(f"shared_mem must be >= 0, got {dynamic}", INVALID_VALUE)
    most = shared_memory_per_block()
    if static + dynamic > most:
        raise LaunchError(
            f"shared_mem must be at most {most - static}, got "
            f"{dynamic}: a block has {most} bytes of shared memory, "
            f"of which the kernel's __shared__ variables take {static}",
            INVALID_VALUE,
        )
