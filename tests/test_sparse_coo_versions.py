"""The kernels, the example and the statistics of M. Cupp's document.

"Element-Wise Multiplication Kernel", 2020. Its figures are numbered as there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from benchmarks import coo_paper
from gpusolve import emulator, studies
from gpusolve._device.kernels import EmulatedDevice
from gpusolve.sparse import _coo_multiply_kernel, multiply, random_coo
from gpusolve.sparse._coo_multiply import METHODS, VERSIONS
from gpusolve.sparse._inputs import coordinates
from gpusolve.studies import _coo_versions_kernel

same = np.testing.assert_array_equal
random_pair = coo_paper.random_pair
every_version = pytest.mark.parametrize("version", VERSIONS)
every_search = pytest.mark.parametrize("search", ["linear", "binary"])


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")


def coo(entries: Any, shape: tuple[int, int]) -> Any:
    """A matrix of entries (row, column, value), in this order."""
    rows, columns, values = zip(*entries, strict=True)
    places = np.array(rows, np.int32), np.array(columns, np.int32)
    return scipy.sparse.coo_array((np.array(values, np.float32), places), shape=shape)


def by_scipy(A: Any, B: Any) -> Any:
    return A.tocsr().multiply(B.tocsr())


def check(found: Any, A: Any, B: Any) -> None:
    expected = by_scipy(A, B).tocoo()
    for name in ("row", "col", "data"):
        same(getattr(found, name), getattr(expected, name))


def costs_of(A: Any, B: Any, method: str, blocks: int | None = None) -> dict[str, Any]:
    """The costs of each kernel by its name, without template arguments."""
    with emulator.profile() as report:
        check(multiply(A, B, method=method, blocks=blocks), A, B)
    return {one.name.partition("<")[0]: one for one in report.kernels}


def instructions(costs: dict[str, Any]) -> int:
    """Those of the kernels of the document; it does not count checks and sorting."""
    return sum(
        one.instructions.total() for name, one in costs.items() if name != "make_keys"
    )


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


@every_search
def test_the_example_of_the_document(search: Any) -> None:
    a, b = map(coordinates, example())
    found = studies.coo_versions(a[:3], b[:3], a.shape, TILES, search)
    assert found.first.tolist() == FIRST_ENTRIES
    assert found.counts.tolist() == COUNTS
    assert found.starts.tolist() == STARTS
    assert found.product[2].tolist() == PRODUCTS


@every_search
def test_the_example_by_the_kernels(search: str) -> None:
    a, b = map(coordinates, example())
    if search == "binary":
        a, b = (coordinates(one.tocsr().tocoo()) for one in example())
    device, name = EmulatedDevice(), _coo_versions_kernel.SEARCHES[search]
    counts = _coo_versions_kernel.count_found(name, a, b, TILES, device)
    assert counts.tolist() == COUNTS
    product = _coo_versions_kernel.multiply_found(name, a, b, counts, device)
    assert product.values.tolist() == PRODUCTS
    places = zip(product.rows, product.columns, strict=True)
    assert [*places] == [(1, 0), (1, 3), (2, 0), (2, 1), (2, 3), (3, 2)]


def test_intensity_of_the_best_case(emulated: None) -> None:
    """Section 4.3: one operation per nine accesses, of which six are reads; 0.11."""
    A = coo([(3, 2, 5)], (4, 4))
    found = costs_of(A, A, "linear")["multiply_found"]
    assert (found.global_loads, found.global_stores) == (6, 3)
    assert found.arithmetic == {"float32 multiply": 1}


# ---- versions 1 and 2 ----------------------------------------------------------------


@every_search
@pytest.mark.parametrize("blocks", [1, 3, 40])
def test_kernels_agree_with_the_reference(search: Any, blocks: int) -> None:
    """Also the order of the products, which is that of A."""
    A, B = random_pair((20, 30), 0.5)
    B = B if search == "linear" else B.tocsr().tocoo()
    a, b = coordinates(A), coordinates(B)
    expected = studies.coo_versions(a[:3], b[:3], a.shape, blocks, search)
    device, name = EmulatedDevice(), _coo_versions_kernel.SEARCHES[search]
    counts = _coo_versions_kernel.count_found(name, a, b, blocks, device)
    same(counts, expected.counts)
    product = _coo_versions_kernel.multiply_found(name, a, b, counts, device)
    for one, other in zip(product[:3], expected.product, strict=True):
        same(one, other)


@every_version
@pytest.mark.parametrize("blocks", [None, 1, 2, 7, 12])
def test_any_number_of_blocks(emulated: None, version: str, blocks: int | None) -> None:
    """With and without idle blocks, and with parts of more than one turn of threads."""
    for shape, density in (((2, 3), 0.5), ((26, 26), 0.7)):
        if version == "scratchpad" and blocks == 1 and density > 0.5:
            continue  # overflows
        A, B = random_pair(shape, density)
        check(multiply(A, B, method=version, blocks=blocks), A, B)


@pytest.mark.parametrize(
    ("version", "sorted_operands"),
    [("linear", 0), ("scratchpad", 0), ("binary", 1), ("even", 1)],
)
def test_no_operand_of_version_1_is_sorted(
    emulated: None, monkeypatch: Any, version: str, sorted_operands: int
) -> None:
    lengths = []
    sort = _coo_multiply_kernel._sums_by_key

    def record(keys: Any, *arguments: Any) -> Any:
        lengths.append(len(keys))
        return sort(keys, *arguments)

    monkeypatch.setattr(_coo_multiply_kernel, "_sums_by_key", record)
    A, B = random_pair((20, 20), 0.4)
    check(multiply(A, B, method=version), A, B)
    assert lengths == [B.nnz] * sorted_operands


def test_version_1_reads_all_of_b_for_each_entry_of_a(emulated: None) -> None:
    """From start to finish: all lanes of a warp read the same entry."""
    A, B = random_pair((32, 32), 1)
    found = costs_of(A, B, "linear")
    searched = A.nnz * B.nnz
    for kernel in ("count_found", "multiply_found"):
        for array in ("b_rows", "b_columns"):
            assert found[kernel].arrays[array].lanes == searched
            assert found[kernel].arrays[array].requests == searched // 32
            assert found[kernel].arrays[array].sectors == searched // 32
    assert found["count_found"].active_lanes > 31.9


def test_version_2_reads_the_logarithm(emulated: None) -> None:
    """One comparison for each halving of 1024, or one more, and one for the match."""
    A, B = random_pair((32, 32), 1)
    found = costs_of(A, B, "binary")["count_found"]
    assert found.arrays["b_rows"].lanes <= A.nnz * (np.log2(B.nnz) + 2)
    assert found.arrays["b_rows"].lanes >= A.nnz * (np.log2(B.nnz) + 1)


def test_instructions_saved_by_version_2(emulated: None) -> None:
    """Figure 12: 96 % at 40 x 40, and more with more entries."""
    saved = []
    for side in (10, 40):
        A, B = random_pair((side, side), 0.75)
        of_version = [instructions(costs_of(A, B, one)) for one in ("linear", "binary")]
        saved.append(1 - of_version[1] / of_version[0])
    assert saved == sorted(saved)
    assert saved[-1] == pytest.approx(0.96, abs=0.01)


# ---- figures 17 to 21: the law of 232 ------------------------------------------------


@pytest.fixture(scope="module")
def operands_of_232() -> coo_paper.Pair:
    operands = coo_paper.pair_of_232()
    assert [one.nnz for one in operands] == [1638, 1638]
    assert by_scipy(*operands).nnz == 232
    return operands


@pytest.mark.parametrize("method", METHODS)
def test_one_multiplication_for_each_match(
    emulated: None, operands_of_232: Any, method: str
) -> None:
    """Also for 16 x 8 tiles, for which the document's simulator counted 120."""
    counts: list[int | None] = [None]
    if method in ("binary", "even"):
        counts = [4, 16, 32, 64, 128]  # of 2 x 2 to 16 x 8
    for blocks in counts:
        found = costs_of(*operands_of_232, method, blocks)
        operations = [one.arithmetic for one in found.values() if one.arithmetic]
        assert operations == [{"float32 multiply": 232}]


