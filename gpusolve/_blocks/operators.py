"""Monoids and maps as C++ types, the template arguments of kernels."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from .._device.kernels import CUDA_TYPES
from ..monoid import Expressions, Map, Monoid

ELEMENT_TYPES = '#include "monoid.cuh"'
"""The definitions of the element types that a kernel's template arguments name."""


class Operators(NamedTuple):
    """A monoid and the map applied before it, for inputs of one dtype.

    Attributes
    ----------
    definitions : str
        C++ source that defines the types; it precedes the source of the kernel.
    monoid, map : str
        The names of the types.
    dtype : dtype
        The dtype of the results.
    element_shape : tuple of int
        The shape of one result.
    """

    definitions: str
    monoid: str
    map: str
    dtype: np.dtype[Any]
    element_shape: tuple[int, ...]

    @property
    def keep(self) -> str:
        """The identity map of the monoid's elements."""
        return f"Keep<{self.monoid}::Value>"

    @property
    def element_bytes(self) -> int:
        """The size of one result."""
        return self.dtype.itemsize * math.prod(self.element_shape)


@functools.lru_cache(maxsize=1024)
def operators(
    monoid: Monoid,
    given: np.dtype[Any],
    map: Map | None = None,
    *,
    name: str = "Operator",
) -> Operators:
    """Write a monoid and a map in C++, for inputs of dtype `given`.

    Several monoids before one file need different names, and at most one of them may
    have a map.
    """
    mapped = given if map is None else map.dtype_of(given)
    dtype = monoid.dtype_of(mapped)
    shape = monoid.element_shape
    parts = [ELEMENT_TYPES, _monoid_source(name, monoid, dtype)]
    map_name = f"Keep<{name}::Value>"
    if map is not None or dtype != given:
        read = map or _conversion(shape)
        taken = element_type(given, () if map else shape)
        parts.append(_map_source(read, taken, mapped, dtype, shape))
        map_name = "Transform"
    return Operators("".join(parts), name, map_name, dtype, shape)


def predicate_source(map: Map | None, given: np.dtype[Any]) -> tuple[str, str]:
    """Definitions and name of a map to bool; of the identity map for a mask."""
    if map is None:
        return ELEMENT_TYPES, "Keep<bool>"
    mapped = map.dtype_of(given)
    source = _map_source(map, CUDA_TYPES[given], mapped, np.dtype(bool), ())
    return ELEMENT_TYPES + source, "Transform"


def element_type(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    """The C++ type of an element of this shape."""
    number = CUDA_TYPES[dtype]
    return f"Element<{number}, {math.prod(shape)}>" if shape else number


def _monoid_source(name: str, monoid: Monoid, dtype: np.dtype[Any]) -> str:
    shape = monoid.element_shape
    identity = [_literal(one) for one in monoid.identity_of(dtype).ravel()]
    result = [f"T({one})" for one in _listed(monoid.cuda)]
    return f"""
struct {name} {{
    using T = {CUDA_TYPES[dtype]};
    using Value = {element_type(dtype, shape)};
    static constexpr bool commutative = {_literal(monoid.commutative)};
    static __device__ __forceinline__ Value identity() {{
        return {_braced([f"T({one})" for one in identity], shape)};
    }}
    __device__ __forceinline__ Value operator()(const Value& a, const Value& b) const {{
        return {_braced(result, shape)};
    }}
}};
"""


def _map_source(
    map: Map,
    taken: str,
    mapped: np.dtype[Any],
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
) -> str:
    """A map from `taken` to numbers of dtype `mapped`, converted to `dtype`."""
    result = [f"Number(T({one}))" for one in _listed(map.cuda)]
    return f"""
struct Transform {{
    using T = {CUDA_TYPES[mapped]};
    using Number = {CUDA_TYPES[dtype]};
    using Input = {taken};
    using Value = {element_type(dtype, shape)};
    __device__ __forceinline__ Value operator()(const Input& x) const {{
        return {_braced(result, shape)};
    }}
}};
"""


def _conversion(shape: tuple[int, ...]) -> Map:
    """The identity map of numbers; its result is then converted."""
    numbers = tuple(f"x[{k}]" for k in range(math.prod(shape)))
    return Map("conversion", numbers if shape else "x", np.asarray)


def _listed(cuda: Expressions) -> tuple[str, ...]:
    return (cuda,) if isinstance(cuda, str) else cuda


def _braced(numbers: list[str], shape: tuple[int, ...]) -> str:
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
