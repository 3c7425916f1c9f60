"""Arrays on a device, which must be the current device for every operation."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from gpusolve._emulator import count_copy_to_host

from . import devices
from .memory import Memory, MemoryPointer

Host = np.ndarray[Any, Any]

DTYPES = "?bhilqBHILQefdFD"
"""The characters of CuPy's dtypes."""


def checked_dtype(dtype: Any) -> np.dtype[Any]:
    found = np.dtype(dtype)
    if found.char not in DTYPES or not found.isnative:
        raise ValueError(f"Unsupported dtype {found}")
    return found


def host_value(value: Any) -> Any:
    """The NumPy array of an array on the current device; scalars as they are."""
    if isinstance(value, ndarray):
        device, current = value.data.device_id, devices.current()
        if device != current:
            raise ValueError(
                f"The device where the array resides ({device}) is different from the "
                f"current device ({current}). Peer access is unavailable between these "
                "devices."
            )
        return value._host
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def copied(value: Any) -> ndarray:
    """A new array on the current device, from a NumPy array or scalar."""
    source = np.asarray(value)
    order = "F" if source.flags.fnc else "C"
    array = ndarray(source.shape, source.dtype, order=order)
    array._host[...] = source
    return array


def from_host(value: Any) -> ndarray:
    """The result of an array operation, which NumPy has computed."""
    devices.counts["operations"] += 1
    return copied(value)


def view_of(array: ndarray, host_view: Host) -> ndarray:
    """An array on part of another array's memory. Runs nothing on the device."""
    found = object.__new__(ndarray)
    begin = array._host.ctypes.data if array.size else 0
    offset = host_view.ctypes.data - begin if host_view.size and begin else 0
    found.data = array.data + offset
    found._host = host_view
    found.base = array
    return found


# ---- functions of NumPy --------------------------------------------------------------

REFUSED = {
    *("casting", "count", "device", "hermitian", "initial", "kind", "like", "max"),
    *("min", "order", "out", "signature", "sorted", "subok", "upper", "where"),
}
"""Options of NumPy's functions that CuPy's lack, or that gpusolve does not need."""


def unwrapped(value: Any) -> Any:
    """An argument for NumPy: host values of arrays, also in a sequence of arrays."""
    if isinstance(value, (tuple, list)):
        return type(value)([unwrapped(item) for item in value])
    return host_value(value) if isinstance(value, (ndarray, np.ndarray)) else value


def device_value(value: Any, make: Callable[[Any], ndarray] = from_host) -> Any:
    """The arrays of a result of NumPy, without names."""
    if isinstance(value, (tuple, list)):
        kind = list if isinstance(value, list) else tuple
        return kind(make(item) for item in value)
    return make(value)


def by_numpy(
    function: Callable[..., Any], *, views: bool = False, reads: bool = False
) -> Any:
    """A function of NumPy for arrays on the current device.

    If it returns `views` of its first argument, it runs nothing on the device. If it
    `reads`, CuPy copies a number to the host.
    """

    def call(*args: Any, **options: Any) -> Any:
        if given := options.keys() & REFUSED:
            raise TypeError(f"the stand-in does not support {', '.join(given)}")
        if reads:
            count_copy_to_host()
        if views:
            source, *others = args
            found = function(source._host, *others, **options)
            return device_value(found, partial(view_of, source))
        hosts = unwrapped(args)
        named = {name: unwrapped(value) for name, value in options.items()}
        with np.errstate(all="ignore"):
            return device_value(function(*hosts, **named))

    call.__wrapped__ = function
    return call


VIEWS = {"swapaxes", "diagonal", "squeeze"}
REDUCTIONS = {"all", "any", "min", "max", "sum", "mean", "argmin", "argmax"}
"""Methods. Reductions return arrays, never scalars."""

ATTRIBUTES = {"shape", "strides", "dtype", "ndim", "size", "itemsize", "nbytes"}


