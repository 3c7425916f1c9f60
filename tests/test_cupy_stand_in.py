"""The stand-in for CuPy: its signatures are CuPy's, and it refuses what a GPU does."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import cupy_stand_in
import numpy as np
import pytest

FUNCTIONS = cupy_stand_in.functions.__all__
METHODS = [
    name
    for name, value in vars(cupy_stand_in.ndarray).items()
    if inspect.isfunction(value) and not name.startswith("_")
]
CUDA = [
    "Device",
    "compiler.CompileException",
    "driver.occupancyMaxActiveBlocksPerMultiprocessor",
    "is_available",
    "memory.OutOfMemoryError",
    "runtime.driverGetVersion",
    "runtime.getDevice",
    "runtime.getDeviceCount",
    "runtime.getDeviceProperties",
    "runtime.pointerGetAttributes",
    "runtime.runtimeGetVersion",
]
PROPERTIES = {
    "ndarray": [
        *("T", "data", "device", "dtype", "flags", "itemsize", "nbytes", "ndim"),
        *("base", "real", "shape", "size", "strides", "__cuda_array_interface__"),
    ],
    "RawKernel": [
        *("kernel", "max_dynamic_shared_size_bytes", "shared_size_bytes"),
    ],
    "cuda.Device": ["attributes", "compute_capability", "id"],
    "cuda.MemoryPointer": ["device", "device_id", "mem", "ptr"],
}
SPARSE = [
    *("coo_array", "coo_matrix", "csc_array", "csc_matrix"),
    *("csr_array", "csr_matrix", "dia_array", "dia_matrix"),
]

Parameters = list[tuple[str, str]]
"""Names and defaults, as text; an asterisk between those by place and by name."""


def found(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def parameters(function: Any) -> Parameters:
    """What `inspect` says; or what Cython wrote into the docstring."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return documented(function.__doc__)
    listed = [
        (
            "*" * (one.kind is one.VAR_POSITIONAL)
            + "**" * (one.kind is one.VAR_KEYWORD)
            + one.name,
            "" if one.default is one.empty else repr(one.default),
        )
        for one in signature.parameters.values()
    ]
    return without_self(listed)


def documented(text: str) -> Parameters:
    """Of ``name(self, int axis=-1, *, out=None) -> ndarray``, without C's types."""
    listed = re.match(r"[\w.]+\((.*?)\)(?: ->|\n|$)", text)
    assert listed, f"no signature in {text[:80]!r}"
    pairs = (one.strip().partition("=") for one in listed[1].split(",") if one.strip())
    named = [
        (name.split()[-1].replace("\\", ""), default) for name, _, default in pairs
    ]
    return without_self([pair for pair in named if pair[0] not in ("*", "/")])


def without_self(listed: Parameters) -> Parameters:
    names = {"float": "<class 'float'>"}
    return [
        (name, names.get(default, default).replace('"', "'"))
        for name, default in listed
        if name != "self"
    ]


@pytest.fixture(scope="module")
def cupy() -> Any:
    return pytest.importorskip("cupy", reason="the signatures are compared with CuPy's")


@pytest.mark.parametrize("path", [*FUNCTIONS, *(f"cuda.{name}" for name in CUDA)])
def test_functions_have_cupys_signatures(cupy: Any, path: str) -> None:
    assert parameters(found(cupy_stand_in, path)) == parameters(found(cupy, path))


@pytest.mark.parametrize("name", METHODS)
def test_methods_have_cupys_signatures(cupy: Any, name: str) -> None:
    ours, real = (getattr(one.ndarray, name) for one in (cupy_stand_in, cupy))
    assert parameters(ours) == parameters(real)


@pytest.mark.parametrize("name", ["RawModule", "RawKernel"])
def test_kernels_have_cupys_signatures(cupy: Any, name: str) -> None:
    ours, real = getattr(cupy_stand_in, name), getattr(cupy, name)
    assert parameters(ours) == parameters(real)


