r"""Least squares with linear constraints: by the dual problem, and corrections.

The certificate. With the residual ``r = b - A z`` of a point z next to x, multipliers y
of the constraints ``C x >= d``, which are not negative for inequalities, and the
negative gradient ``w = A^T r - l1 - l2 z + C^T y``, every feasible x' without penalties
has

    ``|r| |b - A x'| >= |r|^2 - y (C z - d) - w (x' - z)``.

For each variable, p_k is the bound that w points to, or 0 if that is nearer to x_k. So
``w_k (x'_k - p_k)`` is not positive at a bound, and at most ``|w_k x'_k|`` else. `kkt`
is the sum of the *gap* ``|y (C z - d) + w (p - z)| / |r|``, of ``|A (x - z)|``, both
relative to ``|b| + h``, and of the largest ``|w_k| / |a_k| |r|`` of the variables
whose p_k is not a bound. Every feasible x' has a variable with ``|a_k x'_k|`` of at
least h.

The dual problem. With ``H = A^T A = (Z Z^T)^-1``, multipliers y minimise
``|B y + p|^2 / 2 - (d - C x) y``. Here B is ``Z^T C^T``, x is any point, and p is its
negative gradient times ``Z^T``. The solution is ``x + Z (B y + p)``. Variables that
equalities determine are eliminated first. The multipliers of inequalities are not
negative, so that what remains is non-negative least squares.

If columns of A are almost dependent, H has a small proximal term. The step is then
repeated from each solution: this ends after finitely many steps (R. T. Rockafellar,
*Monotone operators and the proximal point algorithm*, SIAM Journal on Control and
Optimization 14, 1976).

``cuda_src/constrained_solver.cuh`` finds the active constraints one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._numerics.arithmetic import (
    DEPENDENT,
    EPS,
    inverse_power_of_two,
    remainder,
    two_sum,
)
from .._numerics.certificate import (
    CERTIFIED,
    ROUNDED,
    SHARE,
    Solution,
    Terms,
    accepts,
    distance_to_optimum,
    penalty_slack,
    ratio,
)
from .._numerics.system import System

Array = Any
"""An array of NumPy. Types of its elements would only be repeated."""

LEAST = 2.0**-26
"""The root of the weight of the proximal term along singular vectors of a smaller
singular value; the terms of each column have unit norm."""

STEPS = 12
"""The most proximal steps. Few systems need more than two; where rounding errors alone
change the certificate, more steps do not help."""

STOP_KKT = 1e-11
"""No further step for a solution whose `kkt` is at most this number: a tenth of what a
certified solution may have."""

CORRECTED = 1e-14
"""The same limit for corrections where quadratic objectives certify x, more strictly.
"""

AT_BOUND = 1024.0
"""The distance from a bound up to which a point at the bound is tried, in eps of the
size of x and b. The certificate decides whether rounding explains the distance."""

REFINEMENTS = 8
"""How often points and multipliers are refined. Where rows are parallel up to 1e-13, a
time leaves about 1e-3 of the errors. The last changes are the rests."""

ILL_CONDITIONED = 2.0**13
"""A null space is refined where rounding errors may be larger by this factor."""

MOST_VIOLATION = CERTIFIED[np.dtype(np.float64)]
"""The largest violation of a constraint, relative to the size of its terms."""

KINDS = (False, False, False, True, True), (True, False, False, True, True)
"""Which kinds of rows are equalities, and which are not bounds."""

SolveDual = Callable[[Array, Array, Array, str], Solution]
"""``solve(B, b, l1, method)``: the least ``|B y - b|^2 / 2 + l1 y`` for y >= 0."""


class ConstrainedSystem(NamedTuple):
    """A system with linear constraints ``C x >= d``, in scaled variables.

    Bounds are rows of C, too. Rows that hold for every x are left out.

    Attributes
    ----------
    base : System
        The rows of the l2 penalty are always there.
    C, d : (rows, n), (rows,) array
    used : (all rows,) array
        Mask of the rows that are in C.
    counts : tuple of int
        All rows of A_ub, of lower and of upper bounds, of A_eq, and of a fixed sum. The
        last two are equalities.
    row_scale : (rows,) array
        Powers of two by which the rows were multiplied.
    is_equality, is_general : (rows,) array
        Masks of the equalities, and of the rows that are not bounds.
    """

    base: System
    C: Array
    d: Array
    used: Array
    counts: tuple[int, int, int, int, int]
    row_scale: Array
    is_equality: Array
    is_general: Array

    @classmethod
    def of(
        cls, base: System, rows: tuple[Array, Array, tuple[int, int, int]]
    ) -> ConstrainedSystem:
        """Add the rows of A_ub, of A_eq, and of a fixed sum, whose numbers follow."""
        C, d, (below, equal, total) = rows
        n = base.A.shape[1]
        C = C * base.column_scale
        C = np.concatenate([C[:below], np.eye(n), -np.eye(n), C[below:]])
        d = d * base.b_scale
        d = np.concatenate([d[:below], base.lower, -base.upper, d[below:]])
        used = d > -np.inf
        C, d, counts = C[used], d[used], (below, n, n, equal, total)
        row_scale = inverse_power_of_two(np.abs(C).max(axis=-1, initial=0))
        C, d = C * row_scale[:, None], d * row_scale
        masks = [np.repeat(kinds, counts)[used] for kinds in KINDS]
        base = base._replace(has_ridge=True)
        return cls(base, C, d, used, counts, row_scale, *masks)

    @property
    def column_size(self) -> Array:
        """The norms of the columns; 1, their scale, for columns of zeros."""
        return np.where(self.base.norm > 0, self.base.norm, 1)

    @property
    def magnitude(self) -> Array:
        """``|b| + h``: h is a bound from below of the largest ``|a_k x_k|``."""
        size: Array = np.where(self.is_equality, abs(self.d), np.maximum(self.d, 0))
        least = ratio(size, np.abs(self.C) @ (1 / self.column_size))
        return np.asarray(np.linalg.norm(self.base.b) + least.max(initial=0))

    @property
    def matrix(self) -> Array:
        """A, and the rows of the l2 penalty."""
        return np.vstack([self.base.A, np.diag(self.base.damping)])

    def parts(self, values: Array) -> list[Array]:
        """Values of all rows by their kind; 0 for rows that are left out."""
        whole = np.zeros(len(self.used))
        whole[self.used] = values
        return np.split(whole, np.cumsum(self.counts)[:-1])

    def residual(self, x: Array, rest: Array) -> Array:
        """The residual of ``x + rest``; where terms cancel, in twice the precision."""
        return self.base.residual(x) - self.base.image(rest)

    def missing(self, x: Array, rest: Array) -> Array:
        """``d - C (x + rest)``, in twice the precision."""
        return remainder(self.d, self.C, x)[0] - self.C @ rest

    def add_pull(self, w: Array, y: Array, rest: Array) -> Array:
        """``w + C^T (y + rest)``, in twice the precision."""
        return remainder(w, self.C.T, -y)[0] + rest @ self.C

    def largest_violation(self, x: Array, magnitude: Array) -> float:
        """The largest violation of a constraint, relative to the size of its terms.

        Terms count with at least a `SHARE` of their size for an x with ``|a_k x_k|`` of
        `magnitude`.
        """
        missing, C = self.missing(x, 0 * x), np.abs(self.C)
        left: Array = np.where(self.is_equality, abs(missing), np.maximum(missing, 0))
        terms = C @ np.abs(x) + np.abs(self.d)
        terms = terms + SHARE * magnitude * (C @ (1 / self.column_size))
        return float(ratio(left, terms).max(initial=0))


# ---- certificates --------------------------------------------------------------------


class Point(NamedTuple):
    """A point in scaled variables, and its multipliers.

    Attributes
    ----------
    x : (n,) array
    y, rest : (rows,) array
        The multipliers are the sum of both; the rest is less than the rounding errors
        of the first.
    x_rest : (n,) array
        The same for x. The residual of the sum is a witness: where terms cancel, only
        an x of more than the working precision makes the gradient zero.
    """

    x: Array
    y: Array
    rest: Array
    x_rest: Array


class ConstrainedCertificate(NamedTuple):
    """How far a point is from the optimum.

    Attributes
    ----------
    r : (m + n,) array
        The residual.
    w : (n,) array
        The negative gradient of the Lagrangian, with the multipliers of bounds.
    by_x : float
        The gap and ``|A (x - z)|``, relative.
    angle : float
        The violation of the optimality conditions by w.
    violation : float
        The largest violation of a constraint, relative to the size of its terms.
    size : float
        ``sum_k |a_k x_k|``, relative.
    trivial : float
        A bound of `by_x` and of `angle` that needs no multipliers.
    """

    r: Array
    w: Array
    by_x: float
    angle: float
    violation: float
    size: float
    trivial: float

    @property
    def kkt(self) -> float:
        """The certificate; infinite for a point that is not feasible."""
        return self.by_x + self.angle if self.violation <= MOST_VIOLATION else math.inf

    @property
    def badness(self) -> float:
        """`kkt`, and the violation of constraints; a better point has less."""
        feasible = self.violation <= MOST_VIOLATION
        found = self.kkt + self.violation if feasible else self.violation / EPS
        return math.inf if math.isnan(found) else found

    def is_settled(self, kkt: float) -> bool:
        """Whether the certificate is at most `kkt`.

        No constraint is violated by more than rounding errors: where constraints are
        almost parallel, the optimum of a point that does may be far away.
        """
        rounding = (ROUNDED + len(self.w)) * EPS
        return bool(self.kkt <= kkt and self.violation <= rounding)

    def accepts(self, tol: float, dtype: np.dtype[Any]) -> bool:
        """Whether the point is certified, when it is rounded to `dtype`.

        It may violate constraints by half of what is allowed. The other half may be due
        to sides that were moved within their rounding.
        """
        by_x, angle, size = map(np.asarray, (self.by_x, self.angle, self.size))
        good = bool(accepts(by_x, angle, size, dtype, tol))
        return good and self.violation <= MOST_VIOLATION / 2


def certify(system: ConstrainedSystem, point: Point) -> ConstrainedCertificate:
    """Certify a point within the bounds."""
    base, (x, y, rest, x_rest), magnitude = system.base, point, system.magnitude
    y, rest = y * system.is_general, rest * system.is_general
    r, image = base.residual(x), base.image(x_rest)
    w = system.add_pull(base.gradient(r - image), y, rest)
    bound = np.where(w > 0, base.upper, base.lower)
    at_bound = np.abs(bound - x) <= np.abs(x)
    gap = w @ (np.where(at_bound, bound, 0) - x - x_rest)
    slopes = ratio(np.where(at_bound, 0, np.abs(w)), system.column_size)
    by_x, angle, trivial = distance_to_optimum(
        Terms(
            length=base.length(r - image),
            magnitude=magnitude,
            apart=base.length(image),
            gap=gap - y @ system.missing(x, x_rest),
            slope=slopes.max(initial=0),
            slack=penalty_slack(base, x),
        )
    )
    violation = system.largest_violation(x, magnitude) + 0 * float(x.sum())
    numbers: Any = by_x, angle, violation, ratio(base.size(x), magnitude), trivial
    return ConstrainedCertificate(r, w, *map(float, numbers))


# ---- the steps -----------------------------------------------------------------------


def inverse_factor(A: Array, null: Array) -> Array:
    """Z with ``Z Z^T = (A^T A + proximal term)^-1`` for changes of x along `null`.

    A matrix whose columns are almost dependent has a proximal term. The columns of
    ``A null`` are small where terms cancel, not where their unit is large.
    """
    size = np.linalg.norm(np.abs(A) @ np.abs(null), axis=0)
    null = null / np.where(size > 0, size, 1)
    _, values, rows = np.linalg.svd(np.linalg.qr(A @ null, mode="r"))
    term = np.where(values < LEAST, LEAST, 0)
    return null @ (rows / np.hypot(values, term)[:, None]).T


def correct(system: ConstrainedSystem, point: Point) -> Point:
    """The minimum where the active rows hold, with variables eliminated by them.

    Active are equalities, and inequalities that have a multiplier. The minimum squares
    no condition number and needs no proximal term, and no scale of a row or a variable
    affects it. The multipliers get a rest: where constraints have columns of very
    different size, only multipliers of more than the working precision make the
    gradient of the Lagrangian zero.
    """
    x, y, rest, x_rest = point
    at = np.flatnonzero(((y != 0) | system.is_equality) & system.C.any(axis=-1))
    few, base = system._replace(C=system.C[at], d=system.d[at]), system.base
    inverse, null = eliminate(few.C)
    left, values, right = np.linalg.svd(system.matrix @ null, full_matrices=False)
    used = values > DEPENDENT * len(left) * EPS * values.max(initial=1.0)
    left, values, right = left[:, used], values[used], right[used]
    linear = (right @ (null.T @ base.penalty)) / values
    for _ in range(REFINEMENTS):
        x, x_rest = two_sum(x, x_rest + inverse @ few.missing(x, x_rest))
        along = (left.T @ system.residual(x, x_rest) - linear) / values
        x, x_rest = two_sum(x, x_rest + null @ (right.T @ along))
    w, active, active_rest = base.gradient(system.residual(x, x_rest)), y[at], rest[at]
    for _ in range(REFINEMENTS):
        e = few.add_pull(w, active, active_rest)
        active, active_rest = two_sum(active, active_rest - inverse.T @ e)
    kept = system.is_equality[at] | (active > 0)
    y, rest = 0 * y, 0 * rest
    y[at], rest[at] = np.where(kept, active, 0), np.where(kept, active_rest, 0)
    return Point(x, y, rest, x_rest)


def eliminate(rows: Array) -> tuple[Array, Array]:
    """A generalised inverse of rows, and a basis of their null space.

    Gauss-Jordan elimination of the largest element of a row that is not rounding error:
    an element counts only if it is larger than the rounding errors of the terms that it
    was computed from. The next row is the row in which least has cancelled.

    Parameters
    ----------
    rows : (k, n) array

    Returns
    -------
    inverse : (n, k) array
        ``rows (inverse v) = v`` if ``rows x = v`` has a solution.
    null : (n, n) array
        ``I - inverse rows``; its columns are a basis, or zeros.
    """
    k, n = rows.shape
    whole: Array = np.hstack([rows, np.eye(k)])
    terms: Array = np.abs(whole)
    pivots: Array = np.zeros((k, n))
    for _ in range(min(k, n)):
        size, of = abs(whole[:, :n]), terms[:, :n]
        left = (size > DEPENDENT * n * EPS * of) & ~pivots.any(axis=1)[:, None]
        columns = np.where(left, size, 0).argmax(axis=1)
        share = ratio(np.where(left, size, 0), of)[np.arange(k), columns]
        i = int(share.argmax())
        j = columns[i]
        if not share[i] > 0:
            break
        row, of_row = whole[i] / whole[i, j], terms[i] / abs(whole[i, j])
        factor = np.where(np.arange(k) == i, 0, whole[:, j])[:, None]
        whole, terms = whole - factor * row, terms + np.abs(factor) * of_row
        whole[i], terms[i], pivots[i, j] = row, of_row, 1
    inverse, null = pivots.T @ whole[:, n:], np.eye(n) - pivots.T @ whole[:, :n]
    growth = np.abs(inverse) @ (np.abs(rows) @ np.abs(null))
    if growth.max(initial=0) > ILL_CONDITIONED * np.abs(null).max(initial=0):
        for _ in range(REFINEMENTS):
            missing, _ = remainder(np.zeros(k), rows, null.T)
            null = null + inverse @ missing.T
    return inverse, null


# ---- the search ----------------------------------------------------------------------


class Found(NamedTuple):
    """A point of a system, its certificate, and the last solution of the dual problem.

    `system` may have sides that were moved within their rounding. The counts of `last`
    are the sums over all steps.
    """

    system: ConstrainedSystem
    point: Point
    certificate: ConstrainedCertificate
    last: Solution

    @classmethod
    def at(cls, system: ConstrainedSystem, point: Point, last: Solution) -> Found:
        """The point with variables at the bounds that have a multiplier."""
        _, at_lower, at_upper, _, _ = system.parts(point.y)
        base = system.base
        x = np.where(at_lower > 0, base.lower, point.x)
        x = np.where(at_upper > 0, base.upper, x)
        x = np.clip(x, base.lower, base.upper)
        rest = np.where(x == point.x, point.x_rest, 0)
        point = point._replace(x=x, x_rest=rest)
        return cls(system, point, certify(system, point), last)

    def better(self, other: Found) -> Found:
        """The better point."""
        return other if other.certificate.badness < self.certificate.badness else self

    def after(self, before: Found) -> Found:
        """The same point, with the counts of both."""
        counts = {
            name: getattr(self.last, name) + getattr(before.last, name)
            for name in ("nit", "n_updates", "n_downdates")
        }
        last = self.last._replace(**counts, repaired=np.asarray(True))
        return self._replace(last=last)


def minimise(
    system: ConstrainedSystem,
    start: Array,
    nearest: tuple[Array, Array] | None,
    solve: SolveDual,
    tol: float,
) -> Found:
    """Improve a point until its `kkt` is at most `tol`, or no step improves it.

    Columns of the dual problem are almost parallel where constraints are. QR finds the
    active constraints then. Where it does not, the Gram method, which leaves out one of
    two such columns, may find others from the same start.

    Parameters
    ----------
    system : ConstrainedSystem
    start : (n,) array
    nearest : pair of arrays or None
        A point that satisfies all constraints, if there is one, and the sides that it
        satisfies.
    solve : SolveDual
    tol : float
    """
    enough = max(tol, STOP_KKT)

    def improve(found: Found, method: str) -> Found:
        for _ in range(STEPS):
            before = found.certificate.badness
            if found.certificate.is_settled(enough):
                break
            other = step(found.system, found.point.x, solve, method).after(found)
            found = found.better(other)._replace(last=other.last)
            if not found.certificate.badness < before:
                break
        return found

    found = step(system, start, solve, "qr")
    if not found.certificate.kkt <= enough and nearest is not None:
        x, sides = nearest
        system = system._replace(d=sides)
        found = step(system, found.point.x, solve, "qr").after(found)
        point = Point(x, 0 * sides, 0 * sides, 0 * x)
        found = improve(found, "qr").better(Found.at(system, point, found.last))
    found = improve(found, "qr")
    if not found.certificate.is_settled(enough):
        other = improve(step(system, start, solve, "gram").after(found), "gram")
        found = found.better(other)._replace(last=other.last)
    return drop_multipliers(rest_at_bounds(found, enough))


def step(system: ConstrainedSystem, x: Array, solve: SolveDual, method: str) -> Found:
    """Solve the dual problem from x, and correct the point where it is rough.

    Variables that equalities determine are eliminated.
    """
    base, equal, none = system.base, system.is_equality, 0 * system.d
    inverse, null = eliminate(system.C[equal])
    x = x + inverse @ system.missing(x, 0 * x)[equal]
    Z = inverse_factor(system.matrix, null[:, null.any(axis=0)])
    B, missing = (system.C[~equal] @ Z).T, system.missing(x, 0 * x)[~equal]
    p = base.gradient(base.residual(x)) @ Z
    last = solve(B, -p, -missing, method)._replace(repaired=np.asarray(False))
    y = none.copy()
    x, y[~equal] = x + Z @ (B @ last.x + p), last.x
    y[equal] = -inverse.T @ system.add_pull(base.gradient(base.residual(x)), y, none)
    found = Found.at(system, Point(x, y, none, 0 * x), last)
    enough = CORRECTED if base.rounded_matrix else STOP_KKT
    if found.certificate.is_settled(enough):
        return found
    return found.better(Found.at(system, correct(system, found.point), last))


def rest_at_bounds(found: Found, enough: float) -> Found:
    """Move variables to bounds that they reach up to rounding errors.

    Where constraints and bounds meet, a variable may be at its bound without a
    multiplier.
    """
    (system, (x, *_, rest), *_), base = found, found.system.base
    near = AT_BOUND * EPS * (np.abs(x).max(initial=0) + system.magnitude)
    moved = np.where(np.abs(x - base.lower) <= near, base.lower, x)
    moved = np.where(np.abs(x - base.upper) <= near, base.upper, moved)
    point = found.point._replace(x=moved, x_rest=rest + (x - moved))
    other = found._replace(point=point, certificate=certify(system, point))
    settled = all(one.certificate.is_settled(enough) for one in (found, other))
    return other if settled else found


def drop_multipliers(found: Found) -> Found:
    """Set multipliers to 0 where the point is almost as good without them.

    They may be rounding errors, or prove no more than a small residual does.
    """
    old, none = found.certificate, 0 * found.point.y
    if (found.point.y**2).sum() >= EPS**2 and not old.kkt >= old.trivial:
        return found
    point = found.point._replace(y=none, rest=none)
    other = certify(found.system, point)
    if not other.kkt <= 2 * old.kkt:
        return found
    return found._replace(point=point, certificate=old._replace(w=other.w))
