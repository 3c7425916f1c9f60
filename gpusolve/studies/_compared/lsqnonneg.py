"""``lsqnonneg``: Lawson & Hanson's method with a full QR factorisation in every step.

C. L. Lawson and R. J. Hanson, *Solving Least Squares Problems*, 1974, chapter 23; the
function of that name in MATLAB, which Luo & Duraiswami compare with. Every passive set
is factorised from nothing: ``m k^2`` multiplications for k passive columns, where an
update needs ``m k``.
"""

from __future__ import annotations

import numpy as np

from ..._numerics.arithmetic import Array, Indices, Mask
from ..._numerics.system import System, norm
from .active_set import ActiveSetBatch
from .found import Found, extent, relative

DEPENDENT = 4.0
"""A column depends on those before it if the part orthogonal to them is at most this
number times ``rows eps`` of its norm."""


def lsqnonneg(system: System, start: Array, tol: float, maxiter: int) -> Found:
    """Solve a batch of scaled systems from the feasible points `start`."""

    def solve(at: Indices, passive: Mask) -> Array:
        y = np.zeros(passive.shape)
        for k, variables in enumerate(map(np.flatnonzero, passive)):
            y[k, variables] = passive_solution(system.take(at[k]), variables)
        return y

    def slope(at: Indices, x: Array) -> Array:
        some = system.take(at)
        r, whole = some.residual(x), extent(some, x)
        length = norm(r)[:, None]
        return relative(
            some, some.gradient(r), np.where(length > tol * whole, length, whole)
        )

    return ActiveSetBatch(system, start, solve, slope, tol).solve(maxiter)


def passive_solution(system: System, variables: Indices) -> Array:
    """The solution of a system on some variables; NaN if a column depends."""
    from scipy.linalg import solve_triangular

    columns, b = system.A[:, variables], system.b
    if system.has_ridge:
        ridge = np.diag(system.damping)[:, variables]
        columns = np.concatenate([columns, ridge])
        b = np.concatenate([b, np.zeros(len(ridge))])
    rows, k = columns.shape
    if k > rows:
        return np.full(k, np.nan)
    Q, R = np.linalg.qr(columns)
    least = DEPENDENT * rows * np.finfo(R.dtype).eps * system.norm[variables]
    if not (np.abs(np.diagonal(R)) > least).all():
        return np.full(k, np.nan)
    shift = solve_triangular(R, system.penalty[variables], trans="T")
    return np.asarray(solve_triangular(R, Q.T @ b - shift))
