"""Dense least squares within bounds: on a CPU by the compiled object, or by kernels.

The object has the solvers of ``cuda_src``, compiled for one thread. Threads call one
function of it for all systems of the batch; each takes the next systems from a counter.
Without the object, SciPy solves plain non-negative least squares, with our certificate,
and the specification everything else.

On a device, the Gram method solves all systems, then QR the systems that it does not
settle.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, Layout, address_of, empty_together, part_of
from .._device.interrupts import POLLS
from .._device.kernels import Device, struct_in
from .._device.launch import CACHED, ceil_div
from .._device.objects import load
from .._device.progress import DELAY, progress_bar
from .._device.structs import Struct
from .._device.threads import cores
from .._numerics.certificate import (
    CONVERGED,
    NOT_FINITE,
    Solution,
    certify,
    is_convincing,
    outcome,
)
from .._numerics.system import System
from ..reference._nnls import scaled_systems, solve_system
from .arguments import COMPARED
from .launch_arguments import (
    NNLS_SYSTEMS,
    LaunchArguments,
    empty_solution,
    largest_penalties,
    written_layout,
)
from .nnls_constrained_kernel import CONSTRAINT_ROWS, constraint_rows
from .nnls_gram_kernel import nnls_gram
from .nnls_qr_kernel import nnls_qr, qr_blocks, qr_workspace, systems_per_launch
from .problem import Problem

WIDE = 2
"""Matrices with more columns than this number times their rows are solved by QR: most
of ``A^T A`` would not be used."""

REPAIR_BLOCKS = 132  # the multiprocessors of an H200
"""The most blocks that solve again what the Gram method does not settle."""

REPAIR_MEMORY = 256 * 2**20
"""The most bytes for these blocks that are allocated even if there is nothing to solve.
For larger systems the host waits until it knows how many blocks are needed."""

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


def solve_within_bounds(
    problem: Problem, device: Device | None, method: str
) -> Solution:
    """Solve every system of the batch on the device, or on the CPU if it is None."""
    if device is None:
        return solve_on_cpu(problem, method)
    return solve_on_device(problem, device, method)


# ---- on a CPU ------------------------------------------------------------------------


def solve_on_cpu(problem: Problem, method: str) -> Solution:
    """Solve every system of the batch; `method` is as for ``gpusolve.nnls``."""
    if method in COMPARED:
        from ..studies._compared.solve import solve_batch

        return solve_batch(problem, method)
    library = load()
    if library is None:
        return solve_by_specification(problem, method)
    return CompiledCall.of(problem, method).solve(library, method, problem.start)


# ---- the object ----------------------------------------------------------------------


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
        is_weighted = problem.weights is not None and not problem.shares_matrix
        if is_weighted and problem.A.ndim == 2 and not has_rows:
            # Each system multiplies the rows of A by its weights: of contiguous
            # columns, several rows at once.
            problem = problem._replace(A=np.asfortranarray(problem.A))
        systems = LaunchArguments.of(problem)
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
        systems = bytearray(self.systems)
        ADDRESS.pack_into(systems, 0, address_of(arrays[0]))
        ADDRESS.pack_into(systems, B_OFFSET, address_of(arrays[1]))
        WRITTEN.pack_into(systems, WRITTEN_OFFSET, *written[:FIELDS], *written[LISTED:])
        if not self.has_rows:
            return bytes(systems), self.more
        more = bytearray(self.more)
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


# ---- without the object --------------------------------------------------------------


@np.errstate(all="ignore")
def solve_by_specification(problem: Problem, method: str) -> Solution:
    """Solve every system of the batch, one after the other.

    SciPy solves plain problems for ``"auto"``. The specification corrects its x where
    that is not as accurate as it can be, or solves the system again.
    """
    tol, maxiter = problem.cpu_tolerance, problem.iteration_limit
    options = problem.has_penalties, problem.has_ridge, problem.has_sum
    given = problem.start is not None, problem.maxiter is not None
    is_plain = problem.is_nnls and min(problem.shape) > 0 and not any(options + given)
    solution = Solution.blank(problem.batch, problem.shape[1], problem.dtype)
    solution.status[...] = NOT_FINITE
    with progress_bar(math.prod(problem.batch), "nnls", "system") as bar:
        for k, system, start in scaled_batch(problem):
            bar.update(1)
            found, settled = None, False
            if method == "auto" and is_plain:
                found, settled = solve_by_scipy(system, tol, maxiter)
                start = np.where(np.isfinite(found.x), found.x, start)
            if not settled:
                first, found = found, solve_system(system, start, tol, maxiter)
                if first is not None:
                    again = {"repaired": np.array(True)}
                    done = first.status == CONVERGED
                    found = found._replace(**fewest_counts(found.x) if done else again)
            assert found is not None
            solution.put(k, found._replace(x=system.unscale(found.x)))
    return solution


def scaled_batch(problem: Problem) -> Iterator[tuple[Any, System, Array]]:
    """The finite systems of the batch: the index, the scaled system, and its start."""
    systems = scaled_systems(
        problem.A.astype(np.float64, copy=False),
        problem.b,
        problem.dtype,
        problem.batch,
        bounds=problem.bounds,
        weights=problem.weights,
        sum_to=problem.sum_to,
        warm_start=problem.start,
        l1=problem.l1,
        l2=problem.l2,
    )
    for k, system, start in systems:
        yield k, system._replace(rounded_matrix=problem.rounded_matrix), start


def solve_by_scipy(system: System, tol: float, maxiter: int) -> tuple[Solution, bool]:
    """SciPy's solution with our certificate, and whether no method improves it."""
    from scipy.optimize import nnls

    x: Array = np.zeros(system.A.shape[-1])
    with contextlib.suppress(RuntimeError):  # after `maxiter` iterations
        x, _ = nnls(system.A, system.b, maxiter=maxiter)
    x = system.rounded(x)
    found = certify(system, x, system.residual(x))
    solution = Solution.blank((), len(x), x.dtype)._replace(
        x=x,
        rnorm=found.rnorm,
        dual=found.dual,
        kkt=found.kkt,
        status=outcome(system, x, found, CONVERGED, tol),
        **fewest_counts(x),
    )
    return solution, bool(is_convincing(system, x, found, tol))


