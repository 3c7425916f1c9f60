"""Scatter, replicate and stable partition.

``scatter : [m]a -> [n]int -> [n]a -> [m]a``, of work n and depth 1, and
``partition : (a -> bool) -> [n]a -> (int, [n]a)``, of work n and depth log n.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


def scatter(target: Array, indices: NDArray[np.integer[Any]], values: Array) -> Array:
    """Write each value to its index in `target`, in place.

    Parameters
    ----------
    target : (m, ...) array
    indices : (n,) array of integers
        Indices out of range, also negative indices, are ignored. The last of equal
        indices wins.
    values : (n, ...) array

    Returns
    -------
    (m, ...) array
        `target` itself.

    See Also
    --------
    gpusolve.scatter

    Examples
    --------
    >>> import numpy as np
    >>> target = np.zeros(6, int)
    >>> scatter(target, np.array([2, 4, 1, -1]), np.array([10, 20, 30, 40]))
    array([ 0, 30, 10,  0, 20,  0])
    """
    inside = (indices >= 0) & (indices < len(target))
    target[indices[inside]] = values[inside]
    return target


def replicate(n: int, value: ArrayLike) -> Array:
    """Repeat an element n times.

    See Also
    --------
    gpusolve.replicate

    Examples
    --------
    >>> replicate(3, 7)
    array([7, 7, 7])
    """
    return np.full((n, *np.shape(value)), value)


def stable_partition(x: Array, mask: NDArray[np.bool_]) -> tuple[Array, Array]:
    """The elements that the mask selects, then the others, each in their order.

    Parameters
    ----------
    x : (n, ...) array
    mask : (n,) array of bool

    Returns
    -------
    count : () array
        The number of selected elements.
    y : (n, ...) array

    See Also
    --------
    gpusolve.stable_partition

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([5, 4, 2, 10, 3, 7, 8])
    >>> stable_partition(x, x % 2 == 0)
    (array(4), array([ 4,  2, 10,  8,  5,  3,  7]))
    """
    count = np.asarray(np.count_nonzero(mask))
    return count, np.concatenate([x[mask], x[~mask]])
