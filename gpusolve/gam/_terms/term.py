"""Terms: what a learner of a model reads, its columns and its penalty.

A term is a frozen dataclass of plain values. The design matrix of its n rows is
``functions @ transform``: functions have few nonzero values in a row, and `transform`
makes of them the columns that have coefficients (contrasts, centred and cyclic bases).
The terms that users combine are in `single.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..._device.arrays import Array
from .basis import Matrix, Vector, kronecker_sum
from .frame import Frame, Level, Name
from .rows import Reading, Rows, dense_rows, kronecker, side_by_side
from .rules import Cone, Rule


class Term(ABC):
    """A base learner: the columns that it reads, its design matrix and its penalty.

    `learn` returns the same term with what depends on the data: ranges, knots, levels.
    Only a learned term has rows, a transform and a penalty.

    Attributes
    ----------
    parts : tuple of Single
        The terms of which a sum or a product is made; the term itself if it is neither.
    covariates : tuple of str or int
        The columns; empty if the key of a dict shall name them.
    columns : tuple of str or int
        All columns that are read, also the columns of ``by=``.
    df : float or None
        Degrees of freedom; None for a term without a penalty.
    lambda_ : float or None
        The smoothing parameter. Given this, `df` is ignored.
    functions : int
        The number of functions of `rows`.
    null_dimension : int
        The dimension of the null space of the penalty.
    label : str
        The term as it was written, without quotes of the columns; of a default learner,
        the function and the columns.
    """

    covariates: Any
    df: Any
    lambda_: Any

    @property
    @abstractmethod
    def parts(self) -> tuple[Any, ...]: ...

    @property
    def columns(self) -> tuple[Name, ...]:
        return unique_names(name for part in self.parts for name in part.read)

    @property
    def known_levels(self) -> dict[Name, tuple[Level, ...]]:
        """The levels of the factors that a learned term reads, by their columns."""
        found: dict[Name, tuple[Level, ...]] = {}
        for part in self.parts:
            if part.covariate_levels is not None:
                found[part.covariates[0]] = part.covariate_levels
            if part.by is not None and part.by_levels is not None:
                found[part.by] = part.by_levels
        return found

    @property
    @abstractmethod
    def functions(self) -> int: ...

    @property
    @abstractmethod
    def null_dimension(self) -> int: ...

    @abstractmethod
    def with_covariates(self, names: Name | Sequence[Name]) -> Self:
        """The term with the given columns; ValueError if it has others already."""

    @abstractmethod
    def learn(self, frame: Frame) -> Self:
        """The term with the ranges, knots and levels of all rows.

        KeyError, TypeError or ValueError if a column does not exist, is not of the kind
        that the term reads, or has values that it does not accept.
        """

    @abstractmethod
    def transform(self) -> Matrix | None:
        """T, (functions, columns): the design is ``functions @ T``; None for I."""

    @abstractmethod
    def penalty(self) -> Matrix:
        """K of the penalty ``lambda b'Kb`` on the coefficients b of the columns."""

    @abstractmethod
    def units(self) -> Matrix:
        """1 for columns of the same unit, 0 for others, (columns, columns).

        Columns of the same unit have one scale, so that columns of rounding errors
        remain small. The B-splines of a term have the same unit, as all columns that
        a penalty compares. Years, an intercept and the columns of another term have
        units of their own.
        """

    @abstractmethod
    def constraint(self) -> Matrix | None:
        """C of the constraints ``C b >= 0``; None if there are none."""

    @abstractmethod
    def diagonal(self) -> Vector | None:
        """The diagonal of the penalty on the functions, (functions,), or None.

        It is None unless each row has at most one function that is not 0, and the
        penalty on the functions is diagonal: then all matrices of a learner are. With
        a penalty of zero, such functions give the fits of any other basis of the same
        space, so `transform` does not matter.
        """

    @abstractmethod
    def column_coefficients(self, coef: Matrix) -> Matrix:
        """The coefficients of the columns, from coefficients of functions, (..., k).

        The inverse of ``T b``; T has full column rank.
        """

    @abstractmethod
    def _rows(self, data: Reading) -> Rows:
        """`rows` of the columns that are read."""

    @abstractmethod
    def _written(self, name: Callable[[Name], str]) -> str:
        """The call that makes the term, with the names of columns as given."""

    @cached_property
    def label(self) -> str:
        return self._written(str)

    @property
    def is_constrained(self) -> bool:
        """Whether the coefficients have a constraint."""
        return False

    @property
    def is_linear(self) -> bool:
        """Whether a fit is a linear function of what it is fitted to."""
        return not (self.is_constrained or self.stands_alone)

    @property
    def ranges(self) -> dict[Name, tuple[float, float]]:
        """The ranges of the splines of a learned term, by covariate."""
        return dict(item for part in self.parts for item in part.own_ranges.items())

    @property
    def multipliers(self) -> tuple[Name, ...]:
        """The numeric columns of ``by=`` that are not also covariates."""
        given = (part.by for part in self.parts if part.by_levels is None)
        return unique_names(
            by for by in given if by is not None and by not in self.covariates
        )

    @abstractmethod
    def exported(self) -> dict[str, Any]:
        """The design of a learned term in plain values, as ``predictor.py`` reads it.

        TypeError for a term that cannot be exported.
        """

    stands_alone: ClassVar[bool] = False
    """Whether the term must be a learner of its own: its fit is by its own rule."""

    def rule(self, inverse: Array) -> Rule | None:
        """How it is fitted, with inverses (F, q, q); None if by these inverses."""
        C = self.constraint()
        return None if C is None else Cone.of(C, inverse, self.transform())

    def __repr__(self) -> str:
        return self._written(repr)

    def __getstate__(self) -> dict[str, Any]:
        """The fields; a pickle does not keep what was computed from them."""
        names = {one.name for one in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in vars(self).items() if name in names}

    def rows(self, frame: Frame, **options: Any) -> Rows:
        """The functions of a learned term at every row, before `transform`.

        The options are fields of `Reading`. The errors are as for `learn`, and also
        name the column.
        """
        data = Reading(frame, **options)
        with frame.current():
            rows = self._rows(data)
            if data.present is None:
                return rows
            return kronecker(dense_rows(data.present[:, None]), rows)

    @property
    def fixed_lambda(self) -> float | None:
        """The smoothing parameter if it does not depend on `df`."""
        if self.lambda_ is None and self.df is None:
            return 0.0
        return self.lambda_  # type: ignore[no-any-return]

    def __add__(self, other: Term) -> Sum:
        return Sum(self, other) if isinstance(other, Term) else NotImplemented

    def __mul__(self, other: Term) -> Product:
        return Product(self, other) if isinstance(other, Term) else NotImplemented


