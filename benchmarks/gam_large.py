"""Time the boosted GAM for many rows on the CPU, with peers.

    python benchmarks/gam_large.py --output FILE
    python benchmarks/gam_large.py --quick        # small sizes

Each fit runs in a process of its own. Its memory is the largest memory of the process,
with the data, less the memory before the data. The peers are the boosted trees of
scikit-learn and LightGBM, with as many trees as steps. They fit interactions, too: the
loss is of 10,000 other rows. Results are Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from harness import choose, head, parser, publish, row, table_head, three_digits


class Case(NamedTuple):
    """A problem: its name, rows, columns, steps, and the family of the response."""

    name: str
    rows: int
    columns: int
    steps: int
    family: str


CASES = (
    Case("many rows", 10**6, 30, 100, "poisson"),
    Case("rows and columns", 10**5, 100, 100, "gaussian"),
)

QUICK = tuple(case._replace(rows=200, columns=9, steps=5) for case in CASES)

HELD_OUT = 10_000


def data_of(case: Case, rows: int, seed: int) -> tuple[Any, Any]:
    """Uniform covariates, and a response that depends on the first five."""
    rng = np.random.default_rng(seed)
    X = rng.random((rows, case.columns))
    f = np.sin(6 * X[:, 0]) + X[:, 1] + 4 * (X[:, 2] - 0.5) ** 2 - X[:, 3] * 0.5 - 1
    if case.family == "poisson":
        return X, rng.poisson(np.exp(f)).astype(np.float64)
    return X, f + 0.5 * rng.standard_normal(rows)


# ---- models --------------------------------------------------------------------------


def ours(case: Case) -> Any:
    from gpusolve.gam import BoostedGAM

    return BoostedGAM(max_iter=case.steps, step_rule="mboost", family=case.family)


def scikit_learn(case: Case) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    loss = {"gaussian": "squared_error"}.get(case.family, case.family)
    return HistGradientBoostingRegressor(
        loss=loss, max_iter=case.steps, early_stopping=False
    )


def lightgbm(case: Case) -> Any:
    from lightgbm import LGBMRegressor

    objective = {"gaussian": "regression"}.get(case.family, case.family)
    return LGBMRegressor(objective=objective, n_estimators=case.steps, verbose=-1)


MODELS = {
    "BoostedGAM": ours,
    "HistGradientBoosting": scikit_learn,
    "LightGBM": lightgbm,
}


# ---- a process for each fit ----------------------------------------------------------


def peak() -> float:
    """The largest memory of this process so far, in bytes."""
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(case: Case, model: str) -> dict[str, float]:
    """Fit a model in this process; `peak` must not fall, so the data come last."""
    small = case._replace(rows=100, columns=6, steps=2)
    MODELS[model](small).fit(*data_of(small, 100, 0))  # imports
    before = peak()
    X, y = data_of(case, case.rows, 0)
    fitted = MODELS[model](case)
    wall, cpu = time.perf_counter(), time.process_time()
    fitted.fit(X, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    new, truth = data_of(case, HELD_OUT, 1)
    loss = mean_loss(case.family, truth, fitted.predict(new))
    memory = (peak() - before) / X.nbytes
    return {"wall": wall, "cpu": cpu, "memory": memory, "loss": loss}


def mean_loss(family: str, y: Any, mean: Any) -> float:
    """The mean squared error, or of counts the mean deviance."""
    if family == "gaussian":
        return float(np.mean((y - mean) ** 2))
    from sklearn.metrics import mean_poisson_deviance

    return float(mean_poisson_deviance(y, mean))


def measured(case: Case, model: str, repeats: int) -> dict[str, float] | None:
    """The least figures of some processes; None if the model is not installed."""
    command = [sys.executable, __file__, "--fit", model, *map(str, case)]
    found = []
    for _ in range(repeats):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if "ModuleNotFoundError" in done.stderr:
            return None
        if done.returncode:
            raise RuntimeError(done.stderr)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return {name: min(each[name] for each in found) for name in found[0]}


# ---- the report ----------------------------------------------------------------------


def report(options: argparse.Namespace) -> Iterator[str]:
    """The report, line by line as it is measured."""
    yield from head("Large boosted GAMs", choose(cpu=True), "scikit-learn", "lightgbm")
    yield f"The least of {options.repeats} processes. Other programs ran at the same"
    yield f"time: the load average was {os.getloadavg()[0]:.1f} before. Wall times are"
    yield "therefore too long; compare CPU times. Memory is a multiple of the data.\n"
    yield from table_head(
        "n", "columns", "steps", "model", "wall, s", "CPU, s", "memory", "loss", words=4
    )
    for case in QUICK if options.quick else CASES:
        for model in MODELS:
            found = measured(case, model, options.repeats)
            if found is not None:
                sizes = f"{case.rows:,}", f"{case.columns:,}", case.steps
                name = f"{model}, {case.name}" if model == "BoostedGAM" else model
                yield row(*sizes, name, *map(three_digits, found.values()))


def arguments() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--quick", action="store_true", help="small sizes")
    made.add_argument("--repeats", type=int, default=2)
    made.add_argument("--fit", nargs=6, help=argparse.SUPPRESS)
    return made.parse_args()


def main() -> None:
    options = arguments()
    if options.fit:
        model, name, rows, columns, steps, family = options.fit
        case = Case(name, int(rows), int(columns), int(steps), family)
        print(json.dumps(measure(case, model)))
        return
    publish(report(options), options.output)


if __name__ == "__main__":
    main()
