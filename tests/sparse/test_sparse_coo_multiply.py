"""The element-wise product of sparse matrices."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse
from backends import on_emulator, without_gpu
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from oracles import wrapping
from together import together

from gpusolve import emulator, reference

# Sizes of tiles, around which operands are made.
from gpusolve.sparse import _coo_multiply_kernel, multiply, random_coo

same = assert_array_equal
METHODS = ("merge", "gallop", "linear", "scratchpad", "binary", "even")
every_method = together("method", METHODS)

HUGE = 2**31 - 1
THREADS = _coo_multiply_kernel.THREADS
STEPS = THREADS * _coo_multiply_kernel.MERGE_ITEMS
KEYS = THREADS * _coo_multiply_kernel.GALLOP_ITEMS
AROUND_TILES = [
    1,
    7,
    32,
    *(x + d for x in (STEPS // 2, KEYS, STEPS) for d in (-1, 0, 1)),
]
"""Numbers of entries of each operand. A pair of equal keys takes two merge steps."""

CUPY_DTYPES = ("bool", "float32", "float64", "complex64", "complex128")


def coo(rows: Any, columns: Any, values: Any, shape: tuple[int, int]) -> Any:
    index = np.int32 if max(shape) < 2**31 else np.int64
    places = np.asarray(rows, index), np.asarray(columns, index)
    return scipy.sparse.coo_array((np.asarray(values), places), shape=shape)


def compressed(A: Any, form: str) -> Any:
    """CSR or CSC with the duplicates of A, whose rows are not sorted."""
    major, minor = (A.row, A.col) if form == "csr" else (A.col, A.row)
    order = np.argsort(major, kind="stable")
    size = A.shape[form == "csc"]
    starts = np.searchsorted(major[order], np.arange(size + 1))
    kind = getattr(scipy.sparse, f"{form}_array")
    return kind((A.data[order], minor[order], starts), shape=A.shape)


def one_row(columns: Any, width: int, *, seed: int = 0) -> Any:
    """A matrix of one row with entries in these columns."""
    values = np.random.default_rng(seed).integers(1, 9, len(columns)).astype(float)
    return coo(np.zeros(len(columns)), columns, values, (1, width))


def to_backend(backend: Any, A: Any) -> Any:
    """Convert a SciPy container to the backend's."""
    if backend.name != "cuda":
        return A
    import cupyx.scipy.sparse

    if A.dtype.name not in CUPY_DTYPES:
        pytest.skip(f"CuPy has no sparse arrays of {A.dtype}")
    kind = "array" if isinstance(A, scipy.sparse.sparray) else "matrix"
    return getattr(cupyx.scipy.sparse, f"{A.format}_{kind}")(A)


def product(backend: Any, A: Any, B: Any, **options: Any) -> Any:
    """Result of `multiply` as a SciPy container, checked to be canonical."""
    found = multiply(to_backend(backend, A), to_backend(backend, B), **options)
    assert found.has_canonical_format
    found = found.get() if backend.name == "cuda" else found
    check_canonical(found)
    return found


def check_canonical(found: Any) -> None:
    assert found.format == "coo"
    places = list(zip(found.row.tolist(), found.col.tolist(), strict=True))
    assert places == sorted(set(places))
    assert (found.data != 0).all()


def check_equal(found: Any, expected: Any) -> None:
    """Compare the stored entries exactly."""
    expected = expected.tocsr().tocoo()
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    same(found.row, expected.row)
    same(found.col, expected.col)
    same(found.data, expected.data)


def scipy_product(A: Any, B: Any) -> Any:
    return A.tocsr().multiply(B.tocsr())


def true_product(A: Any, B: Any) -> dict[tuple[int, int], Any]:
    """The product of A and B with duplicates added, on Python numbers."""

    def sums(M: Any) -> dict[tuple[int, int], Any]:
        found: dict[tuple[int, int], Any] = {}
        wrap = wrapping(M.dtype)
        for i, j, v in zip(*(x.tolist() for x in (M.row, M.col, M.data)), strict=True):
            found[i, j] = wrap(found.get((i, j), 0) + v)
        return found

    a, b, wrap = sums(A), sums(B), wrapping(np.result_type(A.dtype, B.dtype))
    products = {place: wrap(a[place] * b[place]) for place in a if place in b}
    return {place: value for place, value in sorted(products.items()) if value}


