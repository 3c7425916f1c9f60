"""Linear constraints, against published minima and against other solvers.

The programs are of the kinds of the collection of Maros and Meszaros; they are made
here, from formulas. Other solvers are called by qpsolvers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from scipy.sparse import csc_matrix
from together import together

import gpusolve

INF = np.inf

# ---- published minima ----------------------------------------------------------------

SUMS = {"A_eq": [[1, 3, 0, 0, 0], [0, 0, 1, 1, -2], [0, 1, 0, 0, -1]], "b_eq": [0] * 3}
SQUARES = [[0, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]

PUBLISHED: dict[str, tuple[Any, Any, Any, dict[str, Any], float]] = {
    "HS21": (
        *(np.diag([0.1, 1]), [0, 0], ([2, -50], 50)),
        *({"A_ub": [[-10, 1]], "b_ub": [-10]}, 0.04),
    ),
    "HS52": ([[4, -1, 0, 0, 0], *SQUARES], [0, 2, 1, 1], (-INF, INF), SUMS, 1859 / 349),
    "HS53": ([[1, -1, 0, 0, 0], *SQUARES], [0, 2, 1, 1], (-10, 10), SUMS, 176 / 43),
    "TAME": ([[1, -1]], [0], (0, INF), {"A_eq": [[1, 1]], "b_eq": [1]}, 0),
    "HS35": (
        *([[4, 2, 2], [2, 4, 0], [2, 0, 2]], [8, 6, 4], (0, INF)),
        *({"A_ub": [[1, 1, 2]], "b_ub": [3]}, 1 / 9 - 9),
    ),
    "HS76": (
        [[2, 0, -1, 0], [0, 1, 0, 0], [-1, 0, 2, 1], [0, 0, 1, 1]],
        *([1, 3, -1, 1], (0, INF)),
        {"A_ub": [[1, 2, 1, 1], [3, 1, 2, -1], [0, -1, -4, 0]], "b_ub": [5, 4, -1.5]},
        -4.681818181818182,
    ),
}
"""Programs of Hock and Schittkowski, and TAME of CUTE, without the constants of their
objectives: A and b of squares, or G and c, and the published minima."""


@together("name", PUBLISHED)
def test_published_minima(name: str) -> None:
    A, b, bounds, rows, least = PUBLISHED[name]
    is_program = name in ("HS35", "HS76")
    solve = gpusolve.bounded_qp if is_program else gpusolve.lsq_linear
    result = solve(np.array(A, float), np.array(b, float), bounds, **rows)
    assert result.status == 0
    value = (
        result.x @ A @ result.x / 2 - b @ result.x if is_program else result.rnorm**2
    )
    assert value == pytest.approx(least, rel=1e-9, abs=1e-9)


# ---- dense programs ------------------------------------------------------------------

TIGHT = dict.fromkeys(["tol_gap_abs", "tol_gap_rel", "tol_feas"], 1e-9)
"""With 1e-11 and coefficients of 1e6 Clarabel warns on some CPUs."""


def cvxqp(rng: Generator) -> Any:
    """Variables in triples, as in CVXQP: sums of three of them are fixed."""
    k = np.arange(30)
    rows = np.array([np.isin(k, [i, (2 * i + 1) % 30, (3 * i + 2) % 30]) for i in k])
    E = rows[::2] * (1 + k % 3)
    G = (rows.T * (k + 1.0)) @ rows
    return (
        G,
        0.0 * k,
        None,
        None,
        E,
        E @ rng.uniform(0.1, 10, 30),
        0.1 + 0 * k,
        10 + 0 * k,
    )


def classifier(rng: Generator) -> Any:
    """The dual of a support vector machine: rank 8, bounds and an equality."""
    X, y = rng.standard_normal((40, 8)), np.sign(rng.standard_normal(40))
    Q = y[:, None] * X
    ones = np.ones(40)
    return Q @ Q.T, -ones, None, None, y[None], np.zeros(1), 0 * ones, ones


def curve(rng: Generator) -> Any:
    """A semi-infinite program: a polynomial above the tangent, at many points."""
    i, t = np.arange(1, 11), np.linspace(0, 1, 120)
    return np.diag(1 / i), 1 / i, -(t[:, None] ** (i - 1)), -np.tan(t), *[None] * 4


def control(rng: Generator) -> Any:
    """States of a linear system and limited inputs, for 12 steps."""
    eye, later, none = np.eye(12), np.eye(12, k=-1), np.zeros((12, 12))
    E = np.block([[eye - later, -0.1 * later, none], [none, eye - 0.9 * later, -eye]])
    start = np.zeros(24)
    start[[0, 12]] = 1.0, -3.0
    cost = np.diag(np.repeat([1.0, 0.1, 0.01], 12))
    limit = np.repeat([INF, INF, 0.7], 12)
    return cost, np.zeros(36), None, None, E, start, -limit, limit


@together("make", [cvxqp, classifier, curve, control])
def test_dense_programs_are_not_worse_than_those_of_peers(make: Any) -> None:
    """The x of peers violates constraints a little, which their multipliers pay for.

    quadprog needs a strictly convex objective, and gives up on some programs.
    """
    qpsolvers = pytest.importorskip("qpsolvers")
    P, q, G, h, E, f, lower, upper = given = make(np.random.default_rng(0))
    rows = {"A_ub": G, "b_ub": h} if E is None else {"A_eq": E, "b_eq": f}
    bounds = (-INF, INF) if lower is None else (lower, upper)
    result = gpusolve.bounded_qp(P, -q, bounds, **rows)
    assert result.status == 0
    for solver in ("clarabel", "quadprog"):
        program, options = qpsolvers.Problem(*given), {}
        own = qpsolvers.Solution(program, found=True, x=result.x)
        assert own.primal_residual() <= 1e-9 * (1 + np.abs(result.x).sum())
        if solver == "clarabel":
            options = TIGHT
            for name in "PGA":
                matrix = getattr(program, name)
                setattr(program, name, None if matrix is None else csc_matrix(matrix))
        elif np.linalg.cond(P) > 1e10:
            continue
        if solver not in qpsolvers.available_solvers:
            pytest.skip(f"needs {solver}")
        other = qpsolvers.solve_problem(program, solver=solver, **options)
        if solver == "quadprog" and not other.found:
            continue
        multipliers = [y for y in (other.z, other.z_box, other.y) if y is not None]
        paid = np.abs(np.concatenate(multipliers)).sum() * other.primal_residual()
        value, least = (x @ P @ x / 2 + q @ x for x in (result.x, other.x))
        assert paid <= 1e-5 * (1 + abs(least))
        assert value <= least + 1e-9 * (1 + abs(least)) + paid
