"""The three experiments of the NNLS paper, as functions of a seed.

Section 7 of Luo & Duraiswami, *Efficient Parallel Non-Negative Least Squares on
Multi-Core Architectures*, solves 1 to 192 systems of each of three kinds and prints
how many columns were appended to, and removed from, the QR factorisation. The matrices
follow the paper's text; the Gaussians of its table were probably wider. The NASA
waveforms of the first kind are not published with it, so they are simulated here;
``lvis.py`` reads NASA's own files.

Every function returns ``(A, b)`` ready for :func:`gpusolve.nnls`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Systems = tuple[NDArray[np.float64], NDArray[np.float64]]


PAPER_SYSTEMS = (1, 24, 48, 96, 192)
"""Numbers of systems in the paper."""


class PaperCounts(NamedTuple):
    """Columns appended and removed per system; means over the paper's 192 systems."""

    updates: float
    downdates: float


class PaperTable(NamedTuple):
    """A table of section 7: one entry of each row for each of `PAPER_SYSTEMS`.

    Attributes
    ----------
    updates, downdates : tuple of int
        Of all systems together.
    seconds : dict
        By implementation: an Intel X5560 with 8 cores, and an NVIDIA Tesla C2050.
    """

    updates: tuple[int, ...]
    downdates: tuple[int, ...]
    seconds: dict[str, tuple[float, ...]]

    @property
    def counts(self) -> PaperCounts:
        systems = PAPER_SYSTEMS[-1]
        return PaperCounts(self.updates[-1] / systems, self.downdates[-1] / systems)

    @property
    def crossing(self) -> float | None:
        """The number of systems from which the GPU is faster, by interpolation."""
        gpu, cpu = self.seconds["GPU NNLS"], self.seconds["CPU NNLS"]
        return crossing(PAPER_SYSTEMS, gpu, cpu)


def crossing(
    systems: Sequence[int], first: Sequence[float], second: Sequence[float]
) -> float | None:
    """The number of systems from which `first` is faster, None if it never is.

    Between two numbers of systems, times are powers of the number.
    """
    apart = np.log(first) - np.log(second)
    slower = np.flatnonzero(apart > 0)
    if not len(slower):
        return float(systems[0])
    k = int(slower[-1])
    if k == len(systems) - 1:
        return None
    part = apart[k] / (apart[k] - apart[k + 1])
    low, high = np.log(systems[k]), np.log(systems[k + 1])
    return float(np.exp(low + part * (high - low)))


NOISE = 0.01
"""Standard deviation of the noise of a waveform."""

PAPER_TABLES = {
    "deconvolution": PaperTable(
        (108, 1477, 2806, 5695, 12067),
        (14, 220, 406, 834, 1839),
        {
            "GPU NNLS": (0.2172, 0.2238, 0.2356, 0.4508, 0.7203),
            "CPU NNLS": (0.0186, 0.1636, 0.2990, 0.5989, 1.2489),
            "CPU lsqnonneg": (0.0770, 0.7163, 1.2908, 2.6225, 5.5460),
            "Matlab lsqnonneg": (0.1342, 1.1236, 2.0152, 4.1268, 8.7176),
            "Matlab FNNLS": (0.0493, 0.5936, 1.1135, 2.2639, 4.6148),
            "Matlab l1_ls": (
                8.3642,
                135.7896,
                261.3665,
                528.4468,
                1082.8714,
            ),
            "Matlab PQN": (1.4161, 138.2953, 217.6929, 479.9867, 862.9674),
        },
    ),
    "shifted_gaussians": PaperTable(
        (165, 3907, 7792, 15541, 30966),
        (92, 2109, 4196, 8362, 16599),
        {
            "GPU NNLS": (0.4257, 0.5094, 0.9546, 1.7862, 3.2672),
            "CPU NNLS": (0.0654, 1.2238, 2.4141, 4.8067, 9.6250),
            "CPU lsqnonneg": (0.4791, 8.7611, 17.2483, 34.5396, 69.4889),
            "Matlab lsqnonneg": (0.9437, 19.5904, 38.6469, 77.1072, 155.7700),
            "Matlab FNNLS": (0.4937, 11.7176, 23.9502, 47.4635, 91.4500),
            "Matlab l1_ls": (
                1.6317,
                40.7017,
                83.9788,
                164.4839,
                328.9569,
            ),
            "Matlab PQN": (3.1106, 128.6616, 253.3796, 504.3153, 989.2051),
        },
    ),
    "uniform_random": PaperTable(
        (52, 1169, 2361, 4766, 9525),
        (0, 13, 28, 58, 124),
        {
            "GPU NNLS": (0.1194, 0.1397, 0.2526, 0.4875, 0.8667),
            "CPU NNLS": (0.0068, 0.1157, 0.2245, 0.4352, 0.8794),
            "CPU lsqnonneg": (0.0223, 0.4665, 0.8959, 1.7269, 3.5243),
            "Matlab lsqnonneg": (0.0330, 0.8096, 1.5583, 3.0097, 6.1627),
            "Matlab FNNLS": (0.0248, 0.5902, 1.1602, 2.2920, 4.6022),
            "Matlab l1_ls": (
                0.4480,
                10.7729,
                21.1767,
                41.9441,
                83.6695,
            ),
            "Matlab PQN": (1.5935, 55.8196, 110.0892, 221.7277, 441.7190),
        },
    ),
}
"""Tables 7.1 to 7.3."""

