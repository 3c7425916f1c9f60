"""Products of matrices, by NumPy or cuBLAS."""

from __future__ import annotations

import numpy as np

from .arrays import Array, is_cupy, namespace
from .kernels import with_memory


def product(A: Array, x: Array) -> Array:
    """``A x`` for each system; a shared A is not copied."""
    xp = namespace(x)
    if A.ndim == 2:
        return xp.matmul(x, A.T)
    return xp.matmul(A, x[..., None])[..., 0]


def transposed_product(A: Array, y: Array) -> Array:
    """``A^T y`` for each system; a shared A is not copied."""
    xp = namespace(y)
    if A.ndim == 2:
        return xp.matmul(y, A)
    return xp.matmul(y[..., None, :], A)[..., 0, :]


def transposed(matrices: Array) -> Array:
    """The matrices with rows and columns exchanged."""
    return namespace(matrices).swapaxes(matrices, -1, -2)


def times_transposes(rows: Array) -> Array:
    """The product of each matrix and its transpose.

    CuPy's ``matmul`` would copy the transposes.

    Parameters
    ----------
    rows : (matrices, n, k) array
        Contiguous, of float32 or float64.

    Returns
    -------
    (matrices, n, n) array
    """
    if not is_cupy(rows):
        return np.matmul(rows, rows.swapaxes(-1, -2))
    import cupy
    from cupy.cuda import cublas, device

    matrices, n, k = rows.shape
    handle = with_memory(device.get_cublas_handle)
    products = cupy.empty((matrices, n, n), rows.dtype)
    one, zero = np.ones(1, rows.dtype), np.zeros(1, rows.dtype)
    is_double = rows.dtype == np.float64
    gemm = cublas.dgemmStridedBatched if is_double else cublas.sgemmStridedBatched
    # cuBLAS stores matrices by columns, so its matrices have the rows as columns.
    operand = rows.data.ptr, k, n * k
    with_memory(
        gemm,
        handle,
        *(cublas.CUBLAS_OP_T, cublas.CUBLAS_OP_N),
        *(n, n, k),
        one.ctypes.data,
        *operand,
        *operand,
        zero.ctypes.data,
        *(products.data.ptr, n, n * n),
        matrices,
    )
    return products
