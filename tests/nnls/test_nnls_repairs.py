"""A repair never replaces a better solution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends import without_gpu

import gpusolve
from gpusolve._numerics.certificate import Certificate, certify
from gpusolve.reference import nnls


@without_gpu
def test_repairs_never_replace_better_solutions(backend: Any) -> None:
    """Nearly equal columns, whose difference fits b: Gram matrices lose the digits."""
    rng = np.random.default_rng(7)
    A = rng.standard_normal((48, 12, 6))
    apart = 10.0 ** -rng.uniform(5, 9, (48, 1)) * rng.standard_normal((48, 12))
    A[..., 1] = -A[..., 0] + apart
    b = apart * 1e6 + 0.1 * rng.standard_normal((48, 12))
    results = {name: backend.nnls(A, b, method=name) for name in ("gram", "auto")}
    certified = results["gram"].status == 0
    rnorm = {name: result.rnorm[certified] for name, result in results.items()}
    assert results["auto"].repaired.any()
    assert (results["auto"].status[certified] == 0).all()
    assert (rnorm["auto"] <= rnorm["gram"] * (1 + 1e-9)).all()


@without_gpu
def test_repairs_find_the_better_x_that_is_large(backend: Any) -> None:
    """Rounding x changes A x by less than the repair improves it."""
    apart, fit = 2.0**-45, 0.2
    A = np.array([[1.0, -1.0], [apart, 0.0], [0.0, 0.0]])
    for method in ("auto", "qr"):
        result = backend.nnls(A, np.array([0.0, fit, 1.0]), method=method)
        assert result.rnorm == pytest.approx(1.0)
        assert result.x == pytest.approx(fit / apart)


@without_gpu
def test_dependent_columns_are_those_that_float32_cannot_tell_apart(
    backend: Any,
) -> None:
    """Another x would be so large that its rounding errors hide what it fits."""
    A = np.array([[1.0, -1.0], [2.0**-22, 0.0], [0.0, 0.0]], np.float32)
    for method in ("auto", "qr"):
        result = backend.nnls(A, np.array([0.0, 0.2, 1.0], np.float32), method=method)
        assert result.status == 0
        assert (result.x < 1).all()


@without_gpu
def test_equal_columns_and_mixed_bounds_keep_the_certified_solution(
    backend: Any,
) -> None:
    """The penalties of these problems are rounding errors of the factorisation of G."""
    for seed in (24, 36, 91, 177):
        rng = np.random.default_rng(seed)
        A = rng.random((16, 8)) if rng.random() < 0.5 else rng.normal(size=(16, 8))
        A[:, 1] = A[:, 2] = A[:, 0]
        b = rng.normal(size=16)
        bounds = (np.where(rng.random(8) < 0.5, 0, -np.inf), np.inf)
        result = gpusolve.bounded_qp(A.T @ A, A.T @ b, bounds)
        expected = gpusolve.lsq_linear(A, b, bounds)
        assert result.status == 0
        fit = np.linalg.norm(b - A @ result.x)
        assert fit == pytest.approx(expected.rnorm, rel=1e-10)


def test_a_later_attempt_that_is_not_better_replaces_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first attempt is certified, but not settled; the second is not certified."""
    attempts: list[Certificate] = []

    def certify_first(*args: Any) -> Certificate:
        found = certify(*args)
        worse = {"by_x": 5e-11, "angle": 9e-11, "kkt": 1.4e-10}
        if attempts:
            worse = {"by_x": 1.0, "kkt": 1.0, "rnorm": found.rnorm - 1e-13}
        attempts.append(found._replace(**{k: np.asarray(v) for k, v in worse.items()}))
        return attempts[-1]

    monkeypatch.setattr("gpusolve.reference._nnls.certify", certify_first)
    solution = nnls(np.array([[3.0, 2.0], [1.0, 1.0]]), np.array([3.0, 2.0]))
    assert len(attempts) > 1
    assert solution.status == 0
    assert solution.kkt == attempts[0].kkt
