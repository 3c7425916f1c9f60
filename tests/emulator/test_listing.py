"""What each source line costs, against counts that are known by hand."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends import needs_emulator

# Definitions before a source are the package's own.
from gpusolve import _emulator
from gpusolve.emulator import RawKernel, profile

pytestmark = needs_emulator

SOURCE = """\
template <class T>
__global__ void gather(const T* x, T* y, int* count) {
    __shared__ T tile[32][32];
    const int row = threadIdx.y, column = threadIdx.x;
    tile[row][column] = x[row * 32 + column];
    __syncthreads();
    const T value = tile[column][row];
    if (value > 0 && column < 8)
        y[column * 32 + row] = value;



    // Far from the lines before.


    atomicAdd(count, 1);
}
"""
WARPS, LANES = 32, 32
ACTIVE = 8  # lanes that write to y


def launched(dtype: type) -> Any:
    """Two launches of a block with a warp for each row."""
    name = {np.float32: "float", np.float64: "double"}[dtype]
    kernel = RawKernel(SOURCE, f"gather<{name}>")
    x, y = np.ones((2, WARPS, LANES), dtype)
    with profile() as report:
        for _ in range(2):
            kernel((1,), (LANES, WARPS), (x, y, np.zeros(1, np.int32)))
    return report


@pytest.fixture(scope="module")
def report() -> Any:
    return launched(np.float32)


def line_with(text: str, kernel: Any) -> Any:
    """The costs of the line of the source with this text."""
    number = 1 + next(k for k, line in enumerate(SOURCE.split("\n")) if text in line)
    return kernel.by_line[
        next(line for line in kernel.by_line if str(line) == f"kernel.cu:{number}")
    ]


def test_memory_of_each_line(report: Any) -> None:
    (kernel,) = report.kernels
    warps = 2 * WARPS
    load = line_with("x[row * 32 + column]", kernel)
    assert load.sectors == load.fewest_sectors == 4 * warps
    assert load.shared_requests == load.shared_wavefronts == warps
    assert load.shared_lanes == LANES * warps
    column = line_with("tile[column][row];", kernel)
    assert (column.shared_requests, column.sectors) == (warps, 0)
    assert (column.shared_wavefronts, column.fewest_wavefronts) == (32 * warps, warps)
    wavefronts = sorted(line.wavefronts for line in kernel.shared.values())
    assert wavefronts == [warps, 32 * warps]
    store = line_with("y[column * 32 + row]", kernel)
    assert (store.sectors, store.fewest_sectors) == (ACTIVE * warps, warps)
    atomic = line_with("atomicAdd", kernel)
    assert (atomic.atomics, atomic.sectors) == (LANES * warps, warps)
    assert sum(line.atomics for line in kernel.by_line.values()) == kernel.atomics


def test_lanes_of_each_line(report: Any) -> None:
    (kernel,) = report.kernels
    assert line_with("x[row * 32 + column]", kernel).active_lanes == LANES
    assert line_with("y[column * 32 + row]", kernel).active_lanes == ACTIVE
    total = sum(line.instructions for line in kernel.by_line.values())
    assert total == sum(kernel.instructions.values())


def test_passes_of_doubles_are_not_conflicts() -> None:
    (kernel,) = launched(np.float64).kernels
    load = line_with("x[row * 32 + column]", kernel)
    assert load.shared_wavefronts == load.fewest_wavefronts == 2 * 2 * WARPS


def test_the_listing(report: Any) -> None:
    heading, file, *lines = report.listing().splitlines()
    names = "instructions lanes sectors wavefronts atomics"
    assert heading.split("  ")[-1] == "gather<float>"
    assert " ".join(heading.split()[:-1]) == names
    assert file.strip() == "--- kernel.cu"
    source = SOURCE.splitlines()
    (store,) = [line for line in lines if "y[column" in line]
    cells = ["8.0", "512", "x8.0", "9", source[8].strip()]
    assert store.split(maxsplit=5)[1:] == cells
    assert any(line.strip() == "..." for line in lines)
    assert not any("Far from" in line for line in lines)


def test_the_html(report: Any) -> None:
    head, page = report._repr_html_().split("</div>")
    assert head.startswith("<style>")
    details = ET.fromstring(page)
    assert details.findtext("summary") == "gather<float>"
    rows = [list(row) for row in details.iter("tr")]
    assert len({len(row) for row in rows}) == 1
    by_text = {row[-1].text: row for row in rows}
    cells = by_text[SOURCE.splitlines()[8]]
    assert [cell.text for cell in cells[1:3]] == ["8.0", "512 x8.0 "]
    # 64 of the largest count, 512, are needed.
    assert " 12.5%, rgba(240, 130, 30, 0.5) 12.5% 100.0%" in cells[2].get("style", "")
    assert "    if (value > 0 && column < 8)" in by_text


def test_a_sample_multiplies_the_counts_of_lines() -> None:
    kernel = RawKernel("__global__ void f(float* x) {\n  x[blockIdx.x] = 1;\n}", "f")
    with profile(sample=2) as report:
        kernel((8,), (1,), (np.zeros(8, np.float32),))
    (costs,) = [c for c in report.kernels[0].by_line.values() if c.sectors]
    assert costs.sectors == 8


def test_definitions_and_a_missing_file(tmp_path: Path) -> None:
    source = tmp_path / "kernel.cu"
    source.write_text("__global__ void f(float* x) {\n  set(x);\n  x[8] = 2;\n}\n")
    definitions = "__device__ void set(float* x) {\n  *x = 1;\n}"
    kernel = _emulator.Kernel(source, "f", tmp_path, definitions)
    with profile() as report:
        kernel((1,), (1,), (np.zeros(9, np.float32),))
    source.unlink()
    listing = report.listing()
    assert re.search(r"^ +1 +1.0 +1 +2   \*x = 1;$", listing, re.M), listing
    assert re.search(r" +1 +other code, of the emulator$", listing), listing
