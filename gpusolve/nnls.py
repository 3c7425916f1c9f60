"""Batched non-negative least squares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import _nnls_cpu, _nnls_kernel
from ._arrays import Array
from ._kernels import device_of
from ._nnls_problem import validate

METHODS = ("auto", "qr", "gram")


@dataclass(frozen=True)
class NNLSResult:
    """Solutions of a batch of systems; unpacks as ``x, rnorm = result``.

    All arrays live where the inputs lived. ``...`` is the batch.

    Attributes
    ----------
    x : (..., n) array
        The solutions, not negative.
    rnorm : (...,) array
        ``|b - A x|``, the 2-norm of the residual.
    dual : (..., n) array
        The negative gradient ``A^T (b - A x) - l1 - l2 x``: zero where ``x > 0`` and
        not positive where ``x == 0``, up to rounding.
    kkt : (...,) array
        The certificate: the largest violation of these two conditions, each over
        ``|a_j| (|b| + sum_k |a_k| x_k)``, computed from A, b and x at the end and not
        from the factorisation. About the dtype's epsilon where x is optimal.
    nit : (...,) int32 array
        Least-squares solutions of a passive set that were made.
    status : (...,) int32 array
        0: converged. 1: `maxiter` was reached, and x is the best feasible point so
        far. 2: NaN or infinity in A or b, and all floating fields are NaN.
    n_updates, n_downdates : (...,) int32 array
        Columns that entered and that left the passive set.
    method : str
        The method that ran.
    """

    x: Array
    rnorm: Array
    dual: Array
    kkt: Array
    nit: Array
    status: Array
    n_updates: Array
    n_downdates: Array
    method: str

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
        The matrices: any shape, ``m < n`` included, any strides. NumPy or CuPy, or
        whatever speaks ``__cuda_array_interface__`` or DLPack.
    b : (..., m) array_like
        The right-hand sides. The leading axes of `A` and `b` broadcast; an `A` that
        is shared by many `b` is not copied.
    method : {"auto", "qr", "gram"}
        ``"qr"`` updates a QR factorisation of the passive columns, exact to the last
        digits even for ill-conditioned systems. ``"gram"`` works on ``A^T A``,
        vectorised over the batch, on the CPU only. ``"auto"`` is ``"qr"`` on a GPU;
        on the CPU it is ``"gram"``, and ``"qr"`` for each system that does not reach
        its certificate so.
    warm_start : (..., n) array_like, optional
        A guess at x. Its positive, finite entries start in the passive set.
    l1, l2 : float
        Weights of the penalties, not negative.
    tol : float, optional
        A variable may enter where ``dual[j] > tol |a_j| |r|``, r the residual: the
        cosine of the angle between them, so that the scales of A and b do not count.
        It does enter where the objective then falls by more than
        ``(tol (|b| + sum_k |a_k| x_k))**2 / 2``; the parenthesis is the magnitude of
        what cancels in ``b - A x``, so that rounding is never mistaken for descent.
        A column counts as dependent on the passive ones where at most
        ``sqrt(m) tol`` of its norm is left beside them. Default ``4 eps``.
    maxiter : int, optional
        Limit of `nit`; default ``3 n``.

    Returns
    -------
    NNLSResult
        Unpacks as ``x, rnorm``.

    Raises
    ------
    TypeError
        For dtypes that are not real numbers of at most 64 bits, or inputs on
        different kinds of device.
    ValueError
        For shapes that do not fit, integers that float64 cannot hold, penalties or
        tolerances that are negative or not finite, or an unknown method.
    MemoryError
        Where not even one system fits into memory.

    Notes
    -----
    The method is Lawson & Hanson's [1]_ in the form of Luo & Duraiswami [2]_. The
    entering variable is the one of steepest descent per unit column norm, so that
    scaling the columns of A scales x and changes nothing else. Columns and
    right-hand sides are scaled by powers of two, which is exact.

    float32 in, float32 out; other real dtypes give float64 (float16: float32). On the
    CPU all computation is in float64. On a GPU the kernel is launched on the current
    stream and nothing synchronises, but for the check of 64-bit integers; float32
    kernels take subnormal numbers for zero there, as all of CuPy's do. NaN or
    infinity in one system touches no other.

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
    """
    problem = validate(A, b, warm_start, l1, l2, tol, maxiter)
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; one of {METHODS} is wanted")
    device = device_of(problem.A)
    if device is None:
        solver = "qr" if method == "qr" else "gram"
        fields = _nnls_cpu.solve(problem, method)
    elif method == "gram":
        raise ValueError("method 'gram' runs on the CPU only; on a GPU ask for 'qr'")
    else:
        solver = "qr"
        with device.current():
            fields = _nnls_kernel.solve(problem, device)
    n = problem.shape[1]
    shaped = {
        name: field.reshape(problem.batch + ((n,) if name in ("x", "dual") else ()))[()]
        for name, field in fields._asdict().items()
    }
    return NNLSResult(**shaped, method=solver)
