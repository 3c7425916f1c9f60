"""Batched least squares: non-negative, or within bounds."""

from __future__ import annotations

from typing import Any, Unpack, overload

import numpy.typing as npt

from .arguments import (
    METHODS,
    NNLS_METHODS,
    UNBOUNDED,
    BoundedOptions,
    LeastSquaresOptions,
    MethodName,
    Native,
    NNLSMethodName,
    defaults_of,
    shows,
)
from .result import NNLSResult
from .solve import dispatch
from .validation import pair

DEFAULTS = defaults_of(LeastSquaresOptions)

BOUNDED = defaults_of(BoundedOptions)


@overload
def nnls(
    A: Native,
    b: Native,
    *,
    method: NNLSMethodName = "auto",
    **options: Unpack[LeastSquaresOptions],
) -> NNLSResult[npt.NDArray[Any]]: ...
@overload
def nnls(
    A: Any,
    b: Any,
    *,
    method: NNLSMethodName = "auto",
    **options: Unpack[LeastSquaresOptions],
) -> NNLSResult[Any]: ...
@shows(LeastSquaresOptions)
def nnls(
    A: Any,
    b: Any,
    *,
    method: str = "auto",
    **options: Unpack[LeastSquaresOptions],
) -> NNLSResult[Any]:
    r"""Solve non-negative least-squares problems, each with a certificate.

    .. math:: \min_{x \ge 0} \tfrac12 |A x - b|^2 + l_1 \cdot x
              + \tfrac12 \textstyle\sum_j l_{2j} x_j^2
              + \tfrac12 \lambda |L (x - x_0)|^2

    Parameters
    ----------
    A : (..., m, n) array_like
        The matrices, of any shape (also ``m < n``) and any strides: NumPy or CuPy
        arrays, or any object that supports ``__cuda_array_interface__`` or DLPack; or
        dask arrays of NumPy or CuPy chunks. Or a sparse matrix of SciPy or CuPy, in
        any format, for all systems; or a list of sparse matrices for the last batch
        axis. See the notes.
    b : (..., m) array_like
        The right-hand sides. The leading axes of `A` and `b` broadcast; a matrix that
        is shared by several right-hand sides is not copied. A row is left out, as by a
        weight of 0, where its element of b or an element of its row of A is masked in a
        masked array of NumPy.
    method : {"auto", "qr", "gram"} or a compared method
        ``"gram"`` works on ``A^T A``, and corrects x by ``b - A x``. ``"qr"`` updates a
        QR factorisation of the passive columns. It is slower, but accurate even for
        ill-conditioned systems. ``"auto"`` is ``"gram"``, followed by ``"qr"`` for the
        systems that ``"gram"`` could not certify to a few eps. On a GPU it is ``"qr"``
        alone for matrices with more than twice as many columns as rows, or if
        ``A^T A`` does not fit into memory. The compared methods are for arrays on the
        CPU, except ``"mgs"``; see the notes.
    weights : (..., m) array_like, optional
        Weights of the squared residuals, such as inverse variances; non-negative. A
        row of weight 0 is left out, even if it has NaN or infinity in A or b. For
        weights that differ between systems, weighted matrices are made for a part of
        the batch at a time.
    sum_to : float or (...,) array_like, optional
        The sum of x, if it is fixed, as for abundances that add up to 1. A system
        with a negative sum is infeasible and gets status 4.
    warm_start : (..., n) array_like, optional
        An initial guess of x. The passive set starts with its positive, finite entries.
    l1, l2 : float or (..., n) array_like
        Weights of the penalties, non-negative. With `sum_to`, an `l1` that all
        variables have in common changes nothing, because the sum of x is fixed.
    L : (..., p, n) array_like or {"identity", "first", "second"}, optional
        The matrix of Tikhonov's penalty. A name is the matrix of the differences
        between neighbouring variables, of order 0, 1 or 2: ``x[j + 1] - x[j]``, or
        ``x[j + 2] - 2 x[j + 1] + x[j]``, not divided by a distance. A is not copied for
        each system.
    lam : float or (...,) array_like, optional
        The weight of the penalty, non-negative. Default: 1.
    prior : float or (..., n) array_like, optional
        The x without a penalty. Default: 0.
    tol : float, optional
        A variable may enter if ``dual[j] > tol |a_j| |r|`` with the residual r. So
        `tol` bounds the cosine of the angle between column and residual; it does not
        depend on the scales of A and b. ``"gram"`` has ``|b| + sum |a_k| x_k`` in place
        of ``|r|``. Default ``4 eps`` of the dtype in which x is computed.
    maxiter : int, optional
        Limit on `nit` for each attempt. Default ``10 n``; the compared methods have
        their own.
    devices : {"cpu", "all"}, int or list of int, optional
        Solve arrays in host memory or memory-mapped files block by block: on the CPU,
        on all visible GPUs (on the CPU if there are none), or on the GPUs of these
        numbers. The memory in use does not depend on the size of the batch; see
        the notes. By default the batch is solved as a whole, where its arrays are.
    out : dict of str to NumPy array, optional
        Arrays for fields of the result, such as ``{"x": x, "status": status}``: also
        memory-mapped files. They are written block by block, on the CPU unless there
        are `devices`.

    Returns
    -------
    NNLSResult
        Unpacks as ``x, rnorm``.

    Raises
    ------
    TypeError
        If a dtype is not real or has more than 64 bits, if the inputs are on different
        kinds of device, or if A is a list of sparse and dense matrices.
    ValueError
        If shapes do not match, an integer is too large for float64, a penalty or
        tolerance is negative or not finite, the method is unknown, a compared method
        does not take an argument, or the chunks of a dask array divide a system.
    MemoryError
        If memory does not suffice for a single system.

    See Also
    --------
    lsq_linear, bounded_qp, regularization_path, NNLSResult

    Notes
    -----
    The method is Lawson & Hanson's [1]_; ``"qr"`` is the form of Luo & Duraiswami [2]_.
    The variable of steepest descent per unit of column norm enters the passive set, so
    scaling the columns of A changes nothing but the scale of x. On a GPU, ``"gram"``
    lets up to 16 variables enter at once. A thread, a warp, a block or all blocks solve
    one system together, by its size. Columns and right-hand sides are scaled by powers
    of two, which is exact.

    For ``"qr"``, a column is dependent on the passive columns if its part orthogonal to
    them has a norm of at most ``4 eps (|a_j| + sum_k |a_k c_k|)``, where c are the
    coefficients of its projection. Such a small part may be pure rounding error. For
    ``"gram"``, the limit is ``1e-6 |a_j|``. Where a penalty falls along a dependence of
    columns, x moves along it to a bound.

    If `A` or `b` is a pandas DataFrame or Series, or an xarray DataArray, the results
    are such objects, with the names of the variables (the columns of A) and of the
    systems (the index of a DataFrame b). Axes of DataArrays are matched by name: the
    last two of `A` are rows and variables. Missing values of nullable columns, such as
    ``Float64``, count as NaN. Labels of the same axis must be equal.

    A and b in float32 give float32 output, and so does float16; other real dtypes give
    float64. No other argument changes the dtype. On the CPU, and by ``"gram"`` on a
    GPU, all computation is in float64. Kernels are launched on the current stream, with
    no host synchronisation except to check 64-bit integers; float32 kernels flush
    subnormal numbers to zero, as all kernels of CuPy do. NaN or infinity in one system
    does not affect the others. The last bits of a solution may depend on how many
    systems of a call share A, which decides whether ``A^T A`` is computed; they do not
    depend on the other b. A block or a chunk counts as a call.

    With `devices` or `out`, integers and other dtypes are converted block by block, and
    the next block is read and copied to a GPU while this block is solved. After Ctrl-C,
    or an error, `out` keeps the blocks that are finished; systems with a status of
    -1 in ``out["status"]`` are not solved. All fields without an array in `out`
    are allocated in memory.

    If an argument is a dask array, so are all fields of the result: nothing is computed
    yet, and ``dask.compute(result)`` is a result of NumPy arrays, each chunk solved
    once. A chunk has whole systems, and is solved by one task: on one core, or on the
    GPU of its CuPy arrays. Arguments that are NumPy arrays go with the tasks; arrays
    that all systems share are sent to each worker once.

    A sparse A is never made dense: gradients and certificates are sparse products, and
    the Gram matrix is dense, of all columns up to 4096, and else of the columns that
    ever were passive. Duplicate entries are added. x is computed in float64, by the
    methods ``"auto"`` and ``"gram"``, which are the same. Linear constraints, dask
    arrays and `devices` are refused, and so is ``vjp`` of the result. Each set of
    weights, and each L and `lam`, makes a copy of the entries.

    The compared methods, ``"lsqnonneg"``, ``"fnnls"``, ``"fcnnls"``,
    ``"block_pivoting"``, ``"pqn"``, ``"cd"``, ``"interior_point"``,
    ``"newton_like"``, ``"l1_ls"`` and ``"mgs"``, are taken from the literature, and get
    the same certificate: :doc:`/docs/compared-methods`. ``"mgs"`` is the solver of [2]_
    as published, on the CPU or a GPU.

    References
    ----------
    .. [1] C. L. Lawson and R. J. Hanson, Solving Least Squares Problems, 1974.
    .. [2] Y. Luo and R. Duraiswami, Efficient Parallel Non-Negative Least Squares on
           Multi-Core Architectures.

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> x, rnorm = gpusolve.nnls([[3, 2], [1, 1]], [3, 2])
    >>> x.round(6), rnorm.round(6)
    (array([0. , 1.6]), np.float64(0.447214))

    Many right-hand sides for one matrix, in one call:

    >>> A = np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> b = np.array([[2.0, 1.0, 0.0], [1.0, 0.0, -1.0], [-1.0, -1.0, -1.0]])
    >>> result = gpusolve.nnls(A, b)
    >>> result.x
    array([[1. , 0. ],
           [0.4, 0. ],
           [0. , 0. ]])
    >>> bool(result.kkt.max() < 1e-15)
    True

    The number of systems that were solved by each method:

    >>> result.method_counts
    {'gram': 3, 'qr': 0}

    A sparse matrix, which is never made dense:

    >>> import scipy.sparse
    >>> A = scipy.sparse.csr_array([[2, 0, 0], [0, 0, 1], [0, 0, 1]])
    >>> gpusolve.nnls(A, [1, 2, 3]).x.round(12)
    array([0.5, 0. , 2.5])

    More spectra than memory, in files, on all GPUs that there are:

    >>> b = np.memmap("spectra.f4", "f4", "r", shape=(10**9, 64))  # doctest: +SKIP
    >>> x = np.memmap("x.f4", "f4", "w+", shape=(10**9, 16))  # doctest: +SKIP
    >>> result = gpusolve.nnls(A, b, devices="all", out={"x": x})  # doctest: +SKIP
    """
    return dispatch(method, NNLS_METHODS, {"A": A, "b": b}, DEFAULTS, options)


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
    return dispatch(method, METHODS, given, BOUNDED, options)
