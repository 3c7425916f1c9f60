"""The boosted GAM compared with mboost: all families and learners, and their folds.

mboost's figures have 15 digits. Its offset is given to our boosting, because some of
its rules are accidents, and its minimisers stop at an error of 1e-4. Its smoothing
parameters are given, or computed here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from mboost_accidents import ACCURACY, LateHuber, RoughGamma
from mboost_figures import (
    FAMILIES,
    FITS,
    Fit,
    Vector,
    folds,
    load,
    mixed,
    rescaled,
    with_derived,
)

from gpusolve.gam.aic import (
    Criterion,
    bernoulli_curvature,
    classical_aic,
    corrected_aic,
    degrees_of_freedom,
    minimum_description_length,
    models,
)
from gpusolve.gam.families import Family, Gamma, Huber
from gpusolve.gam.frame import Frame
from gpusolve.gam.importance import risk_reductions, selection_frequencies
from gpusolve.gam.problem import Problem, columns_of, prepare
from gpusolve.gam.stacked import Paths, boost_family

LOOSE = {"bmono_iterative"}
"""mboost's own approximation, which another test compares."""

EXACT = sorted(set(FITS) - LOOSE)


@cache
def data() -> pd.DataFrame:
    return with_derived(mixed())


@cache
def frame() -> Frame:
    return Frame.of(data())


def response_of(fit: Fit) -> Vector:
    y = data()[fit.response]
    return np.asarray(y == "yes" if fit.response == "yb" else y, np.float64)


def weights_of(fit: Fit) -> Vector | None:
    return None if fit.weights is None else rescaled(column(fit.weights))


def column(name: str) -> Vector:
    return data()[name].to_numpy(np.float64)


class Boosted(NamedTuple):
    """A path of ours, and the figures of mboost for it."""

    fit: Fit
    found: dict[str, Any]
    problem: Problem
    start: Vector
    path: Paths

    def coef(self, steps: int | None = None) -> list[Vector]:
        """The coefficients of the functions of every learner after some steps."""
        selected, updates = self.path.selected[0, :steps], self.path.updates[0, :steps]
        return [
            updates[selected == j, : design.functions].sum(axis=0)
            for j, design in enumerate(self.problem.rows)
        ]

    def effects(self, new: Frame, steps: int | None = None) -> list[Vector]:
        """The effect of every learner at other rows."""
        return [
            term.rows(new).multiply(coef)
            for term, coef in zip(self.problem.terms, self.coef(steps), strict=True)
        ]


@cache
def boosted(name: str, given: bool = True, steps: int | None = None) -> Boosted:
    """The path of one of `FITS`, with mboost's smoothing parameters or our own.

    It has as many steps as mboost's, or those given.
    """
    fit, found = FITS[name], load(name)
    w = weights_of(fit)
    terms = [term.learn(frame()) for term in fit.terms]
    problem = prepare(terms, frame(), w, lambda_=found["lambda"] if given else None)
    offset = found["offset"]
    start = np.full((1, 1), offset) if fit.offset is None else column(fit.offset)[None]
    path = boost_family(
        problem,
        as_mboost(fit.family),
        response_of(fit),
        start,
        learning_rate=found["nu"],
        steps=steps or found["mstop"],
    )
    return Boosted(fit, found, problem, start, path)


def as_mboost(family: Family) -> Family:
    """The family, or the one that computes its parameter as mboost does."""
    if isinstance(family, Gamma):
        return RoughGamma()
    if isinstance(family, Huber) and family.adaptive:
        return LateHuber()
    return family


def expected_coef(made: Boosted) -> list[Vector]:
    """mboost's coefficients of every learner; zeros where it selected none."""
    found = made.found
    labels = found["learners"]
    coef = [np.zeros(columns_count(made.problem, j)) for j in range(len(labels))]
    for label, values in found["coef"].items():
        coef[labels.index(label)] = np.atleast_1d(values)
    return coef


def columns_count(problem: Problem, learner: int) -> int:
    T = problem.terms[learner].transform()
    return problem.rows[learner].functions if T is None else T.shape[1]


def distance(a: Vector, b: Vector) -> float:
    """``|a - b| / |b|``, and ``|a|`` if b is zero."""
    return float(np.linalg.norm(a - b) / (np.linalg.norm(b) or 1))