def unique_names(names: Iterable[Name]) -> tuple[Name, ...]:
    """The names without repetitions, in their order."""
    return tuple(dict.fromkeys(names))


# ---- combinations --------------------------------------------------------------------


def joined_axes(array: Matrix) -> Matrix:
    """The array with its last two axes as a single axis."""
    return array.reshape(*array.shape[:-2], -1)


def diagonal_blocks(a: Matrix, b: Matrix) -> Matrix:
    """The block-diagonal matrix of two."""
    blocks = np.zeros((a.shape[0] + b.shape[0], a.shape[1] + b.shape[1]))
    blocks[: a.shape[0], : a.shape[1]] = a
    blocks[a.shape[0] :, a.shape[1] :] = b
    return blocks


def number_of_columns(term: Term) -> int:
    """The number of coefficients of a term."""
    return len(term.penalty()) if term.diagonal() is None else term.functions


class Operations(NamedTuple):
    """How degrees of freedom and dimensions, designs and matrices are combined."""

    numbers: Callable[[Iterable[Any]], Any]
    designs: Callable[[Rows, Rows], Rows]
    transforms: Callable[..., Any]
    penalties: Callable[[Matrix, Matrix], Matrix]


@dataclass(frozen=True, repr=False)
class Pair(Term):
    """A combination of two terms."""

    left: Term
    right: Term

    _combine: ClassVar[Operations]
    _kind: ClassVar[str]
    """The kind of the exported design."""

    def __post_init__(self) -> None:
        alone = [term.label for term in self._both if term.stands_alone]
        if alone:
            raise ValueError(
                f"{alone[0]} must be a learner of its own, got {self.label}"
            )

    @property
    def _both(self) -> tuple[Term, Term]:
        return self.left, self.right

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.left.parts + self.right.parts

    @property
    def covariates(self) -> tuple[Name, ...]:
        return unique_names(name for part in self.parts for name in part.covariates)

    def with_covariates(self, names: Name | Sequence[Name]) -> Self:
        """The combination, with these columns in its terms that have no columns."""

        def named(term: Term) -> Term:
            bare = isinstance(term, Pair) or not term.covariates
            return term.with_covariates(names) if bare else term

        return replace(self, left=named(self.left), right=named(self.right))

    @property
    def is_constrained(self) -> bool:
        return any(part.is_constrained for part in self.parts)

    def exported(self) -> dict[str, Any]:
        return {"kind": self._kind, "parts": [term.exported() for term in self._both]}

    def learn(self, frame: Frame) -> Self:
        return replace(self, left=self.left.learn(frame), right=self.right.learn(frame))

    @property
    def lambda_(self) -> float | None:
        """1 if the smoothing parameters of both terms are in the penalty."""
        given = self.left.fixed_lambda, self.right.fixed_lambda
        return None if None in given else 1.0

    @property
    def df(self) -> float | None:
        """The sum or the product of the degrees of freedom given."""
        given = [term.df for term in self._both if term.fixed_lambda is None]
        return self._combine.numbers(given) if given else None

    @property
    def functions(self) -> int:
        return int(self._combine.numbers(term.functions for term in self._both))

    @property
    def null_dimension(self) -> int:
        dimensions = (
            number_of_columns(term) if strength == 0 else term.null_dimension
            for term, strength in zip(self._both, self._strengths, strict=True)
        )
        return int(self._combine.numbers(dimensions))

    @property
    def _strengths(self) -> tuple[float, float]:
        """The factor of each penalty: the smoothing parameter if it is known, or 1."""
        given = self.left.fixed_lambda, self.right.fixed_lambda
        left, right = (1.0 if strength is None else strength for strength in given)
        return left, right

    def transform(self) -> Matrix | None:
        left, right = self.left.transform(), self.right.transform()
        if left is None and right is None:
            return None
        T = self._combine.transforms(
            np.eye(self.left.functions) if left is None else left,
            np.eye(self.right.functions) if right is None else right,
        )
        return np.asarray(T, np.float64)

    def penalty(self) -> Matrix:
        """The combination of both penalties, times known smoothing parameters."""
        left, right = (
            strength * term.penalty()
            for term, strength in zip(self._both, self._strengths, strict=True)
        )
        return self._combine.penalties(left, right)

    def units(self) -> Matrix:
        both = self._combine.transforms(self.left.units(), self.right.units())
        return np.asarray(both, np.float64)

    def constraint(self) -> Matrix | None:
        """The constraints of both terms; only a sum has constraints."""
        if not self.is_constrained:
            return None
        left, right = self.left.constraint(), self.right.constraint()
        return diagonal_blocks(
            np.zeros((0, len(self.left.penalty()))) if left is None else left,
            np.zeros((0, len(self.right.penalty()))) if right is None else right,
        )

    def _rows(self, data: Reading) -> Rows:
        return self._combine.designs(self.left._rows(data), self.right._rows(data))

    @cached_property
    def label(self) -> str:
        return self._joined([term.label for term in self._both])

    def _written(self, name: Callable[[Name], str]) -> str:
        return self._joined([term._written(name) for term in self._both])

    @abstractmethod
    def _joined(self, texts: list[str]) -> str:
        """The combination, from the texts of both terms."""


