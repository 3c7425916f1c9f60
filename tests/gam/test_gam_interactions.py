"""Interactions: the pairs that are found, and the models with them."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import brentq
from together import together

from gpusolve.gam import (
    BoostedGAM,
    BoostedGAMClassifier,
    bbs,
    bols,
    brandom,
    bspatial,
    cv_stop,
    gamboost,
    survival_times,
)

Columns = dict[str, Any]


def sample(n: int, seed: int = 0) -> Columns:
    """Numbers, two factors, and a skewed number that has no effect."""
    rng = np.random.default_rng(seed)
    data: Columns = {f"x{j}": rng.random(n) for j in range(4)}
    return data | {
        "skewed": np.exp(2 * rng.standard_normal(n)),
        "g": rng.choice([*"abc"], n),
        "h": rng.choice([*"uvw"], n),
    }


def main_effects(data: Columns) -> Any:
    return np.sin(4 * data["x0"]) / 2 + data["x2"] / 2 + 0.5 * (data["g"] == "a")


EFFECTS: dict[tuple[str, str], Any] = {
    ("x0", "x1"): lambda d: 5 * (d["x0"] - 0.5) * (d["x1"] - 0.5),
    ("x3", "g"): lambda d: 3 * (d["x3"] - 0.5) * (d["g"] == "b"),
    ("g", "h"): lambda d: 1.5 * (d["g"] == "a") * (d["h"] == "u"),
}
"""The joint effects of two numbers, of a number and a factor, of two factors."""


# ---- what is found -------------------------------------------------------------------


def test_each_class_and_each_censored_time_counts(rng: np.random.Generator) -> None:
    X = rng.random((600, 4))
    f = 8 * (X[:, 1] - 0.5) * (X[:, 3] - 0.5)
    y = np.digitize(f + 0.5 * rng.standard_normal(600), [-0.5, 0.5])
    times = survival_times(rng.exponential(np.exp(-f)), rng.random(600) < 0.8)
    for model, target in (
        (BoostedGAMClassifier(), y),
        (BoostedGAMClassifier(family="multinomial"), y),
        (BoostedGAMClassifier(family="prop_odds"), y),
        (BoostedGAM(family="coxph"), times),
        (BoostedGAM(family="weibull"), times),
        (BoostedGAM(family="huber"), f),
    ):
        model.set_params(interactions=1, max_iter=10).fit(X, target)
        assert model.interactions_ == [(1, 3)], model


def test_pairs_are_joint_effects_alone() -> None:
    data = sample(500)
    y = main_effects(data) + EFFECTS["x0", "x1"](data) + EFFECTS["x3", "g"](data)
    model = BoostedGAM(interactions=2, max_iter=40).fit(data, y)
    assert set(model.interactions_) == {("x0", "x1"), ("x3", "g")}
    assert set(model.names_[-2:]) == {"bbs(x0) * bbs(x1)", "bbs(x3) * bols(g)"}
    assert {term.df for term in model.terms_[-2:]} == {6}
    assert all(term.parts[0].boundary == "robust" for term in model.terms_[-2:])
    for index, term in enumerate(model.terms_):
        if len(term.columns) == 2:
            margins = term.left, term.right
            b = model.path_.coef(len(model.terms_))[index][: term.functions]
            assert abs(b).max() > 0.1
            B = b.reshape([margin.functions for margin in margins])
            for axis in (0, 1):
                np.testing.assert_allclose(B.sum(axis=axis), 0, atol=1e-13)


# ---- the score, by least squares -----------------------------------------------------


def margin_by_hand(x: Any, bins: int = 5) -> tuple[Any, Any]:
    """All functions of a margin, and columns whose ridge is its penalty."""
    if x.dtype.kind == "U":
        F = (x[:, None] == np.unique(x)).astype(float)
        return F, F[:, :-1] - F[:, -1:]
    cuts = np.quantile(x, np.arange(1, bins) / bins)
    knots = np.unique([x.min(), *cuts, x.max()])
    F = np.stack([np.interp(x, knots, row) for row in np.eye(len(knots))], axis=1)
    D = np.diff(np.eye(F.shape[1]), axis=0)
    return F, F @ np.linalg.pinv(D)


def joint_effect_by_hand(x: Any, z: Any, w: Any) -> Any:
    """The columns of a pair beyond the main effects, times the roots of the weights."""
    (Fx, Cx), (Fz, Cz) = margin_by_hand(x), margin_by_hand(z)
    root = np.sqrt(w)[:, None]
    main = root * np.hstack([Fx, Fz])
    Z = root * (Cx[:, :, None] * Cz[:, None]).reshape(len(x), -1)
    return Z - main @ np.linalg.lstsq(main, Z, rcond=1e-10)[0]


def score_by_hand(x: Any, z: Any, u: Any, w: Any, df: float) -> float:
    """The reduction of the weighted sum of squares by a ridge of `df` degrees."""
    Z = joint_effect_by_hand(x, z, w)
    v, singular = np.sqrt(w) * u, np.linalg.svd(Z, compute_uv=False)
    share = singular[singular > 1e-6 * singular[0]] ** 2

    def excess(log_ridge: float) -> float:
        s = share / (share + np.exp(log_ridge))
        return float((2 * s - s**2).sum()) - df

    ridge = np.exp(brentq(excess, -40, 40, xtol=1e-14)) if len(share) > df else 0.0
    stacked = np.vstack([Z, np.sqrt(ridge) * np.eye(Z.shape[1])])
    target = np.concatenate([v, np.zeros(Z.shape[1])])
    b = np.linalg.lstsq(stacked, target, rcond=1e-10)[0]
    return float(v @ v - ((v - Z @ b) ** 2).sum())


@together("weighted", [False, True])
@together("seed", range(4))
def test_the_first_pair_reduces_the_sum_of_squares_most(
    weighted: bool, seed: int
) -> None:
    """Noise has no pair: all scores are near each other."""
    rng = np.random.default_rng(seed)
    data = sample(150, seed) | {"few": rng.integers(0, 3, 150).astype(float)}
    data["two"] = rng.choice([*"yn"], 150)
    w = rng.uniform(0.2, 3, 150) if weighted else np.ones(150)
    w[np.argsort(data["skewed"])[-30:]] *= not weighted
    y = rng.standard_normal(150)
    given: Any = {"max_iter": 9, "outside": "linear"}
    alone = BoostedGAM(**given).fit(data, y, sample_weight=w)
    u = y - alone.predict(data)
    scores = {
        (a, b): score_by_hand(*(x[w > 0] for x in (data[a], data[b], u, w)), 6.0)
        for a, b in combinations(data, 2)
    }
    model = BoostedGAM(interactions=1, **given).fit(data, y, sample_weight=w)
    assert model.interactions_ == [max(scores, key=lambda pair: scores[pair])]


def test_main_effects_have_no_score(rng: np.random.Generator) -> None:
    """Also of columns that repeat others, or do not vary, up to rounding."""
    x = rng.random(200)
    data: Columns = {"x": x, "same": x, "one": np.ones(200)}
    data["g"], data["only"] = rng.choice([*"abcde"], 200), np.full(200, "z")
    data["h"] = np.where(data["g"] < "c", "low", "high")
    y, w = rng.standard_normal(200), rng.uniform(0.5, 2, 200)
    given = [bols("g"), bols("h"), bols("one"), bols("only")]
    for weights in (None, w):
        model = BoostedGAM(given, interactions=3, max_iter=5)
        assert model.fit(data, y, sample_weight=weights).interactions_ == []
        model = BoostedGAM(interactions=9, max_iter=5)
        model.fit(data, y, sample_weight=weights)
        wrong = {("g", "h")} | {(a, b) for a in data for b in ("one", "only")}
        assert 2 <= len(model.interactions_) == len(set(model.interactions_))
        assert not wrong & {
            *model.interactions_,
            *(p[::-1] for p in model.interactions_),
        }
    assert BoostedGAM(interactions=2, max_iter=5).fit(x[:, None], x).interactions_ == []
    assert BoostedGAM(interactions=2, max_iter=5).fit(data, x * 0).interactions_ == []


# ---- the search ----------------------------------------------------------------------


def test_features_that_resemble_each_other_have_one_pair() -> None:
    data = sample(600)
    for name in ("x0", "x1"):
        data[f"{name} again"] = (
            data[name] + 0.01 * data["skewed"] / data["skewed"].max()
        )
    f = main_effects(data) + 2 * EFFECTS["x0", "x1"](data) + EFFECTS["x3", "g"](data)
    model = BoostedGAM(interactions=2, max_iter=60).fit(
        data, f + 0.4 * np.random.default_rng(1).standard_normal(len(f))
    )
    (first, second), weaker = model.interactions_
    assert {first[:2], second[:2]} == {"x0", "x1"}
    assert weaker == ("x3", "g")


def test_an_offset_is_part_of_the_model(rng: np.random.Generator) -> None:
    X = rng.random((500, 3))
    first, second = (X[:, j] - 0.5 for j in (0, 1))
    joint = 5 * first * second
    y = joint + 3 * second * (X[:, 2] - 0.5) + 0.2 * rng.standard_normal(500)
    model = BoostedGAM(interactions=1, max_iter=10)
    assert model.fit(X, y).interactions_ == [(0, 1)]
    assert model.fit(X, y, offset=joint).interactions_ == [(1, 2)]


def test_factors_of_many_levels_have_no_pair(rng: np.random.Generator) -> None:
    data = {"x": rng.random(600), "g": rng.integers(0, 60, 600).astype(str)}
    y = 5 * (data["x"] - 0.5) * (data["g"].astype(int) % 2)
    model = BoostedGAM(interactions=3, max_iter=5).fit(data, y)
    assert model.interactions_ == []
    data["g"] = (data["g"].astype(int) % 30).astype(str)
    assert model.fit(data, y).interactions_ == [("x", "g")]


# ---- models with pairs ---------------------------------------------------------------


def test_a_model_with_pairs_is_the_model_of_its_learners() -> None:
    """`test_gam_properties` has its files and its warm start."""
    data, seen = sample(300), list[float]()
    f = main_effects(data) + EFFECTS["g", "h"](data) + EFFECTS["x0", "x1"](data)
    y = f + 0.4 * np.random.default_rng(1).standard_normal(len(f))
    for options in ({}, {"max_iter": 30}, {"early_stopping": True}):
        model = BoostedGAM(interactions=2, **options).fit(data, y)
        same = BoostedGAM(model.terms_, **options).fit(data, y)
        np.testing.assert_array_equal(model.coefficients_, same.coefficients_)
        np.testing.assert_array_equal(model.predict(data), same.predict(data))
        assert same.interactions_ == []
        risks = [cv_stop(one, n_folds=3, random_state=0).risk for one in (model, same)]
        np.testing.assert_array_equal(*risks)
    model = BoostedGAM(interactions=2, max_iter=30, warm_start=True)
    model.set_params(callback=lambda _, risk: seen.append(risk)).fit(data, y)
    np.testing.assert_array_equal(seen, model.risk_[1:])
    pairs = model.interactions_
    assert model.set_params(max_iter=40).fit(data, y).interactions_ == pairs


def test_learners_and_formulas_get_pairs() -> None:
    data = sample(400)
    y = main_effects(data) + EFFECTS["x0", "x1"](data) + EFFECTS["x3", "g"](data)
    given = [bbs("x0"), bbs("x1"), bbs("x2"), bols("x3"), brandom("g")]
    options: dict[str, Any] = {"max_iter": 60, "interactions": 2}
    model = BoostedGAM(given, **options).fit(data, y)
    assert set(model.interactions_) == {("x0", "x1"), ("x3", "g")}
    # A pair that a learner reads is not searched, in whatever order.
    known = [*given, bspatial("x1", "x0", knots=4), bbs("x3", by="g")]
    others = BoostedGAM(known, **options).fit(data, y).interactions_
    assert not {("x0", "x1"), ("x3", "g")} & set(others)
    formula = gamboost("y ~ bbs(x0) + bbs(sqrt(x1)) + g", data | {"y": y}, **options)
    assert formula.interactions_[0] == ("x0", "sqrt(x1)")
    frame = {name: data[name][:5] for name in ("x0", "x1", "g")}
    link = formula.intercept_ + formula.effects(frame).sum(axis=1)
    np.testing.assert_allclose(formula.predict(frame), link, rtol=1e-12)
    # A number that is a factor in a learner is a factor in its pair.
    data["code"] = np.searchsorted([*"abc"], data["g"])
    coded = BoostedGAM([bbs("x3"), brandom("code")], **options).fit(data, y)
    assert coded.names_[-1] == "bbs(x3) * bols(code)"
