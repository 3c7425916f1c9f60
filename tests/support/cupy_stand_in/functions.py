"""The CuPy functions that gpusolve and its tests call, with CuPy's signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from gpusolve._emulator import count_copy_to_device, count_copy_to_host

from . import devices
from .array import (
    Parameters,
    check_device,
    checked_dtype,
    compute,
    from_host,
    host_value,
    like_cupy,
    ndarray,
    refuse_options,
    view_of,
)
from .memory import pointer_to

IMPORTED = set(globals())
"""Names that are not CuPy's functions."""


# ---- functions of NumPy with CuPy's parameters ----


def _view(name: str, parameters: Parameters) -> Any:
    """A function of NumPy that returns a view of its first argument."""

    def call(*args: Any, **options: Any) -> ndarray:
        array, *others = args
        return view_of(array, getattr(np, name)(array._host, *others, **options))

    call.__signature__ = inspect.signature(parameters)  # type: ignore[attr-defined]
    return call


def _shaped_like(make: Callable[..., ndarray], parameters: Parameters) -> Any:
    """``make(shape, dtype)``, by default those of the first argument."""

    def call(like: ndarray, *args: Any, **options: Any) -> ndarray:
        given = inspect.signature(parameters).bind(like, *args, **options).arguments
        return make(given.get("shape", like.shape), given.get("dtype") or like.dtype)

    call.__signature__ = inspect.signature(parameters)  # type: ignore[attr-defined]
    return call


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


zeros_like = _shaped_like(
    zeros, lambda a, dtype=None, order="K", subok=None, shape=None: ...
)
ones_like = _shaped_like(
    ones, lambda a, dtype=None, order="K", subok=None, shape=None: ...
)
empty_like = _shaped_like(
    empty, lambda prototype, dtype=None, order="K", subok=None, shape=None: ...
)


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
    shape, dtype = description["shape"], np.dtype(description["typestr"])
    if 0 in shape:
        return ndarray(shape, dtype)
    pointer = pointer_to(description["data"][0])
    return ndarray(shape, dtype, pointer, description.get("strides"))


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


broadcast_to = _view("broadcast_to", lambda array, shape: ...)
swapaxes = _view("swapaxes", lambda a, axis1, axis2: ...)
diagonal = _view("diagonal", lambda a, offset=0, axis1=0, axis2=1: ...)
moveaxis = _view("moveaxis", lambda a, source, destination: ...)


def broadcast_arrays(*args: ndarray) -> list[ndarray]:
    shape = np.broadcast_shapes(*[array.shape for array in args])
    return [broadcast_to(array, shape) for array in args]


def split(ary: ndarray, indices_or_sections: list[int], axis: int = 0) -> list[ndarray]:
    parts = np.split(ary._host, indices_or_sections, axis)
    return [view_of(ary, part) for part in parts]


def may_share_memory(a: ndarray, b: ndarray, max_work: Any = None) -> bool:
    refuse_options(max_work=max_work is None)
    return np.may_share_memory(a._host, b._host)


# ---- element-wise functions ----


def where(condition: ndarray, x: Any = None, y: Any = None) -> ndarray:
    check_device(condition)
    return compute(np.where, condition, x, y)


def _unary(name: str) -> Any:
    return like_cupy(
        lambda x, /, out=None, *, casting="same_kind", dtype=None: ..., name=name
    )


def _binary(name: str) -> Any:
    return like_cupy(
        lambda x1, x2, /, out=None, *, casting="same_kind", dtype=None: ..., name=name
    )


abs, exp, expm1, log, log1p = map(_unary, ("abs", "exp", "expm1", "log", "log1p"))
isfinite, isinf, isnan = map(_unary, ("isfinite", "isinf", "isnan"))
rint, sign, sqrt, trunc = map(_unary, ("rint", "sign", "sqrt", "trunc"))
fmin, hypot, ldexp = map(_binary, ("fmin", "hypot", "ldexp"))
logaddexp, maximum, minimum = map(_binary, ("logaddexp", "maximum", "minimum"))
maximum.at = lambda a, slices, value: np.maximum.at(
    host_value(a), host_value(slices), host_value(value)
)


def frexp(
    x: ndarray, /, *, casting: Any = "same_kind", dtype: Any = None
) -> tuple[ndarray, ndarray]:
    refuse_options(dtype=dtype is None)
    mantissa = compute(lambda a: np.frexp(a)[0], x)
    return mantissa, compute(lambda a: np.frexp(a)[1], x)


clip = like_cupy(lambda a, a_min, a_max, out=None: ..., name="clip")
unpackbits = like_cupy(
    lambda a, axis=None, bitorder="big": ..., "bitorder", name="unpackbits"
)


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


def _stable(function: Callable[..., Any]) -> Any:
    """CuPy's sorts are stable."""

    def call(x: Any, axis: int = -1, kind: str = "stable") -> Any:
        if kind != "stable":
            raise ValueError("kind can only be None or 'stable'")
        return function(x, axis, kind)

    return like_cupy(lambda a, axis=-1, kind=None: ..., "axis kind", call)


concatenate, stack = _joining(np.concatenate), _joining(np.stack)
argsort, sort = _stable(np.argsort), _stable(np.sort)
bincount = like_cupy(
    lambda x, weights=None, minlength=None: ...,
    "weights minlength",
    name="bincount",
    reads=True,
)
cumsum = like_cupy(
    lambda a, axis=None, dtype=None, out=None: ..., "axis", name="cumsum"
)
diff = like_cupy(
    lambda a, n=1, axis=-1, prepend=None, append=None: ..., "axis append", name="diff"
)
flatnonzero = like_cupy(lambda a: ..., name="flatnonzero", reads=True)
lexsort = like_cupy(lambda keys: ..., name="lexsort")
matmul = like_cupy(
    lambda *args, axes=None, axis=None, keepdims=False, casting="same_kind", dtype=None,
    signature=None, order="K", out=None: ...,
    name="matmul",
)  # fmt: skip
nanmin = like_cupy(
    lambda a, axis=None, out=None, keepdims=False: ..., "axis keepdims", name="nanmin"
)
partition = like_cupy(lambda a, kth, axis=-1: ..., "axis", name="partition")
searchsorted = like_cupy(
    lambda a, v, side="left", sorter=None: ..., "side", name="searchsorted"
)
take_along_axis = like_cupy(lambda a, indices, axis: ..., name="take_along_axis")


def repeat(a: ndarray, repeats: Any, axis: int | None = None) -> ndarray:
    if not isinstance(repeats, (int, list, tuple)):
        raise ValueError("'repeats' should be int or sequence.")
    return compute(lambda x: np.repeat(x, repeats, axis), a)


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


__all__ = sorted(
    name for name in set(globals()) - IMPORTED if name[0] != "_" and name != "IMPORTED"
)
