"""Segmented scan, segmented reduction and segment flags."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from backends import both_kinds, numpy_only, without_gpu
from hypothesis import given
from hypothesis import strategies as st
from monoids import (
    EVERY_DTYPE,
    LENGTHS,
    Case,
    affine,
    cases,
    first_nonzero,
    frozen,
)
from together import together

import gpusolve
from gpusolve import Monoid, _emulator, emulator
from gpusolve._blocks.scan_kernel import tile_for

same = np.testing.assert_array_equal
every_variant = pytest.mark.parametrize("variant", ["look_back", "sweep"])

SEGMENTED = cases(
    ("add", "bool int8 int32 float16 float64 complex128"),
    ("min", "float32"),
    ("logical_or", "uint8"),
    ("mssp", "int32"),
    ("matrix product", "int64"),
    ("affine", "int16"),
    ("first nonzero", "int64"),
    ("exclusive or", "uint32"),
)

DENSITIES = (0, 0.001, 0.03, 0.5, 1)
"""Segments per element, from a single segment to a segment for each element."""


def flags_by_brute_force(lengths: list[int]) -> list[bool]:
    """Segment flags for these lengths, by brute force."""
    return [k == 0 for length in lengths for k in range(length)]


def offsets_of(lengths: Any) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


@functools.cache
def scans(case: Case) -> list[tuple[Any, Any, bool, Any]]:
    """Arrays of all lengths, flags, and their inclusive and exclusive scans."""
    rng = np.random.default_rng(1)
    problems = [
        (frozen(case.sample(rng, n)), frozen(rng.random(n) < density))
        for n in LENGTHS
        for density in (DENSITIES if n < 5000 else (0.001,))
    ]
    return [
        (x, flags, kind, frozen(case.segmented_prefixes(x, flags, kind)))
        for x, flags in problems
        for kind in (False, True)
    ]


def check_scans(backend: Any, case: Case) -> None:
    """Compare inclusive and exclusive scans of all lengths with brute force."""
    for x, flags, exclusive, expected in scans(case):
        found = backend.call(
            gpusolve.segmented_scan, x, flags, case.op, exclusive=exclusive
        )
        err_msg = f"{len(x)} elements, {flags.sum()} segments, {exclusive=}"
        same(found, expected, strict=True, err_msg=err_msg)


@functools.cache
def reductions(case: Case) -> list[tuple[Any, Any, Any]]:
    """Arrays, lengths of short, empty and long segments, and their reductions."""
    rng = np.random.default_rng(1)
    given = ([], [0], [0, 0], [1], [0, 3, 1, 0, 4, 2, 0], [0, 1025, 0, 33, 0])
    limits = ((2, 70), (40, 70), (3000, 12))
    drawn = (rng.integers(0, limit, count) for limit, count in limits)
    found = []
    for lengths in (*(np.array(rows, np.int64) for rows in given), *drawn):
        offsets = offsets_of(lengths)
        x = frozen(case.sample(rng, offsets[-1]))
        expected = np.empty((len(lengths), *case.element_shape), case.dtype)
        for k, (start, stop) in enumerate(itertools.pairwise(offsets)):
            expected[k] = case.fold(x[start:stop])
        found.append((x, frozen(lengths), frozen(expected)))
    return found


def check_reductions(backend: Any, case: Case) -> None:
    """Compare reductions with brute force."""
    for x, lengths, expected in reductions(case):
        found = backend.call(gpusolve.segmented_reduce, x, lengths, case.op)
        same(found, expected, strict=True, err_msg=f"{lengths=}")
        offsets = offsets_of(lengths)
        found = backend.call(
            gpusolve.segmented_reduce, x, None, case.op, offsets=offsets
        )
        same(found, expected, strict=True, err_msg=f"{offsets=}")


# ---- any monoid ----


@pytest.mark.parametrize("case", SEGMENTED, ids=str)
def test_scan_agrees_with_brute_force(backend: Any, case: Case) -> None:
    check_scans(backend, case)


@pytest.mark.parametrize("case", SEGMENTED, ids=str)
def test_reduction_agrees_with_brute_force(backend: Any, case: Case) -> None:
    check_reductions(backend, case)


@pytest.mark.slow
@numpy_only
@pytest.mark.parametrize("case", EVERY_DTYPE, ids=str)
def test_every_dtype(backend: Any, case: Case) -> None:
    check_scans(backend, case)
    check_reductions(backend, case)


@every_variant
@both_kinds
@pytest.mark.parametrize("density", [0, 0.03, 0.5])
@pytest.mark.parametrize(
    "case", cases(("add", "float64"), ("affine", "int16")), ids=str
)
def test_variants_agree_with_brute_force(
    backend: Any,
    case: Case,
    density: float,
    exclusive: bool,
    variant: str,
    rng: np.random.Generator,
) -> None:
    options: dict[str, Any] = {"exclusive": exclusive, "variant": variant}
    for n in (0, 1, 2, 3, 31, 32, 33, 257, 1025):
        x, flags = case.sample(rng, n), rng.random(n) < density
        found = backend.call(gpusolve.segmented_scan, x, flags, case.op, **options)
        expected = case.segmented_prefixes(x, flags, exclusive)
        same(found, expected, strict=True, err_msg=f"{n} elements")


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
    case = Case("affine", np.dtype(np.int32))
    x, flags = case.sample(rng, 5001), rng.random(5001) < 0.002
    options: dict[str, Any] = {"exclusive": exclusive, "variant": variant}
    found = gpusolve.segmented_scan(x, flags, affine, **options)
    same(found, case.segmented_prefixes(x, flags, exclusive), strict=True)


# ---- reductions across tiles ----

matrices = Monoid(
    "4 x 4 matrices",
    identity=np.eye(4, dtype=int).tolist(),
    cuda=tuple(
        "+".join(f"a[{4 * i + k}] * b[{4 * k + j}]" for k in range(4))
        for i in range(4)
        for j in range(4)
    ),
    numpy=np.matmul,
    commutative=False,
)
"""Elements of 16 numbers: 64 bytes of uint32, whose products wrap around."""


def structures(tile: int) -> dict[str, list[int]]:
    """Lengths of segments. A tile has `tile` elements and segments together."""
    return {
        "no segments": [],
        "one empty segment": [0],
        "one segment": [5 * tile + 3],
        "one tile exactly": [tile - 1],
        "a segment for each tile": [tile - 1] * 4,
        "ends around tile borders": [tile - 2, tile, tile, tile - 1, 0, 2 * tile, 1],
        "empty segments only": [0] * (3 * tile + 1),
        "a tile of empty segments before and after": [0] * tile + [7] + [0] * tile,
        "a long segment among empty segments": [0] * (2 * tile) + [3 * tile, 0, 0],
        "segments of one element": [1] * (2 * tile),
    }


@together("structure", structures(1))
@together(
    ("op", "dtype"),
    [("add", np.int32), (affine, np.int64), (matrices, np.uint32)],
    ids=["4 bytes", "16 bytes", "64 bytes"],
)
def test_reduction_across_tiles(
    backend: Any, op: Any, dtype: Any, structure: str, rng: np.random.Generator
) -> None:
    shape = op.element_shape if isinstance(op, Monoid) else ()
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    lengths = np.array(structures(tile_for(size).size)[structure], np.int64)
    x = rng.integers(0, 100, (lengths.sum(), *shape)).astype(dtype)
    combine = op.numpy if isinstance(op, Monoid) else np.add
    identity = op.identity_of(np.dtype(dtype)) if shape else dtype(0)
    segments = np.split(x, np.cumsum(lengths))[: len(lengths)]
    expected = np.empty((len(lengths), *shape), dtype)
    for k, segment in enumerate(segments):
        expected[k] = functools.reduce(combine, segment, identity)
    found = backend.call(gpusolve.segmented_reduce, x, lengths, op)
    same(found, expected, strict=True)


def test_one_segment_of_several_hundred_tiles(
    backend: Any, rng: np.random.Generator
) -> None:
    case = Case("affine", np.dtype(np.int32))
    lengths = np.array([3, 300 * tile_for(8).size, 40 * tile_for(8).size, 2])
    x = case.sample(rng, lengths.sum())
    expected = [case.fold(part) for part in np.split(x, np.cumsum(lengths)[:-1])]
    found = backend.call(gpusolve.segmented_reduce, x, lengths, affine)
    same(found, np.array(expected), strict=True)


def test_float_reductions_have_the_same_bits_in_every_run(
    schedule: str, rng: np.random.Generator, monkeypatch: Any
) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    lengths = rng.integers(0, 5000, 9)
    x = rng.standard_normal(lengths.sum()).astype(np.float32)
    found = gpusolve.segmented_reduce(x, lengths)
    with _emulator.schedule("forward"):
        expected = gpusolve.segmented_reduce(x, lengths)
    same(found.view(np.uint32), expected.view(np.uint32))


# ---- examples from the slides ----


@pytest.mark.paper(
    "Oancea, Segmented scan",
    "sgmScan of the rows is [1, 3, 6, 4, 9, 15, 22, 30, 9, 19], "
    "exclusive [0, 1, 3, 0, 4, 9, 15, 22, 0, 9]",
)
@together("dtype", [np.int64, np.int32, np.uint8, np.bool_])
def test_scan_example_from_the_slides(backend: Any, dtype: Any) -> None:
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


@pytest.mark.paper(
    "Oancea, Segmented sweeps",
    "For the slides' rows the listing gives [1, 1, 3, 0, 5, 16, 7, 22, 9, 9], "
    "with the line that it lacks [0, 1, 3, 0, 4, 9, 15, 22, 0, 9], as the kernels do",
)
def test_sweeps_need_a_line_that_the_listing_lacks(backend: Any) -> None:
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


@pytest.mark.paper(
    "Oancea, Up-sweep and down-sweep",
    "For words a to d, the child combined with its parent ends in cab, not abc",
)
def test_order_of_the_sweeps_matters_if_the_operator_does_not_commute() -> None:
    words, flags = list("abcd"), [0, 0, 0, 0]
    assert listed_sweeps(flags, words, "") == ["", "a", "ab", "abc"]
    child_first = listed_sweeps(flags, words, "", parent_first=False)
    assert child_first == ["", "a", "ab", "cab"]


@pytest.mark.paper(
    "Oancea, Segmented sweeps",
    "10 steps up and 10 down for 1,024 elements, over 1,023 nodes each",
)
def test_segmented_sweeps_have_the_depth_of_sweeps(
    rng: np.random.Generator, monkeypatch: Any
) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    x, flags = np.ones(1_024, np.float32), rng.random(1_024) < 0.1
    with emulator.profile() as report:
        gpusolve.segmented_scan(x, flags, exclusive=True, variant="sweep")
    sweeps = {kernel.name.partition("<")[0]: kernel for kernel in report.kernels}
    up, down = sweeps["segmented_up_sweep"], sweeps["segmented_down_sweep"]
    assert up.launches == down.launches == 10
    # A node of the down-sweep writes both children; a node of the up-sweep reads two
    # elements, and writes an element unless a segment begins at its right child.
    assert down.global_stores == 2 * 1_023
    assert 0 < up.arrays["x"].bytes <= 3 * 1_023 * x.itemsize


@pytest.mark.paper(
    "Oancea, Flags",
    "The shape [0, 3, 1, 0, 4, 2, 0] has [1, 0, 0, 1, 1, 0, 0, 0, 1, 0]",
)
@together("dtype", [np.int64, np.int32, np.uint8])
def test_flags_example_from_the_slides(backend: Any, dtype: Any) -> None:
    lengths = np.array([0, 3, 1, 0, 4, 2, 0], dtype)
    expected = np.array([1, 0, 0, 1, 1, 0, 0, 0, 1, 0], bool)
    same(backend.call(gpusolve.segment_flags, lengths), expected, strict=True)
    same(backend.call(gpusolve.segment_flags, lengths, total=10), expected, strict=True)


@pytest.mark.paper(
    "Oancea, Flags",
    "Its scan is [0, 0, 3, 4, 4, 8, 10], its scatter is at [-1, 0, 3, -1, 4, 8, -1]",
)
def test_listing_of_the_flags(backend: Any) -> None:
    """mkFlagArray of the slides, with each of its arrays."""
    aoa_shp = np.array([0, 3, 1, 0, 4, 2, 0])
    shp_rot = np.array([0, 0, 3, 1, 0, 4, 2])
    shp_scn = backend.call(gpusolve.scan, shp_rot)
    same(shp_scn, [0, 0, 3, 4, 4, 8, 10])
    shp_ind = np.where(aoa_shp == 0, -1, shp_scn)
    same(shp_ind, [-1, 0, 3, -1, 4, 8, -1])
    flags = backend.call(gpusolve.replicate, int(shp_scn[-1] + aoa_shp[-1]), 0)
    ones = backend.call(gpusolve.replicate, 7, 1)
    found = backend.call(gpusolve.scatter, flags, shp_ind, ones)
    same(found, [1, 0, 0, 1, 1, 0, 0, 0, 1, 0])


@together(
    ("lengths", "total", "expected"),
    [([1, 0, 3], 2, [1, 1]), ([1, 0, 3], 1, [1]), ([2, 0], 4, [1, 0, 0, 0])],
)
def test_total_sets_the_number_of_flags(
    backend: Any, lengths: list[int], total: int, expected: list[int]
) -> None:
    found = backend.call(gpusolve.segment_flags, np.array(lengths), total=total)
    same(found, np.array(expected, bool), strict=True)


# ---- flags ----


@together("flag", [2, 256, -3, 2**40])
def test_any_nonzero_integer_is_a_flag(backend: Any, flag: int) -> None:
    flags = np.array([0, 0, flag, 0])
    found = backend.call(gpusolve.segmented_scan, np.ones(4), flags)
    same(found, np.array([1.0, 2, 1, 2]), strict=True)


@together("shape", [(0,), (7,), (8,), (1025,), (3, 7), (2, 3, 33), (4, 0)])
@both_kinds
def test_packed_flags_are_equivalent_to_unpacked(
    backend: Any, exclusive: bool, shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    x = rng.integers(-9, 9, shape, np.int32)
    flags = rng.random(shape) < 0.2
    bits = np.packbits(flags, axis=-1, bitorder="little")
    options = {"exclusive": exclusive}
    same(
        backend.call(gpusolve.segmented_scan, x, bits, packed=True, **options),
        backend.call(gpusolve.segmented_scan, x, flags, **options),
        strict=True,
    )


def test_packed_flags_of_pairs(backend: Any, rng: np.random.Generator) -> None:
    case = Case("affine", np.dtype(np.int32))
    x, flags = case.sample(rng, 100), rng.random(100) < 0.1
    bits = np.packbits(flags, bitorder="little")
    found = backend.call(gpusolve.segmented_scan, x, bits, affine, packed=True)
    same(found, case.segmented_prefixes(x, flags), strict=True)


@every_variant
@both_kinds
def test_each_row_begins_a_segment(
    backend: Any, exclusive: bool, variant: str, rng: np.random.Generator
) -> None:
    case = Case("add", np.dtype(np.int16))
    x = case.sample(rng, 2 * 3 * 50).reshape(2, 3, 50)
    flags = rng.random((2, 3, 50)) < 0.05
    flags[..., 0] = False
    options: dict[str, Any] = {"exclusive": exclusive, "variant": variant}
    found = backend.call(gpusolve.segmented_scan, x, flags, **options)
    bits = np.packbits(flags, axis=-1, bitorder="little")
    packed = backend.call(gpusolve.segmented_scan, x, bits, packed=True, **options)
    same(packed, found, strict=True)
    for k in np.ndindex(2, 3):
        expected = case.segmented_prefixes(x[k], flags[k], exclusive)
        same(found[k], expected, strict=True)


@together("shape", [(50,), (1, 50), (3, 50), (2, 1, 50), (2, 3, 1), ()])
def test_flags_broadcast(
    backend: Any, shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    x = rng.integers(-9, 9, (2, 3, 50), np.int32)
    flags = rng.random(shape) < 0.3
    broadcast = np.broadcast_to(flags, x.shape).copy()
    found = backend.call(gpusolve.segmented_scan, x, np.asarray(flags))
    expected = backend.call(gpusolve.segmented_scan, x, broadcast)
    same(found, expected, strict=True)


@together("view", [lambda x: x.T, lambda x: x[:, ::-2], lambda x: x[1:]])
def test_strided_views(backend: Any, view: Any, rng: np.random.Generator) -> None:
    x, flags = rng.integers(-9, 9, (20, 30), np.int32), rng.random((20, 30)) < 0.2
    found = backend.call(
        lambda x, flags: gpusolve.segmented_scan(view(x), view(flags)), x, flags
    )
    case = Case("add", x.dtype)
    for row, x_row, flags_row in zip(found, view(x), view(flags), strict=True):
        same(row, case.segmented_prefixes(x_row, flags_row), strict=True)


@every_variant
@both_kinds
def test_out_is_returned_and_may_alias_x(
    backend: Any, exclusive: bool, variant: str, rng: np.random.Generator
) -> None:
    case = Case("add", np.dtype(np.int32))
    x, flags = case.sample(rng, 5001), rng.random(5001) < 0.01
    expected = case.segmented_prefixes(x, flags, exclusive)

    def scan_into(x: Any, flags: Any, out: Any) -> Any:
        options: dict[str, Any] = {"exclusive": exclusive, "variant": variant}
        found = gpusolve.segmented_scan(x, flags, out=out, **options)
        return found is out, out

    returned, out = backend.call(scan_into, x, flags, np.zeros_like(x))
    assert returned
    same(out, expected, strict=True)
    returned, out = backend.call(
        lambda x, flags: scan_into(x, flags, x), x.copy(), flags
    )
    assert returned
    same(out, expected, strict=True)


# ---- values ----


@both_kinds
def test_nan_and_infinity_stay_in_their_segment(backend: Any, exclusive: bool) -> None:
    x, flags = np.ones(3000), np.zeros(3000, bool)
    flags[[500, 1500, 1501, 2500]] = True
    x[600], x[1500], x[2400] = np.nan, np.inf, -np.inf
    found = backend.call(gpusolve.segmented_scan, x, flags, exclusive=exclusive)
    case = Case("add", x.dtype)
    same(found, case.segmented_prefixes(x, flags, exclusive), strict=True)
    assert np.isfinite(found[2500:]).all()
    sums = backend.call(
        gpusolve.segmented_reduce, x, np.array([500, 1000, 1, 999, 500])
    )
    same(sums, [500, np.nan, np.inf, -np.inf, 500])


@pytest.mark.parametrize("dtype", ["int8", "uint16"])
def test_overflow_wraps(backend: Any, dtype: str) -> None:
    largest = np.iinfo(dtype).max
    x = np.full(6, largest, dtype)
    found = backend.call(gpusolve.segmented_reduce, x, np.array([1, 2, 3]))
    expected = np.array([largest, 2 * largest, 3 * largest]).astype(dtype)
    same(found, expected, strict=True)


def test_total_of_int8_lengths_may_exceed_int8(backend: Any) -> None:
    lengths = np.array([100, 100, 100], np.int8)
    found = backend.call(gpusolve.segment_flags, lengths)
    same(np.flatnonzero(found), [0, 100, 200])
    assert len(found) == 300
    found = backend.call(gpusolve.segmented_reduce, np.ones(300), lengths)
    same(found, [100, 100, 100])


def test_array_likes_are_accepted(backend: Any) -> None:
    same(gpusolve.segmented_scan([1, 2, 3], [1, 0, 1]), [1, 3, 3])
    same(gpusolve.segmented_reduce([1, 2, 3], [2, 0, 1], "mul"), [2, 1, 3])
    same(gpusolve.segment_flags([2, 1]), [True, False, True])


def test_reference_accepts_flags_and_lengths_of_any_integer_dtype() -> None:
    x, lengths = np.ones(200), np.array([100, 100], np.int8)
    flags = gpusolve.reference.segment_flags(lengths)
    same(np.flatnonzero(flags), [0, 100])
    found = gpusolve.reference.segmented_scan(x, flags * np.int8(-2))
    same(found, np.tile(np.arange(1.0, 101), 2), strict=True)


# ---- properties ----

lists_of_lengths = st.lists(st.one_of(st.just(0), st.integers(0, 40)), max_size=20)


@given(lists_of_lengths)
def test_flags_agree_with_brute_force(backend: Any, lengths: list[int]) -> None:
    found = backend.call(gpusolve.segment_flags, np.array(lengths, np.int64))
    same(found, np.array(flags_by_brute_force(lengths), bool), strict=True)


@both_kinds
@given(lists_of_lengths)
def test_segmented_scan_scans_each_segment(
    backend: Any, exclusive: bool, lengths: list[int]
) -> None:
    offsets = offsets_of(lengths)
    x = np.random.default_rng(offsets[-1]).integers(-2, 3, offsets[-1], np.int8)
    flags = np.array(flags_by_brute_force(lengths), bool)
    options = {"op": first_nonzero, "exclusive": exclusive}
    found = backend.call(gpusolve.segmented_scan, x, flags, **options)
    scans = [
        backend.call(gpusolve.scan, segment, **options)
        for segment in np.split(x, offsets)
    ]
    same(found, np.concatenate(scans), strict=True)


@given(lists_of_lengths)
def test_segmented_reduction_reduces_each_segment(
    backend: Any, lengths: list[int]
) -> None:
    offsets = offsets_of(lengths)
    x = np.random.default_rng(offsets[-1]).integers(-2, 3, offsets[-1], np.int8)
    found = backend.call(gpusolve.segmented_reduce, x, np.array(lengths), first_nonzero)
    segments = np.split(x, offsets[1:])[: len(lengths)]
    expected = [
        backend.call(gpusolve.reduce, segment, first_nonzero) for segment in segments
    ]
    same(found, np.array(expected, np.int8), strict=True)


# ---- invalid arguments ----

x, flags = np.ones((4, 3)), np.zeros((4, 3), bool)


@without_gpu
@together(
    ("arguments", "options", "error", "message"),
    [
        ((x, flags, "sum"), {}, ValueError, "op must .*got 'sum'"),
        ((x * 1j, flags, "max"), {}, TypeError, "complex128"),
        ((x.astype(object), flags), {}, TypeError, "object"),
        ((x, flags * 1.0), {}, TypeError, "flags must .*got float64"),
        (
            (x, flags[:, :2]),
            {},
            ValueError,
            r"flags must broadcast to \(4, 3\).*got \(4, 2\)",
        ),
        ((x, flags[:3]), {}, ValueError, r"flags must .*got .*\(3, 3\)"),
        ((x[0], flags), {}, ValueError, r"flags must .*got .*\(4, 3\)"),
        (
            (np.ones((4, 2)), flags[:, :2], affine),
            {},
            ValueError,
            "flags must broadcast",
        ),
        ((x, flags, affine), {}, ValueError, r"x must .*got .*\(4, 3\)"),
        ((3.0, True), {}, ValueError, "x"),
        (
            (x, flags),
            {"out": np.ones((3, 4))},
            ValueError,
            r"out must .*got .*\(3, 4\)",
        ),
        ((x, flags), {"out": flags}, (TypeError, ValueError), "out.*bool"),
        (
            (x, flags),
            {"packed": True},
            TypeError,
            "packed flags must have dtype uint8, got bool",
        ),
        (
            (x, np.zeros((4, 2), np.uint8)),
            {"packed": True},
            ValueError,
            r"flags must .*got .*\(4, 2\)",
        ),
    ],
)
def test_invalid_scans_are_rejected(
    backend: Any, arguments: Any, options: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        gpusolve.segmented_scan(*arguments, **options)


@without_gpu
@together(
    ("arguments", "options", "error", "message"),
    [
        ((np.ones(5), [2, 2]), {}, ValueError, "lengths must sum to the 5 .*got 4"),
        ((np.ones(5), [2, 4]), {}, ValueError, "lengths must sum to the 5 .*got 6"),
        ((np.ones(5), [6, -1]), {}, ValueError, "negative length, got -1"),
        ((np.ones(5), [2.0, 3.0]), {}, TypeError, "lengths must .*got float64"),
        ((np.ones(5), [[2, 3]]), {}, ValueError, r"lengths must .*got .*\(1, 2\)"),
        ((np.ones(5), 5), {}, ValueError, "lengths"),
        ((x, [2, 2]), {}, ValueError, r"x must .*got .*\(4, 3\)"),
        ((np.ones(5), [5], "sum"), {}, ValueError, "op must .*got 'sum'"),
        ((np.ones(5),), {}, (TypeError, ValueError), "lengths.*offsets"),
        ((np.ones(5), [5]), {"offsets": [0, 5]}, (TypeError, ValueError), "offsets"),
        (
            (np.ones(5),),
            {"offsets": [0, 4]},
            ValueError,
            "offsets must go from 0 to 5.*got 0 to 4",
        ),
        ((np.ones(5),), {"offsets": [1, 5]}, ValueError, "offsets.*1"),
        ((np.ones(5),), {"offsets": [0, 3, 2, 5]}, ValueError, "offsets"),
        ((np.ones(5),), {"offsets": []}, ValueError, "offsets"),
        (
            (np.ones(5),),
            {"offsets": [0.0, 5.0]},
            TypeError,
            "offsets must .*got float64",
        ),
    ],
)
def test_invalid_reductions_are_rejected(
    backend: Any, arguments: Any, options: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        gpusolve.segmented_reduce(*arguments, **options)


@without_gpu
@together(
    ("lengths", "options", "error", "message"),
    [
        ([2, -1], {}, ValueError, "lengths must not be negative, got -1"),
        ([2.0], {}, TypeError, "lengths must .*got float64"),
        ([[2, 3]], {}, ValueError, r"lengths must .*got .*\(1, 2\)"),
        ([2, 3], {"total": -1}, ValueError, "total must not be negative, got -1"),
        ([2, 3], {"total": 5.0}, TypeError, "total must be an integer, got 5.0"),
    ],
)
def test_invalid_lengths_are_rejected(
    backend: Any, lengths: Any, options: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        gpusolve.segment_flags(lengths, **options)
