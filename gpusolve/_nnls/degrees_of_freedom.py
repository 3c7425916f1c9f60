"""The degrees of freedom of a fit: the trace of its influence matrix.

With F, the variables between their bounds, it is

    ``tr A_F (A_F^T W A_F + lam L_F^T L_F + diag(l2)_F)^-1 A_F^T W``:

the sum of the derivatives of ``A x`` with respect to b. Without penalties it is the
rank of ``A_F``. The inverse is not computed: if the columns of U are an orthonormal
basis of the range of ``[sqrt(W) A_F; sqrt(lam) L_F; sqrt(l2)_F]``, it is the sum of
squares of the rows of U that belong to A. So its error does not grow with the square of
the condition number.

The matrix of all columns is factorised once, ``Q R``. A basis for some columns is Q
times a basis for these columns of R, by QR; by singular values if they are dependent.
"""

from __future__ import annotations

import math

import numpy as np

from .._device.arrays import Array, flat_batch, namespace, on_host
from .._device.launch import pieces
from .active_rows import without_rows
from .inputs import Problem
from .systems import drop_repeats, indices_of
from .tikhonov import cut, joined, problem_of, stacked

AT_ONCE = 2**22
"""The most elements of the matrices that are factorised at once."""


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
        part = problem_of(problem, block)
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
        A = joined(A, xp.eye(A.shape[-1]) * xp.sqrt(l2)[..., None, :], axis=-2)
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
    xp, size = namespace(rows), column_size(rows)
    Q, R = xp.linalg.qr(rows / size)
    upper = xp.swapaxes(Q[:, :m], -1, -2)
    return R * size, xp.matmul(upper, Q[:, :m])


def column_size(columns: Array) -> Array:
    """The sums of magnitudes of the columns, 1 for zeros; the rows' axis stays."""
    size = namespace(columns).abs(columns).sum(axis=-2, keepdims=True)
    return namespace(columns).where(size == 0, 1, size)


def trace(R: Array, products: Array, free: Array, active: Array | None) -> Array:
    """The sum of squares of some rows of a basis of the range of the free columns."""
    xp = namespace(R)
    R = xp.where(free[:, None, :], R, 0)
    if active is not None:
        R, _ = without_rows(R, active, free)
    R = R / column_size(R)
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
    condition = norm(T) * norm(xp.linalg.inv(T))
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


def norm(matrices: Array) -> Array:
    """The Frobenius norm of each matrix."""
    return namespace(matrices).sqrt((matrices**2).sum(axis=(-2, -1)))
