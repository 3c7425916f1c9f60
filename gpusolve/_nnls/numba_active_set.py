"""The passive set: which variables enter and leave it, and steps along it."""

from __future__ import annotations

import math

import numpy as np

from .._device.compiled import apart, called, inlined, merged
from .._numerics.scaling import Array
from .._numerics.solution import ITERATION_LIMIT, UNCERTIFIED
from .numba_residual import gradient_at
from .numba_run import (
    ALONG,
    CANDIDATE,
    DOWNDATES,
    GUESS,
    IS_PASSIVE,
    LENGTH,
    MULTIPLIER,
    NIT,
    PASSIVE_W,
    PRODUCT,
    REST,
    SLOPE,
    STATUS,
    STEP,
    UPDATES,
    ActiveSet,
    C,
    U,
    W,
    X,
    find_products,
    make_all_x,
    size,
)
from .numba_sums import add_square, dot, multiply, two_dots
from .numba_system import (
    DAMPING,
    IN_SUM,
    LOWER,
    MAGNITUDE,
    NORM,
    PENALTY,
    SQUARE,
    UPPER,
    Limits,
    System,
    points_inwards,
)


@inlined
def place(system: System, run: ActiveSet, j: int, value: float) -> None:
    """Let variable j rest at a value."""
    change = value - run.of[REST, j]
    if change != 0 and run.has_gram:
        for i in range(len(run.of[C])):
            run.of[C, i] -= change * run.G[j, i]
        run.of[C, j] -= change * system.of[DAMPING, j] ** 2
    run.of[REST, j] = value


@inlined
def project(system: System, run: ActiveSet, j: int) -> tuple[float, float]:
    """Project column j onto the passive columns; U has the coefficients.

    PRODUCT contains the products with the passive columns. Returns the square norm of
    the orthogonal part, and w along it.
    """
    length, u, g = run.counts[LENGTH], run.at[U], run.at[PRODUCT]
    multiply(run.H, run.order, g, length, u)
    square, along = two_dots(u, g, run.at[PASSIVE_W], length)
    square = system.of[SQUARE, j] + system.of[DAMPING, j] ** 2 - square
    return square, run.of[W, j] - along


@inlined
def append(
    system: System, run: ActiveSet, limits: Limits, j: int, x_j: float, least: float
) -> bool:
    """Append a variable if it is independent of the others and moves inwards.

    PRODUCT contains the products with the passive columns. `least` limits the decrease
    of the objective along the part of column j that is orthogonal to them.
    """
    length, u, H = run.counts[LENGTH], run.at[U], run.H
    if length == len(H):
        return False
    square, descent = project(system, run, j)
    if not square > limits.resolved * system.of[NORM, j] ** 2:
        return False
    root = math.sqrt(square)
    if run.of[W, j] < 0:
        descent = -descent
    if not descent > least * root:
        return False
    u[length] = -1.0
    for k in range(length + 1):
        u[k] /= root
        H[length, k] = H[k, length] = 0
    add_square(H, u, length + 1, 1.0)
    place(system, run, j, 0.0)
    run.variable[length] = j
    run.index_of[IS_PASSIVE, j] = 1
    run.at[X, length] = x_j
    run.at[PASSIVE_W, length] = run.of[W, j]
    run.counts[LENGTH] += 1
    run.counts[UPDATES] += 1
    return True


@called
def append_apart(
    system: System, run: ActiveSet, limits: Limits, j: int, x_j: float
) -> None:
    """Append a variable, whether it moves inwards or not; not often called."""
    apart()
    find_products(system, run, j, 0, run.counts[LENGTH])
    append(system, run, limits, j, x_j, -np.inf)


