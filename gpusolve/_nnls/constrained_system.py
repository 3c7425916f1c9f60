"""Least squares with linear constraints, in scaled variables and rows: certificates.

With the residual ``r = b - A z`` of a point z next to x, multipliers y of the
constraints ``C x >= d``, which are not negative for inequalities, and the negative
gradient ``w = A^T r - l1 - l2 z + C^T y``, every feasible x' without penalties has

    ``|r| |b - A x'| >= |r|^2 - y (C z - d) - w (x' - z)``.

For each variable, p_k is the bound that w points to, or 0 if that is nearer to x_k. So
``w_k (x'_k - p_k)`` is not positive at a bound, and at most ``|w_k x'_k|`` else. `kkt`
is the sum of the *gap* ``|y (C z - d) + w (p - z)| / |r|``, of ``|A (x - z)|``, both
relative to ``|b| + h``, and of the largest ``|w_k| / |a_k| |r|`` of the variables
whose p_k is not a bound. Every feasible x' has a variable with ``|a_k x'_k|`` of at
least h. If A has rounding errors, so has r: ``|b| + h`` is added to its norm.

Large multipliers magnify rounding errors of ``C z - d`` and of w. Both are computed in
twice the working precision where this matters.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, is_cupy, largest, namespace
from .._device.products import product, transposed, transposed_product
from .._numerics.certificate import (
    CERTIFIED,
    Terms,
    accepts,
    distance_to_optimum,
    ratio,
)
from .._numerics.compensated import remainder
from .._numerics.scaling import inverse_power_of_two, weighted
from .._numerics.system import ACCURATE
from .constraint_rows import Rows
from .problem import Option, Problem, gather
from .quadratic import MultiplierTerms

SHARE = 1e-4
"""Limit on the violation of a constraint by rounding errors of x, relative to the limit
on violations, for an x with terms of the size of b."""

LEAST = 2.0**-26
"""The root of the weight of the proximal term along singular vectors of a smaller
singular value; the columns of the matrix have unit norm."""

OF_DEPENDENCE = 2.0**-14
"""The root of the weight where the singular value is 0, up to rounding. A larger weight
gives smaller rounding errors, and an l1 penalty needs more steps."""

EPS = float(np.finfo(np.float64).eps)


class ConstrainedSystem(NamedTuple):
    """``min |A x - b|^2 / 2 + l1 x + l2 x^2 / 2`` subject to ``C x >= d``.

    All entries are finite, but for elements of d at minus infinity. Arrays that all
    systems share lack the first axis. The rows of equalities are the last.

    Attributes
    ----------
    A : (..., m, n) array
        With rows multiplied by the roots of the weights. Columns have norms in [1, 2),
        together with their l2; columns of zeros have no scale.
    b : (systems, m) array
        The largest magnitude is in [0.5, 1).
    l1, l2, lower, upper : (..., n) array
    C : (..., rows, n) array
    d : (..., rows) array
    counts : tuple of int
        The rows of each kind; see `Rows`.
    scale : (..., n) array
        The given variables are ``scale x / b_scale``. All scales are powers of two.
    row_scale : (..., rows) array
        By which the rows of C were multiplied.
    b_scale : (systems,) array
    finite : (systems,) array
        Mask of the systems whose arguments were finite; all others are replaced by
        zeros.
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
    b_scale: Array
    finite: Array
    rounded_matrix: bool

    @classmethod
    def of(cls, problem: Problem, rows: Rows, chunk: slice) -> ConstrainedSystem:
        """The systems of a chunk of the flattened batch."""
        xp, batch = namespace(problem.A), problem.batch
        count, (m, _) = chunk.stop - chunk.start, problem.shape

        def part(value: Option, core: int) -> Array:
            array = xp.asarray(value, np.float64)
            array = array if array.ndim >= core else array[None]
            return gather(array, core, batch, chunk)

        A, b = part(problem.A, 2), part(problem.b, 1)
        if problem.weights is not None:
            A, b = weighted(A, b, part(problem.weights, 1))
        C, d = part(rows.C, 2), part(rows.d, 1)
        given = A, b, part(problem.l1, 1), part(problem.l2, 1), C
        finite = xp.ones(count, bool)
        for array, core in zip(given, (2, 1, 1, 1, 2), strict=True):
            finite = finite & xp.isfinite(array).all(axis=tuple(range(-core, 0)))
        last = d[..., d.shape[-1] - rows.equalities :]
        finite = finite & ~xp.isnan(d).any(axis=-1) & xp.isfinite(last).all(axis=-1)
        finite = finite & ~(d[..., : rows.counts[0]] == np.inf).any(axis=-1)
        A, b, l1, l2, C = (xp.where(xp.isfinite(array), array, 0) for array in given)
        d = xp.where(xp.isnan(d), 0, d)
        system = cls(
            A=A,
            b=xp.broadcast_to(b, (count, m)),
            l1=l1,
            l2=l2,
            lower=part(problem.lower, 1),
            upper=part(problem.upper, 1),
            C=C,
            d=d,
            counts=rows.counts,
            scale=xp.ones(0),
            row_scale=xp.ones(0),
            b_scale=xp.ones(0),
            finite=finite,
            rounded_matrix=problem.rounded_matrix,
        )
        return system.scaled()

    def scaled(self) -> ConstrainedSystem:
        """Scale variables, right-hand sides and rows by powers of two."""
        xp = namespace(self.A)
        size = column_norms(self.A, self.l2)
        of_rows = largest(xp.abs(self.C), axis=-2)
        scale = inverse_power_of_two(xp.where(size > 0, size, of_rows))
        C = self.C * scale[..., None, :]
        row_scale = inverse_power_of_two(largest(xp.abs(C)))
        b_scale = inverse_power_of_two(largest(xp.abs(self.b)))
        by_b = b_scale[..., None]
        return self._replace(
            A=self.A * scale[..., None, :],
            b=self.b * by_b,
            l1=self.l1 * scale * by_b,
            l2=self.l2 * scale * scale,
            lower=self.lower * by_b / scale,
            upper=self.upper * by_b / scale,
            C=C * row_scale[..., None],
            d=self.d * row_scale * by_b,
            scale=scale,
            row_scale=row_scale,
            b_scale=b_scale,
        )

    def take(self, systems: Array) -> ConstrainedSystem:
        """Select systems by indices; what all systems share stays shared."""
        fields: dict[str, Any] = {
            name: getattr(self, name)[systems]
            for name, axes in CORE_AXES.items()
            if getattr(self, name).ndim > axes
        }
        return self._replace(**fields)

    @property
    def equalities(self) -> int:
        """The number of rows that hold with equality."""
        return sum(self.counts[3:])

    @property
    def inequalities(self) -> int:
        """The number of rows of inequalities: the first rows."""
        return sum(self.counts[:3])

    @property
    def general(self) -> Array:
        """1 for the rows of general constraints, 0 for bounds; (rows,)."""
        kinds = np.repeat([1.0, 0.0, 0.0, 1.0, 1.0], self.counts)
        return namespace(self.A).asarray(kinds)

    def parts(self, values: Array) -> list[Array]:
        """Values of all rows, (..., rows), split by the kind of row."""
        ends = itertools.accumulate(self.counts, initial=0)
        return [values[..., first:end] for first, end in itertools.pairwise(ends)]

    def with_sides(self, at: Array, sides: Array) -> ConstrainedSystem:
        """The systems, with the given sides of the general rows of some systems."""
        xp, kept = namespace(sides), self.general > 0
        d = xp.broadcast_to(self.d, (len(self.b), self.d.shape[-1])).copy()
        row_scale = self.row_scale if self.row_scale.ndim == 1 else self.row_scale[at]
        scaled = sides * row_scale[..., kept] * self.b_scale[at][:, None]
        d[at[:, None], xp.flatnonzero(kept)] = scaled
        return self._replace(d=d)

    @property
    def norm(self) -> Array:
        """The norms of the columns, with their l2."""
        return namespace(self.A).sqrt((self.A**2).sum(axis=-2) + self.l2)

    @property
    def work(self) -> float:
        """An estimate of the multiplications of a step; 0 on a GPU."""
        if is_cupy(self.b):
            return 0.0
        (m, n), rows = self.A.shape[-2:], self.C.shape[-2]
        return float(len(self.b) * n * n * (m + n + rows))

    def residual(self, x: Array, rest: Array | None = None) -> Array:
        """``b - A x``; where terms cancel, in more than the working precision.

        With a rest, which is less than the rounding errors of x, of their sum.
        """
        xp = namespace(x)
        if rest is not None:
            return self.residual(x) - product(self.A, rest)
        if not bool(x.any()):
            return self.b.copy()
        r = self.b - product(self.A, x)
        terms = size_of(self.b) + (self.norm * xp.abs(x)).sum(axis=-1)
        at = xp.flatnonzero(ACCURATE * size_of(r) < terms)
        if len(at):
            some = self.A if self.A.ndim == 2 else self.A[at]
            r[at], _ = remainder(self.b[at], some, x[at])
        return r

    def rows_with_l2(self) -> Array:
        """A, and the diagonal of the roots of l2 below it; at least n rows."""
        xp, (m, n) = namespace(self.A), self.A.shape[-2:]
        root = xp.sqrt(self.l2)
        if m >= n and not bool(root.any()):
            return self.A
        leading = np.broadcast_shapes(self.A.shape[:-2], root.shape[:-1])
        below = root[..., None, :] * xp.eye(n)
        rows = [(self.A, m), (below, n)]
        whole = [xp.broadcast_to(part, (*leading, k, n)) for part, k in rows]
        return xp.concatenate(whole, axis=-2)

    def slope(self, x: Array, r: Array) -> Array:
        """The negative gradient; r is the residual of x."""
        return transposed_product(self.A, r) - self.l1 - self.l2 * x

    def constraint_residual(self, x: Array, rest: Array) -> Array:
        """``d - C (x + rest)``, in twice the working precision."""
        if not bool(x.any()):
            return self.d - product(self.C, rest)
        absent = self.d == -np.inf
        found, _ = remainder(namespace(x).where(absent, 0, self.d), self.C, x)
        return namespace(x).where(absent, self.d, found - product(self.C, rest))

    def within_bounds(self, x: Array) -> Array:
        """The nearest points within the bounds."""
        xp = namespace(x)
        return xp.minimum(xp.maximum(x, self.lower), self.upper)


