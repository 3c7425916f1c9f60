"""``fnnls``: Lawson & Hanson's method on ``A^T A`` and ``A^T b``, computed once.

R. Bro and S. de Jong, *A fast non-negativity-constrained least squares algorithm*,
Journal of Chemometrics 11(5), 1997. A step costs ``k^3 / 3 + n k`` multiplications and
does not depend on m. A matrix that systems share is multiplied once. The condition
number is squared: columns within about 1e-7 of a combination of others are refused.
"""

from __future__ import annotations

import functools

from ..._numerics.arithmetic import Array
from ..._numerics.system import System
from .active_set import ActiveSetBatch
from .found import Found
from .normal_equations import NormalEquations


def fnnls(system: System, start: Array, tol: float, maxiter: int) -> Found:
    """Solve a batch of scaled systems from the feasible points `start`."""
    equations = NormalEquations.of(system)
    solve = functools.partial(equations.solve, grouped=False)
    slope = functools.partial(equations.slope, system)
    return ActiveSetBatch(system, start, solve, slope, tol).solve(maxiter)
