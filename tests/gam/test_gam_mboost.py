"""Estimators, and when they stop, compared with mboost.

mboost's figures have 15 digits. Where its rule for the offset is an accident, or its
minimiser stops at an error of 1e-4, its offset is given to our model. Smoothing
parameters are computed here. `test_gam_stability` has the figures of stability
selection.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mboost_accidents import mboost_family
from mboost_figures import (
    FAMILIES,
    FITS,
    SAME_OFFSET,
    Vector,
    add_derived,
    column,
    data,
    folds,
    load,
    mixed,
    response_of,
    weights_of,
)
from together import together

from gpusolve.gam import BoostedGAM, BoostedGAMClassifier, aic_stop, cv_stop
from gpusolve.gam.from_formula import MBOOST

LOOSE = "bmono_iterative"
"""mboost's own approximation."""


def fit(name: str, **parameters: Any) -> BoostedGAM:
    """The model of one of `FITS`, with mboost's offset where it differs."""
    asked, found = FITS[name], load(name)
    offset = None if name in SAME_OFFSET else found["offset"]
    given = {"max_iter": found["mstop"], "learning_rate": found["nu"], **parameters}
    return BoostedGAM(asked.terms, **MBOOST | given).fit(
        data(),
        response_of(asked),
        None if asked.weights is None else column(asked.weights),
        offset if asked.offset is None else column(asked.offset),
    )


@cache
def fitted(name: str, steps: int | None = None) -> BoostedGAM:
    """The model, with as many steps as mboost's or as given."""
    steps = steps or load(name)["mstop"]
    return fit(name, family=mboost_family(FITS[name].family), max_iter=steps)


def links(name: str, rows: Any, **options: Any) -> Vector:
    own = FITS[name].offset
    offset = None if own is None else np.asarray(rows[own], float)
    found: Vector = fitted(name).predict(rows, kind="link", offset=offset, **options)
    return found


def new_rows(found: dict[str, Any]) -> pd.DataFrame:
    return add_derived(found["newdata"])


CHECKSUMS = {
    "x1": 21779.070008764, "x2": 23465.121454569, "x3": 24126.027453294,
    "x4": 20881.043278252, "x5": 22788.864041474, "doy": 7603804, "g": 46005,
    "id": 243749, "lon": 342343.66101094, "lat": 2147092.9279437,
    "y": 86387.934999931, "yb": 20915, "yc": 96345, "yg": 121062.5697442,
    "yr": 103263.04684658, "w_cont": 55871.403, "w_int": 88182, "off": 90300.348,
}  # fmt: skip
"""``sum_r r v_r`` of each column, r = 1 to 300; v is the index of a level."""


def test_the_data_are_those_of_mboost() -> None:
    rows = np.arange(1, 301)
    for name, values in mixed().items():
        if values.dtype.kind == "U":
            values = np.unique(values, return_inverse=True)[1]
        assert rows @ values == pytest.approx(CHECKSUMS[name], rel=1e-12)


# ---- fits ----------------------------------------------------------------------------


@pytest.mark.paper(
    "Sieminski, 5 learners",
    "Models with bols, bbs, brandom, bspatial and bmono, also sums, products and "
    "varying effects, select the learners of mboost",
)
@pytest.mark.parametrize("name", sorted(set(FITS) - {LOOSE}))
def test_a_model_is_that_of_mboost(name: str) -> None:
    model, found = fitted(name), load(name)
    assert (model.selected_ + 1).tolist() == found["xselect_1based"]
    np.testing.assert_allclose(model.risk_, found["risk"], rtol=1e-9)
    np.testing.assert_allclose(model.lambda_, found["lambda"], rtol=1e-6)
    for term, expected in zip(model.terms_, found["ncoef"], strict=True):
        if expected:  # mboost gives 0 where it does not count
            assert len(term.penalty()) == expected
    if not FITS[name].eigenvectors:
        expected = np.zeros_like(model.coefficients_)
        for label, values in found["coef"].items():
            expected[found["learners"].index(label), : np.size(values)] = values
        error = np.linalg.norm(model.coefficients_ - expected, axis=1)
        assert (error <= 1e-6 * np.linalg.norm(expected, axis=1)).all()
    f, response = links(name, data()), found["fitted_response"]
    np.testing.assert_allclose(f, found["fitted_link"], rtol=1e-7, atol=1e-7)
    if isinstance(response, list):
        mean = FITS[name].family.response(f)
        np.testing.assert_allclose(mean, response, rtol=1e-7)
    importance, shares = model.importance(), model.selection_frequencies()
    for j, learner in enumerate(model.names_):
        assert importance[learner] == pytest.approx(found["varimp"][j], abs=1e-9)
        assert shares[learner] == pytest.approx(found["selfreq"][j], rel=1e-14)


