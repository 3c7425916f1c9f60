"""Time the boosted GAM on the paper's simulation, set-up and steps apart.

    python benchmarks/gam.py --output FILE    # on a GPU, if CuPy finds one
    python benchmarks/gam.py --cpu            # on the CPU in any case
    python benchmarks/gam.py --quick          # a few small sizes

Beside it, in the same run: the specification, which is a plain NumPy loop over the
learners, and what scikit-learn and pyGAM offer, where they are installed. What mboost
and compboost took is quoted, for neither installs from a registry. Results are
Markdown.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
from timing import Call, commit, cupy_with_a_device, driver, processor

import gpusolve
from gpusolve import reference as specification
from gpusolve.gam import BSplines, Learners, boost, make_learners, simulate

METHODS = ("direct", "stacked", "gram")

DENSE_BYTES = 2**31
"""Of dense design matrices; the direct method and the rivals go no further."""

PASSED_ROWS = 10**9
"""Rows of learners that a pass is made over on a CPU; "stacked" goes no further."""

PYGAM_COLUMNS, PYGAM_ROWS = 1600, 1000
"""pyGAM is given no more of a problem than this."""

QUOTED = """\
Quoted, not measured here: n = 1e5, K = 100, k = 32, 100 steps, on 4 shared cores.
mboost 2.9-13: set-up 8 s, fit 40 to 46 s (n = 1e4: 1.3 s and 5.4 s). compboost,
4 threads: set-up 7.3 s, fit 5.9 s; with binning, not exact, 0.56 s and 0.90 s."""


class Size(NamedTuple):
    """A problem: rows, functions of a learner, steps."""

    rows: int
    n_basis: int
    steps: int


class Row(NamedTuple):
    """What the table says of one fit; the fields are its columns."""

    what: str
    size: Size
    setup: float | None
    steps: float | None
    total: float
    risk: float


def sizes(quick: bool, rows: list[int] | None) -> list[Size]:
    """The problems, from small to large."""
    every = rows or ([1000, 10_000] if quick else [1000, 10_000, 100_000, 1_000_000])
    bases = [16] if quick else [16, 32, 64]
    counts = [100] if quick else [100, 1000]
    return [Size(n, k, steps) for n in every for k in bases for steps in counts]


class Timer:
    """Wall time of calls, the device's work included."""

    def __init__(self, cupy: Any | None, repeats: int) -> None:
        self.cupy = cupy
        self.repeats = repeats

    def once(self, call: Call) -> tuple[float, Any]:
        """Seconds of one call, and its answer."""
        self.wait()
        begin = time.perf_counter()
        answer = call()
        self.wait()
        return time.perf_counter() - begin, answer

    def median(self, call: Call) -> tuple[float, Any]:
        """The median of the seconds of some calls, and the last answer."""
        times, answer = zip(
            *(self.once(call) for _ in range(self.repeats)), strict=True
        )
        return statistics.median(times), answer[-1]

    def wait(self) -> None:
        """Until the device has done everything."""
        if self.cupy is not None:
            self.cupy.cuda.Device().synchronize()


def set_up(X: Any, n_basis: int) -> Learners:
    """Bases, Gram matrices, smoothing parameters, inverses."""
    basis = BSplines.spanning(X, n_basis).evaluate(X)
    return make_learners(basis, n_basis)


def affordable(method: str, size: Size, columns: int, on_gpu: bool) -> bool:
    """Whether a method is to be tried at this size."""
    if method == "direct":
        dense = 8 * size.rows * size.n_basis * columns
        return dense <= DENSE_BYTES and (on_gpu or size.rows * size.steps <= 10**6)
    if method == "stacked" and not on_gpu:
        return size.rows * size.steps * columns <= PASSED_ROWS
    return True


def our_rows(size: Size, X: Any, y: Any, timer: Timer) -> Iterator[Row]:
    """Every method that is affordable."""
    setup, learners = timer.median(partial(set_up, X, size.n_basis))
    for method in METHODS:
        if affordable(method, size, X.shape[1], timer.cupy is not None):
            fit = partial(boost, learners, y, steps=size.steps, method=method)
            seconds, path = timer.median(fit)
            total = setup + seconds
            yield Row(method, size, setup, seconds, total, float(path.risk[-1]))


def loop_rows(size: Size, X: Any, y: Any) -> Iterator[Row]:
    """The NumPy loop, from its dense design matrices on."""
    if 8 * X.size * size.n_basis > DENSE_BYTES / 4:
        return
    learners = set_up(X, size.n_basis)
    B = learners.dense()
    begin = time.perf_counter()
    path = specification.boost(
        B, y, learners.penalty, learners.lambda_, steps=size.steps
    )
    seconds = time.perf_counter() - begin
    yield Row("NumPy loop", size, None, None, seconds, float(path.risk[-1]))


