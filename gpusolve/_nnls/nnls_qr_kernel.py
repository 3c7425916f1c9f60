"""NNLS on a device: memory and launches of ``cuda_src/nnls_qr.cu``."""

from __future__ import annotations

import contextlib
import functools
import math
from typing import NamedTuple

import numpy as np

from .._device.arrays import Array, part_of, strided, systems_offsets
from .._device.kernels import CUDA_TYPES, Device
from .._device.launch import (
    CACHED,
    LAUNCH_SECONDS,
    WARP,
    ceil_div,
    pieces,
    round_up,
)
from ..reference._nnls_qr import Solution
from .inputs import Problem

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


def region_bytes(rows: int, n: int, itemsize: int) -> tuple[int, int, int]:
    """Bytes of a block's three regions: vectors, R and Q. See ``NnlsArrays::place``."""
    capacity = min(rows, n)
    reals = 2 * rows + 4 * n + 3 * capacity + (capacity + 2)
    integers = n + 2 * capacity
    vectors = round_up(reals * itemsize + integers * 4, ALIGNMENT)
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
    numbers : tuple
        Arguments of the kernel: where R and Q begin, and the number of regions in
        shared memory.
    """

    threads: int
    shared_bytes: int
    workspace_bytes: int
    numbers: tuple[np.generic, ...]


@functools.lru_cache(CACHED)
def block_of(rows: int, n: int, itemsize: int, limit: int) -> BlockShape:
    """The block for systems of this size; `limit` is that of dynamic shared memory."""
    regions = region_bytes(rows, n, itemsize)
    in_shared = regions_that_fit(regions, limit)
    return BlockShape(
        block_threads(rows, n),
        sum(regions[:in_shared]),
        round_up(max(sum(regions[in_shared:]), 1), 256),
        (*map(np.int64, region_begins(regions, in_shared)[1:]), np.int32(in_shared)),
    )


def allocate_workspace(
    device: Device, blocks: int, bytes_per_block: int
) -> tuple[Array, int]:
    """Allocate memory for up to `blocks` blocks; return it and the number of blocks.

    The number is halved until the allocation succeeds. Fewer blocks each solve more
    systems, so the size of a batch is not limited by the workspace. MemoryError if one
    block does not fit.
    """
    while blocks > 1:
        with contextlib.suppress(MemoryError):
            return device.empty((blocks * bytes_per_block,), np.uint8), blocks
        blocks //= 2
    return device.empty((bytes_per_block,), np.uint8), 1


def systems_per_launch(device: Device, blocks: int, rows: int, n: int) -> int:
    """Limit on the systems of one launch; with a watchdog, a few per block."""
    if not device.has_watchdog:
        return 2**62
    work = 6 * rows * n * min(rows, n)
    return blocks * max(1, int(LAUNCH_SECONDS * BLOCK_SPEED / max(1, work)))


class Unsettled(NamedTuple):
    """Systems that another method could not settle.

    Attributes
    ----------
    listed : (systems,) int64 array
        Their indices in the batch, in any order, in its first elements.
    count : (1,) uint64 array
        Their number, which the host does not read.
    """

    listed: Array
    count: Array


def empty_solution(problem: Problem, device: Device) -> Solution:
    """Allocate the solution; its x holds the warm start, if there is one."""
    n, dtype, batch = problem.shape[1], problem.dtype, problem.batch
    x = device.empty((*batch, n), dtype)
    if problem.start is not None:
        x[...] = problem.start
    return Solution(
        x=x,
        rnorm=device.empty(batch, dtype),
        dual=device.empty((*batch, n), dtype),
        kkt=device.empty(batch, dtype),
        nit=device.empty(batch, np.int32),
        status=device.empty(batch, np.int32),
        n_updates=device.empty(batch, np.int32),
        n_downdates=device.empty(batch, np.int32),
        repaired=device.empty(batch, np.bool_),
    )


def nnls_qr(
    problem: Problem,
    device: Device,
    solution: Solution,
    unsettled: Unsettled | None = None,
) -> None:
    """Solve every system of the batch, or the unsettled ones, on the current stream.

    The solution's x holds the starting points. There is one launch, or several short
    ones if the device has a watchdog. The workspace is allocated last, because it may
    take all free memory.
    """
    (m, n), dtype, batch = problem.shape, problem.dtype, problem.batch
    systems = math.prod(batch)
    real = dtype.type
    if systems == 0:
        return

    rows = m + (n if problem.l2 > 0 else 0)
    limit = device.shared_memory_per_block - STATIC_SHARED_MEMORY
    of_block = block_of(rows, n, dtype.itemsize, limit)
    (kernel,) = device.kernels("nnls_qr", (f"nnls_qr<{CUDA_TYPES[dtype]}>",))
    resident = kernel.resident_blocks(of_block.threads, of_block.shared_bytes)
    A, b = strided(problem.A), strided(problem.b)
    A_offset, b_offset = systems_offsets(A, 2, batch), systems_offsets(b, 1, batch)
    most = systems_per_launch(device, resident, rows, n)
    launches = list(pieces(systems, most))
    next_system = device.zeros((len(launches),), np.uint64)
    workspace, blocks = allocate_workspace(
        device, min(systems, resident, most), of_block.workspace_bytes
    )
    for launch, part in enumerate(launches):
        count = part.stop - part.start
        kernel(
            (min(blocks, count),),
            (of_block.threads,),
            (
                A,
                part_of(A_offset, 1, part),
                np.int64(A.strides[-2] // A.itemsize),
                np.int64(A.strides[-1] // A.itemsize),
                b,
                part_of(b_offset, 1, part),
                np.int64(b.strides[-1] // b.itemsize),
                np.int64(count),
                np.int32(m),
                np.int32(n),
                real(problem.l1),
                real(math.sqrt(problem.l2)),
                real(problem.tolerance),
                np.int32(min(problem.iteration_limit, 2**31 - 1)),
                np.int32(unsettled is not None or problem.start is not None),
                *[part_of(field, len(batch), part) for field in solution],
                part_of(next_system, 1, slice(launch, launch + 1)),
                *of_block.numbers,
                workspace,
                np.int64(of_block.workspace_bytes),
            ),
            shared_mem=of_block.shared_bytes,
        )
    return solution


def _starting_points(problem: Problem, device: Device) -> Array:
    """The array of solutions, which holds the warm start before the launch."""
    x = device.empty((*problem.batch, problem.shape[1]), problem.dtype)
    if problem.start is not None:
        x[...] = problem.start
    return x
