"""Stumps, against scikit-learn's trees of depth 1."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gpusolve._device.arrays import on_host
from gpusolve.gam import BoostedGAM, bbs
from gpusolve.gam._boosting.batch import Fits
from gpusolve.gam._boosting.problem import designs_of, prepare
from gpusolve.gam._boosting.stacked import boost_family
from gpusolve.gam._terms.frame import Frame
from gpusolve.gam._terms.stump import Cut
from gpusolve.gam.families import Gaussian
from gpusolve.gam.terms import btree

Floats = NDArray[np.float64]

tree = pytest.importorskip("sklearn.tree")


def codes_of(term: Any, x: Floats) -> Floats:
    """The bins of a column, as numbers."""
    return np.searchsorted(term.cuts, x).astype(float)


def loop_of_trees(
    columns: list[Floats], y: Floats, weights: Floats, steps: int, least: list[int]
) -> tuple[list[int], list[Floats]]:
    """Component-wise boosting with a tree of depth 1 for each column.

    The least weight of a leaf is between two whole numbers, or half of all.
    """
    shares = [min(0.5, (own - 0.5) / weights.sum()) for own in least]
    f = np.full(len(y), np.average(y, weights=weights))
    selected, paths = [], []
    for _ in range(steps):
        fits = []
        for x, share in zip(columns, shares, strict=True):
            stump = tree.DecisionTreeRegressor(
                max_depth=1, min_weight_fraction_leaf=share, random_state=0
            )
            stump.fit(x[:, None], y - f, sample_weight=weights)
            fits.append(stump.predict(x[:, None]))
        risks = [weights @ (y - f - own) ** 2 for own in fits]
        j = int(np.argmin(risks))
        f = f + 0.1 * fits[j]
        selected.append(j)
        paths.append(f)
    return selected, paths


@pytest.mark.parametrize("are_weighted", [False, True])
@pytest.mark.parametrize("least", [[1, 1, 1], [4, 9, 30], [4, 140, 300]], ids=str)
def test_steps_are_those_of_trees_of_depth_1(
    backend: Any, are_weighted: bool, least: list[int], rng: np.random.Generator
) -> None:
    """A tree without a cut is the mean, which both may choose if it is above 0."""
    n, steps = 300, 6 if backend.name == "emulator" else 60
    X = rng.standard_normal((n, 3))
    X[:, 2] = rng.integers(0, 3, n)
    y = np.sin(2 * X[:, 0]) + (X[:, 1] > 0.3) + 0.2 * rng.standard_normal(n)
    w = rng.integers(0, 3, n).astype(float) if are_weighted else np.ones(n)
    device = "cuda" if backend.name == "cuda" else "auto"
    terms = [btree(0), btree(1, bins=20), btree(2)]
    model = BoostedGAM(
        [replace(term, min_rows=k) for term, k in zip(terms, least, strict=True)],
        learning_rate=0.1,
        max_iter=steps,
        device=device,
    )
    model.fit(X, y, sample_weight=w if are_weighted else None)
    columns = [codes_of(t, X[:, j]) for j, t in enumerate(model.terms_)]
    selected, paths = loop_of_trees(columns, y, w, steps, least)
    assert model.selected_.tolist() == selected
    assert len(set(selected)) > 1
    found = on_host(model.predict(X))
    np.testing.assert_allclose(found, paths[-1], rtol=1e-10)


def test_the_first_of_the_best_cuts_is_taken() -> None:
    """By brute force, with bins without rows at both ends and in between."""
    rng = np.random.default_rng(3)
    for bins, least in itertools.product((1, 2, 33, 70), (1, 4, 30, 1000)):
        weights = rng.integers(0, 3, bins).astype(float)
        weights[bins // 2] = 1
        c = rng.standard_normal(bins) * (weights > 0)
        found = Cut(least).fitted(0, c, weights)
        losses = []
        for cut in range(bins):
            left = np.arange(bins) <= cut
            loss = 0.0
            for side in (left, ~left):
                if 0 < weights[side].sum() < min(least, weights.sum()):
                    loss = np.inf
                if weights[side].sum() > 0:
                    loss -= c[side].sum() ** 2 / weights[side].sum()
            losses.append(loss)
        reduction, _, _ = Cut(least).sides(c, weights)
        np.testing.assert_allclose(reduction, np.negative(losses), rtol=1e-12)
        value = 2 * c @ found - weights @ found**2
        assert value == pytest.approx(-min(losses), rel=1e-12)
    np.testing.assert_array_equal(Cut(4).fitted(0, *np.zeros((2, 3))), np.zeros(3))


def test_bins_are_values_or_quantiles(rng: np.random.Generator) -> None:
    frame = Frame.of({"few": [1.0, 5.0, 2.0, 5.0], "same": np.ones(4)})
    assert btree("few").learn(frame).cuts == (1.5, 3.5)
    assert btree("same").learn(frame).cuts == ()
    x = np.append(rng.standard_normal(4000), np.zeros(3000))
    cuts = np.array(btree("x", bins=16).learn(Frame.of({"x": x})).cuts)
    counts = np.histogram(x, [-np.inf, *cuts, np.inf])[0]
    assert len(cuts) < 16
    assert (np.diff(cuts) > 0).all()
    assert (np.sort(counts)[:-1] < 1.1 * len(x) / 16).all()  # the other has the zeros


def test_values_between_and_outside_bins(rng: np.random.Generator) -> None:
    x = np.arange(10.0)
    model = BoostedGAM([btree("x")], learning_rate=1, max_iter=1)
    model.fit({"x": x}, (x > 4) * 2.0)
    at = {"x": np.array([-100.0, 4.4, 4.5, 4.6, 100.0])}
    np.testing.assert_allclose(model.predict(at), [0, 0, 0, 2, 2], atol=1e-15)


def test_rows_with_missing_values_are_left_out(rng: np.random.Generator) -> None:
    x, y = rng.random(100), rng.standard_normal(100)
    x[:20] = np.nan
    options = {"learning_rate": 1.0, "max_iter": 1, "offset": 0.0}
    offset = {"offset": options.pop("offset")}
    model = BoostedGAM([btree("x")], missing="zero", **options)
    model.fit({"x": x}, y, **offset)
    part = BoostedGAM([btree("x")], **options).fit({"x": x[20:]}, y[20:], **offset)
    effects = model.effects({"x": x})
    np.testing.assert_array_equal(effects[:20], 0)
    np.testing.assert_allclose(effects[20:], part.effects({"x": x[20:]}), rtol=1e-12)


def test_folds_of_stumps_and_splines_are_those_of_single_fits(
    backend: Any, rng: np.random.Generator
) -> None:
    n = 120
    d = {"x": rng.random(n), "z": rng.random(n)}
    y = (d["x"] > 0.5) + np.sin(6 * d["z"]) + 0.1 * rng.standard_normal(n)
    frame = Frame.of(d)
    terms = [t.learn(frame) for t in (btree("x"), bbs("z"), btree("z", bins=9))]
    folds = rng.multinomial(n, np.full(n, 1 / n), 3).astype(float)

    def risks(weights: Floats) -> Floats:
        problem = prepare(designs_of(terms, frame), weights)
        start = np.zeros((len(weights), 1))
        return boost_family(Fits(problem, Gaussian(), y, start), 8).risk

    single = [risks(w[None])[0] for w in folds]
    np.testing.assert_allclose(risks(folds), single, rtol=1e-12)
