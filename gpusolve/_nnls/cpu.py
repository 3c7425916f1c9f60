"""Least squares on the CPU: the batch is cut into chunks, which threads solve."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

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
from .inputs import Option, Problem
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
    """The systems of a chunk in float64; an array that all systems share stays shared.

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
    if math.prod(array.shape[: array.ndim - core]) == 1:
        return array.reshape(shape).astype(np.float64, copy=False)
    batch = batch or (1,)
    broadcast = np.broadcast_to(array, (*batch, *shape))
    if len(batch) == 1:
        part = broadcast[chunk]
    else:
        indices = np.unravel_index(np.arange(chunk.start, chunk.stop), batch)
        part = broadcast[indices]
    return part.astype(np.float64, copy=False)


class Part(NamedTuple):
    """The arrays of a chunk; those that all systems share have no batch axis."""

    A: Array
    b: Array
    lower: Array
    upper: Array
    l1: Array
    l2: Array
    sum_to: Array | None
    weights: Array | None
    start: Array | None

    @classmethod
    def of(cls, problem: Problem, chunk: slice) -> Part:
        """The arrays of a chunk of the batch."""

        def part(value: Option | None, core: int) -> Any:
            array = None if value is None else np.asarray(value, np.float64)
            if array is None or array.ndim < core:
                return array
            return gather(array, core, problem.batch, chunk)

        b = gather(problem.b, 1, problem.batch, chunk)
        return cls(
            A=gather(problem.A, 2, problem.batch, chunk),
            b=np.broadcast_to(b, (chunk.stop - chunk.start, problem.shape[0])),
            lower=part(problem.lower, 1),
            upper=part(problem.upper, 1),
            l1=part(problem.l1, 1),
            l2=part(problem.l2, 1),
            sum_to=part(problem.sum_to, 0),
            weights=part(problem.weights, 1),
            start=part(problem.start, 1),
        )

    def take(self, systems: NDArray[np.bool_]) -> Part:
        """Select systems; what all systems share stays shared."""
        return Part(
            *[
                one if one is None or one.ndim <= axes else one[systems]
                for one, axes in zip(self, CORE_AXES, strict=True)
            ]
        )

    def is_finite(self) -> NDArray[np.bool_]:
        """Mask of the systems without NaN, infinity and negative weights."""
        finite: NDArray[np.bool_] = np.isfinite(self.b).all(axis=-1)
        finite &= np.isfinite(self.A).all(axis=(-2, -1))
        for bound in (self.lower, self.upper):
            finite &= ~np.isnan(bound).any(axis=-1)
        for penalty in (self.l1, self.l2):
            finite &= np.isfinite(penalty).all(axis=-1)
        if self.sum_to is not None:
            finite &= np.isfinite(self.sum_to)
        if self.weights is not None:
            usable = np.isfinite(self.weights) & (self.weights >= 0)
            finite &= usable.all(axis=-1)
        return finite


CORE_AXES = (2, 1, 1, 1, 1, 1, 0, 1, 1)
"""The number of axes of each array of `Part` that belong to one system."""


def solve_chunk(problem: Problem, chunk: slice, method: str) -> Solution:
    """Solve the systems of a chunk; systems with NaN or infinity get NaN."""
    part = Part.of(problem, chunk)
    finite = part.is_finite()
    if finite.all():
        return solve_finite(problem, part, method)
    solution = Solution.blank((len(part.b),), problem.shape[1], part.b.dtype)
    solution.status[:] = NOT_FINITE
    solution.method[:] = BY_QR if method == "qr" else BY_GRAM
    if finite.any():
        solution.put(finite, solve_finite(problem, part.take(finite), method))
    return solution


def solve_finite(problem: Problem, part: Part, method: str) -> Solution:
    """Scale and solve systems whose entries are all finite."""
    tol = default_tolerance(part.A.dtype) if problem.tol is None else problem.tol
    maxiter = problem.iteration_limit
    system = scale(
        part.A,
        part.b,
        part.l1,
        part.l2,
        problem.dtype,
        bounds=(part.lower, part.upper),
        weights=part.weights,
        sum_to=part.sum_to,
    )
    start = starting_points(system, part.start)
    if method == "qr" or part.A.shape[-1] == 0:
        solution = by_qr(system, start, tol, maxiter)
    else:
        solution, settled = nnls_gram(system, start, tol=tol, maxiter=maxiter)
        if problem.maxiter is not None:
            settled |= solution.status == ITERATION_LIMIT
        if method == "auto" and not settled.all():
            repair(system, solution, np.flatnonzero(~settled), tol, maxiter)
    return solution._replace(x=system.unscale(solution.x))


def starting_points(system: ScaledSystem, given: Array | None) -> Array:
    """The given points within the bounds, unless rounding hides what they fit."""
    systems, n = system.b.shape[0], system.A.shape[-1]
    if given is None:
        return np.broadcast_to(system.rest, (systems, n)).copy()
    start = system.rescale(np.where(np.isfinite(given), given, 0))
    start = np.clip(start, system.lower, system.upper)
    return np.where(hidden_by_rounding(system, start)[:, None], system.rest, start)


def repair(
    system: ScaledSystem,
    solution: Solution,
    unsettled: NDArray[np.intp],
    tol: float,
    maxiter: int,
) -> None:
    """Solve the `unsettled` systems again by QR, starting at their solutions."""
    part, x = system.take(unsettled), solution.x[unsettled]
    start = np.where(hidden_by_rounding(part, x)[:, None], part.rest, x)
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
