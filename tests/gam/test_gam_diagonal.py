"""Learners whose matrices are diagonal, against dense matrices and group means."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from same_steps import assert_same_steps
from scipy.optimize import brentq
from together import together

from gpusolve.gam import BoostedGAM, bbs, gamboost
from gpusolve.gam._boosting.problem import PreparedLearners, designs_of, prepare
from gpusolve.gam._terms.frame import Frame
from gpusolve.gam._terms.linear import CONTRASTS
from gpusolve.gam.from_formula import MBOOST
from gpusolve.gam.terms import Term, bols, brandom

Floats = NDArray[np.float64]

N, LEVELS = 300, 12


@pytest.fixture
def data(rng: np.random.Generator) -> dict[str, Any]:
    """Factors g and h of 12 and 4 levels, which all occur, and numeric x and z."""
    return {
        "g": rng.permutation(np.arange(N) % LEVELS),
        "h": rng.permutation(np.arange(N) % 4).astype(str),
        "x": rng.random(N),
        "z": rng.standard_normal(N),
        "y": rng.standard_normal(N),
    }


def prepared(
    term: Term, data: Any, weights: Floats | None = None
) -> tuple[PreparedLearners, Floats]:
    """The learner, and its dense design."""
    frame = Frame.of(data)
    learner = term.learn(frame)
    return prepare(designs_of([learner], frame), weights), learner.rows(frame).dense()


def df_of(lambda_: float, G: Floats, K: Floats) -> float:
    """``tr(2S - S'S)`` with the hat matrix S of ``(G + lambda K)^-1 G``."""
    S = np.linalg.solve(G + lambda_ * K, G)
    return float(np.trace(2 * S - S @ S))


PENALISED = {
    "dummies": (brandom("g"), lambda k: np.eye(k)),
    "fewer df": (brandom("g", df=1.5), lambda k: np.eye(k)),
    "slopes": (brandom("g", by="z", df=3), lambda k: np.eye(k)),
    "by a factor": (brandom("g", by="h", df=9), lambda k: np.eye(k)),
    "one column": (bols("z", intercept=False, df=0.5), lambda k: np.eye(k)),
    "pairs": (brandom("g", df=3) * brandom("h", df=2), lambda k: 2 * np.eye(k)),
    "slopes by product": (
        brandom("g", df=3) * bols("z", intercept=False),
        lambda k: np.eye(k),
    ),
}


@together("kind", PENALISED)
@pytest.mark.parametrize("fits", [None, 3])
def test_penalised_effects_are_those_of_dense_matrices(
    kind: str, fits: int | None, data: Any, rng: np.random.Generator
) -> None:
    term, penalty = PENALISED[kind]
    weights = None if fits is None else rng.integers(1, 4, (fits, N)).astype(float)
    problem, X = prepared(term, data, weights)
    K = penalty(X.shape[1])
    assert problem.is_diagonal(0)
    for fit, w in enumerate([np.ones(N)] if weights is None else weights):
        G = X.T @ (w[:, None] * X)
        expected = brentq(lambda e, G=G: df_of(np.exp(e), G, K) - term.df, -20, 20)
        lambda_ = problem.lambda_[fit, 0]
        assert lambda_ == pytest.approx(np.exp(expected), rel=1e-9)
        H = np.linalg.inv(G + lambda_ * K)
        np.testing.assert_allclose(np.diag(problem.inverse[0][fit]), H, atol=1e-14)
        Q = 2 * H - H @ G @ H
        np.testing.assert_allclose(np.diag(problem.gain([0])[fit, 0]), Q, atol=1e-14)


@together("contrasts", CONTRASTS)
@together("intercept", [True, False])
def test_coefficients_of_every_coding_are_those_of_its_columns(
    contrasts: str, intercept: bool, data: Any, rng: np.random.Generator
) -> None:
    given = {"contrasts": contrasts, "intercept": intercept, "levels": range(LEVELS)}
    term = bols("g", **given).learn(Frame.of(data))
    T = term.transform()
    if T is None:
        T = np.eye(LEVELS)
    b = rng.standard_normal((5, T.shape[1]))
    np.testing.assert_allclose(term.column_coefficients(b @ T.T), b, atol=1e-13)
    both = (term * bols("h", contrasts="sum")).learn(Frame.of(data))
    b = rng.standard_normal(4 * T.shape[1])
    found = both.column_coefficients(both.transform() @ b)
    np.testing.assert_allclose(found, b, atol=1e-12)


@together("contrasts", CONTRASTS)
def test_a_fit_without_a_penalty_has_the_means_of_the_levels(
    contrasts: str, data: Any
) -> None:
    term = bols("g", contrasts=contrasts, levels=range(LEVELS + 1))
    model = BoostedGAM([term], learning_rate=1, max_iter=1, unknown="zero")
    model.fit(data, data["y"])
    means = [data["y"][data["g"] == level].mean() for level in range(LEVELS)]
    np.testing.assert_allclose(model.predict(data), np.array(means)[data["g"]])
    unseen = {"g": np.array([LEVELS])}
    assert model.partial_effect(0, unseen) == pytest.approx(0)


def test_factors_with_an_unpenalised_side_are_diagonal_only_without_contrasts(
    data: Any,
) -> None:
    frame = Frame.of(data)
    for left, is_diagonal in ((bols("h"), False), (bols("h", contrasts="dummy"), True)):
        term = (left * brandom("g", df=5)).learn(frame)
        assert (term.diagonal() is not None) == is_diagonal
    assert (bols("h") * bols("g")).learn(frame).diagonal() is None  # g is numeric
    contrasts = bols("h", intercept=False).learn(frame)
    assert contrasts.diagonal() is None  # the first level has no effect
    free = (bols("h") * bols("g", levels=range(LEVELS))).learn(frame)
    np.testing.assert_array_equal(free.diagonal(), np.zeros(4 * LEVELS))


def test_levels_without_rows_do_not_count_for_the_rank(data: Any) -> None:
    given = {"contrasts": "dummy", "levels": range(LEVELS + 2)}
    for df, is_free in ((LEVELS + 0.5, True), (LEVELS - 0.5, False)):
        problem, _ = prepared(bols("g", df=df, **given), data)
        assert (problem.lambda_[0, 0] == 0) == is_free


def test_a_factor_needs_memory_for_its_levels_only() -> None:
    """30,000 levels, whose matrix would have 7 GB."""
    rng = np.random.default_rng(0)
    g, n = rng.integers(0, 30_000, 60_000), 60_000
    y = rng.standard_normal(30_000)[g] + rng.standard_normal(n)
    tracemalloc.start()
    model = BoostedGAM([brandom("g", df=3000)], learning_rate=0.1, max_iter=5)
    model.fit({"g": g}, y)
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()
    sums = np.bincount(g, y - y.mean()), np.bincount(g)
    effects = sums[0] / (sums[1] + model.lambda_[0])
    first = model.partial_effect(0, {"g": g[:100]}, iteration=1)
    np.testing.assert_allclose(first, 0.1 * effects[g[:100]], rtol=1e-10)


@pytest.mark.parametrize(("levels", "n"), [(40, 3000), (2000, 9000)])
def test_kernels_take_the_steps_of_the_host(
    device_backend: Any, levels: int, n: int
) -> None:
    """The sums of 2,000 levels do not fit in shared memory; some have many rows."""
    rng = np.random.default_rng(1)
    d = {"g": rng.integers(0, levels, n), "x": rng.random(n)}
    d["h"] = rng.permutation((levels * rng.random(n) ** 3).astype(int))
    y = rng.standard_normal(levels)[d["g"]] + np.sin(6 * d["x"])
    y += rng.standard_normal(levels)[d["h"]] / 2
    w = rng.integers(0, 3, n).astype(float)
    terms = [brandom("g", df=20), bbs("x"), brandom("h", df=levels / 2)]

    def fitted(device: str) -> BoostedGAM:
        model = BoostedGAM(terms, max_iter=12, device=device)
        model.fit(d, y, sample_weight=w)
        assert len(set(model.selected_.tolist())) > 1
        return model

    assert_same_steps(fitted, device_backend)


# ---- default learners ----------------------------------------------------------------


def test_default_factors_of_many_levels_are_penalised_as_splines(data: Any) -> None:
    d = {"g": data["g"].astype(str), "h": data["h"], "x": data["x"]}
    model = BoostedGAM(df=5).fit(d, data["y"])
    assert model.names_[:2] == ["brandom(g)", "bols(h)"]
    assert repr(model.terms_[2]).startswith("bbs('x', df=5")
    free = BoostedGAM(penalty=None).fit(d, data["y"])
    assert free.names_[0] == "bols(g)"


def test_a_factor_of_noise_takes_little_of_the_fit() -> None:
    """Held-out R^2 falls by less than 0.02; it fell by 0.07 without a penalty."""
    rng = np.random.default_rng(1)
    X = {f"x{j}": rng.random(3000) for j in range(3)}
    f = np.sin(6 * X["x0"]) + 2 * X["x1"] + np.cos(9 * X["x2"])
    y = f + 0.8 * rng.standard_normal(3000)
    noise = rng.integers(0, 300, 3000).astype(str)

    def score(d: Any) -> float:
        train, test = ({k: v[s] for k, v in d.items()} for s in (FIRST, LAST))
        model = BoostedGAM().fit(train, y[FIRST])
        return float(model.score(test, y[LAST]))

    assert score(X | {"noise": noise}) > score(X) - 0.02


FIRST, LAST = slice(2000), slice(2000, None)


# ---- penalties of products and sums --------------------------------------------------


def test_a_product_with_an_unpenalised_column_is_a_varying_coefficient(
    data: Any,
) -> None:
    product = gamboost("y ~ bbs(x):bols(z, intercept=False)", data)
    varying = BoostedGAM([bbs("x", by="z")], **MBOOST).fit(data, data["y"])
    np.testing.assert_allclose(product.lambda_, varying.lambda_, rtol=1e-12)
    np.testing.assert_allclose(product.predict(data), varying.predict(data), rtol=1e-10)


@pytest.mark.parametrize("lambda_", [0.0, 2.5])
def test_known_smoothing_parameters_multiply_their_own_penalty(
    lambda_: float, data: Any
) -> None:
    a, b = bols("z", lambda_=lambda_), bbs("x", knots=6, df=3)
    frame = Frame.of(data)
    Ka, Kb = lambda_ * np.eye(2), b.learn(frame).penalty()
    product, both = (a * b).learn(frame), (a + b).learn(frame)
    expected = np.kron(Ka, np.eye(10)) + np.kron(np.eye(2), Kb)
    np.testing.assert_array_equal(product.penalty(), expected)
    K = both.penalty()
    np.testing.assert_array_equal(K[:2, :2], Ka)
    np.testing.assert_array_equal(K[2:, 2:], Kb)
    assert product.df == both.df == 3
    for term in (product, both):
        rank = np.linalg.matrix_rank(term.penalty(), hermitian=True)
        assert term.null_dimension == len(term.penalty()) - rank
