"""The QR kernel within bounds, against its specification and optimality conditions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bounded import (
    HARD,
    KINDS,
    OPTIONS,
    check,
    problem,
    random_problem,
    stacked,
)

import gpusolve
from gpusolve._device import kernels

FIELDS = gpusolve.reference.nnls_qr(np.eye(1), np.ones(1))._fields

by_options = pytest.mark.parametrize(
    "options", OPTIONS, ids=lambda given: "-".join(given)
)


def solve(backend: Any, A: Any, b: Any, **options: Any) -> Any:
    """The result of `lsq_linear` with the backend's arrays, as NumPy arrays."""

    def there(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(there, value))
        return backend.array(value) if isinstance(value, np.ndarray) else value

    options = {name: there(value) for name, value in options.items()}
    result = gpusolve.lsq_linear(there(A), there(b), **options)
    return SimpleNamespace(
        **{name: backend.numpy(getattr(result, name)) for name in FIELDS}
    )


def one_of(found: Any, k: int) -> Any:
    return SimpleNamespace(**{name: getattr(found, name)[k] for name in FIELDS})


@pytest.mark.parametrize("kind", KINDS)
@by_options
def test_kernel_in_every_thread_order(
    schedule: str,
    kind: str,
    options: dict[str, bool],
    monkeypatch: pytest.MonkeyPatch,
    rng: np.random.Generator,
) -> None:
    A, b, given = stacked([random_problem(rng, 30, 16, kind, **options) for _ in "ab"])
    expected = gpusolve.reference.nnls_qr(A, b, **given)
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    found = gpusolve.lsq_linear(A, b, method="qr", **given)
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.dual, expected.dual, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.rnorm, expected.rnorm, rtol=1e-11)
    for name in ("status", "nit", "n_updates", "n_downdates"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


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
    A, b, given = stacked([random_problem(rng, 5, 12, kind, **options) for _ in "ab"])
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    for maxiter in (None, 3, 7):
        given["maxiter"] = maxiter
        expected = gpusolve.reference.nnls_qr(A, b, **given)
        found = gpusolve.lsq_linear(A, b, method="qr", **given)
        np.testing.assert_allclose(found.x, expected.x, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.dual, expected.dual, rtol=1e-10, atol=1e-12)
        for name in ("status", "nit", "n_updates", "n_downdates"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize(
    ("m", "n", "rank"), [(6, 9, None), (9, 6, 4), (70, 40, None), (50, 70, None)]
)
@pytest.mark.parametrize("order", ["C", "F"])
@by_options
def test_random_problems(
    device_backend: Any,
    rng: np.random.Generator,
    m: int,
    n: int,
    rank: int | None,
    order: str,
    options: dict[str, bool],
) -> None:
    problems = [random_problem(rng, m, n, "mixed", rank=rank, **options) for _ in "ab"]
    A, b, given = stacked(problems)
    if order == "F":
        A = np.ascontiguousarray(A.swapaxes(-1, -2)).swapaxes(-1, -2)
    found = solve(device_backend, A, b, method="qr", **given)
    for k, p in enumerate(problems):
        check(p, one_of(found, k))
        dual = p.A.T @ (p.weights_or_one * (p.b - p.A @ found.x[k]))
        apart = found.dual[k] - (dual - p.l1 - p.l2 * found.x[k])
        free = apart if p.sum_to is None else apart - apart.mean()
        np.testing.assert_allclose(free, 0, atol=1e-12 * m)


@pytest.mark.parametrize("method", ["auto", "qr"])
@pytest.mark.parametrize("name", HARD)
def test_hard_problem(device_backend: Any, name: str, method: str) -> None:
    p = HARD[name]
    check(p, solve(device_backend, p.A, p.b, method=method, **p.options))


@pytest.mark.parametrize("kind", KINDS)
@by_options
def test_float32(
    device_backend: Any, rng: np.random.Generator, kind: str, options: dict[str, bool]
) -> None:
    p = random_problem(rng, 40, 25, kind, **options).in_float32()
    found = solve(device_backend, p.A, p.b, method="qr", **p.options)
    assert found.x.dtype == np.float32
    assert found.status == 0
    assert p.is_feasible(found.x)
    assert p.violation(found.x) <= 64 * float(np.finfo(np.float32).eps)


@pytest.mark.parametrize("start", ["solution", "point", "bounds", "invalid"])
@by_options
def test_warm_start(
    device_backend: Any, rng: np.random.Generator, options: dict[str, bool], start: str
) -> None:
    p = random_problem(rng, 40, 25, "mixed", **options)
    cold = solve(device_backend, p.A, p.b, method="qr", **p.options)
    starts = {
        "solution": cold.x,
        "point": rng.normal(size=25),
        "bounds": np.where(rng.random(25) < 0.5, p.lower, p.upper),
        "invalid": np.where(rng.random(25) < 0.5, np.nan, 1e300),
    }
    given = {**p.options, "warm_start": starts[start]}
    warm = solve(device_backend, p.A, p.b, method="qr", **given)
    check(p, warm)
    np.testing.assert_allclose(warm.x, cold.x, rtol=1e-9, atol=1e-11)
    if start == "solution" and p.sum_to is None:
        assert warm.nit <= 2
        assert warm.n_downdates == 0


@pytest.mark.parametrize("has_sum", [False, True])
def test_iteration_limit(
    device_backend: Any, rng: np.random.Generator, has_sum: bool
) -> None:
    p = random_problem(rng, 30, 20, "mixed", has_sum=has_sum)
    full = solve(device_backend, p.A, p.b, method="qr", **p.options)
    rnorms = []
    for maxiter in range(has_sum, int(full.nit)):
        found = solve(
            device_backend, p.A, p.b, method="qr", maxiter=maxiter, **p.options
        )
        assert found.status == 1
        assert found.nit == maxiter
        assert p.is_feasible(found.x)
        assert found.rnorm == pytest.approx(p.rnorm(found.x))
        rnorms.append(found.rnorm)
    assert (np.diff(rnorms) <= 1e-12 * rnorms[0]).all()


def test_one_system_does_not_affect_others(
    device_backend: Any, rng: np.random.Generator
) -> None:
    names = {"l1": True, "l2": True, "weights": True, "has_sum": True}
    A, b, given = stacked(
        [random_problem(rng, 20, 12, "box", **names) for _ in range(9)]
    )
    good = solve(device_backend, A, b, method="qr", **given)
    (lower, upper), weights = given["bounds"], given["weights"]
    lower[0, 3], upper[1, 0], given["l1"][2, 5] = np.nan, np.nan, np.nan
    given["l2"][3, 1], weights[4, 2], weights[5, 7] = -1.0, -1.0, np.nan
    given["sum_to"][6], given["sum_to"][7] = np.nan, 1e3
    found = solve(device_backend, A, b, method="qr", **given)
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
    found = solve(
        device_backend, A, b, bounds=(lower, 0.3), weights=weights, method="qr"
    )
    assert found.x.shape == (2, 3, 7)
    for i, j in np.ndindex(2, 3):
        p = problem(A, b[i, 0], lower[j], 0.3, weights=weights[i, 0])
        one = SimpleNamespace(**{name: getattr(found, name)[i, j] for name in FIELDS})
        check(p, one)


@pytest.mark.parametrize("limit", [6_000, 20_000, 60_000])
def test_fewer_regions_in_shared_memory(
    limit: int, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    p = random_problem(rng, 50, 40, "mixed", has_sum=True, l2=True)
    expected = gpusolve.lsq_linear(p.A, p.b, method="qr", **p.options)
    monkeypatch.setattr(kernels.EmulatedDevice, "shared_memory_per_block", limit)
    found = gpusolve.lsq_linear(p.A, p.b, method="qr", **p.options)
    np.testing.assert_array_equal(found.x, expected.x)
