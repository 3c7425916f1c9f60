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

The dual problem. With ``H = A^T A + diag(l2) = (Z Z^T)^-1``, multipliers y minimise
``|B y + p|^2 / 2 - (d - C x) y``. Here B is ``Z^T C^T``, x is any point, and p is its
negative gradient times ``Z^T``. The solution is ``x + Z (B y + p)``. The multipliers of
equalities are free, so they are eliminated. What remains is non-negative least squares.

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

from .._numerics.arithmetic import EPS, inverse_power_of_two, remainder, two_sum
from .._numerics.certificate import (
    CERTIFIED,
    ROUNDED,
    Solution,
    Terms,
    accepts,
    distance_to_optimum,
    ratio,
)
from .._numerics.system import ACCURATE

Array = Any
"""An array of NumPy. Types of its elements would only be repeated."""

SHARE = 1e-4
"""Limit on the violation of a constraint by rounding errors of x, relative to the limit
on violations, for an x with terms of the size of b."""

LEAST = 2.0**-26
"""The root of the weight of the proximal term along singular vectors of a smaller
singular value; the columns of the matrix have unit norm."""

DEPENDENT = 16.0
"""Singular values, and what is left of rows and columns without their parts along
others, count as zero up to this number times ``n eps`` of their size before."""

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

SolveDual = Callable[[Array, Array, Array, Any, str], Solution]
"""``solve(B, b, l1, upper, method)``: the least ``|B y - b|^2 / 2 + l1 y`` within
bounds of 0 and `upper`."""


