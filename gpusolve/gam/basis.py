"""B-splines on equidistant knots, with only the nonzero ones of each row kept.

The range of a covariate is cut into ``n_basis - degree`` cells of one width, and the
grid goes on beyond both ends by `degree` cells. In a cell just ``degree + 1`` functions
are not zero, neighbours all of them, and in each cell they have the same shapes. A row
of the design matrix is so an integer, the first of these functions, and their values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, namespace, on_one_device
from .._device.kernels import current_device
from .._device.threads import chunked, workers

OUTSIDE = ("linear", "clamp", "error")
"""How effects go on outside of the range of the knots."""

MAX_DEGREE = 5

DEVICE_ROWS = 2**22
"""Rows, of all covariates together, that a device evaluates at once."""

BYTES_OF_A_ROW = 256
"""What a device needs for one of them at most, besides its X and the result. So all of
them take up to 1 GiB, however many rows there are: a small part of a card of 8 GB."""


class CompactBasis(NamedTuple):
    """Rows of K design matrices, without their zeros.

    Attributes
    ----------
    first : (K, n) int32 array
        The first function that is not zero in the row.
    values : (K, n, degree + 1) array
        Its value, and those of the next ones.
    """

    first: Array
    values: Array

    def dense(self, n_basis: int) -> Array:
        """The design matrices, (K, n, n_basis)."""
        xp = namespace(self.values)
        features, rows, width = self.values.shape
        with current_device(self.values):
            dense = xp.zeros((features, rows, n_basis), self.values.dtype)
            at_feature = xp.arange(features)[:, None, None]
            at_row = xp.arange(rows)[:, None]
            dense[at_feature, at_row, self.first[..., None] + xp.arange(width)] = (
                self.values
            )
            return dense

    def multiply(self, coef: Array) -> Array:
        """The products of the design matrices with `coef`, (K, n_basis) -> (K, n)."""
        xp = namespace(self.values)
        with current_device(self.values):
            at_feature = xp.arange(len(self.first))[:, None]
            effect = xp.zeros(self.first.shape, coef.dtype)
            for offset in range(self.values.shape[-1]):
                of_function = coef[at_feature, self.first + offset]
                effect += self.values[..., offset] * of_function
            return effect


@dataclass(frozen=True)
class BSplines:
    """One B-spline basis for each of K covariates.

    Attributes
    ----------
    lower, upper : (K,) array
        The range of each covariate: its first and last knot that are not continued
        ones. Where both are the same, all functions are zero.
    n_basis : int
        Functions of each basis, at least ``degree + 1``.
    degree : int
        Of the polynomials, 0 to 5.

    Raises
    ------
    ValueError
        For a degree, a number of functions or a range that cannot be.

    Notes
    -----
    The knots are mboost's: equidistant, and continued beyond the range instead of
    repeated at its ends.

    References
    ----------
    P. H. C. Eilers and B. D. Marx, "Flexible Smoothing with B-splines and Penalties",
    Statistical Science 11 (1996).

    Examples
    --------
    >>> import numpy as np
    >>> basis = BSplines(np.array([0.0]), np.array([2.0]), n_basis=3, degree=1)
    >>> basis.evaluate(np.array([[0.0], [0.5], [2.0]])).dense(3)
    array([[[1. , 0. , 0. ],
            [0.5, 0.5, 0. ],
            [0. , 0. , 1. ]]])
    """

    lower: Array
    upper: Array
    n_basis: int
    degree: int = 3

    def __post_init__(self) -> None:
        if not 0 <= self.degree <= MAX_DEGREE:
            raise ValueError(f"degree is {self.degree}; 0 to {MAX_DEGREE} is wanted")
        if self.n_basis <= self.degree:
            raise ValueError(
                f"n_basis is {self.n_basis}; at least degree + 1 = {self.degree + 1} "
                "is wanted"
            )
        xp = namespace(self.lower)
        with current_device(self.lower), np.errstate(over="ignore"):
            width = self.upper - self.lower
            spans = bool((xp.isfinite(width) & (width >= 0)).all())
        if not spans:
            raise ValueError("the range of a covariate is not finite")

    @classmethod
    def spanning(cls, X: Array, n_basis: int, degree: int = 3) -> BSplines:
        """The bases whose range is that of the columns of `X`, (n, K)."""
        with current_device(X):
            lower, upper = (
                end.astype(np.float64) for end in (X.min(axis=0), X.max(axis=0))
            )
        return cls(lower, upper, n_basis, degree)

    @property
    def cells(self) -> int:
        """Cells of the grid within the range of a covariate."""
        return self.n_basis - self.degree

    def evaluate(
        self, X: Array, *, outside: str = "linear", dtype: Any = np.float64
    ) -> CompactBasis:
        """The functions of every covariate, at every row.

        Parameters
        ----------
        X : (n, K) array
            Finite numbers, in any memory layout, where `lower` lives.
        outside : {"linear", "clamp", "error"}, optional
            Beyond the range, go on with the tangent at its end, stay at the value
            there, or raise.
        dtype : dtype, optional
            Of the values; they are computed in float64 and then rounded.

        Raises
        ------
        ValueError
            For an unknown `outside`, a value outside the range under "error", or `X`
            on another GPU.
        TypeError
            For `X` on the CPU and ranges on a GPU, or the other way round.
        """
        if outside not in OUTSIDE:
            raise ValueError(f"outside is {outside!r}; one of {OUTSIDE} is wanted")
        X = on_one_device({"lower": self.lower, "X": X})["X"]
        with current_device(X):
            return self._evaluate(X, outside, dtype)

    def _evaluate(self, X: Array, outside: str, dtype: Any) -> CompactBasis:
        xp = namespace(X)
        rows, features = X.shape
        first = xp.empty((features, rows), np.int32)
        values = xp.empty((features, rows, self.degree + 1), dtype)

        def write(some: slice, part: slice = slice(None)) -> None:
            x = X[part, some].T
            self._write(x, some, outside, first[some, part], values[some, part])

        if xp is np:
            with workers(features, rows) as run:
                run(write)
        else:
            for some in chunked(features, rows, DEVICE_ROWS):
                for part in chunked(rows, 1, DEVICE_ROWS):
                    write(some, part)
        return CompactBasis(first, values)

    def _write(
        self, x: Array, some: slice, outside: str, first: Array, values: Array
    ) -> None:
        """Write the bases of some covariates, whose rows are `x`, (some, n)."""
        xp = namespace(x)
        lower, upper = self.lower[some, None], self.upper[some, None]
        width = (upper - lower) / self.cells
        varies = width > 0
        place = (x - lower) / xp.where(varies, width, 1)
        within = xp.clip(place, 0, self.cells)
        excess = place - within
        beyond = outside != "clamp" and bool(((x < lower) | (x > upper)).any())
        if beyond and outside == "error":
            raise ValueError("a value lies outside of the range of the knots")
        cell = xp.minimum(within.astype(np.int32), self.cells - 1)
        shapes, slopes = pieces(within - cell, self.degree)
        first[...] = cell
        for k, (shape, slope) in enumerate(zip(shapes, slopes, strict=True)):
            value = shape + slope * excess if beyond else shape
            values[..., k] = value * varies


def pieces(u: Array, degree: int) -> tuple[list[Array], list[Array]]:
    """The functions that are not zero in a cell, and their slopes.

    Parameters
    ----------
    u : array
        The place in the cell, from 0 to 1.
    degree : int

    Returns
    -------
    (list of degree + 1 arrays, list of degree + 1 arrays)
        In the order of their knots, each of the shape of `u`. Slopes are per width of
        a cell.

    Notes
    -----
    The recursion of Cox and de Boor, for knots at the whole numbers.
    """
    zero = namespace(u).zeros_like(u)
    lower: list[Array] = []
    shapes = [zero + 1]
    for d in range(1, degree + 1):
        lower = [zero, *shapes, zero]
        shapes = [
            ((u + (d - k)) * lower[k] + (k + 1 - u) * lower[k + 1]) / d
            for k in range(d + 1)
        ]
    if degree == 0:
        return shapes, [zero]
    return shapes, [lower[k] - lower[k + 1] for k in range(degree + 1)]
