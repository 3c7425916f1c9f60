"""Calibration, quantile residuals and paths: against SciPy, statsmodels and theory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gam_models import draw
from scipy import stats
from together import together

from gpusolve.gam import (
    BoostedDistribution,
    BoostedGAM,
    BoostedGAMClassifier,
    bbs,
    bols,
    families,
    plot_calibration,
    plot_path,
    plot_residuals,
    quantile_residuals,
)

# Samples and predictions that no model has.
from gpusolve.gam._model.figures import bins_of, plot_normal
from gpusolve.gam.diagnostics import effect_sizes

pytest.importorskip("matplotlib", reason="it draws the plots").use("Agg")

N = 1500


def mean_at(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(0.6 * np.sin(6 * x[:, 0])))


def sample(family: str) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(5).random((N, 1))
    return X, draw(families.family_of(family), np.log(mean_at(X)))


def fitted(family: Any, X: np.ndarray, y: np.ndarray) -> BoostedGAM:
    return BoostedGAM(family=family, max_iter=100).fit(X, y)


# ---- quantile residuals --------------------------------------------------------------


LAWS: dict[str, Any] = {
    "gaussian": lambda mean, s, y: stats.norm(mean, np.sqrt(((y - mean) ** 2).mean())),
    "gamma": lambda mean, s, y: stats.gamma(s, scale=mean / s),
    "poisson": lambda mean, s, y: stats.poisson(mean),
    "negative_binomial": lambda mean, s, y: stats.nbinom(s, s / (s + mean)),
}
"""SciPy's distributions, of the mean, the adaptive parameter and the response."""


@together("family", LAWS)
def test_residuals_are_the_quantiles_of_scipy(family: str) -> None:
    """Of counts between the steps."""
    X, y = sample("gamma" if family == "gaussian" else family)
    model = fitted(family, X, y)
    s = None if model.path_.nuisance is None else model.path_.nuisance[-1]
    law = LAWS[family](model.predict(X), s, y)
    found = quantile_residuals(model, X, y, random_state=2)
    if family in ("gaussian", "gamma"):
        expected = np.where(
            found < 0, stats.norm.ppf(law.cdf(y)), stats.norm.isf(law.sf(y))
        )
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        return
    within = (stats.norm.cdf(found) - law.cdf(y - 1)) / law.pmf(y)
    assert -1e-9 < within.min() < within.max() < 1 + 1e-9
    assert stats.kstest(within, "uniform").pvalue > 0.01


def test_residuals_of_two_classes_and_their_seeds() -> None:
    X, y = sample("binomial")
    model = BoostedGAMClassifier(max_iter=50).fit(X, np.where(y, "yes", "no"))
    labels = np.where(y, "yes", "no")
    found = [quantile_residuals(model, X, labels, random_state=j) for j in (0, 0, 1)]
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    p = model.predict_proba(X)[:, 1]
    is_below = found[0] < stats.norm.ppf(1 - p)
    np.testing.assert_array_equal(is_below, y == 0)


def test_the_picture_of_residuals() -> None:
    X, y = sample("poisson")
    model = fitted("poisson", X, y)
    figure = plot_residuals(model, X, y, random_state=0)
    quantiles, worm = figure.axes
    residuals = np.sort(quantile_residuals(model, X, y, random_state=0))
    normal = stats.norm.ppf((np.arange(N) + 0.5) / N)
    np.testing.assert_allclose(quantiles.lines[1].get_ydata(), residuals)
    np.testing.assert_allclose(quantiles.lines[1].get_xdata(), normal)
    np.testing.assert_allclose(worm.lines[1].get_ydata(), residuals - normal)
    assert figure.get_suptitle() == "quantile residuals: poisson, 100 steps"


def test_the_band_of_residuals_has_19_of_20_order_statistics() -> None:
    """At each rank by itself, of 400 samples of the normal distribution."""
    samples = np.sort(np.random.default_rng(0).normal(size=(400, 99)), axis=1)
    axis = plot_normal(samples[0], "").axes[0]
    corners = axis.collections[0].get_paths()[0].vertices
    for rank in (4, 49, 90):
        at = axis.lines[1].get_xdata()[rank]
        low, high = np.unique(corners[np.isclose(corners[:, 0], at)][:, 1])[[0, -1]]
        inside = ((samples[:, rank] > low) & (samples[:, rank] < high)).mean()
        assert 0.9 < inside < 0.98


# ---- calibration ---------------------------------------------------------------------


