"""Monoids: associative operators with an identity; and maps applied before them.

Reduce, scan and the functions built on them need only this. Every operator is defined
twice: in CUDA for a device, and in NumPy for a CPU.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ._device.arrays import Array, as_array, namespace, on_host
from ._device.kernels import CUDA_TYPES, Device, EmulatedDevice, Kernel, device_of
from ._device.launch import CACHED, THREADS, blocks_for

OperatorName = Literal["add", "mul", "min", "max", "logical_and", "logical_or", "mssp"]
"""The names of the built-in monoids."""

Expressions = str | tuple[str, ...]
"""A CUDA expression, or an expression for each component of an element."""

ROUNDING_ERRORS = 32
"""Units of rounding by which `Monoid.check` allows floating-point results to differ."""


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
        later element); `T` is the type of a number. If an element has several numbers
        `a[k]`, an expression for each number, in C order.
    numpy : callable
        The operator in NumPy, as a function of two arrays of elements, which occupy
        the last axes. A ufunc of numbers is the fastest.
    commutative : bool
        Whether ``a op b == b op a``. If not, every algorithm keeps the order.
    dtype : dtype, optional
        Elements are converted to it when they are read. Default: no conversion.
    kinds : str, optional
        The accepted kinds of input dtypes, as in ``numpy.dtype.kind``.

    See Also
    --------
    reduce, scan, segmented_scan, segmented_reduce

    Notes
    -----
    Without associativity, results are undefined. It is not checked in a call; `check`
    tests it on random elements. Floating-point addition is treated as associative, up
    to rounding.

    Examples
    --------
    Composition of affine functions ``x -> a x + b``; the earlier is applied first:

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
        """The shape of an element; empty for a number."""
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

    def check(
        self,
        dtypes: npt.DTypeLike | Sequence[npt.DTypeLike] | None = None,
        *,
        elements: object = None,
        n: int = 1000,
        rng: np.random.Generator | int = 0,
        cuda: bool | None = None,
    ) -> None:
        """Test the laws of a monoid, and CUDA against NumPy, on random elements.

        The operator must be associative, neutral with the identity on both sides, and
        commutative if the monoid claims it. It must keep the dtype and the shape of
        the elements, and CUDA must return what NumPy returns. Integers, bool, and
        operators that select an operand, like "min", are compared exactly;
        other floats up to rounding errors of the numbers that are combined.

        Parameters
        ----------
        dtypes : dtype or sequence of dtype, optional
            Dtypes of the inputs. Default: the dtype of `elements`, else int64, float64,
            as far as the monoid accepts them.
        elements : (..., *element) array_like, optional
            Elements to draw from. Needed if not every array of numbers is an element:
            a count is not negative, a quadruple of ``"mssp"`` describes a segment.
            Default: numbers of the whole range of an integer dtype, normally
            distributed floats, and small integers.
        n : int, optional
            Number of random triples of elements.
        rng : Generator or int, optional
            A generator or a seed.
        cuda : bool, optional
            Whether to run the CUDA expressions: on the GPU of `elements` if they are a
            CuPy array, else on the emulator. Default: if they can be run; this part is
            skipped without a GPU and without the emulator. True raises the error of the
            emulator instead.

        Raises
        ------
        ValueError
            With what fails, and elements that show it; or for an invalid argument.
        TypeError
            For a dtype that the monoid does not accept.

        Notes
        -----
        A random test can only refute. The first call for a dtype compiles a kernel.

        Examples
        --------
        >>> import numpy as np
        >>> import gpusolve
        >>> smaller = gpusolve.Monoid(
        ...     "smaller", np.inf, "a > b ? a : b", np.minimum, True, kinds="f"
        ... )
        >>> smaller.check()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        ValueError: cuda of smaller ... got 3.0 instead of 2.0 for a = 2.0, b = 3.0 ...
        """
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}")
        rng = np.random.default_rng(rng)
        given = None if elements is None else self._as_elements(elements)
        device = (given is not None and device_of(given)) or EmulatedDevice()
        required = cuda is True or not isinstance(device, EmulatedDevice)
        for input_dtype in self._dtypes_to_check(dtypes, given):
            dtype = self.dtype_of(input_dtype)
            if given is None:
                shape = (n, *self.element_shape)
                a, b, c = (_random(dtype, shape, rng) for _ in range(3))
            else:
                chosen = rng.integers(len(given), size=(3, n))
                a, b, c = on_host(given).astype(dtype)[chosen]
            with np.errstate(all="ignore"):
                _check_laws(self, a, b, c)
                if cuda is not False:
                    _check_cuda(self, a, b, device, required)

    def _as_elements(self, elements: object) -> Array:
        """(..., *element) -> (count, *element)."""
        found, shape = as_array(elements, "elements"), self.element_shape
        if found.shape[found.ndim - len(shape) :] != shape or found.size == 0:
            wanted = ", ".join(["...", *map(str, shape)])
            raise ValueError(
                f"elements of {self.name} must have shape ({wanted}) and not be empty, "
                f"got {found.shape}"
            )
        return found.reshape(-1, *shape)

    def _dtypes_to_check(
        self,
        dtypes: npt.DTypeLike | Sequence[npt.DTypeLike] | None,
        elements: Array | None,
    ) -> list[np.dtype[Any]]:
        if dtypes is not None:
            listed = dtypes if isinstance(dtypes, (list, tuple)) else [dtypes]
        elif elements is not None:
            listed = [elements.dtype]
        elif self.dtype is not None:
            return [np.dtype(self.dtype)]
        else:
            usual = (np.dtype(np.int64), np.dtype(np.float64))
            listed = [dtype for dtype in usual if dtype.kind in self.kinds]
            listed = listed or [self._some_dtype()]
        found = [np.dtype(name) for name in listed]
        for dtype in found:
            if dtype.kind not in self.kinds or dtype not in CUDA_TYPES:
                raise TypeError(
                    f"dtype of {self.name} must have one of the kinds {self.kinds!r} "
                    f"and be one of {[str(key) for key in CUDA_TYPES]}, got {dtype}"
                )
        return found

    def _some_dtype(self) -> np.dtype[Any]:
        """A dtype that the monoid accepts."""
        if self.dtype is not None:
            return np.dtype(self.dtype)
        kind = "f" if "f" in self.kinds else self.kinds[0]
        return np.dtype(bool if kind == "b" else f"{kind}8")

    def _identity(self, dtype: np.dtype[Any]) -> npt.ArrayLike:
        return self.identity(dtype) if callable(self.identity) else self.identity


Monoid.__module__ = "gpusolve"  # pickles stay valid if the class moves


@dataclass(frozen=True, eq=False)
class Map:
    """A function of one or several numbers, applied when a kernel reads the numbers.

    Parameters
    ----------
    name : str
        For error messages.
    cuda : str or tuple of str
        The function as a CUDA C++ expression of `x`; `T` is the type of a number of the
        result. If a result is an element of several numbers, an expression for each.
    numpy : callable
        The function in NumPy, of an array for each parameter. An element of the result
        occupies the last axes.
    dtype : dtype, optional
        The dtype of the result. Default: the common dtype of the inputs.
    parameters : tuple of str, optional
        The names of the numbers in `cuda`. A map of several reads an array for each.
    inner : Map, optional
        A map to one number, applied before this map: see the notes.

    See Also
    --------
    map, zip, unzip

    Notes
    -----
    ``f @ g`` is the map ``x -> f(g(x))``. Kernels apply it as one map, so that results
    of `g` are not stored: ``map(f, map(g, x))`` and ``map(f @ g, x)`` are equal, and
    the second moves half the bytes.

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> square = gpusolve.Map("square", cuda="x * x", numpy=np.square)
    >>> gpusolve.reduce(np.array([3.0, 4.0]), "add", map=square)
    np.float64(25.0)
    >>> times = gpusolve.Map("times", "x * y", np.multiply, parameters=("x", "y"))
    >>> gpusolve.reduce(([1.0, 2.0], [3.0, 4.0]), "add", map=square @ times)
    np.float64(73.0)
    """

    name: str
    cuda: Expressions
    numpy: Callable[..., Array]
    dtype: npt.DTypeLike | None = None
    parameters: tuple[str, ...] = ("x",)
    inner: Map | None = None

    def __post_init__(self) -> None:
        _check_expressions(self.name, self.cuda)
        listed = isinstance(self.parameters, tuple) and len(self.parameters) > 0
        if not listed or not all(map(_is_identifier, self.parameters)):
            raise ValueError(
                f"parameters of {self.name} must be a tuple of identifiers, got "
                f"{self.parameters!r}"
            )
        if self.inner is None:
            return
        if len(self.parameters) > 1 or not isinstance(self.inner.cuda, str):
            raise ValueError(
                f"{self.name} must be a map of one number after a map to one number, "
                f"got {len(self.parameters)} parameters after "
                f"{described(self.inner.cuda)}"
            )

    def __matmul__(self, inner: Map) -> Map:
        """The composition: `inner` is applied first."""
        if not isinstance(inner, Map):
            return NotImplemented
        first = inner if self.inner is None else self.inner @ inner
        return replace(self, name=f"{self.name} @ {inner.name}", inner=first)

    @property
    def arity(self) -> int:
        """The number of arrays that the map reads."""
        return len(self.parameters) if self.inner is None else self.inner.arity

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The axes of a result: none for a number, one axis for several numbers."""
        return () if isinstance(self.cuda, str) else (len(self.cuda),)

    def dtype_of(self, *given: npt.DTypeLike) -> np.dtype[Any]:
        """The dtype of the results for inputs of dtypes `given`."""
        if self.dtype is not None:
            return np.dtype(self.dtype)
        if self.inner is not None:
            return self.inner.dtype_of(*given)
        return functools.reduce(np.promote_types, [np.dtype(dtype) for dtype in given])

    def apply(self, *x: Array) -> Array:
        """Apply the function to every number of `x`, an array for each parameter."""
        dtype = self.dtype_of(*(array.dtype for array in x))
        values = x if self.inner is None else (self.inner.apply(*x),)
        with np.errstate(over="ignore", invalid="ignore"):
            return self.numpy(*values).astype(dtype, copy=False)


