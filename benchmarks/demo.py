"""NNLS on real data: a photograph is deblurred, a histology picture is unmixed.

Run ``make demo``, or ``python benchmarks/demo.py --help``. scikit-image contains both
pictures, so nothing is downloaded.

Every line of the photograph is a signal that was convolved with a pulse, like a LiDAR
waveform. The unknowns are its edges: a line is the running sum of non-negative rises
and falls, and a small ``l1`` keeps most of them zero. Each line is one system, and all
have the same matrix.

Every pixel of the histology picture is a mixture of stains. The amounts of the stains
solve one small system per pixel, again all with the same matrix.

The systems are solved on the GPU if CuPy finds a GPU, otherwise on the CPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.optimize
from harness import Machine, aligned, choose, gpu_name, to_host, wall_clock
from numpy.typing import NDArray
from pictures import Pictures, draw
from skimage import color, data

import gpusolve
from gpusolve.studies.experiments import convolution_matrix, pulse

ROOT = Path(__file__).resolve().parents[1]

Floats = NDArray[np.float64]

PULSE = 15
"""Width in samples of the pulse that blurs the photograph."""

NOISE = 0.003
"""Standard deviation of the noise; white is 1."""

SPARSITY = 1e-4
"""The ``l1`` of the deblurring: smaller values leave noise, larger values blur."""

SCIPY_SAMPLES = {"deblurring": 32, "unmixing": 4096}
"""Number of systems that SciPy solves, spread evenly over the batch."""


class Job(NamedTuple):
    """A batch of systems with the same matrix."""

    name: str
    A: Floats
    b: Floats
    l1: float = 0.0


class Row(NamedTuple):
    """A job's row of the table; the fields are the columns."""

    job: str
    systems: int
    m: int
    n: int
    seconds: float
    updates: float
    downdates: float
    max_kkt: float
    scipy_systems: int
    scipy_seconds: float


class Blur(NamedTuple):
    """A photograph whose lines were convolved with a pulse.

    Attributes
    ----------
    scene : (lines, size) array
        The photograph, from 0 (black) to 1 (white).
    blurred : (lines, size) array
        The convolved lines, with noise.
    matrix : (size, 2 size) array
        Maps rises and falls to a blurred line, without the noise.
    """

    scene: Floats
    blurred: Floats
    matrix: Floats


def blurred_photograph(lines: int, seed: int = 0) -> Blur:
    """Blur the middle lines of the photograph; the matrix is the matrix of edges."""
    photograph = data.camera() / 255
    first = (len(photograph) - lines) // 2
    scene = photograph[first : first + lines]
    size = scene.shape[1]
    kernel = pulse(PULSE)
    blur = convolution_matrix(kernel / kernel.sum(), size)
    noise = NOISE * np.random.default_rng(seed).standard_normal(scene.shape)
    edges = blur @ np.tri(size)
    return Blur(scene, scene @ blur.T + noise, np.hstack([edges, -edges]))


def lines_of(x: Floats) -> Floats:
    """The lines of which `x` contains first the rises, then the falls."""
    rises, falls = np.split(x, 2, axis=-1)
    return np.cumsum(rises - falls, axis=-1)


def stained_tissue(lines: int) -> NDArray[np.uint8]:
    """The upper lines of the histology picture: (lines, 512, 3)."""
    return np.asarray(data.immunohistochemistry()[:lines])


def optical_density(picture: NDArray[np.uint8]) -> Floats:
    """Minus the decimal logarithm of the light of each pixel, in red, green and blue.

    The optical densities of stains add up (the Beer-Lambert law).
    """
    return np.asarray(-np.log10((picture + 1.0) / 256.0))


def transmitted(density: Floats) -> Floats:
    """The light, from 0 to 1, that passes through an optical density."""
    return np.asarray(10.0**-density)


STAINS: Floats = np.asarray(color.rgb_from_hed.T, dtype=np.float64)
"""Columns: the optical densities of one unit of haematoxylin, eosin and DAB."""


def decibels(picture: Floats, truth: Floats) -> float:
    """Peak signal-to-noise ratio, for a peak of 1."""
    return float(-10 * np.log10(np.mean((picture - truth) ** 2)))


def solve(job: Job, machine: Machine) -> tuple[float, gpusolve.NNLSResult]:
    """Solve a job in one call; the seconds, without transfers, and the result."""
    A, b = machine.xp.asarray(job.A), machine.xp.asarray(job.b)
    return machine.stopwatch(partial(gpusolve.nnls, A, b, l1=job.l1))


def penalty_as_row(job: Job, weight: float = 1e-6) -> Job:
    """Return a job for SciPy: the penalty becomes a further row of the systems.

    ``(weight sum(x) + l1 / weight)**2 / 2`` is ``l1 sum(x)`` plus a constant plus a
    term of order ``weight**2``.
    """
    if job.l1 == 0:
        return job
    row = np.full((1, job.A.shape[1]), weight)
    entry = np.full((len(job.b), 1), -job.l1 / weight)
    return Job(job.name, np.vstack([job.A, row]), np.hstack([job.b, entry]))


