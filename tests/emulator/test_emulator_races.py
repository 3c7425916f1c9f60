"""The emulator's race detector, on kernels whose threads access the same memory.

Its reports must not depend on the order in which threads run.
"""

from __future__ import annotations

import contextvars
import itertools
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from backends import needs_emulator
from together import together

from gpusolve import emulator
from gpusolve.emulator import KernelError, RawKernel

KERNELS = Path(__file__).parents[1] / "faulty_kernels"

pytestmark = needs_emulator


@pytest.fixture(autouse=True)
def watched() -> Iterator[None]:
    """Race detection."""
    with emulator.races():
        yield


class Launch(NamedTuple):
    """A launch whose result is in its last argument."""

    instance: str
    args: tuple[Any, ...]
    blocks: int = 2
    threads: int = 32
    shared_mem: int = 0
    file: str = "between_blocks"

    def run(self) -> Any:
        """The result, with a copy of the arguments."""
        kernel, args = RawKernel(KERNELS / f"{self.file}.cu", self.instance), self.args
        copies = deepcopy(args)
        kernel((self.blocks,), (self.threads,), copies, shared_mem=self.shared_mem)
        return copies[-1]


def integers(*shape: int) -> Any:
    return np.zeros(shape, np.int32)


# ---- between blocks ------------------------------------------------------------------


def sent(options: str, other: int = 1) -> Launch:
    """Block 1 receives the value of block 0."""
    zeros = integers(1), integers(1), np.int32(other), integers(1)
    return Launch(f"send<{options}>", zeros)


def packed(torn: str) -> Launch:
    return Launch(f"pack<{torn}>", (np.zeros(1, np.uint64), integers(1)))


def in_chain(faulty: str) -> Launch:
    return Launch(f"chain<{faulty}>", (integers(1), integers(9), integers(1)), 9)


def passed_on(waits: str) -> Launch:
    return Launch(f"pass_on<{waits}>", (integers(1), np.int32(3), integers(16)), 4, 4)


def by_last_block(faulty: str) -> Launch:
    done = np.zeros(1, np.uint32)
    args = np.arange(40, dtype=np.int32), integers(40), done, integers(1)
    return Launch(f"sum_by_last<{faulty}>", args, 40)


def one_element(access: str, blocks: int = 2, size: int = 33) -> Launch:
    return Launch(f"access_element<{access}>", (integers(size),), blocks)


def copied(function: str, faulty: str, records: int) -> Launch:
    args = np.ones((64, 9), "f4"), np.zeros((records, 9), "f4")
    return Launch(f"copy_record<{function}, {faulty}>", args)


FENCES = "device_fence, device_fence"
KINDS = "no_fence", "block_fence", "device_fence"
WEAK = [
    f"{a}, {b}" for a, b in itertools.product(KINDS, KINDS) if f"{a}, {b}" != FENCES
]

# ---- between the threads of a block --------------------------------------------------


def exchanged(
    between: str, distance: int, name: str = "int", threads: int = 128
) -> Launch:
    """Element t ^ distance for every t, synchronised between write and read."""
    x = np.arange(threads).astype({"char": "i1", "int": "i4", "double": "f8"}[name])
    args, instance = (np.int32(distance), x, 0 * x), f"exchange<{between}, {name}>"
    return Launch(instance, args, 1, threads, file="inside_block")


def in_place(kernel: str, between: str) -> Launch:
    args = np.int32(32), np.arange(64, dtype=np.int32)
    return Launch(f"{kernel}<{between}>", args, 1, 64, 256, "inside_block")


def in_block(instance: str, *args: Any, threads: int = 64) -> Launch:
    return Launch(instance, args, 1, threads, file="inside_block")


LANES = np.arange(32, dtype=np.int32)
FROM, TO, I32 = np.arange(64, dtype=np.int32), integers(64), np.int32(32)

