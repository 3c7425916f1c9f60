"""Time boosted models: families, rows, covariates, folds, and the two methods.

    python benchmarks/gam.py --output FILE.md    # also FILE.json and charts
    python benchmarks/gam.py --cpu               # the CPU path
    python benchmarks/gam.py --quick             # a few small sizes
    python benchmarks/gam.py --parts folds       # the cross-validation only

The other models are of scikit-learn, if it is installed: boosted trees of as many
steps, and splines that are not boosted. They run on the CPU. The page is Markdown.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import charts
import numpy as np
from harness import (
    Call,
    Machine,
    choose,
    command_line,
    count,
    facts,
    head,
    publish,
    row,
    table_head,
    three_digits,
    timing_parser,
    to_host,
    wall_clock,
)
from records import Result, Run, rounded

from gpusolve.gam import BoostedGAM, cv_stop, simulate
from gpusolve.gam.families import family_of

PARTS = ("families", "folds", "methods")
"""The parts of the report."""

FAMILIES = ("gaussian", "poisson", "binomial")
METHODS = ("stacked", "gram")
OURS = "BoostedGAM"

SPREAD = 0.5
"""The standard deviation of the linear predictor."""

LONGEST = 5.0
"""Seconds of a fit. A model of another library that needs more is not repeated."""


class Scale(NamedTuple):
    """The sizes of one machine."""

    rows: list[int]
    columns: list[int]
    fold_rows: list[int]
    n_basis: int = 32
    steps: int = 100
    folds: int = 25


SCALES = {
    "cuda": Scale([10**3, 10**4, 10**5, 10**6], [10, 30, 100], [10**4, 10**5]),
    "cpu": Scale([10**3, 10**4, 10**5], [10, 30, 100], [10**4]),
    "emulator": Scale([100], [4], [100], n_basis=8, steps=3, folds=3),
}


# ---- data ----------------------------------------------------------------------------


class Data(NamedTuple):
    """Covariates and a response of each family, on the host."""

    X: Any
    y: dict[str, Any]

    def some(self, rows: slice) -> Data:
        return Data(self.X[rows], {name: y[rows] for name, y in self.y.items()})


def data_of(rows: int, columns: int) -> tuple[Data, Data]:
    """Data to fit, and a tenth more that are held out.

    The numbers are the paper's simulation. Counts, and answers that are 0 or 1, have
    its additive function as their linear predictor.
    """
    X, y, active = simulate(rows + rows // 10)
    wave = np.sin(2 * np.pi * X[:, active]).sum(axis=1)
    predictor = SPREAD * wave / wave.std()
    rng = np.random.default_rng(rows)
    counts = rng.poisson(np.exp(predictor))
    answers = rng.random(len(y)) < 1 / (1 + np.exp(-2 * predictor))
    responses = {"gaussian": y, "poisson": counts, "binomial": answers}
    X = np.ascontiguousarray(X[:, :columns])
    data = Data(X, {name: y.astype(np.float64) for name, y in responses.items()})
    return data.some(slice(rows)), data.some(slice(rows, None))


def mean_loss(family: str, y: Any, mean: Any) -> float:
    """The mean negative log likelihood of a prediction; the mean squared error."""
    if family == "gaussian":
        return float(((y - mean) ** 2).mean())
    f = np.log(mean) if family == "poisson" else np.log(mean / (1 - mean)) / 2
    return float(family_of(family).loss(y, f, np.float64(0)).mean())


# ---- models --------------------------------------------------------------------------


def model_of(family: str, scale: Scale) -> BoostedGAM:
    return BoostedGAM(n_basis=scale.n_basis, max_iter=scale.steps, family=family)


def predicted(model: Any, X: Any) -> Any:
    """The predicted means: of a classifier, the probabilities of 1."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)[:, 1]
    return model.predict(X)


def boosted_trees(family: str, scale: Scale) -> Any:
    from sklearn import ensemble

    if family == "binomial":
        return ensemble.HistGradientBoostingClassifier(max_iter=scale.steps)
    loss = {"gaussian": "squared_error"}.get(family, family)
    return ensemble.HistGradientBoostingRegressor(loss=loss, max_iter=scale.steps)


