"""All constraints of a batch as rows of one matrix."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._device.arrays import Array, namespace
from .._numerics.certificate import CERTIFIED, ROUNDED
from .problem import Option, Problem, joined


class Rows(NamedTuple):
    """The constraints of a batch: ``C x >= d``, and equality in the last rows.

    The rows are those of ``-A_ub``, the lower and the upper bounds if any is finite,
    ``A_eq``, and the fixed sum. A row whose element of d is minus infinity holds for
    every x.

    Attributes
    ----------
    C : (..., rows, n) array
    d : (..., rows) array
    counts : tuple of int
        The rows of each kind, in this order.
    units : tuple of float
        By how much of the size of its terms a row of A_ub, of A_eq and of the sum may
        be violated.
    """

    C: Array
    d: Array
    counts: tuple[int, int, int, int, int]
    units: tuple[float, float, float]

    @classmethod
    def of(cls, problem: Problem) -> Rows:
        """All constraints of a problem."""
        xp, n = namespace(problem.A), problem.shape[1]
        kinds: list[tuple[Array, Array]] = []
        kinds.append(pair_or_none(xp, problem.A_ub, problem.b_ub, n, -1.0))
        for bound, sign in ((problem.lower, 1.0), (problem.upper, -1.0)):
            rows = n if may_be_finite(bound) else 0
            side = xp.broadcast_to(xp.asarray(sign * bound), (*shape_of(bound), n))
            kinds.append((sign * xp.eye(rows, n), side[..., :rows]))
        kinds.append(pair_or_none(xp, problem.A_eq, problem.b_eq, n, 1.0))
        of_sum = xp.ones((int(problem.has_sum), n))
        total = xp.asarray(0.0 if problem.sum_to is None else problem.sum_to)
        kinds.append((of_sum, total[..., None][..., : len(of_sum)]))
        counts = tuple(C.shape[-2] for C, _ in kinds)
        return cls(
            joined([C for C, _ in kinds], 2),
            joined([d for _, d in kinds], 1),
            counts,
            (
                allowed(problem.eps, problem.A_ub, problem.b_ub),
                allowed(problem.eps, problem.A_eq, problem.b_eq),
                allowed(problem.eps),
            ),
        )

    @property
    def general(self) -> tuple[Array, Array, Array]:
        """C and d without the rows of bounds, and the unit of each row."""
        xp, (below, *of_bounds, equal, total) = namespace(self.C), self.counts
        end = below + sum(of_bounds)
        C = xp.concatenate([self.C[..., :below, :], self.C[..., end:, :]], axis=-2)
        d = xp.concatenate([self.d[..., :below], self.d[..., end:]], axis=-1)
        return C, d, xp.asarray(np.repeat(self.units, (below, equal, total)))

    @property
    def equalities(self) -> int:
        """The number of rows that hold with equality: the last rows."""
        return sum(self.counts[3:])


def allowed(eps: float, *given: Array | None) -> float:
    """How much of the size of its terms a row may be violated by.

    It is the rounding of the least precise of what was given: `eps` of x and of the
    bounds, and the epsilon of the arrays.
    """
    units = [float(np.finfo(part.dtype).eps) for part in given if part is not None]
    return max(CERTIFIED[np.dtype(np.float64)], ROUNDED * max(eps, *units, 0.0))


def pair_or_none(
    xp: Any, C: Array | None, d: Array | None, n: int, sign: float
) -> tuple[Array, Array]:
    """The rows of a pair times `sign`; no rows if it was not given."""
    if C is None or d is None:
        return xp.zeros((0, n)), xp.zeros(0)
    return sign * C, sign * d


def may_be_finite(bound: Option) -> bool:
    """Whether a bound of any system may be finite; reads an array on a device."""
    if isinstance(bound, float):
        return math.isfinite(bound)
    return bool(namespace(bound).isfinite(bound).any())


def shape_of(bound: Option) -> tuple[int, ...]:
    """The batch axes of a bound."""
    return () if isinstance(bound, float) else bound.shape[:-1]
