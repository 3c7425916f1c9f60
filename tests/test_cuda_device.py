"""A GPU's limits and mistakes, on the stand-in: memory, shared memory, drivers."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import cupy_stand_in
import numpy as np
import pytest

import gpusolve
from gpusolve import gam
from gpusolve._device import kernels
from gpusolve._device.arrays import as_array
from gpusolve._device.config import config as configuration
from gpusolve.gam import basis as bases

KIBI = 1024


@pytest.fixture(autouse=True)
def no_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUSOLVE_EMULATE", raising=False)


# ---- memory --------------------------------------------------------------------------


def memory_of_nnls(A: Any, b: Any, limit: int) -> int:
    """The most memory that a solution takes on a device with so much of it."""
    with cupy_stand_in.installed(1, memory=limit) as cupy:
        A, b = cupy.asarray(A), cupy.asarray(b)
        gpusolve.nnls(A, b, maxiter=1)
        return cupy.devices.facts[0].peak


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nnls_in_any_memory(dtype: Any, rng: np.random.Generator) -> None:
    """Where memory is short, there are fewer blocks; the copies come first."""
    A, b = rng.random((5, 150, 130)).astype(dtype), rng.random((5, 150)).astype(dtype)
    most = memory_of_nnls(A, b, cupy_stand_in.devices.UNLIMITED)
    for missing in (1, 100, 10_000, 60_000):
        assert memory_of_nnls(A, b, most - missing) < most
    with pytest.raises(MemoryError):
        memory_of_nnls(A, b, A.nbytes + b.nbytes)


def test_bases_are_made_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a device needs for them, besides the result, does not grow with the rows."""
    monkeypatch.setattr(bases, "DEVICE_ROWS", 1000)
    for rows, features in ((3000, 1), (700, 5)):
        with cupy_stand_in.installed(1) as cupy:
            X = cupy.asarray(np.random.default_rng(0).random((rows, features)))
            splines = gam.BSplines.spanning(X * 0.9, 12, bases.MAX_DEGREE)
            device = cupy.devices.facts[0]
            before = device.used
            device.peak = 0
            found = splines.evaluate(X)
            made = sum(array.nbytes for array in found)
            assert device.peak - before - made <= 1000 * bases.BYTES_OF_A_ROW
            right = gam.BSplines(
                splines.lower.get(), splines.upper.get(), 12, bases.MAX_DEGREE
            ).evaluate(X.get())
            np.testing.assert_array_equal(found.first.get(), right.first)
            np.testing.assert_allclose(found.values.get(), right.values, rtol=1e-12)


# ---- shared memory -------------------------------------------------------------------


@pytest.mark.parametrize("method", ["stacked", "gram"])
def test_too_many_functions_for_shared_memory(method: str) -> None:
    X = np.random.default_rng(0).random((40, 1))
    model = gam.BoostedGAM(n_basis=300, max_iter=1, method=method, penalty="ridge")
    with (
        cupy_stand_in.installed(1, shared_memory=24 * KIBI) as cupy,
        pytest.raises(ValueError, match="shared memory"),
    ):
        model.fit(cupy.asarray(X), cupy.asarray(X[:, 0]))


def test_more_shared_memory_than_there_is() -> None:
    with cupy_stand_in.installed(1, shared_memory=64 * KIBI) as cupy:
        kernel = kernels.CudaDevice(0).kernel("nnls_qr", "nnls_qr<double>")
        assert kernel.resident_blocks(32, 40 * KIBI) > 0
        assert kernel.resident_blocks(32, 64 * KIBI) == 0
        assert kernel.resident_blocks(32, 99 * KIBI) == 0
        with pytest.raises(
            ValueError, match=r"at most \d+ bytes for nnls_qr<double>.*got 65536"
        ):
            kernel((1,), (32,), (), shared_mem=64 * KIBI)
        assert cupy.cuda.runtime.getDevice() == 0


