"""The paper's three experiments: convolutions, and certified solutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends import by_object
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from oracles import scipy_rnorm, violation

import gpusolve
from gpusolve import reference
from gpusolve.studies.experiments import EXPERIMENTS, convolution_matrix

SYSTEMS = {"numpy": 8, "emulator": 1, "cuda": 48}


def systems_for(backend: Any, experiment: str) -> Any:
    """Of the paper's size, but on the emulator."""
    size = {"size": 64} if backend.name == "emulator" else {}
    return EXPERIMENTS[experiment](SYSTEMS[backend.name], **size)


SINGLE_PRECISION_KKT = 8
"""Largest certificate in float32, in units of its epsilon."""


@pytest.fixture(params=EXPERIMENTS)
def experiment(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_float64_is_optimal(backend: Any, experiment: str) -> None:
    A, b = systems_for(backend, experiment)
    result = backend.nnls(A, b)
    assert (result.status == 0).all()
    assert result.kkt.max() <= 8 * np.finfo(np.float64).eps
    for k, x in enumerate(result.x):
        A_k = A if A.ndim == 2 else A[k]
        assert violation(A_k, b[k], x) <= 8 * np.finfo(np.float64).eps
        assert result.rnorm[k] == pytest.approx(scipy_rnorm(A_k, b[k]), rel=1e-10)


@pytest.mark.paper("Luo, (6.1), (6.2)")
@pytest.mark.parametrize("width", [3, 15, 25])
def test_a_toeplitz_matrix_convolves(rng: Generator, width: int) -> None:
    """A is constant along its diagonals, and A x is the convolution of x
    and the pulse.
    """
    sent, x = rng.random(width), rng.random(60)
    A = convolution_matrix(sent, 60)
    assert_allclose(A @ x, np.convolve(x, sent, mode="same"), atol=1e-13)
    assert_array_equal(A[1:, 1:], A[:-1, :-1])


@pytest.mark.paper("Luo, 7 iterations")
def test_qr_takes_the_same_steps_everywhere(
    device_backend: Any, experiment: str
) -> None:
    """By `qr` a block of threads needs as many solves, updates and downdates as a CPU.

    The Gram method does not: it rounds sums in another order on each device.
    """
    A, b = EXPERIMENTS[experiment](3, size=48)
    found, expected = device_backend.nnls(A, b, method="qr"), reference.nnls(A, b)
    assert_allclose(found.x, expected.x, atol=1e-7)
    expected = by_object(gpusolve.nnls, A, b, method="qr")
    for name in ("nit", "n_updates", "n_downdates"):
        assert_array_equal(getattr(found, name), getattr(expected, name))
    assert_allclose(found.x, expected.x, atol=1e-7)


@pytest.mark.slow
def test_float32_is_optimal(backend: Any, experiment: str) -> None:
    A, b = systems_for(backend, experiment)
    A, b = A.astype(np.float32), b.astype(np.float32)
    result = backend.nnls(A, b)
    assert result.x.dtype == np.float32
    limit = SINGLE_PRECISION_KKT * np.finfo(np.float32).eps
    assert (result.status == 0).all()
    assert result.kkt.max() <= limit
    for k, x in enumerate(result.x):
        A_k = A if A.ndim == 2 else A[k]
        assert violation(A_k, b[k], x) <= limit
        assert result.rnorm[k] == pytest.approx(
            scipy_rnorm(A_k.astype(float), b[k].astype(float)), rel=1e-3
        )
