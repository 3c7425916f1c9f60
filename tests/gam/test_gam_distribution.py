"""BoostedDistribution: what users call. `test_gam_families` has the distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gam_models import draw
from scipy import stats
from together import together

from gpusolve.gam import BoostedDistribution, bbs, bols, cv_stop
from gpusolve.gam.distributions import DISTRIBUTIONS

Data = tuple[np.ndarray, np.ndarray]


def heteroscedastic(n: int, seed: int = 0) -> Data:
    """The mean and the spread depend on the first feature, the second is noise."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    noise = np.exp(2 * X[:, 0] - 2) * rng.standard_normal(n)
    return X, np.sin(6 * X[:, 0]) + noise


@pytest.fixture(scope="module")
def data() -> Data:
    return heteroscedastic(400)


@pytest.fixture(scope="module")
def model(data: Data) -> BoostedDistribution:
    return BoostedDistribution([bbs(0), bbs(1)], max_iter=150).fit(*data)


def test_predicts_the_parameters_quantiles_and_intervals(
    model: BoostedDistribution, data: Data
) -> None:
    X = np.column_stack([np.linspace(0.05, 0.95, 50), np.full(50, 0.5)])
    found = model.predict_parameters(X)
    assert list(found) == model.parameters_ == ["mu", "sigma"]
    np.testing.assert_allclose(found["mu"], np.sin(6 * X[:, 0]), atol=0.3)
    np.testing.assert_allclose(np.log(found["sigma"]), 2 * X[:, 0] - 2, atol=0.4)
    np.testing.assert_array_equal(model.predict(X), found["mu"])
    expected = stats.norm.ppf(0.1, found["mu"], found["sigma"])
    np.testing.assert_allclose(model.predict_quantile(X, 0.1), expected)
    both = model.predict_interval(X, coverage=0.8)
    np.testing.assert_allclose(both[:, 0], expected)
    np.testing.assert_allclose(both, model.predict_quantile(X, [0.1, 0.9]))


@together(
    ("which", "weighted"),
    [("first", True), ("all", False), ("last", True), ("number", False)],
)
@together("name", [n for n in DISTRIBUTIONS if "zero" not in n])
def test_offsets_start_at_the_constants_of_maximum_likelihood(
    name: str, which: str, weighted: bool
) -> None:
    """The likelihood of the distribution has no slope there."""
    family = DISTRIBUTIONS[name]()
    rng, n, P = np.random.default_rng(7), 150, family.predictors
    start = 0.5 * rng.normal(size=(P, n))
    y = draw(family, start[0])
    w = rng.integers(0, 4, n) * 1.0 if weighted else np.ones(n)
    names = [*family.links]
    given: Any = {
        "first": start[0],
        "all": dict(zip(names, start, strict=True)),
        "last": {names[-1]: start[-1]},
        "number": 0.5,
    }[which]
    if which != "all":
        start[1 if which != "last" else 0 : P - (which == "last")] = 0
    if which == "number":
        start[0] = 0.5
    X = rng.random((n, 1))
    model = BoostedDistribution([bols(0)], family=family, max_iter=5)
    model.fit(X, y, sample_weight=w, offset=given)
    best = np.reshape(model.intercept_, (-1, 1))

    def risk(constants: np.ndarray) -> float:
        return float(w @ family.loss(y, constants + start, None))

    assert risk(best) == pytest.approx(model.risk_[0], rel=1e-9)
    for unit in 1e-3 * np.eye(P):
        up, down = (risk(best + sign * unit[:, None]) for sign in (1, -1))
        curvature = up + down - 2 * risk(best)
        rounding = 1e-8 * abs(risk(best))
        assert curvature > -rounding  # 0 in the limit of Poisson, without dispersion
        assert abs(up - down) < 1e-2 * curvature + rounding
    first = model.predict_parameters(X, offset=given, iteration=0)
    for key, values in family.parameters(best + start).items():
        np.testing.assert_allclose(first[key], values, rtol=1e-12)
    law = family.frozen(model.predict_parameters(X, offset=given))
    loss = law.logpmf(y) if name == "negative_binomial" else law.logpdf(y)
    assert model.score(X, y, w, given) == pytest.approx(loss @ w / w.sum(), rel=1e-9)
    assert -loss @ w == pytest.approx(model.risk_[-1], rel=1e-9)
    *_, last = model.staged_predict(X, offset=given)
    np.testing.assert_allclose(last, model.predict(X, offset=given), rtol=1e-12)


