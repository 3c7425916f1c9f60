"""Memory of a device, and pointers to it."""

from __future__ import annotations

import weakref

import numpy as np

from gpusolve import _emulator

from . import devices

ALIGNMENT = 512
"""Of the first byte, in bytes; CuPy's pool gives no less."""

_all: weakref.WeakSet[Memory] = weakref.WeakSet()


class Memory:
    """Bytes on the current device, which nobody wrote yet."""

    def __init__(self, size: int) -> None:
        self.device_id = devices.current()
        self.size = size
        self._facts = devices.facts[self.device_id]
        self._facts.take(size)
        weakref.finalize(self, self._facts.give_back, size)
        room = _emulator.empty(size + ALIGNMENT, np.uint8)
        gap = -room.ctypes.data % ALIGNMENT
        self.bytes = room[gap : gap + size]
        self.ptr = int(self.bytes.ctypes.data) if size else 0
        _all.add(self)


class MemoryPointer:
    """A place in some memory."""

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


def pointer_to(address: int) -> MemoryPointer:
    """The pointer with this address, whatever memory it points to."""
    for memory in _all:
        if memory.ptr <= address < memory.ptr + max(1, memory.size):
            return MemoryPointer(memory, address - memory.ptr)
    raise devices.CUDARuntimeError("cudaErrorInvalidValue: invalid argument")
