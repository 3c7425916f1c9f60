"""Batched non-negative least squares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .._device.arrays import Array, as_array
from .._device.kernels import current, device_of
from . import cpu, nnls_qr_kernel
from .inputs import validate

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
        ``|b - A x|``, the 2-norm of the residual of the x that is returned, computed
        in twice the working precision where it matters.
    dual : (..., n) array
        The negative gradient ``A^T (b - A x) - l1 - l2 x``: zero where ``x > 0`` and
        not positive where ``x == 0``, up to rounding. It is that of x before its last
        rounding, which a heavy row of A may magnify.
    kkt : (...,) array
        The certificate: how far ``|b - A x|`` can be from the least, relative to |b|.
        For every ``x' >= 0`` (without penalties, and up to second order)

            ``|b - A x| <= |b - A x'| + kkt (|b| + sum_k |a_k| x'_k)``.

        It is computed from A, b, x and a witness that bounds all residuals from below,
        and never divided by x. Some eps where x is optimal. More where x is so large
        that its rounding alone changes ``A x``, by up to ``eps sum_k |a_k| x_k``.
    nit : (...,) int32 array
        Least-squares solutions of a passive set that were made.
    status : (...,) int32 array
        0: converged, and the certificate holds: `kkt` is at most 1e-10 (float32:
        1e-4), or `tol` where that is more, but for what rounding in x adds, up to
        ``8 eps sum_k |a_k| x_k / |b|``.
        1: `maxiter` was reached, and x is the best feasible point so far.
        2: NaN or infinity in A or b, and all floating fields are NaN.
        3: not certified, and `kkt` says how far x may be from the optimum; or x is so
        large, as where columns are nearly dependent, that rounding hides more of
        ``b - A x`` than 1e-6 |b| (float32: 1e-3). x is the best point that was found.
    n_updates, n_downdates : (...,) int32 array
        Columns that entered and that left the passive set.
    repaired : (...,) bool array
        The first solution was not certified, and the system was solved again: by
        ``"qr"`` after ``"gram"``, and with more caution about dependent columns.
    method : str
        The method that solved the systems that are not `repaired`.
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
        on the CPU it is ``"gram"``, and QR factorisations, a batch at a time, for
        the systems whose certificate is not convincing so.
    warm_start : (..., n) array_like, optional
        A guess at x. Its positive, finite entries start in the passive set.
    l1, l2 : float
        Weights of the penalties, not negative.
    tol : float, optional
        A variable may enter where ``dual[j] > tol |a_j| |r|``, r the residual: the
        cosine of the angle between them, so that the scales of A and b do not count.
        Default ``4 eps``.
    maxiter : int, optional
        Limit of `nit` for one attempt; default ``10 n``.

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

    A column counts as dependent on the passive ones where what is left of it beside
    them is at most 4 eps times what cancels, ``|a_j| + sum_k |a_k c_k|`` with c the
    coefficients of its projection: no more than rounding leaves.

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

    How many systems were solved a second time:

    >>> int(result.repaired.sum())
    0
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, got {method!r}")
    A = as_array(A, "A")
    device = device_of(A)
    if device is not None and method == "gram":
        raise ValueError("method 'gram' runs on the CPU only; on a GPU ask for 'qr'")
    with current(device):
        problem = validate(A, b, warm_start, l1, l2, tol, maxiter)
        if device is None:
            fields = cpu.nnls(problem, method)
        else:
            fields = nnls_qr_kernel.nnls_qr(problem, device)
    solver = "gram" if device is None and method != "qr" else "qr"
    n = problem.shape[1]
    shaped = {
        name: field.reshape(problem.batch + ((n,) if name in ("x", "dual") else ()))[()]
        for name, field in fields._asdict().items()
    }
    return NNLSResult(**shaped, method=solver)
