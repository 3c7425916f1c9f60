"""Families of survival times, which may be censored.

A response is kept as a signed time: positive for an event, negative for a censored row.
So it is an array of one number per row, as for all other families.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._device.arrays import Array, as_array, namespace, on_host
from ..._device.frames import named_columns
from .._data import inputs
from .._data.inputs import real_array
from .family import Family, LikelyFamily, exp_of
from .numerics import (
    HALF_LOG_TWO_PI,
    apply_weights,
    concordance,
    special,
    weighted_sum,
)

Floats = NDArray[np.float64]


def survival_times(time: Any, event: Any = None) -> Array:
    """Survival times with censoring, as the response of a model.

    In formulas it is ``Surv``, as in R: ``"Surv(time, event) ~ bbs(age)"``.

    Parameters
    ----------
    time : (n,) array_like
        Positive. The time of the event, or up to which a row was observed.
    event : (n,) array_like of bool or of 0 and 1, optional
        Whether the event was observed; else the row is censored. Default: all.

    Returns
    -------
    (n, 2) float64 array
        The columns are the time and the event; on the device of `time`.

    Raises
    ------
    ValueError
        If the shapes differ, a time is not positive and finite, or an event is neither
        0 nor 1.

    See Also
    --------
    gpusolve.gam.families.CoxPH, gpusolve.gam.families.concordance

    Examples
    --------
    >>> survival_times([5.0, 2.5], [True, False])
    array([[5. , 1. ],
           [2.5, 0. ]])
    """
    time = real_array(time, "time")
    if event is None:
        event = namespace(time).ones(time.shape)
    signed = signed_times(time, event, time)
    return namespace(signed).stack([abs(signed), 1.0 * (signed > 0)], axis=1)


def signed_times(time: Any, event: Any, X: Array) -> Array:
    """The times of events, and minus the times of censored rows, (n,) of float64."""
    time = inputs.one_per_row(time, "time", X)
    event = inputs.one_per_row(event, "event", X)
    if not bool((time > 0).all()):
        raise ValueError(f"time must be positive, got {float(time.min())}")
    if not bool(((event == 0) | (event == 1)).all()):
        raise ValueError("event must be 0 or 1, False or True, got other values")
    return namespace(time).where(event == 1, time, -time)


def read_survival(y: Any, X: Array) -> Array:
    """The signed times of any form of survival times; see `SurvivalFamily`."""
    y = named_columns(y)
    names = getattr(getattr(y, "dtype", None), "names", None)
    if names is None and (isinstance(y, Mapping) or hasattr(y, "columns")):
        names = tuple(y.keys())
    if names is not None:
        if len(names) != 2:
            raise ValueError(f"y must have the columns time and event, got {names}")
        event = next(
            (name for name in names if as_array(y[name], "y").dtype.kind == "b"), None
        )
        if {"time", "event"} <= set(names):
            event = "event"
        if event is None:
            raise ValueError(
                f"y must have the columns time and event, or one of bool, got {names}"
            )
        (time,) = (name for name in names if name != event)
        return signed_times(y[time], y[event], X)
    array = as_array(y, "y")
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(
            "y must have a time and an event for each row, as of survival_times, got "
            f"shape {array.shape}"
        )
    return signed_times(array[:, 0], array[:, 1], X)


class SurvivalFamily(Family):
    """A family of survival times.

    A response is an array (n, 2) as of `survival_times`, a data frame or a mapping with
    the columns time and event, or a structured array with two fields, of which the bool
    is the event, as of scikit-survival.

    See Also
    --------
    CoxPH, Weibull, survival_times

    Examples
    --------
    >>> from gpusolve.gam import families
    >>> isinstance(families.Weibull(), families.SurvivalFamily)
    True
    """

    order: ClassVar[int]
    """1 if a larger f means a longer survival, -1 if it means a shorter survival."""

    has_steps: ClassVar[bool]
    """Whether the cumulative hazard is a step function."""

    def prepare(self, y: Any, X: Array) -> Array:
        return read_survival(y, X)

    needs = "an event in the bag"

    def suffices(self, y: Array, in_bag: bool) -> bool:
        return not in_bag or bool((y > 0).any())

    def check(self, y: Array) -> None:
        if not bool((y > 0).any()):
            raise ValueError(
                f"y of the {self.name} family must have an event, got none"
            )

    def score(
        self, y: Array, f: Array, s: Array, w: Array | None, start: Array | None
    ) -> float:
        """Harrell's concordance, without weights."""
        return concordance(abs(y), y > 0, -self.order * f)

    @abstractmethod
    def learn(self, y: Array, f: Array, w: Array | None) -> Any:
        """What `cumulative_hazard` needs besides f, from the training data; host."""

    @abstractmethod
    def cumulative_hazard(self, times: Array, f: Array, learned: Any) -> Array:
        """The cumulative hazards of f, (n,), at the times, (T,): an (n, T) array."""


