"""The pytest plugin turns the checks on that a test or the command asks for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpusolve import _emulator

pytestmark = pytest.mark.skipif(
    _emulator.compiler() is None or sys.platform != "linux",
    reason="the emulator needs Linux and a C++ compiler",
)

TESTS = """
import os

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
    assert len(report.kernels) == (os.environ.get("GPUSOLVE_EMULATE") == "1")
"""


def outcomes(directory: Path, *options: str) -> set[str]:
    """The tests that fail."""
    (directory / "conftest.py").write_text(
        'pytest_plugins = ["gpusolve.emulator.pytest_plugin"]\n'
    )
    (directory / "test_kernels.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rf"]
    done = subprocess.run(
        [*command, "--strict-markers", *options], cwd=directory, text=True,
        capture_output=True,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    lines = done.stdout.splitlines()
    failed = [line.split()[1] for line in lines if line.startswith("FAILED")]
    return {name.rpartition("::")[2] for name in failed}


def test_markers_and_the_fixture(tmp_path: Path) -> None:
    assert outcomes(tmp_path) == {"test_races"}


def test_options(tmp_path: Path) -> None:
    assert outcomes(tmp_path, "--cuda-emulate") == {"test_races"}
    every = {"test_plain", "test_races", "test_memcheck"}
    assert outcomes(tmp_path, "--cuda-races") == every
    assert outcomes(tmp_path, "--cuda-memcheck") == {"test_races"}
