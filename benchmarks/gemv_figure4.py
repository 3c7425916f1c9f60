"""Figure 4 of the paper on boosting: the three products of a step, and NumPy's.

    python benchmarks/gemv_figure4.py --output FILE   # all measured if there is a GPU
    python benchmarks/gemv_figure4.py --cpu           # NumPy measured, GPUs predicted

A. Sieminski and J. M. Lee, "Gradient-Boosted Generalised Additive Models with GPU
Acceleration" (2023), section 4.2, claim that a GPU is faster than ``numpy.dot``.
``gpusolve.studies.boosting_step`` has the products, and predicts.

Without a GPU, ``numpy.dot`` is measured on this CPU, and the time of two GPUs is
predicted from counts on the emulator: the paper's GPU and a large GPU. Results are
Markdown; with ``--picture`` they are drawn, too. Without a GPU it takes 3 minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
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

from gpusolve.studies import boosting_step
from gpusolve.studies.boosting_step import (
    GPUS,
    SIZES,
    VARIANTS,
    Seconds,
    Step,
    check,
    make,
    predicted,
    products,
)

Found = dict[tuple[int, int], Seconds]

NUMPY = "numpy.dot"


# ---- measured ------------------------------------------------------------------------


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


def check_call(step: Step, call: Call, name: str) -> None:
    """Check what a call returns, on the host."""
    check(Step(*map(to_host, step)), to_host(call()), name)


def calls_of(machine: Machine, step: Step) -> dict[str, Call]:
    """The timed calls, by name; NumPy runs on the host, and alone without a GPU."""
    calls = {NUMPY: numpy_call(step)}
    if machine.name != "cpu":
        calls |= {
            name: boosting_step.call(step, variant)
            for variant, name in VARIANTS.items()
        }
    if machine.cupy:
        calls["cuBLAS"] = cublas_call(step)
    return calls


def measured(machine: Machine, rows: int, functions: int) -> Seconds:
    """The seconds of a step, by each name."""
    step, seconds = make(machine.xp, rows, functions), {}
    for name, call in calls_of(machine, step).items():
        check_call(step, call, name)
        seconds[name] = machine.timing(call, on_host=name == NUMPY).median
    return seconds


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