CORE_AXES = {
    "A": 2,
    "b": 1,
    "l1": 1,
    "l2": 1,
    "lower": 1,
    "upper": 1,
    "C": 2,
    "d": 1,
    "scale": 1,
    "row_scale": 1,
    "b_scale": 0,
    "finite": 0,
}
"""The number of axes of an array that belong to one system."""


def size_of(vectors: Array) -> Array:
    """2-norms over the last axis."""
    return namespace(vectors).sqrt((vectors * vectors).sum(axis=-1))


def column_norms(A: Array, l2: Array) -> Array:
    """``sqrt(|a_k|^2 + l2_k)`` of all columns, whose squares may be out of range."""
    xp = namespace(A)
    scale = inverse_power_of_two(xp.maximum(largest(xp.abs(A), axis=-2), xp.sqrt(l2)))
    rows = A * scale[..., None, :]
    norm = xp.sqrt((rows**2).sum(axis=-2) + l2 * scale * scale) / scale
    return xp.minimum(norm, np.finfo(np.float64).max)


def inverse_factor(system: ConstrainedSystem) -> Array:
    """Z with ``Z Z^T = (A^T A + diag(l2) + proximal term)^-1``, (..., n, n).

    Matrices whose columns are almost dependent have a proximal term.
    """
    xp, n = namespace(system.A), system.A.shape[-1]
    R = xp.linalg.qr(system.rows_with_l2(), mode="r")
    diagonal = xp.abs(xp.diagonal(R, axis1=-2, axis2=-1))
    weak = (diagonal < LEAST).any(axis=-1)
    Z = xp.linalg.inv(xp.where(weak[..., None, None], xp.eye(n), R))
    weak = weak | ((Z**2).sum(axis=(-2, -1)) > n / LEAST**2)
    return replace_weak(Z, R, xp.flatnonzero(weak)) if bool(weak.any()) else Z


