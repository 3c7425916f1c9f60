"""Fixtures that run a test on three backends: NumPy, the emulator and, if any, a GPU.

With GPUSOLVE_TEST_STAND_IN=1 the stand-in for CuPy replaces the GPU.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # waiting threads would spin

import numpy as np
import pytest
from _pytest.doctest import DoctestModule
from backends import CUDA, STAND_IN, copy_to_device, why_no_cuda
from hypothesis import HealthCheck, settings
from monoids import FEW, Case
from together import ALL

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

os.environ.pop("GPUSOLVE_EMULATE", None)  # a test chooses the emulator itself


SCHEDULES = ("forward", "reverse", "random")


def values_of(item: pytest.Item) -> set[Any]:
    """The values that a test gets: of each fixture and of each `parametrize`."""
    params = dict(item.callspec.params)
    marks = [mark.args[0] for mark in item.iter_markers("parametrize")]
    together = [mark.split(",") if isinstance(mark, str) else mark for mark in marks]
    rows = [
        [(name.strip(), id(params.pop(name.strip()))) for name in names]
        for names in together
    ]
    return {*map(tuple, rows), *((name, id(value)) for name, value in params.items())}


def redundant(items: list[pytest.Item]) -> Iterable[pytest.Item]:
    """Items of one test whose values all occur in the other items."""
    values = {item: values_of(item) for item in items}
    needed = set().union(*values.values())
    while needed:
        chosen = max(values, key=lambda item: len(values[item] & needed))
        needed -= values.pop(chosen)
    return values


def backend_of(item: pytest.Item) -> str | None:
    """The backend of the test, where it has several."""
    given = item.callspec.params
    return given.get("backend", given.get("device_backend"))


def leave_out(item: pytest.Item) -> None:
    """Leave a test to `make test-all`, or a kernel to `make test-exhaustive`."""
    item.add_marker(pytest.mark.slow)
    if backend_of(item) in ("emulator", "cuda"):
        item.add_marker(pytest.mark.exhaustive)


FRAMEWORKS = re.compile(r"torch|jax|gradients\.md|learn_a_pulse")
"""In the names of tests that need PyTorch or JAX, which `make test-all` installs."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests with every value of each parameter, but not with every combination.

    Each backend has every value, because it has its own code. The other combinations
    are slow tests; if they run kernels, also exhaustive tests. Kernels are tested with
    a few of the monoids.
    """
    quick = defaultdict(list)
    for item in items:
        if FRAMEWORKS.search(f"{item.path.name} {item.name}"):
            item.add_marker(pytest.mark.slow)
        if not hasattr(item, "callspec") or item.get_closest_marker("slow"):
            continue
        given, backend = item.callspec.params, backend_of(item)
        case = given.get("case")
        unusual = isinstance(case, Case) and case not in FEW
        if given.get("combinations") == ALL or (backend == "emulator" and unusual):
            leave_out(item)
        else:
            quick[item.parent, item.originalname, backend].append(item)
    for same in quick.values():
        for item in redundant(same):
            leave_out(item)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Iterator[None]:
    """Collect no doctests of a test file.

    Such a doctest may ignore an import error, and then the file would have no tests.
    """
    found = yield
    if file_path.name.startswith("test_"):
        return [one for one in found if not isinstance(one, DoctestModule)]
    return found


def pytest_collection_finish() -> None:
    """Exempt the thousands of collected tests from garbage collection."""
    gc.freeze()


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """Fail a test that leaves later tests other settings, such as the emulator."""
    before = variables()
    yield
    assert variables() == before


def variables() -> dict[str, str]:
    """The environment variables of the package."""
    return {
        name: os.environ[name] for name in os.environ if name.startswith("GPUSOLVE")
    }


@pytest.fixture(autouse=True)
def stand_in(request: pytest.FixtureRequest) -> Iterator[None]:
    """Install the stand-in for CuPy in GPU tests if GPUSOLVE_TEST_STAND_IN is set."""
    if STAND_IN and request.node.get_closest_marker("gpu"):
        import cupy_stand_in

        with cupy_stand_in.installed():
            yield
    else:
        yield


def each(move: Callable[[Any], Any], value: Any) -> Any:
    """Apply `move` to the value, or to each element of a tuple."""
    if isinstance(value, tuple):
        return tuple(each(move, item) for item in value)
    return move(value)


class Backend:
    """Calls public functions with the backend's arrays, and returns NumPy arrays."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def emulated(self) -> bool:
        """Whether kernels run on the emulator, so that problems should be small."""
        return self.name == "emulator" or (self.name == "cuda" and STAND_IN)

    def array(self, value: Any) -> Any:
        """Convert a NumPy array to the backend's, with its strides."""
        if self.name != "cuda" or value is None:
            return value
        import cupy

        if isinstance(value, np.ndarray):
            return copy_to_device(cupy, value)
        return cupy.asarray(value)

    def numpy(self, value: Any) -> Any:
        """Convert the backend's array to NumPy's."""
        return value.get() if is_cupy(value) else value

    def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call the function with the backend's arrays; tuples may contain arrays."""

        def there(value: Any) -> Any:
            return self.array(value) if isinstance(value, np.ndarray) else value

        options = {name: each(there, value) for name, value in options.items()}
        return each(self.numpy, function(*each(there, args), **options))

    def nnls(self, A: Any, b: Any, **options: Any) -> gpusolve.NNLSResult:
        return self.solve(gpusolve.nnls, self.array(A), self.array(b), **options)

    def solve(
        self, function: Callable[..., Any], *args: Any, **options: Any
    ) -> gpusolve.NNLSResult:
        """Call a solver of least squares; the arrays of its result are NumPy's."""
        result = self.call(function, *args, **options)
        arrays = {name: self.numpy(array) for name, array in result._asdict().items()}
        return replace(result, **arrays)


