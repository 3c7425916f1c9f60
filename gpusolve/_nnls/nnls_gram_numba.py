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

from .._device.compiled import compiled, inlined, called
from ..reference import _certificate, _nnls_gram
from ..reference._certificate import HIDDEN, Certificate, is_convincing
from ..reference._nnls_qr import (
    BY_GRAM,
    CONVERGED,
    ITERATION_LIMIT,
    UNCERTIFIED,
    Solution,
    default_tolerance,
    outcome,
)
from ..reference._scaling import Array, Mask, ScaledSystem, exponent

Integers = NDArray[np.integer[Any]]


class Limits(NamedTuple):
    """Numbers that hold for all systems of a batch."""

    tol: float
    enough: float
    maxiter: int
    eps: float
    hidden: float
    single: bool
    has_ridge: bool
    most_entering: int = _nnls_gram.MOST_ENTERING
    steep: float = _nnls_gram.STEEP
    alike: float = _nnls_gram.ALIKE
    resolved: float = _nnls_gram.RESOLVED
    slack: float = _nnls_gram.SLACK
    refreshes: int = _nnls_gram.REFRESHES
    drift: float = _nnls_gram.DRIFT
    corrections: int = _nnls_gram.CORRECTIONS
    accurate: float = _certificate.ACCURATE


class System(NamedTuple):
    """One scaled system.

    Attributes
    ----------
    A : (m, n) array
    G : (n, n) array
        The Gram matrix; or space for the rows of passive variables, (capacity, n).
    b, norm, damping, penalty : arrays
        As in `ScaledSystem`.
    exponent : (n,) array
        Exponents of the factors that give x in the original variables.
    b_norm : float
    """

    A: Array
    G: Array
    b: Array
    norm: Array
    damping: Array
    penalty: Array
    exponent: Integers
    b_norm: float
    has_gram: bool


class ActiveSet(NamedTuple):
    """The state of one run, and space for temporary vectors.

    Attributes
    ----------
    H : (capacity, capacity) array
        The inverse of ``G[passive, passive]``, by position.
    variables, rows : (capacity,) array
        The variable at each position, and the index of its row in ``System.G``. Beyond
        the length, free rows.
    is_passive : (n,) array
    x, passive_w : (capacity,) array
        Values and gradients of the passive variables, by position.
    c, w : (n,) array
        ``A^T b - penalty``, corrected by the true residual; the negative gradient
        ``w = c - G x``.
    counts : (5,) array
        Length, nit, n_updates, n_downdates and status.
    r, witness : (m + n,) array
        Residuals, followed by the part of the l2 penalty.
    order : (m + n,) array
        0, 1, 2, ...
    """

    H: Array
    variables: Integers
    rows: Integers
    is_passive: Integers
    x: Array
    passive_w: Array
    c: Array
    w: Array
    counts: Integers
    r: Array
    witness: Array
    order: Integers
    g: Array
    u: Array
    d: Array
    change: Array
    slope: Array
    witness_w: Array
    guess: Array
    candidates: Integers
    found: Array


LENGTH, NIT, UPDATES, DOWNDATES, STATUS = range(5)
"""Indices of `ActiveSet.counts`."""

RNORM, KKT, BY_X, ANGLE = range(4)
"""Indices of the numbers of a certificate."""


# ---- sums ----------------------------------------------------------------------------


@inlined
def copy(out: Array, values: Array) -> None:
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
def norm(a: Array, length: int) -> float:
    """The 2-norm."""
    return math.sqrt(dot(a, a, length))


@called
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


@called
def subtract_columns(
    out: Array, matrix: Array, columns: Integers, factors: Array, count: int
) -> None:
    """Subtract ``sum_k factors[k] matrix[:, columns[k]]``, four rows at a time."""
    rows = matrix.shape[0]
    whole = rows // 4 * 4
    for i in range(0, whole, 4):
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for k in range(count):
            j, f = columns[k], factors[k]
            s0 += matrix[i, j] * f
            s1 += matrix[i + 1, j] * f
            s2 += matrix[i + 2, j] * f
            s3 += matrix[i + 3, j] * f
        out[i] -= s0
        out[i + 1] -= s1
        out[i + 2] -= s2
        out[i + 3] -= s3
    for i in range(whole, rows):
        s0 = 0.0
        for k in range(count):
            s0 += matrix[i, columns[k]] * factors[k]
        out[i] -= s0


