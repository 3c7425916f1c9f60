"""gpusolve.lsq_linear against SciPy, brute force and the optimality conditions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from bounded_systems import (
    Bounded,
    check_optimal,
    excess,
    infeasibility,
    magnitude,
    random_systems,
    violation,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from together import together

import gpusolve

Array = NDArray[Any]

EPS = float(np.finfo(np.float64).eps)
CERTIFIED = 16 * EPS
INF = np.inf


@pytest.fixture(params=["auto", "gram", "qr"])
def method(request: pytest.FixtureRequest) -> str:
    """Each method in turn."""
    return str(request.param)


def solve(backend: Any, given: Bounded, **options: Any) -> Any:
    return backend.solve(
        gpusolve.lsq_linear, given.A, given.b, **given.options(), **options
    )


def random(
    rng: np.random.Generator, m: int, n: int, systems: int = 4, **options: Any
) -> Bounded:
    """Systems with active bounds; own bounds for every variable."""
    A = rng.standard_normal((systems, m, n))
    b = rng.standard_normal((systems, m))
    size = np.sqrt(n / m)
    lower = -size * rng.random((systems, n))
    upper = size * rng.random((systems, n))
    return Bounded.of(A, b, (lower, upper), **options).copy()


def shows_multiplier(given: Bounded, x: Array, rnorm: Array) -> Array:
    """Whether the residual shows more than rounding errors of the sum's multiplier.

    The multiplier is the l1 of a free variable minus its gradient. It is one number in
    float64, so the gradients of the free variables have errors of eps l1. A certificate
    allows 1e-10 of the residual times the norm of the column.
    """
    if given.sum_to is None:
        return np.ones(len(x), bool)
    free = (given.lower < x) & (x < given.upper)
    norm = np.linalg.norm(given.weighted()[0], axis=-2)
    least = np.where(free, norm, INF).min(axis=-1, initial=1e300)
    return np.asarray(EPS * (free * given.l1).max(axis=-1) <= 1e-10 * rnorm * least)


# ---- against independent solvers -----------------------------------------------------


@together("part", range(4))
def test_degenerate_systems_agree_with_brute_force(
    backend: Any, method: str, part: int
) -> None:
    """Random bounds, ties, weights, penalties and sums, on degenerate matrices."""
    systems = 10 if backend.emulated or method == "qr" else 50
    for index in range(part, 40, 4):
        family, given = random_systems(index, systems=systems, largest=4)
        result = solve(backend, given, method=method)
        what = f"{family}, batch {index}"
        assert set(np.unique(result.status)) <= {0, 3}, what
        off = infeasibility(given, result.x)
        assert np.isfinite(off).all(), what
        assert off[result.status == 0].max(initial=0) <= 1e-10, what
        solved = result.status == 0
        size, of_b = magnitude(given, result.x), np.linalg.norm(given.b, axis=-1)
        expected = (size < 1e3 * of_b) & shows_multiplier(given, result.x, result.rnorm)
        least = {"auto": 1.0, "qr": 0.9, "gram": 0.7}[method]
        assert solved[expected].sum() >= least * expected.sum(), what
        above = excess(given.take(solved), result.x[solved])
        assert above.max(initial=0) <= 1e-8, what


@together(("m", "n"), [(9, 4), (4, 4), (3, 5)])
@together("sum_to", [None, 0.1])
def test_all_options_agree_with_brute_force(
    backend: Any,
    rng: np.random.Generator,
    method: str,
    m: int,
    n: int,
    sum_to: float | None,
) -> None:
    given = random(
        rng, m, n, l2=rng.random((4, n)), weights=rng.random((4, m)), sum_to=sum_to
    )
    given = given._replace(l1=0.2 * rng.random((4, n)))
    result = solve(backend, given, method=method)
    check_optimal(given, result)
    assert excess(given, result.x).max() <= 1e-13


def test_ties_and_degenerate_vertices(backend: Any, method: str) -> None:
    """Integers: gradients of 0 at a bound, equal slopes, and vertices with both."""
    rng = np.random.default_rng(3)
    systems = 20 if backend.emulated or method == "qr" else 200
    A = rng.integers(-2, 3, (systems, 5, 4)).astype(float)
    y = rng.integers(-2, 3, (systems, 4)).astype(float)
    b = (A @ y[..., None])[..., 0] + rng.integers(0, 2, (systems, 5))
    lower = rng.integers(-2, 1, (systems, 4))
    given = Bounded.of(A, b, (lower, lower + rng.integers(0, 3, (systems, 4))))
    result = solve(backend, given, method=method)
    check_optimal(given, result)
    assert excess(given, result.x).max() <= 1e-13
    summed = given._replace(sum_to=given.lower.sum(-1) + rng.integers(0, 2, systems))
    reachable = summed.sum_to <= given.upper.sum(-1)
    summed = summed.take(reachable)
    result = solve(backend, summed, method=method)
    check_optimal(summed, result)
    assert excess(summed, result.x).max() <= 1e-13


# ---- a fixed sum ---------------------------------------------------------------------


@together("least", [True, False])
def test_the_least_and_the_greatest_sum(
    backend: Any, rng: np.random.Generator, method: str, least: bool
) -> None:
    """Bounds leave one point."""
    given = random(rng, 8, 5)
    ends = given.lower if least else given.upper
    given = given._replace(sum_to=ends.sum(axis=-1))
    result = solve(backend, given, method=method)
    assert (result.status == 0).all()
    np.testing.assert_allclose(result.x, ends, atol=4 * EPS)


# ---- properties ----------------------------------------------------------------------

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
def test_scaling_scales_solutions(backend: Any, seed: int) -> None:
    """Powers of two change no bit; bounds and penalties follow."""
    rng = np.random.default_rng(seed)
    given = random(rng, 9, 5, systems=3, l1=0.1 * rng.random(5), l2=rng.random(5))
    column, of_b = 2.0 ** rng.integers(-30, 30, 5), 2.0 ** rng.integers(-30, 30)
    other = given._replace(
        A=given.A * column,
        b=given.b * of_b,
        lower=given.lower / column * of_b,
        upper=given.upper / column * of_b,
        l1=given.l1 * column * of_b,
        l2=given.l2 * 4.0 ** np.log2(column).astype(int),
    )
    np.testing.assert_array_equal(
        solve(backend, other).x * column / of_b, solve(backend, given).x
    )


# ---- special bounds ------------------------------------------------------------------


def test_bounds_of_nnls_give_nnls(
    backend: Any, rng: np.random.Generator, method: str
) -> None:
    A, b = rng.standard_normal((4, 9, 6)), rng.standard_normal((4, 9))
    expected = backend.nnls(A, b, method=method)
    result = backend.solve(gpusolve.lsq_linear, A, b, (0, INF), method=method)
    as_arrays = backend.solve(
        gpusolve.lsq_linear, A, b, (np.zeros(6), np.full((4, 6), INF)), method=method
    )
    for name, array in expected._asdict().items():
        np.testing.assert_array_equal(getattr(result, name), array)
    np.testing.assert_allclose(as_arrays.x, expected.x, atol=1e-13)


def test_masked_columns_are_left_out(
    backend: Any, rng: np.random.Generator, method: str
) -> None:
    """Other columns in each system, of one shared matrix."""
    A, b = rng.standard_normal((12, 6)), rng.standard_normal((5, 12))
    used = rng.random((5, 6)) < 0.6
    used[0], used[1] = True, False
    bounds = (0.0, np.where(used, INF, 0.0))
    result = backend.solve(gpusolve.lsq_linear, A, b, bounds, method=method)
    assert (result.status == 0).all()
    assert (result.x[~used] == 0).all()
    for k in range(5):
        expected = scipy.optimize.nnls(A[:, used[k]], b[k])[0] if used[k].any() else []
        np.testing.assert_allclose(result.x[k, used[k]], expected, atol=1e-12)


def test_equal_bounds_fix_variables(
    backend: Any, rng: np.random.Generator, method: str
) -> None:
    A, b = rng.standard_normal((4, 9, 5)), rng.standard_normal((4, 9))
    values = rng.standard_normal((4, 5))
    fixed = rng.random((4, 5)) < 0.5
    fixed[0] = True
    bounds = np.where(fixed, values, -INF), np.where(fixed, values, INF)
    result = backend.solve(gpusolve.lsq_linear, A, b, bounds, method=method)
    assert (result.status == 0).all()
    np.testing.assert_array_equal(result.x[fixed], values[fixed])
    for k in range(4):
        rest = b[k] - A[k][:, fixed[k]] @ values[k, fixed[k]]
        free = np.linalg.lstsq(A[k][:, ~fixed[k]], rest, rcond=None)[0]
        np.testing.assert_allclose(result.x[k, ~fixed[k]], free, atol=1e-12)


def test_variables_at_a_bound_have_its_bits(
    backend: Any, rng: np.random.Generator, method: str
) -> None:
    """0.1 in float32 is not 0.1; the bound is rounded to the dtype of A."""
    for dtype in (np.float32, np.float64):
        A = rng.standard_normal((4, 9, 5)).astype(dtype)
        b = (10 * rng.standard_normal((4, 9))).astype(dtype)
        result = backend.solve(
            gpusolve.lsq_linear, A, b, (-0.1, np.full(5, 0.3)), method=method
        )
        assert result.x.dtype == dtype
        low, high = result.x == dtype(-0.1), result.x == dtype(0.3)
        assert low.any()
        assert high.any()
        assert (result.x[~low & ~high] > dtype(-0.1)).all()
        assert (result.x[~low & ~high] < dtype(0.3)).all()


@together("scale", [1e-150, 1e-20, 1e20, 1e150])
def test_bounds_of_any_magnitude(
    backend: Any, rng: np.random.Generator, method: str, scale: float
) -> None:
    given = random(rng, 9, 5)
    other = given._replace(b=given.b * scale)
    other = other._replace(lower=given.lower * scale, upper=given.upper * scale)
    result = solve(backend, other, method=method)
    assert (result.status == 0).all()
    np.testing.assert_allclose(
        result.x / scale, solve(backend, given, method=method).x, rtol=1e-11, atol=1e-13
    )


# ---- weights and penalties -----------------------------------------------------------


def test_weights_equal_scaled_rows(
    backend: Any, rng: np.random.Generator, method: str
) -> None:
    """Squares of powers of two: the same bits."""
    given = random(rng, 12, 5)
    root = 2.0 ** rng.integers(-3, 4, (4, 12)) * (rng.random((4, 12)) < 0.8)
    weighted = solve(backend, given._replace(weights=root**2), method=method)
    scaled = given._replace(A=given.A * root[..., None], b=given.b * root)
    expected = solve(backend, scaled, method=method)
    for name, array in expected._asdict().items():
        np.testing.assert_array_equal(getattr(weighted, name), array)


def test_weights_of_a_shared_matrix(
    backend: Any, rng: np.random.Generator, method: str
) -> None:
    A, b = rng.standard_normal((12, 5)), rng.standard_normal((6, 12))
    weights = rng.random((6, 12))
    for w in (weights, weights[0], weights.reshape(2, 3, 12)):
        data = b.reshape(2, 3, 12) if w.ndim == 3 else b
        result = backend.solve(
            gpusolve.lsq_linear, A, data, (-0.1, 0.1), weights=w, method=method
        )
        given = Bounded.of(A, b, (-0.1, 0.1), weights=w.reshape(-1, 12))
        flat = result.x.reshape(6, 5)
        assert (result.status == 0).all()
        assert violation(given, flat).max() <= CERTIFIED


@together("kept", [1e30, np.nan])
@together("shared", [False, True])
@together(("m", "n"), [(8, 3), (9, 5), (36, 34)])
def test_a_row_of_weight_zero_is_a_row_of_zeros(
    backend: Any,
    rng: np.random.Generator,
    method: str,
    kept: float,
    shared: bool,
    m: int,
    n: int,
) -> None:
    """The same bits for any row of weight 0, for every team of the Gram kernel."""
    given = random(rng, m, n, 3, weights=rng.random((3, m)))
    A = given.A[0] if shared else given.A
    given.weights[:, 2] = given.weights[1, :4] = 0
    A[..., 2, :], given.b[:, 2] = 0, 0
    expected = solve(backend, given._replace(A=A), method=method)
    check_optimal(given._replace(A=np.broadcast_to(A, given.A.shape)), expected)
    A[..., 2, 1], given.b[0, 2], given.b[1, :4] = kept, -kept, INF
    found = solve(backend, given._replace(A=A), method=method)
    for name, array in expected._asdict().items():
        np.testing.assert_array_equal(getattr(found, name), array)


def test_nan_counts_where_its_weight_is_positive(backend: Any, method: str) -> None:
    A, b = np.eye(4)[:, :2], np.ones((3, 4))
    A[3] = np.nan
    weights = np.array([[1, 1, 1, 0], [1, 1, 1, 1e-30], [0, 0, 0, 0]])
    result = backend.solve(gpusolve.lsq_linear, A, b, weights=weights, method=method)
    assert result.status.tolist() == [0, 2, 4]
    np.testing.assert_array_equal(result.x[0], 1)


def penalised(
    rng: np.random.Generator,
    systems: int,
    shape: tuple[int, int],
    bounds: tuple[float, float],
    case: str,
) -> Bounded:
    """Penalties on dependent columns, some of them equal.

    Some b are fitted exactly, by a column with a penalty or without a penalty.
    """
    n = shape[1]
    A = rng.standard_normal((systems, *shape))
    b = rng.standard_normal((systems, shape[0]))
    A[::3, :, 1] = A[::3, :, 0]
    b[::5] = A[::5, :, -1] / 2
    l1 = 0.3 * rng.random((systems, n))
    l1[::10, -1] = 0
    given = Bounded.of(A, b, bounds, l1)
    if "l2" in case:
        given = given._replace(l2=rng.random((systems, n)) * (np.arange(n) % 3 == 0))
    if "sum" in case:
        largest = np.minimum(given.upper.sum(axis=1), 1)
        given = given._replace(sum_to=largest * rng.random(systems))
    return given


@pytest.mark.parametrize(("m", "n"), [(1, 4), (3, 5)])
@pytest.mark.parametrize("bounds", [(0.0, INF), (-0.3, 0.1), (-0.2, INF)])
@pytest.mark.parametrize("case", ["l1", "l1 l2", "l1 sum", "l1 l2 sum"])
def test_penalties_on_dependent_columns(
    backend: Any,
    rng: np.random.Generator,
    method: str,
    m: int,
    n: int,
    bounds: tuple[float, float],
    case: str,
) -> None:
    """x may move along a dependence of columns until it reaches a bound."""
    systems = 10 if backend.emulated or method == "qr" else 50
    given = penalised(rng, systems, (m, n), bounds, case)
    result = solve(backend, given, method=method)
    check_optimal(given, result)
    assert excess(given, result.x).max() <= 1e-12


def least_penalty(given: Bounded, x: Array, k: int) -> float:
    """The least ``l1 x`` of system k with the same ``A x``, by linear programming."""
    A = given.A[k]
    if given.sum_to is not None:
        A = np.vstack([A, np.ones(A.shape[-1])])
    limits = np.stack([given.lower[k], given.upper[k]], axis=-1)
    found = scipy.optimize.linprog(given.l1[k], None, None, A, A @ x[k], limits)
    assert found.success
    return float(found.fun)


@pytest.mark.parametrize("bounds", [(0.0, INF), (-1.0, 1.0)])
@pytest.mark.parametrize("case", ["l1", "l1 sum"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_move_along_a_dependence_lowers_the_penalty(
    backend: Any,
    rng: np.random.Generator,
    bounds: tuple[float, float],
    case: str,
    dtype: Any,
) -> None:
    """Many more columns than rows, against SciPy's linear programming."""
    made = penalised(rng, 5, (8, 32), bounds, case).rounded(dtype)
    result = solve(backend, made.astype(dtype))
    eps = float(np.finfo(dtype).eps)
    check_optimal(made, result, 64)
    x = result.x.astype(float)
    for k in range(5):
        found = float(made.l1[k] @ x[k])
        assert found <= least_penalty(made, x, k) + 1e3 * eps * (made.l1[k] @ abs(x[k]))


