"""The steps of every family and every kind of learner, and where they lead.

The oracle of paths is `plain_boosting`, a loop over dense matrices; of their limits, it
is maximum likelihood by SciPy and scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from gam_models import COUPLED, SINGLE, columns, draw, sample
from numpy.typing import NDArray
from plain_boosting import Plain, levels, line, plain_path, spline
from scipy import special
from scipy.optimize import root
from together import together

from gpusolve import emulator
from gpusolve.gam import (
    BoostedDistribution,
    BoostedGAM,
    BoostedGAMClassifier,
    bbs,
    bols,
    brandom,
    cv_stop,
    families,
)
from gpusolve.gam.distributions import DISTRIBUTIONS

Floats = NDArray[np.float64]

RATE = 0.3

TERMS = [
    bbs("x", knots=6, boundary=(0, 1), lambda_=2.0),
    bbs("z", knots=4, degree=2, boundary=(0, 1), lambda_=1.0),
    bols("z"),
    brandom("g", lambda_=3.0),
]


def dense_learners(data: Any) -> Any:
    """`TERMS` as dense matrices."""
    return [
        spline(data["x"], 10, 2.0),
        spline(data["z"], 7, 1.0, degree=2),
        line(data["z"]),
        levels(data["g"], 3.0),
    ]


def estimator(family: Any, learners: Any = TERMS, **options: Any) -> Any:
    """A model of the family."""
    given = {"learning_rate": RATE, "family": family} | options
    if isinstance(family, families.Multinomial):
        return BoostedGAMClassifier(learners, **given | {"family": "multinomial"})
    kind = BoostedGAM if family.predictors == 1 else BoostedDistribution
    return kind(learners, **given)


def folds_of(y: Any, seed: int = 3) -> Floats:
    """The weights of two folds, (n, 2); about a third of the rows are left out."""
    weights = np.random.default_rng(seed).integers(0, 3, (len(y), 2)) * 1.0
    weights[:8] = 1.0
    return weights


def by_dense_matrices(
    family: Any, y: Any, data: Any, weights: Floats, own: Floats, **options: Any
) -> list[Plain]:
    """The paths of all folds, of data with their own weights."""
    y = family.prepare(y, data["x"][:, None])
    given = {"rate": RATE, **options}
    return [
        plain_path(
            dense_learners(data), family, y, w=w, held_out=(w == 0) * own, **given
        )
        for w in weights.T
    ]


def check_paths(family: Any, rule: str, steps: int, n: int = 90) -> None:
    data = columns(n)
    y = draw(family, np.sin(6 * data["x"]) + data["z"] - 0.5)
    weights, learners, allowed = folds_of(y), TERMS, True
    own = 1.0 + np.arange(n) % 2
    if isinstance(family, tuple(DISTRIBUTIONS.values())):
        allowed = np.ones((family.predictors, 4), bool)
        allowed[1, 0] = False
        learners = {name: TERMS[j == 1 :] for j, name in enumerate(family.links)}
    make = partial(estimator, family, learners, step_rule=rule, max_iter=steps)
    options = {"steps": steps, "scaled": rule == "scaled", "allowed": allowed}
    expected = by_dense_matrices(family, y, data, weights, own, **options)
    model, plain = make().fit(data, y, sample_weight=weights[:, 0]), expected[0]
    np.testing.assert_array_equal(np.atleast_2d(model.selected_), plain.selected)
    np.testing.assert_allclose(model.risk_, plain.risk, rtol=1e-8)
    total = np.sum([path.risk for path in model.paths_], axis=0)  # of all predictors
    np.testing.assert_allclose(total, plain.risk, rtol=1e-8)
    if family.predictors == 1:
        f = model.predict(data, kind="link")
        np.testing.assert_allclose(f, plain.f[0], rtol=1e-7, atol=1e-8)
        if family.adaptive:
            expected_s = np.reshape(plain.nuisance, model.path_.nuisance.shape)
            np.testing.assert_allclose(model.path_.nuisance, expected_s, rtol=1e-6)
    cv = cv_stop(make().fit(data, y, sample_weight=own), weights)
    for risk, w, plain in zip(cv.risk, weights.T, expected, strict=True):
        held_out = plain.held_out / own[w == 0].sum()
        np.testing.assert_allclose(risk, held_out, rtol=1e-7, atol=1e-10)


LOG_COSH = families.Custom(
    "log-cosh",
    gradient=lambda y, f: np.tanh(y - f),
    loss=lambda y, f: np.logaddexp(y - f, f - y) - np.log(2),
    curvature=lambda y, f: 1 - np.tanh(y - f) ** 2,
    offset=0.5,
)


@pytest.mark.parametrize("family", [*SINGLE, *COUPLED, LOG_COSH], ids=str)
def test_a_path_is_that_of_dense_matrices(family: Any) -> None:
    rules = {"cyclic": ["mboost"], "noncyclic": ["scaled"]}
    for rule in rules.get(getattr(family, "update", ""), ["mboost", "scaled"]):
        check_paths(family, rule, 9, 70)


@pytest.mark.parametrize("rule", ["mboost", "scaled"])
def test_a_path_without_the_compiled_object(hidden_object: None, rule: str) -> None:
    """Also if a warm start begins with the second parameter."""
    both = DISTRIBUTIONS["gaussian"]("cyclic" if rule == "mboost" else "noncyclic")
    several = families.Multinomial(3), both
    for family in (families.Gaussian(), families.Poisson(), *several):
        check_paths(family, rule, 12)
    data = columns(90)
    y = draw(both, np.sin(6 * data["x"]))
    whole = estimator(both, step_rule=rule, max_iter=8).fit(data, y)
    model = estimator(both, step_rule=rule, max_iter=5, warm_start=True).fit(data, y)
    model.set_params(max_iter=8).fit(data, y)
    np.testing.assert_array_equal(model.selected_, whole.selected_)


SHORT = [
    *(families.family_of(name) for name in families.FAMILIES if name in (
        "gaussian", "huber", "binomial", "poisson", "gamma", "negative_binomial",
        "hurdle", "coxph", "weibull", "log_normal")),
    *(families.Quantile(0.8), families.PropOdds(11), families.Multinomial(3)),
    *(DISTRIBUTIONS["gaussian"](update) for update in ("cyclic", "noncyclic")),
]  # fmt: skip
"""Families whose kernels `make test` compiles."""

OTHERS = [
    families.Laplace(), families.Expectile(0.3), families.Tweedie(1.2),
    families.LogLogistic(),
    *(kind() for name, kind in DISTRIBUTIONS.items() if name != "gaussian"),
]  # fmt: skip
"""The other types; parameters and updates are arguments of the same kernels."""


@pytest.mark.parametrize(
    "family",
    [*SHORT, *(pytest.param(family, marks=pytest.mark.slow) for family in OTHERS)],
    ids=str,
)
def test_kernels_make_the_steps_of_dense_matrices(
    device_backend: Any, family: Any
) -> None:
    n = 333 if family == families.Gaussian() else 60
    for rule in ["scaled", "mboost"][
        : 1 + (family in (families.Gaussian(), families.Multinomial(3)))
    ]:
        check_paths(family, rule, 3, n)


@pytest.mark.parametrize(
    "family",
    [
        families.Gaussian(),
        DISTRIBUTIONS["gaussian"](),
        families.Multinomial(3),
        families.CoxPH(),
        families.Huber(),
        families.Gamma(),
    ],
    ids=str,
)
def test_no_race_and_same_bits_in_any_interleaving(family: Any, emulated: None) -> None:
    data = columns(40)
    y = draw(family, np.sin(6 * data["x"]))
    made = []
    for seed in (1, 2):
        model = estimator(family, [bbs("x", knots=2), bols("z")], max_iter=1)
        with emulator.races(), emulator.schedule("random", seed):
            made.append(model.fit(data, y))
    for name in ("risk_", "selected_", "coefficients_"):
        np.testing.assert_array_equal(*(getattr(model, name) for model in made))


@pytest.mark.slow
@pytest.mark.parametrize("family", [families.Gaussian(), families.Huber()], ids=str)
@pytest.mark.parametrize("order", [".release.", ".acquire."])
def test_a_relaxed_access_of_the_barrier_is_reported(
    family: Any, order: str, copied_sources: Any, emulated: None
) -> None:
    """The arrival at the grid barrier releases, and the load that waits acquires."""
    header = copied_sources / "grid.cuh"
    text = header.read_text()
    assert order in text
    header.write_text(text.replace(order, ".relaxed."))
    data = columns(60)
    with (
        emulator.races(),
        emulator.schedule("random", 1),
        pytest.raises(emulator.KernelError, match="orders the two"),
    ):
        estimator(family, max_iter=2).fit(data, draw(family, data["x"]))


# ---- adaptive parameters -------------------------------------------------------------

MEDIANS = {
    "odd": [3.0, 1.0, 2.0],
    "even": [4.0, 1.0, 2.0, 3.0],
    "ties": [2.0, 2.0, 2.0, 5.0],
    "between": [1.0, 1.0, 2.0, 2.0],
    "scales": [1e-300, 1e-10, 1.0, 1e300],
    "neighbours": [1.0, float(np.nextafter(1, 2)), float(np.nextafter(1, 0)), 1.0],
    "denormal": [0.0, 5e-324, 5e-324, 1.0],
}


@together("name", MEDIANS)
def test_the_bound_of_huber_is_the_exact_median(device_backend: Any, name: str) -> None:
    y = np.array(MEDIANS[name])
    X = np.ones((len(y), 1))
    model = BoostedGAM([bols(0)], family="huber", max_iter=0, step_rule="mboost")
    model.fit(*map(device_backend.array, (X, y)), offset=0.0)
    assert np.ravel(model.path_.nuisance)[0] == np.median(y)
    w = np.arange(len(y)) % 3
    model.fit(*map(device_backend.array, (X, y, w)), offset=0.0)
    assert np.ravel(model.path_.nuisance)[0] == np.median(np.repeat(y, w))


# ---- the limit -----------------------------------------------------------------------


SCORES: dict[families.Family, Callable[[Floats, Floats], Floats]] = {
    families.Gaussian(): lambda y, f: y - f,
    families.Expectile(0.3): lambda y, f: np.where(y > f, 0.3, 0.7) * (y - f),
    families.Huber(0.5): lambda y, f: np.clip(y - f, -0.5, 0.5),
    families.Binomial(): lambda y, f: y - special.expit(2 * f),
    families.Binomial("logit"): lambda y, f: y - special.expit(f),
    families.Poisson(): lambda y, f: y - np.exp(f),
    families.NegativeBinomial(2.0): lambda y, f: (y - np.exp(f)) / (1 + np.exp(f) / 2),
    families.Gamma(): lambda y, f: y / np.exp(f) - 1,
}
"""The derivative of the log likelihood by the predictor, up to a factor."""

LINES = [bols(0), bols(1), bols(2)]


@pytest.mark.parametrize("family", SCORES, ids=str)
@pytest.mark.parametrize("has_offset", [False, True])
def test_lines_become_the_generalised_linear_model(
    family: families.Family, has_offset: bool
) -> None:
    X, y = sample(family)
    start = np.log(np.random.default_rng(1).uniform(0.5, 2, len(y))) * has_offset
    D = np.column_stack([np.ones(len(X)), X])
    found = root(
        lambda b: D.T @ SCORES[family](y, start + D @ b), np.zeros(4), tol=1e-13
    )
    assert np.abs(found.fun).max() < 1e-8
    model = BoostedGAM(LINES, family=family, learning_rate=RATE, max_iter=1500)
    model.fit(X, y, offset=start)
    f = model.predict(X, kind="link", offset=0)
    np.testing.assert_allclose(f, D @ found.x, atol=1e-6)


def test_classes_converge_to_the_logistic_regression() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = sample(families.Multinomial(3), 300)
    model = BoostedGAMClassifier([bols(0)], family="multinomial", learning_rate=0.5)
    model.set_params(max_iter=300).fit(X, y)
    expected = linear_model.LogisticRegression(C=np.inf, tol=1e-10).fit(X[:, :1], y)
    found, expected = model.predict_proba(X), expected.predict_proba(X[:, :1])
    np.testing.assert_allclose(found, expected, atol=1e-4)
    total = np.sum([model.effects(X, fit=k) for k in range(3)], axis=0)
    np.testing.assert_allclose(total, 0, atol=1e-10)


def test_the_limit_of_ordered_classes_is_that_of_statsmodels() -> None:
    ordinal = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    rng = np.random.default_rng(5)
    X = rng.standard_normal((200, 2))
    y = np.digitize(X @ [1.0, -0.5] + rng.logistic(size=200), [-1, 0, 1.5])
    wanted = ordinal.OrderedModel(y, X, distr="logit").fit(
        method="newton", disp=False, tol=1e-8
    )
    terms = [bols(0, intercept=False), bols(1, intercept=False)]
    model = BoostedGAM(
        terms, family=families.PropOdds(4), learning_rate=1.0, max_iter=400
    )
    model.fit(X, y)
    slopes = [model.partial_effect(j, [1.0])[0] for j in (0, 1)]
    np.testing.assert_allclose(slopes, wanted.params[:2], rtol=1e-5)
    thresholds = wanted.model.transform_threshold_params(wanted.params)[1:-1]
    np.testing.assert_allclose(model.path_.nuisance[-1], thresholds, rtol=1e-4)
    assert model.risk_[-1] == pytest.approx(-wanted.llf, rel=1e-9)
