"""NNLS on the CPU: the batch is cut into chunks, which a pool of threads solves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array
from .._device.launch import ceil_div, pieces
from .._device.threads import cores, one_blas_thread
from ..reference._certificate import hidden_by_rounding
from ..reference._nnls_qr import (
    BY_GRAM,
    BY_QR,
    ITERATION_LIMIT,
    NOT_FINITE,
    Solution,
    default_tolerance,
    solve_one,
)
from ..reference._scaling import ScaledSystem, scale
from .inputs import Problem
from .nnls_gram_cpu import nnls_gram
from .nnls_householder_cpu import nnls_householder

CHUNK_BYTES = 2**27
"""Limit on the memory for the matrices of one chunk, unless it is a single system."""

CHUNK_ENTRIES = {"qr": 2**16, "gram": 2**24, "auto": 2**24}
"""Limit on the matrix entries of one chunk for each method: about a second of work.
Between chunks the progress bar moves and interrupts are handled."""

PROGRESS_DELAY = 2.0
"""Seconds before a progress bar appears."""


def nnls(problem: Problem, method: str) -> Solution:
    """Solve every system of the batch; `method` is that of ``gpusolve.nnls``."""
    systems, (_, n) = math.prod(problem.batch), problem.shape
    solution = Solution.blank((systems,), n, problem.dtype)
    chunks = list(chunked(problem, CHUNK_ENTRIES[method]))

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
    passive = n if problem.l2 > 0 else min(m, n)
    numbers = passive * (n + passive) + m + 8 * n
    if problem.A.ndim > 2:
        numbers += n * (m + n)
    limit = max(1, min(CHUNK_BYTES // (8 * numbers + 1), entries // (m * n + 1)))
    chunks_per_core = ceil_div(systems, limit * cores())
    size = max(1, ceil_div(systems, max(1, chunks_per_core * cores())))
    yield from pieces(systems, size)


def run_all(run: Callable[[slice], int], chunks: list[slice], systems: int) -> None:
    """Run the chunks on a thread pool, with a progress bar."""
    from tqdm import tqdm

    bar = tqdm(
        total=systems,
        desc="nnls",
        unit="system",
        delay=PROGRESS_DELAY,
        disable=None,
        leave=False,
    )
    with bar, ThreadPoolExecutor(cores()) as pool:
        for done in pool.map(run, chunks):
            bar.update(done)


def gather(array: Array, core: int, batch: tuple[int, ...], chunk: slice) -> Array:
    """The systems of a chunk in float64; a matrix that all systems share stays (m, n).

    Parameters
    ----------
    array : (..., *core axes) array
    core : int
        Number of trailing axes that belong to one system.
    batch : tuple of int
        The batch shape, to which the leading axes broadcast.
    chunk : slice
        A range of the flattened batch.
    """
    shape = array.shape[array.ndim - core :]
    if math.prod(array.shape[: array.ndim - core]) == 1 and core == 2:
        return array.reshape(shape).astype(np.float64, copy=False)
    batch = batch or (1,)
    broadcast = np.broadcast_to(array, (*batch, *shape))
    if len(batch) == 1:
        part = broadcast[chunk]
    else:
        indices = np.unravel_index(np.arange(chunk.start, chunk.stop), batch)
        part = broadcast[indices]
    return part.astype(np.float64, copy=False)


def solve_chunk(problem: Problem, chunk: slice, method: str) -> Solution:
    """Solve the systems of a chunk; systems with NaN or infinity get NaN."""
    n = problem.shape[1]
    A = gather(problem.A, 2, problem.batch, chunk)
    b = gather(problem.b, 1, problem.batch, chunk)
    start = np.zeros((len(b), n))
    if problem.start is not None:
        start = gather(problem.start, 1, problem.batch, chunk)
        start = np.where(np.isfinite(start) & (start > 0), start, 0)
    finite = np.isfinite(b).all(axis=-1) & np.isfinite(A).all(axis=(-2, -1))
    if finite.all():
        return solve_finite(problem, A, b, start, method)
    solution = Solution.blank((len(b),), n, b.dtype)
    solution.status[:] = NOT_FINITE
    solution.method[:] = BY_QR if method == "qr" else BY_GRAM
    if finite.any():
        part = solve_finite(
            problem, A if A.ndim == 2 else A[finite], b[finite], start[finite], method
        )
        solution.put(finite, part)
    return solution


def solve_finite(
    problem: Problem, A: Array, b: Array, start: Array, method: str
) -> Solution:
    """Scale and solve systems whose entries are all finite."""
    tol = default_tolerance(A.dtype) if problem.tol is None else problem.tol
    maxiter = problem.iteration_limit
    system = scale(A, b, problem.l1, problem.l2, problem.dtype)
    start = system.rescale(start)
    start = np.where(hidden_by_rounding(system, start)[:, None], 0, start)
    if method == "qr" or A.shape[-1] == 0:
        solution = by_qr(system, start, tol, maxiter)
    else:
        solution, settled = nnls_gram(system, start, tol=tol, maxiter=maxiter)
        if problem.maxiter is not None:
            settled |= solution.status == ITERATION_LIMIT
        if method == "auto" and not settled.all():
            repair(system, solution, np.flatnonzero(~settled), tol, maxiter)
    return solution._replace(x=system.unscale(solution.x))


def repair(
    system: ScaledSystem,
    solution: Solution,
    unsettled: NDArray[np.intp],
    tol: float,
    maxiter: int,
) -> None:
    """Solve the `unsettled` systems again by QR, starting at their solutions."""
    part, x = system.take(unsettled), solution.x[unsettled]
    start = np.where(hidden_by_rounding(part, x)[:, None], 0, x)
    again = nnls_householder(part, start, tol=tol, maxiter=maxiter)
    solution.put(unsettled, again)
    solution.repaired[unsettled] = True


def by_qr(system: ScaledSystem, start: Array, tol: float, maxiter: int) -> Solution:
    """Solve one system after another by the reference implementation."""
    n = system.A.shape[-1]
    solution = Solution.blank((len(system.b),), n, system.b.dtype)
    for k in range(len(system.b)):
        one = system.take(np.array(k))
        solution.put(k, solve_one(one, start[k], tol, maxiter))
    return solution
