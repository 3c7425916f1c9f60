"""Thousands of degenerate systems, compared with SciPy and brute force.

``benchmarks/hard.py`` solves ten times as many systems.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from degenerate_systems import BATCH, allowance, batch, excess, reference

from gpusolve._device import kernels
from gpusolve._nnls import dense, nnls_gram_kernel
from gpusolve._nnls.nnls_gram_kernel import Team, choose, multiply_by_transpose
from gpusolve._nnls.validation import validate

SYSTEMS = 100_000

BLOCK = Team("BlockTeam", 64)


def marks(part: int) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] * (part > 1) + [pytest.mark.exhaustive] * (part > 3)


PARTS = [pytest.param(part, marks=marks(part)) for part in range(20)]
"""The systems are solved in 20 parts; `make test` runs two, which have all families."""

LIMIT = {np.float64: 1e-9, np.float32: 1e-4}
"""Limit on how far |b - A x| may be above the minimum, relative to |b|."""


def check(
    backend: Any, index: int, dtype: Any, method: str = "auto", systems: int = BATCH
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
    systems = BATCH if backend.name == "numpy" else BATCH // 5
    for index in range(part, batches, len(PARTS)):
        check(backend, index, dtype, systems=systems)


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


class SlowFloat64(kernels.EmulatedDevice):
    """A consumer card: the Gram matrices are computed in float32."""

    has_slow_float64 = True


@pytest.mark.parametrize("part", range(5))
def test_gram_matrices_in_float32(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding errors of Gram matrices do not spoil answers: QR repairs them."""
    monkeypatch.setattr(nnls_gram_kernel, "teams_for", lambda *_: [BLOCK])
    monkeypatch.setattr(nnls_gram_kernel, "choose", choose.__wrapped__)
    for index in range(part, 50, 5):
        family, A, b = batch(index)
        A, b = A[:10], b[:10]
        result = dense.solve_on_device(validate(A, b), SlowFloat64(), "auto")
        best = reference(A, b)
        above = excess(A, b, result.x, best) - allowance(b, best)
        assert (above <= LIMIT[np.float64]).all(), family


def test_float32_is_used_where_float64_is_slow() -> None:
    """A sum of 200 products of random signs has some 10 units of rounding errors."""
    columns = np.random.default_rng(0).standard_normal((1, 20, 200))
    exact = columns @ columns.swapaxes(-1, -2)
    found = multiply_by_transpose(columns, SlowFloat64())
    error = np.abs(found - exact).max() / exact.max()
    assert found.dtype == np.float64
    assert 2**-26 < error < 2**-18
    fast = multiply_by_transpose(columns, kernels.EmulatedDevice())
    assert np.abs(fast - exact).max() <= 2**-44 * exact.max()
