"""Distributions whose parameters all have additive predictors.

Boosting them is distributional regression, as in R's gamboostLSS: not only the mean but
also the spread, the shape or the share of zeros depend on the covariates. The loss is
the negative logarithm of the density, so that a risk is minus a log likelihood.

Every function takes NumPy or CuPy arrays. f has a row for each parameter, (P, n). The
same functions for a device are in ``distributions.cuh``.

References
----------
Rigby & Stasinopoulos, "Generalized additive models for location, scale and shape"
(2005); Mayr, Fenske, Hofner, Kneib & Schmid, "Generalized additive models for location,
scale and shape for high dimensional data: a flexible approach based on boosting"
(2012); Thomas, Mayr, Bischl, Schmid, Smith & Hofner, "Gradient boosting for
distributional regression: faster tuning and improved variable selection via noncyclical
updates" (2018).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, namespace, on_host
from . import families
from ._data.conventions import check_choice
from ._families.family import (
    CoupledFamily,
    CudaFamily,
    exp_of,
    family_in,
    is_constant,
)
from ._families.numerics import (
    HALF_LOG_TWO_PI,
    log_minus_digamma,
    special,
    stirling_error,
    trigamma_minus_inverse,
    weighted_mean,
    weighted_sum,
)

__all__ = [
    "DISTRIBUTIONS",
    "Beta",
    "Distribution",
    "Gamma",
    "Gaussian",
    "NegativeBinomial",
    "StudentT",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
    "distribution_of",
]

Link = Literal["identity", "log", "logit"]
DistributionUpdate = Literal["noncyclic", "cyclic"]

SEARCH = 10.0
"""How far from the first guess the best constant of a predictor may be; for a mean on
its own scale, in standard deviations."""

LEAST_CURVATURE = 0.1
"""The least curvature of parameters about which some data say nothing."""

LEAST_SHARE = 1e-3
"""The least first guess of a share, and of its distance from 1."""


INVERSE_LINKS: Mapping[Link, Callable[[Array], Array]] = {
    "identity": lambda f: f,
    "log": exp_of,
    "logit": lambda f: special(f).expit(f),
}
"""The parameters with these predictors."""


@dataclass(frozen=True)
class Distribution(CoupledFamily):
    """A distribution, each of whose parameters has an additive predictor.

    Parameters
    ----------
    update : {"noncyclic", "cyclic"}, optional
        The parameter that an iteration updates: the parameter whose best learner
        reduces the risk most, or the parameters in turn.

    See Also
    --------
    distribution_of, gpusolve.gam.BoostedDistribution

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import distributions
    >>> family = distributions.Gaussian()
    >>> list(family.links.items())
    [('mu', 'identity'), ('sigma', 'log')]
    """

    update: DistributionUpdate = "noncyclic"

    links: ClassVar[Mapping[str, Link]]
    """The names of the parameters, and the functions of them that are additive."""

    def __post_init__(self) -> None:
        check_choice("update", self.update, get_args(DistributionUpdate))

    @property
    def predictors(self) -> int:
        return len(self.links)

    @property
    def cuda(self) -> CudaFamily:
        found = super().cuda
        return found._replace(type=f"distributions::{found.type}")

    def parameters(self, f: Array) -> dict[str, Array]:
        """The parameters by name, from their predictors, (P, n)."""
        pairs = zip(self.links.items(), f, strict=True)
        return {name: INVERSE_LINKS[link](own) for (name, link), own in pairs}

    def response(self, f: Array) -> Array:
        """The mean, (n,)."""
        return self.parameters(f)["mu"]

    is_discrete: ClassVar[bool] = False
    """Whether the likelihood of equal y is bounded."""

    def check(self, y: Array) -> None:
        if is_constant(y):
            raise ValueError(
                f"y of the {self.name} distribution must not be constant, got only "
                f"{float(y.max()):g} (n_samples={len(y)}): no parameters have the "
                "largest likelihood"
            )

    needs = "different y in the bag"

    def suffices(self, y: Array, in_bag: bool) -> bool:
        return self.is_discrete or not in_bag or not is_constant(y)

    def offset(self, y: Array, w: Array | None) -> Any:
        """The constants of maximum likelihood."""
        return self.offset_from(namespace(y).zeros((self.predictors, 1)), y, w)

    def offset_from(self, start: Array, y: Array, w: Array | None) -> Any:
        """The constants of maximum likelihood in addition to `start`, (P, n)."""
        from scipy.optimize import minimize

        xp = namespace(y)
        total = float(len(y) if w is None else w.sum())
        every = xp.broadcast_to(start, (self.predictors, len(y)))
        added, unit = on_host(weighted_mean(every, w)).ravel(), np.ones(self.predictors)
        moved = y
        if next(iter(self.links.values())) == "identity":
            moved, added[0] = y - start[0], 0.0
            unit[0] = moments(moved, w)[1] ** 0.5
        guess = np.array(self.guess(moved, w), np.float64) - added

        def mean_loss(distance: NDArray[np.float64]) -> tuple[float, Any]:
            f = start + xp.asarray(guess + unit * distance)[:, None]
            with np.errstate(all="ignore"):
                slopes = weighted_sum(self.gradient(y, f, None) + 0 * y, w)
                loss = float(weighted_sum(self.loss(y, f, None), w))
            return loss / total, -unit * on_host(slopes).ravel() / total

        none, exact = np.zeros(len(guess)), {"ftol": 0.0, "gtol": 1e-9}
        bounds = [(-SEARCH, SEARCH)] * len(guess)
        found = minimize(
            mean_loss, none, jac=True, method="L-BFGS-B", bounds=bounds, options=exact
        )
        return guess + unit * np.asarray(found.x)

    def finest_loss(self, y: Array) -> float:
        """The loss of a density that is constant over the rounding of y.

        Without noise, the density of y has no bound. Losses of counts are positive.
        """
        rounding = np.finfo(float).eps * float(abs(y).max())
        return float(np.log(max(rounding, np.finfo(float).tiny)))

    @abstractmethod
    def guess(self, y: Array, w: Array | None) -> tuple[float, ...]:
        """Constant predictors near the best constants, from moments of y."""

    scipy_law: ClassVar[Callable[..., Any]]
    """The distribution in ``scipy.stats``, from this module and the parameters."""

    def frozen(self, parameters: Mapping[str, NDArray[np.float64]]) -> Any:
        """The distribution in SciPy, with ``ppf`` and ``cdf``, on the host."""
        from scipy import stats

        return self.scipy_law(stats, **parameters)


def moments(y: Array, w: Array | None) -> tuple[float, float]:
    """The weighted mean, and the weighted variance, at least a rounding error."""
    mean = float(weighted_mean(y, w))
    variance = float(weighted_mean((y - mean) ** 2, w))
    return mean, max(variance, np.finfo(float).eps * (mean**2 + 1))


def stacked(*parts: Array) -> Array:
    """Values of each predictor, (P, .., n)."""
    xp = namespace(parts[0])
    return xp.stack(xp.broadcast_arrays(*parts))


def squared(gradient: Array) -> Array:
    """The curvature whose mean is the information: the square of the gradient."""
    return namespace(gradient).maximum(gradient * gradient, LEAST_CURVATURE)


# ---- real responses ------------------------------------------------------------------


@dataclass(frozen=True)
class Gaussian(Distribution):
    """The normal distribution with mean mu and standard deviation sigma.

    See Also
    --------
    StudentT, gpusolve.gam.families.Gaussian

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import distributions
    >>> family = distributions.Gaussian()
    >>> f = family.offset(np.array([1.0, 2.0, 3.0]), None)
    >>> family.parameters(f)["sigma"].round(3)
    np.float64(0.816)
    """

    name = "gaussian"
    links = {"mu": "identity", "sigma": "log"}  # noqa: RUF012
    scipy_law = staticmethod(lambda stats, mu, sigma: stats.norm(mu, sigma))

    def guess(self, y: Array, w: Array | None) -> tuple[float, ...]:
        mean, variance = moments(y, w)
        return mean, 0.5 * float(np.log(variance))

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        xp, (mu, log_sigma) = namespace(f), f
        scale = xp.exp(-log_sigma)
        z = (y - mu) * scale
        return stacked(z * scale, z * z - 1)

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        xp, (mu, log_sigma) = namespace(f), f
        scale = xp.exp(-log_sigma)
        z = (y - mu) * scale
        return stacked(scale * scale, z * z + 1)

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        mu, log_sigma = f
        z = (y - mu) * namespace(f).exp(-log_sigma)
        return z * z / 2 + log_sigma + HALF_LOG_TWO_PI


@dataclass(frozen=True)
class StudentT(Distribution):
    """Student's t distribution around mu, with the scale sigma and df.

    The response is mu, which is the mean if df is above 1.

    See Also
    --------
    Gaussian

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import distributions
    >>> family = distributions.StudentT()
    >>> list(family.links)
    ['mu', 'sigma', 'df']
    """

    name = "student_t"
    links = {"mu": "identity", "sigma": "log", "df": "log"}  # noqa: RUF012
    scipy_law = staticmethod(lambda stats, mu, sigma, df: stats.t(df, mu, sigma))

    def guess(self, y: Array, w: Array | None) -> tuple[float, ...]:
        mean, variance = moments(y, w)
        return mean, 0.5 * float(np.log(variance / 2)), float(np.log(4))

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        xp, (mu, log_sigma, log_df) = namespace(f), f
        scale, df = xp.exp(-log_sigma), xp.exp(log_df)
        z = (y - mu) * scale
        pull = (df + 1) / (df + z * z)
        of_gamma = log_minus_digamma(df / 2) - log_minus_digamma((df + 1) / 2)
        parts = xp.log1p(1 / df) + of_gamma - 1 / df - xp.log1p(z * z / df)
        slope = (df * parts + pull * z * z) / 2
        return stacked(pull * z * scale, pull * z * z - 1, slope)

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        xp, (mu, log_sigma, log_df) = namespace(f), f
        scale, df = xp.exp(-log_sigma), xp.exp(log_df)
        z = (y - mu) * scale
        pull = (df + 1) / (df + z * z)
        slope = self.gradient(y, f, s)[2]
        return stacked(pull * scale * scale, pull * z * z + 1, squared(slope))

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        xp, (mu, log_sigma, log_df) = namespace(f), f
        df = xp.exp(log_df)
        z = (y - mu) * xp.exp(-log_sigma)
        of_gamma = stirling_error(df / 2) - stirling_error((df + 1) / 2)
        constant = (1 - df * xp.log1p(1 / df)) / 2 + of_gamma + HALF_LOG_TWO_PI
        return constant + log_sigma + (df + 1) / 2 * xp.log1p(z * z / df)


# ---- positive responses, and shares --------------------------------------------------


@dataclass(frozen=True)
class Gamma(Distribution):
    """The gamma distribution with mean mu and variance ``mu^2 / shape``.

    See Also
    --------
    Gaussian, gpusolve.gam.families.Gamma

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import distributions
    >>> family = distributions.Gamma()
    >>> f = family.offset(np.array([1.0, 2.0, 3.0]), None)
    >>> family.parameters(f)["mu"].round(3)
    np.float64(2.0)
    """

    name = "gamma"
    links = {"mu": "log", "shape": "log"}  # noqa: RUF012
    scipy_law = staticmethod(
        lambda stats, mu, shape: stats.gamma(shape, scale=mu / shape)
    )

    def check(self, y: Array) -> None:
        families.Gamma().check(y)
        super().check(y)

    def guess(self, y: Array, w: Array | None) -> tuple[float, ...]:
        mean, variance = moments(y, w)
        return float(np.log(mean)), float(np.log(mean**2 / variance))

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        xp, (log_mu, log_shape) = namespace(f), f
        shape = xp.exp(log_shape)
        of_mean = families.Gamma(1.0).gradient(y, log_mu, 1.0)  # exp(d) - 1
        d = xp.log(y) - log_mu
        slope = log_minus_digamma(shape) - (of_mean - d)
        return stacked(shape * of_mean, shape * slope)

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        log_mu, log_shape = f
        shape = namespace(f).exp(log_shape)
        of_mean = families.Gamma().curvature(y, log_mu, shape)
        return stacked(of_mean, shape * shape * trigamma_minus_inverse(shape))

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        xp, (log_mu, log_shape) = namespace(f), f
        return families.Gamma().loss(y, log_mu, xp.exp(log_shape)) + xp.log(y)


@dataclass(frozen=True)
class Beta(Distribution):
    """The beta distribution with mean mu and variance ``mu (1 - mu) / (1 + phi)``.

    See Also
    --------
    Gaussian, distribution_of

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import distributions
    >>> family = distributions.Beta()
    >>> family.parameters(family.offset(np.array([0.1, 0.2, 0.3]), None)).keys()
    dict_keys(['mu', 'phi'])
    """

    name = "beta"
    links = {"mu": "logit", "phi": "log"}  # noqa: RUF012
    scipy_law = staticmethod(
        lambda stats, mu, phi: stats.beta(mu * phi, (1 - mu) * phi)
    )

    def check(self, y: Array) -> None:
        inside = (y > 0) & (y < 1)
        if not bool(inside.all()):
            raise ValueError(
                "y of the beta family must be between 0 and 1, without them, got "
                f"{float(y[~inside][0])}"
            )
        super().check(y)

    def guess(self, y: Array, w: Array | None) -> tuple[float, ...]:
        mean, variance = moments(y, w)
        phi = max(mean * (1 - mean) / variance - 1, LEAST_SHARE)
        return float(np.log(mean / (1 - mean))), float(np.log(phi))

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        xp, (logit_mu, log_phi) = namespace(f), f
        expit, phi = special(f).expit, xp.exp(log_phi)
        mu, rest = expit(logit_mu), expit(-logit_mu)
        log_mu, log_rest = -xp.logaddexp(0, -logit_mu), -xp.logaddexp(0, logit_mu)
        first = xp.log(y) - log_mu + log_minus_digamma(mu * phi)
        second = xp.log1p(-y) - log_rest + log_minus_digamma(rest * phi)
        of_mean = phi * mu * rest * (first - second)
        of_phi = phi * (mu * first + rest * second - log_minus_digamma(phi))
        return stacked(of_mean, of_phi)

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        xp, (logit_mu, log_phi) = namespace(f), f
        expit, phi = special(f).expit, xp.exp(log_phi)
        mu, rest = expit(logit_mu), expit(-logit_mu)
        first = trigamma_minus_inverse(mu * phi)
        second = trigamma_minus_inverse(rest * phi)
        both, product = mu * mu * first + rest * rest * second, phi * mu * rest
        of_mean = product * product * (first + second) + product
        return stacked(of_mean, phi * phi * (both - trigamma_minus_inverse(phi)))

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        xp, (logit_mu, log_phi) = namespace(f), f
        expit, phi = special(f).expit, xp.exp(log_phi)
        a, b = phi * expit(logit_mu), phi * expit(-logit_mu)
        log_mu, log_rest = -xp.logaddexp(0, -logit_mu), -xp.logaddexp(0, logit_mu)
        log_y, log_not_y = xp.log(y), xp.log1p(-y)
        distance = a * (log_mu - log_y) + b * (log_rest - log_not_y)
        constant = HALF_LOG_TWO_PI - (log_phi + log_mu + log_rest) / 2
        remainder = stirling_error(a) + stirling_error(b) - stirling_error(phi)
        return distance + constant + remainder + log_y + log_not_y


# ---- counts --------------------------------------------------------------------------


@dataclass(frozen=True)
class NegativeBinomial(Distribution):
    """The negative binomial distribution with variance ``mu + mu^2 / theta``.

    See Also
    --------
    ZeroInflatedNegativeBinomial, gpusolve.gam.families.NegativeBinomial

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import distributions
    >>> family = distributions.NegativeBinomial()
    >>> f = family.offset(np.array([0.0, 1.0, 8.0]), None)
    >>> family.parameters(f)["mu"].round(3)
    np.float64(3.0)
    """

    name = "negative_binomial"
    is_discrete = True
    links = {"mu": "log", "theta": "log"}  # noqa: RUF012
    scipy_law = staticmethod(
        lambda stats, mu, theta: stats.nbinom(theta, theta / (theta + mu))
    )

    def check(self, y: Array) -> None:
        families.NegativeBinomial().check(y)
        super().check(y)

    def guess(self, y: Array, w: Array | None) -> tuple[float, ...]:
        mean, variance = moments(y, w)
        excess = max(variance - mean, LEAST_SHARE * mean)
        return float(np.log(mean)), float(np.log(mean**2 / excess))

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        xp, (log_mu, log_theta) = namespace(f), f
        expit, theta, z = special(f).expit, xp.exp(log_theta), log_mu - log_theta
        of_mean = families.NegativeBinomial().gradient(y, log_mu, theta)
        r = y / theta * expit(-z) - expit(z)  # (y - mu) / (theta + mu)
        of_gamma = log_minus_digamma(theta) - log_minus_digamma(theta + y)
        slope = xp.log1p(y / theta) - xp.logaddexp(0, z) - r + of_gamma
        return stacked(of_mean, theta * slope)

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        log_mu, log_theta = f
        theta = namespace(f).exp(log_theta)
        of_mean = families.NegativeBinomial().curvature(y, log_mu, theta)
        return stacked(of_mean, squared(self.gradient(y, f, s)[1]))

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        log_mu, log_theta = f
        theta = namespace(f).exp(log_theta)
        return families.NegativeBinomial().loss(y, log_mu, theta)


@dataclass(frozen=True)
class _Poisson(Distribution):
    """Poisson's distribution with mean mu, which has zeros added."""

    name = "poisson"
    links = {"mu": "log"}  # noqa: RUF012
    scipy_law = staticmethod(lambda stats, mu: stats.poisson(mu))

    def guess(self, y: Array, w: Array | None) -> tuple[float, ...]:
        return (families.Poisson().offset(y, w),)

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        return families.Poisson().gradient(y, f, s)

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        return families.Poisson().curvature(y, f, s)

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        return families.Poisson().loss(y, f[0], s)


