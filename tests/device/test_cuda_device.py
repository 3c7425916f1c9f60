"""Limits and errors of GPUs, on the stand-in: memory, shared memory, drivers."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterator
from typing import Any

import cupy_stand_in
import numpy as np
import pytest

import gpusolve
from gpusolve import gam

# No public call passes a grid or an argument that is refused here.
from gpusolve._device import kernels
from gpusolve._device.products import times_transposes
from gpusolve._device.structs import StructType

KIBI = 1024

QR = "nnls_qr<double, false>"


# ---- memory --------------------------------------------------------------------------


def memory_of_nnls(A: Any, b: Any, limit: int) -> int:
    """The peak memory of a solution on a device with a memory limit, in bytes."""
    with cupy_stand_in.installed(1, memory=limit) as cupy:
        A, b = cupy.asarray(A), cupy.asarray(b)
        gpusolve.nnls(A, b, maxiter=1)
        return cupy.devices.states[0].peak


@pytest.mark.slow
def test_nnls_runs_fewer_blocks_in_less_memory(rng: np.random.Generator) -> None:
    A, b = rng.random((5, 150, 130)), rng.random((5, 150))
    peak = memory_of_nnls(A, b, cupy_stand_in.devices.UNLIMITED)
    for missing in (1, 10_000, 60_000):
        assert memory_of_nnls(A, b, peak - missing) < peak
    with pytest.raises(MemoryError):
        memory_of_nnls(A, b, A.nbytes + b.nbytes)


def load_a_kernel(rows: Any) -> None:
    kernels.CudaDevice(0).kernels("nnls_qr", (QR,))


@pytest.mark.parametrize("call", [load_a_kernel, times_transposes])
def test_cuda_itself_needs_memory(call: Any) -> None:
    """The pool returns what it keeps; a full card is a MemoryError."""
    with cupy_stand_in.installed(1, memory=2**20) as cupy:
        rows, state = cupy.ones((1, 2, 2)), cupy.devices.states[0]
        state.pooled = state.memory
        call(rows)
        assert state.pooled == 0
    with cupy_stand_in.installed(1, memory=2**20) as cupy:
        rows, state = cupy.ones((1, 2, 2)), cupy.devices.states[0]
        state.used += state.memory
        with pytest.raises(MemoryError, match="the GPU has too little memory: CU"):
            call(rows)
        state.used -= state.memory


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_with_transposes_are_numpys(cupy: Any, dtype: Any) -> None:
    rows = (np.arange(72) % 7).reshape(3, 4, 6).astype(dtype)
    found = times_transposes(cupy.asarray(rows))
    np.testing.assert_array_equal(found.get(), rows @ rows.swapaxes(-1, -2))


def test_a_kernel_takes_no_arrays_of_the_host() -> None:
    """CuPy would pass an array of size 1 by value, and a pointer to host memory."""
    with cupy_stand_in.installed(1):
        (kernel,) = kernels.CudaDevice(0).kernels("nnls_qr", (QR,))
        pair = StructType("Pair", "const double* x; long long n;")
        for argument in (np.ones(1), pair(x=np.ones(1), n=1)):
            with pytest.raises(TypeError, match=r"got a NumPy array of shape \(1,\)"):
                kernel((1,), (32,), (argument,))


# ---- shared memory -------------------------------------------------------------------


def test_launch_refuses_shared_memory_beyond_the_limit() -> None:
    with cupy_stand_in.installed(1, shared_memory=64 * KIBI) as cupy:
        (kernel,) = kernels.CudaDevice(0).kernels("nnls_qr", (QR,))
        assert kernel.resident_blocks(32, 40 * KIBI) > 0
        assert kernel.resident_blocks(32, 64 * KIBI) == 0
        assert kernel.resident_blocks(32, 99 * KIBI) == 0
        with pytest.raises(
            ValueError, match=r"at most \d+ bytes for nnls_qr<double, false>.*got 65536"
        ):
            kernel((1,), (32,), (), shared_mem=64 * KIBI)
        assert cupy.cuda.runtime.getDevice() == 0


def test_threads_do_not_lower_each_others_shared_memory_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread starts to set a small limit; another sets a large limit meanwhile."""
    small, large = 20 * KIBI, 40 * KIBI
    raw = cupy_stand_in.RawKernel
    limit = raw.max_dynamic_shared_size_bytes
    small_started, large_set = threading.Event(), threading.Event()

    def delayed(kernel: Any, size: int) -> None:
        if size == small:
            small_started.set()
            large_set.wait(0.2)
        limit.fset(kernel, size)
        if size == large:
            large_set.set()

    monkeypatch.setattr(
        raw, "max_dynamic_shared_size_bytes", property(limit.fget, delayed)
    )
    monkeypatch.setattr(cupy_stand_in.kernels, "DEFAULT_SHARED_MEMORY", 16 * KIBI)
    with cupy_stand_in.installed(1):
        (kernel,) = kernels.CudaDevice(0).kernels("nnls_qr", (QR,))
        first = threading.Thread(target=kernel.resident_blocks, args=(32, small))
        first.start()
        assert small_started.wait(10)
        kernel.resident_blocks(32, large)
        first.join()
        assert kernel._raw.max_dynamic_shared_size_bytes == large


