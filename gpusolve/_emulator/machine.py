"""Runs PTX on the CPU: a program with its variables, its memory, and launches."""

from __future__ import annotations

import ctypes
import functools
import math
import os
import sys
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from . import _device
from ._checks import MEMORY, RACES
from ._errors import LaunchError
from ._faults import raise_fault
from ._memory import HEAP, CRegion, Memory, c_fields
from ._schedule import ORDERS, SCHEDULE
from .module import CFault, LoadedKernel, Module, Shape, library

HEAP_BYTES = 8 << 20
"""Memory for malloc() in kernels, CUDA's default."""


GRID_BYTES = 64
"""Before the heap: the driver's memory for barriers of the grid."""


class CRequest(ctypes.Structure):
    """``Request`` in ``machine/machine.h``."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        *c_fields("shared_bytes: uint64, parameters: char_p"),
        ("regions", ctypes.POINTER(CRegion)),
        *c_fields(
            "region_count seed: uint64, order workers: int, "
            "resident first_block block_step running: uint64, limit: double, "
            "checks_races checks_memory counts: int, heap heap_bytes: uint64"
        ),
    ]


class CPython(ctypes.Structure):
    """``Python`` in ``machine/machine.h``."""

    _fields_ = c_fields("save restore check_signals: void_p")


@functools.cache
def _python() -> CPython:
    names = "PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals"
    functions = (getattr(ctypes.pythonapi, name) for name in names)
    return CPython(*(ctypes.cast(f, ctypes.c_void_p) for f in functions))


class Counted(NamedTuple):
    """The counts of a launch, its shape, and the memory that it could access."""

    counts: bytes
    memory: Memory
    kernel: LoadedKernel
    name: str
    blocks: int
    threads: int
    shared_bytes: int


@functools.cache
def _heap() -> npt.NDArray[np.uint8]:
    return np.zeros(GRID_BYTES + HEAP_BYTES + 16, np.uint8)


def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def write_output(text: str) -> None:
    """Write what kernels print."""
    sys.stdout.write(text)


def launch(
    module: Module,
    entry: str,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    parameters: bytes,
    shared_bytes: int = 0,
    *,
    memory: Memory,
    cooperative: bool = False,
    name: str = "",
    counts: bool = False,
    sample: int | None = None,
) -> Counted | None:
    """Run a kernel, and return when it has ended.

    Parameters
    ----------
    module : Module
    entry : str
        The symbol of the kernel.
    grid, block : tuple of 1 to 3 int
    parameters : bytes
        The values of the parameters, each at its offset.
    shared_bytes : int, optional
        Dynamic shared memory of a block.
    memory : Memory
        What the kernel may access, besides the variables of the module.
    cooperative : bool, optional
        Whether all blocks must be resident.
    name : str, optional
        The kernel in messages.
    counts : bool, optional
        Whether to count what the launch costs.
    sample : int, optional
        Blocks that run, at equal distances in the grid; by default all.

    Returns
    -------
    Counted or None

    Raises
    ------
    KernelError
        If the kernel fails.
    LaunchError
        If a GPU cannot run the launch.
    """
    __tracebackhide__ = True
    kernel = module.kernel(entry)
    shape = Shape(
        _device.checked_shape("grid", grid), _device.checked_shape("block", block)
    )
    _device.check_launch_bounds(shape.block, kernel.most_threads, kernel.block)
    if len(parameters) != kernel.parameter_bytes:
        raise ValueError(
            f"parameters must have {kernel.parameter_bytes} bytes, got "
            f"{len(parameters)}"
        )
    everything = Memory()
    everything._items = list(memory._items)
    module.add_variables(everything)
    heap = _heap()
    first = int(heap.ctypes.data) + -int(heap.ctypes.data) % 16
    start = first + GRID_BYTES
    ctypes.memset(first, 0, GRID_BYTES)
    everything.add(first, GRID_BYTES + HEAP_BYTES, HEAP)
    regions = everything.regions()
    blocks = math.prod(shape.grid)
    threads = math.prod(shape.block)
    _device.check_shared_memory(kernel.shared_bytes, shared_bytes)
    all_shared_bytes = kernel.shared_bytes + shared_bytes
    resident = max(1, _device.resident_blocks(threads, all_shared_bytes))
    if cooperative and blocks > resident:
        raise LaunchError(
            f"grid of a cooperative launch must have at most {resident} blocks, which "
            f"the device can run at the same time, got {blocks}",
            _device.COOPERATIVE_LAUNCH_TOO_LARGE,
        )
    schedule = SCHEDULE.value()
    order = ORDERS.index(schedule.order)
    # What is counted is not checked.
    races, checks_memory = (not counts and check.value() for check in (RACES, MEMORY))
    alone = order != 0 or races or checks_memory or counts
    running = blocks if sample is None or cooperative else min(blocks, sample)
    request = CRequest(
        shape.grid,
        shape.block,
        shared_bytes,
        parameters,
        (CRegion * (len(regions) + 1))(*regions),
        len(regions),
        schedule.seed % 2**64,
        order,
        1 if alone else max(1, min(_cores(), blocks)),
        min(blocks, resident),
        0,
        blocks // running,
        running,
        schedule.limit,
        races,
        checks_memory,
        int(counts),
        start,
        HEAP_BYTES,
    )
    fault = CFault(site=-1)
    try:
        failed = library().machine_launch(
            kernel.handle,
            ctypes.byref(request),
            ctypes.byref(fault),
            ctypes.byref(_python()),
        )
    finally:
        if output := library().machine_text():
            write_output(output.decode(errors="replace"))
    if failed:
        raise_fault(
            fault, kernel, shape, everything, name or entry, parameters, shared_bytes
        )
    if not counts:
        return None
    counted = library().machine_counts()
    return Counted(
        counted, everything, kernel, name or entry, blocks, threads, all_shared_bytes
    )
