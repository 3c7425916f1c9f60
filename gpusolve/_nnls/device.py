"""NNLS on a device: by the Gram method, then by QR for unsettled systems."""

from __future__ import annotations

import math

import numpy as np

from .._device.arrays import part_of
from .._device.kernels import Device
from .._device.launch import ceil_div
from .._numerics.solution import Solution
from . import cpu
from .inputs import Problem
from .methods import COMPARED
from .nnls_gram_kernel import nnls_gram
from .nnls_qr_kernel import nnls_qr, qr_blocks, qr_workspace, systems_per_launch
from .systems import Inputs, Systems, empty_solution

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
        return cpu.nnls(problem, method)
    return nnls(problem, device, method)


def nnls(problem: Problem, device: Device, method: str) -> Solution:
    """Solve every system of the batch; `method` is as for ``gpusolve.nnls``.

    Each kernel is launched once, or several times if the device has a watchdog
    or if the Gram matrices of all systems do not fit into memory.
    """
    solution, inputs = empty_solution(problem, device.empty), Inputs.of(problem)
    total, axes = math.prod(problem.batch), len(problem.batch)
    limit = most = systems_per_launch(problem, device)
    shares = math.prod(problem.matrices) < total
    first = 0
    while first < total:
        part = slice(first, min(first + most, total))
        systems = Systems(
            problem,
            inputs,
            part,
            Solution(*[part_of(field, axes, part) for field in solution]),
            device.zeros((2,), np.uint64),
        )
        try:
            solve(systems, device, method)
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


def solve(systems: Systems, device: Device, method: str) -> None:
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


def nnls_gram_and_repairs(systems: Systems, device: Device) -> None:
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


def listed_systems(systems: Systems) -> int:
    """The number of systems that a kernel has listed; waits for the kernel."""
    assert systems.counters is not None
    return int(systems.counters[1])
