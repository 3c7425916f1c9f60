"""The pytest plugin turns the checks on that a test or the command asks for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from backends import needs_emulator

pytestmark = needs_emulator

TESTS = """
import numpy as np
import pytest

import gpusolve
from gpusolve.emulator import RawKernel

kernel = RawKernel(
    "__global__ void f(float* x) { x[threadIdx.x] = x[(threadIdx.x + 1) % 32]; }", "f"
)

def launch():
    kernel((1,), (32,), (np.ones(32, np.float32),))

def test_plain():
    launch()

@pytest.mark.races
def test_races():
    launch()

@pytest.mark.memcheck
def test_memcheck():
    launch()

def test_profile(cuda_profile):
    launch()
    assert cuda_profile.kernels[0].arrays["x"].bytes == 256

def test_of_the_package():
    with gpusolve.emulator.profile() as report:
        gpusolve.gemv(np.ones((4, 4)), np.ones(4))
    assert len(report.kernels) == 1
"""


def output(
    directory: Path, tests: str, *options: str, on_github: str = ""
) -> list[str]:
    """The lines that pytest prints."""
    (directory / "conftest.py").write_text(
        'pytest_plugins = ["gpusolve.emulator.pytest_plugin"]\n'
    )
    (directory / "test_kernels.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rf"]
    done = subprocess.run(
        [*command, "--strict-markers", *options], cwd=directory, text=True,
        capture_output=True, env={**os.environ, "GITHUB_ACTIONS": on_github},
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout.splitlines()


def outcomes(directory: Path, *options: str) -> set[str]:
    """The tests that fail."""
    lines = output(directory, TESTS, *options)
    assert not [line for line in lines if line.startswith("::")]
    failed = [line.split()[1] for line in lines if line.startswith("FAILED")]
    return {name.rpartition("::")[2] for name in failed}


def test_markers_and_the_fixture(tmp_path: Path) -> None:
    assert outcomes(tmp_path) == {"test_races", "test_of_the_package"}


def test_options(tmp_path: Path) -> None:
    every = {"test_plain", "test_races", "test_memcheck"}
    assert outcomes(tmp_path, "--cuda-emulate", "--cuda-races") == every
    found = outcomes(tmp_path, "--cuda-memcheck")
    assert found == {"test_races", "test_of_the_package"}


FILE = """
from pathlib import Path

import numpy as np
import pytest

from gpusolve.emulator import RawKernel

SOURCE = Path(__file__).with_name("shift.cu")

@pytest.mark.races
@pytest.mark.parametrize("code", [SOURCE, SOURCE.read_text()], ids=["file", "text"])
def test_races(code):
    x = np.ones(32, np.float32)
    RawKernel(code, "shift")((1,), (32,), (x,))

def test_check():
    RawKernel(SOURCE, "check")((1,), (32,), (np.ones(32, np.float32),))
"""

KERNEL = """\
__global__ void shift(float* x) {
    const int next = (threadIdx.x + 1) % 32;
    x[threadIdx.x] = x[next];
}

__global__ void check(float* x) {
    assert(threadIdx.x % 2 == 0);
}
"""


def test_a_failed_kernel_is_an_annotation(tmp_path: Path) -> None:
    """At the kernel's line if its file is in the repository, else at the launch."""
    (tmp_path / "shift.cu").write_text(KERNEL)
    printed = output(tmp_path, FILE, "--tb=short", on_github="true")
    # The traceback ends at the kernel, and has no line of this package.
    at = printed.index("shift.cu:3: in shift")
    assert printed[at + 1].strip() == KERNEL.splitlines()[2].strip()
    assert not [line for line in printed if "_kernel.py:" in line]
    file, text, check = [line for line in printed if line.startswith("::")]
    message = "::shift, thread (0, 0, 0), block (0, 0, 0), "
    assert file.startswith(
        f"::error file=shift.cu,line=3{message}shift.cu:3: data race"
    )
    place = f"::error file=test_kernels.py,line=15{message}kernel.cu:3: data race"
    assert text.startswith(place)
    assert check.endswith("assertion failed: threadIdx.x %25 2 == 0")
