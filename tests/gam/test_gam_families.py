"""Families of boosting, against SciPy's distributions and minimisers."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from decimal import Decimal, getcontext
from pathlib import Path
from typing import Any, get_args

import cupy_stand_in
import numpy as np
import pytest
from gam_models import accepts
from scipy import integrate, optimize, special, stats
from together import together

from gpusolve import _emulator
from gpusolve._device.kernels import source_directory
from gpusolve.gam import families
from gpusolve.gam._families import numerics
from gpusolve.gam._families.family import CoupledFamily
from gpusolve.gam._model.store import from_plain, to_plain
from gpusolve.gam.families import (
    FAMILIES,
    Binomial,
    CoxPH,
    Custom,
    Expectile,
    Family,
    FamilyName,
    Gamma,
    Gaussian,
    Huber,
    Hurdle,
    Laplace,
    LogLogistic,
    LogNormal,
    NegativeBinomial,
    Poisson,
    PropOdds,
    Quantile,
    SurvivalFamily,
    Tweedie,
    Weibull,
    family_of,
)

KERNELS = Path(__file__).parents[1] / "kernels" / "families.cu"
EPS = float(np.finfo(np.float64).eps)

REAL_EFFECTS = {
    "the mean", "the median", "the quantile", "the expectile", "the location",
}  # fmt: skip
"""What real responses without a link have."""

SINGLE = {
    name: family
    for name, family in FAMILIES.items()
    if not issubclass(family, (CoxPH, CoupledFamily, PropOdds))
}
"""The families with one predictor, a parameter, and rows that depend on no others."""

GIVEN: list[Family] = [
    Quantile(0.9),
    Expectile(0.2),
    Huber(0.7),
    Binomial("logit"),
    NegativeBinomial(1.7),
    Hurdle(1.7),
    Gamma(2.5),
    Tweedie(1.2),
    Weibull(1.7),
]
"""Families with other parameters than the defaults."""

ALL = [*(family() for family in SINGLE.values()), *GIVEN]
REAL = [family for family in ALL if family.effect_on in REAL_EFFECTS]
SMOOTH = [family for family in ALL if not isinstance(family, (Laplace, Quantile))]

each = together("family", ALL, ids=str)


def responses(family: Family, rng: np.random.Generator, n: int = 60) -> np.ndarray:
    """The first of some kinds of numbers that the family accepts."""
    counts = rng.negative_binomial(1.5, 0.3, n).astype(float)
    positive = rng.gamma(2.0, 1.5, n)
    kinds = [
        rng.standard_normal(n).round(1) + rng.standard_t(2, n),
        positive * (rng.random(n) < 0.7),
        positive,
        counts,
        counts + 1,
        np.concatenate([[0.0, 1.0], rng.integers(0, 2, n - 2)]),
    ]
    if isinstance(family, SurvivalFamily):
        return positive * rng.choice([-1, 1, 1], n)
    return next(y for y in kinds if accepts(family, y))


# ---- definitions ---------------------------------------------------------------------


def factor(family: Family) -> float:
    """How many times the derivative of the loss mboost's gradient is."""
    if isinstance(family, Gaussian):
        return 0.5
    return 1 / math.log(2) if family == Binomial() else 1.0


@each
def test_gradient_is_the_derivative_of_the_loss(
    family: Family, rng: np.random.Generator
) -> None:
    y = responses(family, rng)
    f = rng.standard_normal((3, len(y)))
    s = family.nuisance(y, f, None)
    h = 1e-4  # away from kinks; the error is h^4 in each digit lost, eps / h in others
    f = np.where(abs(y - f) < 3 * h, f + 6 * h, f)
    f = np.where(abs(abs(y - f) - s) < 3 * h, f + 6 * h, f)
    losses = {k: family.loss(y, f + k * h, s) for k in (-2, -1, 1, 2)}
    found = (8 * (losses[1] - losses[-1]) - (losses[2] - losses[-2])) / (12 * h)
    wanted = -factor(family) * found
    scale = abs(losses[1]).max() * EPS / h + h**4 * abs(wanted).max()
    np.testing.assert_allclose(family.gradient(y, f, s), wanted, rtol=0, atol=8 * scale)


