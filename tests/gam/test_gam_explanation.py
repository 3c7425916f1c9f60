"""The contributions to predictions: they sum to the predictor, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpusolve.gam import (
    BoostedDistribution,
    BoostedGAM,
    bbs,
    bols,
    bspatial,
)

pytest.importorskip("matplotlib", reason="it draws the plots").use("Agg")

N = 90
TERMS = [bbs("x"), bols("g"), bspatial("x", "z", knots=4), bols("z")]


def data() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    d: dict[str, Any] = {"x": rng.random(N), "z": rng.normal(size=N)}
    d |= {"g": rng.choice([*"abc"], N), "t": rng.uniform(1, 9, N)}
    return d | {"y": rng.poisson(np.exp(d["x"] + (d["g"] == "b")))}


def test_the_predictor_has_an_offset_and_an_end() -> None:
    """`test_gam_properties` has the contributions of all models."""
    d = data()
    model = BoostedGAM(TERMS, family="poisson", max_iter=60).fit(d, d["y"])
    for options in ({}, {"iteration": 7}, {"offset": d["t"]}, {"offset": 2.0}):
        found = model.explain(d, **options)
        parts = np.column_stack([found.intercept + found.offset, found.contributions])
        link = model.predict(d, kind="link", **options)
        np.testing.assert_array_equal(found.link, link)
        np.testing.assert_array_equal(np.cumsum(parts, axis=1)[:, -1], link)
        np.testing.assert_array_equal(found.prediction, np.exp(link))
    spread = BoostedDistribution(TERMS[:2], max_iter=30).fit(d, d["y"] + d["x"])
    axis = spread.explain(d, fit="sigma").plot().axes[0]
    assert axis.get_xlabel() == "contribution to the log of sigma"


def test_the_table() -> None:
    pd = pytest.importorskip("pandas")
    d = data()
    model = BoostedGAM(TERMS, max_iter=30).fit(d, d["y"])
    table = model.explain(d, offset=d["t"]).to_frame()
    assert isinstance(table, pd.DataFrame)
    names = ["intercept", "offset", *model.names_, "link", "prediction"]
    assert table.columns.tolist() == names
    expected = model.predict(d, offset=d["t"])
    np.testing.assert_allclose(table.iloc[:, :-2].sum(axis=1), expected)


def test_the_waterfall_ends_at_the_predictor() -> None:
    d = data()
    model = BoostedGAM(TERMS, max_iter=60).fit(d, d["y"])
    found = model.explain(d, offset=d["t"])
    (axis,) = found.plot(4).axes
    ends = [bar.get_x() + bar.get_width() for bar in axis.patches]
    starts = [bar.get_x() for bar in axis.patches]
    np.testing.assert_allclose(starts[1:], ends[:-1])
    np.testing.assert_allclose(ends[:2], found.intercept + np.array([0, d["t"][4]]))
    np.testing.assert_allclose(ends[-1], found.link[4])
    lengths = np.abs(np.subtract(ends, starts)[2:])
    used = found.contributions[4][found.contributions[4] != 0]
    np.testing.assert_allclose(lengths, np.sort(np.abs(used))[::-1])
    labels = [text.get_text().replace("\n", " ") for text in axis.get_yticklabels()]
    assert labels[:2] == ["intercept", "offset"]
    assert {f"g = {d['g'][4]}", f"x = {d['x'][4]:.4g}"} <= set(labels)
    assert axis.get_xlabel() == "contribution to the mean"
