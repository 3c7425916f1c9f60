"""Input arrays: conversion, common device and dtype, memory layout, `out=`.

Public functions pass their inputs through here once; the code below them does not
check them again.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from . import frames
from .launch import CACHED

Array = Any
"""A NumPy or a CuPy array. CuPy declares no types."""

ArrayT = TypeVar("ArrayT")

ArrayOrNumber: TypeAlias = npt.NDArray[Any] | Any
"""A NumPy array, or a number if no axes are left."""


class CudaArray(Protocol):
    """An array that may be on a CUDA device: the type of a result is not known."""

    @property
    def __cuda_array_interface__(self) -> Any: ...


OnDevice: TypeAlias = CudaArray | Sequence[CudaArray]
"""An array, or the arrays of a map of several parameters. It comes first in overloads:
type checkers then know that an argument of an unknown type may be CuPy's."""

NATIVE = frozenset({np.ndarray, np.float64, float, int, bool, list, tuple, type(None)})
"""Types of NumPy and Python: no array of another package, and no labels."""

SPARSE_LIBRARIES = "scipy.sparse", "cupyx.scipy.sparse"
"""The modules of sparse matrices, of SciPy and of CuPy."""

_EXACT_INTEGERS = 2**53
_DLPACK_CPU = (1, 3)
_DLPACK_CUDA = (2, 13)


# ---- kind of array -------------------------------------------------------------------


def is_cupy(array: object) -> bool:
    """Whether `array` is a CuPy array. This imports nothing."""
    return type(array) is not np.ndarray and isinstance(
        array, getattr(sys.modules.get("cupy"), "ndarray", ())
    )


def is_dask(value: object) -> bool:
    """Whether a value is a dask array. This imports nothing.

    Objects of xarray have a graph, too, even if their data are NumPy's.
    """
    return hasattr(value, "__dask_graph__") and hasattr(value, "numblocks")


def sparse_library(value: object) -> str | None:
    """The module of a sparse matrix or array, among `SPARSE_LIBRARIES`; else None."""
    for library in SPARSE_LIBRARIES:
        module = sys.modules.get(library)
        if module is not None and module.issparse(value):
            return library
    return None


def are_native(values: Iterable[object]) -> bool:
    """Whether the types of all values are in `NATIVE`."""
    return NATIVE.issuperset(map(type, values))


def namespace(array: Array) -> Any:
    """The module of an array, NumPy or CuPy."""
    return sys.modules["cupy"] if is_cupy(array) else np


def _cupy_for(name: str) -> Any:
    try:
        import cupy
    except Exception as error:
        raise TypeError(
            f"{name} is on a CUDA device, which needs CuPy: "
            "pip install gpusolve[cuda12] or gpusolve[cuda13]"
        ) from error
    return cupy


# ---- conversion ----------------------------------------------------------------------


def as_array(value: object, name: str) -> Array:
    """Convert to a NumPy array, or to a CuPy array if `value` is on a CUDA device.

    Accepts NumPy and CuPy arrays, objects that support ``__cuda_array_interface__`` or
    DLPack, columns and data frames of pandas, polars and pyarrow, and everything that
    :func:`numpy.asarray` accepts. Data is copied only if the conversion requires it,
    and never to another device.

    Raises
    ------
    TypeError
        For a masked array, a sparse matrix, a linear operator, or a CUDA array without
        CuPy.
    ValueError
        For a CUDA array whose elements are at a null pointer.
    """
    if type(value) is np.ndarray or is_cupy(value):
        return value
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"{name} must be a plain array, got a masked array; call its filled() first"
        )
    if sparse_library(value) is not None:
        raise TypeError(
            f"{name} must be a dense array, got a sparse matrix; call its toarray() "
            "first"
        )
    if hasattr(value, "matvec"):
        raise TypeError(
            f"{name} must be an array, got a linear operator, which has no elements; "
            "multiply it by the identity matrix first"
        )
    if isinstance(value, np.ndarray):
        return np.asarray(value)  # also converts numpy.matrix
    if hasattr(value, "__cuda_array_interface__"):
        return _from_interface(value, name)
    if (array := frames.array_of(value)) is not None:
        return array
    if hasattr(value, "__dlpack_device__"):
        kind = value.__dlpack_device__()[0]
        if kind in _DLPACK_CPU:
            return np.from_dlpack(value)  # type: ignore[arg-type]
        if kind in _DLPACK_CUDA:
            return _cupy_for(name).from_dlpack(value)
        raise TypeError(
            f"{name} must be on a CPU or a CUDA device, got DLPack device of type "
            f"{kind}"
        )
    return np.asarray(value)


