"""Families: losses, gradients, offsets and adaptive parameters, on CPU and device.

The oracles are SciPy's distributions and minimisers, finite differences, and mboost's
formulas.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import cupy_stand_in
import numpy as np
import pytest
from gam_models import COUPLED, SINGLE, draw
from scipy import optimize, special, stats
from sklearn import metrics
from together import together

# The formulas of kernels alone, whose extremes a fit does not reach, the special
# functions that they share with NumPy, and the families of the compiled object.
from gpusolve import _emulator
from gpusolve._device import objects
from gpusolve._device.kernels import source_directory
from gpusolve.gam import BoostedGAM, distributions, families, load
from gpusolve.gam._families import numerics
from gpusolve.gam.distributions import DISTRIBUTIONS
from gpusolve.gam.families import (
    FAMILIES,
    Binomial,
    ClassName,
    CoxPH,
    Custom,
    Expectile,
    Family,
    Gamma,
    Gaussian,
    Huber,
    Hurdle,
    Laplace,
    LogLogistic,
    LogNormal,
    Multinomial,
    NegativeBinomial,
    OtherName,
    Poisson,
    PropOdds,
    Quantile,
    Tweedie,
    Weibull,
    family_of,
)

KERNELS = Path(__file__).parents[1] / "kernels" / "families.cu"
EPS = float(np.finfo(np.float64).eps)

ROWS_ALONE = [family for family in SINGLE if not isinstance(family, (CoxPH, PropOdds))]
"""The families with one predictor whose rows depend on no others."""

ALL = [*ROWS_ALONE, *(f for f in COUPLED if getattr(f, "update", "") != "cyclic")]

REAL = (Gaussian, Laplace, Quantile, Expectile, Huber)
KINKED = (Laplace, Quantile)
MEAN_MATCHED = (Binomial, Poisson, Gamma, NegativeBinomial)

each = together("family", ROWS_ALONE, ids=str)
each_of_all = together("family", ALL, ids=str)


def responses(family: Any, n: int = 60) -> np.ndarray:
    """A response of the family, as a fit keeps it."""
    y = draw(family, 0.7 * np.random.default_rng(1).standard_normal(n), 2)
    return np.asarray(family.prepare(y, np.zeros((n, 1))), float)


def predictors(family: Any, y: np.ndarray, *shape: int) -> np.ndarray:
    """Predictors around the best constants, (.., n), or (P, .., n)."""
    rng = np.random.default_rng(3)
    if family.predictors == 1:
        return rng.standard_normal((*shape, len(y)))
    constants = np.reshape(family.offset(y, None), (-1, *(1 for _ in shape), 1))
    noise = rng.standard_normal((family.predictors, *shape, len(y)))
    return np.asarray(constants + 0.4 * noise)


# ---- losses and gradients ------------------------------------------------------------


def factor(family: Any) -> float:
    """How many times the derivative of the loss mboost's gradient is."""
    if family == Gaussian():
        return 0.5
    return 1 / math.log(2) if family == Binomial() else 1.0


@each_of_all
def test_gradient_is_the_derivative_of_the_loss(family: Any) -> None:
    """The error is h^4 in each digit, and eps / h."""
    y, h = responses(family), 1e-4
    f = predictors(family, y)
    s = family.nuisance(y, f, None) if family.predictors == 1 else None
    if isinstance(family, REAL):  # away from kinks
        f = np.where(abs(y - f) < 3 * h, f + 6 * h, f)
        f = np.where(abs(abs(y - f) - s) < 3 * h, f + 6 * h, f)
    found = np.reshape(family.gradient(y, f, s), (family.predictors, -1))
    for p, own in enumerate(found):
        move = h * np.eye(family.predictors)[p].reshape(-1, *(1,) * (f.ndim - 1))
        move = move if family.predictors > 1 else h
        losses = {k: family.loss(y, f + k * move, s) for k in (-2, -1, 1, 2)}
        slope = (8 * (losses[1] - losses[-1]) - (losses[2] - losses[-2])) / (12 * h)
        wanted = -factor(family) * slope
        scale = abs(losses[1]).max() * EPS / h + h**4 * abs(wanted).max()
        np.testing.assert_allclose(own, wanted, rtol=1e-9, atol=30 * scale)


