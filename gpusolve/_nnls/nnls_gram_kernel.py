"""NNLS from Gram matrices on a device: memory and launches of ``nnls_gram.cu``."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from .._device.arrays import Array, batch_offsets, namespace
from .._device.kernels import CUDA_TYPES, Device, Kernel, struct_in
from .._device.launch import CACHED, MAX_BLOCKS, WARP, ceil_div, round_up
from .._device.products import times_transposes
from .._numerics.certificate import default_tolerance
from .launch_arguments import (
    BOUNDS,
    RIDGE,
    SUM,
    LaunchArguments,
    indices_of,
    largest_penalties,
)
from .nnls_qr_kernel import allocate_workspace

LANES = (1, 4, 16), (4, 2, 64), (4, 4, 128), (8, 2, 128), (32, 1, 512)
"""Lanes of a warp that may solve a system: how many, the most variables of each, and
the most rows of a system."""
MOST_VARIABLES = 2
"""The most variables of each of several lanes, unless problems are plain and have the
same matrix: registers."""
LANE_THREADS, LANE_BLOCKS = 128, 3
"""The threads of a block whose teams are lanes, and the most blocks that registers
allow. In ``device_teams.cuh``, teams of more than 8 variables and general teams have 2
blocks: for all shapes up to 200 x 32, `choose` finds the same teams with both."""
GRID_VARIABLES, GRID_SYSTEMS = 1024, 4
"""The least variables, and the most systems, for the grid to solve a system."""

BLOCK_THREADS = 256
"""The most threads of a block that solves a single system at a time."""
GRAM_TOLERANCE = default_tolerance(np.dtype(np.float64))
"""The default tolerance; it does not depend on the dtype of the inputs."""
ALIGNMENT = 16
"""Alignment in bytes of the arrays of a team, and the bytes of a grid's barrier."""
PARTIAL = 32
"""Bytes of a value that a grid reduces; the same in ``device_teams.cuh``."""
SQUARES = 8, 16
"""The side of the inverse's square in shared memory: the first, plus a multiple of the
second, so that two neighbouring rows begin in different halves of the banks."""
STATIC_SHARED_MEMORY = 2048
"""Upper bound on the bytes of the kernel's static shared memory."""
OTHER_SHARED_MEMORY = STATIC_SHARED_MEMORY + 1024
"""The same, and the bytes that CUDA reserves for each block."""
MOST_SHARING, KEPT_SIDE = 8, 0.6
"""The most blocks that share a multiprocessor, and the part of the inverse's rows that
each has in shared memory then: most systems have fewer passive variables."""
SCALED_COLUMNS = 8
"""Columns of a block of ``scale_columns``, and its warps."""
HELD_ROWS = 1024
"""The most rows of these columns in shared memory."""

GRAM_MEMORY = struct_in("nnls_gram.cu", "GramMemory")


class Team(NamedTuple):
    """The threads that solve one system together; see ``team.cuh``."""

    name: str
    threads: int
    """Of a block."""
    lanes: int = 0
    """Of a warp, unless the team is larger."""
    each: int = 1
    """The most variables of a lane."""

    @property
    def teams(self) -> int:
        """Teams of a block."""
        return self.threads // self.lanes if self.lanes else 1

    @property
    def is_grid(self) -> bool:
        """Whether these are all threads of a cooperative launch."""
        return self.name == "GridTeam"

    @property
    def is_small(self) -> bool:
        """Whether the team scales its matrix itself, in shared memory."""
        return self.lanes > 0

    @property
    def shares_matrix(self) -> bool:
        """Whether all teams always have the same matrix."""
        return self.lanes > 1 and self.each > MOST_VARIABLES

    def padded(self, n: int) -> int:
        """Entries of arrays by variable."""
        return self.lanes * self.each if self.shares_matrix else n

    @property
    def has_near_vectors(self) -> bool:
        """Whether the vectors of the team are in shared memory."""
        return self.name not in ("FarBlockTeam", "GridTeam")


