"""The counts of a profile: of each kernel, and of the host."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ._errors import SourceLine
from .nvrtc import KernelSource

SECTOR_BYTES = 32
"""Bytes of a sector, the unit in which global memory moves."""


class Spread(NamedTuple):
    """A count per block: the least, the mean and the most of all blocks."""

    least: float
    mean: float
    most: float


@dataclass
class ArrayCosts:
    """Requests to an array of global memory.

    Attributes
    ----------
    requests : int
        Memory instructions of warps.
    lanes : int
        Lanes of all requests.
    bytes : int
        Bytes that the lanes asked for.
    sectors : int
        Sectors of 32 bytes that moved.
    fewest_sectors : int
        Sectors that would have moved if each request were contiguous and aligned.
    stored_sectors : int
        Sectors of the requests that write, atomics included.
    lines : int
        Lines of 128 bytes: the first-level cache looks up a line per clock.
    distinct_bytes, distinct_sectors : int
        Bytes that were accessed at least once, and sectors that have such a byte, added
        over the launches. With perfect caches, only these sectors move.
    loaded_sectors, written_sectors : int
        Distinct sectors with a byte that was loaded, and that was written.
    """

    requests: int = 0
    lanes: int = 0
    bytes: int = 0
    sectors: int = 0
    fewest_sectors: int = 0
    stored_sectors: int = 0
    lines: int = 0
    distinct_bytes: int = 0
    distinct_sectors: int = 0
    loaded_sectors: int = 0
    written_sectors: int = 0


class SharedCosts(NamedTuple):
    """Requests of a source line to shared memory.

    Attributes
    ----------
    requests : int
    lanes : int
        Lanes of all requests.
    wavefronts : int
        Passes over the banks; more than the fewest possible are bank conflicts.
    """

    requests: int
    lanes: int
    wavefronts: int


@dataclass
class LineCosts:
    """What a source line costs.

    Attributes
    ----------
    instructions : int
        Instructions of all threads, as in `KernelCosts.instructions`.
    warp_instructions : int
        How often a warp executed them.
    atomics : int
        Atomics of all threads, on global and shared memory.
    sectors, fewest_sectors : int
        Sectors of global memory that moved, and that would have moved if each request
        were contiguous and aligned.
    shared_requests, shared_lanes, shared_wavefronts : int
        As in `SharedCosts`.
    fewest_wavefronts : int
        Wavefronts without bank conflicts.
    """

    instructions: int = 0
    warp_instructions: int = 0
    atomics: int = 0
    sectors: int = 0
    fewest_sectors: int = 0
    shared_requests: int = 0
    shared_lanes: int = 0
    shared_wavefronts: int = 0
    fewest_wavefronts: int = 0

    def add(self, more: LineCosts) -> None:
        """Add the counts of another line, or of another launch."""
        _add_integers(self, more)

    @property
    def active_lanes(self) -> float:
        """Mean number of lanes of an instruction, at most 32."""
        return self.instructions / max(1, self.warp_instructions)


def _sum(records: str, name: str) -> property:
    """A property of `KernelCosts`: the sum of a count over its records."""

    def total(self: KernelCosts) -> int:
        return sum(getattr(one, name) for one in getattr(self, records).values())

    return property(total)


@dataclass
class KernelCosts:
    """What the launches of a kernel instance cost together.

    Attributes
    ----------
    name : str
    launches, blocks, threads : int
        `blocks` and `threads` are added over the launches.
    per_block : dict of str to Spread
        Counts per block, of the last launch: barriers, warp_barriers, shuffles, votes,
        atomics, fences, global_loads, global_stores, global_sectors, shared_wavefronts,
        load_intervals; warp_instructions, all instructions of PTX of its warps; and
        work, the clocks that a multiprocessor needs for its sectors, wavefronts,
        shuffles and votes.
    barriers, warp_barriers, shuffles, votes, atomics, fences : int
        Sums over all blocks. A block executes a barrier; a warp executes warp barriers,
        shuffles and votes; a thread executes atomics and fences. A shuffle of 8 bytes
        counts twice. Operations of different lanes of a warp count once if they are the
        same execution of the same instruction.
    global_loads, global_stores : int
        Numbers that threads read from global memory or write to it.
    grid_barriers : int
        Barriers of all blocks of a launch.
    load_intervals : int
        Intervals between two barriers of a block in which a thread loads from global
        memory, added over the blocks. Loads of an interval can be in flight together;
        if a block waits for them at the next barrier, loads of two intervals cannot.
        So this is the least number of global loads that depend on each other: threads
        that follow pointers in an interval have longer chains.
    arrays : dict of str to ArrayCosts
        Global memory, by the name of the argument.
    by_line : dict of SourceLine to LineCosts
        What each source line costs. The text of a SourceLine is ``file:line``.
    arithmetic : dict of str to int
        Operations of all threads: additions, multiplications, fused operations,
        divisions and square roots, such as ``"float64 multiply"``. The compiler fuses
        ``a * b + c`` to one operation.
    instructions : dict of str to int
        Instructions of PTX of all threads by kind: "load", "store" and "atomic" for
        global and shared memory; "float"; "special", such as reciprocals; "integer",
        "compare" and "branch". Moves, conversions, barriers, shuffles and votes are not
        among them.
    warp_instructions : Counter
        An estimate of what the warps of a GPU execute, without accesses to memory and
        operations of warps: "float32", "float64", "integer", "compare", "branch" and
        "special". A division or a root counts as the instructions that a GPU needs; a
        warp whose lanes take both sides of a branch counts both.
    reuse : Counter
        Sectors that a block loads again, by the number of sectors that it accessed
        since: below 2**k for key k. So it tells how many a cache of this size answers.
    first_loads : int
        Sectors that a block loads first.
    merged_requests, merged_wavefronts : int
        Requests to shared memory that a GPU's assembler merges with another request,
        because their words are neighbours, and the wavefronts of these.
    atomic_requests, atomic_lanes : int
        Atomics of warps, and of threads, on the address that has the most.
    shared_bytes : int
        Shared memory of a block in the last launch, static and dynamic.
    sampled : int
        Blocks that ran; fewer than `blocks` if a sample was profiled.
    source : KernelSource or None
        What names the kernel.
    """

    name: str
    launches: int = 0
    blocks: int = 0
    threads: int = 0
    per_block: dict[str, Spread] = field(default_factory=dict)
    barriers: int = 0
    warp_barriers: int = 0
    shuffles: int = 0
    votes: int = 0
    atomics: int = 0
    fences: int = 0
    grid_barriers: int = 0
    load_intervals: int = 0
    global_loads: int = 0
    global_stores: int = 0
    arrays: dict[str, ArrayCosts] = field(default_factory=dict)
    by_line: dict[SourceLine, LineCosts] = field(default_factory=dict)
    arithmetic: Counter[str] = field(default_factory=Counter)
    instructions: Counter[str] = field(default_factory=Counter)
    warp_instructions: Counter[str] = field(default_factory=Counter)
    reuse: Counter[int] = field(default_factory=Counter)
    first_loads: int = 0
    merged_requests: int = 0
    merged_wavefronts: int = 0
    atomic_requests: int = 0
    atomic_lanes: int = 0
    shared_bytes: int = 0
    sampled: int = 0
    source: KernelSource | None = None

    @property
    def shared(self) -> dict[str, SharedCosts]:
        """Shared memory, by source line."""
        return {
            str(line): SharedCosts(
                costs.shared_requests, costs.shared_lanes, costs.shared_wavefronts
            )
            for line, costs in self.by_line.items()
            if costs.shared_requests
        }

    global_bytes = _sum("arrays", "bytes")
    """Bytes that lanes asked for."""
    global_requests = _sum("arrays", "requests")
    """Memory instructions of warps, to global memory."""
    global_sectors = _sum("arrays", "sectors")
    """Sectors of 32 bytes that moved."""
    fewest_sectors = _sum("arrays", "fewest_sectors")
    """Sectors that would have moved if each request were contiguous and aligned."""
    distinct_bytes = _sum("arrays", "distinct_bytes")
    """Bytes of global memory that were accessed at least once per launch."""
    distinct_sectors = _sum("arrays", "distinct_sectors")
    """Sectors of global memory with a byte that was accessed, per launch."""
    stored_sectors = _sum("arrays", "stored_sectors")
    """Sectors of the requests that write to global memory."""
    loaded_sectors = _sum("arrays", "loaded_sectors")
    """Distinct sectors of global memory that were loaded, per launch."""
    written_sectors = _sum("arrays", "written_sectors")
    """Distinct sectors of global memory that were written, per launch."""
    lines = _sum("arrays", "lines")
    """Lines of 128 bytes of all requests to global memory."""
    shared_requests = _sum("by_line", "shared_requests")
    """Memory instructions of warps, to shared memory."""
    shared_lanes = _sum("by_line", "shared_lanes")
    """Lanes of all requests to shared memory."""
    shared_wavefronts = _sum("by_line", "shared_wavefronts")
    """Passes over the banks of shared memory."""

    @property
    def active_lanes(self) -> float:
        """Mean number of lanes of a request to global memory, at most 32."""
        lanes = sum(array.lanes for array in self.arrays.values())
        return float(lanes / max(1, self.global_requests))

    @property
    def balance(self) -> float:
        """Work of the largest block over the mean, in the last launch."""
        work = self.per_block["work"]
        return work.most / work.mean if work.mean else 1.0

    def extrapolate(self, blocks: int, sizes: dict[str, int]) -> None:
        """Multiply the counts of the blocks that ran, as if `blocks` had run.

        Parameters
        ----------
        blocks : int
        sizes : dict of str to int
            Bytes of the arrays, of which no more can be distinct.
        """
        self.sampled = self.blocks
        factor = blocks / self.blocks
        if factor == 1:
            return
        for record in (self, *self.arrays.values(), *self.by_line.values()):
            _multiply_integers(record, factor)
        self.launches, self.sampled = 1, round(self.sampled / factor)
        for counter in (self.arithmetic, self.instructions, self.warp_instructions):
            _multiply_counts(counter, factor)
        _multiply_counts(self.reuse, factor)
        for name, array in self.arrays.items():
            array.distinct_bytes = min(array.distinct_bytes, sizes[name])
            sectors = -(-sizes[name] // SECTOR_BYTES)
            for key in ("distinct_sectors", "loaded_sectors", "written_sectors"):
                setattr(array, key, min(getattr(array, key), sectors))

    def add(self, launch: KernelCosts) -> None:
        """Add the counts of the next launch."""
        _add_integers(self, launch)
        for name, array in launch.arrays.items():
            _add_integers(self.arrays.setdefault(name, ArrayCosts()), array)
        for line, costs in launch.by_line.items():
            self.by_line.setdefault(line, LineCosts()).add(costs)
        self.arithmetic.update(launch.arithmetic)
        self.instructions.update(launch.instructions)
        self.warp_instructions.update(launch.warp_instructions)
        self.reuse.update(launch.reuse)
        self.shared_bytes = launch.shared_bytes
        self.source = launch.source
        self.per_block = launch.per_block


def _add_integers(total: object, more: object) -> None:
    """Add the integers of a record to another record of its class."""
    for name, value in vars(more).items():
        if isinstance(value, int) and name != "shared_bytes":
            setattr(total, name, getattr(total, name) + value)


def _multiply_counts(counter: Counter[Any], factor: float) -> None:
    for key in counter:
        counter[key] = round(factor * counter[key])


def _multiply_integers(record: object, factor: float) -> None:
    for name, value in vars(record).items():
        if isinstance(value, int) and name != "shared_bytes":
            setattr(record, name, round(factor * value))


@dataclass
class HostCosts:
    """What the host does in the profiled calls.

    Attributes
    ----------
    launches, allocations, memsets : int
    synchronizations : int
        Reads of device arrays by the host, which waits for the device.
    copies : int
        Copies between host and device, in both directions; a read counts as a copy.
        NumPy arrays, which the emulator uses, are on the host: they are neither copied
        nor waited for.
    seconds : float
        Time of the ``with`` block, without the launches. The first call of a kernel
        includes its compilation.
    """

    launches: int = 0
    allocations: int = 0
    memsets: int = 0
    synchronizations: int = 0
    copies: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        counts = {k: value for k, value in vars(self).items() if k != "seconds"}
        return "host: " + ", ".join(f"{name} {n}" for name, n in counts.items())

    @contextlib.contextmanager
    def launch(self) -> Iterator[None]:
        """Count a launch, and exclude its time."""
        start = time.perf_counter()
        try:
            yield
            self.launches += 1
        finally:
            self.seconds -= time.perf_counter() - start
