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
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import scipy.sparse
import tables
from kernel_calls import AFFINE, SQUARE, TIMES

import gpusolve
from gpusolve import emulator, sparse
from gpusolve._emulator import nvrtc
from gpusolve.gam import BoostedGAM, bbs, bmono, brandom, cv_stop
from gpusolve.studies.experiments import EXPERIMENTS

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


BLOCK_SIZE = 112
"""Rows and columns of the systems that a block solves."""


# ---- the calls -----------------------------------------------------------------------


def rng() -> np.random.Generator:
    return np.random.default_rng(20261122)


def integers(*shape: int, dtype: str = "float32") -> Any:
    """Small integers, so that sums are exact."""
    return rng().integers(-9, 10, shape).astype(dtype)


def all_calls() -> list[Call]:
    return [
        *_maps(),
        *_reductions(),
        *_scans(),
        *_segments(),
        *_writes(),
        *_products(),
        *_element_wise_products(),
        *_sparse_products(),
        *_solvers(),
    ]


def _call(
    name: str,
    elements: int,
    function: Callable[..., object],
    *args: Any,
    **options: Any,
) -> Call:
    return Call(name, elements, lambda: function(*args, **options))


def _limited(call: Call, floor: float, moved_limit: float | None = None) -> Call:
    return call._replace(floor=floor, moved_limit=moved_limit)


def _maps() -> Iterator[Call]:
    """Maps alone, and fused into the kernels that read several arrays."""
    n = 8 * 3840
    x, y = integers(2, n)
    yield _limited(_call("map", n, gpusolve.map, SQUARE, x), 8)
    yield _limited(_call("map of two arrays", n, gpusolve.map, TIMES, x, y), 12)
    fused = _call("map of a map", n, gpusolve.map, SQUARE @ TIMES, x, y)
    yield _limited(fused, 12)
    reduced = _call("reduce two arrays", n, gpusolve.reduce, (x, y), map=TIMES)
    yield _limited(reduced, 8)
    scanned = _call("scan two arrays", n, gpusolve.scan, (x, y), map=TIMES)
    yield _limited(scanned, 12)


def _reductions() -> Iterator[Call]:
    n, length = 2**16, 2**7
    x = integers(n)
    rows = x.reshape(-1, length)
    reduce = gpusolve.reduce
    yield _limited(_call("reduce chunked", n, reduce, x, variant="chunked"), 4)
    yield _call("reduce group", n, reduce, x, variant="group")
    yield _call("reduce tree", n, reduce, x, variant="tree")
    yield _call("reduce reduce512", n, reduce, x, variant="reduce512")
    yield _call("reduce atomic", 256, reduce, x[:256], variant="atomic")
    yield _call("reduce atomic_each", 256, reduce, x[:256], variant="atomic_each")
    found = _call("reduce rows", n, reduce, rows, axis=1)
    # Each warp writes 4 bytes of a sector.
    yield _limited(found, 4 + 4 / length, 1.06)
    yield _call("reduce columns", n, reduce, rows, axis=0)


def _scans() -> Iterator[Call]:
    scan = gpusolve.scan
    for dtype, tile in (("float32", 3840), ("float64", 1792), ("int64", 1792)):
        values = integers(8 * tile, dtype=dtype)
        floor = 2 * values.itemsize
        yield _limited(_call(f"scan {dtype}", values.size, scan, values), floor)
    n = 8 * 3840
    x = integers(n)
    yield _limited(_call("scan exclusive", n, scan, x, exclusive=True), 8)
    yield _limited(_call("scan rows", n, scan, x.reshape(-1, 96), axis=1), 8)
    pairs = np.ones((8 * 768, 2))
    # NVRTC reads an element of two float64 in two loads, which touch a sector each.
    yield _limited(_call("scan affine", len(pairs), scan, pairs, AFFINE[0]), 32, 1.55)
    for variant in ("hierarchical", "sweep", "warp"):
        yield _call(f"scan {variant}", n, scan, x, variant=variant)


