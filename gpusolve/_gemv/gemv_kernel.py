"""Matrix times vector on a device: the launches of ``cuda_src/gemv.cu``."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, namespace, strided, systems_offsets
from .._device.kernels import CUDA_TYPES, Device
from .._device.launch import THREADS, WARP, ceil_div

# Not measured on a GPU yet: the figures that a measurement has to settle.
BLOCKS = 512
"""So many blocks keep a large GPU busy. Where a product has fewer, columns are cut. The
number is the same on every device, so that no sum hangs on the device."""
WAVES = 4
"""So many times `BLOCKS` are wanted where work is long: of a grid that is just larger
than what a device holds, the rest would run alone."""
WINDOWS = 4
"""So many times a block reads for a chunk at least, where it is cut for that."""
BYTES_IN_FLIGHT = 64
"""What a thread reads of A before it computes; float16 counts as float32, which it
becomes."""
MOST_READS = 8
"""In how many reads at most."""
HEIGHT = 4
"""Rows that a team has at once, where rows are many: they share what it reads of x."""
ROWS_OF_BLOCK = 16
THREADS_OF_DOT = 16
"""M and P of the paper's first version; the paper's work array has 16 sums in all."""
THREADS_OF_ROW = 16
"""The most P of the paper's second version."""
TILE_OF_X = 1024
"""Elements of x in shared memory, of the second version."""
COLUMN_ADDERS = (32, 32)
"""M and P of the kernel that adds columns."""

PACK_BYTES = 16
"""The most that a thread can read at once."""


class Problem(NamedTuple):
    """The systems of a batch, not transposed any more.

    Attributes
    ----------
    A : (..., rows, columns) array
    x : (..., columns) array
        Side by side in its last axis.
    systems, rows, columns : int
        None of them 0.
    row_stride, column_stride : int
        Of A, in elements; 0 for an axis of length 1.
    A_offsets, x_offsets : (systems,) int64 array, or None
        Where each system begins, in elements; None if all begin at the first.
    """

    A: Array
    x: Array
    systems: int
    rows: int
    columns: int
    row_stride: int
    column_stride: int
    A_offsets: Array | None
    x_offsets: Array | None

    @property
    def number(self) -> str:
        """The type of its numbers in CUDA."""
        return CUDA_TYPES[self.A.dtype]

    @property
    def size(self) -> int:
        """Elements of the result."""
        return self.systems * self.rows

    @property
    def sums_dtype(self) -> np.dtype[Any]:
        """What its numbers are added up in."""
        return np.promote_types(self.A.dtype, np.float32)

    @property
    def runs_along_rows(self) -> bool:
        """Whether neighbours of a row are nearer in memory than those of a column."""
        if 1 in (self.rows, self.columns):
            return self.rows == 1
        return abs(self.column_stride) <= abs(self.row_stride)

    @property
    def arguments(self) -> tuple[object, ...]:
        """What every kernel takes first."""
        return (
            self.A,
            self.A_offsets,
            np.int64(self.row_stride),
            np.int64(self.column_stride),
            self.x,
            self.x_offsets,
            np.int64(self.systems),
            np.int64(self.rows),
            np.int64(self.columns),
        )


class Dots(NamedTuple):
    """How ``gemv_dots`` is launched.

    Attributes
    ----------
    pack : int
        Elements that a thread reads at once.
    packs : int
        Packs of a row that it reads before it computes.
    height : int
        Rows that it has at once.
    team : int
        Threads that share these: a power of two up to a warp, or a block.
    chunk : int
        Columns of a chunk, a multiple of a pack.
    chunks : int
    """

    pack: int
    packs: int
    height: int
    team: int
    chunk: int
    chunks: int


class Axpys(NamedTuple):
    """How ``gemv_axpys`` is launched.

    Attributes
    ----------
    pack : int
        Rows that a thread reads at once.
    steps : int
        Columns that it reads before it computes.
    lanes : int
        Threads of a block with different rows, a power of two.
    tiles : int
        Blocks for all rows of a system.
    chunk : int
        Columns of a chunk.
    chunks : int
    """

    pack: int
    steps: int
    lanes: int
    tiles: int
    chunk: int
    chunks: int


def gemv(
    A: Array, x: Array, batch: tuple[int, ...], variant: str, y: Array, device: Device
) -> None:
    """Write ``A x`` into y, on the current stream.

    Parameters
    ----------
    A : (..., m, n) array
    x : (..., n) array
        Of the same dtype. Both broadcast against the batch; A is not copied.
    batch : tuple of int
    variant : {"auto", "naive", "threads_per_dot", "threads_per_row"}
    y : (*batch, m) array
        Contiguous, of the same dtype, and apart from A and x in memory.
    device : Device
    """
    if y.size == 0:
        return
    if A.shape[-1] == 0:
        y[...] = 0
        return
    problem = problem_of(A, x, batch)
    {
        "auto": _auto,
        "naive": _naive,
        "threads_per_dot": _threads_per_dot,
        "threads_per_row": _threads_per_row,
    }[variant](problem, y, device)


