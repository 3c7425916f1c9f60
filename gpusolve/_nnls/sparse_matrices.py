"""Sparse matrices of SciPy and CuPy: as the A of systems, and their products.

Residuals are computed in twice the working precision.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import (
    Array,
    address_of,
    broadcast_shapes,
    flat_batch,
    is_cupy,
    namespace,
    on_host,
    sparse_library,
)
from .._device.launch import CACHED, pieces, round_up
from .._device.objects import load
from .._device.threads import workers
from .._numerics.arithmetic import two_product, two_sum
from .._numerics.system import ACCURATE

ENTRIES = 2**20
"""Entries of a matrix that are computed with at once, which limits memory."""

TOGETHER = 4
"""The number of systems that the compiled object computes at once."""

ENTRIES_IN_CACHE = 2**14
"""Entries of the rows that NumPy computes at once; they stay in the cache."""

ENTRIES_ON_DEVICE = 2**22
"""The same for CuPy."""

Container = Any
"""A sparse matrix or array of SciPy or CuPy."""


def is_sparse(A: object) -> bool:
    """Whether A is a sparse matrix, or a list or tuple that contains one."""
    if isinstance(A, list | tuple):
        return any(sparse_library(matrix) is not None for matrix in A)
    return sparse_library(A) is not None


class SparseMatrices(NamedTuple):
    """A sparse matrix for all systems, or a list of matrices for the last batch axis.

    Attributes
    ----------
    rows : tuple of container
        The matrices in compressed sparse rows, without duplicates.
    shape : tuple of int
        (m, n), or (matrices, m, n) for a list.
    """

    rows: tuple[Container, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, A: Any) -> SparseMatrices:
        """Convert to compressed sparse rows; A itself never changes.

        Raises
        ------
        TypeError
            If a matrix of the list is dense, or of another library.
        ValueError
            If a matrix has other than two axes, or shapes differ.
        """
        several = isinstance(A, list | tuple)
        given = A if several else [A]
        check_one_library(given)
        shape = common_shape(given)
        rows = tuple([compressed_rows(matrix) for matrix in given])
        return cls(rows, (len(rows), *shape) if several else shape)

    def matrix_of(self, index: tuple[int, ...]) -> Container:
        """The matrix of a system, by its index in the batch."""
        return self.rows[index[-1] % len(self.rows) if self.ndim == 3 else 0]

    @property
    def ndim(self) -> int:
        """2, or 3 for a list."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the first matrix; all have the same once they are validated."""
        dtype: np.dtype[Any] = self.rows[0].dtype
        return dtype

    def astype(self, dtype: np.dtype[Any], copy: bool = False) -> SparseMatrices:
        """The matrices with entries of another dtype."""
        return self._replace(
            rows=tuple([matrix.astype(dtype, copy=copy) for matrix in self.rows])
        )

    def named_data(self) -> dict[str, Array]:
        """The entries of each matrix, under the name by which messages call it."""
        if self.ndim == 2:
            return {"A": self.rows[0].data}
        return {f"A[{k}]": matrix.data for k, matrix in enumerate(self.rows)}

    def blank(self, dtype: np.dtype[Any]) -> Array:
        """An array of the same shape that takes no memory, to be validated."""
        xp = namespace(self.rows[0].data)
        return xp.broadcast_to(xp.zeros((), dtype), self.shape)

    def times(self, x: Array) -> Array:
        """``A x`` for each system, (..., n) to (..., m)."""
        if self.ndim == 2:
            return multiply(self.rows[0], x)
        xp = namespace(x)
        each = enumerate(self.rows)
        return xp.stack([multiply(A, x[..., k, :]) for k, A in each], axis=-2)


def check_one_library(matrices: Sequence[Any]) -> None:
    """Raise TypeError unless SciPy, or CuPy, has made all matrices."""
    found = {sparse_library(matrix): type(matrix) for matrix in matrices}
    if len(found) > 1:
        names = [f"{kind.__module__}.{kind.__name__}" for kind in found.values()]
        raise TypeError(f"A must have sparse matrices of one library only, got {names}")


