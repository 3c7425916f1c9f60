"""Penalised fits whose coefficients obey linear inequalities: monotone splines.

The fit minimises ``b'Ab / 2 - b'c`` over all b with ``C b >= 0``; ``A^-1 = R R'``.
With multipliers mu >= 0 it is ``b = R (R'c + R'C' mu)``, and mu is the solution of a
non-negative least-squares problem: it minimises ``|R'C' mu + R'c|``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .problem import Cone

Floats = NDArray[np.float64]


def fitted_in_cone(cone: Cone, fit: int, moments: Floats) -> Floats:
    """The coefficients of the functions, from ``X'Wu`` of the functions, (k,).

    Notes
    -----
    `moments` and the result belong to the functions, b and c to the columns ``X T``.
    """
    from scipy.optimize import nnls

    T, root = cone.transform, cone.root[fit]
    c = moments if T is None else moments @ T
    free = root.T @ c
    multipliers, _ = nnls(root.T @ cone.constraint.T, -free)
    b: Floats = root @ (free + root.T @ (multipliers @ cone.constraint))
    return b if T is None else T @ b
