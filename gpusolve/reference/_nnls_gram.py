"""Least squares within bounds from the Gram matrix: the specification.

The method is Lawson & Hanson's, and with upper bounds Stark & Parker's, on
``G = A^T A`` and the inverse H of its passive part, which is updated by matrices of
rank 1. Several variables enter at once. The Gram matrix squares the condition number;
to make up for that, x is corrected by the residual ``b - A x``, and certified by it.
``cuda_src/nnls_gram.cu`` computes the same, and uses the same names for the steps.

A variable that is not passive *rests* at a bound, or at 0 if it is free; for
non-negative least squares always at 0. It may enter if the gradient points into its
interval. It leaves for the bound that it reaches.

If the sum of x is fixed, every step keeps it: the multiplier of the constraint is
chosen for this, and is subtracted from the gradient. The first variable enters because
some variable has to make up the sum. The constraint is also a row of A, so that there
may be rank(A) + 1 passive columns.
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from .._numerics.certificate import (
    Certificate,
    certify,
    data_norm,
    gradient,
    hidden_by_rounding,
    missing_in_sum,
    outcome,
    residual,
    size,
    size_to_b,
)
from .._numerics.scaling import Array, ScaledSystem
from .._numerics.solution import (
    BY_GRAM,
    CONVERGED,
    ITERATION_LIMIT,
    UNCERTIFIED,
    Solution,
    default_tolerance,
)
from ._nnls_qr import SUM_PASSES, NNLSOptions, cheapest, solve_each

MOST_ENTERING = 16
"""Limit on the variables that enter at once."""

STEEP = 0.3
"""Variables enter together with the steepest variable if their slope is at least this
part of its slope."""

ALIKE = 0.9
"""Columns do not enter together if the cosine of their angle exceeds this number."""

RESOLVED = 1e-12
"""Part of a column's square norm that must be orthogonal to the passive columns."""

SIGNIFICANT = 1e-13
"""Part of the terms that cancel that a difference of penalties must exceed."""

SLACK = 8.0
"""Factor on `tol` for the less accurate gradients from the Gram matrix."""

REFRESHES = 10
"""Limit on how often the residual is recomputed."""

DRIFT = 64.0
"""H is recomputed if `kkt` exceeds this number times `tol` after a refresh."""

CORRECTIONS = 3
"""Limit on how often a residual is made orthogonal to the passive columns."""

PRODUCT = 2**32
"""Limit on the multiplications of a product: an interrupt waits for it to end."""


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
        """Remove the variable at `position`; the last variable takes its position."""
        last = self.length - 1
        H = self.H[: last + 1, : last + 1]
        v = H[position].copy()
        H -= np.outer(v, v) / v[position]
        H[position], H[:, position] = H[last], H[:, last]
        H[position, position] = H[last, last]
        H[last] = H[:, last] = 0
        self.variables[position] = self.variables[last]
        self.length = last


