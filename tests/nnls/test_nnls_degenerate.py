"""Degenerate systems: thousands by SciPy and brute force, and once incorrect ones.

``benchmarks/hard.py`` solves ten times as many systems.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from backends import also_by_fallback, without_gpu
from degenerate_systems import BATCH, EPS, FAMILIES, allowance, batch, excess, reference
from numpy.random import Generator
from together import together

import gpusolve
from gpusolve._nnls.nnls_gram_kernel import multiply_by_transpose  # of a device alone

SYSTEMS = 100_000


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


@pytest.mark.parametrize("part", range(5))
def test_gram_matrices_in_float32(part: int, emulated_device: Any) -> None:
    """On a consumer card rounding errors of Gram matrices do not spoil answers."""
    emulated_device(has_slow_float64=True)
    for family in list(FAMILIES)[part:-1:5]:  # by blocks, since there are 36 columns
        A, b = FAMILIES[family](np.random.default_rng(part), 2, 38, 36)
        best = reference(A, b)
        above = excess(A, b, gpusolve.nnls(A, b).x, best) - allowance(b, best)
        assert (above <= LIMIT[np.float64]).all(), family


def test_float32_is_used_where_float64_is_slow() -> None:
    """A sum of 200 products of random signs has some 10 units of rounding errors."""
    columns = np.random.default_rng(0).standard_normal((1, 20, 200))
    exact = columns @ columns.swapaxes(-1, -2)
    for is_slow, least, most in ((True, 2**-26, 2**-18), (False, 0, 2**-44)):
        device: Any = SimpleNamespace(has_slow_float64=is_slow)
        found = multiply_by_transpose(columns, device)
        assert found.dtype == np.float64
        assert least <= np.abs(found - exact).max() / exact.max() < most


# ---- directions of very different sizes ----

LEVELS = [
    ([[1, -1, 1, -1], [0, 1.5e-6, 0, 0], [0, 0, 5e-10, 0]], [0, 1, 0.04], 1e-8),
    ([[1, -1, 1, -1], [0, 1e-5, 0, 0], [0, 0, 3e-12, 0]], [0, 1, 1], 1e-3),
]


@also_by_fallback
@pytest.mark.parametrize(("A", "b", "limit"), LEVELS)
def test_tiny_directions_are_fitted(backend: Any, A: Any, b: Any, limit: float) -> None:
    """A large x along one direction once hid the residual along a smaller direction."""
    A, b = np.array(A, float), np.array(b, float)
    assert backend.nnls(A, b).rnorm <= limit * np.linalg.norm(b)


def columns_of_all_sizes(rng: Generator, m: int, n: int) -> np.ndarray:
    """Each column is an earlier column with either sign, and a small perturbation."""
    A = rng.standard_normal((m, n))
    for j in range(1, n):
        near = A[:, rng.integers(j)] * rng.choice([-1, 1])
        A[:, j] = near + 10.0 ** -rng.uniform(0, 9) * A[:, j]
    return A


@also_by_fallback
@together("n", range(2, 6))
def test_a_bad_warm_start_gives_the_same_residual(backend: Any, n: int) -> None:
    rng = np.random.default_rng([11, n])
    for m in range(n, 7):
        A = np.stack([columns_of_all_sizes(rng, m, n) for _ in range(8)])
        b, start = rng.standard_normal((8, m)), 10.0 ** rng.uniform(-3, 12, (8, n))
        cold, warm = backend.nnls(A, b), backend.nnls(A, b, warm_start=start)
        length = np.linalg.norm(b, axis=-1)
        assert (warm.rnorm <= length * (1 + 4 * EPS)).all()
        reach = (np.linalg.norm(A, axis=1) * np.maximum(cold.x, warm.x)).sum(axis=-1)
        apart = np.abs(warm.rnorm - cold.rnorm) - 1e-9 * length - 8 * EPS * reach
        solved = (warm.status == 0) & (cold.status == 0)
        assert solved.any()
        assert (apart[solved] <= 0).all()


@pytest.mark.parametrize("method", ["auto", "qr"])
def test_a_converged_status_at_the_limit_means_optimal(
    backend: Any, method: str
) -> None:
    rng, limited = np.random.default_rng(12), 0
    systems = 15 if backend.emulated else 60
    for _ in range(systems):
        n = int(rng.integers(3, 8))
        m = int(rng.integers(2, 7))
        A, b = columns_of_all_sizes(rng, m, n), rng.standard_normal(m)
        full = backend.nnls(A, b, method=method)
        part = backend.nnls(A, b, method=method, maxiter=max(1, int(full.nit) - 1))
        if part.status == 0 and full.status == 0:
            reach = np.linalg.norm(A, axis=0) @ np.maximum(full.x, part.x)
            rounding = 1e-9 * np.linalg.norm(b) + 8 * EPS * reach
            assert part.rnorm <= full.rnorm + rounding
        limited += int(part.status == 1)
    assert limited > systems // 3


# ---- dependence ----


def test_a_second_attempt_refuses_columns_of_noise(backend: Any) -> None:
    """The remainder of a dependent column exceeds 4 eps, but not the next limit."""
    rng = np.random.default_rng(13)
    A = rng.standard_normal((40, 5, 3)) @ rng.standard_normal((40, 3, 7))
    A[:, :, 4:] = 3e-15 * rng.standard_normal((40, 5, 3)) - A[:, :, 1:4]
    b = rng.standard_normal((40, 5))
    result = backend.nnls(A, b, method="qr")
    assert result.repaired.any()
    assert not result.repaired.all()
    assert (result.rnorm <= np.linalg.norm(b, axis=-1)).all()
    assert (result.nit <= 10 * 7).all()


# ---- scale ----

EXTREMES = [
    # dtype, factor of A, factor of b, whether x is representable
    (np.float64, 1e-200, 1e200, False),
    (np.float64, 1e200, 1e-200, False),
    (np.float64, 1e160, 1e-155, False),
    (np.float64, 1e-315, 1e-310, True),
    (np.float64, 1e150, 1e150, True),
    (np.float64, 1e-150, 1e150, True),
    (np.float32, 1e-30, 1e30, False),
    (np.float32, 1e30, 1e-30, False),
    (np.float32, 1e15, 1e-15, True),
]


@also_by_fallback
@together(("dtype", "A_factor", "b_factor", "fits"), EXTREMES)
def test_a_solution_that_overflows_is_not_certified(
    backend: Any, dtype: Any, A_factor: float, b_factor: float, fits: bool
) -> None:
    rng = np.random.default_rng(0)
    A = rng.random((6, 3))
    b = A @ np.array([1, 2, 0.5]) + 0.1 * rng.random(6)
    result = backend.nnls((A * A_factor).astype(dtype), (b * b_factor).astype(dtype))
    assert (result.status == 0) == fits
    assert (result.status == 3) != fits
    if not fits:
        assert not result.kkt < 1e-10


@together("penalty", [{"l1": 1e300}, {"l2": 1e300}, {"l1": 1e-320}])
def test_penalties_of_any_size(backend: Any, penalty: dict[str, float]) -> None:
    rng = np.random.default_rng(0)
    A = rng.random((6, 3))
    for A_factor, b_factor in ((1.0, 1e-30), (1e-200, 1.0), (1.0, 1.0)):
        result = backend.nnls(A * A_factor, b_factor * A.sum(axis=1), **penalty)
        assert result.status == 0
        assert np.isfinite(result.x).all()
        assert result.rnorm <= b_factor * np.linalg.norm(A.sum(axis=1)) * (1 + EPS)


def test_many_columns_enter_under_a_heavy_row(backend: Any) -> None:
    """The residual stays orthogonal to the heavy row as columns enter."""
    rng = np.random.default_rng(17)
    A = np.vstack([rng.standard_normal((70, 50)), np.full(50, 1e8)])
    b = A @ rng.dirichlet(np.ones(50)) + 0.01 * np.append(rng.standard_normal(70), 0)
    result = backend.nnls(A, b, method="qr")
    assert result.status == 0
    assert np.count_nonzero(result.x) > 40
    assert result.n_downdates <= 10
    assert result.nit <= 60


# ---- repairs ----


@without_gpu
@together(("dtype", "apart"), [(np.float64, 2.0**-45), (np.float32, 2.0**-22)])
def test_repairs_find_the_better_x_that_is_large(
    backend: Any, dtype: Any, apart: float
) -> None:
    """Rounding x changes A x by less than the repair improves it.

    In float32, x would be so large that its rounding errors hide what it fits.
    """
    A = np.array([[1.0, -1.0], [apart, 0.0], [0.0, 0.0]], dtype)
    for method in ("auto", "qr"):
        result = backend.nnls(A, np.array([0.0, 0.2, 1.0], dtype), method=method)
        if dtype == np.float64:
            assert result.rnorm == pytest.approx(1.0)
            assert result.x == pytest.approx(0.2 / apart)
        else:
            assert result.status == 0
            assert (result.x < 1).all()
