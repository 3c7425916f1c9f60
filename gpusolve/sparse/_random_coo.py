"""Random sparse matrices, to test and to measure with."""

from __future__ import annotations

import importlib
import operator
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from ._inputs import MAX_PLACES, Container

LARGEST_INTEGER = 9
"""Integers are drawn from 1 to this."""
LARGEST_SIZE = 2**63 - 1


def random_coo(
    shape: tuple[int, int],
    density: float,
    *,
    rng: np.random.Generator | int | None = None,
    dtype: npt.DTypeLike = np.float64,
) -> Container:
    """Draw a sparse matrix with entries at random places, none of them twice.

    Parameters
    ----------
    shape : tuple of int
        Rows and columns: of at most 2**63 places, and each less than 2**63.
    density : float
        The share of the places that have an entry, from 0 to 1. There are exactly
        ``round(density * rows * columns)`` entries, every set of so many places as
        likely as any other.
    rng : Generator or int, optional
        Where the numbers come from, as for `numpy.random.default_rng`.
    dtype : dtype, optional
        Of the values, which are never zero: uniform in (0, 1] for floats and for both
        parts of complex numbers, from 1 to 9 for integers, True for bool.

    Returns
    -------
    (rows, columns) scipy.sparse.coo_array
        In canonical format: sorted by row, then by column.

    Raises
    ------
    TypeError
        For a density that is no real number, sizes that are no integers, or a dtype
        that no sparse array has.
    ValueError
        For a density outside [0, 1], or a shape that has not two axes, is negative, or
        has too many places.

    Notes
    -----
    Time and memory grow with the entries, not with the places: what collides is drawn
    again. Above one half the places without an entry are drawn instead.

    References
    ----------
    M. Cupp, "Element-Wise Multiplication Kernel", 2020, section 2.2, which lets what
    collides take the first place that is free: its places are not uniform.

    Examples
    --------
    >>> import gpusolve
    >>> A = gpusolve.sparse.random_coo((1000, 100), 0.01, rng=0)
    >>> A.nnz
    1000
    >>> gpusolve.sparse.random_coo((2**31 - 1, 2**31 - 1), 1e-17, rng=0).nnz
    46
    """
    rows, columns = _sizes(shape)
    if not isinstance(density, Real):
        raise TypeError(f"density is {density!r}; a real number is wanted")
    if not 0 <= density <= 1:
        raise ValueError(f"density is {density}; a number from 0 to 1 is wanted")
    kind = _numbers_of(dtype)
    generator = np.random.default_rng(rng)
    places = rows * columns
    count = min(round(float(density) * places), places)
    keys = _distinct(places, count, generator)
    sparse = importlib.import_module("scipy.sparse")
    index = np.int32 if max(rows, columns) < 2**31 else np.int64
    positions = tuple(one.astype(index) for one in np.divmod(keys, columns))
    values = _values(count, kind, generator)
    result = sparse.coo_array((values, positions), shape=(rows, columns))
    result.has_canonical_format = True
    return result


def _sizes(shape: tuple[int, int]) -> tuple[int, int]:
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError:
        raise TypeError(f"shape is {shape!r}; two integers are wanted") from None
    if len(sizes) != 2 or min(sizes) < 0:
        raise ValueError(f"shape is {sizes}; two sizes, not negative, are wanted")
    if max(sizes) > LARGEST_SIZE:
        raise ValueError(f"shape is {sizes}; SciPy takes sizes of less than 2**63")
    if sizes[0] * sizes[1] > MAX_PLACES:
        raise ValueError(f"shape is {sizes}; at most 2**63 places are possible")
    return sizes


def _numbers_of(dtype: npt.DTypeLike) -> np.dtype[Any]:
    kind = np.dtype(dtype).newbyteorder("=")
    if kind.kind not in "biufc" or kind == np.float16:
        raise TypeError(f"dtype is {kind}, which no sparse array has")
    return kind


def _distinct(
    places: int, count: int, generator: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw `count` of the numbers below `places`; sorted, all sets equally likely."""
    if 2 * count > places:
        holes = _distinct(places, places - count, generator)
        return np.delete(np.arange(places, dtype=np.int64), holes)
    found = np.empty(0, np.int64)
    while len(found) < count:
        more = generator.integers(places, size=count - len(found), dtype=np.int64)
        found = each_once(np.append(found, more))
    return found


def each_once(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Sort, and keep one of those that are equal; quicker than `numpy.unique`."""
    keys = np.sort(keys)
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys


def _values(
    count: int, dtype: np.dtype[Any], generator: np.random.Generator
) -> npt.NDArray[Any]:
    """Numbers that are not zero."""
    numbers: npt.NDArray[Any]
    if dtype.kind == "b":
        return np.ones(count, bool)
    if dtype.kind in "iu":
        numbers = generator.integers(1, LARGEST_INTEGER + 1, count)
    elif dtype.kind == "c":
        numbers = (1 - generator.random((count, 2))).view(np.complex128)[:, 0]
    else:
        numbers = 1 - generator.random(count)
    return numbers.astype(dtype)
