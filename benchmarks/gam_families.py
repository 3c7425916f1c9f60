"""Times of boosted GAMs of other families, and of their cross-validation.

`gam.py` calls this. The linear predictor of both responses is the additive function of
the paper's simulation, with a standard deviation of 1/2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from harness import Machine, row, table_head, to_host, wall_clock

from gpusolve.gam import BoostedGAM, cv_stop, simulate
from gpusolve.gam.families import family_of

FAMILIES = ("poisson", "binomial")
SPREAD = 0.5
"""The standard deviation of the linear predictor."""


class Scale(NamedTuple):
    """The sizes of one machine: rows of the families and of the folds, and the rest."""

    rows: list[int]
    fold_rows: list[int]
    n_basis: int = 32
    steps: int = 100
    folds: int = 25


SCALES = {
    "cuda": Scale([10**5, 10**6], [10**4, 10**5]),
    "cpu": Scale([10**5], [10**4]),
    "emulator": Scale([100], [100], n_basis=8, steps=3, folds=3),
}


class Data(NamedTuple):
    """Covariates and a response of each family, on the host."""

    X: Any
    y: dict[str, Any]

    def some(self, rows: slice) -> Data:
        return Data(self.X[rows], {name: y[rows] for name, y in self.y.items()})


def data_of(rows: int, columns: int) -> tuple[Data, Data]:
    """Data to fit, and a tenth more that are held out.

    Counts, and answers that are 0 or 1, have the same linear predictor.
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
    """The mean negative log likelihood of a prediction."""
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


def add_splines(last: Any, scale: Scale) -> Any:
    """A generalised linear model of the same splines, stored as a sparse matrix."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import SplineTransformer

    knots = scale.n_basis - 2
    return make_pipeline(SplineTransformer(n_knots=knots, sparse_output=True), last)


def poisson_trees(scale: Scale) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(loss="poisson", max_iter=scale.steps)


def binomial_trees(scale: Scale) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=scale.steps)


def poisson_splines(scale: Scale) -> Any:
    from sklearn.linear_model import PoissonRegressor

    return add_splines(PoissonRegressor(alpha=1e-3), scale)


def binomial_splines(scale: Scale) -> Any:
    from sklearn.linear_model import LogisticRegression

    return add_splines(LogisticRegression(), scale)


PEERS: dict[str, dict[str, Callable[[Scale], Any]]] = {
    "poisson": {
        "HistGradientBoosting": poisson_trees,
        "SplineTransformer + PoissonRegressor": poisson_splines,
    },
    "binomial": {
        "HistGradientBoosting": binomial_trees,
        "SplineTransformer + LogisticRegression": binomial_splines,
    },
}


class Fit(NamedTuple):
    """A model, its seconds, and its prediction of the held-out rows."""

    model: str
    seconds: float
    mean: Any


def our_fit(machine: Machine, family: str, scale: Scale, data: Data, held: Data) -> Fit:
    X, y = machine.xp.asarray(data.X), machine.xp.asarray(data.y[family])
    timed = machine.timing(partial(model_of(family, scale).fit, X, y))
    mean = to_host(timed.result.predict(machine.xp.asarray(held.X)))
    return Fit("gpusolve", timed.median, mean)


def peer_fits(family: str, scale: Scale, data: Data, held: Data) -> Iterator[Fit]:
    """A fit of each model whose library is installed."""
    for name, make in PEERS[family].items():
        try:
            model = make(scale)
        except ImportError:
            continue
        seconds, _ = wall_clock(partial(model.fit, data.X, data.y[family]))
        yield Fit(name, seconds, predicted(model, held.X))


def fits_of(
    machine: Machine, family: str, scale: Scale, data: Data, held: Data
) -> Iterator[Fit]:
    yield our_fit(machine, family, scale, data, held)
    if machine.peers:
        yield from peer_fits(family, scale, data, held)


# ---- the tables ----------------------------------------------------------------------


ABOUT_FAMILIES = """
## Families

{columns} covariates, k = {scale.n_basis}, {scale.steps} steps of learning rate 0.1,
from the arrays to the fitted model. The loss is the mean negative log likelihood of
other rows, a tenth as many. The other libraries fit other models to the same data, on
the CPU and once: trees of the same number of steps, or splines without boosting.
"""


def family_lines(
    machine: Machine, scale: Scale, rows: list[int], columns: int
) -> Iterator[str]:
    """The times of one fit of each family."""
    yield ABOUT_FAMILIES.format(columns=columns, scale=scale)
    yield from table_head("n", "family", "model", "total s", "mean loss", words=3)
    for n in rows:
        data, held = data_of(n, columns)
        for family in FAMILIES:
            for fit in fits_of(machine, family, scale, data, held):
                loss = mean_loss(family, held.y[family], fit.mean)
                cells = fit.model, f"{fit.seconds:.3f}", f"{loss:.5f}"
                yield row(f"{n:,}", family, *cells)


ABOUT_FOLDS = """
## Cross-validation

`cv_stop` with {scale.folds} bootstrap folds: {columns} covariates, k = {scale.n_basis},
{scale.steps} steps, all folds as one batch. The ratio is to one fit of the same model.
"""


def fold_lines(
    machine: Machine, scale: Scale, rows: list[int], columns: int
) -> Iterator[str]:
    """The times of one fit, and of all folds."""
    yield ABOUT_FOLDS.format(columns=columns, scale=scale)
    yield from table_head("n", "family", "fit s", "folds s", "ratio", "best", words=2)
    for n in rows:
        data, _ = data_of(n, columns)
        X = machine.xp.asarray(data.X)
        for family in ("gaussian", *FAMILIES):
            y = machine.xp.asarray(data.y[family])
            fit = machine.timing(partial(model_of(family, scale).fit, X, y))
            options = {"n_folds": scale.folds, "random_state": 0}
            folds = machine.timing(partial(cv_stop, fit.result, **options))
            yield row(
                f"{n:,}",
                family,
                f"{fit.median:.3f}",
                f"{folds.median:.3f}",
                f"{folds.median / fit.median:.1f}",
                folds.result.best_iteration,
            )
