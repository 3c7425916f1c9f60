"""Drawings of effects: curves, bars and maps."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..._device.launch import ceil_div
from .effects import Axis, Effect

MARGIN = 0.05
"""The margin of a scale, as a share of its height."""

MAX_LABELS = 12
"""The most levels that are named."""

MAX_CURVES = 8
"""The most levels whose curves have a colour and a name."""

EXTREMES = 3
"""How many levels are named at either end of many."""

UPRIGHT, UPRIGHT_IN_TABLE = 28, 18
"""The most letters next to each other below upright bars, and below a table."""

MAX_CELLS, CELL_LETTERS = 8, 14
"""The most levels that are named at the side of a table, and the letters of a name."""

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
    """Draw a curve, or a curve for each level, with bounds and a rug of the data.

    Whole numbers are points. Of many levels, the largest effects have names.
    """
    x, *groups = effect.axes
    levels = groups[0].points if groups else [None]
    shape = len(x.points), len(levels)
    curves = effect.values.reshape(shape).T
    size = 2.5 if len(x.points) <= MAX_LABELS else 1.5
    style = {"marker": "o", "ms": size, "lw": 0.8} if x.is_whole else {}
    some = np.arange(len(levels))
    if len(levels) > MAX_CURVES:
        some = np.sort(np.argsort(-abs(curves).max(axis=1))[:MAX_CURVES])
        others = np.delete(curves, some, axis=0)
        axis.plot(x.points, others.T, color=MUTED, lw=0.5, zorder=1)
    for color, j in enumerate(some.tolist()):
        name = shortened(str(levels[j]))
        axis.plot(x.points, curves[j], color=f"C{color}", label=name, **style)
        if effect.lower is not None and effect.upper is not None:
            bounds = (b.reshape(shape)[:, j] for b in (effect.lower, effect.upper))
            axis.fill_between(x.points, *bounds, color=f"C{color}", alpha=0.2, lw=0)
    if x.is_whole:
        axis.locator_params(axis="x", integer=True)
    axis.plot(
        x.rug, np.zeros_like(x.rug), "|", color="0.4", ms=6, mew=0.4,
        transform=axis.get_xaxis_transform(), clip_on=False,
    )  # fmt: skip
    if len(some) < len(levels):
        axis.plot([], color=MUTED, lw=0.5, label=f"{len(levels) - len(some)} others")
    if len(levels) > 1:
        add_legend(axis)


def draw_levels(axis: Any, effect: Effect, limits: Limits, unit: str) -> None:
    """Draw a bar for each level, with its bounds; to the side if names are long."""
    (levels,) = effect.axes
    positions = np.arange(len(levels.points))
    if len(positions) > MAX_LABELS:
        draw_many_levels(axis, effect, limits, unit)
        return
    labels = labels_of(levels, "\n")
    letters = [1 + max(map(len, label.split("\n"))) for label in labels]
    upright = sum(letters) <= UPRIGHT  # next to each other
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
        axis.set_xticks(positions, labels, fontsize=SMALL)
    else:
        axis.set_xlim(limits)
        name_bars(axis, labels_of(levels, ", "))


def draw_many_levels(axis: Any, effect: Effect, limits: Limits, unit: str) -> None:
    """Draw a point for each level in ascending order, and name the levels at the ends.

    The ends are free above the least and below the greatest effects.
    """
    (levels,) = effect.axes
    order, positions = np.argsort(effect.values), np.arange(len(effect.values))
    axis.axhline(0, color="0.85", lw=0.8, zorder=0)
    if effect.lower is not None and effect.upper is not None:
        bounds = effect.lower[order], effect.upper[order]
        axis.vlines(positions, *bounds, color=MUTED, lw=0.8, zorder=1)
    axis.plot(positions, effect.values[order], ".", color=LINE, ms=4)
    names = labels_of(levels, ", ")
    least, greatest = order[:EXTREMES], order[: -EXTREMES - 1 : -1]
    for some, title, (x, y), (ha, va) in (
        (greatest, "greatest", (0.02, 1), ("left", "top")),
        (least, "least", (0.98, 0), ("right", "bottom")),
    ):
        text = "\n".join([f"{title}:", *(names[j] for j in some)])
        place = {"ha": ha, "va": va, "transform": axis.transAxes}
        axis.text(x, y, text, fontsize=SMALL - 2, **place)
    axis.set_ylim(limits)
    axis.set_xticks([])
    axis.set_xlabel(f"{len(positions)} levels, in ascending order", fontsize=SMALL)
    axis.set_ylabel(unit, fontsize=SMALL)


def draw_surface(axis: Any, effect: Effect, largest: float, unit: str) -> None:
    """Draw a surface as colours from -largest to largest, where there are data."""
    x, y = effect.axes
    scale = largest or 1.0
    if x.is_factor:
        filled = draw_table(axis, effect, scale)
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
        axis.set(xlim=ends_of(corners[:, 0]), ylim=ends_of(corners[:, 1]))
    bar = axis.figure.colorbar(filled, ax=axis, ticks=pyplot().MaxNLocator(5))
    bar.ax.tick_params(labelsize=SMALL - 1)
    bar.set_label(unit, fontsize=SMALL - 1)


def ends_of(values: NDArray[np.float64]) -> Limits:
    """The least and the greatest value, with a margin."""
    margin = MARGIN * float(np.ptp(values)) or 1.0
    return float(values.min()) - margin, float(values.max()) + margin


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


def draw_table(axis: Any, effect: Effect, scale: float) -> Any:
    """Draw the effect of two factors as cells; the names across are the shorter."""
    sides = [
        [shortened(str(level), CELL_LETTERS) for level in levels.points]
        for levels in effect.axes
    ]
    letters = [
        len(names) + sum(map(len, names)) if len(names) <= MAX_CELLS else 0
        for names in sides
    ]
    across, down = np.argsort(letters, kind="stable").tolist()
    values = effect.values if across == 1 else effect.values.T
    image = axis.imshow(values, cmap=DIVERGING, vmin=-scale, vmax=scale, aspect="auto")
    is_wide = letters[across] > UPRIGHT_IN_TABLE
    for side, j in ((axis.xaxis, across), (axis.yaxis, down)):
        name, count = name_of(effect.axes[j].name), len(sides[j])
        many = f" ({count} levels)" if count > MAX_CELLS else ""
        side.set_label_text(f"{name}{many}", fontsize=SMALL)
        side.set_ticks([])
    if len(sides[across]) <= MAX_CELLS:
        places = np.arange(len(sides[across]))
        axis.set_xticks(
            places, sides[across], rotation=90 * is_wide, fontsize=SMALL - 2
        )
    if len(sides[down]) <= MAX_CELLS:
        name_bars(axis, sides[down], below=0.4 * is_wide)
    return image


def labels_of(levels: Axis, between: str) -> list[str]:
    """The names of levels with their numbers of rows; long names are shortened."""
    pairs = zip(levels.points, levels.counts, strict=True)
    return [f"{shortened(str(level))}{between}n={count}" for level, count in pairs]


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
    fixed = [named_value(name, value) for name, value in effect.fixed.items()]
    return f"{title} ({', '.join(fixed)})" if fixed else title


def name_of(name: str | int) -> str:
    """The name of a feature; x0, x1, .. for the columns of a matrix."""
    return name if isinstance(name, str) else f"x{name}"


def named_value(name: str | int, value: Any) -> str:
    """A value of a feature, as ``age = 63``."""
    text = f"{value:.4g}" if isinstance(value, float) else value
    return f"{name_of(name)} = {text}"


def limits_of(effects: Sequence[Effect]) -> Limits:
    """The limits of a scale that shows all that is drawn of some effects.

    The bounds of a map are not drawn, and its values only where there are data.
    """
    drawn: list[Any] = []
    for effect in effects:
        if is_surface(effect):
            drawn.append(values_with_data(effect))
        else:
            drawn += [effect.values, effect.lower, effect.upper]
    return ends_of(np.concatenate([np.ravel(a) for a in drawn if a is not None]))


# ---- panels --------------------------------------------------------------------------


LETTERS = 0.45
"""The share of the height of a panel that names above each other may have."""

WIDTH, HEIGHT = 2.7, 2.3
"""The size of a panel in inches."""

POINTS = 72
"""The points of an inch."""

TITLE, SMALL = 10, 8
"""The sizes of the letters of titles, and of everything else."""

LONGEST, LINE_LENGTH = 30, 20
"""The most letters of a name, and of a line of it."""

FEW = 8
"""The most names above each other that may have several lines."""

LINE = "C0"
ACCENT = "C3"
MUTED = "0.75"

Floats = NDArray[np.float64]


def pyplot() -> Any:
    """matplotlib.pyplot; ImportError that says what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plot needs matplotlib: pip install matplotlib") from error
    return plt


