"""Whole CUDA programs on the emulator: output, exit status and faults."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from backends import needs_nvcc
from scipy.ndimage import map_coordinates
from together import together

# The search for nvcc, and the names of kernels, of which a program would need many.
from gpusolve._emulator import nvcc
from gpusolve._emulator.program import kernel_name

PROGRAMS = Path(__file__).parents[1] / "programs"

pytestmark = needs_nvcc


class Ended(NamedTuple):
    """What a program did."""

    status: int
    output: str
    errors: str


def run(program: str | Path, *arguments: str, options: tuple[str, ...] = ()) -> Ended:
    command = [sys.executable, "-m", "gpusolve.emulator", *options]
    done = subprocess.run(
        [*command, str(PROGRAMS / program), *arguments], capture_output=True, text=True
    )
    return Ended(done.returncode, done.stdout, done.stderr)


# ---- programs without a fault --------------------------------------------------------


def test_a_program_runs_as_it_is() -> None:
    assert run("vector_add.cu", "500") == (0, "500 sums are right\n", "")


def test_functions_of_the_runtime_api() -> None:
    """Launches that CUDA refuses return an error, and the emulator says why."""
    ended = run("api.cu", "runtime_api")
    assert ended[:2] == (0, "")
    shared, block, bounds, grid, call, clusters = ended.errors.splitlines()
    assert "fill_shared is not launched: 60000 bytes of dynamic shared memory" in shared
    assert "add_offset is not launched: block must be at least 1 and at most" in block
    assert "scale_rows is not launched: block must have at most 64 threads" in bounds
    assert "grid of a cooperative launch must have at most 32 blocks" in grid
    no = "is not supported by the emulator"
    assert call == f"warning: cudaIpcCloseMemHandle() {no}"
    assert clusters == f"warning: a launch with clusters of several blocks {no}"


def test_names_that_cuda_13_has_removed() -> None:
    assert run("api.cu", "older_api") == (0, "", "")


def test_several_devices() -> None:
    assert run("api.cu", "devices") == (1, "", "")
    two = ("--devices=2",)
    assert run("api.cu", "devices", options=two) == (2, "7 7\n", "")


def test_textures_and_a_header_that_launches() -> None:
    ended = run("api.cu", "textures")
    assert (ended.status, ended.errors) == (0, "")
    linear, repeated, fetched = np.reshape(ended.output.split(), (3, 40)).astype(float)
    x, y = -1 + 0.25 * np.arange(40), 5 - 0.125 * np.arange(40)
    image = np.reshape(np.arange(32) ** 2 % 37, (4, 8)).astype(float)
    # The centre of the first texel is at 0.5.
    expected = map_coordinates(image, (y - 0.5, x - 0.5), order=1, mode="nearest")
    np.testing.assert_allclose(linear, expected, rtol=1e-6)
    texels = np.floor(x).astype(int) % 8
    np.testing.assert_allclose(repeated, 30 * texels / 255, rtol=1e-6)
    np.testing.assert_array_equal(fetched, 2 * np.arange(40))


@pytest.mark.slow
@together("program", ["runtime_api", "textures"])
def test_checks_are_silent_without_a_fault(program: str) -> None:
    checks = ("--races", "--memcheck", "--schedule=reverse")
    ended = run("api.cu", program, options=checks)
    assert ended.status == 0
    assert "error" not in ended.errors


@pytest.mark.slow
def test_a_profile_counts_kernels_and_calls_of_the_host(tmp_path: Path) -> None:
    options = ("--profile", "--lines", "--html", str(tmp_path / "lines.html"))
    ended = run("vector_add.cu", "500", options=options)
    assert ended.output == "500 sums are right\n"
    heading, kernel, host, *listing = ended.errors.splitlines()
    counts = dict(zip(heading.split("  "), kernel.split("  "), strict=False))
    assert counts["kernel"] == "add<float>"
    assert host == (
        "host: launches 1, allocations 3, memsets 0, synchronizations 1, copies 4"
    )
    assert listing[0].endswith("  add<float>")
    assert listing[1].endswith("--- vector_add.cu")
    assert "--- vector_add.cu" in (tmp_path / "lines.html").read_text()
    ended = run("vector_add.cu", "500", "by exit()", options=("--lines",))
    assert (ended.status, ended.output) == (4, "500 sums are right\n")
    assert ended.errors.splitlines() == listing


def test_options_and_headers_of_the_preprocessor(tmp_path: Path) -> None:
    """After a change of a header the program is compiled again."""
    header, program = tmp_path / "headers" / "value.h", tmp_path / "program.cu"
    header.parent.mkdir()
    program.write_text('#include "value.h"\nint main() { return value; }\n')
    given = (f"-I{header.parent}", f"-I{tmp_path / 'missing'}", "-DNUMBER=20")
    header.write_text("constexpr int value = NUMBER + 1;\n")
    assert run(program, options=given).status == 21
    header.write_text('extern "C" int elsewhere();\n#define value elsewhere()\n')
    ended = run(program, options=given)
    assert ended.status == 1
    assert ended.errors.startswith("error: program.cu cannot be loaded: ")
    assert "undefined symbol: elsewhere" in ended.errors
    header.write_text("#define value undeclared\n")
    ended = run(program, options=given)
    assert ended.status == 1
    assert "program.cu does not compile" in ended.errors
    assert "program.cu(2)" in ended.errors
    assert "must be a file, got" in run(tmp_path / "missing.cu").errors


# ---- faults --------------------------------------------------------------------------

FAULTS = {
    "null": "faulty.cu:9: writes address 0x0, through a null pointer",
    "before": "faulty.cu:18: reads element -1 (4 bytes) of x, which has 64 elements",
    "freed": "which is not device memory",
    "host": "faulty.cu:9: writes address 0x",
    "copy": "cudaMemcpy: the source must be 512 bytes of device memory",
    "direction": "cudaMemcpy: the target must be 64 bytes of device memory",
}


@together("fault", FAULTS)
def test_a_fault_ends_the_program(fault: str) -> None:
    """What was printed before is written."""
    ended = run("faulty.cu", fault)
    assert (ended.status, ended.output) == (1, "before the launch\n")
    assert ended.errors.startswith("error: ")
    assert FAULTS[fault] in ended.errors


@pytest.mark.slow
def test_a_check_finds_more_faults() -> None:
    """`test_magic.py` has a race."""
    assert run("faulty.cu", "unwritten").status == 0
    ended = run("faulty.cu", "unwritten", options=("--memcheck",))
    assert ended.status == 1
    assert (
        "shift, thread (31, 0, 0), block (0, 0, 0), faulty.cu:14: reads element 32 "
        "(4 bytes) of whole, to which nothing has written"
    ) in ended.errors


def test_a_profile_without_checks() -> None:
    ended = run("faulty.cu", options=("--lines", "--races"))
    assert ended.status == 2
    assert "exclude --races and --memcheck" in ended.errors


def test_the_status_is_the_result_of_main() -> None:
    assert run("faulty.cu", "status").status == 7
    assert run("faulty.cu", "twice").status == 5
    assert run("faulty.cu", "block").status == 8
    assert run("faulty.cu").output.endswith("at the end\n")


def test_a_call_without_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "package_folders", lambda: [])
    monkeypatch.setattr(nvcc, "_paths", lambda *_: [])
    nvcc.toolkit.cache_clear()
    assert "pip install gpusolve[emulator-programs]" in nvcc.why_missing()
    nvcc.toolkit.cache_clear()


@together(
    ("symbol", "name"),
    [
        ("_Z4fillPfif", "fill"),
        ("_Z3addIfEvPKT_S2_PS0_i", "add<float>"),
        ("_ZN1a1bILi2EEEvPFivE", "a::b<2>"),
        ("_ZN12_GLOBAL__N_11fEv", "(anonymous namespace)::f"),
        ("kernel", "kernel"),
    ],
)
def test_the_name_of_a_kernel_has_no_types(symbol: str, name: str) -> None:
    assert kernel_name(symbol) == name
