"""Linear constraints, against brute force, KKT conditions and closed forms."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from backends import also_by_fallback, by_object, on_emulator
from constrained_systems import (
    Constrained,
    brute_force,
    random_constrained,
)
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from oracles import check_kkt
from scipy.linalg import null_space
from together import together

import gpusolve
from gpusolve._nnls import constrained  # results do not say who solved a system
from gpusolve.reference._nnls_constrained import eliminate

INF = np.inf

KINDS = "random", "deficient", "redundant", "penalties", "weights"

EPS = float(np.finfo(float).eps)

EXCESS = 1e-9
"""What a certified objective may be above the least objective found, relative to 1 plus
this objective."""

each_solver = together("solver", ["lsq_linear", "bounded_qp"])


def solve(
    backend: Any, solver: str, A: Any, b: Any, bounds: Any = (-INF, INF), **options: Any
) -> Any:
    """Least squares, or the quadratic program of its normal equations."""
    A, b = np.asarray(A, float), np.asarray(b, float)
    if solver == "bounded_qp":
        weights = options.pop("weights", np.ones(A.shape[-2]))
        T = np.swapaxes(A, -1, -2) * weights[..., None, :]
        A, b = T @ A, (T @ b[..., None])[..., 0]
    return backend.solve(getattr(gpusolve, solver), A, b, bounds, **options)


def check(given: Constrained, result: Any) -> None:
    """Compare certified systems with brute force."""
    for k in np.flatnonzero(result.status == 0):
        one, x = given.system(k), result.x[k]
        best = brute_force(one)
        assert one.infeasibility(x) <= EXCESS
        assert (one.lower <= x).all()
        assert (x <= one.upper).all()
        assert abs(one.objective(x) - best) <= EXCESS * (1 + abs(best))


@also_by_fallback
@each_solver
@together("kind", (*KINDS, "integers", "any"))
def test_random_systems_agree_with_brute_force(
    backend: Any, solver: str, kind: str
) -> None:
    """Constraints of the last kind may contradict each other."""
    for seed in range(12 if kind == "any" else 3):
        rng = np.random.default_rng(seed)
        given = random_constrained(rng, 4, int(rng.integers(1, 5)), kind)
        result = solve(backend, solver, given.A, given.b, **given.options())
        check(given, result)
        for k in np.flatnonzero(result.status):
            assert (kind, result.status[k]) == ("any", 4)
            assert brute_force(given.system(k)) == INF


def test_columns_of_any_size() -> None:
    """The columns of A may have norms of 1e-6 to 1e6, and the constraints have not."""
    solved = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        given = random_constrained(rng, 60, int(rng.integers(2, 8)), "scaled")
        result = gpusolve.lsq_linear(given.A, given.b, **given.options())
        assert set(result.status) <= {0, 3}
        for k in np.flatnonzero(result.status == 0):
            one, fields = given.system(k), result._asdict().items()
            rows = {name: getattr(one, name) for name in one._fields[4:8]}
            found = SimpleNamespace(**{name: values[k] for name, values in fields})
            bounds = one.lower, one.upper
            check_kkt(one.A.T @ one.A, one.b @ one.A, bounds, found, **rows)
            solved += 1
    assert solved >= 0.97 * 240


@also_by_fallback
@each_solver
@together("sum_to", [None, 0.1])
def test_multipliers_explain_the_gradient(
    backend: Any, solver: str, sum_to: float | None
) -> None:
    rng = np.random.default_rng(1)
    A, C, E = (rng.standard_normal(shape) for shape in ((9, 5), (7, 5), (2, 5)))
    b, bounds = rng.standard_normal((6, 9)), (-0.3, 0.3)
    rows = {"A_ub": C, "b_ub": 0.1 * np.ones(7), "A_eq": E, "b_eq": [0.2, 0]}
    result = solve(backend, solver, A, b, bounds, sum_to=sum_to, **rows)
    check_kkt(A.T @ A, b @ A, bounds, result, sum_to, **rows)
    assert (result.dual_ub > 0).any()


@also_by_fallback
@each_solver
def test_a_bad_system_spoils_no_other(backend: Any, solver: str) -> None:
    A, b = np.stack([np.eye(2)] * 5), np.array([[1.0, 2.0]] * 5)
    limit = np.array([[2.0], [np.nan], [INF], [-1.0], [2.0]])
    b[2, 1] = A[4, 0, 0] = np.nan
    rows = {"A_ub": [[1.0, 1.0]], "b_ub": limit}
    result = solve(backend, solver, A, b, (0, INF), **rows)
    assert_array_equal(result.status, [0, 2, 2, 4, 2])
    assert_allclose(result.x[0], [0.5, 1.5])
    assert np.isnan(result.x[1:]).all()


@also_by_fallback
def test_the_limit_on_iterations_is_reported(backend: Any) -> None:
    given = random_constrained(np.random.default_rng([3, 7]), 4, 7, "normal")
    options = {**given.options(), "maxiter": 0}
    result = backend.solve(gpusolve.lsq_linear, given.A, given.b, **options)
    assert (result.status == 1).all()


# ---- degenerate systems --------------------------------------------------------------

DEGENERATE = {
    "no rows": ({"A_ub": np.zeros((0, 3)), "b_ub": []}, 0, [1, 2, -3]),
    "no rows of both": (
        {"A_ub": np.zeros((0, 3)), "b_ub": [], "A_eq": np.zeros((0, 3)), "b_eq": []},
        0,
        [1, 2, -3],
    ),
    "infinite limits": ({"A_ub": np.eye(3), "b_ub": [INF, 1, 9]}, 0, [1, 1, -3]),
    "no limit": ({"A_ub": np.eye(3), "b_ub": [-INF, 1, 9]}, 2, None),
    "zero rows": ({"A_ub": np.zeros((2, 3)), "b_ub": [0, 1]}, 0, [1, 2, -3]),
    "a zero row below 0": ({"A_ub": np.zeros((2, 3)), "b_ub": [-1, 1]}, 4, None),
    "zero rows of equalities": ({"A_eq": np.zeros((1, 3)), "b_eq": [0]}, 0, [1, 2, -3]),
    "a wrong zero row": ({"A_eq": np.zeros((1, 3)), "b_eq": [1]}, 4, None),
    "fixed variables": (
        {"A_ub": [[1, 1, 1]], "b_ub": [1], "bounds": (0.25, 0.25)},
        0,
        [0.25, 0.25, 0.25],
    ),
    "wrong fixed variables": (
        {"A_ub": [[1, 1, 1]], "b_ub": [1], "bounds": (0.5, 0.5)},
        4,
        None,
    ),
    "a wrong sum": ({"A_ub": [[1, 1, 1]], "b_ub": [1], "sum_to": 2}, 4, None),
    "an infinite equality": ({"A_eq": np.eye(3), "b_eq": [1, 2, INF]}, 2, None),
    "a single point": (
        {"A_ub": np.concatenate([np.eye(3), -np.eye(3)]), "b_ub": np.zeros(6)},
        0,
        [0, 0, 0],
    ),
    "rows without weight": (
        {"A_ub": [[1, 1, 1]], "b_ub": [0], "weights": [1, 0, 1]},
        0,
        [1, 0, -3],
    ),
}


@also_by_fallback
@together("name", list(DEGENERATE))
def test_degenerate_constraints(backend: Any, name: str) -> None:
    given, status, x = DEGENERATE[name]
    result = backend.solve(
        gpusolve.lsq_linear, np.eye(3), np.array([1.0, 2, -3]), **given
    )
    assert result.status == status
    assert_allclose(result.x, np.full(3, np.nan) if x is None else x)


@each_solver
def test_systems_without_rows_or_variables(backend: Any, solver: str) -> None:
    found = solve(backend, solver, np.zeros((0, 2)), [], A_ub=[[1, 1]], b_ub=[-1])
    assert_allclose(found.x, [-0.5, -0.5])
    rows = {"A_ub": np.zeros((1, 0)), "b_ub": [[1], [-1]]}
    found = solve(backend, solver, np.zeros((3, 0)), np.arange(3.0), **rows)
    assert_array_equal(found.status, [0, 4])
    rows = {"A_ub": np.eye(2), "b_ub": [1, 1]}
    none = solve(backend, solver, np.eye(2), np.zeros((0, 2)), **rows)
    assert none.x.shape == none.dual_ub.shape == (0, 2)


def test_a_degenerate_vertex_of_many_constraints(backend: Any) -> None:
    """All constraints hold with equality at 1, and the data are beyond it."""
    rng = np.random.default_rng(10)
    C = rng.integers(-2, 3, (40, 5)).astype(float)
    C = C[(C.sum(axis=1) > 0)]
    b = 1 + rng.random((6, 1)) * C.sum(axis=0)
    result = backend.solve(
        gpusolve.lsq_linear, np.eye(5), b, A_ub=C, b_ub=C.sum(axis=1)
    )
    assert (result.status == 0).all()
    assert_allclose(result.x, 1, atol=1e-13)


def test_columns_that_almost_depend_on_each_other() -> None:
    """Status 0 on 96 % of 1,200 such systems, with each of three core types: of 60, 54
    are 2.4 standard deviations fewer.
    """
    rng = np.random.default_rng(11)
    A, C = rng.standard_normal((60, 7, 4)), rng.standard_normal((60, 6, 4))
    A[..., -1] = A[..., 0] + 1e-7 * rng.standard_normal((60, 7))
    inside = rng.standard_normal((60, 4))
    limit = (C @ inside[..., None])[..., 0] + 0.1
    bounds = inside - 1, inside + 1
    b = rng.standard_normal((60, 7))
    result = gpusolve.lsq_linear(A, b, bounds, A_ub=C, b_ub=limit)
    assert (result.status == 0).sum() >= 54
    assert set(result.status) <= {0, 3}


@together("seed, chosen", [(16, 2), (208, 15), (654, 14)])
def test_rows_that_the_first_steps_miss_are_found(
    backend: Any, seed: int, chosen: int
) -> None:
    """The first steps lead to a point from which no step finds the active rows."""
    rng, n = np.random.default_rng(seed), 8
    A, x, C = rng.normal(size=(10, n)), rng.normal(size=n), rng.normal(size=(16, n))
    limit, kind = C @ x + rng.choice([0, 0.2, 1.0], 16), rng.integers(5, size=n)
    below, above, far = x - rng.random(n), x + rng.random(n), np.full(n, INF)
    bounds = (
        np.choose(kind, [below, below, x, -far, -far]),
        np.choose(kind, [above, far, x, above, far]),
    )
    b = rng.normal(size=(30, 10))[chosen]
    found = backend.solve(gpusolve.lsq_linear, A, b, bounds, A_ub=C, b_ub=limit)
    check_kkt(A.T @ A, b @ A, bounds, found, A_ub=C, b_ub=limit)


@together("equalities", [1, 2])
@each_solver
def test_a_variable_at_a_bound_has_the_bits_of_the_bound(
    backend: Any, equalities: int, solver: str
) -> None:
    """Equalities and some bounds may leave a variable no room but another bound."""
    rng, systems = np.random.default_rng(14), 8 if backend.emulated else 200
    at = rng.normal(size=(systems, 3))
    E = rng.normal(size=(systems, equalities, 3))
    E[:, 0] = rng.choice([0.1, 0.7, 1.3], (systems, 3))
    lower, upper = at - [0, 0, 1], at + [1, 1, 0]
    E[:, :, 2] *= -1
    rows = {"A_eq": E, "b_eq": np.einsum("sij,sj->si", E, at)}
    eye = np.broadcast_to(np.eye(3), (systems, 3, 3))
    result = solve(backend, solver, eye, at + [-1, -1, 1], (lower, upper), **rows)
    assert_array_equal(result.status, 0)
    assert_array_equal(result.x, at)


@together("noise", [1e-11, 1e-9, 1e-7, 1e-5])
def test_small_residuals_are_certified(noise: float) -> None:
    """Rounding errors of x are as large as the gradients of these residuals."""
    rng = np.random.default_rng(0)
    A, C, E = (rng.standard_normal(shape) for shape in ((9, 5), (6, 5), (1, 5)))
    x, errors = rng.standard_normal((200, 5)), rng.standard_normal((200, 9))
    rows = {"A_ub": C, "b_ub": x @ C.T + 1, "A_eq": E, "b_eq": x @ E.T}
    result = gpusolve.lsq_linear(A, x @ A.T + noise * errors, **rows)
    assert_array_equal(result.status, 0)
    assert (result.kkt <= 1e-11).all()
    AZ = A @ null_space(E)
    expected = errors - errors @ np.linalg.pinv(AZ).T @ AZ.T
    rounding = 1e3 * np.finfo(float).eps / noise
    assert_allclose(
        result.rnorm / noise, np.linalg.norm(expected, axis=1), rtol=1e-9 + rounding
    )


def test_a_gradient_of_rounding_errors_does_not_reach_to_far_bounds() -> None:
    rng = np.random.default_rng(12)
    A, C = rng.standard_normal((9, 4)), rng.standard_normal((3, 4))
    b, far = rng.standard_normal((50, 9)), 1e8
    result = gpusolve.lsq_linear(A, b, (-far, far), A_ub=C, b_ub=np.zeros(3))
    assert_array_equal(result.status, 0)
    free = gpusolve.lsq_linear(A, b, A_ub=C, b_ub=np.zeros(3))
    assert_allclose(result.x, free.x, atol=1e-13)


def dependent_rows(rng: Generator, systems: int) -> np.ndarray:
    """Rows of rank 3, up to rounding: the last two are sums of the others."""
    rows = rng.standard_normal((systems, 3, 6))
    return np.concatenate([rows, rng.standard_normal((systems, 2, 3)) @ rows], axis=1)


@together("spread", [0, 4, 8])
def test_elimination_depends_on_no_size(spread: int) -> None:
    """Errors of the null space and the inverse are relative to the terms."""
    rng = np.random.default_rng(2)
    rows = dependent_rows(rng, 20) * 10.0 ** rng.uniform(-spread, spread, (20, 5, 1))
    rows *= 10.0 ** rng.uniform(-spread, spread, (20, 1, 6))
    inverse, null = map(np.stack, zip(*map(eliminate, rows), strict=True))
    assert_array_equal((null != 0).any(axis=1).sum(axis=1), 3)
    size = abs(rows) @ abs(null)
    assert (abs(rows @ null) <= 2**10 * EPS * size).all()
    size = abs(rows) @ abs(inverse) @ abs(rows)
    assert (abs(rows @ inverse @ rows - rows) <= 2**10 * EPS * size).all()


@also_by_fallback
@together("spread", [0, 4, 8])
def test_the_rank_of_equalities_depends_on_no_size(backend: Any, spread: int) -> None:
    """It is 3, up to rounding, whatever rows and columns are multiplied by."""
    rng, systems = np.random.default_rng(2), 20
    A, (b, x) = (
        rng.standard_normal((8, 6)),
        np.split(rng.standard_normal((20, 14)), [8], 1),
    )
    E = dependent_rows(rng, systems)
    of_rows, of_columns = 10.0 ** rng.uniform(-spread, spread, (2, systems, 6))
    scaled = E * of_rows[:, :5, None] * of_columns[:, None]
    sides = of_rows[:, :5] * np.einsum("sij,sj->si", E, x)
    rows = {"A_eq": scaled, "b_eq": sides}
    result = backend.solve(gpusolve.lsq_linear, A * of_columns[:, None], b, **rows)
    assert_array_equal(result.status, 0)
    for k in range(systems):
        N = null_space(E[k], rcond=1e-10)
        best = x[k] + N @ np.linalg.lstsq(A @ N, b[k] - A @ x[k])[0]
        assert_allclose(result.x[k] * of_columns[k], best, atol=1e-9)


def test_columns_may_have_any_size() -> None:
    """A column times a power of two divides its variable, also if squares overflow.

    Where numbers are subnormal, a system may be without a certificate; it does not
    affect the others.
    """
    rng = np.random.default_rng(3)
    A, b, C = (rng.standard_normal(shape) for shape in ((9, 4), 9, (3, 4)))
    factors = np.array([1.0, 2.0**-900, 2.0**-560, 2.0**520, 2.0**900, 2.0**-1060])
    factors = np.stack([factors, np.roll(factors, 1)] * 2, axis=-1)[:, None]
    result = gpusolve.lsq_linear(A * factors, b, A_ub=C * factors, b_ub=-np.ones(3))
    usual = (factors[:, 0] > 2.0**-1000).all(axis=-1)
    x = result.x[usual] * factors[usual, 0]
    assert_allclose(x, [x[0]] * len(x), rtol=1e-12)
    assert (result.status[usual] == 0).all()
    with np.errstate(over="ignore"):
        extreme = rng.standard_normal((2, 9, 4)) * 10.0 ** rng.integers(-320, 0, (9, 4))
        extreme[1, :, 1] = extreme[1, :, 0]
        extreme[1, :, 2:] = 1.7e308 * rng.random((9, 2))
    every = gpusolve.lsq_linear([A, *extreme], b, A_ub=C, b_ub=-np.ones(3))
    alone = gpusolve.lsq_linear(A, b, A_ub=C, b_ub=-np.ones(3))
    assert_allclose(every.x[0], alone.x, rtol=1e-12)


def test_a_gradient_that_is_far_larger_than_the_constraints_hides_no_row() -> None:
    """Without constraints x would be about 1e13; the rows hold it at 0.2."""
    G = np.array([[1.0e-14, -1.4e-13], [-1.4e-13, 2.1e-12]])
    C = np.array([[-1.25, 2.0], [1.25, 0.5], [-1.75, -2.0]])
    d = np.array([-1.125, -0.03125, 1.75])
    bounds = -np.inf, [np.inf, 0.0]
    result = gpusolve.bounded_qp(G, [0.92, 0.91], bounds, A_ub=C, b_ub=d)
    assert result.status == 0
    vertex = np.linalg.solve(C[:2], d[:2])
    assert_allclose(result.x, vertex, rtol=1e-12)


# ---- what the compiled solver does ---------------------------------------------------


@on_emulator
@together("n", [2, 4, 7])
@together("kind", ["normal", "integers", *KINDS[1:]])
def test_teams_solve_nearly_all_systems(
    backend: Any, monkeypatch: pytest.MonkeyPatch, kind: str, n: int
) -> None:
    """What they leave, the specification solves."""
    left, solve = [0], constrained.solve_by_specification

    def counted(some: Any) -> Any:
        left.append(math.prod(some.batch))
        return solve(some)

    monkeypatch.setattr(constrained, "solve_by_specification", counted)
    given = random_constrained(np.random.default_rng([3, n]), 40, n, kind)
    gpusolve.lsq_linear(given.A, given.b, **given.options())
    assert sum(left) < (8 if kind == "redundant" else 4)


@on_emulator
@together("n", [3, 6])
def test_a_block_takes_the_steps_of_a_thread(backend: Any, n: int) -> None:
    """Rows become active and leave: a wrong factor would take more steps, or other."""
    rng = np.random.default_rng(4)
    A, b = rng.standard_normal((20, n + 2, n)), rng.standard_normal((20, n + 2))
    rows = {"A_ub": rng.standard_normal((20, 4 * n, n)), "b_ub": np.full(4 * n, 0.05)}
    block = gpusolve.lsq_linear(A, b, (-1, 1), **rows)
    thread = by_object(gpusolve.lsq_linear, A, b, (-1, 1), **rows)
    for name in ("status", "nit", "n_updates", "n_downdates"):
        assert_array_equal(getattr(block, name), getattr(thread, name))
    assert_allclose(block.x, thread.x, atol=1e-12)
    assert block.n_downdates.any()


# ---- programs ------------------------------------------------------------------------


def classifier(rng: Generator) -> Any:
    """The dual of a support vector machine: rank 8, bounds and an equality."""
    X, y = rng.standard_normal((40, 8)), np.sign(rng.standard_normal(40))
    Q = y[:, None] * X
    ones = np.ones(40)
    return Q @ Q.T, ones, (0, 1), {"A_eq": y[None], "b_eq": [0.0]}


def curve(rng: Generator) -> Any:
    """A semi-infinite program: a polynomial above the tangent, at many points."""
    i, t = np.arange(1, 11), np.linspace(0, 1, 120)
    rows = {"A_ub": -(t[:, None] ** (i - 1)), "b_ub": -np.tan(t)}
    return np.diag(1 / i), -1 / i, (-INF, INF), rows


def control(rng: Generator) -> Any:
    """States of a linear system and limited inputs, for 12 steps."""
    eye, later, none = np.eye(12), np.eye(12, k=-1), np.zeros((12, 12))
    E = np.block([[eye - later, -0.1 * later, none], [none, eye - 0.9 * later, -eye]])
    start = np.zeros(24)
    start[[0, 12]] = 1.0, -3.0
    cost = np.diag(np.repeat([1.0, 0.1, 0.01], 12))
    limit = np.repeat([INF, INF, 0.7], 12)
    return cost, np.zeros(36), (-limit, limit), {"A_eq": E, "b_eq": start}


def cone(rng: Generator) -> Any:
    """Least squares of 20 right-hand sides in a cone of 60 half-spaces."""
    A, b, C = (rng.standard_normal(shape) for shape in ((90, 45), (20, 90), (60, 45)))
    return A.T @ A, b @ A, (-INF, INF), {"A_ub": -C, "b_ub": np.zeros(60)}


@together("make", [classifier, curve, control, cone])
def test_larger_programs_are_minima(make: Any) -> None:
    """Of the kinds of the collection of Maros and Meszaros, made from formulas."""
    G, c, bounds, rows = make(np.random.default_rng(0))
    result = gpusolve.bounded_qp(G, c, bounds, **rows)
    check_kkt(G, c, bounds, result, **rows)


def test_flat_and_consistent_programs_are_minima() -> None:
    """A variable without curvature, no residual, and no objective at all."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        A, E = rng.standard_normal((6, 5)), rng.standard_normal((2, 5))
        A[..., -1], A[..., 1] = 0, A[..., 0]
        point = rng.standard_normal(5)
        G, c = A.T @ A, rng.standard_normal(6) @ A
        for matrix, side in ((G, c), (G, G @ point), (0 * G, 0 * c)):
            rows = {"A_eq": E, "b_eq": E @ point}
            result = gpusolve.bounded_qp(matrix, side, (-INF, INF), **rows)
            check_kkt(matrix, side, (-INF, INF), result, **rows)


