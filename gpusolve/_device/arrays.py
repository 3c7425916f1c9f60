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
        return _from_interface(value, _cupy_for(name))
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


def _from_interface(value: Any, cupy: Any) -> Array:
    """The CuPy array of what lies on any GPU; `cupy.asarray` would copy it to this one.

    Arrays without elements have no pointer, and so no device.
    """
    pointer = value.__cuda_array_interface__["data"][0]
    if pointer == 0:
        return cupy.asarray(value)
    with cupy.cuda.Device(cupy.cuda.runtime.pointerGetAttributes(pointer).device):
        return cupy.asarray(value)


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


def aligned(array: Array) -> bool:
    """Whether the first element lies at a multiple of its size, as kernels read it.

    NumPy's own `aligned` lets complex numbers lie at multiples of half their size.
    """
    address = array.data.ptr if is_cupy(array) else array.ctypes.data
    return bool(address % array.itemsize == 0)


def contiguous(array: Array, dtype: Any = None) -> Array:
    """`array` without gaps, in C order and aligned; a copy where it is not."""
    found = namespace(array).ascontiguousarray(array, dtype)
    return found if aligned(found) else found.copy()


def strided(array: Array) -> Array:
    """`array`, or a copy where its strides or its address are not whole elements."""
    whole = all(stride % array.itemsize == 0 for stride in array.strides)
    return array if whole and aligned(array) else array.copy()


def check_out(
    out: Any, array: Array, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> None:
    """Whether `out`, unless it is None, can hold a result of this dtype and shape.

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
            f"out is a {type(out).__name__}; an array beside {name} is wanted"
        )
    if is_cupy(out) and out.device.id != array.device.id:
        raise TypeError(
            f"out lies on GPU {out.device.id}, {name} on GPU {array.device.id}"
        )
    if out.dtype != dtype:
        raise TypeError(f"out has dtype {out.dtype}; {dtype} is wanted")
    if out.shape != shape:
        raise ValueError(f"out has shape {out.shape}; {shape} is wanted")
    if not getattr(out.flags, "writeable", True):
        raise ValueError("out is read-only; a writeable array is wanted")


def on_host(array: Array) -> Array:
    """The array, on the host."""
    return array.get() if is_cupy(array) else np.asarray(array)


def written(result: Array, out: Array | None) -> Array:
    """The result, in `out` if there is one."""
    if out is None:
        return result
    out[...] = result
    return out
