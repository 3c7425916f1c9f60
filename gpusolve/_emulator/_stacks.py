"""Stacks for the emulated threads: a stack for each resident thread of the device.

They are allocated when first needed and kept, because the guard page of each costs a
system call. All kernels share them, because kernels run one at a time.
"""

from __future__ import annotations

from . import _device, _pages

STACK_BYTES = 64 * 1024
GUARD_BYTES = _pages.PAGE_BYTES
STRIDE = GUARD_BYTES + STACK_BYTES
"""Distance between stacks. The guard is below each stack, where it would overflow."""


class Stacks:
    """Adjacent stacks of equal size."""

    def __init__(self) -> None:
        self._address: int | None = None
        self._ready = 0

    def ready(self, count: int) -> int:
        """Allocate at least `count` stacks. Returns the address of the first guard."""
        if self._address is None:
            self._address = _pages.reserve(_device.resident_threads * STRIDE)
        for index in range(self._ready, count):
            start = self._address + index * STRIDE + GUARD_BYTES
            _pages.protect(start, STACK_BYTES, _pages.READ_AND_WRITE)
        self._ready = max(self._ready, count)
        return self._address


stacks = Stacks()
