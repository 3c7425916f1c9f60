"""The path of a validated problem: to the device of its arrays, and to a result."""

from __future__ import annotations

from .._device.arrays import namespace, unwrapped
from .._device.kernels import Device
from ..reference._nnls_qr import INFEASIBLE, NOT_FINITE, Solution
from . import cpu, device
from .inputs import Problem
from .result import NNLSResult

METHODS = ("auto", "qr", "gram")


def check_method(method: str) -> None:
    """Raise ValueError if the method is unknown."""
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, got {method!r}")


def solve(problem: Problem, target: Device | None, method: str) -> NNLSResult:
    """Solve every system on the current device, or on the CPU if `target` is None."""
    if target is None:
        solution = cpu.nnls(problem, method)
    else:
        solution = device.nnls(problem, target, method)
    solution = without_infeasible(problem, solution)
    fields = {name: unwrapped(field) for name, field in solution._asdict().items()}
    return NNLSResult(**fields, _given=problem._asdict())


def without_infeasible(problem: Problem, solution: Solution) -> Solution:
    """Replace the results of systems that have no solution."""
    mask, xp = problem.infeasible, namespace(problem.A)
    if mask is None:
        return solution
    mask = mask & (solution.status != NOT_FINITE)
    reals = {
        name: xp.where(mask.reshape(mask.shape + (1,) * axes), xp.nan, array)
        for name, axes in (("x", 1), ("rnorm", 0), ("dual", 1), ("kkt", 0))
        for array in (getattr(solution, name),)
    }
    status = xp.where(mask, xp.int32(INFEASIBLE), solution.status)
    return solution._replace(**reals, status=status)
