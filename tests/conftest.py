"""One test body, three backends: NumPy, the emulator, and a GPU where there is one.

Or, for GPUSOLVE_TEST_STAND_IN=1, the stand-in for CuPy in the place of a GPU.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import cupy_stand_in
import numpy as np
import pytest
from device_views import on_device
from gpus import STAND_IN, why_no_cuda
from hypothesis import HealthCheck, settings

import gpusolve
from gpusolve import _emulator
from gpusolve._device import kernels
from gpusolve._device.arrays import is_cupy

settings.register_profile(
    "gpusolve",
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("gpusolve")

SCHEDULES = ("forward", "reverse", "random")


@pytest.fixture(autouse=True)
def stand_in(request: pytest.FixtureRequest) -> Iterator[None]:
    """Has the stand-in play CuPy, in a test on a GPU where that is asked for."""
    if STAND_IN and request.node.get_closest_marker("gpu"):
        with cupy_stand_in.installed():
            yield
    else:
        yield


def each(move: Callable[[Any], Any], value: Any) -> Any:
    """The value moved, or each one of a tuple."""
    if isinstance(value, tuple):
        return tuple(each(move, one) for one in value)
    return move(value)


class Backend:
    """Calls a public function with arrays of one kind, and answers with NumPy's."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def emulated(self) -> bool:
        """Whether kernels run on the emulator, and problems should be small."""
        return self.name == "emulator" or (self.name == "cuda" and STAND_IN)

    def array(self, value: Any) -> Any:
        """The NumPy array as the backend's, with its strides."""
        if self.name != "cuda" or value is None:
            return value
        import cupy

        if isinstance(value, np.ndarray):
            return on_device(cupy, value)
        return cupy.asarray(value)

    def numpy(self, value: Any) -> Any:
        """The backend's array as NumPy's."""
        return value.get() if is_cupy(value) else value

    def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """The function of the backend's arrays, also of those in tuples."""

        def there(value: Any) -> Any:
            return self.array(value) if isinstance(value, np.ndarray) else value

        options = {name: each(there, value) for name, value in options.items()}
        return each(self.numpy, function(*each(there, args), **options))

    def nnls(self, A: Any, b: Any, **options: Any) -> gpusolve.NNLSResult:
        if "warm_start" in options:
            options["warm_start"] = self.array(options["warm_start"])
        result = gpusolve.nnls(self.array(A), self.array(b), **options)
        if self.name != "cuda":
            return result
        return replace(
            result,
            **{
                field.name: getattr(result, field.name).get()
                for field in fields(result)
                if field.name != "method"
            },
        )


def chosen_backend(name: str, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """The backend of this name, or a skip that says why there is none."""
    if name == "cuda" and not STAND_IN and why_no_cuda():
        pytest.skip(why_no_cuda())
    if name == "emulator":
        monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    else:
        monkeypatch.delenv("GPUSOLVE_EMULATE", raising=False)
    return Backend(name)


CUDA = pytest.param("cuda", marks=pytest.mark.gpu)


@pytest.fixture(params=["numpy", "emulator", CUDA])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """Each backend in turn."""
    return chosen_backend(request.param, monkeypatch)


@pytest.fixture(params=["emulator", CUDA])
def device_backend(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Backend:
    """Each backend that runs kernels."""
    return chosen_backend(request.param, monkeypatch)


@pytest.fixture
def numpy_backend(monkeypatch: pytest.MonkeyPatch) -> Backend:
    """NumPy alone."""
    return chosen_backend("numpy", monkeypatch)


@pytest.fixture(params=SCHEDULES)
def schedule(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each order in which the emulator may run the threads of a block."""
    with _emulator.schedule(request.param, seed=1):
        yield request.param


@pytest.fixture
def copied_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of ``cuda_src/`` that kernels are made from, for a test to change."""
    copy = tmp_path / "cuda_src"
    shutil.copytree(kernels.source_directory(), copy)
    monkeypatch.setattr(kernels, "source_directory", lambda: copy)
    kernels._emulated_kernel.cache_clear()
    yield copy
    kernels._emulated_kernel.cache_clear()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261121)
