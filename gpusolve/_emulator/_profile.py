"""Counts what kernels cost: memory traffic, barriers, warp operations, arithmetic."""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

import numpy as np

from ._costs import (
    SECTOR_BYTES,
    ArrayCosts,
    HostCosts,
    KernelCosts,
    SharedCosts,
    Spread,
)
from ._instructions import FLOATING_POINT, instructions
from ._lines import source_lines
from ._predict import WORK_CLOCKS, Prediction, predict

PER_BLOCK = (
    "barriers",
    "warp_barriers",
    "shuffles",
    "votes",
    "atomics",
    "fences",
    "global_sectors",
    "shared_wavefronts",
    "load_intervals",
    "global_loads",
    "global_stores",
    "instructions",
)
"""In the order of ``enum class Counter`` in ``runtime/profile.h``."""

OTHERWISE_SUMMED = ("global_sectors", "shared_wavefronts", "instructions")
SUMS = [key for key in PER_BLOCK if key not in OTHERWISE_SUMMED]
"""Those that `KernelCosts` does not add up from its arrays, lines and code."""

SHARED_MEMORY = -1
GRID_BARRIER_FILE = "grid.cuh"
"""Its only atomic operation is the arrival of a block at a barrier of the grid."""

ACCESSES = ("load", "store", "atomic")
"""In the order of ``enum class AccessType`` in ``runtime/profile.h``."""


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

    _fields_ = [("address", ctypes.c_uint64), ("count", ctypes.c_uint64)]


class ProfileSummary(ctypes.Structure):
    """``ProfileSummary`` in ``runtime/profile.h``."""

    _fields_ = [
        ("block_rows", ctypes.c_uint64),
        ("blocks", ctypes.POINTER(ctypes.c_uint64)),
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
        The launches of each kernel together, in the order of their first launch.
    launched : list of KernelCosts
        Each launch by itself, in their order.
    host : HostCosts
    runs_kernels : bool
        Whether kernels run; otherwise launches only count.
    """

    def __init__(self, *, runs_kernels: bool = True) -> None:
        self.runs_kernels = runs_kernels
        self.kernels: list[KernelCosts] = []
        self.launched: list[KernelCosts] = []
        self.host = HostCosts()

    def __str__(self) -> str:
        rows = [_HEADINGS, *map(_cells, self.kernels)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                [row[0].ljust(widths[0])]
                + [cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)]
            )
            for row in rows
        ]
        return "\n".join([*lines, str(self.host)])

    def predict(self, device: str) -> Prediction:
        """Predict the time of all launches on a device. It is not a measurement.

        Parameters
        ----------
        device : {"H200", "A100", "RTX 4090", "MX550"}

        Returns
        -------
        Prediction
            For each kernel the time that each resource needs at least, of which the
            largest is its bound; and how well its blocks fill the device.

        Notes
        -----
        The prediction is for the launches that were counted: kernels whose grid depends
        on the device launch fewer blocks on the emulated device. Sectors that are moved
        more than once count as traffic of the L2 cache, though a multiprocessor may
        have them in its own cache.
        """
        return predict(self.launched, device)

    def add(self, launch: KernelCosts) -> None:
        """Add the counts of a launch."""
        self.launched.append(launch)
        for kernel in self.kernels:
            if kernel.name == launch.name:
                break
        else:
            kernel = KernelCosts(launch.name)
            self.kernels.append(kernel)
        kernel.add(launch)


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


def _cells(kernel: KernelCosts) -> tuple[str, ...]:
    moved = SECTOR_BYTES * kernel.global_sectors
    return (
        kernel.name,
        str(kernel.launches),
        str(kernel.blocks),
        str(kernel.barriers),
        str(kernel.global_sectors),
        f"{kernel.global_sectors / max(1, kernel.fewest_sectors):.2f}",
        f"{moved / max(1, kernel.distinct_bytes):.2f}",
        str(kernel.shared_wavefronts),
        f"{kernel.shared_wavefronts / max(1, kernel.shared_requests):.2f}",
        f"{kernel.active_lanes:.1f}",
        str(kernel.atomics),
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
    on a GPU. Kernels that wait for other blocks in a loop read their flags a number of
    times that depends on the schedule.

    A request combines the lanes of a warp that execute the same instruction the same
    number of times since their last barrier or warp operation. So lanes that take
    different branches, or leave a loop early, are counted as on a GPU. But lanes that
    reach an instruction in different iterations of a loop share a request here, and do
    not on a GPU: ``if (k == threadIdx.x) y[k] = 0;`` in a loop over k is 1 request
    instead of 32. In a loop within a loop, the lane with the most iterations in total
    determines the requests; on a GPU, the longest lane of each outer iteration does.

    Kernels are compiled again for the profile, and run one block at a time.

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


def count_copy_to_device() -> None:
    """Count a copy of an array of the host to the device, in an active profile."""
    if report := active_report():
        report.host.copies += 1


def count_copy_to_host() -> None:
    """Count a read of a device array by the host, in an active profile."""
    if report := active_report():
        report.host.copies += 1
        report.host.synchronizations += 1


def costs_of_launch(
    name: str,
    threads: int,
    arrays: list[str],
    summary: ProfileSummary,
    compiled: Path,
) -> KernelCosts:
    """The counts of a launch.

    Parameters
    ----------
    name : str
        The kernel instance.
    threads : int
        Number of threads per block.
    arrays : list of str
        Names of the counted arrays, by index.
    summary : ProfileSummary
    compiled : Path
        The kernel's object.
    """
    grid = summary.block_rows
    counts = np.ctypeslib.as_array(summary.blocks, (grid, len(PER_BLOCK)))
    by_name = dict(zip(PER_BLOCK, counts.T, strict=True))
    costs = KernelCosts(name, launches=1, blocks=grid, threads=grid * threads)
    for key in SUMS:
        setattr(costs, key, int(by_name[key].sum()))
    work = sum(clocks * by_name[key] for key, clocks in WORK_CLOCKS.items())
    costs.per_block = {
        key: Spread(values.min().item(), values.mean().item(), values.max().item())
        for key, values in {**by_name, "work": np.asarray(work)}.items()
    }
    _add_memory(costs, arrays, summary, compiled)
    _add_code(costs, summary, compiled)
    return costs


def _add_memory(
    costs: KernelCosts, arrays: list[str], summary: ProfileSummary, compiled: Path
) -> None:
    rows = summary.accesses[: summary.access_rows]
    lines = source_lines(compiled, {row.instruction for row in rows})
    arrivals = 0
    for row in rows:
        line = lines.get(row.instruction, "unknown line")
        access = ACCESSES[row.type]
        costs.instructions[access] += row.lanes
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
        if access == "atomic" and line.startswith(f"{GRID_BARRIER_FILE}:"):
            arrivals += row.lanes
    costs.grid_barriers = arrivals // costs.blocks
    for index, name in enumerate(arrays):
        if name in costs.arrays:
            costs.arrays[name].distinct_bytes = summary.distinct_bytes[index]
            costs.arrays[name].distinct_sectors = summary.distinct_sectors[index]


def _add_code(costs: KernelCosts, summary: ProfileSummary, compiled: Path) -> None:
    table = instructions(compiled)
    for code in summary.code[: summary.code_rows]:
        for name, count in table.get(code.address, {}).items():
            executions = count * code.count
            if name.startswith(FLOATING_POINT):
                costs.arithmetic[name] += executions
                name = "float"
            costs.instructions[name] += executions
