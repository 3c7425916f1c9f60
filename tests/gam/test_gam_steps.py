"""Scaled steps, offsets in addition to a constant, deviance, callbacks and warnings."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats
from together import together

from gpusolve._device.kernels import EmulatedDevice
from gpusolve.gam import (
    BoostedGAM,
    BoostedGAMClassifier,
    aic_stop,
    bbs,
    bols,
    cv_stop,
    gamboost,
)
from gpusolve.gam._boosting import learner_fits, path, stacked, stacked_kernel
from gpusolve.gam._boosting.batch import Fits
from gpusolve.gam._boosting.problem import designs_of, prepare
from gpusolve.gam._terms.frame import Frame
from gpusolve.gam.families import (
    Binomial,
    Custom,
    Expectile,
    Family,
    Gamma,
    Gaussian,
    Huber,
    Laplace,
    NegativeBinomial,
    Poisson,
    Quantile,
    family_of,
)

Floats = NDArray[np.float64]

LOG_COSH = Custom(
    "log-cosh",
    gradient=lambda y, f: np.tanh(y - f),
    loss=lambda y, f: np.logaddexp(y - f, f - y) - math.log(2),
    curvature=lambda y, f: 1 - np.tanh(y - f) ** 2,
)


def draw(family: Family, f: Floats, seed: int = 0) -> Floats:
    """Responses at the predictor f."""
    rng = np.random.default_rng(seed)
    match family.name:
        case "binomial":
            return (rng.random(f.shape) < family.response(f)).astype(float)
        case "poisson":
            return rng.poisson(np.exp(f)).astype(float)
        case "negative_binomial":
            return rng.poisson(np.exp(f) * rng.gamma(2, 0.5, f.shape)).astype(float)
        case "gamma":
            return np.exp(f) * rng.gamma(2, 0.5, f.shape)
    return f + rng.standard_t(3, f.shape)


def sample(family: Family, scale: float = 0.0, rows: int = 300) -> tuple[Floats, Any]:
    """Two columns, and a response whose predictor is `scale` plus a wave."""
    X = np.random.default_rng(1).random((rows, 2))
    return X, draw(family, scale + np.sin(6 * X[:, 0]))


# ---- the size of a step --------------------------------------------------------------


@together("family", ["laplace", "huber", Quantile(0.8), Expectile(0.8)], ids=str)
def test_scaled_steps_do_not_depend_on_the_unit(family: Any) -> None:
    X, y = sample(Gaussian())
    expected = BoostedGAM(family=family, max_iter=40).fit(X, y)
    for unit in (1e-3, 1e6):
        found = BoostedGAM(family=family, max_iter=40).fit(X, unit * y)
        np.testing.assert_array_equal(found.selected_, expected.selected_)
        np.testing.assert_allclose(
            found.predict(X), unit * expected.predict(X), rtol=1e-8, atol=1e-8 * unit
        )
    model = BoostedGAM(family=family, max_iter=100, learning_rate=0.1)
    model.fit(X, 1000 * np.sin(6 * X[:, 0]))
    assert model.score(X, 1000 * np.sin(6 * X[:, 0])) > 0.7


def test_gamma_does_not_depend_on_the_unit() -> None:
    X, y = sample(Gamma())
    expected = BoostedGAM(family="gamma", max_iter=40).fit(X, y).predict(X)
    found = BoostedGAM(family="gamma", max_iter=40).fit(X, 1e5 * y).predict(X)
    np.testing.assert_allclose(found, 1e5 * expected, rtol=1e-8)


def test_squared_errors_have_the_steps_of_mboost() -> None:
    X, y = sample(Gaussian())
    one, other = (
        BoostedGAM(step_rule=rule, max_iter=40).fit(X, y)
        for rule in ("scaled", "mboost")
    )
    np.testing.assert_array_equal(one.risk_, other.risk_)


@together("family", ["poisson", "negative_binomial", "gamma", "binomial"], ids=str)
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_risk_falls_for_all_means(family: str, rate: float) -> None:
    for scale in (-3.0, 1.0, 8.0):
        if family == "binomial" and scale == 8:
            continue
        X, y = sample(family_of(family), scale)
        model = BoostedGAM(family=family, learning_rate=rate, max_iter=60).fit(X, y)
        assert (np.diff(model.risk_) <= 1e-9 * abs(model.risk_[0])).all()
        assert model.score(X, y) > 0.1


def test_exposures_over_decades() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((800, 1))
    exposure = 10 ** (6 * rng.random(800) - 2)
    y = rng.poisson(exposure * np.exp(np.sin(6 * x[:, 0])))
    model = BoostedGAM(family="poisson", max_iter=100).fit(
        x, y, offset=np.log(exposure)
    )
    assert (np.diff(model.risk_) <= 0).all()
    effect = model.predict(x, kind="link", offset=0)
    assert abs(effect - np.sin(6 * x[:, 0])).mean() < 0.03


@together(
    "family",
    [Binomial(), Binomial("logit"), Poisson(), Gamma(2.0), NegativeBinomial(1.5)],
    ids=str,
)
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


@together("family", [Huber(0.7), Expectile(0.2)], ids=str)
def test_curvatures_of_residuals_lead_to_the_response(family: Family) -> None:
    y, f = np.full(7, 0.5), np.linspace(-4, 4, 7)
    u, h = (
        rows(y, f, family.parameter) for rows in (family.gradient, family.curvature)
    )
    np.testing.assert_allclose(u / h, y - f, rtol=1e-14)


def test_a_family_of_your_own_has_a_curvature() -> None:
    X, y = sample(Gaussian())
    names = {"mean of squares": Gaussian(), "log-cosh": LOG_COSH}
    for family in names.values():
        model = BoostedGAM(family=family, max_iter=3).fit(X, y)
        f = [model.predict(X, iteration=k, kind="link") for k in (0, 1)]
        d, h = f[1] - f[0], family.curvature(y, f[0], 0)
        step = BoostedGAM(family=family, max_iter=1, step_rule="mboost").fit(X, y)
        plain = step.predict(X, kind="link") - f[0]
        factor = 1.0 if h is None else (d @ d) / (h @ d**2)
        np.testing.assert_allclose(d, factor * plain, rtol=1e-9, atol=1e-12)
    with pytest.raises(TypeError, match="curvature of a must be a function"):
        Custom("a", gradient=np.add, loss=np.add, curvature=1)


def test_folds_and_criteria_have_the_steps_of_the_model() -> None:
    X, y = sample(Poisson(), 3.0)
    model = BoostedGAM(family="poisson", max_iter=30).fit(X, y)
    halves = np.stack([np.arange(300) < 150, np.arange(300) >= 150], axis=1)
    cv = cv_stop(model, halves.astype(float))
    half = BoostedGAM(family="poisson", max_iter=30).fit(X[:150], y[:150])
    f = half.predict(X[150:], kind="link")
    loss = Poisson().loss(y[150:], f, 0.0).mean()
    assert cv.risk[0, -1] == pytest.approx(loss, rel=1e-2)  # other knots
    both = [
        BoostedGAMClassifier(family=Binomial(link), max_iter=20)
        for link in Binomial.TYPES
    ]
    one, other = (model.fit(X, y > 20).decision_function(X) for model in both)
    np.testing.assert_allclose(2 * one, other, rtol=1e-8)
    assert aic_stop(model).df[-1] < 30


# ---- offsets -------------------------------------------------------------------------


@together(
    "family",
    [Gaussian(), Laplace(), Quantile(0.3), Expectile(0.3), Huber(0.5), Binomial(),
     Poisson(), Gamma(), NegativeBinomial(), LOG_COSH],
    ids=str,
)  # fmt: skip
def test_the_constant_has_the_least_risk_in_addition_to_an_offset(
    family: Family,
) -> None:
    rng = np.random.default_rng(0)
    start, w = rng.normal(0, 2, 81), rng.random(81)
    y = draw(family, start + 0.7)
    found = family.offset_from(start, y, w)
    at = start + found
    s = 1e8 if family.name == "negative_binomial" else family.nuisance(y, at, w)
    risk = [float(w @ family.loss(y, start + c, s)) for c in (found - 1e-3, found)]
    risk.append(float(w @ family.loss(y, start + found + 1e-3, s)))
    assert risk[1] <= min(risk)
    if family.name in ("gaussian", "poisson", "binomial", "gamma"):
        assert abs(w @ family.gradient(y, at, s)) < 1e-8 * (w @ abs(y))


def test_offsets_in_other_units_make_the_same_model() -> None:
    rng = np.random.default_rng(0)
    x, years = rng.random((500, 1)), rng.uniform(0.5, 3, 500)
    y = rng.poisson(6.4 * np.exp(0.3 * np.sin(6 * x[:, 0])) * years)
    models = [
        BoostedGAM(family="poisson", max_iter=100).fit(
            x, y, offset=np.log(unit * years)
        )
        for unit in (1, 365)
    ]
    one, other = (model.predict(x, kind="link", offset=0) for model in models)
    np.testing.assert_allclose(one, other + math.log(365), rtol=1e-9)
    assert models[0].intercept_ == pytest.approx(math.log(y.sum() / years.sum()))
    data = {"x": x[:, 0], "y": y, "years": years}
    formula = "y ~ x + offset(log(365 * years))"
    scaled = gamboost(formula, data, family="poisson", step_rule="scaled", max_iter=9)
    assert scaled.intercept_ == pytest.approx(models[1].intercept_)
    assert gamboost(formula, data, family="poisson", max_iter=0).intercept_ == 0


# ---- the score -----------------------------------------------------------------------


def test_scores_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    w = np.random.default_rng(0).integers(0, 3, 300)
    for family, score, options in (
        (Poisson(), "d2_tweedie_score", {"power": 1}),
        (Gamma(), "d2_tweedie_score", {"power": 2}),
        (Laplace(), "d2_absolute_error_score", {}),
        (Quantile(0.3), "d2_pinball_score", {"alpha": 0.3}),
    ):
        X, y = sample(family)
        model = BoostedGAM(family=family, max_iter=20).fit(X, y)
        expected = getattr(metrics, score)(
            y, model.predict(X), sample_weight=w, **options
        )
        found = model.score(X, y, sample_weight=w)
        precision = 1e-3 if family.name == "quantile" else 1e-9  # other midpoints
        assert found == pytest.approx(expected, rel=precision)


def test_the_score_of_counts_with_offsets() -> None:
    rng = np.random.default_rng(0)
    x, start = rng.random((200, 1)), rng.normal(0, 1, 200)
    y = rng.poisson(np.exp(np.sin(6 * x[:, 0]) + start)).astype(float)
    model = BoostedGAM(family="negative_binomial", max_iter=30).fit(x, y, offset=start)
    theta = model.path_.nuisance[-1]

    def deviance(mean: Floats) -> float:
        def log_likelihood(at: Floats) -> Floats:
            return stats.nbinom.logpmf(y, theta, theta / (theta + at))

        perfect = log_likelihood(np.maximum(y, 1e-300))
        return float((perfect - log_likelihood(mean)).sum())

    constant = y.sum() / np.exp(start).sum()
    expected = 1 - deviance(model.predict(x, offset=start)) / deviance(
        constant * np.exp(start)
    )
    assert model.score(x, y, offset=start) == pytest.approx(expected, rel=1e-6)
    classes = BoostedGAMClassifier(max_iter=9).fit(x, y > 1, offset=start)
    right = classes.predict(x, offset=start) == (y > 1)
    assert classes.score(x, y > 1, offset=start) == right.mean()


@pytest.mark.filterwarnings("ignore:offset is not given")  # by a scorer
def test_offsets_are_routed() -> None:
    sklearn = pytest.importorskip("sklearn")
    from sklearn.model_selection import KFold, cross_val_score

    rng = np.random.default_rng(0)
    x, start = rng.random((200, 1)), rng.normal(0, 1, 200)
    y = rng.poisson(np.exp(np.sin(6 * x[:, 0]) + start))
    with sklearn.config_context(enable_metadata_routing=True):
        model = BoostedGAM(family="poisson", max_iter=20).set_fit_request(offset=True)
        model.set_score_request(offset=True).set_predict_request(offset=True)
        found = cross_val_score(model, x, y, cv=3, params={"offset": start})
        classes = BoostedGAMClassifier(max_iter=5).set_fit_request(offset=True)
        classes.set_predict_proba_request(offset=True)
        classes.set_decision_function_request(offset=False)
        classes.set_predict_log_proba_request(offset=False)
        losses = cross_val_score(
            classes, x, y > 1, params={"offset": start}, scoring="neg_log_loss"
        )
    for (train, test), score in zip(KFold(3).split(x), found, strict=True):
        part = BoostedGAM(family="poisson", max_iter=20)
        part.fit(x[train], y[train], offset=start[train])
        assert score == part.score(x[test], y[test], offset=start[test])
    assert losses.mean() > -0.6


# ---- scikit-learn --------------------------------------------------------------------


def test_features_are_selected() -> None:
    selection = pytest.importorskip("sklearn.feature_selection")
    X = np.random.default_rng(0).random((200, 5))
    y = np.sin(6 * X[:, 3]) + X[:, 1]
    kept = [False, True, False, True, False]
    model = BoostedGAM(n_basis=10, max_iter=30)
    found = selection.SelectFromModel(model, threshold=0.01).fit(X, y)
    assert found.get_support().tolist() == kept
    found = selection.RFE(model, n_features_to_select=2).fit(X, y)
    assert found.support_.tolist() == kept


def test_a_model_of_a_formula_is_cloned() -> None:
    base = pytest.importorskip("sklearn.base")
    rng = np.random.default_rng(0)
    data: dict[str, Any] = {"x": rng.random(90), "g": rng.choice(["a", "b"], 90)}
    data["y"] = rng.poisson(3 + data["x"])
    for formula, family in (
        ("y ~ bbs(center(x), knots=4) + g + offset(log(x + 1))", "poisson"),
        ("g ~ x", "binomial"),
    ):
        model = gamboost(formula, data, family=family, max_iter=9)
        copy = base.clone(model)
        assert repr(formula) in repr(copy)
        copy.fit(data)
        np.testing.assert_array_equal(copy.risk_, model.risk_)
        np.testing.assert_array_equal(copy.predict(data), model.predict(data))
    part = {name: column[:50] for name, column in data.items()}
    copy = base.clone(gamboost("y ~ center(x)", data)).fit(part, part["y"])
    alone = gamboost("y ~ center(x)", part)
    np.testing.assert_array_equal(copy.risk_, alone.risk_)
    np.testing.assert_array_equal(copy.predict(data), alone.predict(data))


def test_parameters_of_splines_act_or_raise() -> None:
    X, y = sample(Gaussian())
    data = {"x": X[:, 0], "z": X[:, 1], "y": y}
    model = gamboost("y ~ x + bbs(z)", data, df=2.5, n_basis=9, max_iter=2)
    assert model.names_ == ["bbs(x, df=2.5, knots=5)", "bbs(z)"]
    model = gamboost("y ~ x", data, penalty="cyclic", n_basis=9, max_iter=2)
    assert model.terms_[0].transform().shape[1] == 9
    for formula, options in (("y ~ bbs(x)", {}), ("y ~ x", {"baselearner": "bols"})):
        with pytest.raises(ValueError, match="default splines must be left out"):
            gamboost(formula, data, df=3, **options)
    for name, value in (("df", 3), ("n_basis", 9), ("degree", 2), ("penalty", None)):
        with pytest.raises(ValueError, match=f"{name} must be left out"):
            BoostedGAM([bbs(0), bols(1)], **{name: value}).fit(X, y)


# ---- warnings ------------------------------------------------------------------------


def test_a_rising_risk_is_a_warning() -> None:
    X, y = sample(Gaussian())
    with pytest.warns(UserWarning, match=r"rose at iteration \d+: learning_rate"):
        BoostedGAM(learning_rate=3, max_iter=100).fit(X, y)


def test_a_last_iteration_that_is_best_is_told() -> None:
    X, y = sample(Gaussian())
    with pytest.warns(UserWarning, match="max_iter should be larger"):
        BoostedGAM(max_iter=3, early_stopping=True, random_state=0).fit(X, y)
    model = BoostedGAM(max_iter=3).fit(X, y)
    assert "raise max_iter" in repr(cv_stop(model, n_folds=3, random_state=0))
    assert "still falling" in model.summary().facts
    model = BoostedGAM(max_iter=2000, learning_rate=0.5, n_basis=5).fit(X, y)
    assert "still falling" not in model.summary().facts


# ---- callbacks and interrupts --------------------------------------------------------


def test_a_callback_sees_and_ends_the_fit(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = sample(Gaussian())
    seen: list[tuple[int, float]] = []

    def callback(iteration: int, risk: float) -> bool:
        seen.append((iteration, risk))
        return iteration == 7

    model = BoostedGAM(
        max_iter=20, callback=callback, progress=True, warm_start=True
    ).fit(X, y)
    assert "boosting" in capsys.readouterr().err
    assert model.n_iter_ == 7
    assert seen == list(zip(range(1, 8), model.risk_[1:], strict=True))
    whole = BoostedGAM(max_iter=7, progress=False).fit(X, y)
    np.testing.assert_allclose(model.risk_, whole.risk_, rtol=1e-10)
    model.set_params(max_iter=9).fit(X, y)
    assert [iteration for iteration, _ in seen[7:]] == [8, 9]


def test_callbacks_that_do_not_fit() -> None:
    X, y = sample(Gaussian())
    with pytest.raises(TypeError, match="callback must be a function"):
        BoostedGAM(callback=3).fit(X, y)
    for parameters in ({"early_stopping": True}, {"method": "gram"}):
        with pytest.raises(ValueError, match="callback must be None with"):
            BoostedGAM(callback=print, **parameters).fit(X, y)


@pytest.mark.parametrize("method", ["stacked", "gram"])
def test_an_interrupt_keeps_the_steps(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = sample(Gaussian())
    whole = BoostedGAM(method=method, max_iter=4).fit(X, y)
    kind = learner_fits.LearnerFits if method == "stacked" else learner_fits.Blocks
    advance, calls = kind.advance, []

    def interrupted(self: Any, *arguments: Any) -> None:
        advance(self, *arguments)
        calls.append(arguments)
        if len(calls) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(kind, "advance", interrupted)
    with pytest.warns(UserWarning, match="interrupted after iteration 4"):
        model = BoostedGAM(method=method, max_iter=100).fit(X, y)
    np.testing.assert_allclose(model.risk_, whole.risk_, rtol=1e-10)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))


def test_an_interrupt_of_folds_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = sample(Gaussian())
    model = BoostedGAM(max_iter=4).fit(X, y)

    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(learner_fits.LearnerFits, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cv_stop(model, n_folds=2)


def test_a_callback_divides_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path, "PIECE", 3)
    X, y = sample(Gaussian(), rows=70)
    frame = Frame.of(X)
    terms = [bbs(0, knots=3).learn(frame), bols(1).learn(frame)]
    fits = Fits(prepare(designs_of(terms, frame)), Gaussian(), y, np.zeros((1, 1)))
    seen: list[int] = []
    watched = path.Watch(lambda step, risk: seen.append(step) or step >= 5)
    found = stacked_kernel.boost(fits, 9, EmulatedDevice(), watched)
    expected = stacked.boost_on_host(fits, 5)
    assert seen == [2, 5]
    np.testing.assert_array_equal(found.selected, expected.selected)
    np.testing.assert_allclose(found.risk, expected.risk, rtol=1e-11)
