"""NNLS from Gram matrices on a device: memory and launches of ``nnls_gram.cu``."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from .._device.arrays import Array, batch_offsets, contiguous, namespace
from .._device.kernels import CUDA_TYPES, Device
from .._device.launch import CACHED, MAX_BLOCKS, WARP, ceil_div, round_up
from ..reference._nnls_qr import default_tolerance
from .nnls_qr_kernel import Systems, allocate_workspace

THREAD_VARIABLES, THREAD_ENTRIES = 6, 24
"""The most variables, and entries of a matrix, for a thread to solve a system."""
WARP_VARIABLES, WARP_ROWS = 32, 256
"""The most variables and rows for a warp to solve a system."""
GRID_VARIABLES, GRID_SYSTEMS = 1024, 4
"""The least variables, and the most systems, for the grid to solve a system."""

BLOCK_THREADS = 384
"""The most threads of a block that solves one system at a time."""
GRAM_TOLERANCE = default_tolerance(np.dtype(np.float64))
"""The default tolerance; it does not depend on the dtype of the inputs."""
ALIGNMENT = 16
"""Alignment in bytes of the arrays of a team; the bytes of one value of a reduction."""
STATIC_SHARED_MEMORY = 2048
"""Upper bound on the bytes of the kernel's static shared memory."""
SCALE_TILE, SCALE_THREADS = 32, 256
"""Columns and threads of a block of ``scale_columns``."""


class Team(NamedTuple):
    """The threads that solve one system together; see ``team.cuh``."""

    name: str
    threads: int
    """Of a block."""
    teams: int = 1
    """Of a block."""
    stride: int = 1
    """Distance of an array's elements."""

    @property
    def is_grid(self) -> bool:
        """Whether these are all threads of a cooperative launch."""
        return self.name == "GridTeam"

    @property
    def is_small(self) -> bool:
        """Whether the team scales its matrix itself, in shared memory."""
        return self.teams > 1


class Size(NamedTuple):
    """The size of each system. `rows` includes the rows of the l2 penalty."""

    m: int
    n: int
    rows: int

    @property
    def capacity(self) -> int:
        """The most passive variables."""
        return min(self.rows, self.n)


class Layout(NamedTuple):
    """The memory of a block in bytes; see ``GramArrays`` in ``nnls_gram.cu``.

    Attributes
    ----------
    matrix : int
        Shared memory for the matrix, if all teams of the block have the same.
    vectors : int
        The vectors of a team, or of all teams if their elements are interleaved.
    in_shared : bool
        Whether the vectors are in shared memory.
    near : int
        Entries of the inverse that are in shared memory.
    team : int
        Shared memory of a team, or of all teams if they are interleaved.
    shared : int
        Shared memory of the block.
    workspace : int
        Global memory of a team.
    numbers : tuple
        Arguments of the kernel.
    """

    matrix: int
    vectors: int
    in_shared: bool
    near: int
    team: int
    shared: int
    workspace: int
    numbers: tuple[np.generic, ...]


def teams_for(size: Size, few: bool) -> list[Team]:
    """Teams for systems of this size, of which there are `few`; the best first."""
    m, n = size.m, size.n
    teams = []
    if n <= THREAD_VARIABLES and m * n <= THREAD_ENTRIES:
        teams.append(Team("ThreadTeam", 128, 128, 128))
    if n <= WARP_VARIABLES and m <= WARP_ROWS:
        teams.append(Team("WarpTeam", 4 * WARP, 4))
    if size.capacity >= GRID_VARIABLES and few:
        teams.append(Team("GridTeam", 256))
    threads = min(BLOCK_THREADS, max(2 * WARP, round_up(max(m, n), WARP)))
    return [*teams, Team("BlockTeam", threads)]


