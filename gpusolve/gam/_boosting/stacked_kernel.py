"""Boosting of any learners and families on a device: the launch of ``stacked.cu``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, contiguous, namespace
from ..._device.kernels import CUDA_TYPES, Device, struct_in
from ..._device.launch import LAUNCH_SECONDS, THREADS, WARP, ceil_div, pieces
from .._terms.basis import CompactBasis
from .._terms.rows import Rows
from .._terms.rules import BY_DIAGONAL, Cone
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
SUMS_OF_A_FIT = 18
"""Number of float64 for each row chunk and fit: ``RowSums::most``."""

LEARNER_PLACE = struct_in("stacked_fits.cuh", "LearnerPlace")
STACKED_FITS = struct_in("stacked_fits.cuh", "StackedFits")

Numbers = NDArray[np.int64]


# ---- the designs ---------------------------------------------------------------------


def begins_of(sizes: Numbers) -> Numbers:
    """The places of the first elements of arrays that are joined."""
    return np.cumsum(sizes) - sizes


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


def vectors_of(problem: PreparedLearners) -> list[int]:
    """Shared memory for the fit of each learner, in bytes: see ``cone.cuh``."""
    sizes = zip(problem.rows, inequalities_of(problem).tolist(), strict=True)
    return [
        DOUBLE * (3 * design.functions + m * (m + 4))
        if problem.kind(j) != BY_DIAGONAL
        else 0
        for j, (design, m) in enumerate(sizes)
    ]


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


def places_of(
    problem: PreparedLearners, sums: Sequence[Sums], chunks: Numbers, levels: Levels
) -> NDArray[Any]:
    """``LearnerPlace`` of each learner, (K,)."""
    types = [(name, np.int64) for name in LEARNER_PLACE.names]
    places = np.zeros(len(problem), types)
    functions: Numbers = np.array([design.functions for design in problem.rows])
    inequalities = inequalities_of(problem)
    places["end_part"] = np.cumsum([len(design.parts) for design in problem.rows])
    places["begin_part"][1:] = places["end_part"][:-1]
    places["functions"] = functions
    places["column"] = begins_of(functions)
    places["kind"] = [problem.kind(j) for j in range(len(problem))]
    entries = np.array([gram[0].size for gram in problem.gram], np.int64)
    places["matrix"], places["entries"] = begins_of(entries), entries
    partials = np.where(levels.places < 0, chunks, 1)
    places["sums"] = begins_of(functions * partials)
    places["chunks"], places["partials"] = chunks, partials
    places["by_level"] = levels.places
    for name in ("shift", "pitch", "window", "fits_at_once"):
        places[name] = [getattr(own, name) for own in sums]
    # Lists of levels need no shared memory.
    places["fits_at_once"][levels.places >= 0] = FITS_AT_ONCE
    places["inequalities"] = inequalities
    places["least"] = [rule.least if rule else 0 for rule in problem.rules]
    places["cone"] = begins_of(inequalities * (functions + inequalities))
    return places


def pairs_of(chunks: Numbers) -> NDArray[np.int32]:
    """All pairs of a learner and its chunk, the first chunks first."""
    pairs = [
        (j, chunk)
        for chunk in range(int(chunks.max()))
        for j in np.flatnonzero(chunks > chunk).tolist()
    ]
    return np.array(pairs, np.int32)


def instance(dtype: Any, family: str, kernel: str = "boost_stacked") -> str:
    """The name of a kernel with its template arguments."""
    return f"{kernel}<{CUDA_TYPES[np.dtype(dtype)]}, {family}, {THREADS}>"


def inequalities_of(problem: PreparedLearners) -> Numbers:
    """The number of inequalities of each learner, (K,)."""
    sizes = [rule.inequalities if rule else 0 for rule in problem.rules]
    return np.array(sizes, np.int64)


def cones_of(problem: PreparedLearners) -> Array | None:
    """`Cone.matrices` of the learners, learner by learner; None if there are none."""
    found = [rule.matrices() for rule in problem.rules if isinstance(rule, Cone)]
    return flatten_matrices(found) if found else None


def search_size(nuisances: int) -> int:
    """Number of float64 in a ``ThresholdSearch``; other searches are smaller."""
    return 4 * nuisances + 9


def doubles_of(array: Array | None) -> Array | None:
    """The array as the kernel reads it, or None."""
    return None if array is None else contiguous(array, np.float64)


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
    problem, y, cuda = fits.problem, fits.y, fits.family.cuda
    xp, predictors = namespace(y), fits.family.predictors
    count, rows = problem.fits, len(problem.rows[0])
    models = count // predictors
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
    row_chunks = max(1, blocks // models)
    levels = levels_of(problem, sums)
    places = places_of(problem, sums, chunks, levels)
    pairs = pairs_of(chunks)
    cones, places_by_time = cones_of(problem), fits.family.order_rows(y)
    columns = int(places["functions"].sum())

    def doubles(*shape: int) -> Array:
        return device.empty(shape, np.float64)

    def stride(array: Array | None) -> int:
        return 0 if array is None or array.size == rows else rows

    made = Path(
        fits.offset,
        device.empty((count, steps), np.int32),
        doubles(count, steps, problem.functions),
        doubles(count, steps + 1),
        "stacked",
        doubles(count, steps + 1, fits.family.nuisances),
        doubles(count, steps + 1),
    )
    values = {
        "first": designs.first,
        "values": designs.values,
        "offsets": xp.asarray(designs.offsets),
        "parts": xp.asarray(designs.parts),
        "learners": xp.asarray(places.view(np.int64)),
        "pairs": xp.asarray(pairs),
        "gram": xp.asarray(flatten_matrices(problem.gram)),
        "inverse": xp.asarray(flatten_matrices(problem.inverse)),
        "cones": None if cones is None else xp.asarray(cones),
        "by_level": levels.lists,
        "y": contiguous(y, np.float64),
        "weights": doubles_of(problem.weights),
        "held_out": doubles_of(fits.out_of_bag),
        "rates": xp.asarray(fits.rates),
        "f": xp.zeros((count, rows)) + fits.start,
        "u": doubles(count, rows),
        "sums": doubles(count * int((places["functions"] * places["partials"]).sum())),
        "coefficients": doubles(count, columns),
        "scores": doubles(count, len(places)),
        "partial": doubles(count, row_chunks, SUMS_OF_A_FIT),
        "searches": doubles(count, search_size(fits.family.nuisances)),
        "candidates": doubles(count),
        "allowed": None
        if fits.allowed is None
        else xp.asarray(fits.allowed, dtype=np.int32),
        "places": places_by_time,
        "risk_sets": None if places_by_time is None else doubles(count, 3, rows),
        "selected": made.selected,
        "updates": made.updates,
        "risk": made.risk,
        "held_out_risk": made.out_of_bag,
        "nuisance": made.nuisance,
        "rows": rows,
        "y_stride": stride(y),
        "weight_stride": stride(problem.weights),
        "parameter": float(cuda.parameter),
        "count": len(places),
        "fits": count,
        "columns": columns,
        "pair_count": len(pairs),
        "systems": len(problem.gram[0]),
        "row_chunks": row_chunks,
        "fits_at_once": fits_at_once,
        "steps": steps,
        "functions": problem.functions,
        "scaled": int(fits.units is not None),
        "predictors": predictors,
        "made": fits.made,
        "is_cyclic": int(fits.family.update == "cyclic"),
    }
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
