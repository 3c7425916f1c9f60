"""Arrays of more than 2^31 elements: index arithmetic anywhere, the arrays on a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import cupy_stand_in
import numpy as np
import pytest
from backends import STAND_IN, why_no_cuda
from own_kernels import empty, own_kernel
from together import together

import gpusolve

TILE = 3840


@together("length", [1, 7, 3840, 3841, 2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1, 2**40])
def test_rows_begin_at_multiples_of_their_length(
    length: int, rng: np.random.Generator
) -> None:
    starts = TILE * rng.integers(0, 2**40 // TILE, 200)
    items = rng.integers(0, TILE, 200).astype(np.int32)
    # Half of the items are at the first row that begins in their tile, if a row does.
    items[:100] = np.minimum(-starts[:100] % length, TILE - 1)
    begins = empty(200, bool)
    kernel = own_kernel("kernels/row_begins.cu", "row_begins_at")
    sizes = np.int32(200), np.int64(length), np.int32(TILE)
    kernel((1,), (224,), (starts, items, *sizes, begins))
    np.testing.assert_array_equal(begins, (starts + items) % length == 0)
    assert begins.any() or length > 2**30


@pytest.fixture(
    params=[pytest.param(2**31, marks=pytest.mark.gpu, id="cuda"), 5000],
)
def half(request: pytest.FixtureRequest) -> Iterator[int]:
    """The index around which results are checked, in an array that is a little longer.

    2^31 on a GPU; small on the stand-in, to check the tests themselves.
    """
    if request.param < 2**31:
        with cupy_stand_in.installed(1):
            yield request.param
        return
    if STAND_IN or why_no_cuda():
        pytest.skip(why_no_cuda() or "too large for the stand-in")
    yield request.param


def test_blocks_of_large_arrays(half: int) -> None:
    import cupy

    ones, zeros = cupy.ones(half + 5, cupy.uint8), cupy.zeros(half + 5, cupy.uint8)
    y = gpusolve.scan(ones)
    for i in (0, half - 1, half, half + 4):
        assert int(y[i]) == (i + 1) % 256
    flags = cupy.zeros(half + 5, bool)
    flags[half + 1] = True
    y = gpusolve.segmented_scan(ones, flags)
    assert [int(y[i]) for i in (half, half + 1, half + 4)] == [(half + 1) % 256, 1, 4]
    del ones, flags
    zeros[-2], zeros[-1] = 7, 9
    for variant in ("chunked", "group", "tree"):
        assert int(gpusolve.reduce(zeros, variant=variant)) == 16
    count, y = gpusolve.stable_partition(zeros, zeros != 0)
    assert int(count) == 2
    assert y[:3].tolist() == [7, 9, 0]
