"""The components before the first sweep. W follows from them."""

from __future__ import annotations

import math

import numpy as np

from .._device.arrays import Array, namespace
from .matrix import Matrix, values

INITS = (None, "random", "nndsvd", "nndsvda", "nndsvdar", "custom")

OVERSAMPLING = 10
POWERS = 4
"""Further columns, and products with ``X X^T``, of the randomised SVD."""

NEGLIGIBLE = 1e-6
"""Smaller elements of singular vectors become zeros."""


def initial_components(
    matrix: Matrix, count: int, init: str | None, rng: np.random.Generator
) -> Array:
    """`count` components; see the parameter `init` of `NMF`."""
    smallest = min(matrix.X.shape)
    if init is None:
        init = "nndsvda" if count <= smallest else "random"
    if init == "random":
        return random_components(matrix, count, rng)
    if count > smallest:
        raise ValueError(
            f"n_components must be at most {smallest}, the rows or columns of X, for "
            f"init={init!r}, got {count}"
        )
    H = signed_components(matrix.filled(), count, rng)
    xp, mean = namespace(H), matrix.mean
    if init == "nndsvda":
        H = xp.where(H == 0, mean, H)
    elif init == "nndsvdar":
        small = xp.asarray(np.abs(rng.standard_normal(H.shape))) * mean / 100
        H = xp.where(H == 0, small, H)
    return H.astype(matrix.X.dtype, copy=False)


def random_components(matrix: Matrix, count: int, rng: np.random.Generator) -> Array:
    """Magnitudes of normal numbers; W of the same size would give the mean of X."""
    numbers = np.abs(rng.standard_normal((count, matrix.X.shape[1])))
    scale = math.sqrt(matrix.mean / count)
    return namespace(values(matrix.X)).asarray(scale * numbers, matrix.X.dtype)


def signed_components(X: Array, count: int, rng: np.random.Generator) -> Array:
    """NNDSVD [1]_: of each pair of singular vectors, the larger part of one sign.

    References
    ----------
    .. [1] C. Boutsidis and E. Gallopoulos, "SVD based initialization: A head start for
           nonnegative matrix factorization", Pattern Recognition 41 (2008).
    """
    U, S, V = leading_svd(X, count, rng)
    xp = namespace(U)

    def norms(array: Array) -> Array:
        return xp.linalg.norm(array, axis=-1, keepdims=True)

    positive, negative = xp.maximum(V, 0), xp.maximum(-V, 0)
    sizes = [
        norms(xp.maximum(sign * U.T, 0)) * norms(part)
        for sign, part in ((1, positive), (-1, negative))
    ]
    part = xp.where(sizes[0] >= sizes[1], positive, negative)
    length = norms(part)
    size = xp.sqrt(S[:, None] * xp.maximum(*sizes))
    H = size * part / xp.where(length > 0, length, 1)
    return xp.where(H < NEGLIGIBLE, 0, H)


def leading_svd(
    X: Array, count: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """The largest singular values and their vectors, by random projections [1]_.

    References
    ----------
    .. [1] N. Halko, P.-G. Martinsson and J. Tropp, "Finding structure with randomness:
           probabilistic algorithms for constructing approximate matrix decompositions",
           SIAM Review 53 (2011).
    """
    xp = namespace(values(X))
    columns = min(count + OVERSAMPLING, *X.shape)
    start = rng.standard_normal((X.shape[1], columns))
    Q, _ = xp.linalg.qr(X @ xp.asarray(start, X.dtype))
    for _ in range(POWERS):
        P, _ = xp.linalg.qr(X.T @ Q)
        Q, _ = xp.linalg.qr(X @ P)
    small, S, V = xp.linalg.svd((X.T @ Q).T, full_matrices=False)
    return (Q @ small)[:, :count], S[:count], V[:count]
