"""The emulator's half precision compared with NumPy's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpusolve import _emulator

KERNELS = Path(__file__).parents[1] / "faulty_kernels"

pytestmark = pytest.mark.skipif(
    _emulator.compiler() is None or sys.platform != "linux",
    reason="the emulator needs Linux and a C++ compiler",
)

ALL = np.arange(2**16, dtype=np.uint16).view(np.float16)


def run(instance: str, *args: Any) -> None:
    kernel = _emulator.Kernel(KERNELS / "half_precision.cu", instance, KERNELS)
    kernel((1,), (256,), args)


def assert_same_bits(found: Any, expected: Any) -> None:
    """Equal, including the sign of zero, but not the sign of NaN."""
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


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_arithmetic(rng: np.random.Generator) -> None:
    n = 20_000
    a, b = rng.choice(ALL, n), rng.choice(ALL, n)
    out = _emulator.empty((6, n), np.float16)
    run("calculate", a, b, out, np.int32(n))
    less = (a < b).astype(np.float16)
    expected = a + b, a - b, a * b, a / b, a - b, less
    for row, values in zip(out, expected, strict=True):
        assert_same_bits(row, values)