def test_losses_are_log_likelihoods_of_scipy(rng: np.random.Generator) -> None:
    f, n = rng.normal(0.5, 1.5, 50), 50
    mu, s = np.exp(f), rng.uniform(0.3, 40, 50)
    y = rng.poisson(mu).astype(float)
    expected: dict[Family, Any] = {
        Poisson(): stats.poisson.logpmf(y, mu),
        NegativeBinomial(): stats.nbinom.logpmf(y, s, s / (s + mu)),
    }
    above, of_counts = y + 1, stats.nbinom(s, s / (s + mu))
    np.testing.assert_allclose(
        Hurdle().loss(above, f, s),
        of_counts.logsf(0) - of_counts.logpmf(above),
        rtol=1e-12,
        atol=1e-12,
    )
    mean = stats.nbinom.mean(s, s / (s + mu)) / of_counts.sf(0)
    np.testing.assert_allclose(Hurdle().mean(f, s), mean, rtol=1e-12)
    for family, log_likelihood in expected.items():
        np.testing.assert_allclose(family.loss(y, f, s), -log_likelihood, rtol=1e-12)
    yes = rng.integers(0, 2, n).astype(float)
    for link, scale in (("half_logit", 2), ("logit", 1)):
        p = special.expit(scale * f)
        np.testing.assert_allclose(
            Binomial(link).loss(yes, f, 0.0),
            -stats.bernoulli.logpmf(yes, p),
            rtol=1e-12,
        )
        np.testing.assert_allclose(Binomial(link).response(f), p, rtol=4 * EPS)
    positive = rng.gamma(2.0, mu)
    log_density = stats.gamma.logpdf(positive, s, scale=mu / s)
    np.testing.assert_allclose(
        Gamma().loss(positive, f, s) + np.log(positive), -log_density, atol=1e-12
    )


def test_real_losses_by_hand() -> None:
    y, f = np.array([3.0, 1.0, 0.5]), np.array([1.0, 1.0, 2.0])  # r = 2, 0, -1.5
    by_hand: list[tuple[Family, list[float], list[float]]] = [
        (Gaussian(), [4, 0, 2.25], [2, 0, -1.5]),
        (Laplace(), [2, 0, 1.5], [1, 0, -1]),
        (Quantile(0.9), [1.8, 0, 0.15], [0.9, 0.9, -0.1]),
        (Expectile(0.9), [3.6, 0, 0.225], [3.6, 0, -0.3]),
        (Huber(1.0), [1.5, 0, 1.0], [1, 0, -1]),
    ]
    for family, loss, gradient in by_hand:
        s = family.nuisance(y, f, None)
        np.testing.assert_allclose(family.loss(y, f, s), loss, rtol=4 * EPS)
        np.testing.assert_allclose(family.gradient(y, f, s), gradient, rtol=4 * EPS)
        np.testing.assert_array_equal(family.response(f), f)


def test_hurdle_gradient_is_that_of_mboost(rng: np.random.Generator) -> None:
    """In mboost's parameter sigma = 1 / theta."""
    y, f, sigma = rng.poisson(3, 50) + 1.0, rng.standard_normal(50), 0.4
    mu, base = np.exp(f), 1 + np.exp(f) * sigma
    of_counts = y / sigma / (mu + 1 / sigma) - 1 / sigma / (1 / mu / sigma + 1)
    zero = base ** (-1 / sigma)
    wanted = of_counts - mu * zero / base / (1 - zero)
    np.testing.assert_allclose(
        Hurdle().gradient(y, f, 1 / sigma), wanted, atol=32 * EPS * y.max()
    )


@together("power", [1.1, 1.5, 1.9])
def test_tweedie_loss_is_half_the_deviance(
    power: float, rng: np.random.Generator
) -> None:
    """The deviance of quasi-likelihood, an integral over means between mu and y."""
    y, f = responses(Tweedie(), rng)[:20], rng.standard_normal(20)
    for response, predictor in zip(y, f, strict=True):
        half, _ = integrate.quad(
            lambda m: (response - m) / m**power,  # noqa: B023
            np.exp(predictor),
            response,
            epsabs=1e-11,
        )
        found = Tweedie(power).loss(response, predictor, 0.0)
        assert found == pytest.approx(half, rel=1e-7, abs=1e-11)


def test_half_logit_gradient_has_the_log_two_of_mboost() -> None:
    y, f = np.array([0.0, 1.0, 1.0]), np.array([0.3, 0.3, -2.0])
    sign = 2 * y - 1
    wanted = 2 * sign / (np.log(2) * (1 + np.exp(2 * sign * f)))
    np.testing.assert_allclose(Binomial().gradient(y, f, 0.0), wanted, rtol=4 * EPS)


