"""Times of boosted GAMs of other families, and of their cross-validation.

`gam.py` calls this. The linear predictor of both responses is the additive function of
the paper's simulation, with a standard deviation of 1/2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from harness import Machine, row, table_head, wall_clock

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


def data_of(rows: int, columns: int) -> Data:
    """Counts, and answers that are 0 or 1, with the same linear predictor."""
    X, y, active = simulate(rows)
    wave = np.sin(2 * np.pi * X[:, active]).sum(axis=1)
    predictor = SPREAD * wave / wave.std()
    rng = np.random.default_rng(rows)
    counts = rng.poisson(np.exp(predictor))
    answers = rng.random(rows) < 1 / (1 + np.exp(-2 * predictor))
    responses = {"gaussian": y, "poisson": counts, "binomial": answers}
    X = np.ascontiguousarray(X[:, :columns])
    return Data(X, {name: one.astype(np.float64) for name, one in responses.items()})


def mean_loss(family: str, y: Any, f: Any) -> float:
    """The mean loss of the additive predictor f."""
    return float(family_of(family).loss(y, f, np.float64(0)).mean())


# ---- other libraries -----------------------------------------------------------------


class Peer(NamedTuple):
    """A model of another library: how it is made, and its predictor f."""

    name: str
    make: Callable[[Scale], Any]
    predictor: Callable[[Any, Any], Any]


def log_mean(model: Any, X: Any) -> Any:
    return np.log(model.predict(X))


def half_logit(model: Any, X: Any) -> Any:
    return model.decision_function(X) / 2


def with_splines(last: Any, scale: Scale) -> Any:
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

    return with_splines(PoissonRegressor(alpha=1e-3), scale)


def binomial_splines(scale: Scale) -> Any:
    from sklearn.linear_model import LogisticRegression

    return with_splines(LogisticRegression(), scale)


PEERS = {
    "poisson": (
        Peer("HistGradientBoosting", poisson_trees, log_mean),
        Peer("SplineTransformer + PoissonRegressor", poisson_splines, log_mean),
    ),
    "binomial": (
        Peer("HistGradientBoosting", binomial_trees, half_logit),
        Peer("SplineTransformer + LogisticRegression", binomial_splines, half_logit),
    ),
}


def peer_rows(family: str, scale: Scale, X: Any, y: Any) -> Iterator[tuple[str, ...]]:
    """Name, seconds and mean loss of each model whose library is installed."""
    for peer in PEERS[family]:
        try:
            model = peer.make(scale)
        except ImportError:
            continue
        seconds, _ = wall_clock(partial(model.fit, X, y))
        loss = mean_loss(family, y, peer.predictor(model, X))
        yield peer.name, f"{seconds:.3f}", f"{loss:.5f}"


# ---- the tables ----------------------------------------------------------------------


def model_of(family: str, scale: Scale) -> BoostedGAM:
    return BoostedGAM(n_basis=scale.n_basis, max_iter=scale.steps, family=family)


ABOUT_FAMILIES = """
## Families

{columns} covariates, k = {scale.n_basis}, {scale.steps} steps of learning rate 0.1,
from the arrays to the fitted model. The loss is the mean negative log likelihood of
the data that were fitted. The other libraries fit other models to the same data, once:
trees of the same number of steps, or splines without boosting.
"""


def family_lines(
    machine: Machine, scale: Scale, rows: list[int], columns: int
) -> Iterator[str]:
    """The times of one fit of each family."""
    yield ABOUT_FAMILIES.format(columns=columns, scale=scale)
    yield from table_head("n", "family", "model", "total s", "mean loss", words=3)
    for n in rows:
        data = data_of(n, columns)
        X = machine.xp.asarray(data.X)
        for family in FAMILIES:
            y = data.y[family]
            fit = partial(model_of(family, scale).fit, X, machine.xp.asarray(y))
            timed = machine.timing(fit)
            loss = float(timed.result.risk_[-1]) / n
            ours = "gpusolve", f"{timed.median:.3f}", f"{loss:.5f}"
            yield row(f"{n:,}", family, *ours)
            if machine.peers:
                for cells in peer_rows(family, scale, data.X, y):
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
        data = data_of(n, columns)
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
