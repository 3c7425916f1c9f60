"""Tikhonov's penalty against SciPy on stacked systems, and closed forms."""

from __future__ import annotations

import importlib
import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from backends import also_by_fallback
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from together import together

import gpusolve

# Only large batches are stacked in blocks: the limits are lowered.
problem = importlib.import_module("gpusolve._nnls.problem")

Array = NDArray[Any]
Options = dict[str, Any]

SYSTEMS, ROWS, VARIABLES = 3, 9, 6


def dense(
    A: Array, b: Array, given: Options, at: tuple[int, ...]
) -> tuple[Array, Array, Array, Array]:
    """One system with the rows of its penalty below A: A, b, lower, upper.

    `at` is its index in the batch.
    """
    batch = np.broadcast_shapes(
        A.shape[:-2], b.shape[:-1], np.shape(given.get("lam", 1))
    )

    def one(value: Any, *core: int) -> Array:
        return np.broadcast_to(value, (*batch, *core))[at]

    n = A.shape[-1]
    L = given["L"]
    if isinstance(L, str):
        L = np.diff(np.eye(n), ["identity", "first", "second"].index(L), axis=0)
    L, prior = one(L, *L.shape[-2:]), one(given.get("prior", 0.0), n)
    root = np.sqrt(one(given.get("weights", 1.0), A.shape[-2]))
    weight = np.sqrt(one(given.get("lam", 1.0)))
    matrix = np.vstack([root[:, None] * one(A, *A.shape[-2:]), weight * L])
    right = np.concatenate([root * one(b, A.shape[-2]), weight * L @ prior])
    lower, upper = given.get("bounds", (0.0, np.inf))
    return matrix, right, one(lower, n), one(upper, n)


def check(backend: Any, A: Array, b: Array, given: Options) -> None:
    """Compare with SciPy on the stacked system of each."""
    solve = gpusolve.lsq_linear if "bounds" in given else gpusolve.nnls
    result = backend.solve(solve, A, b, **given)
    eps = np.finfo(result.x.dtype).eps
    for at in np.ndindex(result.rnorm.shape):
        matrix, right, lower, upper = dense(A, b, given, at)
        expected = scipy.optimize.lsq_linear(
            matrix, right, (lower, upper), "bvls", tol=1e-15
        )
        x = result.x[at]
        assert result.status[at] == 0
        assert_allclose(x, expected.x, atol=2e4 * eps)
        m = A.shape[-2]
        residual = (right - matrix @ x)[:m]
        rnorm = np.linalg.norm(residual)
        assert_allclose(result.rnorm[at], rnorm, rtol=1e3 * eps)
        dual = matrix.T @ (right - matrix @ x)
        assert_allclose(result.dual[at], dual, atol=1e4 * eps)


def systems(rng: Generator) -> tuple[Array, Array]:
    return rng.random((ROWS, VARIABLES)), rng.standard_normal((SYSTEMS, ROWS)) + 0.5


CASES: dict[str, Options] = {
    "first": {"L": "first"},
    "second": {"L": "second", "lam": 3.0},
    "prior": {"L": "identity", "lam": 0.1, "prior": 0.7},
    "each": {"L": "first", "lam": np.array([0.0, 0.1, 10.0])},
    "path": {"L": "second", "lam": np.array([[0.01], [1.0]]), "prior": np.arange(6.0)},
    "within": {"L": "second", "bounds": (-0.2, np.full(6, 0.3)), "prior": -1.0},
    "weights": {"L": "first", "lam": 0.2, "weights": np.arange(9.0)},
    "both": {
        "L": "identity",
        "lam": np.array([0.5, 0.0, 2.0]),
        "weights": np.arange(27.0).reshape(3, 9),
        "bounds": (-np.inf, 0.4),
    },
    "matrix": {"L": np.cos(np.arange(24.0)).reshape(4, 6)},
    "matrices": {"L": np.cos(np.arange(72.0)).reshape(3, 4, 6), "lam": 0.3},
    "no rows": {"L": np.zeros((0, 6))},
}


@also_by_fallback
@together("case", CASES)
def test_agrees_with_scipy_on_stacked_systems(
    backend: Any, rng: Generator, case: str
) -> None:
    A, b = systems(rng)
    check(backend, A, b, CASES[case])


@together("size", [1, 100])
def test_own_matrices_are_solved_in_blocks(
    rng: Generator, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """A matrix is not copied for each lambda; a wrong lambda spoils its system only."""
    A, b = rng.random((2, 1, ROWS, VARIABLES)), rng.random((SYSTEMS, ROWS))
    given: Options = {
        "L": rng.random((SYSTEMS, 4, VARIABLES)),
        "lam": rng.random((2, 3)),
        "prior": rng.random((SYSTEMS, VARIABLES)),
        "weights": rng.random((SYSTEMS, ROWS)),
    }
    expected = gpusolve.nnls(A, b, **given)
    monkeypatch.setattr(problem, "STACKED", size)
    monkeypatch.setattr(problem, "RESIDUALS", size)
    given["lam"][0, :2], others = [-1.0, np.nan], ([0, 1, 1, 1], [2, 0, 1, 2])
    found = gpusolve.nnls(A, b, **given)
    assert_array_equal(found.status, [[2, 2, 0], [0, 0, 0]])
    assert_allclose(found.x[others], expected.x[others], atol=1e-13)
    assert_allclose(found.rnorm[others], expected.rnorm[others], rtol=1e-13)
    monkeypatch.undo()
    A, lam = rng.random((400, 50)), np.geomspace(1e-4, 1, 200)
    gpusolve.nnls(A, A[:, 0], L="second", lam=lam[:2])
    tracemalloc.start()
    gpusolve.nnls(A, A[:, 0], L="second", lam=lam)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < A.nbytes * len(lam) / 5


def test_the_prior_of_optimal_estimation(rng: Generator) -> None:
    """Rodgers' maximum a posteriori, with covariances of the data and of the prior."""
    A, b = systems(rng)
    prior, noise = rng.random(VARIABLES), 0.1 + rng.random(ROWS)
    root = rng.standard_normal((VARIABLES, VARIABLES))
    S = root @ root.T + np.eye(VARIABLES)
    L = np.linalg.cholesky(np.linalg.inv(S)).T
    result = gpusolve.lsq_linear(A, b, weights=1 / noise**2, L=L, prior=prior)
    gain = S @ A.T @ np.linalg.inv(A @ S @ A.T + np.diag(noise**2))
    assert_allclose(result.x, prior + (b - A @ prior) @ gain.T, rtol=1e-9)
    posterior = S - gain @ A @ S
    covariance = np.broadcast_to(posterior, (SYSTEMS, *posterior.shape))
    assert_allclose(result.covariance(), covariance, rtol=1e-9, atol=1e-12)
    assert_allclose(
        result.variance(), np.diagonal(covariance, axis1=1, axis2=2), rtol=1e-9
    )
    distance = np.linalg.norm((result.x - prior) @ L.T, axis=-1)
    assert_allclose(result.seminorm, distance, rtol=1e-12)
