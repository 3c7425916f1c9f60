"""Families that users define."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ..._device.arrays import Array
from .family import FAMILIES_IN_CUDA, CudaFamily, Family
from .numerics import weighted_sum


class CustomCuda(NamedTuple):
    """A family in CUDA: C++ expressions of the doubles `y` and `f`.

    Attributes
    ----------
    gradient, loss : str
        The negative gradient and the loss of one row, such as ``"y - exp(f)"``.
    curvature : str, optional
        See `Custom`.

    See Also
    --------
    Custom

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> source = families.CustomCuda(gradient="y - f", loss="(y - f) * (y - f) / 2")
    >>> source.curvature
    '1'
    """

    gradient: str
    loss: str
    curvature: str = "1"


class Custom(Family):
    """A family of your own.

    Parameters
    ----------
    name : str
        For error messages and summaries.
    gradient : callable
        The negative gradient of the loss by f, ``gradient(y, f)``, elementwise.
    loss : callable
        The loss of each row, ``loss(y, f)``, elementwise.
    offset : float or callable, optional
        The start of the predictor, or the function ``offset(y, w)`` that finds it; w is
        None if all weights are 1. Default: the constant of least weighted loss, found
        numerically. A loss with several minima needs an offset.
    response : callable, optional
        The response for a predictor, ``response(f)``. Default: f.
    check : callable, optional
        ``check(y)`` raises ValueError unless y is a response of this family.
    curvature : callable, optional
        What scales the steps, ``curvature(y, f)``, elementwise and positive: the second
        derivative of the loss by f, or a bound on the gradient divided by the distance
        of f from the minimum of the loss, which is safer. Default: 1.
    cuda : CustomCuda or mapping, optional
        The gradient, the loss and the curvature in CUDA. A fit on a GPU needs them.

    See Also
    --------
    CustomCuda, Family

    Notes
    -----
    The functions receive arrays that broadcast, NumPy's or CuPy's. Such a family can be
    pickled if its functions can, and not be stored as JSON.

    Examples
    --------
    >>> import numpy as np
    >>> from gpusolve.gam import families
    >>> log_cosh = families.Custom(
    ...     "log-cosh",
    ...     gradient=lambda y, f: np.tanh(y - f),
    ...     loss=lambda y, f: np.logaddexp(y - f, f - y) - np.log(2),
    ...     cuda={"gradient": "tanh(y - f)", "loss": "log(cosh(y - f))"},
    ... )
    >>> round(log_cosh.offset(np.array([1.0, 2.0, 9.0]), None), 6)
    2.175694
    """

    def __init__(
        self,
        name: str,
        *,
        gradient: Callable[[Array, Array], Array],
        loss: Callable[[Array, Array], Array],
        offset: float | Callable[[Array, Array | None], float] | None = None,
        response: Callable[[Array], Array] | None = None,
        check: Callable[[Array], object] | None = None,
        curvature: Callable[[Array, Array], Array] | None = None,
        cuda: CustomCuda | Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"name must be a string, got {name!r}")
        required = {"gradient": gradient, "loss": loss}
        optional = {"response": response, "check": check, "curvature": curvature}
        for what, function in (required | optional).items():
            if not callable(function) and (what in required or function is not None):
                raise TypeError(
                    f"{what} of {name} must be a function, got {function!r}"
                )
        self.name = name
        self._gradient, self._loss, self._offset = gradient, loss, offset
        self._response, self._check, self._curvature = response, check, curvature
        if cuda is not None and not isinstance(cuda, CustomCuda):
            if not set(required) <= set(cuda) <= {*CustomCuda._fields}:
                raise ValueError(
                    f"cuda of {name} must have the expressions {sorted(required)} and "
                    f"may have 'curvature', got {list(cuda)}"
                )
            cuda = CustomCuda(**cuda)
        self._cuda = cuda

    def __repr__(self) -> str:
        return f"Custom({self.name!r})"

    def check(self, y: Array) -> None:
        if self._check is not None:
            self._check(y)

    def offset(self, y: Array, w: Array | None) -> float:
        if callable(self._offset):
            return float(self._offset(y, w))
        if self._offset is not None:
            return float(self._offset)
        return self._least_risk(np.float64(0), y, w)

    def offset_from(self, start: Array, y: Array, w: Array | None) -> float:
        return self._least_risk(start, y, w)

    def gradient(self, y: Array, f: Array, s: Array) -> Array:
        return self._gradient(y, f)

    def loss(self, y: Array, f: Array, s: Array) -> Array:
        return self._loss(y, f)

    def least_loss(self, y: Array, s: Array) -> Array:
        return y * 0

    def curvature(self, y: Array, f: Array, s: Array) -> Array | None:
        return None if self._curvature is None else self._curvature(y, f)

    def response(self, f: Array) -> Array:
        return f if self._response is None else self._response(f)

    @property
    def cuda(self) -> CudaFamily:
        if self._cuda is None:
            raise ValueError(
                f"the family {self.name} must have the argument cuda, its gradient and "
                "loss as CUDA expressions, for a fit on a GPU"
            )
        return CudaFamily(FAMILIES_IN_CUDA + _source(self._cuda), "UserFamily", 0.0)

    def _least_risk(self, start: Array, y: Array, w: Array | None) -> float:
        """The constant that has the least risk when it is added to ``start``.

        It is a zero of the gradient if the gradient changes its sign: the minimum of
        the risk alone has half of the digits.
        """
        from scipy.optimize import brentq, minimize_scalar

        def total(rows: Callable[[Array, Array], Array]) -> Callable[[float], float]:
            return lambda f: float(weighted_sum(rows(y, y * 0 + start + f), w))

        risk, score = total(self._loss), total(self._gradient)
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                found = minimize_scalar(risk)
            except RuntimeError:  # the risk decreases without a minimum
                found = None
            if found is None or not math.isfinite(found.fun):
                raise ValueError(
                    f"offset of {self.name} must be given, because a search found no "
                    "constant of least risk"
                )
            best = float(found.x)
            near = 1e-6 * max(1.0, abs(best))
            left, right = best - near, best + near
            if score(left) > 0 > score(right):
                best = float(brentq(score, left, right, xtol=sys.float_info.min))
        return best


def _source(cuda: CustomCuda) -> str:
    """The C++ type of a user's family; see ``families.cuh``."""
    return f"""
struct UserFamily : FamilyBase<Nuisance::fixed> {{
    __device__ double gradient(double y, double f, double) const {{
        return {cuda.gradient};
    }}
    __device__ double loss(double y, double f, double) const {{
        return {cuda.loss};
    }}
    __device__ double curvature(double y, double f, double) const {{
        return {cuda.curvature};
    }}
}};
"""
