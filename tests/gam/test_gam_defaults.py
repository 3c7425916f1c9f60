"""What the default learners follow: jumps, skewed features and pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import rankdata

from gpusolve.gam import BoostedGAM, bbs, load

Data = tuple[Any, Any]


def skewed(spread: float, rows: int = 4000) -> Data:
    """A log-normal feature, and a wave of its logarithm with noise."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal(rows)
    return np.exp(spread * z)[:, None], np.sin(2 * z) + 0.3 * rng.standard_normal(rows)


def error(model: BoostedGAM, X: Any, truth: Any) -> float:
    """The root mean square of the errors of a prediction."""
    return float(np.sqrt(np.mean((model.predict(X) - truth) ** 2)))


@pytest.mark.parametrize("spread", [1.0, 2.5])
def test_the_effect_of_a_skewed_feature_is_found(spread: float) -> None:
    """R^2 of the truth on rows that no fit has read."""
    X, y = skewed(spread)
    truth = np.sin(2 * np.log(X[:, 0]) / spread)
    model = BoostedGAM().fit(X[:2000], y[:2000])
    assert error(model, X[2000:], truth[2000:]) ** 2 < 0.01 * truth[2000:].var()
    assert "normal scores for 0" in str(model.summary())


def jumps(rows: int = 1500) -> tuple[Any, Any, Any]:
    """A step and a line in uniform features, with noise."""
    rng = np.random.default_rng(1)
    X = rng.random((rows, 3))
    truth = (X[:, 0] > 0.4) + X[:, 1]
    return X, truth + 0.3 * rng.standard_normal(rows), truth


def test_a_jump_gets_a_stump_next_to_its_spline() -> None:
    X, y, truth = jumps()
    model = BoostedGAM().fit(X, y)
    splines = BoostedGAM([bbs(j, df=6) for j in range(3)]).fit(X, y)
    assert "with stumps" in str(model.summary())
    assert error(model, X, truth) < 0.7 * error(splines, X, truth)


def test_smooth_effects_keep_plain_splines() -> None:
    rng = np.random.default_rng(2)
    X = rng.random((1000, 4))
    y = np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.standard_normal(1000)
    model = BoostedGAM().fit(X, y)
    assert [term.function for term in model.terms_] == ["bbs"] * 4
    assert not any(term.normal_scores for term in model.terms_)


def test_normal_scores_are_quantiles_of_the_shares_below() -> None:
    """With fewer values than are kept, the scores of SciPy's mean ranks."""
    x = np.random.default_rng(3).integers(0, 50, 400) ** 3.0
    term = bbs("x", normal_scores=True)
    model = BoostedGAM([term], max_iter=0).fit({"x": x}, x)
    ((values, scores),) = model.terms_[0].scores
    expected = dict(zip(x, ndtri((rankdata(x) - 0.5) / len(x)), strict=True))
    np.testing.assert_allclose(
        scores, [expected[value] for value in values], rtol=1e-12
    )


def test_a_model_of_normal_scores_is_the_model_of_the_scores() -> None:
    x = np.random.default_rng(4).integers(0, 40, 300) ** 2.0
    y = np.sqrt(x) + np.sin(x)
    scores = ndtri((rankdata(x) - 0.5) / len(x))
    given = BoostedGAM([bbs("x")], max_iter=50).fit({"x": scores}, y)
    found = BoostedGAM([bbs("x", normal_scores=True)], max_iter=50).fit({"x": x}, y)
    np.testing.assert_allclose(found.risk_, given.risk_, rtol=1e-9)
    beyond = found.predict({"x": np.array([-1e9, 1e9])})
    ends = found.predict({"x": np.array([x.min(), x.max()])})
    np.testing.assert_array_equal(beyond, ends)


def test_scores_are_stored_and_exported(tmp_path: Path) -> None:
    X, y = skewed(2.0, 500)
    model = BoostedGAM().fit(X, y)
    model.save(tmp_path / "model.json")
    stored = load(tmp_path / "model.json")
    np.testing.assert_array_equal(stored.predict(X), model.predict(X))
    model.to_python(tmp_path / "model.py")
    names: dict[str, Any] = {}
    exec((tmp_path / "model.py").read_text(), names)
    np.testing.assert_allclose(names["predict"](X), model.predict(X), rtol=1e-12)


def test_float32_and_missing_values_have_scores() -> None:
    X, y = skewed(1.0, 600)
    single = BoostedGAM([bbs(0, normal_scores=True)], max_iter=20)
    exact = BoostedGAM([bbs(0, normal_scores=True)], max_iter=20).fit(X, y)
    found = single.fit(X.astype(np.float32), y).predict(X.astype(np.float32))
    np.testing.assert_allclose(found, exact.predict(X), atol=1e-4)
    X[::7] = np.nan
    lacking = BoostedGAM([bbs(0, normal_scores=True)], max_iter=20, missing="zero")
    assert np.isfinite(lacking.fit(X, y).predict(X)).all()


def test_the_number_of_pairs_is_chosen_by_folds() -> None:
    rng = np.random.default_rng(5)
    X = rng.random((2000, 4))
    noise = 0.3 * rng.standard_normal(2000)
    y = 8 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5) + X[:, 2] + noise
    assert BoostedGAM(interactions="auto").fit(X, y).interactions_ == [(0, 1)]
    assert BoostedGAM(interactions="auto").fit(X, X[:, 2] + noise).interactions_ == []
