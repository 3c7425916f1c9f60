"""Predictions against counts and latencies that are added up by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from together import together

# The figures of the model, which predictions are added up from.
from gpusolve._emulator._costs import SECTOR_BYTES
from gpusolve._emulator._gpu import DEVICES, LATENCY_CLOCKS, MB
from gpusolve._emulator._predict import (
    GRID_BARRIER_SECONDS,
    LAUNCH_SECONDS,
    LOADED_MEMORY,
    MEMORY_SHARE,
)
from gpusolve.emulator import Device, RawKernel, RawModule, profile

SOURCE = Path(__file__).parents[1] / "kernels" / "profiled.cu"

H200 = DEVICES["H200"]


def costs_of(name: str, grid: int, block: int, *args: Any, sample: Any = None) -> Any:
    """The profile of one launch."""
    with profile(sample=sample) as report:
        RawKernel(SOURCE, name)((grid,), (block,), args)
    return report


def floats(n: int) -> np.ndarray[Any, Any]:
    return np.arange(n, dtype=np.float32)


def copy(blocks: int, threads: int, **keywords: Any) -> Any:
    n = blocks * threads
    return costs_of(
        "copy", blocks, threads, floats(n), np.zeros(n, "f"), np.int32(n), **keywords
    )


def seconds_of_bytes(count: int) -> dict[str, float]:
    return {"device memory": count / MEMORY_SHARE / H200.memory, "L2": count / H200.l2}


N = 32 * 128
PARTS: dict[str, tuple[int, int, tuple[Any, ...], dict[str, float]]] = {
    # Each number is read and written, also of an array in place.
    "copy": (32, 128, (floats(N), floats(N), np.int32(N)), seconds_of_bytes(8 * N)),
    "increment": (32, 128, (floats(N),), seconds_of_bytes(8 * N)),
    # The largest block loads 16 sectors and writes 4, at two sectors per clock.
    "unequal_blocks": (
        4, 32, (floats(128), floats(128)), {"L2 port": 20 / 2 / H200.clock}
    ),
    # Atomics of 20 warps on one address follow each other.
    "count": (10, 64, (np.zeros(1, np.int32),), {"atomics": 20 / H200.clock}),
}  # fmt: skip
"""Kernels with their launches, and parts of the predicted time."""


@together("name", PARTS)
def test_parts_of_the_time(name: str) -> None:
    grid, block, args, parts = PARTS[name]
    report = costs_of(name, grid, block, *args)
    (found,) = report.predict("H200").kernels
    assert {part: found.parts[part] for part in parts} == pytest.approx(parts)
    if name == "unequal_blocks":
        assert found.balance == 20 / 14
    if name == "count":
        (costs,) = report.kernels
        assert (costs.atomic_requests, costs.atomic_lanes) == (20, 640)


def test_a_range_and_its_middle() -> None:
    report = copy(64, 128)
    predicted = report.predict("H200")
    (kernel,) = predicted.kernels
    assert LAUNCH_SECONDS[0] < kernel.low <= kernel.seconds <= kernel.high
    assert kernel.seconds == pytest.approx((kernel.low + kernel.high) / 2)
    assert predicted.low == kernel.low
    assert predicted.high == kernel.high
    assert predicted.bound == kernel.bound == max(kernel.parts, key=kernel.parts.get)
    assert "not a measurement" in str(predicted)


def test_launches_and_kernels_add_up() -> None:
    with profile() as report:
        for name in ("copy", "copy", "increment"):
            x = floats(256)
            args = (x,) if name == "increment" else (x, x.copy(), np.int32(256))
            RawKernel(SOURCE, name)((2,), (128,), args)
    first, second = report.predict("H200").kernels
    assert first.parts["launches"] == pytest.approx(2 * second.parts["launches"])
    total = report.predict("H200")
    assert total.seconds == pytest.approx(first.seconds + second.seconds)


def test_devices_by_name_and_described() -> None:
    report = copy(264, 128)
    small = Device("half", 66, 1e9, 1e12, 2e12, 1 << 20, 1 << 17, 1 << 16)
    (found,) = report.predict(small).kernels
    assert report.predict(small).device == "half"
    assert found.rounds == 4
    moved = 2 * 4 * 264 * 128
    assert found.parts["device memory"] == pytest.approx(moved / MEMORY_SHARE / 1e12)
    with pytest.raises(ValueError, match=r"device must be .*got 'GTX 680'"):
        report.predict("GTX 680")


@together("device", list(DEVICES))
def test_blocks_over_multiprocessors(device: str) -> None:
    multiprocessors = DEVICES[device].multiprocessors
    (found,) = copy(multiprocessors, 32).predict(device).kernels
    assert (found.rounds, found.filled, found.balance) == (1, 1, 1)
    (found,) = copy(multiprocessors + 1, 32).predict(device).kernels
    assert found.rounds == 2
    assert found.filled == pytest.approx((multiprocessors + 1) / 2 / multiprocessors)


@together(
    ("threads", "shared", "registers", "expected"),
    [
        (1024, 0, 32, 2),
        (1024, 0, 33, 1),  # 40 registers: units of 8 for each thread
        (256, 0, 128, 2),
        (32, 0, 16, 32),
        (128, 113 << 10, 32, 2),  # and the kilobyte that CUDA reserves
        (128, 114 << 10, 32, 1),
        (256, 227 << 10, 255, 1),
    ],
)
def test_resident_blocks_of_an_h200(
    threads: int, shared: int, registers: int, expected: int
) -> None:
    """As CUDA's occupancy calculator has them for compute capability 9.0."""
    assert H200.resident_blocks(threads, shared, registers) == expected


