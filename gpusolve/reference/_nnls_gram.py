"""Non-negative least squares from the Gram matrix: the specification.

The method is Lawson & Hanson's, on ``G = A^T A`` and the inverse H of its passive part,
which is updated by matrices of rank one. Several variables enter at once. The Gram
matrix squares the condition number; to make up for that, x is corrected by the residual
``b - A x``, and certified by it. ``cuda_src/nnls_gram.cu`` computes the same, and uses
the same names for the steps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._certificate import (
    Certificate,
    certify,
    gradient,
    norm,
    residual,
    size,
    size_to_b,
)
from ._nnls_qr import (
    CONVERGED,
    ITERATION_LIMIT,
    NOT_FINITE,
    Solution,
    default_limit,
    default_tolerance,
    outcome,
)
from ._scaling import Array, ScaledSystem, scale

MOST_ENTERING = 16
"""Limit on the variables that enter at once."""

STEEP = 0.3
"""Variables enter together with the steepest one if their slope is at least this part
of its slope."""

ALIKE = 0.9
"""Columns do not enter together if the cosine of their angle exceeds this number."""

RESOLVED = 1e-12
"""Part of a column's square norm that must be orthogonal to the passive columns."""

SLACK = 8.0
"""Factor on `tol` for the less accurate gradients from the Gram matrix."""

REFRESHES = 10
"""Limit on how often the residual is recomputed."""

import os
TIE=os.environ.get("TIE","first")
DRIFT = 64.0
"""H is recomputed if `kkt` exceeds this number times `tol` after a refresh."""

CORRECTIONS = 3
"""Limit on how often a residual is made orthogonal to the passive columns."""


class PassiveInverse:
    """The inverse H of ``G[passive, passive]``; variables enter and leave by position.

    Parameters
    ----------
    capacity : int
        The largest number of linearly independent columns.
    """

    def __init__(self, capacity: int) -> None:
        self.H = np.zeros((capacity, capacity))
        self.variables = np.zeros(capacity, np.intp)
        self.length = 0

    @property
    def passive(self) -> NDArray[np.intp]:
        """The passive variables, by position."""
        return self.variables[: self.length]

    @property
    def is_full(self) -> bool:
        return self.length == len(self.H)

    def times(self, v: Array) -> Array:
        """``H v``."""
        return np.asarray(self.H[: self.length, : self.length] @ v)

    def append(self, variable: int, u: Array, square: float) -> None:
        """Append a variable at the end.

        Its column is ``A[:, passive] u`` and an orthogonal part of norm
        ``sqrt(square)``.
        """
        last = self.length
        v = np.append(u, -1) / np.sqrt(square)
        self.H[: last + 1, : last + 1] += np.outer(v, v)
        self.variables[last] = variable
        self.length = last + 1

    def remove(self, position: int) -> None:
        """Remove a variable; the last one takes its position."""
        last = self.length - 1
        H = self.H[: last + 1, : last + 1]
        v = H[position] / np.sqrt(H[position, position])
        H -= np.outer(v, v)
        H[position], H[:, position] = H[last], H[:, last]
        H[position, position] = H[last, last]
        H[last] = H[:, last] = 0
        self.variables[position] = self.variables[last]
        self.length = last


