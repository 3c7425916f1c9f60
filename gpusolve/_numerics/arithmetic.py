"""Exact operations: scaling by powers of two, and dot products in twice the precision.

T. Ogita, S. M. Rump and S. Oishi, *Accurate Sum and Dot Product*, SIAM Journal on
Scientific Computing 26(6), 2005. ``cuda_src/compensated.cuh`` does the same.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

EPS = float(np.finfo(np.float64).eps)
"""The machine epsilon of float64."""

DEPENDENT = 16.0
"""Singular values, and what is left of rows and columns without their parts along
others, count as zero up to this number times ``n eps`` of their size before."""

TOGETHER = 2**16
"""Products that are computed at once, unless they are of a single column."""


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


# ---- twice the working precision -----------------------------------------------------


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its rounding error; together they are exact (Knuth).

    Examples
    --------
    >>> two_sum(np.float64(1), np.float64(1e-20))
    (np.float64(1.0), np.float64(1e-20))
    """
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def split(a: Array) -> tuple[Array, Array]:
    """A value as a sum of two values with half the bits each (Dekker, Veltkamp)."""
    bits = np.finfo(a.dtype).nmant // 2 + 1
    shifted = a.dtype.type(2**bits + 1) * a
    high = shifted - (shifted - a)
    return high, a - high


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product and its rounding error.

    Together they are exact unless either overflows or underflows. Factors up to
    the square root of the largest finite value do not overflow.

    Examples
    --------
    >>> a = np.float64(1 + 2**-30)
    >>> product, error = two_product(a, a)
    >>> product == 1 + 2**-29, error == 2**-60
    (np.True_, np.True_)
    """
    product = a * b
    (a_high, a_low), (b_high, b_low) = split(a), split(b)
    error = a_high * b_high - product + a_high * b_low + a_low * b_high
    return product, error + a_low * b_low


def remainder(b: Array, A: Array, x: Array) -> tuple[Array, Array]:
    """``b - A x`` in twice the working precision, rounded once.

    The sum of its terms' magnitudes follows. Some columns of A are multiplied at once,
    so that memory is limited. All may be arrays of CuPy.

    Parameters
    ----------
    b : (..., m) array
    A : (..., m, n) array
    x : (..., n) array

    Examples
    --------
    >>> A = np.array([[1e8, 1.0]])
    >>> remainder(np.array([1e16 + 2]), A, np.array([1e8, 1.0]))[0]
    array([1.])
    """
    low: Array = 0 * (b + x.any(axis=-1, keepdims=True))
    high: Array = b + low
    terms: Array = abs(b) + low
    x = -x[..., None, :]
    step = max(1, TOGETHER // max(1, high.size))
    for first in range(0, x.shape[-1], step):
        part = slice(first, first + step)
        products, errors = two_product(A[..., part], x[..., part])
        low, terms = low + errors.sum(axis=-1), terms + abs(products).sum(axis=-1)
        for k in range(products.shape[-1]):
            high, rounding = two_sum(high, products[..., k])
            low = low + rounding
    return high + low, terms
