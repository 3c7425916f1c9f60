"""The boosting loop on a device: the launches of ``cuda_src/boosting.cu``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._arrays import Array
from .._kernels import CUDA_TYPES, Device, Kernel
from .learners import Learners

WARP = 32
THREADS = 256
"""Of a block. Not measured on a GPU yet."""
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
    return DOUBLE * (3 * functions + -(-integers // 2) + sums)


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


def boost(
    learners: Learners,
    residual: Array,
    learning_rate: float,
    steps: int,
    method: str,
    device: Device,
) -> tuple[Array, Array, Array]:
    """Boost `steps` times, in one launch on the current stream.

    Parameters
    ----------
    learners : Learners
        K of them, with k functions each, on the device.
    residual : (n,) array
        Of the start.
    learning_rate : float
    steps : int
    method : {"stacked", "gram"}

    Returns
    -------
    selected : (steps,) int32 array
        The learner of each step.
    updates : (steps, k) float64 array
        By how much its coefficients change.
    risk : (steps + 1,) float64 array
        The weighted sum of squares before the first step and after each.

    Raises
    ------
    ValueError
        For "gram" with more functions than a block's shared memory has room for.
    """
    count, rows = learners.first.shape
    k = learners.n_basis
    kernel = device.kernel("boosting", instance(f"boost_{method}", learners.values))
    is_gram = method == "gram"
    warps = gram_warps(count, k, device.shared_memory_per_block) if is_gram else 0
    if is_gram and warps == 0:
        raise ValueError(
            f"method is 'gram' with {k} basis functions, which do not fit in a block's "
            f"{device.shared_memory_per_block} bytes of shared memory; 'stacked' is "
            "wanted"
        )
    sums = max(THREADS // WARP * k, warps * k * k)
    needed = shared_bytes(k, sums, count if is_gram else 0)
    launch = plan(kernel, count, rows, needed)

    def doubles(*shape: int) -> Array:
        return device.empty(shape, np.float64)

    u = residual.astype(np.float64)
    weights = learners.weights
    selected = device.empty((steps,), np.int32)
    updates, risk = doubles(steps, k), doubles(steps + 1)
    risk[:1] = (u * u if weights is None else weights * u * u).sum()
    if steps == 0:
        return selected, updates, risk
    shared = (
        learners.first,
        learners.values,
        weights,
        learners.gram,
        learners.inverse,
        np.int64(rows),
        np.int32(count),
        np.int32(k),
        np.int32(launch.chunks),
        np.float64(learning_rate),
        np.int32(steps),
        u,
    )
    fits = doubles(2, count, k), doubles(2, count, 2), doubles(launch.blocks)
    path = selected, updates, risk, device.zeros((1,), np.uint64)
    own: tuple[object, ...]
    if is_gram:
        part = k * k if launch.chunks > 1 else k
        own = (
            doubles(launch.chunks, count, part),
            *fits,
            doubles(count, k),
            doubles(min(count, steps), count, k, k),
            device.zeros((count, k), np.float64),
            np.int32(warps),
        )
    else:
        own = doubles(launch.chunks, count, k), *fits
    kernel(
        (launch.blocks,),
        (THREADS,),
        (*shared, *own, *path),
        shared_mem=launch.shared_bytes,
        cooperative=True,
    )
    return selected, updates, risk
