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
from gpusolve._nnls.arguments import AXES, batch_axes
from gpusolve._nnls.validation import validate

M, N, P = 4, 3, 2
LENGTHS = {"row": M, "variable": N, "penalty": P, "inequality": 2, "equality": 1}

rng = np.random.default_rng(0)
A, b = rng.random((M, N)), rng.random(M)


def shape_of(name: str) -> tuple[int, ...]:
    """The shape of an argument or a result of one system."""
    return tuple(LENGTHS[axis] for axis in AXES[name])


ARGUMENTS = ["A", "b", "weights", "sum_to", "lower", "upper", "l1", "l2", "warm_start"]
PENALTY = ["L", "lam", "prior"]
CONSTRAINTS = ["A_ub", "b_ub", "A_eq", "b_eq"]
OF_PATHS = {"degrees_of_freedom", "gcv", "curvature"}


@together("name", ARGUMENTS + PENALTY + CONSTRAINTS)
def test_an_argument_may_have_batch_axes_of_its_own(name: str) -> None:
    needed: dict[str, Any] = {"L": "first"} if name in PENALTY else {}
    if name in CONSTRAINTS:
        needed = {name: np.ones(shape_of(name)) for name in CONSTRAINTS}
    given = {"A": A, "b": b, **needed, name: np.ones((2, 1, *shape_of(name)))}
    assert validate(**given).batch == (2, 1)


def test_results_have_the_batch_axes_before_their_own() -> None:
    sides = rng.random((2, 1, M))
    rows = {name: np.ones(shape_of(name)) for name in CONSTRAINTS}
    found = gpusolve.lsq_linear(A, sides, **rows)._asdict()
    result = gpusolve.nnls(A, sides, L=np.eye(P, N))
    found |= {**result._asdict(), "residual": result.residual}
    found |= {"seminorm": result.seminorm, "covariance": result.covariance()}
    assert {*found, *ARGUMENTS, *PENALTY, *CONSTRAINTS} == {*AXES} - OF_PATHS
    for name, array in found.items():
        assert array.shape == (2, 1, *shape_of(name))
        assert batch_axes(name, array.shape) == (2, 1)


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
