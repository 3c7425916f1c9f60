"""The specification of least squares within bounds, against independent oracles."""

from __future__ import annotations

import numpy as np
import pytest
from bounded_systems import (
    HARD,
    KINDS,
    OPTIONS,
    STARTS,
    Bounded,
    brute_force,
    check_optimal,
    objective,
    random_problems,
    solve_by_bvls,
    solve_by_slsqp,
    starting_point,
)
from together import together

from gpusolve.reference import nnls as solve


@together("options", OPTIONS, ids=lambda given: "-".join(given))
@together(("m", "n", "rank"), [(7, 4, None), (3, 5, None), (6, 5, 2)])
def test_tiny_problems_agree_with_brute_force(
    rng: np.random.Generator,
    options: dict[str, bool],
    m: int,
    n: int,
    rank: int | None,
) -> None:
    """Two systems with each kind of bounds."""
    of_kind = {"rank": rank, **options}
    given = Bounded.joined(
        [random_problems(rng, 2, m, n, kind, **of_kind) for kind in KINDS]
    )
    found = solve(given.A, given.b, **given.options())
    check_optimal(given, found)
    best = brute_force(given)
    np.testing.assert_allclose(objective(given, found.x), best, rtol=1e-9, atol=1e-9)


@together("kind", KINDS)
@together(("m", "n", "rank"), [(60, 30, None), (20, 45, None), (40, 30, 9)])
def test_bounds_agree_with_scipy(
    rng: np.random.Generator, kind: str, m: int, n: int, rank: int | None
) -> None:
    given = random_problems(rng, 1, m, n, kind, rank=rank)
    found = solve(given.A, given.b, **given.options())
    check_optimal(given, found)
    expected = objective(given, solve_by_bvls(given))
    assert (found.rnorm**2 / 2 <= expected * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize("kind", ["box", "mixed", "free"])
@pytest.mark.parametrize("options", [{}, {"l1": True, "l2": True, "weights": True}])
def test_a_fixed_sum_agrees_with_slsqp(
    rng: np.random.Generator, kind: str, options: dict[str, bool]
) -> None:
    given = random_problems(rng, 1, 30, 12, kind, has_sum=True, **options)
    found = solve(given.A, given.b, **given.options())
    check_optimal(given, found)
    least, expected = objective(given, found.x), solve_by_slsqp(given)
    np.testing.assert_allclose(least, expected, rtol=1e-6, atol=1e-9)
    assert (least <= expected * (1 + 1e-9) + 1e-9).all()


@together("options", OPTIONS, ids=lambda given: "-".join(given))
@together("start", STARTS)
def test_warm_start(
    rng: np.random.Generator, options: dict[str, bool], start: str
) -> None:
    given = random_problems(rng, 1, 40, 25, "mixed", **options)
    cold = solve(given.A, given.b, **given.options())
    point = starting_point(rng, start, given, cold.x)
    warm = solve(given.A, given.b, warm_start=point, **given.options())
    check_optimal(given, warm)
    np.testing.assert_allclose(warm.x, cold.x, rtol=1e-9, atol=1e-11)
    if start == "solution" and given.sum_to is None:
        assert (warm.nit <= 2).all()
        assert (warm.n_downdates == 0).all()


@together("name", HARD)
def test_hard_problem(name: str) -> None:
    given = HARD[name]
    check_optimal(given, solve(given.A, given.b, **given.options()))


@together("kind", KINDS)
@together("options", OPTIONS, ids=lambda given: "-".join(given))
def test_float32(rng: np.random.Generator, kind: str, options: dict[str, bool]) -> None:
    given = random_problems(rng, 1, 40, 25, kind, **options).astype(np.float32)
    found = solve(given.A, given.b, **given.options())
    assert found.x.dtype == np.float32
    check_optimal(given, found, 64)


def test_a_variable_rests_exactly_at_its_bound(rng: np.random.Generator) -> None:
    given = random_problems(rng, 1, 40, 30, "box")
    found = solve(given.A, given.b, **given.options())
    low, high = found.x == given.lower, found.x == given.upper
    assert (low | high).sum() > 5
    np.testing.assert_array_equal(np.sign(found.dual[low]), -1)
    np.testing.assert_array_equal(np.sign(found.dual[high]), 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_a_row_of_weight_zero_is_left_out(rng: np.random.Generator, bad: float) -> None:
    given = random_problems(rng, 2, 8, 5, "box", **OPTIONS[-1])
    expected = solve(given.A, given.b, **given.options())
    A, b = np.insert(given.A, 3, bad, axis=1), np.insert(given.b, 3, bad, axis=1)
    assert given.weights is not None
    options = {**given.options(), "weights": np.insert(given.weights, 3, 0, axis=1)}
    found = solve(A, b, **options)
    np.testing.assert_array_equal(found.status, 0)
    np.testing.assert_allclose(found.x, expected.x, atol=1e-14)
    np.testing.assert_allclose(found.rnorm, expected.rnorm, rtol=1e-14)
    options["weights"][1, 3] = 1e-300
    found = solve(A, b, **options)
    np.testing.assert_array_equal(found.status, [0, 0 if np.isfinite(bad) else 2])


@together(
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
    rng: np.random.Generator, name: str, bad: float
) -> None:
    given = random_problems(rng, 2, 8, 5, "box", **OPTIONS[-1]).copy()
    getattr(given, name)[0] = bad
    found = solve(given.A, given.b, **given.options())
    assert found.status.tolist() == [2, 0]
    assert np.isnan(found.x[0]).all()
