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


@pytest.fixture(params=EXPERIMENTS)
def experiment(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("dtype", ["f8", pytest.param("f4", marks=pytest.mark.slow)])
def test_solutions_are_optimal(backend: Any, experiment: str, dtype: str) -> None:
    A, b = (array.astype(dtype) for array in systems_for(backend, experiment))
    result, limit = backend.nnls(A, b), 8 * np.finfo(dtype).eps
    assert result.x.dtype == dtype
    assert (result.status == 0).all()
    assert result.kkt.max() <= limit
    for k, x in enumerate(result.x):
        A_k = (A if A.ndim == 2 else A[k]).astype(float)
        assert violation(A_k, b[k], x) <= limit
        expected = scipy_rnorm(A_k, b[k].astype(float))
        tolerance = 1e-10 if dtype == "f8" else 1e-3
        assert result.rnorm[k] == pytest.approx(expected, rel=tolerance)


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
