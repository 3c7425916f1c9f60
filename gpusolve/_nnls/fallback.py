"""Least squares on the CPU without the compiled object.

Plain non-negative least squares is a loop over ``scipy.optimize.nnls``, with our
certificate. SciPy gives x alone, so the counts are the fewest that lead to x: each
passive variable entered once, and none left. Everything else, and what SciPy does not
solve, is solved by the specifications, one system after another.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._device.arrays import Array
from .._numerics.certificate import (
    Certificate,
    best_witness,
    certify,
    gradient,
    is_convincing,
    keeps_sum,
    misfit,
    outcome,
    residual,
    slack,
)
from .._numerics.scaling import Mask, ScaledSystem
from .._numerics.solution import BY_GRAM, BY_QR, CONVERGED, ITERATION_LIMIT, Solution
from ..reference import _nnls_gram, _nnls_qr
from ..reference._nnls_gram import fitted
from .chunks import solve_chunks, starting_points
from .inputs import Problem

CHUNK_ENTRIES = 2**20
"""Limit on the matrix entries of one chunk, in which a shared matrix counts for each of
its systems. Between chunks the progress bar moves."""

CORRECTIONS = 2
"""How often the residual is made orthogonal to the passive columns."""


def solve(problem: Problem, method: str) -> Solution:
    """Solve every system of the batch by ``"auto"``, ``"gram"`` or ``"qr"``."""
    by_loop = method == "auto" and is_plain(problem)

    def solve_finite(system: ScaledSystem, start: Array) -> Solution:
        if by_loop:
            return by_scipy(problem, system)
        return by_reference(problem, system, start, method)

    number = BY_QR if method == "qr" else BY_GRAM
    return solve_chunks(problem, solve_finite, number, CHUNK_ENTRIES)


def is_plain(problem: Problem) -> bool:
    """Whether SciPy's function has all that a problem asks for."""
    options = problem.has_penalties, problem.has_ridge, problem.has_sum
    given = problem.start is not None, problem.maxiter is not None
    return problem.is_nnls and min(problem.shape) > 0 and not any(options + given)


# ---- SciPy ---------------------------------------------------------------------------


class Certified(NamedTuple):
    """Points of a batch of systems, in the scaled variables, and their certificates."""

    x: Array
    certificate: Certificate

    def put(self, at: Mask, other: Certified) -> None:
        """Write the points and certificates of some systems to a mask of the batch."""
        self.x[at] = other.x
        for field, values in zip(self.certificate, other.certificate, strict=True):
            field[at] = values


def by_scipy(problem: Problem, system: ScaledSystem) -> Solution:
    """Solve plain systems by SciPy; what is not certified, by the specifications."""
    tol = problem.cpu_tolerance
    points = certified(system, loop_over_scipy(system, problem.iteration_limit), tol)
    status = outcome(system, points.x, points.certificate, CONVERGED, tol)
    passive = np.count_nonzero(points.x, axis=1).astype(np.int32)
    none, plain = np.zeros_like(passive), np.zeros(len(passive), bool)
    method = np.full(len(passive), BY_QR, np.uint8)
    solution = Solution(
        points.x,
        *points.certificate[:3],
        passive,
        status,
        passive.copy(),
        none,
        plain,
        method,
    )
    for k in np.flatnonzero(~is_convincing(system, points.x, points.certificate, tol)):
        one = system.take(np.array(k))
        again = solve_one(problem, one, one.rest, "auto")
        if precedes(one, again, Solution(*[field[k] for field in solution])):
            solution.put(k, again)
        solution.repaired[k] = True
    return solution


def loop_over_scipy(system: ScaledSystem, maxiter: int) -> Array:
    """SciPy's x of every system; 0 where SciPy gives up."""
    from scipy.optimize import nnls

    x = np.zeros((len(system.b), system.A.shape[-1]))
    for k, b in enumerate(system.b):
        try:
            A = system.A if system.A.ndim == 2 else system.A[k]
            x[k], _ = nnls(A, b, maxiter=maxiter)
        except RuntimeError:  # after `maxiter` iterations
            continue
    return x


def certified(system: ScaledSystem, x: Array, tol: float) -> Certified:
    """Certify points; improve those whose certificates are not convincing."""
    points = certified_by(system, x, residual(system, x))
    for improve in (corrected, with_best_witness):
        doubtful = ~is_convincing(system, points.x, points.certificate, tol)
        if not doubtful.any():
            break
        some = system.take(np.flatnonzero(doubtful))
        again = certified_by(some, *improve(some, points.x[doubtful]))
        better = again.certificate.kkt < points.certificate.kkt[doubtful]
        doubtful[doubtful] = better
        points.put(
            doubtful, Certified(again.x[better], taken(again.certificate, better))
        )
    return points


