"""The nonzero values of design matrices, in parts with the same layout in every row.

A row of a B-spline basis is one integer and a few values; a row of a factor is one
integer and a 1. Sums and row-wise Kronecker products of such designs have parts of the
same kind, so learners of every kind are stored and multiplied alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, namespace
from .._boosting.products import sparse_rows, sums_by_cell
from ..basis import CompactBasis

MAX_WIDTH = 32
"""The most values of a row in one part; wider parts are divided."""

DENSE_SHARE = 4
"""A design is multiplied as a dense matrix if at least one in `DENSE_SHARE` of its
values is stored."""

BLOCK_VALUES = 2**24
"""The most values of a dense block of rows."""


class DesignPart(NamedTuple):
    """Some of the values of each row: ``values[r, j]`` is that of one function.

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


@dataclass(frozen=True)
class Rows:
    """A design matrix of n rows: the sum of its parts.

    Attributes
    ----------
    functions : int
        The number of columns.
    parts : tuple of DesignPart

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
    parts: tuple[DesignPart, ...]

    def __len__(self) -> int:
        return len(self.parts[0].first)

    @property
    def width(self) -> int:
        """The number of values that are stored of each row."""
        return sum(part.values.shape[1] for part in self.parts)

    @property
    def is_dense(self) -> bool:
        """Whether products with the dense matrix cost less."""
        return self.width * DENSE_SHARE >= self.functions

    def some(self, rows: Any) -> Rows:
        """Some of the rows, by a slice, an index or a mask."""
        parts = (
            DesignPart(p.first[rows], p.offsets, p.values[rows]) for p in self.parts
        )
        return Rows(self.functions, tuple(parts))

    def dense(self) -> Array:
        """The matrix, (n, functions) of float64."""
        xp = namespace(self.parts[0].values)
        dense = xp.zeros((len(self), self.functions))
        row = xp.arange(len(self))
        for first, offset, values in self.columns():
            dense[row, first + offset] += values
        return dense

    def columns(self) -> Iterator[tuple[Array, int, Array]]:
        """The first functions, the offset and the values, (n,), of each column."""
        for first, offsets, values in self.parts:
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
        columns = np.empty((len(self), self.width), np.int32)
        values = np.empty(columns.shape)
        begin = 0
        for part in self.parts:
            some = slice(begin, begin + part.values.shape[1])
            np.add(part.first[:, None], part.offsets, out=columns[:, some])
            values[:, some] = part.values
            begin = some.stop
        return sparse_rows(values, columns, self.functions)

    def gram(self, weights: Array | None) -> Array:
        """``X' W X`` for F diagonal matrices W, whose diagonals are (F, n).

        Returns
        -------
        (F, functions, functions) array; F = 1 without weights.
        """
        xp = namespace(self.parts[0].values)
        if xp is np and not self.is_dense:
            return self._gram_by_cells(weights)
        fits = 1 if weights is None else len(weights)
        gram = xp.zeros((fits, self.functions, self.functions))
        size = max(1, BLOCK_VALUES // self.functions)
        for begin in range(0, len(self), size):
            some = slice(begin, begin + size)
            X = self.some(some).dense()
            for fit in range(fits):
                weighted = X if weights is None else X * weights[fit, some, None]
                gram[fit] += X.T @ weighted
        return gram

    def _gram_by_cells(
        self, weights: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        """`gram` on the host, from sums over the rows with the same first functions.

        Each pair of columns is summed once; a column with itself counts half, because
        the transpose is added.
        """
        k = self.functions
        fits = 1 if weights is None else len(weights)
        flat = np.zeros((k * k, fits))
        factors = np.ones((len(self), 1)) if weights is None else weights.T
        factors = np.ascontiguousarray(factors)
        for index, part in enumerate(self.parts):
            for other in self.parts[index:]:
                pairs, cells = cells_of(part, other, k)
                for i, a in enumerate(part.offsets.tolist()):
                    values = part.values[:, i].astype(np.float64)
                    begin = i if part is other else 0
                    for j, b in enumerate(other.offsets[begin:].tolist(), begin):
                        share = 0.5 if part is other and i == j else 1.0
                        products = share * values * other.values[:, j]
                        sums = sums_by_cell(cells, products, factors, len(pairs))
                        flat[pairs + (a * k + b)] += sums
        half = np.moveaxis(flat.reshape(k, k, fits), 2, 0)
        return np.ascontiguousarray(half + half.swapaxes(1, 2))

    def scaled(self, factor: Array) -> Rows:
        """Each row multiplied by a factor, (n,)."""
        parts = (
            p._replace(values=(p.values * factor[:, None]).astype(p.values.dtype))
            for p in self.parts
        )
        return Rows(self.functions, tuple(parts))

    def in_blocks(self, block: Array, blocks: int) -> Rows:
        """Each row in one of several blocks of functions, of zeros in all others.

        Parameters
        ----------
        block : (n,) integer array
            The block of each row; -1 for a row of zeros.
        blocks : int
            The number of blocks.
        """
        xp = namespace(block)
        kept = self.scaled((block >= 0).astype(np.float64))
        shift = (xp.maximum(block, 0) * self.functions).astype(np.int32)
        parts = (DesignPart(p.first + shift, p.offsets, p.values) for p in kept.parts)
        return Rows(self.functions * blocks, tuple(parts))


def cells_of(
    part: DesignPart, other: DesignPart, functions: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The distinct pairs of first functions, and the pair of each row.

    A pair is ``first * functions + first`` of the other part.
    """
    if part is other:
        cells = functions - int(part.offsets[-1])
        return np.arange(cells) * (functions + 1), part.first
    flat = part.first.astype(np.int64) * functions + other.first
    pairs, cell = np.unique(flat, return_inverse=True)
    return pairs, cell.astype(np.int32)


