"""Formulas: transformations agree with patsy, learners with learners written out."""

from __future__ import annotations

import keyword
import pickle
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import patsy
import pytest
from patsy.state import stateful_transform
from scipy import special
from together import together

from gpusolve.gam import BoostedGAM, gamboost, glmboost, load
from gpusolve.gam.from_formula import MBOOST
from gpusolve.gam.terms import bbs, bmono, bols, brandom, bspatial, buser

N = 40


def data(seed: int = 0, n: int = N) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.normal(3, 1, n),
        "t": rng.uniform(0.5, 2, n),
        "count": rng.integers(0, 9, n),
        "g": rng.choice(["a", "b", "c"], n),
        "a name": rng.random(n),
    }


@stateful_transform
class largest:  # noqa: N801
    """Divides by the largest value of the first data."""

    def __init__(self) -> None:
        self.value = -np.inf

    def memorize_chunk(self, x: np.ndarray) -> None:
        self.value = max(self.value, float(x.max()))

    def memorize_finish(self) -> None:
        pass

    def transform(self, x: np.ndarray) -> np.ndarray:
        return x / self.value


def doubled(x: np.ndarray) -> np.ndarray:
    return 2 * x


ORACLES = [
    "x",
    "np.log(t)",
    "x ** 2 + t",
    "I(x / t)",
    "center(x)",
    "standardize(center(x) * t)",
    "scale(x, ddof=1) - center(np.log(t))",
    "largest(x)",
    "doubled(x) + shift",
    "np.where(g == 'a', x, count)",
    "Q('a name') * 2",
    "abs(x - 3)",
]


@together("code", ORACLES)
def test_expressions_are_patsy_s(code: str) -> None:
    """Also with new data: the transforms keep what they learned before."""
    shift = 7.5
    model = gamboost(f"t ~ bols({code}, intercept=False)", data(), max_iter=1)
    design = patsy.dmatrix(f"I({code}) - 1", data()).design_info
    for seed in (0, 1):
        (expected,) = patsy.build_design_matrices([design], data(seed))
        effects = model.effects(data(seed)) / model.coefficients_[0, 0]
        np.testing.assert_allclose(effects, expected, rtol=1e-13, atol=1e-13)
    assert shift == 7.5


# ---- learners ------------------------------------------------------------------------


LEARNERS = {
    "bbs(x)": [bbs("x")],
    "bbs(x, by=g, df=7) + bols(g)": [bbs("x", by="g", df=7), bols("g")],
    "bspatial(x, t, knots=6) + brandom(g)": [bspatial("x", "t", knots=6), brandom("g")],
    "bmono(x, constraint='convex')": [bmono("x", constraint="convex")],
    "bbs(x, end_knots='repeated')": [bbs("x", end_knots="repeated")],
    "bbs(t, cyclic=True, boundary=(0, 2))": [bbs("t", cyclic=True, boundary=(0, 2))],
    "buser(x, t, K=np.eye(2))": [buser("x", "t", K=np.eye(2))],
    "bbs(log(t), knots = k + 1)": [bbs("log(t)", knots=6)],
    "bbs( x,by=center(t) )": [bbs("x", by="center(t)")],
    "bbs('a name') + bbs(Q('a name'), df=3)": [bbs("a name"), bbs("a name", df=3)],
    "x + g + C(count)": [bbs("x"), bols("g"), bols("C(count)")],
    "I(x * t) + x == t": [bbs("I(x * t)"), bbs("x == t")],
    "bols(x):bols(g)": [bols("x") * bols("g")],
    "x:brandom(g):bols(t)": [bbs("x") * brandom("g") * bols("t")],
    "bbs(x) * brandom(g)": [bbs("x"), brandom("g"), bbs("x") * brandom("g")],
    "I(bols(x) + bbs(x, center=True))": [bols("x") + bbs("x", center=True)],
    "I((bols(x) + bols(t)) * g)": [(bols("x") + bols("t")) * bols("g")],
    "bols(t) / g - t": [bols("t"), bols("t") * bols("g")],
    "(x + brandom(g)) ** 2 - x": [brandom("g"), bbs("x") * brandom("g")],
    "bbs(x, df=3) + .": [
        bbs("x", df=3),
        bbs("t"),
        bbs("count"),
        bols("g"),
        bbs("a name"),
    ],
    "offset(log(t)) + bbs(x) + offset(count)": [bbs("x")],
}


@together("right", LEARNERS)
def test_a_formula_is_its_learners(right: str) -> None:
    k, response = 5, "x ** 2" if right.endswith(".") else "count"
    model = gamboost(f"{response} ~ {right}", data(), max_iter=0)
    assert [*map(repr, model.terms_)] == [*map(repr, LEARNERS[right])]
    columns = [name for term in LEARNERS[right] for name in term.columns]
    assert model.feature_names_in_.tolist() == [*dict.fromkeys(columns)]
    assert k == 5


