"""Gram matrices on a device: the launch of ``cuda_src/gram.cu``.

The launch shapes serve ``cuda_src/boosting.cu`` too, which also passes over the rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._device.arrays import Array
from .._device.kernels import CUDA_TYPES, Device, Kernel
from .._device.launch import THREADS, WARP, ceil_div

DOUBLE = 8
"""Bytes of a float64."""
STATIC_SHARED_MEMORY = 32 * 1024
"""Upper limit of the kernels' static shared memory, in bytes."""
ROWS_OF_A_WARP = 256
"""Minimum number of rows for each warp. It limits the number of chunks."""


class LaunchShape(NamedTuple):
    """How the blocks of a launch share the learners and the rows.

    Attributes
    ----------
    blocks : int
        Number of blocks; all are resident.
    chunks : int
        Number of chunks into which the rows of each learner are divided.
    shared_bytes : int
        Dynamic shared memory of a block.
    """

    blocks: int
    chunks: int
    shared_bytes: int


def shared_bytes(functions: int, sums: int, integers: int = 0) -> int:
    """Shared memory for ``Vectors`` in the kernel and the sums of its warps, in bytes.

    Parameters
    ----------
    functions : int
        Number k of basis functions.
    sums : int
        Number of float64 sums of all warps.
    integers : int, optional
        Number of 32-bit integers.
    """
    return DOUBLE * (3 * functions + ceil_div(integers, 2) + sums)


def gram_warps(learners: int, functions: int, limit: int) -> int:
    """Number of warps whose k x k sums fit in `limit` bytes of shared memory; maybe 0.

    `learners` is the number of learners for which shared memory holds an integer.
    """
    fixed = shared_bytes(functions, 0, learners) + STATIC_SHARED_MEMORY
    return min(THREADS // WARP, max(0, limit - fixed) // (DOUBLE * functions**2))


def gram_fits(learners: int, functions: int, device: Device | None) -> bool:
    """Whether the k x k sums of a warp fit in shared memory; always on a host."""
    if device is None:
        return True
    return gram_warps(learners, functions, device.shared_memory_per_block) > 0


def stacked_fits(functions: int, device: Device | None) -> bool:
    """Whether the sums of all warps fit in shared memory; always on a host."""
    if device is None:
        return True
    needed = shared_bytes(functions, THREADS // WARP * functions)
    return needed + STATIC_SHARED_MEMORY <= device.shared_memory_per_block


def launch_shape(
    kernel: Kernel, learners: int, rows: int, bytes_needed: int
) -> LaunchShape:
    """All blocks that are resident at once, because they wait for each other.

    If the learners are fewer than the blocks, their rows are divided into chunks.
    """
    resident = kernel.resident_blocks(THREADS, bytes_needed)
    most = max(1, rows // (ROWS_OF_A_WARP * (THREADS // WARP)))
    chunks = min(most, max(1, resident // learners))
    return LaunchShape(min(resident, learners * chunks), chunks, bytes_needed)


def instance(name: str, values: Array) -> str:
    """The name of a kernel with its template arguments."""
    return f"{name}<{CUDA_TYPES[values.dtype]}, {values.shape[-1]}, {THREADS}>"


def gram_matrices(
    first: Array, values: Array, weights: Array | None, n_basis: int, device: Device
) -> Array:
    """``X' W X`` of each learner, which must fit: see `gram_fits`.

    Parameters
    ----------
    first : (K, n) int32 array
    values : (K, n, degree + 1) array
    weights : (n,) float64 array or None
    n_basis : int
        Number k of basis functions.

    Returns
    -------
    (K, k, k) float64 array
    """
    count, rows = first.shape
    warps = gram_warps(0, n_basis, device.shared_memory_per_block)
    needed = DOUBLE * warps * n_basis**2
    kernel = device.kernel("gram", instance("gram_matrices", values))
    chunks = launch_shape(kernel, count, rows, needed).chunks
    parts = device.empty((chunks, count, n_basis, n_basis), np.float64)
    kernel(
        (chunks * count,),
        (THREADS,),
        (
            first,
            values,
            weights,
            np.int64(rows),
            np.int32(count),
            np.int32(n_basis),
            np.int32(chunks),
            np.int32(warps),
            parts,
        ),
        shared_mem=needed,
    )
    return parts.sum(axis=0)
