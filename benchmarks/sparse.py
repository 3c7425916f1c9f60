"""Time the sparse products beside SciPy, CuPy and cuSPARSE.

    python benchmarks/sparse.py --output FILE   # on a GPU, else on the emulator
    python benchmarks/sparse.py --emulate       # the kernels on the CPU, at toy size
    python benchmarks/sparse.py --cpu           # the NumPy path

Element by element, two matrices of one kind, by every method; then a matrix and ever
shorter ones, to see from where on "gallop" is quicker than "merge"; then a matrix times
a vector. Each is held against its floor, the bytes that must be moved, and against a
plain copy that moves as many in the same run. Results are Markdown.
"""

from __future__ import annotations

import argparse
import importlib
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
import scipy.sparse
from blocks import (
    PLACES,
    WARNINGS,
    Machine,
    choose,
    facts,
    gigabytes,
    head,
    how_timed,
    microseconds,
    power,
    row,
)
from sparse_matrices import KINDS, matrix, uniform, with_keys
from timing import Call, Stopwatch, by_the_clock, publish, timing

from gpusolve.sparse import SpMVPlan, multiply, spmv
from gpusolve.sparse._coo_multiply_kernel import GALLOP_RATIO

Array = Any
Sparse = Any

SIZES = {
    "cuda": [10**k for k in range(4, 9)],
    "cpu": [10**k for k in range(3, 8)],
    "emulator": [10**3],
}

LONGER = {"cuda": 10**8, "cpu": 10**7, "emulator": 10**4}
"""Entries of the longer operand, where lengths differ."""

RATIOS = [2**k for k in range(18)]
"""How many times as long it is: to above 10^5."""

METHODS = ("merge", "gallop", "binary", "linear")

MOST_COMPARISONS = {"cuda": 10**10, "emulator": 10**7}
"""Pairs of entries up to which "linear" is timed."""

BYTES_PER_ENTRY = 256
"""Of memory, more than both operands, their copies and what we need take."""


class Library(NamedTuple):
    """Another one with sparse matrices, and how its calls are timed."""

    name: str
    sparse: Any
    asarray: Callable[[Any], Array]
    stopwatch: Stopwatch


def libraries(machine: Machine) -> list[Library]:
    """CuPy if there is a GPU; and SciPy."""
    others = [Library("SciPy", scipy.sparse, np.asarray, by_the_clock)]
    if machine.name == "cuda":
        sparse = importlib.import_module("cupyx.scipy.sparse")
        cupy = Library("CuPy", sparse, machine.xp.asarray, machine.stopwatch)
        others.insert(0, cupy)
    return others


def ours(machine: Machine, A: Sparse) -> Sparse:
    """The matrix where we are to compute."""
    if machine.name != "cuda":
        return A
    like = importlib.import_module("cupyx.scipy.sparse")
    return getattr(like, f"{A.format}_matrix")(A)


# ---- element by element --------------------------------------------------------------


class Pair(NamedTuple):
    """Two operands, COO of SciPy, and their product as SciPy has it."""

    A: Sparse
    B: Sparse
    product: Sparse

    @property
    def floor(self) -> int:
        """Bytes: read all places, two values for each match; write its entry."""
        return int(8 * (self.A.nnz + self.B.nnz) + 20 * self.product.nnz)


def pair(A: Sparse, B: Sparse) -> Pair:
    return Pair(A, B, A.tocsr().multiply(B.tocsr()))


def pair_of_kind(kind: str, entries: int) -> Pair:
    """Two matrices of one kind."""
    return pair(matrix(kind, entries, seed=0), matrix(kind, entries, seed=1))