class ActiveSet:
    """Lawson & Hanson's active-set method for one scaled system.

    Arrays end with the passive values by position: `x` and `w_passive` are those of
    `inverse.passive`.

    Parameters
    ----------
    system : ScaledSystem
        In float64.
    start : (n,) array
        The starting point. Its positive, finite entries start in the passive set.
    tol : float
        A variable may enter if its slope exceeds `tol` times the terms that cancel.
    """

    def __init__(self, system: ScaledSystem, start: Array, tol: float) -> None:
        self.system, self.tol = system, tol
        rows, n = system.A.shape
        self.G = system.A.T @ system.A + np.diag(system.damping**2)
        self.c = system.A.T @ system.b - system.penalty
        self.norm = np.where(system.norm > 0, system.norm, np.inf)
        self.x = np.zeros(n)
        self.w = self.c.copy()
        self.inverse = PassiveInverse(n if system.has_ridge else min(rows, n))
        self.nit = self.n_updates = self.n_downdates = 0
        self.status = CONVERGED
        for j in map(int, np.flatnonzero((start > 0) & np.isfinite(start))):
            if self.append(j, -np.inf):
                self.x[j] = start[j]

    def make_gradient(self) -> None:
        """``w = c - G x``, from the rows of G of the passive variables."""
        passive = self.inverse.passive
        self.w = self.c - self.x[passive] @ self.G[passive]

    def append(self, j: int, least: float) -> bool:
        """Append a variable, if it is independent of the others and x_j will be positive.

        `least` limits the decrease of the objective along the part of the column that
        is orthogonal to the passive ones.
        """
        if self.inverse.is_full:
            return False
        passive = self.inverse.passive
        g = self.G[passive, j]
        u = self.inverse.times(g)
        square = self.G[j, j] - g @ u
        descent = self.w[j] - u @ self.w[passive]
        if not square > RESOLVED * self.norm[j] ** 2:
            return False
        if not descent > least * np.sqrt(square):
            return False
        self.inverse.append(j, u, square)
        self.n_updates += 1
        return True

    def enter(self, most: int, fresh: bool) -> bool:
        """Append the steepest variables, at most `most`; False if none is appended.

        Slopes must exceed rounding errors of the terms that cancel in ``b - A x``.
        """
        magnitude = norm(self.system.b) + size(self.system, self.x)
        least = float(self.tol * magnitude) * (1 if fresh else SLACK)
        slope = self.w / self.norm
        slope[self.inverse.passive] = 0
        steep, entered = least, 0
        while entered < most:
            j = int(np.argmax(slope))
            if not slope[j] > steep:
                break
            if self.append(j, self.tol * magnitude):
                if entered == 0:
                    steep = max(least, STEEP * slope[j])
                entered += 1
                alike = np.abs(self.G[j]) > ALIKE * self.norm * self.norm[j]
                slope[alike] = 0
            slope[j] = 0
        return entered > 0

    def make_feasible(self, maxiter: int) -> bool:
        """Move x to the passive least-squares solution; remove what reaches 0.

        A step also changes the passive gradient: by a part of it, because ``G H = 1``.
        Returns whether x moved.
        """
        moved = False
        while self.nit < maxiter:
            self.nit += 1
            passive = self.inverse.passive.copy()
            x, d = self.x[passive], self.inverse.times(self.w[passive])
            blocks = x + d <= 0
            if not blocks.any():
                self.x[passive] = x + d
                return True
            step = np.where(x > 0, x / -np.where(blocks, d, -1), 0)
            step[~blocks] = np.inf
            if TIE == "steepest": 
                first = int(np.lexsort((d/np.sqrt(np.diag(self.inverse.H)[:len(d)]), step))[0])
            elif TIE == "last":
                first = len(step)-1-int(np.argmin(step[::-1]))
            else:
                first = int(np.argmin(step))
            moved |= bool(step[first] > 0)
            self.x[passive] = np.maximum(x + step[first] * d, 0)
            self.w[passive] *= 1 - step[first]
            self.x[passive[first]] = 0
            if TIE=="all":
              for position in np.flatnonzero(blocks & (self.x[passive] <= 0))[::-1]:
                self.inverse.remove(position)
                self.n_downdates += 1
            else:
                self.inverse.remove(first)
                self.n_downdates += 1
        self.status = ITERATION_LIMIT
        return moved

    def refresh(self) -> tuple[Certificate, bool]:
        """Correct x by the residual ``b - A x``, and certify it.

        The part of the residual along the passive columns is due to an error of x.
        Without that part it is the witness of the certificate. Returns the certificate,
        and whether the corrected x was positive, so that it was taken.
        """
        system, passive = self.system, self.inverse.passive
        witness = residual(system, self.x)
        change = np.zeros(len(passive))
        for _ in range(CORRECTIONS):
            w = gradient(system, witness)[passive]
            if not (np.abs(w) > self.tol / 2 * self.norm[passive] * norm(witness)).any():
                break
            d = self.inverse.times(w)
            change += d
            witness = witness - self.fitted(d)
        refined = self.x[passive] + change
        follows = bool((refined > 0).all())
        if follows:
            self.x[passive] = refined
        self.x = system.rounded(self.x)
        r, w = residual(system, self.x), gradient(system, witness)
        found = certify(system, self.x, witness, r, w)
        self.w = np.where(self.x > 0, gradient(system, r), w)
        self.c = self.w + self.x[passive] @ self.G[passive]
        return found, follows

    def fitted(self, d: Array) -> Array:
        """``A x`` for the x with the passive values d, with the rows of the penalty."""
        x = np.zeros_like(self.x)
        x[self.inverse.passive] = d
        if not self.system.has_ridge:
            return np.asarray(self.system.A @ x)
        return np.concatenate([self.system.A @ x, self.system.damping * x])

    def invert(self) -> None:
        """Recompute H, one variable after another."""
        passive = self.inverse.passive.copy()
        self.inverse = PassiveInverse(len(self.inverse.H))
        for j in passive:
            g = self.G[self.inverse.passive, j]
            u = self.inverse.times(g)
            self.inverse.append(int(j), u, max(self.G[j, j] - g @ u, 1e-300))

    def solve(self, maxiter: int) -> tuple[Array, Certificate]:
        """Iterate to convergence; returns the best x and its certificate."""
        best_x, best = self.x, None
        most, fresh = MOST_ENTERING, False
        if self.inverse.length:
            self.make_feasible(maxiter)
        refreshes = 0
        while True:
            if not fresh:
                self.make_gradient()
            if self.status == CONVERGED and self.enter(most, fresh):
                moved = self.make_feasible(maxiter)
                most, fresh = MOST_ENTERING if moved else 1, False
                continue
            found, follows = self.refresh()
            refreshes += 1
            better = best is None or bool(found.kkt < best.kkt)
            if better:
                best_x, best = self.x.copy(), found
            assert best is not None
            tol = self.tol * (1 + float(size_to_b(self.system, self.x)))
            goes_on = (better or not fresh) and bool(found.kkt > tol)
            if not goes_on or refreshes == REFRESHES or self.status != CONVERGED:
                return best_x, best
            if found.kkt > DRIFT * tol:
                self.invert()
            if not follows:
                self.make_feasible(maxiter)
            fresh = follows


