"""Terms: what a learner of a model reads, its columns and its penalty.

A term is a frozen dataclass of plain values. The design matrix of its n rows is
``functions @ transform``: functions have few nonzero values in a row, and `transform`
makes of them the columns that have coefficients (contrasts, centred and cyclic bases).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from ..._device.arrays import Array, namespace
from ..basis import OUTSIDE
from ..penalty import Matrix, kronecker_sum
from .frame import MISSING, UNKNOWN, Frame, Level, Name, listed
from .rows import Rows, kronecker, side_by_side

MISSING_VALUES = ("error", "zero")
UNKNOWN_LEVELS = ("error", "zero")


def learned(default: Any = None) -> Any:
    """A field that `Term.learn` fills from the data."""
    return field(default=default, metadata={"learned": True})


# ---- reading -------------------------------------------------------------------------


class Reading:
    """The columns of a frame as learned terms read them.

    Rows with a missing value are remembered; they get a row of zeros in the end.

    Parameters
    ----------
    frame : Frame
    outside, unknown, missing, dtype
        As for `Term.rows`.
    """

    def __init__(
        self, frame: Frame, outside: str, unknown: str, missing: str, dtype: Any
    ) -> None:
        self.frame = frame
        self.outside = outside
        self.unknown = unknown
        self.missing = missing
        self.dtype = dtype
        self._present: Array | None = None

    def numeric(self, name: Name, fill: float = 0.0) -> Array:
        """A numeric column, (n,), with `fill` for missing values."""
        x = self.frame.numeric(name)
        xp = namespace(x)
        is_missing = xp.isnan(x)
        if self._note(name, is_missing):
            x = xp.where(is_missing, xp.asarray(fill, x.dtype), x)
        return x

    def codes(self, name: Name, levels: tuple[Level, ...]) -> Array:
        """The codes of a factor among the levels, (n,); negative for a row of zeros."""
        factor = self.frame.factor(name)
        codes = factor.codes_in(levels)
        self._note(name, codes == MISSING)
        if self.unknown == "error" and bool((codes == UNKNOWN).any()):
            others = tuple(one for one in factor.levels if one not in levels)
            raise ValueError(
                f"{name} must have the levels {listed(levels)}, got {listed(others)}; "
                "unknown='zero' gives other levels no effect"
            )
        return codes

    @property
    def has_missing(self) -> bool:
        """Whether a row had a missing value."""
        return self._present is not None

    def without_missing(self, rows: Rows) -> Rows:
        """The design with zeros in the rows that have a missing value."""
        return rows if self._present is None else rows.scaled(self._present)

    def _note(self, name: Name, is_missing: Array) -> bool:
        """Remember the rows with missing values, and return whether there are some."""
        if not bool(is_missing.any()):
            return False
        if self.missing == "error":
            raise ValueError(
                f"{name} must not have missing values, got {int(is_missing.sum())}; "
                "missing='zero' leaves these rows out of the learner"
            )
        present = (~is_missing).astype(np.float64)
        self._present = present if self._present is None else present * self._present
        return True


# ---- the base class ------------------------------------------------------------------


class Term(ABC):
    """One base learner: the columns it reads, its design matrix and its penalty.

    `learn` returns the same term with what depends on the data: ranges, knots, levels.
    Only a learned term has rows, a transform and a penalty.

    Attributes
    ----------
    covariates : tuple of str or int
        The columns; empty if the key of a dict shall name them.
    columns : tuple of str or int
        All columns that are read, also those of ``by=``.
    df : float or None
        Degrees of freedom; None for a term without a penalty.
    lambda_ : float or None
        The smoothing parameter. Given this, `df` is ignored.
    functions : int
        The number of functions of `rows`.
    null_dimension : int
        The dimension of the null space of the penalty.
    label : str
        The term as it was written, without quotes of the columns.
    """

    covariates: Any
    df: Any
    lambda_: Any

    @property
    @abstractmethod
    def columns(self) -> tuple[Name, ...]: ...

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

        Raises
        ------
        KeyError, TypeError, ValueError
            If a column does not exist, is not of the kind that the term reads, or has
            values that it does not accept. The message names the column.
        """

    @abstractmethod
    def transform(self) -> Matrix | None:
        """T, (functions, columns): the design is ``functions @ T``; None for I."""

    @abstractmethod
    def penalty(self) -> Matrix:
        """K of the penalty ``lambda b'Kb`` on the coefficients b of the columns."""

    @abstractmethod
    def constraint(self) -> Matrix | None:
        """C of the constraints ``C b >= 0``; None if there are none."""

    @abstractmethod
    def _rows(self, data: Reading) -> Rows:
        """`rows` of the columns that are read."""

    @abstractmethod
    def _written(self, name: Callable[[Name], str]) -> str:
        """The call that makes the term, with the names of columns as given."""

    @property
    def label(self) -> str:
        return self._written(str)

    @property
    def is_constrained(self) -> bool:
        """Whether the coefficients have a constraint."""
        return False

    def __repr__(self) -> str:
        return self._written(repr)

    def rows(
        self,
        frame: Frame,
        *,
        outside: str = "linear",
        unknown: str = "error",
        missing: str = "error",
        dtype: Any = np.float64,
    ) -> Rows:
        """The functions of a learned term at every row, before `transform`.

        Parameters
        ----------
        frame : Frame
        outside : {"linear", "clamp", "error"}, optional
            Outside the range of a spline, follow the tangent at its end, keep the value
            at its end, or raise. Values outside a cyclic range are always an error.
        unknown : {"error", "zero"}, optional
            Whether a level that was not learned is an error, or has no effect.
        missing : {"error", "zero"}, optional
            Whether a missing value is an error, or the term has no effect in this row.
        dtype : dtype, optional
            float32 or float64, for the values.

        Raises
        ------
        KeyError, TypeError, ValueError
            If a column does not exist or has such values. The message names the column.
        """
        for key, value, allowed in (
            ("outside", outside, OUTSIDE),
            ("unknown", unknown, UNKNOWN_LEVELS),
            ("missing", missing, MISSING_VALUES),
        ):
            if value not in allowed:
                raise ValueError(f"{key} must be one of {allowed}, got {value!r}")
        data = Reading(frame, outside, unknown, missing, dtype)
        with frame.current():
            return data.without_missing(self._rows(data))

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


