"""B-splines and penalties, compared with SciPy, patsy and their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.interpolate import BSpline

from gpusolve._device.arrays import on_host
from gpusolve.gam.basis import BSplines
from gpusolve.gam.penalty import differences, null_dimension, penalty_matrix
from gpusolve.reference import design_matrix, equidistant_knots

DEGREES = range(6)
SIZES = (0, 1, 13)
"""Number of functions beyond the minimum, which is degree + 1."""


def dense(x: Any, n_basis: int, degree: int) -> np.ndarray:
    """The basis of one covariate on its own range, (n, n_basis)."""
    X = x[:, None]
    return on_host(BSplines.spanning(X, n_basis, degree).evaluate(X).dense(n_basis)[0])


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([[3.0, -2.0], rng.uniform(-2, 3, 200), np.linspace(-2, 3, 6)])


@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("more", SIZES)
def test_equals_scipy_and_the_reference(
    backend: Any, x: np.ndarray, degree: int, more: int
) -> None:
    n_basis = degree + 1 + more
    knots = equidistant_knots(-2.0, 3.0, n_basis, degree)
    ours = dense(backend.array(x), n_basis, degree)
    inside = x < 3  # at the end SciPy's splines of degree 0 are already zero
    scipy = BSpline.design_matrix(x[inside], knots, degree).toarray()
    np.testing.assert_allclose(ours[inside], scipy, atol=1e-13)
    np.testing.assert_allclose(ours, design_matrix(x, knots, degree), atol=1e-13)


@pytest.mark.parametrize("degree", range(1, 6))
def test_equals_patsy_away_from_the_ends(x: np.ndarray, degree: int) -> None:
    """patsy repeats the knots at the ends, which does not affect the middle."""
    patsy = pytest.importorskip("patsy")
    n_basis = 20
    knots = equidistant_knots(-2.0, 3.0, n_basis, degree)
    inner = knots[degree + 1 : -degree - 1]
    theirs = np.asarray(
        patsy.bs(x, knots=inner, degree=degree, include_intercept=True,
                 lower_bound=-2.0, upper_bound=3.0)
    )  # fmt: skip
    ours = dense(x, n_basis, degree)
    assert theirs.shape == ours.shape
    middle = slice(degree, n_basis - degree)
    np.testing.assert_allclose(ours[:, middle], theirs[:, middle], atol=1e-13)


@pytest.mark.parametrize("degree", DEGREES)
def test_rows_sum_to_one(x: np.ndarray, degree: int) -> None:
    B = dense(x, degree + 8, degree)
    np.testing.assert_allclose(B.sum(axis=1), 1, atol=1e-14)
    assert (B >= 0).all()
    assert ((B > 0).sum(axis=1) <= degree + 1).all()


@pytest.mark.parametrize("degree", DEGREES)
def test_linear_extrapolation_follows_the_tangent(backend: Any, degree: int) -> None:
    n_basis = degree + 7
    basis = BSplines(*map(backend.array, np.array([[0.0], [2.0]])), n_basis, degree)
    x = np.array([-0.7, 0.0, 2.0, 3.1])
    outside = basis.evaluate(backend.array(x[:, None])).dense(n_basis)[0]
    knots = equidistant_knots(0.0, 2.0, n_basis, degree)
    coef = np.cos(np.arange(n_basis))
    ends = np.array([0.0, 2.0])
    value = design_matrix(ends, knots, degree) @ coef
    slope = np.zeros(2)
    if degree:
        near = ends + np.array([1e-7, -1e-7])
        slope = (design_matrix(near, knots, degree) @ coef - value) / (near - ends)
    expected = [
        value[0] - 0.7 * slope[0], value[0], value[1], value[1] + 1.1 * slope[1]
    ]  # fmt: skip
    np.testing.assert_allclose(on_host(outside) @ coef, expected, atol=1e-5)


def test_clamp_keeps_the_value_at_the_end() -> None:
    basis = BSplines(np.zeros(1), np.ones(1), 8)
    x = np.array([[-5.0], [0.0], [1.0], [9.0]])
    B = basis.evaluate(x, outside="clamp").dense(8)[0]
    np.testing.assert_array_equal(B[0], B[1])
    np.testing.assert_array_equal(B[3], B[2])


def test_errors_name_the_allowed_values() -> None:
    basis = BSplines(np.zeros(1), np.ones(1), 8)
    with pytest.raises(ValueError, match="within the range"):
        basis.evaluate(np.array([[1.5]]), outside="error")
    with pytest.raises(ValueError, match="outside must be one of"):
        basis.evaluate(np.array([[0.5]]), outside="mirror")
    with pytest.raises(ValueError, match="n_basis must be at least degree"):
        BSplines(np.zeros(1), np.ones(1), 3)
    with pytest.raises(ValueError, match="degree must be 0 to 5"):
        BSplines(np.zeros(1), np.ones(1), 9, degree=6)
    with pytest.raises(ValueError, match="must be finite"):
        BSplines(np.full(1, -1.5e308), np.full(1, 1.5e308), 8)


def test_training_data_is_within_its_range() -> None:
    x = np.linspace(0.1, 0.7, 50)[:, None] * np.array([1, 1e-12, 1e12])
    BSplines.spanning(x, 12).evaluate(x, outside="error")


def test_basis_of_a_constant_covariate_is_zero() -> None:
    X = np.full((4, 1), 3.0)
    assert not BSplines.spanning(X, 6).evaluate(X).values.any()


def test_basis_is_zero_if_the_cell_width_underflows() -> None:
    X = np.array([[0.0], [5e-324]])
    assert not BSplines.spanning(X, 6).evaluate(X).values.any()


def test_memory_layout_and_dtype(rng: np.random.Generator) -> None:
    X = rng.random((50, 4))
    basis = BSplines.spanning(X, 10)
    rows, columns = basis.evaluate(X), basis.evaluate(np.asfortranarray(X))
    np.testing.assert_array_equal(rows.values, columns.values)
    single = basis.evaluate(X, dtype=np.float32).values
    assert single.dtype == np.float32
    np.testing.assert_array_equal(single, rows.values.astype(np.float32))


def test_products_with_coefficients(backend: Any, rng: np.random.Generator) -> None:
    X, coef = rng.random((50, 4)), rng.standard_normal((4, 10))
    basis = BSplines.spanning(backend.array(X), 10).evaluate(backend.array(X))
    product = basis.multiply(backend.array(coef))
    expected = np.einsum(
        "knj,kj->kn", BSplines.spanning(X, 10).evaluate(X).dense(10), coef
    )
    np.testing.assert_allclose(on_host(product), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_differences_equal_numpy_diff(order: int) -> None:
    c = np.random.default_rng(order).standard_normal(9)
    np.testing.assert_allclose(differences(9, order) @ c, np.diff(c, order))
    rough = c @ penalty_matrix(9, "difference", order) @ c
    np.testing.assert_allclose(rough, (np.diff(c, order) ** 2).sum())


@pytest.mark.parametrize("order", [1, 2, 3])
def test_cyclic_differences_are_the_same_around_the_ring(order: int) -> None:
    K = penalty_matrix(9, "cyclic", order)
    np.testing.assert_array_equal(np.roll(K, (1, 1), (0, 1)), K)
    ring = np.tile(np.random.default_rng(order).standard_normal(9), 3)
    rough = (np.diff(ring, order)[9:18] ** 2).sum()
    np.testing.assert_allclose(ring[:9] @ K @ ring[:9], rough)


@pytest.mark.parametrize("kind", ["difference", "cyclic", "ridge", None])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_dimension_of_the_null_space(kind: str | None, order: int) -> None:
    K = penalty_matrix(9, kind, order)
    assert np.linalg.matrix_rank(K) == 9 - null_dimension(9, kind, order)


def test_invalid_penalties_raise() -> None:
    with pytest.raises(ValueError, match="penalty must be one of"):
        penalty_matrix(9, "lasso")
    with pytest.raises(ValueError, match="penalty_order must be 1, 2 or 3"):
        penalty_matrix(9, "difference", 4)
    with pytest.raises(ValueError, match="n_basis must be greater"):
        penalty_matrix(3, "difference", 3)
