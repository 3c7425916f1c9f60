"""Exact scaling of least-squares systems, used by all methods on the CPU."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


def namespace(array: Any) -> Any:
    """The module of an array: NumPy, or CuPy, which is then imported."""
    return sys.modules["cupy"] if "cupy" in type(array).__module__ else np


class ScaledSystem(NamedTuple):
    """``min |A x - b|^2 + |damping x|^2 + 2 penalty x`` in scaled variables.

    The minimum is over ``lower <= x <= upper``. If the sum of the original variables is
    fixed, the last row of A and b says so: all feasible x satisfy it. The multiplier of
    this constraint is the element of a witness in this row.

    Attributes
    ----------
    A : (..., m, n) array
        The matrix. The largest magnitude in each column, or its damping if that is
        larger, is in [0.5, 1).
    b : (..., m) array
        The right-hand side. Its largest magnitude is in [0.5, 1), without the row of a
        fixed sum.
    column_scale : (..., n) array
        Powers of two by which the columns of the original matrix were multiplied.
    b_scale : (...,) array
        Powers of two by which the original right-hand sides were multiplied.
    damping : (..., n) array
        The square root of ``l2`` in the scaled variables.
    penalty : (..., n) array
        ``l1`` in the scaled variables.
    norm : (..., n) array
        2-norms of the columns of ``A`` stacked on ``diag(damping)``.
    lower, upper : (..., n) array
        The bounds, possibly infinite.
    magnitude : (...,) array
        ``|b|``, plus the size of ``A x`` if x has to be different from 0: what the
        certificate is relative to.
    has_sum, has_ridge : bool
        Whether the sum is fixed, and whether there may be an l2 penalty.
    dtype : dtype
        The dtype of returned solutions, which may be less precise than `A`.
    rounded_matrix : bool
        Whether A was computed, so that its elements have rounding errors.
    """

    A: Array
    b: Array
    column_scale: Array
    b_scale: Array
    damping: Array
    penalty: Array
    norm: Array
    lower: Array
    upper: Array
    magnitude: Array
    has_sum: bool
    has_ridge: bool
    dtype: np.dtype[Any]
    rounded_matrix: bool = False

    @property
    def eps(self) -> float:
        """Machine epsilon of the dtype of solutions."""
        return float(np.finfo(self.dtype).eps)

    @property
    def data_rows(self) -> int:
        """The number of rows of A, without the row of a fixed sum."""
        return int(self.A.shape[-2]) - self.has_sum

    @property
    def rest(self) -> Array:
        """The feasible values next to 0; for columns of zeros, the cheapest values."""
        idle = np.where(self.norm == 0, self.penalty, 0)
        cheap = np.where(idle > 0, self.lower, np.where(idle < 0, self.upper, 0.0))
        cheap = np.where(np.isfinite(cheap), cheap, 0.0)
        return np.asarray(np.clip(cheap, self.lower, self.upper))

    def take(self, systems: NDArray[np.intp]) -> ScaledSystem:
        """Select systems of a batch; an array that all systems share stays shared."""
        fields: dict[str, Any] = {
            name: getattr(self, name)[systems]
            for name, axes in AXES.items()
            if getattr(self, name).ndim > axes
        }
        return self._replace(**fields)

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
    "column_scale": 1,
    "b_scale": 0,
    "damping": 1,
    "penalty": 1,
    "norm": 1,
    "lower": 1,
    "upper": 1,
    "magnitude": 0,
}
"""The number of axes of an array of `ScaledSystem` that belong to one system."""


def exponent(power: Array) -> NDArray[np.intc]:
    """The exponent e of a power of two ``2**e``."""
    return np.asarray(np.frexp(power)[1] - 1)


def shifted(x: Array, exponent: NDArray[np.intc]) -> Array:
    """``x 2**exponent``, rounded once; infinite if it overflows."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.ldexp(x, exponent))


