"""Repeat the figures of M. Cupp's "Element-Wise Multiplication Kernel" (2020).

    python benchmarks/coo_paper.py --output FILE  # times on a GPU if there is one
    python benchmarks/coo_paper.py --emulate      # times of the emulator
    python benchmarks/coo_paper.py --cpu          # times of the CPU path
    python benchmarks/coo_paper.py --times        # no counts, which need a compiler

The document counts instructions, cycles and multiplications with a simulator of RISC-V
cores. Here the emulator runs the kernels and counts. Times at the document's sizes are
measured, and predicted for an H200 from the counts. Results are Markdown.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from harness import (
    Machine,
    choose,
    head,
    microseconds,
    publish,
    row,
    table_head,
    timing_parser,
    to_host,
)

from gpusolve.sparse import multiply
from gpusolve.studies.coo_figures import (
    TILES,
    Pair,
    accesses,
    active_lanes,
    check,
    instructions,
    kernels_of,
    keys_read,
    multiplications,
    pair_of_232,
    profiled,
    random_pair,
)

METHODS = ("linear", "scratchpad", "binary", "even", "merge")
SIDES = (10, 20, 30, 40)
TILES_OF_METHOD = {"linear": 128, "binary": 128, "even": 128}
"""The 16 x 8 of figures 9 and 12. The other methods choose their blocks."""

KINDS = ("load", "store", "atomic", "integer", "compare", "branch", "float")


# ---- counts --------------------------------------------------------------------------


def versions_table(sides: Sequence[int]) -> Iterator[str]:
    """Figures 9 and 12: instructions of all methods at 75 %."""
    yield from table_head("matrix", "multiplications", *METHODS)
    for side in sides:
        operands = random_pair((side, side), 0.75)
        found = [
            kernels_of(operands, method, TILES_OF_METHOD.get(method))
            for method in METHODS
        ]
        yield row(
            *(f"{side} x {side}", multiplications(found[0])),
            *(f"{instructions(kernels).total():,}" for kernels in found),
        )


def saved_table(operands: Pair, threads: Sequence[int]) -> Iterator[str]:
    """Figure 12: what version 2 saves, with 128 tiles of more and more threads."""
    yield from table_head(
        *("threads of a tile", "version 1", "version 2", "saved"),
        *("keys read by version 1", "by version 2", "saved"),
        words=0,
    )
    for number in threads:
        found = [
            kernels_of(operands, method, 128, number) for method in ("linear", "binary")
        ]
        executed = [instructions(kernels).total() for kernels in found]
        read = [keys_read(kernels) for kernels in found]
        cells = [
            cell
            for first, second in (executed, read)
            for cell in (f"{first:,}", f"{second:,}", f"{1 - second / first:.1%}")
        ]
        yield row(number, *cells)


def statistics_table(operands: Pair) -> Iterator[str]:
    """What the methods execute, by kind."""
    yield from table_head(
        *("method", *KINDS, "barriers", "active lanes", "accesses each", "intensity")
    )
    for method in METHODS:
        kernels = kernels_of(operands, method, TILES_OF_METHOD.get(method))
        kinds = instructions(kernels)
        each = accesses(kernels) / multiplications(kernels)
        yield row(
            *(method, *(f"{kinds[kind]:,}" for kind in KINDS)),
            sum(kernel.barriers for kernel in kernels),
            *(f"{active_lanes(kernels):.1f}", f"{each:,.1f}", f"{1 / each:.2g}"),
        )


def tiles_table(operands: Pair, method: str, tiles: Sequence[int]) -> Iterator[str]:
    """Figures 13 to 21: the same product with more and more tiles.

    The stores of a kernel are three for each of its multiplications. The least and the
    most of a tile are sums over the kernels.
    """
    yield from table_head(
        *("tiles", "instructions", "least of a tile", "most of a tile", "loads"),
        *("loads of the busiest", "multiplications", "multiplications of the largest"),
        *("over the mean", "barriers", "active lanes"),
        words=0,
    )
    for blocks in tiles:
        kernels = kernels_of(operands, method, blocks)
        tile_counts = [kernel.per_block["instructions"] for kernel in kernels]
        stores = kernels[-1].per_block["global_stores"]
        yield row(
            *(blocks, f"{instructions(kernels).total():,}"),
            f"{sum(counts.least for counts in tile_counts):,}",
            f"{sum(counts.most for counts in tile_counts):,}",
            f"{sum(kernel.global_loads for kernel in kernels):,}",
            f"{sum(kernel.per_block['global_loads'].most for kernel in kernels):,}",
            *(multiplications(kernels), f"{stores.most / 3:.0f}"),
            f"{stores.most / stores.mean:.2f}",
            f"{sum(kernel.barriers for kernel in kernels):,}",
            f"{active_lanes(kernels):.1f}",
        )


# ---- times ---------------------------------------------------------------------------


def document_sizes(sides: Sequence[int]) -> Iterator[tuple[str, Pair]]:
    """All inputs of the document."""
    for side in sides:
        yield f"{side} x {side}, 75 %", random_pair((side, side), 0.75)
    yield "1000 x 100, 1 %", random_pair((1000, 100), 0.01)
    yield "128 x 128, 10 %", pair_of_232()


def times_table(
    machine: Machine, inputs: Iterable[tuple[str, Pair]], predicted: Sequence[str]
) -> Iterator[str]:
    """Times of each input, measured on this machine and predicted for some methods."""
    timed = ("auto",) if machine.name == "cpu" else METHODS
    yield from table_head(
        *("matrices", "entries", "products"),
        *(f"{method}, measured µs" for method in timed),
        *(f"{method}, predicted µs" for method in predicted),
    )
    for name, operands in inputs:
        products = operands.A.tocsr().multiply(operands.B.tocsr()).nnz
        times = [machine_time(machine, operands, method) for method in timed]
        times += [
            profiled(operands, method).predict("H200").seconds for method in predicted
        ]
        yield row(name, f"{operands.A.nnz:,}", products, *map(microseconds, times))


def machine_time(machine: Machine, operands: Pair, method: str) -> float:
    """The seconds of a call; RuntimeError if it does not agree with SciPy."""
    A, B = operands
    if machine.cupy:
        sparse = importlib.import_module("cupyx.scipy.sparse")
        A, B = map(sparse.coo_matrix, operands)
    measured = machine.timing(partial(multiply, A, B, method=method))
    check(method, operands, to_host(measured.result))
    return measured.median


# ---- the report ----------------------------------------------------------------------

ABOUT = """\
float32 and 32-bit indices; entries as the document draws them, in this order. "linear"
is version 1, "scratchpad" the first attempt (chapter 3), "binary" version 2, which
sorts B alone, "even" what section 5.3 proposes, "merge" our own method, which sorts
both. The emulator on a CPU has counted: accesses to memory, multiplications, barriers
and active lanes exactly as on a GPU; other instructions as in the CPU's machine code.
The counts omit the checks and the sorting before and after the kernels; in the
document, the host checks and sorts.