@inlined
def remove(system: System, run: ActiveSet, position: int, value: float) -> None:
    """Remove the variable at a position, and let it rest at a value.

    The last variable takes its position.
    """
    last = run.counts[LENGTH] - 1
    H, u, j = run.H, run.at[U], run.variable[position]
    place(system, run, j, value)
    square = H[position, position]
    root = math.sqrt(abs(square))
    for k in range(last + 1):
        u[k] = H[position, k] / root
    add_square(H, u, last + 1, -math.copysign(1.0, square))
    corner = H[last, last]
    for k in range(last):
        H[position, k] = H[k, position] = H[last, k]
    H[position, position] = corner
    run.index_of[IS_PASSIVE, j] = 0
    run.variable[position] = run.variable[last]
    run.at[X, position] = run.at[X, last]
    run.at[PASSIVE_W, position] = run.at[PASSIVE_W, last]
    run.counts[LENGTH] = last
    run.counts[DOWNDATES] += 1


@called
def clear(system: System, run: ActiveSet, limits: Limits) -> None:
    """Remove all variables; they rest at the bounds next to them."""
    apart()
    for k in range(run.counts[LENGTH]):
        j = run.variable[k]
        lower, upper = system.of[LOWER, j], system.of[UPPER, j]
        run.index_of[IS_PASSIVE, j] = 0
        run.of[REST, j] = (
            lower if run.at[X, k] - lower <= upper - run.at[X, k] else upper
        )
        if math.isinf(run.of[REST, j]):
            run.of[REST, j] = 0
    run.counts[LENGTH] = 0
    if run.has_gram:
        make_c(system, run, limits)


@called
def make_c(system: System, run: ActiveSet, limits: Limits) -> None:
    """``c = A^T (b - A rest) - penalty``, less the part of the multiplier."""
    apart()
    gradient_at(system, run, limits, run.of[REST], run.of[C])


@called
def enter_guessed(system: System, run: ActiveSet, limits: Limits) -> None:
    """Append the variables that are between their bounds in a guess.

    Others rest at the bound that the guess reaches. With a fixed sum, the variables
    that enter start where they rest.
    """
    apart()
    for j in range(len(run.of[GUESS])):
        if not math.isfinite(run.of[GUESS, j]) or run.index_of[IS_PASSIVE, j]:
            continue
        lower, upper = system.of[LOWER, j], system.of[UPPER, j]
        value = min(max(run.of[GUESS, j], lower), upper)
        if lower < value < upper:
            if value != run.of[REST, j]:
                start = run.of[REST, j] if limits.has_sum else value
                append_apart(system, run, limits, j, start)
        elif not limits.has_sum:
            run.of[REST, j] = value
    if run.has_gram:
        make_c(system, run, limits)


@called
def make_sum(system: System, run: ActiveSet, limits: Limits) -> None:
    """Let variables rest elsewhere, the steepest first, until x has its sum.

    The last one is passive. If all bounds together do not allow the sum, no variable
    is.
    """
    apart()
    make_c(system, run, limits)
    row, n, slope = system.of[IN_SUM], len(run.of[REST]), run.of[SLOPE]
    missing = system.b[-1] - dot(row, run.of[REST], n)
    sign = 1.0 if missing >= 0 else -1.0
    for j in range(n):
        slope[j] = sign * run.of[C, j] / row[j] if row[j] > 0 else 0.0
    for _ in range(n):
        j = steepest(slope, n)
        slope[j] = -np.inf
        lower, upper = system.of[LOWER, j], system.of[UPPER, j]
        end, value = upper if sign > 0 else lower, run.of[REST, j] + missing / row[j]
        reaches = abs(end - run.of[REST, j]) >= abs(value - run.of[REST, j])
        if lower < upper and reaches:
            append_apart(system, run, limits, j, value)
            break
        missing -= row[j] * (end - run.of[REST, j])
        run.of[REST, j] = end
    if run.has_gram:
        make_c(system, run, limits)


