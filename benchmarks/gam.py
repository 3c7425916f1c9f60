"""Time boosted models: families, rows, covariates, and folds.

    python benchmarks/gam.py --output FILE.md    # also FILE.json and charts
    python benchmarks/gam.py --cpu               # the CPU path
    python benchmarks/gam.py --parts folds       # the cross-validation only

The other models are of scikit-learn, if it is installed, and run on the CPU: boosted
trees of as many steps, and splines that are not boosted.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import charts
import numpy as np
from gam_peers import predicted, trees
from harness import Benchmark, Machine, to_host, wall_clock
from records import OURS, Part, Result

from gpusolve.gam import BoostedGAM, cv_stop, simulate
from gpusolve.gam.families import family_of

FAMILIES = ("gaussian", "poisson", "binomial")

N_BASIS, STEPS, FOLDS = 32, 100, 25

ROWS = {"cuda": [10**3, 10**4, 10**5, 10**6], "cpu": [10**3, 10**4, 10**5]}
COLUMNS = [10, 30, 100]

LONGEST = 5.0
"""Seconds of a fit. A model of another library that needs more is not repeated."""


def simulated(rows: int, columns: int) -> tuple[Any, dict[str, Any]]:
    """Covariates, and a response of each family.

    The numbers are the paper's simulation. Counts, and answers that are 0 or 1, have
    its additive function as their linear predictor.
    """
    X, y, active = simulate(rows)
    wave = np.sin(2 * np.pi * X[:, active]).sum(axis=1)
    predictor = wave / (2 * wave.std())
    rng = np.random.default_rng(rows)
    counts = rng.poisson(np.exp(predictor)).astype(float)
    answers = (rng.random(len(y)) < 1 / (1 + np.exp(-2 * predictor))).astype(float)
    responses = {"gaussian": y, "poisson": counts, "binomial": answers}
    return np.ascontiguousarray(X[:, :columns]), responses


def mean_loss(family: str, y: Any, mean: Any) -> float:
    """The mean negative log likelihood of a prediction; the mean squared error."""
    if family == "gaussian":
        return float(((y - mean) ** 2).mean())
    f = np.log(mean) if family == "poisson" else np.log(mean / (1 - mean)) / 2
    return float(family_of(family).loss(y, f, np.float64(0)).mean())


# ---- models --------------------------------------------------------------------------


def boosted(family: str, steps: int = STEPS) -> BoostedGAM:
    return BoostedGAM(n_basis=N_BASIS, max_iter=steps, family=family)


def splines(family: str) -> Any:
    """A generalised linear model of the same splines, stored as a sparse matrix."""
    from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import SplineTransformer

    last = {
        "gaussian": Ridge(),
        "poisson": PoissonRegressor(alpha=1e-3),
        "binomial": LogisticRegression(),
    }[family]
    knots = SplineTransformer(n_knots=N_BASIS - 2, sparse_output=True)
    return make_pipeline(knots, last)


PEERS: dict[str, Callable[[str], Any]] = {
    "boosted trees": partial(trees, max_iter=STEPS),
    "splines": splines,
}


# ---- measuring -----------------------------------------------------------------------


def families(machine: Machine, rows: list[int], columns: list[int]) -> Iterator[Result]:
    """Fits of all rows with most covariates, and of fewer covariates with few rows."""
    sizes = [(n, max(columns)) for n in rows]
    sizes += [(min(rows), p) for p in sorted(columns)[:-1]]
    for n, p in sizes:
        X, responses = simulated(n + n // 10, p)
        for family in FAMILIES if p == max(columns) else FAMILIES[:1]:
            y = responses[family]
            makers = {OURS: boosted, **(PEERS if machine.peers else {})}
            for peer, make in makers.items():
                try:
                    model = make(family)
                except ImportError:
                    continue
                xp = machine.xp if peer == OURS else np
                call = partial(model.fit, xp.asarray(X[:n]), xp.asarray(y[:n]))
                if peer == OURS or wall_clock(call).seconds <= LONGEST:
                    found, _ = machine.measure(peer, family, (n, p), call)
                    mean = to_host(predicted(model, xp.asarray(X[n:])))
                    yield found._replace(error=mean_loss(family, y[n:], mean))


def folds(machine: Machine, rows: list[int], columns: list[int]) -> Iterator[Result]:
    """All folds of a cross-validation, and one fit."""
    for n in rows:
        X, responses = simulated(n, max(columns))
        for family in FAMILIES:
            at = family, X.shape
            given = map(machine.xp.asarray, (X, responses[family]))
            model = boosted(family).fit(*given)
            call = partial(cv_stop, model, n_folds=FOLDS, random_state=0)
            yield machine.measure(OURS, *at, call, systems=FOLDS)[0]
            fit = partial(boosted(family).fit, machine.xp.asarray(X), responses[family])
            one = machine.measure("one fit", *at, fit)[0]
            yield one._replace(systems=FOLDS, solved=FOLDS)


def measure(
    part: Part, machine: Machine, options: argparse.Namespace
) -> Iterator[Result]:
    warnings.simplefilter("ignore")
    rows = options.sizes or ([200] if machine.small else ROWS[machine.name])
    columns = [4] if machine.small else COLUMNS
    if part.name == "folds":
        return folds(machine, rows if options.sizes else rows[-2:-1] or rows, columns)
    return families(machine, rows, columns)


PARTS = [
    Part(
        "families",
        f"""\
{N_BASIS} B-splines of each covariate, {STEPS} steps of learning rate 0.1, from the
arrays to the fitted model. The loss is of other rows, a tenth as many: the mean squared
error, or the mean negative log likelihood. "Boosted trees" is HistGradientBoosting with
as many steps, "splines" a generalised linear model of the same splines, by
scikit-learn. A model of another library that takes more than {LONGEST:g} s is left
out.""",
        tuple(PEERS),
        "loss",
    ),
    Part(
        "folds",
        f"""\
`cv_stop` with {FOLDS} bootstrap folds, all as one batch, and one fit of the same
model.""",
        ("one fit",),
    ),
]

BENCHMARK = Benchmark(
    doc=__doc__ or "",
    title="How fast boosting is",
    parts=PARTS,
    measure=measure,
    packages=("scikit-learn",),
    draw=partial(charts.draw, charts.GAM),
)

if __name__ == "__main__":
    BENCHMARK.main()