def nbinom(mu: Any, theta: Any) -> Any:
    return stats.nbinom(theta, theta / (theta + mu))


def with_zeros(law: Any, y: Any, zero: Any) -> Any:
    return np.log(zero * (y == 0) + (1 - zero) * law.pmf(y))


def tweedie(power: float) -> Callable[..., Any]:
    """Minus half the deviance, by scikit-learn."""
    deviance = np.vectorize(
        lambda y, mean: metrics.mean_tweedie_deviance([y], [mean], power=power)
    )
    return lambda y, f, s: -deviance(y, np.exp(f)) / 2


SINGLE_LAWS: dict[Any, Callable[..., Any]] = {
    **{Tweedie(power): tweedie(power) for power in (1.1, 1.5, 1.9)},
    Poisson(): lambda y, f, s: stats.poisson.logpmf(y, np.exp(f)),
    NegativeBinomial(): lambda y, f, s: nbinom(np.exp(f), s).logpmf(y),
    Hurdle(): lambda y, f, s: (
        nbinom(np.exp(f), s).logpmf(y) - nbinom(np.exp(f), s).logsf(0)
    ),
    Binomial(): lambda y, f, s: stats.bernoulli.logpmf(y, special.expit(2 * f)),
    Binomial("logit"): lambda y, f, s: stats.bernoulli.logpmf(y, special.expit(f)),
    Gamma(): lambda y, f, s: (
        stats.gamma.logpdf(y, s, scale=np.exp(f) / s) + np.log(y)
    ),
}
LAWS: dict[str, Callable[..., Any]] = {
    "gaussian": lambda y, mu, sigma: stats.norm(mu, sigma).logpdf(y),
    "student_t": lambda y, mu, sigma, df: stats.t(df, mu, sigma).logpdf(y),
    "gamma": lambda y, mu, shape: stats.gamma(shape, scale=mu / shape).logpdf(y),
    "beta": lambda y, mu, phi: stats.beta(mu * phi, (1 - mu) * phi).logpdf(y),
    "negative_binomial": lambda y, mu, theta: nbinom(mu, theta).logpmf(y),
    "zero_inflated_poisson": lambda y, mu, zero: with_zeros(stats.poisson(mu), y, zero),
    "zero_inflated_negative_binomial": lambda y, mu, theta, zero: with_zeros(
        nbinom(mu, theta), y, zero
    ),
}
"""The logarithms of densities and probabilities, by SciPy; of the parameters."""


@together("family", [*SINGLE_LAWS, *COUPLED], ids=str)
def test_losses_are_log_likelihoods_of_scipy(family: Any) -> None:
    y = responses(family)
    f, s = predictors(family, y), np.random.default_rng(0).uniform(0.3, 40, len(y))
    if family in SINGLE_LAWS:
        expected = SINGLE_LAWS[family](y, f, s)
    elif family == Multinomial(3):
        p = special.softmax(f, axis=0)
        np.testing.assert_allclose(family.response(f), p, rtol=1e-12)
        expected = np.log(p[y.astype(int), np.arange(len(y))])
    else:
        expected = LAWS[family.name](y, **family.parameters(f))
    np.testing.assert_allclose(family.loss(y, f, s), -expected, rtol=1e-9, atol=1e-11)


@together("name", [*LAWS])
def test_quantiles_invert_the_distribution(name: str) -> None:
    family, k = DISTRIBUTIONS[name](), np.arange(90.0)[:, None]
    given = family.parameters(predictors(family, responses(family, 50)))
    frozen = family.frozen(given)
    for q in (0.05, 0.5, 0.95):
        at = frozen.ppf(q)
        if name in ("gaussian", "student_t", "gamma", "beta"):
            np.testing.assert_allclose(frozen.cdf(at), q, rtol=1e-9)
            continue
        with np.errstate(divide="ignore"):
            until = np.exp(LAWS[name](k, **given)).cumsum(axis=0)
        np.testing.assert_allclose(frozen.cdf(k), until, rtol=1e-9)
        assert (frozen.cdf(at) >= q - 1e-12).all()
        assert (frozen.cdf(at - 1) < q).all()


