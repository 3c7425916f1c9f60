"""The pytest plugin turns the checks on that a test or the command asks for."""

from __future__ import annotations

import pytest
from backends import needs_emulator

pytestmark = needs_emulator
pytest_plugins = ["pytester"]

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


@pytest.fixture(autouse=True)
def environment_of_a_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What pytest leaves to later tests, if they run in its process."""
    monkeypatch.setenv("GPUSOLVE_EMULATE", "0")
    monkeypatch.setenv("GPUSOLVE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("GITHUB_ACTIONS", "")


def output(pytester: pytest.Pytester, tests: str, *options: str) -> list[str]:
    """The lines that pytest prints."""
    pytester.makeconftest('pytest_plugins = ["gpusolve.emulator.pytest_plugin"]')
    pytester.makepyfile(test_kernels=tests)
    quiet = ("-q", "-p", "no:cacheprovider", "-rf", "--strict-markers")
    return pytester.runpytest_inprocess(*quiet, *options).outlines


@pytest.mark.parametrize(
    ("options", "failing"),
    [
        ((), {"races", "of_the_package"}),
        (("--cuda-emulate", "--cuda-races"), {"plain", "races", "memcheck"}),
        (("--cuda-memcheck",), {"races", "of_the_package"}),
    ],
)
def test_markers_options_and_the_fixture(
    pytester: pytest.Pytester, options: tuple[str, ...], failing: set[str]
) -> None:
    lines = output(pytester, TESTS, *options)
    assert not [line for line in lines if line.startswith("::")]
    failed = [line.split()[1] for line in lines if line.startswith("FAILED")]
    assert {name.rpartition("::test_")[2] for name in failed} == failing


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


def test_a_failed_kernel_is_an_annotation(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the kernel's line if its file is in the repository, else at the launch."""
    (pytester.path / "shift.cu").write_text(KERNEL)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    printed = output(pytester, FILE, "--tb=short")
    # The traceback ends at the kernel, and has no line of this package.
    at = printed.index("shift.cu:3: in shift")
    assert printed[at + 1].strip() == KERNEL.splitlines()[2].strip()
    assert not [line for line in printed if "_kernel.py:" in line]
    file, text, check = [line for line in printed if line.startswith("::")]
    message = "::shift, thread (0, 0, 0), block (0, 0, 0), "
    assert file.startswith(
        f"::error file=shift.cu,line=3{message}shift.cu:3: data race"
    )
    place = f"::error file=test_kernels.py,line=14{message}kernel.cu:3: data race"
    assert text.startswith(place)
    assert check.endswith("assertion failed: threadIdx.x %25 2 == 0")
