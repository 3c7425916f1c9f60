"""The CuPy functions that gpusolve and its tests call, with CuPy's signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpusolve._emulator import count_copy_to_device, count_copy_to_host

from . import devices
from .array import (
    check_device,
    checked_dtype,
    compute,
    from_host,
    host_value,
    ndarray,
    refuse_options,
    view_of,
)
from .memory import pointer_to

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
    array = ndarray(shape, np.asarray(value).dtype if dtype is None else dtype)
    np.copyto(array._host, value, casting="unsafe")
    return array


def zeros_like(
    a: ndarray,
    dtype: Any = None,
    order: Any = "K",
    subok: Any = None,
    shape: Any = None,
) -> ndarray:
    return zeros(a.shape if shape is None else shape, dtype or a.dtype)


def empty_like(
    prototype: ndarray,
    dtype: Any = None,
    order: Any = "K",
    subok: Any = None,
    shape: Any = None,
) -> ndarray:
    return empty(prototype.shape if shape is None else shape, dtype or prototype.dtype)


def ones_like(
    a: ndarray,
    dtype: Any = None,
    order: Any = "K",
    subok: Any = None,
    shape: Any = None,
) -> ndarray:
    return ones(a.shape if shape is None else shape, dtype or a.dtype)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = float,
    order: Any = "C",
) -> ndarray:
    return from_host(np.eye(N, M, k, dtype, order))


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> ndarray:
    begin, end = (0, start) if stop is None else (start, stop)
    return from_host(np.arange(begin, end, step, dtype))


def asarray(
    a: Any,
    dtype: Any = None,
    order: Any = None,
    *,
    copy: Any = None,
    blocking: Any = False,
) -> ndarray:
    """An array on the current device; an array of another device is copied."""
    refuse_options(order=order is None, copy=copy is None)
    if isinstance(a, (list, tuple)) and any(isinstance(item, ndarray) for item in a):
        return stack(a) if dtype is None else stack(a).astype(dtype, copy=False)
    if not isinstance(a, ndarray) and hasattr(a, "__cuda_array_interface__"):
        a = _borrowed(a.__cuda_array_interface__)
    if isinstance(a, ndarray):
        here = a if a.data.device_id == devices.current() else a.copy()
        return here if dtype is None else here.astype(dtype, copy=False)
    count_copy_to_device()
    found = np.asarray(a, dtype)
    return from_host(found.astype(found.dtype.newbyteorder("="), copy=False))


def _borrowed(description: dict[str, Any]) -> ndarray:
    """An array on memory of another library, on its device."""
    pointer = pointer_to(description["data"][0])
    dtype, strides = np.dtype(description["typestr"]), description.get("strides")
    return ndarray(description["shape"], dtype, pointer, strides)


def from_dlpack(array: Any, *, device: Any = None, copy: Any = None) -> ndarray:
    """The array that another library exports; it must be an array of the stand-in."""
    refuse_options(device=device is None, copy=copy is None)
    found = array.__dlpack__()
    return view_of(found, found._host)


def ascontiguousarray(a: ndarray, dtype: Any = None) -> ndarray:
    if not isinstance(a, ndarray):
        raise TypeError(f"Argument 'a' has incorrect type (got {type(a)})")
    kind = a.dtype if dtype is None else checked_dtype(dtype)
    if kind == a.dtype and a.flags.c_contiguous:
        return a.reshape(1) if a.ndim == 0 else a
    return compute(lambda x: np.ascontiguousarray(x, kind), a)


# ---- views ----


def broadcast_to(array: ndarray, shape: Any) -> ndarray:
    return view_of(array, np.broadcast_to(array._host, shape))


def broadcast_arrays(*args: ndarray) -> list[ndarray]:
    shape = np.broadcast_shapes(*[array.shape for array in args])
    return [broadcast_to(array, shape) for array in args]


def swapaxes(a: ndarray, axis1: int, axis2: int) -> ndarray:
    return view_of(a, np.swapaxes(a._host, axis1, axis2))


def split(ary: ndarray, indices_or_sections: list[int], axis: int = 0) -> list[ndarray]:
    parts = np.split(ary._host, indices_or_sections, axis)
    return [view_of(ary, part) for part in parts]


def diagonal(a: ndarray, offset: int = 0, axis1: int = 0, axis2: int = 1) -> ndarray:
    return view_of(a, np.diagonal(a._host, offset, axis1, axis2))


def moveaxis(a: ndarray, source: Any, destination: Any) -> ndarray:
    return view_of(a, np.moveaxis(a._host, source, destination))


def may_share_memory(a: ndarray, b: ndarray, max_work: Any = None) -> bool:
    refuse_options(max_work=max_work is None)
    return np.may_share_memory(a._host, b._host)


# ---- element-wise functions ----


def where(condition: ndarray, x: Any = None, y: Any = None) -> ndarray:
    check_device(condition)
    return compute(np.where, condition, x, y)


def _unary(function: Callable[..., Any]) -> Any:
    def call(
        x: Any, /, out: Any = None, *, casting: Any = "same_kind", dtype: Any = None
    ) -> ndarray:
        refuse_options(out=out is None, dtype=dtype is None)
        return compute(function, x)

    return call


def _binary(function: Callable[..., Any]) -> Any:
    def call(
        x1: Any,
        x2: Any,
        /,
        out: Any = None,
        *,
        casting: Any = "same_kind",
        dtype: Any = None,
    ) -> ndarray:
        refuse_options(out=out is None, dtype=dtype is None)
        return compute(function, x1, x2)

    return call


maximum, minimum = _binary(np.maximum), _binary(np.minimum)
maximum.at = lambda a, slices, value: np.maximum.at(  # type: ignore[attr-defined]
    host_value(a), host_value(slices), host_value(value)
)
isfinite, isnan, rint = _unary(np.isfinite), _unary(np.isnan), _unary(np.rint)
isinf, trunc = _unary(np.isinf), _unary(np.trunc)
fmin, hypot = _binary(np.fmin), _binary(np.hypot)
abs = _unary(np.abs)
exp, log, sqrt = _unary(np.exp), _unary(np.log), _unary(np.sqrt)
expm1, log1p, sign = _unary(np.expm1), _unary(np.log1p), _unary(np.sign)
logaddexp, ldexp = _binary(np.logaddexp), _binary(np.ldexp)


def frexp(
    x: ndarray, /, *, casting: Any = "same_kind", dtype: Any = None
) -> tuple[ndarray, ndarray]:
    refuse_options(dtype=dtype is None)
    mantissa = compute(lambda a: np.frexp(a)[0], x)
    return mantissa, compute(lambda a: np.frexp(a)[1], x)


def clip(a: ndarray, a_min: Any, a_max: Any, out: Any = None) -> ndarray:
    refuse_options(out=out is None)
    return compute(np.clip, a, a_min, a_max)


def unpackbits(a: ndarray, axis: Any = None, bitorder: str = "big") -> ndarray:
    refuse_options(axis=axis is None)
    return compute(lambda x: np.unpackbits(x.reshape(-1), bitorder=bitorder), a)


# ---- functions of whole arrays ----


def _joining(function: Callable[..., Any]) -> Any:
    def call(
        tup: Any,
        axis: Any = 0,
        out: Any = None,
        *,
        dtype: Any = None,
        casting: Any = "same_kind",
    ) -> ndarray:
        refuse_options(out=out is None, dtype=dtype is None)
        return compute(lambda *arrays: function(arrays, axis), *tup)

    return call


concatenate, stack = _joining(np.concatenate), _joining(np.stack)


def diff(
    a: ndarray, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None
) -> ndarray:
    refuse_options(n=n == 1, prepend=prepend is None)
    if append is None:
        return compute(lambda x: np.diff(x, axis=axis), a)
    return compute(lambda x, end: np.diff(x, axis=axis, append=end), a, append)


def nanmin(
    a: ndarray, axis: Any = None, out: Any = None, keepdims: Any = False
) -> ndarray:
    refuse_options(out=out is None)
    return compute(np.nanmin, a, axis=axis, keepdims=keepdims)


def flatnonzero(a: ndarray) -> ndarray:
    count_copy_to_host()  # the number of indices is read
    return compute(np.flatnonzero, a)


def argsort(a: ndarray, axis: int = -1, kind: str | None = None) -> ndarray:
    if kind not in (None, "stable"):
        raise ValueError("kind can only be None or 'stable'")
    return compute(lambda x: np.argsort(x, axis, "stable"), a)


def sort(a: ndarray, axis: int = -1, kind: str | None = None) -> ndarray:
    if kind not in (None, "stable"):
        raise ValueError("kind can only be None or 'stable'")
    return compute(lambda x: np.sort(x, axis), a)


def partition(a: ndarray, kth: Any, axis: int = -1) -> ndarray:
    return compute(lambda x: np.partition(x, kth, axis), a)


def repeat(a: ndarray, repeats: Any, axis: int | None = None) -> ndarray:
    if not isinstance(repeats, (int, list, tuple)):
        raise ValueError("'repeats' should be int or sequence.")
    return compute(lambda x: np.repeat(x, repeats, axis), a)


def take_along_axis(a: ndarray, indices: ndarray, axis: Any) -> ndarray:
    return compute(lambda x, at: np.take_along_axis(x, at, axis), a, indices)


def unique(
    ar: ndarray,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
) -> tuple[ndarray, ndarray]:
    """The distinct values, and the index of each element among them."""
    refuse_options(
        return_index=not return_index,
        return_inverse=return_inverse,
        return_counts=not return_counts,
        axis=axis is None,
    )
    count_copy_to_host()  # their number is read
    values, inverse = np.unique(host_value(ar), return_inverse=True)
    return from_host(values), from_host(inverse)


def cumsum(a: ndarray, axis: Any = None, dtype: Any = None, out: Any = None) -> ndarray:
    refuse_options(out=out is None, dtype=dtype is None)
    return compute(lambda x: np.cumsum(x, axis), a)


def lexsort(keys: ndarray) -> ndarray:
    if not isinstance(keys, ndarray):
        raise AttributeError(f"{type(keys)} object has no attribute 'ndim'")
    return compute(np.lexsort, keys)


def bincount(
    x: ndarray, weights: ndarray | None = None, minlength: int | None = None
) -> ndarray:
    """The weights are of the array's device, and `minlength` is not an array."""
    count_copy_to_host()  # the least and the largest code are read
    length = 0 if minlength is None else int(minlength)
    if weights is None:
        return compute(lambda codes: np.bincount(codes, None, length), x)
    return compute(lambda codes, w: np.bincount(codes, w, length), x, weights)


