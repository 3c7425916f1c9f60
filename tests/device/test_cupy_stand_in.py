"""The stand-in has CuPy's signatures, and refuses what CuPy and GPUs refuse."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import cupy_stand_in
import numpy as np
import pytest
from cupy_stand_in.array import REFUSED
from together import together

FUNCTIONS = {
    **vars(cupy_stand_in.functions),
    **{f"linalg.{name}": found for name, found in vars(cupy_stand_in.linalg).items()},
    **{f"ndarray.{name}": found for name, found in vars(cupy_stand_in.ndarray).items()},
}
NAMES = [
    *cupy_stand_in.functions.__all__,
    *(f"linalg.{name}" for name in cupy_stand_in.linalg.__all__),
    *(
        f"ndarray.{name}"
        for name, value in vars(cupy_stand_in.ndarray).items()
        if inspect.isfunction(value) and not name.startswith("_")
    ),
]
CUDA = [
    "Device",
    "compiler.CompileException",
    "cublas.dgemmStridedBatched",
    "device.get_cublas_handle",
    "driver.occupancyMaxActiveBlocksPerMultiprocessor",
    "Event.record",
    "Event.synchronize",
    "get_elapsed_time",
    "is_available",
    "memory.OutOfMemoryError",
    "Stream.from_external",
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
"""Names and defaults as text; variadic parameters have asterisks."""


def member(module: Any, path: str) -> Any:
    """The object at a dotted path."""
    for name in path.split("."):
        module = getattr(module, name)
    return module


def parameters(function: Any) -> Parameters:
    """The parameters from `inspect`, or from the docstring of a Cython function."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return documented_parameters(function.__doc__)
    listed = [
        (
            "*" * (parameter.kind is parameter.VAR_POSITIONAL)
            + "**" * (parameter.kind is parameter.VAR_KEYWORD)
            + parameter.name,
            "" if parameter.default is parameter.empty else repr(parameter.default),
        )
        for parameter in signature.parameters.values()
    ]
    return drop_self(listed)


def documented_parameters(text: str) -> Parameters:
    """Parse ``name(self, int axis=-1, *, out=None) -> ndarray``, without C types.

    What is in square brackets, the outputs of a ufunc, is left out.
    """
    text = re.sub(r"\[.*?\]", "", text)
    listed = re.match(r"[\w.]+\((.*?)\)(?: ->|\n|$)", text)
    assert listed, f"no signature in {text[:80]!r}"
    pairs = (
        part.strip().partition("=") for part in listed[1].split(",") if part.strip()
    )
    named = [
        (name.split()[-1].replace("\\", ""), default) for name, _, default in pairs
    ]
    return drop_self([pair for pair in named if pair[0] not in ("*", "/")])


def drop_self(listed: Parameters) -> Parameters:
    names = {"float": "<class 'float'>"}
    return [
        (name, names.get(default, default).replace('"', "'"))
        for name, default in listed
        if name != "self"
    ]


@pytest.fixture(scope="module")
def cupy() -> Any:
    return pytest.importorskip("cupy", reason="compares the signatures with CuPy's")


@together("path", NAMES)
def test_functions_have_no_other_parameters_than_cupys(cupy: Any, path: str) -> None:
    """Of a function of NumPy, options that CuPy lacks are refused."""
    ours, real = FUNCTIONS[path], parameters(member(cupy, path))
    options = {name for name, default in parameters(ours) if default}
    if hasattr(ours, "__wrapped__"):
        options -= {*REFUSED, "axis"}
    assert options <= {name for name, _ in real}


@together("path", ["RawModule", "RawKernel", *(f"cuda.{name}" for name in CUDA)])
def test_functions_of_cuda_have_cupys_signatures(cupy: Any, path: str) -> None:
    assert parameters(member(cupy_stand_in, path)) == parameters(member(cupy, path))


@together("kind", PROPERTIES)
def test_properties_exist_in_cupy(cupy: Any, kind: str) -> None:
    for name in PROPERTIES[kind]:
        assert hasattr(member(cupy, kind), name)


