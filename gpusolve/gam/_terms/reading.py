"""How learned terms read the columns of a frame: missing values, unknown levels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._device.arrays import Array, namespace
from .._data.conventions import check_choice
from .basis import OUTSIDE
from .frame import MISSING, UNKNOWN, Frame, Level, Name, listed

MISSING_VALUES = ("error", "zero")
UNKNOWN_LEVELS = ("error", "zero")


@dataclass
class Reading:
    """The columns of a frame as learned terms read them.

    `outside`, `unknown` and `missing` are as for `BoostedGAM`; values outside a cyclic
    range are always an error. The designs have the dtype, float32 or float64. `present`
    is 0 in the rows with a missing value that was read and 1 in others, (n,); None if
    no value was missing.
    """

    frame: Frame
    outside: str = "linear"
    unknown: str = "error"
    missing: str = "error"
    dtype: Any = np.float64
    present: Array | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        check_choice("outside", self.outside, OUTSIDE)
        check_choice("unknown", self.unknown, UNKNOWN_LEVELS)
        check_choice("missing", self.missing, MISSING_VALUES)

    def numeric(self, name: Name, fill: float = 0.0) -> Array:
        """A numeric column, (n,), with `fill` for missing values."""
        x = self.frame.numeric(name)
        if self.frame.has_all(name):
            return x
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
            known = set(levels)
            others = tuple(level for level in factor.levels if level not in known)
            raise ValueError(
                f"{name} must have the levels {listed(levels)}, got {listed(others)}; "
                "unknown='zero' gives other levels no effect"
            )
        return codes

    def _note(self, name: Name, is_missing: Array) -> bool:
        """Note the rows with missing values, and return whether there are such rows."""
        if not bool(is_missing.any()):
            return False
        if self.missing == "error":
            raise ValueError(
                f"{name} must not have missing values, got {int(is_missing.sum())}; "
                "missing='zero' leaves these rows out of the learner"
            )
        present = (~is_missing).astype(np.float64)
        self.present = present if self.present is None else present * self.present
        return True
