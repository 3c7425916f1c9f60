"""Matrix times vector on a device: the launches of ``cuda_src/gemv.cu``."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import (
    Array,
    can_write_to,
    namespace,
    strided,
    systems_offsets,
    written,
)
from .._device.kernels import CUDA_TYPES, Device
from .._device.launch import CACHED, THREADS, WARP, Launch, ceil_div, round_up

# Not measured on a GPU yet.
BLOCKS = 512
"""Blocks assumed to fill a GPU; a product with fewer splits its columns into chunks.
Fixed, so that the summation order does not depend on the device."""
WAVES = 4
"""Long products get this many times `BLOCKS`: the last, partial wave then costs
little."""
WINDOWS = 4
"""The fewest reads of a block per chunk, if columns are split into several waves."""
BYTES_IN_FLIGHT = 64
"""Bytes of A that a thread loads before it computes; float16 counts as float32."""
MOST_READS = 8
"""The most loads that a thread issues before it computes."""
HEIGHT = 4
"""Rows per team if there are many rows; the team reads x once for all of them. More if
they are short, up to `MOST_READS`."""
ROWS_OF_BLOCK = 16
THREADS_OF_DOT = 16
"""M and P of the paper's first version; the paper's work array has 16 sums in all."""
THREADS_OF_ROW = 16
"""The largest P of the paper's second version."""
TILE_OF_X = 1024
"""Elements of x in shared memory, in the second version."""
COLUMN_ADDERS = (32, 32)
"""M and P of the kernel that adds columns."""

PACK_BYTES = 16
"""Bytes of the widest load of a thread."""


class Operands(NamedTuple):
    """The layout of the matrices and vectors of a batch, as the kernels read them.

    Attributes
    ----------
    dtype : dtype
    systems, rows, columns : int
        All positive.
    row_stride, column_stride : int
        Strides of A in elements; 0 for an axis of length 1.
    rows_in_packs, columns_in_packs : bool
        Whether all rows, of A and of x, or all columns of A begin at multiples of a
        pack from the first. The kernel checks the alignment of the first itself.
    A_differs, x_differs : bool
        Whether systems have different matrices, or vectors.
    """

    dtype: np.dtype[Any]
    systems: int
    rows: int
    columns: int
    row_stride: int
    column_stride: int
    rows_in_packs: bool
    columns_in_packs: bool
    A_differs: bool
    x_differs: bool

    @property
    def number(self) -> str:
        """The CUDA type of the numbers."""
        return CUDA_TYPES[self.dtype]

    @property
    def size(self) -> int:
        """Number of elements of the result."""
        return self.systems * self.rows

    @property
    def sums_dtype(self) -> np.dtype[Any]:
        """The dtype of the sums."""
        return np.promote_types(self.dtype, np.float32)

    @property
    def row_major(self) -> bool:
        """Whether neighbours in a row are at least as close as those in a column."""
        if 1 in (self.rows, self.columns):
            return self.rows == 1
        return abs(self.column_stride) <= abs(self.row_stride)


class Products(NamedTuple):
    """The launch of a kernel that multiplies, and of the kernel that adds its sums.

    Attributes
    ----------
    kernels : tuple of str
        Both, with their template arguments.
    grid, block : tuple of int
        Of the kernel that multiplies.
    strides : tuple of int64
        Of rows and columns.
    sizes : tuple of int64
        Numbers of systems, rows and columns.
    numbers : tuple
        Further arguments of the variant.
    sums : tuple of int, or None
        The shape of the sums, (chunks of the columns, size); None if the kernel writes
        the result itself.
    sums_dtype : dtype
    adds : Launch
        Of ``gemv_add_columns``.
    """

    kernels: tuple[str, str]
    grid: tuple[int]
    block: tuple[int]
    strides: tuple[np.int64, np.int64]
    sizes: tuple[np.int64, np.int64, np.int64]
    numbers: tuple[np.generic, ...]
    sums: tuple[int, int] | None
    sums_dtype: np.dtype[Any]
    adds: Launch


class Dots(NamedTuple):
    """The launch shape of ``gemv_dots``.

    Attributes
    ----------
    pack : int
        Elements per load.
    packs : int
        Loads of a row that a thread issues before it computes.
    height : int
        Rows per team.
    team : int
        Threads that share these rows: a power of two up to a warp, or a block.
    chunk : int
        Columns per chunk, a multiple of a pack.
    chunks : int
    """

    pack: int
    packs: int
    height: int
    team: int
    chunk: int
    chunks: int


