"""Counts what kernels cost: memory traffic, barriers, warp operations, arithmetic."""

from __future__ import annotations

import contextlib
import html
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from ._costs import SECTOR_BYTES, HostCosts, KernelCosts
from ._gpu import Device
from ._listing import STYLE, aligned, as_html, as_text
from ._predict import Prediction, predict
from ._setting import Setting


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
        cells = [[str(f(k)) for f in _COLUMNS.values()] for k in self.kernels]
        return "\n".join([*aligned([[*_COLUMNS], *cells], left=1), str(self.host)])

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

        Registers, which limit the blocks of a multiprocessor, are those of NVRTC's
        assembler; for a kernel of PTX, 32 for each thread are assumed. The table of
        published times in ``tests/emulator/test_predictions.py`` says how far
        predictions are off.
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


_REPORT: Setting[Report | None] = Setting("profile", lambda: None)

_COLUMNS: dict[str, Callable[[KernelCosts], object]] = {
    "kernel": lambda kernel: kernel.name,
    "launches": lambda kernel: kernel.launches,
    "blocks": lambda kernel: kernel.blocks,
    "barriers": lambda kernel: kernel.barriers,
    "sectors": lambda kernel: kernel.global_sectors,
    "of fewest": lambda kernel: _ratio(kernel.global_sectors, kernel.fewest_sectors),
    "of distinct": lambda kernel: _ratio(
        SECTOR_BYTES * kernel.global_sectors, kernel.distinct_bytes
    ),
    "wavefronts": lambda kernel: kernel.shared_wavefronts,
    "of requests": lambda kernel: _ratio(
        kernel.shared_wavefronts, kernel.shared_requests
    ),
    "lanes": lambda kernel: f"{kernel.active_lanes:.1f}",
    "atomics": lambda kernel: kernel.atomics,
}
"""The columns of the table, by their headings."""


def _ratio(count: int, least: int) -> str:
    return f"{count / max(1, least):.2f}"


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

    Instructions are those of PTX. A GPU's assembler merges some of them, and unrolls
    and reorders others. A request combines the lanes of a warp that execute an
    instruction together; where lanes that took different branches meet again is the
    emulator's choice, which is the usual one of GPUs.

    Blocks run one at a time, and are then not checked by `races` and `memcheck`.

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
    start = time.perf_counter()
    try:
        with _REPORT.to(report):
            yield report
    finally:
        report.host.seconds += time.perf_counter() - start


def active_report() -> Report | None:
    """The report to which launches are added, if costs are counted."""
    return _REPORT.value()


def count_copy_to_device() -> None:
    """Count a copy of an array of the host to the device, in an active profile."""
    if report := active_report():
        report.host.copies += 1


def count_copy_to_host() -> None:
    """Count a read of a device array by the host, in an active profile."""
    if report := active_report():
        report.host.copies += 1
        report.host.synchronizations += 1