class ConstrainedSystem(NamedTuple):
    """``min |A x - b|^2 / 2 + l1 x + l2 x^2 / 2`` subject to ``C x >= d``.

    All entries are finite, but for elements of d at minus infinity, whose rows hold for
    every x. Bounds are rows of C, too.

    Attributes
    ----------
    A : (m, n) array
        Columns have norms in [1, 2), together with their l2; columns of zeros have no
        scale.
    b : (m,) array
        The largest magnitude is in [0.5, 1).
    l1, l2, lower, upper : (n,) array
    C, d : (rows, n), (rows,) array
    counts : tuple of int
        The rows of A_ub, of lower and of upper bounds, of A_eq, and of a fixed sum. The
        last two are equalities.
    scale, row_scale, b_scale : (n,) array, (rows,) array, float
        The given variables are ``scale x / b_scale``, and the given rows were
        multiplied by `row_scale`. All scales are powers of two.
    norm : (n,) array
        The norms of the columns, with their l2.
    rounded_matrix : bool
        Whether A has rounding errors.
    """

    A: Array
    b: Array
    l1: Array
    l2: Array
    lower: Array
    upper: Array
    C: Array
    d: Array
    counts: tuple[int, int, int, int, int]
    scale: Array
    row_scale: Array
    b_scale: float
    norm: Array
    rounded_matrix: bool

    @classmethod
    def of(
        cls,
        A: Array,
        b: Array,
        penalties: tuple[Array, Array],
        bounds: tuple[Array, Array],
        rows: tuple[Array, Array, tuple[int, int, int]],
        rounded_matrix: bool,
    ) -> ConstrainedSystem:
        """Scale variables, right-hand side and rows by powers of two.

        `rows` are those of A_ub, of A_eq, and of a fixed sum, and their numbers.
        """
        (l1, l2), (C, d, (below, equal, total)) = penalties, rows
        (lower, upper), unit = bounds, np.eye(len(l1))
        at_lower = unit[: len(l1) * np.isfinite(lower).any()]
        at_upper = unit[: len(l1) * np.isfinite(upper).any()]
        C = np.concatenate([C[:below], at_lower, -at_upper, C[below:]])
        sides = lower[: len(at_lower)], -upper[: len(at_upper)]
        d = np.concatenate([d[:below], *sides, d[below:]])
        counts = below, len(at_lower), len(at_upper), equal, total
        size = column_norms(A, l2)
        of_rows = np.abs(C).max(axis=0, initial=0)
        scale = inverse_power_of_two(np.where(size > 0, size, of_rows))
        C = C * scale
        row_scale = inverse_power_of_two(np.abs(C).max(axis=-1, initial=0))
        b_scale = float(inverse_power_of_two(np.abs(b).max(initial=0)))
        A, l2 = A * scale, l2 * scale * scale
        return cls(
            A=A,
            b=b * b_scale,
            l1=l1 * scale * b_scale,
            l2=l2,
            lower=lower * b_scale / scale,
            upper=upper * b_scale / scale,
            C=C * row_scale[:, None],
            d=d * row_scale * b_scale,
            counts=counts,
            scale=scale,
            row_scale=row_scale,
            b_scale=b_scale,
            norm=np.sqrt((A**2).sum(axis=0) + l2),
            rounded_matrix=rounded_matrix,
        )

    @property
    def inequalities(self) -> int:
        """The number of rows of inequalities: the first rows."""
        return sum(self.counts[:3])

    @property
    def is_equality(self) -> Array:
        """Mask of the equalities."""
        return np.arange(len(self.d)) >= self.inequalities

    @property
    def is_general(self) -> Array:
        """Mask of the rows that are not bounds."""
        return np.repeat([True, False, False, True, True], self.counts)

    @property
    def column_size(self) -> Array:
        """The norms of the columns; 1, their scale, for columns of zeros."""
        return np.where(self.norm > 0, self.norm, 1)

    @property
    def magnitude(self) -> Array:
        """``|b| + h``: h is a bound from below of the largest ``|a_k x_k|``."""
        d = zero_infinities(self.d)
        size: Array = np.where(self.is_equality, np.abs(d), np.maximum(d, 0))
        least = ratio(size, np.abs(self.C) @ (1 / self.column_size))
        return np.asarray(np.linalg.norm(self.b) + least.max(initial=0))

    def parts(self, values: Array) -> list[Array]:
        """Values of all rows, split by the kind of row."""
        return np.split(values, np.cumsum(self.counts)[:-1])

    def residual(self, x: Array, rest: Array | None = None) -> Array:
        """``b - A x``; where terms cancel, in more than the working precision.

        With a rest, which is less than the rounding errors of x, of their sum.
        """
        r = self.b - self.A @ x
        terms = np.linalg.norm(self.b) + self.norm @ np.abs(x)
        if ACCURATE * np.linalg.norm(r) < terms and x.any():
            r, _ = remainder(self.b, self.A, x)
        return r if rest is None else r - self.A @ rest

    def rows_with_l2(self) -> Array:
        """A, and the diagonal of the roots of l2 below it; at least n rows."""
        m, n = self.A.shape
        if m >= n and not self.l2.any():
            return self.A
        return np.concatenate([self.A, np.diag(np.sqrt(self.l2))])

    def slope(self, x: Array, r: Array) -> Array:
        """The negative gradient; r is the residual of x."""
        return r @ self.A - self.l1 - self.l2 * x

    def constraint_residual(self, x: Array, rest: Array) -> Array:
        """``d - C (x + rest)``, in twice the working precision."""
        absent = self.d == -np.inf
        found, _ = remainder(np.where(absent, 0, self.d), self.C, x)
        return np.where(absent, self.d, found - self.C @ rest)

    def within_bounds(self, x: Array) -> Array:
        """The nearest point within the bounds."""
        return np.minimum(np.maximum(x, self.lower), self.upper)

    def gradient_of_lagrangian(self, slope: Array, y: Array, rest: Array) -> Array:
        """``slope + C^T (y + rest)`` in twice the working precision."""
        found, _ = remainder(slope, self.C.T, -y)
        return found + rest @ self.C


def column_norms(A: Array, l2: Array) -> Array:
    """``sqrt(|a_k|^2 + l2_k)`` of all columns, whose squares may be out of range."""
    largest = np.maximum(np.abs(A).max(axis=0, initial=0), np.sqrt(l2))
    scale = inverse_power_of_two(largest)
    norm = np.sqrt(((A * scale) ** 2).sum(axis=0) + l2 * scale * scale) / scale
    return np.minimum(norm, np.finfo(np.float64).max)


