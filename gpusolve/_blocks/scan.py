"""Scans: the reductions of all prefixes, of rows or of segments."""

from __future__ import annotations

import math

import numpy as np

from .. import reference
from .._device.arrays import (
    Array,
    aligned,
    as_array,
    beside,
    check_out,
    contiguous,
    namespace,
    on_one_device,
    written,
)
from .._device.kernels import Device, current, device_of
from ..monoid import Monoid, as_monoid
from .inputs import as_rows, check_variant, elements, one_axis

VARIANTS = ("look_back", "hierarchical", "sweep", "warp")


def scan(
    x: object,
    op: str | Monoid = "add",
    *,
    exclusive: bool = False,
    axis: int = -1,
    variant: str = "auto",
    out: Array | None = None,
) -> Array:
    """Combine the elements up to each one, by an associative operator.

    The inclusive scan is ``[x0, x0 op x1, x0 op x1 op x2, ...]``; the exclusive one
    ``[identity, x0, x0 op x1, ...]``.

    Parameters
    ----------
    x : (..., n, ..., *element) array_like
        Elements of the monoid, which are numbers for all built-in ones but ``"mssp"``.
    op : str or Monoid, optional
        As for `reduce`. It need not commute.
    exclusive : bool, optional
    axis : int, optional
        Among those before an element's own. The last of them by default.
    variant : {"auto", "look_back", "hierarchical", "sweep", "warp"}, optional
        How a device does it. "look_back" reads and writes each element once, and is
        "auto". The others are the steps that lead there, deterministic and slower:
        "warp" scans 32 elements in one sweep and then the totals in the same way;
        "sweep" is the up-sweep and down-sweep over a binary tree; "hierarchical" scans
        chunks, then their totals. A CPU has one way for all.
    out : array, optional
        Where to write; it may be `x` itself.

    Returns
    -------
    array of the shape of `x`
        Of its dtype, or the monoid's; integers wrap. It lives where `x` does.

    Raises
    ------
    TypeError
        For a dtype that the monoid does not take, or an `out` on another device or of
        another dtype.
    ValueError
        For an unknown name, an axis or an element's shape that `x` does not have, or an
        `out` of another shape.

    See Also
    --------
    segmented_scan, reduce

    Notes
    -----
    Work O(n), depth O(log n). On a device "look_back" combines the same elements in the
    same order in every run, but groups them differently from run to run, so that the
    last bits of sums of floats differ; the other variants give the same bits on the
    same device in every run. For integers, min, max and logical operators all agree
    exactly. A scan along an axis that is not the last makes a contiguous copy first.

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
    monoid = as_monoid(op)
    array = as_array(x, "x")
    device = device_of(array)
    with current(device):
        array = elements(array, monoid)
        check_variant(variant, VARIANTS)
        leading = array.ndim - len(monoid.element_shape)
        along = one_axis(axis, leading)
        check_out(out, array, "x", monoid.dtype_of(array.dtype), array.shape)
        if device is None:
            result = reference.scan(array, monoid, exclusive=exclusive, axis=along)
            return written(result, out)
        from . import scan_kernel, scan_textbook_kernel

        rows = as_rows(array, (along,), leading)
        place = _place(out, array, rows) if along == leading - 1 else None
        y = _room(device, rows, monoid) if place is None else place
        if variant in ("auto", "look_back"):
            scan_kernel.scan(rows, monoid, y, device, exclusive=exclusive)
        else:
            scan_textbook_kernel.scan(
                rows, monoid, y, device, variant=variant, exclusive=exclusive
            )
        if place is not None:
            return out
        others = (array.shape[k] for k in range(leading) if k != along)
        y = y.reshape(*others, array.shape[along], *monoid.element_shape)
        return written(namespace(y).moveaxis(y, leading - 1, along), out)


def segmented_scan(
    x: object,
    flags: object,
    op: str | Monoid = "add",
    *,
    exclusive: bool = False,
    packed: bool = False,
    out: Array | None = None,
) -> Array:
    """Scan each segment of an array by itself.

    Parameters
    ----------
    x : (..., n, *element) array_like
        The rows of an irregular matrix, one behind the other. Every row of `x` begins
        a segment of its own.
    flags : (..., n) array_like of bool or int
        Not zero where a segment begins. Its shape broadcasts to that of the elements.
    op : str or Monoid, optional
        As for `reduce`. It need not commute.
    exclusive : bool, optional
        Each segment then starts with the identity.
    packed : bool, optional
        The flags are bits, as ``numpy.packbits(flags, axis=-1, bitorder="little")``
        makes them: uint8 of shape ``(..., ceil(n / 8))``.
    out : array, optional
        Where to write; it may be `x` itself.

    Returns
    -------
    array of the shape of `x`
        Of its dtype, or the monoid's; integers wrap. It lives where `x` does.

    Raises
    ------
    TypeError
        For dtypes that do not fit, or arrays on several devices.
    ValueError
        For an unknown name, or shapes that do not fit.

    See Also
    --------
    scan, segmented_reduce, segment_flags

    Notes
    -----
    A scan with the lifted monoid ``(f, a) op (g, b) = (f or g, b if g else a op b)``.
    The cost does not hang on where segments begin: one of n elements and n of one cost
    the same. What is said of determinism at `scan` holds here too. Flags that are not
    of one byte are made so first; on a device those that broadcast are copied.

    References
    ----------
    C. Oancea and T. Henriksen, "Basic Blocks of Data-Parallel Programming", 2019:
    "Segmented Inclusive Scan is a Sort of Scan".

    Examples
    --------
    >>> import numpy as np
    >>> import gpusolve
    >>> flags = np.array([1, 0, 0, 1, 0, 0, 0, 0, 1, 0])
    >>> gpusolve.segmented_scan(np.arange(1, 11), flags)
    array([ 1,  3,  6,  4,  9, 15, 22, 30,  9, 19])
    """
    monoid = as_monoid(op)
    array = as_array(x, "x")
    device = device_of(array)
    with current(device):
        array = elements(array, monoid)
        arrays = on_one_device({"x": array, "flags": beside(array, flags)})
        leading = array.ndim - len(monoid.element_shape)
        shape = array.shape[:leading]
        if not shape:
            raise ValueError("x has no axes of elements; (..., n, *element) is wanted")
        heads = _heads(arrays["flags"], shape, packed)
        check_out(out, array, "x", monoid.dtype_of(array.dtype), array.shape)
        if packed and (device is None or not _bits_run_on(shape)):
            heads, packed = _unpacked(heads, shape[-1]), False
        if device is None:
            result = reference.segmented_scan(array, heads, monoid, exclusive=exclusive)
            return written(result, out)
        from . import scan_kernel

        rows = as_rows(array, (leading - 1,), leading)
        place = _place(out, array, rows)
        y = _room(device, rows, monoid) if place is None else place
        scan_kernel.scan(
            rows,
            monoid,
            y,
            device,
            exclusive=exclusive,
            flags=contiguous(heads).view(np.uint8),
            packed=packed,
        )
        if place is not None:
            return out
        return written(y.reshape(shape + monoid.element_shape), out)


def _heads(flags: Array, shape: tuple[int, ...], packed: bool) -> Array:
    """The flags, as bool or as packed bits, of the shape of the elements."""
    if packed:
        if flags.dtype != np.uint8:
            raise TypeError(f"flags has dtype {flags.dtype}; packed flags are uint8")
        wanted = (*shape[:-1], -(-shape[-1] // 8))
    else:
        if flags.dtype.kind not in "biu":
            raise TypeError(f"flags has dtype {flags.dtype}; bool or int is wanted")
        flags = flags if flags.dtype == bool else flags != 0
        wanted = shape
    try:
        return namespace(flags).broadcast_to(flags, wanted)
    except ValueError:
        raise ValueError(
            f"flags has shape {flags.shape}; {wanted} is wanted for elements of shape "
            f"{shape}"
        ) from None


def _bits_run_on(shape: tuple[int, ...]) -> bool:
    """Whether the packed flags of all rows are one run of bits, without gaps."""
    return shape[-1] % 8 == 0 or math.prod(shape[:-1]) == 1


def _unpacked(bits: Array, n: int) -> Array:
    """(..., ceil(n / 8)) bytes of bits to (..., n) flags."""
    xp = namespace(bits)
    flat = xp.unpackbits(xp.ascontiguousarray(bits).reshape(-1), bitorder="little")
    return flat.reshape(*bits.shape[:-1], 8 * bits.shape[-1])[..., :n].view(bool)


def _place(out: Array | None, x: Array, rows: Array) -> Array | None:
    """`out` as rows that a kernel can write to; None where that cannot be.

    A tile is written while others are still to be read: `out` may be `x` itself, but
    may not overlap it otherwise.
    """
    if out is None or not (out.flags.c_contiguous and aligned(out)):
        return None
    if out is not x and namespace(x).may_share_memory(out, rows):
        return None
    return out.reshape(rows.shape)


def _room(device: Device, rows: Array, monoid: Monoid) -> Array:
    """Room for the scan of the rows."""
    return device.empty(rows.shape, monoid.dtype_of(rows.dtype))
