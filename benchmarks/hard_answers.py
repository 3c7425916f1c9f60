"""What packages return for 20 hard problems of NNLS, and what the answers are worth.

    python benchmarks/hard_answers.py --output FILE.md

``tests/support/hard_problems.py`` makes the problems. A package that is not installed
is left out. Each runs in a process of its own, which is stopped if it hangs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from certificates import Certifier
from harness import choose, head, parser, publish, row, table_head
from nnls_peer_process import Answer, PeerProcess
from nnls_peers import OTHERS, PEERS
from numpy.typing import NDArray

import gpusolve

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))
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

PACKAGES = "fnnls", "fnnlsEigen", "jaxnnls", "qpsolvers", "clarabel", "quadprog"

GOOD = 1e-9
"""An answer is good if its certificate is at most this."""

BUDGET = 0.5
"""Seconds for a package and a problem, before its patience is counted."""


# ---- what the answers are worth ------------------------------------------------------


def ours(A: Array, b: Array) -> tuple[Answer, str]:
    """gpusolve's answer, and what it says about it."""
    result = gpusolve.nnls(A, b)
    said = f"{float(result.kkt):.0e}" + (
        "" if result.status == 0 else f", status {int(result.status)}"
    )
    return Answer(1, 0.0, 0.0, result.x[None]), said


def worth(A: Array, b: Array, answers: list[Answer]) -> list[float]:
    """The certificate of each answer, with the best of the answers' witnesses."""
    solved = [one.x for one in answers if len(one.x) and np.isfinite(one.x).all()]
    judges = [Certifier(A, b[None], x) for x in solved]
    return [
        min((judge.worst(one.x) for judge in judges), default=np.nan)
        if len(one.x) and np.isfinite(one.x).all()
        else np.nan
        for one in answers
    ]


def cell(answer: Answer, kkt: float) -> str:
    """The certificate of an answer, or why the solver did not answer."""
    if not len(answer.x):
        return answer.note.partition(":")[0]
    if not np.isfinite(answer.x).all():
        return "not finite"
    return f"{kkt:.0e}" if kkt <= GOOD else f"**{kkt:.0e}**"


# ---- the page ------------------------------------------------------------------------

ABOUT = f"""\
A cell is what an answer is worth: an upper bound on the excess of its `|b - A x|` over
the minimum, relative to |b|, from the best of the answers' witnesses. Negative entries
of x count as 0. Bounds above {GOOD:.0e} are bold. The bound is also large where no
answer gives a witness that proves more. "gpusolve says" is the certificate that
`gpusolve.nnls` returns with x, and the status unless it is 0; the other packages return
no bound. The last line counts the bounds of at most {GOOD:.0e}.

fnnlsEigen, fnnls and jaxnnls solve the normal equations, which lose half of the digits.
clarabel is an interior-point method with tolerances of 1e-8. quadprog fails if `A^T A`
is not positive definite. Both are called by qpsolvers.
"""


def report(problems: tuple[str, ...] = PROBLEMS) -> Iterator[str]:
    """The page, line by line."""
    yield from head("Hard problems of NNLS", choose(cpu=True), *PACKAGES)
    yield ABOUT
    solvers = [peer for peer in SOLVERS if find_spec(peer.module)]
    names = ["gpusolve", *(peer.name for peer in solvers)]
    yield from table_head("problem", "gpusolve says", *names)
    good = np.zeros(len(names), int)
    with ExitStack() as stack:
        peers = [stack.enter_context(PeerProcess(one, BUDGET)) for one in solvers]
        for name in problems:
            A, b = HARD[name]
            own, said = ours(A, b)
            answers = [own, *(peer.solve(A, b[None]) for peer in peers)]
            found = worth(A, b, answers)
            good += np.array(found) <= GOOD
            m, n = A.shape
            cells = map(cell, answers, found)
            yield row(f"{name}, {m} x {n}", said, *cells)
    yield row(f"of {len(problems)}", "", *good)


def main() -> None:
    options = parser(__doc__).parse_args()
    publish(report(), options.output)


if __name__ == "__main__":
    main()