class Axpys(NamedTuple):
    """The launch shape of ``gemv_axpys``.

    Attributes
    ----------
    pack : int
        Rows per load.
    steps : int
        Columns that a thread loads before it computes.
    lanes : int
        Threads of a block that have different rows, a power of two.
    tiles : int
        Blocks that cover all rows of a system.
    chunk : int
        Columns per chunk.
    chunks : int
    """

    pack: int
    steps: int
    lanes: int
    tiles: int
    chunk: int
    chunks: int


def gemv(
    A: Array,
    x: Array,
    batch: tuple[int, ...],
    variant: str,
    out: Array | None,
    device: Device,
) -> Array:
    """``A x`` on the current stream.

    Parameters
    ----------
    A : (..., m, n) array
    x : (..., n) array
        Of the same dtype. Both broadcast against the batch; A is not copied.
    batch : tuple of int
    variant : str
        A key of `VARIANTS`.
    out : (*batch, m) array, optional
        Of the same dtype.
    device : Device

    Returns
    -------
    (*batch, m) array
    """
    if out is not None and can_write_to(out, A, x):
        gemv_into(A, x, batch, variant, out, device)
        return out
    y = device.empty((*batch, A.shape[-2]), A.dtype)
    gemv_into(A, x, batch, variant, y, device)
    return written(y, out)


def gemv_into(
    A: Array, x: Array, batch: tuple[int, ...], variant: str, y: Array, device: Device
) -> None:
    """Write ``A x`` to y, which is contiguous and does not overlap A or x."""
    if y.size == 0:
        return
    if A.shape[-1] == 0:
        y[...] = 0
        return
    A, x = strided(A), strided(x)
    if x.shape[-1] > 1 and x.strides[-1] != x.itemsize:
        x = namespace(x).ascontiguousarray(x)
    operands = operands_of(A, x, batch)
    products = products_of(operands, variant)
    multiply, add_columns = device.kernels("gemv", products.kernels)
    A_offsets = systems_offsets(A, 2, batch) if operands.A_differs else None
    x_offsets = systems_offsets(x, 1, batch) if operands.x_differs else None
    sums = y
    if products.sums is not None:
        sums = device.empty(products.sums, products.sums_dtype)
    multiply(
        products.grid,
        products.block,
        (
            *(A, A_offsets, *products.strides),
            *(x, x_offsets, *products.sizes),
            *(*products.numbers, sums),
        ),
    )
    if products.sums is not None:
        adds = products.adds
        add_columns(adds.grid, adds.block, (sums, *adds.numbers, y))


def operands_of(A: Array, x: Array, batch: tuple[int, ...]) -> Operands:
    """The layout of A and x; their strides are whole elements."""
    return _operands_of(A.dtype, A.shape, A.strides, x.shape, x.strides, batch)


@functools.lru_cache(CACHED)
def _operands_of(
    dtype: np.dtype[Any],
    A_shape: tuple[int, ...],
    A_strides: tuple[int, ...],
    x_shape: tuple[int, ...],
    x_strides: tuple[int, ...],
    batch: tuple[int, ...],
) -> Operands:
    rows, columns = A_shape[-2:]
    in_packs = _is_packed(A_shape, A_strides, -1) and _is_packed(x_shape, x_strides, -1)
    return Operands(
        dtype,
        math.prod(batch),
        rows,
        columns,
        A_strides[-2] // dtype.itemsize if rows > 1 else 0,
        A_strides[-1] // dtype.itemsize if columns > 1 else 0,
        in_packs,
        _is_packed(A_shape, A_strides, -2),
        _differs(A_shape[:-2], A_strides),
        _differs(x_shape[:-1], x_strides),
    )


@functools.lru_cache(CACHED)
def products_of(operands: Operands, variant: str) -> Products:
    """The launches of a variant."""
    return VARIANTS[variant](operands)


