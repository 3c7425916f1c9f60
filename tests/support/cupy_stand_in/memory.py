"""Device memory, and pointers to it."""

from __future__ import annotations

import weakref

import numpy as np

from gpusolve import _emulator

from . import devices

ALIGNMENT = 512
"""Alignment of allocations in bytes, as in CuPy's memory pool."""

_all: weakref.WeakSet[Memory] = weakref.WeakSet()


class Memory:
    """Uninitialised memory on the current device."""

    def __init__(self, size: int) -> None:
        self.device_id = devices.current()
        self.size = size
        state = devices.states[self.device_id]
        state.allocate(size)
        weakref.finalize(self, state.free, size)
        allocation = _emulator.empty(size + ALIGNMENT, np.uint8)
        start = -allocation.ctypes.data % ALIGNMENT
        self.bytes = allocation[start : start + size]
        self.ptr = int(self.bytes.ctypes.data) if size else 0
        _all.add(self)


class MemoryPointer:
    """An address in a `Memory`."""

    def __init__(self, mem: Memory, offset: int) -> None:
        self.mem = mem
        self.offset = offset

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.offset + offset)

    @property
    def ptr(self) -> int:
        return self.mem.ptr + self.offset

    @property
    def device_id(self) -> int:
        return self.mem.device_id

    @property
    def device(self) -> devices.Device:
        return devices.Device(self.device_id)


class MemoryPool:
    """The pool of the current device."""

    def free_all_blocks(self, stream: object = None) -> None:
        devices.states[devices.current()].pooled = 0


def get_default_memory_pool() -> MemoryPool:
    return MemoryPool()


def pointer_to(address: int) -> MemoryPointer:
    """The pointer to an address in any of the allocations."""
    for memory in _all:
        if memory.ptr <= address < memory.ptr + max(1, memory.size):
            return MemoryPointer(memory, address - memory.ptr)
    raise devices.CUDARuntimeError("cudaErrorInvalidValue: invalid argument")
