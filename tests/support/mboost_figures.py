"""The results of mboost for mixed data, and what was asked of it, in our words."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gpusolve.gam.families import (
    Binomial,
    Expectile,
    Family,
    Gamma,
    Gaussian,
    Huber,
    Laplace,
    Poisson,
    Quantile,
)
from gpusolve.gam.terms import Term, bbs, bmono, bols, brandom, bspatial, buser

DATA = Path(__file__).parents[1] / "mboost"

Vector = NDArray[np.float64]


def mixed(n: int = 300, seed: int = 20240611) -> dict[str, NDArray[Any]]:
    """The columns behind every figure: numbers, factors, places, and five responses.

    `y` is Gaussian, `yb` yes or no, `yc` a count, `yg` positive, and `yr` has outliers.
    """
    rng = np.random.default_rng(seed)
    x = {f"x{j}": rng.random(n) for j in range(1, 6)}
    doy = rng.integers(0, 366, n)
    g = rng.choice(4, n, p=[0.35, 0.3, 0.2, 0.15])
    group = rng.integers(0, 12, n)
    lon, lat = 5 + 5 * rng.random(n), 45 + 5 * rng.random(n)
    effect = 0.5 * rng.standard_normal(12)
    bump = np.exp(-((lon - 7.0) ** 2 + (lat - 47.5) ** 2) / 1.5)
    eta = (
        np.sin(2 * np.pi * x["x1"])
        + 1.5 * (x["x2"] - 0.5)
        + np.array([-2.0, 0.0, 1.5, 3.0])[g] * (x["x3"] - 0.5)
        + np.array([0.0, 0.4, -0.3, 0.2])[g]
        + 0.8 * np.cos(2 * np.pi * (doy - 30) / 365)
        + effect[group]
        + 1.2 * bump
        - 0.3
    )
    y = 2 + eta + 0.5 * rng.standard_normal(n)
    yes = rng.random(n) < 1 / (1 + np.exp(-1.3 * eta))
    counts = rng.poisson(np.exp(0.5 + 0.5 * eta))
    positive = np.exp(0.8 + 0.5 * eta) * rng.gamma(3.0, 1 / 3.0, n)
    outliers = rng.choice(n, n // 20, replace=False)
    robust = y.copy()
    robust[outliers] += rng.choice([-1.0, 1.0], n // 20) * (
        8 + 12 * rng.random(n // 20)
    )
    return {
        **x,
        "doy": doy,
        "g": np.array(list("abcd"))[g],
        "id": np.array([f"i{k:02d}" for k in range(1, 13)])[group],
        "lon": lon,
        "lat": lat,
        "y": y,
        "yb": np.where(yes, "yes", "no"),
        "yc": counts,
        "yg": positive,
        "yr": robust,
        "w_cont": np.round(0.5 + 1.5 * rng.random(n), 3),
        "w_int": rng.integers(1, 4, n),
        "off": np.round(2 + 0.5 * rng.standard_normal(n), 3),
    }


def add_derived(columns: dict[str, Any]) -> pd.DataFrame:
    """The columns, and derived columns that some of the calls use."""
    data = pd.DataFrame(columns)
    if "y" in data:  # not for new rows: the data give the means
        for name in ("x1", "x2", "x3"):
            data[name + "c"] = data[name] - data[name].mean()
        row = np.arange(len(data))  # a grid of 20 by 15 values, the first runs fastest
        data["a"] = data["x1"].to_numpy()[row % 20]
        data["b"] = data["x2"].to_numpy()[row // 20]
    data["int"] = 1.0
    data["go"] = pd.Categorical(data["g"], categories=list("abcd"), ordered=True)
    return data.assign(x1_2=data["x1"] ** 2, x1_3=data["x1"] ** 3, x2_2=data["x2"] ** 2)


def load(name: str) -> dict[str, Any]:
    """The figures of this name, as mboost gave them."""
    found: dict[str, Any] = json.loads((DATA / f"mixed_{name}.json").read_text())
    return found


def folds() -> dict[str, Vector]:
    """The weights of the folds by name: 5 of k-fold validation, and 10 bootstraps."""
    lines = (DATA / "mixed_folds.txt").read_text().splitlines()
    named = (line.split() for line in lines)
    return {name: np.array(list(digits), np.float64) for name, digits in named}


def rescaled(weights: Vector) -> Vector:
    """The weights of mboost: weights that are not integers sum to their number."""
    if (weights == np.round(weights)).all():
        return weights
    return weights / weights.sum() * np.count_nonzero(weights)


@dataclass(frozen=True)
class Fit:
    """What mboost was asked for.

    Attributes
    ----------
    terms : list of Term
    family : Family, optional
    response, weights, offset : str, optional
        Columns. Without an offset, mboost's own is the start.
    eigenvectors : bool, optional
        Whether coefficients depend on the eigenvectors chosen: only fits are compared.
    """

    terms: list[Term]
    family: Family = field(default_factory=Gaussian)
    response: str = "y"
    weights: str | None = None
    offset: str | None = None
    eigenvectors: bool = False


@cache
def data() -> pd.DataFrame:
    """The columns behind every figure, and derived columns."""
    return add_derived(mixed())


def column(name: str) -> Vector:
    return data()[name].to_numpy(np.float64)


def response_of(fit: Fit) -> Vector:
    """The response; 0 or 1 for no or yes."""
    if fit.response == "yb":
        return np.asarray(data()["yb"] == "yes", np.float64)
    return column(fit.response)


def weights_of(fit: Fit) -> Vector | None:
    """The weights that mboost uses; None if all are 1."""
    return None if fit.weights is None else rescaled(column(fit.weights))


def five() -> list[Term]:
    return [bbs(f"x{j}") for j in range(1, 6)]


DAY = {"cyclic": True, "boundary": (0, 365)}


def centred(center: bool | str) -> list[Term]:
    """An intercept, and a line and what remains of a curve for three covariates."""
    terms: list[Term] = [bols("int", intercept=False)]
    for name in ("x1c", "x2c", "x3c"):
        terms += [bols(name, intercept=False), bbs(name, center=center, df=1)]
    return terms


def coded(contrasts: str) -> list[Term]:
    return [bols("g", df=2, contrasts=contrasts), bols("x2"), bbs("x1")]


def rising(name: str, **options: Any) -> Term:
    return bmono(name, constraint="increasing", **options)


WEIGHTED: dict[str, dict[str, Any]] = {
    "": {},
    "_wcont": {"weights": "w_cont"},
    "_wint": {"weights": "w_int"},
}
"""The columns of weights, by the end of a figure's name."""

