"""What the benchmarks share: timing, the machine, Markdown tables, the command line.

All calls are timed in one way. The first call, which may compile, is reported apart;
the median and the spread of the later calls are kept. A time on a GPU is taken between
two CUDA events, and the L2 cache is flushed before each call. The host prepares the
call while the device is still flushing, so Python's overhead counts only if it takes
longer than the flush. On the host a time is wall time, with the caches as they are.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.metadata
import math
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gpusolve
from gpusolve._device.threads import cores

MOST_REPEATS, LEAST_SECONDS = 100, 0.02
"""Short calls are repeated more often, until they have taken so long together."""

BUSY_LOAD = 1.3
"""A load above this, when a benchmark begins, is not of the benchmark alone."""

Array = Any
Call = Callable[[], Any]

FLUSH_BYTES = 512 * 2**20
"""Bytes written to flush the L2 cache: several times the size of any."""


# ---- timing --------------------------------------------------------------------------


class Timed(NamedTuple):
    """One call: its seconds and its result."""

    seconds: float
    result: Any


class Timing(NamedTuple):
    """Repeated calls: seconds of the first, of the others, and the last result."""

    first: float
    seconds: tuple[float, ...]
    result: Any

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """The interquartile range."""
        lower, upper = np.quantile(self.seconds, (0.25, 0.75))
        return float(upper - lower)


Stopwatch = Callable[[Call], Timed]


def wall_clock(call: Call) -> Timed:
    """Time one call on the host."""
    begin = time.perf_counter()
    result = call()
    return Timed(time.perf_counter() - begin, result)


def cuda_events(cupy: Any) -> Stopwatch:
    """Return a stopwatch for calls on the current stream, with a cold L2 cache."""
    flushed = cupy.zeros(FLUSH_BYTES, np.uint8)

    def stopwatch(call: Call) -> Timed:
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        cupy.add(flushed, np.uint8(1), out=flushed)
        begin.record()
        result = call()
        end.record()
        end.synchronize()
        return Timed(float(cupy.cuda.get_elapsed_time(begin, end)) / 1000, result)

    return stopwatch


def timing(stopwatch: Stopwatch, call: Call, repeats: int) -> Timing:
    """Time a call that has not been made before, and its repetitions.

    These are at least `repeats`, and more if they are short.
    """
    first, result = stopwatch(call)
    seconds: list[float] = []
    while len(seconds) < repeats or (
        len(seconds) < MOST_REPEATS and sum(seconds) < LEAST_SECONDS
    ):
        result = None  # frees the memory of the last result
        taken, result = stopwatch(call)
        seconds.append(taken)
    return Timing(first, tuple(seconds), result)


# ---- the machine ---------------------------------------------------------------------


class Machine(NamedTuple):
    """Where the calls run, and how they are timed.

    Attributes
    ----------
    name : {"cuda", "cpu", "emulator"}
    xp : module
        CuPy or NumPy.
    stopwatch : callable
    repeats : int
        Calls that are timed after the first call.
    peers : bool
        Whether other libraries are timed, too.
    """

    name: str
    xp: Any
    stopwatch: Stopwatch
    repeats: int
    peers: bool = True

    @property
    def cupy(self) -> Any:
        """CuPy on a GPU, otherwise None."""
        return self.xp if self.name == "cuda" else None

    @property
    def free_bytes(self) -> float:
        """Free memory of the GPU; no limit on the host."""
        return self.cupy.cuda.runtime.memGetInfo()[0] if self.cupy else math.inf

    def timing(self, call: Call, on_host: bool = False) -> Timing:
        return timing(wall_clock if on_host else self.stopwatch, call, self.repeats)

    def copy_rate(self, source: Array) -> float:
        """Bytes per second, read and written, of a plain copy of an array."""
        copy = partial(self.xp.copyto, self.xp.empty_like(source), source)
        return 2 * int(source.nbytes) / self.timing(copy).median

    def peer_cell(self, call: Call | None, on_host: bool = False) -> str:
        """Microseconds of another library's call; empty without a call to time.

        A library that fails, for instance for lack of memory, costs no more than its
        own cell of the table.
        """
        if call is None or not self.peers:
            return ""
        try:
            return microseconds(self.timing(call, on_host).median)
        except Exception as error:
            return f"fails: {type(error).__name__}"


def choose(
    emulate: bool = False, cpu: bool = False, repeats: int = 0, peers: bool = True
) -> Machine:
    """Return the machine that an option names, otherwise the GPU, otherwise the CPU."""
    cupy = None if emulate or cpu else cupy_with_device()
    if cupy:
        return Machine("cuda", cupy, cuda_events(cupy), repeats, peers)
    os.environ["GPUSOLVE_EMULATE"] = "1" if emulate else "0"
    name = "emulator" if emulate else "cpu"
    return Machine(name, np, wall_clock, repeats, peers)


def cupy_with_device() -> Any:
    """Return CuPy if it is installed and finds a GPU, otherwise None."""
    try:
        import cupy
    except ImportError:
        return None
    try:
        return cupy if cupy.cuda.runtime.getDeviceCount() else None
    except cupy.cuda.runtime.CUDARuntimeError:  # no GPU, or a driver that is too old
        return None


def to_host(array: Any) -> Any:
    """Return an array or a sparse matrix in the host's memory."""
    return array.get() if hasattr(array, "get") else array