@inlined
def multiply(H: Array, order: Integers, v: Array, length: int, out: Array) -> None:
    """``H v``; H is symmetric."""
    out[:length] = 0
    add_rows(out, length, H, order, v, length)


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
def minus_dot(
    b: float, a: Array, x: Array, variables: Integers, length: int
) -> float:
    """``b - a[variables] x``, in twice the working precision and rounded once."""
    total, error = b, 0.0
    for k in range(length):
        product, lost = two_product(a[variables[k]], x[k])
        total, rounding = two_sum(total, -product)
        error += rounding - lost
    return total + error


# ---- the passive set -----------------------------------------------------------------


@inlined
def gram_row(system: System, run: ActiveSet, j: int) -> int:
    """The index of row j of G; it is computed first if only some rows are kept."""
    if system.has_gram:
        return j
    m, n = system.A.shape
    row = run.rows[run.counts[LENGTH]]
    for i in range(m):
        run.r[i] = system.A[i, j]
    out = system.G[row]
    out[:] = 0
    add_rows(out, n, system.A, run.order, run.r, m)
    out[j] += system.damping[j] ** 2
    return row


@inlined
def append(
    system: System, run: ActiveSet, limits: Limits, j: int, x_j: float, least: float
) -> bool:
    """Append a variable if it is independent of the others and would be positive.

    Column j is projected onto the passive columns; u has the coefficients. `least`
    limits the decrease of the objective along its orthogonal part.
    """
    length = run.counts[LENGTH]
    if length == len(run.H):
        return False
    row = gram_row(system, run, j)
    g, u, H = run.g, run.u, run.H
    for k in range(length):
        g[k] = system.G[row, run.variables[k]]
    multiply(H, run.order, g, length, u)
    square = system.G[row, j] - dot(u, g, length)
    descent = run.w[j] - dot(u, run.passive_w, length)
    if not square > limits.resolved * system.norm[j] ** 2:
        return False
    root = math.sqrt(square)
    if not descent > least * root:
        return False
    u[length] = -1.0
    for k in range(length + 1):
        u[k] /= root
    H[length, : length + 1] = 0
    H[:length, length] = 0
    add_square(H, u, length + 1, 1.0)
    run.variables[length] = j
    if system.has_gram:
        run.rows[length] = j
    run.is_passive[j] = 1
    run.x[length] = x_j
    run.passive_w[length] = run.w[j]
    run.counts[LENGTH] += 1
    run.counts[UPDATES] += 1
    return True


@inlined
def add_square(H: Array, v: Array, length: int, sign: float) -> None:
    """Add ``sign v v^T`` to H."""
    for k in range(length):
        factor = sign * v[k]
        for i in range(length):
            H[k, i] += factor * v[i]


@inlined
def remove(run: ActiveSet, position: int) -> None:
    """Remove the variable at a position; the last one takes its position."""
    last = run.counts[LENGTH] - 1
    H, u = run.H, run.u
    square = H[position, position]
    root = math.sqrt(abs(square))
    for k in range(last + 1):
        u[k] = H[position, k] / root
    add_square(H, u, last + 1, -math.copysign(1.0, square))
    corner = H[last, last]
    for k in range(last):
        H[position, k] = H[k, position] = H[last, k]
    H[position, position] = corner
    run.is_passive[run.variables[position]] = 0
    run.variables[position] = run.variables[last]
    run.rows[position], run.rows[last] = run.rows[last], run.rows[position]
    run.x[position] = run.x[last]
    run.passive_w[position] = run.passive_w[last]
    run.counts[LENGTH] = last
    run.counts[DOWNDATES] += 1


@inlined
def clear(run: ActiveSet) -> None:
    """Remove all variables."""
    run.counts[LENGTH] = 0
    run.is_passive[:] = 0