def test_bins_of_classes_have_the_intervals_of_wilson() -> None:
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    rng = np.random.default_rng(0)
    predicted = rng.random(200)
    observed = (rng.random(200) < predicted).astype(float)
    bins = bins_of(predicted, observed, 5, 0.9)
    order = np.argsort(predicted).reshape(5, 40)
    np.testing.assert_allclose(bins.predicted, predicted[order].mean(axis=1))
    np.testing.assert_allclose(bins.observed, observed[order].mean(axis=1))
    lower, upper = proportion.proportion_confint(
        observed[order].sum(axis=1), 40, 0.1, "wilson"
    )
    np.testing.assert_allclose(bins.lower, lower)
    np.testing.assert_allclose(bins.upper, upper)


def test_equal_predictions_are_in_one_bin() -> None:
    predicted = np.repeat([0.2, 0.5, 0.9], [50, 3, 20])
    bins = bins_of(predicted, np.arange(73.0), 10, 0.95)
    np.testing.assert_allclose(bins.predicted, [0.2, 0.5, 0.9])
    np.testing.assert_allclose(bins.observed, [24.5, 51, 62.5])
    alone = bins_of(np.ones(4), np.array([1.0, 2, 3, 4]), 1, 0.95)
    assert alone.observed.tolist() == [2.5]


def test_the_picture_of_a_calibration() -> None:
    X, y = sample("poisson")
    model = fitted("poisson", X, y)
    (axis,) = plot_calibration(model, X, y, bins=6).axes
    bins = bins_of(model.predict(X), y, 6, 0.95)
    np.testing.assert_array_equal(axis.lines[1].get_ydata(), bins.observed)
    np.testing.assert_array_equal(axis.lines[1].get_xdata(), bins.predicted)
    classes = np.array([*"abc"])[np.arange(N) % 3]
    several = BoostedGAMClassifier(max_iter=3).fit(X, classes)
    (axis,) = plot_calibration(several, X, classes).axes
    names = [text.get_text() for text in axis.get_legend().get_texts()]
    assert names == ["class a", "class b", "class c"]


# ---- paths ---------------------------------------------------------------------------


def test_sizes_are_the_deviations_of_the_effects() -> None:
    rng = np.random.default_rng(0)
    d = {
        "x": rng.random(80),
        "g": rng.choice([*"ab"], 80),
        "noise": rng.normal(size=80),
    }
    y = np.sin(6 * d["x"]) + (d["g"] == "b")
    model = BoostedGAM([bbs("x"), bols("g"), bols("noise")], max_iter=25).fit(d, y)
    sizes = effect_sizes(model, 0)
    assert list(sizes) == [model.names_[j] for j in np.unique(model.selected_)]
    for iteration in (0, 1, 7, 25):
        expected = model.effects(d, iteration=iteration).std(axis=0)
        for name, size in sizes.items():
            assert len(size) == 26
            assert size[iteration] == pytest.approx(
                expected[model.names_.index(name)], abs=1e-14
            )
    (axis,) = plot_path(model).axes
    labels = [text.get_text() for text in axis.get_legend().get_texts()]
    assert labels == sorted(sizes, key=lambda name: -sizes[name][-1])
    for line, label in zip(axis.lines, labels, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), sizes[label])


# ---- several predictors --------------------------------------------------------------


@together("family", ["gaussian", "negative_binomial", "zero_inflated_poisson"])
def test_residuals_of_distributions(family: str) -> None:
    rng = np.random.default_rng(5)
    X = rng.random((N, 1))
    mean = mean_at(X)
    y = {
        "gaussian": rng.normal(mean, np.exp(X[:, 0])),
        "negative_binomial": rng.negative_binomial(2, 2 / (2 + mean)),
        "zero_inflated_poisson": rng.poisson(3 * mean) * (rng.random(N) < 0.7),
    }[family]
    model = BoostedDistribution(family=family, max_iter=150).fit(X, y)
    residuals = quantile_residuals(model, X, y, random_state=0)
    assert stats.kstest(residuals, "norm").pvalue > 0.01
    last = model.parameters_[-1]
    axis = plot_path(model, fit=last).axes[0]
    assert last in axis.get_ylabel()
    if family == "gaussian":
        found = model.predict_parameters(X)
        expected = (y - found["mu"]) / found["sigma"]
        np.testing.assert_allclose(residuals, expected, rtol=1e-6, atol=1e-9)
        moved = quantile_residuals(model, X, y, offset={"mu": 0.5, "sigma": -1.0})
        expected = (y - found["mu"] - 0.5) / (found["sigma"] * np.exp(-1))
        near = abs(expected) < 8
        np.testing.assert_allclose(moved[near], expected[near], rtol=1e-6, atol=1e-9)
        effect = next(a for a in model.plot(fit="sigma").axes if a.get_title() == "x0")
        assert effect.get_ylabel() == "effect on the log of sigma"
