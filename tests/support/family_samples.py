"""One response of every family, with smooth and linear effects."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

from gpusolve.gam.families import (
    Binomial,
    Expectile,
    Family,
    Gamma,
    Gaussian,
    Huber,
    Hurdle,
    Laplace,
    NegativeBinomial,
    Poisson,
    PropOdds,
    Quantile,
    Tweedie,
)

EVERY_FAMILY = (
    Gaussian(),
    Laplace(),
    Quantile(0.8),
    Expectile(0.3),
    Huber(),
    Huber(0.5),
    Binomial(),
    Binomial("logit"),
    Poisson(),
    NegativeBinomial(),
    NegativeBinomial(2.0),
    Gamma(),
    Gamma(2.0),
    Hurdle(),
    Hurdle(2.0),
    Tweedie(),
    PropOdds(4),
)


def sample(
    family: Family, n: int = 200, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Covariates, (n, 3), of which the last is noise, and a response, (n,)."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    f = 0.7 * np.sin(6 * X[:, 0]) + X[:, 1] - 0.3
    if family.name == "binomial":
        return X, (rng.random(n) < expit(2 * f)).astype(np.float64)
    if family.name == "poisson":
        return X, rng.poisson(np.exp(f)).astype(np.float64)
    if family.name == "negative_binomial":
        mixed = np.exp(f) * rng.gamma(2, 1 / 2, n)
        return X, rng.poisson(mixed).astype(np.float64)
    if family.name == "prop_odds":
        return X, np.digitize(f + rng.logistic(size=n), [-1, 0.5, 2]).astype(np.float64)
    if family.name == "hurdle":
        above = stats.nbinom.sf(0, 2, 2 / (2 + np.exp(f)))
        rank = 1 - above * rng.random(n)
        return X, stats.nbinom.ppf(rank, 2, 2 / (2 + np.exp(f)))
    if family.name == "tweedie":
        return X, np.exp(f) * rng.gamma(6, 1 / 6, n) * rng.poisson(4, n) / 4
    if family.name == "gamma":
        return X, np.exp(f) * rng.gamma(3, 1 / 3, n)
    return X, f + 0.3 * rng.standard_normal(n)
