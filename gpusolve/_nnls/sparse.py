"""Least squares with sparse matrices: from the arguments to a result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, floating, is_dask, namespace, on_host
from .._device.kernels import Device, current, device_of
from .._numerics.scaling import Mask
from .._numerics.solution import BY_GRAM, INFEASIBLE, NOT_FINITE, Solution
from .blocks import Batch, allocated, check_host
from .labels import Labels
from .problem import Problem
from .result import NNLSResult
from .solve import make_result, replace_infeasible
from .sparse_matrices import SparseMatrices
from .sparse_steps import SparseSteps
from .sparse_system import SparseSystem, norms_of, rows_of
from .validation import PAIRS, validate

METHODS = "auto", "gram"
"""The methods for sparse matrices, which are the same."""


def solve_sparse(
    method: str,
    given: dict[str, Any],
    devices: Any,
    out: Any,
    labels: Labels | None,
) -> NNLSResult[Any]:
    """Validate the arguments of ``lsq_linear`` for a sparse A, and solve."""
    check_options(method, given, devices)
    A = SparseMatrices.of(given["A"])
    target = device_of(A.rows[0].data)
    with current(target):
        # An array that takes no memory stands for A as the arguments are validated.
        b = floating({"b": given["b"], **A.named_data()})["b"]
        A, blank = A.astype(b.dtype), A.blank(b.dtype)
        problem = validate(**{**given, "b": b, "A": blank})
        fields = None if out is None else fields_for(problem, out)
        found = replace_infeasible(problem, solve(A, problem, target))
    if fields is not None:
        fields.put(..., found)
        found = fields
    return make_result(found, {**problem._asdict(), "A": A}, labels)


def check_options(method: str, given: dict[str, Any], devices: Any) -> None:
    """Raise ValueError for what sparse matrices do not support."""
    if method not in METHODS:
        raise ValueError(
            f"method must be one of {METHODS} for a sparse A, got {method!r}"
        )
    if devices is not None:
        raise ValueError(
            "devices must be None for a sparse A, whose systems are solved where it "
            f"is, got {devices!r}"
        )
    dense = [name for name in sum(PAIRS, ()) if given.get(name) is not None]
    if dense:
        name = dense[0]
        raise ValueError(
            f"{name} must be None for a sparse A, got {type(given[name]).__name__}; "
            "call A.toarray() first"
        )
    lazy = [name for name, value in given.items() if is_dask(value)]
    if lazy:
        raise TypeError(
            f"{lazy[0]} must be an array in memory for a sparse A, got a dask array: "
            f"call {lazy[0]}.compute() first"
        )


def fields_for(problem: Problem, out: dict[str, Array]) -> Solution:
    """Arrays for the solution: from `out`, and new arrays for the other fields."""
    blank = Solution.blank((1,), problem.shape[1], problem.dtype)
    batch = Batch({"b": problem.b}, {}, problem.batch, blank, solve=solve_sparse)
    check_host(batch)
    return allocated(batch, out)


@np.errstate(all="ignore")
def solve(A: SparseMatrices, problem: Problem, target: Device | None) -> Solution:
    """Solve the systems of each matrix, in the dtype of the problem."""
    systems, infeasible = int(np.prod(problem.batch)), problem.infeasible
    solution = Solution.blank((systems,), problem.shape[1], problem.dtype)
    solution.method[:], solution.status[:] = BY_GRAM, NOT_FINITE
    possible = np.ones(systems, bool)
    if infeasible is not None:
        possible &= ~on_host(infeasible).reshape(-1)
    problem = problem.simplified()
    for k, at in groups(A, problem):
        some = problem.take(at)
        matrix, b = rows_of(some, A.rows[k])
        of_b = norms_of(b)
        finite = is_finite(some, matrix.data) & np.isfinite(of_b)
        solution.status[at[finite]] = INFEASIBLE
        good = np.flatnonzero(finite & possible[at])
        if len(good) < len(at):
            some, b = some.take(good), b[namespace(b).asarray(good)]
        if good.size:
            system = SparseSystem.of(some, matrix, b, of_b[good])
            solution.put(at[good], SparseSteps(system, some, target).solve())
    xp = namespace(problem.b)
    return Solution(
        *[
            xp.asarray(field.reshape(problem.batch + field.shape[1:]))
            for field in solution.arrays().values()
        ]
    )


def is_finite(problem: Problem, data: Array) -> Mask:
    """Mask of the systems with a finite matrix and finite options; bounds may not be.

    The norms of the right-hand sides say the same of b and of the prior.
    """
    xp = namespace(data)
    good = np.full(problem.batch, bool(xp.isfinite(data).all()))
    for bound in map(on_host, map(xp.asarray, problem.bounds)):
        good &= ~np.isnan(bound).any(axis=-1) if bound.ndim else ~np.isnan(bound)
    for option in (problem.l1, problem.l2):
        values = on_host(xp.asarray(option))
        good &= np.isfinite(values).all(axis=-1) if values.ndim else bool(values >= 0)
    if problem.sum_to is not None:
        good &= np.isfinite(on_host(xp.asarray(problem.sum_to)))
    return good


def groups(
    A: SparseMatrices, problem: Problem
) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Each matrix and the systems that share it, the weights, L and `lam`."""
    batch = problem.batch
    matrices = np.arange(len(A.rows))
    of_matrix = np.broadcast_to(matrices if A.ndim == 3 else matrices[0], batch)
    keys = [of_matrix.reshape(-1)]
    for array, core in ((problem.weights, 1), (problem.L, 2), (problem.lam, 0)):
        if array is not None and not isinstance(array, float):
            leading = array.shape[: array.ndim - core]
            numbers = np.arange(int(np.prod(leading))).reshape(leading)
            keys.append(np.broadcast_to(numbers, batch).reshape(-1))
    found, place = np.unique(np.stack(keys), axis=1, return_inverse=True)
    for k, matrix in enumerate(found[0]):
        yield int(matrix), np.flatnonzero(place.reshape(-1) == k)
