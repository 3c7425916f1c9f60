"""What public calls cost, counted on the emulator. ``make tables`` writes the table.

Sizes are small, and the grids are not limited by the emulated device: a GPU has the
same counts, except for the blocks of a long reduction. A scan has at most 33 tiles, so
each tile looks back once. A reduction by atomics has one block, so no update is
repeated.

Left out, because they depend on the schedule: accesses to arrays in which blocks wait
for each other (`POLLED`), and the fences and instructions that are repeated with them.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import scipy.sparse
import tables
from kernel_calls import AFFINE, SQUARE, TIMES, Settings, copied, named_calls

import gpusolve
from gpusolve import emulator, sparse
from gpusolve._emulator import nvrtc

TABLE = Path(__file__).with_suffix(".md")

SECTOR_BYTES = 32
"""Bytes that a GPU moves at once between its memory and its caches."""

POLLED = {"states", "published", "arrived"}
"""Arrays that blocks read until another block has written them."""

WAITING = {"grid.cuh", "look_back.cuh"}
"""Files in which blocks wait for each other."""

ALL_KERNELS = "all"
"""In place of a kernel's name: the sums of all kernels of a call."""

GROWTH, FALL = 1.02, 0.9
"""A count may grow by 2 %. If it falls by more than 10 %, the table must be updated."""

GROWTH_WITH_ANOTHER_COMPILER = 1.1
"""Counts were equal with GCC 11 and 12, and with -O2 except for `OF_THE_COMPILER`; with
-Og, one kernel moved 7 % more sectors."""


LIMIT = 1.05
"""The most times the floor, if caches keep what a launch reads again."""


class Call(NamedTuple):
    """A public call whose costs are counted.

    Attributes
    ----------
    name : str
    elements : int
        What bytes are divided by: elements of the input, or entries of the matrices.
    run : callable
    floor : float
        Bytes per element that any implementation must move, if a test limits them.
    moved_limit : float, optional
        The most times the floor for all sectors of all requests. By default `LIMIT`,
        and all sectors must be full.
    """

    name: str
    elements: int
    run: Callable[[], object]
    floor: float = 0
    moved_limit: float | None = None


UNSTEADY = re.compile("regions|columns|constraints|sparse, |paper")
"""Calls of `kernel_calls` that are not counted: their steps depend on rounding or on a
GPU."""


# ---- the calls -----------------------------------------------------------------------


def all_calls() -> list[Call]:
    return [*_limited_calls(), *_other_calls()]


def _other_calls() -> Iterator[Call]:
    """The calls of `kernel_calls`; their elements are those of all arrays."""
    for name, make in named_calls():
        if not UNSTEADY.search(name):
            call = make(Settings(None, small=True))
            elements = sum(getattr(one, "size", 0) for one in call.given)
            run = partial(lambda call: call.on([*map(copied, call.given)]), call)
            yield Call(name, max(1, elements), run)


def integers(*shape: int, dtype: str = "float32") -> Any:
    """Small integers, so that sums are exact."""
    return np.random.default_rng(20261122).integers(-9, 10, shape).astype(dtype)


