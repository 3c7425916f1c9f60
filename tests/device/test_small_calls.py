"""What the host does in a call, as counts: no test measures time.

`cupy_stand_in` has two devices; the arrays are on the second device. Calls of NumPy
arrays are on the CPU, where the counts are Python functions of the package.
"""

from __future__ import annotations

import gc
import re
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import cupy_stand_in
import numpy as np
import pytest
from cupy_stand_in import devices, ndarray
from cupy_stand_in.kernels import programs
from kernel_calls import Call, Settings, named_calls, xp_issparse
from together import together

import gpusolve
from gpusolve import gam

# The solver is replaced, to see what it gets.
from gpusolve._nnls import dense
from gpusolve._nnls.problem import Problem
from gpusolve._numerics.certificate import Solution

N = 700

numbers = np.arange(N, dtype=np.float32) % 7


def counted(call: Callable[[], object]) -> tuple[Counter[str], list[tuple[str, ...]]]:
    """What the host does in a call, by name, and the programs that it makes."""
    devices.counts.clear()
    programs.clear()
    call()
    return devices.counts.copy(), programs.copy()


CALLS = dict(named_calls())
ONCE = (
    *("reduce, chunked", "reduce, first axis", "zip", "scan, in place", "scatter"),
    *("segmented_scan, bytes", "segmented_reduce, offsets", "stable_partition, mask"),
    *("stable_partition, two scans", "gemv, a warp for a row", "nnls, float32"),
    "sparse.multiply, merge",
)
"""Calls of a single public function."""


@pytest.fixture
def prepared() -> Iterator[Callable[[str], Any]]:
    """A call and its arguments, on the second of two devices."""

    def prepare(name: str) -> tuple[Call, list[Any]]:
        call = CALLS[name](Settings(cupy, small=True))
        with cupy.cuda.Device(1):
            return call, call.arguments_on_gpu(cupy)

    with cupy_stand_in.installed() as cupy:
        yield prepare


@together("name", ONCE)
def test_a_call_enters_its_device_once_compiles_once_and_keeps_no_array(
    name: str, prepared: Callable[[str], Any]
) -> None:
    call, given = prepared(name)
    call.on(given)
    again, made = counted(lambda: call.on(given))
    assert (again["contexts"], again["kernels"]) == (1, 0)
    assert not made
    kept = (one.data if xp_issparse(one) else one for one in given)
    arrays = [weakref.ref(one) for one in kept if isinstance(one, ndarray)]
    assert arrays
    given.clear()
    gc.collect()
    assert not any(reference() is not None for reference in arrays)


def test_the_kernels_of_a_call_are_one_program(prepared: Callable[[str], Any]) -> None:
    for name, expected in (
        ("segmented_reduce, offsets", ["split_path segmented_reduce add_carries"]),
        ("stable_partition, mask", ["count_kept move", "scan"]),
        ("gemv, blocks for a row", ["gemv_dots gemv_add_columns"]),
        ("sparse.multiply, merge", ["split_path multiply_by_merge"]),
    ):
        call, given = prepared(name)
        _, made = counted(partial(call.on, given))
        names = [[one.partition("<")[0] for one in program] for program in made]
        assert [*map(" ".join, names)] == expected


def test_threads_compute_on_the_devices_of_their_arrays() -> None:
    def sums(index: int) -> list[tuple[int, float]]:
        with cupy.cuda.Device(index):
            x = cupy.asarray(numbers[: 100 * (index + 1)])
        found = [gpusolve.reduce(x) for _ in range(20)]
        assert cupy.cuda.runtime.getDevice() == 0
        return [(array.device.id, float(array)) for array in found]

    with cupy_stand_in.installed() as cupy, ThreadPoolExecutor(4) as pool:
        for index, found in zip((0, 1) * 4, pool.map(sums, (0, 1) * 4), strict=True):
            expected = float(numbers[: 100 * (index + 1)].sum())
            assert found == [(index, expected)] * 20


def costs_of_fit(model: gam.BoostedGAM, columns: int) -> tuple[int, int]:
    """Array operations of a fit on a GPU, and how often the host waits.

    An operation is a launch of CuPy; the loop is a launch of its own.
    """
    X = np.random.default_rng(0).random((100, columns))
    with cupy_stand_in.installed(1) as cupy:
        given = cupy.asarray(X), cupy.asarray(X.sum(axis=1))
        with gpusolve.emulator.profile() as report:
            counts, _ = counted(lambda: model.fit(*given))
    return counts["operations"], report.host.synchronizations


