"""Pairs of features whose joint effect a model of main effects lacks.

The learner of a pair is the product of two *margins*: a spline of a number, or the
effects of the levels of a factor, each without its constant. So the learner does not
repeat the main effect of a feature, which is constant along the other feature.

The *score* of a pair is for a fitted model, with u the negative gradient of the loss
and W the weights of the rows. Let Z be the columns of the pair, minus their projection
on the main effects of both features. The score is the reduction of the weighted sum of
squares of u by a penalised fit of Z: ``2 c'Hc - c'HGHc``, with ``c = Z'Wu``,
``G = Z'WZ`` and ``H = (G + lambda K)^-1``. All pairs have the same degrees of freedom,
so a pair with many columns has no advantage. Scores of several predictors are added.

The pairs are chosen one after the other. The fit of a pair without a penalty is
subtracted from u before the next is chosen, so features that resemble each other do not
repeat a pair.

A score follows from the products of the functions of a pair with each other and with u.
These are Gram matrices, computed for many pairs at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, namespace, on_host
from ..._device.launch import pieces
from .._boosting.batch import Fits, Settings
from .._boosting.problem import Designs
from .._boosting.smoothing import (
    RANK_TOLERANCE,
    Batch,
    inverses,
    pseudo_inverses,
    ranks,
    smoothing_parameters,
)
from .._data.conventions import generator
from .._families.numerics import weighted_sum
from .._terms.frame import Frame, Level, Name
from .._terms.rows import dense_rows, kronecker, side_by_side
from .._terms.single import Single
from .._terms.spline import ROBUST
from .._terms.term import Product, Term, unique_names
from ..terms import bbs, bols

NamePair: TypeAlias = tuple[Name, Name]

KNOTS, DEGREE = 6, 3
"""The margins of a learner. The knots are quantiles; a product has the square of their
number, so there are fewer than in a main effect."""

SEARCH_KNOTS, SEARCH_DEGREE = 4, 1
"""The margins of a search: a row of a product has four values that are not 0."""

MOST_FUNCTIONS = 256
"""The most functions of a pair in a search. Factors of many levels have more."""

SEARCH_WORK = 2**27
"""The most rows that a search reads, all pairs together."""

LEAST_ROWS = 2**12
"""The rows that it reads of each pair, however many pairs there are."""

BATCH_VALUES = 2**25
"""The most values in the designs of pairs whose products are computed at once."""

ROW_VALUES = (SEARCH_DEGREE + 1) ** 2
"""The most values of a row of a pair."""

FINALISTS = 16
"""The pairs that all rounds after the first compare, for each pair to be found."""

NO_SCORE = 1e-12
"""The share of the sum of squares up to which a score may be a rounding error."""


class Margins(NamedTuple):
    """How features take part in pairs.

    Attributes
    ----------
    levels : mapping
        The levels of the features that are factors.
    boundary : str or None
        As for `bbs`.
    """

    levels: Mapping[Name, tuple[Level, ...]]
    boundary: str | None

    def learned(
        self, name: Name, frame: Frame, knots: int = KNOTS, degree: int = DEGREE
    ) -> Single:
        """The effects of a feature without a constant, with 1 degree of freedom."""
        if name in self.levels:
            levels = self.levels[name]
            term: Single = bols(
                name, intercept=False, df=1, contrasts="sum", levels=levels
            )
        else:
            term = bbs(
                name,
                knots=knots,
                degree=degree,
                differences=1,
                df=1,
                center=True,
                knots_at="quantiles",
            )
            term = replace(term, boundary=self.boundary)
        return replace(term, is_default=True).learn(frame)

    def searched(self, names: Sequence[Name], frame: Frame) -> dict[Name, Single]:
        """The margins of a search, without the factors of a single level."""
        several = [name for name in names if len(self.levels.get(name, "ab")) > 1]
        return {
            name: self.learned(name, frame, SEARCH_KNOTS, SEARCH_DEGREE)
            for name in several
        }


def margins_of(terms: Sequence[Term], outside: str) -> Margins:
    """The margins in a model with learned terms; `outside` is as for `BoostedGAM`.

    A factor in a term is a factor in pairs. The ranges are as of the default splines.
    """
    known = [term.known_levels for term in terms]
    levels = {name: found for each in known for name, found in each.items()}
    return Margins(levels, ROBUST if outside == "clamp" else None)


def learner_of(pair: NamePair, margins: Margins, frame: Frame, df: float) -> Product:
    """The learned joint effect of two features."""
    left, right = (margins.learned(name, frame) for name in pair)
    return Product(replace(left, df=df), right)


# ---- the search ----------------------------------------------------------------------


class Residuals(NamedTuple):
    """What main effects leave of the rows of a search.

    Attributes
    ----------
    frame : Frame
        The features of n rows.
    u : (F, n) array
        The negative gradients of the loss by F predictors.
    weights : (n,) array or None
        The weights of the rows; None for ones.
    """

    frame: Frame
    u: Array
    weights: Array | None

    def take(self, rows: NDArray[np.intp]) -> Residuals:
        """Some of the rows, by an index on the host."""
        some, w = namespace(self.u).asarray(rows), self.weights
        kept = None if w is None else w[some]
        return Residuals(self.frame.take(some), self.u[:, some], kept)

    def gram(self, designs: Designs) -> list[Batch]:
        """``X'WX`` of each design, (k, k), on the host."""
        w = self.weights
        return [own[0] for own in designs.gram(None if w is None else w[None])]

    @property
    def squares(self) -> float:
        """The weighted sum of squares."""
        return float(weighted_sum(self.u**2, self.weights).sum())


