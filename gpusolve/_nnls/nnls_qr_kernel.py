"""NNLS on a device: memory and launches of ``cuda_src/nnls_qr.cu``."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array
from .._device.kernels import CUDA_TYPES, Device, Kernel, struct_in
from .._device.launch import (
    CACHED,
    LAUNCH_SECONDS,
    WARP,
    ceil_div,
    round_up,
)
from .._device.structs import Struct
from .launch_arguments import LaunchArguments
from .problem import Problem

MAX_THREADS = 256
"""Launch bounds of the kernel: the most threads a block may have."""
ROWS_PER_THREAD = 4
"""Rows or columns, whichever are more, for each thread of a block."""
BLOCK_SPEED = 1e9
"""Lower bound on the operations per second of one block. Assumed, not measured."""
ALIGNMENT = 16
"""Alignment in bytes of the regions of a block."""
STATIC_SHARED_MEMORY = 4096
"""Upper bound on the bytes of the kernel's static shared memory."""

QR_MEMORY = struct_in("certified_system.cuh", "QrMemory")


def region_bytes(
    rows: int, n: int, itemsize: int, capacity: int
) -> tuple[int, int, int]:
    """Bytes of a block's three regions: vectors, R and Q. See ``NnlsArrays::place``."""
    reals = 2 * rows + 4 * n + 3 * capacity + (capacity + 2)
    integers = n + 2 * capacity
    vectors = round_up(reals * itemsize + integers * 4, ALIGNMENT)
    # R has two more columns: Q^T b and the shift.
    R = round_up(capacity * (capacity + 2) * itemsize, ALIGNMENT)
    return vectors, R, round_up(rows * capacity * itemsize, ALIGNMENT)


def regions_that_fit(regions: tuple[int, int, int], limit: int) -> int:
    """The number of leading regions that fit into `limit` bytes together."""
    return sum(sum(regions[: k + 1]) <= limit for k in range(3))


def region_begins(regions: tuple[int, int, int], in_shared: int) -> list[int]:
    """Bytes before each region in the memory that it is in."""
    return [
        sum(regions[:k]) if k < in_shared else sum(regions[in_shared:k])
        for k in range(3)
    ]


def block_threads(rows: int, n: int) -> int:
    """Threads per block: `ROWS_PER_THREAD`, in whole warps."""
    threads = ceil_div(max(rows, n), ROWS_PER_THREAD)
    return min(MAX_THREADS, max(WARP, round_up(threads, WARP)))


class BlockShape(NamedTuple):
    """The threads and the memory of a block.

    Attributes
    ----------
    threads : int
    shared_bytes : int
        Of the regions in dynamic shared memory.
    workspace_bytes : int
        Of the other regions, in the workspace.
    R, Q : int
        Bytes before these regions in the memory that they are in.
    in_shared : int
        The number of regions in shared memory.
    """

    threads: int
    shared_bytes: int
    workspace_bytes: int
    R: int
    Q: int
    in_shared: int


@functools.lru_cache(CACHED)
def block_of(rows: int, n: int, itemsize: int, limit: int) -> BlockShape:
    """The block for systems of this size; `limit` limits the dynamic shared memory."""
    regions = region_bytes(rows, n, itemsize, min(rows, n))
    return shape_of(block_threads(rows, n), regions, regions_that_fit(regions, limit))


def shape_of(threads: int, regions: tuple[int, int, int], in_shared: int) -> BlockShape:
    """The block with these regions; the first `in_shared` are in shared memory."""
    _, R, Q = region_begins(regions, in_shared)
    return BlockShape(
        threads,
        sum(regions[:in_shared]),
        round_up(max(sum(regions[in_shared:]), 1), 256),
        R,
        Q,
        in_shared,
    )


