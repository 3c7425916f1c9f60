"""Dot products in twice the working precision, by error-free transformations.

T. Ogita, S. M. Rump and S. Oishi, *Accurate Sum and Dot Product*, SIAM Journal on
Scientific Computing 26(6), 2005. ``cuda_src/compensated.cuh`` does the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]


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


def minus_dot(b: Array, a: Array, x: Array) -> Array:
    """``b - a x``, computed in twice the working precision and rounded once.

    Parameters
    ----------
    b : (...) array
    a, x : (..., n) array

    Examples
    --------
    >>> minus_dot(np.array(1e16 + 2), np.array([1e8, 1.0]), np.array([1e8, 1.0]))
    array(1.)
    """
    product, error = two_product(a, x)
    first = np.broadcast_to(b[..., None], (*product.shape[:-1], 1))
    total = np.concatenate([first, -product], axis=-1)
    error = np.concatenate([np.zeros_like(first), -error], axis=-1)
    while total.shape[-1] > 1:
        half = total.shape[-1] // 2
        left, right, odd = np.split(total, [half, 2 * half], axis=-1)
        both, rounding = two_sum(left, right)
        left, right, odd_error = np.split(error, [half, 2 * half], axis=-1)
        total = np.concatenate([both, odd], axis=-1)
        error = np.concatenate([left + right + rounding, odd_error], axis=-1)
    return np.asarray((total + error)[..., 0])
