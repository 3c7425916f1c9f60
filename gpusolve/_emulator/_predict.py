"""Predicts the time of kernels on a GPU from their counts. Not a measurement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ._costs import SECTOR_BYTES, KernelCosts, Spread
from ._device import warp_threads

LAUNCH_SECONDS = 4e-6
GRID_BARRIER_SECONDS = 1.75e-6
BARRIER_CLOCKS = 80
LOAD_CLOCKS = 270
"""Typical latencies on current GPUs; the L2 cache answers the load. Assumed,
from published microbenchmarks; not measured by this project."""

ISSUED_PER_CLOCK = 4
"""Instructions of warps that a multiprocessor issues: it has four schedulers."""

WORK_CLOCKS = {
    "global_sectors": SECTOR_BYTES / 64,
    "shared_wavefronts": 1.0,
    "shuffles": 1.0,
    "votes": 1.0,
}
"""Clocks of a multiprocessor for each unit. Shared memory sends one wavefront per
clock, and it shuffles 4 bytes of 32 lanes, as in NVIDIA's programming guide. That the
L2 cache sends it 64 bytes, that votes take as long as shuffles, and that shuffles
occupy the crossbar of shared memory, is assumed."""


class DeviceLimits(NamedTuple):
    """The limits of a GPU.

    Attributes
    ----------
    multiprocessors : int
    clock : float
        Boost clock in Hz.
    memory, l2 : float
        Bandwidth of device memory and of the L2 cache, in bytes per second.
    threads, blocks : int
        Resident threads and blocks per multiprocessor.
    lanes : dict of str to int
        Floating-point operations per clock and multiprocessor.
    """

    multiprocessors: int
    clock: float
    memory: float
    l2: float
    threads: int
    blocks: int
    lanes: dict[str, int]


DEVICES = {
    "H200": DeviceLimits(
        132, 1.98e9, 4.8e12, 5.5e12, 2048, 32, {"float32": 128, "float64": 64}
    ),
    "A100": DeviceLimits(
        108, 1.41e9, 2.0e12, 4.4e12, 2048, 32, {"float32": 64, "float64": 32}
    ),
    "RTX 4090": DeviceLimits(
        128, 2.5e9, 1.0e12, 5e12, 1536, 24, {"float32": 128, "float64": 2}
    ),
    "MX550": DeviceLimits(
        16, 1.32e9, 96e9, 0.42e12, 1024, 16, {"float32": 64, "float64": 2}
    ),
}
"""From NVIDIA's data sheets and architecture white papers; the clock and the memory of
the MX550, a GPU of laptops, from TechPowerUp's data base. The L2 bandwidth is assumed,
from published microbenchmarks; of the MX550, a T4's for as many multiprocessors."""


@dataclass(frozen=True)
class KernelPrediction:
    """The predicted time of all launches of a kernel.

    Attributes
    ----------
    name : str
    bounds : dict of str to float
        The least time in seconds that each resource needs. "shared memory" includes
        shuffles. "latency" is the time of the barriers and of the loads that depend on
        each other, block after block.
    rounds : int
        Blocks of the multiprocessor that has the most, added over the launches.
    filled : float
        Share of the multiprocessors that have a block, the mean over the rounds. So
        ``rounds * filled`` is the number of blocks per multiprocessor.
    balance : float
        Work of the largest block over the mean, each added over the launches.
    """

    name: str
    bounds: dict[str, float]
    rounds: int
    filled: float
    balance: float

    @property
    def bound(self) -> str:
        """The resource that needs the most time."""
        return max(self.bounds, key=self.bounds.__getitem__)

    @property
    def seconds(self) -> float:
        """The time of that resource."""
        return self.bounds[self.bound]


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
            f"{'time':>13}  {'bound':<14} rounds  filled  balance  kernel",
        ]
        lines += [
            f"{1e6 * kernel.seconds:10.2f} us  {kernel.bound:<14} {kernel.rounds:6} "
            f"{kernel.filled:7.0%} {kernel.balance:8.2f}  {kernel.name}"
            for kernel in self.kernels
        ]
        return "\n".join(lines)


