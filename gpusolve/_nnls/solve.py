"""The path of arguments in memory: to the device of their arrays, and to a result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .._device.arrays import Array, as_array, is_cupy, namespace
from .._device.kernels import Device, current, device_of
from .._numerics.solution import INFEASIBLE, NOT_FINITE, Solution
from . import constrained, dense
from .labels import Labels, label
from .options import COMPARED, METHODS
from .problem import AXES, Problem, validate
from .result import NNLSResult
from .tikhonov import solve_stacked

Solve = Callable[..., NNLSResult[Any]]
"""`least_squares`, or the same for quadratic programs: ``solve(method, given)``."""


def least_squares(
    method: str, given: dict[str, Any], labels: Labels | None = None
) -> NNLSResult[Any]:
    """Validate the arguments of ``lsq_linear`` and solve every system.

    The results have the labels.
    """
    A, compared = as_array(given["A"], "A"), COMPARED.get(method)
    if compared is not None:
        check_compared(method, A, given)
    target = device_of(A) if compared is None or compared.on_devices else None
    with current(target):
        problem = validate(**{**given, "A": A})
        solution = solve_problem(problem.simplified(), target, method)
        solution = replace_infeasible(problem, solution)
        return make_result(solution, problem._asdict(), labels)


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
    if target is None:  # one call less than solve_within_bounds, for small systems
        return dense.solve_on_cpu(problem, method)
    return dense.solve_on_device(problem, target, method)


def make_result(
    solution: Solution, given: dict[str, Any], labels: Labels | None
) -> NNLSResult[Any]:
    """The result of a solution, with labels on its fields.

    NumPy's arrays without axes become scalars.
    """
    fields = {
        name: field if field is None or field.ndim else field[()]
        for name, field in solution._asdict().items()
    }
    result: NNLSResult[Any] = NNLSResult(**fields, _given=given)
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