Map.__module__ = "gpusolve"  # pickles stay valid if the class moves


@functools.lru_cache(CACHED)
def ufunc_of(op: Monoid, dtype: np.dtype[Any]) -> np.ufunc | None:
    """The operator as a ufunc that maps two numbers of `dtype` to a number of `dtype`.

    None unless the operator is a ufunc that keeps the dtype.
    """
    if op.ufunc is None:
        return None
    dtypes = op.ufunc.resolve_dtypes((dtype, dtype, None))
    return op.ufunc if dtypes == (dtype, dtype, dtype) else None


def _is_identifier(name: object) -> bool:
    return isinstance(name, str) and name.isidentifier()


def yields(cuda: Expressions, shape: tuple[int, ...]) -> bool:
    """Whether the expressions define an element of this shape."""
    if isinstance(cuda, str):
        return shape == ()
    return shape != () and len(cuda) == math.prod(shape)


def described(cuda: Expressions) -> str:
    """The number of expressions in words, for error messages."""
    return "one expression" if isinstance(cuda, str) else f"{len(cuda)} expressions"


def _check_expressions(name: str, cuda: object) -> None:
    listed = isinstance(cuda, tuple) and all(
        isinstance(expression, str) for expression in cuda
    )
    if not listed and not isinstance(cuda, str):
        raise TypeError(
            f"cuda of {name} must be an expression or a tuple of expressions, got "
            f"{cuda!r}"
        )


