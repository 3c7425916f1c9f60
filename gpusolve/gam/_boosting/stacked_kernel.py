"""Boosting of any learners and families on a device: the launch of ``stacked.cu``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, namespace
from ..._device.kernels import CUDA_TYPES, Device
from ..._device.launch import LAUNCH_SECONDS, THREADS, WARP, ceil_div, pieces
from .._terms.basis import CompactBasis
from .._terms.rows import Rows
from .batch import Fits
from .gram_kernel import (
    DOUBLE,
    flatten_matrices,
    lanes_of,
    launch_shape,
    moment_pitch,
    moment_sums,
)
from .path import UNWATCHED, Path, Watch
from .problem import PreparedLearners
from .stacked_fits import (
    STACKED_FITS,
    Numbers,
    begins_of,
    empty_path,
    fields_of,
    places_of,
    vectors_of,
)

STATIC_SHARED_MEMORY = 4 * 1024
"""Upper limit of the kernel's static shared memory, in bytes."""
WINDOW_BYTES = 48 * 1024
"""Limit on the shared memory for the sums of a learner with many functions, in bytes;
more functions are summed window after window."""
READ_SPEED = 2e10
"""Lower limit of a device's memory bandwidth, in bytes per second. Assumed, not
measured."""
FITS_AT_ONCE = 5
"""The most fits that share what a block reads of a design: ``most_at_once``. It divides
the default numbers of folds."""
SUMS_BYTES = FITS_AT_ONCE * 16 * 1024
"""Limit on the shared memory for the sums of several fits, in bytes: a multiprocessor
of an A100 or H100 has it twice. Cubic splines have up to 32 functions in it."""

# ---- the designs ---------------------------------------------------------------------


class Designs(NamedTuple):
    """K design matrices in the arrays that the kernel reads.

    Attributes
    ----------
    first : int32 array
        The first functions of all parts.
    values : float32 or float64 array
        The values of all parts.
    parts : (P, 3) int64 array on the host
        ``PartPlace`` of each part: where its first functions and its values begin, and
        its width.
    offsets : (P, 32) int32 array on the host
        Of each part's values.
    row_bytes : (K,) array on the host
        The bytes that are read of each row.
    """

    first: Array
    values: Array
    parts: Numbers
    offsets: NDArray[np.int32]
    row_bytes: Numbers


def designs_of(rows: Sequence[Rows], basis: CompactBasis | None) -> Designs:
    """The arrays of design matrices in parts; the arrays of a basis as they are."""
    parts = [part.stored() for design in rows for part in design.parts]
    first, values = [part.first for part in parts], [part.values for part in parts]
    begins = [begins_of(np.array([a.size for a in own])) for own in (first, values)]
    places = np.column_stack([*begins, [len(part.offsets) for part in parts]])
    offsets = [np.pad(part.offsets, (0, WARP - len(part.offsets))) for part in parts]
    dtype = np.result_type(*(part.values.dtype for part in parts))
    value, index = dtype.itemsize, np.dtype(np.int32).itemsize
    sizes = [design.width * value + len(design.parts) * index for design in rows]
    arrays = basis or (
        flatten_matrices(first).astype(np.int32, copy=False),
        flatten_matrices(values).astype(dtype, copy=False),
    )
    return Designs(*arrays, places, np.array(offsets), np.array(sizes))


# ---- the launch ----------------------------------------------------------------------


class Sums(NamedTuple):
    """How the sums of a learner's functions are kept in shared memory.

    Attributes
    ----------
    shift : int
        A warp adds a row with ``2**shift`` lanes.
    pitch : int
        Of ``SumCopies``.
    window : int
        Number of functions whose sums are kept at once.
    fits_at_once : int
        Number of fits whose sums are kept at once.
    bytes : int
    """

    shift: int
    pitch: int
    window: int
    fits_at_once: int
    bytes: int


def sums_of(functions: int, width: int, free: int, fits: int = 1) -> Sums:
    """The copies of a learner's sums that fit in `free` bytes.

    They are the sums of `fits` fits, or of one fit if these do not fit in `SUMS_BYTES`.

    Examples
    --------
    >>> sums_of(32, 4, free=49152)  # 8 rows at once
    Sums(shift=2, pitch=32, window=32, fits_at_once=1, bytes=16384)
    >>> sums_of(1000, 16, free=49152)
    Sums(shift=4, pitch=16, window=768, fits_at_once=1, bytes=49152)
    >>> sums_of(32, 4, free=200_000, fits=5)
    Sums(shift=2, pitch=32, window=32, fits_at_once=5, bytes=81920)
    """
    limit = min(free, WINDOW_BYTES)
    lanes = lanes_of(width)
    most = limit // (DOUBLE * moment_sums(lanes, lanes, lanes)) * lanes
    window = min(functions, most)
    pitch = moment_pitch(window, lanes, limit)
    size = DOUBLE * moment_sums(window, lanes, pitch)
    if window < functions or fits * size > min(free, SUMS_BYTES):
        fits = 1
    return Sums(lanes.bit_length() - 1, pitch, window, fits, fits * size)


def free_shared_memory(device: Device) -> int:
    """The largest dynamic shared memory of a block, in bytes."""
    return device.shared_memory_per_block - STATIC_SHARED_MEMORY