def solve_by_scipy(job: Job, sample: NDArray[np.intp]) -> tuple[float, Floats]:
    """Solve some systems of a job with SciPy, one after another."""
    given = penalty_as_row(job._replace(b=job.b[sample]))

    def solve_all() -> Floats:
        return np.array([scipy.optimize.nnls(given.A, b)[0] for b in given.b])

    return wall_clock(solve_all)


def spread(count: int, total: int) -> NDArray[np.intp]:
    """At most `count` indices, spread evenly from 0 to `total` - 1."""
    return np.linspace(0, total - 1, min(count, total)).astype(np.intp)


def run(job: Job, machine: Machine) -> tuple[Floats, Row, float]:
    """Solve a job, and a sample of it by SciPy.

    Returns the solutions, the table's row, and the largest difference from SciPy's
    solutions, relative to their largest entry.
    """
    seconds, result = solve(job, machine)
    x = to_host(result.x)
    sample = spread(SCIPY_SAMPLES[job.name], len(x))
    scipy_seconds, expected = solve_by_scipy(job, sample)
    m, n = job.A.shape
    row = Row(
        job=job.name,
        systems=len(x),
        m=m,
        n=n,
        seconds=seconds,
        updates=float(result.n_updates.mean()),
        downdates=float(result.n_downdates.mean()),
        max_kkt=float(result.kkt.max()),
        scipy_systems=len(sample),
        scipy_seconds=scipy_seconds,
    )
    return x, row, float(np.abs(x[sample] - expected).max() / expected.max())


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The rows as lines of text."""
    columns = [
        ("job", "{0.job}"),
        ("systems", "{0.systems:,}"),
        ("m", "{0.m}"),
        ("n", "{0.n}"),
        ("seconds", "{0.seconds:.3f}"),
        ("updates", "{0.updates:.1f}"),
        ("downdates", "{0.downdates:.1f}"),
        ("max KKT", "{0.max_kkt:.1e}"),
        ("SciPy's sample", "{0.scipy_systems:,}"),
        ("SciPy's seconds", "{0.scipy_seconds:.3f}"),
    ]
    heads, forms = zip(*columns, strict=True)
    return aligned([heads, *([form.format(row) for form in forms] for row in rows)])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--lines", type=int, default=512, help="lines of each picture, 1 to 512"
    )
    parser.add_argument(
        "--output", type=Path, default=ROOT / "docs" / "deblurring.png", help="a PNG"
    )
    parser.add_argument("--quick", action="store_true", help="the same as --lines 32")
    given = parser.parse_args()
    if given.quick:
        given.lines = 32
    if not 1 <= given.lines <= 512:
        parser.error(f"--lines must be from 1 to 512, got {given.lines}")
    return given


def main() -> None:
    """Solve, compare, print, draw."""
    options = arguments()
    machine = choose()
    if machine.cupy:
        print(f"Solving on the GPU, {gpu_name(machine.cupy)}.")
        seconds, _ = solve(Job("first", np.eye(3), np.ones((1, 3))), machine)
        print(f"First call, which compiles or loads the kernel: {seconds:.1f} s")
    else:
        print("Solving on the CPU (CuPy finds no GPU here).")

    photo = blurred_photograph(options.lines)
    deblurring = Job("deblurring", photo.matrix, photo.blurred, SPARSITY)
    arrivals, first_row, first_difference = run(deblurring, machine)
    deblurred = lines_of(arrivals)

    tissue = stained_tissue(options.lines)
    unmixing = Job("unmixing", STAINS, optical_density(tissue).reshape(-1, 3))
    amounts, second_row, second_difference = run(unmixing, machine)
    inverted = np.linalg.solve(STAINS, unmixing.b.T).T
    negative = (inverted < 0).mean(axis=0)

    print(
        "\n",
        "\n".join(table([first_row, second_row])),
        "\n\n"
        "Updates and downdates are per system. SciPy solves its sample one system\n"
        "after another, on one core.\n"
        f"Largest difference from SciPy's x, relative to its largest entry: "
        f"{max(first_difference, second_difference):.1e}\n"
        f"Signal to noise: {decibels(photo.blurred, photo.scene):.2f} dB blurred, "
        f"{decibels(deblurred, photo.scene):.2f} dB deblurred.\n"
        "Pixels with a negative amount by plain inversion: haematoxylin "
        f"{negative[0]:.1%}, eosin {negative[1]:.1%}, DAB {negative[2]:.1%}.",
        sep="",
    )
    stained = amounts.reshape(tissue.shape)[..., None] * STAINS.T
    draw(
        Pictures(
            blurred=photo.blurred,
            deblurred=deblurred,
            scene=photo.scene,
            tissue=tissue / 255,
            haematoxylin=transmitted(stained[..., 0, :]),
            dab=transmitted(stained[..., 2, :]),
        ),
        options.output,
    )
    print(f"Picture: {options.output}")


if __name__ == "__main__":
    main()