def _segments() -> Iterator[Call]:
    scan, reduce = gpusolve.segmented_scan, gpusolve.segmented_reduce
    n, length = 8 * 3840, 24
    x, flags = integers(n), np.arange(n) % length == 0
    packed = np.packbits(flags, bitorder="little")
    yield _call("segmented_scan sweep", n, scan, x, flags, variant="sweep")
    yield _limited(_call("segmented_scan flags", n, scan, x, flags), 9)
    found = _call("segmented_scan packed", n, scan, x, packed, packed=True)
    yield _limited(found, 8 + 1 / 8)
    offsets = np.arange(0, n + 1, length)
    found = _call("segmented_reduce", n, reduce, x, offsets=offsets)
    # An offset of 8 bytes and a result of 4 for each segment. Tiles begin inside
    # sectors of all three arrays; each warp reads where its tile begins.
    yield _limited(found, 4 + 12 / length, 1.12)


def _writes() -> Iterator[Call]:
    n = 8 * 4096
    x, mask = integers(n), rng().random(n) < 0.5
    found = _call("stable_partition", n, gpusolve.stable_partition, x, mask)
    # The kept elements of a tile begin inside sectors.
    yield _limited(found, 9, 1.06)
    half, partition = n // 2, gpusolve.stable_partition
    given = partition, x[:half], mask[:half]
    yield _call("stable_partition two_scans", half, *given, variant="two_scans")
    target, indices = np.zeros(n, np.float32), rng().permutation(n)
    yield _call("scatter", n, gpusolve.scatter, target, indices, x)


def _products() -> Iterator[Call]:
    for name, shape, transpose in (
        ("wide", (16, 4096), False),
        ("tall transposed", (10000, 16), True),
        ("square", (256, 256), False),
        ("square transposed", (256, 256), True),
        ("batched", (64, 32, 32), False),
    ):
        A = integers(*shape)
        x = integers(*shape[:-2], shape[-2] if transpose else shape[-1])
        yield _call(f"gemv {name}", A.size, gpusolve.gemv, A, x, transpose=transpose)
    A, x = integers(256, 256), integers(256)
    for variant in ("naive", "threads_per_dot", "threads_per_row"):
        yield _call(f"gemv {variant}", A.size, gpusolve.gemv, A, x, variant=variant)


def _random_matrix(entries: int, width: int, seed: int) -> Any:
    """64 rows; the entries are in random places, sorted."""
    generator = np.random.default_rng(seed)
    keys = np.sort(generator.choice(64 * width, entries, replace=False))
    rows, columns = (one.astype(np.int32) for one in np.divmod(keys, width))
    values = generator.integers(1, 9, entries).astype(np.float32)
    matrix = scipy.sparse.coo_array((values, (rows, columns)), shape=(64, width))
    matrix.has_canonical_format = True
    return matrix


