"""Kernels, fields and stumps: scikit-learn, SciPy, definitions, brute force."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from backends import on_host
from learner_columns import columns_at, learn
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from together import together

from gpusolve.gam import BoostedGAM, bbs, gamboost, load
from gpusolve.gam.terms import bkernel, bmrf, brad, btree

Floats = NDArray[np.float64]

kernels = pytest.importorskip("sklearn.gaussian_process.kernels")
ridge = pytest.importorskip("sklearn.kernel_ridge")
tree = pytest.importorskip("sklearn.tree")

# ---- kernels -------------------------------------------------------------------------

N = 60

ORACLES: dict[str, Any] = {
    "rbf": lambda scale: kernels.RBF(scale),
    "exponential": lambda scale: kernels.Matern(scale, nu=0.5),
    "matern": lambda scale: kernels.Matern(np.sqrt(3) * scale, nu=1.5),
}
"""scikit-learn's kernels with the same values."""


@pytest.fixture
def data(rng: np.random.Generator) -> dict[str, Any]:
    d = {"x": rng.uniform(0, 3, N), "z": rng.uniform(-1, 1, N)}
    d["y"] = np.sin(3 * d["x"]) * d["z"] + 0.1 * rng.standard_normal(N)
    return d


def points(d: Any) -> Floats:
    return np.column_stack([d["x"], d["z"]])


def polynomial(a: Floats, b: Floats) -> Floats:
    """A kernel of six dimensions: its matrix of 60 rows is singular."""
    return np.asarray((1 + a @ b.T) ** 2)


@together("name", [*ORACLES, "callable"])
def test_with_a_knot_at_every_row_a_fit_is_kernel_ridge_regression(
    name: str, data: Any
) -> None:
    scale, lambda_ = 0.7, 0.3
    kernel = polynomial if name == "callable" else name
    term = bkernel("x", "z", kernel=kernel, knots=N, scale=scale, lambda_=lambda_)
    model = BoostedGAM([term], max_iter=1, learning_rate=1.0)
    model.fit(data, data["y"])
    oracle = polynomial if name == "callable" else ORACLES[name](scale)
    X, y = points(data), data["y"] - data["y"].mean()
    alpha = np.linalg.solve(oracle(X, X) + lambda_ * np.eye(N), y)
    new = {"x": np.linspace(-1, 4, 9), "z": np.linspace(-2, 1, 9)}
    found = model.effects(new)[:, 0]
    np.testing.assert_allclose(found, oracle(points(new), X) @ alpha, rtol=1e-6)
    if name == "rbf":
        given = ridge.KernelRidge(alpha=lambda_, kernel="rbf", gamma=0.5 / scale**2)
        expected = given.fit(X, y).predict(points(new))
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_fewer_knots_span_the_functions_with_their_norm(data: Any) -> None:
    """mboost's brad: the columns k(x, knots) K^-1/2; at the diameter k is 0.001."""
    term = learn(brad("x", "z", knots=12, df=5), data)
    knots = np.array(term.positions)
    diameter = np.hypot(*np.ptp(points(data), axis=0))
    reach = 9.233413476451546  # (1 + d) exp(-d) is 0.001 there
    assert (1 + reach) * np.exp(-reach) == pytest.approx(0.001)
    oracle = ORACLES["matern"](diameter / reach)
    values, vectors = np.linalg.eigh(oracle(knots, knots))
    X = oracle(points(data), knots) @ (vectors / np.sqrt(values)) @ vectors.T
    np.testing.assert_allclose(columns_at(term, data), X, atol=1e-10)


def test_knots_are_rows_that_cover_the_data(rng: np.random.Generator) -> None:
    """Their distance is at most twice the least, by brute force."""
    X = rng.random((14, 2))
    d = {"x": X[:, 0], "z": X[:, 1]}

    def radius(chosen: Any) -> float:
        return float(cdist(X, chosen).min(axis=1).max())

    for count in (1, 2, 3):
        found = learn(bkernel("x", "z", knots=count, scale=1), d).positions
        best = min(radius(X[[*some]]) for some in combinations(range(14), count))
        assert {*found} <= {*map(tuple, X)}
        assert radius(found) <= 2 * best
    same = learn(bkernel("x", knots=3, scale=1), {"x": np.ones(5)})
    assert same.positions == ((1.0,),)
    given = learn(bkernel("x", knots=[0.0, 1.0, 2.5]), d)
    assert given.positions == ((0.0,), (1.0,), (2.5,))


# ---- fields --------------------------------------------------------------------------

NAMES = list("abcdef")

