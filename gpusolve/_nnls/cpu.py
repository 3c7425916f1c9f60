"""Least squares on a CPU: the solvers of ``cuda_src`` compiled for one thread.

Threads call the compiled object for all systems of the batch; each takes the next
systems from a counter. Without the object, ``fallback`` solves them.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from .._device.arrays import empty_together
from .._device.objects import load
from .._device.structs import Struct, StructType
from .._device.threads import cores
from .._numerics.solution import Solution
from .inputs import Problem
from .methods import COMPARED
from .progress import DELAY, progress_bar
from .systems import Inputs, Systems, largest_penalties, written_layout

COLUMNS_PER_SYSTEM = 32
"""``A^T A`` is computed if A has at most this number of columns per system that shares
it. Else only a few of its elements are needed: gradients are computed from A."""

ENOUGH_FOR_THREADS = 2.0**22
"""The least work, in multiplications of an estimate, for which threads are started."""

POLLS = 0.1
"""Seconds between two updates of the progress bar."""

STOP = 2**62
"""Value of the counter of systems at which threads stop; see ``serial_team.cuh``."""

GRAM_RUN = StructType("GramRun", "const double* root_l2; int has_gram;")
"""See ``cpu/nnls_gram.cpp``."""

Call = Callable[..., int]
"""A function of the object; its result is not 0 if there was too little memory."""


def nnls(problem: Problem, method: str) -> Solution:
    """Solve every system of the batch; `method` is that of ``gpusolve.nnls``."""
    if method in COMPARED:
        from ..studies._compared.solve import solve_batch

        return solve_batch(problem, method)
    library = load()
    if library is None:
        from . import fallback

        return fallback.solve(problem, method)
    layout, size = written_layout(problem.batch, problem.shape[1], problem.dtype)
    (*fields, _, counters), written = empty_together(layout, size)
    counters[:] = 0
    solution = Solution(*fields)
    if problem.start is not None:
        solution.x[...] = problem.start
    every = slice(0, math.prod(problem.batch))
    systems = Systems(problem, Inputs.of(problem), every, solution, counters)
    solve(systems, method, library, written)
    return solution


def solve(
    systems: Systems, method: str, library: ctypes.CDLL, written: Sequence[int]
) -> None:
    """Solve by the Gram method, and by QR what it leaves; or by one of them."""
    problem = systems.problem
    by_gram, by_qr = solvers(library, problem.dtype)
    argument = systems.argument(problem.cpu_tolerance, written=written)
    if method != "auto":
        argument = argument.replace(listed=None)
    if method == "qr" or not problem.A.size:
        run(by_qr, systems, argument.replace(listed=None))
        return
    run(by_gram, systems, argument, gram_run(systems))
    if method == "auto" and systems.counters[1]:
        systems.counters[0] = 0
        run(by_qr, systems, argument.replace(warm=True))


@functools.cache
def solvers(library: ctypes.CDLL, dtype: np.dtype[Any]) -> tuple[Call, Call]:
    """The functions of the object for a dtype: the Gram method, and QR."""
    by_gram = getattr(library, f"gpusolve_nnls_gram_{dtype.name}")
    by_qr = getattr(library, f"gpusolve_nnls_qr_{dtype.name}")
    return by_gram, by_qr


def gram_run(systems: Systems) -> Struct:
    """How the Gram method scales shared matrices, and whether it computes ``A^T A``."""
    n, inputs = systems.problem.shape[1], systems.inputs
    matrices = math.prod(inputs.matrices)
    shares = not 1 < matrices == systems.total
    each = largest_penalties(inputs.options).of_each if shares else None
    root_l2 = None if each is None else each[3 * n : 4 * n]
    used_by = systems.total // max(1, matrices)
    return GRAM_RUN.of(None, root_l2, n <= COLUMNS_PER_SYSTEM * used_by)


def run(call: Call, systems: Systems, *structs: Struct) -> None:
    """Call a function of the object: here, or on a thread for each core.

    An interrupt stops all threads after the step that they are at.
    """
    packed = [one.packed() for one in structs]
    if work(systems) < ENOUGH_FOR_THREADS:
        check_memory(systems, [call(*packed)])
        return
    threads = min(cores(), systems.total)
    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(call, *packed) for _ in range(threads)]
        try:
            show_progress(systems, running)
        except BaseException:
            systems.counters[0] = STOP
            raise
    check_memory(systems, [one.result() for one in running])


def work(systems: Systems) -> float:
    """An estimate of the multiplications."""
    m, n = systems.problem.shape
    return float(systems.total) * m * n * min(m, n)


def show_progress(systems: Systems, running: list[Future[int]]) -> None:
    """Wait for all threads, and show a progress bar if that takes long."""
    _, left = wait(running, DELAY)
    if not left:
        return
    with progress_bar(systems.total) as bar:
        while left:
            _, left = wait(left, POLLS)
            bar.update(min(int(systems.counters[0]), systems.total) - bar.n)


def check_memory(systems: Systems, returned: list[int]) -> None:
    """Raise MemoryError unless a thread had the memory to solve the systems."""
    if all(returned):
        m, n = systems.problem.shape
        raise MemoryError(f"systems of shape {m} x {n} need more memory than there is")
