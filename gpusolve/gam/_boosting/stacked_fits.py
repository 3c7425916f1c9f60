"""The arrays of the fits that the steps of ``cuda_src/stacked.cu`` read and write.

They are the same on a device and on a CPU, which compiles these steps ahead of time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, contiguous, namespace
from ..._device.kernels import Device, device_of, struct_in
from .._terms.rules import BY_DIAGONAL, Cone
from .batch import Fits
from .gram_kernel import DOUBLE, flatten_matrices
from .path import Path
from .problem import PreparedLearners

SUMS_OF_A_FIT = 18
"""Number of float64 for each row chunk and fit: ``RowSums::most``."""

LEARNER_PLACE = struct_in("stacked_fits.cuh", "LearnerPlace")
STACKED_FITS = struct_in("stacked_fits.cuh", "StackedFits")

Numbers = NDArray[np.int64]


def begins_of(sizes: Numbers) -> Numbers:
    """The places of the first elements of arrays that are joined."""
    return np.cumsum(sizes) - sizes


# ---- the learners --------------------------------------------------------------------


def places_of(
    problem: PreparedLearners, chunks: Numbers, lists: Numbers
) -> NDArray[Any]:
    """``LearnerPlace`` of each learner, (K,), without its `Sums`.

    Parameters
    ----------
    chunks : (K,) array
        Into how many chunks the rows of each learner are divided.
    lists : (K,) array
        Where the list of its rows by level begins; -1 for none.
    """
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
    partials = np.where(lists < 0, chunks, 1)
    places["sums"] = begins_of(functions * partials)
    places["chunks"], places["partials"] = chunks, partials
    places["by_level"] = lists
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


def vectors_of(problem: PreparedLearners) -> list[int]:
    """Memory for the fit of each learner, in bytes: see ``cone.cuh``."""
    sizes = zip(problem.rows, inequalities_of(problem).tolist(), strict=True)
    return [
        DOUBLE * (3 * design.functions + m * (m + 4))
        if problem.kind(j) != BY_DIAGONAL
        else 0
        for j, (design, m) in enumerate(sizes)
    ]


# ---- the fits ------------------------------------------------------------------------


def empty_path(fits: Fits, steps: int, device: Device | None) -> Path:
    """The path that the steps write."""
    count, empty = fits.problem.fits, np.empty if device is None else device.empty
    return Path(
        fits.offset,
        empty((count, steps), np.int32),
        empty((count, steps, fits.problem.functions), np.float64),
        empty((count, steps + 1), np.float64),
        "stacked",
        empty((count, steps + 1, fits.family.nuisances), np.float64),
        empty((count, steps + 1), np.float64),
    )


def fields_of(
    fits: Fits,
    made: Path,
    places: NDArray[Any],
    *,
    row_chunks: int,
    fits_at_once: int,
    **designs: Any,
) -> dict[str, Any]:
    """The fields of ``StackedFits`` but for the counter and the steps of a launch.

    Parameters
    ----------
    places : (K,) array
        Of `places_of`.
    row_chunks : int
        Into how many chunks the rows of a fit are divided for its own sums.
    fits_at_once : int
        The most fits that share what is read of a design.
    designs
        The fields of the design matrices.
    """
    problem, y, family = fits.problem, fits.y, fits.family
    xp, count, rows = namespace(y), problem.fits, len(problem.rows[0])
    device = device_of(y)
    columns = int(places["functions"].sum())
    cones, by_time = cones_of(problem), family.order_rows(y)

    def doubles(*shape: int) -> Array:
        return np.zeros(shape) if device is None else device.empty(shape, np.float64)

    def stride(array: Array | None) -> int:
        return 0 if array is None or array.size == rows else rows

    return designs | {
        "learners": xp.asarray(places.view(np.int64)),
        "pairs": xp.asarray(pairs := pairs_of(places["chunks"])),
        "gram": xp.asarray(flatten_matrices(problem.gram)),
        "inverse": xp.asarray(flatten_matrices(problem.inverse)),
        "cones": None if cones is None else xp.asarray(cones),
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
        "searches": doubles(count, search_size(family.nuisances)),
        "candidates": doubles(count),
        "allowed": None
        if fits.allowed is None
        else xp.asarray(fits.allowed, dtype=np.int32),
        "places": by_time,
        "risk_sets": None if by_time is None else doubles(count, 3, rows),
        "selected": made.selected,
        "updates": made.updates,
        "risk": made.risk,
        "held_out_risk": made.out_of_bag,
        "nuisance": made.nuisance,
        "rows": rows,
        "y_stride": stride(y),
        "weight_stride": stride(problem.weights),
        "parameter": float(family.cuda.parameter),
        "count": len(places),
        "fits": count,
        "columns": columns,
        "pair_count": len(pairs),
        "systems": len(problem.gram[0]),
        "row_chunks": row_chunks,
        "fits_at_once": fits_at_once,
        "steps": made.selected.shape[-1],
        "functions": problem.functions,
        "scaled": int(fits.units is not None),
        "predictors": family.predictors,
        "made": fits.made,
        "is_cyclic": int(family.update == "cyclic"),
    }
