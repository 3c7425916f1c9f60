"""Time the boosted GAM on the paper's simulation: set-up, steps, families and folds.

    python benchmarks/gam.py --output FILE    # on a GPU if there is one
    python benchmarks/gam.py --cpu            # the CPU path
    python benchmarks/gam.py --quick          # a few small sizes
    python benchmarks/gam.py --parts folds    # the cross-validation only

In the same run: the reference, a plain NumPy loop over the learners, and the additive
models of scikit-learn and pyGAM if they are installed. The times of mboost and
compboost are quoted, because neither installs from a registry. Results are Markdown.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from gam_families import SCALES, family_lines, fold_lines
from harness import (
    Machine,
    choose,
    count,
    head,
    publish,
    row,
    table_head,
    timing_parser,
    wall_clock,
)

from gpusolve import reference
from gpusolve.gam import BSplines, Learners, boost, make_learners, simulate

PARTS = ("gaussian", "families", "folds")
"""The parts of the report."""

METHODS = ("direct", "stacked", "gram")

DENSE_BYTES = 2**31
"""Largest dense design matrices for "direct" and for the other libraries."""

PASSED_ROWS = 10**9
"""Largest number of rows times learners times steps for "stacked" on a CPU."""

PYGAM_COLUMNS, PYGAM_ROWS = 1600, 1000
"""Largest design matrix for pyGAM."""

QUOTED = """
Quoted, not measured here: n = 1e5, K = 100, k = 32, 100 steps, on 4 shared cores.
mboost 2.9-13: set-up 8 s, fit 40 to 46 s (n = 1e4: 1.3 s and 5.4 s). compboost,
4 threads: set-up 7.3 s, fit 5.9 s; with binning, not exact, 0.56 s and 0.90 s."""


ROWS = {
    "cuda": [10**3, 10**4, 10**5, 10**6],
    "cpu": [10**3, 10**4, 10**5, 10**6],
    "emulator": [100],
}


class Size(NamedTuple):
    """A problem: rows, basis functions of a learner, boosting steps."""

    rows: int
    n_basis: int
    steps: int


class Fit(NamedTuple):
    """A row of the table: the method, its times in seconds, and the final risk."""

    method: str
    size: Size
    setup: float | None
    steps: float | None
    total: float
    risk: float


def problems(rows: list[int], quick: bool) -> list[Size]:
    """The problems, from small to large."""
    bases = [16] if quick else [16, 32, 64]
    counts = [100] if quick else [100, 1000]
    return [Size(n, k, steps) for n in rows for k in bases for steps in counts]


def set_up(X: Any, n_basis: int) -> Learners:
    """Compute bases, Gram matrices, smoothing parameters and inverses."""
    basis = BSplines.spanning(X, n_basis).evaluate(X)
    return make_learners(basis, n_basis)


def affordable(method: str, size: Size, columns: int, on_gpu: bool) -> bool:
    """Whether a method has enough memory and time for a problem."""
    if method == "direct":
        dense = 8 * size.rows * size.n_basis * columns
        return dense <= DENSE_BYTES and (on_gpu or size.rows * size.steps <= 10**6)
    if method == "stacked" and not on_gpu:
        return size.rows * size.steps * columns <= PASSED_ROWS
    return True


def our_fits(machine: Machine, size: Size, X: Any, y: Any) -> Iterator[Fit]:
    """Every method that is affordable."""
    X, y = machine.xp.asarray(X), machine.xp.asarray(y)
    setup = machine.timing(partial(set_up, X, size.n_basis))
    for method in METHODS:
        if affordable(method, size, X.shape[1], machine.cupy is not None):
            call = partial(boost, setup.result, y, steps=size.steps, method=method)
            fit = machine.timing(call)
            total = setup.median + fit.median
            risk = float(fit.result.risk[-1])
            yield Fit(method, size, setup.median, fit.median, total, risk)


def reference_fit(size: Size, X: Any, y: Any) -> Iterator[Fit]:
    """The NumPy loop, which starts from dense design matrices."""
    if 8 * X.size * size.n_basis > DENSE_BYTES / 4:
        return
    learners = set_up(X, size.n_basis)
    given = learners.dense(), y, learners.penalty, learners.lambda_
    seconds, path = wall_clock(partial(reference.boost, *given, steps=size.steps))
    yield Fit("NumPy loop", size, None, None, seconds, float(path.risk[-1]))


def spline_ridge(n_basis: int) -> Any:
    """scikit-learn's additive model: all effects together, with one penalty."""
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import SplineTransformer

    splines = SplineTransformer(n_knots=n_basis - 2, degree=3)
    return make_pipeline(splines, Ridge(alpha=1.0))


