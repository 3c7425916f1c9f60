"""The number of steps: they end when the risk of rows left out no longer decreases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import namespace, on_host
from ..._device.launch import ceil_div
from ..._estimators.conventions import generator
from .._families.family import ROUNDING
from .batch import Fits, Settings, Training, make_fits
from .folds import (
    Floats,
    Folds,
    deal_folds,
    fits_of_folds,
    make_folds,
    mean_losses,
)
from .path import Path
from .stacked import boost_family

MOST_STEPS = 10_000
"""The most steps of ``max_iter="auto"``."""

PLAIN_STEPS = 100
"""The steps of ``max_iter="auto"`` without risks that can be compared."""

FIRST_LOOK = 20
"""The steps after which settings are compared first."""

FOLDS = 3
"""The folds of ``max_iter="auto"``: a fit has two thirds of the rows."""

FOLDS_OF_FEW = 5
"""The folds of few rows, so that a fit has most of them."""

LEFT_OUT = 1_000
"""The fewest rows left out: of fewer rows there are folds again, by other chances."""

MOST_REPEATS = 5
"""How often there may be folds of the same rows."""

MOST_ROWS = 20_000
"""The most rows for which folds are fitted. The risk of a part of more rows is accurate
enough, and costs a single fit."""


class Patience(NamedTuple):
    """When the steps end.

    Attributes
    ----------
    steps : int
        The most steps.
    waiting : int
        The fewest steps without a smaller risk.
    """

    steps: int
    waiting: int

    def best_step(self, risk: Floats) -> int | None:
        """The step of least risk, once enough steps after it were no better.

        Enough are `waiting` steps, and half as many as have led to the least risk: the
        longer the risk has decreased, the longer it may pause. None if the risk may
        still decrease.

        Examples
        --------
        >>> patience = Patience(steps=100, waiting=2)
        >>> patience.best_step(np.array([3.0, 2.0, 2.5, 2.4, 1.0]))
        1
        >>> patience.best_step(np.arange(9.0, 0.0, -1.0)) is None
        True
        """
        best = self.least(risk)
        return best if self.end(best) < len(risk) else None

    def least(self, risk: Floats) -> int:
        """The step of least risk until the steps end; rounding does not decrease it."""
        best, rounding = 0, ROUNDING * abs(risk[0])
        for step, value in enumerate(risk):
            if value < risk[best] - rounding:
                best = step
            if step == self.end(best):
                break
        return best

    def end(self, best: int) -> int:
        """The step at which the steps end if none after `best` has a smaller risk."""
        return min(best + max(self.waiting, best // 2), self.steps)


class Stopped(NamedTuple):
    """Fits that ended at the least risk of the rows left out.

    Attributes
    ----------
    fits : Fits
        Before their first step.
    path : Path
        The steps up to the least risk.
    risk : array
        The mean loss of the rows left out, before the first step and after each; also
        after the steps without a smaller risk.
    """

    fits: Fits
    path: Path
    risk: Floats


class Course:
    """Fits that make steps until the risk of the rows left out no longer decreases.

    Parameters
    ----------
    fits : Fits
    losses : callable
        From the out-of-bag risks of all fits, (F, steps + 1), to a mean loss of each
        step.
    patience : Patience
    method : str
        See `boost_family`.

    Attributes
    ----------
    path : Path
        The steps that were made.
    risk : (steps + 1,) array
        The mean losses.
    best : int or None
        The step of least risk, until a fit has `Family.finest_loss`; None if the risk
        may still decrease.
    """

    def __init__(
        self,
        fits: Fits,
        losses: Callable[[Any], Floats],
        patience: Patience,
        method: str = "stacked",
    ) -> None:
        self.fits, self.losses, self.patience = fits, losses, patience
        self.method, w = method, fits.problem.weights
        cases = len(fits.y.T) if w is None else on_host(w).sum(axis=1, keepdims=True)
        self.finest = fits.family.finest_loss(fits.y) * cases
        self._advance(None, patience.end(0))

    def _advance(self, before: Path | None, steps: int) -> None:
        fits = self.fits if before is None else self.fits.after(before)
        made = boost_family(fits, steps, method=self.method)
        self.path = made if before is None else before.followed_by(made)
        self.risk = self.losses(self.path.out_of_bag)
        self.best = self.patience.best_step(self.risk)
        fine = np.flatnonzero((self.path.risk <= self.finest).any(axis=0))
        if fine.size:
            self.best = self.patience.least(self.risk[: fine[0] + 1])

    def run(self, most: int) -> None:
        """Make steps until the risk no longer decreases, or `most` were made.

        The host looks at the risk at the earliest step that may be the last.
        """
        while self.best is None and len(self.path) < most:
            end = min(self.patience.end(self.patience.least(self.risk)), most)
            self._advance(self.path, end - len(self.path))

    def progress(self, steps: int) -> float:
        """The decrease of the least risk by the second half of the first steps."""
        half, whole = (self.risk[: n + 1].min() for n in (steps // 2, steps))
        return float(half - whole)

    def stopped(self) -> Stopped:
        """The fits at the least risk, after all steps that this needs."""
        self.run(self.patience.steps)
        return Stopped(self.fits, self.path.until(self.best or 0), self.risk)


def fit_patiently(
    settings: Settings,
    data: Training,
    patience: Patience,
    *,
    method: str,
    fraction: float,
    random_state: Any,
) -> Stopped:
    """Fit to some of the rows, until the risk of the other rows stops decreasing.

    If there are several responses, they stop at the same step, by the sum of risks.
    """
    xp = namespace(data.y)
    mask = xp.asarray(choose_held_out(data.rows, fraction, random_state))
    second = xp.where(mask, data.row_weights, 0.0)
    fits = make_fits(settings, data, xp.where(mask, 0.0, data.row_weights), second)
    total = float(second.sum())
    course = Course(fits, lambda risks: risks.sum(axis=0) / total, patience, method)
    return course.stopped()


def choose_held_out(rows: int, fraction: float, random_state: Any) -> NDArray[np.bool_]:
    """A mask of the rows that are held out: at least 1, and not all."""
    if rows < 2:
        raise ValueError(f"early_stopping needs at least 2 rows, got n_samples={rows}")
    count = min(max(1, round(fraction * rows)), rows - 1)
    mask = np.zeros(rows, bool)
    mask[generator(random_state).permutation(rows)[:count]] = True
    return mask


class Chosen(NamedTuple):
    """The settings and the number of steps with the least mean risk of rows left out.

    `risk` has the mean loss of these rows, as in `Stopped`.
    """

    settings: Settings
    steps: int
    risk: Floats


def choose_steps(
    candidates: Iterator[Settings],
    data: Training,
    patience: Patience,
    *,
    cv: Any,
    fraction: float,
    random_state: Any,
) -> Chosen:
    """Choose the settings and the number of steps by the risk of rows left out.

    The folds are fitted as one batch. A row left out that is far outside of a range
    does not count: its loss says how the model continues, not how good it is. Settings
    are tried in their order, see `best_course`, as long as the matrices of all folds
    fit in memory together. The best settings then make the rest of their steps.

    From a single row nothing can be left out, and the number is 0. A family without one
    loss has no risks that can be compared, and the number is `PLAIN_STEPS`. Both have
    the first settings.
    """
    settings = next(candidates)
    if data.rows == 1 or not settings.family.has_one_loss:
        steps = 0 if data.rows == 1 else PLAIN_STEPS
        return Chosen(settings, steps, np.full(1, np.nan))
    folds = folds_for(data, cv, fraction, random_state)
    folds = folds.counting(~settings.far_rows(data))

    def courses() -> Iterator[tuple[Settings, Course]]:
        for some in chain([settings], candidates):
            designs = some.designs(data)
            if some != settings and len([*designs.batches(len(folds.weights))]) > 1:
                return
            fits = fits_of_folds(some, data, folds, designs)
            yield (
                some,
                Course(fits, lambda risks: mean_losses(risks, folds).mean(0), patience),
            )

    settings, best = best_course(courses(), folds)
    stopped = best.stopped()
    return Chosen(settings, len(stopped.path), stopped.risk)


def best_course(
    courses: Iterator[tuple[Settings, Course]], folds: Folds
) -> tuple[Settings, Course]:
    """The settings and the course that are best.

    The search ends when settings are worse than the best before, or when two in a row
    are not better: see `is_worse` and `is_better`.
    """
    best, in_doubt = next(courses), False
    for other in courses:
        if is_better(other[1], best[1], folds):
            best, in_doubt = other, False
        elif in_doubt or is_worse(other[1], best[1], folds):
            break
        else:
            in_doubt = True
    return best


def is_better(other: Course, best: Course, folds: Folds) -> bool:
    """Whether a course with more degrees of freedom is better than the best so far.

    They are compared after equal numbers of steps. The other course learns faster. It
    is not better if its least risk is not lower: see `is_lower`. It is better when its
    lead exceeds half of what the best course gained by the second half of its steps:
    that course then cannot soon catch up. Until then both double their steps.
    """
    steps = FIRST_LOOK
    while True:
        losses = [least_losses(course, folds, steps) for course in (other, best)]
        if not is_lower(*losses, rounding=ROUNDING * abs(best.risk[0])):
            return False
        if best.progress(steps) / 2 < (losses[1] - losses[0]).mean():
            return True
        steps *= 2


def is_worse(other: Course, best: Course, folds: Folds) -> bool:
    """Whether a course has higher losses than the best after as many steps."""
    steps = len(other.path)
    losses = [least_losses(course, folds, steps) for course in (best, other)]
    return is_lower(*losses, rounding=ROUNDING * abs(best.risk[0]))


def least_losses(course: Course, folds: Folds, steps: int) -> Floats:
    """The mean losses of all folds, (B,), at the least risk of the first steps."""
    course.run(steps)
    assert course.path.out_of_bag is not None
    losses = mean_losses(course.path.out_of_bag, folds)
    return losses[:, int(course.risk[: steps + 1].argmin())]


def is_lower(losses: Floats, others: Floats, *, rounding: float = 0.0) -> bool:
    """Whether losses of folds are lower than others, by more than the standard error.

    Differences up to `rounding` do not count.

    Examples
    --------
    >>> others = np.array([1.0, 2.0, 3.0])
    >>> is_lower(others - 0.1, others)
    True
    >>> is_lower(others - np.array([0.3, -0.1, -0.1]), others)
    False
    """
    gains = others - losses
    spread = gains.std(ddof=1) if len(gains) > 1 else 0.0
    return bool(gains.mean() > max(spread / len(gains) ** 0.5, rounding))


def folds_for(data: Training, cv: Any, fraction: float, random_state: Any) -> Folds:
    """The folds of `choose_steps`.

    A number of folds have nearly the same distribution of the response. None stands
    for `FOLDS`; for several times `FOLDS_OF_FEW` if there are few rows, as each part is
    then small; and for a single part of more than `MOST_ROWS` rows.
    """
    if cv is not None and not isinstance(cv, Integral):
        return make_folds(cv, *data.rows_of_x, None, None)
    weights, response = replace(data, given=None).rows_of_x
    if cv is None and data.rows > MOST_ROWS:
        held_out = choose_held_out(data.rows, fraction, random_state)
        return make_folds([(~held_out, held_out)], weights, response, None, None)
    repeats = 1 if cv else min(ceil_div(LEFT_OUT, data.rows), MOST_REPEATS)
    folds = int(cv) if cv else FOLDS if repeats == 1 else FOLDS_OF_FEW
    count, rng = min(folds, data.rows), generator(random_state)
    dealt = [deal_folds(response, count, rng) for _ in range(repeats)]
    pairs = [(fold != k, fold == k) for fold in dealt for k in range(count)]
    return make_folds(pairs, weights, response, None, None)
