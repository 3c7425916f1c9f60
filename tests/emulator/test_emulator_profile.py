"""The profile against counts that are known by hand."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends import needs_emulator
from together import together

import gpusolve
from gpusolve.emulator import RawKernel, profile

pytestmark = needs_emulator

SECTOR, WARP, FLOAT = 32, 32, 4

SOURCE = Path(__file__).parents[1] / "kernels" / "profiled.cu"

Array = np.ndarray[Any, Any]


def floats(n: int) -> Array:
    return np.arange(n, dtype=np.float32)


def zeros(n: int, dtype: str = "f4") -> Array:
    return np.zeros(n, dtype)


def costs(name: str, grid: Any, block: Any, *args: Any) -> Any:
    """The costs of a launch of a kernel of the source."""
    kernel = RawKernel(SOURCE, name)
    with profile() as report:
        kernel(grid, block, args)
    (found,) = report.kernels
    assert found.name == name
    assert found.launches == report.host.launches == 1
    return found


def value_of(found: Any, path: str) -> Any:
    """The attribute of an attribute, or the value of a key."""
    for name in path.split("."):
        found = getattr(found, name) if hasattr(found, name) else found[name]
    return found


def copied(n: int, *names: str) -> dict[str, Any]:
    """The counts of coalesced accesses to n numbers of each array."""
    sectors = FLOAT * n // SECTOR
    counts = {
        "requests": -(-n // WARP), "lanes": n, "bytes": FLOAT * n,
        "distinct_bytes": FLOAT * n, "sectors": sectors, "fewest_sectors": sectors,
    }  # fmt: skip
    return {f"arrays.{x}.{key}": count for x in names for key, count in counts.items()}


def strided(stride: int) -> tuple[Any, ...]:
    """Strided reads move more sectors."""
    n, i = 256, np.int32
    moved = min(stride, SECTOR // FLOAT) * FLOAT * n // SECTOR
    return (
        "copy_strided", 1, n, (floats(stride * n), zeros(n), i(n), i(stride)),
        {"arrays.x.sectors": moved, "arrays.x.distinct_sectors": moved,
         "arrays.x.fewest_sectors": FLOAT * n // SECTOR,
         "arrays.x.distinct_bytes": FLOAT * n},
    )  # fmt: skip


def transposed(width: int, conflicts: int) -> tuple[Any, ...]:
    wavefronts = 32 + 32 * conflicts
    return (
        f"transpose<{width}>", 1, (32, 32), (floats(1024), zeros(1024), np.int32(32)),
        {"per_block.barriers": (1, 1, 1), "shared_requests": 32 + 32,
         "shared_wavefronts": wavefronts,
         "per_block.work.mean": 2 * 32 * 4 / 2 + wavefronts},
    )  # fmt: skip


def of_records(threads: int = 64, members: int = 9) -> tuple[Any, ...]:
    """A structure is copied by its members."""
    x = floats(members * threads)
    sectors = np.arange(x.size).reshape(-1, WARP, members) * FLOAT // SECTOR
    requests = sectors.swapaxes(1, 2).reshape(-1, WARP)
    moved = sum(np.unique(request).size for request in requests)
    counts = {"requests": 2 * members, "sectors": moved, "bytes": x.nbytes}
    return (
        "copy_items<Record>", 1, threads, (x, zeros(x.size)),
        {f"arrays.{a}.{key}": count for a in "xy" for key, count in counts.items()},
    )  # fmt: skip


def summed(blocks: int = 3, threads: int = 256) -> tuple[Any, ...]:
    """Per level: two reads and a write by the warps that are active."""
    warps = 4 + 2 + 1 + 1 + 1 + 1 + 1 + 1
    return (
        "sum", blocks, threads, (floats(blocks * threads), zeros(blocks)),
        {"barriers": blocks * (1 + 8),
         "shared_requests": blocks * (threads // WARP + 3 * warps + 1),
         "shared_lanes": blocks * (threads + 3 * (threads - 1) + 1),
         "instructions.load": blocks * (threads + 2 * (threads - 1) + 1),
         "instructions.store": blocks * (threads + threads - 1 + 1),
         "global_loads": blocks * threads, "global_stores": blocks,
         "arithmetic": {"float32 add": blocks * (threads - 1)}},
    )  # fmt: skip


def operations(blocks: int = 2, threads: int = 64) -> tuple[Any, ...]:
    """Warp operations, atomics and fences."""
    warps, sectors = blocks * threads // WARP, 2 * (1 + 1 + 4)
    return (
        "operations", blocks, threads, (zeros(2, "i4"), zeros(threads, "i4")),
        {"shuffles": 2 * warps, "votes": warps, "warp_barriers": warps,
         "atomics": 2 * blocks * threads, "instructions.atomic": 2 * blocks * threads,
         "fences": blocks * threads, "per_block.shuffles": (4, 4, 4),
         "per_block.global_sectors": (sectors,) * 3, "load_intervals": 0,
         "per_block.work.mean": sectors / 2 + 4 + 2},
    )  # fmt: skip


def arithmetic(dtype: str, type: str, name: str) -> tuple[Any, ...]:
    counts = {"add": 2, "multiply": 1, "divide": 1, "square root": 1, "fused": 1}
    return (
        f"arithmetic<{type}>", 1, 1, (np.array([3, 4, 9], dtype), zeros(6, dtype)),
        {"arithmetic": {f"{name} {key}": n for key, n in counts.items()}},
    )  # fmt: skip


I32 = np.int32
COUNTS: dict[str, tuple[Any, ...]] = {
    "coalesced copy": (
        "copy", 8, 128, (floats(1000), zeros(1000), I32(1000)),
        {**copied(1000, "x", "y"), "blocks": 8, "threads": 1024, "barriers": 0,
         "global_bytes": 2 * FLOAT * 1000, "shared_requests": 0, "atomics": 0},
    ),
    # Words 1 to 32 are read: a sector more than the words that are written.
    "variable": (
        "through_a_variable", 1, 32, (floats(32),),
        {"arrays.table.lanes": 64, "arrays.table.sectors": 4 + 5},
    ),
    **{f"stride {stride}": strided(stride) for stride in (2, 8, 32)},
    "packs of 16 bytes": (
        "copy_items<Four>", 1, 64, (floats(256), zeros(256)),
        {"arrays.x.requests": 2, "arrays.x.sectors": 32, "arrays.x.fewest_sectors": 32},
    ),
    "records": of_records(),
    "transpose": transposed(32, 32),
    "padded transpose": transposed(33, 1),
    "reduction": summed(),
    "read again": (
        "read_again", 1, 32, (floats(32), zeros(32), I32(5)),
        {"arrays.x.bytes": 5 * 32 * FLOAT, "arrays.x.distinct_bytes": 32 * FLOAT,
         "arrays.x.distinct_sectors": 4, "distinct_sectors": 4 + 4,
         "arithmetic": {"float32 add": 5 * 32}},
    ),
    # More blocks than run at the same time; the loads of an interval count once.
    "intervals of many blocks": (
        "read_again", 50, 32, (floats(32), zeros(32), I32(5)), {"load_intervals": 50},
    ),
    # Doubles in shared memory take two passes.
    "doubles": (
        "shared_doubles", 1, 64, (zeros(64, "f8"),),
        {"shared_requests": 4, "shared_wavefronts": 8, "load_intervals": 0},
    ),
    "operations": operations(),
    # Both halves of a warp shuffle in the first iterations, then one half; 8 bytes.
    "halves": (
        "halves", 1, WARP, (np.array([3, 5], np.int32), zeros(WARP, "f8")),
        {"shuffles": 2 * 5, "warp_barriers": 1, "shared_requests": 1 + 5,
         "shared_wavefronts": 2 + 2 * 3 + 2},
    ),
    "chain of loads": (
        "follow", 3, 64, (np.arange(1, 11, dtype=np.int32), zeros(3, "i4"), I32(7)),
        {"per_block.barriers": (15, 15, 15), "per_block.load_intervals": (7, 7, 7),
         "load_intervals": 21},
    ),
    # Lanes in different iterations need requests of their own.
    "branch in iteration": (
        "branch_in_iteration", 1, 32, (floats(32), zeros(32)),
        {"arrays.x.requests": 32},
    ),
    "unequal blocks": (
        "unequal_blocks", 4, 32, (floats(128), zeros(128)),
        {"per_block.global_sectors": (8, 14, 20), "balance": 20 / 14},
    ),
    # Lanes that leave a loop early stay in their requests.
    "lanes that leave": (
        "loop<1>", 1, 32, (floats(40), zeros(32), I32(40)),
        {"arrays.x.requests": 2, "arrays.x.lanes": 40, "active_lanes": (40 + 32) / 3},
    ),
    "float32": arithmetic("f4", "float", "float32"),
    "float64": arithmetic("f8", "double", "float64"),
}  # fmt: skip
"""Kernels with their launches, and what the profile counts."""


@together("name", COUNTS)
def test_counts(name: str) -> None:
    instance, grid, block, arguments, expected = COUNTS[name]
    block = block if isinstance(block, tuple) else (block,)
    found = costs(instance, (grid,), block, *deepcopy(arguments))
    assert {path: value_of(found, path) for path in expected} == expected


def test_other_launches_are_not_counted() -> None:
    """A launch that fails, and a launch after the profile."""
    kernel = RawKernel(SOURCE, "copy")
    x, y = floats(64), np.zeros(64, np.float32)
    with profile() as report, pytest.raises(gpusolve.emulator.KernelError):
        kernel((1,), (64,), (x, y[:8], np.int32(64)))
    kernel((1,), (64,), (x, y, np.int32(64)))
    assert report.kernels == []


def test_the_table_names_every_kernel(emulated: None) -> None:
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
