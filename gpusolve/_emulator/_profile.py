"""Counts what kernels cost: memory traffic, barriers, warp operations, arithmetic."""

from __future__ import annotations

import contextlib
import ctypes
import html
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ._costs import (
    SECTOR_BYTES,
    ArrayCosts,
    HostCosts,
    KernelCosts,
    LineCosts,
    Spread,
)
from ._gpu import Device
from ._instructions import FLOATING_POINT, PARTS, gpu_blocks, instructions
from ._lines import UNKNOWN_LINE, source_lines
from ._listing import STYLE, as_html, as_text
from ._predict import Prediction, predict
from ._registers import KernelSource

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
    "merged_requests",
    "merged_wavefronts",
    "chain_issued",
    "chain_waits",
    "chain_shuffles",
    "chain_votes",
    "chain_global_trips",
    "chain_global_intervals",
    "chain_shared_trips",
    "chain_shared_intervals",
)
"""In the order of ``enum class Counter`` in ``runtime/profile.h``."""

WORK_CLOCKS = {
    "global_sectors": SECTOR_BYTES / 64,
    "shared_wavefronts": 1.0,
    "shuffles": 1.0,
    "votes": 1.0,
}
"""Clocks of a multiprocessor for each unit of a block's work. Shared memory sends one
wavefront per clock, and it shuffles 4 bytes of 32 lanes, as in NVIDIA's programming
guide. That the L2 cache sends it 64 bytes, and that votes take as long as shuffles, is
assumed."""

IN_PARTS = (
    "chain_issued",
    "chain_waits",
    "chain_global_trips",
    "chain_shared_trips",
)
"""Fields that the runtime counts in parts."""

OTHERWISE_SUMMED = ("global_sectors", "shared_wavefronts", "instructions")
SUMS = [
    key
    for key in PER_BLOCK
    if key not in OTHERWISE_SUMMED and not key.startswith("chain_")
]
"""Those that `KernelCosts` does not add up from its arrays, lines and code."""

DISTANCE_BINS = 40
"""``distance_bins`` in ``runtime/profile.h``."""

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
        ("fewest_wavefronts", ctypes.c_uint64),
        ("lines", ctypes.c_uint64),
    ]


class BasicBlock(ctypes.Structure):
    """``BasicBlock`` in ``runtime/profile.h``."""

    _fields_ = [
        ("address", ctypes.c_uint64),
        ("instructions", ctypes.c_uint64),
        ("issued", ctypes.c_uint64),
        ("waits", ctypes.c_uint64),
        ("trips", ctypes.c_uint64),
    ]


class CodeRow(ctypes.Structure):
    """``CodeRow`` in ``runtime/profile.h``."""

    _fields_ = [
        ("address", ctypes.c_uint64),
        ("threads", ctypes.c_uint64),
        ("warps", ctypes.c_uint64),
    ]


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
        ("loaded_sectors", ctypes.POINTER(ctypes.c_uint64)),
        ("written_sectors", ctypes.POINTER(ctypes.c_uint64)),
        ("distances", ctypes.POINTER(ctypes.c_uint64)),
        ("first_loads", ctypes.c_uint64),
        ("atomic_requests", ctypes.c_uint64),
        ("atomic_lanes", ctypes.c_uint64),
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
    sample : int or None
        Blocks that run of each launch; None for all.
    """

    def __init__(self, *, runs_kernels: bool = True, sample: int | None = None) -> None:
        self.runs_kernels = runs_kernels
        self.sample = sample
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

    def predict(self, device: Device | str) -> Prediction:
        """Predict the time of all launches on a device. It is not a measurement.

        Parameters
        ----------
        device : Device or {"H200", "A100", "RTX 4090", "MX550"}

        Returns
        -------
        Prediction
            For each kernel a range of seconds, the time that each resource needs, of
            which the largest is its bound, and how well its blocks fill the device.

        Notes
        -----
        The prediction is for the launches that were counted: kernels whose grid depends
        on the device launch fewer blocks on the emulated device. Array operations of
        the host are not in it: a product by ``matmul``, which is one of cuBLAS on a
        GPU, a copy of a strided array, or a sum of CuPy.

        Registers, which limit the blocks of a multiprocessor, are those of NVRTC if
        CuPy is installed; else 32 for each thread are assumed. The table of published
        times in ``tests/emulator/test_predictions.py`` says how far predictions are off.
        """
        return predict(self.launched, device)

    def listing(self) -> str:
        """What each source line costs, as text: a table for each kernel."""
        return "\n\n".join(map(as_text, self.kernels))

    def html(self) -> str:
        """What each source line costs, as HTML, with a bar for each count.

        The orange part of a bar is what can be saved: sectors that coalesced accesses
        would not move, and wavefronts because of bank conflicts. A notebook shows the
        report so.
        """
        table = f'<div class="cuda-lines"><pre>{html.escape(str(self))}</pre></div>'
        return "\n".join([STYLE, table, *map(as_html, self.kernels)])

    _repr_html_ = html

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


def profile(
    *, run_kernels: bool = True, sample: int | None = None
) -> AbstractContextManager[Report]:
    """Count the costs of kernels that are launched in this `with` statement.

    Parameters
    ----------
    run_kernels : bool, optional
        If False, launches do nothing and results are undefined. ``report.host`` then
        has the host's part of a call: its launches, allocations and Python time.
    sample : int, optional
        If given, only this number of blocks of each launch runs, at equal distances in
        the grid, and the counts are multiplied. Results are then undefined. Cooperative
        launches run completely. A kernel whose blocks wait for other blocks, without
        taking a ticket, does not end.

    Yields
    ------
    Report
        It is filled in as kernels are launched. ``print(report)`` prints a table.

    See Also
    --------
    Device, RawKernel

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

    Kernels are compiled again for the profile, and run one block at a time. They are
    then not checked by `races` and `memcheck`.

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
    if sample is not None and sample < 1:
        raise ValueError(f"sample must be >= 1, got {sample}")
    return _filled(Report(runs_kernels=run_kernels, sample=sample))