def test_two_threads_ask_for_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smaller amount, asked for first and set last, lowers nothing."""
    small, large = 20 * KIBI, 40 * KIBI
    raw = cupy_stand_in.RawKernel
    plain = raw.max_dynamic_shared_size_bytes
    asked, done = threading.Event(), threading.Event()

    def hesitate(kernel: Any, size: int) -> None:
        if size == small:
            asked.set()
            done.wait(0.2)
        plain.fset(kernel, size)
        if size == large:
            done.set()

    monkeypatch.setattr(
        raw, "max_dynamic_shared_size_bytes", property(plain.fget, hesitate)
    )
    monkeypatch.setattr(cupy_stand_in.kernels, "UNASKED_SHARED_MEMORY", 16 * KIBI)
    with cupy_stand_in.installed(1):
        kernel = kernels.CudaDevice(0).kernel("nnls_qr", "nnls_qr<double>")
        first = threading.Thread(target=kernel.resident_blocks, args=(32, small))
        first.start()
        assert asked.wait(10)
        kernel.resident_blocks(32, large)
        first.join()
        assert kernel._raw.max_dynamic_shared_size_bytes == large


# ---- kernels -------------------------------------------------------------------------


def test_a_kernel_that_does_not_compile() -> None:
    broken = gpusolve.Monoid("broken", 0, "a + nobody", np.add, True)
    error = kernels.KernelCompileError
    with (
        cupy_stand_in.installed(1) as cupy,
        pytest.raises(error, match=r"(?s)does not compile for GPU 0.*nobody"),
    ):
        gpusolve.reduce(cupy.ones(3), broken)


def test_a_grid_that_is_too_large() -> None:
    with cupy_stand_in.installed(1):
        kernel = kernels.CudaDevice(0).kernel(
            "map", "map_elements<Keep<int>>", '#include "monoid.cuh"'
        )
        with pytest.raises(ValueError, match="a grid of 2147483648 blocks"):
            kernel((2**31,), (32,), ())


# ---- other libraries -----------------------------------------------------------------


class Foreign:
    """An array of another library, on a GPU."""

    def __init__(self, array: Any) -> None:
        self._array = array


class WithInterface(Foreign):
    @property
    def __cuda_array_interface__(self) -> Any:
        return self._array.__cuda_array_interface__


class WithDLPack(Foreign):
    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self._array.device.id

    def __dlpack__(self, **_: Any) -> Any:
        return self._array


@pytest.fixture
def two() -> Iterator[Any]:
    with cupy_stand_in.installed() as cupy:
        yield cupy


@pytest.mark.parametrize("kind", [WithInterface, WithDLPack])
def test_foreign_arrays_stay_on_their_device(two: Any, kind: Any) -> None:
    with two.cuda.Device(1):
        array = two.asarray(np.arange(4.0))
        empty = two.zeros(0)
    found = as_array(kind(array), "x")
    assert found.device.id == 1
    assert found.data.ptr == array.data.ptr
    assert gpusolve.reduce(kind(array)).device.id == 1
    assert float(gpusolve.reduce(kind(array))) == 6
    assert gpusolve.reduce(kind(empty)).shape == ()


@pytest.mark.parametrize("kind", [WithInterface, WithDLPack])
def test_foreign_arrays_need_cupy(
    two: Any, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = kind(two.ones(3))
    with monkeypatch.context() as without:  # undone before the stand-in goes
        without.setitem(sys.modules, "cupy", None)
        with pytest.raises(TypeError, match="needs CuPy"):
            as_array(foreign, "x")


# ---- no device -----------------------------------------------------------------------

OLD = "cudaErrorInsufficientDriver: CUDA driver version is insufficient"


def test_config() -> None:
    with cupy_stand_in.installed(2):
        config = configuration()
        assert config["device"] == "0: stand-in 0, sm_86 (one of 2)"
        assert config["cuda"] == "runtime 12090, driver 12090"
    with cupy_stand_in.installed(0, error=OLD):
        config = configuration()
        assert config["cupy"] == "14.2.0"
        assert config["device"] == f"none: {OLD}"


def test_device_is_cuda_without_a_device() -> None:
    with (
        cupy_stand_in.installed(0, error=OLD),
        pytest.raises(RuntimeError, match=OLD),
    ):
        gam.BoostedGAM(device="cuda").fit(np.ones((5, 1)), np.ones(5))
