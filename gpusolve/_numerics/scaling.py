"""Scaling by powers of two, which is exact, and by weights."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


def namespace(array: Any) -> Any:
    """The module of an array: NumPy, or CuPy, which is then imported."""
    return sys.modules["cupy"] if "cupy" in type(array).__module__ else np


def exponent(power: Array) -> NDArray[np.intc]:
    """The exponent e of a power of two ``2**e``."""
    return np.asarray(np.frexp(power)[1] - 1)


def shifted(x: Array, exponent: NDArray[np.intc]) -> Array:
    """``x 2**exponent``, rounded once; infinite if it overflows."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.ldexp(x, exponent))


def inverse_power_of_two(magnitude: Array) -> Array:
    """Powers of two that scale a finite `magnitude` into [0.5, 1); 1 for zero."""
    xp = namespace(magnitude)
    # 2**limit and 2**-limit are normal numbers.
    limit = np.finfo(magnitude.dtype).maxexp - 2
    exponent = xp.clip(xp.frexp(magnitude)[1], -limit, limit)
    power: Array = xp.ldexp(xp.ones_like(magnitude), -exponent)
    return power


def weighted(A: Array, b: Array, weights: Array) -> tuple[Array, Array]:
    """A and b with rows multiplied by the square roots of the weights.

    A row of weight 0 becomes 0, also if it has NaN or infinity. NaN and infinity in
    other rows, and in the weights, stay; the root of a negative weight is NaN.
    """
    xp = namespace(A)
    with np.errstate(invalid="ignore", over="ignore"):
        root = xp.sqrt(weights)
        used = root != 0
        rows = xp.where(used[..., None], A * root[..., None], 0)
        return rows, xp.where(used, b * root, 0)
