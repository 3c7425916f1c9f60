"""Plots of a fitted model. matplotlib is imported when they are drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import compress
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._boosting.path import Path
from .effects import Axis, Effect, HasEffects, Samples, effect_of

COLUMNS = 4
"""The number of plots in a row."""

MAX_EFFECTS = 24
"""The most effects that are drawn, beginning with the largest reduction of the risk."""

SHARED = 5
"""Effects share a scale if their heights differ by at most this factor."""

MARGIN = 0.05
"""The margin of a scale, as a share of its height."""

MAX_LABELS = 12
"""The most levels that are named."""

CONTOURS = 12
"""The number of colours of a map."""

DIVERGING = "RdBu_r"
"""The colours of a map, which differ for positive and negative effects."""

Floats: TypeAlias = NDArray[np.float64]
Limits: TypeAlias = tuple[float, float]


class HasPaths(HasEffects, Protocol):
    """What a plot needs of a fitted model; see `BoostedGAM`."""

    paths_: list[Path]

    def _index_of(self, learner: int | str) -> int: ...
    def _reductions_of(self, fit: int) -> Floats: ...
    def _risk_of(self, fit: int) -> Floats: ...


class Risks(Protocol):
    """What the plot of a cross-validation needs; see `CrossValidation`."""

    @property
    def risk(self) -> Floats: ...
    @property
    def mean(self) -> Floats: ...
    @property
    def best_iteration(self) -> int: ...


# ---- the effect of a learner ---------------------------------------------------------


def draw_effect(axis: Any, effect: Effect, limits: Limits) -> None:
    """Draw an effect of any kind on a scale with the given limits."""
    if is_surface(effect):
        draw_surface(axis, effect, max(map(abs, limits)))
        return
    axis.axhline(0, color="0.85", lw=0.8)
    if effect.axes[0].is_factor:
        draw_factor(axis, effect)
    else:
        draw_curves(axis, effect)
    axis.set_ylim(limits)


def draw_curves(axis: Any, effect: Effect) -> None:
    """Draw a curve, or a curve for each level, with bounds and a rug of the data."""
    x, *groups = effect.axes
    levels = groups[0].points if groups else [None]
    shape = len(x.points), len(levels)
    for j, curve in enumerate(effect.values.reshape(shape).T):
        axis.plot(x.points, curve, color=f"C{j % 10}", label=levels[j])
    if effect.lower is not None and effect.upper is not None:
        lower, upper = effect.lower.reshape(shape), effect.upper.reshape(shape)
        for j, bounds in enumerate(zip(lower.T, upper.T, strict=True)):
            axis.fill_between(x.points, *bounds, color=f"C{j % 10}", alpha=0.2, lw=0)
    axis.plot(
        x.rug, np.zeros_like(x.rug), "|", color="0.4", ms=6, mew=0.4,
        transform=axis.get_xaxis_transform(), clip_on=False,
    )  # fmt: skip
    if 1 < len(levels) <= MAX_LABELS:
        axis.legend(fontsize=7, frameon=False, handlelength=1, labelspacing=0.2)


def draw_factor(axis: Any, effect: Effect) -> None:
    """Draw a bar for each level, with its bounds."""
    (levels,) = effect.axes
    positions = np.arange(len(levels.points))
    axis.bar(positions, effect.values, width=0.7, color="C0")
    if effect.lower is not None:
        axis.vlines(positions, effect.lower, effect.upper, color="0.25", lw=0.8)
    name_levels(axis.xaxis, levels)


def draw_surface(axis: Any, effect: Effect, largest: float) -> None:
    """Draw a surface as colours from -largest to largest, with the data's positions."""
    x, y = effect.axes
    scale = largest or 1.0
    if x.is_factor:
        filled = axis.imshow(
            effect.values.T, cmap=DIVERGING, vmin=-scale, vmax=scale,
            origin="lower", aspect="auto",
        )  # fmt: skip
        name_levels(axis.xaxis, x)
        name_levels(axis.yaxis, y)
    else:
        steps = np.linspace(-scale, scale, CONTOURS + 1)
        filled = axis.contourf(
            x.points, y.points, effect.values.T, steps, cmap=DIVERGING
        )
        axis.plot(x.rug, y.rug, ".", color="0.2", ms=1.5, alpha=0.6)
    bar = axis.figure.colorbar(filled, ax=axis, ticks=pyplot().MaxNLocator(5))
    bar.ax.tick_params(labelsize=7)


def name_levels(side: Any, levels: Axis) -> None:
    """Name the levels at an axis of a plot; or count them if they are many."""
    count = len(levels.points)
    if count > MAX_LABELS:
        side.set_ticks([])
        side.set_label_text(f"{count} levels", fontsize=8)
    else:
        side.set_ticks(np.arange(count), [str(level) for level in levels.points])
        side.set_tick_params(labelsize=min(9, 50 / count))


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


# ---- scales --------------------------------------------------------------------------


