"""A pytest plugin: tests of CUDA kernels on a CPU.

Write ``pytest_plugins = ["gpusolve.emulator.pytest_plugin"]`` in ``conftest.py``.

- ``@pytest.mark.races`` and ``@pytest.mark.memcheck`` run a test under `races` and
  `memcheck`.
- The fixture ``cuda_profile`` is the report of `profile` for the test.
- ``pytest --cuda-emulate`` runs the kernels of gpusolve on the emulator; with
  ``--cuda-races`` and ``--cuda-memcheck`` every test is checked.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator

import pytest

from .._emulator._profile import Report
from . import memcheck, profile, races

CHECKS = {"races": races, "memcheck": memcheck}


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


@pytest.fixture
def cuda_profile() -> Iterator[Report]:
    """The counts of the kernels that the test launches."""
    with profile() as report:
        yield report
