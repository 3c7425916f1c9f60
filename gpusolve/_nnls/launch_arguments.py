"""The arrays of a problem as kernels and the compiled object read them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import (
    Array,
    BatchOffsets,
    Layout,
    batch_offsets,
    broadcast_shapes,
    contiguous,
    namespace,
    strided,
)
from .._device.kernels import struct_in
from .._device.launch import CACHED, round_up
from .._device.structs import Struct
from .._numerics.certificate import Solution, solution_fields
from .arguments import drop_repeats
from .problem import Option, Problem

RIDGE, SUM, BOUNDS, PENALTIES, ROUNDED_MATRIX = 1, 2, 4, 8, 16
"""``ProblemKind`` of ``variables.cuh``."""

NNLS_SYSTEMS = struct_in("nnls_systems.cuh", "NnlsSystems")

ALIGNMENT = 16
"""Of the arrays that are written, in bytes."""

NO_OFFSET = BatchOffsets(None, 0)
"""All systems begin at the same element."""


class Options(NamedTuple):
    """Bounds, penalties and the sum; see ``Variables`` in ``variables.cuh``.

    Attributes
    ----------
    of_each : (..., 4 n + 1) float64 array or None
        Lower bounds, upper bounds, l1, square roots of l2, and the sum. If None, the
        numbers are the same for all variables and systems.
    offset : BatchOffsets
    same : tuple of float
        The numbers, if they are the same.
    same_l2 : bool
        Whether all systems have the same l2.
    """

    of_each: Array | None
    offset: BatchOffsets
    same: tuple[float, ...]
    same_l2: bool

    @classmethod
    def of(cls, problem: Problem) -> Options:
        """Put the options of a problem into one array, unless all are numbers."""
        xp, n = namespace(problem.A), problem.shape[1]
        total: Option = 0.0 if problem.sum_to is None else problem.sum_to
        variables = problem.lower, problem.upper, problem.l1, problem.l2
        if all(isinstance(option, float) for option in (*variables, total)):
            *numbers, l2 = map(float, variables)
            same = (*numbers, math.sqrt(l2), float(total))
            return cls(None, NO_OFFSET, same, True)
        parts = [xp.asarray(option, np.float64) for option in variables]
        parts[3] = xp.sqrt(parts[3])
        parts.append(xp.asarray(total, np.float64)[..., None])
        leading = broadcast_shapes(*[part.shape[:-1] for part in parts])
        same_l2 = math.prod(parts[3].shape[:-1]) == 1
        lengths = (n, n, n, n, 1)
        of_all = [
            xp.broadcast_to(part, (*leading, length))
            for part, length in zip(parts, lengths, strict=True)
        ]
        of_each = contiguous(xp.concatenate(of_all, axis=-1))
        offset = batch_offsets(of_each, 1, problem.batch)
        return cls(of_each, offset, (0.0,) * 5, same_l2)


def largest_penalties(options: Options) -> Options:
    """The largest l2 of each column over all systems; the other options are unused."""
    each = options.of_each
    if each is None or each.ndim == 1 or not each.size:
        return options
    xp = namespace(each)
    finite = xp.where(xp.isfinite(each), each, 0)
    largest = finite.max(axis=tuple(range(each.ndim - 1)))
    return options._replace(of_each=largest, offset=NO_OFFSET)


class LaunchArguments(NamedTuple):
    """The systems that a launch solves, and their arrays, which are read in place.

    Attributes
    ----------
    problem : Problem
    A, b : array
        A shared matrix is stored once.
    root_weight : (..., m) array or None
        The square roots of the weights.
    options : Options
    A_offset, b_offset, weight_offset : BatchOffsets
        Where each system of the batch begins.
    part : slice
        Of the flattened batch.
    solution : Solution or None
        Of these systems; its x holds the starting points.
    counters : (2,) uint64 array or None
        ``BatchCounters`` of ``batch.cuh``: zeros.
    """

    problem: Problem
    A: Array
    b: Array
    root_weight: Array | None
    options: Options
    A_offset: BatchOffsets
    b_offset: BatchOffsets
    weight_offset: BatchOffsets
    part: slice
    solution: Solution | None = None
    counters: Array | None = None

    @classmethod
    def of(cls, problem: Problem) -> LaunchArguments:
        """Prepare the arrays of a whole batch; none is copied."""
        batch = problem.batch
        A, b = drop_repeats(strided(problem.A), 2), strided(problem.b)
        root_weight, weight_offset = None, NO_OFFSET
        if problem.weights is not None:
            xp = namespace(problem.A)
            with np.errstate(invalid="ignore"):
                root_weight = xp.sqrt(drop_repeats(problem.weights, 1))
            weight_offset = batch_offsets(root_weight, 1, batch)
        return cls(
            problem,
            A,
            b,
            root_weight,
            Options.of(problem),
            batch_offsets(A, 2, batch),
            batch_offsets(b, 1, batch),
            weight_offset,
            slice(0, math.prod(batch)),
        )

    @property
    def total(self) -> int:
        """The number of systems."""
        return int(self.part.stop - self.part.start)

    @property
    def kind(self) -> int:
        """``ProblemKind`` of ``variables.cuh``."""
        problem = self.problem
        is_nnls = problem.is_nnls and self.options.of_each is None
        has_bounds = problem.has_sum or problem.has_penalties or not is_nnls
        return (
            RIDGE * problem.has_ridge
            | SUM * problem.has_sum
            | BOUNDS * has_bounds
            | PENALTIES * problem.has_penalties
            | ROUNDED_MATRIX * problem.rounded_matrix
        )

    def argument(
        self,
        tol: float,
        listed: Array | None = None,
        written: Sequence[Array | int] | None = None,
    ) -> Struct:
        """The first argument of every kernel that solves these systems.

        `listed` gets the systems for another method; ``ListedSystem`` of ``batch.cuh``.
        `written` may be the addresses of the solution's fields, `listed` and counters.
        """
        problem, weight, (m, n) = self.problem, self.root_weight, self.problem.shape
        if written is None:
            fields = self.solution[:10] if self.solution else ()
            written = (*fields, listed, self.counters)
        return NNLS_SYSTEMS.of(
            problem.dtype,
            self.A,
            *self.A_offset,
            *strides(self.A, 2),
            self.b,
            *self.b_offset,
            *strides(self.b, 1),
            weight,
            *self.weight_offset,
            0 if weight is None else strides(weight, 1)[0],
            self.options.of_each,
            *self.options.offset,
            *self.options.same,
            tol,
            self.part.start,
            self.total,
            m,
            n,
            self.kind,
            min(problem.iteration_limit, 2**31 - 1),
            problem.start is not None,
            problem.maxiter is not None,
            *written,
        )


@functools.lru_cache(CACHED)
def written_layout(
    batch: tuple[int, ...], n: int, dtype: np.dtype[Any], dual_lengths: tuple[int, ...]
) -> tuple[Layout, int]:
    """The layout of what is written on a CPU: the solution, `listed`, the counters."""
    layout, end = [], 0
    written = solution_fields(batch, n, dtype, *dual_lengths)
    written += [((math.prod(batch), 2), np.int64), ((2,), np.uint64)]
    for shape, kind in written:
        layout.append((shape, np.dtype(kind), end))
        end += round_up(math.prod(shape) * np.dtype(kind).itemsize, ALIGNMENT)
    return tuple(layout), end


def empty_solution(problem: Problem, empty: Callable[..., Array]) -> Solution:
    """Allocate the solution; its x holds the warm start, if given."""
    fields = solution_fields(problem.batch, problem.shape[1], problem.dtype)
    solution = Solution(*[empty(shape, dtype) for shape, dtype in fields])
    if problem.start is not None:
        solution.x[...] = problem.start
    return solution


def strides(array: Array, core: int) -> tuple[int, ...]:
    """The strides of the last `core` axes, in elements."""
    return tuple([stride // array.itemsize for stride in array.strides[-core:]])


def indices_of(shape: tuple[int, ...], batch: tuple[int, ...], array: Array) -> Array:
    """The flat index in `shape` for each system of a batch that it broadcasts to."""
    xp = namespace(array)
    indices = xp.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    return contiguous(xp.broadcast_to(indices, batch)).reshape(-1)
