"""The matrix that is factorised: dense or sparse, with weights of its entries."""

from __future__ import annotations

import math
from typing import NamedTuple

from .._device.arrays import Array, namespace


def values(X: Array) -> Array:
    """The entries of a dense matrix, or the entries that a sparse matrix stores."""
    return X.data if hasattr(X, "nnz") else X


class Matrix(NamedTuple):
    """A non-negative matrix.

    Attributes
    ----------
    X : (rows, columns) array or sparse matrix
        Dense or CSR; entries of weight 0 are 0.
    weights : (rows, columns) array or None
        The weights of the squared residuals; None for ones.
    """

    X: Array
    weights: Array | None = None

    @property
    def transpose(self) -> Matrix:
        """The transpose."""
        return Matrix(self.X.T, None if self.weights is None else self.weights.T)

    @property
    def mean(self) -> float:
        """The mean of the entries, by their weights."""
        if self.weights is None:
            return float(self.X.mean())
        total = float(self.weights.sum())
        return float((self.weights * self.X).sum()) / total if total else 0.0

    def filled(self) -> Array:
        """X with the mean of each column, by the weights, in entries of weight 0."""
        if self.weights is None:
            return self.X
        xp = namespace(self.X)
        total = self.weights.sum(axis=0)
        mean = (self.weights * self.X).sum(axis=0) / xp.where(total > 0, total, 1)
        return xp.where(self.weights > 0, self.X, mean)

    def error(self, W: Array, H: Array) -> float:
        """``|X - W H|``, by the weights.

        For a sparse X it has an absolute rounding error of ``sqrt(eps) |X|``.
        """
        if hasattr(self.X, "nnz"):
            products = ((W.T @ W) * (H @ H.T)).sum() - 2 * ((self.X @ H.T) * W).sum()
            return math.sqrt(max(float((self.X.data**2).sum() + products), 0.0))
        residual = self.X - W @ H
        squares = residual * residual
        if self.weights is not None:
            squares = self.weights * squares
        return math.sqrt(float(squares.sum()))