def inverse_power_of_two(magnitude: Array) -> Array:
    """Powers of two that scale a finite `magnitude` into [0.5, 1); 1 for zero.

    Multiplication by them is exact, so the solution of the scaled system is the
    solution of the original system to the last bit.
    """
    xp = namespace(magnitude)
    # 2**limit and 2**-limit are normal numbers.
    limit = np.finfo(magnitude.dtype).maxexp - 2
    exponent = xp.clip(xp.frexp(magnitude)[1], -limit, limit)
    power: Array = xp.ldexp(xp.ones_like(magnitude), -exponent)
    return power


def weighted(A: Array, b: Array, weights: Array) -> tuple[Array, Array]:
    """A and b with rows multiplied by the square roots of the weights.

    A row of weight 0 becomes 0, also if it has NaN or infinity. NaN and infinity in
    other rows, and in the weights, stay; the root of a negative weight is NaN.
    """
    xp = namespace(A)
    with np.errstate(invalid="ignore", over="ignore"):
        root = xp.sqrt(weights)
        used = root != 0
        rows = xp.where(used[..., None], A * root[..., None], 0)
        return rows, xp.where(used, b * root, 0)


def scale(
    A: Array,
    b: Array,
    l1: ArrayLike = 0.0,
    l2: ArrayLike = 0.0,
    dtype: np.dtype[Any] | None = None,
    *,
    bounds: tuple[ArrayLike, ArrayLike] = (0.0, np.inf),
    sum_to: ArrayLike | None = None,
) -> ScaledSystem:
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
    real = A.dtype.type
    root = np.sqrt(np.asarray(l2, A.dtype)) + np.zeros(A.shape[-1:], A.dtype)
    largest = np.max(np.abs(A), axis=-2, initial=0)
    of_column = root.max(axis=tuple(range(root.ndim - 1))) if A.ndim == 2 else root
    column_scale = inverse_power_of_two(np.maximum(largest, of_column))
    b_scale = inverse_power_of_two(np.max(np.abs(b), axis=-1, initial=0))
    A, b = A * column_scale[..., None, :], b * b_scale[..., None]
    damping = root * column_scale
    with np.errstate(over="ignore"):
        penalty = np.asarray(l1, A.dtype) * b_scale[..., None] * column_scale
        limit = real(np.finfo(A.dtype).max / 16)
        if sum_to is not None:
            A, b = append_sum(A, b, column_scale, np.asarray(sum_to, A.dtype) * b_scale)
    squares = np.einsum("...ij,...ij->...j", A, A)
    system = ScaledSystem(
        A=A,
        b=b,
        column_scale=column_scale,
        b_scale=b_scale,
        damping=damping,
        penalty=np.clip(penalty, -limit, limit),
        norm=np.hypot(np.sqrt(squares), damping),
        lower=np.zeros(0),
        upper=np.zeros(0),
        magnitude=np.sqrt(np.einsum("...i,...i->...", b, b)),
        has_sum=sum_to is not None,
        has_ridge=bool(np.any(root > 0)),
        dtype=A.dtype if dtype is None else dtype,
    )
    lower, upper = (
        system.rescaled_bound(np.asarray(bound, A.dtype)) for bound in bounds
    )
    system = system._replace(lower=lower, upper=upper)
    at_rest = np.einsum("...j,...j->...", system.norm, np.abs(system.rest))
    return system._replace(magnitude=system.magnitude + at_rest)


def append_sum(
    A: Array, b: Array, coefficients: Array, total: Array
) -> tuple[Array, Array]:
    """Append the row ``coefficients x = total``, scaled so that its largest entry is 1.

    The sum of the original variables is ``coefficients x`` in scaled variables.
    """
    largest = np.max(coefficients, axis=-1, initial=0, keepdims=True)
    scale = 1 / np.where(largest > 0, largest, 1)
    row = np.broadcast_to(coefficients * scale, (*A.shape[:-2], A.shape[-1]))
    entry = np.broadcast_to(total[..., None] * scale, (*b.shape[:-1], 1))
    return (
        np.concatenate([A, row[..., None, :]], axis=-2),
        np.concatenate([b, entry], axis=-1),
    )
