"""What an NNLS solution must satisfy, told without the package."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls as scipy_nnls

Array = NDArray[Any]


def violation(A: Array, b: Array, x: Array, l1: float = 0.0, l2: float = 0.0) -> float:
    """The optimality conditions' largest violation, in extended precision."""
    A, b, x = (np.asarray(v, np.longdouble) for v in (A, b, x))
    if np.any(x < 0) or not np.isfinite(x).all():
        return np.inf
    norm = np.sqrt((A * A).sum(axis=0) + l2)
    dual = A.T @ (b - A @ x) - l1 - l2 * x
    scale = norm * (np.sqrt(b @ b) + norm @ x)
    worst = np.where(x > 0, np.abs(dual), np.maximum(dual, 0))
    return float(np.max(worst[scale > 0] / scale[scale > 0], initial=0))


def brute_force(A: Array, b: Array, l1: float = 0.0, l2: float = 0.0) -> float:
    """The least objective over all passive sets; for a few columns."""
    n = A.shape[1]
    best = objective(A, b, np.zeros(n), l1, l2)
    for size in range(1, n + 1):
        for passive in map(list, itertools.combinations(range(n), size)):
            P = A[:, passive]
            normal = P.T @ P + l2 * np.eye(size)
            y = np.linalg.lstsq(normal, P.T @ b - l1, rcond=None)[0]
            if (y >= 0).all():
                x = np.zeros(n)
                x[passive] = y
                best = min(best, objective(A, b, x, l1, l2))
    return best


def objective(A: Array, b: Array, x: Array, l1: float = 0.0, l2: float = 0.0) -> float:
    r = A @ x - b
    return float(0.5 * r @ r + l1 * x.sum() + 0.5 * l2 * x @ x)


def scipy_rnorm(A: Array, b: Array) -> float:
    return float(scipy_nnls(A, b)[1])
