"""Monoids and maps as C++: the types that the kernels are templates over."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from .._device.kernels import CUDA_TYPES
from ..monoid import Expressions, Map, Monoid


class Operators(NamedTuple):
    """A monoid, and a map in front of it, for inputs of one dtype.

    Attributes
    ----------
    definitions : str
        C++ that defines the types, to stand in front of a kernel's source.
    monoid, map : str
        The types' names.
    dtype : dtype
        Of the results.
    element_shape : tuple of int
        Of one result.
    """

    definitions: str
    monoid: str
    map: str
    dtype: np.dtype[Any]
    element_shape: tuple[int, ...]

    @property
    def keep(self) -> str:
        """The map that leaves the monoid's elements as they are."""
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
    """Both for inputs of dtype `given`, in C++.

    Monoids whose definitions stand together, in front of one file, have each a `name`
    of its own; and one of them at most a map.
    """
    mapped = given if map is None else map.dtype_of(given)
    dtype = monoid.dtype_of(mapped)
    shape = monoid.element_shape
    parts = ['#include "monoid.cuh"', _monoid_source(name, monoid, dtype)]
    map_name = f"Keep<{name}::Value>"
    if map is not None or dtype != given:
        read = map or _conversion(shape)
        taken = element_type(given, () if map else shape)
        parts.append(_map_source(read, taken, mapped, dtype, shape))
        map_name = "Transform"
    return Operators("".join(parts), name, map_name, dtype, shape)


def predicate(map: Map | None, given: np.dtype[Any]) -> tuple[str, str]:
    """Definitions and name of a map to bool; without one that of a mask itself."""
    include = '#include "monoid.cuh"'
    if map is None:
        return include, "Keep<bool>"
    mapped = map.dtype_of(given)
    source = _map_source(map, CUDA_TYPES[given], mapped, np.dtype(bool), ())
    return include + source, "Transform"


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
    """A map of `taken` to numbers of dtype `mapped`, then converted to `dtype`."""
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
    """The map that leaves every number as it is, to be converted after it."""
    numbers = tuple(f"x[{k}]" for k in range(math.prod(shape)))
    return Map("conversion", numbers if shape else "x", np.asarray)


def _listed(cuda: Expressions) -> tuple[str, ...]:
    return (cuda,) if isinstance(cuda, str) else cuda


def _braced(numbers: list[str], shape: tuple[int, ...]) -> str:
    return f"{{{{{', '.join(numbers)}}}}}" if shape else numbers[0]


def _literal(number: Any) -> str:
    """A number in C++, exactly, before its conversion to the type that it has."""
    if isinstance(number, (bool, np.bool_)):
        return str(bool(number)).lower()
    if isinstance(number, np.integer):
        return f"{int(number) % 2**64}ull"
    if isinstance(number, np.complexfloating):
        return f"{_literal(number.real)}, {_literal(number.imag)}"
    bits = int(np.float64(number).view(np.int64))
    return f"__longlong_as_double({bits}ll)" if bits != -(2**63) else "-0.0"
