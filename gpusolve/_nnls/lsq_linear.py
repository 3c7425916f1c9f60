"""Batched least squares within bounds."""

from __future__ import annotations

import math
from typing import Any, Unpack, overload

import numpy.typing as npt

from .._device.arrays import CudaArray
from .inputs import pair
from .options import LeastSquaresOptions, MethodName, Native
from .places import solve_anywhere
from .result import NNLSResult


@overload
def lsq_linear(
    A: CudaArray,
    b: Any,
    bounds: Any = (-math.inf, math.inf),
    *,
    method: MethodName = "auto",
    **options: Unpack[LeastSquaresOptions],
) -> NNLSResult[Any]: ...
@overload
def lsq_linear(
    A: Native,
    b: Native,
    bounds: Any = (-math.inf, math.inf),
    *,
    method: MethodName = "auto",
    **options: Unpack[LeastSquaresOptions],
) -> NNLSResult[npt.NDArray[Any]]: ...
@overload
def lsq_linear(
    A: Any,
    b: Any,
    bounds: Any = (-math.inf, math.inf),
    *,
    method: MethodName = "auto",
    **options: Unpack[LeastSquaresOptions],
) -> NNLSResult[Any]: ...
def lsq_linear(
    A: Any,
    b: Any,
    bounds: Any = (-math.inf, math.inf),
    *,
    method: str = "auto",
    weights: Any = None,
    sum_to: Any = None,
    warm_start: Any = None,
    l1: Any = 0.0,
    l2: Any = 0.0,
    tol: float | None = None,
    maxiter: int | None = None,
    devices: Any = None,
    out: dict[str, Any] | None = None,
) -> NNLSResult[Any]:
    r"""Solve least-squares problems within bounds, each with a certificate.

    .. math:: \min_{l \le x \le u} \tfrac12 |A x - b|^2 + l_1 \cdot x
              + \tfrac12 \textstyle\sum_j l_{2j} x_j^2

    Parameters
    ----------
    A : (..., m, n) array_like
        The matrices; see :func:`gpusolve.nnls`. pandas and xarray objects keep their
        labels.
    b : (..., m) array_like
        The right-hand sides. The leading axes of all arrays broadcast; a matrix that is
        shared by several right-hand sides is not copied.
    bounds : pair of float or (..., n) array_like
        The lower and the upper bounds, rounded to the dtype of A, or
        ``scipy.optimize.Bounds``. None is a bound at infinity. A variable whose
        bounds are both infinite is free: once it enters the fit, it stays. Equal bounds
        fix a variable; bounds (0, 0) leave its column out, in one system or in all.
    method : {"auto", "qr", "gram"}
        As for :func:`gpusolve.nnls`.
    weights : (..., m) array_like, optional
        Weights of the squared residuals, such as inverse variances; non-negative. A
        row of weight 0 is left out, even if it has NaN or infinity in A or b.
    sum_to : float or (...,) array_like, optional
        The sum of x, if it is fixed.
    warm_start : (..., n) array_like, optional
        An initial guess of x. Entries beyond a bound start at the bound.
    l1, l2 : float or (..., n) array_like
        Weights of the penalties, non-negative. `l1` multiplies x, not
        ``|x|``; the two agree where the lower bound is not negative.
    tol, maxiter, devices, out
        As for :func:`gpusolve.nnls`.

    Returns
    -------
    NNLSResult
        Unpacks as ``x, rnorm``. Systems whose bounds contradict each other or the sum,
        and systems without positive weights, have status 4.

    Raises
    ------
    TypeError, ValueError, MemoryError
        As for :func:`gpusolve.nnls`; ValueError also if bounds that are numbers
        contradict each other.

    Notes
    -----
    The method is Stark & Parker's [1]_: Lawson & Hanson's active-set method with
    variables that may rest at either bound. Variables rest at the bound next to 0
    first. A fixed sum is kept by every step, by its Lagrange multiplier.

    References
    ----------
    .. [1] P. B. Stark and R. L. Parker, Bounded-Variable Least-Squares: an Algorithm
           and Applications, Computational Statistics 10, 1995.

    Examples
    --------
    A line through points, with a free offset and a slope of at most 1:

    >>> import numpy as np
    >>> import gpusolve
    >>> t = np.arange(4.0)
    >>> A = np.stack([np.ones(4), t], axis=1)
    >>> x, rnorm = gpusolve.lsq_linear(A, 3 * t - 5, ([-np.inf, 0], [np.inf, 1]))
    >>> x.round(12)
    array([-2.,  1.])

    Abundances between 0 and 1 that add up to 1:

    >>> A = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> gpusolve.lsq_linear(A, [0.9, 0.3, 1.0], (0, 1), sum_to=1).x.round(12)
    array([0.8, 0.2])
    """
    lower, upper = pair(bounds)
    return solve_anywhere(
        method,
        A=A,
        b=b,
        lower=lower,
        upper=upper,
        weights=weights,
        sum_to=sum_to,
        warm_start=warm_start,
        l1=l1,
        l2=l2,
        tol=tol,
        maxiter=maxiter,
        devices=devices,
        out=out,
    )