def test_registers_are_those_of_the_assembler_or_assumed() -> None:
    report = copy(4, 128)
    (found,) = report.predict("A100").kernels
    assert found.registers is not None
    assert 4 <= found.registers <= 32
    unknown = Device("no such", 1, 1e9, 1e12, 1e12, MB, MB, MB, architecture=1)
    assert report.predict(unknown).kernels[0].registers is None
    report.launched[0].source = None  # a kernel of PTX
    (found,) = report.predict("A100").kernels
    assert found.registers is None
    assert found.resident == 2048 // 128


def test_blocks_that_are_not_resident_wait_for_each_other() -> None:
    resident = 2 * H200.multiprocessors
    (one,) = copy(resident, 1024).predict(H200).kernels
    (two,) = copy(2 * resident, 1024).predict(H200).kernels
    assert one.resident == 2
    assert two.parts["latency"] == pytest.approx(2 * one.parts["latency"])


def test_a_chain_of_loads_waits_for_each_load() -> None:
    steps = 1000
    following = np.arange(1, steps + 2, dtype=np.int32)
    args = (following, np.zeros(1, np.int32), np.int32(steps))
    (found,) = costs_of("follow", 1, 32, *args).predict("H200").kernels
    assert found.bound == "latency"
    # Of 8 loads of following elements one is from memory, and the others hit the cache.
    load = (LATENCY_CLOCKS["memory"] + 7 * LATENCY_CLOCKS["l1"]) / 8
    least = steps * (load + 2 * LATENCY_CLOCKS["barrier"] + LATENCY_CLOCKS["shared"])
    assert 1 <= found.parts["latency"] * H200.clock / least < 1.4
    busy = steps * LATENCY_CLOCKS["memory"] / 8 * (LOADED_MEMORY - 1)
    assert (found.high - found.low) * H200.clock > busy


PTX = """
.version 7.0
.target sm_75
.address_size 64
.visible .entry kernel()
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .f32 %f<5>;
    BODY
    ret;
}
"""


def test_instructions_of_each_block() -> None:
    """A loop of 3 instructions has a turn more in each block; there are two warps."""
    body = """
    mov.u32 %r1, %ctaid.x;
    loop:
    sub.s32 %r1, %r1, 1;
    setp.ge.s32 %p1, %r1, 0;
    @%p1 bra loop;
    """
    with profile() as report:
        kernel = RawModule(ptx=PTX.replace("BODY", body)).get_function("kernel")
        kernel((3,), (64,), ())
    (found,) = report.kernels
    assert found.per_block["warp_instructions"] == (2 * 5, 2 * 8, 2 * 11)
    assert found.per_block["chain_issued"] == (5, 8, 11)
    # The last turn of a block does not branch.
    turns = 64 * (1 + 2 + 3)
    counts = {"integer": turns, "compare": turns, "branch": turns - 3 * 64}
    assert found.instructions == counts


