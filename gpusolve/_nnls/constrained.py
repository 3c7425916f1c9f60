"""Least squares with linear constraints, by the dual problem.

With ``H = A^T A + diag(l2) = (Z Z^T)^-1`` and constraints ``C x >= d``, the multipliers
y of the constraints minimise ``|Z^T (p + C^T y)|^2 / 2 - (d - C x) y``, where p is the
negative gradient at any point x. That is a least-squares problem within
bounds, of the matrix ``Z^T C^T``: all systems share it if they share A and C. The
solution is ``x + Z Z^T (p + C^T y)``.

If the columns of A are almost dependent, H has a small proximal term. The step is then
repeated from each solution: this ends after finitely many steps (R. T. Rockafellar,
*Monotone operators and the proximal point algorithm*, SIAM Journal on Control and
Optimization 14, 1976).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._device.arrays import Array, namespace
from .._device.kernels import Device
from .._device.launch import pieces
from .._device.products import product
from .._numerics.solution import (
    CONVERGED,
    INFEASIBLE,
    ITERATION_LIMIT,
    NOT_FINITE,
    UNCERTIFIED,
    ConstrainedSolution,
    Solution,
)
from . import cpu, device
from .accurate_products import transposed_product
from .constrained_certificate import (
    ConstrainedCertificate,
    certify,
    finite,
    ratio,
    reach,
)
from .constrained_system import ConstrainedSystem, inverse_factor, size_of
from .constraint_rows import Rows
from .feasibility import farkas_vectors
from .inputs import Option, Problem
from .part import gather

CHUNK_NUMBERS = 2**22
"""Limit on the numbers of the systems that are solved at once."""

STEPS = 12
"""The most proximal steps."""

POLISHED = 1e-13
"""Solutions with a larger `kkt` are corrected on their active constraints."""

SETTLED = 1e-11
"""No further step for a solution whose `kkt` is at most this number."""

IMPROVED = 0.5
"""The steps end unless the `kkt` of a system falls by this factor."""

EPS = float(np.finfo(np.float64).eps)


class Point(NamedTuple):
    """Points of some systems, in scaled variables, and their multipliers.

    Attributes
    ----------
    x : (systems, n) array
    multipliers : (systems, rows) array
    """

    x: Array
    multipliers: Array


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
    search.run(starting_points(system, problem, chunk))
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
        self.Z = inverse_factor(system)
        self.infeasible = xp.zeros(systems, bool)
        self.repaired = xp.zeros(systems, bool)

    def run(self, start: Array) -> None:
        """Improve all points until they are certified, or no step improves them."""
        xp, method = namespace(start), self.method
        every = xp.arange(len(start))
        first = "gram" if method == "auto" else method
        self.point, self.certificate, self.found = self.step(every, start, first)
        at = self.unsettled()
        if len(at):
            self.prove_infeasible(at)
            at = self.unsettled()
        for _ in range(STEPS):
            if not len(at):
                return
            before = self.certificate.kkt[at]
            self.repaired[at] = True
            point, certificate, found = self.step(at, self.point.x[at], method)
            self.count(at, found)
            self.keep(at, point, certificate)
            if not bool((self.certificate.kkt[at] < IMPROVED * before).any()):
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
        xp, some = namespace(x), self.system
        Z = self.Z
        if len(at) < len(some.b):
            some, Z = some.take(at), Z if Z.ndim == 2 else Z[at]
        point, found = dual_step(some, Z, x, self.problem, self.target, method)
        point = within(some, point)
        certificate = certify(some, *point)
        rough = xp.flatnonzero(~(certificate.kkt <= POLISHED) & some.finite)
        if len(rough):
            few, Z = some.take(rough), Z if Z.ndim == 2 else Z[rough]
            better = Point(*[values[rough] for values in point])
            better = within(few, polished(few, Z, better))
            replace_worse(point, certificate, rough, better, certify(few, *better))
        return point, certificate, found

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

    def prove_infeasible(self, at: Array) -> None:
        """Find the systems without a solution."""
        vectors, proven = farkas_vectors(self.system.take(at), self.target)
        self.point.multipliers[at[proven]] = vectors[proven]
        self.infeasible[at[proven]] = True

    def solution(self) -> ConstrainedSolution:
        """The solutions in the given variables."""
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
        w = certificate.w
        if bool(self.infeasible.any()):
            of_bounds = transposed_product(s.C, multipliers * s.general)
            w = xp.where(self.infeasible[:, None], of_bounds, w)
        ub, _, _, eq, _ = s.parts(multipliers * s.row_scale / by_b)
        solved = s.finite & ~self.infeasible
        return ConstrainedSolution(
            x=masked(x, solved),
            rnorm=masked((size_of(r) / s.b_scale).astype(dtype), solved),
            dual=masked((w / s.scale / by_b).astype(dtype), s.finite),
            kkt=masked(certificate.kkt.astype(dtype), solved),
            nit=self.found.nit,
            status=status.astype(np.int32),
            n_updates=self.found.n_updates,
            n_downdates=self.found.n_downdates,
            repaired=self.repaired,
            method=self.found.method,
            dual_ub=masked(ub.astype(dtype), s.finite),
            dual_eq=masked(-eq.astype(dtype), s.finite),
        )


def replace_worse(
    point: Point,
    certificate: ConstrainedCertificate,
    at: Array,
    new: Point,
    found: ConstrainedCertificate,
) -> None:
    """Write new points of the systems `at` where they are better than the old."""
    better = found.kkt < certificate.kkt[at]
    pairs = zip((*point, *certificate), (*new, *found), strict=True)
    for old, values in pairs:
        old[at[better]] = values[better]


def masked(values: Array, systems: Array) -> Array:
    """The values of some systems, and NaN for the others."""
    mask = systems if values.ndim == 1 else systems[:, None]
    return namespace(values).where(mask, values, values.dtype.type(math.nan))


def dual_step(
    system: ConstrainedSystem,
    Z: Array,
    x: Array,
    problem: Problem,
    target: Device | None,
    method: str,
) -> tuple[Point, Solution]:
    """Minimise the objective plus the proximal term around x, by the dual problem."""
    xp, (systems, _) = namespace(x), x.shape
    p = transposed_product(Z, system.slope(x, system.residual(x)))
    B = xp.swapaxes(xp.matmul(system.C, Z), -1, -2)
    lack = system.lack(x)
    given = Problem(
        A=B,
        b=-p,
        batch=(systems,),
        bounds=multiplier_bounds(system),
        l1=-finite(lack) if bool(lack.any()) else 0.0,
        maxiter=problem.maxiter,
    )
    if target is None:
        found = cpu.nnls(given, method)
    else:
        found = device.nnls(given, target, method)
    step = product(Z, product(B, found.x) + p)
    return Point(x + step, found.x), found


def multiplier_bounds(system: ConstrainedSystem) -> tuple[Option, Option]:
    """The bounds of the multipliers; 0 for rows that hold for every x."""
    xp, d = namespace(system.d), system.d
    absent = xp.isneginf(d)
    if not system.equalities and not bool(absent.any()):
        return 0.0, math.inf
    rows = d.shape[-1]
    equal = xp.arange(rows) >= rows - system.equalities
    return xp.where(equal, -math.inf, 0.0), xp.where(absent, 0.0, math.inf)


def polished(system: ConstrainedSystem, Z: Array, point: Point) -> Point:
    """Correct points by a step of Newton's method on their active constraints."""
    xp, (x, multipliers) = namespace(point.x), point
    active = multipliers != 0
    CZ = xp.matmul(system.C, Z)
    e = system.slope(x, system.residual(x)) + transposed_product(system.C, multipliers)
    along = transposed_product(Z, e)
    lack = xp.where(active, system.lack(x) - product(CZ, along), 0)
    rows = xp.where(active[..., None], CZ, 0)
    M = xp.matmul(rows, xp.swapaxes(rows, -1, -2))
    size = xp.diagonal(M, axis1=-2, axis2=-1)
    shift = xp.where(active & (size > 0), size * M.shape[-1] * EPS, 1)
    M = M + shift[..., None] * xp.eye(M.shape[-1])
    change = xp.linalg.solve(M, lack[..., None])[..., 0]
    step = product(Z, along + transposed_product(rows, change))
    first = change.shape[-1] - system.equalities
    after = multipliers + change
    equal = xp.arange(after.shape[-1]) >= first
    return Point(x + step, xp.where(equal, after, xp.maximum(after, 0)))


def within(system: ConstrainedSystem, point: Point) -> Point:
    """The point with variables at the bounds that have a multiplier."""
    xp, x = namespace(point.x), point.x
    _, at_lower, at_upper, _, _ = system.parts(point.multipliers)
    if at_lower.shape[-1]:
        x = xp.where(at_lower > 0, system.lower, x)
    if at_upper.shape[-1]:
        x = xp.where(at_upper > 0, system.upper, x)
    return point._replace(x=system.within_bounds(x))