def gram_matrix(A: Array) -> Array:
    """``A^T A``, some columns at a time, from the diagonal down."""
    rows, n = A.shape
    G, columns = np.empty((n, n)), max(1, PRODUCT // max(1, rows * n))
    for first in range(0, n, columns):
        part = slice(first, first + columns)
        G[first:, part] = A[:, first:].T @ A[:, part]
        G[part, first:] = G[first:, part].T
    return G


class GramActiveSet:
    """The active-set method for a scaled system.

    Parameters
    ----------
    system : ScaledSystem
        In float64.
    tol : float
        A variable may enter if its slope exceeds `tol` times the terms that cancel.

    Attributes
    ----------
    rest : (n,) array
        The values of the variables that are not passive; 0 for passive variables.
    x, passive_w : (length,) array
        Values and gradients of the passive variables, by position.
    c, w : (n,) array
        ``A^T (b - A rest) - penalty``, corrected by the true residual; the negative
        gradient ``w = c - G[:, passive] x``.
    multiplier : float
        That of the fixed sum. It has been subtracted from c and w.
    """

    def __init__(self, system: ScaledSystem, tol: float) -> None:
        self.system, self.tol = system, tol
        rows, n = system.A.shape
        self.G = gram_matrix(system.A) + np.diag(system.damping**2)
        self.c = system.A.T @ system.b - system.penalty
        self.lower = np.broadcast_to(system.lower, n)
        self.upper = np.broadcast_to(system.upper, n)
        self.sum_row = system.A[-1] if system.has_sum else np.zeros(n)
        self.rest: Array = np.zeros(n)
        self.w: Array = self.c
        self.x: Array = np.zeros(0)
        self.passive_w: Array = self.x
        self.inverse = PassiveInverse(n if system.has_ridge else min(rows, n))
        self.multiplier = 0.0
        self.nit = self.n_updates = self.n_downdates = 0
        self.status = CONVERGED
        for j in map(int, np.flatnonzero(system.rest)):
            self.place(j, np.broadcast_to(system.rest, n)[j])

    def place(self, j: int, value: float) -> None:
        """Let a variable rest at a value."""
        if value != self.rest[j]:
            self.c = self.c - (value - self.rest[j]) * self.G[j]
            self.rest[j] = value

    def clear(self) -> None:
        """Remove all variables; they rest at the bounds next to them."""
        passive, x = self.inverse.passive, self.x
        self.inverse = PassiveInverse(len(self.inverse.H))
        self.x = self.passive_w = np.zeros(0)
        for j, value in zip(map(int, passive), x, strict=True):
            self.place(j, self.nearest_bound(j, value))

    def nearest_bound(self, j: int, value: float) -> float:
        """The bound next to a value of variable j; 0 if both are infinite."""
        lower, upper = self.lower[j], self.upper[j]
        if np.isinf(lower) and np.isinf(upper):
            return 0.0
        return float(lower if value - lower <= upper - value else upper)

    def all_x(self) -> Array:
        """X by variable."""
        return self.rest + self.spread(self.x)

    def spread(self, values: Array) -> Array:
        """The passive values at their variables, and 0 elsewhere."""
        x = np.zeros_like(self.c)
        x[self.inverse.passive] = values
        return x

    def make_gradient(self) -> None:
        """``w = c - G x``, from the rows of G of the passive variables."""
        self.w = self.c - self.x @ self.G[self.inverse.passive]

    def append(self, j: int, x_j: float, least: float) -> bool:
        """Append a variable if it is independent of the others and moves inwards.

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
        if not np.sign(self.w[j]) * descent > least * np.sqrt(square):
            return False
        inverse.append(j, u, square)
        self.place(j, 0.0)
        self.x = np.append(self.x, x_j)
        self.passive_w = np.append(self.passive_w, self.w[j])
        self.n_updates += 1
        return True

    def enter_guessed(self, guess: Array) -> None:
        """Append the variables that are between their bounds in a guess.

        Others rest at the bound that the guess reaches. With a fixed sum, the variables
        that enter start where they rest.
        """
        for j in map(int, np.flatnonzero(np.isfinite(guess))):
            value = min(max(guess[j], self.lower[j]), self.upper[j])
            if value in (self.lower[j], self.upper[j]):
                if not self.system.has_sum:
                    self.place(j, value)
            elif value != self.rest[j]:
                self.append(j, self.rest[j] if self.system.has_sum else value, -np.inf)

    def make_sum(self) -> None:
        """Let variables rest elsewhere, the cheapest first, until x has its sum.

        The last of them is passive. If all bounds together do not allow the sum, none
        is.
        """
        row, total = self.sum_row, float(self.system.b[-1])
        missing = total - float(row @ self.rest)
        ends = self.upper if missing >= 0 else self.lower
        left = row > 0
        while left.any():
            j = cheapest(self.system, self.c, ends - self.rest, missing, left)
            move = missing / row[j]
            if self.lower[j] < self.upper[j] and abs(ends[j] - self.rest[j]) >= abs(
                move
            ):
                self.append(j, self.rest[j] + move, -np.inf)
                return
            missing -= row[j] * (ends[j] - self.rest[j])
            self.place(j, float(ends[j]))
            left[j] = False

    def points_inwards(self) -> Array:
        """The magnitude of w where it points into the interval; elsewhere 0."""
        up = np.where(self.rest < self.upper, self.w, 0)
        down = np.where(self.rest > self.lower, -self.w, 0)
        return np.asarray(np.maximum(np.maximum(up, down), 0))

    def enter(self, most: int, fresh: bool) -> bool:
        """Append the steepest variables, at most `most`; False if none is appended.

        Once a variable entered, the first refused variable ends the search. Slopes
        must exceed rounding errors of the terms that cancel in ``b - A x``.
        """
        G, norms = self.G, self.system.norm
        slope = self.points_inwards()
        slope = np.divide(slope, norms, out=np.zeros_like(slope), where=norms > 0)
        slope[self.inverse.passive] = 0
        self.passive_w = self.w[self.inverse.passive]
        magnitude = self.system.magnitude + size(self.system, self.all_x())
        cancelling = float(self.tol * magnitude)
        steep, entered = cancelling * (1 if fresh else SLACK), 0
        while entered < min(most, len(slope)):
            j = int(np.argmax(slope))
            if not slope[j] > steep:
                break
            if entered == 0 and self.exchange(j):
                entered = most
            elif self.append(j, self.rest[j], cancelling):
                if entered == 0:
                    steep = max(steep, STEEP * slope[j])
                entered += 1
                slope[np.abs(G[j]) > ALIKE * norms * norms[j]] = 0
            elif entered:
                break
            slope[j] = 0
        return entered > 0

    def missing(self, x: Array) -> float:
        """What the passive variables, of values x, lack to the fixed sum."""
        if not self.system.has_sum:
            return 0.0
        total = self.system.b[-1]
        x = self.rest + self.spread(x)
        return float(missing_in_sum(self.sum_row, total, x))

    def exchange(self, j: int) -> bool:
        """Move along a dependence of column j on passive columns, if a penalty falls.

        A x does not change, so that only a bound ends the move: of j, or of a
        passive variable, which j replaces. False if nothing moves.
        """
        inverse, penalty = (
            self.inverse,
            np.broadcast_to(self.system.penalty, len(self.c)),
        )
        passive = inverse.passive
        if not penalty.any():
            return False
        g = self.G[j, passive]
        u = inverse.multiply(g)
        square = self.G[j, j] - u @ g
        if square > RESOLVED * self.system.norm[j] ** 2:
            return False
        sign, terms = np.sign(self.w[j]), u * penalty[passive]
        gain = sign * (terms.sum() - penalty[j])
        if not gain > SIGNIFICANT * (np.abs(terms).sum() + abs(penalty[j])):
            return False
        d = -sign * u
        lower, upper = self.lower[passive], self.upper[passive]
        end = np.where(d < 0, lower, upper)
        reach = np.full_like(d, np.inf)
        np.divide(end - self.x, d, out=reach, where=d != 0)
        own_end = self.upper[j] if sign > 0 else self.lower[j]
        own = abs(own_end - self.rest[j])
        curved = gain / square if square > 0 else np.inf
        length = min(own, curved, reach.min(initial=np.inf))
        if not np.isfinite(length):
            return False
        self.x = np.clip(self.x + length * d, lower, upper)
        x_j = own_end if length == own else self.rest[j] + sign * length
        if length < min(own, curved):
            first = int(np.argmin(reach))
            self.remove(first, float(end[first]))
            if self.append(j, x_j, -np.inf):
                return True
        self.place(j, x_j)
        return True

    def step(self, w: Array, x: Array) -> tuple[Array, float]:
        """The step ``H w`` from x along the passive variables, for their gradient w.

        With a fixed sum, ``w - shift row`` takes the place of w, so that the step leads
        to that sum. The second result is `shift`.
        """
        d = self.inverse.multiply(w)
        if not self.system.has_sum:
            return d, 0.0
        row = self.sum_row[self.inverse.passive]
        along, shift = self.inverse.multiply(row), 0.0
        for _ in range(SUM_PASSES):
            lack = self.missing(x + d)
            change = -float(lack / (row @ along))
            if not np.isfinite(change):
                break
            d = d - change * along
            shift += change
            if not abs(lack) > self.system.magnitude:
                break
        return d, shift

    def shift_multiplier(self, shift: float) -> None:
        """Change the multiplier of the fixed sum."""
        if shift:
            self.multiplier += shift
            self.c = self.c - shift * self.sum_row
            self.passive_w = self.passive_w - shift * self.sum_row[self.inverse.passive]

    def make_feasible(self, maxiter: int) -> bool:
        """Move x to the passive least-squares solution; remove what reaches a bound.

        A step also changes the passive gradient: by a part of it, because ``G H = 1``.
        Returns whether x moved. The last variable stays if the sum is fixed.
        """
        moved = False
        while self.nit < maxiter:
            self.nit += 1
            d, shift = self.step(self.passive_w, self.x)
            if not np.isfinite(d).all():
                self.status = UNCERTIFIED
                return moved
            self.shift_multiplier(shift)
            passive = self.inverse.passive
            lower, upper = self.lower[passive], self.upper[passive]
            blocks = (self.x + d <= lower) | (self.x + d >= upper)
            if self.system.has_sum and self.inverse.length == 1:
                blocks = np.zeros(1, bool)
            if not blocks.any():
                self.x = np.clip(self.x + d, lower, upper)
                return True
            end = np.where(self.x + d <= lower, lower, upper)
            step = np.divide(end - self.x, d, out=np.zeros_like(d), where=d != 0)
            step = np.where(blocks, np.maximum(step, 0), np.inf)
            first = int(np.argmin(step))
            moved |= bool(step[first] > 0)
            self.x = np.clip(self.x + step[first] * d, lower, upper)
            self.passive_w = self.passive_w * (1 - step[first])
            self.remove(first, float(end[first]))
        self.status = ITERATION_LIMIT
        return moved

    def remove(self, position: int, value: float) -> None:
        """Remove the variable at a position, and let it rest at a value."""
        j = int(self.inverse.passive[position])
        self.inverse.remove(position)
        for values in (self.x, self.passive_w):
            values[position] = values[-1]
        self.x, self.passive_w = self.x[:-1], self.passive_w[:-1]
        self.place(j, value)
        self.n_downdates += 1

    def residual(self) -> Array:
        """``b - A x``; the element in the row of a fixed sum is the multiplier's."""
        r = residual(self.system, self.all_x())
        if self.system.has_sum:
            r[self.system.data_rows] = -self.multiplier
        return r

    def refresh(self) -> tuple[Array, bool]:
        """Correct x by the residual ``b - A x``, unless the solver was stopped.

        The part of the residual along the passive columns is due to an error of x.
        Without that part it is the witness of the certificate. Returns the witness, and
        whether the corrected x is between its bounds, so that it is x now.
        """
        system, passive = self.system, self.inverse.passive
        witness, change = self.residual(), np.zeros_like(self.x)
        for _ in range(CORRECTIONS):
            w = gradient(system, witness)[passive]
            limit = self.tol / 2 * data_norm(system, witness)
            steep = (np.abs(w) > limit * system.norm[passive]).any()
            if not steep and not self.missing(self.x + change):
                break
            d, shift = self.step(w, self.x + change)
            d = np.where(np.isfinite(d), d, 0)
            change += d
            self.multiplier += shift
            witness = witness - fitted(system, self.spread(d))
            if system.has_sum:
                witness[system.data_rows] = -self.multiplier
        lower, upper = self.lower[passive], self.upper[passive]
        x = self.x + change
        inside = bool(((x > lower) & (x < upper)).all())
        follows = self.status == CONVERGED and inside
        if follows:
            self.x = x
        self.x = system.rounded(self.all_x())[passive]
        return witness, follows

    def correct_gradient(self, w: Array) -> None:
        """Let w and c agree with the true residual; `w` is the witness's gradient."""
        passive = self.inverse.passive
        self.w = w.copy()
        self.w[passive] = gradient(self.system, self.residual())[passive]
        self.c = self.w + self.x @ self.G[passive]

    def solve(self, guess: Array | None, maxiter: int) -> tuple[Array, Certificate]:
        """Iterate to convergence; returns the best x and its certificate."""
        system = self.system
        best_x, best = self.all_x(), None
        most, fresh, entered_since, refreshes = MOST_ENTERING, False, True, 0
        if system.has_sum:
            self.make_sum()
            most = 0
        while True:
            if not fresh:
                self.make_gradient()
            if guess is not None:
                self.enter_guessed(guess)
                guess, fresh = None, False
                if hidden_by_rounding(system, self.all_x()) and not system.has_sum:
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
            r, w = self.residual(), gradient(system, witness)
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
            self.correct_gradient(w)
            entered_since, fresh = False, True
            most = MOST_ENTERING if follows else 0
            if found.kkt > DRIFT * tol and not system.has_sum:
                guess = best_x
                self.clear()


def fitted(system: ScaledSystem, x: Array) -> Array:
    """``A x``, followed by ``damping x`` if there is an l2 penalty."""
    product = np.matmul(system.A, x[..., None])[..., 0]
    if not system.has_ridge:
        return np.asarray(product)
    return np.concatenate([product, system.damping * x], axis=-1)


def nnls_gram(A: Array, b: Array, **options: Unpack[NNLSOptions]) -> Solution:
    """Solve a batch of least-squares problems within bounds, system by system.

    The parameters are as for :func:`gpusolve.lsq_linear`; the default bounds are 0 and
    infinity. Arrays are NumPy arrays of the same floating
    dtype. The batch axes of `A` and `b` broadcast. All computation is in float64.

    See Also
    --------
    nnls_qr, gpusolve.nnls

    Examples
    --------
    >>> import numpy as np
    >>> solution = nnls_gram(np.array([[3.0, 2.0], [1.0, 1.0]]), np.array([3.0, 2.0]))
    >>> solution.x.round(12)
    array([0. , 1.6])
    """
    return solve_each(solve_gram_system, BY_GRAM, A, b, np.dtype(np.float64), **options)


def solve_gram_system(
    system: ScaledSystem, start: Array, tol: float, maxiter: int
) -> Solution:
    """Solve a scaled system; the solution is in the scaled variables."""
    with np.errstate(all="ignore"):
        run = GramActiveSet(system, tol)
        x, found = run.solve(start if (start != system.rest).any() else None, maxiter)
    status = outcome(system, x, found, run.status, tol)
    counts = run.nit, status, run.n_updates, run.n_downdates
    fields: list[Any] = [x, *found[:3], *counts, np.False_, np.uint8(BY_GRAM)]
    return Solution(*fields)