def test_means_of_counts_with_other_zeros() -> None:
    f = np.log([[4.0], [1 / 3]])
    np.testing.assert_allclose(distributions.ZeroInflatedPoisson().response(f), 3)
    mu, s = np.exp(np.linspace(-1, 2, 9)), np.linspace(0.5, 9, 9)
    mean = nbinom(mu, s).mean() / nbinom(mu, s).sf(0)
    np.testing.assert_allclose(Hurdle().mean(np.log(mu), s), mean, rtol=1e-12)


def test_large_parameters_do_not_cancel(rng: np.random.Generator) -> None:
    """The negative binomial is Poisson's, Student's t is normal."""
    y, f = rng.poisson(3, 50).astype(float), rng.standard_normal(50)
    s = 1e8  # the difference is (y^2 + mu^2) / s
    atol = 4 * (y.max() ** 2 + np.exp(f).max() ** 2) / s
    for what in ("loss", "gradient"):
        found, wanted = (
            getattr(family, what)(y, f, s) for family in (NegativeBinomial(), Poisson())
        )
        np.testing.assert_allclose(found, wanted, rtol=0, atol=atol)
    zero = np.zeros(50)
    t = distributions.StudentT().loss(f, np.stack([zero, zero, zero + 30]), None)
    np.testing.assert_allclose(t, -stats.norm.logpdf(f), rtol=1e-12)
    found = distributions.NegativeBinomial().loss(y, np.stack([f, zero + 30]), None)
    np.testing.assert_allclose(found, -stats.poisson.logpmf(y, np.exp(f)), rtol=1e-8)


CURVED = [Binomial(), Binomial("logit"), Poisson(), Gamma(2.0), NegativeBinomial(1.5)]


@together("family", CURVED, ids=str)
def test_curvatures_bound_the_slope_to_the_best_predictor(family: Family) -> None:
    """For the sum of rows that share f, of which the share p has the second y.

    At the best predictor, the curvature is the derivative of the gradient.
    """
    s = family.parameter

    def mean(rows: Callable[..., Any], f: float, p: float) -> float:
        values = (0.0, 1.0) if family.name == "binomial" else (0.2, 9.0)
        low, high = (float(rows(np.float64(y), np.float64(f), s)) for y in values)
        return (1 - p) * low + p * high

    for p in (0.01, 0.3, 0.9):
        best = optimize.brentq(lambda f: mean(family.gradient, f, p), -9, 9)  # noqa: B023
        for f in np.linspace(-8, 8, 60):
            slope = mean(family.gradient, f, p) / (best - f)
            assert mean(family.curvature, f, p) >= slope * (1 - 1e-9)
        near = [mean(family.gradient, best + d, p) for d in (-1e-5, 1e-5)]
        slope = (near[0] - near[1]) / 2e-5
        assert mean(family.curvature, best, p) == pytest.approx(slope, rel=1e-6)


def test_curvatures_of_residuals_lead_to_the_response() -> None:
    y, f = np.full(7, 0.5), np.linspace(-4, 4, 7)
    for family in (Huber(0.7), Expectile(0.2)):
        s = family.parameter
        step = family.gradient(y, f, s) / family.curvature(y, f, s)
        np.testing.assert_allclose(step, y - f, rtol=1e-14)


@together("name", ["gaussian", "gamma", "beta", "zero_inflated_poisson"])
def test_the_mean_curvature_is_the_information_or_more(name: str) -> None:
    """The second derivatives of the mean loss of a large sample."""
    family = DISTRIBUTIONS[name]()
    y = responses(family, 4000)
    f = np.tile(np.reshape(family.offset(y, None), (-1, 1)), len(y))
    found, h = family.curvature(y, f, None).mean(axis=1), 1e-4
    for p in range(family.predictors):
        step = h * np.eye(family.predictors)[:, [p]]
        slopes = [family.gradient(y, f + s, None)[p].mean() for s in (step, -step)]
        information = (slopes[1] - slopes[0]) / (2 * h)
        assert found[p] > 0.85 * information > 0


