"""Ordered classes, against statsmodels, SciPy's minimiser and mboost's definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from family_samples import sample
from scipy import optimize, special
from together import together

from gpusolve.gam import (
    BoostedGAM,
    BoostedGAMClassifier,
    bbs,
    bols,
    cv_stop,
    gamboost,
    load,
    save,
)
from gpusolve.gam._families.classes import find_thresholds
from gpusolve.gam.families import PropOdds

Floats = np.ndarray

MBOOST: Any = {"max_iter": 12, "learning_rate": 0.1, "step_rule": "mboost"}


def ordered(
    classes: int, spread: float, rng: np.random.Generator, n: int = 500
) -> tuple[Floats, Floats]:
    """Classes of nearly equal sizes, and the predictors of their rows."""
    f = spread * rng.standard_normal(n)
    latent = f + rng.logistic(size=n)
    cuts = np.quantile(latent, np.arange(1, classes) / classes)
    return np.digitize(latent, cuts).astype(np.float64), f


def mboost_loss(y: Floats, f: Floats, thresholds: Floats) -> Floats:
    """The losses, by mboost's formula of differences of probabilities."""
    cumulative = special.expit(thresholds - f[:, None])
    ends = np.ones((len(f), 1))
    shares = np.diff(np.concatenate([0 * ends, cumulative, ends], axis=1))
    return -np.log(shares[np.arange(len(f)), y.astype(int)])


def mboost_gradient(y: Floats, f: Floats, thresholds: Floats) -> Floats:
    """The gradient, by mboost's formulas of the first, inner and last classes."""
    found, last = np.empty_like(f), len(thresholds)
    for i, (k, own) in enumerate(zip(y.astype(int), f, strict=True)):
        if k == 0:
            found[i] = -1 / (1 + np.exp(thresholds[0] - own))
        elif k == last:
            found[i] = 1 / (1 + np.exp(own - thresholds[-1]))
        else:
            a, b = thresholds[k - 1 : k + 1]
            both = np.exp(2 * own - a - b)
            found[i] = (1 - both) / (1 + np.exp(own - a) + np.exp(own - b) + both)
    return found


def likeliest(y: Floats, f: Floats, w: Floats, classes: int) -> Floats:
    """The thresholds by SciPy, from the first and the logarithms of the distances."""

    def thresholds(delta: Floats) -> Floats:
        return delta[0] + np.concatenate([[0], np.cumsum(np.exp(delta[1:]))])

    found = optimize.minimize(
        lambda delta: w @ mboost_loss(y, f, thresholds(delta)),
        np.linspace(-0.5, -1, classes - 1),
        method="BFGS",
        options={"gtol": 1e-6 * w.sum()},
    )
    return thresholds(found.x)


# ---- the family ----------------------------------------------------------------------


@together("classes", [2, 3, 7])
def test_gradient_and_loss_are_those_of_mboost(
    classes: int, rng: np.random.Generator
) -> None:
    y, f = ordered(classes, 1.0, rng)
    family = PropOdds(classes)
    s = family.nuisance(y, f, None)
    np.testing.assert_allclose(family.loss(y, f, s), mboost_loss(y, f, s), rtol=1e-11)
    np.testing.assert_allclose(
        family.gradient(y, f, s), mboost_gradient(y, f, s), rtol=1e-11, atol=1e-13
    )


@together("classes", [2, 3, 12])
@together("spread", [0.3, 3.0, 30.0])
def test_thresholds_are_of_maximum_likelihood(
    classes: int, spread: float, rng: np.random.Generator
) -> None:
    """The derivative of the likelihood by each threshold is 0, for all weights."""
    y, f = ordered(classes, spread, rng)
    w = rng.random(len(y))
    found = find_thresholds(y, f, w, classes)
    h = 1e-5 * np.eye(classes - 1)
    family = PropOdds(classes)
    for own in h:
        slope = w @ (family.loss(y, f, found + own) - family.loss(y, f, found - own))
        assert abs(slope / 2e-5) < 1e-6 * len(y)


def test_thresholds_of_a_constant_are_the_logits_of_the_shares() -> None:
    y = np.repeat([0.0, 1, 2, 3], [5, 1, 3, 1])
    found = find_thresholds(y, np.full(10, 0.7), None, 4)
    np.testing.assert_allclose(found, 0.7 + special.logit([0.5, 0.6, 0.9]), rtol=1e-12)


def test_an_absent_class_counts_as_half_a_row(rng: np.random.Generator) -> None:
    y, f = ordered(5, 1.0, rng)
    for absent in (0.0, 2.0, 4.0):
        w = (y != absent) * rng.random(len(y))
        mean = np.average(f, weights=w)
        found = find_thresholds(y, f, w, 5)
        with_half = [np.append(y, absent), np.append(f, mean), np.append(w, 0.5)]
        wanted = find_thresholds(*with_half, 5)
        np.testing.assert_allclose(found, wanted, rtol=1e-8)


