"""Error messages for failed kernels."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from typing import NoReturn

from ._errors import KernelError, raise_at
from ._memory import HEAP, Item, Memory
from .module import CFault, LoadedKernel, Shape, demangled

NULL_BYTES, POISON = 4096, 2**64 - 4096
"""Addresses below are null pointers with an offset; from here on, uninitialised."""

NEAR_BYTES = 1 << 16
"""An address whose pointer cannot be traced belongs to an array that is nearer, or
nearer than 16 times its size."""

_ACCESS, _READONLY, _MISALIGNED, _UNWRITTEN, _RACE = range(2, 7)
"""``FaultKind`` in ``machine/machine.h``."""

_GENERIC, _GLOBAL, _CONSTANT, _SHARED, _LOCAL, _PARAM = range(6)
"""``Space``."""

(
    _TORN,
    _UPDATE,
    _OVERWRITE,
    _SAME_VALUE,
    _ACQUIRE,
    _LOCKSTEP,
    _SCOPE,
    _PENDING,
) = range(2, 10)
"""``RaceKind``."""

_REMEDIES = {
    _UPDATE: "use an atomic operation, such as atomicAdd()",
    _OVERWRITE: "let a single thread write it, or use an atomic operation",
    _SAME_VALUE: "both store the same value, which is harmless on today's GPUs but not "
    "guaranteed; let a single thread write it, or use an atomic operation",
    _ACQUIRE: "the thread has read a flag that the other thread has set, but called no "
    "fence since; put a __threadfence() after the read of the flag, or a "
    "__threadfence_block() if both are of the same block",
    _LOCKSTEP: "lanes of a warp ran in lockstep before Volta, but do not on Volta and "
    "later GPUs; put a __syncwarp() between them",
    _SCOPE: "an atomic operation or a fence of a block orders nothing between blocks; "
    "use atomicAdd() instead of atomicAdd_block(), and __threadfence()",
    _PENDING: "it does so by a copy that runs on by itself (memcpy_async, cp.async); "
    "wait for the copy, and put a __syncthreads() before threads read what others copy",
}
"""What to do about a race, by its kind."""

_PLACE = re.compile(r"\{(\d+)\}")
_ACCESSES, _PAST = ("reads", "writes"), ("read", "wrote")


def raise_fault(
    fault: CFault,
    kernel: LoadedKernel,
    shape: Shape,
    memory: Memory,
    name: str,
    parameters: bytes,
    shared_bytes: int,
) -> NoReturn:
    """Raise the `KernelError` of a fault."""
    __tracebackhide__ = True
    message = _Message(fault, kernel, shape, memory, parameters, shared_bytes)
    line = kernel.line(fault.site) if fault.site >= 0 else None
    where = [name]
    if fault.has_thread:
        where.append(f"thread {_index(fault.thread, shape.block)}")
    where.append(f"block {_index(fault.block, shape.grid)}")
    if line:
        where.append(str(line))
    raise_at(line, name, KernelError(f"{', '.join(where)}: {message.text()}"))


def _index(number: int, size: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y, _ = size
    return number % x, number // x % y, number // x // y


@dataclass(frozen=True)
class _Message:
    fault: CFault
    kernel: LoadedKernel
    shape: Shape
    memory: Memory
    parameters: bytes
    shared_bytes: int

    @property
    def access(self) -> str:
        return _ACCESSES[bool(self.fault.is_write)]

    def text(self) -> str:
        fault = self.fault
        if fault.kind == _MISALIGNED:
            rest = self._phase() % fault.bytes
            return (
                f"{self.access} {fault.bytes} bytes at {self._element()}, {rest} bytes "
                f"after a multiple of {fault.bytes}; a GPU ends the launch there"
            )
        if fault.kind == _UNWRITTEN:
            writer = "no thread of the block" if fault.space == _SHARED else "nothing"
            return f"reads {self._element()}, to which {writer} has written"
        if fault.kind == _RACE:
            return self._race()
        if fault.kind in (_ACCESS, _READONLY):
            return self._outside()
        text = fault.text.decode(errors="replace")
        return _PLACE.sub(lambda found: str(self.kernel.line(int(found[1]))), text)

    def _phase(self) -> int:
        item = self.memory.item(self.fault.address)
        if item is None or self.fault.space not in (_GLOBAL, _GENERIC, _CONSTANT):
            return int(self.fault.address)
        return int(self.fault.address) - item.low + item.phase

    def _outside(self) -> str:
        fault = self.fault
        if fault.space == _SHARED:
            return self._shared_overrun()
        if fault.space == _LOCAL:
            offset = ctypes.c_int64(fault.address).value
            return f"{self.access} byte {offset} of its local memory, which is outside"
        if fault.space == _PARAM:
            return f"{self.access} byte {fault.address} of the kernel's parameters"
        return f"{self.access} {self._global()}"

    def _global(self) -> str:
        address = self.fault.address
        if address < NULL_BYTES:
            return f"address {address:#x}, through a null pointer"
        if address >= POISON:
            return f"address {address:#x}, through an uninitialised pointer"
        item = self.memory.item(address)
        if item is None or not item.low <= address < item.high:
            nearest, item = item, self._pointer()
            if item is None and nearest is not None and _is_near(nearest, address):
                item = nearest
        if item is None:
            return f"address {address:#x}, which is in no array of the launch"
        return item.describe(address, self.fault.bytes)

    def _pointer(self) -> Item | None:
        """The array whose pointer the instruction uses, if it can be traced."""
        for offset in self.kernel.origins(self.fault.site):
            address = int.from_bytes(self.parameters[offset : offset + 8], "little")
            for item in self.memory.items():
                if item.low <= address < item.high or address == item.first:
                    return item
        return None

    def _element(self) -> str:
        if self.fault.space != _SHARED:
            return self._global()
        found = self._variable(self.fault.address)
        if found is None:
            return "shared memory"
        name, start, _ = found
        element, rest = divmod(self.fault.address - start, self.fault.bytes)
        if rest:
            return f"byte {self.fault.address - start} of {name} in shared memory"
        return (
            f"element {element} ({self.fault.bytes} bytes) of {name} in shared memory"
        )

    def _variable(self, offset: int) -> tuple[str, int, int] | None:
        """Name, offset and size of the last variable at an offset or before."""
        before = [v for v in self.kernel.shared_variables if v[1] <= offset]
        if not before:
            return None
        start = max(v[1] for v in before)
        same = [v for v in before if v[1] == start]
        names = sorted({demangled(name).rpartition("::")[2] for name, _, _ in same})
        size = same[0][2] or self.shared_bytes
        return " or ".join(names), start, size

    def _shared_overrun(self) -> str:
        offset = ctypes.c_int64(self.fault.address).value
        found = self._variable(offset)
        if found is None:
            return f"{self.access} outside of shared memory, at byte {offset}"
        name, start, size = found
        unit, place = self.fault.bytes, "element"
        if (offset - start) % unit or size % unit or self.fault.site < 0:
            unit, place = 1, "byte"
        remedy = "check the index"
        if any(v[2] == 0 and v[1] == start for v in self.kernel.shared_variables):
            remedy += ", or launch with a larger shared_mem"
        if self.fault.site < 0:
            remedy += "; memcheck names the line"
        return (
            f"{self.access} past the end of shared memory: {place} "
            f"{(offset - start) // unit} of {name}, which has {size // unit} {place}s; "
            f"{remedy}"
        )

    def _race(self) -> str:
        fault = self.fault
        same_block = fault.other_block == fault.block
        other = f"thread {_index(fault.other_thread, self.shape.block)}"
        if not same_block:
            other += f" of block {_index(fault.other_block, self.shape.grid)}"
        other += f" at {self.kernel.line(fault.other_site)}"
        access = f"data race: {self.access} {self._element()}"
        if fault.race == _TORN:
            return (
                f"{access} as one value, but {other} wrote only a part of it; "
                "write the value by one store"
            )
        remedy = _REMEDIES.get(fault.race) or (
            "put a __syncthreads() between them"
            if same_block
            else "use atomics, or a flag with a __threadfence() on both sides"
        )
        return (
            f"{access}, which {other} {_PAST[bool(fault.other_is_write)]}, and nothing "
            f"orders the two accesses; {remedy}"
        )


def _is_near(item: Item, address: int) -> bool:
    if item.name == HEAP:
        return False  # the host's addresses are near the heap by chance
    distance = max(item.low - address, address + 1 - item.high)
    return distance < NEAR_BYTES + 16 * (item.high - item.low)