def allocate_workspace(
    device: Device, blocks: int, bytes_per_block: int
) -> tuple[Array, int]:
    """Allocate memory for up to `blocks` blocks; return it and the number of blocks.

    The number is halved until the allocation succeeds. Fewer blocks each solve more
    systems, so the size of a batch is not limited by the workspace. MemoryError if a
    single block does not fit.
    """
    while blocks > 1:
        with contextlib.suppress(MemoryError):
            return device.empty((blocks * bytes_per_block,), np.uint8), blocks
        blocks //= 2
    return device.empty((bytes_per_block,), np.uint8), 1


def systems_per_launch(problem: Problem, device: Device) -> int:
    """Limit on the systems of one launch; with a watchdog, a few per block."""
    if not device.has_watchdog:
        return 2**62
    rows, n = problem.rows, problem.shape[1]
    blocks = _kernel_of(problem, device)[-1]
    work = 6 * rows * n * min(rows, n)
    return blocks * max(1, int(LAUNCH_SECONDS * BLOCK_SPEED / max(1, work)))


def qr_blocks(systems: LaunchArguments, device: Device, most: int) -> tuple[int, int]:
    """The number of blocks, at most `most`, and the bytes of workspace of each."""
    of_block, _, resident = _kernel_of(systems.problem, device)
    return min(systems.total, resident, most), of_block.workspace_bytes


def qr_workspace(
    systems: LaunchArguments, device: Device, most: int
) -> tuple[Array, int]:
    """Allocate the workspace; return it and the number of blocks, at most `most`."""
    return allocate_workspace(device, *qr_blocks(systems, device, most))


def nnls_qr(
    systems: LaunchArguments,
    device: Device,
    memory: tuple[Array, int],
    listed: Array | None = None,
) -> None:
    """Solve all systems, or the listed systems, on the current stream.

    The host does not read the number of listed systems.

    Parameters
    ----------
    systems : LaunchArguments
    device : Device
    memory : tuple
        Of `qr_workspace`.
    listed : (total, 2) int64 array, optional
        ``ListedSystem`` of ``batch.cuh``.
    """
    problem = systems.problem
    of_block, kernel, _ = _kernel_of(problem, device)
    argument = systems.argument(float(problem.tolerance), listed)
    if listed is not None:
        argument = argument.replace(warm=True)
    launch(kernel, of_block, argument, memory)


def launch(
    kernel: Kernel, of_block: BlockShape, argument: Struct, memory: tuple[Array, int]
) -> None:
    """Launch a kernel that keeps a factorisation for each block."""
    workspace, blocks = memory
    regions = QR_MEMORY(
        workspace=workspace,
        workspace_stride=of_block.workspace_bytes,
        R=of_block.R,
        Q=of_block.Q,
        in_shared=of_block.in_shared,
    )
    kernel(
        (blocks,),
        (of_block.threads,),
        (argument, regions),
        shared_mem=of_block.shared_bytes,
    )


def is_general(problem: Problem) -> bool:
    """Whether there is more than x >= 0 and an l2 penalty that all variables share."""
    has_more = problem.weights is not None or problem.has_sum or problem.has_penalties
    return has_more or not (problem.is_nnls and isinstance(problem.l2, float))


def instance(dtype: np.dtype[Any], general: bool) -> str:
    """The kernel for problems of a dtype; a simpler kernel unless they are general."""
    return f"nnls_qr<{CUDA_TYPES[dtype]}, {str(general).lower()}>"


def _kernel_of(problem: Problem, device: Device) -> tuple[BlockShape, Kernel, int]:
    """The shape of a block, the kernel, and its number of resident blocks."""
    rows, n, dtype = problem.rows, problem.shape[1], problem.dtype
    limit = device.shared_memory_per_block - STATIC_SHARED_MEMORY
    of_block = block_of(rows, n, dtype.itemsize, limit)
    (kernel,) = device.kernels("nnls_qr", (instance(dtype, is_general(problem)),))
    resident = kernel.resident_blocks(of_block.threads, of_block.shared_bytes)
    return of_block, kernel, resident
