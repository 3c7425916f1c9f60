"""The residual of a point, and the gradient from it."""

from __future__ import annotations

import math

from .._device.compiled import inlined
from .._numerics.scaling import Array
from .numba_run import (
    ALL_X,
    COLUMN,
    LENGTH,
    MULTIPLIER,
    RESIDUAL,
    TERMS,
    VALUE,
    ActiveSet,
    C,
    W,
    X,
    add_gram_rows,
    make_all_x,
    size,
)
from .numba_sums import Integers, add_rows, copy, dot, minus_sum, multiply_rows
from .numba_system import DAMPING, MAGNITUDE, PENALTY, Limits, System


@inlined
def subtract_fitted(
    system: System,
    limits: Limits,
    columns: Integers,
    values: Array,
    count: int,
    r: Array,
) -> None:
    """Subtract A times the values of some columns, and the part of the l2 penalty."""
    rows = len(system.b)
    for k in range(count):
        values[k] = -values[k]
    add_rows(r, rows, system.columns, columns, values, count)
    for k in range(count):
        j = columns[k]
        if limits.has_ridge:
            r[rows + j] += system.of[DAMPING, j] * values[k]
        values[k] = -values[k]


@inlined
def find_columns(run: ActiveSet, x: Array) -> int:
    """List the x that are not 0, and their columns; returns how many."""
    count = 0
    for j in range(len(x)):
        if x[j] != 0:
            run.index_of[COLUMN, count] = j
            run.of[VALUE, count] = x[j]
            count += 1
    return count


@inlined
def subtract_product(system: System, run: ActiveSet, limits: Limits, x: Array) -> int:
    """Write ``b - A x`` to r; returns how many x are not 0."""
    columns, values, r = run.index_of[COLUMN], run.of[VALUE], run.residuals[RESIDUAL]
    count = find_columns(run, x)
    copy(r, system.b)
    subtract_fitted(system, limits, columns, values, count, r)
    return count


@inlined
def residual(system: System, run: ActiveSet, limits: Limits) -> None:
    """Write ``b - A x``, followed by ``-damping x`` with an l2 penalty, to r.

    It is accurate to a few eps of its own norm: rows in which more cancels are computed
    in twice the precision. The element in the row of a fixed sum is the multiplier's.
    """
    columns, values, r = run.index_of[COLUMN], run.of[VALUE], run.residuals[RESIDUAL]
    m, terms = len(system.b), run.residuals[TERMS]
    make_all_x(run)
    count = subtract_product(system, run, limits, run.of[ALL_X])
    level = limits.accurate * math.sqrt(dot(r, r, m))
    if level < system.numbers[MAGNITUDE] + size(system, run):
        for i in range(m):
            terms[i] = abs(system.b[i])
        for k in range(count):
            column = system.columns[columns[k]]
            for i in range(m):
                terms[i] += abs(column[i] * values[k])
        for i in range(m):
            if terms[i] > level:
                r[i] = minus_sum(system.b[i], i, system.columns, columns, values, count)
    if limits.has_sum:
        r[m - 1] = -run.numbers[MULTIPLIER]


@inlined
def gradient(
    system: System, limits: Limits, order: Integers, r: Array, w: Array
) -> None:
    """``A^T r - penalty``; A includes the rows of the l2 penalty."""
    n, rows = system.columns.shape
    multiply_rows(system.columns, order, n, r, w)
    for j in range(n):
        w[j] -= system.of[PENALTY, j]
        if limits.has_ridge:
            w[j] += system.of[DAMPING, j] * r[rows + j]


@inlined
def passive_gradient(
    system: System, run: ActiveSet, limits: Limits, r: Array, w: Array
) -> None:
    """The elements of ``A^T r - penalty`` that belong to passive variables."""
    length, rows = run.counts[LENGTH], len(system.b)
    multiply_rows(system.columns, run.variable, length, r, w)
    for k in range(length):
        j = run.variable[k]
        w[k] -= system.of[PENALTY, j]
        if limits.has_ridge:
            w[k] += system.of[DAMPING, j] * r[rows + j]


@inlined
def gradient_at(
    system: System, run: ActiveSet, limits: Limits, x: Array, w: Array
) -> None:
    """``A^T (b - A x) - penalty``, less the part of the multiplier."""
    subtract_product(system, run, limits, x)
    if limits.has_sum:
        run.residuals[RESIDUAL, len(system.b) - 1] -= run.numbers[MULTIPLIER]
    gradient(system, limits, run.order, run.residuals[RESIDUAL], w)


@inlined
def make_gradient(system: System, run: ActiveSet, limits: Limits) -> None:
    """``w = c - G x``, from the rows of G of the passive variables, or from A."""
    if run.has_gram:
        copy(run.of[W], run.of[C])
        add_gram_rows(system, run, run.of[W], run.at[X], -1.0)
    else:
        make_all_x(run)
        gradient_at(system, run, limits, run.of[ALL_X], run.of[W])


@inlined
def data_norm(system: System, limits: Limits, r: Array) -> float:
    """The 2-norm over all rows but that of a fixed sum."""
    square, row = dot(r, r, len(r)), len(system.b) - 1
    if limits.has_sum:
        multiplier, r[row] = r[row], 0.0
        square = dot(r, r, len(r))
        r[row] = multiplier
    return math.sqrt(square)
