"""Learners of any kind, prepared for several fits with different weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..._device.arrays import Array, namespace
from ..._device.kernels import device_of
from ..._device.threads import one_blas_thread, workers
from .._terms.frame import Frame
from .._terms.rows import Rows, compact_rows
from .._terms.spline import equal_bases
from .._terms.term import Reading
from ..basis import CompactBasis
from ..penalty import Matrix
from ..terms import Term
from . import gram_kernel
from .diagonal import DiagonalGroup, diagonal_gram
from .products import Products, products_of
from .smoothing import inverses, ranks, smoothing_parameters


class Cone(NamedTuple):
    """Coefficients b of the columns with ``C b >= 0``, of a learner in all fits.

    Attributes
    ----------
    constraint : (c, q) array on the host
        The matrix C.
    root : (F, q, q) array
        A root R of ``(X'WX + lambda K)^-1 = R R'``, in the space of the columns.
    transform : (k, q) array on the host or None
        The columns are the functions times this matrix; None for the identity.
    """

    constraint: Matrix
    root: Array
    transform: Matrix | None


@dataclass(frozen=True)
class PreparedLearners:
    """K learners, prepared for F fits.

    Learner j has the design matrix X of k_j functions. The fits have different weights
    W, and therefore different smoothing parameters.

    Attributes
    ----------
    terms : tuple of Term
        The terms of the learners.
    rows : tuple of Rows
        The design matrices.
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
    cones : tuple of Cone or None
        The constraints of the learners; None for a learner without constraint.
    stumps : frozenset of int
        The learners that are fitted by the best cut of their functions, which are bins.
        Their inverse is not read.
    basis : CompactBasis or None
        The design matrices in an array if they are equal bases on a device, or were
        given as an array; None for others.
    """

    terms: tuple[Term, ...]
    rows: tuple[Rows, ...]
    gram: tuple[Array, ...]
    inverse: tuple[Array, ...]
    lambda_: Array
    weights: Array | None
    cones: tuple[Cone | None, ...]
    basis: CompactBasis | None = None
    stumps: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.rows)

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
        if self.fits > 1 or any(self.cones) or self.stumps:
            return False
        if self.basis is not None or device_of(self.lambda_) is not None:
            return self.basis is not None
        if len({design.functions for design in self.rows}) > 1:
            return False
        return all(design.is_column or design.has_splines for design in self.rows)

    @cached_property
    def products(self) -> Products:
        """The designs for products on the host."""
        return products_of(self.rows)

    def repeated(self, times: int) -> PreparedLearners:
        """The problem with each fit repeated, the same fits one after the other."""
        xp = namespace(self.lambda_)

        def repeat(array: Array) -> Array:
            if len(array) == 1:
                return xp.broadcast_to(array, (times, *array.shape[1:]))
            return xp.repeat(array, times, axis=0)

        return replace(
            self,
            gram=tuple(map(repeat, self.gram)),
            inverse=tuple(map(repeat, self.inverse)),
            lambda_=repeat(self.lambda_),
            weights=None if self.weights is None else repeat(self.weights),
            cones=tuple(
                cone and cone._replace(root=repeat(cone.root)) for cone in self.cones
            ),
        )

    def gain(self, learner: int) -> Array:
        """The matrices Q, (F, k, k): a fit reduces the risk by ``c' Q c``, c = X'Wu.

        (F, k) for diagonal matrices.
        """
        xp = namespace(self.gram[learner])
        multiply = xp.multiply if self.is_diagonal(learner) else xp.matmul
        gram, inverse = self.gram[learner], self.inverse[learner]
        return 2 * inverse - multiply(multiply(inverse, gram), inverse)

    def is_diagonal(self, learner: int) -> bool:
        """Whether the matrices of a learner are stored as vectors."""
        return bool(self.gram[learner].ndim == 2)


def prepare(
    terms: Sequence[Term],
    frame: Frame,
    weights: Array | None = None,
    *,
    lambda_: Any = None,
    df_definition: str = "2S-SS",
    missing: str = "error",
) -> PreparedLearners:
    """Compute designs, smoothing parameters and inverses, on the device of the frame.

    Parameters
    ----------
    terms : sequence of Term
        They know their ranges and levels: see `Term.learn`.
    frame : Frame
        The covariates of n rows.
    weights : (n,) or (F, n) array, optional
        The weights of a single fit, or of several.
    lambda_ : (K,) or (F, K) array on the host, optional
        The smoothing parameters. Given these, the degrees of freedom are ignored.
    df_definition
        As for `smoothing_parameters`.
    missing : {"error", "zero"}
        Whether a missing value is an error, or a row of zeros in its learner.

    Raises
    ------
    ValueError
        If a learner cannot have so few degrees of freedom; and as `Term.rows` does.
    """
    dtype = frame.dtype
    designs: Any = None
    if device_of(frame.like):
        with frame.current():
            data = Reading(frame, "linear", "error", missing, dtype)
            designs = equal_bases(terms, data)
    if designs is None:
        designs = [term.rows(frame, missing=missing, dtype=dtype) for term in terms]
    return prepare_designs(terms, designs, weights, lambda_, df_definition)


def prepare_designs(
    terms: Sequence[Term],
    designs: CompactBasis | Sequence[Rows],
    weights: Array | None,
    lambda_: Any,
    df_definition: str,
) -> PreparedLearners:
    """`prepare` for given design matrices."""
    if weights is not None and weights.ndim == 1:
        weights = weights[None]
    fits = 1 if weights is None else len(weights)
    basis, rows = None, designs
    if isinstance(designs, CompactBasis):
        k = terms[0].functions
        basis, rows = designs, [compact_rows(designs, j, k) for j in range(len(terms))]
    gram = all_gram_matrices(terms, rows, weights, basis)
    plain = gram
    if weights is not None and (fits > 1 or not bool(weights.all())):
        # rows of weight 0 count for the rank
        plain = all_gram_matrices(terms, rows, None, basis)
    xp = namespace(gram[0])
    given = None if lambda_ is None else np.broadcast_to(lambda_, (fits, len(rows)))
    made: dict[int, tuple[Array, Array, Cone | None]] = {}
    with one_blas_thread():
        for members in group_terms(terms):
            matrices = [gram[j] for j in members], [plain[j] for j in members]
            group = group_of(terms[members[0]], *matrices)
            if given is None:
                found = group.smoothing(df_definition)
            else:
                found = xp.asarray(given[:, members])
            H = group.inverses(found)
            of_functions = congruent(H, group.transform, transposed=True)
            for index, j in enumerate(members):
                own = xp.ascontiguousarray(of_functions[:, index])
                made[j] = found[:, index], own, group.cone(H[:, index])
    lambdas, inverse, cones = zip(*(made[j] for j in range(len(rows))), strict=True)
    lambda_ = xp.stack(lambdas, axis=1)
    learners = tuple(terms), tuple(rows), gram, inverse, lambda_
    stumps = frozenset(j for j, term in enumerate(terms) if term.is_stump)
    return PreparedLearners(*learners, weights, cones, basis, stumps)


def all_gram_matrices(
    terms: Sequence[Term],
    designs: Sequence[Rows],
    weights: Array | None,
    basis: CompactBasis | None,
) -> tuple[Array, ...]:
    """``X'WX`` of each design, (F, k_j, k_j), or their diagonals, (F, k_j)."""
    full = [j for j, term in enumerate(terms) if term.diagonal() is None]
    made = gram_matrices([designs[j] for j in full], weights, basis) if full else ()
    found = dict(zip(full, made, strict=True))
    return tuple(
        found[j] if j in found else diagonal_gram(design, weights)
        for j, design in enumerate(designs)
    )


def gram_matrices(
    designs: Sequence[Rows], weights: Array | None, basis: CompactBasis | None
) -> tuple[Array, ...]:
    """``X'WX`` of each design, (F, k_j, k_j); the host uses all cores."""
    device, k = device_of(designs[0].like), designs[0].functions
    each = [None] if weights is None else weights
    if device and basis and gram_kernel.gram_fits(0, k, device):
        made = [gram_kernel.gram_matrices(basis, w, k, device) for w in each]
        return tuple(namespace(made[0]).stack(made, axis=1))
    if device:
        return tuple(design.gram(weights) for design in designs)
    products = products_of(designs)
    with workers(*products.work) as run:
        return tuple(products.squares(each, run))


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
        None if T is None else (T.shape, T.tobytes()),
        None if C is None else (C.shape, C.tobytes()),
        term.df,
        term.lambda_,
        term.null_dimension,
    )


