"""Time matrix times vector beside NumPy, CuPy's ``@`` and cuBLAS.

    python benchmarks/gemv.py --output FILE   # on a GPU, else on the emulator
    python benchmarks/gemv.py --emulate       # the kernels on the CPU, at toy size
    python benchmarks/gemv.py --cpu           # the NumPy path

Figure 4 of Sieminski & Lee, "Gradient-Boosted Generalised Additive Models with GPU
Acceleration" (2023), done anew; then short results of long reductions, and large
matrices. Each product is held against its floor, to read A and x and to write y once,
and against a plain copy of A in the same run. Results are Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from blocks import (
    PLACES,
    Machine,
    choose,
    facts,
    gigabytes,
    head,
    how_timed,
    microseconds,
    row,
)
from threadpoolctl import threadpool_info
from timing import Call, by_the_clock, publish, timing

import gpusolve
from gpusolve._gemv.gemv import VARIANTS

Array = Any


class Shape(NamedTuple):
    """A matrix in C order, and whether it is transposed for the product."""

    m: int
    n: int
    transpose: bool

    @property
    def elements(self) -> int:
        return self.m * self.n + self.m + self.n

    def __str__(self) -> str:
        size = f"{self.m:,} x {self.n:,}"
        return f"({size})^T" if self.transpose else size


class Product(NamedTuple):
    """A product of small whole numbers, whose sums are exact in float32."""

    shape: Shape
    A: Array
    x: Array

    @property
    def turned(self) -> Array:
        """The matrix as libraries take it."""
        return self.A.T if self.shape.transpose else self.A


Sizes = dict[str, list[tuple[int, int]]]

FIGURE = list(product((10**3, 10**4, 10**5), (16, 32, 64)))
SHORT = list(product((10**5, 10**6, 10**7), (1, 16, 63)))
LARGE = [(10**4, 10**4), (3 * 10**4, 3 * 10**4), (10**3, 10**5), (10**6, 256)]

SIZES: dict[str, Sizes] = {
    "cuda": {"figure": FIGURE, "short": SHORT, "large": LARGE},
    "cpu": {
        "figure": FIGURE,
        "short": [(m, n) for m, n in SHORT if m < 10**7],
        "large": [(10**4, 10**4), (10**3, 10**5), (10**6, 64)],
    },
    "emulator": {
        "figure": [(100, 16), (100, 64)],
        "short": [(3000, 1), (3000, 16)],
        "large": [(100, 100)],
    },
}


def figure_shapes(sizes: Sequence[tuple[int, int]]) -> Iterator[Shape]:
    """Bases of a smooth effect: times coefficients, and transposed times residuals."""
    for m, n in sizes:
        yield Shape(m, n, transpose=False)
        yield Shape(m, n, transpose=True)


def short_shapes(sizes: Sequence[tuple[int, int]]) -> Iterator[Shape]:
    """The longer axis is added up, side by side in memory or not."""
    for long, short in sizes:
        yield Shape(short, long, transpose=False)
        yield Shape(long, short, transpose=True)


def make(xp: Any, shape: Shape) -> Product:
    rng = np.random.default_rng(0)
    count = shape.m if shape.transpose else shape.n
    few = xp.asarray(rng.integers(-1, 2, 8191).astype(np.float32))
    A = xp.resize(few, (shape.m, shape.n))
    return Product(shape, A, xp.asarray(rng.integers(-1, 2, count).astype(np.float32)))


# ---- what is timed -------------------------------------------------------------------


def by_gpusolve(problem: Product, variant: str = "auto") -> Call:
    return partial(
        gpusolve.gemv,
        problem.A,
        problem.x,
        transpose=problem.shape.transpose,
        variant=variant,
    )


def by_cublas(cupy: Any, problem: Product) -> Call:
    """cuBLAS's gemv, which reads C order as Fortran order transposed."""
    from cupy.cublas import gemv

    y = cupy.empty(problem.turned.shape[0], problem.A.dtype)
    kind = "T" if problem.shape.transpose else "N"
    return partial(gemv, kind, 1.0, problem.A, problem.x, 0.0, y)


def by_numpy(machine: Machine, problem: Product) -> Call:
    """numpy.dot, of copies on the host if there is a GPU."""
    there = machine.xp.asnumpy if machine.name == "cuda" else np.asarray
    return partial(np.dot, there(problem.turned), there(problem.x))


def seconds_on_the_host(machine: Machine, call: Call) -> float:
    return timing(by_the_clock, call, machine.repeats).median


