"""Non-negative least squares by an updated QR factorisation: the specification.

One system at a time and in plain NumPy, this is what ``cuda_src/nnls_qr.cu`` computes
with a thread block. The names of the steps are the same in both files.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._certificate import (
    Certificate,
    certify,
    is_certified,
    is_convincing,
    is_settled,
    misfit,
    norm,
    residual,
    size,
    slack,
)
from ._scaling import Array, ScaledSystem, scale

CONVERGED = 0
ITERATION_LIMIT = 1
NOT_FINITE = 2
UNCERTIFIED = 3

ORTHOGONALITY = 0.5
"""Below this part of its norm left by a projection, a vector is projected again."""

RESOLVED = 1e-3
"""A column of which more is left beside the passive ones depends on them no further."""

DEPENDENT = 4.0
"""Units of rounding, times what cancels, that may be left of a dependent column."""

CAUTIONS = (1.0, 64.0, 4096.0)
"""Multiples of `DEPENDENT` that are tried until a solution is certified."""

ROUNDS = 32
"""How often a fresh residual may let in one more variable."""


class Solution(NamedTuple):
    """Solutions of a batch of systems; the fields of :class:`gpusolve.NNLSResult`."""

    x: Array
    rnorm: Array
    dual: Array
    kkt: Array
    nit: NDArray[np.int32]
    status: NDArray[np.int32]
    n_updates: NDArray[np.int32]
    n_downdates: NDArray[np.int32]
    repaired: NDArray[np.bool_]

    @classmethod
    def blank(cls, batch: tuple[int, ...], n: int, dtype: np.dtype[Any]) -> Solution:
        """NaN for every solution, 0 for every count."""
        reals = ((*batch, n), batch, (*batch, n), batch)
        fields: list[Any] = [np.full(shape, np.nan, dtype) for shape in reals]
        fields += [np.zeros(batch, np.int32) for _ in range(4)]
        fields += [np.zeros(batch, bool)]
        return cls(*fields)

    def put(self, at: Any, found: Solution) -> None:
        """Write the solutions of some systems to their places."""
        for field, values in zip(self, found, strict=True):
            field[at] = values


class PassiveQR:
    """``A[:, passive] = Q R``, with columns appended at the end and removed anywhere.

    The columns of Q and the rows and columns of R live in *slots*, and never move:
    position p of the factorisation lives in slot ``slots[p]``, and only that list is
    shifted. Slots that are free stand behind the occupied ones. R has two more
    columns, which the rotations carry along: ``Q^T b`` and, for the l1 penalty, the s
    of ``R^T s = penalty``.

    Parameters
    ----------
    capacity : int
        The most columns that can be linearly independent.
    b : (rows,) array
        The right-hand side.
    norm : (n,) array
        Norms of all columns, passive or not.
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
        """The variables of the factorisation, in its order."""
        return self.variables[: self.length]

    def append(
        self,
        variable: int,
        column: Array,
        penalty: float,
        dependent: float,
        least: float,
    ) -> bool:
        """Append a column by modified Gram-Schmidt (Algorithm 2).

        Returns False, and changes nothing, where the column depends on those there
        already, or where its right-hand side, the root of twice what the objective
        falls by, does not exceed `least`. Of a dependent column, what is left beside
        the others is at most `dependent` times the sum of the terms that cancel in it.
        """
        if self.length == len(self.slots):
            return False
        used, slot = self.slots[: self.length], self.slots[self.length]
        u = column.copy()
        self.R[used, slot] = 0
        norm = before = np.linalg.norm(u)
        for _ in range(2):
            for k in used:
                projection = self.Q[:, k] @ u
                u -= projection * self.Q[:, k]
                self.R[k, slot] += projection
            previous, norm = norm, np.linalg.norm(u)
            if norm > ORTHOGONALITY * previous:
                break
        cancelling = before
        if norm < RESOLVED * before:
            terms = self.norm[self.passive] * self.solve(self.R[used, slot])
            cancelling += np.abs(terms).sum()
        if not norm > dependent * cancelling:
            return False
        u /= norm
        shift = (penalty - self.R[used, slot] @ self.shift[used]) / norm
        rhs = u @ self.residual - shift
        if not rhs > least:
            return False
        self.Q[:, slot] = u
        self.R[slot, slot] = norm
        self.shift[slot] = shift
        self.residual -= rhs * u
        self.rhs[slot] = rhs
        self.variables[self.length] = variable
        self.length += 1
        return True

    def remove(self, position: int) -> None:
        """Remove the column at `position` by Givens rotations (Algorithm 3).

        The removed column's row of R is rotated with each row behind it, and loses an
        entry to it each time until nothing is left. The same rotations carry its
        column of Q out of Q.
        """
        slot, last = self.slots[position], self.length - 1
        behind = self.slots[position + 1 : self.length].copy()
        extra = len(self.slots) + np.arange(2)
        row, q = self.R[slot].copy(), self.Q[:, slot].copy()
        for p, k in enumerate(behind):
            hypotenuse = np.hypot(self.R[k, k], row[k])
            c, s = self.R[k, k] / hypotenuse, row[k] / hypotenuse
            right = np.concatenate([behind[p:], extra])
            above, below = row[right], self.R[k, right]
            row[right], self.R[k, right] = c * above - s * below, c * below + s * above
            q, self.Q[:, k] = c * q - s * self.Q[:, k], c * self.Q[:, k] + s * q
        self.residual += row[extra[0]] * q
        self.slots[position : self.length] = [*behind, slot]
        self.variables[position:last] = self.variables[position + 1 : self.length]
        self.length = last

    def solve(self, rhs: Array) -> Array:
        """Solve ``R y = rhs`` by back substitution; both are given by position."""
        used, y = self.slots[: self.length], rhs.copy()
        for p in range(self.length - 1, -1, -1):
            y[p] /= self.R[used[p], used[p]]
            y[:p] -= y[p] * self.R[used[:p], used[p]]
        return y

    def solution(self) -> Array:
        """Coefficients of the passive columns."""
        return self.solve(self.rhs[self.slots[: self.length]])

    def correct(self, residual: Array) -> Array:
        """Take a residual whose passive part is an error of x; return the correction.

        What remains of it is orthogonal to the passive columns (up to the penalty).
        """
        self.residual = residual
        used = self.slots[: self.length]
        excess = np.zeros(self.length, residual.dtype)
        length = np.linalg.norm(residual)
        for _ in range(2):
            for p, k in enumerate(used):
                projection = self.Q[:, k] @ residual - self.shift[k]
                residual -= projection * self.Q[:, k]
                excess[p] += projection
            previous, length = length, np.linalg.norm(residual)
            if length > ORTHOGONALITY * previous:
                break
        return self.solve(excess)


