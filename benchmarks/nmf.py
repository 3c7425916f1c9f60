"""Time of `gpusolve.NMF` and scikit-learn's solvers to the same objective.

    python benchmarks/nmf.py --output FILE
    python benchmarks/nmf.py --sizes 60 40 3 --repeats 1        # a small problem

All begin with the same factors, and make more and more sweeps until the objective is
within a part of the least objective that is known. The time of the run with the fewest
sweeps that suffice counts. Results are Markdown.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from harness import (
    Machine,
    choose,
    head,
    publish,
    row,
    table_head,
    three_digits,
    timing_parser,
)
from numpy.typing import NDArray

import gpusolve
from gpusolve._device.threads import one_blas_thread

Floats = NDArray[np.float64]

SIZES = 2000, 500, 10
"""Rows, columns and components."""

FILLED = 0.05
"""The mean of the sparse matrix."""

PARTS = 1e-2, 1e-4
"""How far above the least objective a run may end."""

MOST = 2000
"""The most sweeps of a run."""

GROWTH = 1.3
"""The ratio of the sweeps of neighbouring runs."""

ABOUT = """\
X is {rows:,} x {columns:,}: a product of {components} components, gamma distributed,
with noise; once dense, once as the Poisson counts of a product of mean {filled}. All
solvers begin with the same W and H, and have no penalty. Times are those of the run
with the fewest sweeps that ends at most a part above the least objective
`|X - W H|^2` of all runs of {most} sweeps. BLAS has one thread; `gpusolve.NMF` solves
for the rows of a factor on all cores.
"""


class Start(NamedTuple):
    """A matrix and the first factors."""

    X: Any
    W: Floats
    H: Floats


Solver = Callable[[Start, int], Any]
"""Makes some sweeps; the model, and W."""


def starts(rows: int, columns: int, components: int) -> dict[str, Start]:
    """A dense and a sparse matrix."""
    rng = np.random.default_rng(20261125)
    product = rng.gamma(0.3, size=(rows, components)) @ rng.gamma(
        0.3, size=(components, columns)
    )
    dense = product * (0.9 + 0.2 * rng.random(product.shape))
    counts = rng.poisson(product * FILLED / product.mean()).astype(float)
    matrices = {"dense": dense, "sparse": scipy.sparse.csr_array(counts)}
    return {name: start_of(X, components, rng) for name, X in matrices.items()}


def start_of(X: Any, components: int, rng: np.random.Generator) -> Start:
    """Random factors of the size of X."""
    scale = np.sqrt(X.mean() / components)
    W, H = (scale * np.abs(rng.standard_normal((n, components))) for n in X.shape)
    return Start(X, W, np.ascontiguousarray(H.T))


def objective(X: Any, W: Floats, H: Floats) -> float:
    dense = X.toarray() if scipy.sparse.issparse(X) else X
    return float(((dense - W @ H) ** 2).sum())


def fit(model: Any, start: Start) -> Any:
    """The fitted model, and W."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the sweeps may not suffice
        return model, model.fit_transform(start.X, W=start.W.copy(), H=start.H.copy())


def by_gpusolve(start: Start, sweeps: int) -> Any:
    model = gpusolve.NMF(len(start.H), init="custom", tol=0, max_iter=sweeps)
    return fit(model, start)


def by_sklearn(solver: str, start: Start, sweeps: int) -> Any:
    from sklearn.decomposition import NMF

    options = {"init": "custom", "tol": 0, "max_iter": sweeps}
    return fit(NMF(len(start.H), solver=solver, **options), start)


SOLVERS: dict[str, Solver] = {
    "gpusolve.NMF": by_gpusolve,
    'scikit-learn, "cd"': partial(by_sklearn, "cd"),
    'scikit-learn, "mu"': partial(by_sklearn, "mu"),
}


def objective_after(solve: Solver, start: Start, n: int) -> float:
    model, W = solve(start, n)
    return objective(start.X, W, model.components_)


def sweeps_to(goal: float, solve: Solver, start: Start, most: int) -> int | None:
    """The fewest of the tried numbers of sweeps that reach the goal; None if none."""
    sweeps = 1
    while sweeps <= most:
        if objective_after(solve, start, sweeps) <= goal:
            return sweeps
        sweeps = max(sweeps + 1, round(GROWTH * sweeps))
    return None


def report(machine: Machine, sizes: tuple[int, int, int], most: int) -> Iterator[str]:
    """The report, line by line as it is measured."""
    yield from head("Non-negative factorisation", machine, "scikit-learn")
    yield from table(machine, sizes, most)


def table(machine: Machine, sizes: tuple[int, int, int], most: int) -> Iterator[str]:
    """The table, and what its cells contain."""
    rows, columns, components = sizes
    yield ABOUT.format(
        rows=rows, columns=columns, components=components, filled=FILLED, most=most
    )
    words = "matrix", "solver"
    columns_of = [
        f"{what}, {part:.0e}" for part in PARTS for what in ("sweeps", "seconds")
    ]
    yield from table_head(*words, *columns_of, "ms / sweep", words=2)
    for name, start in starts(*sizes).items():
        least = min(objective_after(solve, start, most) for solve in SOLVERS.values())
        for solver, solve in SOLVERS.items():
            goals = [(1 + part) * least for part in PARTS]
            yield row(name, solver, *cells(machine, solve, start, goals, most))


def cells(
    machine: Machine,
    solve: Solver,
    start: Start,
    goals: list[float],
    most: int,
) -> Iterator[str]:
    """The sweeps and the seconds to each goal, and the time of a sweep."""
    for goal in goals:
        sweeps = sweeps_to(goal, solve, start, most)
        if sweeps is None:
            yield from (f"> {most}", "")
        else:
            seconds = machine.timing(partial(solve, start, sweeps)).median
            yield from (str(sweeps), three_digits(seconds))
    taken = [machine.timing(partial(solve, start, n)).median for n in (10, 30)]
    yield three_digits(max(0.0, 1000 * (taken[1] - taken[0]) / 20))


def arguments() -> argparse.Namespace:
    made = timing_parser(__doc__, "rows, columns and components", repeats=3)
    made.add_argument("--most", type=int, default=MOST, help="sweeps of a run")
    return made.parse_args()


def main() -> None:
    options = arguments()
    machine = choose(cpu=True, repeats=options.repeats)
    sizes = tuple(options.sizes or SIZES)
    with one_blas_thread():
        publish(report(machine, sizes, options.most), options.output)


if __name__ == "__main__":
    main()
