"""The properties that a result computes: residual, covariance, counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal, assert_equal
from scipy.linalg import null_space
from together import together

import gpusolve

SYSTEMS = 6
EPS = float(np.finfo(np.float64).eps)


def test_covariance_without_a_value_does_not_affect_others(rng: Generator) -> None:
    A, b = rng.random((6, 8, 3)), rng.random((6, 8))
    bounds = (np.full((6, 3), -np.inf), np.full((6, 3), np.inf))
    good = gpusolve.lsq_linear(A, b, bounds).covariance()
    A[0, :, 1] = 2 * A[0, :, 0]
    A[1, 2, 1] = np.nan
    A[2] = 0
    bounds[0][3] = 2
    bounds[1][3] = 1
    result = gpusolve.lsq_linear(A, b, bounds)
    assert result.status.tolist() == [0, 2, 0, 4, 0, 0]
    found = result.covariance()
    assert np.isnan(found[:4]).all()
    assert_array_equal(found[4:], good[4:])
    few = gpusolve.lsq_linear(A[4:, :3], b[4:, :3])
    assert np.isnan(few.covariance()).all()
    assert np.isfinite(few.covariance(1)).all()


@together("shared", [False, True])
@together("kept", [np.nan, np.inf, 1e200])
@together("dtype", [np.float64, np.float32])
def test_covariance_and_residual_without_a_row(
    backend: Any, rng: Generator, kept: float, shared: bool, dtype: Any
) -> None:
    """A row of weight 0 changes neither the covariance nor other residuals."""
    A, b = rng.random((4, 9, 3)).astype(dtype), rng.random((4, 9)).astype(dtype)
    A, weights = A[0] if shared else A, np.ones(9, dtype)
    weights[5] = A[..., 5, :] = 0
    others = np.arange(9) != 5

    def found() -> list[np.ndarray]:
        result = backend.call(gpusolve.nnls, A, b, weights=weights, method="qr")
        assert result.method_counts == {"gram": 0, "qr": 4}
        arrays = result.covariance(1.0), result.residual, result.x
        covariance, residual, x = map(backend.numpy, arrays)
        return [covariance, residual[:, others], x]

    expected = covariance, residual, x = found()
    A[..., 5, 1] = b[2, 5] = kept if kept != 1e200 else np.finfo(dtype).max / 2
    assert_equal(found(), expected)
    assert covariance.dtype == residual.dtype == dtype
    wide = np.broadcast_to(A, (4, 9, 3))[:, others].astype(float)
    eps = np.finfo(dtype).eps
    for k in range(4):
        free, H = x[k] > 0, np.zeros((3, 3))
        H[np.ix_(free, free)] = np.linalg.inv(wide[k][:, free].T @ wide[k][:, free])
        assert_allclose(covariance[k], H, rtol=1e3 * eps, atol=1e2 * eps)
        assert_allclose(residual[k], b[k, others] - wide[k] @ x[k], atol=64 * eps)


def test_a_fixed_sum_determines_what_the_data_do_not() -> None:
    """The third variable has a column of zeros: it makes up the sum."""
    A = np.array([[1.0, 0.0, 0.0], [2.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    result = gpusolve.lsq_linear(A, [1.0, 0.0, 1.0], sum_to=3)
    H = np.linalg.inv(A[:, :2].T @ A[:, :2])
    h = H.sum(axis=1)
    expected = np.block([[H, -h[:, None]], [-h[None], h.sum()[None, None]]])
    assert_allclose(result.covariance(1), expected, atol=1e-15)


def constrained(rng: Generator, n: int, own: bool) -> dict[str, Any]:
    """Constraints and bounds of which some hold with equality, and dependent rows."""
    systems = (SYSTEMS,) if own else ()
    equal = rng.standard_normal((*systems, 2, n))
    return {
        "A_ub": rng.standard_normal((*systems, 4, n)),
        "b_ub": 0.05 * rng.random((SYSTEMS, 4)),
        "A_eq": np.concatenate([equal, equal.sum(axis=-2, keepdims=True)], axis=-2),
        "b_eq": np.array([0.1, 0.2, 0.1 + 0.2]),
        "bounds": (-0.5, 0.4),
    }


def change_of_free(result: Any, k: int, rows: dict[str, Any], has_sum: bool) -> Any:
    """A basis of the changes of x that keep what is active; see SciPy's null_space."""
    n = result.x.shape[-1]
    parts = [np.eye(n)[np.abs(result.dual[k]) > 1e-9], np.ones((int(has_sum), n))]
    if "A_ub" in rows:
        A_ub, A_eq = (
            np.broadcast_to(rows[name], (SYSTEMS, *rows[name].shape[-2:]))[k]
            for name in ("A_ub", "A_eq")
        )
        parts += [A_ub[result.dual_ub[k] > 1e-9], A_eq]
    whole = np.concatenate(parts)
    return null_space(whole, rcond=1e-10)