def residuals_of(fits: Fits, frame: Frame) -> Residuals:
    """The residuals of fits at the end of their steps, which have the same weights."""
    weights = fits.problem.weights
    u = negative_gradients(fits)
    return Residuals(frame, u, None if weights is None else weights[0])


def negative_gradients(fits: Fits) -> Array:
    """The negative gradients of the loss, (F, n), 0 in rows of weight 0."""
    family, f, weights = fits.family, fits.start, fits.problem.weights
    xp = namespace(f)
    if family.predictors > 1:
        return family.gradient(fits.y, f[:, None], xp.zeros((1, 1)))[:, 0]
    responses, found = xp.broadcast_to(fits.y, f.shape), []
    each = [None] * len(f) if weights is None else weights
    for y, own, w in zip(responses, f, each, strict=True):
        s = family.nuisance(y, own, w)
        u = family.weighted_gradient(family.arrange(y), own, s, w)
        found.append(u if w is None else u / xp.where(w > 0, w, 1))
    return xp.stack(found)


def find_pairs(
    count: int,
    margins: Margins,
    settings: Settings,
    residuals: Residuals,
    *,
    df: float,
    random_state: Any,
) -> list[NamePair]:
    """At most `count` pairs, each of the largest score next to the pairs before it.

    The fit of a pair is subtracted from the residuals before the next pair is chosen,
    so that features that resemble each other do not repeat a pair. Pairs that a term of
    the settings reads together are left out, and so are pairs of more than
    `MOST_FUNCTIONS` functions, and pairs without any score. If there are many rows and
    pairs, the scores are computed from random rows.
    """
    names = unique_names(name for term in settings.terms for name in term.columns)
    some = residuals.take(rows_of_search(residuals, len(names), random_state))
    found = margins.searched(names, some.frame)
    pairs = candidates(found, settings.terms)
    least, chosen = NO_SCORE * some.squares, list[NamePair]()
    while pairs and len(chosen) < count:
        scores = scores_of(pairs, found, some, settings, df)
        if scores.max() <= least:
            break
        order = np.argsort(-scores, kind="stable")[: FINALISTS * count].tolist()
        best, *pairs = (pairs[j] for j in order)
        chosen.append(best)
        some = without_pair(best, found, some, settings)
    return chosen


