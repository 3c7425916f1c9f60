"""Least squares with linear constraints on a device: ``nnls_constrained.cu``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._device.arrays import Array, batch_offsets, part_of
from .._device.kernels import CUDA_TYPES, Device, struct_in
from .._device.launch import LAUNCH_SECONDS, WARP, ceil_div, round_up
from .._device.structs import Struct
from .._numerics.certificate import BY_GRAM, BY_QR, Solution, solution_fields
from .arguments import drop_repeats
from .launch_arguments import NO_OFFSET, LaunchArguments, strides
from .nnls_qr_kernel import BLOCK_SPEED, allocate_workspace
from .problem import EPSILONS, Problem

CONSTRAINT_ROWS = struct_in("constrained_system.cuh", "ConstraintRows")
CONSTRAINED_MEMORY = struct_in("nnls_constrained.cu", "ConstrainedMemory")

MAX_THREADS, BLOCKS = 128, 3
"""Launch bounds of the kernel: the most threads of a block, and the blocks of a
multiprocessor."""

MOST_NUMBERS = 2**26
"""Limit on the numbers of a system: a team has an inner product of each pair of rows.
"""

BLOCK_NUMBERS = 2**23
"""The same limit for a block on a device. Larger systems are solved on the host."""

WORKSPACE_BYTES = 2**30
"""The most bytes of the workspace of a launch that has several blocks."""

ARRAYS, ALIGNMENT = 48, 16
"""The most arrays of a team, and their alignment in bytes."""

STATIC_SHARED_MEMORY = 2048
"""Upper bound on the bytes of the kernel's static shared memory."""

TURNS = 4
"""How often a block takes systems, on average: all blocks end at about the same time.
"""


def numbers_of(problem: Problem) -> int:
    """The numbers of a system; see ``ConstrainedArrays`` of ``constrained_system.cuh``.

    Reals and integers count the same.
    """
    (m, n), k = problem.shape, sum(problem.row_counts) + problem.has_sum
    matrices = (m + 2 * k + 2 * n) * n + (k + n) ** 2
    return matrices + 20 * n + 6 * k + 3 * m + 9 * (k + n)


def constraint_rows(
    problem: Problem,
    method: str,
    same_l2: bool,
    at_once: int,
    duals: tuple[Array | None, Array | None] = (None, None),
) -> Struct:
    """``ConstraintRows`` of ``constrained_system.cuh``.

    `duals` get the multipliers.
    """
    dtype = problem.gram_dtype
    pairs = (problem.A_ub, problem.b_ub), (problem.A_eq, problem.b_eq)
    return CONSTRAINT_ROWS.of(
        problem.dtype,
        *[part for C, d in pairs for part in sides_of(C, d, problem.batch)],
        *problem.row_counts,
        same_l2,
        at_once,
        BY_GRAM if method == "gram" else BY_QR,
        dtype is not None,
        0.0 if dtype is None else EPSILONS[dtype],
        *duals,
    )


def sides_of(
    C: Array | None, d: Array | None, batch: tuple[int, ...]
) -> tuple[Any, ...]:
    """A pair of arrays in float64, where systems begin, and strides."""
    if C is None or d is None:
        return None, *NO_OFFSET, 0, 0, None, *NO_OFFSET, 0
    C = drop_repeats(C, 2).astype(np.float64, copy=False)
    d = drop_repeats(d, 1).astype(np.float64, copy=False)
    of_C, of_d = batch_offsets(C, 2, batch), batch_offsets(d, 1, batch)
    return C, *of_C, *strides(C, 2), d, *of_d, *strides(d, 1)


def nnls_constrained(problem: Problem, device: Device, method: str) -> Solution:
    """Solve the systems on the current stream; a system may be left unsettled."""
    whole, (m, n) = LaunchArguments.of(problem), problem.shape
    counts, axes, total = problem.row_counts, len(problem.batch), whole.total
    fields = solution_fields(problem.batch, n, problem.dtype, *counts)
    solution = Solution(*[device.empty(shape, dtype) for shape, dtype in fields])
    if problem.start is not None:
        solution.x[...] = problem.start
    threads = min(MAX_THREADS, round_up(max(m, n, sum(counts)), WARP))
    size = round_up(8 * numbers_of(problem) + ALIGNMENT * ARRAYS, ALIGNMENT)
    limit = (device.shared_memory_per_block - STATIC_SHARED_MEMORY) // BLOCKS
    shared = size if size <= limit else 0
    instances = (f"nnls_constrained<{CUDA_TYPES[problem.dtype]}>",)
    (kernel,) = device.kernels("nnls_constrained", instances)
    resident = kernel.resident_blocks(threads, shared)
    at_once = max(1, total // (TURNS * resident))
    blocks, workspace = min(resident, ceil_div(total, at_once)), None
    if not shared:
        blocks = max(1, min(blocks, WORKSPACE_BYTES // size))
        workspace, blocks = allocate_workspace(device, blocks, size)
    memory = CONSTRAINED_MEMORY(workspace=workspace, workspace_stride=size)
    most = total
    if device.has_watchdog:
        work = 4.0 * n * n * (m + n + sum(counts))
        most = blocks * max(1, int(LAUNCH_SECONDS * BLOCK_SPEED / work))
    for first in range(0, total, most):
        part = slice(first, min(first + most, total))
        found = Solution(*[part_of(field, axes, part) for field in solution])
        systems = whole._replace(
            part=part, solution=found, counters=device.zeros((2,), np.uint64)
        )
        rows = constraint_rows(
            problem,
            method,
            systems.options.same_l2,
            at_once,
            (found.dual_ub, found.dual_eq),
        )
        kernel(
            (blocks,),
            (threads,),
            (systems.argument(problem.cpu_tolerance), rows, memory),
            shared_mem=shared,
        )
    return solution


def is_too_large(problem: Problem, device: Device | None) -> bool:
    """Whether neither a device nor, if it is None, the compiled object takes systems.

    Nor do they take a batch without elements.
    """
    most = MOST_NUMBERS if device is None else BLOCK_NUMBERS
    elements = math.prod(problem.batch) * math.prod(problem.shape)
    return not elements or numbers_of(problem) > most
