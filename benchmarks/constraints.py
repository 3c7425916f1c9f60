"""Many least-squares problems with the same linear constraints, one core each.

Each system has 45 unknowns and 60 inequalities, which all systems share. In the first
case all numbers are random. The second case is the deconvolution of diffusion MRI: a
function on the sphere, an even polynomial of degree 8, is blurred by the response of a
single fibre, measured in 90 directions, and must not be negative in 60 directions.

quadprog solves one system for each call, as a loop over voxels does; CVXPY solves the
same parametrised problem again and again, with Clarabel. Both are left out if they are
not installed.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from harness import (
    Machine,
    choose,
    head,
    publish,
    row,
    table_head,
    three_digits,
    timing_parser,
    to_host,
    wall_clock,
)
from numpy.typing import NDArray

import gpusolve

Floats = NDArray[np.float64]

DEGREE = 8
DIRECTIONS, LIMITS = 90, 60
NOISE = 0.02
FEW = {"quadprog": 1000, "CVXPY": 20}
"""The systems that other solvers solve; their times are per system."""


class Case(NamedTuple):
    """``min |A x - b|^2`` with ``C x >= 0``."""

    name: str
    A: Floats
    b: Floats
    C: Floats


def random_case(rng: np.random.Generator, systems: int) -> Case:
    """Random numbers."""
    A, C = rng.standard_normal((DIRECTIONS, 45)), rng.standard_normal((LIMITS, 45))
    return Case("random", A, rng.standard_normal((systems, DIRECTIONS)), C)


def fibres(rng: np.random.Generator, systems: int) -> Case:
    """Two fibres in each voxel."""
    dense = directions(rng, 2000)
    _, R = np.linalg.qr(even_polynomials(dense) / np.sqrt(len(dense)))
    measured, limited = directions(rng, DIRECTIONS), directions(rng, LIMITS)
    A = response(measured, dense) @ np.linalg.solve(R.T, even_polynomials(dense).T).T
    C = np.linalg.solve(R.T, even_polynomials(limited).T).T
    axes = directions(rng, 2 * systems).reshape(systems, 2, 3)
    signal = np.exp(-3 * (axes @ measured.T) ** 2).mean(axis=1)
    b = signal + NOISE * rng.standard_normal(signal.shape)
    return Case("two fibres", A / len(dense), b, C)


def cases_of(sizes: list[int]) -> list[Case]:
    """Both cases with these numbers of systems."""
    rng = np.random.default_rng(0)
    return [make(rng, systems) for systems in sizes for make in (random_case, fibres)]


def directions(rng: np.random.Generator, count: int) -> Floats:
    """Random points of the sphere, (count, 3)."""
    found = rng.standard_normal((count, 3))
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def even_polynomials(points: Floats) -> Floats:
    """The monomials of degree 8 at points of the sphere, (points, 45)."""
    x, y, z = points.T
    powers = [(i, j) for i in range(DEGREE + 1) for j in range(DEGREE + 1 - i)]
    return np.stack([x**i * y**j * z ** (DEGREE - i - j) for i, j in powers], axis=1)


def response(measured: Floats, axes: Floats) -> Floats:
    """The signal of a fibre along each axis, in each measured direction."""
    return np.exp(-3 * (measured @ axes.T) ** 2)


# ---- other solvers -------------------------------------------------------------------

Solver = Callable[[Case, int], Floats]


def by_quadprog(case: Case, systems: int) -> Floats:
    """The solutions of the first systems."""
    import quadprog

    G, C, zeros = case.A.T @ case.A, case.C.T.copy(), np.zeros(LIMITS)
    sides = case.b[:systems] @ case.A
    return np.stack([quadprog.solve_qp(G, side, C, zeros)[0] for side in sides])


def by_cvxpy(case: Case, systems: int) -> Floats:
    """The solutions of the first systems."""
    import cvxpy

    x, b = cvxpy.Variable(case.A.shape[1]), cvxpy.Parameter(DIRECTIONS)
    objective = cvxpy.Minimize(cvxpy.sum_squares(case.A @ x - b))
    problem, found = cvxpy.Problem(objective, [case.C @ x >= 0]), []
    for side in case.b[:systems]:
        b.value = side
        problem.solve(solver="CLARABEL")
        found.append(x.value)
    return np.stack(found)


PEERS: dict[str, Solver] = {"quadprog": by_quadprog, "CVXPY": by_cvxpy}

PACKAGES = "quadprog", "cvxpy", "clarabel"


# ---- the report ----------------------------------------------------------------------


def excess(case: Case, x: Floats, other: Floats) -> float:
    """By how much |A x - b| is larger than another solver's, relative to |b|."""
    b, few = case.b[: len(other)], x[: len(other)]
    norms = [np.linalg.norm(b - points @ case.A.T, axis=1) for points in (few, other)]
    return float(((norms[0] - norms[1]) / np.linalg.norm(b, axis=1)).max())


def lines(machine: Machine, cases: list[Case]) -> Iterator[str]:
    """The report."""
    yield from head("Linear constraints", machine, *PACKAGES)
    yield from table(machine, cases)


def table(machine: Machine, cases: list[Case]) -> Iterator[str]:
    """The table, and what its cells contain."""
    yield "Systems of 45 unknowns and 60 shared inequalities, on one core (a GPU: the"
    yield "whole device). Other solvers solve some of them, after a first call that is"
    yield "not timed. Times are microseconds per system.\n"
    yield from table_head(
        *("case", "systems", "active", "status 0", "largest kkt", "gpusolve, us"),
        *(
            f"{name}{more}"
            for name in PEERS
            for more in (", us", ", ratio", ", excess")
        ),
    )
    for case in cases:
        yield row(*cells(machine, case))
    yield "\nactive: constraints that hold with equality, on average. excess: by how"
    yield "much the residual of gpusolve is at most larger, relative to the norm of b."


def cells(machine: Machine, case: Case) -> Iterator[str]:
    """A row of the table."""
    A, b, C = (machine.xp.asarray(array) for array in case[1:])
    limits = {"A_ub": -C, "b_ub": machine.xp.zeros(LIMITS)}
    timed = machine.timing(lambda: gpusolve.lsq_linear(A, b, **limits))
    result, own = timed.result, timed.median / len(b)
    status, kkt = to_host(result.status), to_host(result.kkt)
    active = (to_host(result.dual_ub) > 0).sum(axis=1).mean()
    yield from (
        case.name,
        f"{len(b):,}",
        f"{active:.1f}",
        f"{(status == 0).mean():.2%}",
    )
    yield from (f"{kkt.max():.0e}", three_digits(1e6 * own))
    for name, solve in PEERS.items():
        if not (machine.peers and importlib.util.find_spec(name.lower())):
            yield from ("", "", "")
            continue
        few = min(FEW[name], len(b))
        solve(case, 1)
        seconds, x = wall_clock(lambda solve=solve, few=few: solve(case, few))
        each = seconds / few
        yield from (three_digits(1e6 * each), three_digits(each / own))
        yield f"{excess(case, to_host(result.x), x):.0e}"


def one_core() -> None:
    """Let this process run on one core only, where the system can do this."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def main() -> None:
    """Measure, and print or write the report."""
    given = timing_parser(__doc__, "numbers of systems", repeats=5).parse_args()
    cases = cases_of(given.sizes or [10_000])
    machine = choose(given.emulate, given.cpu, given.repeats, given.peers)
    publish(lines(machine, cases), given.output)


if __name__ == "__main__":
    one_core()
    main()
