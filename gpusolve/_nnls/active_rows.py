"""The linear constraints that hold with equality at a solution."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, largest, namespace
from .constraint_rows import joined

DEPENDENT = 16.0
"""Singular values, and what is left of rows and columns without their parts along
others, count as zero up to this number times ``n eps`` of their size before."""

Duals = tuple[Any, Any]
"""The multipliers of ``A_ub x <= b_ub`` and of ``A_eq x = b_eq``, or None."""


class ActiveRows(NamedTuple):
    """The rows of A_ub, of A_eq and of a fixed sum, and which of them are active.

    Active are equalities, and inequalities that have a multiplier.

    Attributes
    ----------
    C : (..., rows, n) array
    used : (..., rows) array
        Mask of the active rows; without a batch if all rows are equalities.
    ends : list of int
        The number of rows of A_ub, and of A_ub and A_eq.
    """

    C: Array
    used: Array
    ends: list[int]

    @classmethod
    def of(cls, given: dict[str, Any], x: Array, duals: Duals) -> ActiveRows | None:
        """The rows of solutions x; None without constraints.

        `given` has the fields of a `Problem`.
        """
        xp, n = namespace(x), x.shape[-1]
        has_sum = given["sum_to"] is not None
        parts = [
            xp.zeros((0, n)) if given["A_ub"] is None else given["A_ub"],
            xp.zeros((0, n)) if given["A_eq"] is None else given["A_eq"],
            xp.ones((int(has_sum), n)),
        ]
        if given["A_ub"] is None and given["A_eq"] is None and not has_sum:
            return None
        below, equal, total = (part.shape[-2] for part in parts)
        used = xp.ones(below + equal + total, bool)
        if below:
            tight = duals[0] > 0
            others = xp.ones((*tight.shape[:-1], equal + total), bool)
            used = xp.concatenate([tight, others], axis=-1)
        return cls(joined(parts, 2), used, [below, below + equal])

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
