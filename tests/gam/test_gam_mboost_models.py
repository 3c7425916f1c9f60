"""Estimators, and when they stop, compared with mboost.

`test_gam_mboost` compares the fits themselves, and `test_gam_stability` stability
selection. Smoothing parameters are computed here.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from mboost_accidents import mboost_family
from mboost_figures import (
    FITS,
    SAME_OFFSET,
    Vector,
    add_derived,
    column,
    data,
    folds,
    load,
    response_of,
    weights_of,
)
from together import together

from gpusolve.gam import (
    BoostedGAM,
    BoostedGAMClassifier,
    aic_stop,
    cv_stop,
    gamboost,
)
from gpusolve.gam._boosting.batch import Fits
from gpusolve.gam._boosting.problem import designs_of, prepare
from gpusolve.gam._boosting.stacked import boost_family
from gpusolve.gam._terms.frame import Frame
from gpusolve.gam.families import Family
from gpusolve.gam.from_formula import MBOOST


def fit(name: str, family: Family, **parameters: Any) -> BoostedGAM:
    """Fit the model of one of `FITS`, with mboost's offset where it differs."""
    asked, found = FITS[name], load(name)
    offset = None if name in SAME_OFFSET else found["offset"]
    given = {"max_iter": found["mstop"], "learning_rate": found["nu"], **parameters}
    return BoostedGAM(asked.terms, family=family, **MBOOST | given).fit(
        data(),
        response_of(asked),
        None if asked.weights is None else column(asked.weights),
        offset if asked.offset is None else column(asked.offset),
    )


@cache
def fitted(name: str, steps: int | None = None) -> BoostedGAM:
    """The model, with as many steps as mboost's or as given."""
    steps = steps or load(name)["mstop"]
    return fit(name, mboost_family(FITS[name].family), max_iter=steps)


@together(
    "name",
    [*("gaussian", "gaussian_wcont", "gaussian_offset", "huber_adaptive"),
     *("binomial_wcont", "poisson_wint", "gammareg", "decomp", "op_lambda", "formula")],
)  # fmt: skip
def test_estimators_are_those_of_mboost(name: str) -> None:
    model, found = fitted(name), load(name)
    assert (model.selected_ + 1).tolist() == found["xselect_1based"]
    np.testing.assert_allclose(model.risk_, found["risk"], rtol=1e-9)
    np.testing.assert_allclose(model.lambda_, found["lambda"], rtol=1e-6)
    for label, expected in found["coef"].items():
        coef = model.coefficients_[found["learners"].index(label)]
        padded = np.zeros_like(coef)
        padded[: np.size(expected)] = expected
        error = np.linalg.norm(coef - padded) / np.linalg.norm(padded)
        assert error <= 1e-6, label
    offset = column("off") if name == "gaussian_offset" else None
    f = model.predict(data(), kind="link", offset=offset)
    np.testing.assert_allclose(f, found["fitted_link"], rtol=1e-7, atol=1e-7)
    importance, shares = model.importance(), model.selection_frequencies()
    for j, learner in enumerate(model.names_):
        assert importance[learner] == pytest.approx(found["varimp"][j], abs=1e-9)
        assert shares[learner] == pytest.approx(found["selfreq"][j], rel=1e-14)


@together("name", [n for n in FITS if not FITS[n].family.adaptive])
def test_kernels_follow_the_path_of_mboost(device_backend: Any, name: str) -> None:
    """The emulator makes a few steps only."""
    found = load(name)
    steps = 4 if device_backend.emulated else 38
    device = "cuda" if device_backend.name == "cuda" else "auto"
    model = fit(
        name, FITS[name].family, max_iter=steps, method="stacked", device=device
    )
    assert (model.selected_ + 1).tolist() == found["xselect_1based"][:steps]
    bound = 3e-6 if name == "bmono_iterative" else 1e-9
    np.testing.assert_allclose(model.risk_, found["risk"][: steps + 1], rtol=bound)


def new_rows(found: dict[str, Any]) -> pd.DataFrame:
    return add_derived(found["newdata"])


def test_predictions_of_new_rows_are_those_of_mboost() -> None:
    found, model = load("formula"), fitted("formula")
    f = model.predict(new_rows(found))
    np.testing.assert_allclose(f, found["newdata_link"], rtol=1e-7)


@pytest.mark.parametrize("name", ["binomial", "binomial_glm"])
def test_classes_are_those_of_mboost(name: str) -> None:
    found, expected, asked = load(name), load("predict"), FITS[name]
    model = BoostedGAMClassifier(asked.terms, family=asked.family, **MBOOST)
    model.fit(data(), data()["yb"], offset=found["offset"])
    new = new_rows(expected)
    assert model.predict(new).tolist() == expected[name]["class"]
    probability = model.predict_proba(new)[:, 1]
    np.testing.assert_allclose(probability, expected[name]["response"], rtol=1e-9)


FIVE = "bbs(x1) + bbs(x2) + bbs(x3) + bbs(x4) + bbs(x5)"

