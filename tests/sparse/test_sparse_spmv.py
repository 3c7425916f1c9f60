"""Sparse matrix times vector: every format, any semiring, any row lengths."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import oracles
import pytest
import scipy.sparse as sparse
from backends import namespace, on_emulator, without_gpu
from monoids import exclusive_or, first_nonzero
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy.sparse.linalg import aslinearoperator
from together import together

import gpusolve
from gpusolve import Monoid, emulator

# Sizes of tiles, around which structures are made, and shapes beyond int64.
from gpusolve.sparse import SpMVPlan, _csr, spmv
from gpusolve.sparse._csr import compressed_rows, index_for, sorted_rows
from gpusolve.sparse._inputs import coordinates
from gpusolve.sparse._spmv_kernel import tile_for

Array = NDArray[Any]
Operator = Callable[[Any, Any], Any]

same = assert_array_equal
every_method = together("method", ["fused", "segmented_scan"])

TILE = tile_for(np.dtype(np.float64)).size
"""Rows plus entries of a tile, for float64."""

difference = Monoid("difference", 0, "a - b", np.subtract, commutative=False)
"""Not associative, so it is used as `multiply` only."""


def to_backend(backend: Any, A: Any) -> Any:
    """Convert a SciPy container to the backend's. CuPy's is always a matrix."""
    if backend.name != "cuda":
        return A
    if A.dtype.char not in "?fdFD":
        pytest.skip(f"CuPy has no sparse matrices of {A.dtype}")
    import cupyx.scipy.sparse

    return getattr(cupyx.scipy.sparse, f"{A.format}_matrix")(A)


def product(backend: Any, A: Any, x: Any, **options: Any) -> Any:
    matrix = to_backend(backend, A)
    return backend.call(lambda x: spmv(matrix, x, **options), x)


def small_integers(rng: Generator, dtype: Any, *shape: int) -> Array:
    """Small integers in any dtype, whose sums of products are exact."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    least = 0 if dtype.kind == "u" else -4
    found = rng.integers(least, 5, shape)
    if dtype.kind == "c":
        return (found + 1j * rng.integers(-4, 5, shape)).astype(dtype)
    return found.astype(dtype)


