"""The contributions to a prediction, one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .draw import named_value
from .panels import ACCENT, LINE, MUTED, name_bars, new_panels, set_labels

MAX_BARS = 10
"""The most learners that have a bar of their own."""

Floats = NDArray[np.float64]


def plot_waterfall(explained: Any, row: int) -> Any:
    """The figure of an `Explanation`: the contributions to a row's prediction."""
    names, values = bars_of(explained, row)
    ends, positions = np.cumsum(values), np.arange(len(names))
    lengths = np.array([0.0, *values[1:]])
    figure, (axis,) = new_panels(1, scale=1.8)
    axis.barh(
        positions, lengths, 0.7, left=ends - lengths,
        color=np.where(lengths < 0, LINE, ACCENT),
    )  # fmt: skip
    axis.plot(ends[:1], [0], "o", color="0.4")
    axis.vlines(ends[:-1], positions[:-1], positions[1:], color="0.5", lw=0.6)
    for position, end, length in zip(positions, ends, lengths, strict=True):
        axis.annotate(
            f"{length:+.3g}" if position else f"{end:.4g}",
            (max(end, end - length), position), (5, 0),
            textcoords="offset points", va="center", fontsize=7, color="0.3",
        )  # fmt: skip
    axis.axvline(ends[-1], color=MUTED, lw=0.8, ls="--", zorder=0)
    axis.use_sticky_edges = False
    axis.margins(x=0.15)
    name_bars(axis, names)
    link, response = explained.link[row], explained.prediction[row]
    title = f"row {row}: {explained.unit.removeprefix('the ')} {link:.4g}"
    if response != link:
        title += f", prediction {response:.4g}"
    set_labels(axis, title, f"contribution to {explained.unit}")
    return figure


def bars_of(explained: Any, row: int) -> tuple[list[str], Floats]:
    """The intercept, the offset, the largest contributions, and the others' sum."""
    values = explained.contributions[row]
    order = np.argsort(-abs(values), kind="stable")
    order = order[values[order] != 0]
    bars = [("intercept", explained.intercept)]
    if explained.offset[row]:
        bars.append(("offset", float(explained.offset[row])))
    bars += [
        (value_label(explained, j, row), float(values[j])) for j in order[:MAX_BARS]
    ]
    if rest := order[MAX_BARS:].tolist():
        bars.append((f"{len(rest)} others", float(values[rest].sum())))
    return [name for name, _ in bars], np.array([value for _, value in bars])


def value_label(explained: Any, learner: int, row: int) -> str:
    """The values of the features that a learner reads, as ``age = 63``."""
    return ", ".join(
        named_value(name, explained.columns[name][row])
        for name in explained.read[learner]
    )
