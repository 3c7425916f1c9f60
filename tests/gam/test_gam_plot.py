"""Pictures of fitted models: what is drawn is what the model and its folds say."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from gam_models import columns
from together import together

from gpusolve.gam import (
    BoostedDistribution,
    BoostedGAM,
    BoostedGAMClassifier,
    bbs,
    bmono,
    bols,
    bootstrap_effects,
    brandom,
    bspatial,
    cv_stop,
)

# What is drawn before it is drawn.
from gpusolve.gam._model.effects import effect_of
from gpusolve.gam.families import Binomial

pytest.importorskip("matplotlib", reason="it draws the plots").use("Agg")

N = 150
LONG = [
    "Mecklenburg-Vorpommern", "North Rhine-Westphalia", "Free State of Saxony",
    "Berlin",
    "a name that is so long that nobody reads it to its end",
]  # fmt: skip


def data() -> dict[str, np.ndarray]:
    return columns(N, seed=5)


def response(d: dict[str, np.ndarray]) -> np.ndarray:
    f = np.sin(6 * d["x"]) + (d["g"] == "b") + d["z"] * d["x"] + np.sin(d["lon"])
    f += (d["g"] == "c") * (d["lat"] - 47)
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
        bspatial("lon", "lat", by="g", knots=4, df=13), ["lon", "lat"], [], {"g": "d"},
    ),
    "table": (bols("g") * brandom("h"), ["g", "h"], [], {}),
    "sum": (bols("x") + bbs("x", center=True, df=3), ["x"], [], {}),
    "product": (bols("g") * bbs("x", df=9), ["x", "g"], [], {}),
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
            assert axis.counts == tuple(np.unique(values, return_counts=True)[1])
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


# ---- figures -------------------------------------------------------------------------


def axes_by_title(figure: Any) -> dict[str, Any]:
    return {axis.get_title(): axis for axis in figure.axes}


def test_the_figure_of_a_model() -> None:
    model = fitted(
        bbs("x"), bols("g"), bspatial("lon", "lat", knots=4), bbs("x", by="z"),
        bbs("lat", by="g", df=7), bols("z", intercept=False),
    )  # fmt: skip
    samples = bootstrap_effects(model, 5, random_state=0)
    cv = cv_stop(model, n_folds=3, random_state=0)
    axes, d = axes_by_title(model.plot(samples=samples, cv=cv)), data()
    drawn = [effect_of(model, j, samples) for j in range(5)]
    rug = axes["x"].lines[1]
    np.testing.assert_array_equal(rug.get_xdata(), d["x"])
    for title, effect in (("x", drawn[0]), ("x by z", drawn[3])):
        np.testing.assert_array_equal(axes[title].lines[0].get_ydata(), effect.values)
        assert len(axes[title].collections) == 1  # bounds
    bars = [bar.get_height() for bar in axes["g"].patches]
    np.testing.assert_array_equal(bars, drawn[1].values)
    (bounds,) = axes["g"].collections
    ends = [segment[:, 1] for segment in bounds.get_segments()]
    np.testing.assert_array_equal(np.transpose(ends), [drawn[1].lower, drawn[1].upper])
    names = [label.get_text() for label in axes["g"].get_xticklabels()]
    assert names == [f"{level}\nn={(d['g'] == level).sum()}" for level in "abcd"]
    (positions,) = axes["lon, lat"].lines
    np.testing.assert_array_equal(positions.get_xydata().T, [d["lon"], d["lat"]])
    groups = axes["lat by g"]
    legend = [text.get_text() for text in groups.get_legend().get_texts()]
    assert legend == [*"abcd"]
    assert [np.ptp(line.get_ydata()) > 0 for line in groups.lines[:2]] == [False, True]
    assert len(groups.collections) == 4
    box = groups.get_legend().get_window_extent()
    assert box.x0 >= groups.get_window_extent().x1
    training, *folds, mean, _ = axes[f"risk: least after {cv.best_iteration}"].lines
    np.testing.assert_array_equal(training.get_ydata(), model.risk_ / N)
    np.testing.assert_array_equal([line.get_ydata() for line in folds], cv.risk)
    np.testing.assert_array_equal(mean.get_ydata(), cv.mean)
    widths = [bar.get_width() for bar in axes["importance"].patches]
    assert widths == pytest.approx(
        [part for part in model.importance().values() if part]
    )
    named = [t.get_text() for t in axes["importance"].get_yticklabels()]
    assert [title for title in axes if title][: len(named)] == named


def test_a_class_of_several() -> None:
    model = BoostedGAMClassifier([bbs("x"), bbs("z")], max_iter=9)
    model.fit(data(), data()["g"])
    for fit in range(4):
        figure = model.plot(["x"], fit=fit)
        assert figure.get_suptitle() == f"binomial, class {'abcd'[fit]}, 9 steps"
        axes = axes_by_title(figure)
        curve, risk = axes["x"].lines[0], axes["risk"].lines[0].get_ydata()
        expected = model.partial_effect(0, {"x": curve.get_xdata()}, fit=fit)
        level = model.partial_effect(0, data(), fit=fit).mean()
        np.testing.assert_allclose(curve.get_ydata(), expected - level, atol=1e-12)
        np.testing.assert_array_equal(risk, model.risk_[fit] / N)


def test_whole_numbers_are_points() -> None:
    """Their effect is drawn as points; many whole numbers are a curve."""
    rng = np.random.default_rng(0)
    d = {
        "few": rng.integers(-2, 5, N), "many": rng.integers(0, 10_000, N),
        "half": rng.integers(0, 5, N) / 2, "float": rng.integers(3, 9, N) * 1.0,
    }  # fmt: skip
    terms = [bbs("few"), bbs("many"), bbs("half"), bspatial("few", "float", knots=3)]
    y = rng.standard_normal(N) + d["few"] ** 2 / 9
    model = BoostedGAM(terms, max_iter=60, outside="clamp").fit(d, y)
    axes = axes_by_title(model.plot(range(4)))
    np.testing.assert_array_equal(axes["few"].get_xticks() % 1, 0)
    for title, marker, points in (
        ("few", "o", 7),
        ("many", "None", 200),
        ("half", "None", 200),
    ):
        assert axes[title].lines[0].get_marker() == marker
        assert len(axes[title].lines[0].get_xdata()) == points
    few, whole = effect_of(model, 3).axes
    np.testing.assert_array_equal(few.points, np.arange(-2, 5))
    np.testing.assert_array_equal(whole.points, np.arange(3, 9))


def test_axes_say_what_they_show() -> None:
    d = data()
    y = np.random.default_rng(0).poisson(4, N)
    model = BoostedGAM([bbs("x"), bbs("x", by="z")], family="poisson", max_iter=9)
    figure = model.fit(d, y).plot([0, 1])
    assert figure.get_suptitle() == "poisson, 9 steps"
    axes = axes_by_title(figure)
    assert axes["x"].get_ylabel() == "effect on the log mean"
    assert axes["x by z"].get_ylabel() == "effect per unit of z"
    assert axes["risk"].get_ylabel() == "mean loss"

    classes = np.array(["no", "yes"])[y % 2]
    for family, scale in (("binomial", "half logit"), (Binomial("logit"), "logit")):
        binary = BoostedGAMClassifier([bbs("x")], family=family, max_iter=9)
        figure = binary.fit(d, classes).plot()
        assert figure.get_suptitle() == "binomial, class yes, 9 steps"
        assert axes_by_title(figure)["x"].get_ylabel() == f"effect on the {scale}"


@pytest.mark.parametrize("share_scale", [True, False])
def test_a_small_effect_is_as_flat_as_it_is_unless_scales_differ(
    share_scale: bool,
) -> None:
    d = data()
    y = d["x"] + 0.9 * d["z"] / np.ptp(d["z"]) + 0.01 * d["lat"] / 10
    terms = [bols("x"), bols("z"), bols("lat")]
    model = BoostedGAM(terms, max_iter=2000, learning_rate=0.5).fit(d, y)
    axes = axes_by_title(model.plot(["x", "z", "lat"], share_scale=share_scale))
    same = axes["x"].get_ylim() == axes["z"].get_ylim() == axes["lat"].get_ylim()
    assert same == share_scale
    assert (np.ptp(axes["lat"].get_ylim()) < 0.02) == (not share_scale)


def overlap(labels: list[Any]) -> bool:
    boxes = [label.get_window_extent() for label in labels]
    return any(a.overlaps(b) for a, b in pairwise(boxes))


@pytest.mark.parametrize(
    "levels",
    [["f", "m"], [*"ABCDEFGH"], LONG, [f"level {j}" for j in range(12)]],
    ids=len,
)
def test_names_of_levels_do_not_run_into_each_other(levels: list[str]) -> None:
    d = {"g": np.resize(levels, N)}
    model = BoostedGAM([bols("g")], max_iter=50).fit(d, np.arange(N) % len(levels))
    figure = model.plot()
    figure.canvas.draw()
    axis = axes_by_title(figure)["g"]
    upright = levels == ["f", "m"]
    labels = axis.get_xticklabels() if upright else axis.get_yticklabels()
    assert len(labels) == len(levels)
    assert not overlap(labels)
    drawn = [
        patch.get_height() if upright else patch.get_width() for patch in axis.patches
    ]
    effect = effect_of(model, 0)
    np.testing.assert_array_equal(drawn, effect.values)


@together(("learners", "shape"), [(1, (1, 2)), (2, (2, 2)), (4, (2, 3)), (7, (3, 3))])
def test_few_cells_are_empty(learners: int, shape: tuple[int, int]) -> None:
    X = np.random.default_rng(0).random((40, learners))
    figure = BoostedGAM(max_iter=200).fit(X, X.sum(axis=1)).plot(range(learners))
    assert len(figure.axes) == learners + 1 + (learners > 1)
    cell = figure.subfigs[0].bbox
    shares = (
        round(figure.bbox.height / cell.height),
        round(figure.bbox.width / cell.width),
    )
    assert shares == shape


def test_the_numbers_at_the_axis_of_a_risk_can_be_read() -> None:
    """Plain numbers for a risk that falls little, powers of ten for a steep risk."""
    d = data()
    x = d["x"]
    flat = BoostedGAM([bols("x")], max_iter=20).fit(d, 0.1 * x + np.sin(99 * x) + 1e3)
    figure = flat.plot()
    figure.canvas.draw()
    axis = axes_by_title(figure)["risk"]
    assert axis.get_yscale() == "linear"
    assert axis.yaxis.get_offset_text().get_text() == ""
    steep = BoostedGAM([bols("x")], max_iter=200).fit(d, x)
    assert axes_by_title(steep.plot())["risk"].get_yscale() == "log"


def test_maps_share_their_colours() -> None:
    model = fitted(bspatial("lon", "lat", knots=4), bspatial("x", "z", knots=4))
    axes = axes_by_title(model.plot())
    maps = [axes[name].collections[0] for name in ("lon, lat", "x, z")]
    limits = [drawn.get_clim() for drawn in maps]
    assert limits[0] == limits[1]
    for drawn in maps:
        assert drawn.levels[0] == -drawn.levels[-1]


def test_many_levels_are_ordered_and_the_extremes_have_names() -> None:
    d = {"id": np.repeat([f"i{j:02d}" for j in range(30)], 5)}
    model = BoostedGAM([brandom("id")], max_iter=50).fit(d, np.arange(150) // 5 % 11)
    samples = bootstrap_effects(model, 5, random_state=0)
    axis = axes_by_title(model.plot(samples=samples))["id"]
    effect = effect_of(model, 0, samples)
    order = np.argsort(effect.values)
    np.testing.assert_array_equal(axis.lines[1].get_ydata(), effect.values[order])
    (bounds,) = axis.collections
    drawn = np.array([segment[:, 1] for segment in bounds.get_segments()])
    expected = np.column_stack([effect.lower, effect.upper])[order]
    np.testing.assert_array_equal(drawn, expected)
    named = [text.get_text().split("\n") for text in axis.texts]
    least, greatest = order[:3], order[::-1][:3]
    assert named == [
        [f"{text}:", *(f"i{j:02d}, n=5" for j in some)]
        for text, some in (("greatest", greatest), ("least", least))
    ]
    assert not axis.get_xticks().size
    assert axis.get_xlabel() == "30 levels, in ascending order"


def test_curves_of_many_levels_name_the_largest() -> None:
    """The names leave room for the panel."""
    rng = np.random.default_rng(2)
    d = {"x": rng.random(400), "g": np.arange(400) % 20}
    d["g"] = np.array([f"a level named {j}" for j in d["g"]])
    y = d["x"] * rng.standard_normal(20)[np.arange(400) % 20]
    term = bols("x", intercept=False) * bols("g", contrasts="dummy")
    model = BoostedGAM([term], max_iter=50).fit(d, y)
    figure = model.plot()
    figure.canvas.draw()
    axis = axes_by_title(figure)["x by g"]
    names = [text.get_text() for text in axis.get_legend().get_texts()]
    sizes = np.abs(effect_of(model, 0).values).max(axis=0)
    largest = np.unique(d["g"])[np.argsort(-sizes)[:8]].tolist()
    assert set(names) == {*largest, "12 others"}
    colours = {line.get_color() for line in axis.lines if line.get_label() in largest}
    assert len(colours) == 8
    risk = axes_by_title(figure)["risk"]
    assert axis.bbox.height > 0.8 * risk.bbox.height


def test_an_axis_ends_where_the_effect_ends() -> None:
    """Outliers beyond a robust range have the effect of its end; values are missing."""
    d = data()
    d["x"][[3, 40]] = -1e6, 1e4
    d["lat"][7] = 1e5
    d["x"][:2], d["lat"][9:12] = np.nan, np.nan
    robust = {"boundary": "robust"}
    terms = [bbs("x", **robust), bspatial("lon", "lat", knots=4, **robust)]
    model = BoostedGAM(terms, missing="zero", max_iter=20).fit(d, response(data()))
    axes = axes_by_title(model.plot([0, 1]))
    curve, rug, _ = axes["x"].lines
    ends = curve.get_xdata()[[0, -1]]
    assert np.abs(ends).max() < 2
    np.testing.assert_array_equal(rug.get_xdata(), np.delete(d["x"], [0, 1, 3, 40]))
    width = np.ptp(ends)
    left, right = axes["x"].get_xlim()
    assert ends[0] - 0.1 * width < left < right < ends[1] + 0.1 * width
    (positions,) = axes["lon, lat"].lines
    shown = np.delete(d["lat"], [7, 9, 10, 11])
    np.testing.assert_array_equal(positions.get_ydata(), shown)
    assert 30 < axes["lon, lat"].get_ylim()[0] < axes["lon, lat"].get_ylim()[1] < 60


def test_a_table_has_names_that_do_not_run_into_each_other() -> None:
    rng = np.random.default_rng(0)
    levels = {
        "g": LONG, "h": [*"abcdefgh"], "k": [f"a long name: {j}" for j in range(8)]
    }  # fmt: skip
    d = {name: rng.choice(own, 900) for name, own in levels.items()}
    for names, (across, down) in {"gh": "hg", "hg": "hg", "kg": "gk"}.items():
        left, right = (bols(name, contrasts="dummy") for name in names)
        model = BoostedGAM([left * right], max_iter=5).fit(d, rng.random(900))
        figure = model.plot()
        figure.canvas.draw()
        axis = axes_by_title(figure)[", ".join(names)]
        values = effect_of(model, 0).values
        values = values.T if across == names[0] else values
        np.testing.assert_array_equal(axis.images[0].get_array(), values)
        for side, name in ((axis.xaxis, across), (axis.yaxis, down)):
            labels = side.get_ticklabels()
            assert not overlap(labels)
            found = [label.get_text()[:9] for label in labels]
            assert found == [str(level)[:9] for level in np.unique(d[name])]
            assert side.get_label_text() == name


# ---- explanations of single predictions ----------------------------------------------


@together("family", ["gaussian", "poisson"])
def test_the_waterfall_ends_at_the_predictor(family: str) -> None:
    """`test_gam_properties` has the contributions of all models."""
    d, start = data(), data()["lon"]
    y = response(d) if family == "gaussian" else np.rint(abs(response(d)))
    terms = [bbs("x"), bols("g"), bspatial("x", "z", knots=4), bols("z")]
    model = BoostedGAM(terms, family=family, max_iter=60).fit(d, y)
    for options in ({"iteration": 7}, {"offset": 2.0}, {"offset": start}):
        found = model.explain(d, **options)
        parts = np.column_stack([found.intercept + found.offset, found.contributions])
        link = model.predict(d, kind="link", **options)
        np.testing.assert_array_equal(found.link, link)
        np.testing.assert_array_equal(np.cumsum(parts, axis=1)[:, -1], link)
        np.testing.assert_array_equal(found.prediction, model.predict(d, **options))
    table = found.to_frame()
    names = ["intercept", "offset", *model.names_, "link", "prediction"]
    assert table.columns.tolist() == names
    np.testing.assert_allclose(table.iloc[:, :-2].sum(axis=1), found.link)
    (axis,) = found.plot(4).axes
    ends = [bar.get_x() + bar.get_width() for bar in axis.patches]
    starts = [bar.get_x() for bar in axis.patches]
    np.testing.assert_allclose(starts[1:], ends[:-1])
    np.testing.assert_allclose(ends[:2], found.intercept + np.array([0, start[4]]))
    np.testing.assert_allclose(ends[-1], found.link[4])
    used = found.contributions[4][found.contributions[4] != 0]
    lengths = abs(np.subtract(ends, starts)[2:])
    np.testing.assert_allclose(lengths, np.sort(abs(used))[::-1])
    labels = [text.get_text().replace("\n", " ") for text in axis.get_yticklabels()]
    assert labels[:2] == ["intercept", "offset"]
    assert {f"g = {d['g'][4]}", f"x = {d['x'][4]:.4g}"} <= set(labels)
    scale = "mean" if family == "gaussian" else "log mean"
    assert axis.get_xlabel() == f"contribution to the {scale}"
    spread = BoostedDistribution(terms[:2], max_iter=9).fit(d, response(d))
    (axis,) = spread.explain(d, fit="sigma").plot().axes
    assert axis.get_xlabel() == "contribution to the log of sigma"
