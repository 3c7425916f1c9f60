"""Non-negative least squares from the Gram matrix: the specification.

The method is Lawson & Hanson's, on ``G = A^T A`` and the inverse H of its passive part,
which is updated by matrices of rank one. Several variables enter at once. The Gram
matrix squares the condition number; to make up for that, x is corrected by the residual
``b - A x``, and certified by it. ``cuda_src/nnls_gram.cu`` computes the same, and uses
the same names for the steps.
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from ._certificate import (
    Certificate,
    certify,
    gradient,
    hidden_by_rounding,
    norm,
    residual,
    size,
    size_to_b,
)
from ._nnls_qr import (
    BY_GRAM,
    CONVERGED,
    ITERATION_LIMIT,
    UNCERTIFIED,
    Options,
    Solution,
    default_tolerance,
    outcome,
    solve_each,
)
from ._scaling import Array, ScaledSystem

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

    def multiply(self, v: Array) -> Array:
        """``H v``."""
        return np.asarray(self.H[: self.length, : self.length] @ v)

    def append(self, variable: int, u: Array, square: float) -> None:
        """Append a variable at the end.

        Its column is the passive columns times `u`, plus an orthogonal part whose
        square norm is `square`.
        """
        last = self.length
        v = np.append(u, -1)
        self.H[: last + 1, : last + 1] += np.outer(v, v) / square
        self.variables[last] = variable
        self.length = last + 1

    def remove(self, position: int) -> None:
        """Remove the variable at `position`; the last one takes its position."""
        last = self.length - 1
        H = self.H[: last + 1, : last + 1]
        v = H[position].copy()
        H -= np.outer(v, v) / v[position]
        H[position], H[:, position] = H[last], H[:, last]
        H[position, position] = H[last, last]
        H[last] = H[:, last] = 0
        self.variables[position] = self.variables[last]
        self.length = last


class ActiveSet:
    """Lawson & Hanson's active-set method for one scaled system.

    Parameters
    ----------
    system : ScaledSystem
        In float64.
    tol : float
        A variable may enter if its slope exceeds `tol` times the terms that cancel.

    Attributes
    ----------
    x, passive_w : (length,) array
        Values and gradients of the passive variables, by position.
    c, w : (n,) array
        ``A^T b - penalty``, corrected by the true residual; the negative gradient
        ``w = c - G x``.
    """

    def __init__(self, system: ScaledSystem, tol: float) -> None:
        self.system, self.tol = system, tol
        rows, n = system.A.shape
        self.G = system.A.T @ system.A + np.diag(system.damping**2)
        self.c = system.A.T @ system.b - system.penalty
        self.w: Array = self.c
        self.x: Array = np.zeros(0)
        self.passive_w: Array = self.x
        self.inverse = PassiveInverse(n if system.has_ridge else min(rows, n))
        self.nit = self.n_updates = self.n_downdates = 0
        self.status = CONVERGED

    def clear(self) -> None:
        """Remove all variables."""
        self.inverse = PassiveInverse(len(self.inverse.H))
        self.x = self.passive_w = np.zeros(0)

    def all_x(self) -> Array:
        """X by variable."""
        return self.by_variable(self.x)

    def by_variable(self, values: Array) -> Array:
        """The passive values at their variables, and 0 elsewhere."""
        x = np.zeros_like(self.c)
        x[self.inverse.passive] = values
        return x

    def make_gradient(self) -> None:
        """``w = c - G x``, from the rows of G of the passive variables."""
        self.w = self.c - self.x @ self.G[self.inverse.passive]

    def append(self, j: int, x_j: float, least: float) -> bool:
        """Append a variable if it is independent of the others and would be positive.

        Column j is projected onto the passive columns; u has the coefficients. `least`
        limits the decrease of the objective along its orthogonal part.
        """
        inverse = self.inverse
        if inverse.length == len(inverse.H):
            return False
        g = self.G[j, inverse.passive]
        u = inverse.multiply(g)
        square = self.G[j, j] - u @ g
        descent = self.w[j] - u @ self.passive_w
        if not square > RESOLVED * self.system.norm[j] ** 2:
            return False
        if not descent > least * np.sqrt(square):
            return False
        inverse.append(j, u, square)
        self.x = np.append(self.x, x_j)
        self.passive_w = np.append(self.passive_w, self.w[j])
        self.n_updates += 1
        return True

    def enter_guessed(self, guess: Array) -> None:
        """Append the variables that are positive and finite in a guess."""
        for j in map(int, np.flatnonzero((guess > 0) & np.isfinite(guess))):
            self.append(j, guess[j], -np.inf)

    def enter(self, most: int, fresh: bool) -> bool:
        """Append the steepest variables, at most `most`; False if none is appended.

        Once a variable entered, the first one that is refused ends the search. Slopes
        must exceed rounding errors of the terms that cancel in ``b - A x``.
        """
        G, norms = self.G, self.system.norm
        slope = np.divide(self.w, norms, out=np.zeros_like(self.w), where=norms > 0)
        slope[self.inverse.passive] = 0
        self.passive_w = self.w[self.inverse.passive]
        magnitude = norm(self.system.b) + size(self.system, self.all_x())
        cancelling = float(self.tol * magnitude)
        steep, entered = cancelling * (1 if fresh else SLACK), 0
        while entered < min(most, len(slope)):
            j = int(np.argmax(slope))
            if not slope[j] > steep:
                break
            if self.append(j, 0.0, cancelling):
                if entered == 0:
                    steep = max(steep, STEEP * slope[j])
                entered += 1
                slope[np.abs(G[j]) > ALIKE * norms * norms[j]] = 0
            elif entered:
                break
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
            d = self.inverse.multiply(self.passive_w)
            if not np.isfinite(d).all():
                self.status = UNCERTIFIED
                return moved
            blocks = self.x + d <= 0
            if not blocks.any():
                self.x = self.x + d
                return True
            step = np.where(self.x > 0, self.x / -np.where(blocks, d, -1), 0)
            step[~blocks] = np.inf
            first = int(np.argmin(step))
            moved |= bool(step[first] > 0)
            self.x = np.maximum(self.x + step[first] * d, 0)
            self.passive_w = self.passive_w * (1 - step[first])
            self.remove(first)
        self.status = ITERATION_LIMIT
        return moved

    def remove(self, position: int) -> None:
        """Remove the variable at a position."""
        self.inverse.remove(position)
        for values in (self.x, self.passive_w):
            values[position] = values[-1]
        self.x, self.passive_w = self.x[:-1], self.passive_w[:-1]
        self.n_downdates += 1

    def refresh(self) -> tuple[Array, bool]:
        """Correct x by the residual ``b - A x``, unless the solver was stopped.

        The part of the residual along the passive columns is due to an error of x.
        Without that part it is the witness of the certificate. Returns the witness, and
        whether the corrected x is positive, so that it is x now.
        """
        system, passive = self.system, self.inverse.passive
        witness, change = residual(system, self.all_x()), np.zeros_like(self.x)
        for _ in range(CORRECTIONS):
            w = gradient(system, witness)[passive]
            limit = self.tol / 2 * norm(witness)
            if not (np.abs(w) > limit * system.norm[passive]).any():
                break
            d = self.inverse.multiply(w)
            d = np.where(np.isfinite(d), d, 0)
            change += d
            witness = witness - fitted(system, self.by_variable(d))
        follows = self.status == CONVERGED and bool((self.x + change > 0).all())
        if follows:
            self.x = self.x + change
        self.x = system.rounded(self.all_x())[passive]
        return witness, follows

    def correct_gradient(self, w: Array, r: Array) -> None:
        """Let w and c agree with the true residual; `w` is the witness's gradient."""
        passive = self.inverse.passive
        self.w = w.copy()
        self.w[passive] = gradient(self.system, r)[passive]
        self.c = self.w + self.x @ self.G[passive]

    def solve(self, guess: Array | None, maxiter: int) -> tuple[Array, Certificate]:
        """Iterate to convergence; returns the best x and its certificate."""
        system = self.system
        best_x, best = self.all_x(), None
        most, fresh, entered_since, refreshes = MOST_ENTERING, False, True, 0
        while True:
            if not fresh:
                self.make_gradient()
            if guess is not None:
                self.enter_guessed(guess)
                guess, fresh = None, False
                if hidden_by_rounding(system, self.all_x()):
                    self.clear()
                most = 0 if self.inverse.length else MOST_ENTERING
                continue
            entered = self.status == CONVERGED and self.enter(most, fresh)
            if self.status == CONVERGED and (entered or most == 0):
                most = MOST_ENTERING if self.make_feasible(maxiter) else 1
                fresh = False
                entered_since |= entered
                continue
            witness, follows = self.refresh()
            x = self.all_x()
            r, w = residual(system, x), gradient(system, witness)
            found = certify(system, x, witness, r, w)
            better = best is None or bool(found.kkt < best.kkt)
            if better:
                best_x, best = x, found
            refreshes += 1
            enough = max(self.tol, default_tolerance(system.dtype))
            tol = enough * (1 + float(size_to_b(system, x)))
            goes_on = (better or entered_since) and bool(found.kkt > tol)
            if not goes_on or refreshes == REFRESHES or self.status != CONVERGED:
                assert best is not None
                return best_x, best
            self.correct_gradient(w, r)
            entered_since, fresh = False, True
            most = MOST_ENTERING if follows else 0
            if found.kkt > DRIFT * tol:
                guess = best_x
                self.clear()


