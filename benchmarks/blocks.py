"""Time reduce, scan, segments and partition beside what else does the same.

    python benchmarks/blocks.py --output FILE   # on a GPU, else on the emulator
    python benchmarks/blocks.py --emulate       # the kernels on the CPU, at toy size
    python benchmarks/blocks.py --cpu           # the NumPy path

Each operation is held against its floor, the bytes that must be read and written, and
against a plain copy of as many numbers in the same run. Results are Markdown.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import math
import os
import platform
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from timing import (
    Call,
    GpuStopwatch,
    Stopwatch,
    Timing,
    by_the_clock,
    commit,
    cupy_with_a_device,
    driver,
    processor,
    publish,
    timing,
)

import gpusolve

Array = Any
Ints = NDArray[np.int64]

SIZES = {
    "cuda": [10**k for k in range(3, 10)],
    "cpu": [10**k for k in range(3, 8)],
    "emulator": [10**k for k in range(2, 5)],
}

BYTES_PER_NUMBER = 64
"""Of memory, more than the hungriest operation and its rivals need."""


class Rival(NamedTuple):
    """Another call that does the same as ours or, as its name says, less."""

    name: str
    call: Call
    same: bool = True


class Work(NamedTuple):
    """An operation, the bytes that it cannot but move, and its rivals."""

    name: str
    floor: int
    ours: Call
    library: Rival | None = None
    compute: Call | None = None


class Machine(NamedTuple):
    """Where the calls run, how they are timed, and the module ``cuda.compute``."""

    name: str
    xp: Any
    stopwatch: Stopwatch
    repeats: int
    compute: Any = None

    @property
    def library(self) -> str:
        return "CuPy" if self.name == "cuda" else "NumPy"

    def timing(self, call: Call) -> Timing:
        return timing(self.stopwatch, call, self.repeats)


# ---- what is timed -------------------------------------------------------------------


def numbers(xp: Any, n: int) -> Array:
    """Small whole numbers as float32: all their sums are exact, in any grouping."""
    return xp.asarray(np.random.default_rng(0).integers(-3, 4, n, np.int8)).astype("f4")


SEGMENTS: dict[str, tuple[float, Callable[[np.random.Generator, int], Ints]]] = {
    "short": (8, lambda rng, count: rng.integers(1, 16, count)),
    "long": (1e5, lambda rng, count: rng.integers(50_000, 150_001, count)),
    "mixed": (1.1e4, lambda rng, count: (2 ** rng.uniform(0, 17, count)).astype(int)),
}
"""Segments of each kind: their mean length, and how so many lengths are drawn."""


def segment_lengths(kind: str, n: int) -> Ints:
    """Lengths with the sum n; the last segment is what is left."""
    mean, draw = SEGMENTS[kind]
    ends = np.cumsum(draw(np.random.default_rng(0), int(1.5 * n / mean) + 10))
    return np.diff(ends[ends < n], prepend=0, append=n)


def largest_rise(x: Array) -> Array:
    """The maximum segment sum: how far prefix sums rise above an earlier one."""
    sums = np.concatenate([np.zeros(1, x.dtype), np.cumsum(x)])
    return (sums - np.minimum.accumulate(sums)).max()


def differences_of_sums(xp: Any, x: Array, offsets: Array) -> Array:
    """The sums of segments, by what the prefix sums grow over each."""
    sums = xp.concatenate([xp.zeros(1, x.dtype), xp.cumsum(x)])
    return xp.diff(sums[offsets])


def works(xp: Any, n: int, compute: Any = None) -> Iterator[Work]:
    """All operations on n numbers, one after the other."""
    x = numbers(xp, n)
    zero = np.zeros(1, x.dtype)
    yield Work(
        "reduce",
        x.nbytes,
        partial(gpusolve.reduce, x),
        Rival("sum", partial(xp.sum, x)),
        by_compute(compute, "reduce_into", x, 1, num_items=n, h_init=zero),
    )
    yield Work(
        "maximum_segment_sum",
        x.nbytes,
        partial(gpusolve.maximum_segment_sum, x),
        Rival("cumsum, minimum.accumulate", partial(largest_rise, x))
        if xp is np
        else Rival("sum, no maxima", partial(xp.sum, x), same=False),
    )
    yield Work(
        "scan",
        2 * x.nbytes,
        partial(gpusolve.scan, x),
        Rival("cumsum", partial(xp.cumsum, x)),
        by_compute(compute, "inclusive_scan", x, n, num_items=n, init_value=zero),
    )
    yield Work(
        "scan, max",
        2 * x.nbytes,
        partial(gpusolve.scan, x, "max"),
        Rival("maximum.accumulate", partial(np.maximum.accumulate, x))
        if xp is np
        else None,
    )
    mask = x > 0
    yield Work(
        "stable_partition",
        2 * x.nbytes + mask.nbytes,
        lambda: gpusolve.stable_partition(x, mask)[1],
        Rival("concatenate", lambda: xp.concatenate([x[mask], x[~mask]])),
    )
    for kind in SEGMENTS:
        yield from segmented_works(xp, x, kind, compute)


def segmented_works(xp: Any, x: Array, kind: str, compute: Any) -> Iterator[Work]:
    """The segmented operations, on segments of this kind."""
    lengths = xp.asarray(segment_lengths(kind, len(x)))
    offsets = xp.concatenate([xp.zeros(1, int), xp.cumsum(lengths)])
    flags = gpusolve.segment_flags(lengths, total=len(x))
    yield Work(
        f"segmented_scan, {kind}",
        2 * x.nbytes + flags.nbytes,
        partial(gpusolve.segmented_scan, x, flags),
        Rival("cumsum, no segments", partial(xp.cumsum, x), same=False),
    )
    yield Work(
        f"segmented_reduce, {kind}",
        x.nbytes + offsets.nbytes + x.itemsize * len(lengths),
        partial(gpusolve.segmented_reduce, x, offsets=offsets),
        Rival("add.reduceat", partial(np.add.reduceat, x, offsets[:-1]))
        if xp is np
        else Rival("cumsum, diff", partial(differences_of_sums, xp, x, offsets)),
        by_compute(
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


# ---- cuda.compute --------------------------------------------------------------------


def cuda_compute() -> Any:
    """The module, of the package cuda-cccl; None where it is not, or has no driver."""
    try:
        module = importlib.import_module("cuda.compute")
    except ImportError:
        return None
    return module if hasattr(module, "reduce_into") else None


def by_compute(
    compute: Any, algorithm: str, x: Array, results: int, **arguments: Any
) -> Call | None:
    """A sum by an algorithm of cuda.compute, from `x` into so many results."""
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


def three_digits(value: float) -> str:
    """A number that is not negative, to three significant digits, with no exponent."""
    rounded = float(f"{value:.2e}")
    places = 2 - math.floor(math.log10(rounded)) if rounded else 0
    return f"{rounded:,.{max(0, places)}f}"


def microseconds(seconds: float) -> str:
    return three_digits(1e6 * seconds)


def gigabytes(rate: float) -> str:
    return three_digits(rate / 1e9)


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def head(*names: str, words: int = 1) -> Iterator[str]:
    """The first lines of a table; all columns but the first `words` have numbers."""
    yield row(*names)
    yield row(*(["---"] * words + ["---:"] * (len(names) - words)))


def power(n: int) -> str:
    """A number, as 10^k where it is that."""
    exponent = round(math.log10(n))
    return f"10^{exponent}" if n == 10**exponent else f"{n:,}"


def check(xp: Any, work: Work) -> None:
    """RuntimeError if a rival that does the same comes to something else."""
    rival = work.library
    if rival and rival.same and not xp.array_equal(work.ours(), rival.call()):
        raise RuntimeError(f"{work.name} does not agree with {rival.name}")


def main_table(
    machine: Machine, sizes: Sequence[int], first_calls: dict[str, float]
) -> Iterator[str]:
    """Every operation at every size; its first call goes into the dictionary."""
    library = machine.library
    columns = ["gpusolve µs", "GB/s", "of a copy", f"{library} µs"]
    if machine.name == "cuda":
        columns.append("cuda.compute µs")
    yield from head("", f"beside, in {library}", "n", *columns, words=2)
    for n in sizes:
        copied = copy_rate(machine, n)
        yield row(
            "*copy*", "", power(n), "", gigabytes(copied), *[""] * len(columns[2:])
        )
        for work in works(machine.xp, n, machine.compute):
            ours = machine.timing(work.ours)
            first_calls.setdefault(work.name, ours.first)
            check(machine.xp, work)
            rate = work.floor / ours.median
            yield row(
                work.name,
                work.library.name if work.library else "",
                power(n),
                microseconds(ours.median),
                gigabytes(rate),
                f"{rate / copied:.0%}",
                *rivals(machine, work),
            )


def rivals(machine: Machine, work: Work) -> Iterator[str]:
    """The cells of the library and, on a GPU, of cuda.compute."""
    yield cell(machine, work.library.call if work.library else None)
    if machine.name == "cuda":
        yield compute_cell(machine, work.compute)


def compute_cell(machine: Machine, call: Call | None) -> str:
    """A beta's cell: whatever goes wrong in it must not cost us the table."""
    if machine.compute is None:
        return "not installed"
    try:
        return cell(machine, call)
    except Exception as error:
        return f"fails: {type(error).__name__}"