def fewest_counts(x: Array) -> dict[str, Any]:
    """The fewest steps that lead to x: passive variables enter, and none leaves."""
    passive = np.asarray(np.count_nonzero(x, axis=-1), np.int32)
    return {"nit": passive, "n_updates": passive, "n_downdates": 0 * passive}


# ---- on a device ---------------------------------------------------------------------


def solve_on_device(problem: Problem, device: Device, method: str) -> Solution:
    """Solve every system of the batch; `method` is as for ``gpusolve.nnls``.

    Each kernel is launched once, or several times if the device has a watchdog
    or if the Gram matrices of all systems do not fit into memory.
    """
    whole, solution = LaunchArguments.of(problem), empty_solution(problem, device.empty)
    total, axes = whole.total, len(problem.batch)
    limit = most = systems_per_launch(problem, device)
    shares = math.prod(problem.matrices) < total
    first = 0
    while first < total:
        part = slice(first, min(first + most, total))
        fields = [part_of(field, axes, part) for field in solution[:10]]
        counters = device.zeros((2,), np.uint64)
        systems = whole._replace(
            part=part, solution=Solution(*fields), counters=counters
        )
        try:
            launch(systems, device, method)
            first = part.stop
        except MemoryError:
            # Fewer systems need fewer matrices, unless systems share them.
            if systems.total > 1 and not shares:
                most = ceil_div(systems.total, 2)
            elif method == "auto":
                method, most = "qr", limit
            else:
                raise
    return solution


def launch(systems: LaunchArguments, device: Device, method: str) -> None:
    """Launch the kernels for the systems. MemoryError may come between two launches."""
    m, n = systems.problem.shape
    if method in COMPARED:
        from ..studies._nnls_mgs_kernel import nnls_mgs

        nnls_mgs(systems, device)
    elif (
        method == "qr"
        or not m * n
        or (method == "auto" and n > WIDE * systems.problem.rows)
    ):
        nnls_qr(systems, device, qr_workspace(systems, device, systems.total))
    elif method == "gram":
        nnls_gram(systems, device)
    else:
        nnls_gram_and_repairs(systems, device)


def nnls_gram_and_repairs(systems: LaunchArguments, device: Device) -> None:
    """Solve the systems by the Gram method, and by QR what it does not settle."""
    listed = device.empty((systems.total, 2), np.int64)
    most = REPAIR_BLOCKS
    waits = math.prod(qr_blocks(systems, device, most)) > REPAIR_MEMORY
    memory = None if waits else qr_workspace(systems, device, most)
    nnls_gram(systems, device, listed)
    if memory is None:
        assert systems.counters is not None
        most = min(most, int(systems.counters[1]))  # waits for the kernel
        if most == 0:
            return
        memory = qr_workspace(systems, device, most)
    nnls_qr(systems, device, memory, listed)