def test_distant_predictors_do_not_stop_the_search() -> None:
    y, f = np.array([0.0, 1, 2, 2]), np.array([-1e3, 1e3, 0.0, 5e3])
    found = find_thresholds(y, f, None, 3)
    assert np.isfinite(found).all()
    assert found[0] < found[1]


# ---- models --------------------------------------------------------------------------


def test_the_limit_is_the_fit_of_statsmodels(rng: np.random.Generator) -> None:
    ordinal = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    X = rng.standard_normal((400, 2))
    latent = X @ [1.0, -0.5] + rng.logistic(size=400)
    y = np.digitize(latent, [-1, 0, 1.5])
    wanted = ordinal.OrderedModel(y, X, distr="logit").fit(
        method="newton", disp=False, tol=1e-12
    )
    terms = [bols(0, intercept=False), bols(1, intercept=False)]
    model = BoostedGAM(terms, family=PropOdds(4), learning_rate=1.0, max_iter=400)
    model.fit(X, y)
    slopes = [model.partial_effect(j, [1.0])[0] for j in (0, 1)]
    np.testing.assert_allclose(slopes, wanted.params[:2], rtol=1e-5)
    thresholds = wanted.model.transform_threshold_params(wanted.params)[1:-1]
    np.testing.assert_allclose(model.path_.nuisance[-1], thresholds, rtol=1e-4)
    assert model.risk_[-1] == pytest.approx(-wanted.llf, rel=1e-9)


def test_the_path_is_that_of_mboost(rng: np.random.Generator) -> None:
    """mboost's steps, with thresholds by SciPy at the present f."""
    X, y = sample(PropOdds(4))
    w = rng.integers(0, 3, len(y)) * 1.0
    terms = [bols(j) for j in range(3)]
    model = BoostedGAM(terms, family=PropOdds(4), **MBOOST)
    model.fit(X, y, sample_weight=w)
    designs = [np.column_stack([np.ones(len(y)), X[:, j]]) for j in range(3)]
    f = np.zeros(len(y))
    for step in range(13):
        s = likeliest(y, f, w, 4)
        risk = w @ mboost_loss(y, f, s)
        assert model.risk_[step] == pytest.approx(risk, rel=1e-9)
        np.testing.assert_allclose(model.path_.nuisance[step], s, rtol=1e-4)
        u = mboost_gradient(y, f, s)
        fits = [D @ np.linalg.solve(D.T * w @ D, D.T @ (w * u)) for D in designs]
        best = int(np.argmin([w @ (u - fit) ** 2 for fit in fits]))
        if step < 12:
            assert model.selected_[step] == best
        f += 0.1 * fits[best]


def test_a_binary_response_has_the_model_of_the_logit(
    rng: np.random.Generator,
) -> None:
    """One threshold takes the place of the constant, which is fitted in full."""
    X = rng.random((200, 1))
    y = (rng.random(200) < X[:, 0]).astype(np.float64)
    model = BoostedGAM([bols(0, intercept=False)], family=PropOdds(2), max_iter=500)
    model.fit(X - 0.5, y)
    logit = BoostedGAM(bols(0), family="binomial", max_iter=3000).fit(X - 0.5, y)
    assert model.risk_[-1] == pytest.approx(logit.risk_[-1], rel=1e-8)


NAMES = ["low", "high", "higher", "all"]

ORDERED = {
    "categorical": lambda codes, names: pd.Categorical.from_codes(codes, names, True),
    "series": lambda codes, names: pd.Series(
        pd.Categorical.from_codes(codes, [*names, "unused"], ordered=True)
    ),
    "bytes": lambda codes, names: codes.astype(np.uint8) + 3,
    "objects": lambda codes, names: codes.astype(object) * 2,
}
"""The classes in an order: by names, or by numbers."""

UNORDERED = {
    "list": lambda names: names.tolist(),
    "array": lambda names: names,
    "objects": lambda names: names.astype(object),
    "series": pd.Series,
    "categorical": lambda names: pd.Categorical(names, NAMES),
}
"""The classes without an order."""


@pytest.mark.parametrize("kind", ORDERED)
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_classes_is_the_given_order(kind: str, seed: int) -> None:
    """Whatever the names are, the model is the model of the numbers 0, 1, .."""
    X, y = sample(PropOdds(4))
    codes = y.astype(int)
    names = np.random.default_rng(seed).permutation(NAMES).tolist()
    labels = ORDERED[kind](codes, names)
    options = {"family": "prop_odds", "max_iter": 10}
    expected = BoostedGAMClassifier([bbs(0)], **options).fit(X, codes)
    model = BoostedGAMClassifier([bbs(0)], **options).fit(X, labels)
    np.testing.assert_array_equal(model.risk_, expected.risk_)
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    data = {"x": X[:, 0], "y": labels}
    fitted = gamboost("y ~ x", data, **options)
    by_number = gamboost("y ~ x", data | {"y": codes}, **options)
    np.testing.assert_array_equal(
        fitted.predict_proba(data), by_number.predict_proba(data)
    )