RING: dict[Any, list[Any]] = {
    name: [NAMES[j - 1], NAMES[(j + 1) % 6]] for j, name in enumerate(NAMES)
}
"""Six regions around a lake."""

LAPLACIAN = 2 * np.eye(6) - np.roll(np.eye(6), 1, 0) - np.roll(np.eye(6), -1, 0)
ADJACENCY = 2 * np.eye(6) - LAPLACIAN

FORMS: dict[str, tuple[Any, list[Any]]] = {
    "mapping": (RING, NAMES),
    "pairs": ([(NAMES[j], NAMES[j - 1]) for j in (1, 2, 3, 4, 5, 0)], NAMES),
    "both directions": ([(i, j) for i in RING for j in RING[i]], NAMES),
    "matrix": (ADJACENCY, [*range(6)]),
    "sparse": (csr_array(ADJACENCY), [*range(6)]),
    "bools": (ADJACENCY > 0, [*range(6)]),
    "frame": (pd.DataFrame(ADJACENCY, NAMES, NAMES), NAMES),
}


@together("form", FORMS)
def test_the_penalty_of_a_field_is_the_laplacian_of_the_graph(form: str) -> None:
    neighbours, regions = FORMS[form]
    d = {"g": np.array(regions)}
    term = learn(bmrf("g", neighbours=neighbours), d)
    place = [term.regions.index(region) for region in regions]
    np.testing.assert_array_equal(term.penalty()[np.ix_(place, place)], LAPLACIAN)
    assert term.null_dimension == 1
    centred = learn(bmrf("g", neighbours=neighbours, center=True), d)
    T = centred.transform()
    found = T.T @ term.penalty() @ T
    np.testing.assert_allclose(found, centred.penalty(), atol=1e-12)
    np.testing.assert_allclose(T.sum(axis=0), 0, atol=1e-12)
    assert (centred.null_dimension, len(centred.penalty())) == (0, 5)
    two = {0: [1], 1: [0], 2: [3, 4], 3: [2], 4: [2], 5: []}
    islands = learn(bmrf("g", neighbours=two), {"g": np.arange(6)})
    assert islands.null_dimension == 3


def test_a_field_smooths_over_regions_without_rows(tmp_path: Path) -> None:
    """In a formula, a picture and a file, too."""
    rng = np.random.default_rng(0)
    d: dict[str, Any] = {"region": rng.permutation(np.array(NAMES[:5] * 16))}
    d["y"] = np.searchsorted(NAMES, d["region"]) + rng.standard_normal(80)
    formula = "y ~ bmrf(region, neighbours=RING, df=3)"
    model = gamboost(formula, d, max_iter=1, learning_rate=1)
    assert model.names_ == ["bmrf(region, df=3)"]
    X = (d["region"][:, None] == np.array(NAMES)).astype(float)
    A = X.T @ X + model.lambda_[0] * LAPLACIAN
    b = np.linalg.solve(A, X.T @ (d["y"] - d["y"].mean()))
    np.testing.assert_allclose(model.coefficients_[0], b, rtol=1e-6)
    assert b[5] == pytest.approx((b[4] + b[0]) / 2)
    effect = model.partial_effect(0, {"region": np.array(["f"])})
    assert effect == pytest.approx(b[5], rel=1e-6)
    pytest.importorskip("matplotlib").use("Agg")
    texts = [text.get_text() for text in model.plot().axes[0].get_yticklabels()]
    assert [text.split(", ")[0] for text in texts] == NAMES  # the rows follow
    model.save(tmp_path / "model.json")
    loaded = load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(d), model.predict(d))


# ---- stumps --------------------------------------------------------------------------


def loop_of_trees(
    columns: list[Floats], y: Floats, weights: Floats, steps: int, least: list[int]
) -> tuple[list[int], Floats]:
    """Component-wise boosting with a tree of depth 1 for each column.

    The least weight of a leaf is between two whole numbers, or half of all.
    """
    shares = [min(0.5, (own - 0.5) / weights.sum()) for own in least]
    f, selected = np.full(len(y), np.average(y, weights=weights)), []
    for _ in range(steps):
        fits = []
        for x, share in zip(columns, shares, strict=True):
            stump = tree.DecisionTreeRegressor(
                max_depth=1, min_weight_fraction_leaf=share, random_state=0
            )
            stump.fit(x[:, None], y - f, sample_weight=weights)
            fits.append(stump.predict(x[:, None]))
        j = int(np.argmin([weights @ (y - f - own) ** 2 for own in fits]))
        f = f + 0.1 * fits[j]
        selected.append(j)
    return selected, f


