"""Linear ways to deconvolve waveforms, which go negative; streams of waveforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
from numpy.random import Generator
from numpy.testing import assert_allclose

import gpusolve
from gpusolve.studies.experiments import NOISE, convolution_matrix, pulse, waveforms

SIZE = 120


def wiener(pulse: Any, b: Any, ratio: float) -> Any:
    """FFT and the best linear filter for white arrivals, by noise over signal."""
    seen = np.pad(b, len(pulse) // 2)
    size = scipy.fft.next_fast_len(len(seen), real=True)
    sent, seen = (scipy.fft.rfft(part, size) for part in (pulse, seen))
    x = scipy.fft.irfft(sent.conj() * seen / (np.abs(sent) ** 2 + ratio), size)
    return x[: len(b)]


def toeplitz(pulse: Any, b: Any, l2: float) -> Any:
    """Least squares of the whole convolution by Levinson's recursion."""
    column = np.zeros(len(b))
    column[: len(pulse)] = np.correlate(pulse, pulse, "full")[len(pulse) - 1 :]
    column[0] += l2
    products = np.correlate(np.pad(b, len(pulse) // 2), pulse, "valid")
    return scipy.linalg.solve_toeplitz(column, products)


@pytest.mark.paper("Luo, 6")
def test_linear_ways_go_negative_where_nnls_does_not() -> None:
    """More than 20 % of what linear ways find is negative, and their errors are at
    least 1.5 times the errors of NNLS.
    """
    more, part = 1.5, 20 / 100
    for wave in waveforms(4, SIZE, seed=1, noise=NOISE):
        ratio = NOISE**2 * np.sum(wave.pulse**2) / np.mean(wave.b**2)
        best = gpusolve.nnls(wave.A, wave.b).x
        assert best.min() >= 0
        for x in (
            wiener(wave.pulse, wave.b, ratio),
            toeplitz(wave.pulse, wave.b, 0.0),
            toeplitz(wave.pulse, wave.b, ratio),
        ):
            assert -x[x < 0].sum() > part * x[x > 0].sum()
            apart = [np.linalg.norm(found - wave.arrivals) for found in (x, best)]
            assert apart[0] > more * apart[1]


@pytest.mark.paper("Luo, 1, 8")
def test_a_block_that_comes_again_needs_fewer_solves(rng: Generator) -> None:
    """A block that comes again needs fewer solves, since it starts from the last
    solution.
    """
    A = convolution_matrix(pulse(20), SIZE)
    arrivals = rng.gamma(2.0, size=(6, SIZE)) * (rng.random((6, SIZE)) < 0.1)
    b = arrivals @ A.T + NOISE * rng.standard_normal((6, SIZE))
    first = gpusolve.nnls(A, b)
    again = gpusolve.nnls(A, b, warm_start=first.x)
    assert (again.nit < first.nit).all()
    assert_allclose(again.x, first.x, atol=1e-10)
