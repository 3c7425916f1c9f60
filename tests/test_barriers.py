"""Every barrier of the kernels is needed, and the emulator reports where one is missing.

The race detector knows what orders the accesses of two threads. So every kernel runs
clean under it, and with any one of its barriers taken away, in a copy of the sources,
it does not.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from kernel_runs import RUNS, runs_of

from gpusolve import _emulator, _kernels

pytestmark = pytest.mark.skipif(
    _emulator.compiler() is None or sys.platform != "linux",
    reason="the emulator wants Linux and a C++ compiler",
)

BARRIER = re.compile(r"__sync(threads|warp)\(\w*\);")


def barriers() -> list[tuple[str, int]]:
    """Files and lines of all barriers."""
    return [
        (path.name, number)
        for path in sorted(_kernels.source_directory().glob("*.cu*"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if BARRIER.search(line.partition("//")[0])
    ]


def test_every_kernel_is_run() -> None:
    files = {path.name for path in _kernels.source_directory().glob("*.cu")}
    assert files <= RUNS.keys()


@pytest.mark.parametrize("file", RUNS)
@pytest.mark.parametrize("order", ["forward", "random"])
def test_no_kernel_has_a_race(file: str, order: _emulator._schedule.Order) -> None:
    with _emulator.races(), _emulator.schedule(order, seed=5):
        for run in RUNS[file]:
            run()


@pytest.mark.slow
@pytest.mark.parametrize(("file", "line"), barriers())
def test_a_missing_barrier_is_reported(
    file: str, line: int, copied_sources: Path
) -> None:
    source = copied_sources / file
    lines = source.read_text().split("\n")
    lines[line - 1] = BARRIER.sub(";", lines[line - 1])
    source.write_text("\n".join(lines))
    with (
        _emulator.races(),
        np.errstate(all="ignore"),
        pytest.raises((_emulator.KernelError, AssertionError)),
    ):
        for run in runs_of(file):
            run()