def test_an_offset_of_the_mean_moves_the_response() -> None:
    """y - offset has the same model, where the mean is on its own scale."""
    X, y = heteroscedastic(60)
    added = np.random.default_rng(1).normal(size=60)
    learners = [bbs(0), bbs(1)]
    model = BoostedDistribution(learners, max_iter=40)
    model.fit(X, y + added, offset=added)
    plain = BoostedDistribution(learners, max_iter=40).fit(X, y)
    np.testing.assert_array_equal(model.selected_, plain.selected_)
    np.testing.assert_allclose(model.risk_, plain.risk_, rtol=1e-9)
    found = model.predict_quantile(X, 0.3, offset=added) - added
    np.testing.assert_allclose(found, plain.predict_quantile(X, 0.3), atol=1e-9)
    one, other = (
        cv_stop(own, "kfold", n_folds=3, random_state=0) for own in (model, plain)
    )
    np.testing.assert_allclose(one.risk, other.risk, rtol=1e-9)
    assert not model.explain(X, offset=added, fit="sigma").offset.any()
    np.testing.assert_array_equal(model.explain(X, offset=added).offset, added)


def test_learners_of_each_parameter(data: Data) -> None:
    learners = {"mu": [bbs(0), bols(1)], "sigma": {1: bbs()}}
    model = BoostedDistribution(learners, max_iter=60).fit(*data)
    assert model.names_ == ["bbs(0)", "bols(1)", "bbs(1)"]
    assert set(model.selected_[1]) == {-1, 2}
    assert not model.effects(data[0], fit="sigma")[:, :2].any()
    names = [line.name for line in model.summary().learners]
    assert sorted(names) == ["mu: bbs(0)", "mu: bols(1)", "sigma: bbs(1)"]
    other = BoostedDistribution({"mu": [bbs(0, df=5)], "sigma": [bbs(0)]}, max_iter=9)
    assert other.fit(*data).names_ == ["bbs(0, df=5)", "bbs(0)"]


def test_a_density_ends_at_the_rounding_of_the_response() -> None:
    """y is a function of x: the likelihood has no bound, and sigma is soon 0."""
    x = np.repeat([3.0, 1.0, 3.0, 1.0], 4)
    y = np.where(x == 3, 1.0, 2.0)
    finest = np.log(np.finfo(float).eps * 2)
    pairs = np.c_[x, np.repeat([1, 2, 3, 4], 4)]
    for w, X in ((np.ones(16), pairs), (np.r_[10.0, np.ones(15)], x[:, None])):
        model = BoostedDistribution(learning_rate=1).fit(X, y, sample_weight=w)
        assert finest - 2 < model.risk_[-1] / w.sum() < finest / 2


def test_draws_quantiles(model: BoostedDistribution, data: Data) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    X, y = data
    (axis,) = model.plot_quantiles(X, y, 0, q=(0.9, 0.1, 0.5)).axes
    dots, *curves = axis.lines
    np.testing.assert_array_equal(dots.get_xdata(), X[:, 0])
    at = np.column_stack([curves[0].get_xdata(), np.full(200, np.median(X[:, 1]))])
    for curve, q in zip(curves, (0.1, 0.5, 0.9), strict=True):
        np.testing.assert_allclose(curve.get_ydata(), model.predict_quantile(at, q))
    assert axis.get_xlabel() == "x0"
    assert model.plot(fit="sigma").axes
    X, y = heteroscedastic(100)
    frame = {"x": X[:, 0], "g": ["a", "b", "b", "b"] * 25}
    beside = BoostedDistribution(max_iter=10).fit(frame, y)
    curve = beside.plot_quantiles(frame, y, "x", q=[0.5]).axes[0].lines[1]
    at = {"x": curve.get_xdata(), "g": ["b"] * 200}
    np.testing.assert_allclose(curve.get_ydata(), beside.predict_quantile(at, 0.5))
