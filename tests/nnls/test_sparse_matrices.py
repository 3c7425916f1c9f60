"""Least squares with sparse matrices, against SciPy, brute force and dense systems."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from fractions import Fraction
from typing import Any

import cupy_stand_in
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from backends import by_object
from bounded_systems import (
    BAD,
    Bounded,
    check_against_brute_force,
    check_optimal,
    excess,
    infeasibility,
    random_problems,
    random_systems,
    spoiled,
    violation,
)
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from oracles import violation as violation_of_one
from together import together

import gpusolve
from gpusolve import emulator
from gpusolve._nnls import sparse_matrices  # results do not say which rows cancel

EPS = float(np.finfo(np.float64).eps)


def random_matrix(rng: Generator, m: int, n: int, density: float = 0.3) -> Any:
    """Normal entries in compressed sparse rows."""
    values = rng.standard_normal((m, n)) * (rng.random((m, n)) < density)
    return scipy.sparse.csr_array(values)


def solve(given: Bounded, shares: bool = False, empty: int = 0, **options: Any) -> Any:
    """The solution. `empty` more columns have no entries; their variables are 0."""
    n, wide = given.A.shape[-1], ((0, 0), (0, empty))
    each = [scipy.sparse.csr_array(np.pad(A, wide)) for A in given.A]
    names = "lower", "upper", "l1", "l2"
    padded = {name: np.pad(getattr(given, name), wide) for name in names}
    options = given._replace(**padded).options() | options
    result = gpusolve.lsq_linear(each[0] if shares else each, given.b, **options)
    return replace(result, x=result.x[..., :n])


def bounds_of(rng: Generator, m: int, n: int, systems: int) -> tuple[Any, Any]:
    """Bounds that some variables reach."""
    size = np.sqrt(n / m)
    return -size * rng.random((systems, n)), size * rng.random((systems, n))


# ---- against independent solvers -----------------------------------------------------


WIDE = 5000
"""Columns of a matrix whose Gram matrix is computed column by column."""


@pytest.fixture
def plain(hidden_object: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy computes, with the weights of a few entries at a time."""
    monkeypatch.setattr(sparse_matrices, "ENTRIES", 30)


@pytest.mark.parametrize("way", [None, "wide", "plain"])
@together(("m", "n"), [(1, 1), (3, 3), (8, 5), (5, 8), (33, 31), (40, 25), (40, 70)])
@together("shares", [False, True])
@together("sum_to", [None, 0.1])
def test_all_options_are_optimal(
    way: str | None,
    rng: Generator,
    m: int,
    n: int,
    shares: bool,
    sum_to: float | None,
    request: pytest.FixtureRequest,
) -> None:
    if way == "plain":
        request.getfixturevalue(way)
    A = [random_matrix(rng, m, n).toarray() for _ in range(1 if shares else 3)]
    weights = 0.1 + rng.random(m if shares else (3, m))
    given = Bounded.of(
        np.broadcast_to(A, (3, m, n)),
        rng.standard_normal((3, m)),
        bounds_of(rng, m, n, 3),
        l1=0.2 * rng.random((3, n)),
        l2=rng.random((3, n)),
        weights=weights,
        sum_to=None if n == 1 else sum_to,
    )
    empty = WIDE if way == "wide" else 0
    check_optimal(given, solve(given, shares, empty, weights=weights))


@together("part", range(4))
def test_degenerate_systems_agree_with_brute_force(part: int) -> None:
    """Random bounds, ties, weights, penalties and sums, on degenerate matrices."""
    for index in range(part, 40, 4):
        _, given = random_systems(index, systems=10, largest=4)
        check_against_brute_force(given, solve(given))


def scaled_columns(part: int) -> Bounded:
    """Degenerate systems with a sum, whose columns and b have very different sizes."""
    rng = np.random.default_rng([part, 38])
    systems, m, n = 8, int(rng.integers(1, 4)), int(rng.integers(2, 4))
    A = rng.integers(-2, 3, (systems, m, n)) * 10.0 ** rng.integers(-9, 1, (n,))
    point = rng.integers(0, 3, (systems, n))
    b = rng.integers(-3, 4, (systems, m)) * 10.0 ** rng.integers(0, 9, (systems, 1))
    l1 = rng.integers(0, 2, (systems, n)) * 1e-3
    return Bounded.of(A, b, (0, np.inf), l1=l1, sum_to=point.sum(axis=-1))


