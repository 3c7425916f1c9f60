"""Reduction: all elements combined to one.

``reduce : (a -> a -> a) -> a -> [n]a -> a``, for an associative operator and its
identity. The order of the elements is kept, the grouping is free.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..monoid import Map, Monoid, as_monoid, mssp, segment_sums_of_one

Array = NDArray[Any]


def elements(x: Array, op: Monoid, map: Map | None = None) -> Array:
    """What is to be combined: the elements of `op` that `x` gives, in its dtype."""
    x = x if map is None else map.apply(x)
    return x.astype(op.dtype_of(x.dtype), copy=False)


def native(op: Monoid, dtype: np.dtype[Any]) -> np.ufunc | None:
    """The operator as a ufunc that never leaves this dtype, if it is one."""
    if op.ufunc is None:
        return None
    of_two = op.ufunc.resolve_dtypes((dtype, dtype, None))
    return op.ufunc if of_two == (dtype, dtype, dtype) else None


def flatten(x: Array, axes: list[int]) -> Array:
    """These axes as one that comes first, in C order, and the others as they were."""
    others = [axis for axis in range(x.ndim) if axis not in axes]
    n = math.prod(x.shape[axis] for axis in axes)
    return x.transpose(*axes, *others).reshape(n, *(x.shape[axis] for axis in others))


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
        Numbers, if there is a `map`.
    op : str or Monoid
    axis : int or tuple of int, optional
        Among the axes before those of an element; by default all of them. The order
        of the elements along several axes is C order.
    map : Map, optional
        Applied to each number first.

    Returns
    -------
    array
        In the shape that is left. The identity where there is nothing to combine.

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
    x = elements(x, op, map)
    every = range(x.ndim - len(op.element_shape))
    axes = every if axis is None else axis if isinstance(axis, tuple) else (axis,)
    x = flatten(x, sorted(every[one] for one in axes))
    ufunc = native(op, x.dtype)
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
    """Whether every number satisfies the predicate; by default, whether none is zero.

    Examples
    --------
    >>> import numpy as np
    >>> all(np.array([[1, 2], [3, 0]]), axis=1)
    array([ True, False])
    """
    return reduce(x, "logical_and", axis=axis, map=predicate)


def any(
    x: Array,
    predicate: Map | None = None,
    *,
    axis: int | tuple[int, ...] | None = None,
) -> Any:
    """Whether some number satisfies the predicate; by default, whether one is not zero.

    Examples
    --------
    >>> import numpy as np
    >>> any(np.array([[0, 2], [0, 0]]), axis=1)
    array([ True, False])
    """
    return reduce(x, "logical_or", axis=axis, map=predicate)


def maximum_segment_sum(x: Array) -> Any:
    """The largest sum of a run of neighbours, in each row; an empty run sums to 0.

    Parameters
    ----------
    x : (..., n) array

    Returns
    -------
    (...) array

    Examples
    --------
    >>> import numpy as np
    >>> maximum_segment_sum(np.array([1, -2, 3, 4, -1, 5, -6, 1]))
    np.int64(11)
    """
    return reduce(x, mssp, axis=-1, map=segment_sums_of_one)[..., 0][()]
