"""Stability selection: halves of the data, probabilities, the selected learners."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from gpusolve.gam import (
    BoostedDistribution,
    BoostedGAM,
    BoostedGAMClassifier,
    StabilitySelection,
    bbs,
    bols,
    distributions,
    stability,
    stability_selection,
)
from gpusolve.gam._boosting.stacked import boost_family
from gpusolve.gam.cv import training_of
from gpusolve.gam.stability import first_steps, half_weights, probabilities


def example(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Six covariates, of which two matter."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 6))
    return X, 3 * np.sin(6 * X[:, 1]) + 2 * X[:, 4] + 0.5 * rng.standard_normal(n)


LEARNERS = [bbs(j, knots=5) if j < 4 else bols(j) for j in range(6)]


@pytest.mark.parametrize("sampling", ["SS", "MB"])
@pytest.mark.parametrize("weighted", [False, True])
def test_each_fit_is_that_of_the_rows_of_a_half(sampling: str, weighted: bool) -> None:
    X, y = example(61)
    rng = np.random.default_rng(1)
    halves = (rng.random((61, 4)) < 0.5).astype(float)
    w = rng.integers(1, 4, 61).astype(float) if weighted else None
    model = BoostedGAM(LEARNERS, max_iter=150).fit(X, y, sample_weight=w)
    found = stability_selection(
        model, q=3, cutoff=0.9, sampling=sampling, subsamples=halves
    )
    all_halves = np.hstack([halves, 1 - halves]) if sampling == "SS" else halves
    expected = np.zeros((151, 6))
    for half in all_halves.T:
        weights = half if w is None else half * w
        # All rows give the knots: so rows outside get the weight 0.
        path = path_of_weights(X, y, weights)
        different = list(dict.fromkeys(path.tolist()))[:3]
        for learner in different:
            expected[path.tolist().index(learner) + 1 :, learner] += 1
    np.testing.assert_allclose(found.paths, expected / all_halves.shape[1], rtol=1e-14)


def test_fits_end_when_each_has_enough_learners(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y = example(80)
    model = BoostedGAM(LEARNERS, max_iter=150).fit(X, y)
    made = []

    def boost_and_keep(*arguments: Any, **options: Any) -> Any:
        made.append(boost_family(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(stability, "boost_family", boost_and_keep)
    stability_selection(model, q=3, cutoff=0.9, B=4, random_state=0)
    (path,) = made
    different = [
        [len(set(fit[:step])) for fit in path.selected.tolist()]
        for step in range(1, len(path) + 1)
    ]
    assert min(different[-1]) >= 3 > min(different[-2])


def path_of_weights(X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Any:
    """The learners selected with these weights, and the knots of all rows."""
    lower, upper = X.min(axis=0), X.max(axis=0)
    learners = [
        bbs(j, knots=5, boundary=(lower[j], upper[j])) if j < 4 else bols(j)
        for j in range(6)
    ]
    return BoostedGAM(learners, max_iter=150).fit(X, y, sample_weight=weights).selected_


def test_fractional_weights_are_scaled_in_every_half() -> None:
    X, y = example(20)
    w = np.random.default_rng(2).uniform(0.3, 2, 20)
    data, _ = training_of(BoostedGAM(LEARNERS, max_iter=0).fit(X, y, sample_weight=w))
    weights = half_weights(data, 5, True, None, random_state=0)
    assert weights.shape == (10, 20)
    np.testing.assert_array_equal(weights[:5] > 0, weights[5:] == 0)
    np.testing.assert_allclose(weights.sum(axis=1), 10, rtol=1e-14)
    ratio = (weights[:5] + weights[5:]) / w
    for values, half in zip(ratio, weights[:5] > 0, strict=True):
        assert np.ptp(values[half]) < 1e-14
        assert np.ptp(values[~half]) < 1e-14


def test_random_halves_are_reproducible_and_of_half_the_rows() -> None:
    X, y = example()
    model = BoostedGAM(LEARNERS).fit(X, y)
    first = stability_selection(model, q=2, pfer=1.0, B=10, random_state=3)
    second = stability_selection(model, q=2, pfer=1.0, B=10, random_state=3)
    np.testing.assert_array_equal(first.paths, second.paths)
    assert first.selected == ["bbs(1, knots=5)", "bols(4)"]
    np.testing.assert_allclose(first.paths * 20, np.rint(first.paths * 20), atol=1e-12)
    assert (np.diff(first.paths, axis=0) >= 0).all()
    assert (first.paths.sum(axis=1) <= 2 + 1e-12).all()
    assert not first.paths[0].any()


def test_noise_is_seldom_selected() -> None:
    rng = np.random.default_rng(5)
    false = 0
    for _ in range(10):
        X, y = rng.random((60, 12)), rng.standard_normal(60)
        model = BoostedGAM([bols(j) for j in range(12)], max_iter=60).fit(X, y)
        found = stability_selection(model, q=3, pfer=1.0, B=20, random_state=rng)
        false += len(found.selected)
    assert false <= 10  # at most 1 each is expected


@pytest.mark.parametrize("update", ["noncyclic", "cyclic", "joint"])
@pytest.mark.parametrize("sampling", ["SS", "MB"])
def test_each_parameter_selects_its_learners(update: Any, sampling: Any) -> None:
    """By separate fits to the halves, whose steps say parameter and learner."""
    X, y = example(50)
    w = np.random.default_rng(1).integers(1, 4, 50) * 1.0
    halves = (np.random.default_rng(2).random((50, 3)) < 0.5) * 1.0
    lower, upper = X.min(axis=0), X.max(axis=0)
    both = [bbs(j, boundary=(lower[j], upper[j])) for j in range(3)]
    labels = np.digitize(y, np.quantile(y, [0.3, 0.7]))

    def fitted(weights: np.ndarray) -> Any:
        options: dict[str, Any] = {"max_iter": 25}
        if update == "joint":
            model = BoostedGAMClassifier(both, family="multinomial", **options)
            return model.fit(X, labels, sample_weight=weights)
        learners = {"mu": [*both, bols(4)], "sigma": [both[0], bols(5)]}
        family = distributions.Gaussian(update)
        model = BoostedDistribution(learners, family=family, **options)
        return model.fit(X, y, sample_weight=weights)

    def label(parameter: str, name: str) -> str:
        return name if update == "joint" else f"{parameter}: {name}"

    model, q = fitted(w), 1 if update == "joint" else 3
    names = [label("mu", name) for name in model.names_ if name != "bols(5)"]
    if update != "joint":
        names += [label("sigma", model.names_[0]), label("sigma", "bols(5)")]
    found = stability_selection(
        model, q=q, cutoff=0.9, sampling=sampling, subsamples=halves
    )
    assert found.names == names
    all_halves = np.hstack([halves, 1 - halves]) if sampling == "SS" else halves
    expected = np.zeros((26, len(names)))
    for half in all_halves.T:
        fit = fitted(half * w)
        chosen = []
        for step in fit.selected_.T:
            (p, *_) = np.flatnonzero(step >= 0)
            chosen.append(label(("mu", "sigma", "")[p], fit.names_[step[p]]))
        for name in list(dict.fromkeys(chosen))[:q]:
            expected[chosen.index(name) + 1 :, names.index(name)] += 1
    np.testing.assert_allclose(found.paths, expected / all_halves.shape[1], rtol=1e-14)


@pytest.mark.parametrize("seed", range(3))
def test_halves_are_of_the_rows_of_x(seed: int) -> None:
    X, y = example(40)
    rng = np.random.default_rng(seed)
    places = np.sort(rng.choice(60, 40, replace=False))
    halves = (rng.random((60, 3)) < 0.5) * 1.0
    X_, y_, w = np.zeros((60, 6)), np.zeros(60), np.zeros(60)
    X_[places], y_[places], w[places] = X, y, 1
    found, expected = (
        stability_selection(
            BoostedGAM(LEARNERS, max_iter=30).fit(X, y, sample_weight=w),
            q=2,
            cutoff=0.9,
            subsamples=some,
        )
        for X, y, w, some in ((X_, y_, w, halves), (X, y, None, halves[places]))
    )
    np.testing.assert_array_equal(found.paths, expected.paths)


def test_a_classifier_of_two_classes_is_a_binomial_model() -> None:
    X, y = example(200)
    high = y > y.mean()
    numbers = {"q": 2, "pfer": 1.0, "B": 5, "random_state": 0}
    model = BoostedGAMClassifier(LEARNERS).fit(X, np.where(high, "b", "a"))
    found = stability_selection(model, **numbers)
    regressor = BoostedGAM(LEARNERS, family="binomial").fit(X, 1.0 * high)
    np.testing.assert_array_equal(
        found.paths, stability_selection(regressor, **numbers).paths
    )
    assert found.support[1]


# ---- probabilities -------------------------------------------------------------------


def test_only_the_first_different_learners_count() -> None:
    selected = np.array([[3, 3, 0, 1, 2], [1, 0, 1, 3, 3]])
    assert first_steps(selected, 5).tolist() == [[3, 4, 5, 1, 6], [2, 1, 6, 4, 6]]
    found = probabilities(selected, 5, q=2)
    assert found[-1].tolist() == [1.0, 0.5, 0.0, 0.5, 0.0]
    assert found[2].tolist() == [0.5, 0.5, 0.0, 0.5, 0.0]


def test_fits_that_select_too_few_learners_are_warned_of() -> None:
    selected = np.array([[3, 3, 0], [1, 1, 1]])
    with pytest.warns(UserWarning, match="1 of 2 fits selected fewer than q = 2"):
        found = probabilities(selected, 4, q=2)
    assert found[-1].tolist() == [0.5, 0.5, 0.0, 0.5]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        probabilities(selected, 4, q=1)


# ---- the result ----------------------------------------------------------------------


def result() -> StabilitySelection:
    paths = np.array([[0.0, 0.0, 0.0], [0.5, 0.0, 0.1], [0.7, 0.2, 0.69]])
    return StabilitySelection(["a", "b", "c"], paths, 2, 0.7, 1.0)


def test_learners_at_the_cutoff_are_selected() -> None:
    assert result().selected == ["a"]
    assert "1 of 3 learners selected: a; q=2, cutoff=0.7, pfer=1" in repr(result())


def test_the_plot_has_every_path_and_the_cutoff() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    paths, bars = result().plot().axes
    drawn = [line.get_ydata() for line in paths.get_lines()]
    np.testing.assert_allclose(drawn[:3], result().paths.T)
    assert list(drawn[3]) == [0.7, 0.7]
    assert [label.get_text() for label in bars.get_yticklabels()] == ["a", "c", "b"]
    assert [bar.get_width() for bar in bars.patches] == [0.7, 0.69, 0.2]
