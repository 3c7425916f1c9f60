"""Learners of any kind, prepared for several fits with different weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np

from ..._device.arrays import Array, namespace, on_host
from ..._device.kernels import device_of
from ..._device.launch import pieces
from ..._device.threads import one_blas_thread, workers
from .._terms.basis import CompactBasis, Vector
from .._terms.frame import Frame
from .._terms.rows import Reading, Rows, compact_rows
from .._terms.rules import BY_DIAGONAL, BY_MATRIX, Rule
from .._terms.spline import equal_bases
from .._terms.term import Term
from . import gram_kernel
from .products import Products, products_of
from .smoothing import (
    CORE_WORK,
    Batch,
    congruent,
    diagonal_smoothing_parameters,
    inverses,
    least_df,
    ranks,
    smoothing_parameters,
)

MATRIX_BYTES = 2**27
"""Memory limit for the Gram matrices of a batch of fits. Their inverses, and what they
are computed from, need about four times as much."""


@dataclass(frozen=True, eq=False)
class Designs:
    """K learners before their weights: what all fits have in common.

    Learner j has the design matrix X of k_j functions.

    Attributes
    ----------
    terms : tuple of Term
        The terms of the learners.
    rows : tuple of Rows
        The design matrices.
    basis : CompactBasis or None
        The design matrices in an array if they are equal bases on a device, or were
        given as an array; None for others.
    """

    terms: tuple[Term, ...]
    rows: tuple[Rows, ...]
    basis: CompactBasis | None = None

    @cached_property
    def products(self) -> Products:
        """The designs for products on the host."""
        return products_of(self.rows)

    @property
    def columns(self) -> Array | None:
        """The designs as a matrix on the host, (K, n), if each is a column."""
        is_on_host = device_of(self.rows[0].like) is None
        return self.products.columns if is_on_host else None

    @cached_property
    def groups(self) -> list[list[int]]:
        """The learners whose matrices are computed at once."""
        return group_terms(self.terms)

    @cached_property
    def plain(self) -> tuple[Batch, ...]:
        """`gram` without weights."""
        return self._gram(None)

    @cached_property
    def ranks(self) -> list[Batch]:
        """The ranks of the learners of each group, (m,); rows of weight 0 count."""
        return [group_of(self.terms, m, self.plain).ranks() for m in self.groups]

    def gram(self, weights: Array | None) -> tuple[Batch, ...]:
        """``X'WX`` of each design, (F, k_j, k_j), or their diagonals, (F, k_j).

        On the host: a device computes and copies them.
        """
        return self.plain if weights is None else self._gram(weights)

    def add(self, learner: int, coef: Array, f: Array) -> None:
        """Add the product of a design and coefficients to f, (n,)."""
        if device_of(f) is None:
            self.products.add(learner, coef, f)
        else:
            f += self.rows[learner].multiply(coef)

    def batches(self, fits: int) -> Iterator[slice]:
        """The fits in batches whose matrices fit in `MATRIX_BYTES`, or single fits."""
        size = sum(
            design.functions ** (2 if term.diagonal() is None else 1)
            for term, design in zip(self.terms, self.rows, strict=True)
        )
        return pieces(fits, max(1, MATRIX_BYTES // (gram_kernel.DOUBLE * size)))

    def _gram(self, weights: Array | None) -> tuple[Batch, ...]:
        is_full = [term.diagonal() is None for term in self.terms]
        if self.columns is not None and not any(is_full):
            return tuple(self.products.column_squares(weights))
        full = self if all(is_full) else self._some(is_full)
        made = iter(full._full_gram(weights) if full.rows else ())
        return tuple(
            on_host(next(made) if own else diagonal_gram(design, weights))
            for own, design in zip(is_full, self.rows, strict=True)
        )

    def _full_gram(self, weights: Array | None) -> tuple[Array, ...]:
        """The matrices of designs that are not diagonal; the host uses all cores."""
        device = device_of(self.rows[0].like)
        if device is None:
            with workers(*self.products.work) as run:
                each = [None] if weights is None else weights
                return tuple(self.products.squares(each, run))
        k, grams_of = self.rows[0].functions, gram_kernel.grams_of
        made = grams_of(self.basis, weights, k, device)
        if made is not None:
            return tuple(on_host(made))
        alone = [grams_of(X.basis, weights, X.functions, device) for X in self.rows]
        return tuple(
            design.gram(weights) if own is None else own[0]
            for design, own in zip(self.rows, alone, strict=True)
        )

    def _some(self, chosen: list[bool]) -> Designs:
        """Some of the learners."""
        terms, rows = compress(self.terms, chosen), compress(self.rows, chosen)
        return Designs(tuple(terms), tuple(rows), self.basis)


@dataclass(frozen=True)
class PreparedLearners:
    """K learners, prepared for F fits.

    The fits have different weights W, and therefore different smoothing parameters.
    All arrays but the weights are on the host.

    Attributes
    ----------
    designs : Designs
        The terms and the design matrices.
    gram : tuple of (F, k_j, k_j) array
        ``X'WX``; (F, k_j) for diagonal matrices, see `Term.diagonal`.
    inverse : tuple of (F, k_j, k_j) array
        The coefficients of a fit to u are ``inverse X'Wu``. With the columns ``X T`` of
        a learner and its penalty K, this is ``T (T'X'WXT + lambda K)^-1 T'``. (F, k_j)
        for diagonal matrices.
    lambda_ : (F, K) array
        The smoothing parameters.
    weights : (F, n) array or None
        The diagonals of W; None for ones.
    rules : tuple of Rule or None
        How learners are fitted whose inverses are not read; None for all others.
    """

    designs: Designs
    gram: tuple[Batch, ...]
    inverse: tuple[Batch, ...]
    lambda_: Batch
    weights: Array | None
    rules: tuple[Rule | None, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms of the learners."""
        return self.designs.terms

    @property
    def rows(self) -> tuple[Rows, ...]:
        """The design matrices."""
        return self.designs.rows

    @property
    def basis(self) -> CompactBasis | None:
        """The design matrices in an array; see `Designs`."""
        return self.designs.basis

    @property
    def fits(self) -> int:
        """The number F of fits."""
        return len(self.lambda_)

    @property
    def functions(self) -> int:
        """The largest number of functions of a learner."""
        return max(design.functions for design in self.rows)

    @property
    def is_uniform(self) -> bool:
        """Whether it is a single fit of equal bases, or columns, without constraints.

        Their products can be updated from step to step without a large loss of digits.
        """
        if self.fits > 1 or any(self.rules):
            return False
        if self.basis is not None or device_of(self.rows[0].like) is not None:
            return self.basis is not None
        if len({design.functions for design in self.rows}) > 1:
            return False
        return all(design.is_column or design.has_splines for design in self.rows)

    def repeated(self, times: int) -> PreparedLearners:
        """The problem with each fit repeated, the same fits one after the other."""

        def repeat(array: Array) -> Array:
            xp = namespace(array)
            if len(array) == 1:
                return xp.broadcast_to(array, (times, *array.shape[1:]))
            return xp.repeat(array, times, axis=0)

        return replace(
            self,
            gram=tuple(map(repeat, self.gram)),
            inverse=tuple(map(repeat, self.inverse)),
            lambda_=repeat(self.lambda_),
            weights=None if self.weights is None else repeat(self.weights),
            rules=tuple(rule and rule.repeated(repeat) for rule in self.rules),
        )

    def gain(self, members: Sequence[int]) -> Batch:
        """The matrices Q of some learners with k functions each, (F, m, k, k).

        A fit reduces the risk by ``c' Q c``, c = X'Wu. (F, m, k) for diagonal matrices.
        Parts are computed on all cores.
        """
        shape = self.gram[members[0]].shape
        multiply = np.multiply if self.is_diagonal(members[0]) else np.matmul
        Q = np.empty((shape[0], len(members), *shape[1:]))

        def write(some: slice) -> None:
            gram, inverse = (
                np.stack([own[j] for j in members[some]], axis=1)
                for own in (self.gram, self.inverse)
            )
            Q[:, some] = 2 * inverse - multiply(multiply(inverse, gram), inverse)

        with workers(len(members), CORE_WORK * math.prod(shape)) as run:
            run(write)
        return Q

    def is_diagonal(self, learner: int) -> bool:
        """Whether the matrices of a learner are stored as vectors."""
        return bool(self.gram[learner].ndim == 2)

    def kind(self, learner: int) -> int:
        """How a learner is fitted by the kernel: a ``Kind``."""
        rule = self.rules[learner]
        if rule is not None:
            return rule.kind
        return BY_DIAGONAL if self.is_diagonal(learner) else BY_MATRIX