def zero_infinities(values: Array) -> Array:
    """The values, with 0 in place of infinities."""
    return np.where(np.isinf(values), 0, values)


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
    r : (m,) array
        The residual.
    w : (n,) array
        The negative gradient of the Lagrangian.
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
        found = (
            self.kkt + self.violation
            if self.violation <= MOST_VIOLATION
            else self.violation / EPS
        )
        return math.inf if math.isnan(found) else found

    def is_settled(self, kkt: float) -> bool:
        """Whether the certificate is at most `kkt`.

        No constraint is violated by more than rounding errors: where constraints are
        almost parallel, the optimum of a point that does may be far away.
        """
        rounding = (ROUNDED + len(self.w)) * EPS
        return bool(self.kkt <= kkt and self.violation <= rounding)

    @property
    def is_feasible(self) -> bool:
        """Whether the point satisfies all constraints, up to half of what is allowed.

        The other half may be due to sides that were moved within their rounding.
        """
        return bool(self.violation <= MOST_VIOLATION / 2)

    def accepts(self, tol: float, dtype: np.dtype[Any]) -> bool:
        """Whether the point is certified, when it is rounded to `dtype`."""
        by_x, angle, size = map(np.asarray, (self.by_x, self.angle, self.size))
        return bool(accepts(by_x, angle, size, dtype, tol)) and self.is_feasible


def certify(system: ConstrainedSystem, point: Point) -> ConstrainedCertificate:
    """Certify a point within the bounds; w has the multipliers of bounds."""
    (x, y, rest, x_rest), magnitude = point, system.magnitude
    y, rest = y * system.is_general, rest * system.is_general
    C, of_columns = np.abs(system.C), system.column_size
    r, image = system.residual(x), system.A @ x_rest
    witness = r - image
    length = np.asarray(np.sqrt(witness @ witness + system.l2 @ (x * x)))
    terms = C @ np.abs(x) + np.abs(zero_infinities(system.d))
    slope, missing = system.slope(x, witness), system.d - system.C @ x
    w = slope + (y + rest) @ system.C
    of_gap = ratio(np.abs(y) @ terms, magnitude)
    of_w = (np.abs(y) @ C / of_columns).max(initial=0)
    if max(of_gap, of_w) > ACCURATE * length:
        missing = system.constraint_residual(x, 0 * x)
        w = system.gradient_of_lagrangian(slope, y, rest)
    missing = zero_infinities(missing)
    bound = np.where(w > 0, system.upper, system.lower)
    at_bound = np.abs(bound - x) <= np.abs(x)
    gap = w @ (np.where(at_bound, bound, 0) - x - x_rest)
    l1, cheapest = system.l1, np.where(system.l1 > 0, system.lower, system.upper)
    could_fall = ((l1 != 0) & (x != cheapest)).any()
    slopes = ratio(np.where(at_bound, 0, np.abs(w)), of_columns)
    by_x, angle, trivial = distance_to_optimum(
        Terms(
            length,
            magnitude,
            apart=np.asarray(np.linalg.norm(image)),
            gap=gap - y @ (missing - system.C @ x_rest),
            slope=slopes.max(initial=0),
            slack=np.asarray(np.inf if could_fall else 0.0),
        )
    )
    size = ratio(system.norm @ np.abs(x), magnitude)
    return ConstrainedCertificate(
        r=r,
        w=w,
        by_x=float(by_x),
        angle=float(angle),
        violation=largest_violation(system, missing, terms, magnitude)
        + 0 * float(x.sum()),
        size=float(size),
        trivial=float(trivial),
    )


def largest_violation(
    system: ConstrainedSystem, missing: Array, terms: Array, magnitude: Array
) -> float:
    """The largest violation of a constraint, relative to the size of its terms.

    Terms count with at least a `SHARE` of their size for an x with ``|a_k x_k|`` of
    `magnitude`.
    """
    left: Array = np.where(system.is_equality, np.abs(missing), np.maximum(missing, 0))
    per_unit = np.abs(system.C) @ (1 / system.column_size)
    return float(ratio(left, terms + SHARE * magnitude * per_unit).max(initial=0))


