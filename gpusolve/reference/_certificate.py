"""The certificate of a solution: how far ``|b - A x|`` can be from the least.

A *witness* y proves it. For every x' >= 0

    |b - A x'| |y| >= y (b - A x') = b y - sum_k x'_k (a_k y),

so a y that makes no acute angle with any column bounds every residual from below by
``b y / |y|``. The best witness is the residual of the optimum itself. A solver hands in
its own, made orthogonal to the columns in use; what the witness is worth is then
computed from A, b, x and y alone, whatever the solver did.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._compensated import minus_dot
from ._scaling import Array, ScaledSystem

ACCURATE = 64.0
"""A row of ``b - A x`` is computed again, in twice the precision, where what cancels in
it is more times as large as the whole residual."""

CERTIFIED = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-10}
"""The largest `kkt` of a solution, but for rounding in x."""

HIDDEN = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-6}
"""Part of ``|b|`` that rounding in x alone may change in ``A x``."""

ROUNDED = 8.0
"""What rounding in x may add to `by_x`, in units of ``eps sum_k |a_k| x_k / |b|``."""

CONVINCING = 4.0
"""The largest angle, and part of `by_x`, in eps, for which no method resolves more."""

BLOCK = 2**16
"""Products that are made at once in twice the precision, so that they stay in cache."""


class Certificate(NamedTuple):
    """What can be said of a point x >= 0 from A, b, x and a witness y.

    Attributes
    ----------
    rnorm : (...,) array
        ``|b - A x|``.
    dual : (..., n) array
        ``A^T y - l1 - l2 x``, the negative gradient.
    kkt : (...,) array
        ``by_x + angle``.
    by_x : (...,) array
        How far A x is from what it should be for this y: ``|y - (b - A x)|``, and
        ``sum_k x_k dual[k] / |y|``, over |b|.
    angle : (...,) array
        The largest violation of the optimality conditions by `dual`: the cosine of
        the angle between y and a column; or ``|y| / |b|`` where that is less.
    """

    rnorm: Array
    dual: Array
    kkt: Array
    by_x: Array
    angle: Array


def norm(vectors: Array) -> Array:
    """2-norms over the last axis."""
    return np.asarray(np.sqrt(np.einsum("...i,...i->...", vectors, vectors)))


def size(system: ScaledSystem, x: Array) -> Array:
    """``sum_k |a_k| x_k``."""
    return np.asarray(np.einsum("...j,...j->...", system.norm, x))


def residual(system: ScaledSystem, x: Array) -> Array:
    """``b - A x``, and behind it ``-damping x`` where there is an l2 penalty.

    Accurate to some units of its own size: where more cancels, in twice the precision.
    """
    r = np.asarray(system.b - np.matmul(system.A, x[..., None])[..., 0])
    cancelling = norm(system.b) + size(system, x)
    doubtful = np.flatnonzero(ACCURATE * norm(r) < cancelling)
    if doubtful.size:
        b, at, rows = map(np.atleast_2d, (system.b, x, r))
        A = system.A if system.A.ndim == 2 else system.A[doubtful]
        terms = np.abs(b[doubtful])
        terms += np.matmul(np.abs(A), at[doubtful, :, None])[..., 0]
        length = norm(rows[doubtful])[:, None]
        k, row = np.nonzero(terms > ACCURATE * length)
        step = max(1, BLOCK // max(1, x.shape[-1]))
        for first in range(0, len(k), step):
            part = slice(first, first + step)
            lane, i = doubtful[k[part]], row[part]
            a = A[i] if A.ndim == 2 else A[k[part], i]
            rows[lane, i] = minus_dot(b[lane, i], a, at[lane])
    if not system.has_ridge:
        return r
    return np.concatenate([r, -system.damping * x], axis=-1)


def gradient(system: ScaledSystem, r: Array) -> Array:
    """``A^T r - penalty`` of a residual, the rows of the l2 penalty included."""
    m = system.A.shape[-2]
    w = np.matmul(r[..., None, :m], system.A)[..., 0, :]
    if system.has_ridge:
        w = w + system.damping * r[..., m:]
    return np.asarray(w - system.penalty)


def times(system: ScaledSystem, x: Array) -> Array:
    """``A x``, and behind it ``damping x`` where there is an l2 penalty."""
    product = np.matmul(system.A, x[..., None])[..., 0]
    if not system.has_ridge:
        return np.asarray(product)
    return np.concatenate([product, system.damping * x], axis=-1)


@np.errstate(all="ignore")
def certify(
    system: ScaledSystem,
    x: Array,
    witness: Array,
    r: Array | None = None,
    w: Array | None = None,
) -> Certificate:
    """Certify `x`, given in scaled variables; the answer is in the given units.

    Of an x that is not finite `kkt` is NaN.

    Parameters
    ----------
    system : ScaledSystem
    x : (..., n) array
        The point, not negative.
    witness : (..., rows) array
        In the shape of `residual`.
    r, w : array, optional
        ``residual(system, x)`` and ``gradient(system, witness)``, where they are known.
    """
    m = system.A.shape[-2]
    r = residual(system, x) if r is None else r
    w = gradient(system, witness) if w is None else w
    violation = np.where(x > 0, np.abs(w), np.maximum(w, 0))
    slope = np.divide(
        violation, system.norm, out=np.zeros_like(violation), where=system.norm > 0
    )
    length, magnitude = norm(witness), norm(system.b)
    most = ratio(length, magnitude)
    gap = np.abs(np.sum(np.where(x > 0, x * w, 0), axis=-1))
    gap = ratio(ratio(gap, length), magnitude)
    by_x = ratio(norm(r - witness), magnitude) + np.fmin(gap, most)
    angle = np.minimum(ratio(np.max(slope, axis=-1, initial=0), length), most)
    return Certificate(
        rnorm=norm(r[..., :m]) / system.b_scale,
        dual=system.unscale_dual(w),
        kkt=np.asarray(by_x + angle),
        by_x=np.asarray(by_x),
        angle=np.asarray(angle),
    )


def witness(system: ScaledSystem, x: Array) -> Array:
    """The best witness that the support of any x >= 0 has, by singular values.

    It is the residual of the least-squares solution of these columns, whatever
    sign that has; directions that rounding could have made do not count.
    """
    columns = np.where((x > 0)[..., None, :], system.A, 0)
    penalty = np.where(x > 0, system.penalty, 0)
    if system.has_ridge:
        ridge = np.where(x > 0, system.damping, 0)[..., None] * np.eye(x.shape[-1])
        columns = np.concatenate([columns, ridge], axis=-2)
    U, s, Vh = np.linalg.svd(columns, full_matrices=False)
    eps = np.finfo(s.dtype).eps * max(columns.shape[-2:])
    real = s > eps * np.max(s, axis=-1, keepdims=True, initial=0)
    U = np.where(real[..., None, :], U, 0)
    held = np.matmul(Vh, penalty[..., None])[..., 0]
    shift = np.divide(held, s, out=np.zeros_like(held), where=real)
    r = residual(system, x)
    for _ in range(2):
        along = np.matmul(np.swapaxes(U, -1, -2), r[..., None])[..., 0] - shift
        r = r - np.matmul(U, along[..., None])[..., 0]
    return np.asarray(r)


def ratio(part: Array, whole: Array) -> Array:
    """``part / whole``; 0 for nothing of nothing, infinity for something of nothing."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(np.where(part == 0, 0, part / whole))


