"""Figure 4 of the paper on boosting: the three products of a step, and NumPy's.

    python benchmarks/gemv_figure4.py --output FILE   # all measured if there is a GPU
    python benchmarks/gemv_figure4.py --cpu           # NumPy measured, GPUs predicted

A. Sieminski and J. M. Lee, "Gradient-Boosted Generalised Additive Models with GPU
Acceleration" (2023), section 4.2, claim that a GPU is faster than ``numpy.dot``. A step
of their Algorithm 2 multiplies, for each learner, ``B^T`` by the residual, the inverse
of ``B^T B + lambda I`` by the result, and ``B`` by the coefficients. All three products
count, in float32, without transfers. B is patsy's basis on equidistant knots. Version 1
is "threads_per_dot", version 2 is "threads_per_row", and "auto" is this package's own.

Without a GPU, ``numpy.dot`` is measured on this CPU, and the time of two GPUs is
predicted from counts on the emulator: the paper's GPU and a large GPU. Results are
Markdown; with ``--picture`` they are drawn, too. Without a GPU it takes 3 minutes.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import patsy
from gemv import blas_threads
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
from gpusolve.emulator import profile

VARIANTS = {
    "threads_per_dot": "version 1",
    "threads_per_row": "version 2",
    "auto": "auto",
}
"""The variants of `gpusolve.gemv`, and their names in the report."""

SIZES = list(product((10**3, 10**4, 10**5), (16, 32, 64)))
"""Rows, and functions of a basis, as in the figure."""

GPUS = ("MX550", "H200")
"""The devices of predictions; the first is the paper's."""

Multiply = Callable[[Array, Array], Array]
Seconds = dict[str, float]
Found = dict[tuple[int, int], Seconds]

NUMPY = "numpy.dot"


class Step(NamedTuple):
    """The operands of a step: a basis, an inverse and a residual, all float32."""

    B: Array
    inverse: Array
    residual: Array


def make(xp: Any, rows: int, functions: int) -> Step:
    """A basis of B-splines of uniform numbers, and its ridge regression."""
    rng = np.random.default_rng(0)
    x, knots = rng.random(rows), np.linspace(0, 1, functions - 2)[1:-1]
    ends = {"lower_bound": 0, "upper_bound": 1}
    B = patsy.bs(x, knots=knots, include_intercept=True, **ends)
    inverse = np.linalg.inv(B.T @ B + np.eye(functions))
    operands = (B, inverse, rng.standard_normal(rows))
    return Step(*(xp.asarray(operand.astype(np.float32)) for operand in operands))


def products(step: Step, multiply: Multiply) -> Array:
    """The fit of the residual: three products."""
    coefs = multiply(step.inverse, multiply(step.B.T, step.residual))
    return multiply(step.B, coefs)


def gpusolve_call(step: Step, variant: str = "auto") -> Call:
    return partial(products, step, partial(gpusolve.gemv, variant=variant))


def numpy_call(step: Step) -> Call:
    return partial(products, Step(*map(to_host, step)), np.dot)


def cublas_call(step: Step) -> Call:
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
    """RuntimeError unless the result equals the result in float64, up to rounding."""
    found = to_host(call())
    exact = products(
        Step(*(to_host(operand).astype(np.float64) for operand in step)), np.dot
    )
    terms = len(step.residual) * np.finfo(np.float32).eps
    if not np.allclose(found, exact, rtol=0, atol=terms * abs(exact).max()):
        raise RuntimeError(f"{name} is wrong for {step.B.shape}")


# ---- measured ------------------------------------------------------------------------


def calls_of(machine: Machine, step: Step) -> dict[str, Call]:
    """The timed calls, by name; NumPy runs on the host, and alone without a GPU."""
    calls = {NUMPY: numpy_call(step)}
    if machine.name != "cpu":
        calls |= {
            name: gpusolve_call(step, variant) for variant, name in VARIANTS.items()
        }
    if machine.cupy:
        calls["cuBLAS"] = cublas_call(step)
    return calls


def measured(machine: Machine, rows: int, functions: int) -> Seconds:
    """The seconds of a step, by each name."""
    step, seconds = make(machine.xp, rows, functions), {}
    for name, call in calls_of(machine, step).items():
        check(step, call, name)
        seconds[name] = machine.timing(call, on_host=name == NUMPY).median
    return seconds


# ---- predicted -----------------------------------------------------------------------


