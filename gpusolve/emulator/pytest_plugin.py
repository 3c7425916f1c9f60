"""A pytest plugin: tests of CUDA kernels on a CPU.

Write ``pytest_plugins = ["gpusolve.emulator.pytest_plugin"]`` in ``conftest.py``.

- ``@pytest.mark.races`` and ``@pytest.mark.memcheck`` run a test under `races` and
  `memcheck`.
- The fixture ``cuda_profile`` is the report of `profile` for the test.
- ``pytest --cuda-emulate`` runs the kernels of gpusolve on the emulator; with
  ``--cuda-races`` and ``--cuda-memcheck`` every test is checked.
- On GitHub, the error of a kernel is an annotation of the line: of the kernel if its
  file is in the repository, otherwise of the launch.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from .._emulator._profile import Report
from . import KernelError, memcheck, profile, races

CHECKS = {"races": races, "memcheck": memcheck}
ANNOTATION = "cuda_annotation"
"""The attribute of a test's report, which xdist sends to the main process."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("CUDA kernels")
    group.addoption(
        "--cuda-emulate", action="store_true", help="run kernels of gpusolve on a CPU"
    )
    for name in CHECKS:
        group.addoption(
            f"--cuda-{name}", action="store_true", help=f"run all tests under {name}()"
        )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and turn the emulator on."""
    for name in CHECKS:
        config.addinivalue_line("markers", f"{name}: run the test under {name}()")
    if config.getoption("--cuda-emulate"):
        os.environ["GPUSOLVE_EMULATE"] = "1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run the test with its checks."""
    with contextlib.ExitStack() as stack:
        for name, check in CHECKS.items():
            if item.get_closest_marker(name) or item.config.getoption(f"--cuda-{name}"):
                stack.enter_context(check())
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the annotation of a failed kernel, if the test runs on GitHub."""
    report = yield
    error = call.excinfo
    if os.environ.get("GITHUB_ACTIONS") and error and error.errisinstance(KernelError):
        vars(report)[ANNOTATION] = _annotation(error, item.config.rootpath)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the annotations, which GitHub reads from the output."""
    for outcome in ("failed", "error"):
        for report in terminalreporter.getreports(outcome):
            if annotation := vars(report).get(ANNOTATION):
                terminalreporter.write_line(annotation)


def _annotation(error: pytest.ExceptionInfo[BaseException], root: Path) -> str:
    """GitHub's command for an error at the last line that is in the repository."""
    place = ""
    for entry in error.traceback.filter(error):
        path = Path(entry.path)
        if path.is_relative_to(root):
            file = path.relative_to(root).as_posix()
            place = f" file={file},line={entry.lineno + 1}"
    message = str(error.value).replace("%", "%25").replace("\n", "%0A")
    return f"::error{place}::{message}"


@pytest.fixture
def cuda_profile() -> Iterator[Report]:
    """The counts of the kernels that the test launches."""
    with profile() as report:
        yield report