def designs_of(terms: Sequence[Term], frame: Frame, missing: str = "error") -> Designs:
    """The designs of learners on the device of the frame.

    Parameters
    ----------
    terms : sequence of Term
        They know their ranges and levels: see `Term.learn`.
    frame : Frame
        The covariates of n rows.
    missing : {"error", "zero"}
        Whether a missing value is an error, or a row of zeros in its learner.

    Raises
    ------
    ValueError
        As `Term.rows` does.
    """
    dtype = frame.dtype
    if device_of(frame.like):
        with frame.current():
            data = Reading(frame, "linear", "error", missing, dtype)
            basis = equal_bases(terms, data)
        if basis is not None:
            return designs_of_basis(terms, basis)
    rows = (term.rows(frame, missing=missing, dtype=dtype) for term in terms)
    return Designs(tuple(terms), tuple(rows))


def designs_of_basis(terms: Sequence[Term], basis: CompactBasis) -> Designs:
    """The designs of learners with equal bases, which are given as an array."""
    k = terms[0].functions
    rows = (compact_rows(basis, j, k) for j in range(len(terms)))
    return Designs(tuple(terms), tuple(rows), basis)


def prepare(
    designs: Designs,
    weights: Array | None = None,
    *,
    lambda_: Any = None,
    df_definition: str = "2S-SS",
) -> PreparedLearners:
    """Compute smoothing parameters and inverses, on the host.

    A device computes the Gram matrices, which the host reads.

    Parameters
    ----------
    designs : Designs
    weights : (n,) or (F, n) array, optional
        The weights of a single fit, or of several.
    lambda_ : (K,) or (F, K) array, optional
        The smoothing parameters. Given these, the degrees of freedom are ignored.
    df_definition
        As for `smoothing_parameters`.

    Raises
    ------
    ValueError
        If a learner cannot have so few degrees of freedom.
    """
    if weights is not None and weights.ndim == 1:
        weights = weights[None]
    terms, count = designs.terms, len(designs.rows)
    gram = designs.gram(weights)
    lambdas = np.zeros((len(gram[0]), count))
    if lambda_ is not None:
        lambdas += lambda_
    made: dict[int, tuple[Batch, Rule | None]] = {}
    with one_blas_thread():
        for index, members in enumerate(designs.groups):
            group = group_of(terms, members, gram)
            if lambda_ is None and group.term.fixed_lambda is not None:
                lambdas[:, members] = float(group.term.fixed_lambda)
            elif lambda_ is None:
                lambdas[:, members] = group.smoothing(
                    df_definition, designs.ranks[index]
                ).T
            H = group.inverses(lambdas[:, members].T)
            of_functions = congruent(H, group.transform, transposed=True)
            for j, own, inverse in zip(members, of_functions, H, strict=True):
                made[j] = own, terms[j].rule(inverse)
    inverse, rules = zip(*(made[j] for j in range(count)), strict=True)
    return PreparedLearners(designs, gram, inverse, lambdas, weights, rules)


# ---- learners whose matrices are computed at once ------------------------------------


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
