"""Pictures of quantiles, survival, stability selection and explanations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, as_array, on_host
from .._data.inputs import one_per_row
from .._terms.frame import Factor, Frame, Name, values_on_host
from .draw import (
    ACCENT,
    LINE,
    MUTED,
    add_legend,
    draw_bars,
    name_bars,
    name_of,
    named_value,
    new_panels,
    set_labels,
)
from .effects import POINTS

Floats = NDArray[np.float64]

MOST_DOTS = 5000
"""The most rows that are drawn."""

MAX_FEATURES = 3
"""The most features whose values name a row."""

MAX_BARS = 30
"""The most learners that have a bar, beginning with the largest probability."""


# ---- quantiles -----------------------------------------------------------------------


def plot_quantiles(
    model: Any, frame: Frame, y: Any, feature: Name | None, q: Sequence[float]
) -> Any:
    """The figure of `BoostedDistribution.plot_quantiles`."""
    name = checked_feature(frame, feature)
    x = on_host(frame[name])
    y = on_host(one_per_row(y, "y", frame.like))
    points = np.linspace(x.min(), x.max(), POINTS)
    at = {other: np.full(POINTS, typical_value(frame, other)) for other in frame.names}
    shares = sorted(q)
    curves = on_host(model.predict_quantile(at | {name: points}, shares))
    figure, (axis,) = new_panels(1, scale=1.8)
    some = np.linspace(0, len(x) - 1, min(MOST_DOTS, len(x))).astype(np.intp)
    axis.plot(x[some], y[some], ".", color=MUTED, ms=3, zorder=1)
    for j in range(len(shares) // 2):
        bounds = curves[:, j], curves[:, -1 - j]
        axis.fill_between(points, *bounds, color=LINE, alpha=0.15, lw=0, zorder=2)
    for share, curve in zip(shares, curves.T, strict=True):
        axis.plot(points, curve, color=LINE, lw=1, zorder=3)
        axis.annotate(
            f"{share:.3g}", (points[-1], curve[-1]), xytext=(3, 0), fontsize=7,
            textcoords="offset points", va="center", annotation_clip=False,
        )  # fmt: skip
    set_labels(axis, "quantiles", name_of(name))
    return figure


def checked_feature(frame: Frame, feature: Name | None) -> Name:
    """The name of a numeric feature; the only feature without a name."""
    names = list(frame.names)
    if feature is None and len(names) == 1:
        feature = names[0]
    if feature is None or feature not in names:
        raise ValueError(f"feature must be one of {names}, got {feature!r}")
    if frame.is_factor(feature):
        raise ValueError(f"feature must be numeric, got the factor {feature!r}")
    return feature


def typical_value(frame: Frame, name: Name) -> Any:
    """The median of a numeric feature, or the most frequent level of a factor."""
    column = frame[name]
    if not isinstance(column, Factor):
        return float(np.nanmedian(on_host(column)))
    values = values_on_host(column).tolist()
    return max(column.levels, key=values.count)


# ---- survival ------------------------------------------------------------------------


def names_of_rows(frame: Frame) -> list[str]:
    """The values in which rows differ, as ``age = 63, sex = f``; or their numbers."""
    differ = {
        name: values.tolist()
        for name, values in frame.on_host().items()
        if (values != values[0]).any()
    }
    if not 0 < len(differ) <= MAX_FEATURES:
        return [f"row {row}" for row in range(frame.rows)]
    return [
        ", ".join(map(named_value, differ, row))
        for row in zip(*differ.values(), strict=True)
    ]


def plot_curves(
    times: Any, curves: Array, names: Sequence[str], has_steps: bool
) -> Any:
    """The figure of curves, (n, T), at the times, (T,)."""
    if len(names) != len(curves):
        raise ValueError(f"labels must have {len(curves)} names, got {len(names)}")
    figure, (axes,) = new_panels(1, scale=1.8)
    style = "steps-post" if has_steps else "default"
    for name, curve in zip(names, on_host(curves), strict=True):
        axes.plot(on_host(as_array(times, "times")), curve, drawstyle=style, label=name)
    set_labels(axes, "", "time", "share that survives")
    axes.set_ylim(0, 1.02)
    add_legend(axes)
    return figure


# ---- stability -----------------------------------------------------------------------


def draw_paths(axis: Any, selection: Any) -> None:
    """Draw the probability of each learner by iteration; those selected in colour."""
    for path, is_selected in zip(selection.paths.T, selection.support, strict=True):
        color, order = (LINE, 2) if is_selected else (MUTED, 1)
        axis.plot(path, color=color, lw=order, zorder=order)
    axis.axhline(selection.cutoff, color=ACCENT, ls="--", lw=0.8)
    set_labels(axis, "", "iteration", "selection probability")
    axis.set_ylim(0, 1.02)


def draw_frequencies(axis: Any, selection: Any) -> None:
    """Draw the probabilities after the last iteration, the largest first."""
    last = selection.paths[-1]
    order = np.argsort(-last, kind="stable")[:MAX_BARS]
    colors = [LINE if selection.support[j] else MUTED for j in order]
    names = [selection.names[j] for j in order]
    draw_bars(axis, names, last[order], colors)
    axis.axvline(selection.cutoff, color=ACCENT, ls="--", lw=0.8)
    axis.set_xlim(0, 1.02)
    set_labels(axis, f"cutoff {selection.cutoff:.3g}, PFER <= {selection.pfer:.3g}")


def plot_stability(selection: Any) -> Any:
    """The figure of a stability selection; see `StabilitySelection.plot`."""
    figure, axes = new_panels(2, scale=1.7)
    draw_paths(axes[0], selection)
    draw_frequencies(axes[1], selection)
    return figure


# ---- explanations --------------------------------------------------------------------


MOST_CONTRIBUTIONS = 10
"""The most learners that have a bar of their own."""


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
        (value_label(explained, j, row), float(values[j]))
        for j in order[:MOST_CONTRIBUTIONS]
    ]
    if rest := order[MOST_CONTRIBUTIONS:].tolist():
        bars.append((f"{len(rest)} others", float(values[rest].sum())))
    return [name for name, _ in bars], np.array([value for _, value in bars])


def value_label(explained: Any, learner: int, row: int) -> str:
    """The values of the features that a learner reads, as ``age = 63``."""
    return ", ".join(
        named_value(name, explained.columns[name][row])
        for name in explained.read[learner]
    )
