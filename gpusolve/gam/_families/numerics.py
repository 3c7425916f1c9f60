"""Sums over rows, searches that read them, log Gamma, and concordance.

The same steps as in ``families.cuh``, which has the sources.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, as_array, is_cupy, namespace, on_host

LEAST, MOST = 1e-8, 1e8
"""The range of theta, shapes and scales; the largest theta gives Poisson's counts."""

SEARCH_TOLERANCE, SEARCH_STEPS = 1e-7, 60
"""The absolute change at which Newton's method stops: the next change is about its
square; and its most steps."""

OFFSET_ERROR = 1e-12
"""The error of a constant that is found by a search, of a width of at least 1."""

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
    """The midpoint of the lower and the upper weighted quantile of x, (n,).

    Both minimise the weighted sum of the quantile losses, and so does all between them:
    the first x up to which the share tau of the weights is reached, and exceeded.
    Integer weights give the same bits as repeated rows.
    """
    xp, last = namespace(x), len(x) - 1
    if w is None:
        share = tau * len(x)
        lower, upper = math.ceil(share) - 1, min(math.floor(share), last)
        x = xp.partition(x, (lower, upper))
    else:
        order = xp.argsort(x)
        x, until = x[order], xp.cumsum(w[order])
        share = tau * until[-1]
        lower = int((until < share).sum())
        upper = min(int((until <= share).sum()), last)
    return 0.5 * (x[lower] + x[upper])


def spread(r: Array, w: Array | None) -> float:
    """The weighted median of ``|r|``, or the mean where it is 0."""
    size = abs(r)
    return float(weighted_quantile(size, w)) or float(weighted_mean(size, w))


def at_least_half_a_row(y: Array, w: Array | None) -> float:
    """The weighted sum of y, or 1/2 if that is 0."""
    return float(weighted_sum(y, w)) or 0.5


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
    error = OFFSET_ERROR * min(1.0, width)  # y may be tiny
    return float(brentq(score, lower, lower + width, xtol=error))


# ---- log Gamma -----------------------------------------------------------------------


STIRLING_FROM = 10.0
"""The least argument of the series: the first term beyond them is below 1e-16."""

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
_LOG_GAMMA = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def special(array: Array) -> Any:
    """The module of special functions for an array, SciPy's or CuPy's."""
    return import_module("cupyx.scipy.special" if is_cupy(array) else "scipy.special")


def distinct_counts(y: Array) -> tuple[Array, Any]:
    """Counts, and the places of y among them; y itself if there are fewer rows.

    A function of the counts is then computed once for each, not for each row.
    """
    counts = float(y.max()) + 1
    if counts > y.size:
        return y, slice(None)
    return namespace(y).arange(counts), y.astype(np.int64)


def log_factorial(y: Array) -> Array:
    """``log y!`` of counts.

    Examples
    --------
    >>> import numpy as np
    >>> log_factorial(np.array([0.0, 2.0, 1.0])).round(6)
    array([0.      , 0.693147, 0.      ])
    """
    counts, place = distinct_counts(y)
    return special(y).gammaln(counts + 1.0)[place]


def stirling_error(x: Array) -> Array:
    """``log Gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2)`` for x > 0."""
    low, high = _parts(x)
    log_gamma = special(x).gammaln(low)
    stirling = (low - 0.5) * namespace(x).log(low) - low + HALF_LOG_TWO_PI
    return _joined(x, log_gamma - stirling, _series(_LOG_GAMMA, high) / high)


def log_minus_digamma(x: Array) -> Array:
    """``log x - digamma(x)`` for x > 0."""
    low, high = _parts(x)
    difference = namespace(x).log(low) - special(x).digamma(low)
    series = 0.5 / high + _series(_DIGAMMA, high) / (high * high)
    return _joined(x, difference, series)


def trigamma_minus_inverse(x: Array) -> Array:
    """``trigamma(x) - 1 / x`` for x > 0; minus the derivative of the above."""
    low, high = _parts(x)
    difference = special(x).zeta(2.0, low) - 1 / low
    series = (_series(_TRIGAMMA, high) / high + 0.5) / (high * high)
    return _joined(x, difference, series)


