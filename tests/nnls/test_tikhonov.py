"""Tikhonov's penalty against SciPy on stacked systems, and closed forms."""

from __future__ import annotations

import importlib
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
from backends import also_by_fallback
from numpy.typing import NDArray
from together import together

import gpusolve

tikhonov = importlib.import_module("gpusolve._nnls.tikhonov")

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
        np.testing.assert_allclose(x, expected.x, atol=2e4 * eps)
        m = A.shape[-2]
        residual = (right - matrix @ x)[:m]
        rnorm = np.linalg.norm(residual)
        np.testing.assert_allclose(result.rnorm[at], rnorm, rtol=1e3 * eps)
        dual = matrix.T @ (right - matrix @ x)
        np.testing.assert_allclose(result.dual[at], dual, atol=1e4 * eps)


def systems(rng: np.random.Generator) -> tuple[Array, Array]:
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
    backend: Any, rng: np.random.Generator, case: str
) -> None:
    A, b = systems(rng)
    check(backend, A, b, CASES[case])


@together("method", ["gram", "qr"])
@together("dtype", ["f", "d"])
def test_methods_and_dtypes(
    backend: Any, rng: np.random.Generator, method: str, dtype: str
) -> None:
    A, b = (array.astype(dtype) for array in systems(rng))
    result = backend.solve(gpusolve.nnls, A, b, L="first", lam=0.5, method=method)
    assert result.x.dtype == dtype
    assert result.rnorm.dtype == dtype
    check(backend, A, b, {"L": "first", "lam": 0.5})


@together("size", [1, 100])
def test_own_matrices_are_solved_in_blocks(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    A, b = rng.random((2, 1, ROWS, VARIABLES)), rng.random((SYSTEMS, ROWS))
    given: Options = {
        "L": rng.random((SYSTEMS, 4, VARIABLES)),
        "lam": rng.random((2, 1)),
        "prior": rng.random((SYSTEMS, VARIABLES)),
        "weights": rng.random((SYSTEMS, ROWS)),
    }
    expected = gpusolve.nnls(A, b, **given)
    monkeypatch.setattr(tikhonov, "STACKED", size)
    monkeypatch.setattr(tikhonov, "RESIDUALS", size)
    found = gpusolve.nnls(A, b, **given)
    np.testing.assert_allclose(found.x, expected.x, atol=1e-13)
    np.testing.assert_allclose(found.rnorm, expected.rnorm, rtol=1e-13)
    np.testing.assert_array_equal(found.status, 0)


def test_the_matrix_is_not_copied_for_each_lambda(rng: np.random.Generator) -> None:
    A, b = rng.random((400, 50)), rng.random(400)
    lam = np.geomspace(1e-4, 1, 200)
    gpusolve.nnls(A, b, L="second", lam=lam[:2])
    tracemalloc.start()
    gpusolve.nnls(A, b, L="second", lam=lam)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < A.nbytes * len(lam) / 5


def test_identity_is_the_l2_penalty(rng: np.random.Generator) -> None:
    A, b = systems(rng)
    expected = gpusolve.nnls(A, b, l2=0.3)
    found = gpusolve.nnls(A, b, L="identity", lam=0.3)
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-12)
    np.testing.assert_allclose(found.rnorm, expected.rnorm, rtol=1e-12)
    np.testing.assert_allclose(found.dual, expected.dual, atol=1e-13)


def test_a_weight_of_zero_is_no_penalty(rng: np.random.Generator) -> None:
    A, b = systems(rng)
    expected = gpusolve.nnls(A, b)
    found = gpusolve.nnls(A, b, L="first", lam=0)
    np.testing.assert_allclose(found.x, expected.x, atol=1e-13)


