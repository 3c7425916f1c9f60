"""Several fits to the same rows, with different weights or responses, as a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, namespace, on_host
from ..._device.kernels import Device, device_of
from .._families.family import Family
from .._terms.frame import Frame
from .._terms.spline import far_rows
from .._terms.term import Term
from .path import Path
from .problem import Designs, PreparedLearners, designs_of, prepare

STEP_RULES = ("scaled", "mboost")
"""How far a step goes; see `BoostedGAM`."""


@dataclass(frozen=True)
class Training:
    """The checked data of a fit, on a single device.

    Attributes
    ----------
    frame : Frame
        The covariates of n rows.
    y : (n,) or (F, n) float64 array
        The response, of all fits or of each.
    weights : (n,) float64 array or None
        The weights of the rows; None for ones.
    offset : float, (n,) float64 array or None
        The model before the first step; None for the best constant. A constant may be
        added to a vector. (P, n) if the family has P predictors.
    given : (array, array) or None
        The weights and the response of all rows of X, if rows of weight 0 are left out.
    """

    frame: Frame
    y: Array
    weights: Array | None
    offset: Any
    given: tuple[Array, Array] | None = None

    @property
    def rows(self) -> int:
        """The number n of rows."""
        return int(self.y.shape[-1])

    @property
    def counted_y(self) -> Array:
        """The response of the rows with weight."""
        return self.y if self.weights is None else self.y[..., self.weights > 0]

    @property
    def row_weights(self) -> Array:
        """The weights of the rows, (n,), ones if they are None."""
        given = self.weights
        return namespace(self.y).ones(self.rows) if given is None else given

    @property
    def rows_of_x(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The weights and the response of all rows of X, on the host.

        Of several responses, the class.
        """
        weights, y = map(on_host, self.given or (self.row_weights, self.y))
        return weights, np.asarray(y if y.ndim == 1 else y.argmax(axis=0))

    @property
    def device(self) -> Device | None:
        """The device of all arrays; None for the host."""
        return device_of(self.frame.like)

    def with_weight(self) -> Training:
        """The rows whose weight is not 0."""
        if self.weights is None or bool(self.weights.all()):
            return self
        given = self.weights, self.y
        return replace(self.take(self.weights > 0), given=given)

    def take(self, rows: Any) -> Training:
        """Some of the rows, by an index or a mask."""
        offset = self.offset
        return Training(
            self.frame.take(rows),
            self.y[..., rows],
            None if self.weights is None else self.weights[rows],
            offset[..., rows] if is_vector(offset) else offset,
        )


@dataclass(frozen=True)
class Settings:
    """A model without data.

    Attributes
    ----------
    terms : tuple of Term
        The learners, which know their ranges and levels.
    family : Family
    learning_rate : float
    df_definition : str
        See `smoothing_parameters`.
    missing : str
        See `Term.rows`.
    step_rule : str
        See `BoostedGAM`.
    allowed : (P, K) bool array on the host or None
        The learners of each of P predictors; None if each has all.
    """

    terms: tuple[Term, ...]
    family: Family
    learning_rate: float
    df_definition: str
    missing: str
    step_rule: str
    allowed: NDArray[np.bool_] | None = None

    def designs(self, data: Training) -> Designs:
        """The designs of the learners."""
        return designs_of(self.terms, data.frame, self.missing)

    def far_rows(self, data: Training) -> NDArray[np.bool_]:
        """The rows far outside of the range of a spline, (n,), on the host."""
        return far_rows(self.terms, data.frame, data.rows)


class Fits(NamedTuple):
    """F fits before their first step, which a single loop makes together.

    If the family has P predictors, each is a fit: F is P times the number of models,
    and the predictors of a model follow each other. They share y and all weights.

    Attributes
    ----------
    problem : PreparedLearners
        K learners, prepared for F fits with n rows.
    family : Family
    y : (n,) or (F, n) float64 array
        The response.
    start : (F, 1) or (F, n) float64 array
        The models before the first step.
    learning_rate : float
    out_of_bag : (F, n) array or None
        Weights of the rows for a second risk.
    offset : (F,) array on the host or float
        The intercepts: `start` without the offsets of the rows.
    units : (F,) array on the host or None
        The units of the responses, for scaled steps: see `Family.unit`. None for
        mboost's steps.
    allowed : (P, K) bool array on the host or None
        See `Settings`.
    made : int
        The number of steps that led to `start`.
    """

    problem: PreparedLearners
    family: Family
    y: Array
    start: Array
    learning_rate: float = 0.1
    out_of_bag: Array | None = None
    offset: NDArray[np.float64] | float = 0.0
    units: NDArray[np.float64] | None = None
    allowed: NDArray[np.bool_] | None = None
    made: int = 0

    @property
    def rates(self) -> NDArray[np.float64]:
        """The size of the steps where the curvature is 1, (F,) on the host."""
        units = np.ones(self.problem.fits) if self.units is None else self.units
        return self.learning_rate * units

    def after(self, path: Path) -> Fits:
        """The same fits, which start at the end of a path."""
        xp, rows = namespace(self.start), self.problem.rows
        f = xp.zeros((self.problem.fits, len(rows[0]))) + self.start
        for fit, selected in enumerate(path.selected):
            for j in np.unique(selected[selected >= 0]).tolist():
                coef = path.updates[fit][selected == j].sum(axis=0)
                own = xp.asarray(coef[: rows[j].functions])
                self.problem.designs.add(j, own, f[fit])
        return self._replace(start=f, made=self.made + len(path))