class ndarray(NDArrayOperatorsMixin):  # noqa: N801
    """An array on one device."""

    __hash__ = None

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

    def __array_function__(self, function: Any, _: Any, args: Any, options: Any) -> Any:
        """NumPy's function of arrays is the stand-in's of this name, as in CuPy."""
        found = getattr(sys.modules[__package__], function.__name__, None)
        if found is None:
            raise TypeError(f"numpy.{function.__name__} of an array on a GPU")
        return found(*args, **options)

    def __array_ufunc__(
        self, ufunc: Any, method: str, *args: Any, out: Any = (), **options: Any
    ) -> Any:
        """Operators, too; of an operation in place, `out` is the array itself."""
        if method != "__call__":
            return NotImplemented
        if not out:
            return by_numpy(ufunc)(*map(checked_operand, args), **options)
        devices.counts["operations"] += 1
        with np.errstate(all="ignore"):
            ufunc(*map(host_value, args), out=host_value(out[0]), **options)
        return out[0]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.data.ptr, False),
            "strides": self.strides,
            "version": 3,
        }

    # ---- attributes and methods that are NumPy's ----

    def __getattr__(self, name: str) -> Any:
        if name in ATTRIBUTES:
            return getattr(self._host, name)
        if name in VIEWS | REDUCTIONS:
            return partial(by_numpy(getattr(np, name), views=name in VIEWS), self)
        raise AttributeError(name)

    device = property(lambda self: self.data.device)
    T = property(lambda self: view_of(self, self._host.T))
    real = property(lambda self: view_of(self, self._host.real))

    @property
    def flags(self) -> SimpleNamespace:
        """CuPy's flags lack `aligned`."""
        c, f = self._host.flags.c_contiguous, self._host.flags.f_contiguous
        owned = self.base is None
        return SimpleNamespace(c_contiguous=c, f_contiguous=f, owndata=owned)

    def __len__(self) -> int:
        return len(self._host)

    def __iter__(self) -> Iterator[ndarray]:
        return (self[k] for k in range(len(self)))

    def __repr__(self) -> str:
        return repr(self._host)

    # ---- copies to the host, allowed from any device ----

    def get(
        self,
        stream: Any = None,
        order: str = "C",
        out: Any = None,
        blocking: bool = True,
    ) -> Host:
        count_copy_to_host()
        if out is None:
            return self._host.copy()
        same = (out.shape, out.dtype) == (self.shape, self.dtype)
        if not out.flags.c_contiguous or not same:
            raise ValueError("out must be C-contiguous, of the shape and dtype of self")
        if blocking or stream is None:
            out[...] = self._host
        else:
            stream.later(lambda: np.copyto(out, self._host))
        return out

    def set(self, arr: Host, stream: Any = None) -> None:
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if (arr.shape, arr.dtype) != (self.shape, self.dtype):
            raise ValueError("Shape or dtype mismatch")
        host_value(self)[...] = arr

    # ---- views ----

    def reshape(self, *shape: Any, order: str = "C") -> ndarray:
        lengths = shape[0] if len(shape) == 1 else shape
        found = self._host.reshape(lengths, order=order)
        if found.size == 0 or np.may_share_memory(found, self._host):
            return view_of(self, found)
        host_value(self)
        return from_host(found)

    def ravel(self, order: str = "C") -> ndarray:
        return self.reshape(-1, order=order)

    def transpose(self, *axes: Any) -> ndarray:
        return view_of(self, self._host.transpose(*axes))

    def view(self, dtype: Any = None) -> ndarray:
        return view_of(self, self._host.view(checked_dtype(dtype or self.dtype)))

    # ---- elements ----

    def __getitem__(self, slices: Any) -> ndarray:
        key = checked_key(slices)
        arrays = [index for index in key if isinstance(index, np.ndarray)]
        if arrays:
            if any(index.dtype == bool for index in arrays):
                count_copy_to_host()  # the number of elements is read
            return from_host(host_value(self)[key])
        if not any(index is Ellipsis for index in key):
            key = (*key, Ellipsis)  # otherwise NumPy returns scalars
        return view_of(self, self._host[key])

    def __setitem__(self, slices: Any, value: Any) -> None:
        devices.counts["operations"] += 1
        host_value(self)[checked_key(slices)] = host_value(value)

    def fill(self, value: Any) -> None:
        self[...] = value

    # ---- copies ----

    def copy(self, order: str = "C") -> ndarray:
        """A copy on the current device, from any device."""
        return from_host(self._host.copy(order))

    def astype(self, dtype: Any, *, copy: bool = True) -> ndarray:
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        return by_numpy(Host.astype)(self, checked_dtype(dtype))


def _to_host(name: str) -> Any:
    """A method that copies the only number, or all numbers, to the host."""

    def convert(self: ndarray) -> Any:
        count_copy_to_host()
        return getattr(self._host, name)()

    return convert


for _name in ("item", "tolist", "__bool__", "__int__", "__float__", "__complex__"):
    setattr(ndarray, _name, _to_host(_name))


def checked_operand(value: Any) -> Any:
    """An operand of a ufunc: an array or a scalar, no sequence."""
    host_value(value)
    return value


def checked_key(slices: Any) -> tuple[Any, ...]:
    """An index for NumPy, with the host's values of arrays."""
    listed = slices if isinstance(slices, tuple) else (slices,)
    plain = (int, np.integer, slice, type(None), type(Ellipsis))
    for index in listed:
        if not isinstance(index, (ndarray, *plain)):
            raise IndexError(f"an index of {type(index)} for an array on a GPU")
    return tuple(
        host_value(index) if isinstance(index, ndarray) else index for index in listed
    )
