"""The parts of ``cupy.cuda.cublas`` that gpusolve uses."""

from __future__ import annotations

import ctypes
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import devices
from .devices import CUBLASError
from .memory import pointer_to

CUBLAS_OP_N, CUBLAS_OP_T = 0, 1

HANDLES = 1000
"""Added to the number of a device for its handle."""


def get_cublas_handle() -> int:
    if devices.states[devices.current()].is_full:
        error = CUBLASError("CUBLAS_STATUS_ALLOC_FAILED")
        error.status = 3
        raise error
    return HANDLES + devices.current()


def gemm_strided_batched(
    dtype: type,
    handle: int,
    transa: int,
    transb: int,
    m: int,
    n: int,
    k: int,
    alpha: int,
    A: int,
    lda: int,
    strideA: int,
    B: int,
    ldb: int,
    strideB: int,
    beta: int,
    C: int,
    ldc: int,
    strideC: int,
    batchCount: int,
) -> None:
    if handle != get_cublas_handle():
        raise devices.CUDARuntimeError("CUBLAS_STATUS_NOT_INITIALIZED: another device")
    if (transa, transb) != (CUBLAS_OP_T, CUBLAS_OP_N) or not batchCount:
        raise NotImplementedError("the stand-in has A^T B only")
    number = ctypes.c_double if dtype is np.float64 else ctypes.c_float
    factor, kept = (number.from_address(scalar).value for scalar in (alpha, beta))
    batch = partial(matrices, dtype)
    rows = batch(A, (batchCount, m, k), lda, strideA)
    columns = batch(B, (batchCount, n, k), ldb, strideB).swapaxes(-1, -2)
    product = batch(C, (batchCount, n, m), ldc, strideC).swapaxes(-1, -2)
    found = factor * np.matmul(rows, columns)
    product[...] = found + kept * product if kept else found


def matrices(
    dtype: type, address: int, shape: tuple[int, int, int], leading: int, stride: int
) -> NDArray[Any]:
    """A batch in device memory: matrices, their columns, entries of a column."""
    pointer = pointer_to(address)
    if pointer.device_id != devices.current():
        raise devices.CUDARuntimeError("cudaErrorIllegalAddress: another device")
    size = np.dtype(dtype).itemsize
    strides = stride * size, leading * size, size
    return np.ndarray(shape, dtype, pointer.mem.bytes, pointer.offset, strides)


dgemmStridedBatched = partial(gemm_strided_batched, np.float64)  # noqa: N816
sgemmStridedBatched = partial(gemm_strided_batched, np.float32)  # noqa: N816

__all__ = [
    "CUBLAS_OP_N",
    "CUBLAS_OP_T",
    "CUBLASError",
    "dgemmStridedBatched",
    "get_cublas_handle",
    "sgemmStridedBatched",
]
