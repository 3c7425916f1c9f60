"""The number of steps: they end when the risk of rows left out no longer decreases."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import namespace
from ..._device.launch import ceil_div
from ..._estimators.conventions import generator
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
from .stacked import boost_in_pieces

MOST_STEPS = 10_000
"""The most steps of ``max_iter="auto"``."""

PLAIN_STEPS = 100
"""The steps of ``max_iter="auto"`` without risks that can be compared."""

FOLDS = 5
"""The folds of ``max_iter="auto"``."""

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

        Enough are `waiting` steps, and as many as have led to the least risk: the
        longer the risk has decreased, the longer it may pause. None if the risk may
        still decrease.

        Examples
        --------
        >>> patience = Patience(steps=100, waiting=2)
        >>> patience.best_step(np.array([3.0, 2.0, 2.5, 2.4, 1.0]))
        1
        >>> patience.best_step(np.array([4.0, 3.0, 2.0, 1.0, 1.5, 1.4])) is None
        True
        """
        best = 0
        for step, value in enumerate(risk):
            if value < risk[best]:
                best = step
            if step >= best + max(self.waiting, best) or step == self.steps:
                return best
        return None


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


def boost_patiently(
    fits: Fits,
    losses: Callable[[Any], Floats],
    patience: Patience,
    method: str = "stacked",
) -> Stopped:
    """Boost until the risk of the rows left out no longer decreases.

    Parameters
    ----------
    losses : callable
        From the out-of-bag risks of all fits, (F, steps + 1), to a mean loss of each
        step.
    """
    pieces = boost_in_pieces(fits, patience.steps, method)
    found = next(pieces)
    while (best := patience.best_step(losses(found.out_of_bag))) is None:
        found = next(pieces)
    end = best + max(patience.waiting, best) + 1
    return Stopped(fits, found.until(best), losses(found.out_of_bag)[:end])


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
    return boost_patiently(
        fits, lambda risks: risks.sum(axis=0) / total, patience, method
    )


def choose_held_out(rows: int, fraction: float, random_state: Any) -> NDArray[np.bool_]:
    """A mask of the rows that are held out: at least 1, and not all."""
    if rows < 2:
        raise ValueError(f"early_stopping needs at least 2 rows, got n_samples={rows}")
    count = min(max(1, round(fraction * rows)), rows - 1)
    mask = np.zeros(rows, bool)
    mask[generator(random_state).permutation(rows)[:count]] = True
    return mask


def choose_steps(
    settings: Settings,
    data: Training,
    patience: Patience,
    *,
    cv: Any,
    fraction: float,
    random_state: Any,
) -> tuple[int, Floats]:
    """The number of steps with the least mean risk of rows left out, and the risks.

    The folds are fitted as one batch. From a single row nothing can be left out, and
    the number is 0. A family without one loss has no risks that can be compared, and
    the number is `PLAIN_STEPS`.
    """
    if data.rows == 1 or not settings.family.has_one_loss:
        return (0 if data.rows == 1 else PLAIN_STEPS), np.full(1, np.nan)
    folds = folds_for(data, cv, fraction, random_state)
    stopped = boost_patiently(
        fits_of_folds(settings, data, folds),
        lambda risks: mean_losses(risks, folds).mean(axis=0),
        patience,
    )
    return len(stopped.path), stopped.risk


def folds_for(data: Training, cv: Any, fraction: float, random_state: Any) -> Folds:
    """The folds of `choose_steps`.

    A number of folds have nearly the same distribution of the response. None stands
    for `FOLDS`; for several times as many if there are few rows, as each part is then
    small; and for a single part of more than `MOST_ROWS` rows.
    """
    weights, response = data.weights_on_host, data.response_on_host
    if cv is None and data.rows > MOST_ROWS:
        held_out = choose_held_out(data.rows, fraction, random_state)
        return make_folds([(~held_out, held_out)], weights, response, None, None)
    if cv is None or isinstance(cv, Integral):
        repeats = 1 if cv else min(ceil_div(LEFT_OUT, data.rows), MOST_REPEATS)
        count, rng = min(int(cv or FOLDS), data.rows), generator(random_state)
        dealt = [deal_folds(response, count, rng) for _ in range(repeats)]
        cv = [(fold != k, fold == k) for fold in dealt for k in range(count)]
    return make_folds(cv, weights, response, None, None)
