"""Scans: the reductions of all prefixes, of rows or of segments."""

from __future__ import annotations

from typing import Any, Literal, get_args, overload

import numpy.typing as npt

from .. import reference
from .._device.arrays import Array, OnDevice, written
from .._device.kernels import current, device_of
from ..monoid import Map, Monoid, OperatorName
from . import scan_kernel
from .inputs import (
    arrays_of,
    check_variant,
    scan_inputs,
    segmented_scan_inputs,
)

Variant = Literal["auto", "look_back", "hierarchical", "sweep", "warp"]
SegmentedVariant = Literal["auto", "look_back", "sweep"]

VARIANTS = get_args(Variant)[1:]
SEGMENTED_VARIANTS = get_args(SegmentedVariant)[1:]


@overload
def scan(
    x: OnDevice,
    op: OperatorName | Monoid = "add",
    *,
    exclusive: bool = False,
    axis: int = -1,
    map: Map | None = None,
    variant: Variant = "auto",
    out: Array | None = None,
) -> Any: ...
@overload
def scan(
    x: npt.ArrayLike,
    op: OperatorName | Monoid = "add",
    *,
    exclusive: bool = False,
    axis: int = -1,
    map: Map | None = None,
    variant: Variant = "auto",
    out: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]: ...
def scan(
    x: object,
    op: str | Monoid = "add",
    *,
    exclusive: bool = False,
    axis: int = -1,
    map: Map | None = None,
    variant: str = "auto",
    out: Array | None = None,
) -> Array:
    """Combine all elements up to each element by an associative operator.

    The inclusive scan is ``[x0, x0 op x1, x0 op x1 op x2, ...]``; the exclusive scan
    ``[identity, x0, x0 op x1, ...]``.

    Parameters
    ----------
    x : (..., n, ..., *element) array_like
        Elements of the monoid: numbers for all built-in monoids except ``"mssp"``. If
        `map` is given, numbers, or a sequence of arrays, as for `reduce`.
    op : str or Monoid, optional
        As for `reduce`. It need not commute.
    exclusive : bool, optional
        Whether each result excludes its own element.
    axis : int, optional
        Among the axes before the axes of an element. Default: the last of these axes.
    map : Map, optional
        Applied to each number as it is read, as for `reduce`.
    variant : {"auto", "look_back", "hierarchical", "sweep", "warp"}, optional
        The algorithm on a device. "look_back" reads and writes each element once;
        "auto" is "look_back". The others are simpler, deterministic and slower: "warp"
        scans 32 elements at a time, and then their totals the same way; "sweep" is the
        up-sweep and down-sweep over a binary tree; "hierarchical" scans chunks, then
        their totals. A CPU uses one algorithm for all.
    out : array, optional
        The array for the result; it may be `x` itself.

    Returns
    -------
    array of the shape of the elements
        On the device of `x`, of its dtype or the monoid's; integers wrap.

    Raises
    ------
    TypeError
        For a dtype that the monoid does not accept, or an `out` on another device or of
        another dtype.
    ValueError
        For an unknown name, an invalid axis, a shape of `x` that does not end with that
        of an element, or an `out` of another shape.

    See Also
    --------
    segmented_scan, reduce

    Notes
    -----
    Work O(n), depth O(log n). On a device "look_back" combines the same elements in the
    same order in every run, but groups them differently, so the last bits of
    floating-point sums differ from run to run. The other variants return the same bits
    on the same device in every run. For integers, "min", "max" and logical operators,
    all variants agree exactly. A scan along an axis other than the last axis makes a
    contiguous copy first.

    A scan stays on one device: each part needs the prefix of all parts before it, and
    the data passes through memory in less time than through a network or PCIe.

    References
    ----------
    .. [1] C. Oancea and T. Henriksen, "Basic Blocks of Data-Parallel Programming",
       2019.
    .. [2] D. Merrill and M. Garland, "Single-pass Parallel Prefix Scan with Decoupled
       Look-back", NVIDIA Technical Report NVR-2016-002, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> gpusolve.scan(np.array([3, 1, 7, 0, 4]))
    array([ 3,  4, 11, 11, 15])
    >>> gpusolve.scan(np.array([3, 1, 7, 0, 4]), "max", exclusive=True)[1:]
    array([3, 3, 7, 7])
    """
    check_variant(variant, VARIANTS)
    arrays = arrays_of(x, map)
    device = device_of(arrays[0])
    with current(device):
        given = scan_inputs(arrays, op, axis, map, out)
        if device is None:
            (axis,), monoid = given.axes, given.monoid
            elements = given.mapped()
            result = reference.scan(elements, monoid, exclusive=exclusive, axis=axis)
            return written(result, out)
        if variant in ("auto", "look_back"):
            return scan_kernel.scan(given, device, out, exclusive=exclusive)
        from ..studies import _scan_textbook_kernel as textbook

        return textbook.scan(given, device, out, variant, exclusive=exclusive)


