"""Monoids: an associative operator with its identity; and maps fused in front of it.

Reduce, scan and all that is built of them need to know no more of an operator than
this. It is written down twice, as everything here: in CUDA for a device, in NumPy for
a CPU.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ._device.arrays import Array

Expressions = str | tuple[str, ...]
"""One CUDA expression, or one for each component of an element."""


@dataclass(frozen=True, eq=False)
class Monoid:
    """An associative operator and its identity.

    An element is a number or a small array of numbers: the shape of the identity is
    the shape of one element. So `x` of shape ``(..., n, 2, 2)`` holds rows of n
    elements of a monoid whose identity is ``numpy.eye(2)``.

    Parameters
    ----------
    name : str
        For error messages.
    identity : array_like or callable
        What changes nothing, on either side. Where it depends on the dtype, a function
        of the dtype.
    cuda : str or tuple of str
        The operator as a CUDA C++ expression in `a` (the earlier element) and `b` (the
        later one), with `T` the type of a number. For an element of several numbers
        one expression for each of them, in C order; `a[k]` and `b[k]` are the numbers.
    numpy : callable
        The operator in NumPy, of two arrays of elements. Elements lie in the last
        axes. A ufunc of numbers is the quickest.
    commutative : bool
        Whether ``a op b`` is ``b op a``. Where not, every algorithm keeps the order.
    dtype : dtype, optional
        Elements are converted to it as they are read. By default they stay as they are.
    kinds : str, optional
        The kinds of dtype that it takes, as in ``numpy.dtype.kind``; of the elements as
        they are given.

    Notes
    -----
    That the operator is associative is not checked: where it is not, nothing here is
    defined. Addition of floats counts as associative, up to rounding.

    Examples
    --------
    Composition of affine functions ``x -> a x + b``, the earlier one applied first:

    >>> import numpy as np
    >>> import gpusolve
    >>> affine = gpusolve.Monoid(
    ...     "affine",
    ...     identity=(1, 0),
    ...     cuda=("a[0] * b[0]", "a[1] * b[0] + b[1]"),
    ...     numpy=lambda f, g: np.stack(
    ...         [f[..., 0] * g[..., 0], f[..., 1] * g[..., 0] + g[..., 1]], axis=-1
    ...     ),
    ...     commutative=False,
    ... )
    >>> gpusolve.reduce(np.array([[2, 1], [3, 0], [1, 5]]), affine)
    array([6, 8])
    """

    name: str
    identity: npt.ArrayLike | Callable[[np.dtype[Any]], npt.ArrayLike]
    cuda: Expressions
    numpy: Callable[[Array, Array], Array]
    commutative: bool
    dtype: npt.DTypeLike | None = None
    kinds: str = "biuf"

    def __post_init__(self) -> None:
        _check_expressions(self.name, self.cuda)
        if not yields(self.cuda, self.element_shape):
            raise ValueError(
                f"an element of {self.name} has shape {self.element_shape}; cuda has "
                f"{described(self.cuda)}"
            )

    @functools.cached_property
    def element_shape(self) -> tuple[int, ...]:
        """The shape of one element; empty for a number."""
        return np.shape(self._identity(self._some_dtype()))

    @property
    def ufunc(self) -> np.ufunc | None:
        """The operator, if it is a ufunc of two numbers, which NumPy can accumulate."""
        operator = self.numpy
        if not isinstance(operator, np.ufunc) or operator.signature is not None:
            return None
        return None if self.element_shape else operator

    def dtype_of(self, given: npt.DTypeLike) -> np.dtype[Any]:
        """The dtype of the results, from that of the elements as they are given."""
        return np.dtype(given if self.dtype is None else self.dtype)

    def identity_of(self, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """The identity among elements of this dtype."""
        dtype = np.dtype(dtype)
        return np.asarray(self._identity(dtype)).astype(dtype)

    def combine(self, a: Array, b: Array) -> Array:
        """``a op b``, element by element, in the dtype of `a`."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.numpy(a, b).astype(a.dtype, copy=False)

    def _some_dtype(self) -> np.dtype[Any]:
        """A dtype that the monoid takes."""
        if self.dtype is not None:
            return np.dtype(self.dtype)
        kind = "f" if "f" in self.kinds else self.kinds[0]
        return np.dtype(bool if kind == "b" else f"{kind}8")

    def _identity(self, dtype: np.dtype[Any]) -> npt.ArrayLike:
        return self.identity(dtype) if callable(self.identity) else self.identity


