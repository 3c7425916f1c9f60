"""The three experiments of the NNLS paper, as functions of a seed.

Section 7 of Luo & Duraiswami, *Efficient Parallel Non-Negative Least Squares on
Multi-Core Architectures*, solves 1 to 192 systems of each of three kinds and prints
how many columns were appended to, and removed from, the QR factorisation. The paper
describes the matrices exactly. The NASA waveforms of the first kind are not published
with it, so they are simulated here.

Every function returns ``(A, b)`` ready for :func:`gpusolve.nnls`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import toeplitz

Systems = tuple[NDArray[np.float64], NDArray[np.float64]]


class PaperCounts(NamedTuple):
    """Columns appended and removed per system; means over the paper's 192 systems."""

    updates: float
    downdates: float


PAPER_COUNTS = {
    "deconvolution": PaperCounts(12067 / 192, 1839 / 192),
    "shifted_gaussians": PaperCounts(30966 / 192, 16599 / 192),
    "uniform_random": PaperCounts(9525 / 192, 124 / 192),
}


def pulse(width: float) -> NDArray[np.float64]:
    """A Gaussian of unit height and `width` samples, two deviations to each side."""
    reach = int(width // 2)
    return np.exp(-0.5 * (np.arange(-reach, reach + 1) / (width / 4)) ** 2)


def convolution_matrix(kernel: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """The banded Toeplitz matrix whose product with x is x convolved with `kernel`."""
    reach = len(kernel) // 2
    column = np.zeros(size)
    row = np.zeros(size)
    tail = kernel[reach : reach + size]
    head = kernel[reach::-1][:size]
    column[: len(tail)] = tail
    row[: len(head)] = head
    return np.asarray(toeplitz(column, row))


class Waveform(NamedTuple):
    """A simulated waveform: ``b`` is ``A @ arrivals`` with noise.

    Attributes
    ----------
    pulse : (width,) array
    arrivals : (size,) array
        What is returned at each time: non-negative, and mostly 0.
    A : (size, size) array
        Convolution with the pulse.
    b : (size,) array
    """

    pulse: NDArray[np.float64]
    arrivals: NDArray[np.float64]
    A: NDArray[np.float64]
    b: NDArray[np.float64]


def waveforms(
    systems: int, size: int = 432, seed: int = 0, noise: float = 0.01
) -> Iterator[Waveform]:
    """LiDAR waveforms over a forest.

    A waveform is the sum of a canopy (returns spread over a hundred samples), the
    ground (one strong return) and noise. The pulses are 15 to 25 samples wide, as in
    the paper.
    """
    rng = np.random.default_rng(seed)
    time = np.arange(size)
    for _ in range(systems):
        sent = pulse(rng.uniform(15, 25))
        A = convolution_matrix(sent, size)
        ground = rng.uniform(0.65, 0.85) * size
        top = ground - rng.uniform(0.2, 0.5) * size
        centre = 0.5 * (ground + top)
        density = np.exp(-0.5 * ((time - centre) / (0.15 * (ground - top))) ** 2)
        arrivals = 0.3 * density * (rng.random(size) < 0.1) * rng.gamma(2.0, size=size)
        arrivals[int(ground)] += 1.0
        b = A @ arrivals + noise * rng.standard_normal(size)
        yield Waveform(sent, arrivals, A, b)


def deconvolution(
    systems: int, size: int = 432, seed: int = 0, noise: float = 0.01
) -> Systems:
    """Table 7.1: arrival times in a LiDAR waveform; each system has its own pulse."""
    A = np.empty((systems, size, size))
    b = np.empty((systems, size))
    for k, waveform in enumerate(waveforms(systems, size, seed, noise)):
        A[k], b[k] = waveform.A, waveform.b
    return A, b


def shifted_gaussians(
    systems: int, size: int = 512, seed: int = 0, sigma: float = 4.32
) -> Systems:
    """Table 7.2: one matrix of mean-shifted Gaussians, random right-hand sides."""
    rng = np.random.default_rng(seed)
    time = np.arange(size)
    A = np.exp(-0.5 * ((time[:, None] - time) / sigma) ** 2)
    return A, rng.random((systems, size))


def uniform_random(systems: int, size: int = 512, seed: int = 0) -> Systems:
    """Table 7.3: uniform random matrices and right-hand sides."""
    rng = np.random.default_rng(seed)
    return rng.random((systems, size, size)), rng.random((systems, size))


EXPERIMENTS: dict[str, Callable[..., Systems]] = {
    "deconvolution": deconvolution,
    "shifted_gaussians": shifted_gaussians,
    "uniform_random": uniform_random,
}