def make_fits(
    settings: Settings,
    data: Training,
    weights: Array | None,
    out_of_bag: Array | None = None,
    designs: Designs | None = None,
) -> Fits:
    """Prepare the learners and the offsets of fits with given weights.

    Offsets and smoothing parameters are computed for each fit; ranges, knots and levels
    are the terms'. The offsets are read from the device.

    Parameters
    ----------
    weights : (n,) or (F, n) array or None
        The weights, which replace the weights of the data. If `data.y` has several
        responses, all fits have the same weights.
    out_of_bag : (n,) or (F, n) array, optional
        See `Fits`; equal weights of all fits may be given once.
    designs : Designs, optional
        The result of `settings.designs(data)`, if there are several batches.
    """
    designs = settings.designs(data) if designs is None else designs
    problem = prepare(designs, weights, df_definition=settings.df_definition)
    if data.y.ndim == 2 and problem.fits == 1:
        problem = problem.repeated(len(data.y))
    xp, family = namespace(data.y), settings.family
    is_scaled = settings.step_rule == "scaled"
    offset = offsets_of(family, data, problem, is_scaled)
    start = xp.asarray(offset)[:, None]
    if is_vector(data.offset):
        models = start.reshape(-1, *data.offset.shape[:-1], 1)
        start = (models + data.offset).reshape(len(start), -1)
    if out_of_bag is not None:
        out_of_bag = xp.broadcast_to(out_of_bag, (problem.fits, data.rows))
    fits = Fits(
        problem,
        family,
        data.y,
        start,
        settings.learning_rate,
        out_of_bag,
        offset,
        units_of(family, data, problem, start) if is_scaled else None,
        settings.allowed,
    )
    return fits if family.predictors == 1 else several(fits)


def several(models: Fits) -> Fits:
    """The fits of all predictors, from the models of a family that has several."""
    predictors, left_out = models.family.predictors, models.out_of_bag
    if left_out is not None:
        left_out = namespace(left_out).repeat(left_out, predictors, axis=0)
    return models._replace(
        problem=models.problem.repeated(predictors),
        out_of_bag=left_out,
        units=None if models.units is None else models.units.repeat(predictors),
    )


def is_vector(offset: Any) -> bool:
    """Whether the model starts with a number for each row."""
    return getattr(offset, "ndim", 0) > 0


def offsets_of(
    family: Family, data: Training, problem: PreparedLearners, is_scaled: bool
) -> NDArray[np.float64]:
    """The constant of each fit before its first step, (F,) on the host.

    The best constant, also in addition to the offsets of the rows; but the given
    constant, and 0 for mboost's steps from the offsets of the rows if there is a single
    predictor.
    """
    if not is_vector(data.offset):
        if data.offset is not None:
            return np.full(problem.fits, data.offset)
        return each_fit(family.offset, data, problem)
    if not is_scaled and family.predictors == 1:
        return np.zeros(problem.fits)
    return each_fit(lambda y, w: family.offset_from(data.offset, y, w), data, problem)


def units_of(
    family: Family, data: Training, problem: PreparedLearners, start: Array
) -> NDArray[np.float64]:
    """The unit of the response of each fit, (F,) on the host."""
    starts = iter(start)
    return each_fit(lambda y, w: family.unit(y, next(starts), w), data, problem)


def each_fit(
    find: Callable[[Array, Array | None], Any],
    data: Training,
    problem: PreparedLearners,
) -> NDArray[np.float64]:
    """A number for the response and the weights of each fit, (F,) on the host."""
    responses = [data.y] * problem.fits if data.y.ndim == 1 else data.y
    weights = [None] * problem.fits if problem.weights is None else problem.weights
    found = [find(y, w) for y, w in zip(responses, weights, strict=True)]
    return np.array(found, np.float64).ravel()
