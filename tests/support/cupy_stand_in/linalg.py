"""The parts of ``cupy.linalg`` that gpusolve uses.

CuPy does not read whether cuSOLVER succeeded. Here a failure is NumPy's error, but for
`inv`.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from .array import compute, from_host, host_value, like_cupy, ndarray, refuse_options


def eigh(a: ndarray, UPLO: str = "L") -> tuple[ndarray, ndarray]:
    values, vectors = np.linalg.eigh(host_value(a), UPLO)
    return from_host(values), from_host(vectors)


def inverses(a: Any) -> Any:
    """NaN for a singular matrix, as cuSOLVER leaves it, and not NumPy's error."""
    n = a.shape[-1]
    found = np.full((*a.shape[:-2], n, n), np.nan, a.dtype)
    for index in np.ndindex(a.shape[:-2]):
        with contextlib.suppress(np.linalg.LinAlgError):
            found[index] = np.linalg.inv(a[index])
    return found


cholesky = like_cupy(lambda a: ..., function=np.linalg.cholesky)
eigvalsh = like_cupy(lambda a, UPLO="L": ..., "UPLO", np.linalg.eigvalsh)
inv = like_cupy(lambda a: ..., function=inverses)
norm = like_cupy(
    lambda x, ord=None, axis=None, keepdims=False: ...,
    "ord axis keepdims",
    np.linalg.norm,
)


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
