"""Boosting on a CPU by ``cuda_src/stacked.cu``, which is compiled ahead of time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..._device.kernels import struct_in
from ..._device.launch import ceil_div, pieces
from ..._device.objects import load
from ..._device.threads import cores
from ..families import Custom
from .batch import Fits
from .gram_kernel import DOUBLE
from .path import UNWATCHED, Path, Watch
from .problem import PreparedLearners
from .products import CompiledProducts
from .stacked_fits import (
    STACKED_FITS,
    empty_path,
    fields_of,
    places_of,
    vectors_of,
)

SERIAL_FITS = struct_in("cpu/serial_fits.cuh", "SerialFits")

PIECE_ROWS = 2**14
"""The rows of a chunk of a design: its vectors stay in the cache."""

PASS_ROWS = 2**11
"""The rows of a chunk of a pass that computes gradients, risks or parameters."""

WORKER_ROWS = 2**15
"""Rows of all learners and fits that outweigh the barriers of a worker in each step.
Measured with 1e4 and 2e4 rows of 10 splines: two workers need 0.5 to 0.85 of the time.
"""

ROWS_OF_A_FUNCTION = 4
"""The fewest rows of a chunk for each function of a learner: the sums of the chunks of
a factor are added, too."""

FITS_AT_ONCE = 8
"""The most fits that share what is computed of a design."""

LAUNCH_ROWS = 2**26
"""Rows of all learners and fits that a launch reads, at least a step: less than a
second. An interrupt waits for the end of a launch."""

LEAST_LEARNERS = 64
"""The fewest learners that are worth a selection."""

LEARNERS_PER_PAST = 8
MOST_PAST = 32
PAST_BYTES = 2**26
"""Learners for each earlier gradient that is kept, and limits of these gradients."""


def has_loop(fits: Fits) -> bool:
    """Whether the compiled object makes the steps of these fits.

    BLAS multiplies columns, and Python has the formulas of a family of the user's.
    """
    library, family = load(), fits.family
    is_own = type(family).__module__.startswith("gpusolve.") and not isinstance(
        family, Custom
    )
    if library is None or not is_own or fits.problem.designs.columns is not None:
        return False
    return bool(library.gpusolve_has_family(family.cuda.type.encode()))


def past_steps(problem: PreparedLearners) -> int:
    """How many earlier gradients are kept; 0 if all learners must always be fitted."""
    learners = len(problem)
    if any(problem.rules) or learners < LEAST_LEARNERS:
        return 0
    if len({G.shape for G in problem.gram}) > 1:
        return 0
    if problem.designs.columns is not None:  # BLAS multiplies all of them
        return 0
    size = np.float64().nbytes * problem.fits * len(problem.rows[0])
    return min(learners // LEARNERS_PER_PAST, MOST_PAST, PAST_BYTES // size)


def screening(fits: Fits, row_chunks: int) -> dict[str, Any]:
    """The fields of ``SerialFits`` for learners of which a step fits only some."""
    problem, single = fits.problem, fits.family.predictors == 1
    kept = past_steps(problem) if single else 0
    count, learners, rows = problem.fits, len(problem), len(problem.rows[0])
    names = "root", "past", "squares", "products", "limits", "when", "chosen", "count"
    if not kept:
        return dict.fromkeys(names) | {"kept": 0}
    w = problem.weights
    arrays = (
        None if w is None else (w > 0) / np.sqrt(np.where(w > 0, w, 1)),
        np.zeros((count, kept, rows)),
        np.zeros((count, kept)),
        np.empty((count, kept + 1, row_chunks)),
        np.empty((count, learners)),
        np.full((count, learners), kept, np.int32),
        np.empty((count, learners), np.int32),
        np.empty(count, np.int32),
    )
    return dict(zip(names, arrays, strict=True)) | {"kept": kept}


def boost(fits: Fits, steps: int, watch: Watch = UNWATCHED) -> Path:
    """`boost_family` on a CPU, several steps in a call."""
    library, problem = load(), fits.problem
    products = problem.designs.products
    assert library is not None
    assert isinstance(products, CompiledProducts)
    count, rows = problem.fits, len(problem.rows[0])
    functions = np.array([design.functions for design in problem.rows])
    row_chunks = ceil_div(rows, PASS_ROWS)
    piece = np.maximum(PIECE_ROWS, ROWS_OF_A_FUNCTION * functions)
    chunks = np.maximum(1, rows // piece)
    places = places_of(problem, chunks, np.full(len(problem), -1))
    made = empty_path(fits, steps, None)
    values = fields_of(
        fits,
        made,
        places,
        row_chunks=row_chunks,
        fits_at_once=min(count, FITS_AT_ONCE),
        values=products.parts_of_designs,
        **dict.fromkeys(("first", "offsets", "parts", "by_level", "arrived")),
    )
    work = rows * len(problem) * count
    screened = screening(fits, row_chunks)
    serial = SERIAL_FITS(
        None,
        **screened,
        workers=max(1, min(cores(), work // WORKER_ROWS)),
        workspace=max(
            *(size // DOUBLE for size in vectors_of(problem)),
            ceil_div(rows, row_chunks),
            screened["kept"] + 1,
        ),
        unused=0,
    )
    name = fits.family.cuda.type.encode()
    packed = serial.packed()

    def launch(part: slice) -> None:
        all_fits = STACKED_FITS(None, **values, begin=part.start, end=part.stop)
        if library.gpusolve_boost(name, all_fits.packed(), packed):
            raise MemoryError("the sums of the learners need more memory than there is")

    most = 1 if watch.may_end else max(1, LAUNCH_ROWS // work)
    done = watch.follow(steps, pieces(steps + 1, most), launch, made)
    made = made.until(done)
    return made if fits.out_of_bag is not None else replace(made, out_of_bag=None)
