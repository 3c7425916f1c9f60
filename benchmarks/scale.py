"""Measure what Dask costs per chunk, and how `nnls` scales over workers.

    python benchmarks/scale.py --output FILE        # processes on this machine
    python benchmarks/scale.py --scheduler ADDRESS  # a cluster that runs already
    python benchmarks/scale.py --paper              # the limits on paper alone

Systems have 64 rows and 16 columns and share one matrix, as the spectra of an image do.
Each worker has one thread. Results are Markdown.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from harness import (
    choose,
    count,
    head,
    parser,
    power,
    publish,
    row,
    table_head,
    three_digits,
)

import gpusolve
from gpusolve._device.threads import cores, part_of_batch

ROWS, COLUMNS = 64, 16

ACTIVE = 0.3
"""The part of the variables that are positive."""

# ---- on paper ------------------------------------------------------------------------

GPU_RATE = 8e7
"""Systems per second that an H200 is predicted to solve in float32, from the counts of
the emulator (`report.predict("H200")`, 8192 systems with their own matrices); not
measured."""

SCHEDULER_RATE = 1000.0
"""Tasks per second of one scheduler: Dask's best practices say a millisecond each."""

TASKS_PER_CHUNK = 3
"""Reading, solving and storing a chunk."""

LINKS = {"SSD": 6e9, "network, 100 Gbit/s": 12.5e9, "PCIe 5, 16 lanes": 55e9}
"""Bytes per second that one GPU receives, if nothing else uses the link."""


class Traffic(NamedTuple):
    """Bytes of one system.

    Attributes
    ----------
    received : int
        b, and A if the system has its own, in float32.
    returned : int
        x, rnorm, kkt and status: the fields of a result that are usually stored.
    """

    received: int
    returned: int


def traffic(shared: bool, rows: int = ROWS, columns: int = COLUMNS) -> Traffic:
    """The bytes of one system in float32."""
    matrix = 0 if shared else rows * columns
    return Traffic(4 * (rows + matrix), 4 * (columns + 3))


def paper_seconds(systems: float, shared: bool, gpus: int) -> dict[str, float]:
    """Seconds that each GPU computes, and that its share takes on each link.

    Bytes to and from a GPU pass at the same time, so the larger number counts.
    """
    share, bytes_per_system = systems / gpus, max(traffic(shared))
    links = {name: share * bytes_per_system / rate for name, rate in LINKS.items()}
    return {"solve (predicted)": share / GPU_RATE, **links}


def least_chunk(gpus: int, shared: bool) -> float:
    """The least systems of a chunk with which one scheduler keeps all GPUs busy.

    The slowest link decides how fast a GPU gets through its chunks.
    """
    seconds = gpus * TASKS_PER_CHUNK / SCHEDULER_RATE
    slowest = max(paper_seconds(1, shared, 1).values())
    return seconds / slowest


def paper() -> Iterator[str]:
    """The limits on paper."""
    yield "Bytes of a system of 64 x 16 in float32:\n"
    yield from table_head("A", "received", "returned")
    for shared, name in ((True, "shared"), (False, "own")):
        yield row(name, *traffic(shared))
    yield "\nSeconds, if each GPU has the links for itself:\n"
    links = list(paper_seconds(1, True, 1))
    yield from table_head("systems", "A", "GPUs", *links, words=2)
    for systems, gpus in ((1e6, 1), (1e9, 1), (1e9, 8), (1e12, 1000)):
        for shared in (True, False):
            seconds = paper_seconds(systems, shared, gpus)
            cells = [three_digits(value) for value in seconds.values()]
            kind = "shared" if shared else "own"
            yield row(power(int(systems)), kind, gpus, *cells)
    yield "\nThe least chunk with which one scheduler keeps all GPUs busy:\n"
    yield from table_head("GPUs", "A", "systems", "bytes received, GB", words=2)
    for gpus in (8, 100, 1000):
        for shared in (True, False):
            systems = least_chunk(gpus, shared)
            size = systems * traffic(shared).received / 1e9
            kind = "shared" if shared else "own"
            yield row(gpus, kind, three_digits(systems), three_digits(size))


# ---- measured ------------------------------------------------------------------------


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


class Spent(NamedTuple):
    """Wall time of a call, and CPU time of all processes that took part."""

    wall: float
    cpu: float


