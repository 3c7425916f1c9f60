"""Arrays that have a device, and insist on it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from . import devices
from .memory import Memory, MemoryPointer

Host = np.ndarray[Any, Any]

CHARACTERS = "?bhilqBHILQefdFD"
"""The dtypes that CuPy has."""


class Flags:
    """What CuPy says of a memory layout: three facts, none of them `aligned`."""

    def __init__(self, flags: Any, owndata: bool) -> None:
        self.c_contiguous = bool(flags.c_contiguous)
        self.f_contiguous = bool(flags.f_contiguous)
        self.owndata = owndata


def checked_dtype(dtype: Any) -> np.dtype[Any]:
    found = np.dtype(dtype)
    if found.char not in CHARACTERS or not found.isnative:
        raise ValueError(f"Unsupported dtype {found}")
    return found


def check_device(array: ndarray) -> None:
    """ValueError unless the array's device is the current one, in CuPy's words."""
    device, current = array.data.device_id, devices.current()
    if device != current:
        raise ValueError(
            f"The device where the array resides ({device}) is different from the "
            f"current device ({current}). Peer access is unavailable between these "
            "devices."
        )


def host(value: Any) -> Any:
    """What NumPy computes with: an array's numbers on the current device, a scalar."""
    if isinstance(value, ndarray):
        check_device(value)
        return value._host
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def made(result: Any) -> ndarray:
    """A new array on the current device, of what NumPy computed."""
    found = np.asarray(result)
    order = "F" if found.flags.fnc else "C"
    array = ndarray(found.shape, checked_dtype(found.dtype), order=order)
    array._host[...] = found
    return array


def computed(function: Callable[..., Any], *values: Any, **options: Any) -> ndarray:
    """A function of NumPy's, of arrays on the current device and scalars."""
    hosts = [host(value) for value in values]
    with np.errstate(all="ignore"):
        return made(function(*hosts, **options))


def view(array: ndarray, seen: Host) -> ndarray:
    """Part of the array's memory as another array; nothing runs on the device."""
    found = object.__new__(ndarray)
    begin = array._host.ctypes.data if array.size else 0
    found.data = array.data + (seen.ctypes.data - begin if seen.size and begin else 0)
    found._host = seen
    found.base = array
    return found


def _binary(function: Callable[[Any, Any], Any]) -> Any:
    def forward(self: ndarray, other: Any) -> ndarray:
        return computed(function, self, other)

    return forward


def _reflected(function: Callable[[Any, Any], Any]) -> Any:
    def backward(self: ndarray, other: Any) -> ndarray:
        return computed(function, other, self)

    return backward


def _in_place(function: Callable[..., Any]) -> Any:
    def change(self: ndarray, other: Any) -> ndarray:
        with np.errstate(all="ignore"):
            function(host(self), host(other), out=self._host)
        return self

    return change