CHECKSUMS = {
    "x1": 21779.070008764,
    "x2": 23465.121454569,
    "x3": 24126.027453294,
    "x4": 20881.043278252,
    "x5": 22788.864041474,
    "doy": 7603804,
    "g": 46005,
    "id": 243749,
    "lon": 342343.66101094,
    "lat": 2147092.9279437,
    "y": 86387.934999931,
    "yb": 20915,
    "yc": 96345,
    "yg": 121062.5697442,
    "yr": 103263.04684658,
    "w_cont": 55871.403,
    "w_int": 88182,
    "off": 90300.348,
}
"""``sum_r r v_r`` of each column, r = 1 to 300; v is the index of a level."""


def test_the_data_are_those_of_mboost() -> None:
    rows = np.arange(1, 301)
    for name, values in mixed().items():
        numbers = (
            np.unique(values, return_inverse=True)[1]
            if values.dtype.kind == "U"
            else values
        )
        assert rows @ numbers == pytest.approx(CHECKSUMS[name], rel=1e-12)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("given", [True, False], ids=["lambda given", "lambda solved"])
def test_the_path_is_that_of_mboost(name: str, given: bool) -> None:
    made = boosted(name, given)
    selected = np.array(made.found["xselect_1based"]) - 1
    np.testing.assert_array_equal(made.path.selected[0], selected)
    np.testing.assert_allclose(made.path.risk[0], made.found["risk"], rtol=1e-9)


@pytest.mark.parametrize("name", [n for n in EXACT if not FITS[n].eigenvectors])
@pytest.mark.parametrize("given", [True, False], ids=["lambda given", "lambda solved"])
def test_the_coefficients_are_those_of_mboost(name: str, given: bool) -> None:
    made = boosted(name, given)
    bound = 1e-8 if given else 1e-6
    for term, coef, expected in zip(
        made.problem.terms, made.coef(), expected_coef(made), strict=True
    ):
        assert distance(columns_of(term.transform(), coef), expected) <= bound


@pytest.mark.parametrize("name", EXACT)
def test_the_fit_is_that_of_mboost(name: str) -> None:
    made = boosted(name)
    f = made.start[0] + sum(made.effects(frame()))
    np.testing.assert_allclose(f, made.found["fitted_link"], rtol=1e-9, atol=1e-9)
    response = made.found["fitted_response"]
    if response == "as fitted_link":
        response = made.found["fitted_link"]
    if response != "none (NA)":
        np.testing.assert_allclose(made.fit.family.response(f), response, rtol=1e-9)


@pytest.mark.parametrize("name", EXACT)
def test_lambda_and_df_are_those_of_mboost(name: str) -> None:
    made, solved = boosted(name), boosted(name, given=False)
    found = made.found
    np.testing.assert_allclose(solved.problem.lambda_[0], found["lambda"], rtol=1e-6)
    df = [trace_of(made.problem, j) for j in range(len(made.problem))]
    np.testing.assert_allclose(df, found["df"], rtol=1e-6)


def trace_of(problem: Problem, learner: int) -> float:
    """``tr(2 S - S'S)`` of the hat matrix of a learner."""
    S = problem.inverse[learner][0] @ problem.gram[learner][0]
    return float(np.trace(2 * S - S @ S))


@pytest.mark.parametrize("name", sorted(FITS))
def test_learners_have_as_many_coefficients_as_in_mboost(name: str) -> None:
    made = boosted(name)
    for j, expected in enumerate(made.found["ncoef"]):
        if expected:  # mboost gives 0 where it does not count
            assert columns_count(made.problem, j) == expected


@pytest.mark.parametrize("name", ["gammareg", "gammareg_wint"])
def test_the_shape_of_gamma_is_that_of_mboost(name: str) -> None:
    made = boosted(name)
    shapes = made.path.nuisance[0]
    np.testing.assert_allclose(shapes[1:], made.found["nuisance"], rtol=1e-9)
    y, w = response_of(made.fit), weights_of(made.fit)
    exact = Gamma().nuisance(y, np.broadcast_to(made.start[0], y.shape), w)
    assert exact == pytest.approx(shapes[0], rel=ACCURACY)


