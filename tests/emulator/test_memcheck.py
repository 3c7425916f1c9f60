"""`memcheck` finds accesses outside of memory, and reads of unwritten memory."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends import needs_emulator
from together import together

from gpusolve import emulator
from gpusolve.emulator import KernelError, RawKernel

KERNELS = Path(__file__).parents[1] / "faulty_kernels"

pytestmark = needs_emulator


def run(name: str, *args: Any, shared_mem: int = 0) -> None:
    kernel = RawKernel(KERNELS / "memory.cu", name)
    kernel((1,), (32,), args, shared_mem=shared_mem)


def floats(count: int = 32) -> Any:
    return np.ones(count, np.float32)


INT = np.int32
BYTES = np.ones(13, np.uint8)

Y33, Y64 = floats(33), floats(64)

READS: dict[str, list[tuple[tuple[Any, ...], str]]] = {
    "read_from": [
        ((Y33, INT(1)), ""), ((floats(), INT(0)), ""),
        ((Y33, INT(-1)), "element -1 of y"), ((Y33, INT(2)), "element 33 of y"),
    ],
    "read_bytes": [
        ((BYTES, INT(13), INT(0)), ""), ((BYTES, INT(13), INT(1)), "element 13 of y"),
    ],
    "read_dynamic": [
        ((INT(0),), ""), ((INT(1),), "past the end of shared .* element 32"),
        ((INT(-1),), "shared memory, at byte -4"),
    ],
    "read_row": [
        ((INT(8),), ""), ((INT(25),), r"memory.cu:35: .* element 32 of tile"),
    ],
    "read_declared": [
        *(((INT(place), INT(3)), "") for place in range(3)),
        ((INT(0), INT(-1)), "byte -4 of its local memory"),
        ((INT(1), INT(4)), "element 4 .* of weights"),
        ((INT(2), INT(9)), "byte 56 of its local memory"),
    ],
    "read_shared": [((INT(33),), ""), ((INT(32),), "element 32 .* tile .* no thread")],
    "copy_padded": [((), "")],
    "read_vector": [
        ((Y64, INT(4)), ""), ((Y64, INT(3)), "12 bytes after a multiple of"),
    ],
    "read_by_pointer": [
        ((INT(0), INT(31)), ""), ((INT(1), INT(3)), ""), ((INT(2), INT(3)), ""),
        ((INT(0), INT(32)), "past the end of shared"),
        ((INT(0), INT(-1)), "shared memory, at byte -4"),
        ((INT(1), INT(4)), "byte 16 of its local memory"),
        ((INT(2), INT(4)), "element 4 .* of table in"),
    ],
}  # fmt: skip
"""The arguments of each kernel after the first, and the report, if any."""


UNINITIALISED = r"^memory.cu:92: .* uninitialized"


@together("name", READS)
def test_accesses_outside_of_memory_are_found(name: str) -> None:
    for args, message in READS[name]:
        x = np.zeros(32, {"read_bytes": "i4", "copy_padded": "f8"}.get(name, "f4"))
        error = pytest.raises(KernelError, match=message) if message else nullcontext()
        with emulator.memcheck(), error:
            run(name, x, *args, shared_mem=128 * (name == "read_dynamic"))


def test_a_local_variable_without_a_value_is_named() -> None:
    kernel = RawKernel(KERNELS / "memory.cu", "sum_without_start")
    for _ in range(2):
        with emulator.memcheck(), pytest.warns(RuntimeWarning, match=UNINITIALISED):
            kernel((1,), (32,), (floats(), INT(4)))
        kernel = RawKernel(KERNELS / "memory.cu", "sum_without_start")


def test_the_environment_turns_the_check_on(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = floats(), INT(32)
    run("read_shared", *arguments)
    monkeypatch.setenv("GPUSOLVE_EMULATE_MEMCHECK", "1")
    with pytest.raises(KernelError, match="element 32"):
        run("read_shared", *arguments)


def test_races_are_found_together_with_accesses_outside() -> None:
    with emulator.memcheck():
        run("race", floats())
    with emulator.memcheck(), emulator.races():
        with pytest.raises(KernelError, match="data race"):
            run("race", floats())
        with pytest.raises(KernelError, match="element -1"):
            run("read_from", floats(), floats(33), INT(-1))


def test_memory_of_the_heap_is_used_again() -> None:
    count = np.zeros(2, np.int32)
    run("use_heap", count, INT(1))
    assert count.tolist() == [20, 1]


def test_memory_of_the_heap_is_freed_once() -> None:
    with pytest.raises(
        KernelError, match=r"frees .* which malloc\(\) has not returned"
    ):
        run("use_heap", np.zeros(2, np.int32), INT(2))
