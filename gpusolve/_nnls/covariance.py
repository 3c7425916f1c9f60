"""The covariance of the variables that are strictly between their bounds."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from .._device.arrays import Array, flat_batch, is_cupy, namespace
from . import sparse_gram
from .active_rows import ActiveRows, Duals, scaled_rows, without_rows
from .batch import blocks
from .degrees_of_freedom import degrees_of_freedom
from .inputs import Option, Problem
from .sparse_matrices import SparseMatrices

BLOCK = 2**20
"""The most elements of the matrices that are inverted at once, which bounds memory."""

SINGULAR = 8.0
"""A matrix counts as singular if its least eigenvalue is at most this number times
``n eps`` of the largest, after scaling to a unit diagonal."""


@np.errstate(all="ignore")
def covariance(
    given: dict[str, Any],
    x: Array,
    rnorm: Array,
    duals: Duals,
    variance: Any,
    *,
    diagonal: bool,
) -> Array:
    """The covariance of each solution, or its diagonal; see `NNLSResult.covariance`.

    `given` has the fields of a `Problem`.
    """
    xp, n = namespace(x), x.shape[-1]
    lower, upper = given["bounds"]
    free = (x > lower) & (x < upper)
    active, batch = ActiveRows.of(given, x, duals), x.shape[:-1]
    rows = None if active is None else active.compact
    if rows is not None and rows.ndim > 2:
        rows = xp.broadcast_to(rows, (*batch, *rows.shape[-2:]))
    if variance is None:
        variance = default_variance(given, free, rnorm, rows)
    variance = xp.where(xp.isnan(rnorm), math.nan, xp.asarray(variance))
    size, gram = scaled_gram(given)
    if rows is not None:
        rows, _ = scaled_rows(rows, size)
    every = xp.arange(n)
    found = xp.empty((*batch, n) if diagonal else (*batch, n, n), x.dtype)
    for block in blocks(batch, BLOCK // max(1, n * n)):
        some = partial(systems_of, batch=batch, block=block)
        H, _ = inverse_of_free(
            some(gram, 2),
            free[block],
            None if rows is None else some(rows, 2),
            math.nan,
        )
        rounded = xp.diagonal(H, axis1=-2, axis2=-1)
        H[..., every, every] = xp.maximum(rounded, 0)
        scale = some(xp.sqrt(variance), 0)[..., None] / some(size, 1)
        if diagonal:
            found[block] = xp.diagonal(H, axis1=-2, axis2=-1) * scale**2
        else:
            found[block] = H * scale[..., :, None] * scale[..., None, :]
    return found


def systems_of(array: Array, core: int, batch: Any, block: Any) -> Array:
    """A block of systems of an array that broadcasts to the batch."""
    last = array.shape[array.ndim - core :]
    return namespace(array).broadcast_to(array, (*batch, *last))[block]


def default_variance(
    given: dict[str, Any], free: Array, rnorm: Array, rows: Array | None
) -> Any:
    """1 if weights are inverse variances, else the variance of the residual."""
    if given["weights"] is not None or given["is_gram"]:
        return 1.0
    xp = namespace(free)
    if given["L"] is None:
        fitted = free.sum(axis=-1)
        if rows is not None:
            fitted = fitted - rank_of(rows, free)
    else:
        fitted = fitted_by(given, free, rows)
    freedom = given["b"].shape[-1] - fitted
    positive = freedom > 0
    square = xp.asarray(rnorm, np.float64) ** 2
    return xp.where(positive, square / xp.where(positive, freedom, 1), math.nan)


def fitted_by(given: dict[str, Any], free: Array, rows: Array | None) -> Array:
    """The degrees of freedom of each system, for its free variables and active rows."""
    if isinstance(given["A"], SparseMatrices):
        return trace_by_gram(given, free, rows)
    problem = Problem(**{name: given[name] for name in Problem._fields})
    return degrees_of_freedom(problem, free, rows)


def trace_by_gram(given: dict[str, Any], free: Array, rows: Array | None) -> Array:
    """The trace of the influence matrix, from the Gram matrix of a sparse A.

    Its error is about eps times the square of the condition number of the free columns
    with the penalty. One system is inverted at a time, which bounds memory.
    """
    xp, batch = namespace(free), free.shape[:-1]
    size, data = sparse_gram.scaled_gram(given["A"], given["weights"])
    given = {**given, "lam": xp.asarray(given["lam"])}
    values = {name: (given[name], core) for name, core in (("L", 2), ("lam", 0))}
    l2 = xp.asarray(given["l2"]) + xp.zeros(free.shape[-1])
    found = xp.empty(batch)
    for index in np.ndindex(batch):
        some = partial(systems_of, batch=batch, block=index)
        own = {name: some(value, core) for name, (value, core) in values.items()}
        own_size, own_data = some(size, 1), some(data, 2)
        gram = with_ridge(own_data, some(l2, 1) / own_size**2)
        whole, gram = add_penalty(own_size, gram, own)
        C = None if rows is None else scaled_rows(some(rows, 2), whole)[0]
        H, _ = inverse_of_free(gram, free[index], C, 0.0)
        ratio = own_size / whole
        found[index] = (H * own_data * ratio[:, None] * ratio).sum()
    return found


def rank_of(rows: Array, free: Array) -> Array:
    """The rank of the free columns of the active rows of each system."""
    xp, (*batch, n) = namespace(free), free.shape
    if rows.ndim > 2:
        rows = flat_batch(rows, 2)
    free = flat_batch(free, 1)
    _, rank = without_rows(xp.zeros((len(free), 0, n)), rows, free)
    return rank.reshape(batch)


def scaled_gram(given: dict[str, Any]) -> tuple[Array, Array]:
    """The size of each column, and ``A^T W A + diag(l2)`` with columns of that size.

    Neither a shared A nor a shared result is copied for each system.
    """
    if isinstance(given["A"], SparseMatrices):
        size, gram = sparse_gram.scaled_gram(given["A"], given["weights"])
        gram = with_ridge(gram, given["l2"] / size**2)
        return (size, gram) if given["L"] is None else add_penalty(size, gram, given)
    xp, A = namespace(given["A"]), given["A"].astype(np.float64, copy=False)
    if given["is_gram"]:
        A = with_ridge(A, given["l2"])
        diagonal = xp.diagonal(A, axis1=-2, axis2=-1)
        size = nonzero(xp.sqrt(xp.maximum(diagonal, 0)))
        return size, A / size[..., :, None] / size[..., None, :]
    n = A.shape[-1]
    if given["weights"] is None:
        size = nonzero(xp.abs(A).sum(axis=-2))
        A = A / size[..., None, :]
        gram = xp.matmul(xp.swapaxes(A, -1, -2), A)
    else:
        A = xp.where(xp.isfinite(A), A, 0)  # of use in rows of weight 0 only
        root = xp.sqrt(given["weights"].astype(np.float64, copy=False))
        size = nonzero(xp.matmul(root[..., None, :], xp.abs(A))[..., 0, :])
        columns = (root * A[..., j] / size[..., j, None] * root for j in range(n))
        rows = [xp.matmul(column[..., None, :], A) for column in columns]
        gram = xp.concatenate(rows, axis=-2) if rows else xp.zeros((0, 0))
        gram = gram / size[..., None, :]
    gram = with_ridge(gram, given["l2"] / size**2)
    return (size, gram) if given["L"] is None else add_penalty(size, gram, given)


def with_ridge(G: Array, l2: Option) -> Array:
    """``G + diag(l2)``; G itself without a penalty."""
    if isinstance(l2, float) and l2 == 0:
        return G
    xp = namespace(G)
    diagonal = l2 if isinstance(l2, float) else l2[..., None, :]
    return G + xp.eye(G.shape[-1]) * diagonal


def add_penalty(size: Array, gram: Array, given: dict[str, Any]) -> tuple[Array, Array]:
    """The results of `scaled_gram` with ``lam L^T L`` added to the matrix."""
    xp, L = namespace(gram), given["L"].astype(np.float64, copy=False)
    L = L * xp.sqrt(xp.asarray(given["lam"]))[..., None, None]
    used = xp.diagonal(gram, axis1=-2, axis2=-1) > 0
    whole = nonzero(xp.where(used, size, 0) + xp.abs(L).sum(axis=-2))
    ratio, L = size / whole, L / whole[..., None, :]
    gram = ratio[..., :, None] * gram * ratio[..., None, :]
    return whole, gram + xp.matmul(xp.swapaxes(L, -1, -2), L)


def inverse_of_free(
    gram: Array, free: Array, rows: Array | None, singular: float
) -> tuple[Array, Array | None]:
    """The inverse of the free rows and columns, and the changes of x with ``rows x``.

    The inverse is 0 elsewhere. Its eigenvalues are `singular` where the matrix has
    eigenvalues of 0. If `rows` are given, it is the inverse where ``rows x`` is
    constant. The squares of the rows may then be added to the matrix: the result stays
    the same, but a matrix that is singular along the rows becomes regular.
    """
    xp, n = namespace(gram), gram.shape[-1]
    if rows is not None:
        gram = gram + xp.matmul(xp.swapaxes(rows, -1, -2), rows)
    both = free[..., :, None] & free[..., None, :]
    finite = xp.isfinite(gram).all(axis=(-2, -1))[..., None, None]
    root = nonzero(xp.sqrt(xp.maximum(xp.diagonal(gram, axis1=-2, axis2=-1), 0)))
    gram = gram / root[..., :, None] / root[..., None, :]
    gram = xp.where(both & finite, gram, 0) + xp.eye(n) * ~free[..., None, :]
    H = inverted(gram, singular)
    H = H / root[..., :, None] / root[..., None, :]
    change = None
    if rows is not None:
        rows = xp.where(free[..., None, :], rows, 0)
        along = xp.matmul(rows, H)
        among = inverse_among(xp.matmul(along, xp.swapaxes(rows, -1, -2)))
        change = xp.matmul(among, along)
        H = H - xp.matmul(xp.swapaxes(along, -1, -2), change)
    return xp.where(both | xp.isnan(H), H, 0), change


def inverse_among(G: Array) -> Array:
    """The inverses of matrices of rows that may be zero or depend on each other."""
    xp = namespace(G)
    G = xp.where(xp.isfinite(G).all(axis=(-2, -1))[..., None, None], G, 0)
    if G.shape[-1] == 1:
        return xp.where(G > 0, 1 / nonzero(G), 0)
    size = xp.sqrt(xp.maximum(xp.diagonal(G, axis1=-2, axis2=-1), 0))
    both = nonzero(size)[..., :, None] * nonzero(size)[..., None, :]
    H = inverted(G / both + xp.eye(G.shape[-1]) * (size == 0)[..., None, :], 0.0)
    return xp.where(size[..., None] * size[..., None, :] > 0, H, 0) / both


def inverted(G: Array, singular: float) -> Array:
    """The inverses of matrices of unit diagonal; see `inverse_of_free`.

    On a device by eigenvalues, without waiting for it. On the host LU factors are 20
    times faster. They are taken if the condition number shows that no eigenvalue
    counts as 0.
    """
    if is_cupy(G):
        return inverse_by_eigenvalues(G, singular)
    n = G.shape[-1]
    try:
        H = np.linalg.inv(G)
    except np.linalg.LinAlgError:
        is_singular = np.linalg.slogdet(G)[0] == 0
        H = np.linalg.inv(np.where(is_singular[..., None, None], np.eye(n), G))
        H[is_singular] = math.nan
    condition = sum_norm(G) * sum_norm(H)
    doubtful = ~(condition * SINGULAR * n * n * np.finfo(np.float64).eps < 1)
    H[doubtful] = inverse_by_eigenvalues(G[doubtful], singular)
    return H


def sum_norm(G: Array) -> Array:
    """The largest sum of magnitudes of a column."""
    return abs(G).sum(axis=-2).max(axis=-1, initial=0.0)


def inverse_by_eigenvalues(G: Array, singular: float) -> Array:
    """`inverted`, by the eigenvalues of all matrices."""
    xp = namespace(G)
    values, vectors = xp.linalg.eigh(G)
    limit = SINGULAR * G.shape[-1] * np.finfo(np.float64).eps
    total = xp.abs(values).sum(axis=-1, keepdims=True)
    inverse = xp.where(values > limit * total, 1 / nonzero(values), singular)
    return xp.matmul(vectors * inverse[..., None, :], xp.swapaxes(vectors, -1, -2))


def nonzero(values: Array) -> Array:
    """The values, with 1 in place of 0."""
    return namespace(values).where(values == 0, 1, values)
