"""The profile against counts that are known by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusolve
from gpusolve.emulator import RawKernel, profile

SECTOR = 32
WARP = 32
FLOAT = 4

SOURCE = Path(__file__).parents[1] / "kernels" / "profiled.cu"


@pytest.fixture
def costs() -> Callable[..., Any]:
    """A function that launches a kernel of the source and returns its costs."""

    def launch(name: str, grid: Any, block: Any, *args: Any) -> Any:
        kernel = RawKernel(SOURCE, name)
        with profile() as report:
            kernel(grid, block, args)
        (found,) = report.kernels
        assert found.name == name
        assert found.launches == report.host.launches == 1
        return found

    return launch


def floats(n: int) -> np.ndarray[Any, Any]:
    return np.arange(n, dtype=np.float32)


def test_copy_is_coalesced(costs: Any) -> None:
    n, threads = 1000, 128
    x, y = floats(n), np.zeros(n, np.float32)
    found = costs("copy", (8,), (threads,), x, y, np.int32(n))
    np.testing.assert_array_equal(x, y)
    assert (found.blocks, found.threads) == (8, 8 * threads)
    for array in (found.arrays["x"], found.arrays["y"]):
        assert array.requests == -(-n // WARP)
        assert array.lanes == n
        assert array.bytes == array.distinct_bytes == FLOAT * n
        assert array.sectors == array.fewest_sectors == FLOAT * n // SECTOR
    assert found.global_bytes == 2 * FLOAT * n
    assert found.barriers == found.shared_requests == found.atomics == 0


def test_a_device_variable_is_counted(costs: Any) -> None:
    """Words 1 to 32 are read: a sector more than the words that are written."""
    found = costs("through_a_variable", (1,), (32,), floats(32))
    assert found.arrays["table"].lanes == 64
    assert found.arrays["table"].sectors == 4 + 5
    assert "factor" not in found.arrays


@pytest.mark.parametrize("stride", [2, 8, 32])
def test_strided_reads_move_more_sectors(costs: Any, stride: int) -> None:
    n = 256
    y = np.zeros(n, np.float32)
    found = costs(
        "copy_strided", (1,), (n,), floats(stride * n), y, np.int32(n), np.int32(stride)
    )
    moved = min(stride, SECTOR // FLOAT) * FLOAT * n // SECTOR
    assert found.arrays["x"].sectors == found.arrays["x"].distinct_sectors == moved
    assert found.arrays["x"].fewest_sectors == FLOAT * n // SECTOR
    assert found.arrays["x"].distinct_bytes == FLOAT * n


def test_a_pack_of_16_bytes_is_one_access(costs: Any) -> None:
    x, y = floats(4 * 64), np.zeros(4 * 64, np.float32)
    found = costs("copy_packs", (1,), (64,), x, y)
    np.testing.assert_array_equal(x, y)
    assert found.arrays["x"].requests == 2
    assert found.arrays["x"].sectors == 2 * 16 == found.arrays["x"].fewest_sectors


def test_a_structure_is_copied_by_its_members(costs: Any) -> None:
    members, threads = 9, 64
    x, y = floats(members * threads), np.zeros(members * threads, np.float32)
    found = costs("copy_records", (1,), (threads,), x, y)
    np.testing.assert_array_equal(x, y)
    elements = np.arange(x.size).reshape(-1, WARP, members)
    sectors = elements * FLOAT // SECTOR
    requests = sectors.swapaxes(1, 2).reshape(-1, WARP)
    expected = sum(np.unique(request).size for request in requests)
    for array in (found.arrays["x"], found.arrays["y"]):
        assert array.requests == 2 * members
        assert array.sectors == expected
        assert array.bytes == x.nbytes


@pytest.mark.parametrize(("width", "conflicts"), [(32, 32), (33, 1)])
def test_transpose_with_and_without_padding(
    costs: Any, width: int, conflicts: int
) -> None:
    x, y = floats(32 * 32), np.zeros(32 * 32, np.float32)
    found = costs(f"transpose<{width}>", (1,), (32, 32), x, y, np.int32(32))
    np.testing.assert_array_equal(y.reshape(32, 32), x.reshape(32, 32).T)
    assert found.per_block["barriers"] == (1, 1, 1)
    assert found.shared_requests == 32 + 32
    assert found.shared_wavefronts == 32 + 32 * conflicts
    assert found.per_block["work"].mean == 2 * 32 * 4 / 2 + 32 + 32 * conflicts
    assert sorted(line.wavefronts for line in found.shared.values()) == sorted(
        [32, 32 * conflicts]
    )


def test_a_reduction_in_shared_memory(costs: Any) -> None:
    blocks, threads = 3, 256
    y = np.zeros(blocks, np.float32)
    found = costs("sum", (blocks,), (threads,), floats(blocks * threads), y)
    np.testing.assert_array_equal(y, floats(768).reshape(3, 256).sum(axis=1))
    levels = 8
    assert found.barriers == blocks * (1 + levels)
    # Per level: two reads and a write by the warps that are active, 4, 2, 1, 1, ...
    warps = 4 + 2 + 1 + 1 + 1 + 1 + 1 + 1
    assert found.shared_requests == blocks * (threads // WARP + 3 * warps + 1)
    assert found.shared_lanes == blocks * (threads + 3 * (threads - 1) + 1)
    assert found.instructions["load"] == blocks * (threads + 2 * (threads - 1) + 1)
    assert found.instructions["store"] == blocks * (threads + threads - 1 + 1)
    assert found.global_loads == blocks * threads
    assert found.global_stores == blocks
    assert found.arithmetic == {"float32 add": blocks * (threads - 1)}


def test_bytes_that_are_read_again(costs: Any) -> None:
    found = costs(
        "read_again", (1,), (32,), floats(32), np.zeros(32, np.float32), np.int32(5)
    )
    assert found.arrays["x"].bytes == 5 * 32 * FLOAT
    assert found.arrays["x"].distinct_bytes == 32 * FLOAT
    assert found.arrays["x"].distinct_sectors == 4
    assert found.distinct_sectors == 4 + 4
    assert found.arithmetic == {"float32 add": 5 * 32}


def test_doubles_in_shared_memory_take_two_passes(costs: Any) -> None:
    found = costs("shared_doubles", (1,), (64,), np.zeros(64))
    assert found.shared_requests == 4
    assert found.shared_wavefronts == 8


def test_warp_operations_atomics_and_fences(costs: Any) -> None:
    blocks, threads = 2, 64
    warps = blocks * threads // WARP
    counts, result = np.zeros(2, np.int32), np.zeros(threads, np.int32)
    found = costs("operations", (blocks,), (threads,), counts, result)
    assert counts.tolist() == [blocks * threads, 1]
    assert found.shuffles == 2 * warps
    assert found.votes == found.warp_barriers == warps
    assert found.atomics == 2 * blocks * threads
    assert found.fences == blocks * threads
    assert found.instructions["atomic"] == found.atomics
    assert found.per_block["shuffles"] == (4, 4, 4)
    sectors = 2 * (1 + 1 + 4)  # of counts[0], counts[1] and result, by 2 warps
    assert found.per_block["global_sectors"] == (sectors,) * 3
    assert found.per_block["work"].mean == sectors / 2 + 4 + 2


def test_operations_of_parts_of_a_warp_are_combined() -> None:
    """Both halves shuffle in the first iterations, one half in the later iterations."""
    y, lanes = np.zeros(WARP), np.arange(WARP)
    with profile() as report:
        RawKernel(SOURCE, "halves")((1,), (WARP,), (np.array([3, 5], np.int32), y))
    (found,) = report.kernels
    value = lanes.astype(float)
    for k in range(5):
        value += np.where((k < 3) | (lanes >= 16), value[lanes ^ 1] + lanes, 0)
    np.testing.assert_array_equal(y, value)
    assert found.shuffles == 2 * 5  # of 8 bytes
    assert found.warp_barriers == 1
    assert found.shared_requests == 1 + 5
    assert found.shared_wavefronts == 2 + 2 * 3 + 2


def test_intervals_with_a_load(costs: Any) -> None:
    blocks, steps = 3, 7
    last = np.zeros(blocks, np.int32)
    following = np.arange(1, 11, dtype=np.int32)
    found = costs("follow", (blocks,), (64,), following, last, np.int32(steps))
    assert last.tolist() == [block + steps for block in range(blocks)]
    assert found.per_block["barriers"] == (1 + 2 * steps,) * 3
    assert found.per_block["load_intervals"] == (steps,) * 3
    assert found.load_intervals == blocks * steps


def test_loads_of_an_interval_count_once(costs: Any) -> None:
    y = np.zeros(32, np.float32)
    blocks = 50  # more than run at the same time
    found = costs("read_again", (blocks,), (32,), floats(32), y, np.int32(5))
    assert found.load_intervals == blocks
    assert costs("shared_doubles", (1,), (64,), np.zeros(64)).load_intervals == 0
    counts, result = np.zeros(2, np.int32), np.zeros(64, np.int32)
    assert costs("operations", (1,), (64,), counts, result).load_intervals == 0


def test_lanes_in_different_iterations_need_requests_of_their_own(costs: Any) -> None:
    found = costs(
        "branch_in_iteration", (1,), (32,), floats(32), np.zeros(32, np.float32)
    )
    assert found.arrays["x"].requests == 32


def test_blocks_with_unequal_work(costs: Any) -> None:
    found = costs(
        "unequal_blocks", (4,), (32,), floats(4 * 32), np.zeros(4 * 32, np.float32)
    )
    sectors = [4 * (block + 1) + 4 for block in range(4)]
    mean = sum(sectors) / 4
    assert found.per_block["global_sectors"] == (min(sectors), mean, max(sectors))
    assert found.balance == max(sectors) / mean


@pytest.mark.parametrize(("dtype", "name"), [("f4", "float32"), ("f8", "float64")])
def test_arithmetic(costs: Any, dtype: str, name: str) -> None:
    instance = f"arithmetic<{'float' if dtype == 'f4' else 'double'}>"
    x, y = np.array([3, 4, 9], dtype), np.zeros(6, dtype)
    found = costs(instance, (1,), (1,), x, y)
    np.testing.assert_array_equal(y, np.array([7, -1, 12, 0.75, 3, 21], dtype))
    expected = {"add": 2, "multiply": 1, "divide": 1, "square root": 1, "fused": 1}
    assert found.arithmetic == {f"{name} {key}": n for key, n in expected.items()}


def test_instructions_of_a_loop(costs: Any) -> None:
    """Accesses and floating-point operations exactly; the others in proportion."""

    def launch(n: int) -> Any:
        y = np.zeros(32, np.float32)
        return costs("loop", (2,), (32,), floats(n), y, np.int32(n))

    found = [launch(32 * turns) for turns in (1, 2, 11)]
    for kernel, turns in zip(found, (1, 2, 11), strict=True):
        counts = kernel.instructions
        assert (counts["load"], counts["store"]) == (2 * 32 * turns, 2 * 32)
        assert (kernel.global_loads, kernel.global_stores) == (2 * 32 * turns, 2 * 32)
        assert counts["float"] == 2 * 32 * turns == kernel.arithmetic["float32 add"]
    for kind in ("integer", "compare", "branch"):
        first, second, last = (kernel.instructions[kind] for kernel in found)
        in_a_turn, rest = divmod(second - first, 2 * 32)
        assert rest == 0
        assert 1 <= in_a_turn <= 4
        assert last - second == 9 * (second - first)


def test_lanes_that_leave_a_loop_early_stay_in_their_requests(costs: Any) -> None:
    found = costs(
        "loop", (1,), (32,), floats(40), np.zeros(32, np.float32), np.int32(40)
    )
    assert found.arrays["x"].requests == 2
    assert found.arrays["x"].lanes == 40
    assert found.active_lanes == (40 + 32) / 3


def test_other_launches_are_not_counted() -> None:
    """A launch that fails, and a launch after the profile."""
    kernel = RawKernel(SOURCE, "copy")
    x, y = floats(64), np.zeros(64, np.float32)
    with profile() as report, pytest.raises(gpusolve.emulator.KernelError):
        kernel((1,), (64,), (x, y[:8], np.int32(64)))
    kernel((1,), (64,), (x, y, np.int32(64)))
    assert report.kernels == []


def test_the_table_names_every_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    with profile() as report:
        gpusolve.scan(floats(5000))
    table = str(report).splitlines()
    assert len(table) == 2 + len(report.kernels)
    assert table[0].startswith("kernel")
    assert table[1].startswith("scan<")
    assert report.host.allocations >= 1
    assert table[-1] == (
        f"host: launches 1, allocations {report.host.allocations}, "
        f"memsets {report.host.memsets}, synchronizations 0, copies 0"
    )


def test_launches_are_also_listed_one_by_one() -> None:
    kernel = RawKernel(SOURCE, "copy")
    x, y = floats(64), np.zeros(64, np.float32)
    with profile() as report:
        for n in (64, 32):
            kernel((2,), (32,), (x, y, np.int32(n)))
    assert [launch.launches for launch in report.launched] == [1, 1]
    assert [launch.global_sectors for launch in report.launched] == [2 * 8, 2 * 4]
    (total,) = report.kernels
    assert (total.launches, total.blocks, report.host.launches) == (2, 4, 2)
    assert report.host.seconds >= 0
    assert total.global_sectors == 3 * 8
    assert total.per_block["global_sectors"] == (0, 4, 8)
