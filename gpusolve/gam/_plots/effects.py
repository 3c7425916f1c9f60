"""The effects of a fitted model on a grid, to be drawn or tabulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import on_host
from .._terms.frame import Level, Name
from .._terms.linear import Linear
from .._terms.spline import Spline
from .._terms.term import Pair, Single, Term

POINTS = 200
"""The number of points of a curve."""

MAP_POINTS = 60
"""The number of points along each side of a map."""

Floats: TypeAlias = NDArray[np.float64]
Columns: TypeAlias = dict[Name, NDArray[Any]]


class HasEffects(Protocol):
    """What an effect needs of a fitted model; see `BoostedGAM`."""

    terms_: list[Term]

    def partial_effect(self, learner: int, x: Any, *, fit: int = 0) -> Any: ...
    def _rug_of(self, index: int) -> Columns: ...


class Samples(Protocol):
    """What the bounds of an effect need; see `EffectBootstrap`."""

    def interval(
        self, learner: int, x: Any, level: float, *, fit: int = 0, center: bool = True
    ) -> tuple[Floats, Floats]: ...


@dataclass(frozen=True, eq=False)
class Axis:
    """A feature along which an effect is shown.

    Attributes
    ----------
    name : str or int
    points : (p,) array
        Numbers, or the levels of a factor.
    rug : (r,) array
        Its values in some rows of the training data.
    is_factor : bool
    """

    name: Name
    points: NDArray[Any]
    rug: NDArray[Any]
    is_factor: bool


@dataclass(frozen=True, eq=False)
class Effect:
    """The effect of one learner on a grid of one or two features.

    Attributes
    ----------
    label : str
        The learner.
    axes : tuple of Axis
        One or two; numeric ones come first.
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
    model: HasEffects,
    learner: int,
    samples: Samples | None = None,
    level: float = 0.95,
    fit: int = 0,
) -> Effect:
    """The effect of a learner over the ranges of its features.

    Two features vary at most, numeric ones first; others are fixed at their median, or
    at their most frequent level that has an effect. A numeric feature that multiplies
    the effect (``by=``) is fixed at 1: the effect is its coefficient.

    Parameters
    ----------
    model : BoostedGAM or BoostedGAMClassifier
    learner : int
    samples : EffectBootstrap, optional
        For bounds.
    level : float, optional
        The share of the samples between the bounds.
    fit : int, optional
        The index of the class, for a classifier of several classes.

    Returns
    -------
    Effect
    """
    term = model.terms_[learner]
    rug = model._rug_of(learner)
    known = known_rows(rug)
    levels, multipliers = known_levels(term), multipliers_of(term)
    others = [name for name in term.columns if name not in multipliers]
    shown = sorted(others, key=lambda name: name in levels)[:2]
    count = MAP_POINTS if len(shown) == 2 else POINTS
    axes = tuple(axis_of(term, name, known[name], count) for name in shown)
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
    drawn = [one.reshape(shape) for one in (values, *bounds)]
    return Effect(term.label, axes, multipliers, fixed, *drawn)


def axis_of(term: Term, name: Name, rug: NDArray[Any], count: int) -> Axis:
    """The range of a feature in `count` points, or all levels."""
    levels = known_levels(term).get(name)
    if levels is not None:
        points = np.empty(len(levels), object)
        points[:] = levels
        return Axis(name, points, rug, True)
    lower, upper = known_ranges(term).get(name, (rug.min(), rug.max()))
    return Axis(name, np.linspace(lower, upper, count), rug, False)


def known_rows(rug: Columns) -> Columns:
    """The rows without missing values, which are None or NaN."""
    known = [
        np.array([value is not None and value == value for value in column.tolist()])
        for column in rug.values()
    ]
    kept = np.logical_and.reduce(known)
    return {name: column[kept] for name, column in rug.items()}


def grid(axes: tuple[Axis, ...], fixed: dict[Name, Any]) -> Columns:
    """All points of the axes as columns, with the other features fixed."""
    mesh = np.meshgrid(*(axis.points for axis in axes), indexing="ij")
    at = {axis.name: one.ravel() for axis, one in zip(axes, mesh, strict=True)}
    return at | {name: np.full(mesh[0].size, value) for name, value in fixed.items()}


def typical(term: Term, name: Name, values: NDArray[Any]) -> Any:
    """The median of numbers, or the most frequent level that has an effect."""
    levels = known_levels(term).get(name)
    if levels is None:
        return float(np.median(values))
    first = 1 if name in references_of(term) else 0
    return max(levels[first:], key=values.tolist().count)


# ---- what terms read -----------------------------------------------------------------


def known_levels(term: Term) -> dict[Name, tuple[Level, ...]]:
    """The levels of the factors that a learned term reads."""
    if isinstance(term, Pair):
        return known_levels(term.left) | known_levels(term.right)
    found = {}
    if isinstance(term, Linear) and term.found_levels is not None:
        found[term.covariates[0]] = term.found_levels
    if isinstance(term, Single) and term.by is not None and term.by_levels is not None:
        found[term.by] = term.by_levels
    return found


def references_of(term: Term) -> set[Name]:
    """The factors whose first level has no effect: those of ``by=``."""
    if isinstance(term, Pair):
        return references_of(term.left) | references_of(term.right)
    return {term.by} if isinstance(term, Single) and term.by is not None else set()


def known_ranges(term: Term) -> dict[Name, tuple[float, float]]:
    """The ranges of the numeric features of splines in a learned term."""
    if isinstance(term, Pair):
        return known_ranges(term.left) | known_ranges(term.right)
    if isinstance(term, Spline) and term.ends is not None:
        return dict(zip(term.covariates, term.ends, strict=True))
    return {}


def multipliers_of(term: Term) -> tuple[Name, ...]:
    """The numeric features that only multiply the effect of others."""
    found: tuple[Name, ...] = ()
    if isinstance(term, Pair):
        found = multipliers_of(term.left) + multipliers_of(term.right)
    elif isinstance(term, Single) and term.by is not None and term.by_levels is None:
        found = (term.by,)
    return tuple(name for name in dict.fromkeys(found) if name not in term.covariates)