@inlined
def make_gradient(system: System, run: ActiveSet) -> None:
    """``w = c - G x``, from the rows of G of the passive variables."""
    length = run.counts[LENGTH]
    copy(run.w, run.c)
    for k in range(length):
        run.d[k] = -run.x[k]
    add_rows(run.w, len(run.w), system.G, run.rows, run.d, length)


@inlined
def size(system: System, run: ActiveSet) -> float:
    """``sum_k |a_k| x_k``."""
    total = 0.0
    for k in range(run.counts[LENGTH]):
        total += system.norm[run.variables[k]] * run.x[k]
    return total


@inlined
def enter_guessed(system: System, run: ActiveSet, limits: Limits) -> None:
    """Append the variables that are positive and finite in a guess."""
    for j in range(len(run.guess)):
        if run.guess[j] > 0 and math.isfinite(run.guess[j]):
            append(system, run, limits, j, run.guess[j], -np.inf)


@inlined
def enter(
    system: System, run: ActiveSet, limits: Limits, most: int, fresh: bool
) -> bool:
    """Append the steepest variables, at most `most`; False if none is appended.

    Once a variable entered, the first one that is refused ends the search. Slopes
    must exceed rounding errors of the terms that cancel in ``b - A x``.
    """
    norms, w, slope, candidates = system.norm, run.w, run.slope, run.candidates
    for k in range(run.counts[LENGTH]):
        run.passive_w[k] = w[run.variables[k]]
    cancelling = limits.tol * (system.b_norm + size(system, run))
    steep, entered, count = cancelling * (1.0 if fresh else limits.slack), 0, 0
    if most > 0:
        for j in range(len(w)):
            if w[j] > steep * norms[j] and not run.is_passive[j] and norms[j] > 0:
                slope[j] = w[j] / norms[j]
                candidates[count] = j
                count += 1
    while entered < most and count > 0:
        j = candidates[0]
        for k in range(1, count):
            if slope[candidates[k]] > slope[j]:
                j = candidates[k]
        if not slope[j] > steep:
            break
        accepted = append(system, run, limits, j, 0.0, cancelling)
        if not accepted and entered > 0:
            break
        if accepted and entered == 0:
            steep = max(steep, limits.steep * slope[j])
        row, near, kept = 0, np.inf, 0
        if accepted:
            entered += 1
            row, near = run.rows[run.counts[LENGTH] - 1], limits.alike * norms[j]
        for k in range(count):
            i = candidates[k]
            alike = accepted and abs(system.G[row, i]) > near * norms[i]
            if slope[i] > steep and i != j and not alike:
                candidates[kept] = i
                kept += 1
        count = kept
    return entered > 0


@inlined
def make_feasible(run: ActiveSet, limits: Limits) -> bool:
    """Move x to the passive least-squares solution; remove what reaches 0.

    A step also changes the passive gradient: by a part of it, because ``G H = 1``.
    Returns whether x moved.
    """
    x, d, moved = run.x, run.d, False
    while run.counts[NIT] < limits.maxiter:
        run.counts[NIT] += 1
        length = run.counts[LENGTH]
        multiply(run.H, run.order, run.passive_w, length, d)
        first, step = -1, np.inf
        for k in range(length):
            if not math.isfinite(d[k]):
                run.counts[STATUS] = UNCERTIFIED
                return moved
            if x[k] + d[k] <= 0:
                reach = x[k] / -d[k] if x[k] > 0 else 0.0
                if reach < step:
                    first, step = k, reach
        if first < 0:
            for k in range(length):
                x[k] += d[k]
            return True
        moved = moved or step > 0
        for k in range(length):
            x[k] = max(x[k] + step * d[k], 0.0)
            run.passive_w[k] *= 1 - step
        remove(run, first)
    run.counts[STATUS] = ITERATION_LIMIT
    return moved


# ---- the true residual ---------------------------------------------------------------


@inlined
def subtract_fitted(
    system: System, run: ActiveSet, limits: Limits, x: Array, r: Array
) -> None:
    """Subtract ``A x``, followed by ``damping x`` if there is an l2 penalty."""
    length, m = run.counts[LENGTH], len(system.b)
    subtract_columns(r, system.A, run.variables, x, length)
    if limits.has_ridge:
        for k in range(length):
            j = run.variables[k]
            r[m + j] -= system.damping[j] * x[k]


