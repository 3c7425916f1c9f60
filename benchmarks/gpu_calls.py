"""Time the package's calls on a GPU, next to predictions made without a GPU.

    python benchmarks/gpu_calls.py              # on a GPU: measured, predicted
    python benchmarks/gpu_calls.py --emulate --output benchmarks/results/gpu_calls.md

Without a GPU the stored predictions are printed; the second command renews them.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from blocks import copy_to_machine, numbers
from harness import Benchmark, Call, Machine
from nnls_cases import PIXELS, uniform
from records import OURS, Part, Result, Run
from sparse_matrices import matrix

import gpusolve
from gpusolve import sparse
from gpusolve._emulator._costs import SECTOR_BYTES
from gpusolve._emulator._device import SHARED_MEMORY
from gpusolve._emulator._gpu import DEVICES
from gpusolve.emulator import profile
from gpusolve.gam import BoostedGAM
from gpusolve.studies.experiments import EXPERIMENTS, Systems

TABLE = Path(__file__).parent / "results" / "gpu_calls.json"

SHARE = 66
"""An H200 has 66 times the multiprocessors of the emulated device. With a 66th of the
elements, a kernel whose grid fills the device has as much work for each block."""

FEW = 50
"""The size of each call in a small run."""

# ---- the calls -----------------------------------------------------------------------


class Case(NamedTuple):
    """A call, at the size that is timed and at the size that the emulator counts.

    Attributes
    ----------
    name : str
    make : callable
        Returns the call for a machine and a size: systems, elements, rows or entries.
    size, counted : int
        Size on a GPU, and on the emulator.
    goal : float, optional
        Seconds on an H200.
    """

    name: str
    make: Callable[[Machine, int], Call]
    size: int
    counted: int
    goal: float | None = None

    @property
    def label(self) -> str:
        """The name, and the goal in ms."""
        return f"{self.name}, goal {1e3 * self.goal:g}" if self.goal else self.name


def nnls(solved: Callable[[int], Systems], machine: Machine, systems: int) -> Call:
    A, b = map(machine.xp.asarray, solved(systems))
    return partial(gpusolve.nnls, A, b, method="gram")


def one_matrix(systems: int) -> Systems:
    rng = np.random.default_rng(0)
    return rng.standard_normal((64, 16)), rng.standard_normal((systems, 64))


def own_matrices(systems: int) -> Systems:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((systems, 30, 10))
    return A, rng.standard_normal((systems, 30))


def block(function: Callable[..., Any], machine: Machine, n: int) -> Call:
    return partial(function, numbers(machine.xp, n))


def partition(machine: Machine, n: int) -> Call:
    x = numbers(machine.xp, n)
    return partial(gpusolve.stable_partition, x, x > 0)


SEGMENT = 24
"""Elements of a segment."""


def segmented_scan(machine: Machine, n: int) -> Call:
    flags = machine.xp.arange(n) % SEGMENT == 0
    return partial(gpusolve.segmented_scan, numbers(machine.xp, n), flags)


def segmented_reduce(machine: Machine, n: int) -> Call:
    offsets = machine.xp.asarray(np.append(np.arange(0, n, SEGMENT), n))
    return partial(gpusolve.segmented_reduce, numbers(machine.xp, n), offsets=offsets)


def gemv(machine: Machine, rows: int) -> Call:
    A = numbers(machine.xp, 16 * rows).reshape(rows, 16)
    return partial(gpusolve.gemv, A, numbers(machine.xp, 16))


def spmv(machine: Machine, entries: int) -> Call:
    A = copy_to_machine(machine, matrix("banded", entries, seed=0), "csr")
    return partial(sparse.SpMVPlan(A), numbers(machine.xp, A.shape[1]))


def multiply(machine: Machine, entries: int) -> Call:
    matrices = (matrix("uniform", entries, seed) for seed in (0, 1))
    A, B = (copy_to_machine(machine, one) for one in matrices)
    return partial(sparse.multiply, A, B, method="merge")


def boosted_fit(machine: Machine, rows: int) -> Call:
    """100 steps with 10 learners of 20 cubic B-splines."""
    rng = np.random.default_rng(0)
    X, y = map(machine.xp.asarray, (rng.random((rows, 10)), rng.standard_normal(rows)))
    return partial(BoostedGAM(n_basis=20, max_iter=100).fit, X, y)


def systems(
    name: str, solved: Callable[[int], Systems], size: int, counted: int, goal: float
) -> Case:
    """Systems for `nnls`; the page of costs has the same names."""
    return Case(f"nnls, {name}", partial(nnls, solved), size, counted, goal)


def scaled(name: str, make: Callable[[Machine, int], Call], size: int) -> Case:
    """A call whose kernels fill the device: the emulator counts a share of it."""
    return Case(name, make, size, size // SHARE)


deconvolution, gaussians, random = EXPERIMENTS.values()
large, pixels = (
    partial(uniform, shape=shape, shared=False) for shape in ((1000, 200), (3, 3))
)

CASES = [
    systems("deconvolution, 432 x 48", deconvolution, 48, 2, 0.6e-3),
    systems("shifted Gaussians, 512 x 48", gaussians, 48, 2, 2e-3),
    systems("shifted Gaussians, 512 x 192", gaussians, 192, 3, 4e-3),
    systems("uniform random, 512 x 48", random, 48, 2, 0.6e-3),
    systems("random 1000 x 200, 48", large, 48, 2, 0.4e-3),
    systems("64 x 16, one matrix, 1e6", one_matrix, 10**6, 2000, 6e-3),
    systems("30 x 10, 1e5", own_matrices, 10**5, 1000, 0.4e-3),
    systems("3 x 3, 262,144", pixels, PIXELS, 4000, 0.08e-3),
    scaled("reduce, 1e8", partial(block, gpusolve.reduce), 10**8),
    scaled("scan, 1e8", partial(block, gpusolve.scan), 10**8),
    scaled("segmented_scan, 1e8", segmented_scan, 10**8),
    scaled("segmented_reduce, 1e8", segmented_reduce, 10**8),
    scaled("stable_partition, 1e8", partition, 10**8),
    scaled("gemv, 1e5 x 16", gemv, 10**5),
    scaled("spmv, banded, 1e7 entries", spmv, 10**7),
    scaled("multiply, uniform, 1e7 entries each", multiply, 10**7),
    scaled("boost, 1e5 x 10, 100 steps", boosted_fit, 10**5),
]
"""Blocks have float32, solvers float64."""


# ---- predictions ---------------------------------------------------------------------


def predicted(case: Case, machine: Machine) -> Iterator[Result]:
    """Seconds on each device: the counted grid, as often as needed.

    The call is counted for each device: kernels use as much shared memory as it has.
    """
    call = case.make(machine, case.counted)
    factor = case.size / case.counted
    for name, device in DEVICES.items():
        with SHARED_MEMORY.to(device.shared_bytes), profile() as report:
            call()
        for launch in report.launched:
            barriers = launch.grid_barriers
            sizes = {
                key: math.ceil(factor * SECTOR_BYTES * array.distinct_sectors)
                for key, array in launch.arrays.items()
            }
            launch.extrapolate(round(factor * launch.blocks), sizes)
            launch.grid_barriers = barriers
        found = report.predict(name)
        middle, width = (found.low + found.high) / 2, found.high - found.low
        known = {"median": middle, "spread": width, "solved": 1}
        yield Result(case.label, (case.size, 1), name, **known)


def measure(
    part: Part, machine: Machine, options: argparse.Namespace
) -> Iterator[Result]:
    """Each case, measured on a GPU, and its predictions."""
    stored = Run.load(TABLE).results
    for case in CASES:
        if machine.cupy:
            size = min(FEW, case.counted) if machine.small else case.size
            call = case.make(machine, size)
            yield machine.measure(OURS, case.label, (case.size, 1), call)[0]
        if machine.name == "emulator":
            yield from predicted(case, machine)
        else:
            yield from (one for one in stored if one.name == case.label)


ABOUT = """\
Predictions, from counts of the emulator, are the middle of a range, with its width in
brackets; none is fitted to a measured time. They leave out the products `A^T A` of
cuBLAS, other kernels of CuPy, and the host's time, which decides on calls of some
microseconds. Goals are for a whole call on an H200, in ms."""

BENCHMARK = Benchmark(
    doc=__doc__ or "",
    title="Calls, predicted and measured",
    parts=[Part("calls", ABOUT, tuple(DEVICES))],
    measure=measure,
    predicts=True,
)

if __name__ == "__main__":
    BENCHMARK.main()
