"""The stacks of the emulated threads, as many as the device holds at once.

They are made when first needed and kept, since a page that guards each from its
neighbour costs a system call. All kernels share them: one runs at a time.
"""

from __future__ import annotations

from . import _device, _pages

STACK_BYTES = 64 * 1024
GUARD_BYTES = _pages.PAGE_BYTES
STRIDE = GUARD_BYTES + STACK_BYTES
"""From one stack to the next: the guard lies below, where a stack overflows to."""


class Stacks:
    """Equal stacks side by side."""

    def __init__(self) -> None:
        self._address: int | None = None
        self._ready = 0

    def ready(self, count: int) -> int:
        """Where the first of `count` stacks begins, with the guard below it."""
        if self._address is None:
            self._address = _pages.reserve(_device.resident_threads * STRIDE)
        for index in range(self._ready, count):
            start = self._address + index * STRIDE + GUARD_BYTES
            _pages.protect(start, STACK_BYTES, _pages.READ_AND_WRITE)
        self._ready = max(self._ready, count)
        return self._address


stacks = Stacks()
