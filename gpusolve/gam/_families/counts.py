"""Families of counts, and of positive responses with zeros."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from ..._device.arrays import Array, namespace
from .._data.conventions import check_between
from .family import LikelyFamily, LogLink, exp_of, softplus
from .numerics import (
    at_least_half_a_row,
    distinct_counts,
    log_factorial,
    log_minus_digamma,
    special,
    stirling_error,
    trigamma_minus_inverse,
    weighted_sum,
)

LEAST_MEAN = 1e-100
"""A positive number whose square is not 0."""

LEAST_LOG = -50.0
"""For the logarithm of an x below it, ``log(1 + x)`` is x up to rounding."""

LEAST_OFFSET = -40.0
"""Where a count above zero is 1, up to rounding, for all theta of a search."""

MEAN_STEPS, MEAN_TOLERANCE = 60, 1e-9
"""The most steps of the search for a mean, and the change at which it ends."""


class Counts(LogLink):
    """A distribution of counts."""

    def check(self, y: Array) -> None:
        counts = (y >= 0) & (y == namespace(y).rint(y))
        if not bool(counts.all()):
            raise ValueError(
                f"y of the {self.name} family must be counts 0, 1, 2, .., got "
                f"{float(y[~counts][0])}"
            )
        if not bool((y > 0).any()):
            raise ValueError(f"y of the {self.name} family must not be all 0")


@dataclass(frozen=True)
class Poisson(Counts):
    """The negative log likelihood of counts with mean ``exp(f)``. As in mboost.

    If all rows with weight are 0, half a count in all is assumed for the offset.

    See Also
    --------
    NegativeBinomial, Hurdle, Tweedie

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> families.Poisson().gradient(np.array([0.0, 1.0, 4.0]), 0.0, 0.0)
    array([-1.,  0.,  3.])
    """

    name = "poisson"
    criteria = ("aic",)
    scipy_law = staticmethod(lambda stats, mean, _: stats.poisson(mean))

    def information(self, f: Array) -> Array:
        return namespace(f).exp(f)

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        return y - exp_of(f)

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        return exp_of(f) - y * f + log_factorial(y)

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        return (y + exp_of(f)) / 2


@dataclass(frozen=True)
class NegativeBinomial(LikelyFamily, Counts):
    """The negative log likelihood of counts with variance ``mu + mu^2 / theta``.

    ``mu = exp(f)``. An adaptive theta maximises the weighted likelihood at the present
    f. If the counts do not vary more than Poisson's, the sum of ``w ((y - mu)^2 - y)``
    not being positive, theta is 1e8, its largest value; the smallest is 1e-8. mboost's
    NBinomial searches between 0 and 100, up to 1e-4, and the same way for the offset.
    Here the offset is the log of the weighted mean, whatever theta is, and as for
    `Poisson` if all rows with weight are 0.

    Parameters
    ----------
    theta : float, optional
        Positive. Default: adaptive.

    See Also
    --------
    Poisson, Hurdle

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> family = families.NegativeBinomial(theta=2.0)
    >>> family.gradient(np.array([0.0, 1.0, 4.0]), 0.0, 2.0)
    array([-0.66666667,  0.        ,  2.        ])
    """

    name = "negative_binomial"
    scipy_law: ClassVar[Callable[..., Any] | None] = staticmethod(
        lambda stats, mean, theta: stats.nbinom(theta, theta / (theta + mean))
    )
    parameter_name = "theta"
    nuisance_in_cuda = "theta"
    theta: float | None = None

    def start(self, y: Array, f: Array, w: Array | None) -> float | None:
        mean = namespace(f).exp(f)
        excess = float(weighted_sum(self.excess(y, mean), w))
        square = float(weighted_sum(mean * mean, w))
        return None if excess <= 0 else square / excess

    def excess(self, y: Array, mean: Array) -> Array:
        """What a row adds to the slope of the likelihood by ``1 / theta`` at 0."""
        return (y - mean) ** 2 - y

    def terms(self, y: Array, f: Array) -> Callable[[float], tuple[Array, Array]]:
        xp, expit = namespace(f), special(f).expit
        counts, place = distinct_counts(y)

        def at(s: float) -> tuple[Array, Array]:
            z, base, whole = f - math.log(s), xp.asarray(s), counts + s
            parts = xp.log1p(counts / s) + log_minus_digamma(base)
            parts = parts - log_minus_digamma(whole)
            bends = trigamma_minus_inverse(whole) - trigamma_minus_inverse(base)
            r = (counts / s)[place] * expit(-z) - expit(z)  # (y - mu) / (theta + mu)
            slope, bend = parts[place], bends[place]
            slope -= xp.logaddexp(0, z)
            slope -= r
            bend += r * r / whole[place]
            bend *= s
            bend += slope
            bend *= s
            slope *= s
            return slope, bend

        return at

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        expit, z = special(f).expit, f - namespace(f).log(s)
        return y * expit(-z) - s * expit(z)

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        xp = namespace(f)
        ratio, constant = xp.log1p(y / s), special(y).gammaln(y + 1.0) + y
        from_mean = (s + y) * (ratio - softplus(f - xp.log(s)))
        stirling = stirling_error(s) - stirling_error(s + y)
        return constant - y * f - from_mean + ratio / 2 + stirling

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        expit, z = special(f).expit, f - namespace(f).log(s)
        return (y * expit(-z) + s * expit(z)) / 2


@dataclass(frozen=True)
class Hurdle(NegativeBinomial):
    """The negative log likelihood of counts above zero, the second part of a hurdle.

    The counts are negative binomial, given that they are not 0: `NegativeBinomial` with
    the mean ``mu = exp(f)`` and theta is truncated at zero. Rows of 0 belong to the
    first part, a binomial model of ``y > 0``: the predicted mean of all rows is
    ``P(y > 0)`` times the mean here, ``mu / P(y > 0 | mu, theta)``.

    An adaptive theta maximises the weighted likelihood at the present f, within 1e-8
    and 1e8. It is 1e8, for truncated Poisson counts, if a slightly larger variance is
    not more likely. mboost's parameter is ``1 / theta``, which it searches between 0
    and 100, up to 1e-4; it computes the risk with the parameter of the previous step,
    and its response is mu. The offset is the constant of least risk; if all rows with
    weight are 1, half a count more is assumed in all.

    Parameters
    ----------
    theta : float, optional
        Positive. Default: adaptive.

    See Also
    --------
    Poisson, NegativeBinomial

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import BoostedGAM, BoostedGAMClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((500, 1))
    >>> visits = rng.poisson(3, 500) * (rng.random(500) < X[:, 0])
    >>> some = visits > 0
    >>> first = BoostedGAMClassifier().fit(X, some)
    >>> second = BoostedGAM(family="hurdle").fit(X[some], visits[some])
    >>> mean = first.predict_proba(X)[:, 1] * second.predict(X)
    >>> bool(abs(mean.mean() - visits.mean()) < 0.1)
    True
    """

    name = "hurdle"
    effect_on = "the log of mu"
    scipy_law = None

    def check(self, y: Array) -> None:
        super().check(y)
        if not bool((y > 0).all()):
            raise ValueError(
                "y of the hurdle family must be counts 1, 2, .., got 0: leave out the "
                "rows of 0, and fit a binomial model of y > 0 to all rows"
            )
        if not bool((y > 1).any()):
            raise ValueError("y of the hurdle family must not be all 1")

    def offset(self, y: Array, w: Array | None) -> float:
        return self.offset_from(y * 0, y, w)

    def offset_from(self, start: Array, y: Array, w: Array | None) -> float:
        more = at_least_half_a_row(y - 1, w) - float(weighted_sum(y - 1, w))
        lower = LEAST_OFFSET - float(start.max())
        upper = math.log(float(y.max())) - float(start.min())
        return self.zero_of_gradient(start, y, w, lower, upper, more=more)

    def excess(self, y: Array, mean: Array) -> Array:
        xp, positive = namespace(mean), namespace(mean).maximum(mean, LEAST_MEAN)
        return super().excess(y, mean) + positive * positive / xp.expm1(positive)

    def terms(self, y: Array, f: Array) -> Callable[[float], tuple[Array, Array]]:
        """As for all counts, plus the derivatives of ``-log P(y > 0)``."""
        xp, of_counts = namespace(f), super().terms(y, f)

        def at(s: float) -> tuple[Array, Array]:
            truncated = truncation(f, xp.asarray(s))
            odds = 1 / xp.expm1(truncated.exponent)  # P(y = 0) / P(y > 0)
            slope = truncated.pull - truncated.exponent  # of log P(y = 0)
            bend = slope + truncated.pull * truncated.pull / s
            bend += slope * slope * (1 + odds)
            first, second = of_counts(s)
            first += odds * slope
            second += odds * bend
            return first, second

        return at

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        expit = special(f).expit
        truncated, z = truncation(f, s), f - namespace(f).log(s)
        return y * expit(-z) - truncated.pull / truncated.share

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        expit = special(f).expit
        truncated, z = truncation(f, s), f - namespace(f).log(s)
        return (y * expit(-z) + truncated.pull / truncated.share) / 2

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        truncated = truncation(f, s)
        log_share = namespace(f).log(truncated.share) + truncated.log_rest
        return super().loss(y, f, s) + log_share

    def least_loss(self, y: Array, s: Array) -> Array:
        """At ``mean(f, s) = y``, by Newton's method: log mean is convex in f."""
        xp = namespace(y)
        more, f = y > 1, xp.log(y)
        for _ in range(MEAN_STEPS):
            truncated = truncation(f, s)
            error = xp.log(self.mean(f, s)) - xp.log(y)
            slope = 1 - truncated.pull / xp.expm1(truncated.exponent)
            change = xp.where(more, error / xp.where(more, slope, 1.0), 0.0)
            f = f - change
            if float(abs(change).max()) <= MEAN_TOLERANCE:
                break
        return xp.where(more, self.loss(y, f, s), 0.0)

    def mean(self, f: Array, s: Array) -> Array:
        truncated = truncation(f, s)
        return namespace(f).exp(f - truncated.log_rest) / truncated.share


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


