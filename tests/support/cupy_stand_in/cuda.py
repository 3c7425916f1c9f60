"""The parts of ``cupy.cuda`` that gpusolve uses."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from . import cublas, devices
from .devices import CUDADriverError, CUDARuntimeError, OutOfMemoryError
from .devices import Device as Device
from .kernels import CompileException, occupancy
from .memory import MemoryPointer as MemoryPointer
from .memory import pointer_to


def device_count() -> int:
    if devices.error is not None:
        raise CUDARuntimeError(devices.error)
    return len(devices.states)


class Stream:
    """A stream. A launch returns when the kernel has ended.

    Copies to the host that do not block are made when the stream is synchronised.
    """

    def __init__(self, null: bool = False, non_blocking: bool = False) -> None:
        self.device_id = devices.current()
        self._copies: list[Callable[[], None]] = []

    @classmethod
    def from_external(cls, obj: Any) -> Stream:
        version, pointer = obj.__cuda_stream__()
        if version != 0 or not isinstance(pointer, int):
            raise TypeError("__cuda_stream__() must return (0, a pointer)")
        return cls()

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, id(self)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def later(self, copy: Callable[[], None]) -> None:
        """Make a copy when the stream is synchronised."""
        if devices.current() != self.device_id:
            raise CUDARuntimeError("cudaErrorInvalidResourceHandle: invalid stream")
        self._copies.append(copy)

    def synchronize(self) -> None:
        for copy in self._copies:
            copy()
        self._copies.clear()


class Event:
    """A moment of the stream; what was launched before has ended."""

    def record(self, stream: Any = None) -> None:
        self.seconds = time.perf_counter()

    def synchronize(self) -> None:
        pass


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    return 1000 * (end_event.seconds - start_event.seconds)


def is_available() -> bool:
    """Whether there is a device. False if the runtime fails."""
    return devices.error is None and bool(devices.states)


runtime = SimpleNamespace(
    CUDARuntimeError=CUDARuntimeError,
    driverGetVersion=lambda: 12090,
    getDevice=devices.current,
    getDeviceCount=device_count,
    getDeviceProperties=lambda device: {"name": f"stand-in {device}".encode()},
    pointerGetAttributes=lambda ptr: SimpleNamespace(
        device=pointer_to(ptr).device_id, devicePointer=ptr
    ),
    runtimeGetVersion=lambda: 12090,
)
driver = SimpleNamespace(
    CUDADriverError=CUDADriverError,
    occupancyMaxActiveBlocksPerMultiprocessor=occupancy,
)
device = SimpleNamespace(get_cublas_handle=cublas.get_cublas_handle)
compiler = SimpleNamespace(CompileException=CompileException)
memory = SimpleNamespace(OutOfMemoryError=OutOfMemoryError)
