"""Whether kernels are watched for races."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar

VARIABLE = "GPUSOLVE_EMULATE_RACES"

_watching: ContextVar[bool] = ContextVar("races", default=False)


@contextlib.contextmanager
def races() -> Iterator[None]:
    """Watch kernels for races inside the block of this `with` statement.

    A launch raises KernelError where two threads touch an element of global or shared
    memory, one of them writes, and nothing puts the one access before the other. Within
    a block a barrier does, or a ``__syncwarp()`` whose mask has both lanes. Between
    blocks it is a value that was written behind a ``__threadfence()`` and seen by a
    volatile or atomic read in front of another one; within a block
    ``__threadfence_block()`` serves for that as well. It raises whichever comes first
    in this run, and also where a read takes for one value what another thread wrote in
    parts.

    Notes
    -----
    Shuffles and votes order no memory, as CUDA's programming guide has it. Volatile and
    atomic accesses do not race with each other. Arrays that a kernel takes by pointers
    to const are not watched, nor are a thread's local arrays.

    Kernels are compiled once more for it, and run much slower, one block at a time.
    Outside of such statements ``GPUSOLVE_EMULATE_RACES=1`` in the environment does the
    same.
    """
    token = _watching.set(True)
    try:
        yield
    finally:
        _watching.reset(token)


def watching() -> bool:
    """Whether launches are to be watched."""
    return _watching.get() or os.environ.get(VARIABLE, "") not in ("", "0")
