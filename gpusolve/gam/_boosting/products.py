"""Products with the transposed design matrices, computed from the nonzero values.

The contribution of a row depends on its cell and its ``degree + 1`` values. The rows of
each cell are therefore summed first; then the sums of the few cells are added to the
functions of the basis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, namespace
from ..basis import CompactBasis

Floats = NDArray[np.float64]

DENSE_BYTES = 2**28
"""Memory for dense design matrices, in bytes; exceeded if one learner needs more."""


def sparse_rows(values: Array, columns: NDArray[np.int32], count: int) -> Any:
    """The sparse matrix with ``values[r, j]`` in column ``columns[r, j]`` of row r.

    Parameters
    ----------
    values, columns : (n, width) array
    count : int
        The number of columns of the matrix.

    Returns
    -------
    scipy.sparse.csr_array

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


def sums_by_cell(
    cells: NDArray[np.int32], weights: Floats, vectors: Array, count: int
) -> Floats:
    """The weighted sum of the vectors of each cell.

    Parameters
    ----------
    cells : (n,) int32 array
        The cell of each vector, from 0 to ``count - 1``.
    weights : (n,) array
    vectors : (n, width) array
    count : int
        The number of cells.

    Returns
    -------
    (count, width) float64 array

    Examples
    --------
    >>> vectors = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> sums_by_cell(np.int32([1, 0, 1]), np.ones(3), vectors, count=2)
    array([[3., 4.],
           [6., 8.]])
    """
    membership = sparse_rows(weights[:, None], cells[:, None], count)
    return np.asarray(membership.T @ vectors)


def flat_cells(cells: Array, count: int) -> NDArray[np.int32]:
    """The index of each pair of a learner and a cell: (m, n) to (m * n,)."""
    learner = np.arange(len(cells), dtype=np.int32)[:, None]
    return np.asarray(cells + learner * np.int32(count)).reshape(-1)


def transposed_product(
    basis: CompactBasis, vector: Floats, n_basis: int, out: Floats
) -> None:
    """Write ``B_i' v`` of m learners i to `out`, (m, n_basis), for a vector v, (n,)."""
    learners, _, width = basis.values.shape
    cells = n_basis - width + 1
    weights = np.broadcast_to(vector, basis.first.shape).reshape(-1)
    values = basis.values.reshape(-1, width)
    sums = sums_by_cell(
        flat_cells(basis.first, cells), weights, values, learners * cells
    ).reshape(learners, cells, width)
    out[...] = 0
    for k in range(width):
        out[:, k : k + cells] += sums[..., k]


def cross_products(
    basis: CompactBasis,
    other: CompactBasis,
    weights: Floats | None,
    n_basis: int,
    out: Floats,
) -> None:
    """Write ``B_i' W B_j`` of m learners i, with one j for all or one j for each i.

    Parameters
    ----------
    basis : CompactBasis
        The m learners i.
    other : CompactBasis
        One learner j, or m learners.
    weights : (n,) array or None
    n_basis : int
    out : (m, n_basis, n_basis) array
    """
    learners, rows, width = basis.values.shape
    cells = n_basis - width + 1
    weighted = other.values.astype(np.float64, copy=False)
    if weights is not None:
        weighted = weighted * weights[:, None]
    vectors = np.broadcast_to(weighted, basis.values.shape).reshape(-1, width)
    # A value of B_i belongs to its function and to the cell of B_j in the same row.
    pairs = flat_cells(basis.first * np.int32(cells) + other.first, n_basis * cells)
    columns = np.empty((learners * rows, width), np.int32)
    for k in range(width):
        np.add(pairs, np.int32(k * cells), out=columns[:, k])
    values = basis.values.reshape(-1, width).astype(np.float64, copy=False)
    design = sparse_rows(values, columns, learners * n_basis * cells)
    sums = (design.T @ vectors).reshape(learners, n_basis, cells, width)
    out[...] = 0
    for m in range(width):
        out[..., m : m + cells] += sums[..., m]


def dense_gram(basis: CompactBasis, n_basis: int, weights: Array | None) -> Array:
    """``B_i' W B_i`` of every learner by dense products, (K, n_basis, n_basis)."""
    xp = namespace(basis.values)
    learners, rows, _ = basis.values.shape
    gram = xp.empty((learners, n_basis, n_basis), np.float64)
    size = max(1, DENSE_BYTES // max(1, 8 * rows * n_basis))
    for begin in range(0, learners, size):
        some = slice(begin, begin + size)
        B = CompactBasis(basis.first[some], basis.values[some]).dense(n_basis)
        B = B.astype(np.float64, copy=False)
        weighted = B if weights is None else B * weights[:, None]
        gram[some] = xp.matmul(B.swapaxes(1, 2), weighted)
    return gram
