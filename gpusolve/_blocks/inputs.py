"""What the data-parallel blocks are given: elements of a monoid, in rows."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._device.arrays import Array, as_array, contiguous
from .._device.kernels import CUDA_TYPES
from ..monoid import Map, Monoid, described, yields

MAX_ELEMENT_BYTES = 256
"""Of an element of several numbers; the kernels hold a block's worth of them."""


def native(array: Array, name: str, kinds: str = "biufc") -> Array:
    """`array` in native byte order; TypeError unless its dtype is of these kinds."""
    dtype = array.dtype.newbyteorder("=")
    if dtype not in CUDA_TYPES or dtype.kind not in kinds:
        taken = sorted(str(one) for one in CUDA_TYPES if one.kind in kinds)
        raise TypeError(
            f"{name} has dtype {array.dtype}; one of {', '.join(taken)} is wanted"
        )
    return array.astype(dtype, copy=False)


def elements(x: object, monoid: Monoid, map: Map | None = None) -> Array:
    """`x` as an array of the monoid's elements, or of what the map makes them of.

    Raises
    ------
    TypeError
        For a dtype that the monoid does not take.
    ValueError
        If its last axes are not those of an element.
    """
    if map is not None and not isinstance(map, Map):
        raise TypeError(f"map is {map!r}; a gpusolve.Map is wanted")
    array = as_array(x, "x")
    if map is None:
        array = native(array, "x", monoid.kinds)
    else:
        array = native(array, "x")
        _check_map(map, monoid, array.dtype)
    shape = monoid.element_shape if map is None else ()
    if array.shape[array.ndim - len(shape) :] != shape or array.ndim < len(shape):
        raise ValueError(
            f"x has shape {array.shape}; the last axes {shape} of an element of "
            f"{monoid.name} are wanted"
        )
    _check_size(monoid, monoid.dtype_of(array.dtype))
    return array


def _check_map(map: Map, monoid: Monoid, given: np.dtype[Any]) -> None:
    dtype = map.dtype_of(given)
    if dtype not in CUDA_TYPES or dtype.kind not in monoid.kinds:
        raise TypeError(f"{map.name} gives {dtype}, which {monoid.name} does not take")
    if not yields(map.cuda, monoid.element_shape):
        raise ValueError(
            f"{map.name} has {described(map.cuda)}; an element of {monoid.name} has "
            f"shape {monoid.element_shape}"
        )


def _check_size(monoid: Monoid, dtype: np.dtype[Any]) -> None:
    size = math.prod(monoid.element_shape) * dtype.itemsize
    if size > MAX_ELEMENT_BYTES:
        raise ValueError(
            f"an element of {monoid.name} has {size} bytes; at most "
            f"{MAX_ELEMENT_BYTES} are possible"
        )


def one_axis(axis: object, ndim: int) -> int:
    """`axis`, counted from the front; TypeError, ValueError where there is none."""
    try:
        index = operator.index(axis)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"axis is {axis!r}; an integer is wanted") from None
    if not -ndim <= index < ndim:
        raise ValueError(f"axis is {index}; x has {ndim} axes of elements")
    return index % ndim


def some_axes(axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """The axes counted from the front, in rising order; all for None.

    Raises
    ------
    TypeError, ValueError
        Unless they are axes, each named once.
    """
    if axis is None:
        return tuple(range(ndim))
    listed = axis if isinstance(axis, Sequence) else (axis,)
    axes = tuple(one_axis(one, ndim) for one in listed)
    if len(set(axes)) != len(axes):
        raise ValueError(f"axis is {axis!r}, with one axis twice")
    return tuple(sorted(axes))


def as_rows(x: Array, axes: tuple[int, ...], leading: int) -> Array:
    """The elements as a contiguous matrix, whose rows are to be reduced or scanned.

    Parameters
    ----------
    x : (..., *element) array
    axes : tuple of int
        Those that make a row, among the first `leading`. A copy is made unless they
        are the last of these, in order, and `x` is contiguous and aligned.

    Returns
    -------
    (rows, length, *element) array
    """
    rest = [axis for axis in range(leading) if axis not in axes]
    order = (*rest, *axes, *range(leading, x.ndim))
    rows = math.prod(x.shape[axis] for axis in rest)
    length = math.prod(x.shape[axis] for axis in axes)
    shape = (rows, length, *x.shape[leading:])
    return contiguous(x.transpose(order)).reshape(shape)


def check_variant(variant: str, variants: tuple[str, ...]) -> None:
    """ValueError unless `variant` is one of them, or "auto"."""
    if variant not in ("auto", *variants):
        raise ValueError(
            f"variant is {variant!r}; one of {('auto', *variants)} is wanted"
        )