# ---- proportional hazards ------------------------------------------------------------


class RiskSets(NamedTuple):
    """The rows by their times.

    Attributes
    ----------
    rows : (n,) array of int64
        The rows, ascending in time.
    first, last : (n,) array of int64
        The first and the last place with the time of each place.
    event : (n,) array of bool
        Whether the row of each place has an event.
    """

    rows: Array
    first: Array
    last: Array
    event: Array


class Baseline(NamedTuple):
    """Breslow's estimate of the cumulative hazard where f is 0: a step function.

    Attributes
    ----------
    times : (m,) float64 array
        The different times of events, ascending.
    hazard : (m,) float64 array
        From each time to the next.
    """

    times: Floats
    hazard: Floats


@dataclass(frozen=True)
class CoxPH(SurvivalFamily):
    """Proportional hazards: minus the logarithm of the partial likelihood.

    The hazard is ``h(t) exp(f)``, with any function h of the time. The loss is the sum
    of ``w (log S - f)`` over the events, and S the sum of ``w exp(f)`` over the risk
    set, the rows whose time is not earlier. Ties are Breslow's: events of the same time
    have the same risk set, which contains them all. The offset is 0, because the loss
    does not change with a constant. As in mboost. The risk of rows that are left out is
    the partial likelihood of these rows among themselves, with their weights, as in
    mboost's ``cvrisk``.

    The response is ``exp(f)``, the hazard relative to the hazard where f is 0.

    See Also
    --------
    Weibull, LogNormal, LogLogistic, survival_times

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> family = families.CoxPH()
    >>> y = families.survival_times([1.0, 2.0, 3.0], [True, True, False])
    >>> family.gradient(family.prepare(y, np.zeros((3, 1))), np.zeros(3), 0.0).round(3)
    array([ 0.667,  0.167, -0.833])
    """

    name = "coxph"
    effect_on = "the log hazard"
    order, has_steps = -1, True
    needs = "an event, and a row whose time is not earlier, in and out of the bag"

    def suffices(self, y: Array, in_bag: bool) -> bool:
        event = y > 0
        return bool(event.any()) and int((abs(y) >= y[event].min()).sum()) > 1

    def arrange(self, y: Array) -> RiskSets:
        xp, times = namespace(y), abs(y)
        rows = xp.argsort(times)
        times = times[rows]
        first = xp.searchsorted(times, times, side="left")
        last = xp.searchsorted(times, times, side="right") - 1
        return RiskSets(rows, first, last, y[rows] > 0)

    def offset(self, y: Array, w: Array | None) -> float:
        return 0.0

    def offset_from(self, start: Array, y: Array, w: Array | None) -> float:
        return 0.0

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        return self.weighted_gradient(self.arrange(y), f, s, None)

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        sets, losses = self.arrange(y), namespace(f).empty_like(f)
        losses[..., sets.rows] = losses_of_places(sets, f, None)
        return losses

    def weighted_gradient(
        self, y: RiskSets, f: Array, s: Array, w: Array | None
    ) -> Array:
        xp = namespace(f)
        relative, sums = sums_of_risk_sets(y, f, w)
        hazard = hazard_of_places(y, sums, w)
        u = y.event - relative * hazard[..., y.last]
        gradient = xp.empty_like(u)
        gradient[..., y.rows] = u if w is None else apply_weights(u, w[..., y.rows])
        return gradient

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        return self.weighted_curvature(self.arrange(y), f, s, None)

    def weighted_curvature(
        self, y: RiskSets, f: Array, s: Array, w: Array | None
    ) -> Array:
        """The mean of the event and of its expectation, ``event - u``."""
        events = namespace(f).empty_like(f)
        events[..., y.rows] = y.event
        if w is not None:
            events *= w
        return events - self.weighted_gradient(y, f, s, w) / 2

    def risks(self, y: RiskSets, f: Array, s: Array, *weights: Array | None) -> Any:
        return [
            weighted_sum(
                losses_of_places(y, f, w), None if w is None else w[..., y.rows]
            )
            for w in weights
        ]

    def response(self, f: Array) -> Array:
        return exp_of(f)

    def learn(self, y: Array, f: Array, w: Array | None) -> Baseline:
        sets = self.arrange(y)
        _, sums = sums_of_risk_sets(sets, f, w)
        hazard = hazard_of_places(sets, sums, w) * math.exp(-float(f.max()))
        times = abs(y)[sets.rows]
        ends = sets.last[sets.event]
        found, index = np.unique(on_host(times[ends]), return_index=True)
        return Baseline(found, on_host(hazard[ends])[index])

    def cumulative_hazard(self, times: Array, f: Array, learned: Baseline) -> Array:
        xp = namespace(f)
        steps = np.concatenate([[0.0], learned.hazard])
        at = np.searchsorted(learned.times, on_host(times), side="right")
        return self.response(f)[:, None] * xp.asarray(steps[at])

    def order_rows(self, y: Array) -> Array:
        sets = self.arrange(y)
        return namespace(y).stack([sets.rows, sets.first, sets.last])


