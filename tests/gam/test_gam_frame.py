"""Data frames of all packages: columns, factors, and the models of them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from backends import namespace
from together import together

from gpusolve.gam import (
    BoostedDistribution,
    BoostedGAM,
    BoostedGAMClassifier,
    bbs,
    bols,
    brandom,
    cv_stop,
    gamboost,
    glmboost,
)

# What a model reads of a column, which it does not show.
from gpusolve.gam._terms.frame import Frame

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")


Columns = dict[str, Any]


# ---- columns -------------------------------------------------------------------------

TEXT = np.array(["b", "a", None, "b"], object)
NUMBERS = np.array([1.0, 2.0, np.nan, 4.0])
HIGH = ["high", "low", None, "low"]
LEVELS = ["low", "middle", "high"]
ORDERED = pd.Categorical(HIGH, LEVELS, ordered=True)
CODES = pa.DictionaryArray.from_arrays(
    pa.array([2, 0, None, 0]), pa.array(LEVELS), ordered=True
)

COLUMNS: list[tuple[Any, list[Any]]] = [
    (TEXT, [
        [*TEXT], pd.Series([*TEXT], dtype="string"), pd.Series(TEXT, dtype="category"),
        pd.Categorical(TEXT), pl.Series([*TEXT]), pa.array([*TEXT]),
        pl.Series([*TEXT], dtype=pl.Categorical),
    ]),
    (ORDERED, [
        pl.Series(HIGH, dtype=pl.Enum(LEVELS)), CODES, pa.chunked_array([CODES]),
        pd.Series(ORDERED),
    ]),
    (NUMBERS, [
        [1, 2, None, 4], np.array([1, 2, None, 4], object), pd.Series(NUMBERS),
        np.array([1, 2, pd.NA, 4], object), [Decimal("1.0"), Decimal(2), None, 4],
        pd.Series([1, 2, pd.NA, 4], dtype="Int64"),
        np.ma.masked_array([1, 2, 7, 4], [0, 0, 1, 0]),
        np.ma.masked_array([1.0, 2, np.inf, 4], [0, 0, 1, 0]),
    ]),
    (NUMBERS[[0, 1, 3]], [
        np.array([1, 2, 4], np.uint8), np.array([1.0, 2, 4], object), [1, 2, 4],
        pd.Series([1, 2, 4], dtype="UInt8"),
    ]),
    (np.array([1.0, 0.0]), [[True, False], np.array([True, False], object)]),
]  # fmt: skip
"""Columns of NumPy or pandas, and other columns of the same values."""


@together(("column", "others"), COLUMNS)
def test_columns_of_all_kinds_are_the_same(column: Any, others: Any) -> None:
    """As numbers, and as factors of a random effect."""

    def fitted(x: Any) -> BoostedGAM:
        model = BoostedGAM([bols("x"), brandom("x", df=1)], missing="zero")
        return model.set_params(max_iter=9).fit({"x": x}, np.arange(len(column)) ** 2.0)

    expected = fitted(column)
    effects = expected.effects({"x": column})
    for other in others:
        model = fitted(other)
        np.testing.assert_array_equal(model.risk_, expected.risk_)
        np.testing.assert_array_equal(model.effects({"x": other}), effects)
        np.testing.assert_array_equal(expected.effects({"x": other}), effects)
        assert model.terms_ == expected.terms_


def test_levels_have_an_order_and_types() -> None:
    """Missing values have no level; a known order ties neighbouring levels."""
    for column, levels in (
        (TEXT, ("a", "b")),
        (ORDERED, tuple(LEVELS)),
        ([3, 1, 3], (1, 3)),
        (NUMBERS, (1.0, 2.0, 4.0)),
        ([True, False], (False, True)),
        (np.array([True, False, None, True], object), (0.0, 1.0)),
    ):
        y = np.arange(len(column)) * 1.0
        model = BoostedGAM([brandom("g", df=1)], missing="zero", max_iter=0)
        (term,) = model.fit({"g": column}, y).terms_
        assert term.found_levels == levels
        assert [*map(type, term.found_levels)] == [*map(type, levels)]
    model = BoostedGAM([bols("g", df=1)], missing="zero", max_iter=0)
    K = model.fit({"g": ORDERED}, np.arange(4.0)).terms_[0].penalty()
    np.testing.assert_array_equal(K, [[2, -1, 0], [-1, 2, -1], [0, -1, 1]])


# ---- frames --------------------------------------------------------------------------


def test_float32_is_kept(backend: Any) -> None:
    for x in (backend.array(np.float32([1, 2])), pd.Series([1, 2], dtype="Float32")):
        assert Frame.of({"x": x}).numeric("x").dtype == np.float32


def test_names_and_positions_of_a_data_frame() -> None:
    data = pd.DataFrame({"x": [1.0, 2.0], "g": ["u", "v"], "when": ["no", 1]})
    frame = Frame.of(data, columns=["g", 0, "g"])
    assert frame.names == ("g", 0)
    np.testing.assert_array_equal(frame.numeric(0), [1, 2])
    np.testing.assert_array_equal(Frame.of(data[["x", "g"]]).numeric(0), [1, 2])
    assert Frame.of(frame) is frame
    frame = Frame.of(np.array([[1, "u"], [2, "v"]], object))
    np.testing.assert_array_equal(frame.numeric(0), [1, 2])
    assert frame.factor(1).levels == ("u", "v")


@pytest.mark.gpu
@pytest.mark.parametrize("backend", ["cuda"], indirect=True)
def test_numbers_on_two_devices_are_an_error(backend: Any) -> None:
    x = backend.array(np.ones(2))
    with pytest.raises(TypeError, match="a on the CPU"):
        Frame.of({"a": np.ones(2), "b": x})
    assert namespace(Frame.of({"a": np.ones(2), "b": x}, "cuda").numeric("a")) is not np


# ---- models --------------------------------------------------------------------------


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


@together("package", FRAMES)
@together(
    ("kind", "learners"),
    [
        (BoostedGAM, None),
        (BoostedGAMClassifier, {"x": bbs(), "price": bols(), "g": bols()}),
        (BoostedDistribution, None),
    ],
)
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


@together("package", FRAMES)
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


def test_a_frame_of_numbers_has_no_order_of_columns_and_times_may_be_a_frame() -> None:
    made = columns()
    X = {name: made[name] for name in ("x", "k")}
    frame, other = pl.DataFrame(X), pl.DataFrame(X).select("k", "x")
    model = BoostedGAM(max_iter=9).fit(frame, X["x"])
    np.testing.assert_array_equal(model.predict(frame), model.predict(other))
    of_array = BoostedGAM(max_iter=9).fit(np.c_[X["x"], X["k"]], X["x"])
    np.testing.assert_array_equal(model.predict(frame), of_array.predict(frame))
    times = {"time": made["t"], "event": made["k"] > 3}
    fits = [
        BoostedGAM(family="coxph", max_iter=9).fit(made["x"][:, None], y).risk_
        for y in (times, pl.DataFrame(times), pa.table(times))
    ]
    np.testing.assert_array_equal(fits[1:], fits[:1] * 2)


# ---- data that are read in blocks ----------------------------------------------------


@together("dtype", ["float32", "float64", "int64"])
def test_data_on_disk_and_of_dask_are_arrays(dtype: str, tmp_path: Path) -> None:
    X = (99 * np.random.default_rng(0).random((300, 5))).astype(dtype)
    y, w = np.sin(X[:, 0]) + X[:, 1], np.arange(300) % 4 + 1.0
    stored = np.memmap(tmp_path / "X", dtype, "w+", shape=X.shape)
    stored[:] = X
    lazy = da.from_array(X, chunks=(70, 3))
    third = np.arange(300) % 3 > 0
    unknown = lazy[da.from_array(third, chunks=70)]
    for source, rows in (
        (stored, slice(None)), (X[::2], slice(None, None, 2)), (lazy, slice(None)),
        (unknown, third), (da.from_array(X, chunks=77), slice(None)),
    ):  # fmt: skip
        given = (da.from_array(a[rows], chunks=77) for a in (y, w))
        expected = BoostedGAM(max_iter=9).fit(X[rows], y[rows], w[rows])
        model = BoostedGAM(max_iter=9).fit(source, *given)
        np.testing.assert_array_equal(model.risk_, expected.risk_)
        np.testing.assert_array_equal(model.predict(source), expected.predict(X[rows]))
    if dtype == "float64":
        stored[-50, 1] = np.nan
        with pytest.raises(ValueError, match="1 must not have missing values"):
            expected.predict(stored)


def test_dask_has_data_frames() -> None:
    X = np.random.default_rng(0).random((300, 4))
    dd: Any = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"])
    frame["g"] = pd.Categorical(np.where(X[:, 2] > 0.5, "u", "v"))
    frame["s"] = np.where(X[:, 3] > 0.5, "p", "q")
    expected = BoostedGAM(max_iter=9).fit(frame, X[:, 0])
    model = BoostedGAM(max_iter=9).fit(dd.from_pandas(frame, npartitions=3), X[:, 0])
    np.testing.assert_array_equal(model.risk_, expected.risk_)
    assert model.names_ == expected.names_
