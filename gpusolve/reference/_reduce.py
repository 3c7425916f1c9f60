"""Reduction: all elements combined to a single element.

``reduce : (a -> a -> a) -> a -> [n]a -> a``, for an associative operator and its
identity. The order of the elements is kept; they may be grouped in any way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..monoid import Map, Monoid, as_monoid, mssp, ufunc_of

Array = NDArray[Any]

KADANE_CHUNKS = 8192
"""Chunks of all rows together in `maximum_segment_sum`. With fewer, the time goes into
NumPy's calls; with more, the sums of all chunks leave the cache."""


def converted(x: Array, op: Monoid, map: Map | None = None) -> Array:
    """`x`, mapped, in the dtype of the elements of `op`."""
    x = x if map is None else map.apply(x)
    return x.astype(op.dtype_of(x.dtype), copy=False)


def flatten(x: Array, axes: list[int]) -> Array:
    """Merge some axes, in C order, to an axis at the front."""
    if axes == [0]:
        return x
    others = [axis for axis in range(x.ndim) if axis not in axes]
    x = x.transpose(*axes, *others)
    return x.reshape(math.prod(x.shape[: len(axes)]), *x.shape[len(axes) :])


def fold(x: Array, op: Monoid) -> Array:
    """Combine along the first axis: neighbours in pairs, until one element is left.

    Parameters
    ----------
    x : (n, ..., *element) array

    Returns
    -------
    (..., *element) array
    """
    while len(x) > 1:
        pairs = op.combine(x[:-1:2], x[1::2])
        x = np.concatenate([pairs, x[-1:]]) if len(x) % 2 else pairs
    result = np.full(x.shape[1:], op.identity_of(x.dtype), x.dtype)
    if len(x):
        result[...] = x[0]
    return result


def reduce(
    x: Array,
    op: str | Monoid = "add",
    *,
    axis: int | tuple[int, ...] | None = None,
    map: Map | None = None,
) -> Any:
    """Combine all elements, or those along some axes.

    Work n, depth log n.

    Parameters
    ----------
    x : (..., *element) array
        With `map`, an array of numbers.
    op : str or Monoid
    axis : int or tuple of int, optional
        The axes to reduce, not counting the axes of an element. Default: all. Elements
        along several axes are combined in C order.
    map : Map, optional
        Applied to each number first.

    Returns
    -------
    array
        The shape of `x` without the reduced axes. Without elements, the identity.

    See Also
    --------
    gpusolve.reduce

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[3, 1, 4], [1, 5, 9]])
    >>> reduce(x)
    np.int64(23)
    >>> reduce(x, "max", axis=0)
    array([3, 5, 9])
    """
    op = as_monoid(op)
    x = converted(x, op, map)
    every = range(x.ndim - len(op.element_shape))
    axes = every if axis is None else axis if isinstance(axis, tuple) else (axis,)
    x = flatten(x, sorted(every[number] for number in axes))
    ufunc = ufunc_of(op, x.dtype)
    if ufunc is None:
        return fold(x, op)[()]
    identity = op.identity_of(x.dtype)[()]
    with np.errstate(over="ignore", invalid="ignore"):
        return ufunc.reduce(x, axis=0, dtype=x.dtype, initial=identity)


def all(
    x: Array,
    predicate: Map | None = None,
    *,
    axis: int | tuple[int, ...] | None = None,
) -> Any:
    """Whether all numbers satisfy the predicate; by default, whether all are nonzero.

    See Also
    --------
    gpusolve.all

    Examples
    --------
    >>> import numpy as np
    >>> all(np.array([[1, 2], [3, 0]]), axis=1)
    array([ True, False])
    """
    return reduce(x, "logical_and", axis=axis, map=predicate)


def all_by_division(
    x: Array,
    predicate: Map | None = None,
    split: Callable[[int], int] = lambda n: n // 2,
) -> bool:
    """`all` along an axis by divide and conquer; every split gives the same result.

    ``all(p, []) = True``, ``all(p, [a]) = p(a)``,
    ``all(p, x ++ y) = all(p, x) and all(p, y)``.

    Parameters
    ----------
    x : (n,) array
    predicate : Map, optional
    split : callable, optional
        The length of the first part, from 1 to n - 1, for an array of length n > 1.

    See Also
    --------
    all

    Examples
    --------
    >>> import numpy as np
    >>> all_by_division(np.array([1, 2, 3, 0]))
    False
    """
    if len(x) > 1:
        cut = split(len(x))
        parts = x[:cut], x[cut:]
        first, second = (all_by_division(part, predicate, split) for part in parts)
        return first and second
    return bool(converted(x, as_monoid("logical_and"), predicate).all())


def any(
    x: Array,
    predicate: Map | None = None,
    *,
    axis: int | tuple[int, ...] | None = None,
) -> Any:
    """Whether any number satisfies the predicate; by default, whether any is nonzero.

    See Also
    --------
    gpusolve.any

    Examples
    --------
    >>> import numpy as np
    >>> any(np.array([[0, 2], [0, 0]]), axis=1)
    array([ True, False])
    """
    return reduce(x, "logical_or", axis=axis, map=predicate)


def maximum_segment_sum(x: Array) -> Any:
    """The largest sum of a contiguous segment of each row; the empty segment sums to 0.

    Each row is cut into chunks. Kadane's algorithm walks along all chunks at once, and
    the monoid ``mssp`` combines their results. Integer sums wrap. A row with NaN gives
    NaN; a row with infinities of both signs gives NaN or infinity.

    Parameters
    ----------
    x : (..., n) array

    Returns
    -------
    (...) array

    See Also
    --------
    gpusolve.maximum_segment_sum

    Examples
    --------
    >>> import numpy as np
    >>> maximum_segment_sum(np.array([1, -2, 3, 4, -1, 5, -6, 1]))
    np.int64(11)
    >>> maximum_segment_sum(np.array([[3.0, -np.inf, 2.0], [1.0, np.nan, 2.0]]))
    array([ 3., nan])
    """
    *batch, n = x.shape
    rows = math.prod(batch)
    chunks = max(1, min(n, KADANE_CHUNKS // max(1, rows)))
    # An odd length: chunks at multiples of a power of two would share few cache sets.
    length = -(-n // chunks) | 1
    chunks = -(-n // length)
    padded = np.zeros((rows, chunks * length), x.dtype)
    padded[:, :n] = x.reshape(rows, n)
    steps = padded.reshape(rows, chunks, length).transpose(2, 1, 0)
    quadruples = kadane(np.ascontiguousarray(steps))
    return fold(quadruples, mssp)[..., 0].reshape(batch)[()]


def kadane(steps: Array) -> Array:
    """Kadane's algorithm along the first axis, for all columns at once.

    Parameters
    ----------
    steps : (n, ...) array

    Returns
    -------
    (..., 4) array
        Elements of ``mssp``: the largest sums of a segment anywhere, at the start and
        at the end of a column, and the sum of the column.
    """
    best, first, last, total = np.zeros((4, *steps.shape[1:]), steps.dtype)
    zero = steps.dtype.type(0)
    with np.errstate(over="ignore", invalid="ignore"):
        for step in steps:
            total += step
            np.maximum(first, total, out=first)
            last += step
            np.maximum(last, zero, out=last)
            np.maximum(best, last, out=best)
    return np.stack([best, first, last, total], axis=-1)