@inlined
def residual(system: System, run: ActiveSet, limits: Limits, r: Array) -> None:
    """``b - A x``, followed by ``-damping x`` if there is an l2 penalty.

    It is accurate to a few eps of its own norm: rows in which more cancels are computed
    in twice the precision.
    """
    m, length, variables = len(system.b), run.counts[LENGTH], run.variables
    copy(r, system.b)
    subtract_fitted(system, run, limits, run.x, r)
    level = limits.accurate * norm(r, m)
    if not level < system.b_norm + size(system, run):
        return
    for i in range(m):
        terms = abs(system.b[i])
        for k in range(length):
            terms += abs(system.A[i, variables[k]]) * run.x[k]
        if terms > level:
            r[i] = minus_dot(system.b[i], system.A[i], run.x, variables, length)


@inlined
def gradient(
    system: System, run: ActiveSet, limits: Limits, r: Array, w: Array
) -> None:
    """``A^T r - penalty``; A includes the rows of the l2 penalty."""
    m, n = system.A.shape
    w[:] = 0
    add_rows(w, n, system.A, run.order, r, m)
    for j in range(n):
        if limits.has_ridge:
            w[j] += system.damping[j] * r[m + j]
        w[j] -= system.penalty[j]


@inlined
def rounded(x: float, exponent: int, single: bool) -> float:
    """A scaled x, rounded as if returned in the original variables."""
    original = math.ldexp(x, exponent)
    if single:
        original = np.float64(np.float32(original))
    return math.ldexp(original, -exponent)


@inlined
def refresh(system: System, run: ActiveSet, limits: Limits) -> bool:
    """Correct x by the residual ``b - A x``, unless the solver was stopped.

    The part of the residual along the passive columns is due to an error of x.
    Without that part it is the witness of the certificate. Returns whether the
    corrected x is positive, so that it is x now.
    """
    length, variables, witness = run.counts[LENGTH], run.variables, run.witness
    residual(system, run, limits, witness)
    run.change[:length] = 0
    gradient(system, run, limits, witness, run.witness_w)
    for _ in range(limits.corrections):
        limit = limits.tol / 2 * norm(witness, len(witness))
        visible = False
        for k in range(length):
            j = variables[k]
            run.g[k] = run.witness_w[j]
            visible = visible or abs(run.g[k]) > limit * system.norm[j]
        if not visible:
            break
        multiply(run.H, run.order, run.g, length, run.d)
        for k in range(length):
            if not math.isfinite(run.d[k]):
                run.d[k] = 0
            run.change[k] += run.d[k]
        subtract_fitted(system, run, limits, run.d, witness)
        gradient(system, run, limits, witness, run.witness_w)
    follows = run.counts[STATUS] == CONVERGED
    for k in range(length):
        follows = follows and run.x[k] + run.change[k] > 0
    for k in range(length):
        x = run.x[k] + run.change[k] if follows else run.x[k]
        run.x[k] = rounded(x, system.exponent[variables[k]], limits.single)
    return follows


@inlined
def correct_gradient(system: System, run: ActiveSet, limits: Limits) -> None:
    """Let w and c agree with the true residual and the witness."""
    length = run.counts[LENGTH]
    gradient(system, run, limits, run.r, run.c)
    copy(run.w, run.witness_w)
    for k in range(length):
        run.w[run.variables[k]] = run.c[run.variables[k]]
    copy(run.c, run.w)
    add_rows(run.c, len(run.c), system.G, run.rows, run.x, length)


@inlined
def certify(system: System, run: ActiveSet, found: Array) -> None:
    """Write the certificate of x; see `gpusolve.reference._certificate.certify`."""
    m, rows, steepest, gap = len(system.b), len(run.r), 0.0, 0.0
    w, norms, length = run.witness_w, system.norm, norm(run.witness, len(run.r))
    for j in range(len(w)):
        if w[j] > steepest * norms[j] and norms[j] > 0:
            steepest = w[j] / norms[j]
    for k in range(run.counts[LENGTH]):
        j = run.variables[k]
        if run.x[k] > 0:
            steepest = max(steepest, abs(w[j]) / norms[j])
            gap += run.x[k] * w[j]
    difference = 0.0
    for i in range(rows):
        difference += (run.r[i] - run.witness[i]) ** 2
    limit = ratio(length, system.b_norm)
    gap = ratio(ratio(abs(gap), length), system.b_norm)
    by_x = ratio(math.sqrt(difference), system.b_norm)
    by_x += gap if gap < limit else limit
    angle = min(ratio(steepest, length), limit)
    found[RNORM] = norm(run.r, m)
    found[KKT] = by_x + angle
    found[BY_X] = by_x
    found[ANGLE] = angle


