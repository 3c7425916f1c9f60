"""Time the sparse products, and SciPy, CuPy and cuSPARSE.

    python benchmarks/sparse_products.py --output FILE  # on a GPU if there is one
    python benchmarks/sparse_products.py --emulate      # the kernels, at toy size
    python benchmarks/sparse_products.py --cpu          # the NumPy path

Element-wise products of two matrices of one kind, by every method; then of one matrix
and shorter and shorter matrices, to find the ratio of lengths from which "gallop" is
faster than "merge"; then a matrix times a vector. The bytes that must be moved, over
the time, are compared with the rate of a plain copy in the same run. Results are
Markdown.
"""

from __future__ import annotations

import argparse
import importlib
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from harness import (
    Array,
    Call,
    Machine,
    choose,
    count,
    head,
    microseconds,
    power,
    publish,
    rate_cells,
    row,
    table_head,
    timing_parser,
    to_host,
)
from sparse_matrices import KINDS, matrix, matrix_from_keys, uniform

from gpusolve.sparse import SpMVPlan, multiply, spmv
from gpusolve.sparse._coo_multiply_kernel import GALLOP_RATIO

Sparse = Any

SIZES = {
    "cuda": [10**k for k in range(4, 9)],
    "cpu": [10**k for k in range(3, 8)],
    "emulator": [10**3],
}

LONGER = {"cuda": 10**8, "cpu": 10**7, "emulator": 10**4}
"""Entries of the longer operand in the table of unequal lengths."""

RATIOS = [2**k for k in range(18)]
"""Lengths of the longer operand over lengths of the shorter operand, to above 10^5."""

METHODS = ("merge", "gallop", "binary", "linear")

MOST_COMPARISONS = {"cuda": 10**10, "emulator": 10**7}
"""Largest product of the two lengths for which "linear" is timed."""

BYTES_PER_ENTRY = 256
"""GPU memory allowed for, per entry: more than the operands and their copies need."""


class Library(NamedTuple):
    """Another library with sparse matrices."""

    name: str
    sparse: Any
    asarray: Callable[[Any], Array]
    on_host: bool


def libraries(machine: Machine) -> list[Library]:
    """SciPy, and CuPy on a GPU."""
    found = [Library("SciPy", scipy.sparse, np.asarray, on_host=True)]
    if machine.cupy:
        sparse = importlib.import_module("cupyx.scipy.sparse")
        found.insert(0, Library("CuPy", sparse, machine.xp.asarray, on_host=False))
    return found


def copy_to_machine(machine: Machine, A: Sparse) -> Sparse:
    """Return a matrix of SciPy in the memory of the machine."""
    if not machine.cupy:
        return A
    sparse = importlib.import_module("cupyx.scipy.sparse")
    return getattr(sparse, f"{A.format}_matrix")(A)


# ---- element-wise products ----------------------------------------------------------


class Pair(NamedTuple):
    """Two operands, in SciPy's COO, and their product by SciPy."""

    A: Sparse
    B: Sparse
    product: Sparse

    @property
    def bytes_moved(self) -> int:
        """Row, column and value of each entry read, and of each entry written."""
        return int(12 * (self.A.nnz + self.B.nnz + self.product.nnz))


def pair(A: Sparse, B: Sparse) -> Pair:
    return Pair(A, B, A.tocsr().multiply(B.tocsr()))


def pair_of_kind(kind: str, entries: int) -> Pair:
    """Two matrices of one kind."""
    return pair(matrix(kind, entries, seed=0), matrix(kind, entries, seed=1))


