"""Map, its fusion into other maps, reduce, scan and partition; zip and unzip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from monoids import Case, affine, anything, is_even, is_positive, square
from numpy.random import Generator
from together import together

import gpusolve
from gpusolve import Map, reference

same = np.testing.assert_array_equal

plus_one = Map("plus one", "x + 1", lambda x: x + 1)
double = Map("double", "2 * x", lambda x: 2 * x, dtype=np.int64)
halve = Map("halve", "0.5 * x", lambda x: 0.5 * x, dtype=np.float64)
pair = Map("pair", ("x", "x + 1"), lambda x: np.stack([x, x + 1], axis=-1))
times = Map("times", "x * y", np.multiply, parameters=("x", "y"))
choose = Map("choose", "c ? a : b", np.where, parameters=("c", "a", "b"))
line = Map("line", ("a", "b"), lambda a, b: np.stack([a, b], -1), parameters=("a", "b"))
"""The element of `affine` from its two numbers."""
keep = Map("keep", "x", np.asarray)

MAPS = [square, keep, pair, is_even]
"""The last is for integers, and `pair` for real numbers."""


# ---- map ----


@pytest.mark.paper("Oancea, Map")
@together("shape", [(), (0,), (1,), (700,), (3, 0, 2), (5, 33)])
@together("dtype", ["int32", "uint8", "int64", "float16", "float32", "complex64"])
def test_map_of_one_array(
    backend: Any, shape: tuple[int, ...], dtype: str, rng: Generator
) -> None:
    """map gives f of each element, in its place."""
    x = rng.integers(0, 9, shape).astype(dtype)
    for f in MAPS[: {"i": 4, "u": 4, "f": 3, "c": 2}[x.dtype.kind]]:
        same(backend.call(gpusolve.map, f, x), f.numpy(x), strict=True)
        if shape:
            same(backend.call(gpusolve.map, f, x[::-1]), f.numpy(x[::-1]), strict=True)


@pytest.mark.paper("Oancea, Map")
def test_map_of_several_arrays_of_different_dtypes(
    backend: Any, rng: Generator
) -> None:
    """map2 gives f of each pair of elements."""
    c = rng.random((20, 1)) < 0.5
    a, b = rng.integers(-9, 9, 35, np.int16), rng.standard_normal((20, 35))
    found = backend.call(gpusolve.map, choose, c, a, b)
    same(found, np.where(c, a, b), strict=True)
    found = backend.call(gpusolve.map, times, a, a.astype(np.float32))
    same(found, a.astype(np.float32) ** 2, strict=True)
    same(backend.call(gpusolve.map, keep, c), c, strict=True)
    same(gpusolve.map(times, [1, 2, 3], 10), [10, 20, 30])


# ---- fusion ----


@pytest.mark.paper("Oancea, Map fusion")
@given(st.lists(st.integers(-1000, 1000), max_size=70))
def test_a_map_of_a_map_is_the_map_of_the_composition(
    backend: Any, values: list[int]
) -> None:
    """map(f, map(g, A)) is map(f o g, A)."""
    x = np.array(values, np.int32)
    pairs = (square, plus_one), (halve, square), (is_positive, halve), (double, halve)
    for f, g in pairs:
        apart = gpusolve.map(f, gpusolve.map(g, backend.array(x)))
        fused = gpusolve.map(f @ g, backend.array(x))
        same(backend.numpy(fused), backend.numpy(apart), strict=True)
    expected = [value * value + 1 for value in values]
    same(backend.call(gpusolve.map, plus_one @ square, x), expected)


def test_composition_is_associative_and_converts_between_maps(backend: Any) -> None:
    x = np.array([3, 4, 7], np.int16)
    truncated = Map("truncated", "T(x)", lambda x: x.astype(np.int8), dtype=np.int8)
    left, right = (pair @ truncated) @ (halve @ square), pair @ (truncated @ halve)
    expected = np.array([[4, 5], [8, 9], [24, 25]], np.int8)
    for f in (left, right @ square):
        same(backend.call(gpusolve.map, f, x), expected, strict=True)
    assert left.arity == 1
    assert (square @ times).arity == 2


# ---- maps of several arrays in reduce and scan ----

VARIANTS = {
    "reduce": ("auto", "tree", "group", "chunked"),
    "scan": ("auto", "look_back", "hierarchical", "sweep", "warp"),
}
ORDERED = [(name, variant) for name, found in VARIANTS.items() for variant in found]


@together(("name", "variant"), ORDERED)
@together("n", [0, 1, 31, 40, 500, 5001])
def test_pairs_from_two_arrays_keep_their_order(
    backend: Any, n: int, name: str, variant: str, rng: Generator
) -> None:
    a, b = anything(rng, np.dtype(np.int32), 2, n)
    case, pairs = Case("affine", a.dtype), np.stack([a, b], axis=-1)
    for exclusive in (False, True):
        options: dict[str, Any] = {"variant": variant}
        if name == "scan":
            options["exclusive"] = exclusive
        function = getattr(gpusolve, name)
        found = backend.call(function, (a, b), affine, map=line, **options)
        expected = case.prefixes(pairs, exclusive)
        if name == "reduce":
            expected = case.fold(pairs)
        same(found, expected, strict=True)


@together("variant", ["auto", "reduce512", "atomic", "atomic_each"])
@together("n", [0, 1, 31, 500, 20_000])
def test_reduction_of_products(
    backend: Any, variant: str, n: int, rng: Generator
) -> None:
    x, y = rng.integers(-9, 10, (2, n)).astype(np.float32)
    found = backend.call(gpusolve.reduce, (x, y), map=times, variant=variant)
    same(found, x @ y, strict=True)


@together("axis", [0, 1, None])
def test_maps_along_axes(backend: Any, axis: Any, rng: Generator) -> None:
    x, y = rng.integers(-9, 10, (40, 70)), rng.integers(-9, 10, 70)
    found = backend.call(gpusolve.reduce, (x, y), axis=axis, map=times)
    same(found, (x * y).sum(axis), strict=True)
    found = backend.call(gpusolve.all, (x + 99, y + 99), is_positive @ times)
    same(found, np.array(True), strict=True)
    counted = Map("1 if positive", "x > 0", lambda x: x > 0, dtype=np.int64)
    if axis is not None:
        found = backend.call(gpusolve.scan, x, axis=axis, map=is_positive @ plus_one)
        same(found, np.logical_or.accumulate(x >= 0, axis=axis), strict=True)
        found = backend.call(gpusolve.scan, x, axis=axis, map=counted)
        same(found, (x > 0).cumsum(axis=axis), strict=True)


@together("which", [0, 1])
def test_out_of_a_scan_may_be_any_array_of_its_map(
    backend: Any, which: int, rng: Generator
) -> None:
    x, y = rng.integers(-9, 9, (2, 9000))

    def scan_into(*arrays: Any) -> Any:
        assert gpusolve.scan(arrays, map=times, out=arrays[which]) is arrays[which]
        return arrays[which]

    same(backend.call(scan_into, x.copy(), y.copy()), (x * y).cumsum(), strict=True)


# ---- zip and unzip ----


@together("shape", [(), (0,), (500,), (7, 30)])
@together("count", [1, 2, 5])
def test_unzip_inverts_zip(
    backend: Any, shape: tuple[int, ...], count: int, rng: Generator
) -> None:
    arrays = [anything(rng, np.dtype(np.int64), *shape) for _ in range(count)]
    zipped = np.stack(arrays, axis=-1)
    same(backend.call(gpusolve.zip, *arrays), zipped, strict=True)
    same(reference.zip(*arrays), zipped, strict=True)
    for apart in backend.call(gpusolve.unzip, zipped), reference.unzip(zipped):
        for found, expected in zip(apart, arrays, strict=True):
            same(found, expected, strict=True)
    assert backend.call(gpusolve.unzip, zipped)[0].flags.c_contiguous


def test_zip_converts_to_the_common_dtype(backend: Any) -> None:
    flags, values = np.array([True, False]), np.array([1.5, 2.5], np.float32)
    found = backend.call(gpusolve.zip, flags, values)
    same(found, np.array([[1, 1.5], [0, 2.5]], np.float32), strict=True)