def layout_of(team: Team, size: Size, shared_matrix: bool, limit: int) -> Layout:
    """The memory of a block, of which at most `limit` bytes are shared memory."""
    m, n, rows = size
    matrix = [8 * count for count in ((m | 1) * n, n * n, n, n)]
    arrays = [8 * n] * 3 + [8 * rows] * 2 + [8 * size.capacity] * 4
    arrays.append(4 * size.capacity)
    scales_once = team.is_small and team.stride == 1 and shared_matrix
    if team.is_small and not scales_once:
        arrays += matrix
    matrix_bytes = sum(round_up(one, ALIGNMENT) for one in matrix) * scales_once
    vectors = sum(round_up(one * team.stride, ALIGNMENT) for one in arrays)
    entries = size.capacity * (size.capacity + 1) // 2
    memories = team.teams // team.stride
    share = (limit - matrix_bytes) // memories // ALIGNMENT * ALIGNMENT
    if team.is_grid:
        share = 0
    in_shared = vectors <= share
    left = max(0, share - in_shared * vectors)
    near = min(entries, left // (8 * team.stride))
    near_bytes = round_up(8 * near * team.stride, ALIGNMENT)
    far_bytes = round_up(8 * (entries - near) * team.stride, ALIGNMENT)
    of_team = near_bytes + in_shared * vectors
    workspace = far_bytes + (not in_shared) * vectors
    bytes_of_kernel = map(np.int64, (matrix_bytes, vectors, near, of_team))
    return Layout(
        matrix=matrix_bytes,
        vectors=vectors,
        in_shared=in_shared,
        near=near,
        team=of_team,
        shared=matrix_bytes + memories * of_team,
        workspace=workspace,
        numbers=(*bytes_of_kernel, np.int32(in_shared), np.int64(workspace)),
    )


@functools.lru_cache(CACHED)
def choose(
    size: Size, few: bool, shared_matrix: bool, limit: int
) -> tuple[Team, Layout]:
    """The first team whose memory fits; a small one needs shared memory only."""
    for team in teams_for(size, few):
        layout = layout_of(team, size, shared_matrix, limit)
        if not (team.is_small and (layout.workspace or layout.shared > limit)):
            break
    return team, layout


class ScaledMatrices(NamedTuple):
    """Scaled matrices, one after another, and the index of each system's matrix.

    Attributes
    ----------
    columns : (matrices, n, m) array
    G : (matrices, n, n) array
        ``A^T A``, with the l2 penalty.
    norm, column_scale : (matrices, n) array
    which : (systems,) int64 array or None
        The index of each system's matrix. If None, it is the system's times `stride`.
    stride : int64
    """

    columns: Array
    G: Array
    norm: Array
    column_scale: Array
    which: Array | None
    stride: np.int64


def scale_matrices(systems: Systems, device: Device) -> ScaledMatrices:
    """Scale each matrix once, and multiply it by its transpose.

    Matrices that several systems share are scaled once for all of them.
    """
    problem, A = systems.problem, systems.A
    (m, n), batch, xp = problem.shape, problem.batch, namespace(A)
    matrices, total = math.prod(A.shape[:-2]), math.prod(batch)
    offsets, first, which = systems.A_offset, np.int64(0), None
    own = matrices == total and total > 1
    if own:
        matrices, first = systems.total, np.int64(systems.part.start)
    elif matrices > 1:
        offsets = batch_offsets(A, 2, A.shape[:-2])
        indices = xp.arange(matrices, dtype=np.int64).reshape(A.shape[:-2])
        which = contiguous(xp.broadcast_to(indices, batch)).reshape(-1)[systems.part]
    columns = device.empty((matrices, n, m), np.float64)
    norm = device.empty((matrices, n), np.float64)
    column_scale = device.empty((matrices, n), np.float64)
    instances = (f"scale_columns<{CUDA_TYPES[A.dtype]}>",)
    (kernel,) = device.kernels("nnls_gram", instances)
    kernel(
        (matrices * ceil_div(n, SCALE_TILE),),
        (SCALE_THREADS,),
        (
            A,
            *offsets,
            first,
            *systems.matrix_strides,
            np.int32(m),
            np.int32(n),
            np.float64(math.sqrt(problem.l2)),
            columns,
            norm,
            column_scale,
        ),
    )
    G = xp.matmul(columns, columns.swapaxes(-1, -2))
    if problem.l2 > 0:
        damping = math.sqrt(problem.l2) * column_scale
        G.reshape(matrices, n * n)[:, :: n + 1] += damping**2
    return ScaledMatrices(columns, G, norm, column_scale, which, np.int64(own))


def nnls_gram(systems: Systems, device: Device, listed: Array | None = None) -> None:
    """Solve the systems on the current stream, and list those that are unsettled."""
    problem, b = systems.problem, systems.b
    (m, n), dtype, count = problem.shape, problem.dtype, systems.total
    size = Size(m, n, problem.rows)
    shared_matrix = math.prod(systems.A.shape[:-2]) == 1
    limit = device.shared_memory_per_block - STATIC_SHARED_MEMORY
    team, layout = choose(size, count <= GRID_SYSTEMS, shared_matrix, limit)
    instances = (f"nnls_gram<{CUDA_TYPES[dtype]}, {team.name}>",)
    (kernel,) = device.kernels("nnls_gram", instances)
    resident = kernel.resident_blocks(team.threads, layout.shared)
    blocks = min(ceil_div(count, team.teams), MAX_BLOCKS)
    if team.is_grid:
        blocks = min(resident, ceil_div(max(m, n), team.threads // WARP))
    elif layout.workspace or layout.matrix:
        blocks = max(1, min(blocks, resident))
    if team.is_small:
        given = [systems.A, *systems.A_offset, *systems.matrix_strides]
        matrices = [*given, *[None] * 5, np.int64(0)]
    else:
        scaled = scale_matrices(systems, device)
        matrices = [None, None, *[np.int64(0)] * 3, *scaled]
    workspace = barrier = None
    if team.is_grid:
        workspace = device.empty((layout.workspace,), np.uint8)
        barrier = device.zeros((ALIGNMENT * (1 + 2 * blocks),), np.uint8)
    elif layout.workspace:
        workspace, blocks = allocate_workspace(device, blocks, layout.workspace)
    kernel(
        (blocks,),
        (team.threads,),
        (
            *matrices,
            b,
            *systems.b_offset,
            np.int64(b.strides[-1] // b.itemsize),
            np.int64(systems.part.start),
            np.int64(count),
            np.int32(m),
            np.int32(n),
            np.float64(problem.l1),
            np.float64(math.sqrt(problem.l2)),
            np.float64(GRAM_TOLERANCE if problem.tol is None else problem.tol),
            np.int32(min(problem.iteration_limit, 2**31 - 1)),
            np.int32(problem.start is not None),
            np.int32(problem.maxiter is not None),
            *systems.solution,
            listed,
            systems.counters,
            *layout.numbers[:-1],
            workspace,
            layout.numbers[-1],
            barrier,
        ),
        shared_mem=layout.shared,
        cooperative=team.is_grid,
    )
