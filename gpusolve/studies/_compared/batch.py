"""A batch that a compared method solves: cut into chunks, which threads solve."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..._device.launch import ceil_div, pieces
from ..._device.progress import progress_bar
from ..._device.threads import cores, one_blas_thread
from ..._nnls.arguments import gather
from ..._nnls.problem import Option, Problem
from ..._numerics.arithmetic import Array, weighted
from ..._numerics.certificate import NOT_FINITE, Solution, starting_points
from ..._numerics.system import System, scale

CHUNK_BYTES = 2**27
"""Limit on the memory for the matrices of a chunk, unless it is a single system."""

Solve = Callable[[System, Array], Solution]
"""From scaled systems, all finite, and starting points to solutions in scaled x."""


def solve_in_chunks(
    problem: Problem,
    solve: Solve,
    number: int,
    entries: int,
) -> Solution:
    """Solve every system of the batch by the method `number`.

    The matrices of a chunk have at most `entries` entries, or it is a single system.
    Between chunks the progress bar moves and interrupts are handled.
    """
    threads = cores()
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
    fields = solution.arrays().values()
    return Solution(*[f.reshape(problem.batch + f.shape[1:]) for f in fields])


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
    count, (m, n) = chunk.stop - chunk.start, problem.shape

    def part(value: Option | None, core: int) -> Any:
        array = None if value is None else np.asarray(value, np.float64)
        if array is None or array.ndim < core:
            return array
        return gather(array, core, problem.batch, chunk)

    A, b = part(problem.A, 2), np.broadcast_to(part(problem.b, 1), (count, m))
    if problem.weights is not None:
        A, b = weighted(A, b, part(problem.weights, 1))
    options = [part(option, 1) for option in (*problem.bounds, problem.l1, problem.l2)]
    start = part(problem.start, 1)
    finite = np.isfinite(A).all(axis=(-2, -1)) & np.isfinite(b).all(axis=-1)
    for bound in options[:2]:
        finite &= ~np.isnan(bound).any(axis=-1)
    for penalty in options[2:]:
        finite &= np.isfinite(penalty).all(axis=-1)
    solution = Solution.blank((count,), n, np.dtype(np.float64))
    solution.status[:] = NOT_FINITE
    solution.method[:] = number
    if finite.any():
        cores_of = (A, 2), (b, 1), *[(option, 1) for option in options]
        A, b, lower, upper, l1, l2 = (
            array[finite] if array.ndim > core else array for array, core in cores_of
        )
        system = scale(A, b, l1, l2, problem.dtype, bounds=(lower, upper))
        # It must not depend on the other systems.
        has_ridge = l2.ndim > 0 or bool(l2 > 0)
        system = system._replace(has_ridge=has_ridge)
        guess = start if start is None or start.ndim == 1 else start[finite]
        found = solve(system, starting_points(system, guess))
        solution.put(finite, found._replace(x=system.unscale(found.x)))
    return solution