@called
def exchange(system: System, run: ActiveSet, limits: Limits, j: int) -> bool:
    """Move along a dependence of column j on the passive ones, if a penalty falls.

    A x does not change, so that only a bound ends the move: that of j, or of a passive
    variable, which j replaces. False if nothing moves.
    """
    apart()
    length, x, u, variables = run.counts[LENGTH], run.at[X], run.at[U], run.variable
    lower, upper, penalty = system.of[LOWER], system.of[UPPER], system.of[PENALTY]
    find_products(system, run, j, 0, length)
    square, _ = project(system, run, j)
    if square > limits.resolved * system.of[NORM, j] ** 2:
        return False
    sign, total, terms = np.sign(run.of[W, j]), 0.0, abs(penalty[j])
    for k in range(length):
        term = u[k] * penalty[variables[k]]
        total, terms = total + term, terms + abs(term)
    gain = sign * (total - penalty[j])
    if not gain > limits.significant * terms:
        return False
    own_end = upper[j] if sign > 0 else lower[j]
    own, first, end = abs(own_end - run.of[REST, j]), length, 0.0
    reach = min(own, gain / square) if square > 0 else own
    for k in range(length):
        d, i = -sign * u[k], variables[k]
        bound = lower[i] if d < 0 else upper[i]
        if d != 0 and (bound - x[k]) / d < reach:
            first, reach, end = k, (bound - x[k]) / d, bound
    if not math.isfinite(reach):
        return False
    for k in range(length):
        i = variables[k]
        x[k] = min(max(x[k] - reach * sign * u[k], lower[i]), upper[i])
    x_j = own_end if reach == own else run.of[REST, j] + sign * reach
    if first < length:
        remove(system, run, first, end)
        append_apart(system, run, limits, j, x_j)
        if run.index_of[IS_PASSIVE, j]:
            return True
    place(system, run, j, x_j)
    return True


@inlined
def find_candidates(system: System, run: ActiveSet, steep: float) -> int:
    """List the variables that may enter, and their slopes; returns how many."""
    norms, lower, upper = system.of[NORM], system.of[LOWER], system.of[UPPER]
    w, rest, count = run.of[W], run.of[REST], 0
    for j in range(len(w)):
        run.of[SLOPE, count] = abs(w[j]) / norms[j]
        run.index_of[CANDIDATE, count] = j
        may_enter = points_inwards(w[j], rest[j], lower[j], upper[j])
        may_enter &= (abs(w[j]) > steep * norms[j]) & (norms[j] > 0)
        count += may_enter & (run.index_of[IS_PASSIVE, j] == 0)
    return count


@inlined
def steepest(slope: Array, count: int) -> int:
    """The position of the largest slope, the first one of several."""
    found, largest = 0, slope[0]
    for k in range(1, count):
        if slope[k] > largest:
            found, largest = k, slope[k]
    return found


@inlined
def is_alike(
    system: System, run: ActiveSet, limits: Limits, j: int, first: int
) -> bool:
    """Whether column j is like a passive one at the position `first` or later."""
    norms, near = system.of[NORM], limits.alike * system.of[NORM, j]
    length = run.counts[LENGTH]
    find_products(system, run, j, first, length)
    for k in range(first, length):
        if abs(run.at[PRODUCT, k]) > near * norms[run.variable[k]]:
            return True
    return False


@merged
def enter(
    system: System, run: ActiveSet, limits: Limits, most: int, fresh: bool
) -> bool:
    """Append the steepest variables, at most `most`; False if none is appended.

    Once one entered, the first one that is refused ends the search. Slopes must exceed
    rounding errors of the terms that cancel in ``b - A x``.
    """
    slope, candidates = run.of[SLOPE], run.index_of[CANDIDATE]
    first, entered = run.counts[LENGTH], 0
    for k in range(first):
        run.at[PASSIVE_W, k] = run.of[W, run.variable[k]]
    if most == 0:
        return False
    make_all_x(run)
    cancelling = limits.tol * (system.numbers[MAGNITUDE] + size(system, run))
    steep = cancelling * (1.0 if fresh else limits.slack)
    count = find_candidates(system, run, steep)
    while entered < most and count > 0:
        found = steepest(slope, count)
        j, steepness, slope[found] = candidates[found], slope[found], 0.0
        if not steepness > steep:
            break
        if limits.has_penalty and entered == 0 and exchange(system, run, limits, j):
            return True
        if is_alike(system, run, limits, j, first):
            continue
        find_products(system, run, j, 0, first)
        if append(system, run, limits, j, run.of[REST, j], cancelling):
            if entered == 0:
                steep = max(steep, limits.steep * steepness)
            entered += 1
        elif entered > 0:
            break
    return entered > 0


