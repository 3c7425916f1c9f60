"""Inclusive and exclusive scans, in every variant."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
from backends import both_kinds, numpy_only, without_gpu
from device_views import STRIDED_VIEWS
from hypothesis import given
from hypothesis import strategies as st
from monoids import (
    EVERY_DTYPE,
    FEW,
    LENGTHS,
    REPRESENTATIVE,
    Case,
    affine,
    first_nonzero,
    frozen,
    matrix_product,
)
from together import together

import gpusolve
from gpusolve import emulator

VARIANTS = ("auto", "look_back", "hierarchical", "sweep", "warp")

same = np.testing.assert_array_equal
every_variant = together("variant", VARIANTS)


@functools.cache
def scans(case: Case) -> list[tuple[Any, bool, Any]]:
    """Arrays of all lengths, and their inclusive and exclusive scans."""
    rng = np.random.default_rng(1)
    arrays = [case.sample(rng, n) for n in LENGTHS]
    return [
        (frozen(x), exclusive, frozen(case.prefixes(x, exclusive)))
        for x in arrays
        for exclusive in (False, True)
    ]


def check_scans(backend: Any, case: Case, **options: Any) -> None:
    """Compare inclusive and exclusive scans of every length with brute force."""
    for x, exclusive, expected in scans(case):
        found = backend.call(gpusolve.scan, x, case.op, exclusive=exclusive, **options)
        same(found, expected, strict=True, err_msg=f"{len(x)} elements, {exclusive=}")


# ---- any monoid ----


@pytest.mark.paper(
    "Oancea, Scan", "The inclusive and the exclusive scan agree with the definition"
)
@pytest.mark.parametrize("case", REPRESENTATIVE, ids=str)
def test_scan_agrees_with_brute_force(backend: Any, case: Case) -> None:
    check_scans(backend, case)


@numpy_only
@together("case", EVERY_DTYPE, ids=str)
def test_every_dtype(backend: Any, case: Case) -> None:
    check_scans(backend, case)


@pytest.mark.parametrize("variant", VARIANTS[1:])
@pytest.mark.parametrize("case", FEW, ids=str)
def test_variants_agree_with_brute_force(
    backend: Any, case: Case, variant: str
) -> None:
    check_scans(backend, case, variant=variant)


@every_variant
@both_kinds
def test_any_schedule_of_threads_and_blocks(
    exclusive: bool,
    variant: str,
    schedule: str,
    rng: np.random.Generator,
    monkeypatch: Any,
) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    x = rng.integers(-(2**31), 2**31, (3, 5001), np.int32)
    found = gpusolve.scan(x, exclusive=exclusive, variant=variant)
    expected = x.cumsum(1, np.int32)
    same(found, expected - x if exclusive else expected, strict=True)


# ---- the slides' algorithms, counted ----


@pytest.mark.paper(
    "Oancea, Up-sweep and down-sweep",
    "1,023 operations in 10 steps up and 1,023 in 10 down for 1,024 elements",
)
def test_two_sweeps_have_twice_the_work_and_depth_of_a_tree(monkeypatch: Any) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    x = np.ones(1_024, np.float32)
    with emulator.profile() as report:
        found = gpusolve.scan(x, variant="sweep", exclusive=True)
    same(found, np.arange(1_024))
    # An operation reads two elements.
    costs = {
        kernel.name.partition("<")[0]: (kernel.global_loads / 2, kernel.launches)
        for kernel in report.kernels
    }
    assert costs["up_sweep"] == costs["down_sweep"] == (1_023, 10)


@pytest.mark.paper(
    "Oancea, Exercise 2",
    "Each wave of 32 is scanned by itself, in 5 steps, as listed",
)
def test_waves_are_scanned_as_listed(
    rng: np.random.Generator, monkeypatch: Any
) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    A = rng.integers(-9, 10, (3, 32)).astype(np.float32)
    B = A.copy()
    for d in range(5):
        h = 2**d
        B[:, h:] = B[:, :-h] + B[:, h:]
    with emulator.profile() as report:
        found = gpusolve.scan(A, variant="warp")
    same(found, B, strict=True)
    (kernel,) = report.kernels
    assert kernel.launches == 1
    assert kernel.shuffles == 3 * 5


@pytest.mark.paper(
    "Oancea, Scan in OpenCL",
    "The hierarchical scan has 3 launches; it reads and writes each of 30,720 elements "
    "2 times, elements of the first of 8 chunks 1 time",
)
@pytest.mark.paper(
    "Oancea, Scan in OpenCL", "Look-back has 1 launch; it reads and writes them 1 time"
)
@pytest.mark.parametrize(
    ("variant", "launches", "times"),
    [("hierarchical", 3, 2 - 1 / 8), ("look_back", 1, 1)],
)
def test_elements_are_read_and_written_as_often_as_stated(
    variant: str, launches: int, times: float, monkeypatch: Any
) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    x = np.ones(30_720, np.float32)
    with emulator.profile() as report:
        found = gpusolve.scan(x, variant=variant)
    same(found, np.arange(1, 30_721))
    assert report.host.launches == launches
    moved = sum(
        kernel.arrays[name].bytes
        for kernel in report.kernels
        for name in ("x", "y")
        if name in kernel.arrays
    )
    assert moved == 2 * times * x.nbytes


# ---- shapes ----


@every_variant
@together("shape", [(0,), (1,), (0, 5), (5, 0), (700, 3), (3, 700), (2, 3, 70)])
def test_shapes_and_axes(
    backend: Any, shape: tuple[int, ...], variant: str, rng: np.random.Generator
) -> None:
    x = rng.integers(-(2**31), 2**31, shape, np.int32)
    for axis in range(-len(shape), len(shape)):
        expected = x.cumsum(axis, np.int32)
        found = backend.call(gpusolve.scan, x, axis=axis, variant=variant)
        same(found, expected, strict=True)
        found = backend.call(
            gpusolve.scan, x, axis=axis, variant=variant, exclusive=True
        )
        same(found, expected - x, strict=True)


@together("axis", [0, 1, -1, -2])
def test_axes_of_matrices(backend: Any, axis: int, rng: np.random.Generator) -> None:
    x = rng.integers(-9, 9, (5, 6, 2, 2))
    found = backend.call(gpusolve.scan, x, matrix_product, axis=axis)
    rows = np.moveaxis(x, axis % 2, 0)
    expected = [rows[0]]
    for row in rows[1:]:
        expected.append(np.einsum("...ij,...jk->...ik", expected[-1], row))
    same(found, np.moveaxis(np.stack(expected), 0, axis % 2), strict=True)


@together("view", STRIDED_VIEWS)
@together("axis", [0, -1])
def test_strided_views(
    backend: Any, view: Any, axis: int, rng: np.random.Generator
) -> None:
    x = rng.integers(-99, 99, (13, 40), np.int16)
    found = backend.call(lambda x: gpusolve.scan(view(x), axis=axis), x)
    same(found, view(x).cumsum(axis, np.int16), strict=True)


def test_view_with_a_noncommutative_operator(
    backend: Any, rng: np.random.Generator
) -> None:
    x = rng.integers(-9, 10, (2, 300)).astype(np.int32)
    found = backend.call(lambda x: gpusolve.scan(x.T[::-1], affine), x)
    same(found, Case("affine", x.dtype).prefixes(x.T[::-1]), strict=True)


def test_input_is_not_changed(backend: Any) -> None:
    x = np.arange(2000)
    y = backend.array(x)
    for exclusive in (False, True):
        gpusolve.scan(y, exclusive=exclusive)
    same(backend.call(lambda: y), np.arange(2000))


def test_array_likes_are_accepted(backend: Any) -> None:
    same(gpusolve.scan([3, 1, 4]), [3, 4, 8])


# ---- out ----


@every_variant
@both_kinds
def test_out_is_returned_and_may_alias_x(
    backend: Any, exclusive: bool, variant: str, rng: np.random.Generator
) -> None:
    x = rng.integers(-9, 9, (3, 2500), np.int32)
    expected = x.cumsum(1, np.int32) - (x if exclusive else 0)

    def scan_into(x: Any, out: Any) -> Any:
        found = gpusolve.scan(x, exclusive=exclusive, variant=variant, out=out)
        return found is out, out

    returned, out = backend.call(scan_into, x, np.zeros_like(x))
    assert returned
    same(out, expected, strict=True)
    returned, out = backend.call(lambda x: scan_into(x, x), x.copy())
    assert returned
    same(out, expected, strict=True)


@together("view", [lambda x: x.T, lambda x: x[:, ::2], lambda x: x[::-1, 5:25]])
def test_out_may_be_a_strided_view(
    backend: Any, view: Any, rng: np.random.Generator
) -> None:
    x = rng.integers(-9, 9, (30, 30), np.int32)

    def scan_views(x: Any, out: Any) -> Any:
        found = gpusolve.scan(view(x), out=view(out))
        return found, out

    found, out = backend.call(scan_views, x, np.full_like(x, 99))
    expected = np.full_like(x, 99)
    view(expected)[...] = view(x).cumsum(-1, np.int32)
    same(found, view(expected), strict=True)
    same(out, expected, strict=True)


def test_out_may_alias_x_along_the_first_axis(
    backend: Any, rng: np.random.Generator
) -> None:
    x = rng.integers(-9, 9, (30, 40), np.int32)
    found = backend.call(lambda x: gpusolve.scan(x, axis=0, out=x), x.copy())
    same(found, x.cumsum(0, np.int32), strict=True)


@together("shift", [-1, 1, 2000])
def test_out_may_overlap_x(backend: Any, shift: int) -> None:
    memory = backend.array(np.ones(20000, np.int64))
    x = memory[max(0, -shift) : 20000 - max(0, shift)]
    out = memory[max(0, shift) : 20000 + min(0, shift)]
    y = gpusolve.scan(x, out=out)
    assert y is out
    same(backend.numpy(out), np.arange(1, len(out) + 1))


def test_elements_of_16_bytes_at_any_address(backend: Any) -> None:
    """An element is one store where its address allows it."""
    case = Case("affine", np.dtype(np.int64))
    x = case.sample(np.random.default_rng(2), 2000)
    memory = backend.array(np.zeros(2 * 2000 + 1, np.int64))
    for first in (0, 1):
        out = memory[first : first + 4000].reshape(2000, 2)
        gpusolve.scan(backend.array(x), affine, out=out)
        same(backend.numpy(out), case.prefixes(x))


# ---- values ----


@together("dtype", ["int8", "uint8", "int16", "uint64"])
def test_overflow_wraps(backend: Any, dtype: str) -> None:
    largest = int(np.iinfo(dtype).max)
    x = np.full(100, largest, dtype)
    case = Case("mul", x.dtype)
    same(backend.call(gpusolve.scan, x, "mul"), case.prefixes(x), strict=True)
    case = Case("add", x.dtype)
    same(backend.call(gpusolve.scan, x), case.prefixes(x), strict=True)


@every_variant
@together("op", ["min", "max"])
def test_nan_propagates_to_all_later_elements(
    backend: Any, op: str, variant: str
) -> None:
    for position in (0, 1, 31, 40, 2999):
        x = np.linspace(-1, 1, 3000, dtype=np.float32)
        x[position] = np.nan
        found = backend.call(gpusolve.scan, x, op, variant=variant)
        expected = np.minimum.accumulate(x) if op == "min" else np.maximum.accumulate(x)
        same(found, expected, strict=True)
        assert np.isnan(found).sum() == 3000 - position


@every_variant
def test_infinity_does_not_affect_earlier_elements(backend: Any, variant: str) -> None:
    x = np.ones(3000)
    x[2000], x[2500] = np.inf, -np.inf
    found = backend.call(gpusolve.scan, x, variant=variant)
    same(found[:2000], np.arange(1, 2001))
    assert (found[2000:2500] == np.inf).all()
    assert np.isnan(found[2500:]).all()


@every_variant
@together("dtype", [np.float32, np.float64])
def test_rounding_errors_of_sums_are_bounded(
    backend: Any, dtype: Any, variant: str, rng: np.random.Generator
) -> None:
    x = rng.standard_normal(5001).astype(dtype)
    found = backend.call(gpusolve.scan, x, variant=variant)
    values, half = x.tolist(), float(np.finfo(dtype).eps) / 2
    for k in (1, 31, 32, 100, 1024, 5001):
        magnitude = math.fsum(map(abs, values[:k]))
        assert abs(float(found[k - 1]) - math.fsum(values[:k])) <= k * half * magnitude


# ---- properties ----

int8_arrays = st.lists(st.integers(-128, 127), max_size=80).map(
    lambda values: np.array(values, np.int8)
)


@given(int8_arrays)
def test_last_element_is_the_reduction(backend: Any, x: np.ndarray) -> None:
    scanned = backend.call(gpusolve.scan, x, first_nonzero)
    reduced = backend.call(gpusolve.reduce, x, first_nonzero)
    assert reduced == (scanned[-1] if len(x) else 0)


@pytest.mark.paper(
    "Oancea, Scan",
    "The exclusive scan begins with the neutral element, then the inclusive follows",
)
@given(int8_arrays)
def test_exclusive_scan_is_the_inclusive_scan_shifted(
    backend: Any, x: np.ndarray
) -> None:
    inclusive = backend.call(gpusolve.scan, x, first_nonzero)
    exclusive = backend.call(gpusolve.scan, x, first_nonzero, exclusive=True)
    same(exclusive, np.concatenate([[0], inclusive])[: len(x)])


@given(int8_arrays, int8_arrays)
def test_scan_of_a_concatenation(backend: Any, x: np.ndarray, y: np.ndarray) -> None:
    whole = backend.call(gpusolve.scan, np.concatenate([x, y]))
    first, second = (backend.call(gpusolve.scan, part) for part in (x, y))
    with np.errstate(over="ignore"):
        second = second + x.sum(dtype=np.int8)
    same(whole, np.concatenate([first, second]), strict=True)


# ---- invalid arguments ----

x = np.ones((4, 3))
read_only = np.zeros((4, 3))
read_only.flags.writeable = False


@without_gpu
@together(
    ("arguments", "options", "error", "message"),
    [
        ((x, "sum"), {}, ValueError, "op must .*got 'sum'"),
        ((x, np.add), {}, TypeError, "op must .*got <ufunc 'add'>"),
        ((x,), {"variant": "atomic"}, ValueError, "variant must .*got 'atomic'"),
        ((x * 1j, "min"), {}, TypeError, "complex128"),
        ((x.astype(object),), {}, TypeError, "object"),
        ((x,), {"axis": 2}, ValueError, "axis must .*got 2"),
        ((x,), {"axis": -3}, ValueError, "axis must .*got -3"),
        ((x,), {"axis": None}, TypeError, "axis must .*got None"),
        ((x,), {"axis": (0, 1)}, TypeError, r"axis must .*got \(0, 1\)"),
        ((3.0,), {}, ValueError, "axis must .*got -1"),
        ((x, "mssp"), {}, ValueError, r"x must .*got .*\(4, 3\)"),
        ((np.ones((5, 2)), affine), {"axis": 1}, ValueError, "axis must .*got 1"),
        ((x,), {"out": np.ones((3, 4))}, ValueError, r"out must .*got .*\(3, 4\)"),
        ((x,), {"out": np.ones((4, 3), int)}, (TypeError, ValueError), "out.*int64"),
        ((x,), {"out": [[0.0] * 3] * 4}, TypeError, "out"),
        ((x,), {"out": read_only}, ValueError, "read-only|writeable"),
    ],
)
def test_invalid_scans_are_rejected(
    backend: Any, arguments: Any, options: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        gpusolve.scan(*arguments, **options)
    assert not read_only.any()