def test_negative_binomial_gradient_is_that_of_mboost(rng: np.random.Generator) -> None:
    y, f, s = rng.poisson(3, 50).astype(float), rng.standard_normal(50), 2.5
    wanted = y - (y + s) / (np.exp(f) + s) * np.exp(f)
    np.testing.assert_allclose(
        NegativeBinomial().gradient(y, f, s), wanted, atol=8 * EPS * y.max()
    )


def test_negative_binomial_with_large_theta_is_poisson(
    rng: np.random.Generator,
) -> None:
    y, f = rng.poisson(3, 50).astype(float), rng.standard_normal(50)
    s = 1e8  # the difference is (y^2 + mu^2) / s
    atol = 4 * (y.max() ** 2 + np.exp(f).max() ** 2) / s
    for what in ("loss", "gradient"):
        found, wanted = (
            getattr(family, what)(y, f, s) for family in (NegativeBinomial(), Poisson())
        )
        np.testing.assert_allclose(found, wanted, rtol=0, atol=atol)


@each
def test_each_fit_of_a_batch_is_that_fit_alone(
    family: Family, rng: np.random.Generator
) -> None:
    y = responses(family, rng)
    f, w = rng.standard_normal((3, len(y))), rng.integers(0, 3, (3, len(y))) * 1.0
    s = family.nuisance(y, f, w)
    u, losses = family.gradient(y, f, s), family.loss(y, f, s)
    assert u.shape == losses.shape == f.shape
    if family.adaptive:
        assert s.shape == (3, 1)
    for k in range(3):
        alone = family.nuisance(y, f[k], w[k])
        assert np.ndim(alone) == 0
        assert alone == np.broadcast_to(s, (3, 1))[k, 0]
        np.testing.assert_array_equal(family.gradient(y, f[k], alone), u[k])
        np.testing.assert_array_equal(family.loss(y, f[k], alone), losses[k])


# ---- offsets and adaptive parameters -------------------------------------------------


def risk_of(family: Family, y: np.ndarray, w: np.ndarray | None) -> Callable[..., Any]:
    """The weighted risk of a constant, with the parameter of the offset."""
    if family == Huber():
        median = families.Laplace().offset(y, w)
        family = Huber(float(family.nuisance(y, np.float64(median), w)))
    s = family.nuisance(y, np.full_like(y, family.offset(y, w)), w)
    weights = np.ones_like(y) if w is None else w
    return lambda f: float((weights * family.loss(y, np.full_like(y, f), s)).sum())


@each
@together("weights", [None, "integers", "real"])
def test_offset_minimises_the_risk(
    family: Family, weights: str | None, rng: np.random.Generator
) -> None:
    y = responses(family, rng)
    w = None
    if weights is not None:
        w = (
            rng.integers(0, 4, len(y)) * 1.0
            if weights == "integers"
            else rng.random(60)
        )
    risk, offset = risk_of(family, y, w), family.offset(y, w)
    least = optimize.minimize_scalar(risk, bracket=(offset - 1, offset + 0.5))
    assert risk(offset) <= least.fun * (1 + len(y) * EPS)
    if family in SMOOTH:
        assert offset == pytest.approx(least.x, abs=1e-6)


@each
def test_integer_weights_equal_repeated_rows(
    family: Family, rng: np.random.Generator
) -> None:
    y = responses(family, rng)
    w = rng.integers(0, 4, len(y))
    f = rng.standard_normal(len(y))
    repeated, g = np.repeat(y, w), np.repeat(f, w)
    exact = isinstance(family, (Laplace, Quantile))
    tolerance = 0 if exact else 1e-13
    found = family.offset(y, w.astype(float))
    assert found == pytest.approx(family.offset(repeated, None), abs=tolerance)
    s = family.nuisance(y, f, w.astype(float))
    assert s == pytest.approx(family.nuisance(repeated, g, None), rel=1e-12)


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


def test_huber_offset_of_two_distant_groups_is_the_middle() -> None:
    y = np.array([-10.0, -10, -11, 10, 10, 11])
    assert Huber(1.0).offset(y, None) == 0
    assert Huber(1.0).offset(y[:5], None) < -9


