"""Fixed sums of x when the norms of columns differ by 12 orders of magnitude.

The multiplier of the sum may then be 1e16 times the gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends import without_gpu
from bounded_systems import Bounded, infeasibility, violation
from numpy.random import Generator
from numpy.typing import NDArray
from together import together

import gpusolve
from gpusolve.reference import nnls as specification

Array = NDArray[Any]

EPS = float(np.finfo(np.float64).eps)


@pytest.fixture(params=["auto", "gram", "qr"])
def method(request: pytest.FixtureRequest) -> str:
    """Each method in turn."""
    return str(request.param)


def systems(rng: Generator, count: int, m: int, n: int) -> tuple[Array, Array]:
    """Columns of norms from 1e-6 to 1e6."""
    A = rng.random((count, m, n)) * 1e6 ** rng.uniform(-1, 1, (count, 1, n))
    return A, rng.random((count, m))


def check_solutions(found: Any, A: Array, b: Array, total: Any) -> None:
    """All solutions are certified, have the sum, and are optimal."""
    assert (found.status == 0).all()
    given = Bounded.of(A, b, (0, np.inf), sum_to=total)
    assert infeasibility(given, found.x).max() <= 16 * EPS
    assert violation(given, found.x).max() <= 1e-10


@without_gpu
def test_norms_of_columns_span_many_orders(
    backend: Any, rng: Generator, method: str
) -> None:
    A, b = systems(rng, 100, 12, 8)
    found = backend.solve(gpusolve.nnls, A, b, sum_to=1.0, method=method)
    check_solutions(found, A, b, 1.0)
    assert found.nit.max() <= 3 * 8


@together("exponent", range(-7, 8, 2))
def test_sums_of_any_size(rng: Generator, exponent: int) -> None:
    """From sums that the largest columns fit to sums beyond the smallest columns."""
    A, b = systems(rng, 25, 9, 6)
    total = 3.7 * 10.0**exponent
    found = specification(A, b, sum_to=total)
    check_solutions(found, A, b, total)
    assert found.nit.max() <= 3 * 6


def test_boxes_of_any_size(rng: Generator) -> None:
    """Several variables rest at their upper bounds to make up the sum."""
    A, b = systems(rng, 100, 9, 6)
    upper = rng.random((100, 6))
    total = upper.sum(axis=-1) * rng.random(100)
    found = specification(A, b, bounds=(0, upper), sum_to=total)
    assert (found.status == 0).mean() > 0.95
    assert found.nit.max() <= 3 * 6
    good = found.status == 0
    given = Bounded.of(A, b, (0, upper), sum_to=total).take(good)
    assert infeasibility(given, found.x[good]).max() <= 16 * EPS
    assert violation(given, found.x[good]).max() <= 1e-10


def test_a_column_that_adds_nothing_to_the_sum() -> None:
    """The square of the coefficient of the first variable in the sum underflows."""
    A, b = np.diag([1e85, 1e-85]), np.array([[1e85, 0.0], [1.0, 1.0]])
    expected = np.array([[1, 0], [1e-85, 1]])
    tolerance = {"rtol": 4 * EPS, "atol": 4 * EPS * 1e-85}
    for solve in specification, gpusolve.lsq_linear:
        found = solve(A, b, bounds=(0.0, 1.0), sum_to=1.0)
        assert (found.status == 0).all()
        np.testing.assert_allclose(found.x, expected, **tolerance)
