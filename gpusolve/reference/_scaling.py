"""Exact scaling of least-squares systems, shared by every NNLS path on the CPU."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


class ScaledSystem(NamedTuple):
    """``min |A x - b|^2 + |damping x|^2 + 2 penalty x`` in well-scaled variables.

    Attributes
    ----------
    A : (..., m, n) array
        The matrix, the largest magnitude of each column and its damping in [0.5, 1).
    b : (..., m) array
        The right-hand side, its largest magnitude in [0.5, 1).
    column_scale : (..., n) array
        Powers of two: ``A`` is the given matrix times these.
    b_scale : (...,) array
        Powers of two: ``b`` is the given right-hand side times these.
    damping : (..., n) array
        The square root of ``l2`` in the scaled variables.
    penalty : (..., n) array
        ``l1`` in the scaled variables.
    norm : (..., n) array
        2-norms of the columns of ``A`` stacked on ``diag(damping)``.
    dtype : dtype
        What solutions are returned in, which may be less precise than `A`.
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
        """The unit of rounding of a solution."""
        return float(np.finfo(self.dtype).eps)

    @property
    def has_ridge(self) -> bool:
        """Whether there is an l2 penalty."""
        return bool(np.any(self.damping > 0))

    def take(self, systems: NDArray[np.intp]) -> ScaledSystem:
        """Some systems of a batch; an ``A`` that all share stays shared."""
        if self.A.ndim == 2:
            return self._replace(
                b=self.b[systems],
                b_scale=self.b_scale[systems],
                penalty=self.penalty[systems],
            )
        fields: list[Any] = [*(field[systems] for field in self[:-1]), self.dtype]
        return ScaledSystem(*fields)

    def unscale(self, x: Array) -> Array:
        """The solution in the variables that were given."""
        return shifted(x, exponent(self.column_scale) - self._b_exponent)

    def rescale(self, x: Array) -> Array:
        """Undo `unscale`: a point in the variables of this system."""
        return shifted(x, self._b_exponent - exponent(self.column_scale))

    def unscale_dual(self, w: Array) -> Array:
        """A gradient with respect to the variables that were given."""
        return shifted(w, -exponent(self.column_scale) - self._b_exponent)

    def rounded(self, x: Array) -> Array:
        """A point of these variables as it is when returned in `dtype`."""
        with np.errstate(over="ignore"):
            return self.rescale(self.unscale(x).astype(self.dtype).astype(x.dtype))

    @property
    def _b_exponent(self) -> NDArray[np.intc]:
        return exponent(self.b_scale)[..., None]


def exponent(power: Array) -> NDArray[np.intc]:
    """The e of a power of two ``2**e``."""
    return np.asarray(np.frexp(power)[1] - 1)


def shifted(x: Array, exponent: NDArray[np.intc]) -> Array:
    """``x 2**exponent``, rounded once; infinite where it is too large."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.ldexp(x, exponent))


def inverse_power_of_two(magnitude: Array) -> Array:
    """Powers of two that bring finite `magnitude` into [0.5, 1); 1 for zero.

    Multiplying by them is exact, whatever the data, so that a scaled system has the
    solution of the given one to the last bit.
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
        Leading axes broadcast; a shared ``A`` stays shared.
    l1, l2 : float
        Weights of the penalties ``l1 sum(x)`` and ``l2 / 2 sum(x**2)``.
    dtype : dtype, optional
        What solutions are returned in; default that of `A`.
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