def copy_rate(machine: Machine, problem: Product) -> float:
    """Bytes in a second, read and written, of a plain copy of A."""
    copy = partial(machine.xp.copyto, machine.xp.empty_like(problem.A), problem.A)
    return 2 * int(problem.A.nbytes) / machine.timing(copy).median


def check(machine: Machine, problem: Product, variants: Sequence[str]) -> None:
    """RuntimeError if a variant comes to something else than the library."""
    expected = problem.turned @ problem.x
    for variant in variants:
        if not machine.xp.array_equal(by_gpusolve(problem, variant)(), expected):
            raise RuntimeError(f"{variant} is wrong for {problem.shape}")


# ---- the tables ----------------------------------------------------------------------


def columns_of(machine: Machine, variants: Sequence[str]) -> list[str]:
    ours = ["gpusolve µs", *(f"{variant} µs" for variant in variants)]
    cuda = ["CuPy @ µs", "cuBLAS gemv µs"] if machine.name == "cuda" else []
    return [*ours, "numpy.dot µs", *cuda, "GB/s", "of a copy"]


def cells(machine: Machine, shape: Shape, variants: Sequence[str]) -> Iterator[str]:
    """The row of one shape."""
    problem = make(machine.xp, shape)
    check(machine, problem, ("auto", *variants))
    ours = machine.timing(by_gpusolve(problem)).median
    yield microseconds(ours)
    for variant in variants:
        yield microseconds(machine.timing(by_gpusolve(problem, variant)).median)
    yield microseconds(seconds_on_the_host(machine, by_numpy(machine, problem)))
    if machine.name == "cuda":
        gemm = partial(machine.xp.matmul, problem.turned, problem.x)
        yield microseconds(machine.timing(gemm).median)
        yield microseconds(machine.timing(by_cublas(machine.xp, problem)).median)
    rate = shape.elements * problem.A.itemsize / ours
    yield gigabytes(rate)
    yield f"{rate / copy_rate(machine, problem):.0%}"


def table(
    machine: Machine, shapes: Iterator[Shape], variants: Sequence[str]
) -> Iterator[str]:
    yield from head("", *columns_of(machine, variants))
    for shape in shapes:
        if fits(machine, shape):
            yield row(shape, *cells(machine, shape, variants))


def fits(machine: Machine, shape: Shape) -> bool:
    """Whether A, its copy, and what making it takes fit into a GPU's memory."""
    if machine.name != "cuda":
        return True
    free, _ = machine.xp.cuda.runtime.memGetInfo()
    return 4 * 4 * shape.elements <= free


# ---- the report ----------------------------------------------------------------------

WARNINGS = {
    "cpu": "The NumPy path. **Not measured on a GPU yet.**",
    "emulator": "**Emulator: no figure here says anything about a GPU.**",
}

ABOUT = """\
float32, matrices in C order; ^T is the product with the transpose. Of ours, a column
without a variant is "auto". GB/s is the floor, to read A and x and to write y once,
over its time; and beside it what part that is of a plain copy of A in the same run."""

SECTIONS: dict[str, tuple[str, Callable[[Any], Iterator[Shape]], tuple[str, ...]]] = {
    "figure": ("The paper's figure 4", figure_shapes, VARIANTS),
    "short": ("Short results of long reductions", short_shapes, ()),
    "large": ("Large matrices", figure_shapes, ()),
}
"""Of each table: its title, its shapes, and the variants beside "auto"."""


def blas_threads() -> int:
    """The most threads that a product on the host may have."""
    pools = [one for one in threadpool_info() if one["user_api"] == "blas"]
    return max((one["num_threads"] for one in pools), default=1)


def report(machine: Machine) -> Iterator[str]:
    """The file, line by line as it is measured."""
    yield f"# Matrix times vector on {PLACES[machine.name]}\n"
    if machine.name in WARNINGS:
        yield f"{WARNINGS[machine.name]}\n"
    yield from facts(machine)
    yield f"- NumPy's BLAS with threads: {blas_threads()}"
    yield f"\n{ABOUT}\n{how_timed(machine)}"
    for name, (title, shapes, variants) in SECTIONS.items():
        several = () if machine.name == "cpu" else variants
        yield f"\n## {title}\n"
        yield from table(machine, shapes(SIZES[machine.name][name]), several)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--output", type=Path, help="write the Markdown here, too")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--emulate", action="store_true", help="even if there is a GPU")
    where.add_argument("--cpu", action="store_true", help="the NumPy path")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    machine = choose(options.emulate, options.cpu, options.repeats)
    publish(report(machine), options.output)


if __name__ == "__main__":
    main()
