"""Non-negative least squares by an updated QR factorisation: the specification.

It solves one system after another in plain NumPy. ``cuda_src/nnls_qr.cu`` computes the
same with one thread block per system, and uses the same names for the steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
INFEASIBLE = 4

BY_GRAM = 0
BY_QR = 1

ORTHOGONALITY = 0.5
"""A vector is projected again if its norm falls below this part of its norm before."""

RESOLVED = 1e-3
"""A column is independent without further tests if more than this part of its norm is
orthogonal to the passive columns."""

DEPENDENT = 4.0
"""Threshold for dependent columns, in units of eps times the sum of the terms that
cancel. The part of a dependent column orthogonal to the passive ones is below it."""

CAUTIONS = (1.0, 64.0, 4096.0)
"""Factors on `DEPENDENT`, tried in turn until a solution is certified."""

ROUNDS = 32
"""Limit on how often the residual is recomputed to look for entering variables."""


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
    method: NDArray[np.uint8]

    @classmethod
    def blank(cls, batch: tuple[int, ...], n: int, dtype: np.dtype[Any]) -> Solution:
        """All solutions NaN, all counts 0."""
        reals = ((*batch, n), batch, (*batch, n), batch)
        fields: list[Any] = [np.full(shape, np.nan, dtype) for shape in reals]
        fields += [np.zeros(batch, np.int32) for _ in range(4)]
        fields += [np.zeros(batch, bool), np.full(batch, BY_QR, np.uint8)]
        return cls(*fields)

    def put(self, at: Any, found: Solution) -> None:
        """Write the solutions of some systems to the indices `at` of the batch."""
        fields: tuple[Any, ...] = self
        for field, values in zip(fields, found, strict=True):
            field[at] = values


class PassiveQR:
    """``A[:, passive] = Q R``; columns are appended at the end and removed anywhere.

    The columns of Q and the rows and columns of R are stored in *slots* and never move:
    position p of the factorisation is in slot ``slots[p]``, and a removal shifts only
    this list. Free slots follow the occupied ones. R has two more columns, to which all
    rotations are applied as well: ``Q^T b`` and, for the l1 penalty, the s of
    ``R^T s = penalty``.

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

    def append(
        self,
        variable: int,
        column: Array,
        penalty: float,
        dependent: float,
        least: float,
    ) -> bool:
        """Append a column by classical Gram-Schmidt.

        Returns False and leaves the factorisation unchanged in two cases. The column
        is dependent: the norm of its part orthogonal to the passive columns is at most
        `dependent` times the sum of the terms that cancel. Or its right-hand side is
        at most `least`; the square of that is twice the decrease of the objective.
        """
        if self.length == len(self.slots):
            return False
        used, slot = self.slots[: self.length], self.slots[self.length]
        u, before = column.copy(), np.linalg.norm(column)
        projection, norm = self.orthogonalise(u, before)
        self.R[used, slot] = projection
        cancelling = before
        if norm < RESOLVED * before:
            cancelling += self.terms(projection)
        if not norm > dependent * cancelling:
            return False
        u /= norm
        shift = (penalty - projection @ self.shift[used]) / norm
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

    def orthogonalise(
        self, vector: Array, norm: Any, shifted: bool = False
    ) -> tuple[Array, Any]:
        """Subtract from `vector` its projection onto the passive columns.

        By classical Gram-Schmidt, repeated if the norm falls much. If `shifted`, the
        products with the passive columns become those of the penalty, not 0.
        Returns the coefficients of the projection, by position, and the new norm.
        """
        used = self.slots[: self.length]
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

    def remove(self, position: int) -> None:
        """Remove the column at `position` by Givens rotations (Algorithm 3).

        The row of R in the removed slot is rotated with each later row in turn. Each
        rotation makes one of its entries zero. The same rotations are applied to Q.
        """
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
        used, y = self.slots[: self.length], rhs.copy()
        for p in range(self.length - 1, -1, -1):
            y[p] /= self.R[used[p], used[p]]
            y[:p] -= y[p] * self.R[used[:p], used[p]]
        return y

    def solution(self) -> Array:
        """Coefficients of the passive columns, by position."""
        return self.solve(self.rhs[self.slots[: self.length]])

    def correct(self, residual: Array) -> Array:
        """Make a residual orthogonal to the passive columns, and store it.

        Its part along these columns (up to the penalty) is due to an error of x.
        Returns the correction of x.
        """
        self.residual = residual
        length = np.linalg.norm(residual)
        excess, _ = self.orthogonalise(residual, length, shifted=True)
        return self.solve(excess)


