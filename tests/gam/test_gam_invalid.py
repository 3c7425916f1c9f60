"""Invalid calls: each is an error that names what is wrong."""

from __future__ import annotations

import builtins
import pickle  # noqa: F401
from functools import cache
from pathlib import Path
from runpy import run_path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd  # noqa: F401
import polars as pl  # noqa: F401
import pytest
from scipy.sparse import csr_array  # noqa: F401
from sklearn.model_selection import LeaveOneOut  # noqa: F401

from gpusolve import gam
from gpusolve.gam import (
    BoostedDistribution,
    BoostedGAM,
    BoostedGAMClassifier,
    aic_stop,
    bbs,
    bols,
    cv_stop,
    distributions,
    families,
    gamboost,
    glmboost,
    load,
    stability_selection,
)
from gpusolve.gam.families import Custom

N = 60
X = np.random.default_rng(0).random((N, 3))
Y = np.sin(6 * X[:, 0])
TIMES = np.c_[1 + X[:, 0], np.ones(N)]
THREE = np.arange(N) % 3
NAMED = np.resize(["low", "all", "high"], N)
DATA: dict[str, Any] = {
    "x": np.linspace(-2, 3, N),
    "t": 1 + Y**2,
    "count": THREE,
    "day": np.linspace(0, 365, N),
    "g": np.resize([*"abcd"], N),
    "a name": Y,
    "none": np.full(N, np.nan),
    "one": np.full(N, "only"),
}
HOLES, INFINITE = X.copy(), X.copy()
HOLES[3, 2], INFINITE[3, 2] = np.nan, np.inf
TERMS = [bbs(0, knots=5), bbs(1, knots=5), bols(2)]


def fit(learners: Any = None, y: Any = Y, given: Any = X, **options: Any) -> Any:
    return BoostedGAM(learners, **{"max_iter": 5, **options}).fit(given, y)


def classify(y: Any, **options: Any) -> Any:
    return BoostedGAMClassifier(max_iter=3, **options).fit(X, y)


def ordinal(y: Any) -> Any:
    return classify(y, family="prop_odds")


def distribute(y: Any = Y, offset: Any = None, **options: Any) -> Any:
    return BoostedDistribution(**{"max_iter": 3, **options}).fit(X, y, offset=offset)


@cache
def plain() -> Any:
    return fit(TERMS)


@cache
def survival() -> Any:
    return fit(y=TIMES, family="weibull")


@cache
def spread() -> Any:
    return distribute()


def curves(formula: Any, **given: Any) -> Any:
    return gamboost(formula, {"a": Y + 2, "b": X[:, 0] + 1, "c": X[:, 1]}, **given)


def lines(formula: Any, **given: Any) -> Any:
    return glmboost(formula, {"a": Y + 2, "b": X[:, 0] + 1, "c": X[:, 1]}, **given)


def formula(text: str) -> Any:
    return gamboost(text, {name: DATA[name] for name in FORMULA_COLUMNS}, max_iter=1)


FORMULA_COLUMNS = "x", "t", "count", "g", "a name"


def again(given: Any = X, y: Any = Y, offset: Any = None, **changed: Any) -> Any:
    """A second fit of a warm start."""
    model = fit(warm_start=True, df=4).set_params(**{"max_iter": 9, **changed})
    return model.fit(given, y, offset=offset)


def constant(family: str, value: float, other: float | None = None) -> Any:
    """A constant response; rows of another value have no weight."""
    y, w = np.full(N, value), np.ones(N)
    if other is not None:
        y[:3], w[:3] = other, 0
    return BoostedDistribution(family=family, max_iter=3).fit(X, y, w)


def scored(**changed: Any) -> Any:
    """A prediction by the written module of a model of x or g."""
    with TemporaryDirectory() as folder:
        path = f"{folder}/scorer.py"
        fit([bbs("x") if "x" in changed else bols("g")], given=DATA).to_python(path)
        predict = run_path(path)["predict"]
    return predict(DATA | {name: np.full(N, x, object) for name, x in changed.items()})


def read(text: str) -> Any:
    """A model from a file of this text."""
    with NamedTemporaryFile("w") as file:
        file.write(text)
        file.flush()
        return load(file.name)


def stored(model: str) -> Any:
    """A model that is read from a file."""
    head = '"format": "gpusolve.gam", "version": 1, "package": "1"'
    return read(f'{{{head}, "model": {model}}}')


def events(count: int) -> Any:
    """Times, of which the first have an event."""
    return np.c_[1 + X[:, 0], np.arange(N) < count]


def halves(key: Any) -> Any:
    """All rows of a small key in the bag, and all others left out."""
    order = np.argsort(key, kind="stable")
    return [(order[: N // 2], order[N // 2 :])]


def folds(given: Any, **options: Any) -> Any:
    return cv_stop(plain(), given, **options)


def own(**given: Any) -> Custom:
    return Custom("x", gradient=np.subtract, loss=np.hypot, **given)


def select(**given: Any) -> Any:
    return stability_selection(plain(), **{"q": 2, "pfer": 1, **given})


def stop(criterion: str | None = None, **given: Any) -> Any:
    return aic_stop(fit(**{"learners": TERMS, **given}), criterion)


def numbers(*values: float) -> Any:
    return np.array(values, float)


class Row(NamedTuple):
    """A call, its exception and a pattern of the message."""

    error: type[Exception]
    call: str
    message: str


def read_tables() -> dict[str, list[Row]]:
    """The rows by the heading above them."""
    tables: dict[str, list[Row]] = {}
    for line in TABLE.read_text().splitlines():
        if line.startswith("# "):
            rows = tables[line[2:]] = []
        else:
            error, call, message = line.split(" | ")
            rows.append(Row(getattr(builtins, error), call, message))
    return tables


TABLE = Path(__file__).parents[1] / "support" / "gam_invalid.txt"
"""Lines such as "ValueError | fit(df=0) | df must be positive"."""

TABLES = read_tables()


NAMES = {**vars(distributions), **vars(families), **vars(gam), **globals()}
"""What a call may name: public names, and the functions of this file."""


def attempt(call: str) -> None:
    """Make the call, whose success names it."""
    eval(call, NAMES)
    pytest.fail(f"no error: {call}")


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.filterwarnings("ignore")
def test_invalid_calls_name_what_is_wrong(table: str) -> None:
    for error, call, message in TABLES[table]:
        with pytest.raises(error, match=message):
            attempt(call)
