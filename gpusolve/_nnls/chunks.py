"""A batch that NumPy solves on a CPU: cut into chunks, which threads solve."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from .._device.arrays import Array
from .._device.launch import ceil_div, pieces
from .._device.progress import progress_bar
from .._device.threads import cores, one_blas_thread
from .._numerics.certificate import hidden_by_rounding
from .._numerics.scaling import ScaledSystem
from .._numerics.solution import NOT_FINITE, Solution
from .inputs import Problem
from .part import Part

CHUNK_BYTES = 2**27
"""Limit on the memory for the matrices of a chunk, unless it is a single system."""

Solve = Callable[[ScaledSystem, Array], Solution]
"""From scaled systems, all finite, and starting points to solutions in scaled x."""


def solve_in_chunks(
    problem: Problem,
    solve: Solve,
    number: int,
    entries: int,
    threads: int | None = None,
) -> Solution:
    """Solve every system of the batch by the method `number`.

    The matrices of a chunk have at most `entries` entries, or it is a single system.
    Between chunks the progress bar moves and interrupts are handled. By default there
    is a thread for each core; a loop in Python is faster on a single thread.
    """
    threads = threads or cores()
    systems, (_, n) = math.prod(problem.batch), problem.shape
    solution = Solution.blank((systems,), n, problem.dtype)
    chunks = list(chunked(problem, entries, threads))

    def run(chunk: slice) -> int:
        part = solve_chunk(problem, chunk, solve, number)
        with np.errstate(over="ignore"):
            solution.put(chunk, part)
        return len(part.x)

    with one_blas_thread():
        if len(chunks) == 1:
            run(chunks[0])
        elif chunks:
            run_chunks(run, chunks, systems, threads)
    fields: Iterator[Array] = (
        field.reshape(problem.batch + field.shape[1:]) for field in solution
    )
    return Solution(*fields)


def chunked(problem: Problem, entries: int, threads: int) -> Iterator[slice]:
    """Slices of the flattened batch, the same number for each thread.

    The matrices of a slice have at most `entries` entries and take at most
    `CHUNK_BYTES`, or the slice is a single system. In `entries`, a matrix that several
    systems share counts once for each of them.
    """
    systems, (m, n) = math.prod(problem.batch), problem.shape
    passive = min(problem.rows, n)
    numbers = passive * (n + passive) + m + 8 * n
    if not problem.shares_matrix:
        numbers += n * (m + n)
    # Both divisors are positive, also for empty matrices.
    limit = max(1, min(CHUNK_BYTES // (8 * numbers + 1), entries // (m * n + 1)))
    chunks_per_thread = ceil_div(systems, limit * threads)
    size = max(1, ceil_div(systems, max(1, chunks_per_thread * threads)))
    yield from pieces(systems, size)


def run_chunks(
    run: Callable[[slice], int], chunks: list[slice], systems: int, threads: int
) -> None:
    """Run the chunks on a thread pool, with a progress bar."""
    bars = progress_bar(systems, "nnls", "system")
    with bars as bar, ThreadPoolExecutor(threads) as pool:
        for done in pool.map(run, chunks):
            bar.update(done)


@np.errstate(all="ignore")
def solve_chunk(problem: Problem, chunk: slice, solve: Solve, number: int) -> Solution:
    """Solve the systems of a chunk; systems with NaN or infinity get NaN."""
    part = Part.of(problem, chunk).weighted()
    finite = part.is_finite()
    solution = Solution.blank((len(part.b),), problem.shape[1], part.b.dtype)
    solution.status[:] = NOT_FINITE
    solution.method[:] = number
    if finite.any():
        part = part if finite.all() else part.take(finite)
        system = part.scaled(problem.dtype)
        system = system._replace(rounded_matrix=problem.rounded_matrix)
        found = solve(system, starting_points(system, part.start))
        solution.put(finite, found._replace(x=system.unscale(found.x)))
    return solution


def starting_points(system: ScaledSystem, given: Array | None) -> Array:
    """The given points within the bounds, unless rounding hides what they fit.

    Variables whose columns are zero rest: no gradient moves them.
    """
    shape = (*system.b.shape[:-1], system.A.shape[-1])
    if given is None:
        return np.broadcast_to(system.rest, shape).copy()
    start = system.rescale(np.where(np.isfinite(given), given, 0))
    start = np.clip(start, system.lower, system.upper)
    start = np.where(system.norm == 0, system.rest, start)
    return np.where(hidden_by_rounding(system, start)[..., None], system.rest, start)