# ---- offsets and adaptive parameters -------------------------------------------------


@each
@together("weights", [None, "integers", "real"])
@together("has_start", [False, True])
def test_offset_minimises_the_risk(
    family: Family, weights: str | None, has_start: bool
) -> None:
    """Also in addition to the offsets of the rows."""
    y, rng = responses(family), np.random.default_rng(5)
    known = {"integers": rng.integers(0, 4, 60) * 1.0, "real": rng.random(60)}
    w, start, found = known.get(str(weights)), np.zeros(60), 0.0
    if has_start and type(family) in (*REAL, *MEAN_MATCHED):
        start = rng.normal(0, 1, 60)
        y = y + start if isinstance(family, REAL) else y
        found = float(family.offset_from(start, y, w))
    else:
        found = float(family.offset(y, w))
    near = Laplace().offset(y - start, w) if family == Huber() else found
    s = family.nuisance(y, start + near, w)
    if start.any() and isinstance(family, NegativeBinomial):
        s = 1e8  # the rule of Poisson
    ones = np.ones(60) if w is None else w

    def risk(f: float) -> float:
        return float(ones @ family.loss(y, start + f, s))

    least = optimize.minimize_scalar(risk, bracket=(found - 1, found + 0.5))
    assert risk(found) <= least.fun + len(y) * EPS * abs(least.fun)
    if not isinstance(family, KINKED):
        assert found == pytest.approx(least.x, abs=1e-6)


def test_median_is_the_middle_of_the_minimisers() -> None:
    y = np.array([5.0, 1.0, 2.0, 9.0])
    assert Laplace().offset(y, None) == 3.5
    assert Laplace().offset(y, np.array([1.0, 1, 2, 1])) == 2
    assert Laplace().offset(y, np.array([1.0, 1, 1, 1])) == 3.5
    assert Laplace().offset(y, np.array([0.0, 3, 0, 3])) == 5
    assert Quantile(0.25).offset(y, None) == 1.5
    assert Quantile(0.3).offset(y, None) == 2
    assert Quantile(1 - EPS / 2).offset(y, None) == 9
    assert Quantile(1 - EPS / 2).offset(y, np.ones(4)) == 9


def test_a_searched_offset_has_the_unit_of_y(rng: np.random.Generator) -> None:
    y = rng.standard_normal(50)
    for family in (Huber(), Expectile(0.3)):
        found = [family.offset(unit * y, None) / unit for unit in (1.0, 1e-20, 1e20)]
        np.testing.assert_allclose(found, found[0], rtol=1e-9)


def test_huber_offset_of_two_distant_groups_is_the_middle() -> None:
    assert Huber().offset(np.full(5, 3.0), None) == 3
    y = np.array([-10.0, -10, -11, 10, 10, 11])
    assert Huber(1.0).offset(y, None) == 0
    assert Huber(1.0).offset(y[:5], None) < -9


def test_one_class_in_a_fold_is_half_a_row_from_it() -> None:
    y, w = np.array([1.0, 1, 0]), np.array([2.0, 3, 0])
    assert Binomial("logit").offset(y, w) == math.log(5 / 0.5)
    assert Binomial().offset(1 - y, w) == math.log(0.5 / 5) / 2
    assert Poisson().offset(np.array([0.0, 0, 4]), w) == math.log(0.5 / 5)
    found = Multinomial(3).offset(np.array([0.0, 0, 2, 2]), None)
    shares = np.log([2, 0.5, 2])
    np.testing.assert_allclose(found, shares - shares.mean())


@pytest.mark.parametrize("weighted", [False, True])
@together(
    "family",
    [Gamma(), NegativeBinomial(), Hurdle(), Weibull(), LogLogistic(), LogNormal()],
    ids=str,
)
def test_nuisance_is_of_maximum_likelihood(family: Any, weighted: bool) -> None:
    y, rng = responses(family, 400), np.random.default_rng(5)
    w = rng.random(400) if weighted else np.ones(400)
    f = np.log(abs(y).mean()) + 0.3 * rng.standard_normal(400)
    s = float(family.nuisance(y, f, w if weighted else None))

    def score(log_s: float) -> float:
        h = 1e-4
        high, low = (family.loss(y, f, np.exp(log_s + k)) for k in (h, -h))
        return float((w * (high - low)).sum())

    least = optimize.brentq(score, math.log(s) - 2, math.log(s) + 2, xtol=1e-14)
    assert math.log(s) == pytest.approx(least, abs=1e-7)


