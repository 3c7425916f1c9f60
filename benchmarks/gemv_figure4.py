"""Figure 4 of the paper on boosting: the three products of a step, and NumPy's.

    python benchmarks/gemv_figure4.py --output FILE   # on a GPU if there is one
    python benchmarks/gemv_figure4.py --cpu           # the NumPy path
    python benchmarks/gemv_figure4.py --predict       # counted, and predicted for a GPU

A. Sieminski and J. M. Lee, "Gradient-Boosted Generalised Additive Models with GPU
Acceleration" (2023), section 4.2. A step of its Algorithm 2 multiplies ``B^T`` by the
residual, the inverse of ``B^T B + lambda I`` by the result, and ``B`` by the
coefficients. All three products count, in float32, without transfers. Version 1 is
"threads_per_dot", version 2 is "threads_per_row". Results are Markdown; with
``--picture`` they are drawn, too.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from harness import (
    Array,
    Call,
    Machine,
    choose,
    head,
    microseconds,
    publish,
    row,
    size,
    table_head,
    timing_parser,
    to_host,
)

import gpusolve
from gpusolve._gemv.gemv import PAPER_VARIANTS
from gpusolve.emulator import profile
from gpusolve.gam import BSplines

VARIANTS = (*PAPER_VARIANTS, "auto")

SIZES = list(product((10**3, 10**4, 10**5), (16, 32, 64)))
"""Rows, and functions of a basis, as in the figure."""

GPU = "H200"
"""The device of predictions."""

Multiply = Callable[[Array, Array], Array]
Seconds = dict[str, float]


class Step(NamedTuple):
    """The operands of a step: a basis, an inverse and a residual, all float32."""

    B: Array
    inverse: Array
    residual: Array


def make(xp: Any, rows: int, functions: int) -> Step:
    """A basis of B-splines of uniform numbers, and its ridge regression."""
    rng = np.random.default_rng(0)
    x = rng.random((rows, 1))
    B = BSplines.spanning(x, functions).evaluate(x).dense(functions)[0]
    inverse = np.linalg.inv(B.T @ B + np.eye(functions))
    operands = (B, inverse, rng.standard_normal(rows))
    return Step(*(xp.asarray(one.astype(np.float32)) for one in operands))


def products(step: Step, multiply: Multiply) -> Array:
    """The fit of the residual: three products."""
    coefs = multiply(step.inverse, multiply(step.B.T, step.residual))
    return multiply(step.B, coefs)


def by_gpusolve(step: Step, variant: str = "auto") -> Call:
    return partial(products, step, partial(gpusolve.gemv, variant=variant))


def by_numpy(step: Step) -> Call:
    return partial(products, Step(*map(to_host, step)), np.dot)


def by_cublas(step: Step) -> Call:
    """cuBLAS's gemv, which reads C order as Fortran order transposed."""
    import cupy
    from cupy.cublas import gemv

    def multiply(A: Array, x: Array) -> Array:
        y = cupy.empty(A.shape[:1], A.dtype)
        kind, stored = ("N", A) if A.flags.c_contiguous else ("T", A.T)
        gemv(kind, 1.0, stored, x, 0.0, y)
        return y

    return partial(products, step, multiply)


def check(step: Step, call: Call, name: str) -> None:
    """RuntimeError unless the result is that of float64, up to rounding."""
    found = to_host(call())
    exact = products(Step(*(to_host(one).astype(np.float64) for one in step)), np.dot)
    terms = len(step.residual) * np.finfo(np.float32).eps
    if not np.allclose(found, exact, rtol=0, atol=terms * abs(exact).max()):
        raise RuntimeError(f"{name} is wrong for {step.B.shape}")


# ---- measured ------------------------------------------------------------------------


