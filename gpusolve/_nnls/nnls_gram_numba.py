"""Non-negative least squares from the Gram matrix: the CPU path, compiled by Numba.

It solves one system after another. The steps and their names are those of the
specification (`gpusolve.reference.nnls_gram`), and its constants are passed to the
compiled functions. Sums run over contiguous rows of A, G and H, so that the compiler
uses vector instructions without changing their order.

All compiled functions are in this file. Numba stores machine code on disk, and renews
it when the file of the function changes that Python calls, but no other file.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._device.compiled import apart, called, compiled, inlined, merged
from ..reference import _certificate, _nnls_gram
from ..reference._nnls_qr import (
    BY_GRAM,
    CONVERGED,
    ITERATION_LIMIT,
    NOT_FINITE,
    UNCERTIFIED,
    Solution,
    default_tolerance,
)
from ..reference._scaling import Array, Mask, inverse_power_of_two
from .inputs import Problem
from .part import Part

Integers = NDArray[np.integer[Any]]

LARGEST = float(np.finfo(np.float64).max / 16)
"""Limit on the penalties of a scaled system."""

EXPONENT_BIAS, MANTISSA_BITS = 1023, 52
"""The bits of a power of two in float64 are those of its exponent."""

BLAS = 128
"""From this number of columns on, BLAS computes the Gram matrix."""

ROWS_ONLY = 2
"""If A has more than this number of columns per row, rows of G are computed when they
are needed: most of them never are."""


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
    rounded: float = _certificate.ROUNDED
    convincing: float = _certificate.CONVINCING
    most_entering: int = _nnls_gram.MOST_ENTERING
    steep: float = _nnls_gram.STEEP
    alike: float = _nnls_gram.ALIKE
    resolved: float = _nnls_gram.RESOLVED
    significant: float = _nnls_gram.SIGNIFICANT
    summed: float = _certificate.SUMMED * float(np.finfo(np.float64).eps)
    slack: float = _nnls_gram.SLACK
    refreshes: int = _nnls_gram.REFRESHES
    drift: float = _nnls_gram.DRIFT
    corrections: int = _nnls_gram.CORRECTIONS
    accurate: float = _certificate.ACCURATE


class Batch(NamedTuple):
    """Systems; an array that all of them share has a leading axis of length 1.

    Attributes
    ----------
    A : (systems, m, n) array
    b : (systems, m) array
    root, l1, lower, upper, start : (systems, n) array
        `root` is that of l2.
    column_root : (systems, n) array
        The root for which a column is scaled: the largest one for a shared matrix.
    sum_to : (systems,) array
    G : (systems, n, n) array
        ``A^T A`` for the scaled A, with the row of a fixed sum; or no rows if it is to
        be computed here.
    """

    A: Array
    b: Array
    root: Array
    column_root: Array
    l1: Array
    lower: Array
    upper: Array
    sum_to: Array
    start: Array
    G: Array


class System(NamedTuple):
    """One scaled system; see `ScaledSystem`.

    Attributes
    ----------
    A : (rows, n) array
        With the row of a fixed sum, if there is one.
    columns : (n, rows) array
        The transpose of A.
    b : (rows,) array
    of : (6, n) array
        NORM, DAMPING, PENALTY, LOWER, UPPER of each variable; SQUARE: the square norm
        of its column.
    power : (n,) array
        Columns were multiplied by 2 to these powers.
    numbers : (2,) array
        MAGNITUDE; B_POWER: b was multiplied by 2 to this power.
    """

    A: Array
    columns: Array
    b: Array
    of: Array
    power: Integers
    numbers: Array


NORM, DAMPING, PENALTY, LOWER, UPPER, SQUARE = range(6)
MAGNITUDE, B_POWER = range(2)


class ActiveSet(NamedTuple):
    """The state of one run, and space for vectors, in a few arrays.

    The compiler would spend minutes on functions of an array for each vector.

    Attributes
    ----------
    H : (capacity, capacity) array
        The inverse of ``G[passive, passive]``, by position. G has the squares of the
        damping on its diagonal here.
    G : (n, n) or (capacity + 1, n) array
        ``A^T A``, or those of its rows that belong to passive variables.
    has_gram : bool
        Whether G has all rows.
    at : (8, capacity + 1) array
        Numbers by position. X, PASSIVE_W: values and gradients of the passive
        variables. The others are temporary.
    of : (8, n) array
        Numbers by variable. REST: the values of the variables that are not passive; 0
        for those that are. C: ``A^T (b - A rest) - penalty``, corrected by the true
        residual. W: the negative gradient ``w = c - G[:, passive] x``. ALL_X: x, if
        computed since it changed. WITNESS_W: the gradient of the witness. GUESS: a
        point to start at. The others are temporary.
    index_at : (2, capacity + 1) array
        VARIABLE: the variable at each position. ROW: the index of its row in G; beyond
        the length, free rows.
    index_of : (3, n) array
        IS_PASSIVE; CANDIDATE: variables that may enter; COLUMN: those that are not 0.
    residuals : (2, m + n) array
        RESIDUAL, WITNESS: residuals, followed by the part of the l2 penalty.
    numbers : (6,) array
        RNORM, KKT, BY_X, ANGLE, SIZE: the certificate and ``sum_k |a_k x_k|`` over the
        magnitude. MULTIPLIER: that of the fixed sum; it has been subtracted from c and
        w.
    counts : (5,) array
        LENGTH, NIT, UPDATES, DOWNDATES, STATUS.
    order : (m + n,) array
        0, 1, 2, ...
    """

    H: Array
    G: Array
    has_gram: bool
    at: Array
    of: Array
    index_at: Integers
    index_of: Integers
    residuals: Array
    numbers: Array
    counts: Integers
    order: Integers


X, PASSIVE_W, U, PRODUCT, STEP, CHANGE, ALONG, TRIAL = range(8)
REST, C, W, ALL_X, WITNESS_W, GUESS, SLOPE, VALUE = range(8)
VARIABLE, ROW = range(2)
IS_PASSIVE, CANDIDATE, COLUMN = range(3)
RESIDUAL, WITNESS = range(2)
RNORM, KKT, BY_X, ANGLE, SIZE, MULTIPLIER = range(6)
LENGTH, NIT, UPDATES, DOWNDATES, STATUS = range(5)


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


# ---- sums ----------------------------------------------------------------------------


@inlined
def copy(out: Any, values: Any) -> None:
    """Copy the values to the start of `out`, and fill its rest with 0."""
    for i in range(len(values)):
        out[i] = values[i]
    for i in range(len(values), len(out)):
        out[i] = 0


@inlined
def dot(a: Array, b: Array, length: int) -> float:
    """``a b``, in four sums that do not wait for each other."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    whole = length // 4 * 4
    for i in range(0, whole, 4):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
    for i in range(whole, length):
        s0 += a[i] * b[i]
    return (s0 + s1) + (s2 + s3)


