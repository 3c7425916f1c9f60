"""Degrees of freedom of a boosted model, and the criteria that use them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import expit

from gpusolve.gam.aic import (
    bernoulli_curvature,
    classical_aic,
    corrected_aic,
    degrees_of_freedom,
    minimum_description_length,
    models,
)
from gpusolve.gam.rows import Rows, dense_rows, kronecker

NU = 0.1

Floats = np.ndarray


class Example(NamedTuple):
    """Learners of several kinds: two dense ones, a factor, and a product of two."""

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


def traces_by_hand(one: Example, curvatures: list[Floats] | None) -> Floats:
    """The traces of the n x n matrices, by their recursion."""
    n = len(one.rows[0])
    W = np.ones(n) if one.weights is None else one.weights
    B = np.zeros((n, n))
    traces = []
    for step, j in enumerate(one.selected):
        X = one.rows[j].dense()
        H = X @ one.inverse[j] @ (X.T * W)
        if curvatures is not None:
            H = curvatures[step][:, None] * H
        B = B + NU * H @ (np.eye(n) - B)
        traces.append(np.trace(B))
    return np.array(traces)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "curvature", [None, np.exp, lambda f: bernoulli_curvature(f, 2.0)]
)
def test_degrees_of_freedom_are_the_traces_of_the_hat_matrices(
    weighted: bool, curvature: Callable[[Floats], Floats] | None
) -> None:
    one = example(weighted)
    curvatures = None
    if curvature is not None:
        start = np.full(len(one.rows[0]), -0.3)
        after = models(one.rows, one.selected, one.updates, start)
        curvatures = [curvature(f) for f in after]
    found = degrees_of_freedom(
        one.rows,
        one.inverse,
        one.weights,
        one.selected,
        NU,
        None if curvatures is None else iter(curvatures),
    )
    np.testing.assert_allclose(found, traces_by_hand(one, curvatures), rtol=1e-11)


def test_designs_with_many_functions_are_multiplied_as_sparse_matrices() -> None:
    rng = np.random.default_rng(4)
    many = dense_rows(rng.normal(size=(300, 2))).in_blocks(
        rng.integers(0, 20, 300), blocks=20
    )
    assert many.functions > 16 * many.width
    X = many.dense()
    one = Example(
        [many],
        [np.linalg.inv(X.T @ X + np.eye(40))],
        None,
        np.zeros(8, np.int32),
        np.zeros((8, 40)),
    )
    found = degrees_of_freedom(one.rows, one.inverse, None, one.selected, NU)
    np.testing.assert_allclose(found, traces_by_hand(one, None), rtol=1e-11)


def test_models_after_each_step() -> None:
    one = example(weighted=False)
    start = np.linspace(-1, 1, len(one.rows[0]))
    expected = start
    for f, j, update in zip(
        models(one.rows, one.selected, one.updates, start),
        one.selected,
        one.updates,
        strict=True,
    ):
        expected = expected + one.rows[j].dense() @ update[: one.rows[j].functions]
        np.testing.assert_allclose(f, expected, atol=1e-13)


def test_without_steps_there_are_no_degrees_of_freedom() -> None:
    one = example(weighted=False)
    none = np.zeros(0, np.int32)
    assert degrees_of_freedom(one.rows, one.inverse, None, none, NU).shape == (0,)


@pytest.mark.parametrize("slope", [1.0, 2.0])
def test_bernoulli_curvature_is_the_second_derivative_of_the_loss(slope: float) -> None:
    f, h = np.linspace(-2, 2, 9), 1e-5
    gradient = (slope * expit(slope * (f + h)) - slope * expit(slope * (f - h))) / 2 / h
    np.testing.assert_allclose(bernoulli_curvature(f, slope), gradient, rtol=1e-8)
    assert (bernoulli_curvature(np.array([-1e3, 1e3]), slope) == 0).all()


def test_criteria_by_hand() -> None:
    df, squares = np.array([1.0, 2.0]), np.array([8.0, 5.0])
    aicc = corrected_aic(df, squares, 10.0)
    expected = [math.log(0.8) + 1.1 / 0.7, math.log(0.5) + 1.2 / 0.6]
    np.testing.assert_allclose(aicc.values, expected, rtol=1e-14)
    assert aicc.best == 2
    gmdl = minimum_description_length(df, squares, 10.0, total_squares=20.0)
    S = squares / (10 - df)
    expected = np.log(S) + df / 10 * np.log((20 - squares) / (df * S))
    np.testing.assert_allclose(gmdl.values, expected, rtol=1e-14)
    aic = classical_aic(df, np.array([7.0, 5.5]))
    assert aic.values.tolist() == [16.0, 15.0]
    assert aic.best == 2


def test_criteria_are_infinite_where_they_are_not_defined() -> None:
    df, squares = np.array([1.0, 8.5, 10.5]), np.array([8.0, 5.0, 1e-9])
    assert np.isfinite(corrected_aic(df, squares, 10.0).values).tolist() == [1, 0, 0]
    gmdl = minimum_description_length(df, squares, 10.0, total_squares=20.0)
    assert np.isfinite(gmdl.values).tolist() == [1, 1, 0]
    assert corrected_aic(df, squares, 10.0).best == 1


def test_the_first_of_equal_minima_is_the_best() -> None:
    assert classical_aic(np.array([1.0, 1.0, 2.0]), np.array([3.0, 3.0, 3.0])).best == 1