def size_to_b(system: ScaledSystem, x: Array) -> Array:
    """``sum_k |a_k| x_k / |b|``."""
    return ratio(size(system, x), norm(system.b))


def hides(system: ScaledSystem, x: Array) -> NDArray[np.bool_]:
    """Whether x is so large that its rounding hides the residual."""
    return np.asarray(~(system.eps * size_to_b(system, x) <= HIDDEN[system.dtype]))


def is_certified(
    system: ScaledSystem, x: Array, found: Certificate, tol: float
) -> NDArray[np.bool_]:
    """Whether a solution is one, up to `tol` and to what rounding in x allows."""
    most = CERTIFIED[system.dtype]
    by_x = most + ROUNDED * system.eps * size_to_b(system, x)
    good = (found.by_x <= np.maximum(tol, by_x)) & (found.angle <= max(tol, most))
    return np.asarray(good & ~hides(system, x))


def is_convincing(
    system: ScaledSystem, x: Array, found: Certificate, tol: float
) -> NDArray[np.bool_]:
    """Whether no other method could resolve more."""
    most = CONVINCING * system.eps
    by_x = most * (1 + size_to_b(system, x))
    good = (found.by_x <= np.maximum(tol, by_x)) & (found.angle <= max(tol, most))
    return np.asarray(good & ~hides(system, x))


def is_settled(system: ScaledSystem, found: Certificate) -> NDArray[np.bool_]:
    """Whether more caution about dependent columns could not change much."""
    return np.asarray(found.kkt <= CERTIFIED[system.dtype])


@np.errstate(invalid="ignore")
def misfit(system: ScaledSystem, x: Array, rnorm: Array) -> Array:
    """The root of twice the objective, in scaled variables."""
    penalty = 2 * np.sum(np.where(x > 0, system.penalty * x, 0), axis=-1)
    penalty = penalty + np.sum((system.damping * x) ** 2, axis=-1)
    found = np.hypot(rnorm * system.b_scale, np.sqrt(penalty))
    return np.asarray(np.where(np.isnan(found), np.inf, found))


def slack(system: ScaledSystem) -> Array:
    """How much more misfit a certified solution may have than one that is not."""
    return np.asarray(CERTIFIED[system.dtype] * norm(system.b))
