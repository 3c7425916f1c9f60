"""``block_pivoting``: exchange all infeasible variables at once, with a safeguard.

L. F. Portugal, J. J. Judice and L. N. Vicente, *A comparison of block pivoting and
interior-point algorithms for linear least squares problems with nonnegative variables*,
Mathematics of Computation 63(208), 1994. A passive variable is infeasible if it is
negative, another variable if its dual is positive. All of them change sides. If their
number does not fall below its least value in `PATIENCE` exchanges, only the variable of
largest index does (Murty's rule), until the number falls: so the method is finite if
the columns are independent. Right-hand sides of a matrix are grouped as by ``fcnnls``.

x is feasible only at the end. Passive variables whose columns depend on others are left
out, which keeps the method going, but without a guarantee.
"""

from __future__ import annotations

import numpy as np

from ..._numerics.arithmetic import Array, Indices
from ..._numerics.system import System
from .found import Found, remove_units
from .normal_equations import NormalEquations

PATIENCE = 3
"""Block exchanges that may fail to lower the number of infeasible variables."""


class BlockPivoting:
    """The state of all systems.

    Attributes
    ----------
    passive, last : (N, n) array
        Masks of the passive variables, now and at the last solution, `found.x`.
    infeasible : (N, n) array
        Mask of the infeasible variables of that solution.
    least, patience : (N,) array
        The least number of infeasible variables, and the block exchanges left.
    """

    def __init__(self, system: System, start: Array, tol: float) -> None:
        self.system, self.tol = system, tol
        self.equations = NormalEquations.of(system)
        self.passive = (start > 0) & (system.norm > 0)
        self.found = Found.at(np.zeros(start.shape))
        self.last = np.zeros_like(self.passive)
        self.infeasible = np.zeros_like(self.passive)
        systems, n = start.shape
        self.least, self.patience = np.full(systems, n + 1), np.full(systems, PATIENCE)
        self.busy = np.ones(systems, bool)

    def solve(self, maxiter: int) -> Found:
        """Exchange variables until every system is feasible."""
        while self.busy.any():
            limited = self.busy & (self.found.nit >= maxiter)
            self.found.limited[limited] = True
            self.busy[limited] = False
            self.make_pass(np.flatnonzero(self.busy))
        return self.found._replace(x=self.feasible(np.maximum(self.found.x, 0)))

    def feasible(self, x: Array) -> Array:
        """x, or 0 where that has a lower objective."""
        w = self.equations.gradient(np.arange(len(x)), x)
        decrease = np.vecdot(x, self.equations.c + w)
        return np.where(decrease[:, None] > 0, x, 0)

    def make_pass(self, at: Indices) -> None:
        """Solve for the passive variables of some systems, and exchange variables."""
        y = self.equations.solve(at, self.passive[at])
        self.found.nit[at] += 1
        singular = ~np.isfinite(y).all(axis=1)
        some = at[singular]
        if some.size:
            self.passive[some] = self.equations.independent(some, self.passive[some])
            y[singular] = self.equations.solve(some, self.passive[some])
        self.accept(at, y)
        self.exchange(at[self.busy[at]])

    def accept(self, at: Indices, y: Array) -> None:
        """Take the solutions of some systems, and find what is infeasible there."""
        passive = self.passive[at]
        entered, left = passive & ~self.last[at], ~passive & self.last[at]
        self.found.n_updates[at] += entered.sum(axis=1, dtype=np.int32)
        self.found.n_downdates[at] += left.sum(axis=1, dtype=np.int32)
        self.found.x[at], self.last[at] = y, passive
        value, slope = remove_units(
            self.system.take(at), y, self.equations.gradient(at, y)
        )
        self.infeasible[at] = np.where(passive, value < -self.tol, slope > self.tol)
        self.busy[at] = self.infeasible[at].any(axis=1)

    def exchange(self, at: Indices) -> None:
        """Let infeasible variables of the last solutions change sides."""
        infeasible = self.infeasible[at]
        count = np.count_nonzero(infeasible, axis=1)
        fewer = count < self.least[at]
        self.least[at] = np.where(fewer, count, self.least[at])
        left = np.where(fewer, PATIENCE, self.patience[at] - 1)
        self.patience[at] = left
        last = infeasible.shape[1] - 1 - np.argmax(infeasible[:, ::-1], axis=1)
        only = np.arange(infeasible.shape[1]) == last[:, None]
        change = np.where(left[:, None] < 0, only, infeasible)
        self.passive[at] = self.last[at] ^ change


def block_pivoting(system: System, start: Array, tol: float, maxiter: int) -> Found:
    """Solve a batch of scaled systems; the positive entries of `start` are passive."""
    return BlockPivoting(system, start, tol).solve(maxiter)
