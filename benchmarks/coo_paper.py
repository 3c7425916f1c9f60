"""Repeat the figures of M. Cupp's "Element-Wise Multiplication Kernel" (2020).

    python benchmarks/coo_paper.py --output FILE  # times on a GPU if there is one
    python benchmarks/coo_paper.py --emulate      # times of the emulator
    python benchmarks/coo_paper.py --cpu          # times of the CPU path
    python benchmarks/coo_paper.py --times        # no counts, which need a compiler

The document counts instructions, cycles and multiplications with a simulator of RISC-V
cores. Here the emulator runs the kernels and counts; cycles and stalls need a clock. A
tile of the document is a block of 256 threads. Times at the document's sizes are
measured, and predicted for an H200 from the counts. Results are Markdown.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
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

from gpusolve import emulator
from gpusolve.sparse import multiply, random_coo

Sparse = Any
Costs = Any

METHODS = ("linear", "scratchpad", "binary", "even", "merge")
SIDES = (10, 20, 30, 40)
TILES = (4, 8, 16, 32, 64, 128)
"""Of tile groups from 2 x 2 to 16 x 8."""

KINDS = ("load", "store", "atomic", "integer", "compare", "branch", "float")

SEED_OF_232 = 25
"""A seed for which 232 places are in both matrices, as in the document."""


# ---- matrices ------------------------------------------------------------------------


class Pair(NamedTuple):
    """Two operands."""

    A: Sparse
    B: Sparse


def random_pair(shape: tuple[int, int], density: float) -> Pair:
    """Two uniform matrices with their entries in any order."""
    drawn = (random_coo(shape, density, rng=k, dtype=np.float32) for k in (1, 2))
    return Pair(*(shuffled(one, seed) for seed, one in enumerate(drawn)))


def shuffled(A: Sparse, seed: int) -> Sparse:
    order = np.random.default_rng(seed).permutation(A.nnz)
    places = A.row[order], A.col[order]
    return scipy.sparse.coo_array((A.data[order], places), shape=A.shape)


def pair_of_232() -> Pair:
    """128 x 128 at 10 %, with 232 places in both."""
    rng = np.random.default_rng(SEED_OF_232)
    return Pair(drawn_as_in_the_document(rng), drawn_as_in_the_document(rng))


def drawn_as_in_the_document(rng: np.random.Generator) -> Sparse:
    """A place that is taken becomes the first free one (section 2.2).

    So the collisions of both matrices fill the same places, and 232 places are in both
    on average, instead of 164.
    """
    taken = np.zeros(128 * 128, bool)
    for place in rng.integers(taken.size, size=round(0.1 * taken.size)):
        taken[np.argmin(taken) if taken[place] else place] = True
    return scipy.sparse.coo_array(2 * taken.reshape(128, 128).astype(np.float32))


# ---- counts --------------------------------------------------------------------------


@contextlib.contextmanager
def emulated() -> Iterator[None]:
    """Run the kernels on the emulator for matrices of SciPy."""
    before = os.environ.get("GPUSOLVE_EMULATE", "")
    os.environ["GPUSOLVE_EMULATE"] = "1"
    try:
        yield
    finally:
        os.environ["GPUSOLVE_EMULATE"] = before


def profiled(operands: Pair, method: str, blocks: int | None = None) -> Any:
    """The profile of one call; RuntimeError if it does not agree with SciPy."""
    with emulated(), emulator.profile() as report:
        product = multiply(*operands, method=method, blocks=blocks)
    check(method, operands, product)
    return report


def check(method: str, operands: Pair, product: Sparse) -> None:
    """Raise RuntimeError if a product differs from SciPy's."""
    A, B = operands
    if (to_host(product).tocsr() != A.tocsr().multiply(B.tocsr())).nnz:
        raise RuntimeError(f"{method} does not agree with SciPy")


def kernels_of(operands: Pair, method: str, blocks: int | None = None) -> list[Costs]:
    """The costs of the kernels, without the checks before and after them."""
    report = profiled(operands, method, blocks)
    return [one for one in report.kernels if not one.name.startswith("make_keys")]


def instructions(kernels: Sequence[Costs]) -> Counter[str]:
    return sum((one.instructions for one in kernels), Counter[str]())


def multiplications(kernels: Sequence[Costs]) -> int:
    return sum(one.arithmetic["float32 multiply"] for one in kernels)


def accesses(kernels: Sequence[Costs]) -> int:
    """Numbers that threads read from global memory or write to it."""
    return sum(one.global_loads + one.global_stores for one in kernels)


def active_lanes(kernels: Sequence[Costs]) -> float:
    lanes = sum(one.active_lanes * one.global_requests for one in kernels)
    return float(lanes / sum(one.global_requests for one in kernels))


def versions_table(sides: Sequence[int]) -> Iterator[str]:
    """Figures 9 and 12: instructions of all methods at 75 %."""
    saved = "saved by version 2"
    yield from table_head("matrix", "multiplications", *METHODS, saved)
    for side in sides:
        operands = random_pair((side, side), 0.75)
        found = {method: kernels_of(operands, method) for method in METHODS}
        counts = {name: instructions(one).total() for name, one in found.items()}
        yield row(
            *(f"{side} x {side}", multiplications(found["linear"])),
            *(f"{count:,}" for count in counts.values()),
            f"{1 - counts['binary'] / counts['linear']:.1%}",
        )


