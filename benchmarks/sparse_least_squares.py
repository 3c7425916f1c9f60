"""Solve least squares with a large sparse matrix, and measure the memory and the time.

    python benchmarks/sparse_least_squares.py --output FILE
    python benchmarks/sparse_least_squares.py --sizes 20000 100 5     # a small problem

Each solver has a process of its own, whose largest resident memory is what `getrusage`
reports. SciPy's `lsq_linear` solves a single system in a call; it gets the first few.
Results are Markdown.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
import scipy.sparse
from harness import (
    choose,
    head,
    publish,
    row,
    table_head,
    three_digits,
    timing_parser,
    wall_clock,
)
from numpy.typing import NDArray

import gpusolve

Floats = NDArray[np.float64]
Answer = dict[str, Any]

SIZES = 1_000_000, 2_000, 100
"""Rows, columns and systems."""

FILLED = 100
"""A row has an entry in each of its parts of this number of columns: 1 %."""

FEW = 2
"""The systems that SciPy solves."""

ABOUT = """\
A is {rows:,} x {columns:,} with {entries:,} entries, uniform between 0 and 1, one at a
random place in every {filled} columns of a row. {systems} right-hand sides are `A x`
with normal noise; half of the elements of x are 0, the others are half-normal. A and b
take {given:.2f} GB. "peak" is the largest resident memory of the process, A, b and
Python included; "above" the largest relative excess of `|b - A x|` over the
residual of the other solver.
"""


class Systems(NamedTuple):
    """A sparse matrix and right-hand sides."""

    A: Any
    b: Floats


def systems_of(rows: int, columns: int, systems: int) -> Systems:
    """Draw the systems; the first of them do not depend on their number."""
    rng = np.random.default_rng(20261125)
    starts = np.arange(0, columns, FILLED, dtype=np.int32)
    width = np.diff(starts, append=columns)
    places = np.empty((rows, len(starts)), np.int32)
    for row_of_places in np.array_split(places, max(1, rows // 10_000)):
        row_of_places[...] = starts + rng.integers(0, width, row_of_places.shape)
    entries = rng.random(places.size), places.reshape(-1)
    ends = np.arange(0, places.size + 1, len(starts), dtype=np.int32)
    A = scipy.sparse.csr_array((*entries, ends), shape=(rows, columns))
    b = np.empty((systems, rows))
    for right in b:
        right[...] = A @ np.maximum(rng.standard_normal(columns), 0)
        right += rng.standard_normal(rows)
    return Systems(A, b)


def by_gpusolve(given: Systems) -> Answer:
    result = gpusolve.nnls(given.A, given.b)
    certified = int((result.status == 0).sum())
    return {"rnorm": result.rnorm.tolist(), "certified": certified}


def by_scipy(given: Systems) -> Answer:
    """SciPy's norms of the residuals; it has no certificate."""
    norms = []
    for right in given.b:
        found = scipy.optimize.lsq_linear(
            given.A, right, (0, np.inf), lsq_solver="lsmr", lsmr_tol="auto"
        )
        norms.append(float(np.sqrt(2 * found.cost)))
    return {"rnorm": norms, "certified": ""}


SOLVERS: dict[str, Callable[[Systems], Answer]] = {
    "gpusolve.nnls": by_gpusolve,
    "scipy.optimize.lsq_linear, lsmr": by_scipy,
}


def peak() -> float:
    """The largest resident memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def measured(name: str, sizes: tuple[int, ...]) -> Answer:
    """Run a solver in this process."""
    rows, columns, count = sizes
    given = systems_of(rows, columns, count)
    before = peak()
    seconds, answer = wall_clock(lambda: SOLVERS[name](given))
    return {**answer, "seconds": seconds, "before": before, "peak": peak()}


def in_a_process(name: str, sizes: tuple[int, ...]) -> Answer:
    """Run a solver in a process of its own."""
    command = [sys.executable, __file__, "--solver", name]
    printed = subprocess.check_output(
        [*command, "--sizes", *map(str, sizes)], text=True
    )
    found: Answer = json.loads(printed)
    return found


def report(sizes: tuple[int, int, int], peers: bool) -> Iterator[str]:
    """The report, line by line as it is measured."""
    rows, columns, systems = sizes
    entries = rows * len(range(0, columns, FILLED))
    yield from head("Sparse least squares", choose(cpu=True))
    yield ABOUT.format(
        rows=rows,
        columns=columns,
        entries=entries,
        filled=FILLED,
        systems=systems,
        given=(12 * entries + 8 * rows * systems) / 1e9,
    )
    counts = dict.fromkeys(SOLVERS, systems)
    counts["scipy.optimize.lsq_linear, lsmr"] = min(FEW, systems)
    if not peers:
        counts = {"gpusolve.nnls": systems}
    found = {
        name: in_a_process(name, (rows, columns, count))
        for name, count in counts.items()
    }
    yield from table_head(
        *("solver", "systems", "seconds", "seconds / system", "GB before", "peak GB"),
        *("certified", "above"),
    )
    for name, answer in found.items():
        others = [other for key, other in found.items() if key != name]
        yield row(
            name,
            counts[name],
            three_digits(answer["seconds"]),
            three_digits(answer["seconds"] / counts[name]),
            f"{answer['before']:.2f}",
            f"{answer['peak']:.2f}",
            answer["certified"],
            *(f"{excess(answer, other):.1e}" for other in others),
        )


def excess(answer: Answer, other: Answer) -> float:
    """How far the residuals are above those of another solver, at most."""
    pairs = zip(answer["rnorm"], other["rnorm"], strict=False)
    return max(ours / theirs - 1 for ours, theirs in pairs)


def arguments() -> argparse.Namespace:
    made = timing_parser(__doc__, "rows, columns and systems")
    made.add_argument("--solver", choices=SOLVERS, help="print its answer as JSON")
    return made.parse_args()


def main() -> None:
    options = arguments()
    sizes = tuple(options.sizes or SIZES)
    if options.solver:
        print(json.dumps(measured(options.solver, sizes)))
    else:
        publish(report(sizes, options.peers), options.output)


if __name__ == "__main__":
    main()
