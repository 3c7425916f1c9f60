"""Least squares on the CPU: the batch is cut into chunks, which threads solve."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from .._device.arrays import Array
from .._device.launch import ceil_div, pieces
from .._device.threads import cores, one_blas_thread
from .._numerics.certificate import hidden_by_rounding
from .._numerics.scaling import Indices, Mask, ScaledSystem
from .._numerics.solution import BY_GRAM, BY_QR, ITERATION_LIMIT, NOT_FINITE, Solution
from ..reference._nnls_qr import solve_one
from .inputs import Problem
from .methods import COMPARED
from .nnls_gram_cpu import nnls_gram
from .nnls_householder_cpu import nnls_householder
from .part import Part
from .progress import progress_bar

CHUNK_BYTES = 2**27
"""Limit on the memory for the matrices of one chunk, unless it is a single system."""

CHUNK_ENTRIES = {"qr": 2**16, "gram": 2**24, "auto": 2**24}
"""Limit on the matrix entries of one chunk for each method: about a second of work.
Between chunks the progress bar moves and interrupts are handled."""

COMPARED_ENTRIES = 2**22
"""The same limit for the compared methods."""


def nnls(problem: Problem, method: str) -> Solution:
    """Solve every system of the batch; `method` is that of ``gpusolve.nnls``."""
    systems, (_, n) = math.prod(problem.batch), problem.shape
    solution = Solution.blank((systems,), n, problem.dtype)
    chunks = list(chunked(problem, CHUNK_ENTRIES.get(method, COMPARED_ENTRIES)))

    def run(chunk: slice) -> int:
        part = solve_chunk(problem, chunk, method)
        with np.errstate(over="ignore"):
            solution.put(chunk, part)
        return len(part.x)

    with one_blas_thread():
        if len(chunks) == 1:
            run(chunks[0])
        elif chunks:
            run_all(run, chunks, systems)
    fields: Iterator[Array] = (
        one.reshape(problem.batch + one.shape[1:]) for one in solution
    )
    return Solution(*fields)


def chunked(problem: Problem, entries: int) -> Iterator[slice]:
    """Slices of the flattened batch, the same number for each core.

    The matrices of a slice have at most `entries` entries and take at most
    `CHUNK_BYTES`, or the slice is a single system. In `entries`, a matrix that several
    systems share counts once for each of them.
    """
    systems, (m, n) = math.prod(problem.batch), problem.shape
    passive = min(problem.rows, n)
    numbers = passive * (n + passive) + m + 8 * n
    if problem.has_own_matrices:
        numbers += n * (m + n)
    limit = max(1, min(CHUNK_BYTES // (8 * numbers + 1), entries // (m * n + 1)))
    chunks_per_core = ceil_div(systems, limit * cores())
    size = max(1, ceil_div(systems, max(1, chunks_per_core * cores())))
    yield from pieces(systems, size)


def run_all(run: Callable[[slice], int], chunks: list[slice], systems: int) -> None:
    """Run the chunks on a thread pool, with a progress bar."""
    with progress_bar(systems) as bar, ThreadPoolExecutor(cores()) as pool:
        for done in pool.map(run, chunks):
            bar.update(done)


Solve = Callable[[Problem, Part], tuple[Solution, Mask]]
"""Solves the systems of a chunk. The mask tells which solutions are settled: no other
method could improve them."""


def solve_chunk(problem: Problem, chunk: slice, method: str) -> Solution:
    """Solve the systems of a chunk; systems with NaN or infinity get NaN."""
    part = Part.of(problem, chunk)
    if method in COMPARED:
        solution, _ = of_finite(functools.partial(by_compared, method), problem, part)
        solution.method[:] = COMPARED[method].number
        return solution
    if method == "qr" or problem.shape[1] == 0:
        return of_finite(by_qr, problem, part)[0]
    solution, settled = gram_method()(problem, part)
    if problem.maxiter is not None:
        settled |= solution.status == ITERATION_LIMIT
    if method == "auto" and not settled.all():
        repair(problem, part.take(~settled), solution, np.flatnonzero(~settled))
    return solution


@functools.cache
def gram_method() -> Solve:
    """The Gram method: compiled if Numba is installed, else by NumPy."""
    try:
        from .nnls_gram_numba import nnls_gram
    except ImportError:
        return functools.partial(of_finite, by_gram)
    return nnls_gram


def of_finite(solve: Solve, problem: Problem, part: Part) -> tuple[Solution, Mask]:
    """Solve the systems without NaN and infinity; the others get NaN."""
    part = part.weighted()
    finite = part.is_finite()
    if finite.all():
        return solve(problem, part)
    solution = Solution.blank((len(part.b),), problem.shape[1], part.b.dtype)
    solution.status[:] = NOT_FINITE
    solution.method[:] = BY_QR if solve is by_qr else BY_GRAM
    settled = np.ones(len(part.b), bool)
    if finite.any():
        found, settled[finite] = solve(problem, part.take(finite))
        solution.put(finite, found)
    return solution, settled


def by_gram(problem: Problem, part: Part) -> tuple[Solution, Mask]:
    """Solve all systems in lockstep by NumPy."""
    system = part.scaled(problem.dtype)
    start = starting_points(system, part.start)
    solution, settled = nnls_gram(
        system, start, tol=problem.cpu_tolerance, maxiter=problem.iteration_limit
    )
    return solution._replace(x=system.unscale(solution.x)), settled


@np.errstate(all="ignore")
def by_qr(problem: Problem, part: Part) -> tuple[Solution, Mask]:
    """Solve one system after another by the reference implementation."""
    system = part.scaled(problem.dtype)
    start = starting_points(system, part.start)
    limits = problem.cpu_tolerance, problem.iteration_limit
    solution = Solution.blank((len(part.b),), problem.shape[1], part.b.dtype)
    for k in range(len(part.b)):
        solution.put(k, solve_one(system.take(np.array(k)), start[k], *limits))
    return solution._replace(x=system.unscale(solution.x)), np.ones(len(part.b), bool)


def by_compared(method: str, problem: Problem, part: Part) -> tuple[Solution, Mask]:
    """Solve all systems by one of the compared methods."""
    from ..studies._compared.solve import solve_compared

    system = part.scaled(problem.dtype)
    start = starting_points(system, part.start)
    tol, maxiter = problem.cpu_tolerance, problem.maxiter
    solution = solve_compared(method, system, start, tol, maxiter)
    settled = np.ones(len(part.b), bool)
    return solution._replace(x=system.unscale(solution.x)), settled


def starting_points(system: ScaledSystem, given: Array | None) -> Array:
    """The given points within the bounds, unless rounding hides what they fit."""
    systems, n = system.b.shape[0], system.A.shape[-1]
    if given is None:
        return np.broadcast_to(system.rest, (systems, n)).copy()
    start = system.rescale(np.where(np.isfinite(given), given, 0))
    start = np.clip(start, system.lower, system.upper)
    return np.where(hidden_by_rounding(system, start)[:, None], system.rest, start)


def repair(problem: Problem, part: Part, solution: Solution, at: Indices) -> None:
    """Solve systems again by QR, starting at their solutions, which are at `at`."""
    system = part.weighted().scaled(problem.dtype)
    again = nnls_householder(
        system,
        starting_points(system, solution.x[at]),
        tol=problem.cpu_tolerance,
        maxiter=problem.iteration_limit,
    )
    solution.put(at, again._replace(x=system.unscale(again.x)))
    solution.repaired[at] = True