def test_rounding_of_a_penalty_moves_nothing(
    backend: Any, rng: np.random.Generator, method: str
) -> None:
    """Moves along dependences do not change a penalty ``y A``, except by rounding."""
    A = rng.random((10, 8, 3)) @ rng.random((10, 3, 6))
    b, y = rng.random((2, 10, 8))
    given = Bounded.of(A, b, (-1e4, 1e4), (y[:, None] @ A)[:, 0])
    result = solve(backend, given, method=method)
    assert (result.status == 0).all()
    best = np.linalg.pinv(A, rcond=1e-10) @ (b - y)[..., None]
    np.testing.assert_allclose(A @ result.x[..., None], A @ best, atol=1e-10)


def test_many_more_columns_than_rows_with_the_same_penalty(
    backend: Any, rng: np.random.Generator, method: str
) -> None:
    A, b = rng.standard_normal((4, 8, 32)), rng.standard_normal((4, 8))
    A[..., 1] = 2 * A[..., 0]
    result = backend.nnls(A, b, l1=0.01, method=method)
    check_optimal(Bounded.of(A, b, (0.0, INF), 0.01), result)


def test_a_penalty_moves_x_where_b_is_fitted_exactly(backend: Any, method: str) -> None:
    """The residual is 0: only the penalty has a slope."""
    A, b = np.array([[1.0, 1.0, 2.0]]), np.ones((2, 1))
    given = Bounded.of(A, b, (-1.0, 1.0), np.array([[3.0, 0, 0], [0, 3.0, 0]]))
    result = solve(backend, given, method=method)
    check_optimal(given, result)
    np.testing.assert_array_equal(result.x[[0, 1], [0, 1]], -1)
    np.testing.assert_allclose((given.A @ result.x[..., None])[..., 0], b, atol=4 * EPS)


