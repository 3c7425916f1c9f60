"""Counts what kernels cost: memory traffic, barriers, warp operations, arithmetic."""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from ._arithmetic import operations
from ._costs import (
    SECTOR_BYTES,
    ArrayCosts,
    HostCosts,
    KernelCosts,
    SharedCosts,
    Spread,
)
from ._lines import source_lines
from ._predict import Prediction, predict

PER_BLOCK = (
    "barriers",
    "warp_barriers",
    "shuffles",
    "votes",
    "atomics",
    "fences",
    "global_sectors",
    "shared_wavefronts",
)
"""In the order of ``enum class Counter`` in ``runtime/profile.h``."""

SHARED_MEMORY = -1
GRID_BARRIER_FILE = "grid.cuh"
"""Its one atomic operation is the arrival of a block at a barrier of the grid."""

ATOMIC = 2
"""``AccessType::atomic`` in ``runtime/profile.h``."""


class AccessRow(ctypes.Structure):
    """``AccessRow`` in ``runtime/profile.h``."""

    _fields_ = [
        ("instruction", ctypes.c_uint64),
        ("array", ctypes.c_int32),
        ("type", ctypes.c_int32),
        ("requests", ctypes.c_uint64),
        ("lanes", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("sectors", ctypes.c_uint64),
        ("fewest_sectors", ctypes.c_uint64),
        ("wavefronts", ctypes.c_uint64),
    ]


class CodeRow(ctypes.Structure):
    """``CodeRow`` in ``runtime/profile.h``."""

    _fields_ = [("address", ctypes.c_uint64), ("executions", ctypes.c_uint64)]


class Summary(ctypes.Structure):
    """``ProfileSummary`` in ``runtime/profile.h``."""

    _fields_ = [
        ("total", ctypes.c_uint64 * len(PER_BLOCK)),
        ("least", ctypes.c_uint64 * len(PER_BLOCK)),
        ("most", ctypes.c_uint64 * len(PER_BLOCK)),
        ("access_rows", ctypes.c_uint64),
        ("accesses", ctypes.POINTER(AccessRow)),
        ("code_rows", ctypes.c_uint64),
        ("code", ctypes.POINTER(CodeRow)),
        ("distinct_bytes", ctypes.POINTER(ctypes.c_uint64)),
        ("distinct_sectors", ctypes.POINTER(ctypes.c_uint64)),
    ]


class Report:
    """The counts of a profile.

    Attributes
    ----------
    kernels : list of KernelCosts
        In the order of their first launch.
    host : HostCosts
    runs_kernels : bool
        Whether kernels run; otherwise launches only count.
    """

    def __init__(self, *, runs_kernels: bool = True) -> None:
        self.runs_kernels = runs_kernels
        self.kernels: list[KernelCosts] = []
        self.host = HostCosts()

    def __str__(self) -> str:
        rows = [_HEADINGS, *(_cells(one) for one in self.kernels)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(
                [row[0].ljust(widths[0])]
                + [cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)]
            )
            for row in rows
        )

    def predict(self, device: str) -> Prediction:
        """Predict the time of all launches on a device. It is not a measurement.

        Parameters
        ----------
        device : {"H200", "A100", "RTX 4090"}

        Returns
        -------
        Prediction
            The seconds, and the bound that they come from: the largest of the times
            that memory, shared memory, arithmetic, barriers and launches need at
            least, for each kernel.
        """
        return predict(self.kernels, device)

    def costs_of(self, name: str) -> KernelCosts:
        """The record of a kernel; a new one before its first launch."""
        for one in self.kernels:
            if one.name == name:
                return one
        self.kernels.append(KernelCosts(name))
        return self.kernels[-1]


_active: ContextVar[Report | None] = ContextVar("profile", default=None)

_HEADINGS = (
    "kernel",
    "launches",
    "blocks",
    "barriers",
    "sectors",
    "of fewest",
    "of distinct",
    "wavefronts",
    "of requests",
    "lanes",
    "atomics",
)


def _cells(one: KernelCosts) -> tuple[str, ...]:
    moved = SECTOR_BYTES * one.global_sectors
    return (
        one.name,
        str(one.launches),
        str(one.blocks),
        str(one.barriers),
        str(one.global_sectors),
        f"{one.global_sectors / max(1, one.fewest_sectors):.2f}",
        f"{moved / max(1, one.distinct_bytes):.2f}",
        str(one.shared_wavefronts),
        f"{one.shared_wavefronts / max(1, one.shared_requests):.2f}",
        f"{one.active_lanes:.1f}",
        str(one.atomics),
    )


