"""How much each learner contributed to a fit."""

from __future__ import annotations

import numpy as np

from gpusolve.gam._model.insight import risk_reductions, selection_frequencies


def test_reductions_are_summed_by_learner() -> None:
    rng = np.random.default_rng(0)
    selected = rng.integers(0, 4, 30)
    risk = 100 - rng.random(31).cumsum()
    found = risk_reductions(selected, risk, learners=6, rows=20)
    by_hand = np.zeros(6)
    for step, learner in enumerate(selected):
        by_hand[learner] += (risk[step] - risk[step + 1]) / 20
    np.testing.assert_allclose(found, by_hand, rtol=1e-12)
    np.testing.assert_allclose(found.sum(), (risk[0] - risk[-1]) / 20, rtol=1e-12)


def test_a_learner_whose_steps_raise_the_risk_has_a_negative_importance() -> None:
    found = risk_reductions(np.array([0, 1]), np.array([2.0, 1.0, 4.0]), 2, rows=1)
    assert found.tolist() == [1.0, -3.0]


def test_frequencies_are_shares_of_the_steps() -> None:
    assert selection_frequencies(np.array([2, 2, 0, 2]), 4).tolist() == [
        0.25,
        0,
        0.75,
        0,
    ]
    assert selection_frequencies(np.zeros(0, np.int32), 2).tolist() == [0.0, 0.0]
