"""User-defined monoids and maps, and random elements for every tested monoid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import oracles
from numpy.typing import NDArray

from gpusolve import Map, Monoid

Array = NDArray[Any]

matrix_product = Monoid(
    "matrix product",
    identity=((1, 0), (0, 1)),
    cuda=tuple(
        f"wrapping_add(wrapping_multiply(a[{2 * i}], b[{j}]), "
        f"wrapping_multiply(a[{2 * i + 1}], b[{2 + j}]))"
        for i in (0, 1)
        for j in (0, 1)
    ),
    numpy=np.matmul,
    commutative=False,
)
"""2 x 2 matrices of integers, whose products are exact modulo a power of two."""

affine = Monoid(
    "affine",
    identity=(1, 0),
    cuda=(
        "wrapping_multiply(a[0], b[0])",
        "wrapping_add(wrapping_multiply(a[1], b[0]), b[1])",
    ),
    numpy=lambda f, g: np.stack(
        [f[..., 0] * g[..., 0], f[..., 1] * g[..., 0] + g[..., 1]], axis=-1
    ),
    commutative=False,
)
"""Functions ``x -> a x + b``; the first operand is applied first."""


def _least_and_last(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind == "f":
        return -np.inf, np.inf
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def _larger(a: Array, b: Array) -> Array:
    from_b = (b[..., 0] > a[..., 0]) | (b[..., 0] == a[..., 0]) & (
        b[..., 1] < a[..., 1]
    )
    return np.where(from_b[..., None], b, a)


argmax = Monoid(
    "argmax",
    identity=_least_and_last,
    cuda=tuple(
        f"b[0] > a[0] || (b[0] == a[0] && b[1] < a[1]) ? b[{k}] : a[{k}]"
        for k in (0, 1)
    ),
    numpy=_larger,
    commutative=True,
)
"""The largest of pairs (value, index); of equal values the least index."""

first_nonzero = Monoid(
    "first nonzero",
    identity=0,
    cuda="a != T(0) ? a : b",
    numpy=lambda a, b: np.where(a != 0, a, b),
    commutative=False,
)
"""A monoid of numbers that does not commute."""

exclusive_or = Monoid(
    "exclusive or", 0, "a ^ b", np.bitwise_xor, commutative=True, kinds="iu"
)
"""A ufunc that is not a built-in monoid."""

USER_DEFINED = {
    monoid.name: monoid
    for monoid in (matrix_product, affine, argmax, first_nonzero, exclusive_or)
}


# ---- maps ----

square = Map("square", "x * x", np.square)
is_even = Map("is even", "x % 2 == 0", lambda x: x % 2 == 0, dtype=bool)
is_positive = Map("is positive", "x > 0", lambda x: x > 0, dtype=bool)


# ---- cases ----


@dataclass(frozen=True)
class Case:
    """A monoid and the dtype of its inputs."""

    name: str
    given: np.dtype[Any]

    def __str__(self) -> str:
        return f"{self.name} of {self.given}".replace(" ", "_")

    @property
    def op(self) -> str | Monoid:
        return USER_DEFINED.get(self.name, self.name)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the results."""
        return np.dtype(bool) if self.name.startswith("logical") else self.given

    @property
    def element_shape(self) -> tuple[int, ...]:
        shapes = {
            "matrix product": (2, 2),
            "affine": (2,),
            "argmax": (2,),
            "mssp": (4,),
        }
        return shapes.get(self.name, ())

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """n random elements. Floats are not rounded, however they are grouped."""
        return SAMPLES.get(self.name, anything)(rng, self.given, n)

    def fold(self, x: Array) -> Array:
        """Combine all elements of `x` by brute force."""
        return self._array(oracles.fold(x.tolist(), *self._operator), ())

    def prefixes(self, x: Array, exclusive: bool = False) -> Array:
        """Combine all prefixes of `x` by brute force."""
        found = oracles.prefixes(x.tolist(), *self._operator, exclusive)
        return self._array(found, (len(x),))

    def segmented_prefixes(
        self, x: Array, flags: Array, exclusive: bool = False
    ) -> Array:
        """Combine all prefixes of all segments of `x` by brute force."""
        identity, combine = self._operator
        found = [
            prefix
            for segment in oracles.segments(x.tolist(), flags.tolist())
            for prefix in oracles.prefixes(segment, identity, combine, exclusive)
        ]
        return self._array(found, (len(x),))

    @property
    def _operator(self) -> tuple[Any, Callable[[Any, Any], Any]]:
        return oracles.operator(self.name, self.dtype)

    def _array(self, values: Any, shape: tuple[int, ...]) -> Array:
        return np.array(values, self.dtype).reshape(shape + self.element_shape)


def frozen(x: Array) -> Array:
    """The same array, which several tests can share."""
    x.flags.writeable = False
    return x


def cases(*pairs: tuple[str, str]) -> list[Case]:
    """Cases from pairs of a monoid's name and dtypes separated by spaces."""
    return [
        Case(name, np.dtype(dtype))
        for name, dtypes in pairs
        for dtype in dtypes.split()
    ]


# ---- samples ----