@together("own", [False, True])
@together("weights", [None, (12,), (SYSTEMS, 12)])
@together("sum_to", [None, 0.2])
@together("penalty", [None, "L", "l2"])
@together("rows", [False, True])
def test_covariance_and_residual(
    numpy_backend: Any,
    rng: Generator,
    own: bool,
    weights: tuple[int, ...] | None,
    sum_to: float | None,
    penalty: str | None,
    rows: bool,
) -> None:
    """``Z (Z^T G Z)^-1 Z^T``; the variance by the trace of the influence matrix."""
    n, m = 7, 12
    A = rng.standard_normal((SYSTEMS, m, n) if own else (m, n))
    b, w = rng.standard_normal((SYSTEMS, m)), np.ones(m)
    given = constrained(rng, n, own) if rows else {"bounds": (-0.5, 0.4)}
    given["sum_to"], ridge = sum_to, np.zeros((n, n))
    if weights is not None:
        given["weights"] = w = 0.1 + rng.random(weights)
    if penalty == "L":
        given |= {"L": rng.standard_normal((3, n)), "lam": 0.5}
        ridge = 0.5 * given["L"].T @ given["L"]
    if penalty == "l2":
        given["l2"] = rng.random(n)
        ridge = np.diag(given["l2"])
    result = gpusolve.lsq_linear(A, b, **given)
    assert (result.status == 0).all()
    assert not rows or (result.dual_ub > 0).any()
    found, residual = result.covariance(), result.residual
    diagonal = np.diagonal(found, axis1=-2, axis2=-1)
    assert_allclose(result.variance(), diagonal, rtol=4 * EPS)
    for k in range(SYSTEMS):
        one, of_rows = A[k] if own else A, w[k] if w.ndim > 1 else w
        Z = change_of_free(result, k, given, sum_to is not None)
        data = one.T @ (of_rows[:, None] * one)
        H = Z @ np.linalg.inv(Z.T @ (data + ridge) @ Z) @ Z.T
        freedom = m - (Z.shape[1] if penalty == "l2" else np.trace(H @ data))
        variance = result.rnorm[k] ** 2 / freedom if weights is None else 1.0
        assert_allclose(found[k], variance * H, rtol=1e-10, atol=1e-13)
        assert_allclose(residual[k], b[k] - one @ result.x[k], atol=1e-13)


def test_variables_that_constraints_determine_have_no_variance(rng: Generator) -> None:
    """Rounding errors leave a number near 0, which is not negative."""
    A, b = rng.standard_normal((9, 4)), rng.standard_normal((200, 9))
    rows = {"A_eq": rng.standard_normal((200, 4, 4)), "b_eq": np.zeros(4)}
    found = gpusolve.lsq_linear(A, b, **rows).variance()
    assert (found >= 0).all()
    assert_allclose(found, 0, atol=1e-12)


def test_covariance_of_programs_and_of_systems_without_a_solution(backend: Any) -> None:
    rows = {"A_ub": np.array([[1.0, 1.0]]), "b_ub": np.array([[1.0], [9.0], [-1.0]])}
    solve = gpusolve.bounded_qp
    G, c = np.diag([1.0, 2.0]), np.array([2.0, 2.0])
    result = backend.call(solve, G, c, **rows)
    found = backend.numpy(result.covariance())
    along = np.array([1, -1]) / 3**0.5  # the sum stays: (1, -1) G (1, -1) = 3
    expected = [np.outer(along, along), np.diag([1, 0.5]), np.full((2, 2), np.nan)]
    assert_allclose(found, expected, atol=1e-15)


@pytest.mark.parametrize("exponent", [-160, 0, 160])
def test_covariance_of_extreme_magnitudes(exponent: int) -> None:
    scale = np.array([10.0**exponent, 1.0])
    A = np.array([[1.0, 1.0], [2.0, 1.0], [0.0, 1.0]])
    unit = gpusolve.lsq_linear(A, [1.0, 0.0, 1.0]).covariance(1)
    found = gpusolve.lsq_linear(A * scale, [1.0, 0.0, 1.0]).covariance(1)
    scaled = found * scale[:, None] * scale
    least = np.finfo(float).tiny
    kept = np.isfinite(found) & (abs(found) >= least)  # 1e-320 and 1e320 are not exact
    assert kept[1, 1]
    assert kept[0, 1]
    assert_allclose(scaled[kept], unit[kept], rtol=1e-12)
