"""Linear effects of numeric covariates, and effects of the levels of a factor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..._device.arrays import namespace
from .._data.conventions import check_choice
from .basis import Matrix, Vector, differences
from .frame import Frame, Level, check_levels, listed
from .rows import Rows, dense_rows, indicator_rows
from .term import Reading, Single, learned, plain_factor, plain_numbers


def treatment(levels: int) -> Matrix:
    """Indicators of all levels but the first."""
    return np.eye(levels)[:, 1:]


def sum_to_zero(levels: int) -> Matrix:
    """The identity over a row of -1."""
    return np.vstack([np.eye(levels - 1), -np.ones(levels - 1)])


def helmert(levels: int) -> Matrix:
    """Column j, from 1: -1 for the first j levels, j for the next level."""
    column = np.arange(1, levels)
    level = np.arange(levels)[:, None]
    return np.where(level < column, -1.0, np.where(level == column, column, 0.0))


def treatment_coefficients(effects: Matrix) -> Matrix:
    first = effects[..., :1]
    return np.concatenate([first, effects[..., 1:] - first], axis=-1)


def sum_coefficients(effects: Matrix) -> Matrix:
    mean = effects.mean(axis=-1, keepdims=True)
    return np.concatenate([mean, effects[..., :-1] - mean], axis=-1)


def helmert_coefficients(effects: Matrix) -> Matrix:
    mean = effects.mean(axis=-1, keepdims=True)
    count = np.arange(1, effects.shape[-1])
    before = effects[..., :-1].cumsum(axis=-1) / count
    contrasts = (effects[..., 1:] - before) / (count + 1)
    return np.concatenate([mean, contrasts], axis=-1)


class Coding(NamedTuple):
    """The columns of a factor of L levels: an intercept and L - 1 contrasts.

    Attributes
    ----------
    contrasts : callable
        The contrasts of each level, (L, L - 1), from the number L.
    coefficients : callable
        The coefficients of the intercept and the contrasts from the effects of the
        levels, (..., L) each. The intercept is 0 for effects of contrasts alone.
    """

    contrasts: Callable[[int], Matrix]
    coefficients: Callable[[Matrix], Matrix]


CONTRASTS: dict[str, Coding | None] = {
    "treatment": Coding(treatment, treatment_coefficients),
    "sum": Coding(sum_to_zero, sum_coefficients),
    "helmert": Coding(helmert, helmert_coefficients),
    "dummy": None,
}
"""The coding of a factor; None: an indicator of each level, without an intercept."""


@dataclass(frozen=True, repr=False, kw_only=True)
class Linear(Single):
    """A linear effect of numeric columns or of a factor, see `bols` and `brandom`.

    The functions of a factor are the indicators of its levels. `found_levels` and
    `ordered` are learned; without levels the columns are numeric.
    """

    function: str = "bols"
    intercept: bool = True
    contrasts: str = "treatment"
    levels: tuple[Level, ...] | None = None
    found_levels: tuple[Level, ...] | None = learned()
    ordered: bool = learned(False)

    _defaults: ClassVar = {"brandom": {"df": 4, "contrasts": "dummy"}}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("contrasts", self.contrasts, tuple(CONTRASTS))
        count = len(self.covariates)
        if self.function == "brandom" and count > 1:
            raise ValueError(f"brandom must be given one column, got {count}")
        if self.levels is not None and len(set(self.levels)) < len(self.levels):
            raise ValueError(f"levels must be different, got {listed(self.levels)}")

    def _learn(self, frame: Frame) -> dict[str, Any]:
        name, *others = self.covariates
        needs_levels = self.levels is not None or self.function == "brandom"
        if others or not (needs_levels or frame.is_factor(name)):
            for numeric in self.covariates:
                frame.numeric(numeric)
            return {"found_levels": None, "ordered": False}
        factor = frame.factor(name)
        levels = factor.levels if self.levels is None else self.levels
        known = set(levels)
        unknown = tuple(level for level in factor.levels if level not in known)
        if unknown:
            raise ValueError(
                f"{name} must have the levels {listed(levels)}, got {listed(unknown)}"
            )
        least = 1 if self.intercept or self.contrasts == "dummy" else 2
        check_levels(name, levels, least)
        return {"found_levels": levels, "ordered": factor.ordered}

    @property
    def covariate_levels(self) -> tuple[Level, ...] | None:
        return self.found_levels

    @property
    def _functions(self) -> int:
        if self.found_levels is None:
            return len(self.covariates) + self.intercept
        return len(self.found_levels)

    def _plain_rows(self, data: Reading) -> Rows:
        if self.found_levels is not None:
            (name,) = self.covariates
            codes = data.codes(name, self.found_levels)
            return indicator_rows(codes, self._functions, data.dtype)
        columns = [data.numeric(name) for name in self.covariates]
        xp = namespace(columns[0])
        if self.intercept:
            columns.insert(0, xp.ones(len(columns[0])))
        columns = [x.astype(data.dtype, copy=False) for x in columns]
        is_single = len(columns) == 1
        return dense_rows(columns[0][:, None] if is_single else xp.stack(columns, 1))

    def _exported(self) -> dict[str, Any]:
        if self.found_levels is None:
            return plain_numbers(*self.covariates, intercept=self.intercept)
        return plain_factor(self.covariates[0], self.found_levels)

    def _transform(self) -> Matrix | None:
        """The intercept and the contrasts, by the indicators of the levels."""
        coding = self._coding
        if coding is None:
            return None
        levels = self._functions
        intercept = np.ones((levels, int(self.intercept)))
        return np.hstack([intercept, coding.contrasts(levels)])

    @property
    def _coding(self) -> Coding | None:
        """The coding of a factor; None if the functions have the coefficients."""
        return None if self.found_levels is None else CONTRASTS[self.contrasts]

    def _diagonal(self) -> Vector | None:
        """Zeros for unpenalised effects of all levels, ones for a ridge on these."""
        if self._coding is not None:
            is_free = self.intercept and self.fixed_lambda == 0
            return np.zeros(self._functions) if is_free else None
        is_disjoint = self.found_levels is not None or self._functions == 1
        return np.ones(self._functions) if is_disjoint else None

    def _column_coefficients(self, coef: Matrix) -> Matrix:
        if self._coding is None:
            return coef
        return self._coding.coefficients(coef)[..., int(not self.intercept) :]

    def _penalty(self) -> Matrix:
        """The ridge; of an ordered factor, the differences of neighbouring effects."""
        T = self._transform()
        columns = self._functions if T is None else T.shape[1]
        if not (self.ordered and self.contrasts == "treatment"):
            return np.eye(columns)
        C = differences(columns + 1, 1)[:, 1:]
        return C.T @ C
