"""Time reduce, scan, segments and partition, and the libraries that do the same.

    python benchmarks/blocks.py --output FILE   # on a GPU if there is one
    python benchmarks/blocks.py --emulate       # the kernels on the CPU, at toy size
    python benchmarks/blocks.py --cpu           # the NumPy path

The bytes that each operation must read and write, over its time, are compared with the
rate of a plain copy in the same run. Results are Markdown.
"""

from __future__ import annotations

import argparse
import importlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from harness import (
    Array,
    Call,
    Machine,
    choose,
    head,
    microseconds,
    power,
    publish,
    rate_cells,
    row,
    table_head,
    three_digits,
    timing_parser,
)
from numpy.typing import NDArray

import gpusolve
from gpusolve._blocks.reduce import ORDERED_VARIANTS

Ints = NDArray[np.int64]

SIZES = {
    "cuda": [10**k for k in range(3, 10)],
    "cpu": [10**k for k in range(3, 8)],
    "emulator": [10**k for k in range(2, 5)],
}

BYTES_PER_NUMBER = 64
"""GPU memory allowed for, per number: more than any operation or library needs."""


class Peer(NamedTuple):
    """A library's call; unless it is the `same`, it computes less, as its name says."""

    name: str
    call: Call
    same: bool = True


class Operation(NamedTuple):
    """An operation, the bytes that it must move, and the calls to compare it with."""

    name: str
    bytes_moved: int
    ours: Call
    library: Peer | None = None
    compute: Call | None = None


# ---- what is timed -------------------------------------------------------------------


def numbers(xp: Any, n: int) -> Array:
    """Small whole numbers as float32: their sums are exact in every grouping."""
    return xp.asarray(np.random.default_rng(0).integers(-3, 4, n, np.int8)).astype("f4")


SEGMENTS: dict[str, tuple[float, Callable[[np.random.Generator, int], Ints]]] = {
    "short": (8, lambda rng, count: rng.integers(1, 16, count)),
    "long": (1e5, lambda rng, count: rng.integers(50_000, 150_001, count)),
    "mixed": (1.1e4, lambda rng, count: (2 ** rng.uniform(0, 17, count)).astype(int)),
}
"""For each kind of segments: the mean length, and a function that draws lengths."""


def segment_lengths(kind: str, n: int) -> Ints:
    """Random lengths with the sum n; the last segment is cut short."""
    mean, draw = SEGMENTS[kind]
    ends = np.cumsum(draw(np.random.default_rng(0), int(1.5 * n / mean) + 10))
    return np.diff(ends[ends < n], prepend=0, append=n)


def maximum_rise(x: Array) -> Array:
    """The maximum segment sum: the largest rise of the prefix sums."""
    sums = np.concatenate([np.zeros(1, x.dtype), np.cumsum(x)])
    return (sums - np.minimum.accumulate(sums)).max()


def differences_of_sums(xp: Any, x: Array, offsets: Array) -> Array:
    """The sums of segments, as differences of prefix sums."""
    sums = xp.concatenate([xp.zeros(1, x.dtype), xp.cumsum(x)])
    return xp.diff(sums[offsets])


def operations(xp: Any, n: int, compute: Any = None) -> Iterator[Operation]:
    """All operations on n numbers; `compute` is the module ``cuda.compute``."""
    x = numbers(xp, n)
    zero = np.zeros(1, x.dtype)
    yield Operation(
        "reduce",
        x.nbytes,
        partial(gpusolve.reduce, x),
        Peer("sum", partial(xp.sum, x)),
        compute_sum(compute, "reduce_into", x, 1, num_items=n, h_init=zero),
    )
    yield Operation(
        "maximum_segment_sum",
        x.nbytes,
        partial(gpusolve.maximum_segment_sum, x),
        Peer("cumsum, minimum.accumulate", partial(maximum_rise, x))
        if xp is np
        else Peer("sum, no maxima", partial(xp.sum, x), same=False),
    )
    yield Operation(
        "scan",
        2 * x.nbytes,
        partial(gpusolve.scan, x),
        Peer("cumsum", partial(xp.cumsum, x)),
        compute_sum(compute, "inclusive_scan", x, n, num_items=n, init_value=zero),
    )
    yield Operation(
        "scan, max",
        2 * x.nbytes,
        partial(gpusolve.scan, x, "max"),
        Peer("maximum.accumulate", partial(np.maximum.accumulate, x))
        if xp is np
        else None,
    )
    mask = x > 0
    yield Operation(
        "stable_partition",
        2 * x.nbytes + mask.nbytes,
        lambda: gpusolve.stable_partition(x, mask)[1],
        Peer("concatenate", lambda: xp.concatenate([x[mask], x[~mask]])),
    )
    for kind in SEGMENTS:
        yield from segmented_operations(xp, x, kind, compute)


