"""Non-negative least squares by an updated QR factorisation: the specification.

One system at a time and in plain NumPy, this is what ``cuda_src/nnls_qr.cu`` computes
with a thread block. The names of the steps are the same in both files.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .scaling import Array, ScaledSystem, certify, rounding_scale, scale

CONVERGED = 0
ITERATION_LIMIT = 1
NOT_FINITE = 2

ORTHOGONALITY = 0.5
"""Below this part of its norm left by a projection, a column is projected again."""


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

    @classmethod
    def blank(cls, batch: tuple[int, ...], n: int, dtype: np.dtype[Any]) -> Solution:
        """NaN for every solution, 0 for every count."""
        reals = ((*batch, n), batch, (*batch, n), batch)
        return cls(
            *(np.full(shape, np.nan, dtype) for shape in reals),
            *(np.zeros(batch, np.int32) for _ in range(4)),
        )


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
    """

    def __init__(self, capacity: int, b: Array) -> None:
        self.Q = np.zeros((len(b), capacity), b.dtype)
        self.R = np.zeros((capacity, capacity + 2), b.dtype)
        self.rhs, self.shift = self.R[:, capacity], self.R[:, capacity + 1]
        self.residual = b.copy()
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

        Returns False, and changes nothing, where no more than `dependent` of the
        column's norm is left beside those there already, or where its right-hand
        side, the root of twice what the objective falls by, does not exceed `least`.
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
        if not norm > dependent * before:
            return False
        u /= norm
        shift = (penalty - self.R[used, slot] @ self.shift[used]) / norm
        rhs = u @ self.residual - shift
        if not rhs > least:
            return False
        self.Q[:, slot] = u
        self.R[slot, slot] = norm
        self.shift[slot] = shift
        self.rhs[slot] = rhs
        self.residual -= rhs * u
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

    def solve(self) -> Array:
        """Coefficients of the passive columns, by back substitution."""
        used = self.slots[: self.length]
        y = self.rhs[used].copy()
        for p in range(self.length - 1, -1, -1):
            y[p] /= self.R[used[p], used[p]]
            y[:p] -= y[p] * self.R[used[:p], used[p]]
        return y


class ActiveSet:
    """One scaled system under Lawson & Hanson's active-set method (Algorithm 1)."""

    def __init__(self, system: ScaledSystem, x: Array, tol: float) -> None:
        self.system, self.tol = system, tol
        self.rows, n = system.A.shape
        if np.any(system.damping > 0):
            self.A = np.vstack([system.A, np.diag(system.damping)])
            self.b = np.concatenate([system.b, np.zeros(n, system.b.dtype)])
        else:
            self.A, self.b = system.A, system.b
        self.x = np.zeros(n, self.b.dtype)
        self.barred = np.zeros(n, bool)
        self.factors = PassiveQR(min(self.A.shape), self.b)
        self.nit = self.n_updates = self.n_downdates = 0
        self.status = CONVERGED
        for j in map(int, np.flatnonzero((x > 0) & np.isfinite(x))):
            if self.append(j, least=-np.inf):
                self.x[j] = x[j]

    def append(self, j: int, least: float) -> bool:
        """Let variable `j` into the passive set, if the factorisation takes it."""
        entered = self.factors.append(
            j,
            self.A[:, j],
            self.system.penalty[j],
            dependent=self.tol * np.sqrt(len(self.b)),
            least=least,
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

    def enter(self) -> bool:
        """Let the steepest variable in that lowers the objective; False if none does.

        Less than rounding in b - A x does not count: so the objective falls with
        every variable that enters, and none comes back for ever.
        """
        least = float(self.tol * rounding_scale(self.system, self.x))
        if np.linalg.norm(self.factors.residual) > least:
            while (j := self.entering()) >= 0:
                if self.append(j, least):
                    self.barred[:] = False
                    return True
                self.barred[j] = True
        return False

    def make_feasible(self, maxiter: int) -> None:
        """Move x towards the passive least-squares solution until it is positive."""
        while self.nit < maxiter:
            self.nit += 1
            y, passive = self.factors.solve(), self.factors.passive.copy()
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

    def solve(self, maxiter: int) -> None:
        """Run to convergence, which is only declared on a freshly made residual."""
        if self.factors.length:
            self.make_feasible(maxiter)
        fresh = False
        while self.status == CONVERGED:
            if self.enter():
                self.make_feasible(maxiter)
                fresh = False
            elif fresh:
                return
            else:
                self.factors.residual = self.b - self.A @ self.x
                fresh = True


def default_tolerance(dtype: np.dtype[Any]) -> float:
    """Four units of rounding; a solution that can be had has a `kkt` of about one."""
    return float(4 * np.finfo(dtype).eps)


def nnls(
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
    >>> solution = nnls(np.array([[3.0, 2.0], [1.0, 1.0]]), np.array([3.0, 2.0]))
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
    maxiter = 3 * n if maxiter is None else maxiter
    solution = Solution.blank(batch, n, A.dtype)
    for k in np.ndindex(batch):
        if not (np.isfinite(A[k]).all() and np.isfinite(b[k]).all()):
            solution.status[k] = NOT_FINITE
            continue
        system = scale(A[k], b[k], l1, l2)
        run = ActiveSet(system, system.rescale(start[k]), tol)
        run.solve(maxiter)
        rnorm, dual, kkt = certify(system, run.x)
        values: tuple[Any, ...] = (
            system.unscale(run.x),
            rnorm,
            dual,
            kkt,
            run.nit,
            run.status,
            run.n_updates,
            run.n_downdates,
        )
        for field, value in zip(solution, values, strict=True):
            field[k] = value
    return solution
