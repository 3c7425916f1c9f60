"""Quadratic objectives: as least squares, and certified in their own terms.

The variables of a :class:`Quadratic` are scaled by powers of two, which is exact.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, namespace
from .._device.products import transposed
from .._numerics.arithmetic import remainder
from .._numerics.certificate import CERTIFIED, ratio
from .problem import Option

NULL = 8.0
"""Eigenvalues of at most this number times ``n eps`` of their sum count as zero."""

MOST = 4.0
"""Limit on elements, if the diagonal elements are less than 2. A larger element, also
infinity and NaN, means a negative eigenvalue, and LAPACK might find no eigenvalue."""

ROUNDED = 16.0
"""Limit on rounding errors, in eps of the terms that cancel."""

EPS = float(np.finfo(np.float64).eps)


class Quadratic(NamedTuple):
    """``x G x / 2 - c x`` in float64, in scaled variables.

    Attributes
    ----------
    G : (..., n, n) array
        The diagonal is in [0.5, 2). A variable without curvature has a row of zeros.
    c : (..., n) array
    scale : (..., n) array
        Powers of two: the given variables are the scaled variables times `scale`.
    values, vectors : (..., n), (..., n, n) array
        Eigenvalues and eigenvectors of G.
    least : (..., 1) array
        The largest eigenvalue that counts as zero.
    usable : (...,) array
        Whether G is finite, and no eigenvalue is negative beyond rounding.
    eps : float
        The machine epsilon of the dtype in which G was given: its rounding.
    dtype : dtype
        The dtype of x.
    """

    G: Array
    c: Array
    scale: Array
    values: Array
    vectors: Array
    least: Array
    usable: Array
    eps: float
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, G: Array, c: Array, eps: float) -> Quadratic:
        """Scale the variables, and factorise the matrices."""
        xp, dtype, n = namespace(G), G.dtype, G.shape[-1]
        G, c = G.astype(np.float64, copy=False), c.astype(np.float64, copy=False)
        diagonal = xp.diagonal(G, axis1=-2, axis2=-1)
        curved = diagonal > 0
        exponent = xp.frexp(xp.where(xp.isfinite(diagonal) & curved, diagonal, 1))[1]
        scale = xp.ldexp(xp.ones(diagonal.shape), -(exponent // 2))
        with np.errstate(over="ignore"):
            G = scale[..., :, None] * G * scale[..., None, :]
        within = (xp.abs(G) < MOST).all(axis=(-2, -1))
        G = xp.where(within[..., None, None], G, xp.eye(n))
        values, vectors = xp.linalg.eigh(G)
        least = NULL * n * eps * size(values)
        usable = within & (curved | (G == 0).all(axis=-1)).all(axis=-1)
        usable = usable & (values >= -least).all(axis=-1)
        return cls(G, c * scale, scale, values, vectors, least, usable, eps, dtype)

    @property
    def norm(self) -> Array:
        """The roots of the diagonal of G."""
        xp = namespace(self.G)
        diagonal = xp.diagonal(self.G, axis1=-2, axis2=-1)
        return xp.sqrt(xp.where(diagonal > 0, diagonal, 0))

    @property
    def curved(self) -> Array:
        """Mask of the variables whose row of G is not zero."""
        return self.norm > 0

    def divide_by_norm(self, v: Array) -> Array:
        """v, divided by `norm`; 0 for variables without curvature."""
        xp, curved = namespace(v), self.curved
        return xp.where(curved, v / xp.where(curved, self.norm, 1), 0)

    def least_squares(self) -> tuple[Array, Array, Array]:
        """A, b and p with ``|A x - b|^2 / 2 + p x`` equal up to a constant.

        They are in the given variables and dtype. A is NaN where G is not `usable`.
        Variables without curvature have columns of zeros.
        """
        xp = namespace(self.G)
        curved = self.curved
        positive = self.values > self.least
        root = xp.sqrt(xp.where(positive, self.values, 1))
        along = combined(xp.where(curved, self.c, 0), self.vectors)
        b = xp.where(positive, along / root, 0)
        null = self.outside_range(along, positive)
        linear = xp.where(curved, -combined(null, transposed(self.vectors)), -self.c)
        columns = xp.where(positive, root, 0)[..., :, None] * transposed(self.vectors)
        A = xp.where(curved[..., None, :], columns, 0) / self.scale[..., None, :]
        A = xp.where(self.usable[..., None, None], A, math.nan)
        linear = linear / self.scale
        return A.astype(self.dtype, copy=False), b.astype(self.dtype), linear

    def outside_range(self, along: Array, positive: Array) -> Array:
        """The part of c along eigenvectors of eigenvalue 0; 0 where it is rounding.

        These eigenvectors have errors of eps over the least other eigenvalue. What c
        has along the errors is not rounding: the other eigenvectors lack it.
        """
        xp = namespace(along)
        rounding = self.least * size(along)
        null = xp.where(positive, 0, along)
        return xp.where(xp.abs(null) > rounding, null, 0)


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


class Certificate(NamedTuple):
    """How far x is from the minimum of a quadratic objective within bounds.

    Attributes
    ----------
    dual : (..., n) array
        ``c - G x`` minus the multiplier of a fixed sum and the pull of constraints, in
        the given variables.
    kkt : (...,) array
    is_feasible : (...,) array
        Whether x has the fixed sum and satisfies the constraints, and all variables
        are within their bounds.
    """

    dual: Array
    kkt: Array
    is_feasible: Array

    def accepts(self, tol: float | None, dtype: np.dtype[Any]) -> Array:
        """Whether x is certified."""
        most = max(CERTIFIED[dtype], 0.0 if tol is None else tol)
        return (self.kkt <= most) & self.is_feasible


@np.errstate(all="ignore")
def certify(
    objective: Quadratic,
    x: Array,
    lower: Option,
    upper: Option,
    total: Option | None,
    rows: MultiplierTerms | None = None,
) -> Certificate:
    """Certify x from the G and c that were given; NaN if x is NaN.

    ``w = c - G x`` is computed in twice the working precision. Let v be the part of w
    that violates the optimality conditions. For every feasible x',

        ``f(x) - f(x') <= v (x' - x) - (x' - x) G (x' - x) / 2 <= v G^-1 v / 2``.

    `kkt` is the larger of two numbers. The first is the largest v_j, relative to
    S = ``|c_j| + |w_j| + sum_k |G_jk z_k|`` for the feasible z next to 0, where v_j and
    S are divided by the root of G_jj, and S is the largest over j. The second is the
    bound of ``f(x) - f(x')``, relative to ``x G x / 2 + |c x| + eps S^2``. It leaves
    out rounding errors of v, and raises eigenvalues to `least`. Neither S nor the terms
    of f grow with an x whose terms cancel.

    Linear constraints take the `slope` of their multipliers from w. Their gap is added
    to the bound of ``f(x) - f(x')``, and their least activity to S. Rounding errors of
    w, of the gap and of their terms are left out.
    """
    xp, scale = namespace(x), objective.scale
    x, lower, upper = x.astype(np.float64) / scale, lower / scale, upper / scale
    rises, falls = x < upper, x > lower
    feasible = ((x >= lower) & (x <= upper)).all(axis=-1)
    w, terms = remainder(objective.c, objective.G, x)
    rest = xp.minimum(xp.maximum(0 * x, lower), upper)
    magnitude = size_of_slopes(objective, w, rest, total)
    if rows is not None:
        magnitude = magnitude + rows.least_activity
    value = xp.abs(((objective.c - w) * x).sum(axis=-1)) / 2
    value = value + xp.abs((objective.c * x).sum(axis=-1))
    value = value + objective.eps * magnitude**2
    gap: Any = 0.0
    rounding: Any = 0.0
    if rows is not None:
        slope, feasible = rows.slope * scale, feasible & rows.is_feasible
        w, rounding = w - slope, ROUNDED * EPS * terms
        gap = xp.abs(rows.gap) - ROUNDED * objective.eps * rows.gap_terms
        gap = xp.maximum(gap, 0)
        terms = terms + xp.abs(slope) + rows.share * scale * magnitude[..., None]
    if total is not None:
        found = multiplier(w / scale, objective.norm / scale, rises, falls)
        shift = found[..., None] * scale
        w, terms = w - shift, terms + xp.abs(shift)
        feasible = feasible & has_sum(objective, x, total)
    v = xp.where((rises & (w > 0)) | (falls & (w < 0)), xp.abs(w), 0)
    v = xp.maximum(v - rounding, 0)
    slope = objective.divide_by_norm(v).max(axis=-1)
    flat = ~objective.curved & (v > ROUNDED * EPS * terms)
    kkt = xp.maximum(
        ratio(slope, magnitude),
        ratio(decrease(objective, v * xp.sign(w), magnitude) + gap, value),
    )
    kkt = xp.where(flat.any(axis=-1), math.inf, kkt)
    return Certificate(w / scale, kkt + 0 * x.sum(axis=-1), feasible)


def size_of_slopes(
    objective: Quadratic, w: Array, rest: Array, total: Option | None
) -> Array:
    """S of `certify`; `rest` is z. With a fixed sum, x - z adds to it."""
    xp, scale = namespace(w), objective.scale
    _, at_rest = remainder(objective.c, objective.G, rest)
    magnitude = objective.divide_by_norm(xp.abs(w) + at_rest).max(axis=-1)
    if total is not None:
        left = xp.abs(xp.asarray(total) - (rest * scale).sum(axis=-1))
        magnitude = magnitude + left * (objective.norm / scale).min(axis=-1)
    return magnitude


def decrease(objective: Quadratic, v: Array, magnitude: Array) -> Array:
    """``v G^-1 v / 2``, without rounding errors of v."""
    xp = namespace(v)
    v = xp.where(objective.curved, v, 0)
    along = xp.abs(combined(v, objective.vectors))
    along = xp.maximum(along - ROUNDED * objective.eps * magnitude[..., None], 0)
    gap = along**2 / xp.maximum(objective.values, objective.least)
    return xp.where(along == 0, 0, gap).sum(axis=-1) / 2


def has_sum(objective: Quadratic, x: Array, total: Option) -> Array:
    """Whether the sum of the given variables is `total`, up to rounding of x."""
    xp = namespace(x)
    row = objective.scale[..., None, :]
    lack, terms = remainder(xp.asarray(total)[..., None], row, x)
    eps = float(np.finfo(objective.dtype).eps)
    return (xp.abs(lack) <= ROUNDED * eps * terms)[..., 0]


def multiplier(w: Array, norm: Array, rises: Array, falls: Array) -> Array:
    """The multiplier of a fixed sum, for the gradient w and the norms of the columns.

    w is the multiplier where a variable is free. A free variable without curvature
    determines it. At a bound, w bounds it from one side.
    """
    xp = namespace(w)
    free = rises & falls
    flat = free & (norm == 0)
    chosen = xp.where(flat.any(axis=-1, keepdims=True), flat, free)
    least = xp.where(chosen, norm, math.inf).min(axis=-1, keepdims=True)
    weight = xp.where(chosen, xp.where(flat, 1, least / norm) ** 2, 0)
    mean = (weight * w).sum(axis=-1) / weight.sum(axis=-1)
    up = xp.where(rises, w, -math.inf).max(axis=-1)
    down = xp.where(falls, w, math.inf).min(axis=-1)
    low, high = xp.minimum(up, down), xp.maximum(up, down)
    bound = xp.where(xp.isfinite(low), low, xp.where(xp.isfinite(high), high, 0))
    mean = xp.where(free.any(axis=-1), mean, bound)
    return xp.minimum(xp.maximum(mean, low), high)


def combined(c: Array, vectors: Array) -> Array:
    """``c V`` for each system."""
    return namespace(c).matmul(c[..., None, :], vectors)[..., 0, :]


def size(values: Array) -> Array:
    """The sum of magnitudes along the last axis, which is kept."""
    return namespace(values).abs(values).sum(axis=-1, keepdims=True)
