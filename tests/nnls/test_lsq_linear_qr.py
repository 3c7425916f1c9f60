"""The QR kernel within bounds, against its specification and optimality conditions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bounded_systems import (
    HARD,
    KINDS,
    OPTIONS,
    STARTS,
    Bounded,
    check_optimal,
    infeasibility,
    random_problems,
    residual_norm,
    starting_point,
)
from together import together

import gpusolve
from gpusolve._device import kernels

all_options = together("options", OPTIONS, ids=lambda given: "-".join(given))


def solve(backend: Any, given: Bounded, **options: Any) -> Any:
    """The result of `lsq_linear`, by "qr" unless another method is given."""
    options = {"method": "qr", **given.options(), **options}
    return backend.solve(gpusolve.lsq_linear, given.A, given.b, **options)


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


@together(("m", "n", "rank"), [(6, 9, None), (9, 6, 4), (70, 40, None), (50, 70, None)])
@together("order", ["C", "F"])
@all_options
def test_random_problems(
    device_backend: Any,
    rng: np.random.Generator,
    m: int,
    n: int,
    rank: int | None,
    order: str,
    options: dict[str, bool],
) -> None:
    given = random_problems(rng, 2, m, n, "mixed", rank=rank, **options)
    if order == "F":
        A = np.ascontiguousarray(given.A.swapaxes(-1, -2)).swapaxes(-1, -2)
        given = given._replace(A=A)
    found = solve(device_backend, given)
    check_optimal(given, found)
    A, b = given.weighted()
    r = b - np.einsum("kmn,kn->km", A, found.x)
    dual = np.einsum("kmn,km->kn", A, r) - given.l1 - given.l2 * found.x
    apart = found.dual - dual
    if given.sum_to is not None:
        apart -= apart.mean(axis=-1, keepdims=True)
    np.testing.assert_allclose(apart, 0, atol=1e-12 * m)


@together("method", ["auto", "qr"])
@together("name", HARD)
def test_hard_problem(device_backend: Any, name: str, method: str) -> None:
    check_optimal(HARD[name], solve(device_backend, HARD[name], method=method))


@together("kind", KINDS)
@all_options
def test_float32(
    device_backend: Any, rng: np.random.Generator, kind: str, options: dict[str, bool]
) -> None:
    given = random_problems(rng, 1, 40, 25, kind, **options).astype(np.float32)
    found = solve(device_backend, given)
    assert found.x.dtype == np.float32
    check_optimal(given, found, 64)


@together("start", STARTS)
@all_options
def test_warm_start(
    device_backend: Any, rng: np.random.Generator, options: dict[str, bool], start: str
) -> None:
    given = random_problems(rng, 1, 40, 25, "mixed", **options)
    cold = solve(device_backend, given)
    point = starting_point(rng, start, given, cold.x)
    warm = solve(device_backend, given, warm_start=point)
    check_optimal(given, warm)
    np.testing.assert_allclose(warm.x, cold.x, rtol=1e-9, atol=1e-11)
    if start == "solution" and given.sum_to is None:
        assert (warm.nit <= 2).all()
        assert (warm.n_downdates == 0).all()


@pytest.mark.parametrize("has_sum", [False, True])
def test_iteration_limit(
    device_backend: Any, rng: np.random.Generator, has_sum: bool
) -> None:
    given = random_problems(rng, 1, 30, 20, "mixed", has_sum=has_sum)
    full = solve(device_backend, given)
    rnorms = []
    for maxiter in range(has_sum, int(full.nit[0])):
        found = solve(device_backend, given, maxiter=maxiter)
        assert found.status == 1
        assert found.nit == maxiter
        assert infeasibility(given, found.x) <= 1e-14
        assert found.rnorm == pytest.approx(residual_norm(given, found.x))
        rnorms.append(found.rnorm[0])
    assert (np.diff(rnorms) <= 1e-12 * rnorms[0]).all()


def test_one_system_does_not_affect_others(
    device_backend: Any, rng: np.random.Generator
) -> None:
    given = random_problems(rng, 9, 20, 12, "box", **OPTIONS[-1]).copy()
    good = solve(device_backend, given)
    assert given.weights is not None
    assert given.sum_to is not None
    given.lower[0, 3], given.upper[1, 0], given.l1[2, 5] = np.nan, np.nan, np.nan
    given.l2[3, 1], given.weights[4, 2], given.weights[5, 7] = -1.0, -1.0, np.nan
    given.sum_to[6], given.sum_to[7] = np.nan, 1e3
    found = solve(device_backend, given)
    assert found.status.tolist() == [2] * 7 + [4, 0]
    for name in ("x", "rnorm", "dual", "kkt"):
        assert np.isnan(getattr(found, name)[:8]).all()
        np.testing.assert_array_equal(getattr(found, name)[8], getattr(good, name)[8])


def test_the_general_kernel_solves_nnls(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    A, b = rng.standard_normal((3, 30, 20)), rng.standard_normal((3, 30))
    simple = gpusolve.nnls(A, b, method="qr", l1=0.1, l2=0.2)
    each = {"l1": np.full(20, 0.1), "l2": np.full(20, 0.2)}
    bounds = np.zeros(20), np.full(20, np.inf)
    general = gpusolve.lsq_linear(A, b, bounds, method="qr", **each)
    for name in ("status", "nit", "n_updates", "n_downdates"):
        np.testing.assert_array_equal(getattr(simple, name), getattr(general, name))
    np.testing.assert_allclose(simple.x, general.x, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(simple.dual, general.dual, rtol=1e-12, atol=1e-13)


def test_options_broadcast(device_backend: Any, rng: np.random.Generator) -> None:
    A, b = rng.standard_normal((12, 7)), rng.standard_normal((2, 1, 12))
    lower, weights = -rng.random((3, 7)), rng.random((2, 1, 12))
    options = {"bounds": (lower, 0.3), "weights": weights, "method": "qr"}
    found = device_backend.solve(gpusolve.lsq_linear, A, b, **options)
    assert found.x.shape == (2, 3, 7)
    for i, j in np.ndindex(2, 3):
        given = Bounded.of(A, b[i], (lower[j], 0.3), weights=weights[i])
        expected = solve(device_backend, given)
        np.testing.assert_array_equal(found.x[i, j], expected.x[0])
        check_optimal(given, expected)


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
