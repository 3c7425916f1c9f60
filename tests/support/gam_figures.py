"""Data for the tests of the boosted GAM: results of mboost, and a small example."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DATA = Path(__file__).parents[1] / "data"

NAMES = sorted(path.stem for path in DATA.glob("sim_n*.json"))


def additive(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """X and y: two of five covariates are active, and there is noise."""
    X = rng.random((n, 5))
    mean = 3 * np.sin(6 * X[:, 1]) + 2 * X[:, 3] ** 2
    return X, mean + 0.1 * rng.standard_normal(n)


class Figures(NamedTuple):
    """The results of mboost for one configuration, from ``tests/data``."""

    n: int
    n_basis: int
    options: dict[str, Any]
    offset: float
    lambda_: np.ndarray
    selected: np.ndarray
    risk: np.ndarray
    coef: np.ndarray
    fitted: np.ndarray | None


def figures(name: str) -> Figures:
    """The results of the configuration with this name, one of `NAMES`."""
    found = json.loads((DATA / f"{name}.json").read_text())
    penalty, df = found["config"].split("_df")
    coef = np.zeros((len(found["lambda"]), found["k"]))
    for learner, values in found["coef"].items():
        coef[int(learner.removeprefix("bbs_x")) - 1] = values
    return Figures(
        n=found["n"],
        n_basis=found["k"],
        options={
            "penalty": "difference" if penalty == "pspline" else "ridge",
            "df": float(df),
            "df_definition": "trace" if found["traceS"] else "2S-SS",
        },
        offset=found["offset"],
        lambda_=np.array(found["lambda"]),
        selected=np.array(found["xselect_1based"]) - 1,
        risk=np.array(found["risk"]),
        coef=coef,
        fitted=np.array(found["fitted"]) if "fitted" in found else None,
    )


def sums() -> dict[str, dict[str, Any]]:
    """Checksums of the simulated data, by the number of observations."""
    return json.loads((DATA / "sim.json").read_text())