def new_panels(count: int, title: str = "", scale: float = 1) -> tuple[Any, list[Any]]:
    """A figure, and its panels in rows that leave few cells empty.

    Every panel has a cell of its own, so that the names in one panel do not take room
    from the panels above and below it.
    """
    columns = min((4, 3), key=lambda columns: -count % columns)
    if count <= 4:
        columns = count if count < 4 else 2
    rows = ceil_div(count, columns)
    figure = pyplot().figure(
        figsize=(scale * WIDTH * columns, scale * HEIGHT * rows), layout="constrained"
    )
    cells = figure.subfigures(rows, columns, squeeze=False).ravel()[:count]
    panels = [cell.subplots() for cell in cells]
    for axis in panels:
        axis.tick_params(labelsize=SMALL)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=TITLE)
    return figure, panels


def set_labels(axis: Any, title: str = "", x: str = "", y: str = "") -> None:
    """Set the title of a panel and the labels of its axes."""
    axis.set_title(title, fontsize=TITLE)
    axis.set_xlabel(x, fontsize=SMALL)
    axis.set_ylabel(y, fontsize=SMALL)


def add_legend(axis: Any) -> None:
    """Add a legend to the right of a panel, where it hides nothing."""
    axis.legend(
        fontsize=SMALL - 1, frameon=False, handlelength=1, labelspacing=0.2,
        loc="upper left", bbox_to_anchor=(1, 1), borderaxespad=0,
    )  # fmt: skip


def draw_bars(axis: Any, names: Sequence[str], lengths: Floats, colors: Any) -> None:
    """Draw named bars from top to bottom."""
    positions = np.arange(len(names))
    axis.barh(positions, lengths, color=colors)
    name_bars(axis, names)


def name_bars(axis: Any, names: Sequence[str], below: float = 0) -> None:
    """Name the bars that lie above each other, the first at the top.

    `below` is the share of the height that the names below the panel need.
    """
    few = len(names) <= FEW
    labels = [fill(name, LINE_LENGTH) if few else name for name in names]
    axis.set_yticks(np.arange(len(names)), labels)
    lines = len(names) * max((label.count("\n") + 1 for label in labels), default=1)
    room = (1 - below) * LETTERS * POINTS * axis.figure.bbox.height / axis.figure.dpi
    axis.tick_params(axis="y", labelsize=min(SMALL, room / max(1, lines)))
    axis.set_ylim(len(names) - 0.5, -0.5)


def shortened(name: str, longest: int = LONGEST) -> str:
    """The name; its beginning and three points if it is long.

    Examples
    --------
    >>> shortened("a name that is longer than all of the others")
    'a name that is longer than...'
    """
    return name if len(name) <= longest else f"{name[: longest - 3].rstrip()}..."