def replace_weak(Z: Array, R: Array, at: Array) -> Array:
    """Z, with a proximal term in the matrices `at` of the flattened batch."""
    xp, n = namespace(R), R.shape[-1]
    found, R = Z.reshape(-1, n, n).copy(), R.reshape(-1, n, n)
    _, values, rows = xp.linalg.svd(R[at])
    least = n * EPS * largest(values, keepdims=True)
    term = xp.where(values <= least, OF_DEPENDENCE, xp.where(values < LEAST, LEAST, 0))
    size = xp.sqrt(values**2 + term**2)
    found[at] = xp.swapaxes(rows / size[..., None], -1, -2)
    return found.reshape(Z.shape)


# ---- certificates --------------------------------------------------------------------


class ConstrainedCertificate(NamedTuple):
    """How far a point is from the optimum.

    Attributes
    ----------
    r : (systems, m) array
        The residual.
    w : (systems, n) array
        The negative gradient of the Lagrangian.
    by_x : (systems,) array
        The gap and ``|A (x - z)|``, relative.
    angle : (systems,) array
        The violation of the optimality conditions by w.
    lack : (systems,) array
        The largest violation of a constraint, relative to the size of its terms.
    size : (systems,) array
        ``sum_k |a_k x_k|``, relative.
    trivial : (systems,) array
        A bound of `by_x` and of `angle` that needs no multipliers.
    """

    r: Array
    w: Array
    by_x: Array
    angle: Array
    lack: Array
    size: Array
    trivial: Array

    @property
    def kkt(self) -> Array:
        """The certificate; infinite for a point that is not feasible."""
        xp = namespace(self.by_x)
        most = CERTIFIED[np.dtype(np.float64)]
        return xp.where(self.lack <= most, self.by_x + self.angle, np.inf)

    @property
    def badness(self) -> Array:
        """`kkt`, and the violation of constraints; a better point has less."""
        xp, most = namespace(self.by_x), CERTIFIED[np.dtype(np.float64)]
        kkt = self.by_x + self.angle
        found = xp.where(self.lack <= most, kkt + self.lack, self.lack / EPS)
        return xp.where(xp.isnan(found), np.inf, found)

    def accepts(self, tol: float, dtype: np.dtype[Any]) -> Array:
        """Whether the points are certified, when they are rounded to `dtype`."""
        good = accepts(self.by_x, self.angle, self.size, dtype, tol)
        return good & self.is_feasible

    @property
    def is_feasible(self) -> Array:
        """Whether points satisfy all constraints, up to half of what is allowed.

        The other half may be due to sides that were moved within their rounding.
        """
        return self.lack <= CERTIFIED[np.dtype(np.float64)] / 2