def test_filter_factors_of_an_ill_posed_matrix() -> None:
    """Hansen's filter factors ``s^2 / (s^2 + lam)``; the condition number is 1e17."""
    A = scipy.linalg.hilbert(12)
    U, s, Vt = np.linalg.svd(A)
    b = A @ np.ones(12) + 1e-6 * np.cos(np.arange(12.0))
    lam = np.geomspace(1e-16, 1, 9)
    result = gpusolve.lsq_linear(A, b, L="identity", lam=lam)
    for at, weight in enumerate(lam):
        expected = Vt.T @ (s / (s**2 + weight) * (U.T @ b))
        error = np.linalg.norm(result.x[at] - expected)
        # The condition number of the regularised system is 1 / sqrt(lam).
        assert error <= 1e-13 / np.sqrt(weight) * np.linalg.norm(expected)
        misfit = np.linalg.norm(b - A @ expected)
        np.testing.assert_allclose(result.rnorm[at], misfit, rtol=1e-6)
        size = np.linalg.norm(expected)
        np.testing.assert_allclose(result.seminorm[at], size, rtol=1e-7)


def test_the_prior_of_optimal_estimation(rng: np.random.Generator) -> None:
    """Rodgers' maximum a posteriori, with covariances of the data and of the prior."""
    A, b = systems(rng)
    prior, noise = rng.random(VARIABLES), 0.1 + rng.random(ROWS)
    root = rng.standard_normal((VARIABLES, VARIABLES))
    S = root @ root.T + np.eye(VARIABLES)
    L = np.linalg.cholesky(np.linalg.inv(S)).T
    result = gpusolve.lsq_linear(A, b, weights=1 / noise**2, L=L, prior=prior)
    gain = S @ A.T @ np.linalg.inv(A @ S @ A.T + np.diag(noise**2))
    np.testing.assert_allclose(result.x, prior + (b - A @ prior) @ gain.T, rtol=1e-9)
    posterior = S - gain @ A @ S
    covariance = np.broadcast_to(posterior, (SYSTEMS, *posterior.shape))
    np.testing.assert_allclose(result.covariance(), covariance, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        result.variance(), np.diagonal(covariance, axis1=1, axis2=2), rtol=1e-9
    )
    distance = np.linalg.norm((result.x - prior) @ L.T, axis=-1)
    np.testing.assert_allclose(result.seminorm, distance, rtol=1e-12)


def test_a_fixed_sum(rng: np.random.Generator) -> None:
    A, b = systems(rng)
    L = np.diff(np.eye(VARIABLES), axis=0)
    result = gpusolve.lsq_linear(A, b, L="first", lam=0.5, sum_to=2.0)
    ones = np.ones((VARIABLES, 1))
    matrix = np.block([[A.T @ A + 0.5 * L.T @ L, ones], [ones.T, np.zeros((1, 1))]])
    for x, right in zip(result.x, b, strict=True):
        expected = np.linalg.solve(matrix, np.append(A.T @ right, 2.0))[:-1]
        np.testing.assert_allclose(x, expected, atol=1e-12)


@together("sum_to", [None, 1.5])
def test_the_variance_of_the_residual(
    rng: np.random.Generator, sum_to: float | None
) -> None:
    """It has m less the trace of the influence matrix degrees of freedom."""
    A, b = systems(rng)
    result = gpusolve.nnls(A, b, L="second", lam=0.5, l2=0.1, sum_to=sum_to)
    L = np.diff(np.eye(VARIABLES), 2, axis=0)
    penalty = 0.5 * L.T @ L + 0.1 * np.eye(VARIABLES)
    for k, x in enumerate(result.x):
        free = x > 0
        M = (A.T @ A + penalty)[np.ix_(free, free)]
        inverse, ones = np.linalg.inv(M), np.ones(free.sum())
        if sum_to is not None:
            along = inverse @ ones
            inverse -= np.outer(along, along) / (ones @ along)
        fitted = np.trace(A[:, free] @ inverse @ A[:, free].T)
        variance = result.rnorm[k] ** 2 / (ROWS - fitted)
        np.testing.assert_allclose(
            result.covariance()[k][np.ix_(free, free)], variance * inverse, rtol=1e-9
        )
    assert (result.x == 0).any()