def test_theta_at_its_limits(rng: np.random.Generator) -> None:
    """Without overdispersion it is the largest; with little it is large but found."""
    family, y = NegativeBinomial(), np.array([2.0, 3, 2, 3, 2])
    assert family.nuisance(y, np.full(5, np.log(2.4)), None) == 1e8
    y = rng.negative_binomial(500, 500 / 550, 4000).astype(float)
    f = np.full(4000, np.log(y.mean()))
    theta = float(family.nuisance(y, f, None))
    here, lower, higher = (family.loss(y, f, theta * k).sum() for k in (1, 0.9, 1.1))
    assert 100 < theta < 1e5
    assert here < min(lower, higher)
    limits = [families.gamma_shape(mean) for mean in (0.0, 1e30)]
    np.testing.assert_allclose(limits, [1e8, 1e-8], rtol=1e-6)


@pytest.mark.parametrize("family", [NegativeBinomial(), Hurdle()], ids=str)
def test_theta_of_few_counts_is_the_best_of_a_grid(
    family: Family, rng: np.random.Generator
) -> None:
    """The counts are at any distance from ``exp(f)``: theta may be at both limits."""
    grid, least, at_limits = np.logspace(-8, 8, 161), isinstance(family, Hurdle), set()
    for size in rng.integers(1, 6, 200).tolist():
        f = 1.5 * rng.standard_normal(size)
        y = least + rng.poisson(np.exp(f + rng.standard_normal(size))).astype(float)
        theta = float(family.nuisance(y, f, None))
        risks = family.loss(y, f, np.array([theta, *grid])[:, None]).sum(axis=1)
        assert risks[0] - risks.min() <= 1e4 * EPS * (size + y.sum())
        at_limits.add(theta >= 1e8)
    assert at_limits == {False, True}


@each_of_all
def test_all_is_finite_for_large_predictors(family: Any) -> None:
    """The losses of Poisson, gamma and Weibull grow with exp; the others do not."""
    y, P = responses(family), family.predictors
    exponential = isinstance(family, (Poisson, Gamma, Tweedie, Weibull))
    far = [-700.0, -40, 0, 40, 700] if exponential else [-1e6, 1e6]
    for value in [-30.0, 30.0] if P > 1 else far:
        for p in range(P):
            f = np.full(60, value)
            if P > 1:
                f = np.eye(P)[:, [p]] * f
                assert (family.curvature(y, f, None) >= 0).all()
            s = 3.0 if family.adaptive else family.nuisance(y, f, None)
            assert np.isfinite(family.gradient(y, f, s)).all()
            assert np.isfinite(family.loss(y, f, s)).all()


# ---- values, names, CuPy -------------------------------------------------------------


@together("family", [*SINGLE, Multinomial(3)], ids=str)
def test_families_are_values(family: Any, tmp_path: Path) -> None:
    BoostedGAM(family=family).save(tmp_path / "model.json")
    loaded = load(tmp_path / "model.json").family
    assert loaded == family == pickle.loads(pickle.dumps(family))
    assert hash(loaded) == hash(family)
    assert eval(repr(family), vars(families)) == family
    assert family_of(family) is family


def test_families_have_names() -> None:
    for name, family in FAMILIES.items():
        assert family_of(name) == family()
        assert family.name == name
    assert {*get_args(OtherName), *get_args(ClassName)} == set(FAMILIES)