def _limited_calls() -> Iterator[Call]:
    """Calls whose bytes are near the least possible number, in whole tiles."""
    n, length = 8 * 3840, 24
    x, y = integers(2, n)

    def limited(
        name: str, floor: float, moved: Any, *call: Any, **options: Any
    ) -> Call:
        return Call(name, call[1].size, partial(*call, **options), floor, moved)

    yield limited("map of one array", 8, None, partial(gpusolve.map, SQUARE), x)
    yield limited("map of two arrays", 12, None, partial(gpusolve.map, TIMES), x, y)
    yield limited("map of a map", 12, None, partial(gpusolve.map, SQUARE @ TIMES), x, y)

    def of_two(function: Any) -> Any:
        return lambda *arrays: function(arrays, map=TIMES)

    yield limited("reduce two arrays", 8, None, of_two(gpusolve.reduce), x, y)
    yield limited("scan two arrays", 12, None, of_two(gpusolve.scan), x, y)
    values = integers(2**16)
    yield limited("reduce", 4, None, gpusolve.reduce, values, variant="chunked")
    yield limited("reduce group", 0, None, gpusolve.reduce, values, variant="group")
    # Each warp writes 4 bytes of a sector.
    rows = values.reshape(-1, 2**7)
    yield limited("reduce rows", 4 + 4 / 2**7, 1.06, gpusolve.reduce, rows, axis=1)
    scan, segmented_scan = gpusolve.scan, gpusolve.segmented_scan
    for dtype, tile in (("float32", 3840), ("float64", 1792), ("int64", 1792)):
        values = integers(8 * tile, dtype=dtype)
        yield limited(f"scan {dtype}", 2 * values.itemsize, None, scan, values)
    yield limited("scan exclusive", 8, None, scan, x, exclusive=True)
    yield limited("scan rows", 8, None, scan, x.reshape(-1, 96), axis=1)
    # NVRTC reads an element of two float64 in two loads, which touch a sector each.
    pairs = np.ones((8 * 768, 2))
    yield limited("scan affine", 16, 1.55, scan, pairs, AFFINE[0])
    flags = np.arange(n) % length == 0
    packed = np.packbits(flags, bitorder="little")
    yield limited("segmented_scan flags", 9, None, segmented_scan, x, flags)
    name = "segmented_scan packed"
    yield limited(name, 8 + 1 / 8, None, segmented_scan, x, packed, packed=True)
    # An offset of 8 bytes and a result of 4 for each segment. Tiles begin inside
    # sectors of all three arrays; each warp reads where its tile begins.
    reduce, offsets = gpusolve.segmented_reduce, np.arange(0, n + 1, length)
    floor = 4 + 12 / length
    yield limited("segmented_reduce", floor, 1.12, reduce, x, offsets=offsets)
    # The kept elements of a tile begin inside sectors.
    values, mask = integers(8 * 4096), np.random.default_rng(0).random(8 * 4096) < 0.5
    partition = gpusolve.stable_partition
    yield limited("stable_partition", 9, 1.06, partition, values, mask)
    # Row, column and value of each entry, and of each result. In a tile, the entries of
    # A, of B and the results begin inside sectors.
    A, B = (_random_matrix(8000, 500, seed) for seed in (0, 1))
    floor = 12 * (2 + A.multiply(B).nnz / A.size)
    yield limited("multiply merge", floor, 1.3, sparse.multiply, A, B, method="merge")
    # An entry and its column; a row's end, and an element of x and of y. x is gathered;
    # tiles begin inside sectors of the other arrays.
    side = 1000
    ones = np.ones((16, side), np.float32)
    A = scipy.sparse.dia_array((ones, range(-8, 8)), shape=(side, side)).tocsr()
    A.indices, A.indptr = A.indices.astype(np.int32), A.indptr.astype(np.int32)
    yield limited(
        "spmv banded", 8 + 12 * side / A.size, 1.65, sparse.spmv, A, integers(side)
    )


def _random_matrix(entries: int, width: int, seed: int) -> Any:
    """64 rows; the entries are in random places, sorted."""
    generator = np.random.default_rng(seed)
    keys = np.sort(generator.choice(64 * width, entries, replace=False))
    rows, columns = (one.astype(np.int32) for one in np.divmod(keys, width))
    values = generator.integers(1, 9, entries).astype(np.float32)
    matrix = scipy.sparse.coo_array((values, (rows, columns)), shape=(64, width))
    matrix.has_canonical_format = True
    return matrix


# ---- counting ------------------------------------------------------------------------


Costs = Counter[str]
"""The counts of one kernel, or the sums of all kernels of a call."""

OF_KERNELS = (
    *("launches", "blocks", "barriers", "grid_barriers", "atomics", "shuffles"),
    *("shared_requests", "shared_lanes", "shared_wavefronts"),
)
OF_ARRAYS = (
    *("sectors", "fewest_sectors", "distinct_sectors", "distinct_bytes"),
    *("requests", "lanes"),
)
"""Counts of a kernel, and counts that are summed over its arrays."""


def report_of(call: Call) -> Any:
    """Run the call on the emulator, and count its costs."""
    emulated = mock.patch.dict(os.environ, GPUSOLVE_EMULATE="1")
    with emulated, emulator.profile() as report:
        call.run()
    return report


def costs_of(kernel: Any) -> Costs:
    """The counts of a kernel, without the arrays in which blocks wait."""
    arrays = [one for name, one in kernel.arrays.items() if name not in POLLED]
    found = Counter({name: getattr(kernel, name) for name in OF_KERNELS})
    for name in OF_ARRAYS:
        found[name] = sum(getattr(one, name) for one in arrays)
    found["instructions"] = sum(
        costs.warp_instructions
        for line, costs in kernel.by_line.items()
        if line.file.name not in WAITING
    )
    return found


def sums_of(report: Any) -> Costs:
    """The sums of the counts of all kernels."""
    return sum(map(costs_of, report.kernels), Counter())


# ---- the table -----------------------------------------------------------------------


Row = dict[str, float]
"""Values by heading."""

HEADINGS = (
    *("launches", "blocks", "barriers", "grid barriers", "bytes / element"),
    *("of fewest", "of distinct", "lanes", "wavefronts", "of requests"),
    *("shared lanes", "atomics", "shuffles", "instructions"),
)

HOST_HEADINGS = (
    *("launches", "allocations", "memsets"),
    *("bytes / element", "cached bytes / element"),
)

