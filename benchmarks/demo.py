"""The main job, on real data: a photograph deblurred and a histology picture unmixed.

Run ``make demo``, or ``python benchmarks/demo.py --help``. Both pictures are shipped
with scikit-image, so nothing is downloaded.

Every scan line of the photograph is a signal that went through a pulse, as the
waveform of a LiDAR does. What arrives in it are edges: a line is written as rises and
falls, neither of them negative, and a small ``l1`` keeps them few. That is one system
to a line, all with one matrix.

Every pixel of the histology picture is a mixture of stains. Finding their amounts is
one small system to a pixel, again all with one matrix.

There is a GPU where CuPy finds one, and then the systems are solved there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
from experiments import convolution_matrix, pulse
from numpy.typing import NDArray
from pictures import Pictures, draw
from skimage import color, data

import gpusolve

ROOT = Path(__file__).resolve().parents[1]

Floats = NDArray[np.float64]

PULSE = 15
"""Width in samples of the pulse that blurs the photograph."""

NOISE = 0.003
"""Standard deviation of the noise, in parts of full white."""

SPARSITY = 1e-4
"""The ``l1`` of the deblurring: less leaves more noise, more takes detail away."""

SCIPY_SAMPLES = {"deblurring": 32, "unmixing": 4096}
"""How many of a job's systems SciPy is given, spread evenly over the batch."""


class Job(NamedTuple):
    """A batch of systems with one matrix."""

    name: str
    A: Floats
    b: Floats
    l1: float = 0.0


class Row(NamedTuple):
    """What the table says of a job; the fields are its columns."""

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
    """A photograph, seen through a pulse.

    Attributes
    ----------
    scene : (lines, size) array
        The photograph, from 0 (black) to 1 (white).
    blurred : (lines, size) array
        Its lines after the pulse, with noise.
    matrix : (size, 2 size) array
        Makes rises and falls into a blurred line, but for the noise.
    """

    scene: Floats
    blurred: Floats
    matrix: Floats


def blurred_photograph(lines: int, seed: int = 0) -> Blur:
    """Blur the middle lines of the photograph, and say how their edges arrive."""
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
    """The lines whose rises are the first half of `x`, and whose falls the other."""
    rises, falls = np.split(x, 2, axis=-1)
    return np.cumsum(rises - falls, axis=-1)


def stained_tissue(lines: int) -> NDArray[np.uint8]:
    """The upper lines of the histology picture: (lines, 512, 3)."""
    return np.asarray(data.immunohistochemistry()[:lines])


def optical_density(picture: NDArray[np.uint8]) -> Floats:
    """How many powers of ten of the light each pixel takes away, in red, green, blue.

    In this unit stains add up (the law of Beer and Lambert).
    """
    return np.asarray(-np.log10((picture + 1.0) / 256.0))


def transmitted(density: Floats) -> Floats:
    """The light, from 0 to 1, that an optical density lets through."""
    return np.asarray(10.0**-density)


STAINS: Floats = np.asarray(color.rgb_from_hed.T, dtype=np.float64)
"""Optical densities, in red, green, blue, of one unit of haematoxylin, eosin, DAB."""


def decibels(picture: Floats, truth: Floats) -> float:
    """Peak signal to noise ratio, the peak being 1."""
    return float(-10 * np.log10(np.mean((picture - truth) ** 2)))


def gpu() -> Any | None:
    """CuPy, where it finds a GPU."""
    try:
        import cupy
    except ImportError:
        return None
    return cupy if cupy.cuda.is_available() else None


def device_name(cupy: Any | None) -> str:
    """The device that solves, in words."""
    if cupy is None:
        return "the CPU (CuPy finds no GPU here)"
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    return f"the GPU, {properties['name'].decode()}"


def on_host(array: Any) -> Any:
    """`array` as a NumPy array."""
    return array.get() if hasattr(array, "get") else array


