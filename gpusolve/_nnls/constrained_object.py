"""Least squares with linear constraints on a CPU, by the compiled object.

The object solves every system that its certificate accepts. It leaves the others.
"""

from __future__ import annotations

import ctypes
import functools
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, address_of, batch_offsets, empty_together
from .._device.kernels import struct_in
from .._device.launch import CACHED
from .._device.objects import load
from .._numerics.solution import BY_GRAM, BY_QR, Solution
from .dense import MOST_AT_ONCE, TURNS, CompiledCall, run
from .launch_arguments import NO_OFFSET, Options, strides
from .problem import Problem, drop_repeats

CONSTRAINT_ROWS = struct_in("cpu/constrained_system.cuh", "ConstraintRows")

MOST_NUMBERS = 2**26
"""Limit on the numbers of a system: a thread has an inner product of each pair of rows.
"""

UNSETTLED = -1
"""``is_unsettled`` of ``cpu/constrained_solver.cuh``."""

ROWS = "C_ub", "d_ub", "C_eq", "d_eq"
"""The arrays of the constraints in ``ConstraintRows``."""

ADDRESS, DUALS = struct.Struct("P"), struct.Struct("PP")
OFFSETS = tuple([CONSTRAINT_ROWS.offset(name) for name in ROWS])
DUALS_OFFSET = CONSTRAINT_ROWS.offset("dual_ub")


def solve(problem: Problem, method: str, eps: float = 0.0) -> Solution | None:
    """Solve the systems of the batch; a system that is left has status `UNSETTLED`.

    None without an object, or if the systems are too large for it. `eps` is the
    rounding of the matrix of a quadratic program.
    """
    library, (m, n) = load(), problem.shape
    below, equal = row_counts(problem)
    numbers = (m + n + below + equal) * n + (n + below + equal) ** 2
    if (
        library is None
        or numbers > MOST_NUMBERS
        or not math.prod(problem.batch) * m * n
    ):
        return None
    call = prepare(problem, method, eps)
    arrays, written = empty_together(call.compiled.layout, call.compiled.size)
    arrays[-1][:] = 0
    if problem.start is not None:
        arrays[0][...] = problem.start
    duals = [np.empty((*problem.batch, k), problem.dtype) for k in (below, equal)]
    systems = call.compiled.pack(problem.A, problem.b, written)
    rows = call.pack(problem, duals)
    function = functions(library, problem.dtype)
    run(call.compiled, (problem, arrays), function, systems, rows)
    return Solution(*arrays[:-2], *duals)


def solve_rest(
    problem: Problem,
    found: Solution,
    solver: Callable[[Problem], Solution],
) -> Solution:
    """The solutions, also of the systems that the object has left, by `solver`."""
    if int(found.status.min()) != UNSETTLED:
        return found
    at = np.flatnonzero(found.status == UNSETTLED)
    where = np.unravel_index(at, problem.batch) if problem.batch else ()
    rest = solver(take(problem, at))
    for name, values in rest.arrays().items():
        getattr(found, name)[where] = values if problem.batch else values[0]
    return found


@functools.lru_cache(CACHED)
def functions(library: ctypes.CDLL, dtype: np.dtype[Any]) -> Callable[..., int]:
    """The function of the object for a dtype."""
    found: Callable[..., int] = getattr(library, f"gpusolve_constrained_{dtype.name}")
    return found


