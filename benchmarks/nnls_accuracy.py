"""Measure the accuracy of NNLS on degenerate systems.

    python benchmarks/nnls_accuracy.py              # a million systems
    python benchmarks/nnls_accuracy.py --systems 50000 --method qr --cpu
    python benchmarks/nnls_accuracy.py --systems 10000 --emulate
    python benchmarks/nnls_accuracy.py --bounds     # with bounds and all other options
    python benchmarks/nnls_accuracy.py --qp         # quadratic programs, G singular

The excess is ``|b - A x|`` minus the reference's ``|b - A x|``, over ``|b|``. The
reference is the better x of SciPy and, up to 8 columns, of all supports. A system fails
if its excess is above the limit (1e-9, for float32 1e-4) plus an allowance for large x.
``tests/support/degenerate_systems.py`` makes and judges the systems.

"Lossy" is a stricter test: the limit is relative to the least residual, not to ``|b|``,
which a heavy row makes large. "Below the reference" counts systems whose excess is less
than minus the limit.

The excess of a quadratic program is relative to the terms of its objective. Its
reference is computed by ``tests/support/quadratic_programs.py``: the best x of all
sets of free variables.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from harness import (
    Machine,
    choose,
    count,
    head,
    parser,
    publish,
    row,
    table_head,
    to_host,
)
from numpy.typing import NDArray

import gpusolve
from gpusolve._device.launch import ceil_div
from gpusolve._device.threads import cores, one_blas_thread

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))
import bounded_systems
import quadratic_programs
from degenerate_systems import (
    BATCH,
    allowance,
    batch,
    excess,
    loss,
    reference,
    solve_by_scipy,
)

Array = NDArray[Any]

LIMITS = {"float64": 1e-9, "float32": 1e-4}
"""Largest excess of a system that does not fail."""

QP_LIMITS = {"float64": 1e-7, "float32": 1e-3}
"""The same for quadratic programs."""

SAVED = 1000
"""Largest number of failing systems that --save writes."""


class Solver(NamedTuple):
    """What is measured: the machine's name, the method and the dtype."""

    machine: str
    method: str
    dtype: str

    kind: str = "nnls"

    @property
    def limit(self) -> float:
        return QP_LIMITS[self.dtype] if self.kind == "qp" else LIMITS[self.dtype]

    def bounded_qp(self, G: Array, c: Array, bounds: Any, sum_to: Any) -> Any:
        """The result of `bounded_qp`, from arrays of the machine."""
        given = [G, c, *bounds, sum_to]
        if self.machine == "cuda":
            import cupy

            given = [None if value is None else cupy.asarray(value) for value in given]
        G, c, lower, upper, sum_to = given
        return gpusolve.bounded_qp(
            G, c, (lower, upper), sum_to=sum_to, method=self.method
        )

    def __call__(
        self, A: Array, b: Array, bounds: Any = (0.0, np.inf), **options: Any
    ) -> tuple[Array, Array, Array]:
        """x, kkt and status as NumPy arrays."""
        if self.machine == "cuda":
            import cupy

            A, b, *bounds = map(cupy.asarray, (A, b, *bounds))
            options = {
                name: None if value is None else cupy.asarray(value)
                for name, value in options.items()
            }
        result = gpusolve.lsq_linear(A, b, bounds, method=self.method, **options)
        return to_host(result.x), to_host(result.kkt), to_host(result.status)


class Failure(NamedTuple):
    """A system whose excess is above the limit plus the allowance."""

    family: str
    excess: float
    allowance: float
    status: int
    A: Array
    b: Array
    x: Array


@dataclass
class Tally:
    """Counts and largest values for the systems of one family."""

    systems: int = 0
    above: int = 0
    failed: int = 0
    silent: int = 0
    lossy: int = 0
    below: int = 0
    scipy_failed: int = 0
    statuses: Counter[int] = field(default_factory=Counter)

    worst: float = -np.inf
    worst_failed: float = -np.inf
    worst_kkt: float = -np.inf

    def add(self, other: Tally) -> None:
        for name in (entry.name for entry in fields(self)):
            mine, its = getattr(self, name), getattr(other, name)
            largest = name.startswith("worst")
            setattr(self, name, max(mine, its) if largest else mine + its)


