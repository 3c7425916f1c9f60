"""The emulator's numbers of 16 bits, compared with NumPy's and with ml_dtypes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends import needs_emulator

from gpusolve import _emulator

KERNELS = Path(__file__).parents[1] / "faulty_kernels"

pytestmark = needs_emulator

ALL = np.arange(2**16, dtype=np.uint16).view(np.float16)


def run(instance: str, *args: Any) -> None:
    kernel = _emulator.Kernel(KERNELS / "half_precision.cu", instance, KERNELS)
    kernel((1,), (256,), args)


def assert_same_bits(found: Any, expected: Any) -> None:
    """Equal, including the sign of zero, but not the sign of NaN."""
    found, expected = found.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(
        np.signbit(found)[numbers], np.signbit(expected)[numbers]
    )


def test_to_float() -> None:
    y = _emulator.empty(ALL.size, np.float32)
    run("to_float", ALL, y, np.int32(ALL.size))
    assert_same_bits(y, ALL.astype(np.float32))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_from_float() -> None:
    """All halves, the midpoints between them and their neighbours, and extremes."""
    halves = ALL[np.isfinite(ALL)].astype(np.float32)
    midpoints = (halves[:-1] + halves[1:]) / 2
    extremes = [65519.9, 65520, 1e30, np.inf, -np.inf, np.nan, 1e-45, -1e-10]
    x = np.concatenate(
        [
            halves,
            midpoints,
            *(np.nextafter(midpoints, s * np.float32(9e9)) for s in (-1, 1)),
            np.float32(extremes),
        ]
    )
    y = _emulator.empty(x.size, np.float16)
    run("from_float", x, y, np.int32(x.size))
    assert_same_bits(y, x.astype(np.float16))


TYPES = pytest.mark.parametrize("name", ["half", "nv_bfloat16"])


def dtype_of(name: str) -> Any:
    if name == "half":
        return np.float16
    return pytest.importorskip("ml_dtypes").bfloat16


def numbers(rng: np.random.Generator, dtype: Any, count: int) -> Any:
    """Numbers with |x| between 1 and 2, whose products and sums are exact in float."""
    x = rng.uniform(1, 2, count) * rng.choice([-1, 1], count)
    return x.astype(np.float32).astype(dtype)


@TYPES
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_arithmetic(rng: np.random.Generator, name: str) -> None:
    dtype = dtype_of(name)
    n = 20_000
    a, b = rng.choice(ALL.view(dtype), (2, n))
    out = _emulator.empty((8, n), np.uint16).view(dtype)
    run(f"calculate<{name}>", a, b, a, out, np.int32(n))
    one = dtype(1)
    expected = a + b, a - b, a * b, a / b, -(a + one), (a < b).astype(dtype), np.sqrt(a)
    for row, values in zip(out, expected, strict=False):
        assert_same_bits(row, values)
    a, b, c = (numbers(rng, dtype, n) for _ in range(3))
    run(f"calculate<{name}>", a, b, c, out, np.int32(n))
    exact = a.astype(np.float32) * b.astype(np.float32) + c.astype(np.float32)
    assert_same_bits(out[7], exact.astype(dtype))


def test_a_product_and_a_sum_are_rounded_once() -> None:
    """The product is half-way between two halves. In float, c would be lost."""
    a, b = np.full((2, 2), 1.5, np.float16)
    b[:] = 1 + 2**-10
    c = np.array([2**-24, -(2**-24)], np.float16)
    out = np.zeros((8, 2), np.float16)
    run("calculate<half>", a, b, c, out, np.int32(2))
    exact = a.astype(float) * b.astype(float) + c.astype(float)
    assert_same_bits(out[7], exact.astype(np.float16))
    assert out[7, 0] != out[7, 1]


@TYPES
def test_pairs(rng: np.random.Generator, name: str) -> None:
    dtype = dtype_of(name)
    a, b, c = (numbers(rng, dtype, 128).reshape(64, 2) for _ in range(3))
    out = np.zeros((5, 64, 2), dtype)
    run(f"calculate_pairs<{name}2>", a, b, c, out, np.int32(64))
    exact = a.astype(np.float32) * b.astype(np.float32) + c.astype(np.float32)
    expected = a + b, exact.astype(dtype), np.maximum(a, b), a[:, ::-1]
    for row, values in zip(out, expected, strict=False):
        assert_same_bits(row, values)
    assert_same_bits(out[4, 0], (a >= b).sum(0).astype(dtype))
