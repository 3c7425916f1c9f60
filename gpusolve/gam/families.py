"""Families of boosted models: losses, their gradients, offsets and responses.

A family says what is minimised: the weighted sum of ``loss(y, f)``, with f the additive
predictor. The definitions are the same as in R's mboost, except where its rule is an
accident of its implementation; each class names the difference. Given mboost's offset,
and its adaptive parameter, the path is mboost's.

Every function takes NumPy or CuPy arrays. `gradient`, `loss` and `response` work
elementwise: y, f and s broadcast, so that F fits to n rows have f of shape (F, n) and s
of shape (F, 1). An exception is `PropOdds`, with several parameters. The same functions
for a device are in ``families.cuh``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, namespace, on_host
from ._data.conventions import check_between, check_choice
from ._families.classes import ClassFamily, Multinomial, PropOdds
from ._families.counts import Hurdle, NegativeBinomial, Poisson, Tweedie
from ._families.custom import Custom, CustomCuda
from ._families.family import (
    AdaptiveFamily,
    CudaFamily,
    Family,
    LogLink,
    exp_of,
    family_in,
    softplus,
)
from ._families.numerics import (
    HALF_LOG_TWO_PI,
    LEAST,
    MOST,
    at_least_half_a_row,
    concordance,
    log_minus_digamma,
    most_likely,
    special,
    spread,
    stirling_error,
    trigamma_minus_inverse,
    weighted_mean,
    weighted_quantile,
    weighted_sum,
)
from ._families.survival import (
    Baseline,
    CoxPH,
    LogLogistic,
    LogNormal,
    SurvivalFamily,
    Weibull,
    survival_times,
)

__all__ = [
    "FAMILIES",
    "Binomial",
    "CoxPH",
    "CudaFamily",
    "Custom",
    "CustomCuda",
    "Expectile",
    "Family",
    "Gamma",
    "Gaussian",
    "Huber",
    "Hurdle",
    "Laplace",
    "LogLogistic",
    "LogNormal",
    "Multinomial",
    "NegativeBinomial",
    "Poisson",
    "PropOdds",
    "Quantile",
    "SurvivalFamily",
    "Tweedie",
    "Weibull",
    "concordance",
    "family_of",
    "survival_times",
]

FARTHEST = 40.0
"""Probabilities at this distance from a logit of 0 are 0 or 1, up to rounding."""

# ---- real responses ------------------------------------------------------------------


@dataclass(frozen=True)
class Gaussian(Family):
    """Squared error ``(y - f)^2``, with gradient ``y - f``. As in mboost.

    See Also
    --------
    Huber, Laplace, gpusolve.gam.distributions.Gaussian

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> families.Gaussian().offset(np.array([1.0, 2.0, 6.0]), None)
    3.0
    """

    name = "gaussian"
    effect_on = "the mean"
    criteria = "aicc", "gmdl"
    scipy_law = staticmethod(
        lambda stats, mean, variance: stats.norm(mean, np.sqrt(variance))
    )

    def offset(self, y: Array, w: Array | None) -> float:
        return float(weighted_mean(y, w))

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        return y - f

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        return (y - f) ** 2


@dataclass(frozen=True)
class Laplace(Family):
    """Absolute error ``|y - f|``: the median of y.

    The offset is the weighted median, the midpoint of all minimisers. mboost's search
    for it stops at a distance of 1e-4.

    See Also
    --------
    Quantile, Huber

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> families.Laplace().offset(np.array([1.0, 2.0, 6.0]), None)
    2.0
    """

    name = "laplace"
    effect_on = "the median"

    def offset(self, y: Array, w: Array | None) -> float:
        return float(weighted_quantile(y, w))

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        return namespace(y).sign(y - f)

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        return abs(y - f)

    def unit(self, y: Array, f: Array, w: Array | None) -> float:
        return spread(y - f, w)


@dataclass(frozen=True)
class _Asymmetric(Family):
    """A loss that weights positive residuals by tau, negative ones by 1 - tau."""

    tau: float = 0.5

    def __post_init__(self) -> None:
        check_between("tau", self.tau, 0, 1)

    @property
    def parameter(self) -> float:
        return self.tau


@dataclass(frozen=True)
class Quantile(_Asymmetric):
    """Quantile regression: ``tau (y - f)``, or ``(1 - tau) (f - y)`` where y < f.

    The offset is the weighted quantile of y, for any weights. mboost's offset is the
    median, whatever tau is, and needs integer weights. The response is f; mboost does
    not define it.

    Parameters
    ----------
    tau : float, optional
        Between 0 and 1.

    See Also
    --------
    Expectile, Laplace

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> families.Quantile(0.9).offset(np.array([0.0, 1.0, 2.0, 3.0, 4.0]), None)
    4.0
    """

    name = "quantile"
    effect_on = "the quantile"

    def offset(self, y: Array, w: Array | None) -> float:
        return float(weighted_quantile(y, w, self.tau))

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        return namespace(y).where(y >= f, self.tau, self.tau - 1)

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        return self.gradient(y, f, s) * (y - f)

    def unit(self, y: Array, f: Array, w: Array | None) -> float:
        return 2 * spread(y - f, w)


@dataclass(frozen=True)
class Expectile(_Asymmetric):
    """Asymmetric squared error: ``tau (y - f)^2``, or with ``1 - tau`` where y <= f.

    The offset is the weighted expectile of y. mboost's offset is the mean of the rows
    of weight 1, whatever tau is. The response is f; mboost does not define it.

    Parameters
    ----------
    tau : float, optional
        Between 0 and 1; 0.5 is half of the squared error.

    See Also
    --------
    Quantile, Gaussian

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> round(families.Expectile(0.9).offset(np.array([0.0, 10.0]), None), 6)
    9.0
    """

    name = "expectile"
    effect_on = "the expectile"

    def offset(self, y: Array, w: Array | None) -> float:
        return self.zero_of_gradient(y * 0, y, w, float(y.min()), float(y.max()))

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        return 2 * self._factor(y - f) * (y - f)

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        return self._factor(y - f) * (y - f) ** 2

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        return 2 * self._factor(y - f)

    def _factor(self, residual: Array) -> Array:
        return namespace(residual).where(residual > 0, self.tau, 1 - self.tau)


@dataclass(frozen=True)
class Huber(AdaptiveFamily):
    """Huber's loss ``r^2 / 2`` where ``|r| < delta``, else ``delta (|r| - delta / 2)``.

    An adaptive delta is the weighted median of ``|y - f|`` at the present f. mboost's
    ignores the weights, is one step late in the gradient, and starts from the last fit
    with the same object. The offset is the minimiser; mboost's search for it stops at a
    distance of 1e-4. With an adaptive delta it is the M-estimate for delta equal to the
    median absolute deviation from the median; mboost's delta there is the median of
    ``|y|``.

    Parameters
    ----------
    delta : float, optional
        Positive. Default: adaptive.

    See Also
    --------
    Gaussian, Laplace

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> families.Huber(1.0).offset(np.array([0.0, 1.0, 2.0, 101.0]), None)
    1.5
    """

    name = "huber"
    effect_on = "the location"
    parameter_name = "delta"
    nuisance_in_cuda = "median"
    delta: float | None = None

    @property
    def has_one_loss(self) -> bool:
        return not self.adaptive

    def offset(self, y: Array, w: Array | None) -> float:
        median = float(weighted_quantile(y, w))
        delta = float(self.nuisance(y, median, w))
        if delta == 0:
            if float(weighted_sum(abs(y - median), w)) > 0:
                raise ValueError(
                    "delta of Huber must be given if more than half of y are equal: "
                    f"their median distance from the median {median} is 0"
                )
            return median
        ends = float(y.min()), float(y.max())
        return self.zero_of_gradient(y * 0, y, w, *ends, s=delta)

    def estimate(self, y: Array, f: Array, w: Array | None) -> Array:
        return weighted_quantile(abs(y - f), w)

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        return namespace(y).clip(y - f, -s, s)

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        distance = abs(y - f)
        near = namespace(y).minimum(distance, s)
        return near * (distance - near / 2)

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        xp, distance = namespace(y), abs(y - f)
        return s / xp.maximum(xp.maximum(distance, s), np.finfo(np.float64).tiny)


# ---- yes or no -----------------------------------------------------------------------


@dataclass(frozen=True)
class Binomial(ClassFamily):
    """The negative log likelihood of a response that is 0 or 1.

    With the half logit, mboost's default, ``P(y = 1) = 1 / (1 + exp(-2 f))``, and the
    gradient is divided by log 2, unlike the loss. With the logit, mboost's type "glm",
    ``P(y = 1) = 1 / (1 + exp(-f))``. The offset is the (half) logit of the weighted
    mean. mboost's offset for the logit is the logit of the mean of ``(y + 1/2) / 2``,
    which ignores the weights.

    If all rows with weight are of one class, the mean is taken to be half a row away
    from it, so that a fold without one class has a finite offset.

    Parameters
    ----------
    link : {"half_logit", "logit"}, optional

    See Also
    --------
    Multinomial, PropOdds

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> families.Binomial("logit").offset(np.array([0.0, 0.0, 1.0, 1.0]), None)
    0.0
    """

    name = "binomial"
    criteria = ("aic",)
    scipy_law = staticmethod(lambda stats, mean, _: stats.bernoulli(mean))
    link: str = "half_logit"

    TYPES: ClassVar[dict[str, str]] = {
        "half_logit": "BinomialHalfLogit",
        "logit": "BinomialLogit",
    }

    def __post_init__(self) -> None:
        check_choice("link", self.link, list(self.TYPES))

    def check(self, y: Array) -> None:
        if not bool(((y == 0) | (y == 1)).all()):
            raise ValueError("y of the binomial family must be 0 or 1, got others")
        if bool((y == y[..., :1]).all()):
            raise ValueError(
                "y of the binomial family must have both classes, got only "
                f"{float(y.min())}"
            )

    def offset(self, y: Array, w: Array | None) -> float:
        yes, no = at_least_half_a_row(y, w), at_least_half_a_row(1 - y, w)
        return math.log(yes / no) / self._scale

    def offset_from(self, start: Array, y: Array, w: Array | None) -> float:
        ends = -FARTHEST - float(start.max()), FARTHEST - float(start.min())
        return self.zero_of_gradient(start, y, w, *ends)

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        scale, sign = self._scale, 2 * y - 1
        u = scale * sign * special(f).expit(-scale * sign * f)
        return u / math.log(2) if scale == 2 else u

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        return softplus(-self._scale * (2 * y - 1) * f)

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        return self._scale * abs(self.gradient(y, f, s)) / 2

    def information(self, f: Array) -> Array:
        scale, expit = self._scale, special(f).expit
        return scale**2 * expit(scale * f) * expit(-scale * f)

    def least_loss(self, y: Array, s: Array) -> Array:
        return y * 0

    def response(self, f: Array) -> Array:
        return namespace(f).exp(-softplus(-self._scale * f))

    @property
    def effect_on(self) -> str:
        return f"the {self.link.replace('_', ' ')}"

    def responses(self, codes: NDArray[np.intp], count: int) -> NDArray[np.float64]:
        """Each class against the rest; of two classes, the second."""
        indicators = (codes == np.arange(count)[:, None]).astype(np.float64)
        return np.asarray(indicators if count > 2 else indicators[1])

    def log_probabilities(self, f: Array, s: Array) -> Array:
        xp = namespace(f)
        if len(f) == 1:
            return xp.stack([-self.loss(y, f[0], s) for y in (0.0, 1.0)], axis=1)
        odds = -self.loss(1.0, f, s).T
        odds = odds - odds.max(axis=1, keepdims=True)
        return odds - xp.log(xp.exp(odds).sum(axis=1, keepdims=True))

    def most_probable(self, f: Array, s: Array) -> NDArray[np.intp]:
        links = on_host(f)
        return np.asarray(
            (links[0] > 0).astype(np.intp) if len(f) == 1 else links.argmax(axis=0)
        )

    @property
    def _scale(self) -> int:
        """The logit is this times f."""
        return 2 if self.link == "half_logit" else 1

    @property
    def cuda(self) -> CudaFamily:
        return super().cuda._replace(type=self.TYPES[self.link])


# ---- positive responses --------------------------------------------------------------


@dataclass(frozen=True)
class Gamma(AdaptiveFamily, LogLink):
    """The negative log likelihood of positive numbers with mean ``exp(f)``.

    The loss leaves out ``log y``, as mboost does. An adaptive shape maximises the
    weighted likelihood at the present f, within 1e-8 and 1e8. mboost searches between 0
    and 100, up to 1e-4, and computes the risk with the shape of the previous step, and
    with 1 in the first step.
    The offset is the log of the weighted mean, whatever the shape is; mboost searches
    for it between 0 and the square of the largest y, so that it is about 0 if the mean
    is below 1.

    The gradient is proportional to the shape. If the shape is large, because y is
    nearly determined, mboost's steps are stable only if ``learning_rate * shape`` is
    below 2: scale the steps, or give a shape of 1.

    Parameters
    ----------
    shape : float, optional
        Positive. Default: adaptive.

    See Also
    --------
    Tweedie, gpusolve.gam.distributions.Gamma

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> families.Gamma(shape=2.0).offset(np.array([0.5, 1.0, 1.5]), None)
    0.0
    """

    name = "gamma"
    scipy_law = staticmethod(
        lambda stats, mean, shape: stats.gamma(shape, scale=mean / shape)
    )
    parameter_name = "shape"
    nuisance_in_cuda = "shape"
    shape: float | None = None

    def check(self, y: Array) -> None:
        if not bool((y > 0).all()):
            raise ValueError(
                f"y of the gamma family must be positive, got {float(y.min())}"
            )

    def offset_from(self, start: Array, y: Array, w: Array | None) -> float:
        return self.offset(y / namespace(start).exp(start), w)

    def estimate(self, y: Array, f: Array, w: Array | None) -> Array:
        return gamma_shape(float(weighted_mean(_gamma_term(y, f), w)))

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        with np.errstate(over="ignore"):
            return s * namespace(f).expm1(namespace(y).log(y) - f)

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        constant = stirling_error(s) - 0.5 * namespace(s).log(s) + HALF_LOG_TWO_PI
        return s * _gamma_term(y, f) + constant

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        return s * (1 + exp_of(namespace(y).log(y) - f)) / 2


# ---- by name -------------------------------------------------------------------------

OtherName = Literal[
    "gaussian", "laplace", "quantile", "expectile", "huber", "poisson",
    "negative_binomial", "hurdle", "gamma", "tweedie", "coxph", "weibull",
    "log_logistic", "log_normal",
]  # fmt: skip
ClassName = Literal["binomial", "multinomial", "prop_odds"]
FAMILIES: Mapping[str, type[Family]] = {
    family.name: family
    for family in (
        Gaussian, Laplace, Quantile, Expectile, Huber, Binomial, Multinomial, PropOdds,
        Poisson, NegativeBinomial, Hurdle, Gamma, Tweedie, CoxPH, Weibull, LogLogistic,
        LogNormal,
    )
}  # fmt: skip
"""The families that have names."""


def family_of(family: str | Family) -> Family:
    """The family of a name, with its default parameters; a family as it is.

    See Also
    --------
    Family

    Examples
    --------
    >>> family_of("huber")
    Huber(delta=None)
    """
    return family_in(FAMILIES, family, Family)  # type: ignore[type-abstract]


# ---- parts ---------------------------------------------------------------------------


def _gamma_term(y: Array, f: Array) -> Array:
    """``exp(d) - 1 - d`` with ``d = log y - f``."""
    d = namespace(y).log(y) - f
    with np.errstate(over="ignore"):
        return namespace(d).expm1(d) - d


def gamma_shape(mean: float) -> np.float64:
    """The shape s with ``log s - digamma(s) = mean``.

    The left side is between ``1 / (2 s)`` and ``1 / s``.
    """
    target = min(max(mean, 0.5 * LEAST), MOST)

    def derivatives(s: float) -> tuple[float, float]:
        slope = s * float(log_minus_digamma(np.float64(s)) - target)
        return slope, slope - s * s * float(trigamma_minus_inverse(np.float64(s)))

    return np.float64(most_likely(0.5 / target, derivatives))


# Stored models and pickles name the public module, also after a class has moved.
for _public in (Baseline, *(globals()[_name] for _name in set(__all__) - {"FAMILIES"})):
    _public.__module__ = __name__
