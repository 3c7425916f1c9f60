"""Half-sweeps of a factorisation: the best W for H, and the best H for W."""

from __future__ import annotations

from typing import NamedTuple

from .._device.arrays import Array, namespace
from .._device.threads import one_blas_thread
from .._nnls.nnls import nnls
from .._numerics.solution import INFEASIBLE
from .matrix import Matrix


class Penalty(NamedTuple):
    """``l1 |W|_1 + l2 |W|^2 / 2``."""

    l1: float
    l2: float


class Rows(NamedTuple):
    """The rows of W, for a given H: ``|b_i - A w_i|^2 / 2`` and a penalty for each.

    Attributes
    ----------
    A : (m, n_components) array
    b : (rows, m) array
    weights : (rows, m) array or None
    penalty : Penalty
    """

    A: Array
    b: Array
    weights: Array | None
    penalty: Penalty

    @classmethod
    def of(cls, matrix: Matrix, H: Array, penalty: Penalty) -> Rows:
        """The problem of all rows.

        With ``H^T = Q R``, ``|x - H^T w|^2`` is ``|Q^T x - R w|^2`` and a constant. So
        a row has `n_components` equations, and X is read once, by a product.
        """
        if matrix.weights is not None:
            return cls(H.T, matrix.X, matrix.weights, penalty)
        with one_blas_thread():  # more threads are slower for so few columns
            Q, R = namespace(H).linalg.qr(H.T)
        return cls(R, matrix.X @ Q, None, penalty)

    def solve(self, start: Array | None = None) -> Array:
        """The best W; rows without data are 0."""
        l1, l2 = self.penalty
        result = nnls(
            self.A, self.b, weights=self.weights, l1=l1, l2=l2, warm_start=start
        )
        if self.weights is None:
            return result.x
        return namespace(self.b).where(
            (result.status == INFEASIBLE)[:, None], 0, result.x
        )

    def slope(self, W: Array) -> float:
        """The sum of magnitudes of the gradient, where W can follow its descent."""
        xp, residual = namespace(W), self.b - W @ self.A.T
        if self.weights is not None:
            residual = self.weights * residual
        gradient = self.penalty.l1 + self.penalty.l2 * W - residual @ self.A
        return float(xp.abs(xp.where(W > 0, gradient, xp.minimum(gradient, 0))).sum())


class Factors(NamedTuple):
    """The factors after some sweeps.

    Attributes
    ----------
    W, H : (n_samples, n_components), (n_components, n_features) array
    sweeps : int
    converged : bool
    """

    W: Array
    H: Array
    sweeps: int
    converged: bool


def factorise(
    matrix: Matrix,
    H: Array,
    W: Array | None,
    penalties: tuple[Penalty, Penalty],
    tol: float,
    max_iter: int,
) -> Factors:
    """Alternate between W and H.

    It ends with the best W for H. W is only a guess of the first solution. `slope` of
    H, for the best W, ends the sweeps when it is at most `tol` of its first
    value.
    """
    for_W, for_H = penalties
    W, first = Rows.of(matrix, H, for_W).solve(W), 0.0
    for sweep in range(max_iter + 1):
        problem = Rows.of(matrix.transpose, W.T, for_H)
        slope = problem.slope(H.T)
        first = first or slope
        if sweep and slope <= tol * first:
            return Factors(W, H, sweep, True)
        if sweep < max_iter:
            H = problem.solve(H.T).T
            W = Rows.of(matrix, H, for_W).solve(W)
    return Factors(W, H, max_iter, False)
