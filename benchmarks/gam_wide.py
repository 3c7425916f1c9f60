"""Time boosted models of many columns and few rows (genes), on the CPU, with peers.

    python benchmarks/gam_wide.py --output FILE
    python benchmarks/gam_wide.py --quick        # small sizes

The peers of boosted lines: a loop in NumPy as mboost's ``glmboost``, which multiplies
all columns by the residual in each step, and two ways to the lasso in scikit-learn,
which fit another model. Figures are CPU seconds. Results are Markdown.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from harness import choose, head, parser, publish, row, table_head, three_digits

from gpusolve.gam import BoostedGAM, bbs, bols, glmboost, stability_selection

RATE = 0.1

Fit = Callable[[], Any]


class Sizes(NamedTuple):
    """The rows, columns and steps, and the subsamples of a stability selection."""

    rows: int
    columns: int
    steps: int
    subsamples: int


FULL = Sizes(300, 5000, 1000, 10)
QUICK = Sizes(60, 90, 40, 2)


def data_of(sizes: Sizes) -> tuple[Any, Any]:
    """Uniform covariates, and a response that depends on the first four."""
    rng = np.random.default_rng(0)
    X = rng.random((sizes.rows, sizes.columns))
    f = np.sin(6 * X[:, 0]) + X[:, 1] + 4 * (X[:, 2] - 0.5) ** 2 - X[:, 3] / 2
    return X, f + 0.5 * rng.standard_normal(sizes.rows)


def numpy_loop(X: Any, y: Any, steps: int) -> Any:
    """The algorithm of ``glmboost``: the coefficients of centred columns."""
    X = np.ascontiguousarray((X - X.mean(axis=0)).T)
    squares = (X * X).sum(axis=1)
    coef, u = np.zeros(len(X)), y - y.mean()
    for _ in range(steps):
        c = X @ u
        j = (c * c / squares).argmax()
        change = RATE * c[j] / squares[j]
        coef[j] += change
        u = u - change * X[j]
    return coef


def models(sizes: Sizes) -> dict[str, Fit]:
    """The fits by their names."""
    from sklearn.linear_model import lars_path, lasso_path

    X, y = data_of(sizes)
    centred = X - X.mean(axis=0)
    columns = {f"x{j}": x for j, x in enumerate(X.T)} | {"y": y}
    options: dict[str, Any] = {"step_rule": "mboost", "learning_rate": RATE}
    splines = [bbs(j) for j in range(sizes.columns)]
    last = BoostedGAM(splines, max_iter=1, **options).fit(X, y)

    def lines(steps: int) -> Any:
        terms = [bols(j, intercept=False) for j in range(sizes.columns)]
        return BoostedGAM(terms, max_iter=steps, **options).fit(centred, y)

    def smooth(steps: int) -> Any:
        terms = [bbs(j) for j in range(sizes.columns)]
        return BoostedGAM(terms, max_iter=steps, **options).fit(X, y)

    def stability() -> Any:
        return stability_selection(
            last, q=10, pfer=1, B=sizes.subsamples, random_state=0, max_iter=sizes.steps
        )

    steps = sizes.steps
    return {
        f"lines, NumPy loop, {steps} steps": lambda: numpy_loop(X, y, steps),
        "lines, `BoostedGAM`, 1 step": lambda: lines(1),
        f"lines, `BoostedGAM`, {steps} steps": lambda: lines(steps),
        f'lines, `glmboost("y ~ .")`, {steps} steps': lambda: glmboost(
            "y ~ .", columns, max_iter=steps
        ),
        "lasso, `lars_path`": lambda: lars_path(centred, y, method="lasso"),
        "lasso, `lasso_path`, 100 penalties": lambda: lasso_path(centred, y),
        "splines, `BoostedGAM`, 1 step": lambda: smooth(1),
        f"splines, `BoostedGAM`, {steps} steps": lambda: smooth(steps),
        f"splines, stability selection, {2 * sizes.subsamples} fits": stability,
    }


def report(options: argparse.Namespace) -> Iterator[str]:
    """The report, line by line as it is measured."""
    sizes = QUICK if options.quick else FULL
    yield from head("Wide boosted models", choose(cpu=True), "scikit-learn")
    yield f"n = {sizes.rows}, p = {sizes.columns:,}, squared errors. The least of"
    yield f"{options.repeats} runs. Other programs ran at the same time: the load"
    yield f"average was {os.getloadavg()[0]:.1f} before.\n"
    yield from table_head("fit", "CPU, s", words=1)
    fits = models(sizes)
    least = dict.fromkeys(fits, np.inf)
    for _ in range(options.repeats):
        for name, fit in fits.items():
            begin = time.process_time()
            fit()
            least[name] = min(least[name], time.process_time() - begin)
    for name, seconds in least.items():
        yield row(name, three_digits(seconds))


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--quick", action="store_true", help="small sizes")
    made.add_argument("--repeats", type=int, default=3)
    options = made.parse_args()
    publish(report(options), options.output)


if __name__ == "__main__":
    main()
