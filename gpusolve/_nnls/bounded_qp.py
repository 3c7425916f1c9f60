"""Batched convex quadratic programs within bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from .._device.arrays import Array, as_array, namespace
from .._device.kernels import current, device_of
from .inputs import pair, validate
from .result import NNLSResult
from .solve import check_method, solve

NULL = 8.0
"""Eigenvalues of at most this number times ``n eps`` of their sum count as zero."""


def bounded_qp(
    G: Any,
    c: Any,
    bounds: Any = (0.0, math.inf),
    *,
    method: str = "auto",
    sum_to: Any = None,
    warm_start: Any = None,
    tol: float | None = None,
    maxiter: int | None = None,
) -> NNLSResult:
    r"""Solve convex quadratic programs within bounds: least squares from ``A^T A``.

    .. math:: \min_{l \le x \le u} \tfrac12 x \cdot G x - c \cdot x

    Parameters
    ----------
    G : (..., n, n) array_like
        Symmetric, positive semidefinite matrices, such as ``A^T A`` plus the inverse
        covariance of a prior. Only the lower triangle is used.
    c : (..., n) array_like
        The linear terms, such as ``A^T b``. The leading axes of all arrays broadcast.
    bounds, method, sum_to, warm_start, tol, maxiter
        As for :func:`gpusolve.lsq_linear`; the default bounds are those of
        :func:`gpusolve.nnls`.

    Returns
    -------
    NNLSResult
        Unpacks as ``x, rnorm``. `residual` is ``c - G x``; `dual` is the same, minus
        the multiplier of a fixed sum. ``rnorm**2 / 2`` is how far the objective is
        above its minimum without bounds, in the range of G. A system whose G has a
        negative eigenvalue has status 2.

    Raises
    ------
    TypeError, ValueError
        As for :func:`gpusolve.lsq_linear`; ValueError also if G is not square.

    Notes
    -----
    ``G = A^T A`` is factorised by its eigenvalues, after scaling to a unit diagonal.
    ``|A x - b|`` is then minimised by the methods of `lsq_linear`, and certified in the
    same terms. The part of c outside the range of G remains as a linear term: the
    objective may then have no minimum but for the bounds, and x may not be found, with
    status 3. If A and b themselves are known, `lsq_linear` is more accurate: G has the
    square of the condition number.

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> result = gpusolve.bounded_qp([[2.0, 1.0], [1.0, 2.0]], [1.0, -1.0])
    >>> result.x
    array([0.5, 0. ])
    """
    check_method(method)
    G = as_array(G, "G")
    target = device_of(G)
    with current(target):
        if G.ndim < 2 or G.shape[-1] != G.shape[-2]:
            raise ValueError(f"G must have shape (..., n, n), got {G.shape}")
        lower, upper = pair(bounds)
        problem = validate(
            G,
            c,
            names=("G", "c"),
            lower=lower,
            upper=upper,
            sum_to=sum_to,
            warm_start=warm_start,
            tol=tol,
            maxiter=maxiter,
        )
        G, c = symmetric(problem.A), problem.b
        A, b, linear = least_squares(G, c)
        result = solve(problem._replace(A=A, b=b, l1=linear), target, method)
        given = {**result._given, "A": G, "b": c, "is_gram": True}
        return replace(result, _given=given)


def symmetric(G: Array) -> Array:
    """The symmetric matrices of the lower triangles."""
    xp = namespace(G)
    index = xp.arange(G.shape[-1])
    return xp.where(index[:, None] >= index, G, xp.swapaxes(G, -1, -2))


def least_squares(G: Array, c: Array) -> tuple[Array, Array, Array]:
    """A, b and p with ``|A x - b|^2 / 2 + p x = x G x / 2 - c x`` plus a constant.

    A is NaN where G is not finite or has a negative eigenvalue.
    """
    xp, dtype, n = namespace(G), G.dtype, G.shape[-1]
    G, c = G.astype(np.float64, copy=False), c.astype(np.float64, copy=False)
    finite = xp.isfinite(G).all(axis=(-2, -1))[..., None, None]
    G = xp.where(finite, G, xp.eye(n))
    diagonal = xp.abs(xp.diagonal(G, axis1=-2, axis2=-1))
    scale = 1 / xp.sqrt(xp.where(diagonal > 0, diagonal, 1))
    values, vectors = xp.linalg.eigh(scale[..., :, None] * G * scale[..., None, :])
    least = NULL * n * np.finfo(dtype).eps * size(values)
    positive = values > least
    root = xp.sqrt(xp.where(positive, values, 0))
    along = xp.matmul((c * scale)[..., None, :], vectors)[..., 0, :]
    A = xp.swapaxes(vectors, -1, -2) * root[..., :, None] / scale[..., None, :]
    b = xp.where(positive, along / xp.where(positive, root, 1), 0)
    null = xp.where(positive, 0, along)
    null = xp.where(xp.abs(null) > least * size(along), null, 0)
    linear = -xp.matmul(vectors, null[..., None])[..., 0] / scale
    usable = finite & (values >= -least).all(axis=-1)[..., None, None]
    A = xp.where(usable, A, math.nan)
    return A.astype(dtype, copy=False), b.astype(dtype, copy=False), linear


def size(values: Array) -> Array:
    """The sum of magnitudes along the last axis, which is kept."""
    return namespace(values).abs(values).sum(axis=-1, keepdims=True)