@pytest.mark.parametrize("family", ROWS_ALONE, ids=str)
def test_cupy_arrays_give_what_numpy_arrays_give(family: Family) -> None:
    y, rng = responses(family), np.random.default_rng(5)
    f, w = rng.standard_normal((2, 60)), rng.random((2, 60))
    with cupy_stand_in.installed(1) as cupy:
        y_, f_, w_ = (cupy.asarray(array) for array in (y, f, w))
        family.check(y_)
        np.testing.assert_array_equal(family.response(f_).get(), family.response(f))
        for row in (0, 1):
            assert family.offset(y_, w_[row]) == family.offset(y, w[row])
            s = family.nuisance(y, f[row], w[row])
            assert float(family.nuisance(y_, f_[row], w_[row])) == s
            for method in ("gradient", "loss"):
                found = getattr(family, method)(y_, f_[row], s).get()
                wanted = getattr(family, method)(y, f[row], s)
                np.testing.assert_array_equal(found, wanted)


# ---- families of the user's own ------------------------------------------------------


def own(**options: Any) -> Custom:
    return Custom(
        "own",
        gradient=lambda y, f: y - np.exp(f),
        loss=lambda y, f: np.exp(f) - y * f,
        **options,
    )


def test_custom_family_is_what_its_functions_say(rng: np.random.Generator) -> None:
    y, f = rng.poisson(3, 50).astype(float), rng.standard_normal((2, 50))
    family, poisson = own(response=np.exp), Poisson()
    s = family.nuisance(y, f, None)
    np.testing.assert_array_equal(family.gradient(y, f, s), poisson.gradient(y, f, s))
    np.testing.assert_allclose(
        family.loss(y, f, s), poisson.loss(y, f, s) - special.gammaln(y + 1), rtol=1e-12
    )
    np.testing.assert_array_equal(family.response(f), poisson.response(f))
    np.testing.assert_array_equal(own().response(f), f)
    w = rng.random(50)
    assert family.offset(y, w) == pytest.approx(poisson.offset(y, w), abs=1e-14)
    assert own(offset=0.25).offset(y, w) == 0.25
    assert own(offset=lambda y, w: y.max()).offset(y, w) == y.max()
    assert not family.adaptive


# ---- on a device ---------------------------------------------------------------------


