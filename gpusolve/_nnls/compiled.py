"""Calls of the compiled object: the solvers of ``cuda_src``, compiled for one thread.

Threads call a function of the object for all systems of the batch; each takes the next
systems from a counter.
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
from .._device.progress import DELAY, progress_bar
from .._device.structs import Struct
from .._device.threads import cores
from .._numerics.certificate import Solution
from .launch_arguments import (
    NNLS_SYSTEMS,
    LaunchArguments,
    largest_penalties,
    written_layout,
)
from .nnls_constrained_kernel import CONSTRAINT_ROWS, constraint_rows
from .problem import Problem

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

Call = Callable[..., int]
"""A function of the object; its result is not 0 if there was too little memory."""

ADDRESS, DUALS, FLAG = struct.Struct("P"), struct.Struct("PP"), struct.Struct("i")

ROWS = "C_ub", "d_ub", "C_eq", "d_eq"
"""The arrays of linear constraints in ``ConstraintRows``."""

B_OFFSET, WRITTEN_OFFSET = NNLS_SYSTEMS.offset("b"), NNLS_SYSTEMS.offset("x")
ROW_OFFSETS = tuple([CONSTRAINT_ROWS.offset(name) for name in ROWS])
DUALS_OFFSET, WARM_OFFSET = (
    CONSTRAINT_ROWS.offset("dual_ub"),
    NNLS_SYSTEMS.offset("warm"),
)

FIELDS, LISTED = 10, -2
"""The fields of a solution without multipliers, and the index of `listed` in what is
written: the solution, `listed`, and the counters."""

WRITTEN = struct.Struct(f"{FIELDS - LISTED}P")


@functools.lru_cache(CACHED)
def solvers(library: ctypes.CDLL, dtype: np.dtype[Any]) -> tuple[Call, Call, Call]:
    """The functions of the object for a dtype: Gram, QR, and constraints."""
    by_gram = getattr(library, f"gpusolve_nnls_gram_{dtype.name}")
    by_qr = getattr(library, f"gpusolve_nnls_qr_{dtype.name}")
    constrained = getattr(library, f"gpusolve_constrained_{dtype.name}")
    return by_gram, by_qr, constrained


class CompiledCall(NamedTuple):
    """A batch as the object reads it, without the addresses of some arrays.

    Attributes
    ----------
    systems : bytes
        ``NnlsSystems`` of ``nnls_systems.cuh``.
    more : bytes
        ``GramRun`` of ``cpu/nnls_gram.cpp``, or ``ConstraintRows`` of
        ``constrained_system.cuh``.
    has_rows : bool
        Whether it is ``ConstraintRows``.
    layout : Layout
    size : int
        Of what is written; see `written_layout`.
    shape : tuple of int
        The number of systems, and the shape of each matrix.
    dtype : numpy.dtype
    work : float
        An estimate of the multiplications.
    arrays : tuple of array or None
        A, b, and the arrays of `ROWS`. Their addresses are written for each call.
    kept : tuple
        Keeps the other arrays to whose addresses the bytes refer.
    """

    systems: bytes
    more: bytes
    has_rows: bool
    layout: Layout
    size: int
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    work: float
    arrays: tuple[Array | None, ...]
    kept: tuple[Any, ...]

    @classmethod
    def of(cls, problem: Problem, method: str, has_rows: bool = False) -> CompiledCall:
        """Prepare a batch, for the solver of constraints if it `has_rows`."""
        systems = LaunchArguments.of(problem if has_rows else by_columns(problem))
        (m, n), lengths = problem.shape, problem.dual_lengths
        layout, size = written_layout(problem.batch, n, problem.dtype, lengths)
        argument = systems.argument(
            problem.cpu_tolerance, written=(0,) * (FIELDS - LISTED)
        )
        at_once = max(1, min(MOST_AT_ONCE, systems.total // TURNS))
        work, rows = float(systems.total) * m * n * min(m, n), (None,) * len(ROWS)
        if has_rows:
            work = float(systems.total) * n * n * (m + n + sum(lengths))
            same_l2 = systems.options.same_l2
            more = constraint_rows(problem, method, same_l2, at_once)
            rows = tuple([more[name] for name in ROWS])
        else:
            more = gram_run(systems, at_once)
        return cls(
            argument.packed(),
            more.packed(),
            has_rows,
            layout,
            size,
            (systems.total, m, n),
            problem.dtype,
            work,
            (systems.A, systems.b, *rows),
            (argument, more),
        )

    def for_others(self) -> CompiledCall | None:
        """The call for other arrays; None if it refers to arrays of its own."""
        argument, more = self.kept
        names = "A_offset", "b_offset", "options", "root_weight"
        others = [argument[name] for name in names]
        if self.has_rows:
            others += [more[f"{name}_offset"] for name in ROWS]
        else:
            others.append(more["root_l2"])
        if any(array is not None for array in others):
            return None
        return self._replace(arrays=(), kept=())

    def packed(
        self, arrays: tuple[Array | None, ...], written: Sequence[int]
    ) -> tuple[bytes, bytes]:
        """The structs with the addresses of all arrays."""
        systems, more = bytearray(self.systems), bytearray(self.more)
        ADDRESS.pack_into(systems, 0, address_of(arrays[0]))
        ADDRESS.pack_into(systems, B_OFFSET, address_of(arrays[1]))
        WRITTEN.pack_into(systems, WRITTEN_OFFSET, *written[:FIELDS], *written[LISTED:])
        if self.has_rows:
            for offset, array in zip(ROW_OFFSETS, arrays[2:], strict=True):
                if array is not None:
                    ADDRESS.pack_into(more, offset, address_of(array))
            if duals := written[FIELDS:LISTED]:
                DUALS.pack_into(more, DUALS_OFFSET, *duals)
        return bytes(systems), bytes(more)

    def solve(
        self,
        library: ctypes.CDLL,
        method: str,
        start: Array | None,
        given: tuple[Array | None, ...] = (),
    ) -> Solution:
        """Solve the systems, of the given arrays if the call is for others.

        By the solver of constraints, which may leave a system; or by the Gram method,
        then what it leaves by QR; or by one method.
        """
        given = given or self.arrays
        arrays, written = empty_together(self.layout, self.size)
        arrays[-1][:] = 0
        if start is not None:
            arrays[0][...] = start
        by_gram, by_qr, constrained = solvers(library, self.dtype)
        with_qr_alone = method == "qr" or not self.work
        if method != "auto" or with_qr_alone:
            written[LISTED] = 0  # a null list: QR solves all systems, or none
        systems, more = self.packed(given, written)
        solution, counters = Solution(*arrays[:LISTED]), arrays[-1]
        used = given, arrays
        if self.has_rows:
            run(self, used, constrained, systems, more)
            return solution
        if with_qr_alone:
            run(self, used, by_qr, systems)
            return solution
        run(self, used, by_gram, systems, more)
        if method == "auto" and counters[1]:
            counters[0] = 0
            # QR starts from the x of the Gram method.
            warm = bytearray(systems)
            FLAG.pack_into(warm, WARM_OFFSET, True)
            run(self, used, by_qr, bytes(warm))
        return solution


def by_columns(problem: Problem) -> Problem:
    """The problem, with contiguous columns of an A that systems with weights share.

    Each system multiplies the rows of A by its weights: of contiguous columns, several
    rows at once.
    """
    A = problem.A
    if problem.weights is None or A.ndim > 2 or problem.shares_matrix:
        return problem
    return problem._replace(A=np.asfortranarray(A))


def gram_run(systems: LaunchArguments, at_once: int) -> Struct:
    """How the Gram method scales shared matrices, and whether it computes ``A^T A``."""
    problem = systems.problem
    n, matrices = problem.shape[1], math.prod(problem.matrices)
    shares = not 1 < matrices == systems.total
    each = largest_penalties(systems.options).of_each if shares else None
    root_l2 = None if each is None else each[3 * n : 4 * n]
    used_by = systems.total // max(1, matrices)
    return GRAM_RUN.of(None, root_l2, n <= COLUMNS_PER_SYSTEM * used_by, at_once)


def run(
    compiled: CompiledCall, used: tuple[Any, ...], call: Call, *structs: bytes
) -> None:
    """Call a function of the object: here, or on a thread for each core.

    MemoryError unless a thread had the memory to solve the systems.

    An interrupt stops all threads after their current step. They keep the arrays until
    then: an interrupt while a thread starts, or a second interrupt, does not wait. The
    last of `used` are the arrays that are written, the last of these the counters.
    """
    if compiled.work < ENOUGH_FOR_THREADS:
        returned = [call(*structs)]
    else:
        returned = run_on_threads(compiled, used, call, *structs)
    if all(returned):
        _, m, n = compiled.shape
        raise MemoryError(f"systems of shape {m} x {n} need more memory than there is")


def run_on_threads(
    compiled: CompiledCall, used: tuple[Any, ...], call: Call, *structs: bytes
) -> list[int]:
    """Call a function of the object on a thread for each core; its results."""
    threads = min(cores(), compiled.shape[0])
    with ThreadPoolExecutor(threads) as pool:
        counters, kept = used[-1][-1], (compiled, used)
        task = functools.partial(call_keeping, kept, call, structs)
        try:
            running = [pool.submit(task) for _ in range(threads)]
            show_progress(compiled.shape[0], counters, running)
        except BaseException:
            counters[0] = STOP
            raise
    return [thread.result() for thread in running]


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