def cell(machine: Machine, call: Call | None) -> str:
    """The microseconds of a call, if there is one."""
    return "" if call is None else microseconds(machine.timing(call).median)


def copy_rate(machine: Machine, n: int) -> float:
    """Bytes in a second, read and written, of a plain copy of n numbers."""
    source = numbers(machine.xp, n)
    copy = partial(machine.xp.copyto, machine.xp.empty_like(source), source)
    return 2 * int(source.nbytes) / machine.timing(copy).median


def first_call_table(first_calls: dict[str, float]) -> Iterator[str]:
    yield from head("", "first call ms")
    for name, seconds in first_calls.items():
        yield row(name, three_digits(1e3 * seconds))


SLIDES_SIZES = (10**3, 10**6)
SLIDES = {
    "tree": (77, 363),
    "group": (17, 179),
    "chunked": (70, 103),
    "atomic": (8, 1278),
}
"""Microseconds that the document prints for the sum of int32."""


def slides_table(machine: Machine, sizes: Sequence[int]) -> Iterator[str]:
    """The document's table of four reductions, anew."""
    sums = [f"sum, {power(n)}" for n in sizes]
    theirs = [f"theirs, {power(n)}" for n in SLIDES_SIZES]
    segment_sums = [f"segment sum, {power(n)}" for n in sizes]
    yield from head("", *sums, *theirs, *segment_sums)
    rng = np.random.default_rng(0)
    arrays = [machine.xp.asarray(rng.integers(-9, 10, n, np.int32)) for n in sizes]
    for variant, published in SLIDES.items():
        ordered = gpusolve.maximum_segment_sum if variant != "atomic" else None
        yield row(
            variant,
            *cells(machine, gpusolve.reduce, arrays, variant),
            *published,
            *cells(machine, ordered, arrays, variant),
        )