def chosen_backend(name: str, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """The backend of this name. Skips the test if it is not available."""
    if name == "cuda" and not STAND_IN and why_no_cuda():
        pytest.skip(why_no_cuda())
    if name == "emulator":
        monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    else:
        monkeypatch.delenv("GPUSOLVE_EMULATE", raising=False)
    if name == "fallback":
        monkeypatch.setenv("GPUSOLVE_OBJECT", "none")
    return Backend(name)


@pytest.fixture(params=["numpy", "emulator", CUDA])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """Each backend in turn."""
    return chosen_backend(request.param, monkeypatch)


@pytest.fixture(params=["emulator", CUDA])
def device_backend(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Backend:
    """Each backend that runs kernels, in turn."""
    return chosen_backend(request.param, monkeypatch)


@pytest.fixture
def numpy_backend(monkeypatch: pytest.MonkeyPatch) -> Backend:
    """The NumPy backend."""
    return chosen_backend("numpy", monkeypatch)


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run kernels on the emulator where a test passes arrays of NumPy."""
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")


@pytest.fixture
def emulated_device(
    emulated: None, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Change properties of the emulated device, which no argument of a solver sets."""

    def change(**properties: Any) -> None:
        resident = properties.pop("resident_blocks", None)
        if resident is not None:
            kernel = _emulator.Kernel
            monkeypatch.setattr(kernel, "resident_blocks", lambda *_: resident)
        for name, value in properties.items():
            monkeypatch.setattr(kernels.EmulatedDevice, name, value)

    return change


@pytest.fixture
def hidden_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Solve least-squares problems on the CPU as if nothing had been compiled."""
    monkeypatch.setenv("GPUSOLVE_OBJECT", "none")


@pytest.fixture(params=SCHEDULES)
def schedule(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each order in which the emulator can run the threads of a block."""
    with _emulator.schedule(request.param, seed=1):
        yield request.param


@pytest.fixture
def copied_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of ``cuda_src/`` for a test to change. Kernels are compiled from it."""
    copy = tmp_path / "cuda_src"
    shutil.copytree(kernels.source_directory(), copy)
    monkeypatch.setattr(kernels, "source_directory", lambda: copy)
    kernels._emulated_kernel.cache_clear()
    yield copy
    kernels._emulated_kernel.cache_clear()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261121)
