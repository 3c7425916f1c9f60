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
from ..basis import CompactBasis

MAX_WIDTH = 32
"""The most values of a row in a part: the kernel has a table of 32 offsets for each."""

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

    def some(self, index: Any) -> DesignPart:
        """Some of the rows, or of the learners if there are several."""
        return DesignPart(self.first[index], self.offsets, self.values[index])


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
        """Whether all values are stored, also zeros."""
        return self.width >= self.functions

    def some(self, rows: Any) -> Rows:
        """Some of the rows, by a slice, an index or a mask."""
        return Rows(self.functions, tuple(part.some(rows) for part in self.parts))

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
        for k, (first, offset, column) in enumerate(self.columns()):
            np.add(first, offset, out=columns[:, k])
            values[:, k] = column
        return sparse_rows(values, columns, self.functions)

    def gram(self, weights: Array | None) -> Array:
        """``X' W X`` for F diagonal matrices W, whose diagonals are (F, n).

        Returns
        -------
        (F, functions, functions) array; F = 1 without weights.
        """
        xp = namespace(self.parts[0].values)
        fits = 1 if weights is None else len(weights)
        if xp is np and not self.is_dense:
            each = [None] if weights is None else weights
            return np.stack([self._gram_by_cells(w) for w in each])
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
        """`gram` of one fit on the host, by `cross_products` of all parts."""
        k = self.functions
        parts = [part.some(None) for part in self.parts]
        product = np.zeros((k, k))
        for part in parts:
            for other in parts:
                product += cross_products(part, other, weights, k, k)[0]
        return (product + product.T) / 2


def cross_products(
    part: DesignPart,
    other: DesignPart,
    weights: NDArray[np.float64] | None,
    functions: int,
    others: int,
) -> NDArray[np.float64]:
    """``X_i' W Y_i`` of m pairs of designs, (m, functions, others), on the host.

    The rows with the same function of X and the same first function of Y are summed
    first; then the sums of these few cells are added to the functions of Y.

    `part` has the designs X, with arrays (m, n) and (m, n, width); `other` has m
    designs Y, or a single design for all X. W is the diagonal matrix of the weights,
    (n,).
    """
    m, rows, width = part.values.shape
    cells = others - int(other.offsets[-1])
    count = functions * cells
    weighted = other.values.astype(np.float64, copy=False)
    if weights is not None:
        weighted = weighted * weights[:, None]
    vectors = np.broadcast_to(weighted, (m, rows, len(other.offsets)))
    vectors = vectors.reshape(m * rows, -1)
    columns = np.empty((m, rows, width), np.int32)
    begins = np.arange(m, dtype=np.int32)[:, None] * np.int32(count)
    np.multiply(part.first, np.int32(cells), out=columns[..., 0])
    columns[..., 0] += other.first + begins
    for k, offset in enumerate(part.offsets[1:].tolist(), 1):
        np.add(columns[..., 0], np.int32(offset * cells), out=columns[..., k])
    columns = columns.reshape(-1, width)
    values = part.values.astype(np.float64, copy=False).reshape(-1, width)
    design = sparse_rows(values, columns, m * count)
    product = np.zeros((m, functions, others))
    step = max(1, BLOCK_VALUES // (m * count))
    for begin in range(0, len(other.offsets), step):
        some = slice(begin, begin + step)
        sums = (design.T @ vectors[:, some]).reshape(m, functions, cells, -1)
        for k, offset in enumerate(other.offsets[some].tolist()):
            product[..., offset : offset + cells] += sums[..., k]
    return product


def sparse_rows(values: Array, columns: NDArray[np.int32], count: int) -> Any:
    """The sparse matrix with ``values[r, j]`` in column ``columns[r, j]`` of row r.

    Examples
    --------
    >>> values = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> sparse_rows(values, np.int32([[0, 1], [1, 2]]), count=3).toarray()
    array([[1., 2., 0.],
           [0., 3., 4.]])
    """
    from scipy.sparse import csr_array

    rows, width = values.shape
    index = np.int32 if values.size < 2**31 else np.int64
    ends = np.arange(0, values.size + 1, width, dtype=index)
    return csr_array((values.reshape(-1), columns.reshape(-1), ends), (rows, count))


def compact_part(basis: CompactBasis) -> DesignPart:
    """The designs of all learners of a basis, with arrays (K, n) and (K, n, width)."""
    offsets = np.arange(basis.values.shape[-1], dtype=np.int32)
    return DesignPart(basis.first, offsets, basis.values)


def compact_rows(basis: CompactBasis, learner: int, functions: int) -> Rows:
    """The design of one learner of a basis."""
    return Rows(functions, (compact_part(basis).some(learner),))


def dense_rows(X: Array) -> Rows:
    """The parts of a dense matrix, (n, functions)."""
    rows, functions = X.shape
    first = namespace(X).zeros(rows, np.int32)
    part = DesignPart(first, np.arange(functions, dtype=np.int32), X)
    return Rows(functions, tuple(divided(part)))


def indicator_rows(codes: Array, functions: int, dtype: Any) -> Rows:
    """A 1 at the function of each code, (n,); negative codes are rows of zeros."""
    first = namespace(codes).maximum(codes, 0).astype(np.int32)
    values = (codes >= 0).astype(dtype)[:, None]
    return Rows(functions, (DesignPart(first, np.zeros(1, np.int32), values),))


def side_by_side(*designs: Rows) -> Rows:
    """The designs next to each other: the functions of the first design come first."""
    parts: list[DesignPart] = []
    functions = 0
    for design in designs:
        parts += [p._replace(first=p.first + np.int32(functions)) for p in design.parts]
        functions += design.functions
    return Rows(functions, tuple(parts))


def kronecker(a: Rows, b: Rows) -> Rows:
    """The row-wise Kronecker product: the functions of `a` are the slow index.

    The values have the dtype of `b`.
    """
    parts = []
    for p in a.parts:
        for q in b.parts:
            first = (p.first * np.int32(b.functions) + q.first).astype(np.int32)
            offsets = (p.offsets[:, None] * b.functions + q.offsets).reshape(-1)
            values = (p.values[:, :, None] * q.values[:, None]).reshape(len(first), -1)
            values = values.astype(q.values.dtype, copy=False)
            parts += divided(DesignPart(first, offsets.astype(np.int32), values))
    return Rows(a.functions * b.functions, tuple(parts))


def divided(part: DesignPart) -> list[DesignPart]:
    """The part, or several parts of at most `MAX_WIDTH` values of each row."""
    xp = namespace(part.values)
    parts = []
    for begin in range(0, len(part.offsets), MAX_WIDTH):
        some = slice(begin, begin + MAX_WIDTH)
        offsets = part.offsets[some]
        first = part.first + offsets[0]
        values = xp.ascontiguousarray(part.values[:, some])
        parts.append(DesignPart(first, offsets - offsets[0], values))
    return parts