def segmented_operations(
    xp: Any, x: Array, kind: str, compute: Any
) -> Iterator[Operation]:
    """The segmented operations, on segments of one kind."""
    lengths = xp.asarray(segment_lengths(kind, len(x)))
    offsets = xp.concatenate([xp.zeros(1, int), xp.cumsum(lengths)])
    flags = gpusolve.segment_flags(lengths, total=len(x))
    yield Operation(
        f"segmented_scan, {kind}",
        2 * x.nbytes + flags.nbytes,
        partial(gpusolve.segmented_scan, x, flags),
        Peer("cumsum, no segments", partial(xp.cumsum, x), same=False),
    )
    yield Operation(
        f"segmented_reduce, {kind}",
        x.nbytes + offsets.nbytes + x.itemsize * len(lengths),
        partial(gpusolve.segmented_reduce, x, offsets=offsets),
        Peer("add.reduceat", partial(np.add.reduceat, x, offsets[:-1]))
        if xp is np
        else Peer("cumsum, diff", partial(differences_of_sums, xp, x, offsets)),
        compute_sum(
            compute,
            "segmented_reduce",
            x,
            len(lengths),
            num_segments=len(lengths),
            start_offsets_in=offsets[:-1],
            end_offsets_in=offsets[1:],
            h_init=np.zeros(1, x.dtype),
        ),
    )


def cuda_compute() -> Any:
    """Return the module of the package cuda-cccl, None if it does not import."""
    try:
        module = importlib.import_module("cuda.compute")
    except ImportError:
        return None
    return module if hasattr(module, "reduce_into") else None


def compute_sum(
    compute: Any, algorithm: str, x: Array, results: int, **arguments: Any
) -> Call | None:
    """A sum of `x` by an algorithm of ``cuda.compute``; `results` is their number."""
    if compute is None:
        return None
    return partial(
        getattr(compute, algorithm),
        d_in=x,
        d_out=x[:results].copy(),
        op=compute.OpKind.PLUS,
        **arguments,
    )


# ---- the tables ----------------------------------------------------------------------


def check(xp: Any, operation: Operation) -> None:
    """Raise RuntimeError if a library that does the same gives another result.

    A library that fails gives no result; its cell of the table says so.
    """
    peer = operation.library
    if peer is None or not peer.same:
        return
    try:
        expected = peer.call()
    except Exception:
        return
    if not xp.array_equal(operation.ours(), expected):
        raise RuntimeError(f"{operation.name} does not agree with {peer.name}")


def main_table(
    machine: Machine, sizes: Sequence[int], compute: Any, first_calls: dict[str, float]
) -> Iterator[str]:
    """Every operation at every size; adds the seconds of first calls to the dict."""
    library = "CuPy" if machine.cupy else "NumPy"
    columns = ["gpusolve µs", "GB/s", "of a copy", f"{library} µs"]
    if compute:
        columns.append("cuda.compute µs")
    yield from table_head("", f"in {library}", "n", *columns, words=2)
    for n in sizes:
        copied = machine.copy_rate(numbers(machine.xp, n))
        rate = three_digits(copied / 1e9)
        yield row("*copy*", "", power(n), "", rate, *[""] * len(columns[2:]))
        for operation in operations(machine.xp, n, compute):
            ours, peer = machine.timing(operation.ours), operation.library
            first_calls.setdefault(operation.name, ours.first)
            if machine.peers:
                check(machine.xp, operation)
            yield row(
                operation.name,
                peer.name if peer else "",
                power(n),
                microseconds(ours.median),
                *rate_cells(operation.bytes_moved, ours.median, copied),
                machine.peer_cell(peer.call if peer else None),
                *([machine.peer_cell(operation.compute)] if compute else []),
            )


