"""Matrix times vector.

Work ``2 m n``; depth ``log n``, or ``log m`` if transposed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def gemv(A: Array, x: Array, *, transpose: bool = False) -> Array:
    """``A x``, or ``A^T x``, for each system of a batch.

    Parameters
    ----------
    A : (..., m, n) array of float16, float32 or float64
    x : (..., n) array, or (..., m) if transposed
        The vectors, of the same dtype. The leading axes of `A` and `x` broadcast.
    transpose : bool, optional

    Returns
    -------
    (..., m) array, or (..., n) if transposed
        Of the same dtype. float16 is summed in float32 and rounded once.

    See Also
    --------
    gpusolve.gemv

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> gemv(A, np.array([1.0, 0.0, -1.0]))
    array([-2., -2.])
    >>> gemv(A, np.array([1.0, 1.0]), transpose=True)
    array([5., 7., 9.])
    """
    sums = np.promote_types(A.dtype, np.float32)
    if transpose:
        A = A.swapaxes(-1, -2)
    with np.errstate(over="ignore", invalid="ignore"):
        y = _products(A.astype(sums, copy=False), x.astype(sums, copy=False))
        return y.astype(A.dtype, copy=False)


def _products(A: Array, x: Array) -> Array:
    """``A x``; a matrix shared by many vectors takes one matrix product.

    ``numpy.dot`` also calls BLAS for a single column; ``numpy.matmul`` does not.
    """
    if A.ndim > 2:
        return np.asarray((A @ x[..., None])[..., 0])
    return np.asarray(x @ A.T if x.ndim > 1 else np.dot(A, x))