@overload
def segmented_scan(
    x: OnDevice,
    flags: object,
    op: OperatorName | Monoid = "add",
    *,
    exclusive: bool = False,
    map: Map | None = None,
    packed: bool = False,
    variant: SegmentedVariant = "auto",
    out: Array | None = None,
) -> Any: ...
@overload
def segmented_scan(
    x: npt.ArrayLike,
    flags: npt.ArrayLike,
    op: OperatorName | Monoid = "add",
    *,
    exclusive: bool = False,
    map: Map | None = None,
    packed: bool = False,
    variant: SegmentedVariant = "auto",
    out: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any]: ...
def segmented_scan(
    x: object,
    flags: object,
    op: str | Monoid = "add",
    *,
    exclusive: bool = False,
    map: Map | None = None,
    packed: bool = False,
    variant: str = "auto",
    out: Array | None = None,
) -> Array:
    """Scan each segment of an array.

    Parameters
    ----------
    x : (..., n, *element) array_like
        The segments in order. Every row of `x` begins a new segment. If
        `map` is given, numbers, or a sequence of arrays, as for `reduce`.
    flags : (..., n) array_like of bool or int
        Nonzero where a segment begins. Broadcasts to the shape of the elements.
    op : str or Monoid, optional
        As for `reduce`. It need not commute.
    exclusive : bool, optional
        Whether each result excludes its own element. The first result of a segment is
        then the identity.
    map : Map, optional
        Applied to each number as it is read, as for `reduce`.
    packed : bool, optional
        Whether the flags are bits, as from
        ``numpy.packbits(flags, axis=-1, bitorder="little")``: uint8 of shape
        ``(..., ceil(n / 8))``.
    variant : {"auto", "look_back", "sweep"}, optional
        The algorithm on a device, as for `scan`.
    out : array, optional
        The array for the result; it may be `x` itself.

    Returns
    -------
    array of the shape of the elements
        On the device of `x`, of its dtype or the monoid's; integers wrap.

    Raises
    ------
    TypeError
        For unsupported dtypes, or arrays on different devices.
    ValueError
        For an unknown name or variant, or shapes that do not match.

    See Also
    --------
    scan, segmented_reduce, segment_flags

    Notes
    -----
    A scan with the lifted monoid ``(f, a) op (g, b) = (f or g, b if g else a op b)``.
    The cost does not depend on the lengths of the segments. The notes on determinism at
    `scan` apply here too. Flags of other dtypes are converted to bool first; on a
    device, flags that broadcast are copied.

    References
    ----------
    C. Oancea and T. Henriksen, "Basic Blocks of Data-Parallel Programming", 2019:
    "Segmented Inclusive Scan is a Sort of Scan", "Segmented Exclusive Scan Algorithm".

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> flags = np.array([1, 0, 0, 1, 0, 0, 0, 0, 1, 0])
    >>> gpusolve.segmented_scan(np.arange(1, 11), flags)
    array([ 1,  3,  6,  4,  9, 15, 22, 30,  9, 19])
    """
    check_variant(variant, SEGMENTED_VARIANTS)
    arrays = arrays_of(x, map)
    device = device_of(arrays[0])
    with current(device):
        given, segments = segmented_scan_inputs(arrays, flags, op, map, packed, out)
        if device is None:
            starts = segments.unpacked(given.shape[-1]).values
            result = reference.segmented_scan(
                given.mapped(), starts, given.monoid, exclusive=exclusive
            )
            return written(result, out)
        if variant in ("auto", "look_back"):
            return scan_kernel.segmented_scan(
                given, segments, device, out, exclusive=exclusive
            )
        from ..studies import _scan_textbook_kernel as textbook

        return textbook.segmented_scan(
            given, segments, device, out, exclusive=exclusive
        )