# ---- one system, and all -------------------------------------------------------------


@inlined
def hidden_by_rounding(system: System, run: ActiveSet, limits: Limits) -> bool:
    """Whether rounding x may change ``A x`` visibly."""
    size_to_b = ratio(size(system, run), system.b_norm)
    return not limits.eps * size_to_b <= limits.hidden


@inlined
def solve_one(
    system: System,
    run: ActiveSet,
    limits: Limits,
    best_x: Array,
    best_w: Array,
    best: Array,
) -> None:
    """Iterate to convergence; writes the best x, its gradient and its certificate.

    Starts at `run.guess`.
    """
    counts, found = run.counts, run.found
    counts[:] = 0
    clear(run)
    copy(run.r, system.b)
    gradient(system, run, limits, run.r, run.c)
    guessed = False
    for j in range(len(run.guess)):
        guessed = guessed or run.guess[j] > 0
    most, fresh, entered_since, refreshes = limits.most_entering, False, True, 0
    while True:
        if not fresh:
            make_gradient(system, run)
        if guessed:
            enter_guessed(system, run, limits)
            guessed, fresh = False, False
            if hidden_by_rounding(system, run, limits):
                clear(run)
            most = 0 if counts[LENGTH] else limits.most_entering
            continue
        converged = counts[STATUS] == CONVERGED
        entered = converged and enter(system, run, limits, most, fresh)
        if converged and (entered or most == 0):
            most = limits.most_entering if make_feasible(run, limits) else 1
            fresh = False
            entered_since = entered_since or entered
            continue
        follows = refresh(system, run, limits)
        residual(system, run, limits, run.r)
        certify(system, run, found)
        better = refreshes == 0 or found[KKT] < best[KKT]
        if better:
            copy(best, found)
            copy(best_w, run.witness_w)
            best_x[:] = 0
            for k in range(counts[LENGTH]):
                best_x[run.variables[k]] = run.x[k]
        refreshes += 1
        tol = limits.enough * (1 + ratio(size(system, run), system.b_norm))
        goes_on = (better or entered_since) and found[KKT] > tol
        converged = counts[STATUS] == CONVERGED
        if not goes_on or refreshes == limits.refreshes or not converged:
            return
        correct_gradient(system, run, limits)
        entered_since, fresh = False, True
        most = limits.most_entering if follows else 0
        if found[KKT] > limits.drift * tol:
            copy(run.guess, best_x)
            guessed = True
            clear(run)


@inlined
def active_set(space: Array, integers: Integers, m: int, n: int, h: int) -> ActiveSet:
    """Cut the state of a run from `space`; h is the capacity."""
    H = space[: h * h].reshape((h, h))
    rest = space[h * h :]
    by_position, rest = rest[: 6 * (h + 1)].reshape((6, h + 1)), rest[6 * (h + 1) :]
    by_variable, rest = rest[: 5 * n].reshape((5, n)), rest[5 * n :]
    residuals = rest[: 2 * (m + n)].reshape((2, m + n))
    positions = integers[: 2 * h].reshape((2, h))
    variables = integers[2 * h : 2 * h + 2 * n].reshape((2, n))
    order = integers[2 * (h + n) : 2 * (h + n) + m + n]
    for i in range(m + n):
        order[i] = i
    for i in range(h):
        positions[1, i] = i
    return ActiveSet(
        H,
        positions[0],
        positions[1],
        variables[0],
        by_position[0],
        by_position[1],
        by_variable[0],
        by_variable[1],
        integers[2 * (h + n) + m + n :],
        residuals[0],
        residuals[1],
        order,
        by_position[2],
        by_position[3],
        by_position[4],
        by_position[5],
        by_variable[2],
        by_variable[3],
        by_variable[4],
        variables[1],
        rest[2 * (m + n) : 2 * (m + n) + 4],
    )


