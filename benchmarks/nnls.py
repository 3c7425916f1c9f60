"""Time batched NNLS and other libraries, and certify what they return.

    python benchmarks/nnls.py --output FILE.md           # also FILE.json and charts
    python benchmarks/nnls.py --cpu                      # the CPU path
    python benchmarks/nnls.py --cases "30 x 10" --systems 1e6
    python benchmarks/nnls.py --systems 2 --sizes 40     # small experiments
    python benchmarks/nnls.py --data FILE.json --output FILE.md    # without measuring

Other libraries are timed if they are installed, each in a process of its own with a
limit on its time. The page is Markdown.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import charts
import numpy as np
from certificates import SAMPLE_ENTRIES, SAMPLE_SYSTEMS, Certifier
from harness import (
    PLACES,
    WARNINGS,
    Machine,
    busy,
    choose,
    circumstances,
    command_line,
    count,
    facts,
    publish,
    row,
    table_head,
    three_digits,
    timing_parser,
    to_host,
)
from memory import peak_bytes
from nnls_cases import CASES, Case, experiments
from nnls_peer_process import PATIENCE, Answer, PeerProcess
from nnls_peers import OPTAX_STEPS, distributions, installed
from numpy.typing import NDArray
from records import Result, Run, batches, rounded

import gpusolve

Array = NDArray[Any]

RESULTS = Path(__file__).parent / "results"

EMULATED_SIZE = 20
"""Rows and columns of a system on the emulator."""

OURS = "gpusolve"
"""In float64, as the other libraries."""

SINGLE = "gpusolve float32"


# ---- measuring -----------------------------------------------------------------------


def solve(machine: Machine, A: Array, b: Array) -> Answer:
    """gpusolve's answer."""
    given = (machine.xp.asarray(array) for array in (A, b))
    timed = machine.timing(partial(gpusolve.nnls, *given))
    x = to_host(timed.result.x)
    repeats, systems = len(timed.seconds), len(x)
    return Answer(repeats, timed.median / systems, timed.spread / systems, x)


def measure(
    machine: Machine, case: Case, systems: int, peers: Iterable[PeerProcess]
) -> Iterator[Result]:
    """The results of all solvers for a batch."""
    A, b = case.make(systems)

    def result(peer: str, answer: Answer, judge: Certifier, used: int = 0) -> Result:
        found = Result(
            name=case.name,
            shape=case.shape,
            systems=systems,
            peer=peer,
            repeats=answer.repeats,
            median=systems * answer.seconds,
            spread=systems * answer.spread,
            solved=len(answer.x),
            error=judge.worst(answer.x) if len(answer.x) else None,
            bytes=used,
            note=answer.note,
        )
        return rounded(found)

    double = solve(machine, A, b)
    judge = Certifier(A, b, double.x)
    used = peak_bytes(case, systems) if machine.name == "cpu" else 0
    yield result(OURS, double, judge, used)
    A32, b32 = A.astype(np.float32), b.astype(np.float32)
    single = solve(machine, A32, b32)
    yield result(SINGLE, single, Certifier(A32, b32, single.x))
    for process in peers:
        yield result(process.peer.name, process.solve(A, b), judge)


def measure_all(
    machine: Machine, cases: list[Case], systems: list[int] | None, budget: float
) -> Iterator[Result]:
    """The results for all batches, as they are measured."""
    with ExitStack() as stack:
        libraries = installed() if machine.peers else []
        peers = [stack.enter_context(PeerProcess(one, budget)) for one in libraries]
        for case in cases:
            more = case.on_gpu if machine.cupy else ()
            for number in systems or case.systems + more:
                yield from measure(machine, case, number, peers)


# ---- the page ------------------------------------------------------------------------

ABOUT = f"""\
A cell has the median time for all systems in milliseconds and, in brackets, its
interquartile range in percent. gpusolve uses all cores, SciPy one core in a loop,
joblib a pool of processes with SciPy on each core. A ratio is the other library's time
divided by gpusolve's in float64: above 1, gpusolve is faster.

A library that needs more than its budget for a batch solves only the first systems, and
its time is scaled to all: `*`. After {PATIENCE} budgets it is stopped.
"""

NOTES = {
    "fnnlsEigen": "fnnlsEigen runs in a loop on one core.\n",
    "jaxnnls": "jaxnnls is an interior-point method.\n",
    "optax": f"optax takes accelerated gradients, {OPTAX_STEPS} steps.\n",
}

CERTIFICATE = f"""
A certificate is an upper bound on the excess of `|b - A x|` relative to |b|. It is the
largest of a sample: the first systems of a batch, with {SAMPLE_ENTRIES:,} entries
together, at most {SAMPLE_SYSTEMS:,}. The witness is the residual of gpusolve's answer.
Negative entries of x count as 0. The largest of all batches:
"""


