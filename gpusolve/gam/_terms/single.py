"""Terms that do not combine others: the base of all kinds of learners."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from ..._device.launch import CACHED
from .basis import Matrix, Vector
from .frame import Frame, Level, Name, check_levels
from .rows import Reading, Rows, dense_rows, indicator_rows, kronecker
from .term import Term, joined_axes


def learned(default: Any = None) -> Any:
    """A field that `Term.learn` fills from the data."""
    return field(default=default, metadata={"learned": True})


@lru_cache(CACHED)
def written_arguments(kind: type[Single]) -> tuple[Field[Any], ...]:
    """The arguments, after the columns, of the call that makes a term."""
    return tuple(
        argument
        for argument in fields(kind)
        if argument.name not in ("function", "covariates")
        and argument.metadata.get("written", not argument.metadata.get("learned"))
    )


def format_value(value: Any) -> str:
    """A value as a user writes it: integers without a point, single items alone."""
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    if isinstance(value, tuple):
        if len(value) == 1:
            return format_value(value[0])
        return f"({', '.join(map(format_value, value))})"
    return getattr(value, "__name__", repr(value))


@dataclass(frozen=True, repr=False, kw_only=True)
class Single(Term):
    """A term that does not combine others.

    With ``by=`` a numeric column, each row is multiplied by its value. With a factor,
    there is a block of functions for each level but the first.
    """

    function: str
    covariates: tuple[Name, ...] = ()
    by: Name | None = None
    df: float | None = None
    lambda_: float | None = None
    by_levels: tuple[Level, ...] | None = learned()
    is_default: bool = field(default=False, metadata={"written": False})
    """Whether the estimator has chosen the term, so that its label is short."""

    _most_columns: ClassVar[dict[str, int]] = {}
    """The most covariates of functions whose learners read a few."""
    _defaults: ClassVar[dict[str, dict[str, Any]]] = {}
    """By function, the defaults that differ from the defaults of the fields."""

    def __post_init__(self) -> None:
        count = len(self.covariates)
        if count > (most := self._most_columns.get(self.function, count)):
            columns = "one column" if most == 1 else "one or two columns"
            raise ValueError(f"{self.function} must be given {columns}, got {count}")
        if self.df is not None and not self.df > 0:
            raise ValueError(f"df must be positive, got {self.df}")
        if self.lambda_ is not None and not 0 <= self.lambda_ < np.inf:
            raise ValueError(
                f"lambda_ must be finite and at least 0, got {self.lambda_}"
            )

    @property
    def parts(self) -> tuple[Single, ...]:
        return (self,)

    @property
    def read(self) -> tuple[Name, ...]:
        """The covariates and ``by``."""
        return self.covariates if self.by is None else (*self.covariates, self.by)

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

    def units(self) -> Matrix:
        return self._in_blocks(self._units())

    def constraint(self) -> Matrix | None:
        C = self._constraint()
        return None if C is None else self._in_blocks(C)

    def diagonal(self) -> Vector | None:
        found = self._diagonal()
        if found is None or self._blocks == 1:
            return found
        return np.tile(found, self._blocks)

    def column_coefficients(self, coef: Matrix) -> Matrix:
        blocks = coef.reshape(*coef.shape[:-1], self._blocks, self._functions)
        return joined_axes(self._column_coefficients(blocks))

    def _in_blocks(self, matrix: Matrix) -> Matrix:
        several = self._blocks != 1
        blocks = np.kron(np.eye(self._blocks), matrix) if several else matrix
        return np.asarray(blocks, np.float64)

    def _rows(self, data: Reading) -> Rows:
        rows = self._plain_rows(data)
        if self.by is None:
            return rows
        if self.by_levels is None:
            return kronecker(dense_rows(data.numeric(self.by)[:, None]), rows)
        codes = data.codes(self.by, self.by_levels)  # the first level has no function
        return kronecker(indicator_rows(codes - 1, self._blocks, np.float64), rows)

    @cached_property
    def label(self) -> str:
        if not self.is_default:
            return super().label
        by = [] if self.by is None else [f"by={self.by}"]
        return f"{self.function}({', '.join([*map(str, self.covariates), *by])})"

    def _written(self, name: Callable[[Name], str]) -> str:
        """The function, its columns, and the arguments that are not the defaults."""
        given = [*map(name, self.covariates)]
        defaults = self._defaults.get(self.function, {})
        for argument in written_arguments(type(self)):
            key, value = argument.name, getattr(self, argument.name)
            if value != defaults.get(key, argument.default):
                text = name(value) if key == "by" else format_value(value)
                given.append(f"{argument.metadata.get('argument', key)}={text}")
        return f"{self.function}({', '.join(given)})"

    @property
    def covariate_levels(self) -> tuple[Level, ...] | None:
        """The levels of the covariate if it is a factor."""
        return None

    @property
    def own_ranges(self) -> dict[Name, tuple[float, float]]:
        """The ranges of the covariates if they have knots."""
        return {}

    def exported(self) -> dict[str, Any]:
        design = self._exported()
        if self.by is None:
            return design
        by = plain_numbers(self.by)
        if self.by_levels is not None:
            by = plain_factor(self.by, self.by_levels, skipped=1)
        return {"kind": "product", "parts": [by, design]}

    # Of the term without `by`:

    @abstractmethod
    def _learn(self, frame: Frame) -> dict[str, Any]:
        """The fields that depend on the data."""

    @property
    @abstractmethod
    def _functions(self) -> int: ...

    @property
    def _null_dimension(self) -> int:
        return 0

    @abstractmethod
    def _plain_rows(self, data: Reading) -> Rows: ...

    def _exported(self) -> dict[str, Any]:
        raise TypeError(
            "learners must be splines, lines, factors, stumps, or their combinations "
            f"to be exported, got {self.label}"
        )

    def _transform(self) -> Matrix | None:
        return None

    @abstractmethod
    def _penalty(self) -> Matrix: ...

    def _units(self) -> Matrix:
        """Columns that the penalty joins have the same unit."""
        penalty = self._penalty()
        if np.count_nonzero(penalty) == np.count_nonzero(penalty.diagonal()):
            return np.eye(len(penalty))
        from scipy.sparse.csgraph import connected_components

        _, unit = connected_components(penalty != 0, directed=False)
        return np.asarray(unit[:, None] == unit, np.float64)

    def _constraint(self) -> Matrix | None:
        return None

    def _diagonal(self) -> Vector | None:
        return None

    def _column_coefficients(self, coef: Matrix) -> Matrix:
        T = self._transform()
        return coef if T is None else np.asarray(coef @ np.linalg.pinv(T).T, np.float64)


def levels_of_by(name: Name, frame: Frame) -> tuple[Level, ...] | None:
    """The levels of a column given as ``by=``; None if it is numeric."""
    if not frame.is_factor(name):
        frame.numeric(name)
        return None
    levels = frame.factor(name).levels
    check_levels(name, levels, 2)
    return levels


def plain_numbers(*names: Name, intercept: bool = False) -> dict[str, Any]:
    """An exported design: numeric columns."""
    return {"kind": "numbers", "columns": [*names], "intercept": intercept}


def plain_factor(
    name: Name, levels: tuple[Level, ...], skipped: int = 0
) -> dict[str, Any]:
    """An exported design: levels of a factor; the first levels may have no function."""
    for level in levels:
        if not isinstance(level, str | int | float):
            raise TypeError(
                f"levels of {name} must be strings or numbers to be exported, got "
                f"{level!r}"
            )
    columns = {"column": name, "levels": [*levels], "skipped": skipped}
    return {"kind": "factor"} | columns