# ---- the first attempt ---------------------------------------------------------------


def test_the_scratchpad_halves_the_search_and_needs_a_grid_barrier(
    emulated: None,
) -> None:
    A, B = random_pair((16, 16), 0.75)
    found, version_1 = costs_of(A, B, "scratchpad"), costs_of(A, B, "linear")
    attempt = found["multiply_in_scratchpad"]
    assert attempt.arrays["b_rows"].lanes == A.nnz * B.nnz
    assert attempt.grid_barriers == attempt.launches == 1
    assert instructions(found) < 0.6 * instructions(version_1)
    # Each product is written to shared memory and read again.
    through = attempt.shared_lanes - version_1["multiply_found"].shared_lanes
    assert through == 2 * 3 * by_scipy(A, B).nnz


@pytest.mark.parametrize(
    ("dtype", "places"), [("float32", 336), ("float64", 256), ("bool", 448)]
)
def test_the_scratchpad_overflows(emulated: None, dtype: str, places: int) -> None:
    """4096 bytes of results: two indices and a value each, in multiples of 16."""
    A = random_coo((1, 2 * places + 1), 1, rng=1, dtype=dtype)
    with pytest.raises(MemoryError, match=rf"at most {places} .*got {places + 1} with"):
        multiply(A, A, method="scratchpad", blocks=2)
    A = random_coo((1, 2 * places), 1, rng=1, dtype=dtype)
    check(multiply(A, A, method="scratchpad", blocks=2), A, A)