def cells(
    machine: Machine,
    reduction: Callable[..., Any] | None,
    arrays: Sequence[Array],
    variant: str,
) -> Iterator[str]:
    """One form of a reduction, of each array."""
    for x in arrays:
        call = partial(reduction, x, variant=variant) if reduction else None
        yield cell(machine, call)


# ---- the report ----------------------------------------------------------------------

PLACES = {"cuda": "a GPU", "cpu": "a CPU", "emulator": "the emulator"}

WARNINGS = {
    "cpu": "NumPy's path, on one core. **Not measured on a GPU yet.**",
    "emulator": "**Emulator: no figure here says anything about a GPU.**",
}

ABOUT_THE_TABLE = """\
float32. GB/s is the floor, the bytes that must be read and written, over the time; and
beside it what part that is of a plain copy of n numbers in the same run."""

ABOUT_FIRST_CALLS = """\
The first call of each, at the smallest n. It compiles what no earlier one did."""

ABOUT_THE_SLIDES = """\
The four reductions of C. Oancea and T. Henriksen, *Basic Blocks of Data-Parallel
Programming* (2019), in microseconds: the sum of int32, beside what they print for a GPU
that they do not name; and the maximum segment sum, for which there are no atomics."""


def facts(machine: Machine) -> Iterator[str]:
    """What a reader must know of the machine."""
    yield f"- {processor()}; Python {platform.python_version()}, NumPy {np.__version__}"
    if machine.name == "cuda":
        cupy = machine.xp
        index = cupy.cuda.Device().id
        name = cupy.cuda.runtime.getDeviceProperties(index)["name"].decode()
        yield f"- {name}, driver {driver()}, CuPy {cupy.__version__}"
    yield f"- gpusolve {gpusolve.__version__}, commit {commit()}"
    yield f"- {datetime.date.today().isoformat()}"


