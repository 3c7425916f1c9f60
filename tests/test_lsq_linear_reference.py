"""The specifications of least squares within bounds, against independent oracles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bounded import HARD, KINDS, OPTIONS, check, random_problem, stacked
from scipy.optimize import lsq_linear, minimize

from gpusolve import reference


@pytest.fixture(params=["gram", "qr"])
def solve(request: pytest.FixtureRequest) -> Any:
    return getattr(reference, f"nnls_{request.param}")


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
    assert found.rnorm**2 / 2 <= expected.cost * (1 + 1e-9) + 1e-12


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
    p = random_problem(rng, 40, 25, kind, **options).in_float32()
    found = solve(p.A, p.b, **p.options)
    assert found.x.dtype == np.float32
    assert found.status == 0
    assert p.is_feasible(found.x)
    assert p.violation(found.x) <= 64 * float(np.finfo(np.float32).eps)


def test_a_variable_rests_exactly_at_its_bound(
    solve: Any, rng: np.random.Generator
) -> None:
    p = random_problem(rng, 40, 30, "box")
    found = solve(p.A, p.b, **p.options)
    at_bound = (found.x == p.lower) | (found.x == p.upper)
    assert at_bound.sum() > 5
    np.testing.assert_array_equal(np.sign(found.dual[found.x == p.lower]), -1)
    np.testing.assert_array_equal(np.sign(found.dual[found.x == p.upper]), 1)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("lower", np.nan),
        ("upper", np.nan),
        ("l1", np.inf),
        ("l2", -1.0),
        ("weights", -1.0),
        ("weights", np.inf),
        ("sum_to", np.nan),
    ],
)
def test_an_invalid_number_refuses_its_system(
    solve: Any, rng: np.random.Generator, name: str, bad: float
) -> None:
    every = {"l1": True, "l2": True, "weights": True, "has_sum": True}
    problems = [random_problem(rng, 8, 5, "box", **every) for _ in range(2)]
    A, b, options = stacked(problems)
    numbers = {
        **options,
        **dict(zip(("lower", "upper"), options["bounds"], strict=True)),
    }
    numbers[name][0] = bad
    found = solve(A, b, **options)
    assert found.status.tolist() == [2, 0]
    assert np.isnan(found.x[0]).all()