def splines(family: str, scale: Scale) -> Any:
    """A generalised linear model of the same splines, stored as a sparse matrix."""
    from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import SplineTransformer

    last = {
        "gaussian": Ridge(),
        "poisson": PoissonRegressor(alpha=1e-3),
        "binomial": LogisticRegression(),
    }[family]
    knots = scale.n_basis - 2
    return make_pipeline(SplineTransformer(n_knots=knots, sparse_output=True), last)


PEERS: dict[str, Callable[[str, Scale], Any]] = {
    "boosted trees": boosted_trees,
    "splines": splines,
}


# ---- measuring -----------------------------------------------------------------------


class Batch(NamedTuple):
    """A family, the data, and the machine that fits."""

    machine: Machine
    scale: Scale
    family: str
    data: Data

    def result(
        self, peer: str, call: Call, fits: int = 1, host: bool = False
    ) -> tuple[Result, Any]:
        """Times of a call, and what it returned."""
        timed = self.machine.timing(call, on_host=host)
        found = Result(
            name=self.family,
            shape=self.data.X.shape,
            systems=fits,
            peer=peer,
            repeats=len(timed.seconds),
            median=timed.median,
            spread=timed.spread,
            solved=fits,
            error=None,
        )
        return rounded(found), timed.result


def our_fit(batch: Batch) -> tuple[Result, Any]:
    X, y = batch.data.X, batch.data.y[batch.family]
    given = batch.machine.xp.asarray(X), batch.machine.xp.asarray(y)
    model = model_of(batch.family, batch.scale)
    return batch.result(OURS, partial(model.fit, *given))


def peer_fits(batch: Batch) -> Iterator[tuple[Result, Any]]:
    """A fit of each model whose library is installed, unless it takes too long."""
    for name, make in PEERS.items():
        try:
            model = make(batch.family, batch.scale)
        except ImportError:
            continue
        call = partial(model.fit, batch.data.X, batch.data.y[batch.family])
        if wall_clock(call).seconds <= LONGEST:
            yield batch.result(name, call, host=True)


def family_results(
    machine: Machine, scale: Scale, rows: list[int], columns: list[int]
) -> Iterator[Result]:
    """Fits of all rows with most covariates, and of fewer covariates with few rows."""
    sizes = [(n, max(columns)) for n in rows]
    sizes += [(min(rows), p) for p in sorted(columns)[:-1]]
    for n, p in sizes:
        data, held = data_of(n, p)
        for family in FAMILIES if p == max(columns) else FAMILIES[:1]:
            batch = Batch(machine, scale, family, data)
            peers = peer_fits(batch) if machine.peers else ()
            for found, model in (our_fit(batch), *peers):
                X = machine.xp.asarray(held.X) if found.peer == OURS else held.X
                mean = to_host(predicted(model, X))
                yield found._replace(error=mean_loss(family, held.y[family], mean))


def fold_results(
    machine: Machine, scale: Scale, rows: list[int], columns: int
) -> Iterator[Result]:
    """One fit, and all folds of its cross-validation."""
    options = {"n_folds": scale.folds, "random_state": 0}
    for n in rows:
        data, _ = data_of(n, columns)
        for family in FAMILIES:
            batch = Batch(machine, scale, family, data)
            fit, model = our_fit(batch)
            yield fit._replace(peer="one fit")
            call = partial(cv_stop, model, **options)
            yield batch.result("cv_stop", call, scale.folds)[0]


def method_results(
    machine: Machine, scale: Scale, rows: list[int], columns: int
) -> Iterator[Result]:
    """A step, which is the set-up, and all steps by each method; the final risks."""
    for n in rows:
        data, _ = data_of(n, columns)
        batch = Batch(machine, scale, "gaussian", data)
        X, y = map(machine.xp.asarray, (data.X, data.y["gaussian"]))
        one = model_of("gaussian", scale).set_params(max_iter=1)
        yield batch.result("1 step", partial(one.fit, X, y))[0]
        for method in METHODS:
            model = model_of("gaussian", scale).set_params(method=method)
            found, fitted = batch.result(method, partial(model.fit, X, y))
            yield found._replace(error=float(fitted.risk_[-1]))


# ---- the page ------------------------------------------------------------------------

