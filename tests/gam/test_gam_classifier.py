"""BoostedGAMClassifier: two, several and ordered classes.

The oracles of ordered classes are mboost's formulas and SciPy's minimiser.
`test_gam_paths` has the steps and the limits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from gam_models import sample
from scipy import optimize, special
from together import together

from gpusolve.gam import BoostedGAM, BoostedGAMClassifier, bbs, bols, cv_stop, gamboost
from gpusolve.gam.families import Binomial, Multinomial, PropOdds

Data = tuple[np.ndarray, np.ndarray]
Floats = np.ndarray


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


# ---- names of classes ----------------------------------------------------------------

NAMES = ["low", "high", "higher", "all"]

LABELS: dict[str, Any] = {
    "strings": lambda codes: np.array([*"abcd"])[codes],
    "list": lambda codes: [*np.array([*"abcd"])[codes]],
    "bytes": lambda codes: codes.astype(np.uint8) + 3,
    "floats": lambda codes: 2.0 * codes - 1,
    "ordered": lambda codes: pd.Series(
        pd.Categorical.from_codes(codes, [*NAMES, "unused"], ordered=True)
    ),
    "bools": lambda codes: codes > 0,
    "series": lambda codes: pd.Series(np.array([*"abcd"])[codes]),
    "category": lambda codes: pd.Series(np.array([*"abcd"])[codes], dtype="category"),
    "categorical": lambda codes: pd.Categorical.from_codes(codes, NAMES),
    "objects": lambda codes: codes.astype(object) * 2,
}
"""The labels of the classes 0, 1, .."""

WITHOUT_ORDER = "strings", "list", "series", "category", "categorical"


@together("kind", LABELS)
@together("family", ["binomial", "multinomial", "prop_odds"])
def test_a_model_does_not_depend_on_the_names_of_classes(
    kind: str, family: Any
) -> None:
    """Classes are in the order of categories in formulas, and of ordered families."""
    if family == "prop_odds" and kind in WITHOUT_ORDER:
        return  # an error, see `test_gam_invalid`
    X, y = sample(PropOdds(4))
    codes = y.astype(int) // (2 if kind == "bools" else 1)
    labels = LABELS[kind](codes)
    names = [*pd.unique(pd.Series(LABELS[kind](np.unique(codes))))]
    options: Any = {"family": family, "max_iter": 10}
    expected = BoostedGAMClassifier([bbs(0)], **options).fit(X, codes)
    formula = gamboost("y ~ bbs(x)", {"x": X[:, 0], "y": codes}, **options)
    data = {"x": X[:, 0], "y": labels}
    found = gamboost("y ~ bbs(x)", data, **options)
    assert found.classes_.tolist() == names
    p = found.predict_proba(data)
    np.testing.assert_array_equal(p, formula.predict_proba(data))
    model = BoostedGAMClassifier([bbs(0)], **options).fit(X, labels)
    assert model.classes_.tolist() == names
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    np.testing.assert_array_equal(
        model.predict(X), np.array(names)[expected.predict(X)]
    )
    assert model.score(X, labels) == expected.score(X, codes) > 0.3


# ---- two classes ---------------------------------------------------------------------


@pytest.mark.parametrize("link", ["half_logit", "logit"])
def test_two_classes_are_the_binomial_family(binary: Data, link: str) -> None:
    X, y = binary
    options: Any = {"family": Binomial(link), "n_basis": 8, "max_iter": 30}
    labels = np.array(["no", "yes"])[y.astype(int)]
    model = BoostedGAMClassifier(**options).fit(X, labels)
    regressor = BoostedGAM(**options).fit(X, y)
    np.testing.assert_array_equal(model.coefficients_, regressor.coefficients_)
    np.testing.assert_array_equal(model.risk_, regressor.risk_)
    assert model.classes_.tolist() == ["no", "yes"]
    f = regressor.predict(X, kind="link")
    np.testing.assert_array_equal(model.decision_function(X), f)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p[:, 1], regressor.predict(X), rtol=1e-13)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(p), rtol=1e-12)
    scale = 2 if link == "half_logit" else 1
    np.testing.assert_allclose(np.log(p[:, 1] / p[:, 0]), scale * f, atol=1e-10)
    right = model.predict(X) == labels
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    assert model.score(X, labels) == right.mean()
    w = np.random.default_rng(0).random(len(y))
    expected = np.average(right, weights=w)
    assert model.score(X, labels, w) == pytest.approx(expected, rel=1e-13)


# ---- several classes -----------------------------------------------------------------


def test_each_class_has_a_model_against_the_rest(three: Data) -> None:
    X, y = three
    learners = [bbs(0), bols(1), bbs(2)]
    model = BoostedGAMClassifier(learners, max_iter=40).fit(X, y)
    assert len(model.paths_) == model.n_classes_ == 3
    odds = []
    for j, name in enumerate(model.classes_):
        alone = BoostedGAM(learners, family="binomial", max_iter=40)
        alone.fit(X, (y == name).astype(float))
        assert model.intercept_[j] == pytest.approx(alone.intercept_)
        np.testing.assert_array_equal(model.selected_[j], alone.selected_)
        np.testing.assert_allclose(model.risk_[j], alone.risk_, rtol=1e-12)
        effects = model.effects(X, fit=j)
        np.testing.assert_allclose(effects, alone.effects(X), atol=1e-10)
        odds.append(alone.predict(X))
    expected = np.column_stack(odds)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p, expected / expected.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    assert model.score(X, y) > 0.7
    folds = (np.arange(240)[:, None] % 3 != np.arange(3)) * 1.0
    total = sum(
        cv_stop(alone.fit(X, (y == name) * 1.0), folds).risk for name in model.classes_
    )
    np.testing.assert_allclose(cv_stop(model, folds).risk, total, rtol=1e-9)


def test_a_multinomial_model(three: Data) -> None:
    """`test_gam_paths` has its steps and its limit."""
    X, y = three
    model = BoostedGAMClassifier(family="multinomial", max_iter=60).fit(X, y)
    assert model.family_ == Multinomial(3)
    own = model.predict_proba(X)[np.arange(240), np.searchsorted(model.classes_, y)]
    assert model.risk_[-1] == pytest.approx(-np.log(own).sum())
    two = BoostedGAMClassifier(family="multinomial", max_iter=9).fit(X, y == "top")
    p, logit = two.predict_proba(X), two.decision_function(X)
    np.testing.assert_allclose(logit, np.log(p[:, 1] / p[:, 0]), atol=1e-10)
    without = two.fit(X, y, sample_weight=y != "low")
    assert without.classes_.tolist() == ["middle", "top"]


def test_early_stopping_is_that_of_the_sum_of_risks(three: Data) -> None:
    X, y = three
    options: Any = {"n_basis": 20, "df": 8, "learning_rate": 0.5, "max_iter": 600}
    model = BoostedGAMClassifier(
        early_stopping=True, n_iter_no_change=20, random_state=1, **options
    ).fit(X, y)
    risk = model.validation_risk_
    assert model.n_iter_ == int(risk.argmin()) == len(risk) - 21
    held = np.random.default_rng(1).permutation(240)[:24]
    f = model.decision_function(X[held])
    loss = Binomial().loss((y[held, None] == model.classes_).astype(float), f, 0.0)
    assert risk.min() == pytest.approx(loss.sum() / 24, rel=1e-10)


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


# ---- ordered classes -----------------------------------------------------------------


def ordered(
    classes: int, spread: float, rng: Any, n: int = 400
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


@together("classes", [2, 3, 7, 12])
@together("spread", [0.3, 1.0, 3.0, 30.0])
def test_losses_are_those_of_mboost_and_thresholds_of_maximum_likelihood(
    classes: int, spread: float, rng: np.random.Generator
) -> None:
    """The derivative of the likelihood by each threshold is 0, for all weights."""
    y, f = ordered(classes, spread, rng)
    family, w = PropOdds(classes), rng.random(len(y))
    s = family.nuisance(y, f, w)
    if spread < 30:
        np.testing.assert_allclose(family.loss(y, f, s), mboost_loss(y, f, s), 1e-10)
    for own in 1e-5 * np.eye(classes - 1):
        slope = w @ (family.loss(y, f, s + own) - family.loss(y, f, s - own))
        assert abs(slope / 2e-5) < 1e-6 * len(y)


def test_thresholds_at_their_limits(rng: np.random.Generator) -> None:
    """An absent class counts as half a row; distant predictors end the search."""
    y = np.repeat([0.0, 1, 2, 3], [5, 1, 3, 1])
    found = PropOdds(4).nuisance(y, np.full(10, 0.7), None)
    np.testing.assert_allclose(found, 0.7 + special.logit([0.5, 0.6, 0.9]), rtol=1e-12)
    y, f = ordered(5, 1.0, rng)
    for absent in (0.0, 2.0, 4.0):
        w = (y != absent) * rng.random(len(y))
        half = [np.append(y, absent), np.append(f, np.average(f, weights=w))]
        wanted = PropOdds(5).nuisance(*half, np.append(w, 0.5))
        found = PropOdds(5).nuisance(y, f, w)
        np.testing.assert_allclose(found, wanted, rtol=1e-8)
    y, f = np.array([0.0, 1, 2, 2]), np.array([-1e3, 1e3, 0.0, 5e3])
    low, high = PropOdds(3).nuisance(y, f, None)
    assert -np.inf < low < high < np.inf


def test_a_classifier_of_ordered_classes() -> None:
    X, y = sample(PropOdds(4))
    model = BoostedGAMClassifier([bbs(0), bols(1)], family="prop_odds", max_iter=30)
    p, f = model.fit(X, y).predict_proba(X), model.decision_function(X)
    s = model.paths_[0].nuisance[-1]
    cumulative = special.expit(s - f[:, None])
    np.testing.assert_allclose(p[:, :-1].cumsum(axis=1), cumulative, atol=1e-12)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    own = p[np.arange(200), y.astype(int)]
    assert -np.log(own).sum() == pytest.approx(model.risk_[-1], rel=1e-10)
    options: Any = {"max_iter": 200, "early_stopping": True, "random_state": 0}
    stopped = BoostedGAM(family=PropOdds(4), **options).fit(X, y)
    assert stopped.path_.nuisance.shape == (stopped.n_iter_ + 1, 3)


def test_the_score_of_ordered_classes_is_the_deviance_explained() -> None:
    """Against the thresholds of the shares; the inner classes have a least loss."""
    X, y = sample(PropOdds(4))
    model = BoostedGAM(family=PropOdds(4), max_iter=30).fit(X, y)

    def least(s: Floats) -> float:
        best = [
            optimize.minimize_scalar(
                lambda f, k=k: PropOdds(4).loss(np.array([k]), np.array([f]), s)[0],
                bracket=(-5, 5),
            ).fun
            for k in (1.0, 2.0)
        ]
        return float(np.array([0, *best, 0])[y.astype(int)].sum())

    shares = np.bincount(y.astype(int)) / len(y)
    null = special.logit(np.cumsum(shares)[:-1])
    total = -np.log(shares[y.astype(int)]).sum() - least(null)
    rest = model.risk_[-1] - least(model.path_.nuisance[-1])
    assert model.score(X, y) == pytest.approx(1 - rest / total, rel=1e-9)