@together("l1", [0.4, np.full(3, 1e3)])
def test_the_same_penalty_is_a_constant_if_the_sum_is_fixed(
    backend: Any, rng: np.random.Generator, method: str, l1: Any
) -> None:
    """The residual is 0: the penalty alone would determine the multiplier."""
    A, expected = rng.standard_normal((8, 5, 3)), rng.random((8, 3))
    b, sum_to = np.einsum("kij,kj->ki", A, expected), expected.sum(axis=-1)
    result = backend.solve(
        gpusolve.lsq_linear, A, b, (0, INF), l1=l1, sum_to=sum_to, method=method
    )
    assert (result.status == 0).all()
    np.testing.assert_allclose(result.x, expected, rtol=0, atol=1e-12)


# ---- warm start ----------------------------------------------------------------------


def test_warm_start(backend: Any, rng: np.random.Generator, method: str) -> None:
    given = random(rng, 30, 20)
    cold = solve(backend, given, method=method)
    warm = solve(backend, given, method=method, warm_start=cold.x)
    np.testing.assert_allclose(warm.x, cold.x, atol=1e-12)
    assert (warm.nit < cold.nit).all()
    assert (warm.n_downdates == 0).all()
    for start in (np.full(20, 5.0), np.full(20, -5.0), rng.standard_normal((4, 20))):
        other = solve(backend, given, method=method, warm_start=start)
        np.testing.assert_allclose(other.x, cold.x, atol=1e-12)
    start = np.array([np.nan, INF, -INF, 1e300] + 16 * [0.0])
    other = solve(backend, given, method=method, warm_start=start)
    np.testing.assert_allclose(other.x, cold.x, atol=1e-12)