class ActiveSet:
    """One scaled system under Lawson & Hanson's active-set method (Algorithm 1).

    Parameters
    ----------
    system : ScaledSystem
    x : (n,) array
        Positive, finite entries start in the passive set.
    tol : float
        The cosine of the angle to the residual up to which a column may not enter.
    caution : float
        Times what rounding leaves of a dependent column, for one to count as such.
    """

    def __init__(
        self, system: ScaledSystem, x: Array, tol: float, caution: float = 1.0
    ) -> None:
        self.system, self.tol = system, tol
        n = system.A.shape[1]
        if system.has_ridge:
            self.A = np.vstack([system.A, np.diag(system.damping)])
            self.b = np.concatenate([system.b, np.zeros(n, system.b.dtype)])
        else:
            self.A, self.b = system.A, system.b
        self.dependent = caution * DEPENDENT * system.eps
        self.x = np.zeros(n, self.b.dtype)
        self.barred = np.zeros(n, bool)
        self.factors = PassiveQR(min(self.A.shape), self.b, system.norm)
        self.nit = self.n_updates = self.n_downdates = 0
        self.status = CONVERGED
        for j in map(int, np.flatnonzero((x > 0) & np.isfinite(x))):
            if self.append(j, least=-np.inf):
                self.x[j] = x[j]

    def append(self, j: int, least: float) -> bool:
        """Let variable `j` into the passive set, if the factorisation takes it."""
        entered = self.factors.append(
            j, self.A[:, j], self.system.penalty[j], self.dependent, least
        )
        self.n_updates += entered
        return entered

    def entering(self) -> int:
        """The variable of steepest descent that may enter, or -1."""
        residual, norm = self.factors.residual, self.system.norm
        w = self.A.T @ residual - self.system.penalty
        enters = (w > self.tol * norm * np.linalg.norm(residual)) & ~self.barred
        enters[self.factors.passive] = False
        slope = np.divide(w, norm, out=np.zeros_like(w), where=enters)
        return int(np.argmax(slope)) if enters.any() else -1

    def enter(self, fresh: bool) -> bool:
        """Let the steepest variable in that lowers the objective; False if none does.

        Less than rounding does not count. That is a part of what cancels in b - A x,
        or of the residual itself where it is `fresh`.
        """
        cancelling = norm(self.system.b) + size(self.system, self.x)
        length = np.linalg.norm(self.factors.residual)
        if length > self.tol * cancelling:
            least = float(self.tol * (length if fresh else cancelling))
            while (j := self.entering()) >= 0:
                if self.append(j, least):
                    self.barred[:] = False
                    return True
                self.barred[j] = True
            self.barred[:] = False
        return False

    def make_feasible(self, maxiter: int) -> None:
        """Move x towards the passive least-squares solution until it is positive."""
        while self.nit < maxiter:
            self.nit += 1
            y, passive = self.factors.solution(), self.factors.passive.copy()
            x = self.x[passive]
            leaving = y <= 0
            if not leaving.any():
                self.x[passive] = y
                return
            step = np.where(x > 0, x / np.where(leaving, x - y, 1), 0)
            step[~leaving] = np.inf
            first = np.argmin(step)
            x += step[first] * (y - x)
            x[first] = 0
            self.x[passive] = np.maximum(x, 0)
            for position in np.flatnonzero(leaving & (x <= 0))[::-1]:
                self.factors.remove(position)
                self.n_downdates += 1
        self.status = ITERATION_LIMIT

    def refresh(self) -> None:
        """Make the residual from A, b and x, and refine x where it stays positive.

        At the optimum of the passive set the part of the residual along its columns
        is an error of x. Taken out, it no longer hides what the other columns see:
        the residual is then the witness of the certificate.
        """
        passive = self.factors.passive
        change = self.factors.correct(residual(self.system, self.x))
        refined = self.x[passive] + change
        if (refined > 0).all():
            self.x[passive] = refined

    def solve(self, maxiter: int) -> None:
        """Run to convergence, which is only declared on a fresh residual."""
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
        self.factors.residual = residual(self.system, self.x)


