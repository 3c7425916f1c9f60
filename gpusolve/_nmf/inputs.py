"""Validation of the matrices that are factorised."""

from __future__ import annotations

from typing import Any

from .._device.arrays import Array, floating, namespace
from .._device.kernels import current_device
from .._estimators.inputs import checked_matrix, real_array
from .matrix import Matrix


def matrix_of(X: Any, weights: Any) -> Matrix:
    """Validate X and the weights of its entries.

    NaN is a missing entry: it gets the weight 0. ValueError for infinity, negative
    entries, and weights of a sparse matrix.
    """
    if hasattr(X, "tocsr"):
        if weights is not None:
            raise ValueError(
                "weights must be None for a sparse X, whose zeros are data; use "
                "X.toarray(), with NaN for missing entries"
            )
        return Matrix(sparse_matrix(X))
    X = checked_matrix(real_array(X, "X", missing=True))
    with current_device(X):
        xp = namespace(X)
        check_non_negative(X, "X")
        missing = xp.isnan(X)
        if weights is not None:
            weights = entry_weights(weights, X)
        elif bool(missing.any()):
            weights = xp.ones_like(X)
        else:
            return Matrix(X)
        weights = xp.where(missing, 0, weights)
        return Matrix(xp.where(weights > 0, X, 0), weights)


def sparse_matrix(X: Any) -> Array:
    """X as CSR of a floating dtype; ValueError unless it is finite and non-negative."""
    X = checked_matrix(X).tocsr()
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: X is {X.dtype}")
    data = floating({"X": X.data})["X"]
    with current_device(data):
        if not bool(namespace(data).isfinite(data).all()):
            raise ValueError("X must be finite, got NaN or infinity in a sparse matrix")
        check_non_negative(data, "X")
    return X.astype(data.dtype, copy=False)


def check_non_negative(array: Array, name: str) -> None:
    """ValueError for negative entries; NaN is not negative."""
    if bool((array < 0).any()):
        least = float(namespace(array).nanmin(array))
        raise ValueError(f"Negative values in data: {name} must be >= 0, got {least}")


def entry_weights(weights: Any, X: Array) -> Array:
    """The weights in the dtype of X, broadcast to its shape."""
    found = real_array(weights, "weights")
    xp = namespace(X)
    try:
        found = xp.broadcast_to(found, X.shape)
    except ValueError:
        raise ValueError(
            f"weights must broadcast to shape {X.shape} of X, got {found.shape}"
        ) from None
    check_non_negative(found, "weights")
    return found.astype(X.dtype, copy=False)


def factor(value: Any, name: str, shape: tuple[int | None, int | None]) -> Array:
    """A given factor; ValueError for a wrong shape, or if it is not non-negative.

    None in the shape allows every length.
    """
    found = real_array(value, name)
    lengths = zip(shape, found.shape, strict=False)
    if found.ndim != 2 or any(n not in (None, length) for n, length in lengths):
        wanted = tuple("n_components" if n is None else n for n in shape)
        raise ValueError(f"{name} must have shape {wanted}, got {found.shape}")
    check_non_negative(found, name)
    return found
