"""Dense least squares within bounds: on a CPU by the compiled object, or by kernels.

Without the object, SciPy solves plain non-negative least squares, with our certificate,
and the specification everything else.

On a device, the Gram method solves all systems, then QR the systems that it does not
settle.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from .._device.arrays import Array, part_of
from .._device.kernels import Device
from .._device.launch import ceil_div
from .._device.objects import load
from .._device.progress import progress_bar
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
from .compiled import CompiledCall
from .launch_arguments import LaunchArguments, empty_solution
from .nnls_gram_kernel import nnls_gram
from .nnls_qr_kernel import nnls_qr, qr_blocks, qr_workspace, systems_per_launch
from .options import COMPARED
from .problem import Problem

WIDE = 2
"""Matrices with more columns than this number times their rows are solved by QR: most
of ``A^T A`` would not be used."""

REPAIR_BLOCKS = 132  # the multiprocessors of an H200
"""The most blocks that solve again what the Gram method does not settle."""

REPAIR_MEMORY = 256 * 2**20
"""The most bytes for these blocks that are allocated even if there is nothing to solve.
For larger systems the host waits until it knows how many blocks are needed."""


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
    with progress_bar(math.prod(problem.batch), "nnls", "system") as bar:
        for k, system, start in systems:
            bar.update(1)
            system = system._replace(rounded_matrix=problem.rounded_matrix)
            found, settled = None, False
            if method == "auto" and is_plain:
                found, settled = solve_by_scipy(system, tol, maxiter)
                start = np.where(np.isfinite(found.x), found.x, start)
            if not settled:
                first, found = found, solve_system(system, start, tol, maxiter)
                if first is not None and first.status == CONVERGED:
                    found = found._replace(**fewest_counts(found.x))
                elif first is not None:
                    found = found._replace(repaired=np.array(True))
            assert found is not None
            solution.put(k, found._replace(x=system.unscale(found.x)))
    return solution


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
        most = min(most, listed_systems(systems))
        if most == 0:
            return
        memory = qr_workspace(systems, device, most)
    nnls_qr(systems, device, memory, listed)


def listed_systems(systems: LaunchArguments) -> int:
    """The number of systems that a kernel has listed; waits for the kernel."""
    assert systems.counters is not None
    return int(systems.counters[1])