def relative_violation(system: ConstrainedSystem, x: Array, magnitude: Array) -> float:
    """`largest_violation` at x, computed in twice the working precision."""
    terms = np.abs(system.C) @ np.abs(x) + np.abs(zero_infinities(system.d))
    missing = zero_infinities(system.constraint_residual(x, 0 * x))
    return largest_violation(system, missing, terms, magnitude)


# ---- the dual problem ----------------------------------------------------------------


def inverse_factor(system: ConstrainedSystem) -> Array:
    """Z with ``Z Z^T = (A^T A + diag(l2) + proximal term)^-1``.

    A matrix whose columns are almost dependent has a proximal term.
    """
    n = system.A.shape[-1]
    R = np.linalg.qr(system.rows_with_l2(), mode="r")
    if (np.abs(np.diagonal(R)) >= LEAST).all():
        Z = np.linalg.inv(R)
        if (Z**2).sum() <= n / LEAST**2:
            return Z
    _, values, rows = np.linalg.svd(R)
    term = np.where(values < LEAST, LEAST, 0)
    return (rows / np.hypot(values, term)[:, None]).T


def decomposed(matrix: Array, least_size: float = 0.0) -> tuple[Array, Array, Array]:
    """The singular vectors of a matrix, and its singular values.

    Values that are 0 up to rounding errors of the largest, or of a matrix of
    `least_size`, are left out.
    """
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    rounding = DEPENDENT * max(matrix.shape) * EPS
    used = values > rounding * values.max(initial=least_size)
    return left[:, used], values[used], right[used]


class Dual(NamedTuple):
    """The matrices of the dual problem.

    Attributes
    ----------
    Z : (n, n) array
    B : (n, inequalities) array
        Orthogonal to `equal`.
    equal : (n, rank) array
        Orthonormal columns: a basis of the columns of the equalities.
    coupling : (rank, inequalities) array
        The part of the inequalities along `equal`.
    per_equal : (equalities, rank) array
        The multipliers of the equalities for each column of `equal`.
    """

    Z: Array
    B: Array
    equal: Array
    coupling: Array
    per_equal: Array

    @classmethod
    def of(cls, system: ConstrainedSystem) -> Dual:
        """Eliminate the equalities."""
        Z, first = inverse_factor(system), system.inequalities
        whole = (system.C @ Z).T
        B, E = whole[:, :first], whole[:, first:]
        equal, values, rows = decomposed(E)
        coupling = equal.T @ B
        rest = B - equal @ coupling
        rest = rest - equal @ (equal.T @ rest)
        rounding = (DEPENDENT * len(B) * EPS) ** 2 * (B**2).sum(axis=0)
        rest = np.where((rest**2).sum(axis=0) > rounding, rest, 0)
        return cls(Z, rest, equal, coupling, rows.T / values)

    def step(
        self, system: ConstrainedSystem, x: Array, solve: SolveDual, method: str
    ) -> tuple[Point, Solution]:
        """Minimise the objective plus the proximal term around x."""
        first = system.inequalities
        p = system.slope(x, system.residual(x)) @ self.Z
        missing = system.constraint_residual(x, 0 * x)
        fixed = missing[first:] @ self.per_equal
        apart = p - self.equal @ (self.equal.T @ p)
        gain = zero_infinities(missing[:first]) - fixed @ self.coupling
        upper = np.where(system.d[:first] == -np.inf, 0.0, np.inf)
        found = solve(self.B, -apart, -gain, upper, method)
        free = fixed - self.equal.T @ p - self.coupling @ found.x
        y = np.concatenate([found.x, self.per_equal @ free])
        x = x + self.Z @ (self.B @ found.x + apart + self.equal @ fixed)
        return Point(x, y, 0 * y, 0 * x), found


# ---- corrections on the active constraints -------------------------------------------