def entries_of(found: Any) -> dict[tuple[int, int], Any]:
    places = zip(found.row.tolist(), found.col.tolist(), strict=True)
    return dict(zip(places, found.data.tolist(), strict=True))


# ---- comparison with SciPy and brute force -------------------------------------------

DTYPES = ["bool", "int8", "uint16", "int64", "uint64", "float32", "float64"]
DTYPES += ["complex64", "complex128"]


@together("a", DTYPES)
def test_every_pair_of_dtypes(backend: Any, a: str) -> None:
    A = random_coo((11, 13), 0.6, rng=1, dtype=a)
    for b in DTYPES:
        if backend.name == "cuda" and b not in CUPY_DTYPES:
            continue
        B = random_coo((11, 13), 0.5, rng=2, dtype=b)
        found, expected = product(backend, A, B), scipy_product(A, B).tocoo()
        assert found.dtype == expected.dtype == np.result_type(A.dtype, B.dtype)
        same(found.row, expected.row)
        same(found.col, expected.col)
        tolerance = np.finfo(found.dtype).eps if found.dtype.kind == "c" else 0
        assert_allclose(found.data, expected.data, rtol=4 * tolerance)


@pytest.mark.parametrize("dtype", ["longdouble", "clongdouble"])
def test_extended_precision_is_supported_on_the_cpu_only(
    dtype: str, monkeypatch: Any
) -> None:
    A, B = (random_coo((9, 9), 0.5, rng=seed, dtype=dtype) for seed in (1, 2))
    check_equal(multiply(A, B), scipy_product(A, B))
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    with pytest.raises(TypeError, match=r"A must have .*dtype"):
        multiply(A, B)


@pytest.mark.paper("Cupp, Figure 1")
@together("shape", [(1, 1), (1, 97), (97, 1), (40, 40), (130, 7), (3, 500)])
@every_method
def test_every_shape(backend: Any, shape: tuple[int, int], method: str) -> None:
    """The product has SciPy's entries, to the bit, for every method,
    shape and density.
    """
    for density in (0.01, 0.4, 0.97, 1):
        A = random_coo(shape, density, rng=1, dtype=np.float32)
        B = random_coo(shape, 0.5, rng=2, dtype=np.float32)
        check_equal(product(backend, A, B, method=method), scipy_product(A, B))


@st.composite
def pairs_of_matrices(draw: Any) -> tuple[Any, Any]:
    """Two matrices of one shape, unsorted, with duplicates, zeros and a dense row."""
    shape = draw(st.integers(0, 6)), draw(st.integers(0, 40))
    limits = tuple(max(size - 1, 0) for size in shape)
    max_entries = 0 if 0 in shape else 60

    def matrix(dtype: str) -> Any:
        values = st.integers(-2, 3) | st.sampled_from([16, 100, -100])
        entry = st.tuples(st.integers(0, limits[0]), st.integers(0, limits[1]), values)
        entries = draw(st.lists(entry, max_size=max_entries))
        if max_entries and draw(st.booleans()):
            row = draw(st.integers(0, limits[0]))
            entries += [(row, column, 1) for column in range(shape[1])]
        rows, columns, values = zip(*entries, strict=True) if entries else ((), (), ())
        return coo(rows, columns, np.array(values, int).astype(dtype), shape)

    pairs = ("int8", "int8"), ("bool", "int8"), ("int8", "complex128")
    left, right = draw(st.sampled_from(pairs))
    return matrix(left), matrix(right)