def test_a_monotone_path_is_near_that_of_mboosts_iteration() -> None:
    """mboost's iteration is not exact: it penalises what it constrains, times 1e6.

    A decrease therefore remains, of about a millionth of the multiplier. The paths are
    equal until two learners are equally good up to 2e-5, in step 39.
    """
    made = boosted("bmono_iterative")
    selected = np.array(made.found["xselect_1based"]) - 1
    np.testing.assert_array_equal(made.path.selected[0, :38], selected[:38])
    risk = np.array(made.found["risk"])
    np.testing.assert_allclose(made.path.risk[0, :39], risk[:39], rtol=3e-6)
    np.testing.assert_allclose(made.path.risk[0], risk, rtol=3e-4)


WITH_MBOOSTS_OFFSET = [
    *("gaussian", "gaussian_wcont", "gaussian_wint", "binomial", "binomial_wcont"),
    *("poisson", "poisson_wint"),
]


@pytest.mark.parametrize("name", WITH_MBOOSTS_OFFSET)
def test_the_offset_is_that_of_mboost(name: str) -> None:
    made = boosted(name)
    offset = made.fit.family.offset(response_of(made.fit), weights_of(made.fit))
    assert offset == pytest.approx(made.found["offset"], rel=1e-12)


@pytest.mark.parametrize(
    "name",
    sorted(set(FAMILIES) - {*WITH_MBOOSTS_OFFSET, "huber_adaptive", "gaussian_offset"}),
)
def test_the_offset_has_less_risk_than_that_of_mboost(name: str) -> None:
    """mboost's minimiser is rough, or its offset is the one of another family."""
    made = boosted(name)
    family, y, w = made.fit.family, response_of(made.fit), weights_of(made.fit)
    weights = np.ones_like(y) if w is None else w

    def risk(offset: float) -> float:
        return float(weights @ family.loss(y, np.full_like(y, offset), shape))

    shape = family.nuisance(y, np.full_like(y, made.found["offset"]), w)
    assert risk(family.offset(y, w)) <= risk(made.found["offset"]) * (1 + 1e-14)


def new_rows(found: dict[str, Any]) -> Frame:
    return Frame.of(with_derived(found["newdata"]))


@pytest.mark.parametrize(
    "name", ["gaussian", "binomial", "binomial_glm", "poisson", "gammareg"]
)
def test_predictions_are_those_of_mboost(name: str) -> None:
    """Half of the rows leave a range: effects are continued linearly."""
    found = load("predict")
    made, new = boosted(name), new_rows(found)
    expected = found[name]
    f = made.found["offset"] + sum(made.effects(new))
    np.testing.assert_allclose(f, expected["link"], rtol=1e-9)
    response = made.fit.family.response(f)
    np.testing.assert_allclose(response, expected["response"], rtol=1e-9)
    if "class" in expected:
        assert np.where(f > 0, "yes", "no").tolist() == expected["class"]
    early = made.found["offset"] + sum(made.effects(new, steps=40))
    np.testing.assert_allclose(early, expected["link_at_40"], rtol=1e-9)


def test_predictions_after_every_step_are_those_of_mboost() -> None:
    found = load("predict")
    made, new = boosted("gaussian"), new_rows(found)
    np.testing.assert_allclose(
        made.effects(new), found["gaussian_by_learner"], rtol=1e-9
    )
    f = [
        made.found["offset"] + sum(made.effects(new, step + 1))[6]
        for step in range(100)
    ]
    np.testing.assert_allclose(f, found["gaussian_cumsum_row7"], rtol=1e-9)


def test_predictions_of_all_kinds_of_learners_are_those_of_mboost() -> None:
    made = boosted("formula")
    effects = made.effects(new_rows(made.found))
    f = made.found["offset"] + sum(effects)
    np.testing.assert_allclose(f, made.found["newdata_link"], rtol=1e-9)
    selected = np.unique(made.path.selected[0])
    np.testing.assert_allclose(
        np.array(effects)[selected], made.found["newdata_by_learner"], rtol=1e-8
    )


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
    Validation("quantreg_0.9", BOOTSTRAP[:3], "stop_other", "quantreg_0.9_boot3", 60),
    Validation("expectreg_0.8", BOOTSTRAP[:3], "stop_other", "expectreg_0.8_boot3", 59),
    Validation(
        "gaussian_offset", K_FOLD[:3], "stop_other", "gaussian_offset_kfold3", 45
    ),
]