def shared_limits(effects: Sequence[Effect]) -> Floats:
    """The limits of the scale of each effect, (n, 2); similar heights share them.

    The highest effect shares its scale with all effects at least a fifth (`SHARED`) as
    high; the highest of the remaining effects does the same, and so on. Thus effects
    are comparable where possible, and no effect is flattened.
    """
    extents = np.reshape([extent_of(effect) for effect in effects], (-1, 2))
    heights = np.ptp(extents, axis=1)
    limits = np.empty((len(effects), 2))
    waiting = np.ones(len(effects), bool)
    while waiting.any():
        group = waiting & (SHARED * heights >= heights[waiting].max())
        lower, upper = extents[group, 0].min(), extents[group, 1].max()
        margin = MARGIN * (upper - lower) or 1.0
        limits[group] = lower - margin, upper + margin
        waiting &= ~group
    return limits


def extent_of(effect: Effect) -> Limits:
    """The least and the largest value of an effect and its bounds."""
    given = (effect.values, effect.lower, effect.upper)
    drawn = np.stack([surface for surface in given if surface is not None])
    return float(drawn.min()), float(drawn.max())


# ---- risk ----------------------------------------------------------------------------


def draw_risk(axis: Any, risk: Floats) -> None:
    """Draw the risk after each iteration."""
    axis.plot(risk, color="C3")
    axis.set_title("risk", fontsize=10)
    axis.set_xlabel("iteration")
    if risk.min() > 0:
        axis.set_yscale("log")


def draw_folds(axis: Any, risks: Risks) -> None:
    """Draw the risk of each fold, their mean, and where it is least."""
    axis.plot(risks.risk.T, color="0.8", lw=0.6)
    axis.plot(risks.mean, color="C3")
    best = risks.best_iteration
    axis.axvline(best, color="0.3", lw=0.8, ls="--")
    axis.set_title(f"risk of rows left out: least after {best}", fontsize=10)
    axis.set_xlabel("iteration")


def draw_bars(
    axis: Any, names: Sequence[str], lengths: Floats, colors: Any, height: float
) -> None:
    """Draw named bars from top to bottom; `height` limits the size of their names."""
    positions = np.arange(len(names))
    axis.barh(positions, lengths, color=colors)
    axis.set_yticks(positions, names)
    axis.tick_params(axis="y", labelsize=min(9, height / max(1, len(names))))
    axis.invert_yaxis()


# ---- figures -------------------------------------------------------------------------


def plot(
    model: HasPaths,
    learners: Sequence[int | str] | None = None,
    *,
    cv: Risks | None = None,
    samples: Samples | None = None,
    level: float = 0.95,
    fit: int = 0,
) -> Any:
    """The figure of a model; see `BoostedGAM.plot`."""
    path, reductions = model.paths_[fit], model._reductions_of(fit)
    if learners is None:
        order = np.argsort(-reductions, kind="stable")
        chosen = [j for j in order.tolist() if j in path.selected][:MAX_EFFECTS]
    else:
        chosen = [model._index_of(learner) for learner in learners]
    effects = [effect_of(model, j, samples, level, fit) for j in chosen]
    titles = titles_of(effects)
    figure, cells, bottom = new_figure(len(effects))
    draw_effects(figure, cells, effects, titles)
    others = bottom.subgridspec(1, 2 if cv is None else 3)
    below = [figure.add_subplot(cell) for cell in others]
    draw_risk(below[0], model._risk_of(fit))
    if cv is not None:
        draw_folds(below[1], cv)
    draw_bars(below[-1], titles, reductions[chosen], "0.6", height=120)
    below[-1].set_title("reduction of the risk", fontsize=10)
    return figure


def plot_cross_validation(risks: Risks) -> Any:
    """The figure of a cross-validation; see `CrossValidation.plot`."""
    figure = pyplot().figure(figsize=(6, 4), layout="constrained")
    draw_folds(figure.add_subplot(), risks)
    return figure


def new_figure(effects: int) -> tuple[Any, list[Any], Any]:
    """A figure, the cells of its effects, and the cell below them."""
    rows = math.ceil(effects / COLUMNS)
    figure = pyplot().figure(
        figsize=(2.4 * COLUMNS, 2.6 + 1.9 * rows), layout="constrained"
    )
    heights = [1.9 * rows, 2.6] if rows else [2.6]
    *top, bottom = figure.add_gridspec(len(heights), 1, height_ratios=heights)
    cells = [cell for grid in top for cell in grid.subgridspec(rows, COLUMNS)]
    return figure, cells, bottom


def draw_effects(
    figure: Any, cells: list[Any], effects: Sequence[Effect], titles: Sequence[str]
) -> None:
    """Draw effects in rows; a scale is not labelled again next to the same scale."""
    surface = np.array([is_surface(effect) for effect in effects], bool)
    limits = np.empty((len(effects), 2))
    for kind in (surface, ~surface):
        limits[kind] = shared_limits([*compress(effects, kind)])
    for j, effect in enumerate(effects):
        axis = figure.add_subplot(cells[j])
        draw_effect(axis, effect, (limits[j, 0], limits[j, 1]))
        axis.set_title(titles[j], fontsize=10)
        axis.tick_params(labelsize=8)
        same = j % COLUMNS and not surface[j - 1 : j + 1].any()
        if same and (limits[j] == limits[j - 1]).all():
            axis.tick_params(labelleft=False)


def pyplot() -> Any:
    """matplotlib.pyplot; ImportError that says what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plot needs matplotlib: pip install matplotlib") from error
    return plt
