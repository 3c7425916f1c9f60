"""Memory of the device: arrays, and what kernels may access, by address."""

from __future__ import annotations

import ctypes
from bisect import insort
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.array_utils import byte_bounds

from ._profile import active_report

Array = npt.NDArray[Any]


def c_fields(text: str) -> list[tuple[str, Any]]:
    """The fields of a C structure.

    Examples
    --------
    >>> c_fields("low high: uint64, number: int")[2]
    ('number', <class 'ctypes.c_int'>)
    """
    found = []
    for part in text.split(","):
        names, _, type = part.partition(":")
        found += [
            (name, getattr(ctypes, f"c_{type.strip()}")) for name in names.split()
        ]
    return found


class CRegion(ctypes.Structure):
    """``Region`` in ``machine/machine.h``."""

    _fields_ = c_fields(
        "low high phase: uint64, number: int, is_writeable: bool, written: void_p"
    )


POISON = 0xFF
"""Each byte of memory without a value."""

HEAP = "the heap of malloc()"
"""The name of the memory that kernels allocate."""


@dataclass(frozen=True)
class Item:
    """An array, a variable or an allocation that kernels may access."""

    low: int
    high: int
    name: str
    first: int
    itemsize: int
    text: str
    writeable: bool
    phase: int
    written: npt.NDArray[np.uint8] | None = None
    is_variable: bool = False

    def describe(self, address: int, bytes: int = 1) -> str:
        """The element at an address, valid or not; of a variable, in units of bytes."""
        unit = bytes if self.is_variable else self.itemsize
        size = f" ({bytes} bytes)" if self.is_variable else ""
        text = f"element {(address - self.first) // unit}{size} of {self.text}"
        if self.low <= address < self.high:
            return text if self.writeable else f"{text}, which is read-only"
        first = (self.low - self.first) // unit
        count = (self.high - self.low) // unit
        if self.is_variable:
            return f"{text}, which has {count} elements"
        if count == 0:
            return f"{text}, which is empty"
        return f"{text}, which has elements {first} to {first + count - 1}"


class Memory:
    """What kernels may access, by address.

    An address of the device is an address of the host. `phase` is the remainder of a
    GPU's address for 256, which decides about alignment and sectors.
    """

    def __init__(self) -> None:
        self._items: list[Item] = []

    def add(
        self,
        address: int,
        size: int,
        name: str,
        *,
        itemsize: int = 1,
        text: str = "",
        writeable: bool = True,
        written: bool = True,
        is_variable: bool = False,
    ) -> None:
        """Add memory at a multiple of 256 of the device.

        `written` is False if its values are not initialised.
        """
        bits = None if written else np.zeros(size // 8 + 1, np.uint8)
        item = Item(
            address,
            address + size,
            name,
            address,
            itemsize,
            text or name,
            writeable,
            0,
            bits,
            is_variable,
        )
        insort(self._items, item, key=attrgetter("low"))

    def add_array(self, name: str, array: Array) -> None:
        """Add a NumPy array."""
        first = int(array.ctypes.data)
        low, high = byte_bounds(array) if array.size else (first, first)
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        item = Item(
            low,
            high,
            name,
            first,
            max(1, array.itemsize),
            f"{name} ({array.dtype}, shape {array.shape})",
            bool(array.flags.writeable),
            (low - (byte_bounds(root)[0] if root.size else low)) % 256,
        )
        insort(self._items, item, key=attrgetter("low"))

    def remove(self, address: int) -> None:
        """Remove what begins at an address."""
        self._items = [item for item in self._items if item.low != address]

    def regions(self) -> list[CRegion]:
        """Memory without overlaps: arrays that overlap are one region."""
        found: list[CRegion] = []
        for number, item in enumerate(self._items):
            low = item.low
            if low == item.high:
                continue
            if found and low < found[-1].high:
                found[-1].high = max(found[-1].high, item.high)
                found[-1].is_writeable |= item.writeable
                continue
            bits = None if item.written is None else item.written.ctypes.data
            found.append(
                CRegion(low, item.high, item.phase, number, item.writeable, bits)
            )
        return found

    def names_of_regions(self) -> tuple[dict[int, str], dict[str, int]]:
        """The names of the regions by their numbers, and their sizes by name."""
        names: dict[int, str] = {}
        sizes: dict[str, int] = {}
        for region in self.regions():
            inside = [
                item.name
                for item in self.items()
                if item.low < region.high and region.low < item.high
            ]
            name = names[region.number] = " and ".join(dict.fromkeys(inside))
            sizes[name] = region.high - region.low
        return names, sizes

    def items(self) -> list[Item]:
        """Everything, by address."""
        return list(self._items)

    def item(self, address: int) -> Item | None:
        """What is at an address, or nearest to it."""
        if not self._items:
            return None

        def distance(item: Item) -> int:
            return max(item.low - address, address + 1 - item.high, 0)

        return min(self.items(), key=distance)


def empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An uninitialised array: NaN in floating point, -1 in signed integers.

    Examples
    --------
    >>> empty(2, np.float64)
    array([nan, nan])
    """
    if report := active_report():
        report.host.allocations += 1
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[...] = POISON
    return array


def zeros(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of zeros."""
    if report := active_report():
        report.host.allocations += 1
        report.host.memsets += 1
    return np.zeros(shape, dtype)