def correct(system: ConstrainedSystem, point: Point) -> Point:
    """The minimum where the active rows hold, with variables eliminated by them.

    It squares no condition number and needs no proximal term, and no scale of a row or
    a variable affects it. The multipliers get a rest: where constraints have columns of
    very different size, only multipliers of more than the working precision make the
    gradient of the Lagrangian zero.
    """
    x, y, rest, x_rest = point
    at = active_rows(system, y)
    few = system._replace(C=system.C[at], d=system.d[at])
    inverse, null = eliminate(few.C)
    A = system.rows_with_l2()
    of_rows, values, of_columns = decomposed(A @ null, 1.0)
    linear = (of_columns @ (null.T @ system.l1)) / values
    for _ in range(REFINEMENTS):
        x, x_rest = two_sum(x, x_rest + inverse @ few.constraint_residual(x, x_rest))
        r = system.residual(x, x_rest)
        r = np.concatenate([r, -np.sqrt(system.l2) * x])[: len(A)]
        along = of_rows.T @ r - linear
        step = null @ (of_columns.T @ (along / values))
        x, x_rest = two_sum(x, x_rest + step)
    slope = system.slope(x, system.residual(x, x_rest))
    active, active_rest = y[at], rest[at]
    for _ in range(REFINEMENTS):
        e = few.gradient_of_lagrangian(slope, active, active_rest)
        active, active_rest = two_sum(active, active_rest - inverse.T @ e)
    y, rest = 0 * y, 0 * rest
    y[at], rest[at] = active, active_rest
    return drop_negative_multipliers(system, Point(x, y, rest, x_rest))


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
    whole = np.concatenate([rows, np.eye(k)], axis=1)
    terms: Array = np.abs(whole)
    pivots: Array = np.zeros((k, n))
    for _ in range(min(k, n)):
        size: Array = np.abs(whole[:, :n])
        of = terms[:, :n]
        left = (size > DEPENDENT * n * EPS * of) & ~pivots.any(axis=1)[:, None]
        columns = np.where(left, size, 0).argmax(axis=1)
        share = np.where(left, size / np.where(left, of, 1), 0)
        share = share[np.arange(k), columns]
        i = int(share.argmax())
        j = columns[i]
        if not share[i] > 0:
            break
        row, of_row = whole[i] / whole[i, j], terms[i] / abs(whole[i, j])
        factor = whole[:, j].copy()
        factor[i] = 0
        whole = whole - factor[:, None] * row
        terms = terms + np.abs(factor)[:, None] * of_row
        whole[i], terms[i], pivots[i, j] = row, of_row, 1
    inverse, null = pivots.T @ whole[:, n:], np.eye(n) - pivots.T @ whole[:, :n]
    growth = np.abs(inverse) @ (np.abs(rows) @ np.abs(null))
    if growth.max(initial=0) > ILL_CONDITIONED * np.abs(null).max(initial=0):
        columns = null.T
        for _ in range(REFINEMENTS):
            missing, _ = remainder(np.zeros(k), rows, columns)
            columns = columns + missing @ inverse.T
        null = columns.T
    return inverse, null


def active_rows(system: ConstrainedSystem, y: Array) -> Array:
    """The indices of equalities, and of inequalities that have a multiplier."""
    active = ((y != 0) | system.is_equality) & system.C.any(axis=-1)
    return np.flatnonzero(active)


def drop_negative_multipliers(system: ConstrainedSystem, point: Point) -> Point:
    """The point without negative multipliers of inequalities."""
    kept = system.is_equality | (point.y > 0)
    y, rest = (np.where(kept, part, 0) for part in (point.y, point.rest))
    return point._replace(y=y, rest=rest)


# ---- the search ----------------------------------------------------------------------


class Found(NamedTuple):
    """The best point of a system, and the counts of all steps.

    `system` may have sides that were moved within their rounding.
    """

    system: ConstrainedSystem
    point: Point
    certificate: ConstrainedCertificate
    counts: tuple[int, ...]
    last: Solution
    repaired: bool

    def better(self, other: Found) -> Found:
        """The better point, with the sums of the counts and the last outcome."""
        best = other if other.certificate.badness < self.certificate.badness else self
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return best._replace(counts=counts, last=other.last, repaired=True)


