"""The plot of a stability selection. matplotlib is imported when it is called."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .panels import ACCENT, LINE, MUTED, draw_bars, new_panels, set_labels

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
        color, order = (LINE, 2) if is_selected else (MUTED, 1)
        axis.plot(path, color=color, lw=order, zorder=order)
    axis.axhline(selection.cutoff, color=ACCENT, ls="--", lw=0.8)
    set_labels(axis, "", "iteration", "selection probability")
    axis.set_ylim(0, 1.02)


def draw_frequencies(axis: Any, selection: Selection) -> None:
    """Draw the probabilities after the last iteration, the largest first."""
    last = selection.paths[-1]
    order = np.argsort(-last, kind="stable")[:MAX_BARS]
    colors = [LINE if selection.support[j] else MUTED for j in order]
    names = [selection.names[j] for j in order]
    draw_bars(axis, names, last[order], colors)
    axis.axvline(selection.cutoff, color=ACCENT, ls="--", lw=0.8)
    axis.set_xlim(0, 1.02)
    set_labels(axis, f"cutoff {selection.cutoff:.3g}, PFER <= {selection.pfer:.3g}")


def plot_stability(selection: Selection) -> Any:
    """The figure of a stability selection; see `StabilitySelection.plot`."""
    figure, axes = new_panels(2, scale=1.7)
    draw_paths(axes[0], selection)
    draw_frequencies(axes[1], selection)
    return figure