def spline_ridge(X: Any, y: Any, n_basis: int) -> Any:
    """scikit-learn's additive model: all effects at once, one penalty."""
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import SplineTransformer

    splines = SplineTransformer(n_knots=n_basis - 2, degree=3)
    return make_pipeline(splines, Ridge(alpha=1.0)).fit(X, y)


def pygam_model(X: Any, y: Any, n_basis: int) -> Any:
    """pyGAM's additive model with its default penalty, without a search."""
    from pygam import LinearGAM

    return LinearGAM(n_splines=n_basis).fit(X, y)


def rival_rows(size: Size, X: Any, y: Any) -> Iterator[Row]:
    """Other packages' additive models of the same data; they are no boosting."""
    rivals: dict[str, tuple[Callable[..., Any], bool]] = {
        "SplineTransformer + Ridge": (
            spline_ridge,
            8 * X.size * size.n_basis <= DENSE_BYTES,
        ),
        "pyGAM": (
            pygam_model,
            size.n_basis * X.shape[1] <= PYGAM_COLUMNS and len(y) <= PYGAM_ROWS,
        ),
    }
    for name, (fit, fits_in) in rivals.items():
        if not fits_in:
            continue
        begin = time.perf_counter()
        try:
            model = fit(X, y, size.n_basis)
        except ImportError:
            continue
        seconds = time.perf_counter() - begin
        risk = float(((y - model.predict(X)) ** 2).sum())
        yield Row(name, size, None, None, seconds, risk)


def rows_of(size: Size, timer: Timer, columns: int) -> Iterator[Row]:
    """All rows of one problem; rivals only once for all numbers of steps."""
    X, y, _ = simulate(size.rows)
    X = np.ascontiguousarray(X[:, :columns])
    there = (X, y) if timer.cupy is None else map(timer.cupy.asarray, (X, y))
    yield from our_rows(size, *there, timer)
    if size.steps == 100:
        yield from loop_rows(size, X, y)
        yield from rival_rows(size, X, y)


def command() -> str:
    """What was called, but for where the results are written."""
    called = ["python", f"benchmarks/{Path(__file__).name}", *sys.argv[1:]]
    if "--output" in called:
        place = called.index("--output")
        del called[place : place + 2]
    return " ".join(called)


def heading(cupy: Any | None, repeats: int, columns: int) -> str:
    """What was measured, on what, with what."""
    device = "CPU"
    if cupy is not None:
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
        device = f"{properties['name'].decode()}, driver {driver()}"
    return (
        f"# The boosted GAM on the {'GPU' if cupy is not None else 'CPU'}\n\n"
        f"`{command()}`, "
        f"{datetime.date.today()}, commit {commit()}.\n"
        f"{device}; {processor()}; Python {platform.python_version()}, "
        f"NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"gpusolve {gpusolve.__version__}.\n\n"
        f"{columns} covariates of the paper's simulation, degree 3, P-splines of df 4, "
        f"learning rate 0.1,\nfloat64. Medians of {repeats} runs, in seconds of wall "
        "time; data and results lie where the\nmethod runs. Risk is the sum of squared "
        "residuals at the end: equal risks tell of equal models.\nThe NumPy loop is "
        "given bases and smoothing parameters. The other packages fit other models to "
        "the same\ndata, in one go, and once.\n\n"
        "| n | k | steps | method | set-up s | steps s | total s | risk |\n"
        "|---|---|---|---|---|---|---|---|"
    )


def line(row: Row) -> str:
    """A row of the table."""
    n, k, steps = row.size
    times = ("" if t is None else f"{t:.3f}" for t in row[2:5])
    return (
        f"| {n:,} | {k} | {steps} | {row.what} | {' | '.join(times)} | {row.risk:.6g} |"
    )


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu", action="store_true", help="even where there is a GPU")
    parser.add_argument("--quick", action="store_true", help="a few small sizes")
    parser.add_argument("--rows", type=int, nargs="*", help="instead of 1e3 to 1e6")
    parser.add_argument("--columns", type=int, default=100, help="covariates, to 100")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, help="a Markdown file")
    return parser.parse_args()


def main() -> None:
    """Measure and print, line by line."""
    options = arguments()
    warnings.simplefilter("ignore")
    cupy = None if options.cpu else cupy_with_a_device()
    timer = Timer(cupy, options.repeats)
    lines: list[str] = []

    def say(text: str) -> None:
        lines.append(text)
        print(text, flush=True)

    say(heading(cupy, options.repeats, options.columns))
    warm_up = simulate(200)
    there = cupy.asarray if cupy is not None else np.asarray
    for method in METHODS:
        boost(set_up(there(warm_up.X), 16), there(warm_up.y), steps=2, method=method)
    for size in sizes(options.quick, options.rows):
        for row in rows_of(size, timer, options.columns):
            say(line(row))
    say(f"\n{QUOTED}")
    if options.output is not None:
        options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
