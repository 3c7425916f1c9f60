"""Linear constraints: what the teams of the compiled solver solve, and leave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from constrained_systems import Constrained, random_constrained
from numpy.typing import NDArray

import gpusolve
from gpusolve._device.kernels import Device, EmulatedDevice
from gpusolve._device.objects import load
from gpusolve._nnls.constrained import (
    UNSETTLED,
    solve_by_specification,
    solve_by_teams,
)
from gpusolve._nnls.problem import Problem
from gpusolve._nnls.validation import validate

Array = NDArray[Any]

needs_object = pytest.mark.skipif(
    load() is None, reason="the compiled object is missing"
)

KINDS = "normal", "integers", "deficient", "penalties", "weights"
SYSTEMS = 40


@pytest.fixture(params=[pytest.param("object", marks=needs_object), "kernel"])
def target(request: pytest.FixtureRequest) -> Device | None:
    """The team of one thread of the compiled object, and blocks of the emulator."""
    return EmulatedDevice() if request.param == "kernel" else None


def problem_of(given: Constrained, **changes: Any) -> Problem:
    options = given.options() | changes
    lower, upper = options.pop("bounds")
    return validate(given.A, given.b, lower=lower, upper=upper, **options)


def draw(kind: str, n: int, dtype: Any = np.float64) -> Constrained:
    given = random_constrained(np.random.default_rng([3, n]), SYSTEMS, n, kind)
    return type(given)(*[values.astype(dtype) for values in given])


@pytest.mark.parametrize("n", [2, 4, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_teams_find_the_minima_of_the_specification(
    target: Device | None, kind: str, n: int
) -> None:
    problem = problem_of(draw(kind, n))
    found = solve_by_teams(problem, target, "auto")
    steps, _ = solve_by_specification(problem, "auto")
    settled = found.status != UNSETTLED
    assert settled.mean() > 0.9
    assert (found.status[settled] == 0).all()
    assert (found.kkt[settled] <= 1e-11).all()
    size = np.linalg.norm(problem.b, axis=-1) + 1
    both = settled & (steps.status == 0)
    assert (np.abs(found.rnorm - steps.rnorm)[both] <= 1e-9 * size[both]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_float32_is_certified_after_rounding(kind: str) -> None:
    given = draw(kind, 3, np.float32)
    result = gpusolve.lsq_linear(given.A, given.b, **given.options())
    assert result.x.dtype == np.float32
    assert (result.status == 0).all()
    options: dict[str, Any] = {
        name: np.asarray(value, float) for name, value in given.options().items()
    }
    exact = gpusolve.lsq_linear(given.A.astype(float), given.b.astype(float), **options)
    close = exact.status == 0
    size = np.linalg.norm(given.b, axis=-1) + 1
    change = np.abs(result.rnorm - exact.rnorm) / size
    assert (change[close] < 1e-4).all()


def test_constraints_of_another_dtype() -> None:
    rng = np.random.default_rng(8)
    A, b = rng.standard_normal((9, 4)), rng.standard_normal(9)
    C, d = rng.integers(-3, 4, (5, 4)), np.zeros(5)
    expected = gpusolve.lsq_linear(A, b, A_ub=C.astype(float), b_ub=d)
    result = gpusolve.lsq_linear(A, b, A_ub=C.astype(np.float32), b_ub=d)
    np.testing.assert_allclose(result.x, expected.x, rtol=1e-9, atol=1e-12)


def test_a_call_reads_the_arrays_of_its_own() -> None:
    """Calls of one kind share what was prepared for the first."""
    rng = np.random.default_rng(5)
    for _ in range(3):
        A, b, C = (rng.standard_normal(shape) for shape in ((6, 3), 6, (4, 3)))
        x = gpusolve.lsq_linear(A, b, A_ub=C, b_ub=np.zeros(4)).x
        assert (C @ x).max() < 1e-12
        E = rng.standard_normal((1, 3))
        x = gpusolve.lsq_linear(A, b, A_eq=E, b_eq=np.ones(1)).x
        np.testing.assert_allclose(E @ x, 1, rtol=1e-12)


def test_shared_matrices_are_factorised_for_each_pair() -> None:
    rng = np.random.default_rng(6)
    A, b = rng.standard_normal((2, 1, 9, 4)), rng.standard_normal((2, 3, 9))
    C, d = rng.standard_normal((3, 5, 4)), np.zeros(5)
    result = gpusolve.lsq_linear(A, b, A_ub=C, b_ub=d)
    for i, j in np.ndindex(2, 3):
        one = gpusolve.lsq_linear(A[i, 0], b[i, j], A_ub=C[j], b_ub=d)
        np.testing.assert_allclose(result.x[i, j], one.x, rtol=1e-9, atol=1e-12)


def test_systems_of_other_penalties_have_factors_of_their_own(
    target: Device | None,
) -> None:
    rng = np.random.default_rng(6)
    A, b = rng.standard_normal((9, 4)), rng.standard_normal((3, 9))
    C, l2 = rng.standard_normal((5, 4)), np.array([[1e-6], [1.0], [1e6]]) + np.zeros(4)
    problem = validate(
        A, b, lower=-np.inf, upper=np.inf, A_ub=C, b_ub=np.full(5, 0.1), l2=l2
    )
    found = solve_by_teams(problem, target, "auto")
    assert (found.status == 0).all()
    for k in range(3):
        rows = {"A_ub": C, "b_ub": np.full(5, 0.1), "l2": l2[k]}
        one = gpusolve.lsq_linear(A, b[k], **rows)
        np.testing.assert_allclose(found.x[k], one.x, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_programs_are_certified_by_their_own_matrix(dtype: Any) -> None:
    given = draw("normal", 4)
    G = np.einsum("kmi,kmj->kij", given.A, given.A) + np.eye(4)
    c = np.einsum("kmi,km->ki", given.A, given.b)
    rows = {name: getattr(given, name) for name in ("A_ub", "b_ub", "A_eq", "b_eq")}
    bounds = given.lower, given.upper
    result = gpusolve.bounded_qp(G.astype(dtype), c.astype(dtype), bounds, **rows)
    assert (result.status == 0).all()
    L = np.linalg.cholesky(G)
    right = np.linalg.solve(L, c[..., None])[..., 0]
    expected = gpusolve.lsq_linear(np.swapaxes(L, 1, 2), right, bounds, **rows)
    close = 1e-9 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(result.x, expected.x, rtol=close, atol=close)
    np.testing.assert_allclose(result.rnorm, expected.rnorm, rtol=close, atol=close)
    dual = c - np.einsum("kij,kj->ki", G, result.x)
    assert result.dual_ub is not None
    assert result.dual_eq is not None
    pull = np.einsum("kij,ki->kj", given.A_ub, result.dual_ub)
    pull += np.einsum("kij,ki->kj", given.A_eq, result.dual_eq)
    np.testing.assert_allclose(result.dual, dual - pull, rtol=close, atol=10 * close)


@pytest.mark.parametrize(("dtype", "left"), [(np.float32, True), (np.float64, False)])
def test_programs_that_rounding_makes_singular_are_left(
    target: Device | None, dtype: Any, left: bool
) -> None:
    G = np.array([[1, 1 - 2.0**-21], [1 - 2.0**-21, 1]], dtype)
    rows: dict[str, Any] = {"A_ub": [[1.0, 1.0]], "b_ub": [0.5]}
    problem = validate(
        G, np.ones(2, dtype), is_gram=True, lower=-np.inf, upper=np.inf, **rows
    )
    found = solve_by_teams(problem, target, "auto")
    assert (found.status == UNSETTLED) == left
    assert gpusolve.bounded_qp(G, np.ones(2, dtype), **rows).status == 0


def test_a_gradient_that_is_far_larger_than_the_constraints_hides_no_row() -> None:
    """Without constraints x would be about 1e13; the rows hold it at 0.2."""
    G = np.array([[1.0e-14, -1.4e-13], [-1.4e-13, 2.1e-12]])
    C = np.array([[-1.25, 2.0], [1.25, 0.5], [-1.75, -2.0]])
    d = np.array([-1.125, -0.03125, 1.75])
    bounds = -np.inf, [np.inf, 0.0]
    result = gpusolve.bounded_qp(G, [0.92, 0.91], bounds, A_ub=C, b_ub=d)
    assert result.status == 0
    vertex = np.linalg.solve(C[:2], d[:2])
    np.testing.assert_allclose(result.x, vertex, rtol=1e-12)
