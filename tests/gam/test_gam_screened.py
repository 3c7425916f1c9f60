"""Steps of many learners on a CPU that fit only the learners that may be the best."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from together import together

from gpusolve._device.threads import workers
from gpusolve.gam import BoostedGAM, bbs, bmono, bols, brandom, btree
from gpusolve.gam._boosting import learner_fits
from gpusolve.gam._boosting.batch import Fits
from gpusolve.gam._boosting.learner_fits import ScreenedFits, past_steps
from gpusolve.gam._boosting.problem import PreparedLearners, designs_of, prepare
from gpusolve.gam._boosting.stacked import boost_family
from gpusolve.gam._terms.frame import Frame
from gpusolve.gam.families import family_of

Floats = NDArray[np.float64]


@pytest.fixture(name="rng")
def generator() -> np.random.Generator:
    return np.random.default_rng(2)


N, LEARNERS, STEPS = 60, 100, 40

RESIDUALS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "gaussian": lambda y, f: y - f,
    "poisson": lambda y, f: y - np.exp(f),
}
"""The negative gradients of the losses."""


def problem_of(
    term: Callable[[int], Any] = bbs, weights: Floats | None = None, every: int = 5
) -> PreparedLearners:
    """Learners of random numbers; each fifth of few: its Gram matrix is singular."""
    X = np.random.default_rng(0).random((N, LEARNERS))
    X[:, ::every] = np.round(4 * X[:, ::every])
    frame = Frame.of(X)
    terms = [term(j).learn(frame) for j in range(LEARNERS)]
    return prepare(designs_of(terms, frame), weights)


def hat_matrices(problem: PreparedLearners, fit: int) -> Floats:
    """The hat matrices of all learners, (K, N, N)."""
    w = 1.0 if problem.weights is None else problem.weights[fit]
    hats = []
    for design, inverse in zip(problem.rows, problem.inverse, strict=True):
        X, H = design.dense(), inverse[fit]
        hats.append(X @ (H[:, None] * X.T if H.ndim == 1 else H @ X.T) * w)
    return np.array(hats)


def selected_by_dense_matrices(
    problem: PreparedLearners, family: str, y: Floats, rate: float
) -> NDArray[np.intp]:
    """The selections of `STEPS` steps: all learners are fitted, by hat matrices."""
    found = np.empty((problem.fits, STEPS), np.intp)
    for fit in range(problem.fits):
        w = np.ones(N) if problem.weights is None else problem.weights[fit]
        hats, f = hat_matrices(problem, fit), np.zeros(N)
        for step in range(STEPS):
            u = RESIDUALS[family](y, f)
            fitted = hats @ u
            left = ((u - fitted) ** 2 * w).sum(axis=1)
            found[fit, step] = left.argmin()
            f = f + rate * fitted[left.argmin()]
    return found


@together("family", sorted(RESIDUALS))
@together("kind", ["splines", "factors", "several weights"])
@together("rate", [0.1, 0.7])
def test_steps_select_the_best_of_all_learners(
    family: str, kind: str, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    weights = np.stack([rng.integers(0, 3, N), rng.random(N), np.ones(N)])
    problem = {
        "splines": lambda: problem_of(lambda j: bbs(j, knots=6)),
        "factors": lambda: problem_of(lambda j: brandom(j, df=2.5), every=1),
        "several weights": lambda: problem_of(lambda j: bbs(j, df=2.5), weights),
    }[kind]()
    y = rng.integers(0, 2, N).astype(float)
    fitted: list[int] = []
    fit_pairs = ScreenedFits.fit_pairs

    def counted(self: Any, pairs: Any, u: Floats, some: slice = slice(None)) -> None:
        fitted.append(len(pairs[0][some]))
        fit_pairs(self, pairs, u, some)

    monkeypatch.setattr(ScreenedFits, "fit_pairs", counted)
    start = np.zeros((problem.fits, 1))
    fits = Fits(problem, family_of(family), y, start, learning_rate=rate)
    path = boost_family(fits, STEPS)
    expected = selected_by_dense_matrices(problem, family, y, rate)
    np.testing.assert_array_equal(path.selected, expected)
    assert 0 < sum(fitted) < 0.6 * problem.fits * len(problem) * STEPS


def test_roots_are_below_their_bounds(rng: np.random.Generator) -> None:
    """The gradient turns slowly from the span of learner 0 to the span of learner 1.

    Without a penalty a root is the norm of a projection, and the bound of learner 1 is
    nearly its root. The turn takes more steps than gradients are kept.
    """
    weights = np.stack([rng.uniform(0.001, 0.1, N), 9.0 * rng.integers(0, 2, N)])
    problem = problem_of(lambda j: bbs(j, knots=0, lambda_=0), weights, every=LEARNERS)
    directions = [problem.rows[j].dense() @ rng.standard_normal(4) for j in (0, 1)]
    directions = [(d - d.mean()) / d.std() for d in directions]
    start = np.zeros((2, 1))
    fits = Fits(problem, family_of("gaussian"), np.zeros(N), start)
    state: Any = ScreenedFits(fits)
    bounds, leaders = [], set()
    upper_bounds = state.upper_bounds
    state.upper_bounds = lambda u: bounds.append(upper_bounds(u)) or bounds[-1]
    hats = np.array([hat_matrices(problem, fit) for fit in range(2)])
    with workers(*state.products.work) as run:
        for step in range(40):
            u = directions[0] + step / 15 * directions[1]
            state.project(lambda u=u: u * weights, run)
            fitted = hats @ u
            scores = (weights[:, None] * fitted * (2 * u - fitted)).sum(axis=2)
            assert (bounds[-1] >= np.sqrt(np.maximum(scores, 0)) * (1 - 1e-9)).all()
            best = scores.argmax(axis=1)
            np.testing.assert_array_equal(state.scores(run).argmax(axis=1), best)
            leaders.update(best.tolist())
    assert leaders == {0, 1}


def test_learners_that_are_always_fitted() -> None:
    """Their roots are not seminorms, or a fit of all learners is as fast."""
    mixed = problem_of(lambda j: bbs(j, knots=6 + (j == 7)))
    for problem in (
        problem_of(bmono, every=10),
        problem_of(btree),
        problem_of(lambda j: bols(j, intercept=False)),
        mixed,
    ):
        assert not past_steps(problem)
    assert past_steps(problem_of(bbs))


def test_many_rows_keep_fewer_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(bbs)
    assert past_steps(problem) == LEARNERS // learner_fits.LEARNERS_PER_PAST
    monkeypatch.setattr(learner_fits, "PAST_BYTES", 3 * 8 * N)
    assert past_steps(problem) == 3


def test_a_response_that_is_fitted_exactly(rng: np.random.Generator) -> None:
    """All scores fall to rounding errors; the gradients stay finite."""
    X = rng.random((N, LEARNERS))
    model = BoostedGAM([bbs(j) for j in range(LEARNERS)], learning_rate=1, max_iter=80)
    assert np.isfinite(model.fit(X, 3 * X[:, 0]).risk_).all()
    assert np.isfinite(model.fit(X, np.ones(N)).risk_).all()
