"""After many steps, a boosted model minimises the risk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from family_samples import sample
from numpy.typing import NDArray
from scipy.optimize import linprog, root
from scipy.special import expit
from together import together

from gpusolve.gam import BoostedGAM, BoostedGAMClassifier, bbs, bols
from gpusolve.gam.families import (
    Binomial,
    Expectile,
    Family,
    Gamma,
    Gaussian,
    Huber,
    Laplace,
    NegativeBinomial,
    Poisson,
    Quantile,
)

Floats = NDArray[np.float64]

SCORES: dict[Family, Callable[[Floats, Floats], Floats]] = {
    Gaussian(): lambda y, f: y - f,
    Expectile(0.3): lambda y, f: np.where(y > f, 0.3, 0.7) * (y - f),
    Huber(0.5): lambda y, f: np.clip(y - f, -0.5, 0.5),
    Binomial(): lambda y, f: y - expit(2 * f),
    Binomial("logit"): lambda y, f: y - expit(f),
    Poisson(): lambda y, f: y - np.exp(f),
    NegativeBinomial(2.0): lambda y, f: (y - np.exp(f)) / (1 + np.exp(f) / 2),
    Gamma(): lambda y, f: y / np.exp(f) - 1,
    Gamma(2.0): lambda y, f: y / np.exp(f) - 1,
}
"""The derivative of the log likelihood by the predictor, up to a factor."""


def limit(family: Family, X: Floats, y: Floats, offset: Any = 0.0) -> Floats:
    """The predictor, (n,), that is linear in X and has the score zero."""
    D = np.column_stack([np.ones(len(X)), X])

    def score(b: Floats) -> Floats:
        return D.T @ SCORES[family](y, offset + D @ b)

    found = root(score, np.zeros(D.shape[1]), tol=1e-13)
    assert np.abs(found.fun).max() < 1e-8
    return np.asarray(offset + D @ found.x)


@together("family", SCORES, ids=str)
def test_lines_become_the_generalised_linear_model(family: Family) -> None:
    X, y = sample(family)
    lines = [bols(0), bols(1), bols(2)]
    model = BoostedGAM(lines, family=family, learning_rate=0.3, max_iter=1500)
    f = model.fit(X, y).predict(X, kind="link")
    np.testing.assert_allclose(f, limit(family, X, y), atol=1e-6)


def test_the_limit_is_that_of_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = sample(Poisson())
    model = BoostedGAM(bols(0, 1, 2), family="poisson", max_iter=300)
    expected = linear_model.PoissonRegressor(alpha=0, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.fit(X, y).predict(X), expected.predict(X), 1e-5)

    X, y = sample(Binomial())
    classifier = BoostedGAMClassifier(bols(0, 1, 2), learning_rate=0.5, max_iter=300)
    expected = linear_model.LogisticRegression(C=np.inf, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(
        classifier.fit(X, y).predict_proba(X), expected.predict_proba(X), rtol=1e-4
    )


def test_splines_without_a_penalty_become_least_squares() -> None:
    X, y = sample(Gaussian())
    terms = [bbs(0, knots=2, lambda_=0), bbs(1, knots=2, lambda_=0)]
    model = BoostedGAM(terms, learning_rate=0.5, max_iter=1500).fit(X, y)
    D = np.hstack([t.rows(model._data[0].frame).dense() for t in model.terms_])
    b, *_ = np.linalg.lstsq(D, y)
    np.testing.assert_allclose(model.predict(X), D @ b, atol=1e-6)


@pytest.mark.parametrize("family", [Laplace(), Quantile(0.8)], ids=str)
def test_lines_become_the_quantile_regression(family: Family) -> None:
    """The steps keep their length, so the risk comes close to the risk of the limit."""
    X, y = sample(family)
    tau = getattr(family, "tau", 0.5)
    D = np.column_stack([np.ones(len(X)), X])
    n, k = D.shape
    program = linprog(
        np.concatenate([np.zeros(k), np.full(n, tau), np.full(n, 1 - tau)]),
        A_eq=np.hstack([D, np.eye(n), -np.eye(n)]),
        b_eq=y,
        bounds=[(None, None)] * k + [(0, None)] * (2 * n),
    )
    least = program.fun * (2 if isinstance(family, Laplace) else 1)
    lines = [bols(0), bols(1), bols(2)]
    model = BoostedGAM(lines, family=family, learning_rate=0.02, max_iter=1500)
    risk = model.fit(X, y).risk_
    assert risk.min() >= least * (1 - 1e-12)
    assert risk[-1] <= 1.002 * least


@pytest.mark.parametrize("family", [Poisson(), Gamma(2.0), Gaussian()], ids=str)
def test_an_offset_stays_in_the_limit(family: Family) -> None:
    """Counts with the logarithms of exposures as offset are rates."""
    X, y = sample(family)
    exposure = np.random.default_rng(1).uniform(0.5, 2, len(y))
    start = np.log(exposure)
    lines = [bols(0), bols(1), bols(2)]
    model = BoostedGAM(lines, family=family, learning_rate=0.3, max_iter=1500)
    model.fit(X, y, offset=start)
    expected = limit(family, X, y, start)
    np.testing.assert_allclose(
        model.predict(X, kind="link", offset=start), expected, atol=1e-6
    )
    rate = model.predict(X, kind="link", offset=0)
    np.testing.assert_allclose(rate, expected - start, atol=1e-6)