@dataclass(frozen=True)
class Tweedie(LogLink):
    """Half the deviance of a Tweedie distribution with mean ``exp(f)``.

    The response is 0 with positive probability, and else a positive number, such as the
    claims of a policy in a year; its variance is proportional to ``mu^power``. The loss
    ``mu^(2 - power) / (2 - power) - y mu^(1 - power) / (1 - power)`` is the negative
    quasi log likelihood; added is ``y^(2 - power) / ((1 - power) (2 - power))``, which
    makes it 0 for mu = y. The offset is the log of the weighted mean; if all rows with
    weight are 0, one half is assumed in all. mboost does not have this family.

    Parameters
    ----------
    power : float, optional
        Between 1, for `Poisson`, and 2, for `Gamma`.

    See Also
    --------
    Poisson, Gamma

    References
    ----------
    .. [1] P. K. Dunn and G. K. Smyth, "Series evaluation of Tweedie exponential
           dispersion model densities", Statistics and Computing 15 (2005).

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> family = families.Tweedie(power=1.5)
    >>> family.response(family.offset(np.array([0.0, 1.0, 2.0]), None))
    np.float64(1.0)
    """

    name = "tweedie"
    power: float = 1.5

    def __post_init__(self) -> None:
        check_between("power", self.power, 1, 2)

    @property
    def parameter(self) -> float:
        return self.power

    def check(self, y: Array) -> None:
        if not bool((y >= 0).all()) or not bool((y > 0).any()):
            raise ValueError(
                "y of the tweedie family must not be negative, and not all 0, got "
                f"{float(y.min())} to {float(y.max())}"
            )

    def offset_from(self, start: Array, y: Array, w: Array | None) -> float:
        xp, low, high = namespace(y), self.power - 1, 2 - self.power
        smallest, largest = float(start.min()), float(start.max())
        pull = at_least_half_a_row(y * xp.exp(-low * (start - smallest)), w)
        push = float(weighted_sum(xp.exp(high * (start - largest)), w))
        return math.log(pull / push) - low * smallest - high * largest

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        return y * exp_of((1 - self.power) * f) - exp_of((2 - self.power) * f)

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        low, high = self.power - 1, 2 - self.power
        of_mean = exp_of(high * f) / high + y * exp_of(-low * f) / low
        return of_mean - y**high / (low * high)

    def least_loss(self, y: Array, s: Array) -> Array:
        return y * 0

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        return (y * exp_of((1 - self.power) * f) + exp_of((2 - self.power) * f)) / 2
