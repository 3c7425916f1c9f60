"""Random sparse matrices for tests and benchmarks."""

from __future__ import annotations

import importlib
import operator
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from ._inputs import MAX_PLACES, Container

LARGEST_INTEGER = 9
"""Random integers are uniform from 1 to this number."""
LARGEST_SIZE = 2**63 - 1
"""The most rows or columns of a SciPy sparse array."""


def random_coo(
    shape: tuple[int, int],
    density: float,
    *,
    rng: np.random.Generator | int | None = None,
    dtype: npt.DTypeLike = np.float64,
) -> Container:
    """Draw a random sparse matrix with uniformly distributed, distinct places.

    Parameters
    ----------
    shape : tuple of int
        Rows and columns. Each is less than 2**63, their product at most 2**63.
    density : float
        Fraction of the places that have an entry, from 0 to 1. The matrix has exactly
        ``round(density * rows * columns)`` entries. All sets of places of this size
        are equally likely.
    rng : Generator or int, optional
        Random generator or seed, as for `numpy.random.default_rng`.
    dtype : dtype, optional
        Data type of the values. They are nonzero: uniform in (0, 1] for floats and
        for the real and imaginary parts of complex numbers, uniform from 1 to 9 for
        integers, True for bool.

    Returns
    -------
    (rows, columns) scipy.sparse.coo_array
        In canonical format: sorted by row, then by column.

    Raises
    ------
    TypeError
        If the density is not a real number, a size is not an integer, or sparse arrays
        do not support the dtype.
    ValueError
        If the density is outside [0, 1], or the shape does not have two axes, has a
        negative size, or has too many places.

    See Also
    --------
    spmv, multiply

    Notes
    -----
    Time and memory grow with the number of entries, not of places: duplicate places are
    drawn again. If the density is above 1/2, the empty places are drawn instead.

    References
    ----------
    M. Cupp, "Element-Wise Multiplication Kernel", 2020, section 2.2. There, a duplicate
    moves to the first free place, so the places are not uniformly distributed.

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
        raise TypeError(f"density must be a real number, got {density!r}")
    if not 0 <= density <= 1:
        raise ValueError(f"density must be from 0 to 1, got {density}")
    kind = _numbers_of(dtype)
    generator = np.random.default_rng(rng)
    places = rows * columns
    count = min(round(float(density) * places), places)
    keys = _distinct(places, count, generator)
    sparse = importlib.import_module("scipy.sparse")
    index = np.int32 if max(rows, columns) < 2**31 else np.int64
    positions = tuple(numbers.astype(index) for numbers in np.divmod(keys, columns))
    values = _values(count, kind, generator)
    result = sparse.coo_array((values, positions), shape=(rows, columns))
    result.has_canonical_format = True
    return result


def _sizes(shape: tuple[int, int]) -> tuple[int, int]:
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError:
        raise TypeError(f"shape must be two integers, got {shape!r}") from None
    if len(sizes) != 2 or min(sizes) < 0:
        raise ValueError(f"shape must be two nonnegative integers, got {sizes}")
    if max(sizes) > LARGEST_SIZE:
        raise ValueError(f"shape must have sizes less than 2**63, got {sizes}")
    if sizes[0] * sizes[1] > MAX_PLACES:
        raise ValueError(
            f"shape must have at most 2**63 places, rows times columns, got {sizes}"
        )
    return sizes


def _numbers_of(dtype: npt.DTypeLike) -> np.dtype[Any]:
    kind = np.dtype(dtype).newbyteorder("=")
    if kind.kind not in "biufc" or kind == np.float16:
        raise TypeError(
            "dtype must be bool, an integer, or a float or complex dtype of at least "
            f"32 bits per part, got {kind}"
        )
    return kind


def _distinct(
    places: int, count: int, generator: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw `count` distinct numbers below `places`, sorted; all sets equally likely."""
    if 2 * count > places:
        holes = _distinct(places, places - count, generator)
        return np.delete(np.arange(places, dtype=np.int64), holes)
    found = np.empty(0, np.int64)
    while len(found) < count:
        more = generator.integers(places, size=count - len(found), dtype=np.int64)
        found = each_once(np.append(found, more))
    return found


def each_once(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Sort and remove duplicates. This is faster than `numpy.unique`."""
    keys = np.sort(keys)
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys


def _values(
    count: int, dtype: np.dtype[Any], generator: np.random.Generator
) -> npt.NDArray[Any]:
    """Draw `count` nonzero numbers."""
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