def compact_rows(basis: CompactBasis, learner: int, functions: int) -> Rows:
    """The design of one learner of a basis."""
    values = basis.values[learner]
    offsets = np.arange(values.shape[1], dtype=np.int32)
    return Rows(functions, (DesignPart(basis.first[learner], offsets, values),))


def dense_rows(X: Array) -> Rows:
    """The parts of a dense matrix, (n, functions)."""
    xp = namespace(X)
    rows, functions = X.shape
    parts = []
    for begin in range(0, functions, MAX_WIDTH):
        values = xp.ascontiguousarray(X[:, begin : begin + MAX_WIDTH])
        offsets = np.arange(values.shape[1], dtype=np.int32)
        parts.append(DesignPart(xp.full(rows, begin, np.int32), offsets, values))
    return Rows(functions, tuple(parts))


def side_by_side(*designs: Rows) -> Rows:
    """The designs next to each other: the functions of the first one come first."""
    parts: list[DesignPart] = []
    functions = 0
    for design in designs:
        parts += [p._replace(first=p.first + np.int32(functions)) for p in design.parts]
        functions += design.functions
    return Rows(functions, tuple(parts))


def kronecker(a: Rows, b: Rows) -> Rows:
    """The row-wise Kronecker product: a's functions are the slow index."""
    parts = []
    for p in a.parts:
        for q in b.parts:
            first = (p.first * np.int32(b.functions) + q.first).astype(np.int32)
            offsets = (p.offsets[:, None] * b.functions + q.offsets).reshape(-1)
            values = (p.values[:, :, None] * q.values[:, None]).reshape(len(first), -1)
            parts += divided(DesignPart(first, offsets.astype(np.int32), values))
    return Rows(a.functions * b.functions, tuple(parts))


def divided(part: DesignPart) -> list[DesignPart]:
    """The part, or several parts of at most `MAX_WIDTH` values of each row."""
    xp = namespace(part.values)
    width = len(part.offsets)
    parts = []
    for begin in range(0, width, MAX_WIDTH):
        some = slice(begin, begin + MAX_WIDTH)
        offsets = part.offsets[some]
        first = part.first + offsets[0]
        values = xp.ascontiguousarray(part.values[:, some])
        parts.append(DesignPart(first, offsets - offsets[0], values))
    return parts
