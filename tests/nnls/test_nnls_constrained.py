"""Linear constraints: what the teams of the compiled solver solve, and leave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from constrained_systems import random_constrained
from numpy.testing import assert_allclose, assert_array_equal
from together import together

import gpusolve

# Results do not say what the compiled solver leaves to the specification.
from gpusolve._device.kernels import Device, EmulatedDevice
from gpusolve._device.objects import load
from gpusolve._nnls.constrained import UNSETTLED, solve_by_teams
from gpusolve._nnls.validation import validate

needs_object = pytest.mark.skipif(
    load() is None, reason="the compiled object is missing"
)

KINDS = "normal", "redundant", "deficient", "penalties", "weights", "integers"


@pytest.fixture(params=[pytest.param("object", marks=needs_object), "kernel"])
def target(request: pytest.FixtureRequest) -> Device | None:
    """The team of one thread of the compiled object, and blocks of the emulator."""
    return EmulatedDevice() if request.param == "kernel" else None


@together("n", [2, 4, 7])
@together("kind", KINDS)
def test_teams_solve_nearly_all_systems(
    target: Device | None, kind: str, n: int
) -> None:
    """What they leave, the specification solves; ``test_constraints.py`` judges x."""
    given = random_constrained(np.random.default_rng([3, n]), 40, n, kind)
    options = given.options()
    lower, upper = options.pop("bounds")
    problem = validate(given.A, given.b, lower=lower, upper=upper, **options)
    found = solve_by_teams(problem, target, "auto")
    settled = found.status != UNSETTLED
    assert settled.mean() > (0.8 if kind == "redundant" else 0.9)
    assert (found.status[settled] == 0).all()
    assert (found.kkt[settled] <= 1e-11).all()


@needs_object
def test_a_block_takes_the_steps_of_a_thread() -> None:
    """Rows become active and leave: a wrong factor would take more steps, or other."""
    rng, dropped = np.random.default_rng(4), 0
    for n in (3, 6):
        A, b = rng.standard_normal((20, n + 2, n)), rng.standard_normal((20, n + 2))
        C, bounds = rng.standard_normal((20, 4 * n, n)), {"lower": -1.0, "upper": 1.0}
        problem = validate(A, b, A_ub=C, b_ub=np.full(4 * n, 0.05), **bounds)
        block, thread = (
            solve_by_teams(problem, target, "auto")
            for target in (EmulatedDevice(), None)
        )
        for name in ("status", "nit", "n_updates", "n_downdates"):
            assert_array_equal(getattr(block, name), getattr(thread, name))
        assert_allclose(block.x, thread.x, atol=1e-12)
        dropped += int(block.n_downdates.sum())
    assert dropped > 10


def test_each_pair_of_matrices_and_penalties_has_factors_of_its_own(
    target: Device | None,
) -> None:
    rng = np.random.default_rng(6)
    A, b = rng.standard_normal((2, 1, 9, 4)), rng.standard_normal((2, 3, 9))
    C, l2 = (
        rng.standard_normal((3, 5, 4)),
        np.array([[1e-6], [1.0], [1e6]]) + np.zeros(4),
    )
    given = {"lower": -np.inf, "upper": np.inf, "b_ub": np.full(5, 0.1)}
    found = solve_by_teams(validate(A, b, A_ub=C, l2=l2, **given), target, "auto")
    assert (found.status == 0).all()
    for k, (i, j) in enumerate(np.ndindex(2, 3)):
        rows = {"A_ub": C[j], "b_ub": np.full(5, 0.1), "l2": l2[j]}
        one = gpusolve.lsq_linear(A[i, 0], b[i, j], **rows)
        x = found.x.reshape(6, 4)[k]
        assert_allclose(x, one.x, rtol=1e-9, atol=1e-12 / l2[j, 0])


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
    assert_allclose(result.x, vertex, rtol=1e-12)
