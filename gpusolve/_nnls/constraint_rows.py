"""Linear constraints as rows: all of a batch, and the active rows of a solution."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, largest, namespace
from .._device.kernels import device_of
from .._device.products import product, transposed
from .._numerics.arithmetic import DEPENDENT, EPS
from .._numerics.certificate import CERTIFIED, ROUNDED
from .arguments import joined
from .dense import solve_within_bounds
from .problem import Problem

SAME = 1e-8
"""Rows of unit length count as opposite to other rows up to this distance."""

Duals = tuple[Any, Any]
"""The multipliers of ``A_ub x <= b_ub`` and of ``A_eq x = b_eq``, or None."""


class Rows(NamedTuple):
    """The general constraints of a batch: ``C x >= d``, and equality in the last rows.

    The rows are those of ``-A_ub``, ``A_eq``, and the fixed sum. A row whose element of
    d is minus infinity holds for every x.

    Attributes
    ----------
    C : (..., rows, n) array
    d : (..., rows) array
    counts : tuple of int
        The rows of each kind, in this order.
    units : (rows,) array
        By how much of the size of its terms a row may be violated.
    """

    C: Array
    d: Array
    counts: tuple[int, int, int]
    units: Array

    @classmethod
    def of(cls, problem: Problem) -> Rows:
        """The constraints of a problem."""
        xp, n = namespace(problem.A), problem.shape[1]
        total = xp.asarray(0.0 if problem.sum_to is None else problem.sum_to)[..., None]
        kinds: list[tuple[Array | None, Array | None, float]] = [
            (problem.A_ub, problem.b_ub, -1.0),
            (problem.A_eq, problem.b_eq, 1.0),
            (xp.ones((1, n)) if problem.has_sum else None, total, 1.0),
        ]
        C, d, units = [], [], []
        for matrix, sides, sign in kinds:
            if matrix is None or sides is None:
                matrix, sides = xp.zeros((0, n)), xp.zeros(0)
            C.append(sign * matrix)
            d.append(sign * sides)
            units.append(allowed(problem.eps, matrix, sides))
        below, equal, last = (part.shape[-2] for part in C)
        of_rows = xp.asarray(np.repeat(units, (below, equal, last)))
        return cls(joined(C, 2), joined(d, 1), (below, equal, last), of_rows)


def allowed(eps: float, *given: Array) -> float:
    """How much of the size of its terms a row may be violated by.

    It is the rounding of the least precise of what was given: `eps` of x and of the
    bounds, and the epsilon of the arrays.
    """
    units = [float(np.finfo(part.dtype).eps) for part in given]
    return max(CERTIFIED[np.dtype(np.float64)], ROUNDED * max(eps, *units))


# ---- active rows ---------------------------------------------------------------------


class ActiveRows(NamedTuple):
    """The rows of A_ub, of A_eq and of a fixed sum, and which of them are active.

    Active are equalities, inequalities that have a multiplier, and inequalities that
    hold with equality and would have a multiplier at another solution of the dual: no
    change that keeps the others can leave them.

    Attributes
    ----------
    C : (..., rows, n) array
    used : (..., rows) array
        Mask of the active rows; without a batch if all rows are equalities.
    multipliers : (..., rows) array
        0 for a fixed sum, and without a solution.
    ends : list of int
        The number of rows of A_ub, and of A_ub and A_eq.
    """

    C: Array
    used: Array
    multipliers: Array
    ends: list[int]

    @classmethod
    def of(cls, given: dict[str, Any], x: Array, duals: Duals) -> ActiveRows | None:
        """The rows of solutions x; None without constraints.

        `given` has the fields of a `Problem`.
        """
        xp, n, has_sum = namespace(x), x.shape[-1], given["sum_to"] is not None
        given_rows = given["A_ub"], given["A_eq"]
        C = [xp.zeros((0, n)) if rows is None else rows for rows in given_rows]
        C.append(xp.ones((int(has_sum), n)))
        below, equal, total = (part.shape[-2] for part in C)
        if not has_sum and all(rows is None for rows in given_rows):
            return None
        pairs = zip((*duals, None), C, strict=True)
        y = [xp.zeros(rows.shape[-2]) if y is None else y for y, rows in pairs]
        of_all, multipliers = joined(C, 2), joined(y, 1)
        multipliers = xp.where(xp.isfinite(multipliers), multipliers, 0)
        used = xp.arange(below + equal + total) >= below
        if below:
            used = used | (multipliers > 0)
            others = xp.zeros((*x.shape[:-1], equal + total), bool)
            near = xp.concatenate([holds_with_equality(given, x), others], axis=-1)
            near = near & ~used
            if bool(near.any()):
                lower, upper = given["bounds"]
                free = (x > lower) & (x < upper)
                used = used | kept(of_all, used, near, free)
        return cls(of_all, used, multipliers, [below, below + equal])

    @property
    def whole(self) -> Array:
        """The active rows, with zeros in place of the others."""
        if not self.ends[0]:
            return self.C
        return namespace(self.C).where(self.used[..., None], self.C, 0)

    @property
    def compact(self) -> Array:
        """The active rows; zeros fill up systems that have fewer of them.

        On a GPU, this waits for the device.
        """
        xp, used = namespace(self.C), self.used
        if not self.ends[0] or not used.size:
            return self.whole
        most = int(used.sum(axis=-1).max())
        places = xp.argsort(~used, axis=-1, kind="stable")[..., :most, None]
        C = xp.broadcast_to(self.C, (*used.shape, self.C.shape[-1]))
        kept = xp.take_along_axis(used[..., None], places, axis=-2)
        return xp.where(kept, xp.take_along_axis(C, places, axis=-2), 0)


def holds_with_equality(given: dict[str, Any], x: Array) -> Array:
    """Mask of the rows of A_ub that hold with equality, up to rounding."""
    xp, C, d = namespace(x), given["A_ub"], given["b_ub"]
    x = x.astype(np.float64, copy=False)
    terms = product(xp.abs(C), xp.abs(x)) + xp.abs(d)
    found: Array = d - product(C, x) <= allowed(given["eps"], C, d) * terms
    return found & xp.isfinite(d)


def kept(C: Array, used: Array, near: Array, free: Array) -> Array:
    """The rows `near` that hold along all changes that keep the rows `used`.

    Changes v of the free variables have ``C v = 0`` in the rows `used`, and at most 0
    in the rows `near`. Along others of these rows than the kept rows some v is
    negative. It is found as the shortest ``-C^T y`` with y of at least 1, if that is
    not 0: in each step at least one row is left.
    """
    xp, shape, n = namespace(C), used.shape, C.shape[-1]
    C = xp.where(free[..., None, :], C, 0).reshape(-1, shape[-1], n)
    used, near = used.reshape(-1, shape[-1]), near.reshape(-1, shape[-1])
    length = xp.sqrt((C * C).sum(axis=-1, keepdims=True))
    C = C / xp.where(length > 0, length, 1)
    along = row_basis(xp.where(used[..., None], C, 0))
    apart = C - xp.matmul(xp.matmul(C, transposed(along)), along)
    apart = xp.where(xp.sqrt((apart**2).sum(axis=-1, keepdims=True)) > SAME, apart, 0)
    for _ in range(shape[-1]):
        given = Problem(
            A=transposed(apart),
            b=xp.zeros((len(near), n)),
            batch=(len(near),),
            bounds=(near * 1.0, xp.where(near, math.inf, 0)),
        )
        y = solve_within_bounds(given, device_of(C), "qr").x
        v = -product(given.A, y)
        size = xp.sqrt((v * v).sum(axis=-1, keepdims=True))
        left = near & (product(apart, v) < -SAME / 2 * size)
        left = left & (size > SAME * y.sum(axis=-1, keepdims=True))
        if not bool(left.any()):
            break
        near = near & ~left
    return near.reshape(shape)


def row_basis(matrices: Array) -> Array:
    """Orthonormal bases of the ranges of rows; zeros fill up matrices of less rank.

    Singular values count as 0 up to rounding errors of the largest. A matrix with NaN
    or infinity, which came from an overflow, counts as zero: LAPACK would fail for all
    matrices, or never end.
    """
    xp, size = namespace(matrices), max(matrices.shape[-2:])
    whole = xp.isfinite(matrices).all(axis=(-2, -1), keepdims=True)
    matrices = xp.where(whole, matrices, 0)
    _, values, right = xp.linalg.svd(matrices, full_matrices=False)
    used = values > DEPENDENT * size * EPS * largest(values, keepdims=True)
    return right * used[..., None]


def scaled_rows(rows: Array, size: Array) -> tuple[Array, Array]:
    """The rows for variables of a given size, with largest elements of 1.

    The factors by which rows were divided follow.
    """
    rows = rows / size[..., None, :]
    most = largest(namespace(rows).abs(rows))
    most = namespace(rows).where(most > 0, most, 1)
    return rows / most[..., None], most


def without_rows(R: Array, C: Array, free: Array) -> tuple[Array, Array]:
    """The columns of R for changes of the free variables that keep ``C x``.

    Householder's reflections map the rows of C to variables. The columns of these
    variables become zeros.

    Parameters
    ----------
    R : (systems, rows, n) array
        With zeros in the columns of variables that are not free.
    C : (..., k, n) array
    free : (systems, n) array

    Returns
    -------
    columns : (systems, rows, n) array
    rank : (systems,) array
        Of the free columns of C.
    """
    xp, (systems, n) = namespace(R), free.shape
    C = xp.where(free[:, None, :], C, 0)
    before = xp.sqrt((C * C).sum(axis=-1))
    rank, every = xp.zeros(systems, int), xp.arange(systems)
    for i in range(C.shape[-2] if n else 0):
        row = C[:, i]
        length = xp.sqrt((row * row).sum(axis=-1))
        used = length > DEPENDENT * n * np.finfo(np.float64).eps * before[:, i]
        u = xp.where(used[:, None], row / xp.where(used, length, 1)[:, None], 0)
        pivot = xp.abs(u).argmax(axis=-1)
        u[every, pivot] += xp.where(used, xp.copysign(1, u[every, pivot]), 0)
        one = (xp.arange(n) == pivot[:, None]) & used[:, None]
        square = xp.where(used, (u * u).sum(axis=-1), 1)[:, None, None]
        R, C = (
            xp.where(
                one[:, None],
                0,
                X - 2 * xp.matmul(X, u[..., None]) / square * u[:, None],
            )
            for X in (R, C)
        )
        rank = rank + used
    return R, rank