FAMILIES: dict[str, Fit] = {
    name + weighted: Fit(five(), family, response, **WEIGHTED[weighted])
    for name, family, response, all_weighted in [
        ("gaussian", Gaussian(), "y", ["", "_wcont", "_wint"]),
        ("laplace", Laplace(), "y", ["", "_wcont"]),
        ("quantreg_0.5", Quantile(0.5), "y", [""]),
        ("quantreg_0.9", Quantile(0.9), "y", ["", "_wint"]),
        ("expectreg_0.8", Expectile(0.8), "y", ["", "_wint"]),
        ("huber_d2", Huber(2.0), "yr", [""]),
        ("huber_adaptive", Huber(), "yr", [""]),
        ("binomial", Binomial(), "yb", ["", "_wcont"]),
        ("binomial_glm", Binomial(link="logit"), "yb", ["", "_wint"]),
        ("poisson", Poisson(), "yc", ["", "_wint"]),
        ("gammareg", Gamma(), "yg", ["", "_wint"]),
    ]
    for weighted in all_weighted
} | {"gaussian_offset": Fit(five(), offset="off")}
"""The fits of one spline for each of five covariates, with all families."""

SAME_OFFSET = [
    *("gaussian", "gaussian_wcont", "gaussian_wint", "binomial", "binomial_wcont"),
    *("poisson", "poisson_wint"),
]
"""The fits whose offset mboost computes as we do."""

