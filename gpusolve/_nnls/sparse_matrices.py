"""Sparse matrices of SciPy and CuPy as the A of least-squares systems."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, flat_batch, is_cupy, namespace, sparse_library
from .._device.launch import pieces

ENTRIES = 2**20
"""Entries of a matrix that are computed with at once, which limits memory."""

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
