"""The stand-in has CuPy's signatures, and refuses what CuPy and GPUs refuse."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import cupy_stand_in
import numpy as np
import pytest
from cupy_stand_in import array, cublas, functions, linalg, ndarray
from together import together

METHODS = [
    name
    for name, value in vars(ndarray).items()
    if inspect.isfunction(value) and name[0] != "_"
]
NAMES = [
    *functions.__all__,
    *(f"linalg.{name}" for name in linalg.__all__),
    *(f"ndarray.{name}" for name in (*METHODS, *array.VIEWS, *array.REDUCTIONS)),
    *("RawKernel", "RawModule", "cuda.Device", "cuda.compiler.CompileException"),
    *("cuda.Event.record", "cuda.Event.synchronize", "cuda.get_elapsed_time"),
    *("cuda.Stream", "cuda.Stream.from_external", "cuda.is_available"),
    *("cuda.device.get_cublas_handle", "cuda.memory.OutOfMemoryError"),
    *(f"cuda.driver.{name}" for name in vars(cupy_stand_in.cuda.driver)),
    *(f"cuda.runtime.{name}" for name in vars(cupy_stand_in.cuda.runtime)),
]
ERRORS = (
    *("runtime.CUDARuntimeError", "driver.CUDADriverError", "cublas.CUBLASError"),
    *("memory.OutOfMemoryError", "compiler.CompileException"),
)
PROPERTIES = {
    "ndarray": [
        *(*array.ATTRIBUTES, "T", "data", "device", "flags", "base", "real"),
        "__cuda_array_interface__",
    ],
    "RawKernel": ["kernel", "max_dynamic_shared_size_bytes", "shared_size_bytes"],
    "cuda.Device": ["attributes", "compute_capability", "id"],
    "cuda.MemoryPointer": ["device", "device_id", "mem", "ptr"],
}
SPARSE = [name for name in cupy_stand_in.sparse.__all__ if "_" in name]

Parameters = list[tuple[str, str]]
"""Names and defaults as text; variadic parameters have asterisks."""


def parameters(function: Any) -> Parameters:
    """The parameters from `inspect`, or from the docstring of a Cython function."""
    try:
        listed = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return documented_parameters(function.__doc__)
    return [
        (
            str(one.replace(annotation=one.empty, default=one.empty)),
            "" if one.default is one.empty else repr(one.default),
        )
        for one in listed
        if one.name != "self" and one.kind != one.POSITIONAL_ONLY
    ]


def documented_parameters(text: str) -> Parameters:
    """Parse ``name(self, int axis=-1, *, out=None) -> ndarray``, without C types.

    What is in square brackets, the outputs of a ufunc, is left out.
    """
    listed = re.match(r"[\w.]+\((.*?)\)(?: ->|\n|$)", re.sub(r"\[.*?\]", "", text))
    assert listed, f"no signature in {text[:80]!r}"
    parts = (part.strip().partition("=") for part in listed[1].split(","))
    pairs = [(part.split()[-1], default) for part, _, default in parts if part]
    quoted = {"float": "<class 'float'>"}
    return [
        (name.replace("\\", ""), quoted.get(default, default).replace('"', "'"))
        for name, default in pairs
        if name not in ("*", "/", "self")
    ]


@pytest.fixture(scope="module")
def cupy() -> Any:
    return pytest.importorskip("cupy", reason="compares the signatures with CuPy's")


@together("path", NAMES)
def test_parameters_are_cupys(cupy: Any, path: str) -> None:
    """Of a function of NumPy, options that CuPy lacks are refused."""
    kind, _, method = path.partition(".")
    numpys = kind == "ndarray" and method in array.VIEWS | array.REDUCTIONS
    ours = getattr(np, method) if numpys else attrgetter(path)(cupy_stand_in)
    real = parameters(attrgetter(path)(cupy))
    if numpys or hasattr(ours, "__wrapped__"):
        options = {name for name, default in parameters(ours) if default}
        assert options - {*array.REFUSED, "axis"} <= {name for name, _ in real}
    elif not isinstance(ours, type) or not issubclass(ours, Exception):
        assert {*parameters(ours)} <= {*real}


@together("kind", PROPERTIES)
def test_properties_exist_in_cupy(cupy: Any, kind: str) -> None:
    for name in PROPERTIES[kind]:
        assert hasattr(attrgetter(kind)(cupy), name)


def test_operators_exist_in_cupy(cupy: Any) -> None:
    """But for ``@=``, which Python takes apart for CuPy."""
    python = {*dir(type("Empty", (), {})), "__slots__", "__annotations__"}
    ours = {name for name in dir(ndarray) if name.startswith("__")}
    assert ours - python - {"__getattr__", "__imatmul__"} <= {*dir(cupy.ndarray)}


def test_a_batched_product_has_cupys_parameters(cupy: Any) -> None:
    found = parameters(cupy.cuda.cublas.dgemmStridedBatched)
    assert [name for name, _ in found] == cublas.GEMM


def test_errors_have_cupys_names_and_bases(cupy: Any) -> None:
    for path in map(attrgetter, ERRORS):
        ours, real = path(cupy_stand_in.cuda), path(cupy.cuda)
        assert ours.__name__ == real.__name__
        assert ours.__bases__ == real.__bases__


@together("name", SPARSE)
def test_sparse_arrays_have_cupys_methods(cupy: Any, name: str) -> None:
    real = pytest.importorskip("cupyx.scipy.sparse")
    kind, ours = getattr(real, name), getattr(cupy_stand_in.sparse, name)
    assert ours.format == kind.format
    methods = ["get", "tocoo", "tocsr", "tocsc", "toarray"]
    if ours.format in ("csr", "csc"):
        methods += ["astype", "copy", "mean", "sum_duplicates", "transpose"]
    for method in methods:
        found = parameters(getattr(ours, method))
        assert {*found} <= {*parameters(getattr(kind, method))}
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


host = np.ones(3)

MIXED = [
    *(np.asarray, np.median, lambda x: x + host, lambda x: host + x),
    lambda x: np.concatenate([x, host]),
    lambda x: np.maximum(x, host),
    lambda x: x + [1, 2, 3],
    lambda x: x[np.array([0])],
    lambda x: x.__setitem__(slice(None), host),
    lambda x: x.__setitem__(slice(None), (1, 2, 3)),
    lambda x: np.ones(3).__setitem__(slice(None), x),
]
"""Operations on an array of the device and NumPy's arrays or sequences."""

ELSEWHERE = [
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
    lambda here, there: there.__iadd__(here),
    lambda here, there: np.minimum(there, 0.5),
]
"""Operations on an array of a device that is not current."""


@together("operation", MIXED)
def test_mixing_with_numpy_is_refused(arrays: tuple[Any, Any], operation: Any) -> None:
    with pytest.raises((TypeError, IndexError)):
        operation(arrays[0])


@together("operation", ELSEWHERE)
def test_operation_on_another_device_is_refused(
    arrays: tuple[Any, Any], operation: Any
) -> None:
    with pytest.raises(ValueError, match="resides"):
        operation(*arrays)


def test_what_is_allowed(arrays: tuple[Any, Any]) -> None:
    """NumPy's functions of an array, and copies of an array of another device."""
    here, there = arrays
    for found in (np.clip(here, 0, 0.5), np.minimum(here, 0.5), 0.5 * here):
        assert type(found) is type(here)
        assert found.get().tolist() == [0.5, 0.5, 0.5]
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