class ActiveSet:
    """Lawson & Hanson's active-set method (Algorithm 1) for one scaled system.

    Parameters
    ----------
    system : ScaledSystem
    x : (n,) array
        The starting point. Its positive, finite entries start in the passive set.
    tol : float
        A column may enter if the cosine of its angle to the residual exceeds `tol`.
    caution : float
        Factor on the threshold `DEPENDENT`.
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
        """Append variable `j` to the passive set if the factorisation accepts it."""
        entered = self.factors.append(
            j, self.A[:, j], self.system.penalty[j], self.dependent, least
        )
        self.n_updates += entered
        return entered

    def entering(self) -> int:
        """The variable of steepest descent that may enter; -1 if there is none."""
        residual, norm = self.factors.residual, self.system.norm
        w = self.A.T @ residual - self.system.penalty
        enters = (w > self.tol * norm * np.linalg.norm(residual)) & ~self.barred
        enters[self.factors.passive] = False
        slope = np.divide(w, norm, out=np.zeros_like(w), where=enters)
        return int(np.argmax(slope)) if enters.any() else -1

    def enter(self, fresh: bool) -> bool:
        """Append the steepest variable that lowers the objective; False if none does.

        The decrease must exceed rounding errors. These are relative to the terms that
        cancel in b - A x; after `refresh` (`fresh`), to the residual itself.
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
        """Move x to the passive least-squares solution; remove what reaches 0."""
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
        """Recompute the residual from A, b and x; refine x if it stays positive.

        At the optimum of the passive set, the part of the residual along the passive
        columns is due to errors of x. Without that part, the gradient of the other
        variables is accurate, and the residual is the witness of the certificate.
        """
        passive = self.factors.passive
        change = self.factors.correct(residual(self.system, self.x))
        refined = self.x[passive] + change
        if (refined > 0).all():
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
        self.factors.residual = residual(self.system, self.x)


def default_tolerance(dtype: np.dtype[Any]) -> float:
    """``4 eps``; an accurate solution has a `kkt` of about ``eps``."""
    return float(4 * np.finfo(dtype).eps)


def default_limit(n: int) -> int:
    """Ten least-squares solutions per variable; degenerate systems need several."""
    return 10 * n


class Options(TypedDict, total=False):
    """Options of the specifications: those of :func:`gpusolve.nnls`."""

    bounds: tuple[ArrayLike, ArrayLike]
    weights: ArrayLike | None
    sum_to: ArrayLike | None
    warm_start: Array | None
    l1: ArrayLike
    l2: ArrayLike
    tol: float | None
    maxiter: int | None


def nnls_qr(A: Array, b: Array, **options: Unpack[Options]) -> Solution:
    """Solve a batch of non-negative least-squares problems, one after another.

    The parameters are those of :func:`gpusolve.nnls`, as NumPy arrays of one floating
    dtype. The batch axes of `A` and `b` broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> solution = nnls_qr(np.array([[3.0, 2.0], [1.0, 1.0]]), np.array([3.0, 2.0]))
    >>> solution.x.round(12)
    array([0. , 1.6])
    """
    return solve_each(solve_one, BY_QR, A, b, A.dtype, **options)


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
    """Solve one scaled system of a batch after another, in the dtype `computed`."""
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
        one = {name: array[k] for name, array in of_all.items()}
        if not (np.isfinite(one["A"]).all() and np.isfinite(one["b"]).all()):
            solution.status[k] = NOT_FINITE
            continue
        system = scale(
            one["A"],
            one["b"],
            one["l1"],
            one["l2"],
            A.dtype,
            bounds=(one["lower"], one["upper"]),
            weights=None if weights is None else one["weights"],
            sum_to=None if sum_to is None else one["sum_to"],
        )
        guess = system.rest if start is None else system.rescale(start[k])
        found = solve(system, guess, tol, maxiter)
        solution.put(k, found._replace(x=system.unscale(found.x)))
    return solution


def solve_one(system: ScaledSystem, start: Array, tol: float, maxiter: int) -> Solution:
    """Solve one scaled system; the solution is in the scaled variables.

    If the solution is not certified, a passive column may consist of rounding noise.
    Then the system is solved again with the next factor of `CAUTIONS`. The best of all
    solutions is returned.
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
        score = float(misfit(system, x, found.rnorm) - good * slack(system))
        if not best or score < least:
            counts = run.nit, status, run.n_updates, run.n_downdates
            best, least = [x, *found[:3], *counts], score
        if (good and is_settled(system, found)) or run.status == ITERATION_LIMIT:
            break
        start = np.zeros_like(start)
    best += [np.bool_(caution > CAUTIONS[0]), np.uint8(BY_QR)]
    return Solution(*best)


def outcome(
    system: ScaledSystem, x: Array, found: Certificate, status: Any, tol: float
) -> NDArray[np.int32]:
    """The status of solutions, from their certificates and the status of the solver."""
    limited = np.where(is_convincing(system, x, found, tol), CONVERGED, ITERATION_LIMIT)
    ended = np.where(is_certified(system, x, found, tol), CONVERGED, UNCERTIFIED)
    return np.where(np.equal(status, ITERATION_LIMIT), limited, ended).astype(np.int32)