def test_both_sides_of_a_branch_count() -> None:
    def instructions(split: int) -> Any:
        report = costs_of("branch", 1, 32, floats(32), np.int32(split))
        return report.kernels[0].warp_instructions["float32"]

    one_side = instructions(32)
    assert one_side == pytest.approx(100, abs=2)
    assert instructions(0) == pytest.approx(one_side, abs=2)
    assert instructions(16) == pytest.approx(2 * one_side, abs=2)


def test_a_remainder_is_many_instructions() -> None:
    x = np.arange(32, dtype=np.uint32)
    report = costs_of("remainders", 1, 32, x, np.uint32(7))
    np.testing.assert_array_equal(x, np.arange(32) % 7)
    found = report.kernels[0].warp_instructions
    assert found["special"] == 3  # a conversion, a reciprocal and a conversion
    assert 14 <= found["integer"] <= 20


def test_loads_again_are_answered_by_the_cache_that_has_room() -> None:
    n = 1 << 13
    report = costs_of("loop<2>", 1, 256, floats(n), np.zeros(256, "f"), np.int32(n))
    (costs,) = report.kernels
    sectors = n // 8
    assert costs.first_loads == costs.reuse.total() == sectors
    power = int(math.log2(sectors))  # each after n / 8 others, about: warps drift
    assert set(costs.reuse) <= {power, power + 1}

    def moved(l1_bytes: int, l2_bytes: int) -> tuple[float, float]:
        device = replace(H200, l1_bytes=l1_bytes, l2_bytes=l2_bytes)
        (found,) = report.predict(device).kernels
        l2 = found.parts["L2"] * H200.l2 / SECTOR_BYTES
        memory = (
            found.parts["device memory"] * MEMORY_SHARE * H200.memory / SECTOR_BYTES
        )
        return l2 - 32, memory - 32  # without the 32 sectors of y

    large, small = 4 * 4 * n, n
    assert moved(large, large) == pytest.approx((sectors, sectors))
    assert moved(small, large) == pytest.approx((2 * sectors, sectors))
    assert moved(small, small) == pytest.approx((2 * sectors, 2 * sectors))


def test_atomics_that_are_not_merged_follow_each_other() -> None:
    report = copy(1, 32)
    report.launched[0].atomic_lanes = 10**9
    (found,) = report.predict("H200").kernels
    assert H200.base_clock is not None
    assert found.high == pytest.approx(1e9 / H200.base_clock, rel=1e-3)


def test_loads_of_neighbouring_words_are_one_load() -> None:
    """If the address register is a multiple of their size."""
    y = np.zeros(32, np.float32)
    (costs,) = costs_of("add_row", 1, 32, floats(32), y, np.int32(0)).kernels
    np.testing.assert_array_equal(y, floats(32).sum())
    assert costs.shared_requests == 1 + 32
    assert costs.merged_requests == costs.merged_wavefronts == 32 - 32 // 4
    (costs,) = costs_of("add_neighbours", 1, 28, floats(32), y).kernels
    np.testing.assert_array_equal(y[:28], 4 * np.arange(28) + 6)
    assert costs.shared_requests == 2 + 4
    assert costs.merged_requests == 0


def test_a_sample_counts_the_whole_grid() -> None:
    whole, sample = (copy(100, 128, sample=size).kernels[0] for size in (None, 5))
    assert (whole.sampled, sample.sampled) == (100, 5)
    assert (sample.blocks, sample.threads) == (100, 12800)
    assert sample.global_sectors == whole.global_sectors
    assert sample.distinct_bytes == whole.distinct_bytes
    assert sample.warp_instructions == whole.warp_instructions
    assert sample.instructions == whole.instructions
    assert sample.per_block == whole.per_block
    with pytest.raises(ValueError, match="sample must be >= 1, got 0"):
        copy(1, 32, sample=0)


def test_a_sample_touches_no_more_than_the_arrays() -> None:
    x, y = floats(4 * 32), np.zeros(4 * 32, np.float32)
    report = costs_of("unequal_blocks", 4, 32, x, y, sample=1)
    assert report.kernels[0].arrays["x"].distinct_bytes <= x.nbytes


def test_grid_barriers_are_added() -> None:
    report = copy(8, 32)
    without = report.predict("H200")
    report.launched[0].grid_barriers = 10
    added = report.predict("H200")
    assert added.low - without.low == pytest.approx(10 * GRID_BARRIER_SECONDS)
    assert added.high - without.high == pytest.approx(10 * GRID_BARRIER_SECONDS)
