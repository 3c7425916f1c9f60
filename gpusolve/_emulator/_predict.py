"""Predicts the time of kernels on a GPU from their counts. Not a measurement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ._costs import SECTOR_BYTES, KernelCosts

LAUNCH_SECONDS = 4e-6
BARRIER_SECONDS = 40e-9
GRID_BARRIER_SECONDS = 1.75e-6
"""Typical latencies on current GPUs. Assumed; not measured by this project."""


class Device(NamedTuple):
    """The limits of a GPU.

    Attributes
    ----------
    multiprocessors : int
    clock : float
        Boost clock in Hz.
    memory, l2 : float
        Bandwidth of device memory and of the L2 cache, in bytes per second.
    threads : int
        Resident threads per multiprocessor.
    lanes : dict of str to int
        Floating-point operations per clock and multiprocessor.
    """

    multiprocessors: int
    clock: float
    memory: float
    l2: float
    threads: int
    lanes: dict[str, int]


DEVICES = {
    "H200": Device(132, 1.98e9, 4.8e12, 5.5e12, 2048, {"float32": 128, "float64": 64}),
    "A100": Device(108, 1.41e9, 2.0e12, 4.4e12, 2048, {"float32": 64, "float64": 32}),
    "RTX 4090": Device(128, 2.5e9, 1.0e12, 5e12, 1536, {"float32": 128, "float64": 2}),
}
"""From NVIDIA's data sheets and architecture white papers. The L2 bandwidth is assumed,
from published microbenchmarks."""


@dataclass(frozen=True)
class KernelPrediction:
    """The predicted time of all launches of one kernel.

    Attributes
    ----------
    name : str
    bounds : dict of str to float
        The least time in seconds that each resource needs.
    """

    name: str
    bounds: dict[str, float]

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
    """The predicted time of all kernels, one after another.

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
        return sum(one.seconds for one in self.kernels)

    @property
    def bound(self) -> str:
        """The bound of the kernel that takes longest; empty without kernels."""
        longest = max(self.kernels, key=lambda one: one.seconds, default=None)
        return longest.bound if longest else ""

    def __str__(self) -> str:
        lines = [f"prediction for {self.device}, not a measurement"]
        lines += [
            f"{1e6 * one.seconds:10.2f} us  {one.bound:<14} {one.name}"
            for one in self.kernels
        ]
        return "\n".join(lines)


def predict(kernels: Sequence[KernelCosts], device: str) -> Prediction:
    """The time that each kernel needs at least on a device, from its counts.

    Raises
    ------
    ValueError
        For an unknown device.
    """
    if device not in DEVICES:
        raise ValueError(f"device must be one of {sorted(DEVICES)}, got {device!r}")
    return Prediction(
        device,
        [
            KernelPrediction(one.name, _bounds(one, DEVICES[device]))
            for one in kernels
            if one.launches
        ],
    )


def _bounds(costs: KernelCosts, device: Device) -> dict[str, float]:
    blocks = math.ceil(costs.blocks / costs.launches)
    threads = max(1, costs.threads // costs.blocks)
    multiprocessors = min(device.multiprocessors, blocks)
    cycles = multiprocessors * device.clock
    resident = device.multiprocessors * max(1, device.threads // threads)
    waves = costs.launches * math.ceil(blocks / resident)
    barriers = costs.per_block["barriers"].mean
    return {
        "launches": costs.launches * LAUNCH_SECONDS,
        "device memory": SECTOR_BYTES * costs.distinct_sectors / device.memory,
        "L2": SECTOR_BYTES * costs.global_sectors / device.l2,
        "shared memory": costs.shared_wavefronts / cycles,
        "barriers": barriers * waves * BARRIER_SECONDS,
        "grid barriers": costs.grid_barriers * GRID_BARRIER_SECONDS,
        **{
            dtype: _operations(costs, dtype) / (lanes * cycles)
            for dtype, lanes in device.lanes.items()
        },
    }


def _operations(costs: KernelCosts, dtype: str) -> int:
    return sum(n for name, n in costs.arithmetic.items() if name.startswith(dtype))
