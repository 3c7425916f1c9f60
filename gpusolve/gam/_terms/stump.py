"""Stumps: a step function with one jump, in bins of a numeric covariate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, namespace, on_host
from .basis import Matrix, Vector
from .frame import Frame, present_values
from .rows import Rows, indicator_rows
from .term import Reading, Single, learned


@dataclass(frozen=True, repr=False, kw_only=True)
class Stump(Single):
    """A step function with one jump, see `btree`.

    The functions are the indicators of the bins between the learned `cuts`; a value
    that equals a cut belongs to the bin below it.
    """

    function: str = "btree"
    bins: int = 255
    min_rows: int = 4
    cuts: tuple[float, ...] = learned(())

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.bins <= MAX_BINS:
            raise ValueError(f"bins must be 2 to {MAX_BINS}, got {self.bins}")
        if self.min_rows < 1:
            raise ValueError(f"min_rows must be at least 1, got {self.min_rows}")
        if len(self.covariates) > 1:
            raise ValueError(
                f"btree must be given one column, got {len(self.covariates)}; a stump "
                "of several columns is a learner for each"
            )

    @property
    def is_stump(self) -> bool:
        return True

    def _learn(self, frame: Frame) -> dict[str, Any]:
        (name,) = self.covariates
        x = on_host(present_values(name, frame)).astype(np.float64)
        return {"cuts": tuple(cuts_of(x, self.bins).tolist())}

    @property
    def _functions(self) -> int:
        return len(self.cuts) + 1

    def _plain_rows(self, data: Reading) -> Rows:
        (name,) = self.covariates
        x = data.numeric(name)
        xp = namespace(x)
        cuts = xp.asarray(self.cuts, np.float64)
        codes: Array = xp.searchsorted(cuts, x.astype(np.float64), side="left")
        return indicator_rows(codes, self._functions, data.dtype)

    def _exported(self) -> dict[str, Any]:
        return {"kind": "bins", "column": self.covariates[0], "cuts": [*self.cuts]}

    def _penalty(self) -> Matrix:
        return np.zeros((self._functions, self._functions))

    def _diagonal(self) -> Vector:
        return np.zeros(self._functions)


MAX_BINS = 255
"""The most bins: as in the histograms of other packages."""


def cuts_of(x: Vector, bins: int) -> Vector:
    """Where a column is cut: between its values, or at quantiles if these are many.

    Examples
    --------
    >>> cuts_of(np.array([3.0, 1.0, 2.0, 1.0]), bins=4)
    array([1.5, 2.5])
    >>> cuts_of(np.arange(8.0), bins=4)
    array([1.5, 3.5, 5.5])
    """
    values = np.unique(x)
    if len(values) > bins:
        shares = np.arange(1, bins) / bins
        below = np.unique(np.searchsorted(values, np.quantile(x, shares), "right"))
        below = below[(below > 0) & (below < len(values))]
    else:
        below = np.arange(1, len(values))
    return (values[below - 1] + values[below]) / 2


# ---- the fit -------------------------------------------------------------------------


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
