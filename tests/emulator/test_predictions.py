"""Predicted times of kernels next to published times.

The kernels in ``tests/published`` are ours, written after the descriptions of the
published kernels; ``published.json`` has the published figures with their sources, and
the GPUs on which they were measured. No figure is fitted to a single kernel.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from together import together

from gpusolve.emulator import Device, RawKernel, profile

DIRECTORY = Path(__file__).parents[1] / "published"
SAMPLE = 2
"""Blocks that run of each launch."""

Shape = tuple[int, ...]


class Launch(NamedTuple):
    """A kernel's launch for a problem of size n, and its result."""

    file: str
    instance: str
    grid: Callable[[int], Shape]
    block: Shape
    arguments: Callable[[int], tuple[Any, ...]]
    expected: Callable[..., np.ndarray[Any, Any]]


class Row(NamedTuple):
    """A measured time, published or our own, and its prediction, in seconds."""

    series: str
    name: str
    published: float
    predicted: float
    low: float
    high: float

    @property
    def factor(self) -> float:
        """How far the prediction is from the measured time, at least 1."""
        return math.exp(abs(math.log(self.predicted / self.published)))


def _matrices(n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    A, B = rng.random((2, n, n), np.float32)
    return A, B, np.zeros((n, n), np.float32), np.int32(n)


def _product(A: Any, B: Any, C: Any, n: Any) -> Any:
    return A @ B


def _elements(per_block: int) -> Callable[[int], tuple[Any, ...]]:
    def arguments(n: int) -> tuple[Any, ...]:
        x = np.random.default_rng(0).random(n, np.float32)
        return x, np.zeros(n // per_block, np.float32), np.int32(per_block // 256)

    return arguments


def _sums(x: Any, y: Any, count: Any) -> Any:
    return x.reshape(len(y), -1).sum(axis=1, dtype=np.float64)


def _matrix(n: int) -> tuple[Any, ...]:
    x = np.random.default_rng(0).random((n, n), np.float32)
    return x, np.zeros_like(x), np.int32(n)


def _transposed(x: Any, y: Any, n: Any) -> Any:
    return x.T


def _tiled(file: str, instance: str, tile: int, block: Shape) -> Launch:
    """A kernel with a block for each tile of a matrix."""
    arguments, expected = {
        "sgemm.cu": (_matrices, _product), "transpose.cu": (_matrix, _transposed)
    }[file]  # fmt: skip
    grid = lambda n: (n // tile, n // tile)  # noqa: E731
    return Launch(file, instance, grid, block, arguments, expected)


def _reduction(number: int, per_block: int) -> Launch:
    arguments, instance = _elements(per_block), f"reduce_{number}"
    grid = lambda n: (n // per_block,)  # noqa: E731
    return Launch("reduction.cu", instance, grid, (256,), arguments, _sums)


SGEMM = [
    ("sgemm_1", 32, (32, 32)), ("sgemm_2", 32, (32, 32)), ("sgemm_3", 32, (32, 32)),
    ("sgemm_4", 64, (512,)), ("sgemm_5", 128, (256,)),
    ("sgemm_vector<InOrder, 8>", 128, (256,)),
    ("sgemm_vector<Rearranged, 8>", 128, (256,)),
    ("sgemm_vector<Padded, 8>", 128, (256,)),
    ("sgemm_vector<InOrder, 16>", 128, (256,)),
    ("sgemm_10", 128, (128,)),
]  # fmt: skip
TRANSPOSE = {
    "naive": ("transpose_naive", 32, (32, 32)),
    "naive, 16 x 16": ("transpose_naive", 16, (16, 16)),
    "gather, 16 x 16": ("transpose_gather", 16, (16, 16)),
    "tile": ("transpose_tile<32, 32>", 32, (32, 32)),
    "padded": ("transpose_tile<33, 32>", 32, (32, 32)),
    "padded, 2 each": ("transpose_tile<33, 16>", 32, (32, 16)),
    "padded, 4 each": ("transpose_tile<33, 8>", 32, (32, 8)),
    "padded, 8 each": ("transpose_tile<33, 4>", 32, (32, 4)),
}
"""Instance, tile and block of the published kernels."""

LAUNCHES = {
    **{f"sgemm {k}": _tiled("sgemm.cu", *row) for k, row in enumerate(SGEMM, 1)},
    **{f"reduction {k}": _reduction(k, 256) for k in (0, 1, 2)},
    **{f"reduction {k}": _reduction(k, 512) for k in (3, 4, 5)},
    **{f"reduction {k}": _reduction(k, 128 * 256) for k in (6, 7)},
    **{f"transpose {k}": _tiled("transpose.cu", *row) for k, row in TRANSPOSE.items()},
}


def run(launch: Launch, n: int) -> None:
    """Run a kernel completely, and compare its result with NumPy's."""
    arguments = launch.arguments(n)
    kernel = RawKernel(DIRECTORY / launch.file, launch.instance)
    kernel(launch.grid(n), launch.block, arguments)
    expected = launch.expected(*arguments)
    np.testing.assert_allclose(arguments[-2], expected, rtol=1e-5)


def predicted_row(series: str, name: str, n: int, seconds: float, gpu: Device) -> Row:
    """A measured time and the prediction for the GPU."""
    launch = LAUNCHES[name]
    kernel = RawKernel(DIRECTORY / launch.file, launch.instance)
    with profile(sample=SAMPLE) as report:
        kernel(launch.grid(n), launch.block, launch.arguments(n))
    (one,) = report.predict(gpu).kernels
    return Row(series, name, seconds, one.seconds, one.low, one.high)


def rows(series: dict[str, Any]) -> list[Row]:
    """The predictions of a published series."""
    gpu = Device(**series["device"])
    return [
        predicted_row(series["name"], name, series["n"], seconds, gpu)
        for name, seconds in series["seconds"].items()
    ]


def wrong_pairs(found: list[Row]) -> list[tuple[str, str]]:
    """Pairs whose published times differ by 20 %, predicted in the other order."""
    return [
        (a.name, b.name)
        for first, second in combinations(found, 2)
        for a, b in [sorted((first, second), key=lambda row: row.published)]
        if b.published >= 1.2 * a.published and b.predicted <= a.predicted
    ]


def published() -> list[dict[str, Any]]:
    """The series, with their devices and sources."""
    text = (DIRECTORY / "published.json").read_text()
    return list(json.loads(text))


# ---- tests ---------------------------------------------------------------------------

SMALL = {"sgemm.cu": 128, "reduction.cu": 1 << 16, "transpose.cu": 64}

MEAN, WORST = 1.5, 2.0
"""The goal: factors between predicted and published times."""

BEYOND = {"transpose naive": 2.2}
"""Kernels that miss the goal, and the factor that they reach. The writes of a warp are
to 32 rows that are 128 KB apart: page tables and sets of the L2 cache are not in the
model."""


@pytest.mark.slow
@together("name", LAUNCHES)
def test_kernels_are_right(name: str) -> None:
    run(LAUNCHES[name], SMALL[LAUNCHES[name].file])


@pytest.mark.slow
@pytest.mark.parametrize("series", published(), ids=lambda one: one["name"])
def test_predictions_are_near_the_published_times(series: dict[str, Any]) -> None:
    """Kernels whose published times differ by a fifth are in the right order."""
    found = rows(series)
    assert np.mean([row.factor for row in found]) <= MEAN
    for row in found:
        assert row.factor <= BEYOND.get(row.name, WORST), row
        assert row.low <= row.predicted <= row.high
    assert wrong_pairs(found) == []


def test_the_stored_page_has_the_published_times() -> None:
    results = Path(__file__).parents[2] / "benchmarks" / "results"
    page = (results / "predictions.md").read_text()
    for series in published():
        for name, seconds in series["seconds"].items():
            assert f"| {name} | {1e6 * seconds:,.0f} |" in page
