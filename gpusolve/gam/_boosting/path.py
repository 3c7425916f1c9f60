"""The steps of fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import on_host

STATES = ("risk", "nuisance", "out_of_bag")
"""The fields of a path with a value before the first step and after each."""

AXES = {"selected": -1, "updates": -2, "risk": -1, "nuisance": -2, "out_of_bag": -1}
"""The arrays of a path, and their axes of the steps."""


@dataclass(frozen=True)
class Path:
    """The steps of a fit, as arrays on the host.

    Fits that were made as a batch have a first axis in all arrays, also in `offset`.

    Attributes
    ----------
    offset : float
        The model before the first step; 0 if it differs from row to row.
    selected : (steps,) int32 array
        The learner that each step selected; -1 if the family has several predictors and
        the step updated another predictor. The updates are then 0.
    updates : (steps, k) float64 array
        The change of that learner's coefficients; padded with zeros if other learners
        have more coefficients.
    risk : (steps + 1,) float64 array
        The weighted sum of losses before the first step and after each: of the squared
        residuals for the Gaussian family. If the family has several predictors, the
        path of the first has the risk of the model, and the other paths have zeros, so
        that risks can be added.
    method : str
        The method that made the steps, or the last steps.
    nuisance : (steps + 1, q) float64 array or None
        The adaptive parameter of the family before the first step and after each, q
        numbers; zeros or None if it has none.
    out_of_bag : (steps + 1,) float64 array or None
        The risk with the weights of rows that are held out.

    See Also
    --------
    BoostedGAM

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import Path
    >>> updates = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> path = Path(0.0, np.int32([1, 0, 1]), updates, np.zeros(4), "gram")
    >>> path.coef(2)
    array([[3., 4.],
           [6., 8.]])
    >>> path.coef(2, iteration=1)
    array([[0., 0.],
           [1., 2.]])
    """

    offset: NDArray[np.float64] | float
    selected: NDArray[np.int32]
    updates: NDArray[np.float64]
    risk: NDArray[np.float64]
    method: str
    nuisance: NDArray[np.float64] | None = None
    out_of_bag: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return int(self.selected.shape[-1])

    def coef(self, learners: int, iteration: int | None = None) -> NDArray[np.float64]:
        """The coefficients after some of the steps, or after all, (learners, k)."""
        fits, k = self.selected.shape[:-1], self.updates.shape[-1]
        coef = np.zeros((*fits, learners, k))
        for fit in np.ndindex(fits):
            some = self.selected[fit][:iteration]
            np.add.at(coef[fit], some, self.updates[fit][:iteration])
        return coef

    def total_risk(self, iteration: int) -> float:
        """The sum of the risks of all fits of a batch after some of the steps."""
        return float(self.risk[:, iteration].sum())

    def fewest_learners(self, iteration: int) -> int:
        """How many learners each fit of a batch has selected by then, at least."""
        selected = on_host(self.selected[:, :iteration])
        return min(len(np.unique(own[own >= 0])) for own in selected)

    def followed_by(self, later: Path) -> Path:
        """The path with the steps of `later` appended, which continues it."""

        def joined(name: str, new: NDArray[Any]) -> NDArray[Any] | None:
            old, axis = getattr(self, name), AXES[name]
            if name in STATES:
                new = np.delete(new, 0, axis)
            return None if old is None else np.concatenate([old, new], axis)

        return later._mapped(joined)

    def until(self, iteration: int) -> Path:
        """The first steps of the path."""

        def cut(name: str, array: NDArray[Any]) -> NDArray[Any]:
            end = iteration + (name in STATES)
            return array.swapaxes(0, AXES[name])[:end].swapaxes(0, AXES[name])

        return self._mapped(cut)

    def each(self) -> list[Path]:
        """The path of each fit of a batch."""
        return [
            replace(self._mapped(lambda _, array: array[fit]), offset=float(offset))  # noqa: B023
            for fit, offset in enumerate(np.broadcast_to(self.offset, len(self.risk)))
        ]

    def _mapped(self, change: Callable[[str, NDArray[Any]], Any]) -> Path:
        """The path with other arrays of steps, from their names and values."""
        given: dict[str, Any] = {name: getattr(self, name) for name in AXES}
        for name, array in given.items():
            given[name] = None if array is None else change(name, array)
        return replace(self, **given)


def join_paths(paths: list[Path]) -> Path:
    """Several fits with equal numbers of steps as a batch."""

    def stacked(name: str, array: NDArray[Any]) -> NDArray[Any]:
        return np.stack([getattr(path, name) for path in paths])

    offset = np.array([path.offset for path in paths])
    return replace(paths[0]._mapped(stacked), offset=offset)
