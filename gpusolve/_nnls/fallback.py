"""Least squares on the CPU without the compiled object.

Plain non-negative least squares is a loop over ``scipy.optimize.nnls``, with our
certificate. SciPy gives x alone, so the counts are the fewest that lead to x: each
passive variable entered once, and none left. Large systems, everything else, and what
SciPy does not solve, are solved by the specifications, system by system.
"""

from __future__ import annotations

import numpy as np

from .._device.arrays import Array
from .._device.interrupts import UNINTERRUPTED
from .._numerics.certificate import (
    Certificate,
    certify,
    gradient,
    is_convincing,
    outcome,
    residual,
    score,
)
from .._numerics.scaling import Mask, ScaledSystem
from .._numerics.solution import BY_GRAM, BY_QR, CONVERGED, ITERATION_LIMIT, Solution
from ..reference import _nnls_gram, _nnls_qr
from ..reference._nnls_gram import fitted
from .chunks import solve_in_chunks, starting_points
from .inputs import Problem

CHUNK_ENTRIES = 2**20
"""Limit on the matrix entries of a chunk, in which a shared matrix counts for each of
its systems. Between chunks the progress bar moves."""


def solve(problem: Problem, method: str) -> Solution:
    """Solve every system of the batch by ``"auto"``, ``"gram"`` or ``"qr"``."""
    uses_scipy = method == "auto" and is_plain(problem) and suits_scipy(problem)

    def solve_finite(system: ScaledSystem, start: Array) -> Solution:
        if uses_scipy:
            return solve_by_scipy(problem, system)
        return solve_by_reference(problem, system, start, method)

    number = BY_QR if method == "qr" else BY_GRAM
    return solve_in_chunks(problem, solve_finite, number, CHUNK_ENTRIES, threads=1)


def is_plain(problem: Problem) -> bool:
    """Whether SciPy's function has all that a problem asks for."""
    options = problem.has_penalties, problem.has_ridge, problem.has_sum
    given = problem.start is not None, problem.maxiter is not None
    return problem.is_nnls and min(problem.shape) > 0 and not any(options + given)


def suits_scipy(problem: Problem) -> bool:
    """Whether SciPy solves a system within a second, or ``A^T A`` is larger than A.

    The specification is faster for large systems, and is interrupted between two steps.
    """
    m, n = problem.shape
    return n > m or m * n**2 <= UNINTERRUPTED


# ---- SciPy ---------------------------------------------------------------------------


def solve_by_scipy(problem: Problem, system: ScaledSystem) -> Solution:
    """Solve plain systems by SciPy; what is not certified, by the specifications."""
    tol = problem.cpu_tolerance
    x = loop_over_scipy(system, problem.iteration_limit)
    solution, settled = certified(system, x, residual(system, x), tol)
    at = np.flatnonzero(~settled)
    if at.size:
        some = system.take(at)
        again, settled[at] = certified(some, *corrected(some, x[at]), tol)
        solution.put(at, again)
    for k in np.flatnonzero(~settled):
        single = system.take(np.array(k))
        found = solve_one(problem, single, single.rest, "auto")
        if is_better(single, found, Solution(*[field[k] for field in solution])):
            solution.put(k, found)
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


def certified(
    system: ScaledSystem, x: Array, witness: Array, tol: float
) -> tuple[Solution, Mask]:
    """Solutions of the points x, and a mask: no other method could improve these x."""
    x = system.rounded(x)
    certificate = certify(system, x, witness)
    passive = np.count_nonzero(x, axis=1).astype(np.int32)
    solution = Solution.blank(passive.shape, x.shape[1], x.dtype)._replace(
        x=x,
        rnorm=certificate.rnorm,
        dual=certificate.dual,
        kkt=certificate.kkt,
        nit=passive,
        status=outcome(system, x, certificate, CONVERGED, tol),
        n_updates=passive.copy(),
    )
    return solution, is_convincing(system, x, certificate, tol)


def corrected(system: ScaledSystem, x: Array) -> tuple[Array, Array]:
    """Make residuals orthogonal to the passive columns; correct x by the difference.

    The normal equations of all systems are solved at once. A shift at the level of
    rounding keeps them regular.
    """
    passive, n = x > 0, x.shape[-1]
    r = residual(system, x)
    G = np.matmul(np.swapaxes(system.A, -1, -2), system.A)
    G = np.where(passive[:, None, :] & passive[:, :, None], G, 0)
    shift = n * np.finfo(x.dtype).eps * system.norm**2
    G[:, np.arange(n), np.arange(n)] += np.where(passive, shift, 1)
    w = np.where(passive, gradient(system, r), 0)
    d = np.linalg.solve(G, w[..., None])[..., 0]
    return moved(x, d), r - fitted(system, d)


def moved(x: Array, change: Array) -> Array:
    """``x + change`` where all passive variables stay positive, else x."""
    after = x + change
    stays = ((after > 0) == (x > 0)).all(axis=-1, keepdims=True)
    return np.where(stays, after, x)


# ---- the specifications --------------------------------------------------------------


def solve_by_reference(
    problem: Problem, system: ScaledSystem, start: Array, method: str
) -> Solution:
    """Solve system by system by the specifications."""
    n = system.A.shape[-1]
    solution = Solution.blank((len(system.b),), n, system.b.dtype)
    for k, guess in enumerate(start):
        single = system.take(np.array(k))
        solution.put(k, solve_one(problem, single, guess, method))
    return solution


def solve_one(
    problem: Problem, system: ScaledSystem, start: Array, method: str
) -> Solution:
    """Solve one scaled system by the specification of a method.

    ``"auto"`` is ``"gram"``, and ``"qr"`` if the certificate is not convincing. The
    better solution is returned.
    """
    limits = tol, _ = problem.cpu_tolerance, problem.iteration_limit
    if method == "qr" or problem.shape[1] == 0:
        return _nnls_qr.solve_qr_system(system, start, *limits)
    found = _nnls_gram.solve_gram_system(system, start, *limits)
    limited = problem.maxiter is not None and found.status == ITERATION_LIMIT
    if method == "gram" or limited or has_convinced(system, found, tol):
        return found
    start = starting_points(system, system.unscale(found.x))
    again = _nnls_qr.solve_qr_system(system, start, *limits)
    best = again if is_better(system, again, found) else found
    return best._replace(repaired=np.array(True))


def has_convinced(system: ScaledSystem, found: Solution, tol: float) -> bool:
    """Whether no other method could improve a solution."""
    certificate = Certificate(found.rnorm, found.dual, *[found.kkt] * 3)
    return bool(is_convincing(system, found.x, certificate, tol))


def is_better(system: ScaledSystem, new: Solution, old: Solution) -> bool:
    """Whether the new solution of a system is better than the old."""
    scores = [
        score(system, found.x, found.rnorm, found.status == CONVERGED)
        for found in (new, old)
    ]
    return bool(scores[0] < scores[1])
