"""Segments across tiles, and their flags."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from backends import both_kinds
from monoids import Case, affine
from numpy.random import Generator
from together import together

import gpusolve
from gpusolve import Monoid, emulator

# The size of a tile, around which segments are made.
from gpusolve._blocks.scan_kernel import tile_for

same = np.testing.assert_array_equal


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
    backend: Any, op: Any, dtype: Any, structure: str, rng: Generator
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
    device_backend: Any, rng: Generator
) -> None:
    case = Case("affine", np.dtype(np.int32))
    lengths = np.array([3, 300 * tile_for(8).size, 40 * tile_for(8).size, 2])
    x = case.sample(rng, lengths.sum())
    expected = [case.fold(part) for part in np.split(x, np.cumsum(lengths)[:-1])]
    found = device_backend.call(gpusolve.segmented_reduce, x, lengths, affine)
    same(found, np.array(expected), strict=True)


def test_reduction_to_smaller_elements_across_tiles(
    backend: Any, rng: Generator
) -> None:
    lengths = rng.integers(0, 600, 40)
    x = (rng.random(lengths.sum()) > 0.01).astype(np.float64)
    found = backend.call(gpusolve.segmented_reduce, x, lengths, "logical_and")
    segments = np.split(x, np.cumsum(lengths))[: len(lengths)]
    same(found, [segment.all() for segment in segments])


def test_float_reductions_have_the_same_bits_in_every_run(
    schedule: str, rng: Generator, monkeypatch: Any
) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
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


# ---- flags ----


@together("flag", [2, 256, -3, 2**40])
def test_any_nonzero_integer_is_a_flag(backend: Any, flag: int) -> None:
    flags = np.array([0, 0, flag, 0])
    found = backend.call(gpusolve.segmented_scan, np.ones(4), flags)
    same(found, np.array([1.0, 2, 1, 2]), strict=True)


SHAPES = [(0,), (7,), (8,), (1025,), (3, 7), (2, 3, 33), (4, 0), (2, 3, 50)]


@together("variant", ["auto", "look_back", "sweep"])
@together("shape", SHAPES)
@both_kinds
def test_each_row_begins_a_segment(
    backend: Any, exclusive: bool, shape: tuple[int, ...], variant: str, rng: Generator
) -> None:
    """Flags of bools, and as packed bits."""
    case = Case("add", np.dtype(np.int16))
    x = case.sample(rng, int(np.prod(shape))).reshape(shape)
    flags = rng.random(shape) < 0.1
    flags[..., :1] = False
    options: dict[str, Any] = {"exclusive": exclusive, "variant": variant}
    found = backend.call(gpusolve.segmented_scan, x, flags, **options)
    bits = np.packbits(flags, axis=-1, bitorder="little")
    packed = backend.call(gpusolve.segmented_scan, x, bits, packed=True, **options)
    same(packed, found, strict=True)
    for k in np.ndindex(shape[:-1]):
        expected = case.segmented_prefixes(x[k], flags[k], exclusive)
        same(found[k], expected, strict=True)


@together("shape", [(50,), (1, 50), (3, 50), (2, 1, 50), (2, 3, 1), ()])
def test_flags_broadcast(backend: Any, shape: tuple[int, ...], rng: Generator) -> None:
    x = rng.integers(-9, 9, (2, 3, 50), np.int32)
    flags = rng.random(shape) < 0.3
    broadcast = np.broadcast_to(flags, x.shape).copy()
    found = backend.call(gpusolve.segmented_scan, x, np.asarray(flags))
    expected = backend.call(gpusolve.segmented_scan, x, broadcast)
    same(found, expected, strict=True)


# ---- values ----


def test_total_of_int8_lengths_may_exceed_int8(backend: Any) -> None:
    lengths = np.array([100, 100, 100], np.int8)
    found = backend.call(gpusolve.segment_flags, lengths)
    same(np.flatnonzero(found), [0, 100, 200])
    assert len(found) == 300
    found = backend.call(gpusolve.segmented_reduce, np.ones(300), lengths)
    same(found, [100, 100, 100])


def test_reference_accepts_flags_and_lengths_of_any_integer_dtype() -> None:
    x, lengths = np.ones(200), np.array([100, 100], np.int8)
    flags = gpusolve.reference.segment_flags(lengths)
    same(np.flatnonzero(flags), [0, 100])
    found = gpusolve.reference.segmented_scan(x, flags * np.int8(-2))
    same(found, np.tile(np.arange(1.0, 101), 2), strict=True)
