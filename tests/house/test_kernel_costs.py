"""Counted costs of public calls do not grow, and are near the least possible."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends import needs_emulator
from kernel_costs import (
    LIMIT,
    SECTOR_BYTES,
    Call,
    Costs,
    all_calls,
    changes,
    compiler_name,
    costs_of,
    report_of,
    rows_of,
    sums_of,
    written_compiler,
    written_rows,
)
from numpy.random import Generator
from together import together

import gpusolve
from gpusolve import emulator

# The emulator's own device has less shared memory than the H200 of the page.
from gpusolve._emulator._device import SHARED_MEMORY
from gpusolve._emulator._gpu import DEVICES

CALLS = all_calls()

pytestmark = needs_emulator


def named(name: str) -> Call:
    return next(call for call in CALLS if call.name == name)


@functools.cache
def counted(name: str) -> Any:
    """The costs of a call, which several tests check."""
    return report_of(named(name))


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(call, marks=[pytest.mark.slow] * (k % 6 > 0))
        for k, call in enumerate(CALLS)
    ],
    ids=lambda call: call.name,
)
def test_costs_are_those_of_the_table(call: Call) -> None:
    report = counted(call.name)
    written = written_rows().get(call.name, {})
    same_compiler = compiler_name() == written_compiler()
    changed = changes(written, rows_of(call, report), same_compiler)
    assert not changed, "\n".join(["update the table with: make tables", *changed])


def test_the_table_has_no_other_calls() -> None:
    assert list(written_rows()) == [call.name for call in CALLS]


@pytest.mark.slow
@together(
    "name",
    [
        *("scan float64", "segmented_scan flags", "nnls, float32"),
        *("nnls, by 8 lanes", "gam.BoostedGAM, path"),
    ],
)
def test_counts_do_not_depend_on_the_schedule(name: str) -> None:
    """Only the instructions of warps do: diverged lanes meet again sooner or later."""

    def costs(report: Any) -> list[Costs]:
        found = [costs_of(kernel) for kernel in report.kernels]
        return [cost - Counter(instructions=cost["instructions"]) for cost in found]

    call, expected = named(name), costs(counted(name))
    for seed in (1, 2):
        with emulator.schedule("random", seed):
            assert costs(report_of(call)) == expected


@pytest.mark.slow
@together("call", [call for call in CALLS if call.floor], ids=lambda call: call.name)
def test_bytes_are_near_the_floor_and_sectors_are_full(call: Call) -> None:
    sums = sums_of(counted(call.name))
    floor = call.floor * call.elements
    cached = SECTOR_BYTES * sums["distinct_sectors"]
    assert 0.99 * floor <= cached <= LIMIT * floor
    assert cached <= LIMIT * sums["distinct_bytes"]
    assert SECTOR_BYTES * sums["sectors"] <= (call.moved_limit or LIMIT) * floor
    if call.moved_limit is None:
        assert sums["sectors"] == sums["fewest_sectors"]


MUTATIONS = {
    "a strided read": (
        "reduce.cu",
        "return row * length + column;",
        "return row * length + column % 32 * (length / 32) + column / 32;",
        "bytes / element worse, from 4.141 to 32.2",
    ),
    "a second barrier": (
        "ordered.cuh",
        "turn_ ^= 1;",
        "turn_ ^= 1; __syncthreads();",
        "barriers worse, from 257 to 514",
    ),
    "idle lanes": (
        "reduce.cu",
        "if (threadIdx.x == 0) y[blockIdx.x] = result;",
        "if (lane_index() == 0) y[blockIdx.x] = result;",
        "lanes worse",
    ),
}
"""A file, a text in it, what replaces it, and the change that is reported."""


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_worse_kernel_is_reported(copied_sources: Path, mutation: str) -> None:
    file, text, replacement, change = MUTATIONS[mutation]
    source = (copied_sources / file).read_text()
    assert text in source
    (copied_sources / file).write_text(source.replace(text, replacement))
    call = named("reduce group")
    written = written_rows()[call.name]
    reported = changes(written, rows_of(call, report_of(call)), True)
    assert any(change in one for one in reported), reported


PAGE = Path(__file__).parents[2] / "benchmarks" / "results" / "costs.md"

SYSTEMS: dict[str, Callable[[Generator], Any]] = {
    "64 x 16, one matrix, 64 uniform random systems": lambda rng: (
        rng.random((64, 16)),
        rng.random((64, 64)),
    ),
    "64 x 16, one matrix, 2,048 uniform random systems": lambda rng: (
        rng.random((64, 16)),
        rng.random((2048, 64)),
    ),
    "64 x 16, one matrix, the first 512 systems of `gpu_calls.py`": lambda rng: (
        rng.standard_normal((64, 16)),
        rng.standard_normal((512, 64)),
    ),
    "30 x 10, 128 normal systems": lambda rng: (
        rng.standard_normal((128, 30, 10)),
        rng.standard_normal((128, 30)),
    ),
    "3 x 3, 512 uniform random systems": lambda rng: (
        rng.random((512, 3, 3)),
        rng.random((512, 3)),
    ),
}


@pytest.mark.skipif(compiler_name() != written_compiler(), reason="another compiler")
@pytest.mark.parametrize("name", SYSTEMS)
def test_instructions_of_small_systems_are_those_of_the_page(
    name: str, emulated: None
) -> None:
    A, b = SYSTEMS[name](np.random.default_rng(0))
    memory = SHARED_MEMORY.to(DEVICES["H200"].shared_bytes)
    with memory, emulator.profile() as report:
        assert not gpusolve.nnls(A, b, method="gram").status.any()
    found = sums_of(report)["instructions"] / len(b)
    row = rf"\| NNLS, {re.escape(name)}: for a system \| ([\d,]+) \|"
    written = re.search(row, PAGE.read_text())
    assert written is not None, f"{PAGE.name} lacks {name}"
    assert found == pytest.approx(int(written[1].replace(",", "")), rel=0.02)