def facts(cupy: Any, *packages: str) -> dict[str, str]:
    """Describe the machine, and the versions of what runs on it."""
    found = {
        "date": datetime.date.today().isoformat(),
        "gpusolve": gpusolve.__version__,
        "commit": commit(),
        "processor": processor(),
        "load": load(),
        "python": platform.python_version(),
        **{package: version(package) for package in ("numpy", "scipy", *packages)},
    }
    if cupy is None:
        return found
    device = cupy.cuda.Device()
    properties = cupy.cuda.runtime.getDeviceProperties(device.id)
    capability, limits = device.compute_capability, device.attributes
    return {
        **found,
        "cupy": cupy.__version__,
        "gpu": gpu_name(cupy),
        "driver": driver(),
        "compute capability": f"{capability[:-1]}.{capability[-1]}",
        "memory": f"{properties.get('totalGlobalMem', 0) / 2**30:.1f} GiB",
        "multiprocessors": str(limits["MultiProcessorCount"]),
        "shared memory per block": str(limits["MaxSharedMemoryPerBlockOptin"]),
        "l2 cache": f"{properties.get('l2CacheSize', 0) / 2**20:.0f} MiB",
    }


def gpu_name(cupy: Any) -> str:
    index = cupy.cuda.Device().id
    return str(cupy.cuda.runtime.getDeviceProperties(index)["name"].decode())


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def processor() -> str:
    """The model of the CPU, and the number of cores that this process may use."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    models = (line.split(":")[1].strip() for line in lines if "model name" in line)
    return f"{next(models, platform.machine())}, {cores()} cores"


def load() -> str:
    """The processes that wanted to run in the last minute, this one included."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def commit() -> str:
    """The commit that is measured, marked "-dirty" if files differ from it.

    Results may differ: a report is written while it is made.
    """
    measured = first_line("git", "rev-parse", "--short=8", "HEAD")
    others = ":/", ":!/benchmarks/results"
    changed = first_line("git", "status", "--porcelain", "-uno", "--", *others)
    return measured + "-dirty" * (changed not in ("", "unknown"))


def driver() -> str:
    """The version of the NVIDIA driver."""
    return first_line(
        "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"
    )


