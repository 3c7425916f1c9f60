"""NNLS from Gram matrices on a device: memory and launches of ``nnls_gram.cu``."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._device.arrays import Array, namespace, strided, systems_offsets
from .._device.kernels import CUDA_TYPES, Device
from .._device.launch import THREADS, WARP, ceil_div, round_up
from ..reference._nnls_qr import Solution
from .inputs import Problem

THREAD_VARIABLES, THREAD_ROWS = 6, 16
"""The largest systems that one thread solves."""
WARP_VARIABLES, WARP_ROWS = 32, 256
"""The largest systems that one warp solves."""
GRID_VARIABLES, GRID_SYSTEMS = 1024, 4
"""The least variables, and the most systems, for which all blocks solve one system."""

MAX_THREADS = 512
"""Launch bounds of the kernel: the most threads a block may have."""
ALIGNMENT = 16
"""Alignment in bytes of the arrays of a team; the bytes of one value of a reduction."""
SCALE_TILE = 32
"""Columns of a block of ``scale_columns``."""


class Team(NamedTuple):
    """The threads that solve one system together; see ``team.cuh``."""

    name: str
    stride: int
    teams_of_block: int
    threads: int


def team_for(m: int, n: int, capacity: int, systems: int) -> Team:
    """The team for systems of this size."""
    if n * m <= 20 and n <= THREAD_VARIABLES and m <= THREAD_ROWS:
        return Team("ThreadTeam", 128, 128, 128)
    if n <= WARP_VARIABLES and m <= WARP_ROWS:
        return Team("WarpTeam", 1, 4, 4 * WARP)
    threads = min(MAX_THREADS, max(2 * WARP, round_up(max(m, n), WARP)))
    if capacity >= GRID_VARIABLES and systems <= GRID_SYSTEMS:
        return Team("GridTeam", 1, 1, THREADS)
    return Team("BlockTeam", 1, 1, threads)


class Layout(NamedTuple):
    """The memory of a team in bytes; see ``GramArrays`` in ``nnls_gram.cu``.

    Attributes
    ----------
    vectors : int
    in_shared : bool
        Whether the vectors are in shared memory.
    near : int
        Entries of the inverse that are in shared memory.
    shared : int
    workspace : int
        Global memory.
    """

    vectors: int
    in_shared: bool
    near: int
    shared: int
    workspace: int


def layout_of(
    team: Team, m: int, n: int, rows: int, scales: bool, limit: int
) -> Layout:
    """The memory of a team, of whose block at most `limit` bytes are shared memory."""
    capacity = min(rows, n)
    doubles = 3 * [n] + 2 * [rows] + 4 * [capacity]
    if scales:
        doubles += [(m | 1) * n, n * n, n, n]
    counts = [8 * count for count in doubles] + [4 * capacity]
    vectors = sum(round_up(count * team.stride, ALIGNMENT) for count in counts)
    entries = capacity * (capacity + 1) // 2
    together = team.teams_of_block // team.stride
    share = 0 if team.name == "GridTeam" else limit // together
    in_shared = vectors <= share
    left = (share - vectors if in_shared else share) // ALIGNMENT * ALIGNMENT
    near = min(entries, left // (8 * team.stride))
    near_bytes = round_up(8 * near * team.stride, ALIGNMENT)
    far_bytes = round_up(8 * (entries - near) * team.stride, ALIGNMENT)
    return Layout(
        vectors,
        in_shared,
        near,
        near_bytes + in_shared * vectors,
        far_bytes + (not in_shared) * vectors,
    )


class ScaledMatrices(NamedTuple):
    """The scaled columns of all matrices, their norms and scales, and ``A^T A``."""

    columns: Array
    G: Array
    norm: Array
    column_scale: Array
    matrix: Array


def scaled_matrices(problem: Problem, device: Device) -> ScaledMatrices:
    """Scale each matrix once, and multiply it by its transpose."""
    A, (m, n) = strided(problem.A), problem.shape
    own = A.shape[:-2]
    matrices = math.prod(own)
    columns = device.empty((matrices, n, m), np.float64)
    norm = device.empty((matrices, n), np.float64)
    column_scale = device.empty((matrices, n), np.float64)
    kernel = device.kernel("nnls_gram", f"scale_columns<{CUDA_TYPES[A.dtype]}>")
    kernel(
        (matrices * ceil_div(n, SCALE_TILE),),
        (8 * WARP,),
        (
            A,
            systems_offsets(A, 2, own),
            np.int64(A.strides[-2] // A.itemsize),
            np.int64(A.strides[-1] // A.itemsize),
            np.int32(m),
            np.int32(n),
            np.float64(math.sqrt(problem.l2)),
            columns,
            norm,
            column_scale,
        ),
    )
    xp = namespace(A)
    G = xp.matmul(columns, columns.swapaxes(-1, -2))
    G.reshape(matrices, n * n)[:, :: n + 1] += problem.l2 * column_scale**2
    of_own = xp.arange(matrices, dtype=np.int64).reshape(own)
    matrix = xp.ascontiguousarray(xp.broadcast_to(of_own, problem.batch).reshape(-1))
    return ScaledMatrices(columns, G, norm, column_scale, matrix)


def nnls_gram(problem: Problem, device: Device) -> Solution:
    """Solve every system of the batch on the current stream."""
    (m, n), dtype, batch = problem.shape, problem.dtype, problem.batch
    systems = math.prod(batch)
    x = device.empty((systems, n), dtype)
    if problem.start is not None:
        x.reshape((*batch, n))[...] = problem.start
    solution = Solution(
        x=x,
        rnorm=device.empty((systems,), dtype),
        dual=device.empty((systems, n), dtype),
        kkt=device.empty((systems,), dtype),
        nit=device.empty((systems,), np.int32),
        status=device.empty((systems,), np.int32),
        n_updates=device.empty((systems,), np.int32),
        n_downdates=device.empty((systems,), np.int32),
        repaired=device.zeros((systems,), np.bool_),
    )
    if systems == 0:
        return solution
    rows = m + (n if problem.l2 > 0 else 0)
    capacity = min(rows, n)
    team = team_for(m, n, capacity, systems)
    A, b = strided(problem.A), strided(problem.b)
    own = math.prod(A.shape[:-2]) > 1
    scales = team.name == "ThreadTeam" or (team.name == "WarpTeam" and own)
    layout = layout_of(
        team, m, n, rows, scales, device.shared_memory_per_block - 2048
    )
    kernel = device.kernel(
        "nnls_gram", f"nnls_gram<{CUDA_TYPES[dtype]}, {team.name}>"
    )
    together = team.teams_of_block // team.stride
    shared = layout.shared * together
    resident = kernel.resident_blocks(team.threads, shared)
    blocks = ceil_div(systems, team.teams_of_block)
    if team.name == "GridTeam":
        blocks = resident
    elif layout.workspace:
        blocks = min(blocks, resident)
    matrices: tuple[object, ...] = (None,) * 5
    A_arguments: tuple[object, ...] = (None, None, np.int64(0), np.int64(0))
    if scales:
        A_arguments = (
            A,
            systems_offsets(A, 2, batch),
            np.int64(A.strides[-2] // A.itemsize),
            np.int64(A.strides[-1] // A.itemsize),
        )
    else:
        matrices = scaled_matrices(problem, device)
    count = 1 if team.name == "GridTeam" else blocks * together
    workspace = device.empty((max(1, layout.workspace * count),), np.uint8)
    barrier = device.zeros((ALIGNMENT * (1 + 2 * blocks),), np.uint8)
    kernel(
        (blocks,),
        (team.threads,),
        (
            *A_arguments,
            *matrices,
            b,
            systems_offsets(b, 1, batch),
            np.int64(b.strides[-1] // b.itemsize),
            np.int64(systems),
            np.int32(m),
            np.int32(n),
            np.float64(problem.l1),
            np.float64(math.sqrt(problem.l2)),
            np.float64(problem.tolerance),
            np.int32(min(problem.iteration_limit, 2**31 - 1)),
            np.int32(problem.start is not None),
            np.int32(problem.maxiter is not None),
            *solution[:-1],
            None,
            None,
            np.int64(layout.vectors),
            np.int64(layout.near),
            np.int64(layout.shared),
            np.int32(layout.in_shared),
            workspace,
            np.int64(layout.workspace),
            barrier,
        ),
        shared_mem=shared,
        cooperative=team.name == "GridTeam",
    )
    return solution