def fields_of(term: Term) -> tuple[Field[Any], ...]:
    """The fields of a term."""
    assert is_dataclass(term)
    return fields(term)


def format_value(value: Any) -> str:
    """A value as a user writes it: integers without a point, single items alone."""
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    if isinstance(value, tuple):
        if len(value) == 1:
            return format_value(value[0])
        return f"({', '.join(format_value(one) for one in value)})"
    return getattr(value, "__name__", repr(value))


# ---- one learner ---------------------------------------------------------------------


@dataclass(frozen=True, repr=False, kw_only=True)
class Single(Term):
    """A term that is no combination of others.

    With ``by=`` a numeric column, each row is multiplied by its value. With a factor,
    there is one block of functions for each level but the first.
    """

    function: str
    covariates: tuple[Name, ...] = ()
    by: Name | None = None
    df: float | None = None
    lambda_: float | None = None
    by_levels: tuple[Level, ...] | None = learned()

    _defaults: ClassVar[dict[str, dict[str, Any]]] = {}
    """Defaults of the functions that differ from those of the fields."""

    def __post_init__(self) -> None:
        if self.df is not None and not self.df > 0:
            raise ValueError(f"df must be positive, got {self.df}")
        if self.lambda_ is not None and not 0 <= self.lambda_ < np.inf:
            raise ValueError(
                f"lambda_ must be finite and at least 0, got {self.lambda_}"
            )

    @property
    def columns(self) -> tuple[Name, ...]:
        by = () if self.by is None else (self.by,)
        return tuple(dict.fromkeys(self.covariates + by))

    def with_covariates(self, names: Name | Sequence[Name]) -> Self:
        given = (names,) if isinstance(names, str | int) else tuple(names)
        if self.covariates and self.covariates != given:
            raise ValueError(
                f"the key of {self.label} must be {format_value(self.covariates)}, got "
                f"{format_value(given)}"
            )
        return replace(self, covariates=given)

    def learn(self, frame: Frame) -> Self:
        if not self.covariates:
            raise ValueError(f"{self.label} must be given a column")
        with frame.current():
            found = self._learn(frame)
            if self.by is not None:
                found |= {"by_levels": levels_of_by(self.by, frame)}
        return replace(self, **found)

    @property
    def _blocks(self) -> int:
        return 1 if self.by_levels is None else len(self.by_levels) - 1

    @property
    def functions(self) -> int:
        return self._blocks * self._functions

    @property
    def null_dimension(self) -> int:
        return self._blocks * self._null_dimension

    def transform(self) -> Matrix | None:
        T = self._transform()
        return None if T is None else self._in_blocks(T)

    def penalty(self) -> Matrix:
        return self._in_blocks(self._penalty())

    def constraint(self) -> Matrix | None:
        C = self._constraint()
        return None if C is None else self._in_blocks(C)

    def _in_blocks(self, matrix: Matrix) -> Matrix:
        return np.kron(np.eye(self._blocks), matrix).astype(np.float64)

    def _rows(self, data: Reading) -> Rows:
        rows = self._plain_rows(data)
        if self.by is None:
            return rows
        if self.by_levels is None:
            return rows.scaled(data.numeric(self.by))
        codes = data.codes(self.by, self.by_levels)
        return rows.in_blocks(namespace(codes).maximum(codes, 0) - 1, self._blocks)

    def _written(self, name: Callable[[Name], str]) -> str:
        given = [name(one) for one in self.covariates] + [
            f"{key}={name(value) if key == 'by' else format_value(value)}"
            for key, value in self._changed()
        ]
        return f"{self.function}({', '.join(given)})"

    def _changed(self) -> Iterator[tuple[str, Any]]:
        """The arguments that differ from the defaults."""
        defaults = self._defaults.get(self.function, {})
        for one in fields_of(self):
            value = getattr(self, one.name)
            hidden = one.name in ("function", "covariates") or one.metadata.get(
                "learned"
            )
            if not hidden and value != defaults.get(one.name, one.default):
                yield one.metadata.get("argument", one.name), value

    # Of the term without `by`:

    @abstractmethod
    def _learn(self, frame: Frame) -> dict[str, Any]:
        """The fields that depend on the data."""

    @property
    @abstractmethod
    def _functions(self) -> int: ...

    @property
    @abstractmethod
    def _null_dimension(self) -> int: ...

    @abstractmethod
    def _plain_rows(self, data: Reading) -> Rows: ...

    def _transform(self) -> Matrix | None:
        return None

    @abstractmethod
    def _penalty(self) -> Matrix: ...

    def _constraint(self) -> Matrix | None:
        return None


