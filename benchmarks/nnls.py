"""Time batched NNLS and other libraries, and certify what they return.

    python benchmarks/nnls.py --output FILE              # on a GPU if there is one
    python benchmarks/nnls.py --cpu                      # the CPU path
    python benchmarks/nnls.py --cases "30 x 10" --systems 1e6
    python benchmarks/nnls.py --systems 2 --sizes 40     # small experiments

Other libraries are timed if they are installed, each in a process of its own with a
limit on its time. Results are Markdown.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from certificates import SAMPLE_ENTRIES, SAMPLE_SYSTEMS, Certifier
from harness import (
    Machine,
    choose,
    count,
    head,
    publish,
    row,
    table_head,
    three_digits,
    timing_parser,
    to_host,
)
from nnls_cases import CASES, Case, experiments
from nnls_peer_process import PATIENCE, Answer, PeerProcess
from nnls_peers import OPTAX_STEPS, distributions, installed
from numpy.typing import NDArray

import gpusolve
from gpusolve._device.objects import load
from gpusolve._device.threads import cores
from gpusolve.studies.experiments import PAPER_COUNTS

Array = NDArray[Any]

EMULATED_SIZE = 20
"""Rows and columns of a system on the emulator."""


# ---- measuring -----------------------------------------------------------------------


class Ours(NamedTuple):
    """What gpusolve made of a batch; the certifier judges all answers to it."""

    first_call: float
    answer: Answer
    result: Any
    certifier: Certifier


def ours(machine: Machine, A: Array, b: Array) -> Ours:
    given = (machine.xp.asarray(array) for array in (A, b))
    first_call, seconds, result = machine.timing(partial(gpusolve.nnls, *given))
    x = to_host(result.x)
    answer = Answer(seconds / len(x), x)
    return Ours(first_call, answer, result, Certifier(A, b, x))


# ---- the table -----------------------------------------------------------------------


def path(machine: Machine) -> str:
    """What solves the systems."""
    if machine.name == "cpu":
        return "compiled C++ on the CPU" if load() else "SciPy and NumPy on the CPU"
    return "CUDA" if machine.cupy else "the emulator"


def cell(answer: Answer, certifier: Certifier, systems: int) -> str:
    """Seconds and the certificate, or the reason why there are none."""
    solved = len(answer.x)
    if not solved:
        return answer.note
    part = f"{solved:,} solved" if solved < systems else ""
    details = filter(None, (f"{certifier.worst(answer.x):.0e}", part, answer.note))
    return f"{three_digits(systems * answer.seconds)} ({', '.join(details)})"


def ratio(answer: Answer, other: Answer | None, workers: int = 1) -> str:
    """The time of an answer over the other's time, shared by some workers."""
    if other is None or not len(other.x):
        return ""
    return f"{answer.seconds * workers / other.seconds:.2f}"


def line(
    machine: Machine, case: Case, systems: int, peers: Iterable[PeerProcess]
) -> str:
    """The table's line for a batch."""
    A, b = case.make(systems)
    double = ours(machine, A, b)
    single = ours(machine, A.astype(np.float32), b.astype(np.float32))
    theirs = {process.peer.name: process.solve(A, b) for process in peers}
    return row(
        *(case.name, f"{systems:,}", three_digits(double.first_call)),
        *(cell(timed.answer, timed.certifier, systems) for timed in (double, single)),
        f"{float(double.result.n_updates.mean()):.1f}",
        f"{float(double.result.n_downdates.mean()):.1f}",
        ratio(double.answer, theirs.get("SciPy"), cores()),
        ratio(double.answer, theirs.get("joblib")),
        *(cell(answer, double.certifier, systems) for answer in theirs.values()),
    )


PAPER = "; ".join(
    f"{counts.updates:.1f} and {counts.downdates:.1f} for {name}"
    for name, counts in PAPER_COUNTS.items()
)

ABOUT = f"""\
A cell contains seconds for all systems and, in brackets, the certificate: an upper
bound on the excess of `|b - A x|` relative to |b|. It is the largest of a sample: the
first systems, with {SAMPLE_ENTRIES:,} entries together, at most {SAMPLE_SYSTEMS:,}. The
witness is the residual of gpusolve's answer. Negative entries of x count as 0.

gpusolve is timed in float64 and in float32, other libraries in float64. "/ SciPy" is
gpusolve's time in float64 divided by the time of the loop over SciPy and multiplied by
the number of cores: below 1, gpusolve is faster than SciPy on all cores could be.
"/ joblib" is gpusolve's time divided by joblib's.

"Updates" and "downdates" are the columns that enter and leave the passive set, per
system. The paper has {PAPER}.
"""

ABOUT_PEERS = f"""\
The other libraries: SciPy in a loop on one core; joblib, a pool with SciPy on each
core; fnnlsEigen in a loop on one core; jaxnnls, an interior-point method; optax,
accelerated gradients with {OPTAX_STEPS} steps; cuML. Each has {{budget:g}} s for a
batch. If all systems take longer, it solves only the first systems, "solved" says how
many, and the time is scaled to all. It is stopped after {{limit:g}} s; so is
fnnlsEigen for a few systems of the second experiment.
"""


def report(
    machine: Machine, cases: list[Case], systems: list[int] | None, budget: float
) -> Iterator[str]:
    """The report, line by line as it is measured."""
    yield from head("NNLS", machine, *distributions())
    yield from table(machine, cases, systems, budget)


def table(
    machine: Machine, cases: list[Case], systems: list[int] | None, budget: float
) -> Iterator[str]:
    """The table, and what its cells contain."""
    libraries = installed() if machine.peers else []
    yield f"gpusolve's path: {path(machine)}.\n"
    yield ABOUT
    if libraries:
        yield ABOUT_PEERS.format(budget=budget, limit=PATIENCE * budget)
    yield from table_head(
        *("case", "systems", "first call s", "gpusolve float64", "gpusolve float32"),
        *("updates", "downdates", "/ SciPy", "/ joblib"),
        *(peer.name for peer in libraries),
    )
    with ExitStack() as stack:
        peers = [
            stack.enter_context(PeerProcess(library, budget)) for library in libraries
        ]
        for case in cases:
            more = case.on_gpu if machine.cupy else ()
            for number in systems or case.systems + more:
                yield line(machine, case, number, peers)


# ---- the command line ----------------------------------------------------------------


def chosen(pattern: str, sizes: list[int] | None) -> list[Case]:
    """The cases whose name matches; with `sizes`, the experiments of these sizes."""
    cases = [case for size in sizes for case in experiments(size)] if sizes else CASES
    return [case for case in cases if re.search(pattern, case.name)]


def arguments() -> argparse.Namespace:
    sizes = "rows and columns of a system: only the experiments, in these sizes"
    made = timing_parser(__doc__, sizes, repeats=5)
    made.add_argument("--systems", type=count, nargs="+", help="instead of each case's")
    made.add_argument("--cases", default="", metavar="REGEX", help="names of the cases")
    budget = "seconds for another library and a batch"
    made.add_argument("--budget", type=float, default=1.0, help=budget)
    return made.parse_args()


def main() -> None:
    options = arguments()
    machine = choose(options.emulate, options.cpu, options.repeats, options.peers)
    if machine.name == "emulator" and options.sizes is None:
        options.sizes = [EMULATED_SIZE]
    cases = chosen(options.cases, options.sizes)
    lines = report(machine, cases, options.systems, options.budget)
    publish(lines, options.output)


if __name__ == "__main__":
    main()
