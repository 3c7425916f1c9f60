"""Every barrier of the kernels is necessary: the emulator reports a missing barrier.

The race detector reports no race in any kernel. If any one barrier is removed, in a
copy of the sources, it reports a race.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from backends import needs_emulator
from kernel_runs import RUNS, runs_of

from gpusolve import _emulator
from gpusolve._device import kernels

pytestmark = needs_emulator

BARRIER = re.compile(
    r"(__sync(threads|warp)\(\w*\)|(team\.|Workers::)sync\(\)|[\w.]+\.wait\(\));"
)
COMMENT = re.compile(r"//[^\n]*")
FUNCTION = re.compile(
    r"__(?:device|global)__[\w\s:<>,*&]*?(?:__launch_bounds__\((?:[^()]|\(\))*\)\s*)?(\w+)\("
)
"""Matches a function's declaration up to its name."""


GRAM_KERNEL = (
    "nnls_gram.cu",
    "device_teams.cuh",
    "gram_matrix.cuh",
    "gram_residual.cuh",
    "gram_solver.cuh",
    "gram_steps.cuh",
    "gram_system.cuh",
    "passive_inverse.cuh",
)
"""Files whose barriers take minutes to remove: every team compiles the kernel."""


LARGE = ("nnls_", "stacked")
"""Kernels that take more than five seconds to compile for the race detector."""


class Barrier(NamedTuple):
    """A barrier in a source file: the `number`-th of a function, from 1."""

    file: str
    function: str
    number: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.file} {self.function} {self.number}"


def barriers_of(path: Path) -> Iterator[Barrier]:
    """The barriers in a file's text."""
    text = COMMENT.sub(lambda comment: " " * len(comment[0]), path.read_text())
    counts: Counter[str] = Counter()
    for match in BARRIER.finditer(text):
        function = FUNCTION.findall(text, 0, match.start())[-1]
        counts[function] += 1
        yield Barrier(path.name, function, counts[function], *match.span())


def every_barrier() -> Iterator[Any]:
    """Barriers as parameters; `make test-all` removes the first barrier of a file."""
    for path in sorted(kernels.source_directory().glob("*.cu*")):
        for position, barrier in enumerate(barriers_of(path)):
            left_out = position > 0 or path.name in GRAM_KERNEL
            marks = [pytest.mark.exhaustive] * left_out
            yield pytest.param(barrier, id=str(barrier), marks=marks)


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")


def test_barriers_are_found_in_the_sources() -> None:
    found = [str(barrier.values[0]) for barrier in every_barrier()]
    assert len(found) == len(set(found)) >= 50
    assert {"grid.cuh wait 1", "grid.cuh wait 2", "block.cuh reduce512 4"} <= {*found}
    assert {"gram_solver.cuh load 1", "gram_matrix.cuh scale_matrix 3"} <= {*found}


def test_every_kernel_file_has_a_run() -> None:
    files = {path.name for path in kernels.source_directory().glob("*.cu")}
    assert files <= RUNS.keys()


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, marks=[pytest.mark.slow] * file.startswith(LARGE))
        for file in RUNS
    ],
)
def test_no_kernel_has_a_race(file: str) -> None:
    with _emulator.races():
        for run in RUNS[file]:
            run()


@pytest.mark.slow
@pytest.mark.parametrize("barrier", list(every_barrier()))
def test_missing_barrier_is_reported(barrier: Barrier, copied_sources: Path) -> None:
    source = copied_sources / barrier.file
    text = source.read_text()
    source.write_text(f"{text[: barrier.start]};{text[barrier.end :]}")

    def run_all() -> None:
        for run in runs_of(barrier.file):
            run()

    error = pytest.raises(_emulator.KernelError)
    with _emulator.races(), np.errstate(all="ignore"), error:
        run_all()
