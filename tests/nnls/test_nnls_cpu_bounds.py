"""Bounds, weights, penalties and a fixed sum: the methods on a CPU."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from bounded_systems import (
    Bounded,
    brute_force,
    check_optimal,
    objective,
    residual_norm,
    solve_by_bvls,
    solve_by_slsqp,
)
from numpy.typing import NDArray
from together import together

import gpusolve
from gpusolve import reference
from gpusolve._numerics.solution import INFEASIBLE, ITERATION_LIMIT, NOT_FINITE

Array = NDArray[Any]
Options = dict[str, Any]

METHODS = ("auto", "gram", "qr")
EPS = float(np.finfo(np.float64).eps)
EPS32 = float(np.finfo(np.float32).eps)


def solve(method: str, A: Array, b: Array, **options: Any) -> Any:
    """Solve a batch by one method."""
    return gpusolve.lsq_linear(A, b, method=method, **options)


# ---- problems ----


def random_bounds(rng: np.random.Generator, shape: tuple[int, ...]) -> Options:
    """Some intervals are half-lines or all real numbers; some do not contain 0."""
    lower, upper = np.sort(rng.standard_normal((2, *shape)), axis=0)
    lower = np.where(rng.random(shape) < 0.2, -np.inf, lower)
    upper = np.where(rng.random(shape) < 0.2, np.inf, upper)
    return {"bounds": (lower, upper)}


def normal(rng: np.random.Generator, N: int, m: int, n: int) -> Options:
    A, b = rng.standard_normal((N, m, n)), 2 * rng.standard_normal((N, m))
    return {"A": A, "b": b, **random_bounds(rng, (N, n))}


def integer(rng: np.random.Generator, N: int, m: int, n: int) -> Options:
    """Many ties, many intervals of one point, some columns of zeros."""
    batch = normal(rng, N, m, n)
    lower, upper = map(np.round, batch["bounds"])
    return {
        "A": np.round(batch["A"]),
        "b": np.round(batch["b"]),
        "bounds": (lower, upper),
    }


def unit(rng: np.random.Generator, N: int, m: int, n: int) -> Options:
    batch = integer(rng, N, m, n)
    return {**batch, "bounds": (0.0, 1.0)}


def dependent(rng: np.random.Generator, N: int, m: int, n: int) -> Options:
    batch = normal(rng, N, m, n)
    A = batch["A"]
    A[..., 1], A[..., 2] = A[..., 0], 0
    A[..., -1] = A[..., 0] + A[..., 3]
    return batch


def low_rank(rng: np.random.Generator, N: int, m: int, n: int) -> Options:
    batch = normal(rng, N, m, n)
    return {**batch, "A": batch["A"][..., :2] @ rng.standard_normal((N, 2, n))}


def zero_data(rng: np.random.Generator, N: int, m: int, n: int) -> Options:
    """B is 0, and 0 is outside all intervals."""
    batch = normal(rng, N, m, n)
    lower = 0.1 + rng.random((N, n))
    return {
        **batch,
        "b": np.zeros((N, m)),
        "bounds": (lower, lower + rng.random((N, n))),
    }


def free(rng: np.random.Generator, N: int, m: int, n: int) -> Options:
    batch = integer(rng, N, m, n)
    lower, upper = batch["bounds"]
    lower[:, ::2], upper[:, ::2] = -np.inf, np.inf
    return batch


def weighted(rng: np.random.Generator, N: int, m: int, n: int) -> Options:
    batch = normal(rng, N, m, n)
    weights = rng.random((N, m)) * (rng.random((N, m)) < 0.8)
    return {**batch, "weights": weights, "A": batch["A"][0]}


def penalised(rng: np.random.Generator, N: int, m: int, n: int) -> Options:
    """The penalties differ by column and system; the matrix is shared.

    Every second system is without an l2 penalty. If such a system has dependent
    columns, it is without an l1 penalty, too, which alone would choose between them.
    """
    batch = normal(rng, N, m, n)
    l1, l2 = rng.random((2, N, n))
    l2[::2] = 0
    if m < n:
        l1[::2] = 0
    return {**batch, "A": batch["A"][0], "l1": l1, "l2": l2}


def columns_of_all_sizes(rng: np.random.Generator, N: int, m: int, n: int) -> Options:
    batch = normal(rng, N, m, n)
    factor = 10.0 ** rng.integers(-2, 3, n)
    lower, upper = batch["bounds"]
    return {
        **batch,
        "A": batch["A"] * factor,
        "bounds": (lower / factor, upper / factor),
    }


KINDS = {
    kind.__name__: kind
    for kind in (
        normal,
        integer,
        unit,
        dependent,
        low_rank,
        zero_data,
        free,
        weighted,
        penalised,
        columns_of_all_sizes,
    )
}
SHAPES = [(7, 5), (4, 9), (12, 12)]


def problem(
    kind: str, shape: tuple[int, int], seed: int = 0, share: float | None = None
) -> Options:
    """Thirty systems. `share` fixes the sum: 0 is the least sum, 1 the largest."""
    rng = np.random.default_rng([seed, *shape])
    batch = KINDS[kind](rng, 30, *shape)
    if share is None:
        return batch
    lower, upper = (bound + np.zeros((30, shape[1])) for bound in batch["bounds"])
    low = np.where(np.isfinite(lower), lower, np.minimum(upper, 0) - 3)
    high = np.where(np.isfinite(upper), upper, np.maximum(lower, 0) + 3)
    sums = (low + share * (high - low)).sum(axis=-1)
    if share in (0, 1):
        batch["bounds"] = (low, high)
        sums = (low, high)[share].sum(axis=-1)
    return {**batch, "sum_to": sums}


# ---- optimality ----


@together("share", [None, 0.4, 0, 1])
@together("kind", KINDS)
@together("method", METHODS)
def test_solutions_are_optimal(method: str, kind: str, share: float | None) -> None:
    for shape in SHAPES:
        batch = problem(kind, shape, share=share)
        found = solve(method, **batch)
        check_optimal(Bounded.of(**batch), found)


@pytest.mark.parametrize("share", [None, 0.4])
@pytest.mark.parametrize("method", METHODS)
def test_the_methods_agree_with_the_specification(
    method: str, share: float | None
) -> None:
    for kind, shape in itertools.product(("integer", "penalised"), SHAPES):
        batch = part(problem(kind, shape, seed=1, share=share), slice(12))
        found, expected = solve(method, **batch), reference.nnls(**batch)
        np.testing.assert_allclose(found.rnorm, expected.rnorm, atol=1e-13)
        np.testing.assert_allclose(found.dual, expected.dual, atol=1e-12)


@pytest.mark.parametrize("kind", ["normal", "integer", "dependent"])
@pytest.mark.parametrize("method", METHODS)
def test_the_methods_agree_with_scipy(method: str, kind: str) -> None:
    batch = problem(kind, (7, 5), seed=2)
    given, found = Bounded.of(**batch), solve(method, **batch)
    expected = residual_norm(given, solve_by_bvls(given))
    np.testing.assert_allclose(found.rnorm, expected, atol=1e-12)


@together("share", [None, 0.4, 0])
@together("kind", ["integer", "unit", "low_rank", "penalised"])
@together("method", METHODS)
def test_the_methods_agree_with_brute_force(
    method: str, kind: str, share: float | None
) -> None:
    batch = problem(kind, (4, 3), seed=3, share=share)
    found = solve(method, **batch)
    given = Bounded.of(**batch)
    best = brute_force(given)
    np.testing.assert_allclose(objective(given, found.x), best, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_fixed_sums_agree_with_slsqp(method: str) -> None:
    batch = problem("normal", (7, 5), seed=4, share=0.5)
    found = solve(method, **batch)
    few = Bounded.of(**batch).take(slice(6))
    np.testing.assert_allclose(
        objective(few, found.x[:6]), solve_by_slsqp(few), atol=1e-7
    )


# ---- one batch ----


def part(batch: Options, at: Any) -> Options:
    """Some systems of a batch; what all systems share stays shared."""
    axes = {"A": 2, "sum_to": 0}
    some = {
        name: value[at]
        for name, value in batch.items()
        if name != "bounds" and value.ndim > axes.get(name, 1)
    }
    bounds = tuple(
        bound[at] if np.ndim(bound) > 1 else bound for bound in batch["bounds"]
    )
    return {**batch, **some, "bounds": bounds}


def check_same(found: Any, expected: Any, systems: Any = slice(None)) -> None:
    """Compare the bits of a result with some systems of another result."""
    for name, values in found._asdict().items():
        other = getattr(expected, name)[systems]
        np.testing.assert_array_equal(values, other, err_msg=name)


@together("share", [None, 0.4])
@together("kind", ["integer", "dependent", "penalised", "weighted"])
@together("method", METHODS)
def test_bits_do_not_depend_on_the_batch(
    method: str, kind: str, share: float | None
) -> None:
    """Two penalised systems stay together: there is an l2 penalty for both or none."""
    batch = part(problem(kind, (45, 40), share=share), slice(4))
    whole, size = solve(method, **batch), 1 + (kind == "penalised")
    for k in range(0, 4, size):
        some = slice(k, k + size)
        check_same(solve(method, **part(batch, some)), whole, some)


@pytest.mark.parametrize("method", METHODS)
def test_a_system_without_solution_changes_no_other(method: str) -> None:
    batch = problem("normal", (7, 5), share=0.4)
    expected = solve(method, **batch)
    lower, upper = batch["bounds"]
    lower[0], upper[1], batch["sum_to"][2] = upper[0] + 1, lower[1] - 1, 1e3
    lower[2], upper[2], lower[3], upper[4] = -1, 1, np.inf, -np.inf
    batch["sum_to"][5], batch["A"][6, 1, 2] = np.nan, np.inf
    found = solve(method, **batch)
    assert found.status[:7].tolist() == 5 * [INFEASIBLE] + 2 * [NOT_FINITE]
    for name, values in found._asdict().items():
        other = getattr(expected, name)[7:]
        np.testing.assert_array_equal(values[7:], other, err_msg=name)


# ---- starting points ----


@together("share", [None, 0.4])
@together("kind", ["normal", "integer", "dependent", "unit"])
@together("method", METHODS)
def test_any_start_leads_to_the_solution(
    method: str, kind: str, share: float | None, rng: np.random.Generator
) -> None:
    for shape in SHAPES:
        batch = problem(kind, shape, share=share)
        start = 2 * rng.standard_normal((30, shape[1]))
        start[::3, 0], start[::3, 1] = np.nan, np.inf
        found = solve(method, **batch, warm_start=start)
        check_optimal(Bounded.of(**batch), found)


@pytest.mark.parametrize("share", [None, 0.4])
@pytest.mark.parametrize("method", METHODS)
def test_the_solution_as_start_is_the_solution(
    method: str, share: float | None
) -> None:
    """Without a sum it takes one step."""
    batch = problem("normal", (12, 8), share=share)
    cold = solve(method, **batch)
    warm = solve(method, **batch, warm_start=cold.x)
    assert cold.n_downdates.max() > 2
    if share is None:
        assert warm.nit.max() <= 1
        assert warm.n_downdates.max() == 0
    np.testing.assert_allclose(warm.x, cold.x, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(
        warm.x == batch["bounds"][0], cold.x == batch["bounds"][0]
    )


# ---- values ----


@pytest.mark.parametrize("share", [None, 0.4])
@pytest.mark.parametrize("method", METHODS)
def test_a_power_of_two_scales_the_solution_exactly(
    method: str, share: float | None
) -> None:
    batch = problem("normal", (7, 5), share=share)
    for factor in (2.0**300, 2.0**-300):
        large = {
            name: batch[name] * factor for name in ("b", "sum_to") if name in batch
        }
        large["bounds"] = tuple(bound * factor for bound in batch["bounds"])
        found, expected = solve(method, **{**batch, **large}), solve(method, **batch)
        np.testing.assert_array_equal(found.x, expected.x * factor)
        np.testing.assert_array_equal(found.kkt, expected.kkt)


@pytest.mark.parametrize("share", [None, 0.4, 1])
@pytest.mark.parametrize("kind", ["normal", "zero_data"])
@pytest.mark.parametrize("method", METHODS)
def test_solutions_in_float32(method: str, kind: str, share: float | None) -> None:
    """The solutions are the solutions in float64, rounded. Sums of bounds are exact."""
    batch = problem(kind, (7, 5), share=share)
    single = {name: batch[name].astype(np.float32) for name in ("A", "b")}
    double = {name: array.astype(np.float64) for name, array in single.items()}
    bounds = tuple(np.round(1024 * bound) / 1024 for bound in batch["bounds"])
    options = {**batch, "bounds": bounds}
    if share is not None:
        options["sum_to"] = batch["sum_to"].astype(np.float32).astype(np.float64)
    if share == 1:
        options["sum_to"] = bounds[1].sum(axis=-1)
    exact = solve(method, **{**options, **double})
    rounded = solve(method, **{**options, **single})
    assert rounded.x.dtype == rounded.rnorm.dtype == np.float32
    assert (rounded.status == 0).all()
    np.testing.assert_allclose(rounded.x, exact.x, rtol=EPS32, atol=EPS32 / 8)
    r = double["b"] - np.einsum("kij,kj->ki", double["A"], rounded.x)
    np.testing.assert_allclose(rounded.rnorm, np.linalg.norm(r, axis=-1), rtol=EPS32)


@pytest.mark.parametrize("method", METHODS)
def test_variables_without_an_interval(method: str) -> None:
    """All are at their bounds, also if rounding leaves a part of the sum."""
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((1, 12, 10)), rng.standard_normal((1, 12))
    fixed = rng.standard_normal((1, 10))
    cases: list[tuple[Options, Any]] = [
        ({"bounds": (fixed, fixed)}, fixed),
        ({"bounds": (fixed, fixed), "sum_to": fixed.sum(axis=-1)}, fixed),
        ({"bounds": (0.0, 0.1), "sum_to": np.ones(1)}, 0.1),
        ({"bounds": (0.1, 1.0), "sum_to": np.ones(1)}, 0.1),
    ]
    for options, x in cases:
        found = solve(method, A, b, **options)
        assert found.status[0] == 0
        np.testing.assert_allclose(found.x, np.broadcast_to(x, (1, 10)), rtol=8 * EPS)


@pytest.mark.parametrize("share", [None, 0.4])
@pytest.mark.parametrize("maxiter", [0, 1, 3])
@pytest.mark.parametrize("method", METHODS)
def test_x_is_feasible_at_the_iteration_limit(
    method: str, maxiter: int, share: float | None
) -> None:
    batch = problem("normal", (12, 12), share=share)
    found = solve(method, **batch, maxiter=maxiter)
    assert (found.status == ITERATION_LIMIT).sum() > 20
    lower, upper = batch["bounds"]
    assert ((lower <= found.x) & (found.x <= upper)).all()
    if share is not None:
        np.testing.assert_allclose(found.x.sum(axis=-1), batch["sum_to"], atol=1e-13)
