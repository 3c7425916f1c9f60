"""What the host does in a call, as counts: no test measures time.

`cupy_stand_in` has two devices; the arrays are on the second device. Calls of NumPy
arrays are on the CPU, where the counts are Python functions of the package.
"""

from __future__ import annotations

import functools
import gc
import importlib
import inspect
import pkgutil
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import cupy_stand_in
import numpy as np
import pytest
import scipy.sparse
from monoids import is_positive, square
from together import together

import gpusolve
from gpusolve import sparse
from gpusolve._device import kernels
from gpusolve._device.launch import CACHED
from gpusolve._nnls import dense
from gpusolve._nnls.problem import Problem
from gpusolve._numerics.solution import Solution
from gpusolve.gam._formula.expression import PLAIN_FORMS

N = 700

numbers = np.arange(N, dtype=np.float32) % 7
marks = np.arange(N) % 9 == 0
matrix = numbers.reshape(20, 35)
entries = scipy.sparse.coo_matrix(matrix)

Arrays = dict[str, Any]


class Counts:
    """Counts what the host does, by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: Counter[str] = Counter()
        self.files: list[str] = []
        self._monkeypatch = monkeypatch
        for owner, method, name in (
            (cupy_stand_in.cuda.Device, "__enter__", "contexts"),
            (kernels.CudaDevice, "empty", "allocations"),
            (kernels.CudaDevice, "zeros", "allocations"),
            (kernels.CudaKernel, "__init__", "kernels"),
            (kernels.CudaKernel, "__call__", "launches"),
            (cupy_stand_in.RawModule, "__init__", "programs"),
            *((module, "monoid_source", "definitions") for module in SOURCES),
        ):
            self._count(owner, method, name)
        source_of = kernels.source_of

        def recorded(file: str, definitions: str = "") -> str:
            self.files.append(file)
            return source_of(file, definitions)

        monkeypatch.setattr(kernels, "source_of", recorded)

    def _count(self, owner: Any, method: str, name: str) -> None:
        original = getattr(owner, method)

        def counted(*args: Any, **options: Any) -> Any:
            self.found[name] += 1
            return original(*args, **options)

        self._monkeypatch.setattr(owner, method, counted)

    def of(self, call: Callable[[], object]) -> Counter[str]:
        """The counts of one call."""
        self.found.clear()
        self.files.clear()
        call()
        return Counter(self.found)


SOURCES = [importlib.import_module("gpusolve._blocks.operators"), gpusolve.monoid]
"""The modules that write a monoid in C++."""


@pytest.fixture
def arrays(monkeypatch: pytest.MonkeyPatch) -> Iterator[Arrays]:
    """The arguments of the calls, on the second of two devices."""
    monkeypatch.delenv("GPUSOLVE_EMULATE", raising=False)
    with cupy_stand_in.installed() as cupy, cupy.cuda.Device(1):
        bounds = np.arange(0, N + 1, 35)
        csr = cupy.sparse.csr_matrix(entries.tocsr())
        given = {
            "x": cupy.asarray(numbers),
            "flags": cupy.asarray(marks),
            "A": cupy.asarray(matrix),
            "v": cupy.asarray(numbers[:35]),
            "b": cupy.asarray(numbers[:20]),
            "offsets": cupy.asarray(bounds),
            "systems": cupy.asarray(numbers.reshape(5, 14, 10)),
            "sides": cupy.asarray(numbers[:70].reshape(5, 14)),
            "coo": cupy.sparse.coo_matrix(entries),
            "plan": sparse.SpMVPlan(csr),
        }
        with cupy.cuda.Device(0):
            yield given


CALLS: dict[str, tuple[Callable[[Arrays], Any], int, int]] = {
    "reduce": (lambda a: gpusolve.reduce(a["x"]), 1, 1),
    "reduce rows": (lambda a: gpusolve.reduce(a["A"], "max", axis=1), 1, 1),
    "reduce with a map": (lambda a: gpusolve.reduce(a["x"], map=square), 1, 1),
    "any": (lambda a: gpusolve.any(a["x"], is_positive), 1, 1),
    "maximum_segment_sum": (lambda a: gpusolve.maximum_segment_sum(a["x"]), 1, 1),
    "scan": (lambda a: gpusolve.scan(a["x"]), 2, 1),
    "scan in place": (lambda a: gpusolve.scan(a["x"], out=a["x"]), 1, 1),
    "segmented_scan": (lambda a: gpusolve.segmented_scan(a["x"], a["flags"]), 2, 1),
    "segmented_reduce": (
        lambda a: gpusolve.segmented_reduce(a["x"], offsets=a["offsets"]),
        *(3, 2),
    ),
    "stable_partition": (lambda a: gpusolve.stable_partition(a["x"], a["flags"]), 4, 3),
    "stable_partition by two scans": (
        lambda a: gpusolve.stable_partition(a["x"], a["flags"], variant="two_scans"),
        *(4, 3),
    ),
    "map of two arrays": (lambda a: gpusolve.zip(a["x"], a["x"]), 1, 1),
    "scatter": (
        lambda a: gpusolve.scatter(a["x"], a["offsets"][:-1], a["b"]),
        *(0, 1),
    ),
    "gemv": (lambda a: gpusolve.gemv(a["A"], a["v"]), 1, 1),
    "gemv transposed": (lambda a: gpusolve.gemv(a["A"], a["b"], transpose=True), 1, 1),
    "gemv of a batch": (lambda a: gpusolve.gemv(a["systems"], a["v"][:10]), 1, 1),
    "nnls": (lambda a: gpusolve.nnls(a["systems"], a["sides"]), 13, 2),
    "spmv with a plan": (lambda a: a["plan"](a["v"]), 2, 1),
    "multiply": (lambda a: sparse.multiply(a["coo"], a["coo"]), 5, 2),
}
"""Each call, and its numbers of allocations and launches."""

each_call = together("name", CALLS)


@each_call
def test_a_call_enters_its_device_once(
    name: str, arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, allocations, launches = CALLS[name]
    call(arrays)
    found = Counts(monkeypatch).of(lambda: call(arrays))
    assert found["contexts"] == 1
    assert (found["allocations"], found["launches"]) == (allocations, launches)


@each_call
def test_a_second_call_writes_and_compiles_nothing(
    name: str, arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, *_ = CALLS[name]
    counts = Counts(monkeypatch)
    counts.of(lambda: call(arrays))
    assert len(set(counts.files)) == len(counts.files), "one program of each file"
    again = counts.of(lambda: call(arrays))
    assert again["programs"] == again["kernels"] == again["definitions"] == 0
    assert not counts.files


def test_the_kernels_of_a_call_are_one_program(
    arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs: list[tuple[str, ...]] = []
    make = cupy_stand_in.RawModule.__init__

    def recorded(module: Any, *args: Any, **options: Any) -> None:
        make(module, *args, **options)
        programs.append(
            tuple(name.partition("<")[0] for name in module.name_expressions)
        )

    monkeypatch.setattr(cupy_stand_in.RawModule, "__init__", recorded)
    for name, expected in (
        ("segmented_reduce", [("split_path", "segmented_reduce", "add_carries")]),
        ("stable_partition", [("count_kept", "move"), ("scan",)]),
        ("gemv", [("gemv_dots", "gemv_add_columns")]),
        ("multiply", [("split_path", "multiply_by_merge")]),
        ("spmv with a plan", [("multiply",), ("add_carries",)]),
    ):
        programs.clear()
        CALLS[name][0](arrays)
        assert programs == expected


@pytest.mark.parametrize("name", CALLS)
def test_no_cache_keeps_an_array(name: str, arrays: Arrays) -> None:
    call, *_ = CALLS[name]
    call(arrays)
    given = [
        weakref.ref(value)
        for value in arrays.values()
        if isinstance(value, cupy_stand_in.ndarray)
    ]
    arrays.clear()
    gc.collect()
    assert not any(reference() is not None for reference in given)


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
    "nnls": (lambda: gpusolve.nnls(square_system, side), 22),
    "nnls with numbers": (
        lambda: gpusolve.nnls(square_system, side, sum_to=1.0, l1=0.5, l2=0.5),
        22,
    ),
    "nnls with weights": (lambda: gpusolve.nnls(square_system, side, weights=side), 58),
    "nnls with a penalty of each": (
        lambda: gpusolve.nnls(square_system, side, l2=half),
        57,
    ),
    "lsq_linear": (lambda: gpusolve.lsq_linear(square_system, side, (0, 1)), 23),
    "lsq_linear with bounds of each": (
        lambda: gpusolve.lsq_linear(square_system, side, (half, half)),
        65,
    ),
}
"""Small calls, and the most functions of the package that they may call."""

each_cpu_call = together("name", CPU_CALLS)


@pytest.fixture
def problems(monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    """The problems that a stub in place of the solver on the CPU gets."""
    monkeypatch.delenv("GPUSOLVE_EMULATE", raising=False)
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


def caches() -> Iterator[Any]:
    """The cached functions with parameters of the rooms that launch kernels."""
    for found in pkgutil.walk_packages(gpusolve.__path__, "gpusolve."):
        if "._emulator" in found.name or "cuda_src" in found.name:
            continue
        module = importlib.import_module(found.name)
        for value in vars(module).values():
            is_cached = isinstance(value, functools._lru_cache_wrapper)
            if is_cached and inspect.signature(value).parameters:
                yield value


def test_caches_are_bounded() -> None:
    listed = list(caches())
    assert len(listed) > 10
    sizes = {function.cache_info().maxsize for function in listed}
    assert sizes == {CACHED, PLAIN_FORMS}
