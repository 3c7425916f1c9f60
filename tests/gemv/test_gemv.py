"""Matrix times vector: every variant, layout and shape, compared with exact sums."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
from backends import namespace, on_emulator, without_gpu
from numpy.random import Generator
from numpy.typing import NDArray
from own_kernels import own_kernel
from together import together

import gpusolve
from gpusolve import emulator

# Launch shapes of matrices that are too large for a test.
from gpusolve._gemv import gemv_kernel

Array = NDArray[Any]

VARIANTS = ("auto", "naive", "threads_per_dot", "threads_per_row", "dots", "axpys")
DTYPES = ("float16", "float32", "float64")
SHAPES = (
    (1, 1),
    (3, 5),
    (31, 32),
    (32, 31),
    (33, 33),
    (16, 64),
    (17, 257),
    (300, 3),
    (2, 5000),
    (1, 4099),
    (4099, 1),
)
BATCHES = (
    *[((0, 0), ()), ((0, 3), (2,)), ((3, 0), ()), ((3, 0), (2,)), ((4, 3), (2, 0))],
    *[((3, 5), (4, 3)), ((1, 1), (300,)), ((40, 70), (5,)), ((3, 2600), (2,))],
)
"""Shapes of matrices and of batches; sums without terms are zeros."""

LAYOUTS = {
    "C": lambda A: A,
    "Fortran": lambda A: A.swapaxes(-1, -2).copy().swapaxes(-1, -2),
    "reversed": lambda A: A[..., ::-1, ::-1].copy()[..., ::-1, ::-1],
    "strided": lambda A: strided_copy(A, 2, 2),
    "strided rows": lambda A: strided_copy(A, 3, 1),
}
"""The same matrix in different memory layouts."""

same = np.testing.assert_array_equal
every_variant = together("variant", VARIANTS)
every_layout = together("layout", LAYOUTS)
transposed_or_not = together("transpose", [False, True])


def emulated() -> Any:
    return mock.patch.dict(os.environ, GPUSOLVE_EMULATE="1")


def strided_copy(A: Any, row_step: int, column_step: int) -> Any:
    """A copy of A as a strided view of a larger array, which is NaN elsewhere.

    Rows of the larger array take a multiple of 16 bytes.
    """
    m, n = A.shape[-2:]
    shape = (*A.shape[:-2], m * row_step, -(-n * column_step // 8) * 8)
    parent = namespace(A).full(shape, np.nan, A.dtype)
    view = parent[..., ::row_step, : n * column_step : column_step]
    view[...] = A
    return view


def exact_product(A: Array, x: Array, transpose: bool = False) -> Array:
    """The product of integers, computed in int64."""
    A, x = A.astype(np.int64), x.astype(np.int64)
    return (A * (x[..., :, None] if transpose else x[..., None, :])).sum(
        -2 if transpose else -1
    )


def small_integers(rng: Generator, shape: Any, dtype: Any) -> Array:
    """-1, 0 and 1, whose sums are exact in every dtype and every order."""
    return rng.integers(-1, 2, shape).astype(dtype)


def check_product(
    backend: Any,
    rng: Generator,
    shape: tuple[int, int],
    dtype: Any,
    layout: str = "C",
    transpose: bool = False,
    batch: tuple[int, ...] = (),
    **options: Any,
) -> None:
    """Compare one product of integers with the exact result."""
    A = small_integers(rng, (*batch, *shape), dtype)
    x = small_integers(rng, (*batch, shape[0 if transpose else 1]), dtype)

    def product(A: Any, x: Any) -> Any:
        return gpusolve.gemv(LAYOUTS[layout](A), x, transpose=transpose, **options)

    found = backend.call(product, A, x)
    expected = exact_product(A, x, transpose).astype(dtype)
    same(found, expected, strict=True, err_msg=f"{shape}")
    if backend.name == "numpy":
        given = LAYOUTS[layout](A)
        same(gpusolve.reference.gemv(given, x, transpose=transpose), expected)


# ---- shapes, layouts, dtypes ----


@every_variant
@transposed_or_not
@every_layout
@together("dtype", DTYPES)
def test_every_shape_layout_and_dtype(
    backend: Any, dtype: str, layout: str, transpose: bool, variant: str, rng: Generator
) -> None:
    for shape, batch in (*((shape, ()) for shape in SHAPES), *BATCHES):
        given = shape, dtype, layout, transpose, batch
        check_product(backend, rng, *given, variant=variant)


@transposed_or_not
@together("dtype", DTYPES)
@together("variant", ["auto", "threads_per_row"])
def test_long_sums_in_many_chunks(
    backend: Any, dtype: str, transpose: bool, variant: str, rng: Generator
) -> None:
    """In "threads_per_row", a segment has several tiles of x."""
    shape = (70_001, 9) if transpose else (9, 70_001)
    check_product(backend, rng, shape, dtype, transpose=transpose, variant=variant)


@pytest.fixture
def few_blocks(monkeypatch: Any) -> Callable[[int], None]:
    """Small matrices get the launch shapes that matrices get on smaller GPUs."""

    def fill(blocks: int) -> None:
        monkeypatch.setattr(gemv_kernel, "BLOCKS", blocks)

    return fill


@together("dtype", DTYPES)
@together("layout", ["C", "strided rows", "reversed"])
@together("blocks", [1, 3, 40])
def test_launch_shapes_of_large_matrices(
    backend: Any, blocks: int, layout: str, dtype: str, rng: Any, few_blocks: Any
) -> None:
    """Also columns that do not fill the loads of a thread."""
    few_blocks(blocks)
    shapes = [(5, 3001), (129, 140), (1030, 7), (2, 5)]
    shapes += [(533, columns) for columns in (1, 3, 8, 15, 17, 33)]
    for shape in shapes:
        check_product(backend, rng, shape, dtype, layout)
        check_product(backend, rng, shape[::-1], dtype, layout, True)
        check_product(backend, rng, shape, dtype, layout, True)


# ---- batches ----


def matrix(v: Any, *batch: int) -> Any:
    """The first numbers as matrices of 33 x 40."""
    return v[: math.prod(batch) * 33 * 40].reshape(*batch, 33, 40)


OPERANDS: list[Callable[[Any, Any], tuple[Any, Any]]] = [
    # batches
    lambda v, xp: (matrix(v), v[:240].reshape(6, 40)),
    lambda v, xp: (matrix(v, 6), v[:40]),
    lambda v, xp: (matrix(v, 2, 1), v[:120].reshape(3, 40)),
    lambda v, xp: (matrix(v, 1, 3), v[:80].reshape(2, 1, 40)),
    lambda v, xp: (matrix(v, 1), v[:40].reshape(1, 1, 40)),
    # rows, columns, all elements or systems that share their memory
    lambda v, xp: (xp.broadcast_to(v[:40], (33, 40)), v[:40]),
    lambda v, xp: (xp.broadcast_to(v[:33, None], (33, 40)), v[:40]),
    lambda v, xp: (xp.broadcast_to(v[0], (33, 40)), v[:40]),
    lambda v, xp: (xp.broadcast_to(matrix(v), (3, 33, 40)), v[:120].reshape(3, 40)),
    # vectors
    lambda v, xp: (matrix(v), v[1:41]),
    lambda v, xp: (matrix(v), v[39::-1]),
    lambda v, xp: (matrix(v), v[: 40 * 4 : 4]),
    lambda v, xp: (matrix(v), v[:200].reshape(40, 5).T),
    lambda v, xp: (matrix(v), v[:200].reshape(5, 40)[::-2]),
    lambda v, xp: (matrix(v), xp.broadcast_to(v[:40], (4, 40))),
]
"""Matrices and vectors as views of the same numbers."""


@every_variant
@transposed_or_not
def test_batches_and_views(
    backend: Any, transpose: bool, variant: str, rng: Generator
) -> None:
    numbers = small_integers(rng, 8000, "f4")
    for operands in OPERANDS:

        def product(v: Any, operands: Any = operands) -> Any:
            A, x = operands(v, namespace(v))
            A = A.swapaxes(-1, -2) if transpose else A
            return gpusolve.gemv(A, x, transpose=transpose, variant=variant)

        expected = exact_product(*operands(numbers, np)).astype("f4")
        same(backend.call(product, numbers), expected, strict=True)


@transposed_or_not
@together("x_start", [0, 1, 4])
@together("A_start", [0, 1, 2, 4])
def test_any_alignment(
    backend: Any, A_start: int, x_start: int, transpose: bool, schedule: str, rng: Any
) -> None:
    """A and x are views of one array, so the emulator keeps their relative position."""
    numbers = small_integers(rng, 3000, "f4")

    def parts(numbers: Any) -> Any:
        A = numbers[A_start : A_start + 33 * 64].reshape(33, 64)
        return A, numbers[x_start : x_start + (33 if transpose else 64)]

    def product(numbers: Any) -> Any:
        return gpusolve.gemv(*parts(numbers), transpose=transpose)

    expected = exact_product(*parts(numbers), transpose).astype("f4")
    same(backend.call(product, numbers), expected, strict=True)


@without_gpu
def test_inputs_may_be_lists_unaligned_and_read_only(
    backend: Any, rng: Generator
) -> None:
    record = np.dtype([("flag", "u1"), ("number", "f4")])
    records = np.zeros((20, 30), record)
    records["number"] = small_integers(rng, (20, 30), "f4")
    records.flags.writeable = False
    A, x = records["number"], records["number"][0]
    assert not A.flags.aligned
    expected = exact_product(A, x).astype("f4")
    same(gpusolve.gemv(A, x), expected, strict=True)
    same(gpusolve.gemv([[1, 2], [3, 4]], (1, 1)), [3.0, 7.0])
    out = np.frombuffer(bytearray(81), np.float32, 20, 1)
    same(gpusolve.gemv(A, x, out=out), expected)
    same(gpusolve.gemv(np.ones((3, 0)), np.ones(0), out=np.ones(3)), np.zeros(3))


# ---- floating-point numbers ----


@every_variant
@transposed_or_not
@together("dtype", DTYPES)
def test_rounding_errors_are_bounded(
    backend: Any, dtype: str, transpose: bool, variant: str, rng: Generator
) -> None:
    A = rng.standard_normal((37, 1500)).astype(dtype)
    x = rng.standard_normal(37 if transpose else 1500).astype(dtype)
    found = backend.call(gpusolve.gemv, A, x, transpose=transpose, variant=variant)
    assert found.dtype == dtype
    wide = (A.T if transpose else A).astype(np.longdouble)
    product, magnitude = wide @ x, abs(wide) @ abs(x)
    sums = np.finfo(np.promote_types(dtype, np.float32)).eps * len(x) * magnitude
    rounding = np.finfo(dtype).eps * abs(product)
    assert (abs(found - product) <= sums + rounding).all()


@every_variant
def test_float16_is_summed_in_float32(backend: Any, variant: str) -> None:
    A, x = np.ones((2, 5000), np.float16), np.ones(5000, np.float16)
    found = backend.call(gpusolve.gemv, A, x, variant=variant)
    same(found, np.full(2, 5000, np.float16), strict=True)
    x[:2500] = 60000
    x[2500:] = -60000
    found = backend.call(gpusolve.gemv, A, x, variant=variant)
    same(found, np.zeros(2, np.float16), strict=True)
    found = backend.call(gpusolve.gemv, A, abs(x), variant=variant)
    same(found, np.full(2, np.inf, np.float16), strict=True)


@together("factor", [1.0, 0.7])
def test_every_float16_is_read_and_rounded(backend: Any, factor: float) -> None:
    """Also NaN, infinities and subnormal numbers."""
    A = np.arange(2**16, dtype=np.uint16).view(np.float16)[:, None]
    x = np.array([factor], np.float16)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = (A[:, 0].astype(np.float32) * x.astype(np.float32)).astype("f2")
    same(backend.call(gpusolve.gemv, A, x), expected, strict=True)


@every_variant
@transposed_or_not
@every_layout
def test_nan_and_infinity_propagate(
    backend: Any, layout: str, transpose: bool, variant: str, rng: Generator
) -> None:
    A = small_integers(rng, (14, 22), np.float32)
    A[2, 3], A[5, 21], A[13, 0], A[13, 1] = np.nan, np.inf, np.inf, -np.inf
    x = small_integers(rng, 14 if transpose else 22, np.float32)
    x[-1], x[3] = np.inf, 0

    def product(A: Any, x: Any) -> Any:
        A = LAYOUTS[layout](A)
        return gpusolve.gemv(A, x, transpose=transpose, variant=variant)

    with np.errstate(invalid="ignore"):
        terms = A * (x[:, None] if transpose else x)
        expected = terms.sum(0 if transpose else 1)
    assert np.isnan(expected).any()
    same(backend.call(product, A, x), expected)


@on_emulator
@together("variant", VARIANTS)
@together("order", ["C", "F"])
@together("blocks", [gemv_kernel.BLOCKS, 1])
def test_any_schedule_of_threads_and_blocks(
    backend: Any,
    blocks: int,
    variant: str,
    order: Any,
    schedule: str,
    rng: Any,
    few_blocks: Any,
) -> None:
    """No race; the order, and rows that share a team, do not change the bits."""
    for shape in ((9, 2001), (70, 33), (300, 15)):
        A = np.asarray(rng.standard_normal(shape), order=order)
        x = rng.standard_normal(shape[1])
        few_blocks(blocks)
        with emulator.races():
            found = gpusolve.gemv(A, x, variant=variant)
        if shape[1] < 100:  # otherwise the chunks of a row differ
            few_blocks(gemv_kernel.BLOCKS)
        with emulator.schedule("forward"):
            expected = gpusolve.gemv(A, x, variant=variant)
        same(found, expected)


def test_indices_may_exceed_32_bits() -> None:
    """Quotients of numbers that no test can launch as many threads for."""
    edges = [0, 1, 31, 2**31, 2**32 - 1, 2**32, 2**32 + 7, 2**40, 2**62]
    a, b = np.array([(a, b) for a in edges for b in edges[1:]]).T
    found = np.zeros(len(a), np.int64)
    kernel = own_kernel("kernels/quotients.cu", "quotients")
    kernel((1,), (len(a),), (a.copy(), b.copy(), found))
    same(found, a // b)


# ---- dtype and device of the result ----


@together(
    ("A_dtype", "x_dtype", "y_dtype"),
    [
        ("float16", "float16", "float16"),
        (">f2", "float16", "float16"),
        ("float16", "float32", "float32"),
        ("float32", ">f4", "float32"),
        ("float32", "float64", "float64"),
        ("int32", "float32", "float64"),
        ("bool", "bool", "float64"),
        ("uint8", "int64", "float64"),
    ],
)
def test_dtype_of_the_result(A_dtype: str, x_dtype: str, y_dtype: str) -> None:
    A, x = np.ones((2, 3), A_dtype), np.ones(3, x_dtype)
    same(gpusolve.gemv(A, x), np.full(2, 3, y_dtype), strict=True)


# ---- out ----


@every_variant
@together(
    "view",
    [
        lambda z: z[:60].reshape(3, 20),
        lambda z: z[59::-1].reshape(3, 20),
        lambda z: z[:120:2].reshape(3, 20),
        lambda z: z[:60].reshape(20, 3).T,
        lambda z: z[1800:1860].reshape(3, 20),  # x and a part of A
    ],
)
def test_out_may_be_a_view_or_an_input(
    backend: Any, view: Any, variant: str, rng: Generator
) -> None:
    """All are parts of the same numbers."""
    numbers = small_integers(rng, 2000, "f4")

    def product(numbers: Any) -> Any:
        A, x, out = (
            numbers[31:1831].reshape(3, 20, 30),
            numbers[1829:1859],
            view(numbers),
        )
        assert gpusolve.gemv(A, x, variant=variant, out=out) is out
        return numbers

    expected = numbers.copy()
    A, x = numbers[31:1831].reshape(3, 20, 30), numbers[1829:1859]
    view(expected)[...] = exact_product(A, x)
    same(backend.call(product, numbers), expected, strict=True)


@together("variant", VARIANTS[1:])
def test_a_variant_is_the_kernel_of_its_name(variant: str) -> None:
    with emulated(), emulator.profile() as report:
        gpusolve.gemv(np.ones((40, 70)), np.ones(70), variant=variant)
    assert report.kernels[0].name.startswith(f"gemv_{variant}<")


# ---- the paper's variants: who adds what ---------------------------------------------

M, N = 300, 70


class Counted(NamedTuple):
    """A product on the emulator, its terms, and the costs of its kernels."""

    y: Array
    terms: Array
    kernels: list[Any]


@pytest.fixture(params=["C", "F"])
def counted(request: Any, rng: Any) -> Callable[[str], Counted]:
    """The product of random numbers by a variant, in both layouts.

    They have 11 bits, so terms are exact in float32: fused sums have the same bits.
    """
    A = rng.standard_normal((M, N)).astype(np.float16).astype(np.float32, request.param)
    x = rng.standard_normal(N).astype(np.float16).astype(np.float32)

    def multiply(variant: str) -> Counted:
        with emulated(), emulator.profile() as report:
            y = gpusolve.gemv(A, x, variant=variant)
        of_A = report.kernels[0].arrays["A"]
        assert of_A.bytes == of_A.distinct_bytes == 4 * M * N
        return Counted(y, A * x, report.kernels)

    return multiply


def added_in_order(terms: Array) -> Array:
    """The sum of each row in float32, from the first term to the last."""
    return np.cumsum(terms, axis=1, dtype=np.float32)[:, -1]


def added_by_a_tree(sums: Array) -> Array:
    """The sum of each row, whose length is a power of two, by adding its halves."""
    while sums.shape[1] > 1:
        half = sums.shape[1] // 2
        sums = sums[:, :half] + sums[:, half:]
    return sums[:, 0]


@pytest.mark.paper("Sieminski, Algorithm 3, Figure 1")
def test_naive_threads_add_their_rows(counted: Callable[[str], Counted]) -> None:
    """A thread adds the terms of its row in their order, bit for bit, and
    reads all x.
    """
    y, terms, (kernel,) = counted("naive")
    same(y, added_in_order(terms))
    assert kernel.threads == 2 * 256
    assert (kernel.barriers, kernel.shared_requests) == (0, 0)
    assert kernel.arrays["x"].lanes == M * N


@pytest.mark.paper("Sieminski, 3.2.2, (4), Figure 2")
def test_threads_of_a_dot_product_share_a_row(
    counted: Callable[[str], Counted],
) -> None:
    """16 threads each add every 16th term of a row, and 4 steps of a tree their sums,
    bit for bit; a group reads x once for each of its rows.
    """
    y, terms, (kernel,) = counted("threads_per_dot")
    sums = np.stack([added_in_order(terms[:, p::16]) for p in range(16)], axis=1)
    same(y, added_by_a_tree(sums))
    assert (y != added_in_order(terms)).any()
    assert kernel.threads == 16 * 304
    assert kernel.barriers == 4 * kernel.blocks
    assert kernel.arrays["x"].lanes == M * N


@pytest.mark.paper("Sieminski, 3.2.3, Figure 3")
def test_blocks_of_a_row_share_a_segment_of_x(
    counted: Callable[[str], Counted],
) -> None:
    """Each of 14 blocks adds a segment of 5 terms of 256 rows, for which it reads x
    once; a second kernel adds the 14 columns of sums, bit for bit.

    70 terms are 16 segments of at most 5, of which two are empty.
    """
    y, terms, (kernel, adds) = counted("threads_per_row")
    sums = [added_in_order(terms[:, 5 * p : 5 * p + 5]) for p in range(14)]
    sums += [np.zeros(M, np.float32)] * 18  # the tree has 32 leaves
    same(y, added_by_a_tree(np.stack(sums, axis=1)))
    assert (y != added_in_order(terms)).any()
    blocks_of_rows = -(-M // 256)
    assert kernel.blocks == 14 * blocks_of_rows
    assert kernel.arrays["x"].lanes == N * blocks_of_rows
    assert adds.arrays["sums"].lanes == kernel.arrays["sums"].lanes == 14 * M


@pytest.mark.paper("Sieminski, Appendix B")
def test_an_array_of_sums_fits_a_group_of_as_many_threads(rng: Any) -> None:
    """An array of 4 sums fits a group of 4 threads, and a group of 16 overruns it."""
    A, x = small_integers(rng, (8, 30), "f4"), small_integers(rng, 30, "f4")
    kernel = own_kernel("kernels/dot_group.cu", "dot_group")

    def multiply(sums: int, group: tuple[int, int]) -> Array:
        y = np.zeros(8, np.float32)
        arguments = np.ascontiguousarray(A.T), x, np.int32(30), y
        kernel((8 // group[0],), group, arguments, shared_mem=4 * sums)
        return y

    for sums, group in (4, (2, 2)), (4, (1, 4)), (16, (4, 4)), (16, (2, 8)):
        same(multiply(sums, group), A @ x)
    with pytest.raises(
        emulator.KernelError, match="element 4 of work, which has 4 elements"
    ):
        multiply(4, (4, 4))


# ---- invalid arguments ----

A, x = np.ones((4, 3)), np.ones(3)


@without_gpu
@together(
    ("arguments", "options", "error", "message"),
    [
        ((A * 1j, x), {}, TypeError, "A must .*got complex128"),
        ((np.longdouble(A), x), {}, TypeError, "A must have .*dtype"),
        ((np.ma.masked_array(A), x), {}, TypeError, "A must .*got a masked array"),
        ((A, [2**60, 1, 1]), {}, ValueError, "x must have integers of magnitude"),
        ((x, x), {}, ValueError, r"A must .*got .*\(3,\)"),
        ((A, 1.0), {}, ValueError, "got a scalar"),
        ((A, np.ones(4)), {}, ValueError, r"3 columns of A.*got x of shape \(4,\)"),
        ((A, x), {"transpose": True}, ValueError, r"4 rows of A.*shape \(3,\)"),
        ((np.ones((2, 4, 3)), np.ones((3, 3))), {}, ValueError, "must broadcast, got"),
        ((A, x), {"variant": "quick"}, ValueError, "variant must .*got 'quick'"),
        ((A, x), {"out": x}, ValueError, r"out .* shape \(4,\), got \(3,\)"),
        ((A, x), {"out": np.ones(4, "f4")}, TypeError, "out must .*got float32"),
        ((A, x), {"out": [0.0] * 4}, TypeError, "out must be an array .*got list"),
        ((A, x), {"out": np.broadcast_to(x[0], 4)}, ValueError, "a read-only array"),
    ],
)
def test_invalid_arguments_are_rejected(
    backend: Any, arguments: Any, options: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        gpusolve.gemv(*arguments, **options)