@pytest.mark.paper("Cupp, 2.2, reference product")
@given(pairs_of_matrices(), st.sampled_from(["coo", "csr", "csc"]))
def test_random_structures(backend: Any, operands: tuple[Any, Any], form: str) -> None:
    """The reference agrees with brute force over all pairs of entries, also with
    entries in any order, duplicates and zeros.

    Duplicates are summed in the dtype of the operand. So does each method.
    """
    if backend.name == "cuda":
        operands = tuple(
            one.astype(np.result_type(one.dtype, float)) for one in operands
        )
    expected, (A, B) = true_product(*operands), operands
    if backend.name == "numpy":
        a, b = ((M.row, M.col, M.data) for M in operands)
        found = coo(*reference.coo_multiply(a, b, A.shape), A.shape)
        check_canonical(found)
        assert entries_of(found) == expected
    for method in METHODS:
        given = A if form == "coo" else compressed(A, form)
        found = product(backend, given, B, method=method)
        assert entries_of(found) == expected, method
        assert found.shape == A.shape
        assert found.dtype == np.result_type(A.dtype, B.dtype)


# ---- boundaries of tiles and warps ---------------------------------------------------


@together("method", ["merge", "gallop"])
@together("length", AROUND_TILES)
def test_lengths_around_tile_sizes(backend: Any, method: str, length: int) -> None:
    """Pairs of equal keys begin at even and odd steps, adjacent or far apart."""
    width = 2 * length + 4
    columns = np.arange(length)
    for before in (0, 1):
        A = one_row(columns + 2, width, seed=1)
        for other in (
            np.append(np.arange(before), columns + 2),
            np.append(np.arange(before), columns + length + 2),
            np.append(np.arange(before), 2 * columns + 3),
        ):
            B = one_row(other, width, seed=2)
            for left, right in ((A, B), (B, A)):
                found = product(backend, left, right, method=method)
                check_equal(found, scipy_product(left, right))


@together("few", [1, 2, 5, 30])
@every_method
def test_few_entries_with_many(
    backend: Any, method: str, few: int, rng: Generator
) -> None:
    width = 9000
    many = one_row(np.sort(rng.choice(width, 4000, replace=False)), width, seed=1)
    arbitrary = np.sort(rng.choice(width, few, replace=False))
    present = np.sort(rng.choice(many.col, few, replace=False))
    ends = np.array([0, width - 1])
    for columns in (arbitrary, present, present[:1], ends, many.col[[0, -1]]):
        A = one_row(columns, width, seed=2)
        check_equal(product(backend, A, many, method=method), scipy_product(A, many))
        check_equal(product(backend, many, A, method=method), scipy_product(many, A))


@on_emulator
@every_method
def test_any_schedule_of_threads_and_blocks(
    backend: Any, schedule: str, method: str
) -> None:
    """Also of unsorted entries; no schedule has a race. The search of all is slow."""
    shape = (45, 50) if method in ("auto", "merge", "gallop") else (16, 20)
    A, B = (random_coo(shape, density, rng=1) for density in (0.5, 0.7))
    with emulator.races():
        check_equal(multiply(A, B, method=method), scipy_product(A, B))
        if method == "merge":
            order = np.random.default_rng(5).permutation(B.nnz)
            unsorted = coo(*(x[order] for x in (B.row, B.col, B.data)), B.shape)
            check_equal(multiply(A, unsorted, method=method), scipy_product(A, B))


# ---- keys ----------------------------------------------------------------------------