def _products(
    operands: Operands,
    kernel: str,
    blocks: int,
    threads: int,
    numbers: tuple[Any, ...],
    chunks: int | None,
) -> Products:
    """A launch that writes sums of `chunks` chunks; for None, it writes the result."""
    M, P = COLUMN_ADDERS
    size = operands.size
    return Products(
        (kernel, f"gemv_add_columns<{operands.number}, {M}, {P}>"),
        (blocks,),
        (threads,),
        (np.int64(operands.row_stride), np.int64(operands.column_stride)),
        (
            np.int64(operands.systems),
            np.int64(operands.rows),
            np.int64(operands.columns),
        ),
        numbers,
        None if chunks is None else (chunks, size),
        operands.sums_dtype,
        Launch((ceil_div(size, M),), (M * P,), (np.int64(chunks or 0), np.int64(size))),
    )


# ---- the paper's variants ------------------------------------------------------------


def _naive(operands: Operands) -> Products:
    kernel = f"gemv_naive<{operands.number}>"
    blocks = ceil_div(operands.size, THREADS)
    return _products(operands, kernel, blocks, THREADS, (), None)


def _threads_per_dot(operands: Operands) -> Products:
    return _products(
        operands,
        f"gemv_threads_per_dot<{operands.number}, {ROWS_OF_BLOCK}, {THREADS_OF_DOT}>",
        ceil_div(operands.size, ROWS_OF_BLOCK),
        ROWS_OF_BLOCK * THREADS_OF_DOT,
        (np.bool_(operands.row_major),),
        None,
    )


def _threads_per_row(operands: Operands) -> Products:
    segment = ceil_div(operands.columns, THREADS_OF_ROW)
    parts = ceil_div(operands.columns, segment)
    return _products(
        operands,
        f"gemv_threads_per_row<{operands.number}, {THREADS}, {TILE_OF_X}>",
        parts * operands.systems * ceil_div(operands.rows, THREADS),
        THREADS,
        (np.int64(segment),),
        parts,
    )


# ---- along memory --------------------------------------------------------------------


def _auto(operands: Operands) -> Products:
    return _dots(operands) if uses_dots(operands) else _axpys(operands)


def uses_dots(operands: Operands) -> bool:
    """Whether to use ``gemv_dots``: for rows that are contiguous, or tiny systems.

    A block of ``gemv_axpys`` has a single system, which must be large enough.
    """
    of_block = THREADS * PACK_BYTES // operands.dtype.itemsize
    tiny = operands.systems > 1 and operands.rows * operands.columns < of_block
    return tiny or operands.row_major


