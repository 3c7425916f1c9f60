"""Least squares with linear constraints on a CPU, by the compiled object."""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, address_of, empty_together
from .._device.launch import CACHED
from .._numerics.solution import Solution
from .dense import MOST_AT_ONCE, TURNS, CompiledCall, run
from .launch_arguments import Options
from .nnls_constrained_kernel import CONSTRAINT_ROWS, constraint_rows, row_counts
from .problem import Problem

ROWS = "C_ub", "d_ub", "C_eq", "d_eq"
"""The arrays of the constraints in ``ConstraintRows``."""

ADDRESS, DUALS = struct.Struct("P"), struct.Struct("PP")
OFFSETS = tuple([CONSTRAINT_ROWS.offset(name) for name in ROWS])
DUALS_OFFSET = CONSTRAINT_ROWS.offset("dual_ub")


def solve(
    library: ctypes.CDLL, problem: Problem, method: str, eps: float = 0.0
) -> Solution:
    """Solve the systems of the batch; a system may be left for another solver.

    `eps` is as for `constraint_rows`.
    """
    call = prepare(problem, method, eps)
    arrays, written = empty_together(call.compiled.layout, call.compiled.size)
    arrays[-1][:] = 0
    if problem.start is not None:
        arrays[0][...] = problem.start
    duals = [np.empty((*problem.batch, k), problem.dtype) for k in row_counts(problem)]
    systems = call.compiled.pack(problem.A, problem.b, written)
    rows = call.pack(problem, duals)
    function = functions(library, problem.dtype)
    run(call.compiled, (problem, arrays), function, systems, rows)
    return Solution(*arrays[:-2], *duals)


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
        ``ConstraintRows`` of ``constrained_system.cuh``.
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
        compiled = CompiledCall.of(problem)
        total, m, n = compiled.shape
        at_once = max(1, min(MOST_AT_ONCE, total // TURNS))
        same_l2 = Options.of(problem).same_l2
        rows = constraint_rows(problem, method, eps, same_l2, at_once)
        work = float(total) * n * n * (m + n + sum(row_counts(problem)))
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
