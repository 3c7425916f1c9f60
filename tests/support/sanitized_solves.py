"""Solves systems of odd shapes by the object of GPUSOLVE_OBJECT, for a sanitizer.

    GPUSOLVE_OBJECT=OBJECT python tests/support/sanitized_solves.py

Each array that is written is in memory of its own. Prints the number of calls.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from every_option import DTYPES, KINDS, METHODS, problem

import gpusolve
from gpusolve._device import objects
from gpusolve._device.arrays import address_of
from gpusolve._nnls import dense

SIZES = 0, 1, 3, 4, 5, 17
SHAPES = (*itertools.product(SIZES, SIZES), (70, 33), (9, 70))


def separate(layout: Any, _size: int) -> Any:
    """``empty_together``, with an allocation for each array."""
    arrays = [np.empty(shape, dtype) for shape, dtype, _ in layout]
    return arrays, [address_of(array) for array in arrays]


def main() -> None:
    assert objects.load() is not None, objects.chosen().reason
    setattr(dense, "empty_together", separate)  # noqa: B010
    calls = 0
    for shape, kind, dtype in itertools.product(SHAPES, KINDS, DTYPES):
        batch = problem(kind, shape, dtype)
        for method in METHODS:
            setattr(dense, "ENOUGH_FOR_THREADS", calls % 2 * 1e9)  # noqa: B010
            result = gpusolve.lsq_linear(method=method, **batch)
            assert np.isin(result.status, range(5)).all(), (shape, kind, method)
            calls += 1
    print(calls)


if __name__ == "__main__":
    main()
