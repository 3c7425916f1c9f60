"""Sums over rows, exact to rounding, and the searches that read them.

The same steps as in ``families.cuh``, which has the sources.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Callable
from functools import cache

import numpy as np

from ..._device.arrays import Array, namespace

LEAST, MOST = 1e-8, 1e8
"""The range of theta, shapes and scales; the largest theta gives Poisson's counts."""

SEARCH_TOLERANCE, SEARCH_STEPS = 1e-7, 60
"""The absolute change at which Newton's method stops: the next change is about its
square; and its most steps."""

OFFSET_ERROR = 1e-12
"""The error of a constant that is found by a search."""

Derivatives = tuple[float, float]


def apply_weights(x: Array, w: Array) -> Array:
    """The products ``w x``; 0 where w is 0, also if x is infinite there."""
    return w * namespace(x).where(w != 0, x, 0)


def weighted_sum(x: Array, w: Array | None) -> Array:
    """The weighted sum along the last axis, which stays if there are several."""
    return (x if w is None else apply_weights(x, w)).sum(axis=-1, keepdims=x.ndim > 1)


def weighted_mean(x: Array, w: Array | None) -> Array:
    """The weighted mean along the last axis, which stays if there are several."""
    total = x.shape[-1] if w is None else w.sum(axis=-1, keepdims=x.ndim > 1)
    return weighted_sum(x, w) / total


def weighted_quantile(x: Array, w: Array | None, tau: float = 0.5) -> Array:
    """The midpoint of the lower and the upper weighted quantile, along the last axis.

    Both minimise the weighted sum of the quantile losses, and so does all between them.
    Integer weights give the same bits as repeated rows. The axis stays if there are
    several.
    """
    lower, upper = _two_quantiles(x, w, tau)
    middle = 0.5 * (lower + upper)
    return middle if x.ndim > 1 else middle[0]


def _two_quantiles(x: Array, w: Array | None, tau: float) -> tuple[Array, Array]:
    """The first x up to which the share tau of the weights is reached, and exceeded."""
    xp, last = namespace(x), x.shape[-1] - 1
    if w is None:
        share = tau * x.shape[-1]
        lower, upper = math.ceil(share) - 1, min(math.floor(share), last)
        x = xp.partition(x, (lower, upper), axis=-1)
        return x[..., lower : lower + 1], x[..., upper : upper + 1]
    order = xp.argsort(x, axis=-1)
    x = xp.take_along_axis(x, order, -1)
    w = xp.take_along_axis(xp.broadcast_to(w, x.shape), order, -1)
    until = xp.cumsum(w, axis=-1)
    share = tau * until[..., -1:]
    lower = (until < share).sum(axis=-1, keepdims=True)
    upper = xp.minimum((until <= share).sum(axis=-1, keepdims=True), last)
    return xp.take_along_axis(x, lower, -1), xp.take_along_axis(x, upper, -1)


def spread(r: Array, w: Array | None) -> float:
    """The weighted median of ``|r|``, or the mean where it is 0."""
    size = abs(r)
    return float(weighted_quantile(size, w)) or float(weighted_mean(size, w))


def at_least_half_a_row(y: Array, w: Array | None) -> float:
    """The weighted sum of y, or 1/2 if that is 0."""
    return float(weighted_sum(y, w)) or 0.5


def each_fit(
    estimate: Callable[[Array, Array, Array | None], float],
    y: Array,
    f: Array,
    w: Array | None,
) -> Array:
    """An estimate from vectors: a number, or (F, 1) for f of shape (F, n)."""
    xp = namespace(y)
    shape = np.broadcast_shapes(y.shape, f.shape)
    if len(shape) == 1:
        return np.float64(estimate(y, f, w))
    y, f = xp.broadcast_to(y, shape), xp.broadcast_to(f, shape)
    w = [None] * len(f) if w is None else xp.broadcast_to(w, shape)
    return xp.asarray([*map(estimate, y, f, w)])[:, None]


# ---- searches ------------------------------------------------------------------------


def most_likely(begin: float, derivatives: Callable[[float], Derivatives]) -> float:
    """The number within `LEAST` and `MOST` of the largest likelihood.

    Newton's method in its logarithm, by which the derivatives are, within an interval
    that shrinks; a step beyond it is replaced by its midpoint. It begins at 1 if
    `begin` is not within the limits.
    """
    new = math.log(begin) if LEAST < begin < MOST else 0.0
    lower, upper = math.log(LEAST), math.log(MOST)
    for _ in range(SEARCH_STEPS):
        old = new
        first, second = derivatives(math.exp(old))
        lower, upper = (old, upper) if first > 0 else (lower, old)
        newton = old - first / second if second < 0 else math.nan
        new = newton if lower < newton < upper else 0.5 * (lower + upper)
        if abs(new - old) <= SEARCH_TOLERANCE:
            break
    return math.exp(new)


def zero_above(score: Callable[[float], float], lower: float, width: float) -> float:
    """The zero of a decreasing function; `lower` if it is not positive there.

    It is looked for up to ``lower + width``, and then twice as far, and so on.
    """
    from scipy.optimize import brentq

    score = cache(score)  # brentq asks for the ends once more
    if not score(lower) > 0:
        return lower
    while score(lower + width) > 0:
        width *= 2
    return float(brentq(score, lower, lower + width, xtol=OFFSET_ERROR))


def zero_of(score: Callable[[float], float], breakpoints: Array) -> float:
    """The zero of a decreasing function that is linear between the breakpoints.

    If it is zero in an interval, up to rounding: the midpoint.
    """
    points = namespace(breakpoints).sort(breakpoints)

    def at(i: int) -> float:
        return score(float(points[i]))

    def crossing(i: int) -> float:
        """The zero of the line before breakpoint i, or the outermost breakpoint."""
        if i == 0 or i == len(points):
            return float(points[min(i, len(points) - 1)])
        left, right = float(points[i - 1]), float(points[i])
        high, low = at(i - 1), at(i)
        return left + (right - left) * min(1.0, max(0.0, high / (high - low)))

    rounding = 4 * sys.float_info.epsilon * max(abs(at(0)), abs(at(-1)))
    indices = range(len(points))
    first = bisect_left(indices, True, key=lambda i: at(i) <= rounding)
    last = bisect_left(indices, True, key=lambda i: at(i) < -rounding)
    return 0.5 * (crossing(first) + crossing(last))