class _ZeroInflated(Distribution):
    """A distribution of counts, with further zeros: their share is `zero`.

    The last predictor is the logit of this share, the others are the predictors of the
    counts.
    """

    counted: ClassVar[Distribution]
    """The distribution of the counts."""

    is_discrete = True

    def check(self, y: Array) -> None:
        families.Poisson().check(y)
        super().check(y)

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        xp, expit, logit = namespace(f), special(f).expit, f[-1]
        loss = self.counted.loss(y, f[:-1], s)
        is_extra = xp.where(y == 0, expit(logit + loss), 0)  # P(not a count | y)
        is_count = xp.where(y == 0, expit(-logit - loss), 1)
        of_counts = self.counted.gradient(y, f[:-1], s)
        of_share = is_extra - expit(logit)
        return stacked(*(is_count * own for own in of_counts), of_share)

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        xp, expit, logit = namespace(f), special(f).expit, f[-1]
        loss = self.counted.loss(y, f[:-1], s)
        is_count = xp.where(y == 0, expit(-logit - loss), 1)
        of_counts = self.counted.curvature(y, f[:-1], s)
        of_share = expit(logit) * expit(-logit)
        return stacked(*(is_count * own for own in of_counts), of_share)

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        xp, logit = namespace(f), f[-1]
        loss = self.counted.loss(y, f[:-1], s)
        own = xp.where(y == 0, -xp.logaddexp(logit, -loss), loss)
        return own + xp.logaddexp(0, logit)

    def response(self, f: Array) -> Array:
        found = self.parameters(f)
        return (1 - found["zero"]) * found["mu"]

    def frozen(self, parameters: Mapping[str, NDArray[np.float64]]) -> Any:
        of_counts = {name: parameters[name] for name in self.counted.links}
        return WithZeros(self.counted.frozen(of_counts), parameters["zero"])


