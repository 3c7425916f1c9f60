"""Pictures of fitted models: what is drawn is what the model and its folds say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from together import together

from gpusolve.gam import (
    BoostedGAM,
    BoostedGAMClassifier,
    CrossValidation,
    bbs,
    bmono,
    bols,
    bootstrap_effects,
    brandom,
    bspatial,
    cv_stop,
)
from gpusolve.gam._plots.effects import Axis, Effect, effect_of
from gpusolve.gam._plots.plot import MARGIN, shared_limits

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib draws the plots")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

N = 150


@pytest.fixture(autouse=True)
def close() -> Iterator[None]:
    yield
    plt.close("all")


def data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {
        "x": rng.random(N),
        "z": rng.normal(size=N),
        "g": rng.choice(["a", "b", "c"], N, p=[0.5, 0.2, 0.3]),
        "h": rng.choice([1, 2], N),
        "lon": rng.uniform(0, 9, N),
        "lat": rng.uniform(40, 50, N),
    }


def response(d: dict[str, np.ndarray]) -> np.ndarray:
    f = np.sin(6 * d["x"]) + (d["g"] == "b") + d["z"] * d["x"] + np.sin(d["lon"])
    return np.asarray(f + 0.1 * np.random.default_rng(6).normal(size=N))


def fitted(*terms: Any, **parameters: Any) -> BoostedGAM:
    d = data()
    return BoostedGAM(list(terms), max_iter=40, **parameters).fit(d, response(d))


# ---- effects -------------------------------------------------------------------------

KINDS = {
    "curve": (bbs("x"), ["x"], [], {}),
    "line": (bols("x"), ["x"], [], {}),
    "monotone": (bmono("x", df=3), ["x"], [], {}),
    "levels": (bols("g"), ["g"], [], {}),
    "levels of numbers": (brandom("h", df=1), ["h"], [], {}),
    "map": (bspatial("lon", "lat", knots=4), ["lon", "lat"], [], {}),
    "plane": (bols("lon", "lat"), ["lon", "lat"], [], {}),
    "groups": (bbs("x", by="g", df=7), ["x", "g"], [], {}),
    "varying coefficient": (bbs("x", by="z"), ["x"], ["z"], {}),
    "varying map": (bspatial("lon", "lat", by="z", knots=4), ["lon", "lat"], ["z"], {}),
    "map by level": (
        bspatial("lon", "lat", by="g", knots=4, df=9), ["lon", "lat"], [], {"g": "c"},
    ),
    "table": (bols("g") * brandom("h"), ["g", "h"], [], {}),
    "sum": (bols("x") + bbs("x", center=True, df=3), ["x"], [], {}),
    "product": (bols("g") * bbs("x", df=7), ["x", "g"], [], {}),
    "three numbers": (bols("x", "lon", "lat"), ["x", "lon"], [], {"lat": None}),
}  # fmt: skip


@together("kind", KINDS)
def test_effects_of_every_kind(kind: str) -> None:
    term, axes, multipliers, fixed = KINDS[kind]
    model = fitted(term)
    effect = effect_of(model, 0)
    d = data()
    assert [axis.name for axis in effect.axes] == axes
    assert list(effect.multipliers) == multipliers
    assert set(effect.fixed) == set(fixed)
    for name, value in effect.fixed.items():
        assert value == (np.median(d[name]) if fixed[name] is None else fixed[name])
    for axis in effect.axes:
        values = d[axis.name]
        if axis.is_factor:
            assert axis.points.tolist() == sorted(set(values.tolist()))
        else:
            np.testing.assert_array_equal(
                axis.points[[0, -1]], [values.min(), values.max()]
            )
        np.testing.assert_array_equal(axis.rug, values)
    mean = 0.0 if multipliers else model.partial_effect(0, d).mean()
    place = tuple(2 if len(axis.points) > 2 else 1 for axis in effect.axes)
    at = {a.name: a.points[[j]] for a, j in zip(effect.axes, place, strict=True)}
    at |= {name: np.ones(1) for name in multipliers}
    at |= {name: np.array([value]) for name, value in effect.fixed.items()}
    assert effect.values.shape == tuple(len(axis.points) for axis in effect.axes)
    np.testing.assert_allclose(
        effect.values[place], model.partial_effect(0, at)[0] - mean, atol=1e-12
    )
    assert np.ptp(effect.values) > 0


def test_bounds_are_those_of_the_samples() -> None:
    model = fitted(bbs("x"), bbs("x", by="z", knots=9), bols("g"))
    samples = bootstrap_effects(model, 9, random_state=0)
    d = data()
    for learner, (at, values) in enumerate(
        [
            ({"x": d["x"]}, d["x"]),
            ({"x": d["x"], "z": np.ones(N)}, d["x"]),
            ({"g": np.array(["a", "b", "c"])}, None),
        ]
    ):
        effect = effect_of(model, learner, samples, level=0.8)
        assert effect.lower is not None
        assert effect.upper is not None
        center = learner != 1
        bounds = samples.interval(learner, at, 0.8, center=center)
        for drawn, expected in zip((effect.lower, effect.upper), bounds, strict=True):
            assert drawn.shape == effect.values.shape
            if values is None:
                np.testing.assert_allclose(drawn, expected, rtol=1e-12)
            else:
                smooth = np.interp(values, effect.axes[0].points, drawn)
                np.testing.assert_allclose(smooth, expected, atol=2e-3)
        assert (effect.lower <= effect.upper).all()


def test_missing_values_are_not_in_the_rug() -> None:
    d = data()
    d["x"][:7] = np.nan
    y = response(data())
    model = BoostedGAM([bbs("x")], missing="zero", max_iter=9).fit(d, y)
    (axis,) = effect_of(model, 0).axes
    np.testing.assert_array_equal(axis.rug, d["x"][7:])

    d["lat"][5:9] = np.nan
    terms = [bspatial("lon", "lat", knots=4), bbs("lat", by="g")]
    model = BoostedGAM(terms, missing="zero", max_iter=9).fit(d, y)
    for axis in effect_of(model, 0).axes:
        kept = np.r_[:5, 9:N]
        np.testing.assert_array_equal(axis.rug, d[axis.name][kept])


# ---- scales --------------------------------------------------------------------------


def make_effect(lower: float, upper: float, *bounds: float) -> Effect:
    axis = Axis("x", np.array([0.0, 1.0]), np.zeros(1), False)
    values = np.array([lower, upper])
    drawn = [np.full(2, bound) for bound in bounds]
    return Effect("bbs(x)", (axis,), (), {}, values, *drawn)


def test_effects_of_similar_heights_share_a_scale() -> None:
    extents = [(-1, 1), (-0.1, 0.2), (0, 0.4), (0, 0.39), (5, 5.01), (0, 0)]
    limits = shared_limits([make_effect(*extent) for extent in extents])
    # Heights: 2, 0.3, 0.4, 0.39, 0.01, 0. A fifth of 2 is 0.4.
    high, middle, low = 2 * MARGIN, 0.49 * MARGIN, 0.01 * MARGIN
    expected = [
        (-1 - high, 1 + high),
        (-0.1 - middle, 0.39 + middle),
        (-1 - high, 1 + high),
        (-0.1 - middle, 0.39 + middle),
        (5 - low, 5.01 + low),
        (-1, 1),
    ]
    np.testing.assert_allclose(limits, expected)
    assert shared_limits([]).shape == (0, 2)


def test_bounds_of_effects_are_within_their_scale() -> None:
    (limits,) = shared_limits([make_effect(0, 1, -2.0, 3.0)])
    np.testing.assert_allclose(limits, [-2 - 5 * MARGIN, 3 + 5 * MARGIN])


# ---- figures -------------------------------------------------------------------------


def axes_by_title(figure: Any) -> dict[str, Any]:
    return {axis.get_title(): axis for axis in figure.axes}


def test_the_figure_of_a_model() -> None:
    model = fitted(
        bbs("x"), bols("g"), bspatial("lon", "lat", knots=4), bbs("x", by="z"),
        bbs("lat", by="g", df=7), bols("z", intercept=False),
    )  # fmt: skip
    axes = axes_by_title(model.plot())
    d = data()

    curve = axes["x"].lines[1]
    expected = model.partial_effect(0, {"x": curve.get_xdata()})
    expected = expected - model.partial_effect(0, d).mean()
    np.testing.assert_allclose(curve.get_ydata(), expected, atol=1e-12)
    np.testing.assert_array_equal(axes["x"].lines[2].get_xdata(), d["x"])

    bars = [bar.get_height() for bar in axes["g"].patches]
    levels = {"g": np.array(["a", "b", "c"])}
    expected = model.partial_effect("bols(g)", levels)
    expected = expected - model.partial_effect("bols(g)", d).mean()
    np.testing.assert_allclose(bars, expected, atol=1e-12)
    names = [label.get_text() for label in axes["g"].get_xticklabels()]
    assert names == ["a", "b", "c"]

    (positions,) = axes["lon, lat"].lines
    np.testing.assert_array_equal(positions.get_xdata(), d["lon"])
    np.testing.assert_array_equal(positions.get_ydata(), d["lat"])

    at = axes["x by z"].lines[1].get_xdata()
    coefficient = model.partial_effect(3, {"x": at, "z": np.ones(len(at))})
    np.testing.assert_allclose(
        axes["x by z"].lines[1].get_ydata(), coefficient, atol=1e-12
    )

    groups = axes["lat by g"]
    legend = [text.get_text() for text in groups.get_legend().get_texts()]
    assert legend == ["a", "b", "c"]
    reference = groups.lines[1].get_ydata()
    assert np.ptp(reference) == 0
    assert np.ptp(groups.lines[2].get_ydata()) > 0

    np.testing.assert_array_equal(axes["risk"].lines[0].get_ydata(), model.risk_)
    widths = [bar.get_width() for bar in axes["reduction of the risk"].patches]
    importance = [part for part in model.importance().values() if part]
    np.testing.assert_allclose(widths, importance)
    named = [t.get_text() for t in axes["reduction of the risk"].get_yticklabels()]
    assert [title for title in axes if title][: len(named)] == named


def test_a_small_effect_is_not_flattened_and_scales_are_not_repeated() -> None:
    d = data()
    y = d["x"] + 0.9 * d["z"] / np.ptp(d["z"]) + 0.01 * d["lat"] / 10
    terms = [bols("x"), bols("z"), bols("lat")]
    model = BoostedGAM(terms, max_iter=2000, learning_rate=0.5).fit(d, y)
    axes = axes_by_title(model.plot(["x", "z", "lat"]))
    assert axes["x"].get_ylim() == axes["z"].get_ylim()
    assert np.ptp(axes["lat"].get_ylim()) < 0.02
    labelled = [
        bool(axes[name].yaxis.get_tick_params()["labelleft"])
        for name in ["x", "z", "lat"]
    ]
    assert labelled == [True, False, True]


def test_maps_share_their_colours() -> None:
    model = fitted(bspatial("lon", "lat", knots=4), bspatial("x", "z", knots=4))
    axes = axes_by_title(model.plot())
    maps = [axes[name].collections[0] for name in ("lon, lat", "x, z")]
    limits = [drawn.get_clim() for drawn in maps]
    assert limits[0] == limits[1]
    for drawn in maps:
        assert drawn.levels[0] == -drawn.levels[-1]


def test_learners_of_the_same_features_have_their_own_titles() -> None:
    model = fitted(bols("x"), bbs("x", center=True, df=2))
    titles = list(axes_by_title(model.plot()))
    assert {"bols(x)", "bbs(x, df=2, center=True)"} < set(titles)


def test_columns_of_a_matrix_are_numbered() -> None:
    X = np.random.default_rng(0).random((50, 3))
    model = BoostedGAM(max_iter=9).fit(X, X[:, 1])
    assert "x1" in axes_by_title(model.plot())


def test_many_levels_are_counted() -> None:
    d = {"id": np.repeat([f"i{j:02d}" for j in range(30)], 5)}
    model = BoostedGAM([brandom("id")], max_iter=5).fit(d, np.arange(150) % 7)
    axis = axes_by_title(model.plot())["id"]
    assert len(axis.patches) == 30
    assert not axis.get_xticks().size
    assert axis.get_xlabel() == "30 levels"


def test_bounds_are_drawn() -> None:
    model = fitted(bbs("x"), bols("g"), bbs("lat", by="g", df=7))
    samples = bootstrap_effects(model, 5, random_state=0)
    axes = axes_by_title(model.plot(samples=samples))
    assert len(axes["x"].collections) == 1
    assert len(axes["lat by g"].collections) == 3
    (lines,) = axes["g"].collections
    effect = effect_of(model, 1, samples)
    drawn = [segment[:, 1].tolist() for segment in lines.get_segments()]
    assert effect.lower is not None
    assert effect.upper is not None
    np.testing.assert_allclose(drawn, np.column_stack([effect.lower, effect.upper]))


def test_folds_are_drawn_with_their_mean_and_the_stop() -> None:
    risk = np.array([[4.0, 2.0, 1.0, 3.0], [4.0, 1.0, 1.0, 2.0]])
    cv = CrossValidation(risk)
    (axis,) = cv.plot().axes
    *folds, mean, stop = axis.lines
    np.testing.assert_array_equal([line.get_ydata() for line in folds], risk)
    np.testing.assert_array_equal(mean.get_ydata(), [4, 1.5, 1, 2.5])
    assert stop.get_xdata() == [2, 2]
    assert "least after 2" in axis.get_title()


def test_folds_are_drawn_in_the_figure_of_a_model() -> None:
    model = fitted(bbs("x"), bols("g"))
    cv = cv_stop(model, n_folds=3, random_state=0)
    figure = model.plot(cv=cv)
    title = f"risk of rows left out: least after {cv.best_iteration}"
    assert title in axes_by_title(figure)
    assert len(figure.axes) == 5


def test_a_class_of_several() -> None:
    d = data()
    terms = [bbs("x"), bbs("z")]
    model = BoostedGAMClassifier(terms, max_iter=9).fit(d, d["g"])
    for fit in range(3):
        axes = axes_by_title(model.plot(["x"], fit=fit))
        curve = axes["x"].lines[1]
        expected = model.partial_effect(0, {"x": curve.get_xdata()}, fit=fit)
        level = model.partial_effect(0, d, fit=fit).mean()
        np.testing.assert_allclose(curve.get_ydata(), expected - level, atol=1e-12)
        np.testing.assert_array_equal(
            axes["risk"].lines[0].get_ydata(), model.risk_[fit]
        )


def test_a_model_without_effects() -> None:
    d = data()
    model = BoostedGAM([bbs("x")], max_iter=0).fit(d, response(d))
    assert list(axes_by_title(model.plot())) == ["risk", "reduction of the risk"]


def test_matplotlib_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(bbs("x"))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="plot needs matplotlib: pip install"):
        model.plot()
    with pytest.raises(ImportError, match="plot needs matplotlib: pip install"):
        CrossValidation(np.ones((2, 3))).plot()