@pytest.mark.parametrize("kind", PROPERTIES)
def test_cupy_has_these_properties(cupy: Any, kind: str) -> None:
    for name in PROPERTIES[kind]:
        assert hasattr(found(cupy, kind), name)


def test_cupy_has_these_operators(cupy: Any) -> None:
    ours = {name for name in vars(cupy_stand_in.ndarray) if name.startswith("__")}
    assert ours - {"__weakref__", "__dict__", "__static_attributes__"} <= {
        *dir(cupy.ndarray),
        "__annotations__",
        "__firstlineno__",
    }


def test_errors_are_of_cupys_kinds(cupy: Any) -> None:
    errors = ("runtime.CUDARuntimeError", "driver.CUDADriverError")
    for path in (*errors, "memory.OutOfMemoryError", "compiler.CompileException"):
        ours, real = found(cupy_stand_in.cuda, path), found(cupy.cuda, path)
        assert ours.__name__ == real.__name__
        assert ours.__bases__ == real.__bases__


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_arrays_are_cupys(cupy: Any, name: str) -> None:
    real = pytest.importorskip("cupyx.scipy.sparse")
    kind = getattr(real, name)
    ours = getattr(cupy_stand_in.sparse, name)
    assert ours.format == kind.format
    for method in ("get", "tocoo", "tocsr", "tocsc", "toarray"):
        assert parameters(getattr(ours, method)) == parameters(getattr(kind, method))
    for inherited in (real.sparray, real.spmatrix):
        same = getattr(cupy_stand_in.sparse, inherited.__name__)
        assert issubclass(ours, same) == issubclass(kind, inherited)


# ---- what it refuses -----------------------------------------------------------------


@pytest.fixture
def two() -> Iterator[tuple[Any, Any]]:
    """An array on the current device, and one on another."""
    with cupy_stand_in.installed() as cupy:
        here = cupy.ones(3)
        with cupy.cuda.Device(1):
            there = cupy.ones(3)
        yield here, there


@pytest.mark.parametrize(
    "operation",
    [
        np.sort,
        np.asarray,
        np.negative,
        lambda x: np.concatenate([x, x]),
        lambda x: np.ones(3) + x,
        lambda x: x + np.ones(3),
        lambda x: x[np.array([0])],
        lambda x: x.__setitem__(slice(None), np.ones(3)),
        lambda x: x.__setitem__(slice(None), (1, 2, 3)),
        lambda x: np.ones(3).__setitem__(slice(None), x),
    ],
)
def test_numpy_and_the_host_are_refused(two: tuple[Any, Any], operation: Any) -> None:
    with pytest.raises((TypeError, IndexError)):
        operation(two[0])


@pytest.mark.parametrize(
    "operation",
    [
        lambda here, there: here + there,
        lambda here, there: there + there,
        lambda here, there: there.sum(),
        lambda here, there: there.astype(np.float32),
        lambda here, there: there != 0,
        lambda here, there: there[here > 0],
        lambda here, there: there.__setitem__(0, 1.0),
        lambda here, there: here.__setitem__(0, there[0]),
        lambda here, there: there[::2].reshape(2, 1) + 0,
        lambda here, there: here.__iadd__(there),
    ],
)
def test_another_device_is_refused(two: tuple[Any, Any], operation: Any) -> None:
    with pytest.raises(ValueError, match="resides"):
        operation(*two)


def test_what_another_device_may_be_asked(two: tuple[Any, Any]) -> None:
    here, there = two
    assert there.get().tolist() == there[1:].tolist() + [1] == [1, 1, 1]
    assert float(there[0]) == 1
    assert there.astype(float, copy=False) is there
    assert there.copy().device == here.device


def test_memory_runs_out() -> None:
    with cupy_stand_in.installed(memory=1000) as cupy:
        first = cupy.empty(100)
        with pytest.raises(MemoryError, match="allocating 400 bytes"):
            cupy.empty(50)
        del first
        assert cupy.devices.facts[0].used == 0
        assert cupy.empty(125).nbytes == cupy.devices.facts[0].peak == 1000
