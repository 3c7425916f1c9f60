"""Arrays on a device, which must be the current device for every operation."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from gpusolve._emulator import count_copy_to_host

from . import devices
from .memory import Memory, MemoryPointer

Host = np.ndarray[Any, Any]

DTYPES = "?bhilqBHILQefdFD"
"""The characters of CuPy's dtypes."""


class Flags:
    """CuPy's flags of a memory layout, which lack `aligned`."""

    def __init__(self, flags: Any, owndata: bool) -> None:
        self.c_contiguous = bool(flags.c_contiguous)
        self.f_contiguous = bool(flags.f_contiguous)
        self.owndata = owndata


def checked_dtype(dtype: Any) -> np.dtype[Any]:
    found = np.dtype(dtype)
    if found.char not in DTYPES or not found.isnative:
        raise ValueError(f"Unsupported dtype {found}")
    return found


def check_device(array: ndarray) -> None:
    """Raise CuPy's ValueError unless the array's device is current."""
    device, current = array.data.device_id, devices.current()
    if device != current:
        raise ValueError(
            f"The device where the array resides ({device}) is different from the "
            f"current device ({current}). Peer access is unavailable between these "
            "devices."
        )


def refuse_options(**is_default: bool) -> None:
    """Raise TypeError for options that the stand-in does not support."""
    given = [name for name, default in is_default.items() if not default]
    if given:
        raise TypeError(f"the stand-in does not support {', '.join(given)}")


def host_value(value: Any) -> Any:
    """The NumPy array of an array on the current device; scalars as they are."""
    if isinstance(value, ndarray):
        check_device(value)
        return value._host
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def from_host(value: Any) -> ndarray:
    """The result of an array operation, which NumPy has computed."""
    devices.counts["operations"] += 1
    return copied(value)


def copied(value: Any) -> ndarray:
    """A new array on the current device, from a NumPy array or scalar."""
    source = np.asarray(value)
    order = "F" if source.flags.fnc else "C"
    array = ndarray(source.shape, checked_dtype(source.dtype), order=order)
    array._host[...] = source
    return array


def compute(function: Callable[..., Any], *values: Any, **options: Any) -> ndarray:
    """Apply a NumPy function to arrays on the current device and scalars."""
    hosts = [host_value(value) for value in values]
    with np.errstate(all="ignore"):
        return from_host(function(*hosts, **options))


def view_of(array: ndarray, host_view: Host) -> ndarray:
    """An array on part of another array's memory. Runs nothing on the device."""
    found = object.__new__(ndarray)
    begin = array._host.ctypes.data if array.size else 0
    offset = host_view.ctypes.data - begin if host_view.size and begin else 0
    found.data = array.data + offset
    found._host = host_view
    found.base = array
    return found


REFUSED = {
    *("casting", "count", "hermitian", "initial", "kind", "max", "min", "order", "out"),
    *("signature", "sorted", "subok", "upper", "where"),
}
"""Options of NumPy's functions that CuPy's lack, or that gpusolve does not need."""


def device_value(value: Any, source: ndarray | None) -> Any:
    """A result of NumPy as an array: a view, if it is of the source's memory."""
    if isinstance(value, (tuple, list)):
        return type(value)([device_value(item, source) for item in value])
    if source is None:
        return from_host(value)
    return view_of(source, value)


def by_numpy(
    function: Callable[..., Any], *, views: bool = False, reads: bool = False
) -> Any:
    """A function of NumPy for arrays on the current device.

    If it returns `views` of its first argument, it runs nothing on the device. If it
    `reads`, CuPy copies a number to the host.
    """

    def call(*args: Any, **options: Any) -> Any:
        refuse_options(**{name: name not in REFUSED for name in options})
        if reads:
            count_copy_to_host()
        if views:
            source, *others = args
            return device_value(function(source._host, *others, **options), source)
        hosts = [unwrapped(value) for value in args]
        named = {name: unwrapped(value) for name, value in options.items()}
        with np.errstate(all="ignore"):
            found = function(*hosts, **named)
        if isinstance(found, tuple):
            found = (*found,)  # without names
        return device_value(found, None)

    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


def unwrapped(value: Any) -> Any:
    """An argument for NumPy: host values of arrays, also in a sequence of arrays."""
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, ndarray):
        return host_value(value)
    if isinstance(value, (tuple, list)):
        return type(value)([unwrapped(item) for item in value])
    return value


def _attribute(name: str) -> Any:
    """A member of ndarray that is NumPy's."""
    return property(lambda self: getattr(self._host, name))