def _from_interface(value: Any, name: str) -> Array:
    """Wrap a CUDA array of any GPU; `cupy.asarray` would copy it to the current GPU.

    An array without elements has neither a pointer nor a device.
    """
    cupy, interface = _cupy_for(name), value.__cuda_array_interface__
    pointer, shape = interface["data"][0], interface["shape"]
    if math.prod(shape) == 0:
        return cupy.asarray(value)
    if pointer == 0:
        raise ValueError(f"{name} must have memory, got a null pointer, shape {shape}")
    with cupy.cuda.Device(cupy.cuda.runtime.pointerGetAttributes(pointer).device):
        return cupy.asarray(value)


def asarray_like(array: Array, value: object) -> object:
    """Convert a list or a number to an array on the device of `array`.

    A value that is an array already stays on its device; a sparse matrix stays, too.
    """
    if type(value) is np.ndarray:
        return value
    protocols = ("__array__", "__cuda_array_interface__", "__dlpack__", "tocsr")
    if any(hasattr(value, protocol) for protocol in protocols):
        return value
    return namespace(array).asarray(value)


def on_host(array: Array) -> Array:
    """Copy a CuPy array to the host; return a NumPy array as it is."""
    return array.get() if is_cupy(array) else np.asarray(array)


# ---- common device and dtype ---------------------------------------------------------


def on_one_device(arrays: dict[str, object]) -> dict[str, Array]:
    """Convert to arrays, and check that all are on the CPU or all on the same GPU.

    Raises
    ------
    TypeError
        For arrays on the CPU and on a GPU together.
    ValueError
        For arrays on different GPUs.
    """
    found = {name: as_array(value, name) for name, value in arrays.items()}
    if any(map(is_cupy, found.values())):
        check_gpus({name: gpu_of(array) for name, array in found.items()}, "arrays")
    return found


def gpu_of(array: Array) -> int | None:
    """The number of the GPU of an array; None if it is on the CPU."""
    return array.device.id if is_cupy(array) else None


def check_gpus(gpus: dict[str, int | None], kind: str) -> None:
    """TypeError or ValueError unless the GPUs, or None for the CPU, are the same.

    `kind` names the values in the message.
    """
    found = set(gpus.values())
    if len(found) <= 1:
        return
    places = ", ".join(
        f"{name} on {'the CPU' if gpu is None else f'GPU {gpu}'}"
        for name, gpu in gpus.items()
    )
    error = TypeError if None in found else ValueError
    raise error(f"all {kind} must be on one device, got {places}")


def floating(arrays: dict[str, object], smallest: str = "f4") -> dict[str, Array]:
    """Convert to the widest floating dtype among the arrays, on a common device.

    It is at least `smallest`. Integers and booleans count as float64. A 64-bit integer
    array is checked for values that float64 cannot represent, which synchronises on a
    GPU.

    Raises
    ------
    TypeError
        For complex, object, extended-precision or other non-real dtypes, or arrays
        on the CPU and on a GPU together.
    ValueError
        For integers beyond 2**53, or arrays on different GPUs.
    """
    found = on_one_device(arrays)
    for name, array in found.items():
        check_real(array, name)
    dtype = _widest(smallest, *[array.dtype for array in found.values()])
    return {
        name: array if array.dtype is dtype else array.astype(dtype, copy=False)
        for name, array in found.items()
    }


