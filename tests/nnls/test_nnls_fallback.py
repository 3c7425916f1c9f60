"""Least squares on the CPU without the compiled object.

Tests of all solvers are repeated, and what SciPy does not solve is tested here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from every_option import assert_same
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from together import together

import gpusolve
from gpusolve import reference

pytestmark = pytest.mark.usefixtures("hidden_object")

Array = np.ndarray[Any, np.dtype[np.float64]]
Systems = tuple[Array, Array]


@pytest.fixture
def systems(rng: Generator) -> Systems:
    return rng.standard_normal((12, 9, 5)), rng.standard_normal((12, 9))


@pytest.fixture
def scipy_calls(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], list[int]]:
    """Replace SciPy's x in some calls; returns the list of all calls."""
    solve = scipy.optimize.nnls

    def replace(replaced: Callable[[int, Array], Array]) -> list[int]:
        calls: list[int] = []

        def changed(A: Array, b: Array, maxiter: int) -> tuple[Array, float]:
            x, rnorm = solve(A, b, maxiter=maxiter)
            calls.append(len(calls))
            return replaced(calls[-1], x), rnorm

        monkeypatch.setattr(scipy.optimize, "nnls", changed)
        return calls

    return replace


# ---- by SciPy ------------------------------------------------------------------------


def test_scipy_is_called_once_for_each_finite_system(
    systems: Systems, scipy_calls: Any
) -> None:
    A, b = systems
    A[4, 0, 0] = np.nan
    calls = scipy_calls(lambda _, x: x)
    result = gpusolve.nnls(A, b)
    assert len(calls) == 11
    assert np.flatnonzero(result.status).tolist() == [4]
    assert np.isnan(result.x[4]).all()


def test_scipy_may_take_as_many_iterations_as_the_other_methods() -> None:
    """By itself SciPy gives up after 3 n steps, too few for wide pulses."""
    rng, t = np.random.default_rng(0), np.arange(100)
    A = np.exp(-0.5 * ((t[:, None] - t) / 3) ** 2)
    b = np.maximum(rng.standard_normal((10, 100)), 0) @ A.T
    with pytest.raises(RuntimeError, match="iterations"):
        [scipy.optimize.nnls(A, b_k) for b_k in b]
    result = gpusolve.nnls(A, b)
    assert (result.status == 0).all()
    assert not result.repaired.any()


# ---- what SciPy does not solve -------------------------------------------------------


def give_up(_: Array) -> Array:
    raise RuntimeError("Maximum number of iterations reached.")


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(give_up, id="gives up"),
        pytest.param(lambda x: x + 1.0, id="not optimal"),
        pytest.param(np.zeros_like, id="zero"),
        pytest.param(lambda x: np.full_like(x, 1e30), id="far away"),
    ],
)
def test_a_system_that_scipy_does_not_solve(
    wrong: Callable[[Array], Array], systems: Systems, scipy_calls: Any
) -> None:
    """The specification solves this system, and no other system changes."""
    A, b = systems
    expected = gpusolve.nnls(A, b)
    scipy_calls(lambda call, x: wrong(x) if call == 7 else x)
    result = gpusolve.nnls(A, b)
    others = np.arange(len(b)) != 7
    for name, field in expected._asdict().items():
        values = getattr(result, name)[others]
        assert_array_equal(values, field[others], err_msg=name)
    assert result.repaired.tolist() == (~others).tolist()
    assert (result.status == 0).all()
    assert_allclose(result.x[7], expected.x[7], atol=1e-13)


# ---- by the specification ------------------------------------------------------------


OPTIONS: list[dict[str, Any]] = [
    {"l1": 0.1},
    {"l2": np.linspace(0, 1, 5)},
    {"sum_to": 0.5},
    {"warm_start": np.ones(5)},
    {"maxiter": 2},
]


@together("options", [{}, *OPTIONS], ids=str)
@together("method", ["auto", "gram", "qr"])
def test_the_specification_solves_what_scipy_does_not(
    method: str, options: dict[str, Any], systems: Systems, scipy_calls: Any
) -> None:
    A, b = systems
    calls = scipy_calls(lambda _, x: x)
    if options or method != "auto":
        found = gpusolve.nnls(A, b, method=method, **options)
        assert_same(found, reference.nnls(A, b, **options))
    found = gpusolve.lsq_linear(A, b, (-0.1, 0.2), method=method, **options)
    assert_array_equal(found.x, reference.nnls(A, b, bounds=(-0.1, 0.2), **options).x)
    assert not calls
