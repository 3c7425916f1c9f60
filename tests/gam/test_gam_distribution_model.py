"""BoostedDistribution, and the multinomial classifier: what users call."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy import special, stats
from together import together

from gpusolve._device.arrays import is_cupy, on_host
from gpusolve.gam import (
    BoostedDistribution,
    BoostedGAM,
    BoostedGAMClassifier,
    bbs,
    bols,
    bootstrap_effects,
    cv_stop,
    distributions,
)
from gpusolve.gam.families import Multinomial

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


# ---- distributions -------------------------------------------------------------------


def test_predicts_the_parameters(model: BoostedDistribution) -> None:
    X = np.column_stack([np.linspace(0.05, 0.95, 50), np.full(50, 0.5)])
    found = model.predict_parameters(X)
    assert list(found) == model.parameters_ == ["mu", "sigma"]
    np.testing.assert_allclose(found["mu"], np.sin(6 * X[:, 0]), atol=0.3)
    np.testing.assert_allclose(np.log(found["sigma"]), 2 * X[:, 0] - 2, atol=0.4)
    np.testing.assert_array_equal(model.predict(X), found["mu"])


LAWS = {
    "gaussian": ("real", lambda mu, sigma: stats.norm(mu, sigma)),
    "student_t": ("real", lambda mu, sigma, df: stats.t(df, mu, sigma)),
    "gamma": ("positive", lambda mu, shape: stats.gamma(shape, scale=mu / shape)),
    "beta": ("share", lambda mu, phi: stats.beta(mu * phi, (1 - mu) * phi)),
    "negative_binomial": (
        "count",
        lambda mu, theta: stats.nbinom(theta, theta / (theta + mu)),
    ),
}
LINKS = {"identity": lambda f: f, "log": np.exp, "logit": special.expit}


@pytest.mark.parametrize("family", LAWS)
@pytest.mark.parametrize("which", ["first", "all", "dict", "number"])
@pytest.mark.parametrize("weighted", [False, True])
def test_offsets_start_at_the_constants_of_maximum_likelihood(
    family: Any, which: str, weighted: bool
) -> None:
    """The likelihood is SciPy's, and has no slope there."""
    kind, law = LAWS[family]
    rng = np.random.default_rng(7)
    n, size = 150, 1000.0 if kind == "real" else 1.0
    added = rng.normal(size=(3, n)) * 0.7
    y = {
        "real": size * (3 + rng.standard_t(3, n) + added[0]),
        "positive": rng.gamma(2, np.exp(added[0])),
        "share": np.clip(rng.beta(2, 3, n), 0.01, 0.99),
        "count": rng.negative_binomial(1, 1 / (1 + 2 * np.exp(added[0]))) * 1.0,
    }[kind]
    added[0] *= size
    w = rng.integers(0, 4, n) * 1.0 if weighted else np.ones(n)
    model = BoostedDistribution([bols(0)], family=family, max_iter=5)
    names = list(model._distribution().links)
    given = {
        "first": added[0],
        "all": dict(zip(names, added, strict=False)),
        "dict": {names[-1]: added[-1]},
        "number": 0.5,
    }[which]
    start = np.zeros((len(names), n))
    if which == "dict":
        start[-1] = added[-1]
    elif which == "number":
        start[0] = 0.5
    else:
        rows = 1 if which == "first" else len(names)
        start[:rows] = added[:rows]
    X = rng.random((n, 1))
    model.fit(X, y, sample_weight=w, offset=given)
    links = model._distribution().links.values()

    def minus_log_likelihood(constants: np.ndarray, step: Any = 0.0) -> float:
        f = constants[:, None] + start
        values = [LINKS[link](own) for link, own in zip(links, f, strict=True)]
        frozen = law(*values)
        density = frozen.logpmf(y) if kind == "count" else frozen.logpdf(y)
        return -float(density @ w)

    best = np.array(model.intercept_)
    assert minus_log_likelihood(best) == pytest.approx(model.risk_[0], rel=1e-9)
    for p, link in enumerate(links):
        unit = 1e-3 * (size if link == "identity" else 1.0)
        up, down = (
            minus_log_likelihood(best + sign * unit * np.eye(len(best))[p])
            for sign in (1, -1)
        )
        curvature = up + down - 2 * minus_log_likelihood(best)
        assert curvature > 0
        assert abs(up - down) < 1e-2 * curvature
    found = model.predict_parameters(X, offset=given, iteration=0)
    for name, link, own in zip(names, links, best[:, None] + start, strict=True):
        np.testing.assert_allclose(found[name], LINKS[link](own), rtol=1e-12)
    density = law(*model.predict_parameters(X, offset=given).values())
    loss = density.logpmf(y) if kind == "count" else density.logpdf(y)
    assert model.score(X, y, w, given) == pytest.approx(loss @ w / w.sum(), rel=1e-9)
    assert -loss @ w == pytest.approx(model.risk_[-1], rel=1e-9)
    stages = [*model.staged_predict(X, offset=given)]
    np.testing.assert_allclose(stages[-1], model.predict(X, offset=given), rtol=1e-12)


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
    cv = cv_stop(model, "kfold", n_folds=3, random_state=0)
    other = cv_stop(plain, "kfold", n_folds=3, random_state=0)
    np.testing.assert_allclose(cv.risk, other.risk, rtol=1e-9)
    explained = model.explain(X, offset=added, fit="sigma")
    assert not explained.offset.any()
    np.testing.assert_array_equal(model.explain(X, offset=added).offset, added)


