"""Arrays beyond 2^31 elements: their arithmetic anywhere, themselves on a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusolve
from gpusolve import _emulator
from gpusolve._kernels import source_directory

SOURCE = Path(__file__).parent / "kernels" / "row_heads.cu"
N = 2**31 + 5


@pytest.mark.parametrize("length", [2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1, 2**40])
def test_rows_begin_where_they_should(length: int) -> None:
    offsets = np.array([0, 1, 2, 3839], np.int32)
    columns, items = (
        part.ravel()
        for part in np.meshgrid(
            np.array([0, 1, length - 3839, length - 1], np.int64), offsets
        )
    )
    items = np.append(items, (length - columns[-4:]).clip(0, 3839)).astype(np.int32)
    columns = np.append(columns, columns[-4:])
    begins = _emulator.empty(len(columns), bool)
    kernel = _emulator.Kernel(SOURCE, "row_heads", source_directory())
    arguments = (columns, items, np.int32(len(columns)), np.int64(length), begins)
    kernel((1,), (32,), arguments)
    np.testing.assert_array_equal(begins, (columns + items) % length == 0)
    assert begins.any()


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
