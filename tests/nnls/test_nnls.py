"""gpusolve.nnls against SciPy, brute force and the optimality conditions."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
from backends import also_by_fallback, by_object, on_emulator
from bounded_systems import OPTIONS, random_problems
from hard_problems import HARD
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from oracles import brute_force, residual_norm, scipy_rnorm, violation
from together import together

import gpusolve
from gpusolve import emulator
from gpusolve._nnls import nnls_qr_kernel  # a launch lasts long for large systems only

Array = NDArray[Any]

EPS = float(np.finfo(np.float64).eps)
CERTIFIED = 16 * EPS
COUNTS = ("status", "nit", "n_updates", "n_downdates")


@also_by_fallback
@together(
    ("method", "name"),
    [
        *itertools.product(("auto", "qr"), HARD),
        *(("mgs", name) for name in HARD if not name.startswith(("Hilbert", "Kahan"))),
    ],
)
def test_hard_problem(backend: Any, name: str, method: str) -> None:
    A, b = HARD[name]
    result = backend.nnls(A, b, method=method)
    assert result.status == 0
    A_scale = np.abs(A).max(initial=0) or 1.0
    b_scale = np.abs(b).max(initial=0) or 1.0
    A_unit, b_unit = A / A_scale, b / b_scale
    x_unit = result.x * A_scale / b_scale
    assert violation(A_unit, b_unit, x_unit) <= CERTIFIED
    length = np.linalg.norm(b_unit)
    cancelling = length + np.linalg.norm(A_unit, axis=0) @ x_unit
    assert result.kkt * length <= CERTIFIED * cancelling
    twice_objective = (result.rnorm / b_scale) ** 2
    if A.shape[1] <= 3:  # SciPy 1.15 solves "two by two" incorrectly
        expected = 2 * brute_force(A_unit, b_unit)
    else:
        expected = scipy_rnorm(A_unit, b_unit) ** 2
    assert twice_objective == pytest.approx(expected, abs=CERTIFIED * cancelling**2)
    rounding = A.shape[1] * float(np.finfo(np.longdouble).eps) * cancelling * b_scale
    assert result.rnorm == pytest.approx(
        residual_norm(A, b, result.x), rel=1e-13, abs=rounding
    )


@also_by_fallback
@pytest.mark.paper(
    "Luo, (1.1)", "x is not negative, and the norm of the residual equals SciPy's"
)
@pytest.mark.paper(
    "Luo, Algorithm 1, as used",
    "Random systems of 1 x 1 to 300 x 4 and 70 x 130 have the residuals of SciPy, and "
    "fulfil the conditions of optimality to 16 eps",
)
@together(
    ("m", "n"),
    [(1, 1), (3, 3), (8, 5), (5, 8), (33, 31), (64, 48), (70, 130), (300, 4)],
)
@together("order", ["C", "F"])
def test_random_batch_agrees_with_scipy(
    backend: Any, rng: Generator, m: int, n: int, order: Any
) -> None:
    A = rng.standard_normal((4, m, n))
    b = rng.standard_normal((4, m))
    if order == "F":
        A = np.ascontiguousarray(A.swapaxes(-1, -2)).swapaxes(-1, -2)
    result = backend.nnls(A, b)
    assert (result.status == 0).all()
    for k in range(4):
        assert violation(A[k], b[k], result.x[k]) <= CERTIFIED
        # Both fits may be exact. Then rounding in x determines the residual.
        cancelling = np.linalg.norm(b[k]) + np.linalg.norm(A[k], axis=0) @ result.x[k]
        assert result.rnorm[k] == pytest.approx(
            scipy_rnorm(A[k], b[k]), rel=1e-11, abs=m * EPS * cancelling
        )
        dual = A[k].T @ (b[k] - A[k] @ result.x[k])
        assert_allclose(result.dual[k], dual, atol=1e-12 * m)
        entered = result.n_updates[k] - result.n_downdates[k]
        assert entered == np.count_nonzero(result.x[k])


def test_systems_not_certified_by_gram_are_solved_by_qr() -> None:
    hard = np.repeat(HARD["Hilbert 6"][0][None], 9, axis=0)
    hard[:, :, 3] = hard[:, :, 2] * (1 + 1e-7 * np.arange(6))
    b = hard @ np.array([0, 1, 2, 0.5, 0, 1])
    gram = gpusolve.nnls(hard, b, method="gram")
    assert (gram.status == 3).any()
    easy = np.random.default_rng(0).random(hard.shape)
    batch = gpusolve.nnls(np.concatenate([easy, hard]), np.concatenate([b, b]))
    assert (batch.status == 0).all()
    assert not batch.repaired[:9].any()
    assert (batch.repaired[9:] >= (gram.status == 3)).all()
    alone = gpusolve.nnls(hard, b)
    assert_array_equal(batch.x[9:], alone.x)
    for k in range(9):
        assert residual_norm(hard[k], b[k], batch.x[9 + k]) <= 1e-11


@on_emulator
@pytest.mark.parametrize(
    ("method", "expected_grids"),
    [
        ("qr", [2] * 4 + [1]),
        ("gram", [1] * 5),
        ("auto", [1, 2] * 4 + [1, 1]),
    ],
)
def test_a_watchdog_gives_more_launches_and_the_same_results(
    backend: Any,
    method: str,
    expected_grids: list[int],
    emulated_device: Any,
    monkeypatch: pytest.MonkeyPatch,
    rng: Generator,
) -> None:
    A, b, start = rng.random((9, 12, 8)), rng.random((9, 12)), rng.random((9, 8))
    expected = gpusolve.nnls(A, b, method=method, warm_start=start)
    emulated_device(has_watchdog=True, resident_blocks=2)
    monkeypatch.setattr(nnls_qr_kernel, "BLOCK_SPEED", 1.0)
    with emulator.profile() as report:
        result = gpusolve.nnls(A, b, method=method, warm_start=start)
    assert [launch.blocks for launch in report.launched] == expected_grids
    for name in ("x", "rnorm", "dual", "kkt", "nit", "status"):
        assert_array_equal(getattr(result, name), getattr(expected, name))


@on_emulator
@together(
    ("method", "options", "m", "n", "maxiter"),
    [
        ("gram", {}, 40, 34, None),  # by blocks
        *(("qr", options, 20, 10, None) for options in OPTIONS),
        # Penalties on dependent columns: x moves along dependences, step by step.
        ("qr", {"l1": True}, 5, 12, None),
        ("qr", {"l1": True, "has_sum": True}, 5, 12, 3),
        ("qr", {"l1": True, "has_sum": True}, 5, 12, None),
    ],
)
def test_kernels_in_every_thread_order(
    backend: Any,
    schedule: str,
    rng: Generator,
    method: str,
    options: Any,
    m: int,
    n: int,
    maxiter: Any,
) -> None:
    given = random_problems(rng, 1, m, n, **options)
    problem = {**given.options(), "maxiter": maxiter, "method": method}
    found = gpusolve.lsq_linear(given.A, given.b, **problem)
    same = by_object(gpusolve.lsq_linear, given.A, given.b, **problem)
    expected = gpusolve.reference.nnls(given.A, given.b, **given.options())
    for name in ("x", "dual", "rnorm"):
        values = getattr(found, name)
        other = getattr(expected if maxiter is None else same, name)
        assert_allclose(values, other, rtol=1e-10, atol=1e-12)
    for name in COUNTS:
        assert_array_equal(getattr(found, name), getattr(same, name))


@on_emulator
def test_qr_with_fewer_regions_in_shared_memory(
    backend: Any, emulated_device: Any, rng: Generator
) -> None:
    given = random_problems(rng, 1, 50, 40, has_sum=True, l2=True)
    solve = partial(gpusolve.lsq_linear, given.A, given.b, **given.options())
    expected = solve(method="qr")
    for limit in (6_000, 20_000, 60_000):
        emulated_device(shared_memory_per_block=limit)
        assert_array_equal(solve(method="qr").x, expected.x)
