"""The figures: a model, quantiles, survival, stability, explanations, diagnostics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, as_array, on_host
from .._data.inputs import one_per_row
from .._terms.frame import Factor, Frame, Name, values_on_host
from .draw import (
    ACCENT,
    LINE,
    MUTED,
    Limits,
    add_legend,
    draw_bars,
    draw_effect,
    is_surface,
    limits_of,
    name_bars,
    name_of,
    named_value,
    new_panels,
    set_labels,
    titles_of,
)
from .effects import POINTS, Effect, effect_of

MAX_EFFECTS = 24
"""The most effects that are drawn, beginning with the largest reduction of the risk."""

MAX_BARS = 12
"""The most learners whose reduction of the risk is drawn."""

STEEP = 30
"""A risk that falls by more than this factor is drawn on a logarithmic scale."""

Floats = NDArray[np.float64]


def plot(
    model: Any,
    learners: Sequence[int | str] | None,
    fit: int,
    reductions: Floats,
    cv: Any,
    samples: Any,
    level: float,
    share_scale: bool,
) -> Any:
    """The figure of a model; see `BoostedGAM.plot`."""
    path = model.paths_[fit]
    risk = model.paths_[fit if model.family_.predictors == 1 else 0].risk
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


def draw_risk(axis: Any, risk: Floats, cv: Any) -> None:
    """Draw the mean loss of the data by iteration, and of rows left out of folds."""
    axis.plot(risk, color=LINE, label="training")
    set_labels(axis, "risk", "iteration", "mean loss")
    if cv is not None:
        draw_folds(axis, cv)
    set_scale(axis, risk)


def draw_folds(axis: Any, risks: Any) -> None:
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


def plot_cross_validation(risks: Any) -> Any:
    """The figure of a cross-validation; see `CrossValidation.plot`."""
    figure, (axis,) = new_panels(1, scale=1.8)
    draw_folds(axis, risks)
    set_scale(axis, risks.mean)
    return figure


MOST_DOTS = 5000
"""The most rows that are drawn."""

MAX_FEATURES = 3
"""The most features whose values name a row."""

MOST_FREQUENT = 30
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


def plot_stability(selection: Any) -> Any:
    """The figure of a stability selection; see `StabilitySelection.plot`."""
    figure, (paths, bars) = new_panels(2, scale=1.7)
    for path, is_selected in zip(selection.paths.T, selection.support, strict=True):
        color, order = (LINE, 2) if is_selected else (MUTED, 1)
        paths.plot(path, color=color, lw=order, zorder=order)
    paths.axhline(selection.cutoff, color=ACCENT, ls="--", lw=0.8)
    set_labels(paths, "", "iteration", "selection probability")
    paths.set_ylim(0, 1.02)
    last = selection.paths[-1]
    some = np.argsort(-last, kind="stable")[:MOST_FREQUENT]
    colors = [LINE if selection.support[j] else MUTED for j in some]
    draw_bars(bars, [selection.names[j] for j in some], last[some], colors)
    bars.axvline(selection.cutoff, color=ACCENT, ls="--", lw=0.8)
    bars.set_xlim(0, 1.02)
    set_labels(bars, f"cutoff {selection.cutoff:.3g}, PFER <= {selection.pfer:.3g}")
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
    for j in order[:MOST_CONTRIBUTIONS]:  # as in age = 63, sex = f
        read = explained.read[j]
        named = (named_value(name, explained.columns[name][row]) for name in read)
        bars.append((", ".join(named), float(values[j])))
    if rest := order[MOST_CONTRIBUTIONS:].tolist():
        bars.append((f"{len(rest)} others", float(values[rest].sum())))
    return [name for name, _ in bars], np.array([value for _, value in bars])


# ---- does a model fit? ---------------------------------------------------------------


MAX_PATHS = 10
"""The most learners whose paths have a colour and a name."""


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