def random_csr(
    rng: Generator, lengths: Any, n: int, dtype: Any = np.float64
) -> sparse.csr_array:
    """A random matrix with these row lengths, sorted columns and duplicates."""
    lengths = np.asarray(lengths, np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    columns = rng.integers(0, max(n, 1), offsets[-1])
    rows = np.repeat(np.arange(len(lengths)), lengths)
    columns = columns[np.lexsort([columns, rows])]
    values = small_integers(rng, dtype, offsets[-1])
    return sparse.csr_array((values, columns, offsets), shape=(len(lengths), n))


def shuffled(rng: Generator, A: Any) -> sparse.coo_array:
    """The entries of A in random order."""
    coo = A.tocoo()
    order = rng.permutation(coo.nnz)
    places = coo.row[order], coo.col[order]
    return sparse.coo_array((coo.data[order], places), shape=coo.shape)


def scipy_product(A: Any, x: Array) -> Array:
    """The product of A with each vector, by SciPy."""
    y = np.empty((*x.shape[:-1], A.shape[0]), np.result_type(A.dtype, x.dtype))
    for k in np.ndindex(x.shape[:-1]):
        y[k] = A @ x[k]
    return y


def true_product(
    A: Any, x: Array, dtype: Any, identity: Any, add: Operator, multiply: Operator
) -> Array:
    """The product entry by entry, on Python numbers."""
    coo = A.tocoo()
    entries = list(
        zip(coo.row.tolist(), coo.col.tolist(), coo.data.tolist(), strict=True)
    )
    numbers = x.tolist()
    y = [identity] * A.shape[0]
    for row, column, value in sorted(entries, key=lambda entry: entry[:2]):
        y[row] = add(y[row], multiply(value, numbers[column]))
    return np.array(y, dtype)


# ---- example from the slides ----


@pytest.mark.paper("Oancea, Exercise 4")
@every_method
@together("form", [sparse.csr_array, sparse.coo_matrix])
def test_matrix_example_from_the_slides(backend: Any, method: str, form: Any) -> None:
    """smvMul of the matrix of shape [2, 3, 1] and [1.0, 2.0, 3.0, 4.0] is
    [0, 0, 12].
    """
    A = form([[2.0, -1, 0, 0], [0, -1, 2, -1], [0, 0, 0, 3]])
    found = product(backend, A, np.array([1.0, 2, 3, 4]), method=method)
    same(found, np.array([0.0, 0, 12]), strict=True)
    same(np.diff(sparse.csr_array(A).indptr), [2, 3, 1])


@pytest.mark.paper("Oancea, Sparse product")
@pytest.mark.parametrize(("kind", "expected"), [(float, [0, 0, 6]), (int, [1, 3, 4])])
def test_listing_of_the_sequential_product(kind: type, expected: list[int]) -> None:
    """With half the values the loops give [0, 0, 6], with int mat_elm [1, 3, 4].

    The imperative smvMul of the slides, which stores a value as int.
    """
    shape, mat_cols = [2, 3, 1], [0, 1, 1, 2, 3, 3]
    mat_vals = [1.0, -0.5, -0.5, 1.0, -0.5, 1.5]
    vct = [1.0, 2.0, 3.0, 4.0]
    res_vct, offset = [], 0
    for length in shape:
        res = 0.0
        for j in range(offset, offset + length):
            mat_elm = kind(mat_vals[j])
            res += mat_elm * vct[mat_cols[j]]
        res_vct.append(res)
        offset += length
    assert res_vct == expected
    A = sparse.csr_array((mat_vals, mat_cols, [0, 2, 5, 6]))
    assert (A @ np.array(vct)).tolist() == [0, 0, 6] == spmv(A, vct).tolist()


# ---- structures ----

AROUND_TILES = [k * TILE + d for k in (1, 2) for d in (-1, 0, 1)]

STRUCTURES: dict[str, list[int]] = {
    "no rows": [],
    "one row without entries": [0],
    "one entry": [1],
    "no entries": [0] * 5,
    "first row empty": [0, 2, 3],
    "inner rows empty": [2, 0, 0, 3],
    "last rows empty": [2, 3, 0, 0],
    "every other row empty": [0, 1] * 2000,
    "one entry in each row": [1] * 3000,
    "one dense row among empty rows": [0] * 2000 + [5000] + [0] * 2000,
    "dense rows at both ends": [5000] + [0] * 100 + [5000],
    "many tiles of one row": [1, 70 * TILE, 1],
    "power law": [round(4000 / k) for k in range(1, 1500)],
    **{f"{n} empty rows": [0] * n for n in AROUND_TILES},
    **{f"a row of {n} steps": [n - 1] for n in AROUND_TILES},
    **{f"a row up to step {n}": [n - 1, 3] for n in AROUND_TILES},
    **{f"{n} steps": [3] * (n // 4) + [0] * (n % 4) for n in AROUND_TILES},
}


@pytest.mark.paper("Oancea, Exercise 4")
@every_method
@together("structure", STRUCTURES)
def test_every_structure(
    backend: Any, method: str, structure: str, rng: Generator
) -> None:
    """Both ways give the products of rows of any length, 0 included."""
    A = random_csr(rng, STRUCTURES[structure], 50)
    x = small_integers(rng, np.float64, 50)
    expected = scipy_product(A, x)
    for given in (A, shuffled(rng, A)):
        same(product(backend, given, x, method=method), expected, strict=True)
    if backend.name == "numpy":  # `spmv` takes SciPy
        found = gpusolve.reference.spmv(A.indptr, A.indices, A.data, x)
        same(found, expected, strict=True)


@every_method
@together("shape", [(0, 0), (0, 5), (5, 0), (3000, 0), (1, 1)])
@together("form", [sparse.csr_array, sparse.coo_array])
def test_empty_rows_give_the_identity(
    backend: Any, method: str, shape: tuple[int, int], form: Any
) -> None:
    A, x = form(shape), np.full(shape[1], np.nan)
    for add, identity in (("add", 0.0), ("min", np.inf)):
        found = product(backend, A, x, method=method, add=add, multiply="add")
        same(found, np.full(shape[0], identity), strict=True)


# ---- dtypes and values ----

PAIRS = [
    ("bool", "bool"),
    ("int8", "int8"),
    ("float32", "float32"),
    ("float32", "complex128"),
    ("complex64", "float64"),
    ("uint64", "int32"),
    ("int8", "float16"),
    ("int8", "complex128"),
]


@every_method
@together(("A_dtype", "x_dtype"), PAIRS)
def test_pairs_of_dtypes(
    backend: Any, method: str, A_dtype: str, x_dtype: str, rng: Generator
) -> None:
    """Also of offsets and columns; integers wrap, and bytes may be swapped."""
    A = random_csr(rng, [0, 3, 1, 0, 1500, 40], 30, A_dtype)
    x = small_integers(rng, x_dtype, 30)
    dtype = np.result_type(A.dtype, x.dtype)
    wide = complex if dtype.kind == "c" else float if dtype.kind == "f" else int
    exact = scipy_product(A.astype(bool if dtype.kind == "b" else wide), x)
    expected = exact.astype(dtype)
    same(product(backend, A, x, method=method), expected, strict=True)
    if backend.name != "cuda" and A_dtype == "float32":
        for offsets, columns in itertools.product((np.int32, np.int64), repeat=2):
            A.indptr, A.indices = A.indptr.astype(offsets), A.indices.astype(columns)
            found = product(backend, A, x.astype(x.dtype.newbyteorder()), method=method)
            same(found, expected, strict=True)


@every_method
def test_rounding_errors_are_bounded(backend: Any, method: str, rng: Generator) -> None:
    A = random_csr(rng, [0, 3, 5000, 7, 300], 100)
    A.data[:] = rng.standard_normal(A.nnz)
    x = rng.standard_normal(100)
    exact = A.astype(np.longdouble) @ x.astype(np.longdouble)
    magnitude = abs(A) @ abs(x)
    found = product(backend, A, x, method=method)
    assert (abs(found - exact) <= 32 * np.finfo(float).eps * magnitude).all()


@every_method
def test_nan_and_infinity_propagate_in_their_row(
    backend: Any, method: str, rng: Generator
) -> None:
    """Of the matrix, also of both signs in a row, and of x in a column."""
    A = random_csr(rng, [3, TILE, 0, 2, TILE + 3, 5, TILE], 20)
    A.indices[A.indices == 19] = 18
    A.data[A.indptr[1] + 7] = np.nan
    A.data[A.indptr[4] + 7] = np.inf
    A.data[A.indptr[6] :][[5, -5]] = np.inf, -np.inf
    x = np.ones(20)
    x[19] = np.nan
    found = product(backend, A, x, method=method)
    same(found, scipy_product(A, x))
    same(np.isfinite(found), [True, False, True, True, False, True, False])
    x[A.indices[0]] = np.inf
    A.data[0] = 0
    same(product(backend, A, x, method=method), scipy_product(A, x))


# ---- semirings ----

SEMIRINGS = {
    "plus-times": ("add", "mul", np.float64),
    "plus-times with overflow": ("add", "mul", np.int8),
    "min-plus": ("min", "add", np.float32),
    "or-and": ("logical_or", "logical_and", np.bool_),
    "or-and of numbers": ("logical_or", "logical_and", np.float64),
    "or-times": ("logical_or", "mul", np.float64),
    "max-times": ("max", "mul", np.int64),
    "times-xor": ("mul", exclusive_or, np.uint32),
    "noncommutative": (first_nonzero, difference, np.int32),
}
"""`add`, `multiply` and the dtype of both operands."""


def python_operator(op: str | Monoid, dtype: Any) -> tuple[Any, Operator]:
    """Identity and operator of a monoid on Python numbers."""
    if op is difference:
        return 0, operator.sub
    name = op if isinstance(op, str) else op.name
    return oracles.operator(name, np.dtype(dtype))


@every_method
@together("name", SEMIRINGS)
def test_semirings(backend: Any, method: str, name: str, rng: Generator) -> None:
    add, multiply, dtype = SEMIRINGS[name]
    lengths = [0, 4, 1, 0, 0, *[3] * 200, 2 * TILE + 1, 0, 2, 3000, 0]
    A, x = random_csr(rng, lengths, 40, dtype), small_integers(rng, dtype, 40)
    result = np.dtype(bool if name.startswith("or") else dtype)
    identity, combine = python_operator(add, result)
    expected = true_product(
        A, x, result, identity, combine, python_operator(multiply, result)[1]
    )
    options = {"add": add, "multiply": multiply, "method": method}
    for matrix in (A, reversed_rows(rng, A)):
        same(product(backend, matrix, x, **options), expected, strict=True)


def reversed_rows(rng: Generator, A: Any) -> sparse.coo_array:
    """The entries with rows in reverse order and columns in random order.

    Duplicates keep their order.
    """
    coo = A.tocoo()
    order = np.lexsort([rng.permutation(A.shape[1])[coo.col], -coo.row])
    places = coo.row[order], coo.col[order]
    return sparse.coo_array((coo.data[order], places), shape=coo.shape)


def test_noncommutative_add_over_many_tiles(backend: Any, rng: Generator) -> None:
    n = 70 * tile_for(np.dtype(np.int32)).size + 5
    A = sparse.csr_array((np.zeros(n, np.int32), np.arange(n), [0, 0, n]))
    x = np.zeros((12, n), np.int32)
    for vector in x:
        places = rng.integers(n) + rng.integers(0, 4000, 5)
        vector[places % n] = rng.integers(1, 100, 5)
    first = -x[np.arange(len(x)), (x != 0).argmax(axis=1)]
    options = {"add": first_nonzero, "multiply": difference}
    if backend.name == "cuda":
        A, x, options["multiply"] = A.astype(np.float32), x.astype(np.float32), "add"
        first = -first.astype(np.float32)
    found = product(backend, A, x, **options)
    same(found, np.stack([0 * first, first], axis=1), strict=True)


# ---- containers and vectors ----


@together("form", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_every_format(backend: Any, form: str, kind: str, rng: Generator) -> None:
    if backend.name == "cuda" and form not in ("csr", "csc", "coo"):
        pytest.skip(f"CuPy has no {form}")
    dense = np.where(rng.random((40, 30)) < 0.2, small_integers(rng, float, 40, 30), 0)
    A = getattr(sparse, f"{form}_{kind}")(dense)
    x = small_integers(rng, float, 30)
    same(product(backend, A, x), dense @ x, strict=True)


@without_gpu
@together("max_places", [2**63, 1])
def test_sorted_rows_agree_with_scipy(
    backend: Any, max_places: int, rng: Generator, monkeypatch: Any
) -> None:
    """For shapes whose places fit int64 keys, and for larger shapes."""
    monkeypatch.setattr(_csr, "MAX_PLACES", max_places)
    rows = ([], [0, 0], [0, 3, 1, 0, 40, 0], [500, 1])
    matrices = [shuffled(rng, random_csr(rng, lengths, 10)) for lengths in rows]
    # As keys of 32 bits, the places of the later rows would come first.
    places = np.int32([4095, 1, 2048, 1]), np.int32([7, 2**20 - 1, 0, 5])
    matrices.append(sparse.coo_array((np.ones(4), places), (4096, 2**20)))
    for A, *ways in itertools.product(matrices, (True, False), (True, False)):
        A.data, in_order = np.arange(1.0, A.nnz + 1), ways[0]
        given = A.tocsr() if ways[1] else A
        found = sorted_rows(coordinates(given), in_order=in_order)
        expected = compressed_rows(given, in_order=in_order)
        for found_array, expected_array in zip(found, expected, strict=True):
            same(found_array, expected_array)
    small, large = np.dtype(np.int32), np.dtype(np.int64)
    assert index_for(small, 2**31 - 1) == small
    assert index_for(small, 2**31) == index_for(large, 5) == large


@every_method
@together("in_order", [True, False])
@together(
    "view",
    [
        lambda x: x[:, ::-2],
        lambda x: x.T[:10],
        lambda x: namespace(x).broadcast_to(x[0, :10], (4, 10)),
    ],
)
def test_strided_arrays(
    backend: Any, method: str, in_order: bool, view: Any, rng: Generator
) -> None:
    """Of a matrix, also longer than its entries, and of vectors."""
    A, x = random_csr(rng, [0, 3, 1, 700], 10), small_integers(rng, float, 10, 20)
    longer = 5 * (backend.name != "cuda")  # CuPy counts all elements as entries
    arrays = np.pad(A.data, (0, longer)), np.pad(A.indices, (0, longer)), A.indptr
    strided = tuple(backend.array(np.repeat(array, 2))[::2] for array in arrays)
    if backend.name == "cuda":
        import cupyx.scipy.sparse

        B = cupyx.scipy.sparse.csr_matrix(strided, shape=A.shape)
    else:
        B = sparse.csr_array(strided, shape=A.shape)
    before = [backend.numpy(array).copy() for array in strided]
    add = "add" if in_order else Monoid("sum", 0, "a + b", np.add, commutative=False)
    found = backend.call(lambda x: spmv(B, view(x), add=add, method=method), x)
    same(found, scipy_product(A, view(x)), strict=True)
    for array, copy in zip(strided, before, strict=True):
        same(backend.numpy(array), copy)


@every_method
@together("batch", [(1,), (3,), (30,), (2, 3), (0,), (2, 0), (2, 1, 3)])
def test_batches(
    backend: Any, method: str, batch: tuple[int, ...], rng: Generator
) -> None:
    for lengths in ([0, 2, 1], [3, 0, 2 * TILE, 5], [0, 0]):
        A = random_csr(rng, lengths, 20)
        x = small_integers(rng, np.float64, *batch, 20)
        found = product(backend, A, x, method=method)
        same(found, scipy_product(A, x), strict=True)


# ---- plans ----


def test_plan_for_many_vectors(backend: Any, rng: Generator) -> None:
    A = random_csr(rng, [0, 3, TILE, 2], 4, np.float32)
    plan = SpMVPlan(to_backend(backend, A))
    assert (plan.shape, plan.dtype) == ((4, 4), np.float32)
    for dtype in (np.float32, np.float64, np.int8):
        for shape in ((4,), (4, 1), (4, 3), (2, 4, 5)):
            x = small_integers(rng, dtype, *shape)
            found = backend.call(lambda x: plan @ x, x)
            expected = (A.toarray() @ x).astype(found.dtype)
            same(found, expected, strict=True)
            rows = np.ascontiguousarray(x.T) if len(shape) < 3 else x.swapaxes(1, 2)
            same(backend.call(plan, rows), scipy_product(A, rows), strict=True)
            if backend.name != "cuda" and len(shape) < 3:
                same(aslinearoperator(plan) @ x, expected)
                product = plan.matvec if shape[1:] in ((), (1,)) else plan.matmat
                same(product(x), expected)
    same(backend.numpy(plan([1, 2, 3, 4])), A @ [1, 2, 3, 4])


def test_a_plan_has_smaller_tiles_for_larger_results(
    emulated: None, rng: Generator
) -> None:
    """Its path was made for results of the dtype of the entries."""
    A, x = random_csr(rng, [3000], 50, np.int8), small_integers(rng, np.complex128, 50)
    plan = SpMVPlan(A)
    with emulator.profile() as report:
        same(plan(x), scipy_product(A, x), strict=True)
    (kernel,) = (one for one in report.kernels if "multiply<" in one.name)
    tile = tile_for(x.dtype)
    assert f"{tile.threads}, {tile.items}>" in kernel.name
    assert kernel.blocks == -(-3001 // tile.size)


# ---- threads and blocks ----


@on_emulator
@every_method
def test_any_schedule_of_threads_and_blocks(
    backend: Any, schedule: str, method: str, rng: Generator
) -> None:
    """No race, and the same bits as in order."""
    lengths = [0, 3, 2 * TILE, *[2] * 500, 0, 0, TILE // 2]
    A = random_csr(rng, lengths, 30)
    A.data[:] = rng.standard_normal(A.nnz)
    x = rng.standard_normal((2, 30))
    with emulator.races():
        found = spmv(A, x, method=method)
    with emulator.schedule("forward"):
        same(found, spmv(A, x, method=method))
    assert_allclose(found, scipy_product(A, x), atol=1e-10)


@pytest.mark.gpu
@pytest.mark.parametrize("backend", ["cuda"], indirect=True)
def test_same_bits_in_every_run(backend: Any, rng: Generator) -> None:
    A = random_csr(rng, [0, 10**6, *rng.integers(0, 9, 10**5)], 1000)
    A.data[:] = rng.standard_normal(A.nnz)
    plan, x = SpMVPlan(to_backend(backend, A)), rng.standard_normal(1000)
    assert len({backend.call(plan, x).tobytes() for _ in range(10)}) == 1
