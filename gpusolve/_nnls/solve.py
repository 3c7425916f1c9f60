"""The path of arguments in memory: to the device of their arrays, and to a result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, as_array, floating, is_cupy, namespace
from .._device.kernels import Device, current, device_of
from .._device.launch import CACHED
from .._device.objects import load
from .._numerics.solution import INFEASIBLE, NOT_FINITE, Solution
from . import constrained, dense
from .labels import Labels, label
from .options import COMPARED, METHODS
from .problem import AXES, DOUBLE, Problem
from .result import NNLSResult
from .tikhonov import solve_stacked
from .validation import validate

Solve = Callable[..., NNLSResult[Any]]
"""`least_squares`, or the same for quadratic programs: ``solve(method, given)``."""


KNOWN = DOUBLE, np.dtype(np.float32)
"""The dtypes of the arrays of known calls."""


class KnownCall(NamedTuple):
    """The part of a call that its shapes, dtypes and numbers determine.

    Attributes
    ----------
    fields : dict
        Of the `Problem`, without A, b and the start.
    compiled : CompiledCall
        For any A and b.
    """

    fields: dict[str, Any]
    compiled: dense.CompiledCall


_known: dict[Any, KnownCall] = {}
"""Calls on a CPU whose only arrays are A, b and the start; at most `CACHED`."""


def least_squares(
    method: str, given: dict[str, Any], labels: Labels | None = None
) -> NNLSResult[Any]:
    """Validate the arguments of ``lsq_linear`` and solve every system.

    The results have the labels. A call that is known is not validated again.
    """
    A, compared = as_array(given["A"], "A"), COMPARED.get(method)
    target = device_of(A) if compared is None or compared.on_devices else None
    given = {**given, "A": A}
    key = None
    if not (target or compared or labels):
        if type(given["b"]) is not np.ndarray or A.dtype not in KNOWN:
            given |= floating({"A": A, "b": given["b"]})
        key = key_of(method, given)
    known, library = _known.get(key), load()
    if known is not None and library is not None:
        A, b, start = given["A"], given["b"], given.get("warm_start")
        solution = known.compiled.solve(library, method, A, b, start)
        of_call = {"A": A, "b": b, "start": start}
        return make_result(solution, {**known.fields, **of_call}, None)
    if compared is not None:
        check_compared(method, A, given)
    with current(target):
        problem = validate(**given)
        if key is not None and problem.infeasible is None:
            remember(key, problem)
        solution = solve_problem(problem.simplified(), target, method)
        solution = replace_infeasible(problem, solution)
        return make_result(solution, problem._asdict(), labels)


def key_of(method: str, given: dict[str, Any]) -> Any:
    """Everything that a call depends on besides the elements of A, b and the start.

    None if other arguments are arrays, or if not all are contiguous, of one dtype.
    """
    arrays = A, b, start = given["A"], given["b"], given.get("warm_start")
    for array in arrays:
        if array is None:
            continue
        if type(array) is not np.ndarray or array.dtype is not A.dtype:
            return None
        flags = array.flags
        if not (flags.c_contiguous and flags.aligned and A.dtype in KNOWN):
            return None
    others = {**given, "A": A.shape, "b": b.shape}
    others["warm_start"] = None if start is None else start.shape
    values = tuple(others.values())
    key = method, A.dtype.char, *others, *values, *map(type, values)
    try:
        hash(key)
    except TypeError:  # an option is an array
        return None
    return key


def remember(key: Any, problem: Problem) -> None:
    """Keep what follows from the key of a problem, unless that is too little."""
    if problem.L is not None or problem.has_constraints or load() is None:
        return
    compiled = dense.CompiledCall.of(problem.simplified()).for_others()
    if compiled is not None:
        if len(_known) >= CACHED:
            _known.clear()
        fields = problem._asdict()
        for name in ("A", "b", "start"):
            del fields[name]
        _known[key] = KnownCall(fields, compiled)


def completed(
    given: dict[str, Any], defaults: dict[str, Any], options: Any
) -> dict[str, Any]:
    """All arguments by name; TypeError for an option without a default."""
    found = {**given, **defaults, **options}
    if len(found) > len(given) + len(defaults):
        unknown = next(name for name in options if name not in defaults)
        raise TypeError(f"got an unexpected keyword argument {unknown!r}")
    return found


def check_method(method: str, methods: tuple[str, ...] = METHODS) -> None:
    """Raise ValueError if the method is not in `methods`."""
    if method not in methods:
        raise ValueError(f"method must be one of {methods}, got {method!r}")


def check_compared(method: str, A: Array, given: dict[str, Any]) -> None:
    """Raise ValueError if a compared method does not take the arguments."""
    others: tuple[str, ...] = ()
    if is_cupy(A) and not COMPARED[method].on_devices:
        others = tuple(name for name in COMPARED if COMPARED[name].on_devices)
        where = "for arrays on a GPU"
    elif given["sum_to"] is not None:
        where = "with sum_to"
    elif given["warm_start"] is not None and not COMPARED[method].starts:
        others = tuple(name for name in COMPARED if COMPARED[name].starts)
        where = "with warm_start"
    else:
        return
    raise ValueError(
        f"method must be one of {(*METHODS, *others)} {where}, got {method!r}"
    )


def solve_problem(problem: Problem, target: Device | None, method: str) -> Solution:
    """The solution of every system that is feasible."""
    if problem.L is not None:
        return solve_stacked(problem, lambda rows: solve_problem(rows, target, method))
    if problem.has_constraints:
        return constrained.solve(problem, target, method)
    return dense.solve_within_bounds(problem, target, method)


def make_result(
    solution: Solution, given: dict[str, Any], labels: Labels | None
) -> NNLSResult[Any]:
    """The result of a solution, with labels on its fields.

    NumPy's arrays without axes become scalars.
    """
    fields: list[Any] = [f if f is None or f.ndim else f[()] for f in solution]
    result: NNLSResult[Any] = NNLSResult(*fields, *[given])
    if labels is None:
        return result
    named = {name: label(labels, v, name) for name, v in result._asdict().items()}
    return replace(result, **named, _labels=labels)


def replace_infeasible(problem: Problem, solution: Solution) -> Solution:
    """Replace the results of infeasible systems."""
    mask = problem.infeasible
    if mask is None:
        return solution
    xp, mask = namespace(problem.A), mask & (solution.status != NOT_FINITE)
    reals = {
        name: xp.where(mask[..., None] if AXES[name] else mask, math.nan, array)
        for name, array in solution.arrays().items()
        if array.dtype.kind == "f"
    }
    status = xp.where(mask, xp.int32(INFEASIBLE), solution.status)
    return solution._replace(**reals, status=status)
