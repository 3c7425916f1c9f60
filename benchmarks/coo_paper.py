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
import importlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

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
from gpusolve.sparse import multiply

Sparse = Any
Costs = Any

METHODS = ("linear", "scratchpad", "binary", "even", "merge")
SIDES = (10, 20, 30, 40)
TILES = (4, 8, 16, 32, 64, 128)
"""Of tile groups from 2 x 2 to 16 x 8."""
TILES_OF_METHOD = {"linear": 128, "binary": 128, "even": 128}
"""The 16 x 8 of figures 9 and 12. The other methods choose their blocks."""

KINDS = ("load", "store", "atomic", "integer", "compare", "branch", "float")

SEED_OF_232 = 25
"""A seed for which 232 places are in both matrices, as in the document."""


# ---- matrices ------------------------------------------------------------------------


class Pair(NamedTuple):
    """Two operands."""

    A: Sparse
    B: Sparse


def random_pair(shape: tuple[int, int], density: float, seed: int = 1) -> Pair:
    """Two matrices, drawn as in the document."""
    rng = np.random.default_rng(seed)
    return Pair(*(drawn_as_in_the_document(shape, density, rng) for _ in "AB"))


def drawn_as_in_the_document(
    shape: tuple[int, int], density: float, rng: np.random.Generator
) -> Sparse:
    """A place that is taken becomes the first free place (section 2.2).

    The entries are in the order in which they are drawn; their values are 1, 2, ...
    """
    taken = np.zeros(shape[0] * shape[1], bool)
    places = rng.integers(taken.size, size=round(density * taken.size))
    for i, place in enumerate(places):
        places[i] = np.argmin(taken) if taken[place] else place
        taken[places[i]] = True
    positions = np.divmod(places.astype(np.int32), np.int32(shape[1]))
    values = np.arange(1, len(places) + 1, dtype=np.float32)
    return scipy.sparse.coo_array((values, positions), shape=shape)


def pair_of_232() -> Pair:
    """128 x 128 at 10 %, with 232 places in both."""
    return random_pair((128, 128), 0.1, SEED_OF_232)


def mean_matches(places: int, entries: int) -> float:
    """The mean number of places in both matrices of a pair, drawn as in the document.

    Collisions take the first free places, so these are likely in both: 231 of 128 x 128
    places at 10 %. Uniform matrices would have 164.
    """
    before = np.arange(places)  # the free places before a place
    stays_free = np.ones(places)
    for taken in reversed(range(entries)):
        moves = (taken + before) / places  # a draw takes a place before, if any
        later = stays_free
        stays_free = later * (1 - moves - 1 / places)
        stays_free[1:] += later[:-1] * moves[1:]
    return float(((1 - stays_free) ** 2).sum())


# ---- counts --------------------------------------------------------------------------


def emulated() -> AbstractContextManager[Any]:
    """Run the kernels on the emulator for matrices of SciPy."""
    return mock.patch.dict(os.environ, GPUSOLVE_EMULATE="1")


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
    return [
        kernel for kernel in report.kernels if not kernel.name.startswith("make_keys")
    ]


def instructions(kernels: Sequence[Costs]) -> Counter[str]:
    return sum((kernel.instructions for kernel in kernels), Counter[str]())


def multiplications(kernels: Sequence[Costs]) -> int:
    return sum(kernel.arithmetic["float32 multiply"] for kernel in kernels)


def accesses(kernels: Sequence[Costs]) -> int:
    """Numbers that threads read from global memory or write to it."""
    return sum(kernel.global_loads + kernel.global_stores for kernel in kernels)


def active_lanes(kernels: Sequence[Costs]) -> float:
    lanes = sum(kernel.active_lanes * kernel.global_requests for kernel in kernels)
    return float(lanes / sum(kernel.global_requests for kernel in kernels))


def keys_read(kernels: Sequence[Costs]) -> int:
    """Keys of B that all threads read."""
    searches = [kernel for kernel in kernels if "b_rows" in kernel.arrays]
    return sum(kernel.arrays["b_rows"].lanes for kernel in searches)


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


