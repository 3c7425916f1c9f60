"""The area under the ROC curve, against all pairs, scikit-learn and mboost's steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from family_samples import sample
from together import together

from gpusolve.gam import BoostedGAM, BoostedGAMClassifier, bols, cv_stop, load, save
from gpusolve.gam.families import AUC

Floats = np.ndarray


def all_pairs(y: Floats, f: Floats) -> tuple[Floats, float]:
    """mboost's gradient and risk, with a matrix of all pairs."""
    x = f / f.std(ddof=1) if np.ptp(f) > 0 else f
    ones, zeros = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    near = np.maximum(0, 1 - abs(x[ones, None] - x[zeros]))
    u = np.zeros(len(y))
    u[ones], u[zeros] = near.sum(axis=1), -near.sum(axis=0)
    return u, 1 - (f[ones, None] > f[zeros]).mean()


@together("ties", [False, True])
def test_gradient_and_risk_are_those_of_all_pairs(
    ties: bool, rng: np.random.Generator
) -> None:
    y = (rng.random(90) < 0.3).astype(np.float64)
    f = 3 + 7 * rng.standard_normal((2, 90))
    f = f.round(-1) if ties else f
    found = AUC().weighted_gradient(y, f, np.float64(0), None)
    (risks,) = AUC().risks(y, f, np.float64(0), None)
    for k in (0, 1):
        u, risk = all_pairs(y, f[k])
        np.testing.assert_allclose(found[k], u, rtol=1e-11, atol=1e-11)
        np.testing.assert_array_equal(AUC().gradient(y, f[k], 0.0), found[k])
        assert risks[k, 0] == pytest.approx(risk, rel=1e-13)
        assert AUC().loss(y, f[k], 0.0).sum() == pytest.approx(risk, rel=1e-13)


def test_weights_are_repeated_rows(rng: np.random.Generator) -> None:
    y = (rng.random(60) < 0.4).astype(np.float64)
    f, w = rng.standard_normal(60), rng.integers(0, 4, 60)
    rows = np.repeat(np.arange(60), w)
    u, risk = all_pairs(y[rows], f[rows])
    found = AUC().weighted_gradient(y, f, np.float64(0), w * 1.0)
    wanted = np.bincount(rows, u, 60)
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)
    assert AUC().risks(y, f, 0.0, w * 1.0)[0] == pytest.approx(risk, rel=1e-12)


def test_constant_predictors_separate_nothing() -> None:
    y, f = np.array([0.0, 0, 1, 0]), np.full(4, 2.0)
    np.testing.assert_array_equal(AUC().gradient(y, f, 0.0), [-1, -1, 3, -1])
    assert AUC().loss(y, f, 0.0).sum() == 1
    only_zeros = np.array([1.0, 1, 0, 1])
    assert AUC().risks(y, f, 0.0, only_zeros)[0] == 0


def test_the_risk_is_one_minus_the_area_of_scikit_learn(
    rng: np.random.Generator,
) -> None:
    """Without ties, which count half there."""
    y, f, w = (rng.random(200) < 0.5) * 1.0, rng.standard_normal(200), rng.random(200)
    found = 1 - AUC().risks(y, f, 0.0, w)[0][0]
    order = np.argsort(f)  # the area as the share of class 1 above each row of class 0
    ones, zeros = (y * w)[order], ((1 - y) * w)[order]
    area = (zeros * ones[::-1].cumsum()[::-1]).sum() / ones.sum() / zeros.sum()
    assert found == pytest.approx(area, rel=1e-12)


@together(
    ("y", "message"),
    [([0, 1, 2], "must be 0 or 1"), ([1, 1, 1], "must have both classes")],
)
def test_wrong_responses_are_named(y: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AUC().check(np.array(y, float))


def test_the_path_is_that_of_mboost() -> None:
    X, y = sample(AUC(), 120)
    model = BoostedGAM(
        [bols(j) for j in range(3)],
        family="auc",
        max_iter=12,
        learning_rate=0.1,
        step_rule="mboost",
    ).fit(X, y)
    designs = [np.column_stack([np.ones(120), X[:, j]]) for j in range(3)]
    f = np.zeros(120)
    for step in range(13):
        u, risk = all_pairs(y, f)
        assert model.risk_[step] == pytest.approx(risk, rel=1e-12)
        fits = [D @ np.linalg.lstsq(D, u)[0] for D in designs]
        best = int(np.argmin([((u - fit) ** 2).sum() for fit in fits]))
        if step < 12:
            assert model.selected_[step] == best
        f = f + 0.1 * fits[best]
    np.testing.assert_allclose(model.predict(X), f - 0.1 * fits[best], rtol=1e-7)


def test_the_learning_rate_is_a_factor_of_the_model() -> None:
    X, y = sample(AUC(), 120)
    one, other = (
        BoostedGAM(family="auc", max_iter=15, learning_rate=rate).fit(X, y)
        for rate in (0.1, 0.7)
    )
    np.testing.assert_allclose(one.risk_, other.risk_, rtol=1e-12)
    np.testing.assert_allclose(7 * one.predict(X), other.predict(X), rtol=1e-9)


@pytest.mark.parametrize("emulate", [False, True], ids=["numpy", "emulator"])
def test_classifier_that_ranks(
    emulate: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    if emulate:
        monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    X, y = sample(AUC(), 150)
    weights = np.random.default_rng(1).integers(0, 3, 150)
    model = BoostedGAMClassifier(family="auc", max_iter=12)
    model.fit(X, np.where(y == 1, "yes", "no"), sample_weight=weights)
    f = model.decision_function(X)
    rows = np.repeat(np.arange(150), weights)
    _, risk = all_pairs(y[rows], f[rows])
    assert model.risk_[-1] == pytest.approx(risk, abs=1e-12)
    assert model.risk_[-1] < 0.35
    np.testing.assert_array_equal(model.predict(X), np.where(f > 0, "yes", "no"))
    for name in ("predict_proba", "predict_log_proba", "staged_predict_proba"):
        assert not hasattr(model, name)
        assert hasattr(BoostedGAMClassifier(), name)
    save(model, tmp_path / "model.json")
    np.testing.assert_array_equal(load(tmp_path / "model.json").decision_function(X), f)
    with pytest.raises(ValueError, match="must have 2 classes, got 3"):
        BoostedGAMClassifier(family="auc").fit(X, np.arange(150) % 3)


def test_kernel_and_numpy_make_the_same_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = sample(AUC(), 150)
    found = []
    for emulate in (False, True):
        if emulate:
            monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
        model = BoostedGAM(family="auc", max_iter=8).fit(X, y)
        cv = cv_stop(model, "kfold", n_folds=3, random_state=0)
        found.append((model.risk_, model.path_.updates, cv.risk))
    for numpy, kernel in zip(*found, strict=True):
        np.testing.assert_allclose(kernel, numpy, rtol=1e-9, atol=1e-12)
