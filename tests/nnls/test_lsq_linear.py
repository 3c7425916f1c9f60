"""gpusolve.lsq_linear against SciPy, brute force and the optimality conditions."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from backends import also_by_fallback, without_gpu
from bounded_systems import (
    BAD,
    Bounded,
    check_against_brute_force,
    check_optimal,
    infeasibility,
    random_systems,
    spoiled,
    violation,
)
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from together import together

import gpusolve
from gpusolve import emulator

Array = NDArray[Any]

EPS = float(np.finfo(np.float64).eps)
CERTIFIED = 16 * EPS
INF = np.inf

METHODS = "auto", "gram", "qr"
each_method = together("method", METHODS)


def solve(backend: Any, given: Bounded, **options: Any) -> Any:
    return backend.solve(
        gpusolve.lsq_linear, given.A, given.b, **given.options(), **options
    )


def random(rng: Generator, m: int, n: int, systems: int = 4, **options: Any) -> Bounded:
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


@together(
    "method, part",
    [(m, k) for k in range(4) for m in METHODS if m in ("auto", METHODS[k % 3])],
)
def test_degenerate_systems_agree_with_brute_force(
    backend: Any, method: str, part: int
) -> None:
    """Random bounds, ties, weights, penalties and sums, on degenerate matrices."""
    systems = 10 if backend.emulated or method == "qr" else 50
    for index in range(part, 40, 4):
        family, given = random_systems(index, systems=systems, largest=4)
        result = solve(backend, given, method=method)
        shown = shows_multiplier(given, result.x, result.rnorm)
        least = {"auto": 1.0, "qr": 0.9, "gram": 0.7}[method]
        try:
            check_against_brute_force(given, result, shown, least)
        except AssertionError as error:
            error.add_note(f"{family}, batch {index}")
            raise


# ---- properties ----------------------------------------------------------------------

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
def test_scaling_scales_solutions(backend: Any, seed: int) -> None:
    """Powers of two change no bit; bounds and penalties follow."""
    rng = np.random.default_rng(seed)
    given = random(rng, 9, 5, systems=3, l1=0.1 * rng.random(5), l2=rng.random(5))
    column, of_b = 2.0 ** rng.integers(-30, 30, 5), 2.0 ** rng.integers(-400, 400)
    other = given._replace(
        A=given.A * column,
        b=given.b * of_b,
        lower=given.lower / column * of_b,
        upper=given.upper / column * of_b,
        l1=given.l1 * column * of_b,
        l2=given.l2 * 4.0 ** np.log2(column).astype(int),
    )
    assert_array_equal(solve(backend, other).x * column / of_b, solve(backend, given).x)


# ---- special bounds ------------------------------------------------------------------


@each_method
def test_variables_at_a_bound_have_its_bits(
    backend: Any, rng: Generator, method: str
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


# ---- weights and penalties -----------------------------------------------------------


@also_by_fallback
@together("far", [1e6, 1e15, 1e300])
@together("dtype", [np.float32, np.float64])
@each_method
def test_bounds_that_are_far_away_cost_no_certainty(
    backend: Any, rng: Generator, method: str, far: float, dtype: Any
) -> None:
    """Users write 1e9 for infinity. x is the least-squares solution."""
    A, b = (rng.standard_normal(of).astype(dtype) for of in ((4, 9, 5), (4, 9)))
    expected, eps = (np.linalg.pinv(A) @ b[..., None])[..., 0], np.finfo(dtype).eps
    for bounds in ((-far, far), (-INF, far), (-far, INF)):
        result = backend.solve(gpusolve.lsq_linear, A, b, bounds, method=method)
        assert_allclose(result.x, expected, rtol=0, atol=100 * eps)
        assert_array_equal(result.status, 0)
        assert np.all(result.kkt <= 16 * eps)


@together("kept", [1e30, np.nan])
@together("shared", [False, True])
@together("size, method", product([(8, 3), (9, 5), (36, 34)], METHODS))
def test_a_row_of_weight_zero_is_a_row_of_zeros(
    backend: Any,
    rng: Generator,
    method: str,
    kept: float,
    shared: bool,
    size: tuple[int, int],
) -> None:
    """The same bits for any row of weight 0, for every team of the Gram kernel."""
    given = random(rng, *size, 3, weights=rng.random((3, size[0])))
    A = given.A[0] if shared else given.A
    given.weights[:, 2] = given.weights[1, :4] = 0
    A[..., 2, :], given.b[:, 2] = 0, 0
    expected = solve(backend, given._replace(A=A), method=method)
    check_optimal(given._replace(A=np.broadcast_to(A, given.A.shape)), expected)
    A[..., 2, 1], given.b[0, 2], given.b[1, :4] = kept, -kept, INF
    found = solve(backend, given._replace(A=A), method=method)
    for name, array in expected._asdict().items():
        assert_array_equal(getattr(found, name), array)


@together("bounds", [(0.0, INF), (-1.0, 1.0)])
@together("has_sum", [False, True])
@together("dtype", [np.float32, np.float64])
def test_penalties_of_many_more_columns_than_rows(
    backend: Any, rng: Generator, bounds: tuple[float, float], has_sum: bool, dtype: Any
) -> None:
    """x moves along dependences until no move lowers the penalty; two are equal."""
    A, b = rng.standard_normal((5, 8, 32)), rng.standard_normal((5, 8))
    A[::3, :, 1] = A[::3, :, 0]
    b[0] = A[0, :, -1] / 2  # fitted exactly
    l1 = 0.3 * rng.random((5, 32))
    made = Bounded.of(A, b, bounds, l1, sum_to=rng.random(5) if has_sum else None)
    made = made.rounded(dtype)
    result = solve(backend, made.astype(dtype))
    check_optimal(made, result, 64)


@together("has_sum, method", product([False, True], METHODS))
def test_penalties_of_rows_move_nothing(
    backend: Any, rng: Generator, method: str, has_sum: bool
) -> None:
    """Moves along dependences do not change a penalty ``y A``, except by rounding.

    With a fixed sum, equal penalties are a constant; where the residual is 0, they
    alone would determine the multiplier.
    """
    A = rng.random((10, 8, 3)) @ rng.random((10, 3, 6))
    b, y = rng.random((2, 10, 8))
    given = Bounded.of(A, b, (-1e4, 1e4), (y[:, None] @ A)[:, 0])
    best = np.linalg.pinv(A, rcond=1e-10) @ (b - y)[..., None]
    if has_sum:
        A, best = rng.standard_normal((10, 5, 3)), rng.random((10, 3, 1))
        b, l1 = (A @ best)[..., 0], np.where(np.arange(10) < 5, 0.4, 1e3)
        total = best.sum(axis=(1, 2))
        given = Bounded.of(A, b, (0, INF), l1[:, None], sum_to=total)
    result = solve(backend, given, method=method)
    assert (result.status == 0).all()
    assert_allclose(A @ result.x[..., None], A @ best, atol=1e-10)
    if has_sum:
        assert_allclose(result.x[..., None], best, rtol=0, atol=1e-12)


@without_gpu
@together("exponent", [None, -7, -3, 0, 3, 7])
@each_method
def test_sums_of_columns_whose_norms_differ_by_twelve_orders(
    backend: Any, rng: Generator, method: str, exponent: int | None
) -> None:
    """From sums that the largest columns fit to sums beyond the smallest columns.

    The multiplier of the sum may be 1e16 times the gradient. Within bounds, several
    variables rest at their upper bounds to make up the sum.
    """
    A = rng.random((25, 9, 6)) * 1e6 ** rng.uniform(-1, 1, (25, 1, 6))
    b, upper = rng.random((25, 9)), rng.random((25, 6))
    given = Bounded.of(A, b, (0, upper), sum_to=upper.sum(axis=-1) * rng.random(25))
    if exponent is not None:
        given = Bounded.of(A, b, (0, INF), sum_to=3.7 * 10.0**exponent)
    result = solve(backend, given, method=method)
    good = result.status == 0
    assert good.mean() > (0.9 if exponent is None else 0.99)
    assert result.nit.max() <= 3 * 6
    x, given = result.x[good], given.take(good)
    assert infeasibility(given, x).max() <= CERTIFIED
    assert violation(given, x).max() <= 1e-10


def test_a_column_that_adds_nothing_to_the_sum(backend: Any) -> None:
    """The square of the coefficient of the first variable in the sum underflows."""
    A, b = np.diag([1e85, 1e-85]), np.array([[1e85, 0.0], [1.0, 1.0]])
    found = backend.solve(gpusolve.lsq_linear, A, b, (0.0, 1.0), sum_to=1.0)
    assert (found.status == 0).all()
    assert_allclose(found.x, [[1, 0], [1e-85, 1]], 4 * EPS, 4 * EPS * 1e-85)


# ---- warm start ----------------------------------------------------------------------


@each_method
def test_warm_start(backend: Any, rng: Generator, method: str) -> None:
    given = random(rng, 30, 20)
    cold = solve(backend, given, method=method)
    warm = solve(backend, given, method=method, warm_start=cold.x)
    assert_allclose(warm.x, cold.x, atol=1e-12)
    assert (warm.nit < cold.nit).all()
    assert (warm.n_downdates == 0).all()
    special = np.array([np.nan, INF, -INF, 1e300] + 16 * [0.0])
    for start in (np.full(20, 5.0), -special, special, rng.standard_normal((4, 20))):
        other = solve(backend, given, method=method, warm_start=start)
        assert_allclose(other.x, cold.x, atol=1e-12)


@each_method
def test_iteration_limit(backend: Any, rng: Generator, method: str) -> None:
    given = random(rng, 8, 5, systems=1)
    full = solve(backend, given, method=method)
    assert full.nit[0] > 2
    for maxiter in range(int(full.nit[0])):
        result = solve(backend, given, method=method, maxiter=maxiter)
        assert result.status[0] == 1
        assert np.isfinite(infeasibility(given, result.x)).all()


# ---- the batch -----------------------------------------------------------------------


CORES = {
    **{"A": (7, 4), "b": (7,), "lower": (4,), "upper": (4,), "weights": (7,)},
    **{"l1": (4,), "l2": (4,), "sum_to": (), "warm_start": (4,)},
    **{"L": (2, 4), "lam": (), "prior": (4,)},
    **{"A_ub": (2, 4), "b_ub": (2,), "A_eq": (1, 4), "b_eq": (1,)},
}
"""The axes of each argument of one system."""

OF_CONSTRAINTS = {name for name in CORES if "_" in name} - {"sum_to", "warm_start"}


@together("constrained", [False, True])
@each_method
def test_every_argument_broadcasts(
    backend: Any, rng: Generator, method: str, constrained: bool
) -> None:
    """The batch (2, 3) comes from each argument in turn, and from all arguments."""
    names = [*CORES] if constrained else [n for n in CORES if n not in OF_CONSTRAINTS]

    def call(values: dict[str, Any]) -> Any:
        rest = dict(values)
        bounds = rest.pop("lower"), rest.pop("upper")
        rest |= {"bounds": bounds, "method": method}
        return backend.solve(gpusolve.lsq_linear, rest.pop("A"), rest.pop("b"), **rest)

    each = {name: rng.random((2, 3, *CORES[name])) for name in names}
    each["lower"] -= 1
    each["l1"] *= 0.1
    every = call(each)
    assert every.x.shape == every.dual.shape == (2, 3, 4)
    assert every.rnorm.shape == every.status.shape == every.kkt.shape == (2, 3)
    assert not constrained or every.dual_ub.shape == (2, 3, 2)
    for name in names:
        values = {key: value[0, 0] for key, value in each.items()} | {name: each[name]}
        result = call(values)
        assert result.x.shape == every.x.shape
        assert_allclose(result.x[0, 0], every.x[0, 0], atol=1e-11)
        column = {**each, name: each[name][:, :1]}
        assert_allclose(call(column).x[:, 0], every.x[:, 0], atol=1e-11)
    alone = call({key: value[1, 2] for key, value in each.items()})
    assert alone.x.shape == (4,)
    assert np.ndim(alone.rnorm) == np.ndim(alone.status) == 0
    assert_allclose(alone.x, every.x[1, 2], atol=1e-11)


@together("shared", [False, True])
@together("what, method", product(BAD, METHODS))
def test_a_bad_system_changes_no_bit_of_others(
    backend: Any, rng: Generator, method: str, what: str, shared: bool
) -> None:
    given = random(
        rng, 9, 5, 6, l1=0.1 * rng.random(5), l2=rng.random(5), sum_to=0.1, weights=1.0
    )
    bad = spoiled(given, what, 2)
    if shared and what != "A":
        given, bad = (each._replace(A=given.A[0]) for each in (given, bad))
    good = solve(backend, given, method=method)
    assert (good.status == 0).all()
    result = solve(backend, bad, method=method)
    expected = BAD[what][0]
    assert result.status.tolist() == [0, 0, expected, 0, 0, 0]
    others = [0, 1, 3, 4, 5]
    for name, array in good._asdict().items():
        found = getattr(result, name)
        assert_array_equal(found[others], array[others])
        if array.dtype.kind == "f":
            assert np.isnan(found[2]).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_block_that_solves_several_systems_reads_each_before_the_next(
    method: str, emulated_device: Any, rng: Generator
) -> None:
    """Thread 0 takes the next system while others still certify this system."""
    given = random(rng, 6, 4, l1=0.1, l2=rng.random(4), sum_to=0.1, weights=1.0)
    solve = partial(gpusolve.lsq_linear, given.A, given.b, **given.options())
    expected = solve(method=method)
    emulated_device(resident_blocks=1)
    with emulator.races():
        found = solve(method=method)
    assert_array_equal(found.x, expected.x)


# ---- memory and dtypes ---------------------------------------------------------------


@together("shape", [(3, 0), (0, 3), (0, 0), (0, 4, 3), (2, 3, 0), (2, 0, 3)])
@together("l2", [0.0, 1.0])
@each_method
def test_empty(backend: Any, method: str, shape: Any, l2: float) -> None:
    *batch, m, n = shape
    b, bounds = np.ones((*batch, m)), (-1, np.full(n, 2.0))
    result = backend.solve(
        gpusolve.lsq_linear, np.zeros(shape), b, bounds, l2=l2, method=method
    )
    assert_array_equal(result.x, np.zeros((*batch, n)))
    assert_array_equal(result.rnorm, np.linalg.norm(b, axis=-1))
    assert_array_equal(result.status, np.zeros(batch))


OTHER_FORMS = {
    "strided": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "reversed": lambda x: x[..., ::-1].copy()[..., ::-1],
    "Fortran": lambda x: np.asfortranarray(x),
    "float32": lambda x: x.astype(np.float32),
    "float64": lambda x: x.astype(np.float64),
    "int32": lambda x: x.astype(np.int32),
    "int64": lambda x: x.astype(np.int64),
    "bool": lambda x: x.astype(bool),
}
"""The same numbers, which are 0 or 1."""


@together("form, method", product(OTHER_FORMS, METHODS))
@together("dtype", [np.float32, np.float64])
def test_layouts_and_dtypes_of_options(
    backend: Any, rng: Generator, method: str, dtype: Any, form: str
) -> None:
    """They change neither x nor the dtype of the result; no array is changed."""
    A, b = (rng.random(shape).astype(dtype) for shape in ((2, 7, 3), (2, 7)))
    convert, n = OTHER_FORMS[form], np.ones((2, 3), dtype)
    if form in ("strided", "reversed", "Fortran"):
        A, b = convert(A), convert(b)
    kept = A.copy(), b.copy()
    given = {"weights": np.ones((2, 7), dtype), "l1": n, "l2": n, "sum_to": n[:, 0]}
    given |= {"warm_start": n, "method": method}
    expected = backend.solve(
        gpusolve.lsq_linear, A.copy(), b.copy(), (0 * n, n), **given
    )
    given = {k: v if isinstance(v, str) else convert(v) for k, v in given.items()}
    bounds = convert(0 * n), convert(n)
    result = backend.solve(gpusolve.lsq_linear, A, b, bounds, **given)
    for name in ("x", "rnorm", "dual", "kkt"):
        assert getattr(result, name).dtype == dtype
    assert_allclose(result.x, expected.x, atol=16 * np.finfo(dtype).eps)
    assert_array_equal(A, kept[0])
    assert_array_equal(b, kept[1])