@inlined
def dot_of_magnitudes(a: Array, b: Array) -> float:
    """``sum |a b|``, in four sums that do not wait for each other."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    whole = len(a) // 4 * 4
    for i in range(0, whole, 4):
        s0 += abs(a[i] * b[i])
        s1 += abs(a[i + 1] * b[i + 1])
        s2 += abs(a[i + 2] * b[i + 2])
        s3 += abs(a[i + 3] * b[i + 3])
    for i in range(whole, len(a)):
        s0 += abs(a[i] * b[i])
    return (s0 + s1) + (s2 + s3)


@inlined
def add_rows(
    out: Array, width: int, matrix: Array, rows: Integers, factors: Array, count: int
) -> None:
    """Add ``sum_k factors[k] matrix[rows[k]]`` to `out`, four rows at a time."""
    whole = count // 4 * 4
    for k in range(0, whole, 4):
        k0, k1, k2, k3 = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
        f0, f1, f2, f3 = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        for i in range(width):
            out[i] += (f0 * matrix[k0, i] + f1 * matrix[k1, i]) + (
                f2 * matrix[k2, i] + f3 * matrix[k3, i]
            )
    for k in range(whole, count):
        k0, f0 = rows[k], factors[k]
        for i in range(width):
            out[i] += f0 * matrix[k0, i]


@inlined
def multiply(H: Array, order: Integers, v: Array, length: int, out: Array) -> None:
    """``H v``; H is symmetric."""
    out[:length] = 0
    add_rows(out, length, H, order, v, length)


@inlined
def shifted(x: float, power: Any) -> float:
    """``x 2**power``, rounded once."""
    if abs(power) < 1000:
        bits = np.int64(int(power + EXPONENT_BIAS) << MANTISSA_BITS)
        return float(x * bits.view(np.float64))
    exponent: Any = np.int32(power)
    return math.ldexp(x, exponent)


@inlined
def ratio(part: float, whole: float) -> float:
    """``part / whole``, with ``0 / 0 = 0``."""
    return 0.0 if part == 0 else part / whole


@inlined
def two_sum(a: float, b: float) -> tuple[float, float]:
    """The rounded sum and its rounding error (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


@inlined
def split(a: float) -> tuple[float, float]:
    """A value as a sum of two values with half the bits each (Dekker, Veltkamp)."""
    shifted = 134217729.0 * a
    high = shifted - (shifted - a)
    return high, a - high


@inlined
def two_product(a: float, b: float) -> tuple[float, float]:
    """The rounded product and its rounding error."""
    product = a * b
    a_high, a_low = split(a)
    b_high, b_low = split(b)
    error = a_high * b_high - product + a_high * b_low + a_low * b_high
    return product, error + a_low * b_low


@called
def minus_dot(b: float, a: Array, x: Array, variables: Integers, length: int) -> float:
    """``b - a[variables] x``, in twice the working precision and rounded once."""
    apart()
    total, error = b, 0.0
    for k in range(length):
        product, lost = two_product(a[variables[k]], x[k])
        total, rounding = two_sum(total, -product)
        error += rounding - lost
    return total + error


# ---- the passive set -----------------------------------------------------------------


@inlined
def write_gram_row(
    system: System, order: Integers, j: int, width: int, out: Array
) -> None:
    """The first elements of row j of ``A^T A``."""
    for i in range(width):
        out[i] = 0
    add_rows(out, width, system.A, order, system.columns[j], len(system.b))


@inlined
def make_gram(system: System, order: Integers, G: Array) -> None:
    """``A^T A``; its bits are those of single rows."""
    for j in range(len(G)):
        write_gram_row(system, order, j, j + 1, G[j])
        for i in range(j):
            G[i, j] = G[j, i]


@inlined
def gram_row(system: System, run: ActiveSet, j: int) -> int:
    """The index of row j of G; it is computed first if only some rows are kept."""
    if run.has_gram:
        return j
    row = int(run.index_at[ROW, run.counts[LENGTH]])
    write_gram_row(system, run.order, j, run.G.shape[1], run.G[row])
    return row


@inlined
def add_gram_rows(
    system: System, run: ActiveSet, out: Array, factors: Array, sign: float
) -> None:
    """Add ``sign G[:, passive] factors`` to `out`, with the squares of the damping."""
    length = run.counts[LENGTH]
    for k in range(length):
        run.at[STEP, k] = sign * factors[k]
    add_rows(out, len(out), run.G, run.index_at[ROW], run.at[STEP], length)
    for k in range(length):
        j = run.index_at[VARIABLE, k]
        out[j] += run.at[STEP, k] * system.of[DAMPING, j] ** 2


@inlined
def place(system: System, run: ActiveSet, j: int, row: int, value: float) -> None:
    """Let variable j, with this row of G, rest at a value."""
    change = value - run.of[REST, j]
    if change != 0:
        for i in range(len(run.of[C])):
            run.of[C, i] -= change * run.G[row, i]
        run.of[C, j] -= change * system.of[DAMPING, j] ** 2
        run.of[REST, j] = value


@inlined
def make_all_x(run: ActiveSet) -> None:
    """X by variable."""
    copy(run.of[ALL_X], run.of[REST])
    for k in range(run.counts[LENGTH]):
        run.of[ALL_X, run.index_at[VARIABLE, k]] = run.at[X, k]


@inlined
def append(
    system: System, run: ActiveSet, limits: Limits, j: int, x_j: float, least: float
) -> bool:
    """Append a variable if it is independent of the others and moves inwards.

    Column j is projected onto the passive columns; u has the coefficients. `least`
    limits the decrease of the objective along its orthogonal part.
    """
    length = run.counts[LENGTH]
    if length == len(run.H):
        return False
    row = gram_row(system, run, j)
    g, u, H = run.at[PRODUCT], run.at[U], run.H
    for k in range(length):
        g[k] = run.G[row, run.index_at[VARIABLE, k]]
    multiply(H, run.order, g, length, u)
    square = run.G[row, j] + system.of[DAMPING, j] ** 2 - dot(u, g, length)
    descent = run.of[W, j] - dot(u, run.at[PASSIVE_W], length)
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
    place(system, run, j, row, 0.0)
    run.index_at[VARIABLE, length] = j
    run.index_at[ROW, length] = row
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
    append(system, run, limits, j, x_j, -np.inf)


@inlined
def add_square(H: Array, v: Array, length: int, sign: float) -> None:
    """Add ``sign v v^T`` to H."""
    for k in range(length):
        factor = sign * v[k]
        for i in range(length):
            H[k, i] += factor * v[i]


@inlined
def remove(system: System, run: ActiveSet, position: int, value: float) -> None:
    """Remove the variable at a position, and let it rest at a value.

    The last variable takes its position.
    """
    last = run.counts[LENGTH] - 1
    H, u, j = run.H, run.at[U], run.index_at[VARIABLE, position]
    place(system, run, j, run.index_at[ROW, position], value)
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
    run.index_at[VARIABLE, position] = run.index_at[VARIABLE, last]
    run.index_at[ROW, position], run.index_at[ROW, last] = (
        run.index_at[ROW, last],
        run.index_at[ROW, position],
    )
    run.at[X, position] = run.at[X, last]
    run.at[PASSIVE_W, position] = run.at[PASSIVE_W, last]
    run.counts[LENGTH] = last
    run.counts[DOWNDATES] += 1


@called
def clear(system: System, run: ActiveSet, limits: Limits) -> None:
    """Remove all variables; they rest at the bounds next to them."""
    apart()
    for k in range(run.counts[LENGTH]):
        j = run.index_at[VARIABLE, k]
        lower, upper = system.of[LOWER, j], system.of[UPPER, j]
        run.index_of[IS_PASSIVE, j] = 0
        run.of[REST, j] = (
            lower if run.at[X, k] - lower <= upper - run.at[X, k] else upper
        )
        if math.isinf(run.of[REST, j]):
            run.of[REST, j] = 0
    run.counts[LENGTH] = 0
    remake_c(system, run, limits)


@inlined
def make_c(system: System, run: ActiveSet, limits: Limits) -> None:
    """``c = A^T (b - A rest) - penalty``, less the part of the multiplier."""
    subtract_product(system, run, limits, run.of[REST])
    if limits.has_sum:
        run.residuals[RESIDUAL, len(system.b) - 1] -= run.numbers[MULTIPLIER]
    gradient(system, limits, run.order, run.residuals[RESIDUAL], run.of[C])


@called
def remake_c(system: System, run: ActiveSet, limits: Limits) -> None:
    """Make c again after variables came to rest; not often called."""
    apart()
    make_c(system, run, limits)


@inlined
def make_gradient(system: System, run: ActiveSet) -> None:
    """``w = c - G x``, from the rows of G of the passive variables."""
    copy(run.of[W], run.of[C])
    add_gram_rows(system, run, run.of[W], run.at[X], -1.0)


@inlined
def size(system: System, run: ActiveSet) -> float:
    """``sum_k |a_k x_k|``."""
    return dot_of_magnitudes(system.of[NORM], run.of[ALL_X])


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
    remake_c(system, run, limits)


@called
def make_sum(system: System, run: ActiveSet, limits: Limits) -> None:
    """Let variables rest elsewhere, the steepest first, until x has its sum.

    The last one is passive. If all bounds together do not allow the sum, no variable
    is.
    """
    apart()
    row, n, slope = system.A[-1], len(run.of[REST]), run.of[SLOPE]
    missing = system.b[-1] - dot(row, run.of[REST], n)
    sign = 1.0 if missing >= 0 else -1.0
    for j in range(n):
        slope[j] = sign * run.of[C, j] / row[j] if row[j] > 0 else 0.0
    for _ in range(n):
        j = 0
        for i in range(1, n):
            if slope[i] > slope[j]:
                j = i
        slope[j] = -np.inf
        lower, upper = system.of[LOWER, j], system.of[UPPER, j]
        end, value = upper if sign > 0 else lower, run.of[REST, j] + missing / row[j]
        reaches = abs(end - run.of[REST, j]) >= abs(value - run.of[REST, j])
        if lower < upper and reaches:
            append_apart(system, run, limits, j, value)
            break
        missing -= row[j] * (end - run.of[REST, j])
        run.of[REST, j] = end
    remake_c(system, run, limits)


@called
def exchange(system: System, run: ActiveSet, limits: Limits, j: int) -> bool:
    """Move along a dependence of column j on the passive ones, if a penalty falls.

    A x does not change, so that only a bound ends the move: that of j, or of a passive
    variable, which j replaces. False if nothing moves.
    """
    apart()
    length, x, g, u = run.counts[LENGTH], run.at[X], run.at[PRODUCT], run.at[U]
    row, variables = gram_row(system, run, j), run.index_at[VARIABLE]
    lower, upper, penalty = system.of[LOWER], system.of[UPPER], system.of[PENALTY]
    for k in range(length):
        g[k] = run.G[row, variables[k]]
    multiply(run.H, run.order, g, length, u)
    square = run.G[row, j] + system.of[DAMPING, j] ** 2 - dot(u, g, length)
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
    own, first, end = abs(own_end - run.of[REST, j]), -1, 0.0
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
    if first >= 0:
        remove(system, run, first, end)
        append_apart(system, run, limits, j, x_j)
        if run.index_of[IS_PASSIVE, j]:
            return True
    place(system, run, j, gram_row(system, run, j), x_j)
    return True


@inlined
def enter(
    system: System, run: ActiveSet, limits: Limits, most: int, fresh: bool
) -> bool:
    """Append the steepest variables, at most `most`; False if none is appended.

    A variable may enter if w points into its interval. Once one entered, the first one
    that is refused ends the search. Slopes must exceed rounding errors of the terms
    that cancel in ``b - A x``.
    """
    norms, w, slope, candidates = (
        system.of[NORM],
        run.of[W],
        run.of[SLOPE],
        run.index_of[CANDIDATE],
    )
    for k in range(run.counts[LENGTH]):
        run.at[PASSIVE_W, k] = w[run.index_at[VARIABLE, k]]
    if most == 0:
        return False
    make_all_x(run)
    cancelling = limits.tol * (system.numbers[MAGNITUDE] + size(system, run))
    steep, entered, count = cancelling * (1.0 if fresh else limits.slack), 0, 0
    for j in range(len(w)):
        if (
            abs(w[j]) > steep * norms[j]
            and not run.index_of[IS_PASSIVE, j]
            and norms[j] > 0
        ):
            up, down = (
                run.of[REST, j] < system.of[UPPER, j],
                run.of[REST, j] > system.of[LOWER, j],
            )
            if up if w[j] > 0 else down:
                slope[j] = abs(w[j]) / norms[j]
                candidates[count] = j
                count += 1
    while entered < most and count > 0:
        j = candidates[0]
        for k in range(1, count):
            if slope[candidates[k]] > slope[j]:
                j = candidates[k]
        if not slope[j] > steep:
            break
        if limits.has_penalty and entered == 0 and exchange(system, run, limits, j):
            return True
        accepted = append(system, run, limits, j, run.of[REST, j], cancelling)
        if not accepted and entered > 0:
            break
        row, near, kept = 0, np.inf, 0
        if accepted:
            if entered == 0:
                steep = max(steep, limits.steep * slope[j])
            entered += 1
            row, near = (
                run.index_at[ROW, run.counts[LENGTH] - 1],
                limits.alike * norms[j],
            )
        for k in range(count):
            i = candidates[k]
            alike = accepted and abs(run.G[row, i]) > near * norms[i]
            if slope[i] > steep and i != j and not alike:
                candidates[kept] = i
                kept += 1
        count = kept
    return entered > 0


@inlined
def missing(system: System, run: ActiveSet, limits: Limits, x: Array) -> float:
    """What passive variables of values x lack to the fixed sum; 0 if it is rounding."""
    if not limits.has_sum:
        return 0.0
    row, total, terms = system.A[-1], 0.0, 0.0
    for j in range(len(row)):
        term = row[j] * run.of[REST, j]
        total, terms = total + term, terms + abs(term)
    for k in range(run.counts[LENGTH]):
        term = row[run.index_at[VARIABLE, k]] * x[k]
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
    along, g, row = run.at[ALONG], run.at[PRODUCT], system.A[-1]
    for k in range(length):
        g[k] = row[run.index_at[VARIABLE, k]]
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
        run.of[C, j] -= shift * system.A[-1, j]
    for k in range(run.counts[LENGTH]):
        run.at[PASSIVE_W, k] -= shift * system.A[-1, run.index_at[VARIABLE, k]]


@inlined
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
        first, part, end = -1, np.inf, 0.0
        if not (limits.has_sum and length == 1):
            for k in range(length):
                j = run.index_at[VARIABLE, k]
                falls = x[k] + d[k] <= system.of[LOWER, j]
                bound = system.of[LOWER, j] if falls else system.of[UPPER, j]
                if falls or x[k] + d[k] >= system.of[UPPER, j]:
                    reach = max((bound - x[k]) / d[k], 0.0) if d[k] != 0 else 0.0
                    if reach < part:
                        first, part, end = k, reach, bound
        taken = part if first >= 0 else 1.0
        for k in range(length):
            j = run.index_at[VARIABLE, k]
            x[k] = min(
                max(x[k] + taken * d[k], system.of[LOWER, j]), system.of[UPPER, j]
            )
        if first < 0:
            return True
        moved = moved or part > 0
        for k in range(length):
            run.at[PASSIVE_W, k] *= 1 - part
        remove(system, run, first, end)
    run.counts[STATUS] = ITERATION_LIMIT
    return moved


# ---- the true residual ---------------------------------------------------------------


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
def subtract_product(system: System, run: ActiveSet, limits: Limits, x: Array) -> int:
    """Write ``b - A x`` to r; returns how many x are not 0, in `columns`."""
    count = 0
    for j in range(len(x)):
        if x[j] != 0:
            run.index_of[COLUMN, count] = j
            run.of[VALUE, count] = x[j]
            count += 1
    copy(run.residuals[RESIDUAL], system.b)
    subtract_fitted(
        system,
        limits,
        run.index_of[COLUMN],
        run.of[VALUE],
        count,
        run.residuals[RESIDUAL],
    )
    return count


@inlined
def residual(system: System, run: ActiveSet, limits: Limits) -> None:
    """Write ``b - A x``, followed by ``-damping x`` with an l2 penalty, to r.

    It is accurate to a few eps of its own norm: rows in which more cancels are computed
    in twice the precision. The element in the row of a fixed sum is the multiplier's.
    """
    m, columns, values = len(system.b), run.index_of[COLUMN], run.of[VALUE]
    make_all_x(run)
    count = subtract_product(system, run, limits, run.of[ALL_X])
    level = limits.accurate * math.sqrt(
        dot(run.residuals[RESIDUAL], run.residuals[RESIDUAL], m)
    )
    if level < system.numbers[MAGNITUDE] + size(system, run):
        for i in range(m):
            terms = abs(system.b[i])
            for k in range(count):
                terms += abs(system.A[i, columns[k]] * values[k])
            if terms > level:
                run.residuals[RESIDUAL, i] = minus_dot(
                    system.b[i], system.A[i], values, columns, count
                )
    if limits.has_sum:
        run.residuals[RESIDUAL, m - 1] = -run.numbers[MULTIPLIER]


@inlined
def gradient(
    system: System, limits: Limits, order: Integers, r: Array, w: Array
) -> None:
    """``A^T r - penalty``; A includes the rows of the l2 penalty."""
    m, n = system.A.shape
    for j in range(n):
        w[j] = -system.of[PENALTY, j]
        if limits.has_ridge:
            w[j] += system.of[DAMPING, j] * r[m + j]
    add_rows(w, n, system.A, order, r, m)


@inlined
def data_norm(system: System, limits: Limits, r: Array) -> float:
    """The 2-norm over all rows but that of a fixed sum."""
    square, row = dot(r, r, len(r)), len(system.b) - 1
    if limits.has_sum:
        multiplier, r[row] = r[row], 0.0
        square = dot(r, r, len(r))
        r[row] = multiplier
    return math.sqrt(square)


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
def refresh(system: System, run: ActiveSet, limits: Limits) -> bool:
    """Correct x by the residual ``b - A x``, unless the solver was stopped.

    The part of the residual along the passive columns is due to an error of x. Without
    that part it is the witness of the certificate. Returns whether the corrected x is
    between its bounds, so that it is x now.
    """
    length, variables, witness = (
        run.counts[LENGTH],
        run.index_at[VARIABLE],
        run.residuals[WITNESS],
    )
    residual(system, run, limits)
    copy(witness, run.residuals[RESIDUAL])
    for k in range(length):
        run.at[CHANGE, k] = 0
    gradient(system, limits, run.order, witness, run.of[WITNESS_W])
    for _ in range(limits.corrections):
        limit, visible = limits.tol / 2 * data_norm(system, limits, witness), False
        for k in range(length):
            j = variables[k]
            run.at[U, k] = run.of[WITNESS_W, j]
            visible = visible or abs(run.at[U, k]) > limit * system.of[NORM, j]
            run.at[TRIAL, k] = run.at[X, k] + run.at[CHANGE, k]
        if not visible and missing(system, run, limits, run.at[TRIAL]) == 0:
            break
        shift = step(system, run, limits, run.at[U], run.at[TRIAL])
        run.numbers[MULTIPLIER] += shift
        for k in range(length):
            if not math.isfinite(run.at[STEP, k]):
                run.at[STEP, k] = 0
            run.at[CHANGE, k] += run.at[STEP, k]
        subtract_fitted(system, limits, variables, run.at[STEP], length, witness)
        if limits.has_sum:
            witness[len(system.b) - 1] = -run.numbers[MULTIPLIER]
        gradient(system, limits, run.order, witness, run.of[WITNESS_W])
    follows = run.counts[STATUS] == CONVERGED
    for k in range(length):
        j, x = variables[k], run.at[X, k] + run.at[CHANGE, k]
        follows = follows and system.of[LOWER, j] < x < system.of[UPPER, j]
    for k in range(length):
        x = run.at[X, k] + run.at[CHANGE, k] if follows else run.at[X, k]
        run.at[X, k] = rounded(system, limits, variables[k], x)
    return bool(follows)


@inlined
def correct_gradient(system: System, run: ActiveSet, limits: Limits) -> None:
    """Let w and c agree with the true residual, and w with the witness's gradient."""
    gradient(system, limits, run.order, run.residuals[RESIDUAL], run.of[C])
    copy(run.of[W], run.of[WITNESS_W])
    for k in range(run.counts[LENGTH]):
        run.of[W, run.index_at[VARIABLE, k]] = run.of[C, run.index_at[VARIABLE, k]]
    copy(run.of[C], run.of[W])
    add_gram_rows(system, run, run.of[C], run.at[X], 1.0)


@inlined
def from_bound(x: float, lower: float, upper: float) -> float:
    """``x - p``, where p is the nearest bound; 0 if there is no finite one."""
    least = x - lower if x - lower <= upper - x else x - upper
    return least if math.isfinite(least) else 0.0


@inlined
def certify(system: System, run: ActiveSet, limits: Limits) -> None:
    """Certify x by its residual and the witness, as `_certificate.certify`."""
    w, steepest, gap, room = run.of[WITNESS_W], 0.0, 0.0, 0.0
    for j in range(len(w)):
        x, lower, upper = run.of[ALL_X, j], system.of[LOWER, j], system.of[UPPER, j]
        if x < upper if w[j] > 0 else x > lower:
            steepest = max(steepest, ratio(abs(w[j]), system.of[NORM, j]))
        gap += from_bound(x, lower, upper) * w[j]
        p = system.of[PENALTY, j]
        if p != 0:
            room += p * x - min(p * lower, p * upper)
    length, magnitude = (
        data_norm(system, limits, run.residuals[WITNESS]),
        system.numbers[MAGNITUDE],
    )
    rnorm = math.sqrt(
        dot(
            run.residuals[RESIDUAL],
            run.residuals[RESIDUAL],
            len(system.b) - limits.has_sum,
        )
    )
    for i in range(len(run.residuals[RESIDUAL])):
        run.residuals[WITNESS, i] = (
            run.residuals[RESIDUAL, i] - run.residuals[WITNESS, i]
        )
    limit = ratio(math.hypot(length, math.sqrt(2 * room)), magnitude)
    gap = ratio(ratio(abs(gap), length), magnitude)
    by_x = ratio(data_norm(system, limits, run.residuals[WITNESS]), magnitude)
    by_x += gap if gap < limit else limit
    angle = min(ratio(steepest, length), limit)
    run.numbers[RNORM] = rnorm
    run.numbers[KKT] = by_x + angle
    run.numbers[BY_X] = by_x
    run.numbers[ANGLE] = angle
    run.numbers[SIZE] = ratio(size(system, run), magnitude)


# ---- one system, and all -------------------------------------------------------------


@inlined
def hidden_by_rounding(system: System, run: ActiveSet, limits: Limits) -> bool:
    """Whether rounding x may change ``A x`` by more than `hidden`."""
    make_all_x(run)
    size_to_b = ratio(size(system, run), system.numbers[MAGNITUDE])
    return not limits.eps * size_to_b <= limits.hidden


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
def start(system: System, run: ActiveSet, limits: Limits) -> bool:
    """Let all variables rest next to 0; returns whether the guess is another point."""
    guessed = False
    run.counts[:] = 0
    run.index_of[IS_PASSIVE, :] = 0
    run.numbers[MULTIPLIER] = 0
    for j in range(len(run.of[REST])):
        run.of[REST, j] = first_rest(system, j)
        guessed = guessed or run.of[GUESS, j] != run.of[REST, j]
    make_c(system, run, limits)
    if limits.has_sum:
        make_sum(system, run, limits)
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
            make_gradient(system, run)
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


@inlined
def power_of(magnitude: float) -> int:
    """The power of two that scales a magnitude into [0.5, 1); 0 for zero."""
    return -min(max(math.frexp(magnitude)[1], -1022), 1022)


@inlined
def scale_matrix(A: Array, root: Array, limits: Limits, system: System) -> None:
    """Scale the columns of A by powers of two; write A, its transpose and squares."""
    m, n = A.shape
    largest, square, total = system.of[LOWER], system.of[SQUARE], 0.0
    copy(largest, root)
    for i in range(m):
        for j in range(n):
            largest[j] = max(largest[j], abs(A[i, j]))
    for j in range(n):
        system.power[j] = power_of(largest[j])
        largest[j] = shifted(1.0, system.power[j])
        total = max(total, largest[j])
        square[j] = 0
    for i in range(m):
        for j in range(n):
            a = A[i, j] * largest[j]
            system.A[i, j] = a
            square[j] += a * a
    if limits.has_sum:
        for j in range(n):
            a = largest[j] / total
            system.A[m, j] = a
            square[j] += a * a
    for j in range(n):
        for i in range(len(system.b)):
            system.columns[j, i] = system.A[i, j]


@inlined
def scale_system(batch: Batch, k: int, limits: Limits, system: System) -> bool:
    """Scale system k, whose matrix has been scaled; returns whether all is finite."""
    m, n = batch.A.shape[1:]
    root, l1 = one_of(batch.root, k), one_of(batch.l1, k)
    lowers, uppers = one_of(batch.lower, k), one_of(batch.upper, k)
    given, of, numbers = one_of(batch.b, k), system.of, system.numbers
    largest, most, finite = 0.0, -1022, True
    for i in range(m):
        largest = max(largest, abs(given[i]))
    b_power = power_of(largest)
    b_scale = shifted(1.0, b_power)
    numbers[B_POWER] = b_power
    for i in range(m):
        system.b[i] = given[i] * b_scale
    for j in range(n):
        most = max(most, system.power[j])
    if limits.has_sum:
        total = batch.sum_to[min(k, len(batch.sum_to) - 1)] * b_scale
        system.b[m] = total * (1 / shifted(1.0, most))
    b_norm = math.sqrt(dot(system.b, system.b, len(system.b)))
    at_rest, check = 0.0, 0.0
    for i in range(len(system.b)):
        check += 0 * system.b[i]
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


@merged
def one_of(array: Array, k: int) -> Array:
    """The part of an array that belongs to system k."""
    part: Array = array[min(k, len(array) - 1)]
    return part


@inlined
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


@inlined
def keeps_sum(system: System, limits: Limits, x: Array) -> bool:
    """Whether the sum of x is the fixed one, as far as a certified x is accurate."""
    row, total = system.A[-1], system.b[-1]
    lack = abs(total - dot(row, x, len(x)))
    terms = abs(total) + dot_of_magnitudes(row, x)
    rounding = limits.rounded * limits.eps * system.numbers[MAGNITUDE]
    explained = lack <= limits.summed * terms
    return bool(explained or lack <= limits.certified * terms + rounding)


@inlined
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


@inlined
def system_in(space: Array, integers: Integers, rows: int, n: int) -> System:
    """Cut a system from `space` and `integers`."""
    size = rows * n
    return System(
        space[:size].reshape((rows, n)),
        space[size : 2 * size].reshape((n, rows)),
        space[2 * size : 2 * size + rows],
        space[2 * size + rows : 2 * size + rows + 6 * n].reshape((6, n)),
        integers[:n],
        space[2 * size + rows + 6 * n :][:2],
    )


@inlined
def active_set(
    G: Array, has_gram: bool, space: Array, integers: Integers, h: int, m: int
) -> ActiveSet:
    """Cut the state of a run from `space` and `integers`; h is the capacity."""
    n = G.shape[1]
    H, space = space[: h * h].reshape((h, h)), space[h * h :]
    at, space = space[: 8 * (h + 1)].reshape((8, h + 1)), space[8 * (h + 1) :]
    of, space = space[: 8 * n].reshape((8, n)), space[8 * n :]
    residuals, space = space[: 2 * (m + n)].reshape((2, m + n)), space[2 * (m + n) :]
    index_at, integers = (
        integers[: 2 * h + 2].reshape((2, h + 1)),
        integers[2 * h + 2 :],
    )
    index_of, integers = integers[: 3 * n].reshape((3, n)), integers[3 * n :]
    order, counts = integers[: m + n], integers[m + n :][:5]
    numbers = space[:6]
    return ActiveSet(
        *(H, G, has_gram, at, of, index_at, index_of, residuals, numbers, counts),
        order,
    )


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
    m, n = batch.A.shape[1:]
    rows = m + limits.has_sum
    used = 2 * rows * n + rows + 6 * n + 2
    system = system_in(space, integers, rows, n)
    space, integers = space[used:], integers[n:]
    kept = 0 if len(batch.G[0]) else n if has_gram else capacity + 1
    own, space = space[: kept * n].reshape((kept, n)), space[kept * n :]
    for k in range(len(results.x)):
        G = own if kept else batch.G[min(k, len(batch.G) - 1)]
        run = active_set(G, has_gram, space, integers, capacity, rows)
        if k == 0 or len(batch.A) > 1:
            scale_matrix(
                one_of(batch.A, k), one_of(batch.column_root, k), limits, system
            )
            if kept and has_gram:
                make_gram(system, run.order, own)
        if scale_system(batch, k, limits, system):
            make_guess(batch, k, system, run, limits)
            solve_one(system, run, limits, results, k)
            conclude(system, limits, results, k)
        else:
            results.counts[k, STATUS] = NOT_FINITE
            results.settled[k] = True


# ---- the batch -----------------------------------------------------------------------


def gram(A: Array, column_root: Array, has_sum: bool) -> Array:
    """``A^T A`` of the scaled matrices, if BLAS is to compute it; else without rows."""
    m, n = A.shape[-2:]
    if n < BLAS or n > ROWS_ONLY * m:
        return np.zeros((1, 0, n))
    G = np.empty((len(A), n, n))
    for k, one in enumerate(A):
        root = column_root[min(k, len(column_root) - 1)]
        largest = np.maximum(one.max(axis=0), -one.min(axis=0))
        power = inverse_power_of_two(np.maximum(largest, root))
        scaled = one * power
        if has_sum:
            scaled = np.vstack([scaled, power / power.max()])
        np.matmul(scaled.T, scaled, out=G[k])
    return G


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
        hidden=_certificate.HIDDEN[dtype],
        certified=_certificate.CERTIFIED[dtype],
    )

    def batched(array: Array | None, *shape: int) -> Array:
        """With a leading axis, contiguous and writable."""
        array = np.zeros(shape) if array is None else array
        axes = len(shape)
        if array.ndim <= axes:
            array = np.broadcast_to(array, shape)[None]
        return np.require(array, np.float64, ["C", "W"])

    with np.errstate(all="ignore"):
        A, root = batched(part.A, *part.A.shape[-2:]), batched(np.sqrt(part.l2), n)
        shared = part.A.ndim == 2
        finite = np.nan_to_num(root, posinf=0.0)
        column_root = finite.max(axis=0, keepdims=True) if shared else root
        G = gram(A, column_root, limits.has_sum)
    batch = Batch(
        A=A,
        b=batched(part.b, part.A.shape[-2]),
        root=root,
        column_root=column_root,
        l1=batched(part.l1, n),
        lower=batched(part.lower, n),
        upper=batched(part.upper, n),
        sum_to=batched(part.sum_to),
        start=batched(part.start, n if part.start is not None else 0),
        G=G,
    )
    used_by = systems if shared else 1
    has_gram = not n > ROWS_ONLY * part.A.shape[-2] * used_by
    h = n if limits.has_ridge else min(m, n)
    kept = 0 if batch.G.shape[1] else n if has_gram else h + 1
    numbers = 2 * m * n + kept * n + h * h + 8 * (h + 1) + 14 * n + 3 * m + 2 * n + 8
    space = np.zeros(numbers)
    free, order = np.arange(h + 1), np.arange(m + n)
    zeros = [np.zeros(size, np.int64) for size in (n + h + 1, 3 * n, 5)]
    integers = np.concatenate([zeros[0], free, zeros[1], order, zeros[2]])
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