def statistics_table(operands: Pair) -> Iterator[str]:
    """What the methods execute, by kind."""
    yield from table_head(
        *("method", *KINDS, "barriers", "active lanes", "accesses each", "intensity")
    )
    for method in METHODS:
        kernels = kernels_of(operands, method)
        kinds = instructions(kernels)
        each = accesses(kernels) / multiplications(kernels)
        yield row(
            *(method, *(f"{kinds[kind]:,}" for kind in KINDS)),
            sum(one.barriers for one in kernels),
            *(f"{active_lanes(kernels):.1f}", f"{each:,.1f}", f"{1 / each:.2g}"),
        )


def tiles_table(operands: Pair, method: str, tiles: Sequence[int]) -> Iterator[str]:
    """Figures 13, 14 and 17 to 21: the same product with more and more tiles.

    The stores of a kernel are three for each of its multiplications.
    """
    yield from table_head(
        *("tiles", "instructions", "loads", "stores", "multiplications", "barriers"),
        *("active lanes", "loads of the busiest", "stores, largest over mean"),
        words=0,
    )
    for blocks in tiles:
        kernels = kernels_of(operands, method, blocks)
        stores = kernels[-1].per_block["global_stores"]
        busiest = sum(one.per_block["global_loads"].most for one in kernels)
        yield row(
            *(blocks, f"{instructions(kernels).total():,}"),
            f"{sum(one.global_loads for one in kernels):,}",
            f"{sum(one.global_stores for one in kernels):,}",
            multiplications(kernels),
            f"{sum(one.barriers for one in kernels):,}",
            f"{active_lanes(kernels):.1f}",
            *(f"{busiest:,}", f"{stores.most / stores.mean:.2f}"),
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
    check(method, operands, measured.result)
    return measured.median


# ---- the report ----------------------------------------------------------------------

ABOUT = """\
float32 and 32-bit indices; entries in any order, except for 128 x 128. "linear" is
version 1, "scratchpad" the first attempt (chapter 3), "binary" version 2, "even" what
section 5.3 proposes, "merge" our own method, which sorts such entries first. Tables of
counts are those of the emulator on a CPU: accesses to memory, multiplications, barriers
and active lanes exactly as on a GPU; other instructions as in the CPU's machine code.
The counts are without the checks and the sorting before and after the kernels; in the
document, these are the host's."""

DIFFERENCES = """\
- Figure 12: the document has 96 % fewer instructions at 40 x 40. So do we, if version 1
  searches B "from start to finish", as section 4.3 says. If its search ended at a
  match, it would be 94 %. The text that we have does not say the figure's other values.
- Figures 9, 12, 18 to 20: stall cycles, total cycles and instructions per cycle need a
  clock, so they are not counted. The largest block over the mean, the active lanes and
  the predicted times are the nearest.
- Figures 13, 14, 17: a tile of the document is one core; here it is a block of 256
  threads, all of which take part in its scans, also if it has few entries. So the sum
  of the instructions grows with the tiles, by 600 for each thread. The loads are those
  of the search, the same for any number of tiles, and the counts of the tiles before.
- Figures 15, 16: nothing has to be printed for the counts to be right.
- Figure 21: 232 multiplications for every number of tiles. The document's 120 for
  16 x 8 tiles is the fault that its chapter 6 describes.
- 232: uniform matrices have 164 places in common, on average. Section 2.2 moves each
  collision to the first free place; for matrices drawn so, 232 is the mean.
- Barriers: the document's tiles wait twice, after they count and at the end. Versions 1
  and 2 have two launches instead; their barriers are those of scans within a block.
- Keys have 64 bits: those of the document overflow from 46341 x 46341 on. Its host
  sorts B by insertion, ours by a library."""

ABOUT_STATISTICS = """\
At {side} x {side}. "accesses each" is the accesses to global memory for each
multiplication, and "intensity" its inverse; 9 and 0.11 in the best case."""

ABOUT_TIMES = """\
**The predicted times are not measurements:** they are `report.predict("H200")`, at
least 4 µs for each launch, also for those that check and sort; without array operations
between the kernels, and without the latency of loads that depend on each other within a
search. The CPU has one path for all methods."""


def counts(sides: Sequence[int]) -> Iterator[str]:
    """The counts of all figures."""
    yield "\n## Figures 9 and 12: instructions at 75 % density\n"
    yield from versions_table(sides)
    about = ABOUT_STATISTICS.format(side=sides[-1])
    yield f"\n## Where the instructions go\n\n{about}\n"
    yield from statistics_table(random_pair((sides[-1], sides[-1]), 0.75))
    yield "\n## Figures 13 and 14: 1000 x 100 at 1 %, version 2\n"
    yield from tiles_table(random_pair((1000, 100), 0.01), "binary", TILES)
    for method, name in (("binary", "version 2"), ("even", "even multiplications")):
        yield f"\n## Figures 17 to 21: 128 x 128 at 10 %, {name}\n"
        yield from tiles_table(pair_of_232(), method, TILES)


def report(machine: Machine, sides: Sequence[int], only_times: bool) -> Iterator[str]:
    """The report, line by line as it is measured."""
    yield from head("The element-wise product of Cupp's document", machine)
    yield f"{ABOUT}\n\n## Differences from the document\n\n{DIFFERENCES}"
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