def measure(index: int, seed: int, solver: Solver) -> tuple[str, Tally, list[Failure]]:
    """Solve and judge one batch."""
    if solver.kind != "nnls":
        measure_kind = measure_bounded if solver.kind == "bounds" else measure_programs
        return measure_kind(index, seed, solver)
    family, A, b = batch(index, seed)
    A, b = A.astype(solver.dtype), b.astype(solver.dtype)
    x, kkt, status = solver(A, b)
    with one_blas_thread():
        best = reference(A, b, solver.dtype)
        over, allowed = excess(A, b, x, best), allowance(b, best)
        scipy = excess(A, b, solve_by_scipy(A, b), best)
    failed = over > solver.limit + allowed
    tally = Tally(
        systems=len(b),
        above=int((over > solver.limit).sum()),
        failed=int(failed.sum()),
        silent=int((failed & (status == 0)).sum()),
        lossy=int((loss(A, b, x, best) > solver.limit).sum()),
        below=int((over < -solver.limit).sum()),
        scipy_failed=int((scipy > solver.limit + allowed).sum()),
        statuses=Counter(status.tolist()),
        worst=float(over.max()),
        worst_failed=float(over[failed].max(initial=-np.inf)),
        worst_kkt=float(kkt.max()),
    )
    failures = [
        Failure(family, over[k], allowed[k], int(status[k]), A[k], b[k], x[k])
        for k in np.flatnonzero(failed)
    ]
    return family, tally, failures


def measure_bounded(
    index: int, seed: int, solver: Solver
) -> tuple[str, Tally, list[Failure]]:
    """Solve and judge one batch of systems with bounds."""
    family, given = bounded_systems.random_systems(index, seed, largest=4)
    given = given.rounded(solver.dtype)
    A, b = given.A.astype(solver.dtype), given.b.astype(solver.dtype)
    x, kkt, status = solver(A, b, **given.options())
    with one_blas_thread():
        over = bounded_systems.excess(given, x.astype(np.float64))
        scipy = np.zeros(len(b))
        if given.sum_to is None and not given.l1.any():
            scipy = bounded_systems.excess(given, bounded_systems.solve_by_bvls(given))
    failed = over > solver.limit
    tally = Tally(
        systems=len(b),
        above=int(failed.sum()),
        failed=int(failed.sum()),
        silent=int((failed & (status == 0)).sum()),
        below=int((over < -solver.limit).sum()),
        scipy_failed=int((scipy > solver.limit).sum()),
        statuses=Counter(status.tolist()),
        worst=float(over.max()),
        worst_failed=float(over[failed].max(initial=-np.inf)),
        worst_kkt=float(kkt.max()),
    )
    failures = [
        Failure(family, over[k], 0.0, int(status[k]), A[k], b[k], x[k])
        for k in np.flatnonzero(failed)
    ]
    return family, tally, failures


def measure_programs(
    index: int, seed: int, solver: Solver
) -> tuple[str, Tally, list[Failure]]:
    """Solve and judge one batch of quadratic programs."""
    family, given = quadratic_programs.random_programs(index, seed, BATCH)
    given = given.astype(solver.dtype)
    result = given.solve(solver.bounded_qp)
    x, kkt, status = map(to_host, (result.x, result.kkt, result.status))
    given = given.astype(np.float64)
    with one_blas_thread():
        best = quadratic_programs.brute_force(given)
        over = quadratic_programs.excess(given, x.astype(np.float64), *best)
    wrong = quadratic_programs.wrong_sum(given, x) > 32 * np.finfo(x.dtype).eps
    failed = (over > solver.limit) | wrong
    tally = Tally(
        systems=len(x),
        above=int(failed.sum()),
        failed=int(failed.sum()),
        silent=int((failed & (status == 0)).sum()),
        statuses=Counter(status.tolist()),
        worst=float(over.max()),
        worst_failed=float(over[failed].max(initial=-np.inf)),
        worst_kkt=float(kkt[status == 0].max(initial=0)),
    )
    failures = [
        Failure(family, over[k], 0.0, int(status[k]), given.G[k], given.c[k], x[k])
        for k in np.flatnonzero(failed)
    ]
    return family, tally, failures


