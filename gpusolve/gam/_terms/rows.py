"""The nonzero values of design matrices, in parts with the same layout in every row.

A row of a B-spline basis is one integer and a few values; a row of a factor is one
integer and a 1. Sums and row-wise Kronecker products of such designs have parts of the
same kind, so learners of every kind are stored and multiplied alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, contiguous, namespace
from ..._device.kernels import device_of
from ..._device.launch import pieces
from .._data.conventions import check_choice
from .basis import OUTSIDE, BSplines, CompactBasis, Knots
from .frame import MISSING, UNKNOWN, Frame, Level, Name, listed
from .predictor import Design, add, divided, multiply_rows

BLOCK_VALUES = 2**24
"""The most values of a dense block of rows: 128 MiB of float64."""


class DesignPart(NamedTuple):
    """Some values of each row; ``values[r, j]`` is the value of one function.

    Attributes
    ----------
    first : (n,) int32 array
        The function of the row's first value.
    offsets : (width,) int32 array on the host
        Value j belongs to the function ``first + offsets[j]``. Ascending, from 0.
    values : (n, width) array of float32 or float64
    """

    first: Array
    offsets: NDArray[np.int32]
    values: Array

    @property
    def like(self) -> Array:
        """An array of the rows, on their device."""
        return self.values

    def stored(self) -> DesignPart:
        """The part itself."""
        return self

    def some(self, index: Any) -> DesignPart:
        """Some of the rows."""
        return DesignPart(self.first[index], self.offsets, self.values[index])


@dataclass(frozen=True, eq=False)
class SplinePart:
    """The B-splines of a covariate on the host, computed whenever they are used.

    A row takes the 8 bytes of its covariate instead of 36 for its cubic splines.

    Attributes
    ----------
    x : (n,) array of float32 or float64
    splines : BSplines
        The basis of this covariate.
    outside : str
        How values outside the range are evaluated, as for `BSplines.evaluate`.
    dtype : dtype
        Of the values if they are stored.
    """

    x: Array
    splines: BSplines
    outside: str
    dtype: Any

    @property
    def like(self) -> Array:
        """An array of the rows."""
        return self.x

    @property
    def offsets(self) -> NDArray[np.int32]:
        """As of a `DesignPart`."""
        return np.arange(self.splines.degree + 1, dtype=np.int32)

    def stored(self) -> DesignPart:
        """The values themselves."""
        X = self.x[:, None]
        (first,), (values,) = self.splines._evaluate(X, self.outside, self.dtype)
        return DesignPart(first, self.offsets, values)

    def some(self, index: Any) -> SplinePart:
        """Some of the rows."""
        return replace(self, x=self.x[index])


Part: TypeAlias = DesignPart | SplinePart


@dataclass(frozen=True)
class Rows:
    """A design matrix of n rows: the sum of its parts.

    Attributes
    ----------
    functions : int
        The number of columns.
    parts : tuple of DesignPart or SplinePart

    Examples
    --------
    >>> a = dense_rows(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> b = Rows(3, (DesignPart(np.int32([0, 2]), np.int32([0]), np.ones((2, 1))),))
    >>> side_by_side(a, b).dense()
    array([[1., 2., 1., 0., 0.],
           [3., 4., 0., 0., 1.]])
    >>> kronecker(a, b).dense()
    array([[1., 0., 0., 2., 0., 0.],
           [0., 0., 3., 0., 0., 4.]])
    """

    functions: int
    parts: tuple[Part, ...]

    def __len__(self) -> int:
        return len(self.like)

    @property
    def like(self) -> Array:
        """An array of the rows, on their device."""
        return self.parts[0].like

    @property
    def width(self) -> int:
        """The number of values that are stored of each row."""
        return sum(len(part.offsets) for part in self.parts)

    @property
    def is_column(self) -> bool:
        """Whether the design is a single column of stored numbers."""
        return self.functions == len(self.parts) == self.width == 1

    @property
    def has_splines(self) -> bool:
        """Whether the rows are splines on an equidistant grid, computed when used."""
        return len(self.parts) == 1 and isinstance(self.parts[0], SplinePart)

    @property
    def basis(self) -> CompactBasis | None:
        """The rows as a basis, if the functions of each row are neighbours."""
        first, offsets, values = self.parts[0].stored()
        width = len(offsets)
        if len(self.parts) > 1 or width == self.functions or offsets[-1] >= width:
            return None
        return CompactBasis(first[None], values[None])

    @property
    def plain(self) -> Design:
        """The number of functions, and the stored parts."""
        return self.functions, [part.stored() for part in self.parts]

    def some(self, rows: Any) -> Rows:
        """Some of the rows, by a slice, an index or a mask."""
        return Rows(self.functions, tuple(part.some(rows) for part in self.parts))

    def dense(self) -> Array:
        """The matrix, (n, functions) of float64."""
        xp = namespace(self.like)
        dense = xp.zeros((len(self), self.functions))
        row = xp.arange(len(self))
        for first, offset, values in self.columns():
            dense[row, first + offset] += values
        return dense

    def columns(self) -> Iterator[tuple[Array, int, Array]]:
        """The first functions, the offset and the values, (n,), of each column."""
        for part in self.parts:
            first, offsets, values = part.stored()
            for j, offset in enumerate(offsets.tolist()):
                yield first, offset, values[:, j]

    def multiply(self, coef: Array) -> Array:
        """The product with a vector of coefficients, (n,)."""
        xp = namespace(coef)
        product = xp.zeros(len(self))
        for first, offset, values in self.columns():
            product += values * coef[first + offset]
        return product

    @cached_property
    def csr(self) -> Any:
        """The matrix on the host, as a ``scipy.sparse.csr_array`` of float64."""
        from scipy.sparse import csr_array

        columns = np.empty((len(self), self.width), np.int32)
        values = np.empty(columns.shape)
        for k, (first, offset, column) in enumerate(self.columns()):
            np.add(first, offset, out=columns[:, k])
            values[:, k] = column
        index = np.int32 if values.size < 2**31 else np.int64
        ends = np.arange(0, values.size + 1, self.width, dtype=index)
        entries = values.reshape(-1), columns.reshape(-1), ends
        return csr_array(entries, (len(self), self.functions))

    def gram(self, weights: Array | None) -> Array:
        """``X' W X`` for F diagonal matrices W, whose diagonals are (F, n).

        Returns
        -------
        (F, functions, functions) array; F = 1 without weights.
        """
        xp = namespace(self.like)
        fits = 1 if weights is None else len(weights)
        gram = xp.zeros((fits, self.functions, self.functions))
        for some in pieces(len(self), max(1, BLOCK_VALUES // self.functions)):
            X = self.some(some).dense()
            for fit in range(fits):
                weighted = X if weights is None else X * weights[fit, some, None]
                gram[fit] += X.T @ weighted
        return gram


def compact_rows(basis: CompactBasis, learner: int, functions: int) -> Rows:
    """The design of one learner of a basis."""
    offsets = np.arange(basis.values.shape[-1], dtype=np.int32)
    part = DesignPart(basis.first[learner], offsets, basis.values[learner])
    return Rows(functions, (part,))


def spline_rows(knots: Knots, x: Array, outside: str, dtype: Any) -> Rows:
    """The B-splines at `x`, (n,); on a device, a kernel evaluates equidistant knots."""
    if not knots.are_uniform:
        basis = knots.evaluate(x.astype(np.float64, copy=False), outside, dtype)
        return compact_rows(basis, 0, knots.functions)
    ends = np.array([knots.lower]), np.array([knots.upper])
    splines = BSplines(*ends, knots.functions, knots.degree)
    part = SplinePart(x, splines, outside, dtype)
    return Rows(knots.functions, (part if device_of(x) is None else part.stored(),))


def dense_rows(X: Array) -> Rows:
    """The parts of a dense matrix, (n, functions)."""
    rows, functions = X.shape
    first = namespace(X).zeros(rows, np.int32)
    part = DesignPart(first, np.arange(functions, dtype=np.int32), X)
    return joined((functions, divided(*part)))


def indicator_rows(codes: Array, functions: int, dtype: Any) -> Rows:
    """A 1 at the function of each code, (n,); negative codes are rows of zeros."""
    first = namespace(codes).maximum(codes, 0).astype(np.int32)
    values = (codes >= 0).astype(dtype)[:, None]
    return Rows(functions, (DesignPart(first, np.zeros(1, np.int32), values),))


def side_by_side(*designs: Rows) -> Rows:
    """The designs next to each other: the functions of the first design come first."""
    return joined(reduce(add, (design.plain for design in designs)))


def kronecker(a: Rows, b: Rows) -> Rows:
    """The row-wise Kronecker product: the functions of `a` are the slow index.

    The values have the dtype of `b`.
    """
    right = b.plain
    return joined(multiply_rows(a.plain, right), right[1][0][2].dtype)


def joined(design: Design, dtype: Any = None) -> Rows:
    """The design that `predictor` has made, with contiguous values."""
    functions, parts = design
    return Rows(
        functions,
        tuple(
            DesignPart(first, offsets, contiguous(values, dtype or values.dtype))
            for first, offsets, values in parts
        ),
    )


# ---- columns as terms read them ------------------------------------------------------


MISSING_VALUES = ("error", "zero")
UNKNOWN_LEVELS = ("error", "zero")


@dataclass
class Reading:
    """The columns of a frame as learned terms read them.

    `outside`, `unknown` and `missing` are as for `BoostedGAM`; values outside a cyclic
    range are always an error. The designs have the dtype, float32 or float64. `present`
    is 0 in the rows with a missing value that was read and 1 in others, (n,); None if
    no value was missing.
    """

    frame: Frame
    outside: str = "linear"
    unknown: str = "error"
    missing: str = "error"
    dtype: Any = np.float64
    present: Array | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_choice("outside", self.outside, OUTSIDE)
        check_choice("unknown", self.unknown, UNKNOWN_LEVELS)
        check_choice("missing", self.missing, MISSING_VALUES)

    def numeric(self, name: Name, fill: float = 0.0) -> Array:
        """A numeric column, (n,), with `fill` for missing values."""
        x = self.frame.numeric(name)
        if self.frame.has_all(name):
            return x
        xp = namespace(x)
        is_missing = xp.isnan(x)
        if self._note(name, is_missing):
            x = xp.where(is_missing, xp.asarray(fill, x.dtype), x)
        return x

    def codes(self, name: Name, levels: tuple[Level, ...]) -> Array:
        """The codes of a factor among the levels, (n,); negative for a row of zeros."""
        factor = self.frame.factor(name)
        codes = factor.codes_in(levels)
        self._note(name, codes == MISSING)
        if self.unknown == "error" and bool((codes == UNKNOWN).any()):
            known = set(levels)
            others = tuple(level for level in factor.levels if level not in known)
            raise ValueError(
                f"{name} must have the levels {listed(levels)}, got {listed(others)}; "
                "unknown='zero' gives other levels no effect"
            )
        return codes

    def _note(self, name: Name, is_missing: Array) -> bool:
        """Note the rows with missing values, and return whether there are such rows."""
        if not bool(is_missing.any()):
            return False
        if self.missing == "error":
            raise ValueError(
                f"{name} must not have missing values, such as NaN, got "
                f"{int(is_missing.sum())}; missing='zero' leaves these rows out of "
                "the learner"
            )
        present = (~is_missing).astype(np.float64)
        self.present = present if self.present is None else present * self.present
        return True
