"""The time and the memory of the first call of a process, on Linux.

In another process no memory is free already, which would not count.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from harness import Call, wall_clock

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class FirstCall(NamedTuple):
    """A call: its seconds, its result, and the bytes by which the process grew.

    The bytes are 0 where the system does not tell them.
    """

    seconds: float
    result: Any
    bytes: int


def first_call(prepare: Callable[..., Call], *args: Any) -> FirstCall:
    """Prepare a call in a new process, and measure it there."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measured, prepare, *args).result()


def _measured(prepare: Callable[..., Call], *args: Any) -> FirstCall:
    call = prepare(*args)
    if not os.access(CLEAR, os.W_OK):
        return FirstCall(*wall_clock(call), 0)
    CLEAR.write_text("5")  # the peak becomes the present size
    before = _kilobytes("VmRSS")
    timed = wall_clock(call)
    return FirstCall(*timed, 1024 * max(0, _kilobytes("VmHWM") - before))


def _kilobytes(name: str) -> int:
    """A value of the process's status."""
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))
