"""Segments by their lengths: their flags, their reductions."""

from __future__ import annotations

import numpy as np

from .. import reference
from .._device.arrays import Array, as_array, beside, namespace, on_one_device
from .._device.kernels import current, device_of
from ..monoid import Monoid, as_monoid
from .inputs import elements
from .partition import replicate, scatter
from .scan import scan, segmented_scan


def segment_flags(lengths: object, *, total: int | None = None) -> Array:
    """The flags of segments of these lengths: where each begins.

    Parameters
    ----------
    lengths : (m,) array_like of int
        Empty segments may be anywhere; they have no flag.
    total : int, optional
        The sum of the lengths. Where it is given, nothing is read back from a device,
        and what lies beyond it is left out.

    Returns
    -------
    (total,) bool array

    Raises
    ------
    TypeError
        If the lengths are not integers.
    ValueError
        If they are not in one row, or one is negative.

    Notes
    -----
    Negative lengths are looked for only where `total` is not given.

    References
    ----------
    C. Oancea and T. Henriksen, "Basic Blocks of Data-Parallel Programming", 2019:
    "Computing Flag Array from Shape Array".

    Examples
    --------
    >>> import gpusolve
    >>> gpusolve.segment_flags([0, 3, 1, 0, 4, 2, 0]).astype(int)
    array([1, 0, 0, 1, 1, 0, 0, 0, 1, 0])
    """
    given = as_array(lengths, "lengths")
    device = device_of(given)
    with current(device):
        array = _integers(given, "lengths")
        if total is None:
            least = int(array.min()) if array.size else 0
            if least < 0:
                raise ValueError(f"lengths has {least}; none may be negative")
            total = int(array.sum())
        if device is None:
            return reference.segment_flags(array, total=total)
        starts = scan(array, exclusive=True)
        return _flags_at(namespace(array).where(array == 0, -1, starts), total)


def _flags_at(starts: Array, total: int) -> Array:
    """(total,) flags, set at these places."""
    ones = namespace(starts).ones(len(starts), bool)
    return scatter(replicate(total, np.False_, like=starts), starts, ones)


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
        The segments, one behind the other.
    lengths : (m,) array_like of int
        Their lengths, with the sum n. Any may be 0.
    op : str or Monoid, optional
        As for `reduce`. It need not commute.
    offsets : (m + 1,) array_like of int, optional
        In place of the lengths where each segment begins, and n at the end; as `indptr`
        of a CSR matrix.

    Returns
    -------
    (m, *element) array
        The identity for an empty segment. It lives where `x` does.

    Raises
    ------
    TypeError
        For dtypes that do not fit, or arrays on several devices.
    ValueError
        If both or neither of `lengths` and `offsets` are given, or they are not those
        of segments of `x`.

    See Also
    --------
    segmented_scan

    Notes
    -----
    The last elements of a segmented scan. To check the lengths, one number is read back
    from a device.

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
    monoid = as_monoid(op)
    if (lengths is None) == (offsets is None):
        raise ValueError("either lengths or offsets are wanted")
    name = "lengths" if offsets is None else "offsets"
    given = lengths if offsets is None else offsets
    array = as_array(x, "x")
    device = device_of(array)
    with current(device):
        array = elements(array, monoid)
        arrays = on_one_device({"x": array, name: beside(array, given)})
        if array.ndim != 1 + len(monoid.element_shape):
            raise ValueError(f"x has shape {array.shape}; (n, *element) is wanted")
        bounds = _integers(arrays[name], name)
        if name == "lengths":
            zero = namespace(bounds).zeros(1, np.int64)
            bounds = scan(namespace(bounds).concatenate([bounds, zero]), exclusive=True)
        _check_offsets(bounds, len(array), name)
        if device is None:
            return reference.segmented_reduce(array, bounds, monoid)
        return _reduce_on_device(array, bounds, monoid)


def _reduce_on_device(x: Array, offsets: Array, monoid: Monoid) -> Array:
    xp = namespace(x)
    dtype = monoid.dtype_of(x.dtype)
    identity = xp.asarray(monoid.identity_of(dtype))
    starts, ends = offsets[:-1], offsets[1:]
    if len(x) == 0 or len(starts) == 0:
        shape = (len(starts), *monoid.element_shape)
        return xp.full(shape, identity, dtype)
    empty = starts == ends
    flags = _flags_at(xp.where(empty, -1, starts), len(x))
    last = segmented_scan(x, flags, monoid)[xp.maximum(ends - 1, 0)]
    empty = empty.reshape(-1, *(1,) * len(monoid.element_shape))
    return xp.where(empty, identity, last)


def _integers(array: Array, name: str) -> Array:
    """(m,) int64."""
    empty = array.size == 0 and array.dtype == np.float64  # as NumPy makes of []
    if array.dtype.kind not in "iu" and not empty:
        raise TypeError(f"{name} has dtype {array.dtype}; integers are wanted")
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; one axis is wanted")
    return array.astype(np.int64, copy=False)


def _check_offsets(offsets: Array, n: int, name: str) -> None:
    xp = namespace(offsets)
    if len(offsets) == 0:
        raise ValueError("offsets is empty; at least [0] is wanted")
    least = xp.diff(offsets, append=offsets[-1:]).min()
    if bool((least >= 0) & (offsets[0] == 0) & (offsets[-1] == n)):
        return
    if least < 0:
        raise ValueError(
            f"{name} has a segment of length {int(least)}; none may be negative"
        )
    if name == "lengths":
        raise ValueError(f"lengths sum to {int(offsets[-1])}; x has {n} elements")
    raise ValueError(
        f"offsets goes from {int(offsets[0])} to {int(offsets[-1])}; 0 to {n}, the "
        "elements of x, is wanted"
    )