def searchsorted(a: ndarray, v: Any, side: str = "left", sorter: Any = None) -> ndarray:
    refuse_options(sorter=sorter is None)
    return compute(lambda x, y: np.searchsorted(x, y, side), a, v)


def matmul(
    *args: Any,
    axes: Any = None,
    axis: Any = None,
    keepdims: Any = False,
    casting: Any = "same_kind",
    dtype: Any = None,
    signature: Any = None,
    order: Any = "K",
    out: Any = None,
) -> ndarray:
    refuse_options(
        axes=axes is None, axis=axis is None, out=out is None, dtype=dtype is None
    )
    return compute(np.matmul, *args)


__all__ = [
    "abs",
    "arange",
    "argsort",
    "asarray",
    "ascontiguousarray",
    "bincount",
    "broadcast_arrays",
    "broadcast_to",
    "clip",
    "concatenate",
    "cumsum",
    "diagonal",
    "diff",
    "empty",
    "empty_like",
    "exp",
    "expm1",
    "eye",
    "flatnonzero",
    "fmin",
    "frexp",
    "from_dlpack",
    "full",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "ldexp",
    "lexsort",
    "log",
    "log1p",
    "logaddexp",
    "matmul",
    "maximum",
    "may_share_memory",
    "minimum",
    "moveaxis",
    "nanmin",
    "ones",
    "ones_like",
    "partition",
    "repeat",
    "rint",
    "searchsorted",
    "sign",
    "sort",
    "split",
    "sqrt",
    "stack",
    "swapaxes",
    "take_along_axis",
    "trunc",
    "unique",
    "unpackbits",
    "where",
    "zeros",
    "zeros_like",
]
