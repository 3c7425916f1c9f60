"""The primitives of ``block.cuh``, in several orders of the threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from numpy.testing import assert_array_equal
from own_kernels import empty, own_kernel
from together import together

DTYPES = (np.float32, np.float64)


def kernel(name: str, dtype: Any) -> Any:
    return own_kernel("kernels/block_primitives.cu", name, dtype)


@pytest.mark.paper("Luo, Algorithm 4")
@pytest.mark.parametrize("dtype", DTYPES)
def test_reduce512_sums_512_values(schedule: str, rng: Generator, dtype: Any) -> None:
    """With a barrier of the warp between reading and writing, every thread has the sum
    of 512 values, in each order of the threads.
    """
    values = rng.integers(-1000, 1000, 512).astype(dtype)
    sums = empty(512, dtype)
    kernel("sum_by_reduce512", dtype)((1,), (512,), (values, sums))
    assert_array_equal(sums, values.sum())


@together("dtype", DTYPES)
@together("threads", [32, 64, 96, 256, 512, 1024])
def test_block_reduce_gives_every_thread_the_result(
    schedule: str, rng: Generator, dtype: Any, threads: int
) -> None:
    values = rng.integers(0, 1000, (2, threads)).astype(dtype)
    sums, maxima = (empty((2, threads), dtype) for _ in range(2))
    rounds = 3
    kernel("sum_and_maximum", dtype)(
        (2,), (threads,), (values, np.int32(rounds), sums, maxima)
    )
    last = values + rounds - 1
    assert_array_equal(sums, np.tile(last.sum(1)[:, None], threads))
    assert_array_equal(maxima, np.tile(last.max(1)[:, None], threads))


@pytest.mark.parametrize("dtype", DTYPES)
def test_block_reduce_gives_every_thread_the_same_bits(
    schedule: str, rng: Generator, dtype: Any
) -> None:
    values = rng.standard_normal(256).astype(dtype)
    sums, maxima = (empty(256, dtype) for _ in range(2))
    kernel("sum_and_maximum", dtype)((1,), (256,), (values, np.int32(1), sums, maxima))
    assert len(np.unique(sums)) == 1
    assert sums[0] == pytest.approx(values.sum(dtype=float), abs=1e-4)


@together("count", [0, 1, 31, 64, 1000])
def test_argmax_gives_the_first_maximum(
    schedule: str, rng: Generator, count: int
) -> None:
    values = rng.integers(-5, 5, count).astype(np.float64)
    indices = empty(64, np.int32)
    kernel("first_maximum", np.float64)((1,), (64,), (values, np.int32(count), indices))
    assert_array_equal(indices, np.argmax(values) if count else -1)


@together(("rows", "columns"), [(1, 1), (5, 200), (200, 5), (70, 70), (3, 0)])
@together("contiguous", [0, 1])
def test_reduce_each_sums_rows(
    schedule: str, rng: Generator, rows: int, columns: int, contiguous: int
) -> None:
    matrix = rng.integers(-9, 9, (rows, columns)).astype(np.float64)
    sums = empty(rows, np.float64)
    kernel("row_sums", np.float64)(
        (1,),
        (96,),
        (matrix, np.int32(rows), np.int32(columns), np.int32(contiguous), sums),
    )
    assert_array_equal(sums, matrix.sum(axis=1))