def anything(rng: np.random.Generator, dtype: np.dtype[Any], *shape: int) -> Array:
    """Uniform integers of the whole range; normally distributed floats."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def terms(rng: np.random.Generator, dtype: np.dtype[Any], n: int) -> Array:
    """Uniform integers of the whole range; floats with small integer values."""
    if dtype.kind in "biu":
        return anything(rng, dtype, n)
    imaginary = 1j * rng.integers(-2, 3, n) if dtype.kind == "c" else 0
    return (rng.integers(-2, 3, n) + imaginary).astype(dtype)


def factors(rng: np.random.Generator, dtype: np.dtype[Any], n: int) -> Array:
    """Odd integers, whose products are never 0; floats of magnitude 1, a few of 2."""
    if dtype.kind == "b":
        return rng.random(n) < 0.999
    if dtype.kind in "iu":
        return anything(rng, dtype, n) | dtype.type(1)
    units = [1, -1, 1j, -1j] if dtype.kind == "c" else [1, -1]
    x = rng.choice(units, n).astype(dtype)
    x[rng.integers(0, n, 8) if n else []] *= 2
    return x


def rarely_false(rng: np.random.Generator, dtype: np.dtype[Any], n: int) -> Array:
    """Numbers of which few are 0 and, if floats, many would round to 0."""
    nonzero = rng.integers(1, 100, n) / (200 if dtype.kind == "f" else 1)
    return np.where(rng.random(n) < 1 / (n + 1), 0, nonzero).astype(dtype)


def rarely_true(rng: np.random.Generator, dtype: np.dtype[Any], n: int) -> Array:
    """Numbers of which few are nonzero; floats are less than 1."""
    nonzero = rng.integers(1, 100, n) / (200 if dtype.kind == "f" else 1)
    return np.where(rng.random(n) < 2 / (n + 1), nonzero, 0).astype(dtype)


def late_nonzero(rng: np.random.Generator, dtype: np.dtype[Any], n: int) -> Array:
    """Numbers of which about three are nonzero."""
    return np.where(rng.random(n) < 3 / (n + 1), anything(rng, dtype, n), dtype.type(0))


def segment_sums(rng: np.random.Generator, dtype: np.dtype[Any], n: int) -> Array:
    """Quadruples of ``mssp`` for small integers."""
    x = rng.integers(-9, 10, n).astype(dtype)
    return np.stack([*3 * [np.maximum(x, 0)], x], axis=-1)


def ties(rng: np.random.Generator, dtype: np.dtype[Any], n: int) -> Array:
    """Pairs (value, index) with few different values."""
    return np.stack([rng.integers(-5, 5, n), np.arange(n)], axis=-1).astype(dtype)


def matrices(rng: np.random.Generator, dtype: np.dtype[Any], n: int) -> Array:
    """Matrices with odd determinants, whose products are never 0."""
    x = anything(rng, dtype, n, 2, 2)
    x[:, [0, 1], [0, 1]] |= 1
    x[:, 1, 0] *= 2
    return x


def functions(rng: np.random.Generator, dtype: np.dtype[Any], n: int) -> Array:
    """Functions with odd slopes, so that a composition depends on all of them."""
    x = anything(rng, dtype, n, 2)
    x[:, 0] |= 1
    return x


SAMPLES: dict[str, Callable[..., Array]] = {
    "add": terms,
    "mul": factors,
    "logical_and": rarely_false,
    "logical_or": rarely_true,
    "mssp": segment_sums,
    "matrix product": matrices,
    "affine": functions,
    "argmax": ties,
    "first nonzero": late_nonzero,
}
"""Sampling functions by the name of the monoid; `anything` for all others."""


# ---- the tested cases ----

INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64"
REALS = f"bool {INTEGERS} float16 float32 float64"

EVERY_DTYPE = cases(
    ("add", f"{REALS} complex64 complex128"),
    ("mul", f"{REALS} complex64 complex128"),
    ("min", REALS),
    ("max", REALS),
    ("logical_and", REALS),
    ("logical_or", REALS),
    ("mssp", "int32 int64 float32 float64"),
)
"""For NumPy only: on a device each case would have to be compiled."""

REPRESENTATIVE = cases(
    ("add", "bool int8 uint16 int32 int64 float16 float32 float64 complex64"),
    ("mul", "bool uint8 int16 int64 float32 complex128"),
    ("min", "int8 uint64 float32"),
    ("max", "bool int64 float16 float64"),
    ("logical_and", "uint8 float32"),
    ("logical_or", "bool float64"),
    ("mssp", "int32"),
    ("matrix product", "int64"),
    ("affine", "int32"),
    ("argmax", "float64"),
    ("first nonzero", "int16"),
    ("exclusive or", "uint32"),
)
"""Every monoid, and dtypes of every size and kind."""

FEW = cases(
    ("add", "int32"),
    ("max", "float64"),
    ("mssp", "int64"),
    ("matrix product", "int64"),
    ("first nonzero", "int8"),
)
"""Monoids with and without a ufunc; some commute and some do not."""

LENGTHS = (0, 1, 2, 3, 31, 32, 33, 64, 65, 127, 255, 257, 1023, 1024, 1025, 2049, 10007)
"""Lengths around the sizes of a warp, of a block and of several blocks."""