def nnls_gram(
    A: Array,
    b: Array,
    *,
    warm_start: Array | None = None,
    l1: float = 0.0,
    l2: float = 0.0,
    tol: float | None = None,
    maxiter: int | None = None,
) -> Solution:
    """Solve a batch of non-negative least-squares problems, one after another.

    The parameters are those of :func:`gpusolve.nnls`, as NumPy arrays of one floating
    dtype. The batch axes of `A` and `b` broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> solution = nnls_gram(np.array([[3.0, 2.0], [1.0, 1.0]]), np.array([3.0, 2.0]))
    >>> solution.x.round(12)
    array([0. , 1.6])
    """
    m, n = A.shape[-2:]
    batch = np.broadcast_shapes(A.shape[:-2], b.shape[:-1])
    A, b = np.broadcast_to(A, (*batch, m, n)), np.broadcast_to(b, (*batch, m))
    start = np.broadcast_to(
        np.zeros(n, A.dtype) if warm_start is None else warm_start, (*batch, n)
    )
    tol = default_tolerance(A.dtype) if tol is None else tol
    maxiter = default_limit(n) if maxiter is None else maxiter
    solution = Solution.blank(batch, n, A.dtype)
    for k in np.ndindex(batch):
        if not (np.isfinite(A[k]).all() and np.isfinite(b[k]).all()):
            solution.status[k] = NOT_FINITE
            continue
        wide = A[k].astype(np.float64), b[k].astype(np.float64)
        system = scale(*wide, l1, l2, A.dtype)
        found = solve_one(system, system.rescale(start[k]), tol, maxiter)
        solution.put(k, found._replace(x=system.unscale(found.x)))
    return solution


def solve_one(system: ScaledSystem, start: Array, tol: float, maxiter: int) -> Solution:
    """Solve one scaled system; the solution is in the scaled variables."""
    with np.errstate(all="ignore"):
        run = ActiveSet(system, start, tol)
        x, found = run.solve(maxiter)
    status = outcome(system, x, found, run.status, tol)
    counts = run.nit, status, run.n_updates, run.n_downdates
    return Solution(x, *found[:3], *counts, repaired=np.False_)  # type: ignore[arg-type]