@compiled
def solve_all(
    A: Array,
    G: Array,
    b: Array,
    norms: Array,
    damping: Array,
    penalty: Array,
    exponents: Integers,
    start: Array,
    limits: Limits,
    capacity: int,
    space: Array,
    integers: Integers,
    x: Array,
    w: Array,
    found: Array,
    counts: Integers,
) -> None:
    """Solve one system after another; writes `x`, `w`, `found` and `counts`.

    A, G, norms and damping have a leading axis of length 1 if all systems share them.
    G has no entries if its rows are computed when they are needed.
    """
    m, n = A.shape[1:]
    has_gram = G.shape[1] > 0
    kept = 0 if has_gram else capacity * n
    rows, space = space[:kept].reshape((kept // n, n)), space[kept:]
    run = active_set(space, integers, m, n, capacity)
    for k in range(len(b)):
        one = k if len(A) > 1 else 0
        gram = G[one] if has_gram else rows
        system = System(
            A[one],
            gram,
            b[k],
            norms[one],
            damping[one],
            penalty[k],
            exponents[k],
            norm(b[k], m),
            has_gram,
        )
        copy(run.guess, start[k])
        solve_one(system, run, limits, x[k], w[k], found[k])
        copy(counts[k], run.counts)


def gram(system: ScaledSystem) -> Array:
    """``A^T A + diag(damping)^2``; empty if it is computed row by row.

    If A has more than twice as many columns as rows, most rows are never used.
    """
    A = system.A
    if 2 * A.shape[-2] < A.shape[-1]:
        return np.zeros((*A.shape[:-2], 0, 0))
    G = np.matmul(A.swapaxes(-1, -2), A)
    np.einsum("...jj->...j", G)[...] += system.damping**2
    return np.asarray(G)


def nnls_gram(
    system: ScaledSystem, start: Array, *, tol: float, maxiter: int
) -> tuple[Solution, Mask]:
    """Solve scaled systems in float64; as `nnls_gram` of `nnls_gram_cpu`."""
    m, n = system.A.shape[-2:]
    systems = len(start)
    limits = Limits(
        float(tol),
        float(max(tol, default_tolerance(system.dtype))),
        int(maxiter),
        system.eps,
        HIDDEN[system.dtype],
        bool(system.dtype == np.float32),
        system.has_ridge,
    )
    exponents = exponent(system.column_scale) - exponent(system.b_scale)[..., None]
    x, w = np.empty((2, systems, n))
    found, counts = np.empty((systems, 4)), np.zeros((systems, 5), np.int64)
    A, G, norms, damping = system.A, gram(system), system.norm, system.damping
    if A.ndim == 2:
        A, G, norms, damping = A[None], G[None], norms[None], damping[None]
    A, b = np.ascontiguousarray(A), np.ascontiguousarray(system.b)
    capacity = n if system.has_ridge else min(m, n)
    space = np.zeros(capacity * (capacity + n) + 8 * (capacity + 1) + 8 * (m + n))
    integers = np.zeros(2 * capacity + 3 * n + m + 5, np.int64)
    solve_all(
        *(A, G, b, norms, damping, system.penalty, exponents, start, limits, capacity),
        *(space, integers, x, w, found, counts),
    )
    certificate = Certificate(
        rnorm=found[:, RNORM] / system.b_scale,
        dual=system.unscale_dual(w),
        kkt=found[:, KKT],
        by_x=found[:, BY_X],
        angle=found[:, ANGLE],
    )
    integers = counts.astype(np.int32)
    solution = Solution(
        x,
        *certificate[:3],
        nit=integers[:, NIT],
        status=outcome(system, x, certificate, integers[:, STATUS], tol),
        n_updates=integers[:, UPDATES],
        n_downdates=integers[:, DOWNDATES],
        repaired=np.zeros(systems, bool),
        method=np.full(systems, BY_GRAM, np.uint8),
    )
    return solution, is_convincing(system, x, certificate, tol)
