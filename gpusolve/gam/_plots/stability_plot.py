"""The plot of a stability selection. matplotlib is imported when it is called."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .plot import draw_bars, pyplot

MAX_BARS = 30
"""The most learners that have a bar, beginning with the largest probability."""


class Selection(Protocol):
    """The attributes of a `StabilitySelection` that its plot needs."""

    @property
    def names(self) -> list[str]: ...
    @property
    def paths(self) -> NDArray[np.float64]: ...
    @property
    def cutoff(self) -> float: ...
    @property
    def pfer(self) -> float: ...
    @property
    def support(self) -> NDArray[np.bool_]: ...


def draw_paths(axis: Any, selection: Selection) -> None:
    """Draw the probability of each learner by iteration; those selected in colour."""
    for path, is_selected in zip(selection.paths.T, selection.support, strict=True):
        color, order = ("C0", 2) if is_selected else ("0.75", 1)
        axis.plot(path, color=color, lw=order, zorder=order)
    axis.axhline(selection.cutoff, color="C3", ls="--", lw=0.8)
    axis.set_xlabel("iteration")
    axis.set_ylabel("selection probability")
    axis.set_ylim(0, 1.02)


def draw_frequencies(axis: Any, selection: Selection) -> None:
    """Draw the probabilities after the last iteration, the largest first."""
    last = selection.paths[-1]
    order = np.argsort(-last, kind="stable")[:MAX_BARS]
    colors = ["C0" if selection.support[j] else "0.75" for j in order]
    names = [selection.names[j] for j in order]
    draw_bars(axis, names, last[order], colors, height=160)
    axis.axvline(selection.cutoff, color="C3", ls="--", lw=0.8)
    axis.set_xlim(0, 1.02)
    axis.set_title(
        f"cutoff {selection.cutoff:.3g}, PFER at most {selection.pfer:.3g}", fontsize=10
    )


def plot_stability(selection: Selection) -> Any:
    """The figure of a stability selection; see `StabilitySelection.plot`."""
    figure, axes = pyplot().subplots(1, 2, figsize=(9.6, 4), layout="constrained")
    draw_paths(axes[0], selection)
    draw_frequencies(axes[1], selection)
    return figure
