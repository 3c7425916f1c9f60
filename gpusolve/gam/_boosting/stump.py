"""Stumps: the best cut of ordered bins into two groups.

Bin f has the weight ``g_f`` and the sum ``c_f`` of the weighted gradient. A cut after a
bin gives both sides the means of the gradient, and reduces the sum of squares by
``C^2 / N`` of each side, with the sums C and N of its bins. Each side has a least
weight, or one side has no rows: the mean of all is a fit, too. ``cuda_src/stump.cuh``
is the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EMPTY_SHARE = 8 * np.finfo(np.float64).eps
"""Shares of the weight below this number times the bins are rounding errors."""


class Sides(NamedTuple):
    """Both sides of each cut, after each bin; arrays (..., bins).

    Attributes
    ----------
    reduction : array
        Of the sum of squares; minus infinity for a cut that is not allowed.
    left, right : array
        The means; 0 for a side without rows.
    """

    reduction: Floats
    left: Floats
    right: Floats


def sides_of(moments: Floats, weights: Floats, least: float) -> Sides:
    """All cuts, from c and g, (..., bins), and the least weight of a side.

    Examples
    --------
    >>> c, g = np.array([3.0, 1.0, -4.0]), np.array([1.0, 1.0, 2.0])
    >>> sides = sides_of(c, g, least=2)
    >>> sides.reduction, sides.left, sides.right
    (array([-inf,  16.,   0.]), array([3., 2., 0.]), array([-1., -2.,  0.]))
    """
    C, N = moments.cumsum(axis=-1), weights.cumsum(axis=-1)
    rounding = EMPTY_SHARE * N.shape[-1] * N[..., -1:]
    left = means(C, N, rounding)
    right = means(C[..., -1:] - C, N[..., -1:] - N, rounding)
    fewer = np.minimum(N, N[..., -1:] - N)
    allowed = (fewer <= rounding) | (fewer >= least - rounding)
    reduction = np.where(allowed, left * C + right * (C[..., -1:] - C), -np.inf)
    return Sides(reduction, left, right)


def means(sums: Floats, weights: Floats, rounding: Floats) -> Floats:
    """The means of sides, 0 for a side without rows."""
    exists = weights > rounding
    return np.asarray(np.where(exists, sums, 0) / np.where(exists, weights, 1))


def fitted_stump(moments: Floats, weights: Floats, least: float) -> Floats:
    """The effects of the bins by the first of the best cuts, (bins,)."""
    sides = sides_of(moments, weights, least)
    cut = sides.reduction.argmax()
    return np.asarray(
        np.where(np.arange(len(moments)) <= cut, sides.left[cut], sides.right[cut])
    )
