"""Stumps: a step function with one jump, in bins of a numeric covariate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._device.arrays import Array, namespace, on_host
from .basis import Matrix, Vector
from .frame import Frame, present_values
from .reading import Reading
from .rows import Rows, indicator_rows
from .rules import BY_CUT, Rule
from .term import Single, learned


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

    stands_alone = True

    def rule(self, inverse: Array) -> Cut:
        return Cut(self.min_rows)

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

EMPTY_SHARE = 8 * np.finfo(np.float64).eps
"""Shares of the weight below this number times the bins are rounding errors."""


@dataclass(frozen=True)
class Cut(Rule):
    """The best cut of bins, as ``cuda_src/stump.cuh``.

    Bin f has the weight ``g_f`` and the sum ``c_f`` of the weighted gradient. A cut
    after a bin gives both sides the means of the gradient, and reduces the sum of
    squares by ``C^2 / N`` of each side, with the sums C and N of its bins. Each side
    has a least weight, or one side has no rows: the mean of all is a fit, too.
    """

    least: int

    kind = BY_CUT

    def fitted(self, fit: int, c: Vector, gram: Array) -> Vector:
        """The effects of the bins by the first of the best cuts, (bins,)."""
        reduction, left, right = self.sides(c, gram)
        cut = reduction.argmax()
        return np.asarray(np.where(np.arange(len(c)) <= cut, left[cut], right[cut]))

    def scores(self, c: Array, gram: Array) -> Matrix:
        return np.asarray(self.sides(c, gram)[0].max(-1))

    def sides(self, c: Array, g: Array) -> tuple[Array, Array, Array]:
        """Reductions by all cuts, and the means of both sides, each (..., bins).

        A cut that is not allowed reduces by minus infinity; the mean of a side without
        rows is 0.

        Examples
        --------
        >>> Cut(2).sides(np.array([3.0, 1.0, -4.0]), np.array([1.0, 1.0, 2.0]))
        (array([-inf,  16.,   0.]), array([3., 2., 0.]), array([-1., -2.,  0.]))
        """
        C, N = c.cumsum(axis=-1), g.cumsum(axis=-1)
        total, weight = C[..., -1:], N[..., -1:]
        rounding = EMPTY_SHARE * N.shape[-1] * weight
        left, right = (
            np.where(rows > rounding, sums, 0) / np.where(rows > rounding, rows, 1)
            for sums, rows in ((C, N), (total - C, weight - N))
        )
        fewer = np.minimum(N, weight - N)
        allowed = (fewer <= rounding) | (fewer >= self.least - rounding)
        reduction = np.where(allowed, left * C + right * (total - C), -np.inf)
        return reduction, left, right
