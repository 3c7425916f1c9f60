"""Residuals in more than the working precision, by products of matrices alone.

A matrix and a vector are split into leading bits and a rest (T. Ozaki, T. Ogita,
S. Oishi and S. M. Rump, *Error-free transformations of matrix multiplication by using
fast routines of matrix multiplication and its applications*, Numerical Algorithms 59,
2012). The product of the leading bits is exact in any order of summation.
"""

from __future__ import annotations

import numpy as np

from .._device.arrays import Array, largest, namespace
from .._device.products import product
from .._numerics.compensated import two_product, two_sum

BITS = np.finfo(np.float64).nmant + 1


class SplitMatrix(tuple[Array, Array]):
    """The leading bits of the rows of a matrix, and the rest."""

    @classmethod
    def of(cls, A: Array) -> SplitMatrix:
        """Split A, (..., m, n), in float64."""
        high = leading(A, A.shape[-1])
        return cls((high, A - high))

    def minus_product(self, b: Array, x: Array) -> Array:
        """``b - A x`` for each system.

        The error is about ``eps (|b - A x| + 2**-23 n max_k |A_ik| max_k |x_k|)``.

        Parameters
        ----------
        b : (..., m) array
        x : (..., n) array
        """
        A_high, A_low = self
        x_high = leading(x, x.shape[-1])
        low = product(A_high, x - x_high) + product(A_low, x)
        difference, error = two_sum(b, -product(A_high, x_high))
        return difference + (error - low)


def leading(values: Array, terms: int) -> Array:
    """The leading bits of each row; sums of `terms` products of them are exact."""
    xp = namespace(values)
    kept = (BITS - max(1, terms).bit_length()) // 2
    most = largest(xp.abs(values), keepdims=True)
    unit = xp.ldexp(xp.ones(most.shape), xp.frexp(most)[1] - kept)
    return xp.trunc(values / unit) * unit


def transposed_product(A: Array, y: Array) -> Array:
    """``A^T y`` for each system; a shared A is not copied."""
    xp = namespace(y)
    if A.ndim == 2:
        return xp.matmul(y, A)
    return xp.matmul(y[..., None, :], A)[..., 0, :]


def remainder(c: Array, G: Array, x: Array) -> tuple[Array, Array]:
    """``c - G x`` in twice the working precision, and the sum of its terms' magnitudes.

    The loop takes a column of G at a time, so that only vectors need memory.
    """
    low = 0 * (c + x.any(axis=-1, keepdims=True))
    high, terms = c + low, namespace(x).abs(c) + low
    for k in range(x.shape[-1]):
        product, error = two_product(G[..., :, k], -x[..., k : k + 1])
        high, rounding = two_sum(high, product)
        low = low + (error + rounding)
        terms = terms + namespace(x).abs(product)
    return high + low, terms
