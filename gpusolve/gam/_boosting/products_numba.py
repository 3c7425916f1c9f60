"""Sums of cross products on a CPU, compiled: one pass over the rows of each learner."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ..._device.arrays import Array
from ..._device.compiled import compiled
from ..._device.launch import CACHED


@functools.lru_cache(CACHED)
def cross_sum(width: int) -> Callable[..., None]:
    """The function for bases with `width` nonzeros in a row, a constant of its loops.

    Its arguments are those of `cross_sum_by_scipy`.
    """

    @compiled
    def add(
        first: Array, values: Array, other_first: Array, other: Array, sums: Array
    ) -> None:
        for i in range(len(first)):
            j = min(i, len(other_first) - 1)
            for row in range(first.shape[1]):
                function, cell = first[i, row], other_first[j, row]
                for k in range(width):
                    value = values[i, row, k]
                    for m in range(width):
                        sums[i, function + k, cell, m] += value * other[j, row, m]

    return add
