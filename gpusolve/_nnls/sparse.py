"""Least squares with sparse matrices: from the arguments to a result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array, floating, is_dask, namespace, on_host
from .._device.kernels import Device, current, device_of
from .._device.launch import pieces
from .._numerics.certificate import starting_points
from .._numerics.solution import BY_GRAM, CONVERGED, INFEASIBLE, Solution
from .blocks import Batch, allocated, check_host
from .labels import Labels
from .problem import PAIRS, Problem, validate
from .result import NNLSResult
from .solve import make_result, replace_infeasible
from .sparse_matrices import SparseMatrices
from .sparse_steps import WHOLE, SparseSteps
from .sparse_systems import SparseSystems, host_rows

METHODS = "auto", "gram"
"""The methods for sparse matrices, which are the same."""

AT_ONCE = 16
"""The most systems that share columns C of a matrix with more than `WHOLE` columns."""


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
        A, problem = validated(A, given)
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


def validated(
    A: SparseMatrices, given: dict[str, Any]
) -> tuple[SparseMatrices, Problem]:
    """The problem, with an array that takes no memory in place of A, and A itself."""
    b = floating({"b": given["b"], **A.named_data()})["b"]
    blank = A.blank(b.dtype)
    return A.astype(b.dtype), validate(**{**given, "b": b, "A": blank})


def solve(A: SparseMatrices, problem: Problem, target: Device | None) -> Solution:
    """Solve the systems of each matrix, in the dtype of the problem."""
    systems = int(np.prod(problem.batch))
    solution = Solution.blank((systems,), problem.shape[1], problem.dtype)
    solution.method[:] = BY_GRAM
    infeasible = problem.infeasible
    possible = np.ones(systems, bool)
    if infeasible is not None:
        possible &= ~on_host(infeasible).reshape(-1)
    for k, chosen in groups(A, problem):
        shared = SparseSystems.of(problem.simplified(), A.rows[k], chosen)
        for part in parts_of(problem, chosen):
            found = solve_shared(shared.take(part), possible[chosen[part]], target)
            with np.errstate(over="ignore"):
                solution.put(chosen[part], found)
    xp = namespace(problem.b)
    return Solution(
        *[
            xp.asarray(field.reshape(problem.batch + field.shape[1:]))
            for field in solution.arrays().values()
        ]
    )


def fields_for(problem: Problem, out: dict[str, Array]) -> Solution:
    """Arrays for the solution: from `out`, and new arrays for the other fields."""
    blank = Solution.blank((1,), problem.shape[1], problem.dtype)
    batch = Batch({"b": problem.b}, {}, problem.batch, blank, solve=solve_sparse)
    check_host(batch)
    return allocated(batch, out)


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


def parts_of(problem: Problem, chosen: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """Indices of the systems that are solved together."""
    most = len(chosen) if problem.shape[1] <= WHOLE else AT_ONCE
    for part in pieces(len(chosen), max(1, most)):
        yield np.arange(part.start, part.stop)


@np.errstate(all="ignore")
def solve_shared(
    systems: SparseSystems, possible: NDArray[np.bool_], target: Device | None
) -> Solution:
    """Solve the `possible` systems that share a matrix; x is in the given variables.

    Systems that are not solved from their warm start are solved without it.
    """
    steps, possible = SparseSteps(systems, target), possible & systems.finite
    start = host_rows(systems.problem, systems.problem.start, 1, systems.chosen)
    steps.solution.status[systems.finite & ~possible] = INFEASIBLE
    for guess in [None] if start is None else [start, None]:
        todo = np.flatnonzero(possible & (steps.solution.status != CONVERGED))
        if todo.size:
            x = systems.with_sum(starting_points(systems.scaled, guess))
            steps.run(x[todo], todo)
    if systems.prior is not None and possible.any():
        some = systems.take(np.flatnonzero(possible))
        rnorm = some.misfit(steps.solution.x[possible])
        steps.solution.rnorm[possible] = rnorm
    return steps.solution._replace(x=systems.scaled.unscale(steps.solution.x))
