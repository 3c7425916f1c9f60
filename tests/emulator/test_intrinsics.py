"""CUDA's intrinsic functions, against NumPy and Python's integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends import needs_emulator

from gpusolve import _emulator

KERNELS = Path(__file__).parents[1] / "faulty_kernels"

pytestmark = needs_emulator


def run(name: str, *args: Any, blocks: int = 1) -> None:
    kernel = _emulator.Kernel(KERNELS / "intrinsics.cu", name, KERNELS)
    kernel((blocks,), (32,), args, cooperative=blocks > 1)


def signed(values: Any, bits: int = 32) -> Any:
    """Python integers, as an integer with this number of bits stores them."""
    return (values + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def test_integers(rng: np.random.Generator) -> None:
    a, b = rng.integers(-(2**31), 2**31, (2, 32), dtype=np.int32)
    out = np.zeros((14, 32), np.int64)
    run("integers", a, b, out)
    x, y = a.astype(object), b.astype(object)
    u, v = x % 2**32, y % 2**32
    both = v * 2**32 + u
    expected = [
        signed(signed(x, 24) * signed(y, 24)),
        (u % 2**24) * (v % 2**24) % 2**32,
        x * y // 2**32,
        u * v // 2**32,
        (abs(x - y) + 3) % 2**32,
        (abs(u - v) + 3) % 2**32,
        np.minimum(u, v),
        np.maximum(u, v),
        sum((both >> 8 * byte) % 256 << 8 * k for k, byte in enumerate((0, 2, 4, 6))),
        (both << 5 >> 32) % 2**32,
        (both >> 5) % 2**32,
        x,
        y,
        0 * x - 2**31,
    ]
    np.testing.assert_array_equal(out, expected)


def test_conversions(rng: np.random.Generator) -> None:
    x = rng.integers(-400, 400, 32) / 4
    x[:6] = [0.5, 1.5, -0.5, 1e12, -1e12, np.nan]
    out = np.zeros((6, 32), np.int64)
    run("conversions", x, out)

    def clipped(values: Any, low: int = -(2**31), high: int = 2**31 - 1) -> Any:
        return np.clip(np.nan_to_num(values, nan=0), low, high)

    rounded = [np.rint(x), np.trunc(x), np.floor(x), np.ceil(x), np.rint(x)]
    expected = [clipped(values) for values in rounded]
    np.testing.assert_array_equal(out[:5], expected)
    np.testing.assert_array_equal(out[5], clipped(np.trunc(x), 0, 2**32 - 1))


@pytest.mark.parametrize("mask", [0xFFFFFFFF, 0x0F0F00F1, 0x10])
def test_functions_of_a_warp(rng: np.random.Generator, mask: int) -> None:
    x = rng.integers(-3, 3, 32, dtype=np.int32)
    out = np.zeros((9, 32), np.uint32)
    run("lanes", x, np.uint32(mask), out)
    chosen = np.flatnonzero([mask >> lane & 1 for lane in range(32)])
    u = x.view(np.uint32)
    equal = len(set(x[chosen])) == 1
    same = [sum(1 << k for k in chosen if x[k] == x[lane]) for lane in chosen]
    expected = [
        int(x[chosen].sum()) % 2**32,
        int(x[chosen].min()) % 2**32,
        u[chosen].max(),
        np.bitwise_and.reduce(u[chosen]),
        np.bitwise_or.reduce(u[chosen]),
        np.bitwise_xor.reduce(u[chosen]),
        same,
        mask * equal,
        equal,
    ]
    for row, value in zip(out, expected, strict=True):
        np.testing.assert_array_equal(row[chosen], value)
    assert not np.delete(out, chosen, axis=1).any()


def test_reductions_of_tiles(rng: np.random.Generator) -> None:
    x = rng.integers(-99, 99, 32, dtype=np.int32)
    out = np.zeros((3, 4, 8), np.int32)
    run("tiles", x, out)
    tiles = x.reshape(4, 8)
    for row, reduced in zip(
        out, (tiles.sum(1), tiles.min(1), tiles.max(1)), strict=True
    ):
        np.testing.assert_array_equal(row, np.repeat(reduced[:, None], 8, 1))


@pytest.mark.parametrize("blocks", [2, 5])
def test_barriers_of_the_grid(blocks: int) -> None:
    x, total = np.arange(32 * blocks, dtype=np.int32), np.zeros(3, np.int32)
    first = x[::32].sum()
    with _emulator.races():
        run("sum_of_blocks", x, total, np.int32(3), blocks=blocks)
    np.testing.assert_array_equal(total, first * blocks ** np.arange(3))
    np.testing.assert_array_equal(x, total[-1])