def certify(
    system: ConstrainedSystem,
    x: Array,
    multipliers: Array,
    rest: Array,
    x_rest: Array,
) -> ConstrainedCertificate:
    """Certify points in scaled variables.

    Parameters
    ----------
    system : ConstrainedSystem
    x : (systems, n) array
        Points within the bounds.
    multipliers, rest : (systems, rows) array
        Their sums are the multipliers. Multipliers of bounds are not used: w has them.
    x_rest : (systems, n) array
        The residual of ``x + x_rest`` is the witness.
    """
    xp = namespace(x)
    multipliers, rest = multipliers * system.general, rest * system.general
    r, image = system.residual(x), product(system.A, x_rest)
    y = r - image
    length = xp.sqrt((y * y).sum(axis=-1) + (system.l2 * x * x).sum(axis=-1))
    magnitude = size_of(system.b) + least_activity(system)
    C, size, of_columns = xp.abs(system.C), xp.abs(multipliers), column_size(system)
    terms = product(C, xp.abs(x)) + xp.abs(zero_infinities(system.d))
    of_gap = ratio((size * terms).sum(axis=-1), magnitude)
    of_w = largest(transposed_product(C, size) / of_columns)
    slope, lack = system.slope(x, y), system.d - product(system.C, x)
    w = slope + transposed_product(system.C, multipliers + rest)
    at = xp.flatnonzero(xp.maximum(of_gap, of_w) > ACCURATE * length)
    if len(at):
        few = system.take(at)
        lack[at] = few.constraint_residual(x[at], 0 * x[at])
        w[at] = gradient_of_lagrangian(few, slope[at], multipliers[at], rest[at])
    lack = zero_infinities(lack)
    bound = xp.where(w > 0, system.upper, system.lower)
    at_bound = xp.abs(bound - x) <= xp.abs(x)
    nearest = xp.where(at_bound, bound, 0)
    gap = (w * (nearest - x - x_rest)).sum(axis=-1)
    gap = gap - (multipliers * (lack - product(system.C, x_rest))).sum(axis=-1)
    by_x, angle, limit = distance_to_optimum(
        Terms(
            length,
            magnitude,
            apart=size_of(image),
            gap=gap,
            slope=largest(ratio(xp.where(at_bound, 0, xp.abs(w)), of_columns)),
            slack=xp.where(could_fall(system, x), np.inf, 0.0),
        )
    )
    return ConstrainedCertificate(
        r=r,
        w=w,
        by_x=by_x,
        angle=angle,
        lack=relative_residual(system, lack, terms, magnitude) + 0 * x.sum(axis=-1),
        trivial=limit,
        size=ratio((system.norm * xp.abs(x)).sum(axis=-1), magnitude),
    )


