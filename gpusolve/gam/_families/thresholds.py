"""Maximum-likelihood thresholds between ordered classes.

The same steps as in ``thresholds.cuh``, which has the sources.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, namespace, on_host
from .gamma_function import special
from .location import weighted_sum

Floats = NDArray[np.float64]

TOLERANCE, STEPS = 1e-7, 60
"""The change at which Newton's method stops: the next change is about its square."""

LEAST_GAP = 0.1
"""A step keeps at least this share of each distance between neighbours."""

OVERSHOOT = -0.5
"""The slope along a step, relative to its start, that makes the step too long."""

RIDGE = 1e-10
"""Added to the information, relative to the sum of the weights."""

LOGISTIC = 0.346
"""A mean of logistic functions of normal variables with variance v is nearly the
logistic function of the mean, divided by ``sqrt(1 + 0.346 v)``."""


def find_thresholds(y: Array, f: Array, w: Array | None, classes: int) -> Floats:
    """The thresholds of classes 0, 1, .. with the largest likelihood at f, for one fit.

    The log likelihood is concave, so Newton's method needs no more than shorter steps:
    where a step would change the order, and where the slope turns along it. A class
    without weight counts as half a row, with the mean of f.
    """
    xp = namespace(f)
    y = y.astype(np.intp)
    w = xp.ones(len(y)) if w is None else w

    def by_class(x: Array) -> Floats:
        sums = xp.bincount(y, xp.where(w != 0, w * x, 0.0), classes)
        return np.asarray(on_host(sums))

    shares = by_class(xp.ones(len(y)))
    total = shares.sum()
    mean = float(weighted_sum(f, w)) / total
    variance = float(weighted_sum((f - mean) ** 2, w)) / total
    absent = shares == 0
    shares = np.where(absent, 0.5, shares)
    thresholds = guess(shares, mean, variance)
    step, slope = np.zeros_like(thresholds), 0.0
    for _ in range(STEPS):
        ends = xp.asarray(np.concatenate([[-np.inf], thresholds, [np.inf]]))
        above, below = special(f).expit(f - ends[1:][y]), special(f).expit(ends[y] - f)
        push, pull = by_class(above)[:-1], by_class(below)[1:]
        bend = by_class(above * (1 - above))[:-1] + by_class(below * (1 - below))[1:]
        first, second = of_absent(absent, mean, thresholds)
        gradient, bend = push - pull + first, bend + second
        diagonal, neighbours = bend + RIDGE * total, np.zeros_like(thresholds)
        near = np.exp(-np.diff(thresholds))
        gap = near / (1 - near)
        gradient[1:] += shares[1:-1] * gap
        gradient[:-1] -= shares[1:-1] * gap
        neighbours[1:] = shares[1:-1] * gap * (1 + gap)
        diagonal[1:] += neighbours[1:]
        diagonal[:-1] += neighbours[1:]
        if step @ gradient < OVERSHOOT * slope:
            step, slope = 0.5 * step, 0.5 * slope
            thresholds = thresholds - step
            continue
        step = solve(diagonal, neighbours, gradient)
        shrinking = -np.diff(step) / np.diff(thresholds)
        length = min(1.0, (1 - LEAST_GAP) / max([*shrinking, 1 - LEAST_GAP]))
        step = length * step
        slope = float(step @ gradient)
        thresholds = thresholds + step
        if abs(step).max() <= TOLERANCE:
            break
    return thresholds


def guess(shares: Floats, mean: float, variance: float) -> Floats:
    """Thresholds for classes of these weights, if f is normal."""
    below = np.cumsum(shares)[:-1]
    logits = np.log(below) - np.log(np.cumsum(shares[::-1])[-2::-1])
    return np.asarray(mean + np.sqrt(1 + LOGISTIC * variance) * logits)


def of_absent(
    absent: NDArray[np.bool_], mean: float, thresholds: Floats
) -> tuple[Floats, Floats]:
    """The derivatives for half a row of each absent class, at the mean."""
    above = special(thresholds).expit(mean - thresholds)
    first = 0.5 * (absent[:-1] * above - absent[1:] * (1 - above))
    second = 0.5 * (absent[:-1] + 0.0 + absent[1:]) * above * (1 - above)
    return first, second


def solve(diagonal: Floats, neighbours: Floats, right: Floats) -> Floats:
    """The solution for a tridiagonal matrix, with minus `neighbours` at its sides."""
    diagonal, x = diagonal.copy(), right.copy()
    for k in range(1, len(x)):
        ratio = neighbours[k] / diagonal[k - 1]
        diagonal[k] -= ratio * neighbours[k]
        x[k] += ratio * x[k - 1]
    for k in range(len(x) - 1, -1, -1):
        if k + 1 < len(x):
            x[k] += neighbours[k + 1] * x[k + 1]
        x[k] /= diagonal[k]
    return x
