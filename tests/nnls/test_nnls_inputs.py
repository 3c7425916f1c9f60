"""The validated arguments of the solvers, and the axes of one system."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse.linalg
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from together import together

import gpusolve

# Results do not say which systems share a matrix.
from gpusolve._nnls.validation import validate

M, N = 4, 3

rng = np.random.default_rng(0)
A, b = rng.random((M, N)), rng.random(M)


REPEATED = np.broadcast_to(A, (5, M, N))
OWN = rng.random((5, M, N))


@together(
    ("given", "matrices"),
    [
        ({"A": A, "b": np.ones((5, M))}, ()),
        ({"A": A[None], "b": np.ones((5, M))}, (1,)),
        ({"A": REPEATED, "b": b}, (1,)),
        ({"A": OWN, "b": b}, (5,)),
        ({"A": OWN[:, None], "b": np.ones((7, M))}, (5, 1)),
        ({"A": A, "b": np.ones((5, M)), "weights": b}, ()),
        ({"A": A, "b": b, "weights": np.ones((5, M))}, (5,)),
        ({"A": A, "b": b, "weights": np.broadcast_to(b, (5, M))}, (1,)),
        ({"A": OWN[:, None], "b": b, "weights": np.ones((7, M))}, (5, 7)),
    ],
)
def test_systems_share_a_matrix_unless_it_or_its_weights_differ(
    given: dict[str, Any], matrices: tuple[int, ...]
) -> None:
    problem = validate(**given)
    assert problem.matrices == matrices
    assert problem.shares_matrix == (math.prod(matrices) == 1)


HALF = np.full(N, 0.5)
ONE_INVALID = np.array([HALF, np.where(np.arange(N) == 1, 2.0, 0.5)])


@together(
    ("options", "expected"),
    [
        ({}, None),
        ({"sum_to": 1.0}, None),
        ({"sum_to": -1.0}, True),
        ({"sum_to": np.array([1.0, -1.0])}, [False, True]),
        ({"lower": HALF, "upper": 1.0}, None),
        ({"lower": HALF, "upper": HALF}, None),
        ({"lower": np.full(N, np.nan)}, None),
        ({"lower": ONE_INVALID, "upper": 1.0}, [False, True]),
        ({"lower": np.array([0.0, 0.0, np.inf])}, True),
        ({"upper": np.array([1.0, -np.inf, 1.0]), "lower": -np.inf}, True),
        ({"lower": HALF, "sum_to": 1.5}, None),
        ({"lower": HALF, "sum_to": 1.4}, True),
        ({"upper": HALF, "sum_to": 1.6}, True),
        ({"upper": HALF, "sum_to": 1.5 * (1 + 4e-16)}, None),
        ({"lower": np.array([-np.inf, 0.5, 0.5]), "sum_to": -9.0}, None),
        ({"lower": 0.5, "upper": np.array([np.inf, 1, 1]), "sum_to": 9.0}, None),
        ({"lower": 0.5, "upper": np.array([np.inf, 1, 1]), "sum_to": 1.0}, True),
        ({"lower": -np.inf, "upper": np.inf, "sum_to": -9.0}, None),
        ({"weights": np.ones(M)}, None),
        ({"weights": np.zeros(M)}, True),
        ({"weights": np.array([1.0, 0, 0, 0])}, None),
    ],
)
def test_contradictions_make_systems_infeasible(
    options: dict[str, Any], expected: Any
) -> None:
    bounds = options.get("lower", 0.0), options.get("upper", np.inf)
    rest = {k: v for k, v in options.items() if k not in ("lower", "upper")}
    status = gpusolve.lsq_linear(A, b, bounds, **rest).status
    contradicts = np.asarray(bool(expected) if np.ndim(expected) == 0 else expected)
    assert_array_equal(status == 4, contradicts)


@pytest.mark.parametrize(
    "bounds",
    [
        scipy.optimize.Bounds([0, -np.inf, 0.5], [1, 2, np.inf]),
        ([0, None, 0.5], (1, 2, None)),
    ],
)
def test_bounds_are_as_in_scipy(bounds: Any, rng: Generator) -> None:
    A, b = rng.standard_normal((6, 3)), rng.standard_normal(6)
    expected = scipy.optimize.lsq_linear(
        A, b, ([0, -np.inf, 0.5], [1, 2, np.inf]), tol=1e-14, method="bvls"
    )
    found = gpusolve.lsq_linear(A, b, bounds)
    assert_allclose(found.x, expected.x, rtol=1e-12, atol=1e-14)


def test_numbers_may_be_arrays_of_another_package_without_axes() -> None:
    class Tensor:
        """What implements NumPy's protocol only."""

        def __init__(self, value: float) -> None:
            self.value = value

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array(self.value, dtype)

        def __float__(self) -> float:
            return self.value

    given = {"l1": 0.1, "l2": 0.2, "sum_to": 1.0, "tol": 1e-9}
    expected = gpusolve.lsq_linear(np.eye(3), [1, 2, 3], (0, 2), **given)
    tensors = {name: Tensor(value) for name, value in given.items()}
    bounds = (Tensor(0.0), Tensor(2.0))
    found = gpusolve.lsq_linear(np.eye(3), [1, 2, 3], bounds, **tensors)
    assert_array_equal(found.x, expected.x)
