"""The parts of ``cupy.linalg`` that gpusolve uses.

CuPy does not read whether cuSOLVER succeeded. Here a failure is NumPy's error, but for
`inv`.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from .array import compute, from_host, host_value, ndarray, refuse_options


def cholesky(a: ndarray) -> ndarray:
    return compute(np.linalg.cholesky, a)


def eigh(a: ndarray, UPLO: str = "L") -> tuple[ndarray, ndarray]:
    values, vectors = np.linalg.eigh(host_value(a), UPLO)
    return from_host(values), from_host(vectors)


def eigvalsh(a: ndarray, UPLO: str = "L") -> ndarray:
    return compute(np.linalg.eigvalsh, a, UPLO=UPLO)


def inv(a: ndarray) -> ndarray:
    return compute(inverses, a)


def inverses(a: Any) -> Any:
    """NaN for a singular matrix, as cuSOLVER leaves it, and not NumPy's error."""
    n = a.shape[-1]
    found = np.full((*a.shape[:-2], n, n), np.nan, a.dtype)
    for index in np.ndindex(a.shape[:-2]):
        with contextlib.suppress(np.linalg.LinAlgError):
            found[index] = np.linalg.inv(a[index])
    return found


def norm(
    x: ndarray, ord: Any = None, axis: Any = None, keepdims: bool = False
) -> ndarray:
    return compute(lambda a: np.linalg.norm(a, ord, axis, keepdims), x)


def qr(a: ndarray, mode: str = "reduced") -> Any:
    if mode == "r":
        return compute(np.linalg.qr, a, mode=mode)
    refuse_options(mode=mode == "reduced")
    Q, R = np.linalg.qr(host_value(a))
    return from_host(Q), from_host(R)


def svd(
    a: ndarray, full_matrices: bool = True, compute_uv: bool = True
) -> tuple[ndarray, ndarray, ndarray]:
    refuse_options(compute_uv=compute_uv)
    U, S, V = np.linalg.svd(host_value(a), full_matrices)
    return from_host(U), from_host(S), from_host(V)


def solve(a: ndarray, b: ndarray) -> ndarray:
    if a.shape[:-1] != b.shape[:-1]:
        raise ValueError("a must have (..., M, M) shape and b must have (..., M, K)")
    return compute(np.linalg.solve, a, b)


__all__ = ["cholesky", "eigh", "eigvalsh", "inv", "norm", "qr", "solve", "svd"]