def levels_of_by(name: Name, frame: Frame) -> tuple[Level, ...] | None:
    """The levels of a column given as ``by=``; None if it is numeric."""
    if not frame.is_factor(name):
        frame.numeric(name)
        return None
    levels = frame.factor(name).levels
    if len(levels) < 2:
        raise ValueError(f"{name} must have at least 2 levels, got {listed(levels)}")
    return levels


# ---- combinations --------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Pair(Term):
    """A combination of two terms."""

    left: Term
    right: Term

    @property
    def covariates(self) -> tuple[Name, ...]:
        both = self.left.covariates + self.right.covariates
        return tuple(dict.fromkeys(both))

    @property
    def columns(self) -> tuple[Name, ...]:
        return tuple(dict.fromkeys(self.left.columns + self.right.columns))

    def with_covariates(self, names: Name | Sequence[Name]) -> Self:
        """The combination whose terms without columns have the given ones."""

        def named(term: Term) -> Term:
            bare = isinstance(term, Pair) or not term.covariates
            return term.with_covariates(names) if bare else term

        return replace(self, left=named(self.left), right=named(self.right))

    @property
    def is_constrained(self) -> bool:
        return self.left.is_constrained or self.right.is_constrained

    def learn(self, frame: Frame) -> Self:
        return replace(self, left=self.left.learn(frame), right=self.right.learn(frame))

    @property
    def lambda_(self) -> float | None:
        """1 if the smoothing parameters of both terms are in the penalty."""
        given = self.left.fixed_lambda, self.right.fixed_lambda
        return None if None in given else 1.0

    def _dfs(self) -> list[float]:
        """The degrees of freedom of the terms without a smoothing parameter."""
        both = self.left, self.right
        return [one.df for one in both if one.fixed_lambda is None]

    def _penalties(self) -> tuple[Matrix, Matrix]:
        """The penalties of both terms, times their smoothing parameters if given."""
        left, right = self.left.penalty(), self.right.penalty()
        if self.lambda_ is None:
            return left, right
        return (self.left.fixed_lambda or 0) * left, (
            self.right.fixed_lambda or 0
        ) * right

    def _null_dimensions(self) -> tuple[int, int]:
        """The dimensions of the null spaces of `_penalties`."""
        left, right = (
            len(term.penalty())
            if self.lambda_ is not None and term.fixed_lambda == 0
            else term.null_dimension
            for term in (self.left, self.right)
        )
        return left, right

    def _transforms(self) -> tuple[Matrix, Matrix] | None:
        """The transforms of both terms; None if neither has one."""
        left, right = self.left.transform(), self.right.transform()
        if left is None and right is None:
            return None
        return (
            np.eye(self.left.functions) if left is None else left,
            np.eye(self.right.functions) if right is None else right,
        )


