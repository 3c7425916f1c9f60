"""GPUs as predictions see them: their resources, and latencies of instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

KB, MB = 1 << 10, 1 << 20


def _lanes(float32: int, float64: int, load: int = 32) -> dict[str, int]:
    """The lanes of a multiprocessor; the same for integers and special functions."""
    more = {"integer": 64, "special": 16, "load": load}
    return {"float32": float32, "float64": float64, **more}


@dataclass(frozen=True)
class Device:
    """A GPU, for `Report.predict`.

    Parameters
    ----------
    name : str
    multiprocessors : int
    clock, base_clock : float
        Hz: the boost clock, and the base clock, to which a GPU falls back at its limit
        of power. The base clock is optional, and the same if not given.
    memory, l2 : float
        Bandwidth of device memory and of the L2 cache, in bytes per second.
    l2_bytes, l1_bytes : int
        Sizes of the L2 cache, and of the first-level cache of a multiprocessor, shared
        memory included.
    shared_bytes : int
        Shared memory of a multiprocessor.
    registers, threads, blocks : int, optional
        Of a multiprocessor: its registers, and the most threads and blocks at a time.
    lanes : mapping of str to int, optional
        Lanes of a multiprocessor that start an operation in a clock: "float32",
        "float64", "integer", "special" and "load". The default has those of compute
        capability 9.0.
    architecture : int, optional
        Compute capability times 10; registers are the count that the compiler gives a
        kernel for it.

    See Also
    --------
    profile

    Examples
    --------
    >>> from gpusolve.emulator import Device
    >>> t4 = Device("T4", multiprocessors=40, clock=1.59e9, memory=320e9, l2=1.27e12,
    ...     l2_bytes=4 << 20, l1_bytes=96 << 10, shared_bytes=64 << 10, threads=1024,
    ...     blocks=16, architecture=75, lanes={"float32": 64, "float64": 2,
    ...     "integer": 64, "special": 16, "load": 16})
    >>> t4.clock
    1590000000.0
    """

    name: str
    multiprocessors: int
    clock: float
    memory: float
    l2: float
    l2_bytes: int
    l1_bytes: int
    shared_bytes: int
    registers: int = 65536
    threads: int = 2048
    blocks: int = 32
    lanes: Mapping[str, int] = field(default_factory=lambda: _lanes(128, 64))
    architecture: int = 90
    base_clock: float | None = None

    def resident_blocks(self, threads: int, shared_bytes: int, registers: int) -> int:
        """Blocks that a multiprocessor has at the same time, at least 1.

        Parameters
        ----------
        threads, shared_bytes : int
            Threads and shared memory of a block.
        registers : int
            Of a thread.
        """
        warps = -(-threads // 32)
        # A warp gets registers in units of 256, as in NVIDIA's occupancy calculator.
        registers_of_block = warps * -(-registers * 32 // 256) * 256
        return max(
            1,
            min(
                self.blocks,
                self.threads // (32 * warps),
                self.shared_bytes // (shared_bytes + KB),
                self.registers // registers_of_block,
            ),
        )


_H200 = Device(
    "H200", 132, 1.98e9, 4.8e12, 5.5e12, 50 * MB, 256 * KB, 228 * KB, base_clock=1.59e9
)
_A100 = Device(
    "A100", 108, 1.41e9, 2.0e12, 4.4e12, 40 * MB, 192 * KB, 164 * KB,
    lanes=_lanes(64, 32), architecture=80, base_clock=1.275e9,
)  # fmt: skip
_RTX_4090 = Device(
    "RTX 4090", 128, 2.5e9, 1.0e12, 5e12, 72 * MB, 128 * KB, 100 * KB, threads=1536,
    blocks=24, lanes=_lanes(128, 2, load=16), architecture=89, base_clock=2.235e9,
)  # fmt: skip
_MX550 = Device(
    "MX550", 16, 1.32e9, 96e9, 0.42e12, 1 * MB, 96 * KB, 64 * KB, threads=1024,
    blocks=16, lanes=_lanes(64, 2, load=16), architecture=75, base_clock=1.065e9,
)  # fmt: skip

DEVICES = {device.name: device for device in (_H200, _A100, _RTX_4090, _MX550)}
"""From NVIDIA's data sheets, architecture white papers and CUDA C++ Programming Guide;
the base clocks, and the MX550, a GPU of laptops, from TechPowerUp's data base.
The L2 bandwidth is assumed, from published microbenchmarks; of the MX550, a T4's for as
many multiprocessors."""


def device_of(device: Device | str) -> Device:
    """The device, or the device of this name; ValueError for an unknown name."""
    if isinstance(device, Device):
        return device
    if device not in DEVICES:
        raise ValueError(
            f"device must be a Device or one of {sorted(DEVICES)}, got {device!r}"
        )
    return DEVICES[device]


LATENCY_CLOCKS = {
    "arithmetic": 4,  # float32 and int32
    "float64": 8,
    "special": 18,  # reciprocals, roots, exponentials; conversions
    "shared": 30,
    "shared generic": 35,  # through a pointer whose address space is unknown
    "l1": 40,
    "l2": 270,
    "memory": 480,
    "shuffle": 25,
    "vote": 12,
    "branch": 10,  # taken; until the first instruction of the target issues
    "barrier": 40,  # of a block whose warps arrive together
    "atomic": 540,  # to the L2 cache and back, and the operation there
}
"""Clocks until the result of an instruction can be used, by its kind.

They hold within about 15 % from Ampere to Hopper. Sources:

- memory: Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU
  Architecture", arXiv:2402.13499 (A100 and H100: first-level cache 38 to 41, shared
  memory 29, L2 cache 262, device memory 466 to 479; RTX 4090: 43, 30, 273, 542);
- arithmetic: Abdelkhalik et al., "Demystifying the Nvidia Ampere Architecture through
  Microbenchmarking and Instruction-level Analysis", arXiv:2208.11174;
- the others: stall counts and scoreboards of machine code for sm_90, read by nvdisasm.
"""
