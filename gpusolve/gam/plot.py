"""Plots of a fitted model. matplotlib is imported when `plot` is called."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._device.arrays import Array
from .basis import BSplines

POINTS = 200
"""Number of points at which an effect is drawn."""

COLUMNS = 4
"""Number of plots in a row."""

MAX_EFFECTS = 24
"""The most effects that are drawn: those selected most often."""


class FittedModel(Protocol):
    """The attributes of a fitted model that a plot needs; see `BoostedGAM`."""

    basis_: BSplines
    n_features_in_: int
    selected_: NDArray[np.int32]
    risk_: NDArray[np.float64]
    rug_: Array

    def partial_effect(self, feature: int, x: Any) -> Array:
        """The effect of one feature."""


def names_of(model: FittedModel) -> list[str]:
    """The names of the features; x0, x1, ... if they have none."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    return [f"x{feature}" for feature in range(model.n_features_in_)]


def by_frequency(model: FittedModel) -> list[int]:
    """The selected features; those selected most often come first."""
    counts = np.bincount(model.selected_, minlength=model.n_features_in_)
    order = np.argsort(-counts, kind="stable")
    return [int(feature) for feature in order[counts[order] > 0]]


def draw_effect(axis: Any, model: FittedModel, feature: int) -> None:
    """Draw the centred effect over the range of its feature, with a rug of the data."""
    basis = model.basis_
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


def draw_risk(axis: Any, model: FittedModel) -> None:
    """Draw the risk after each iteration."""
    axis.plot(model.risk_, color="C3")
    axis.set_title("risk", fontsize=10)
    axis.set_xlabel("iteration")
    if model.risk_.min() > 0:
        axis.set_yscale("log")


def draw_frequencies(axis: Any, model: FittedModel, features: list[int]) -> None:
    """Draw how often each of the given features was selected."""
    counts = np.bincount(model.selected_, minlength=model.n_features_in_)
    names = names_of(model)
    axis.barh([names[feature] for feature in features], counts[features], color="0.6")
    axis.invert_yaxis()
    axis.tick_params(axis="y", labelsize=min(9, 120 / max(1, len(features))))
    axis.set_title("times selected", fontsize=10)


def plot(model: FittedModel) -> Any:
    """Draw the selected effects, the risk, and how often each effect was selected.

    Parameters
    ----------
    model : FittedModel

    Returns
    -------
    matplotlib.figure.Figure
        Each effect is centred over the rows whose rug is drawn below it. All effects
        share their scale. At most `MAX_EFFECTS` effects are drawn.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plot needs matplotlib: pip install matplotlib") from error
    features = by_frequency(model)[:MAX_EFFECTS]
    effect_rows = math.ceil(len(features) / COLUMNS)
    figure = plt.figure(
        figsize=(2.4 * COLUMNS, 2.6 + 1.9 * effect_rows), layout="constrained"
    )
    grid = figure.add_gridspec(
        effect_rows + 1, COLUMNS, height_ratios=[1.9] * effect_rows + [2.6]
    )
    shared = None
    for index, feature in enumerate(features):
        cell = grid[divmod(index, COLUMNS)]
        shared = figure.add_subplot(cell, sharey=shared)
        shared.label_outer()
        shared.tick_params(labelbottom=True)
        draw_effect(shared, model, feature)
    draw_risk(figure.add_subplot(grid[-1, : COLUMNS // 2]), model)
    draw_frequencies(figure.add_subplot(grid[-1, COLUMNS // 2 :]), model, features)
    return figure
