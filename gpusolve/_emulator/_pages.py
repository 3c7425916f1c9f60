"""Allocation and protection of memory pages.

The functions need POSIX. The module can be imported on every platform.
"""

from __future__ import annotations

import ctypes
import functools
import mmap

PAGE_BYTES = mmap.PAGESIZE
NO_ACCESS = 0
READ = 1
READ_AND_WRITE = 3
"""``PROT_READ | PROT_WRITE``. Python's `mmap` has these constants on POSIX only."""


def whole_pages(size: int) -> int:
    """`size` in bytes, rounded up to whole pages."""
    return (size + PAGE_BYTES - 1) // PAGE_BYTES * PAGE_BYTES


def reserve(size: int) -> int:
    """Reserve addresses of inaccessible pages, without memory. Returns the first."""
    kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = _libc().mmap(None, size, NO_ACCESS, kind, -1, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"cannot reserve {size} bytes of addresses")
    return int(address)


def protect(address: int, size: int, access: int) -> None:
    """Set the access to pages: `NO_ACCESS`, `READ` or `READ_AND_WRITE`."""
    if _libc().mprotect(address, size, access) != 0:
        raise MemoryError(f"cannot allocate {size} bytes")


def release(address: int, size: int) -> None:
    """Release pages from `reserve`."""
    _libc().munmap(address, size)


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None)
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    libc.mmap.restype = address
    libc.mmap.argtypes = [address, size, number, number, number, ctypes.c_long]
    libc.mprotect.argtypes = [address, size, number]
    libc.munmap.argtypes = [address, size]
    return libc