@dataclass(frozen=True)
class WithZeros:
    """Counts of a distribution in SciPy, with a share of further zeros."""

    counts: Any
    zero: NDArray[np.float64]

    def cdf(self, y: Any) -> NDArray[np.float64]:
        """The probability of at most y."""
        share = self.zero + (1 - self.zero) * self.counts.cdf(y)
        return np.where(np.asarray(y) < 0, 0.0, share)

    def sf(self, y: Any) -> NDArray[np.float64]:
        return np.asarray((1 - self.zero) * self.counts.sf(y))

    def pmf(self, y: Any) -> NDArray[np.float64]:
        own = (1 - self.zero) * self.counts.pmf(y)
        return np.asarray(np.where(np.asarray(y) == 0, self.zero, 0) + own)

    def ppf(self, q: Any) -> NDArray[np.float64]:
        """The least count whose probability, with all below, is at least q."""
        rest = np.clip((q - self.zero) / (1 - self.zero), 0, 1)
        return np.asarray(np.maximum(self.counts.ppf(rest), 0))


@dataclass(frozen=True)
class ZeroInflatedPoisson(_ZeroInflated):
    """Poisson counts of mean mu, with a share `zero` of further zeros.

    See Also
    --------
    ZeroInflatedNegativeBinomial, gpusolve.gam.families.Hurdle

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import distributions
    >>> family = distributions.ZeroInflatedPoisson()
    >>> family.response(np.zeros(2))
    np.float64(0.5)
    """

    name = "zero_inflated_poisson"
    links = {"mu": "log", "zero": "logit"}  # noqa: RUF012
    counted = _Poisson()

    def guess(self, y: Array, w: Array | None) -> tuple[float, ...]:
        mean, variance = moments(y, w)
        share = np.clip((variance - mean) / (variance - mean + mean**2), 0.05, 0.95)
        return float(np.log(mean / (1 - share))), float(np.log(share / (1 - share)))