def spent(call: Callable[[], object], client: Any, repeats: int) -> Spent:
    """The least times of some calls; the first call, which may compile, is left out."""

    def cpu() -> float:
        workers = client.run(time.process_time).values() if client else ()
        return time.process_time() + sum(workers)

    found = []
    for _ in range(1 + repeats):
        begin, before = time.perf_counter(), cpu()
        call()
        found.append(Spent(time.perf_counter() - begin, cpu() - before))
    return Spent(*map(min, zip(*found[1:], strict=True)))


def solve_by_dask(A: Any, b: Any) -> None:
    """Solve all systems on the workers; a few sums come back."""
    import dask

    result = gpusolve.nnls(A, b)
    dask.compute(result.x.sum(), result.status.max(), result.kkt.max())


def solve_on_one_core(A: Any, b: Any) -> None:
    """The same without Dask."""
    with part_of_batch(cores=1):
        result = gpusolve.nnls(A, b)
    result.x.sum(), result.status.max(), result.kkt.max()


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


def overhead(options: argparse.Namespace) -> Iterator[str]:
    """What a chunk costs in addition to the solution of its systems."""
    A = matrix()
    few = spectra(A, options.systems)
    alone = spent(lambda: solve_on_one_core(A, few), None, options.repeats)
    rate = three_digits(options.systems / alone.cpu)
    yield "\n## Overhead per chunk, one worker\n"
    yield f"One core without Dask solves {rate} systems per second of CPU time."
    yield "The overhead is CPU time of all processes, less the time of the solution.\n"
    yield from table_head(
        "systems of a chunk", "chunks", "wall, s", "CPU, s", "overhead per chunk, ms"
    )
    with cluster(1, options.scheduler) as client:
        for chunk in options.chunks:
            systems = min(options.systems, chunk * options.most_chunks)
            b = lazy_spectra(A, systems, chunk)
            taken = spent(partial(solve_by_dask, A, b), client, options.repeats)
            chunks = b.numblocks[0]
            extra = (taken.cpu - systems / options.systems * alone.cpu) / chunks
            yield row(chunk, chunks, *map(three_digits, taken), f"{1000 * extra:.1f}")


def scaling(options: argparse.Namespace) -> Iterator[str]:
    """Weak scaling: each worker has as many systems."""
    A, chunk, first = matrix(), max(1, options.systems // 8), None
    yield f"\n## Weak scaling: {options.systems:,} systems for each worker\n"
    yield from table_head("workers", "systems", "s", "systems / s", "efficiency")
    for workers in options.workers:
        systems = workers * options.systems
        with cluster(workers, options.scheduler) as client:
            b = lazy_spectra(A, systems, chunk)
            seconds = spent(partial(solve_by_dask, A, b), client, options.repeats).wall
        first = first or seconds
        cells = three_digits(seconds), three_digits(systems / seconds)
        yield row(workers, f"{systems:,}", *cells, f"{first / seconds:.0%}")


def report(options: argparse.Namespace) -> Iterator[str]:
    """The report, line by line as it is measured."""
    machine = choose(cpu=True)
    yield from head("Dask workers", machine, "dask", "distributed")
    yield "Times are the least of some calls after the first. Other programs ran: the"
    yield f"load average was {os.getloadavg()[0]:.1f} before.\n"
    yield from overhead(options)
    yield from scaling(options)
    yield "\n## On paper\n"
    yield from paper()


def arguments() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--paper", action="store_true", help="measure nothing")
    made.add_argument("--scheduler", help="the address of a cluster that runs already")
    made.add_argument("--systems", type=count, default=50_000, help="of each worker")
    made.add_argument("--repeats", type=int, default=2, help="after the first call")
    chunks = [10, 100, 1000, 10_000]
    made.add_argument("--chunks", type=count, nargs="+", default=chunks)
    made.add_argument("--most-chunks", type=count, default=100)
    usual = [workers for workers in (1, 2, 4, 8) if workers <= cores()]
    made.add_argument("--workers", type=int, nargs="+", default=usual)
    return made.parse_args()


def main() -> None:
    options = arguments()
    publish(paper() if options.paper else report(options), options.output)


if __name__ == "__main__":
    main()
