"""A launch of a compiled kernel: its checks, its order and its costs."""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from . import _device
from ._checks import MEMORY, RACES
from ._compiler import Variant, texts_of
from ._errors import KernelError
from ._lines import raise_at
from ._memory import LaunchMemory
from ._profile import LaunchShape, Report, active_report, costs_of_launch
from ._program import Program, Request
from ._registers import KernelSource
from ._report import explain, line_of_fault
from ._schedule import ORDERS, current_schedule
from ._stacks import STRIDE
from ._variables import global_spans


def variant_of_launch() -> Variant:
    """How a kernel that is launched now must be compiled."""
    if active_report() is not None:
        return "profile"
    if MEMORY.is_on():
        return "memory"
    return "races" if RACES.is_on() else "plain"


class Launch(NamedTuple):
    """A launch.

    Attributes
    ----------
    grid, block : tuple of 1 to 3 int
    arguments : ctypes array of pointers
        The addresses of the kernel's arguments.
    shared_bytes : int
        Dynamic shared memory of a block.
    cooperative : bool
        Whether all blocks must be resident at the same time.
    """

    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: ctypes.Array[Any]
    shared_bytes: int
    cooperative: bool

    def run(
        self,
        program: Program,
        source: KernelSource,
        memory: LaunchMemory,
        report: Report | None,
    ) -> None:
        """Run the kernel, and return when it has ended.

        Raises
        ------
        KernelError
            If the kernel fails.
        ValueError
            If the launch shape is invalid.
        """
        __tracebackhide__ = True
        grid = _device.checked_shape("grid", self.grid)
        block = _device.checked_shape("block", self.block)
        blocks, threads = math.prod(grid), math.prod(block)
        static_bytes = program.static_shared_bytes()
        _device.check_shared_memory(static_bytes, self.shared_bytes)
        # All resident blocks run concurrently, because a kernel may rely on it.
        shared_bytes = static_bytes + self.shared_bytes
        resident = _device.resident_blocks(threads, shared_bytes)
        if self.cooperative and blocks > resident:
            raise ValueError(
                f"grid of a cooperative launch must have at most {resident} blocks, "
                f"which the device can run at the same time, got {blocks}"
            )
        running = blocks
        if report is not None and report.sample is not None and not self.cooperative:
            running = min(running, report.sample)
        schedule = current_schedule()
        request = Request(
            grid=grid,
            block=block,
            shared_bytes=self.shared_bytes,
            seed=schedule.seed % 2**64,
            order=ORDERS.index(schedule.order),
            workers=min(resident, running),
            sampled=running,
            arguments=self.arguments,
            stack_stride=STRIDE,
            limit=schedule.limit,
        )
        shape = LaunchShape(blocks, threads, shared_bytes)
        with _counted(report, program, source, shape, request, memory):
            failure = program.launch(request, *memory.spans_by_use())
            if failure.happened:
                text = explain(failure, source.instance, memory, program.path)
                line = line_of_fault(failure, program.path)
                raise_at(line, source.instance, KernelError(text))
            memory.check(source.instance)


@contextlib.contextmanager
def _counted(
    report: Report | None,
    program: Program,
    source: KernelSource,
    shape: LaunchShape,
    request: Request,
    memory: LaunchMemory,
) -> Iterator[None]:
    """Count the costs of a launch, if there is a report to add them to."""
    if report is None:
        yield
        return
    texts = texts_of(source.definitions, source.file, source.include)
    spans = global_spans(program, texts) | memory.named_spans()
    with program.profile(list(spans.values())) as profile:
        request.profile = profile
        yield
        counts = program.summary(profile)
        sizes = {name: size for name, (_, size) in spans.items()}
        report.add(costs_of_launch(source, shape, sizes, counts, program.path))
