"""B-splines and penalties, compared with SciPy, patsy and their definitions."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy.interpolate import BSpline
from together import together

from gpusolve._device.arrays import on_host
from gpusolve.emulator import profile
from gpusolve.gam._terms.basis import (
    BSplines,
    CompactBasis,
    differences,
    penalty_matrix,
)
from gpusolve.gam._terms.spline import Spline, penalty_options
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


@together("degree", DEGREES)
@together("more", SIZES)
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


@together("degree", DEGREES)
def test_rows_sum_to_one(x: np.ndarray, degree: int) -> None:
    B = dense(x, degree + 8, degree)
    np.testing.assert_allclose(B.sum(axis=1), 1, atol=1e-14)
    assert (B >= 0).all()
    assert ((B > 0).sum(axis=1) <= degree + 1).all()


@together("degree", DEGREES)
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


# ---- the kernel ----------------------------------------------------------------------


def emulate(basis: BSplines, X: np.ndarray, **options: Any) -> CompactBasis:
    with mock.patch.dict(os.environ, GPUSOLVE_EMULATE="1"):
        return basis.evaluate(X, **options)


def check_kernel(basis: BSplines, X: np.ndarray, **options: Any) -> None:
    """Kernel and NumPy compute the same positions, and the same values up to rounding.

    NumPy rounds 4 times for each degree, the kernel 3 times and twice to divide by the
    factorial; then both multiply the slope by the excess, and add. All terms of the
    recursion are positive, so relative errors add up, to at most ``(7 d + 6) / 2`` eps.
    Values and slopes are at most 1. At the upper end NumPy may also add the rounding
    error of the position, 2 eps.
    """
    found, expected = (
        emulate(basis, X, **options),
        basis.evaluate(X, **options),
    )
    assert found.values.dtype == expected.values.dtype
    np.testing.assert_array_equal(found.first, expected.first)
    width = (basis.upper - basis.lower) / basis.cells
    position = (X - basis.lower) / np.where(width > 0, width, 1)
    excess = abs(position - np.clip(position, 0, basis.cells)).T[..., None]
    roundings = (7 * basis.degree + 6) / 2 * (1 + excess) + 2 * basis.cells
    tolerance = np.finfo(np.float64).eps * roundings
    if expected.values.dtype == np.float32:
        tolerance = tolerance + np.finfo(np.float32).eps * abs(expected.values)
    assert (abs(found.values - expected.values) <= tolerance).all()


@together("columns", [1, 2, 7, 33, 70])
@together("rows", [1, 31, 32, 100, 1100])
def test_kernel_evaluates_any_shape(
    rows: int, columns: int, rng: np.random.Generator
) -> None:
    X = rng.uniform(-2, 3, (rows, columns))
    check_kernel(BSplines(np.full(columns, -1.0), np.full(columns, 2.5), 9), X)


@together("degree", DEGREES)
@together("outside", ["linear", "clamp"])
def test_kernel_evaluates_outside_the_range(
    degree: int, outside: str, rng: np.random.Generator
) -> None:
    X = np.concatenate([rng.normal(0, 50, (40, 3)), np.zeros((1, 3)), np.ones((1, 3))])
    X[-1, 2] = np.nextafter(1, 2)
    basis = BSplines(np.zeros(3), np.ones(3), degree + 4, degree)
    check_kernel(basis, X, outside=outside)


@pytest.mark.parametrize("given", [np.float32, np.float64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernel_dtypes(given: Any, dtype: Any, rng: np.random.Generator) -> None:
    X = rng.random((200, 5)).astype(given)
    check_kernel(BSplines.spanning(X, 12), X, dtype=dtype)


@together("given", ["i1", "i8", "?", "f2", ">f8"])
def test_kernel_converts_other_covariates(given: str) -> None:
    X = (np.arange(60).reshape(20, 3) % 17).astype(given)
    check_kernel(BSplines(np.zeros(3), np.full(3, 16.0), 7), X)


def test_kernel_converts_values_to_other_dtypes(rng: np.random.Generator) -> None:
    X = rng.random((50, 2))
    found = emulate(BSplines.spanning(X, 7), X, dtype=np.float16).values
    assert found.dtype == np.float16


@together(
    "view",
    [
        np.asfortranarray,
        lambda X: X[::2, ::3],
        lambda X: X[::-1, ::-1],
        lambda X: X.T,
        lambda X: np.broadcast_to(X[:, :1], X.shape),
        lambda X: np.broadcast_to(X[:1], X.shape),
        lambda X: X.astype([("skip", "i1"), ("x", "f8")])["x"],
    ],
    ids=["F", "strided", "reversed", "T", "one column", "one row", "unaligned"],
)
def test_kernel_reads_any_layout(view: Any, rng: np.random.Generator) -> None:
    X = view(rng.random((70, 45)))
    columns = X.shape[1]
    check_kernel(BSplines(np.zeros(columns), np.ones(columns), 8), X)


def test_kernel_evaluates_constant_covariates(rng: np.random.Generator) -> None:
    X = np.stack([np.full(40, 3.0), rng.random(40), np.full(40, -1e300)], axis=1)
    basis = BSplines.spanning(X, 8)
    check_kernel(basis, X)
    assert not emulate(basis, X + 1).values[[0, 2]].any()


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_kernel_evaluates_no_elements(shape: tuple[int, int]) -> None:
    basis = BSplines(np.zeros(shape[1]), np.ones(shape[1]), 8)
    found = emulate(basis, np.zeros(shape), outside="error")
    assert found.first.shape == shape[::-1]
    assert found.values.shape == (*shape[::-1], 4)


@pytest.mark.parametrize("value", [-1e-9, 1 + 1e-9])
def test_kernel_reports_one_element_outside(
    value: float, rng: np.random.Generator
) -> None:
    X = rng.random((300, 40))
    basis = BSplines(np.zeros(40), np.ones(40), 8)
    emulate(basis, X, outside="error")
    X[123, 34] = value
    with pytest.raises(ValueError, match="within the range"):
        emulate(basis, X, outside="error")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("columns", [1, 20, 64])
def test_kernel_reads_and_writes_once(
    order: Any, columns: int, rng: np.random.Generator
) -> None:
    """One launch, no temporary arrays, and only full sectors."""
    X = np.asarray(rng.random((1024, columns)), order=order)
    basis = BSplines.spanning(X, 12)
    with profile() as report:
        emulate(basis, X)
    (kernel,) = report.kernels
    assert (report.host.launches, report.host.allocations) == (1, 2)
    assert kernel.barriers == kernel.blocks
    for name, size in (("x", 8), ("first", 4), ("values", 4 * 8)):
        array = kernel.arrays[name]
        assert array.bytes == array.distinct_bytes == size * X.size
        assert array.sectors == array.fewest_sectors == size * X.size // 32


# ---- products and penalties ----------------------------------------------------------


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


@together("kind", ["difference", "cyclic", "ridge"])
@together("order", [1, 2, 3])
def test_a_spline_has_the_penalty_of_its_kind(kind: str, order: int) -> None:
    options = penalty_options(kind, order, df=4)
    term = Spline(covariates=(0,), ends=((0.0, 1.0),), interior=(5,), **options)
    K = term.penalty()
    np.testing.assert_array_equal(K, penalty_matrix(len(K), kind, order))
    assert np.linalg.matrix_rank(K) == len(K) - term.null_dimension


def test_invalid_penalties_raise() -> None:
    with pytest.raises(ValueError, match="penalty must be one of"):
        penalty_matrix(9, "lasso")
    with pytest.raises(ValueError, match="penalty_order must be 1, 2 or 3"):
        penalty_matrix(9, "difference", 4)
    with pytest.raises(ValueError, match="n_basis must be greater"):
        penalty_matrix(3, "difference", 3)
