"""The element-wise product of sparse matrices in coordinate form.

``coo_multiply : [p](int, int, a) -> [q](int, int, a) -> [k](int, int, a)``: the
intersection of two sets of positions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Keys = NDArray[np.int64]

Entries = tuple[Array, Array, Array]
"""Rows, columns and values, all of the same length."""
Keyed = tuple[Keys, Array]
"""Keys and values, of the same length."""


def coo_multiply(A: Entries, B: Entries, shape: tuple[int, int]) -> Entries:
    """Multiply two sparse matrices element by element.

    Parameters
    ----------
    A, B : tuple of three (n,) arrays
        The rows, columns and values of the entries, in any order. The values of
        duplicate entries are summed.
    shape : tuple of int
        The shape of both matrices, with at most 2**63 positions.

    Returns
    -------
    tuple of three (k,) arrays
        The nonzero entries of the product, sorted by row, then by column. NaN counts as
        nonzero. NaN or infinity in a matrix gives NaN where the other has none.

    See Also
    --------
    gpusolve.sparse.multiply

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([1, 0, 0]), np.array([1, 0, 2]), np.array([2.0, 3.0, 4.0])
    >>> B = np.array([0, 1, 1]), np.array([2, 1, 1]), np.array([0.5, 1.0, 9.0])
    >>> coo_multiply(A, B, (2, 3))
    (array([0, 1]), array([2, 1]), array([ 2., 20.]))
    """
    a, b = sums_by_key(*keyed(A, shape)), sums_by_key(*keyed(B, shape))
    (a_keys, a_values), (b_keys, b_values) = add_zeros(a, b), add_zeros(b, a)
    in_a, in_b = matches(a_keys, b_keys)
    with np.errstate(all="ignore"):
        products = a_values[in_a] * b_values[in_b]
    kept = products != 0
    index = np.result_type(A[0].dtype, B[0].dtype)
    rows, columns = np.divmod(a_keys[in_a[kept]], shape[1])
    return rows.astype(index), columns.astype(index), products[kept]


def keyed(entries: Entries, shape: tuple[int, int]) -> Keyed:
    """Replace row and column by the key ``row * columns + column``."""
    rows, columns, values = entries
    return rows.astype(np.int64) * shape[1] + columns, values


def sums_by_key(keys: Keys, values: Array) -> Keyed:
    """Sort by key, and sum the values of equal keys.

    Examples
    --------
    >>> import numpy as np
    >>> sums_by_key(np.array([5, 1, 5]), np.array([10, 20, 30]))
    (array([1, 5]), array([20, 40]))
    """
    if np.all(keys[1:] > keys[:-1]):
        return keys, values
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    with np.errstate(all="ignore"):
        sums = np.add.reduceat(values, starts, dtype=values.dtype)
    return keys[starts], sums


def add_zeros(entries: Keyed, others: Keyed) -> Keyed:
    """The entries, plus a zero at the position of each non-finite entry of `others`.

    Examples
    --------
    >>> import numpy as np
    >>> ones = np.array([3, 7]), np.array([1.0, 1.0])
    >>> add_zeros(ones, (np.array([3, 5, 6]), np.array([np.inf, np.inf, 2.0])))
    (array([3, 5, 7]), array([1., 0., 1.]))
    """
    keys, values = entries
    needed = others[0][~np.isfinite(others[1])]
    if len(needed) == 0:
        return entries
    zeros = np.zeros(len(needed), values.dtype)
    return sums_by_key(np.append(keys, needed), np.append(values, zeros))


def matches(a: Keys, b: Keys) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Find the indices of the common keys in `a` and `b`, whose keys strictly increase.

    Examples
    --------
    >>> import numpy as np
    >>> matches(np.array([1, 4, 6, 9]), np.array([4, 5, 9]))
    (array([1, 3]), array([0, 2]))
    """
    if len(a) > len(b):
        in_b, in_a = matches(b, a)
        return in_a, in_b
    places = np.searchsorted(b, a)
    inside = np.flatnonzero(places < len(b))
    in_a = inside[b[places[inside]] == a[inside]]
    return in_a, places[in_a]
