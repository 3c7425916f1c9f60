"""Learners whose columns are dependent: the rank decides what their df can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from together import together

from gpusolve.gam import BoostedGAM, bbs, bols, gamboost
from gpusolve.gam._boosting.problem import designs_of, prepare
from gpusolve.gam._terms.frame import Frame
from gpusolve.gam.terms import Term, bmrf, bspatial

Floats = NDArray[np.float64]

N = 120

NEIGHBOURS = {"p": ["q"], "q": ["p", "r"], "r": ["q"], "s": ["t"], "t": ["s"], "u": []}
"""Regions in three components; s, t and u have no rows."""


@pytest.fixture
def data(rng: np.random.Generator) -> dict[str, Any]:
    """Columns of which some are functions of others, and of different units."""
    x = rng.random(N)
    return {
        "x": x,
        "line": 2 * x + 1,
        "few": rng.integers(0, 4, N).astype(float),
        "one": np.ones(N),
        "income": 1e7 * (1 + rng.random(N)),
        "f": rng.choice(["a", "b", "c"], N),
        "g": rng.choice(["d", "e"], N),
        "region": rng.choice(["p", "q", "r"], N),
        "y": np.sin(9 * x) + rng.standard_normal(N) / 9,
    }


def hat_matrix(X: Floats, root: Floats) -> Floats:
    """The hat matrix of ``min ||X b - u||^2 + ||root b||^2``, from singular vectors.

    Columns are scaled to norm 1. Directions whose singular value is below 1e-9 of the
    largest have neither data nor a penalty.
    """
    A = np.vstack([X, root])
    norms = np.linalg.norm(A, axis=0)
    U, s, _ = np.linalg.svd(A / np.where(norms > 0, norms, 1), full_matrices=False)
    U = U[: len(X), s > 1e-9 * s[0]]
    return np.asarray(U @ U.T)


def root_of(K: Floats) -> Floats:
    """R with ``R'R = K``, without the null space of K."""
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-10 * values[-1]
    return np.asarray(np.sqrt(values[kept])[:, None] * vectors[:, kept].T)


OVERLAPS: dict[str, Term] = {
    "two intercepts": bbs("x", df=4.5) + bols("f"),
    "three intercepts": bbs("x", df=5.5) + bols("f") + bols("g"),
    "a line twice": bbs("x") + bols("x"),
    "a line, a constant": bbs("x", df=2.5) + bols("line") + bols("one"),
    "a spline twice": bbs("x") + bbs("x"),
    "units": bbs("x") + bols("income", "x"),
    "units and a ridge": bbs("x", df=9) + bols("income") + bols("f", df=2),
    "few values": bbs("few", df=2.5) + bols("few"),
    "by a factor": bbs("x", by="g") + bols("g"),
    "cyclic": bbs("x", cyclic=True) + bols("f"),
    "centred": bbs("x", center=True) + bols("f"),
    "collinear surface": bspatial("x", "line", knots=5),
    "surface of few values": bspatial("few", "x", knots=4),
    "a product with itself": bbs("x", df=5, knots=6) * bols("x"),
    "a product with ones": bbs("x", df=5) * bols("one"),
    "regions without rows": bmrf("region", neighbours=NEIGHBOURS, df=2),
    "regions and ones": bmrf("region", neighbours=NEIGHBOURS, df=2) + bols("one"),
}


@together("level", [None, "c"], ids=["all rows", "a level of weight 0"])
@together("term", OVERLAPS.values(), ids=OVERLAPS.keys())
def test_the_trace_is_the_degrees_of_freedom(
    data: dict[str, Any], rng: np.random.Generator, term: Term, level: str | None
) -> None:
    """mboost's shrinkage, by 1.49e-8, of singular matrices changes df by about 1e-5."""
    w = rng.integers(1, 4, N) * (data["f"] != level).astype(float)
    frame = Frame.of(data)
    learner = term.learn(frame)
    found = prepare(designs_of([learner], frame), w)
    X, T = np.sqrt(w)[:, None] * learner.rows(frame).dense(), learner.transform()
    root = np.sqrt(found.lambda_[0, 0]) * root_of(learner.penalty())
    S = hat_matrix(X if T is None else X @ T, root)
    assert np.trace(2 * S - S @ S) == pytest.approx(term.df, rel=2e-5)
    np.testing.assert_allclose(X @ found.inverse[0][0] @ X.T, S, atol=1e-11)


SAME_SPACE = {
    "two intercepts": (bbs("x") + bols("g"), bbs("x") + bols("g", intercept=False)),
    "a line twice": (bbs("x") + bols("x"), bbs("x")),
    "units": (bbs("x") + bols("income"), bbs("x") + bols("income", intercept=False)),
    "regions": (OVERLAPS["regions and ones"], OVERLAPS["regions without rows"]),
    "without a penalty": (bols("line", "x", "income"), bols("x", "income")),
}


@together(("term", "other"), SAME_SPACE.values(), ids=SAME_SPACE.keys())
def test_learners_of_the_same_space_have_the_same_fits(
    data: dict[str, Any], term: Term, other: Term
) -> None:
    """In rows that have a weight: beyond them, splines and lines differ.

    Roots of rounding errors are below 1e-7, and 20 steps add up.
    """
    weights = np.arange(N) % 3.0
    models = [
        BoostedGAM([learner], max_iter=20).fit(data, data["y"], sample_weight=weights)
        for learner in (term, other)
    ]
    np.testing.assert_allclose(models[0].lambda_, models[1].lambda_, rtol=1e-6)
    fits = [model.predict(data)[weights > 0] for model in models]
    np.testing.assert_allclose(fits[0], fits[1], atol=1e-6)


def test_fits_on_devices(backend: Any, data: dict[str, Any]) -> None:
    X, y = np.column_stack([data["x"], data["line"]]), data["y"]
    fits = [
        BoostedGAM([term], max_iter=20)
        .fit(backend.array(X), backend.array(y))
        .predict(X)
        for term in (bbs(0) + bols(1), bbs(0))
    ]
    np.testing.assert_allclose(fits[0], fits[1], atol=1e-9)


def test_a_spline_and_a_factor_with_two_intercepts() -> None:
    """mboost's smoothing parameter without the second intercept is 12801.87."""
    x = np.arange(1, 601) / 600
    data = {"x": x, "f": np.tile(["a", "b"], 300)}
    data["y"] = np.sin(10 * x) + (data["f"] == "b")
    model = gamboost("y ~ I(bbs(x) + bols(f))", data, max_iter=1000)
    assert model.lambda_ == pytest.approx(12801.87, rel=1e-6)
    residual = data["y"] - model.predict(data)
    assert 1 - residual.var() / data["y"].var() == pytest.approx(0.997, abs=5e-4)


def test_too_few_degrees_of_freedom_name_the_least(data: dict[str, Any]) -> None:
    """The constant, the line and two contrasts."""
    with pytest.raises(ValueError, match=r"df must be at least 4, .* got 3\.9"):
        BoostedGAM([bbs("x", df=3.9) + bols("f")]).fit(data, data["y"])
