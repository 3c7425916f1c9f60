"""Time the package's calls on a GPU, next to predictions made without a GPU.

    python benchmarks/predicted_calls.py              # on a GPU: measured, predicted
    python benchmarks/predicted_calls.py --predict    # renew predicted/calls.json

Without a GPU the stored predictions are printed. Results are Markdown.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from call_cases import CASES, Case
from harness import (
    Machine,
    choose,
    commit,
    gpu_name,
    publish,
    row,
    table_head,
    three_digits,
)
from predictions import described

from gpusolve._emulator._costs import SECTOR_BYTES
from gpusolve._emulator._gpu import DEVICES
from gpusolve.emulator import Device, profile

TABLE = Path(__file__).parent / "predicted" / "calls.json"
COMMAND = "python benchmarks/predicted_calls.py --predict"
REPEATS = 5

Ranges = dict[str, dict[str, list[float]]]
"""Seconds, low and high, by the names of the case and of the device."""


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
leave out the products `A^T A` of cuBLAS, other kernels of CuPy, and the host's time,
which decides on calls of some microseconds. Goals are for a whole call on an H200.
"""

ABOUT_MEASURED = """\
The device of the table that is nearest to this GPU, {gpu}: {device}. The products of
cuBLAS are measured again by themselves. The ratio is the measured time without them
over the middle of the predicted range.
"""


def measured_lines(machine: Machine, table: Ranges) -> Iterator[str]:
    """Each case, measured on this GPU."""
    gpu = this_gpu(machine.cupy)
    device = nearest(gpu)
    yield ABOUT_MEASURED.format(gpu=gpu.name, device=device)
    yield from table_head(
        "case", f"predicted, {device}", "measured", "of it cuBLAS", "ratio", "goal"
    )
    for case in CASES:
        ends = table[case.name][device]
        call, left_out = (
            machine.timing(make(machine, case.size)).median if make else 0.0
            for make in (case.make, case.left_out)
        )
        yield row(
            case.name,
            range_cell(ends),
            milliseconds(call),
            milliseconds(left_out) if left_out else "",
            f"{(call - left_out) / np.mean(ends):.2f}",
            goal_cell(case.goal, call),
        )


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