def cell(one: Result) -> str:
    """Milliseconds and their spread, or the reason why there are none."""
    if not one.solved:
        return one.note
    scaled = "*" if one.solved < one.systems else ""
    spread = f"{one.spread / one.median:.0%}"
    return f"{three_digits(1000 * one.median)}{scaled} ({spread})"


def line(batch: list[Result], peers: list[str]) -> str:
    """The table's line for a batch."""
    by_peer = {one.peer: one for one in batch}
    ours = by_peer[OURS]
    others = [by_peer[name] for name in peers]
    ratios = (
        f"{other.median / ours.median:.1f}" if other.solved else "" for other in others
    )
    return row(
        *(ours.label, f"{ours.systems:,}", cell(ours), cell(by_peer[SINGLE])),
        *map(cell, others),
        *ratios,
    )


def worst(results: list[Result], peer: str) -> str:
    """The largest certificate of a library; empty if it solved nothing."""
    found = [one.error for one in results if one.peer == peer and one.error is not None]
    return f"{max(found):.0e}" if found else ""


def page(
    run: Run,
    place: str,
    peers: list[str],
    results: Iterable[Result],
    pictures: list[str],
) -> Iterator[str]:
    """The page, line by line as the results come."""
    yield f"# How fast is least squares for my shape, on {PLACES[place]}?\n"
    if warning := WARNINGS.get(place, ""):
        yield f"{warning}\n"
    yield from pictures
    yield from circumstances(run.command, run.machine)
    yield from busy(run.machine)
    yield ABOUT
    yield from (NOTES[name] for name in peers if name in NOTES)
    yield from table_head(
        *("shape", "systems", "gpusolve ms", "float32 ms"),
        *(f"{name} ms" for name in peers),
        *(f"{name} ratio" for name in peers),
    )
    batch: list[Result] = []
    for one in results:
        batch.append(one)
        if len(batch) == 2 + len(peers):
            yield line(batch, peers)
            run.results.extend(batch)
            batch = []
    yield CERTIFICATE
    yield from table_head("solver", "largest certificate")
    for name in (OURS, SINGLE, *peers):
        yield row(name, worst(run.results, name))


# ---- the command line ----------------------------------------------------------------


def chosen(pattern: str, sizes: list[int] | None) -> list[Case]:
    """The cases whose label matches; with `sizes`, the experiments of these sizes."""
    cases = [case for size in sizes for case in experiments(size)] if sizes else CASES
    return [case for case in cases if re.search(pattern, case.label)]


def arguments() -> argparse.Namespace:
    sizes = "rows and columns of a system: only the experiments, in these sizes"
    made = timing_parser(__doc__, sizes, repeats=5)
    made.add_argument("--systems", type=count, nargs="+", help="instead of each case's")
    made.add_argument("--cases", default="", metavar="REGEX", help="their labels")
    budget = "seconds for another library and a batch"
    made.add_argument("--budget", type=float, default=1.0, help=budget)
    made.add_argument("--data", type=Path, help="results of an earlier run, instead")
    return made.parse_args()


def stored(data: Path, pictures: list[str]) -> Iterator[str]:
    """The page of a run in a file."""
    run = Run.load(data)
    peers = [one.peer for one in batches(run.results)[0][2:]]
    place = "cuda" if "gpu" in run.machine else "cpu"
    return page(run._replace(results=[]), place, peers, run.results, pictures)


def measured(options: argparse.Namespace, pictures: list[str]) -> Iterator[str]:
    """The page of a run, as it is measured; at its end the data are written."""
    machine = choose(options.emulate, options.cpu, options.repeats, options.peers)
    if machine.name == "emulator" and options.sizes is None:
        options.sizes = [EMULATED_SIZE]
    cases = chosen(options.cases, options.sizes)
    results = measure_all(machine, cases, options.systems, options.budget)
    peers = [peer.name for peer in installed()] if options.peers else []
    run = Run(command_line(), facts(machine.cupy, *distributions()), [])
    yield from page(run, machine.name, peers, results, pictures)
    if options.output:
        run.save(options.output.with_suffix(".json"))


def main() -> None:
    options = arguments()
    pictures = charts.links(options.output, charts.NNLS) if options.output else []
    if options.data:
        publish(stored(options.data, pictures), options.output)
    else:
        publish(measured(options, pictures), options.output)
    if options.output:
        data = options.data or options.output.with_suffix(".json")
        charts.draw(Run.load(data), options.output, charts.NNLS)


if __name__ == "__main__":
    main()
