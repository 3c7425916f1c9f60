"""What a single call of ``nnls`` costs on a CPU, next to SciPy's.

    python benchmarks/nnls_calls.py --output FILE

One small system in a call, as in a user's loop; the first call of a process; and
batches without the compiled object. Results are Markdown.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from harness import choose, head, publish, row, table_head, three_digits, timing_parser
from nnls_cases import fibres, uniform
from nnls_peers import solve_by_scipy
from numpy.typing import NDArray

import gpusolve

Array = NDArray[Any]
Solver = Callable[[Array, Array], Any]

SHAPES = (30, 10), (64, 16), (200, 50)
"""Of the single systems."""

CALLS = 200
"""Calls of which a repetition is the mean."""

BATCHES = {
    "300 of 40 x 15, own matrices": ((40, 15), 300, False),
    "1,000 of 40 x 15, one matrix": ((40, 15), 1000, True),
    "30 of 200 x 60, own matrices": ((200, 60), 30, False),
}
"""Shapes, numbers of systems, and whether they share A: without the object."""

FIRST = {
    "one system of 30 x 10": lambda: [
        batch[0] for batch in uniform(1, (30, 10), False)
    ],
    "1,000 systems of 64 x 362, one matrix": lambda: fibres(1000),
}
"""The first call of a process."""


def scipy_solver() -> Solver:
    """SciPy's function for one system, and a loop over it for a batch."""
    from scipy.optimize import nnls

    return lambda A, b: nnls(A, b) if b.ndim == 1 else solve_by_scipy(A, b)


SOLVERS: dict[str, Callable[[], Solver]] = {
    "gpusolve": lambda: gpusolve.nnls,
    "SciPy": scipy_solver,
}


def seconds(solve: Solver, A: Array, b: Array, calls: int = 1) -> float:
    """The mean time of some calls."""
    begin = time.perf_counter()
    for _ in range(calls):
        solve(A, b)
    return (time.perf_counter() - begin) / calls


def median(solver: str, A: Array, b: Array, calls: int, repeats: int) -> float:
    """The median of repetitions after a first repetition that is not counted."""
    solve = SOLVERS[solver]()
    seconds(solve, A, b)
    return statistics.median(seconds(solve, A, b, calls) for _ in range(repeats))


# ---- in processes of their own -------------------------------------------------------


def first_call(solver: str, name: str) -> float:
    """The time of the first call; called in a new process."""
    A, b = FIRST[name]()
    return seconds(SOLVERS[solver](), A, b)


def batch(solver: str, name: str, repeats: int) -> float:
    """The time for a batch."""
    shape, systems, is_shared = BATCHES[name]
    return median(solver, *uniform(systems, shape, is_shared), 1, repeats)


def time_in_process(function: str, *arguments: Any, **environment: str) -> float:
    """The result of a function of this file in a new process."""
    call = f"nnls_calls.{function}(*json.loads(input()))"
    found = subprocess.run(
        [sys.executable, "-c", f"import json, nnls_calls; print({call})"],
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
    )
    return float(found.stdout)


# ---- the report ----------------------------------------------------------------------


ONE_SYSTEM = """\
## One system in a call

Medians of {repeats} means of {calls} calls.
"""

FIRST_CALL = """
## The first call of a process

Medians of {repeats} processes, after the imports; SciPy in a loop.
"""

WITHOUT_OBJECT = """
## Without the compiled object

Medians of {repeats} calls with `GPUSOLVE_OBJECT=none`; SciPy in a loop, without a
certificate.
"""


def lines(
    names: dict[str, Any] | list[str], unit: float, measure: Callable[..., float]
) -> Iterator[str]:
    """A line for each name: both times, in a unit of seconds, and their ratio."""
    for name in names:
        times = [measure(solver, name) / unit for solver in SOLVERS]
        yield row(name, *map(three_digits, times), f"{times[0] / times[1]:.2f}")


def report(repeats: int) -> Iterator[str]:
    """The tables, line by line as they are measured."""
    shapes = {f"{m} x {n}": (m, n) for m, n in SHAPES}

    def single(solver: str, name: str) -> float:
        A, b = (batch[0] for batch in uniform(1, shapes[name], False))
        return median(solver, A, b, CALLS, repeats)

    def first(solver: str, name: str) -> float:
        return statistics.median(
            time_in_process("first_call", solver, name) for _ in range(repeats)
        )

    def time_without_object(solver: str, name: str) -> float:
        return time_in_process("batch", solver, name, repeats, GPUSOLVE_OBJECT="none")

    systems = "systems", "gpusolve ms", "SciPy ms", "ratio"
    yield ONE_SYSTEM.format(repeats=repeats, calls=CALLS)
    yield from table_head("system", "gpusolve us", "SciPy us", "ratio")
    yield from lines(shapes, 1e-6, single)
    yield FIRST_CALL.format(repeats=repeats)
    yield from table_head(*systems)
    yield from lines(FIRST, 1e-3, first)
    yield WITHOUT_OBJECT.format(repeats=repeats)
    yield from table_head(*systems)
    yield from lines(BATCHES, 1e-3, time_without_object)


def main() -> None:
    options = timing_parser(__doc__, "unused", repeats=5).parse_args()
    machine = choose(cpu=True, repeats=options.repeats)
    publish(
        [*head("Calls of NNLS", machine, "scipy"), *report(options.repeats)],
        options.output,
    )


if __name__ == "__main__":
    main()
