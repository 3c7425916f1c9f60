"""Arrays beyond 2^31 elements: their arithmetic anywhere, themselves on a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusolve
from gpusolve import _emulator
from gpusolve._kernels import source_directory

SOURCE = Path(__file__).parent / "kernels" / "row_begins.cu"
TILE = 3840
N = 2**31 + 5


@pytest.mark.parametrize(
    "length", [1, 7, 3840, 3841, 2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1, 2**40]
)
def test_rows_begin_where_they_should(length: int, rng: np.random.Generator) -> None:
    starts = TILE * rng.integers(0, 2**40 // TILE, 200)
    items = rng.integers(0, TILE, 200).astype(np.int32)
    close = starts[:100] + np.minimum(-starts[:100] % length, TILE - 1)
    items[:100] = close - starts[:100]  # those that begin a row, if one begins there
    begins = _emulator.empty(200, bool)
    kernel = _emulator.Kernel(SOURCE, "row_begins", source_directory())
    sizes = np.int32(200), np.int64(length), np.int32(TILE)
    kernel((1,), (224,), (starts, items, *sizes, begins))
    np.testing.assert_array_equal(begins, (starts + items) % length == 0)
    assert begins.any() or length > 2**30


@pytest.mark.parametrize("length", [2**31 - 1, 2**31 + 1])
def test_a_long_row_begins(length: int) -> None:
    starts = np.arange(length - length % TILE, length + 2 * TILE, TILE)
    begun = []
    kernel = _emulator.Kernel(SOURCE, "row_begins", source_directory())
    for start in starts:
        items = np.arange(TILE, dtype=np.int32)
        for part in items.reshape(-1, 240):
            begins = _emulator.empty(240, bool)
            sizes = np.int32(240), np.int64(length), np.int32(TILE)
            every = np.full(240, start, np.int64)
            kernel((1,), (256,), (every, np.ascontiguousarray(part), *sizes, begins))
            begun += list(start + part[begins])
    assert begun == [length]


@pytest.fixture
def cupy() -> Any:
    module = pytest.importorskip("cupy")
    if not module.cuda.is_available():
        pytest.skip("CuPy finds no CUDA device")
    return module


@pytest.mark.gpu
def test_scan(cupy: Any) -> None:
    y = gpusolve.scan(cupy.ones(N, cupy.uint8))
    for i in (0, 2**31 - 1, 2**31, N - 1):
        assert int(y[i]) == (i + 1) % 256


@pytest.mark.gpu
def test_segmented_scan(cupy: Any) -> None:
    flags = cupy.zeros(N, bool)
    flags[2**31 + 1] = True
    y = gpusolve.segmented_scan(cupy.ones(N, cupy.uint8), flags)
    assert [int(y[i]) for i in (2**31, 2**31 + 1, N - 1)] == [1, 1, 4]


@pytest.mark.gpu
@pytest.mark.parametrize("variant", ["chunked", "group", "tree"])
def test_reduce(cupy: Any, variant: str) -> None:
    x = cupy.zeros(N, cupy.uint8)
    x[-1] = x[2**31] = 1
    assert int(gpusolve.reduce(x, variant=variant)) == 2


@pytest.mark.gpu
def test_partition(cupy: Any) -> None:
    x = cupy.zeros(N, cupy.uint8)
    x[-2:] = 7, 9
    count, y = gpusolve.stable_partition(x, x != 0)
    assert int(count) == 2
    assert y[:3].tolist() == [7, 9, 0]