def test_quantiles_and_intervals_are_scipys(
    model: BoostedDistribution, data: Data
) -> None:
    X, y = data
    given = model.predict_parameters(X)
    expected = stats.norm.ppf(0.1, given["mu"], given["sigma"])
    np.testing.assert_allclose(model.predict_quantile(X, 0.1), expected)
    both = model.predict_interval(X, coverage=0.8)
    np.testing.assert_allclose(both[:, 0], expected)
    np.testing.assert_allclose(both, model.predict_quantile(X, [0.1, 0.9]))
    score = stats.norm.logpdf(y, given["mu"], given["sigma"])
    assert model.score(X, y) == pytest.approx(score.mean())
    weights = np.arange(len(y)) % 3
    assert model.score(X, y, weights) == pytest.approx(
        np.average(score, weights=weights)
    )


def test_the_risk_is_minus_the_log_likelihood(
    model: BoostedDistribution, data: Data
) -> None:
    X, y = data
    assert model.risk_.shape == (151,)
    assert model.risk_[-1] == pytest.approx(-len(y) * model.score(X, y))
    staged = list(model.staged_predict(X))
    np.testing.assert_allclose(staged[-1], model.predict(X))
    np.testing.assert_allclose(staged[9], model.predict(X, iteration=10))
    early = pickle.loads(pickle.dumps(model)).stop_at(10)
    np.testing.assert_allclose(early.predict(X), staged[9])
    np.testing.assert_array_equal(early.risk_, model.risk_[:11])


def test_the_summary_has_the_learners_of_each_parameter(
    model: BoostedDistribution,
) -> None:
    summary = model.summary()
    lines = {line.name: line for line in summary.learners}
    assert set(lines) == {f"{p}: bbs({j})" for p in ("mu", "sigma") for j in (0, 1)}
    assert sum(line.selected for line in lines.values()) == pytest.approx(1)
    assert sum(line.share for line in lines.values()) == pytest.approx(1)
    reduced = sum(line.reduction for line in lines.values())
    assert reduced == pytest.approx((model.risk_[0] - model.risk_[-1]) / model.n_rows_)
    assert sum(model.importance().values()) == pytest.approx(reduced)
    by_hand = np.array([0.0, 0.0])
    for p, selected in enumerate(model.selected_):
        by_hand[p] = (model.risk_[:-1] - model.risk_[1:])[selected == 0].sum()
    by_hand /= model.n_rows_
    assert lines["mu: bbs(0)"].reduction == pytest.approx(by_hand[0])
    assert lines["sigma: bbs(0)"].reduction == pytest.approx(by_hand[1])


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
    with pytest.raises(ValueError, match="at least one learner"):
        BoostedDistribution({"mu": [bbs(0)], "sigma": []}).fit(*data)


