"""The types of the arguments of the public functions, for type checkers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

from .methods import ComparedName

MethodName = Literal["auto", "qr", "gram"]
NNLSMethodName = Literal[MethodName, ComparedName]

Devices: TypeAlias = Literal["cpu", "all"] | int | Sequence[int] | None

Native: TypeAlias = npt.NDArray[Any] | np.generic | complex | Sequence["Native"]
"""What becomes a NumPy array; other objects may be on a device, lazy or labelled."""


class LinearConstraints(TypedDict, total=False):
    """The linear constraints of `lsq_linear` and `bounded_qp`."""

    A_ub: Any
    b_ub: Any
    A_eq: Any
    b_eq: Any


class CommonOptions(TypedDict, total=False):
    """The options of all functions."""

    sum_to: Any
    warm_start: Any
    l1: Any
    l2: Any
    tol: float | None
    maxiter: int | None
    devices: Devices
    out: dict[str, Any] | None


class QuadraticOptions(CommonOptions, LinearConstraints, total=False):
    """The options of `bounded_qp`."""


class LeastSquaresOptions(CommonOptions, total=False):
    """The options of `nnls` and `lsq_linear`."""

    weights: Any
    L: Any
    lam: Any
    prior: Any


class BoundedOptions(LeastSquaresOptions, LinearConstraints, total=False):
    """The options of `lsq_linear`."""