@dataclass(frozen=True, repr=False)
class Sum(Pair):
    """One learner with the columns of two: ``a + b``, mboost's ``a %+% b``.

    The penalty is block-diagonal. The degrees of freedom add. If both smoothing
    parameters are known (0 for a term without a penalty), they are used instead.
    """

    @property
    def df(self) -> float | None:
        """The sum of the degrees of freedom given."""
        given = self._dfs()
        return sum(given) if given else None

    @property
    def functions(self) -> int:
        return self.left.functions + self.right.functions

    @property
    def null_dimension(self) -> int:
        return sum(self._null_dimensions())

    def transform(self) -> Matrix | None:
        both = self._transforms()
        return None if both is None else diagonal_blocks(*both)

    def penalty(self) -> Matrix:
        return diagonal_blocks(*self._penalties())

    def constraint(self) -> Matrix | None:
        C = [
            np.zeros((0, len(term.penalty())))
            if (one := term.constraint()) is None
            else one
            for term in (self.left, self.right)
        ]
        both = diagonal_blocks(*C)
        return both if len(both) else None

    def _rows(self, data: Reading) -> Rows:
        return side_by_side(self.left._rows(data), self.right._rows(data))

    def _written(self, name: Callable[[Name], str]) -> str:
        return f"{self.left._written(name)} + {self.right._written(name)}"


@dataclass(frozen=True, repr=False)
class Product(Pair):
    """The row-wise Kronecker product: ``a * b``, mboost's ``a %X% b``.

    The functions of `a` are the slow index. The penalty is ``Ka (x) I + I (x) Kb``, the
    degrees of freedom multiply. If both smoothing parameters are known (0 for a term
    without a penalty), the penalty is ``la Ka (x) I + I (x) lb Kb`` instead.

    For a response on a grid, mboost's ``a %O% b`` is ``b * a`` on all pairs of values.
    """

    def __post_init__(self) -> None:
        if self.is_constrained:
            raise ValueError(
                f"a product must have no term with a constraint, got {self.label}"
            )

    @property
    def df(self) -> float | None:
        """The product of the degrees of freedom given."""
        given = self._dfs()
        return float(np.prod(given)) if given else None

    @property
    def functions(self) -> int:
        return self.left.functions * self.right.functions

    @property
    def null_dimension(self) -> int:
        left, right = self._null_dimensions()
        return left * right

    def transform(self) -> Matrix | None:
        both = self._transforms()
        return None if both is None else np.kron(*both).astype(np.float64)

    def penalty(self) -> Matrix:
        return kronecker_sum(*self._penalties())

    def constraint(self) -> Matrix | None:
        return None

    def _rows(self, data: Reading) -> Rows:
        return kronecker(self.left._rows(data), self.right._rows(data))

    def _written(self, name: Callable[[Name], str]) -> str:
        return " * ".join(
            f"({one._written(name)})" if isinstance(one, Sum) else one._written(name)
            for one in (self.left, self.right)
        )


def diagonal_blocks(a: Matrix, b: Matrix) -> Matrix:
    """The block-diagonal matrix of two."""
    blocks = np.zeros((a.shape[0] + b.shape[0], a.shape[1] + b.shape[1]))
    blocks[: a.shape[0], : a.shape[1]] = a
    blocks[a.shape[0] :, a.shape[1] :] = b
    return blocks
