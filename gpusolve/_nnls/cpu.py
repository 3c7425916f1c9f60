"""Least squares on a CPU: the solvers of ``cuda_src`` compiled for one thread.

Threads call the compiled object for all systems of the batch; each takes the next
systems from a counter. Without the object, ``fallback`` solves them.
"""

from __future__ import annotations

import ctypes
import functools
import math
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, Layout, address_of, empty_together
from .._device.interrupts import POLLS
from .._device.kernels import struct_in
from .._device.launch import CACHED
from .._device.objects import load
from .._device.progress import DELAY, progress_bar
from .._device.structs import Struct
from .._device.threads import cores
from .._numerics.solution import Solution
from .inputs import Problem
from .methods import COMPARED
from .systems import NNLS_SYSTEMS, Inputs, Systems, largest_penalties, written_layout

COLUMNS_PER_SYSTEM = 32
"""``A^T A`` is computed if A has at most this number of columns per system that shares
it. Else only a few of its elements are needed: gradients are computed from A."""

ENOUGH_FOR_THREADS = 2.0**22
"""The least work, in multiplications of an estimate, for which threads are started."""

MOST_AT_ONCE, TURNS = 64, 64
"""Limit on the systems that a thread takes at once, and how often threads take some:
all threads end at about the same time."""

STOP = 2**62
"""Value of the counter of systems at which threads stop; see ``cpu/cuda.h``."""

GRAM_RUN = struct_in("cpu/nnls_gram.cpp", "GramRun")

Used = tuple[Problem, Sequence[Array]]
"""The arrays that a call reads and writes; the last array has the counters."""

Call = Callable[..., int]
"""A function of the object; its result is not 0 if there was too little memory."""


def nnls(problem: Problem, method: str) -> Solution:
    """Solve every system of the batch; `method` is as for ``gpusolve.nnls``."""
    if method in COMPARED:
        from ..studies._compared.solve import solve_batch

        return solve_batch(problem, method)
    library = load()
    if library is None:
        from . import fallback

        return fallback.solve(problem, method)
    prepared = prepare(problem)
    arrays, written = empty_together(prepared.layout, prepared.size)
    arrays[-1][:] = 0
    if problem.start is not None:
        arrays[0][...] = problem.start
    if method != "auto":  # a null list: no system is left to QR
        written[LISTED] = 0
    systems = prepared.pack(problem, written)
    solve(prepared, (problem, arrays), systems, method, library)
    return Solution(*arrays[:LISTED])


def solve(
    prepared: Prepared,
    used: Used,
    systems: bytearray,
    method: str,
    library: ctypes.CDLL,
) -> None:
    """Solve by the Gram method, then what it leaves by QR; or by one method alone."""
    by_gram, by_qr = solvers(library, prepared.dtype)
    if method == "qr" or not prepared.work:
        # With a null list, QR solves all systems.
        ADDRESS.pack_into(systems, LISTED_OFFSET, 0)
        run(prepared, used, by_qr, systems)
        return
    run(prepared, used, by_gram, systems, prepared.run)
    counters = used[1][-1]
    if method == "auto" and counters[1]:
        counters[0] = 0
        # QR starts from the x of the Gram method.
        FLAG.pack_into(systems, WARM_OFFSET, True)
        run(prepared, used, by_qr, systems)


@functools.lru_cache(CACHED)
def solvers(library: ctypes.CDLL, dtype: np.dtype[Any]) -> tuple[Call, Call]:
    """The functions of the object for a dtype: the Gram method, and QR."""
    by_gram = getattr(library, f"gpusolve_nnls_gram_{dtype.name}")
    by_qr = getattr(library, f"gpusolve_nnls_qr_{dtype.name}")
    return by_gram, by_qr


class Prepared(NamedTuple):
    """A batch as the object reads it, without the addresses of some arrays.

    Attributes
    ----------
    systems : bytes
        ``NnlsSystems`` of ``nnls_systems.cuh``, without the addresses of A and b, and
        of what is written.
    run : bytes
        ``GramRun`` of ``cpu/nnls_gram.cpp``.
    layout : Layout
    size : int
        Of what is written; see `written_layout`.
    shape : tuple of int
        The number of systems, and the shape of each matrix.
    dtype : numpy.dtype
    work : float
        An estimate of the multiplications.
    A, b : array or None
        None: the arrays of the problem that is solved.
    kept : tuple
        Keeps the other arrays to whose addresses the bytes refer.
    """

    systems: bytes
    run: bytes
    layout: Layout
    size: int
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    work: float
    A: Array | None
    b: Array | None
    kept: tuple[Any, ...]

    @classmethod
    def of(cls, problem: Problem) -> Prepared:
        """Prepare a batch."""
        inputs, total = Inputs.of(by_columns(problem)), math.prod(problem.batch)
        layout, size = written_layout(problem.batch, problem.shape[1], problem.dtype)
        systems = Systems(problem, inputs, slice(0, total), None, None)
        argument = systems.argument(problem.cpu_tolerance, written=[0] * len(layout))
        run, (m, n) = gram_run(systems), problem.shape
        return cls(
            argument.packed(),
            run.packed(),
            layout,
            size,
            (total, m, n),
            problem.dtype,
            float(total) * m * n * min(m, n),
            inputs.A,
            inputs.b,
            (argument, run),
        )

    def pack(self, problem: Problem, written: Sequence[int]) -> bytearray:
        """``NnlsSystems`` with the addresses of all arrays."""
        systems = bytearray(self.systems)
        if self.A is None:
            ADDRESS.pack_into(systems, 0, address_of(problem.A))
            ADDRESS.pack_into(systems, B_OFFSET, address_of(problem.b))
        WRITTEN.pack_into(systems, WRITTEN_OFFSET, *written)
        return systems