def problem_of(A: Array, x: Array, batch: tuple[int, ...]) -> Problem:
    """The problem as the kernels take it; A is copied only if strides are uneven."""
    A, x = strided(A), strided(x)
    if x.shape[-1] > 1 and x.strides[-1] != x.itemsize:
        x = namespace(x).ascontiguousarray(x)
    rows, columns = A.shape[-2:]
    return Problem(
        A,
        x,
        math.prod(batch),
        rows,
        columns,
        A.strides[-2] // A.itemsize if rows > 1 else 0,
        A.strides[-1] // A.itemsize if columns > 1 else 0,
        _offsets(A, 2, batch),
        _offsets(x, 1, batch),
    )


def _offsets(array: Array, core: int, batch: tuple[int, ...]) -> Array | None:
    """As `systems_offsets` has them; None where all are 0."""
    apart = any(
        length > 1 and stride != 0
        for length, stride in zip(
            array.shape[:-core], array.strides[:-core], strict=True
        )
    )
    return systems_offsets(array, core, batch) if apart else None


# ---- the paper's variants ------------------------------------------------------------


def _naive(problem: Problem, y: Array, device: Device) -> None:
    kernel = device.kernel("gemv", f"gemv_naive<{problem.number}>")
    blocks = ceil_div(problem.size, THREADS)
    kernel((blocks,), (THREADS,), (*problem.arguments, y))


def _threads_per_dot(problem: Problem, y: Array, device: Device) -> None:
    shape = f"{ROWS_OF_BLOCK}, {THREADS_OF_DOT}"
    kernel = device.kernel("gemv", f"gemv_threads_per_dot<{problem.number}, {shape}>")
    kernel(
        (ceil_div(problem.size, ROWS_OF_BLOCK),),
        (ROWS_OF_BLOCK * THREADS_OF_DOT,),
        (*problem.arguments, np.bool_(problem.runs_along_rows), y),
    )


def _threads_per_row(problem: Problem, y: Array, device: Device) -> None:
    segment = ceil_div(problem.columns, THREADS_OF_ROW)
    parts = ceil_div(problem.columns, segment)
    shape = f"{THREADS}, {TILE_OF_X}"
    kernel = device.kernel("gemv", f"gemv_threads_per_row<{problem.number}, {shape}>")
    sums = device.empty((parts, problem.size), problem.sums_dtype)
    kernel(
        (parts * problem.systems * ceil_div(problem.rows, THREADS),),
        (THREADS,),
        (*problem.arguments, np.int64(segment), sums),
    )
    _add_columns(problem.number, sums, y, device)


def _add_columns(number: str, sums: Array, y: Array, device: Device) -> None:
    """The second kernel: (parts, size) sums -> y of this size."""
    M, P = COLUMN_ADDERS
    parts, size = sums.shape
    kernel = device.kernel("gemv", f"gemv_add_columns<{number}, {M}, {P}>")
    arguments = (sums, np.int64(parts), np.int64(size), y)
    kernel((ceil_div(size, M),), (M * P,), arguments)


# ---- along memory --------------------------------------------------------------------


def _auto(problem: Problem, y: Array, device: Device) -> None:
    if by_dots(problem):
        _dots(problem, dots_of(problem), y, device)
    else:
        _axpys(problem, axpys_of(problem), y, device)


def by_dots(problem: Problem) -> bool:
    """Whether threads run along rows; they do so, too, where systems are many and tiny.

    A block of `gemv_axpys` has one system, which should be worth it.
    """
    of_block = THREADS * PACK_BYTES // problem.A.itemsize
    tiny = problem.systems > 1 and problem.rows * problem.columns < of_block
    return tiny or problem.runs_along_rows