def rows_of_search(
    residuals: Residuals, features: int, random_state: Any
) -> NDArray[np.intp]:
    """The rows that a search reads, ascending, of the rows with weight."""
    w = residuals.weights
    kept = np.arange(residuals.frame.rows) if w is None else np.flatnonzero(on_host(w))
    pairs = max(1, features * (features - 1) // 2)
    most = max(LEAST_ROWS, SEARCH_WORK // pairs)
    if len(kept) <= most:
        return kept
    return np.sort(generator(random_state).choice(kept, most, replace=False))


def candidates(margins: Mapping[Name, Single], terms: Sequence[Term]) -> list[NamePair]:
    """The pairs of features that a search compares."""
    together = {
        pair for term in terms for pair in combinations(sorted_names(term.columns), 2)
    }
    return [
        pair
        for pair in combinations(margins, 2)
        if sorted_names(pair) not in together
        and math.prod(margins[name].functions for name in pair) <= MOST_FUNCTIONS
    ]


def sorted_names(names: tuple[Name, ...]) -> tuple[Name, ...]:
    """The names in an order of their own, also of names of both types."""
    return tuple(sorted(names, key=repr))


def scores_of(
    pairs: Sequence[NamePair],
    margins: Mapping[Name, Single],
    residuals: Residuals,
    settings: Settings,
    df: float,
) -> NDArray[np.float64]:
    """The score of each pair with `df` degrees of freedom, (pairs,) on the host."""
    rows, scores = residuals.frame.rows, np.zeros(len(pairs))
    for some in pieces(len(pairs), max(1, BATCH_VALUES // (rows * ROW_VALUES))):
        designs = designs_of_pairs(pairs[some], margins, residuals, settings)
        gram = residuals.gram(designs)
        for members in designs.groups:
            own = joint_effects(designs.terms[members[0]], [gram[j] for j in members])
            found = own.reductions(df, settings.df_definition)
            scores[np.add(some.start, members)] = found
    return scores


def without_pair(
    pair: NamePair,
    margins: Mapping[Name, Single],
    residuals: Residuals,
    settings: Settings,
) -> Residuals:
    """The residuals minus their least-squares fit by the joint effect of a pair."""
    designs = designs_of_pairs([pair], margins, residuals, settings)
    (gram,) = residuals.gram(designs)
    coef = joint_effects(designs.terms[0], [gram]).coefficients()
    # The design also has the residuals as columns, which the fit does not use.
    coef = np.pad(coef[0], ((0, len(residuals.u)), (0, 0)))
    xp = namespace(residuals.u)
    fitted = [designs.rows[0].multiply(xp.asarray(b)) for b in coef.T]
    return residuals._replace(u=residuals.u - xp.stack(fitted))


def designs_of_pairs(
    pairs: Sequence[NamePair],
    margins: Mapping[Name, Single],
    residuals: Residuals,
    settings: Settings,
) -> Designs:
    """The functions of each pair, and the residuals as further columns."""
    frame, u, _ = residuals
    names = unique_names(name for pair in pairs for name in pair)
    options: Any = {"missing": settings.missing, "dtype": frame.dtype}
    rows = {name: margins[name].rows(frame, **options) for name in names}
    target = dense_rows(namespace(u).ascontiguousarray(u.T))
    return Designs(
        tuple(Product(margins[a], margins[b]) for a, b in pairs),
        tuple(side_by_side(kronecker(rows[a], rows[b]), target) for a, b in pairs),
    )


class JointEffects(NamedTuple):
    """m pairs whose terms are alike: what the main effects do not explain.

    Attributes
    ----------
    term : Product
        The term of one of them.
    Z : (m, k, q) array
        The columns as combinations of the functions.
    G : (m, q, q) array
        Their Gram matrices.
    c : (m, q, F) array
        Their products with the residuals.
    """

    term: Product
    Z: Batch
    G: Batch
    c: Batch

    def reductions(self, df: float, df_definition: str) -> Batch:
        """The scores, (m,)."""
        G = self.G
        penalty, units = self.term.penalty(), self.term.units()
        rank = ranks(G, units)
        lambda_ = smoothing_parameters(G, penalty, 0, df, df_definition, rank)
        b = inverses(G, penalty, 0, lambda_, units) @ self.c
        return np.asarray((b * (2 * self.c - G @ b)).sum(axis=(1, 2)))

    def coefficients(self) -> Batch:
        """The coefficients of the functions in a fit without a penalty, (m, k, F)."""
        return self.Z @ pseudo_inverses(self.G, RANK_TOLERANCE) @ self.c


def joint_effects(term: Term, gram: Sequence[Batch]) -> JointEffects:
    """The joint effects of pairs.

    Parameters
    ----------
    term : Product
        The term of one of them.
    gram : sequence of m (k + F, k + F) arrays
        The Gram matrices of the functions and the residuals.
    """
    assert isinstance(term, Product)
    stacked, k = np.stack(gram), term.functions
    A, c = stacked[:, :k, :k], stacked[:, :k, k:]
    T, left, right = np.asarray(term.transform()), term.left.functions, k
    right //= left
    M = np.hstack(  # the functions that are main effects
        [
            np.kron(np.eye(left), np.ones((right, 1))),
            np.kron(np.ones((left, 1)), np.eye(right)),
        ]
    )
    MA = M.T @ A
    inverse = pseudo_inverses(MA @ M, RANK_TOLERANCE)
    Z = T - M @ (inverse @ (MA @ T))
    # What the main effects explain up to rounding is not an effect of the pair.
    before = squared_norms(A, np.broadcast_to(T, Z.shape))
    Z *= (squared_norms(A, Z) > RANK_TOLERANCE * before)[:, None]
    of_columns = Z.swapaxes(1, 2)
    return JointEffects(term, Z, of_columns @ (A @ Z), of_columns @ c)


def squared_norms(A: Batch, Z: Batch) -> Batch:
    """The diagonals of ``Z'AZ``, (m, q)."""
    return np.asarray((Z * (A @ Z)).sum(axis=1))