@contextlib.contextmanager
def profile(*, run_kernels: bool = True) -> Iterator[Report]:
    """Count the costs of kernels that are launched in this `with` statement.

    Parameters
    ----------
    run_kernels : bool, optional
        If False, launches do nothing and results are undefined. ``report.host`` then
        has the host's part of a call: its launches, allocations and Python time.

    Yields
    ------
    Report
        It is filled in as kernels are launched. ``print(report)`` prints a table.

    Notes
    -----
    Counts are exact for the launch shape of the emulated device, which has two
    multiprocessors: kernels whose grid depends on the device launch fewer blocks than
    on a GPU. A request combines the lanes of a warp that execute the same instruction
    the same number of times since their last barrier or warp operation; where lanes are
    in different iterations of a loop at the same time, a GPU needs more requests.
    Kernels that wait for other blocks in a loop read their flags a number of times that
    depends on the schedule.

    Kernels are compiled once more for the profile, and run one block at a time.

    Examples
    --------
    >>> import os
    >>> import numpy as np
    >>> import gpusolve
    >>> os.environ["GPUSOLVE_EMULATE"] = "1"
    >>> with gpusolve.emulator.profile() as report:
    ...     y = gpusolve.gemv(np.ones((64, 32), np.float32), np.ones(32, np.float32))
    >>> del os.environ["GPUSOLVE_EMULATE"]
    >>> kernel = report.kernels[0]
    >>> kernel.launches, kernel.arrays["A"].distinct_bytes
    (1, 8192)
    """
    report = Report(runs_kernels=run_kernels)
    token = _active.set(report)
    start = time.perf_counter()
    try:
        yield report
    finally:
        report.host.seconds += time.perf_counter() - start
        _active.reset(token)


def active_report() -> Report | None:
    """The report to which launches are added, if costs are counted."""
    return _active.get()


def count_synchronization() -> None:
    """Count a read of a device array by the host, in an active profile."""
    if report := active_report():
        report.host.synchronizations += 1


def add_launch(
    report: Report,
    name: str,
    grid: int,
    threads: int,
    arrays: list[str],
    summary: Summary,
    compiled: Path,
) -> None:
    """Add the counts of one launch to the report.

    Parameters
    ----------
    report : Report
    name : str
        The kernel instance.
    grid, threads : int
        Number of blocks, and of threads per block.
    arrays : list of str
        Names of the counted arrays, by index.
    summary : Summary
    compiled : Path
        The kernel's object.
    """
    costs = report.costs_of(name)
    costs.launches += 1
    costs.blocks += grid
    costs.threads += grid * threads
    counted = zip(PER_BLOCK, summary.total, summary.least, summary.most, strict=True)
    for key, total, least, most in counted:
        costs.per_block[key] = Spread(least, total / grid, most)
        if key not in ("global_sectors", "shared_wavefronts"):
            setattr(costs, key, getattr(costs, key) + total)
    rows = summary.accesses[: summary.access_rows]
    lines = source_lines(compiled, {row.instruction for row in rows})
    arrivals = 0
    for row in rows:
        line = lines.get(row.instruction, "unknown line")
        if row.array == SHARED_MEMORY:
            shared = costs.shared.setdefault(line, SharedCosts())
            shared.requests += row.requests
            shared.lanes += row.lanes
            shared.wavefronts += row.wavefronts
            continue
        array = costs.arrays.setdefault(arrays[row.array], ArrayCosts())
        array.requests += row.requests
        array.lanes += row.lanes
        array.bytes += row.bytes
        array.sectors += row.sectors
        array.fewest_sectors += row.fewest_sectors
        if row.type == ATOMIC and line.startswith(f"{GRID_BARRIER_FILE}:"):
            arrivals += row.lanes
    costs.grid_barriers += arrivals // grid
    for index, array_name in enumerate(arrays):
        if array_name in costs.arrays:
            array = costs.arrays[array_name]
            array.distinct_bytes += summary.distinct_bytes[index]
            array.distinct_sectors += summary.distinct_sectors[index]
    table = operations(compiled)
    for code in summary.code[: summary.code_rows]:
        for operation, count in table.get(code.address, {}).items():
            costs.arithmetic[operation] += count * code.executions
