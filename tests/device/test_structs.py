"""Structs that kernels take by value: their bytes, and the emulator's checks."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cupy_stand_in
import numpy as np
import pytest
from backends import needs_emulator
from own_kernels import own_kernel
from together import together

from gpusolve import emulator

# Structs are how launchers pass arrays: a user sees none.
from gpusolve._device.kernels import struct_in
from gpusolve._device.structs import Struct, StructType, address_of
from gpusolve.emulator import KernelError

pytestmark = needs_emulator

TESTS = Path(__file__).parents[1]
KERNELS = TESTS / "faulty_kernels"
DOUBLE = np.dtype(np.float64)

COPY = StructType(
    "Copy", "const T* x; int source, target; T* y; double factor; int count;"
)
"""See ``faulty_kernels/by_value.cu``."""


@pytest.fixture(params=["forward", "reverse", "random"])
def order(request: pytest.FixtureRequest) -> Iterator[str]:
    with emulator.schedule(request.param, seed=3):
        yield request.param


def copy_of(x: Any, y: Any, dtype: Any = DOUBLE, **changes: Any) -> Struct:
    values = {"source": 0, "target": 0, "factor": 1.0, "count": 0} | changes
    return COPY(np.dtype(dtype), x=x, y=y, **values)


def kernel(name: str, dtype: Any = DOUBLE) -> Any:
    return own_kernel("faulty_kernels/by_value.cu", name, dtype)


def copy_element(copy: Struct) -> None:
    kernel("copy_element", copy.T)((1,), (1,), (copy,))


# ---- bytes ---------------------------------------------------------------------------

C_TYPES = {
    "const T*": ctypes.c_void_p,
    "T*": ctypes.c_void_p,
    "ListedSystem*": ctypes.c_void_p,
    "long long": ctypes.c_longlong,
    "int": ctypes.c_int,
    "double": ctypes.c_double,
}


def ctypes_struct(declared: list[tuple[str, str]]) -> type[ctypes.Structure]:
    fields = [(name, C_TYPES[type]) for type, name in declared]
    return type("Same", (ctypes.Structure,), {"_fields_": fields})


@together("count", [1, 2, 3, 40])
@together("seed", range(5))
def test_bytes_are_those_of_ctypes(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    declared = [
        (str(kind), f"f{k}") for k, kind in enumerate(rng.choice([*C_TYPES], count))
    ]
    text = " ".join(f"{type}  {name};" for type, name in declared)
    found = StructType("Any", f"// a comment; it is left out\n{text}")
    same = ctypes_struct(declared)
    assert found.bytes == ctypes.sizeof(same)
    for name in found.names:
        assert found.offset(name) == getattr(same, name).offset
    arrays = [np.zeros(3) for _ in declared]
    values: dict[str, Any] = {
        name: {"int": -k, "long long": 2**40 + k, "double": k + 0.5}.get(
            type, arrays[k]
        )
        for k, (type, name) in enumerate(declared)
    }
    read = same.from_buffer_copy(found(DOUBLE, **values).packed())
    for name, value in values.items():
        is_array = isinstance(value, np.ndarray)
        assert getattr(read, name) == (value.ctypes.data if is_array else value)


def test_values_may_be_numbers_of_numpy_bools_and_addresses() -> None:
    x, y = np.zeros(4), np.ones(3)
    found = copy_of(x[1:], y, source=np.int64(3), target=True, factor=np.float32(0.5))
    same = copy_of(address_of(x) + 8, y, source=3, target=1, factor=0.5)
    assert found.packed() == same.packed()
    other = found.replace(x=None, target=2)
    assert (other["x"], other["y"], other["source"], other["target"]) == (None, y, 3, 2)


SIZE = StructType("Size", "int m, n;")


@together(
    ("make", "message"),
    [
        (lambda: SIZE(m=1), r"must have the fields m, n, got .*n"),
        (lambda: SIZE(m=1, n=2, k=3), r"must have the fields m, n, got .*k"),
        (lambda: copy_of(None, None, source=0.5).packed(), "source .* be int, got 0.5"),
        (lambda: copy_of(None, None, target=2**31).packed(), "be int, got 2147483648"),
        (lambda: copy_of(None, None, factor=None).packed(), "be double, got None"),
    ],
)
def test_wrong_values_are_refused(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


# ---- the structs of this package -----------------------------------------------------

SAME = """
template <class A, class B> constexpr bool is_same = false;
template <class A> constexpr bool is_same<A, A> = true;
#define OFFSET(name) reinterpret_cast<long long>(&static_cast<Checked*>(nullptr)->name)
"""


@pytest.mark.parametrize(
    ("file", "header", "name", "number"),
    [
        ("nnls_gram.cu", "nnls_systems.cuh", "NnlsSystems", "float"),
        ("nnls_gram.cu", "nnls_systems.cuh", "NnlsSystems", "double"),
        ("nnls_gram.cu", "nnls_gram.cu", "GramMemory", ""),
        ("nnls_qr.cu", "certified_system.cuh", "QrMemory", ""),
        ("stacked_fits.cuh", "stacked_fits.cuh", "LearnerPlace", ""),
        ("stacked_fits.cuh", "stacked_fits.cuh", "StackedFits", "float"),
        ("stacked_fits.cuh", "stacked_fits.cuh", "StackedFits", "double"),
    ],
)
def test_members_are_those_of_the_source(
    file: str, header: str, name: str, number: str
) -> None:
    """Types at compile time, offsets at run time."""
    type, of = struct_in(header, name), f"<{number}>" if number else ""
    lines = [f'#include "{file}"', f"using Checked = {name}{of};", SAME]
    for field in type.fields:
        member = field.type.replace("T*", f"{number}*")
        same = f"is_same<decltype(Checked::{field.name}), {member}>"
        lines.append(f'static_assert({same}, "{field.name}");')
    offsets = ", ".join(f"OFFSET({name})" for name in type.names)
    lines.append(f"#define OFFSETS {offsets}")
    layout = own_kernel(
        "kernels/struct_layout.cu", "layout", definitions="\n".join(lines)
    )
    found = np.zeros(1 + len(type.names), np.int64)
    layout((1,), (1,), (found,))
    expected = [type.bytes, *(type.offset(name) for name in type.names)]
    np.testing.assert_array_equal(found, expected)


# ---- the emulator --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_in_a_struct(order: str, dtype: Any) -> None:
    x, y = np.arange(5, dtype=dtype), np.zeros(7, dtype)
    copy_element(copy_of(x, y, dtype, source=3, target=6, factor=0.5))
    np.testing.assert_array_equal(y, [0, 0, 0, 0, 0, 0, 1.5])


@pytest.mark.parametrize("index", [-100_000, 5, 600])
def test_accesses_outside_arrays_in_a_struct(order: str, index: int) -> None:
    x, y = np.zeros(5), np.zeros(5)
    with pytest.raises(KernelError, match=rf"writes element {index} of y .*0 to 4"):
        copy_element(copy_of(x, y, target=index))
    with pytest.raises(KernelError, match=r"reads address .* through a null pointer"):
        copy_element(copy_of(None, y))
    if index == 5 and order == "reverse":  # a read on the array's own page
        return
    with pytest.raises(KernelError, match=rf"reads element {index} of x .*0 to 4"):
        copy_element(copy_of(x, y, source=index))


def test_arguments_of_another_type_are_refused() -> None:
    x, y, single = np.zeros(3), np.zeros(3), np.zeros(3, np.float32)
    copy, shift, rank = copy_of(x, x), np.int32(0), kernel("copy_rank")
    short = StructType("Short", "const T* x; int source, target; T* y; double factor;")
    shorter = short(DOUBLE, x=None, y=None, source=0, target=0, factor=1.0)
    for call, message in (
        (lambda: copy_element(copy_of(single, y)), "double, got an array of float32"),
        (lambda: copy_element(copy_of(y, address_of(y))), "to double, got a Python"),
        (lambda: copy_element(shorter), "40 bytes, got <struct Short> of 32"),
        (lambda: rank((1,), (1,), (copy, copy, shift)), "more .* pointer to double"),
        (lambda: rank((1,), (1,), (copy, x, copy)), "shift .* be int, got <struct"),
        (lambda: rank((1,), (1,), (x, x, shift)), "copy .* be 40 bytes, got an array"),
    ):
        with pytest.raises(TypeError, match=message):
            call()


def test_a_race_through_a_struct_is_reported(order: str) -> None:
    rank, y = kernel("copy_rank"), np.zeros(3)
    more, shift = np.zeros(32), np.int32(2)
    with emulator.races():
        rank((1,), (32,), (copy_of(more, y, count=1), more, shift))
        with pytest.raises(KernelError, match=r"(?s)element 2 of y .*nothing orders"):
            rank((1,), (32,), (copy_of(more, y, count=2), more, shift))


# ---- CuPy ----------------------------------------------------------------------------


def test_cupy_passes_the_bytes() -> None:
    """CuPy passes an array of size 1 by value, from this address."""
    struct = copy_of(None, None, source=5)
    array = struct.packed_array()
    assert isinstance(array, np.ndarray)
    assert array.size == 1
    address = array.__array_interface__["data"][0]
    assert ctypes.string_at(address, COPY.bytes) == struct.packed()


def launch_on_stand_in(cupy: Any, argument: Any) -> None:
    code = (KERNELS / "by_value.cu").read_text()
    raw = cupy.RawKernel(code, "copy_element<double>", (f"-I{KERNELS}",))
    raw((1,), (1,), (argument,))


def test_structs_on_the_stand_in() -> None:
    with cupy_stand_in.installed(2) as cupy:
        x, y = cupy.asarray(np.arange(5.0)), cupy.zeros(5)
        launch_on_stand_in(cupy, copy_of(x, y, source=3, target=2).packed_array())
        np.testing.assert_array_equal(y.get(), [0, 0, 3, 0, 0])
        with cupy.cuda.Device(1):
            foreign = cupy.zeros(5)
        with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="IllegalAddress"):
            launch_on_stand_in(cupy, copy_of(foreign, y).packed_array())
