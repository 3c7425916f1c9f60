"""The correction of x by its residual, and the certificate."""

from __future__ import annotations

import math

from .._device.compiled import inlined, merged
from .._numerics.solution import CONVERGED
from .numba_active_set import missing, step
from .numba_residual import (
    data_norm,
    gradient,
    passive_gradient,
    residual,
    subtract_fitted,
)
from .numba_run import (
    ALL_X,
    ANGLE,
    BY_X,
    CHANGE,
    KKT,
    LENGTH,
    MULTIPLIER,
    RESIDUAL,
    RNORM,
    SIZE,
    STATUS,
    STEP,
    TRIAL,
    WITNESS,
    WITNESS_W,
    ActiveSet,
    C,
    U,
    W,
    X,
    add_gram_rows,
    size,
)
from .numba_sums import copy, dot, ratio
from .numba_system import (
    LOWER,
    MAGNITUDE,
    NORM,
    PENALTY,
    UPPER,
    Limits,
    System,
    points_inwards,
    rounded,
)


@merged
def refresh(system: System, run: ActiveSet, limits: Limits) -> bool:
    """Correct x by the residual ``b - A x``, unless the solver was stopped.

    The part of the residual along the passive columns is due to an error of x. Without
    that part it is the witness of the certificate. Returns whether the corrected x is
    between its bounds, so that it is x now.
    """
    length, variables, u = run.counts[LENGTH], run.variable, run.at[U]
    witness, w, known = run.residuals[WITNESS], run.of[WITNESS_W], False
    residual(system, run, limits)
    copy(witness, run.residuals[RESIDUAL])
    for k in range(length):
        run.at[CHANGE, k] = 0
    passive_gradient(system, run, limits, witness, u)
    for _ in range(limits.corrections):
        limit, visible = limits.tol / 2 * data_norm(system, limits, witness), False
        for k in range(length):
            visible = visible or abs(u[k]) > limit * system.of[NORM, variables[k]]
            run.at[TRIAL, k] = run.at[X, k] + run.at[CHANGE, k]
        if not visible and missing(system, run, limits, run.at[TRIAL]) == 0:
            break
        shift = step(system, run, limits, u, run.at[TRIAL])
        run.numbers[MULTIPLIER] += shift
        for k in range(length):
            if not math.isfinite(run.at[STEP, k]):
                run.at[STEP, k] = 0
            run.at[CHANGE, k] += run.at[STEP, k]
        subtract_fitted(system, limits, variables, run.at[STEP], length, witness)
        if limits.has_sum:
            witness[len(system.b) - 1] = -run.numbers[MULTIPLIER]
        gradient(system, limits, run.order, witness, w)
        known = True
        for k in range(length):
            u[k] = w[variables[k]]
    if not known:
        gradient(system, limits, run.order, witness, w)
    follows = run.counts[STATUS] == CONVERGED
    for k in range(length):
        j, x = variables[k], run.at[X, k] + run.at[CHANGE, k]
        follows = follows and system.of[LOWER, j] < x < system.of[UPPER, j]
    for k in range(length):
        x = run.at[X, k] + run.at[CHANGE, k] if follows else run.at[X, k]
        run.at[X, k] = rounded(system, limits, variables[k], x)
    return bool(follows)


@merged
def correct_gradient(system: System, run: ActiveSet, limits: Limits) -> None:
    """Let w and c agree with the true residual, and w with the witness's gradient."""
    passive_gradient(system, run, limits, run.residuals[RESIDUAL], run.at[U])
    copy(run.of[W], run.of[WITNESS_W])
    for k in range(run.counts[LENGTH]):
        run.of[W, run.variable[k]] = run.at[U, k]
    if run.has_gram:
        copy(run.of[C], run.of[W])
        add_gram_rows(system, run, run.of[C], run.at[X], 1.0)


@inlined
def from_bound(x: float, lower: float, upper: float) -> float:
    """``x - p``, where p is the nearest bound; 0 if there is no finite one."""
    least = x - lower if x - lower <= upper - x else x - upper
    return least if math.isfinite(least) else 0.0


@merged
def certify(system: System, run: ActiveSet, limits: Limits) -> None:
    """Certify x by its residual and the witness, as `_certificate.certify`."""
    w, steepest, gap, room = run.of[WITNESS_W], 0.0, 0.0, 0.0
    for j in range(len(w)):
        x, lower, upper = run.of[ALL_X, j], system.of[LOWER, j], system.of[UPPER, j]
        violation = abs(w[j]) if points_inwards(w[j], x, lower, upper) else 0.0
        steepest = max(steepest, ratio(violation, system.of[NORM, j]))
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
