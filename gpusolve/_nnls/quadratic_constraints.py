"""What linear constraints add to the certificate of a quadratic objective."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, largest, namespace
from .._device.products import product, transposed
from .._numerics.solution import CONVERGED
from .inputs import Problem


class Pull(NamedTuple):
    """The multipliers of linear constraints ``C x <= d`` or ``C x = d``, at a point x.

    Attributes
    ----------
    slope, terms : (..., n) array
        ``C^T y``, and the sum of its terms' magnitudes.
    gap, size : (...,) array
        ``|y (C x - d)|``, and the sum of its terms' magnitudes.
    share : (..., n) array
        The pull on each variable of a multiplier whose pull on another variable is 1,
        at most.
    is_feasible : (...,) array
        Whether x satisfies the constraints.
    """

    slope: Array
    terms: Array
    gap: Array
    size: Array
    share: Array
    is_feasible: Array


@np.errstate(all="ignore")
def pull_of(problem: Problem, result: Any) -> Pull | None:
    """The pull of the multipliers of a result; None without linear constraints.

    The kkt of the result belongs to least squares: it is infinite if x violates a
    constraint.
    """
    if not problem.has_constraints:
        return None
    xp, n = namespace(problem.A), problem.shape[1]
    x = xp.asarray(result.x).astype(np.float64)
    slope = terms = share = xp.zeros(n)
    gap = size = xp.zeros(())
    pairs = (
        (problem.A_ub, problem.b_ub, result.dual_ub),
        (problem.A_eq, problem.b_eq, result.dual_eq),
    )
    for C, d, multipliers in pairs:
        if C is None or d is None:
            continue
        y, d = xp.asarray(multipliers).astype(np.float64), xp.where(xp.isinf(d), 0, d)
        slope = slope + product(transposed(C), y)
        terms = terms + product(transposed(xp.abs(C)), xp.abs(y))
        most = largest(xp.abs(C), keepdims=True)
        of_rows = xp.abs(C) / xp.where(most > 0, most, 1)
        share = xp.maximum(share, largest(of_rows, axis=-2))
        gap = gap + xp.abs(y * (product(C, x) - d)).sum(axis=-1)
        of_row = product(xp.abs(C), xp.abs(x)) + xp.abs(d)
        size = size + (xp.abs(y) * of_row).sum(axis=-1)
    kkt, status = xp.asarray(result.kkt), xp.asarray(result.status)
    return Pull(
        slope, terms, gap, size, share, xp.isfinite(kkt) | (status == CONVERGED)
    )