def saved_table(operands: Pair, tiles: Sequence[int]) -> Iterator[str]:
    """Figure 12: what version 2 saves, with more and more tiles."""
    yield from table_head(
        *("tiles", "version 1", "version 2", "saved"),
        *("keys read by version 1", "by version 2", "saved"),
        words=0,
    )
    for blocks in tiles:
        found = [
            kernels_of(operands, method, blocks) for method in ("linear", "binary")
        ]
        executed = [instructions(kernels).total() for kernels in found]
        read = [keys_read(kernels) for kernels in found]
        cells = [
            cell
            for first, second in (executed, read)
            for cell in (f"{first:,}", f"{second:,}", f"{1 - second / first:.1%}")
        ]
        yield row(blocks, *cells)


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
    check(method, operands, measured.result)
    return measured.median


# ---- the report ----------------------------------------------------------------------

ABOUT = """\
float32 and 32-bit indices; entries as the document draws them, in this order. "linear"
is version 1, "scratchpad" the first attempt (chapter 3), "binary" version 2, which
sorts B alone, "even" what section 5.3 proposes, "merge" our own method, which sorts
both. The emulator on a CPU has counted: accesses to memory, multiplications, barriers
and active lanes exactly as on a GPU; other instructions as in the CPU's machine code.
The counts omit the checks and the sorting before and after the kernels; in the
document, the host checks and sorts."""

DIFFERENCES = """\
- Figure 12: the document has 16 x 8 = 128 tiles, and 96 % fewer instructions at
  40 x 40. We have 96.6 % with 5 blocks, the least that give each entry a thread, but
  64.4 % with 128 tiles. A tile of the document is one core; here it is a block of 256
  threads, all of which take part in scans and barriers, also if the tile has 9 entries
  to search. This fixed work is 610 instructions for each thread, so 20 million for 128
  tiles, in both versions; the prefix over the tiles is 128 x 127 / 2 loads of it. (With
  32 threads for each tile, version 2 saves 91.8 %. With one thread the fixed work would
  be 128 x 610 instructions, and version 2 would save 98 %.) The search itself reads
  99.1 % fewer keys with any number of tiles.
- If the search of version 1 ended at a match, and not "from start to finish" as section
  4.3 says, it would read 39 % fewer keys. The text that we have does not say the other
  values of figures 9 and 12.
- Figure 9: the document suspects "an uneven work distribution" behind the stalls of
  version 1. From start to finish, each tile reads the same keys for each entry: with
  128 tiles, the largest has 10 entries, and the mean is 9.4.
- Section 4.3: nine accesses for a multiplication are the accesses of the second search.
  The first search reads four more numbers, so the best case of version 1 is 13, and
  0.08.
- Figures 9, 12, 18 to 20: stall cycles, total cycles and instructions per cycle need a
  clock, so they are not counted. The largest block over the mean, the active lanes and
  the predicted times are the nearest.
- Figures 14, 17: the instructions of all tiles grow with the tiles, 12-fold from 4 to
  128, by the fixed work of each. They never fall. The loads are the loads of the
  search, the same for any number of tiles, and the counts of the tiles before.
- Figures 15, 16: each tile executes instructions, also without a print statement.
- Figure 21: 232 multiplications for every number of tiles. The document's 120 for
  16 x 8 tiles, 48 % less, is the fault that its chapter 6 describes.
- 232: uniform matrices have 1638^2 / 128^2 = 164 places in common, on average. Section
  2.2 moves each collision to the first free place; then the mean is 230.6, which
  `mean_matches` computes, with a standard deviation of 12.5.
- The largest tile of version 2 has 3.3 times the mean multiplications at 128 x 128 with
  128 tiles, 3.2 on average of 300 pairs, for A in the order of drawing. Were A sorted,
  it would be 7.2, because the collisions are all at the top.
- Barriers: the document's tiles wait twice, after they count and at the end. Versions 1
  and 2 have two launches instead; their barriers belong to scans within a block.
- Keys have 64 bits: the document's keys overflow from 46341 x 46341 on. Its host
  sorts B by insertion, ours by a library.
- The blocks of "scratchpad" must be resident, so the emulator chooses their number;
  it also chooses the number of blocks of "merge"."""

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
    yield f"\n## Figure 12: {sides[-1]} x {sides[-1]}, by tiles\n"
    yield from saved_table(last, (5, 16, 32, 64, 128))
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
