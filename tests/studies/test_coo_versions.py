"""The kernels, the example and the statistics of M. Cupp's document.

"Element-Wise Multiplication Kernel", 2020. Its figures are numbered as there. Counts of
instructions are of PTX, from the version of NVRTC that the tests install. The document
counts instructions of RISC-V cores.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal
from together import together

from gpusolve import emulator, studies

# Counts of each tile, which the product does not have.
from gpusolve._device.kernels import EmulatedDevice, source_directory
from gpusolve.sparse import _coo_multiply_kernel, multiply, random_coo
from gpusolve.sparse._inputs import coordinates
from gpusolve.studies import _coo_versions_kernel, coo_figures
from gpusolve.studies.coo_figures import TILES as GROUPS

same = assert_array_equal
random_pair, Grid = coo_figures.random_pair, _coo_versions_kernel.Grid
SORT_B = "binary", "even"
"""The versions that sort the second matrix."""

VERSIONS = "linear", "scratchpad", *SORT_B
every_version = together("version", VERSIONS)
every_search = pytest.mark.parametrize("search", ["linear", "binary"])


def coo(entries: Any, shape: tuple[int, int]) -> Any:
    """A matrix of entries (row, column, value), in this order."""
    rows, columns, values = zip(*entries, strict=True)
    places = np.array(rows, np.int32), np.array(columns, np.int32)
    return scipy.sparse.coo_array((np.array(values, np.float32), places), shape=shape)


def scipy_product(A: Any, B: Any) -> Any:
    return A.tocsr().multiply(B.tocsr())


def check(found: Any, A: Any, B: Any) -> None:
    expected = scipy_product(A, B).tocoo()
    for name in ("row", "col", "data"):
        same(getattr(found, name), getattr(expected, name))


counted = coo_figures.kernels_of


@functools.cache
def square_kernels(side: int, method: str, threads: int = 1) -> Any:
    """The costs of the kernels of figures 9 and 12, at 75 % with 128 tiles."""
    return counted(random_pair((side, side), 0.75), method, 128, threads)


def executed(kernels: Any) -> int:
    return coo_figures.instructions(kernels).total()


def costs_of(
    A: Any, B: Any, method: str, blocks: int | None = None, threads: int = 256
) -> dict[str, Any]:
    """The costs of each kernel by its name, without template arguments."""
    with emulator.profile() as report:
        check(multiply(A, B, method=method, blocks=blocks, threads=threads), A, B)
    return {kernel.name.partition("<")[0]: kernel for kernel in report.kernels}


# ---- the example of figures 4 to 8 ---------------------------------------------------

# The text that we have says the numbers of the tiles, not the entries of the matrices:
# these are ours.
TILES = 4
A_ENTRIES = [
    *[(0, 0, 1), (0, 2, 2)],  # tile 0
    *[(0, 3, 3), (1, 0, 4), (1, 1, 5)],
    *[(1, 3, 6), (2, 0, 7), (2, 1, 8)],
    *[(2, 3, 9), (3, 1, 10), (3, 2, 11)],
]
B_ENTRIES = [
    *[(3, 2, 2), (0, 1, 9), (2, 1, 3), (1, 0, 5), (2, 2, 9)],
    *[(2, 3, 4), (2, 0, 6), (3, 0, 9), (1, 3, 7)],
]
FIRST_ENTRIES = [0, 2, 5, 8, 11]  # figure 5
COUNTS = [0, 1, 3, 2]  # figure 6; "tile 4 will calculate two" is tile 3
STARTS = [0, 0, 1, 4]  # figure 7
PRODUCTS = [4 * 5, 6 * 7, 7 * 6, 8 * 3, 9 * 4, 11 * 2]  # figure 8


def example() -> tuple[Any, Any]:
    return coo(A_ENTRIES, (4, 4)), coo(B_ENTRIES, (4, 4))


@pytest.mark.paper("Cupp, 4.1, Figures 4 to 8")
@every_search
def test_the_example_of_the_document(search: str) -> None:
    """The tiles of the example begin at entries 0, 2, 5 and 8 of A, have 0, 1, 3 and 2
    matches, and write from 0, 0, 1 and 4 on, also in the kernels of versions 1 and 2.
    """
    a, b = map(coordinates, example())
    found = studies.coo_versions(a[:3], b[:3], a.shape, TILES, search)
    assert found.first.tolist() == FIRST_ENTRIES
    assert found.counts.tolist() == COUNTS
    assert found.starts.tolist() == STARTS
    assert found.product[2].tolist() == PRODUCTS
    if search == "binary":
        a, b = (coordinates(matrix.tocsr().tocoo()) for matrix in example())
    device, name = EmulatedDevice(), _coo_versions_kernel.SEARCHES[search]
    counts = _coo_versions_kernel.count_found(name, a, b, Grid(TILES, 1), device)
    assert counts.tolist() == COUNTS
    product = _coo_versions_kernel.multiply_found(name, a, b, counts, 1, device)
    assert product.values.tolist() == PRODUCTS
    places = zip(product.rows, product.columns, strict=True)
    assert [*places] == [(1, 0), (1, 3), (2, 0), (2, 1), (2, 3), (3, 2)]


@pytest.mark.paper("Cupp, 4.3")
def test_intensity_of_the_best_case(emulated: None) -> None:
    """At best a multiplication reads 6 numbers and writes 3, which is an intensity of
    0.11, and 0.028 per byte; version 1 reads 4 before to count, so it has 13 accesses
    and 0.077.
    """
    A = coo([(3, 2, 5)], (4, 4))
    costs = costs_of(A, A, "linear")
    found, counted_before = costs["multiply_found"], costs["count_found"]
    assert (found.global_loads, found.global_stores) == (6, 3)
    assert found.arithmetic == {"float32 multiply": 1}
    assert counted_before.global_loads == 4
    once = coo_figures.accesses([found])
    moved = sum(array.bytes for array in found.arrays.values())
    assert round(1 / once, 2) == 0.11
    assert round(1 / moved, 3) == 0.028
    twice = once + counted_before.global_loads
    assert (twice, round(1 / twice, 3)) == (13, 0.077)


# ---- the specification ---------------------------------------------------------------


def spread(counts: Any) -> tuple[float, float, float]:
    """As in a profile: the least, the mean and the most."""
    return counts.min(), counts.mean(), counts.max()


def multiplied(version: str, a: Any, b: Any, grid: Any) -> Any:
    """The product in the order of A, and the costs of the kernels."""
    with emulator.profile() as report:
        product = _coo_versions_kernel.VERSIONS[version](a, b, grid, EmulatedDevice())
    return product, report.kernels


@pytest.mark.paper(
    "Cupp, 2.4, Figure 3",
    "Each tile writes its products next to the products of the tile before it, in the "
    "order of A, so no place of the result is wasted",
)
@pytest.mark.paper(
    "Cupp, 3",
    "The products, their order and the keys that are read agree with the specification",
)
@pytest.mark.paper(
    "Cupp, 5.3, even multiplications",
    "The products, their order and the multiplications of each tile agree with the "
    "specification",
)
@every_version
@together("blocks", [1, 3, 9])
@together("threads", [1, 32, 256])
def test_kernels_agree_with_the_specification(
    version: Any, blocks: int, threads: int
) -> None:
    """Also in the order of the products, and in the numbers that each tile reads."""
    a, b = map(coordinates, random_pair((20, 30), 0.5))
    expected = studies.coo_versions(a[:3], b[:3], a.shape, blocks, version)
    same(
        np.append(expected.starts[1:], expected.product[0].size),
        expected.starts + expected.counts,
    )
    if version in SORT_B:
        b = sorted_by_key(b)
    product, kernels = multiplied(version, a, b, Grid(blocks, threads))
    for values, right in zip(product[:3], expected.product, strict=True):
        same(values, right)
    assert coo_figures.keys_read(kernels) == expected.reads.sum()
    stores = 3 * expected.counts + (version == "scratchpad")  # its count
    assert kernels[-1].per_block["global_stores"] == spread(stores)
    if (
        version in _coo_versions_kernel.SEARCHES
    ):  # one of two searches, two numbers each
        loads = 2 * np.diff(expected.first) + expected.reads
        assert kernels[0].per_block["global_loads"] == spread(loads)


def sorted_by_key(entries: Any) -> Any:
    places = entries.rows, entries.columns
    A = scipy.sparse.coo_array((entries.values, places), shape=entries.shape)
    return coordinates(A.tocsr().tocoo())


@pytest.mark.paper("Cupp, 5.3, stored matches")
def test_stored_matches_are_those_of_the_specification() -> None:
    """One search stores the positions of all matches in A and B, in the order of A."""
    a, b = map(coordinates, random_pair((40, 40), 0.6))
    expected = studies.coo_versions(a[:3], b[:3], a.shape, 1, "even").matches
    same(
        _coo_versions_kernel.find_matches(a, sorted_by_key(b), EmulatedDevice()),
        expected,
    )


# ---- versions 1 and 2 ----------------------------------------------------------------


@pytest.mark.paper("Cupp, 5.1, Figure 10")
@together(
    ("version", "sorted_operands"),
    [("linear", 0), ("scratchpad", 0), ("binary", 1), ("even", 1)],
)
def test_no_operand_of_version_1_is_sorted(
    emulated: None, monkeypatch: Any, version: str, sorted_operands: int
) -> None:
    """Version 1 and the first attempt sort nothing; the others sort B alone."""
    lengths = []
    sort = _coo_multiply_kernel._sums_by_key

    def record(keys: Any, *arguments: Any) -> Any:
        lengths.append(len(keys))
        return sort(keys, *arguments)

    monkeypatch.setattr(_coo_multiply_kernel, "_sums_by_key", record)
    A, B = random_pair((20, 20), 0.4)
    check(multiply(A, B, method=version), A, B)
    assert lengths == [B.nnz] * sorted_operands


@pytest.mark.paper("Cupp, 5.1, Figure 11")
def test_version_2_reads_the_logarithm() -> None:
    """Among the 1,200 entries of 40 x 40 at 75 %, a search reads 11 or 12 keys,
    wherever the entry is, so tiles have equal work for each entry.

    Ten or eleven halvings, and the comparison for a match; 40 x 40 at 75 %.
    """
    a, b = map(coordinates, random_pair((40, 40), 0.75))
    each = studies.coo_versions(a[:3], b[:3], a.shape, 1_200, "binary").reads // 2
    assert set(each) == {11, 12}
    count = square_kernels(40, "binary")[0]
    assert count.arrays["b_rows"].lanes == each.sum()


@pytest.mark.paper("Cupp, 4.2, Figure 9")
def test_work_of_version_1() -> None:
    """At 75 % with 128 tiles, version 1 reads 11,250 keys at 10 x 10 and 2,880,000 at
    40 x 40, 256 times as many, and executes 131,811 and 24,209,120 instructions of PTX,
    184 times as many. The work of version 1 is even: of 128 tiles the largest loads
    1.07 times the mean.

    At 75 %, with 128 tiles.
    """
    small, large = (square_kernels(side, "linear") for side in (10, 40))
    keys = [coo_figures.keys_read(kernels) for kernels in (small, large)]
    assert keys == [11_250, 2_880_000]
    assert keys[1] == 256 * keys[0]
    instructions = executed(small), executed(large)
    assert instructions == (131_811, 24_209_120)
    assert round(instructions[1] / instructions[0]) == 184
    loads = large[0].per_block["global_loads"]
    assert loads.most / loads.mean == pytest.approx(1.07, abs=0.005)


def saved(side: int, threads: int, count: Callable[[Any], int]) -> float:
    """The part of version 1 that version 2 saves."""
    linear, binary = (
        count(square_kernels(side, method, threads)) for method in ("linear", "binary")
    )
    return 1 - binary / linear


@pytest.mark.paper("Cupp, 5.2, Figure 12")
@pytest.mark.parametrize(
    ("side", "threads", "expected"),
    [(10, 1, 0.58), (20, 1, 0.91), (30, 1, 0.96)]
    + [(40, 1, 0.977), (40, 32, 0.961), (40, 256, 0.858)],
)
def test_instructions_saved_by_version_2(
    side: int, threads: int, expected: float
) -> None:
    """At 75 % with the document's 128 tiles, binary search saves 58 % of the
    instructions of PTX at 10 x 10, 91 % at 20 x 20, 96 % at 30 x 30 and 97.7 % at
    40 x 40, where its cores save 96 % of theirs in the document, and 99.1 % of the
    keys; 96.1 % if a tile has 32 threads, and 85.8 % with 256, which all take part in
    scans and barriers.

    At 75 %, with 128 tiles.
    """
    found, document = saved(side, threads, executed), 0.96
    assert round(found, 3 if side == 40 else 2) == expected
    if side == 40:
        assert (found > document) == (threads <= 32)
        assert round(saved(40, threads, coo_figures.keys_read), 3) == 0.991


# ---- more and more tiles: figures 13 to 21 -------------------------------------------


def busiest_loads(kernels: Any) -> float:
    """The loads of the tile with the most, in each kernel."""
    return sum(kernel.per_block["global_loads"].most for kernel in kernels)


@pytest.fixture(scope="module")
def operands_of_232() -> coo_figures.Pair:
    operands = coo_figures.pair_of_232()
    assert [matrix.nnz for matrix in operands] == [1638, 1638]
    assert scipy_product(*operands).nnz == 232
    return operands


TILE_COSTS = {
    "1000 x 100 at 1 %": (12_003, 511, 407_650, 441_750, 1.08),
    "128 x 128 at 10 %": (21_090, 805, 716_842, 750_942, 1.05),
}
"""Loads of the busiest tile and instructions, with 4 tiles and with 128; a ratio."""


@pytest.mark.paper(
    "Cupp, 5.2, Figure 13",
    "At 1000 x 100 and 1 % each doubling of the tiles lowers the loads of the busiest "
    "tile of version 2, from 12,003 with 4 tiles to 511 with 128",
)
@pytest.mark.paper(
    "Cupp, 6, Figure 14",
    "For the same inputs, here 1000 x 100 at 1 %, the instructions of all tiles rise "
    "with each doubling, from 407,650 of PTX with 4 tiles to 441,750 with 128, 1.08 "
    "times as many: they do not fall",
)
@pytest.mark.paper(
    "Cupp, 6.2, Figure 17",
    "At 128 x 128 and 10 % the instructions of version 2 rise with each doubling of "
    "the tiles, from 716,842 of PTX with 4 to 750,942 with 128, 1.05 times as many; "
    "its search reads 38,528 keys with any of them",
)
@pytest.mark.paper(
    "Cupp, 6.2, Figure 19",
    "The loads of the busiest tile fall with each doubling, from 21,090 with 4 tiles "
    "to 805 with 128",
)
@pytest.mark.parametrize("name", TILE_COSTS)
def test_tiles_share_the_loads_and_add_instructions(
    name: str, operands_of_232: Any
) -> None:
    """Version 2 with 4 to 128 tiles."""
    is_square, (*ends, ratio) = name.startswith("128"), TILE_COSTS[name]
    operands = operands_of_232 if is_square else random_pair((1000, 100), 0.01)
    found = [counted(operands, "binary", tiles) for tiles in GROUPS]
    loads, total = list(map(busiest_loads, found)), list(map(executed, found))
    assert loads == sorted(loads, reverse=True)
    assert total == sorted(total)
    assert [loads[0], loads[-1], total[0], total[-1]] == ends
    assert round(total[-1] / total[0], 2) == ratio
    if is_square:
        assert {coo_figures.keys_read(kernels) for kernels in found} == {38_528}


@pytest.mark.paper("Cupp, 6, Figure 15")
def test_each_tile_executes_instructions(operands_of_232: Any) -> None:
    """Each of 128 tiles executes 5,499 to 6,574 instructions of PTX, at most 1.2 times
    the least of a tile, since the last adds the counts of all before it; the four tiles
    of the document differ by 7 %.

    Of all kinds: what the one thread of a tile does in turn.
    """
    tile_counts = [
        kernel.per_block["chain_issued"]
        for kernel in counted(operands_of_232, "binary", 128)
    ]
    least, most = (
        sum(getattr(counts, name) for counts in tile_counts)
        for name in ("least", "most")
    )
    assert (least, most) == (5_499, 6_574)
    assert round(most / least, 1) == 1.2
    document = 2581, 2429, 2433, 2422
    assert round(max(document) / min(document) - 1, 2) == 0.07


@pytest.mark.slow
@pytest.mark.paper("Cupp, 6.2, Figure 21")
@together("method", [*VERSIONS, "merge", "gallop"])
def test_one_multiplication_for_each_match(
    emulated: None, operands_of_232: Any, method: str
) -> None:
    """232 multiplications with 4, 8, 16, 32, 64 and 128 tiles; the document's simulator
    counted 120 with 128, an error of 48 %.
    """
    assert GROUPS == (4, 8, 16, 32, 64, 128)
    tiles = GROUPS if method in ("binary", "even") else [None]
    for blocks in tiles:
        threads = 256 if blocks is None else 1
        found = costs_of(*operands_of_232, method, blocks, threads)
        operations = [
            kernel.arithmetic for kernel in found.values() if kernel.arithmetic
        ]
        assert operations == [{"float32 multiply": 232}]
    assert round(1 - 120 / 232, 2) == 0.48


@pytest.mark.paper("Cupp, 6.2, 232 products")
def test_mean_of_232() -> None:
    """Two matrices of 1638 entries, drawn as in the document, have 230.57 places in
    common on average, with a standard deviation of 12.5; two uniform matrices 163.76.

    By arithmetic, and within four standard errors of 200 pairs of each kind.
    """
    assert round(coo_figures.mean_matches(128 * 128, 1638), 2) == 230.57
    drawn, uniform = [], []
    for seed in range(200):
        A, B = (random_coo((128, 128), 0.1, rng=2 * seed + k) for k in (0, 1))
        uniform.append(scipy_product(A, B).nnz)
        drawn.append(scipy_product(*random_pair((128, 128), 0.1, seed)).nnz)
    assert np.std(drawn) == pytest.approx(12.5, rel=0.2)
    for found, expected in ((drawn, 230.57), (uniform, 163.76)):
        assert abs(np.mean(found) - expected) < 4 * np.std(found) / 200**0.5


@pytest.mark.paper("Cupp, 2.2, random matrices")
def test_all_draws_of_a_small_matrix() -> None:
    """A place that is taken becomes the first free place: the mean number of places in
    common equals the mean of all 729 draws of 3 of 9 places.
    """
    drawn = []
    for places in itertools.product(range(9), repeat=3):
        generator: Any = SimpleNamespace(
            integers=lambda *_, places=places, **__: np.array(places)
        )
        A = coo_figures.drawn_as_in_the_document((3, 3), 3 / 9, generator)
        found = (3 * A.row + A.col).tolist()
        expected: list[int] = []
        for place in places:
            free = [place for place in range(9) if place not in expected]
            expected.append(place if place in free else free[0])
        assert found == expected  # in the order of drawing
        drawn.append(np.isin(range(9), found))
    assert len(drawn) == 729
    probability = np.mean(drawn, axis=0)
    assert coo_figures.mean_matches(9, 3) == pytest.approx((probability**2).sum())


# ---- the first attempt ---------------------------------------------------------------


@pytest.mark.paper("Cupp, 3")
def test_the_scratchpad_halves_the_search_and_needs_a_grid_barrier(
    emulated: None,
) -> None:
    """One search instead of two takes 52 % of the instructions of PTX of version 1, at
    16 x 16 and 75 %, and all blocks wait for each other once.
    """
    A, B = random_pair((16, 16), 0.75)
    found, version_1 = costs_of(A, B, "scratchpad"), costs_of(A, B, "linear")
    attempt = found["multiply_in_scratchpad"]
    assert attempt.arrays["b_rows"].lanes == A.nnz * B.nnz
    assert attempt.grid_barriers == attempt.launches == 1
    part = executed([attempt]) / executed(counted((A, B), "linear"))
    assert round(part, 2) == 0.52
    # Each product is written to shared memory and read again.
    through = shared_lanes(attempt) - shared_lanes(version_1["multiply_found"])
    assert through == 2 * 3 * scipy_product(A, B).nnz


def shared_lanes(kernel: Any) -> int:
    """Without the reads of the block's first place.

    All threads of version 1 read it; of the first attempt only those with products do.
    """
    source = source_directory() / "coo_versions.cu"
    line = source.read_text().splitlines().index("    return before;") + 1
    first_place = kernel.shared[f"{source.name}:{line}"]
    return int(kernel.shared_lanes - first_place.lanes)


@pytest.mark.paper("Cupp, 3")
@pytest.mark.parametrize(
    ("dtype", "places"), [("float32", 336), ("float64", 256), ("bool", 448)]
)
def test_the_scratchpad_overflows(emulated: None, dtype: str, places: int) -> None:
    """The 4096 bytes of a tile hold 336 products of float32 or 256 of float64, and the
    next product raises MemoryError.

    4096 bytes of results: two indices and a value each, in multiples of 16.
    """
    A = random_coo((1, 2 * places + 1), 1, rng=1, dtype=dtype)
    with pytest.raises(MemoryError, match=rf"at most {places} .*got {places + 1} with"):
        multiply(A, A, method="scratchpad", blocks=2)
    with pytest.raises(MemoryError, match=rf"at most {places} .*got {places + 1}"):
        multiply_in_scratchpads(A, places)
    A = random_coo((1, 2 * places), 1, rng=1, dtype=dtype)
    check(multiply(A, A, method="scratchpad", blocks=2), A, A)
    assert multiply_in_scratchpads(A, places).counts.tolist() == [places, places]


def multiply_in_scratchpads(A: Any, places: int) -> Any:
    """The specification of A times A by two tiles."""
    a = coordinates(A)
    return studies.coo_versions(a[:3], a[:3], a.shape, 2, "scratchpad", places)


# ---- even multiplications ------------------------------------------------------------


@pytest.mark.paper("Cupp, 5.3, even multiplications")
def test_largest_of_128_tiles(operands_of_232: Any) -> None:
    """At 128 x 128 and 10 % with 128 tiles, the largest tile of version 2 has 3.31
    times the mean multiplications, and 1.10 times if they are distributed evenly; with
    A sorted, it would be 7.17.

    Version 2 sorts B alone, of a pair of 128 x 128 at 10 %.
    """
    A, B = operands_of_232
    for operands, method, expected in (
        ((A, B), "binary", 3.31),
        ((A, B), "even", 1.10),
        ((A.tocsr().tocoo(), B), "binary", 7.17),
    ):
        stores = counted(operands, method, 128)[-1].per_block["global_stores"]
        assert round(stores.most / stores.mean, 2) == expected


@pytest.mark.paper("Cupp, 5.3, stored matches")
def test_even_searches_once(emulated: None) -> None:
    """At 40 x 40 and 75 % they halve the keys that are read, from 27,112 to 13,556."""
    A, B = random_pair((40, 40), 0.75)
    keys = [
        coo_figures.keys_read(counted((A, B), method)) for method in ("binary", "even")
    ]
    assert keys == [27_112, 13_556]
    twice, once = (costs_of(A, B, method) for method in ("binary", "even"))
    searches = twice["count_found"], twice["multiply_found"], once["find_matches"]
    assert len({kernel.arrays["b_rows"].lanes for kernel in searches}) == 1
    assert "b_rows" not in once["multiply_matches"].arrays
