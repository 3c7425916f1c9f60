"""Parallel writes: scatter, replicate, and the stable partition."""

from __future__ import annotations

from typing import Any, Literal, get_args, overload

import numpy as np
import numpy.typing as npt

from .. import reference
from .._device.arrays import (
    Array,
    ArrayT,
    CudaArray,
    OnDevice,
    as_array,
    namespace,
    unwrapped,
)
from .._device.kernels import current, device_of
from ..monoid import Map
from . import partition_kernel, scatter_kernel
from .inputs import (
    check_target,
    check_variant,
    length,
    scatter_inputs,
    stable_partition_inputs,
)

Variant = Literal["auto", "tiles", "two_scans"]

VARIANTS = get_args(Variant)[1:]


def scatter(target: ArrayT, indices: object, values: object) -> ArrayT:
    """Write values at indices, in place: ``target[indices] = values``.

    Parameters
    ----------
    target : (m, ...) array
        Changed in place. It must be contiguous.
    indices : (n,) array_like of int
        Indices that are negative, or not less than m, are ignored.
    values : (n, ...) array_like
        Broadcast to n elements of `target`, and converted to its dtype, which must be
        of the same kind or a higher kind.

    Returns
    -------
    array
        `target`.

    Raises
    ------
    TypeError
        If `target` is not an array, the indices are not integers, or a dtype cannot be
        converted.
    ValueError
        If shapes do not match, or `target` is not contiguous or is read-only.

    See Also
    --------
    stable_partition, replicate

    Notes
    -----
    Work O(n), not O(m); depth O(1). Of equal indices, the last value is written on a
    CPU, and any of the values on a device. Unlike `numpy.put`, negative indices do not
    count from the end; unlike `cupyx.scatter_add`, nothing is added.

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
    check_target(target)
    array: Array = target
    device = device_of(array)
    with current(device):
        places, spread = scatter_inputs(array, indices, values)
        if device is None:
            reference.scatter(array, places, spread)
        else:
            scatter_kernel.scatter_into(array, places, spread, device)
    return target


@overload
def replicate(n: int, value: object, *, like: CudaArray) -> Any: ...
@overload
def replicate(n: int, value: CudaArray, *, like: object = None) -> Any: ...
@overload
def replicate(
    n: int, value: npt.ArrayLike, *, like: npt.ArrayLike | None = None
) -> npt.NDArray[Any]: ...
def replicate(n: int, value: Any, *, like: object = None) -> Array:
    """Repeat a value n times.

    Parameters
    ----------
    n : int
    value : scalar or array_like
        An element; its axes follow the axis of length n.
    like : array, optional
        The result is allocated on the device of this array. Default: on the device of
        `value`.

    Returns
    -------
    (n, *value.shape) array of the dtype of `value`

    Raises
    ------
    TypeError, ValueError
        If `n` is not an integer, or negative.

    See Also
    --------
    segment_flags, segmented_scan, scatter

    Examples
    --------
    >>> import gpusolve
    >>> gpusolve.replicate(3, 7.0)
    array([7., 7., 7.])
    """
    count = length(n, "n")
    neighbour = as_array(value if like is None else like, "like")
    device = device_of(neighbour)
    if device is None:
        return reference.replicate(count, np.asarray(value))
    with device.current():
        xp = namespace(neighbour)
        element = xp.asarray(value)
        return xp.full((count, *element.shape), element, element.dtype)


@overload
def stable_partition(
    x: OnDevice, mask: object, *, variant: Variant = "auto"
) -> tuple[Any, Any]: ...
@overload
def stable_partition(
    x: npt.ArrayLike, mask: npt.ArrayLike | Map, *, variant: Variant = "auto"
) -> tuple[np.int64, npt.NDArray[Any]]: ...
def stable_partition(
    x: object, mask: object, *, variant: str = "auto"
) -> tuple[Any, Array]:
    """Move the elements that are kept to the front and the others behind them.

    Both groups keep their order.

    Parameters
    ----------
    x : (n,) array_like
    mask : (n,) array_like of bool, or Map
        The elements to keep; or a predicate of the elements.
    variant : {"auto", "tiles", "two_scans"}, optional
        The algorithm on a device. "tiles" counts the kept elements of each tile, scans
        the counts, and moves each element once. "two_scans" is the slides' partition2:
        it scans a number for each element twice, and scatters. "auto" is "tiles". A CPU
        uses one algorithm for both.

    Returns
    -------
    count : int64 scalar or array
        The number of kept elements, on the device of `x`. It is not read from the
        device.
    y : (n,) array
        ``y[:count]`` are the kept elements, ``y[count:]`` the others.

    Raises
    ------
    TypeError
        For a mask that is not bool, unsupported dtypes, or arrays on different devices.
    ValueError
        For shapes that do not match, or an unknown variant.

    See Also
    --------
    scatter, scan

    Notes
    -----
    `numpy.partition` is a different operation: it selects by size. In "tiles" every
    element is read once and written once. The mask, or the input of the predicate, is
    read once more before, to count.

    References
    ----------
    C. Oancea and T. Henriksen, "Basic Blocks of Data-Parallel Programming", 2019:
    "Partition2" (partition2).

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> even = gpusolve.Map("even", "x % 2 == 0", lambda x: x % 2 == 0, dtype=bool)
    >>> gpusolve.stable_partition(np.array([5, 4, 2, 10, 3, 7, 8]), even)
    (np.int64(4), array([ 4,  2, 10,  8,  5,  3,  7]))
    """
    check_variant(variant, VARIANTS)
    array = as_array(x, "x")
    device = device_of(array)
    with current(device):
        array, test = stable_partition_inputs(array, mask)
        if device is None:
            kept = test.apply(array) if isinstance(test, Map) else test
            count, y = reference.stable_partition(array, kept)
        elif variant == "two_scans":
            count, y = partition_kernel.partition_by_two_scans(array, test, device)
        else:
            count, y = partition_kernel.stable_partition(array, test, device)
        return unwrapped(count), y
