"""A launch's arrays, each alone between pages that nobody may touch.

A kernel runs on copies. One end of an array touches an inaccessible page, so that an
access beyond it faults; whatever room is left at the other end is checked for writes
afterwards.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
from numpy.lib.array_utils import byte_bounds

from . import _pages
from ._errors import KernelError

Array = npt.NDArray[Any]

_GUARD_BYTES = 64 * 1024 * 1024
"""On either side. Addresses only: no memory stands behind it."""

_CANARY = bytes([0xF5, 0xFF]) * _pages.PAGE_BYTES
"""In the room around an array, less than two pages. NaN in every floating type."""

_POISONED_POINTER = 2**64 - _pages.PAGE_BYTES
"""A pointer from memory that nobody wrote, and those a little before it."""


@dataclass(frozen=True)
class NamedArray:
    """An array as a kernel knows it, by its parameter's name.

    `is_written` where the parameter is no pointer to const.
    """

    name: str
    array: Array
    is_written: bool = True

    def __str__(self) -> str:
        return f"{self.name} ({self.array.dtype}, shape {self.array.shape})"


class Arena:
    """A copy of the memory that some overlapping arrays lie in, guarded on both sides.

    Parameters
    ----------
    arrays : sequence of NamedArray
    low, high : int
        The first address of their memory, and that behind the last.
    touch_end : bool
        Whether the end of the copy touches a guard, or else its beginning. An array's
        elements keep their alignment, so a few bytes may lie between.
    """

    def __init__(
        self, arrays: Sequence[NamedArray], low: int, high: int, touch_end: bool
    ) -> None:
        self.arrays = arrays
        self._low, self._bytes = low, high - low
        self.writeable = any(one.array.flags.writeable for one in arrays)
        alignment = max(one.array.dtype.alignment for one in arrays)
        tail = -high % alignment
        head = low % alignment
        used = self._bytes + (tail if touch_end else head)
        self._room = _pages.whole_pages(used)
        self._base = _pages.reserve(self._room + 2 * _GUARD_BYTES)
        self._room_start = self._base + _GUARD_BYTES
        self._start = (
            self._room_start + self._room - used
            if touch_end
            else self._room_start + head
        )
        self._copy_in()

    def _copy_in(self) -> None:
        if self._room == 0:
            return
        _pages.protect(self._room_start, self._room, _pages.READ_AND_WRITE)
        for address, size in self._spans_around():
            ctypes.memmove(address, _CANARY, size)
        ctypes.memmove(self._start, self._low, self._bytes)
        if not self.writeable:
            _pages.protect(self._room_start, self._room, _pages.READ)

    def copy_back(self) -> None:
        """Give the arrays what the kernel wrote."""
        if self.writeable:
            ctypes.memmove(self._low, self._start, self._bytes)

    def close(self) -> None:
        _pages.release(self._base, self._room + 2 * _GUARD_BYTES)

    def pointer(self, array: Array) -> int:
        """Where the copy has the array's first element."""
        return self._start + int(array.ctypes.data) - self._low

    @property
    def span(self) -> tuple[int, int]:
        """The copy's first address, and its bytes."""
        return self._start, self._bytes

    def __contains__(self, address: int) -> bool:
        return self._base <= address < self._base + self._room + 2 * _GUARD_BYTES

    def describe(self, address: int) -> str:
        """The element of an array that lies, or would lie, at an address."""
        named = min(self.arrays, key=lambda one: self._distance(one.array, address))
        array = named.array
        element = (address - self.pointer(array)) // max(array.itemsize, 1)
        text = f"element {element} of {named}"
        if self._distance(array, address) == 0:
            return text if array.flags.writeable else f"{text}, which is read-only"
        if array.size == 0:
            return f"{text}, which is empty"
        first, last = self._elements(array)
        return f"{text}, which has elements {first} to {last}"

    def overwritten(self) -> int | None:
        """The first address around the arrays that the kernel wrote to."""
        for address, size in self._spans_around():
            found, right = ctypes.string_at(address, size), _CANARY[:size]
            if found != right:
                pairs = zip(found, right, strict=True)
                return address + next(k for k, (a, b) in enumerate(pairs) if a != b)
        return None

    def _spans_around(self) -> Iterator[tuple[int, int]]:
        """Addresses and sizes."""
        end = self._start + self._bytes
        yield self._room_start, self._start - self._room_start
        yield end, self._room_start + self._room - end

    def _elements(self, array: Array) -> tuple[int, int]:
        """Offsets of the array's lowest and highest element from its first."""
        low, high = byte_bounds(array)
        first = int(array.ctypes.data)
        return (low - first) // array.itemsize, (high - first) // array.itemsize - 1

    def _distance(self, array: Array, address: int) -> int:
        low, high = byte_bounds(array) if array.size else (array.ctypes.data,) * 2
        shift = self._start - self._low
        return max(low + shift - address, address + 1 - (high + shift), 0)


class DeviceMemory:
    """All arenas of one launch.

    Parameters
    ----------
    arrays : sequence of NamedArray
        Those that overlap share an arena, as they share memory.
    touch_end : bool
        Which end of each lies against a guard.
    """

    def __init__(self, arrays: Sequence[NamedArray], touch_end: bool) -> None:
        self._arenas: list[Arena] = []
        try:
            for group, low, high in _overlapping(arrays):
                self._arenas.append(Arena(group, low, high, touch_end))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> DeviceMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pointers(self) -> dict[str, int]:
        """What each parameter points to."""
        return {
            named.name: arena.pointer(named.array)
            for arena in self._arenas
            for named in arena.arrays
        }

    def written_spans(self) -> list[tuple[int, int]]:
        """Where bytes begin that the kernel may write, and how many there are."""
        return [
            arena.span
            for arena in self._arenas
            if any(one.is_written for one in arena.arrays)
        ]

    def describe(self, address: int) -> str:
        """What lies at an address that a kernel should not have touched."""
        for arena in self._arenas:
            if address in arena:
                return arena.describe(address)
        if address < _pages.PAGE_BYTES:
            return f"address {address:#x}, a null pointer"
        if address >= _POISONED_POINTER:
            return f"address {address:#x}, a pointer that nobody set"
        return f"address {address:#x}, which belongs to no array"

    def check(self, kernel: str) -> None:
        """Raise KernelError if the kernel wrote beside an array."""
        for arena in self._arenas:
            address = arena.overwritten()
            if address is not None:
                raise KernelError(f"{kernel} writes {arena.describe(address)}")

    def copy_back(self) -> None:
        for arena in self._arenas:
            arena.copy_back()

    def close(self) -> None:
        for arena in self._arenas:
            arena.close()
        self._arenas.clear()


def _overlapping(
    arrays: Sequence[NamedArray],
) -> Iterator[tuple[list[NamedArray], int, int]]:
    """Groups of arrays that share memory, with its bounds; empty ones stand alone."""
    for named in arrays:
        if named.array.size == 0:
            address = int(named.array.ctypes.data)
            yield [named], address, address
    filled = [(*byte_bounds(one.array), one) for one in arrays if one.array.size]
    filled.sort(key=lambda bounds: bounds[:2])
    while filled:
        low, high, first = filled.pop(0)
        group = [first]
        while filled and filled[0][0] < high:
            _, end, named = filled.pop(0)
            group.append(named)
            high = max(high, end)
        yield group, low, high
