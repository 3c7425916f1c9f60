"""The cell magic ``%%cuda``, in a shell of IPython."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from backends import needs_emulator, needs_nvcc

pytest.importorskip("IPython", reason="the magic needs IPython")
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

pytestmark = needs_emulator

PROGRAM = """\
#include <cstdio>

__global__ void shift(float* x) {
    x[threadIdx.x] = x[(threadIdx.x + 1) % 32];
}

// int main()
int main(int count, char** given) {
    float* x;
    cudaMalloc(&x, 128);
    shift<<<1, 32>>>(x);
    std::printf("%d: %s\\n", count, given[1]);
    return count == 3;
}
"""

KERNELS = """\
__device__ int steps = 3;
template <int n> __global__ void fill(int* x) { *x = n; }
extern "C" __global__ void __launch_bounds__(32) add(int* x) {
    x[threadIdx.x] += steps;
}
// __global__ void none(int* x) {}
"""


@pytest.fixture(scope="module")
def shell() -> Iterator[InteractiveShell]:
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "gpusolve.emulator")
    yield shell
    InteractiveShell.clear_instance()


def run(shell: InteractiveShell, cell: str) -> tuple[Any, BaseException | None]:
    """What the cell shows, and its error."""
    with capture_output() as shown:
        result = shell.run_cell(cell)
    return shown, result.error_in_exec


@needs_nvcc
def test_a_program_with_its_profile(shell: InteractiveShell) -> None:
    shown, error = run(shell, f"%%cuda --profile 'a b'\n{PROGRAM}")
    assert (error, shown.stderr) == (None, "")
    assert shown.stdout.splitlines()[0] == "2: a b"
    (listing,) = shown.outputs
    page = listing.data["text/html"]
    # The magic is line 1 of the cell.
    assert "<td>5</td><td>    x[threadIdx.x] = x[(threadIdx.x + 1) % 32];" in page
    # The emulator adds a line after the program.
    assert "<td>}</td>" not in page.partition("...")[2]
    assert page.count("<td>--- ") == page.count("<td>--- kernel.cu<") == 1


@needs_nvcc
def test_faults_are_shown_as_messages(shell: InteractiveShell) -> None:
    shown, error = run(shell, f"%%cuda --races\n{PROGRAM}")
    assert str(error).startswith("error: shift, thread (0, 0, 0), block (0, 0, 0), ")
    assert "kernel.cu:5: data race: writes element 0 (4 bytes) of x" in str(error)
    assert shown.stdout.strip() == str(error)
    shown, error = run(shell, f"%%cuda --profile a b\n{PROGRAM}")
    assert str(error) == "the exit status is 1"
    assert len(shown.outputs) == 1


def test_kernels_become_variables(shell: InteractiveShell) -> None:
    _, error = run(shell, f"%%cuda\n{KERNELS}")
    assert error is None
    assert not {"fill", "none"} & shell.user_ns.keys()
    x = np.arange(4, dtype=np.int32)
    shell.user_ns["add"]((1,), (4,), (x,))
    assert x.tolist() == [3, 4, 5, 6]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%cuda --races\n__global__ void f() {}", "options need a cell with main()"),
        ("%%cuda\n__global__ void f() { g(); }", "kernel.cu(2)"),
        ("%%cuda\nint f();", "the cell must have main(), or kernels"),
        ("%%cuda --race\nint main() {}", "unrecognized arguments: --race"),
    ],
)
def test_wrong_cells(shell: InteractiveShell, cell: str, message: str) -> None:
    _, error = run(shell, cell)
    assert message in str(error)
