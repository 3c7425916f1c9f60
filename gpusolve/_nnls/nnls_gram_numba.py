"""Non-negative least squares from the Gram matrix: the CPU path, compiled by Numba.

It solves one system after another. The steps and their names are those of the
specification (`gpusolve.reference.nnls_gram`), and its constants are passed to the
compiled functions. Sums run over contiguous rows of A^T, G and H.

Its parts are in the files `numba_*.py`. Numba stores the machine code of all parts on
disk; a fingerprint of the files tells it when to renew the code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._device.compiled import compiled, fingerprint, merged
from .._numerics import certificate
from .._numerics.scaling import Array, Mask
from .._numerics.solution import (
    BY_GRAM,
    CONVERGED,
    ITERATION_LIMIT,
    NOT_FINITE,
    UNCERTIFIED,
    Solution,
    default_tolerance,
)
from .inputs import Problem
from .numba_active_set import (
    clear,
    enter,
    enter_guessed,
    make_c,
    make_feasible,
    make_sum,
)
from .numba_certificate import certify, correct_gradient, refresh
from .numba_residual import make_gradient, residual
from .numba_run import (
    ALL_X,
    ANGLE,
    BY_X,
    DOWNDATES,
    GUESS,
    IS_PASSIVE,
    KKT,
    LENGTH,
    MULTIPLIER,
    NIT,
    REST,
    RNORM,
    SIZE,
    STATUS,
    UPDATES,
    WITNESS_W,
    ActiveSet,
    hidden_by_rounding,
    make_gram,
)
from .numba_sums import Integers, copy, ratio, shifted
from .numba_system import (
    B_POWER,
    LOWER,
    MAGNITUDE,
    NORM,
    UPPER,
    Batch,
    Limits,
    System,
    first_rest,
    keeps_sum,
    one_of,
    rescaled,
    scale_matrix,
    scale_system,
    unscaled,
)
from .part import Part

COLUMNS_PER_SYSTEM = 32
"""``A^T A`` is computed if A has at most this number of columns per system that shares
it. Else only a few of its elements are needed: gradients are computed from A."""


class Results(NamedTuple):
    """The results of all systems.

    Attributes
    ----------
    x, dual : (systems, n) array
    numbers : (systems, 6) array
    counts : (systems, 5) array
        As in `ActiveSet`; STATUS is the final one.
    settled : (systems,) array
        Whether no other method could improve the solution.
    """

    x: Array
    dual: Array
    numbers: Array
    counts: Integers
    settled: Integers


@merged
def start(system: System, run: ActiveSet, limits: Limits) -> bool:
    """Let all variables rest next to 0; returns whether the guess is another point."""
    guessed = False
    run.counts[:] = 0
    run.index_of[IS_PASSIVE, :] = 0
    run.numbers[MULTIPLIER] = 0
    for j in range(len(run.of[REST])):
        run.of[REST, j] = first_rest(system, j)
        guessed = guessed or run.of[GUESS, j] != run.of[REST, j]
    if limits.has_sum:
        make_sum(system, run, limits)
    elif run.has_gram:
        make_c(system, run, limits)
    return guessed


@merged
def solve_one(
    system: System, run: ActiveSet, limits: Limits, results: Results, at: int
) -> None:
    """Iterate to convergence; writes the best x, its gradient and its certificate.

    Starts at the guess.
    """
    counts, found, best = run.counts, run.numbers, results.numbers[at]
    guessed = start(system, run, limits)
    most = 0 if limits.has_sum else limits.most_entering
    fresh, entered_since, refreshes = False, True, 0
    while True:
        if not fresh:
            make_gradient(system, run, limits)
        if guessed:
            enter_guessed(system, run, limits)
            guessed, fresh = False, False
            if hidden_by_rounding(system, run, limits) and not limits.has_sum:
                clear(system, run, limits)
            most = 0 if counts[LENGTH] else limits.most_entering
            continue
        converged = counts[STATUS] == CONVERGED
        entered = converged and enter(system, run, limits, most, fresh)
        if converged and (entered or most == 0):
            moved = make_feasible(system, run, limits)
            most, fresh = limits.most_entering if moved else 1, False
            entered_since = entered_since or entered
            continue
        follows = refresh(system, run, limits)
        residual(system, run, limits)
        certify(system, run, limits)
        better = refreshes == 0 or found[KKT] < best[KKT]
        if better:
            copy(best, found)
            copy(results.dual[at], run.of[WITNESS_W])
            copy(results.x[at], run.of[ALL_X])
        refreshes += 1
        tol = limits.enough * (1 + found[SIZE])
        goes_on = (better or entered_since) and found[KKT] > tol
        converged = counts[STATUS] == CONVERGED
        if not goes_on or refreshes == limits.refreshes or not converged:
            break
        correct_gradient(system, run, limits)
        entered_since, fresh = False, True
        most = limits.most_entering if follows else 0
        if found[KKT] > limits.drift * tol and not limits.has_sum:
            copy(run.of[GUESS], results.x[at])
            guessed = True
            clear(system, run, limits)
    copy(results.counts[at], counts)


@merged
def make_guess(
    batch: Batch, k: int, system: System, run: ActiveSet, limits: Limits
) -> None:
    """The starting point within the bounds, unless rounding hides what it fits."""
    given, guess = one_of(batch.start, k), run.of[GUESS]
    size_to_b = 0.0
    for j in range(len(guess)):
        lower, upper = system.of[LOWER, j], system.of[UPPER, j]
        guess[j] = first_rest(system, j)
        if len(given):
            value = rescaled(system, j, given[j]) if math.isfinite(given[j]) else 0.0
            guess[j] = min(max(value, lower), upper)
        size_to_b += system.of[NORM, j] * abs(guess[j])
    size_to_b = ratio(size_to_b, system.numbers[MAGNITUDE])
    if not limits.eps * size_to_b <= limits.hidden:
        for j in range(len(guess)):
            guess[j] = first_rest(system, j)


@merged
def conclude(system: System, limits: Limits, results: Results, at: int) -> None:
    """Decide on the status, and write x and its certificate in the original units."""
    x, dual, found = results.x[at], results.dual[at], results.numbers[at]
    b_power = int(system.numbers[B_POWER])
    keeps = not limits.has_sum or keeps_sum(system, limits, x)
    for j in range(len(x)):
        x[j] = unscaled(system, j, x[j])
        dual[j] = shifted(dual[j], -system.power[j] - b_power)
    found[RNORM] = shifted(found[RNORM], -b_power)
    tol, size_to_b = limits.tol, found[SIZE]
    visible = limits.eps * size_to_b <= limits.hidden and keeps
    most = limits.certified
    by_x = max(tol, most + limits.rounded * limits.eps * size_to_b)
    certified = visible and found[BY_X] <= by_x and found[ANGLE] <= max(tol, most)
    most = limits.convincing * limits.eps
    by_x = max(tol, most * (1 + size_to_b))
    convincing = visible and found[BY_X] <= by_x and found[ANGLE] <= max(tol, most)
    results.settled[at] = convincing
    if results.counts[at, STATUS] == ITERATION_LIMIT:
        results.counts[at, STATUS] = CONVERGED if convincing else ITERATION_LIMIT
    else:
        results.counts[at, STATUS] = CONVERGED if certified else UNCERTIFIED


@merged
def system_in(space: Array, integers: Integers, rows: int, n: int) -> System:
    """Cut a system from `space` and `integers`."""
    columns, space = space[: n * rows].reshape((n, rows)), space[n * rows :]
    of, space = space[: 7 * n].reshape((7, n)), space[7 * n :]
    return System(columns, space[:rows], of, integers[:n], space[rows:][:2])


@merged
def active_set(
    has_gram: bool, space: Array, integers: Integers, rows: int, n: int, h: int
) -> ActiveSet:
    """Cut the state of a run from `space` and `integers`; h is the capacity."""
    kept = n if has_gram else 0
    G, space = space[: kept * n].reshape((kept, n)), space[kept * n :]
    H, space = space[: h * h].reshape((h, h)), space[h * h :]
    at, space = space[: 8 * (h + 1)].reshape((8, h + 1)), space[8 * (h + 1) :]
    of, space = space[: 8 * n].reshape((8, n)), space[8 * n :]
    long = rows + n
    residuals, space = space[: 3 * long].reshape((3, long)), space[3 * long :]
    index_of, integers = integers[: 3 * n].reshape((3, n)), integers[3 * n :]
    variable, integers = integers[: h + 1], integers[h + 1 :]
    order, counts = integers[:n], integers[n:][:5]
    for j in range(n):
        order[j] = j
    numbers = space[:6]
    arrays = at, of, variable, index_of, residuals, numbers, counts, order
    return ActiveSet(H, G, has_gram, *arrays)


def solver(sources: int) -> Callable[..., None]:
    """The function that solves all systems; Numba compiles it for these sources."""

    @compiled
    def solve_all(
        batch: Batch,
        limits: Limits,
        capacity: int,
        has_gram: bool,
        space: Array,
        integers: Integers,
        results: Results,
    ) -> None:
        """Scale and solve one system after another; writes `results`."""
        _ = sources  # in the closure, so that Numba notices when it changes
        m, n = batch.A.shape[1:]
        rows = m + limits.has_sum
        system = system_in(space, integers, rows, n)
        used = (n + 1) * rows + 7 * n + 2
        run = active_set(has_gram, space[used:], integers[n:], rows, n, capacity)
        for k in range(len(results.x)):
            if k == 0 or max(len(batch.A), len(batch.root_weight)) > 1:
                scale_matrix(batch, k, limits, system)
                if has_gram:
                    make_gram(system, run.order, run.G)
            if scale_system(batch, k, limits, system):
                make_guess(batch, k, system, run, limits)
                solve_one(system, run, limits, results, k)
                conclude(system, limits, results, k)
            else:
                results.counts[k, STATUS] = NOT_FINITE
                results.settled[k] = True

    return solve_all


solve_all = solver(fingerprint(__package__, "numba_"))


# ---- the batch -----------------------------------------------------------------------


def nnls_gram(problem: Problem, part: Part) -> tuple[Solution, Mask]:
    """Solve the systems of a chunk in float64; those with NaN or infinity get NaN.

    The mask tells which solutions are settled: no other method could improve them.
    """
    dtype, tol = problem.dtype, problem.cpu_tolerance
    systems, n = len(part.b), part.A.shape[-1]
    m = part.A.shape[-2] + (part.sum_to is not None)
    limits = Limits(
        tol=tol,
        enough=max(tol, default_tolerance(dtype)),
        maxiter=problem.iteration_limit,
        eps=float(np.finfo(dtype).eps),
        single=bool(dtype == np.float32),
        has_ridge=part.has_ridge,
        has_sum=part.sum_to is not None,
        has_penalty=bool((part.l1 != 0).any()),
        hidden=certificate.HIDDEN[dtype],
        certified=certificate.CERTIFIED[dtype],
    )

    def batched(array: Array | None, *shape: int) -> Array:
        """With a leading axis, contiguous and writable."""
        array = np.zeros(shape) if array is None else array
        axes = len(shape)
        if array.ndim <= axes:
            array = np.broadcast_to(array, shape)[None]
        return np.require(array, np.float64, ["C", "W"])

    with np.errstate(all="ignore"):
        root = batched(np.sqrt(part.l2), n)
        weights = None if part.weights is None else np.sqrt(part.weights)
    shares = part.A.ndim == 2 and (weights is None or weights.ndim == 1)
    finite = np.nan_to_num(root, posinf=0.0)
    column_root = finite.max(axis=0, keepdims=True) if shares else root
    batch = Batch(
        A=batched(part.A, *part.A.shape[-2:]),
        b=batched(part.b, part.A.shape[-2]),
        root_weight=batched(weights, 0 if weights is None else part.A.shape[-2]),
        root=root,
        column_root=column_root,
        l1=batched(part.l1, n),
        lower=batched(part.lower, n),
        upper=batched(part.upper, n),
        sum_to=batched(part.sum_to),
        start=batched(part.start, n if part.start is not None else 0),
    )
    used_by = math.prod(problem.batch) if shares else 1
    has_gram = n <= COLUMNS_PER_SYSTEM * used_by
    h = n if limits.has_ridge else min(m, n)
    numbers = (n + 1) * m + 7 * n + 2  # System
    numbers += has_gram * n * n + h * h + 8 * (h + 1) + 8 * n + 3 * (m + n) + 6
    space, integers = np.zeros(numbers), np.zeros(5 * n + h + 1 + 5, np.int64)
    solution = Solution.blank((systems,), n, np.dtype(np.float64))
    results = Results(
        x=solution.x,
        dual=solution.dual,
        numbers=np.full((systems, 6), np.nan),
        counts=np.zeros((systems, 5), np.int64),
        settled=np.zeros(systems, np.int64),
    )
    solve_all(batch, limits, h, has_gram, space, integers, results)
    counts = results.counts.T.astype(np.int32)
    return solution._replace(
        rnorm=results.numbers[:, RNORM],
        kkt=results.numbers[:, KKT],
        nit=counts[NIT],
        status=counts[STATUS],
        n_updates=counts[UPDATES],
        n_downdates=counts[DOWNDATES],
        method=np.full(systems, BY_GRAM, np.uint8),
    ), results.settled.astype(bool)
