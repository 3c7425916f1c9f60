"""The path of a call: to the device of its arrays, in blocks, or by Dask."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._device.arrays import Array, are_native, as_array, floating, is_cupy, is_dask
from .._device.kernels import Device, current, device_of
from .._device.launch import CACHED
from .._device.objects import load
from .._numerics.certificate import Solution
from . import constrained, dense
from .arguments import COMPARED, METHODS
from .blocks import Batch, LazyProblem, Solve, solve_blocks, solve_chunks
from .dense import CompiledCall
from .labels import Labels, read
from .nnls_constrained_kernel import is_too_large
from .problem import DOUBLE, Problem, replace_infeasible, solve_stacked
from .result import NNLSResult, make_result
from .sparse import solve_sparse
from .sparse_matrices import is_sparse
from .validation import PAIRS, validate, without_masks


def least_squares(
    method: str, given: dict[str, Any], labels: Labels | None = None
) -> NNLSResult[Any]:
    """Validate the arguments of ``lsq_linear`` and solve every system.

    The results have the labels. A call that is known is not validated again.
    """
    A, compared = as_array(given["A"], "A"), COMPARED.get(method)
    target = device_of(A) if compared is None or compared.on_devices else None
    given, key = {**given, "A": A}, None
    if not (target or compared or labels):
        if type(given["b"]) is not np.ndarray or A.dtype not in KNOWN:
            given |= floating({"A": A, "b": given["b"]})
        key = key_of(method, given)
        known = None if key is None else solve_known(key, method, given)
        if known is not None:
            return known
    if compared is not None:
        check_compared(method, A, given)
    with current(target):
        problem = validate(**given)
        if key is not None:
            remember(key, method, problem)
        solution = solve_problem(problem.simplified(), target, method)
        solution = replace_infeasible(problem, solution)
        return make_result(solution, problem._asdict(), labels)


def dispatch(
    method: str,
    methods: tuple[str, ...],
    given: dict[str, Any],
    defaults: dict[str, Any],
    options: Any,
    solve: Solve = least_squares,
) -> NNLSResult[Any]:
    """Solve every system where its arrays are, in blocks, or by Dask.

    Parameters
    ----------
    method : str
        Of `methods`.
    given : dict
        The arguments that are not options.
    defaults, options : dict
        The defaults of all options of the public function, and the given options.
    solve : callable
        Solves systems that are on one device.
    """
    check_method(method, methods)
    given = completed(given, defaults, options)
    devices, out = given.pop("devices"), given.pop("out")
    labels, lazy = None, False
    if not are_native(given.values()):
        given, labels = read(without_masks(given) if "weights" in given else given)
        lazy = any(map(is_dask, given.values()))
    if type(given["A"]) is not np.ndarray and is_sparse(given["A"]):
        return solve_sparse(method, given, devices, out, labels)
    if not lazy and devices is None and out is None:
        return solve(method, given, labels)
    batch = Batch.of(given, solve)
    if method in COMPARED:
        check_compared(method, batch.arrays["A"], given)
    solve_batch = solve_chunks if lazy else solve_blocks
    return make_result(
        solve_batch(method, batch, devices, out), LazyProblem(batch), labels
    )


# ---- calls that are known ------------------------------------------------------------

KNOWN = DOUBLE, np.dtype(np.float32)
"""The dtypes of the arrays of known calls."""

ROWS = sum(PAIRS, ())
"""The arguments that are linear constraints."""

_known: dict[Any, tuple[dict[str, Any], CompiledCall]] = {}
"""Calls on a CPU whose only arrays are A, b, the start and constraints: the fields of
the `Problem` without these arrays, and the call for any such arrays. At most `CACHED`.
"""


def key_of(method: str, given: dict[str, Any]) -> Any:
    """Everything that a call depends on besides the elements of A, b, start and rows.

    None if other arguments are arrays, or if not all are contiguous, of one dtype; rows
    are float64.
    """
    dtype = given["A"].dtype
    if dtype not in KNOWN:
        return None
    others = given.copy()
    for name in ("A", "b", "warm_start", *ROWS):
        array = given.get(name)
        if array is None:
            continue
        if type(array) is not np.ndarray:
            return None
        flags = array.flags
        if not (flags.c_contiguous and flags.aligned) or array.dtype is not (
            DOUBLE if name in ROWS else dtype
        ):
            return None
        others[name] = array.shape
    values = tuple(others.values())
    key = method, dtype.char, *others, *values, *map(type, values)
    try:
        hash(key)
    except TypeError:  # an option is an array
        return None
    return key


def solve_known(key: Any, method: str, given: dict[str, Any]) -> NNLSResult[Any] | None:
    """The result of a call; None if it is not known, or leaves a system unsettled."""
    known, library = _known.get(key), load()
    if known is None or library is None:
        return None
    (fields, call), A, b = known, given["A"], given["b"]
    found = {**fields, "A": A, "b": b, "start": given.get("warm_start")}
    arrays: tuple[Array | None, ...] = A, b
    if call.has_rows:
        rows = {name: given.get(name) for name in ROWS}
        arrays, found = (*arrays, *rows.values()), {**found, **rows}
    solution = call.solve(library, method, found["start"], arrays)
    if call.has_rows and solution.status.min() == constrained.UNSETTLED:
        return None
    return make_result(solution, found, None)


def remember(key: Any, method: str, problem: Problem) -> None:
    """Keep what follows from the key of a problem, unless that is too little."""
    has_rows = problem.has_constraints or problem.gram_dtype is not None
    if problem.L is not None or problem.infeasible is not None or load() is None:
        return
    if has_rows and is_too_large(problem, None):
        return
    call = CompiledCall.of(problem.simplified(), method, has_rows).for_others()
    if call is not None:
        if len(_known) >= CACHED:
            _known.clear()
        fields = problem._asdict()
        for name in ("A", "b", "start", *ROWS):
            del fields[name]
        if not has_rows:
            fields |= dict.fromkeys(ROWS)
        _known[key] = fields, call


# ---- below the entrance --------------------------------------------------------------


def completed(
    given: dict[str, Any], defaults: dict[str, Any], options: Any
) -> dict[str, Any]:
    """All arguments by name; TypeError for an option without a default."""
    found = {**given, **defaults, **options}
    if len(found) > len(given) + len(defaults):
        unknown = next(name for name in options if name not in defaults)
        raise TypeError(
            f"got an unexpected keyword argument {unknown!r}; the options are "
            f"{', '.join(defaults)}"
        )
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
