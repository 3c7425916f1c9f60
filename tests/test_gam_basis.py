"""B-splines and penalties against SciPy, patsy and what defines them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.interpolate import BSpline

from gpusolve._device.arrays import is_cupy
from gpusolve.gam.basis import BSplines
from gpusolve.gam.penalty import differences, null_dimension, penalty_matrix
from gpusolve.reference import design_matrix, equidistant_knots

DEGREES = range(6)
SIZES = (0, 1, 13)
"""Functions beyond the fewest that a degree allows."""


def host(array: Any) -> np.ndarray:
    return array.get() if is_cupy(array) else array


def dense(x: Any, n_basis: int, degree: int) -> np.ndarray:
    """The basis of one covariate on its own range, (n, n_basis)."""
    X = x[:, None]
    return host(BSplines.spanning(X, n_basis, degree).evaluate(X).dense(n_basis)[0])


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([[3.0, -2.0], rng.uniform(-2, 3, 200), np.linspace(-2, 3, 6)])


@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("more", SIZES)
def test_is_scipys_and_the_specifications(
    backend: Any, x: np.ndarray, degree: int, more: int
) -> None:
    n_basis = degree + 1 + more
    knots = equidistant_knots(-2.0, 3.0, n_basis, degree)
    ours = dense(backend.array(x), n_basis, degree)
    inside = x < 3  # at the end SciPy's splines of degree 0 have jumped already
    scipy = BSpline.design_matrix(x[inside], knots, degree).toarray()
    np.testing.assert_allclose(ours[inside], scipy, atol=1e-13)
    np.testing.assert_allclose(ours, design_matrix(x, knots, degree), atol=1e-13)


@pytest.mark.parametrize("degree", range(1, 6))
def test_is_patsys_with_our_knots_in_the_middle(x: np.ndarray, degree: int) -> None:
    """The knots that patsy repeats at the ends are out of reach in the middle."""
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
def test_rows_add_up_to_one(x: np.ndarray, degree: int) -> None:
    B = dense(x, degree + 8, degree)
    np.testing.assert_allclose(B.sum(axis=1), 1, atol=1e-14)
    assert (B >= 0).all()
    assert ((B > 0).sum(axis=1) <= degree + 1).all()


@pytest.mark.parametrize("degree", DEGREES)
def test_effects_go_on_by_their_tangent(backend: Any, degree: int) -> None:
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
    np.testing.assert_allclose(host(outside) @ coef, expected, atol=1e-5)


def test_clamped_effects_stay() -> None:
    basis = BSplines(np.zeros(1), np.ones(1), 8)
    x = np.array([[-5.0], [0.0], [1.0], [9.0]])
    B = basis.evaluate(x, outside="clamp").dense(8)[0]
    np.testing.assert_array_equal(B[0], B[1])
    np.testing.assert_array_equal(B[3], B[2])


def test_errors_name_what_is_wanted() -> None:
    basis = BSplines(np.zeros(1), np.ones(1), 8)
    with pytest.raises(ValueError, match="outside of the range"):
        basis.evaluate(np.array([[1.5]]), outside="error")
    with pytest.raises(ValueError, match="one of"):
        basis.evaluate(np.array([[0.5]]), outside="mirror")
    with pytest.raises(ValueError, match="at least degree"):
        BSplines(np.zeros(1), np.ones(1), 3)
    with pytest.raises(ValueError, match="0 to 5"):
        BSplines(np.zeros(1), np.ones(1), 9, degree=6)
    with pytest.raises(ValueError, match="not finite"):
        BSplines(np.full(1, -1.5e308), np.full(1, 1.5e308), 8)


def test_the_training_range_is_no_error() -> None:
    x = np.linspace(0.1, 0.7, 50)[:, None] * np.array([1, 1e-12, 1e12])
    BSplines.spanning(x, 12).evaluate(x, outside="error")


def test_a_constant_covariate_has_no_basis() -> None:
    X = np.full((4, 1), 3.0)
    assert not BSplines.spanning(X, 6).evaluate(X).values.any()


def test_cells_too_narrow_for_a_number_are_none() -> None:
    X = np.array([[0.0], [5e-324]])
    assert not BSplines.spanning(X, 6).evaluate(X).values.any()


def test_memory_layout_and_storage(rng: np.random.Generator) -> None:
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
    np.testing.assert_allclose(host(product), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_differences_are_numpys(order: int) -> None:
    c = np.random.default_rng(order).standard_normal(9)
    np.testing.assert_allclose(differences(9, order) @ c, np.diff(c, order))
    rough = c @ penalty_matrix(9, "difference", order) @ c
    np.testing.assert_allclose(rough, (np.diff(c, order) ** 2).sum())


@pytest.mark.parametrize("order", [1, 2, 3])
def test_cyclic_differences_know_no_ends(order: int) -> None:
    K = penalty_matrix(9, "cyclic", order)
    np.testing.assert_array_equal(np.roll(K, (1, 1), (0, 1)), K)
    ring = np.tile(np.random.default_rng(order).standard_normal(9), 3)
    rough = (np.diff(ring, order)[9:18] ** 2).sum()
    np.testing.assert_allclose(ring[:9] @ K @ ring[:9], rough)


@pytest.mark.parametrize("kind", ["difference", "cyclic", "ridge", None])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_null_space_has_its_dimension(kind: str | None, order: int) -> None:
    K = penalty_matrix(9, kind, order)
    assert np.linalg.matrix_rank(K) == 9 - null_dimension(9, kind, order)


def test_penalties_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="one of"):
        penalty_matrix(9, "lasso")
    with pytest.raises(ValueError, match="1, 2 or 3"):
        penalty_matrix(9, "difference", 4)
    with pytest.raises(ValueError, match="more functions"):
        penalty_matrix(3, "difference", 3)