@together("empty", [0, WIDE])
def test_sums_are_kept_next_to_a_large_b(empty: int) -> None:
    """The terms of a sum may be below the rounding errors of ``b - A x``."""
    A = scipy.sparse.csr_array([[1, 1e-8]])
    x = gpusolve.nnls(A, [1e7], sum_to=1).x
    assert_allclose(x, [1, 0], rtol=4 * EPS, atol=4 * EPS)
    for part in range(1 if empty else 10):
        given = scaled_columns(part)
        result = solve(given, empty=empty)
        assert infeasibility(given, result.x).max() <= 1e-10
        assert (abs(result.x.sum(axis=-1) - given.sum_to) <= 1e-10).all()
        solved = result.status == 0
        assert solved.mean() > 0.8
        assert excess(given.take(solved), result.x[solved]).max() <= 1e-8


@together("dtype", ["f4", "f8"])
@together("options", [{}, {"l1": True}, {"l1": True, "l2": True}, {"has_sum": True}])
@together("kind", ["solution", "point", "bounds", "invalid", "huge"])
def test_a_warm_start_does_not_change_the_answer(
    rng: Generator, dtype: str, options: dict[str, bool], kind: str
) -> None:
    """Neither right, wrong, infeasible nor huge guesses; also of columns of zeros."""
    given = random_problems(rng, 20, 6, 4, **options)
    given.A.setflags(write=True)
    given.A[::2, :, 1] = 0
    given = given.rounded(dtype)
    arrays = given.astype(dtype)
    expected = solve(arrays)
    numbers = rng.standard_normal(expected.x.shape)
    guess = {
        "solution": expected.x,
        "point": numbers,
        "bounds": np.where(numbers < 0, given.lower, given.upper),
        "invalid": np.where(numbers < 0, np.nan, 1e300),
        "huge": 1e6 * numbers,
    }[kind]
    with np.errstate(over="ignore"):
        result = solve(arrays, warm_start=guess.astype(dtype))
    assert_array_equal(result.status, expected.status)
    eps = np.finfo(dtype).eps
    assert_allclose(result.x, expected.x, atol=1e3 * eps)


def test_a_warm_start_that_rounding_spoils_is_dropped() -> None:
    """Columns differ by up to 1e16, so that a guess of 1 may be far larger than b."""
    for seed in range(40):
        rng = np.random.default_rng([seed, 38])
        m, n = int(rng.integers(1, 4)), int(rng.integers(2, 5))
        A = rng.standard_normal((m, n)) * 10.0 ** rng.integers(-8, 9, n)
        A, b = A * (rng.random((m, n)) < 0.8), rng.standard_normal((8, m))
        guess = 1.0 * (rng.random((8, n)) < 0.6)
        result = gpusolve.nnls(scipy.sparse.csr_array(A), b, warm_start=guess)
        assert (result.status == 0).all(), seed
        given = Bounded.of(A, b, (0, np.inf))
        assert excess(given, result.x).max() <= 1e-8, seed


# ---- memory and rounding -------------------------------------------------------------


