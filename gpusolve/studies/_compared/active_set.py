"""Lawson & Hanson's active-set method, for a batch of systems in lockstep.

C. L. Lawson and R. J. Hanson, *Solving Least Squares Problems*, 1974, chapter 23. The
methods ``"lsqnonneg"``, ``"fnnls"`` and ``"fcnnls"`` are this loop, and differ in how
they solve for the passive variables and compute the gradient.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._numerics.arithmetic import Array, Indices, Mask
from ..._numerics.system import System
from .found import Found

PassiveSolution = Callable[[Indices, Mask], Array]
"""The least-squares solutions of some systems on their passive variables, (k, n): 0 for
other variables, NaN if passive columns are dependent."""

Slope = Callable[[Indices, Array], Array]
"""The negative gradients of some systems at x, (k, n), relative to the norm of each
column and to what the method can resolve."""

NONE = -1


class ActiveSetBatch:
    """The state of all systems; every pass solves each unfinished system once.

    Attributes
    ----------
    passive : (N, n) array
        Mask of the passive variables.
    tried : (N,) array
        The variable that enters in this pass, or `NONE`. It enters only if its value
        becomes positive (Lawson & Hanson's test against rounding errors).
    barred : (N, n) array
        Mask of variables that failed to enter since x last changed.
    """

    def __init__(
        self,
        system: System,
        start: Array,
        solve: PassiveSolution,
        slope: Slope,
        tol: float,
    ) -> None:
        self.system, self.tol = system, tol
        self.solution, self.slope = solve, slope
        self.passive = (start > 0) & (system.norm > 0)
        self.found = Found.at(np.where(self.passive, start, 0))
        self.tried = np.full(len(start), NONE)
        self.barred = np.zeros(start.shape, bool)
        self.busy = np.ones(len(start), bool)

    def solve(self, maxiter: int) -> Found:
        """Make passes until every system is finished."""
        self.choose(np.flatnonzero(~self.passive.any(axis=1)))
        while self.busy.any():
            limited = self.busy & (self.found.nit >= maxiter)
            self.found.limited[limited] = True
            self.busy[limited] = False
            self.make_pass(np.flatnonzero(self.busy))
        return self.found

    def make_pass(self, at: Indices) -> None:
        """Solve for the passive variables of some systems, and move x once."""
        found, tried = self.found, self.tried[at]
        y = self.solution(at, self.passive[at])
        found.nit[at] += 1
        enters = tried != NONE
        value = y[np.arange(len(at)), tried]
        refused = enters & ~(value > 0)
        self.bar(at[refused])
        found.n_updates[at[enters & ~refused]] += 1
        self.tried[at] = NONE
        dependent = ~enters & ~np.isfinite(y).all(axis=1)
        self.clear(at[dependent])
        low = self.passive[at] & (y <= 0)
        blocked = low.any(axis=1) & ~refused & ~dependent
        self.step_back(at[blocked], y[blocked], low[blocked])
        moved = ~(blocked | refused | dependent)
        found.x[at[moved]] = y[moved]
        self.barred[at[moved]] = False
        self.choose(at[~blocked])

    def bar(self, at: Indices) -> None:
        """Take back the variables that were tried."""
        self.passive[at, self.tried[at]] = False
        self.barred[at, self.tried[at]] = True

    def clear(self, at: Indices) -> None:
        """Let all variables of some systems leave: what they started with depends."""
        self.found.n_downdates[at] += self.passive[at].sum(axis=1, dtype=np.int32)
        self.passive[at], self.found.x[at] = False, 0

    def step_back(self, at: Indices, y: Array, low: Mask) -> None:
        """Move x towards y until a variable reaches 0; what is at 0 leaves."""
        x = self.found.x[at]
        step = np.divide(x, x - y, out=np.full_like(x, np.inf), where=low & (x > 0))
        step[low & (x <= 0)] = 0
        first = step.min(axis=1, keepdims=True, initial=np.inf)
        x = np.maximum(x + first * (y - x), 0)
        leaving = low & ((step <= first) | (x <= 0))
        self.found.x[at] = np.where(leaving, 0, x)
        self.passive[at] &= ~leaving
        self.barred[at] = False
        self.found.n_downdates[at] += leaving.sum(axis=1, dtype=np.int32)

    def choose(self, at: Indices) -> None:
        """Let the steepest variable of some systems enter, or finish them."""
        slope = self.slope(at, self.found.x[at])
        slope[self.passive[at] | self.barred[at]] = 0
        steepest = np.argmax(slope, axis=1)
        enters = (slope > self.tol).any(axis=1)
        into = at[enters]
        self.tried[into] = steepest[enters]
        self.passive[into, steepest[enters]] = True
        self.busy[at[~enters]] = False
