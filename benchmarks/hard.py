"""What answers to hard problems of NNLS are worth, by gpusolve and other packages.

    python benchmarks/hard.py --cpu --output FILE.md
    python benchmarks/hard.py --parts degenerate --sizes 1e6

``tests/support/hard_problems.py`` makes the problems, ``degenerate_systems.py`` the
systems, and their reference: the better x of SciPy and, up to 8 columns, of all
supports. A package that is not installed is left out. Each runs in a process of its
own, which is stopped if it hangs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from certificates import Certifier
from harness import Benchmark, Machine, to_host
from nnls_peer_process import Answer, PeerProcess
from nnls_peers import OTHERS, PEERS
from numpy.typing import NDArray
from records import OURS, Part, Result

import gpusolve

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from degenerate_systems import BATCH, batch, excess, reference, solve_by_scipy
from hard_problems import HARD

Array = NDArray[Any]

PROBLEMS = (
    "duplicate columns",
    "nearly duplicate columns",
    "zero columns",
    "zero matrix",
    "rank deficient",
    "all-negative b",
    "tiny A",
    "huge A",
    "tiny b",
    "badly scaled columns",
    "ties, degenerate",
    "exactly solvable",
    "exactly solvable, sparse",
    "wide",
    "one row",
    "denormal column",
    "Hilbert 8",
    "Hilbert 14",
    "Kahan 10",
    "Kahan 40",
)

SOLVERS = [
    *(peer for peer in PEERS if peer.name in ("SciPy", "fnnlsEigen", "jaxnnls")),
    *OTHERS,
]

BUDGET = 0.5
"""Seconds for a package and a problem, before its patience is counted."""

ABOUT = """\
A cell is what an answer is worth: an upper bound on the excess of its `|b - A x|` over
the minimum, relative to |b|, from the best of the answers' witnesses. Negative entries
of x count as 0. The bound is also large where no answer gives a witness that proves
more. The note of gpusolve is the certificate that `gpusolve.nnls` returns with x, and
the status unless it is 0; the other packages return no bound.

fnnlsEigen, fnnls and jaxnnls solve the normal equations, which lose half of the digits.
clarabel is an interior-point method with tolerances of 1e-8. quadprog fails if `A^T A`
is not positive definite. Both are called by qpsolvers."""

ABOUT_DEGENERATE = f"""\
Degenerate systems by family, in batches of {BATCH}. The error is the largest excess:
`|b - A x|` minus the reference's `|b - A x|`, over `|b|`. The note of gpusolve counts
the systems that are not certified."""


# ---- 20 problems ---------------------------------------------------------------------


def worth(A: Array, b: Array, answers: list[Answer]) -> list[float | None]:
    """The certificate of each answer, with the best of the answers' witnesses."""
    solved = [len(one.x) > 0 and bool(np.isfinite(one.x).all()) for one in answers]
    kept = [one.x for one, is_solved in zip(answers, solved, strict=True) if is_solved]
    judges = [Certifier(A, b[None], x) for x in kept]
    return [
        min(judge.worst(one.x) for judge in judges) if is_solved else None
        for one, is_solved in zip(answers, solved, strict=True)
    ]


def measure_problem(name: str, peers: list[PeerProcess]) -> Iterator[Result]:
    A, b = HARD[name]
    result = gpusolve.nnls(A, b)
    status = f", status {int(result.status)}" * bool(result.status != 0)
    said = f"{float(result.kkt):.0e}{status}"
    answers = [Answer(1, 0.0, 0.0, result.x[None], said)]
    answers += [peer.solve(A, b[None]) for peer in peers]
    names = OURS, *(peer.peer.name for peer in peers)
    for peer, answer, error in zip(names, answers, worth(A, b, answers), strict=True):
        note = answer.note or "not finite" * (error is None)
        yield Result(name, A.shape, peer, error=error, note=note)


def problems(machine: Machine) -> Iterator[Result]:
    libraries = [one for one in SOLVERS if machine.peers and find_spec(one.module)]
    with ExitStack() as stack:
        peers = [stack.enter_context(PeerProcess(one, BUDGET)) for one in libraries]
        for name in PROBLEMS[:2] if machine.small else PROBLEMS:
            yield from measure_problem(name, peers)


# ---- degenerate systems --------------------------------------------------------------


def degenerate(machine: Machine, systems: int) -> Iterator[Result]:
    """The largest excess in each family, by gpusolve and by SciPy."""
    families: dict[str, list[tuple[float, float, int, int]]] = {}
    for index in range(-(-systems // BATCH)):
        family, A, b = batch(index)
        best = reference(A, b)
        found = gpusolve.nnls(*map(machine.xp.asarray, (A, b)))
        x, status = to_host(found.x), to_host(found.status)
        over = (
            float(excess(A, b, one, best).max()) for one in (x, solve_by_scipy(A, b))
        )
        families.setdefault(family, []).append(
            (*over, len(b), int((status != 0).sum()))
        )
    for family, batches in families.items():
        ours, scipy, counts, uncertified = zip(*batches, strict=True)
        known = partial(Result, family, (0, 0), systems=sum(counts))
        note = f"{sum(uncertified)} not certified"
        yield known(OURS, error=max(ours), note=note)
        yield known("SciPy", error=max(scipy))


def measure(
    part: Part, machine: Machine, options: argparse.Namespace
) -> Iterator[Result]:
    if part.name == "problems":
        return problems(machine)
    few = BATCH if machine.small else 1_000_000
    return degenerate(machine, (options.sizes or [few])[0])


NAMES = tuple(peer.name for peer in SOLVERS if find_spec(peer.module))

BENCHMARK = Benchmark(
    doc=__doc__ or "",
    title="Hard problems of NNLS",
    parts=[
        Part("problems", ABOUT, NAMES, "excess", timed=False),
        Part("degenerate", ABOUT_DEGENERATE, ("SciPy",), "excess", timed=False),
    ],
    measure=measure,
    packages=("fnnls", "fnnlsEigen", "jaxnnls", "qpsolvers", "clarabel", "quadprog"),
    repeats=0,
)

if __name__ == "__main__":
    BENCHMARK.main()
