"""The emulator's half precision beside NumPy's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpusolve import _emulator

KERNELS = Path(__file__).parent / "faulty_kernels"

pytestmark = pytest.mark.skipif(
    _emulator.compiler() is None or sys.platform != "linux",
    reason="the emulator wants Linux and a C++ compiler",
)

ALL = np.arange(2**16, dtype=np.uint16).view(np.float16)


def run(instance: str, *args: Any) -> None:
    kernel = _emulator.Kernel(KERNELS / "half_precision.cu", instance, KERNELS)
    kernel((1,), (256,), args)


def same_bits(found: Any, wanted: Any) -> None:
    """Equal, with the sign of zero; NaNs may differ in theirs."""
    np.testing.assert_array_equal(found, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(
        np.signbit(found)[numbers], np.signbit(wanted)[numbers]
    )


def test_to_float() -> None:
    y = _emulator.empty(ALL.size, np.float32)
    run("to_float", ALL, y, np.int32(ALL.size))
    same_bits(y, ALL.astype(np.float32))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_from_float() -> None:
    """Each half, what lies halfway to the next, a little beside that, and far away."""
    halves = ALL[np.isfinite(ALL)].astype(np.float32)
    between = (halves[:-1] + halves[1:]) / 2
    far = np.float32([65519.9, 65520, 1e30, np.inf, -np.inf, np.nan, 1e-45, -1e-10])
    x = np.concatenate(
        [
            halves,
            between,
            *(np.nextafter(between, s * np.float32(9e9)) for s in (-1, 1)),
            far,
        ]
    )
    y = _emulator.empty(x.size, np.float16)
    run("from_float", x, y, np.int32(x.size))
    same_bits(y, x.astype(np.float16))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_arithmetic(rng: np.random.Generator) -> None:
    n = 20_000
    a, b = rng.choice(ALL, n), rng.choice(ALL, n)
    out = _emulator.empty((6, n), np.float16)
    run("calculate", a, b, out, np.int32(n))
    less = (a < b).astype(np.float16)
    for found, wanted in zip(
        out, (a + b, a - b, a * b, a / b, a - b, less), strict=True
    ):
        same_bits(found, wanted)