@contextlib.contextmanager
def _filled(report: Report) -> Iterator[Report]:
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


class LaunchShape(NamedTuple):
    """Blocks of a launch; threads and bytes of shared memory of each."""

    blocks: int
    threads: int
    shared_bytes: int


def costs_of_launch(
    source: KernelSource,
    shape: LaunchShape,
    sizes: dict[str, int],
    summary: ProfileSummary,
    compiled: Path,
) -> KernelCosts:
    """The counts of a launch.

    Parameters
    ----------
    source : KernelSource
    shape : LaunchShape
    sizes : dict of str to int
        Bytes of the counted arrays, in the order of their indices.
    summary : ProfileSummary
    compiled : Path
        The kernel's object.
    """
    sampled = summary.block_rows
    counts = np.ctypeslib.as_array(summary.blocks, (sampled, len(PER_BLOCK)))
    by_name = dict(zip(PER_BLOCK, counts.T, strict=True))
    for key in IN_PARTS:
        by_name[key] = by_name[key] / PARTS
    costs = KernelCosts(
        source.instance,
        launches=1,
        blocks=sampled,
        threads=sampled * shape.threads,
        shared_bytes=shape.shared_bytes,
        source=source,
    )
    for key in SUMS:
        setattr(costs, key, int(by_name[key].sum()))
    work = sum(clocks * by_name[key] for key, clocks in WORK_CLOCKS.items())
    costs.per_block = {
        key: Spread(values.min().item(), values.mean().item(), values.max().item())
        for key, values in {**by_name, "work": np.asarray(work)}.items()
    }
    _add_memory(costs, list(sizes), summary, compiled)
    _add_code(costs, summary, compiled)
    costs.extrapolate(shape.blocks, sizes)
    return costs


def _add_memory(
    costs: KernelCosts, arrays: list[str], summary: ProfileSummary, compiled: Path
) -> None:
    rows = summary.accesses[: summary.access_rows]
    lines = source_lines(compiled, {row.instruction for row in rows})
    arrivals = 0
    for row in rows:
        line = lines.get(row.instruction, UNKNOWN_LINE)
        by_line = costs.by_line.setdefault(line, LineCosts())
        by_line.instructions += row.lanes
        by_line.warp_instructions += row.requests
        access = ACCESSES[row.type]
        costs.instructions[access] += row.lanes
        if access == "atomic":
            by_line.atomics += row.lanes
        if row.array == SHARED_MEMORY:
            by_line.shared_requests += row.requests
            by_line.shared_lanes += row.lanes
            by_line.shared_wavefronts += row.wavefronts
            by_line.fewest_wavefronts += row.fewest_wavefronts
            continue
        by_line.sectors += row.sectors
        by_line.fewest_sectors += row.fewest_sectors
        array = costs.arrays.setdefault(arrays[row.array], ArrayCosts())
        array.requests += row.requests
        array.lanes += row.lanes
        array.bytes += row.bytes
        array.sectors += row.sectors
        array.fewest_sectors += row.fewest_sectors
        array.lines += row.lines
        if access != "load":
            array.stored_sectors += row.sectors
        if access == "atomic" and line.file.name == GRID_BARRIER_FILE:
            arrivals += row.lanes
    costs.grid_barriers = arrivals // costs.blocks
    for index, name in enumerate(arrays):
        if name in costs.arrays:
            costs.arrays[name].distinct_bytes = summary.distinct_bytes[index]
            costs.arrays[name].distinct_sectors = summary.distinct_sectors[index]
            costs.arrays[name].loaded_sectors = summary.loaded_sectors[index]
            costs.arrays[name].written_sectors = summary.written_sectors[index]
    costs.reuse.update(
        {bin: n for bin in range(DISTANCE_BINS) if (n := summary.distances[bin])}
    )
    costs.first_loads = summary.first_loads
    costs.atomic_requests = summary.atomic_requests
    costs.atomic_lanes = summary.atomic_lanes


def _add_code(costs: KernelCosts, summary: ProfileSummary, compiled: Path) -> None:
    table, on_gpu = instructions(compiled), gpu_blocks(compiled)
    for code in summary.code[: summary.code_rows]:
        if not code.threads:
            continue
        for kind, count in on_gpu[code.address].kinds.items():
            costs.warp_instructions[kind] += round(count * code.warps)
        for (line, name), count in table.get(code.address, {}).items():
            executions = count * code.threads
            by_line = costs.by_line.setdefault(line, LineCosts())
            by_line.instructions += executions
            by_line.warp_instructions += count * code.warps
            if name.startswith(FLOATING_POINT):
                costs.arithmetic[name] += executions
                name = "float"
            costs.instructions[name] += executions
