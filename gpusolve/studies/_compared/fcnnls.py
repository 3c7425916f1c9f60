"""``fcnnls``: ``fnnls`` with right-hand sides grouped by passive set.

M. H. van Benthem and M. R. Keenan, *Fast algorithm for the solution of large-scale
non-negativity-constrained least squares problems*, Journal of Chemometrics 18, 2004.
Right-hand sides of a matrix that have the same passive set at a step share a
factorisation. Passive sets start as the positive entries of the unconstrained solution,
so the groups are large from the beginning. A system with a matrix of its own is
a group.
"""

from __future__ import annotations

import functools

import numpy as np

from ..._numerics.arithmetic import Array
from ..._numerics.system import System
from .active_set import ActiveSetBatch
from .found import Found
from .normal_equations import NormalEquations


def fcnnls(system: System, start: Array, tol: float, maxiter: int) -> Found:
    """Solve a batch of scaled systems.

    Systems whose `start` is 0 start at the positive part of the unconstrained solution,
    unless G is singular.
    """
    equations, systems = NormalEquations.of(system), np.arange(len(start))
    cold = ~start.any(axis=1)
    everywhere = np.broadcast_to(system.norm > 0, start.shape)[cold]
    start = start.copy()
    start[cold] = equations.solve(systems[cold], everywhere)
    slope = functools.partial(equations.slope, system)
    return ActiveSetBatch(system, start, equations.solve, slope, tol).solve(maxiter)
