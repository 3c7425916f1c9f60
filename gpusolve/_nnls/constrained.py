"""Least squares with linear constraints: steps by the dual problem, and their results.

If the columns of A are almost dependent, the objective gets a small proximal term. The
step is then repeated from each solution: this ends after finitely many steps (R. T.
Rockafellar,
*Monotone operators and the proximal point algorithm*, SIAM Journal on Control and
Optimization 14, 1976).
"""

from __future__ import annotations

import math

import numpy as np

from .._device.arrays import Array, namespace
from .._device.interrupts import interruptible
from .._device.kernels import Device
from .._device.launch import pieces
from .._numerics.solution import (
    CONVERGED,
    INFEASIBLE,
    ITERATION_LIMIT,
    NOT_FINITE,
    UNCERTIFIED,
    ConstrainedSolution,
    Solution,
)
from .constrained_certificate import ConstrainedCertificate, certify, reach
from .constrained_corrections import correct_by_elimination, correct_by_factor
from .constrained_dual import Dual, Point
from .constrained_system import EPS, ConstrainedSystem, inverse_factor, size_of
from .constraint_rows import Rows
from .feasibility import LeastViolation, least_violation
from .inputs import Problem
from .part import gather
from .quadratic import ratio

CHUNK_NUMBERS = 2**22
"""Limit on the numbers of the systems that are solved at once."""

STEPS = 12
"""The most proximal steps. Few systems need more than two; where rounding errors alone
change the certificate, more steps do not help."""

SETTLED = 1e-11
"""No further step for a solution whose `kkt` is at most this number: a tenth of what a
certified solution may have."""

CORRECTIONS = correct_by_factor, correct_by_elimination
"""How solutions are corrected after a step, one after the other."""

CORRECTED = 1e-14
"""The same limit for corrections where quadratic objectives certify x, more strictly.
Corrections of all systems take longer than their dual problems."""


