"""The effects of a fitted model on a grid, to be drawn or tabulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import on_host
from .._terms.frame import Name, are_present
from .._terms.term import Term
from .fitted import FittedModel

POINTS = 200
"""The number of points of a curve."""

MAP_POINTS = 60
"""The number of points along each side of a map."""

Floats: TypeAlias = NDArray[np.float64]
Columns: TypeAlias = dict[Name, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Axis:
    """A feature along which an effect is shown.

    The points are numbers, or the levels of a factor, (p,), with the number of rows of
    each level; the rug has the values of the feature in some rows of the training data
    within the range that is shown, (r,).
    """

    name: Name
    points: NDArray[Any]
    rug: NDArray[Any]
    is_factor: bool
    counts: tuple[int, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether the points are whole numbers: nothing was measured between them."""
        return not self.is_factor and bool((self.points == np.rint(self.points)).all())


@dataclass(frozen=True, eq=False)
class Effect:
    """The effect of a learner on a grid of one or two features.

    Attributes
    ----------
    label : str
        The learner.
    axes : tuple of Axis
        One or two; numeric features come first.
    multipliers : tuple of str or int
        The numeric features that only multiply the effect. They are 1 here.
    fixed : dict
        The values of the other features that do not vary.
    values : (p,) or (p, q) array
        The effect, centred over the rug; with multipliers it is their coefficient, and
        not centred.
    lower, upper : array or None
        Bounds of the effect.
    """

    label: str
    axes: tuple[Axis, ...]
    multipliers: tuple[Name, ...]
    fixed: dict[Name, Any]
    values: Floats
    lower: Floats | None = None
    upper: Floats | None = None


def effect_of(
    model: FittedModel,
    learner: int,
    samples: Any = None,
    level: float = 0.95,
    fit: int = 0,
) -> Effect:
    """The effect of a learner over the ranges of its features.

    Two features vary at most, numeric features first. The others are fixed at their
    median, or at their most frequent level that has an effect. A numeric feature that
    multiplies the effect (``by=``) is fixed at 1: the effect is its coefficient. For
    `samples`, `level` and `fit` see `BoostedGAM.plot`.
    """
    term = model.terms_[learner]
    rug = model._rug_of(learner)
    within = [
        (rug[name] >= lower) & (rug[name] <= upper)
        for name, (lower, upper) in term.ranges.items()
    ]
    kept = np.logical_and.reduce([*map(are_present, rug.values()), *within])
    known = {name: column[kept] for name, column in rug.items()}
    levels, multipliers = term.known_levels, term.multipliers
    others = [name for name in term.columns if name not in multipliers]
    shown = sorted(others, key=lambda name: name in levels)[:2]
    count = MAP_POINTS if len(shown) == 2 else POINTS
    axes = tuple(axis_of(model, term, name, known[name], count) for name in shown)
    rest = [name for name in others if name not in shown]
    fixed = {name: typical(term, name, known[name]) for name in rest}
    at = grid(axes, fixed | dict.fromkeys(multipliers, 1.0))
    values = on_host(model.partial_effect(learner, at, fit=fit))
    if not multipliers:
        values = values - on_host(model.partial_effect(learner, rug, fit=fit)).mean()
    bounds: tuple[Floats, ...] = ()
    if samples is not None:
        bounds = samples.interval(learner, at, level, fit=fit, center=not multipliers)
    shape = tuple(len(axis.points) for axis in axes)
    drawn = [surface.reshape(shape) for surface in (values, *bounds)]
    return Effect(term.label, axes, multipliers, fixed, *drawn)


def axis_of(
    model: FittedModel, term: Term, name: Name, rug: NDArray[Any], count: int
) -> Axis:
    """The range of a feature in `count` points or whole numbers; or all levels."""
    levels = term.known_levels.get(name)
    if levels is not None:
        rows = model.level_counts_[name]
        counts = tuple(rows.get(level, 0) for level in levels)
        return Axis(name, np.array(levels, object), rug, True, counts)
    lower, upper = term.ranges.get(name, (rug.min(), rug.max()))
    whole = np.arange(np.ceil(lower), np.floor(upper) + 1)
    if (rug == np.rint(rug)).all() and 1 < len(whole) <= count:
        return Axis(name, whole, rug, False)
    return Axis(name, np.linspace(lower, upper, count), rug, False)


def grid(axes: tuple[Axis, ...], fixed: dict[Name, Any]) -> Columns:
    """All points of the axes as columns, with the other features fixed."""
    mesh = np.meshgrid(*(axis.points for axis in axes), indexing="ij")
    at = {axis.name: points.ravel() for axis, points in zip(axes, mesh, strict=True)}
    return at | {name: np.full(mesh[0].size, value) for name, value in fixed.items()}


def typical(term: Term, name: Name, values: NDArray[Any]) -> Any:
    """The median of numbers, or the most frequent level that has an effect."""
    levels = term.known_levels.get(name)
    if levels is None:
        return float(np.median(values))
    # The first level of ``by=`` has no effect.
    first = any(part.by == name for part in term.parts)
    return max(levels[first:], key=values.tolist().count)
