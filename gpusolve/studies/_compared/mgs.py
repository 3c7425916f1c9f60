"""``mgs``: the solver of Luo & Duraiswami as they wrote it, with an updated Q and R.

Y. Luo and R. Duraiswami, *Efficient Parallel Non-Negative Least Squares on Multi-Core
Architectures*: the variable of the largest gradient enters (Algorithm 1), its column is
appended by modified Gram-Schmidt at the end of the reordered list (Algorithm 2), and
columns are removed by Givens rotations (Algorithm 3). ``cuda_src/nnls_mgs.cu`` is the
same on a device. It lists the two corrections, and what the text leaves open.
"""

from __future__ import annotations

import numpy as np

from ..._numerics.arithmetic import Array, Indices, Mask
from ..._numerics.system import System
from .._qr_updating import GramSchmidtQR
from .active_set import ActiveSetBatch
from .found import Found, extent, relative

DEPENDENT = 4.0
"""A column depends on passive columns if what Algorithm 2 leaves of it is at most this
number times ``rows eps`` of its norm."""

LEAST = float(np.finfo(np.float64).smallest_subnormal)
"""A gradient that underflows in the original units may still enter, as the last."""


def mgs(system: System, start: Array, tol: float, maxiter: int) -> Found:
    """Solve a batch of scaled systems from the feasible points `start`."""
    solutions = [PassiveSolution(system.take(np.array(k))) for k in range(len(start))]

    def solve(at: Indices, passive: Mask) -> Array:
        y = np.zeros(passive.shape)
        for k, (index, variables) in enumerate(zip(at, passive, strict=True)):
            y[k] = solutions[index].of(variables)
        return y

    def slope(at: Indices, x: Array) -> Array:
        some = system.take(at)
        w = some.gradient(some.residual(x))
        enters = relative(some, w, extent(some, x)) > tol
        return np.where(enters, np.maximum(some.unscale_dual(w), LEAST), 0)

    return ActiveSetBatch(system, start, solve, slope, tol=0.0).solve(maxiter)


class PassiveSolution:
    """The least-squares solutions of a system, for its passive sets in order."""

    def __init__(self, system: System) -> None:
        A, self.b = system.A, system.b
        if system.has_ridge:
            A = np.concatenate([A, np.diag(system.damping)])
            self.b = np.concatenate([self.b, np.zeros(A.shape[1])])
        self.penalty = system.penalty
        self.least = DEPENDENT * len(A) * np.finfo(A.dtype).eps * system.norm
        self.factors = GramSchmidtQR(np.asarray(A, np.float64), printed=True)

    def of(self, passive: Mask) -> Array:
        """The solution, 0 for other variables; NaN if a passive column depends."""
        from scipy.linalg import solve_triangular

        if not self.change(passive):
            return np.full(len(passive), np.nan)
        y, order = np.zeros(len(passive)), self.factors.passive
        Q, R = self.factors.factors()
        shift = solve_triangular(R, self.penalty[order], trans="T")
        y[order] = solve_triangular(R, Q.T @ self.b - shift)
        return y

    def change(self, passive: Mask) -> bool:
        """Remove and append columns. False if a column that is appended depends."""
        factors = self.factors
        for variable in factors.passive[::-1]:
            if not passive[variable]:
                factors.downdate(variable)
        for variable in map(int, np.flatnonzero(passive)):
            if variable in factors.passive:
                continue
            if factors.length == len(factors.rows):
                return False
            factors.update(variable)
            norm = factors.R.values[factors.rows[factors.length - 1], variable]
            if not norm > self.least[variable]:
                factors.downdate(variable)
                return False
        return True
