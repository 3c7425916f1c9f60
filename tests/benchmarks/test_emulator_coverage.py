"""The table of what the emulator compiles and runs."""

from __future__ import annotations

from pathlib import Path

import emulator_coverage
from backends import needs_nvcc

TESTS = Path(__file__).parents[1]

pytestmark = needs_nvcc


def test_kernels_of_a_source() -> None:
    text = """
    // __global__ void commented(int);
    template <class T, int n>
    __global__ void first(T* x) { g<<<1, 1>>>(); }
    extern "C" __global__ void __launch_bounds__(128, 2) second(float* x) {}
    __global__ static void third(int n) {}
    __device__ float no_kernel(float x);
    """
    assert emulator_coverage.kernels_of(text) == {
        "first": True, "second": False, "third": False
    }  # fmt: skip


def test_a_file_of_kernels(tmp_path: Path) -> None:
    file = tmp_path / "kernels.cu"
    file.write_text(
        "__global__ void good(int* x) { *x = VALUE; }\n"
        "__global__ void bad(int* x) { *x = undeclared; }\n"
    )
    found = emulator_coverage.cover(file, [], ["-DVALUE=3"])
    assert found[:2] == (2, 0)
    assert "undeclared" in found.outcome
    file.write_text("__global__ void good(int* x) { *x = VALUE; }\n")
    assert emulator_coverage.cover(file, [], ["-DVALUE=3"]) == (1, 1, "compiled")


def test_programs() -> None:
    programs = TESTS / "programs"
    found = emulator_coverage.cover(programs / "vector_add.cu", [], [])
    assert found == (1, 1, "right")


def test_a_program_that_does_not_compile(tmp_path: Path) -> None:
    file = tmp_path / "program.cu"
    file.write_text("__global__ void f() {}\nint main() { return undeclared; }\n")
    found = emulator_coverage.cover(file, [], [])
    assert found[:2] == (1, 0)
    assert "undeclared" in found.outcome
