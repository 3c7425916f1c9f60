"""Turns the race detector on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar

VARIABLE = "GPUSOLVE_EMULATE_RACES"

_watching: ContextVar[bool] = ContextVar("races", default=False)


@contextlib.contextmanager
def races() -> Iterator[None]:
    """Detect data races in kernels that are launched in this `with` statement.

    A launch raises KernelError if two threads access the same element of global or
    shared memory, at least one writes, and nothing orders the two accesses. Two
    accesses are ordered

    - within a block, by a barrier between them, or within a warp by a ``__syncwarp()``
      whose mask contains both lanes;
    - between blocks, by a flag: the first thread calls ``__threadfence()``, then writes
      the flag; the second thread reads the flag, then calls ``__threadfence()``. Both
      access the flag by a volatile or atomic operation. Within a block
      ``__threadfence_block()`` is sufficient.

    A launch also raises KernelError if a thread reads a value as a whole that another
    thread writes in parts. It reports the first race of the run.

    Notes
    -----
    Shuffles and votes do not order memory accesses, as CUDA's programming guide says.
    Volatile and atomic accesses do not race with each other. Arrays passed as pointers
    to const are not checked, nor are a thread's local arrays.

    Kernels are compiled a second time for race detection. They run much more slowly,
    one block at a time. ``GPUSOLVE_EMULATE_RACES=1`` in the environment turns the
    detection on for the whole program.
    """
    token = _watching.set(True)
    try:
        yield
    finally:
        _watching.reset(token)


def watching() -> bool:
    """Whether launches must detect races."""
    return _watching.get() or os.environ.get(VARIABLE, "") not in ("", "0")
