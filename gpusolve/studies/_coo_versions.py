"""The kernels of Cupp's document: versions 1 and 2, tile by tile.

``coo_versions : [p](int, int, a) -> [q](int, int, a) -> [k](int, int, a)``, in the
order of the first operand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..reference._coo_multiply import Entries, Keys, keyed

Integers = NDArray[np.intp]

NOT_FOUND = -1


class Tiles(NamedTuple):
    """What the tiles do.

    Attributes
    ----------
    first : (tiles + 1,) array of int
        The first entry of A of each tile, and the number of all (figure 5).
    counts : (tiles,) array of int
        Matches of each tile (figure 6).
    starts : (tiles,) array of int
        Where each tile writes its first result (figure 7).
    product : tuple of three (k,) arrays
        Rows, columns and values, in the order of A (figure 8).
    """

    first: Integers
    counts: Integers
    starts: Integers
    product: Entries


def coo_versions(
    A: Entries,
    B: Entries,
    shape: tuple[int, int],
    tiles: int,
    search: Literal["linear", "binary"] = "linear",
) -> Tiles:
    """Multiply two sparse matrices element by element, as the document does.

    Parameters
    ----------
    A, B : tuple of three (n,) arrays
        The rows, columns and values of the entries, in any order, without duplicates.
    shape : tuple of int
        The shape of both matrices, with at most 2**63 positions.
    tiles : int
        Number of tiles, each of which has an equal part of A.
    search : {"linear", "binary"}
        Version 1, or version 2, which sorts B.

    References
    ----------
    M. Cupp, "Element-Wise Multiplication Kernel", 2020, sections 4.1 and 5.1.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([1, 0, 0]), np.array([1, 0, 2]), np.array([2.0, 3.0, 4.0])
    >>> B = np.array([0, 1]), np.array([2, 1]), np.array([0.5, 10.0])
    >>> found = coo_versions(A, B, (2, 3), tiles=3)
    >>> found.counts, found.starts
    (array([1, 0, 1]), array([0, 1, 1]))
    >>> found.product[2]
    array([20.,  2.])
    """
    (a, a_values), (b, b_values) = keyed(A, shape), keyed(B, shape)
    if search == "binary":
        order = np.argsort(b)
        b, b_values = b[order], b_values[order]
    found = np.array([SEARCHES[search](b, key) for key in a], np.intp)
    first = parts(len(a), tiles)
    before = np.append(0, np.cumsum(found != NOT_FOUND))[first]
    matched = np.flatnonzero(found != NOT_FOUND)
    products = a_values[matched] * b_values[found[matched]]
    product = A[0][matched], A[1][matched], products
    return Tiles(first, np.diff(before), before[:-1], product)


def parts(count: int, tiles: int) -> Integers:
    """The first elements of parts that differ by at most one element, and the end.

    Examples
    --------
    >>> parts(11, 4)
    array([ 0,  2,  5,  8, 11])
    """
    return np.arange(tiles + 1) * count // tiles


def linear_search(keys: Keys, key: int) -> int:
    """The position of a key, from start to finish (version 1)."""
    place = NOT_FOUND
    for i, one in enumerate(keys):
        if one == key:
            place = i
    return place


def binary_search(keys: Keys, key: int) -> int:
    """The position of a key in sorted keys (version 2, figure 11)."""
    start, stop = 0, len(keys)
    while start < stop:
        middle = (start + stop) // 2
        if keys[middle] < key:
            start = middle + 1
        else:
            stop = middle
    return start if start < len(keys) and keys[start] == key else NOT_FOUND


SEARCHES: dict[str, Callable[[Keys, Any], int]] = {
    "linear": linear_search,
    "binary": binary_search,
}
