"""The certificate of linear constraints, against minima in exact rationals."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np
import pytest
from backends import also_by_fallback
from exact_programs import (
    FAMILIES,
    Exact,
    almost_parallel,
    exact,
    excess,
    minimum,
    normal_equations,
    program_excess,
    violation,
)
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from together import together

import gpusolve

# Points that no solver returns are certified: the certificate itself is called.
from gpusolve._nnls import bounded_qp, constrained, validation
from gpusolve.reference._nnls_constrained import Found, Point, certify, correct

EPS = float(np.finfo(float).eps)

CERTIFIED = {np.dtype("f4"): 1e-4, np.dtype("f8"): 1e-10}
"""The largest violation of status 0, in parts of the terms."""

ROUNDED = 32
"""Rounding errors of a certificate, in eps."""

VIOLATED = 256
"""The largest violation of a constraint of a success, in eps of its terms.

Status 0 allows more. Where rows are almost parallel, x would then be far away.
"""

SHARE_OF_SUCCESS = 0.98
"""Of systems with a unique minimum. Of 100,000, 0.9998 have status 0."""


@also_by_fallback
@together("side", [-1, 1])
def test_equalities_that_contradict_each_other_are_not_certified(
    backend: Any, side: int
) -> None:
    """The sides of two equal rows differ by 1e-11 to 1e-8 of their terms.

    The solver leaves out a row that depends on others. Its certificate does not.
    """
    gaps = np.array([2e-11, 5e-11, 4e-10, 1e-9, 3e-9, 1e-8]).repeat(2)
    b = np.tile([[1.0, 2.0], [-1.0, -2.0]], (len(gaps) // 2, 1))
    sides = np.stack([0 * gaps + 1, 1 + 2 * side * gaps], axis=-1)
    bounds, rows = (-np.inf, np.inf), {"A_eq": np.ones((2, 2)), "b_eq": sides}
    for function in (gpusolve.lsq_linear, gpusolve.bounded_qp):
        found = backend.solve(function, np.eye(2), b, bounds, **rows)
        good = found.status == 0
        assert_array_equal(good, gaps < 1e-10)
        x, sides_of_good = found.x[good], sides[good]
        violated = np.abs(x.sum(axis=-1)[:, None] - sides_of_good)
        terms = np.abs(x).sum(axis=-1)[:, None] + np.abs(sides_of_good)
        assert (violated <= CERTIFIED[gaps.dtype] * terms).all()


# ---- the bound -----------------------------------------------------------------------


@together("family", FAMILIES)
def test_no_point_and_no_multipliers_make_the_certificate_too_small(
    family: str,
) -> None:
    """The bounds hold next to the minimum and far away, and for any size of y.

    Violations of the exact constraints count up to the least size of their terms.
    """
    rng, checked, feasible = np.random.default_rng(0), 0, 0
    given = almost_parallel(rng, 16, family)
    problem = validation.validate(given.A, given.b, **arguments(given))
    rows = constrained.Rows.of(problem)
    last = constrained.Solution.blank((), given.A.shape[-1], given.A.dtype)
    G, c = np_normal_equations(given)
    every = constrained.constrained_systems(problem, rows)
    systems = {k: system for k, system, _ in every}
    for k in range(16):
        one, system = given.system(k), systems.get(k)
        objective = normal_equations(one)
        best = minimum(one, *objective)
        if best is None or system is None:
            continue
        quadratic = bounded_qp.Quadratic.of(G[k], c[k], EPS)
        base = system.base
        for size in range(-16, 1, 4):
            moved = np.array(best, float) + 10.0**size * rng.standard_normal(len(best))
            scaled = np.clip(base.rescale(moved), base.lower, base.upper)
            x = base.unscale(scaled)
            y = rng.random(len(system.d)) * 10.0 ** rng.uniform(-4, 14)
            for multipliers in y, 0 * y, np.where(rng.random(y.shape) < 0.5, y, 0):
                point = Point(scaled, multipliers, 0 * y, 0 * x)
                with np.errstate(all="ignore"):
                    found = certify(system, point)
                    whole = Found(system, point, found, last)
                    pull = constrained.multiplier_terms(whole, x)
                by_G = bounded_qp.certify(
                    quadratic, x, one.lower, one.upper, None, pull
                )
                violated = violation(one, x)
                assert violated / 10 <= found.violation + ROUNDED * EPS
                assert found.violation / 10 <= violated + ROUNDED * EPS
                above = excess(one, x, best)
                assert above <= (found.by_x + found.angle) * (1 + 1e-9) + ROUNDED * EPS
                assert by_G.is_feasible == pull.is_feasible
                feasible += int(pull.is_feasible)
                above = program_excess(x, best, *objective)
                assert above <= by_G.kkt * (1 + 1e-9) + ROUNDED * EPS
                checked += 1
    assert checked > 150
    assert 0 < feasible < checked


def np_normal_equations(given: Exact) -> tuple[Any, Any]:
    """``A^T A`` and ``A^T b`` in floating-point numbers."""
    G = np.einsum("sij,sik->sjk", given.A, given.A)
    return G, np.einsum("sij,si->sj", given.A, given.b)


def arguments(given: Exact) -> dict[str, Any]:
    """What `validate` takes."""
    options = given.options()
    lower, upper = options.pop("bounds")
    return {"lower": lower, "upper": upper, **options}


def test_an_inequality_does_not_hold_x_by_a_negative_multiplier() -> None:
    """On ``x >= 1`` as an equality, ``|x - 2|`` would be least at 1."""
    rows: dict[str, Any] = {"A_ub": np.array([[-1.0]]), "b_ub": np.array([-1.0])}
    given = np.ones((1, 1, 1)), np.array([[2.0]])
    problem = validation.validate(*given, lower=-np.inf, upper=np.inf, **rows)
    every = constrained.constrained_systems(problem, constrained.Rows.of(problem))
    _, system, _ = next(every)
    start = Point(system.base.rescale(np.ones(1)), np.ones(1), np.zeros(1), np.zeros(1))
    with np.errstate(all="ignore"):
        found = correct(system, start)
        kkt = certify(system, found).kkt
    assert_array_equal(found.y, 0)
    assert kkt >= 0.5


# ---- certified solutions -------------------------------------------------------------


def check(
    given: Exact, result: Any, program: tuple[Any, Any] | None = None
) -> NDArray[np.int_]:
    """Certified systems keep the bound. Count the successes, and all with a minimum."""
    certified, feasible, eps = 0, 0, float(np.finfo(given.A.dtype).eps)
    for k, x in enumerate(result.x):
        one = given.system(k)
        if program is None:
            objective = normal_equations(one)
        else:
            objective = [exact(row) for row in program[0][k]], exact(program[1][k])
        best = minimum(one, *objective, x)
        if best is None:
            continue
        feasible += 1
        if result.status[k] != 0:
            continue
        violated = violation(one, x)
        certified += violated <= VIOLATED * eps
        above = (
            excess(one, x, best)
            if program is None
            else program_excess(x, best, *objective, eps)
        )
        assert above <= result.kkt[k] + ROUNDED * eps
        assert violated <= CERTIFIED[given.A.dtype]
    return np.array([certified, feasible])


def check_both(batches: Iterable[Exact], method: str, solve: Any) -> None:
    """Least squares, and the quadratic programs of its normal equations."""
    counts = np.array([1, 0])
    for given in batches:
        options = {"method": method, **given.options()}
        result = solve(gpusolve.lsq_linear, given.A, given.b, **options)
        counts += check(given, result)
        (G, c), bounds = np_normal_equations(given), options.pop("bounds")
        result = solve(gpusolve.bounded_qp, G, c, bounds, **options)
        counts += check(given, result, (G, c))
    assert counts[0] >= SHARE_OF_SUCCESS * counts[1]


@together("family", FAMILIES)
@together("method", ["auto", "gram", "qr"])
def test_almost_parallel_constraints(backend: Any, family: str, method: str) -> None:
    systems = 2 if backend.emulated else 12
    seeds = product(range(4), (np.float64, np.float32))
    batches = [
        almost_parallel(np.random.default_rng(seed), systems, family, dtype)
        for seed, dtype in seeds
    ]
    check_both(batches, method, backend.solve)


@pytest.mark.parametrize("backend", ["numpy", "fallback"], indirect=True)
def test_constraints_may_be_far_from_the_minimum_without_them(backend: Any) -> None:
    """Without them, x would be 1e16: rounding errors of that x hide no violation."""
    rng, systems = np.random.default_rng(0), 100
    B, c = rng.standard_normal((systems, 2, 2)), rng.standard_normal((systems, 2))
    G = B @ np.swapaxes(B, 1, 2) * 10.0 ** rng.uniform(-16, -10, (systems, 1, 1))
    C, inside = rng.integers(-8, 9, (systems, 3, 2)) / 4, rng.random((systems, 2, 1))
    given = Exact(
        A=B,
        b=c,
        lower=np.full((systems, 2), -np.inf),
        upper=np.where(rng.random((systems, 2)) < 0.5, inside[..., 0], np.inf),
        A_ub=C,
        b_ub=(C @ inside)[..., 0] + rng.integers(0, 2, (systems, 3)),
        A_eq=np.zeros((systems, 0, 2)),
        b_eq=np.zeros((systems, 0)),
    )
    options = given.options()
    bounds = options.pop("bounds")
    result = backend.solve(gpusolve.bounded_qp, G, c, bounds, **options)
    certified, feasible = check(given, result, (G, c))
    assert feasible > 80
    assert certified >= 0.7 * feasible


@together("method", ["auto", "gram", "qr"])
@together("angle", [1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-6])
def test_the_residual_is_zero_where_a_feasible_point_fits(
    backend: Any, method: str, angle: float
) -> None:
    """An inequality that is almost parallel to an equality does not keep x away."""
    rows = {"A_ub": [[-3, -3 - angle]], "b_ub": [2 * (-3 - angle)]}
    rows |= {"A_eq": [[3, 3]], "b_eq": [6]}
    b, options = np.array([0.0, 2.0]), {"method": method, **rows}
    result = backend.solve(gpusolve.lsq_linear, np.eye(2), b, **options)
    assert result.status == 0
    assert_allclose(result.x, [0, 2], atol=4 * EPS)
    assert result.rnorm <= 4 * EPS
    free = -np.inf, np.inf
    result = backend.solve(gpusolve.bounded_qp, np.eye(2), b, free, **options)
    assert result.status == 0
    assert_allclose(result.x, [0, 2], atol=4 * EPS)


def test_a_violation_of_more_than_rounding_is_corrected(backend: Any) -> None:
    """A point 0.4 away violates a constraint by 2e-11, and has less misfit.

    The first two rows are opposite up to 3e-11, which magnifies rounding errors.
    """
    none = np.zeros((0, 3))
    one = Exact(
        A=np.array([[4.0, 3, -2], [3, 4, 3], [2, -2, 2]]),
        b=np.array([1.0, 2, -3]),
        lower=np.full(3, -np.inf),
        upper=np.full(3, np.inf),
        A_ub=np.array(
            [
                [1e5, 2e5, 3e5],
                [-999.9999999710897, -1999.999999971090, -3000.000000057820],
                [0, -2e6, -2e6],
            ]
        ),
        b_ub=np.array([2e5, -2000.0000000867306, -1999999.998]),
        A_eq=none,
        b_eq=none[:, 0],
    )
    result = backend.solve(gpusolve.lsq_linear, one.A, one.b, **one.options())
    best = minimum(one, *normal_equations(one))
    assert best is not None
    assert result.status == 0
    assert_allclose(result.x, np.array(best, float), atol=64 * EPS / 3e-11)
