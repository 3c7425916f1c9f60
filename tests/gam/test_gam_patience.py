"""What the default settings choose: iterations, degrees of freedom, learners, pairs."""

from __future__ import annotations

import re
from functools import partialmethod
from itertools import chain, repeat
from typing import Any

import numpy as np
import pytest
import tqdm
from scipy.special import ndtri
from scipy.stats import rankdata
from sklearn.model_selection import GroupKFold, KFold
from together import together

from gpusolve.gam import (
    BoostedGAM,
    BoostedGAMClassifier,
    bbs,
    cv_stop,
    gamboost,
    survival_times,
)

# The rules by which risks are compared, whose inputs no data set gives exactly.
from gpusolve.gam._boosting import patience
from gpusolve.gam._boosting.folds import Folds, deal_folds
from gpusolve.gam._boosting.path import Path
from gpusolve.gam._boosting.patience import ALIKE, OTHER, RICHER, SLOWER
from gpusolve.gam._model.specification import Plan, plans

Data = tuple[Any, Any]

SPLINES = [bbs(j, df=4, boundary=(0.0, 1.0)) for j in range(3)]


@pytest.fixture(scope="module")
def data() -> Data:
    rng = np.random.default_rng(0)
    X = rng.random((120, 3))
    return X, np.sin(6 * X[:, 0]) + 0.3 * rng.standard_normal(120)


# ---- the rule ------------------------------------------------------------------------


CURVES = [
    ([3.0, 2.0, 2.5, 1.0], 2, 100, 0.0, 5),
    ([5.0, 4.0, 3.0, 2.0, 1.0, 2.0], 1, 100, 0.0, 6),  # 4 steps led to the least risk
    ([2.0, 1.0, 1.0, 1.0], 2, 100, 0.0, 3),  # the first of equal risks
    ([3.0, 2.0, 1.0], 50, 2, 0.0, 2),  # no more steps are allowed
    ([1.0], 50, 0, 0.0, 0),
    ([3.0, 2.0, 1.5, 1.25], 2, 100, 0.7, 5),  # small gains add up
    ([3.0, np.nan, 2.0], 2, 100, 0.1, 4),
    ([3.0, 2.0, 1.0], 2, 100, np.nan, 2),
]
"""More of them are the examples of `Patience.end`."""


@together(("risk", "waiting", "steps", "least_gain", "end"), CURVES)
def test_steps_end_after_half_as_many_steps_as_led_to_the_last_gain(
    risk: list[float], waiting: int, steps: int, least_gain: float, end: int
) -> None:
    rule = patience.Patience(steps, waiting)
    assert rule.end(np.array(risk), least_gain) == end


def test_gains_within_the_noise_end_the_steps() -> None:
    """Splines approximate a jump a little better in each of thousands of steps."""
    rng = np.random.default_rng(0)
    X = rng.random((3000, 1))
    y = (X[:, 0] > 0.5) + 0.1 * rng.standard_normal(3000)
    folds = KFold(3, shuffle=True, random_state=0)
    found = BoostedGAM(df=48, cv=folds).fit(X, y)
    steps = len(found.validation_risk_) - 1
    longer = cv_stop(found, folds, max_iter=3 * steps).mean
    assert longer.argmin() > steps
    assert found.validation_risk_.min() < 1.05 * longer.min()


def test_steps_of_many_rows_are_chosen_from_a_sample(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = data
    monkeypatch.setattr(patience, "SAMPLE", 60)
    rows = patience.sampled(y, BoostedGAM().random_state)
    pairs = np.sort(np.searchsorted(np.sort(y), y[rows])).reshape(-1)
    np.testing.assert_array_equal(pairs // 2, np.arange(60))  # one of two neighbours
    model = BoostedGAM(SPLINES).fit(X, y)
    of_sample = BoostedGAM(SPLINES).fit(X[rows], y[rows])
    np.testing.assert_allclose(model.validation_risk_, of_sample.validation_risk_)
    whole = BoostedGAM(SPLINES, max_iter=of_sample.n_iter_).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))


def test_many_rows_are_held_out_once() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((20_500, 1))
    y = np.sin(6 * X[:, 0]) + 0.3 * rng.standard_normal(20_500)
    options: Any = {"validation_fraction": 0.25, "df": 4, "learning_rate": 0.7}
    model = BoostedGAM(max_iter="auto", **options).fit(X, y)
    held = BoostedGAM(early_stopping=True, **options).fit(X, y)
    np.testing.assert_allclose(model.validation_risk_, held.validation_risk_)
    assert model.n_iter_ == held.n_iter_
    full = BoostedGAM(max_iter=model.n_iter_, **options).fit(X, y)
    np.testing.assert_allclose(model.risk_, full.risk_, rtol=1e-9)