def evaluate(family: Family, y: np.ndarray, f: np.ndarray, s: np.ndarray) -> np.ndarray:
    """The gradient, the loss and the curvature, by the emulator; (3, n)."""
    definitions, name, parameter = family.cuda
    kernel = _emulator.Kernel(
        KERNELS, f"evaluate<{name}>", source_directory(), definitions
    )
    found = np.empty((3, len(y)))
    args = (y, f, s, np.float64(parameter), np.int32(len(y)), *found)
    kernel((-(-len(y) // 32),), (32,), args)
    return found


@pytest.mark.parametrize("family", ROWS_ALONE, ids=str)
def test_cuda_family_is_that_of_numpy(family: Family, rng: np.random.Generator) -> None:
    n = 200
    y = responses(family, n)
    f = np.where(rng.random(n) < 0.8, 2, 200) * rng.standard_normal(n)
    s = np.where(rng.random(n) < 0.7, rng.uniform(0.1, 30, n), 1e7 * rng.random(n))
    s = s if family.adaptive else np.full(n, family.cuda.parameter)
    if isinstance(family, REAL):
        f[:5], f[5] = y[:5], y[5] - s[5]  # at the kinks
    with np.errstate(over="ignore"):
        wanted = [
            family.gradient(y, f, s),
            family.loss(y, f, s),
            np.broadcast_to(1.0 if (h := family.curvature(y, f, s)) is None else h, n),
        ]
    terms = abs(y) * (1 + abs(f)) + abs(f) + 10  # what the losses add up
    for found, right in zip(evaluate(family, y, f, s), wanted, strict=True):
        finite = np.isfinite(right)
        np.testing.assert_array_equal(found[~finite], right[~finite])
        error = abs(found[finite] - right[finite])
        allowed = 64 * EPS * (abs(right) + terms) + 1e-300
        np.testing.assert_array_less(error, allowed[finite])


def test_the_compiled_loop_has_each_family() -> None:
    """Another family would be boosted by NumPy, without an error."""
    library = objects.load()
    assert library is not None, objects.chosen().reason
    types = {family.cuda.type for family in (*SINGLE, *COUPLED)}
    assert [t for t in types if not library.gpusolve_has_family(t.encode())] == []
    assert not library.gpusolve_has_family(b"Rayleigh")


def test_cuda_expressions_are_those_of_the_user(rng: np.random.Generator) -> None:
    y, f = rng.poisson(3, 50).astype(float), rng.standard_normal(50)
    family = own(cuda={"gradient": "y - exp(f)", "loss": "exp(f) - y * f"})
    gradient, loss, _ = evaluate(family, y, f, np.zeros(50))
    np.testing.assert_allclose(gradient, family.gradient(y, f, 0.0), atol=1e-13)
    np.testing.assert_allclose(loss, family.loss(y, f, 0.0), atol=1e-13)


def plain_kernel(name: str) -> _emulator.Kernel:
    return _emulator.Kernel(KERNELS, name, source_directory())


@together("spread", [1e-3, 0.1, 1.0, 10.0])
def test_cuda_shape_is_that_of_numpy(spread: float, rng: np.random.Generator) -> None:
    y, f = np.exp(spread * rng.standard_normal((2, 100)))
    f, w, found = np.log(f), rng.random(100), np.zeros(1)
    plain_kernel("find_shape")((1,), (1,), (y, f, w, np.int32(100), found))
    wanted = float(Gamma().nuisance(y, f, w))
    assert found[0] == pytest.approx(wanted, rel=1e-13 / min(spread, 1))


@together(("size", "far"), [
    (0.02, 0), (0.7, 0), (20.0, 0), (1e4, 0), (1, -500), (math.inf, 0), (1, 500),
])  # fmt: skip
@together("family", [NegativeBinomial(), Hurdle()], ids=str)
def test_cuda_theta_is_that_of_numpy(
    size: float, far: float, family: Family, rng: np.random.Generator
) -> None:
    """Also if all counts are far from exp(f): then it is at a limit, or finite."""
    n, least = 100, isinstance(family, Hurdle)
    f, w = rng.normal(1.5, 0.5, n) + far, rng.random(n)
    mixing = rng.gamma(size, 1 / size, n) if size < math.inf else 1
    y = np.maximum(rng.poisson(np.exp(f - far) * mixing), least).astype(float)
    theta, passes = np.zeros(1), np.zeros(1, np.int32)
    args = y, f, w, np.int32(n), theta, passes
    plain_kernel(f"find_theta<{family.cuda.type}>")((1,), (1,), args)
    wanted = float(family.nuisance(y, f, w))
    assert 1e-9 < wanted <= 1e8
    assert theta[0] == pytest.approx(wanted, rel=max(1e-12, 16 * EPS * wanted))
    assert far or passes[0] <= 14


# ---- special functions ---------------------------------------------------------------


GAMMA_FUNCTIONS = "stirling_error", "log_minus_digamma", "trigamma_minus_inverse"


@pytest.mark.parametrize("source", ["numpy", "cuda"])
def test_gamma_functions_are_those_of_scipy(source: str) -> None:
    """Differences that cancel are series from 99; below 10, CUDA shifts by 22 terms."""
    x = np.concatenate([np.linspace(0.1, 20, 100), np.logspace(-8, 8, 40), [10, 99]])
    found = np.empty((3, len(x)))
    if source == "numpy":
        found[:] = [getattr(numerics, name)(x) for name in GAMMA_FUNCTIONS]
    else:
        kernel = plain_kernel("gamma_functions")
        kernel((5,), (32,), (x, np.int32(len(x)), *found))
    stirling, digamma, trigamma = found
    main = (x - 0.5) * np.log(x) - x + 0.5 * math.log(2 * math.pi)
    atol = 8 * EPS * (1 + abs(main) + abs(special.gammaln(x)))
    assert (abs(stirling - (special.gammaln(x) - main)) <= atol).all()
    t = 1 / x**2
    series = 1 / (2 * x) + t * (1 / 12 - t * (1 / 120 - t / 252))
    wanted = np.where(x < 99, np.log(x) - special.digamma(x), series)
    atol = np.where(x < 99, 24 * EPS * (5 + abs(np.log(x))), 0)
    assert (abs(digamma - wanted) <= atol + 64 * EPS * wanted).all()
    wanted = special.polygamma(1, x)
    np.testing.assert_allclose(trigamma + 1 / x, wanted, rtol=24 * EPS)
