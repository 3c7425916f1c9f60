"""The CuPy functions that gpusolve and its tests call, with CuPy's parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpusolve._emulator import count_copy_to_device

from . import devices
from .array import (
    by_numpy,
    checked_dtype,
    copied,
    from_host,
    host_value,
    ndarray,
    view_of,
)
from .memory import pointer_to

IMPORTED = set(globals())
"""Names that are not CuPy's functions."""

# ---- new arrays ----


def empty(shape: Any, dtype: Any = float, order: Any = "C") -> ndarray:
    return ndarray(shape, dtype, order=order)


def zeros(shape: Any, dtype: Any = float, order: Any = "C") -> ndarray:
    return full(shape, 0, dtype, order)


def ones(shape: Any, dtype: Any = float, order: Any = "C") -> ndarray:
    return full(shape, 1, dtype, order)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C") -> ndarray:
    if isinstance(fill_value, np.ndarray):
        if fill_value.size != 1:
            raise ValueError("non-scalar numpy.ndarray cannot be used for copyto")
        fill_value = fill_value.squeeze()[()]
    value = host_value(fill_value)
    kind = np.asarray(value).dtype if dtype is None else dtype
    array = ndarray(shape, kind, order=order)
    devices.counts["operations"] += 1
    np.copyto(array._host, value, casting="unsafe")
    return array


def _shaped_like(make: Callable[..., ndarray]) -> Any:
    """``make(shape, dtype)``, by default those of the first argument."""

    def call(a: ndarray, /, dtype: Any = None, *, shape: Any = None) -> ndarray:
        return make(a.shape if shape is None else shape, dtype or a.dtype)

    return call


zeros_like, ones_like, empty_like = map(_shaped_like, (zeros, ones, empty))


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> ndarray:
    begin, end = (0, start) if stop is None else (start, stop)
    return from_host(np.arange(begin, end, step, dtype))


def asarray(a: Any, dtype: Any = None, *, blocking: Any = False) -> ndarray:
    """An array on the current device; an array of another device is copied."""
    if isinstance(a, (list, tuple)) and any(isinstance(item, ndarray) for item in a):
        a = BY_NUMPY["stack"](a)
    if not isinstance(a, ndarray) and hasattr(a, "__cuda_array_interface__"):
        a = _borrowed(a.__cuda_array_interface__)
    if isinstance(a, ndarray):
        here = a if a.data.device_id == devices.current() else a.copy()
        return here if dtype is None else here.astype(dtype, copy=False)
    count_copy_to_device()
    found = np.asarray(a, dtype)
    return copied(found.astype(found.dtype.newbyteorder("="), copy=False))


def _borrowed(description: dict[str, Any]) -> ndarray:
    """An array on memory of another library, on its device."""
    shape, dtype = description["shape"], np.dtype(description["typestr"])
    if 0 in shape:
        return ndarray(shape, dtype)
    pointer = pointer_to(description["data"][0])
    return ndarray(shape, dtype, pointer, description.get("strides"))


def from_dlpack(array: Any) -> ndarray:
    """The array that another library exports; it must be an array of the stand-in."""
    found = array.__dlpack__()
    return view_of(found, found._host)


def ascontiguousarray(a: ndarray, dtype: Any = None) -> ndarray:
    if not isinstance(a, ndarray):
        raise TypeError(f"Argument 'a' has incorrect type (got {type(a)})")
    kind = a.dtype if dtype is None else checked_dtype(dtype)
    if kind == a.dtype and a.flags.c_contiguous:
        return a.reshape(1) if a.ndim == 0 else a
    return by_numpy(np.ascontiguousarray)(a, kind)


# ---- functions of NumPy --------------------------------------------------------------

VIEWS = "broadcast_to swapaxes diagonal moveaxis split"
READS = "bincount flatnonzero unique"
"""Functions whose results have a length that CuPy reads."""

OTHERS = """
abs exp expm1 log log1p isfinite isinf isnan rint sign sqrt trunc
fmin hypot ldexp logaddexp maximum minimum frexp clip unpackbits where eye
concatenate stack cumsum diff lexsort matmul nanmin partition searchsorted
take_along_axis
"""

BY_NUMPY = {
    **{name: by_numpy(getattr(np, name), views=True) for name in VIEWS.split()},
    **{name: by_numpy(getattr(np, name), reads=True) for name in READS.split()},
    **{name: by_numpy(getattr(np, name)) for name in OTHERS.split()},
}

globals().update(BY_NUMPY)

BY_NUMPY["maximum"].at = lambda a, slices, value: np.maximum.at(
    host_value(a), host_value(slices), host_value(value)
)


# ---- functions that differ from NumPy's ----------------------------------------------


def broadcast_arrays(*args: ndarray) -> list[ndarray]:
    shape = np.broadcast_shapes(*[array.shape for array in args])
    return [BY_NUMPY["broadcast_to"](array, shape) for array in args]


def shape(a: ndarray) -> tuple[int, ...]:
    return a.shape


def may_share_memory(a: ndarray, b: ndarray) -> bool:
    return np.may_share_memory(a._host, b._host)


def _stable(function: Callable[..., Any]) -> Any:
    """CuPy's sorts are stable."""

    def call(a: ndarray, axis: int = -1, kind: Any = None) -> ndarray:
        if kind not in (None, "stable"):
            raise ValueError("kind can only be None or 'stable'")
        return by_numpy(lambda x: function(x, axis, "stable"))(a)

    return call


argsort, sort = _stable(np.argsort), _stable(np.sort)


def repeat(a: ndarray, repeats: Any, axis: int | None = None) -> ndarray:
    if not isinstance(repeats, (int, list, tuple)):
        raise ValueError("'repeats' should be int or sequence.")
    return by_numpy(np.repeat)(a, repeats, axis)


__all__ = sorted(
    name for name in set(globals()) - IMPORTED if name[0] != "_" and name.islower()
)
