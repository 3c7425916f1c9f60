"""Copies of a launch's arrays, between inaccessible pages.

A kernel runs on these copies. One end of each touches an inaccessible page, so that an
access beyond it faults. The unused bytes at the other end are checked for writes after
the launch.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt
from numpy.lib.array_utils import byte_bounds

from . import _pages
from ._errors import KernelError

Array = npt.NDArray[Any]

_GUARD_BYTES = 2**31 * 16
"""Inaccessible bytes on either side of a copy: any int indexes them, for elements of 16
bytes. They reserve addresses, not memory; a process has addresses for 2,000 arrays."""

_CANARY = bytes([0xF5, 0xFF]) * _pages.PAGE_BYTES
"""Fills the unused bytes around a copy (below two pages). NaN in every float type."""

_POISONED_POINTER = 2**64 - _pages.PAGE_BYTES
"""Addresses from here on come from uninitialised pointers."""


@dataclass(frozen=True)
class NamedArray:
    """An array with the name of its parameter.

    `is_written`: whether the parameter is a pointer to non-const.
    """

    name: str
    array: Array
    is_written: bool = True

    def __str__(self) -> str:
        return f"{self.name} ({self.array.dtype}, shape {self.array.shape})"


class Region:
    """Memory of a launch, with a guard on both sides.

    Parameters
    ----------
    size : int
        In bytes.
    alignment, remainder : int
        The remainder of its first address for a divisor.
    touch_end : bool
        Whether its end touches a guard, or its beginning. Because of the alignment
        there may be a few bytes between.
    """

    def __init__(
        self, size: int, alignment: int, remainder: int, touch_end: bool
    ) -> None:
        tail = -(remainder + size) % alignment
        head = remainder % alignment
        used = size + (tail if touch_end else head)
        self._bytes = size
        self._allocated = _pages.whole_pages(used)
        self._reserved = self._allocated + 2 * _GUARD_BYTES
        self._base = _pages.reserve(self._reserved)
        self._allocation = self._base + _GUARD_BYTES
        self._start = self._allocation + (self._allocated - used if touch_end else head)
        if self._allocated:
            _pages.protect(self._allocation, self._allocated, _pages.READ_AND_WRITE)
        for address, unused in self._unused_spans():
            ctypes.memmove(address, _CANARY, unused)

    def close(self) -> None:
        _pages.release(self._base, self._reserved)

    @property
    def span(self) -> tuple[int, int]:
        """Its first address and its size in bytes."""
        return self._start, self._bytes

    def __contains__(self, address: int) -> bool:
        return self._base <= address < self._base + self._reserved

    def overwritten(self) -> int | None:
        """The first address outside the memory that the kernel wrote to, or None."""
        for address, size in self._unused_spans():
            found, expected = ctypes.string_at(address, size), _CANARY[:size]
            if found != expected:
                pairs = zip(found, expected, strict=True)
                return address + next(k for k, (a, b) in enumerate(pairs) if a != b)
        return None

    def _unused_spans(self) -> Iterator[tuple[int, int]]:
        """Addresses and sizes of the unused bytes before and after the memory."""
        end = self._start + self._bytes
        yield self._allocation, self._start - self._allocation
        yield end, self._allocation + self._allocated - end


class Arena(Region):
    """A copy of the memory of overlapping arrays.

    Parameters
    ----------
    arrays : sequence of NamedArray
    low, high : int
        Their memory: the first address, and the address after the last.
    touch_end : bool
    alignment : int
        Addresses keep their remainder for this number, and for the elements' alignment.
    """

    def __init__(
        self,
        arrays: Sequence[NamedArray],
        low: int,
        high: int,
        touch_end: bool,
        alignment: int,
    ) -> None:
        elements = (named.array.dtype.alignment for named in arrays)
        super().__init__(high - low, max(alignment, *elements), low, touch_end)
        self.arrays = arrays
        self._low = low
        self.writeable = any(named.array.flags.writeable for named in arrays)
        self._copy_in()

    def _copy_in(self) -> None:
        if self._allocated == 0:
            return
        ctypes.memmove(self._start, self._low, self._bytes)
        if not self.writeable:
            _pages.protect(self._allocation, self._allocated, _pages.READ)

    def copy_back(self) -> None:
        """Copy the results of the kernel to the arrays."""
        if self.writeable:
            ctypes.memmove(self._low, self._start, self._bytes)

    def pointer(self, array: Array) -> int:
        """The address of the array's first element in the copy."""
        return self._start + int(array.ctypes.data) - self._low

    def describe(self, address: int) -> str:
        """The array and the index of its element at an address, valid or not."""
        named = min(self.arrays, key=lambda named: self._distance(named.array, address))
        array = named.array
        element = (address - self.pointer(array)) // max(array.itemsize, 1)
        text = f"element {element} of {named}"
        if self._distance(array, address) == 0:
            return text if array.flags.writeable else f"{text}, which is read-only"
        if array.size == 0:
            return f"{text}, which is empty"
        first, last = self._elements(array)
        return f"{text}, which has elements {first} to {last}"

    def _elements(self, array: Array) -> tuple[int, int]:
        """Indices of the elements at the lowest and the highest address."""
        low, high = byte_bounds(array)
        first = int(array.ctypes.data)
        return (low - first) // array.itemsize, (high - first) // array.itemsize - 1

    def _distance(self, array: Array, address: int) -> int:
        low, high = byte_bounds(array) if array.size else (array.ctypes.data,) * 2
        shift = self._start - self._low
        return max(low + shift - address, address + 1 - (high + shift), 0)


