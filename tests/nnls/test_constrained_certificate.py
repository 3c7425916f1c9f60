"""The certificate of linear constraints, against minima in exact rationals."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
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
from together import together

import gpusolve
from gpusolve._nnls.constrained_certificate import certify, relative_lack
from gpusolve._nnls.constrained_system import ConstrainedSystem
from gpusolve._nnls.constraint_rows import Rows
from gpusolve._nnls.inputs import validate

EPS = float(np.finfo(float).eps)

ROUNDED = 32
"""Rounding errors of a certificate, in eps."""

VIOLATED = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-4}

SHARE_OF_SUCCESS = 0.99
"""Of systems with a unique minimum. More than 0.999 of 10,000 have status 0."""


def test_a_violation_is_relative_to_the_terms_not_to_the_coefficients() -> None:
    """``1e6 x_2 - x_1 >= 0`` at (1e-6, 0), where a unit of x_2 has terms of 1e6."""
    system = SimpleNamespace(C=np.array([[-1.0, 1e6]]), inequalities=1, norm=np.ones(2))
    lack = terms = np.array([[1e-6]])
    found = relative_lack(system, lack, terms, np.ones(1))  # type: ignore[arg-type]
    assert found == pytest.approx(1e-6 / (1e-4 * 1e6), rel=1e-3)
    rounded = np.finfo(float).eps * 1e6
    lack = terms = np.array([[rounded]])
    found = relative_lack(system, lack, terms, np.ones(1))  # type: ignore[arg-type]
    assert found < 1e-10


# ---- the bound -----------------------------------------------------------------------


@together("family", FAMILIES)
def test_no_point_and_no_multipliers_make_the_certificate_too_small(
    family: str,
) -> None:
    """The bound holds next to the minimum and far away, and for any size of y."""
    rng = np.random.default_rng(0)
    given, checked = almost_parallel(rng, 40, family), 0
    problem = validate(given.A, given.b, **arguments(given))
    system = ConstrainedSystem.of(problem, Rows.of(problem), slice(0, 40))
    best = [
        minimum(given.system(k), *normal_equations(given.system(k))) for k in range(40)
    ]
    x = np.array([np.zeros(given.A.shape[-1]) if v is None else v for v in best], float)
    rows = system.C.shape[-2]
    for size in range(-16, 1, 2):
        moved = x + 10.0**size * rng.standard_normal(x.shape)
        y = 10.0 ** rng.uniform(-4, 14, (40, 1)) * rng.random((40, rows))
        scaled = moved * system.b_scale[:, None] / system.scale
        scaled = system.within_bounds(scaled)
        point = scaled * system.scale / system.b_scale[:, None]
        for multipliers in y, 0 * y, np.where(rng.random(y.shape) < 0.5, y, 0):
            with np.errstate(all="ignore"):
                found = certify(system, scaled, multipliers, 0 * y, 0 * x)
            kkt = found.by_x + found.angle
            for k in np.flatnonzero([value is not None for value in best]):
                above = excess(given.system(k), point[k], best[k])  # type: ignore[arg-type]
                assert above <= kkt[k] * (1 + 1e-9) + ROUNDED * EPS
                checked += 1
    assert checked > 500


def arguments(given: Exact) -> dict[str, Any]:
    """What `validate` takes."""
    options = given.options()
    lower, upper = options.pop("bounds")
    return {"lower": lower, "upper": upper, **options}


# ---- certified solutions -------------------------------------------------------------


def check(given: Exact, result: Any, program: tuple[Any, Any] | None = None) -> None:
    """Certified systems keep the bound; almost all with a minimum are certified."""
    dtype, certified, feasible = given.A.dtype, 0, 0
    eps = float(np.finfo(dtype).eps)
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
        certified += 1
        above = (
            excess(one, x, best)
            if program is None
            else program_excess(x, best, *objective, eps)
        )
        assert above <= result.kkt[k] + ROUNDED * eps
        assert violation(one, x) <= VIOLATED[dtype]
    assert certified >= SHARE_OF_SUCCESS * feasible


def check_both(
    given: Exact, method: str, solve: Any = lambda function, *a, **o: function(*a, **o)
) -> None:
    """Least squares, and the quadratic program of its normal equations."""
    options = given.options()
    result = solve(gpusolve.lsq_linear, given.A, given.b, method=method, **options)
    check(given, result)
    G = np.einsum("sij,sik->sjk", given.A, given.A)
    c = np.einsum("sij,si->sj", given.A, given.b)
    result = solve(
        gpusolve.bounded_qp, G, c, options.pop("bounds"), method=method, **options
    )
    check(given, result, (G, c))


@together("family", FAMILIES)
@together("dtype", [np.float64, np.float32])
@together("method", ["auto", "gram", "qr"])
def test_almost_parallel_constraints(
    backend: Any, family: str, dtype: Any, method: str
) -> None:
    systems = 3 if backend.name == "emulator" else 12
    for seed in range(2):
        rng = np.random.default_rng(seed)
        given = almost_parallel(rng, systems, family, dtype)
        check_both(given, method, backend.solve)


@pytest.mark.slow
@together("family", FAMILIES)
@together("dtype", [np.float64, np.float32])
def test_ten_thousand_systems_with_almost_parallel_constraints(
    family: str, dtype: Any
) -> None:
    for seed in range(100, 112):
        rng = np.random.default_rng(seed)
        check_both(almost_parallel(rng, 60, family, dtype), "auto")


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
    np.testing.assert_allclose(result.x, [0, 2], atol=4 * EPS)
    assert result.rnorm <= 4 * EPS
    free = -np.inf, np.inf
    result = backend.solve(gpusolve.bounded_qp, np.eye(2), b, free, **options)
    assert result.status == 0
    np.testing.assert_allclose(result.x, [0, 2], atol=4 * EPS)


@together("systems", [1, 300])
def test_a_solution_does_not_depend_on_the_other_systems(systems: int) -> None:
    """Each system takes its own steps, however many steps the other systems need."""
    given = almost_parallel(np.random.default_rng(3), 60, "equality")
    whole = gpusolve.lsq_linear(given.A, given.b, **given.options())
    one = given.system(17)
    alone = gpusolve.lsq_linear(one.A, one.b, **one.options())
    np.testing.assert_allclose(alone.x, whole.x[17], rtol=1e-14)
    assert alone.status == whole.status[17]
