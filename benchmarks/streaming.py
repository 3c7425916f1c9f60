"""Deconvolve waveforms as they arrive, one block after another, and measure the rate.

    python benchmarks/streaming.py --output FILE   # on a GPU if there is one
    python benchmarks/streaming.py --emulate       # the kernels on the CPU, at toy size
    python benchmarks/streaming.py --cpu           # the CPU path

Sections 1 and 8 of Luo & Duraiswami, "Efficient Parallel Non-Negative Least Squares on
Multi-Core Architectures": systems are streamed, and solved as data is acquired. A block
is a scan across the flight line: waveform i of a scan is next to waveform i of the scan
before, so the solution of one block is the starting point of the next. Results are
Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from harness import (
    Array,
    Machine,
    choose,
    head,
    publish,
    row,
    table_head,
    three_digits,
    timing_parser,
)
from numpy.typing import NDArray

import gpusolve
from gpusolve import NNLSResult
from gpusolve.studies.experiments import NOISE, convolution_matrix, pulse

Floats = NDArray[np.float64]

WIDTH = 20
"""Samples of the pulse, which all waveforms share."""

CHANGED = 0.02
"""Part of the canopy that differs between two scans."""


def stream(
    A: Array, blocks: Iterable[Array], *, warm: bool = True, **options: Any
) -> Iterator[NNLSResult]:
    """Solve one block of systems after another.

    Parameters
    ----------
    A : (m, n) or (systems, m, n) array
    blocks : iterable of (systems, m) arrays
        The right-hand sides. If they share A, the last block may be smaller.
    warm : bool, optional
        Whether a block starts from the solution of the block before.
    **options
        Of `gpusolve.nnls`.

    Yields
    ------
    NNLSResult
        Of each block, before the next block is read.
    """
    start = None
    for b in blocks:
        guess = None if start is None else start[: len(b)]
        result = gpusolve.nnls(A, b, warm_start=guess, **options)
        if warm:
            start = result.x
        yield result


# ---- the flight ----------------------------------------------------------------------


def flight(
    scans: int, beams: int, size: int = 432, seed: int = 0, changed: float = CHANGED
) -> Iterator[Floats]:
    """Scans over a forest, each of `beams` waveforms.

    From one scan to the next a part of the canopy is `changed`, all returns change by
    up to 10 %, and the ground rises or falls by at most one sample.
    """
    rng = np.random.default_rng(seed)
    A, beam, time = (
        convolution_matrix(pulse(WIDTH), size),
        np.arange(beams),
        np.arange(size),
    )
    ground = rng.integers(int(0.7 * size), int(0.8 * size), beams)
    canopy = np.zeros((beams, size))
    part = 1.0
    for _ in range(scans):
        height = (time - (ground[:, None] - 0.2 * size)) / (0.05 * size)
        hits = 0.3 * rng.gamma(2.0, size=canopy.shape) * np.exp(-0.5 * height**2)
        grown = hits * (rng.random(canopy.shape) < 0.1)
        canopy = np.where(rng.random(canopy.shape) < part, grown, canopy)
        ground = np.clip(ground + rng.integers(-1, 2, beams), 0, size - 1)
        part = changed
        arrivals = canopy * rng.uniform(0.9, 1.1, canopy.shape)
        arrivals[beam, ground] += 1.0
        yield arrivals @ A.T + NOISE * rng.standard_normal(canopy.shape)


def noise_penalty() -> float:
    """The `l1` that noise exceeds with three standard deviations.

    A variable enters if its column times the residual exceeds `l1`.
    """
    return float(3 * NOISE * np.linalg.norm(pulse(WIDTH)))


# ---- the report ----------------------------------------------------------------------

SIZES = {"cuda": (32, 4096, 432), "cpu": (16, 256, 432), "emulator": (3, 2, 24)}
"""Scans, waveforms of a scan, and samples."""

ABOUT = """\
{scans} scans of {beams} waveforms with {size} samples, one after another; from scan to
scan {changed:.0%} of the canopy changes. Each scan is one call of `nnls`. For each
waveform, "iterations" counts the least-squares solutions, "positive" the positive
variables.

Without a penalty most positive variables fit noise, which differs in each scan. A warm
start has to remove them again, so it needs more iterations than a cold start. With an
l1 of three standard deviations of the noise, more of the positive variables are
returns, and a warm start of long waveforms needs fewer iterations.
"""


class Rate(NamedTuple):
    """What it takes to solve all blocks, per waveform."""

    rate: float
    iterations: float
    passive: float


def rate(machine: Machine, A: Array, blocks: list[Array], **options: Any) -> Rate:
    """Measure a stream; the first run, which may compile, does not count."""
    timed = machine.timing(partial(all_of, A, blocks, **options))
    results = timed.result
    count = sum(len(b) for b in blocks)
    iterations = sum(float(result.nit.sum()) for result in results) / count
    passive = sum(float((result.x > 0).sum()) for result in results) / count
    return Rate(count / timed.median, iterations, passive)


def all_of(A: Array, blocks: list[Array], **options: Any) -> list[NNLSResult]:
    return list(stream(A, blocks, **options))


def report(machine: Machine, scans: int, beams: int, size: int) -> Iterator[str]:
    """The report, line by line as it is measured."""
    yield from head("Streamed waveforms", machine)
    yield ABOUT.format(scans=scans, beams=beams, size=size, changed=CHANGED)
    yield from table_head(
        "l1", "start", "waveforms / s", "iterations", "positive", words=2
    )
    A = machine.xp.asarray(convolution_matrix(pulse(WIDTH), size))
    blocks = [machine.xp.asarray(b) for b in flight(scans, beams, size)]
    for l1 in (0.0, noise_penalty()):
        for warm in (False, True):
            found = rate(machine, A, blocks, warm=warm, l1=l1)
            cells = map(three_digits, found)
            yield row(f"{l1:.2f}", "warm" if warm else "cold", *cells)


def arguments() -> argparse.Namespace:
    sizes = "scans, waveforms of a scan, and samples"
    return timing_parser(__doc__, sizes, repeats=3).parse_args()


def main() -> None:
    options = arguments()
    machine = choose(options.emulate, options.cpu, options.repeats)
    scans, beams, size = options.sizes or SIZES[machine.name]
    publish(report(machine, scans, beams, size), options.output)


if __name__ == "__main__":
    main()
