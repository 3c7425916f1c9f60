"""Time batched NNLS on the paper's experiments, and SciPy on all cores.

    python benchmarks/nnls.py --output FILE          # on a GPU if there is one
    python benchmarks/nnls.py --cpu                  # the CPU path
    python benchmarks/nnls.py --systems 2 --sizes 40 # small systems

SciPy solves one system per call, in a joblib pool with a process for each core. It is
timed if joblib is installed. Results are Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from experiments import EXPERIMENTS
from harness import (
    Machine,
    choose,
    head,
    publish,
    row,
    table_head,
    timing_parser,
)
from scipy.optimize import nnls as scipy_nnls

import gpusolve
from gpusolve._device.threads import cores

SIZES: dict[str, list[int | None]] = {"cuda": [None], "cpu": [None], "emulator": [20]}
"""Rows and columns of a system; None is the paper's size."""


def scipy_seconds(machine: Machine, A: Any, b: Any) -> float | None:
    """Time SciPy on every system; None without joblib or without peers."""
    if not machine.peers or find_spec("joblib") is None:
        return None
    from joblib import Parallel, delayed

    matrices = np.broadcast_to(A, (len(b), *A.shape[-2:]))
    with Parallel(n_jobs=cores()) as pool:

        def solve_all() -> Any:
            systems = zip(matrices, b, strict=True)
            return pool(delayed(scipy_nnls)(*system) for system in systems)

        return machine.timing(solve_all, on_host=True).median


def rows(machine: Machine, systems: int, size: int | None) -> Iterator[str]:
    """The table's rows for one size."""
    for name, make in EXPERIMENTS.items():
        A, b = make(systems) if size is None else make(systems, size=size)
        scipy = scipy_seconds(machine, A, b)
        for dtype in (np.float64, np.float32):
            given = (machine.xp.asarray(array.astype(dtype)) for array in (A, b))
            first, ours, result = machine.timing(partial(gpusolve.nnls, *given))
            yield row(
                *(name, np.dtype(dtype), len(b), A.shape[-1]),
                *(f"{first:.3f}", f"{ours:.3f}"),
                *((f"{scipy:.3f}", f"{ours / scipy:.2f}") if scipy else ("", "")),
                f"{float(result.n_updates.mean()):.1f}",
                f"{float(result.n_downdates.mean()):.1f}",
                f"{float(result.kkt.max()) / np.finfo(dtype).eps:.1f}",
            )


ABOUT = """\
Times in seconds for all systems. Updates and downdates are the columns appended to and
removed from the factorisation, per system; kkt is the largest certificate.
"""


def report(machine: Machine, systems: int, sizes: list[int | None]) -> Iterator[str]:
    """The report, line by line as it is measured."""
    yield from head("NNLS", machine, "joblib")
    yield ABOUT
    yield from table_head(
        *("experiment", "dtype", "systems", "size", "first call s", "gpusolve s"),
        *("SciPy s", "ratio", "updates", "downdates", "max kkt / eps"),
        words=2,
    )
    for size in sizes:
        yield from rows(machine, systems, size)


def arguments() -> argparse.Namespace:
    sizes = "rows and columns of a system instead of the paper's"
    made = timing_parser(__doc__, sizes, repeats=5)
    made.add_argument("--systems", type=int, default=48)
    return made.parse_args()


def main() -> None:
    options = arguments()
    machine = choose(options.emulate, options.cpu, options.repeats, options.peers)
    sizes = options.sizes or SIZES[machine.name]
    publish(report(machine, options.systems, sizes), options.output)


if __name__ == "__main__":
    main()