def group_of(
    term: Term, gram: list[Array], plain: list[Array]
) -> LearnerGroup | DiagonalGroup:
    """A group of learners, by a term of the group."""
    diagonal = term.diagonal()
    if diagonal is None:
        return LearnerGroup(term, gram, plain)
    return DiagonalGroup(term, diagonal, gram, plain)


class LearnerGroup:
    """Learners whose terms are alike; m learners in F fits.

    Parameters
    ----------
    term : Term
        A term of the group.
    gram : sequence of m (F, k, k) arrays
        ``X'WX`` of the functions.
    plain : sequence of m (1, k, k) arrays
        ``X'X`` of the functions.
    """

    def __init__(self, term: Term, gram: list[Array], plain: list[Array]) -> None:
        xp = namespace(gram[0])
        self.term = term
        self.penalty, self.transform = term.penalty(), term.transform()
        self.gram = congruent(xp.stack(gram, axis=1), self.transform)
        self.plain = congruent(xp.concatenate(plain), self.transform)
        self.shape = self.gram.shape[:2]
        self.flat = self.gram.reshape(-1, *self.plain.shape[1:])

    def smoothing(self, df_definition: str) -> Array:
        """The smoothing parameters, (F, m)."""
        xp, term, least = namespace(self.gram), self.term, self.term.null_dimension
        if term.fixed_lambda is not None:
            return xp.full(self.shape, float(term.fixed_lambda))
        rank = xp.broadcast_to(ranks(self.plain, least), self.shape).reshape(-1)
        if term.df < least and bool((rank > term.df).any()):
            raise ValueError(
                f"df must be at least {least}, the degrees of freedom that the penalty "
                f"of {term.label} does not affect, got {term.df}; a ridge penalty "
                "allows fewer"
            )
        return smoothing_parameters(
            self.flat, self.penalty, least, term.df, df_definition, rank
        ).reshape(self.shape)

    def inverses(self, lambda_: Array) -> Array:
        """``(X'WX + lambda K)^-1`` of the columns, (F, m, q, q), for lambda, (F, m)."""
        least, flat = self.term.null_dimension, lambda_.reshape(-1)
        found = inverses(self.flat, self.penalty, least, flat)
        return found.reshape(self.gram.shape)

    def cone(self, inverse: Array) -> Cone | None:
        """The constraint of a learner, from its inverses, (F, q, q), or None."""
        C = self.term.constraint()
        if C is None:
            return None
        xp = namespace(inverse)
        values, vectors = xp.linalg.eigh(inverse)
        root = vectors * xp.sqrt(xp.maximum(values, 0))[:, None, :]
        return Cone(np.asarray(C, np.float64), root, self.transform)


def congruent(A: Array, T: Matrix | None, *, transposed: bool = False) -> Array:
    """``T'AT``, or ``TAT'``, of matrices A, (..., k, k); A itself without T."""
    if T is None:
        return A
    xp = namespace(A)
    right = xp.asarray(T).T if transposed else xp.asarray(T)
    return xp.matmul(xp.matmul(right.T, A), right)
