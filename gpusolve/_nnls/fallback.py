"""Least squares on the CPU without the compiled object.

Plain non-negative least squares is a loop over ``scipy.optimize.nnls``, with our
certificate. SciPy gives x alone, so the counts are the fewest that lead to x: each
passive variable entered once, and none left. Everything else, and what SciPy does not
solve, is solved by the specification, system by system.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._device.arrays import Array
from .._numerics.certificate import certify, is_convincing, outcome, residual
from .._numerics.scaling import Mask, ScaledSystem
from .._numerics.solution import BY_QR, CONVERGED, Solution
from ..reference._nnls import solve_system
from .chunks import solve_in_chunks
from .inputs import Problem

CHUNK_ENTRIES = 2**20
"""Limit on the matrix entries of a chunk, in which a shared matrix counts for each of
its systems. Between chunks the progress bar moves."""


def solve(problem: Problem, method: str) -> Solution:
    """Solve every system of the batch by ``"auto"``, ``"gram"`` or ``"qr"``."""
    uses_scipy = method == "auto" and is_plain(problem)
    tol, maxiter = problem.cpu_tolerance, problem.iteration_limit

    def solve_finite(system: ScaledSystem, start: Array) -> Solution:
        solution = Solution.blank((len(start),), start.shape[-1], system.b.dtype)
        unsettled = np.ones(len(start), bool)
        if uses_scipy:
            solution, unsettled = solve_by_scipy(system, tol, maxiter)
            start = np.where(np.isfinite(solution.x), solution.x, start)
        for k in np.flatnonzero(unsettled):
            found = solve_system(system.take(np.array(k)), start[k], tol, maxiter)
            repaired = uses_scipy and solution.status[k] != CONVERGED
            if uses_scipy and not repaired:  # SciPy's x, corrected
                found = found._replace(**fewest_counts(found.x))
            solution.put(k, found)
            solution.repaired[k] |= repaired
        return solution

    return solve_in_chunks(problem, solve_finite, BY_QR, CHUNK_ENTRIES, threads=1)


def is_plain(problem: Problem) -> bool:
    """Whether SciPy's function has all that a problem asks for."""
    options = problem.has_penalties, problem.has_ridge, problem.has_sum
    given = problem.start is not None, problem.maxiter is not None
    return problem.is_nnls and min(problem.shape) > 0 and not any(options + given)


def solve_by_scipy(
    system: ScaledSystem, tol: float, maxiter: int
) -> tuple[Solution, Mask]:
    """SciPy's solutions, and a mask of the systems that are not settled."""
    from scipy.optimize import nnls

    x: Array = np.zeros((len(system.b), system.A.shape[-1]))
    for k, b in enumerate(system.b):
        try:
            A = system.A if system.A.ndim == 2 else system.A[k]
            x[k], _ = nnls(A, b, maxiter=maxiter)
        except RuntimeError:  # after `maxiter` iterations
            continue
    x = system.rounded(x)
    found = certify(system, x, residual(system, x))
    solution = Solution.blank((len(x),), x.shape[1], x.dtype)._replace(
        x=x,
        rnorm=found.rnorm,
        dual=found.dual,
        kkt=found.kkt,
        status=outcome(system, x, found, CONVERGED, tol),
        **fewest_counts(x),
    )
    return solution, ~is_convincing(system, x, found, tol)


def fewest_counts(x: Array) -> dict[str, Any]:
    """The fewest steps that lead to x: passive variables enter, and none leaves."""
    passive = np.asarray(np.count_nonzero(x, axis=-1), np.int32)
    return {"nit": passive, "n_updates": passive.copy(), "n_downdates": 0 * passive}