OF_CALLS, OF_KERNELS_OF_CALLS = "call | elements", "call | kernel"
"""The first headings of the two tables."""

COMPILER = re.compile(r"NVRTC \d+\.\d+")

RATIOS = {"of fewest", "of distinct", "of requests"}
"""Shown only: a ratio may grow because its denominator falls."""

OF_THE_COMPILER = {"wavefronts", "lanes", "shared lanes", "instructions"}
"""Compared only with the compiler of the table: others keep other values of shared
memory in registers, and unroll other loops."""


def kernel_row(costs: Costs, elements: int) -> Row:
    def ratio(a: str, b: str) -> float:
        return costs[a] / costs[b] if costs[b] else 0

    plain = {heading: costs[heading.replace(" ", "_")] for heading in HEADINGS}
    return plain | {
        "bytes / element": SECTOR_BYTES * costs["sectors"] / elements,
        "of fewest": ratio("sectors", "fewest_sectors"),
        "of distinct": SECTOR_BYTES * ratio("sectors", "distinct_bytes"),
        "lanes": ratio("lanes", "requests"),
        "wavefronts": costs["shared_wavefronts"],
        "of requests": ratio("shared_wavefronts", "shared_requests"),
        "shared lanes": ratio("shared_lanes", "shared_requests"),
    }


def rows_of(call: Call, report: Any) -> dict[str, Row]:
    """The rows of a call in the table, by kernel; `ALL_KERNELS` for the call itself."""
    host, sums, bytes = report.host, sums_of(report), SECTOR_BYTES / call.elements
    moved = bytes * sums["sectors"], bytes * sums["distinct_sectors"]
    values = host.launches, host.allocations, host.memsets, *moved
    rows = {ALL_KERNELS: dict(zip(HOST_HEADINGS, values, strict=True))}
    for kernel in report.kernels:
        rows[kernel.name] = kernel_row(costs_of(kernel), call.elements)
    return rows


def compiler_name() -> str:
    """The compiler that makes PTX, such as ``NVRTC 12.9``."""
    _, (major, minor) = nvrtc.library()
    return f"NVRTC {major}.{minor}"


def written_rows() -> dict[str, dict[str, Row]]:
    """The rows of each call, read from the table."""
    found: dict[str, dict[str, Row]] = defaultdict(dict)
    page = TABLE.read_text()
    for row in tables.rows(page, OF_CALLS) + tables.rows(page, OF_KERNELS_OF_CALLS):
        call, kernel = row.pop("call"), row.pop("kernel", ALL_KERNELS)
        row.pop("elements", None)
        found[call][kernel] = {name: float(cell) for name, cell in row.items()}
    return found


def written_compiler() -> str:
    """The compiler with which the table was written."""
    found = COMPILER.search(TABLE.read_text())
    return found[0] if found else ""


def changes(
    written: dict[str, Row], found: dict[str, Row], same_compiler: bool
) -> list[str]:
    """What a test reports of a call: counts that are worse or much better."""
    if written.keys() != found.keys():
        return [f"kernels are {sorted(found)}, in the table {sorted(written)}"]
    ignored = RATIOS | (set() if same_compiler else OF_THE_COMPILER)
    pairs = (
        (f"{kernel}: {heading}", heading, old, float(_shown(found[kernel][heading])))
        for kernel, row in written.items()
        for heading, old in row.items()
        if heading not in ignored
    )
    return [
        f"{name} {change}, from {old:g} to {new:g}"
        for name, heading, old, new in pairs
        if (change := _change(heading, old, new, same_compiler))
    ]


def _change(heading: str, old: float, new: float, same_compiler: bool) -> str:
    """Whether a count is "worse" or much "better". Fewer active lanes are worse."""
    if "lanes" in heading:
        old, new = new, old
    if not same_compiler:
        return "worse" if new > GROWTH_WITH_ANOTHER_COMPILER * old else ""
    if new > GROWTH * old:
        return "worse"
    return "better" if new < FALL * old else ""


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def page() -> str:
    """The page with the counts of all calls."""
    calls = all_calls()
    rows = {call.name: rows_of(call, report_of(call)) for call in calls}
    of_calls = [
        (one.name, one.elements, *map(_shown, rows[one.name][ALL_KERNELS].values()))
        for one in calls
    ]
    of_kernels = [
        (name, f"`{kernel}`", *map(_shown, row.values()))
        for name, kernels in rows.items()
        for kernel, row in kernels.items()
        if kernel != ALL_KERNELS
    ]
    made = tables.with_rows(TABLE.read_text(), OF_CALLS, of_calls)
    made = tables.with_rows(made, OF_KERNELS_OF_CALLS, of_kernels)
    return COMPILER.sub(compiler_name(), made)


if __name__ == "__main__":
    TABLE.write_text(page())
