"""Least-squares systems in scaled variables: what solvers and certificates share.

All scales are powers of two. Multiplication by them is exact, so the solution of the
scaled system is the solution of the original system to the last bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arithmetic import (
    Array,
    exponent,
    inverse_power_of_two,
    namespace,
    remainder,
    shifted,
)

ACCURATE = 64.0
"""A row of ``b - A x`` is recomputed in twice the precision if the sum of its terms'
magnitudes is more than this number times the norm of the residual."""

BLOCK = 2**16
"""Number of products computed at once in twice the precision, to stay in cache."""


class System(NamedTuple):
    """``min |A x - b|^2 + |damping x|^2 + 2 penalty x`` in scaled variables.

    The minimum is over ``lower <= x <= upper``, and over ``row x = total`` if the sum
    of the original variables is fixed. Residuals and witnesses have the rows of A, then
    the row of a fixed sum, and the rows of the l2 penalty. All feasible x satisfy the
    row of the sum: its element of a witness is the multiplier of the constraint.

    Attributes
    ----------
    A : (..., m, n) array
        The matrix. The largest magnitude in each column, or its damping if that is
        larger, is in [0.5, 1).
    b : (..., m) array
        The right-hand side. Its largest magnitude is in [0.5, 1).
    row : (..., n) array or None
        The row of a fixed sum, whose largest element is 1.
    total : (...,) array or None
        The right-hand side of this row.
    column_scale : (..., n) array
        Powers of two by which the columns of the original matrix were multiplied.
    b_scale : (...,) array
        Powers of two by which the original right-hand sides were multiplied.
    damping : (..., n) array
        The square root of ``l2`` in the scaled variables.
    penalty : (..., n) array
        ``l1`` in the scaled variables.
    norm : (..., n) array
        2-norms of the columns of all rows.
    lower, upper : (..., n) array
        The bounds, possibly infinite.
    magnitude : (...,) array
        ``|b|`` with `total`, plus the size of ``A x`` if x has to be different from 0:
        what the certificate is relative to.
    has_ridge : bool
        Whether there may be an l2 penalty.
    dtype : dtype
        The dtype of returned solutions, which may be less precise than `A`.
    rounded_matrix : bool
        Whether A was computed, so that its elements have rounding errors.
    """

    A: Array
    b: Array
    row: Array | None
    total: Array | None
    column_scale: Array
    b_scale: Array
    damping: Array
    penalty: Array
    norm: Array
    lower: Array
    upper: Array
    magnitude: Array
    has_ridge: bool
    dtype: np.dtype[Any]
    rounded_matrix: bool = False

    @property
    def eps(self) -> float:
        """Machine epsilon of the dtype of solutions."""
        return float(np.finfo(self.dtype).eps)

    @property
    def has_sum(self) -> bool:
        """Whether the sum is fixed."""
        return self.row is not None

    @property
    def rest(self) -> Array:
        """The feasible values next to 0; for columns of zeros, the cheapest values."""
        idle = np.where(self.norm == 0, self.penalty, 0)
        cheap = np.where(idle > 0, self.lower, np.where(idle < 0, self.upper, 0.0))
        cheap = np.where(np.isfinite(cheap), cheap, 0.0)
        return np.asarray(np.clip(cheap, self.lower, self.upper))

    def take(self, systems: NDArray[np.intp]) -> Self:
        """Select systems of a batch; an array that all systems share stays shared."""
        fields: dict[str, Any] = {}
        for name, axes in AXES.items():
            value = getattr(self, name)
            if value is not None and value.ndim > axes:
                of_rows = name in ("A", "b")
                fields[name] = value[self.there(systems) if of_rows else systems]
        return self._replace(**fields)

    # ---- the operator; sparse matrices have their own first methods ------------------

    def data_residual(self, x: Array) -> Array:
        """``b - A x``, accurate to a few eps of its own norm.

        Rows in which more cancels are computed in twice the precision.
        """
        r = self.b - self.product(x)
        cancelling = self.magnitude + self.size(x)
        inaccurate = np.flatnonzero(ACCURATE * norm(r) < cancelling)
        if inaccurate.size:
            recompute(np.atleast_2d(r), self, np.atleast_2d(x), inaccurate)
        return r

    def product(self, x: Array) -> Array:
        """``A x``."""
        return np.asarray(np.matmul(self.A, x[..., None])[..., 0])

    def transposed_product(self, r: Array) -> Array:
        """``A^T r``."""
        return np.asarray(np.matmul(r[..., None, :], self.A)[..., 0, :])

    def norms(self, vectors: Array) -> Array:
        """2-norms over the last axis of vectors of rows."""
        return norm(vectors)

    def there(self, values: Any) -> Any:
        """An array where residuals are."""
        return values

    def below(self, r: Array) -> Array:
        """The elements of r after the rows of A, where x is."""
        return r[..., self.b.shape[-1] :]

    def residual(self, x: Array) -> Array:
        """``b - A x``, then ``total - row x`` and ``-damping x`` where they apply."""
        of_sum = self.missing(x) if self.has_sum else None
        return self.stacked(self.data_residual(x), of_sum, -self.damping * x)

    def image(self, z: Array) -> Array:
        """By how much the residual of x is above the residual of ``x + z``."""
        of_sum = None if self.row is None else np.sum(self.row * z, axis=-1)
        return self.stacked(self.product(z), of_sum, self.damping * z)

    def stacked(self, r: Array, of_sum: Array | None, of_ridge: Array) -> Array:
        """Elements of all rows: of A, of a fixed sum, and of the l2 penalty."""
        parts = [r]
        if of_sum is not None:
            parts.append(self.there(of_sum[..., None]))
        if self.has_ridge:
            parts.append(self.there(of_ridge))
        return r if len(parts) == 1 else namespace(r).concatenate(parts, axis=-1)

    def gradient(self, r: Array) -> Array:
        """``A^T r - penalty``; A and r include all rows."""
        w, below = self.transposed_product(r[..., : self.b.shape[-1]]), self.below(r)
        if self.row is not None:
            w = w + below[..., :1] * self.row
        if self.has_ridge:
            w = w + self.damping * below[..., int(self.has_sum) :]
        return np.asarray(w - self.penalty)

    def length(self, r: Array) -> Array:
        """The 2-norm of r without the row of a fixed sum."""
        if not self.has_sum:
            return self.norms(r)
        m = self.b.shape[-1]
        return np.hypot(self.norms(r[..., :m]), self.norms(r[..., m + 1 :]))

    def fit(self, r: Array) -> Array:
        """``|b - A x|`` of a residual."""
        return self.norms(r[..., : self.b.shape[-1]])

    def size(self, x: Array) -> Array:
        """``sum_k |a_k x_k|``."""
        return np.asarray(np.einsum("...j,...j->...", self.norm, np.abs(x)))

    def missing(self, x: Array) -> Array:
        """``total - row x``, in twice the precision."""
        assert self.row is not None
        assert self.total is not None
        found, _ = remainder(self.total[..., None], self.row[..., None, :], x)
        return found[..., 0]

    # ---- units -----------------------------------------------------------------------

    def unscale(self, x: Array) -> Array:
        """A solution in the original variables."""
        return shifted(x, exponent(self.column_scale) - self._b_exponent)

    def rescale(self, x: Array) -> Array:
        """A point in the scaled variables; the inverse of `unscale`."""
        return shifted(x, self._b_exponent - exponent(self.column_scale))

    def unscale_dual(self, w: Array) -> Array:
        """A gradient with respect to the original variables."""
        return shifted(w, -exponent(self.column_scale) - self._b_exponent)

    def rounded(self, x: Array) -> Array:
        """A point in the scaled variables, rounded as if returned in `dtype`."""
        with np.errstate(over="ignore"):
            return self.rescale(self.unscale(x).astype(self.dtype).astype(x.dtype))

    def rescaled_bound(self, bound: Array) -> Array:
        """A bound in the scaled variables; zeros and infinities stay shared."""
        if bool(np.all((bound == 0) | np.isinf(bound))):
            return np.asarray(bound + np.zeros(self.A.shape[-1:], bound.dtype))
        return self.rescale(bound)

    @property
    def _b_exponent(self) -> NDArray[np.intc]:
        return exponent(self.b_scale)[..., None]


AXES = {
    "A": 2,
    "b": 1,
    "row": 1,
    "total": 0,
    "column_scale": 1,
    "b_scale": 0,
    "damping": 1,
    "penalty": 1,
    "norm": 1,
    "lower": 1,
    "upper": 1,
    "magnitude": 0,
}
"""The number of axes of an array of `System` that belong to one system."""


def norm(vectors: Array) -> Array:
    """2-norms over the last axis."""
    return np.asarray(np.sqrt(np.einsum("...i,...i->...", vectors, vectors)))


def recompute(r: Array, system: System, x: Array, systems: NDArray[np.intp]) -> None:
    """Recompute the inaccurate rows of some systems' residuals in place."""
    b, A = np.atleast_2d(system.b), system.A
    A = A if A.ndim == 2 else A[systems]
    terms = np.abs(b[systems])
    terms += np.matmul(np.abs(A), np.abs(x[systems, :, None]))[..., 0]
    lane, row = np.nonzero(terms > ACCURATE * norm(r[systems])[:, None])
    step = max(1, BLOCK // max(1, x.shape[-1]))
    for first in range(0, len(lane), step):
        k, i = lane[first : first + step], row[first : first + step]
        a, at = A[i] if A.ndim == 2 else A[k, i], systems[k]
        r[at, i] = remainder(b[at, i, None], a[:, None], x[at])[0][:, 0]


def scale(
    A: Array,
    b: Array,
    l1: ArrayLike = 0.0,
    l2: ArrayLike = 0.0,
    dtype: np.dtype[Any] | None = None,
    *,
    bounds: tuple[ArrayLike, ArrayLike] = (0.0, np.inf),
    sum_to: ArrayLike | None = None,
) -> System:
    """Scale systems whose entries are all finite.

    Parameters
    ----------
    A : (..., m, n) array
    b : (..., m) array
        The leading axes broadcast; a shared ``A`` stays shared.
    l1, l2 : (..., n) array_like or float
        Weights of the penalties ``sum(l1 x)`` and ``sum(l2 x**2) / 2``.
    dtype : dtype, optional
        The dtype of returned solutions. Default: the dtype of `A`.
    bounds : tuple of (..., n) array_like or float
        The lower and upper bounds.
    sum_to : (...,) array_like, optional
        The sum of x.
    """
    real, row, total = A.dtype.type, None, None
    root = np.sqrt(np.asarray(l2, A.dtype)) + np.zeros(A.shape[-1:], A.dtype)
    largest = np.max(np.abs(A), axis=-2, initial=0)
    of_column = root.max(axis=tuple(range(root.ndim - 1))) if A.ndim == 2 else root
    column_scale = inverse_power_of_two(np.maximum(largest, of_column))
    b_scale = inverse_power_of_two(np.max(np.abs(b), axis=-1, initial=0))
    A, b = A * column_scale[..., None, :], b * b_scale[..., None]
    damping = root * column_scale
    norms = np.hypot(np.sqrt(np.einsum("...ij,...ij->...j", A, A)), damping)
    magnitude = norm(b)
    with np.errstate(over="ignore"):
        penalty = np.asarray(l1, A.dtype) * b_scale[..., None] * column_scale
        limit = real(np.finfo(A.dtype).max / 16)
        if sum_to is not None:
            # The sum is ``column_scale x`` in scaled variables.
            most = np.max(column_scale, axis=-1, initial=0)
            unit = 1 / np.where(most > 0, most, 1)
            row = column_scale * unit[..., None]
            total = np.asarray(sum_to, A.dtype) * b_scale * unit
            norms, magnitude = np.hypot(norms, row), np.hypot(magnitude, total)
    system = System(
        A=A,
        b=b,
        row=row,
        total=total,
        column_scale=column_scale,
        b_scale=b_scale,
        damping=damping,
        penalty=np.clip(penalty, -limit, limit),
        norm=norms,
        lower=np.zeros(0),
        upper=np.zeros(0),
        magnitude=magnitude,
        has_ridge=bool(np.any(root > 0)),
        dtype=A.dtype if dtype is None else dtype,
    )
    lower, upper = (
        system.rescaled_bound(np.asarray(bound, A.dtype)) for bound in bounds
    )
    system = system._replace(lower=lower, upper=upper)
    return system._replace(magnitude=system.magnitude + system.size(system.rest))
