"""Distributions and classes: densities, gradients, curvatures, constants, quantiles.

The oracles are scipy.stats for densities and quantiles, and finite differences for
gradients.
"""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from gpusolve.gam import distributions
from gpusolve.gam._families.family import CoupledFamily
from gpusolve.gam.distributions import DISTRIBUTIONS, distribution_of
from gpusolve.gam.families import FAMILIES, CoupledName, FamilyName, Multinomial

Floats = NDArray[np.float64]

NAMES = list(DISTRIBUTIONS)


def response(name: str, n: int, seed: int = 0) -> Floats:
    """Responses that are possible for a distribution."""
    rng = np.random.default_rng(seed)
    if name == "beta":
        return rng.beta(2, 5, n)
    if name == "gamma":
        return rng.gamma(3, 2, n)
    if name in ("gaussian", "student_t"):
        return 1 + 2 * rng.standard_t(4, n)
    counts = (
        rng.poisson(3, n) if "poisson" in name else rng.negative_binomial(2, 0.3, n)
    )
    return counts * (rng.random(n) < 0.7) + 0.0


def log_density(name: str, y: Floats, given: dict[str, Floats]) -> Floats:
    """The logarithm of the density or probability, by scipy.stats."""
    mu, zero = given["mu"], given.get("zero", np.float64(0))
    found: Any
    if name == "gaussian":
        return stats.norm.logpdf(y, mu, given["sigma"])
    if name == "student_t":
        return stats.t.logpdf(y, given["df"], mu, given["sigma"])
    if name == "gamma":
        return stats.gamma.logpdf(y, given["shape"], scale=mu / given["shape"])
    if name == "beta":
        return stats.beta.logpdf(y, mu * given["phi"], (1 - mu) * given["phi"])
    if "poisson" in name:
        found = stats.poisson.pmf(y, mu)
    else:
        found = stats.nbinom.pmf(
            y, given["theta"], given["theta"] / (given["theta"] + mu)
        )
    return np.log(zero * (y == 0) + (1 - zero) * found)


def near_constants(family: CoupledFamily, y: Floats) -> Floats:
    """Predictors around the best constants, (P, n)."""
    rng = np.random.default_rng(1)
    constants = family.offset(y, None)[:, None]
    return constants + 0.4 * rng.standard_normal((family.predictors, len(y)))


def coupled(name: str) -> tuple[CoupledFamily, Floats]:
    if name == "multinomial":
        return Multinomial(4), np.random.default_rng(0).integers(0, 4, 100) + 0.0
    return distribution_of(name), response(name, 100)


# ---- losses --------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_is_minus_the_log_density(name: str) -> None:
    family, y = distribution_of(name), response(name, 200)
    f = near_constants(family, y)
    expected = -log_density(name, y, family.parameters(f))
    np.testing.assert_allclose(family.loss(y, f, None), expected, rtol=1e-9)


def test_the_multinomial_loss_is_minus_the_log_probability() -> None:
    family, y = coupled("multinomial")
    f = near_constants(family, y)
    p = np.exp(f) / np.exp(f).sum(axis=0)
    own = p[y.astype(int), np.arange(len(y))]
    np.testing.assert_allclose(family.loss(y, f, None), -np.log(own), rtol=1e-12)
    np.testing.assert_allclose(family.response(f), p, rtol=1e-12)


@pytest.mark.parametrize("name", [*NAMES, "multinomial"])
def test_gradients_by_finite_differences(name: str) -> None:
    family, y = coupled(name)
    f, h = near_constants(family, y), 1e-6
    found = family.gradient(y, f, None)
    assert found.shape == f.shape
    for p in range(family.predictors):
        step = np.zeros_like(f)
        step[p] = h
        slope = (family.loss(y, f + step, None) - family.loss(y, f - step, None)) / (
            2 * h
        )
        np.testing.assert_allclose(found[p], -slope, rtol=1e-6, atol=2e-8)