@functools.lru_cache(CACHED)
def _widest(smallest: str, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """The widest dtype, where other than floating dtypes count as float64."""
    sizes = [dtype.itemsize if dtype.kind == "f" else 8 for dtype in dtypes]
    return np.dtype(f"f{max(np.dtype(smallest).itemsize, *sizes)}")


def check_real(array: Array, name: str) -> None:
    """TypeError or ValueError for the dtypes and integers that `floating` refuses."""
    kind = array.dtype.kind
    if kind == "f" and array.itemsize <= 8:
        return
    if kind not in "biuf" or array.dtype.itemsize > 8:
        raise TypeError(
            f"{name} must have a real dtype of at most 64 bits, got {array.dtype}"
        )
    if kind in "iu" and array.dtype.itemsize == 8 and array.size:
        largest = max(int(array.max()), -int(array.min()))
        if largest > _EXACT_INTEGERS:
            raise ValueError(
                f"{name} must have integers of magnitude at most 2**53, which float64 "
                f"represents exactly, got {largest}; convert {name} to float64 "
                "yourself if rounding is acceptable"
            )


# ---- memory layout -------------------------------------------------------------------


_NO_BYTES: Any = ctypes.c_char * 0


def address_of(array: Any) -> int:
    """The address of an array's first element; a number is an address."""
    if type(array) is np.ndarray:
        try:
            return ctypes.addressof(_NO_BYTES.from_buffer(array))  # the fastest way
        except TypeError:  # it is read-only, or has gaps
            return int(array.ctypes.data)
    if isinstance(array, int):
        return array
    return int(array.data.ptr if is_cupy(array) else array.ctypes.data)


SMALL = 2**16
"""The most bytes of arrays that are allocated together."""

Layout = tuple[tuple[tuple[int, ...], np.dtype[Any], int], ...]
"""The shape, the dtype and the first byte of several arrays in an allocation."""


def empty_together(layout: Layout, size: int) -> tuple[list[Array], list[int]]:
    """NumPy arrays, and their addresses; small arrays share an allocation of `size`.

    That is faster. A large array keeps no memory of others alive.
    """
    if size > SMALL:
        arrays = [np.empty(shape, dtype) for shape, dtype, _ in layout]
        return arrays, [address_of(array) for array in arrays]
    memory = np.empty(size, np.uint8)
    first, of = address_of(memory), np.ndarray
    arrays = [of(shape, dtype, memory, begin) for shape, dtype, begin in layout]
    return arrays, [first + begin for _, _, begin in layout]


def aligned(array: Array) -> bool:
    """Whether the address is a multiple of the element size, as kernels require.

    NumPy's own flag accepts complex numbers at multiples of half their size.
    """
    return bool(address_of(array) % array.itemsize == 0)


def contiguous(array: Array, dtype: Any = None) -> Array:
    """`array` in C order, aligned and without gaps; a copy only if it is not so."""
    found = namespace(array).ascontiguousarray(array, dtype)
    return found if aligned(found) else found.copy()


def strided(array: Array) -> Array:
    """`array`, or a copy unless its strides and address are multiples of its items."""
    flags = array.flags
    if flags.c_contiguous and array.dtype.kind == "f" and getattr(flags, "aligned", 0):
        return array
    whole = _are_multiples(array.strides, array.itemsize)
    return array if whole and aligned(array) else array.copy()


@functools.lru_cache(CACHED)
def _are_multiples(numbers: tuple[int, ...], of: int) -> bool:
    return all(number % of == 0 for number in numbers)


def part_of(array: Array, batch: int, part: slice) -> Array:
    """Some systems of a contiguous array, whose first `batch` axes are the batch.

    The array itself, of any shape, if these are all systems: a slice takes longer.
    """
    systems = math.prod(array.shape[:batch])
    if part.start == 0 and part.stop == systems:
        return array
    return array.reshape(systems, *array.shape[batch:])[part]


def flat_batch(array: Array, core: int) -> Array:
    """An array with a single batch axis before the last `core` axes; also if empty."""
    leading, last = array.shape[: array.ndim - core], array.shape[array.ndim - core :]
    return array.reshape(math.prod(leading), *last)


def as_rows(x: Array, axes: tuple[int, ...], leading: int) -> Array:
    """Arrange an array of elements as contiguous rows, to be reduced or scanned.

    Parameters
    ----------
    x : (..., *element) array
    axes : tuple of int
        The axes that form a row, among the first `leading`. If they are the last of
        these, in order, and `x` is contiguous and aligned, nothing is copied.
    leading : int
        Number of axes before the axes of an element.

    Returns
    -------
    (rows, length, *element) array
    """
    order, shape = _order_of_rows(x.shape, axes, leading)
    return contiguous(x if order is None else x.transpose(order)).reshape(shape)


def largest(values: Array, axis: int = -1, keepdims: bool = False) -> Array:
    """The largest element along an axis, which may be empty; at least 0.

    ``max`` of CuPy's arrays has no `initial`.
    """
    xp = namespace(values)
    if values.shape[axis]:
        return xp.maximum(values.max(axis=axis, keepdims=keepdims), 0)
    return values.sum(axis=axis, keepdims=keepdims)


@functools.lru_cache(CACHED)
def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """`numpy.broadcast_shapes`, cached, because it makes arrays."""
    return np.broadcast_shapes(*shapes)


@functools.lru_cache(CACHED)
def _order_of_rows(
    shape: tuple[int, ...], axes: tuple[int, ...], leading: int
) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    """The order of the axes, None if they stay, and the shape, for `as_rows`."""
    rest = [axis for axis in range(leading) if axis not in axes]
    rows = math.prod(shape[axis] for axis in rest)
    length = math.prod(shape[axis] for axis in axes)
    order = (*rest, *axes, *range(leading, len(shape)))
    stays = order == tuple(range(len(shape)))
    return None if stays else order, (rows, length, *shape[leading:])


def systems_offsets(array: Array, core: int, batch: tuple[int, ...]) -> Array:
    """The offset of each system of a batch, in elements from the first of the array.

    Parameters
    ----------
    array : (..., *core axes) array
        Its leading axes broadcast against `batch`; no element is copied.
    core : int
        Number of trailing axes that belong to one system.
    batch : tuple of int
        The broadcast batch shape.

    Returns
    -------
    (prod(batch),) int64 array, on the array's device

    Examples
    --------
    >>> import numpy as np
    >>> systems_offsets(np.zeros((2, 1, 4, 3)), 2, (2, 3))
    array([ 0,  0,  0, 12, 12, 12])
    """
    xp, leading, offsets = namespace(array), array.ndim - core, None
    shape, strides = array.shape[:leading], array.strides[:leading]
    for length, stride in _merged(shape, strides, array.itemsize, batch):
        if stride == 0:
            places = xp.zeros(length, np.int64)
        else:
            places = xp.arange(0, length * stride, stride, np.int64)
        if offsets is not None:
            places = (offsets.reshape(-1, 1) + places).reshape(-1)
        offsets = places
    return xp.zeros(1, np.int64) if offsets is None else offsets


class BatchOffsets(NamedTuple):
    """Where each system of a batch begins; see ``batch.cuh``.

    Attributes
    ----------
    offset : (systems,) int64 array or None
        In elements from the first of the array.
    stride : int
        The distance between systems, if `offset` is None.
    """

    offset: Array | None
    stride: int


def batch_offsets(array: Array, core: int, batch: tuple[int, ...]) -> BatchOffsets:
    """Where each system of a batch begins, with an array of offsets only if necessary.

    The parameters are as for :func:`systems_offsets`.

    Examples
    --------
    >>> import numpy as np
    >>> batch_offsets(np.zeros((5, 4, 3)), 2, (5,))
    BatchOffsets(offset=None, stride=12)
    """
    if not batch:
        return BatchOffsets(None, 0)
    leading = array.ndim - core
    shape, strides = array.shape[:leading], array.strides[:leading]
    merged = _merged(shape, strides, array.itemsize, batch)
    if len(merged) > 1:
        return BatchOffsets(systems_offsets(array, core, batch), 0)
    return BatchOffsets(None, merged[0][1] if merged else 0)


@functools.lru_cache(CACHED)
def _merged(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    itemsize: int,
    batch: tuple[int, ...],
) -> tuple[tuple[int, int], ...]:
    """Lengths and strides in elements of as few axes as have all systems of a batch.

    An axis along which the array is broadcast has the stride 0.

    Examples
    --------
    >>> _merged((5, 2, 3), (576, 288, 96), 8, (5, 2, 3))
    ((30, 12),)
    >>> _merged((2, 1), (96, 96), 8, (2, 3))
    ((2, 12), (3, 0))
    """
    missing = len(batch) - len(shape)
    given = (1,) * missing + shape, (0,) * missing + strides
    merged: list[tuple[int, int]] = []
    for length, own, stride in zip(batch, *given, strict=True):
        step = 0 if own == 1 else stride // itemsize
        if length == 1:
            continue
        if merged and merged[-1][1] == length * step:
            merged[-1] = merged[-1][0] * length, step
        else:
            merged.append((length, step))
    return tuple(merged)


# ---- results -------------------------------------------------------------------------


def check_out(
    out: Any, array: Array, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> None:
    """Check that `out`, unless it is None, can hold a result of this dtype and shape.

    Raises
    ------
    TypeError
        Unless it is an array of this dtype, on the device of `array`.
    ValueError
        For another shape, or an array that is read-only.
    """
    if out is None:
        return
    if is_cupy(out) != is_cupy(array) or as_array(out, "out") is not out:
        raise TypeError(
            f"out must be an array on the device of {name}, got {type(out).__name__}"
        )
    if gpu_of(out) != gpu_of(array):
        raise TypeError(
            f"out must be on GPU {gpu_of(array)} like {name}, got GPU {gpu_of(out)}"
        )
    if out.dtype != dtype:
        raise TypeError(f"out must have dtype {dtype}, got {out.dtype}")
    if out.shape != shape:
        raise ValueError(f"out must have shape {shape}, got {out.shape}")
    if not getattr(out.flags, "writeable", True):
        raise ValueError("out must be writeable, got a read-only array")


def can_write_to(out: Array, *inputs: Array) -> bool:
    """Whether a kernel can write to `out`: contiguous, and no input overlaps it."""
    may_share = namespace(out).may_share_memory
    overlaps = any(may_share(out, array) for array in inputs)
    return bool(out.flags.c_contiguous) and aligned(out) and not overlaps


def unwrapped(result: Array) -> Any:
    """A NumPy scalar for NumPy's array without axes; other arrays as they are."""
    return result[()] if type(result) is np.ndarray and not result.ndim else result


def written(result: Array, out: Array | None) -> Array:
    """Copy the result to `out`, if it is given; return the array that holds it."""
    if out is None:
        return result
    out[...] = result
    return out