def by_columns(problem: Problem) -> Problem:
    """The problem, with contiguous columns of an A that systems with weights share.

    Each system multiplies the rows of A by its weights: of contiguous columns, several
    rows at once.
    """
    A = problem.A
    if problem.weights is None or A.ndim > 2 or problem.shares_matrix:
        return problem
    return problem._replace(A=np.asfortranarray(A))


ADDRESS, FLAG = struct.Struct("P"), struct.Struct("i")
B_OFFSET, WRITTEN_OFFSET = NNLS_SYSTEMS.offset("b"), NNLS_SYSTEMS.offset("x")
LISTED_OFFSET, WARM_OFFSET = NNLS_SYSTEMS.offset("listed"), NNLS_SYSTEMS.offset("warm")
WRITTEN = struct.Struct(f"{len(NNLS_SYSTEMS.names) - NNLS_SYSTEMS.names.index('x')}P")
LISTED = -2
"""The index of `listed` in what is written."""

_prepared: dict[Any, Prepared] = {}
"""What depends on shapes and numbers only, for later calls; at most `CACHED`."""


def prepare(problem: Problem) -> Prepared:
    """Prepare a batch, or find what was prepared for a batch of the same kind.

    Batches are of one kind if they have the same shapes and the same numbers, A and b
    are contiguous, all options are numbers, and no array is needed to tell where a
    system begins.
    """
    A, b, (of_A, of_b) = problem.A, problem.b, (problem.A.flags, problem.b.flags)
    is_plain = of_A.c_contiguous and of_A.aligned and of_b.c_contiguous and of_b.aligned
    if not is_plain or problem.weights is not None:
        return Prepared.of(problem)
    starts = problem.start is not None
    key = A.shape, b.shape, A.dtype.char, starts, problem[2], problem[4:8], problem[9:]
    try:
        return _prepared[key]
    except TypeError:  # an option is an array
        return Prepared.of(problem)
    except KeyError:
        prepared = Prepared.of(problem)
    systems, _ = prepared.kept
    if systems["A_offset"] is not None or systems["b_offset"] is not None:
        return prepared
    if len(_prepared) >= CACHED:
        _prepared.clear()
    return _prepared.setdefault(key, prepared._replace(A=None, b=None, kept=()))


def gram_run(systems: Systems) -> Struct:
    """How the Gram method scales shared matrices, and whether it computes ``A^T A``."""
    problem, inputs = systems.problem, systems.inputs
    n, matrices = problem.shape[1], math.prod(problem.matrices)
    shares = not 1 < matrices == systems.total
    each = largest_penalties(inputs.options).of_each if shares else None
    root_l2 = None if each is None else each[3 * n : 4 * n]
    used_by = systems.total // max(1, matrices)
    at_once = max(1, min(MOST_AT_ONCE, systems.total // TURNS))
    return GRAM_RUN.of(None, root_l2, n <= COLUMNS_PER_SYSTEM * used_by, at_once)


def run(
    prepared: Prepared, used: Used, call: Call, *structs: bytes | bytearray
) -> None:
    """Call a function of the object: here, or on a thread for each core.

    An interrupt stops all threads after their current step. They keep the arrays until
    then: an interrupt while a thread starts, or a second interrupt, does not wait.
    """
    arguments = list(map(bytes, structs))
    if prepared.work < ENOUGH_FOR_THREADS:
        check_memory(prepared, [call(*arguments)])
        return
    threads = min(cores(), prepared.shape[0])
    with ThreadPoolExecutor(threads) as pool:
        counters, kept = used[1][-1], (prepared, used)
        task = functools.partial(call_keeping, kept, call, arguments)
        try:
            running = [pool.submit(task) for _ in range(threads)]
            show_progress(prepared.shape[0], counters, running)
        except BaseException:
            counters[0] = STOP
            raise
    check_memory(prepared, [thread.result() for thread in running])


def call_keeping(_kept: Any, call: Call, arguments: Sequence[bytes]) -> int:
    """Call a function that uses the memory of the first argument."""
    return call(*arguments)


def show_progress(systems: int, counters: Array, running: list[Future[int]]) -> None:
    """Wait for all threads, and show a progress bar if that takes long."""
    _, left = wait(running, DELAY)
    if not left:
        return
    with progress_bar(systems, "nnls", "system", delay=0.0) as bar:
        while left:
            _, left = wait(left, POLLS)
            bar.update(min(int(counters[0]), systems) - bar.n)


def check_memory(prepared: Prepared, returned: list[int]) -> None:
    """Raise MemoryError unless a thread had the memory to solve the systems."""
    if all(returned):
        _, m, n = prepared.shape
        raise MemoryError(f"systems of shape {m} x {n} need more memory than there is")
