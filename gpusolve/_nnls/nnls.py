"""Batched non-negative least squares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .._device.arrays import Array, as_array, unwrapped
from .._device.kernels import current, device_of
from . import cpu, device
from .inputs import validate

METHODS = ("auto", "qr", "gram")


@dataclass(frozen=True)
class NNLSResult:
    """Solutions of a batch of systems; unpacks as ``x, rnorm = result``.

    The arrays are on the device of the inputs. ``...`` stands for the batch axes.

    Attributes
    ----------
    x : (..., n) array
        The solutions. All entries are non-negative.
    rnorm : (...,) array
        ``|b - A x|``, the 2-norm of the residual of the returned x. Where terms cancel,
        the residual is computed in twice the working precision.
    dual : (..., n) array
        The negative gradient ``A^T (b - A x) - l1 - l2 x``. Up to rounding it is 0
        where ``x > 0``, and at most 0 where ``x == 0``. It belongs to x before x was
        rounded to its dtype; a row of A with a large weight may magnify the difference.
    kkt : (...,) array
        The certificate: an upper bound on how far ``|b - A x|`` is above the minimum,
        relative to |b|. For every ``x' >= 0`` (without penalties, to first order)

            ``|b - A x| <= |b - A x'| + kkt (|b| + sum_k |a_k| x'_k)``.

        It is computed from A, b, x and a witness: a vector that bounds all residuals
        from below. It is never divided by x. An optimal x has a `kkt` of a few eps, or
        more where x is so large that rounding x changes ``A x``: by up to
        ``eps sum_k |a_k| x_k``.
    nit : (...,) int32 array
        Number of least-squares solutions that were computed, one for each passive set.
    status : (...,) int32 array
        0: converged and certified. `kkt` is at most 1e-10 (float32: 1e-4), or at most
        `tol` if that is larger. Rounding in x may add up to
        ``8 eps sum_k |a_k| x_k / |b|``.
        1: stopped at `maxiter`; x is the best feasible point so far.
        2: A or b contains NaN or infinity; all floating-point fields are NaN.
        3: not certified; x is the best point found. Either `kkt` shows how far x may
        be from the optimum; or x is so large that rounding it changes ``b - A x`` by
        more than 1e-6 |b| (float32: 1e-3), as with nearly dependent columns.
    n_updates, n_downdates : (...,) int32 array
        Number of columns that entered and that left the passive set.
    repaired : (...,) bool array
        Whether the system was solved a second time, because the first solution was not
        certified: by ``"qr"`` after ``"gram"``, or with a larger threshold for
        dependent columns.
    method : (...,) uint8 array
        The method that found x: 0 for ``"gram"``, 1 for ``"qr"``.
    """

    x: Array
    rnorm: Array
    dual: Array
    kkt: Array
    nit: Array
    status: Array
    n_updates: Array
    n_downdates: Array
    repaired: Array
    method: Array

    def __iter__(self) -> Iterator[Array]:
        return iter((self.x, self.rnorm))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int | slice) -> Any:
        return (self.x, self.rnorm)[index]


def nnls(
    A: Any,
    b: Any,
    *,
    method: str = "auto",
    warm_start: Any = None,
    l1: float = 0.0,
    l2: float = 0.0,
    tol: float | None = None,
    maxiter: int | None = None,
) -> NNLSResult:
    r"""Solve non-negative least-squares problems, each with a certificate.

    .. math:: \min_{x \ge 0} \tfrac12 |A x - b|^2 + l_1 \sum_j x_j + \tfrac{l_2}2 |x|^2

    Parameters
    ----------
    A : (..., m, n) array_like
        The matrices, of any shape (also ``m < n``) and any strides: NumPy or CuPy
        arrays, or any object that supports ``__cuda_array_interface__`` or DLPack.
    b : (..., m) array_like
        The right-hand sides. The leading axes of `A` and `b` broadcast; a matrix that
        is shared by several right-hand sides is not copied.
    method : {"auto", "qr", "gram"}
        ``"gram"`` works on ``A^T A``, and corrects x by ``b - A x``. ``"qr"`` updates a
        QR factorisation of the passive columns. It is slower, but accurate even for
        ill-conditioned systems. ``"auto"`` is ``"gram"``, followed by ``"qr"`` for the
        systems that ``"gram"`` could not certify to a few eps. On a GPU it is ``"qr"``
        alone for matrices with more than twice as many columns as rows, or if
        ``A^T A`` does not fit into memory.
    warm_start : (..., n) array_like, optional
        An initial guess of x. The passive set starts with its positive, finite entries.
    l1, l2 : float
        Weights of the penalties, non-negative.
    tol : float, optional
        A variable may enter if ``dual[j] > tol |a_j| |r|`` with the residual r. So
        `tol` bounds the cosine of the angle between column and residual; it does not
        depend on the scales of A and b. ``"gram"`` has ``|b| + sum |a_k| x_k`` in place
        of ``|r|``. Default ``4 eps`` of the dtype in which x is computed.
    maxiter : int, optional
        Limit on `nit` for each attempt. Default ``10 n``.

    Returns
    -------
    NNLSResult
        Unpacks as ``x, rnorm``.

    Raises
    ------
    TypeError
        If a dtype is not real or has more than 64 bits, or if the inputs are on
        different kinds of device.
    ValueError
        If shapes do not match, an integer is too large for float64, a penalty or
        tolerance is negative or not finite, or the method is unknown.
    MemoryError
        If memory does not suffice for one system.

    Notes
    -----
    The method is Lawson & Hanson's [1]_; ``"qr"`` is the form of Luo & Duraiswami [2]_.
    The entering variable is the one of steepest descent per unit of column norm, so
    scaling the columns of A changes nothing but the scale of x. On a GPU, ``"gram"``
    lets up to 16 variables enter at once. A thread, a warp, a block or all blocks solve
    one system together, by its size. Columns and right-hand sides are scaled by powers
    of two, which is exact.

    For ``"qr"``, a column is dependent on the passive columns if its part orthogonal to
    them has a norm of at most ``4 eps (|a_j| + sum_k |a_k c_k|)``, where c are the
    coefficients of its projection. A part that small may be pure rounding error. For
    ``"gram"``, the limit is ``1e-6 |a_j|``.

    float32 input gives float32 output, and so does float16; other real dtypes give
    float64. On the CPU, and by ``"gram"`` on a GPU, all computation is in float64.
    Kernels are launched on the current stream, with no host synchronisation except to
    check 64-bit integers;
    float32 kernels flush subnormal numbers to zero, as all kernels of CuPy do. NaN or
    infinity in one system does not affect the others.

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

    >>> np.bincount(result.method, minlength=2)
    array([3, 0])
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, got {method!r}")
    A = as_array(A, "A")
    target = device_of(A)
    with current(target):
        problem = validate(A, b, warm_start, l1, l2, tol, maxiter)
        if target is None:
            fields = cpu.nnls(problem, method)
        else:
            fields = device.nnls(problem, target, method)
    return NNLSResult(*[unwrapped(field) for field in fields])
