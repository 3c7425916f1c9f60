"""The path of a validated problem: to the device of its arrays, and to a result."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, get_args

from .._device.arrays import Array, as_array, is_cupy, namespace
from .._device.kernels import Device, current, device_of
from .._numerics.solution import INFEASIBLE, NOT_FINITE, AnySolution
from . import constrained, cpu, device
from .axes import AXES
from .inputs import Problem, validate
from .labels import Labels, label
from .methods import COMPARED
from .options import MethodName
from .result import NNLSResult
from .tikhonov import solve_stacked

METHODS = get_args(MethodName)
"""The methods for all problems."""

NNLS_METHODS = (*METHODS, *COMPARED)
"""The methods for non-negative least squares without a fixed sum."""


def check_method(method: str, methods: tuple[str, ...] = METHODS) -> None:
    """Raise ValueError if the method is not in `methods`."""
    if method not in methods:
        raise ValueError(f"method must be one of {methods}, got {method!r}")


def check_compared(method: str, A: Array, given: dict[str, Any]) -> None:
    """Raise ValueError if a compared method does not take what is given."""
    if is_cupy(A) and not COMPARED[method].on_devices:
        on_devices = (name for name in COMPARED if COMPARED[name].on_devices)
        raise ValueError(
            f"method must be one of {(*METHODS, *on_devices)} for arrays on a GPU, "
            f"got {method!r}"
        )
    if given["sum_to"] is not None:
        raise ValueError(f"method must be one of {METHODS} with sum_to, got {method!r}")
    if given["warm_start"] is not None and not COMPARED[method].starts:
        starting = (name for name in COMPARED if COMPARED[name].starts)
        others = (*METHODS, *starting)
        raise ValueError(
            f"method must be one of {others} with warm_start, got {method!r}"
        )


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
        return solve(validate(**{**given, "A": A}), target, method, labels)


def solve(
    problem: Problem, target: Device | None, method: str, labels: Labels | None = None
) -> NNLSResult[Any]:
    """Solve every system on the current device, or on the CPU if `target` is None."""
    solution = solve_problem(problem.simplified(), target, method)
    solution = replace_infeasible(problem, solution)
    return make_result(solution, problem._asdict(), labels)


def solve_problem(problem: Problem, target: Device | None, method: str) -> AnySolution:
    """The solution of every system that is feasible."""
    if problem.L is not None:
        return solve_stacked(problem, lambda rows: solve_problem(rows, target, method))
    if problem.has_constraints:
        return constrained.solve(problem, target, method)[0]
    if target is None:  # one call less than solve_within_bounds, for small systems
        return cpu.nnls(problem, method)
    return device.nnls(problem, target, method)


def make_result(
    solution: AnySolution, given: dict[str, Any], labels: Labels | None
) -> NNLSResult[Any]:
    """The result of a solution, with labels on its fields.

    NumPy's arrays without axes become scalars.
    """
    fields = {
        name: field if field.ndim else field[()]
        for name, field in solution._asdict().items()
    }
    result: NNLSResult[Any] = NNLSResult(**fields, _given=given)
    return result if labels is None else labelled(result, labels)


def labelled(result: NNLSResult[Any], labels: Labels) -> NNLSResult[Any]:
    """The result with labels on its fields."""
    fields = result._asdict().items()
    named = {name: label(labels, field, name) for name, field in fields}
    return replace(result, **named, _labels=labels)


def replace_infeasible(problem: Problem, solution: AnySolution) -> AnySolution:
    """Replace the results of infeasible systems."""
    mask = problem.infeasible
    if mask is None:
        return solution
    xp, mask = namespace(problem.A), mask & (solution.status != NOT_FINITE)
    reals = {
        name: xp.where(mask[..., None] if AXES[name] else mask, math.nan, array)
        for name in ("x", "rnorm", "dual", "kkt", "dual_ub", "dual_eq")
        for array in (getattr(solution, name, None),)
        if array is not None
    }
    status = xp.where(mask, xp.int32(INFEASIBLE), solution.status)
    return solution._replace(**reals, status=status)
