"""Groups of threads, barriers and atomics of libcu++, compared with NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from backends import needs_emulator

from gpusolve import _emulator

KERNELS = Path(__file__).parents[1] / "faulty_kernels"

pytestmark = needs_emulator


def run(name: str, *args: Any, blocks: int = 1, threads: int = 32) -> None:
    """Under `races`, because groups order what their threads access."""
    kernel = _emulator.Kernel(KERNELS / "groups.cu", name, KERNELS)
    with _emulator.races():
        kernel((blocks,), (threads,), args)


def test_coalesced_threads_and_tiles(rng: np.random.Generator) -> None:
    x = rng.integers(0, 100, 32, dtype=np.int32)
    out = np.zeros((9, 32), np.int32)
    run("odd_threads", x, out)
    is_odd = x % 2 != 0
    odd = x[is_odd]
    ranks = np.arange(odd.size)
    expected = [
        np.full(odd.size, odd.size),
        ranks,
        np.full(odd.size, odd.sum()),
        np.append(odd[1:], odd[-1]),
        np.cumsum(odd) - odd,
        np.full(odd.size, np.sum((odd > 50) << ranks)),
    ]
    for row, values in zip(out, expected, strict=False):
        np.testing.assert_array_equal(row[is_odd], values)
    assert not out[:6, ~is_odd].any()
    tiles = x.reshape(4, 8)
    np.testing.assert_array_equal(out[6], np.maximum.accumulate(tiles, 1).ravel())
    same = tiles[:, :, None] % 3 == tiles[:, None, :] % 3
    np.testing.assert_array_equal(out[7], (same * tiles[:, None, :]).sum(2).ravel())
    other = np.arange(32) ^ 5
    np.testing.assert_array_equal(out[8], x[other] + 1000 * other)


def test_tiles_of_several_warps(rng: np.random.Generator) -> None:
    x = rng.integers(0, 100, 128, dtype=np.int32)
    out = np.zeros((3, 2, 64), np.int32)
    run("large_tiles", x, out, threads=128)
    tiles = x.reshape(2, 64)
    for row, values in zip(out, (tiles.sum(1), tiles[:, 3], [0, 1]), strict=True):
        np.testing.assert_array_equal(row, np.repeat(np.reshape(values, (2, 1)), 64, 1))


def test_barriers_of_libcu(rng: np.random.Generator) -> None:
    x = rng.integers(0, 100, 64, dtype=np.int32)
    out = np.zeros(64, np.int32)
    run("exchange_by_barrier", x, out, threads=64)
    np.testing.assert_array_equal(out, x[np.arange(64) ^ 33])


def test_atomics_of_libcu_order_accesses() -> None:
    value, flag, count, out = np.zeros((4, 1), np.int32)
    run("send_by_atomics", value, flag, count, out, blocks=2)
    assert (out[0], count[0]) == (42, 64)
