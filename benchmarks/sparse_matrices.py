"""Square sparse matrices for the benchmarks, of regular and of very uneven rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from gpusolve.sparse._random_coo import each_once

Sparse = Any
Keys = NDArray[np.int64]

MEAN_LENGTH = 16
"""Mean number of entries per row."""


def matrix(kind: str, entries: int, seed: int) -> Sparse:
    """Return a matrix of one of `KINDS` with about this number of entries.

    Returns
    -------
    scipy.sparse.coo_array
        In canonical format, float32 values and int32 indices. The values are 1 or 2,
        so that sums are exact.
    """
    side = side_of(entries)
    return matrix_from_keys(
        KINDS[kind](side, entries, np.random.default_rng(seed)), side
    )


def side_of(entries: int) -> int:
    """The number of rows and of columns; at most a quarter of the matrix is filled."""
    return max(entries // MEAN_LENGTH, math.isqrt(4 * entries))


def matrix_from_keys(keys: Keys, side: int) -> Sparse:
    """Return the matrix with entries at these sorted keys, row * side + column."""
    rows, columns = (indices.astype(np.int32) for indices in np.divmod(keys, side))
    values = (1 + keys % 2).astype(np.float32)
    result = scipy.sparse.coo_array((values, (rows, columns)), shape=(side, side))
    result.has_canonical_format = True
    return result


def uniform(side: int, entries: int, rng: np.random.Generator) -> Keys:
    """Entries anywhere."""
    return distinct(lambda count: rng.integers(side * side, size=count), entries)


def banded(side: int, entries: int, rng: np.random.Generator) -> Keys:
    """Entries on neighbouring diagonals, the same for every seed."""
    width = min(MEAN_LENGTH, side)
    rows = np.arange(side)[:, None]
    columns = rows + np.arange(width) - width // 2
    inside = (columns >= 0) & (columns < side)
    return (rows * side + columns)[inside]


def power_law(side: int, entries: int, rng: np.random.Generator) -> Keys:
    """Row r is full, or its number of entries is proportional to r ** (-2 / 3)."""

    def draw(count: int) -> Keys:
        rows = (side * rng.random(count) ** 3).astype(np.int64)
        return rows * side + rng.integers(side, size=count)

    return distinct(draw, entries)


def one_heavy_row(side: int, entries: int, rng: np.random.Generator) -> Keys:
    """One row is full; the others are uniform."""
    heavy = side // 2 * side + np.arange(side)
    return each_once(np.append(uniform(side, entries - side, rng), heavy))


def distinct(draw: Callable[[int], Keys], count: int) -> Keys:
    """Return at least `count` distinct keys, sorted; duplicates are drawn again."""
    keys = each_once(draw(count))
    while len(keys) < count:
        keys = each_once(np.append(keys, draw(count - len(keys))))
    return keys


KINDS: dict[str, Callable[[int, int, np.random.Generator], Keys]] = {
    "uniform": uniform,
    "banded": banded,
    "power law": power_law,
    "one heavy row": one_heavy_row,
}