@together("are_weighted", [False, True])
@together("least", [[1, 1, 1], [4, 9, 30], [4, 140, 300]], ids=str)
def test_steps_are_those_of_trees_of_depth_1(
    backend: Any, are_weighted: bool, least: list[int], rng: np.random.Generator
) -> None:
    """A tree without a cut is the mean, which both may choose if it is above 0."""
    n, steps = 300, 5 if backend.emulated else 40
    X = rng.standard_normal((n, 3))
    X[:, 2] = rng.integers(0, 3, n)
    y = np.sin(2 * X[:, 0]) + (X[:, 1] > 0.3) + 0.2 * rng.standard_normal(n)
    w = rng.integers(0, 3, n).astype(float) if are_weighted else np.ones(n)
    device = "cuda" if backend.name == "cuda" else "auto"
    terms = [btree(0), btree(1, bins=20), btree(2)]
    terms = [replace(term, min_rows=k) for term, k in zip(terms, least, strict=True)]
    model = BoostedGAM(terms, learning_rate=0.1, max_iter=steps, device=device)
    model.fit(X, y, sample_weight=w)
    columns = [
        np.searchsorted(t.cuts, X[:, j]) * 1.0 for j, t in enumerate(model.terms_)
    ]
    selected, f = loop_of_trees(columns, y, w, steps, least)
    assert model.selected_.tolist() == selected
    np.testing.assert_allclose(on_host(model.predict(X)), f, rtol=1e-10)


@together("bins", [2, 33, 70])
@together("least", [1, 4, 30])
def test_the_first_of_the_best_cuts_is_taken(
    backend: Any, bins: int, least: int
) -> None:
    """By brute force, with bins without rows at both ends and in between."""
    rng = np.random.default_rng(3)
    x = np.repeat(np.arange(bins), rng.integers(0, 4, bins) + (np.arange(bins) == 1))
    d = {"x": np.append(x, np.arange(bins)) * 1.0}
    w = np.append(np.ones(len(x)), np.zeros(bins))
    y = np.rint(3 * rng.standard_normal(len(w)))  # ties
    model = BoostedGAM([btree("x", min_rows=least)], learning_rate=1.0, max_iter=1)
    model.fit(d, y, sample_weight=w, offset=0.0)
    gains = np.zeros(bins)
    for cut in range(bins):
        for side in (x <= cut, x > cut):
            if 0 < side.sum() < min(least, len(x)):
                gains[cut] = -np.inf
            elif side.any():
                gains[cut] += y[: len(x)][side].sum() ** 2 / side.sum()
    best = int(np.argmax(gains >= gains.max() * (1 - 1e-12)))
    sides = [y[: len(x)][side] for side in (x <= best, x > best)]
    low, high = (side.mean() if len(side) else 0.0 for side in sides)
    expected = np.where(x <= best, low, high)
    found = on_host(model.predict({"x": x * 1.0}))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_bins_are_values_or_quantiles(rng: np.random.Generator) -> None:
    d = {"few": [1.0, 5.0, 2.0, 5.0], "same": np.ones(4)}
    assert learn(btree("few"), d).cuts == (1.5, 3.5)
    assert learn(btree("same"), d).cuts == ()
    x = np.append(rng.standard_normal(4000), np.zeros(3000))
    cuts = np.array(learn(btree("x", bins=16), {"x": x}).cuts)
    counts = np.histogram(x, [-np.inf, *cuts, np.inf])[0]
    assert len(cuts) < 16
    assert (np.diff(cuts) > 0).all()
    assert (np.sort(counts)[:-1] < 1.1 * len(x) / 16).all()  # the other has the zeros
    x = np.arange(10.0)
    model = BoostedGAM([btree("x")], learning_rate=1, max_iter=1)
    model.fit({"x": x}, (x > 4) * 2.0)
    at = {"x": np.array([-100.0, 4.4, 4.5, 4.6, 100.0])}
    np.testing.assert_allclose(model.predict(at), [0, 0, 0, 2, 2], atol=1e-15)


@together("term", [btree("x"), brad("x", "z", knots=9), bbs("x", knots=4)], ids=str)
def test_rows_with_missing_values_are_left_out(data: Any, term: Any) -> None:
    d = data | {"x": np.where(np.arange(N) < 10, np.nan, data["x"])}
    rest = {name: column[10:] for name, column in d.items()}
    made = [
        BoostedGAM([term], max_iter=9, missing="zero").fit(one, one["y"], offset=0.0)
        for one in (d, rest)
    ]
    effects = made[0].effects(d)
    np.testing.assert_array_equal(effects[:10], 0)
    np.testing.assert_allclose(effects[10:], made[1].effects(rest), rtol=1e-9)
