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