class Search(NamedTuple):
    """How a system is solved.

    Attributes
    ----------
    solve : SolveDual
    tol : float
    """

    solve: SolveDual
    tol: float

    @property
    def enough(self) -> float:
        """The `kkt` of a point that needs no further step."""
        return max(self.tol, STOP_KKT)

    def run(
        self,
        system: ConstrainedSystem,
        start: Array,
        nearest: tuple[Array, Array] | None,
    ) -> Found:
        """Improve a point until it is settled, or no step improves it.

        Columns of the dual problem are almost parallel where constraints are. QR finds
        the active constraints then. Where it does not, the Gram method, which leaves
        out one of two such columns, may find others from the same start.

        Parameters
        ----------
        system : ConstrainedSystem
        start : (n,) array
        nearest : pair of arrays or None
            A point that satisfies all constraints, if there is one, and the sides that
            it satisfies.
        """
        dual = Dual.of(system)
        found = self.step(system, dual, start, "qr")
        if not found.certificate.kkt <= self.enough and nearest is not None:
            x, sides = nearest
            system = system._replace(d=sides)
            found = found._replace(
                system=system, certificate=certify(system, found.point)
            )
            found = self.improve(found, dual)
            x, none = system.within_bounds(x), 0 * sides
            point = Point(x, none, none, 0 * x)
            of_point = certify(system, point)
            if of_point.badness < found.certificate.badness:
                found = found._replace(point=point, certificate=of_point)
        found = self.improve(found, dual)
        if not found.certificate.is_settled(self.enough):
            other = self.step(system, dual, start, "gram")
            found = found.better(self.improve(other, dual, "gram"))
        return self.drop_multipliers(self.rest_at_bounds(found))

    def improve(self, found: Found, dual: Dual, method: str = "qr") -> Found:
        """Make steps until the point is settled, or a step does not improve it."""
        for _ in range(STEPS):
            if found.certificate.is_settled(self.enough):
                break
            before = found.certificate.badness
            found = found.better(self.step(found.system, dual, found.point.x, method))
            if not found.certificate.badness < before:
                break
        return found

    def step(
        self, system: ConstrainedSystem, dual: Dual, x: Array, method: str
    ) -> Found:
        """A step from x, and corrections where it is rough."""
        point, last = dual.step(system, x, self.solve, method)
        point = clip_to_bounds(system, point)
        certificate = certify(system, point)
        enough = CORRECTED if system.rounded_matrix else STOP_KKT
        if not certificate.is_settled(enough):
            other = clip_to_bounds(system, correct(system, point))
            of_other = certify(system, other)
            if of_other.badness < certificate.badness:
                point, certificate = other, of_other
        counts = int(last.nit), int(last.n_updates), int(last.n_downdates)
        return Found(system, point, certificate, counts, last, False)

    def rest_at_bounds(self, found: Found) -> Found:
        """Move variables to bounds that they reach up to rounding errors.

        Where constraints and bounds meet, a variable may be at its bound without a
        multiplier.
        """
        system, x = found.system, found.point.x
        near = AT_BOUND * EPS * (np.abs(x).max(initial=0) + system.magnitude)
        moved: Array = np.where(np.abs(x - system.lower) <= near, system.lower, x)
        moved = np.where(np.abs(x - system.upper) <= near, system.upper, moved)
        if not (moved != x).any() or not found.certificate.is_settled(self.enough):
            return found
        point = found.point._replace(x=moved, x_rest=found.point.x_rest + (x - moved))
        other = certify(system, point)
        if not other.is_settled(self.enough):
            return found
        return found._replace(point=point, certificate=other)

    def drop_multipliers(self, found: Found) -> Found:
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


def clip_to_bounds(system: ConstrainedSystem, point: Point) -> Point:
    """The point with variables at the bounds that have a multiplier."""
    x: Array = point.x
    _, at_lower, at_upper, _, _ = system.parts(point.y)
    if len(at_lower):
        x = np.where(at_lower > 0, system.lower, x)
    if len(at_upper):
        x = np.where(at_upper > 0, system.upper, x)
    x = system.within_bounds(x)
    return point._replace(x=x, x_rest=np.where(x == point.x, point.x_rest, 0))
