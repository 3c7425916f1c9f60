"""Least squares with linear constraints: by the compiled solver, then what it leaves.

A block of a device, or the compiled object on a CPU, solves all systems that its
certificate accepts. The specification solves the other systems, one after the other on
the host, or proves that they have no solution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from .._device.arrays import Array, namespace, on_host
from .._device.interrupts import interruptible
from .._device.kernels import Device
from .._device.objects import load
from .._numerics.certificate import (
    CONVERGED,
    INFEASIBLE,
    ITERATION_LIMIT,
    NOT_FINITE,
    UNCERTIFIED,
    Solution,
    ratio,
)
from ..reference._nnls_constrained import (
    MOST_VIOLATION,
    ConstrainedSystem,
    Found,
    minimise,
)
from .constraint_rows import Rows
from .dense import CompiledCall, scaled_batch, solve_on_cpu
from .feasibility import LeastViolation, least_violation
from .nnls_constrained_kernel import is_too_large, nnls_constrained
from .problem import Problem, blank_solution

UNSETTLED = -1
"""``is_unsettled`` of ``constrained_solver.cuh``."""


def solve(problem: Problem, target: Device | None, method: str) -> Solution:
    """Solve every system on the current device, or on the CPU if `target` is None."""
    found = solve_by_teams(problem, target, method)
    return solve_rest(problem, found, lambda some: solve_by_specification(some)[0])


def solve_by_teams(problem: Problem, target: Device | None, method: str) -> Solution:
    """The solutions that the certificate of the compiled solver accepts.

    The other systems have the status `UNSETTLED`.
    """
    if not is_too_large(problem, target):
        if target is not None:
            return nnls_constrained(problem, target, method)
        if (library := load()) is not None:
            call = CompiledCall.of(problem, method, has_rows=True)
            return call.solve(library, method, problem.start)
    xp, blank = namespace(problem.A), blank_solution(problem, problem.batch)
    blank.status[...] = UNSETTLED
    return Solution(**{k: xp.asarray(field) for k, field in blank.arrays().items()})


def solve_rest(
    problem: Problem, found: Solution, solver: Callable[[Problem], Solution]
) -> Solution:
    """The solutions, also of the unsettled systems, by `solver` on the host."""
    if not found.status.size or found.status.min() != UNSETTLED:
        return found
    xp = namespace(found.status)
    at = xp.flatnonzero(found.status == UNSETTLED)
    total, rest = found.status.size, solver(problem.take(on_host(at), to_host=True))
    for name, values in rest.arrays().items():
        field = getattr(found, name)
        field.reshape(total, *values.shape[1:])[at] = xp.asarray(values)
    return found


# ---- the specification ---------------------------------------------------------------


class MultiplierTerms(NamedTuple):
    """Terms that multipliers y of constraints ``C x >= d`` add to a certificate of x.

    Attributes
    ----------
    slope : (..., n) array
        ``-C^T y``, in the given variables.
    gap, gap_terms : (...,) array
        ``y (C x - d)``, and the sum of the magnitudes of its terms.
    least_activity : (...,) array
        Every x that satisfies the constraints has a variable whose ``|x_k|`` times the
        root of ``G_kk`` is at least this number.
    share : (..., n) array
        The pull on each variable of a multiplier whose pull on another variable is 1,
        at most.
    is_feasible : (...,) array
        Whether x satisfies the constraints.
    """

    slope: Array
    gap: Array
    gap_terms: Array
    least_activity: Array
    share: Array
    is_feasible: Array


@np.errstate(all="ignore")
def solve_by_specification(
    problem: Problem,
) -> tuple[Solution, MultiplierTerms | None]:
    """Solve every system on the host, one after the other.

    The terms of the multipliers follow if the matrix has rounding errors: then another
    objective certifies x.
    """
    total, (m, n) = math.prod(problem.batch), problem.shape
    flat, every = problem.take(np.arange(total), to_host=True), np.arange(total)
    rows, solution = Rows.of(flat), blank_solution(problem, (total,))
    solution.status[...] = NOT_FINITE
    none = np.zeros(n)
    terms = [MultiplierTerms(none, 0.0, 0.0, 0.0, none, False)] * total
    work, tol = float(n * n) * (m + n + sum(rows.counts)), problem.tol or 0.0
    given = flat, rows, slice(0, total), every, None
    least = interruptible(total * work, least_violation, *given)

    def solve_dual(B: Array, b: Array, l1: Array, by: str) -> Solution:
        gain = l1 if l1.any() else 0.0
        return solve_on_cpu(Problem(B, b, (), l1=gain, maxiter=problem.maxiter), by)

    for k, system, start in constrained_systems(flat, rows):
        one = LeastViolation(*[part[k] for part in least])
        if one.is_infeasible:
            solution.status[k] = INFEASIBLE
            continue
        nearest = nearest_point(system, one) if one.is_consistent else None
        asked = system, start, nearest, solve_dual, tol
        found = interruptible(work, minimise, *asked)
        x = system.base.unscale(found.point.x).astype(problem.dtype)
        solution.put(k, result_of(found, x, tol))
        if problem.rounded_matrix:
            terms[k] = multiplier_terms(found, x.astype(np.float64))

    def of_batch(field: Array) -> Array:
        return field.reshape((*problem.batch, *field.shape[1:]))

    fields = {name: of_batch(field) for name, field in solution.arrays().items()}
    stacked = MultiplierTerms(*map(of_batch, map(np.array, zip(*terms, strict=True))))
    return Solution(**fields), stacked if problem.rounded_matrix else None


def constrained_systems(
    problem: Problem, rows: Rows
) -> Iterator[tuple[int, ConstrainedSystem, Array]]:
    """The finite systems of a batch with one axis: numbers, systems, and starts."""
    (total,), count, below = problem.batch, sum(rows.counts), rows.counts[0]
    C = np.broadcast_to(rows.C, (total, count, problem.shape[1]))
    d = np.broadcast_to(rows.d, (total, count))
    for (k,), base, start in scaled_batch(problem._replace(sum_to=None)):
        # Sides of inequalities may be minus infinity.
        sides = np.append(np.maximum(d[k, :below], 0), d[k, below:])
        if np.isfinite(C[k]).all() and np.isfinite(sides).all():
            system = ConstrainedSystem.of(base, (C[k], d[k], rows.counts))
            yield k, system, np.where(np.isfinite(start), start, 0)


def nearest_point(
    system: ConstrainedSystem, least: LeastViolation
) -> tuple[Array, Array]:
    """The point of least violation in scaled variables, and the sides that it has."""
    d, general = system.d.copy(), system.is_general
    sides = least.sides[least.sides > -np.inf]
    d[general] = sides * system.row_scale[general] * system.base.b_scale
    return system.base.rescale(least.x), d


def result_of(found: Found, x: Array, tol: float) -> Solution:
    """The solution of a system; x has the given variables, rounded to their dtype."""
    (system, point, certificate, last), base = found, found.system.base
    r = certificate.r
    if x.dtype != np.float64:
        r = base.residual(base.rescale(x.astype(np.float64)))
        moved = ratio(base.length(r - certificate.r), system.magnitude)
        certificate = certificate._replace(by_x=float(certificate.by_x + moved))
    status = ITERATION_LIMIT if last.status == ITERATION_LIMIT else UNCERTIFIED
    if certificate.accepts(tol, x.dtype):
        status = CONVERGED
    ub, _, _, eq, _ = system.parts(point.y * system.row_scale / base.b_scale)
    return last._replace(
        x=x,
        rnorm=base.fit(r) / base.b_scale,
        dual=base.unscale_dual(certificate.w),
        kkt=np.asarray(certificate.kkt),
        status=np.asarray(status),
        dual_ub=ub,
        dual_eq=-eq,
    )


def multiplier_terms(found: Found, x: Array) -> MultiplierTerms:
    """The terms of the multipliers of general constraints at x.

    A point is feasible here only if no violation is large for the size of x itself: far
    from the minimum without constraints, b is much larger.
    """
    system, point, base = found.system, found.point, found.system.base
    x, general, by_b = base.rescale(x), system.is_general, base.b_scale
    y, rest = point.y * general, point.rest * general
    missing, C = system.missing(x, 0 * x), np.abs(system.C)
    least = system.magnitude - np.linalg.norm(base.b)
    of_x = base.size(point.x) + least
    share = C * general[:, None] / base.column_scale
    most = share.max(axis=-1, keepdims=True, initial=0)
    violation = system.largest_violation(point.x, of_x)
    return MultiplierTerms(
        slope=base.unscale_dual(-system.add_pull(0 * x, y, rest)),
        gap=-(y @ missing) / by_b**2,
        gap_terms=np.abs(y) @ (C @ np.abs(x) + np.abs(system.d)) / by_b**2,
        least_activity=least / by_b,
        share=(share / np.where(most > 0, most, 1)).max(axis=0, initial=0),
        is_feasible=violation <= MOST_VIOLATION / 2,
    )
