"""The slides of C. Oancea and T. Henriksen: their examples, listings and costs.

"Basic Blocks of Data-Parallel Programming", 2019. Costs are counted on the emulator.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from monoids import Case, is_even, square
from numpy.random import Generator
from together import together

import gpusolve
from gpusolve import emulator, reference

# A dry run shows only the launcher the lengths.
from gpusolve._blocks.reduce_kernel import LEVELS
from gpusolve.monoid import segment_sums_of_one

same = np.testing.assert_array_equal


def emulated() -> Any:
    return mock.patch.dict(os.environ, GPUSOLVE_EMULATE="1")


def profiled(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The result of a call on the emulator, and the report of its kernels."""
    with emulated(), emulator.profile() as report:
        found = function(*args, **options)
    return found, report


def bytes_moved(call: Callable[[], object]) -> int:
    """The bytes that kernels read and write, counted on the emulator."""
    _, report = profiled(call)
    return sum(array.bytes for k in report.kernels for array in k.arrays.values())


def add_1(x: Any) -> Any:
    return x + 1


@pytest.mark.paper("Oancea, Group reduction")
@pytest.mark.parametrize(
    ("n", "lengths"),
    [(10_000_000, [39_063, 153, 1]), (100_000_000, [390_625, 1_526, 6, 1])],
)
def test_lengths_of_group_reductions(
    n: int, lengths: list[int], monkeypatch: Any
) -> None:
    """Groups of 256 make 39,063, 153 and 1 of 10,000,000 elements. They make 390,625,
    1,526, 6 and 1 of the 100,000,000 that the first slide names.

    A dry run: no kernel runs, so only the launcher knows the lengths.
    """
    group, found = LEVELS["group"], [n]

    def shorten(x: Any, *options: Any) -> Any:
        y = group(x, *options)
        found.append(y.shape[1])
        return y

    monkeypatch.setitem(LEVELS, "group", shorten)
    with emulated(), emulator.profile(run_kernels=False):
        gpusolve.reduce(np.zeros(n, np.int8), variant="group")
    assert found[1:] == lengths
    assert all(after == -(-before // 256) for before, after in pairwise(found))


class SumCosts(NamedTuple):
    """What a sum of n int32 costs, and the time predicted for an H200.

    The prediction does not count that updates of one location wait for each other.
    """

    launches: int
    bytes: int
    barriers: int
    atomics: int
    microseconds: int


@pytest.mark.paper("Oancea, Table of sums")
@pytest.mark.parametrize(
    ("variant", "n", "expected"),
    [
        ("tree", 1_000, SumCosts(10, 12_004, 0, 0, 38)),
        ("group", 1_000, SumCosts(2, 4_036, 5, 0, 9)),
        ("chunked", 1_000, SumCosts(1, 4_004, 1, 0, 5)),
        ("atomic_each", 1_000, SumCosts(1, 8_000, 0, 1_000, 4)),
        *(
            pytest.param(variant, 1_000_000, costs, marks=pytest.mark.slow)
            for variant, costs in (
                ("tree", SumCosts(20, 12_000_052, 0, 0, 79)),
                ("group", SumCosts(3, 4_031_388, 3_924, 0, 20)),
                ("chunked", SumCosts(2, 4_000_100, 12, 0, 15)),
                ("atomic_each", SumCosts(1, 8_000_000, 0, 1_000_000, 327)),
            )
        ),
    ],
)
def test_costs_of_the_slides_sums(variant: str, n: int, expected: SumCosts) -> None:
    """Tree: 10 launches and 12,004 bytes for 1,000 int32, 20 and 12,000,052 for
    1,000,000. Group: 2 launches, 5 barriers and 4,036 bytes; 3, 3,924 and 4,031,388.
    Chunked: 1 launch, 1 barrier and 4,004 bytes; 2, 12 and 4,000,100. Atomics: 1 launch
    and 1,000 updates of one location; 1 and 1,000,000. Predicted for an H200: tree 38
    and 79 µs, group 9 and 20, chunked 5 and 15.
    """
    found, report = profiled(gpusolve.reduce, np.ones(n, np.int32), variant=variant)
    assert found == n
    counted = [
        (kernel.launches, kernel.global_bytes, kernel.barriers, kernel.atomics)
        for kernel in report.kernels
    ]
    microseconds = round(1e6 * report.predict("H200").seconds)
    assert SumCosts(*np.sum(counted, axis=0).tolist(), microseconds) == expected


@pytest.mark.paper("Oancea, MSSP")
@together("variant", ["tree", "group", "chunked"])
def test_maximum_segment_sum_example_from_the_slides(
    backend: Any, variant: str
) -> None:
    """mss [1, -2, 3, 4, -1, 5, -6, 1] is 11; its halves have 7 and 5; mss, mis, mcs and
    ts of the halves are 7, 6, 7, 6 and 5, 4, 1, -1, together 11, 10, 6, 5.
    """
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


@pytest.mark.paper("Oancea, Exercise 1")
@pytest.mark.parametrize(
    ("variant", "launches"),
    [
        ("tree", {"map_elements": 1, "reduce_tree": 10}),
        ("group", {"map_elements": 1, "reduce_group": 2}),
        ("chunked", {"reduce_chunked": 1}),
    ],
)
def test_launches_of_the_maximum_segment_sum(
    variant: str, launches: dict[str, int]
) -> None:
    """For 1,000 elements, a map and 10 launches of the tree, a map and 2 of groups, 1
    of chunks with the map inside.
    """
    found, report = profiled(
        gpusolve.maximum_segment_sum, np.ones(1_000, int), variant=variant
    )
    assert found == 1_000
    counted = {
        kernel.name.partition("<")[0]: kernel.launches for kernel in report.kernels
    }
    assert counted == launches


@pytest.mark.paper("Oancea, Up-sweep and down-sweep")
def test_two_sweeps_have_twice_the_work_and_depth_of_a_tree() -> None:
    """1,023 operations in 10 steps up and 1,023 in 10 down for 1,024 elements."""
    x = np.ones(1_024, np.float32)
    found, report = profiled(gpusolve.scan, x, variant="sweep", exclusive=True)
    same(found, np.arange(1_024))
    # An operation reads two elements.
    costs = {
        kernel.name.partition("<")[0]: (kernel.global_loads / 2, kernel.launches)
        for kernel in report.kernels
    }
    assert costs["up_sweep"] == costs["down_sweep"] == (1_023, 10)


@pytest.mark.paper("Oancea, Exercise 2")
def test_waves_are_scanned_as_listed(rng: Generator) -> None:
    """Each wave of 32 is scanned by itself, in 5 steps, as listed."""
    A = rng.integers(-9, 10, (3, 32)).astype(np.float32)
    B = A.copy()
    for d in range(5):
        h = 2**d
        B[:, h:] = B[:, :-h] + B[:, h:]
    found, report = profiled(gpusolve.scan, A, variant="warp")
    same(found, B, strict=True)
    (kernel,) = report.kernels
    assert kernel.launches == 1
    assert kernel.shuffles == 3 * 5


@pytest.mark.paper("Oancea, Scan in OpenCL")
@pytest.mark.parametrize(
    ("variant", "launches", "times"),
    [("hierarchical", 3, 2 - 1 / 8), ("look_back", 1, 1)],
)
def test_elements_are_read_and_written_as_often_as_stated(
    variant: str, launches: int, times: float
) -> None:
    """The hierarchical scan has 3 launches; it reads and writes each of 30,720 elements
    2 times, elements of the first of 8 chunks 1 time. Look-back has 1 launch; it reads
    and writes them 1 time.
    """
    x = np.ones(30_720, np.float32)
    found, report = profiled(gpusolve.scan, x, variant=variant)
    same(found, np.arange(1, 30_721))
    assert report.host.launches == launches
    moved = sum(
        kernel.arrays[name].bytes
        for kernel in report.kernels
        for name in ("x", "y")
        if name in kernel.arrays
    )
    assert moved == 2 * times * x.nbytes


@pytest.mark.paper("Oancea, Segmented scan")
@together("dtype", [np.int64, np.int32, np.uint8, np.bool_])
def test_scan_example_from_the_slides(backend: Any, dtype: Any) -> None:
    """sgmScan of the rows is [1, 3, 6, 4, 9, 15, 22, 30, 9, 19], exclusive [0, 1, 3, 0,
    4, 9, 15, 22, 0, 9].
    """
    x = np.arange(1, 11)
    flags = np.array([1, 0, 0, 1, 0, 0, 0, 0, 1, 0]).astype(dtype)
    found = backend.call(gpusolve.segmented_scan, x, flags)
    same(found, np.array([1, 3, 6, 4, 9, 15, 22, 30, 9, 19]), strict=True)
    found = backend.call(gpusolve.segmented_scan, x, flags, exclusive=True)
    same(found, np.array([0, 1, 3, 0, 4, 9, 15, 22, 0, 9]), strict=True)


def listed_sweeps(
    F: list[int],
    B: list[Any],
    zero: Any,
    *,
    with_missing_line: bool = True,
    parent_first: bool = True,
) -> list[Any]:
    """Lines 2 to 20 of "Segmented Exclusive Scan Algorithm", with two corrections.

    The left child gets the value of its parent, a line that the slides lack; and the
    right child combines the parent with the left child in this order, which matters for
    operators that do not commute.
    """
    B, F_original, F, n = B.copy(), F, F.copy(), len(B)
    k = n.bit_length() - 1
    for d in range(k):
        for i in range(0, n, 2 ** (d + 1)):
            left, right = i + 2**d - 1, i + 2 ** (d + 1) - 1
            if F[right] == 0:
                B[right] = B[left] + B[right]
            F[right] = F[left] | F[right]
    B[n - 1] = zero
    for d in reversed(range(k)):
        for i in range(0, n, 2 ** (d + 1)):
            left, right = i + 2**d - 1, i + 2 ** (d + 1) - 1
            tmp, parent = B[left], B[right]
            if with_missing_line:
                B[left] = parent
            if F_original[i + 2**d] != 0:
                B[right] = zero
            elif F[left] != 0:
                B[right] = tmp
            else:
                B[right] = parent + tmp if parent_first else tmp + parent
            F[right] = 0
    return B


@pytest.mark.paper("Oancea, Segmented sweeps")
def test_sweeps_need_a_line_that_the_listing_lacks(backend: Any) -> None:
    """For the slides' rows the listing gives [1, 1, 3, 0, 5, 16, 7, 22, 9, 9], with the
    line that it lacks [0, 1, 3, 0, 4, 9, 15, 22, 0, 9], as the kernels do.
    """
    rows = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    flags = [1, 0, 0, 1, 0, 0, 0, 0, 1, 0]
    padding = [0, 0, 0, 0, 0, 0]
    padded = flags + padding, rows + padding
    printed = listed_sweeps(*padded, 0, with_missing_line=False)[:10]
    assert printed == [1, 1, 3, 0, 5, 16, 7, 22, 9, 9]
    assert listed_sweeps(*padded, 0)[:10] == [0, 1, 3, 0, 4, 9, 15, 22, 0, 9]
    options: dict[str, Any] = {"exclusive": True, "variant": "sweep"}
    x, starts = np.array(rows), np.array(flags)
    found = backend.call(gpusolve.segmented_scan, x, starts, **options)
    same(found, np.array([0, 1, 3, 0, 4, 9, 15, 22, 0, 9]), strict=True)


@pytest.mark.paper("Oancea, Up-sweep and down-sweep")
def test_order_of_the_sweeps_matters_if_the_operator_does_not_commute() -> None:
    """For words a to d, the child combined with its parent ends in cab, not abc."""
    words, flags = list("abcd"), [0, 0, 0, 0]
    assert listed_sweeps(flags, words, "") == ["", "a", "ab", "abc"]
    child_first = listed_sweeps(flags, words, "", parent_first=False)
    assert child_first == ["", "a", "ab", "cab"]


@pytest.mark.paper("Oancea, Segmented sweeps")
def test_segmented_sweeps_have_the_depth_of_sweeps(rng: Generator) -> None:
    """10 steps up and 10 down for 1,024 elements, over 1,023 nodes each."""
    x, flags = np.ones(1_024, np.float32), rng.random(1_024) < 0.1
    _, report = profiled(
        gpusolve.segmented_scan, x, flags, exclusive=True, variant="sweep"
    )
    sweeps = {kernel.name.partition("<")[0]: kernel for kernel in report.kernels}
    up, down = sweeps["segmented_up_sweep"], sweeps["segmented_down_sweep"]
    assert up.launches == down.launches == 10
    # A node of the down-sweep writes both children; a node of the up-sweep reads two
    # elements, and writes an element unless a segment begins at its right child.
    assert down.global_stores == 2 * 1_023
    assert 0 < up.arrays["x"].bytes <= 3 * 1_023 * x.itemsize


@pytest.mark.paper("Oancea, Flags")
@together("dtype", [np.int64, np.int32, np.uint8])
def test_flags_example_from_the_slides(backend: Any, dtype: Any) -> None:
    """The shape [0, 3, 1, 0, 4, 2, 0] has [1, 0, 0, 1, 1, 0, 0, 0, 1, 0]."""
    lengths = np.array([0, 3, 1, 0, 4, 2, 0], dtype)
    expected = np.array([1, 0, 0, 1, 1, 0, 0, 0, 1, 0], bool)
    same(backend.call(gpusolve.segment_flags, lengths), expected, strict=True)
    same(backend.call(gpusolve.segment_flags, lengths, total=10), expected, strict=True)


@pytest.mark.paper("Oancea, Exercise 3")
@together("variant", ["tiles", "two_scans"])
def test_partition_example_from_the_slides(backend: Any, variant: str) -> None:
    """partition2(even, [5, 4, 2, 10, 3, 7, 8]) is (4, [4, 2, 10, 8, 5, 3, 7])."""
    x = np.array([5, 4, 2, 10, 3, 7, 8])
    for mask in (x % 2 == 0, is_even):
        count, y = backend.call(gpusolve.stable_partition, x, mask, variant=variant)
        assert count.shape == ()
        assert count.dtype.kind == "i"
        assert count == 4
        same(y, np.array([4, 2, 10, 8, 5, 3, 7]), strict=True)


@pytest.mark.paper("Oancea, Scatter")
def test_scatter_example_from_the_slides(backend: Any) -> None:
    """With I = [2, 4, 1, -1] X becomes [a0, b2, b0, a3, b1, a5]."""
    a, b = np.arange(6.0), np.array([10.0, 20.0, 30.0, 40.0])
    found = backend.call(gpusolve.scatter, a.copy(), np.array([2, 4, 1, -1]), b)
    same(found, np.array([a[0], b[2], b[0], a[3], b[1], a[5]]), strict=True)


@pytest.mark.paper("Oancea, Scatter")
@pytest.mark.parametrize("length", [6, 100_000])
def test_scatter_is_proportional_to_its_values(length: int) -> None:
    """4 values need 1 launch and 80 bytes, in 6 elements and in 100,000."""
    _, report = profiled(
        gpusolve.scatter, np.zeros(length, int), np.array([2, 4, 1, -1]), np.arange(4)
    )
    (kernel,) = report.kernels
    # All four indices, and three values that are read and written.
    assert (kernel.launches, kernel.global_bytes) == (1, 80)


@pytest.mark.paper("Oancea, Map fusion")
def test_fusion_halves_the_bytes() -> None:
    """Two maps move 4 n elements in 2 launches, f o g 2 n in 1.

    Two maps read and write n elements each; their composition reads them once.
    """
    x, plus_one = np.arange(2048, dtype=np.float32), gpusolve.Map("+1", "x + 1", add_1)
    apart = bytes_moved(lambda: gpusolve.map(square, gpusolve.map(plus_one, x)))
    fused = bytes_moved(lambda: gpusolve.map(square @ plus_one, x))
    assert (apart, fused) == (4 * x.nbytes, 2 * x.nbytes)


segmented_add = gpusolve.Monoid(
    "segmented add",
    identity=(0, 0),
    cuda=("a[0] | b[0]", "b[0] != 0 ? b[1] : a[1] + b[1]"),
    numpy=lambda a, b: np.stack(
        [
            a[..., 0] | b[..., 0],
            np.where(b[..., 0] != 0, b[..., 1], a[..., 1] + b[..., 1]),
        ],
        axis=-1,
    ),
    commutative=False,
)


@pytest.mark.paper("Oancea, Segmented scan of pairs")
def test_segmented_scan_is_a_scan_of_zipped_flags_and_values(
    backend: Any, rng: Generator
) -> None:
    """A scan of pairs gives [1, 3, 6, 4, 9, 15, 22, 30, 9, 19], as sgmScan does.

    sgmScan of the slides: zip, scan with the lifted operator, unzip.
    """

    def scan_pairs(flags: Any, values: Any) -> Any:
        scanned = gpusolve.scan(gpusolve.zip(flags, values), segmented_add)
        return gpusolve.unzip(scanned)[1]

    flags = np.array([1, 0, 0, 1, 0, 0, 0, 0, 1, 0])
    found = backend.call(scan_pairs, flags, np.arange(1, 11))
    same(found, np.array([1, 3, 6, 4, 9, 15, 22, 30, 9, 19]), strict=True)
    flags, values = rng.integers(0, 9, 3000) // 8, rng.integers(-99, 99, 3000)
    found = backend.call(scan_pairs, flags, values)
    case = Case("add", values.dtype)
    same(found, case.segmented_prefixes(values, flags), strict=True)


@pytest.mark.paper("Oancea, Small exercise")
@given(st.lists(st.integers(0, 5), max_size=40), st.randoms(use_true_random=False))
def test_all_is_the_same_for_every_split_and_by_map_and_reduce(
    backend: Any, values: list[int], random: Any
) -> None:
    """Every split gives the same as map and reduce."""
    x = np.array(values, np.int64)
    expected = all(value % 2 == 0 for value in values)
    splits: list[Callable[[int], int]] = [
        lambda n: n // 2,
        lambda n: 1,
        lambda n: n - 1,
        lambda n: random.randint(1, n - 1),
    ]
    for split in splits:
        assert reference.all_by_division(x, is_even, split) == expected
    assert backend.call(gpusolve.all, x, is_even) == expected
    mapped = gpusolve.map(is_even, backend.array(x))
    assert bool(gpusolve.reduce(mapped, "logical_and")) == expected
