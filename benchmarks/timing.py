"""How long a call takes, and on which machine.

On a GPU the time is that between two CUDA events, after the L2 cache was filled with
something else. The host prepares the call while the device still does that, so that
what Python needs is in the time only where it takes longer.
"""

from __future__ import annotations

import contextlib
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from gpusolve._nnls.cpu import cores

Call = Callable[[], Any]

FLUSH_BYTES = 512 * 2**20
"""Several times any L2."""


class Stopwatch(Protocol):
    """Seconds that one call takes."""

    def __call__(self, call: Call) -> float: ...


def by_the_clock(call: Call) -> float:
    """Wall time, with the caches as they are."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


class GpuStopwatch:
    """By two events on the current stream, with a cold cache."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._other = cupy.zeros(FLUSH_BYTES, np.uint8)

    def __call__(self, call: Call) -> float:
        begin, end = self._cupy.cuda.Event(), self._cupy.cuda.Event()
        self._other += np.uint8(1)
        begin.record()
        call()
        end.record()
        end.synchronize()
        return float(self._cupy.cuda.get_elapsed_time(begin, end)) / 1000


class Timing(NamedTuple):
    """Seconds of the first call, which may compile; and the median of later ones."""

    first: float
    median: float


def timing(stopwatch: Stopwatch, call: Call, repeats: int) -> Timing:
    """Time a call that was never made before. The second one warms up."""
    first, _, *later = (stopwatch(call) for _ in range(2 + repeats))
    return Timing(first, statistics.median(later))


def publish(report: Iterable[str], path: Path | None) -> None:
    """Print the lines as they come, and write them to a file if one is named."""
    with contextlib.ExitStack() as stack:
        files = [sys.stdout]
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.append(stack.enter_context(path.open("w")))
        for line in report:
            for file in files:
                print(line, file=file, flush=True)


def cupy_with_a_device() -> Any:
    """CuPy where it has a GPU, else None."""
    try:
        import cupy

        return cupy if cupy.cuda.is_available() else None
    except ImportError:
        return None


def processor() -> str:
    """The model of the CPU, and the cores that this process may use."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    models = (line.split(":")[1].strip() for line in lines if "model name" in line)
    return f"{next(models, platform.machine())}, {cores()} cores"


def commit() -> str:
    """The commit that is measured; it says so where files differ from it."""
    return answer_of("git", "describe", "--always", "--dirty", "--exclude=*")


def driver() -> str:
    """The version of the NVIDIA driver."""
    return answer_of(
        "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"
    )


def answer_of(*command: str) -> str:
    """The first line that a command prints in this directory, or "unknown"."""
    try:
        run = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return run.stdout.partition("\n")[0].strip()
