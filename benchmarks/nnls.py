"""Time batched NNLS and other libraries, and certify what they return.

    python benchmarks/nnls.py --output FILE.md           # also FILE.json and charts
    python benchmarks/nnls.py --cpu                      # the CPU path
    python benchmarks/nnls.py --cases "30 x 10" --sizes 1e6
    python benchmarks/nnls.py --data FILE.json --output FILE.md    # without measuring

Other libraries are timed if they are installed, each in a process of its own with a
limit on its time.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import charts
import numpy as np
from certificates import SAMPLE_ENTRIES, SAMPLE_SYSTEMS, Certifier
from harness import Benchmark, Call, Machine, to_host
from memory import first_call
from nnls_cases import CASES, SMALL, Case
from nnls_peer_process import PATIENCE, Answer, PeerProcess
from nnls_peers import OPTAX_STEPS, distributions, installed
from records import OURS, Part, Result

import gpusolve

SINGLE = "float32"

BUDGET = 1.0
"""Seconds for another library and a batch."""

LEAST_SYSTEMS = 1000
"""Fewer systems need less memory than the process itself."""

ABOUT = f"""\
gpusolve uses all cores, SciPy one core in a loop, joblib a pool of processes with SciPy
on each core. fnnlsEigen runs in a loop on one core, jaxnnls is an interior-point
method, optax takes accelerated gradients, {OPTAX_STEPS} steps. A library
that needs more than {BUDGET:g} s for a batch solves only the first systems, and its
time is scaled to all: `*`. After {PATIENCE} budgets it is stopped.

A certificate is an upper bound on the excess of `|b - A x|` relative to |b|. It is the
largest of a sample: the first systems of a batch, with {SAMPLE_ENTRIES:,} entries
together, at most {SAMPLE_SYSTEMS:,}. The witness is the residual of gpusolve's answer.
Negative entries of x count as 0."""


def solve(machine: Machine, A: np.ndarray, b: np.ndarray) -> Answer:
    """gpusolve's answer."""
    given = (machine.xp.asarray(array) for array in (A, b))
    timed = machine.timing(partial(gpusolve.nnls, *given))
    x = to_host(timed.result.x)
    systems = len(x)
    return Answer(len(timed.seconds), timed.median / systems, timed.spread / systems, x)


def prepare(case: Case, systems: int) -> Call:
    """The call whose memory is measured, once the solver is loaded."""
    gpusolve.nnls([[1.0]], [1.0])
    return partial(gpusolve.nnls, *case.make(systems))


def peak_bytes(case: Case, systems: int) -> int:
    """The bytes that a batch needs beyond its arguments; 0 if they are few."""
    return first_call(prepare, case, systems).bytes if systems >= LEAST_SYSTEMS else 0


def measure_case(
    machine: Machine, case: Case, systems: int, peers: list[PeerProcess]
) -> Iterator[Result]:
    """The results of all solvers for a batch."""
    A, b = case.make(systems)

    def result(peer: str, answer: Answer, judge: Certifier, used: int = 0) -> Result:
        return Result(
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

    double = solve(machine, A, b)
    judge = Certifier(A, b, double.x)
    used = peak_bytes(case, systems) if machine.name == "cpu" else 0
    yield result(OURS, double, judge, used)
    A32, b32 = A.astype(np.float32), b.astype(np.float32)
    single = solve(machine, A32, b32)
    yield result(SINGLE, single, Certifier(A32, b32, single.x))
    for process in peers:
        yield result(process.peer.name, process.solve(A, b), judge)


def measure(
    part: Part, machine: Machine, options: argparse.Namespace
) -> Iterator[Result]:
    """The results for all batches, as they are measured."""
    cases = SMALL if machine.small else CASES
    with ExitStack() as stack:
        libraries = installed() if machine.peers else []
        peers = [stack.enter_context(PeerProcess(one, BUDGET)) for one in libraries]
        for case in cases:
            more = case.on_gpu if machine.cupy else ()
            if re.search(options.cases, case.label):
                for systems in options.sizes or case.systems + more:
                    yield from measure_case(machine, case, systems, peers)


BENCHMARK = Benchmark(
    doc=__doc__ or "",
    title="How fast is least squares for my shape,",
    parts=[
        Part(
            "shapes", ABOUT, (SINGLE, *(one.name for one in installed())), "certificate"
        )
    ],
    measure=measure,
    packages=tuple(distributions()),
    draw=partial(charts.draw, charts.NNLS),
)

if __name__ == "__main__":
    BENCHMARK.main()
