"""Count what a solve costs a GPU by the published solver, next to the package's own.

    python benchmarks/published_solver.py --output FILE

One system of each experiment of Luo & Duraiswami, "Efficient Parallel Non-Negative
Least Squares on Multi-Core Architectures": by ``"mgs"``, their solver as they wrote it,
by ``"qr"`` and by ``"gram"``. The emulator counts, which takes ten minutes. Nothing is
timed. Results are Markdown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple
from unittest import mock

from harness import count, parser, publish, row, table_head, three_digits
from nnls_cases import PAPER_SIZES

import gpusolve
from gpusolve.emulator import profile
from gpusolve.studies.experiments import EXPERIMENTS

METHODS = ("mgs", "qr", "gram")


class Counts(NamedTuple):
    """What a solve of one system costs.

    Attributes
    ----------
    updates, downdates : int
        Columns that entered and left.
    barriers : int
        Of all blocks.
    requests, wavefronts : int
        Accesses to shared memory, counted for each warp that executes an access, and
        passes over its banks.
    sectors : int
        Of 32 bytes, of all requests to global memory.
    seconds : float
        Predicted for an H200.
    """

    updates: int
    downdates: int
    barriers: int
    requests: int
    wavefronts: int
    sectors: int
    seconds: float


def counted(experiment: str, method: str, size: int) -> Counts:
    """The counts of one certified system of an experiment."""
    A, b = EXPERIMENTS[experiment](1, size=size)
    with mock.patch.dict(os.environ, GPUSOLVE_EMULATE="1"), profile() as report:
        result = gpusolve.nnls(A, b, method=method)
    if result.status.any():
        raise RuntimeError(f"{method} must solve {experiment}, got {result.status}")
    names = "barriers", "shared_requests", "shared_wavefronts", "global_sectors"
    sums = (sum(getattr(kernel, name) for kernel in report.kernels) for name in names)
    changes = int(result.n_updates[0]), int(result.n_downdates[0])
    return Counts(*changes, *sums, report.predict("H200").seconds)


ABOUT = """\
# The published solver, counted

`python benchmarks/published_solver.py`

One system of each experiment, in float64, by `method="mgs"`: Luo & Duraiswami's solver
as they wrote it, with a block of 512 threads. Next to it are `"qr"`, which updates a QR
factorisation with fewer barriers, and `"gram"`, the default. All three solutions are
certified. The emulator counts; nothing is timed.

- barriers: of all blocks. "For each change": over updates and downdates together.
- requests: accesses to shared memory, counted for each warp that executes an access;
  wavefronts: passes over its banks.
- sectors: 32 bytes of global memory each, of all requests.
- **predicted: not a measurement**, but `report.predict("H200")` from the counts of this
  one system. A GPU solves as many systems at the same time as it has room for blocks.
"""

EXPLAINED = """
Where the barriers come from: each scalar product is a `reduce512`, which has 5, and an
update of l passive columns has 2 l + 2 of them. `"qr"` computes all products of an
update between two barriers. `"mgs"` reads Q once for an update and `"qr"` reads it
twice. Both read A once for each gradient, which is most of the sectors.

A block of `"qr"` has 64 threads, and waits longer for the loads of one system than the
512 threads of `"mgs"`. It is made for many systems, 8 times as many at the same time.
"""


def table(experiment: str, size: int) -> Iterator[str]:
    yield f"\n## {experiment}, {size} x {size}\n"
    yield from table_head(
        "method",
        "updates",
        "downdates",
        "barriers",
        "for each change",
        "requests",
        "wavefronts",
        "sectors",
        "predicted, ms",
    )
    for method in METHODS:
        found = counted(experiment, method, size)
        changes = found.updates + found.downdates
        yield row(
            method,
            found.updates,
            found.downdates,
            f"{found.barriers:,}",
            f"{found.barriers / changes:.1f}",
            f"{found.requests:,}",
            f"{found.wavefronts:,}",
            f"{found.sectors:,}",
            three_digits(1e3 * found.seconds),
        )


def report(size: int | None) -> Iterator[str]:
    yield ABOUT.rstrip()
    for experiment in EXPERIMENTS:
        yield from table(experiment, size or PAPER_SIZES[experiment])
    yield EXPLAINED.rstrip()


def main() -> None:
    made = parser(__doc__)
    made.add_argument(
        "--size", type=count, help="rows and columns; the paper's if none"
    )
    options = made.parse_args()
    publish(report(options.size), options.output)


if __name__ == "__main__":
    main()
