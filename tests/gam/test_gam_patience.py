"""The number of iterations that the estimators choose."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut
from together import together

from gpusolve.gam import (
    BoostedDistribution,
    BoostedGAM,
    BoostedGAMClassifier,
    bbs,
    cv_stop,
    families,
    gamboost,
)
from gpusolve.gam._boosting import patience
from gpusolve.gam._boosting.batch import make_fits
from gpusolve.gam._boosting.folds import (
    Folds,
    deal_folds,
    fits_of_folds,
    make_folds,
)
from gpusolve.gam._boosting.path import Path
from gpusolve.gam._boosting.patience import (
    Course,
    Kind,
    Patience,
    Verdict,
    compare,
    folds_for,
    is_lower,
    standard_error,
)
from gpusolve.gam._boosting.stacked import boost_family
from gpusolve.gam._model.specification import Plan, plans

Data = tuple[Any, Any]


@pytest.fixture(scope="module")
def data() -> Data:
    rng = np.random.default_rng(0)
    X = rng.random((120, 3))
    return X, np.sin(6 * X[:, 0]) + 0.3 * rng.standard_normal(120)


def test_a_density_ends_at_the_rounding_of_the_response() -> None:
    """y is a function of x: the likelihood has no bound, and sigma is soon 0."""
    x = np.repeat([3.0, 1.0, 3.0, 1.0], 4)
    y = np.where(x == 3, 1.0, 2.0)
    finest = np.log(np.finfo(float).eps * 2)
    for w in (np.ones(16), np.r_[10.0, np.ones(15)]):
        for X in (x[:, None], np.c_[x, np.repeat([1, 2, 3, 4], 4)]):
            model = BoostedDistribution().fit(X, y, sample_weight=w)
            assert finest - 2 < model.risk_[-1] / w.sum() < finest / 2


# ---- the rule ------------------------------------------------------------------------

CURVES = [
    ([3.0, 2.0, 2.5, 2.4], 2, 100, 0.0, 3),
    ([3.0, 2.0, 2.5, 2.4, 1.0], 2, 100, 0.0, 3),  # too late
    ([3.0, 2.0, 2.5, 1.0], 2, 100, 0.0, 5),
    ([1.0, 2.0, 3.0], 2, 100, 0.0, 2),
    ([5.0, 4.0, 3.0, 2.0, 1.0, 2.0], 1, 100, 0.0, 6),  # 4 steps led to the least risk
    ([2.0, 1.0, 1.0, 1.0], 2, 100, 0.0, 3),  # the first of equal risks
    ([3.0, 2.0, 1.0], 50, 2, 0.0, 2),  # no more steps are allowed
    ([1.0], 50, 0, 0.0, 0),
    ([3.0, 2.0, 1.8, 1.6], 2, 100, 0.5, 3),  # later gains are too small
    ([3.0, 2.0, 1.5, 1.25], 2, 100, 0.7, 5),  # together they are not
    ([3.0, np.nan, 2.0], 2, 100, 0.1, 4),
    ([3.0, 2.0, 1.0], 2, 100, np.nan, 2),
]


@pytest.mark.parametrize(("risk", "waiting", "steps", "least_gain", "end"), CURVES)
def test_steps_end_after_half_as_many_steps_as_led_to_the_last_gain(
    risk: list[float], waiting: int, steps: int, least_gain: float, end: int
) -> None:
    assert Patience(steps, waiting).end(np.array(risk), least_gain) == end


def folds_with_repeats(rows: int) -> list[tuple[Any, Any]]:
    """Pairs of rows; some rows are left out twice, and some never."""
    held_out = [np.arange(k, rows - 9, 3) for k in range(3)] + [np.arange(0, 30)]
    return [(np.setdiff1d(np.arange(rows), some), some) for some in held_out]


KINDS: dict[str, tuple[Any, Any, Any]] = {
    "gaussian": (BoostedGAM, lambda y: y, lambda y, m: (y - m) ** 2),
    "poisson": (
        BoostedGAM,
        lambda y: np.rint(np.exp(y)),
        lambda y, m: m - y * np.log(m),
    ),
    "binomial": (
        BoostedGAMClassifier,
        lambda y: (y > 0) * 1.0,
        lambda y, m: -np.log(np.where(y > 0, m[:, 1], m[:, 0])),
    ),
    "multinomial": (
        BoostedGAMClassifier,
        lambda y: np.digitize(y, [-0.5, 0.5]),
        lambda y, m: -np.log(m[np.arange(len(y)), y]),
    ),
}
"""Estimators, responses, and the losses of predictions, up to a number per row."""


@together("kind", KINDS)
def test_the_standard_error_is_the_error_of_a_mean(data: Data, kind: str) -> None:
    """Of the losses of rows left out, from the predictions of fits of the folds."""
    (estimator, response, loss), X = KINDS[kind], data[0]
    y, steps = response(data[1]), 5
    learners = [bbs(j, df=4, boundary=(0.0, 1.0)) for j in range(3)]
    family = {"family": kind}
    model = estimator(learners, max_iter=steps, **family).fit(X, y)
    training, settings = model._data
    pairs = folds_with_repeats(len(y))
    folds = make_folds(pairs, np.ones(len(y)), y, None, None)
    fits = fits_of_folds(settings, training, folds)
    path = boost_family(fits, steps)
    found = standard_error(fits.after(path), path, len(pairs))
    total, count = np.zeros(len(y)), np.zeros(len(y))
    for rows, left_out in pairs:
        own = estimator(learners, max_iter=steps, **family).fit(X[rows], y[rows])
        predict = own.predict_proba if hasattr(own, "predict_proba") else own.predict
        total[left_out] += loss(y[left_out], predict(X[left_out]))
        count[left_out] += 1
    losses = total / np.maximum(count, 1)
    if kind == "poisson":  # the loss has the logarithm of the factorial, too
        losses += gammaln(y + 1)
    share = count / count.sum()
    expected = np.sqrt((share**2 * (losses - share @ losses) ** 2).sum())
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_gains_within_the_noise_end_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Splines approximate a jump a little better in each of 10,000 steps."""
    rng = np.random.default_rng(0)
    X = rng.random((4000, 2))
    y = (X[:, 0] > 0.5) + 0.1 * rng.standard_normal(4000)
    monkeypatch.setattr(patience, "MOST_ROWS", 1000)
    found = BoostedGAM(df=48).fit(X, y)
    monkeypatch.setattr(patience, "NOISE", 0.0)
    exact = BoostedGAM(df=48).fit(X, y)
    made = [len(model.validation_risk_) for model in (found, exact)]
    assert 2 * made[0] < made[1]
    risks = [model.validation_risk_.min() for model in (found, exact)]
    assert risks[0] < 1.05 * risks[1]


