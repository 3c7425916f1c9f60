"""The parts of ``cupy.cuda.cublas`` that gpusolve uses."""

from __future__ import annotations

import ctypes
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

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


GEMM = [
    *("handle", "transa", "transb", "m", "n", "k", "alpha", "A", "lda", "strideA"),
    *("B", "ldb", "strideB", "beta", "C", "ldc", "strideC", "batchCount"),
]
"""The arguments of a batched product, in CuPy's order."""


def gemm_strided_batched(dtype: type, *arguments: int) -> None:
    of = SimpleNamespace(**dict(zip(GEMM, arguments, strict=True)))
    if of.handle != get_cublas_handle():
        raise devices.CUDARuntimeError("CUBLAS_STATUS_NOT_INITIALIZED: another device")
    if (of.transa, of.transb) != (CUBLAS_OP_T, CUBLAS_OP_N) or not of.batchCount:
        raise NotImplementedError("the stand-in has A^T B only")
    number = ctypes.c_double if dtype is np.float64 else ctypes.c_float
    factor, kept = (number.from_address(one).value for one in (of.alpha, of.beta))

    def matrices(address: int, *shape: int, leading: int, stride: int) -> Any:
        """A batch in device memory: matrices, their columns, entries of a column."""
        pointer = pointer_to(address)
        if pointer.device_id != devices.current():
            raise devices.CUDARuntimeError("cudaErrorIllegalAddress: another device")
        size = np.dtype(dtype).itemsize
        strides = stride * size, leading * size, size
        place = pointer.mem.bytes, pointer.offset
        return np.ndarray((of.batchCount, *shape), dtype, *place, strides)

    rows = matrices(of.A, of.m, of.k, leading=of.lda, stride=of.strideA)
    columns = matrices(of.B, of.n, of.k, leading=of.ldb, stride=of.strideB).mT
    product = matrices(of.C, of.n, of.m, leading=of.ldc, stride=of.strideC).mT
    found = factor * np.matmul(rows, columns)
    product[...] = found + kept * product if kept else found


dgemmStridedBatched = partial(gemm_strided_batched, np.float64)  # noqa: N816
sgemmStridedBatched = partial(gemm_strided_batched, np.float32)  # noqa: N816
