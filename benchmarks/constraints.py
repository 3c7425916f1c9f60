"""Many least-squares problems with the same linear constraints, one core each.

    python benchmarks/constraints.py --cpu --output FILE.md

Each system has 45 unknowns and 60 inequalities, which all systems share. In the first
case all numbers are random. The second case is the deconvolution of diffusion MRI: a
function on the sphere, an even polynomial of degree 8, is blurred by the response of a
single fibre, measured in 90 directions, and must not be negative in 60 directions.

quadprog solves one system for each call, as a loop over voxels does; CVXPY solves the
same parametrised problem again and again, with Clarabel. Both are left out if they are
not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from harness import Benchmark, Machine, to_host
from nnls_cases import directions
from numpy.typing import NDArray
from records import OURS, Part, Result

import gpusolve

Floats = NDArray[np.float64]

DEGREE = 8
DIRECTIONS, LIMITS = 90, 60
FEW = {"quadprog": 1000, "CVXPY": 20}
"""The systems that other solvers solve; their times are scaled to all."""


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
    """Two fibres in each voxel; R makes the polynomials orthogonal."""
    dense = directions(rng, 2000)
    R = np.linalg.qr(even_polynomials(dense) / np.sqrt(len(dense)))[1]
    measured, limited = directions(rng, DIRECTIONS), directions(rng, LIMITS)
    basis, C = (
        np.linalg.solve(R.T, even_polynomials(points).T).T
        for points in (dense, limited)
    )
    axes = directions(rng, 2 * systems).reshape(systems, 2, 3)
    signal = np.exp(-3 * (axes @ measured.T) ** 2).mean(axis=1)
    b = signal + 0.02 * rng.standard_normal(signal.shape)
    A = np.exp(-3 * (measured @ dense.T) ** 2) @ basis / len(dense)
    return Case("two fibres", A, b, C)


def even_polynomials(points: Floats) -> Floats:
    """The monomials of degree 8 at points of the sphere, (points, 45)."""
    x, y, z = points.T
    powers = [(i, j) for i in range(DEGREE + 1) for j in range(DEGREE + 1 - i)]
    return np.stack([x**i * y**j * z ** (DEGREE - i - j) for i, j in powers], axis=1)


# ---- other solvers -------------------------------------------------------------------


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


PEERS: dict[str, Callable[[Case, int], Floats]] = {
    "quadprog": by_quadprog,
    "CVXPY": by_cvxpy,
}

ABOUT = """\
Systems of 45 unknowns and 60 shared inequalities, on one core (a GPU: the whole
device). Other solvers solve some of the systems, and their time is scaled to all: `*`.
Our error is the largest `kkt`, with the part of the systems that have status 0 and the
constraints that hold with equality, on average. The error of another solver is by how
much our residual is at most larger than its residual, relative to the norm of b."""


def excess(case: Case, x: Floats, other: Floats) -> float:
    """By how much |A x - b| is larger than another solver's, relative to |b|."""
    b, few = case.b[: len(other)], x[: len(other)]
    norms = [np.linalg.norm(b - points @ case.A.T, axis=1) for points in (few, other)]
    return float(((norms[0] - norms[1]) / np.linalg.norm(b, axis=1)).max())


def measure(
    part: Part, machine: Machine, options: argparse.Namespace
) -> Iterator[Result]:
    rng = np.random.default_rng(0)
    for systems in options.sizes or [3 if machine.small else 10_000]:
        for make in (random_case, fibres):
            yield from measure_case(machine, make(rng, systems))


def measure_case(machine: Machine, case: Case) -> Iterator[Result]:
    A, b, C = (machine.xp.asarray(array) for array in case[1:])
    limits = {"A_ub": -C, "b_ub": machine.xp.zeros(LIMITS)}
    at = case.name, case.A.shape
    call = partial(gpusolve.lsq_linear, A, b, **limits)
    found, result = machine.measure(OURS, *at, call, systems=len(b))
    x, status, kkt = map(to_host, (result.x, result.status, result.kkt))
    active = (to_host(result.dual_ub) > 0).sum(axis=1).mean()
    note = f"{(status == 0).mean():.2%} certified, {active:.1f} active"
    yield found._replace(error=float(kkt.max()), note=note)
    for name, solve in PEERS.items():
        if machine.peers and importlib.util.find_spec(name.lower()):
            few = min(FEW[name], len(b))
            timed, other = machine.measure(name, *at, partial(solve, case, few))
            scale = len(b) / few
            timed = timed._replace(
                systems=len(b), median=scale * timed.median, spread=scale * timed.spread
            )
            yield timed._replace(solved=few, error=excess(case, x, other))


BENCHMARK = Benchmark(
    doc=__doc__ or "",
    title="Linear constraints",
    parts=[Part("systems", ABOUT, tuple(PEERS), "error")],
    measure=measure,
    packages=("quadprog", "cvxpy", "clarabel"),
)

if __name__ == "__main__":
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    BENCHMARK.main()