class ndarray:  # noqa: N801
    """An array on one device."""

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        shape: int | tuple[int, ...],
        dtype: Any = float,
        memptr: MemoryPointer | None = None,
        strides: tuple[int, ...] | None = None,
        order: str = "C",
    ) -> None:
        lengths = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        kind = checked_dtype(dtype)
        if memptr is None:
            if strides is not None:
                raise ValueError("memptr is required if strides is given")
            memptr = MemoryPointer(Memory(math.prod(lengths) * kind.itemsize), 0)
        self.data = memptr
        self.base: ndarray | None = None
        self._host: Host = np.ndarray(
            lengths, kind, memptr.mem.bytes, memptr.offset, strides, order
        )

    def __array__(self, dtype: Any = None) -> NoReturn:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` "
            "to construct a NumPy array explicitly."
        )

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:
        raise TypeError(f"numpy.{function.__name__} of an array on a GPU")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.data.ptr, False),
            "strides": self.strides,
            "version": 3,
        }

    # ---- what it is ----

    shape = property(lambda self: self._host.shape)
    strides = property(lambda self: self._host.strides)
    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    itemsize = property(lambda self: self._host.itemsize)
    nbytes = property(lambda self: self._host.nbytes)
    device = property(lambda self: self.data.device)
    flags = property(lambda self: Flags(self._host.flags, self.base is None))
    T = property(lambda self: view(self, self._host.T))
    real = property(lambda self: view(self, self._host.real))

    def __len__(self) -> int:
        return len(self._host)

    def __iter__(self) -> Iterator[ndarray]:
        return (self[k] for k in range(len(self)))

    def __repr__(self) -> str:
        return repr(self._host)

    # ---- to the host, from any device ----

    def get(
        self,
        stream: Any = None,
        order: str = "C",
        out: Any = None,
        blocking: bool = True,
    ) -> Host:
        return self._host.copy()

    def item(self) -> Any:
        return self._host.item()

    def tolist(self) -> Any:
        return self._host.tolist()

    def __bool__(self) -> bool:
        return bool(self._host)

    def __int__(self) -> int:
        return int(self._host)

    def __float__(self) -> float:
        return float(self._host)

    def __complex__(self) -> complex:
        return complex(self._host)

    # ---- other views ----

    def reshape(self, *shape: Any, order: str = "C", copy: Any = None) -> ndarray:
        lengths = shape[0] if len(shape) == 1 else shape
        found = self._host.reshape(lengths, order=order)
        if found.size == 0 or np.may_share_memory(found, self._host):
            return view(self, found)
        check_device(self)
        return made(found)

    def ravel(self, order: str = "C") -> ndarray:
        return self.reshape(-1, order=order)

    def transpose(self, *axes: Any) -> ndarray:
        return view(self, self._host.transpose(*axes))

    def swapaxes(self, axis1: int, axis2: int) -> ndarray:
        return view(self, self._host.swapaxes(axis1, axis2))

    def squeeze(self, axis: Any = None) -> ndarray:
        return view(self, self._host.squeeze(axis))

    def view(self, dtype: Any = None, type: Any = None) -> ndarray:
        return view(self, self._host.view(checked_dtype(dtype or self.dtype)))

    # ---- elements ----

    def __getitem__(self, slices: Any) -> ndarray:
        key, advanced = _key(slices)
        if advanced:
            check_device(self)
            return made(self._host[key])
        if not any(one is Ellipsis for one in key):
            key = (*key, Ellipsis)  # or else NumPy makes scalars
        return view(self, self._host[key])

    def __setitem__(self, slices: Any, value: Any) -> None:
        key, _ = _key(slices)
        check_device(self)
        self._host[key] = host(value)

    def fill(self, value: Any) -> None:
        self[...] = value

    # ---- copies ----

    def copy(self, order: str = "C") -> ndarray:
        """On the current device, whatever the array's own is."""
        return made(self._host.copy(order))

    def astype(
        self,
        dtype: Any,
        order: str = "K",
        casting: Any = None,
        subok: Any = None,
        copy: bool = True,
    ) -> ndarray:
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        checked_dtype(dtype)
        return computed(lambda x: x.astype(dtype), self)

    # ---- reductions: arrays, never scalars ----

    def all(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        return computed(np.all, self, axis=axis, keepdims=keepdims)

    def any(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        return computed(np.any, self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        return computed(np.min, self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> ndarray:
        return computed(np.max, self, axis=axis, keepdims=keepdims)

    def argmin(
        self,
        axis: Any = None,
        out: Any = None,
        dtype: Any = None,
        keepdims: bool = False,
    ) -> ndarray:
        return computed(np.argmin, self, axis=axis, keepdims=keepdims)

    def sum(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
    ) -> ndarray:
        return computed(np.sum, self, axis=axis, dtype=dtype, keepdims=keepdims)

    def mean(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
    ) -> ndarray:
        return computed(np.mean, self, axis=axis, dtype=dtype, keepdims=keepdims)

    # ---- operators ----

    __add__, __radd__ = _binary(operator.add), _reflected(operator.add)
    __sub__, __rsub__ = _binary(operator.sub), _reflected(operator.sub)
    __mul__, __rmul__ = _binary(operator.mul), _reflected(operator.mul)
    __truediv__ = _binary(operator.truediv)
    __rtruediv__ = _reflected(operator.truediv)
    __floordiv__ = _binary(operator.floordiv)
    __mod__ = _binary(operator.mod)
    __pow__ = _binary(operator.pow)
    __matmul__ = _binary(operator.matmul)
    __and__, __rand__ = _binary(operator.and_), _reflected(operator.and_)
    __or__, __ror__ = _binary(operator.or_), _reflected(operator.or_)
    __eq__ = _binary(operator.eq)
    __ne__ = _binary(operator.ne)
    __lt__, __le__ = _binary(operator.lt), _binary(operator.le)
    __gt__, __ge__ = _binary(operator.gt), _binary(operator.ge)
    __iadd__ = _in_place(np.add)
    __isub__ = _in_place(np.subtract)
    __imul__ = _in_place(np.multiply)
    __itruediv__ = _in_place(np.true_divide)

    def __neg__(self) -> ndarray:
        return computed(operator.neg, self)

    def __abs__(self) -> ndarray:
        return computed(operator.abs, self)

    def __invert__(self) -> ndarray:
        return computed(operator.invert, self)


def _key(slices: Any) -> tuple[tuple[Any, ...], bool]:
    """An index for NumPy, and whether it has arrays in it."""
    listed = slices if isinstance(slices, tuple) else (slices,)
    advanced = any(isinstance(one, ndarray) for one in listed)
    plain = (int, np.integer, slice, type(None), type(Ellipsis))
    for one in listed:
        if not isinstance(one, (ndarray, *plain)):
            raise IndexError(f"an index of {type(one)} for an array on a GPU")
    key = tuple(host(one) if isinstance(one, ndarray) else one for one in listed)
    return key, advanced
