"""Sums over short vectors, for the functions that Numba compiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._device.compiled import apart, called, inlined, reordered
from .._numerics.scaling import Array

Integers = NDArray[np.integer[Any]]

EXPONENT_BIAS, MANTISSA_BITS = 1023, 52
"""The bits of a power of two in float64 are those of its exponent."""


@inlined
def copy(out: Any, values: Any) -> None:
    """Copy the values to the start of `out`, and fill its rest with 0."""
    for i in range(len(values)):
        out[i] = values[i]
    for i in range(len(values), len(out)):
        out[i] = 0


@reordered
def dot(a: Array, b: Array, length: int) -> float:
    """``a b``."""
    total = 0.0
    for i in range(length):
        total += a[i] * b[i]
    return total


@reordered
def two_dots(a: Array, b: Array, c: Array, length: int) -> tuple[float, float]:
    """``a b`` and ``a c``."""
    first, second = 0.0, 0.0
    for i in range(length):
        first += a[i] * b[i]
        second += a[i] * c[i]
    return first, second


@reordered
def dot_of_magnitudes(a: Array, b: Array) -> float:
    """``sum |a b|``."""
    total = 0.0
    for i in range(len(a)):
        total += abs(a[i] * b[i])
    return total


@called
def multiply_rows(
    matrix: Array, rows: Integers, count: int, v: Array, out: Array
) -> None:
    """``matrix[rows] v``; an element's bits do not depend on the other rows."""
    apart()
    for k in range(count):
        out[k] = dot(matrix[rows[k]], v, matrix.shape[1])


@inlined
def add_rows(
    out: Array, width: int, matrix: Array, rows: Integers, factors: Array, count: int
) -> None:
    """Add ``sum_k factors[k] matrix[rows[k]]`` to `out`, four rows at a time."""
    whole = count // 4 * 4
    for k in range(0, whole, 4):
        k0, k1, k2, k3 = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
        f0, f1, f2, f3 = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        for i in range(width):
            out[i] += (f0 * matrix[k0, i] + f1 * matrix[k1, i]) + (
                f2 * matrix[k2, i] + f3 * matrix[k3, i]
            )
    for k in range(whole, count):
        k0, f0 = rows[k], factors[k]
        for i in range(width):
            out[i] += f0 * matrix[k0, i]


@inlined
def multiply(H: Array, order: Integers, v: Array, length: int, out: Array) -> None:
    """``H v``; H is symmetric."""
    out[:length] = 0
    add_rows(out, length, H, order, v, length)


@inlined
def add_square(H: Array, v: Array, length: int, sign: float) -> None:
    """Add ``sign v v^T`` to H."""
    for k in range(length):
        factor = sign * v[k]
        for i in range(length):
            H[k, i] += factor * v[i]


@called
def transpose(A: Array, out: Array) -> None:
    """Write the transpose of A to `out`, four columns of A at a time."""
    apart()
    m, n = A.shape
    whole = n // 4 * 4
    for j in range(0, whole, 4):
        out0, out1, out2, out3 = out[j], out[j + 1], out[j + 2], out[j + 3]
        for i in range(m):
            out0[i] = A[i, j]
            out1[i] = A[i, j + 1]
            out2[i] = A[i, j + 2]
            out3[i] = A[i, j + 3]
    for j in range(whole, n):
        for i in range(m):
            out[j, i] = A[i, j]


@inlined
def largest_magnitude(v: Array) -> float:
    """``max |v|``, NaN if there is one: floats are ordered like their bits."""
    largest = np.int64(0)
    for i in range(len(v)):
        largest = max(largest, np.float64(abs(v[i])).view(np.int64))
    return float(np.int64(largest).view(np.float64))


@inlined
def shifted(x: float, power: Any) -> float:
    """``x 2**power``, rounded once."""
    if abs(power) < 1000:
        bits = np.int64(int(power + EXPONENT_BIAS) << MANTISSA_BITS)
        return float(x * bits.view(np.float64))
    exponent: Any = np.int32(power)
    return math.ldexp(x, exponent)


@inlined
def ratio(part: float, whole: float) -> float:
    """``part / whole``, with ``0 / 0 = 0``."""
    return 0.0 if part == 0 else part / whole


@inlined
def two_sum(a: float, b: float) -> tuple[float, float]:
    """The rounded sum and its rounding error (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


@inlined
def split(a: float) -> tuple[float, float]:
    """A value as a sum of two values with half the bits each (Dekker, Veltkamp)."""
    shifted = 134217729.0 * a
    high = shifted - (shifted - a)
    return high, a - high


@inlined
def two_product(a: float, b: float) -> tuple[float, float]:
    """The rounded product and its rounding error."""
    product = a * b
    a_high, a_low = split(a)
    b_high, b_low = split(b)
    error = a_high * b_high - product + a_high * b_low + a_low * b_high
    return product, error + a_low * b_low


@called
def minus_sum(
    b: float, i: int, matrix: Array, rows: Integers, factors: Array, count: int
) -> float:
    """``b - sum_k factors[k] matrix[rows[k], i]``, in twice the working precision."""
    apart()
    total, error = b, 0.0
    for k in range(count):
        product, lost = two_product(matrix[rows[k], i], factors[k])
        total, rounding = two_sum(total, -product)
        error += rounding - lost
    return total + error