def _element_wise_products() -> Iterator[Call]:
    for method, shorter, longer in (
        ("merge", 8000, 8000),
        ("gallop", 200, 8000),
        ("binary", 1500, 1500),
        ("even", 1500, 1500),
        ("linear", 300, 300),
        ("scratchpad", 300, 300),
    ):
        A, B = (
            _random_matrix(entries, longer // 16, seed)
            for seed, entries in enumerate((shorter, longer))
        )
        count = shorter + longer
        found = _call(f"multiply {method}", count, sparse.multiply, A, B, method=method)
        if method == "merge":
            # Row, column and value of each entry, and of each result. In a tile, the
            # entries of A, of B and the results begin inside sectors.
            results = A.multiply(B).nnz
            floor = 12 * (1 + results / count)
            found = _limited(found, floor, 1.3)
        yield found


def _sparse_products() -> Iterator[Call]:
    side, diagonals = 1000, 16
    x = integers(side)
    places = np.arange(side), np.arange(diagonals)
    columns = np.add.outer(*places) - diagonals // 2
    inside = (columns >= 0) & (columns < side)
    banded = np.nonzero(inside)[0], columns[inside]
    lengths = (side / (1 + np.arange(side)) ** 0.7).astype(int) + 2
    rows = np.repeat(np.arange(side), np.minimum(side, lengths))
    power_law = rows, rng().integers(0, side, rows.size)
    for name, places in (("banded", banded), ("power law", power_law)):
        rows, columns = (one.astype(np.int32) for one in places)
        values = np.ones(len(rows), np.float32)
        A = scipy.sparse.coo_array((values, (rows, columns)), shape=(side, side))
        A = A.tocsr()
        for method in ("fused", "segmented_scan"):
            found = _call(
                f"spmv {method} {name}", A.nnz, sparse.spmv, A, x, method=method
            )
            if found.name == "spmv fused banded":
                # An entry and its column; a row's end, and an element of x and of y. x
                # is gathered; tiles begin inside sectors of the other arrays.
                floor = 8 + 12 * side / A.nnz
                found = _limited(found, floor, 1.65)
            yield found


def _nnls_by_teams() -> Iterator[Call]:
    """Systems of a lane, of some lanes of a warp, of a warp and of a block."""
    systems = {
        "lane": (rng().random((256, 3, 3)), rng().random((256, 3))),
        "lanes": (rng().random((64, 30, 10)), rng().random((64, 30))),
        "lanes shared": (rng().random((64, 16)), rng().random((64, 64))),
        "warp": (rng().random((16, 40, 24)), rng().random((16, 40))),
        **{
            f"block {name}": experiment(2, size=BLOCK_SIZE)
            for name, experiment in EXPERIMENTS.items()
        },
    }
    for name, (A, b) in systems.items():
        size = b.size * A.shape[-1]
        yield _call(f"nnls {name}", size, gpusolve.nnls, A, b, method="gram")
    A, b = systems["block uniform_random"]
    options = {"method": "gram", "bounds": (-0.01, 0.01), "sum_to": np.zeros(len(b))}
    size = b.size * A.shape[-1]
    yield _call("lsq_linear block", size, gpusolve.lsq_linear, A, b, **options)


def _solvers() -> Iterator[Call]:
    A, b = rng().random((4, 24, 16)), rng().random((4, 24))
    yield _call("nnls", A.size, gpusolve.nnls, A, b, method="qr")
    options = {"method": "qr", "bounds": (-0.1, 0.2), "sum_to": 0.4}
    yield _call("lsq_linear", A.size, gpusolve.lsq_linear, A, b, **options)
    yield from _nnls_by_teams()
    X, y, steps = rng().random((1024, 4)), np.sin(np.arange(1024)), 4
    model = BoostedGAM(n_basis=20, max_iter=steps, method="stacked")
    yield _call("boost stacked", X.size * steps, model.fit, X, y)
    yield from _folds()
    yield _call("nnls published", A.size, gpusolve.nnls, A, b, method="mgs")


def _folds() -> Iterator[Call]:
    """Mixed learners in two folds; families without and with passes for a parameter."""
    rows, steps = 1024, 4
    t = np.linspace(0, 1, rows)
    columns = {"a": t, "b": (7 * t) % 1, "c": (31 * t) % 1, "g": np.arange(rows) % 9}
    terms = [bbs("a"), bbs("b"), bmono("c"), brandom("g")]
    y, folds = 2 + np.round(np.sin(9 * t)), rng().integers(0, 3, (rows, 2))

    def run(family: str) -> None:
        with mock.patch.dict(os.environ, GPUSOLVE_EMULATE="0"):
            model = BoostedGAM(terms, family=family, max_iter=1, method="stacked")
            model.fit(columns, y)
        cv_stop(model, folds, max_iter=steps)

    for family in ("poisson", "huber", "gamma"):
        size = folds.size * len(terms) * steps
        yield _call(f"boost folds {family}", size, run, family)


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
    with (
        mock.patch.dict(os.environ, GPUSOLVE_EMULATE="1"),
        emulator.profile() as report,
    ):
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
    "launches",
    "blocks",
    "barriers",
    "grid barriers",
    "bytes / element",
    "of fewest",
    "of distinct",
    "lanes",
    "wavefronts",
    "of requests",
    "shared lanes",
    "atomics",
    "shuffles",
    "instructions",
)

HOST_HEADINGS = (
    "launches",
    "allocations",
    "memsets",
    "bytes / element",
    "cached bytes / element",
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
    host, sums = report.host, sums_of(report)
    values = (
        host.launches,
        host.allocations,
        host.memsets,
        SECTOR_BYTES * sums["sectors"] / call.elements,
        SECTOR_BYTES * sums["distinct_sectors"] / call.elements,
    )
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
    found_changes = []
    for kernel, row in written.items():
        for heading, old in row.items():
            new = float(_shown(found[kernel][heading]))
            change = _change(heading, old, new, same_compiler)
            if change and heading not in ignored:
                found_changes.append(
                    f"{kernel}: {heading} {change}, from {old:g} to {new:g}"
                )
    return found_changes


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