ABOUT = {
    "families": """
## Families

{scale.n_basis} B-splines of each covariate, {scale.steps} steps of learning rate 0.1,
from the arrays to the fitted model; seconds and, in brackets, their interquartile
range. The loss is of other rows, a tenth as many: the mean squared error, or the mean
negative log likelihood. "Boosted trees" is HistGradientBoosting with as many steps,
"splines" a generalised linear model of the same splines, by scikit-learn. A model of
another library that takes more than {longest:g} s is left out.
""",
    "folds": """
## Cross-validation

`cv_stop` with {scale.folds} bootstrap folds, all as one batch, and one fit of the same
model.
""",
    "methods": """
## Methods

Squared errors. A fit of a single step is mostly the set-up: bases, smoothing
parameters and inverses. {scale.steps} steps follow, by each method; a GPU has one
method. The loss is the sum of squared residuals: equal sums are equal models.

Quoted, not measured here: 1e5 rows, 100 covariates, 32 B-splines, 100 steps, on 4
shared cores. mboost 2.9-13: set-up 8 s, fit 40 to 46 s. compboost, 4 threads: set-up
7.3 s, fit 5.9 s; with binning, not exact, 0.56 s and 0.90 s.
""",
}


def cell(one: Result | None) -> str:
    """Seconds and their spread."""
    if one is None:
        return ""
    return f"{three_digits(one.median)} ({one.spread / one.median:.0%})"


def loss(one: Result | None) -> str:
    return "" if one is None or one.error is None else f"{one.error:.5g}"


def table(
    results: Iterable[Result], timed: tuple[str, ...], judged: tuple[str, ...]
) -> Iterator[str]:
    """A line for each family and size: the times, and the losses, of the models."""
    names = *(f"{peer} s" for peer in timed), *(f"{peer} loss" for peer in judged)
    yield from table_head("family", "rows", "covariates", *names)
    for _, batch in groupby(results, key=attrgetter("label")):
        found = {one.peer: one for one in batch}
        first = next(iter(found.values()))
        n, p = first.shape
        times = (cell(found.get(peer)) for peer in timed)
        losses = (loss(found.get(peer)) for peer in judged)
        yield row(first.name, f"{n:,}", p, *times, *losses)


COLUMNS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "families": ((OURS, *PEERS), (OURS, *PEERS)),
    "folds": (("one fit", "cv_stop"), ()),
    "methods": (("1 step", *METHODS), METHODS),
}
"""The columns of each part: the models with times, and the models with losses."""


def kept(run: Run, results: Iterable[Result]) -> Iterator[Result]:
    """The results, which are added to a run as they come."""
    for one in results:
        run.results.append(one)
        yield one


def report(machine: Machine, options: argparse.Namespace, run: Run) -> Iterator[str]:
    """The report; the results are added to the run."""
    yield from head("How fast boosting is", machine, "scikit-learn")
    if options.output:
        yield from charts.links(options.output, charts.GAM)
    scale = SCALES[machine.name]
    columns = [options.columns] if options.columns else scale.columns
    some = options.sizes or (scale.rows[:2] if options.quick else None)
    measure = {
        "families": partial(family_results, rows=some or scale.rows, columns=columns),
        "folds": partial(
            fold_results, rows=some or scale.fold_rows, columns=max(columns)
        ),
        "methods": partial(
            method_results, rows=some or scale.rows, columns=max(columns)
        ),
    }
    for part in options.parts:
        yield ABOUT[part].format(scale=scale, longest=LONGEST)
        results = kept(run, measure[part](machine, scale))
        yield from table(results, *COLUMNS[part])


def arguments() -> argparse.Namespace:
    made = timing_parser(__doc__, "rows of data", repeats=5)
    made.add_argument("--quick", action="store_true", help="a few small sizes")
    made.add_argument(
        "--parts", choices=PARTS, nargs="+", default=PARTS, help="of the report"
    )
    made.add_argument("--columns", type=count, help="covariates, to 100")
    return made.parse_args()


def main() -> None:
    options = arguments()
    warnings.simplefilter("ignore")
    machine = choose(options.emulate, options.cpu, options.repeats, options.peers)
    run = Run(command_line(), facts(machine.cupy, "scikit-learn"), [])
    publish(report(machine, options, run), options.output)
    if options.output:
        run.save(options.output.with_suffix(".json"))
        charts.draw(run, options.output, charts.GAM)


if __name__ == "__main__":
    main()
