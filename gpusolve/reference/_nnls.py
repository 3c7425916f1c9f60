"""Least squares within bounds: the specification, by Lawson and Hanson's method.

The method is Lawson & Hanson's [1]_, and with upper bounds Stark & Parker's [2]_. A
variable that is not passive *rests* at a bound, or at 0 if it is free. It may enter if
the gradient points into its interval. It leaves for the bound that it reaches. Each
step is a least-squares problem of the passive columns, whose QR factorisation LAPACK
computes again: from the residual of x in twice the precision, so that a step also
corrects x. ``cuda_src/nnls_gram.cu`` and ``cuda_src/nnls_qr.cu`` update an inverse and
a factorisation instead. They find the same minimum, by steps of their own.

If the sum of x is fixed, a row of A says so, and the element of b in this row is free.
It is chosen so that the passive solution has this sum. The change of the element is the
multiplier of the constraint, so that the residual is also the witness.

References
----------
.. [1] C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems" (1974),
       chapter 23.
.. [2] P. B. Stark and R. L. Parker, "Bounded-variable least-squares: an algorithm and
       applications", Computational Statistics 10 (1995).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._numerics.arithmetic import Array, weighted
from .._numerics.certificate import (
    CERTIFIED,
    CONVERGED,
    ITERATION_LIMIT,
    NOT_FINITE,
    Solution,
    certify,
    default_limit,
    default_tolerance,
    outcome,
    score,
)
from .._numerics.system import System, scale

DEPENDENT = 4.0
"""Threshold for dependent columns, in units of eps times the sum of the terms that
cancel. A column depends on the passive columns if its orthogonal part is below it."""

CAUTIONS = (1.0, 64.0, 4096.0)
"""Factors on `DEPENDENT`, tried in turn until a solution is certified."""

SIGNIFICANT = 512.0
"""Threshold for a difference of penalties, in units of eps times the sum of the terms
that cancel."""


class ActiveSet:
    """The active-set method for a scaled system.

    Parameters
    ----------
    system : System
    start : (n,) array
        Its finite entries between the bounds start in the passive set, unless they
        equal ``system.rest``.
    tol : float
        A variable may enter if the cosine of the angle between its column and the
        residual exceeds `tol`.
    caution : float
        Factor on the threshold `DEPENDENT`.

    Attributes
    ----------
    x : (n,) array
        The values of the variables, both passive and resting.
    passive : list of int
        The passive variables. Their columns are ``Q R``.
    shift : (length,) array
        The s of ``R^T s = penalty``: what ``Q^T r`` is at the solution.
    multiplier : float
        The multiplier of the fixed sum: by how much the element of b in its row is
        less.
    """

    def __init__(
        self, system: System, start: Array, tol: float, caution: float
    ) -> None:
        self.system, self.tol = system, tol
        n = system.A.shape[1]
        self.A = system.A
        if system.row is not None:
            self.A = np.vstack([self.A, system.row])
        if system.has_ridge:
            self.A = np.vstack([self.A, np.diag(system.damping)])
        self.dependent = caution * DEPENDENT * system.eps
        self.lower = np.broadcast_to(system.lower, n)
        self.upper = np.broadcast_to(system.upper, n)
        self.penalty = np.broadcast_to(system.penalty, n)
        self.x = np.broadcast_to(system.rest, n).copy()
        self.multiplier = 0.0
        self.nit = self.n_updates = self.n_downdates = 0
        self.status = CONVERGED
        self.keep([])
        self.begin(np.where(np.isfinite(start), start, self.x))

    def begin(self, start: Array) -> None:
        """Let variables rest at their bounds; append those between their bounds."""
        start = np.clip(start, self.lower, self.upper)
        at_bound = (start == self.lower) | (start == self.upper)
        enters = np.flatnonzero(~at_bound & (start != self.x))
        if self.system.has_sum:
            self.make_sum()
        else:
            self.x[at_bound] = start[at_bound]
        for j in map(int, enters):
            if j not in self.passive and self.append(j) and not self.system.has_sum:
                self.x[j] = start[j]

    def make_sum(self) -> None:
        """Let variables rest elsewhere, the cheapest first, until x has its sum.

        The last of them becomes passive, unless the bounds do not allow the sum.
        """
        row, w = self.system.row, self.A.T @ self.residual() - self.penalty
        assert row is not None
        missing = float(self.system.missing(self.x))
        ends = self.upper if missing >= 0 else self.lower
        left = row > 0
        while left.any():
            reach, units = ends - self.x, np.where(left, row, 1)
            move = missing / units
            move = np.where(np.abs(reach) < np.abs(move), reach, move)
            cost = (self.system.norm**2 * move / 2 - w) / units
            cost = np.where(left, cost if missing >= 0 else -cost, np.inf)
            j = int(np.argmin(cost))
            move = missing / row[j]
            if self.lower[j] < self.upper[j] and abs(reach[j]) >= abs(move):
                if self.append(j):
                    self.x[j] += move
                return
            missing -= row[j] * reach[j]
            self.x[j], left[j] = ends[j], False

    # ---- the passive set -------------------------------------------------------------

    def keep(self, passive: list[int]) -> None:
        """Make these variables passive."""
        self.passive = passive
        self.Q, self.R = np.linalg.qr(self.A[:, passive])
        self.shift = np.linalg.solve(self.R.T, self.penalty[passive])

    def project(self, j: int) -> tuple[Array, Array, float]:
        """Split column j into passive columns and an orthogonal part.

        Returns the coefficients of the passive columns, the orthogonal part, and its
        norm; 0 if the column is dependent.
        """
        u = self.A[:, j].copy()
        along = np.zeros(len(self.passive), u.dtype)
        for _ in range(2):
            part = self.Q.T @ u
            along, u = along + part, u - self.Q @ part
        c = np.linalg.solve(self.R, along)
        norm = self.system.norm
        terms = norm[j] + np.abs(norm[self.passive] * c).sum()
        length = float(np.linalg.norm(u))
        room = len(self.passive) < min(self.A.shape)
        return c, u, length if room and length > self.dependent * terms else 0.0

    def append(self, j: int, descends: float = 0.0, least: float = -np.inf) -> bool:
        """Append variable j if it is independent of the others and moves inwards.

        `descends` is the sign of its change. The square of `least` is twice the
        decrease of the objective that its orthogonal part must exceed.
        """
        c, u, length = self.project(j)
        if not length > 0:
            return False
        slope = u @ self.witness() - self.penalty[j] + c @ self.penalty[self.passive]
        if least > -np.inf and not descends * slope > least * length:
            return False
        self.keep([*self.passive, j])
        self.n_updates += 1
        return True

    def residual(self) -> Array:
        """``b - A x``, where b has the multiplier subtracted."""
        r = self.system.residual(self.x)
        if self.system.has_sum:
            r[self.system.b.shape[-1]] -= self.multiplier
        return r

    def witness(self) -> Array:
        """The residual without its part along the passive columns."""
        r = self.residual()
        for _ in range(2):
            r = r - self.Q @ (self.Q.T @ r - self.shift)
        return r

    def solution(self) -> Array:
        """The passive values that minimise the objective, from a step from x."""
        rhs = self.Q.T @ self.residual() - self.shift
        if self.system.has_sum:
            q = self.Q[self.system.b.shape[-1]]
            missing = float(self.system.missing(self.x))
            for _ in range(2):
                change = np.divide(q @ rhs - missing, q @ q)
                if np.isfinite(change):
                    rhs = rhs - change * q
                    self.multiplier += float(change)
        return np.asarray(self.x[self.passive] + np.linalg.solve(self.R, rhs))

    # ---- the steps -------------------------------------------------------------------

    def enter(self, fresh: bool) -> bool:
        """Append the steepest variable that lowers the objective; False if none does.

        The decrease must exceed rounding errors. These are relative to the terms that
        cancel in ``b - A x``; if x was corrected (`fresh`), to the residual itself.
        """
        system, r = self.system, self.witness()
        cancelling = float(system.magnitude + system.size(self.x))
        length = float(system.length(r))
        if not length > self.tol * cancelling:
            length = cancelling
        least = self.tol * (length if fresh else cancelling)
        w = self.A.T @ r - self.penalty
        inwards = np.where(w > 0, self.x < self.upper, self.x > self.lower)
        inwards[self.passive] = False
        steep = np.abs(w) > self.tol * system.norm * length
        candidates = np.flatnonzero(inwards & steep)
        slope = np.abs(w[candidates]) / system.norm[candidates]
        for j in map(int, candidates[np.argsort(-slope, kind="stable")]):
            sign = float(np.sign(w[j]))
            if self.append(j, sign, least) or self.exchange(j, sign):
                return True
        return False

    def exchange(self, j: int, sign: float) -> bool:
        """Move along a dependence of column j on passive columns, if a penalty falls.

        ``A x`` does not change, so that only a bound ends the move: of j, or of a
        passive variable, which j replaces. False if nothing moves.
        """
        if not self.penalty.any():
            return False
        c, _, length = self.project(j)
        passive = self.passive
        terms = c * self.penalty[passive]
        gain = sign * (terms.sum() - self.penalty[j])
        size = np.abs(terms).sum() + abs(self.penalty[j])
        if length > 0 or not gain > SIGNIFICANT * self.system.eps * size:
            return False
        d = -sign * c
        end = np.where(d < 0, self.lower[passive], self.upper[passive])
        reach = np.full_like(d, np.inf)
        np.divide(end - self.x[passive], d, out=reach, where=d != 0)
        own_end = self.upper[j] if sign > 0 else self.lower[j]
        own = abs(own_end - self.x[j])
        move = min(own, reach.min(initial=np.inf))
        if not np.isfinite(move):
            return False
        self.x[passive] = np.clip(
            self.x[passive] + move * d, self.lower[passive], self.upper[passive]
        )
        self.x[j] = own_end if move == own else self.x[j] + sign * move
        if move < own:
            first = int(np.argmin(reach))
            self.x[passive[first]] = end[first]
            self.keep(passive[:first] + passive[first + 1 :])
            self.n_downdates += 1
            self.append(j)
        return True

    def make_feasible(self, maxiter: int) -> None:
        """Move x to the passive solution; remove what reaches a bound.

        The last variable stays if the sum is fixed.
        """
        while self.nit < maxiter:
            self.nit += 1
            y, passive = self.solution(), self.passive
            x, lower, upper = self.x[passive], self.lower[passive], self.upper[passive]
            leaving = (y <= lower) | (y >= upper)
            if not leaving.any() or (self.system.has_sum and len(passive) == 1):
                self.x[passive] = np.clip(y, lower, upper)
                return
            end = np.where(y <= lower, lower, upper)
            step = np.divide(end - x, y - x, out=np.zeros_like(x), where=x != end)
            step[~leaving] = np.inf
            first = int(np.argmin(step))
            x = np.clip(x + step[first] * (y - x), lower, upper)
            x[first] = end[first]
            self.x[passive] = x
            stays = ~(leaving & (x == end))
            if self.system.has_sum and not stays.any():
                stays[0] = True
            self.keep([j for j, kept in zip(passive, stays, strict=True) if kept])
            self.n_downdates += int((~stays).sum())
        self.status = ITERATION_LIMIT

    def correct(self) -> None:
        """Correct x by another step, if it stays between the bounds."""
        y, passive = self.solution(), self.passive
        if ((y > self.lower[passive]) & (y < self.upper[passive])).all():
            self.x[passive] = y

    def solve(self, maxiter: int) -> None:
        """Iterate to convergence, which is only declared for a corrected x."""
        goes_on = bool(self.passive)
        while self.status == CONVERGED:
            if goes_on:
                self.make_feasible(maxiter)
            if self.status != CONVERGED or self.enter(fresh=False):
                goes_on = True
                continue
            self.correct()
            if not self.enter(fresh=True):
                return
            goes_on = True


def solve_system(system: System, start: Array, tol: float, maxiter: int) -> Solution:
    """Solve a scaled system; the solution is in the scaled variables.

    If the solution is not certified, a passive column may consist of rounding noise.
    Then the system is solved again with the next factor of `CAUTIONS`. The best of all
    solutions is returned, by its `score`.
    """
    best, least = Solution.blank((), len(start), system.A.dtype), np.inf
    with np.errstate(all="ignore"):
        for caution in CAUTIONS:
            run = ActiveSet(system, start, tol, caution)
            run.solve(maxiter)
            x = system.rounded(run.x)
            found = certify(system, x, run.witness())
            status = outcome(system, x, found, run.status, tol)
            good = bool(status == CONVERGED)
            value = float(score(system, x, found.rnorm, good))
            if caution == CAUTIONS[0] or value < least:
                counts = run.nit, status, run.n_updates, run.n_downdates
                fields: list[Any] = [x, *found[:3], *counts, *best[8:]]
                best, least = Solution(*fields), value
            if (
                good and found.kkt <= CERTIFIED[system.dtype]
            ) or run.status == ITERATION_LIMIT:
                break
            start = system.rest
    return best._replace(repaired=np.array(caution > CAUTIONS[0]))


def nnls(
    A: Array,
    b: Array,
    *,
    bounds: tuple[ArrayLike, ArrayLike] = (0.0, np.inf),
    weights: ArrayLike | None = None,
    sum_to: ArrayLike | None = None,
    warm_start: Array | None = None,
    l1: ArrayLike = 0.0,
    l2: ArrayLike = 0.0,
    tol: float | None = None,
    maxiter: int | None = None,
) -> Solution:
    """Solve a batch of least-squares problems within bounds, system by system.

    The parameters are as for :func:`gpusolve.lsq_linear`; the default bounds are 0 and
    infinity. Arrays are NumPy arrays of the same floating dtype, in which all
    computation is. The batch axes of `A` and `b` broadcast.

    See Also
    --------
    gpusolve.nnls, gpusolve.lsq_linear

    Examples
    --------
    >>> import numpy as np
    >>> solution = nnls(np.array([[3.0, 2.0], [1.0, 1.0]]), np.array([3.0, 2.0]))
    >>> solution.x.round(12)
    array([0. , 1.6])
    """
    n = A.shape[-1]
    options: dict[str, Any] = {"bounds": bounds, "weights": weights, "sum_to": sum_to}
    options |= {"warm_start": warm_start, "l1": l1, "l2": l2}
    tol = default_tolerance(A.dtype) if tol is None else tol
    maxiter = default_limit(n) if maxiter is None else maxiter
    batch = np.broadcast_shapes(A.shape[:-2], b.shape[:-1])
    solution = Solution.blank(batch, n, A.dtype)
    solution.status[...] = NOT_FINITE
    for k, system, start in scaled_systems(A, b, **options):
        found = solve_system(system, start, tol, maxiter)
        solution.put(k, found._replace(x=system.unscale(found.x)))
    return solution


def scaled_systems(
    A: Array,
    b: Array,
    dtype: np.dtype[Any] | None = None,
    batch: tuple[int, ...] = (),
    *,
    bounds: tuple[ArrayLike, ArrayLike] = (0.0, np.inf),
    weights: ArrayLike | None = None,
    sum_to: ArrayLike | None = None,
    warm_start: Array | None = None,
    l1: ArrayLike = 0.0,
    l2: ArrayLike = 0.0,
) -> Iterator[tuple[tuple[int, ...], System, Array]]:
    """The finite systems of a batch: the index, the scaled system, and its start.

    The parameters are as for `nnls`; x will be rounded to `dtype`. The options may have
    the axes of `batch`.
    """
    m, n = A.shape[-2:]
    batch = np.broadcast_shapes(A.shape[:-2], b.shape[:-1], batch)

    def of_all(value: ArrayLike, *shape: int) -> Array:
        return np.broadcast_to(np.asarray(value, A.dtype), (*batch, *shape))

    A, b = of_all(A, m, n), of_all(b, m)
    if weights is not None:
        A, b = weighted(A, b, of_all(weights, m))
    lower, upper, l1, l2 = (of_all(value, n) for value in (*bounds, l1, l2))
    total = None if sum_to is None else of_all(sum_to)
    start = None if warm_start is None else of_all(warm_start, n)
    for k in np.ndindex(batch):
        sums = 0.0 if total is None else total[k]
        finite = all(np.isfinite(v).all() for v in (A[k], b[k], l1[k], l2[k], sums))
        if not finite or (np.isnan(lower[k]) | np.isnan(upper[k]) | (l2[k] < 0)).any():
            continue
        system = scale(
            A[k],
            b[k],
            l1[k],
            l2[k],
            dtype,
            bounds=(lower[k], upper[k]),
            sum_to=None if total is None else total[k],
        )
        yield k, system, system.rest if start is None else system.rescale(start[k])
