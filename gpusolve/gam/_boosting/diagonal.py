"""Learners whose matrices are diagonal: the levels of a factor, and bins.

Each row has at most one function that is not 0, so ``X'WX`` is diagonal; so is the
penalty. A vector of k numbers then takes the place of each k x k matrix: a factor of
1e5 levels needs a megabyte.
"""

from __future__ import annotations

from ..._device.arrays import Array, namespace
from .._terms.basis import Vector
from .._terms.rows import Rows
from .._terms.term import Term
from .smoothing import diagonal_smoothing_parameters


def diagonal_gram(design: Rows, weights: Array | None) -> Array:
    """The diagonals of ``X'WX``, (F, k), for the diagonals of W, (F, n), or None."""
    xp = namespace(design.like)
    each = [None] if weights is None else weights
    gram = xp.zeros((len(each), design.functions))
    for first, offset, values in design.columns():
        squares = values.astype(xp.float64) ** 2
        for own, w in zip(gram, each, strict=True):
            terms = squares if w is None else squares * w
            own += xp.bincount(first + offset, terms, design.functions)
    return gram


class DiagonalGroup:
    """m learners in F fits whose terms are alike, as `LearnerGroup`.

    Parameters
    ----------
    term : Term
        A term of the group.
    penalty : (k,) array on the host
        Its `Term.diagonal`.
    gram : (m, F, k) array
    """

    transform = None

    def __init__(self, term: Term, penalty: Vector, gram: Array) -> None:
        self.term, self.gram = term, gram
        self.penalty = namespace(gram).asarray(penalty)

    def ranks(self) -> Array:
        """The ranks of the learners of a single fit, (m,)."""
        return (self.gram[:, 0] > 0).sum(axis=-1)

    def smoothing(self, df_definition: str, rank: Array) -> Array:
        """The smoothing parameters, (m, F), from the ranks without weights, (m,)."""
        shape = self.gram.shape[:2]
        return diagonal_smoothing_parameters(
            self.gram.reshape(-1, self.gram.shape[2]),
            self.penalty,
            self.term.df,
            df_definition,
            namespace(rank).repeat(rank, shape[1]),
        ).reshape(shape)

    def inverses(self, lambda_: Array) -> Array:
        """The diagonals of ``(X'WX + lambda K)^-1``, (m, F, k), for lambda, (m, F).

        0 for a function without rows and penalty: it then has no effect.
        """
        xp = namespace(lambda_)
        total = self.gram + lambda_[..., None] * self.penalty
        exists = total > 0
        return exists / xp.where(exists, total, 1)

    def cone(self, inverse: Array) -> None:
        """No constraint."""