def test_one_bad_system_leaves_the_others_alone(
    backend: Any, rng: np.random.Generator
) -> None:
    A, b = systems(rng)
    L = np.broadcast_to(np.eye(VARIABLES), (6, VARIABLES, VARIABLES)).copy()
    lam, prior = np.ones(6), np.zeros((6, VARIABLES))
    L[1, 2, 3], prior[2, 0], lam[3], lam[4] = np.inf, np.nan, -1, np.inf
    given = {"L": L, "lam": lam, "prior": prior}
    result = backend.solve(gpusolve.nnls, A, b[0], **given)
    np.testing.assert_array_equal(result.status, [0, 2, 2, 2, 2, 0])
    alone = gpusolve.nnls(A, b[0], L=np.eye(VARIABLES))
    for k in (0, 5):
        np.testing.assert_allclose(result.x[k], alone.x, atol=1e-13)
    assert np.isnan(result.x[1:5]).all()
    assert np.isnan(result.rnorm[1:5]).all()


def test_a_missing_row_of_weight_zero(rng: np.random.Generator) -> None:
    A, b = systems(rng)
    weights = np.ones(ROWS)
    weights[4] = 0
    A[4], b[:, 4] = np.nan, np.nan
    result = gpusolve.nnls(A, b, L="first", lam=0.3, weights=weights)
    kept = weights > 0
    expected = gpusolve.nnls(A[kept], b[:, kept], L="first", lam=0.3)
    np.testing.assert_allclose(result.x, expected.x, atol=1e-13)
    np.testing.assert_allclose(result.rnorm, expected.rnorm, rtol=1e-13)
    np.testing.assert_allclose(result.variance(1.0), expected.variance(1.0), rtol=1e-12)


@together("name", ["identity", "first", "second"])
@together("n", [0, 1, 2])
def test_few_variables(name: str, n: int) -> None:
    A, b = np.ones((3, n)), np.ones((2, 3))
    result = gpusolve.nnls(A, b, L=name)
    assert result.x.shape == (2, n)
    np.testing.assert_array_equal(result.status, 0)
    assert (result.seminorm >= 0).all()


def test_empty_batches() -> None:
    result = gpusolve.nnls(np.ones((3, 2)), np.ones((0, 3)), L="first")
    assert result.x.shape == (0, 2)
    own = gpusolve.nnls(np.ones((3, 2)), np.ones(3), L=np.ones((0, 1, 2)))
    assert own.x.shape == (0, 2)
    assert own.seminorm.shape == (0,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"L": "third"}, r"L must be a matrix or one of \('identity', .*got 'third'"),
        ({"L": np.eye(3)}, r"L must have shape \(..., p, 6\) .* got \(3, 3\)"),
        ({"L": np.ones(6)}, r"L must have shape \(..., p, 6\) .* got \(6,\)"),
        ({"L": "first", "lam": -1}, "lam must be finite and non-negative, got -1"),
        ({"L": "first", "lam": np.inf}, "lam must be finite and non-negative, got inf"),
        ({"L": "first", "lam": np.ones(4)}, "batch axes must broadcast.*lam"),
        ({"L": "first", "prior": np.ones(5)}, r"prior must be a number or have shape"),
        ({"L": "first", "prior": np.nan}, "prior must be finite, got nan"),
        ({"lam": 0.5}, "L must be given with lam, got L=None"),
        ({"prior": np.ones(6)}, "L must be given with prior, got L=None"),
    ],
)
def test_bad_arguments(rng: np.random.Generator, given: Options, message: str) -> None:
    A, b = systems(rng)
    with pytest.raises(ValueError, match=message):
        gpusolve.nnls(A, b, **given)


def test_bad_dtypes(rng: np.random.Generator) -> None:
    A, b = systems(rng)
    with pytest.raises(TypeError, match="L must have a real dtype"):
        gpusolve.nnls(A, b, L=1j * np.eye(VARIABLES))


