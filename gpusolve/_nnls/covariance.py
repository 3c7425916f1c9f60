"""The covariance and the degrees of freedom of solutions.

Both belong to the variables F that are strictly between their bounds. The degrees of
freedom are the trace of the influence matrix,

    ``tr A_F (A_F^T W A_F + lam L_F^T L_F + diag(l2)_F)^-1 A_F^T W``:

the sum of the derivatives of ``A x`` with respect to b. Without penalties it is the
rank of ``A_F``. The inverse is not computed: if the columns of U are an orthonormal
basis of the range of ``[sqrt(W) A_F; sqrt(lam) L_F; sqrt(l2)_F]``, it is the sum of
squares of the rows of U that belong to A. So its error does not grow with the square of
the condition number. The matrix of all columns is factorised once, ``Q R``. A basis for
some columns is Q times a basis for these columns of R, by QR; by singular values if
they are dependent.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from .._device.arrays import Array, flat_batch, is_cupy, namespace, on_host
from .._device.launch import pieces
from .arguments import blocks, drop_repeats, joined
from .constraint_rows import ActiveRows, Duals, scaled_rows, without_rows
from .launch_arguments import indices_of
from .problem import Option, Problem, cut, stacked
from .sparse_matrices import SparseMatrices
from .sparse_matrices import scaled_gram as sparse_gram

AT_ONCE = 2**22
"""The most elements of the matrices that are factorised at once."""

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
    if given["weights"] is not None or given["gram_dtype"]:
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
    size, data = sparse_gram(given["A"], given["weights"])
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
        size, gram = sparse_gram(given["A"], given["weights"])
        gram = with_ridge(gram, given["l2"] / size**2)
        return (size, gram) if given["L"] is None else add_penalty(size, gram, given)
    xp, A = namespace(given["A"]), given["A"].astype(np.float64, copy=False)
    if given["gram_dtype"]:
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


# ---- degrees of freedom -------------------------------------------------------------


@np.errstate(all="ignore")
def degrees_of_freedom(problem: Problem, free: Array, active: Array | None) -> Array:
    """The trace of the influence matrix of every system, in float64.

    `free` is a mask of the variables between their bounds; `active` are the active rows
    of linear constraints, (..., k, n).

    Systems that have the same matrix, the same variables between their bounds and a
    shared `active` share a factorisation.
    """
    xp, m = namespace(free), problem.shape[0]
    found = xp.empty(problem.batch)
    for block in cut(problem):
        part = problem.part(block)
        rows, which = weighted_rows(part)
        C = active if active is None or active.ndim == 2 else active[block]
        found[block] = traces(rows, which, free[block], m, C)
    return found


def weighted_rows(problem: Problem) -> tuple[Array, Array]:
    """``[sqrt(W) A; sqrt(lam) L; sqrt(l2)]`` of each matrix, and the systems' matrices.

    They have the axes (matrices, rows, n) and (systems,).
    """
    xp, whole = namespace(problem.A), stacked(problem)
    A = drop_repeats(whole.A, 2).astype(np.float64, copy=False)
    if whole.weights is not None:
        root = xp.sqrt(drop_repeats(whole.weights, 1))[..., None]
        A = xp.where(root == 0, 0, root * A)
    if problem.has_ridge:
        l2 = xp.asarray(problem.l2)
        l2 = xp.broadcast_to(l2, (*l2.shape[:-1], A.shape[-1]))
        A = joined([A, xp.eye(A.shape[-1]) * xp.sqrt(l2)[..., None, :]], 2)
    which = indices_of(A.shape[:-2], problem.batch, A)
    return flat_batch(A, 2), which


def traces(
    rows: Array, which: Array, free: Array, m: int, active: Array | None
) -> Array:
    """The degrees of freedom of systems with some matrices; m rows belong to A."""
    xp, shape = namespace(rows), free.shape[:-1]
    free = flat_batch(free, 1)
    keys = np.hstack([on_host(which)[:, None], on_host(free)])
    if active is not None and active.ndim > 2:
        active = flat_batch(active, 2)
        keys = np.arange(len(free))[:, None]
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    found, first = xp.empty(len(first)), xp.asarray(first)
    finite = (xp.isfinite(rows).all(axis=-2)[which] | ~free).all(axis=-1)
    R, products = triangles(xp.where(xp.isfinite(rows), rows, 0), m)
    for part in pieces(len(found), max(1, AT_ONCE // max(1, math.prod(R.shape[1:])))):
        some = first[part]
        C = active if active is None or active.ndim == 2 else active[some]
        total = trace(R[which[some]], products[which[some]], free[some], C)
        found[part] = xp.where(finite[some], total, math.nan)
    return found[xp.asarray(inverse.reshape(-1))].reshape(shape)


def triangles(rows: Array, m: int) -> tuple[Array, Array]:
    """R of ``rows = Q R`` for each matrix, and the product of m rows of Q.

    Columns are scaled for the factorisation. R has few rows: an orthonormal basis V of
    the range of some of its columns gives Q V, the basis for the columns of the matrix.
    """
    xp = namespace(rows)
    size = nonzero(xp.abs(rows).sum(axis=-2, keepdims=True))
    Q, R = xp.linalg.qr(rows / size)
    upper = xp.swapaxes(Q[:, :m], -1, -2)
    return R * size, xp.matmul(upper, Q[:, :m])


def trace(R: Array, products: Array, free: Array, active: Array | None) -> Array:
    """The sum of squares of some rows of a basis of the range of the free columns."""
    xp = namespace(R)
    R = xp.where(free[:, None, :], R, 0)
    if active is not None:
        R, _ = without_rows(R, active, free)
    R = R / nonzero(xp.abs(R).sum(axis=-2, keepdims=True))
    total, independent = trace_by_qr(R, products)
    if not independent.all():
        rest = ~independent
        total[rest] = trace_by_svd(R[rest], products[rest])
    return total


def trace_by_qr(R: Array, products: Array) -> tuple[Array, Array]:
    """The sums, and a mask: whether the columns that are not zeros are independent.

    Zeros are moved to the end. Columns are independent if their least singular value,
    at least ``1 / |T^-1|`` for their triangle T, is above the level of rounding.
    """
    xp, used = namespace(R), (R != 0).any(axis=-2)
    order = xp.argsort(xp.where(used, 0, 1), axis=-1)
    V, T = xp.linalg.qr(xp.take_along_axis(R, order[:, None, :], axis=-1))
    rank, count = T.shape[-2], used.sum(axis=-1)
    leads = xp.arange(rank) < count[:, None]
    zero = xp.diagonal(T, axis1=-2, axis2=-1) == 0
    T = T[:, :, :rank] + xp.eye(rank) * zero[:, None, :]
    condition = frobenius_norm(T) * frobenius_norm(xp.linalg.inv(T))
    has_rank = (count <= rank) & ~(leads & zero).any(axis=-1)
    total = xp.where(leads, shares(V, products), 0).sum(axis=-1)
    return total, has_rank & (condition * least_ratio(R) < 1)


def trace_by_svd(R: Array, products: Array) -> Array:
    """The sums; singular values at the level of rounding count as zero."""
    xp = namespace(R)
    V, s, _ = xp.linalg.svd(R, full_matrices=False)
    is_counted = s > least_ratio(R) * s[:, :1]
    return xp.where(is_counted, shares(V, products), 0).sum(axis=-1)


def shares(V: Array, products: Array) -> Array:
    """The sum of squares of some rows of Q V for each column of V."""
    return (V * namespace(V).matmul(products, V)).sum(axis=-2)


def least_ratio(R: Array) -> float:
    """The part of the largest singular value that is due to rounding."""
    return float(max(R.shape[1:]) * np.finfo(np.float64).eps)


def frobenius_norm(matrices: Array) -> Array:
    """The Frobenius norm of each matrix."""
    return namespace(matrices).sqrt((matrices**2).sum(axis=(-2, -1)))