FORMULAS = {
    "gaussian_offset": f"y ~ {FIVE} + offset(off)",
    "poisson": f"yc ~ {FIVE}",
    "binomial": f"yb ~ {FIVE}",
    "bols_centred": "y ~ bols(center(x1), intercept=False)"
    " + bols(center(x2), intercept=False) + bols(center(x3), intercept=False)"
    " + bbs(x1)",
    "bols_ordered": "y ~ bols(go, df=2) + bols(x2) + bbs(x1)",
    "op_sum": "y ~ I(bols(x1) + bols(x2, intercept=False))"
    " + I(bbs(x3, knots=8) + bols(g, df=2)) + bbs(x1)",
    "op_tensor": "y ~ I(bols(g, df=2, contrasts='dummy') * bbs(x3, knots=8, df=3))"
    " + bbs(x1) + bols(x2)",
    "formula": "y ~ bols(x2) + bbs(x1) + bbs(x3, by=g, df=7)"
    " + bbs(doy, cyclic=True, boundary=(0, 365)) + bols(g, df=2) + brandom(id)"
    " + bspatial(lon, lat, df=6, knots=6) + bmono(x4, constraint='increasing')",
}
"""The calls of some figures, in our words."""


@pytest.mark.paper(
    "Sieminski, 5 learners",
    "Models with bols, bbs, brandom, bspatial and bmono, also sums, products and "
    "varying effects, select the learners of mboost",
)
@together("name", FORMULAS)
def test_models_of_formulas_are_those_of_mboost(name: str) -> None:
    found = load(name)
    model = gamboost(
        FORMULAS[name], data(), family=FITS[name].family, max_iter=found["mstop"]
    )
    assert (model.selected_ + 1).tolist() == found["xselect_1based"]
    np.testing.assert_allclose(model.risk_, found["risk"], rtol=1e-9)


# ---- when to stop --------------------------------------------------------------------


class Validation(NamedTuple):
    """What one cross-validation of mboost was asked for, and gave.

    Attributes
    ----------
    name : str
        The fit.
    folds : list of str
    file, risks : str
        Where the risks of every fold and step are.
    chosen : int
        The steps with the least mean risk.
    """

    name: str
    folds: list[str]
    file: str
    risks: str
    chosen: int


K_FOLD = [f"kfold{i}" for i in range(1, 6)]
BOOTSTRAP = [f"boot{i}" for i in range(1, 11)]

VALIDATIONS = [
    Validation("gaussian", K_FOLD, "stop_gaussian", "oobrisk_kfold", 60),
    Validation("gaussian", BOOTSTRAP, "stop_gaussian", "oobrisk_boot", 72),
    Validation("binomial", K_FOLD, "stop_binomial", "oobrisk_kfold", 72),
    Validation("binomial", BOOTSTRAP, "stop_binomial", "oobrisk_boot", 36),
    Validation("gaussian_wint", K_FOLD, "stop_other", "gaussian_wint_kfold", 46),
    Validation("binomial_glm", BOOTSTRAP[:3], "stop_other", "binomial_glm_boot3", 60),
    Validation(
        "gaussian_offset", K_FOLD[:3], "stop_other", "gaussian_offset_kfold3", 45
    ),
]


@together("which", VALIDATIONS, ids=lambda v: f"{v.risks}-{v.name}")
def test_the_risks_of_folds_are_those_of_mboost(which: Validation) -> None:
    expected = np.array(load(which.file)[which.risks])
    found = cv_stop(
        fitted(which.name), weights_of_folds(which), max_iter=expected.shape[1] - 1
    )
    np.testing.assert_allclose(found.risk, expected, rtol=1e-9)
    assert found.best_iteration == which.chosen


def weights_of_folds(which: Validation) -> Vector:
    """The weights in every fold, (n, B)."""
    weights = np.stack([folds()[name] for name in which.folds], axis=1)
    own = weights_of(FITS[which.name])
    return weights if own is None else weights * own[:, None]


@pytest.mark.parametrize(
    ("name", "key", "chosen"),
    [("quantreg_0.9", "quantreg_0.9_boot3", 60),
     ("expectreg_0.8", "expectreg_0.8_boot3", 59)],
)  # fmt: skip
def test_the_risks_of_folds_with_other_offsets_are_those_of_mboost(
    name: str, key: str, chosen: int
) -> None:
    """mboost's offsets in a fold are the median, and the mean of rows of weight 1."""
    asked, expected = FITS[name], np.array(load("stop_other")[key])
    y, frame = response_of(asked), Frame.of(data())
    weights = np.stack([folds()[fold] for fold in BOOTSTRAP[:3]])
    rules = {
        "quantreg_0.9": lambda w: np.median(np.repeat(y, w.astype(int))),
        "expectreg_0.8": lambda w: y[w == 1].mean(),
    }
    left_out = (weights == 0) * 1.0
    fits = Fits(
        prepare(designs_of([t.learn(frame) for t in asked.terms], frame), weights),
        asked.family,
        y,
        np.array([[rules[name](w)] for w in weights]),
        out_of_bag=left_out,
    )
    path = boost_family(fits, 60)
    assert path.out_of_bag is not None
    risks = path.out_of_bag / left_out.sum(axis=1)[:, None]
    np.testing.assert_allclose(risks, expected, rtol=1e-9)
    assert risks.mean(axis=0).argmin() == chosen


@together(
    ("name", "criterion", "key", "steps"),
    [
        ("gaussian", "aicc", "AICc", 150),
        ("gaussian", "gmdl", "gMDL", 150),
        ("gaussian_wcont", "aicc", "AICc", 150),
        ("binomial", "aic", "AIC", 150),
        ("poisson", "aic", "AIC", 100),
    ],
)
def test_criteria_are_those_of_mboost(
    name: str, criterion: str, key: str, steps: int
) -> None:
    found = load(f"aic_{name}")
    made = aic_stop(fitted(name, steps), criterion)
    np.testing.assert_allclose(made.df, found["df"], rtol=1e-9)
    np.testing.assert_allclose(made.values, found[key], rtol=1e-9)
    assert made.best_iteration == found[f"{key}_mstop"]