def common_shape(matrices: Sequence[Any]) -> tuple[int, int]:
    """The shape of all matrices; ValueError if they differ, or have other axes."""
    first = tuple(map(int, matrices[0].shape))
    for k, matrix in enumerate(matrices):
        if len(matrix.shape) != 2:
            raise ValueError(
                f"A must have sparse matrices with two axes, got shape {matrix.shape}"
            )
        if matrix.shape != first:
            raise ValueError(
                "A must have sparse matrices of one shape, got shapes "
                f"{first} of A[0] and {matrix.shape} of A[{k}]"
            )
    m, n = first
    return m, n


def multiply(matrix: Container, vectors: Array) -> Array:
    """The product of a matrix with each vector of the last axis."""
    found = (matrix @ flat_batch(vectors, 1).T).T
    return found.reshape(*vectors.shape[:-1], matrix.shape[0])


def compressed_rows(matrix: Container) -> Container:
    """The matrix in compressed sparse rows, without duplicates; a copy if it changes.

    CuPy's matrices say whether they have duplicates after they were searched for them.
    """
    found = matrix.tocsr()
    if not found.has_canonical_format:
        found = found.copy() if found is matrix else found
        found.sum_duplicates()
    return found


def rows_times(matrix: Container, factor: Array | None) -> Array:
    """The entries of a matrix in float64, times a factor of each row; None is 1.

    The entries of rows with a factor of 0 become 0, also NaN and infinity.
    """
    data = matrix.data.astype(np.float64)
    if factor is None:
        return data
    xp = namespace(data)
    for part in pieces(len(data), ENTRIES):
        entries = xp.arange(part.start, part.stop)
        of_row = factor[xp.searchsorted(matrix.indptr[1:], entries, side="right")]
        data[part] = xp.where(of_row != 0, data[part] * of_row, 0)
    return data


def columns_of(matrix: Container, chosen: Array) -> Container:
    """Some columns of a matrix in compressed sparse columns."""
    if is_cupy(matrix.data):
        chosen = sys.modules["cupy"].asarray(chosen)
    return matrix[:, chosen]


# ---- residuals -----------------------------------------------------------------------


def residual(b: Array, A: Container, x: Array, size: Array) -> Array:
    """``b - A x``, accurate to a few eps of its norm.

    The compiled object computes it in twice the working precision. NumPy and CuPy do so
    for systems in which much cancels only.

    Parameters
    ----------
    b : (systems, m) array
    A : (m, n) matrix in compressed sparse rows
    x : (systems, n) array
    size : (systems,) array
        The size of the terms that cancel, on the host.
    """
    library = None if is_cupy(b) else load()
    if library is not None:
        return compiled_residual(library, b, A, x)
    r = b - multiply(A, x)
    norm = on_host(namespace(r).sqrt((r * r).sum(axis=-1)))
    inaccurate = namespace(b).asarray(np.flatnonzero(ACCURATE * norm < size))
    if inaccurate.size:
        r[inaccurate] = minus_product(b[inaccurate], A, x[inaccurate])
    return r


