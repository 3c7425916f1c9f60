"""Monoids: associative operators with an identity; and maps applied before them.

Reduce, scan and the functions built on them need only this. Every operator is defined
twice: in CUDA for a device, and in NumPy for a CPU.
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

    An element is a number or a small array of numbers; it has the shape of the
    identity. For a monoid with the identity ``numpy.eye(2)``, for example, an array of
    shape ``(..., n, 2, 2)`` contains rows of n elements.

    Parameters
    ----------
    name : str
        For error messages.
    identity : array_like or callable
        The identity element. If it depends on the dtype, a function of the dtype.
    cuda : str or tuple of str
        The operator as a CUDA C++ expression of `a` (the earlier element) and `b` (the
        later one); `T` is the type of a number. If an element has several numbers
        `a[k]`, one expression for each of them, in C order.
    numpy : callable
        The operator in NumPy, as a function of two arrays of elements, which occupy
        the last axes. A ufunc of numbers is the fastest.
    commutative : bool
        Whether ``a op b == b op a``. If not, every algorithm keeps the order.
    dtype : dtype, optional
        Elements are converted to it when they are read. Default: no conversion.
    kinds : str, optional
        The accepted kinds of input dtypes, as in ``numpy.dtype.kind``.

    Notes
    -----
    Associativity is not checked; without it, results are undefined. Floating-point
    addition is treated as associative, up to rounding.

    Examples
    --------
    Composition of affine functions ``x -> a x + b``; the earlier one is applied first:

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
                f"cuda of {self.name} must have one expression per number of an "
                f"element, of shape {self.element_shape}; got {described(self.cuda)}"
            )

    @functools.cached_property
    def element_shape(self) -> tuple[int, ...]:
        """The shape of one element; empty for a number."""
        return np.shape(self._identity(self._some_dtype()))

    @property
    def ufunc(self) -> np.ufunc | None:
        """The operator if it is a ufunc of two numbers; else None."""
        operator = self.numpy
        if not isinstance(operator, np.ufunc) or operator.signature is not None:
            return None
        return None if self.element_shape else operator

    def dtype_of(self, given: npt.DTypeLike) -> np.dtype[Any]:
        """The dtype of the results for inputs of dtype `given`."""
        return np.dtype(given if self.dtype is None else self.dtype)

    def identity_of(self, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """The identity as an element of this dtype."""
        dtype = np.dtype(dtype)
        return np.asarray(self._identity(dtype)).astype(dtype)

    def combine(self, a: Array, b: Array) -> Array:
        """``a op b`` elementwise, in the dtype of `a`."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.numpy(a, b).astype(a.dtype, copy=False)

    def _some_dtype(self) -> np.dtype[Any]:
        """A dtype that the monoid accepts."""
        if self.dtype is not None:
            return np.dtype(self.dtype)
        kind = "f" if "f" in self.kinds else self.kinds[0]
        return np.dtype(bool if kind == "b" else f"{kind}8")

    def _identity(self, dtype: np.dtype[Any]) -> npt.ArrayLike:
        return self.identity(dtype) if callable(self.identity) else self.identity


@dataclass(frozen=True, eq=False)
class Map:
    """A function of one number, applied when a kernel reads the number.

    Parameters
    ----------
    name : str
        For error messages.
    cuda : str or tuple of str
        The function as a CUDA C++ expression of `x`; `T` is the type of a number of the
        result. If a result is an element of several numbers, one expression for each.
    numpy : callable
        The function in NumPy, of an array. An element of the result occupies the last
        axes.
    dtype : dtype, optional
        The dtype of the result. Default: that of the input.

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
        """The dtype of the results for inputs of dtype `given`."""
        return np.dtype(given if self.dtype is None else self.dtype)

    def apply(self, x: Array) -> Array:
        """Apply the function to every number of `x`."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.numpy(x).astype(self.dtype_of(x.dtype), copy=False)


def yields(cuda: Expressions, shape: tuple[int, ...]) -> bool:
    """Whether the expressions define an element of this shape."""
    if isinstance(cuda, str):
        return shape == ()
    return shape != () and len(cuda) == math.prod(shape)


def described(cuda: Expressions) -> str:
    """The number of expressions in words, for error messages."""
    return "one expression" if isinstance(cuda, str) else f"{len(cuda)} expressions"


def _check_expressions(name: str, cuda: object) -> None:
    listed = isinstance(cuda, tuple) and all(isinstance(one, str) for one in cuda)
    if not listed and not isinstance(cuda, str):
        raise TypeError(
            f"cuda of {name} must be an expression or a tuple of expressions, got "
            f"{cuda!r}"
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
"""The maximum segment sum problem. An element has four numbers: the largest sum of any
segment, of a prefix, and of a suffix; and the sum of all numbers."""

segment_sums_of_one = Map(
    "segment_sums_of_one",
    cuda=("maximum(x, T(0))",) * 3 + ("x",),
    numpy=_segment_sums_of_one,
)
"""The element of `mssp` for a single number."""

BUILT_IN = {
    monoid.name: monoid
    for monoid in (add, mul, min, max, logical_and, logical_or, mssp)
}


def as_monoid(op: str | Monoid) -> Monoid:
    """The monoid itself, or the built-in one of this name.

    Raises
    ------
    TypeError, ValueError
        If `op` is neither, or an unknown name.
    """
    if isinstance(op, Monoid):
        return op
    if not isinstance(op, str):
        raise TypeError(f"op must be a Monoid or the name of one, got {op!r}")
    if op not in BUILT_IN:
        raise ValueError(f"op must be one of {sorted(BUILT_IN)}, got {op!r}")
    return BUILT_IN[op]