def pair_of_lengths(longer: Sparse, ratio: int) -> Pair:
    """A matrix, and a uniform one with fewer entries."""
    side = longer.shape[0]
    fewer = uniform(side, longer.nnz // ratio, np.random.default_rng(1))
    return pair(longer, with_keys(fewer, side))


def methods_of(machine: Machine, operands: Pair) -> Iterator[str]:
    """Those that are timed, beside "auto"; a CPU has one way for all."""
    if machine.name == "cpu":
        return
    comparisons = operands.A.nnz * operands.B.nnz
    for method in METHODS:
        if method != "linear" or comparisons <= MOST_COMPARISONS[machine.name]:
            yield method


def multiply_times(
    machine: Machine, operands: Pair, methods: Sequence[str]
) -> dict[str, float]:
    """Seconds by each method; RuntimeError if one comes to something else."""
    A, B = ours(machine, operands.A), ours(machine, operands.B)
    times = {}
    for method in methods:
        call = partial(multiply, A, B, method=method)
        check(method, call(), operands.product)
        times[method] = machine.timing(call).median
    return times


def check(method: str, product: Sparse, expected: Sparse) -> None:
    """RuntimeError if ours is not SciPy's."""
    here = product.get() if hasattr(product, "get") else product
    if (here.tocsr() != expected).nnz:
        raise RuntimeError(f"{method} does not agree with SciPy")


def multiply_by_libraries(machine: Machine, operands: Pair) -> Iterator[str]:
    """Microseconds of each, of matrices that are in its own CSR already."""
    for library in libraries(machine):
        A, B = (library.sparse.csr_matrix(one) for one in (operands.A, operands.B))
        call = partial(A.multiply, B)
        yield microseconds(timing(library.stopwatch, call, machine.repeats).median)


def multiply_table(machine: Machine, sizes: Sequence[int]) -> Iterator[str]:
    """All kinds at all sizes, by all methods."""
    methods = () if machine.name == "cpu" else METHODS
    yield from head(
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
                *rate_cells(machine, operands.floor, times["auto"]),
                *multiply_by_libraries(machine, operands),
            )


def crossover_table(machine: Machine, entries: int) -> Iterator[str]:
    """A matrix and ever shorter ones; and where the methods change places."""
    methods = ["auto"] if machine.name == "cpu" else ["merge", "gallop"]
    labels = ["gpusolve"] if machine.name == "cpu" else methods
    yield from head(
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
    """From which ratio on, without exception, "gallop" is quicker than "merge"."""
    first = None
    for ratio, times in reversed(measured):
        if times["gallop"] >= times["merge"]:
            break
        first = ratio
    found = "at no ratio to the last" if first is None else f"from {first:,} on"
    return f'"gallop" is quicker {found}; "auto" takes it above {GALLOP_RATIO}.'


# ---- times a vector ------------------------------------------------------------------


class Product(NamedTuple):
    """A matrix, CSR of SciPy, and a vector."""

    A: Sparse
    x: Array

    @property
    def floor(self) -> int:
        """Bytes: read entries, their columns, rows' ends and x; write y."""
        m, n = self.A.shape
        return int(8 * self.A.nnz + 4 * (2 * m + n + 1))


def product_of_kind(kind: str, entries: int) -> Product:
    """With a vector of ones and zeros: sums are exact."""
    A = matrix(kind, entries, seed=0).tocsr()
    return Product(A, (np.arange(A.shape[1]) % 3 == 0).astype(np.float32))


def spmv_calls(machine: Machine, problem: Product) -> dict[str, Call]:
    """Ours: with a plan, without one, and step by step."""
    A, x = ours(machine, problem.A), machine.xp.asarray(problem.x)
    calls: dict[str, Call] = {
        "gpusolve": partial(SpMVPlan(A), x),
        "without a plan": partial(spmv, A, x),
    }
    if machine.name != "cpu":
        calls["segmented_scan"] = partial(SpMVPlan(A, method="segmented_scan"), x)
    return calls


def spmv_times(machine: Machine, problem: Product) -> list[float]:
    """Seconds of each; RuntimeError if one comes to something else."""
    expected = machine.xp.asarray(problem.A @ problem.x)
    times = []
    for name, call in spmv_calls(machine, problem).items():
        if not machine.xp.array_equal(call(), expected):
            raise RuntimeError(f"{name} does not agree with SciPy")
        times.append(machine.timing(call).median)
    return times


def spmv_by_libraries(machine: Machine, problem: Product) -> Iterator[str]:
    """Microseconds of each, of a matrix in its own CSR."""
    for library in libraries(machine):
        A, x = library.sparse.csr_matrix(problem.A), library.asarray(problem.x)
        call = partial(operator.matmul, A, x)
        yield microseconds(timing(library.stopwatch, call, machine.repeats).median)


SPMV_NAMES = {"CuPy": "cuSPARSE", "SciPy": "SciPy"}
"""Who computes a library's ``@``."""


def spmv_table(machine: Machine, sizes: Sequence[int]) -> Iterator[str]:
    """All kinds at all sizes."""
    steps = [] if machine.name == "cpu" else ["segmented_scan µs"]
    yield from head(
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
                *rate_cells(machine, problem.floor, times[0]),
                *spmv_by_libraries(machine, problem),
            )


# ---- the report ----------------------------------------------------------------------


def cell(seconds: float | None) -> str:
    return "" if seconds is None else microseconds(seconds)


def rate_cells(machine: Machine, floor: int, seconds: float) -> tuple[str, str]:
    """Floor over time; and the time of a copy that moves as many bytes, over ours."""
    source = machine.xp.ones(floor // 2, np.uint8)
    copy = partial(machine.xp.copyto, machine.xp.empty_like(source), source)
    return gigabytes(floor / seconds), f"{machine.timing(copy).median / seconds:.0%}"


ABOUT = """\
float32 and 32-bit indices; square matrices with 16 entries in a row on average, the
smallest ones with fewer. Their places are drawn uniformly; or lie on 16 diagonals; or
row r has entries in proportion to r^(-2/3); or one row is full, the others are uniform.
GB/s is the floor, the bytes that must be moved, over our time; "of a copy" is the time
of a plain copy that moves as many bytes, over ours."""

ABOUT_MULTIPLY = """\
Two matrices of one kind, of n entries each, of which k meet; the floor is 16 n + 20 k
bytes. Ours are in COO, the other libraries' in CSR, which they would make of COO first.
Of ours, a column without a method is "auto"; a CPU has one way for all."""

ABOUT_LENGTHS = """\
Two uniform matrices, one of them {entries} entries, the other one fewer by a ratio."""

ABOUT_SPMV = """\
Of m rows, as many columns and n entries, in CSR; the floor is 8 n + 4 (3 m + 1) bytes.
The plan is made before; without one, what it does is in the time."""


def most_entries(machine: Machine) -> float:
    """Of a matrix, for which a GPU's memory is enough."""
    if machine.name != "cuda":
        return math.inf
    free, _ = machine.xp.cuda.runtime.memGetInfo()
    return float(free // BYTES_PER_ENTRY)


def report(machine: Machine, sizes: Sequence[int], longer: int) -> Iterator[str]:
    """The file, line by line as it is measured."""
    yield f"# Sparse products on {PLACES[machine.name]}\n"
    if machine.name in WARNINGS:
        yield f"{WARNINGS[machine.name]}\n"
    yield from facts(machine)
    yield f"- SciPy {scipy.__version__}"
    yield f"\n{ABOUT}\n{how_timed(machine)}"
    yield f"\n## Element by element\n\n{ABOUT_MULTIPLY}\n"
    yield from multiply_table(machine, sizes)
    about = ABOUT_LENGTHS.format(entries=power(longer))
    yield f"\n## Operands of unequal length\n\n{about}\n"
    yield from crossover_table(machine, longer)
    yield f"\n## Times a vector\n\n{ABOUT_SPMV}\n"
    yield from spmv_table(machine, sizes)


def count(text: str) -> int:
    return int(float(text))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=count, nargs="+", help="entries of a matrix")
    parser.add_argument("--longer", type=count, help="of the longer operand")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--output", type=Path, help="write the Markdown here, too")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--emulate", action="store_true", help="even if there is a GPU")
    where.add_argument("--cpu", action="store_true", help="the NumPy path")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    machine = choose(options.emulate, options.cpu, options.repeats)
    most = most_entries(machine)
    sizes = [n for n in sorted(options.sizes or SIZES[machine.name]) if n <= most]
    longer = int(min(options.longer or LONGER[machine.name], most))
    publish(report(machine, sizes, longer), options.output)


if __name__ == "__main__":
    main()
