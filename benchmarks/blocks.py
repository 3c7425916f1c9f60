"""Time the blocks, matrix times vector and sparse products, next to other libraries.

    python benchmarks/blocks.py --output FILE   # on a GPU if there is one
    python benchmarks/blocks.py --emulate       # the kernels on the CPU, at toy size
    python benchmarks/blocks.py --cpu --parts gemv

"a copy" is a plain copy that moves as many bytes as the operation must read and write:
no implementation can be faster by much. A result that differs from the library's ends
the run.
"""

from __future__ import annotations

import argparse
import importlib
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, get_args

import numpy as np
import scipy.sparse
from harness import Array, Benchmark, Call, Machine, to_host
from records import OURS, Part, Result
from sparse_matrices import KINDS, matrix, matrix_from_keys, uniform

import gpusolve
from gpusolve import sparse
from gpusolve._gemv.gemv import PaperVariant

SIZES = {"cuda": [10**k for k in range(3, 10)], "cpu": [10**k for k in range(3, 8)]}
ENTRIES = {"cuda": [10**k for k in range(4, 9)], "cpu": [10**k for k in range(3, 8)]}
RATIOS = [4**k for k in range(10)]
"""Lengths of the longer operand over lengths of the shorter operand."""

PAPER_VARIANTS = get_args(PaperVariant)
METHODS = "merge", "gallop", "binary"

BYTES_PER_NUMBER = 64
"""GPU memory allowed for, per number or entry: more than any operation needs."""


class Operation(NamedTuple):
    """An operation, the bytes that it must move, and calls to compare it with.

    Results are equal, as all sums are exact.
    """

    name: str
    shape: tuple[int, int]
    moved: int
    ours: Call
    same: dict[str, Call]


def results(machine: Machine, operation: Operation) -> Iterator[Result]:
    """Times of all; RuntimeError if two results that should be equal are not."""
    at = operation.name, operation.shape
    found, ours = machine.measure(OURS, *at, operation.ours)
    yield found
    yield machine.copy(*at, operation.moved)
    for peer, call in operation.same.items() if machine.peers else ():
        found, other = machine.measure(peer, *at, call)
        yield found
        if not found.note and not equal(ours, other):
            raise RuntimeError(f"{operation.name} does not agree with {peer}")


def equal(ours: Any, other: Any) -> bool:
    ours, other = to_host(ours), to_host(other)
    if scipy.sparse.issparse(ours):
        return (ours.tocsr() != scipy.sparse.csr_array(other)).nnz == 0
    return bool(np.array_equal(np.asarray(ours), np.asarray(other)))


def numbers(xp: Any, n: int) -> Array:
    """Small whole numbers as float32: their sums are exact in every grouping."""
    return xp.asarray(np.random.default_rng(0).integers(-3, 4, n, np.int8)).astype("f4")


# ---- reduce, scan, segments, partition -----------------------------------------------

SEGMENTS = {"short": 8, "long": 100_000}
"""The mean length of segments."""


