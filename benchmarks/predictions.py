"""Predicted times of kernels next to published times.

The kernels in ``predicted/`` are ours, written after the descriptions of the published
kernels; ``predicted/published.json`` has the published figures with their sources, and
the GPUs on which they were measured. No figure is fitted to a single kernel.

    python benchmarks/predictions.py
    python benchmarks/predictions.py --gpu    # times on this GPU instead

The second command times our kernels, and predicts them for the same GPU.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from harness import cuda_events, cupy_with_device, gpu_name, timing

from gpusolve.emulator import Device, RawKernel, profile

DIRECTORY = Path(__file__).parent / "predicted"
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


def _sgemm(instance: str, tile: int, block: Shape) -> Launch:
    return Launch(
        "sgemm.cu",
        instance,
        lambda n: (n // tile, n // tile),
        block,
        _matrices,
        _product,
    )


def _elements(per_block: int) -> Callable[[int], tuple[Any, ...]]:
    def arguments(n: int) -> tuple[Any, ...]:
        x = np.random.default_rng(0).random(n, np.float32)
        return x, np.zeros(n // per_block, np.float32), np.int32(per_block // 256)

    return arguments


def _sums(x: Any, y: Any, count: Any) -> Any:
    return x.reshape(len(y), -1).sum(axis=1, dtype=np.float64)


def _reduction(instance: str, per_block: int) -> Launch:
    return Launch(
        "reduction.cu",
        instance,
        lambda n: (n // per_block,),
        (256,),
        _elements(per_block),
        _sums,
    )


def _matrix(n: int) -> tuple[Any, ...]:
    x = np.random.default_rng(0).random((n, n), np.float32)
    return x, np.zeros_like(x), np.int32(n)


def _transposed(x: Any, y: Any, n: Any) -> Any:
    return x.T


def _transpose(instance: str, rows: int, tile: int = 32) -> Launch:
    return Launch(
        "transpose.cu",
        instance,
        lambda n: (n // tile, n // tile),
        (tile, rows),
        _matrix,
        _transposed,
    )


LAUNCHES = {
    "sgemm 1": _sgemm("sgemm_1", 32, (32, 32)),
    "sgemm 2": _sgemm("sgemm_2", 32, (32, 32)),
    "sgemm 3": _sgemm("sgemm_3", 32, (32, 32)),
    "sgemm 4": _sgemm("sgemm_4", 64, (512,)),
    "sgemm 5": _sgemm("sgemm_5", 128, (256,)),
    "sgemm 6": _sgemm("sgemm_vector<InOrder, 8>", 128, (256,)),
    "sgemm 7": _sgemm("sgemm_vector<Rearranged, 8>", 128, (256,)),
    "sgemm 8": _sgemm("sgemm_vector<Padded, 8>", 128, (256,)),
    "sgemm 9": _sgemm("sgemm_vector<InOrder, 16>", 128, (256,)),
    "sgemm 10": _sgemm("sgemm_10", 128, (128,)),
    **{f"reduction {k}": _reduction(f"reduce_{k}", 256) for k in (0, 1, 2)},
    **{f"reduction {k}": _reduction(f"reduce_{k}", 512) for k in (3, 4, 5)},
    **{f"reduction {k}": _reduction(f"reduce_{k}", 128 * 256) for k in (6, 7)},
    "transpose naive": _transpose("transpose_naive", 32),
    "transpose naive, 16 x 16": _transpose("transpose_naive", 16, 16),
    "transpose gather, 16 x 16": _transpose("transpose_gather", 16, 16),
    "transpose tile": _transpose("transpose_tile<32, 32>", 32),
    "transpose padded": _transpose("transpose_tile<33, 32>", 32),
    "transpose padded, 2 each": _transpose("transpose_tile<33, 16>", 16),
    "transpose padded, 4 each": _transpose("transpose_tile<33, 8>", 8),
    "transpose padded, 8 each": _transpose("transpose_tile<33, 4>", 4),
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


# ---- on a GPU ------------------------------------------------------------------------

REPEATS = 5

LANES = {
    75: {"float32": 64, "float64": 2, "integer": 64, "special": 16, "load": 16},
    80: {"float32": 64, "float64": 32, "integer": 64, "special": 16, "load": 32},
    86: {"float32": 128, "float64": 2, "integer": 64, "special": 16, "load": 16},
    90: {"float32": 128, "float64": 64, "integer": 64, "special": 16, "load": 32},
}
"""By the first architecture that has them. From the CUDA C++ Programming Guide."""

L2_SHARE = 0.35
"""Bandwidth of the L2 cache over 64 bytes per clock and multiprocessor. Assumed: an
H200 has 0.33, an A100 0.45."""


def described(name: str, capability: int, limits: Mapping[str, int]) -> Device:
    """The device that CUDA's attributes describe, by the names that CuPy has."""
    clock, multiprocessors = 1e3 * limits["ClockRate"], limits["MultiProcessorCount"]
    shared_bytes = limits["MaxSharedMemoryPerMultiprocessor"]
    bits = 2 * limits["GlobalMemoryBusWidth"]  # at both edges of the clock
    return Device(
        name,
        multiprocessors,
        clock,
        memory=1e3 * limits["MemoryClockRate"] * bits / 8,
        l2=L2_SHARE * 64 * clock * multiprocessors,
        l2_bytes=limits["L2CacheSize"],
        l1_bytes=shared_bytes + (28 << 10),
        shared_bytes=shared_bytes,
        registers=limits["MaxRegistersPerMultiprocessor"],
        threads=limits["MaxThreadsPerMultiProcessor"],
        blocks=limits["MaxBlocksPerMultiprocessor"],
        lanes=LANES[max(one for one in LANES if one <= max(75, capability))],
        architecture=capability,
    )


