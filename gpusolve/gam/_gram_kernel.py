"""How passes over the rows are launched, and the first of them: Gram matrices.

The kernels stand in ``cuda_src/boosting.cu``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._device.arrays import Array
from .._device.kernels import CUDA_TYPES, Device, Kernel
from .._device.launch import THREADS, WARP, ceil_div

DOUBLE = 8
STATIC_SHARED_MEMORY = 32 * 1024
"""More than the kernels' own shared variables take, in bytes."""
ROWS_OF_A_WARP = 256
"""At least so many rows a warp is given, so that few rows make few chunks."""


class Launch(NamedTuple):
    """How the blocks of a launch share the learners and the rows."""

    blocks: int
    chunks: int
    shared_bytes: int


def shared_bytes(functions: int, sums: int, integers: int = 0) -> int:
    """Shared memory for ``Vectors`` in the kernel, and the sums of its warps."""
    return DOUBLE * (3 * functions + ceil_div(integers, 2) + sums)


def gram_warps(learners: int, functions: int, limit: int) -> int:
    """How many warps find room for k x k sums each; 0 where not a single one does."""
    fixed = shared_bytes(functions, 0, learners) + STATIC_SHARED_MEMORY
    return min(THREADS // WARP, max(0, limit - fixed) // (DOUBLE * functions**2))


def plan(kernel: Kernel, learners: int, rows: int, bytes_needed: int) -> Launch:
    """As many blocks as the device holds at once: they wait for each other.

    Where there are few learners, each has its rows cut into chunks.

    Raises
    ------
    ValueError
        Where the device does not hold a single one.
    """
    resident = kernel.resident_blocks(THREADS, bytes_needed)
    if resident == 0:
        raise ValueError(
            f"a block wants {bytes_needed} bytes of shared memory, which the device "
            "does not have; fewer basis functions are wanted"
        )
    most = max(1, rows // (ROWS_OF_A_WARP * (THREADS // WARP)))
    chunks = min(most, max(1, resident // learners))
    return Launch(min(resident, learners * chunks), chunks, bytes_needed)


def instance(name: str, values: Array) -> str:
    """The kernel's name with its template arguments."""
    return f"{name}<{CUDA_TYPES[values.dtype]}, {values.shape[-1]}, {THREADS}>"


def own_gram(
    first: Array, values: Array, weights: Array | None, n_basis: int, device: Device
) -> Array:
    """``X' W X`` of each learner.

    Parameters
    ----------
    first : (K, n) int32 array
    values : (K, n, degree + 1) array
    weights : (n,) float64 array or None
    n_basis : int
        k.

    Returns
    -------
    (K, k, k) float64 array

    Raises
    ------
    ValueError
        For more functions than a block's shared memory has room for.
    """
    count, rows = first.shape
    warps = gram_warps(0, n_basis, device.shared_memory_per_block)
    if warps == 0:
        raise ValueError(f"{n_basis} basis functions do not fit in shared memory")
    needed = DOUBLE * warps * n_basis**2
    kernel = device.kernel("boosting", instance("own_gram", values))
    chunks = plan(kernel, count, rows, needed).chunks
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
