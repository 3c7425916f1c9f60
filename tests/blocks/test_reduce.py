"""Reduction in every variant, all, any, and the maximum segment sum."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import oracles
import pytest
from backends import (
    numpy_only,
    without_gpu,
)
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
    argmax,
    cases,
    first_nonzero,
    is_even,
    is_positive,
    matrix_product,
    square,
)
from together import together

import gpusolve
from gpusolve import emulator
from gpusolve._blocks.reduce_kernel import LEVELS
from gpusolve._device.launch import THREADS
from gpusolve.monoid import segment_sums_of_one

ORDERED = ("auto", "tree", "group", "chunked")
"""Variants that do not need a commutative operator."""
UNORDERED = ("reduce512", "atomic", "atomic_each")
VARIANTS = (*ORDERED, *UNORDERED)

same = np.testing.assert_array_equal


def check_reductions(
    backend: Any, case: Case, rng: np.random.Generator, **options: Any
) -> None:
    """Compare reductions of every length with brute force."""
    for n in LENGTHS:
        x = case.sample(rng, n)
        found = backend.call(gpusolve.reduce, x, case.op, **options)
        same(found, case.fold(x), strict=True, err_msg=f"{n} elements")


# ---- any monoid ----


@pytest.mark.paper(
    "Oancea, Reduce", "reduce is e op a1 op ... op an for any associative operator"
)
@pytest.mark.parametrize("case", REPRESENTATIVE, ids=str)
def test_reduction_agrees_with_brute_force(
    backend: Any, case: Case, rng: np.random.Generator
) -> None:
    check_reductions(backend, case, rng)


@numpy_only
@together("case", EVERY_DTYPE, ids=str)
def test_every_dtype(backend: Any, case: Case, rng: np.random.Generator) -> None:
    check_reductions(backend, case, rng)


@pytest.mark.parametrize("variant", ["tree", "group", "chunked"])
@pytest.mark.parametrize("case", FEW, ids=str)
def test_ordered_variants_agree_with_brute_force(
    backend: Any, case: Case, variant: str, rng: np.random.Generator
) -> None:
    check_reductions(backend, case, rng, variant=variant)


@pytest.mark.parametrize(
    "case",
    cases(
        ("add", "int8 int32 int64 complex64"),
        ("max", "float64"),
        ("logical_or", "float32"),
    ),
    ids=str,
)
@pytest.mark.parametrize("variant", UNORDERED)
def test_unordered_variants_agree_with_brute_force(
    backend: Any, case: Case, variant: str, rng: np.random.Generator
) -> None:
    check_reductions(backend, case, rng, variant=variant)


def sums_of(count: int) -> gpusolve.Monoid:
    """Sums of arrays of `count` numbers."""
    cuda = tuple(f"a[{k}] + b[{k}]" for k in range(count))
    return gpusolve.Monoid("sums", (0,) * count, cuda, np.add, commutative=True)


def test_reduce512_takes_elements_of_64_bytes(
    backend: Any, rng: np.random.Generator
) -> None:
    x = rng.integers(-9, 9, (1300, 8)).astype(np.float64)
    found = backend.call(gpusolve.reduce, x, sums_of(8), variant="reduce512")
    same(found, x.sum(axis=0), strict=True)
    with pytest.raises(ValueError, match="at most 64 bytes, got 72 for sums"):
        gpusolve.reduce(np.ones((3, 9)), sums_of(9), variant="reduce512")


@together("variant", VARIANTS)
def test_any_schedule_of_threads_and_blocks(
    variant: str, schedule: str, rng: np.random.Generator, monkeypatch: Any
) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    x = rng.integers(-(2**31), 2**31, (3, 3000), np.int32)
    same(gpusolve.reduce(x, axis=1, variant=variant), x.sum(1, np.int32), strict=True)


@together("variant", VARIANTS)
@together("shape", [(), (0,), (1,), (0, 5), (5, 0), (70, 33), (3, 2, 700)])
def test_shapes(
    backend: Any, shape: tuple[int, ...], variant: str, rng: np.random.Generator
) -> None:
    x = rng.integers(-(2**31), 2**31, shape, np.int32)
    for axis in (None, -1, 0) if shape else (None,):
        found = backend.call(gpusolve.reduce, x, axis=axis, variant=variant)
        same(found, x.sum(axis, np.int32), strict=True)


def test_every_tuple_of_axes(backend: Any, rng: np.random.Generator) -> None:
    x = rng.integers(-9, 9, (3, 4, 5), np.int32)
    for count in range(4):
        for axes in itertools.permutations(range(3), count):
            expected = x.sum(axes, np.int32)
            same(backend.call(gpusolve.reduce, x, axis=axes), expected, strict=True)
            negative = tuple(axis - 3 for axis in axes)
            same(backend.call(gpusolve.reduce, x, axis=negative), expected, strict=True)


@together(
    ("axis", "flat"),
    [
        (None, [[7, 3, 1, 4]]),
        (0, [[7, 1], [3, 4]]),
        (1, [[7, 3], [1, 4]]),
        ((1, 0), [[7, 3, 1, 4]]),
    ],
)
def test_elements_are_combined_in_c_order(backend: Any, axis: Any, flat: Any) -> None:
    x = np.array([[7, 3], [1, 4]], np.int16)
    pairs = np.stack([x, x + 10], axis=-1)
    found = backend.call(gpusolve.reduce, pairs, affine, axis=axis)
    identity, combine = oracles.operator("affine", x.dtype)
    rows = [[[value, value + 10] for value in row] for row in flat]
    expected = [oracles.fold(row, identity, combine) for row in rows]
    same(found.reshape(-1, 2), np.array(expected, x.dtype), strict=True)


def test_axes_of_matrices(backend: Any, rng: np.random.Generator) -> None:
    x = rng.integers(-9, 9, (4, 3, 5, 2, 2))
    found = backend.call(gpusolve.reduce, x, matrix_product, axis=(0, -1))
    assert found.shape == (3, 2, 2)
    for k in range(3):
        product = np.linalg.multi_dot([*x[:, k].reshape(-1, 2, 2)])
        same(found[k], product)


@together("view", STRIDED_VIEWS)
@together("axis", [None, 0, -1])
def test_strided_views(
    backend: Any, view: Any, axis: Any, rng: np.random.Generator
) -> None:
    x = rng.integers(0, 2, (13, 40), np.int16) * rng.integers(1, 99, (13, 40), np.int16)
    found = backend.call(
        lambda x: gpusolve.reduce(view(x), first_nonzero, axis=axis), x
    )
    rows = view(x).reshape(1, -1) if axis is None else np.moveaxis(view(x), axis, -1)
    identity, combine = oracles.operator("first nonzero", x.dtype)
    expected = [
        oracles.fold(row, identity, combine)
        for row in rows.reshape(-1, rows.shape[-1]).tolist()
    ]
    same(np.ravel(found), np.array(expected, x.dtype), strict=True)


def test_input_is_not_changed(backend: Any) -> None:
    product = gpusolve.Monoid(
        "product of 1 x 1", [[1.0]], ("a[0] * b[0]",), np.matmul, commutative=True
    )
    x = np.arange(7.0).reshape(7, 1)
    broadcast = np.broadcast_to(x, (7, 3))
    assert backend.call(gpusolve.reduce, broadcast) == 63
    single = backend.call(gpusolve.reduce, x[:1, None], product, axis=0)
    single += 1
    same(x, np.arange(7.0).reshape(7, 1))


def test_array_likes_are_accepted(backend: Any) -> None:
    assert gpusolve.reduce([1, 2, 3]) == 6
    assert gpusolve.reduce(((1.5, 2), (3, 4)), "max") == 4
    assert gpusolve.reduce(3, "mul") == 3


@together("dtype", ["int8", "uint8", "int16", "int64", "uint64"])
def test_overflow_wraps(backend: Any, dtype: str) -> None:
    largest = np.iinfo(dtype).max
    x = np.full(100, largest, dtype)
    for op, expected in (("add", 100 * largest), ("mul", largest**100)):
        wrapped = np.array(oracles.wrapping(x.dtype)(expected), dtype)
        same(backend.call(gpusolve.reduce, x, op), wrapped, strict=True)


@together("variant", VARIANTS)
@together("op", ["min", "max"])
def test_nan_propagates(backend: Any, op: str, variant: str) -> None:
    for position in (0, 1, 31, 40, 299):
        x = np.linspace(-1, 1, 300, dtype=np.float32)
        x[position] = np.nan
        assert np.isnan(backend.call(gpusolve.reduce, x, op, variant=variant))
    x = np.array([np.inf, -np.inf, 3], np.float32)
    expected = {"min": -np.inf, "max": np.inf}[op]
    assert backend.call(gpusolve.reduce, x, op, variant=variant) == expected


@together("dtype", [np.float32, np.float64])
@together("variant", VARIANTS)
def test_rounding_errors_of_sums_are_bounded(
    backend: Any, dtype: Any, variant: str, rng: np.random.Generator
) -> None:
    x = rng.standard_normal(10007).astype(dtype)
    found = backend.call(gpusolve.reduce, x, variant=variant)
    exact, magnitude = math.fsum(x.tolist()), math.fsum(np.abs(x).tolist())
    assert abs(float(found) - exact) <= len(x) * np.finfo(dtype).eps / 2 * magnitude


@given(st.lists(st.integers(-128, 127)), st.lists(st.integers(-128, 127)))
def test_reduction_of_a_concatenation(
    backend: Any, left: list[int], right: list[int]
) -> None:
    x, y = (np.array(part, np.int8) for part in (left, right))
    whole = backend.call(gpusolve.reduce, np.concatenate([x, y]), first_nonzero)
    parts = [backend.call(gpusolve.reduce, part, first_nonzero) for part in (x, y)]
    assert whole == (parts[0] or parts[1])


def test_operator_may_return_another_dtype(
    backend: Any, rng: np.random.Generator
) -> None:
    odd = gpusolve.Monoid(
        "odd", 0, "T((a != 0) != (b != 0))", np.logical_xor, commutative=True
    )
    x = rng.integers(0, 2, 1000, np.int16)
    found = backend.call(gpusolve.reduce, x, odd)
    same(found, np.array(x.sum() % 2, np.int16), strict=True)


def test_operator_may_be_a_ufunc_of_python_objects(
    backend: Any, rng: np.random.Generator
) -> None:
    common = gpusolve.Monoid(
        "bits in common",
        identity=-1,
        cuda="a & b",
        numpy=np.frompyfunc(int.__and__, 2, 1),
        commutative=True,
        kinds="i",
    )
    x = rng.integers(0, 2**40, 100) | 2**41
    found = backend.call(gpusolve.reduce, x, common)
    same(found, np.bitwise_and.reduce(x), strict=True)


# ---- maps ----

count_positive = gpusolve.Map("1 if positive", "x > 0", lambda x: x > 0, dtype=np.int64)
line_with_slope = gpusolve.Map(
    "line with slope",
    ("x", "T(1)"),
    lambda x: np.stack([x, np.ones_like(x)], axis=-1),
)


@together("variant", VARIANTS)
def test_map_is_applied_to_each_element(
    backend: Any, variant: str, rng: np.random.Generator
) -> None:
    x = rng.integers(-9, 10, (3, 500)).astype(np.float32)
    found = backend.call(gpusolve.reduce, x, axis=1, map=square, variant=variant)
    same(found, (x * x).sum(1), strict=True)


@together("variant", VARIANTS)
def test_map_to_another_dtype(
    backend: Any, variant: str, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((3, 500)).astype(np.float32)
    found = backend.call(
        gpusolve.reduce, x, axis=1, map=count_positive, variant=variant
    )
    same(found, (x > 0).sum(1), strict=True)
    assert backend.call(gpusolve.reduce, x, map=is_positive, variant=variant)


@together("variant", ORDERED)
def test_map_to_pairs(backend: Any, variant: str, rng: np.random.Generator) -> None:
    x = rng.integers(-9, 10, (3, 500), np.int32)
    found = backend.call(
        gpusolve.reduce, x, affine, axis=1, map=line_with_slope, variant=variant
    )
    identity, combine = oracles.operator("affine", x.dtype)
    rows = [[[value, 1] for value in row] for row in x.tolist()]
    expected = [oracles.fold(row, identity, combine) for row in rows]
    same(found, np.array(expected, np.int32), strict=True)


# ---- all and any ----


def test_all_and_any_of_empty_arrays(backend: Any) -> None:
    same(backend.call(gpusolve.all, np.zeros(0)), np.array(True), strict=True)
    same(backend.call(gpusolve.any, np.zeros(0)), np.array(False), strict=True)
    found = backend.call(gpusolve.all, np.zeros((2, 0)), axis=1)
    same(found, np.array([True, True]), strict=True)


@together("dtype", ["bool", "int8", "float32"])
def test_one_element_decides_all_and_any(backend: Any, dtype: str) -> None:
    for n in (1, 33, 1025):
        ones, zeros = np.ones(n, dtype), np.zeros(n, dtype)
        assert backend.call(gpusolve.all, ones)
        assert not backend.call(gpusolve.any, zeros)
        for k in {0, n // 2, n - 1}:
            ones[k], zeros[k] = 0, 1
            assert not backend.call(gpusolve.all, ones)
            assert backend.call(gpusolve.any, zeros)
            ones[k], zeros[k] = 1, 0


def test_small_numbers_and_nan_are_true(backend: Any) -> None:
    assert backend.call(gpusolve.all, np.array([0.25, np.nan]))
    assert backend.call(gpusolve.any, np.array([0, np.nan]))
    assert not backend.call(gpusolve.any, np.array([0.0, -0.0]))


def test_denormal_numbers_are_true(backend: Any) -> None:
    assert backend.call(gpusolve.all, np.array([0.25, 5e-324]))


def test_reference_of_all_any_and_maximum_segment_sum() -> None:
    x = np.array([[2, 4], [1, 2], [0, 7], [0, 0]])
    reference = gpusolve.reference
    same(reference.all(x, axis=1), [True, True, False, False])
    same(reference.any(x, axis=1), [True, True, True, False])
    same(reference.all(x, is_even, axis=1), [True, False, False, True])
    same(reference.any(x[:, 1:], is_even, axis=1), [True, True, False, True])
    same(reference.maximum_segment_sum(x - 3), [1, 0, 4, 0])


def test_all_and_any_of_a_predicate(backend: Any) -> None:
    x = np.array([[2, 4, 6], [1, 2, 3], [5, 7, 9]])
    same(
        backend.call(gpusolve.all, x, is_even, axis=1),
        np.array([True, False, False]),
        strict=True,
    )
    same(
        backend.call(gpusolve.any, x, is_even, axis=-1),
        np.array([True, True, False]),
        strict=True,
    )
    assert backend.call(gpusolve.any, x, is_even)
    assert not backend.call(gpusolve.all, x, is_even)


# ---- the slides' table of sums ----


@pytest.mark.paper(
    "Oancea, Group reduction",
    "Groups of 256 make 39,063, 153 and 1 of 10,000,000 elements",
)
@pytest.mark.paper(
    "Oancea, Group reduction",
    "They make 390,625, 1,526, 6 and 1 of the 100,000,000 that the first slide names",
)
@pytest.mark.parametrize(
    ("n", "lengths"),
    [
        (10_000_000, [39_063, 153, 1]),
        (100_000_000, [390_625, 1_526, 6, 1]),
    ],
)
def test_lengths_of_group_reductions(
    n: int, lengths: list[int], monkeypatch: Any
) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    group, found = LEVELS["group"], []

    def shorten(x: Any, *options: Any) -> Any:
        y = group(x, *options)
        found.append(y.shape[1])
        return y

    monkeypatch.setitem(LEVELS, "group", shorten)
    with emulator.profile(run_kernels=False):
        gpusolve.reduce(np.zeros(n, np.int8), variant="group")
    assert found == lengths
    assert THREADS == 256


class SumCosts(NamedTuple):
    """What a sum of n int32 costs, and the time predicted for an H200.

    The prediction does not count that updates of one location wait for each other.
    """

    launches: int
    bytes: int
    barriers: int
    atomics: int
    microseconds: int


@pytest.mark.paper(
    "Oancea, Table of sums",
    "tree: 10 launches and 12,004 bytes for 1,000 int32, "
    "20 and 12,000,052 for 1,000,000",
)
@pytest.mark.paper(
    "Oancea, Table of sums",
    "group: 2 launches, 5 barriers and 4,036 bytes; 3, 3,924 and 4,031,388",
)
@pytest.mark.paper(
    "Oancea, Table of sums",
    "chunked: 1 launch, 1 barrier and 4,004 bytes; 2, 12 and 4,000,100",
)
@pytest.mark.paper(
    "Oancea, Table of sums",
    "atomics: 1 launch and 1,000 updates of one location; 1 and 1,000,000",
)
@pytest.mark.paper(
    "Oancea, Table of sums",
    "predicted for an H200: tree 38 and 79 µs, group 9 and 20, chunked 5 and 15",
)
@pytest.mark.parametrize(
    ("variant", "n", "expected"),
    [
        ("tree", 1_000, SumCosts(10, 12_004, 0, 0, 38)),
        ("group", 1_000, SumCosts(2, 4_036, 5, 0, 9)),
        ("chunked", 1_000, SumCosts(1, 4_004, 1, 0, 5)),
        ("atomic_each", 1_000, SumCosts(1, 8_000, 0, 1_000, 4)),
        ("tree", 1_000_000, SumCosts(20, 12_000_052, 0, 0, 79)),
        ("chunked", 1_000_000, SumCosts(2, 4_000_100, 12, 0, 15)),
        pytest.param(
            "group",
            1_000_000,
            SumCosts(3, 4_031_388, 3_924, 0, 20),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "atomic_each",
            1_000_000,
            SumCosts(1, 8_000_000, 0, 1_000_000, 327),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_costs_of_the_slides_sums(
    variant: str, n: int, expected: SumCosts, monkeypatch: Any
) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    with emulator.profile() as report:
        found = gpusolve.reduce(np.ones(n, np.int32), variant=variant)
    assert found == n
    counted = [
        (kernel.launches, kernel.global_bytes, kernel.barriers, kernel.atomics)
        for kernel in report.kernels
    ]
    microseconds = round(1e6 * report.predict("H200").seconds)
    assert SumCosts(*np.sum(counted, axis=0).tolist(), microseconds) == expected


# ---- the maximum segment sum ----


@pytest.mark.paper(
    "Oancea, MSSP", "mss [1, -2, 3, 4, -1, 5, -6, 1] is 11; its halves have 7 and 5"
)
@pytest.mark.paper(
    "Oancea, MSSP",
    "mss, mis, mcs and ts of the halves are 7, 6, 7, 6 and 5, 4, 1, -1, "
    "together 11, 10, 6, 5",
)
@together("variant", ORDERED)
def test_maximum_segment_sum_example_from_the_slides(
    backend: Any, variant: str
) -> None:
    x = np.array([1, -2, 3, 4, -1, 5, -6, 1])
    for part, sums in (
        (x[:4], [7, 6, 7, 6]),
        (x[4:], [5, 4, 1, -1]),
        (x, [11, 10, 6, 5]),
    ):
        found = backend.call(gpusolve.maximum_segment_sum, part, variant=variant)
        same(found, np.array(sums[0]), strict=True)
        options: dict[str, Any] = {"map": segment_sums_of_one, "variant": variant}
        found = backend.call(gpusolve.reduce, part, "mssp", **options)
        same(found, np.array(sums), strict=True)


@pytest.mark.paper(
    "Oancea, Exercise 1",
    "For 1,000 elements, a map and 10 launches of the tree, "
    "a map and 2 of groups, 1 of chunks with the map inside",
)
@pytest.mark.parametrize(
    ("variant", "launches"),
    [
        ("tree", {"map_elements": 1, "reduce_tree": 10}),
        ("group", {"map_elements": 1, "reduce_group": 2}),
        ("chunked", {"reduce_chunked": 1}),
    ],
)
def test_launches_of_the_maximum_segment_sum(
    variant: str, launches: dict[str, int], monkeypatch: Any
) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    with emulator.profile() as report:
        found = gpusolve.maximum_segment_sum(np.ones(1_000, int), variant=variant)
    assert found == 1_000
    counted = {
        kernel.name.partition("<")[0]: kernel.launches for kernel in report.kernels
    }
    assert counted == launches


@pytest.mark.paper(
    "Oancea, Exercise 1", "Each variant gives the largest sum of all segments"
)
@together("variant", ORDERED)
@together("dtype", ["int32", "int64", "float32", "float64"])
def test_maximum_segment_sum_agrees_with_brute_force(
    backend: Any, dtype: str, variant: str, rng: np.random.Generator
) -> None:
    for n in (0, 1, 2, 31, 32, 33, 257, 1025):
        x = rng.integers(-50, 50, n).astype(dtype)
        found = backend.call(gpusolve.maximum_segment_sum, x, variant=variant)
        expected = np.array(oracles.maximum_segment_sum(x.tolist()), dtype)
        same(found, expected, strict=True, err_msg=f"{n} elements")


@together("variant", ORDERED)
def test_maximum_segment_at_any_position(backend: Any, variant: str) -> None:
    n = 10007
    for start, stop in ((0, 3), (2000, 7001), (n - 1, n), (0, n)):
        x = np.full(n, -7, np.int32)
        x[start:stop] = 2
        found = backend.call(gpusolve.maximum_segment_sum, x, variant=variant)
        assert found == 2 * (stop - start)


def test_maximum_segment_sum_of_rows(backend: Any, rng: np.random.Generator) -> None:
    x = rng.integers(-50, 50, (2, 3, 40), np.int32)
    x[0, 0] = -1
    found = backend.call(gpusolve.maximum_segment_sum, x)
    expected = [
        [oracles.maximum_segment_sum(row) for row in rows] for rows in x.tolist()
    ]
    assert expected[0][0] == 0
    same(found, np.array(expected, np.int32), strict=True)
    found = backend.call(gpusolve.maximum_segment_sum, np.zeros((2, 0), np.float32))
    same(found, np.zeros(2, np.float32), strict=True)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_maximum_segment_sum_reaches_the_largest_integer(
    backend: Any, dtype: str, rng: np.random.Generator
) -> None:
    """Prefix sums between 0 and the largest integer: no sum of a segment overflows."""
    largest = np.iinfo(dtype).max
    for n in (2, 65, 1025):
        prefixes = rng.integers(0, largest, (40, n + 1), dtype, endpoint=True)
        prefixes[:, ::3] = rng.choice([0, largest], prefixes[:, ::3].shape)
        x = np.diff(prefixes)
        found = backend.call(gpusolve.maximum_segment_sum, x)
        gains = prefixes - np.minimum.accumulate(prefixes, axis=1)
        same(found, gains.max(axis=1), strict=True)


def test_maximum_segment_sum_with_infinities(backend: Any) -> None:
    x = np.ones((2, 3000))
    x[0, [5, 1000, 2500]] = -np.inf
    x[1, 2000] = np.inf
    same(backend.call(gpusolve.maximum_segment_sum, x), [1499, np.inf])


def test_maximum_segment_sum_propagates_nan(backend: Any) -> None:
    x = np.array([[1, np.nan, 2], [1, -5, 2]])
    same(backend.call(gpusolve.maximum_segment_sum, x), [np.nan, 2])


# ---- invalid arguments ----

x = np.ones((4, 3))


@without_gpu
@together(
    ("arguments", "options", "error", "message"),
    [
        ((x, "sum"), {}, ValueError, "op must .*got 'sum'"),
        ((x, np.add), {}, TypeError, "op must .*got <ufunc 'add'>"),
        ((x,), {"variant": "quick"}, ValueError, "variant must .*got 'quick'"),
        ((x * 1j, "min"), {}, TypeError, "complex128"),
        ((x * 1j, "max"), {}, TypeError, "complex128"),
        ((x.astype(object),), {}, TypeError, "object"),
        ((np.array(["a"]),), {}, TypeError, "<U1"),
        ((x.astype(np.longdouble),), {}, TypeError, str(np.dtype(np.longdouble))),
        ((np.ma.masked_array(x),), {}, TypeError, "x must .*got a masked array"),
        ((x,), {"axis": 2}, ValueError, "axis must .*got 2"),
        ((x,), {"axis": -3}, ValueError, "axis must .*got -3"),
        ((x,), {"axis": (0, 5)}, ValueError, "axis must .*got .*5"),
        ((x,), {"axis": (1, -1)}, ValueError, r"axis must .*got \(1, -1\)"),
        ((x,), {"axis": 0.5}, TypeError, "axis must .*got 0.5"),
        ((x, "mssp"), {}, ValueError, r"x must .*got .*\(4, 3\)"),
        ((x[0], matrix_product), {}, ValueError, r"x must .*got .*\(3,\)"),
        ((np.ones((5, 2)), affine), {"axis": 1}, ValueError, "axis must .*got 1"),
        ((x, affine), {"map": square}, ValueError, "got one expression in square"),
        ((x,), {"map": line_with_slope}, ValueError, "got 2 expressions"),
        ((x,), {"map": np.square}, TypeError, "map must .*got <ufunc 'square'>"),
        ((x,), {"map": "square"}, TypeError, "map must .*got 'square'"),
        *(
            (
                (x, first_nonzero),
                {"variant": variant},
                ValueError,
                f"variant '{variant}' .*commute; first nonzero",
            )
            for variant in UNORDERED
        ),
        ((x[:, :2], argmax), {"variant": "atomic"}, ValueError, "got 16 for argmax"),
        ((x * 1j,), {"variant": "atomic"}, ValueError, "got 16 for add of complex128"),
    ],
)
def test_invalid_reductions_are_rejected(
    backend: Any, arguments: Any, options: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        gpusolve.reduce(*arguments, **options)


@without_gpu
@together(
    ("call", "error", "message"),
    [
        (lambda: gpusolve.all(x, np.isfinite), TypeError, "isfinite"),
        (lambda: gpusolve.any(x * 1j), TypeError, "complex128"),
        (lambda: gpusolve.all(x, axis=7), ValueError, "axis must .*got 7"),
        (
            lambda: gpusolve.maximum_segment_sum(3.0),
            ValueError,
            r"x must have shape .*got \(\)",
        ),
        *(
            (
                lambda dtype=dtype: gpusolve.maximum_segment_sum(np.ones(3, dtype)),
                TypeError,
                f"x must have dtype .*got {dtype}",
            )
            for dtype in ("complex128", "bool", "uint64", "int16", "float16")
        ),
        (
            lambda: gpusolve.maximum_segment_sum(x, variant="reduce512"),
            ValueError,
            "variant must .*got 'reduce512'",
        ),
    ],
)
def test_invalid_arguments_of_all_any_and_maximum_segment_sum(
    backend: Any, call: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
