"""The number of steps: they end when the risk of rows left out no longer decreases."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum, auto
from numbers import Integral
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import namespace, on_host
from ..._device.launch import ceil_div
from ..._device.progress import progress_bar
from .._data.conventions import generator
from .._families.family import ROUNDING
from .batch import Fits, Settings, Training, make_fits
from .folds import (
    Floats,
    Folds,
    check_folds,
    deal_folds,
    fits_of_folds,
    make_folds,
    mean_losses,
    sufficient,
)
from .path import UNWATCHED, Path, Watch
from .stacked import boost_family

MOST_STEPS = 10_000
"""The most steps of ``max_iter="auto"``."""

PLAIN_STEPS = 100
"""The steps of ``max_iter="auto"`` without risks that can be compared."""

FIRST_LOOK = 20
"""The steps after which settings are compared first."""

LAST_LOOK = 40
"""The steps after which settings that may learn slower must have a lead."""

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

SAMPLE = 50_000
"""The most rows from which settings and steps are chosen. Errors of estimation are then
some thousandths of the noise of a row, also with a hundred degrees of freedom."""

NOISE = 0.1
"""The least gain that counts, in standard errors of the risk. Errors on rows held out
of 15 data sets were the same with 0 and 0.1, up to 0.1 % or better; with 0.5 and 1,
diamonds had larger errors. See ``benchmarks/results/gam_defaults_cpu.md``."""


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

    def end(self, risk: Floats, least_gain: float = 0.0) -> int:
        """The step at which the steps end if the risk does not decrease any more.

        After a decrease by more than `least_gain`, they end after `waiting` steps, and
        half as many as led to it: the longer the risk has decreased, the longer it may
        pause. Steps after the end do not count.

        Examples
        --------
        >>> patience = Patience(steps=100, waiting=2)
        >>> patience.end(np.array([3.0, 2.0, 2.5, 2.4, 1.0]))
        3
        >>> patience.end(np.arange(9.0, 0.0, -1.0))
        12
        >>> patience.end(np.arange(9.0, 0.0, -1.0), least_gain=5.0)
        2
        """
        best, end = 0, min(self.waiting, self.steps)
        for step, value in enumerate(risk):
            if step > end:
                break
            if value < risk[best] - least_gain:
                best, end = step, step + max(self.waiting, step // 2)
        return min(end, self.steps)


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
    folds : int
        The number of parts that are left out.
    watch : Watch

    Attributes
    ----------
    path : Path
        The steps that were made.
    risk : (steps + 1,) array
        The mean losses.
    end : int
        The step at which the steps end if the risk does not decrease any more, or the
        first step at which a fit has `Family.finest_loss`.
    """

    def __init__(
        self,
        fits: Fits,
        losses: Callable[[Any], Floats],
        patience: Patience,
        method: str = "stacked",
        folds: int = 1,
        watch: Watch = UNWATCHED,
    ) -> None:
        self.fits, self.losses, self.patience = fits, losses, patience
        self.method, self.folds, self.watch = method, folds, watch
        w = fits.problem.weights
        cases = len(fits.y.T) if w is None else on_host(w).sum(axis=1, keepdims=True)
        self.finest = fits.family.finest_loss(fits.y) * cases
        first = min(patience.waiting, patience.steps)
        self._look(boost_family(fits, first, method=method, watch=watch))

    def _look(self, path: Path) -> None:
        self.path, self.next = path, self.fits.after(path)
        self.risk = self.losses(path.out_of_bag)
        noise = NOISE * standard_error(self.next, path, self.folds)
        least_gain = max(noise, ROUNDING * abs(self.risk[0]))
        self.end = self.patience.end(self.risk, least_gain)
        fine = np.flatnonzero((path.risk <= self.finest).any(axis=0))
        if fine.size:
            self.end = int(fine[0])
            self.risk = self.risk[: self.end + 1]

    def run(self, most: int) -> None:
        """Make steps until the risk no longer decreases, or `most` were made.

        The host looks at the risk at the earliest step that may be the last.
        """
        while (steps := min(self.end, most) - len(self.path)) > 0:
            made = boost_family(self.next, steps, method=self.method, watch=self.watch)
            self._look(self.path.followed_by(made))

    def progress(self, steps: int) -> float:
        """The decrease of the least risk by the second half of the first steps."""
        half, whole = (self.risk[: n + 1].min() for n in (steps // 2, steps))
        return float(half - whole)

    def stopped(self) -> Stopped:
        """The fits at the least risk, after all steps that this needs."""
        self.run(self.patience.steps)
        risk = np.where(np.isnan(self.risk), np.inf, self.risk)
        best = int((risk <= risk.min() + ROUNDING * abs(risk[0])).argmax())
        return Stopped(self.fits, self.path.until(best), self.risk)


def standard_error(fits: Fits, path: Path, folds: int) -> float:
    """The standard error of the mean loss of the rows left out, after a path.

    A row that is left out of several folds has one loss, their mean.
    """
    family, xp, rows = fits.family, namespace(fits.start), fits.start.shape[-1]
    assert fits.out_of_bag is not None
    f, w = fits.start, fits.out_of_bag[:: family.predictors]
    if family.predictors > 1:
        f = f.reshape(-1, family.predictors, rows).swapaxes(0, 1)
    s = None if path.nuisance is None else xp.asarray(path.nuisance[:, -1])
    losses = xp.broadcast_to(family.loss(fits.y, f, s), w.shape)
    losses = xp.where(w > 0, losses, 0.0).reshape(folds, -1, rows).sum(axis=1)
    w = w.reshape(folds, -1, rows)[:, 0]
    total = w.sum(axis=0)
    mean = (w * losses).sum(axis=0) / xp.where(total > 0, total, 1)
    share = total / total.sum()
    return float(xp.sqrt((share**2 * (mean - share @ mean) ** 2).sum()))


def fit_patiently(
    settings: Settings,
    data: Training,
    patience: Patience,
    *,
    method: str,
    fraction: float,
    random_state: Any,
    progress: bool | None = None,
) -> Stopped:
    """Fit to some of the rows, until the risk of the other rows stops decreasing.

    If there are several responses, they stop at the same step, by the sum of risks.
    """
    xp = namespace(data.y)
    mask = xp.asarray(choose_held_out(data.rows, fraction, random_state))
    second = xp.where(mask, data.row_weights, 0.0)
    parts = Folds(on_host(~mask)[None], on_host(mask)[None])
    check_folds(parts, data, settings.family)
    fits = make_fits(settings, data, xp.where(mask, 0.0, data.row_weights), second)
    total = float(second.sum())
    with counting_steps(progress) as watch:
        course = Course(
            fits,
            lambda risks: risks.sum(axis=0) / total,
            patience,
            method,
            watch=watch,
        )
        return course.stopped()


@contextmanager
def counting_steps(progress: bool | None) -> Iterator[Watch]:
    """A watch whose bar counts the steps of all courses."""
    name = "choosing iterations"
    with progress_bar(None, name, "step", shown=progress) as bar:
        yield Watch(progress=progress, bar=bar)


def choose_held_out(rows: int, fraction: float, random_state: Any) -> NDArray[np.bool_]:
    """A mask of the rows that are held out: at least 1, and not all."""
    if rows < 2:
        raise ValueError(f"early_stopping needs at least 2 rows, got n_samples={rows}")
    count = min(max(1, round(fraction * rows)), rows - 1)
    mask = np.zeros(rows, bool)
    mask[generator(random_state).permutation(rows)[:count]] = True
    return mask


class Verdict(Enum):
    """How settings compare with the best settings before."""

    BETTER = auto()
    UNCLEAR = auto()
    WORSE = auto()


class Kind(NamedTuple):
    """How settings differ from the best settings before.

    Attributes
    ----------
    errors : float
        The number of standard errors by which they must be better.
    last_look : int
        The steps after which they must have a lead.
    doublings : int
        Before, they are worse if what they gained by the second half of their steps,
        times this number, does not reach the best.
    """

    errors: float
    last_look: int = LAST_LOOK
    doublings: int = 2


RICHER = Kind(1, FIRST_LOOK)
"""They learn faster, and must be better by more than the standard error."""

ALIKE = Kind(0)
"""They may learn slower, and must be better."""

OTHER = Kind(2)
"""They may learn slower, and must be better by more than twice the error."""

SLOWER = Kind(1, MOST_STEPS, 8)
"""They learn so slowly that they may catch up after thousands of steps, and must be
better by more than the standard error."""


class Candidate(NamedTuple):
    """Settings that are tried.

    Attributes
    ----------
    settings : Settings
    kind : Kind
    least_gain : float
        By how much the loss must be lower, as a share of its decrease by the best.
    """

    settings: Settings
    kind: Kind = RICHER
    least_gain: float = 0.0


Candidates: TypeAlias = Generator[Candidate, Verdict | None, None]
"""Candidates that get a verdict each after the first."""


class Chosen(NamedTuple):
    """The settings and the number of steps with the least mean risk of rows left out.

    `risk` has the mean loss of these rows, as in `Stopped`.
    """

    settings: Settings
    steps: int
    risk: Floats


def choose_steps(
    candidates: Candidates,
    data: Training,
    patience: Patience,
    *,
    cv: Any,
    fraction: float,
    random_state: Any,
    progress: bool | None = None,
) -> Chosen:
    """Choose the settings and the number of steps by the risk of rows left out.

    The folds are fitted as one batch. A row left out that is far outside of a range
    does not count: its loss says how the model continues, not how good it is. Settings
    are tried, see `best_course`, as long as the matrices of all folds fit in memory
    together. The best settings then make the rest of their steps.

    From a single row nothing can be left out, and the number is 0. A family without one
    loss has no risks that can be compared, and the number is `PLAIN_STEPS`. Both have
    the first settings.
    """
    settings = next(candidates).settings
    if data.rows == 1 or not settings.family.has_one_loss:
        steps = 0 if data.rows == 1 else PLAIN_STEPS
        return Chosen(settings, steps, np.full(1, np.nan))
    if cv is None and data.rows > SAMPLE:
        rows = sampled(replace(data, given=None).rows_of_x[1], random_state)
        data = data.take(namespace(data.y).asarray(rows))
    folds = folds_for(data, cv, fraction, random_state)
    told = sufficient(folds, data, settings.family)
    if cv is None and told.any():
        folds = folds.some(told)
    check_folds(folds, data, settings.family)
    folds = folds.counting(~settings.far_rows(data))

    with counting_steps(progress) as watch:

        def course_of(some: Settings) -> Course | None:
            designs = some.designs(data)
            if some != settings and len([*designs.batches(len(folds.weights))]) > 1:
                return None
            return Course(
                fits_of_folds(some, data, folds, designs),
                lambda risks: mean_losses(risks, folds).mean(0),
                patience,
                folds=len(folds.weights),
                watch=watch,
            )

        settings, best = best_course(settings, candidates, course_of, folds)
        stopped = best.stopped()
    return Chosen(settings, len(stopped.path), stopped.risk)


def best_course(
    first: Settings,
    others: Candidates,
    course_of: Callable[[Settings], Course | None],
    folds: Folds,
) -> tuple[Settings, Course]:
    """The settings and the course that are best: see `is_better` and `is_worse`.

    The search ends with the candidates, or with the first without a course.
    """
    settings, best = first, course_of(first)
    assert best is not None
    verdict = None
    while True:
        try:
            candidate = others.send(verdict)
        except StopIteration:
            return settings, best
        other = course_of(candidate.settings)
        if other is None:
            return settings, best
        kind, least_gain = candidate.kind, candidate.least_gain
        verdict = compare(other, best, folds, kind=kind, least_gain=least_gain)
        if verdict is Verdict.BETTER:
            settings, best = candidate.settings, other


def compare(
    other: Course,
    best: Course,
    folds: Folds,
    *,
    kind: Kind = RICHER,
    least_gain: float = 0.0,
) -> Verdict:
    """How a course compares with the best so far.

    They are compared after equal numbers of steps. A course is better when its lead
    exceeds half of what the other gained by the second half of its steps: the other
    then cannot soon catch up. It must not have a lower loss already, from more steps.
    Until then both double their steps.
    Only a slower course may be better that has no lead at first: see `is_lower`, `Kind`
    and `Candidate`.
    """
    steps, rounding = FIRST_LOOK, ROUNDING * abs(best.risk[0])
    while True:
        losses = [least_losses(course, folds, steps) for course in (other, best)]
        lead = float((losses[1] - losses[0]).mean())
        gained = float(best.risk[0] - losses[1].mean())
        least = max(rounding, least_gain * gained)
        is_last = steps >= kind.last_look
        if is_lower(*losses, rounding=least, errors=kind.errors):
            has_passed = losses[0].mean() < best.risk.min()
            if has_passed and best.progress(steps) / 2 < lead:
                return Verdict.BETTER
        elif is_lower(*losses[::-1], rounding=rounding):
            if is_last or kind.doublings * other.progress(steps) < -lead:
                return Verdict.WORSE
        elif is_last:
            return Verdict.UNCLEAR
        steps *= 2


def least_losses(course: Course, folds: Folds, steps: int) -> Floats:
    """The mean losses of all folds, (B,), at the least risk of the first steps."""
    course.run(steps)
    assert course.path.out_of_bag is not None
    losses = mean_losses(course.path.out_of_bag, folds)
    return losses[:, int(course.risk[: steps + 1].argmin())]


def is_lower(
    losses: Floats, others: Floats, *, rounding: float = 0.0, errors: float = 1.0
) -> bool:
    """Whether losses of folds are lower than others, by more than the standard error.

    By more than `errors` standard errors. Differences up to `rounding` do not count.

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
    return bool(gains.mean() > max(errors * spread / len(gains) ** 0.5, rounding))


def sampled(response: Floats, random_state: Any) -> NDArray[np.intp]:
    """At most `SAMPLE` rows, with nearly the same distribution of the response."""
    count = ceil_div(len(response), SAMPLE)
    fold = deal_folds(response, count, generator(random_state))
    return np.flatnonzero(fold == 0)


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