RIGHT: list[tuple[Launch, Any]] = [
    (packed("false"), 42),
    *((sent(f"{FENCES}, {kind}"), 42) for kind in ("volatile_accesses", "atomics")),
    (in_chain("false"), 42),
    (passed_on("true, true"), 14),
    (by_last_block("false"), 40 * 39),
    (Launch("add_by_swaps", (integers(1),)), 64),
    *(
        (Launch(f"write_own<{name}>", (np.zeros(30, dtype),), 6, 5), range(30))
        for name, dtype in (("char", "i1"), ("short", "i2"), ("double", "f8"))
    ),
    (copied("copying", "false", 64), 1),
    *(
        (exchanged(between, distance, name), np.arange(128) ^ distance)
        for name in ("char", "int", "double")
        for distance in (1, 16, 32)
        for between in ("block_barrier", "block_vote")
    ),
    (exchanged("nothing", 0), range(128)),
    (exchanged("warp_barrier", 16), np.arange(128) ^ 16),
    (exchanged("half_barriers", 8), np.arange(128) ^ 8),
    (in_place("exchange_in_place", "block_barrier"), np.arange(64) ^ 32),
    (in_place("exchange_twice", "block_barrier"), range(64)),
    (in_block("exchange_arrays", FROM, I32, TO), np.arange(64) ^ 32),
    (in_block("sum_of_a_warp<true>", integers(32), threads=32), 0),
    (in_block("count<block_barrier>", integers(1)), 64),
    (in_block("flag<true, true>", integers(1)), 42),
]
"""Launches without a race, and their results."""

VALUE = r"reads element 0 of value .*, and nothing orders"
PART = r"of part in shared memory, which thread .* (read|wrote), and nothing orders"
WRITE_ALL = one_element("write_block", size=1)

RACES: list[tuple[Launch, str]] = [
    (packed("true"), r"block \(1, 0, 0\), between_blocks.cu:\d+: data race: reads "
     r"element 0 of word .* as one value, but thread \(0, 0, 0\) of block \(0, 0, 0\) "
     r"at between_blocks.cu:5[12] wrote only a part of it"),
    *((sent(f"{fences}, {kind}"), VALUE)
      for kind in ("volatile_accesses", "atomics") for fences in WEAK),
    (sent("block_fence, device_fence, volatile_accesses", 0),
     r"element 0 of value .* nothing between blocks.*__threadfence\(\)"),
    (sent("device_fence, no_fence, atomics", 0),
     "element 0 of value .* has read a flag .* no fence since; put a __threadfence"),
    (sent(f"{FENCES}, plain_store", 0), r"element 0 of flag .* nothing orders"),
    (in_chain("true"), VALUE),
    (passed_on("false, true"), r"element \d+ of x .* nothing orders"),
    (passed_on("true, false"), r"element \d+ of x .* nothing orders"),
    (by_last_block("true"), r"reads element \d+ of partial .* wrote"),
    *((one_element("increment", blocks),
       r"element 0 of x .*; use an atomic operation, such as atomicAdd\(\)$")
      for blocks in (1, 2)),
    (one_element("add_neighbour", 1), r"; put a __syncthreads\(\) between them$"),
    (one_element("write_the_same"),
     "nothing orders .*; both store the same value, which is harmless on"),
    (WRITE_ALL, "writes element 0 of x .* wrote, and nothing .*; let a single thread "
     "write it, or use an atomic operation$"),
    (one_element("read_and_write"),
     "(reads|writes) element 0 of x .* (read|wrote), and nothing orders"),
    (one_element("count_up"),
     r"element 3 \(4 bytes\) of counts in global memory, .*; use an atomic"),
    *((copied(name, "true", 1), r"blocks.cu:\d+: data race: writes element 0 of x")
      for name in ("copying", "moving", "clearing")),
    *((exchanged("nothing", distance, name), PART)
      for name in ("char", "int", "double") for distance in (1, 16, 32)),
    (exchanged("warp_barrier", 32), PART),
    (exchanged("half_barriers", 16), PART),
    (exchanged("warp_shuffle", 1), PART),  # a shuffle does not order accesses
    *((in_place("exchange_in_place", between),
       r"element \d+ of x .*, which thread \(\d+, 0, 0\) at inside_block.cu:\d+")
      for between in ("nothing", "warp_barrier")),
    (in_place("exchange_twice", "nothing"), r"element \d+ \(4 bytes\) of shared_mem"),
    (in_block("exchange_arrays", FROM, I32, FROM), "of x "),
    # Volatile code that relies on lockstep.
    (in_block("sum_of_a_warp<false>", integers(32), threads=32),
     r"of part .* in lockstep before Volta, .*; put a __syncwarp\(\) between"),
    (in_block("count<nothing>", integers(1)), "of counted"),
    (in_block("count<warp_barrier>", integers(1)), "of counted"),
    *((in_block(f"flag<{fences}>", integers(1)), "of value")
      for fences in ("true, false", "false, true", "false, false")),
]  # fmt: skip
"""Launches with a race, and what the report says."""


