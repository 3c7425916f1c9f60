"""Means that are exponentials or probabilities of the additive predictor."""

from __future__ import annotations

import math

import numpy as np

from ..._device.arrays import Array, namespace
from .family import Family
from .location import weighted_mean, weighted_sum


class LogLink(Family):
    """A family of the mean ``exp(f)``; the offset is the log of the weighted mean."""

    def offset(self, y: Array, w: Array | None) -> float:
        rows = len(y) if w is None else float(w.sum())
        return math.log(at_least_half_a_row(y, w) / rows)

    def offset_from(self, start: Array, y: Array, w: Array | None) -> float:
        largest = float(start.max())
        mean = weighted_mean(namespace(start).exp(start - largest), w)
        return self.offset(y, w) - largest - math.log(float(mean))

    def least_loss(self, y: Array, s: Array) -> Array:
        xp = namespace(y)
        return self.loss(y, xp.log(xp.maximum(y, np.finfo(np.float64).tiny)), s)

    def response(self, f: Array) -> Array:
        return namespace(f).exp(f)


def at_least_half_a_row(y: Array, w: Array | None) -> float:
    """The weighted sum of y, or 1/2 if that is 0."""
    return float(weighted_sum(y, w)) or 0.5


def exp_of(f: Array) -> Array:
    """``exp(f)``, infinite without a warning: then the risk is, which is checked."""
    with np.errstate(over="ignore"):
        return namespace(f).exp(f)


def softplus(x: Array) -> Array:
    """``log(1 + exp(x))`` without overflow."""
    return namespace(x).logaddexp(0, x)