def table(tallies: dict[str, Tally]) -> Iterator[str]:
    """One line for each family, and the total."""
    yield from table_head(
        *("family", "systems", "worst excess", "above the limit", "failed"),
        *("failed with status 0", "worst failed", "lossy", "below the reference"),
        *("SciPy failed", "status: systems", "worst kkt"),
    )
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    for family, tally in [*tallies.items(), ("all", total)]:
        statuses = ", ".join(f"{k}: {n}" for k, n in sorted(tally.statuses.items()))
        yield row(
            *(family, tally.systems, f"{tally.worst:.1e}", tally.above, tally.failed),
            *(tally.silent, f"{tally.worst_failed:.1e}" if tally.failed else ""),
            *(tally.lossy, tally.below, tally.scipy_failed),
            *(statuses, f"{tally.worst_kkt:.1e}"),
        )


def save(failures: Iterable[Failure], path: Path) -> None:
    """Write the systems as ``A_0, b_0, x_0, A_1, ...``, and their figures as arrays."""
    kept = sorted(failures, key=lambda failure: -failure.excess)[:SAVED]
    arrays: dict[str, Any] = {
        name: np.array([getattr(failure, name) for failure in kept])
        for name in ("family", "excess", "allowance", "status")
    }
    for k, failure in enumerate(kept):
        arrays |= {f"{name}_{k}": getattr(failure, name) for name in "Abx"}
    np.savez_compressed(path, **arrays)


def tally_families(
    solver: Solver, batches: int, seed: int, jobs: int
) -> tuple[dict[str, Tally], list[Failure]]:
    """Measure all batches, each in one of `jobs` processes."""
    tallies: dict[str, Tally] = {}
    failures: list[Failure] = []
    work = partial(measure, seed=seed, solver=solver)
    # spawned: a process that is forked cannot use the GPU of its parent
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context) as pool:
        spread = map if jobs == 1 else pool.map
        for family, tally, failed in spread(work, range(batches)):
            tallies.setdefault(family, Tally()).add(tally)
            failures += failed
    return tallies, failures


def report(machine: Machine, options: argparse.Namespace) -> Iterator[str]:
    """The report in Markdown."""
    kind = "qp" if options.qp else "bounds" if options.bounds else "nnls"
    solver = Solver(machine.name, options.method, options.dtype, kind)
    yield from head("Accuracy of NNLS on degenerate systems", machine)
    begin = time.perf_counter()
    tallies, failures = tally_families(
        solver, ceil_div(options.systems, BATCH), options.seed, options.jobs
    )
    seconds = time.perf_counter() - begin
    yield (
        f"Method {solver.method}, {solver.dtype}, seed {options.seed}, limit "
        f"{solver.limit:.0e}, {seconds:.0f} s.\n"
    )
    yield from table(tallies)
    if options.save:
        save(failures, options.save)


def arguments() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--systems", type=count, default=1_000_000)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--method", choices=("auto", "qr", "gram"), default="auto")
    made.add_argument("--dtype", choices=tuple(LIMITS), default="float64")
    made.add_argument(
        "--bounds", action="store_true", help="systems with bounds and other options"
    )
    made.add_argument("--qp", action="store_true", help="quadratic programs")
    made.add_argument("--jobs", type=int, default=cores(), help="processes")
    made.add_argument("--save", type=Path, help="an .npz for the systems that fail")
    return made.parse_args()


def main() -> None:
    options = arguments()
    machine = choose(options.emulate, options.cpu)
    if options.method == "gram" and machine.name != "cpu":
        raise SystemExit("--method gram runs on the CPU only; add --cpu")
    publish(report(machine, options), options.output)


if __name__ == "__main__":
    main()
