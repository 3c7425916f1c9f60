"""Maximum-likelihood dispersion of distributions: shapes, theta and scales.

The same steps as in ``families.cuh``, which has the sources.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from ..._device.arrays import Array, namespace, on_host
from .gamma_function import log_minus_digamma, special, trigamma_minus_inverse
from .location import weighted_sum

LEAST, MOST = 1e-8, 1e8
"""The range of theta, shapes and scales; the largest theta gives Poisson's counts."""

SHAPE_TOLERANCE, SHAPE_STEPS = 1e-8, 30
SEARCH_TOLERANCE, SEARCH_STEPS = 1e-7, 60
"""The relative and absolute change at which Newton's method stops: the next change is
about its square."""


LEAST_MEAN = 1e-100
"""A positive number whose square is not 0."""

LEAST_LOG = -50.0
"""For the logarithm of an x below it, ``log(1 + x)`` is x up to rounding."""


def gamma_shape(mean: Array) -> Array:
    """The shapes s with ``log s - digamma(s) = mean``, of the same shape.

    The left side is a convex function of ``t = 1 / s`` between ``t / 2`` and ``t``, so
    Newton's method descends from ``t = 2 mean`` without a safeguard.
    """
    targets = np.clip(on_host(mean), 0.5 * LEAST, MOST)
    shapes = np.array([*map(_shape, targets.flat)]).reshape(targets.shape)
    return namespace(mean).asarray(shapes)[()]


def _shape(target: np.float64) -> float:
    t = 2 * target
    for _ in range(SHAPE_STEPS):
        s = 1 / t
        change = (log_minus_digamma(s) - target) / (s * s * trigamma_minus_inverse(s))
        t -= change
        if abs(change) <= SHAPE_TOLERANCE * t:
            break
    return float(1 / t)


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
    found = [*map(estimate, y, f, w)]
    return xp.asarray(found)[:, None]


def most_likely(
    begin: float, derivatives: Callable[[float], tuple[float, float]]
) -> float:
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


class Truncation(NamedTuple):
    """Negative binomial counts above zero, with mean ``mu = exp(f)``.

    Attributes
    ----------
    exponent : Array
        ``-log P(y = 0)``.
    share : Array
        ``P(y > 0)``, divided by ``exp(log_rest)``.
    log_rest : Array
        0, or negative where the share would underflow: it is proportional to mu there.
    pull : Array
        ``theta mu / (theta + mu)``, divided by ``exp(log_rest)``.
    """

    exponent: Array
    share: Array
    log_rest: Array
    pull: Array


def truncation(f: Array, theta: Array) -> Truncation:
    """The truncation at zero of counts with these parameters, which broadcast."""
    xp, log_theta = namespace(f), namespace(f).log(theta)
    raised = xp.maximum(f, xp.minimum(log_theta, 0.0) + LEAST_LOG)
    exponent = theta * xp.logaddexp(0, raised - log_theta)
    pull = theta * special(f).expit(raised - log_theta)
    return Truncation(exponent, -xp.expm1(-exponent), f - raised, pull)


def negative_binomial_theta(
    y: Array, f: Array, w: Array | None, *, truncated: bool = False
) -> Array:
    """Theta of maximum likelihood: a number, or (F, 1) for f of shape (F, n).

    `truncated` counts are above zero.
    """
    return each_fit(partial(_theta, truncated=truncated), y, f, w)


def _theta(y: Array, f: Array, w: Array | None, *, truncated: bool) -> float:
    """Theta of one fit; `MOST` unless the variance exceeds Poisson's.

    The likelihood then increases with ``1 / theta`` at 0.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # the search needs no exp
        mean = namespace(f).exp(f)
        bend = (y - mean) ** 2 - y
        if truncated:
            positive = namespace(f).maximum(mean, LEAST_MEAN)
            bend = bend + positive * positive / namespace(f).expm1(positive)
        excess = float(weighted_sum(bend, w))
        square = float(weighted_sum(mean * mean, w))
    if excess <= 0:
        return MOST
    distinct, place = namespace(y).unique(y, return_inverse=True)

    def derivatives(theta: float) -> tuple[float, float]:
        first, second = _derivatives(distinct, place, f, w, theta)
        if not truncated:
            return first, second
        more = _truncation_derivatives(f, w, theta)
        return first + more[0], second + more[1]

    return most_likely(square / excess, derivatives)


def _derivatives(
    y: Array, place: Array, f: Array, w: Array | None, theta: float
) -> tuple[float, float]:
    """The first and the second derivative of the log likelihood by log theta.

    y has the distinct counts, and ``y[place]`` the counts of the rows.
    """
    xp, expit = namespace(f), special(f).expit
    z, base = f - math.log(theta), xp.asarray(theta)
    whole = y + theta
    parts = xp.log1p(y / theta) + log_minus_digamma(base) - log_minus_digamma(whole)
    bends = trigamma_minus_inverse(whole) - trigamma_minus_inverse(base)
    r = (y / theta)[place] * expit(-z) - expit(z)  # (y - mu) / (theta + mu)
    slope = parts[place] - xp.logaddexp(0, z) - r
    curvature = bends[place] + r * r / whole[place]
    first = weighted_sum(slope, w)
    second = weighted_sum(slope + theta * curvature, w)
    return float(theta * first), float(theta * second)


def _truncation_derivatives(
    f: Array, w: Array | None, theta: float
) -> tuple[float, float]:
    """The derivatives of ``-log P(y > 0)`` by log theta, as `_derivatives`."""
    at = truncation(f, namespace(f).asarray(theta))
    with np.errstate(over="ignore"):
        odds = 1 / namespace(f).expm1(at.exponent)  # P(y = 0) / P(y > 0)
    slope = at.pull - at.exponent  # of log P(y = 0)
    curvature = slope + at.pull * at.pull / theta
    second = odds * (curvature + slope * slope * (1 + odds))
    return float(weighted_sum(odds * slope, w)), float(weighted_sum(second, w))


def failure_scale(
    derivatives: Callable[[Array, Array, float], tuple[Array, Array]],
    y: Array,
    f: Array,
    w: Array | None,
) -> Array:
    """The scale of signed times y of maximum likelihood: a number, or (F, 1).

    `derivatives` are of the log likelihood of the rows by the logarithm of the scale.
    The search begins at the root mean square of the residuals of the events.
    """

    def scale(y: Array, f: Array, w: Array | None) -> float:
        def sums(both: tuple[Array, Array]) -> tuple[float, float]:
            return float(weighted_sum(both[0], w)), float(weighted_sum(both[1], w))

        event, residual = 1.0 * (y > 0), namespace(y).log(abs(y)) - f
        with np.errstate(over="ignore", invalid="ignore"):  # the search halves there
            count = float(weighted_sum(event, w))
            square = float(weighted_sum(event * residual**2, w))
            begin = math.sqrt(square / count) if count > 0 else math.nan
            return most_likely(
                begin,
                lambda s: sums(derivatives(y, f, s)),
            )

    return each_fit(scale, y, f, w)