def dots_of(operands: Operands) -> Dots:
    """At most a warp per row; one or more blocks per row if rows are few and long.

    If there are very many rows, or many short rows, each team of threads has several.
    Neither this nor `packs` changes the order of additions.
    """
    columns, size = operands.columns, operands.size
    contiguous = operands.column_stride == 1
    pack = _pack(operands, columns, contiguous and operands.rows_in_packs)
    packs = _reads(operands, pack)
    team = min(WARP, _power_of_two(ceil_div(columns, pack)))
    threads, enough = size * team, BLOCKS * THREADS
    short = ceil_div(columns, pack * team) < packs
    if short and _has_short_groups(operands, threads, max(HEIGHT, packs)):
        return Dots(pack, 1, max(HEIGHT, packs), team, columns, 1)
    if operands.rows >= HEIGHT and threads >= HEIGHT * WAVES * enough:
        return Dots(pack, max(1, packs // HEIGHT), HEIGHT, team, columns, 1)
    window = THREADS * pack * packs
    least = THREADS * pack if threads < enough else WINDOWS * window
    if threads >= WAVES * enough or columns < least:
        return Dots(pack, packs, 1, team, columns, 1)
    return Dots(pack, packs, 1, THREADS, *_chunks(columns, window, size))


def _has_short_groups(operands: Operands, threads: int, height: int) -> bool:
    """Whether a team takes `height` short rows, all loaded before it computes.

    Otherwise a thread has few loads in flight. There must be enough rows that half of
    `BLOCKS` remain, and the last group may repeat at most an eighth of them.
    """
    rows = operands.rows
    repeated = round_up(rows, height) - rows
    return 2 * threads >= height * BLOCKS * THREADS and 8 * repeated <= rows


def axpys_of(operands: Operands) -> Axpys:
    """One block per tile of rows; several if the tiles are few and long.

    If the columns are few and the rows many, fewer threads share a row.
    """
    rows = operands.rows
    contiguous = operands.row_stride == 1
    pack = _pack(operands, rows, contiguous and operands.columns_in_packs)
    steps = _reads(operands, pack)
    lanes = min(WARP, _power_of_two(ceil_div(rows, pack)))
    while (
        2 * operands.columns <= THREADS // lanes * steps
        and operands.systems * (rows // (2 * lanes * pack)) >= BLOCKS
        and lanes < THREADS
    ):
        lanes *= 2
    tiles = ceil_div(rows, lanes * pack)
    window = THREADS // lanes * steps
    chunks = _chunks(operands.columns, window, operands.systems * tiles)
    return Axpys(pack, steps, lanes, tiles, *chunks)


def _dots(operands: Operands) -> Products:
    shape = dots_of(operands)
    groups = ceil_div(operands.rows, shape.height)
    threads = shape.chunks * operands.systems * groups * shape.team
    return _products(
        operands,
        dots_instance(operands.dtype, _written_dtype(operands, shape), shape),
        ceil_div(threads, THREADS),
        THREADS,
        (np.int32(shape.team), np.int64(shape.chunk), np.int64(shape.chunks)),
        shape.chunks if shape.chunks > 1 else None,
    )


def _axpys(operands: Operands) -> Products:
    shape = axpys_of(operands)
    return _products(
        operands,
        axpys_instance(operands.dtype, _written_dtype(operands, shape), shape),
        shape.chunks * operands.systems * shape.tiles,
        THREADS,
        (np.int32(shape.lanes), np.int64(shape.chunk)),
        shape.chunks if shape.chunks > 1 else None,
    )


def _written_dtype(operands: Operands, shape: Dots | Axpys) -> np.dtype[Any]:
    """The dtype of what a kernel writes: the result, or the sums of each chunk."""
    return operands.dtype if shape.chunks == 1 else operands.sums_dtype


VARIANTS = {
    "auto": _auto,
    "naive": _naive,
    "threads_per_dot": _threads_per_dot,
    "threads_per_row": _threads_per_row,
    "dots": _dots,
    "axpys": _axpys,
}


def dots_instance(given: np.dtype[Any], made: np.dtype[Any], shape: Dots) -> str:
    """The kernel's name with its template arguments."""
    numbers = f"{shape.pack}, {shape.packs}, {shape.height}, {THREADS}"
    return f"gemv_dots<{CUDA_TYPES[given]}, {CUDA_TYPES[made]}, {numbers}>"


def axpys_instance(given: np.dtype[Any], made: np.dtype[Any], shape: Axpys) -> str:
    """The kernel's name with its template arguments."""
    numbers = f"{shape.pack}, {shape.steps}, {THREADS}"
    return f"gemv_axpys<{CUDA_TYPES[given]}, {CUDA_TYPES[made]}, {numbers}>"


def _pack(operands: Operands, length: int, possible: bool) -> int:
    """Elements per load."""
    most = PACK_BYTES // operands.dtype.itemsize
    return most if possible and length >= most else 1


def _reads(operands: Operands, pack: int) -> int:
    """Loads that a thread issues before it computes."""
    return min(MOST_READS, BYTES_IN_FLIGHT // (pack * operands.sums_dtype.itemsize))


def _chunks(columns: int, window: int, blocks: int) -> tuple[int, int]:
    """Columns per chunk, a multiple of the window, and the number of chunks.

    `blocks` is the number of blocks without chunks. To fill one wave, a chunk may be as
    short as a window; for further waves it keeps at least `WINDOWS`.
    """
    windows = ceil_div(columns, window)
    of_one_wave = ceil_div(windows, max(1, BLOCKS // blocks))
    of_several = ceil_div(windows, ceil_div(WAVES * BLOCKS, blocks))
    chunk = max(of_several, min(of_one_wave, WINDOWS)) * window
    return chunk, ceil_div(columns, chunk)


def _differs(batch: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether systems along any axis of the batch are at different addresses."""
    axes = zip(batch, strides, strict=False)
    return any(length > 1 and stride != 0 for length, stride in axes)


def _is_packed(shape: tuple[int, ...], strides: tuple[int, ...], along: int) -> bool:
    """Whether the strides of the other axes are multiples of a pack."""
    return all(
        stride % PACK_BYTES == 0
        for axis, (length, stride) in enumerate(zip(shape, strides, strict=True))
        if length > 1 and axis != len(shape) + along
    )


def _power_of_two(least: int) -> int:
    """The smallest power of two that is at least a positive number."""
    return int(2 ** (least - 1).bit_length())
