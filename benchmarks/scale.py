"""Measure what Dask costs per chunk, and how `nnls` scales over workers.

    python benchmarks/scale.py --output FILE        # processes on this machine
    python benchmarks/scale.py --scheduler ADDRESS  # a cluster that runs already

Systems have 64 rows and 16 columns and share one matrix, as the spectra of an image do.
Each worker has one thread.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from harness import Benchmark, Machine
from records import OURS, Part, Result

import gpusolve
from gpusolve._device.threads import cores, part_of_batch

SHAPE = ROWS, COLUMNS = 64, 16

ACTIVE = 0.3
"""The part of the variables that are positive."""

CHUNKS = 10, 100, 1000, 10_000
MOST_CHUNKS = 100

ABOUT_OVERHEAD = """\
CPU time of all processes, for one worker, and of one core without Dask. The note is the
overhead of a chunk in ms: CPU time, less the time of the solution."""

ABOUT_SCALING = """\
Wall time; each worker has as many systems. The note is the efficiency."""


def matrix() -> Any:
    """Spectra of materials: smooth, and not orthogonal."""
    band = np.linspace(0, 1, ROWS)[:, None]
    centre = np.linspace(0, 1, COLUMNS)
    return np.exp(-0.5 * ((band - centre) / 0.08) ** 2).astype(np.float32)


def spectra(A: Any, systems: int, seed: int = 0) -> Any:
    """Mixtures of a few materials each, with noise."""
    rng = np.random.default_rng(seed)
    x = rng.random((systems, COLUMNS)) * (rng.random((systems, COLUMNS)) < ACTIVE)
    noise = 0.01 * rng.standard_normal((systems, ROWS))
    return (x @ A.T + noise).astype(np.float32)


def lazy_spectra(A: Any, systems: int, chunk: int) -> Any:
    """The spectra as a dask array, which the workers make and keep."""
    import dask.array as da
    import distributed

    chunks = da.core.normalize_chunks((chunk,), (systems,))[0]

    def made(block: Any, block_info: Any = None) -> Any:
        (place,) = block_info[0]["chunk-location"]
        return spectra(A, len(block), place)

    empty = da.zeros(systems, chunks=(chunks,))
    found = empty.map_blocks(
        made, dtype=np.float32, new_axis=1, chunks=(chunks, (ROWS,))
    ).persist()
    distributed.wait(found)
    return found


def spent(call: Callable[[], object], client: Any, repeats: int) -> tuple[float, float]:
    """The least wall time of some calls after the first, and the least CPU time.

    CPU time is of all processes that take part.
    """

    def cpu() -> float:
        workers = client.run(time.process_time).values() if client else ()
        return time.process_time() + sum(workers)

    found = []
    for _ in range(1 + repeats):
        begin, before = time.perf_counter(), cpu()
        call()
        found.append((time.perf_counter() - begin, cpu() - before))
    wall, processes = map(min, zip(*found[1:], strict=True))
    return wall, processes


def solve_by_dask(A: Any, b: Any) -> None:
    """Solve all systems on the workers; a few sums come back."""
    import dask

    result = gpusolve.nnls(A, b)
    dask.compute(result.x.sum(), result.status.max(), result.kkt.max())


def solve_on_one_core(A: Any, b: Any) -> None:
    """The same without Dask."""
    with part_of_batch(cores=1):
        gpusolve.nnls(A, b)


@contextlib.contextmanager
def cluster(workers: int, scheduler: str | None) -> Iterator[Any]:
    """A client of a running cluster, or of processes on this machine."""
    import distributed

    with contextlib.ExitStack() as stack:
        if scheduler is None:
            made = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None
            )
            scheduler = stack.enter_context(made)
        client = stack.enter_context(distributed.Client(scheduler))
        client.wait_for_workers(workers)
        yield client


def overhead(systems: int, options: argparse.Namespace) -> Iterator[Result]:
    """What a chunk costs in addition to the solution of its systems."""
    A = matrix()
    few = spectra(A, systems)
    _, alone = spent(partial(solve_on_one_core, A, few), None, options.repeats)
    with cluster(1, options.scheduler) as client:
        for chunk in CHUNKS[1:2] if options.small else CHUNKS:
            count = min(systems, chunk * MOST_CHUNKS)
            b = lazy_spectra(A, count, chunk)
            _, cpu = spent(partial(solve_by_dask, A, b), client, options.repeats)
            solution = count / systems * alone
            extra = 1e3 * (cpu - solution) / b.numblocks[0]
            made = partial(Result, f"chunks of {chunk:,}", SHAPE, systems=count)
            yield made(OURS, median=cpu, solved=count, note=f"{extra:.1f}")
            yield made("one core", median=solution, solved=count)


def scaling(systems: int, options: argparse.Namespace) -> Iterator[Result]:
    """Weak scaling: each worker has as many systems."""
    A, first = matrix(), 0.0
    for workers in (one for one in (1, 2, 4, 8, 16) if one <= cores()):
        count = workers * systems
        with cluster(workers, options.scheduler) as client:
            b = lazy_spectra(A, count, max(1, systems // 8))
            wall, _ = spent(partial(solve_by_dask, A, b), client, options.repeats)
        first = first or wall
        name, note = f"{workers} workers", f"{first / wall:.0%}"
        yield Result(name, SHAPE, OURS, count, median=wall, solved=count, note=note)


def measure(
    part: Part, machine: Machine, options: argparse.Namespace
) -> Iterator[Result]:
    systems = (options.sizes or [200 if machine.small else 50_000])[0]
    return (overhead if part.name == "overhead" else scaling)(systems, options)


BENCHMARK = Benchmark(
    doc=__doc__ or "",
    title="Dask workers",
    parts=[
        Part("overhead", ABOUT_OVERHEAD, ("one core",), "ms per chunk"),
        Part("scaling", ABOUT_SCALING, (), "efficiency"),
    ],
    measure=measure,
    packages=("dask", "distributed"),
    repeats=2,
)


def main() -> None:
    made = BENCHMARK.parser()
    made.add_argument("--scheduler", help="the address of a cluster that runs already")
    BENCHMARK.main(made.parse_args())


if __name__ == "__main__":
    main()
