"""Drawings of effects: curves, bars and maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .effects import Axis, Effect
from .panels import LINE, SMALL, add_legend, name_bars, pyplot, shortened

MARGIN = 0.05
"""The margin of a scale, as a share of its height."""

MAX_LABELS = 25
"""The most levels that are named."""

UPRIGHT = 28
"""The most letters next to each other below upright bars."""

CONTOURS = 12
"""The number of colours of a map."""

DIVERGING = "RdBu_r"
"""The colours of a map, which differ for positive and negative effects."""

Limits: TypeAlias = tuple[float, float]


def draw_effect(axis: Any, effect: Effect, limits: Limits, unit: str) -> None:
    """Draw an effect of any kind on a scale with the given limits."""
    if effect.multipliers:
        unit = f"effect per unit of {name_of(effect.multipliers[0])}"
    if is_surface(effect):
        draw_surface(axis, effect, max(map(abs, limits)), unit)
    elif effect.axes[0].is_factor:
        draw_levels(axis, effect, limits, unit)
    else:
        draw_curves(axis, effect)
        axis.axhline(0, color="0.85", lw=0.8, zorder=0)
        axis.set_ylim(limits)
        axis.set_ylabel(unit, fontsize=SMALL)


def draw_curves(axis: Any, effect: Effect) -> None:
    """Draw a curve, or a curve for each level, with bounds and a rug of the data."""
    x, *groups = effect.axes
    levels = groups[0].points if groups else [None]
    shape = len(x.points), len(levels)
    for j, curve in enumerate(effect.values.reshape(shape).T):
        name = shortened(str(levels[j]))
        axis.plot(x.points, curve, color=f"C{j % 10}", label=name)
    if effect.lower is not None and effect.upper is not None:
        lower, upper = effect.lower.reshape(shape), effect.upper.reshape(shape)
        for j, bounds in enumerate(zip(lower.T, upper.T, strict=True)):
            axis.fill_between(x.points, *bounds, color=f"C{j % 10}", alpha=0.2, lw=0)
    axis.plot(
        x.rug, np.zeros_like(x.rug), "|", color="0.4", ms=6, mew=0.4,
        transform=axis.get_xaxis_transform(), clip_on=False,
    )  # fmt: skip
    if 1 < len(levels) <= MAX_LABELS:
        add_legend(axis)


def draw_levels(axis: Any, effect: Effect, limits: Limits, unit: str) -> None:
    """Draw a bar for each level, with its bounds; to the side if names are long."""
    (levels,) = effect.axes
    positions = np.arange(len(levels.points))
    upright = letters_of(levels) <= UPRIGHT or len(positions) > MAX_LABELS
    draw, line, intervals, value_axis = (
        (axis.bar, axis.axhline, axis.vlines, axis.yaxis)
        if upright
        else (axis.barh, axis.axvline, axis.hlines, axis.xaxis)
    )
    draw(positions, effect.values, 0.7, color=LINE)
    line(0, color="0.85", lw=0.8, zorder=0)
    if effect.lower is not None:
        intervals(positions, effect.lower, effect.upper, color="0.25", lw=0.8)
    value_axis.set_label_text(unit, fontsize=SMALL)
    if upright:
        axis.set_ylim(limits)
        name_levels(axis.xaxis, levels)
    else:
        axis.set_xlim(limits)
        name_bars(axis, labels_of(levels, ", "))


def draw_surface(axis: Any, effect: Effect, largest: float, unit: str) -> None:
    """Draw a surface as colours from -largest to largest, where there are data."""
    x, y = effect.axes
    scale = largest or 1.0
    if x.is_factor:
        filled = axis.imshow(
            effect.values.T, cmap=DIVERGING, vmin=-scale, vmax=scale,
            origin="lower", aspect="auto",
        )  # fmt: skip
        name_levels(axis.xaxis, x)
        name_levels(axis.yaxis, y)
        axis.tick_params(axis="x", labelrotation=90 * (letters_of(x) > UPRIGHT))
    else:
        steps = np.linspace(-scale, scale, CONTOURS + 1)
        grid = x.points, y.points, effect.values.T
        filled = axis.contourf(*grid, steps, cmap=DIVERGING)
        lines = axis.contour(*grid, steps, colors="0.3", linewidths=0.3)
        axis.plot(x.rug, y.rug, ".", color="0.2", ms=1.5, alpha=0.6)
        hull = hull_of(x, y)
        corners = hull.points[hull.vertices]
        (edge,) = axis.fill(*corners.T, fill=False, ec="0.5", lw=0.6)
        filled.set_clip_path(edge)
        lines.set_clip_path(edge)
    bar = axis.figure.colorbar(filled, ax=axis, ticks=pyplot().MaxNLocator(5))
    bar.ax.tick_params(labelsize=SMALL - 1)
    bar.set_label(unit, fontsize=SMALL - 1)


def hull_of(x: Axis, y: Axis) -> Any:
    """The convex hull of the data, or of the grid if all data are on a line."""
    from scipy.spatial import ConvexHull, QhullError

    low, high = (np.array([axis.points[end] for axis in (x, y)]) for end in (0, -1))
    try:
        return ConvexHull(np.column_stack([x.rug, y.rug]).astype(np.float64))
    except (QhullError, ValueError):
        return ConvexHull([low, high, [low[0], high[1]], [high[0], low[1]]])


def values_with_data(effect: Effect) -> NDArray[np.float64]:
    """The values of a surface within the hull of the data; all for two factors."""
    x, y = effect.axes
    if x.is_factor:
        return effect.values
    at = np.stack(np.meshgrid(x.points, y.points, indexing="ij"), axis=-1)
    sides = hull_of(x, y).equations
    outside = (at @ sides[:, :2].T + sides[:, 2]).max(axis=-1) > 0
    return np.asarray(effect.values[~outside])


def name_levels(side: Any, levels: Axis) -> None:
    """Name the levels at an axis, with their rows; or count them if they are many."""
    if len(levels.points) > MAX_LABELS:
        side.set_ticks([])
        side.set_label_text(f"{len(levels.points)} levels", fontsize=SMALL)
        return
    labels = labels_of(levels, "\n")
    side.set_ticks(np.arange(len(labels)), labels)
    side.set_tick_params(labelsize=SMALL)


def names_of(levels: Axis) -> list[str]:
    """The names of levels; long names are shortened."""
    return [shortened(str(level)) for level in levels.points]


def labels_of(levels: Axis, between: str) -> list[str]:
    """The names of levels with their numbers of rows."""
    pairs = zip(names_of(levels), levels.counts, strict=True)
    return [f"{name}{between}n={count}" for name, count in pairs]


def letters_of(levels: Axis) -> int:
    """The letters of the labels of levels, if the labels are next to each other."""
    labels = labels_of(levels, "\n")
    return sum(1 + max(map(len, label.split("\n"))) for label in labels)


# ---- titles and scales ---------------------------------------------------------------


def is_surface(effect: Effect) -> bool:
    """Whether an effect is drawn by colours: if two features are of the same kind."""
    return len({axis.is_factor for axis in effect.axes}) < len(effect.axes)


def titles_of(effects: Sequence[Effect]) -> list[str]:
    """The features of each effect; the learner if another has the same features."""
    short = [title_of(effect) for effect in effects]
    return [
        title if short.count(title) == 1 else effect.label
        for title, effect in zip(short, effects, strict=True)
    ]


def title_of(effect: Effect) -> str:
    """The features of an effect, as in ``lon, lat`` or ``age by sex (day = 3)``."""
    shown = [name_of(axis.name) for axis in effect.axes]
    first = ", ".join(shown) if is_surface(effect) else " by ".join(shown)
    title = " by ".join([first, *map(name_of, effect.multipliers)])
    fixed = [
        f"{name_of(name)} = {value:{'.3g' if isinstance(value, float) else ''}}"
        for name, value in effect.fixed.items()
    ]
    return f"{title} ({', '.join(fixed)})" if fixed else title


def name_of(name: str | int) -> str:
    """The name of a feature; x0, x1, .. for the columns of a matrix."""
    return name if isinstance(name, str) else f"x{name}"


def limits_of(effects: Sequence[Effect]) -> Limits:
    """The limits of a scale that shows all that is drawn of some effects."""
    drawn = np.concatenate([values.ravel() for e in effects for values in drawn_of(e)])
    lower, upper = float(drawn.min()), float(drawn.max())
    margin = MARGIN * (upper - lower) or 1.0
    return lower - margin, upper + margin


def drawn_of(effect: Effect) -> list[NDArray[np.float64]]:
    """The values that are drawn of an effect, and its bounds unless it is a map."""
    if is_surface(effect):
        return [values_with_data(effect)]
    found = (effect.values, effect.lower, effect.upper)
    return [values for values in found if values is not None]