def test_a_formula_may_have_thousands_of_summands() -> None:
    """patsy reads a sum by recursion, and fails."""
    names = [f"x{j}" for j in range(2000)]
    values = np.random.default_rng(0).random((2, 2000))
    data = {"y": values[:, 7], **dict(zip(names, values.T, strict=True))}
    text = " + ".join([*names, "x3", "offset(log(x1))"])
    model = glmboost(f"y ~ {text}", data, max_iter=0)
    assert model.terms_[1:] == [bols(f"center({x})", intercept=False) for x in names]


@together(
    ("code", "levels"),
    [
        ("C(count)", sorted(set(data()["count"].tolist()))),
        ("C(g)", ["a", "b", "c"]),
        ("C(g, levels=['c', 'b', 'a'])", ["c", "b", "a"]),
        ("C(count > 3)", [False, True]),
    ],
)
def test_c_marks_factors(code: str, levels: list[Any]) -> None:
    (term,) = gamboost(f"x ~ bols({code})", data(), max_iter=0).terms_
    assert term.covariates == (code,)
    assert list(term.found_levels) == levels


WORDS = [word for word in keyword.kwlist if word not in ("True", "False", "None")]


WITH_WORDS = [
    "y ~ {}",
    "y ~ bbs({})",
    "y ~ x + bbs(x, by={}):bols({})",
    "{} ~ bbs(x if x is not None else -x)",
    "y ~ I(bbs({}) + bols(x)) + offset(log( {}))",
    "y ~ np.where(({}) == 3, 1.0, {} * 2) + x",
]


@together(("word", "formula"), zip(WORDS, cycle(WITH_WORDS), strict=False))
def test_columns_may_have_the_names_of_keywords(word: str, formula: str) -> None:
    """As if they were quoted."""
    rng = np.random.default_rng(3)
    source = {name: rng.uniform(1, 2, 30) for name in ("y", "x", word)}
    model = gamboost(formula.replace("{}", word), source, max_iter=2)
    quoted = gamboost(formula.replace("{}", f"Q({word!r})"), source, max_iter=2)
    assert model.names_ == quoted.names_
    np.testing.assert_array_equal(model.predict(source), quoted.predict(source))


# ---- fits ----------------------------------------------------------------------------


def test_a_fit_is_that_of_its_learners_and_offsets() -> None:
    """Also with new data, which need no response."""
    source, new = data(n=200), data(1)
    learners = "bbs(log(t), df=3) + bols(g) + bspatial(x, t, knots=4)"
    formula = f"abs(count) ~ {learners} + offset(log(t)) + offset(center(t))"
    model = gamboost(formula, source, family="poisson", max_iter=30)
    terms = [bbs("log(t)", df=3), bols("g"), bspatial("x", "t", knots=4)]
    plain = BoostedGAM(terms, family="poisson", **MBOOST | {"max_iter": 30})
    center = source["t"].mean()
    start = np.log(source["t"]) + source["t"] - center
    plain.fit(source | {"log(t)": np.log(source["t"])}, source["count"], offset=start)
    assert type(model) is BoostedGAM
    assert model.names_ == plain.names_
    np.testing.assert_array_equal(model.selected_, plain.selected_)
    np.testing.assert_allclose(model.risk_, plain.risk_, rtol=1e-14)
    del new["count"]
    at, offset = (
        new | {"log(t)": np.log(new["t"])},
        np.log(new["t"]) + new["t"] - center,
    )
    prediction = plain.predict(at, offset=offset)
    np.testing.assert_allclose(model.predict(new), prediction, rtol=1e-13)
    *_, last = model.staged_predict(new)
    np.testing.assert_allclose(last, prediction, rtol=1e-13)
    without = model.predict(new, offset=0)
    np.testing.assert_allclose(without, plain.predict(at, offset=0), rtol=1e-13)
    grid = np.linspace(-0.5, 0.5, 5)
    found = model.partial_effect("bbs(log(t), df=3)", grid)
    expected = plain.partial_effect("log(t)", grid)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_the_features_are_the_columns_of_the_learners() -> None:
    model = gamboost("count ~ bbs(log(t)) + bbs(x, by=g, df=7) + t", data(n=100))
    assert model.feature_names_in_.tolist() == ["log(t)", "x", "g", "t"]
    a, b, c = (model.importance()[name] for name in model.names_)
    expected = np.array([a, b / 2, b / 2, c]) / (a + b + c)
    np.testing.assert_allclose(model.feature_importances_, expected, rtol=1e-12)


def test_the_callers_names_come_before_the_common_ones() -> None:
    """And columns before the names of the caller."""
    log, x, df = doubled, np.zeros(N), 3
    model = gamboost("count ~ bbs(log(t), df=df) + bols(x)", data(), max_iter=9)
    assert model.names_ == ["bbs(log(t), df=3)", "bols(x)"]
    given = data() | {"log(t)": log(data()["t"])}
    terms = [bbs("log(t)", df=df), bols("x")]
    same = BoostedGAM(terms, **MBOOST | {"max_iter": 9}).fit(given, given["count"])
    np.testing.assert_array_equal(model.predict(data()), same.predict(given))
    assert not x.any()


