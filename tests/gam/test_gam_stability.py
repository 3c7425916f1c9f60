"""Stability selection: halves of the data, probabilities, the selected learners."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from together import together

from gpusolve.gam import (
    BoostedDistribution,
    BoostedGAM,
    BoostedGAMClassifier,
    StabilitySelection,
    bbs,
    bols,
    distributions,
    stability_selection,
)
from gpusolve.gam._model.stability_bounds import (  # bounds for any number of learners
    complete,
    cutoff_of,
    largest_tail,
    pfer_of,
    q_of,
    steps_of,
)
from gpusolve.gam.stability import first_steps, probabilities


def example(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Six covariates, of which two matter."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 6))
    return X, 3 * np.sin(6 * X[:, 1]) + 2 * X[:, 4] + 0.5 * rng.standard_normal(n)


LEARNERS = [bbs(j, knots=5) if j < 4 else bols(j) for j in range(6)]


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


@pytest.mark.parametrize("update", ["single", "noncyclic", "cyclic", "joint"])
@pytest.mark.parametrize("sampling", ["SS", "MB"])
def test_each_fit_is_that_of_the_rows_of_a_half(update: Any, sampling: Any) -> None:
    """By separate fits to the halves, whose steps say parameter and learner.

    All rows give the knots: so rows outside get the weight 0. The halves are of the
    rows of X, also of rows without weight.
    """
    X, y = example(50)
    w = np.random.default_rng(1).integers(0, 4, 50) * 1.0
    halves = (np.random.default_rng(2).random((50, 3)) < 0.5) * 1.0
    lower, upper = X.min(axis=0), X.max(axis=0)
    both = [bbs(j, boundary=(lower[j], upper[j])) for j in range(3)]
    labels = np.digitize(y, np.quantile(y, [0.3, 0.7]))

    def fitted(weights: np.ndarray) -> Any:
        options: dict[str, Any] = {"max_iter": 25}
        if update == "single":
            model = BoostedGAM([*both, bols(4)], **options)
            return model.fit(X, y, sample_weight=weights)
        if update == "joint":
            model = BoostedGAMClassifier(both, family="multinomial", **options)
            return model.fit(X, labels, sample_weight=weights)
        learners = {"mu": [*both, bols(4)], "sigma": [both[0], bols(5)]}
        family = distributions.Gaussian(update)
        model = BoostedDistribution(learners, family=family, **options)
        return model.fit(X, y, sample_weight=weights)

    def label(parameter: str, name: str) -> str:
        return name if is_one else f"{parameter}: {name}"

    is_one = update in ("single", "joint")
    model, q = fitted(w), {"joint": 1, "single": 2}.get(update, 3)
    names = [label("mu", name) for name in model.names_ if name != "bols(5)"]
    if not is_one:
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
        for step in np.atleast_2d(fit.selected_).T:
            (p, *_) = np.flatnonzero(step >= 0)
            chosen.append(label(("mu", "sigma", "")[p], fit.names_[step[p]]))
        for name in list(dict.fromkeys(chosen))[:q]:
            expected[chosen.index(name) + 1 :, names.index(name)] += 1
    np.testing.assert_allclose(found.paths, expected / all_halves.shape[1], rtol=1e-14)


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


# ---- bounds --------------------------------------------------------------------------

FIGURES = json.loads(
    (Path(__file__).parents[1] / "mboost/mixed_stabsel.json").read_text()
)
B = FIGURES["B"]
CUTOFFS = FIGURES["cutoff_table"]["rows"]
QS = FIGURES["q_table"]["rows"]


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_cutoffs_and_bounds_of_mboost(every: int) -> None:
    for p, q, pfer, assumption, cutoff, bound in CUTOFFS[::every]:
        found = cutoff_of(q, pfer, p, B, assumption)
        if cutoff is None:  # mboost stops with an error
            assert math.isinf(pfer_of(found, q, p, B, assumption))
        else:
            assert found == pytest.approx(cutoff, rel=1e-14)
            assert f"{pfer_of(found, q, p, B, assumption):.3g}" == f"{bound:.3g}"


@together(("p", "cutoff", "pfer", "assumption", "q"), QS)
def test_numbers_of_learners_of_mboost(
    p: int, cutoff: float, pfer: float, assumption: str, q: int
) -> None:
    assert q_of(cutoff, pfer, p, B, assumption) == q


def test_no_tail_is_claimed_within_the_range_of_a_uniform_distribution() -> None:
    assert largest_tail(2.0, 4, 12, -1 / 2) == 1.0
    assert largest_tail(2.2, 5, 12, -1 / 2) == 1.0
    assert largest_tail(2.0, 5, 12, -1 / 2) < 0.5


def test_a_cutoff_is_reached_by_the_least_count_up_to_rounding() -> None:
    for count in range(50, 101):
        assert steps_of(count / 100, 50) == count
        assert steps_of(0.5 + (count - 50) * 0.01, 50) == count
    assert steps_of(0.551, 50) == 56


@together("assumption", ["unimodal", "r-concave", "none"])
def test_two_numbers_give_the_third(assumption: str) -> None:
    for q in (2, 7):
        setting = complete(40, 50, assumption, q=q, pfer=1.5)
        assert setting.pfer <= 1.5 * (1 + 1e-12)
        assert setting == complete(40, 50, assumption, q=q, cutoff=setting.cutoff)
        largest = complete(40, 50, assumption, cutoff=setting.cutoff, pfer=1.5)
        assert largest.q >= q
        assert largest.pfer <= 1.5 * (1 + 1e-12)
