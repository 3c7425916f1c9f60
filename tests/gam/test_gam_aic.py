"""Degrees of freedom of a boosted model, and the criteria that use them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from gpusolve.gam import (
    BoostedGAM,
    BoostedGAMClassifier,
    aic_stop,
    bbs,
    bols,
)
from gpusolve.gam._terms.frame import Frame
from gpusolve.gam._terms.rows import Rows, dense_rows, indicator_rows, kronecker
from gpusolve.gam.aic import (
    classical_aic,
    corrected_aic,
    degrees_of_freedom,
    minimum_description_length,
)
from gpusolve.gam.families import Binomial, Family, Poisson

NU = 0.1

Floats = np.ndarray


class Example(NamedTuple):
    """Learners of several kinds: two dense learners, a factor, and a product."""

    rows: list[Rows]
    inverse: list[Floats]
    weights: Floats | None
    selected: Floats
    updates: Floats


def example(weighted: bool, n: int = 40, steps: int = 25) -> Example:
    rng = np.random.default_rng(3)
    line = dense_rows(np.column_stack([np.ones(n), rng.normal(size=n)]))
    curve = dense_rows(rng.normal(size=(n, 5)))
    factor = dense_rows(np.eye(4)[rng.integers(0, 4, n)])
    unused = dense_rows(rng.normal(size=(n, 3)))
    rows = [line, unused, curve, factor, kronecker(factor, line)]
    weights = rng.uniform(0.2, 3, n) if weighted else None
    W = np.ones(n) if weights is None else weights
    inverse = []
    for design in rows:
        X = design.dense()
        k = design.functions
        inverse.append(np.linalg.inv((X.T * W) @ X + rng.uniform(0.5, 5) * np.eye(k)))
    selected = rng.choice([0, 2, 3, 4], steps).astype(np.int32)
    updates = np.zeros((steps, 8))
    for step, j in enumerate(selected):
        updates[step, : rows[j].functions] = 0.1 * rng.normal(size=rows[j].functions)
    return Example(rows, inverse, weights, selected, updates)


def sizes_of(given: Example) -> Floats:
    return np.full(len(given.selected), NU)


def models_by_hand(given: Example, start: Floats) -> Floats:
    """The models after each step, (steps, n)."""
    steps = zip(given.selected, given.updates, strict=True)
    changes = [given.rows[j].dense() @ b[: given.rows[j].functions] for j, b in steps]
    return start + np.cumsum(changes, axis=0)


def traces_by_hand(given: Example, curvatures: list[Floats] | None) -> Floats:
    """The traces of the n x n matrices, by their recursion."""
    n = len(given.rows[0])
    W = np.ones(n) if given.weights is None else given.weights
    B = np.zeros((n, n))
    traces = []
    for step, j in enumerate(given.selected):
        X = given.rows[j].dense()
        H = X @ given.inverse[j] @ (X.T * W)
        if curvatures is not None:
            H = curvatures[step][:, None] * H
        B = B + NU * H @ (np.eye(n) - B)
        traces.append(np.trace(B))
    return np.array(traces)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("curvature", [None, np.exp, Binomial().information])
def test_degrees_of_freedom_are_the_traces_of_the_hat_matrices(
    weighted: bool, curvature: Callable[[Floats], Floats] | None
) -> None:
    given = example(weighted)
    curvatures = None
    if curvature is not None:
        start = np.full(len(given.rows[0]), -0.3)
        curvatures = [curvature(f) for f in models_by_hand(given, start)]
    found = degrees_of_freedom(
        given.rows,
        given.inverse,
        given.weights,
        given.selected,
        sizes_of(given),
        None if curvatures is None else iter(curvatures),
    )
    np.testing.assert_allclose(found, traces_by_hand(given, curvatures), rtol=1e-11)


def test_designs_with_many_functions_are_multiplied_as_sparse_matrices() -> None:
    rng = np.random.default_rng(4)
    lines = dense_rows(rng.normal(size=(300, 2)))
    many = kronecker(indicator_rows(rng.integers(0, 20, 300), 20, np.float64), lines)
    assert many.functions > 16 * many.width
    X = many.dense()
    given = Example(
        [many],
        [np.linalg.inv(X.T @ X + np.eye(40))],
        None,
        np.zeros(8, np.int32),
        np.zeros((8, 40)),
    )
    found = degrees_of_freedom(
        given.rows, given.inverse, None, given.selected, sizes_of(given)
    )
    np.testing.assert_allclose(found, traces_by_hand(given, None), rtol=1e-11)


def test_without_steps_there_are_no_degrees_of_freedom() -> None:
    given = example(weighted=False)
    none = np.zeros(0, np.int32)
    assert degrees_of_freedom(
        given.rows, given.inverse, None, none, np.array([])
    ).shape == (0,)


@pytest.mark.parametrize("family", [Binomial(), Binomial("logit"), Poisson()])
def test_information_is_the_second_derivative_of_the_loss(family: Family) -> None:
    f, h, y = np.linspace(-2, 2, 9), 1e-4, np.ones(9)
    losses = [family.loss(y, f + k * h, np.float64(0)) for k in (-1, 0, 1)]
    bend = (losses[0] - 2 * losses[1] + losses[2]) / h**2
    np.testing.assert_allclose(family.information(f), bend, rtol=1e-6)


def test_criteria_by_hand() -> None:
    df, squares = np.array([1.0, 2.0]), np.array([8.0, 5.0])
    aicc = corrected_aic(df, squares, 10.0)
    expected = [math.log(0.8) + 1.1 / 0.7, math.log(0.5) + 1.2 / 0.6]
    np.testing.assert_allclose(aicc.values, expected, rtol=1e-14)
    assert aicc.best_iteration == 2
    gmdl = minimum_description_length(df, squares, 10.0, total_squares=20.0)
    S = squares / (10 - df)
    expected = np.log(S) + df / 10 * np.log((20 - squares) / (df * S))
    np.testing.assert_allclose(gmdl.values, expected, rtol=1e-14)
    aic = classical_aic(df, np.array([7.0, 5.5]))
    assert aic.values.tolist() == [16.0, 15.0]
    assert aic.best_iteration == 2


def test_criteria_are_infinite_where_they_are_not_defined() -> None:
    df, squares = np.array([1.0, 8.5, 10.5]), np.array([8.0, 5.0, 1e-9])
    assert np.isfinite(corrected_aic(df, squares, 10.0).values).tolist() == [1, 0, 0]
    gmdl = minimum_description_length(df, squares, 10.0, total_squares=20.0)
    assert np.isfinite(gmdl.values).tolist() == [1, 1, 0]
    assert corrected_aic(df, squares, 10.0).best_iteration == 1


def test_the_first_of_equal_minima_is_the_best() -> None:
    assert (
        classical_aic(
            np.array([1.0, 1.0, 2.0]), np.array([3.0, 3.0, 3.0])
        ).best_iteration
        == 1
    )


# ---- fitted models -------------------------------------------------------------------


def data(n: int = 80) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(7)
    X = rng.random((n, 3))
    return X, np.sin(6 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(n)


LEARNERS = [bbs(0, knots=6), bols(1), bbs(2, knots=4, df=3)]


def smoother(model: BoostedGAM, X: Floats) -> Floats:
    """The hat matrix of the whole path, from fits to each unit vector."""
    offset = np.zeros(len(X))
    columns = []
    for unit in np.eye(len(X)):
        f = np.zeros(len(X))
        for j in model.selected_:
            step = BoostedGAM([LEARNERS[j]], max_iter=1, step_rule="mboost")
            step.fit(X, unit - f, offset=offset)
            f = f + step.predict(X, kind="link", offset=offset)
        columns.append(f)
    return np.column_stack(columns)


def test_aic_stop_of_a_gaussian_model() -> None:
    X, y = data(25)
    model = BoostedGAM(LEARNERS, max_iter=8).fit(X, y)
    found = aic_stop(model)
    np.testing.assert_allclose(found.df[-1], np.trace(smoother(model, X)), rtol=1e-9)
    expected = corrected_aic(found.df, model.risk_[1:], 25.0).values
    np.testing.assert_array_equal(found.values, expected)
    gmdl = aic_stop(model, "gmdl")
    total = float(y @ y)
    expected = minimum_description_length(found.df, model.risk_[1:], 25.0, total).values
    np.testing.assert_allclose(gmdl.values, expected, rtol=1e-12)


def test_integer_weights_count_as_repeated_rows() -> None:
    X, y = data()
    w = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = BoostedGAM(LEARNERS, max_iter=60).fit(X, y, sample_weight=w)
    repeated = BoostedGAM(LEARNERS, max_iter=60).fit(X.repeat(w, 0), y.repeat(w))
    for criterion in ("aicc", "gmdl"):
        first, second = aic_stop(weighted, criterion), aic_stop(repeated, criterion)
        np.testing.assert_allclose(first.df, second.df, rtol=1e-8)
        np.testing.assert_allclose(first.values, second.values, rtol=1e-8)


def test_aic_stop_of_counts_starts_at_the_offset() -> None:
    X, f = data()
    y = np.random.default_rng(1).poisson(np.exp(f))
    offset = np.linspace(-0.5, 0.5, len(y))
    model = BoostedGAM(LEARNERS, family="poisson", max_iter=30)
    model.fit(X, y, offset=offset)
    found = aic_stop(model)
    np.testing.assert_array_equal(found.values, 2 * model.risk_[1:] + 2 * found.df)
    # All steps with the curvatures after them, by hand.
    hat, f = np.zeros((len(y), len(y))), offset + model.intercept_
    for step, j in enumerate(model.selected_):
        after = model.predict(X, iteration=step + 1, offset=offset, kind="link")
        d = after - f
        size = model.learning_rate * (d @ d) / (d**2 @ ((y + np.exp(f)) / 2))
        term, lambda_, f = model.terms_[j], model.lambda_[j], after
        B = term.rows(Frame.of(X)).dense()
        T = term.transform()
        B = B if T is None else B @ T
        H = B @ np.linalg.inv(B.T @ B + lambda_ * term.penalty()) @ B.T
        hat += size * np.exp(f)[:, None] * H @ (np.eye(len(y)) - hat)
        np.testing.assert_allclose(found.df[step], np.trace(hat), rtol=1e-7)


@pytest.mark.parametrize("link", ["half_logit", "logit"])
def test_aic_stop_of_classes(link: str) -> None:
    X, f = data()
    family = Binomial(link)
    classes = np.where(f > 0.5, "yes", "no")
    model = BoostedGAMClassifier(LEARNERS, family=family).fit(X, classes)
    regressor = BoostedGAM(LEARNERS, family=family).fit(X, 1.0 * (f > 0.5))
    found = aic_stop(model)
    np.testing.assert_allclose(found.df, aic_stop(regressor).df, rtol=1e-12)
    assert 1 < found.best_iteration <= 100
