"""Pictures of a fitted model. Needs matplotlib, and imports it when called."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .basis import BSplines

if TYPE_CHECKING:
    from .estimator import BoostedGAM

POINTS = 200
"""At which an effect is drawn."""

COLUMNS = 4
"""Pictures side by side."""

MOST_EFFECTS = 24
"""At most so many effects are drawn, those selected most often."""


def names_of(model: BoostedGAM) -> list[str]:
    """What the features are called."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    return [f"x{feature}" for feature in range(model.n_features_in_)]


def by_frequency(model: BoostedGAM) -> list[int]:
    """The selected features, those selected most often first."""
    counts = np.bincount(model.selected_, minlength=model.n_features_in_)
    order = np.argsort(-counts, kind="stable")
    return [int(feature) for feature in order[counts[order] > 0]]


def draw_effect(axis: Any, model: BoostedGAM, feature: int) -> None:
    """An effect over the range of its feature, centred, above a rug of the data."""
    basis: BSplines = model.basis_
    x = np.linspace(basis.lower[feature], basis.upper[feature], POINTS)
    rug = model.rug_[:, feature].astype(np.float64)
    level = model.partial_effect(feature, rug).mean()
    axis.axhline(0, color="0.85", lw=0.8)
    axis.plot(x, model.partial_effect(feature, x) - level, color="C0")
    axis.plot(
        rug, np.zeros_like(rug), "|", color="0.4", ms=6, mew=0.4,
        transform=axis.get_xaxis_transform(), clip_on=False,
    )  # fmt: skip
    axis.set_title(names_of(model)[feature], fontsize=10)


def draw_risk(axis: Any, model: BoostedGAM) -> None:
    """The risk after each iteration."""
    axis.plot(model.risk_, color="C3")
    axis.set_title("risk", fontsize=10)
    axis.set_xlabel("iteration")
    if model.risk_.min() > 0:
        axis.set_yscale("log")


def draw_frequencies(axis: Any, model: BoostedGAM, features: list[int]) -> None:
    """How often each of some features was selected."""
    counts = np.bincount(model.selected_, minlength=model.n_features_in_)
    names = names_of(model)
    axis.barh([names[feature] for feature in features], counts[features], color="0.6")
    axis.invert_yaxis()
    axis.tick_params(axis="y", labelsize=min(9, 120 / max(1, len(features))))
    axis.set_title("times selected", fontsize=10)


def plot(model: BoostedGAM) -> Any:
    """The effects that were selected, the risk, and how often each was selected.

    Parameters
    ----------
    model : BoostedGAM
        Fitted.

    Returns
    -------
    matplotlib.figure.Figure
        Effects are centred over the rows whose rug is drawn below them, and share
        their scale. Of very many, the most often selected ones are drawn.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plot needs matplotlib: pip install matplotlib") from error
    features = by_frequency(model)[:MOST_EFFECTS]
    effect_rows = math.ceil(len(features) / COLUMNS)
    figure = plt.figure(
        figsize=(2.4 * COLUMNS, 2.6 + 1.9 * effect_rows), layout="constrained"
    )
    grid = figure.add_gridspec(
        effect_rows + 1, COLUMNS, height_ratios=[1.9] * effect_rows + [2.6]
    )
    shared = None
    for place, feature in enumerate(features):
        cell = grid[divmod(place, COLUMNS)]
        shared = figure.add_subplot(cell, sharey=shared)
        shared.label_outer()
        shared.tick_params(labelbottom=True)
        draw_effect(shared, model, feature)
    draw_risk(figure.add_subplot(grid[-1, : COLUMNS // 2]), model)
    draw_frequencies(figure.add_subplot(grid[-1, COLUMNS // 2 :]), model, features)
    return figure
