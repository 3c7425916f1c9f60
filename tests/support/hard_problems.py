"""Single systems that are degenerate, badly scaled or otherwise hard, by name."""

from __future__ import annotations

import numpy as np
from degenerate_systems import kahan
from scipy.linalg import hilbert


def hard_problems() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(7)
    A = rng.standard_normal((12, 8))
    b = A @ rng.standard_normal(8) + 0.3 * rng.standard_normal(12)
    twins = np.hstack([A, A])
    nearly = np.hstack([A, A * (1 + 1e-14 * rng.standard_normal(A.shape))])
    zero_columns = A.copy()
    zero_columns[:, [0, 5]] = 0
    problems = {
        "two by two": (np.array([[3.0, 2.0], [1.0, 1.0]]), np.array([3.0, 2.0])),
        "one by one": (np.array([[2.0]]), np.array([3.0])),
        "one by one, negative": (np.array([[2.0]]), np.array([-3.0])),
        "duplicate columns": (twins, b),
        "nearly duplicate columns": (nearly, b),
        "zero columns": (zero_columns, b),
        "zero matrix": (np.zeros((5, 3)), np.ones(5)),
        "zero b": (A, np.zeros(12)),
        "rank deficient": (A[:, :3] @ rng.random((3, 8)), b),
        "all-negative b": (np.abs(A), -np.abs(b)),
        "tiny A": (1e-21 * A, b),
        "huge A": (1e150 * A, b),
        "tiny b": (A, 1e-200 * b),
        "badly scaled columns": (A * np.logspace(0, -14, 8), b),
        "ties": (np.eye(6), np.ones(6)),
        "ties, degenerate": (np.tril(np.ones((6, 6))), np.ones(6)),
        "exactly solvable": (A, A @ rng.random(8)),
        "exactly solvable, sparse": (A, A @ np.array([0, 1, 0, 0, 2, 0, 0, 0.0])),
        "wide": (rng.random((5, 20)), rng.random(5)),
        "one row": (rng.standard_normal((1, 7)), np.array([1.0])),
        "tall": (rng.random((2000, 3)), rng.random(2000)),
        "denormal column": (A * np.array([1, 1, 1, 5e-324, 1, 1, 1, 1]), b),
    }
    problems |= {
        f"Hilbert {n}": (hilbert(n), hilbert(n) @ (np.arange(n) % 2.0))
        for n in range(6, 15)
    }
    problems |= {f"Kahan {n}": (kahan(n), np.ones(n)) for n in (10, 40)}
    return problems


HARD = hard_problems()