def pygam_model(n_basis: int) -> Any:
    """pyGAM's additive model with its default penalty, without a search."""
    from pygam import LinearGAM

    return LinearGAM(n_splines=n_basis)


def peer_fits(size: Size, X: Any, y: Any) -> Iterator[Fit]:
    """Additive models of other libraries, which are not boosted, for the same data."""
    dense = 8 * X.size * size.n_basis
    columns = size.n_basis * X.shape[1]
    peers: dict[str, tuple[Callable[[int], Any], bool]] = {
        "SplineTransformer + Ridge": (spline_ridge, dense <= DENSE_BYTES),
        "pyGAM": (pygam_model, columns <= PYGAM_COLUMNS and len(y) <= PYGAM_ROWS),
    }
    for name, (make, fits_in_memory) in peers.items():
        if not fits_in_memory:
            continue
        try:
            model = make(size.n_basis)
        except ImportError:
            continue
        seconds, _ = wall_clock(partial(model.fit, X, y))
        risk = float(((y - model.predict(X)) ** 2).sum())
        yield Fit(name, size, None, None, seconds, risk)


def fits(machine: Machine, size: Size, columns: int) -> Iterator[Fit]:
    """All fits of one problem; other libraries fit it once for all numbers of steps."""
    X, y, _ = simulate(size.rows)
    X = np.ascontiguousarray(X[:, :columns])
    yield from our_fits(machine, size, X, y)
    if machine.peers and size.steps == 100:
        yield from reference_fit(size, X, y)
        yield from peer_fits(size, X, y)


def cells(fit: Fit) -> Iterator[str]:
    """The row of one fit."""
    n, k, steps = fit.size
    yield from (f"{n:,}", str(k), str(steps), fit.method)
    for seconds in (fit.setup, fit.steps, fit.total):
        yield "" if seconds is None else f"{seconds:.3f}"
    yield f"{fit.risk:.6g}"


ABOUT = """\
{columns} covariates of the paper's simulation, degree 3, P-splines of df 4, learning
rate 0.1, float64. Times in seconds; data and results are in the memory of the device
that computes. Risk is the final sum of squared residuals; equal risks mean equal
models. The NumPy loop is given bases and smoothing parameters. The other libraries fit
other models to the same data, without boosting. The loop and they run once.
"""


def gaussian_lines(machine: Machine, sizes: list[Size], columns: int) -> Iterator[str]:
    """The times of set-up and steps with every method, line by line."""
    yield ABOUT.format(columns=columns)
    names = ("n", "k", "steps", "method", "set-up s", "steps s", "total s", "risk")
    yield from table_head(*names, words=4)
    for size in sizes:
        yield from (row(*cells(fit)) for fit in fits(machine, size, columns))
    yield QUOTED


def report(machine: Machine, options: argparse.Namespace) -> Iterator[str]:
    """The report, line by line as it is measured."""
    yield from head("The boosted GAM", machine, "scikit-learn", "pygam")
    scale, columns, some = SCALES[machine.name], options.columns, options.sizes
    if "gaussian" in options.parts:
        rows = some or ROWS[machine.name][: 2 if options.quick else None]
        yield from gaussian_lines(machine, problems(rows, options.quick), columns)
    if "families" in options.parts:
        yield from family_lines(machine, scale, some or scale.rows, columns)
    if "folds" in options.parts:
        yield from fold_lines(machine, scale, some or scale.fold_rows, columns)


def arguments() -> argparse.Namespace:
    made = timing_parser(__doc__, "rows of data", repeats=3)
    made.add_argument("--quick", action="store_true", help="a few small sizes")
    made.add_argument(
        "--parts", choices=PARTS, nargs="+", default=PARTS, help="of the report"
    )
    made.add_argument("--columns", type=count, default=100, help="covariates, to 100")
    return made.parse_args()


def main() -> None:
    options = arguments()
    warnings.simplefilter("ignore")
    machine = choose(options.emulate, options.cpu, options.repeats, options.peers)
    publish(report(machine, options), options.output)


if __name__ == "__main__":
    main()
