"""The figure of a fitted model, and of a cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .draw import (
    ACCENT,
    LINE,
    MUTED,
    Limits,
    draw_bars,
    draw_effect,
    is_surface,
    limits_of,
    new_panels,
    set_labels,
    titles_of,
)
from .effects import Effect, Samples, effect_of

MAX_EFFECTS = 24
"""The most effects that are drawn, beginning with the largest reduction of the risk."""

MAX_BARS = 12
"""The most learners whose reduction of the risk is drawn."""

STEEP = 30
"""A risk that falls by more than this factor is drawn on a logarithmic scale."""

Floats = NDArray[np.float64]


class Risks(Protocol):
    """What the plot of a cross-validation needs; see `CrossValidation`."""

    @property
    def risk(self) -> Floats: ...
    @property
    def mean(self) -> Floats: ...
    @property
    def best_iteration(self) -> int: ...


def plot(
    model: Any,
    learners: Sequence[int | str] | None = None,
    *,
    reductions: Floats,
    risk: Floats,
    cv: Risks | None = None,
    samples: Samples | None = None,
    level: float = 0.95,
    fit: int = 0,
    share_scale: bool = True,
) -> Any:
    """The figure of a model; see `BoostedGAM.plot`."""
    path = model.paths_[fit]
    if learners is None:
        order = np.argsort(-reductions, kind="stable")
        selected = set(path.selected.tolist())
        chosen = [j for j in order.tolist() if j in selected][:MAX_EFFECTS]
    else:
        chosen = [model._index_of(learner) for learner in learners]
    effects = [effect_of(model, j, samples, level, fit) for j in chosen]
    titles, several = titles_of(effects), len(effects) > 1
    figure, panels = new_panels(len(effects) + 1 + several, model._title(fit))
    unit = f"effect on {model._effect_on(fit)}"
    limits = [shared_limits(effects, j, share_scale) for j in range(len(effects))]
    for axis, effect, scale, title in zip(
        panels, effects, limits, titles, strict=False
    ):
        draw_effect(axis, effect, scale, unit)
        set_labels(axis, title, axis.get_xlabel(), axis.get_ylabel())
    draw_risk(panels[len(effects)], risk / model.n_rows_, cv)
    if several:
        some = np.argsort(-reductions[chosen], kind="stable")[:MAX_BARS]
        names = [titles[j] for j in some]
        draw_bars(panels[-1], names, reductions[chosen][some], MUTED)
        set_labels(panels[-1], "importance", "reduction of the mean loss")
    return figure


def shared_limits(effects: Sequence[Effect], j: int, share: bool) -> Limits:
    """The scale of an effect: its own, or of all effects that are drawn alike.

    Coefficients of features that multiply others have their own units and scales.
    """
    effect = effects[j]
    if not share or effect.multipliers:
        return limits_of([effect])
    kind = is_surface(effect)
    return limits_of(
        [each for each in effects if not each.multipliers and is_surface(each) == kind]
    )


# ---- risk ----------------------------------------------------------------------------


def draw_risk(axis: Any, risk: Floats, cv: Risks | None) -> None:
    """Draw the mean loss of the data by iteration, and of rows left out of folds."""
    axis.plot(risk, color=LINE, label="training")
    set_labels(axis, "risk", "iteration", "mean loss")
    if cv is not None:
        draw_folds(axis, cv)
    set_scale(axis, risk)


def draw_folds(axis: Any, risks: Risks) -> None:
    """Draw the risk of each fold, their mean, and where it is least."""
    axis.plot(risks.risk.T, color=MUTED, lw=0.5, zorder=1)
    axis.plot(risks.mean, color=ACCENT, label="left out")
    best = risks.best_iteration
    axis.axvline(best, color="0.3", lw=0.8, ls="--")
    set_labels(axis, f"risk: least after {best}", "iteration", "mean loss")
    axis.legend(fontsize=7, frameon=False)


def set_scale(axis: Any, risk: Floats) -> None:
    """Plain numbers at the axis of a risk; powers of ten if it falls steeply."""
    if risk.min() > 0 and risk.max() > STEEP * risk.min():
        axis.set_yscale("log")
    else:
        axis.ticklabel_format(axis="y", useOffset=False)


def plot_cross_validation(risks: Risks) -> Any:
    """The figure of a cross-validation; see `CrossValidation.plot`."""
    figure, (axis,) = new_panels(1, scale=1.8)
    draw_folds(axis, risks)
    set_scale(axis, risks.mean)
    return figure