def test_adaptive_huber_needs_a_positive_delta() -> None:
    assert Huber().offset(np.full(5, 3.0), None) == 3
    with pytest.raises(ValueError, match="delta of Huber must be given"):
        Huber().offset(np.array([0.0, 0, 0, 1]), None)


def test_one_class_in_a_fold_is_half_a_row_from_it() -> None:
    y, w = np.array([1.0, 1, 0]), np.array([2.0, 3, 0])
    assert Binomial("logit").offset(y, w) == math.log(5 / 0.5)
    assert Binomial().offset(1 - y, w) == math.log(0.5 / 5) / 2
    assert Poisson().offset(np.array([0.0, 0, 4]), w) == math.log(0.5 / 5)


@together("shape", [1e-3, 0.2, 1.0, 7.0, 300.0, 1e6])
def test_gamma_shape_solves_the_likelihood_equation(shape: float) -> None:
    getcontext().prec = 50
    mean = float(digamma_gap(Decimal(shape)))
    assert families.gamma_shape(np.float64(mean)) == pytest.approx(shape, rel=1e-13)


def test_gamma_shape_is_bounded() -> None:
    found = families.gamma_shape(np.array([0.0, 1e30]))
    np.testing.assert_allclose(found, [1e8, 1e-8], rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "family",
    [Gamma(), NegativeBinomial(), Hurdle(), Weibull(), LogLogistic(), LogNormal()],
    ids=str,
)
def test_nuisance_is_of_maximum_likelihood(
    family: Family, weighted: bool, rng: np.random.Generator
) -> None:
    y = responses(family, rng, 400)
    w = rng.random(400) if weighted else np.ones(400)
    f = np.log(y.mean()) + 0.3 * rng.standard_normal(400)
    s = float(family.nuisance(y, f, w if weighted else None))

    def score(log_s: float) -> float:
        h = 1e-4
        high, low = (family.loss(y, f, np.exp(log_s + k)) for k in (h, -h))
        return float((w * (high - low)).sum())

    least = optimize.brentq(score, math.log(s) - 2, math.log(s) + 2, xtol=1e-14)
    assert math.log(s) == pytest.approx(least, abs=1e-7)


def test_theta_solves_the_score_equation(rng: np.random.Generator) -> None:
    """The score of the textbook, with digamma; it cancels to eps theta here."""
    y, f = rng.negative_binomial(3, 0.2, 500).astype(float), rng.normal(2.4, 0.2, 500)
    theta, mu = float(NegativeBinomial().nuisance(y, f, None)), np.exp(f)
    terms = (
        special.digamma(y + theta)
        - special.digamma(theta)
        + np.log(theta / (theta + mu))
        + (mu - y) / (theta + mu)
    )
    assert abs(terms.sum()) <= 1e-13 * abs(terms).sum()


def test_theta_is_the_largest_without_overdispersion() -> None:
    y = np.array([2.0, 3, 2, 3, 2])
    assert NegativeBinomial().nuisance(y, np.full(5, np.log(2.4)), None) == 1e8


def test_theta_of_slight_overdispersion_is_large_but_found(
    rng: np.random.Generator,
) -> None:
    y = rng.negative_binomial(500, 500 / 550, 4000).astype(float)
    f, family = np.full(4000, np.log(y.mean())), NegativeBinomial()
    theta = float(family.nuisance(y, f, None))
    here, lower, higher = (family.loss(y, f, theta * k).sum() for k in (1, 0.9, 1.1))
    assert 100 < theta < 1e5
    assert here < min(lower, higher)


def find_theta(family: Family, y: Any, f: Any, w: Any) -> tuple[float, int]:
    """Theta and the number of passes, by the emulator."""
    theta, passes = np.zeros(1), np.zeros(1, np.int32)
    kernel = plain_kernel(f"find_theta<{family.cuda.type}>")
    kernel((1,), (1,), (y, f, w, np.int32(len(y)), theta, passes))
    return float(theta[0]), int(passes[0])


@pytest.mark.parametrize("family", [NegativeBinomial(), Hurdle()], ids=str)
@pytest.mark.parametrize("f", [-500.0, 500.0])
def test_theta_does_not_overflow(f: float, family: Family) -> None:
    """All counts are far from exp(f), so theta is at a limit or finite."""
    y, predictors = np.array([1.0, 2, 7, 1]), np.array([f, 0.5, 1.0, 0.7])
    theta, _ = find_theta(family, y, predictors, np.ones(4))
    wanted = float(family.nuisance(y, predictors, None))
    assert 1e-9 < wanted <= 1e8
    assert theta == pytest.approx(wanted, rel=1e-9)