def multiplier_terms(
    system: ConstrainedSystem,
    x: Array,
    multipliers: Array,
    rest: Array,
    is_feasible: Array,
) -> MultiplierTerms:
    """The pull of the general constraints at points in scaled variables."""
    xp, by_b = namespace(x), system.b_scale
    multipliers, rest = multipliers * system.general, rest * system.general
    found = gradient_of_lagrangian(system, 0 * x, multipliers, rest)
    gap = (multipliers * zero_infinities(system.constraint_residual(x, 0 * x))).sum(
        axis=-1
    )
    C = xp.abs(system.C * system.general[:, None] / system.scale[..., None, :])
    most = largest(C, keepdims=True)
    share = largest(C / xp.where(most > 0, most, 1), axis=-2)
    return MultiplierTerms(
        slope=-found / system.scale / by_b[:, None],
        gap=-gap / by_b**2,
        least_activity=least_activity(system) / by_b,
        share=share + 0 * x,
        is_feasible=is_feasible,
    )


def gradient_of_lagrangian(
    system: ConstrainedSystem, slope: Array, multipliers: Array, rest: Array
) -> Array:
    """``slope + C^T (multipliers + rest)`` in twice the working precision."""
    found, _ = remainder(slope, transposed(system.C), -multipliers)
    return found + transposed_product(system.C, rest)


def could_fall(system: ConstrainedSystem, x: Array) -> Array:
    """Whether the l1 penalty could be smaller within the bounds."""
    xp, l1 = namespace(x), system.l1
    least = xp.where(l1 > 0, system.lower, system.upper)
    return ((l1 != 0) & (x != least)).any(axis=-1)


def least_activity(system: ConstrainedSystem) -> Array:
    """A bound from below of the largest ``|a_k x_k|`` of all feasible x.

    Columns of zeros count with their scale.
    """
    xp, d = namespace(system.C), zero_infinities(system.d)
    first = d.shape[-1] - system.equalities
    size = xp.where(xp.arange(d.shape[-1]) < first, xp.maximum(d, 0), xp.abs(d))
    per_unit = product(xp.abs(system.C), 1 / column_size(system))
    return largest(ratio(size, per_unit))


def relative_residual(
    system: ConstrainedSystem, lack: Array, terms: Array, magnitude: Array
) -> Array:
    """The largest violation of a constraint, relative to the size of its terms.

    Terms count with at least a `SHARE` of their size for an x with ``|a_k x_k|`` of
    `magnitude`.
    """
    xp, first = namespace(lack), system.inequalities
    equal = xp.arange(lack.shape[-1]) >= first
    lack = xp.where(equal, xp.abs(lack), xp.maximum(lack, 0))
    per_unit = product(xp.abs(system.C), 1 / column_size(system))
    size = terms + SHARE * magnitude[..., None] * per_unit
    return largest(ratio(lack, size))


def column_size(system: ConstrainedSystem) -> Array:
    """The norms of the columns; 1, their scale, for columns of zeros."""
    norm = system.norm
    return namespace(norm).where(norm > 0, norm, 1)


def zero_infinities(values: Array) -> Array:
    """The values, with 0 in place of infinities."""
    xp = namespace(values)
    return xp.where(xp.isinf(values), 0, values)
