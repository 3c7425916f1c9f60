"""`memcheck` finds accesses outside of memory, and reads of unwritten memory."""

from __future__ import annotations

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

SILENT: list[tuple[str, tuple[Any, ...], int]] = [
    ("read_from", (floats(), floats(33), INT(1)), 0),
    ("read_from", (floats(), floats(32), INT(0)), 0),
    ("read_bytes", (np.zeros(1, INT), BYTES, INT(13), INT(0)), 0),
    ("read_dynamic", (floats(), INT(0)), 128),
    ("read_row", (floats(), INT(8)), 0),
    ("read_declared", (floats(), INT(0), INT(3)), 0),
    ("read_declared", (floats(), INT(1), INT(3)), 0),
    ("read_declared", (floats(), INT(2), INT(3)), 0),
    ("read_shared", (floats(), INT(33)), 0),
    ("copy_padded", (np.ones(32),), 0),
    ("read_vector", (floats(), floats(64), INT(4)), 0),
    ("read_by_pointer", (floats(), INT(0), INT(31)), 0),
    ("read_by_pointer", (floats(), INT(1), INT(3)), 0),
    ("read_by_pointer", (floats(), INT(2), INT(3)), 0),
]

FAULTY: list[tuple[str, tuple[Any, ...], int, str]] = [
    ("read_from", (floats(), floats(33), INT(-1)), 0, r"element -1 of y"),
    ("read_from", (floats(), floats(33), INT(2)), 0, r"element 33 of y"),
    ("read_bytes", (np.zeros(1, INT), BYTES, INT(13), INT(1)), 0, "element 13 of y"),
    ("read_dynamic", (floats(), INT(1)), 128, "past the end of shared .* element 32"),
    ("read_dynamic", (floats(), INT(-1)), 128, "shared memory, at byte -4"),
    ("read_row", (floats(), INT(25)), 0, r"memory.cu:35: .* element 32 of tile"),
    ("read_declared", (floats(), INT(0), INT(-1)), 0, "byte -4 of its local memory"),
    ("read_declared", (floats(), INT(1), INT(4)), 0, "element 4 .* of weights"),
    ("read_declared", (floats(), INT(2), INT(9)), 0, "byte 56 of its local memory"),
    ("read_shared", (floats(), INT(32)), 0, "element 32 .* tile .* no thread"),
    ("read_vector", (floats(), floats(64), INT(3)), 0, "12 bytes after a multiple of"),
    ("read_by_pointer", (floats(), INT(0), INT(32)), 0, "past the end of shared"),
    ("read_by_pointer", (floats(), INT(0), INT(-1)), 0, "shared memory, at byte -4"),
    ("read_by_pointer", (floats(), INT(1), INT(4)), 0, "byte 16 of its local memory"),
    ("read_by_pointer", (floats(), INT(2), INT(4)), 0, "element 4 .* of table in"),
]


UNINITIALISED = r"^memory.cu:92: .* uninitialized"


@together("number", range(len(SILENT)))
def test_an_access_inside_of_memory_is_allowed(number: int) -> None:
    name, args, shared_mem = SILENT[number]
    with emulator.memcheck():
        run(name, *args, shared_mem=shared_mem)


@together("number", range(len(FAULTY)))
def test_an_access_outside_of_memory_is_found(number: int) -> None:
    name, args, shared_mem, message = FAULTY[number]
    with emulator.memcheck(), pytest.raises(KernelError, match=message):
        run(name, *args, shared_mem=shared_mem)


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
