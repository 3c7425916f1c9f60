"""Scan: every prefix combined, of a row or of each segment of a row.

``scan : (a -> a -> a) -> a -> [n]a -> [n]a``, for an associative operator and its
identity. A *segmented* scan restarts wherever a flag is set. It is a scan of pairs of a
flag and a value, with the operator ::

    (f, a) op (g, b) = (f or g, b if g else a op b)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..monoid import Monoid, as_monoid, ufunc_of
from ._reduce import converted

Array = NDArray[Any]
Flags = NDArray[np.bool_]


def combine_within(a: Array, b: Array, starts: Flags, op: Monoid) -> Array:
    """``a op b`` where `b` continues the segment of `a`, else `b`."""
    return np.where(starts, b, op.combine(a, b))


def scan_pairs(x: Array, flags: Flags, op: Monoid) -> Array:
    """Combine neighbours in pairs, scan the pairs, and fill in the other prefixes.

    Work n and depth log n for segments of any length: each level has half the elements
    of the level before.

    Parameters
    ----------
    x : (n, ..., *element) array
    flags : (n, ...) array of bool
        True where a segment starts. Broadcasts against `x`, but not along n.

    Returns
    -------
    (n, ..., *element) array
    """
    prefixes = np.empty_like(x)
    prefixes[:1] = x[:1]
    if len(x) > 1:
        pairs = combine_within(x[:-1:2], x[1::2], flags[1::2], op)
        starts = flags[:-1:2] | flags[1::2]
        prefixes[1::2] = scan_pairs(pairs, starts, op)
        prefixes[2::2] = combine_within(prefixes[1:-1:2], x[2::2], flags[2::2], op)
    return prefixes


def accumulate(x: Array, op: Monoid) -> Array:
    """Inclusive scan along the first axis."""
    ufunc = ufunc_of(op, x.dtype)
    if ufunc is None:
        one_segment = np.zeros((len(x),) + (1,) * (x.ndim - 1), bool)
        return scan_pairs(x, one_segment, op)
    with np.errstate(over="ignore", invalid="ignore"):
        return ufunc.accumulate(x, axis=0, dtype=x.dtype, out=np.empty_like(x))


def shift(prefixes: Array, identity: Array) -> Array:
    """Shift the prefixes by 1 along the first axis; the identity comes first."""
    shifted = np.empty_like(prefixes)
    shifted[:1] = identity
    shifted[1:] = prefixes[:-1]
    return shifted


def scan(
    x: Array, op: str | Monoid = "add", *, exclusive: bool = False, axis: int = -1
) -> Array:
    """Combine every prefix along an axis.

    Parameters
    ----------
    x : (..., n, ..., *element) array
    op : str or Monoid
    exclusive : bool
        Whether a prefix ends before its element. The first prefix is then empty, and
        the result is the identity.
    axis : int
        The axis to scan, not counting the axes of an element.

    Returns
    -------
    (..., n, ..., *element) array

    See Also
    --------
    gpusolve.scan

    Examples
    --------
    >>> import numpy as np
    >>> scan(np.array([3, 1, 4, 1, 5]))
    array([ 3,  4,  8,  9, 14])
    >>> scan(np.array([3, 1, 4, 1, 5]), exclusive=True)
    array([0, 3, 4, 8, 9])
    """
    op = as_monoid(op)
    axis = range(x.ndim - len(op.element_shape))[axis]
    x = converted(x, op).swapaxes(axis, 0)
    prefixes = accumulate(x, op)
    if exclusive:
        prefixes = shift(prefixes, op.identity_of(x.dtype))
    return prefixes.swapaxes(axis, 0)


def segmented_scan(
    x: Array,
    flags: NDArray[Any],
    op: str | Monoid = "add",
    *,
    exclusive: bool = False,
) -> Array:
    """Combine every prefix of every segment.

    Parameters
    ----------
    x : (..., n, *element) array
        Rows of segments. The first segment of a row starts at the first element.
    flags : (..., n) array, or an array that broadcasts to it
        Nonzero where a segment starts.
    op : str or Monoid
    exclusive : bool
        Whether a prefix ends before its element. The first result of a segment is then
        the identity.

    Returns
    -------
    (..., n, *element) array

    See Also
    --------
    gpusolve.segmented_scan

    Examples
    --------
    >>> import numpy as np
    >>> flags = np.array([1, 0, 0, 1, 0, 0, 0, 0, 1, 0])
    >>> segmented_scan(np.arange(1, 11), flags)
    array([ 1,  3,  6,  4,  9, 15, 22, 30,  9, 19])
    """
    op = as_monoid(op)
    x = converted(x, op)
    rows = x.shape[: x.ndim - len(op.element_shape)]
    starts = np.broadcast_to(flags != 0, rows)
    starts = starts.reshape(rows + (1,) * len(op.element_shape))
    x, starts = (np.moveaxis(v, len(rows) - 1, 0) for v in (x, starts))
    prefixes = scan_pairs(x, starts, op)
    if exclusive:
        prefixes = shift(prefixes, op.identity_of(x.dtype))
        np.copyto(prefixes, op.identity_of(x.dtype), where=starts)
    return np.moveaxis(prefixes, 0, len(rows) - 1)