def _parts(x: Array) -> tuple[Array, Array]:
    """The arguments of the functions and of the series, each in its own range."""
    xp = namespace(x)
    return xp.minimum(x, STIRLING_FROM), xp.maximum(x, STIRLING_FROM)


def _joined(x: Array, low: Array, high: Array) -> Array:
    return namespace(x).where(x < STIRLING_FROM, low, high)[()]


def _series(coefficients: Sequence[float], x: Array) -> Array:
    """The polynomial of ``1 / x^2``, by Horner's rule."""
    t, total = 1 / (x * x), coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * t + coefficient
    return total


# ---- concordance ---------------------------------------------------------------------


def concordance(time: Any, event: Any, risk: Any) -> float:
    """Harrell's concordance index of survival times and predicted risks.

    Parameters
    ----------
    time : (n,) array_like
    event : (n,) array_like of bool or of 0 and 1
        Whether the event was observed; else the row is censored.
    risk : (n,) array_like
        Larger for an earlier event.

    Returns
    -------
    float
        The share of the comparable pairs whose larger risk has the earlier event; equal
        risks count half. A pair is comparable if the earlier time is an event; of equal
        times, a row with an event is earlier than a censored row, and two events are
        not compared. So does scikit-survival. NaN without a comparable pair.

    Raises
    ------
    ValueError
        If the arrays are not vectors of the same length.

    See Also
    --------
    gpusolve.gam.families.CoxPH, gpusolve.gam.families.survival_times

    Examples
    --------
    >>> concordance([1.0, 2.0, 3.0, 4.0], [1, 0, 1, 1], [2.0, 5.0, 1.0, 1.0])
    0.625

    Notes
    -----
    The rows are read from the last time to the first. The later rows of smaller risk
    are counted for all events at once, by a wavelet matrix of the ranks of the risks.

    References
    ----------
    .. [1] F. E. Harrell et al., "Evaluating the yield of medical tests", JAMA 247
           (1982).
    .. [2] F. Claude, G. Navarro and A. Ordonez, "The wavelet matrix: An efficient
           wavelet tree for large alphabets", Information Systems 47 (2015).
    """
    columns = {"time": time, "event": event, "risk": risk}
    time, event, risk = (on_host(as_array(a, name)) for name, a in columns.items())
    if not (time.ndim == 1 and time.shape == event.shape == risk.shape):
        raise ValueError(
            "time, event and risk must have the same shape (n,), got "
            f"{time.shape}, {event.shape} and {risk.shape}"
        )
    event = event.astype(bool)
    order = np.lexsort((event, -time))  # of equal times, censored rows first
    time, event = time[order], event[order]
    ranks = np.unique(risk, return_inverse=True)[1][order]
    begins = np.ones(len(time), bool)
    begins[1:] = (time[1:] != time[:-1]) | (event[1:] != event[:-1])
    later = np.maximum.accumulate(np.where(begins, np.arange(len(time)), 0))[event]
    less, equal = count_smaller(ranks, later, ranks[event])
    pairs = later.sum()
    return float((less + 0.5 * equal) / pairs) if pairs else float("nan")


def count_smaller(
    values: NDArray[np.intp], ends: NDArray[np.intp], bounds: NDArray[np.intp]
) -> tuple[int, int]:
    """How many of ``values[:end]`` are less than a bound, and equal, over all pairs.

    A bit of all values is read at a time, the highest first. Values whose higher bits
    are equal follow each other; `first` and `ends` bound the values that have the bits
    of the bound.
    """
    first, less = np.zeros_like(ends), 0
    for bit in range(int(values.max(initial=0)).bit_length() - 1, -1, -1):
        is_one = (values >> bit & 1).astype(bool)
        zeros = np.concatenate([[0], np.cumsum(~is_one)])
        begins_with_one = (bounds >> bit & 1).astype(bool)
        below = zeros[ends] - zeros[first]
        less += int(below[begins_with_one].sum())
        first, ends = (
            np.where(begins_with_one, zeros[-1] + place - zeros[place], zeros[place])
            for place in (first, ends)
        )
        values = np.concatenate([values[~is_one], values[is_one]])
    return less, int((ends - first).sum())