def sums_of_risk_sets(sets: RiskSets, f: Array, w: Array | None) -> tuple[Array, Array]:
    """``exp(f - max f)`` of each place, and its sum over the risk set, with weights."""
    xp = namespace(f)
    relative = xp.exp(f - f.max(axis=-1, keepdims=True))[..., sets.rows]
    weighted = relative if w is None else apply_weights(relative, w[..., sets.rows])
    from_place = xp.cumsum(weighted[..., ::-1], axis=-1)[..., ::-1]
    return relative, from_place[..., sets.first]


def hazard_of_places(sets: RiskSets, sums: Array, w: Array | None) -> Array:
    """The sum of ``w / S`` over the events up to each place."""
    xp = namespace(sums)
    weights = xp.ones(sums.shape) if w is None else w[..., sets.rows]
    happens = sets.event & (weights > 0)
    return xp.cumsum(
        xp.where(happens, weights / xp.where(happens, sums, 1.0), 0.0), axis=-1
    )


def losses_of_places(sets: RiskSets, f: Array, w: Array | None) -> Array:
    """``log S - f`` of the events, and 0 of all other places."""
    xp = namespace(f)
    _, sums = sums_of_risk_sets(sets, f, w)
    happens = sets.event & (sums > 0)
    distance = f.max(axis=-1, keepdims=True) - f[..., sets.rows]
    return xp.where(happens, xp.log(xp.where(happens, sums, 1.0)) + distance, 0.0)


# ---- accelerated failure -------------------------------------------------------------


@dataclass(frozen=True)
class AcceleratedFailure(LikelyFamily, SurvivalFamily):
    """``log t = f + scale e`` with a distribution of e; the likelihood with censoring.

    With ``z = (log t - f) / scale``, the loss is ``log scale - log density(z)`` of an
    event and ``-log P(e > z)`` of a censored row: of log t, as in mboost. An adaptive
    scale maximises the weighted likelihood at the present f, within 1e-8 and 1e8.
    mboost searches between 0 and 100, up to 1e-4, and computes the risk with the scale
    of the previous step, and with 1 in the first step. The offset is of maximum
    likelihood, together with an adaptive scale; mboost's has the scale 1, and is
    between 0 and the logarithm of the largest time. If no row with weight has an event,
    the offset takes the censored rows for events.

    The response is ``exp(f)``, as in mboost: the median of the time, but for `Weibull`
    the time that a share of 1 / e survives.
    """

    parameter_name = "scale"
    nuisance_in_cuda = "scale"
    order, has_steps = 1, False
    scale: float | None = None

    def offset(self, y: Array, w: Array | None) -> float:
        has_events = float(weighted_sum(1.0 * (y > 0), w)) > 0
        y = y if has_events else abs(y)
        times = namespace(y).log(abs(y))
        lower, upper = float(times.min()), 1.0 + float(times.max())
        return self.zero_of_gradient(y * 0, y, w, lower, upper)

    def offset_from(self, start: Array, y: Array, w: Array | None) -> float:
        return self.offset(y * namespace(y).exp(-start), w)

    def start(self, y: Array, f: Array, w: Array | None) -> float:
        """The root mean square of the residuals of the events."""
        event, residual = 1.0 * (y > 0), namespace(y).log(abs(y)) - f
        count = float(weighted_sum(event, w))
        square = float(weighted_sum(event * residual**2, w))
        return math.sqrt(square / count) if count > 0 else math.nan

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        with np.errstate(over="ignore"):
            return self.slope((namespace(y).log(abs(y)) - f) / s, y > 0) / s

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        xp, event = namespace(y), y > 0
        with np.errstate(over="ignore"):
            return event * xp.log(s) + self.standard((xp.log(abs(y)) - f) / s, event)

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        z = (namespace(y).log(abs(y)) - f) / s
        with np.errstate(over="ignore"):
            return self.steepness(z, y > 0) / s**2

    def terms(self, y: Array, f: Array) -> Callable[[float], tuple[Array, Array]]:
        event, residual = y > 0, namespace(y).log(abs(y)) - f

        def at(s: float) -> tuple[Array, Array]:
            z = residual / s
            first = z * self.slope(z, event)
            return first - event, -first - z * z * self.bend(z, event)

        return at

    @abstractmethod
    def standard(self, z: Array, event: Array) -> Array:
        """The loss with a scale of 1."""

    @abstractmethod
    def slope(self, z: Array, event: Array) -> Array:
        """The derivative of `standard` by z."""

    @abstractmethod
    def bend(self, z: Array, event: Array) -> Array:
        """The second derivative of `standard` by z."""

    @abstractmethod
    def steepness(self, z: Array, event: Array) -> Array:
        """The curvature of `standard`, see `Family.curvature`."""

    def response(self, f: Array) -> Array:
        return exp_of(f)

    def learn(self, y: Array, f: Array, w: Array | None) -> float:
        return float(self.nuisance(y, f, w))

    def cumulative_hazard(self, times: Array, f: Array, learned: float) -> Array:
        xp, positive = namespace(f), times > 0
        with np.errstate(over="ignore"):
            z = (xp.log(xp.where(positive, times, 1.0)) - f[:, None]) / learned
            return xp.where(positive, self.standard(z, z != z), 0.0)


