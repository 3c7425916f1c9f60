"""Whether the risk of a path rose, or was still falling at its end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RISE = 0.1
"""A risk rises if it exceeds the least risk before by this share of its decrease. Steps
towards medians and quantiles cause smaller rises."""

FALL = 0.01
"""A risk is still falling if the last tenth of the steps have this share of its
decrease."""

LEAST_RISE = 1e-9
"""Relative size of a rise that rounding may explain."""


def first_rise(risk: NDArray[np.float64]) -> int | None:
    """The first step after which a risk of a path, (..., steps + 1), has risen.

    Examples
    --------
    >>> first_rise(np.array([10.0, 4.0, 2.0, 2.1, 2.0, 3.0]))
    5
    """
    least = np.minimum.accumulate(risk, axis=-1)
    decrease = risk[..., :1] - least[..., -1:]
    allowed = RISE * decrease + LEAST_RISE * abs(risk).max(axis=-1, keepdims=True)
    rises = (risk - least > allowed).reshape(-1, risk.shape[-1]).any(axis=0)
    return int(rises.argmax()) if rises.any() else None


def late_share(risk: NDArray[np.float64]) -> float:
    """The share of the last tenth of the steps in the decrease of a risk, (steps + 1,).

    Examples
    --------
    >>> late_share(np.linspace(9.0, 4.0, 11))
    0.1
    """
    decrease = float(risk[0] - risk[-1])
    if not decrease > 0:
        return 0.0
    steps = len(risk) - 1
    return float(risk[-1 - max(1, steps // 10)] - risk[-1]) / decrease