def test_the_number_of_steps_by_folds(data: Data) -> None:
    X, y = data
    model = BoostedDistribution(max_iter=30).fit(X, y)
    half = np.arange(len(y)) % 2
    found = cv_stop(model, [(np.flatnonzero(half), np.flatnonzero(1 - half))])
    other = BoostedDistribution(max_iter=30).fit(X[half == 1], y[half == 1])
    rest = X[half == 0], y[half == 0]
    # The knots are of all rows, so that scores differ a little.
    assert found.risk[0, -1] == pytest.approx(-other.score(*rest), abs=0.02)
    stopped = BoostedDistribution(
        max_iter=2000, early_stopping=True, random_state=0
    ).fit(X, y)
    assert 10 < stopped.n_iter_ < 2000


def test_samples_of_effects_of_a_parameter(model: BoostedDistribution) -> None:
    samples = bootstrap_effects(model, 4, max_iter=20, random_state=0)
    lower, upper = samples.interval(0, np.array([0.1, 0.9]), fit=1)
    assert (lower <= upper).all()
    assert lower[1] > upper[0]  # sigma grows


@pytest.mark.parametrize("update", ["noncyclic", "cyclic"])
def test_intervals_cover_new_responses(update: Any) -> None:
    # 0.5 % is the standard deviation of the share; in each half of the range 0.7 %.
    family = distributions.Gaussian(update)
    model = BoostedDistribution(family=family, max_iter=300)
    model.fit(*heteroscedastic(4000))
    X, y = heteroscedastic(4000, seed=1)
    lower, upper = model.predict_interval(X, coverage=0.9).T
    inside = (lower < y) & (y < upper)
    assert abs(inside.mean() - 0.9) < 0.02
    for half in (X[:, 0] < 0.5, X[:, 0] > 0.5):
        assert abs(inside[half].mean() - 0.9) < 0.03
    constant = y.std() * stats.norm.ppf(0.95)
    assert (upper - lower).mean() < 0.6 * 2 * constant


def test_data_on_a_device_stay_there(device_backend: Any, data: Data) -> None:
    X, y = device_backend.array(data[0][:100]), device_backend.array(data[1][:100])
    model = BoostedDistribution(max_iter=5).fit(X, y)
    host = BoostedDistribution(max_iter=5).fit(data[0][:100], data[1][:100])
    for found, expected in (
        (model.predict(X), host.predict(data[0][:100])),
        (model.predict_interval(X), host.predict_interval(data[0][:100])),
    ):
        assert is_cupy(found) == is_cupy(X)
        np.testing.assert_allclose(on_host(found), expected, rtol=1e-7)


# ---- wrong use -----------------------------------------------------------------------


# ---- the picture of quantiles --------------------------------------------------------


def test_draws_quantiles_over_a_feature(model: BoostedDistribution, data: Data) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    X, y = data
    figure = model.plot_quantiles(X, y, 0, q=(0.9, 0.1, 0.5))
    (axis,) = figure.axes
    dots, *curves = axis.lines
    np.testing.assert_array_equal(dots.get_xdata(), X[:, 0])
    at = np.column_stack([curves[0].get_xdata(), np.full(200, np.median(X[:, 1]))])
    for curve, q in zip(curves, (0.1, 0.5, 0.9), strict=True):
        np.testing.assert_allclose(curve.get_ydata(), model.predict_quantile(at, q))
    assert axis.get_xlabel() == "x0"
    with pytest.raises(ValueError, match="feature must be one of"):
        model.plot_quantiles(X, y)
    assert model.plot(fit="sigma").axes


