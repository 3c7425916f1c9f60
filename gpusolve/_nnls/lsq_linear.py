"""Batched least squares within bounds."""

from __future__ import annotations

from typing import Any, Unpack, overload

import numpy.typing as npt

from .dispatch import dispatch
from .options import (
    METHODS,
    UNBOUNDED,
    BoundedOptions,
    MethodName,
    Native,
    defaults_of,
    shows,
)
from .result import NNLSResult
from .validation import pair

DEFAULTS = defaults_of(BoundedOptions)


@overload
def lsq_linear(
    A: Native,
    b: Native,
    bounds: Any = UNBOUNDED,
    *,
    method: MethodName = "auto",
    **options: Unpack[BoundedOptions],
) -> NNLSResult[npt.NDArray[Any]]: ...
@overload
def lsq_linear(
    A: Any,
    b: Any,
    bounds: Any = UNBOUNDED,
    *,
    method: MethodName = "auto",
    **options: Unpack[BoundedOptions],
) -> NNLSResult[Any]: ...
@shows(BoundedOptions)
def lsq_linear(
    A: Any,
    b: Any,
    bounds: Any = UNBOUNDED,
    *,
    method: str = "auto",
    **options: Unpack[BoundedOptions],
) -> NNLSResult[Any]:
    r"""Solve least-squares problems within bounds, each with a certificate.

    .. math:: \min_{l \le x \le u} \tfrac12 |A x - b|^2 + l_1 \cdot x
              + \tfrac12 \textstyle\sum_j l_{2j} x_j^2
              + \tfrac12 \lambda |L (x - x_0)|^2

    Parameters
    ----------
    A : (..., m, n) array_like
        The matrices, dense or sparse; see :func:`gpusolve.nnls`. pandas and xarray
        objects keep their labels.
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
    A_ub, b_ub : (..., rows, n), (..., rows) array_like, optional
        Linear constraints ``A_ub x <= b_ub``, as in ``scipy.optimize.linprog``. An
        element of b_ub at infinity leaves its row out.
    A_eq, b_eq : (..., rows, n), (..., rows) array_like, optional
        Linear constraints ``A_eq x = b_eq``. Rows may depend on each other.
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
    L, lam, prior, tol, maxiter, devices, out
        As for :func:`gpusolve.nnls`.

    Returns
    -------
    NNLSResult
        Unpacks as ``x, rnorm``. Systems whose bounds contradict each other or the sum,
        and systems without positive weights, have status 4. So have systems whose
        linear constraints contradict each other or the bounds, by more than the
        rounding of what was given; :meth:`NNLSResult.proof` proves it. With linear
        constraints, `kkt` and `status` have the meaning that they have without, and
        status 0 also means that no constraint is violated by more than 1e-10 of the
        size of its terms before x is rounded: 1e-6 if A, the bounds, or an array of
        this constraint was given in float32.

    Raises
    ------
    TypeError, ValueError, MemoryError
        As for :func:`gpusolve.nnls`; ValueError also if bounds that are numbers
        contradict each other.

    See Also
    --------
    nnls, bounded_qp, regularization_path, NNLSResult

    Notes
    -----
    The method is Stark & Parker's [1]_: Lawson & Hanson's active-set method with
    variables that may rest at either bound. Variables rest at the bound next to 0
    first. A fixed sum is kept by every step, by its Lagrange multiplier.

    With linear constraints, the method is Goldfarb & Idnani's [2]_: from the minimum
    without constraints, the constraint that is violated most becomes active. x and the
    multipliers are corrected on the active constraints. What is not certified then is
    solved on the host, one system after the other, by the dual problem: least squares
    of the multipliers within bounds. If columns of A are almost dependent, x is found
    by several such steps [3]_.

    References
    ----------
    .. [1] P. B. Stark and R. L. Parker, Bounded-Variable Least-Squares: an Algorithm
           and Applications, Computational Statistics 10, 1995.
    .. [2] D. Goldfarb and A. Idnani, A Numerically Stable Dual Method for Solving
           Strictly Convex Quadratic Programs, Mathematical Programming 27, 1983.
    .. [3] R. T. Rockafellar, Monotone Operators and the Proximal Point Algorithm, SIAM
           Journal on Control and Optimization 14, 1976.

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

    The increasing sequence next to the data, whose differences are not negative:

    >>> differences = np.diff(np.eye(5), axis=0)
    >>> result = gpusolve.lsq_linear(
    ...     np.eye(5), [1, 3, 2, 4, 3], A_ub=-differences, b_ub=np.zeros(4)
    ... )
    >>> result.x.round(12)
    array([1. , 2.5, 2.5, 3.5, 3.5])
    >>> result.dual_ub.round(12)
    array([0. , 0.5, 0. , 0.5])
    """
    lower, upper = pair(bounds)
    given = {"A": A, "b": b, "lower": lower, "upper": upper}
    return dispatch(method, METHODS, given, DEFAULTS, options)