def test_one_bar_counts_all_steps_that_choose(
    data: Data, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each count is written, however fast the steps are."""
    written = partialmethod(tqdm.tqdm.__init__, mininterval=0)
    monkeypatch.setattr(tqdm.tqdm, "__init__", written)
    model = BoostedGAM(progress=True).fit(*data)
    shown = re.findall(
        r"choosing iterations: (\d+)step", said := capsys.readouterr().err
    )
    assert "0" == shown[0] != shown[-1]
    assert int(shown[-1]) <= 6 * len(model.validation_risk_)
    begins = re.findall(r"(\w+): +0(?:step|%)", said)
    assert list(dict.fromkeys(begins)) == ["iterations", "boosting"]
    assert said.index("boosting") > said.rindex("iterations")


# ---- the number of iterations --------------------------------------------------------


@together("kind", ["gaussian", "poisson", "laplace", "classes", "groups"])
def test_auto_is_the_best_iteration_of_cv_stop(data: Data, kind: str) -> None:
    X, y = data
    folds: Any = KFold(4, shuffle=True, random_state=1)
    options: Any = {"df": 4, "learning_rate": 0.7}
    model: Any = BoostedGAM(family="gaussian" if kind == "groups" else kind, **options)
    if kind == "poisson":
        y = np.rint(np.exp(y))
    elif kind == "classes":
        model, y = BoostedGAMClassifier(**options), np.digitize(y, [-0.5, 0.5])
    elif kind == "groups":
        folds = list(GroupKFold(3).split(X, y, np.arange(120) // 10))
    model.set_params(cv=folds, max_iter="auto").fit(X, y)
    steps = len(model.validation_risk_) - 1
    expected = cv_stop(model, folds, max_iter=steps)
    assert model.n_iter_ == expected.best_iteration
    np.testing.assert_allclose(model.validation_risk_, expected.mean, rtol=1e-9)
    assert model.n_iter_ <= steps <= model.n_iter_ + max(20, model.n_iter_ // 2)


@together(("place", "counts"), [(0.5, True), (1.5, True), (3.0, False)])
def test_a_row_far_outside_does_not_count(
    data: Data, place: float, counts: bool
) -> None:
    """It is left out of every fold; the range of the other rows is from 0 to 1."""
    X, y = (array.copy() for array in data)
    X[0, 1] = place
    pairs = [(np.arange(k, 120, 2), np.r_[0, np.arange(3 - k, 120, 2)]) for k in (1, 2)]
    risks = []
    for value in (0.0, 50.0):
        y[0] = value
        model = BoostedGAM(cv=pairs, df=4, max_iter="auto").fit(X, y)
        risks.append(model.validation_risk_)
    same = len(risks[0]) == len(risks[1]) and np.array_equal(*risks)
    assert same != counts


def test_rows_far_outside_count_if_few_others_are_left_out() -> None:
    weights = np.array([[0.0, 0, 1, 1], [1, 1, 0, 0]])
    folds = Folds(weights, 1 - weights)
    rows = np.array([True, False, True, True])
    np.testing.assert_array_equal(folds.counting(rows).out_of_bag, (1 - weights) * rows)
    assert folds.counting(np.array([False, False, True, True])) is folds


def test_equal_calls_choose_equal_numbers_whatever_has_no_weight(data: Data) -> None:
    X, y = data
    w = np.repeat([1.0, 0.0], 60)
    weighted = BoostedGAM().fit(X, np.where(w > 0, y, 1e6), sample_weight=w)
    first, second, other = (
        BoostedGAM(random_state=seed).fit(X[:60], y[:60]) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.risk_, second.risk_)
    assert not np.array_equal(first.validation_risk_, other.validation_risk_)
    np.testing.assert_allclose(
        weighted.validation_risk_, first.validation_risk_, rtol=1e-6
    )


@together("rows", [1, 2, 3, 10])
def test_a_few_rows_are_left_out_one_by_one(data: Data, rows: int) -> None:
    X, y = (some[:rows] for some in data)
    model = BoostedGAM(cv=20).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    if rows == 1:
        assert model.n_iter_ == 0
    elif rows == 10:
        alone = [(np.delete(np.arange(rows), k), [k]) for k in range(rows)]
        steps = len(model.validation_risk_) - 1
        expected = cv_stop(model, alone, max_iter=steps).mean
        np.testing.assert_allclose(model.validation_risk_, expected, rtol=1e-7)


def test_data_without_a_choice(data: Data) -> None:
    """Losses of an adaptive Huber are not compared; a constant needs no iteration."""
    X, y = data
    assert BoostedGAM(family="huber").fit(X, y).n_iter_ == 100
    assert BoostedGAM().fit(X, np.full(120, 3.0)).n_iter_ == 0
    model = BoostedGAMClassifier().fit(X, np.arange(120) == 7)  # missing from folds
    assert np.isfinite(model.predict_proba(X)).all()
    model = gamboost("y ~ x", {"x": X[:, 0], "y": y})
    assert (model.n_iter_, model.learning_rate, model.outside) == (100, 0.1, "linear")


# ---- folds that say nothing ----------------------------------------------------------


def test_default_folds_without_an_event_do_not_count() -> None:
    rng = np.random.default_rng(0)
    X, event = rng.random((40, 2)), np.arange(40) < 3
    y = survival_times(rng.exponential(size=40), event)
    model = BoostedGAM(family="coxph").fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert (np.diff(model.validation_risk_) != 0).all()


# ---- degrees of freedom, learners and pairs ------------------------------------------


def waves(periods: int) -> Data:
    """A column and a wave with noise."""
    rng = np.random.default_rng(0)
    x = rng.random(400)
    y = np.sin(2 * np.pi * periods * x) + 0.5 * rng.standard_normal(400)
    return x[:, None], y


def test_the_number_of_pairs_is_chosen_by_folds() -> None:
    X = np.random.default_rng(5).random((600, 3))
    noise = 0.3 * np.random.default_rng(6).standard_normal(600)
    joint = 8 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5)
    for effect, pairs in ((joint, [(0, 1)]), (0, [])):
        model = BoostedGAM(interactions="auto").fit(X, effect + X[:, 2] + noise)
        assert model.interactions_ == pairs


def test_degrees_of_freedom_follow_the_data() -> None:
    folds = KFold(4, shuffle=True, random_state=1)
    for periods, expected in ((1, 6), (12, 24)):
        X, y = waves(periods)
        model = BoostedGAM(cv=folds).fit(X, y)
        (term,) = model.terms_
        assert (term.df, term.functions) == (expected, 4 * expected)
        steps = len(model.validation_risk_) - 1
        given = BoostedGAM(df=expected, max_iter=model.n_iter_).fit(X, y)
        np.testing.assert_allclose(model.predict(X), given.predict(X), rtol=1e-9)
        own = cv_stop(given, folds, max_iter=steps)
        np.testing.assert_allclose(model.validation_risk_, own.mean, rtol=1e-9)
        fewest = cv_stop(BoostedGAM(df=6, max_iter=1).fit(X, y), folds, max_iter=200)
        assert own.mean.min() <= fewest.mean.min() * (1 + 1e-9)


@together("options", [{"n_basis": 23}, {"max_iter": 20}, {"early_stopping": True}])
def test_degrees_of_freedom_are_not_chosen(options: dict[str, Any]) -> None:
    model = BoostedGAM(cv=2, learning_rate=1, **options).fit(*waves(6))
    assert model.terms_[0].df == 6


BETTER, UNCLEAR, WORSE = patience.Verdict


def tried_by(verdicts: str, rows: float = 1e4, **options: Any) -> list[Plan]:
    """The plans that are tried if the verdicts are these, then `WORSE`; the best."""
    search, tried = plans(BoostedGAM(**options), rows), []
    known = {"b": BETTER, "u": UNCLEAR, "w": WORSE}
    given = chain([None, None], map(known.get, verdicts), repeat(WORSE))
    try:
        while True:
            tried.append(search.send(next(given))[0])
    except StopIteration as end:
        tried.append(end.value)
    return tried


PLAIN, FULL, SCORES = Plan(6), Plan(6, full_range=True), Plan(6, scores=True)
STUMPS, ALONE = Plan(6, stumps=True), Plan(6, stumps=True, splines=False)
WIDE = [PLAIN, FULL, SCORES, Plan(12), Plan(24)]
LATE = [*WIDE, STUMPS, Plan(12, stumps=True)]
MOST, BOTH = [*WIDE, Plan(48)], Plan(6, full_range=True, stumps=True)


@together(
    ("verdicts", "expected"),
    [
        ("www", [PLAIN, FULL, SCORES, Plan(12), STUMPS, STUMPS, PLAIN]),
        ("b", [PLAIN, FULL, Plan(6, True, True), Plan(12, True), BOTH, BOTH, FULL]),
        ("wwb", [*LATE, Plan(12)]),
        ("wwuu", [*WIDE, STUMPS, STUMPS, PLAIN]),  # twice in doubt
        ("wwbwwb", [*LATE, Plan(12, stumps=True)]),
        ("wwbwb", [*LATE, STUMPS]),
        # Stumps race with the most degrees of freedom, and their winner is the best.
        ("wwbbbbb", [*MOST, ALONE, STUMPS, STUMPS]),
        ("wwbbbbw", [*MOST, ALONE, STUMPS, ALONE]),
        ("wwbbbwb", [*MOST, ALONE, STUMPS, STUMPS]),
    ],
)
def test_a_search_follows_the_verdicts(verdicts: str, expected: list[Plan]) -> None:
    assert tried_by(verdicts) == expected


def test_degrees_of_freedom_are_limited_by_rows_and_functions() -> None:
    for options, rows, expected in (
        ({}, 10_000, [6, 12, 24, 48]),
        ({}, 191, [6, 12, 24]),
        ({}, 47, [6]),
        ({"n_basis": 95}, 10_000, [6, 12, 24]),
        ({"penalty": None}, 10_000, [6]),
        ({"df": 6}, 10_000, [6]),
    ):
        tried = tried_by("wwbbb", rows, **options)
        simple = [plan.df for plan in tried[:-1] if plan == Plan(plan.df)]
        assert simple == expected


class KnownCourse(patience.Course):
    """Losses of two folds that are known before, `spread` apart."""

    def __init__(self, risk: Any, spread: float) -> None:
        self.known, self.made = np.array(risk), 0
        self.run(0)
        losses = self.known + spread * np.array([[-0.5], [0.5]])
        empty = np.zeros((2, 0))
        self.path = Path(0.0, empty, empty, empty, "stacked", out_of_bag=losses)

    def run(self, most: int) -> None:
        self.made = max(most, self.made)
        self.risk = self.known[: self.made + 1]


def decreasing(fast: float, least: float) -> Any:
    """A risk that decreases from 1 to `least`."""
    return least + (1 - least) * np.exp(-np.arange(401) / fast)


SLOW = decreasing(40.0, 0.2)
LATER = np.where(np.arange(401) < 30, SLOW + 0.01, 0.1)
RACES = [
    (SLOW, 0.0, RICHER, 20, UNCLEAR),
    (LATER, 0.0, RICHER, 20, WORSE),  # behind after 20 steps
    (SLOW - 0.01, 0.03, RICHER, 20, UNCLEAR),  # within the error
    (decreasing(40.0, 0.19), 0.03, ALIKE, 320, BETTER),  # lower is enough
    (decreasing(5.0, 0.1), 0.0, RICHER, 20, BETTER),
    (decreasing(36.0, 0.21), 0.0, RICHER, 160, WORSE),  # it is overtaken
    (decreasing(36.0, 0.19), 0.0, RICHER, 320, BETTER),  # it is not
    (LATER, 0.0, OTHER, 40, BETTER),  # it may be behind at first
    (decreasing(60.0, 0.25), 0.0, OTHER, 40, WORSE),
    (decreasing(150.0, 0.05), 0.0, OTHER, 20, WORSE),
    (decreasing(150.0, 0.05), 0.0, SLOWER, 320, BETTER),  # it catches up
    (decreasing(150.0, 0.8), 0.0, SLOWER, 20, WORSE),  # it cannot
]
"""A risk and the spread of its folds, and how it compares with `SLOW` after steps."""


@together(("other", "spread", "kind", "steps", "verdict"), RACES)
def test_courses_are_compared_until_the_slower_cannot_catch_up(
    other: Any, spread: float, kind: Any, steps: int, verdict: Any
) -> None:
    folds = Folds(np.ones((2, 1)), np.ones((2, 1)))
    courses = KnownCourse(other, spread), KnownCourse(SLOW, 0.0)
    assert patience.compare(*courses, folds, kind=kind) is verdict
    assert [course.made for course in courses] == [steps, steps]
    ahead = KnownCourse(LATER, 0.0)
    ahead.run(40)  # a lead after 20 steps is none over what it has reached
    first = KnownCourse(decreasing(5.0, 0.15), 0.0)
    assert patience.compare(first, ahead, folds, kind=SLOWER) is WORSE
    assert patience.is_lower(np.zeros(1), np.ones(1))  # of a single fold


# ---- the folds and the range ---------------------------------------------------------


@together("count", [2, 5])
def test_folds_have_nearly_the_same_distribution(count: int) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 103)
    fold = deal_folds(y, count, rng)
    sizes = np.bincount(fold, minlength=count)
    assert sizes.max() - sizes.min() <= 1
    below = [[(y[fold == k] <= v).sum() for k in range(count)] for v in range(3)]
    assert np.ptp(below, axis=1).max() <= 1


def test_more_rows_have_fewer_folds() -> None:
    """A row of a function of x is left out in one fold of each repetition."""

    def counts(rows: int) -> int:
        X = np.arange(float(rows))[:, None]
        model = BoostedGAM([bbs(0, df=4)], max_iter="auto", callback=None).fit(
            X, X[:, 0]
        )
        training, _ = model._data
        return len(patience.folds_for(training, None, 0.1, 0).weights)

    assert [*map(counts, (3, 8, 20, 300, 999, 1000))] == [15, 25, 25, 20, 10, 3]


def test_an_outlier_moves_neither_knots_nor_predictions() -> None:
    rng = np.random.default_rng(0)
    x = np.append(rng.random(999), 50.0)
    y = np.sin(6 * np.minimum(x, 1)) + 0.1 * rng.standard_normal(1000)
    model = BoostedGAM().fit(x[:, None], y)
    ((lower, upper),) = model.terms_[0].ends
    assert upper < 1.2
    clipped = BoostedGAM(
        {0: bbs(df=6, boundary=(lower, upper))}, max_iter=model.n_iter_
    )
    clipped.fit(np.clip(x, lower, upper)[:, None], y)
    found = model.predict([[0.5], [50.0], [1e9]])
    expected = clipped.predict([[0.5], [upper], [upper]])
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    for x, ends in (
        (np.arange(101.0), (0.0, 100.0)),
        (np.append(np.zeros(999), 1.0), (0.0, 1.0)),
        (np.append(np.arange(1000.0), 1e9), (0.0, 1088.0)),
    ):
        model = BoostedGAM({0: bbs(boundary="robust")}, max_iter=1).fit(x[:, None], x)
        assert model.terms_[0].ends == (ends,)


RNG = np.random.default_rng(0)
SKEWED = np.exp(2.5 * RNG.standard_normal((1200, 1)))
UNIFORM, FEW = RNG.random((1500, 2)), np.random.default_rng(3).random((1000, 2))

SHAPES: dict[str, tuple[Any, Any, float, str, float]] = {
    "scores": (SKEWED, np.sin(0.8 * np.log(SKEWED[:, 0])), 0.3, ", of normal sc", 0.5),
    "a jump": (UNIFORM, (UNIFORM[:, 0] > 0.4) + UNIFORM[:, 1], 0.3, "with stumps", 0.7),
    "jumps": (FEW, (np.floor(8 * FEW) % 2).sum(axis=1), 0.2, "stumps", 0.5),
}
"""Features, effect, noise, the end of the summary's line, and the share of the error of
splines that is left."""


@pytest.mark.parametrize("shape", SHAPES)
def test_the_default_learners_follow_the_shape(shape: str) -> None:
    """Root mean square errors of the effect without noise."""
    X, truth, noise, learners, share = SHAPES[shape]
    y = truth + noise * np.random.default_rng(1).standard_normal(len(X))
    model = BoostedGAM(learning_rate=1 if shape == "jumps" else 0.3).fit(X, y)
    splines = BoostedGAM(
        {j: bbs(df=6, boundary="robust") for j in range(X.shape[1])}, max_iter=300
    )
    splines.fit(X, y)
    assert learners in model.summary().facts["learners"]
    assert (model.summary().facts["learners"] == "stumps") == (shape == "jumps")
    error, other = (np.linalg.norm(m.predict(X) - truth) for m in (model, splines))
    assert error < share * other


def test_a_model_of_normal_scores_is_the_model_of_the_scores() -> None:
    x = np.random.default_rng(4).integers(0, 40, 300) ** 2.0
    y = np.sqrt(x) + np.sin(x)
    scores = ndtri((rankdata(x) - 0.5) / len(x))
    given = BoostedGAM([bbs("x")], max_iter=50).fit({"x": scores}, y)
    found = BoostedGAM([bbs("x", normal_scores=True)], max_iter=50).fit({"x": x}, y)
    np.testing.assert_allclose(found.risk_, given.risk_, rtol=1e-9)
    beyond = found.predict({"x": np.array([-1e9, 1e9])})
    ends = found.predict({"x": np.array([x.min(), x.max()])})
    np.testing.assert_array_equal(beyond, ends)
