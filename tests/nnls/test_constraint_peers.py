"""Linear constraints, against published minima and against other solvers.

The programs are dense and of the kinds of the collection of Maros and Meszaros; they
are made here, from formulas. Other solvers are called by qpsolvers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csc_matrix
from together import together

import gpusolve

Array = NDArray[Any]

INF = np.inf


class Program(NamedTuple):
    """``min x G x / 2 - c x`` within bounds, with ``C x <= d`` and ``E x = f``."""

    G: Array
    c: Array
    C: Array
    d: Array
    E: Array
    f: Array
    lower: Array
    upper: Array

    @classmethod
    def of(
        cls,
        G: Any,
        c: Any,
        less: Any = None,
        equal: Any = None,
        bounds: Any = (-INF, INF),
    ) -> Program:
        n = len(c)
        none = np.zeros((0, n)), np.zeros(0)
        rows = [np.asarray(a, float) for a in (*(less or none), *(equal or none))]
        sides = [np.broadcast_to(np.asarray(bound, float), n) for bound in bounds]
        return cls(np.asarray(G, float), np.asarray(c, float), *rows, *sides)

    def solve(self) -> Any:
        return gpusolve.bounded_qp(
            self.G,
            self.c,
            (self.lower, self.upper),
            A_ub=self.C,
            b_ub=self.d,
            A_eq=self.E,
            b_eq=self.f,
        )

    def objective(self, x: Array) -> float:
        return float(x @ self.G @ x / 2 - self.c @ x)

    def violations(self, x: Array) -> Array:
        """By how much each constraint is violated, relative to its terms and 1."""
        eye, size = np.eye(len(x)), np.abs(x)
        rows = np.concatenate([self.C, -eye, eye, self.E])
        sides = np.concatenate([self.d, -self.lower, self.upper, self.f])
        lack = np.where(np.isfinite(sides), rows @ x - sides, 0)
        lack = np.where(np.arange(len(lack)) < len(lack) - len(self.f), lack, abs(lack))
        return np.asarray(np.maximum(lack, 0) / (1 + np.abs(rows) @ size))

    def peer(self, solver: str) -> Any:
        """What a solver of qpsolvers finds, with its multipliers."""
        qpsolvers = pytest.importorskip("qpsolvers")
        if solver not in qpsolvers.available_solvers:
            pytest.skip(f"needs {solver}")
        options: dict[str, Any] = {}
        matrices = [self.G, self.C, self.E]
        if solver == "clarabel":
            options, matrices = TIGHT, [csc_matrix(array) for array in matrices]
        G, C, E = matrices
        given = G, -self.c, C, self.d, E, self.f, self.lower, self.upper
        return qpsolvers.solve_problem(
            qpsolvers.Problem(*given), solver=solver, **options
        )


TIGHT = dict.fromkeys(["tol_gap_abs", "tol_gap_rel", "tol_feas"], 1e-9)
"""With 1e-11 and coefficients of 1e6 Clarabel warns on some CPUs."""


def check(program: Program, least: float, x: Array, slack: float = 0.0) -> None:
    """The objective is at most `least`, and no constraint is violated."""
    value = program.objective(x)
    assert value <= least + 1e-9 * (1 + abs(least)) + slack
    assert program.violations(x).max() <= 1e-9


# ---- published minima ----------------------------------------------------------------

PUBLISHED = {
    "HS21": (
        Program.of(
            np.diag([0.02, 2]), [0, 0], ([[-10, 1]], [-10]), None, ([2, -50], 50)
        ),
        0.04,
    ),
    "HS35": (
        Program.of(
            [[4, 2, 2], [2, 4, 0], [2, 0, 2]],
            [8, 6, 4],
            ([[1, 1, 2]], [3]),
            None,
            (0, INF),
        ),
        1 / 9 - 9,
    ),
    "HS52": (
        Program.of(
            [
                [32, -8, 0, 0, 0],
                [-8, 4, 2, 0, 0],
                [0, 2, 2, 0, 0],
                [0, 0, 0, 2, 0],
                [0, 0, 0, 0, 2],
            ],
            [0, 4, 4, 2, 2],
            None,
            ([[1, 3, 0, 0, 0], [0, 0, 1, 1, -2], [0, 1, 0, 0, -1]], [0, 0, 0]),
        ),
        1859 / 349 - 6,
    ),
    "HS53": (
        Program.of(
            [
                [2, -2, 0, 0, 0],
                [-2, 4, 2, 0, 0],
                [0, 2, 2, 0, 0],
                [0, 0, 0, 2, 0],
                [0, 0, 0, 0, 2],
            ],
            [0, 4, 4, 2, 2],
            None,
            ([[1, 3, 0, 0, 0], [0, 0, 1, 1, -2], [0, 1, 0, 0, -1]], [0, 0, 0]),
            (-10, 10),
        ),
        176 / 43 - 6,
    ),
    "HS76": (
        Program.of(
            [[2, 0, -1, 0], [0, 1, 0, 0], [-1, 0, 2, 1], [0, 0, 1, 1]],
            [1, 3, -1, 1],
            ([[1, 2, 1, 1], [3, 1, 2, -1], [0, -1, -4, 0]], [5, 4, -1.5]),
            None,
            (0, INF),
        ),
        -4.681818181818182,
    ),
    "TAME": (
        Program.of([[2, -2], [-2, 2]], [0, 0], None, ([[1, 1]], [1]), (0, INF)),
        0,
    ),
}
"""Programs of Hock and Schittkowski, and TAME of CUTE, without the constants of their
objectives, and the published minima."""


@together("name", list(PUBLISHED))
def test_published_minima(name: str) -> None:
    program, least = PUBLISHED[name]
    result = program.solve()
    assert result.status == 0
    assert program.objective(result.x) == pytest.approx(least, rel=1e-9, abs=1e-9)
    check(program, least, result.x)


# ---- dense programs ------------------------------------------------------------------


def ksip(rng: np.random.Generator) -> Program:
    """A semi-infinite program: a polynomial above the tangent, at many points."""
    i, t = np.arange(1, 11), np.linspace(0, 1, 120)[:, None]
    rows = t ** (i - 1)
    return Program.of(np.diag(1 / i), -1 / i, (-rows, -np.tan(t[:, 0])))


def cvxqp(rng: np.random.Generator) -> Program:
    """Variables in triples, as in CVXQP: sums of three of them are fixed."""
    n, k = 30, np.arange(30)
    G, E = np.zeros((n, n)), np.zeros((n // 2, n))
    for i in k:
        terms = {i, (2 * i + 1) % n, (3 * i + 2) % n}
        row = np.isin(k, list(terms)).astype(float)
        G += (i + 1) * np.outer(row, row)
        if i % 2 == 0:
            E[i // 2] = row * [1 + j % 3 for j in k]
    point = rng.uniform(0.1, 10, n)
    return Program.of(G, np.zeros(n), None, (E, E @ point), (0.1, 10))


def dual_of_classifier(rng: np.random.Generator) -> Program:
    """The dual of a support vector machine: rank 8, bounds and an equality."""
    X, y = rng.standard_normal((40, 8)), np.sign(rng.standard_normal(40))
    Q = y[:, None] * X
    return Program.of(Q @ Q.T, np.ones(40), None, (y[None], [0]), (0, 1))


def huestis(rng: np.random.Generator) -> Program:
    """Two equalities of positive terms with large coefficients."""
    i = np.arange(1, 61)
    rows = np.stack([i / 60, (i / 60) ** 3])
    point = rng.random(60)
    equal = 1e6 * rows, 1e6 * rows @ point
    return Program.of(np.eye(60) / 30, np.zeros(60), None, equal, (0, INF))


def control(rng: np.random.Generator) -> Program:
    """States of a linear system and limited inputs, for 12 steps."""
    steps, eye = 12, np.eye(12)
    later = np.eye(steps, k=-1)
    E = np.block(
        [
            [eye - later, -0.1 * later, np.zeros((steps, steps))],
            [np.zeros((steps, steps)), eye - 0.9 * later, -eye],
        ]
    )
    start = np.zeros(2 * steps)
    start[[0, steps]] = 1.0, -3.0
    cost = np.diag(np.repeat([1.0, 0.1, 0.01], steps))
    limit = np.repeat([INF, INF, 0.7], steps)
    return Program.of(cost, np.zeros(3 * steps), None, (E, start), (-limit[:], limit))


Make = Callable[[np.random.Generator], Program]

DENSE: tuple[Make, ...] = (
    ksip,
    cvxqp,
    dual_of_classifier,
    huestis,
    control,
)


@together("make", DENSE, ids=[make.__name__ for make in DENSE])
def test_dense_programs_are_not_worse_than_those_of_peers(make: Make) -> None:
    """Peers' x violate constraints a little, which their multipliers pay for.

    quadprog needs a strictly convex objective, and gives up on some programs.
    """
    for seed in range(2):
        program = make(np.random.default_rng(seed))
        result = program.solve()
        assert result.status == 0
        values = np.linalg.eigvalsh(program.G)
        is_strict = values[0] >= 1e-10 * values[-1]
        for solver in ("clarabel", *["quadprog"] * bool(is_strict)):
            other = program.peer(solver)
            if solver == "quadprog" and not other.found:
                continue
            multipliers = np.concatenate([other.z, other.z_box, other.y])
            violated = program.violations(other.x).max() * (1 + np.abs(other.x).sum())
            paid = np.abs(multipliers).sum() * violated
            assert paid <= 1e-5 * (1 + abs(program.objective(other.x)))
            check(program, program.objective(other.x), result.x, paid)