class Size(NamedTuple):
    """The size of each system. `kind` is ``ProblemKind`` of ``variables.cuh``."""

    m: int
    n: int
    kind: int = 0

    @property
    def height(self) -> int:
        """Rows of the matrix, with the row of a fixed sum."""
        return self.m + bool(self.kind & SUM)

    @property
    def rows(self) -> int:
        """Rows of the matrix, of the fixed sum and of the l2 penalty."""
        return self.height + self.n * bool(self.kind & RIDGE)

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
        The vectors of a team, and its matrix if the team scales it.
    side : int
        Rows and columns of the inverse that are in shared memory.
    team : int
        Shared memory of a team.
    shared : int
        Shared memory of the block.
    workspace : int
        Global memory of a team.
    """

    matrix: int
    vectors: int
    side: int
    team: int
    shared: int
    workspace: int


def teams_for(size: Size, few: bool, shared_matrix: bool) -> list[Team]:
    """Teams for systems of this size, of which there are `few`; the best first."""
    m, n = size.height, size.n
    most = max(each for _, each, _ in LANES)
    if size.kind or not shared_matrix:
        most = MOST_VARIABLES
    form = "" if size.kind else ", false"  # the kernel of plain problems is smaller
    teams = [
        Team(f"LaneTeam<{lanes}, {each}{form}>", LANE_THREADS, lanes, each)
        for lanes, each, rows in LANES
        if n <= lanes * each and m <= rows
        if lanes == 1 or each <= most
    ]
    if size.capacity >= GRID_VARIABLES and few:
        teams.append(Team("GridTeam", 256))
    threads = min(BLOCK_THREADS, max(2 * WARP, round_up(max(m, n), WARP)))
    return [*teams, Team("BlockTeam", threads), Team("FarBlockTeam", threads)]


def arrays_of(team: Team, size: Size) -> list[int]:
    """Bytes of the arrays of a team in memory, without matrices and the inverse."""
    n, kind, capacity = team.padded(size.n), size.kind, size.capacity
    arrays = [8 * size.rows] * 2 + [8 * n, 16]
    of_ridge = 1 if team.is_small else 2
    arrays += [8 * n] * (of_ridge * bool(kind & RIDGE) + 4 * bool(kind & BOUNDS))
    arrays += [8 * n, 8] * bool(kind & SUM)
    if team.is_small:
        arrays.append(8 * size.m)
        arrays += [8 * (team.lanes * team.each + 1)] * (team.lanes > 1)
    else:
        arrays += [8 * n] * 2 + [8 * capacity] * 3 + [8 * (capacity + 2)]
        arrays.append(4 * capacity)
    return arrays


def matrix_of(team: Team, size: Size) -> list[int]:
    """Bytes of the arrays of a matrix that lanes have; see ``lane_matrix.cuh``."""
    n, padded = size.n, team.padded(size.n)
    others = [8 * padded] * (1 + team.shares_matrix) + [4 * padded] * 2
    if team.lanes == 1:
        return [8 * (n * size.height + team.each - n), 8 * n * n, *others]
    leading = round_up(n, 2)
    leading += 2 * (leading % 8 == 0)
    return [8 * leading * size.height, 8 * padded * padded, *others]


def spread_over_banks(bytes: int, team: Team) -> int:
    """At least as many bytes, so that teams of a warp access different banks.

    They are an odd multiple of what a double of each lane needs.
    """
    of_lanes = 8 * team.lanes
    return of_lanes * (ceil_div(bytes, of_lanes) | 1)


def triangle(rows: int) -> int:
    """The entries of the first rows of the inverse."""
    return rows * (rows + 1) // 2


def side_in_shared_memory(rows: int, bytes: int) -> int:
    """The side of the square for the first rows of the inverse; 0 if none fits."""
    least, step = SQUARES
    fit = math.isqrt(bytes // 8)
    whole = least + round_up(max(0, rows - least), step)
    return 0 if fit < least else min(whole, least + (fit - least) // step * step)


def layout_of(team: Team, size: Size, shared_matrix: bool, limit: int) -> Layout:
    """The memory of a block, of which at most `limit` bytes are shared memory."""
    scales_once = team.is_small and shared_matrix
    arrays = arrays_of(team, size)
    matrix = 0
    if team.is_small:
        matrix = sum(round_up(length, ALIGNMENT) for length in matrix_of(team, size))
    matrix_bytes = matrix * scales_once
    vectors = (
        sum(round_up(length, ALIGNMENT) for length in arrays) + matrix - matrix_bytes
    )
    if team.is_small:
        vectors = spread_over_banks(vectors, team)
    rows = 0 if team.is_small else size.capacity
    share = (limit - matrix_bytes) // team.teams
    near_vectors = vectors * team.has_near_vectors
    left = 0 if team.is_grid else max(0, share - near_vectors)
    side = side_in_shared_memory(rows, left) if rows else 0
    far = triangle(rows) - triangle(min(side, rows))
    of_team = 8 * side * side + near_vectors
    return Layout(
        matrix=matrix_bytes,
        vectors=vectors,
        side=side,
        team=of_team,
        shared=matrix_bytes + team.teams * of_team,
        workspace=round_up(8 * far, ALIGNMENT) + vectors - near_vectors,
    )


@functools.lru_cache(CACHED)
def choose(
    size: Size, few: bool, shared_matrix: bool, limit: int
) -> tuple[Team, Layout]:
    """The first team whose memory fits; a small team uses shared memory only.

    Of several small teams, the team with the most systems on a multiprocessor; if two
    have as many, the team that has more warps for them.
    """
    teams = teams_for(size, few, shared_matrix)
    layouts = [layout_of(team, size, shared_matrix, limit) for team in teams]
    fitting = [
        (team, layout)
        for team, layout in zip(teams, layouts, strict=True)
        if layout.shared <= limit and not (team.is_small and layout.workspace)
    ]

    def resident(found: tuple[Team, Layout]) -> tuple[int, int]:
        team, layout = found
        of_block = OTHER_SHARED_MEMORY + layout.shared
        blocks = min(LANE_BLOCKS, (OTHER_SHARED_MEMORY + limit) // of_block)
        return blocks * team.teams, -team.teams

    small = [found for found in fitting if found[0].is_small]
    return max(small, key=resident) if small else fitting[0]


def share_multiprocessors(
    kernel: Kernel, team: Team, size: Size, layout: Layout, count: int, limit: int
) -> Layout:
    """Let blocks share a multiprocessor if `count` systems outnumber the blocks.

    As many share it as keep `KEPT_SIDE` of the inverse in shared memory, or else two;
    `layout` has at most `limit` bytes of it.
    """
    resident = kernel.resident_blocks(team.threads, layout.shared)
    if team.is_small or team.is_grid or count <= resident:
        return layout
    for blocks in range(MOST_SHARING, 1, -1):
        share = (limit + OTHER_SHARED_MEMORY) // blocks - OTHER_SHARED_MEMORY
        smaller = layout_of(team, size, False, share)
        fits = smaller.shared <= min(share, layout.shared)
        is_enough = blocks == 2 or smaller.side >= KEPT_SIDE * size.capacity
        if fits and is_enough:
            more = kernel.resident_blocks(team.threads, smaller.shared) > resident
            return smaller if more else layout
    return layout


class ScaledMatrices(NamedTuple):
    """Scaled matrices in an array, and the index of each system's matrix.

    Attributes
    ----------
    columns : (matrices, n, height) array
    G : (matrices, n, n) array
        ``A^T A``, without the l2 penalty.
    norm : (matrices, n) array
    column_shift : (matrices, n) int32 array
        The scales are powers of two with these exponents.
    which : (systems,) int64 array or None
        The index of each system's matrix. If None, the system's index times `stride`.
    stride : int
    """

    columns: Array
    G: Array
    norm: Array
    column_shift: Array
    which: Array | None
    stride: int


def scale_matrices(systems: LaunchArguments, device: Device) -> ScaledMatrices:
    """Scale each matrix once, and multiply it by its transpose.

    Matrices that several systems share are scaled once for all of them.
    """
    problem = systems.problem
    (m, n), batch = problem.shape, problem.batch
    shape, height = problem.matrices, problem.shape[0] + problem.has_sum
    matrices, which = math.prod(shape), None
    own = matrices == math.prod(batch) > 1
    argument = systems.argument(0)
    if own:
        matrices = systems.total
    else:
        argument = argument.replace(first=0, **shared_arrays(systems, shape))
        if matrices > 1:
            which = indices_of(shape, batch, systems.A)[systems.part]
    columns = device.empty((matrices, n, height), np.float64)
    norm = device.empty((matrices, n), np.float64)
    column_shift = device.empty((matrices, n), np.int32)
    instances = (f"scale_columns<{CUDA_TYPES[problem.dtype]}>",)
    (kernel,) = device.kernels("nnls_gram", instances)
    held = min(m, scaled_rows_in_shared_memory(device.shared_memory_per_block))
    kernel(
        (matrices * ceil_div(n, SCALED_COLUMNS),),
        (WARP * SCALED_COLUMNS,),
        (argument, np.int32(height), np.int32(held), columns, norm, column_shift),
        shared_mem=8 * SCALED_COLUMNS * (round_up(held, WARP // 2) + 2),
    )
    if problem.has_sum:
        add_sum_row(columns, norm, column_shift)
    G = multiply_by_transpose(columns, device)
    return ScaledMatrices(columns, G, norm, column_shift, which, int(own))


def multiply_by_transpose(columns: Array, device: Device) -> Array:
    """The Gram matrices, by float32 on a device whose float64 is slow.

    Rounding errors of G cost steps, or a repair, but not a certificate: the kernel
    corrects x by the residual b - A x, in twice the precision of float64.
    """
    if device.has_slow_float64:
        columns = columns.astype(np.float32)
    return times_transposes(columns).astype(np.float64, copy=False)


def scaled_rows_in_shared_memory(limit: int) -> int:
    """The most rows that a block of ``scale_columns`` holds: a multiple of `WARP`."""
    rows = limit // (8 * SCALED_COLUMNS) - 2
    return min(HELD_ROWS, max(WARP, rows // WARP * WARP))


def shared_arrays(
    systems: LaunchArguments, shape: tuple[int, ...]
) -> dict[str, object]:
    """Fields of ``NnlsSystems`` for matrices that several systems share."""
    options = largest_penalties(systems.options)
    A = batch_offsets(systems.A, 2, shape)
    weights = systems.weight_offset
    if systems.root_weight is not None:
        weights = batch_offsets(systems.root_weight, 1, shape)
    return {
        "A_offset": A.offset,
        "A_batch_stride": A.stride,
        "weight_offset": weights.offset,
        "weight_batch_stride": weights.stride,
        "options": options.of_each,
        "options_offset": options.offset.offset,
        "options_batch_stride": options.offset.stride,
    }


def add_sum_row(columns: Array, norm: Array, column_shift: Array) -> None:
    """Write the row of a fixed sum, of largest entry 1/2, and add it to the norms."""
    xp = namespace(norm)
    row = xp.ldexp(0.5, column_shift - column_shift.max(axis=-1, keepdims=True))
    columns[..., -1] = row
    norm[...] = xp.sqrt(norm * norm + row * row)


def nnls_gram(
    systems: LaunchArguments, device: Device, listed: Array | None = None
) -> None:
    """Solve the systems on the current stream, and list the unsettled systems."""
    problem = systems.problem
    (m, n), dtype, count = problem.shape, problem.dtype, systems.total
    size = Size(m, n, systems.kind)
    limit = device.shared_memory_per_block - STATIC_SHARED_MEMORY
    shares = problem.shares_matrix and systems.options.same_l2
    team, layout = choose(size, count <= GRID_SYSTEMS, shares, limit)
    instances = (f"nnls_gram<{CUDA_TYPES[dtype]}, {team.name}>",)
    (kernel,) = device.kernels("nnls_gram", instances)
    layout = share_multiprocessors(kernel, team, size, layout, count, limit)
    resident = kernel.resident_blocks(team.threads, layout.shared)
    blocks = min(ceil_div(count, team.teams), MAX_BLOCKS)
    if team.is_grid:
        blocks = min(resident, ceil_div(max(m, n), team.threads // WARP))
    elif layout.workspace or layout.matrix:
        blocks = max(1, min(blocks, resident))
    matrices = ScaledMatrices(None, None, None, None, None, 0)
    if not team.is_small:
        matrices = scale_matrices(systems, device)
    workspace = barrier = None
    if team.is_grid:
        workspace = device.empty((layout.workspace,), np.uint8)
        barrier = device.zeros((ALIGNMENT + 2 * PARTIAL * blocks,), np.uint8)
    elif layout.workspace:
        workspace, blocks = allocate_workspace(device, blocks, layout.workspace)
    memory = GRAM_MEMORY(
        columns=matrices.columns,
        G=matrices.G,
        norm=matrices.norm,
        column_shift=matrices.column_shift,
        which=matrices.which,
        which_stride=matrices.stride,
        workspace=workspace,
        workspace_stride=layout.workspace,
        matrix_bytes=layout.matrix,
        vectors_bytes=layout.vectors,
        shared_bytes=layout.team,
        barrier=barrier,
        side=layout.side,
    )
    tol = GRAM_TOLERANCE if problem.tol is None else problem.tol
    kernel(
        (blocks,),
        (team.threads,),
        (systems.argument(tol, listed), memory),
        shared_mem=layout.shared,
        cooperative=team.is_grid,
    )