@pytest.mark.paper("Cupp, 5.1, absolute index")
@together(
    "shape",
    [
        *((46341, 46341), (65536, 65536), (HUGE, HUGE), (1, HUGE), (HUGE, 1)),
        *((2**40, 2**23), (2**23, 2**40)),
    ],
)
@every_method
def test_large_shapes(backend: Any, shape: tuple[int, int], method: str) -> None:
    """Places of 46341 x 46341 and larger matrices have different keys, where keys of 32
    bits overflow.

    Keys of 32 bits would overflow and make different places equal.
    """
    rows, columns = shape
    last = rows - 1, columns - 1
    corners = {(i, j) for i in (0, 1, last[0] // 2, last[0]) for j in (0, last[1])}
    places = sorted(place for place in corners if place[0] < rows)
    A = coo(*zip(*places, strict=True), np.arange(2.0, 2 + len(places)), shape)
    B = coo(*zip(*places[::2], strict=True), np.full(len(places[::2]), 3.0), shape)
    found = product(backend, A, B, method=method)
    assert entries_of(found) == true_product(A, B)
    assert found.shape == shape
    assert found.row.dtype == A.row.dtype


@without_gpu
def test_result_has_the_index_dtype_of_the_operands(backend: Any) -> None:
    A = random_coo((9, 9), 0.5, rng=1)
    B = A.copy()
    assert product(backend, A, A).row.dtype == np.int32
    B.coords = tuple(index.astype(np.int64) for index in A.coords)
    C = A.copy()
    C.coords = B.coords[0], A.coords[1]
    for left, right in ((A, B), (B, A), (B, B), (A, C)):
        found = product(backend, left, right)
        assert found.row.dtype == np.int64
        check_equal(found, scipy_product(A, A))


def test_layouts_of_arrays(backend: Any) -> None:
    """Reversed, strided, misaligned, swapped, and one object twice."""
    A, B = (random_coo((30, 30), 0.5, rng=seed) for seed in (1, 2))
    for left, right in (
        [coo(M.row[::-1], M.col[::-1], M.data[::-1], M.shape) for M in (A, B)],
        (coo(*(np.repeat(x, 2)[::2] for x in (A.row, A.col, A.data)), A.shape), B),
    ):
        check_equal(product(backend, left, right), scipy_product(A, B))
    there = to_backend(backend, A)
    found = multiply(there, there)
    check_equal(found.get() if backend.name == "cuda" else found, scipy_product(A, A))
    if backend.name != "cuda":
        swapped = A.copy()
        swapped.data = A.data.astype(A.dtype.newbyteorder())
        check_equal(product(backend, swapped, A), scipy_product(A, A))
        parts = np.arange(1.0, 10.0)
        for values in (parts[:8].view(complex), parts[1:].view(complex)):
            C = coo(np.zeros(4), np.arange(4), values, (1, 4))
            check_equal(product(backend, C, C), scipy_product(C, C))


def test_unsorted_csr_with_long_rows_needs_no_memory_for_a_row() -> None:
    columns = np.array([2**40, 5, 7])
    A = scipy.sparse.csr_array(
        (np.array([2.0, 3.0, 4.0]), columns, np.array([0, 3])), shape=(1, 2**41)
    )
    assert entries_of(multiply(A, A)) == {(0, 5): 9, (0, 7): 16, (0, 2**40): 4}
    same(A.indices, columns)


# ---- values --------------------------------------------------------------------------

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.5, 1e-300, 1e300])


@together("method", ["merge", "gallop", "linear"])
@together("dtype", ["float64", "complex128"])
def test_nan_and_infinity_propagate(backend: Any, dtype: str, method: str) -> None:
    """Every special value times every other, and times a place without an entry."""
    n = len(SPECIAL)
    a = np.append(np.repeat(SPECIAL, n), SPECIAL).astype(dtype)
    b = np.append(np.tile(SPECIAL, n), SPECIAL).astype(dtype)
    width = n * n + 2 * n
    A = coo(np.zeros(len(a)), np.arange(len(a)), a, (1, width))
    places = np.append(np.arange(n * n), np.arange(n * n + n, width))
    B = coo(np.zeros(len(b)), places, b, (1, width))
    with np.errstate(all="ignore"):
        expected = scipy_product(A, B).tocoo()
    found = product(backend, A, B, method=method)
    same(found.col, expected.col)
    if dtype == "float64":
        same(found.data, expected.data)
    same(np.isnan(found.data), np.isnan(expected.data))


# ---- containers ----------------------------------------------------------------------


@together("format", ["coo", "csr", "csc", "dia"])
def test_format_and_type_of_the_result(backend: Any, format: str) -> None:
    dense = random_coo((8, 9), 0.5, rng=1).toarray()
    array = scipy.sparse.coo_array(dense).asformat(format)
    matrix = scipy.sparse.coo_matrix(dense).asformat(format)
    for A, B, kind in (
        (array, array, scipy.sparse.coo_array),
        (matrix, matrix, scipy.sparse.coo_matrix),
        (array, matrix, scipy.sparse.coo_array),
        (matrix, array, scipy.sparse.coo_matrix),
    ):
        found = product(backend, A, B)
        assert type(found) is kind
        same(found.toarray(), dense * dense)


