"""Time matrix times vector, and NumPy, CuPy's ``@`` and cuBLAS.

    python benchmarks/gemv.py --output FILE   # on a GPU if there is one
    python benchmarks/gemv.py --emulate       # the kernels on the CPU, at toy size
    python benchmarks/gemv.py --cpu           # the NumPy path

Figure 4 of Sieminski & Lee, "Gradient-Boosted Generalised Additive Models with GPU
Acceleration" (2023), measured again; then short results of long reductions, and large
matrices. The bytes of A, x and y, over the time of a product, are compared with the
rate of a plain copy of A in the same run. Results are Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple, get_args

import numpy as np
from harness import (
    Array,
    Call,
    Machine,
    choose,
    head,
    microseconds,
    publish,
    rate_cells,
    row,
    size,
    table_head,
    timing_parser,
    to_host,
)
from threadpoolctl import threadpool_info

import gpusolve
from gpusolve._gemv.gemv import PaperVariant


class Shape(NamedTuple):
    """A matrix in C order, and whether it is transposed for the product."""

    m: int
    n: int
    transpose: bool

    @property
    def elements(self) -> int:
        """Elements of A, x and y."""
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
    def operand(self) -> Array:
        """A or its transpose, the matrix that libraries multiply by x."""
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
    """The longer axis is summed; it is contiguous in memory in the first shape only."""
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


def gpusolve_call(problem: Product, variant: str = "auto") -> Call:
    return partial(
        gpusolve.gemv,
        problem.A,
        problem.x,
        transpose=problem.shape.transpose,
        variant=variant,
    )


def numpy_call(problem: Product) -> Call:
    return partial(np.dot, to_host(problem.operand), to_host(problem.x))


def cublas_call(cupy: Any, problem: Product) -> Call:
    """cuBLAS's gemv, which reads C order as Fortran order transposed."""
    from cupy.cublas import gemv

    y = cupy.empty(problem.operand.shape[0], problem.A.dtype)
    kind = "T" if problem.shape.transpose else "N"
    return partial(gemv, kind, 1.0, problem.A, problem.x, 0.0, y)


def check(machine: Machine, problem: Product, variants: Sequence[str]) -> None:
    """Raise RuntimeError if a variant and the library give different results."""
    expected = problem.operand @ problem.x
    for variant in variants:
        if not machine.xp.array_equal(gpusolve_call(problem, variant)(), expected):
            raise RuntimeError(f"{variant} is wrong for {problem.shape}")


# ---- the tables ----------------------------------------------------------------------


def cells(machine: Machine, shape: Shape, variants: Sequence[str]) -> Iterator[str]:
    """The row of one shape."""
    problem = make(machine.xp, shape)
    check(machine, problem, ("auto", *variants))
    ours, *others = (
        machine.timing(gpusolve_call(problem, variant)).median
        for variant in ("auto", *variants)
    )
    yield from map(microseconds, (ours, *others))
    yield machine.peer_cell(numpy_call(problem), on_host=True)
    if machine.cupy:
        matmul = partial(machine.xp.matmul, problem.operand, problem.x)
        yield machine.peer_cell(matmul)
        yield machine.peer_cell(cublas_call(machine.xp, problem))
    bytes_moved = shape.elements * problem.A.itemsize
    yield from rate_cells(bytes_moved, ours, machine.copy_rate(problem.A))


def table(
    machine: Machine, shapes: Iterator[Shape], variants: Sequence[str]
) -> Iterator[str]:
    yield from table_head(
        *("", "gpusolve µs", *(f"{variant} µs" for variant in variants)),
        "numpy.dot µs",
        *(["CuPy @ µs", "cuBLAS gemv µs"] if machine.cupy else []),
        *("GB/s", "of a copy"),
    )
    for shape in shapes:
        # A, its copy, and what it takes to make A
        if 4 * 4 * shape.elements <= machine.free_bytes:
            yield row(shape, *cells(machine, shape, variants))


# ---- the report ----------------------------------------------------------------------

ABOUT = """\
float32, matrices in C order; ^T is the product with the transpose. The column without a
variant is "auto". GB/s is the bytes of A, x and y, over the time of "auto"; "of a copy"
is its ratio to the rate of a plain copy of A in the same run."""

SECTIONS: dict[str, tuple[str, Callable[[Any], Iterator[Shape]], tuple[str, ...]]] = {
    "figure": ("The paper's figure 4", figure_shapes, get_args(PaperVariant)),
    "short": ("Short results of long reductions", short_shapes, ()),
    "large": ("Large matrices", figure_shapes, ()),
}
"""For each table: its title, its shapes, and the variants timed as well as "auto"."""


def blas_threads() -> int:
    """The largest number of threads that a product on the host may use."""
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return max((pool["num_threads"] for pool in pools), default=1)


def report(machine: Machine, sizes: Sizes) -> Iterator[str]:
    """The report, line by line as it is measured."""
    yield from head("Matrix times vector", machine)
    yield f"{ABOUT}\nNumPy's BLAS uses up to {blas_threads()} threads."
    for name, (title, shapes, variants) in SECTIONS.items():
        several = () if machine.name == "cpu" else variants
        yield f"\n## {title}\n"
        yield from table(machine, shapes(sizes[name]), several)


def arguments() -> argparse.Namespace:
    sizes = "shapes of matrices, such as 1000x16, for every table"
    return timing_parser(__doc__, sizes, repeats=50, size=size).parse_args()


def main() -> None:
    options = arguments()
    machine = choose(options.emulate, options.cpu, options.repeats, options.peers)
    sizes = SIZES[machine.name]
    if options.sizes:
        sizes = dict.fromkeys(SECTIONS, options.sizes)
    publish(report(machine, sizes), options.output)


if __name__ == "__main__":
    main()
