"""Survival curves of a fitted model, if its family has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._device.arrays import Array, namespace
from ..._device.kernels import current_device
from .._data import inputs
from .._families.survival import SurvivalFamily
from .._terms.frame import Frame
from ..families import family_of


def has_curves(model: Any) -> bool:
    """Whether the family of a model, fitted or not, is of survival times."""
    return isinstance(family_of(model.family or model.default_family), SurvivalFamily)


def learn_baseline(model: Any) -> None:
    """Store what curves need from the training data; nothing without the data."""
    vars(model).pop("baseline_", None)
    if not isinstance(model.family_, SurvivalFamily) or not hasattr(model, "_data"):
        return
    data, _ = model._data
    with data.frame.current():
        f = namespace(data.y).zeros((1, data.rows)) + float(model._intercepts()[0])
        if np.ndim(data.offset) == 1:
            f += data.offset
        (f,) = model._add_effects(f, data.frame, model._coefficients(None))
        model.baseline_ = model.family_.learn(data.y, f, data.weights)


def cumulative_hazard(model: Any, f: Array, times: Any) -> Array:
    """The cumulative hazards of the predictors f, (n,), at the times, (T,): (n, T)."""
    if not hasattr(model, "baseline_"):
        raise ValueError(
            "the model must have a baseline: fit it again, a model that was loaded "
            "from a file has the baseline of its last iteration only"
        )
    with current_device(f):
        times = inputs.to_device_of(f, inputs.dense_array(times, "times"))
        if times.ndim != 1:
            raise ValueError(f"times must have shape (T,), got {times.shape}")
        times = inputs.real_array(times, "times")
        if bool((times < 0).any()):
            raise ValueError(f"times must not be negative, got {times.min()}")
        hazard: Array = model.family_.cumulative_hazard(times, f, model.baseline_)
        return hazard


def survival_function(model: Any, f: Array, times: Any) -> Array:
    """``exp(-H)`` of the cumulative hazard H."""
    hazard = cumulative_hazard(model, f, times)
    with current_device(hazard):
        return namespace(hazard).exp(-hazard)


def plot_survival(
    model: Any, frame: Frame, times: Any, curves: Array, labels: Sequence[str] | None
) -> Any:
    """The figure of the curves of the rows of a frame."""
    from .._plots.curves import names_of_rows, plot_curves

    names = names_of_rows(frame) if labels is None else list(labels)
    return plot_curves(times, curves, names, model.family_.has_steps)
