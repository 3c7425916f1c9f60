"""Parallel writes: scatter, replicate, and the stable partition."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import reference
from .._device.arrays import (
    Array,
    as_array,
    beside,
    contiguous,
    is_cupy,
    namespace,
    on_one_device,
    written,
)
from .._device.kernels import current, device_of
from ..monoid import Map
from .inputs import native


def scatter(target: Array, indices: object, values: object) -> Array:
    """Write values at indices, in place: ``target[indices] = values``.

    Parameters
    ----------
    target : (m, ...) array
        Changed in place. Contiguous.
    indices : (n,) array_like of int
        Negative ones, and those of m and more, are ignored.
    values : (n, ...) array_like
        Broadcast to n elements of `target`, and converted to its dtype, which must be
        of the same kind or a higher one.

    Returns
    -------
    array
        `target`.

    Raises
    ------
    TypeError
        If `target` is not an array, the indices are not integers, or a dtype does not
        fit.
    ValueError
        If shapes do not fit, or `target` is not contiguous or cannot be written.

    Notes
    -----
    Work O(n), not O(m); depth O(1). Of equal indices the last value wins on a CPU; on a
    device any of them. This is no `numpy.put` nor `cupyx.scatter_add`: nothing wraps
    round, nothing is added.

    References
    ----------
    C. Oancea and T. Henriksen, "Basic Blocks of Data-Parallel Programming", 2019:
    "Scatter: Parallel Write Operator".

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> gpusolve.scatter(np.zeros(6, int), [2, 4, 1, -1], [10, 11, 12, 13])
    array([ 0, 12, 10,  0, 11,  0])
    """
    if not (isinstance(target, np.ndarray) or is_cupy(target)):
        raise TypeError(f"target is a {type(target).__name__}; an array is wanted")
    if target.ndim == 0:
        raise ValueError("target has no axes; (m, ...) is wanted")
    if not target.flags.c_contiguous or not getattr(target.flags, "writeable", True):
        raise ValueError("target must be contiguous and writeable")
    if native(target, "target") is not target:
        raise TypeError(f"target has dtype {target.dtype}; native order is wanted")
    device = device_of(target)
    with current(device):
        places, spread = _checked_writes(target, indices, values)
        if device is None:
            return reference.scatter(target, places, spread)
        from . import partition_kernel

        room = contiguous(target)  # a copy where the target is misaligned
        partition_kernel.scatter(
            room,
            _apart(target, _in_range(places).astype(np.int64, copy=False)),
            _apart(target, spread.astype(target.dtype, copy=False)),
            device,
        )
        return target if room is target else written(room, target)


def _checked_writes(target: Array, indices: object, values: object) -> tuple[Any, Any]:
    """Where to write and what, one element each; TypeError, ValueError if unfit."""
    arrays = on_one_device(
        {
            "target": target,
            "indices": beside(target, indices),
            "values": beside(target, values),
        }
    )
    places, given = arrays["indices"], arrays["values"]
    if places.size == 0:
        places = places.astype(np.int64)  # as NumPy does not make of []
    if places.dtype.kind not in "iu":
        raise TypeError(f"indices has dtype {places.dtype}; integers are wanted")
    if places.ndim != 1:
        raise ValueError(f"indices has shape {places.shape}; one axis is wanted")
    if not np.can_cast(given.dtype, target.dtype, "same_kind"):
        raise TypeError(f"values has dtype {given.dtype}; {target.dtype} is wanted")
    wanted = (len(places), *target.shape[1:])
    try:
        return places, namespace(target).broadcast_to(given, wanted)
    except ValueError:
        raise ValueError(
            f"values has shape {given.shape}; one that broadcasts to {wanted} is wanted"
        ) from None


def _apart(target: Array, array: Array) -> Array:
    """`array`, contiguous, and a copy where writing `target` might change it."""
    if namespace(target).may_share_memory(target, array):
        return array.copy()
    return contiguous(array)


def _in_range(indices: Array) -> Array:
    """Unsigned 64-bit indices too large for a signed one must not turn negative."""
    if indices.dtype != np.uint64:
        return indices
    return namespace(indices).minimum(indices, np.uint64(2**63 - 1))


def replicate(n: int, value: npt.ArrayLike, *, like: object = None) -> Array:
    """An array of one value, n times.

    Parameters
    ----------
    n : int
    value : scalar or array_like
        An element; its axes follow that of the n.
    like : array, optional
        Where the result is to live: on the device of this array. By default where
        `value` lives.

    Returns
    -------
    (n, *value.shape) array of the dtype of `value`

    Raises
    ------
    TypeError, ValueError
        If `n` is not an integer, or negative.

    Examples
    --------
    >>> import gpusolve
    >>> gpusolve.replicate(3, 7.0)
    array([7., 7., 7.])
    """
    count = operator.index(n)
    if count < 0:
        raise ValueError(f"n is {count}; it cannot be negative")
    neighbour = as_array(value if like is None else like, "like")
    device = device_of(neighbour)
    if device is None:
        return reference.replicate(count, np.asarray(value))
    with device.current():
        xp = namespace(neighbour)
        element = xp.asarray(value)
        return xp.full((count, *element.shape), element, element.dtype)


def stable_partition(x: object, mask: object) -> tuple[Any, Array]:
    """Bring what is kept to the front and the rest behind it, each in its old order.

    Parameters
    ----------
    x : (n,) array_like
    mask : (n,) array_like of bool, or Map
        What is kept; or a predicate of the elements.

    Returns
    -------
    count : int64 scalar or array
        How many are kept. It lives where `x` does: on a device it is not read back
        until you ask for it.
    y : (n,) array
        ``y[:count]`` are the kept ones, ``y[count:]`` the rest.

    Raises
    ------
    TypeError
        For a mask that is not bool, dtypes that no device has, or arrays on several
        devices.
    ValueError
        For shapes that do not fit.

    Notes
    -----
    Not `numpy.partition`, which selects by size. Every element is read once and written
    once; the mask, or what the predicate is of, is read once more before, to count.

    References
    ----------
    C. Oancea and T. Henriksen, "Basic Blocks of Data-Parallel Programming", 2019:
    "Partition2".

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> even = gpusolve.Map("even", "x % 2 == 0", lambda x: x % 2 == 0, dtype=bool)
    >>> gpusolve.stable_partition(np.array([5, 4, 2, 10, 3, 7, 8]), even)
    (np.int64(4), array([ 4,  2, 10,  8,  5,  3,  7]))
    """
    test = mask if isinstance(mask, Map) else None
    given = as_array(x, "x")
    device = device_of(given)
    with current(device):
        items = native(given, "x")
        if items.ndim != 1:
            raise ValueError(f"x has shape {items.shape}; one axis is wanted")
        if test is None:
            kept = _checked_mask(mask, items)
        else:
            _check_predicate(test, items)
        if device is None:
            answers = test.apply(items) if test else kept
            count, y = reference.stable_partition(items, answers)
            return count[()], y
        from . import partition_kernel

        items = contiguous(items)
        tested = items if test else contiguous(kept)
        count, y = partition_kernel.stable_partition(items, tested, test, device)
        return count[()], y


def _check_predicate(test: Map, items: Array) -> None:
    dtype = test.dtype_of(items.dtype)
    if dtype.kind != "b" or not isinstance(test.cuda, str):
        raise TypeError(f"{test.name} gives {dtype}; one bool is wanted")


def _checked_mask(mask: object, items: Array) -> Array:
    """The mask beside the items; TypeError, ValueError if it does not fit."""
    arrays = on_one_device({"x": items, "mask": beside(items, mask)})
    kept = arrays["mask"]
    if kept.dtype != bool and kept.size:
        raise TypeError(f"mask has dtype {kept.dtype}; bool is wanted")
    if kept.shape != items.shape:
        raise ValueError(f"mask has shape {kept.shape}; {items.shape} is wanted")
    return kept.astype(bool, copy=False)