def test_iteration_limit(backend: Any, rng: np.random.Generator, method: str) -> None:
    given = random(rng, 16, 10, systems=1)
    full = solve(backend, given, method=method)
    assert full.nit[0] > 2
    for maxiter in range(int(full.nit[0])):
        result = solve(backend, given, method=method, maxiter=maxiter)
        assert result.status[0] == 1
        assert np.isfinite(infeasibility(given, result.x)).all()


# ---- the batch -----------------------------------------------------------------------


def test_every_argument_broadcasts(
    backend: Any, rng: np.random.Generator, method: str
) -> None:
    """The batch (2, 3) comes from each argument in turn, and from all arguments."""
    shapes = {
        "A": (7, 4),
        "b": (7,),
        "lower": (4,),
        "upper": (4,),
        "weights": (7,),
        "l1": (4,),
        "l2": (4,),
        "sum_to": (),
        "warm_start": (4,),
    }

    def call(values: dict[str, Any]) -> Any:
        rest = dict(values)
        A, b, lower, upper = (rest.pop(key) for key in list(shapes)[:4])
        return backend.solve(
            gpusolve.lsq_linear, A, b, (lower, upper), method=method, **rest
        )

    each = {name: rng.random((2, 3, *shape)) for name, shape in shapes.items()}
    each["lower"] -= 1
    each["l1"] *= 0.1
    every = call(each)
    assert every.x.shape == (2, 3, 4)
    for name in shapes:
        values = {key: value[0, 0] for key, value in each.items()} | {name: each[name]}
        result = call(values)
        assert result.x.shape == every.x.shape
        np.testing.assert_allclose(result.x[0, 0], every.x[0, 0], atol=1e-12)
        column = {**each, name: each[name][:, :1]}
        np.testing.assert_allclose(call(column).x[:, 0], every.x[:, 0], atol=1e-12)
    alone = call({key: value[1, 2] for key, value in each.items()})
    assert alone.x.shape == (4,)
    assert np.ndim(alone.rnorm) == np.ndim(alone.status) == 0
    np.testing.assert_allclose(alone.x, every.x[1, 2], atol=1e-12)