def first_too_large(problem: PreparedLearners, device: Device) -> int | None:
    """The first learner whose vectors do not fit in shared memory; None if all fit."""
    free = free_shared_memory(device)
    return next((j for j, size in enumerate(vectors_of(problem)) if size > free), None)


class Levels(NamedTuple):
    """The rows by level, of the factors with more levels than a window.

    Attributes
    ----------
    places : (K,) array on the host
        Where the list of each learner begins; -1 for a learner without a list.
    lists : int64 array or None
        As ``RowsByLevel``: the begins of the levels, then the rows in their order.
    """

    places: Numbers
    lists: Array | None


def levels_of(problem: PreparedLearners, sums: Sequence[Sums]) -> Levels:
    """The lists of rows by level, on the device of the designs."""
    places = np.full(len(problem), -1)
    lists: list[Array] = []
    size = 0
    for j, (design, own) in enumerate(zip(problem.rows, sums, strict=True)):
        if problem.is_diagonal(j) and design.functions > own.window:
            lists.append(rows_by_level(design))
            places[j] = size
            size += lists[-1].size
    return Levels(places, flatten_matrices(lists) if lists else None)


def rows_by_level(design: Rows) -> Array:
    """Where the rows of each level begin, and the rows in the order of the levels."""
    (part,) = [part.stored() for part in design.parts]
    xp = namespace(part.first)
    order = xp.argsort(part.first, kind="stable").astype(np.int64)
    begins = xp.searchsorted(part.first[order], xp.arange(design.functions + 1))
    return xp.concatenate([begins.astype(np.int64), order])


def instance(dtype: Any, family: str, kernel: str = "boost_stacked") -> str:
    """The name of a kernel with its template arguments."""
    return f"{kernel}<{CUDA_TYPES[np.dtype(dtype)]}, {family}, {THREADS}>"


def launches_of(
    device: Device, steps: int, bytes_of_step: int, most: int | None
) -> Iterator[tuple[slice, Array]]:
    """The steps of each launch, at most `most`, and the counter of its grid barrier.

    A launch must end before the watchdog of a device.
    """
    limit = steps if most is None else most
    if device.has_watchdog:
        limit = min(limit, max(1, int(LAUNCH_SECONDS * READ_SPEED / bytes_of_step)))
    parts = list(pieces(steps, limit))
    arrived = device.zeros((len(parts),), np.uint64)
    for index, part in enumerate(parts):
        yield part, arrived[index:]


def boost(fits: Fits, steps: int, device: Device, watch: Watch = UNWATCHED) -> Path:
    """`boost_family` on a device: a launch, or several with a watchdog or a watch."""
    problem, cuda = fits.problem, fits.family.cuda
    xp, predictors = namespace(fits.y), fits.family.predictors
    count, rows = problem.fits, len(problem.rows[0])
    designs = designs_of(problem.rows, problem.basis)
    loop = "boost_stacked" if predictors == 1 else "boost_coupled"
    name = instance(designs.values.dtype, cuda.type, loop)
    (kernel,) = device.kernels("stacked", (name,), cuda.definitions)
    free, vectors = free_shared_memory(device), vectors_of(problem)
    widths = [max(len(part.offsets) for part in own.parts) for own in problem.rows]
    for fits_at_once in (min(count, FITS_AT_ONCE), 1):
        sums = [
            sums_of(design.functions, width, free, fits_at_once)
            for design, width in zip(problem.rows, widths, strict=True)
        ]
        needed = max(*vectors, *(own.bytes for own in sums))
        groups = ceil_div(count, fits_at_once)
        blocks, chunks = launch_shape(
            kernel, designs.row_bytes, rows, needed, count, groups
        )
        if groups * int(chunks.sum()) >= blocks:  # all blocks add rows
            break
    levels = levels_of(problem, sums)
    places = places_of(problem, chunks, levels.places)
    for field in ("shift", "pitch", "window", "fits_at_once"):
        places[field] = [getattr(own, field) for own in sums]
    # Lists of levels need no shared memory.
    places["fits_at_once"][levels.places >= 0] = FITS_AT_ONCE
    made = empty_path(fits, steps, device)
    values = fields_of(
        fits,
        made,
        places,
        row_chunks=max(1, blocks // (count // predictors)),
        fits_at_once=fits_at_once,
        first=designs.first,
        values=designs.values,
        offsets=xp.asarray(designs.offsets),
        parts=xp.asarray(designs.parts),
        by_level=levels.lists,
    )
    bytes_read = count * rows * int(designs.row_bytes.sum())
    parts, counters = zip(
        *launches_of(device, steps + 1, bytes_read, watch.piece), strict=True
    )
    counter = iter(counters)

    def launch(part: slice) -> None:
        state = {"arrived": next(counter), "begin": part.start, "end": part.stop}
        kernel(
            (blocks,),
            (THREADS,),
            (STACKED_FITS(designs.values.dtype, **values, **state),),
            shared_mem=needed,
            cooperative=True,
        )

    done = watch.follow(steps, parts, launch, made)
    made = made.until(done)
    return made if fits.out_of_bag is not None else replace(made, out_of_bag=None)
