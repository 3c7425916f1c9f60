"""Folds, the risk of rows left out, and bootstrap intervals of effects."""

from __future__ import annotations

import numpy as np
from gam_models import sample
from sklearn.model_selection import PredefinedSplit
from together import together

from gpusolve.gam import (
    BoostedDistribution,
    BoostedGAM,
    BoostedGAMClassifier,
    bbs,
    bols,
    bootstrap_effects,
    cv_stop,
)

# The weights of folds, which a validation does not show.
from gpusolve.gam._boosting.folds import make_folds
from gpusolve.gam.families import Gaussian

X, Y = sample(Gaussian(), 90)


# ---- folds ---------------------------------------------------------------------------


def test_folds_of_each_kind(rng: np.random.Generator) -> None:
    """Each row is in or out of the bag, and is left out of one of k folds."""
    w = rng.integers(1, 4, 23).astype(np.float64)
    for kind, count in (("bootstrap", 25), ("kfold", 10), ("subsampling", 25)):
        folds = make_folds(kind, w, None, None, 0)
        assert len(folds.weights) == count
        np.testing.assert_array_equal(folds.out_of_bag, w * (folds.weights == 0))
        assert (folds.weights[folds.weights > 0] % 1 == 0).all()
    five, half = (
        make_folds(k, np.ones(23), None, 5, 0) for k in ("kfold", "subsampling")
    )
    np.testing.assert_array_equal(five.out_of_bag.sum(axis=1), [4, 4, 4, 4, 7])
    np.testing.assert_array_equal(five.out_of_bag.sum(axis=0), 1)
    np.testing.assert_array_equal(half.weights.sum(axis=1), 11)


def test_a_bootstrap_sample_has_as_many_rows_as_the_data() -> None:
    weights = np.r_[np.zeros(5), np.ones(20), np.full(20, 3.0)]
    folds = make_folds("bootstrap", weights, None, 400, 0)
    np.testing.assert_array_equal(folds.weights.sum(axis=1), np.full(400, 40))
    share = folds.weights[:, 20:].sum() / folds.weights.sum()
    deviation = np.sqrt(0.75 * 0.25 / folds.weights.sum())
    assert abs(share - 0.75) < 5 * deviation


FOLDS_OF_ROWS = {
    "indices": lambda fold: [(np.flatnonzero(fold != k), fold == k) for k in range(3)],
    "masks": lambda fold: [(fold != k, fold == k) for k in range(3)],
    "weights": lambda fold: (fold[:, None] != np.arange(3)) * 1.0,
    "splitter": PredefinedSplit,
}
"""The same folds, from the fold of each row."""


@together("kind", FOLDS_OF_ROWS)
def test_folds_are_of_the_rows_of_x(kind: str) -> None:
    """Rows of weight 0 may be anywhere: the result is the same without them."""
    rng = np.random.default_rng(0)
    n = 40
    X, y, fold = rng.random((n, 2)), rng.integers(3, size=n), np.arange(n) % 3
    y[:3] = range(3)
    w = rng.integers(1, 4, n) * 1.0
    places = np.sort(rng.choice(n + 15, n, replace=False))
    spread = [np.zeros((n + 15, *a.shape[1:]), a.dtype) for a in (X, y, fold, w)]
    for some, values in zip(spread, (X, y, fold, w), strict=True):
        some[places] = values
    made = FOLDS_OF_ROWS[kind]
    for model in (
        BoostedGAM(df=4),
        BoostedGAMClassifier(df=4),
        BoostedDistribution(df=4),
    ):
        risks = []
        for X_, y_, fold_, w_ in ((X, y, fold, w), spread):
            fitted = model.__class__(**model.get_params() | {"max_iter": 9})
            fitted.fit(X_, y_, sample_weight=w_)
            risks.append(cv_stop(fitted, made(fold_)).risk)
            if kind != "weights":
                fitted.set_params(max_iter="auto", cv=made(fold_))
                fitted.fit(X_, y_, sample_weight=w_)
                risks[-1] = np.append(risks[-1], fitted.validation_risk_)
        np.testing.assert_array_equal(*risks)


def test_weights_of_a_fold_that_are_not_whole_are_scaled() -> None:
    matrix = np.array([[0.5, 1.0], [1.5, 2.0], [0.0, 0.0]])
    folds = make_folds(matrix, np.ones(3), None, None, None)
    np.testing.assert_allclose(folds.weights, [[0.5, 1.5, 0], [1, 2, 0]])
    matrix[1, 0] = 2.5
    folds = make_folds(matrix, np.ones(3), None, None, None)
    np.testing.assert_allclose(folds.weights[0], [1 / 3, 5 / 3, 0])


# ---- the risk of rows left out -------------------------------------------------------


def test_the_best_iteration_has_the_least_mean_risk() -> None:
    model = BoostedGAM(max_iter=150).fit(X, Y)
    cv = cv_stop(model, "kfold", n_folds=3, random_state=1)
    assert cv.risk.shape == (3, 151)
    best = cv.best_iteration
    assert (cv.mean >= cv.mean[best]).all()
    assert (cv.mean[:best] > cv.mean[best]).all()
    assert f"best after {best}" in repr(cv)


# ---- bootstrap -----------------------------------------------------------------------


def test_intervals_are_quantiles_of_fits_to_samples() -> None:
    model = BoostedGAM([bbs(0, boundary=(0, 1)), bols(1)], max_iter=40).fit(X, Y)
    found = bootstrap_effects(model, 9, random_state=3)
    x = np.array([0.2, 0.5])
    weights = make_folds("bootstrap", np.ones(90), None, 9, 3).weights
    effects = []
    for w in weights:
        refitted = BoostedGAM([bbs(0, boundary=(0, 1)), bols(1)], max_iter=40)
        refitted.fit(X, Y, sample_weight=w)
        level = refitted.partial_effect(0, X[:, 0]).mean()
        effects.append(refitted.partial_effect(0, x) - level)
    lower, upper = found.interval(0, x, level=0.5)
    np.testing.assert_allclose(lower, np.quantile(effects, 0.25, axis=0), rtol=1e-9)
    np.testing.assert_allclose(upper, np.quantile(effects, 0.75, axis=0), rtol=1e-9)


@together("classes", [1, 3])
def test_each_sample_may_have_its_own_number_of_iterations(
    classes: int,
) -> None:
    """The same as separate fits to the samples, stopped by the rows that they omit."""
    labels = np.digitize(Y, np.quantile(Y, [1 / 3, 2 / 3]))
    kind, target = (BoostedGAM, Y) if classes == 1 else (BoostedGAMClassifier, labels)
    terms = [bbs(j, boundary=(0, 1), df=12) for j in range(3)]
    model = kind(terms, learning_rate=0.3, max_iter=60).fit(X, target)
    found = bootstrap_effects(model, 4, choose_steps=True, random_state=3)
    folds = make_folds("bootstrap", np.ones(len(Y)), None, 4, 3)
    cv = cv_stop(model, folds.weights.T)
    stops = cv.risk.argmin(axis=1)
    assert 0 < stops.min() < stops.max() < 60
    for coef, weights, stop in zip(found.coef, folds.weights, stops, strict=True):
        refit = model.__class__(**model.get_params()).fit(X, target, weights)
        paths = refit.stop_at(int(stop)).paths_
        expected = np.stack([path.coef(3) for path in paths])
        np.testing.assert_allclose(
            coef, expected if classes > 1 else expected[0], rtol=1e-6, atol=1e-9
        )
