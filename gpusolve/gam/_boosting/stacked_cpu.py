"""The boosting loop on a CPU.

A step has two parts, as in ``cuda_src/stacked.cu``: the fits of all learners to the
gradient, by `learner_fits` or `screened_fits`, and the rows of the models, by
`single_rows` or `coupled_rows`.
"""

from __future__ import annotations

import numpy as np

from ..._device.launch import pieces
from ..._device.threads import one_blas_thread, workers
from .batch import Fits
from .coupled_rows import CoupledRows
from .learner_fits import Blocks, LearnerFits
from .path import Path
from .screened_fits import ScreenedFits, past_steps
from .single_rows import SingleRows
from .watch import UNWATCHED, Watch


def boost(
    fits: Fits, steps: int, method: str = "stacked", watch: Watch = UNWATCHED
) -> Path:
    """`boost_family` on the host."""
    count = fits.problem.fits
    made = Path(
        fits.offset,
        np.zeros((count, steps), np.int32),
        np.zeros((count, steps, fits.problem.functions)),
        np.zeros((count, steps + 1)),
        method,
        np.zeros((count, steps + 1, fits.family.nuisances)),
        None if fits.out_of_bag is None else np.zeros((count, steps + 1)),
    )
    with one_blas_thread():
        learners = learner_fits(fits, method)
        rows = (SingleRows if fits.family.predictors == 1 else CoupledRows)(
            fits, learners, made
        )
    with workers(*learners.products.work) as run:

        def make(piece: slice) -> None:
            step = piece.start - 1
            if step >= 0:
                learners.project(rows.gradient, run)
                for fit, j in enumerate(rows.select(step, run).tolist()):
                    made.selected[fit, step] = j
                    if j >= 0:
                        update = rows.update(fit, j)
                        made.updates[fit, step, : len(update)] = update
                        learners.advance(j, update, run)
                        learners.products.add(j, update, rows.f[fit])
            rows.record(piece.start)

        done = watch.follow(steps, pieces(steps + 1, 1), make, made)
    return made.until(done)


def learner_fits(fits: Fits, method: str) -> LearnerFits:
    """How the learners are fitted: by blocks, some of them, or all."""
    if method == "gram":
        return Blocks(fits)
    is_single = fits.family.predictors == 1
    return (ScreenedFits if is_single and past_steps(fits.problem) else LearnerFits)(
        fits
    )