@inlined
def missing(system: System, run: ActiveSet, limits: Limits, x: Array) -> float:
    """What passive variables of values x lack to the fixed sum; 0 if it is rounding."""
    if not limits.has_sum:
        return 0.0
    row, total, terms = system.of[IN_SUM], 0.0, 0.0
    for j in range(len(row)):
        term = row[j] * run.of[REST, j]
        total, terms = total + term, terms + abs(term)
    for k in range(run.counts[LENGTH]):
        term = row[run.variable[k]] * x[k]
        total, terms = total + term, terms + abs(term)
    lack = system.b[-1] - total
    return (
        float(lack) if abs(lack) > limits.summed * (abs(system.b[-1]) + terms) else 0.0
    )


@inlined
def step(system: System, run: ActiveSet, limits: Limits, w: Array, x: Array) -> float:
    """Write the step ``H w`` from x along the passive variables, to STEP.

    w is their gradient. With a fixed sum, ``w - shift row`` takes the place of w, so
    that the step leads to that sum. Returns `shift`.
    """
    length, d = run.counts[LENGTH], run.at[STEP]
    multiply(run.H, run.order, w, length, d)
    if not limits.has_sum:
        return 0.0
    along, g, row = run.at[ALONG], run.at[PRODUCT], system.of[IN_SUM]
    for k in range(length):
        g[k] = row[run.variable[k]]
    multiply(run.H, run.order, g, length, along)
    lack = missing(system, run, limits, x)
    shift = (dot(g, d, length) - lack) / dot(g, along, length)
    if not math.isfinite(shift):
        return 0.0
    for k in range(length):
        d[k] -= shift * along[k]
    return float(shift)


@inlined
def shift_multiplier(system: System, run: ActiveSet, shift: float) -> None:
    """Change the multiplier of the fixed sum."""
    run.numbers[MULTIPLIER] += shift
    for j in range(len(run.of[C])):
        run.of[C, j] -= shift * system.of[IN_SUM, j]
    for k in range(run.counts[LENGTH]):
        run.at[PASSIVE_W, k] -= shift * system.of[IN_SUM, run.variable[k]]


@merged
def make_feasible(system: System, run: ActiveSet, limits: Limits) -> bool:
    """Move x to the passive least-squares solution; remove what reaches a bound.

    A step also changes the passive gradient: by a part of it, because ``G H = 1``.
    Returns whether x moved. The last variable stays if the sum is fixed.
    """
    x, d, moved = run.at[X], run.at[STEP], False
    while run.counts[NIT] < limits.maxiter:
        run.counts[NIT] += 1
        length = run.counts[LENGTH]
        shift = step(system, run, limits, run.at[PASSIVE_W], x)
        for k in range(length):
            if not math.isfinite(d[k]):
                run.counts[STATUS] = UNCERTIFIED
                return moved
        if shift != 0:
            shift_multiplier(system, run, shift)
        first, part, end = length, np.inf, 0.0
        if not (limits.has_sum and length == 1):
            for k in range(length):
                j = run.variable[k]
                falls = x[k] + d[k] <= system.of[LOWER, j]
                bound = system.of[LOWER, j] if falls else system.of[UPPER, j]
                if falls or x[k] + d[k] >= system.of[UPPER, j]:
                    reach = max((bound - x[k]) / d[k], 0.0) if d[k] != 0 else 0.0
                    if reach < part:
                        first, part, end = k, reach, bound
        taken = part if first < length else 1.0
        for k in range(length):
            j = run.variable[k]
            x[k] = min(
                max(x[k] + taken * d[k], system.of[LOWER, j]), system.of[UPPER, j]
            )
        if first == length:
            return True
        moved = moved or part > 0
        for k in range(length):
            run.at[PASSIVE_W, k] *= 1 - part
        remove(system, run, first, end)
    run.counts[STATUS] = ITERATION_LIMIT
    return moved
