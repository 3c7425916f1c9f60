"""Batched convex quadratic programs within bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._device.arrays import Array, as_array, floating, namespace
from .._device.kernels import current, device_of
from .inputs import validate
from .result import NNLSResult
from .solve import check_method, solve

NULL = 8.0
"""Eigenvalues of at most this number times ``n eps`` of the largest count as zero."""


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
        Symmetric, positive semidefinite matrices, such as ``A^T A`` plus the precision
        of a prior. Only the lower triangle is used.
    c : (..., n) array_like
        The linear terms, such as ``A^T b``. The leading axes of all arrays broadcast.
    bounds, method, sum_to, warm_start, tol, maxiter
        As for :func:`gpusolve.lsq_linear`; the default bounds are those of
        :func:`gpusolve.nnls`.

    Returns
    -------
    NNLSResult
        Unpacks as ``x, rnorm``. `dual` is ``c - G x``. ``rnorm**2 / 2`` is how far the
        objective is above its minimum without bounds, in the range of G. A system whose
        G has a negative eigenvalue has status 2.

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
        arrays = floating({"G": G, "c": c})
        G, c = arrays["G"], arrays["c"]
        if G.ndim < 2 or G.shape[-1] != G.shape[-2]:
            raise ValueError(f"G must have shape (..., n, n), got {G.shape}")
        if c.ndim < 1 or c.shape[-1] != G.shape[-1]:
            raise ValueError(
                f"c must have shape (..., {G.shape[-1]}) for G of shape {G.shape}, "
                f"got {c.shape}"
            )
        A, b, linear = least_squares(G, c)
        problem = validate(
            A,
            b,
            bounds=bounds,
            sum_to=sum_to,
            warm_start=warm_start,
            tol=tol,
            maxiter=maxiter,
        )
        return solve(problem._replace(l1=linear), target, method)


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
    least = NULL * n * np.finfo(dtype).eps * xp.abs(values).max(axis=-1, keepdims=True)
    positive = values > least
    root = xp.sqrt(xp.where(positive, values, 0))
    along = xp.matmul((c * scale)[..., None, :], vectors)[..., 0, :]
    A = xp.swapaxes(vectors, -1, -2) * root[..., :, None] / scale[..., None, :]
    b = xp.where(positive, along / xp.where(positive, root, 1), 0)
    null = xp.where(positive, 0, along)
    null = xp.where(
        xp.abs(null) > least * xp.abs(along).max(axis=-1, keepdims=True), null, 0
    )
    linear = -xp.matmul(vectors, null[..., None])[..., 0] / scale
    usable = finite & (values >= -least).all(axis=-1)[..., None, None]
    A = xp.where(usable, A, xp.nan)
    return A.astype(dtype, copy=False), b.astype(dtype, copy=False), linear