def measured(cupy: Any, launch: Launch, n: int) -> float:
    """Seconds of a launch, the median of some with a cold L2 cache."""
    module = cupy.RawModule(
        code=(DIRECTORY / launch.file).read_text(),
        options=("--std=c++17", f"-I{DIRECTORY}"),
        name_expressions=(launch.instance,),
    )
    kernel = module.get_function(launch.instance)
    arguments = [
        cupy.asarray(one) if isinstance(one, np.ndarray) else one
        for one in launch.arguments(n)
    ]
    call = partial(kernel, launch.grid(n), launch.block, tuple(arguments))
    return timing(cuda_events(cupy), call, REPEATS).median


def on_this_gpu(cupy: Any, series: dict[str, Any]) -> tuple[Device, list[Row]]:
    """The kernels of a series, measured and predicted for this GPU."""
    device = cupy.cuda.Device()
    capability = int(device.compute_capability)
    gpu = described(gpu_name(cupy), capability, device.attributes)
    name, n = series["name"], series["n"]
    return gpu, [
        predicted_row(name, one, n, measured(cupy, LAUNCHES[one], n), gpu)
        for one in series["seconds"]
    ]


# ---- the page ------------------------------------------------------------------------


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


ABOUT = """\
# Predictions next to published times

`python benchmarks/predictions.py`

Times that others measured and published, and `report.predict` for our own kernels,
which are written after the descriptions: `benchmarks/predicted/`. The emulator checks
the result of each kernel, and counts two blocks of the grid. **No time here is measured
by this project.** No constant of the model is fitted to a kernel; each constant stands
once, with its source, in `gpusolve/_emulator/_latencies.py`, `_predict.py`, `_gpu.py`.

The factor is predicted over published. The goal: the mean of the factors, each taken
as at least 1, is at most 1.5, the worst at most 2, and kernels whose published times
differ by 20 % are in the right order. One kernel misses it: the naive transpose of a
matrix of 32,768 rows, whose warps write to rows that are 128 KB apart. Page tables and
the sets of the L2 cache are not in the model.
"""


def table(title: str, about: str, timed: str, found: list[Row]) -> str:
    """A section of the page."""
    lines = [
        f"## {title}",
        "",
        about,
        "",
        f"| kernel | {timed}, µs | predicted, µs | range, µs | factor |",
        "| --- | ---: | ---: | --- | ---: |",
    ]
    for row in found:
        seconds, predicted, low, high = (
            f"{1e6 * one:,.0f}"
            for one in (row.published, row.predicted, row.low, row.high)
        )
        factor = row.predicted / row.published
        lines.append(
            f"| {row.name} | {seconds} | {predicted} | {low} to {high} | {factor:.2f} |"
        )
    factors = [row.factor for row in found]
    wrong = "; ".join(map(" before ".join, wrong_pairs(found)))
    lines += [
        "",
        f"Factor: mean {np.mean(factors):.2f}, worst {max(factors):.2f}. Pairs in the "
        f"wrong order: {wrong or 'none'}.",
        "",
    ]
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--gpu", action="store_true", help="time the kernels on this GPU")
    return made.parse_args()


def main() -> None:
    options = arguments()
    cupy = cupy_with_device() if options.gpu else None
    if options.gpu and not cupy:
        raise SystemExit("--gpu needs CuPy and a GPU")
    if not cupy:
        print(ABOUT)
    for series in published():
        if cupy:
            gpu, found = on_this_gpu(cupy, series)
            title, about = f"{series['name']}, {gpu.name}", f"Our kernels: {gpu}."
            print(table(title, about, "measured", found))
        else:
            title = f"{series['name']}, {series['device']['name']}"
            print(table(title, f"{series['source']}.", "published", rows(series)))


if __name__ == "__main__":
    main()