def test_operators_exist_in_cupy(cupy: Any) -> None:
    ours = {name for name in vars(cupy_stand_in.ndarray) if name.startswith("__")}
    assert ours - {"__weakref__", "__dict__", "__static_attributes__"} <= {
        *dir(cupy.ndarray),
        "__annotations__",
        "__firstlineno__",
    }


def test_errors_have_cupys_names_and_bases(cupy: Any) -> None:
    errors = (
        *("runtime.CUDARuntimeError", "driver.CUDADriverError"),
        "cublas.CUBLASError",
    )
    for path in (*errors, "memory.OutOfMemoryError", "compiler.CompileException"):
        ours, real = member(cupy_stand_in.cuda, path), member(cupy.cuda, path)
        assert ours.__name__ == real.__name__
        assert ours.__bases__ == real.__bases__


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_arrays_have_cupys_methods(cupy: Any, name: str) -> None:
    real = pytest.importorskip("cupyx.scipy.sparse")
    kind = getattr(real, name)
    ours = getattr(cupy_stand_in.sparse, name)
    assert ours.format == kind.format
    methods = ["get", "tocoo", "tocsr", "tocsc", "toarray"]
    if ours.format in ("csr", "csc"):
        methods += ["astype", "copy", "mean", "sum_duplicates", "transpose"]
    for method in methods:
        assert parameters(getattr(ours, method)) == parameters(getattr(kind, method))
    for inherited in (real.sparray, real.spmatrix):
        same = getattr(cupy_stand_in.sparse, inherited.__name__)
        assert issubclass(ours, same) == issubclass(kind, inherited)


# ---- errors --------------------------------------------------------------------------


@pytest.fixture
def arrays() -> Iterator[tuple[Any, Any]]:
    """An array on the current device, and an array on another device."""
    with cupy_stand_in.installed() as cupy:
        here = cupy.ones(3)
        with cupy.cuda.Device(1):
            there = cupy.ones(3)
        yield here, there


@together(
    "operation",
    [
        np.asarray,
        np.median,
        lambda x: np.concatenate([x, np.ones(3)]),
        lambda x: np.maximum(x, np.ones(3)),
        lambda x: np.ones(3) + x,
        lambda x: x + np.ones(3),
        lambda x: x[np.array([0])],
        lambda x: x.__setitem__(slice(None), np.ones(3)),
        lambda x: x.__setitem__(slice(None), (1, 2, 3)),
        lambda x: np.ones(3).__setitem__(slice(None), x),
    ],
)
def test_mixing_with_numpy_is_refused(arrays: tuple[Any, Any], operation: Any) -> None:
    with pytest.raises((TypeError, IndexError)):
        operation(arrays[0])


@together(
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
def test_operation_on_another_device_is_refused(
    arrays: tuple[Any, Any], operation: Any
) -> None:
    with pytest.raises(ValueError, match="resides"):
        operation(*arrays)


def test_functions_of_numpy_are_those_of_the_device(arrays: tuple[Any, Any]) -> None:
    here, there = arrays
    for found in (np.clip(here, 0, 0.5), np.minimum(here, 0.5), 0.5 * here):
        assert type(found) is type(here)
        assert found.get().tolist() == [0.5, 0.5, 0.5]
    with pytest.raises(ValueError, match="resides"):
        np.minimum(there, 0.5)


def test_operations_that_another_device_allows(arrays: tuple[Any, Any]) -> None:
    here, there = arrays
    assert there.get().tolist() == there[1:].tolist() + [1] == [1, 1, 1]
    assert float(there[0]) == 1
    assert there.astype(float, copy=False) is there
    assert there.copy().device == here.device


def test_allocation_beyond_the_memory_limit_is_refused() -> None:
    with cupy_stand_in.installed(memory=1000) as cupy:
        first = cupy.empty(100)
        with pytest.raises(MemoryError, match="allocating 400 bytes"):
            cupy.empty(50)
        del first
        assert cupy.devices.states[0].used == 0
        assert cupy.empty(125).nbytes == cupy.devices.states[0].peak == 1000