def predicted(rows: int, functions: int) -> Seconds:
    """The predicted seconds of a step on `GPUS`, from counts on the emulator."""
    step, seconds = make(np, rows, functions), {}
    with mock.patch.dict(os.environ, GPUSOLVE_EMULATE="1"):
        for variant, name in VARIANTS.items():
            with profile() as report:
                check(step, gpusolve_call(step, variant), variant)
            for gpu in GPUS:
                seconds[f"{gpu} {name}, predicted"] = report.predict(gpu).seconds
    return {name: seconds[name] for gpu in GPUS for name in seconds if gpu in name}


# ---- the report ----------------------------------------------------------------------

WARNING = """\
numpy.dot is **measured** on this CPU. The GPUs are **predicted** from counts on the
emulator: **nothing was measured on a GPU.**"""

ABOUT = """\
Microseconds of a step: three products in float32, without transfers between host and
device. numpy.dot runs on the host. Threads of its BLAS: {threads}."""

PREDICTED = """\
A predicted time is the middle of the range of `report.predict`; a launch takes 2 to 5
microseconds in it. Version 1 has three launches, version 2 six: a second kernel adds
its columns. The paper's launches, by pyopencl, take longer."""


def table(found: Found) -> Iterator[str]:
    names = list(next(iter(found.values())))
    yield from table_head("n x k", *names)
    for (rows, functions), seconds in found.items():
        times = (microseconds(seconds[name]) for name in names)
        yield row(f"{rows:,} x {functions}", *times)


def faster_than_numpy(found: Found) -> Iterator[str]:
    """Where each other call takes less time than NumPy, as a list."""
    for name in next(iter(found.values())):
        if name != NUMPY:
            shapes = [
                shape
                for shape, seconds in found.items()
                if seconds[name] < seconds[NUMPY]
            ]
            listed = ", ".join(f"{n:,} x {k}" for n, k in shapes) or "nowhere"
            yield f"- {name}: {listed}"


def report(machine: Machine, found: Found) -> Iterator[str]:
    on_cpu = machine.name == "cpu"
    warning = WARNING if on_cpu else ""
    yield from head("The products of a boosting step", machine, warning=warning)
    yield f"{ABOUT.format(threads=blas_threads())}\n"
    if on_cpu:
        yield f"{PREDICTED}\n"
    yield from table(found)
    yield "\nFaster than numpy.dot are:\n"
    yield from faster_than_numpy(found)


COLOURS = {"version 1": "tab:purple", "version 2": "tab:blue", "auto": "tab:green"}
"""The paper's colours, and a colour for the variant that it does not have."""


def style_of(name: str) -> dict[str, Any]:
    """How a series is drawn: NumPy thick, the first GPU dashed."""
    if name == NUMPY:
        return {"color": "tab:orange", "lw": 2.5}
    colour = next((COLOURS[known] for known in COLOURS if known in name), "k")
    return {"color": colour, "ls": "--" if GPUS[0] in name else "-", "lw": 1}


def draw(found: Found, path: Path) -> None:
    """Draw the time of a step against n, in one panel for each k, as the paper does."""
    from matplotlib.figure import Figure

    functions = sorted({k for _, k in found})
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, len(functions), sharey=True, squeeze=False)[0]
    for panel, k in zip(panels, functions, strict=True):
        rows = [n for n, other in found if other == k]
        for name in found[rows[0], k]:
            times = [1e6 * found[n, k][name] for n in rows]
            label = f"{name}, measured" if name == NUMPY else name
            panel.plot(rows, times, marker="o", ms=3, label=label, **style_of(name))
        panel.set(xscale="log", yscale="log", xlabel="n", title=f"k = {k}")
        panel.set_xticks(rows, [f"{n:,}" for n in rows])
        panel.set_xticks([], minor=True)
    panels[0].set_ylabel("microseconds of a step")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8)
    figure.savefig(path)


def arguments() -> argparse.Namespace:
    sizes = "rows and functions of a basis, such as 1000x16"
    made = timing_parser(__doc__, sizes, repeats=50, size=size)
    made.add_argument("--picture", type=Path, help="also draw the times to this file")
    return made.parse_args()


def main() -> None:
    options = arguments()
    machine = choose(options.emulate, options.cpu, options.repeats)
    small = [(100, 16), (100, 32)] if options.emulate else SIZES
    found = {shape: measured(machine, *shape) for shape in options.sizes or small}
    if machine.name == "cpu":
        found = {shape: seconds | predicted(*shape) for shape, seconds in found.items()}
    publish(report(machine, found), options.output)
    if options.picture:
        draw(found, options.picture)


if __name__ == "__main__":
    main()