@without_gpu
@every_method
def test_operands_are_not_changed(backend: Any, method: str) -> None:
    A = coo([2, 0, 2, 1], [1, 1, 1, 0], [1.0, np.inf, 3.0, 0.0], (3, 3))
    B = random_coo((3, 3), 0.8, rng=1)
    inputs = [x for M in (A, B) for x in (M.row, M.col, M.data)]
    before = [x.copy() for x in inputs]
    for x in inputs:
        x.flags.writeable = False
    found = product(backend, A, B, method=method)
    for x, old in zip(inputs, before, strict=True):
        same(x, old)
    assert not A.has_canonical_format
    for result in (found.row, found.col, found.data):
        assert not any(np.shares_memory(result, x) for x in inputs)


# ---- operands that need a second attempt ---------------------------------------------


one_search = together("method", ["merge", "gallop"])


def attempts(A: Any, B: Any, method: str) -> tuple[Any, int]:
    """The product on the emulator, and how often it was computed."""
    emulated = mock.patch.dict(os.environ, GPUSOLVE_EMULATE="1")
    with emulated, emulator.profile() as report:
        found = multiply(A, B, method=method)
    return found, sum(k.launches for k in report.kernels if "multiply_by" in k.name)


def keys_of(A: Any) -> Any:
    return A.row * A.shape[1] + A.col


SPECIAL_DTYPES = ["float32", "float64", "complex64", "complex128"]


@one_search
@together("dtype", ["int32", *SPECIAL_DTYPES])
def test_canonical_operands_are_multiplied_once(method: str, dtype: str) -> None:
    """Values that are not finite meet an entry."""
    A = random_coo((60, 60), 0.5, rng=1, dtype=dtype)
    B = coo(A.row, A.col, random_coo((60, 60), 0.5, rng=2, dtype=dtype).data, A.shape)
    if dtype != "int32":
        A.data[::7] = np.inf
        B.data[::5] = np.nan
    few = coo(A.row[::9], A.col[::9], A.data[::9], A.shape)
    pairs = [(A, B), (few, B), (B, few)]
    for left, right in pairs[: 1 if dtype != "int32" else 3]:
        found, times = attempts(left, right, method)
        assert times == 1
        same(found.row, left.row[np.isin(keys_of(left), keys_of(right))])
    empty = coo([], [], np.zeros(0, dtype), A.shape)
    found, times = attempts(A, empty, method)
    assert found.nnz == (dtype != "int32") * len(A.data[::7])
    assert times == 1 + (dtype != "int32")


@one_search
@together("dtype", SPECIAL_DTYPES)
@together("special", [np.nan, -np.inf])
def test_a_special_value_without_a_match_is_seen(
    method: str, dtype: str, special: float
) -> None:
    """It may be the real or the imaginary part."""
    A = coo([0, 0, 1, 1], [0, 1, 0, 1], np.ones(4, dtype), (2, 2))
    B = coo([0, 0], [0, 1], np.ones(2, dtype), (2, 2))
    parts = (special, complex(1, special)) if dtype[0] == "c" else (special,)
    for value in parts:
        A.data[3] = value
        for left, right in ((A, B), (B, A)):
            found, times = attempts(left, right, method)
            same(found.row, [0, 0, 1])
            assert np.isnan(found.data[2])
            assert times == 2


