"""Deconvolve waveforms by NNLS, by a Wiener filter, and by Toeplitz least squares.

    python benchmarks/deconvolution.py --output FILE --plot PICTURE

Section 6 of Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares on
Multi-Core Architectures": the convolution may be inverted in Fourier space, or by the
structure of its Toeplitz matrix. Both are fast, and neither knows that returns are
non-negative. ``experiments.py`` makes the waveforms, so their arrivals are known.
Everything runs on the CPU. Results are Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.fft
import scipy.linalg
from harness import (
    Machine,
    choose,
    head,
    publish,
    row,
    table_head,
    three_digits,
    timing_parser,
)
from matplotlib.figure import Figure
from numpy.typing import NDArray

import gpusolve
from gpusolve.studies.experiments import NOISE, Waveform, waveforms

Floats = NDArray[np.float64]


# ---- the ways ------------------------------------------------------------------------


def observed(pulse: Floats, b: Floats) -> Floats:
    """The whole convolution: what is outside the waveform is taken for 0."""
    return np.pad(b, len(pulse) // 2)


def noise_to_signal(pulse: Floats, b: Floats, noise: float) -> float:
    """The power of the noise over the power of the arrivals, as if both were white."""
    return float(noise**2 * np.sum(pulse**2) / np.mean(b**2))


def wiener(pulse: Floats, b: Floats, noise: float) -> Floats:
    """Deconvolve by FFT and a Wiener filter, the best linear filter for white arrivals.

    Parameters
    ----------
    pulse : (width,) array
        Of odd width.
    b : (size,) array
    noise : float
        The standard deviation.

    Returns
    -------
    (size,) array
    """
    seen = observed(pulse, b)
    size = scipy.fft.next_fast_len(len(seen), real=True)
    pulse_spectrum, seen_spectrum = (
        scipy.fft.rfft(part, size) for part in (pulse, seen)
    )
    power = np.abs(pulse_spectrum) ** 2 + noise_to_signal(pulse, b, noise)
    x = scipy.fft.irfft(pulse_spectrum.conj() * seen_spectrum / power, size)
    return np.asarray(x[: len(b)])


def toeplitz_least_squares(pulse: Floats, b: Floats, l2: float = 0.0) -> Floats:
    """Deconvolve by least squares with the penalty ``l2 |x|^2``.

    The matrix T of the whole convolution is a Toeplitz matrix, and so is ``T^T T``: it
    has the autocorrelation of the pulse on its diagonals. Levinson's recursion solves
    the normal equations in O(size^2).

    Parameters
    ----------
    pulse : (width,) array
        Of odd width.
    b : (size,) array
    l2 : float, optional

    Returns
    -------
    (size,) array
    """
    width = len(pulse)
    column = np.zeros(max(len(b), width))
    column[:width] = np.correlate(pulse, pulse, "full")[width - 1 :]
    column[0] += l2
    products = np.correlate(observed(pulse, b), pulse, "valid")
    return np.asarray(scipy.linalg.solve_toeplitz(column[: len(b)], products))


def ridge(pulse: Floats, b: Floats, noise: float) -> Floats:
    """Toeplitz least squares with the penalty that corresponds to the Wiener filter."""
    return toeplitz_least_squares(pulse, b, noise_to_signal(pulse, b, noise))


WAYS: dict[str, Callable[[Waveform], Floats]] = {
    "FFT and Wiener filter": lambda wave: wiener(wave.pulse, wave.b, NOISE),
    "Toeplitz least squares": lambda wave: toeplitz_least_squares(wave.pulse, wave.b),
    "Toeplitz, with a penalty": lambda wave: ridge(wave.pulse, wave.b, NOISE),
    "NNLS": lambda wave: gpusolve.nnls(wave.A, wave.b).x,
}


# ---- the comparison ------------------------------------------------------------------


class Quality(NamedTuple):
    """How well arrivals are found.

    Attributes
    ----------
    least : float
        The least value, over the largest.
    negative : float
        The sum of what is negative, over the sum of what is positive.
    error : float
        ``|x - arrivals| / |arrivals|``.
    misfit : float
        The root mean square of ``b - A x``, over the root mean square of the noise.
    """

    least: float
    negative: float
    error: float
    misfit: float


def quality(waveform: Waveform, x: Floats) -> Quality:
    apart = np.linalg.norm(x - waveform.arrivals) / np.linalg.norm(waveform.arrivals)
    left = waveform.b - waveform.A @ x
    return Quality(
        float(x.min() / x.max()),
        float(-x[x < 0].sum() / x[x > 0].sum()),
        float(apart),
        float(np.sqrt(np.mean(left**2)) / NOISE),
    )


def mean_quality(way: Callable[[Waveform], Floats], seen: list[Waveform]) -> Quality:
    each = [quality(waveform, way(waveform)) for waveform in seen]
    return Quality(*map(float, np.mean(each, axis=0)))


def draw(waveform: Waveform) -> Figure:
    """The arrivals of a waveform as found in each way, and the true arrivals."""
    figure = Figure(figsize=(9, 2 * len(WAYS)), layout="constrained")
    axes = figure.subplots(len(WAYS), 1, sharex=True, sharey=True)
    for axis, (name, way) in zip(axes, WAYS.items(), strict=True):
        axis.plot(waveform.arrivals, "0.7", linewidth=4, label="arrivals")
        axis.plot(way(waveform), "C0", label=name)
        axis.axhline(0, color="0.3", linewidth=0.5)
        axis.legend(loc="upper left")
    axes[-1].set_xlabel("sample")
    return figure


# ---- the report ----------------------------------------------------------------------

ABOUT = """\
Means over {systems} simulated waveforms of {size} samples, each with its own pulse. The
noise has a standard deviation of {noise}.

- least: the least value of x, over the largest.
- negative: the sum of what is negative, over the sum of what is positive.
- error: |x - arrivals| / |arrivals|.
- misfit: the root mean square of b - A x, over the root mean square of the noise.
- ms: for one waveform. `nnls` solves a batch of waveforms faster, see nnls_cpu.md.

The linear ways trade noise against width: without a penalty x fits the noise, with a
penalty the returns are blurred and too small; in both cases much of x is negative. NNLS
needs no parameter, and all of its values are non-negative.
"""


def report(machine: Machine, systems: int, size: int) -> Iterator[str]:
    """The report, line by line as it is measured."""
    seen = list(waveforms(systems, size, noise=NOISE))
    yield from head("Ways to deconvolve waveforms", machine)
    yield ABOUT.format(systems=systems, size=size, noise=NOISE)
    yield from table_head("", *Quality._fields, "ms")
    for name, way in WAYS.items():
        seconds = machine.timing(partial(way, seen[0])).median
        cells = (f"{value:.3f}" for value in mean_quality(way, seen))
        yield row(name, *cells, three_digits(1000 * seconds))


def arguments() -> argparse.Namespace:
    parser = timing_parser(__doc__, "samples of a waveform")
    parser.add_argument("--systems", type=int, default=48, help="waveforms")
    parser.add_argument("--plot", type=Path, help="draw the first waveform here")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    machine = choose(cpu=True, repeats=options.repeats)
    (size,) = options.sizes or [432]
    publish(report(machine, options.systems, size), options.output)
    if options.plot:
        draw(next(waveforms(1, size, noise=NOISE))).savefig(options.plot)


if __name__ == "__main__":
    main()
