"""Models of data frames of polars and pyarrow, compared with arrays of NumPy."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from together import together

from gpusolve.gam import (
    BoostedDistribution,
    BoostedGAM,
    BoostedGAMClassifier,
    bbs,
    bols,
    cv_stop,
    gamboost,
    glmboost,
)
from gpusolve.gam._terms.frame import Frame

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

LEVELS = ["low", "middle", "high"]

Columns = dict[str, Any]


def columns(n: int = 90) -> Columns:
    """Columns of NumPy: numbers, text, and numbers that frames have as decimals."""
    rng = np.random.default_rng(3)
    made = {
        "x": rng.random(n),
        "k": rng.integers(0, 9, n),
        "price": rng.integers(1, 999, n) / 100,
        "g": rng.choice(["u", "v", "w"], n),
        "t": rng.uniform(1, 2, n),
    }
    made["y"] = np.sin(6 * made["x"]) + (made["g"] == "v") + made["price"] / 9
    return made


def polars_of(made: Columns) -> Any:
    price = [Decimal(round(100 * x)) / 100 for x in made["price"]]
    return pl.DataFrame(made | {"price": price})


FRAMES = {
    "polars": polars_of,
    "table": lambda made: polars_of(made).to_arrow(),
    "batch": lambda made: polars_of(made).to_arrow().to_batches()[0],
    "series": lambda made: dict(polars_of(made).to_dict()),
    "chunks": lambda made: {c: polars_of(made).to_arrow()[c] for c in made},
    "pandas": lambda made: pd.DataFrame(dict(polars_of(made).to_dict(as_series=False))),
}


@pytest.mark.parametrize("package", FRAMES)
@pytest.mark.parametrize(
    "kind", [BoostedGAM, BoostedGAMClassifier, BoostedDistribution]
)
@together("learners", [None, {"x": bbs(), "price": bols(), "g": bols()}])
def test_models_are_the_same_as_of_arrays(
    package: str, kind: Any, learners: Any
) -> None:
    made = columns()
    y = made.pop("y")
    if kind is BoostedGAMClassifier:
        y = np.where(y > y.mean(), "yes", "no")
    frame, w = FRAMES[package](made), np.arange(90) % 3
    expected = kind(learners, max_iter=15).fit(made, y, sample_weight=w)
    model = kind(learners, max_iter=15)
    model.fit(frame, pl.Series(y), sample_weight=pl.Series(w))
    assert model.n_features_in_ == 5
    assert model.feature_names_in_.tolist() == list(made)
    np.testing.assert_array_equal(model.risk_, expected.risk_)
    np.testing.assert_array_equal(model.predict(frame), expected.predict(made))
    np.testing.assert_array_equal(model.effects(frame), expected.effects(made))
    assert model.score(frame, pa.array(y)) == expected.score(made, y)
    folds = pl.DataFrame(np.arange(90)[:, None] % 4 != np.arange(4))
    risk = cv_stop(model, folds).risk
    np.testing.assert_array_equal(risk, cv_stop(expected, folds.to_numpy()).risk)
    x = pl.Series([0.2, 0.7])
    found = model.partial_effect("x", x)
    np.testing.assert_array_equal(found, expected.partial_effect("x", x.to_numpy()))


@pytest.mark.parametrize("package", FRAMES)
@together(
    ("fit", "formula"),
    [
        (gamboost, "y ~ bbs(log(x)) + price + g + offset(log(t))"),
        (gamboost, "y ~ bbs(x, by=g) + bols(C(g)) + I(price * k)"),
        (gamboost, "y ~ ."),
        (glmboost, "y ~ ."),
        (glmboost, "y ~ price + log(price) + g"),
    ],
)
def test_formulas_compute_with_the_columns(
    package: str, fit: Any, formula: str
) -> None:
    made = columns()
    frame = FRAMES[package](made)
    expected, model = fit(formula, made, max_iter=15), fit(formula, frame, max_iter=15)
    assert model.names_ == expected.names_
    np.testing.assert_array_equal(model.predict(frame), expected.predict(made))
    again = model.__class__(**model.get_params()).fit(frame)
    np.testing.assert_array_equal(again.risk_, expected.risk_)


def test_a_numeric_frame_has_no_order_of_columns() -> None:
    X = {name: columns()[name] for name in ("x", "k")}
    frame, other = pl.DataFrame(X), pl.DataFrame(X).select("k", "x")
    model = BoostedGAM(max_iter=9).fit(frame, X["x"])
    np.testing.assert_array_equal(model.predict(frame), model.predict(other))
    of_array = BoostedGAM(max_iter=9).fit(np.c_[X["x"], X["k"]], X["x"])
    np.testing.assert_array_equal(model.predict(frame), of_array.predict(frame))
    with pytest.raises(ValueError, match="x must not have missing values"):
        model.predict(pl.DataFrame({"x": [0.1, None], "k": [1, 2]}))


def test_categories_keep_their_order() -> None:
    values = ["high", "low", None, "low"]
    codes = pa.array([2, 0, None, 0])
    dictionary = pa.DictionaryArray.from_arrays(codes, pa.array(LEVELS), ordered=True)
    for column in (
        pl.Series(values, dtype=pl.Enum(LEVELS)),
        dictionary,
        pa.chunked_array([dictionary]),
        pd.Categorical(values, LEVELS, ordered=True),
    ):
        factor = Frame.of({"g": column}).factor("g")
        assert (factor.levels, factor.ordered) == (tuple(LEVELS), True)
        np.testing.assert_array_equal(factor.codes, [2, 0, -1, 0])
    for column in (pl.Series(values, dtype=pl.Categorical), pa.array(values)):
        factor = Frame.of({"g": column}).factor("g")
        assert (factor.levels, factor.ordered) == (("high", "low"), False)


def test_times_are_an_error() -> None:
    when = pl.Series([1, 2]).cast(pl.Date)
    for column in (when, when.to_arrow(), when.cast(pl.Datetime("us", "UTC"))):
        with pytest.raises(TypeError, match="when must be real or a factor"):
            Frame.of({"when": column})


def test_survival_times_may_be_a_frame() -> None:
    made = columns()
    times = {"time": made["t"], "event": made["k"] > 3}
    expected = BoostedGAM(family="coxph", max_iter=9).fit(made["x"][:, None], times)
    for y in (pl.DataFrame(times), pa.table(times)):
        model = BoostedGAM(family="coxph", max_iter=9).fit(made["x"][:, None], y)
        np.testing.assert_array_equal(model.risk_, expected.risk_)
