"""Time the package's calls on a GPU, next to predictions made without a GPU.

    python benchmarks/gpu_calls.py              # on a GPU: measured, predicted
    python benchmarks/gpu_calls.py --predict    # renew results/gpu_calls.json

Without a GPU the stored predictions are printed.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from blocks import copy_to_machine, numbers
from harness import Call, Machine, choose, commit, gpu_name, tee
from nnls_cases import PIXELS, uniform
from records import row, table_head, three_digits
from sparse_matrices import matrix

import gpusolve
from gpusolve import sparse
from gpusolve._emulator._costs import SECTOR_BYTES
from gpusolve._emulator._gpu import DEVICES
from gpusolve.emulator import Device, profile
from gpusolve.gam import BoostedGAM
from gpusolve.studies.experiments import EXPERIMENTS, Systems

TABLE = Path(__file__).parent / "results" / "gpu_calls.json"
REPEATS = 5

SHARE = 66
"""An H200 has 66 times the multiprocessors of the emulated device. With a 66th of the
elements, a kernel whose grid fills the device has as much work for each block."""

Ranges = dict[str, dict[str, list[float]]]
"""Seconds, low and high, by the names of the case and of the device."""


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
    systems("shifted Gaussians, 512 x 192", gaussians, 192, 2, 4e-3),
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


def predicted(case: Case) -> dict[str, list[float]]:
    """Seconds, low and high, on each device: the counted grid, as often as needed."""
    call = case.make(choose(emulate=True), case.counted)
    with profile() as report:
        call()
    factor = case.size / case.counted
    for launch in report.launched:
        barriers = launch.grid_barriers
        sizes = {
            name: math.ceil(factor * SECTOR_BYTES * array.distinct_sectors)
            for name, array in launch.arrays.items()
        }
        launch.extrapolate(round(factor * launch.blocks), sizes)
        launch.grid_barriers = barriers
    ranges = {name: report.predict(name) for name in DEVICES}
    return {name: [one.low, one.high] for name, one in ranges.items()}


def write_predictions() -> None:
    """Predict all cases, and store the table: a line for each case."""
    lines = []
    for case in CASES:
        ranges = {
            name: [float(f"{seconds:.4g}") for seconds in ends]
            for name, ends in predicted(case).items()
        }
        lines.append(f"{json.dumps(case.name)}: {json.dumps(ranges)}")
        print(lines[-1], flush=True)
    command = "python benchmarks/gpu_calls.py --predict"
    made = {"made": f"{command}; seconds, low and high", "commit": commit()}
    cases = ",\n  ".join(lines)
    TABLE.write_text(f'{json.dumps(made)[:-1]},\n "cases": {{\n  {cases}\n }}}}\n')


# ---- the page ------------------------------------------------------------------------


def nearest(cupy: Any) -> str:
    """The device of the table with the nearest multiprocessors and bandwidth."""
    limits = cupy.cuda.Device().attributes
    bits = 2 * limits["GlobalMemoryBusWidth"]  # at both edges of the clock
    memory = 1e3 * limits["MemoryClockRate"] * bits / 8
    here = limits["MultiProcessorCount"], memory

    def distance(device: Device) -> float:
        pairs = zip((device.multiprocessors, device.memory), here, strict=True)
        return sum(abs(math.log(one / other)) for one, other in pairs)

    return min(DEVICES, key=lambda name: distance(DEVICES[name]))


def milliseconds(seconds: float) -> str:
    return three_digits(1e3 * seconds)


def range_cell(ends: list[float]) -> str:
    return " to ".join(map(milliseconds, ends))


def goal_cell(goal: float | None, seconds: float) -> str:
    """The goal, and whether a time reaches it; empty without a goal."""
    if goal is None:
        return ""
    return f"{milliseconds(goal)}, {'reached' if seconds <= goal else '**missed**'}"


ABOUT = """\
# Calls, predicted and measured

Times in ms. Predictions are of commit {commit}; none is fitted to a measured time. They
leave out the products `A^T A` of cuBLAS, other kernels of CuPy, and the host's time,
which decides on calls of some microseconds. Goals are for a whole call on an H200.
"""


def measured_lines(machine: Machine, table: Ranges) -> Iterator[str]:
    """Each case, measured on this GPU; the ratio is to the middle of the range."""
    device = nearest(machine.cupy)
    yield f"The nearest GPU of the table to {gpu_name(machine.cupy)}: {device}.\n"
    yield from table_head("case", f"predicted, {device}", "measured", "ratio", "goal")
    for case in CASES:
        ends = table[case.name][device]
        seconds = machine.timing(case.make(machine, case.size)).median
        ratio = f"{seconds / np.mean(ends):.2f}"
        cells = range_cell(ends), milliseconds(seconds), ratio
        yield row(case.name, *cells, goal_cell(case.goal, seconds))


def predicted_lines(table: Ranges) -> Iterator[str]:
    """Each case, predicted for each device."""
    yield "Nothing was measured. A goal is reached if the whole range is below it,"
    yield "without what the predictions leave out.\n"
    yield from table_head("case", *DEVICES, "goal")
    for case in CASES:
        ranges = table[case.name]
        cells = (range_cell(ranges[device]) for device in DEVICES)
        yield row(case.name, *cells, goal_cell(case.goal, ranges["H200"][1]))


def report(machine: Machine) -> Iterator[str]:
    table = json.loads(TABLE.read_text())
    yield ABOUT.format(commit=table["commit"])
    if machine.cupy:
        yield from measured_lines(machine, table["cases"])
    else:
        yield from predicted_lines(table["cases"])


def main() -> None:
    made = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    made.add_argument("--predict", action="store_true", help="renew the predictions")
    if made.parse_args().predict:
        write_predictions()
    list(tee(report(choose(repeats=REPEATS))))


if __name__ == "__main__":
    main()
