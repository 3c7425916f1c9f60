"""``cd``: sequential coordinate-wise minimisation.

V. Franc, V. Hlavac and M. Navara, *Sequential coordinate-wise algorithm for the
non-negative least squares problem*, Computer Analysis of Images and Patterns, 2005. One
variable after another takes its best value while the others stay; the gradient is
updated by a column of G. A sweep over all variables is an iteration and costs at most
``n^2`` multiplications. Convergence is linear, and slow if columns are nearly
dependent. All systems of a batch change the same variable at once.
"""

from __future__ import annotations

import numpy as np

from ..._numerics.arithmetic import Array
from ..._numerics.system import System
from .found import Found
from .iterate import iterate
from .normal_equations import NormalEquations


def cd(system: System, start: Array, tol: float, maxiter: int) -> Found:
    """Solve a batch of scaled systems from the feasible points `start`."""
    return iterate(sweep, system, (start,), tol, maxiter)


def sweep(
    _system: System, equations: NormalEquations, w: Array, x: Array
) -> tuple[Array, ...]:
    """Minimise over each variable in turn."""
    x, w, diagonal = x.copy(), w.copy(), equations.diagonal
    for j in range(x.shape[1]):
        best = np.maximum(x[:, j] + w[:, j] / diagonal[..., j], 0)
        change = best - x[:, j]
        if change.any():
            w -= change[:, None] * equations.G[..., j, :]
            x[:, j] = best
    return (x,)
