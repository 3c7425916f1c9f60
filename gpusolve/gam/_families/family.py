"""What every family of boosted models has."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from ..._device.arrays import Array, namespace, on_host

FAMILIES_IN_CUDA = '#include "families.cuh"'
"""The definitions of the families that have names."""


class CudaFamily(NamedTuple):
    """A family as a C++ type of a kernel.

    Attributes
    ----------
    definitions : str
        C++ source that defines the type; it precedes the source of the kernel.
    type : str
        The name of the type.
    parameter : float
        See `Family.parameter`; 0 if the kernel finds it.
    """

    definitions: str
    type: str
    parameter: float


class Family(ABC):
    """What a boosted model minimises, and how its predictor becomes a response."""

    name: str
    """As in ``BoostedGAM(family=name)``."""

    @property
    def parameter(self) -> float | None:
        """Tau, delta, shape or theta; 0 without a parameter, None if it is adaptive."""
        return 0.0

    @property
    def adaptive(self) -> bool:
        """Whether the parameter is found from the data at every step."""
        return self.parameter is None

    def check(self, y: Array) -> None:
        """ValueError unless y is a response of this family."""
        return

    @abstractmethod
    def offset(self, y: Array, w: Array | None) -> float:
        """The constant f with the least weighted loss of y, (n,); w None means ones."""

    def offset_from(self, start: Array, y: Array, w: Array | None) -> float:
        """The constant c with the least weighted loss of y at ``start + c``.

        This is for losses of ``y - f``.
        """
        return self.offset(y - start, w)

    def nuisance(self, y: Array, f: Array, w: Array | None) -> Array:
        """The family's parameter at f: a number, or (F, 1) for f of shape (F, n)."""
        return np.float64(self.parameter)

    @abstractmethod
    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        """The negative gradient of the loss by f; s is the parameter."""

    @abstractmethod
    def loss(self, y: Array, f: Array, s: Array) -> Array:
        """The loss of each row; s is the parameter."""

    def least_loss(self, y: Array, s: Array) -> Array:
        """The loss of each row at the best f; s is the parameter.

        This is for losses that are least at ``f = y``.
        """
        return self.loss(y, y, s)

    def curvature(self, y: Array, f: Array, s: Array) -> Array | None:
        """What scales the steps: the curvature of the loss; s is the parameter.

        A bound on ``gradient / (f* - f)``, with f* the predictor of least loss: then a
        step of the gradient divided by it does not go beyond f*. For a likelihood it is
        linear in y, so that it bounds this ratio also for the sum of rows that share f;
        its mean is the information where f is true. None stands for 1.
        """
        return None

    def unit(self, y: Array, f: Array, w: Array | None) -> float:
        """What scales the steps of a gradient that does not depend on the size of y.

        The first model of a fit is f. By default 1.
        """
        return 1.0

    def response(self, f: Array) -> Array:
        """The predicted response: the mean, or the quantile or expectile."""
        return f

    def check_risk(self, risk: Array) -> None:
        """ValueError if a risk of a path, (..., steps + 1), is not finite.

        The steps were then so large that an exponential became infinite; before the
        first step, y or the offset is so large.
        """
        finite = on_host(namespace(risk).isfinite(risk)).reshape(-1, risk.shape[-1])
        if not finite.all():
            step = int(finite.all(axis=0).argmin())
            raise ValueError(
                f"learning_rate must be smaller for the {self.name} family and this "
                f"response, or y if it is huge: the risk is infinite or NaN after "
                f"iteration {step}"
            )

    @property
    def cuda(self) -> CudaFamily:
        """The family for a kernel."""
        return CudaFamily(FAMILIES_IN_CUDA, type(self).__name__, self.parameter or 0.0)


class AdaptiveFamily(Family):
    """A family whose parameter is given, or found from the data at every step."""

    parameter_name: ClassVar[str]
    """The attribute that has the given parameter, or None."""

    nuisance_in_cuda: ClassVar[str]
    """How ``families.cuh`` finds the parameter: a value of its enum `Nuisance`."""

    def __post_init__(self) -> None:
        value = self.parameter
        if value is not None and not 0 < value < math.inf:
            raise ValueError(
                f"{self.parameter_name} must be positive and finite, got {value}"
            )

    @property
    def parameter(self) -> float | None:
        given: float | None = getattr(self, self.parameter_name)
        return given

    def nuisance(self, y: Array, f: Array, w: Array | None) -> Array:
        return self.estimate(y, f, w) if self.adaptive else super().nuisance(y, f, w)

    @abstractmethod
    def estimate(self, y: Array, f: Array, w: Array | None) -> Array:
        """The parameter that fits the residuals of f: a number, or (F, 1)."""

    @property
    def cuda(self) -> CudaFamily:
        found = super().cuda
        nuisance = self.nuisance_in_cuda if self.adaptive else "fixed"
        return found._replace(type=f"{found.type}<Nuisance::{nuisance}>")
