"""Least squares within bounds by an updated QR factorisation: the specification.

It solves system by system in plain NumPy. ``cuda_src/nnls_qr.cu`` computes the
same with one thread block per system, and uses the same names for the steps.

The method is Lawson & Hanson's, and with upper bounds Stark & Parker's. A variable that
is not passive *rests* at a bound, or at 0 if it is free; for non-negative least squares
always at 0. It may enter if the gradient points into its interval. It leaves for the
bound that it reaches.

If the sum of x is fixed, a row of A says so, and the element of b in this row is free.
It is chosen so that the passive solution has this sum. The change of the element is the
multiplier of the constraint, so that the residual is also the witness.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._numerics.certificate import (
    certify,
    data_norm,
    is_settled,
    outcome,
    residual,
    score,
    size,
)
from .._numerics.scaling import Array, ScaledSystem, scale, weighted
from .._numerics.solution import (
    BY_QR,
    CONVERGED,
    ITERATION_LIMIT,
    NOT_FINITE,
    Solution,
    default_limit,
    default_tolerance,
)

ORTHOGONALITY = 0.5
"""A vector is projected again if its norm falls below this part of its norm before."""

RESOLVED = 1e-3
"""A column is independent without further tests if more than this part of its norm is
orthogonal to the passive columns."""

DEPENDENT = 4.0
"""Threshold for dependent columns, in units of eps times the sum of the terms that
cancel. A column depends on the passive columns if its orthogonal part is below it."""

SIGNIFICANT = 512.0
"""Threshold for a difference of penalties, in units of eps times the sum of the terms
that cancel."""

CAUTIONS = (1.0, 64.0, 4096.0)
"""Factors on `DEPENDENT`, tried in turn until a solution is certified."""

SUM_PASSES = 2
"""How often a multiplier is chosen, if the first choice changes the sum by more than
the magnitude of the system: that change has the rounding errors of a larger number."""

ROUNDS = 32
"""Limit on how often the residual is recomputed to look for entering variables."""


class PassiveQR:
    """``A[:, passive] = Q R``; columns are appended at the end and removed anywhere.

    The columns of Q and the rows and columns of R are stored in *slots* and never move:
    position p of the factorisation is in slot ``slots[p]``, and a removal shifts only
    this list. Free slots follow occupied slots. R has two more columns, to which all
    rotations are applied as well. One is ``Q^T b``, where b does not contain what the
    resting variables fit. The other is the s of ``R^T s = penalty``.

    Parameters
    ----------
    capacity : int
        The largest number of linearly independent columns.
    b : (rows,) array
        The right-hand side.
    norm : (n,) array
        Norms of all columns of A.
    """

    def __init__(self, capacity: int, b: Array, norm: Array) -> None:
        self.Q = np.zeros((len(b), capacity), b.dtype)
        self.R = np.zeros((capacity, capacity + 2), b.dtype)
        self.rhs, self.shift = self.R[:, capacity], self.R[:, capacity + 1]
        self.residual, self.norm = b.copy(), norm
        self.slots = np.arange(capacity)
        self.variables = np.zeros(capacity, np.intp)
        self.length = 0

    @property
    def passive(self) -> NDArray[np.intp]:
        """The variables of the factorisation, by position."""
        return self.variables[: self.length]

    @property
    def used(self) -> NDArray[np.intp]:
        """The occupied slots, by position."""
        return self.slots[: self.length]

    def append(
        self,
        variable: int,
        value: float,
        column: Array,
        penalty: float,
        dependent: float,
        sign: float,
        least: float,
    ) -> bool:
        """Append the column of a variable that rests at `value`, by Gram-Schmidt.

        Returns False and leaves the factorisation unchanged in two cases. The column
        is dependent: the norm of its part orthogonal to the passive columns is at most
        `dependent` times the sum of the terms that cancel. Or its right-hand side times
        `sign` is at most `least`; the square of that is twice the decrease of the
        objective.
        """
        if self.length == len(self.slots):
            return False
        projection, u, norm = self.project(column, dependent)
        if not norm > 0:
            return False
        used, slot = self.used, self.slots[self.length]
        self.R[used, slot] = projection
        u /= norm
        shift = (penalty - projection @ self.shift[used]) / norm
        rhs = u @ self.residual - shift
        if not sign * rhs > least:
            return False
        self.Q[:, slot] = u
        self.R[slot, slot] = norm
        self.shift[slot] = shift
        self.residual -= rhs * u
        self.rhs[slot] = rhs
        self.variables[self.length] = variable
        self.length += 1
        self.add_column(self.length - 1, value)
        return True

    def project(self, column: Array, dependent: float) -> tuple[Array, Array, Any]:
        """Split a column into a part along the passive columns and an orthogonal part.

        Returns the coefficients of the first part, the second part, and its norm; 0 if
        the column is dependent.
        """
        u, before = column.copy(), np.linalg.norm(column)
        projection, norm = self.orthogonalise(u, before)
        cancelling = before
        if norm < RESOLVED * before:
            cancelling += self.terms(projection)
        return projection, u, norm if norm > dependent * cancelling else 0

    def add_column(self, position: int, value: float) -> None:
        """Add `value` times the column at a position to b."""
        if value:
            above = self.slots[: position + 1]
            self.rhs[above] += value * self.R[above, self.slots[position]]

    def subtract(self, projection: Array, rest: Array, value: float) -> None:
        """Subtract `value` times a column, in the parts of `project`, from b."""
        self.rhs[self.used] -= value * projection
        self.residual -= value * rest

    def orthogonalise(
        self, vector: Array, norm: Any, shifted: bool = False
    ) -> tuple[Array, Any]:
        """Subtract from `vector` its projection onto the passive columns.

        By classical Gram-Schmidt, repeated if the norm falls much. If `shifted`, the
        products with the passive columns become the penalty's products, not 0.
        Returns the coefficients of the projection, by position, and the new norm.
        """
        used = self.used
        solution = np.zeros(self.length, vector.dtype)
        for _ in range(2):
            product = self.Q[:, used].T @ vector
            if shifted:
                product -= self.shift[used]
            vector -= self.Q[:, used] @ product
            solution += product
            previous, norm = norm, np.linalg.norm(vector)
            if norm > ORTHOGONALITY * previous:
                break
        return solution, norm

    def terms(self, projection: Array) -> Any:
        """``sum_k |a_k c_k|``: c are the coefficients in A of a projection onto Q."""
        return np.abs(self.norm[self.passive] * self.solve(projection)).sum()

    def remove(self, position: int, value: float) -> None:
        """Remove the column at `position` by Givens rotations (Algorithm 3).

        Its variable rests at `value`. The row of R in the removed slot is rotated with
        each later row in turn. Each rotation makes an entry of it zero. The same
        rotations are applied to Q.
        """
        self.add_column(position, -value)
        slot, last = self.slots[position], self.length - 1
        later = self.slots[position + 1 : self.length].copy()
        extra = len(self.slots) + np.arange(2)
        row, q = self.R[slot].copy(), self.Q[:, slot].copy()
        for p, k in enumerate(later):
            hypotenuse = np.sqrt(self.R[k, k] ** 2 + row[k] ** 2)
            c, s = self.R[k, k] / hypotenuse, row[k] / hypotenuse
            right = np.concatenate([later[p:], extra])
            above, below = row[right], self.R[k, right]
            row[right], self.R[k, right] = c * above - s * below, c * below + s * above
            q, self.Q[:, k] = c * q - s * self.Q[:, k], c * self.Q[:, k] + s * q
        self.residual += row[extra[0]] * q
        self.slots[position : self.length] = [*later, slot]
        self.variables[position:last] = self.variables[position + 1 : self.length]
        self.length = last

    def solve(self, rhs: Array) -> Array:
        """Solve ``R y = rhs`` by back substitution; both are ordered by position."""
        used, y = self.used, rhs.copy()
        for p in range(self.length - 1, -1, -1):
            y[p] /= self.R[used[p], used[p]]
            y[:p] -= y[p] * self.R[used[:p], used[p]]
        return y

    def fit_row(self, row: int, value: float, magnitude: float, rhs: Array) -> float:
        """Change ``b[row]`` so that the solution of ``R y = rhs`` fits this row.

        Then ``A[row, passive] y = value``. Changes `rhs` with b; returns by how much
        ``b[row]`` is less.
        """
        q = self.Q[row, self.used]
        square, less = float(q @ q), 0.0
        for _ in range(SUM_PASSES if square > 0 else 0):
            lack = float(q @ rhs - value)
            change = lack / square
            if not np.isfinite(change):
                break
            rhs -= change * q
            less += change
            if not abs(lack) > magnitude:
                break
        self.rhs[self.used] -= less * q
        self.residual += self.Q[:, self.used] @ (less * q)
        self.residual[row] -= less
        return less

    def correct(self, residual: Array) -> Array:
        """Make a residual orthogonal to the passive columns, and store it.

        Its part along these columns (up to the penalty) is due to an error of x.
        Returns the right-hand side of the correction of x.
        """
        self.residual = residual
        length = np.linalg.norm(residual)
        return self.orthogonalise(residual, length, shifted=True)[0]


class QRActiveSet:
    """The active-set method (Algorithm 1) for a scaled system.

    Parameters
    ----------
    system : ScaledSystem
    guess : (n,) array
        The starting point. Its finite entries between the bounds start in the passive
        set, unless they equal ``system.rest``.
    tol : float
        A column may enter if the cosine of its angle to the residual exceeds `tol`.
    caution : float
        Factor on the threshold `DEPENDENT`.

    Attributes
    ----------
    x : (n,) array
        The values of the variables, both passive and resting.
    multiplier : float
        That of the fixed sum: by how much the element of b in its row is less.
    """

    def __init__(
        self, system: ScaledSystem, guess: Array, tol: float, caution: float = 1.0
    ) -> None:
        self.system, self.tol = system, tol
        n = system.A.shape[1]
        self.A = system.A
        if system.has_ridge:
            self.A = np.vstack([system.A, np.diag(system.damping)])
        self.dependent = caution * DEPENDENT * system.eps
        self.lower = np.broadcast_to(system.lower, n)
        self.upper = np.broadcast_to(system.upper, n)
        self.x = np.broadcast_to(system.rest, n).copy()
        self.barred = np.zeros(n, bool)
        self.multiplier = 0.0
        self.nit = self.n_updates = self.n_downdates = 0
        self.status = CONVERGED
        self.start(np.where(np.isfinite(guess), guess, self.x))

    def start(self, guess: Array) -> None:
        """Let variables rest, and append the variables between their bounds.

        Variables rest at the bound that the guess reaches. With a fixed sum,
        entering variables start where they rest, and one of them makes up the sum.
        """
        has_sum = self.system.has_sum
        guess = np.clip(guess, self.lower, self.upper)
        at_bound = (guess == self.lower) | (guess == self.upper)
        enters = ~at_bound & (guess != self.x)
        first, value = self.make_sum() if has_sum else (-1, 0.0)
        if not has_sum:
            self.x[at_bound] = guess[at_bound]
        capacity = min(self.A.shape)
        self.factors = PassiveQR(capacity, self.residual(), self.system.norm)
        if first >= 0 and self.append(first, 1.0, -np.inf):
            self.x[first], enters[first] = value, False
        for j in map(int, np.flatnonzero(enters)):
            if self.append(j, 1.0, -np.inf) and not has_sum:
                self.x[j] = guess[j]

    def make_sum(self) -> tuple[int, float]:
        """Let variables rest elsewhere, the cheapest first, until x has its sum.

        Returns the variable that has to be passive for this, and its value; -1 if all
        bounds together do not allow the sum.
        """
        row = self.system.A[-1]
        w = self.gradient(self.residual())
        missing = self.missing(np.ones(len(w), bool))
        ends = self.upper if missing >= 0 else self.lower
        left = row > 0
        while left.any():
            j = cheapest(self.system, w, ends - self.x, missing, left)
            move = missing / row[j]
            if self.lower[j] < self.upper[j] and abs(ends[j] - self.x[j]) >= abs(move):
                return j, float(self.x[j] + move)
            missing -= row[j] * (ends[j] - self.x[j])
            self.x[j] = ends[j]
            left[j] = False
        return -1, 0.0

    def missing(self, of: NDArray[np.bool_]) -> Any:
        """What the fixed sum is more than the sum of some variables."""
        return self.system.b[-1] - self.system.A[-1, of] @ self.x[of]

    def append(self, j: int, sign: float, least: float) -> bool:
        """Append variable `j` to the passive set if the factorisation accepts it."""
        entered = self.factors.append(
            j,
            float(self.x[j]),
            self.A[:, j],
            self.system.penalty[j],
            self.dependent,
            sign,
            least,
        )
        self.n_updates += entered
        return entered

    def points_inwards(self, w: Array) -> Array:
        """The magnitude of w where it points into the interval; elsewhere 0."""
        up = np.where(self.x < self.upper, w, 0)
        down = np.where(self.x > self.lower, -w, 0)
        return np.asarray(np.maximum(np.maximum(up, down), 0))

    def entering(self, length: Any) -> tuple[int, float]:
        """The variable of steepest descent that may enter, and the sign of its change.

        -1 if there is none. Slopes are relative to `length`.
        """
        norm = self.system.norm
        w = self.gradient(self.factors.residual)
        slope = self.points_inwards(w)
        enters = (slope > self.tol * norm * length) & ~self.barred
        enters[self.factors.passive] = False
        if not enters.any():
            return -1, 0.0
        slope = np.divide(slope, norm, out=np.zeros_like(w), where=enters)
        j = int(np.argmax(slope))
        return j, float(np.sign(w[j]))

    def enter(self, fresh: bool) -> bool:
        """Append the steepest variable that lowers the objective; False if none does.

        The decrease must exceed rounding errors. These are relative to the terms that
        cancel in b - A x; after `refresh` (`fresh`), to the residual itself.
        """
        cancelling = self.system.magnitude + size(self.system, self.x)
        length = data_norm(self.system, self.factors.residual)
        if not length > self.tol * cancelling:
            length = cancelling
        least = float(self.tol * (length if fresh else cancelling))
        while (found := self.entering(length))[0] >= 0:
            j, sign = found
            if self.append(j, sign, least) or self.exchange(j, sign):
                self.barred[:] = False
                return True
            self.barred[j] = True
        self.barred[:] = False
        return False

    def exchange(self, j: int, sign: float) -> bool:
        """Move along a dependence of column j on passive columns, if a penalty falls.

        A x does not change, so that only a bound ends the move: of j, or of a
        passive variable, which j replaces. False if nothing moves.
        """
        factors, passive, penalty = (
            self.factors,
            self.factors.passive.copy(),
            self.system.penalty,
        )
        if not penalty.any():
            return False
        projection, rest, norm = factors.project(self.A[:, j], self.dependent)
        if norm > 0:
            return False
        u = factors.solve(projection)
        terms = u * penalty[passive]
        gain, size = sign * (terms.sum() - penalty[j]), np.abs(terms).sum() + penalty[j]
        if not gain > SIGNIFICANT * self.system.eps * size:
            return False
        d, lower, upper = -sign * u, self.lower[passive], self.upper[passive]
        end = np.where(d < 0, lower, upper)
        reach = np.full_like(d, np.inf)
        np.divide(end - self.x[passive], d, out=reach, where=d != 0)
        own_end = self.upper[j] if sign > 0 else self.lower[j]
        own = abs(own_end - self.x[j])
        length = min(own, reach.min(initial=np.inf))
        if not np.isfinite(length):
            return False
        self.x[passive] = np.clip(self.x[passive] + length * d, lower, upper)
        x_j = own_end if length == own else self.x[j] + sign * length
        factors.subtract(projection, rest, x_j - self.x[j])
        self.x[j] = x_j
        if length < own:
            first = int(np.argmin(reach))
            self.x[passive[first]] = end[first]
            factors.remove(first, float(end[first]))
            self.n_downdates += 1
            self.append(j, sign, -np.inf)
        return True

    def solution(self) -> Array:
        """Coefficients of the passive columns, by position."""
        rhs = self.factors.rhs[self.factors.used]
        if self.system.has_sum:
            resting = np.ones(len(self.x), bool)
            resting[self.factors.passive] = False
            self.keep_sum(self.missing(resting), rhs)
        return self.factors.solve(rhs)

    def keep_sum(self, total: Any, rhs: Array) -> None:
        """Choose the multiplier so that ``R y = rhs`` has this sum."""
        row, magnitude = self.system.data_rows, float(self.system.magnitude)
        self.multiplier += self.factors.fit_row(row, total, magnitude, rhs)

    def make_feasible(self, maxiter: int) -> None:
        """Move x to the passive solution; remove what reaches a bound.

        The last variable stays if the sum is fixed.
        """
        while self.nit < maxiter:
            self.nit += 1
            y, passive = self.solution(), self.factors.passive.copy()
            x, lower, upper = self.x[passive], self.lower[passive], self.upper[passive]
            leaving = (y <= lower) | (y >= upper)
            if not leaving.any() or (self.system.has_sum and len(passive) == 1):
                self.x[passive] = np.clip(y, lower, upper)
                return
            end = np.where(y <= lower, lower, upper)
            moves = leaving & (x != end)
            step = np.divide(end - x, y - x, out=np.zeros_like(x), where=moves)
            step[~leaving] = np.inf
            first = np.argmin(step)
            x += step[first] * (y - x)
            x[first] = end[first]
            self.x[passive] = x = np.clip(x, lower, upper)
            for position in map(int, np.flatnonzero(leaving & (x == end))[::-1]):
                if self.system.has_sum and self.factors.length == 1:
                    break
                self.factors.remove(position, float(x[position]))
                self.n_downdates += 1
        self.status = ITERATION_LIMIT

    def residual(self) -> Array:
        """``b - A x``, where b has the multiplier subtracted."""
        r = residual(self.system, self.x)
        if self.system.has_sum:
            r[self.system.data_rows] -= self.multiplier
        return r

    def gradient(self, r: Array) -> Array:
        """``A^T r - penalty``."""
        return np.asarray(self.A.T @ r - self.system.penalty)

    def refresh(self) -> None:
        """Recompute the residual from A, b and x; refine x if it stays within bounds.

        At the optimum of the passive set, the part of the residual along the passive
        columns is due to errors of x. Without that part, the gradient of the other
        variables is accurate, and the residual is the witness of the certificate.
        """
        passive = self.factors.passive
        rhs = self.factors.correct(self.residual())
        if self.system.has_sum:
            missing = residual(self.system, self.x)[self.system.data_rows]
            self.keep_sum(missing, rhs)
        refined = self.x[passive] + self.factors.solve(rhs)
        if ((refined > self.lower[passive]) & (refined < self.upper[passive])).all():
            self.x[passive] = refined

    def solve(self, maxiter: int) -> None:
        """Iterate to convergence, which is only declared on a recomputed residual."""
        if self.factors.length:
            self.make_feasible(maxiter)
        rounds = 0
        while self.status == CONVERGED:
            while self.status == CONVERGED and self.enter(fresh=False):
                self.make_feasible(maxiter)
            if self.status != CONVERGED:
                break
            self.refresh()
            rounds += 1
            if rounds > ROUNDS or not self.enter(fresh=True):
                return
            self.make_feasible(maxiter)
        self.factors.residual = self.residual()


def cheapest(
    system: ScaledSystem, w: Array, reach: Array, missing: Any, left: NDArray[np.bool_]
) -> int:
    """The variable that adds to a fixed sum at the least cost for each unit of it.

    It would move until the sum is that, or as far as its bound, at a distance `reach`.
    The objective changes by ``|a_j|^2 move^2 / 2 - w_j move``. Columns of small norm
    cost little: a column of large norm would change A x by more than |b|.
    """
    row = system.A[-1, left]
    move = missing / row
    move = np.where(np.abs(reach[left]) < np.abs(move), reach[left], move)
    sign = 1.0 if missing >= 0 else -1.0
    cost = sign * (system.norm[left] ** 2 * move / 2 - w[left]) / row
    return int(np.flatnonzero(left)[np.argmin(cost)])


class NNLSOptions(TypedDict, total=False):
    """Options of the specifications, as for :func:`gpusolve.nnls`."""

    bounds: tuple[ArrayLike, ArrayLike]
    weights: ArrayLike | None
    sum_to: ArrayLike | None
    warm_start: Array | None
    l1: ArrayLike
    l2: ArrayLike
    tol: float | None
    maxiter: int | None


def nnls_qr(A: Array, b: Array, **options: Unpack[NNLSOptions]) -> Solution:
    """Solve a batch of non-negative least-squares problems, system by system.

    The parameters are as for :func:`gpusolve.nnls`: NumPy arrays of the same floating
    dtype. The batch axes of `A` and `b` broadcast.

    See Also
    --------
    nnls_gram, gpusolve.nnls

    Examples
    --------
    >>> import numpy as np
    >>> solution = nnls_qr(np.array([[3.0, 2.0], [1.0, 1.0]]), np.array([3.0, 2.0]))
    >>> solution.x.round(12)
    array([0. , 1.6])
    """
    return solve_each(solve_qr_system, BY_QR, A, b, A.dtype, **options)


def solve_each(
    solve: Callable[[ScaledSystem, Array, float, int], Solution],
    method: int,
    A: Array,
    b: Array,
    computed: np.dtype[Any],
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
    """Solve the scaled systems of a batch in order, in the dtype `computed`."""
    m, n = A.shape[-2:]
    batch = np.broadcast_shapes(A.shape[:-2], b.shape[:-1])
    given = {
        "A": (A, (m, n)),
        "b": (b, (m,)),
        "l1": (l1, (n,)),
        "l2": (l2, (n,)),
        "lower": (bounds[0], (n,)),
        "upper": (bounds[1], (n,)),
        "weights": (1.0 if weights is None else weights, (m,)),
        "sum_to": (0.0 if sum_to is None else sum_to, ()),
    }
    of_all = {
        name: np.broadcast_to(np.asarray(array, computed), (*batch, *shape))
        for name, (array, shape) in given.items()
    }
    start = None
    if warm_start is not None:
        start = np.broadcast_to(warm_start, (*batch, n)).astype(computed)
    tol = default_tolerance(computed) if tol is None else tol
    maxiter = default_limit(n) if maxiter is None else maxiter
    solution = Solution.blank(batch, n, A.dtype)
    solution.method[...] = method
    for k in np.ndindex(batch):
        own = {name: array[k] for name, array in of_all.items()}
        own["A"], own["b"] = weighted(own["A"], own["b"], own["weights"])
        if not is_finite(own):
            solution.status[k] = NOT_FINITE
            continue
        system = scale(
            own["A"],
            own["b"],
            own["l1"],
            own["l2"],
            A.dtype,
            bounds=(own["lower"], own["upper"]),
            sum_to=None if sum_to is None else own["sum_to"],
        )
        guess = system.rest if start is None else system.rescale(start[k])
        found = solve(system, guess, tol, maxiter)
        solution.put(k, found._replace(x=system.unscale(found.x)))
    return solution


def is_finite(numbers: dict[str, Array]) -> bool:
    """Whether the numbers of a system are finite; bounds may be infinite.

    A and b are weighted: they have the NaN and infinity of the weights, too.
    """
    finite = ("A", "b", "l1", "l2", "sum_to")
    return (
        all(np.isfinite(numbers[name]).all() for name in finite)
        and not any(np.isnan(numbers[name]).any() for name in ("lower", "upper"))
        and bool((numbers["l2"] >= 0).all())
    )


def solve_qr_system(
    system: ScaledSystem, start: Array, tol: float, maxiter: int
) -> Solution:
    """Solve a scaled system; the solution is in the scaled variables.

    If the solution is not certified, a passive column may consist of rounding noise.
    Then the system is solved again with the next factor of `CAUTIONS`. The best of all
    solutions is returned, by its `score`.
    """
    best: list[Any] = []
    least = np.inf
    for caution in CAUTIONS:
        run = QRActiveSet(system, start, tol, caution)
        run.solve(maxiter)
        x = system.rounded(run.x)
        found = certify(system, x, run.factors.residual)
        status = int(outcome(system, x, found, run.status, tol))
        good = status == CONVERGED
        value = float(score(system, x, found.rnorm, good))
        if not best or value < least:
            counts = run.nit, status, run.n_updates, run.n_downdates
            best, least = [x, *found[:3], *counts], value
        if (good and is_settled(system, found)) or run.status == ITERATION_LIMIT:
            break
        start = system.rest
    best += [np.bool_(caution > CAUTIONS[0]), np.uint8(BY_QR)]
    return Solution(*best)