def out_of_order() -> dict[str, Any]:
    """Columns of entries in several tiles that are not sorted, or have duplicates.

    An exchange may be seen at the border of a warp or of a thread alone.
    """
    size = STEPS + 100
    columns = np.arange(size)

    def exchanged(k: int) -> Any:
        return np.r_[columns[:k], k + 1, k, columns[k + 2 :]]

    return {
        "reversed": columns[::-1],
        "halves exchanged": np.roll(columns, size // 2),
        **{f"exchange at {k}": exchanged(k) for k in (3, 6, 31, STEPS - 1)},
        "one duplicate": np.append(columns, size - 1),
        "one column": np.full(size, size // 2),
        "random": np.random.default_rng(3).integers(0, size, size),
    }


@one_search
@together("columns", out_of_order().values(), ids=out_of_order())
def test_entries_out_of_order_are_seen(method: str, columns: Any) -> None:
    """Of the longer and of the shorter operand, whose tiles have other borders."""
    width = STEPS + 101
    A, many = one_row(columns, width, seed=1), one_row(np.arange(width), width, seed=2)
    few = one_row(np.arange(0, width, 99), width, seed=3)
    for left, right in ((A, few), (many, A)):
        found, times = attempts(left, right, method)
        check_equal(found, scipy_product(left, right))
        assert times == 2


@pytest.mark.paper("Cupp, 5.3, place of the products")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_merge_reads_and_writes_each_entry_once(dtype: str, emulated: None) -> None:
    """A block looks back at the counts before it: each of 20,000 entries is read once,
    and each product is written once.

    At most 24 n + 20 k bytes for n entries of 4-byte numbers each and k results.
    """
    n = 20_000
    A, B = (
        random_coo((200, 200), n / 200**2, rng=seed, dtype=dtype) for seed in (1, 2)
    )
    assert A.nnz == B.nnz == n
    with emulator.profile() as report:
        k = multiply(A, B, method="merge").nnz
    entry = 8 + np.dtype(dtype).itemsize
    moved = sum(kernel.global_bytes for kernel in report.kernels)
    assert (2 * n + k) * entry <= moved <= 1.03 * (2 * n + k) * entry
    assert moved <= 2 * n * entry + 20 * k
    assert report.host.launches == 2
    assert report.host.memsets == 1


@pytest.mark.parametrize("kind", ["csr_array", "csc_array"])
@without_gpu
def test_arrays_may_be_longer_than_nnz(backend: Any, kind: str) -> None:
    A = random_coo((40, 30), 0.2, rng=1)
    longer = getattr(scipy.sparse, kind)(A)
    longer.data = np.append(longer.data, np.full(7, np.nan))
    longer.indices = np.append(longer.indices, np.full(7, 2**30)).astype(np.int32)
    half = random_coo((40, 30), 0.5, rng=2, dtype=np.float32)
    half.data = half.data.astype(np.float16)  # a dtype that SciPy refuses
    for other in (random_coo((40, 30), 0.5, rng=2), half):
        expected = A.toarray()[other.row, other.col] * other.data
        same(multiply(longer, other).toarray()[other.row, other.col], expected)


# ---- choice of the method ------------------------------------------------------------


def sectors_moved(dtype: str, ratio: int, method: Any) -> int:
    """Of the product of matrices of 65,536 entries and of a part of that number."""
    long, short = (
        random_coo((2**12, 2**12), entries / 2**24, rng=1, dtype=dtype)
        for entries in (2**16, 2**16 // ratio)
    )
    with emulator.profile() as report:
        multiply(short, long, method=method)
    return sum(kernel.global_sectors for kernel in report.kernels)


@pytest.mark.slow
@together(
    ("dtype", "least"),
    [("int32", 128), ("bool", 256), ("float32", 512), ("float64", 512)],
)
def test_gallop_moves_fewer_sectors_above_its_ratio(
    emulated: None, dtype: str, least: int
) -> None:
    """The dtypes with the largest ratio decide; for others merging moves more first."""
    ratio = 2 * 512
    assert f"more than {ratio} times" in str(multiply.__doc__)
    for times, fewer in ((least, False), (2 * least, True), (ratio, True)):
        gallop, merge = (
            sectors_moved(dtype, times, method) for method in ("gallop", "merge")
        )
        assert (gallop < merge) == fewer


@together(("many", "method"), [(1024, "merge"), (1025, "gallop")])
def test_auto_chooses_merge_or_gallop_by_the_ratio_of_entries(
    many: int, method: str, emulated: None
) -> None:
    A, B = one_row([7], 1100), one_row(np.arange(many), 1100)
    for left, right in ((A, B), (B, A)):
        with emulator.profile() as report:
            check_equal(multiply(left, right), scipy_product(left, right))
        assert any(f"multiply_by_{method}" in one.name for one in report.kernels)
