"""Monoids and maps as C++ types, the template arguments of kernels."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from .._device.kernels import CUDA_TYPES
from .._device.launch import CACHED
from ..monoid import (
    Map,
    Monoid,
    braced,
    element_type,
    expressions,
    monoid_source,
)

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


@functools.lru_cache(CACHED)
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
    parts = [ELEMENT_TYPES, monoid_source(name, monoid, dtype)]
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


def _map_source(
    map: Map,
    taken: str,
    mapped: np.dtype[Any],
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
) -> str:
    """A map from `taken` to numbers of dtype `mapped`, converted to `dtype`."""
    result = [f"Number(T({one}))" for one in expressions(map.cuda)]
    return f"""
struct Transform {{
    using T = {CUDA_TYPES[mapped]};
    using Number = {CUDA_TYPES[dtype]};
    using Input = {taken};
    using Value = {element_type(dtype, shape)};
    __device__ __forceinline__ Value operator()(const Input& x) const {{
        return {braced(result, shape)};
    }}
}};
"""


def _conversion(shape: tuple[int, ...]) -> Map:
    """The identity map of numbers; its result is then converted."""
    numbers = tuple(f"x[{k}]" for k in range(math.prod(shape)))
    return Map("conversion", numbers if shape else "x", np.asarray)
