"""The memory that `gpusolve.nnls` needs beyond its arguments, on Linux.

    python benchmarks/memory.py "30 x 10, one matrix" 10000

Each call is the first of a process: memory that is free already would not count.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from nnls_cases import CASES, Case

import gpusolve

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")

LEAST_SYSTEMS = 1000
"""Fewer systems need less memory than the process itself."""


def kilobytes(name: str) -> int:
    """A value of the process's status."""
    lines = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def growth(call: Callable[[], Any]) -> int:
    """Bytes by which the resident memory grows during a call, at its peak."""
    CLEAR.write_text("5")  # the peak becomes the present size
    before = kilobytes("VmRSS")
    call()
    return 1024 * max(0, kilobytes("VmHWM") - before)


def peak_bytes(case: Case, systems: int) -> int:
    """The bytes that a batch needs; 0 if they cannot be measured, or are few."""
    if systems < LEAST_SYSTEMS or case not in CASES or not os.access(CLEAR, os.W_OK):
        return 0
    command = [sys.executable, __file__, case.label, str(systems)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return int(subprocess.check_output(command, env=environment))


def main() -> None:
    label, systems = sys.argv[1:]
    case = next(case for case in CASES if case.label == label)
    solve = partial(gpusolve.nnls, *case.make(int(systems)))
    gpusolve.nnls([[1.0]], [1.0])  # loads the solver
    print(growth(solve))


if __name__ == "__main__":
    main()
