"""The QR kernel within bounds, against its specification and optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest
from bounded_systems import (
    KINDS,
    OPTIONS,
    random_problems,
)
from together import together

import gpusolve
from gpusolve._device import kernels

all_options = together("options", OPTIONS, ids=lambda given: "-".join(given))


@together("kind", KINDS)
@all_options
def test_kernel_in_every_thread_order(
    schedule: str,
    kind: str,
    options: dict[str, bool],
    monkeypatch: pytest.MonkeyPatch,
    rng: np.random.Generator,
) -> None:
    given = random_problems(rng, 2, 30, 16, kind, **options)
    expected = gpusolve.reference.nnls(given.A, given.b, **given.options())
    same = gpusolve.lsq_linear(given.A, given.b, method="qr", **given.options())
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    found = gpusolve.lsq_linear(given.A, given.b, method="qr", **given.options())
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.dual, expected.dual, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.rnorm, expected.rnorm, rtol=1e-11)
    for name in ("status", "nit", "n_updates", "n_downdates"):
        np.testing.assert_array_equal(getattr(found, name), getattr(same, name))


@pytest.mark.parametrize("kind", ["box", "mixed", "tight"])
@pytest.mark.parametrize("has_sum", [False, True])
def test_an_exchange_in_every_thread_order(
    schedule: str,
    kind: str,
    has_sum: bool,
    monkeypatch: pytest.MonkeyPatch,
    rng: np.random.Generator,
) -> None:
    """Penalties on dependent columns: x moves along dependences, step by step."""
    options = {"l1": True, "has_sum": has_sum}
    given = random_problems(rng, 2, 5, 12, kind, **options)
    unlimited = gpusolve.reference.nnls(given.A, given.b, **given.options())
    for maxiter in (None, 3, 7):
        problem = {**given.options(), "maxiter": maxiter, "method": "qr"}
        expected = gpusolve.lsq_linear(given.A, given.b, **problem)
        with monkeypatch.context() as emulated:
            emulated.setenv("GPUSOLVE_EMULATE", "1")
            found = gpusolve.lsq_linear(given.A, given.b, **problem)
        if maxiter is None:
            np.testing.assert_allclose(found.x, unlimited.x, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.x, expected.x, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.dual, expected.dual, rtol=1e-10, atol=1e-12)
        for name in ("status", "nit", "n_updates", "n_downdates"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("limit", [6_000, 20_000, 60_000])
def test_fewer_regions_in_shared_memory(
    limit: int, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    given = random_problems(rng, 1, 50, 40, "mixed", has_sum=True, l2=True)
    expected = gpusolve.lsq_linear(given.A, given.b, method="qr", **given.options())
    monkeypatch.setattr(kernels.EmulatedDevice, "shared_memory_per_block", limit)
    found = gpusolve.lsq_linear(given.A, given.b, method="qr", **given.options())
    np.testing.assert_array_equal(found.x, expected.x)