def test_a_wide_matrix_has_no_gram_matrix(rng: Generator) -> None:
    """Only products of columns that may become passive are computed."""
    A, x = abs(random_matrix(rng, 200, WIDE, 0.02)), np.zeros(WIDE)
    x[::250] = 1
    b = A @ x + 0.01 * rng.standard_normal((20, 200))
    tracemalloc.start()
    result = gpusolve.nnls(A, b, l1=1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * WIDE**2 / 10
    assert (result.status == 0).all()
    assert violation_of_one(A.toarray(), b[-1], result.x[-1], 1.0) <= 16 * EPS


def test_residuals_are_accurate_where_terms_cancel(
    rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the object and by NumPy; rows without entries, and both widths of indices."""
    A = random_matrix(rng, 23, 9, 0.5)
    A.data[A.indptr[4] : A.indptr[5]] = 0
    A.eliminate_zeros()
    x = rng.standard_normal((5, 9)) * 10.0 ** rng.integers(-3, 12, (5, 9))
    b = x @ A.toarray().T
    exact = np.vectorize(Fraction, otypes=[object])
    expected = (exact(b) - exact(x) @ exact(A.toarray().T)).astype(float)
    wide, size = A.copy(), np.full(5, np.inf)
    wide.indptr, wide.indices = (i.astype(np.int64) for i in (A.indptr, A.indices))
    limit = 32 * EPS**2 * (abs(x) @ abs(A.toarray().T)) + EPS * abs(expected)
    for name, matrix in (("", A), ("", wide), ("none", A)):
        monkeypatch.setenv("GPUSOLVE_OBJECT", name)
        found = sparse_matrices.residual(b, matrix, x, size)
        assert (abs(found - expected) <= limit).all()


# ---- what a matrix may be ------------------------------------------------------------


def test_duplicates_are_added_and_the_matrix_stays(rng: Generator) -> None:
    rows, columns = rng.integers(0, 12, 90), rng.integers(0, 5, 90)
    coo = scipy.sparse.coo_array((rng.random(90), (rows, columns)), shape=(12, 5))
    csr, b = unsorted(coo), rng.standard_normal((2, 12))
    before = csr.data.copy(), csr.indices.copy(), csr.indptr.copy()
    expected = gpusolve.nnls(coo.toarray(), b)
    for A in (coo, csr):
        assert_allclose(gpusolve.nnls(A, b).x, expected.x, atol=1e-13)
    for array, copy in zip((csr.data, csr.indices, csr.indptr), before, strict=True):
        assert_array_equal(array, copy)


def unsorted(coo: Any) -> Any:
    """Compressed sparse rows with duplicates, whose columns are not in order."""
    order = np.argsort(coo.row, kind="stable")
    starts = np.searchsorted(coo.row[order], np.arange(coo.shape[0] + 1))
    parts = coo.data[order], coo.col[order], starts
    return scipy.sparse.csr_array(parts, shape=coo.shape)


EMPTY: list[dict[str, Any]] = [
    {},
    {"bounds": (0, np.inf), "l1": 0.1},
    {"bounds": (-2, 1), "l1": 0.1, "l2": 0.3},
    {"bounds": (1, 2), "l2": 0.3},
    {"l1": 0.1},
    {"bounds": (-1, 1), "sum_to": 0.0},
    {"bounds": (0, np.inf), "sum_to": 1.0, "l1": 0.1},
]
"""Options of systems whose matrix has no entries."""


@together("shape", [(0, 4), (5, 0), (0, 0), (5, 4), (1, 1)])
@together("batch", [(), (3,), (0,), (2, 1)])
@together("dtype", ["f4", "f8"])
@together("options", EMPTY)
def test_matrices_without_entries(
    shape: tuple[int, int], batch: tuple[int, ...], dtype: str, options: dict[str, Any]
) -> None:
    """Dense and sparse. A free variable with an l1 penalty has no minimum."""
    (m, n), options = shape, {"bounds": (-np.inf, np.inf), **options}
    b, A = np.ones((*batch, m), dtype), np.zeros(shape, dtype)
    rows = {"A_ub": np.ones((0, n)), "b_ub": np.ones(0)}
    given = Bounded.of(A, np.ones((int(np.prod(batch)), m)), **options)
    falls = ((given.l1 > 0) & np.isinf(given.lower)).any() and "sum_to" not in options
    status = 3 if falls else 4 if not n and options.get("sum_to") else 0
    for result in (
        gpusolve.lsq_linear(scipy.sparse.csr_array(A), b, **options),
        gpusolve.lsq_linear(A, b, **options),
        gpusolve.lsq_linear(A, b, **options, **rows),
    ):
        assert result.x.shape == (*batch, n)
        assert result.residual.shape == b.shape
        assert result.covariance(1.0).shape == (*batch, n, n)
        # b = 0 certifies no other x, and next to it no rounding of x is small.
        if m or (dtype == "f8" and not result.x.any()):
            assert_array_equal(result.status, np.full(batch, status))
        if m and not status and given.b.size:
            x = result.x.reshape(len(given.b), n)
            assert violation(given, x).max() <= 16 * np.finfo(dtype).eps
            assert infeasibility(given, x).max() <= 16 * np.finfo(dtype).eps


# ---- bad systems do not spoil others -------------------------------------------------


@together("what", [what for what in BAD if what != "A"])
def test_a_bad_system_does_not_spoil_the_others(rng: Generator, what: str) -> None:
    A, ones = random_matrix(rng, 12, 5, 0.6), np.ones((4, 5))
    given = Bounded.of(
        A.toarray(),
        rng.standard_normal((4, 12)),
        (-ones, ones),
        *(0.1, 0.1, np.ones((4, 12)), 0.5),
    ).copy()
    good = solve(given, shares=True)
    assert (gpusolve.nnls(A, given.b, maxiter=0).status == 1).any()
    bad = spoiled(given, what, 1)
    found = solve(bad, shares=True)
    assert found.status.tolist() == [0, BAD[what][0], 0, 0]
    assert np.isnan(found.x[1]).all()
    assert_array_equal(found.x[[0, 2, 3]], good.x[[0, 2, 3]])


# ---- results -------------------------------------------------------------------------


@together("sum_to", [None, 1.0])
@together("l2", [0.0, 0.1])
@together("own", [False, True])
@together("weights", [None, (20,), (2, 1, 20)])
def test_results_are_those_of_dense_matrices(
    rng: Generator,
    sum_to: float | None,
    l2: float,
    own: bool,
    weights: tuple[int, ...] | None,
) -> None:
    """Also the variance, which the degrees of freedom give without weights.

    The first system has no solution, and the second has a target of zero.
    """
    each = [random_matrix(rng, 20, 6) for _ in range(3)]
    A = each if own else each[0]
    dense = np.stack([M.toarray() for M in each]) if own else each[0].toarray()
    b = rng.standard_normal((3, 20)) + 0.5
    b[1] = 0
    lower, upper = np.zeros((3, 6)), np.ones((3, 6))
    lower[0, 0] = 2
    given = {"bounds": (lower, upper), "sum_to": sum_to, "l2": l2}
    given |= {"L": rng.standard_normal((3, 2, 6)) if own else "second"}
    given |= {"lam": np.array([[0.1], [2.0]]), "prior": rng.random((3, 6))}
    given["weights"] = None if weights is None else rng.random(weights)
    result, expected = (gpusolve.lsq_linear(M, b, **given) for M in (A, dense))
    assert_array_equal(result.status, [[4, 0, 0]] * 2)
    for name in ("x", "rnorm", "seminorm", "residual"):
        values = getattr(result, name), getattr(expected, name)
        assert_allclose(*values, atol=1e-12)
    for variance in (None, 2.0):
        for name in ("covariance", "variance"):
            found, other = (getattr(r, name)(variance) for r in (result, expected))
            assert_allclose(found, other, atol=1e-12)
    with pytest.raises(ValueError, match="vjp needs a result of a dense A"):
        result.vjp(np.ones(6))


# ---- devices -------------------------------------------------------------------------


def given_on_devices(rng: Generator) -> tuple[Any, Any, dict[str, Any]]:
    """Systems with bounds and weights whose residuals cancel."""
    A = random_matrix(rng, 40, 6)
    b = rng.random((3, 6)) @ A.toarray().T + 1e-9 * rng.standard_normal((3, 40))
    return A, b, {"bounds": (0, 0.9), "weights": rng.random(40)}


def test_matrices_on_a_gpu(rng: Generator) -> None:
    A, b, options = given_on_devices(rng)
    options |= {"L": "first", "lam": 1e-20}
    expected = gpusolve.lsq_linear(A, b, **options)
    with cupy_stand_in.installed() as cupy, cupy.cuda.Device(1):
        options["weights"] = cupy.asarray(options["weights"])
        there, sides = cupy.sparse.csr_matrix(A), cupy.asarray(b)
        with cupy.cuda.Device(0):
            result = gpusolve.lsq_linear([there] * 3, sides, **options)
            fields = result._asdict() | {"residual": result.residual}
        assert {field.device.id for field in fields.values()} == {1}
        with pytest.raises(TypeError, match="b on the CPU"):
            gpusolve.lsq_linear(there, b)
        with pytest.raises(TypeError, match="sparse matrices of one library"):
            gpusolve.lsq_linear([there, A], sides)
    assert (result.status.get() == 0).all()
    assert_allclose(result.x.get(), expected.x, rtol=1e-12)
    assert_allclose(result.rnorm.get(), expected.rnorm, rtol=1e-6)


@pytest.mark.usefixtures("emulated")
def test_the_emulator_solves(rng: Generator) -> None:
    A, b, options = given_on_devices(rng)
    expected = by_object(gpusolve.lsq_linear, A, b, **options)
    with emulator.profile() as report:
        result = gpusolve.lsq_linear(A, b, **options)
    assert any(kernel.name.startswith("nnls_gram") for kernel in report.kernels)
    assert (result.status == 0).all()
    assert_allclose(result.x, expected.x, rtol=1e-12)