def certified_by(system: ScaledSystem, x: Array, witness: Array) -> Certified:
    """Round points as they are returned, and certify them by witnesses."""
    x = system.rounded(x)
    return Certified(x, certify(system, x, witness))


def taken(certificate: Certificate, systems: Mask) -> Certificate:
    """The certificates of some systems."""
    return Certificate(*[field[systems] for field in certificate])


def corrected(system: ScaledSystem, x: Array) -> tuple[Array, Array]:
    """Make residuals orthogonal to the passive columns; correct x by the difference.

    The normal equations of all systems are solved at once. A shift at the level of
    rounding keeps them regular; repeating the correction makes up for it.
    """
    passive, n = x > 0, x.shape[-1]
    witness, change = residual(system, x), np.zeros_like(x)
    G = np.matmul(np.swapaxes(system.A, -1, -2), system.A)
    G = np.where(passive[:, None, :] & passive[:, :, None], G, 0)
    shift = n * np.finfo(x.dtype).eps * system.norm**2
    G[:, np.arange(n), np.arange(n)] += np.where(passive, shift, 1)
    for _ in range(CORRECTIONS):
        w = np.where(passive, gradient(system, witness), 0)
        d = np.linalg.solve(G, w[..., None])[..., 0]
        change, witness = change + d, witness - fitted(system, d)
    return moved(x, change), witness


def with_best_witness(system: ScaledSystem, x: Array) -> tuple[Array, Array]:
    """Points with the witnesses that a singular value decomposition finds."""
    return x, best_witness(system, x)


def moved(x: Array, change: Array) -> Array:
    """``x + change`` where all passive variables stay positive, else x."""
    after = x + change
    stays = ((after > 0) == (x > 0)).all(axis=-1, keepdims=True)
    return np.where(stays, after, x)


# ---- the specifications --------------------------------------------------------------


def by_reference(
    problem: Problem, system: ScaledSystem, start: Array, method: str
) -> Solution:
    """Solve one system after another by the specifications."""
    n = system.A.shape[-1]
    solution = Solution.blank((len(system.b),), n, system.b.dtype)
    for k, guess in enumerate(start):
        one = system.take(np.array(k))
        solution.put(k, solve_one(problem, one, guess, method))
    return solution


def solve_one(
    problem: Problem, system: ScaledSystem, start: Array, method: str
) -> Solution:
    """Solve one scaled system by the specification of a method.

    ``"auto"`` is ``"gram"``, and ``"qr"`` if the certificate is not convincing. The
    better one of both solutions is returned.
    """
    limits = tol, _ = problem.cpu_tolerance, problem.iteration_limit
    if method == "qr" or problem.shape[1] == 0:
        return _nnls_qr.solve_one(system, start, *limits)
    found = _nnls_gram.solve_gram_system(system, start, *limits)
    limited = problem.maxiter is not None and found.status == ITERATION_LIMIT
    if method == "gram" or limited or has_convinced(system, found, tol):
        return found
    start = starting_points(system, system.unscale(found.x))
    again = _nnls_qr.solve_one(system, start, *limits)
    best = again if precedes(system, again, found) else found
    return best._replace(repaired=np.array(True))


def has_convinced(system: ScaledSystem, found: Solution, tol: float) -> bool:
    """Whether no other method could improve a solution."""
    certificate = Certificate(found.rnorm, found.dual, *[found.kkt] * 3)
    return bool(is_convincing(system, found.x, certificate, tol))


def precedes(system: ScaledSystem, one: Solution, other: Solution) -> bool:
    """Whether a solution of a system is better than another one.

    It has the smaller misfit. If the misfits are equal, as far as a certificate can
    tell, it is certified, or has the smaller `kkt`.
    """
    by = feasible_misfit(system, one) - feasible_misfit(system, other)
    if abs(by) > slack(system):
        return by < 0
    good = one.status == CONVERGED, other.status == CONVERGED
    return bool(good[0] > good[1] or (good[0] == good[1] and one.kkt < other.kkt))


def feasible_misfit(system: ScaledSystem, found: Solution) -> float:
    """The misfit of a solution; infinite if x does not have the fixed sum."""
    if not keeps_sum(system, found.x):
        return math.inf
    return float(misfit(system, found.x, found.rnorm))
