"""The family of several classes, with a predictor for each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._device.arrays import Array, namespace, on_host
from .classes import NumberedFamily
from .family import CoupledFamily
from .location import weighted_sum


@dataclass(frozen=True)
class Multinomial(NumberedFamily, CoupledFamily):
    """The negative log likelihood of K classes, with a predictor for each class.

    ``P(y = k) = exp(f_k) / sum_i exp(f_i)``, and the gradient is the indicator of class
    k minus this probability. A step updates the same learner for all classes: the
    learner that reduces the sum of squares of all gradients most. Without inequalities
    the effects of a learner add up to 0 over the classes, so that no class is a
    reference. mboost has K - 1 predictors, and its model depends on the last class.
    The offsets are the logarithms of the weighted shares of the classes, minus their
    mean; a class without rows counts half a row.

    Parameters
    ----------
    classes : int, optional
        The number K of classes; y is 0, 1, .., K - 1. `BoostedGAMClassifier` replaces
        it by the number of the classes in its data.

    See Also
    --------
    Binomial, PropOdds

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> family = families.Multinomial(3)
    >>> family.response(family.offset(np.array([0.0, 1.0, 1.0, 2.0]), None))
    array([0.25, 0.5 , 0.25])
    """

    name = "multinomial"
    effect_on = "the log odds"
    update = "joint"

    @property
    def predictors(self) -> int:
        return self.classes

    @property
    def parameter(self) -> float:
        return float(self.classes)

    def offset(self, y: Array, w: Array | None) -> Any:
        shares = on_host(weighted_sum(self._indicators(y) + 0.0, w)).ravel()
        logs = np.log(np.maximum(shares, 0.5))
        return np.asarray(logs - logs.mean())

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        return self._indicators(y, f.ndim) - self.response(f)

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        xp, largest = namespace(f), f.max(axis=0)
        own = xp.where(self._indicators(y, f.ndim), f - largest, 0).sum(axis=0)
        return xp.log(xp.exp(f - largest).sum(axis=0)) - own

    def curvature(self, y: Array, f: Array, s: Array) -> Array:
        """Of effects that add up to 0: ``p (1 - p) K / (K - 1)``."""
        p = self.response(f)
        return p * (1 - p) * (self.classes / (self.classes - 1))

    def response(self, f: Array) -> Array:
        """The probabilities of the classes, (K, .., n)."""
        xp = namespace(f)
        odds = xp.exp(f - f.max(axis=0))
        return odds / odds.sum(axis=0)

    def log_probabilities(self, f: Array, s: Array) -> Array:
        xp = namespace(f)
        odds = (f - f.max(axis=0)).T
        return odds - xp.log(xp.exp(odds).sum(axis=1, keepdims=True))

    def _indicators(self, y: Array, ndim: int = 2) -> Array:
        """Whether y is each class, (K, .., n)."""
        codes = namespace(y).arange(self.classes)
        return y == codes.reshape(-1, *[1] * (ndim - 1))