# ---- extremes ------------------------------------------------------------------------


@each
def test_all_is_finite_for_large_predictors(
    family: Family, rng: np.random.Generator
) -> None:
    """The losses of Poisson, gamma and Weibull grow with exp; the others do not."""
    y = responses(family, rng)
    exponential = isinstance(family, (Poisson, Gamma, Tweedie, Weibull))
    for f in np.array([-700.0, -40, 0, 40, 700] if exponential else [-1e6, 1e6]):
        s = 3.0 if family.adaptive else family.nuisance(y, f, None)
        assert np.isfinite(family.gradient(y, np.full(60, f), s)).all()
        assert np.isfinite(family.loss(y, np.full(60, f), s)).all()


def test_an_infinite_risk_is_an_error() -> None:
    y, f = np.array([1.0, 2.0]), np.array([0.0, 800.0])
    risk = np.array([[3.0, 2.0, 1.0], [4.0, Poisson().loss(y, f, 0.0).sum(), 1.0]])
    Poisson().check_risk(risk[:1])
    with pytest.raises(ValueError, match="infinite or NaN after iteration 1"):
        Poisson().check_risk(risk)
    with pytest.raises(ValueError, match="after iteration 2"):
        Poisson().check_risk(np.array([1.0, 2.0, np.nan]))


# ---- parameters, names, storage ------------------------------------------------------


@each
def test_families_are_values(family: Family, rng: np.random.Generator) -> None:
    family.check(responses(family, rng))
    loaded = from_plain(json.loads(json.dumps(to_plain(family, "family"))))
    assert loaded == family == pickle.loads(pickle.dumps(family))
    assert hash(loaded) == hash(family)
    assert eval(repr(family), vars(families)) == family
    assert family_of(family) is family


def test_families_have_names() -> None:
    for name, family in FAMILIES.items():
        assert family_of(name) == family()
        assert family.name == name
    assert set(get_args(FamilyName)) == set(FAMILIES)
    with pytest.raises(TypeError, match="family must be a name or a Family, got 3"):
        family_of(3)  # type: ignore[arg-type]


# ---- CuPy ----------------------------------------------------------------------------


def copy_to_host(value: Any) -> Any:
    return value.get() if hasattr(value, "get") else value


@each
def test_cupy_arrays_give_what_numpy_arrays_give(
    family: Family, rng: np.random.Generator
) -> None:
    y = responses(family, rng)
    f, w = rng.standard_normal((2, 60)), rng.random((2, 60))
    with cupy_stand_in.installed(1) as cupy:
        on_gpu = [cupy.asarray(array) for array in (y, f, w)]

        family.check(on_gpu[0])
        response = family.response(on_gpu[1]).get()
        np.testing.assert_array_equal(response, family.response(f))
        for row in (0, 1):
            found = family.offset(on_gpu[0], on_gpu[2][row])
            assert found == family.offset(y, w[row])
            assert family.offset(on_gpu[0], None) == family.offset(y, None)
        s = family.nuisance(y, f, w)
        t = family.nuisance(*on_gpu)
        np.testing.assert_array_equal(copy_to_host(t), s)
        for method in ("gradient", "loss"):
            found = getattr(family, method)(on_gpu[0], on_gpu[1], t).get()
            np.testing.assert_array_equal(found, getattr(family, method)(y, f, s))


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


def test_custom_family_without_a_minimum_needs_an_offset() -> None:
    falling = Custom("falling", gradient=lambda y, f: y * 0 + 1, loss=lambda y, f: -f)
    with pytest.raises(ValueError, match="offset of falling must be given"):
        falling.offset(np.ones(3), None)


def test_custom_family_checks_its_responses_and_arguments() -> None:
    def check(y: np.ndarray) -> None:
        raise ValueError("y must be something else")

    own().check(np.ones(3))
    with pytest.raises(ValueError, match="something else"):
        own(check=check).check(np.ones(3))
    with pytest.raises(TypeError, match="gradient of x must be a function, got None"):
        Custom("x", gradient=None, loss=abs)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="response of own must be a function, got 3"):
        own(response=3)
    with pytest.raises(ValueError, match="cuda of own must have the expressions"):
        own(cuda={"gradient": "y"})
    with pytest.raises(ValueError, match="own must have the argument cuda"):
        _ = own().cuda
    with pytest.raises(TypeError, match="family"):
        to_plain(own(), "family")


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


