"""Batched convex quadratic programs within bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Unpack, overload

import numpy as np
import numpy.typing as npt

from .._device.arrays import Array, CudaArray, as_array, is_cupy, namespace, unwrapped
from .._device.kernels import current, device_of
from .._numerics.solution import CONVERGED, UNCERTIFIED
from .inputs import Problem, pair, validate
from .options import MethodName, Native, QuadraticOptions
from .quadratic import Quadratic, certify
from .quadratic_constraints import pull_of
from .result import NNLSResult
from .solve import check_method, solve

SYMMETRIC = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 1e-3}
"""The largest difference of the triangles of G, by the roots of its diagonal."""


@overload
def bounded_qp(
    G: CudaArray,
    c: Any,
    bounds: Any = (0.0, math.inf),
    *,
    method: MethodName = "auto",
    **options: Unpack[QuadraticOptions],
) -> NNLSResult[Any]: ...
@overload
def bounded_qp(
    G: Native,
    c: Native,
    bounds: Any = (0.0, math.inf),
    *,
    method: MethodName = "auto",
    **options: Unpack[QuadraticOptions],
) -> NNLSResult[npt.NDArray[Any]]: ...
@overload
def bounded_qp(
    G: Any,
    c: Any,
    bounds: Any = (0.0, math.inf),
    *,
    method: MethodName = "auto",
    **options: Unpack[QuadraticOptions],
) -> NNLSResult[Any]: ...
def bounded_qp(
    G: Any,
    c: Any,
    bounds: Any = (0.0, math.inf),
    *,
    method: str = "auto",
    A_ub: Any = None,
    b_ub: Any = None,
    A_eq: Any = None,
    b_eq: Any = None,
    sum_to: Any = None,
    warm_start: Any = None,
    tol: float | None = None,
    maxiter: int | None = None,
) -> NNLSResult[Any]:
    r"""Solve convex quadratic programs within bounds: least squares from ``A^T A``.

    .. math:: \min_{l \le x \le u} \tfrac12 x \cdot G x - c \cdot x

    Parameters
    ----------
    G : (..., n, n) array_like
        Symmetric, positive semidefinite matrices, such as ``A^T A`` plus the inverse
        covariance of a prior. The lower triangle is used; a system whose triangles
        differ by more than 1e-6 (float32: 1e-3), relative to the roots of the diagonal,
        has status 2.
    c : (..., n) array_like
        The linear terms, such as ``A^T b``. The leading axes of all arrays broadcast.
    bounds, method, A_ub, b_ub, A_eq, b_eq, sum_to, warm_start, tol, maxiter
        As for :func:`gpusolve.lsq_linear`; the default bounds are 0 and
        infinity.

    Returns
    -------
    NNLSResult
        Unpacks as ``x, rnorm``. `residual` is ``c - G x``; `dual` is the same, minus
        the multiplier of a fixed sum and the multipliers of linear constraints.
        ``rnorm**2 / 2`` is how far the objective is
        above its minimum without bounds, in the range of G. A system whose G has a
        negative eigenvalue has status 2.

        `kkt` is computed from G and c. It is the larger of two numbers. The first
        is the largest violation of the optimality conditions by `dual`, relative to S,
        the size of the gradient; for each variable per root of ``G_jj``. The second is
        a bound of how far the objective is above its minimum, relative to
        ``x G x / 2 + |c x| + eps S**2``. Status 0 means that `kkt` is at most 1e-10
        (float32: 1e-4) or `tol`, and that x has the fixed sum and satisfies the linear
        constraints, as for :func:`gpusolve.lsq_linear`.

    Raises
    ------
    TypeError, ValueError
        As for :func:`gpusolve.lsq_linear`; ValueError also if G is not square, or a
        single matrix on the host that is not symmetric.

    Notes
    -----
    ``G = A^T A`` is factorised by its eigenvalues, after scaling to a diagonal near 1.
    ``|A x - b|`` is then minimised by the methods of `lsq_linear`. Its x is certified
    by the gradient ``c - G x``, in twice the working precision.

    Eigenvalues below ``8 n eps`` times their sum count as zero. The part of c along
    their eigenvectors remains as a linear term, unless rounding explains it: the
    objective may then be unbounded below without the bounds, and x may not be found:
    status 3. The same holds if rounding errors of G decide x. If A and b themselves are
    known, `lsq_linear` is more accurate: G has the square of the condition number.

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> result = gpusolve.bounded_qp([[2.0, 1.0], [1.0, 2.0]], [1.0, -1.0])
    >>> result.x
    array([0.5, 0. ])

    Two shares that add up to 1, the first at least the second:

    >>> given = {"A_ub": [[-1, 1]], "b_ub": [0], "A_eq": [[1, 1]], "b_eq": [1]}
    >>> gpusolve.bounded_qp([[2.0, 1.0], [1.0, 2.0]], [1.0, 2.0], **given).x
    array([0.5, 0.5])
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
            A_ub=A_ub,
            b_ub=b_ub,
            A_eq=A_eq,
            b_eq=b_eq,
            sum_to=sum_to,
            warm_start=warm_start,
            tol=tol,
            maxiter=maxiter,
        )
        G, c = symmetric(problem.A), problem.b
        objective = Quadratic.of(G, c)
        A, b, linear = objective.least_squares()
        factors = problem._replace(A=A, b=b, l1=linear, rounded_matrix=True)
        result = solve(factors, target, method)
        given = {**result._given, "A": G, "b": c, "is_gram": True}
        return replace(certified(objective, problem, result), _given=given)


def certified(
    objective: Quadratic, problem: Problem, result: NNLSResult[Any]
) -> NNLSResult[Any]:
    """The result, with the certificate that G and c themselves give."""
    xp = namespace(problem.A)
    if not problem.shape[1]:
        return result
    x, status = xp.asarray(result.x), xp.asarray(result.status)
    given = objective, x, problem.lower, problem.upper, problem.sum_to
    found = certify(*given, pull_of(problem, result))
    ended = (status == CONVERGED) | (status == UNCERTIFIED)
    good = found.accepts(problem.tol, problem.dtype)
    outcome = xp.where(good, xp.int32(CONVERGED), xp.int32(UNCERTIFIED))
    fields = {
        "dual": xp.where(ended[..., None], found.dual, result.dual).astype(x.dtype),
        "kkt": found.kkt.astype(x.dtype, copy=False),
        "status": xp.where(ended, outcome, status),
    }
    return replace(result, **{name: unwrapped(field) for name, field in fields.items()})


def symmetric(G: Array) -> Array:
    """The symmetric matrices of the lower triangles; NaN if the triangles differ.

    ValueError for a single matrix on the host whose triangles differ.
    """
    xp, other = namespace(G), namespace(G).swapaxes(G, -1, -2)
    root = xp.sqrt(xp.abs(xp.diagonal(G, axis1=-2, axis2=-1)))
    most = SYMMETRIC[G.dtype] * root[..., :, None] * root[..., None, :]
    with np.errstate(invalid="ignore"):
        differs = (xp.abs(G - other) > most).any(axis=(-2, -1))
    if G.ndim == 2 and not is_cupy(G) and differs:
        raise ValueError(
            "G must be symmetric, got a matrix whose triangles differ by up to "
            f"{np.abs(G - other).max()}"
        )
    index = xp.arange(G.shape[-1])
    lower = xp.where(index[:, None] >= index, G, other)
    return xp.where(differs[..., None, None], math.nan, lower)
