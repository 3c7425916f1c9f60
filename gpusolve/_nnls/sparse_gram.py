"""Gram matrices of sparse matrices, by sparse products."""

from __future__ import annotations

import numpy as np

from .._device.arrays import Array, broadcast_shapes, namespace
from .sparse_matrices import Container, SparseMatrices, rows_times


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
