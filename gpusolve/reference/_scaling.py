"""Exact scaling of least-squares systems, used by all NNLS methods on the CPU."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


class ScaledSystem(NamedTuple):
    """``min |A x - b|^2 + |damping x|^2 + 2 penalty x`` in scaled variables.

    Attributes
    ----------
    A : (..., m, n) array
        The matrix. The largest magnitude in each column, or its damping if that is
        larger, is in [0.5, 1).
    b : (..., m) array
        The right-hand side. Its largest magnitude is in [0.5, 1).
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
    dtype : dtype
        The dtype of returned solutions, which may be less precise than that of `A`.
    """

    A: Array
    b: Array
    column_scale: Array
    b_scale: Array
    damping: Array
    penalty: Array
    norm: Array
    dtype: np.dtype[Any]

    @property
    def eps(self) -> float:
        """Machine epsilon of the dtype of solutions."""
        return float(np.finfo(self.dtype).eps)

    @property
    def has_ridge(self) -> bool:
        """Whether there is an l2 penalty."""
        return bool(np.any(self.damping > 0))

    def take(self, systems: NDArray[np.intp]) -> ScaledSystem:
        """Select systems of a batch; a matrix that all systems share stays shared."""
        if self.A.ndim == 2:
            return self._replace(
                b=self.b[systems],
                b_scale=self.b_scale[systems],
                penalty=self.penalty[systems],
            )
        fields: list[Any] = [*(field[systems] for field in self[:-1]), self.dtype]
        return ScaledSystem(*fields)

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

    @property
    def _b_exponent(self) -> NDArray[np.intc]:
        return exponent(self.b_scale)[..., None]


def exponent(power: Array) -> NDArray[np.intc]:
    """The exponent e of a power of two ``2**e``."""
    return np.asarray(np.frexp(power)[1] - 1)


def shifted(x: Array, exponent: NDArray[np.intc]) -> Array:
    """``x 2**exponent``, rounded once; infinite if it overflows."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.ldexp(x, exponent))


def inverse_power_of_two(magnitude: Array) -> Array:
    """Powers of two that scale a finite `magnitude` into [0.5, 1); 1 for zero.

    Multiplication by them is exact, so the scaled system has the same solution as the
    original one to the last bit.
    """
    limit = np.finfo(magnitude.dtype).maxexp - 2
    exponent = np.clip(np.frexp(magnitude)[1], -limit, limit)
    return np.asarray(np.ldexp(np.ones_like(magnitude), -exponent))


def scale(
    A: Array,
    b: Array,
    l1: float = 0.0,
    l2: float = 0.0,
    dtype: np.dtype[Any] | None = None,
) -> ScaledSystem:
    """Scale systems whose entries are all finite.

    Parameters
    ----------
    A : (..., m, n) array
    b : (..., m) array
        The leading axes broadcast; a shared ``A`` stays shared.
    l1, l2 : float
        Weights of the penalties ``l1 sum(x)`` and ``l2 / 2 sum(x**2)``.
    dtype : dtype, optional
        The dtype of returned solutions. Default: that of `A`.
    """
    root = A.dtype.type(np.sqrt(l2))
    column_scale = inverse_power_of_two(np.max(np.abs(A), axis=-2, initial=root))
    b_scale = inverse_power_of_two(np.max(np.abs(b), axis=-1, initial=0))
    A = A * column_scale[..., None, :]
    damping = root * column_scale
    with np.errstate(over="ignore"):
        penalty = A.dtype.type(l1) * b_scale[..., None] * column_scale
    return ScaledSystem(
        A=A,
        b=b * b_scale[..., None],
        column_scale=column_scale,
        b_scale=b_scale,
        damping=damping,
        penalty=np.minimum(penalty, np.finfo(A.dtype).max / 16),
        norm=np.hypot(np.sqrt(np.einsum("...ij,...ij->...j", A, A)), damping),
        dtype=A.dtype if dtype is None else dtype,
    )
