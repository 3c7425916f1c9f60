"""Families that compute their parameter as mboost does, where ours do not.

With these, the rest of a path can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from gpusolve._device.arrays import Array
from gpusolve.gam.families import Family, Gamma, Huber

ACCURACY = float(np.finfo(np.float64).eps ** 0.25)
"""The error of the location at which mboost's minimiser stops."""


@dataclass(frozen=True)
class RoughGamma(Gamma):
    """Gamma with a shape that Brent's minimiser finds up to an error of 1e-4.

    SciPy's bounded minimiser makes the same steps as R's.
    """

    def nuisance(self, y: Array, f: Array, w: Array | None) -> float:
        weights = 1.0 if w is None else w

        def risk(shape: float) -> float:
            return float((weights * self.loss(y, f, shape)).sum())

        found = minimize_scalar(
            risk, bounds=(0, 100), method="bounded", options={"xatol": ACCURACY}
        )
        return float(found.x)


@dataclass(frozen=True)
class LateHuber(Huber):
    """Huber with a bound that is one step late in the gradient, and unweighted.

    The first gradient has the median of ``|y|``, and the gradient after step m has the
    bound of the model before that step.
    """

    bounds: list[float] = field(default_factory=list)

    def nuisance(self, y: Array, f: Array, w: Array | None) -> float:
        if not self.bounds:
            self.bounds.append(float(np.median(np.abs(y))))
        self.bounds.append(float(np.median(np.abs(y - f))))
        return self.bounds[-1]

    def gradient(self, y: Array, f: Array, s: Any) -> Array:
        return super().gradient(y, f, self.bounds[-2])


def mboost_family(family: Family) -> Family:
    """The family, or a family that computes its parameter as mboost does."""
    if isinstance(family, Gamma):
        return RoughGamma()
    if isinstance(family, Huber) and family.adaptive:
        return LateHuber()
    return family
