"""gpusolve and its neighbours in one run: jaxnnls, quadprog, CVXPY, scikit-learn.

    python benchmarks/neighbours.py --output FILE
    python benchmarks/neighbours.py --systems 4 --sizes 30 20 2 --most 5    # small

Each part is the table of a benchmark of its own, with fewer systems. Everything runs on
one core of the CPU. A package that is not installed is left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import constraints
import nmf
import nnls
from harness import Machine, choose, head, publish, timing_parser

from gpusolve._device.threads import one_blas_thread

CASES = "30 x 10|200 x 50"
"""The cases of `nnls.py`, as a regular expression."""

PACKAGES = "jaxnnls", "jax", *constraints.PACKAGES, "scikit-learn"

SYSTEMS, SIZES, MOST = 2000, (1000, 300, 8), 200

BUDGET = 5.0
"""Seconds for another library that solves non-negative least squares."""


def report(
    machine: Machine, systems: int, sizes: tuple[int, int, int], most: int
) -> Iterator[str]:
    """The report, line by line as it is measured."""
    yield from head("Neighbouring packages", machine, *PACKAGES)
    yield "All solvers run on one core.\n"
    yield "## Non-negative least squares: jaxnnls\n"
    yield from nnls.table(machine, nnls.chosen(CASES, None), [systems], BUDGET)
    yield "\n## Linear constraints: quadprog and CVXPY\n"
    yield from constraints.table(machine, constraints.cases_of([systems]))
    yield "\n## Factorisation: scikit-learn\n"
    yield from nmf.table(machine, sizes, most)


def arguments() -> argparse.Namespace:
    made = timing_parser(__doc__, "rows, columns and components of X", repeats=3)
    made.add_argument("--systems", type=int, default=SYSTEMS, help="of each case")
    made.add_argument("--most", type=int, default=MOST, help="sweeps of X")
    return made.parse_args()


def main() -> None:
    options = arguments()
    machine = choose(cpu=True, repeats=options.repeats, peers=options.peers)
    sizes = tuple(options.sizes or SIZES)
    with one_blas_thread():
        lines = report(machine, options.systems, sizes, options.most)
        publish(lines, options.output)


if __name__ == "__main__":
    constraints.one_core()
    main()