def test_steps_of_many_rows_are_chosen_from_a_sample(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = data
    learners = [bbs(j, df=4, boundary=(0.0, 1.0)) for j in range(3)]
    monkeypatch.setattr(patience, "SAMPLE", 60)
    rows = patience.sampled(y, BoostedGAM().random_state)
    assert len(rows) == 60
    assert (np.diff(np.sort(rows)) > 0).all()
    pairs = np.sort(np.searchsorted(np.sort(y), y[rows])).reshape(-1)
    np.testing.assert_array_equal(pairs // 2, np.arange(60))  # one of two neighbours
    model = BoostedGAM(learners).fit(X, y)
    of_sample = BoostedGAM(learners).fit(X[rows], y[rows])
    np.testing.assert_allclose(model.validation_risk_, of_sample.validation_risk_)
    whole = BoostedGAM(learners, max_iter=of_sample.n_iter_).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    given = BoostedGAM(learners, cv=list(KFold(3).split(X))).fit(X, y)
    assert len(given._data[0].y) == 120  # and the given folds have all rows


@together("early_stopping", [False, True])
def test_one_bar_counts_all_steps_that_choose(
    data: Data, early_stopping: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Bar:
        steps = 0

        def update(self, steps: int) -> None:
            self.steps += steps

    bars = []

    def bar(*given: Any, shown: bool | None) -> Any:
        assert shown is None
        bars.append(Bar())
        return contextlib.nullcontext(bars[-1])

    monkeypatch.setattr(patience, "progress_bar", bar)
    model = BoostedGAM(df=4, early_stopping=early_stopping, max_iter="auto").fit(*data)
    assert [bar.steps for bar in bars] == [len(model.validation_risk_) - 1]


def test_a_risk_that_is_not_a_number_ends_no_steps(data: Data) -> None:
    model = BoostedGAM(max_iter=1).fit(*data)
    training, settings = model._data
    fits = make_fits(settings, training, None, np.ones(120))

    def losses(risks: Any) -> Any:
        return np.where(np.arange(risks.shape[1]) == 3, np.nan, risks[0])

    path = Course(fits, losses, Patience(steps=30, waiting=2)).stopped().path
    assert len(path) == 30  # the risk of the rows in the fit always decreases


# ---- the number of iterations --------------------------------------------------------


def test_auto_is_the_best_iteration_of_a_loop_of_fits(data: Data) -> None:
    X, y = data
    learners = {j: bbs(df=4, boundary=(0.0, 1.0)) for j in range(3)}
    pairs = list(KFold(3, shuffle=True, random_state=2).split(X))
    model = BoostedGAM(learners, cv=pairs).fit(X, y)
    steps = len(model.validation_risk_) - 1
    losses = []
    for rows, left_out in pairs:
        own = BoostedGAM(learners, max_iter=steps).fit(X[rows], y[rows])
        stages = [np.full(len(left_out), own.intercept_)]
        stages += own.staged_predict(X[left_out])
        losses.append([((y[left_out] - mean) ** 2).mean() for mean in stages])
    risk = np.mean(losses, axis=0)
    np.testing.assert_allclose(model.validation_risk_, risk, rtol=1e-9)
    assert model.n_iter_ == risk.argmin() > 0


@pytest.mark.parametrize("family", ["gaussian", "poisson", "laplace"])
def test_auto_is_the_best_iteration_of_cv_stop(data: Data, family: str) -> None:
    X, y = data
    y = np.rint(np.exp(y)) if family == "poisson" else y
    folds = KFold(4, shuffle=True, random_state=1)
    model = BoostedGAM(family=family, cv=folds).fit(X, y)
    steps = len(model.validation_risk_) - 1
    expected = cv_stop(model, folds, max_iter=steps)
    assert model.n_iter_ == expected.best_iteration
    np.testing.assert_allclose(model.validation_risk_, expected.mean, rtol=1e-9)
    assert model.n_iter_ <= steps <= model.n_iter_ + max(20, model.n_iter_ // 2)
    given = BoostedGAM(family=family, max_iter=model.n_iter_).fit(X, y)
    np.testing.assert_allclose(model.predict(X), given.predict(X), rtol=1e-9)


def test_auto_of_several_classes_is_the_best_iteration_of_cv_stop(data: Data) -> None:
    X, y = data
    folds = KFold(4, shuffle=True, random_state=1)
    model = BoostedGAMClassifier(cv=folds).fit(X, np.digitize(y, [-0.5, 0.5]))
    expected = cv_stop(model, folds, max_iter=len(model.validation_risk_) - 1)
    assert model.n_iter_ == expected.best_iteration > 0


@pytest.mark.parametrize(("place", "counts"), [(0.5, True), (1.5, True), (3.0, False)])
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
        risks.append(BoostedGAM(cv=pairs, max_iter="auto").fit(X, y).validation_risk_)
    same = len(risks[0]) == len(risks[1]) and np.array_equal(*risks)
    assert same != counts


def test_rows_far_outside_count_if_few_others_are_left_out() -> None:
    weights = np.array([[0.0, 0, 1, 1], [1, 1, 0, 0]])
    folds = Folds(weights, 1 - weights)
    rows = np.array([True, False, True, True])
    np.testing.assert_array_equal(folds.counting(rows).out_of_bag, (1 - weights) * rows)
    assert folds.counting(np.array([False, False, True, True])) is folds


def test_folds_of_groups_are_pairs_of_rows(data: Data) -> None:
    X, y = data
    pairs = list(GroupKFold(3).split(X, y, np.arange(120) // 10))
    model = BoostedGAM(cv=pairs).fit(X, y)
    steps = len(model.validation_risk_) - 1
    assert model.n_iter_ == cv_stop(model, pairs, max_iter=steps).best_iteration


def test_equal_calls_choose_equal_numbers(data: Data) -> None:
    first, second = (BoostedGAM().fit(*data) for _ in range(2))
    np.testing.assert_array_equal(first.risk_, second.risk_)
    other = BoostedGAM(random_state=1).fit(*data)
    assert not np.array_equal(first.validation_risk_, other.validation_risk_)


def test_many_rows_are_held_out_once(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpusolve.gam._boosting.patience.MOST_ROWS", 100)
    X, y = data
    model = BoostedGAM(validation_fraction=0.25).fit(X, y)
    held = BoostedGAM(validation_fraction=0.25, early_stopping=True).fit(X, y)
    np.testing.assert_allclose(model.validation_risk_, held.validation_risk_)
    assert model.n_iter_ == held.n_iter_
    full = BoostedGAM(max_iter=model.n_iter_).fit(X, y)
    np.testing.assert_allclose(model.risk_, full.risk_, rtol=1e-9)


def test_rows_of_weight_zero_are_not_left_out(data: Data) -> None:
    X, y = data
    w = np.repeat([1.0, 0.0], 60)
    y = np.where(w > 0, y, 1e6)
    model = BoostedGAM().fit(X, y, sample_weight=w)
    kept = BoostedGAM().fit(X[:60], y[:60])
    np.testing.assert_allclose(model.validation_risk_, kept.validation_risk_, rtol=1e-6)


@pytest.mark.parametrize("rows", [1, 2, 3, 10])
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


def test_losses_of_an_adaptive_huber_are_not_compared(data: Data) -> None:
    assert BoostedGAM(family="huber").fit(*data).n_iter_ == 100


def test_a_constant_response_needs_no_iteration(data: Data) -> None:
    assert BoostedGAM().fit(data[0], np.full(120, 3.0)).n_iter_ == 0


def test_a_class_may_be_missing_from_a_fold(data: Data) -> None:
    X = data[0]
    y = np.arange(120) == 7
    model = BoostedGAMClassifier().fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()


# ---- folds that say nothing ----------------------------------------------------------


def signed_times(rng: Any, rows: int, events: int) -> Any:
    """Times, of which a few have an event."""
    event = rng.permutation(np.arange(rows) < events)
    return families.survival_times(rng.exponential(size=rows), event)


def halves(y: Any) -> Any:
    """All small y in the bag, and all others left out."""
    order = np.argsort(y)
    return [(order[:20], order[20:])]


NO_FOLDS: dict[str, tuple[Any, Any, Any, str]] = {
    "pairs of a row": (
        BoostedGAM(family="coxph"),
        lambda rng: signed_times(rng, 40, 40),
        lambda y: LeaveOneOut(),
        "an event, and a row",
    ),
    "no event left out": (
        BoostedGAM(family="coxph"),
        lambda rng: signed_times(rng, 40, 20),
        lambda y: halves(-y[:, 1]),
        "an event, and a row",
    ),
    "no event in the bag": (
        BoostedGAM(family="weibull"),
        lambda rng: signed_times(rng, 40, 20),
        lambda y: halves(y[:, 1]),
        "an event in the bag",
    ),
    "a single event": (
        BoostedGAM(family="coxph"),
        lambda rng: signed_times(rng, 40, 1),
        lambda y: None,
        "an event, and a row",
    ),
    "a constant": (
        BoostedDistribution(),
        lambda rng: np.r_[np.full(20, 0.1), rng.random(20) + 1],
        halves,
        "different y",
    ),
}
"""Estimators, responses, and folds that the losses of the family cannot compare."""


@together("kind", NO_FOLDS)
def test_folds_that_say_nothing_are_an_error(kind: str) -> None:
    estimator, response, folds, needs = NO_FOLDS[kind]
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 2)), response(rng)
    with pytest.raises(ValueError, match=f"every fold must have {needs}.*fewer folds"):
        clone(estimator).set_params(cv=folds(y)).fit(X, y)


def test_folds_of_cv_stop_must_say_something() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 2)), signed_times(rng, 40, 30)
    model = BoostedGAM(family="coxph", max_iter=5).fit(X, y)
    with pytest.raises(ValueError, match="an event, and a row"):
        cv_stop(model, LeaveOneOut())
    parametric = BoostedGAM(family="weibull", max_iter=5).fit(X, y)
    assert np.isfinite(cv_stop(parametric, LeaveOneOut()).risk).all()


def test_default_folds_without_an_event_do_not_count() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 2)), signed_times(rng, 40, 3)
    model = BoostedGAM(family="coxph").fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert (np.diff(model.validation_risk_) != 0).all()


def test_noise_is_not_fitted() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((300, 4)), rng.standard_normal(300)
    assert BoostedGAM().fit(X, y).predict(X).std() < 0.2


def test_gamboost_has_the_defaults_of_mboost(data: Data) -> None:
    X, y = data
    model = gamboost("y ~ x", {"x": X[:, 0], "y": y})
    assert (model.n_iter_, model.learning_rate, model.outside) == (100, 0.1, "linear")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_iter": "best"}, "max_iter must be one of"),
        ({"warm_start": True}, "warm_start must be False"),
        ({"cv": 1}, "every fold must have rows in and out"),
        ({"cv": "folds"}, "folds must be one of"),
    ],
)
def test_wrong_parameters(data: Data, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BoostedGAM(**wrong).fit(*data)


# ---- the degrees of freedom ----------------------------------------------------------


def waves(periods: int) -> Data:
    """A column and a wave with noise."""
    rng = np.random.default_rng(0)
    x = rng.random(400)
    y = np.sin(2 * np.pi * periods * x) + 0.5 * rng.standard_normal(400)
    return x[:, None], y


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


@pytest.mark.parametrize(
    "options",
    [{"df": 6}, {"n_basis": 23}, {"max_iter": 200}, {"early_stopping": True}],
    ids=str,
)
def test_degrees_of_freedom_are_not_chosen(options: dict[str, Any]) -> None:
    model = BoostedGAM(cv=2, learning_rate=1, **options).fit(*waves(6))
    assert model.terms_[0].df == 6


BETTER, UNCLEAR, WORSE = Verdict


def tried_by(verdicts: list[Verdict], rows: float = 1e4, **options: Any) -> list[Plan]:
    """The plans that are tried if the verdicts are these, and then `WORSE`."""
    search = plans(BoostedGAM(**options), rows)
    tried = [next(search)[0]]
    with contextlib.suppress(StopIteration):
        tried.append(next(search)[0])
        while True:
            tried.append(search.send(verdicts.pop(0) if verdicts else WORSE)[0])
    return tried


PLAIN = Plan(6)
FULL, SCORES = Plan(6, full_range=True), Plan(6, scores=True)
SEARCHES: list[tuple[list[Verdict], list[Plan]]] = [
    ([], [PLAIN, FULL, SCORES, Plan(12), Plan(6, stumps=True)]),
    ([BETTER], [PLAIN, FULL, Plan(6, True, True), Plan(12, True)]),
    ([WORSE, WORSE, BETTER], [PLAIN, FULL, SCORES, Plan(12), Plan(24)]),
    ([WORSE, WORSE, UNCLEAR], [PLAIN, FULL, SCORES, Plan(12), Plan(24)]),
    (
        [WORSE, WORSE, UNCLEAR, UNCLEAR],  # twice in doubt
        [PLAIN, FULL, SCORES, Plan(12), Plan(24), Plan(6, stumps=True)],
    ),
    (
        [WORSE, WORSE, BETTER, WORSE, WORSE],
        [PLAIN, FULL, SCORES, Plan(12), Plan(24), Plan(6, stumps=True)]
        + [Plan(12, stumps=True)],
    ),
    (
        [WORSE, WORSE, BETTER, WORSE, BETTER],
        [PLAIN, FULL, SCORES, Plan(12), Plan(24), Plan(6, stumps=True)]
        + [Plan(12, stumps=True)],
    ),
]


@pytest.mark.parametrize(("verdicts", "expected"), SEARCHES)
def test_a_search_follows_the_verdicts(
    verdicts: list[Verdict], expected: list[Plan]
) -> None:
    assert tried_by(verdicts.copy())[: len(expected)] == expected


def test_degrees_of_freedom_are_limited_by_rows_and_functions() -> None:
    for options, rows, expected in (
        ({}, 10_000, [6, 12, 24, 48]),
        ({}, 191, [6, 12, 24]),
        ({}, 47, [6]),
        ({"n_basis": 95}, 10_000, [6, 12, 24]),
        ({"penalty": None}, 10_000, [6]),
        ({"df": 6}, 10_000, [6]),
    ):
        tried = tried_by([WORSE, WORSE, *[BETTER] * 3], rows, **options)
        simple = [plan.df for plan in tried if plan == Plan(plan.df)]
        assert simple == expected


class KnownCourse(Course):
    """Losses of two folds that are known before, `spread` apart."""

    def __init__(self, risk: Any, spread: float) -> None:
        self.risk = np.array(risk)
        self.made = self.end = 0
        losses = self.risk + spread * np.array([[-0.5], [0.5]])
        empty = np.zeros((2, 0))
        self.path = Path(0.0, empty, empty, empty, "stacked", out_of_bag=losses)

    def run(self, most: int) -> None:
        self.made = most


def decreasing(fast: float, least: float) -> Any:
    """A risk that decreases from 1 to `least`."""
    return least + (1 - least) * np.exp(-np.arange(401) / fast)


SLOW = decreasing(40.0, 0.2)
LATER = np.where(np.arange(401) < 30, SLOW + 0.01, 0.1)
RICHER, ALIKE, SLOWER = Kind
LAST = decreasing(40.0, 0.19)
RACES = [
    (SLOW, SLOW, 0.0, RICHER, 20, UNCLEAR),
    (LATER, SLOW, 0.0, RICHER, 20, WORSE),  # behind after 20 steps
    (SLOW - 0.01, SLOW, 0.03, RICHER, 20, UNCLEAR),  # within the error
    (LAST, SLOW, 0.03, ALIKE, 320, BETTER),  # lower is enough
    (decreasing(5.0, 0.1), decreasing(5.0, 0.2), 0.0, RICHER, 20, BETTER),
    (
        decreasing(36.0, 0.21),
        SLOW,
        0.0,
        RICHER,
        160,
        WORSE,
    ),  # the slow course overtakes
    (decreasing(36.0, 0.19), SLOW, 0.0, RICHER, 320, BETTER),  # it does not
    (LATER, SLOW, 0.0, SLOWER, 40, BETTER),  # it may be behind at first
    (decreasing(60.0, 0.25), SLOW, 0.0, SLOWER, 80, WORSE),
]


@pytest.mark.parametrize(("other", "best", "spread", "kind", "steps", "verdict"), RACES)
def test_courses_are_compared_until_the_slower_cannot_catch_up(
    other: Any, best: Any, spread: float, kind: Kind, steps: int, verdict: Verdict
) -> None:
    ones = np.ones((2, 1))
    courses = KnownCourse(other, spread), KnownCourse(best, 0.0)
    assert compare(*courses, Folds(ones, ones), kind=kind) is verdict
    assert [course.made for course in courses] == [steps, steps]


def test_more_degrees_of_freedom_lower_the_loss_by_more_than_its_error() -> None:
    others = np.array([1.0, 2.0, 3.0])
    gains = np.array([0.3, 0.1, 0.2])  # mean 0.2, standard error 0.058
    assert is_lower(others - gains, others)
    assert not is_lower(others - gains + 0.15, others)
    assert not is_lower(others, others)
    assert is_lower(others[:1] - 0.1, others[:1])


# ---- the folds -----------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 5])
def test_folds_have_nearly_the_same_distribution(count: int) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 103)
    fold = deal_folds(y, count, rng)
    sizes = np.bincount(fold, minlength=count)
    assert sizes.max() - sizes.min() <= 1
    below = [[(y[fold == k] <= v).sum() for k in range(count)] for v in range(3)]
    assert np.ptp(below, axis=1).max() <= 1


