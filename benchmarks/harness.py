"""What the benchmarks share: timing, the machine, the command line, and the page.

All calls are timed in one way. The first call, which may compile, does not count; the
median and the spread of the later calls are kept. A time on a GPU is taken between
two CUDA events, and the L2 cache is flushed before each call. The host prepares the
call while the device is still flushing, so Python's overhead counts only if it takes
longer than the flush. On the host a time is wall time, with the caches as they are.

A benchmark is a list of parts, each of which yields results (`records.py`). `main`
prints them as a page, table by table, and writes page, data and charts.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.metadata
import operator
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
from records import Part, Result, Run, busy, circumstances, table

import gpusolve
from gpusolve._device.threads import cores

MOST_REPEATS, LEAST_SECONDS = 100, 0.02
"""Short calls are repeated more often, until they have taken so long together."""

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
    """Repeated calls: their seconds without the first, and the last result."""

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


def cuda_events(cupy: Any, small: bool = False) -> Stopwatch:
    """Return a stopwatch for calls on the current stream, with a cold L2 cache."""
    flushed = cupy.zeros(1 if small else FLUSH_BYTES, np.uint8)

    def stopwatch(call: Call) -> Timed:
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        operator.iadd(flushed, np.uint8(1))
        begin.record()
        result = call()
        end.record()
        end.synchronize()
        return Timed(float(cupy.cuda.get_elapsed_time(begin, end)) / 1000, result)

    return stopwatch


def timing(stopwatch: Stopwatch, call: Call, repeats: int) -> Timing:
    """Time a call, after the first, `repeats` times or more if it is short."""
    result = stopwatch(call).result
    seconds: list[float] = []
    while len(seconds) < repeats or (
        len(seconds) < MOST_REPEATS and sum(seconds) < LEAST_SECONDS
    ):
        result = None  # frees the memory of the last result
        taken, result = stopwatch(call)
        seconds.append(taken)
    return Timing(tuple(seconds), result)


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
    small : bool
        Whether sizes are those of a test.
    """

    name: str
    xp: Any
    stopwatch: Stopwatch
    repeats: int
    peers: bool = True
    small: bool = False

    @property
    def cupy(self) -> Any:
        """CuPy on a GPU, otherwise None."""
        return self.xp if self.name == "cuda" else None

    def timing(self, call: Call, on_host: bool = False) -> Timing:
        return timing(wall_clock if on_host else self.stopwatch, call, self.repeats)

    def measure(
        self, peer: str, name: str, shape: tuple[int, int], call: Call, **known: Any
    ) -> tuple[Result, Any]:
        """Time a call; its record, and what it returned.

        A library that fails, for instance for lack of memory, costs no more than its
        own cell of the table.
        """
        given = Result(name=name, shape=shape, peer=peer, **known)
        host = peer not in ("gpusolve", "CuPy", "cuBLAS", "a copy")
        try:
            timed = self.timing(call, on_host=host)
        except Exception as error:
            if peer == "gpusolve":
                raise
            return given._replace(note=f"fails: {type(error).__name__}"), None
        found = given._replace(
            repeats=len(timed.seconds),
            median=timed.median,
            spread=timed.spread,
            solved=given.systems,
        )
        return found, timed.result

    def copy(self, name: str, shape: tuple[int, int], moved: int) -> Result:
        """A plain copy that reads and writes this number of bytes together."""
        source = self.xp.ones(max(1, moved // 2), np.uint8)
        call = partial(self.xp.copyto, self.xp.empty_like(source), source)
        return self.measure("a copy", name, shape, call)[0]


def choose(
    emulate: bool = False,
    cpu: bool = False,
    repeats: int = 1,
    peers: bool = True,
    small: bool = False,
) -> Machine:
    """Return the machine that an option names, otherwise the GPU, otherwise the CPU."""
    cupy = None if emulate or cpu else cupy_with_device()
    if cupy:
        return Machine("cuda", cupy, cuda_events(cupy, small), repeats, peers, small)
    os.environ["GPUSOLVE_EMULATE"] = "1" if emulate else "0"
    name = "emulator" if emulate else "cpu"
    return Machine(name, np, wall_clock, repeats, peers, small or emulate)


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
        "load": f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown",
        "python": platform.python_version(),
        **{package: version(package) for package in ("numpy", "scipy", *packages)},
    }
    if cupy is None:
        return found
    device = cupy.cuda.Device()
    properties = cupy.cuda.runtime.getDeviceProperties(device.id)
    capability, limits = device.compute_capability, device.attributes
    query = "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"
    return {
        **found,
        "cupy": cupy.__version__,
        "gpu": gpu_name(cupy),
        "driver": first_line(*query),
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


def commit() -> str:
    """The commit that is measured, marked "-dirty" if files differ from it.

    Results may differ: a report is written while it is made.
    """
    measured = first_line("git", "rev-parse", "--short=8", "HEAD")
    others = ":/", ":!/benchmarks/results"
    changed = first_line("git", "status", "--porcelain", "-uno", "--", *others)
    return measured + "-dirty" * (changed not in ("", "unknown"))


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


# ---- the page ------------------------------------------------------------------------


class Benchmark(NamedTuple):
    """A page: its title, what is timed, and the packages whose versions it states.

    Attributes
    ----------
    measure : callable
        From a part, the machine and the options to results.
    draw : callable, optional
        Writes the charts of a run next to a page, and returns lines that show them.
    predicts : bool
        Whether figures that are made without a GPU are predictions for GPUs.
    """

    doc: str
    title: str
    parts: list[Part]
    measure: Callable[[Part, Machine, argparse.Namespace], Iterable[Result]]
    packages: tuple[str, ...] = ()
    repeats: int = 5
    draw: Callable[[Run, Path], list[str]] | None = None
    predicts: bool = False

    def page(
        self, run: Run, parts: dict[str, Iterable[Result]], repeats: int
    ) -> Iterator[str]:
        """The page, whose results are added to the run as they come."""
        where = "a GPU" if "gpu" in run.machine else "a CPU"
        yield f"# {self.title} on {where}\n"
        if self.predicts:
            yield "Nothing was measured.\n" if where == "a CPU" else ""
        elif "--emulate" in run.command:
            yield "**Emulator: no figure here says anything about a GPU.**\n"
        elif where == "a CPU":
            yield "CPU path: **no figure here says anything about a GPU.**\n"
        yield from circumstances(run)
        yield from busy(run)
        if repeats:
            yield f"Times are medians of at least {repeats} calls after the first, with"
            yield "the interquartile range in brackets; 2x is twice gpusolve's time."
        for part in self.parts:
            if part.name in parts:
                yield from table(part, run.keep(parts[part.name], part.name))

    def parser(self) -> argparse.ArgumentParser:
        made = argparse.ArgumentParser(description=self.doc.partition("\n")[0])
        made.add_argument("--output", type=Path, help="write page, data and charts")
        where = made.add_mutually_exclusive_group()
        where.add_argument("--emulate", action="store_true", help="kernels on the CPU")
        where.add_argument("--cpu", action="store_true", help="the CPU path")
        names = [part.name for part in self.parts]
        made.add_argument("--parts", choices=names, nargs="+", default=names)
        made.add_argument("--cases", default="", metavar="REGEX", help="of their names")
        made.add_argument(
            "--sizes", type=count, nargs="+", help="instead of each case's"
        )
        made.add_argument("--repeats", type=int, default=self.repeats)
        made.add_argument("--no-peers", dest="peers", action="store_false")
        made.add_argument("--small", action="store_true", help="sizes of a test")
        made.add_argument("--data", type=Path, help="an earlier run's, not measured")
        return made

    def main(self, options: argparse.Namespace | None = None) -> None:
        """Measure, or read earlier results, and print or write the page."""
        options = options or self.parser().parse_args()
        if options.data:
            run = Run.load(options.data)
            stored, run = run.results, run._replace(results=[])
            parts: dict[str, Iterable[Result]] = {
                part.name: found
                for part in self.parts
                if (found := [one for one in stored if one.part in ("", part.name)])
            }
        else:
            machine = choose(
                options.emulate,
                options.cpu,
                1 if options.small else options.repeats,
                options.peers,
                options.small,
            )
            run = Run(command_line(), facts(machine.cupy, *self.packages), [])
            parts = {
                part.name: self.measure(part, machine, options)
                for part in self.parts
                if part.name in options.parts
            }
        lines = list(tee(self.page(run, parts, options.repeats)))
        if options.output:
            options.output.parent.mkdir(parents=True, exist_ok=True)
            run.save(options.output.with_suffix(".json"))
            shown = self.draw(run, options.output) if self.draw else []
            options.output.write_text("\n".join([lines[0], *shown, *lines[1:], ""]))


def tee(lines: Iterable[str]) -> Iterator[str]:
    """Print each line as it comes."""
    for line in lines:
        print(line, flush=True)
        yield line


def command_line() -> str:
    """The command that was called, without the name of the output file."""
    called = ["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]
    with contextlib.suppress(ValueError):
        place = called.index("--output")
        del called[place : place + 2]
    return shlex.join(called)


def count(text: str) -> int:
    """A whole number, also written as 1e6."""
    return int(float(text))