BAD = {
    "A": (2, np.nan),
    "b": (2, np.inf),
    "lower": (2, np.nan),
    "upper": (2, np.nan),
    "l1": (2, np.nan),
    "l2": (2, np.inf),
    "weights": (2, np.nan),
    "sum_to": (2, np.nan),
    "lower above": (4, None),
    "no weight": (4, None),
    "sum too large": (4, 1e3),
    "sum too small": (4, -1e3),
    "lower of inf": (4, np.inf),
    "upper of -inf": (4, -np.inf),
    "negative weight": (2, -1.0),
    "infinite weight": (2, np.inf),
    "infinite sum": (2, np.inf),
    "negative l1": (2, -1.0),
    "negative l2": (2, -1.0),
    "infinite l1": (2, np.inf),
}
"""The status of a system with this defect, and the number that makes it."""


def spoiled(given: Bounded, what: str, system: int) -> Bounded:
    """The systems, one of them with a defect."""
    other = given.copy()
    value = BAD[what][1]
    if what == "lower above":
        other.lower[system, 1] = other.upper[system, 1] + 1
    elif what == "no weight":
        other.weights[system] = 0
    elif value is not None:
        words = what.split()
        name = next(word for word in (*words, "weights") if word in (*given._fields,))
        name = "weights" if "weight" in words else "sum_to" if "sum" in words else name
        entry = (system,) if name == "sum_to" else (system, 1)
        getattr(other, name)[entry] = value
    return other