def test_a_result_without_penalty_has_no_seminorm() -> None:
    with pytest.raises(ValueError, match="seminorm needs a result with L"):
        _ = gpusolve.nnls([[1.0]], [1.0]).seminorm


@together("name", ["mgs", "fnnls", "pqn"])
def test_methods_of_the_literature(rng: np.random.Generator, name: str) -> None:
    A, b = systems(rng)
    given: Options = {"L": "second", "lam": np.array([0.1, 1.0, 2.0])}
    expected = gpusolve.nnls(A, b, **given)
    result = gpusolve.nnls(A, b, method=name, **given)  # type: ignore[arg-type]
    np.testing.assert_allclose(result.x, expected.x, atol=1e-7)


# ---- where systems are solved --------------------------------------------------------


def test_blocks_files_and_dask(rng: np.random.Generator) -> None:
    A, b = systems(rng)
    given: Options = {
        "L": rng.random((SYSTEMS, 4, VARIABLES)),
        "lam": rng.random(SYSTEMS),
        "prior": rng.random(VARIABLES),
    }
    expected = gpusolve.nnls(A, b, **given)
    x = np.empty_like(expected.x)
    written = gpusolve.nnls(A, b, devices="cpu", out={"x": x}, **given)
    np.testing.assert_array_equal(x, expected.x)
    np.testing.assert_array_equal(written.seminorm, expected.seminorm)
    named = gpusolve.nnls(A, b, L="second", devices="cpu")
    np.testing.assert_array_equal(named.x, gpusolve.nnls(A, b, L="second").x)
    dask, da = pytest.importorskip("dask"), pytest.importorskip("dask.array")
    lazy = da.from_array(b, (2, ROWS))
    with pytest.raises(TypeError, match="need a result of NumPy or CuPy arrays"):
        _ = gpusolve.nnls(A, lazy, **given).seminorm
    (found,) = dask.compute(gpusolve.nnls(A, lazy, **given))
    np.testing.assert_array_equal(found.x, expected.x)
    np.testing.assert_array_equal(found.rnorm, expected.rnorm)
    np.testing.assert_array_equal(found.seminorm, expected.seminorm)


def test_labels(rng: np.random.Generator) -> None:
    A, b = systems(rng)
    columns, index = list("abcdef"), list("rst")
    L = rng.random((2, VARIABLES))
    frames = pd.DataFrame(A, columns=columns), pd.DataFrame(b, index=index)
    lam = pd.Series([1.0, 2.0, 3.0], index)
    result = gpusolve.nnls(*frames, L=pd.DataFrame(L, columns=columns), lam=lam)
    expected = gpusolve.nnls(A, b, L=L, lam=lam.to_numpy())
    pd.testing.assert_frame_equal(result.x, pd.DataFrame(expected.x, index, columns))
    pd.testing.assert_series_equal(
        result.seminorm, pd.Series(expected.seminorm, index, name="seminorm")
    )
    with pytest.raises(ValueError, match="L must have the labels of A"):
        gpusolve.nnls(*frames, L=pd.DataFrame(L, columns=list("fedcba")))


def test_labels_of_xarray(rng: np.random.Generator) -> None:
    xarray = pytest.importorskip("xarray")
    A, b = systems(rng)
    L, lam = rng.random((2, VARIABLES)), rng.random(4)
    result = gpusolve.nnls(
        xarray.DataArray(A, dims=("time", "pixel")),
        xarray.DataArray(b, dims=("shot", "time")),
        L=xarray.DataArray(L, dims=("difference", "pixel")),
        lam=xarray.DataArray(lam, dims="trial"),
    )
    expected = gpusolve.nnls(A, b[:, None], L=L, lam=lam)
    assert result.x.dims == ("shot", "trial", "pixel")
    np.testing.assert_array_equal(result.x, expected.x)
