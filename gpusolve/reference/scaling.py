"""Exact scaling of least-squares systems, and the certificate of a solution.

Both are shared by every NNLS path on the CPU, so that they agree on what a scaled
system is and on what an optimal point is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]


class ScaledSystem(NamedTuple):
    """``min |A x - b|^2 + |damping x|^2 + 2 penalty x`` in well-scaled variables.

    Attributes
    ----------
    A : (..., m, n) array
        The matrix, each column's largest magnitude in [0.5, 1).
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
    """

    A: Array
    b: Array
    column_scale: Array
    b_scale: Array
    damping: Array
    penalty: Array
    norm: Array

    def unscale(self, x: Array) -> Array:
        """The solution in the variables that were given."""
        return np.asarray(x * self.column_scale / self.b_scale[..., None])

    def rescale(self, x: Array) -> Array:
        """Undo `unscale`: a point in the variables of this system."""
        return np.asarray(x / self.column_scale * self.b_scale[..., None])


def inverse_power_of_two(magnitude: Array) -> Array:
    """Powers of two that bring finite `magnitude` into [0.5, 1); 1 for zero.

    Multiplying by them is exact, whatever the data, so that a scaled system has the
    solution of the given one to the last bit.
    """
    limit = np.finfo(magnitude.dtype).maxexp - 2
    exponent = np.clip(np.frexp(magnitude)[1], -limit, limit)
    return np.asarray(np.ldexp(np.ones_like(magnitude), -exponent))


def scale(A: Array, b: Array, l1: float = 0.0, l2: float = 0.0) -> ScaledSystem:
    """Scale systems whose entries are all finite.

    Parameters
    ----------
    A : (..., m, n) array
    b : (..., m) array
        Leading axes broadcast; a shared ``A`` stays shared.
    l1, l2 : float
        Weights of the penalties ``l1 sum(x)`` and ``l2 / 2 sum(x**2)``.
    """
    column_scale = inverse_power_of_two(np.max(np.abs(A), axis=-2, initial=0))
    b_scale = inverse_power_of_two(np.max(np.abs(b), axis=-1, initial=0))
    A = A * column_scale[..., None, :]
    damping = A.dtype.type(np.sqrt(l2)) * column_scale
    return ScaledSystem(
        A=A,
        b=b * b_scale[..., None],
        column_scale=column_scale,
        b_scale=b_scale,
        damping=damping,
        penalty=A.dtype.type(l1) * b_scale[..., None] * column_scale,
        norm=np.hypot(np.sqrt(np.einsum("...ij,...ij->...j", A, A)), damping),
    )


class Certificate(NamedTuple):
    """What can be said of a point x >= 0 from A, b and x alone.

    Attributes
    ----------
    rnorm : (...,) array
        ``|b - A x|``.
    dual : (..., n) array
        ``A^T (b - A x) - l1 - l2 x``, the negative gradient.
    kkt : (...,) array
        The largest violation of the optimality conditions: ``|dual[j]|`` where
        ``x[j] > 0``, its positive part where ``x[j] == 0``, over
        ``norm[j] (|b| + sum_k norm[k] x[k])``, which is what rounding one unit in
        ``b - A x`` could do.
    """

    rnorm: Array
    dual: Array
    kkt: Array


def rounding_scale(system: ScaledSystem, x: Array) -> Array:
    """``|b| + sum_k norm[k] x[k]``: the magnitude of what cancels in b - A x."""
    b_norm = np.sqrt(np.einsum("...i,...i->...", system.b, system.b))
    return np.asarray(b_norm + np.einsum("...j,...j->...", system.norm, x))


def residual(system: ScaledSystem, x: Array) -> Array:
    """``b - A x`` in scaled variables."""
    return np.asarray(system.b - np.einsum("...ij,...j->...i", system.A, x))


def certify(system: ScaledSystem, x: Array) -> Certificate:
    """Certify `x`, given in scaled variables; the answer is in the given units."""
    r = residual(system, x)
    w = np.einsum("...ij,...i->...j", system.A, r)
    w = w - system.penalty - system.damping * (system.damping * x)
    allowed = system.norm * rounding_scale(system, x)[..., None]
    violation = np.where(x > 0, np.abs(w), np.maximum(w, 0))
    relative = np.divide(
        violation, allowed, out=np.zeros_like(violation), where=allowed > 0
    )
    return Certificate(
        rnorm=np.sqrt(np.einsum("...i,...i->...", r, r)) / system.b_scale,
        dual=w / system.column_scale / system.b_scale[..., None],
        kkt=np.max(relative, axis=-1, initial=0),
    )