def first_call_table(first_calls: dict[str, float]) -> Iterator[str]:
    yield from table_head("", "first call ms")
    for name, seconds in first_calls.items():
        yield row(name, three_digits(1e3 * seconds))


SLIDES_SIZES = (10**3, 10**6)
SLIDES: dict[str, tuple[int, ...]] = {
    "tree": (77, 363),
    "group": (17, 179),
    "chunked": (70, 103),
    "reduce512": (),
    "atomic": (),
    "atomic_each": (8, 1278),
}
"""Microseconds that the slides print for the sum of int32; none for other variants."""


def slides_table(machine: Machine, sizes: Sequence[int]) -> Iterator[str]:
    """The slides' table of four reductions, and two more, measured here."""
    sums = [f"sum, {power(n)}" for n in sizes]
    theirs = [f"theirs, {power(n)}" for n in SLIDES_SIZES]
    ordered = [f"segment sum, {power(n)}" for n in sizes]
    yield from table_head("", *sums, *theirs, *ordered)
    rng = np.random.default_rng(0)
    arrays = [machine.xp.asarray(rng.integers(-9, 10, n, np.int32)) for n in sizes]

    def cells(reduction: Callable[..., Any], variant: str) -> Iterator[str]:
        for x in arrays:
            call = partial(reduction, x, variant=variant)
            yield microseconds(machine.timing(call).median)

    for variant, published in SLIDES.items():
        segment_sums = (
            cells(gpusolve.maximum_segment_sum, variant)
            if variant in ORDERED_VARIANTS
            else [""] * len(arrays)
        )
        theirs_or_none = published or [""] * len(SLIDES_SIZES)
        yield row(
            variant, *cells(gpusolve.reduce, variant), *theirs_or_none, *segment_sums
        )


# ---- the report ----------------------------------------------------------------------

ABOUT_THE_TABLE = """\
float32. GB/s is the bytes that must be read and written, over the time; "of a copy" is
its ratio to the rate of a plain copy of n numbers in the same run.
"""

ABOUT_FIRST_CALLS = """
The first call of each operation, at the smallest n. It compiles the kernels that no
earlier call has compiled.
"""

ABOUT_THE_SLIDES = """
The four reductions of C. Oancea and T. Henriksen, *Basic Blocks of Data-Parallel
Programming* (2019), in microseconds: the sum of int32, and what they print for it on a
GPU that they do not name. They use an atomic for each element, `atomic_each`; `atomic`
has an atomic for each warp. `reduce512` is the reduction of Y. Luo and R. Duraiswami
(2011) in shared memory, where `group` uses shuffles. The maximum segment sum needs the
order of the elements, which the last three do not keep.
"""


def report(machine: Machine, sizes: Sequence[int]) -> Iterator[str]:
    """The report, line by line as it is measured."""
    compute = cuda_compute() if machine.cupy else None
    first_calls: dict[str, float] = {}
    yield from head(
        "Reduce, scan, segments and partition",
        machine,
        *(["cuda-cccl"] if machine.cupy else []),
    )
    yield ABOUT_THE_TABLE
    yield from main_table(machine, sizes, compute, first_calls)
    if machine.name == "cpu":
        return
    yield ABOUT_FIRST_CALLS
    yield from first_call_table(first_calls)
    yield ABOUT_THE_SLIDES
    yield from slides_table(machine, sorted({min(n, max(sizes)) for n in SLIDES_SIZES}))


def arguments() -> argparse.Namespace:
    return timing_parser(__doc__, "numbers in an array").parse_args()


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["CUPY_CACHE_DIR"] = cache  # so that first calls compile
        machine = choose(options.emulate, options.cpu, options.repeats, options.peers)
        most = machine.free_bytes / BYTES_PER_NUMBER
        wanted = sorted(options.sizes or SIZES[machine.name])
        publish(report(machine, [n for n in wanted if n <= most]), options.output)


if __name__ == "__main__":
    main()
