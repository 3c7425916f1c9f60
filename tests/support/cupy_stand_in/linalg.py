"""The parts of ``cupy.linalg`` that gpusolve uses.

CuPy does not read whether cuSOLVER succeeded. Here a failure is NumPy's error, but for
`inv`.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from .array import by_numpy, ndarray


def inverses(a: Any) -> Any:
    """NaN for a singular matrix, as cuSOLVER leaves it, and not NumPy's error."""
    found = np.full_like(a, np.nan)
    for index in np.ndindex(a.shape[:-2]):
        with contextlib.suppress(np.linalg.LinAlgError):
            found[index] = np.linalg.inv(a[index])
    return found


def solve(a: ndarray, b: ndarray) -> ndarray:
    if a.shape[:-1] != b.shape[:-1]:
        raise ValueError("a must have (..., M, M) shape and b must have (..., M, K)")
    return by_numpy(np.linalg.solve)(a, b)


inv = by_numpy(inverses)
cholesky, eigh, eigvalsh, norm, qr, svd = (
    by_numpy(getattr(np.linalg, name))
    for name in ("cholesky", "eigh", "eigvalsh", "norm", "qr", "svd")
)

__all__ = ["cholesky", "eigh", "eigvalsh", "inv", "norm", "qr", "solve", "svd"]
