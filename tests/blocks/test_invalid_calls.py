"""Invalid calls of the blocks: the error, and what its message says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends import without_gpu
from monoids import affine, argmax, first_nonzero, is_positive, square
from together import together

import gpusolve
from gpusolve import Map
from gpusolve.monoid import as_monoid

x, flags, five = np.ones((4, 3)), np.zeros((4, 3), bool), np.ones(5)
mask = np.array([True, False, True, True, False])
read_only = np.zeros((4, 3))
read_only.flags.writeable = False
places = np.arange(5)

times = Map("times", "x * y", np.multiply, parameters=("x", "y"))
pair = Map("pair", ("x", "x + 1"), lambda x: np.stack([x, x + 1], axis=-1))
wide = Map("wide", "x", lambda x: x, dtype=np.longdouble)

INVALID = [
    # reduce
    ("reduce", (x, "sum"), {}, ValueError, "op must .*got 'sum'"),
    ("reduce", (x, np.add), {}, TypeError, "op must .*got <ufunc 'add'>"),
    ("reduce", (x,), {"variant": "quick"}, ValueError, "variant must .*got 'quick'"),
    ("reduce", (x * 1j, "min"), {}, TypeError, "complex128"),
    ("reduce", (np.longdouble(x),), {}, TypeError, str(np.dtype(np.longdouble))),
    ("reduce", (np.ma.array(x),), {}, TypeError, "x must .*got a masked array"),
    ("reduce", (x,), {"axis": 2}, ValueError, "axis must .*got 2"),
    ("reduce", (x,), {"axis": (1, -1)}, ValueError, r"axis must .*got \(1, -1\)"),
    ("reduce", (x,), {"axis": 0.5}, TypeError, "axis must .*got 0.5"),
    ("reduce", (x, "mssp"), {}, ValueError, r"x must .*got .*\(4, 3\)"),
    ("reduce", (x[:, :2], affine), {"axis": 1}, ValueError, "axis must .*got 1"),
    ("reduce", (x, affine), {"map": square}, ValueError, "one expression in square"),
    ("reduce", (x,), {"map": pair}, ValueError, "got 2 expressions"),
    ("reduce", (x,), {"map": np.square}, TypeError, "map must .*<ufunc 'square'>"),
    ("reduce", (x,), {"map": times}, ValueError, "must be 2, .*ndarray"),
    *(
        ("reduce", (x, first_nonzero), {"variant": name}, ValueError, message)
        for name in ("reduce512", "atomic", "atomic_each")
        for message in (f"variant '{name}' .*commute; first nonzero",)
    ),
    ("reduce", (x[:, :2], argmax), {"variant": "atomic"}, ValueError, "16 for argmax"),
    ("reduce", (x * 1j,), {"variant": "atomic"}, ValueError, "16 for add of complex"),
    # all, any and the maximum segment sum
    ("all", (x, np.isfinite), {}, TypeError, "isfinite"),
    ("maximum_segment_sum", (3.0,), {}, ValueError, r"x must have shape .*got \(\)"),
    *(
        ("maximum_segment_sum", (x.astype(dtype),), {}, TypeError, f"got {dtype}")
        for dtype in ("complex128", "bool", "uint64", "int16", "float16")
    ),
    ("maximum_segment_sum", (x,), {"variant": "reduce512"}, ValueError, "'reduce512'"),
    # scan
    ("scan", (x, "sum"), {}, ValueError, "op must .*got 'sum'"),
    ("scan", (x,), {"variant": "atomic"}, ValueError, "variant must .*got 'atomic'"),
    ("scan", (x,), {"axis": None}, TypeError, "axis must .*got None"),
    ("scan", (3.0,), {}, ValueError, "axis must .*got -1"),
    ("scan", (x,), {"out": np.ones((3, 4))}, ValueError, r"out must .*got .*\(3, 4\)"),
    ("scan", (x,), {"out": np.ones((4, 3), int)}, TypeError, "out.*int64"),
    ("scan", (x,), {"out": read_only}, ValueError, "read-only|writeable"),
    # segments
    ("segmented_scan", (x, flags, "sum"), {}, ValueError, "op must .*got 'sum'"),
    ("segmented_scan", (x, flags * 1.0), {}, TypeError, "flags must .*got float64"),
    ("segmented_scan", (x, flags[:, :2]), {}, ValueError, r"to \(4, 3\).*\(4, 2\)"),
    ("segmented_scan", (x, flags, affine), {}, ValueError, r"x must .*\(4, 3\)"),
    ("segmented_scan", (3.0, True), {}, ValueError, "x must .* got one element"),
    ("segmented_scan", (x, flags), {"packed": True}, TypeError, "uint8, got bool"),
    (
        *("segmented_scan", (x, np.zeros((4, 2), np.uint8)), {"packed": True}),
        *(ValueError, r"flags must .*got .*\(4, 2\)"),
    ),
    ("segmented_reduce", (five, [2, 2]), {}, ValueError, "sum to the 5 .*got 4"),
    ("segmented_reduce", (five, [6, -1]), {}, ValueError, "negative length, got -1"),
    ("segmented_reduce", (five, [2.0, 3.0]), {}, TypeError, "lengths .*got float64"),
    ("segmented_reduce", (five, [[2, 3]]), {}, ValueError, r"lengths .*got .*\(1, 2\)"),
    ("segmented_reduce", (x, [2, 2]), {}, ValueError, r"x must .*got .*\(4, 3\)"),
    ("segmented_reduce", (five, [5]), {"offsets": [0, 5]}, ValueError, "offsets"),
    *(
        ("segmented_reduce", (five,), {"offsets": offsets}, error, message)
        for offsets, error, message in (
            ([0, 4], ValueError, "offsets must go from 0 to 5.*got 0 to 4"),
            ([0, 3, 2, 5], ValueError, "offsets"),
            ([0.0, 5.0], TypeError, "offsets must .*got float64"),
        )
    ),
    ("segment_flags", ([2, -1],), {}, ValueError, "must not be negative, got -1"),
    ("segment_flags", ([2],), {"total": -1}, ValueError, "total must not .*got -1"),
    ("segment_flags", ([2],), {"total": 5.0}, TypeError, "an integer, got 5.0"),
    # partition, scatter and replicate
    ("stable_partition", (places, mask[:4]), {}, ValueError, r"\(5,\), got \(4,\)"),
    ("stable_partition", (places, places), {}, TypeError, "mask must .*got int64"),
    ("stable_partition", (places, square), {}, TypeError, "one bool, .* square"),
    ("stable_partition", (3, True), {}, ValueError, "x must have one axis"),
    ("stable_partition", (places, mask), {"variant": "quick"}, ValueError, "'quick'"),
    ("stable_partition", (x[0], is_positive @ times), {}, ValueError, "got 2"),
    ("scatter", (places, [0.0, 1.0], [1, 2]), {}, TypeError, "indices .*got float64"),
    ("scatter", (places, [0, 1], [1, 2, 3]), {}, ValueError, r"values .*got \(3,\)"),
    ("scatter", (places, [[0, 1]], [[1, 2]]), {}, ValueError, r"indices .*\(1, 2\)"),
    ("scatter", (places, [0, 1], [0.5, 1.5]), {}, TypeError, "int64, got float64"),
    ("scatter", (read_only[0], [0], [7]), {}, ValueError, "target must be .*writeable"),
    ("scatter", (np.zeros(10)[::2], [0], [7]), {}, ValueError, "must be contiguous"),
    ("scatter", (np.array(3), [0], [7]), {}, ValueError, r"target .*got \(\)"),
    ("replicate", (-1, 0), {}, ValueError, "n must .*got -1"),
    ("replicate", (2.5, 0), {}, TypeError, "int"),
    # map, zip and unzip
    ("map", (np.square, x), {}, TypeError, "f must .*got <ufunc"),
    ("map", (times, x), {}, ValueError, "must be 2, .*times, got 1"),
    ("map", (times, x, x[:2]), {}, ValueError, "broadcast, got"),
    ("map", (wide, x), {}, TypeError, "f must return .* from wide"),
    ("zip", (), {}, ValueError, "at least one array"),
    ("zip", [five] * 40, {}, ValueError, "at most 256 bytes, got 320"),
    ("unzip", (3.0,), {}, ValueError, r"x must have shape .*got \(\)"),
]
"""A function, its arguments, and the error."""


@without_gpu
@together(("name", "arguments", "options", "error", "message"), INVALID)
def test_invalid_calls_are_rejected(
    backend: Any, name: str, arguments: Any, options: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        getattr(gpusolve, name)(*arguments, **options)
    assert not read_only.any()


# ---- operators -----------------------------------------------------------------------


def monoid(identity: Any, cuda: Any) -> gpusolve.Monoid:
    return gpusolve.Monoid("pair", identity, cuda, np.add, commutative=True)


@together(
    ("call", "error", "message"),
    [
        (lambda: as_monoid("sum"), ValueError, "op must be one of .*'add'.*got 'sum'"),
        (lambda: as_monoid(np.add), TypeError, "a Monoid or the name .*<ufunc 'add'>"),
        (lambda: monoid((0, 0), "a + b"), ValueError, r"of shape \(2,\); got one expr"),
        (lambda: monoid((0, 0), ("a[0]",)), ValueError, r"\(2,\); got 1 expressions"),
        (lambda: monoid((0, 0), ["a", "b"]), TypeError, r"must .*got \['a', 'b'\]"),
        (lambda: monoid(0, ("a", "b")), ValueError, r"\(\); got 2 expressions"),
        (lambda: monoid(0, None), TypeError, "cuda of pair must .*got None"),
        (lambda: Map("bad", 3, abs), TypeError, "cuda of bad must .*got 3"),
        (lambda: square @ pair, ValueError, "square @ pair must .*2 expressions"),
        (lambda: times @ square, ValueError, "times @ square must .*2 parameters"),
        (lambda: square @ np.square, TypeError, "@"),
        (lambda: Map("bad", "x", abs, parameters=("1x",)), ValueError, "of bad .*1x"),
    ],
)
def test_invalid_operators_are_rejected(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()