def predict(launches: Iterable[KernelCosts], device: str) -> Prediction:
    """The time that each kernel needs at least on a device, from its launches.

    Raises
    ------
    ValueError
        For an unknown device.
    """
    if device not in DEVICES:
        raise ValueError(f"device must be one of {sorted(DEVICES)}, got {device!r}")
    by_name: dict[str, list[KernelCosts]] = {}
    for launch in launches:
        by_name.setdefault(launch.name, []).append(launch)
    return Prediction(
        device, [_kernel(found, DEVICES[device]) for found in by_name.values()]
    )


def _kernel(launches: Sequence[KernelCosts], device: DeviceLimits) -> KernelPrediction:
    bounds = [_bounds(launch, device) for launch in launches]
    rounds = sum(_rounds(launch, device.multiprocessors) for launch in launches)
    blocks = sum(launch.blocks for launch in launches)
    work = [launch.per_block["work"] for launch in launches]
    mean = sum(spread.mean for spread in work)
    return KernelPrediction(
        launches[0].name,
        {name: sum(bound[name] for bound in bounds) for name in bounds[0]},
        rounds,
        blocks / (rounds * device.multiprocessors),
        sum(spread.most for spread in work) / mean if mean else 1.0,
    )


def _bounds(launch: KernelCosts, device: DeviceLimits) -> dict[str, float]:
    """The least time of a launch by each resource.

    A multiprocessor works through its blocks, so its resources are needed by `rounds`
    blocks in sequence. Latencies of the blocks that it has at the same time
    overlap, so only `waves` of them add up.
    """
    threads = launch.threads // launch.blocks
    resident = max(1, min(device.blocks, device.threads // threads))
    rounds = _rounds(launch, device.multiprocessors)
    waves = _rounds(launch, device.multiprocessors * resident)
    per_block = launch.per_block

    def clocks(counter: str) -> float:
        return WORK_CLOCKS[counter] * _longest(per_block[counter], rounds)

    def mean_clocks(count: float, per_clock: int) -> float:
        return rounds * count / launch.blocks / per_clock

    of_multiprocessor = {
        "L2": clocks("global_sectors"),
        "shared memory": clocks("shared_wavefronts") + clocks("shuffles"),
        "issue": mean_clocks(_instructions(launch), ISSUED_PER_CLOCK),
        "latency": BARRIER_CLOCKS * _longest(per_block["barriers"], waves)
        + LOAD_CLOCKS * _longest(per_block["load_intervals"], waves),
        **{
            dtype: mean_clocks(_operations(launch, dtype), lanes)
            for dtype, lanes in device.lanes.items()
        },
    }
    bounds = {name: count / device.clock for name, count in of_multiprocessor.items()}
    l2 = SECTOR_BYTES * launch.global_sectors / device.l2
    return {
        "launches": LAUNCH_SECONDS,
        "device memory": SECTOR_BYTES * launch.distinct_sectors / device.memory,
        "grid barriers": launch.grid_barriers * GRID_BARRIER_SECONDS,
        **bounds,
        "L2": max(l2, bounds["L2"]),
    }


def _rounds(launch: KernelCosts, places: int) -> int:
    """How many blocks run in sequence in each of these places."""
    return math.ceil(launch.blocks / places)


def _longest(count: Spread, blocks: int) -> float:
    """The count of this number of mean blocks, at least the largest block's count."""
    return max(count.mean * blocks, count.most)


def _instructions(launch: KernelCosts) -> float:
    """Instructions of warps that are counted: a kernel executes more."""
    warps = math.ceil(launch.threads / launch.blocks / warp_threads)
    return (
        launch.global_requests
        + launch.shared_requests
        + launch.shuffles
        + launch.votes
        + launch.warp_barriers
        + launch.barriers * warps
        + sum(launch.arithmetic.values()) / warp_threads
    )


def _operations(launch: KernelCosts, dtype: str) -> int:
    return sum(n for name, n in launch.arithmetic.items() if name.startswith(dtype))
