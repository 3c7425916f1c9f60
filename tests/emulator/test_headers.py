"""Kernels that use NVIDIA's headers: groups, libcu++, tiles, cuRAND."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends import needs_emulator

from gpusolve import emulator
from gpusolve.emulator import RawKernel

KERNELS = Path(__file__).parents[1] / "faulty_kernels"

pytestmark = needs_emulator


def run(file: str, name: str, *args: Any, blocks: int = 1, threads: int = 32) -> None:
    kernel = RawKernel(KERNELS / f"{file}.cu", name)
    kernel((blocks,), (threads,), args)


# ---- cooperative groups and libcu++ --------------------------------------------------


def run_group(name: str, *args: Any, **shape: int) -> None:
    """Under `races`, because groups order what their threads access."""
    with emulator.races():
        run("groups", name, *args, **shape)


def test_coalesced_threads_and_tiles(rng: np.random.Generator) -> None:
    x = rng.integers(0, 100, 32, dtype=np.int32)
    out = np.zeros((9, 32), np.int32)
    run_group("odd_threads", x, out)
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
    run_group("large_tiles", x, out, threads=128)
    tiles = x.reshape(2, 64)
    for row, values in zip(out, (tiles.sum(1), tiles[:, 3], [0, 1]), strict=True):
        np.testing.assert_array_equal(row, np.repeat(np.reshape(values, (2, 1)), 64, 1))


def test_a_cluster_of_one_block() -> None:
    x = np.arange(64, dtype=np.int32)
    out = np.zeros_like(x)
    run_group("reversed_by_cluster", x, out, threads=64)
    np.testing.assert_array_equal(out, x[::-1])


@pytest.mark.parametrize("blocks", [2, 5])
def test_barriers_of_the_grid(blocks: int) -> None:
    x, total = np.arange(32 * blocks, dtype=np.int32), np.zeros(3, np.int32)
    first = x[::32].sum()
    kernel = RawKernel(KERNELS / "groups.cu", "sum_of_blocks")
    with emulator.races():
        kernel((blocks,), (32,), (x, total, np.int32(3)), cooperative=True)
    np.testing.assert_array_equal(total, first * blocks ** np.arange(3))
    np.testing.assert_array_equal(x, total[-1])


def test_barriers_of_libcu(rng: np.random.Generator) -> None:
    x = rng.integers(0, 100, 64, dtype=np.int32)
    out = np.zeros(64, np.int32)
    run_group("exchange_by_barrier", x, out, threads=64)
    np.testing.assert_array_equal(out, x[np.arange(64) ^ 33])


def test_atomics_of_libcu_order_accesses() -> None:
    value, flag, count, out = np.zeros((4, 1), np.int32)
    run_group("send_by_atomics", value, flag, count, out, blocks=2)
    assert (out[0], count[0]) == (42, 64)


# ---- products of matrices ------------------------------------------------------------

TILES = [
    ("__half", "float", (16, 16, 16), "f2", "f4", "CF"),
    ("__half", "__half", (32, 8, 16), "f2", "f2", "FC"),
    ("__nv_bfloat16", "float", (8, 32, 16), None, "f4", "FF"),
    ("wmma::precision::tf32", "float", (16, 16, 8), "f4", "f4", "FC"),
    ("signed char", "int", (32, 8, 16), "i1", "i4", "CF"),
    ("unsigned char", "int", (16, 16, 16), "u1", "i4", "FF"),
    ("double", "double", (8, 8, 4), "f8", "f8", "FC"),
]
"""Types of the factors and sums, m x n x k, dtypes, and the orders of the factors."""


@pytest.mark.parametrize(
    ("type", "sum_type", "shape", "dtype", "sum_dtype", "layouts"), TILES
)
def test_products_of_tiles(
    type: str,
    sum_type: str,
    shape: tuple[int, int, int],
    dtype: str | None,
    sum_dtype: str,
    layouts: str,
    rng: np.random.Generator,
) -> None:
    """The values are small integers, of which all types have exact sums."""
    m, n, k = shape
    a, b = rng.integers(0, 8, (m, k)), rng.integers(0, 8, (k, n))
    c, d = rng.integers(0, 50, (m, n)).astype(sum_dtype), np.zeros((n, m), sum_dtype)
    given = [np.ravel(x, order) for x, order in zip((a, b), layouts, strict=True)]
    if dtype is None:  # bfloat16: the upper half of a float32
        bits = [x.astype("f4").view("u4") >> 16 for x in given]
        given = [x.astype("u2") for x in bits]
    else:
        given = [x.astype(dtype) for x in given]
    names = ["Rows" if order == "C" else "Columns" for order in layouts]
    parts = [type, sum_type, *map(str, shape), *names]
    run("tiles", f"product<{', '.join(parts)}>", *given, c, d)
    np.testing.assert_array_equal(d.T, 2 * (a @ b + c))


# ---- cuRAND --------------------------------------------------------------------------

PUBLISHED = np.array([0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], np.uint32)
"""Philox4x32-10 of zeros, from the authors' known answers."""


def test_a_sequence_of_random_numbers() -> None:
    out = np.zeros(12, np.uint32)
    for sequence in (0, 2**40 + 5):
        arguments = np.uint64(0), np.uint64(sequence), np.uint64(3), out
        run("random_numbers", "draw", *arguments, threads=1)
        if sequence == 0:
            np.testing.assert_array_equal(out[:4], PUBLISHED)
        np.testing.assert_array_equal(out[8:], out[3:7])
        assert np.unique(out[:8]).size == 8
