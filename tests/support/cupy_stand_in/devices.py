"""The devices, their memory limits and their attributes; and which is current."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any

from gpusolve import _emulator
from gpusolve._emulator._device import resident_threads

UNLIMITED = 2**63
RESIDENT_THREADS = resident_threads // _emulator.multiprocessors


class CUDARuntimeError(RuntimeError):
    """An error of the CUDA runtime: its name and a description."""


class CUDADriverError(RuntimeError):
    """An error of the CUDA driver: its name and a description."""

    status: int | None = None


class CUBLASError(RuntimeError):
    """An error of cuBLAS: its name."""

    status: int | None = None


class OutOfMemoryError(MemoryError):
    """Out of memory error."""

    def __init__(self, size: int, total: int, limit: int = 0) -> None:
        super().__init__(
            f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} "
            f"bytes, limit set to: {limit:,} bytes)."
        )


@dataclass
class DeviceState:
    """Memory limits of a device, and its memory in use, in bytes."""

    memory: int = UNLIMITED
    shared_memory: int = _emulator.shared_memory_per_block()
    used: int = 0
    peak: int = 0
    pooled: int = 0
    """Memory that the pool keeps without using it. The stand-in's pool keeps none."""

    @property
    def is_full(self) -> bool:
        """Whether CUDA itself finds no memory."""
        return self.used + self.pooled >= self.memory

    def allocate(self, size: int) -> None:
        if self.used + size > self.memory:
            raise OutOfMemoryError(size, self.used, self.memory)
        self.used += size
        self.peak = max(self.peak, self.used)

    def free(self, size: int) -> None:
        self.used -= size


states: list[DeviceState] = []
"""The state of each device, by number."""

counts: Counter[str] = Counter()
"""How often a device was made current, a kernel was loaded, and an array operation ran:
a kernel of CuPy that computes, copies or fills elements on the device.
"""

NO_DEVICE = "cudaErrorNoDevice: no CUDA-capable device is detected"

error: str | None = NO_DEVICE
"""The error of the runtime if it cannot use any device."""

_thread = threading.local()
"""The current device of each thread; the first device in a new thread."""


def current() -> int:
    """The number of the current device."""
    return getattr(_thread, "device", 0)


def make_current(number: int) -> None:
    if not 0 <= number < len(states):
        raise CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
    _thread.device = number


def make_first_current() -> None:
    _thread.device = 0


class Device:
    """A device; a context manager that makes it current."""

    def __init__(self, device: int | Device | None = None) -> None:
        number = current() if device is None else device
        self.id = number.id if isinstance(number, Device) else int(number)
        self._before: list[int] = []

    def __enter__(self) -> Device:
        counts["contexts"] += 1
        self._before.append(current())
        make_current(self.id)
        return self

    def __exit__(self, *_: object) -> None:
        make_current(self._before.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    @property
    def attributes(self) -> dict[str, Any]:
        return {
            "MaxSharedMemoryPerBlockOptin": states[self.id].shared_memory,
            "MaxThreadsPerMultiProcessor": RESIDENT_THREADS,
            "MultiProcessorCount": _emulator.multiprocessors,
            "MaxBlocksPerMultiprocessor": 16,
            "MaxRegistersPerMultiprocessor": 1 << 16,
            "MaxSharedMemoryPerMultiprocessor": 100 << 10,
            "L2CacheSize": 1 << 20,
            "ClockRate": 1_000_000,
            "MemoryClockRate": 1_000_000,
            "GlobalMemoryBusWidth": 64,
            "KernelExecTimeout": 0,
            "SingleToDoublePrecisionPerfRatio": 2,
        }

    def synchronize(self) -> None:
        """Do nothing, because a launch returns when the kernel has ended."""

    @property
    def compute_capability(self) -> str:
        return "86"
