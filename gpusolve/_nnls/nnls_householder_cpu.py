"""Least squares within bounds by a new QR factorisation in every pass, in batches.

The method is that of the specification (`gpusolve.reference.nnls_qr`, Lawson & Hanson),
with the same criteria for dependent columns and for optimality; bounds and a fixed sum
are treated as in `gpusolve.reference.nnls_gram`. In every pass LAPACK
factorises the passive columns of all systems from scratch. That is more arithmetic than
an update, but each call handles many systems. It is used for systems that the Gram
matrix could not certify. It starts at their solutions, which are nearly optimal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._numerics.certificate import (
    certify,
    data_norm,
    gradient,
    is_settled,
    misfit,
    missing_in_sum,
    outcome,
    ratio,
    residual,
    size,
    slack,
    violation,
)
from .._numerics.scaling import Array, Indices, Mask, ScaledSystem
from .._numerics.solution import CONVERGED, ITERATION_LIMIT, Solution
from ..reference._nnls_gram import SIGNIFICANT
from ..reference._nnls_qr import CAUTIONS, DEPENDENT
from .starting_point import starting_point


class Factors(NamedTuple):
    """QR factorisations of the passive columns of systems that all have k of them.

    Attributes
    ----------
    Q : (lanes, rows, k) array
    R : (lanes, k, k) array
    shift : (lanes, k) array
        The solution s of ``R^T s = penalty``.
    cancelling : (lanes, k) array
        The sum of the magnitudes of the terms when a column of Q is written as a
        combination of columns of A.
    sum_row : int or None
        The row of A that fixes the sum.
    """

    Q: Array
    R: Array
    shift: Array
    cancelling: Array
    sum_row: int | None

    def solve(self, rhs: Array) -> Array:
        """Solve ``R y = rhs``."""
        return np.asarray(np.linalg.solve(self.R, rhs[..., None])[..., 0])

    def along(self, r: Array) -> Array:
        """``Q^T r - shift``: the right-hand side for a correction of x."""
        return np.asarray(np.matmul(r[:, None], self.Q)[:, 0] - self.shift)

    def orthogonalise(self, r: Array) -> tuple[Array, Array]:
        """The part of r orthogonal to the columns, and what was subtracted, by column.

        The second result is the right-hand side for a correction of x. In the row of a
        fixed sum, r has what is missing in the sum, and the result has the negative
        multiplier: what is subtracted there leads to that sum.
        """
        subtracted = np.zeros_like(self.shift)
        for repeated in range(2):
            along = self.along(r)
            if self.sum_row is not None:
                row = self.Q[:, self.sum_row]
                missing = 0 if repeated else r[:, self.sum_row]
                shift = (np.vecdot(row, along) - missing) / np.vecdot(row, row)
                shift = np.where(np.isfinite(shift), shift, 0)
                along = along - shift[:, None] * row
            r = r - np.matmul(self.Q, along[..., None])[..., 0]
            if self.sum_row is not None:
                r[:, self.sum_row] -= shift
            subtracted += along
        return r, subtracted

    def towards_sum(self, missing: Array) -> Array:
        """The right-hand side for a change of x that adds `missing` to a fixed sum."""
        row = self.Q[:, self.sum_row]
        change = row * ratio(missing, np.vecdot(row, row))[:, None]
        return np.where(np.isfinite(change), change, 0)


def factorise(system: ScaledSystem, variables: Indices) -> Factors:
    """Factorise the columns `variables` of each system, a (lanes, k) array."""
    lanes, n = np.arange(len(variables))[:, None], system.A.shape[-1]
    columns = np.swapaxes(system.A, -1, -2)
    columns = columns[variables] if columns.ndim == 2 else columns[lanes, variables]
    norm, damping, penalty = (
        np.broadcast_to(one, (len(variables), n))[lanes, variables]
        for one in (system.norm, system.damping, system.penalty)
    )
    if system.has_ridge:
        ridge = damping[..., None] * (variables[..., None] == np.arange(n))
        columns = np.concatenate([columns, ridge], axis=-1)
    Q, R = np.linalg.qr(np.swapaxes(columns, -1, -2))
    diagonal = np.einsum("...kk->...k", R)
    least = np.finfo(R.dtype).eps ** 2 * norm
    diagonal[...] = np.where(np.abs(diagonal) > least, diagonal, least)
    inverse = np.linalg.inv(R)
    return Factors(
        Q=Q,
        R=R,
        shift=np.matmul(penalty[:, None], inverse)[:, 0],
        cancelling=np.matmul(norm[:, None], np.abs(inverse))[:, 0],
        sum_row=system.data_rows if system.has_sum else None,
    )


def nearest_bound(x: Array, lower: Array, upper: Array) -> Array:
    """The bound next to each x; 0 if both are infinite."""
    bound = np.where(x - lower <= upper - x, lower, upper)
    return np.where(np.isfinite(bound), bound, 0)


class HouseholderBatch:
    """The active-set method for a batch of scaled systems.

    Systems with the same number of passive variables make a pass together. Therefore a
    solution does not depend on the other systems, but for rounding: where an array
    begins may change the order of sums in BLAS.

    Attributes
    ----------
    variables : (systems, capacity) array
        The passive variables in order of entry, followed by n, which means none.
    x : (systems, n + 1) array
        The values of all variables, followed by one entry for none.
    lower, upper : (systems, n + 1) array
        The bounds of all variables, followed by infinite ones for none.
    tried : (systems,) array
        Whether the last passive variable still has to be checked: it must be
        independent and lower the objective.
    barred : (systems, n) array
        Variables that failed to enter since x last changed.
    attempt : (systems,) array
        The index of the current factor in `CAUTIONS`.
    witness, slope : arrays
        The residual orthogonal to the passive columns, with the negative multiplier in
        the row of a fixed sum, and the cosine of the angle between it and every column.
    best, least : Solution and (systems,) array
        The best solutions of all finished attempts, and their scores: the misfit, less
        `slack` if the solution is certified.
    """

    def __init__(
        self, system: ScaledSystem, start: Array, tol: float, maxiter: int
    ) -> None:
        (m, n), systems = system.A.shape[-2:], len(start)
        infinite = np.full((systems, 1), np.inf)
        self.system, self.tol, self.maxiter = system, tol, maxiter
        self.rows, self.none = m + n * system.has_ridge, n
        self.lower, self.upper = (
            np.concatenate([np.broadcast_to(bound, start.shape), none], axis=1)
            for bound, none in ((system.lower, -infinite), (system.upper, infinite))
        )
        self.variables = np.full((systems, min(self.rows, n)), n)
        self.x = np.zeros((systems, n + 1))
        self.begin(np.arange(systems), system, start)
        self.busy = np.ones(systems, bool)
        self.tried = np.zeros(systems, bool)
        self.barred = np.zeros((systems, n), bool)
        self.attempt = np.zeros(systems, np.intp)
        self.witness = np.zeros((systems, self.rows))
        self.slope = np.zeros((systems, n))
        self.least = np.full(systems, np.inf)
        self.nit, self.n_updates, self.n_downdates = np.zeros((3, systems), np.int32)
        self.best = Solution.blank((systems,), n, np.dtype(np.float64))

    def solve(self) -> Solution:
        """Make passes until every system is finished."""
        while self.busy.any():
            at = np.flatnonzero(self.busy)
            count = np.count_nonzero(self.variables[at] < self.none, axis=1)
            for k in np.unique(count):
                self.make_pass(at[count == k], int(k))
        self.best.repaired[:] = self.attempt > 0
        return self.best

    def begin(self, at: Indices, system: ScaledSystem, start: Array) -> None:
        """Let some systems start at given points."""
        most = self.variables.shape[1]
        x, passive = starting_point(system, start, most)
        order = np.argsort(~passive, axis=1, kind="stable")[:, :most]
        passive = np.take_along_axis(passive, order, axis=1)
        self.variables[at] = np.where(passive, order, self.none)
        self.x[at, :-1] = x

    def is_passive(self, at: Indices) -> Mask:
        """Mask of the passive variables of some systems, (len(at), n)."""
        mask = np.zeros((len(at), self.x.shape[1]), bool)
        np.put_along_axis(mask, self.variables[at], True, axis=1)
        return mask[:, :-1]

    def make_pass(self, at: Indices, k: int) -> None:
        """Factorise the k passive columns of some systems, and move x once."""
        system, variables = self.system.take(at), self.variables[at, :k]
        factors = factorise(system, variables)
        _, along = factors.orthogonalise(residual(system, self.x[at, :-1]))
        y = self.x[at[:, None], variables] + factors.solve(along)
        refused = self.refused(at, factors)
        drop = refused.any(axis=1)
        limit = ~drop & (self.nit[at] >= self.maxiter) & (k > 0)
        go = np.flatnonzero(~drop & ~limit)
        self.n_updates[at[go]] += self.tried[at[go]]
        self.nit[at[go]] += k > 0
        optimal = np.zeros(len(at), bool)
        optimal[go] = self.move(at[go], variables[go], y[go])
        if optimal.any():
            self.refresh(at, system, factors, optimal)
        if drop.any():
            self.drop(at[drop], refused[drop])
        self.advance(at[optimal | (drop & self.tried[at])])
        if limit.any():
            self.finish(at[limit], ITERATION_LIMIT)

    def refused(self, at: Indices, factors: Factors) -> Mask:
        """Mask of passive variables that are dependent or do not descend."""
        caution = np.array(CAUTIONS)[self.attempt[at]]
        dependent = caution * DEPENDENT * self.system.eps
        refused = factors.cancelling * dependent[:, None] > 1
        if refused.shape[1]:
            witness = self.witness[at]
            inward = self.slope[at, self.variables[at, refused.shape[1] - 1]]
            sign = np.sign(factors.R[:, -1, -1]) * np.sign(inward)
            descent = factors.along(witness)[:, -1] * sign
            flat = descent <= self.tol * data_norm(self.system, witness)
            refused[:, -1] |= flat & self.tried[at]
        return refused

    def drop(self, at: Indices, refused: Mask) -> None:
        """Let passive variables rest at the nearest bound; with a fixed sum, they stay.

        One that was tried rests already.
        """
        lanes, k = at[:, None], refused.shape[1]
        variables = self.variables[at, :k]
        if not self.system.has_sum:
            x = self.x[lanes, variables]
            moves = refused.copy()
            moves[:, -1] &= ~self.tried[at]
            bound = nearest_bound(
                x, self.lower[lanes, variables], self.upper[lanes, variables]
            )
            self.x[lanes, variables] = np.where(moves, bound, x)
        self.remove(at, refused)

    def remove(self, at: Indices, leaving: Mask) -> None:
        """Remove variables from the passive sets, and bar them."""
        k = leaving.shape[1]
        gone = np.where(leaving, self.variables[at, :k], self.none)
        kept = np.where(leaving, self.none, self.variables[at, :k])
        order = np.argsort(kept == self.none, axis=1, kind="stable")
        self.variables[at, :k] = np.take_along_axis(kept, order, axis=1)
        mask = np.zeros((len(at), self.none + 1), bool)
        np.put_along_axis(mask, gone, True, axis=1)
        self.barred[at] |= mask[:, :-1]

    def move(self, at: Indices, variables: Indices, y: Array) -> Mask:
        """Move x towards y while it stays feasible; return which systems reach y.

        If the sum is fixed, the last passive variable stays.
        """
        lanes = at[:, None]
        lower, upper = self.lower[lanes, variables], self.upper[lanes, variables]
        x, low = self.x[lanes, variables], y <= lower
        blocks, end = low | (y >= upper), np.where(low, lower, upper)
        step = np.where(blocks, np.fmax((end - x) / (y - x), 0), np.inf)
        first = np.min(step, axis=1, keepdims=True, initial=np.inf)
        moved = np.where(np.isfinite(first), x + np.fmin(first, 1) * (y - x), y)
        moved = np.clip(moved, lower, upper)
        moved = np.where(blocks & (step <= first), end, moved)
        self.x[lanes, variables] = moved
        leaving = blocks & (moved == end)
        if self.system.has_sum:
            leaving[leaving.all(axis=1), -1:] = False
        blocked = leaving.any(axis=1)
        self.n_downdates[at] += np.count_nonzero(leaving, axis=1).astype(np.int32)
        self.tried[at] = self.barred[at] = False
        self.remove(at[blocked], leaving[blocked])
        return np.asarray(~blocked)

    def refresh(
        self, at: Indices, system: ScaledSystem, factors: Factors, optimal: Mask
    ) -> None:
        """Compute the witness from A, b and x; refine x if it stays inside."""
        lanes, variables = at[:, None], self.variables[at, : factors.R.shape[-1]]
        r = residual(system, self.x[at, :-1])
        witness, along = factors.orthogonalise(r)
        x = self.x[lanes, variables]
        refined = x + factors.solve(along)
        if self.system.has_sum:
            other = self.x[at]
            np.put_along_axis(other, variables, refined, axis=1)
            row, total = system.A[..., -1, :], system.b[:, -1]
            missing = missing_in_sum(row, total, other[:, :-1])
            refined += factors.solve(factors.towards_sum(missing))
        lower, upper = self.lower[lanes, variables], self.upper[lanes, variables]
        inside = (refined > lower) & (refined < upper)
        accept = optimal & inside.all(axis=1)
        self.x[lanes, variables] = np.where(accept[:, None], refined, x)
        w = gradient(system, witness)
        over = system.norm * self.resolution(system, at, witness)[:, None]
        slope = np.divide(w, over, out=np.zeros_like(w), where=over > 0)
        at = at[optimal]
        self.witness[at], self.slope[at] = witness[optimal], slope[optimal]

    def advance(self, at: Indices) -> None:
        """Append the steepest variable of some optimal systems, or finish them."""
        system = self.system.take(at)
        fits = (self.variables[at] == self.none).any(axis=1)
        may_enter = ~self.barred[at] & ~self.is_passive(at)
        x = self.x[at, :-1]
        slope = np.where(may_enter, violation(system, x, self.slope[at]), 0)
        variable = np.argmax(slope, axis=1)
        cancelling = system.magnitude + size(system, x)
        enters = fits & (slope[np.arange(len(at)), variable] > self.tol)
        enters &= self.resolution(system, at, self.witness[at]) > self.tol * cancelling
        into = at[enters]
        place = np.argmax(self.variables[into] == self.none, axis=1)
        self.variables[into, place] = variable[enters]
        self.tried[into] = True
        moved = np.zeros(len(at), bool)
        for k in np.flatnonzero(~enters & np.any(system.penalty != 0, axis=-1)):
            moved[k] = self.exchange(int(at[k]))
        ended = ~(enters | moved)
        if ended.any():
            self.finish(at[ended], CONVERGED)

    def resolution(self, system: ScaledSystem, at: Indices, witness: Array) -> Array:
        """What the slopes of some systems are relative to: the norm of the witness.

        If that is noise, only a penalty has slopes, relative to the terms of A x.
        """
        length = data_norm(system, witness)
        terms = system.magnitude + size(system, self.x[at, :-1])
        only = np.any(system.penalty != 0, axis=-1) & (length <= self.tol * terms)
        return np.where(only, terms, length)

    def exchange(self, lane: int) -> bool:
        """Move one system along a dependence of columns if a penalty falls.

        See `exchange` of the specification of ``"gram"``. False if nothing moves.
        """
        if self.nit[lane] >= self.maxiter:
            return False
        system, x = self.system.take(np.array(lane)), self.x[lane, :-1]
        passive = self.variables[lane][self.variables[lane] < self.none]
        w = gradient(system, self.witness[lane])
        visible = self.tol * system.norm * (system.magnitude + size(system, x))
        rest = np.flatnonzero(violation(system, x, w) > visible)
        rest = np.setdiff1d(rest, passive)
        A = np.vstack([system.A, np.diag(system.damping)])
        u = np.linalg.lstsq(A[:, passive], A[:, rest], rcond=None)[0]
        remainder = np.linalg.norm(A[:, rest] - A[:, passive] @ u, axis=0)
        cancelling = system.norm[rest] + system.norm[passive] @ np.abs(u)
        caution = CAUTIONS[self.attempt[lane]] * DEPENDENT * system.eps
        gain = np.sign(w[rest]) * (system.penalty[passive] @ u - system.penalty[rest])
        terms = system.penalty[passive] @ np.abs(u) + system.penalty[rest]
        falls = (remainder <= caution * cancelling) & (gain > SIGNIFICANT * terms)
        if not falls.any():
            return False
        steepest = int(np.argmax(np.where(falls, gain / system.norm[rest], 0)))
        j, d = int(rest[steepest]), -np.sign(w[rest[steepest]]) * u[:, steepest]
        lower, upper = self.lower[lane], self.upper[lane]
        own = upper[j] - x[j] if w[j] > 0 else x[j] - lower[j]
        end = np.where(d < 0, lower[passive], upper[passive])
        reach = np.append(np.where(d != 0, (end - x[passive]) / d, np.inf), own)
        first = int(np.argmin(reach))
        if not np.isfinite(reach[first]):
            return False
        self.x[lane, passive] = x[passive] + reach[first] * d
        self.x[lane, j] = x[j] + np.sign(w[j]) * reach[first]
        self.x[lane] = np.clip(self.x[lane], lower, upper)
        if first < len(passive):
            self.x[lane, passive[first]] = end[first]
            self.variables[lane, first] = j
        self.nit[lane] += 1
        self.tried[lane] = self.barred[lane] = False
        return True

    def finish(self, at: Indices, status: int) -> None:
        """Record the best solutions so far; start another attempt if it may help."""
        system = self.system.take(at)
        x = system.rounded(self.x[at, :-1])
        found = certify(system, x, self.witness[at])
        ended = outcome(system, x, found, status, self.tol)
        good = ended == CONVERGED
        score = misfit(system, x, found.rnorm) - good * slack(system)
        better = (score < self.least[at]) | (self.attempt[at] == 0)
        self.least[at[better]] = score[better]
        counts = self.nit[at], ended, self.n_updates[at], self.n_downdates[at]
        fields: tuple[Any, ...] = self.best
        for field, values in zip(fields, (x, *found[:3], *counts), strict=False):
            field[at[better]] = values[better]
        again = ~(good & is_settled(system, found)) & (status == CONVERGED)
        again &= self.attempt[at] + 1 < len(CAUTIONS)
        self.busy[at] = again
        self.restart(at[again])

    def restart(self, at: Indices) -> None:
        """Start the next attempt of some systems, with all variables at rest."""
        self.attempt[at] += 1
        at_rest = np.full((len(at), self.none), np.nan)
        self.begin(at, self.system.take(at), at_rest)
        for array in (self.nit, self.n_updates, self.n_downdates):
            array[at] = 0
        for mask in (self.tried, self.barred):
            mask[at] = False


@np.errstate(all="ignore")
def nnls_householder(
    system: ScaledSystem, start: Array, *, tol: float, maxiter: int
) -> Solution:
    """Solve a batch of scaled systems in float64; arguments as for `nnls_gram`."""
    return HouseholderBatch(system, start, tol, maxiter).solve()