def how_timed(machine: Machine) -> str:
    cold = ", each with a cold L2 cache" if machine.name == "cuda" else ""
    return f"The median of {machine.repeats} calls{cold}."


def report(machine: Machine, sizes: Sequence[int]) -> Iterator[str]:
    """The file, line by line as it is measured."""
    first_calls: dict[str, float] = {}
    yield f"# Reduce, scan, segments and partition on {PLACES[machine.name]}\n"
    if machine.name in WARNINGS:
        yield f"{WARNINGS[machine.name]}\n"
    yield from facts(machine)
    yield f"\n{ABOUT_THE_TABLE}\n{how_timed(machine)}\n"
    yield from main_table(machine, sizes, first_calls)
    if machine.name == "cpu":
        return
    yield f"\n{ABOUT_FIRST_CALLS}\n"
    yield from first_call_table(first_calls)
    yield f"\n{ABOUT_THE_SLIDES}\n"
    yield from slides_table(machine, sorted({min(n, max(sizes)) for n in SLIDES_SIZES}))


def choose(emulate: bool, cpu: bool, repeats: int) -> Machine:
    """The GPU where there is one, unless something else is asked."""
    cupy = None if emulate or cpu else cupy_with_a_device()
    if cupy:
        return Machine("cuda", cupy, GpuStopwatch(cupy), repeats, cuda_compute())
    os.environ["GPUSOLVE_EMULATE"] = "0" if cpu else "1"
    return Machine("cpu" if cpu else "emulator", np, by_the_clock, repeats)


def fitting(machine: Machine, sizes: Sequence[int]) -> list[int]:
    """The sizes that fit into the GPU's memory."""
    if machine.name != "cuda":
        return list(sizes)
    free, _ = machine.xp.cuda.runtime.memGetInfo()
    return [n for n in sizes if n * BYTES_PER_NUMBER <= free]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=lambda text: int(float(text)), nargs="+")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--output", type=Path, help="write the Markdown here, too")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--emulate", action="store_true", help="even if there is a GPU")
    where.add_argument("--cpu", action="store_true", help="the NumPy path")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["CUPY_CACHE_DIR"] = cache  # so that a first call compiles
        machine = choose(options.emulate, options.cpu, options.repeats)
        sizes = fitting(machine, sorted(options.sizes or SIZES[machine.name]))
        publish(report(machine, sizes), options.output)


if __name__ == "__main__":
    main()
