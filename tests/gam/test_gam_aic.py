"""Degrees of freedom of a boosted model, and the criteria that use them."""

from __future__ import annotations

from itertools import cycle

import numpy as np
from gam_models import columns, draw
from learner_columns import columns_at
from together import together

from gpusolve.gam import (
    BoostedGAM,
    BoostedGAMClassifier,
    aic_stop,
    bbs,
    bols,
    brandom,
    bspatial,
)
from gpusolve.gam.aic import corrected_aic, minimum_description_length
from gpusolve.gam.families import Binomial, Family, Gaussian, Poisson

FAMILIES = [Gaussian(), Binomial(), Binomial("logit"), Poisson()]

LEARNERS = [
    bbs("x", knots=6), bols("z"), bbs("z", knots=4, df=3), brandom("g", df=2),
    bspatial("x", "z", knots=9), bols("g", df=2) * bbs("x", knots=4),
]  # fmt: skip


@together(("family", "weighted"), zip(FAMILIES, cycle([True, False]), strict=False))
def test_degrees_of_freedom_are_the_traces_of_the_hat_matrices(
    family: Family, weighted: bool
) -> None:
    """By the recursion of the n x n matrices."""
    data, start = columns(50), np.linspace(0, 1, 50)
    y = draw(family, np.sin(6 * data["x"]) + data["z"] - 0.5)
    w = np.random.default_rng(0).integers(1, 4, 50) if weighted else np.ones(50)
    model = BoostedGAM(LEARNERS, family=family, max_iter=12, step_rule="mboost")
    found = aic_stop(model.fit(data, y, sample_weight=w, offset=start))
    B, hats = np.zeros((50, 50)), []
    for j, term in enumerate(model.terms_):
        X, K = columns_at(term, data), term.penalty()
        inner = X.T @ (w[:, None] * X) + model.lambda_[j] * K
        hats.append(X @ np.linalg.pinv(inner, 1e-12, hermitian=True) @ (X.T * w))
    for step, j in enumerate(model.selected_):
        at = {"iteration": step + 1, "kind": "link", "offset": start}
        curved = family.information(model.predict(data, **at))
        H = hats[j] if curved is None else curved[:, None] * hats[j]
        B += model.learning_rate * H @ (np.eye(50) - B)
        np.testing.assert_allclose(found.df[step], np.trace(B), rtol=1e-6)
    if family.criteria[0] == "aic":
        expected = 2 * model.risk_[1:] + 2 * found.df
    else:
        expected = corrected_aic(found.df, model.risk_[1:], w.sum() * 1.0).values
    np.testing.assert_allclose(found.values, expected, rtol=1e-12)
    if family.name == "binomial":  # of two classes, too
        classes = BoostedGAMClassifier(**model.get_params())
        classes.fit(data, y > 0, sample_weight=w, offset=start)
        np.testing.assert_allclose(aic_stop(classes).df, found.df, rtol=1e-12)
    f, h = np.linspace(-2, 2, 9), 1e-4
    losses = [family.loss(np.ones(9), f + k * h, np.float64(0)) for k in (-1, 0, 1)]
    bend = (losses[0] - 2 * losses[1] + losses[2]) / h**2
    if (information := family.information(f)) is not None:
        np.testing.assert_allclose(information, bend, rtol=1e-6)


def test_criteria_are_infinite_where_they_are_not_defined() -> None:
    df, squares = np.array([1.0, 8.5, 10.5]), np.array([8.0, 5.0, 1e-9])
    assert np.isfinite(corrected_aic(df, squares, 10.0).values).tolist() == [1, 0, 0]
    gmdl = minimum_description_length(df, squares, 10.0, total_squares=20.0)
    assert np.isfinite(gmdl.values).tolist() == [1, 1, 0]
