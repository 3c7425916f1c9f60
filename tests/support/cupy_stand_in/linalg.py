"""The parts of ``cupy.linalg`` that gpusolve uses.

CuPy does not read whether cuSOLVER succeeded. Here a failure is NumPy's error.
"""

from __future__ import annotations

import numpy as np

from .array import compute, from_host, host_value, ndarray


def cholesky(a: ndarray) -> ndarray:
    return compute(np.linalg.cholesky, a)


def eigh(a: ndarray, UPLO: str = "L") -> tuple[ndarray, ndarray]:
    values, vectors = np.linalg.eigh(host_value(a), UPLO)
    return from_host(values), from_host(vectors)


def eigvalsh(a: ndarray, UPLO: str = "L") -> ndarray:
    return compute(np.linalg.eigvalsh, a, UPLO=UPLO)


def solve(a: ndarray, b: ndarray) -> ndarray:
    if a.shape[:-1] != b.shape[:-1]:
        raise ValueError("a must have (..., M, M) shape and b must have (..., M, K)")
    return compute(np.linalg.solve, a, b)


def svd(a: ndarray, full_matrices: bool = True) -> tuple[ndarray, ndarray, ndarray]:
    u, s, vt = np.linalg.svd(host_value(a), full_matrices)
    return from_host(u), from_host(s), from_host(vt)


__all__ = ["cholesky", "eigh", "eigvalsh", "solve", "svd"]