def segment_lengths(mean: int, n: int) -> Array:
    """Random lengths with the sum n; the last segment is cut short."""
    rng = np.random.default_rng(0)
    ends = np.cumsum(rng.integers(1, 2 * mean, 2 * n // mean + 10))
    return np.diff(ends[ends < n], prepend=0, append=n)


def maximum_rise(x: Array) -> Array:
    """The maximum segment sum: the largest rise of the prefix sums."""
    sums = np.concatenate([np.zeros(1, x.dtype), np.cumsum(x)])
    return (sums - np.minimum.accumulate(sums)).max()


def blocks(machine: Machine, n: int) -> Iterator[Operation]:
    """All operations on n numbers."""
    xp = machine.xp
    library = "CuPy" if machine.cupy else "NumPy"
    x, mask = numbers(xp, n), numbers(xp, n) > 0
    made = partial(Operation, shape=(n, 1))

    def one(name: str, moved: int, ours: Call, call: Call | None) -> Operation:
        return made(name, moved=moved, ours=ours, same={library: call} if call else {})

    yield one("reduce", x.nbytes, partial(gpusolve.reduce, x), partial(xp.sum, x))
    rise = partial(maximum_rise, x) if xp is np else None
    call = partial(gpusolve.maximum_segment_sum, x)
    yield one("maximum_segment_sum", x.nbytes, call, rise)
    scan = partial(gpusolve.scan, x)
    yield one("scan", 2 * x.nbytes, scan, partial(xp.cumsum, x))
    yield one(
        "stable_partition",
        2 * x.nbytes + mask.nbytes,
        lambda: gpusolve.stable_partition(x, mask)[1],
        lambda: xp.concatenate([x[mask], x[~mask]]),
    )
    for kind, mean in SEGMENTS.items():
        lengths = xp.asarray(segment_lengths(mean, n))
        offsets = xp.concatenate([xp.zeros(1, int), xp.cumsum(lengths)])
        flags = gpusolve.segment_flags(lengths, total=n)
        moved = 2 * x.nbytes + flags.nbytes
        call = partial(gpusolve.segmented_scan, x, flags)
        yield one(f"segmented_scan, {kind}", moved, call, None)
        moved = x.nbytes + offsets.nbytes + x.itemsize * len(lengths)
        call = partial(gpusolve.segmented_reduce, x, offsets=offsets)
        sums = partial(np.add.reduceat, x, to_host(offsets[:-1])) if xp is np else None
        yield one(f"segmented_reduce, {kind}", moved, call, sums)


# ---- matrix times vector -------------------------------------------------------------

FIGURE = [(m, n) for m in (10**3, 10**4, 10**5) for n in (16, 32, 64)]
LARGE = [(10**4, 10**4), (10**3, 10**5), (10**6, 64), (10**6, 1), (16, 10**6)]


def gemv(machine: Machine, shape: tuple[int, int]) -> Iterator[Operation]:
    """A matrix in C order and its transpose, of small whole numbers."""
    A = numbers(machine.xp, shape[0] * shape[1]).reshape(shape)
    for transpose in (False, True):
        operand = A.T if transpose else A
        x = numbers(machine.xp, operand.shape[1])
        ours = partial(gpusolve.gemv, A, x, transpose=transpose)
        same: dict[str, Call] = {"NumPy": partial(np.dot, *map(to_host, (operand, x)))}
        if machine.cupy:
            same["CuPy"] = partial(machine.xp.matmul, operand, x)
            same["cuBLAS"] = cublas_call(A, x, transpose)
        if machine.name != "cpu":
            for name in PAPER_VARIANTS:
                same[name] = partial(ours, variant=name)
        moved = 4 * (A.size + x.size + operand.shape[0])
        yield Operation("transposed" * transpose or "A x", shape, moved, ours, same)


def cublas_call(A: Array, x: Array, transpose: bool) -> Call:
    """cuBLAS's gemv; CuPy passes C order as Fortran order transposed."""
    from cupy import empty
    from cupy.cublas import gemv

    y = empty(A.shape[1] if transpose else A.shape[0], A.dtype)

    def call() -> Array:
        gemv("T" if transpose else "N", 1.0, A, x, 0.0, y)
        return y

    return call


# ---- sparse products -----------------------------------------------------------------


def copy_to_machine(machine: Machine, A: Any, kind: str = "") -> Any:
    """Return a matrix of SciPy in the memory of the machine."""
    A = A.asformat(kind or A.format)
    if not machine.cupy:
        return A
    library = importlib.import_module("cupyx.scipy.sparse")
    return getattr(library, f"{A.format}_matrix")(A)


def product(machine: Machine, name: str, A: Any, B: Any) -> Operation:
    """An element-wise product; libraries get CSR, which is not timed."""
    ours = partial(sparse.multiply, *(copy_to_machine(machine, C) for C in (A, B)))
    csr = [copy_to_machine(machine, C, "csr") for C in (A, B)]
    same: dict[str, Call] = {"SciPy": partial(A.tocsr().multiply, B.tocsr())}
    if machine.cupy:
        same["CuPy"] = partial(csr[0].multiply, csr[1])
    if machine.name != "cpu":
        same |= {method: partial(ours, method=method) for method in METHODS}
    moved = 12 * (A.nnz + B.nnz + same["SciPy"]().nnz)
    return Operation(name, (A.nnz, B.nnz), moved, ours, same)


def multiply(machine: Machine, entries: int) -> Iterator[Operation]:
    """Two matrices of each kind."""
    for kind in KINDS:
        yield product(machine, kind, *(matrix(kind, entries, seed) for seed in (0, 1)))


def unequal(machine: Machine, entries: int) -> Iterator[Operation]:
    """A matrix and shorter and shorter matrices, to find where "gallop" is faster."""
    A = matrix("uniform", entries, seed=0)
    for ratio in (ratio for ratio in RATIOS if ratio <= entries):
        keys = uniform(A.shape[0], A.nnz // ratio, np.random.default_rng(1))
        B = matrix_from_keys(keys, A.shape[0])
        yield product(machine, f"ratio {ratio:,}", A, B)


def spmv(machine: Machine, entries: int) -> Iterator[Operation]:
    """A matrix of each kind times a vector of 0 and 1."""
    for kind in KINDS:
        host = matrix(kind, entries, seed=0).tocsr()
        A = copy_to_machine(machine, host)
        x = (np.arange(A.shape[1]) % 3 == 0).astype(np.float32)
        there = machine.xp.asarray(x)
        same: dict[str, Call] = {"SciPy": partial(operator.matmul, host, x)}
        if machine.cupy:
            same["CuPy"] = partial(operator.matmul, A, there)
        same["without a plan"] = partial(sparse.spmv, A, there)
        if machine.name != "cpu":
            plan = sparse.SpMVPlan(A, method="segmented_scan")
            same["segmented_scan"] = partial(plan, there)
        moved = 8 * host.nnz + 4 * (2 * host.shape[0] + host.shape[1] + 1)
        call = partial(sparse.SpMVPlan(A), there)
        yield Operation(kind, (host.shape[0], host.nnz), moved, call, same)


# ---- the page ------------------------------------------------------------------------


class Kind(NamedTuple):
    """A part: its text, the columns, its operations, and their sizes by machine."""

    about: str
    peers: tuple[str, ...]
    operations: Callable[[Machine, Any], Iterator[Operation]]
    sizes: dict[str, list[Any]]
    small: list[Any]


SPARSE = (
    "Square matrices of float32, with 16 entries per row on average: uniform, on 16 "
)
SPARSE += "diagonals,\nby a power law of the rows, and one full row. "

KINDS_OF_CALLS = {
    "blocks": Kind(
        "float32, n x 1: n numbers. Segments have 8 or 100,000 elements on average.",
        ("a copy", "NumPy", "CuPy"),
        blocks,
        SIZES,
        [100],
    ),
    "gemv": Kind(
        "float32, matrices in C order.",
        ("a copy", "NumPy", "CuPy", "cuBLAS", *PAPER_VARIANTS),
        gemv,
        {"cuda": FIGURE + LARGE, "cpu": FIGURE + LARGE},
        [(30, 16)],
    ),
    "multiply": Kind(
        SPARSE
        + "The shape is the entries\nof both operands of an element-wise product.",
        ("a copy", "SciPy", "CuPy", *METHODS),
        multiply,
        ENTRIES,
        [1000],
    ),
    "unequal": Kind(
        "Two uniform matrices, the second with fewer entries by a ratio.",
        ("a copy", "SciPy", "CuPy", *METHODS),
        unequal,
        {"cuda": [10**8], "cpu": [10**7]},
        [1000],
    ),
    "spmv": Kind(
        SPARSE
        + "The shape is rows and\nentries. Making the plan is timed only without it.",
        ("a copy", "SciPy", "CuPy", "without a plan", "segmented_scan"),
        spmv,
        ENTRIES,
        [1000],
    ),
}


def measure(
    part: Part, machine: Machine, options: argparse.Namespace
) -> Iterator[Result]:
    kind = KINDS_OF_CALLS[part.name]
    sizes = kind.small if machine.small else kind.sizes[machine.name]
    if options.sizes and part.name != "gemv":
        sizes = options.sizes
    free = machine.cupy.cuda.runtime.memGetInfo()[0] if machine.cupy else np.inf
    for size in sizes:
        if BYTES_PER_NUMBER * np.prod(size) <= free:
            for operation in kind.operations(machine, size):
                yield from results(machine, operation)


BENCHMARK = Benchmark(
    doc=__doc__ or "",
    title="Blocks, matrix times vector and sparse products",
    parts=[Part(name, kind.about, kind.peers) for name, kind in KINDS_OF_CALLS.items()],
    measure=measure,
    repeats=11,
)

if __name__ == "__main__":
    BENCHMARK.main()
