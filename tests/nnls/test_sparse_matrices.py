"""Least squares with sparse matrices, against SciPy, brute force and dense systems."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse
from bounded_systems import (
    Bounded,
    check_optimal,
    excess,
    infeasibility,
    magnitude,
    random_systems,
)
from numpy.random import Generator
from together import together

import gpusolve

EPS = float(np.finfo(np.float64).eps)
CERTIFIED = 16 * EPS
INF = np.inf


def random_matrix(rng: Generator, m: int, n: int, density: float = 0.3) -> Any:
    """Normal entries in compressed sparse rows."""
    values = rng.standard_normal((m, n)) * (rng.random((m, n)) < density)
    return scipy.sparse.csr_array(values)


def several(A: Any) -> list[Any]:
    """Each matrix of an array as a sparse matrix."""
    return [scipy.sparse.csr_array(matrix) for matrix in A]


def solve(given: Bounded, **options: Any) -> Any:
    return gpusolve.lsq_linear(several(given.A), given.b, **given.options(), **options)


def bounds_of(rng: Generator, m: int, n: int, systems: int) -> tuple[Any, Any]:
    """Bounds that some variables reach."""
    size = np.sqrt(n / m)
    return -size * rng.random((systems, n)), size * rng.random((systems, n))


# ---- against independent solvers -----------------------------------------------------


@together("kind", ["lsmr", "exact"])
def test_a_shared_matrix_agrees_with_scipy(rng: Generator, kind: str) -> None:
    A, b = random_matrix(rng, 60, 15), rng.standard_normal((3, 60))
    lower, upper = bounds_of(rng, 60, 15, 1)
    result = gpusolve.lsq_linear(A, b, (lower, upper))
    assert 0 < ((result.x > lower) & (result.x < upper)).sum() < result.x.size
    for k in range(3):
        expected = scipy.optimize.lsq_linear(
            A.toarray() if kind == "exact" else A,
            b[k],
            (lower[0], upper[0]),
            tol=1e-14,
            lsq_solver=kind,
        )
        np.testing.assert_allclose(result.x[k], expected.x, atol=1e-7)
        assert result.rnorm[k] ** 2 / 2 <= expected.cost * (1 + 1e-12)


@together(("m", "n"), [(1, 1), (3, 3), (8, 5), (5, 8), (33, 31), (40, 70)])
@together("sum_to", [None, 0.1])
def test_all_options_are_optimal(
    rng: Generator, m: int, n: int, sum_to: float | None
) -> None:
    A = [random_matrix(rng, m, n).toarray() for _ in range(3)]
    given = Bounded.of(
        np.stack(A),
        rng.standard_normal((3, m)),
        bounds_of(rng, m, n, 3),
        l1=0.2 * rng.random((3, n)),
        l2=rng.random((3, n)),
        weights=0.1 + rng.random((3, m)),
        sum_to=None if sum_to is None or n == 1 else sum_to,
    )
    check_optimal(given, solve(given))


@together("part", range(4))
def test_degenerate_systems_agree_with_brute_force(part: int) -> None:
    """Random bounds, ties, weights, penalties and sums, on degenerate matrices."""
    for index in range(part, 40, 4):
        family, given = random_systems(index, systems=10, largest=4)
        result = solve(given)
        what = f"{family}, batch {index}"
        assert set(np.unique(result.status)) <= {0, 3}, what
        solved = result.status == 0
        off = infeasibility(given, result.x)
        assert off[solved].max(initial=0) <= 1e-10, what
        size, of_b = magnitude(given, result.x), np.linalg.norm(given.b, axis=-1)
        expected = size < 1e3 * of_b
        print(what, solved[expected].sum(), expected.sum())
        above = excess(given.take(solved), result.x[solved])
        assert above.max(initial=0) <= 1e-8, what
