"""Survival families against R's package survival, and sums over all pairs of rows."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path as File
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from survival_data import trial
from together import together

from gpusolve.gam import (
    BoostedGAM,
    bbs,
    bols,
    concordance,
    gamboost,
    survival_times,
)
from gpusolve.gam.families import CoxPH, Family, LogLogistic, LogNormal, Weibull
from gpusolve.gam.from_formula import MBOOST

Floats = NDArray[np.float64]

TRIAL = trial()
X = np.stack([TRIAL["x"], TRIAL["z"]], axis=1)
Y = survival_times(TRIAL["time"], TRIAL["event"])
SIGNED = np.where(TRIAL["event"] == 1, TRIAL["time"], -TRIAL["time"])
W = TRIAL["weight"]
BY_R = json.loads((File(__file__).parents[1] / "data/survival_by_r.json").read_text())

FAILURES = {
    "weibull": Weibull(),
    "loglogistic": LogLogistic(),
    "lognormal": LogNormal(),
}


def linear_model(family: Family, intercept: bool) -> BoostedGAM:
    """A model that converges to maximum likelihood."""
    learner = bols(0, 1, intercept=intercept)
    model = BoostedGAM(learner, family=family, learning_rate=0.5, max_iter=600)
    return model.fit(X, Y, W)


# ---- against R -----------------------------------------------------------------------


def test_cox_converges_to_coxph() -> None:
    model = linear_model(CoxPH(), intercept=False)
    np.testing.assert_allclose(model.coefficients_[0], BY_R["coxph"], rtol=1e-9)
    null, full = BY_R["coxph_loglik"]
    assert model.risk_[0] == pytest.approx(
        -null[0] if isinstance(null, list) else -null
    )
    assert model.risk_[-1] == pytest.approx(-full, rel=1e-12)
    assert model.score(X, Y) == pytest.approx(BY_R["concordance"][0], rel=1e-12)
    times = BY_R["basehaz_time"]
    hazard = model.cumulative_hazard(np.zeros((1, 2)), times)[0]
    np.testing.assert_allclose(hazard, BY_R["basehaz"], rtol=1e-8)
    np.testing.assert_allclose(
        model.survival_function(X[:2], times),
        np.exp(-np.exp(model.predict(X[:2], kind="link"))[:, None] * hazard),
        rtol=1e-12,
    )


def test_cox_gradient_is_the_martingale_residual() -> None:
    family, f = CoxPH(), TRIAL["x"][None]
    rows = family.arrange(SIGNED)
    u = family.weighted_gradient(rows, f, 0.0, W)[0] / W
    np.testing.assert_allclose(u, BY_R["cox_residuals_at_x"], atol=1e-13)
    (risk,) = family.risks(rows, f, 0.0, W)
    assert risk[0, 0] == pytest.approx(-BY_R["cox_loglik_at_x"][0], rel=1e-13)


@together("name", list(FAILURES))
def test_accelerated_failure_converges_to_survreg(name: str) -> None:
    model = linear_model(FAILURES[name], intercept=True)
    constant, *slopes = model.coefficients_[0]
    found = [model.intercept_ + constant, *slopes, model.baseline_]
    np.testing.assert_allclose(found, BY_R[name], rtol=1e-6)
    jacobian = W @ (TRIAL["event"] * np.log(TRIAL["time"]))  # R's density is of t
    null, full = BY_R[f"{name}_loglik"]
    assert model.risk_[0] == pytest.approx(-null - jacobian, rel=1e-9)
    assert model.risk_[-1] == pytest.approx(-full - jacobian, rel=1e-12)
    start = [model.intercept_, *np.ravel(model.path_.nuisance[0])]
    np.testing.assert_allclose(start, BY_R[f"{name}_null"], rtol=1e-7)
    times = np.reshape(BY_R[f"{name}_quantiles"], (3, 3))
    for row in range(3):
        curve = model.survival_function(X[row : row + 1], times[row])[0]
        np.testing.assert_allclose(curve, [0.9, 0.5, 0.1], rtol=1e-5)


# ---- against sums over all pairs of rows ---------------------------------------------


def cox_by_pairs(y: Floats, f: Floats, w: Floats) -> tuple[Floats, float]:
    """The gradient of each row, and the risk, from their definitions."""
    time, event = abs(y), y > 0
    at_risk = time[None, :] >= time[:, None]
    sums = at_risk @ (w * np.exp(f))
    happens = event & (w > 0)
    share = np.where(happens, w / np.where(happens, sums, 1), 0)
    u = event - np.exp(f) * (at_risk.T @ share)
    return u, float((w[happens] * (np.log(sums[happens]) - f[happens])).sum())


def ties(rng: np.random.Generator, n: int) -> Floats:
    """Signed times of which many are equal."""
    return rng.integers(1, 2 + n // 4, n) * np.where(rng.random(n) < 0.6, 1.0, -1.0)


@together("n", [1, 2, 7, 60])
def test_cox_is_the_sum_over_pairs(n: int, rng: np.random.Generator) -> None:
    y, f = ties(rng, n), rng.standard_normal((3, n))
    w = rng.integers(0, 3, (3, n)) * rng.random((3, n))
    family = CoxPH()
    rows = family.arrange(y)
    u = family.weighted_gradient(rows, f, 0.0, w)
    risk, whole = family.risks(rows, f, 0.0, w, None)
    for k in range(3):
        expected, of_fit = cox_by_pairs(y, f[k], w[k])
        np.testing.assert_allclose(u[k], w[k] * expected, atol=1e-13)
        assert risk[k, 0] == pytest.approx(of_fit, rel=1e-13, abs=1e-13)
        one, total = cox_by_pairs(y, f[k], np.ones(n))
        np.testing.assert_allclose(family.gradient(y, f[k], 0.0), one, atol=1e-13)
        assert whole[k, 0] == pytest.approx(total, rel=1e-13, abs=1e-13)
        assert family.loss(y, f[k], 0.0).sum() == pytest.approx(total, abs=1e-12)


def test_the_curvature_of_cox_bounds_its_information(rng: np.random.Generator) -> None:
    """Half the events and half their expectations: twice the latter is the diagonal."""
    y, f, w = ties(rng, 40), rng.standard_normal(40), rng.random(40)
    expected, _ = cox_by_pairs(y, f, w)
    hazard = (y > 0) - expected
    found = CoxPH().weighted_curvature(CoxPH().arrange(y), f, 0.0, w)
    np.testing.assert_allclose(found, w * ((y > 0) + hazard) / 2, atol=1e-13)


def test_cox_does_not_overflow(rng: np.random.Generator) -> None:
    y, f, family = ties(rng, 50), 300 * rng.standard_normal(50), CoxPH()
    for what in (family.gradient, family.loss):
        here = what(y, f, 0.0)
        assert np.isfinite(here).all()
        np.testing.assert_allclose(what(y, f + 1e4, 0.0), here, atol=1e-8)


def concordance_by_pairs(time: Floats, event: Floats, risk: Floats) -> float:
    points = pairs = 0.0
    for i, j in product(range(len(time)), repeat=2):
        is_later = time[j] > time[i] or (time[j] == time[i] and not event[j])
        if event[i] and is_later and i != j:
            pairs += 1
            points += (risk[i] > risk[j]) + 0.5 * (risk[i] == risk[j])
    return points / pairs if pairs else np.nan


@together("n", [1, 2, 3, 8, 33, 70])
@together("levels", [1, 2, 5, 1000])
def test_concordance_counts_pairs(
    n: int, levels: int, rng: np.random.Generator
) -> None:
    time, event = rng.integers(1, 2 + n // 2, n) * 1.0, rng.random(n) < 0.6
    risk = rng.integers(0, levels, n) - 2.0
    expected = concordance_by_pairs(time, event, risk)
    assert concordance(time, event, risk) == pytest.approx(expected, nan_ok=True)


# ---- the response --------------------------------------------------------------------


def forms() -> dict[str, Any]:
    time, event = TRIAL["time"], TRIAL["event"]
    scikit_survival = np.empty(len(time), [("status", bool), ("days", float)])
    scikit_survival["status"], scikit_survival["days"] = event, time
    return {
        "array": Y,
        "structured": scikit_survival,
        "frame": pd.DataFrame({"event": event.astype(int), "time": time}),
        "mapping": {"died": event == 1, "time": time},
    }


@together("form", list(forms()))
def test_a_response_has_several_forms(form: str) -> None:
    found = CoxPH().prepare(forms()[form], X)
    np.testing.assert_array_equal(found, SIGNED)


def test_a_formula_has_surv() -> None:
    model = gamboost("Surv(time, event) ~ bbs(x) + bbs(z)", TRIAL, family="coxph")
    direct = BoostedGAM([bbs("x"), bbs("z")], family="coxph", **MBOOST).fit(TRIAL, Y)
    np.testing.assert_array_equal(model.risk_, direct.risk_)


def test_a_fold_without_events_has_a_finite_offset() -> None:
    y, w = np.array([2.0, -3.0, -1.0]), np.array([0.0, 1, 1])
    for family in FAILURES.values():
        assert 0 <= family.offset(y, w) <= np.log(3)
        assert family.offset(np.array([2.0, 2.0]), None) == np.log(2)


# ---- models --------------------------------------------------------------------------


def test_an_offset_vector_is_in_the_baseline() -> None:
    offset = 0.5 * TRIAL["x"]
    model = BoostedGAM(bols(1), family="coxph").fit(X, Y, offset=offset)
    f = model.predict(X, kind="link", offset=offset)
    rows = model.family_.arrange(SIGNED)
    u = (
        rows.event
        - model.cumulative_hazard(X, abs(SIGNED), offset=offset).diagonal()[rows.rows]
    )
    expected, _ = cox_by_pairs(SIGNED, f, np.ones(len(f)))
    np.testing.assert_allclose(u, expected[rows.rows], atol=1e-12)


def test_scores_ignore_rows_without_weight() -> None:
    model = BoostedGAM(family="coxph", df=4, max_iter=20).fit(X, Y, W)
    assert 0.6 < model.score(X, Y) < 1
    assert model.score(X, Y, np.arange(120) < 60) == model.score(X[:60], Y[:60])
    np.testing.assert_array_equal(survival_times([2.0, 1.0]), [[2, 1], [1, 1]])
    assert not hasattr(BoostedGAM(), "survival_function")


@together("family", ["coxph", "log_normal"])
def test_plots_name_curves_by_what_differs(family: str) -> None:
    rng, n = np.random.default_rng(0), len(Y)
    d = {name: rng.random(n) for name in ("dose", "age", "size", "time")}
    d["sex"] = rng.choice(["f", "m"], n)
    model = BoostedGAM(family=family, max_iter=5).fit(d, Y)

    def curves(*changed: str, rows: int = 3, **options: Any) -> tuple[Any, Any]:
        at = {name: np.repeat(column[:1], rows) for name, column in d.items()}
        for name in changed:
            at[name] = np.array(["f", "m", "f"] if name == "sex" else [0.5, 1, 1.25])
        lines = model.plot_survival(at, [0, 0.5, 1], **options).axes[0].lines
        drawn = [line.get_ydata() for line in lines]
        np.testing.assert_array_equal(drawn, model.survival_function(at, [0, 0.5, 1]))
        return lines[0].get_drawstyle(), [line.get_label() for line in lines]

    numbers = ["row 0", "row 1", "row 2"]
    assert curves(labels=[*"abc"])[1] == [*"abc"]
    for changed, names in (
        ((), numbers),
        (("dose",), ["dose = 0.5", "dose = 1", "dose = 1.25"]),
        (
            ("sex", "dose"),
            [f"dose = {x}" for x in ("0.5, sex = f", "1, sex = m", "1.25, sex = f")],
        ),
        (("dose", "age", "size", "time"), numbers),
    ):
        style, found = curves(*changed)
        assert found == names
        assert (style == "steps-post") == (family == "coxph")
    assert curves(rows=1)[1] == ["row 0"]


@together("family", [CoxPH(), *FAILURES.values()], ids=str)
def test_curves_begin_at_1_also_of_earlier_iterations(family: Family) -> None:
    """`test_gam_properties` has curves of files."""
    model = BoostedGAM(family=family, max_iter=30).fit(X, Y)
    curves = model.survival_function(X, [0.0, 0.5, 1.0])
    assert (curves[:, 0] == 1).all()
    assert (np.diff(curves) < 0).all()
    short = BoostedGAM(family=family, max_iter=10).fit(X, Y)
    expected = short.survival_function(X, [0.5])
    found = model.stop_at(10).survival_function(X, [0.5])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