class Call(NamedTuple):
    """A batch as the object reads it, without the addresses of some arrays.

    Attributes
    ----------
    compiled : CompiledCall
        The systems without the constraints.
    rows : bytes
        ``ConstraintRows`` of ``cpu/constrained_system.cuh``.
    is_plain : bool
        Whether `rows` lacks the addresses of the problem's arrays.
    kept : tuple
        Keeps the arrays to whose addresses the bytes refer.
    """

    compiled: CompiledCall
    rows: bytes
    is_plain: bool
    kept: Any

    @classmethod
    def of(cls, problem: Problem, method: str, eps: float) -> Call:
        """Prepare a batch."""
        compiled, counts = CompiledCall.of(problem), row_counts(problem)
        total, m, n = compiled.shape
        pairs = (problem.A_ub, problem.b_ub), (problem.A_eq, problem.b_eq)
        rows = CONSTRAINT_ROWS.of(
            problem.dtype,
            *[part for C, d in pairs for part in sides_of(C, d, n, problem.batch)],
            *counts,
            Options.of(problem).same_l2,
            max(1, min(MOST_AT_ONCE, total // TURNS)),
            BY_GRAM if method == "gram" else BY_QR,
            problem.is_gram,
            eps,
            None,
            None,
        )
        work = float(total) * n * n * (m + n + sum(counts))
        return cls(compiled._replace(work=work), rows.packed(), False, rows)

    def pack(self, problem: Problem, duals: Sequence[Array]) -> bytearray:
        """``ConstraintRows`` with the addresses of all arrays."""
        rows = bytearray(self.rows)
        if self.is_plain:
            given = problem[-5:-1]  # A_ub to b_eq
            for offset, array in zip(OFFSETS, given, strict=True):
                if array is not None:
                    ADDRESS.pack_into(rows, offset, address_of(array))
        DUALS.pack_into(rows, DUALS_OFFSET, *map(address_of, duals))
        return rows


_calls: dict[Any, Call] = {}
"""What depends on shapes and numbers only, for later calls; at most `CACHED`."""


def prepare(problem: Problem, method: str, eps: float) -> Call:
    """Prepare a batch, or find what was prepared for a batch of the same kind.

    It is as for ``dense.compiled_call``; the arrays of constraints are contiguous, too.
    """
    A, b, rows = problem.A, problem.b, problem[-5:-1]
    flags = [array.flags for array in (A, b, *rows) if array is not None]
    is_plain = all(flag.c_contiguous and flag.aligned for flag in flags)
    if not is_plain or problem.weights is not None:
        return Call.of(problem, method, eps)
    shapes = [None if one is None else (one.shape, one.dtype.char) for one in rows]
    key = A.shape, b.shape, A.dtype.char, problem.start is None, *shapes
    key += (problem[2], problem[4:8], problem[9:13], problem[-1], method, eps)
    try:
        return _calls[key]
    except TypeError:  # an option is an array
        return Call.of(problem, method, eps)
    except KeyError:
        call = Call.of(problem, method, eps)
    systems, _ = call.compiled.kept
    offsets = [systems[f"{name}_offset"] for name in ("A", "b")]
    offsets += [call.kept[f"{name}_offset"] for name in ROWS]
    is_converted = any(one is not None and one.dtype != np.float64 for one in rows)
    if is_converted or any(offset is not None for offset in offsets):
        return call
    if len(_calls) >= CACHED:
        _calls.clear()
    compiled = call.compiled._replace(A=None, b=None, kept=())
    call = call._replace(compiled=compiled, is_plain=True, kept=())
    return _calls.setdefault(key, call)


def row_counts(problem: Problem) -> tuple[int, int]:
    """The rows of A_ub and of A_eq."""
    pair = problem.b_ub, problem.b_eq
    below, equal = (0 if side is None else side.shape[-1] for side in pair)
    return below, equal


def sides_of(
    C: Array | None, d: Array | None, n: int, batch: tuple[int, ...]
) -> tuple[Any, ...]:
    """A pair of arrays in float64, where systems begin, and strides."""
    if C is None or d is None:
        none = no_rows(n)
        return none, *NO_OFFSET, 0, 0, none, *NO_OFFSET, 0
    C = drop_repeats(C, 2).astype(np.float64, copy=False)
    d = drop_repeats(d, 1).astype(np.float64, copy=False)
    of_C, of_d = batch_offsets(C, 2, batch), batch_offsets(d, 1, batch)
    return C, *of_C, *strides(C, 2), d, *of_d, *strides(d, 1)


@functools.lru_cache(CACHED)
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