@pytest.mark.parametrize("kind", UNORDERED)
def test_text_without_an_order_is_an_error(kind: str) -> None:
    X, y = sample(PropOdds(4))
    labels = UNORDERED[kind](np.array(NAMES)[y.astype(int)])
    message = r"must have an order: .*Categorical\(y, .*ordered=True.*got text .*'low'"
    with pytest.raises(ValueError, match=message):
        BoostedGAMClassifier(family="prop_odds").fit(X, labels)
    with pytest.raises(ValueError, match=message):
        gamboost("y ~ x", {"x": X[:, 0], "y": labels}, family="prop_odds")


@pytest.mark.parametrize("emulate", [False, True], ids=["numpy", "emulator"])
def test_classifier_of_ordered_classes(
    emulate: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    if emulate:
        monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    X, y = sample(PropOdds(4))
    model = BoostedGAMClassifier([bbs(0), bols(1)], family="prop_odds", max_iter=30)
    model.fit(X, pd.Categorical.from_codes(y.astype(int), NAMES, ordered=True))
    assert model.family_ == PropOdds(4)
    assert model.classes_.tolist() == NAMES
    p, f = model.predict_proba(X), model.decision_function(X)
    assert f.shape == (200,)
    cumulative = special.expit(model.paths_[0].nuisance[-1] - f[:, None])
    np.testing.assert_allclose(p[:, :-1].cumsum(axis=1), cumulative, atol=1e-12)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    for step, stage in enumerate(model.staged_predict_proba(X), 1):
        if step in (1, 17):
            early = model.predict_proba(X, iteration=step)
            np.testing.assert_allclose(stage, early, rtol=1e-12)
    own = p[np.arange(200), y.astype(int)]
    assert -np.log(own).sum() == pytest.approx(model.risk_[-1], rel=1e-10)
    save(model, tmp_path / "model.json")
    loaded = load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict_proba(X), p)


def test_classes_of_an_ordered_categorical_keep_their_order() -> None:
    pd = pytest.importorskip("pandas")
    X, y = sample(PropOdds(4))
    levels = ["poor", "fair", "good", "best"]
    response = pd.Series(pd.Categorical.from_codes(y.astype(int), levels, ordered=True))
    model = BoostedGAMClassifier(family="prop_odds", max_iter=5).fit(X, response)
    assert model.classes_.tolist() == levels
    by_code = BoostedGAMClassifier(family="prop_odds", max_iter=5).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), by_code.predict_proba(X))


def test_folds_and_early_stopping_use_their_own_thresholds() -> None:
    X, y = sample(PropOdds(4), 300)
    model = BoostedGAM(family=PropOdds(4), max_iter=20).fit(X, y)
    half = np.arange(300) < 150
    cv = cv_stop(model, [(half, ~half)])
    part = BoostedGAM(family=PropOdds(4), max_iter=20).fit(X[half], y[half])
    start = np.log(np.cumsum(np.bincount(y[half].astype(int)))[:-1] / 150)
    start = start - np.log1p(-np.exp(start))
    loss = PropOdds(4).loss(y[~half], np.zeros(150), start).mean()
    assert cv.risk[0, 0] == pytest.approx(loss, rel=1e-12)
    assert len(part.path_.nuisance) == 21
    stopped = BoostedGAM(
        family=PropOdds(4), max_iter=200, early_stopping=True, random_state=0
    ).fit(X, y)
    assert stopped.path_.nuisance.shape == (stopped.n_iter_ + 1, 3)


def test_score_is_the_deviance_explained(rng: np.random.Generator) -> None:
    """Against the thresholds of the shares; the inner classes have a least loss."""
    X, y = sample(PropOdds(4))
    model = BoostedGAM(family=PropOdds(4), max_iter=30).fit(X, y)
    s = model.path_.nuisance[-1]

    def least(s: Floats) -> Floats:
        inner = -np.log(np.tanh(np.diff(s) / 4))
        return np.concatenate([[0], inner, [0]])[y.astype(int)]

    shares = np.bincount(y.astype(int)) / len(y)
    null = special.logit(np.cumsum(shares)[:-1])
    total = -np.log(shares[y.astype(int)]).sum() - least(null).sum()
    rest = model.risk_[-1] - least(s).sum()
    assert model.score(X, y) == pytest.approx(1 - rest / total, rel=1e-9)