# ---- kernels -------------------------------------------------------------------------


def test_compile_error_has_the_compilers_log() -> None:
    broken = gpusolve.Monoid("broken", 0, "a + undeclared", np.add, True)
    error = kernels.KernelCompileError
    with (
        cupy_stand_in.installed(1) as cupy,
        pytest.raises(error, match=r"(?s)does not compile for GPU 0.*undeclared"),
    ):
        gpusolve.reduce(cupy.ones(3), broken)


def test_too_large_grid_is_refused() -> None:
    with cupy_stand_in.installed(1):
        (kernel,) = kernels.CudaDevice(0).kernels(
            "map", ("map_elements<Keep<int>>",), '#include "monoid.cuh"'
        )
        with pytest.raises(ValueError, match="got 2147483648"):
            kernel((2**31,), (32,), ())


def test_a_device_is_pickled_as_its_index() -> None:
    with cupy_stand_in.installed() as cupy:
        device = kernels.device_of(cupy.ones(3))
        assert pickle.loads(pickle.dumps(device)) is device


# ---- other libraries -----------------------------------------------------------------


class Foreign:
    """An array of another library on a GPU."""

    def __init__(self, array: Any) -> None:
        self._array = array


class InterfaceArray(Foreign):
    @property
    def __cuda_array_interface__(self) -> Any:
        return self._array.__cuda_array_interface__


class DLPackArray(Foreign):
    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self._array.device.id

    def __dlpack__(self, **_: Any) -> Any:
        return self._array


@pytest.fixture
def cupy() -> Iterator[Any]:
    """The stand-in with two devices."""
    with cupy_stand_in.installed() as stand_in:
        yield stand_in


@pytest.mark.parametrize("kind", [InterfaceArray, DLPackArray])
def test_foreign_arrays_stay_on_their_device(cupy: Any, kind: Any) -> None:
    with cupy.cuda.Device(1):
        array = cupy.asarray(np.arange(1000.0))
        empty = cupy.zeros(0)
    state = cupy.devices.states[1]
    state.peak = before = state.used
    found = gpusolve.reduce(kind(array))
    assert found.device.id == 1
    assert state.peak - before < array.nbytes  # nothing was copied
    assert float(found) == array.size * (array.size - 1) / 2
    assert gpusolve.reduce(kind(empty)).shape == ()


class NullPointer:
    """An array without memory, as of an allocation that failed."""

    def __init__(self, *shape: int) -> None:
        description = {"shape": shape, "typestr": "<f8", "data": (0, False)}
        self.__cuda_array_interface__ = {**description, "version": 3}


def test_a_null_pointer_has_no_elements(cupy: Any) -> None:
    message = r"x must have memory, got a null pointer, shape \(2, 3\)"
    with pytest.raises(ValueError, match=message):
        gpusolve.reduce(NullPointer(2, 3))
    for empty in (cupy.zeros((0, 3)), InterfaceArray(cupy.zeros((0, 3)))):
        assert gpusolve.reduce(empty, axis=0).shape == (3,)


@pytest.mark.parametrize("kind", [InterfaceArray, DLPackArray])
def test_foreign_arrays_need_cupy(
    cupy: Any, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = kind(cupy.ones(3))
    with monkeypatch.context() as without:  # undone before the stand-in is removed
        without.setitem(sys.modules, "cupy", None)
        with pytest.raises(TypeError, match="needs CuPy"):
            gpusolve.reduce(foreign)


# ---- configuration, and missing devices ----------------------------------------------

OLD = "cudaErrorInsufficientDriver: CUDA driver version is insufficient"


def test_config_names_the_device_or_the_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def configuration() -> dict[str, str]:
        gpusolve.show_config()
        lines = capsys.readouterr().out.splitlines()
        return {
            name: text.strip() for name, _, text in (x.partition(" ") for x in lines)
        }

    with cupy_stand_in.installed(2):
        config = configuration()
        assert config["device"] == "0: stand-in 0, sm_86 (one of 2)"
        assert config["cuda"] == "runtime 12090, driver 12090"
        assert config["float64"] == "in all steps"
    with cupy_stand_in.installed(0, error=OLD):
        config = configuration()
        assert config["cupy"] == "14.2.0"
        assert config["device"] == f"none: {OLD}"


def test_cuda_without_a_device_is_refused() -> None:
    with (
        cupy_stand_in.installed(0, error=OLD),
        pytest.raises(RuntimeError, match=OLD),
    ):
        gam.BoostedGAM(device="cuda").fit(np.ones((5, 1)), np.ones(5))
