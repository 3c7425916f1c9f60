"""The degrees of freedom of a fit: the trace of its influence matrix.

With F, the variables between their bounds, it is

    ``tr A_F (A_F^T W A_F + lam L_F^T L_F + diag(l2)_F)^-1 A_F^T W``:

the sum of the derivatives of ``A x`` with respect to b. Without penalties it is the
rank of ``A_F``. The inverse is not computed: if the columns of U are an orthonormal
basis of the range of ``[sqrt(W) A_F; sqrt(lam) L_F; sqrt(l2)_F]``, it is the sum of
squares of the rows of U that belong to A. So its error does not grow with the square of
the condition number.
"""

from __future__ import annotations

import math

import numpy as np

from .._device.arrays import Array, namespace, on_host
from .._device.launch import pieces
from .inputs import Problem
from .systems import drop_repeats, indices_of
from .tikhonov import cut, joined, problem_of, stacked

AT_ONCE = 2**22
"""The most elements of the matrices that are factorised at once."""


@np.errstate(all="ignore")
def degrees_of_freedom(problem: Problem, free: Array) -> Array:
    """The trace of the influence matrix of every system, in float64.

    `free` is a mask of the variables between their bounds.

    Systems that have the same matrix and the same variables between their bounds share
    a factorisation.
    """
    xp, m = namespace(free), problem.shape[0]
    found = xp.empty(problem.batch)
    for block in cut(problem):
        part = problem_of(problem, block)
        rows, which = weighted_rows(part)
        found[block] = traces(rows, which, free[block], m, problem.has_sum)
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
    return A.reshape(-1, *A.shape[-2:]), which


def traces(rows: Array, which: Array, free: Array, m: int, has_sum: bool) -> Array:
    """The degrees of freedom of systems with some matrices; m rows belong to A."""
    xp, shape = namespace(rows), free.shape[:-1]
    free = free.reshape(-1, free.shape[-1])
    keys = np.hstack([on_host(which)[:, None], on_host(free)])
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    found = xp.empty(len(first))
    most = max(1, AT_ONCE // max(1, rows[0].size if len(rows) else 1))
    for part in pieces(len(first), most):
        systems = xp.asarray(first[part])
        found[part] = trace(rows[which[systems]], free[systems], m, has_sum)
    return found[xp.asarray(inverse.reshape(-1))].reshape(shape)


def trace(rows: Array, free: Array, m: int, has_sum: bool) -> Array:
    """The sum of squares of m rows of a basis of the range of the free columns."""
    xp = namespace(rows)
    rows = xp.where(free[:, None, :], rows, 0)
    finite = xp.isfinite(rows).all(axis=(-2, -1))
    rows = xp.where(finite[:, None, None], rows, 0)
    if has_sum:
        rows = without_sum(rows, free)
    size = xp.abs(rows).sum(axis=-2, keepdims=True)
    U, s, _ = xp.linalg.svd(rows / xp.where(size == 0, 1, size), full_matrices=False)
    least = max(rows.shape[1:]) * np.finfo(np.float64).eps * s[:, :1]  # of the largest
    share = (U[:, :m] ** 2).sum(axis=-2)
    total = xp.where(s > least, share, 0).sum(axis=-1)
    return xp.where(finite, total, math.nan)


def without_sum(rows: Array, free: Array) -> Array:
    """The columns for changes of x that keep its sum, by a Householder reflection.

    It maps the first free variable to the direction in which the sum changes.
    """
    xp = namespace(rows)
    one = free & (xp.cumsum(free, axis=-1) == 1)
    count = free.sum(axis=-1, keepdims=True)
    u = one - free / xp.sqrt(xp.where(count == 0, 1, count))
    length = xp.sqrt((u**2).sum(axis=-1, keepdims=True))
    u = u / xp.where(length == 0, 1, length)
    along = xp.matmul(rows, u[..., None])
    return xp.where(one[:, None, :], 0, rows - 2 * along * u[:, None, :])