LEARNERS: dict[str, list[Term]] = {
    "bols": [*(bols(f"x{j}") for j in range(1, 5)), bols("x5", df=1.5)],
    "bols_by": [bols("x1", "x3"), bols("x3", by="g", df=2), bols("x2", by="x4")],
    "bols_centred": [*(bols(f"x{j}c", intercept=False) for j in (1, 2, 3)), bbs("x1")],
    "bols_factor": [
        *(bols("g"), bols("g", intercept=False, df=1)),
        *(bols("x2"), bbs("x1")),
    ],
    "bols_factor_df2": coded("treatment"),
    "bols_factor_dummy": coded("dummy"),
    "bols_factor_helmert": coded("helmert"),
    "bols_factor_sum": coded("sum"),
    "bols_ordered": [bols("go", df=2), bols("x2"), bbs("x1")],
    "bbs_by_factor": [
        *(bbs("x3", by="g", df=7), bbs("x1")),
        *(bols("x2"), bols("g", df=2)),
    ],
    "bbs_by_numeric": [bbs("x1", by="x2"), bbs("x3", by="x2"), bbs("x2")],
    "bbs_opts": [
        bbs("x1", knots=10, degree=2, differences=1),
        bbs("x2", knots=15, degree=1, df=3),
        bbs("x3", differences=3, df=5),
        bbs("x4", knots=8, differences=0, df=2),
        bbs("x5", lambda_=10),
        bbs("doy", knots=(60, 120, 180, 240, 300), boundary=(0, 365)),
    ],
    "cyclic": [bbs("doy", **DAY), bbs("x1"), bbs("x2")],
    "cyclic_opts": [
        bbs("doy", knots=12, degree=2, differences=1, df=3, **DAY),
        *(bbs("x1"), bbs("x2")),
    ],
    "decomp": centred(True),
    "decomp_spectral": centred("spectral"),
    "brandom": [brandom("id"), bbs("x1"), bols("x2")],
    "brandom_by": [brandom("id", df=2), brandom("id", by="x3", df=3), bbs("x1")],
    "bspatial": [bspatial("lon", "lat", df=6, knots=6), bbs("x1"), bbs("x2")],
    "bspatial_centred": [
        bspatial("lon", "lat", knots=5, center=True, df=2),
        *(bols("lon"), bols("lat"), bbs("x1")),
    ],
    "bmono": [rising("x2"), rising("x1"), rising("x3"), bols("g", df=2)],
    "bmono_other": [
        bmono("x1", constraint="decreasing"),
        bmono("x3", constraint="convex"),
        bmono("x2", constraint="positive", knots=8),
        bmono("doy", constraint="concave", knots=8),
    ],
    "bmono_iterative": [
        *(rising("x3", knots=50), rising("x2", knots=50), bols("g", df=2))
    ],
    "buser": [
        buser("int", "x1", "x1_2", "x1_3", K=np.diag([0, 1, 1, 1]), lambda_=2),
        *(buser("x2", "x2_2", K=np.eye(2), df=1), bbs("x3")),
    ],
    "op_sum": [
        bols("x1") + bols("x2", intercept=False),
        bbs("x3", knots=8) + bols("g", df=2),
        bbs("x1"),
    ],
    "op_tensor": [
        bols("g", df=2, contrasts="dummy") * bbs("x3", knots=8, df=3),
        *(bbs("x1"), bols("x2")),
    ],
    "op_lambda": [
        bols("g", lambda_=1, contrasts="dummy") * bbs("x3", knots=8, lambda_=5),
        bols("x1", lambda_=3) + bbs("x2", knots=8, lambda_=4),
        bols("x2"),
    ],
    "op_kronecker": [  # mboost's a %O% b has the index of b slow
        bbs("b", knots=5, df=2.5) * bbs("a", knots=6, df=2.5),
        bbs("b", knots=5, df=3) * bols("a", df=1),
    ],
    "formula": [
        *(bols("x2"), bbs("x1"), bbs("x3", by="g", df=7), bbs("doy", **DAY)),
        *(bols("g", df=2), brandom("id"), bspatial("lon", "lat", df=6, knots=6)),
        rising("x4"),
    ],
}
"""The terms with all kinds of learners, of the Gaussian family."""

BY_EIGENVECTORS = "decomp_spectral", "bspatial_centred"

FITS = FAMILIES | {
    name: Fit(terms, eigenvectors=name in BY_EIGENVECTORS)
    for name, terms in LEARNERS.items()
}