@together(("launch", "expected"), RIGHT)
def test_ordered_accesses_do_not_race(
    schedule: str, launch: Launch, expected: Any
) -> None:
    found = launch.run()
    np.testing.assert_array_equal(found, np.broadcast_to(expected, found.shape))


@together(("launch", "message"), RACES)
def test_races_are_reported(schedule: str, launch: Launch, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        launch.run()


def test_a_report_names_both_accesses_and_a_remedy() -> None:
    for launch, message in (
        (
            sent("no_fence, device_fence, atomics"),
            r"thread \(1, 0, 0\), block \(1, 0, 0\), between_blocks.cu:40: data race: "
            r"reads element 0 of value \(int32, shape \(1,\)\), which thread "
            r"\(1, 0, 0\) of block \(0, 0, 0\) at between_blocks.cu:24 wrote, and "
            r"nothing orders the two accesses; use atomics, or a flag with a "
            r"__threadfence\(\) on both sides",
        ),
        (
            exchanged("nothing", 32),
            r"exchange<nothing, int>, thread \(32, 0, 0\), block \(0, 0, 0\), "
            r"inside_block.cu:20: data race: writes element 32 \(4 bytes\) of part in "
            r"shared memory, which thread \(0, 0, 0\) at inside_block.cu:22 read, and "
            r"nothing orders the two accesses; put a __syncthreads\(\) between them",
        ),
    ):
        with pytest.raises(KernelError, match=message):
            launch.run()


def test_atomics_on_a_variable() -> None:
    tickets = Launch("increment_by_atomics", (integers(32),), 1).run()
    np.testing.assert_array_equal(np.sort(tickets) - tickets.min(), LANES)


def test_pointer_in_a_structure() -> None:
    """The emulator does not know the array of a pointer in bytes of NumPy.

    The pointer is far from the ends of a large array, so it is near no other array.
    """
    values = np.empty(1 << 26, np.uint8)
    middle = values.ctypes.data + values.size // 2
    counters = np.array((middle,), [("values", np.uint64)])[()]
    message = r"address 0x[0-9a-f]+, which is in no array of the launch"
    with pytest.raises(KernelError, match=message):
        Launch("increment_through_structure", (counters,)).run()


def test_environment_turns_race_detection_on(monkeypatch: pytest.MonkeyPatch) -> None:
    # In a new context no `with` statement is active.
    monkeypatch.delenv("GPUSOLVE_EMULATE_RACES", raising=False)
    contextvars.Context().run(WRITE_ALL.run)
    monkeypatch.setenv("GPUSOLVE_EMULATE_RACES", "1")
    with pytest.raises(KernelError, match="nothing orders"):
        contextvars.Context().run(WRITE_ALL.run)
