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
from .inputs import Elements

ELEMENT_TYPES = '#include "monoid.cuh"'
"""The definitions of the element types that a kernel's template arguments name."""


class Operators(NamedTuple):
    """A monoid and the map applied before it, for inputs of certain dtypes.

    Attributes
    ----------
    definitions : str
        C++ source that defines the types; it precedes the source of the kernel.
    monoid, map : str
        The names of the types; `monoid` is empty for a map alone.
    more : str
        If the map reads several arrays: the types of all but the first, each after a
        comma. They are the last template arguments of a kernel.
    dtype : dtype
        The dtype of the results.
    element_shape : tuple of int
        The shape of a result.
    """

    definitions: str
    monoid: str
    map: str
    more: str
    dtype: np.dtype[Any]
    element_shape: tuple[int, ...]

    @property
    def keep(self) -> str:
        """The identity map of the monoid's elements."""
        return f"Keep<{self.monoid}::Value>"

    @property
    def element_bytes(self) -> int:
        """The size of a result."""
        return self.dtype.itemsize * math.prod(self.element_shape)


@functools.lru_cache(CACHED)
def operators(
    monoid: Monoid,
    given: np.dtype[Any],
    map: Map | None = None,
    more: tuple[np.dtype[Any], ...] = (),
    *,
    name: str = "Operator",
) -> Operators:
    """Write a monoid and a map in C++, for inputs of dtype `given`.

    A map of several arrays reads the others with the dtypes `more`. Several monoids
    before the same file need different names; at most one monoid may have a map.
    """
    mapped = given if map is None else map.dtype_of(given, *more)
    dtype = monoid.dtype_of(mapped)
    shape = monoid.element_shape
    definitions = ELEMENT_TYPES + monoid_source(name, monoid, dtype)
    if map is not None:
        alone = map_operators(map, (given, *more), dtype, shape)
        definitions += alone.definitions.removeprefix(ELEMENT_TYPES)
        return alone._replace(definitions=definitions, monoid=name)
    map_name = f"Keep<{name}::Value>"
    if dtype != given:
        taken = element_type(given, shape)
        definitions += _map_source(
            "Transform", _conversion(shape), (taken,), (given,), dtype, shape
        )
        map_name = "Transform"
    return Operators(definitions, name, map_name, "", dtype, shape)


def operators_of(given: Elements) -> Operators:
    """Write the monoid and the map of an input in C++."""
    more = tuple([array.dtype for array in given.more])
    return operators(given.monoid, given.x.dtype, given.map, more)


@functools.lru_cache(CACHED)
def map_operators(
    map: Map,
    given: tuple[np.dtype[Any], ...],
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
) -> Operators:
    """Write a map in C++, for inputs of dtypes `given`.

    Its results are converted to numbers of `dtype`, in elements of this shape.
    """
    taken = tuple(CUDA_TYPES[dtype] for dtype in given)
    source = _map_source("Transform", map, taken, given, dtype, shape)
    more = "".join(f", {type}" for type in taken[1:])
    return Operators(ELEMENT_TYPES + source, "", "Transform", more, dtype, shape)


def mask_operators() -> Operators:
    """The identity map of bool, for a mask in place of a predicate."""
    return Operators(ELEMENT_TYPES, "", "Keep<bool>", "", np.dtype(bool), ())


def _map_source(
    name: str,
    map: Map,
    taken: tuple[str, ...],
    given: tuple[np.dtype[Any], ...],
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
) -> str:
    """A C++ type `name` for a map from `taken` to numbers converted to `dtype`.

    The type of its inner map, if any, precedes it.
    """
    result = [f"Number(T({expression}))" for expression in expressions(map.cuda)]
    names, before, body = map.parameters, "", f"return {braced(result, shape)};"
    if map.inner is not None:
        between = map.inner.dtype_of(*given)
        before = _map_source(f"Inner{name}", map.inner, taken, given, between, ())
        names = tuple(f"input{k}" for k in range(len(taken)))
        (x,) = map.parameters
        body = f"const auto {x} = Inner{name}()({', '.join(names)}); {body}"
    typed = zip(taken, names, strict=True)
    parameters = ", ".join(f"const {type}& {name}" for type, name in typed)
    return f"""{before}
struct {name} {{
    using T = {CUDA_TYPES[map.dtype_of(*given)]};
    using Number = {CUDA_TYPES[dtype]};
    using Input = {taken[0]};
    using Value = {element_type(dtype, shape)};
    __device__ __forceinline__ Value operator()({parameters}) const {{
        {body}
    }}
}};
"""


def _conversion(shape: tuple[int, ...]) -> Map:
    """The identity map of numbers; its result is then converted."""
    numbers = tuple(f"x[{k}]" for k in range(math.prod(shape)))
    return Map("conversion", numbers if shape else "x", np.asarray)