@each
def test_cuda_family_is_that_of_numpy(family: Family, rng: np.random.Generator) -> None:
    n = 200
    y = responses(family, rng, n)
    f = np.where(rng.random(n) < 0.8, 2, 200) * rng.standard_normal(n)
    s = np.where(rng.random(n) < 0.7, rng.uniform(0.1, 30, n), 1e7 * rng.random(n))
    s = s if family.adaptive else np.full(n, family.cuda.parameter)
    if family in REAL:
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
    f, w = np.log(f), rng.random(100)
    found = np.zeros(1)
    plain_kernel("find_shape")((1,), (1,), (y, f, w, np.int32(100), found))
    assert found[0] == pytest.approx(
        float(Gamma().nuisance(y, f, w)), rel=1e-13 / min(spread, 1)
    )


@together("size", [0.02, 0.7, 20.0, 1e4, math.inf])
@together("family", [NegativeBinomial(), Hurdle()], ids=str)
def test_cuda_theta_is_that_of_numpy(
    size: float, family: Family, rng: np.random.Generator
) -> None:
    n = 100
    f, w = rng.normal(1.5, 0.5, n), rng.random(n)
    mixing = rng.gamma(size, 1 / size, n) if size < math.inf else 1
    y = rng.poisson(np.exp(f) * mixing).astype(float)
    if family == Hurdle():
        y, f, w = y[y > 0], f[y > 0], w[y > 0]
    theta, passes = find_theta(family, y, f, w)
    wanted = float(family.nuisance(y, f, w))
    assert theta == pytest.approx(wanted, rel=max(1e-12, 16 * EPS * wanted))
    assert passes <= 14


# ---- special functions ---------------------------------------------------------------


def digamma_gap(x: Decimal) -> Decimal:
    """log x - digamma(x) in 50 digits, from the series at x + 60."""
    bernoulli = ["1/6", "-1/30", "1/42", "-1/30", "5/66", "-691/2730", "7/6"]
    bernoulli += ["-3617/510", "43867/798", "-174611/330", "854513/138"]
    far = x + 60
    total = sum((1 / (x + k) for k in range(60)), 1 / (2 * far))
    for k, number in enumerate(bernoulli, 1):
        above, below = map(Decimal, number.split("/"))
        total += above / below / (2 * k * far ** (2 * k))
    return total + x.ln() - far.ln()


ARGUMENTS = np.array([1e-8, 1e-3, 0.5, 1.0, 1.4616, 3.7, 9.999, 10, 10.5, 99, 1e4, 1e8])


def test_digamma_in_fifty_digits() -> None:
    getcontext().prec = 50
    wanted = [float(digamma_gap(Decimal(float(x)))) for x in ARGUMENTS]
    # below 10 the difference of a logarithm and digamma cancels to a twentieth at most
    np.testing.assert_allclose(
        numerics.log_minus_digamma(ARGUMENTS), wanted, rtol=64 * EPS
    )


def test_gamma_functions_are_those_of_scipy() -> None:
    x = ARGUMENTS
    stirling = special.gammaln(x) - ((x - 0.5) * np.log(x) - x)
    np.testing.assert_allclose(
        numerics.stirling_error(x) + 0.5 * math.log(2 * math.pi),
        stirling,
        rtol=1e-13,
        atol=8 * EPS * x.max() * math.log(x.max()),
    )
    np.testing.assert_allclose(
        numerics.trigamma_minus_inverse(x) + 1 / x,
        special.polygamma(1, x),
        rtol=16 * EPS,
    )


def test_cuda_gamma_functions_are_those_of_numpy() -> None:
    x = np.concatenate([ARGUMENTS, np.linspace(0.1, 20, 100)])
    found = np.empty((3, len(x)))
    args = (x, np.int32(len(x)), *found)
    plain_kernel("gamma_functions")((4,), (32,), args)
    for values, name in zip(
        found,
        ("stirling_error", "log_minus_digamma", "trigamma_minus_inverse"),
        strict=True,
    ):
        wanted = getattr(numerics, name)(x)
        cancelled = np.where(x < 10, 22, 0)  # the largest term below 10
        error = 4 * EPS * cancelled + 16 * EPS * abs(wanted)
        assert (abs(values - wanted) <= error).all(), name
