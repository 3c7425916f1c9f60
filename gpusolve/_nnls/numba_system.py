"""One system at a time: its arrays, scaled by powers of two."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._device.compiled import inlined, merged
from .._numerics import certificate
from .._numerics.scaling import Array
from ..reference import _nnls_gram
from .numba_sums import (
    Integers,
    copy,
    dot,
    dot_of_magnitudes,
    largest_magnitude,
    shifted,
    transpose,
)

LARGEST = float(np.finfo(np.float64).max / 16)
"""Limit on the penalties of a scaled system."""


class Limits(NamedTuple):
    """Numbers that hold for all systems of a batch."""

    tol: float
    enough: float
    maxiter: int
    eps: float
    single: bool
    has_ridge: bool
    has_sum: bool
    has_penalty: bool
    hidden: float
    certified: float
    rounded: float = certificate.ROUNDED
    convincing: float = certificate.CONVINCING
    most_entering: int = _nnls_gram.MOST_ENTERING
    steep: float = _nnls_gram.STEEP
    alike: float = _nnls_gram.ALIKE
    resolved: float = _nnls_gram.RESOLVED
    significant: float = _nnls_gram.SIGNIFICANT
    summed: float = certificate.SUMMED * float(np.finfo(np.float64).eps)
    slack: float = _nnls_gram.SLACK
    refreshes: int = _nnls_gram.REFRESHES
    drift: float = _nnls_gram.DRIFT
    corrections: int = _nnls_gram.CORRECTIONS
    accurate: float = certificate.ACCURATE


class Batch(NamedTuple):
    """Systems; an array that all of them share has a leading axis of length 1.

    Attributes
    ----------
    A : (systems, m, n) array
    b : (systems, m) array
    root_weight : (systems, m) or (1, 0) array
        The square roots of the weights, if there are any.
    root, l1, lower, upper, start : (systems, n) array
        `root` is that of l2.
    column_root : (systems, n) array
        The root for which a column is scaled: the largest one for a shared matrix.
    sum_to : (systems,) array
    """

    A: Array
    b: Array
    root_weight: Array
    root: Array
    column_root: Array
    l1: Array
    lower: Array
    upper: Array
    sum_to: Array
    start: Array


class System(NamedTuple):
    """One scaled system; see `ScaledSystem`.

    Attributes
    ----------
    columns : (n, rows) array
        The columns of A. The last row is that of a fixed sum, if there is one.
    b : (rows,) array
    of : (7, n) array
        NORM, DAMPING, PENALTY, LOWER, UPPER of each variable; SQUARE: the square norm
        of its column; IN_SUM: its coefficient in the fixed sum.
    power : (n,) array
        Columns were multiplied by 2 to these powers.
    numbers : (2,) array
        MAGNITUDE; B_POWER: b was multiplied by 2 to this power.
    """

    columns: Array
    b: Array
    of: Array
    power: Integers
    numbers: Array


NORM, DAMPING, PENALTY, LOWER, UPPER, SQUARE, IN_SUM = range(7)
MAGNITUDE, B_POWER = range(2)


@merged
def one_of(array: Array, k: int) -> Array:
    """The part of an array that belongs to system k."""
    part: Array = array[min(k, len(array) - 1)]
    return part


@inlined
def power_of(magnitude: float) -> int:
    """The power of two that scales a magnitude into [0.5, 1); 0 for zero."""
    return -min(max(math.frexp(magnitude)[1], -1022), 1022)


@inlined
def weigh(values: Array, root_weight: Array) -> None:
    """Multiply by the roots of the weights; a weight of 0 gives 0 even for NaN."""
    for i in range(len(root_weight)):
        factor = root_weight[i]
        values[i] = 0.0 if factor == 0 else values[i] * factor


@merged
def scale_matrix(batch: Batch, k: int, limits: Limits, system: System) -> None:
    """Write the scaled columns of matrix k and their squares."""
    root, root_weight = one_of(batch.column_root, k), one_of(batch.root_weight, k)
    m, n = batch.A.shape[1:]
    transpose(one_of(batch.A, k), system.columns)
    most = -1022
    for j in range(n):
        column = system.columns[j, :m]
        weigh(column, root_weight)
        power = power_of(max(root[j], largest_magnitude(column)))
        scale, most = shifted(1.0, power), max(most, power)
        system.power[j] = power
        for i in range(m):
            column[i] *= scale
        system.of[SQUARE, j] = dot(column, column, m)
    if limits.has_sum:
        for j in range(n):
            a = shifted(1.0, system.power[j]) / shifted(1.0, most)
            system.columns[j, m] = system.of[IN_SUM, j] = a
            system.of[SQUARE, j] += a * a


@merged
def scale_system(batch: Batch, k: int, limits: Limits, system: System) -> bool:
    """Scale system k, whose matrix has been scaled; returns whether all is finite."""
    m, n = batch.A.shape[1:]
    root, l1 = one_of(batch.root, k), one_of(batch.l1, k)
    lowers, uppers = one_of(batch.lower, k), one_of(batch.upper, k)
    root_weight, of, numbers = one_of(batch.root_weight, k), system.of, system.numbers
    b = system.b[:m]
    copy(b, one_of(batch.b, k))
    weigh(b, root_weight)
    b_power = power_of(largest_magnitude(b))
    b_scale = shifted(1.0, b_power)
    numbers[B_POWER] = b_power
    for i in range(m):
        b[i] *= b_scale
    if limits.has_sum:
        most = -1022
        for j in range(n):
            most = max(most, system.power[j])
        total = batch.sum_to[min(k, len(batch.sum_to) - 1)] * b_scale
        system.b[m] = total * (1 / shifted(1.0, most))
    check = dot(system.b, system.b, len(system.b))
    b_norm, at_rest, finite = math.sqrt(check), 0.0, True
    for j in range(n):
        column_scale = shifted(1.0, system.power[j])
        penalty = l1[j] * b_scale * column_scale
        of[DAMPING, j] = root[j] * column_scale
        of[PENALTY, j] = min(max(penalty, -LARGEST), LARGEST)
        of[NORM, j] = math.sqrt(of[SQUARE, j] + of[DAMPING, j] ** 2)
        of[LOWER, j] = rescaled(system, j, lowers[j])
        of[UPPER, j] = rescaled(system, j, uppers[j])
        rest = min(max(0.0, of[LOWER, j]), of[UPPER, j])
        at_rest += of[NORM, j] * abs(rest)
        finite = finite and not (math.isnan(lowers[j]) or math.isnan(uppers[j]))
        check += of[SQUARE, j] + 0 * root[j] + 0 * l1[j]
    numbers[MAGNITUDE] = b_norm + at_rest
    return finite and math.isfinite(check)


@inlined
def unscaled(system: System, j: int, x: float) -> float:
    """The value of variable j in the original variables."""
    return shifted(x, system.power[j] - system.numbers[B_POWER])


@inlined
def rescaled(system: System, j: int, x: float) -> float:
    """The value of variable j in the scaled variables; the inverse of `unscaled`."""
    if x == 0 or math.isinf(x):
        return x
    return shifted(x, system.numbers[B_POWER] - system.power[j])


@inlined
def rounded(system: System, limits: Limits, j: int, x: float) -> float:
    """A scaled x, rounded as if returned in the original variables."""
    original = unscaled(system, j, x)
    if limits.single:
        original = np.float64(np.float32(original))
    return rescaled(system, j, original)


@inlined
def points_inwards(w: float, x: float, lower: float, upper: float) -> bool:
    """Whether x may move in the direction of w; without branches."""
    return bool((w > 0) & (x < upper) | (w <= 0) & (x > lower))


@inlined
def first_rest(system: System, j: int) -> float:
    """The feasible value next to 0; of a column of zeros, the one that costs least."""
    lower, upper, value = system.of[LOWER, j], system.of[UPPER, j], 0.0
    if system.of[NORM, j] == 0 and system.of[PENALTY, j] != 0:
        value = lower if system.of[PENALTY, j] > 0 else upper
        if not math.isfinite(value):
            value = 0.0
    return float(min(max(value, lower), upper))


@inlined
def keeps_sum(system: System, limits: Limits, x: Array) -> bool:
    """Whether the sum of x is the fixed one, as far as a certified x is accurate."""
    row, total = system.of[IN_SUM], system.b[-1]
    lack = abs(total - dot(row, x, len(x)))
    terms = abs(total) + dot_of_magnitudes(row, x)
    rounding = limits.rounded * limits.eps * system.numbers[MAGNITUDE]
    explained = lack <= limits.summed * terms
    return bool(explained or lack <= limits.certified * terms + rounding)