@dataclass(frozen=True, eq=False)
class Map:
    """A function of one number, fused into what reads it.

    Parameters
    ----------
    name : str
        For error messages.
    cuda : str or tuple of str
        The function as a CUDA C++ expression in `x`, with `T` the type of a number of
        the result; one expression for each number where the result is an element of
        several.
    numpy : callable
        The function in NumPy, of an array. The numbers of a result lie in the last
        axes.
    dtype : dtype, optional
        Of the result. By default that of the input.

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> square = gpusolve.Map("square", cuda="x * x", numpy=np.square)
    >>> gpusolve.reduce(np.array([3.0, 4.0]), "add", map=square)
    np.float64(25.0)
    """

    name: str
    cuda: Expressions
    numpy: Callable[[Array], Array]
    dtype: npt.DTypeLike | None = None

    def __post_init__(self) -> None:
        _check_expressions(self.name, self.cuda)

    def dtype_of(self, given: npt.DTypeLike) -> np.dtype[Any]:
        """The dtype of the results, from that of the inputs."""
        return np.dtype(given if self.dtype is None else self.dtype)

    def apply(self, x: Array) -> Array:
        """The function of every number of `x`."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.numpy(x).astype(self.dtype_of(x.dtype), copy=False)


def yields(cuda: Expressions, shape: tuple[int, ...]) -> bool:
    """Whether the expressions are those of an element of this shape."""
    if isinstance(cuda, str):
        return shape == ()
    return shape != () and len(cuda) == math.prod(shape)


def described(cuda: Expressions) -> str:
    """How many expressions these are, for error messages."""
    return "one expression" if isinstance(cuda, str) else f"{len(cuda)} expressions"


def _check_expressions(name: str, cuda: object) -> None:
    listed = isinstance(cuda, tuple) and all(isinstance(one, str) for one in cuda)
    if not listed and not isinstance(cuda, str):
        raise TypeError(
            f"cuda of {name} is {cuda!r}; an expression or a tuple of them is wanted"
        )


def _least(dtype: np.dtype[Any]) -> npt.ArrayLike:
    if dtype.kind == "f":
        return -np.inf
    return False if dtype.kind == "b" else np.iinfo(dtype).min


def _greatest(dtype: np.dtype[Any]) -> npt.ArrayLike:
    if dtype.kind == "f":
        return np.inf
    return True if dtype.kind == "b" else np.iinfo(dtype).max


def _combine_segment_sums(a: Array, b: Array) -> Array:
    best_a, first_a, last_a, total_a = (a[..., k] for k in range(4))
    best_b, first_b, last_b, total_b = (b[..., k] for k in range(4))
    best = np.maximum(np.maximum(best_a, best_b), last_a + first_b)
    first = np.maximum(first_a, total_a + first_b)
    last = np.maximum(last_b, last_a + total_b)
    return np.stack([best, first, last, total_a + total_b], axis=-1)


def _segment_sums_of_one(x: Array) -> Array:
    positive = np.maximum(x, x.dtype.type(0))
    return np.stack([positive, positive, positive, x], axis=-1)


add = Monoid("add", 0, "wrapping_add(a, b)", np.add, True, kinds="biufc")
mul = Monoid("mul", 1, "wrapping_multiply(a, b)", np.multiply, True, kinds="biufc")
min = Monoid("min", _greatest, "minimum(a, b)", np.minimum, True)
max = Monoid("max", _least, "maximum(a, b)", np.maximum, True)
logical_and = Monoid("logical_and", True, "a && b", np.logical_and, True, dtype=bool)
logical_or = Monoid("logical_or", False, "a || b", np.logical_or, True, dtype=bool)

mssp = Monoid(
    "mssp",
    identity=(0, 0, 0, 0),
    cuda=(
        "maximum(maximum(a[0], b[0]), wrapping_add(a[2], b[1]))",
        "maximum(a[1], wrapping_add(a[3], b[1]))",
        "maximum(b[2], wrapping_add(a[2], b[3]))",
        "wrapping_add(a[3], b[3])",
    ),
    numpy=_combine_segment_sums,
    commutative=False,
    kinds="if",
)
"""The maximum segment sum problem: the largest sums of a segment anywhere, of one that
begins where the array does, of one that ends where it does; and the sum of all."""

segment_sums_of_one = Map(
    "segment_sums_of_one",
    cuda=("maximum(x, T(0))",) * 3 + ("x",),
    numpy=_segment_sums_of_one,
)
"""The quadruple of `mssp` for an array of one number."""

BUILT_IN = {
    monoid.name: monoid
    for monoid in (add, mul, min, max, logical_and, logical_or, mssp)
}


def as_monoid(op: str | Monoid) -> Monoid:
    """The monoid of this name, or the one given.

    Raises
    ------
    TypeError, ValueError
        For neither, or for an unknown name.
    """
    if isinstance(op, Monoid):
        return op
    if not isinstance(op, str):
        raise TypeError(f"op is {op!r}; a Monoid or the name of one is wanted")
    if op not in BUILT_IN:
        raise ValueError(f"op is {op!r}; one of {sorted(BUILT_IN)} is wanted")
    return BUILT_IN[op]