def test_a_monotone_path_is_near_that_of_mboosts_iteration() -> None:
    """mboost's iteration is not exact: it penalises what it constrains, times 1e6.

    A decrease therefore remains, of about a millionth of the multiplier. The paths are
    equal until two learners are equally good up to 2e-5, in step 39.
    """
    model, found = fitted(LOOSE), load(LOOSE)
    assert (model.selected_[:38] + 1).tolist() == found["xselect_1based"][:38]
    np.testing.assert_allclose(model.risk_[:39], found["risk"][:39], rtol=3e-6)
    np.testing.assert_allclose(model.risk_, found["risk"], rtol=3e-4)


@together("name", sorted(set(FAMILIES) & {*SAME_OFFSET} - {"gaussian_offset"}))
def test_the_offset_is_that_of_mboost(name: str) -> None:
    """mboost's other offsets have a larger risk: `test_gam_families` has the least."""
    offset = FITS[name].family.offset(response_of(FITS[name]), weights_of(FITS[name]))
    assert offset == pytest.approx(load(name)["offset"], rel=1e-12)


@together("name", ["gaussian", "binomial", "binomial_glm", "poisson", "gammareg"])
def test_predictions_are_those_of_mboost(name: str) -> None:
    """Half of the rows leave a range: effects are continued linearly."""
    found = load("predict")
    new, expected = new_rows(found), found[name]
    f = links(name, new)
    np.testing.assert_allclose(f, expected["link"], rtol=1e-7)
    response = FITS[name].family.response(f)
    np.testing.assert_allclose(response, expected["response"], rtol=1e-7)
    early = links(name, new, iteration=40)
    np.testing.assert_allclose(early, expected["link_at_40"], rtol=1e-7)
    if "class" in expected:
        model = BoostedGAMClassifier(FITS[name].terms, family=FITS[name].family)
        model.set_params(**MBOOST)
        model.fit(data(), data()["yb"], offset=load(name)["offset"])
        assert model.predict(new).tolist() == expected["class"]
        yes = model.predict_proba(new)[:, 1]
        np.testing.assert_allclose(yes, expected["response"], rtol=1e-7)
    if name == "gaussian":
        effects, by_learner = fitted(name).effects(new), found["gaussian_by_learner"]
        np.testing.assert_allclose(effects.T, by_learner, rtol=1e-6)
        stages = [stage[6] for stage in fitted(name).staged_predict(new)]
        np.testing.assert_allclose(stages, found["gaussian_cumsum_row7"], rtol=1e-7)


def test_predictions_of_all_kinds_of_learners_are_those_of_mboost() -> None:
    found, model = load("formula"), fitted("formula")
    new = new_rows(found)
    np.testing.assert_allclose(model.predict(new), found["newdata_link"], rtol=1e-7)
    effects = model.effects(new)[:, np.unique(model.selected_)]
    np.testing.assert_allclose(effects.T, found["newdata_by_learner"], rtol=1e-6)


# ---- when to stop --------------------------------------------------------------------


K_FOLD = [f"kfold{i}" for i in range(1, 6)]
BOOTSTRAP = [f"boot{i}" for i in range(1, 11)]


VALIDATIONS = [
    ("gaussian", K_FOLD, "stop_gaussian", "oobrisk_kfold", 60),
    ("gaussian", BOOTSTRAP, "stop_gaussian", "oobrisk_boot", 72),
    ("binomial", K_FOLD, "stop_binomial", "oobrisk_kfold", 72),
    ("binomial", BOOTSTRAP, "stop_binomial", "oobrisk_boot", 36),
    ("gaussian_wint", K_FOLD, "stop_other", "gaussian_wint_kfold", 46),
    ("binomial_glm", BOOTSTRAP[:3], "stop_other", "binomial_glm_boot3", 60),
    ("gaussian_offset", K_FOLD[:3], "stop_other", "gaussian_offset_kfold3", 45),
]
"""A fit, its folds, where mboost's risks of each fold are, and its choice."""


@together(("name", "given", "file", "risks", "chosen"), VALIDATIONS)
def test_the_risks_of_folds_are_those_of_mboost(
    name: str, given: list[str], file: str, risks: str, chosen: int
) -> None:
    expected = np.array(load(file)[risks])
    weights = np.stack([folds()[fold] for fold in given], axis=1)
    if (own := weights_of(FITS[name])) is not None:
        weights *= own[:, None]
    found = cv_stop(fitted(name), weights, max_iter=expected.shape[1] - 1)
    np.testing.assert_allclose(found.risk, expected, rtol=1e-9)
    assert found.best_iteration == chosen


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
