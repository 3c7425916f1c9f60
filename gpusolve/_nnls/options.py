"""The options of the public functions: types, defaults, signatures and methods.

An option stands once. The functions of the package, of ``torch`` and of ``jax`` take
the options of a typed dictionary, and show them in their signatures.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, TypeVar, get_args

import numpy as np
import numpy.typing as npt

MethodName = Literal["auto", "qr", "gram"]
ComparedName = Literal[
    "lsqnonneg", "fnnls", "fcnnls", "block_pivoting", "pqn", "cd", "interior_point",
    "newton_like", "l1_ls", "mgs",
]  # fmt: skip
NNLSMethodName = Literal[MethodName, ComparedName]

Devices: TypeAlias = Literal["cpu", "all"] | int | Sequence[int] | None

Native: TypeAlias = npt.NDArray[Any] | np.generic | complex | Sequence["Native"]
"""Objects that become NumPy arrays; others may be on a device, lazy or labelled."""

NON_NEGATIVE, UNBOUNDED = (0.0, math.inf), (-math.inf, math.inf)
"""Default bounds."""

F = TypeVar("F", bound=Callable[..., Any])


class BasicOptions(TypedDict, total=False):
    """The options of all functions."""

    sum_to: Any
    l1: Any
    l2: Any
    tol: float | None
    maxiter: int | None


class PathOptions(BasicOptions, total=False):
    """The options of `regularization_path`."""

    weights: Any
    prior: Any


class GradientOptions(BasicOptions, total=False):
    """The options of the functions of ``torch`` and ``jax``."""

    weights: Any
    warm_start: Any


class LinearConstraints(TypedDict, total=False):
    """Linear constraints."""

    A_ub: Any
    b_ub: Any
    A_eq: Any
    b_eq: Any


class BoundedGradientOptions(GradientOptions, LinearConstraints, total=False):
    """The options of ``lsq_linear`` of ``torch`` and ``jax``."""


class CommonOptions(BasicOptions, total=False):
    """The options of `nnls`, `lsq_linear` and `bounded_qp`."""

    warm_start: Any
    devices: Devices
    out: dict[str, Any] | None


class QuadraticOptions(CommonOptions, LinearConstraints, total=False):
    """The options of `bounded_qp`."""


class LeastSquaresOptions(CommonOptions, total=False):
    """The options of `nnls`."""

    weights: Any
    L: Any
    lam: Any
    prior: Any


class BoundedOptions(LeastSquaresOptions, LinearConstraints, total=False):
    """The options of `lsq_linear`."""


DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(["A_ub", "b_ub", "A_eq", "b_eq", "weights", "sum_to"]),
    **dict.fromkeys(["warm_start"]),
    **{"l1": 0.0, "l2": 0.0},
    **dict.fromkeys(["L", "lam", "prior", "tol", "maxiter", "devices", "out"]),
}
"""The default of every option, in the order of signatures."""


def defaults_of(options: type[Any]) -> dict[str, Any]:
    """The defaults of the options of a typed dictionary."""
    return {k: value for k, value in DEFAULTS.items() if k in options.__annotations__}


def shows(options: type[Any]) -> Callable[[F], F]:
    """Let the signature of a function show the options that its ``**options`` are."""
    defaults = defaults_of(options).items()
    kind = inspect.Parameter.KEYWORD_ONLY
    more = [inspect.Parameter(name, kind, default=value) for name, value in defaults]

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        *own, _ = signature.parameters.values()
        whole = signature.replace(parameters=[*own, *more])
        function.__signature__ = whole  # type: ignore[attr-defined]
        return function

    return decorate


class Method(NamedTuple):
    """A method of the literature that ``nnls`` offers for comparison.

    The methods are in ``gpusolve/studies``, and are imported at their first use.

    Attributes
    ----------
    number : int
        Its number in ``NNLSResult.method``.
    limit : callable
        The default limit on `nit` for n variables.
    starts : bool
        Whether it takes a warm start.
    on_devices : bool
        Whether it has a kernel. Others run on the CPU, even if ``GPUSOLVE_EMULATE`` is
        set.
    """

    number: int
    limit: Callable[[int], int]
    starts: bool = True
    on_devices: bool = False


def passive_sets(n: int) -> int:
    """The default limit of methods that solve once per passive set."""
    return 10 * n


COMPARED = {
    "lsqnonneg": Method(2, passive_sets),
    "fnnls": Method(3, passive_sets),
    "fcnnls": Method(4, passive_sets),
    "block_pivoting": Method(5, lambda n: 100 + n),
    "pqn": Method(6, lambda n: 100 + 10 * n),
    "cd": Method(7, lambda n: 1000 + 10 * n),
    "interior_point": Method(8, lambda n: 100, starts=False),
    "newton_like": Method(9, lambda n: 200, starts=False),
    "mgs": Method(10, passive_sets, on_devices=True),
    "l1_ls": Method(11, lambda n: 400, starts=False),
}

METHODS = get_args(MethodName)
"""The methods for all problems."""

NNLS_METHODS = (*METHODS, *COMPARED)
"""The methods for non-negative least squares without a fixed sum."""
