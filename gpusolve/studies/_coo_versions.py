"""The versions of Cupp's document, tile by tile.

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
        The first entry of A that each tile searches for, and the number of all (figure
        5).
    reads : (tiles,) array of int
        Keys of B that each tile reads.
    matches : (k, 2) array of int
        The positions of equal keys, in A and in B, in the order of A. For "binary" and
        "even", B is sorted.
    counts : (tiles,) array of int
        Products of each tile (figure 6).
    starts : (tiles,) array of int
        Where each tile writes its first product (figure 7).
    product : tuple of three (k,) arrays
        Rows, columns and values, in the order of A (figure 8).
    """

    first: Integers
    reads: Integers
    matches: Integers
    counts: Integers
    starts: Integers
    product: Entries


class Version(NamedTuple):
    """What a version does.

    Attributes
    ----------
    search : callable
        Takes keys and a key. Returns the key's position and the number of keys read.
    searches : int
        How often each key is searched.
    """

    search: Callable[[Keys, Any], tuple[int, int]]
    searches: int


def coo_versions(
    A: Entries,
    B: Entries,
    shape: tuple[int, int],
    tiles: int,
    method: Literal["linear", "scratchpad", "binary", "even"] = "linear",
    places: int | None = None,
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
    method : {"linear", "scratchpad", "binary", "even"}
        Version 1; the first attempt, which searches once; version 2, which sorts B; or
        what section 5.3 proposes: one search, which stores the matches; each tile
        multiplies an equal part of them.
    places : int, optional
        Products that the scratchpad of a tile can hold. By default any number.

    Raises
    ------
    MemoryError
        If the method is "scratchpad", and a tile has too many products.

    See Also
    --------
    gpusolve.sparse.multiply

    References
    ----------
    M. Cupp, "Element-Wise Multiplication Kernel", 2020, chapters 3 to 5.

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
    if method in SORT_B:
        order = np.argsort(b)
        b, b_values = b[order], b_values[order]
    search, searches = VERSIONS[method]
    found, reads = np.array([search(b, key) for key in a], np.intp).reshape(-1, 2).T
    in_a = np.flatnonzero(found != NOT_FOUND)
    first = parts(len(a), tiles)
    if method == "even":
        bounds = parts(len(in_a), tiles)
    else:
        bounds = np.searchsorted(in_a, first)
    counts = np.diff(bounds)
    if method == "scratchpad" and places is not None and max(counts) > places:
        raise MemoryError(
            f"a tile must have at most {places} products, got {max(counts)}"
        )
    matches = np.stack([in_a, found[in_a]], axis=1)
    products = a_values[in_a] * b_values[matches[:, 1]]
    return Tiles(
        first=first,
        reads=searches * np.diff(np.append(0, np.cumsum(reads))[first]),
        matches=matches,
        counts=counts,
        starts=bounds[:-1],
        product=(A[0][in_a], A[1][in_a], products),
    )


def parts(count: int, tiles: int) -> Integers:
    """The first elements of parts that differ by at most one element, and the end.

    Examples
    --------
    >>> parts(11, 4)
    array([ 0,  2,  5,  8, 11])
    """
    return np.arange(tiles + 1) * count // tiles


def linear_search(keys: Keys, key: int) -> tuple[int, int]:
    """The position of a key, from start to finish, and the number of keys read."""
    found = np.flatnonzero(keys == key)
    return (found[-1] if len(found) else NOT_FOUND), len(keys)


def binary_search(keys: Keys, key: int) -> tuple[int, int]:
    """The position of a key in sorted keys (figure 11), and the number of keys read."""
    start, stop, reads = 0, len(keys), 0
    while start < stop:
        middle = (start + stop) // 2
        reads += 1
        if keys[middle] < key:
            start = middle + 1
        else:
            stop = middle
    if start == len(keys):
        return NOT_FOUND, reads
    return (start if keys[start] == key else NOT_FOUND), reads + 1


VERSIONS = {
    "linear": Version(linear_search, searches=2),
    "scratchpad": Version(linear_search, searches=1),
    "binary": Version(binary_search, searches=2),
    "even": Version(binary_search, searches=1),
}
SORT_B = ("binary", "even")