def dots_of(problem: Problem) -> Dots:
    """A warp or less to each row; a block, or several, where rows are few and long.

    Where rows are very many, a team of threads has several at once.
    """
    columns, size = problem.columns, problem.size
    contiguous = problem.column_stride == 1
    whole = _in_packs(problem.A, -1) and _in_packs(problem.x, -1)
    pack = _pack(problem, columns, contiguous and whole)
    packs = _reads(problem, pack)
    team = min(WARP, _power_of_two(ceil_div(columns, pack)))
    threads, enough = size * team, BLOCKS * THREADS
    if problem.rows >= HEIGHT and threads >= HEIGHT * WAVES * enough:
        return Dots(pack, max(1, packs // HEIGHT), HEIGHT, team, columns, 1)
    window = THREADS * pack * packs
    least = THREADS * pack if threads < enough else WINDOWS * window
    if threads >= WAVES * enough or columns < least:
        return Dots(pack, packs, 1, team, columns, 1)
    return Dots(pack, packs, 1, THREADS, *_chunks(columns, window, size))


def axpys_of(problem: Problem) -> Axpys:
    """A block to each tile of rows; several, if these are few and long."""
    rows = problem.rows
    pack = _pack(problem, rows, problem.row_stride == 1 and _in_packs(problem.A, -2))
    steps = _reads(problem, pack)
    lanes = min(WARP, _power_of_two(ceil_div(rows, pack)))
    tiles = ceil_div(rows, lanes * pack)
    window = THREADS // lanes * steps
    chunks = _chunks(problem.columns, window, problem.systems * tiles)
    return Axpys(pack, steps, lanes, tiles, *chunks)


def _dots(problem: Problem, shape: Dots, y: Array, device: Device) -> None:
    target = _target(problem, shape.chunks, y, device)
    kernel = device.kernel("gemv", dots_instance(y.dtype, target.dtype, shape))
    groups = ceil_div(problem.rows, shape.height)
    threads = shape.chunks * problem.systems * groups * shape.team
    numbers = np.int32(shape.team), np.int64(shape.chunk), np.int64(shape.chunks)
    arguments = (*problem.arguments, *numbers, target)
    kernel((ceil_div(threads, THREADS),), (THREADS,), arguments)
    if shape.chunks > 1:
        _add_columns(problem.number, target, y, device)


def _axpys(problem: Problem, shape: Axpys, y: Array, device: Device) -> None:
    target = _target(problem, shape.chunks, y, device)
    kernel = device.kernel("gemv", axpys_instance(y.dtype, target.dtype, shape))
    blocks = shape.chunks * problem.systems * shape.tiles
    arguments = (
        *problem.arguments,
        np.int32(shape.lanes),
        np.int64(shape.chunk),
        target,
    )
    kernel((blocks,), (THREADS,), arguments)
    if shape.chunks > 1:
        _add_columns(problem.number, target, y, device)


def dots_instance(given: np.dtype[Any], made: np.dtype[Any], shape: Dots) -> str:
    """The kernel's name with its template arguments."""
    numbers = f"{shape.pack}, {shape.packs}, {shape.height}, {THREADS}"
    return f"gemv_dots<{CUDA_TYPES[given]}, {CUDA_TYPES[made]}, {numbers}>"


def axpys_instance(given: np.dtype[Any], made: np.dtype[Any], shape: Axpys) -> str:
    """The kernel's name with its template arguments."""
    numbers = f"{shape.pack}, {shape.steps}, {THREADS}"
    return f"gemv_axpys<{CUDA_TYPES[given]}, {CUDA_TYPES[made]}, {numbers}>"


def _target(problem: Problem, chunks: int, y: Array, device: Device) -> Array:
    """Where a kernel writes: y itself, or the sums of each chunk."""
    if chunks == 1:
        return y
    return device.empty((chunks, problem.size), problem.sums_dtype)


def _pack(problem: Problem, length: int, possible: bool) -> int:
    """Elements that a thread reads at once."""
    most = PACK_BYTES // problem.A.itemsize
    return most if possible and length >= most else 1


def _reads(problem: Problem, pack: int) -> int:
    """How often a thread reads before it computes."""
    return min(MOST_READS, BYTES_IN_FLIGHT // (pack * problem.sums_dtype.itemsize))


def _chunks(columns: int, window: int, blocks: int) -> tuple[int, int]:
    """Columns of a chunk, which are whole windows, and how many chunks these are.

    `blocks` are there without it. A window is enough for a chunk while blocks are few;
    for several waves of them, a chunk keeps several.
    """
    windows = ceil_div(columns, window)
    of_one_wave = ceil_div(windows, max(1, BLOCKS // blocks))
    of_several = ceil_div(windows, ceil_div(WAVES * BLOCKS, blocks))
    chunk = max(of_several, min(of_one_wave, WINDOWS)) * window
    return chunk, ceil_div(columns, chunk)


def _in_packs(array: Array, along: int) -> bool:
    """Whether all rows, or columns, along this axis are whole packs apart.

    Whether the first one begins where a pack may, the kernel sees for itself.
    """
    return all(
        stride % PACK_BYTES == 0
        for axis, stride in enumerate(array.strides)
        if array.shape[axis] > 1 and axis != array.ndim + along
    )


def _power_of_two(least: int) -> int:
    """The first that is not below a positive number."""
    return int(2 ** (least - 1).bit_length())