def test_linear_programs_are_solved_at_a_vertex(backend: Any) -> None:
    """Without curvature, the constraints alone bound x, or do not."""
    rows = {"A_ub": [[1, 1, 1]], "b_ub": [[2], [4]]}
    c = np.array([1.0, 2, 3])
    result = backend.solve(gpusolve.bounded_qp, np.zeros((3, 3)), c, **rows)
    assert_array_equal(result.status, 0)
    assert_allclose(result.x, [[0, 0, 2], [0, 0, 4]])
    assert_allclose(result.dual_ub, [[3], [3]])
    given = np.diag([1.0, 0.0]), np.array([2.0, 1.0]), (-INF, INF)
    rows = {"A_ub": [[1, 0]], "b_ub": [1]}
    assert backend.solve(gpusolve.bounded_qp, *given, **rows).status == 3


@together("rows", [20, 100])
@together("upper", [INF, 0.2])
def test_a_portfolio_of_least_variance_in_float32(rows: int, upper: float) -> None:
    """Of 20 rows, the covariance of 60 columns is singular: no risk may be left."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        data = 0.01 * rng.standard_normal((rows, 5)) @ rng.standard_normal((5, 60))
        data += 0.01 * rng.standard_normal(data.shape)
        G = np.cov(data, rowvar=False, dtype=np.float32)
        for fixed in ({"sum_to": 1}, {"A_eq": np.ones((1, 60)), "b_eq": [1]}):
            given = G, np.zeros(60, np.float32), (0, upper)
            result = gpusolve.bounded_qp(*given, **fixed)
            assert result.status == 0
            assert abs(result.x.astype(float).sum() - 1) < 1e-5


# ---- other arguments -----------------------------------------------------------------


def test_a_tikhonov_penalty_is_rows_of_the_matrix(backend: Any) -> None:
    rng = np.random.default_rng(6)
    A, b, C = (rng.standard_normal(shape) for shape in ((9, 4), (5, 9), (3, 4)))
    L = np.diff(np.eye(4), axis=0)
    given = {"A_ub": C, "b_ub": -np.ones(3)}
    found = backend.solve(gpusolve.lsq_linear, A, b, L=L, lam=4.0, **given)
    stacked = np.concatenate([A, 2 * L]), np.pad(b, ((0, 0), (0, 3)))
    expected = gpusolve.lsq_linear(*stacked, **given)
    assert_allclose(found.x, expected.x, atol=1e-13)
