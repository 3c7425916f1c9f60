"""The boosted GAM compared with mboost: all families and learners, and their folds.

mboost's figures have 15 digits. Its offset is given to our boosting, because some of
its rules are accidents, and its minimisers stop at an error of 1e-4. Its smoothing
parameters are given, or computed here.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from mboost_accidents import ACCURACY, mboost_family
from mboost_figures import (
    FAMILIES,
    FITS,
    SAME_OFFSET,
    Fit,
    Vector,
    add_derived,
    column,
    data,
    load,
    mixed,
    response_of,
    weights_of,
)
from together import together

from gpusolve.gam._boosting.batch import Fits
from gpusolve.gam._boosting.path import Path
from gpusolve.gam._boosting.problem import PreparedLearners, designs_of, prepare
from gpusolve.gam._boosting.stacked import boost_family
from gpusolve.gam._terms.frame import Frame
from gpusolve.gam.families import Gamma

LOOSE = {"bmono_iterative"}
"""mboost's own approximation, which another test compares."""

EXACT = sorted(set(FITS) - LOOSE)


@cache
def frame() -> Frame:
    return Frame.of(data())


class Boosted(NamedTuple):
    """A path of ours, and the figures of mboost for it."""

    fit: Fit
    found: dict[str, Any]
    problem: PreparedLearners
    start: Vector
    path: Path

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
def boosted(name: str, given: bool = True) -> Boosted:
    """The path of one of `FITS`, with mboost's smoothing parameters or our own."""
    fit, found = FITS[name], load(name)
    w = weights_of(fit)
    terms = [term.learn(frame()) for term in fit.terms]
    problem = prepare(
        designs_of(terms, frame()), w, lambda_=found["lambda"] if given else None
    )
    offset = found["offset"]
    start = np.full((1, 1), offset) if fit.offset is None else column(fit.offset)[None]
    fits = Fits(
        problem, mboost_family(fit.family), response_of(fit), start, found["nu"]
    )
    path = boost_family(fits, found["mstop"])
    return Boosted(fit, found, problem, start, path)


def expected_coef(made: Boosted) -> list[Vector]:
    """mboost's coefficients of every learner; zeros where it selected none."""
    found = made.found
    labels = found["learners"]
    coef = [np.zeros(columns_count(made.problem, j)) for j in range(len(labels))]
    for label, values in found["coef"].items():
        coef[labels.index(label)] = np.atleast_1d(values)
    return coef


def columns_count(problem: PreparedLearners, learner: int) -> int:
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
        if values.dtype.kind == "U":
            values = np.unique(values, return_inverse=True)[1]
        assert rows @ values == pytest.approx(CHECKSUMS[name], rel=1e-12)


@together("name", EXACT)
@together("given", [True, False], ids=["lambda given", "lambda solved"])
def test_the_path_is_that_of_mboost(name: str, given: bool) -> None:
    made = boosted(name, given)
    selected = np.array(made.found["xselect_1based"]) - 1
    np.testing.assert_array_equal(made.path.selected[0], selected)
    np.testing.assert_allclose(made.path.risk[0], made.found["risk"], rtol=1e-9)


@together("name", [n for n in EXACT if not FITS[n].eigenvectors])
@together("given", [True, False], ids=["lambda given", "lambda solved"])
def test_the_coefficients_are_those_of_mboost(name: str, given: bool) -> None:
    made = boosted(name, given)
    bound = 1e-8 if given else 1e-6
    for term, coef, expected in zip(
        made.problem.terms, made.coef(), expected_coef(made), strict=True
    ):
        assert distance(term.column_coefficients(coef), expected) <= bound


@together("name", EXACT)
def test_the_fit_is_that_of_mboost(name: str) -> None:
    made = boosted(name)
    f = made.start[0] + sum(made.effects(frame()))
    np.testing.assert_allclose(f, made.found["fitted_link"], rtol=1e-9, atol=1e-9)
    response = made.found["fitted_response"]
    if response == "as fitted_link":
        response = made.found["fitted_link"]
    if response != "none (NA)":
        np.testing.assert_allclose(made.fit.family.response(f), response, rtol=1e-9)


@together("name", EXACT)
def test_lambda_and_df_are_those_of_mboost(name: str) -> None:
    made, solved = boosted(name), boosted(name, given=False)
    found = made.found
    np.testing.assert_allclose(solved.problem.lambda_[0], found["lambda"], rtol=1e-6)
    df = [trace_of(made.problem, j) for j in range(len(made.problem))]
    np.testing.assert_allclose(df, found["df"], rtol=1e-6)


def trace_of(problem: PreparedLearners, learner: int) -> float:
    """``tr(2 S - S'S)`` of the hat matrix of a learner."""
    return float((problem.gain([learner])[:, 0] * problem.gram[learner]).sum())


@together("name", sorted(FITS))
def test_learners_have_as_many_coefficients_as_in_mboost(name: str) -> None:
    made = boosted(name)
    for j, expected in enumerate(made.found["ncoef"]):
        if expected:  # mboost gives 0 where it does not count
            assert columns_count(made.problem, j) == expected


@pytest.mark.parametrize("name", ["gammareg", "gammareg_wint"])
def test_the_shape_of_gamma_is_that_of_mboost(name: str) -> None:
    made = boosted(name)
    shapes = made.path.nuisance[0, :, 0]
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


@together("name", SAME_OFFSET)
def test_the_offset_is_that_of_mboost(name: str) -> None:
    made = boosted(name)
    offset = made.fit.family.offset(response_of(made.fit), weights_of(made.fit))
    assert offset == pytest.approx(made.found["offset"], rel=1e-12)


@together(
    "name",
    sorted(set(FAMILIES) - {*SAME_OFFSET, "huber_adaptive", "gaussian_offset"}),
)
def test_the_offset_has_the_least_risk(name: str) -> None:
    """mboost's minimiser is rough, or its offset is the offset of another family.

    The risk is convex: a minimum near the offset is the only minimum.
    """
    made = boosted(name)
    family, y, w = made.fit.family, response_of(made.fit), weights_of(made.fit)
    weights = np.ones_like(y) if w is None else w
    shape = family.nuisance(y, np.full_like(y, made.found["offset"]), w)

    def risk(offset: float) -> float:
        return float(weights @ family.loss(y, np.full_like(y, offset), shape))

    offset = family.offset(y, w)
    others = [offset - 1e-3, offset + 1e-3, made.found["offset"]]
    assert risk(offset) <= min(map(risk, others)) * (1 + 1e-14)


def new_rows(found: dict[str, Any]) -> Frame:
    return Frame.of(add_derived(found["newdata"]))


@together("name", ["gaussian", "binomial", "binomial_glm", "poisson", "gammareg"])
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
