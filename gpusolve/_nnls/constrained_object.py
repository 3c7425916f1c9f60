"""Least squares with linear constraints on a CPU, by the compiled object.

The object solves every system that its certificate accepts. It leaves the others.
"""

from __future__ import annotations

import collections
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._device.arrays import Array, batch_offsets, empty_together
from .._device.kernels import struct_in
from .._device.objects import load
from .._numerics.solution import BY_GRAM, BY_QR, AnySolution, ConstrainedSolution
from .cpu import MOST_AT_ONCE, TURNS, Prepared, run
from .inputs import Problem
from .systems import AT_ONCE, Inputs, Systems, drop_repeats, strides, written_layout

CONSTRAINT_ROWS = struct_in("constrained_system.cuh", "ConstraintRows")

MOST_NUMBERS = 2**26
"""Limit on the numbers of a system: a thread has an inner product of each pair of rows.
"""

UNSETTLED = -1
"""``is_unsettled`` of ``constrained_solver.cuh``."""


def solve(
    problem: Problem, method: str, eps: float = 0.0
) -> ConstrainedSolution | None:
    """Solve the systems of the batch; those that are left have status `UNSETTLED`.

    None if there is no object, or if the systems are too large for it. `eps` is the
    rounding of the matrix of a quadratic program.
    """
    library, total = load(), math.prod(problem.batch)
    (m, n), rows = problem.shape, row_counts(problem)
    numbers = (m + n + sum(rows)) * n + (n + sum(rows)) ** 2
    if library is None or not total * n * m or numbers > MOST_NUMBERS:
        return None
    layout, size = written_layout(problem.batch, n, problem.dtype)
    arrays, written = empty_together(layout, size)
    arrays[-1][:] = 0
    if problem.start is not None:
        arrays[0][...] = problem.start
    inputs = Inputs.of(problem)
    systems = Systems(problem, inputs, slice(0, total), None, None)
    argument = systems.argument(problem.tol or 0.0, written=written)
    duals = [np.empty((*problem.batch, count)) for count in rows]
    pairs = [
        side_of(C, d, n, problem.batch)
        for C, d in ((problem.A_ub, problem.b_ub), (problem.A_eq, problem.b_eq))
    ]
    constraints = CONSTRAINT_ROWS.of(
        None,
        *pairs[0],
        *pairs[1],
        *rows,
        inputs.options.same_l2,
        max(1, min(MOST_AT_ONCE, total // TURNS)),
        problem.is_gram,
        eps,
        *duals,
    )
    prepared = Prepared(
        argument.packed(),
        constraints.packed(),
        layout,
        size,
        (total, m, n),
        problem.dtype,
        float(total) * n * n * (m + n + sum(rows)),
        None,
        None,
        (argument, constraints),
    )
    call = getattr(library, f"gpusolve_constrained_{problem.dtype.name}")
    run(prepared, (problem, arrays), call, prepared.systems, prepared.run)
    arrays[-3][...] = BY_GRAM if method == "gram" else BY_QR
    fields = [*arrays[:-2], *[dual.astype(problem.dtype) for dual in duals]]
    return ConstrainedSolution(*fields)


def solve_rest(
    problem: Problem,
    found: ConstrainedSolution,
    solver: Callable[[Problem], AnySolution],
) -> ConstrainedSolution:
    """The solutions, also of the systems that the object has left, by `solver`."""
    at = np.flatnonzero(found.status <= UNSETTLED)
    if len(at):
        LEFT.append((len(at), found.status.size))
        CODES.update(found.status.ravel()[at].tolist())
        rest = solver(take(problem, at))
        for field, values in zip(found, rest, strict=True):
            if problem.batch:
                field[np.unravel_index(at, problem.batch)] = values
            else:
                field[...] = values[0]
    return found


LEFT = []
CODES = collections.Counter()


def row_counts(problem: Problem) -> tuple[int, int]:
    """The rows of A_ub and of A_eq."""
    pair = problem.b_ub, problem.b_eq
    below, equal = (0 if side is None else side.shape[-1] for side in pair)
    return below, equal


def side_of(
    C: Array | None, d: Array | None, n: int, batch: tuple[int, ...]
) -> tuple[Any, ...]:
    """A pair of arrays in float64, where systems begin, and strides."""
    if C is None or d is None:
        none = no_rows(n)
        return none, *AT_ONCE, 0, 0, none, *AT_ONCE, 0
    C = drop_repeats(C, 2).astype(np.float64, copy=False)
    d = drop_repeats(d, 1).astype(np.float64, copy=False)
    of_C, of_d = batch_offsets(C, 2, batch), batch_offsets(d, 1, batch)
    return C, *of_C, *strides(C, 2), d, *of_d, *strides(d, 1)


@functools.cache
def no_rows(n: int) -> Array:
    """What stands for the rows of a pair that is not given."""
    return np.zeros((1, n))


def take(problem: Problem, at: Array) -> Problem:
    """Select systems by indices in the flattened batch; what all share stays shared."""

    def part(value: Any, core: int) -> Any:
        if value is None or isinstance(value, float):
            return value
        shape = value.shape[value.ndim - core :]
        if math.prod(value.shape[: value.ndim - core]) == 1:
            return value.reshape(shape)
        whole = np.broadcast_to(value, (*problem.batch, *shape))
        return whole[np.unravel_index(at, problem.batch)]

    fields = {name: part(getattr(problem, name), k) for name, k in CORE_AXES.items()}
    bounds = part(problem.lower, 1), part(problem.upper, 1)
    return problem._replace(batch=(len(at),), bounds=bounds, **fields)


CORE_AXES = {
    "A": 2,
    "b": 1,
    "start": 1,
    "l1": 1,
    "l2": 1,
    "sum_to": 0,
    "weights": 1,
    "A_ub": 2,
    "b_ub": 1,
    "A_eq": 2,
    "b_eq": 1,
}
"""The number of axes of an array of a problem that belong to one system."""
