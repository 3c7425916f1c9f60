"""How much each learner contributed to a fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def risk_reductions(
    selected: NDArray[Any], risk: Floats, learners: int, rows: int
) -> Floats:
    """The reduction of the risk by each learner, for each row of the data.

    Parameters
    ----------
    selected : (steps,) integer array
        The learner that each step selected.
    risk : (steps + 1,) array
        The risk before the first step and after each.
    learners : int
        The number K of learners.
    rows : int
        The number of rows of the data, whatever their weights.

    Returns
    -------
    (K,) array
        The sum over the steps that selected the learner. It is negative for a learner
        whose steps increased the risk. All together are the risk before the first step
        less the risk after the last, divided by `rows`.

    Examples
    --------
    >>> risk_reductions(np.array([1, 0, 1]), np.array([9.0, 5.0, 4.0, 3.0]), 3, rows=2)
    array([0.5, 2.5, 0. ])
    """
    reductions = np.bincount(selected, risk[:-1] - risk[1:], learners)
    return np.asarray(reductions / rows)


def selection_frequencies(selected: NDArray[Any], learners: int) -> Floats:
    """The share of the steps that selected each learner, (learners,).

    All are zero without steps.

    Examples
    --------
    >>> selection_frequencies(np.array([1, 0, 1, 1]), 3)
    array([0.25, 0.75, 0.  ])
    """
    counts = np.bincount(selected, minlength=learners)
    return np.asarray(counts / max(1, len(selected)))
