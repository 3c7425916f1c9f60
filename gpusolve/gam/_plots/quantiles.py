"""Quantiles of a distribution over a feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..._device.arrays import on_host
from .._data.inputs import one_per_row
from .._terms.frame import Factor, Frame, Name, values_on_host
from .draw import name_of
from .effects import POINTS
from .panels import LINE, MUTED, new_panels, set_labels

MOST_DOTS = 5000
"""The most rows that are drawn."""


class HasQuantiles(Protocol):
    """What the picture needs of a fitted model; see `BoostedDistribution`."""

    def predict_quantile(self, X: Any, q: Any) -> Any: ...


def plot_quantiles(
    model: HasQuantiles, frame: Frame, y: Any, feature: Name | None, q: Sequence[float]
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
