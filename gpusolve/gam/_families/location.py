"""Weighted means, quantiles and M-estimates of location, exact to rounding."""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Callable

from ..._device.arrays import Array, namespace


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