class LaunchMemory(Protocol):
    """The memory that a launch may access."""

    def spans_by_use(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Addresses and sizes of arrays that the kernel may write, and of others."""

    def named_spans(self) -> dict[str, tuple[int, int]]:
        """Addresses and sizes of the arrays; overlapping arrays share a span."""

    def describe(self, address: int) -> str:
        """The object at an address, for an error message."""

    def check(self, kernel: str) -> None:
        """Raise KernelError if the kernel wrote just outside an array."""


class DeviceMemory:
    """The arenas of a launch.

    Parameters
    ----------
    arrays : sequence of NamedArray
        Arrays that overlap share an arena.
    touch_end : bool
        Whether the end of each copy touches a guard, or its beginning.
    alignment : int, optional
        The alignment of addresses that the copies keep, in bytes.
    """

    def __init__(
        self, arrays: Sequence[NamedArray], touch_end: bool, alignment: int = 1
    ) -> None:
        self._arenas: list[Arena] = []
        try:
            for group, low, high in _overlapping(arrays):
                self._arenas.append(Arena(group, low, high, touch_end, alignment))
        except BaseException:
            self.close()
            raise
        self._addresses = {
            id(named.array): arena.pointer(named.array)
            for arena in self._arenas
            for named in arena.arrays
        }

    def __enter__(self) -> DeviceMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def address(self, array: Array) -> int:
        """The address of an array's first element in the copies."""
        return self._addresses[id(array)]

    def spans_by_use(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Addresses and sizes of arrays that the kernel may write, and of others."""
        written: list[tuple[int, int]] = []
        read: list[tuple[int, int]] = []
        for arena in self._arenas:
            is_written = any(named.is_written for named in arena.arrays)
            (written if is_written else read).append(arena.span)
        return written, read

    def named_spans(self) -> dict[str, tuple[int, int]]:
        """Addresses and sizes of the arrays; overlapping arrays share a span."""
        return {
            " and ".join(named.name for named in arena.arrays): arena.span
            for arena in self._arenas
        }

    def describe(self, address: int) -> str:
        """The object at an address, for an error message."""
        for arena in self._arenas:
            if address in arena:
                return arena.describe(address)
        return describe_nowhere(address)

    def check(self, kernel: str) -> None:
        """Raise KernelError if the kernel wrote just outside an array."""
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
    """Groups of arrays that share memory, with its bounds. An empty array is alone."""
    for named in arrays:
        if named.array.size == 0:
            address = int(named.array.ctypes.data)
            yield [named], address, address
    filled = [
        (*byte_bounds(named.array), named) for named in arrays if named.array.size
    ]
    filled.sort(key=lambda bounds: bounds[:2])
    while filled:
        low, high, first = filled.pop(0)
        group = [first]
        while filled and filled[0][0] < high:
            _, end, named = filled.pop(0)
            group.append(named)
            high = max(high, end)
        yield group, low, high


def describe_nowhere(address: int, what: str = "is in no array of the launch") -> str:
    """An address outside of the memory of a launch."""
    if address < _pages.PAGE_BYTES:
        return f"address {address:#x}, through a null pointer"
    if address >= _POISONED_POINTER:
        return f"address {address:#x}, through an uninitialised pointer"
    return f"address {address:#x}, which {what}"