def test_names_are_found_in_the_caller_of_a_wrapper() -> None:
    def wrapper(formula: str, env: int) -> BoostedGAM:
        found: BoostedGAM = gamboost(formula, data(), max_iter=1, eval_env=env)
        return found

    degrees = 3
    assert wrapper("x ~ bbs(t, df=degrees)", 1).names_ == [f"bbs(t, df={degrees})"]
    with pytest.raises(ValueError, match="name 'degrees' is not defined"):
        wrapper("x ~ bbs(t, df=degrees)", 0)


def test_a_data_frame_a_pickle_and_a_file(tmp_path: Path) -> None:
    """Transformations keep what they learned, and modules are kept by name."""
    source, new = pd.DataFrame(data(n=100)), pd.DataFrame(data(1))[::-1]
    shift = 7.5
    codes = [
        code for code in ORACLES if "doubled" not in code and "largest" not in code
    ]
    terms = [f"bols({code})" for code in codes] + ["bols(special.expit(x) * shift)"]
    formula = f"count ~ {' + '.join(terms)} + bbs(center(x), by=C(g)) + offset(log(t))"
    model = gamboost(formula, source, family="poisson", max_iter=60)
    assert len(set(model.selected_.tolist())) > 6
    prediction = model.predict(new)
    np.testing.assert_allclose(prediction, model.predict(data(1))[::-1], rtol=1e-13)
    model.save(tmp_path / "model.json")
    for loaded in (pickle.loads(pickle.dumps(model)), load(tmp_path / "model.json")):
        assert loaded.formula_.text == formula
        np.testing.assert_array_equal(loaded.predict(new), prediction)
    own = gamboost("count ~ bols(largest(x))", source, max_iter=1)
    with pytest.raises(TypeError, match="largest"):
        own.save(tmp_path / "own.json")
    assert (shift, special.__name__) == (7.5, "scipy.special")


# ---- lines ---------------------------------------------------------------------------


def componentwise_lines(
    X: np.ndarray, y: np.ndarray, family: str, steps: int
) -> tuple[list[int], np.ndarray]:
    """Selected columns and coefficients, by the definition of mboost's glmboost."""
    link = {"gaussian": lambda f: f, "poisson": np.exp}[family]
    offset = y.mean() if family == "gaussian" else np.log(y.mean())
    coef, selected = np.zeros(X.shape[1]), []
    for _ in range(steps):
        u = y - link(offset + X @ coef)
        fits = [np.linalg.lstsq(x[:, None], u)[0][0] for x in X.T]
        losses = [((u - x * b) ** 2).sum() for x, b in zip(X.T, fits, strict=True)]
        j = int(np.argmin(losses))
        selected.append(j)
        coef[j] += 0.1 * fits[j]
    return selected, coef


@together("family", ["gaussian", "poisson"])
@together("center", [True, False])
def test_lines_are_those_of_the_definition(family: str, center: bool) -> None:
    rng = np.random.default_rng(0)
    x, z = rng.uniform(1, 2, 60), rng.standard_normal(60)
    g = rng.choice(["a", "b", "c"], 60)
    y = rng.poisson(np.exp(0.3 * x - 0.3 * z + 0.5 * (g == "c"))).astype(float)
    data = {"x": x, "z": z, "g": g, "y": y}
    model = glmboost(
        "y ~ x + z + C(g)", data, family=family, center=center, max_iter=60
    )
    columns = np.column_stack([x, z, g == "b", g == "c"])
    means = columns.mean(axis=0) * center
    X = np.column_stack([np.ones(60), columns - means])
    selected, coef = componentwise_lines(X, y, family, 60)
    np.testing.assert_array_equal(model.selected_, selected)
    np.testing.assert_allclose(model.coefficients_[:, 0], coef, rtol=1e-9, atol=1e-12)
    new = {"x": [1.5, 3.0], "z": [0.0, 1.0], "g": ["c", "a"]}
    rows = np.array([[1, 1.5, 0, 0, 1], [1, 3.0, 1, 0, 0]])
    rows[:, 1:] -= means
    expected = model.intercept_ + rows @ coef
    found = model.predict(new, kind="link")
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("emulated", ["0", "1"])
def test_lines_of_a_factor_are_those_of_mboost(
    emulated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its path and risk; only the intercept is not centred."""
    monkeypatch.setenv("GPUSOLVE_EMULATE", emulated)
    data = {
        "x": np.arange(1, 13) / 12,
        "g": np.array(list("aabbbbcccccc")),
        "y": np.array([1, 2, 4, 3, 5, 4, 9, 8, 9, 7, 8, 9.0]),
    }
    model = glmboost("y ~ x + g", data, max_iter=20)
    np.testing.assert_array_equal(model.selected_[:6] + 1, [4, 4, 4, 2, 4, 2])
    assert model.risk_[-1] == pytest.approx(12.62531, abs=5e-6)