@pytest.mark.parametrize("name", ["gaussian", "gamma", "beta", "zero_inflated_poisson"])
def test_the_mean_curvature_is_the_information_or_more(name: str) -> None:
    # A large sample of the model: the second derivatives of the mean loss.
    family = distribution_of(name)
    y = response(name, 4000)
    f = np.tile(family.offset(y, None)[:, None], len(y))
    found, h = family.curvature(y, f, None).mean(axis=1), 1e-4
    for p in range(family.predictors):
        step = np.zeros_like(f)
        step[p] = h
        slopes = [family.gradient(y, f + s, None)[p].mean() for s in (step, -step)]
        information = (slopes[1] - slopes[0]) / (2 * h)
        assert found[p] > 0.9 * information > 0
        if name != "zero_inflated_poisson":
            assert found[p] < 1.7 * information


@pytest.mark.parametrize("name", [*NAMES, "multinomial"])
def test_losses_and_curvatures_far_from_the_data_are_finite(name: str) -> None:
    family, y = coupled(name)
    for p in range(family.predictors):
        for far in (-30.0, 30.0):
            f = np.zeros((family.predictors, len(y)))
            f[p] = far
            assert np.isfinite(family.loss(y, f, None)).all()
            assert np.isfinite(family.gradient(y, f, None)).all()
            assert (family.curvature(y, f, None) >= 0).all()


def test_large_df_theta_shape_and_phi_do_not_cancel() -> None:
    # Student's t is normal, the negative binomial Poisson's, for large parameters.
    y, zero = np.linspace(-2, 2, 5), np.zeros(5)
    t = distributions.StudentT().loss(y, np.stack([zero, zero, zero + 30]), None)
    np.testing.assert_allclose(t, -stats.norm.logpdf(y), rtol=1e-12)
    counts = np.arange(5.0)
    f = np.stack([zero + 1, zero + 30])
    found = distributions.NegativeBinomial().loss(counts, f, None)
    np.testing.assert_allclose(found, -stats.poisson.logpmf(counts, np.e), rtol=1e-9)


# ---- constants -----------------------------------------------------------------------


@pytest.mark.parametrize("name", [*NAMES, "multinomial"])
def test_offsets_have_the_largest_weighted_likelihood(name: str) -> None:
    family, y = coupled(name)
    w = np.random.default_rng(3).integers(0, 4, len(y)) + 0.0
    f = family.offset(y, w)[:, None]
    slopes = (w * family.gradient(y, f, None)).sum(axis=1) / w.sum()
    np.testing.assert_allclose(slopes, 0, atol=1e-6)
    repeated = family.offset(np.repeat(y, w.astype(int)), None)
    np.testing.assert_allclose(f[:, 0], repeated, rtol=1e-5, atol=1e-6)


def test_a_class_without_rows_has_half_a_row() -> None:
    found = Multinomial(3).offset(np.array([0.0, 0, 2, 2]), None)
    shares = np.log([2, 0.5, 2])
    np.testing.assert_allclose(found, shares - shares.mean())


# ---- quantiles -----------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_quantiles_invert_the_distribution(name: str) -> None:
    family, y = distribution_of(name), response(name, 50)
    given = family.parameters(near_constants(family, y))
    frozen = family.frozen(given)
    for q in (0.05, 0.5, 0.95):
        at = frozen.ppf(q)
        if name in ("gaussian", "student_t", "gamma", "beta"):
            np.testing.assert_allclose(frozen.cdf(at), q, rtol=1e-9)
            continue
        points = np.arange(120.0)
        each = [np.exp(log_density(name, np.full(50, k), given)) for k in points]
        until = np.concatenate([np.zeros((1, 50)), np.cumsum(each, axis=0)])
        rows = np.arange(50)
        assert (until[at.astype(int) + 1, rows] >= q - 1e-12).all()
        assert (until[at.astype(int), rows] < q).all()


def test_the_mean_of_counts_includes_the_further_zeros() -> None:
    family = distributions.ZeroInflatedPoisson()
    f = np.log([[4.0], [1 / 3]])
    np.testing.assert_allclose(family.response(f), 3)


# ---- input ---------------------------------------------------------------------------


def test_every_name_has_a_type() -> None:
    names = {*get_args(CoupledName), *get_args(FamilyName)}
    assert {*DISTRIBUTIONS, "multinomial"} <= names
    assert {*get_args(CoupledName)} == {*DISTRIBUTIONS, "multinomial"} - {*FAMILIES}
