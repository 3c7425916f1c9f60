"""Pictures that show whether a model fits: calibration, residuals, paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .draw import LINE, MUTED, add_legend, new_panels, set_labels

MAX_PATHS = 10
"""The most learners whose paths have a colour and a name."""

Floats = NDArray[np.float64]


class Bins(NamedTuple):
    """Groups of rows with similar predictions, (groups,) each.

    Attributes
    ----------
    predicted, observed : array
        The means of the predictions and of the response.
    lower, upper : array
        The bounds of the mean of the response.
    """

    predicted: Floats
    observed: Floats
    lower: Floats
    upper: Floats


def bins_of(predicted: Floats, observed: Floats, count: int, level: float) -> Bins:
    """At most `count` bins of about equal numbers of rows; ties are not divided.

    The intervals are Wilson's for a response that is 0 or 1, else by the standard error
    of the mean.
    """
    shares = np.arange(1, count) / count
    from scipy.special import ndtri

    edges = np.unique(np.quantile(predicted, shares, method="inverted_cdf"))
    group = np.searchsorted(edges, predicted, side="left")
    _, group, rows = np.unique(group, return_inverse=True, return_counts=True)

    def mean_of(values: Floats) -> Floats:
        return np.bincount(group, values) / rows

    mean, z = mean_of(observed), -ndtri((1 - level) / 2)
    if ((observed == 0) | (observed == 1)).all():
        shrunk = 1 + z * z / rows
        middle = (mean + z * z / (2 * rows)) / shrunk
        variance = mean * (1 - mean) + z * z / (4 * rows)
        half = z * np.sqrt(variance / rows) / shrunk
    else:
        squares = mean_of((observed - mean[group]) ** 2)
        middle, half = mean, z * np.sqrt(squares / np.maximum(rows - 1, 1))
    return Bins(mean_of(predicted), mean, middle - half, middle + half)


def plot_bins(bins: Sequence[Bins], names: Sequence[str], title: str) -> Any:
    """The figure of observed means against predictions."""
    figure, (axis,) = new_panels(1, title, scale=1.6)
    ends = [
        f(np.concatenate([each.predicted for each in bins])) for f in (np.min, np.max)
    ]
    axis.plot(ends, ends, color=MUTED, lw=1, zorder=0)
    for j, (each, name) in enumerate(zip(bins, names, strict=True)):
        color = f"C{j % 10}"
        axis.plot(
            each.predicted, each.observed, "o-", ms=3, lw=0.8, color=color, label=name
        )
        axis.vlines(each.predicted, each.lower, each.upper, color=color, lw=0.8)
    set_labels(axis, "", "predicted mean", "observed mean")
    if len(bins) > 1:
        add_legend(axis)
    return figure


def plot_normal(residuals: Floats, title: str) -> Any:
    """The figure of normal residuals: quantiles, and their distance from the normal."""
    from scipy.special import ndtri

    figure, (quantiles, worm) = new_panels(2, title, scale=1.5)
    n = len(residuals)
    shares = (np.arange(n) + 0.5) / n
    normal, found = ndtri(shares), np.sort(residuals)
    density = np.exp(-(normal**2) / 2) / np.sqrt(2 * np.pi)
    band = -ndtri(0.025) * np.sqrt(shares * (1 - shares) / n) / density
    for axis, line in ((quantiles, normal), (worm, np.zeros(n))):
        axis.fill_between(
            normal, line - band, line + band, color=MUTED, alpha=0.4, lw=0
        )
        axis.plot(normal, line, color=MUTED, lw=0.8)
    quantiles.plot(normal, found, ".", ms=3, color=LINE)
    worm.plot(normal, found - normal, ".", ms=3, color=LINE)
    set_labels(quantiles, "quantiles", "normal quantile", "residual")
    set_labels(worm, "worm plot", "normal quantile", "residual - normal quantile")
    return figure


def plot_sizes(sizes: dict[str, Floats], title: str, unit: str) -> Any:
    """The figure of the sizes of effects by iteration, the largest with their names."""
    figure, (axis,) = new_panels(1, title, scale=1.8)
    order = sorted(sizes, key=lambda name: -sizes[name][-1])
    for name in order[MAX_PATHS:]:
        axis.plot(sizes[name], color=MUTED, lw=0.6)
    for j, name in enumerate(order[:MAX_PATHS]):
        axis.plot(sizes[name], color=f"C{j % 10}", label=name)
    set_labels(axis, "", "iteration", f"standard deviation of the {unit}")
    if sizes:
        add_legend(axis)
    return figure