class ndarray:  # noqa: N801
    """An array on one device."""

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

    def __array_function__(self, function: Any, _: Any, args: Any, options: Any) -> Any:
        """NumPy's function of arrays is the stand-in's of this name, as in CuPy."""
        found = getattr(sys.modules[__package__], function.__name__, None)
        if found is None:
            raise TypeError(f"numpy.{function.__name__} of an array on a GPU")
        return found(*args, **options)

    def __array_ufunc__(
        self, ufunc: Any, method: str, *args: Any, **options: Any
    ) -> Any:
        if method != "__call__":
            return NotImplemented
        return by_numpy(ufunc)(*args, **options)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.data.ptr, False),
            "strides": self.strides,
            "version": 3,
        }

    # ---- attributes ----

    shape, strides, dtype = map(_attribute, ("shape", "strides", "dtype"))
    ndim, size = map(_attribute, ("ndim", "size"))
    itemsize, nbytes = map(_attribute, ("itemsize", "nbytes"))
    device = property(lambda self: self.data.device)
    flags = property(lambda self: Flags(self._host.flags, self.base is None))
    T = property(lambda self: view_of(self, self._host.T))
    real = property(lambda self: view_of(self, self._host.real))

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
        if not out.flags.c_contiguous or (out.shape, out.dtype) != (
            self.shape,
            self.dtype,
        ):
            raise ValueError("out must be C-contiguous, of the shape and dtype of self")
        if blocking or stream is None:
            out[...] = self._host
        else:
            stream.later(lambda: np.copyto(out, self._host))
        return out

    def set(self, arr: Host, stream: Any = None) -> None:
        check_device(self)
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if (arr.shape, arr.dtype) != (self.shape, self.dtype):
            raise ValueError("Shape or dtype mismatch")
        self._host[...] = arr

    def item(self) -> Any:
        count_copy_to_host()
        return self._host.item()

    def tolist(self) -> Any:
        count_copy_to_host()
        return self._host.tolist()

    def __bool__(self) -> bool:
        count_copy_to_host()
        return bool(self._host)

    def __int__(self) -> int:
        count_copy_to_host()
        return int(self._host)

    def __float__(self) -> float:
        count_copy_to_host()
        return float(self._host)

    def __complex__(self) -> complex:
        count_copy_to_host()
        return complex(self._host)

    # ---- views ----

    def reshape(self, *shape: Any, order: str = "C", copy: Any = None) -> ndarray:
        lengths = shape[0] if len(shape) == 1 else shape
        found = self._host.reshape(lengths, order=order)
        if found.size == 0 or np.may_share_memory(found, self._host):
            return view_of(self, found)
        check_device(self)
        return from_host(found)

    def ravel(self, order: str = "C") -> ndarray:
        return self.reshape(-1, order=order)

    def transpose(self, *axes: Any) -> ndarray:
        return view_of(self, self._host.transpose(*axes))

    def view(self, dtype: Any = None, type: Any = None) -> ndarray:
        return view_of(self, self._host.view(checked_dtype(dtype or self.dtype)))

    # ---- elements ----

    def __getitem__(self, slices: Any) -> ndarray:
        key, advanced = _key(slices)
        if advanced:
            check_device(self)
            if any(getattr(index, "dtype", None) in (bool,) for index in key):
                count_copy_to_host()  # the number of elements is read
            return from_host(self._host[key])
        if not any(index is Ellipsis for index in key):
            key = (*key, Ellipsis)  # otherwise NumPy returns scalars
        return view_of(self, self._host[key])

    def __setitem__(self, slices: Any, value: Any) -> None:
        key, _ = _key(slices)
        check_device(self)
        devices.counts["operations"] += 1
        self._host[key] = host_value(value)

    def fill(self, value: Any) -> None:
        self[...] = value

    # ---- copies ----

    def copy(self, order: str = "C") -> ndarray:
        """A copy on the current device, from any device."""
        return from_host(self._host.copy(order))

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
        return compute(lambda x: x.astype(dtype), self)


def _in_place(function: Callable[..., Any]) -> Any:
    def apply(self: ndarray, other: Any) -> ndarray:
        devices.counts["operations"] += 1
        with np.errstate(all="ignore"):
            function(host_value(self), host_value(other), out=self._host)
        return self

    return apply


def _operator(function: Callable[..., Any], reflected: bool = False) -> Any:
    def apply(self: ndarray, *others: Any) -> ndarray:
        values = (*others, self) if reflected else (self, *others)
        return compute(function, *values)

    return apply


OPERATORS = "add sub mul truediv floordiv mod pow matmul and or eq ne lt le gt ge"
REFLECTED = "add sub mul truediv and or"
IN_PLACE = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide"}

METHODS = {
    **{
        f"__{name}__": _operator(getattr(operator, f"__{name}__"))
        for name in (*OPERATORS.split(), "neg", "abs", "invert")
    },
    **{
        f"__r{name}__": _operator(getattr(operator, f"__{name}__"), reflected=True)
        for name in REFLECTED.split()
    },
    **{
        f"__i{name}__": _in_place(getattr(np, ufunc))
        for name, ufunc in IN_PLACE.items()
    },
    **{
        name: by_numpy(getattr(np, name), views=True)
        for name in ("swapaxes", "diagonal", "squeeze")
    },
    # Reductions return arrays, never scalars.
    **{
        name: by_numpy(getattr(np, name))
        for name in ("all", "any", "min", "max", "sum", "mean", "argmin", "argmax")
    },
}
"""The members of an array that are functions of NumPy."""

for _name, _function in METHODS.items():
    setattr(ndarray, _name, _function)


def _key(slices: Any) -> tuple[tuple[Any, ...], bool]:
    """An index for NumPy, and whether it contains arrays."""
    listed = slices if isinstance(slices, tuple) else (slices,)
    advanced = any(isinstance(index, ndarray) for index in listed)
    plain = (int, np.integer, slice, type(None), type(Ellipsis))
    for index in listed:
        if not isinstance(index, (ndarray, *plain)):
            raise IndexError(f"an index of {type(index)} for an array on a GPU")
    key = tuple(
        host_value(index) if isinstance(index, ndarray) else index for index in listed
    )
    return key, advanced