@together("columns", [2, 5])
def test_a_boosted_fit_takes_few_array_operations(columns: int) -> None:
    operations, waits = costs_of_fit(gam.BoostedGAM(max_iter=2), columns)
    assert operations <= 22
    assert waits <= 12


def test_splines_that_differ_take_two_operations_each() -> None:
    learners = [gam.bbs(j, knots=5 + j) for j in range(3)]
    operations = [
        costs_of_fit(gam.BoostedGAM(learners[:count], max_iter=2), 3)[0]
        for count in (2, 3)
    ]
    assert operations[1] <= operations[0] + 2


# ---- on the CPU ----------------------------------------------------------------------

PACKAGE = str(Path(gpusolve.__file__).parent)

wide = numbers.astype(np.float64)
table = wide.reshape(20, 35)
square_system, side, half = wide[:144].reshape(12, 12), wide[:12], np.full(12, 0.5)
target = np.empty(20)

CPU_CALLS: dict[str, tuple[Callable[[], Any], int]] = {
    "reduce": (lambda: gpusolve.reduce(wide), 22),
    "reduce rows": (lambda: gpusolve.reduce(table, "max", axis=1), 24),
    "scan": (lambda: gpusolve.scan(wide), 23),
    "exclusive scan": (lambda: gpusolve.scan(wide, exclusive=True), 26),
    "gemv": (lambda: gpusolve.gemv(table, wide[:35]), 20),
    "gemv with out": (lambda: gpusolve.gemv(table, wide[:35], out=target), 27),
    "nnls": (lambda: gpusolve.nnls(square_system, side), 23),
    "nnls with numbers": (
        lambda: gpusolve.nnls(square_system, side, sum_to=1.0, l1=0.5, l2=0.5),
        23,
    ),
    "nnls with weights": (lambda: gpusolve.nnls(square_system, side, weights=side), 59),
    "nnls with a penalty of each": (
        lambda: gpusolve.nnls(square_system, side, l2=half),
        59,
    ),
    "lsq_linear": (lambda: gpusolve.lsq_linear(square_system, side, (0, 1)), 24),
    "lsq_linear with bounds of each": (
        lambda: gpusolve.lsq_linear(square_system, side, (half, half)),
        68,
    ),
}
"""Small calls, and the most functions of the package that they may call."""

each_cpu_call = together("name", CPU_CALLS)


@pytest.fixture
def problems(monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    """The problems that a stub in place of the solver on the CPU gets."""
    given: list[Problem] = []
    found = Solution.blank((), 12, np.dtype(np.float64))

    def stub(problem: Problem, method: str) -> Solution:
        given.append(problem)
        return found

    monkeypatch.setattr(dense, "solve_on_cpu", stub)
    return given


def functions_called(call: Callable[[], object]) -> Counter[str]:
    """How often a call enters each function of the package, without comprehensions."""
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            found[code.co_name] += not code.co_name.startswith("<")

    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


@each_cpu_call
def test_a_small_call_takes_few_steps(name: str, problems: list[Problem]) -> None:
    call, most = CPU_CALLS[name]
    call()
    found = functions_called(call)
    assert found.total() <= most, found


def test_one_system_reaches_the_solver_as_it_came(problems: list[Problem]) -> None:
    gpusolve.lsq_linear(
        square_system, side, (half, half), weights=side, warm_start=half
    )
    (problem,) = problems
    assert problem.A is square_system
    assert problem.b is problem.weights is side
    assert problem.bounds[0] is problem.bounds[1] is problem.start is half
    assert (problem.batch, problem.matrices) == ((), ())


# ---- caches --------------------------------------------------------------------------


UNBOUNDED = re.compile(r"@(functools\.)?cache\n(@.*\n)*def \w+\((?!\))")


def test_caches_are_bounded() -> None:
    """A cache without a limit is of a function without parameters."""
    limits = []
    for path in Path(PACKAGE).rglob("*.py"):
        text = path.read_text() if "_emulator" not in path.parts else ""
        assert not UNBOUNDED.search(text), path
        limits += re.findall(r"lru_cache\((\w*)", text)
    assert set(limits) == {"CACHED"}
    assert len(limits) > 10
