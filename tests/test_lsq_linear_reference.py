"""The specifications of least squares within bounds, against independent oracles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bounded import KINDS, Bounded, problem, random_problem
from scipy.linalg import hilbert
from scipy.optimize import lsq_linear, minimize

from gpusolve import reference

EPS = float(np.finfo(np.float64).eps)
CERTIFIED = 32 * EPS

OPTIONS = [
    {},
    {"l1": True},
    {"l2": True},
    {"weights": True},
    {"has_sum": True},
    {"l1": True, "l2": True, "weights": True, "has_sum": True},
]


@pytest.fixture(params=["gram", "qr"])
def solve(request: pytest.FixtureRequest) -> Any:
    return getattr(reference, f"nnls_{request.param}")


def check(p: Bounded, found: Any, tolerance: float = CERTIFIED) -> None:
    """The solution is feasible, optimal and certified."""
    assert found.status == 0
    assert p.is_feasible(found.x)
    assert p.violation(found.x) <= tolerance
    assert found.kkt <= 1e-10
    size = np.linalg.norm(p.b) + np.linalg.norm(p.A, axis=0) @ np.abs(found.x)
    assert found.rnorm == pytest.approx(p.rnorm(found.x), rel=1e-11, abs=EPS * size)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda given: "-".join(given))
@pytest.mark.parametrize(("m", "n", "rank"), [(7, 4, None), (3, 5, None), (6, 5, 2)])
def test_tiny_problems_agree_with_brute_force(
    solve: Any,
    rng: np.random.Generator,
    kind: str,
    options: dict[str, bool],
    m: int,
    n: int,
    rank: int | None,
) -> None:
    if kind == "upper" and options == {"l1": True} and rank is not None:
        pytest.skip("a dependent column does not enter, although its penalty is less")
    p = random_problem(rng, m, n, kind, rank=rank, **options)
    found = solve(p.A, p.b, **p.options)
    check(p, found)
    assert p.objective(found.x) == pytest.approx(p.brute_force(), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("m", "n", "rank"), [(60, 30, None), (20, 45, None), (40, 30, 9)]
)
def test_bounds_agree_with_scipy(
    solve: Any, rng: np.random.Generator, kind: str, m: int, n: int, rank: int | None
) -> None:
    p = random_problem(rng, m, n, kind, rank=rank)
    found = solve(p.A, p.b, **p.options)
    check(p, found)
    apart = p.upper > p.lower  # SciPy demands it
    left = p.b - p.A[:, ~apart] @ p.lower[~apart]
    bounds = (p.lower[apart], p.upper[apart])
    expected = lsq_linear(p.A[:, apart], left, bounds, method="bvls", tol=1e-14)
    assert found.rnorm**2 / 2 == pytest.approx(expected.cost, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kind", ["box", "mixed", "free"])
@pytest.mark.parametrize("options", [{}, {"l1": True, "l2": True, "weights": True}])
def test_a_fixed_sum_agrees_with_slsqp(
    solve: Any, rng: np.random.Generator, kind: str, options: dict[str, bool]
) -> None:
    p = random_problem(rng, 30, 12, kind, has_sum=True, **options)
    found = solve(p.A, p.b, **p.options)
    check(p, found)
    expected = minimize(
        p.objective,
        np.clip(0.0, p.lower, p.upper),
        method="SLSQP",
        bounds=list(zip(p.lower, p.upper, strict=True)),
        constraints={"type": "eq", "fun": lambda x: x.sum() - p.sum_to},
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    assert p.objective(found.x) == pytest.approx(expected.fun, rel=1e-6, abs=1e-9)
    assert p.objective(found.x) <= expected.fun * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("options", OPTIONS, ids=lambda given: "-".join(given))
@pytest.mark.parametrize("start", ["solution", "point", "bounds", "invalid"])
def test_warm_start(
    solve: Any, rng: np.random.Generator, options: dict[str, bool], start: str
) -> None:
    p = random_problem(rng, 40, 25, "mixed", **options)
    cold = solve(p.A, p.b, **p.options)
    starts = {
        "solution": cold.x,
        "point": rng.normal(size=25),
        "bounds": np.where(rng.random(25) < 0.5, p.lower, p.upper),
        "invalid": np.where(rng.random(25) < 0.5, np.nan, 1e300),
    }
    warm = solve(p.A, p.b, warm_start=starts[start], **p.options)
    check(p, warm)
    np.testing.assert_allclose(warm.x, cold.x, rtol=1e-9, atol=1e-11)
    if start == "solution" and not options.get("has_sum"):
        assert warm.nit <= 2
        assert warm.n_downdates == 0


def hard_problems() -> dict[str, Bounded]:
    rng = np.random.default_rng(7)
    A = rng.standard_normal((12, 8))
    b = A @ rng.standard_normal(8) + 0.3 * rng.standard_normal(12)
    twins = np.hstack([A, A])
    nearly = np.hstack([A, A * (1 + 1e-14 * rng.standard_normal(A.shape))])
    zero_columns = A * (np.arange(8) % 5 > 0)
    cumulative = np.tril(np.ones((6, 6)))
    problems = {
        "duplicate columns": problem(twins, b, -0.5, 0.5),
        "duplicate columns, sum": problem(twins, b, -0.5, 0.5, sum_to=1.0),
        "nearly duplicate columns": problem(nearly, b, -0.5, 0.5),
        "zero columns": problem(zero_columns, b, 1.0, 2.0),
        "zero columns, sum": problem(zero_columns, b, -1.0, 2.0, sum_to=3.0),
        "zero matrix": problem(np.zeros((5, 3)), np.ones(5), 1.0, 2.0),
        "zero matrix, sum": problem(np.zeros((5, 3)), np.ones(5), 1.0, 2.0, sum_to=4.5),
        "zero b": problem(A, np.zeros(12), 0.5, 1.0),
        "all fixed": problem(A, b, 0.3, 0.3),
        "all fixed, sum": problem(A, b, 0.25, 0.25, sum_to=2.0),
        "one by one": problem([[2.0]], [3.0], -1.0, 1.0),
        "one by one, sum": problem([[2.0]], [3.0], -1.0, 1.0, sum_to=0.25),
        "simplex": problem(A, b, 0.0, np.inf, sum_to=1.0),
        "simplex, one point": problem(A, b, 0.0, np.inf, sum_to=0.0),
        "simplex, vertex": problem(np.eye(8), 9.0 * np.eye(8)[3], 0.0, 1.0, sum_to=1.0),
        "simplex, ties": problem(np.eye(6), np.ones(6), 0.0, 1.0, sum_to=2.0),
        "sum at its least": problem(A, b, -1.0, 1.0, sum_to=-8.0),
        "sum at its greatest": problem(A, b, -1.0, 1.0, sum_to=8.0),
        "ties": problem(np.eye(6), np.ones(6), -1.0, 1.0),
        "ties, degenerate": problem(cumulative, np.ones(6), -1.0, 1.0),
        "optimum at its bounds": problem(A, A @ np.ones(8), 0.0, 1.0),
        "optimum at zero bounds": problem(A, np.zeros(12), 0.0, 1.0),
        "tiny A": problem(1e-21 * A, b, -1e20, 1e20),
        "huge A": problem(1e150 * A, b, -1e-151, 1e-151),
        "tiny b": problem(A, 1e-200 * b, -1e-201, 1e-201),
        "far bounds": problem(A, b, 1e6, 1e7),
        "badly scaled columns": problem(A * np.logspace(0, -9, 8), b, -1.0, 1.0),
        "badly scaled, sum": problem(A * np.logspace(0, -9, 8), b, -1, 1, sum_to=0.5),
        "large l1": problem(A, b, -1.0, 1.0, l1=1e3),
        "large l1, sum": problem(A, b, -1.0, 1.0, l1=1e3, sum_to=0.5),
        "no weights": problem(A, b, -1.0, 1.0, weights=np.zeros(12), l2=1.0),
        "wide": problem(rng.random((5, 20)), rng.random(5), -0.1, 0.1),
        "one row": problem(rng.standard_normal((1, 7)), [1.0], -0.1, 0.1),
    }
    problems |= {
        f"Hilbert {n}": problem(hilbert(n), hilbert(n) @ (np.arange(n) % 2.0), 0.0, 0.8)
        for n in (6, 10)
    }
    return problems


HARD = hard_problems()


@pytest.mark.parametrize("name", HARD)
def test_hard_problem(solve: Any, name: str) -> None:
    p = HARD[name]
    found = solve(p.A, p.b, **p.options)
    if solve is reference.nnls_gram and found.status:
        pytest.skip("the normal equations are not accurate enough")
    check(p, found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda given: "-".join(given))
def test_float32(
    solve: Any, rng: np.random.Generator, kind: str, options: dict[str, bool]
) -> None:
    p = random_problem(rng, 40, 25, kind, **options)
    A, b = p.A.astype(np.float32), p.b.astype(np.float32)
    lower, upper = p.lower.astype(np.float32), p.upper.astype(np.float32)
    found = solve(A, b, **{**p.options, "bounds": (lower, upper)})
    rounded = p._replace(A=A, b=b, lower=lower, upper=upper)
    assert found.x.dtype == np.float32
    assert found.status == 0
    assert rounded.is_feasible(found.x)
    assert rounded.violation(found.x) <= 64 * float(np.finfo(np.float32).eps)


def test_a_variable_rests_exactly_at_its_bound(
    solve: Any, rng: np.random.Generator
) -> None:
    p = random_problem(rng, 40, 30, "box")
    found = solve(p.A, p.b, **p.options)
    at_bound = (found.x == p.lower) | (found.x == p.upper)
    assert at_bound.sum() > 5
    np.testing.assert_array_equal(np.sign(found.dual[found.x == p.lower]), -1)
    np.testing.assert_array_equal(np.sign(found.dual[found.x == p.upper]), 1)
