"""What happens between the steps of fits: a progress bar, a callback, an interrupt."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, NamedTuple

from ..._device.progress import progress_bar
from .path import Path

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
        is_watched = self.callback is not None or self.learners is not None
        return PIECE if is_watched or self.progress else None

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
        made, shared = -1, self.bar is not None
        own = progress_bar(steps, "boosting", "step", shown=self.progress)
        with nullcontext(self.bar) if shared else own as bar:
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