PAPER_COUNTS = {name: table.counts for name, table in PAPER_TABLES.items()}

CUT = math.sqrt(2)
"""The end of a simulated pulse, in standard deviations: where it has fallen to 1/e.

The paper says that pulses are "Gaussian-like" and 15 to 25 samples wide, not where they
end. The end decides how many downdates there are: 5 of a pulse that is cut at 1
deviation, 18 at 2 and 30 at 3. 1/e was chosen because then there are as many as in the
paper, 10.
"""


def pulse(width: float, cut: float = 2.0) -> NDArray[np.float64]:
    """A Gaussian of unit height and `width` samples, `cut` deviations to each side."""
    reach, sigma = int(width // 2), width / (2 * cut)
    return np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)


def convolution_matrix(kernel: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """The banded Toeplitz matrix whose product with x is x convolved with `kernel`."""
    reach, time = len(kernel) // 2, np.arange(size)
    lag = np.clip(time[:, None] - time, -reach - 1, len(kernel) - reach) + reach + 1
    return np.asarray(np.pad(kernel, 1)[lag])


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
    systems: int,
    size: int = 432,
    seed: int = 0,
    noise: float = NOISE,
    cut: float = CUT,
    density: float = 0.1,
) -> Iterator[Waveform]:
    """LiDAR waveforms over a forest.

    A waveform is the sum of a canopy (returns spread over a hundred samples), the
    ground (one strong return) and noise. The pulses are 15 to 25 samples wide, as in
    the paper.

    Parameters
    ----------
    systems, size, seed : int
    noise : float
        Its standard deviation; the ground returns 1.
    cut : float
        Where pulses end, in standard deviations.
    density : float
        The part of the samples of the canopy that return something.
    """
    rng = np.random.default_rng(seed)
    time = np.arange(size)
    for _ in range(systems):
        sent = pulse(rng.uniform(15, 25), cut)
        A = convolution_matrix(sent, size)
        ground = rng.uniform(0.65, 0.85) * size
        top = ground - rng.uniform(0.2, 0.5) * size
        centre = 0.5 * (ground + top)
        leaves = np.exp(-0.5 * ((time - centre) / (0.15 * (ground - top))) ** 2)
        hits = (rng.random(size) < density) * rng.gamma(2.0, size=size)
        arrivals = 0.3 * leaves * hits
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


def gaussian_columns() -> NDArray[np.float64]:
    """Overlapping Gaussians; their condition number is 1e7."""
    return np.exp(-0.5 * ((np.arange(48)[:, None] - 2 * np.arange(24)) / 4.0) ** 2)
