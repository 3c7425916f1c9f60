"""The device memory of a whole program."""

from __future__ import annotations

from dataclasses import dataclass

from ._errors import KernelError
from ._memory import Region, describe_nowhere

ALIGNMENT = 256
"""Of an address that cudaMalloc() returns, in bytes."""


@dataclass(frozen=True)
class Allocation:
    """Memory of a program.

    Attributes
    ----------
    name : str
        The variable that the program keeps its address in.
    region : Region
    element_bytes : int
        The size of what the variable points to.
    """

    name: str
    region: Region
    element_bytes: int

    def describe(self, address: int) -> str:
        """The element at an address, valid or not."""
        start, size = self.region.span
        count = size // self.element_bytes
        element = (address - start) // self.element_bytes
        text = f"element {element} ({self.element_bytes} bytes) of {self.name}"
        if start <= address < start + size:
            return text
        return f"{text}, which has elements 0 to {count - 1}"


class Heap:
    """Allocations, each between inaccessible pages."""

    def __init__(self) -> None:
        self._allocations: dict[int, Allocation] = {}

    def allocate(self, name: str, size: int, element_bytes: int) -> int:
        """Allocate bytes, which are not initialised. MemoryError if it fails."""
        region = Region(size, ALIGNMENT, 0, touch_end=True)
        address = region.span[0]
        self._allocations[address] = Allocation(name, region, element_bytes)
        return address

    def release(self, address: int) -> None:
        """Free an allocation; an access to it afterwards fails."""
        self._allocations.pop(address).region.close()

    def spans_by_use(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Addresses and sizes of the memory: a kernel may write all of it."""
        return [item.region.span for item in self._allocations.values()], []

    def named_spans(self) -> dict[str, tuple[int, int]]:
        """Addresses and sizes of the allocations; equal names are numbered."""
        spans: dict[str, tuple[int, int]] = {}
        for item in self._allocations.values():
            name, number = item.name, 2
            while name in spans:
                name, number = f"{item.name} ({number})", number + 1
            spans[name] = item.region.span
        return spans

    def describe(self, address: int) -> str:
        """The object at an address, for an error message."""
        for item in self._allocations.values():
            if address in item.region:
                return item.describe(address)
        return describe_nowhere(address, "is not device memory")

    def check(self, kernel: str) -> None:
        """Raise KernelError if the kernel wrote just outside an allocation."""
        for item in self._allocations.values():
            address = item.region.overwritten()
            if address is not None:
                raise KernelError(f"{kernel} writes {item.describe(address)}")
