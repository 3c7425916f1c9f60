"""Non-negative least squares by a new QR factorisation in every pass, in batches.

The method is that of the specification (`gpusolve.reference.nnls_qr`, Lawson & Hanson),
with the same criteria for dependent columns and for optimality. In every pass LAPACK
factorises the passive columns of all systems from scratch. That is more arithmetic than
an update, but each call handles many systems. It is used for systems that the Gram
matrix could not certify. It starts at their solutions, which are nearly optimal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..reference._certificate import (
    certify,
    gradient,
    is_settled,
    misfit,
    norm,
    residual,
    size,
    slack,
)
from ..reference._nnls_qr import (
    CAUTIONS,
    CONVERGED,
    DEPENDENT,
    ITERATION_LIMIT,
    Solution,
    outcome,
)
from ..reference._scaling import Array, Indices, Mask, ScaledSystem


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
    """

    Q: Array
    R: Array
    shift: Array
    cancelling: Array

    def solve(self, rhs: Array) -> Array:
        """Solve ``R y = rhs``."""
        return np.asarray(np.linalg.solve(self.R, rhs[..., None])[..., 0])

    def along(self, r: Array) -> Array:
        """``Q^T r - shift``: the right-hand side for a correction of x."""
        return np.asarray(np.matmul(r[:, None], self.Q)[:, 0] - self.shift)

    def orthogonalise(self, r: Array) -> tuple[Array, Array]:
        """The part of r orthogonal to the columns, and what was subtracted, by column.

        The second result is the right-hand side for a correction of x.
        """
        subtracted = np.zeros_like(self.shift)
        for _ in range(2):
            along = self.along(r)
            r = r - np.matmul(self.Q, along[..., None])[..., 0]
            subtracted += along
        return r, subtracted


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
    )


class HouseholderBatch:
    """Lawson & Hanson's method for a batch of scaled systems.

    Systems with the same number of passive variables make a pass together. Therefore
    the bits of a solution do not depend on the other systems.

    Attributes
    ----------
    variables : (systems, capacity) array
        The passive variables in order of entry, followed by n, which means none.
    x : (systems, n + 1) array
        The values of all variables, followed by one entry for none.
    tried : (systems,) array
        Whether the last passive variable still has to be checked: it must be
        independent and lower the objective.
    barred : (systems, n) array
        Variables that failed to enter since x last changed.
    attempt : (systems,) array
        The index of the current factor in `CAUTIONS`.
    witness, slope : arrays
        The residual orthogonal to the passive columns, and the cosine of the angle
        between it and every column.
    best, least : Solution and (systems,) array
        The best solutions of all finished attempts, and their scores: the misfit, less
        `slack` if the solution is certified.
    """

    def __init__(
        self, system: ScaledSystem, start: Array, tol: float, maxiter: int
    ) -> None:
        m, n = system.A.shape[-2:]
        systems, none = len(start), np.zeros((len(start), 1))
        start = np.where(system.norm > 0, start, 0)
        self.system, self.tol, self.maxiter = system, tol, maxiter
        self.rows, self.none = m + n * system.has_ridge, n
        order = np.argsort(start <= 0, axis=1, kind="stable")[:, : min(self.rows, n)]
        positive = np.take_along_axis(start, order, axis=1) > 0
        self.variables = np.where(positive, order, n)
        self.x = np.concatenate([np.maximum(start, 0), none], axis=1)
        self.x[:, :-1][~self.is_passive(np.arange(systems))] = 0
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
        self.remove(at[drop], refused[drop])
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
            descent = factors.along(witness)[:, -1] * np.sign(factors.R[:, -1, -1])
            flat = descent <= self.tol * norm(witness)
            refused[:, -1] |= flat & self.tried[at]
        return refused

    def remove(self, at: Indices, leaving: Mask) -> None:
        """Remove variables from the passive sets, and bar them."""
        lanes, k = at[:, None], leaving.shape[1]
        gone = np.where(leaving, self.variables[at, :k], self.none)
        kept = np.where(leaving, self.none, self.variables[at, :k])
        order = np.argsort(kept == self.none, axis=1, kind="stable")
        self.variables[at, :k] = np.take_along_axis(kept, order, axis=1)
        self.x[lanes, gone] = 0
        mask = np.zeros((len(at), self.none + 1), bool)
        np.put_along_axis(mask, gone, True, axis=1)
        self.barred[at] |= mask[:, :-1]

    def move(self, at: Indices, variables: Indices, y: Array) -> Mask:
        """Move x towards y while it stays positive; return which systems reach y."""
        lanes = at[:, None]
        x = self.x[lanes, variables]
        blocks = y <= 0
        step = np.divide(x, x - y, out=np.full_like(x, np.inf), where=blocks & (x > 0))
        step[blocks & (x <= 0)] = 0
        first = np.min(step, axis=1, keepdims=True, initial=np.inf)
        part = np.where(np.isfinite(first), first, 1)
        moved = np.where(np.isfinite(first), np.maximum(x + part * (y - x), 0), y)
        moved[blocks & (step <= first)] = 0
        self.x[lanes, variables] = moved
        leaving = blocks & (moved <= 0)
        blocked = leaving.any(axis=1)
        self.n_downdates[at] += np.count_nonzero(leaving, axis=1).astype(np.int32)
        self.tried[at] = self.barred[at] = False
        self.remove(at[blocked], leaving[blocked])
        return np.asarray(~blocked)

    def refresh(
        self, at: Indices, system: ScaledSystem, factors: Factors, optimal: Mask
    ) -> None:
        """Compute the witness from A, b and x; refine x if it stays positive."""
        lanes, variables = at[:, None], self.variables[at, : factors.R.shape[-1]]
        r = residual(system, self.x[at, :-1])
        witness, along = factors.orthogonalise(r)
        x = self.x[lanes, variables]
        refined = x + factors.solve(along)
        accept = optimal & (refined > 0).all(axis=1)
        self.x[lanes, variables] = np.where(accept[:, None], refined, x)
        w = gradient(system, witness)
        over = system.norm * norm(witness)[:, None]
        slope = np.divide(w, over, out=np.zeros_like(w), where=over > 0)
        at = at[optimal]
        self.witness[at], self.slope[at] = witness[optimal], slope[optimal]

    def advance(self, at: Indices) -> None:
        """Append the steepest variable of some optimal systems, or finish them."""
        system = self.system.take(at)
        fits = (self.variables[at] == self.none).any(axis=1)
        may_enter = ~self.barred[at] & ~self.is_passive(at)
        slope = np.where(may_enter, self.slope[at], 0)
        variable = np.argmax(slope, axis=1)
        cancelling = norm(system.b) + size(system, self.x[at, :-1])
        enters = fits & (slope[np.arange(len(at)), variable] > self.tol)
        enters &= norm(self.witness[at]) > self.tol * cancelling
        into = at[enters]
        place = np.argmax(self.variables[into] == self.none, axis=1)
        self.variables[into, place] = variable[enters]
        self.tried[into] = True
        if not enters.all():
            self.finish(at[~enters], CONVERGED)

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
        """Start the next attempt of some systems, at x = 0."""
        self.attempt[at] += 1
        self.variables[at] = self.none
        for array in (self.x, self.nit, self.n_updates, self.n_downdates):
            array[at] = 0
        for mask in (self.tried, self.barred):
            mask[at] = False


def nnls_householder(
    system: ScaledSystem, start: Array, *, tol: float, maxiter: int
) -> Solution:
    """Solve a batch of scaled systems in float64; arguments as for `nnls_gram`."""
    return HouseholderBatch(system, start, tol, maxiter).solve()
