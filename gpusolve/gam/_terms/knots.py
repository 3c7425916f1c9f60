"""The knots of the B-splines of one covariate, equidistant or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, contiguous, namespace
from ..._device.kernels import device_of
from .basis import BSplines, CompactBasis, Matrix, differences
from .predictor import unequal
from .rows import Rows, SplinePart, compact_rows


@dataclass(frozen=True)
class Knots:
    """The knots of a basis: some within a range, and `degree` beyond each of its ends.

    Attributes
    ----------
    lower, upper : float
        The range. If both ends are equal, all functions are zero.
    interior : int or tuple of float
        The number of knots within the range at equal distances, or their positions,
        ascending.
    degree : int
        Degree of the polynomials, 0 to 5.
    cyclic : bool
        Whether the knots beyond the range repeat the inner knots, with the range as
        period.
    repeated : bool
        Whether the knots beyond the range repeat its ends, as in patsy and R. Otherwise
        they continue at steps of the mean distance.

    Examples
    --------
    >>> Knots(0.0, 4.0, (1.0, 3.0), 1).positions()
    array([-1.33333333,  0.        ,  1.        ,  3.        ,  4.        ,
            5.33333333])
    """

    lower: float
    upper: float
    interior: int | tuple[float, ...]
    degree: int
    cyclic: bool = False
    repeated: bool = False

    @property
    def cells(self) -> int:
        """The number of intervals between the knots within the range."""
        inner = self.interior
        return (inner if isinstance(inner, int) else len(inner)) + 1

    @property
    def functions(self) -> int:
        """The number of basis functions, before `fold`."""
        return self.cells + self.degree

    @property
    def are_uniform(self) -> bool:
        """Whether all knots are equidistant, or the range is one number."""
        has_cells = self.lower < self.upper
        return isinstance(self.interior, int) and not (self.repeated and has_cells)

    def exported(self) -> dict[str, Any]:
        """The plain values from which ``predictor.py`` computes the basis."""
        return {
            "lower": self.lower,
            "upper": self.upper,
            "cells": self.cells,
            "degree": self.degree,
            "cyclic": self.cyclic,
            "knots": None if self.are_uniform else self.positions().tolist(),
        }

    def within(self) -> NDArray[np.float64]:
        """The knots within the range, (cells - 1,)."""
        knots = self.interior
        if isinstance(knots, int):
            return np.linspace(self.lower, self.upper, knots + 2)[1:-1]
        return np.array(knots)

    def positions(self) -> NDArray[np.float64]:
        """All knots, (cells + 1 + 2 * degree,)."""
        inner = np.array([self.lower, *self.within(), self.upper])
        if self.repeated:
            return np.pad(inner, self.degree, mode="edge")
        period, cells = self.upper - self.lower, self.cells
        steps = np.arange(1, self.degree + 1)
        index = np.concatenate([-steps[::-1], cells + steps])
        beyond = (
            inner[index % cells] + index // cells * period
            if self.cyclic
            else self.lower + index * (period / cells)
        )
        return np.concatenate([beyond[: self.degree], inner, beyond[self.degree :]])

    def rows(self, x: Array, outside: str, dtype: Any) -> Rows:
        """The basis at `x`, (n,); uniform knots on a device by a kernel."""
        if not self.are_uniform:
            basis = self._evaluate(x.astype(np.float64, copy=False), outside, dtype)
            return compact_rows(basis, 0, self.functions)
        ends = np.array([self.lower]), np.array([self.upper])
        splines = BSplines(*ends, self.functions, self.degree)
        part = SplinePart(x, splines, outside, dtype)
        return Rows(self.functions, (part if device_of(x) is None else part.stored(),))

    def _evaluate(self, x: Array, outside: str, dtype: Any) -> CompactBasis:
        """The cells of `x`, (n,), and the values of their functions."""
        xp = namespace(x)
        t = xp.asarray(self.positions())
        cell, splines, slopes, excess = unequal(
            x, self.lower, self.upper, self.cells, self.degree, t
        )
        excess = excess * (outside == "linear")
        values = [s + slope * excess for s, slope in zip(splines, slopes, strict=True)]
        stacked = contiguous(xp.stack(values, axis=1), dtype)
        return CompactBasis(cell[None], stacked[None])

    def slope_matrix(self) -> Matrix:
        """The matrix from coefficients to multiples of the derivative's coefficients.

        The differences of neighbours; for unequal knots, divided by the distances of
        the functions' centres.
        """
        D = differences(self.functions, 1)
        if self.are_uniform:
            return D
        t, p = self.positions(), max(self.degree, 1)
        shift = min(self.degree, 1)
        centres = np.array(
            [t[i + shift : i + shift + p].mean() for i in range(self.functions)]
        )
        distance = np.diff(centres)
        return np.asarray(D / (distance / distance.mean())[:, None])

    def fold(self) -> Matrix | None:
        """The matrix that adds the functions a period apart; None unless cyclic."""
        if not self.cyclic:
            return None
        return np.eye(self.cells)[np.arange(self.functions) % self.cells]
