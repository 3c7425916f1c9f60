"""Least squares with linear constraints: steps by the dual problem, and their results.

If the columns of A are almost dependent, the objective gets a small proximal term. The
step is then repeated from each solution: this ends after finitely many steps (R. T.
Rockafellar,
*Monotone operators and the proximal point algorithm*, SIAM Journal on Control and
Optimization 14, 1976).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._device.arrays import Array, largest, namespace, on_host
from .._device.interrupts import interruptible
from .._device.kernels import Device
from .._device.launch import pieces
from .._device.objects import load
from .._numerics.certificate import ROUNDED, ratio
from .._numerics.solution import (
    CONVERGED,
    INFEASIBLE,
    ITERATION_LIMIT,
    NOT_FINITE,
    UNCERTIFIED,
    Solution,
)
from . import constrained_object
from .constrained_corrections import correct_by_elimination, correct_by_factor
from .constrained_dual import Dual, Point
from .constrained_system import (
    EPS,
    ConstrainedCertificate,
    ConstrainedSystem,
    certify,
    inverse_factor,
    least_activity,
    multiplier_terms,
    size_of,
)
from .constraint_rows import Rows
from .feasibility import LeastViolation, least_violation
from .nnls_constrained_kernel import is_too_large, nnls_constrained, row_counts
from .problem import AXES, Problem, gather
from .quadratic import MultiplierTerms

CHUNK_NUMBERS = 2**22
"""Limit on the numbers of the systems that are solved at once."""

UNSETTLED = -1
"""``is_unsettled`` of ``constrained_solver.cuh``."""

STEPS = 12
"""The most proximal steps. Few systems need more than two; where rounding errors alone
change the certificate, more steps do not help."""

STOP_KKT = 1e-11
"""No further step for a solution whose `kkt` is at most this number: a tenth of what a
certified solution may have."""

AT_BOUND = 1024.0
"""The distance from a bound up to which a point at the bound is tried, in eps of the
size of x and b. The certificate decides whether rounding explains the distance."""

CORRECTIONS = correct_by_factor, correct_by_elimination
"""How solutions are corrected after a step, one after the other."""

CORRECTED = 1e-14
"""The same limit for corrections where quadratic objectives certify x, more strictly.
Corrections of all systems take longer than their dual problems."""


def solve(problem: Problem, target: Device | None, method: str) -> Solution:
    """Solve every system on the current device, or on the CPU if `target` is None."""
    found = solve_by_teams(problem, target, method)
    return solve_rest(
        problem, found, lambda some: solve_by_steps(some, None, method)[0]
    )


def solve_by_teams(
    problem: Problem, target: Device | None, method: str, eps: float = 0.0
) -> Solution:
    """The solutions that the certificate of the compiled solver accepts.

    The other systems have the status `UNSETTLED`. `eps` is as for `constraint_rows`.
    """
    if not is_too_large(problem, target):
        if target is not None:
            return nnls_constrained(problem, target, method, eps)
        if (library := load()) is not None:
            return constrained_object.solve(library, problem, method, eps)
    xp, counts = namespace(problem.A), row_counts(problem)
    blank = Solution.blank(problem.batch, problem.shape[1], problem.dtype, *counts)
    blank.status[...] = UNSETTLED
    return Solution(*map(xp.asarray, blank))


def solve_rest(
    problem: Problem, found: Solution, solver: Callable[[Problem], Solution]
) -> Solution:
    """The solutions, also of the unsettled systems, by `solver` on the host."""
    unsettled = found.status == UNSETTLED
    if not bool(unsettled.any()):
        return found
    xp = namespace(unsettled)
    at = xp.flatnonzero(unsettled)
    where = xp.unravel_index(at, problem.batch) if problem.batch else ()
    rest = solver(take(problem, at))
    for name, values in rest.arrays().items():
        values = xp.asarray(values if problem.batch else values[0])
        getattr(found, name)[where] = values
    return found


def take(problem: Problem, at: Array) -> Problem:
    """Copy systems to the host; `at` has their indices in the flattened batch.

    What all systems share stays shared.
    """

    def part(value: Any, core: int) -> Any:
        if value is None or isinstance(value, float):
            return value
        shape = value.shape[value.ndim - core :]
        if math.prod(value.shape[: value.ndim - core]) == 1:
            return on_host(value.reshape(shape))
        xp, batch = namespace(value), problem.batch
        whole = xp.broadcast_to(value, (*batch, *shape))
        return on_host(whole[xp.unravel_index(at, batch)])

    fields = {
        name: part(value, len(AXES[name]))
        for name, value in problem._asdict().items()
        if name in AXES
    }
    return problem._replace(
        batch=(len(at),),
        bounds=(part(problem.lower, 1), part(problem.upper, 1)),
        start=part(problem.start, 1),
        **fields,
    )


def solve_by_steps(
    problem: Problem, target: Device | None, method: str
) -> tuple[Solution, MultiplierTerms | None]:
    """Solve every system by steps of the dual problem."""
    rows, total = Rows.of(problem), math.prod(problem.batch)
    most = max(1, CHUNK_NUMBERS // numbers_per_system(problem, rows))
    found = [
        solve_chunk(problem, rows, chunk, target, method)
        for chunk in [*pieces(total, most)] or [slice(0, 0)]
    ]
    xp = namespace(problem.A)
    fields = [
        xp.concatenate(parts).reshape((*problem.batch, *parts[0].shape[1:]))
        for parts in zip(*found, strict=True)
    ]
    first = len(Solution._fields)
    pull = MultiplierTerms(*fields[first:]) if problem.rounded_matrix else None
    return Solution(*fields[:first]), pull


def numbers_per_system(problem: Problem, rows: Rows) -> int:
    """An estimate of the numbers that a system needs."""
    (m, n), k = problem.shape, sum(rows.counts)
    own = 8 * (m + n + k) + 1
    shares = problem.shares_matrix and rows.C.ndim == 2
    return own if shares else own + 3 * (m + n + k) * n


@np.errstate(all="ignore")
def solve_chunk(
    problem: Problem, rows: Rows, chunk: slice, target: Device | None, method: str
) -> tuple[Array, ...]:
    """The solutions of a chunk of the flattened batch, and their pull."""
    system = ConstrainedSystem.of(problem, rows, chunk)
    dual = interruptible(system.work, dual_of, system)
    search = Search(system, dual, problem, target, method)
    search.run(
        starting_points(system, problem, chunk),
        lambda at: least_violation(problem, rows, chunk, at, target),
    )
    return search.solution()


def starting_points(system: ConstrainedSystem, problem: Problem, chunk: slice) -> Array:
    """The warm start in scaled variables, or zeros."""
    xp, shape = namespace(system.b), (len(system.b), system.A.shape[-1])
    if problem.start is None:
        return xp.zeros(shape)
    x = gather(problem.start, 1, problem.batch, chunk)
    x = x * system.b_scale[:, None] / system.scale
    return xp.where(xp.isfinite(x), x, 0)


class Search:
    """The best points of all systems of a chunk, and the steps that improve them.

    Attributes
    ----------
    point : Point
        The best points.
    certificate : ConstrainedCertificate
        Of the best points.
    infeasible : (systems,) array
        Mask of the systems whose multipliers prove that they have no solution.
    found : Solution
        Of the dual problem of each system, with the counts of all steps.
    repaired : (systems,) array
        Mask of the systems that needed several steps.
    """

    def __init__(
        self,
        system: ConstrainedSystem,
        dual: Dual,
        problem: Problem,
        target: Device | None,
        method: str,
    ) -> None:
        xp, systems = namespace(system.b), len(system.b)
        self.system, self.dual, self.problem = system, dual, problem
        self.target, self.method = target, method
        self.tol = problem.tol or 0.0
        self.enough = max(self.tol, STOP_KKT)
        self.infeasible = xp.zeros(systems, bool)
        self.repaired = xp.zeros(systems, bool)

    def run(
        self, start: Array, violation: Callable[[Array], LeastViolation] | None
    ) -> None:
        """Improve each point until it is settled, or no step improves it.

        By ``"auto"``, steps of QR alone from the same start follow then: the first
        steps may lead to a point from which no step finds the active constraints.

        Parameters
        ----------
        start : (systems, n) array
        violation : callable, optional
            The least violations of some systems. None if all are known to be feasible.
        """
        xp, auto = namespace(start), self.method == "auto"
        every = xp.arange(len(start))
        first = "gram" if auto else self.method
        self.point, self.certificate, self.found = self.step(every, start, first)
        at = xp.flatnonzero(~(self.certificate.kkt <= self.enough) & self.system.finite)
        if violation is not None and len(at):
            at, nearest = self.decide_feasibility(at, violation(at))
            self.improve()
            found = certify(self.system.take(at), *nearest)
            replace_worse(self.point, self.certificate, at, nearest, found)
        self.improve()
        at = xp.flatnonzero(self.unsettled())
        if auto and len(at):
            other = Search(*self.take(at), self.problem, self.target, "qr")
            other.run(start[at], None)
            self.keep(at, other.point, other.certificate, other.found)

    def improve(self) -> None:
        """Make steps from each point until it is settled, or no step improves it."""
        at = namespace(self.infeasible).flatnonzero(self.unsettled())
        for _ in range(STEPS):
            if not len(at):
                break
            before = self.certificate.badness[at]
            self.repaired[at] = True
            point, certificate, found = self.step(at, self.point.x[at], self.method)
            self.keep(at, point, certificate, found)
            better = self.certificate.badness[at] < before
            at = at[better & self.unsettled()[at]]

    def unsettled(self) -> Array:
        """Mask of the systems that another step may improve."""
        settled = is_settled(self.certificate, self.enough)
        return ~(settled | self.infeasible) & self.system.finite

    def step(
        self, at: Array, x: Array, method: str
    ) -> tuple[Point, ConstrainedCertificate, Solution]:
        """A step from x, for some systems, and a correction where it is rough."""
        xp, maxiter = namespace(x), self.problem.maxiter
        some, dual = self.take(at)
        point, found = dual.step(some, x, self.target, method, maxiter)
        point = clip_to_bounds(some, point)
        certificate = certify(some, *point)
        enough = CORRECTED if some.rounded_matrix else STOP_KKT
        for correct in CORRECTIONS:
            rough = xp.flatnonzero(~is_settled(certificate, enough) & some.finite)
            if not len(rough):
                break
            few, dual = self.take(at[rough])
            better = Point(*[values[rough] for values in point])
            better = interruptible(few.work, correct, few, dual, better)
            better = clip_to_bounds(few, better)
            replace_worse(point, certificate, rough, better, certify(few, *better))
        return point, certificate, found

    def take(self, at: Array) -> tuple[ConstrainedSystem, Dual]:
        """Some systems, and their dual problems."""
        if len(at) == len(self.system.b):
            return self.system, self.dual
        of_each = [part if part.ndim == 2 else part[at] for part in self.dual]
        return self.system.take(at), Dual(*of_each)

    def keep(
        self,
        at: Array,
        point: Point,
        certificate: ConstrainedCertificate,
        found: Solution,
    ) -> None:
        """Keep better points, the sums of the counts, and the last outcome."""
        replace_worse(self.point, self.certificate, at, point, certificate)
        for name in ("nit", "n_updates", "n_downdates"):
            getattr(self.found, name)[at] += getattr(found, name)
        for name in ("status", "method"):
            getattr(self.found, name)[at] = getattr(found, name)

    def decide_feasibility(
        self, at: Array, least: LeastViolation
    ) -> tuple[Array, Point]:
        """Mark the systems without a solution.

        The sides of others are moved within their rounding, where no x satisfies all
        constraints exactly. Returns these systems, and points that satisfy all.
        """
        self.infeasible[at[least.is_infeasible]] = True
        kept = least.is_consistent
        at, sides, x = at[kept], least.sides[kept], least.x[kept]
        self.system = self.system.with_sides(at, sides)
        some = self.system.take(at)
        old = Point(*[values[at] for values in self.point])
        for values, of_old in zip(self.certificate, certify(some, *old), strict=True):
            values[at] = of_old
        x = some.within_bounds(x * some.b_scale[:, None] / some.scale)
        none = 0 * old.multipliers
        return at, Point(x, none, none, 0 * x)

    def rest_at_bounds(self) -> None:
        """Move variables to bounds that they reach up to rounding errors.

        Where constraints and bounds meet, a variable may be at its bound without a
        multiplier.
        """
        s, x, xp = self.system, self.point.x, namespace(self.infeasible)
        size = (
            largest(xp.abs(x), keepdims=True)
            + (size_of(s.b) + least_activity(s))[:, None]
        )
        moved = x
        for bound in s.lower, s.upper:
            moved = xp.where(xp.abs(x - bound) <= AT_BOUND * EPS * size, bound, moved)
        at = xp.flatnonzero((moved != x).any(axis=-1) & ~self.unsettled())
        if len(at):
            some, point = self.take(at)[0], Point(*[part[at] for part in self.point])
            point.x_rest[...] += (x - moved)[at]
            point = point._replace(x=moved[at])
            found = certify(some, *point)
            good = is_settled(found, self.enough)
            replace(self.point, self.certificate, at, good, point, found)

    def drop_multipliers(self) -> None:
        """Set multipliers to 0 where a point is almost as good without them.

        They may be rounding errors, or prove no more than a small residual does.
        """
        (x, multipliers, rest, x_rest), old = self.point, self.certificate
        xp = namespace(x)
        small = (multipliers * multipliers).sum(axis=-1) < EPS**2
        idle = (small | (old.kkt >= old.trivial)) & ~self.infeasible
        at = xp.flatnonzero(idle)
        none = 0 * multipliers[at]
        found = certify(self.system.take(at), x[at], none, none, x_rest[at])
        enough = found.kkt <= 2 * old.kkt[at]
        multipliers[at[enough]], rest[at[enough]] = 0, 0
        old.w[at[enough]] = found.w[enough]

    def solution(self) -> tuple[Array, ...]:
        """The solutions in the given variables, and the pull of their multipliers."""
        self.rest_at_bounds()
        self.drop_multipliers()
        xp, s, dtype = namespace(self.infeasible), self.system, self.problem.dtype
        certificate, by_b = self.certificate, s.b_scale[:, None]
        x, r = (self.point.x * s.scale / by_b).astype(dtype), certificate.r
        rounded = x.astype(np.float64) * by_b / s.scale
        if dtype != np.float64:
            r = s.residual(rounded)
            moved = ratio(size_of(r - certificate.r), size_of(s.b) + least_activity(s))
            certificate = certificate._replace(by_x=certificate.by_x + moved)
        limited = self.found.status == ITERATION_LIMIT
        status = xp.where(limited, ITERATION_LIMIT, UNCERTIFIED)
        status = xp.where(certificate.accepts(self.tol, dtype), CONVERGED, status)
        status = xp.where(self.infeasible, INFEASIBLE, status)
        status = xp.where(s.finite, status, NOT_FINITE)
        multipliers = self.point.multipliers
        ub, _, _, eq, _ = s.parts(multipliers * s.row_scale / by_b)
        solved = s.finite & ~self.infeasible
        found = Solution(
            x=masked(x, solved),
            rnorm=masked((size_of(r) / s.b_scale).astype(dtype), solved),
            dual=masked((certificate.w / s.scale / by_b).astype(dtype), solved),
            kkt=masked(certificate.kkt.astype(dtype), solved),
            nit=self.found.nit,
            status=status.astype(np.int32),
            n_updates=self.found.n_updates,
            n_downdates=self.found.n_downdates,
            repaired=self.repaired,
            method=self.found.method,
            dual_ub=masked(ub.astype(dtype), solved),
            dual_eq=masked(-eq.astype(dtype), solved),
        )
        if not s.rounded_matrix:
            return found
        feasible = certificate.is_feasible
        return *found, *multiplier_terms(
            s, rounded, multipliers, self.point.rest, feasible
        )


def is_settled(certificate: ConstrainedCertificate, kkt: float) -> Array:
    """Mask of the points with a certificate of at most `kkt`.

    They violate no constraint by more than rounding errors: where constraints are
    almost parallel, the optimum of a point that does may be far away.
    """
    rounding = (ROUNDED + certificate.w.shape[-1]) * EPS
    return (certificate.kkt <= kkt) & (certificate.lack <= rounding)


def dual_of(system: ConstrainedSystem) -> Dual:
    """The dual problems of all systems."""
    return Dual.of(system, inverse_factor(system))


def replace_worse(
    point: Point,
    certificate: ConstrainedCertificate,
    at: Array,
    new: Point,
    found: ConstrainedCertificate,
) -> None:
    """Write new points of the systems `at` where they are better than the old."""
    better = found.badness < certificate.badness[at]
    replace(point, certificate, at, better, new, found)


def replace(
    point: Point,
    certificate: ConstrainedCertificate,
    at: Array,
    better: Array,
    new: Point,
    found: ConstrainedCertificate,
) -> None:
    """Write new points of some of the systems `at`, those of a mask."""
    pairs = zip((*point, *certificate), (*new, *found), strict=True)
    for old, values in pairs:
        old[at[better]] = values[better]


def masked(values: Array, systems: Array) -> Array:
    """The values of some systems, and NaN for the others."""
    mask = systems if values.ndim == 1 else systems[:, None]
    return namespace(values).where(mask, values, values.dtype.type(math.nan))


def clip_to_bounds(system: ConstrainedSystem, point: Point) -> Point:
    """The point with variables at the bounds that have a multiplier."""
    xp, x = namespace(point.x), point.x
    _, at_lower, at_upper, _, _ = system.parts(point.multipliers)
    if at_lower.shape[-1]:
        x = xp.where(at_lower > 0, system.lower, x)
    if at_upper.shape[-1]:
        x = xp.where(at_upper > 0, system.upper, x)
    x = system.within_bounds(x)
    return point._replace(x=x, x_rest=xp.where(x == point.x, point.x_rest, 0))
