"""Batches in host memory and in files: in blocks, on several GPUs or on the CPU."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cupy_stand_in
import numpy as np
import pytest
from every_option import DTYPES, KINDS, Options, assert_same, problem
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from together import together

import gpusolve
from gpusolve._device import threads  # no public function tells the limits of a thread
from gpusolve._nnls import blocks  # of 1,024 systems or more

M, N = 6, 3


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few systems, so that a few dozen systems are several blocks."""
    monkeypatch.setattr(blocks, "LEAST_SYSTEMS", 5)


@pytest.fixture
def two_gpus() -> Iterator[Any]:
    with cupy_stand_in.installed() as cupy:
        yield cupy


def many(rng: Generator, systems: int = 23) -> Options:
    """Systems that share a matrix."""
    return {"A": rng.standard_normal((M, N)), "b": rng.standard_normal((systems, M))}


def given(kind: str, dtype: Any) -> Options:
    """Systems of a kind; also one system, and none."""
    if kind in KINDS:
        return problem(kind, (M, N), dtype)
    batch = {"one": (), "none": (0,)}[kind]
    A = np.cos(np.arange(M * N, dtype=dtype)).reshape(M, N)
    return {"A": A, "b": np.ones((*batch, M), dtype)}


# ---- the CPU -------------------------------------------------------------------------


