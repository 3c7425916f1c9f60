"""Least squares with linear constraints: by the compiled solver, then what it leaves.

A block of a device, or the compiled object on a CPU, solves all systems that its
certificate accepts. The specification solves the other systems, one after the other on
the host, or proves that they have no solution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, namespace, on_host
from .._device.interrupts import interruptible
from .._device.kernels import Device
from .._device.objects import load
from .._numerics.arithmetic import weighted
from .._numerics.certificate import (
    CONVERGED,
    INFEASIBLE,
    ITERATION_LIMIT,
    NOT_FINITE,
    UNCERTIFIED,
    Solution,
    ratio,
)
from .._numerics.system import scale
from ..reference._nnls_constrained import (
    MOST_VIOLATION,
    ConstrainedSystem,
    Found,
    minimise,
)
from .constraint_rows import Rows
from .dense import CompiledCall, solve_on_cpu
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

    @classmethod
    def blank(cls, systems: int, n: int) -> MultiplierTerms:
        """Terms of no multipliers, for systems that are not feasible."""
        (slope, share), numbers = np.zeros((2, systems, n)), np.zeros((3, systems))
        gap, terms, least = numbers
        return cls(slope, gap, terms, least, share, np.zeros(systems, bool))

    def put(self, k: int, terms: MultiplierTerms) -> None:
        """Write the terms of system k."""
        for field, value in zip(self, terms, strict=True):
            field[k] = value


@np.errstate(all="ignore")
def solve_by_specification(
    problem: Problem,
) -> tuple[Solution, MultiplierTerms | None]:
    """Solve every system on the host, one after the other.

    The terms of the multipliers follow if the matrix has rounding errors: then another
    objective certifies x.
    """
    total, n = math.prod(problem.batch), problem.shape[1]
    flat = problem.take(np.arange(total), to_host=True)
    rows, every = Rows.of(flat), np.arange(total)
    solution = blank_solution(problem, (total,))
    terms = MultiplierTerms.blank(total, n)
    (m, _), work = problem.shape, float(n * n)
    work *= m + n + sum(rows.counts)
    given = flat, rows, slice(0, total), every, None
    least = interruptible(total * work, least_violation, *given)

    def solve_dual(B: Array, b: Array, l1: Array, by: str) -> Solution:
        gain = l1 if l1.any() else 0.0
        return solve_on_cpu(Problem(B, b, (), l1=gain, maxiter=problem.maxiter), by)

    tol = problem.tol or 0.0
    for k in range(total):
        one = LeastViolation(*[part[k] for part in least])
        system = system_of(flat, rows, k)
        if system is None or one.is_infeasible:
            solution.status[k] = NOT_FINITE if system is None else INFEASIBLE
            continue
        start = starting_point(flat, system, k)
        nearest = nearest_point(system, one) if one.is_consistent else None
        asked = system, start, nearest, solve_dual, tol
        found = interruptible(work, minimise, *asked)
        x = system.base.unscale(found.point.x).astype(problem.dtype)
        solution.put(k, result_of(found, x, tol))
        if problem.rounded_matrix:
            terms.put(k, multiplier_terms(found, x))
    fields: list[Any] = [
        None if field is None else field.reshape((*problem.batch, *field.shape[1:]))
        for field in (*solution, *terms)
    ]
    split = len(solution)
    found_terms = MultiplierTerms(*fields[split:]) if problem.rounded_matrix else None
    return Solution(*fields[:split]), found_terms


def system_of(problem: Problem, rows: Rows, k: int) -> ConstrainedSystem | None:
    """System k of a batch with one axis; None if its arguments are not finite."""

    def part(value: Any, core: int) -> Array:
        array = np.asarray(value, np.float64)
        return array[k % len(array)] if array.ndim > core else array

    A, b, n = part(problem.A, 2), part(problem.b, 1), problem.shape[1]
    if problem.weights is not None:
        A, b = weighted(A, b, part(problem.weights, 1))
    C, d, below = part(rows.C, 2), part(rows.d, 1), rows.counts[0]
    variables = problem.l1, problem.l2, problem.lower, problem.upper
    l1, l2, lower, upper = (part(v, 1) + np.zeros(n) for v in variables)
    finite = all(np.isfinite(part).all() for part in (A, b, l1, l2, C, d[below:]))
    if not (finite and (d < np.inf).all()) or np.isnan([lower, upper]).any():
        return None
    base = scale(A, b, l1, l2, problem.dtype, bounds=(lower, upper))
    base = base._replace(rounded_matrix=problem.rounded_matrix)
    return ConstrainedSystem.of(base, (C, d, rows.counts))


def starting_point(problem: Problem, system: ConstrainedSystem, k: int) -> Array:
    """The warm start of system k in scaled variables, or zeros."""
    start = problem.start
    if start is None:
        return np.zeros(problem.shape[1])
    x = system.base.rescale(start[k % len(start)] if start.ndim > 1 else start)
    return np.where(np.isfinite(x), x, 0)


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
    x, general, by_b = (
        base.rescale(x.astype(np.float64)),
        system.is_general,
        base.b_scale,
    )
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
        is_feasible=np.asarray(violation <= MOST_VIOLATION / 2),
    )