def test_draws_quantiles_next_to_a_factor() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    X, y = heteroscedastic(100)
    frame = {"x": X[:, 0], "g": ["a", "b", "b", "b"] * 25}
    model = BoostedDistribution(max_iter=10).fit(frame, y)
    figure = model.plot_quantiles(frame, y, "x", q=[0.5])
    curve = figure.axes[0].lines[1]
    at = {"x": curve.get_xdata(), "g": ["b"] * 200}
    np.testing.assert_allclose(curve.get_ydata(), model.predict_quantile(at, 0.5))
    with pytest.raises(ValueError, match="must be numeric, got the factor 'g'"):
        model.plot_quantiles(frame, y, "g")


# ---- classes -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three() -> Data:
    rng = np.random.default_rng(2)
    X = rng.random((300, 3))
    position = 3 * X[:, 0] + 0.3 * rng.standard_normal(300)
    return X, np.array(["low", "middle", "top"])[np.clip(position, 0, 2).astype(int)]


def test_a_multinomial_model_of_three_classes(three: Data) -> None:
    X, y = three
    model = BoostedGAMClassifier(family="multinomial", max_iter=60).fit(X, y)
    assert model.family_ == Multinomial(3)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    own = p[np.arange(300), np.searchsorted(model.classes_, y)]
    assert model.risk_.shape == (61,)
    assert model.risk_[-1] == pytest.approx(-np.log(own).sum())
    assert model.score(X, y) > 0.8
    assert (model.selected_ == model.selected_[0]).all()
    effects = [model.effects(X, fit=name) for name in ("low", "middle", "top")]
    np.testing.assert_allclose(np.sum(effects, axis=0), 0, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    reduced = (model.risk_[0] - model.risk_[-1]) / 300
    assert sum(model.importance().values()) == pytest.approx(reduced)
    assert cv_stop(model, "kfold", n_folds=3, random_state=0).best_iteration > 5


def test_two_classes_are_the_logistic_model() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((300, 1))
    y = rng.random(300) < x[:, 0]
    options: Any = {"learning_rate": 0.5, "max_iter": 200}
    both = [
        BoostedGAMClassifier([bols(0)], family=family, **options).fit(x, y)
        for family in ("binomial", "multinomial")
    ]
    one, other = (model.predict_proba(x) for model in both)
    np.testing.assert_allclose(one, other, atol=1e-6)
    logit = both[1].decision_function(x)
    np.testing.assert_allclose(logit, np.log(other[:, 1] / other[:, 0]), atol=1e-10)


CONSTANTS = {
    "gaussian": (0.0, 0.1, -3.0, 1e10),
    "student_t": (0.0, 0.1, -3.0, 1e10),
    "gamma": (0.1, 1e10),
    "beta": (0.1, 0.5),
    "negative_binomial": (1.0, 7.0),
    "zero_inflated_poisson": (1.0, 7.0),
    "zero_inflated_negative_binomial": (1.0, 7.0),
}
"""A response of one value, for which no parameters have the largest likelihood."""


@together("family", CONSTANTS)
@together("weights", [False, True])
def test_a_constant_response_is_an_error(family: str, weights: bool) -> None:
    """Also if other values have no weight."""
    assert set(CONSTANTS) == set(distributions.DISTRIBUTIONS)
    X = np.random.default_rng(0).random((40, 2))
    for value in CONSTANTS[family]:
        y, w = np.full(40, value), None
        if weights:
            w = np.ones(40)
            w[:3], y[:3] = 0, 0.25 if family == "beta" else 2
        with pytest.raises(ValueError, match=f"{family} .* must not be constant"):
            BoostedDistribution(family=family, max_iter=3).fit(X, y, w)


def test_a_quantile_of_a_constant_is_the_constant() -> None:
    X = np.random.default_rng(0).random((40, 2))
    for family in ("quantile", "laplace", "huber"):
        model = BoostedGAM(family=family, max_iter=20).fit(X, np.full(40, 0.3))
        np.testing.assert_array_equal(model.predict(X), 0.3)
