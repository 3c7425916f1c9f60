"""Every barrier of the kernels is necessary: the emulator reports a missing barrier.

The race detector reports no race in any kernel. If any one barrier is removed, in a
copy of the sources, it reports a race.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from backends import needs_emulator
from kernel_calls import Maker, Settings, copied, named_calls
from kernel_resources import included
from kernel_sources import recorded
from own_kernels import FOLDER, empty, own_kernel

from gpusolve import emulator
from gpusolve._device import kernels
from gpusolve.studies._qr_steps_kernel import DOWNDATE, ROWS, UPDATE, QRSteps, qr_steps

pytestmark = [needs_emulator, pytest.mark.usefixtures("emulated")]

BARRIER = re.compile(
    r"(__sync(threads|warp)\(\w*\)|(team\.|Team::|Workers::)sync\(\)|[\w.]+\.wait\(\));"
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
    "lane_matrix.cuh",
    "gram_residual.cuh",
    "gram_solver.cuh",
    "gram_steps.cuh",
    "gram_system.cuh",
    "lane_team.cuh",
    "passive_inverse.cuh",
    "passive_system.cuh",
    "tableau.cuh",
)
"""Files whose barriers take minutes to remove: every team compiles the kernel."""


# ---- runs that reach every barrier ---------------------------------------------------


def run_call(make: Maker) -> None:
    call = make(Settings(None, small=True))
    call.on([*map(copied, call.given)])


def change_factorisation(name: str, change: int) -> None:
    """Append the last of 40 columns to a QR factorisation, or remove one of 39."""
    A = np.random.default_rng(0).standard_normal((ROWS, 40)).astype(np.float32)
    Q, R = np.linalg.qr(A[:, :-1])
    given = QRSteps(A, np.pad(Q, ((0, 0), (0, 1))), np.pad(R, ((0, 1), (0, 1))))
    qr_steps(name, given, kernels.EmulatedDevice(), change, position=3)


PRIMITIVES = "kernels/block_primitives.cu"


def block_primitive(name: str, threads: int, *options: Any, results: int = 1) -> None:
    values = np.random.default_rng(0).integers(0, 9, threads).astype(np.float32)
    made = [empty(threads, np.float32) for _ in range(results)]
    kernel = own_kernel(PRIMITIVES, name, np.float32)
    kernel((1,), (threads,), (values, *options, *made))


RUNS: dict[str, Callable[[], None]] = {
    **{
        name: partial(run_call, make)
        for name, make in named_calls()
        if "regions" not in name  # their shapes are those of a GPU
    },
    **{
        f"{name}, {change}": partial(change_factorisation, name, change)
        for name in ("as_published", "as_solved")
        for change in (UPDATE, DOWNDATE)
    },
    "primitive, sum": partial(block_primitive, "sum_by_reduce512", 512),
    "primitive, sum and maximum": partial(
        block_primitive, "sum_and_maximum", 96, np.int32(3), results=2
    ),
}

LARGE = "nnls", "lsq", "bounded", "regular", "gam"
"""Runs of kernels that take seconds to compile for the race detector."""


@functools.cache
def files_of(run: str) -> set[str]:
    """The files that the kernels of a run include."""
    if run.startswith("primitive"):
        return included((FOLDER / PRIMITIVES).read_text())
    files = {f"{one.file}.cu" for one in recorded([("", RUNS[run], (), {})])}
    texts = ((kernels.source_directory() / file).read_text() for file in files)
    return files.union(*map(included, texts))


# ---- barriers ------------------------------------------------------------------------


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


def test_barriers_are_found_in_the_sources() -> None:
    found = [str(barrier.values[0]) for barrier in every_barrier()]
    assert len(found) == len(set(found)) >= 50
    assert {"grid.cuh wait 1", "grid.cuh wait 2", "block.cuh reduce512 4"} <= {*found}
    assert {"gram_solver.cuh load 1", "lane_matrix.cuh scale_matrix 3"} <= {*found}


@pytest.mark.slow
def test_every_file_has_a_run() -> None:
    files = {path.name for path in kernels.source_directory().glob("*.cu")}
    assert files <= set().union(*map(files_of, RUNS))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=[pytest.mark.slow] * one.startswith(LARGE))
        for one in RUNS
    ],
)
def test_no_kernel_has_a_race(name: str) -> None:
    with emulator.races():
        RUNS[name]()


@pytest.mark.slow
@pytest.mark.parametrize("barrier", list(every_barrier()))
def test_missing_barrier_is_reported(barrier: Barrier, copied_sources: Path) -> None:
    runs = [run for name, run in RUNS.items() if barrier.file in files_of(name)]
    source = copied_sources / barrier.file
    text = source.read_text()
    source.write_text(f"{text[: barrier.start]};{text[barrier.end :]}")

    def run_all() -> None:
        for run in runs:
            run()

    error = pytest.raises(emulator.KernelError)
    with emulator.races(), np.errstate(all="ignore"), error:
        run_all()
