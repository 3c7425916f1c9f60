"""Gram matrices on a device: the launch of ``cuda_src/gram.cu``.

The launch shapes serve ``cuda_src/stacked.cu`` too, which also passes over the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, namespace
from ..._device.kernels import CUDA_TYPES, Device, Kernel
from ..._device.launch import THREADS, WARP, ceil_div
from .._terms.basis import CompactBasis

DOUBLE = 8
"""Bytes of a float64."""
GRAM_COPIES = 16
"""Copies of the sums of a warp: ``gram_copies`` of ``gram.cu``."""
MOMENT_BYTES = 32 * 1024
"""Limit on the shared memory for copies of moments, in bytes: it leaves enough for two
blocks on a multiprocessor."""
BALANCE = 0.9
"""Fraction of blocks that are busy on average; chunks are no smaller than it needs."""
ROUNDS = 8
"""Upper limit on the chunks of all learners, as a multiple of the blocks."""
ROWS_OF_A_WARP = 256
"""Minimum number of rows for each warp. It limits the number of chunks."""


def gram_sums(basis: CompactBasis, functions: int) -> int:
    """Number of float64 in the sums of a warp: `GRAM_COPIES` of a matrix's band."""
    width: int = basis.values.shape[-1]
    return GRAM_COPIES * functions * width


def lanes_of(width: int) -> int:
    """The lanes that add a row of `width` values: a power of two."""
    return 1 << (width - 1).bit_length()


def moment_sums(functions: int, lanes: int, pitch: int) -> int:
    """Number of float64 in the moments of all warps: ``SumCopies``."""
    return THREADS // WARP * ceil_div(functions, lanes) * pitch


def moment_pitch(functions: int, lanes: int, limit: int) -> int:
    """The pitch of ``SumCopies``; 32 if the copies fit in `limit` bytes.

    Examples
    --------
    >>> [moment_pitch(32, 4, limit) for limit in (16384, 16383, 100)]
    [32, 16, 4]
    """
    limit = min(limit, MOMENT_BYTES)
    for pitch in (WARP, WARP // 2, WARP // 4):
        if pitch > lanes and DOUBLE * moment_sums(functions, lanes, pitch) <= limit:
            return pitch
    return lanes


def gram_warps(basis: CompactBasis, functions: int, limit: int) -> int:
    """The warps whose sums fit in `limit` bytes of shared memory; maybe 0."""
    return min(THREADS // WARP, limit // (DOUBLE * gram_sums(basis, functions)))


def launch_shape(
    kernel: Kernel,
    costs: NDArray[Any],
    rows: int,
    bytes_needed: int,
    fits: int = 1,
    groups: int = 1,
) -> tuple[int, NDArray[np.int64]]:
    """The blocks, all resident, and the chunks of the rows of each learner.

    A block adds a chunk for a group of fits. The chunks are in proportion to the cost
    of a learner: the bytes it reads of a row.
    """
    resident = kernel.resident_blocks(THREADS, bytes_needed)
    most = max(1, rows // (ROWS_OF_A_WARP * (THREADS // WARP)))
    chunks = balanced_chunks(len(costs) * groups, resident, most)
    own = np.rint(chunks * costs / costs.mean()).clip(1, most).astype(np.int64)
    return min(resident, fits * int(own.sum())), own


def balanced_chunks(learners: int, blocks: int, most: int) -> int:
    """Into how many chunks the rows of each learner are divided.

    The smallest number with which blocks are busy for `BALANCE` of the time; without
    such a number, the number with the highest fraction.

    Examples
    --------
    >>> balanced_chunks(learners=100, blocks=264, most=48)  # 500 chunks, 2 for a block
    5
    """
    most = min(most, max(1, ROUNDS * blocks // learners))

    def busy(chunks: int) -> float:
        return learners * chunks / (blocks * ceil_div(learners * chunks, blocks))

    good = (chunks for chunks in range(1, most + 1) if busy(chunks) >= BALANCE)
    return next(good, max(range(1, most + 1), key=busy))


def instance(name: str, values: Array) -> str:
    """The name of a kernel with its template arguments."""
    return f"{name}<{CUDA_TYPES[values.dtype]}, {values.shape[-1]}, {THREADS}>"


def gram_matrices(
    basis: CompactBasis, weights: Array | None, n_basis: int, device: Device
) -> Array:
    """``X' W X`` of each learner, (K, k, k), whose sums must fit: see `gram_warps`."""
    first, values = basis
    count, rows = first.shape
    warps = gram_warps(basis, n_basis, device.shared_memory_per_block)
    needed = DOUBLE * warps * gram_sums(basis, n_basis)
    instances = (instance("gram_matrices", values),)
    (kernel,) = device.kernels("gram", instances)
    chunks = int(launch_shape(kernel, np.ones(count), rows, needed)[1][0])
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


def grams_of(
    basis: CompactBasis | None, weights: Array | None, functions: int, device: Device
) -> Array | None:
    """``X'WX`` of each learner for F diagonals W, (F, n) or None: (K, F, k, k).

    None without a basis, or if its sums do not fit in shared memory.
    """
    limit = device.shared_memory_per_block
    if basis is None or not gram_warps(basis, functions, limit):
        return None
    each = [None] if weights is None else weights
    made = [gram_matrices(basis, w, functions, device) for w in each]
    return namespace(made[0]).stack(made, axis=1)


def flatten_matrices(matrices: Sequence[Array]) -> Array:
    """The elements of the matrices of all learners, learner by learner."""
    xp = namespace(matrices[0])
    return xp.concatenate([matrix.reshape(-1) for matrix in matrices])