@together("dtype", DTYPES)
@together("kind", [*KINDS, "one", "none"])
@pytest.mark.usefixtures("small_blocks")
def test_blocks_on_the_cpu_have_the_bits_of_one_call(kind: str, dtype: Any) -> None:
    systems = given(kind, dtype)
    expected = gpusolve.lsq_linear(**systems)
    found = gpusolve.lsq_linear(**systems, devices="cpu")
    assert_same(found, expected)
    assert_array_equal(found.residual, expected.residual)
    assert_array_equal(found.covariance(), expected.covariance())
    assert_same(pickle.loads(pickle.dumps(found)), expected)
    gpus = gpusolve.lsq_linear(**systems, devices="all")  # this machine has none
    assert_same(gpus, expected)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_leaves_finished_blocks(
    rng: Generator, monkeypatch: pytest.MonkeyPatch, error: type[Any]
) -> None:
    systems = many(rng)
    expected, solve, calls = gpusolve.nnls(**systems), blocks.solve_parts, []

    def interrupted(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 3:
            raise error
        return solve(*args)

    monkeypatch.setattr(blocks, "solve_parts", interrupted)
    x, status = np.empty((23, N)), np.empty(23, np.int32)
    with pytest.raises(error):
        gpusolve.nnls(**systems, out={"x": x, "status": status})
    assert len(calls) == 3
    finished = status != blocks.NOT_SOLVED
    assert_array_equal(finished, np.arange(23) < 12)
    assert_array_equal(x[finished], expected.x[finished])
    assert_array_equal(status[~finished], -1)


def test_no_block_begins_after_an_error() -> None:
    calls: list[Any] = []

    def broken(block: Any) -> Any:
        raise MemoryError

    def endless(block: Any) -> Any:
        calls.append(block)
        assert len(calls) < 10_000, "it never stops"
        time.sleep(0.001)

    with pytest.raises(MemoryError):
        blocks.run_blocks([broken, endless], itertools.repeat(()), lambda *_: None)
    assert len(calls) < 10_000


# ---- GPUs ----------------------------------------------------------------------------


@pytest.mark.usefixtures("small_blocks")
def test_both_gpus_solve_blocks_on_two_streams_each(
    rng: Generator, two_gpus: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    systems = many(rng, 40)
    ready, solve = threading.Barrier(4, timeout=60), blocks.solve_parts
    found: list[tuple[int, int]] = []
    matrices: set[int] = set()

    def counted(batch: Any, method: str, values: dict[str, Any]) -> Any:
        if len(found) < 4:  # all four threads get a block before a second block
            found.append((values["b"].device.id, len(values["b"])))
            ready.wait()
        matrices.add(values["A"].data.ptr)
        return solve(batch, method, values)

    monkeypatch.setattr(blocks, "solve_parts", counted)
    result = gpusolve.nnls(**systems, devices="all")
    assert sorted(found) == [(0, 5), (0, 5), (1, 5), (1, 5)]
    assert len(matrices) == 4, "a shared matrix is copied once for each stream"
    assert isinstance(result.x, np.ndarray)
    assert_allclose(result.x, gpusolve.nnls(**systems).x, atol=1e-13)


@pytest.mark.usefixtures("small_blocks")
@together("kind", ["broadcast", "one", "none"])
def test_two_gpus_have_the_options_of_their_systems(kind: str, two_gpus: Any) -> None:
    systems = given(kind, np.float64)
    found = gpusolve.lsq_linear(**systems, devices=[0, 1])
    assert_allclose(found.x, gpusolve.lsq_linear(**systems).x, atol=1e-12)


@pytest.mark.usefixtures("small_blocks")
def test_a_batch_larger_than_the_memory_of_a_gpu(rng: Generator) -> None:
    A, b = rng.standard_normal((60, M, N)), rng.standard_normal((60, M))
    with cupy_stand_in.installed(memory=16_000) as cupy:
        assert A.nbytes > 8_000
        found = gpusolve.nnls(A, b, devices=1)
        assert cupy.devices.states[0].peak == 0
    assert_allclose(found.x, gpusolve.nnls(A, b).x, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("devices", "got"), [(2, "2"), ([], "[]"), ("gpu", "'gpu'"), ([0, 2], "[0, 2]")]
)
@pytest.mark.usefixtures("two_gpus")
def test_unknown_devices(devices: Any, got: str) -> None:
    with pytest.raises(ValueError, match="devices must be 'all', 'cpu', or") as error:
        gpusolve.nnls(np.eye(2), np.ones(2), devices=devices)
    assert str(error.value).endswith(f"of which 2 are visible, got {got}")


def test_arrays_on_a_gpu(two_gpus: Any) -> None:
    A, b = two_gpus.asarray(np.eye(2)), two_gpus.asarray(np.ones(2))
    with pytest.raises(TypeError, match="A must be in host memory with devices or out"):
        gpusolve.nnls(A, b, devices="all")


# ---- memory --------------------------------------------------------------------------


def test_memory_is_bounded(
    tmp_path: Path, rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While systems of 64 x 16 stream from a file to files."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 2**20)
    A, systems = rng.random((64, 16)), 40_000

    def mapped(name: str, dtype: Any, *core: int) -> Any:
        path, shape = tmp_path / f"{name}.npy", (systems, *core)
        return np.lib.format.open_memmap(path, "w+", dtype, shape)

    b = mapped("b", np.uint8, 64)
    b[:] = rng.integers(0, 200, b.shape, np.uint8)
    first = gpusolve.nnls(A, b[:1], devices="cpu")  # what is imported and compiled
    fields = first._asdict().items()
    out = {name: mapped(name, field.dtype, *field.shape[1:]) for name, field in fields}
    tracemalloc.start()
    try:
        gpusolve.nnls(A, b, out=out)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (out["status"] == 0).all()
    assert peak < 5 * 2**20 < systems * 64 * 8


# ---- threads -------------------------------------------------------------------------


def test_blas_has_one_thread_while_any_thread_is_inside() -> None:
    def limits() -> set[int]:
        info = threads.blas().info()
        return {pool["num_threads"] for pool in info if pool["user_api"] == "blas"}

    first, second = threads.one_blas_thread(), threads.one_blas_thread()
    with threads.blas().limit(limits=2, user_api="blas"):
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert limits() == {1}
        second.__exit__(None, None, None)
        assert limits() == {2}


@pytest.mark.usefixtures("small_blocks")
def test_the_bar_counts_all_systems(
    rng: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []

    class Bar:
        def update(self, systems: int) -> None:
            steps.append(systems)

    def bar(systems: int, name: str, unit: str) -> Any:
        steps.append(-systems)
        return contextlib.nullcontext(Bar())

    monkeypatch.setattr(blocks, "progress_bar", bar)
    A, b = rng.standard_normal((2, 1, M, N)), rng.standard_normal((2, 15, M))
    gpusolve.nnls(A, b, devices="cpu")
    assert steps == [-30, 8, 7, 8, 7]