def fitted(system: ScaledSystem, x: Array) -> Array:
    """``A x``, followed by ``damping x`` if there is an l2 penalty."""
    product = np.matmul(system.A, x[..., None])[..., 0]
    if not system.has_ridge:
        return np.asarray(product)
    return np.concatenate([product, system.damping * x], axis=-1)


def nnls_gram(A: Array, b: Array, **options: Unpack[Options]) -> Solution:
    """Solve a batch of non-negative least-squares problems, one after another.

    The parameters are those of :func:`gpusolve.nnls`, as NumPy arrays of one floating
    dtype. The batch axes of `A` and `b` broadcast. All computation is in float64.

    Examples
    --------
    >>> import numpy as np
    >>> solution = nnls_gram(np.array([[3.0, 2.0], [1.0, 1.0]]), np.array([3.0, 2.0]))
    >>> solution.x.round(12)
    array([0. , 1.6])
    """
    return solve_each(solve_one, BY_GRAM, A, b, np.dtype(np.float64), **options)


def solve_one(system: ScaledSystem, start: Array, tol: float, maxiter: int) -> Solution:
    """Solve one scaled system; the solution is in the scaled variables."""
    with np.errstate(all="ignore"):
        run = ActiveSet(system, tol)
        x, found = run.solve(start if (start > 0).any() else None, maxiter)
    status = outcome(system, x, found, run.status, tol)
    counts = run.nit, status, run.n_updates, run.n_downdates
    fields: list[Any] = [x, *found[:3], *counts, np.False_, np.uint8(BY_GRAM)]
    return Solution(*fields)
