"""The arguments of the public functions: options, methods, and axes.

An option stands once. The functions of the package, of ``torch`` and of ``jax`` take
the options of a typed dictionary, and show them in their signatures.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from .._device.arrays import Array, broadcast_shapes, namespace
from .._device.launch import pieces

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
    **dict.fromkeys(
        ["A_ub", "b_ub", "A_eq", "b_eq", "weights", "sum_to", "warm_start"]
    ),
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

# ---- axes ----------------------------------------------------------------------------

Axis = Literal["row", "variable", "penalty", "inequality", "equality"]

ROW: Axis = "row"
VARIABLE: Axis = "variable"
PENALTY: Axis = "penalty"
INEQUALITY: Axis = "inequality"
EQUALITY: Axis = "equality"

OWN: tuple[Axis, ...] = (PENALTY, INEQUALITY, EQUALITY)
"""Axes that keep these names, whatever names the arguments have."""

AXES: dict[str, tuple[Axis, ...]] = {
    "A": (ROW, VARIABLE),
    "b": (ROW,),
    "weights": (ROW,),
    "lower": (VARIABLE,),
    "upper": (VARIABLE,),
    "l1": (VARIABLE,),
    "l2": (VARIABLE,),
    "warm_start": (VARIABLE,),
    "sum_to": (),
    "L": (PENALTY, VARIABLE),
    "lam": (),
    "prior": (VARIABLE,),
    "A_ub": (INEQUALITY, VARIABLE),
    "b_ub": (INEQUALITY,),
    "A_eq": (EQUALITY, VARIABLE),
    "b_eq": (EQUALITY,),
    "x": (VARIABLE,),
    "rnorm": (),
    "seminorm": (),
    "degrees_of_freedom": (),
    "gcv": (),
    "curvature": (),
    "dual": (VARIABLE,),
    "kkt": (),
    "nit": (),
    "status": (),
    "n_updates": (),
    "n_downdates": (),
    "repaired": (),
    "method": (),
    "dual_ub": (INEQUALITY,),
    "dual_eq": (EQUALITY,),
    "residual": (ROW,),
    "covariance": (VARIABLE, VARIABLE),
}


def batch_axes(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without the axes of one system.

    Examples
    --------
    >>> batch_axes("A", (5, 1, 30, 10))
    (5, 1)
    >>> batch_axes("l2", ())
    ()
    """
    return shape[: max(0, len(shape) - len(AXES[name]))]


Block = tuple[slice, ...]
"""A slice of each axis of the batch."""


def part_of_block(array: Array, lengths: tuple[int, ...], block: Block) -> Array:
    """The values of a block in an array with batch axes of these lengths; a view."""
    slices = block[len(block) - len(lengths) :]
    index = tuple(
        slice(None) if length == 1 else part
        for length, part in zip(lengths, slices, strict=True)
    )
    return array[index]


def blocks(shape: tuple[int, ...], most: int) -> Iterator[Block]:
    """Blocks of a batch in order, each of 1 to `most` systems.

    The last axes are whole, one axis is cut, and the axes before it have the length 1.

    Examples
    --------
    >>> list(blocks((2, 3), 2))[:2]
    [(slice(0, 1, None), slice(0, 2, None)), (slice(0, 1, None), slice(2, 3, None))]
    """
    steps, left = [], max(1, most)
    for length in reversed(shape):
        steps.append(max(1, min(length, left)))
        left = left // length if 0 < length <= left else 1
    slices = [pieces(n, step) for n, step in zip(shape, reversed(steps), strict=True)]
    yield from itertools.product(*slices)


def systems_of(
    array: Array, core: int, batch: tuple[int, ...], at: slice | Array
) -> Array:
    """Some systems of an array, with a single axis of systems.

    An array that all systems share stays shared, without this axis.

    Parameters
    ----------
    array : (..., *core axes) array
    core : int
        Number of trailing axes that belong to one system.
    batch : tuple of int
        The batch shape, to which the leading axes broadcast.
    at : slice or (systems,) integer array
        Of the flattened batch; an array is on the host.
    """
    last = array.shape[array.ndim - core :]
    if math.prod(array.shape[: array.ndim - core]) == 1:
        return array.reshape(last)
    xp, batch = namespace(array), batch or (1,)
    full = (*batch, *last)
    whole = array if array.shape == full else xp.broadcast_to(array, full)
    if isinstance(at, slice):
        if len(batch) == 1:
            return whole[at]
        at = np.arange(at.start, at.stop)
    return whole[tuple(map(xp.asarray, np.unravel_index(at, batch)))]


def joined(parts: Sequence[Array], core: int) -> Array:
    """Arrays joined along the first of their last `core` axes; batch axes broadcast."""
    xp = namespace(parts[0])
    batch = broadcast_shapes(*[part.shape[: part.ndim - core] for part in parts])
    return xp.concatenate(
        [xp.broadcast_to(v, (*batch, *v.shape[v.ndim - core :])) for v in parts],
        axis=-core,
    )


def gather(array: Array, core: int, batch: tuple[int, ...], chunk: slice) -> Array:
    """The systems of a chunk in float64; see `systems_of`."""
    return systems_of(array, core, batch, chunk).astype(np.float64, copy=False)


def drop_repeats(array: Array, core: int) -> Array:
    """A view of the array in which axes that repeat it have the length 1."""
    leading = array.ndim - core
    if not leading:
        return array
    axes = zip(array.shape[:leading], array.strides[:leading], strict=True)
    return array[
        tuple(slice(0, 1) if n and not stride else slice(None) for n, stride in axes)
    ]


def unrepeated_batch_shape(array: Array, core: int) -> tuple[int, ...]:
    """The batch axes of an array; 1 for an axis that repeats it by a stride of 0.

    Its last `core` axes belong to one system.

    Examples
    --------
    >>> A = np.broadcast_to(np.zeros((4, 1, 3, 2)), (7, 4, 5, 3, 2))
    >>> unrepeated_batch_shape(A, 2)
    (1, 4, 1)
    """
    shape: tuple[int, ...] = drop_repeats(array, core).shape[: array.ndim - core]
    return shape
