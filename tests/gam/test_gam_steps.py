"""The size of steps, how many there are, the score, callbacks and warnings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gam_models import draw
from numpy.typing import NDArray
from scipy import stats
from together import together

from gpusolve.gam import BoostedGAM, BoostedGAMClassifier, bbs, bols, cv_stop, gamboost
from gpusolve.gam.families import (
    Custom,
    Expectile,
    Family,
    Gamma,
    Gaussian,
    Laplace,
    NegativeBinomial,
    Poisson,
    Quantile,
    family_of,
)

Floats = NDArray[np.float64]


def sample(family: Family, scale: float = 0.0, n: int = 200) -> tuple[Floats, Any]:
    """Two columns, and a response whose predictor is `scale` plus a wave."""
    X = np.random.default_rng(1).random((n, 2))
    return X, draw(family, scale + np.sin(6 * X[:, 0]))


# ---- the size of a step --------------------------------------------------------------


@together("family", ["laplace", "huber", Quantile(0.8), Expectile(0.8), "gamma"])
def test_scaled_steps_do_not_depend_on_the_unit(family: Any) -> None:
    X, y = sample(Gamma() if family == "gamma" else Gaussian())
    expected = BoostedGAM(family=family, max_iter=30).fit(X, y)
    for unit in (1e-3, 1e6):
        found = BoostedGAM(family=family, max_iter=30).fit(X, unit * y)
        np.testing.assert_array_equal(found.selected_, expected.selected_)
        mean = unit * expected.predict(X)
        np.testing.assert_allclose(found.predict(X), mean, rtol=1e-8, atol=1e-8 * unit)
    model = BoostedGAM(family=family, max_iter=100, learning_rate=0.1)
    y = 1001 + 1000 * np.sin(6 * X[:, 0])
    assert model.fit(X, y).score(X, y) > 0.7


@together("family", ["poisson", "negative_binomial", "gamma", "binomial"], ids=str)
@together("rate", [0.1, 0.5])
@together("scale", [-3.0, 1.0, 7.0])
def test_the_risk_falls_for_all_means(family: str, rate: float, scale: float) -> None:
    if family == "binomial":  # both classes
        scale = np.clip(scale, -1.0, 1.0)
    X, y = sample(family_of(family), scale)
    model = BoostedGAM(family=family, learning_rate=rate, max_iter=60).fit(X, y)
    assert (np.diff(model.risk_) <= 1e-9 * abs(model.risk_[0])).all()


def test_exposures_over_decades() -> None:
    x, rng = np.random.default_rng(0).random((800, 1)), np.random.default_rng(1)
    exposure = 10 ** (6 * rng.random(800) - 2)
    y = rng.poisson(exposure * np.exp(np.sin(6 * x[:, 0])))
    effects = []
    for unit in (1, 365):
        model = BoostedGAM(family="poisson", max_iter=100)
        model.fit(x, y, offset=np.log(unit * exposure))
        assert (np.diff(model.risk_) <= 0).all()
        mean = math.log(y.sum() / exposure.sum() / unit)
        assert model.intercept_ == pytest.approx(mean)
        effects.append(model.predict(x, kind="link", offset=0) + math.log(unit))
    np.testing.assert_allclose(*effects, rtol=1e-9)
    assert abs(effects[0] - np.sin(6 * x[:, 0])).mean() < 0.03
    given = {"x": x[:, 0], "y": y, "t": exposure}
    for options, intercept in (({}, 0.0), ({"step_rule": "scaled"}, mean)):
        own = {"family": "poisson", "max_iter": 0} | options
        scaled = gamboost("y ~ x + offset(log(365 * t))", given, **own)
        assert scaled.intercept_ == pytest.approx(intercept)


# ---- the score -----------------------------------------------------------------------


def test_scores_are_those_of_scikit_learn(backend: Any) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    w = np.random.default_rng(0).integers(0, 3, 200)
    for family, score, options in (
        (Gaussian(), "r2_score", {}),
        (Poisson(), "d2_tweedie_score", {"power": 1}),
        (Gamma(), "d2_tweedie_score", {"power": 2}),
        (Laplace(), "d2_absolute_error_score", {}),
        (Quantile(0.3), "d2_pinball_score", {"alpha": 0.3}),
    )[: 1 if backend.emulated else None]:
        X, y = sample(family)
        there, target = backend.array(X), backend.array(y)
        model = BoostedGAM(family=family, max_iter=3, df=4).fit(there, target)
        mean = backend.numpy(model.predict(there))
        for weights in (None, w):
            given = {"sample_weight": weights}
            expected = getattr(metrics, score)(y, mean, **given, **options)
            given = {"sample_weight": backend.array(weights)}
            precision = 1e-3 if family.name == "quantile" else 1e-9  # other midpoints
            found = model.score(there, target, **given)
            assert found == pytest.approx(expected, rel=precision)
    single = (np.arange(200) == 7).astype(float)
    assert BoostedGAM(max_iter=2).fit(X, y).score(X, y, sample_weight=single) == 0


@together("value", [0.0, 0.1, 2.0, -1e100, 1e-200])
def test_the_score_of_a_constant_target(value: float) -> None:
    X, y = sample(Gaussian())[0], np.full(200, value)
    model = BoostedGAM(n_basis=12, df=4, max_iter=5).fit(X, y)
    for w in (None, np.random.default_rng(0).random(200)):
        assert model.score(X, y, sample_weight=w) == 1
        assert model.score(X, y + abs(y) * 1e-9 + 1e-300, sample_weight=w) == 0
    for name in ("quantile", "laplace", "huber"):
        same = BoostedGAM(family=name, max_iter=5).fit(X, y)
        np.testing.assert_array_equal(same.predict(X), value)


def test_the_score_of_counts_with_offsets() -> None:
    x, start = np.random.default_rng(0).random((200, 1)), np.linspace(-2, 2, 200)
    y = draw(NegativeBinomial(), np.sin(6 * x[:, 0]) + start)
    model = BoostedGAM(family="negative_binomial", max_iter=30).fit(x, y, offset=start)
    theta = model.path_.nuisance[-1]

    def deviance(mean: Floats) -> float:
        def log_likelihood(at: Floats) -> Floats:
            return stats.nbinom.logpmf(y, theta, theta / (theta + at))

        perfect = log_likelihood(np.maximum(y, 1e-300))
        return float((perfect - log_likelihood(mean)).sum())

    null = y.sum() / np.exp(start).sum() * np.exp(start)
    expected = 1 - deviance(model.predict(x, offset=start)) / deviance(null)
    assert model.score(x, y, offset=start) == pytest.approx(expected, rel=1e-6)
    classes = BoostedGAMClassifier(max_iter=9).fit(x, y > 1, offset=start)
    right = classes.predict(x, offset=start) == (y > 1)
    assert classes.score(x, y > 1, offset=start) == right.mean()


# ---- the number of steps -------------------------------------------------------------


def test_a_warm_start_may_change_the_method() -> None:
    """`test_gam_properties` has the steps, `test_gam_invalid` what must be the same."""
    X, y = sample(Gaussian())
    options: Any = {"n_basis": 8, "df": 4}
    model = BoostedGAM(max_iter=5, warm_start=True, **options).fit(X, y)
    for steps, method in ((10, "stacked"), (20, "gram")):
        model.set_params(max_iter=steps, method=method).fit(X, y)
    whole = BoostedGAM(max_iter=20, **options).fit(X, y)
    np.testing.assert_allclose(model.risk_, whole.risk_, rtol=1e-10)
    constant = BoostedGAM(max_iter=5, warm_start=True).fit(X, np.full(200, 0.1))
    assert constant.set_params(max_iter=9).fit(X, np.full(200, 0.1)).n_iter_ == 9


def test_stop_at_an_earlier_iteration() -> None:
    X, y = sample(Poisson())
    model = BoostedGAM(family="poisson", max_iter=30, warm_start=True).fit(X, y)
    assert model.stop_at(12) is model
    assert model.n_iter_ == len(model.selected_) == len(model.risk_) - 1 == 12
    assert model.fit(X, y).n_iter_ == 30
    mean = np.full(200, y.mean())
    np.testing.assert_allclose(model.stop_at(0).predict(X), mean, rtol=1e-14)


@pytest.mark.filterwarnings("ignore:the risk of the rows held out")
@together("family", ["gaussian", "poisson", "huber"])
def test_early_stopping_keeps_the_best_iteration(family: str) -> None:
    X, y = sample(Poisson(), n=120)
    terms = [bbs(j, knots=16, df=8, boundary=(0, 1)) for j in range(2)]
    options: Any = {"learners": terms, "learning_rate": 0.5, "family": family}
    stopping = {"early_stopping": True, "validation_fraction": 0.3, "random_state": 4}
    model = BoostedGAM(max_iter=300, **options, **stopping).fit(X, y)
    risk = model.validation_risk_
    best = int(risk.argmin())
    assert model.n_iter_ == best == len(model.risk_) - 1 < len(risk) - 1
    held = np.zeros(120, bool)
    held[np.random.default_rng(4).permutation(120)[:36]] = True
    other = BoostedGAM(max_iter=best, **options).fit(X, y, sample_weight=1.0 - held)
    np.testing.assert_array_equal(model.selected_, other.selected_)
    np.testing.assert_allclose(model.intercept_, other.intercept_)
    if family == "poisson":
        f = other.predict(X[held], kind="link")
        loss = Poisson().loss(y[held], f, 0.0).mean()
        assert risk[best] == pytest.approx(loss, rel=1e-6)
    few = BoostedGAM(max_iter=3, **options, **stopping).fit(X, y)
    assert len(few.validation_risk_) == 4
    few.set_params(early_stopping=False).fit(X, y)
    assert not hasattr(few, "validation_risk_")


# ---- warnings, callbacks, interrupts -------------------------------------------------


def test_a_rising_risk_and_a_last_iteration_that_is_best_are_told() -> None:
    X, y = sample(Gaussian())
    with pytest.warns(UserWarning, match=r"rose at iteration \d+: learning_rate"):
        BoostedGAM(learning_rate=3, max_iter=100).fit(X, y)
    with pytest.warns(UserWarning, match="max_iter should be larger"):
        BoostedGAM(max_iter=3, early_stopping=True, random_state=0).fit(X, y)
    model = BoostedGAM(max_iter=3).fit(X, y)
    assert "raise max_iter" in repr(cv_stop(model, n_folds=3, random_state=0))
    assert "still falling" in model.summary().facts
    model = BoostedGAM(max_iter=1000, learning_rate=0.5, n_basis=5, df=4).fit(X, y)
    assert "still falling" not in model.summary().facts


def test_a_callback_sees_and_ends_the_fit(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = sample(Gaussian())
    seen: list[tuple[int, float]] = []

    def callback(iteration: int, risk: float) -> bool:
        seen.append((iteration, risk))
        return iteration == 7

    model = BoostedGAM(max_iter=20, callback=callback, progress=True, warm_start=True)
    model.fit(X, y)
    assert "boosting" in capsys.readouterr().err
    assert seen == list(zip(range(1, 8), model.risk_[1:], strict=True))
    whole = BoostedGAM(max_iter=7, progress=False).fit(X, y)
    np.testing.assert_allclose(model.risk_, whole.risk_, rtol=1e-10)
    model.set_params(max_iter=9).fit(X, y)
    assert [iteration for iteration, _ in seen[7:]] == [8, 9]


def test_an_interrupt_keeps_the_steps() -> None:
    X, y = sample(Gaussian())

    def interrupted(iteration: int, risk: float) -> None:
        if iteration == 5:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted after iteration 5"):
        model = BoostedGAM(max_iter=100, callback=interrupted).fit(X, y)
    whole = BoostedGAM(max_iter=5, method="stacked").fit(X, y)
    np.testing.assert_array_equal(model.risk_, whole.risk_)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))


def test_an_interrupt_of_folds_is_an_error() -> None:
    X, y = sample(Gaussian())
    hurried = False

    def gradient(y: Any, f: Any) -> Any:
        if hurried:
            raise KeyboardInterrupt
        return y - f

    family = Custom("own", gradient=gradient, loss=lambda y, f: (y - f) ** 2)
    model = BoostedGAM([bols(0)], family=family, max_iter=4).fit(X, y)
    hurried = True
    with pytest.raises(KeyboardInterrupt):
        cv_stop(model, n_folds=2)


def test_parameters_of_splines_are_those_of_formulas() -> None:
    X, y = sample(Gaussian())
    data = {"x": X[:, 0], "z": X[:, 1], "y": y}
    model = gamboost("y ~ x + bbs(z)", data, df=2.5, n_basis=9, max_iter=2)
    assert model.names_ == ["bbs(x, df=2.5, knots=5)", "bbs(z)"]
    model = gamboost("y ~ x", data, penalty="cyclic", n_basis=9, max_iter=2)
    assert len(model.terms_[0].penalty()) == 9
