"""What reductions and scans, with and without segments, have in common.

The expected results are computed by brute force, one element after the other.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from backends import STRIDED_VIEWS, numpy_only
from hypothesis import given
from hypothesis import strategies as st
from monoids import (
    EVERY_DTYPE,
    FEW,
    LENGTHS,
    REPRESENTATIVE,
    Case,
    affine,
    cases,
    first_nonzero,
    frozen,
    matrix_product,
)
from numpy.random import Generator
from together import together

import gpusolve

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
    """Calls of each function with arrays of these lengths, and segments of any."""
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
    drawn = [rng.integers(0, *one).tolist() for one in ((2, 70), (40, 70), (3000, 9))]
    for sizes in (*SEGMENTS, *drawn):
        offsets = np.append(0, np.cumsum(sizes, dtype=np.int64))
        x = frozen(case.sample(rng, offsets[-1]))
        folds = [case.fold(x[i:j]) for i, j in itertools.pairwise(offsets)]
        expected = np.array(folds, case.dtype).reshape(-1, *case.element_shape)
        for marks in ({"lengths": np.array(sizes, int)}, {"offsets": offsets}):
            yield Call("segmented_reduce", (x,), {"op": op, **marks}, expected)


@functools.cache
def stored_calls(case: Case) -> list[Call]:
    """`calls`, which the backends share."""
    return list(calls(case))


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
    for call in calls(case, (0, 1, 33), (0.5,)):
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


@together(("name", "variant"), EVERY)
def test_any_schedule_of_threads_and_blocks(
    name: str, variant: str, schedule: str, rng: Generator, monkeypatch: Any
) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    case = Case("add" if variant in UNORDERED else "affine", np.dtype(np.int32))
    x, flags = case.sample(rng, 5001), rng.random(5001) < 0.002
    function: Callable[..., Any] = getattr(gpusolve, name)
    if name == "reduce":
        same(function(x, case.op, variant=variant), case.fold(x), strict=True)
        return
    given = (x, flags) if name == "segmented_scan" else (x,)
    for exclusive in KINDS:
        options = {"op": case.op, "exclusive": exclusive, "variant": variant}
        starts = flags if name == "segmented_scan" else np.zeros(5001, bool)
        expected = case.segmented_prefixes(x, starts, exclusive)
        same(function(*given, **options), expected, strict=True)


# ---- shapes and layouts --------------------------------------------------------------

SHAPES = [(0,), (1,), (0, 5), (5, 0), (700, 3), (3, 700), (2, 3, 70)]


@together(("name", "variant"), EVERY)
@together("shape", SHAPES)
def test_shapes_and_axes(
    backend: Any, shape: tuple[int, ...], name: str, variant: str, rng: Generator
) -> None:
    x = rng.integers(-(2**31), 2**31, shape, np.int32)
    for axis in range(-len(shape), len(shape)):
        if name == "reduce":
            found = backend.call(gpusolve.reduce, x, axis=axis, variant=variant)
            same(found, x.sum(axis, np.int32), strict=True)
        elif name == "scan":
            sums = x.cumsum(axis, np.int32)
            for exclusive in KINDS:
                options = {"axis": axis, "exclusive": exclusive, "variant": variant}
                found = backend.call(gpusolve.scan, x, **options)
                same(found, sums - x if exclusive else sums, strict=True)


def test_every_tuple_of_axes(backend: Any, rng: Generator) -> None:
    x = rng.integers(-9, 9, (3, 4, 5), np.int32)
    for count in range(4):
        for axes in itertools.permutations(range(3), count):
            for given_axes in (axes, tuple(axis - 3 for axis in axes)):
                found = backend.call(gpusolve.reduce, x, axis=given_axes)
                same(found, x.sum(axes, np.int32), strict=True)
    same(backend.call(gpusolve.reduce, np.int32(7)), np.int32(7))


@together("view", [*STRIDED_VIEWS, lambda x: x.T[::-1]])
@together("axis", [0, -1])
def test_strided_views(backend: Any, view: Any, axis: int, rng: Generator) -> None:
    x = rng.integers(0, 2, (13, 40), np.int16) * rng.integers(1, 99, (13, 40), np.int16)
    flags, case = rng.random((13, 40)) < 0.2, Case("first nonzero", x.dtype)
    rows = np.moveaxis(view(x), axis, -1)
    folds = np.apply_along_axis(case.fold, -1, rows)
    found = backend.call(
        lambda x: gpusolve.reduce(view(x), first_nonzero, axis=axis), x
    )
    same(found, folds, strict=True)
    found = backend.call(lambda x: gpusolve.scan(view(x), first_nonzero, axis=axis), x)
    scans = np.apply_along_axis(case.prefixes, -1, rows)
    same(np.moveaxis(found, axis, -1), scans, strict=True)
    found = backend.call(
        lambda x, flags: gpusolve.segmented_scan(view(x), view(flags)), x, flags
    )
    add = Case("add", x.dtype)
    for place in np.ndindex(found.shape[:-1]):
        expected = add.segmented_prefixes(view(x)[place], view(flags)[place])
        same(found[place], expected, strict=True)


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


def test_inputs_are_not_changed_and_lists_are_accepted(backend: Any) -> None:
    product = gpusolve.Monoid(
        "product of 1 x 1", [[1.0]], ("a[0] * b[0]",), np.matmul, commutative=True
    )
    x = np.arange(7.0).reshape(7, 1)
    single = backend.call(gpusolve.reduce, x[:1, None], product, axis=0)
    single += 1
    assert backend.call(gpusolve.reduce, np.broadcast_to(x, (7, 3))) == 63
    y = backend.array(x)
    for exclusive in KINDS:
        gpusolve.scan(y, axis=0, exclusive=exclusive)
    same(backend.numpy(y), x)
    same(x, np.arange(7.0).reshape(7, 1))
    assert gpusolve.reduce(((1.5, 2), (3, 4)), "max") == 4
    same(gpusolve.scan([3, 1, 4]), [3, 4, 8])
    same(gpusolve.segmented_scan([1, 2, 3], [1, 0, 1]), [1, 3, 3])
    same(gpusolve.segmented_reduce([1, 2, 3], [2, 0, 1], "mul"), [2, 1, 3])


# ---- out -----------------------------------------------------------------------------


@together(("name", "variant"), [one for one in EVERY if one[0] != "reduce"])
@together("exclusive", KINDS)
def test_out_is_returned_and_may_alias_x(
    backend: Any, exclusive: bool, name: str, variant: str, rng: Generator
) -> None:
    case = Case("add", np.dtype(np.int32))
    x, flags = case.sample(rng, 5001), rng.random(5001) < 0.01
    marks = (flags,) if name == "segmented_scan" else ()
    starts = flags if marks else np.zeros(5001, bool)
    expected = case.segmented_prefixes(x, starts, exclusive)

    def scan_into(x: Any, out: Any, *marks: Any) -> Any:
        options = {"exclusive": exclusive, "variant": variant}
        found = getattr(gpusolve, name)(x, *marks, out=out, **options)
        return found is out, out

    for aliased in (False, True):
        call = (
            (lambda x, out, *marks: scan_into(x, x, *marks)) if aliased else scan_into
        )
        returned, out = backend.call(call, x.copy(), np.zeros_like(x), *marks)
        assert returned
        same(out, expected, strict=True)


@together("view", [lambda x: x.T, lambda x: x[:, ::2], lambda x: x[::-1, 5:25]])
def test_out_may_be_a_strided_view(backend: Any, view: Any, rng: Generator) -> None:
    x = rng.integers(-9, 9, (30, 30), np.int32)

    def scan_views(x: Any, out: Any) -> Any:
        return gpusolve.scan(view(x), axis=0, out=view(out)), out

    found, out = backend.call(scan_views, x, np.full_like(x, 99))
    expected = np.full_like(x, 99)
    view(expected)[...] = view(x).cumsum(0, np.int32)
    same(found, view(expected), strict=True)
    same(out, expected, strict=True)


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


# ---- values --------------------------------------------------------------------------


@together("op", ["min", "max"])
@together(("name", "variant"), [one for one in EVERY if one[0] != "segmented_scan"])
def test_nan_propagates(backend: Any, op: str, name: str, variant: str) -> None:
    for position in (0, 31, 1099):
        x = np.linspace(-1, 1, 1100, dtype=np.float32)
        x[position] = np.nan
        found = backend.call(getattr(gpusolve, name), x, op, variant=variant)
        scans = {"min": np.minimum.accumulate, "max": np.maximum.accumulate}[op](x)
        same(found, scans if name == "scan" else np.float32(np.nan))
    x = np.array([np.inf, -np.inf, 3], np.float32)
    found = backend.call(getattr(gpusolve, name), x, op, variant=variant)
    assert np.ravel(found)[-1] == {"min": -np.inf, "max": np.inf}[op]


@together(("name", "variant"), EVERY)
def test_infinity_and_nan_stay_where_they_belong(
    backend: Any, name: str, variant: str
) -> None:
    x, flags = np.ones(3000), np.zeros(3000, bool)
    flags[[500, 1500, 1501, 2500]] = name == "segmented_scan"
    x[600], x[1500], x[2400] = np.nan, np.inf, -np.inf
    case, given = Case("add", x.dtype), (x, flags) if flags.any() else (x,)
    found = backend.call(getattr(gpusolve, name), *given, variant=variant)
    expected = case.segmented_prefixes(x, flags)
    same(found, expected[-1] if name == "reduce" else expected)
    lengths = np.array([500, 1000, 1, 999, 500])
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
    common = gpusolve.Monoid(
        "bits in common",
        identity=-1,
        cuda="a & b",
        numpy=np.frompyfunc(int.__and__, 2, 1),
        commutative=True,
        kinds="i",
    )
    y = rng.integers(0, 2**40, 100) | 2**41
    found = backend.call(gpusolve.reduce, y, common)
    same(found, np.bitwise_and.reduce(y), strict=True)


# ---- laws ----------------------------------------------------------------------------

lists_of_lengths = st.lists(st.one_of(st.just(0), st.integers(0, 40)), max_size=20)


@given(lists_of_lengths)
def test_segments_are_scanned_and_reduced_apart(
    backend: Any, lengths: list[int]
) -> None:
    offsets = np.append(0, np.cumsum(lengths, dtype=int))
    x = np.random.default_rng(offsets[-1]).integers(-2, 3, offsets[-1], np.int8)
    parts = [x[i:j] for i, j in itertools.pairwise(offsets)]
    flags = backend.call(gpusolve.segment_flags, np.array(lengths, np.int64))
    same(flags, [k == 0 for length in lengths for k in range(length)])
    case, given = Case("first nonzero", x.dtype), (x, flags, first_nonzero)
    for exclusive in KINDS:
        found = backend.call(gpusolve.segmented_scan, *given, exclusive=exclusive)
        scans = [case.prefixes(part, exclusive) for part in parts]
        same(found, np.concatenate([x[:0], *scans]), strict=True)
    found = backend.call(gpusolve.segmented_reduce, x, np.array(lengths), first_nonzero)
    same(found, np.array([case.fold(part) for part in parts], np.int8), strict=True)