def test_more_rows_have_fewer_folds(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count(rows: int, cv: int | None = None) -> int:
        training = BoostedGAM()._training(*(some[:rows] for some in data), None, None)
        return len(folds_for(training, cv, 0.1, 0).weights)

    for name, rows in (("LEFT_OUT", 50), ("MOST_ROWS", 110)):
        monkeypatch.setattr(f"gpusolve.gam._boosting.patience.{name}", rows)
    assert [*map(count, (3, 8, 20, 49, 50, 110, 111))] == [15, 25, 15, 10, 3, 3, 1]
    assert [count(rows, cv=4) for rows in (20, 50, 100)] == [4, 4, 4]


# ---- the range without outliers ------------------------------------------------------


def test_an_outlier_moves_neither_knots_nor_predictions() -> None:
    rng = np.random.default_rng(0)
    x = np.append(rng.random(999), 50.0)
    y = np.sin(6 * np.minimum(x, 1)) + 0.1 * rng.standard_normal(1000)
    model = BoostedGAM().fit(x[:, None], y)
    (term,) = model.terms_
    assert term.ends[0][1] < 1.2
    clipped = BoostedGAM({0: bbs(df=6, boundary=term.ends[0])}, max_iter=model.n_iter_)
    clipped.fit(np.clip(x, *term.ends[0])[:, None], y)
    np.testing.assert_allclose(
        model.predict([[0.5], [50.0], [1e9]]),
        clipped.predict([[0.5], [term.ends[0][1]], [term.ends[0][1]]]),
        rtol=1e-9,
    )


@pytest.mark.parametrize(
    ("x", "ends"),
    [
        (np.arange(101.0), (0.0, 100.0)),
        (np.append(np.zeros(999), 1.0), (0.0, 1.0)),
        (np.append(np.arange(1000.0), 1e9), (0.0, 1088.0)),
    ],
)
def test_a_robust_range(x: Any, ends: tuple[float, float]) -> None:
    model = BoostedGAM({0: bbs(boundary="robust")}, max_iter=1)
    (found,) = model.fit(x[:, None], x).terms_[0].ends
    assert found == ends
