"""Segments given by their lengths: flags and reductions."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import numpy.typing as npt

from .. import reference
from .._device.arrays import Array, OnDevice, as_array
from .._device.kernels import Device, current, device_of
from ..monoid import Monoid, OperatorName
from . import segments_kernel
from .inputs import check_offsets, integers, length, segmented_reduce_inputs


@overload
def segment_flags(lengths: OnDevice, *, total: int | None = None) -> Any: ...
@overload
def segment_flags(
    lengths: npt.ArrayLike, *, total: int | None = None
) -> npt.NDArray[np.bool_]: ...
def segment_flags(lengths: object, *, total: int | None = None) -> Array:
    """Mark the first element of each segment.

    Parameters
    ----------
    lengths : (m,) array_like of int
        Lengths of the segments. Empty segments are allowed; they get no flag.
    total : int, optional
        The sum of the lengths. If it is given, no number is read from a device, and
        elements beyond it are ignored.

    Returns
    -------
    (total,) bool array

    Raises
    ------
    TypeError
        If the lengths or `total` are not integers.
    ValueError
        If the lengths do not have one axis, or if a length or `total` is negative.

    See Also
    --------
    segmented_scan, segmented_reduce, replicate

    Notes
    -----
    Negative lengths are detected only if `total` is not given.

    References
    ----------
    C. Oancea and T. Henriksen, "Basic Blocks of Data-Parallel Programming", 2019:
    "Computing Flag Array from Shape Array" (mkFlagArray).

    Examples
    --------
    >>> import gpusolve
    >>> gpusolve.segment_flags([0, 3, 1, 0, 4, 2, 0]).astype(int)
    array([1, 0, 0, 1, 1, 0, 0, 0, 1, 0])
    """
    array = as_array(lengths, "lengths")
    device = device_of(array)
    with current(device):
        array = integers(array, "lengths")
        count = _total(array) if total is None else length(total, "total")
        if device is None:
            return reference.segment_flags(array, total=count)
        return segments_kernel.segment_flags(array, count, device)


def _total(lengths: Array) -> int:
    """The sum of the lengths; ValueError if a length is negative."""
    least = int(lengths.min()) if lengths.size else 0
    if least < 0:
        raise ValueError(f"lengths must not be negative, got {least}")
    return int(lengths.sum())


@overload
def segmented_reduce(
    x: OnDevice,
    lengths: object = None,
    op: OperatorName | Monoid = "add",
    *,
    offsets: object = None,
) -> Any: ...
@overload
def segmented_reduce(
    x: npt.ArrayLike,
    lengths: npt.ArrayLike | None = None,
    op: OperatorName | Monoid = "add",
    *,
    offsets: npt.ArrayLike | None = None,
) -> npt.NDArray[Any]: ...
def segmented_reduce(
    x: object,
    lengths: object = None,
    op: str | Monoid = "add",
    *,
    offsets: object = None,
) -> Array:
    """Reduce each segment of an array.

    Parameters
    ----------
    x : (n, *element) array_like
        The segments in order.
    lengths : (m,) array_like of int
        Their lengths, with the sum n. Empty segments are allowed.
    op : str or Monoid, optional
        As for `reduce`. It need not commute.
    offsets : (m + 1,) array_like of int, optional
        Instead of the lengths: where each segment begins, and n at the end, like
        `indptr` of a CSR matrix.

    Returns
    -------
    (m, *element) array
        On the device of `x`. The identity for an empty segment.

    Raises
    ------
    TypeError
        For unsupported dtypes, or arrays on different devices.
    ValueError
        If both or neither of `lengths` and `offsets` are given, or they do not divide
        `x` into segments.

    See Also
    --------
    segmented_scan

    Notes
    -----
    On a device, segments are divided into parts of equal work, whatever their lengths
    are. The order of the operations depends on the lengths alone: every run gives the
    same bits. One number is read from a device to check the lengths.

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> gpusolve.segmented_reduce(np.array([5, 1, 2, 8, 1, 1]), [3, 0, 2, 1], "max")
    array([                   5, -9223372036854775808,                    8,
                              1])
    >>> gpusolve.segmented_reduce(np.array([5, 1, 2, 8, 1, 1]), offsets=[0, 3, 3, 6])
    array([ 8,  0, 10])
    """
    if (lengths is None) == (offsets is None):
        raise ValueError("exactly one of lengths and offsets must be given")
    name, bounds = ("offsets", offsets) if lengths is None else ("lengths", lengths)
    array = as_array(x, "x")
    device = device_of(array)
    with current(device):
        given, marks = segmented_reduce_inputs(array, op, bounds, name)
        if name == "lengths":
            marks = _offsets_of(marks, device)
        check_offsets(marks, len(given.x), name)
        if device is None:
            return reference.segmented_reduce(given.x, marks, given.monoid)
        return segments_kernel.segmented_reduce(given.x, marks, given.monoid, device)


def _offsets_of(lengths: Array, device: Device | None) -> Array:
    """(m + 1,) offsets of segments of these lengths."""
    if device is None:
        return np.append(0, np.cumsum(lengths))
    return segments_kernel.offsets_of(lengths, device)