def solve(problem: Problem, target: Device | None, method: str) -> ConstrainedSolution:
    """Solve every system on the current device, or on the CPU if `target` is None."""
    rows, total = Rows.of(problem), math.prod(problem.batch)
    most = max(1, CHUNK_NUMBERS // numbers_per_system(problem, rows))
    found = [
        solve_chunk(problem, rows, chunk, target, method)
        for chunk in [*pieces(total, most)] or [slice(0, 0)]
    ]
    xp = namespace(problem.A)
    return ConstrainedSolution(
        *[
            xp.concatenate(parts).reshape((*problem.batch, *parts[0].shape[1:]))
            for parts in zip(*found, strict=True)
        ]
    )


def numbers_per_system(problem: Problem, rows: Rows) -> int:
    """An estimate of the numbers that a system needs."""
    (m, n), k = problem.shape, sum(rows.counts)
    own = 8 * (m + n + k) + 1
    shares = problem.shares_matrix and rows.C.ndim == 2
    return own if shares else own + 3 * (m + n + k) * n


@np.errstate(all="ignore")
def solve_chunk(
    problem: Problem, rows: Rows, chunk: slice, target: Device | None, method: str
) -> ConstrainedSolution:
    """Solve a chunk of the flattened batch."""
    system = ConstrainedSystem.of(problem, rows, chunk)
    search = Search(system, problem, target, method)
    search.run(starting_points(system, problem, chunk), rows, chunk)
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
        problem: Problem,
        target: Device | None,
        method: str,
    ) -> None:
        xp, systems = namespace(system.b), len(system.b)
        self.system, self.problem = system, problem
        self.target, self.method = target, method
        self.tol = problem.tol or 0.0
        self.dual = interruptible(system.work, dual_of, system)
        self.infeasible = xp.zeros(systems, bool)
        self.repaired = xp.zeros(systems, bool)

    def run(self, start: Array, rows: Rows, chunk: slice) -> None:
        """Improve all points until they are certified, or no step improves them."""
        xp, method = namespace(start), self.method
        every = xp.arange(len(start))
        first = "gram" if method == "auto" else method
        self.point, self.certificate, self.found = self.step(every, start, first)
        at = self.unsettled()
        if len(at):
            self.decide_feasibility(
                at, least_violation(self.problem, rows, chunk, at, self.target)
            )
            at = self.unsettled()
        for _ in range(STEPS):
            if not len(at):
                return
            before = self.certificate.badness[at]
            self.repaired[at] = True
            point, certificate, found = self.step(at, self.point.x[at], method)
            self.count(at, found)
            self.keep(at, point, certificate)
            if not bool((self.certificate.badness[at] < before).any()):
                return
            at = self.unsettled()

    def unsettled(self) -> Array:
        """Indices of the systems that another step may improve."""
        settled = self.certificate.kkt <= max(self.tol, SETTLED)
        left = ~(settled | self.infeasible) & self.system.finite
        return namespace(left).flatnonzero(left)

    def step(
        self, at: Array, x: Array, method: str
    ) -> tuple[Point, ConstrainedCertificate, Solution]:
        """A step from x, for some systems, and a correction where it is rough."""
        xp, maxiter = namespace(x), self.problem.maxiter
        some, dual = self.take(at)
        point, found = dual.step(some, x, self.target, method, maxiter)
        point = within(some, point)
        certificate = certify(some, *point)
        enough = CORRECTED if some.rounded_matrix else SETTLED
        for correct in CORRECTIONS:
            rough = xp.flatnonzero(~(certificate.badness <= enough) & some.finite)
            if not len(rough):
                break
            few, dual = self.take(at[rough])
            better = Point(*[values[rough] for values in point])
            better = interruptible(few.work, correct, few, dual, better)
            better = within(few, better)
            replace_worse(point, certificate, rough, better, certify(few, *better))
        return point, certificate, found

    def take(self, at: Array) -> tuple[ConstrainedSystem, Dual]:
        """Some systems, and their dual problems."""
        if len(at) == len(self.system.b):
            return self.system, self.dual
        of_each = [part if part.ndim == 2 else part[at] for part in self.dual]
        return self.system.take(at), Dual(*of_each)

    def keep(
        self, at: Array, point: Point, certificate: ConstrainedCertificate
    ) -> None:
        """Keep the points that are better than the best."""
        replace_worse(self.point, self.certificate, at, point, certificate)

    def count(self, at: Array, found: Solution) -> None:
        """Add the counts of another step, and keep the last outcome."""
        for name in ("nit", "n_updates", "n_downdates"):
            getattr(self.found, name)[at] += getattr(found, name)
        for name in ("status", "method"):
            getattr(self.found, name)[at] = getattr(found, name)

    def decide_feasibility(self, at: Array, found: LeastViolation) -> None:
        """Mark the systems without a solution.

        The sides of others are moved within their rounding, where no x satisfies all
        constraints exactly.
        """
        self.infeasible[at[found.is_infeasible]] = True
        kept = found.is_consistent
        at, sides, x = at[kept], found.sides[kept], found.x[kept]
        self.system = self.system.with_sides(at, sides)
        some = self.system.take(at)
        old = Point(*[values[at] for values in self.point])
        for values, of_old in zip(self.certificate, certify(some, *old), strict=True):
            values[at] = of_old
        x = some.within_bounds(x * some.b_scale[:, None] / some.scale)
        none = 0 * old.multipliers
        nearest = Point(x, none, none, 0 * x)
        self.keep(at, nearest, certify(some, *nearest))

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

    def solution(self) -> ConstrainedSolution:
        """The solutions in the given variables."""
        self.drop_multipliers()
        xp, s, dtype = namespace(self.infeasible), self.system, self.problem.dtype
        certificate, by_b = self.certificate, s.b_scale[:, None]
        x, r = (self.point.x * s.scale / by_b).astype(dtype), certificate.r
        if dtype != np.float64:
            r = s.residual(x.astype(np.float64) * by_b / s.scale)
            moved = ratio(size_of(r - certificate.r), size_of(s.b) + reach(s))
            certificate = certificate._replace(by_x=certificate.by_x + moved)
        limited = self.found.status == ITERATION_LIMIT
        status = xp.where(limited, ITERATION_LIMIT, UNCERTIFIED)
        status = xp.where(certificate.accepts(self.tol, dtype), CONVERGED, status)
        status = xp.where(self.infeasible, INFEASIBLE, status)
        status = xp.where(s.finite, status, NOT_FINITE)
        multipliers = self.point.multipliers
        ub, _, _, eq, _ = s.parts(multipliers * s.row_scale / by_b)
        solved = s.finite & ~self.infeasible
        return ConstrainedSolution(
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
    pairs = zip((*point, *certificate), (*new, *found), strict=True)
    for old, values in pairs:
        old[at[better]] = values[better]


def masked(values: Array, systems: Array) -> Array:
    """The values of some systems, and NaN for the others."""
    mask = systems if values.ndim == 1 else systems[:, None]
    return namespace(values).where(mask, values, values.dtype.type(math.nan))


def within(system: ConstrainedSystem, point: Point) -> Point:
    """The point with variables at the bounds that have a multiplier."""
    xp, x = namespace(point.x), point.x
    _, at_lower, at_upper, _, _ = system.parts(point.multipliers)
    if at_lower.shape[-1]:
        x = xp.where(at_lower > 0, system.lower, x)
    if at_upper.shape[-1]:
        x = xp.where(at_upper > 0, system.upper, x)
    x = system.within_bounds(x)
    return point._replace(x=x, x_rest=xp.where(x == point.x, point.x_rest, 0))