@pytest.mark.parametrize("which", VALIDATIONS, ids=lambda v: f"{v.risks}-{v.name}")
def test_the_risks_of_folds_are_those_of_mboost(which: Validation) -> None:
    expected = np.array(load(which.file)[which.risks])
    fit = FITS[which.name]
    y, w = response_of(fit), weights_of(fit)
    model = np.ones_like(y) if w is None else w
    weights = np.stack([folds()[name] for name in which.folds])
    if w is not None:
        weights = weights * w
    left_out = np.where(weights == 0, model, 0)
    path = boost_family(
        prepare([term.learn(frame()) for term in fit.terms], frame(), weights),
        fit.family,
        y,
        starts(which.name, fit, y, weights),
        steps=expected.shape[1] - 1,
        out_of_bag=left_out,
    )
    assert path.out_of_bag is not None
    risks = path.out_of_bag / left_out.sum(axis=1)[:, None]
    np.testing.assert_allclose(risks, expected, rtol=1e-9)
    assert risks.mean(axis=0).argmin() == which.chosen


def starts(name: str, fit: Fit, y: Vector, weights: Vector) -> Vector:
    """mboost's offset in every fold, (F, 1), or the one given, (F, n)."""
    if fit.offset is not None:
        return np.broadcast_to(column(fit.offset), weights.shape)
    rules = {
        "binomial_glm": lambda w: load(name)["offset"],
        "quantreg_0.9": lambda w: np.median(np.repeat(y, w.astype(int))),
        "expectreg_0.8": lambda w: y[w == 1].mean(),
    }
    rule = rules.get(name, lambda w: fit.family.offset(y, w))
    return np.array([[rule(w)] for w in weights])


# ---- criteria of when to stop --------------------------------------------------------


def df_of(made: Boosted, curvature: Callable[[Vector], Vector] | None = None) -> Vector:
    """The degrees of freedom after each step, with the curvature of a loss at f."""
    path, rows = made.path, made.problem.rows
    f = models(rows, path.selected[0], path.updates[0], np.full(300, made.start[0]))
    return degrees_of_freedom(
        rows,
        [inverse[0] for inverse in made.problem.inverse],
        weights_of(made.fit),
        path.selected[0],
        made.found["nu"],
        None if curvature is None else map(curvature, f),
    )


def check_criterion(criterion: Criterion, found: dict[str, Any], name: str) -> None:
    np.testing.assert_allclose(criterion.df, found["df"], rtol=1e-9)
    np.testing.assert_allclose(criterion.values, found[name], rtol=1e-9)
    assert criterion.best == found[f"{name}_mstop"]


@pytest.mark.parametrize("name", ["gaussian", "gaussian_wcont"])
def test_corrected_aic_is_that_of_mboost(name: str) -> None:
    made, found = boosted(name, steps=150), load(f"aic_{name}")
    df, squares = df_of(made), made.path.risk[0, 1:]
    check_criterion(corrected_aic(df, squares, 300.0), found, "AICc")


def test_minimum_description_length_is_that_of_mboost() -> None:
    made, found = boosted("gaussian", steps=150), load("aic_gaussian")
    df, squares = df_of(made), made.path.risk[0, 1:]
    total = float((response_of(made.fit) ** 2).sum())
    criterion = minimum_description_length(df, squares, 300.0, total)
    check_criterion(criterion, found, "gMDL")


@pytest.mark.parametrize(
    ("name", "curvature", "steps"),
    [
        ("binomial", lambda f: bernoulli_curvature(f, 2.0), 150),
        ("poisson", np.exp, 100),
    ],
)
def test_classical_aic_is_that_of_mboost(
    name: str, curvature: Callable[[Vector], Vector], steps: int
) -> None:
    made = boosted(name, steps=steps)
    criterion = classical_aic(df_of(made, curvature), made.path.risk[0, 1:])
    check_criterion(criterion, load(f"aic_{name}"), "AIC")


# ---- what mattered -------------------------------------------------------------------


@pytest.mark.parametrize("name", EXACT)
def test_the_importances_are_those_of_mboost(name: str) -> None:
    made = boosted(name)
    selected, risk = made.path.selected[0], made.path.risk[0]
    learners = len(made.problem)
    reductions = risk_reductions(selected, risk, learners, rows=300)
    np.testing.assert_allclose(reductions, made.found["varimp"], rtol=1e-8, atol=1e-12)
    shares = selection_frequencies(selected, learners)
    np.testing.assert_allclose(shares, made.found["selfreq"], rtol=1e-14)
