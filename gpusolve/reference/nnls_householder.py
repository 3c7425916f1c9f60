"""Non-negative least squares by a fresh QR factorisation at every pass, in batches.

The method is the specification's (:mod:`gpusolve.reference.nnls`, Lawson & Hanson) and
so is what counts as dependent and as optimal. The passive columns of every system are
factorised again by LAPACK whenever one enters or leaves. That is more arithmetic than
an update, but a whole batch goes into each call. It serves systems that the Gram
matrix does not resolve, and begins at their solutions, which are nearly optimal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .certificate import (
    certify,
    gradient,
    is_certified,
    misfit,
    norm,
    residual,
    size,
    slack,
)
from .nnls import (
    CAUTIONS,
    CONVERGED,
    DEPENDENT,
    ITERATION_LIMIT,
    UNCERTIFIED,
    Solution,
)
from .scaling import Array, ScaledSystem

Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


class Factors(NamedTuple):
    """QR factorisations of passive columns; unused places hold columns of zeros.

    Attributes
    ----------
    Q : (lanes, rows, k) array
    R : (lanes, k, k) array
        With ones on the diagonal at unused places.
    shift : (lanes, k) array
        The s of ``R^T s = penalty``.
    cancelling : (lanes, k) array
        The sum of the terms that cancel in a column of Q, written in columns of A.
    """

    Q: Array
    R: Array
    shift: Array
    cancelling: Array

    def solve(self, rhs: Array) -> Array:
        """Solve ``R y = rhs``."""
        return np.asarray(np.linalg.solve(self.R, rhs[..., None])[..., 0])

    def along(self, r: Array) -> Array:
        """``Q^T r - shift``: the right-hand side of what is left to fit."""
        return np.asarray(np.matmul(r[:, None], self.Q)[:, 0] - self.shift)

    def across(self, r: Array) -> tuple[Array, Array]:
        """The part of r across the columns, and the right-hand side of the rest."""
        taken = np.zeros_like(self.shift)
        for _ in range(2):
            along = self.along(r)
            r = r - np.matmul(self.Q, along[..., None])[..., 0]
            taken += along
        return r, taken


def factorise(system: ScaledSystem, variables: Indices) -> Factors:
    """Factorise columns of each system; the variable n stands for none."""
    n, k = system.A.shape[-1], variables.shape[1]
    used = variables < n
    index = np.where(used, variables, 0)
    columns = np.swapaxes(system.A, -1, -2)
    lanes = np.arange(len(variables))[:, None]
    columns = columns[index] if columns.ndim == 2 else columns[lanes, index]
    norms = np.broadcast_to(system.norm, (len(variables), n))[lanes, index] * used
    if system.has_ridge:
        below = np.zeros((len(variables), k, n))
        place = np.arange(k)
        damping = np.broadcast_to(system.damping, (len(variables), n))[lanes, index]
        below[lanes, place, index] = damping
        columns = np.concatenate([columns, below], axis=-1)
    Q, R = np.linalg.qr(np.swapaxes(columns * used[..., None], -1, -2))
    diagonal = np.einsum("...kk->...k", R)
    least = np.finfo(np.float64).eps ** 2 * norms
    small = np.abs(diagonal) <= least
    diagonal[...] = np.where(small, np.where(used, least, 1.0), diagonal)
    penalty = np.broadcast_to(system.penalty, (len(variables), n))[lanes, index] * used
    inverse = np.linalg.inv(R)
    return Factors(
        Q=Q * used[:, None],
        R=R,
        shift=np.matmul(penalty[:, None], inverse)[:, 0],
        cancelling=np.matmul(norms[:, None], np.abs(inverse))[:, 0] * used,
    )


class Batch:
    """A batch of scaled systems, each with its passive variables in order of entry.

    Attributes
    ----------
    variables : (systems, capacity) array
        The passive variables; behind them n, which stands for none.
    x : (systems, n + 1) array
        The values of all variables, and of none.
    tried : (systems,) array
        The last passive variable has yet to prove that it descends.
    closed : (systems, n) array
        Variables that failed to enter since x last changed.
    attempt : (systems,) array
        Which of `CAUTIONS` is in force.
    witness, slope : arrays
        The residual across the passive columns, and the cosine of every column to it.
    best, least : Solution and (systems,) array
        The best solutions of the attempts that have ended, and their misfit.
    """

    def __init__(
        self, system: ScaledSystem, start: Array, tol: float, maxiter: int
    ) -> None:
        m, n = system.A.shape[-2:]
        systems, none = len(start), np.zeros((len(start), 1))
        start = np.where(system.norm > 0, start, 0)
        self.system, self.tol, self.maxiter = system, tol, maxiter
        self.rows = m + n * system.has_ridge
        order = np.argsort(start <= 0, axis=1, kind="stable")[:, : min(self.rows, n)]
        positive = np.take_along_axis(start, order, axis=1) > 0
        self.variables = np.where(positive, order, n)
        self.x = np.concatenate([np.maximum(start, 0), none], axis=1)
        self.x[:, :-1][~self.is_passive(np.arange(systems))] = 0
        self.busy = np.ones(systems, bool)
        self.tried = np.zeros(systems, bool)
        self.closed = np.zeros((systems, n), bool)
        self.attempt = np.zeros(systems, np.intp)
        self.witness = np.zeros((systems, self.rows))
        self.slope = np.zeros((systems, n))
        self.least = np.full(systems, np.inf)
        self.nit, self.n_updates, self.n_downdates = np.zeros((3, systems), np.int32)
        self.best = Solution.blank((systems,), n, np.dtype(np.float64))

    def solve(self) -> Solution:
        """Make passes until every system is finished."""
        while self.busy.any():
            self.make_pass(np.flatnonzero(self.busy))
        self.best.repaired[:] = self.attempt > 0
        return self.best

    def is_passive(self, at: Indices) -> Mask:
        """The passive variables of some systems."""
        mask = np.zeros((len(at), self.x.shape[1]), bool)
        np.put_along_axis(mask, self.variables[at], True, axis=1)
        return mask[:, :-1]

    def make_pass(self, at: Indices) -> None:
        """Factorise the passive columns of some systems, and move x once."""
        n = self.x.shape[1] - 1
        count = np.count_nonzero(self.variables[at] < n, axis=1)
        variables = self.variables[at, : max(1, count.max(initial=0))]
        system = self.system.take(at)
        factors = factorise(system, variables)
        x = np.take_along_axis(self.x[at], variables, axis=1)
        _, along = factors.across(residual(system, self.x[at, :-1]))
        refused = self.refused(at, factors, count)
        drop = refused.any(axis=1)
        self.remove(at[drop], refused[drop])
        limit = ~drop & (count > 0) & (self.nit[at] >= self.maxiter)
        go = ~drop & ~limit
        self.n_updates[at[go & self.tried[at]]] += 1
        self.nit[at[go & (count > 0)]] += 1
        feasible = self.move(at, variables, x + factors.solve(along), go)
        if feasible.any():
            self.refresh(at, system, variables, factors, feasible)
        self.advance(at[feasible | (drop & self.tried[at])])
        if limit.any():
            self.finish(at[limit], ITERATION_LIMIT)

    def refused(self, at: Indices, factors: Factors, count: Indices) -> Mask:
        """The passive variables that depend on others, or do not descend."""
        caution = np.array(CAUTIONS)[self.attempt[at]]
        dependent = caution * DEPENDENT * self.system.eps
        refused = factors.cancelling * dependent[:, None] > 1
        descent = factors.along(self.witness[at])
        last = np.maximum(count - 1, 0)
        lanes = np.arange(len(at))
        sign = np.sign(factors.R[lanes, last, last])
        flat = sign * descent[lanes, last] <= self.tol * norm(self.witness[at])
        refused[lanes, last] |= flat & self.tried[at]
        return refused

    def remove(self, at: Indices, leaving: Mask) -> None:
        """Take variables out of passive sets, and close them."""
        n, k = self.x.shape[1] - 1, leaving.shape[1]
        leaves = np.zeros((len(at), self.variables.shape[1]), bool)
        leaves[:, :k] = leaving
        gone = np.where(leaves, self.variables[at], n)
        kept = np.where(leaves, n, self.variables[at])
        order = np.argsort(kept == n, axis=1, kind="stable")
        self.variables[at] = np.take_along_axis(kept, order, axis=1)
        mask = np.zeros((len(at), n + 1), bool)
        np.put_along_axis(mask, gone, True, axis=1)
        self.x[at] = np.where(mask, 0, self.x[at])
        self.closed[at] |= mask[:, :-1]

    def move(self, at: Indices, variables: Indices, y: Array, go: Mask) -> Mask:
        """Move x towards y while it stays positive; which systems reach it."""
        used = variables < self.x.shape[1] - 1
        x = np.take_along_axis(self.x[at], variables, axis=1)
        blocks = used & (y <= 0) & go[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.where(blocks, np.where(x > 0, x / (x - y), 0), np.inf)
        first = np.min(step, axis=1, keepdims=True)
        moved = np.maximum(x + np.minimum(first, 1) * (y - x), 0)
        moved = np.where(np.isfinite(first), moved, y)
        moved[blocks & (step <= first)] = 0
        moved = np.where(go[:, None], moved, x)
        moved = np.where(used, moved, 0)
        lanes = at[:, None]
        self.x[lanes, variables] = moved
        self.x[at, -1] = 0
        leaving = blocks & (moved <= 0)
        blocked = leaving.any(axis=1)
        self.n_downdates[at] += np.count_nonzero(leaving, axis=1).astype(np.int32)
        self.remove(at[blocked], leaving[blocked])
        self.tried[at[go]] = False
        self.closed[at[go]] = False
        return np.asarray(go & ~blocked)

    def refresh(
        self,
        at: Indices,
        system: ScaledSystem,
        variables: Indices,
        factors: Factors,
        where: Mask,
    ) -> None:
        """Make the witness from A, b and x, and refine x where it stays positive."""
        used = variables < self.x.shape[1] - 1
        witness, taken = factors.across(residual(system, self.x[at, :-1]))
        x = np.take_along_axis(self.x[at], variables, axis=1)
        refined = x + factors.solve(taken)
        accept = where & ((refined > 0) | ~used).all(axis=1)
        lanes = at[:, None]
        self.x[lanes, variables] = np.where(accept[:, None] & used, refined, x)
        w = gradient(system, witness)
        over = system.norm * norm(witness)[:, None]
        slope = np.divide(w, over, out=np.zeros_like(w), where=over > 0)
        self.witness[at[where]], self.slope[at[where]] = witness[where], slope[where]

    def advance(self, at: Indices) -> None:
        """Let the steepest variable of some optimal systems try to enter, or finish."""
        system, n = self.system.take(at), self.x.shape[1] - 1
        room = (self.variables[at] == n).any(axis=1)
        open_ = ~self.closed[at] & ~self.is_passive(at)
        slope = np.where(open_, self.slope[at], 0)
        variable = np.argmax(slope, axis=1)
        cancelling = norm(system.b) + size(system, self.x[at, :-1])
        enters = room & (slope[np.arange(len(at)), variable] > self.tol)
        enters &= norm(self.witness[at]) > self.tol * cancelling
        into = at[enters]
        place = np.argmax(self.variables[into] == n, axis=1)
        self.variables[into, place] = variable[enters]
        self.tried[into] = True
        if not enters.all():
            self.finish(at[~enters], CONVERGED)

    def finish(self, at: Indices, status: int) -> None:
        """Keep the solutions that are the best so far; try again where it may help."""
        system = self.system.take(at)
        x = system.rounded(self.x[at, :-1])
        certificate = certify(system, x, self.witness[at])
        good = is_certified(system, x, certificate.kkt, self.tol)
        found = misfit(system, x, certificate.rnorm) - good * slack(system)
        better = found < self.least[at]
        refused = UNCERTIFIED if status == CONVERGED else status
        outcome = np.where(good, CONVERGED, refused)
        self.least[at[better]] = found[better]
        counts = self.nit[at], outcome, self.n_updates[at], self.n_downdates[at]
        for field, values in zip(self.best, (x, *certificate, *counts), strict=False):
            field[at[better]] = values[better]
        again = ~good & (status == CONVERGED) & (self.attempt[at] + 1 < len(CAUTIONS))
        self.busy[at] = again
        at = at[again]
        self.attempt[at] += 1
        self.variables[at] = self.x.shape[1] - 1
        for array in (self.x, self.nit, self.n_updates, self.n_downdates):
            array[at] = 0
        for mask in (self.tried, self.closed):
            mask[at] = False


def nnls_householder(
    system: ScaledSystem, start: Array, *, tol: float, maxiter: int
) -> Solution:
    """Solve a batch of scaled systems in float64, as `nnls_gram` does."""
    return Batch(system, start, tol, maxiter).solve()
