"""How much each learner contributed to a fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def risk_reductions(
    selected: NDArray[Any], risk: Floats, learners: int, rows: int
) -> Floats:
    """The reduction of the risk by each learner, for each row of the data: (learners,).

    It is the sum over the steps that selected the learner, negative for a learner whose
    steps increased the risk. `selected` has the learner of each step; `risk` begins
    before the first step. `rows` counts all rows of the data, whatever their weights.
    Steps that selected -1, no learner, count for none.

    Examples
    --------
    >>> risk_reductions(np.array([1, 0, 1]), np.array([9.0, 5.0, 4.0, 3.0]), 3, rows=2)
    array([0.5, 2.5, 0. ])
    """
    kept = selected >= 0
    reductions = np.bincount(selected[kept], (risk[:-1] - risk[1:])[kept], learners)
    return np.asarray(reductions / rows)


def risk_shares(selected: NDArray[Any], risk: Floats) -> Floats:
    """The risks of P predictors, (P, steps + 1), which add up to the risk of the model.

    The reduction by a step is divided among the predictors that the step updated;
    `selected` is -1 for other predictors, (P, steps).

    Examples
    --------
    >>> risk_shares(np.array([[0, -1], [1, 0]]), np.array([8.0, 4.0, 3.0]))
    array([[4., 2., 2.],
           [4., 2., 1.]])
    """
    updated = selected >= 0
    changes = np.where(updated, np.diff(risk) / updated.sum(axis=0), 0.0)
    start = np.full((len(selected), 1), risk[0] / len(selected))
    return np.concatenate([start, start + changes.cumsum(axis=1)], axis=1)


def selection_frequencies(selected: NDArray[Any], learners: int) -> Floats:
    """The share of the steps that selected each learner, (learners,).

    All are zero without steps. Steps that selected -1 do not count.

    Examples
    --------
    >>> selection_frequencies(np.array([1, 0, 1, 1]), 3)
    array([0.25, 0.75, 0.  ])
    """
    kept = selected[selected >= 0]
    counts = np.bincount(kept, minlength=learners)
    return np.asarray(counts / max(1, len(kept)))