A tile of the document is a core. Tiles have one thread here, where their number is
given; otherwise a method chooses its blocks, of 256 threads. "even" searches with
256 threads, and only its multiplications have tiles. [The map of the
papers](../../docs/papers.md) says which figure holds."""

ABOUT_STATISTICS = """\
At {side} x {side}, with 128 tiles. "accesses each" is the accesses to global memory for
each multiplication, and "intensity" its inverse; 9 and 0.11 in the best case."""

ABOUT_TIMES = """\
**The predicted times are not measurements:** they are `report.predict("H200")`, 2 to
5 µs for each launch and more, also for launches that check and sort; without array
operations between the kernels. Of loads that depend on each other within a binary
search, four iterations are taken to wait together. The CPU has one path for
all methods."""


def counts(sides: Sequence[int]) -> Iterator[str]:
    """The counts of all figures."""
    last = random_pair((sides[-1], sides[-1]), 0.75)
    yield "\n## Figures 9 and 12: instructions at 75 % density, 128 tiles\n"
    yield from versions_table(sides)
    yield f"\n## Figure 12: {sides[-1]} x {sides[-1]}, by the threads of a tile\n"
    yield from saved_table(last, (1, 32, 256))
    about = ABOUT_STATISTICS.format(side=sides[-1])
    yield f"\n## Where the instructions go\n\n{about}\n"
    yield from statistics_table(last)
    yield "\n## Figures 13 and 14: 1000 x 100 at 1 %, version 2\n"
    yield from tiles_table(random_pair((1000, 100), 0.01), "binary", TILES)
    for method, name in (("binary", "version 2"), ("even", "even multiplications")):
        yield f"\n## Figures 15, 17 and 21: 128 x 128 at 10 %, {name}\n"
        yield from tiles_table(pair_of_232(), method, TILES)


def report(machine: Machine, sides: Sequence[int], only_times: bool) -> Iterator[str]:
    """The report, line by line as it is measured."""
    yield from head("The element-wise product of Cupp's document", machine)
    yield ABOUT
    if not only_times:
        yield from counts(sides)
    yield f"\n## Times at the document's sizes\n\n{ABOUT_TIMES}\n"
    predicted = () if only_times else METHODS
    yield from times_table(machine, document_sizes(sides), predicted)


def arguments() -> argparse.Namespace:
    made = timing_parser(__doc__, "sides of the square matrices")
    made.add_argument("--times", action="store_true", help="no counts and predictions")
    return made.parse_args()


def main() -> None:
    options = arguments()
    machine = choose(options.emulate, options.cpu, options.repeats)
    lines = report(machine, options.sizes or SIDES, options.times)
    publish(lines, options.output)


if __name__ == "__main__":
    main()
