"""The way to a compared method, and its certificate: the same as for all methods."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np

from ..._nnls.arguments import COMPARED
from ..._nnls.problem import Problem
from ..._numerics.arithmetic import Array, Indices
from ..._numerics.certificate import (
    CONVERGED,
    ITERATION_LIMIT,
    Certificate,
    Solution,
    certify,
    is_certified,
    outcome,
)
from ..._numerics.system import System
from .batch import solve_in_chunks
from .found import Found

Solve = Callable[[System, Array, float, int], Found]
"""From scaled systems, feasible points, a tolerance and a limit to what is found."""


CHUNK_ENTRIES = 2**22
"""Limit on the matrix entries of a chunk."""


def solve_batch(problem: Problem, name: str) -> Solution:
    """Solve every system of a batch by the method `name`."""
    tol, maxiter = problem.cpu_tolerance, problem.maxiter

    def solve(system: System, start: Array) -> Solution:
        return solve_compared(name, system, start, tol, maxiter)

    return solve_in_chunks(problem, solve, COMPARED[name].number, CHUNK_ENTRIES)


def solve_compared(
    name: str, system: System, start: Array, tol: float, maxiter: int | None
) -> Solution:
    """Solve scaled systems by the method `name`, and certify what it finds.

    The certificate is computed from A, b and x alone. The method only decides between
    the statuses 1 and 3 of what is not certified.
    """
    method, n = COMPARED[name], system.A.shape[-1]
    limit = method.limit(n) if maxiter is None else maxiter
    found = solver(name)(system, start, tol, limit) if n else Found.at(start)
    x = np.where(np.isfinite(found.x) & (system.norm > 0), found.x, 0)
    rounded = system.rounded(x)
    best = certificate(system, x, rounded, tol)
    ended = np.where(found.limited, ITERATION_LIMIT, CONVERGED)
    return Solution(
        rounded,
        *best[:3],
        found.nit,
        outcome(system, rounded, best, ended, tol),
        found.n_updates,
        found.n_downdates,
        repaired=np.zeros(len(x), bool),
        method=np.full(len(x), method.number, np.uint8),
    )


def solver(name: str) -> Solve:
    """The function of the file that is named after the method, when first needed."""
    solve: Solve = getattr(importlib.import_module(f"{__package__}.{name}"), name)
    return solve


def certificate(system: System, x: Array, rounded: Array, tol: float) -> Certificate:
    """The certificates of the rounded x: from the better of two witnesses.

    They are the residual of x, and its part orthogonal to the columns of positive
    variables. A witness that certifies x is better than a witness that does not.
    """
    r = system.residual(x)
    found = [certify(system, rounded, y) for y in (r, orthogonal_part(system, x, r))]
    good, other = (is_certified(system, rounded, each, tol) for each in found)
    choose = np.where(good == other, found[1].kkt < found[0].kkt, other)
    return Certificate(
        *[
            np.where(choose[(...,) + (None,) * (first.ndim - 1)], second, first)
            for first, second in zip(*found, strict=True)
        ]
    )


def orthogonal_part(system: System, x: Array, r: Array) -> Array:
    """The part of r orthogonal to the columns of positive variables, up to penalties.

    Systems with more positive variables than rows keep r.
    """
    r, count = r.copy(), np.count_nonzero(x, axis=1)
    for k in map(int, np.unique(count)):
        at: Indices = np.flatnonzero(count == k)
        if 0 < k <= r.shape[1]:
            variables = np.nonzero(x[at])[1].reshape(-1, k)
            r[at] = orthogonal_to(system.take(at), variables, r[at])
    return r


def orthogonal_to(system: System, variables: Indices, r: Array) -> Array:
    """The part of r orthogonal to the columns `variables`, a (lanes, k) array.

    The products with these columns become the penalty's products, not 0.
    """
    lanes, n = np.arange(len(variables))[:, None], system.A.shape[-1]
    columns = np.swapaxes(system.A, -1, -2)
    columns = columns[variables] if columns.ndim == 2 else columns[lanes, variables]
    norm, damping, penalty = (
        np.broadcast_to(values, (len(variables), n))[lanes, variables]
        for values in (system.norm, system.damping, system.penalty)
    )
    if system.has_ridge:
        ridge = damping[..., None] * (variables[..., None] == np.arange(n))
        columns = np.concatenate([columns, ridge], axis=-1)
    Q, R = np.linalg.qr(np.swapaxes(columns, -1, -2))
    diagonal = np.einsum("...kk->...k", R)
    least = np.finfo(R.dtype).eps ** 2 * norm
    diagonal[...] = np.where(np.abs(diagonal) > least, diagonal, least)
    shift = np.matmul(penalty[:, None], np.linalg.inv(R))
    for _ in range(2):
        along = np.matmul(r[:, None], Q) - shift
        r = r - np.matmul(along, np.swapaxes(Q, -1, -2))[:, 0]
    return r


def best_witness(system: System, x: Array) -> Array:
    """The best witness for the free variables of x, by a singular value decomposition.

    It is the residual of the least-squares solution on the columns whose variables are
    between their bounds. Singular values at the level of rounding count as zero.
    """
    free = (x > system.lower) & (x < system.upper)
    columns = np.where(free[..., None, :], system.A, 0)
    penalty = np.where(free, system.penalty, 0)
    if system.has_ridge:
        ridge = np.where(free, system.damping, 0)[..., None] * np.eye(x.shape[-1])
        columns = np.concatenate([columns, ridge], axis=-2)
    U, s, Vh = np.linalg.svd(columns, full_matrices=False)
    eps = np.finfo(s.dtype).eps * max(columns.shape[-2:])
    positive = s > eps * np.max(s, axis=-1, keepdims=True, initial=0)
    U = np.where(positive[..., None, :], U, 0)
    rotated = np.matmul(Vh, penalty[..., None])[..., 0]
    shift = np.divide(rotated, s, out=np.zeros_like(rotated), where=positive)
    r = system.residual(x)
    for _ in range(2):
        along = np.matmul(np.swapaxes(U, -1, -2), r[..., None])[..., 0] - shift
        r = r - np.matmul(U, along[..., None])[..., 0]
    return np.asarray(r)
