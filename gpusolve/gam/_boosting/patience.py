"""Early stopping: the steps end when the risk of rows held out no longer decreases."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import namespace
from .batch import Fits, Settings, Training, make_fits
from .path import Path
from .stacked import boost_family

PIECE = 50
"""The fewest steps between two looks at the risk, for which the host waits."""


def choose_held_out(rows: int, fraction: float, random_state: Any) -> NDArray[np.bool_]:
    """A mask of the rows that are held out: at least 1, and not all."""
    if rows < 2:
        raise ValueError(f"early_stopping needs at least 2 rows, got n_samples={rows}")
    count = min(max(1, round(fraction * rows)), rows - 1)
    mask = np.zeros(rows, bool)
    mask[generator(random_state).permutation(rows)[:count]] = True
    return mask


def generator(random_state: Any) -> np.random.Generator:
    """A generator from None, a seed, a ``Generator`` or a ``RandomState``."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    return np.random.default_rng(random_state)


def best_step(risk: NDArray[np.float64], patience: int) -> int | None:
    """The step of least risk, once `patience` steps after it were no better.

    None if the risk may still decrease.

    Examples
    --------
    >>> best_step(np.array([3.0, 2.0, 2.5, 2.4, 1.0]), patience=2)
    1
    >>> best_step(np.array([3.0, 2.0, 2.5]), patience=2) is None
    True
    """
    best = 0
    for step, value in enumerate(risk):
        if value < risk[best]:
            best = step
        if step - best >= patience:
            return best
    return None


def fit_patiently(
    settings: Settings,
    data: Training,
    steps: int,
    *,
    method: str,
    fraction: float,
    patience: int,
    random_state: Any,
) -> tuple[Fits, Path, NDArray[np.float64]]:
    """Fit to some of the rows, until the risk of the other rows stops decreasing.

    If there are several responses, they stop at the same step, by the sum of risks.

    Returns
    -------
    Fits
        Before their first step.
    Path
        The steps up to the least risk.
    array
        The mean loss of the rows that were held out, before the first step and after
        each; at most `patience` steps longer than the model.
    """
    xp = namespace(data.y)
    mask = xp.asarray(choose_held_out(data.rows, fraction, random_state))
    second = xp.where(mask, data.row_weights, 0.0)
    fits = make_fits(settings, data, xp.where(mask, 0.0, data.row_weights), second)
    total, piece = float(second.sum()), max(PIECE, patience)

    def mean_loss(path: Path) -> NDArray[np.float64]:
        assert path.out_of_bag is not None
        return np.asarray(path.out_of_bag.sum(axis=0) / total)

    found = boost_family(fits, min(steps, piece), method=method)
    rest = fits.after(found)
    while (best := best_step(mean_loss(found), patience)) is None:
        if len(found) == steps:
            best = int(mean_loss(found).argmin())
            break
        later = boost_family(rest, min(steps - len(found), piece), method=method)
        rest, found = rest.after(later), found.followed_by(later)
    return fits, found.until(best), mean_loss(found)[: best + patience + 1]