def calls_of(machine: Machine, step: Step) -> dict[str, Call]:
    """What is timed, by name; NumPy comes last, and runs on the host."""
    variants = ("auto",) if machine.name == "cpu" else VARIANTS
    calls = {variant: by_gpusolve(step, variant) for variant in variants}
    if machine.cupy:
        calls["cuBLAS"] = by_cublas(step)
    return {**calls, "numpy.dot": by_numpy(step)}


def measured(machine: Machine, rows: int, functions: int) -> Seconds:
    """The seconds of a step, by each name."""
    step = make(machine.xp, rows, functions)
    seconds = {}
    for name, call in calls_of(machine, step).items():
        check(step, call, name)
        seconds[name] = machine.timing(call, on_host=name == "numpy.dot").median
    return seconds


# ---- predicted -----------------------------------------------------------------------


def predicted(rows: int, functions: int) -> Seconds:
    """The predicted seconds of a step on `GPU`, by each variant on the emulator."""
    step, seconds = make(np, rows, functions), {}
    for variant in VARIANTS:
        call = by_gpusolve(step, variant)
        with profile() as report:
            check(step, call, variant)
        seconds[variant] = report.predict(GPU).seconds
    return seconds


# ---- the report ----------------------------------------------------------------------

ABOUT = {
    True: f"""\
**Predicted for one {GPU} from counts on the emulator; nothing was measured.** The
seconds are the sum of the bounds of all launches. Microseconds of a step.""",
    False: """\
Microseconds of a step: three products in float32, without transfers between host and
device. numpy.dot runs on the host.""",
}


def table(found: Mapping[tuple[int, int], Seconds]) -> Iterator[str]:
    names = list(next(iter(found.values())))
    yield from table_head("n x k", *names)
    for (rows, functions), seconds in found.items():
        times = (microseconds(seconds[name]) for name in names)
        yield row(f"{rows:,} x {functions}", *times)


def report(
    machine: Machine, found: Mapping[tuple[int, int], Seconds], is_prediction: bool
) -> Iterator[str]:
    yield from head("The products of a boosting step", machine)
    yield f"{ABOUT[is_prediction]}\n"
    yield from table(found)


def draw(found: Mapping[tuple[int, int], Seconds], title: str, path: Path) -> None:
    """Draw the time of a step against n, in one panel for each k, as the paper does."""
    from matplotlib.figure import Figure

    functions = sorted({k for _, k in found})
    figure = Figure(figsize=(9, 3), layout="constrained")
    panels = figure.subplots(1, len(functions), sharey=True, squeeze=False)[0]
    for panel, k in zip(panels, functions, strict=True):
        rows = [n for n, other in found if other == k]
        for name in found[rows[0], k]:
            times = [1e6 * found[n, k][name] for n in rows]
            panel.plot(rows, times, "o-", label=name)
        panel.set(xscale="log", yscale="log", xlabel="n", title=f"k = {k}")
    panels[0].set_ylabel("microseconds")
    panels[-1].legend(frameon=False, fontsize=8)
    figure.suptitle(title, size=10)
    figure.savefig(path)


def arguments() -> argparse.Namespace:
    sizes = "rows and functions of a basis, such as 1000x16"
    made = timing_parser(__doc__, sizes, repeats=50, size=size)
    made.add_argument("--predict", action="store_true", help=f"for one {GPU}")
    made.add_argument("--picture", type=Path, help="also draw the times to this file")
    return made.parse_args()


def main() -> None:
    options = arguments()
    is_emulated = options.emulate or options.predict
    repeats = 0 if options.predict else options.repeats
    machine = choose(is_emulated, options.cpu, repeats)
    small = [(100, 16), (100, 32)] if options.emulate else SIZES
    found = {
        shape: predicted(*shape) if options.predict else measured(machine, *shape)
        for shape in options.sizes or small
    }
    publish(report(machine, found, options.predict), options.output)
    if options.picture:
        title = f"predicted for one {GPU}" if options.predict else "measured"
        draw(found, title, options.picture)


if __name__ == "__main__":
    main()
