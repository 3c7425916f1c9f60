"""cuRAND's device functions: Philox's published values, and distributions by SciPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from backends import needs_emulator
from scipy import stats

from gpusolve import _emulator

KERNELS = Path(__file__).parents[1] / "faulty_kernels"

pytestmark = needs_emulator

PUBLISHED = np.array(
    [
        [0, 0, 0, 0, 0, 0, 0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8],
        [0xFFFFFFFF] * 6 + [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0]
        + [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ],
    np.uint32,
)
"""Counters, keys and results of Philox4x32-10, from the authors' known answers."""


def run(name: str, *args: Any, blocks: int = 1, threads: int = 1) -> None:
    kernel = _emulator.Kernel(KERNELS / "random_numbers.cu", name, KERNELS)
    kernel((blocks,), (threads,), args)


def test_published_values() -> None:
    counters, keys = PUBLISHED[:, :4].copy(), PUBLISHED[:, 4:6].copy()
    out = np.zeros((3, 4), np.uint32)
    run("philox", counters, keys, out, threads=3)
    np.testing.assert_array_equal(out, PUBLISHED[:, 6:])


def test_a_state_is_a_key_and_a_counter() -> None:
    out = np.zeros(12, np.uint32)
    for sequence in (0, 2**40 + 5):
        run("draw", np.uint64(0), np.uint64(sequence), np.uint64(3), out)
        if sequence == 0:
            np.testing.assert_array_equal(out[:4], PUBLISHED[0, 6:])
        np.testing.assert_array_equal(out[8:], out[3:7])
        assert np.unique(out[:8]).size == 8


def test_distributions() -> None:
    n, threads = 16, 256
    uniform, normal = np.zeros((2, threads * n), np.float32)
    more = np.zeros(threads * n)
    run("fill", uniform, normal, more, np.int32(n), blocks=2, threads=threads // 2)
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3
    assert stats.kstest(more, "uniform").pvalue > 1e-3
    assert stats.kstest(normal, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(normal[::2], normal[1::2])[0, 1]) < 5 / np.sqrt(normal.size)
