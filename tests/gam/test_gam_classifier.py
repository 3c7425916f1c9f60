"""BoostedGAMClassifier: scikit-learn's conventions, and several classes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from family_samples import sample
from together import together

from gpusolve._device.arrays import is_cupy, on_host
from gpusolve.gam import BoostedGAM, BoostedGAMClassifier, bbs, bols, gamboost
from gpusolve.gam.families import Binomial

Data = tuple[np.ndarray, np.ndarray]


@pytest.fixture
def binary() -> Data:
    return sample(Binomial())


@pytest.fixture
def three() -> Data:
    """Classes by name, in the order of their positions along two features."""
    rng = np.random.default_rng(2)
    X = rng.random((240, 3))
    f = 2 * np.sin(5 * X[:, 0]) + 3 * X[:, 1] + 0.5 * rng.standard_normal(240)
    return X, np.array(["low", "middle", "top"])[np.searchsorted([1.5, 3.2], f)]


STEPS = {"learning_rate": 0.3, "step_rule": "scaled", "outside": "clamp"}
"""The estimators' defaults that differ from mboost's."""

# ---- two classes ---------------------------------------------------------------------


@pytest.mark.parametrize("link", ["half_logit", "logit"])
def test_two_classes_are_the_binomial_family(binary: Data, link: str) -> None:
    X, y = binary
    family = Binomial(link)
    labels = np.array(["no", "yes"])[y.astype(int)]
    model = BoostedGAMClassifier(family=family, n_basis=8, max_iter=30).fit(X, labels)
    regressor = BoostedGAM(family=family, n_basis=8, max_iter=30).fit(X, y)
    np.testing.assert_array_equal(model.coefficients_, regressor.coefficients_)
    np.testing.assert_array_equal(model.risk_, regressor.risk_)
    assert model.classes_.tolist() == ["no", "yes"]
    f = regressor.predict(X, kind="link")
    np.testing.assert_array_equal(model.decision_function(X), f)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p[:, 1], regressor.predict(X), rtol=1e-13)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(p), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    scale = 2 if link == "half_logit" else 1
    np.testing.assert_allclose(np.log(p[:, 1] / p[:, 0]), scale * f, atol=1e-10)
    assert model.score(X, labels) == (model.predict(X) == labels).mean()
    weights = np.random.default_rng(0).random(len(y))
    expected = np.average(model.predict(X) == labels, weights=weights)
    assert model.score(X, labels, weights) == pytest.approx(expected, rel=1e-13)


@together(
    "classes",
    [
        ["a", "b"],
        [3, 7],
        [False, True],
        [-1.0, 1.0],
        np.array(["b", "a"], object),
        np.array([2, 5], object),
    ],
    ids=str,
)
def test_classes_may_be_strings_and_numbers(binary: Data, classes: Any) -> None:
    X, y = binary
    labels = np.asarray(classes)[y.astype(int)]
    model = BoostedGAMClassifier(n_basis=6, max_iter=10).fit(X, labels)
    assert model.classes_.tolist() == sorted(np.asarray(classes).tolist())
    assert set(model.predict(X).tolist()) <= set(np.asarray(classes).tolist())
    assert model.score(X, labels) > 0.6
    for other in (labels.tolist(), labels[:, None]):
        if isinstance(other, list):
            again = BoostedGAMClassifier(n_basis=6, max_iter=10).fit(X, other)
            np.testing.assert_array_equal(again.coefficients_, model.coefficients_)


def test_classes_of_pandas(binary: Data) -> None:
    pd = pytest.importorskip("pandas")
    X, y = binary
    labels = np.array(["no", "yes"])[y.astype(int)]
    model = BoostedGAMClassifier(n_basis=6, max_iter=10).fit(X, labels)
    for series in (pd.Series(labels), pd.Series(labels).astype("category")):
        other = BoostedGAMClassifier(n_basis=6, max_iter=10).fit(X, series)
        np.testing.assert_array_equal(other.coefficients_, model.coefficients_)
        np.testing.assert_array_equal(other.predict(X), model.predict(X))


@pytest.mark.parametrize("family", ["binomial", "multinomial"])
@pytest.mark.parametrize("ordered", [False, True])
def test_formulas_take_classes_in_the_order_of_a_categorical(
    binary: Data, family: Any, ordered: bool
) -> None:
    """Names have no effect; the second category is the class of large predictors."""
    pd = pytest.importorskip("pandas")
    X, y = binary
    codes, data = y.astype(int), {"x": X[:, 0]}
    expected = BoostedGAMClassifier([bbs(0)], family=family, max_iter=9).fit(X, codes)
    options = {"family": family, "max_iter": 9} | STEPS
    for names in (["no", "yes"], ["yes", "no"], ["b", "a"]):
        data["y"] = pd.Categorical.from_codes(codes, names, ordered=ordered)
        model = gamboost("y ~ bbs(x)", data, **options)
        assert model.classes_.tolist() == names
        f = model.decision_function(data)
        np.testing.assert_allclose(f, expected.decision_function(X), atol=1e-12)
        data["y"] = np.array(data["y"])
        text = gamboost("y ~ bbs(x)", data, **options)
        assert text.classes_.tolist() == sorted(names)


# ---- several classes -----------------------------------------------------------------


def test_each_class_has_a_model_against_the_rest(three: Data) -> None:
    X, y = three
    learners = [bbs(0), bols(1), bbs(2)]
    model = BoostedGAMClassifier(learners, max_iter=40).fit(X, y)
    assert model.coefficients_.shape[:2] == (3, 3)
    assert model.risk_.shape == (3, 41)
    assert model.selected_.shape == (3, 40)
    assert len(model.paths_) == model.n_classes_ == 3
    odds = []
    for j, name in enumerate(model.classes_):
        alone = BoostedGAM(learners, family="binomial", max_iter=40)
        alone.fit(X, (y == name).astype(float))
        assert model.intercept_[j] == pytest.approx(alone.intercept_)
        np.testing.assert_array_equal(model.selected_[j], alone.selected_)
        np.testing.assert_allclose(model.risk_[j], alone.risk_, rtol=1e-12)
        np.testing.assert_allclose(
            model.effects(X, fit=j), alone.effects(X), atol=1e-10
        )
        np.testing.assert_allclose(
            model.partial_effect(1, X[:, 1], fit=j),
            alone.partial_effect(1, X[:, 1]),
            atol=1e-10,
        )
        odds.append(alone.predict(X))
    expected = np.column_stack(odds)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p, expected / expected.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    assert model.decision_function(X).shape == (240, 3)
    assert model.score(X, y) > 0.7


def test_early_stopping_is_that_of_the_sum_of_risks(three: Data) -> None:
    X, y = three
    model = BoostedGAMClassifier(
        n_basis=20,
        df=8,
        learning_rate=0.5,
        max_iter=600,
        early_stopping=True,
        n_iter_no_change=20,
        random_state=1,
    ).fit(X, y)
    risk = model.validation_risk_
    assert model.n_iter_ == int(risk.argmin()) == len(risk) - 21
    held = np.random.default_rng(1).permutation(240)[:24]
    f = model.decision_function(X[held])
    loss = Binomial().loss((y[held, None] == model.classes_).astype(float), f, 0.0)
    assert risk.min() == pytest.approx(loss.sum() / 24, rel=1e-10)


def test_a_warm_start_needs_the_same_classes(three: Data) -> None:
    X, y = three
    start = np.zeros(len(y))
    model = BoostedGAMClassifier(n_basis=8, max_iter=2, warm_start=True)
    for offset in (None, start):
        model.fit(X, y == "top", offset=offset)
        with pytest.raises(ValueError, match="warm start needs"):
            model.fit(X, y, offset=offset)
        model = BoostedGAMClassifier(n_basis=8, max_iter=2, warm_start=True)


def test_classes_without_weight_do_not_exist(three: Data) -> None:
    X, y = three
    without = BoostedGAMClassifier(max_iter=2).fit(X, y, sample_weight=y != "low")
    assert without.classes_.tolist() == ["middle", "top"]
    with pytest.raises(ValueError, match="at least 2 classes"):
        BoostedGAMClassifier().fit(X, y, sample_weight=y == "low")


def test_offsets(three: Data) -> None:
    X, y = three
    start = np.linspace(-1, 1, 240)
    model = BoostedGAMClassifier(n_basis=8, max_iter=15).fit(X, y, offset=start)
    for k, constant in enumerate(model.intercept_):
        p = 1 / (1 + np.exp(-2 * (start + constant)))
        np.testing.assert_allclose(p.mean(), (y == model.classes_[k]).mean(), rtol=1e-9)
    f = model.decision_function(X, offset=start)
    without = model.decision_function(X, offset=0)
    np.testing.assert_allclose(f, without + start[:, None])
    *_, last = model.staged_predict_proba(X, offset=start)
    np.testing.assert_allclose(last, model.predict_proba(X, offset=start), rtol=1e-12)
    *_, last = model.staged_predict(X, offset=start)
    np.testing.assert_array_equal(last, model.predict(X, offset=start))


@pytest.mark.parametrize("offset", [-1e4, 1e4])
def test_probabilities_that_underflow(three: Data, offset: float) -> None:
    """All models may be sure that a row belongs to another class, or to theirs."""
    X, y = three
    model = BoostedGAMClassifier(n_basis=8, max_iter=5).fit(X, y)
    f = model.decision_function(X)
    odds = np.exp(2 * f) if offset < 0 else np.ones_like(f)
    p = model.predict_proba(X, offset=offset)
    np.testing.assert_allclose(p, odds / odds.sum(axis=1, keepdims=True), rtol=1e-9)
    top = BoostedGAMClassifier(n_basis=8, max_iter=5).fit(X, y == "top")
    logs = top.predict_log_proba(X, offset=offset)
    f = top.decision_function(X, offset=offset)
    np.testing.assert_allclose(logs[:, 1] - logs[:, 0], 2 * f, rtol=1e-13)
    assert np.isfinite(logs).all()


# ---- with scikit-learn ---------------------------------------------------------------


def test_on_a_device(backend: Any, three: Data) -> None:
    X, y = three
    given = backend.array(X)
    model = BoostedGAMClassifier(n_basis=6, max_iter=4).fit(given, y)
    p = model.predict_proba(given)
    assert is_cupy(p) == (backend.name == "cuda")
    assert isinstance(model.predict(given), np.ndarray)
    for stage in (*model.staged_predict_proba(given), model.effects(given)):
        assert is_cupy(stage) == is_cupy(p)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(loaded.predict_proba(X), on_host(p), rtol=1e-10)
