"""Reductions and scans, with and without segments.

The expected results are computed by brute force, one element after the other.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from backends import numpy_only, on_emulator
from monoids import (
    EVERY_DTYPE,
    FEW,
    LENGTHS,
    REPRESENTATIVE,
    Case,
    affine,
    cases,
    frozen,
    matrix_product,
)
from numpy.random import Generator
from together import together

import gpusolve
from gpusolve import Monoid, emulator

# The size of a tile, around which segments are made.
from gpusolve._blocks.scan_kernel import tile_for

same = np.testing.assert_array_equal

KINDS = (False, True)
"""Inclusive and exclusive scans."""
DENSITIES = (0, 0.001, 0.03, 0.5, 1)
"""Segments per element, from a single segment to a segment for each element."""
SEGMENTS = ([], [0], [0, 0], [1], [0, 3, 1, 0, 4, 2, 0], [0, 1025, 0, 33, 0])
"""Lengths of segments; others are drawn."""

ORDERED = {
    "reduce": ("auto", "tree", "group", "chunked"),
    "scan": ("auto", "look_back", "hierarchical", "sweep", "warp"),
    "segmented_scan": ("auto", "look_back", "sweep"),
}
"""Variants that do not need a commutative operator."""
UNORDERED = ("reduce512", "atomic", "atomic_each")
EVERY = [(name, variant) for name, found in ORDERED.items() for variant in found]
EVERY += [("reduce", variant) for variant in UNORDERED]
every_variant = together(("name", "variant"), EVERY)


class Call(NamedTuple):
    """A call, and what it must return."""

    name: str
    args: tuple[Any, ...]
    options: dict[str, Any]
    expected: Any

    def check(self, backend: Any, **options: Any) -> None:
        options = {**self.options, **options}
        found = backend.call(getattr(gpusolve, self.name), *self.args, **options)
        size = f"{self.name} of {len(self.args[0])} elements, {options}"
        same(found, self.expected, strict=True, err_msg=size)


def calls(
    case: Case,
    lengths: tuple[int, ...] = LENGTHS,
    densities: tuple[float, ...] = DENSITIES,
) -> Iterator[Call]:
    """Calls of reductions and scans of arrays of these lengths, with any segments."""
    rng, op = np.random.default_rng(1), case.op
    for n in lengths:
        x = frozen(case.sample(rng, n))
        yield Call("reduce", (x, op), {}, case.fold(x))
        for exclusive in KINDS:
            prefixes = case.prefixes(x, exclusive)
            yield Call("scan", (x,), {"op": op, "exclusive": exclusive}, prefixes)
        for density in densities if n < 1100 else (0.001,):
            flags = frozen(rng.random(n) < density)
            for exclusive in KINDS:
                options = {"op": op, "exclusive": exclusive}
                prefixes = case.segmented_prefixes(x, flags, exclusive)
                yield Call("segmented_scan", (x, flags), options, prefixes)


def calls_of_any_segments(case: Case, most: int = 3000) -> Iterator[Call]:
    rng = np.random.default_rng(1)
    drawn = [rng.integers(0, *one).tolist() for one in ((2, 70), (40, 70), (most, 9))]
    for sizes in (*SEGMENTS, *drawn):
        yield from calls_of_segments(case, np.array(sizes, int), rng)


def calls_of_segments(case: Case, lengths: Any, rng: Generator) -> Iterator[Call]:
    """The reductions of segments of these lengths, and their flags."""
    offsets = np.append(0, np.cumsum(lengths))
    x = frozen(case.sample(rng, offsets[-1]))
    folds = [case.fold(x[i:j]) for i, j in itertools.pairwise(offsets)]
    expected = np.array(folds, case.dtype).reshape(-1, *case.element_shape)
    for marks in ({"lengths": lengths}, {"offsets": offsets}):
        yield Call("segmented_reduce", (x,), {"op": case.op, **marks}, expected)
    flags = [k == 0 for length in lengths for k in range(length)]
    yield Call("segment_flags", (lengths,), {}, np.array(flags, bool))


@functools.cache
def stored_calls(case: Case) -> list[Call]:
    """All calls, which the backends share; arrays of matrices are shorter."""
    lengths = LENGTHS[:-1] if case.element_shape else LENGTHS
    return [*calls(case, lengths), *calls_of_any_segments(case)]


@functools.cache
def long_calls(case: Case) -> list[Call]:
    return list(calls(case, (5001,)))


# ---- any monoid, in every variant ----------------------------------------------------


@pytest.mark.paper(
    "Oancea, Reduce", "reduce is e op a1 op ... op an for any associative operator"
)
@pytest.mark.paper(
    "Oancea, Scan", "The inclusive and the exclusive scan agree with the definition"
)
@pytest.mark.parametrize("case", REPRESENTATIVE, ids=str)
def test_blocks_agree_with_brute_force(backend: Any, case: Case) -> None:
    for call in stored_calls(case):
        call.check(backend)


@numpy_only
@together("case", EVERY_DTYPE, ids=str)
def test_every_dtype(backend: Any, case: Case) -> None:
    for call in (*calls(case, (0, 1, 33), (0.5,)), *calls_of_any_segments(case, 99)):
        call.check(backend)


COMMUTING = cases(
    ("add", "int8 int32 int64 complex64"), ("max", "float64"), ("logical_or", "float32")
)


@pytest.mark.parametrize(
    ("case", "unordered"),
    [*((case, False) for case in FEW), *((case, True) for case in COMMUTING)],
    ids=str,
)
def test_variants_agree_with_brute_force(
    backend: Any, case: Case, unordered: bool
) -> None:
    variants = {name: found[1:] for name, found in ORDERED.items()}
    lengths = LENGTHS if unordered else (0, 1, 32, 33, 257, 1025)
    for call in calls(case, lengths, (0.03, 0.5)):
        chosen = {"reduce": UNORDERED} if unordered else variants
        for variant in chosen.get(call.name, ()):
            call.check(backend, variant=variant)


@on_emulator
@every_variant
def test_any_schedule_of_threads_and_blocks(
    backend: Any, name: str, variant: str, schedule: str
) -> None:
    case = Case("add" if variant in UNORDERED else "affine", np.dtype(np.int32))
    for call in long_calls(case):
        if call.name == name:
            call.check(backend, variant=variant)


# ---- rows, views and out -------------------------------------------------------------

SHAPES = [
    [(0,), (90, 3), (2, 3, 33)],
    [(1,), (0, 5), (3, 300)],
    [(8,), (5, 0), (2, 3, 70), (3, 7)],
]

VIEWS = [
    lambda x: x,
    lambda x: x[::-1],
    lambda x: x.T,
    lambda x: x[..., ::-2],
    lambda x: x[1:, None],
    lambda x: x.T[::3].T,
]

INTO = ["new", "x", "part"]
"""Where a scan writes: a new array, its input, and a view of a larger array."""


@every_variant
@together("shapes", SHAPES)
def test_axes_of_views(
    backend: Any, shapes: Any, name: str, variant: str, rng: Generator
) -> None:
    """Each row begins a segment. Flags are bools or packed bits, and may broadcast."""
    function = getattr(gpusolve, name)
    case = Case("add" if variant in UNORDERED else "first nonzero", np.dtype(np.int16))
    given: dict[str, Any] = {"op": case.op, "variant": variant}
    ways = list(zip(VIEWS, 2 * INTO, 3 * KINDS, strict=True))
    for shape, (view, into, exclusive) in itertools.product(shapes, ways):
        x = rng.integers(0, 2, shape, np.int16) * rng.integers(1, 99, shape, np.int16)
        axes = range(-1, view(x).ndim - 1)
        for axis in axes if name != "segmented_scan" else (-1,):
            rows = np.moveaxis(view(x), axis, -1)
            if name == "reduce":
                options = {**given, "axis": axis}
                found = backend.call(
                    lambda x, o=options, v=view: function(v(x), **o), x
                )
                folds = [case.fold(rows[k]) for k in np.ndindex(rows.shape[:-1])]
                expected = np.array(folds, case.dtype).reshape(rows.shape[:-1])
                same(found, expected, strict=True)
                continue
            options = {**given, "exclusive": exclusive}
            flags = np.zeros(rows.shape, bool)
            if name == "scan":
                options["axis"] = axis
                marks = [({}, ())]
            else:
                shared = into == "new" and rows.ndim > 1
                flags = rng.random(rows[:1].shape if shared else rows.shape) < 0.2
                bits = np.packbits(flags, axis=-1, bitorder="little")
                marks = [({}, (flags,)), ({"packed": True}, (bits,))]
            expected, flags = np.empty_like(rows), np.broadcast_to(flags, rows.shape)
            for k in np.ndindex(rows.shape[:-1]):
                expected[k] = case.segmented_prefixes(rows[k], flags[k], exclusive)
            for more, mark in marks:
                check_scan(
                    backend,
                    functools.partial(function, **options, **more),
                    (x, *mark),
                    view,
                    into,
                    np.moveaxis(expected, -1, axis),
                )


def check_scan(
    backend: Any, scan: Any, given: Any, view: Any, into: str, expected: Any
) -> None:
    """What a scan of a view returns, and what it writes."""

    def call(x: Any, other: Any, *marks: Any) -> Any:
        written = {"new": None, "x": x, "part": other}[into]
        out = None if written is None else view(written)
        found = scan(view(x), *marks, out=out)
        assert out is None or found is out
        return found, x, other

    x, *marks = given
    found, *left = backend.call(call, x.copy(), np.full_like(x, 99), *marks)
    same(found, expected, strict=True)
    arrays = [x.copy(), np.full_like(x, 99)]
    if into != "new":
        view(arrays[into == "part"])[...] = expected
    for after, array in zip(left, arrays, strict=True):
        same(after, array)


def test_every_tuple_of_axes(backend: Any, rng: Generator) -> None:
    x = rng.integers(-9, 9, (3, 4, 5), np.int32)
    for count in range(4):
        for axes in itertools.permutations(range(3), count):
            for given_axes in (axes, tuple(axis - 3 for axis in axes)):
                found = backend.call(gpusolve.reduce, x, axis=given_axes)
                same(found, x.sum(axes, np.int32), strict=True)
    same(backend.call(gpusolve.reduce, np.int32(7)), np.int32(7))


@together("axis", [0, 1, -1, -2])
def test_axes_of_matrices(backend: Any, axis: int, rng: Generator) -> None:
    """A row has the elements along the axis; all axes are combined in C order."""
    x = rng.integers(-9, 9, (5, 6, 2, 2))
    rows = np.moveaxis(x, axis % 2, 0)
    expected = list(itertools.accumulate(rows, np.matmul))
    found = backend.call(gpusolve.scan, x, matrix_product, axis=axis)
    same(found, np.moveaxis(np.stack(expected), 0, axis % 2), strict=True)
    found = backend.call(gpusolve.reduce, x, matrix_product, axis=axis)
    same(found, expected[-1], strict=True)
    found = backend.call(gpusolve.reduce, x, matrix_product, axis=(1, 0))
    same(found, functools.reduce(np.matmul, x.reshape(-1, 2, 2)), strict=True)


def test_results_are_copies_and_lists_are_accepted(backend: Any) -> None:
    product = gpusolve.Monoid(
        "product of 1 x 1", [[1.0]], ("a[0] * b[0]",), np.matmul, commutative=True
    )
    x = np.arange(7.0).reshape(7, 1)
    single = backend.call(gpusolve.reduce, x[:1, None], product, axis=0)
    single += 1
    same(x, np.arange(7.0).reshape(7, 1))
    assert gpusolve.reduce(((1.5, 2), (3, 4)), "max") == 4
    same(gpusolve.scan([3, 1, 4]), [3, 4, 8])
    same(gpusolve.segmented_scan([1, 2, 3], [1, 0, 1]), [1, 3, 3])
    same(gpusolve.segmented_scan([1, 2, 3], True), [1, 2, 3])
    same(gpusolve.segmented_reduce([1, 2, 3], [2, 0, 1], "mul"), [2, 1, 3])


@together("shift", [-1, 1, 2000])
def test_out_may_overlap_x(backend: Any, shift: int) -> None:
    memory = backend.array(np.ones(20000, np.int64))
    x = memory[max(0, -shift) : 20000 - max(0, shift)]
    out = memory[max(0, shift) : 20000 + min(0, shift)]
    assert gpusolve.scan(x, out=out) is out
    same(backend.numpy(out), np.arange(1, len(out) + 1))


def test_elements_of_16_bytes_at_any_address(backend: Any) -> None:
    """A scan writes such an element by one store where its address allows it."""
    case = Case("affine", np.dtype(np.int64))
    x = case.sample(np.random.default_rng(2), 2000)
    memory = backend.array(np.zeros(2 * 2000 + 1, np.int64))
    for first in (0, 1):
        out = memory[first : first + 4000].reshape(2000, 2)
        gpusolve.scan(backend.array(x), affine, out=out)
        same(backend.numpy(out), case.prefixes(x))


# ---- segments across tiles -----------------------------------------------------------

latest = Monoid(
    "latest nonzero",
    identity=(0,) * 16,
    cuda=tuple(f"b[{k}] != T(0) ? b[{k}] : a[{k}]" for k in range(16)),
    numpy=lambda a, b: np.where(b != 0, b, a),
    commutative=False,
)
"""Elements of 16 numbers: 64 bytes of uint32."""


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
    ("op", "dtype", "shape"),
    [("add", "int32", ()), (affine, "int64", (2,)), (latest, "uint32", (16,))],
    ids=["4 bytes", "16 bytes", "64 bytes"],
)
def test_reductions_across_tiles(
    backend: Any, op: Any, dtype: str, shape: Any, structure: str, rng: Generator
) -> None:
    tile = tile_for(math.prod(shape) * np.dtype(dtype).itemsize)
    lengths = np.array(structures(tile.size)[structure], np.int64)
    x = rng.integers(0, 100, (lengths.sum(), *shape)).astype(dtype)
    x *= rng.random(x.shape) < 0.1
    combine = op.numpy if isinstance(op, Monoid) else np.add
    identity = op.identity_of(x.dtype) if shape else x.dtype.type(0)
    segments = np.split(x, np.cumsum(lengths))[: len(lengths)]
    folds = [functools.reduce(combine, segment, identity) for segment in segments]
    found = backend.call(gpusolve.segmented_reduce, x, lengths, op)
    same(found, np.array(folds, dtype).reshape(-1, *shape), strict=True)


def test_a_segment_of_a_hundred_tiles(device_backend: Any) -> None:
    lengths = np.array([3, 100 * tile_for(8).size, 40 * tile_for(8).size, 2])
    case, rng = Case("affine", np.dtype(np.int32)), np.random.default_rng(0)
    next(calls_of_segments(case, lengths, rng)).check(device_backend)


def test_segments_of_smaller_results_and_of_int8_lengths(backend: Any) -> None:
    """Of bools from float64, across tiles; the sum of the lengths may exceed int8."""
    rng = np.random.default_rng(0)
    for case, lengths in (
        (Case("logical_and", np.dtype(float)), rng.integers(0, 600, 40)),
        (Case("add", np.dtype(float)), np.array([100, 100, 100], np.int8)),
    ):
        for call in calls_of_segments(case, lengths, rng):
            call.check(backend)


@on_emulator
def test_float_reductions_have_the_same_bits_in_every_run(
    backend: Any, schedule: str, rng: Generator
) -> None:
    lengths = rng.integers(0, 5000, 9)
    x = rng.standard_normal(lengths.sum()).astype(np.float32)
    found = gpusolve.segmented_reduce(x, lengths)
    with emulator.schedule("forward"):
        expected = gpusolve.segmented_reduce(x, lengths)
    same(found.view(np.uint32), expected.view(np.uint32))


@together(
    ("lengths", "total", "expected"),
    [([1, 0, 3], 2, [1, 1]), ([1, 0, 3], 1, [1]), ([2, 0], 4, [1, 0, 0, 0])],
)
def test_total_sets_the_number_of_flags(
    backend: Any, lengths: list[int], total: int, expected: list[int]
) -> None:
    found = backend.call(gpusolve.segment_flags, np.array(lengths), total=total)
    same(found, np.array(expected, bool), strict=True)


@together("flag", [2, 256, -3, 2**40])
def test_any_nonzero_integer_is_a_flag(backend: Any, flag: int) -> None:
    flags = np.array([0, 0, flag, 0])
    for scan in (gpusolve.segmented_scan, gpusolve.reference.segmented_scan):
        found = backend.call(scan, np.ones(4), flags)
        same(found, np.array([1.0, 2, 1, 2]), strict=True)
    found = gpusolve.reference.segment_flags(np.array([100, 0, 100], np.int8))
    same(np.flatnonzero(found), [0, 100])


# ---- values --------------------------------------------------------------------------


@every_variant
@together("op", ["min", "max", "add"])
def test_infinity_and_nan_stay_where_they_belong(
    backend: Any, op: str, name: str, variant: str
) -> None:
    case, places = Case(op, np.dtype(np.float32)), (0, 31, 600, 2999)
    x, flags = np.ones((3, 4, 3000), np.float32), np.zeros((3, 4, 3000), bool)
    flags[..., [500, 1500, 1501, 2500]] = name == "segmented_scan"
    x[0, range(4), places], x[1:, range(4), places] = np.nan, np.inf
    x[2, :, 2400] = -np.inf
    given = (x, flags, op) if name == "segmented_scan" else (x, op)
    options = {"axis": -1} if name != "segmented_scan" else {}
    found = backend.call(getattr(gpusolve, name), *given, variant=variant, **options)
    for k in np.ndindex(3, 4):
        expected = case.segmented_prefixes(x[k], flags[k])
        same(found[k], expected[-1] if name == "reduce" else expected)
    lengths = np.array([500, 1000, 1, 999, 500])
    x = np.ones(3000)
    x[600], x[1500], x[2400] = np.nan, np.inf, -np.inf
    found = backend.call(gpusolve.segmented_reduce, x, lengths)
    same(found, [500, np.nan, np.inf, -np.inf, 500])


@together(("name", "variant"), [one for one in EVERY if one[0] != "segmented_scan"])
@together("dtype", [np.float32, np.float64])
def test_rounding_errors_of_sums_are_bounded(
    backend: Any, dtype: Any, name: str, variant: str, rng: Generator
) -> None:
    x = rng.standard_normal(5001).astype(dtype)
    found = np.ravel(backend.call(getattr(gpusolve, name), x, variant=variant))
    values, half = x.tolist(), float(np.finfo(dtype).eps) / 2
    for k in (1, 31, 32, 100, 1024, 5001) if name == "scan" else (5001,):
        magnitude = math.fsum(map(abs, values[:k]))
        exact = math.fsum(values[:k])
        error = abs(float(found[min(k, len(found)) - 1]) - exact)
        assert error <= k * half * magnitude


def test_operators_of_users(backend: Any, rng: Generator) -> None:
    """An operator may return another dtype, and be a ufunc of Python's objects."""
    odd = gpusolve.Monoid(
        "odd", 0, "T((a != 0) != (b != 0))", np.logical_xor, commutative=True
    )
    x = rng.integers(0, 2, 1000, np.int16)
    found = backend.call(gpusolve.reduce, x, odd)
    same(found, np.array(x.sum() % 2, np.int16), strict=True)
    python = np.frompyfunc(int.__and__, 2, 1)
    common = gpusolve.Monoid("bits in common", -1, "a & b", python, True, kinds="i")
    y = rng.integers(0, 2**40, 100) | 2**41
    found = backend.call(gpusolve.reduce, y, common)
    same(found, np.bitwise_and.reduce(y), strict=True)
