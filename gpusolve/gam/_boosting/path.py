"""The steps of fits: their path, its risk, and what happens between the steps."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import on_host
from ..._device.progress import progress_bar

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


# ---- the risk ------------------------------------------------------------------------


RISE = 0.1
"""A risk rises if it exceeds the least risk before by this share of its decrease. Steps
towards medians and quantiles cause smaller rises."""

FALL = 0.01
"""A risk is still falling if the last tenth of the steps have this share of its
decrease."""

LEAST_RISE = 1e-9
"""Relative size of a rise that rounding may explain."""


def first_rise(risk: NDArray[np.float64]) -> int | None:
    """The first step after which a risk of a path, (..., steps + 1), has risen.

    Examples
    --------
    >>> first_rise(np.array([10.0, 4.0, 2.0, 2.1, 2.0, 3.0]))
    5
    """
    least = np.minimum.accumulate(risk, axis=-1)
    decrease = risk[..., :1] - least[..., -1:]
    allowed = RISE * decrease + LEAST_RISE * abs(risk).max(axis=-1, keepdims=True)
    rises = (risk - least > allowed).reshape(-1, risk.shape[-1]).any(axis=0)
    return int(rises.argmax()) if rises.any() else None


def late_share(risk: NDArray[np.float64]) -> float:
    """The share of the last tenth of the steps in the decrease of a risk, (steps + 1,).

    Examples
    --------
    >>> late_share(np.linspace(9.0, 4.0, 11))
    0.1
    """
    decrease = float(risk[0] - risk[-1])
    if not decrease > 0:
        return 0.0
    steps = len(risk) - 1
    return float(risk[-1 - max(1, steps // 10)] - risk[-1]) / decrease


# ---- between the steps ---------------------------------------------------------------


PIECE = 50
"""Number of steps of a launch that is watched."""


class Watch(NamedTuple):
    """Who watches the steps.

    Attributes
    ----------
    callback : callable or None
        ``callback(iteration, risk)`` after the steps; a true result ends them.
    progress : bool or None
        Whether there is a bar; None for a bar after a while, see `progress_bar`.
    keeps_steps : bool
        Whether an interrupt ends the steps with a warning, instead of an error.
    first : int
        Number of steps that were made before.
    learners : int or None
        The steps end when each fit has selected this number of different learners.
    bar : tqdm or None
        A bar that counts the steps of several calls, in place of their own.
    """

    callback: Callable[[int, float], object] | None = None
    progress: bool | None = None
    keeps_steps: bool = False
    first: int = 0
    learners: int | None = None
    bar: Any = None

    @property
    def piece(self) -> int | None:
        """The most steps of a launch on a device; None for any number."""
        return PIECE if self.may_end or self.progress else None

    @property
    def may_end(self) -> bool:
        """Whether the steps may end early, which a CPU examines after each step."""
        return self.callback is not None or self.learners is not None

    def follow(
        self,
        steps: int,
        pieces: Iterable[slice],
        make: Callable[[slice], None],
        path: Path,
    ) -> int:
        """Make steps piece by piece, and return how many were made.

        Parameters
        ----------
        steps : int
            The number of steps, after step 0: the models before the first step.
        pieces : iterable of slice
            The steps of each piece, in order, from step 0.
        make : callable
            Makes the steps of a piece.
        path : Path
            To which `make` writes the steps.
        """
        made = -1
        shown: Any = nullcontext(self.bar)
        if self.bar is None:
            shown = progress_bar(steps, "boosting", "step", shown=self.progress)
        with shown as bar:
            try:
                for piece in pieces:
                    make(piece)
                    bar.update(piece.stop - 1 - max(made, 0))
                    made = piece.stop - 1
                    if self._ends(made, path):
                        break
            except KeyboardInterrupt:
                if made < 0 or not self.keeps_steps:
                    raise
                warnings.warn(
                    f"the fit was interrupted after iteration {self.first + made}; the "
                    "model has the iterations until then",
                    stacklevel=2,
                )
        return made

    def _ends(self, made: int, path: Path) -> bool:
        """Whether the fits have enough learners, or the callback ends the steps."""
        if made == 0:
            return False
        if self.learners is not None and path.fewest_learners(made) >= self.learners:
            return True
        if self.callback is None:
            return False
        return bool(self.callback(self.first + made, path.total_risk(made)))


UNWATCHED = Watch()
"""No callback, and an interrupt is an error."""