@dataclass(frozen=True, repr=False)
class Sum(Pair):
    """One learner with the columns of two: ``a + b``, mboost's ``a %+% b``.

    The penalty is block-diagonal. The degrees of freedom add. The penalty of a term
    whose smoothing parameter is known (0 for a term without a penalty) is multiplied by
    it; if both are known, nothing else is determined from the degrees of freedom.
    """

    _kind: ClassVar = "sum"
    _combine: ClassVar = Operations(sum, side_by_side, diagonal_blocks, diagonal_blocks)

    def diagonal(self) -> Vector | None:
        return None

    def column_coefficients(self, coef: Matrix) -> Matrix:
        parts = np.split(coef, [self.left.functions], axis=-1)
        columns = [
            term.column_coefficients(part)
            for term, part in zip(self._both, parts, strict=True)
        ]
        return np.concatenate(columns, axis=-1)

    def _joined(self, texts: list[str]) -> str:
        return " + ".join(texts)


@dataclass(frozen=True, repr=False)
class Product(Pair):
    """The row-wise Kronecker product: ``a * b``, mboost's ``a %X% b``.

    The functions of `a` are the slow index. The penalty is ``la Ka (x) I + I (x) lb
    Kb``, where la and lb are the smoothing parameters that are known (0 for a term
    without a penalty), or 1. Unless both are known, a common factor of the penalty
    gives the product of the degrees of freedom.

    For a response on a grid, mboost's ``a %O% b`` is ``b * a`` on all pairs of values.
    """

    _kind: ClassVar = "product"
    _combine: ClassVar = Operations(math.prod, kronecker, np.kron, kronecker_sum)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_constrained:
            raise ValueError(
                f"a product must have no term with a constraint, got {self.label}"
            )

    def diagonal(self) -> Vector | None:
        left, right = self.left.diagonal(), self.right.diagonal()
        if left is None or right is None:
            return None
        a, b = self._strengths
        penalty = np.add.outer(a * left, b * right).ravel()
        is_on_functions = left.all() and right.all()
        return penalty if is_on_functions or not penalty.any() else None

    def column_coefficients(self, coef: Matrix) -> Matrix:
        shape = *coef.shape[:-1], self.left.functions, self.right.functions
        fast = self.right.column_coefficients(coef.reshape(shape))
        both = self.left.column_coefficients(fast.swapaxes(-1, -2)).swapaxes(-1, -2)
        return joined_axes(both)

    def _joined(self, texts: list[str]) -> str:
        return " * ".join(
            f"({text})" if isinstance(term, Sum) else text
            for term, text in zip(self._both, texts, strict=True)
        )