@together("what", BAD)
def test_a_bad_system_changes_no_bit_of_others(
    backend: Any, rng: np.random.Generator, method: str, what: str
) -> None:
    given = random(
        rng, 9, 5, 6, l1=0.1 * rng.random(5), l2=rng.random(5), sum_to=0.1, weights=1.0
    )
    good = solve(backend, given, method=method)
    assert (good.status == 0).all()
    result = solve(backend, spoiled(given, what, 2), method=method)
    expected = BAD[what][0]
    assert result.status.tolist() == [0, 0, expected, 0, 0, 0]
    others = [0, 1, 3, 4, 5]
    for name, array in good._asdict().items():
        found = getattr(result, name)
        np.testing.assert_array_equal(found[others], array[others])
        if array.dtype.kind == "f":
            assert np.isnan(found[2]).all()


def test_a_block_that_solves_several_systems_reads_each_before_the_next(
    method: str, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Thread 0 takes the next system while others still certify this system."""
    from gpusolve import _emulator

    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    given = random(rng, 6, 4, l1=0.1, l2=rng.random(4), sum_to=0.1, weights=1.0)
    solve = partial(gpusolve.lsq_linear, given.A, given.b, **given.options())
    expected = solve(method=method)
    monkeypatch.setattr(_emulator.Kernel, "resident_blocks", lambda *_: 1)
    with _emulator.races():
        found = solve(method=method)
    np.testing.assert_array_equal(found.x, expected.x)


@together("shared", [False, True])
@together("l2", [1.0, 1e6, -1.0, np.nan, INF])
def test_an_l2_penalty_changes_no_bit_of_systems_without(
    backend: Any, rng: np.random.Generator, method: str, l2: float, shared: bool
) -> None:
    given = random(rng, 9, 5, 6, l2=0.0)
    A = given.A[0] if shared else given.A
    good = solve(backend, given._replace(A=A), method=method)
    given.l2[2, 1] = l2
    result = solve(backend, given._replace(A=A), method=method)
    assert result.status.tolist() == [0, 0, 0 if 0 < l2 < INF else 2, 0, 0, 0]
    others = [0, 1, 3, 4, 5]
    for name, array in good._asdict().items():
        np.testing.assert_array_equal(getattr(result, name)[others], array[others])


def test_defects_of_one_system(backend: Any, method: str) -> None:
    """Without a batch, and as numbers where numbers are allowed."""
    A, b = np.eye(3), np.ones(3)

    def status(bounds: Any = (0, 1), **options: Any) -> int:
        result = backend.solve(
            gpusolve.lsq_linear, A, b, bounds, method=method, **options
        )
        return int(result.status)

    ones = np.ones(3)
    assert status() == 0
    assert status((np.array([0, 0, 2.0]), 1)) == 4
    assert status((ones * np.nan, 1)) == 2
    assert status((0, np.array([1, 1, -INF]))) == 4
    assert status((np.array([0, 0, INF]), INF)) == 4
    assert status((-INF, ones * INF)) == 0
    assert status(sum_to=3.5) == 4
    assert status(sum_to=-0.5) == 4
    assert status(sum_to=3) == 0
    assert status(sum_to=0) == 0
    assert status((0, INF), sum_to=1e9) == 0
    assert status((-INF, 0), sum_to=1e-9) == 4
    assert status((-INF, INF), sum_to=-7) == 0
    assert status(weights=0 * ones) == 4
    assert status(weights=-ones) == 2
    assert status(weights=np.array([0, 0, 1e-300])) == 0
    assert status((np.array([0, 0, 2.0]), 1), weights=ones * np.nan) == 2


# ---- memory and dtypes ---------------------------------------------------------------


@together(
    ("shape", "rnorm"),
    [
        ((3, 0), np.sqrt(3)),
        ((0, 3), 0.0),
        ((0, 0), 0.0),
        ((0, 4, 3), np.zeros(0)),
        ((2, 3, 0), np.full(2, np.sqrt(3))),
        ((2, 0, 3), np.zeros(2)),
    ],
)
@together("l2", [0.0, 1.0])
def test_empty(backend: Any, method: str, shape: Any, rnorm: Any, l2: float) -> None:
    *batch, m, n = shape
    result = backend.solve(
        gpusolve.lsq_linear,
        np.zeros(shape),
        np.ones((*batch, m)),
        (-1, np.full(n, 2.0)),
        l2=l2,
        method=method,
    )
    assert result.x.shape == (*batch, n)
    assert (result.x == 0).all()
    np.testing.assert_allclose(result.rnorm, rnorm)
    assert (np.asarray(result.status) == 0).all()


def test_no_rows_with_a_fixed_sum(backend: Any, method: str) -> None:
    """Every feasible point is optimal."""
    result = backend.solve(
        gpusolve.lsq_linear,
        np.zeros((2, 0, 3)),
        np.zeros((2, 0)),
        (0, 1),
        sum_to=2,
        method=method,
    )
    assert (result.status == 0).all()
    np.testing.assert_allclose(result.x.sum(axis=-1), 2)


def test_no_variables_with_a_fixed_sum(backend: Any, method: str) -> None:
    result = backend.solve(
        gpusolve.lsq_linear,
        np.zeros((3, 0)),
        np.ones((2, 3)),
        sum_to=np.array([0.0, 1.0]),
        method=method,
    )
    assert result.status.tolist() == [0, 4]


@together("of_options", [np.float32, np.float64, np.int32, np.int64, bool])
@together("dtype", [np.float32, np.float64])
def test_dtypes_of_options(
    backend: Any, rng: np.random.Generator, dtype: Any, of_options: Any
) -> None:
    """Options do not change the dtype of the result."""
    A, b = rng.random((2, 7, 3)).astype(dtype), rng.random((2, 7)).astype(dtype)
    values = np.ones(3, of_options)
    arguments: dict[str, Any] = {
        "bounds": (np.zeros(3, of_options), values),
        "weights": np.ones(7, of_options),
        "l1": values,
        "l2": values,
        "sum_to": np.ones(2, of_options),
    }
    result = backend.solve(gpusolve.lsq_linear, A, b, **arguments)
    expected = backend.solve(
        gpusolve.lsq_linear,
        A,
        b,
        (0, 1),
        weights=np.ones(7, dtype),
        l1=1,
        l2=1.0,
        sum_to=1,
    )
    for name in ("x", "rnorm", "dual", "kkt"):
        assert getattr(result, name).dtype == dtype
    np.testing.assert_allclose(result.x, expected.x, atol=16 * np.finfo(dtype).eps)


def test_strided_views(backend: Any, rng: np.random.Generator, method: str) -> None:
    """No argument is contiguous, and none is changed."""
    big = rng.random((4, 20, 30))
    A, b = big[::2, ::-2, 3:15:2], big[::2, ::2, -1]
    arguments = {
        "bounds": (-big[::2, 0, :12:2], big[::2, 1, 12:0:-2]),
        "weights": big[1::2, ::2, 5],
        "l1": big[::2, 2, ::5],
        "l2": big[::2, ::-4, 7][..., :1],
        "sum_to": big[::2, 3, 3],
        "warm_start": big[::2, 4, 29:17:-2],
    }
    kept = big.copy()
    result = backend.solve(gpusolve.lsq_linear, A, b, method=method, **arguments)
    np.testing.assert_array_equal(big, kept)

    def copied(value: Any) -> Any:
        return tuple(map(np.copy, value)) if isinstance(value, tuple) else value.copy()

    copies = {name: copied(value) for name, value in arguments.items()}
    expected = backend.solve(
        gpusolve.lsq_linear, A.copy(), b.copy(), method=method, **copies
    )
    np.testing.assert_array_equal(result.x, expected.x)
