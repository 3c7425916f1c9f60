"""Learners whose matrices are computed at once: of equal transforms and penalties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._device.arrays import Array, namespace
from .._terms.basis import Vector
from .._terms.rows import Rows
from .._terms.term import Term
from .smoothing import (
    Batch,
    congruent,
    diagonal_smoothing_parameters,
    inverses,
    least_df,
    ranks,
    smoothing_parameters,
)


def group_terms(terms: Sequence[Term]) -> list[list[int]]:
    """The terms in groups of the same transform, penalty and degrees of freedom."""
    kinds = {key: kind_of(term) for key, term in {id(t): t for t in terms}.items()}
    groups: dict[Any, list[int]] = {}
    for j, term in enumerate(terms):
        groups.setdefault(kinds[id(term)], []).append(j)
    return list(groups.values())


def kind_of(term: Term) -> tuple[Any, ...]:
    """The properties that the terms of a group have in common."""
    diagonal = term.diagonal()
    if diagonal is not None:
        return diagonal.tobytes(), term.df, term.lambda_
    T, C = term.transform(), term.constraint()
    return (
        term.penalty().tobytes(),
        term.units().tobytes(),
        None if T is None else (T.shape, T.tobytes()),
        None if C is None else (C.shape, C.tobytes()),
        term.df,
        term.lambda_,
        term.null_dimension,
    )


def group_of(
    terms: Sequence[Term], members: list[int], gram: Sequence[Batch]
) -> LearnerGroup | DiagonalGroup:
    """A group of learners, from the terms and the matrices of all."""
    term = terms[members[0]]
    own, diagonal = np.stack([gram[j] for j in members]), term.diagonal()
    if diagonal is None:
        return LearnerGroup(term, own)
    return DiagonalGroup(term, diagonal, own)


class LearnerGroup:
    """Learners whose terms are alike; m learners in F fits.

    Parameters
    ----------
    term : Term
        A term of the group.
    gram : (m, F, k, k) array
        ``X'WX`` of the functions.
    """

    def __init__(self, term: Term, gram: Batch) -> None:
        self.term = term
        self.penalty, self.units = term.penalty(), term.units()
        self.transform = term.transform()
        self.gram = congruent(gram, self.transform)
        self.flat = self.gram.reshape(-1, *self.gram.shape[2:])

    def ranks(self) -> Batch:
        """The ranks of the learners of a single fit, (m,)."""
        return ranks(self.flat, self.units)

    def smoothing(self, df_definition: str, rank: Batch) -> Batch:
        """The smoothing parameters, (m, F), from the ranks without weights, (m,)."""
        term, null, shape = self.term, self.term.null_dimension, self.gram.shape[:2]
        each = np.repeat(rank, shape[1])
        if term.df < null and bool((each > term.df).any()):
            least = int(least_df(self.flat, self.penalty, null)[each > term.df].max())
            if term.df < least:
                raise ValueError(
                    f"df must be at least {least}, the degrees of freedom that the "
                    f"penalty of {term.label} does not affect, got {term.df}; a ridge "
                    "penalty allows fewer"
                )
        return smoothing_parameters(
            self.flat, self.penalty, null, term.df, df_definition, each
        ).reshape(shape)

    def inverses(self, lambda_: Batch) -> Batch:
        """``(X'WX + lambda K)^-1`` of the columns, (m, F, q, q), for lambda, (m, F)."""
        least, flat = self.term.null_dimension, lambda_.reshape(-1)
        found = inverses(self.flat, self.penalty, least, flat, self.units)
        return found.reshape(self.gram.shape)


# ---- diagonal matrices ---------------------------------------------------------------


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

    Each row has at most one function that is not 0, the level of a factor or a bin, so
    ``X'WX`` is diagonal; so is the penalty. A vector of k numbers then takes the place
    of each k x k matrix: a factor of 1e5 levels needs a megabyte.

    Parameters
    ----------
    term : Term
        A term of the group.
    penalty : (k,) array
        Its `Term.diagonal`.
    gram : (m, F, k) array
    """

    transform = None

    def __init__(self, term: Term, penalty: Vector, gram: Batch) -> None:
        self.term, self.penalty, self.gram = term, penalty, gram

    def ranks(self) -> Batch:
        """The ranks of the learners of a single fit, (m,)."""
        return np.asarray((self.gram[:, 0] > 0).sum(axis=-1))

    def smoothing(self, df_definition: str, rank: Batch) -> Batch:
        """The smoothing parameters, (m, F), from the ranks without weights, (m,)."""
        shape = self.gram.shape[:2]
        return diagonal_smoothing_parameters(
            self.gram.reshape(-1, self.gram.shape[2]),
            self.penalty,
            self.term.df,
            df_definition,
            np.repeat(rank, shape[1]),
        ).reshape(shape)

    def inverses(self, lambda_: Batch) -> Batch:
        """The diagonals of ``(X'WX + lambda K)^-1``, (m, F, k), for lambda, (m, F).

        0 for a function without rows and penalty: it then has no effect.
        """
        total = self.gram + lambda_[..., None] * self.penalty
        exists = total > 0
        return np.asarray(exists / np.where(exists, total, 1))
