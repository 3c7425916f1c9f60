"""What array is this, is it valid, and where does the result live.

Every public function passes its inputs through here once, and nothing below asks
again.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

Array = Any
"""A NumPy or a CuPy array."""

_EXACT_INTEGERS = 2**53
_DLPACK_CPU = (1, 3)
_DLPACK_CUDA = (2, 13)


def is_cupy(array: object) -> bool:
    """Whether `array` is a CuPy array; imports nothing."""
    cupy = sys.modules.get("cupy")
    ndarray = getattr(cupy, "ndarray", None)
    return ndarray is not None and isinstance(array, ndarray)


def namespace(array: Array) -> Any:
    """The module, NumPy or CuPy, that `array` belongs to."""
    return sys.modules["cupy"] if is_cupy(array) else np


def _cupy_for(name: str) -> Any:
    try:
        import cupy
    except Exception as error:
        raise TypeError(
            f"{name} lies on a CUDA device, which needs CuPy: "
            "pip install gpusolve[cuda12] or gpusolve[cuda13]"
        ) from error
    return cupy


def as_array(value: object, name: str) -> Array:
    """A NumPy array, or a CuPy array where `value` lies on a CUDA device.

    Takes NumPy and CuPy arrays, whatever speaks ``__cuda_array_interface__`` or
    DLPack, and whatever :func:`numpy.asarray` takes. Nothing is copied that need not
    be, and nothing changes device.

    Raises
    ------
    TypeError
        For a masked array, a sparse matrix, or a CUDA array without CuPy.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: fill it first")
    if is_cupy(value):
        return value
    if isinstance(value, np.ndarray):
        return np.asarray(value)  # of a matrix, say, its array
    if hasattr(value, "__cuda_array_interface__"):
        return _cupy_for(name).asarray(value)
    if hasattr(value, "__dlpack_device__"):
        kind = value.__dlpack_device__()[0]
        if kind in _DLPACK_CPU:
            return np.from_dlpack(value)  # type: ignore[arg-type]
        if kind in _DLPACK_CUDA:
            return _cupy_for(name).from_dlpack(value)
        raise TypeError(
            f"{name} lies on a DLPack device of type {kind}, not CPU or CUDA"
        )
    return np.asarray(value)


def beside(array: Array, value: object) -> object:
    """A list or a number as an array where `array` lies; an array stays where it is."""
    protocols = ("__array__", "__cuda_array_interface__", "__dlpack__")
    if any(hasattr(value, protocol) for protocol in protocols):
        return value
    return namespace(array).asarray(value)


def _check_dtype(array: Array, name: str) -> None:
    kind = array.dtype.kind
    if kind not in "biuf" or array.dtype.itemsize > 8:
        raise TypeError(
            f"{name} has dtype {array.dtype}; reals of at most 64 bits are wanted"
        )
    if kind in "iu" and array.dtype.itemsize == 8 and array.size:
        largest = max(int(array.max()), -int(array.min()))
        if largest > _EXACT_INTEGERS:
            raise ValueError(
                f"{name} has an integer of magnitude {largest}, which float64 cannot "
                "hold exactly; convert it yourself if rounding is meant"
            )


def on_one_device(arrays: dict[str, object]) -> dict[str, Array]:
    """The arrays as `as_array` has them, all on the CPU or all on one GPU.

    Raises
    ------
    TypeError
        For arrays on the CPU and on a GPU together.
    ValueError
        For arrays on different GPUs.
    """
    found = {name: as_array(value, name) for name, value in arrays.items()}
    where = {name: is_cupy(array) for name, array in found.items()}
    if len(set(where.values())) > 1:
        described = ", ".join(
            f"{name} on {'a GPU' if on_gpu else 'the CPU'}"
            for name, on_gpu in where.items()
        )
        raise TypeError(f"all arrays must be on one device; got {described}")
    if any(where.values()) and len({array.device.id for array in found.values()}) > 1:
        described = ", ".join(f"{k} on GPU {a.device.id}" for k, a in found.items())
        raise ValueError(f"all arrays must be on one device; got {described}")
    return found


def floating(arrays: dict[str, object]) -> dict[str, Array]:
    """The arrays on one device, in one dtype: float32 if all are so, else float64.

    float16 counts as float32; integers and booleans become float64. A 64-bit integer
    array is checked for values that float64 cannot hold, which on a GPU synchronises.

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
        _check_dtype(array, name)
    single = all(a.dtype.kind == "f" and a.dtype.itemsize <= 4 for a in found.values())
    dtype = np.dtype(np.float32 if single else np.float64)
    return {k: a.astype(dtype.newbyteorder("="), copy=False) for k, a in found.items()}


def systems_offsets(array: Array, core: int, batch: tuple[int, ...]) -> Array:
    """Where each system of a batch begins, in elements from the array's first.

    Parameters
    ----------
    array : (..., *core axes) array
        Its leading axes broadcast against `batch`; no element is copied.
    core : int
        How many trailing axes belong to one system.
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
    xp = namespace(array)
    leading = array.ndim - core
    offsets = xp.zeros(batch, dtype=np.int64)
    for axis in range(leading):
        if array.shape[axis] == 1:
            continue
        stride = array.strides[axis] // array.itemsize
        places = xp.arange(array.shape[axis], dtype=np.int64) * stride
        offsets += places.reshape((-1,) + (1,) * (leading - axis - 1))
    return offsets.reshape(-1)


def strided(array: Array) -> Array:
    """`array`, or a copy where its strides or its address are not whole elements."""
    xp = namespace(array)
    whole = all(stride % array.itemsize == 0 for stride in array.strides)
    if is_cupy(array):
        aligned = array.data.ptr % array.itemsize == 0
    else:
        aligned = bool(array.flags.aligned)
    return array if whole and aligned else xp.ascontiguousarray(array)