def test_blocks_of_the_scratchpad_must_be_resident(emulated: None) -> None:
    """So its results are limited by the device, at any number of blocks."""
    A, B = random_pair((9, 9), 0.5)
    with pytest.raises(ValueError, match="cooperative launch must have at most"):
        multiply(A, B, method="scratchpad", blocks=1000)


# ---- even multiplications ------------------------------------------------------------


def uneven() -> tuple[Any, Any]:
    """All matches are in the first quarter of A."""
    A = random_coo((32, 32), 1, rng=1, dtype=np.float32)
    dense = random_coo((32, 32), 1, rng=2, dtype=np.float32).toarray()
    dense[8:] = 0
    return A, scipy.sparse.coo_array(dense)


@pytest.mark.parametrize(
    ("method", "kernel", "largest"),
    [("binary", "multiply_found", 4), ("even", "multiply_matches", 1)],
)
def test_largest_over_mean_of_the_multiplications(
    emulated: None, method: str, kernel: str, largest: float
) -> None:
    """Section 5.3: "Distributing the actual multiplications more evenly"."""
    A, B = uneven()
    found = costs_of(A, B, method, blocks=4)[kernel]
    stores = found.per_block["global_stores"]
    assert 4 * stores.mean == 3 * 256
    assert stores.most / stores.mean == largest
    if method == "even":
        assert found.balance == pytest.approx(1, abs=0.01)


def test_even_multiplications_differ_by_one(emulated: None) -> None:
    A, B = random_pair((20, 20), 0.6)
    stores = costs_of(A, B, "even", 7)["multiply_matches"].per_block["global_stores"]
    assert by_scipy(A, B).nnz % 7
    assert stores.most - stores.least == 3


def test_even_searches_once(emulated: None) -> None:
    A, B = random_pair((20, 20), 0.6)
    twice, once = (costs_of(A, B, one) for one in ("binary", "even"))
    searches = twice["count_found"], twice["multiply_found"], once["find_matches"]
    assert len({one.arrays["b_rows"].lanes for one in searches}) == 1
    assert "b_rows" not in once["multiply_matches"].arrays


# ---- the document's sizes ------------------------------------------------------------


@pytest.mark.parametrize("side", [5, 20, 40])
def test_dense_squares(backend: Any, side: int) -> None:
    """Figures 9 and 12: 75 % density at increasing sizes."""
    check_on(backend, (side, side), 0.75)


def test_sparse_rectangle(backend: Any) -> None:
    """Figure 13: 1000 x 100 at 1 % density."""
    check_on(backend, (1000, 100), 0.01)


def check_on(backend: Any, shape: tuple[int, int], density: float) -> None:
    A, B = random_pair(shape, density)
    operands = A, B
    if backend.name == "cuda":
        import cupyx.scipy.sparse

        operands = tuple(map(cupyx.scipy.sparse.coo_matrix, (A, B)))
    for method in METHODS:
        found = multiply(*operands, method=method)
        check(found.get() if backend.name == "cuda" else found, A, B)


# ---- the parameter -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "blocks"), [("linear", 0), ("even", -1), ("merge", 4), ("auto", 1)]
)
def test_invalid_blocks_are_rejected(method: str, blocks: int) -> None:
    A = random_coo((3, 3), 0.5, rng=1)
    with pytest.raises(ValueError, match=f"blocks must be positive.*got {blocks}"):
        multiply(A, A, method=method, blocks=blocks)


def test_a_cpu_ignores_blocks() -> None:
    A, B = random_pair((20, 20), 0.6)
    check(multiply(A, B, method="binary", blocks=5), A, B)