def pair_of_lengths(longer: Sparse, ratio: int) -> Pair:
    """A matrix and a uniform matrix; `ratio` is the ratio of their entries."""
    side = longer.shape[0]
    fewer = uniform(side, longer.nnz // ratio, np.random.default_rng(1))
    return pair(longer, matrix_from_keys(fewer, side))


def methods_of(machine: Machine, operands: Pair) -> Iterator[str]:
    """The methods that are timed as well as "auto"; the CPU has one path for all."""
    if machine.name == "cpu":
        return
    comparisons = operands.A.nnz * operands.B.nnz
    for method in METHODS:
        if method != "linear" or comparisons <= MOST_COMPARISONS[machine.name]:
            yield method


def multiply_times(
    machine: Machine, operands: Pair, methods: Sequence[str]
) -> dict[str, float]:
    """Seconds of each method; RuntimeError if a product does not agree with SciPy."""
    A, B = copy_to_machine(machine, operands.A), copy_to_machine(machine, operands.B)
    times = {}
    for method in methods:
        measured = machine.timing(partial(multiply, A, B, method=method))
        check(method, measured.result, operands.product)
        times[method] = measured.median
    return times


def check(method: str, product: Sparse, expected: Sparse) -> None:
    """Raise RuntimeError if a product differs from SciPy's."""
    if (to_host(product).tocsr() != expected).nnz:
        raise RuntimeError(f"{method} does not agree with SciPy")


def multiply_by_libraries(machine: Machine, operands: Pair) -> Iterator[str]:
    """A cell for each library, whose operands are in its own CSR before."""
    for library in libraries(machine):
        A, B = (library.sparse.csr_matrix(C) for C in (operands.A, operands.B))
        yield machine.peer_cell(partial(A.multiply, B), library.on_host)


def multiply_table(machine: Machine, sizes: Sequence[int]) -> Iterator[str]:
    """All kinds at all sizes, with all methods."""
    methods = () if machine.name == "cpu" else METHODS
    yield from table_head(
        *("matrices", "n", "k", "gpusolve µs"),
        *(f"{method} µs" for method in methods),
        *("GB/s", "of a copy"),
        *(f"{library.name} µs" for library in libraries(machine)),
    )
    for entries in sizes:
        for kind in KINDS:
            operands = pair_of_kind(kind, entries)
            timed = ["auto", *methods_of(machine, operands)]
            times = multiply_times(machine, operands, timed)
            yield row(
                *(kind, power(entries), f"{operands.product.nnz:,}"),
                microseconds(times["auto"]),
                *(cell(times.get(method)) for method in methods),
                *copy_cells(machine, operands.bytes_moved, times["auto"]),
                *multiply_by_libraries(machine, operands),
            )


def crossover_table(machine: Machine, entries: int) -> Iterator[str]:
    """A matrix times shorter and shorter matrices, and where "gallop" is faster."""
    methods = ["auto"] if machine.name == "cpu" else ["merge", "gallop"]
    labels = ["gpusolve"] if machine.name == "cpu" else methods
    yield from table_head(
        *("ratio", "shorter"),
        *(f"{label} µs" for label in labels),
        *(f"{library.name} µs" for library in libraries(machine)),
        words=0,
    )
    longer = matrix("uniform", entries, seed=0)
    measured = []
    for ratio in (ratio for ratio in RATIOS if ratio <= entries):
        operands = pair_of_lengths(longer, ratio)
        times = multiply_times(machine, operands, methods)
        measured.append((ratio, times))
        yield row(
            *(f"{ratio:,}", f"{operands.B.nnz:,}"),
            *(microseconds(times[method]) for method in methods),
            *multiply_by_libraries(machine, operands),
        )
    if machine.name != "cpu":
        yield f"\n{crossover(measured)}"


def crossover(measured: Sequence[tuple[int, dict[str, float]]]) -> str:
    """The smallest ratio from which "gallop" is always faster than "merge"."""
    first = None
    for ratio, times in reversed(measured):
        if times["gallop"] >= times["merge"]:
            break
        first = ratio
    if first is None:
        found = "is not faster at the largest ratio"
    else:
        found = f"is faster from ratio {first:,} on"
    return f'"gallop" {found}; "auto" uses it above {GALLOP_RATIO}.'


# ---- matrix times vector -------------------------------------------------------------


class Product(NamedTuple):
    """A matrix in SciPy's CSR, and a vector."""

    A: Sparse
    x: Array

    @property
    def bytes_moved(self) -> int:
        """Values and column indices, row offsets, x and y."""
        m, n = self.A.shape
        return int(8 * self.A.nnz + 4 * (2 * m + n + 1))


def product_of_kind(kind: str, entries: int) -> Product:
    """The elements of the vector are 0 or 1, so that sums are exact."""
    A = matrix(kind, entries, seed=0).tocsr()
    return Product(A, (np.arange(A.shape[1]) % 3 == 0).astype(np.float32))


def spmv_calls(machine: Machine, problem: Product) -> dict[str, Call]:
    """With a plan, without a plan, and by a segmented scan."""
    A, x = copy_to_machine(machine, problem.A), machine.xp.asarray(problem.x)
    calls: dict[str, Call] = {
        "gpusolve": partial(SpMVPlan(A), x),
        "without a plan": partial(spmv, A, x),
    }
    if machine.name != "cpu":
        calls["segmented_scan"] = partial(SpMVPlan(A, method="segmented_scan"), x)
    return calls


def spmv_times(machine: Machine, problem: Product) -> list[float]:
    """Seconds of each call; RuntimeError if a product does not agree with SciPy."""
    expected = machine.xp.asarray(problem.A @ problem.x)
    times = []
    for name, call in spmv_calls(machine, problem).items():
        measured = machine.timing(call)
        if not machine.xp.array_equal(measured.result, expected):
            raise RuntimeError(f"{name} does not agree with SciPy")
        times.append(measured.median)
    return times


def spmv_by_libraries(machine: Machine, problem: Product) -> Iterator[str]:
    """A cell for each library, whose matrix is in its own CSR before."""
    for library in libraries(machine):
        A, x = library.sparse.csr_matrix(problem.A), library.asarray(problem.x)
        yield machine.peer_cell(partial(operator.matmul, A, x), library.on_host)


SPMV_NAMES = {"CuPy": "cuSPARSE", "SciPy": "SciPy"}
"""What computes ``@`` for each library."""


def spmv_table(machine: Machine, sizes: Sequence[int]) -> Iterator[str]:
    """All kinds at all sizes."""
    steps = [] if machine.name == "cpu" else ["segmented_scan µs"]
    yield from table_head(
        *("matrix", "n", "gpusolve µs", "without a plan µs", *steps),
        *("GB/s", "of a copy"),
        *(f"{SPMV_NAMES[library.name]} µs" for library in libraries(machine)),
    )
    for entries in sizes:
        for kind in KINDS:
            problem = product_of_kind(kind, entries)
            times = spmv_times(machine, problem)
            yield row(
                *(kind, power(entries)),
                *map(microseconds, times),
                *copy_cells(machine, problem.bytes_moved, times[0]),
                *spmv_by_libraries(machine, problem),
            )


# ---- the report ----------------------------------------------------------------------


def cell(seconds: float | None) -> str:
    return "" if seconds is None else microseconds(seconds)


def copy_cells(machine: Machine, moved: int, seconds: float) -> tuple[str, str]:
    """GB/s, and its ratio to the rate of a plain copy of the same size."""
    source = machine.xp.ones(moved // 2, np.uint8)
    return rate_cells(moved, seconds, machine.copy_rate(source))


ABOUT = """\
float32 and 32-bit indices. Matrices are square, with 16 entries per row on average; the
smallest have fewer. The kinds: "uniform", entries anywhere; "banded", on 16 diagonals;
"power law", entries of row r in proportion to r^(-2/3); "one heavy row", one row full
and the others uniform. GB/s is the bytes that must be moved, over our time; "of a copy"
is its ratio to the rate of a plain copy that moves the same number of bytes."""

ABOUT_MULTIPLY = """\
Two matrices of one kind, of n entries each, with k entries in common; 24 n + 12 k bytes
must be moved. Our operands are COO; other libraries get CSR, and the conversion is not
timed. The column without a method is "auto"; the CPU has one path for all methods."""

ABOUT_LENGTHS = """\
Two uniform matrices: {entries} entries in A, fewer by a ratio in B."""

ABOUT_SPMV = """\
Matrices with m rows, m columns and n entries, in CSR; 8 n + 4 (3 m + 1) bytes must be
moved. Making the plan is timed only in the column "without a plan"."""


def report(machine: Machine, sizes: Sequence[int], longer: int) -> Iterator[str]:
    """The report, line by line as it is measured."""
    yield from head("Sparse products", machine)
    yield ABOUT
    yield f"\n## Element-wise products\n\n{ABOUT_MULTIPLY}\n"
    yield from multiply_table(machine, sizes)
    about = ABOUT_LENGTHS.format(entries=power(longer))
    yield f"\n## Operands of unequal length\n\n{about}\n"
    yield from crossover_table(machine, longer)
    yield f"\n## Matrix times vector\n\n{ABOUT_SPMV}\n"
    yield from spmv_table(machine, sizes)


def arguments() -> argparse.Namespace:
    made = timing_parser(__doc__, "entries of a matrix")
    made.add_argument("--longer", type=count, help="entries of the longer operand")
    return made.parse_args()


def main() -> None:
    options = arguments()
    machine = choose(options.emulate, options.cpu, options.repeats, options.peers)
    most = machine.free_bytes / BYTES_PER_ENTRY
    sizes = [n for n in sorted(options.sizes or SIZES[machine.name]) if n <= most]
    longer = int(min(options.longer or LONGER[machine.name], most))
    publish(report(machine, sizes, longer), options.output)


if __name__ == "__main__":
    main()
