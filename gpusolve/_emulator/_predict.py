"""Predicts the time of kernels on a GPU from their counts. Not a measurement.

The model takes each launch by itself. Its blocks need

- *execution*: the issue of instructions by four schedulers, or the lanes for float32,
  float64, integers or special functions; what takes longest;
- the *first-level cache*, which has shared memory in it: a line of 128 bytes or a
  wavefront per clock, and the load units;
- the port of the multiprocessor to the L2 cache;
- the L2 cache and device memory, which the whole GPU shares; reads and writes of device
  memory are counted apart; and atomics on one address, which follow each other;
- *waits*: the longest warp of a block waits for the results of its instructions, for
  loads that depend on each other, for shuffles, votes and barriers.

A load is answered by the first-level cache if the block accessed the sector before, and
not more sectors since than the cache has for the block; else by the L2 cache, by the
same rule; else by device memory. Different blocks share the L2 cache without conflicts.

A multiprocessor has as many blocks at a time as registers, shared memory and threads
allow. Each waits, executes and loads, one after the other, while the other blocks do
the same. So a launch needs

    low = launch + max(resources, (execution + caches + waits of a block) x waves)
    high = launch + max(resources) + waits of a block x waves

where waves is the number of blocks of a multiprocessor over those at a time. `low` has
the boost clock, and the latencies of an idle memory; `high` has the base clock, and
twice the latency of device memory, for a busy memory. In `low`, the atomics of a
warp on one address are merged. `seconds` is the middle. Neither end is a bound:
instructions are an estimate from PTX, and a GPU has more rules than the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ._costs import SECTOR_BYTES, KernelCosts
from ._device import warp_threads
from ._gpu import LATENCY_CLOCKS, Device, device_of
from .nvrtc import ASSUMED_REGISTERS, registers_of

LAUNCH_SECONDS = (2e-6, 5e-6)
"""Of a launch in a stream that is full, and of a launch by itself."""

GRID_BARRIER_SECONDS = 1.75e-6
"""Both are typical of current GPUs, from published microbenchmarks; assumed."""

ISSUED_PER_CLOCK = 4
"""Instructions of warps that a multiprocessor issues: it has four schedulers."""

L2_PORT_BYTES = 64
"""Bytes per clock from the L2 cache to a multiprocessor. Assumed."""

MEMORY_SHARE = 0.92
"""Of the bandwidth of device memory that a copy reaches; published measurements of
H100, H200 and A100 have 0.88 to 0.93."""

LOADED_MEMORY = 2.0
"""Latency of device memory whose bandwidth is used, over the latency of idle
memory. Assumed; published curves have 1.5 to 3."""

LANES = {
    "float32": ("float32",),
    "float64": ("float64",),
    "integer": ("integer", "compare"),
    "special": ("special",),
}
"""The kinds of instructions that each group of lanes executes."""


@dataclass(frozen=True)
class KernelPrediction:
    """The predicted time of all launches of a kernel.

    Attributes
    ----------
    name : str
    low, high : float
        Seconds, if all parts hide behind the longest, and if the waits do not.
    parts : dict of str to float
        Seconds that each resource needs. "first-level cache" includes shared memory and
        shuffles; "latency" has the waits of blocks that do not run at the same time.
    resident : int
        Blocks that a multiprocessor has at the same time, in the last launch.
    registers : int or None
        Of a thread, from NVRTC; None if 32 are assumed.
    rounds : int
        Blocks of the multiprocessor that has the most, added over the launches.
    filled : float
        Share of the multiprocessors that have a block, the mean over the rounds. So
        ``rounds * filled`` is the number of blocks per multiprocessor.
    balance : float
        Work of the largest block over the mean, each added over the launches.
    """

    name: str
    low: float
    high: float
    parts: dict[str, float]
    resident: int
    registers: int | None
    rounds: int
    filled: float
    balance: float

    @property
    def bound(self) -> str:
        """The part that needs the most time."""
        return max(self.parts, key=self.parts.__getitem__)

    @property
    def seconds(self) -> float:
        """The middle of `low` and `high`."""
        return (self.low + self.high) / 2


@dataclass(frozen=True)
class Prediction:
    """The predicted time of all kernels in sequence.

    Attributes
    ----------
    device : str
    kernels : list of KernelPrediction
    """

    device: str
    kernels: list[KernelPrediction]

    @property
    def low(self) -> float:
        """The sum over the kernels."""
        return sum(kernel.low for kernel in self.kernels)

    @property
    def high(self) -> float:
        """The sum over the kernels."""
        return sum(kernel.high for kernel in self.kernels)

    @property
    def seconds(self) -> float:
        """The sum over the kernels."""
        return sum(kernel.seconds for kernel in self.kernels)

    @property
    def bound(self) -> str:
        """The bound of the kernel that takes longest; empty without kernels."""
        longest = max(self.kernels, key=lambda kernel: kernel.seconds, default=None)
        return longest.bound if longest else ""

    def __str__(self) -> str:
        lines = [
            f"prediction for {self.device}, not a measurement",
            f"{'low':>10} {'high':>10}     {'bound':<17} rounds  filled  balance  "
            "kernel",
        ]
        lines += [
            f"{1e6 * kernel.low:10.2f} {1e6 * kernel.high:10.2f} us  "
            f"{kernel.bound:<17} {kernel.rounds:6} "
            f"{kernel.filled:7.0%} {kernel.balance:8.2f}  {kernel.name}"
            for kernel in self.kernels
        ]
        return "\n".join(lines)


def predict(launches: Iterable[KernelCosts], device: Device | str) -> Prediction:
    """The time of each kernel on a device, from its launches.

    Raises
    ------
    ValueError
        For an unknown device.
    """
    found = device_of(device)
    by_name: dict[str, list[KernelCosts]] = {}
    for launch in launches:
        by_name.setdefault(launch.name, []).append(launch)
    return Prediction(found.name, [_kernel(same, found) for same in by_name.values()])


def _kernel(launches: Sequence[KernelCosts], device: Device) -> KernelPrediction:
    predicted = [_Launch(launch, device) for launch in launches]
    parts = [launch.parts() for launch in predicted]
    rounds = sum(launch.rounds for launch in predicted)
    blocks = sum(launch.blocks for launch in launches)
    work = [launch.per_block["work"] for launch in launches]
    mean = sum(spread.mean for spread in work)
    ranges = [launch.range() for launch in predicted]
    return KernelPrediction(
        launches[0].name,
        sum(low for low, _ in ranges),
        sum(high for _, high in ranges),
        {name: sum(part[name] for part in parts) for name in parts[0]},
        predicted[-1].resident,
        predicted[-1].registers,
        rounds,
        blocks / (rounds * device.multiprocessors),
        sum(spread.most for spread in work) / mean if mean else 1.0,
    )


class _Launch:
    """A launch on a device."""

    def __init__(self, costs: KernelCosts, device: Device) -> None:
        self.costs = costs
        self.device = device
        threads = costs.threads // costs.blocks
        self.warps = math.ceil(threads / warp_threads)
        self.registers = (
            registers_of(costs.source, device.architecture) if costs.source else None
        )
        self.resident = device.resident_blocks(
            threads, costs.shared_bytes, self.registers or ASSUMED_REGISTERS
        )
        self.rounds = math.ceil(costs.blocks / device.multiprocessors)
        self.at_a_time = min(self.resident, self.rounds)
        """Blocks that a multiprocessor has at the same time in this launch."""

        self.loads = costs.first_loads + costs.reuse.total()
        l1_bytes = device.l1_bytes - self.at_a_time * costs.shared_bytes
        self.l1_misses = costs.first_loads + self._beyond(l1_bytes / self.at_a_time)
        running = min(costs.blocks, self.at_a_time * device.multiprocessors)
        self.l2_misses = costs.loaded_sectors + self._beyond(device.l2_bytes / running)

    def range(self) -> tuple[float, float]:
        """Seconds, if everything hides behind the longest part, and if it does not."""
        device = self.device
        low, high = LAUNCH_SECONDS
        overhead = self.costs.grid_barriers * GRID_BARRIER_SECONDS
        base_clock = device.base_clock or device.clock
        alone = self._alone_clocks() / device.clock
        waits = self._wait_clocks(LOADED_MEMORY) / base_clock
        hidden = max(*self._resources(device.clock).values(), alone)
        atomics = self.costs.atomic_lanes / base_clock
        added = max(*self._resources(base_clock).values(), atomics) + waits
        return low + overhead + hidden, high + overhead + max(hidden, added)

    def parts(self) -> dict[str, float]:
        """Seconds that each resource needs, the overheads and the waits, at `clock`."""
        return {
            "launches": sum(LAUNCH_SECONDS) / 2,
            "grid barriers": self.costs.grid_barriers * GRID_BARRIER_SECONDS,
            **self._resources(self.device.clock),
            "latency": self._wait_clocks() / self.device.clock,
        }

    def _resources(self, clock: float) -> dict[str, float]:
        costs, device = self.costs, self.device
        moved = {
            "device memory": (self.l2_misses + costs.written_sectors)
            / (MEMORY_SHARE * device.memory),
            "L2": (self.l1_misses + costs.stored_sectors) / device.l2,
        }
        seconds = {name: SECTOR_BYTES * n for name, n in moved.items()}
        blocks = self._blocks_of_multiprocessor()
        clocks = {name: blocks * n for name, n in self._block_clocks().items()}
        clocks["atomics"] = costs.atomic_requests
        return {**seconds, **{name: count / clock for name, count in clocks.items()}}

    def _beyond(self, bytes_of_block: float) -> float:
        """Sectors that are loaded again, but not from a cache with room for these.

        Of a bin with distances on both sides, the share on the far side.
        """
        sectors = max(1.0, bytes_of_block / SECTOR_BYTES)
        far = 0.0
        for key, count in self.costs.reuse.items():
            share = (2**key - sectors) / 2 ** (key - 1)
            far += count * min(1.0, max(0.0, share))
        return far

    def _block_clocks(self) -> dict[str, float]:
        """Clocks of a multiprocessor that the mean block needs, by resource."""
        costs, lanes = self.costs, self.device.lanes
        requests = costs.global_requests + costs.shared_requests - costs.merged_requests
        issued = (
            costs.warp_instructions.total()
            + requests
            + costs.shuffles
            + costs.votes
            + costs.warp_barriers
            + costs.barriers * self.warps
        )
        shared = costs.shared_wavefronts - costs.merged_wavefronts
        passes = costs.lines + shared + costs.shuffles + costs.votes
        sectors = self.l1_misses + costs.stored_sectors
        clocks = {
            "issue": issued / ISSUED_PER_CLOCK,
            "first-level cache": max(passes, requests * warp_threads / lanes["load"]),
            "L2 port": sectors * SECTOR_BYTES / L2_PORT_BYTES,
        }
        for name, kinds in LANES.items():
            count = sum(costs.warp_instructions[kind] for kind in kinds)
            clocks[name] = count * warp_threads / lanes[name]
        return {name: total / costs.blocks for name, total in clocks.items()}

    def _blocks_of_multiprocessor(self) -> float:
        """Mean blocks of the multiprocessor that takes longest."""
        work = self.costs.per_block["work"]
        largest = work.most / work.mean if work.mean else 1.0
        return max(self.rounds, largest)

    def _alone_clocks(self) -> float:
        """Clocks of blocks one after the other, each alone, that are not resident."""
        clocks = self._block_clocks()
        execution = max(clocks["issue"], *(clocks[name] for name in LANES))
        caches = clocks["first-level cache"] + clocks["L2 port"]
        waves = self._blocks_of_multiprocessor() / self.at_a_time
        return (
            max(waves * execution, self._longest("chain_issued"))
            + waves * caches
            + self._wait_clocks()
        )

    def _wait_clocks(self, loaded: float = 1.0) -> float:
        """Waits of blocks that do not run at the same time.

        Parameters
        ----------
        loaded : float
            How much longer device memory takes than idle memory.
        """

        def loads(memory: str) -> float:
            return max(
                self._longest(f"chain_{memory}_trips"),
                self._longest(f"chain_{memory}_intervals"),
            )

        return (
            self._longest("chain_waits")
            + loads("global") * self._load_clocks(loaded)
            + loads("shared") * LATENCY_CLOCKS["shared"]
            + self._longest("chain_shuffles") * LATENCY_CLOCKS["shuffle"]
            + self._longest("chain_votes") * LATENCY_CLOCKS["vote"]
            + self._longest("barriers") * LATENCY_CLOCKS["barrier"]
        )

    def _longest(self, name: str) -> float:
        """The count of the mean blocks in sequence, at least the largest block's."""
        count = self.costs.per_block[name]
        return max(count.mean * self.rounds / self.at_a_time, count.most)

    def _load_clocks(self, loaded: float) -> float:
        """The mean latency of a load from global memory."""
        if not self.loads:
            return LATENCY_CLOCKS["l2"]
        from_memory = min(self.l2_misses, self.l1_misses)
        clocks: float = (
            from_memory * LATENCY_CLOCKS["memory"] * loaded
            + (self.l1_misses - from_memory) * LATENCY_CLOCKS["l2"]
            + (self.loads - self.l1_misses) * LATENCY_CLOCKS["l1"]
        )
        return clocks / self.loads