def default_tolerance(dtype: np.dtype[Any]) -> float:
    """Four units of rounding; a solution that can be had has a `kkt` of about one."""
    return float(4 * np.finfo(dtype).eps)


def default_limit(n: int) -> int:
    """Ten least-squares solutions a variable; degenerate systems take some of them."""
    return 10 * n


def nnls_qr(
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

    Parameters are those of :func:`gpusolve.nnls`, as NumPy arrays of one floating
    dtype; the batch axes of the answer are the broadcast ones of `A` and `b`.

    Examples
    --------
    >>> import numpy as np
    >>> solution = nnls_qr(np.array([[3.0, 2.0], [1.0, 1.0]]), np.array([3.0, 2.0]))
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
        system = scale(A[k], b[k], l1, l2)
        found = solve_one(system, system.rescale(start[k]), tol, maxiter)
        found = found._replace(x=system.unscale(found.x))
        solution.put(k, found)
    return solution


def solve_one(system: ScaledSystem, start: Array, tol: float, maxiter: int) -> Solution:
    """Solve one scaled system; x stays in its variables.

    Where the solution cannot be certified, a column that entered may have been
    rounding noise. Then more caution is tried, and of all solutions the best is taken.
    """
    best: list[Any] = []
    least = np.inf
    for caution in CAUTIONS:
        run = ActiveSet(system, start, tol, caution)
        run.solve(maxiter)
        x = system.rounded(run.x)
        found = certify(system, x, run.factors.residual)
        status = int(outcome(system, x, found, run.status, tol))
        good = status == CONVERGED
        left = float(misfit(system, x, found.rnorm) - good * slack(system))
        if not best or left < least:
            counts = run.nit, status, run.n_updates, run.n_downdates
            best, least = [x, *found[:3], *counts], left
        if (good and is_settled(system, found)) or run.status == ITERATION_LIMIT:
            break
        start = np.zeros_like(start)
    return Solution(*best, *[caution > CAUTIONS[0]])


def outcome(
    system: ScaledSystem, x: Array, found: Certificate, status: Any, tol: float
) -> NDArray[np.int32]:
    """The status of solutions by their certificates, and by how their solver ended."""
    limited = np.where(is_convincing(system, x, found, tol), CONVERGED, ITERATION_LIMIT)
    ended = np.where(is_certified(system, x, found, tol), CONVERGED, UNCERTIFIED)
    return np.where(np.equal(status, ITERATION_LIMIT), limited, ended).astype(np.int32)
