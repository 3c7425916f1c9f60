"""Time the package's calls on a GPU, next to predictions made without a GPU.

    python benchmarks/predicted_calls.py              # on a GPU: measured, predicted
    python benchmarks/predicted_calls.py --predict    # renew predicted/calls.json

Without a GPU the stored predictions are printed. Results are Markdown.
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
from blocks import numbers
from gam import set_up
from harness import (
    Call,
    Machine,
    choose,
    commit,
    gpu_name,
    publish,
    row,
    table_head,
    three_digits,
)
from nnls_cases import PAPER_SIZES, PIXELS, uniform
from predictions import described
from sparse_matrices import matrix
from sparse_products import copy_to_machine

import gpusolve
from gpusolve import sparse
from gpusolve._emulator._costs import SECTOR_BYTES
from gpusolve._emulator._gpu import DEVICES
from gpusolve.emulator import Device, profile
from gpusolve.gam import boost
from gpusolve.studies.experiments import EXPERIMENTS, Systems

TABLE = Path(__file__).parent / "predicted" / "calls.json"
COMMAND = "python benchmarks/predicted_calls.py --predict"
REPEATS = 5

Ranges = dict[str, dict[str, list[float]]]
"""Seconds, low and high, by the names of the case and of the device."""

SHARE = 66
"""An H200 has 66 times the multiprocessors of the emulated device. With a 66th of the
elements, a kernel whose grid fills the device has as much work for each block."""


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


# ---- the cases -----------------------------------------------------------------------


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
    A = copy_to_machine(machine, matrix("banded", entries, seed=0).tocsr())
    return partial(sparse.SpMVPlan(A), numbers(machine.xp, A.shape[1]))


def multiply(machine: Machine, entries: int) -> Call:
    matrices = (matrix("uniform", entries, seed) for seed in (0, 1))
    A, B = (copy_to_machine(machine, one) for one in matrices)
    return partial(sparse.multiply, A, B, method="merge")


def boosted_fit(machine: Machine, rows: int) -> Call:
    """100 steps with 10 learners of 20 cubic B-splines."""
    rng = np.random.default_rng(0)
    X, y = machine.xp.asarray(rng.random((rows, 10))), rng.standard_normal(rows)
    learners = set_up(X, 20)
    return partial(boost, learners, machine.xp.asarray(y), steps=100, method="stacked")


def systems(
    name: str, solved: Callable[[int], Systems], size: int, counted: int, goal: float
) -> Case:
    """Systems for `nnls`; the name is that of the page of costs."""
    return Case(f"nnls, {name}", partial(nnls, solved), size, counted, goal)


def share(name: str, make: Callable[[Machine, int], Call], size: int) -> Case:
    """A call whose kernels fill the device."""
    return Case(name, make, size, size // SHARE)


deconvolution, gaussians, random = (EXPERIMENTS[name] for name in PAPER_SIZES)
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
    share("reduce, 1e8", partial(block, gpusolve.reduce), 10**8),
    share("scan, 1e8", partial(block, gpusolve.scan), 10**8),
    share("segmented_scan, 1e8", segmented_scan, 10**8),
    share("segmented_reduce, 1e8", segmented_reduce, 10**8),
    share("stable_partition, 1e8", partition, 10**8),
    share("gemv, 1e5 x 16", gemv, 10**5),
    share("spmv, banded, 1e7 entries", spmv, 10**7),
    share("multiply, uniform, 1e7 entries each", multiply, 10**7),
    share("boost, 1e5 x 10, 100 steps", boosted_fit, 10**5),
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
    made = {"made": f"{COMMAND}; seconds, low and high", "commit": commit()}
    cases = ",\n  ".join(lines)
    TABLE.write_text(f'{json.dumps(made)[:-1]},\n "cases": {{\n  {cases}\n }}}}\n')


def stored() -> dict[str, Any]:
    """The table of predictions."""
    return dict(json.loads(TABLE.read_text()))


# ---- the page ------------------------------------------------------------------------


def nearest(gpu: Device) -> str:
    """The device of the table with the nearest float64 rate and bandwidth."""

    def rates(device: Device) -> tuple[float, float]:
        lanes = device.multiprocessors * device.lanes["float64"]
        return lanes * device.clock, device.memory

    def distance(name: str) -> float:
        pairs = zip(rates(DEVICES[name]), rates(gpu), strict=True)
        return sum(abs(math.log(one / other)) for one, other in pairs)

    return min(DEVICES, key=distance)


def this_gpu(cupy: Any) -> Device:
    device = cupy.cuda.Device()
    capability = int(device.compute_capability)
    return described(gpu_name(cupy), capability, device.attributes)


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
leave out products of cuBLAS, such as `A^T A`, other kernels of CuPy, and the host's
time, which decides on calls of some microseconds. Goals are for an H200.
"""


def measured_lines(machine: Machine, table: Ranges) -> Iterator[str]:
    """Each case, measured on this GPU."""
    gpu = this_gpu(machine.cupy)
    device = nearest(gpu)
    yield f"The device of the table that is nearest to this GPU, {gpu.name}: {device}."
    yield "The ratio is the measured time over the middle of the predicted range.\n"
    yield from table_head("case", f"predicted, {device}", "measured", "ratio", "goal")
    for case in CASES:
        ends = table[case.name][device]
        seconds = machine.timing(case.make(machine, case.size)).median
        ratio = f"{seconds / np.mean(ends):.2f}"
        goal = goal_cell(case.goal, seconds)
        yield row(case.name, range_cell(ends), milliseconds(seconds), ratio, goal)


def predicted_lines(table: Ranges) -> Iterator[str]:
    """Each case, predicted for each device."""
    yield "Nothing was measured. A goal is reached if the whole range is below it.\n"
    yield from table_head("case", *DEVICES, "goal")
    for case in CASES:
        ranges = table[case.name]
        cells = (range_cell(ranges[device]) for device in DEVICES)
        yield row(case.name, *cells, goal_cell(case.goal, ranges["H200"][1]))


def report(machine: Machine) -> Iterator[str]:
    table = stored()
    yield ABOUT.format(commit=table["commit"])
    if machine.cupy:
        yield from measured_lines(machine, table["cases"])
    else:
        yield from predicted_lines(table["cases"])


def arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    made.add_argument("--output", type=Path, help="also write the report here")
    made.add_argument("--predict", action="store_true", help="renew the predictions")
    return made.parse_args()


def main() -> None:
    options = arguments()
    if options.predict:
        write_predictions()
    publish(report(choose(repeats=REPEATS)), options.output)


if __name__ == "__main__":
    main()
