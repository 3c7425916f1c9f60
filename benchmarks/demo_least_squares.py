"""Least squares on real data: a photograph is deblurred, a tissue is unmixed.

scikit-image contains both pictures, so nothing is downloaded.

Every line of the photograph is a signal that was convolved with a pulse, like a LiDAR
waveform. The unknowns are its edges: a line is the running sum of non-negative rises
and falls, and a small ``l1`` keeps most of them zero. Each line is one system, and all
have the same matrix.

Every pixel of the histology picture is a mixture of stains. The amounts of the stains
solve one small system per pixel, again all with the same matrix.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.optimize
from harness import Machine, to_host, wall_clock
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from records import three_digits
from skimage import color, data

import gpusolve
from gpusolve.studies.experiments import convolution_matrix, pulse

Floats = NDArray[np.float64]

PULSE = 15
"""Width in samples of the pulse that blurs the photograph."""

NOISE = 0.003
"""Standard deviation of the noise; white is 1."""

SPARSITY = 1e-4
"""The ``l1`` of the deblurring: smaller values leave noise, larger values blur."""


DETAIL = 320
"""Side in pixels of the middle part that is drawn, so that pixels are visible."""


class Job(NamedTuple):
    """A batch of systems with the same matrix; SciPy solves a sample of them."""

    name: str
    A: Floats
    b: Floats
    sample: int
    l1: float = 0.0


def blurred_photograph(lines: int) -> tuple[Floats, Floats, Floats]:
    """The middle lines of the photograph, convolved with a pulse and with noise.

    Then the lines as they were, and the matrix of edges: it maps the rises and then the
    falls of a line to the blurred line.
    """
    photograph = data.camera() / 255
    first = (len(photograph) - lines) // 2
    scene = photograph[first : first + lines]
    size = scene.shape[1]
    kernel = pulse(PULSE)
    blur = convolution_matrix(kernel / kernel.sum(), size)
    noise = NOISE * np.random.default_rng(0).standard_normal(scene.shape)
    edges = blur @ np.tri(size)
    return scene @ blur.T + noise, scene, np.hstack([edges, -edges])


STAINS: Floats = np.asarray(color.rgb_from_hed.T, dtype=np.float64)
"""Columns: the optical densities of one unit of haematoxylin, eosin and DAB."""


def decibels(picture: Floats, truth: Floats) -> float:
    """Peak signal-to-noise ratio, for a peak of 1."""
    return float(-10 * np.log10(np.mean((picture - truth) ** 2)))


def solve_by_scipy(job: Job, b: Floats, weight: float = 1e-6) -> Floats:
    """SciPy's answers, one after another. A penalty becomes a further row of A.

    ``(weight sum(x) + l1 / weight)**2 / 2`` is ``l1 sum(x)`` plus a constant plus a
    term of order ``weight**2``.
    """
    A = job.A
    if job.l1:
        A = np.vstack([A, np.full(A.shape[1], weight)])
        b = np.column_stack([b, np.full(len(b), -job.l1 / weight)])
    return np.array([scipy.optimize.nnls(A, one)[0] for one in b])


def solve(job: Job, machine: Machine) -> Floats:
    """Solve a job in one call, and a sample of it by SciPy; print what they take."""
    systems, (m, n) = len(job.b), job.A.shape
    print(f"   {job.name}: {systems:,} systems of {m} x {n} in one call", flush=True)
    A, b = machine.xp.asarray(job.A), machine.xp.asarray(job.b)
    seconds, result = machine.stopwatch(partial(gpusolve.nnls, A, b, l1=job.l1))
    x, kkt = to_host(result.x), float(result.kkt.max())
    print(f"      gpusolve: {three_digits(seconds)} s, largest certificate {kkt:.0e}")
    count = min(job.sample, systems)
    sample = np.linspace(0, systems - 1, count).astype(np.intp)
    taken, expected = wall_clock(partial(solve_by_scipy, job, job.b[sample]))
    difference = np.abs(x[sample] - expected).max() / expected.max()
    print(
        f"      a loop over SciPy: {three_digits(taken * systems / count)} s, "
        f"estimated from {count:,} systems; largest difference {difference:.0e}",
        flush=True,
    )
    return np.asarray(x)


def run(folder: Path, quick: bool, machine: Machine) -> Path:
    """Solve, compare, print, draw; the path of the picture."""
    lines = 32 if quick else 512
    blurred, scene, matrix = blurred_photograph(lines)
    deblurring = Job("Deblur a photograph", matrix, blurred, 8, SPARSITY)
    rises, falls = np.split(solve(deblurring, machine), 2, axis=-1)
    deblurred = np.cumsum(rises - falls, axis=-1)
    print(
        "      peak signal-to-noise ratio: "
        f"{decibels(blurred, scene):.2f} dB blurred, "
        f"{decibels(deblurred, scene):.2f} dB deblurred"
    )
    tissue = data.immunohistochemistry()[:lines]
    # Optical densities add up (the Beer-Lambert law): decimal logarithms of light.
    b = -np.log10((tissue + 1.0) / 256.0).reshape(-1, 3)
    amounts = solve(Job("Unmix the stains of a tissue", STAINS, b, 4096), machine)
    negative = (np.linalg.solve(STAINS, b.T) < 0).mean(axis=1)
    print(
        "      pixels with a negative amount by plain inversion: haematoxylin "
        f"{negative[0]:.1%}, eosin {negative[1]:.1%}, DAB {negative[2]:.1%}"
    )
    transmitted = 10.0 ** -(amounts.reshape(tissue.shape)[..., None] * STAINS.T)
    pictures = {
        "Blurred, with noise": blurred,
        "Deblurred": deblurred,
        "Photograph": scene,
        "Stained tissue": tissue / 255,
        "Haematoxylin alone": transmitted[..., 0, :],
        "DAB alone": transmitted[..., 2, :],
    }
    return draw(pictures, folder / "deblurring.png")


def draw(pictures: dict[str, Floats], path: Path) -> Path:
    """Write the middle of each picture, with its title."""
    figure = Figure(figsize=(9.9, 7.2), dpi=100, layout="constrained")
    for axis, (title, picture) in zip(
        figure.subplots(2, 3).flat, pictures.items(), strict=True
    ):
        middle = (
            slice(max(0, (size - DETAIL) // 2), (size + DETAIL) // 2)
            for size in picture.shape[:2]
        )
        axis.imshow(np.clip(picture[tuple(middle)], 0, 1), cmap="gray", vmin=0, vmax=1)
        axis.set_title(title, fontsize=11)
        axis.set_axis_off()
    figure.savefig(path)
    with Image.open(path) as drawn:  # a palette keeps the file small
        drawn.convert("RGB").quantize(256).save(path, optimize=True)
    return path
