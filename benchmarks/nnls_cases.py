"""The batches of systems that `nnls.py` solves.

They are the paper's three experiments, some shapes of other applications, and the
random systems of the paper's third experiment in other shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusolve.studies.experiments import EXPERIMENTS, PAPER_SYSTEMS, Systems

PAPER_SIZES = {"deconvolution": 432, "shifted_gaussians": 512, "uniform_random": 512}
"""Rows and columns of a system in the paper."""

FEW_TO_MANY = 1, 10, 100, 1_000, 10_000
MILLION = (1_000_000,)
PIXELS = 512 * 512
"""A system for each pixel of a picture."""


class Case(NamedTuple):
    """A kind of system, and how many of them are solved.

    Attributes
    ----------
    name : str
    shape : (int, int)
        Rows and columns of a matrix.
    make : callable
        Returns ``(A, b)`` for a number of systems.
    systems : tuple of int
    on_gpu : tuple of int
        Numbers of systems that are solved on a GPU only.
    """

    name: str
    shape: tuple[int, int]
    make: Callable[[int], Systems]
    systems: tuple[int, ...]
    on_gpu: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """The shape and the kind of the systems."""
        return "{} x {}, {}".format(*self.shape, self.name)


def uniform(
    systems: int, shape: tuple[int, int], shared: bool, seed: int = 0
) -> Systems:
    """Uniform random matrices and right-hand sides, as in the third experiment."""
    rng = np.random.default_rng(seed)
    A = rng.random(shape if shared else (systems, *shape))
    return A, rng.random((systems, shape[0]))


def directions(rng: np.random.Generator, number: int) -> NDArray[np.float64]:
    """Random points on the unit sphere."""
    points = rng.standard_normal((number, 3))
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


def fibres(
    systems: int, shape: tuple[int, int] = (64, 362), seed: int = 0, noise: float = 0.01
) -> Systems:
    """Fibre directions by diffusion MRI; about 13 entries of x are positive.

    A fibre attenuates the signal of a measurement by the squared cosine of the angle
    between the two. Each voxel contains three fibres.
    """
    rng = np.random.default_rng(seed)
    measured, possible = (directions(rng, number) for number in shape)
    A = np.exp(-7 * (measured @ possible.T) ** 2)
    present = rng.integers(shape[1], size=(systems, 3))
    b = np.einsum("ks,mks->km", rng.dirichlet(np.ones(3), systems), A[:, present])
    return A, b + noise * rng.standard_normal(b.shape)


def experiments(size: int | None = None) -> list[Case]:
    """The paper's experiments, with `size` rows and columns instead of the paper's."""
    sizes = {name: size or PAPER_SIZES[name] for name in EXPERIMENTS}
    return [
        Case(name, (n, n), partial(EXPERIMENTS[name], size=n), PAPER_SYSTEMS)
        for name, n in sizes.items()
    ]


OWN, ONE = "own matrices", "one matrix"


def own(m: int, n: int, *systems: int) -> Case:
    """Random systems, each with its own matrix."""
    return Case(OWN, (m, n), partial(uniform, shape=(m, n), shared=False), systems)


def shared(m: int, n: int, *systems: int, on_gpu: tuple[int, ...] = ()) -> Case:
    """Random systems with the same matrix."""
    make = partial(uniform, shape=(m, n), shared=True)
    return Case(ONE, (m, n), make, systems, on_gpu)


CASES = [
    shared(30, 10, *FEW_TO_MANY, 100_000, on_gpu=MILLION),
    own(30, 10, *FEW_TO_MANY, 100_000),
    shared(200, 50, *FEW_TO_MANY),
    own(200, 50, *FEW_TO_MANY),
    *(own(4 * n, n, 100) for n in (4, 8, 16, 32, 64, 128, 256)),
    *(own(m, 16, 100) for m in (16, 32, 128, 512, 2048, 8192)),
    shared(3, 3, PIXELS, on_gpu=MILLION),
    Case("fibres, one matrix", (64, 362), fibres, (1_000, 10_000)),
    *experiments(),
]

SMALL = [own(12, 4, 3), shared(12, 4, 3), *experiments(20)[:1]]
"""Batches of a test."""
