"""Several fits of one model to the same rows with different weights, as one batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, namespace, on_host
from ..._device.kernels import Device
from .._terms.frame import Frame
from ..families import Family
from ..terms import Term
from .path import Path
from .problem import PreparedLearners, prepare
from .stacked import advanced, boost_family, check_continued


@dataclass(frozen=True)
class Training:
    """The checked data of a fit, on one device.

    Attributes
    ----------
    frame : Frame
        The covariates of n rows.
    y : (n,) or (F, n) float64 array
        The response, of all fits or of each.
    weights : (n,) float64 array or None
        The weights of the rows; None for ones.
    offset : float, (n,) float64 array or None
        The model before the first step; None for the best constant.
    device : Device or None
        The device; None for the host.
    """

    frame: Frame
    y: Array
    weights: Array | None
    offset: Any
    device: Device | None

    @property
    def rows(self) -> int:
        """The number n of rows."""
        return int(self.y.shape[-1])

    def take(self, rows: Any) -> Training:
        """Some of the rows, by an index or a mask."""
        offset = self.offset
        return Training(
            self.frame.take(rows),
            self.y[..., rows],
            None if self.weights is None else self.weights[rows],
            offset[rows] if is_vector(offset) else offset,
            self.device,
        )


@dataclass(frozen=True)
class Settings:
    """What a model is, without data.

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
    dtype : dtype
        The dtype of the values of the designs.
    """

    terms: tuple[Term, ...]
    family: Family
    learning_rate: float
    df_definition: str
    missing: str
    dtype: Any


def is_vector(offset: Any) -> bool:
    """Whether the model starts with one number for each row."""
    return getattr(offset, "ndim", 0) == 1


def starts(
    family: Family, data: Training, weights: Array | None, fits: int
) -> tuple[NDArray[np.float64], Array]:
    """The intercepts, (F,) on the host, and the models before the first step.

    The models are (F, 1), or (F, n) if the offset is a vector; the intercepts are then
    zeros. The intercepts are read from the device.

    Parameters
    ----------
    weights : (F, n) array or None
    """
    xp = namespace(data.y)
    if is_vector(data.offset):
        return np.zeros(fits), xp.broadcast_to(data.offset, (fits, data.rows))
    intercepts = np.empty(fits)
    for fit in range(fits):
        if data.offset is not None:
            intercepts[fit] = data.offset
            continue
        y = data.y if data.y.ndim == 1 else data.y[fit]
        w = None if weights is None else weights[fit]
        intercepts[fit] = family.offset(y, w)
    return intercepts, xp.asarray(intercepts)[:, None]


@dataclass(frozen=True)
class Ready:
    """F fits before their first step.

    Attributes
    ----------
    settings : Settings
    data : Training
    problem : PreparedLearners
    intercepts : (F,) array on the host
    start : (F, 1) or (F, n) array
        The models before the first step.
    """

    settings: Settings
    data: Training
    problem: PreparedLearners
    intercepts: NDArray[np.float64]
    start: Array

    @property
    def lambda_(self) -> NDArray[np.float64]:
        """The smoothing parameters of the first fit, (K,) on the host."""
        found: NDArray[np.float64] = on_host(self.problem.lambda_[0])
        return found

    def boost(
        self,
        steps: int,
        *,
        start: Array | None = None,
        out_of_bag: Array | None = None,
        method: str = "stacked",
    ) -> Path:
        """The steps of all fits, from `start` if it is given."""
        return boost_family(
            self.problem,
            self.settings.family,
            self.data.y,
            self.start if start is None else start,
            learning_rate=self.settings.learning_rate,
            steps=steps,
            out_of_bag=out_of_bag,
            device=self.data.device,
            method=method,
        )

    def continued(self, before: Path, steps: int, method: str) -> Path:
        """The steps of all fits with more steps, made from the end of their path.

        Raises
        ------
        ValueError
            If the risk is not that at the end of the path.
        """
        start = advanced(self.problem, self.start, before)
        later = self.boost(steps, start=start, method=method)
        check_continued(before, later)
        return before.followed_by(later)


def make_ready(settings: Settings, data: Training, weights: Array | None) -> Ready:
    """Prepare the learners and the offsets of fits with given weights.

    Offsets and smoothing parameters are computed for each fit; ranges, knots and levels
    are those of the terms.

    Parameters
    ----------
    weights : (n,) or (F, n) array or None
        The weights, which replace those of the data. If `data.y` has several responses,
        the fits of all of them have the same weights.
    """
    problem = prepare(
        settings.terms,
        data.frame,
        weights,
        df_definition=settings.df_definition,
        missing=settings.missing,
        dtype=settings.dtype,
    )
    if data.y.ndim == 2 and problem.fits == 1:
        problem = problem.repeated(len(data.y))
    intercepts, start = starts(settings.family, data, problem.weights, problem.fits)
    return Ready(settings, data, problem, intercepts, start)


def fit_batch(
    settings: Settings,
    data: Training,
    weights: Array,
    steps: int,
    out_of_bag: Array | None = None,
) -> Path:
    """Fit with each of several sets of weights, on the current device.

    Parameters
    ----------
    weights
        See `make_ready`.
    out_of_bag : (F, n) array, optional
        See `boost_family`.
    """
    return make_ready(settings, data, weights).boost(steps, out_of_bag=out_of_bag)
