"""Learners whose matrices are diagonal: the levels of a factor, and bins.

Each row has at most one function that is not 0, so ``X'WX`` is diagonal; so is the
penalty. A vector of k numbers then takes the place of each k x k matrix: a factor of
1e5 levels needs a megabyte.
"""

from __future__ import annotations

from ..._device.arrays import Array, namespace
from .._terms.rows import Rows
from .._terms.term import Term
from ..penalty import Vector
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
    gram : sequence of m (F, k) arrays
    plain : sequence of m (1, k) arrays
    """

    transform = None

    def __init__(
        self, term: Term, penalty: Vector, gram: list[Array], plain: list[Array]
    ) -> None:
        xp = namespace(gram[0])
        self.term = term
        self.penalty = xp.asarray(penalty)
        self.gram = xp.stack(gram, axis=1)
        self.plain = xp.concatenate(plain)

    def smoothing(self, df_definition: str) -> Array:
        """The smoothing parameters, (F, m)."""
        xp, term, shape = namespace(self.gram), self.term, self.gram.shape[:2]
        if term.fixed_lambda is not None:
            return xp.full(shape, float(term.fixed_lambda))
        rank = xp.broadcast_to((self.plain > 0).sum(axis=-1), shape)
        return diagonal_smoothing_parameters(
            self.gram.reshape(-1, self.gram.shape[2]),
            self.penalty,
            term.df,
            df_definition,
            rank.reshape(-1),
        ).reshape(shape)

    def inverses(self, lambda_: Array) -> Array:
        """The diagonals of ``(X'WX + lambda K)^-1``, (F, m, k), for lambda, (F, m).

        0 for a function without rows and penalty: it then has no effect.
        """
        xp = namespace(lambda_)
        total = self.gram + lambda_[..., None] * self.penalty
        exists = total > 0
        return exists / xp.where(exists, total, 1)

    def cone(self, inverse: Array) -> None:
        """No constraint."""