def solve(job: Job, cupy: Any | None) -> tuple[gpusolve.NNLSResult, float]:
    """Solve a job in one call; its result and the seconds, transfers left out."""
    A, b = (job.A, job.b) if cupy is None else map(cupy.asarray, (job.A, job.b))
    start = time.perf_counter()
    result = gpusolve.nnls(A, b, l1=job.l1)
    if cupy is not None:
        cupy.cuda.Device().synchronize()
    return result, time.perf_counter() - start


def without_penalty(job: Job, weight: float = 1e-6) -> Job:
    """`job` as SciPy can take it: its penalty becomes one more row of the systems.

    ``(weight sum(x) + l1 / weight)**2 / 2`` is ``l1 sum(x)``, a constant, and a term
    of the order of ``weight**2``.
    """
    if job.l1 == 0:
        return job
    row = np.full((1, job.A.shape[1]), weight)
    entry = np.full((len(job.b), 1), -job.l1 / weight)
    return Job(job.name, np.vstack([job.A, row]), np.hstack([job.b, entry]))


def solve_by_scipy(job: Job, sample: NDArray[np.intp]) -> tuple[Floats, float]:
    """Solve some systems of a job with SciPy, one after another."""
    given = without_penalty(job._replace(b=job.b[sample]))
    start = time.perf_counter()
    x = np.array([scipy.optimize.nnls(given.A, b)[0] for b in given.b])
    return x, time.perf_counter() - start


def spread(count: int, total: int) -> NDArray[np.intp]:
    """`count` indices, or all where there are fewer, spread evenly below `total`."""
    return np.linspace(0, total - 1, min(count, total)).astype(np.intp)


def run(job: Job, cupy: Any | None) -> tuple[Floats, Row, float]:
    """Solve a job here and in part by SciPy.

    Returns the solutions, the table's row, and the largest difference from SciPy's
    solutions in parts of their largest entry.
    """
    result, seconds = solve(job, cupy)
    x = on_host(result.x)
    sample = spread(SCIPY_SAMPLES[job.name], len(x))
    expected, scipy_seconds = solve_by_scipy(job, sample)
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
    """The rows as aligned lines under their heads."""
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
    cells = [[head, *(form.format(row) for row in rows)] for head, form in columns]
    widths = [max(map(len, column)) for column in cells]
    for line in zip(*cells, strict=True):
        first, *others = (
            f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)
        )
        yield "  ".join([first.strip().ljust(widths[0]), *others])


def report_first_call(cupy: Any | None) -> None:
    """On a GPU, load the kernel and say how long that took."""
    if cupy is not None:
        _, seconds = solve(Job("first", np.eye(3), np.ones((1, 3))), cupy)
        print(f"First call, which compiles or loads the kernel: {seconds:.1f} s")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="The main job, on real data.")
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
        parser.error(f"--lines is {given.lines}; 1 to 512 is wanted")
    return given


def main() -> None:
    """Solve, compare, print, draw."""
    options = arguments()
    cupy = gpu()
    print(f"Solving on {device_name(cupy)}.")
    report_first_call(cupy)

    photo = blurred_photograph(options.lines)
    deblurring = Job("deblurring", photo.matrix, photo.blurred, SPARSITY)
    arrivals, first_row, first_difference = run(deblurring, cupy)
    deblurred = lines_of(arrivals)

    tissue = stained_tissue(options.lines)
    unmixing = Job("unmixing", STAINS, optical_density(tissue).reshape(-1, 3))
    amounts, second_row, second_difference = run(unmixing, cupy)
    inverted = np.linalg.solve(STAINS, unmixing.b.T).T
    negative = (inverted < 0).mean(axis=0)

    print(
        "\n",
        "\n".join(table([first_row, second_row])),
        "\n\n"
        "Updates and downdates are per system. SciPy solves its sample one system\n"
        "after another, on one core.\n"
        f"Largest difference from SciPy's x, in parts of the largest entry: "
        f"{max(first_difference, second_difference):.1e}\n"
        f"Signal to noise: {decibels(photo.blurred, photo.scene):.2f} dB blurred, "
        f"{decibels(deblurred, photo.scene):.2f} dB deblurred.\n"
        "Pixels to which plain inversion gives a negative amount: haematoxylin "
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
