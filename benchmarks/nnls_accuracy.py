"""How far from the least residual NNLS ends on degenerate systems.

    python benchmarks/nnls_accuracy.py                           # a million systems
    python benchmarks/nnls_accuracy.py --systems 50000 --method qr
    python benchmarks/nnls_accuracy.py --backend emulator --systems 10000

The excess is ``|b - A x|`` less that of the reference, over ``|b|``. The reference is
the better one of SciPy and, up to 8 columns, of all supports. A system fails where its
excess is above the limit (1e-9, in float32 1e-4) and the allowance for a large x. See
``tests/degenerate_systems.py``, which makes and judges the systems.

"Lossy" is a stricter test: the limit times the least residual, and not times ``|b|``,
which a heavy row makes large. "Below the reference" are systems whose excess is less
than minus the limit.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from timing import commit, processor, publish

import gpusolve
from gpusolve._nnls.cpu import cores

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from degenerate_systems import (
    BATCH,
    allowance,
    batch,
    by_scipy,
    excess,
    loss,
    reference,
)

Array = NDArray[Any]

LIMITS = {"float64": 1e-9, "float32": 1e-4}
"""The excess that is asked for."""
SAVED = 1000
"""Failing systems that are kept for study."""


class Solver(NamedTuple):
    """What is judged."""

    backend: str
    method: str
    dtype: str

    @property
    def limit(self) -> float:
        return LIMITS[self.dtype]

    def __call__(self, A: Array, b: Array) -> tuple[Array, Array, Array]:
        """x, kkt and status as NumPy arrays."""
        os.environ["GPUSOLVE_EMULATE"] = "1" if self.backend == "emulator" else "0"
        if self.backend != "cuda":
            result = gpusolve.nnls(A, b, method=self.method)
            return result.x, result.kkt, result.status
        import cupy

        result = gpusolve.nnls(cupy.asarray(A), cupy.asarray(b), method=self.method)
        return result.x.get(), result.kkt.get(), result.status.get()


class Failure(NamedTuple):
    """A system whose excess is above the limit and the allowance."""

    family: str
    excess: float
    allowance: float
    status: int
    A: Array
    b: Array
    x: Array


@dataclass
class Tally:
    """What happened to the systems of one family. Tallies add up."""

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
        for name in (one.name for one in fields(self)):
            mine, its = getattr(self, name), getattr(other, name)
            largest = name.startswith("worst")
            setattr(self, name, max(mine, its) if largest else mine + its)


def measure(index: int, seed: int, solver: Solver) -> tuple[str, Tally, list[Failure]]:
    """Solve and judge one batch."""
    family, A, b = batch(index, seed)
    A, b = A.astype(solver.dtype), b.astype(solver.dtype)
    x, kkt, status = solver(A, b)
    best = reference(A, b, solver.dtype)
    over, allowed = excess(A, b, x, best), allowance(b, best)
    scipy = excess(A, b, by_scipy(A, b), best)
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


def table(tallies: dict[str, Tally]) -> Iterator[str]:
    """One line for each family, and the total."""
    yield (
        "| family | systems | worst excess | above the limit | failed "
        "| of these status 0 | worst failed | lossy | below the reference "
        "| SciPy failed | status: systems | worst kkt |"
    )
    yield "|---|" + 11 * "---:|"
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    for family, tally in [*tallies.items(), ("all", total)]:
        statuses = ", ".join(f"{k}: {n}" for k, n in sorted(tally.statuses.items()))
        worst_failed = f"{tally.worst_failed:.1e}" if tally.failed else ""
        yield (
            f"| {family} | {tally.systems} | {tally.worst:.1e} | {tally.above} "
            f"| {tally.failed} | {tally.silent} | {worst_failed} | {tally.lossy} "
            f"| {tally.below} | {tally.scipy_failed} | {statuses} "
            f"| {tally.worst_kkt:.1e} |"
        )


def save(failures: Iterable[Failure], path: Path) -> None:
    """The systems as ``A_0, b_0, x_0, A_1, ...``; what is known of each as arrays."""
    kept = sorted(failures, key=lambda failure: -failure.excess)[:SAVED]
    arrays: dict[str, Any] = {
        name: np.array([getattr(failure, name) for failure in kept])
        for name in ("family", "excess", "allowance", "status")
    }
    for k, failure in enumerate(kept):
        arrays |= {f"{name}_{k}": getattr(failure, name) for name in "Abx"}
    np.savez_compressed(path, **arrays)


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--method", choices=("auto", "qr", "gram"), default="auto")
    parser.add_argument("--dtype", choices=tuple(LIMITS), default="float64")
    backends = ("numpy", "emulator", "cuda")
    parser.add_argument("--backend", choices=backends, default="numpy")
    parser.add_argument("--jobs", type=int, default=cores(), help="processes")
    parser.add_argument("--save", type=Path, help="an .npz for the systems that fail")
    parser.add_argument("--output", type=Path, help="a file for the report")
    options = parser.parse_args(arguments)
    if options.method == "gram" and options.backend != "numpy":
        parser.error("--method gram runs with --backend numpy only")
    return options


def report(options: argparse.Namespace) -> Iterator[str]:
    """Measure, and tell in Markdown."""
    solver = Solver(options.backend, options.method, options.dtype)
    begin = time.perf_counter()
    run = delayed(partial(measure, seed=options.seed, solver=solver))
    pool = Parallel(n_jobs=options.jobs, return_as="generator")
    tallies: dict[str, Tally] = {}
    failures: list[Failure] = []
    for family, tally, failed in pool(map(run, range(-(-options.systems // BATCH)))):
        tallies.setdefault(family, Tally()).add(tally)
        failures += failed
    yield (
        f"gpusolve {gpusolve.__version__} ({commit()}), backend {solver.backend}, "
        f"method {solver.method}, {solver.dtype}, seed {options.seed}, limit "
        f"{solver.limit:.0e}; {processor()}, {time.perf_counter() - begin:.0f} s"
    )
    yield ""
    yield from table(tallies)
    if options.save:
        save(failures, options.save)


def main(arguments: list[str] | None = None) -> None:
    options = options_of(arguments)
    publish(report(options), options.output)


if __name__ == "__main__":
    main()