# ---- as C++ --------------------------------------------------------------------------

# Here and not in ``_blocks``, because `Monoid.check` also compiles the expressions.


def monoid_source(name: str, monoid: Monoid, dtype: np.dtype[Any]) -> str:
    """Define a C++ type `name` for a monoid whose numbers have this dtype."""
    shape = monoid.element_shape
    identity = [_literal(number) for number in monoid.identity_of(dtype).ravel()]
    result = [f"T({expression})" for expression in expressions(monoid.cuda)]
    return f"""
struct {name} {{
    using T = {CUDA_TYPES[dtype]};
    using Value = {element_type(dtype, shape)};
    static constexpr bool commutative = {_literal(monoid.commutative)};
    static __device__ __forceinline__ Value identity() {{
        return {braced([f"T({number})" for number in identity], shape)};
    }}
    __device__ __forceinline__ Value operator()(const Value& a, const Value& b) const {{
        return {braced(result, shape)};
    }}
}};
"""


def element_type(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    """The C++ type of an element of this shape."""
    number = CUDA_TYPES[dtype]
    return f"Element<{number}, {math.prod(shape)}>" if shape else number


def expressions(cuda: Expressions) -> tuple[str, ...]:
    """The expressions as a tuple."""
    return (cuda,) if isinstance(cuda, str) else cuda


def braced(numbers: list[str], shape: tuple[int, ...]) -> str:
    """The C++ expression of an element of this shape with these numbers."""
    return f"{{{{{', '.join(numbers)}}}}}" if shape else numbers[0]


def _literal(number: Any) -> str:
    """The exact value of a number as a C++ expression, of any arithmetic type."""
    if isinstance(number, (bool, np.bool_)):
        return str(bool(number)).lower()
    if isinstance(number, np.integer):
        return f"{int(number) % 2**64}ull"
    if isinstance(number, np.complexfloating):
        return f"{_literal(number.real)}, {_literal(number.imag)}"
    bits = int(np.float64(number).view(np.int64))
    return f"__longlong_as_double({bits}ll)" if bits != -(2**63) else "-0.0"


# ---- checks --------------------------------------------------------------------------


def _random(
    dtype: np.dtype[Any], shape: tuple[int, ...], rng: np.random.Generator
) -> Array:
    """Random elements. Half of them are small integers, which are often equal or 0."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    small = rng.integers(0 if dtype.kind == "u" else -3, 4, shape).astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        large = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    elif dtype.kind == "f":
        large = rng.standard_normal(shape).astype(dtype)
    else:
        parts = rng.standard_normal((2, *shape))
        large = (parts[0] + 1j * parts[1]).astype(dtype)
    return np.where(rng.random(shape) < 0.5, small, large)


def _check_laws(monoid: Monoid, a: Array, b: Array, c: Array) -> None:
    """Check the operator in NumPy on elements `a`, `b` and `c`."""
    name, dtype, combine = monoid.name, a.dtype, monoid.combine
    ab = np.asarray(monoid.numpy(a, b))
    for what, found, wanted in (
        ("dtype", ab.dtype, dtype),
        ("shape", ab.shape, a.shape),
    ):
        if found != wanted:
            raise ValueError(
                f"numpy of {name} must return {what} {wanted} for operands of {what} "
                f"{wanted}, got {found}"
            )
    bc, identity = combine(b, c), np.broadcast_to(monoid.identity_of(dtype), a.shape)
    agree = _Comparison(monoid, a, b)
    agree(
        f"numpy of {name} must be associative, got (a op b) op c =",
        combine(ab, c),
        "and a op (b op c) =",
        combine(a, bc),
        {"a": a, "b": b, "c": c},
        combine(combine(abs(a), abs(b)), abs(c)),
    )
    neutral = f"identity of {name} must be neutral, got"
    for side, found in (
        ("identity op a", combine(identity, a)),
        ("a op identity", combine(a, identity)),
    ):
        agree(f"{neutral} {side} =", found, "instead of", a, {"a": a})
    if monoid.commutative:
        agree(
            f"commutative of {name} must be False, got a op b =",
            ab,
            "and b op a =",
            combine(b, a),
            {"a": a, "b": b},
        )


def _check_cuda(
    monoid: Monoid, a: Array, b: Array, device: Device, required: bool
) -> None:
    """Compare the CUDA expressions with NumPy on elements `a` and `b`, on the host."""
    pairs = np.stack([a, b], axis=1)
    with device.current():
        kernel = _kernel_of_pairs(monoid, a.dtype, device, required)
        if kernel is None:
            return
        x, y = device.empty(pairs.shape, a.dtype), device.empty(a.shape, a.dtype)
        x[...] = namespace(x).asarray(pairs)
        kernel((blocks_for(len(a)),), (THREADS,), (x, np.int64(len(a)), y))
        result = on_host(y)
    agree = _Comparison(monoid, a, b)
    agree(
        f"cuda of {monoid.name} must return what numpy returns, got",
        result,
        "instead of",
        monoid.combine(a, b),
        {"a": a, "b": b},
    )


def _kernel_of_pairs(
    monoid: Monoid, dtype: np.dtype[Any], device: Device, required: bool
) -> Kernel | None:
    """``map.cu`` with a map from a pair of elements to the combined element.

    None if the device compiles nothing and is not required.
    """
    source = f"""#include "monoid.cuh"
{monoid_source("Operator", monoid, dtype)}
struct Combine {{
    using Input = Element<Operator::Value, 2>;
    using Value = Operator::Value;
    __device__ __forceinline__ Value operator()(const Input& x) const {{
        return Operator()(x[0], x[1]);
    }}
}};
"""
    try:
        return device.kernels("map", ("map_elements<Combine>",), source)[0]
    except RuntimeError as error:
        # Is it the expression, or is there no compiler at all?
        try:
            device.kernels("map", ("map_elements<Keep<int>>",))
        except RuntimeError:
            if required:
                raise
            return None
        raise ValueError(
            f"cuda of {monoid.name} must compile for {dtype}, got\n{error}"
        ) from error


class _Comparison:
    """Compares results of an operator, up to rounding if it is inexact."""

    def __init__(self, monoid: Monoid, a: Array, b: Array) -> None:
        self.name, self.dtype = monoid.name, a.dtype
        ab = monoid.combine(a, b)
        rounds = a.dtype.kind in "fc" and not np.all((ab == a) | (ab == b))
        self.tolerance = ROUNDING_ERRORS * np.finfo(a.dtype).eps if rounds else 0.0

    def __call__(
        self,
        before: str,
        left: Array,
        between: str,
        right: Array,
        operands: dict[str, Array],
        *more: Array,
    ) -> None:
        """Raise ValueError with operands whose results differ, in the fewest digits.

        `before` and `between` precede the results in the message. `more` are numbers
        of the size of the added numbers.
        """
        equal = (left == right) | ((left != left) & (right != right))
        if self.tolerance:
            scale = _largest_number(left, right, *operands.values(), *more)
            wide = np.promote_types(self.dtype, np.float64)
            error = abs(left.astype(wide) - right.astype(wide))
            bound = self.tolerance * scale
            equal |= error <= bound.reshape(-1, *(1,) * (left.ndim - 1))
        wrong = ~equal.reshape(len(left), -1).all(axis=1)
        if not wrong.any():
            return
        examples = (
            f"{before} {left[i].tolist()} {between} {right[i].tolist()} for "
            + ", ".join(f"{key} = {x[i].tolist()}" for key, x in operands.items())
            for i in np.flatnonzero(wrong)
        )
        shortest = sorted(examples, key=len)[0]
        raise ValueError(f"{shortest} of {self.dtype}")


def _largest_number(*arrays: Array) -> Array:
    """The largest finite magnitude of each element of all arrays."""
    sizes = [abs(x.astype(np.promote_types(x.dtype, float))) for x in arrays]
    finite = [np.where(np.isfinite(size), size, 0.0) for size in sizes]
    largest = functools.reduce(np.maximum, finite)
    return largest.reshape(len(largest), -1).max(axis=1)


# ---- built-in ------------------------------------------------------------------------


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


add: Monoid = Monoid("add", 0, "wrapping_add(a, b)", np.add, True, kinds="biufc")
mul: Monoid = Monoid(
    "mul", 1, "wrapping_multiply(a, b)", np.multiply, True, kinds="biufc"
)
min: Monoid = Monoid("min", _greatest, "minimum(a, b)", np.minimum, True)
max: Monoid = Monoid("max", _least, "maximum(a, b)", np.maximum, True)
logical_and: Monoid = Monoid(
    "logical_and", True, "a && b", np.logical_and, True, dtype=bool
)
logical_or: Monoid = Monoid(
    "logical_or", False, "a || b", np.logical_or, True, dtype=bool
)

mssp: Monoid = Monoid(
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

segment_sums_of_one: Map = Map(
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
    """The monoid itself, or the built-in monoid of this name.

    Raises
    ------
    TypeError, ValueError
        If `op` is neither, or an unknown name.
    """
    if isinstance(op, Monoid):
        return op
    if not isinstance(op, str):
        raise TypeError(f"op must be a Monoid or the name of a Monoid, got {op!r}")
    if op not in BUILT_IN:
        raise ValueError(f"op must be one of {sorted(BUILT_IN)}, got {op!r}")
    return BUILT_IN[op]