def first_line(*command: str) -> str:
    """Return the first line that a command prints, "unknown" if it fails."""
    here = Path(__file__).parent
    try:
        printed = subprocess.check_output(
            command, text=True, stderr=subprocess.DEVNULL, cwd=here
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return printed.partition("\n")[0].strip()


# ---- Markdown ------------------------------------------------------------------------

PLACES = {"cuda": "a GPU", "cpu": "a CPU", "emulator": "the emulator"}

WARNINGS = {
    "cpu": "CPU path: **no figure here says anything about a GPU.**",
    "emulator": "**Emulator: no figure here says anything about a GPU.**",
}


BUSY = """\
**Other programs used the CPU during this run** (load {load}): compare the columns of a
line with each other, and not the times with other pages.
"""


def head(
    title: str, machine: Machine, *packages: str, warning: str = ""
) -> Iterator[str]:
    """The first lines of a report: what is measured, where, and how.

    A warning of the report's own takes the place of the machine's.
    """
    yield f"# {title} on {PLACES[machine.name]}\n"
    if warning := warning or WARNINGS.get(machine.name, ""):
        yield f"{warning}\n"
    found = facts(machine.cupy, *packages)
    yield from circumstances(command_line(), found)
    if machine.repeats:
        yield from busy(found)
        cold = ", each with a cold L2 cache" if machine.cupy else ""
        least = f"at least {machine.repeats} calls after the first"
        yield f"Times are medians of {least}{cold}.\n"


def circumstances(command: str, facts: dict[str, str]) -> Iterator[str]:
    """The command and the facts of the machine."""
    yield f"`{command}`\n"
    for name, value in facts.items():
        yield f"- {name}: {value}"
    yield ""


def busy(facts: dict[str, str]) -> Iterator[str]:
    """A warning if other programs ran when the benchmark began."""
    with contextlib.suppress(ValueError):
        if float(facts["load"]) > BUSY_LOAD:
            yield BUSY.format(load=facts["load"])


def command_line() -> str:
    """The command that was called, without the name of the output file."""
    called = ["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]
    if "--output" in called:
        place = called.index("--output")
        del called[place : place + 2]
    return shlex.join(called)


def table_head(*names: str, words: int = 1) -> Iterator[str]:
    """The first two lines of a table; all columns after `words` contain numbers."""
    yield row(*names)
    yield row(*(["---"] * words + ["---:"] * (len(names) - words)))


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def rate_cells(bytes_moved: int, seconds: float, copied: float) -> tuple[str, str]:
    """GB/s, and its ratio to the bytes per second of a plain copy."""
    rate = bytes_moved / seconds
    return three_digits(rate / 1e9), f"{rate / copied:.0%}"


def microseconds(seconds: float) -> str:
    return three_digits(1e6 * seconds)


def three_digits(value: float) -> str:
    """Format a non-negative number to three significant digits, with no exponent."""
    rounded = float(f"{value:.2e}")
    places = 2 - math.floor(math.log10(rounded)) if rounded else 0
    return f"{rounded:,.{max(0, places)}f}"


def power(n: int) -> str:
    """Format a power of ten as 10^k, another number with commas."""
    exponent = round(math.log10(n))
    return f"10^{exponent}" if n == 10**exponent else f"{n:,}"


def publish(report: Iterable[str], path: Path | None) -> None:
    """Print each line as it comes, and write it to the file, if given."""
    with contextlib.ExitStack() as stack:
        files = [sys.stdout]
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.append(stack.enter_context(path.open("w")))
        for line in report:
            for file in files:
                print(line, file=file, flush=True)


# ---- the command line ----------------------------------------------------------------


def count(text: str) -> int:
    """A whole number, also written as 1e6."""
    return int(float(text))


def size(text: str) -> tuple[int, int]:
    """Rows and columns, written as 1000x16."""
    rows, _, columns = text.partition("x")
    return int(rows), int(columns)


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The options of every benchmark."""
    made = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    made.add_argument("--output", type=Path, help="also write the report here")
    where = made.add_mutually_exclusive_group()
    where.add_argument("--emulate", action="store_true", help="kernels on the CPU")
    where.add_argument("--cpu", action="store_true", help="the CPU path")
    return made


def timing_parser(
    doc: str | None,
    sizes: str,
    repeats: int = 11,
    size: Callable[[str], Any] = count,
) -> argparse.ArgumentParser:
    """The options of a benchmark that times calls; `sizes` is the help for --sizes."""
    made = parser(doc)
    made.add_argument("--sizes", type=size, nargs="+", help=sizes)
    made.add_argument("--repeats", type=int, default=repeats, help="after the first")
    peers = {"dest": "peers", "action": "store_false"}
    made.add_argument("--no-peers", **peers, help="do not time other libraries")
    return made