@dataclass(frozen=True)
class ZeroInflatedNegativeBinomial(_ZeroInflated):
    """Negative binomial counts, with a share `zero` of further zeros.

    The counts have the mean mu and the variance ``mu + mu^2 / theta``.

    See Also
    --------
    NegativeBinomial, ZeroInflatedPoisson

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import distributions
    >>> family = distributions.ZeroInflatedNegativeBinomial()
    >>> list(family.links)
    ['mu', 'theta', 'zero']
    """

    name = "zero_inflated_negative_binomial"
    links = {"mu": "log", "theta": "log", "zero": "logit"}  # noqa: RUF012
    counted = NegativeBinomial()

    def guess(self, y: Array, w: Array | None) -> tuple[float, ...]:
        log_mu, logit = ZeroInflatedPoisson().guess(y, w)
        return log_mu, 0.0, logit


# ---- by name -------------------------------------------------------------------------

DISTRIBUTIONS: Mapping[str, type[Distribution]] = {
    distribution.name: distribution
    for distribution in (
        Gaussian, StudentT, Gamma, Beta, NegativeBinomial, ZeroInflatedPoisson,
        ZeroInflatedNegativeBinomial,
    )
}  # fmt: skip
"""The distributions that have names."""


def distribution_of(family: Any) -> Distribution:
    """The distribution of a name; a distribution as it is.

    See Also
    --------
    Distribution

    Examples
    --------
    >>> distribution_of("gamma")
    Gamma(update='noncyclic')
    """
    return family_in(DISTRIBUTIONS, family, Distribution)  # type: ignore[type-abstract]
