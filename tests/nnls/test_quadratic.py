"""The certificate of quadratic objectives, for x of which the error is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpusolve
from gpusolve._nnls.bounded_qp import Certificate, Quadratic, certify
from gpusolve._nnls.constrained import MultiplierTerms

INF, EPS = np.inf, float(np.finfo(float).eps)


def certificate(G: Any, c: Any, x: Any, lower: float = -INF) -> Certificate:
    objective = Quadratic.of(np.asarray(G, float), np.asarray(c, float), EPS)
    return certify(objective, np.asarray(x, float), lower, INF, None)


def test_a_violation_is_relative_to_the_gradient() -> None:
    found = certificate(np.eye(2), [1, 1], [1 + 1e-8, 1])
    assert found.kkt == pytest.approx(1e-8, rel=1e-6)
    scaled = certificate(np.diag([1e-12, 1e12]), [1e-6, 1e6], [1e6 * (1 + 1e-8), 1e-6])
    assert scaled.kkt == pytest.approx(1e-8, rel=1e-4)


def test_a_small_violation_may_be_far_from_the_minimum() -> None:
    """The eigenvalue is 5e-13, and x is off by 100 along its vector."""
    G, x = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-12]]), np.array([1.0, 1.0])
    far = x + 100 * np.array([1.0, -1.0]) / np.sqrt(2)
    above, terms = 5e-13 * 100**2 / 2, 2 + 4
    found = certificate(G, G @ x, far)
    assert found.kkt == pytest.approx(above / terms, rel=1e-2)
    assert not found.accepts(None, np.dtype(np.float64))


def test_a_violation_at_zero_is_relative_to_the_slopes() -> None:
    """The objective is 0 at 0, and falls by 5e-25; the largest slope is 1, twice."""
    found = certificate(np.eye(2), [1e-12, -1], [0, 0], lower=0.0)
    above, terms = 5e-25, np.finfo(float).eps * 2**2
    assert found.kkt == pytest.approx(above / terms, rel=0.02)


@pytest.mark.parametrize("difference", [1e-3, 1e-4])
def test_the_part_of_c_outside_the_range_is_complete(difference: float) -> None:
    """A small eigenvalue turns the eigenvectors of 0, and their part of c matters."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        A = rng.normal(size=(8, 4))
        A[:, 1], A[:, 3] = A[:, 0], A[:, 2] + difference * A[:, 3]
        c = np.array([1.0, 1.0, 1.0, -1.0])
        bounds = ([-INF, -INF, -1, -1], [INF, INF, 1, 1])
        result = gpusolve.bounded_qp(A.T @ A, c, bounds, method="qr")
        assert result.status == 0
        assert np.abs(result.x).max() < 1e3
        # Where two columns are equal, the Gram method may leave x far out: status 3.
        by_gram = gpusolve.bounded_qp(A.T @ A, c, bounds, method="gram")
        assert by_gram.status == 3 or np.abs(by_gram.x).max() < 1e3


def test_the_minimum_is_not_certified_outside_the_constraints() -> None:
    """The gradient is 0 there, so that only the violation speaks against x."""
    float64, zero = np.dtype(np.float64), np.zeros(2)
    assert certificate(np.eye(2), [1, -1], [1, -1]).accepts(None, float64)
    outside = certificate(np.eye(2), [1, -1], [1, -1], lower=0.0)
    assert not outside.accepts(None, float64)
    objective = Quadratic.of(np.eye(2), np.array([1.0, -1.0]), EPS)
    for is_feasible in True, False:
        pull = MultiplierTerms(
            zero, zero[0], zero[0], zero[0], zero, np.array(is_feasible)
        )
        found = certify(objective, objective.c, -INF, INF, None, pull)
        assert found.kkt == 0
        assert found.accepts(None, float64) == is_feasible