def compiled_residual(
    library: ctypes.CDLL, b: Array, A: Container, x: Array
) -> NDArray[np.float64]:
    """The residual by ``cpu/sparse_residual.cpp``, on a thread for each core."""
    (systems, m), n = b.shape, x.shape[-1]
    padded = round_up(systems, TOGETHER)
    r, columns = np.zeros((padded, m)), np.zeros((n, padded))
    r[:systems], columns[:, :systems] = b, x.T
    arrays = A.indptr, A.indices, A.data
    subtract, wide = declared(library), A.indices.dtype.itemsize == 8

    def work(rows: slice) -> None:
        where = wide, rows.start, rows.stop, address_of(columns), padded, address_of(r)
        subtract(*map(address_of, arrays), *where, m)

    with workers(m, max(1, len(A.data) * padded // max(1, m))) as run:
        run(work)
    return r[:systems]


@functools.lru_cache(CACHED)
def declared(library: ctypes.CDLL) -> Any:
    """The function of the object with the types of its arguments."""
    address, integer = ctypes.c_void_p, ctypes.c_longlong
    function = library.gpusolve_sparse_residual
    function.argtypes = [*[address] * 3, *[integer] * 3]
    function.argtypes += [address, integer, address, integer]
    return function


def minus_product(b: Array, A: Container, x: Array) -> Array:
    """``b - A x`` in twice the working precision, rounded once, by NumPy or CuPy."""
    xp = namespace(b)
    found = xp.empty_like(b)
    x = xp.ascontiguousarray(-x.T)
    starts = on_host(A.indptr)
    most = ENTRIES_ON_DEVICE if is_cupy(b) else ENTRIES_IN_CACHE
    for rows in row_blocks(starts, max(1, most // max(1, len(b)))):
        some = slice(int(starts[rows.start]), int(starts[rows.stop]))
        products, errors = two_product(A.data[some, None], x[A.indices[some]])
        ends = A.indptr[rows.start : rows.stop + 1] - some.start
        high, low = row_sums(products, errors, ends)
        total, rounding = two_sum(b[:, rows].T, high)
        found[:, rows] = (total + (low + rounding)).T
    return found


def row_blocks(starts: Array, entries: int) -> Iterator[slice]:
    """Slices of rows that have at most `entries` entries, or are a single row.

    Examples
    --------
    >>> list(row_blocks(np.array([0, 2, 3, 9, 9]), 3))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    first, rows = 0, len(starts) - 1
    while first < rows:
        end = int(np.searchsorted(starts, starts[first] + entries, side="right")) - 1
        last = min(max(end, first + 1), rows)
        yield slice(first, last)
        first = last


def row_sums(high: Array, low: Array, starts: Array) -> tuple[Array, Array]:
    """Sums of the rows of two arrays, where the sums of `high` add their errors to low.

    Neighbours are added until each row has a single value.

    Parameters
    ----------
    high, low : (entries, systems) array
    starts : (rows + 1,) integer array
        Where each row begins.

    Returns
    -------
    tuple of (rows, systems) array
    """
    xp = namespace(high)
    lengths = starts[1:] - starts[:-1]
    while len(high) and int(lengths.max()) > 1:
        lengths = (lengths + 1) // 2
        ends = xp.cumsum(lengths)
        place = xp.arange(int(ends[-1]))
        row = xp.searchsorted(ends, place, side="right")
        first = starts[row] + 2 * (place - (ends - lengths)[row])
        is_pair = (first + 1 < starts[row + 1])[:, None]
        second = xp.minimum(first + 1, len(high) - 1)
        total, rounding = two_sum(high[first], xp.where(is_pair, high[second], 0))
        low = low[first] + xp.where(is_pair, low[second], 0) + rounding
        high, starts = total, xp.concatenate([0 * ends[:1], ends])
    if not len(high):
        return xp.zeros((len(lengths), *high.shape[1:])), xp.zeros(())
    filled = (lengths > 0)[:, None]
    at = xp.minimum(starts[:-1], len(high) - 1)
    return xp.where(filled, high[at], 0), xp.where(filled, low[at], 0)


# ---- Gram matrices -------------------------------------------------------------------


def scaled_gram(A: SparseMatrices, weights: Array | None) -> tuple[Array, Array]:
    """The size of each column, and ``A^T W A`` with columns of that size.

    Parameters
    ----------
    A : SparseMatrices
    weights : (..., m) array or None

    Returns
    -------
    tuple of (..., n), (..., n, n) array
        With the batch axes of A and of the weights.
    """
    n = A.shape[-1]
    if weights is None:
        batch, roots = A.shape[:-2], None
    else:
        xp = namespace(weights)
        batch = broadcast_shapes(A.shape[:-2], weights.shape[:-1])
        roots = xp.sqrt(weights.astype(np.float64, copy=False))
        roots = xp.broadcast_to(roots, (*batch, A.shape[-2]))
    xp = namespace(A.rows[0].data)
    sizes, grams = xp.empty((*batch, n)), xp.empty((*batch, n, n))
    for index in np.ndindex(batch):
        root = None if roots is None else roots[index]
        sizes[index], grams[index] = gram_of(A.matrix_of(index), root)
    return sizes, grams


def gram_of(matrix: Container, root: Array | None) -> tuple[Array, Array]:
    """The same for a matrix whose rows are multiplied by `root`."""
    xp, columns = namespace(matrix.data), matrix.indices
    data = rows_times(matrix, root)
    size = xp.bincount(columns, xp.abs(data), matrix.shape[1])
    size = xp.where(size == 0, 1, size)
    entries = data / size[columns], columns, matrix.indptr
    scaled = type(matrix)(entries, shape=matrix.shape)
    return size, (scaled.T.tocsr() @ scaled).toarray()
