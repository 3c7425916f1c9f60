"""Thousands of degenerate systems, compared with SciPy and brute force.

They are a tenth of the systems that ``benchmarks/nnls_accuracy.py`` solves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from degenerate_systems import BATCH, allowance, batch, excess, reference

SYSTEMS = 100_000


PARTS = [pytest.param(k, marks=[pytest.mark.slow] * (k > 1)) for k in range(20)]
"""The systems are solved in 20 parts; `make test` runs two, which have all families."""

LIMIT = {np.float64: 1e-9, np.float32: 1e-4}
"""Limit on how far |b - A x| may be above the minimum, relative to |b|."""


def check(
    backend: Any,
    index: int,
    dtype: Any,
    method: str = "auto",
    systems: int = BATCH,
) -> None:
    """Solve one batch and compare each residual with the least known residual."""
    family, A, b = batch(index)
    A, b = A[:systems].astype(dtype), b[:systems].astype(dtype)
    result = backend.nnls(A, b, method=method)
    best = reference(A, b, dtype)
    above = excess(A, b, result.x, best) - allowance(b, best)
    worst = int(np.argmax(above))
    assert above[worst] <= LIMIT[dtype], f"{family}: system {worst} of batch {index}"
    assert set(np.unique(result.status)) <= {0, 3}
    magnitude = np.einsum("kn,kn->k", np.linalg.norm(A, axis=-2), result.x)
    small = magnitude < 1e3 * np.linalg.norm(b, axis=-1)
    assert (result.status[small] == 0).all()


def check_part(backend: Any, part: int, dtype: Any) -> None:
    batches = SYSTEMS // BATCH if dtype is np.float64 else SYSTEMS // BATCH // 5
    for index in range(part, batches, len(PARTS)):
        check(backend, index, dtype)


@pytest.mark.parametrize("dtype", LIMIT)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("backend", ["numpy", "fallback"], indirect=True)
def test_cpu(part: int, dtype: Any, backend: Any) -> None:
    check_part(backend, part, dtype)


@pytest.mark.parametrize("part", PARTS)
def test_qr(part: int, numpy_backend: Any) -> None:
    for index in range(part, 100, len(PARTS)):
        check(numpy_backend, index, np.float64, "qr", systems=25)


@pytest.mark.parametrize("dtype", LIMIT)
@pytest.mark.parametrize("part", PARTS)
def test_kernel(part: int, dtype: Any, device_backend: Any) -> None:
    batches = 2 * len(PARTS) if device_backend.emulated else SYSTEMS // BATCH
    for index in range(part, batches, len(PARTS)):
        check(device_backend, index, dtype)
