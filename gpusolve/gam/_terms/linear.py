"""Linear effects of numeric covariates, and effects of the levels of a factor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..._device.arrays import namespace
from .._conventions import check_choice
from ..penalty import Matrix, differences
from .frame import Frame, Level, Name, check_levels, listed
from .rows import Rows, dense_rows, indicator_rows
from .term import Reading, Single, learned


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


CONTRASTS: dict[str, Callable[[int], Matrix] | None] = {
    "treatment": treatment,
    "sum": sum_to_zero,
    "helmert": helmert,
    "dummy": None,
}
"""The contrasts of a factor by its number of levels; None: indicators of all levels."""


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
        unknown = tuple(level for level in factor.levels if level not in levels)
        if unknown:
            raise ValueError(
                f"{name} must have the levels {listed(levels)}, got {listed(unknown)}"
            )
        least = 1 if self.intercept or self.contrasts == "dummy" else 2
        check_levels(name, levels, least)
        return {"found_levels": levels, "ordered": factor.ordered}

    @property
    def _known_levels(self) -> dict[Name, tuple[Level, ...]]:
        own = (
            {} if self.found_levels is None else {self.covariates[0]: self.found_levels}
        )
        return own | super()._known_levels

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
        return dense_rows(xp.stack([x.astype(data.dtype) for x in columns], axis=1))

    def _transform(self) -> Matrix | None:
        """The intercept and the contrasts, by the indicators of the levels."""
        contrasts = CONTRASTS[self.contrasts]
        if self.found_levels is None or contrasts is None:
            return None
        levels = len(self.found_levels)
        intercept = np.ones((levels, int(self.intercept)))
        return np.hstack([intercept, contrasts(levels)])

    def _penalty(self) -> Matrix:
        """The ridge; of an ordered factor, the differences of neighbouring effects."""
        T = self._transform()
        columns = self._functions if T is None else T.shape[1]
        if not (self.ordered and self.contrasts == "treatment"):
            return np.eye(columns)
        C = differences(columns + 1, 1)[:, 1:]
        return C.T @ C
