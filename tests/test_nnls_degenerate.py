"""Degenerate systems by the thousand against SciPy and brute force.

A tenth of those that ``benchmarks/nnls_accuracy.py`` solves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from degenerate_systems import BATCH, allowance, batch, excess, reference

PARTS = 20
SYSTEMS = 100_000

LIMIT = {np.float64: 1e-9, np.float32: 1e-4}
"""How far above the least |b - A x| may be, relative to |b|."""


def check(backend: Any, index: int, dtype: Any, method: str = "auto") -> None:
    """Solve one batch; no system is worse than the best that is known of it."""
    family, A, b = batch(index)
    A, b = A.astype(dtype), b.astype(dtype)
    result = backend.nnls(A, b, method=method)
    best = reference(A, b, dtype)
    over = excess(A, b, result.x, best) - allowance(b, best)
    worst = int(np.argmax(over))
    assert over[worst] <= LIMIT[dtype], f"{family}: system {worst} of batch {index}"
    assert set(np.unique(result.status)) <= {0, 3}
    hidden = np.einsum("kn,kn->k", np.linalg.norm(A, axis=-2), result.x)
    small = hidden < 1e3 * np.linalg.norm(b, axis=-1)
    assert (result.status[small] == 0).all()


@pytest.mark.parametrize("part", range(PARTS))
def test_float64(part: int, numpy_backend: Any) -> None:
    for index in range(part, SYSTEMS // BATCH, PARTS):
        check(numpy_backend, index, np.float64)


@pytest.mark.parametrize("part", range(4))
def test_float32(part: int, numpy_backend: Any) -> None:
    for index in range(part, SYSTEMS // BATCH // 5, 4):
        check(numpy_backend, index, np.float32)


@pytest.mark.parametrize("dtype", LIMIT)
@pytest.mark.parametrize("part", range(4))
def test_kernel(part: int, dtype: Any, device_backend: Any) -> None:
    batches = 12 if device_backend.emulated else SYSTEMS // BATCH
    for index in range(part, batches, 4):
        check(device_backend, index, dtype)