@dataclass(frozen=True)
class Weibull(AcceleratedFailure):
    """e has the extreme value distribution, so that t has a Weibull distribution.

    Its shape is ``1 / scale``, and its own scale ``exp(f)``. See `AcceleratedFailure`.

    Parameters
    ----------
    scale : float, optional
        Positive; 1 is the exponential distribution. Default: adaptive.

    See Also
    --------
    CoxPH, LogNormal, LogLogistic, survival_times

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> families.Weibull(1.0).response(np.array([0.0]))
    array([1.])
    """

    name = "weibull"
    effect_on = "the log time"

    def standard(self, z: Array, event: Array) -> Array:
        return namespace(z).exp(z) - event * z

    def slope(self, z: Array, event: Array) -> Array:
        return namespace(z).exp(z) - event

    def bend(self, z: Array, event: Array) -> Array:
        return namespace(z).exp(z)

    def steepness(self, z: Array, event: Array) -> Array:
        return (namespace(z).exp(z) + event) / 2


@dataclass(frozen=True)
class LogLogistic(AcceleratedFailure):
    """e has the logistic distribution. See `AcceleratedFailure`.

    Parameters
    ----------
    scale : float, optional
        Positive. Default: adaptive.

    See Also
    --------
    CoxPH, Weibull, LogNormal, survival_times

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> families.LogLogistic(1.0).response(np.array([0.0]))
    array([1.])
    """

    name = "log_logistic"
    effect_on = "the log time"

    def standard(self, z: Array, event: Array) -> Array:
        return (1.0 + event) * namespace(z).logaddexp(0, z) - event * z

    def slope(self, z: Array, event: Array) -> Array:
        return (1.0 + event) * special(z).expit(z) - event

    def bend(self, z: Array, event: Array) -> Array:
        expit = special(z).expit
        return (1.0 + event) * expit(z) * expit(-z)

    def steepness(self, z: Array, event: Array) -> Array:
        return namespace(z).where(event, 1.0, special(z).expit(z)) / 2


@dataclass(frozen=True)
class LogNormal(AcceleratedFailure):
    """e has the normal distribution. See `AcceleratedFailure`.

    Parameters
    ----------
    scale : float, optional
        Positive. Default: adaptive.

    See Also
    --------
    CoxPH, Weibull, LogLogistic, survival_times

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> families.LogNormal(1.0).response(np.array([0.0]))
    array([1.])
    """

    name = "log_normal"
    effect_on = "the log time"

    def standard(self, z: Array, event: Array) -> Array:
        normal = 0.5 * z * z + HALF_LOG_TWO_PI
        return namespace(z).where(event, normal, -special(z).log_ndtr(-z))

    def slope(self, z: Array, event: Array) -> Array:
        return namespace(z).where(event, z, normal_hazard(z))

    def bend(self, z: Array, event: Array) -> Array:
        hazard = normal_hazard(z)
        return namespace(z).where(event, 1.0, hazard * (hazard - z))

    def steepness(self, z: Array, event: Array) -> Array:
        return self.bend(z, event)


def normal_hazard(z: Array) -> Array:
    """The density of the normal distribution divided by ``P(e > z)``."""
    return math.sqrt(2 / math.pi) / special(z).erfcx(z * math.sqrt(0.5))
