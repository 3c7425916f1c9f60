"""Boosted models of any family with learners of any kind, from fit to prediction."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from family_samples import EVERY_FAMILY, sample
from together import together

from gpusolve._device.arrays import is_cupy, on_host
from gpusolve.gam import (
    BoostedGAM,
    BoostedGAMClassifier,
    bbs,
    bmono,
    bols,
    brandom,
    bspatial,
    buser,
    cv_stop,
    load,
    save,
)
from gpusolve.gam._boosting import patience
from gpusolve.gam._data import inputs as checks
from gpusolve.gam._model import fitted
from gpusolve.gam._terms.frame import Frame
from gpusolve.gam.families import Binomial, Family, Gaussian, Poisson

TERMS = [bbs(0, df=3), bols(1), bbs(2, knots=5, center=True, df=1)]


@pytest.fixture
def counts() -> tuple[np.ndarray, np.ndarray]:
    return sample(Poisson())


Data = tuple[np.ndarray, np.ndarray]


def fit(y_of: Family | str = "poisson", **parameters: Any) -> BoostedGAM:
    return BoostedGAM(TERMS, family=y_of, **({"max_iter": 40} | parameters))


# ---- offsets -------------------------------------------------------------------------


def test_a_number_as_offset_is_the_start(counts: Data) -> None:
    X, y = counts
    number = fit(step_rule="mboost").fit(X, y, offset=0.3)
    vector = fit(step_rule="mboost").fit(X, y, offset=np.full(len(y), 0.3))
    assert (number.intercept_, vector.intercept_) == (0.3, 0.0)
    np.testing.assert_array_equal(number.coefficients_, vector.coefficients_)
    np.testing.assert_allclose(
        number.predict(X), vector.predict(X, offset=0.3), rtol=1e-13
    )
    for start in (np.log(y.mean()), np.full(len(y), np.log(y.mean()))):
        same = fit().fit(X, y, offset=start)
        np.testing.assert_allclose(same.risk_, fit().fit(X, y).risk_, rtol=1e-12)


def test_exposures_multiply_the_rate(counts: Data) -> None:
    X, y = counts
    start = np.log(np.random.default_rng(1).uniform(0.5, 2, len(y)))
    model = fit().fit(X, y, offset=start)
    fitted = model.predict(X, offset=start)
    rate = model.predict(X, offset=0)
    np.testing.assert_allclose(fitted, rate * np.exp(start), rtol=1e-13)
    loss = Poisson().loss(y, np.log(fitted), 0.0)
    assert model.risk_[-1] == pytest.approx(loss.sum(), rel=1e-12)
    *_, last = model.staged_predict(X, offset=start)
    np.testing.assert_allclose(last, fitted, rtol=1e-13)


def predictions(model: Any, X: Any, y: Any) -> list[Callable[..., Any]]:
    """The public methods that take an offset, bound to data."""
    names = ["predict", "explain"]
    if isinstance(model, BoostedGAMClassifier):
        names += ["predict_proba", "predict_log_proba", "decision_function"]
    with_times = ["cumulative_hazard", "survival_function"]
    return [
        partial(model.score, X, y),
        *(partial(getattr(model, name), X) for name in names),
        lambda **offset: list(model.staged_predict(X, **offset)),
        *(
            partial(getattr(model, name), X[:3], [1.0])
            for name in with_times
            if hasattr(model, name)
        ),
    ]


@pytest.mark.parametrize("family", ["poisson", "binomial", "coxph"])
def test_a_forgotten_offset_is_a_warning(family: str, tmp_path: Path) -> None:
    """Of every method, also of a model that was stored; and an error of a module."""
    X, y = sample(Binomial() if family == "binomial" else Poisson())
    if family == "coxph":
        y = np.column_stack([1 + y, y < 3])
    kind = BoostedGAMClassifier if family == "binomial" else BoostedGAM
    start = np.linspace(0, 1, len(X))
    for offset in (start, 0.5, None):
        model = kind(family=family, max_iter=3).fit(X, y, offset=offset)
        save(model, tmp_path / "model.json")
        for own in (model, pickle.loads(pickle.dumps(model))):
            assert own.has_offset_ == (offset is start)
        for call in predictions(load(tmp_path / "model.json"), X, y):
            call(offset=0)
            if offset is start:
                with pytest.warns(UserWarning, match="offset is not given") as found:
                    call()
                assert len(found) == 1
            else:
                call()


@pytest.mark.parametrize("method", ["stacked", "gram"])
def test_the_offset_of_the_squared_error_is_subtracted(method: str) -> None:
    X, y = sample(Gaussian())
    start = np.random.default_rng(1).random(len(y))
    model = BoostedGAM(n_basis=8, method=method, max_iter=100)
    plain = copy.copy(model).fit(X, y - start)
    np.testing.assert_allclose(
        model.fit(X, y, offset=start).coefficients_, plain.coefficients_, atol=1e-12
    )


# ---- what X may be -------------------------------------------------------------------


def mixed(n: int = 150, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "age": rng.uniform(20, 80, n),
        "sex": rng.choice(["f", "m"], n),
        "lon": rng.random(n),
        "lat": rng.random(n),
        "id": rng.integers(0, 6, n),
    }


MIXED = {
    "age": bbs(df=3),
    "sex": bols(),
    ("lon", "lat"): bspatial(knots=4),
    "id": brandom(df=2),
}


def response(data: dict[str, Any]) -> np.ndarray:
    return np.asarray(
        np.sin(data["age"] / 10)
        + (data["sex"] == "m")
        + data["lon"] * data["lat"]
        + 0.1 * data["id"]
    )


def test_a_mapping_and_a_data_frame_are_the_same() -> None:
    pd = pytest.importorskip("pandas")
    data, new = mixed(), mixed(20, seed=1)
    y = response(data)
    model = BoostedGAM(MIXED, max_iter=100).fit(data, y)
    assert model.names_ == [
        "bbs(age, df=3)",
        "bols(sex)",
        "bspatial(lon, lat, knots=4)",
        "brandom(id, df=2)",
    ]
    other = BoostedGAM(MIXED, max_iter=100).fit(pd.DataFrame(data), pd.Series(y))
    np.testing.assert_array_equal(model.coefficients_, other.coefficients_)
    columns = ["id", "lat", "age", "lon", "sex"]
    np.testing.assert_array_equal(
        model.predict(new), other.predict(pd.DataFrame(new)[columns])
    )
    assert model.feature_names_in_.tolist() == list(data)
    assert other.feature_names_in_.tolist() == list(data)
    assert model.n_features_in_ == other.n_features_in_ == 5
    named = [t.with_covariates(k) for k, t in MIXED.items()]
    again = BoostedGAM(named, max_iter=100).fit(data, y)
    np.testing.assert_array_equal(again.coefficients_, model.coefficients_)


def test_without_learners_every_column_has_one() -> None:
    pd = pytest.importorskip("pandas")
    data = mixed()
    y = response(data)
    model = BoostedGAM(max_iter=20).fit(data, y)
    names = ["bbs(age)", "bols(sex)", "bbs(lon)", "bbs(lat)", "bbs(id)"]
    assert model.names_ == names
    assert repr(model.terms_[0]) == "bbs('age', df=6, boundary='robust')"
    age = model.partial_effect("bbs(age)", data["age"])
    np.testing.assert_array_equal(age, model.partial_effect("age", data["age"]))
    backwards = dict(reversed(data.items()))
    np.testing.assert_array_equal(model.predict(backwards), model.predict(data))
    frame = BoostedGAM(max_iter=20).fit(pd.DataFrame(data), y)
    np.testing.assert_array_equal(frame.coefficients_, model.coefficients_)
    with pytest.raises(ValueError, match="same order"):
        frame.predict(pd.DataFrame(backwards))


def test_positions_are_names_of_a_matrix(counts: Data) -> None:
    X, y = counts
    by_key = BoostedGAM({2: bbs(), np.int64(0): bols()}, family="poisson").fit(X, y)
    listed = BoostedGAM([bbs(2), bols(0)], family="poisson").fit(X, y)
    np.testing.assert_array_equal(by_key.coefficients_, listed.coefficients_)
    single = BoostedGAM(bbs(0), family="poisson").fit(X[:, :1], y)
    assert single.names_ == ["bbs(0)"]


def test_float32_is_nearly_float64(counts: Data) -> None:
    X, y = counts
    single = fit().fit(X.astype(np.float32), y)
    double = fit().fit(X, y)
    assert single.paths_[0].updates.dtype == np.float64
    np.testing.assert_array_equal(single.selected_, double.selected_)
    np.testing.assert_allclose(single.coefficients_, double.coefficients_, atol=1e-4)
    assert (single.coefficients_ != double.coefficients_).any()


# ---- missing values, levels ----------------------------------------------------------


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_rows_with_missing_values_are_left_out(counts: Data, family: str) -> None:
    X, y = counts
    holes = X.copy()
    holes[::3, 0] = np.nan
    present = np.isfinite(holes[:, 0])
    parameters = {"family": family, "missing": "zero", "max_iter": 20}
    model = BoostedGAM(bbs(0, df=3), **parameters).fit(holes, y, offset=0.2)
    without = BoostedGAM(bbs(0, df=3), **parameters)
    without.fit(X[present], y[present], offset=0.2)
    np.testing.assert_allclose(
        model.coefficients_, without.coefficients_, rtol=1e-9, atol=1e-12
    )
    link = model.predict(holes, kind="link")
    np.testing.assert_array_equal(link[~present], 0.2)
    np.testing.assert_array_equal(link[present], model.predict(X, kind="link")[present])
    two = BoostedGAM(**parameters).fit(holes, y)
    assert np.isfinite(two.predict(holes)).all()


def test_unknown_levels() -> None:
    data = mixed()
    y = response(data)
    new = {"sex": ["m", "x", "f"]}
    model = BoostedGAM({"sex": bols()}).fit(data, y)
    with pytest.raises(ValueError, match=r"sex must have the levels .*got \('x'\)"):
        model.predict(new)
    zero = BoostedGAM({"sex": bols()}, unknown="zero").fit(data, y)
    prediction = zero.predict(new)
    assert prediction[1] == zero.intercept_
    np.testing.assert_array_equal(
        prediction[[0, 2]], model.predict({"sex": ["m", "f"]})
    )


def test_the_order_of_levels_does_not_matter() -> None:
    pd = pytest.importorskip("pandas")
    data = mixed()
    y = response(data)
    learners = [bols("g", contrasts="dummy", df=2), bbs("age", df=3)]
    predictions = []
    for order in ([0, 1, 2, 3, 4, 5], [4, 2, 0, 5, 1, 3]):
        frame = pd.DataFrame(data).assign(g=pd.Categorical(data["id"], order))
        model = BoostedGAM(learners).fit(frame, y)
        assert model.terms_[0].found_levels == tuple(order)  # type: ignore[attr-defined]
        predictions.append(model.predict(frame))
    np.testing.assert_allclose(predictions[0], predictions[1], rtol=1e-12)


# ---- shapes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constraint", "feature", "order"), [("increasing", 1, 1), ("convex", 0, 2)]
)
def test_effects_keep_their_shape(constraint: str, feature: int, order: int) -> None:
    X, y = sample(Poisson())
    learners = [bmono(feature, constraint=constraint), bbs(1 - feature)]
    model = BoostedGAM(learners, family="poisson", outside="linear").fit(X, y)
    effect = model.partial_effect(0, np.linspace(-0.2, 1.2, 300))
    assert np.diff(effect, order).min() > -1e-9
    assert np.ptp(effect) > 0.1


def test_the_ends_of_a_cyclic_effect_meet() -> None:
    """To the second derivative, by differences on each side."""
    X, y = sample(Poisson())
    learners = [bbs(0, cyclic=True, boundary=(0, 1), knots=8), bbs(1)]
    model = BoostedGAM(learners, family="poisson").fit(X, y)
    h = 1e-3
    left = model.partial_effect(0, np.array([0, h, 2 * h, 3 * h]))
    right = model.partial_effect(0, 1 - np.array([0, h, 2 * h, 3 * h]))
    assert left[0] == pytest.approx(right[0], abs=1e-12)
    slope = np.polyfit([0, 1, 2, 3], left, 3), np.polyfit([0, -1, -2, -3], right, 3)
    np.testing.assert_allclose(slope[0][2] / h, slope[1][2] / h, atol=1e-8)
    np.testing.assert_allclose(slope[0][1] / h**2, slope[1][1] / h**2, atol=1e-4)


# ---- effects -------------------------------------------------------------------------


def test_a_learner_is_found_by_its_name_or_its_features() -> None:
    data = mixed()
    learners = [
        bols("age"),
        bbs("age", center=True, df=1),
        bspatial("lon", "lat", knots=3),
        bbs("lon"),
        bols("sex", by="lat"),
    ]
    model = BoostedGAM(learners, max_iter=5).fit(data, response(data))
    for given, index in (
        ("bols(age)", 0),
        ("bbs(age, df=1, center=True)", 1),
        (("lon", "lat"), 2),
        (("lat", "lon"), 2),
        ("lon", 3),
        (("lon",), 3),
        ("sex", 4),
        (-1, 4),
        (np.int8(2), 2),
    ):
        assert model._index_of(given) == index  # type: ignore[arg-type]
    for ambiguous in ("age", "lat"):
        with pytest.raises(ValueError, match=f"learner must be one of .*{ambiguous}"):
            model._index_of(ambiguous)
    with pytest.raises(ValueError, match=r"learner must be one of \['bols\(age\)'"):
        model._index_of("weight")


def test_features_of_an_effect_by_name_or_by_position() -> None:
    data = mixed()
    model = BoostedGAM(MIXED, max_iter=100).fit(data, response(data))
    by_name = model.partial_effect(2, data)
    by_position = model.partial_effect(2, np.column_stack([data["lon"], data["lat"]]))
    np.testing.assert_array_equal(by_name, by_position)
    np.testing.assert_array_equal(model.effects(data)[:, 2], by_name)
    with pytest.raises(ValueError, match=r"x must have shape \(n, 2\), got \(150,\)"):
        model.partial_effect(2, data["lon"])
    levels = model.partial_effect("sex", ["f", "m"])
    women, men = (model.predict(data | {"sex": [sex] * 150}) for sex in "fm")
    np.testing.assert_allclose(men - women, levels[1] - levels[0], rtol=1e-12)
    assert levels[1] > levels[0]


# ---- iterations ----------------------------------------------------------------------

ROUTES: dict[str, dict[str, Any]] = {
    "gram": {"method": "gram", "n_basis": 8},
    "stacked splines": {"method": "stacked", "n_basis": 8},
    "learners": {"learners": TERMS},
    "huber": {"family": "huber"},
    "poisson": {"family": "poisson", "learners": TERMS},
    "gamma": {"family": "gamma", "n_basis": 8},
}


@together("route", ROUTES)
def test_a_warm_start_equals_one_long_fit(route: str) -> None:
    parameters = ROUTES[route]
    X, y = sample(Poisson())
    y += 1
    model = BoostedGAM(max_iter=10, warm_start=True, **parameters).fit(X, y)
    model.set_params(max_iter=30).fit(X, y)
    model.set_params(max_iter=45).fit(X, y)
    whole = BoostedGAM(max_iter=45, **parameters).fit(X, y)
    np.testing.assert_array_equal(model.selected_, whole.selected_)
    np.testing.assert_allclose(model.risk_, whole.risk_, rtol=1e-9)
    np.testing.assert_allclose(
        model.coefficients_, whole.coefficients_, rtol=1e-6, atol=1e-8
    )
    if whole.path_.nuisance is not None:
        np.testing.assert_allclose(
            model.path_.nuisance, whole.path_.nuisance, rtol=1e-9
        )
    model.set_params(max_iter=60)
    with pytest.raises(ValueError, match="warm start needs"):
        model.fit(X, y[::-1])
    with pytest.raises(ValueError, match="warm start needs"):
        model.fit(X, y, offset=0.5)
    reloaded = pickle.loads(pickle.dumps(model)).fit(X, y)
    assert reloaded.n_iter_ == 60


@together(
    "changed",
    [{"df": 5}, {"df_definition": "trace"}, {"n_basis": 9}, {"family": "expectile"}],
    ids=str,
)
def test_a_warm_start_needs_the_same_model(changed: dict[str, Any]) -> None:
    X, y = sample(Gaussian())
    model = BoostedGAM(max_iter=5, warm_start=True, n_basis=8).fit(X, y)
    with pytest.raises(ValueError, match="warm start needs the data and the effects"):
        model.set_params(**changed).fit(X, y)


def test_a_warm_start_may_change_the_method() -> None:
    X, y = sample(Gaussian())
    model = BoostedGAM(max_iter=5, warm_start=True, n_basis=8).fit(X, y)
    for steps, method in ((10, "stacked"), (20, "gram")):
        model.set_params(max_iter=steps, method=method).fit(X, y)
    whole = BoostedGAM(max_iter=20, n_basis=8).fit(X, y)
    np.testing.assert_allclose(model.risk_, whole.risk_, rtol=1e-10)


@pytest.mark.parametrize("route", ["gram", "poisson"])
def test_stop_at_an_earlier_iteration(route: str) -> None:
    X, y = sample(Poisson())
    parameters = ROUTES[route]
    model = BoostedGAM(max_iter=30, warm_start=True, **parameters).fit(X, y)
    assert model.stop_at(12) is model
    short = BoostedGAM(max_iter=12, **parameters).fit(X, y)
    assert model.n_iter_ == 12
    for name in ("coefficients_", "risk_", "selected_"):
        np.testing.assert_allclose(getattr(model, name), getattr(short, name))
    np.testing.assert_allclose(model.predict(X), short.predict(X))
    assert model.fit(X, y).n_iter_ == 30
    np.testing.assert_array_equal(model.stop_at(0).predict(X), np.full(200, y.mean()))
    with pytest.raises(ValueError, match="iteration must be 0 to 0"):
        model.stop_at(1)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "huber"])
def test_early_stopping_keeps_the_best_iteration(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "NOISE", 0.0)  # every gain counts
    X, y = sample(Poisson(), 120)
    terms = [bbs(j, knots=16, df=8, boundary=(0, 1)) for j in range(3)]
    parameters: dict[str, Any] = {"learners": terms, "learning_rate": 0.5}
    model = BoostedGAM(
        family=family,
        early_stopping=True,
        validation_fraction=0.3,
        n_iter_no_change=60,
        max_iter=500,
        random_state=4,
        **parameters,
    ).fit(X, y)
    risk = model.validation_risk_
    best = int(risk.argmin())
    assert model.n_iter_ == best == len(model.risk_) - 1
    assert len(risk) - 1 == best + max(60, best // 2) < 500
    held = np.zeros(120, bool)
    held[np.random.default_rng(4).permutation(120)[:36]] = True
    other = BoostedGAM(family=family, max_iter=best, method="stacked", **parameters)
    other.fit(X, y, sample_weight=1.0 - held)
    np.testing.assert_array_equal(model.selected_, other.selected_)
    np.testing.assert_allclose(model.intercept_, other.intercept_)
    if family == "poisson":
        f = other.predict(X[held], kind="link")
        loss = Poisson().loss(y[held], f, 0.0).mean()
        assert risk[best] == pytest.approx(loss, rel=1e-6)


@pytest.mark.filterwarnings("ignore:the risk of the rows held out")
def test_early_stopping_is_patient_up_to_max_iter(counts: Data) -> None:
    X, y = counts
    model = BoostedGAM(early_stopping=True, max_iter=0, random_state=0).fit(X, y)
    assert model.n_iter_ == 0
    few = BoostedGAM(early_stopping=True, max_iter=3, random_state=0).fit(X, y)
    assert len(few.validation_risk_) == 4
    again = BoostedGAM(early_stopping=True, max_iter=3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(few.validation_risk_, again.validation_risk_)
    with pytest.raises(ValueError, match="at least 2 rows"):
        BoostedGAM(early_stopping=True).fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="warm_start must be False"):
        BoostedGAM(early_stopping=True, warm_start=True).fit(X, y)


@pytest.mark.filterwarnings("ignore:the risk of the rows held out")
@together("way", ["early stopping", "warm start", "missing values"])
def test_on_a_device(backend: Any, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    X, y = sample(Poisson(), 60)
    if way == "missing values":
        X[::4, 0] = np.nan
    start, weights = np.linspace(0, 1, 60), np.arange(60) % 3
    parameters: dict[str, Any] = {
        "max_iter": 4,
        "missing": "zero",
        "early_stopping": way == "early stopping",
        "warm_start": way == "warm start",
        "random_state": 0,
    }

    def fitted(array: Any) -> BoostedGAM:
        model = fit(**parameters)
        given = array(X), array(y), array(weights), array(start)
        model.fit(*given)
        return model.set_params(max_iter=6).fit(*given)

    with monkeypatch.context() as alone:
        alone.delenv("GPUSOLVE_EMULATE", raising=False)
        expected = fitted(np.asarray)
        prediction = expected.predict(X, offset=start)
        effects = expected.effects(X)
    model = fitted(backend.array)
    given = backend.array(X)
    np.testing.assert_array_equal(model.selected_, expected.selected_)
    np.testing.assert_allclose(model.risk_, expected.risk_, rtol=1e-10)
    for found, wanted in (
        (model.predict(given, offset=backend.array(start)), prediction),
        (model.effects(given), effects),
        (model.partial_effect(0, backend.array(X[:, 0].copy())), effects[:, 0]),
    ):
        assert is_cupy(found) == (backend.name == "cuda")
        np.testing.assert_allclose(on_host(found), wanted, rtol=1e-9, atol=1e-12)


# ---- few and many rows ---------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the risk of the training data rose")
@together("family", EVERY_FAMILY, ids=str)
@together("rows", [1, 2, 5])
def test_few_rows(family: Family, rows: int) -> None:
    """A fit is finite, or an error says why it fails."""
    X, y = sample(family, 20)
    X, y = X[:rows], y[:rows]
    try:
        model = BoostedGAM(family=family, max_iter=10, learning_rate=0.1).fit(X, y)
    except ValueError as error:
        assert str(error).startswith(("y of the", "delta of"))  # noqa: PT017
        return
    assert np.isfinite(model.predict(X)).all()


def test_a_pickle_has_no_training_data(counts: Data) -> None:
    X, y = (
        np.tile(count, (20, 1)) if count.ndim == 2 else np.tile(count, 20)
        for count in counts
    )
    model = fit(max_iter=3).fit(X, y)
    assert model._data[0].frame.rows == 4000
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert not hasattr(other, "_data")
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert len(pickle.dumps(model)) < 20_000


@pytest.mark.parametrize("learners", [None, TERMS], ids=["default", "learners"])
def test_a_file_on_disk_is_not_copied(
    counts: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learners: Any
) -> None:
    X, y = counts
    stored = np.memmap(tmp_path / "X", np.float64, "w+", shape=X.shape)
    stored[...] = X
    model = BoostedGAM(learners, family="poisson").fit(X, y)
    frame = model._covariates(stored)
    assert all(np.shares_memory(frame.numeric(j), stored) for j in range(3))
    read: list[int] = []
    take = Frame.take

    def taking(self: Frame, rows: Any) -> Frame:
        found = take(self, rows)
        assert all(np.shares_memory(found.numeric(j), stored) for j in range(3))
        read.append(found.rows)
        return found

    monkeypatch.setattr(fitted, "BLOCK", 64)
    monkeypatch.setattr(checks, "ROWS", 64)
    expected = model.predict(X)
    monkeypatch.setattr(Frame, "take", taking)
    np.testing.assert_array_equal(model.predict(stored), expected)
    assert max(read) == 64
    stored[150, 1] = np.nan
    message = "in column 1" if learners is None else "1 must not have missing values"
    with pytest.raises(ValueError, match=message):
        model.predict(stored)


# ---- data that are easily misread ----------------------------------------------------


def test_importances_are_in_the_order_of_columns_with_integer_names() -> None:
    pd = pytest.importorskip("pandas")
    X = np.random.default_rng(0).random((100, 2))
    y = np.sin(6 * X[:, 0])
    for names in ([10, 20], [1, 0]):
        frame = pd.DataFrame(X, columns=names)
        with_factor = frame.assign(g=["u", "v"] * 50).rename(columns={"g": 30})
        for model, given in (
            (BoostedGAM(max_iter=50), frame),
            (BoostedGAM({names[0]: bbs()}, max_iter=50), frame),
            (BoostedGAM(max_iter=50), with_factor),
        ):
            found = model.fit(given, y).feature_importances_
            assert len(found) == given.shape[1]
            assert found[0] > 0.9
            assert next(iter(model.importance())).startswith(f"bbs({names[0]}")


def test_missing_values_of_nullable_columns() -> None:
    pd = pytest.importorskip("pandas")
    nullable = pd.DataFrame({"a": pd.array([1, 2, None, 4, 5] * 4, dtype="Int64")})
    plain = nullable.astype(float)
    y = np.arange(20.0)
    model = BoostedGAM(missing="zero").fit(nullable, y)
    expected = BoostedGAM(missing="zero").fit(plain, y).predict(plain)
    np.testing.assert_array_equal(model.predict(nullable), expected)
    with pytest.raises(ValueError, match="a must not have missing values"):
        BoostedGAM().fit(nullable, y)


@together(("origin", "unit"), [(0, 1e-6), (0, 1e6), (2000, 9), (1e5, 9)])
def test_a_line_does_not_depend_on_origin_and_unit(origin: float, unit: float) -> None:
    """Years, incomes and lengths: the limit is the line of least squares."""
    rng = np.random.default_rng(0)
    t = rng.random(100)
    y = 2 * t + rng.standard_normal(100)
    data = {"x": origin + unit * t}
    model = BoostedGAM([bols("x")], max_iter=400).fit(data, y)
    line = np.polyval(np.polyfit(t, y, 1), t)
    np.testing.assert_allclose(model.predict(data), line, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("family", "outlier"), [("poisson", 1e5), ("gamma", -1e5)])
@pytest.mark.parametrize("emulated", ["0", "1"])
def test_a_row_left_out_may_have_an_infinite_loss(
    family: str, outlier: float, emulated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weight is zero, so the fit to the other rows does not depend on it."""
    monkeypatch.setenv("GPUSOLVE_EMULATE", emulated)
    rng = np.random.default_rng(0)
    x = rng.random(60)
    y = rng.poisson(np.exp(2 * x)) + 1.0
    x[0] = outlier
    terms = [bols("x", intercept=False), bbs("z", knots=5, boundary=(0, 1))]
    data = {"x": x, "z": rng.random(60)}
    model = BoostedGAM(terms, family=family, max_iter=50).fit(data, y)
    with np.errstate(over="ignore"):
        cv = cv_stop(model, [(np.arange(1, 60), [0])])
    assert cv.best_iteration < 50
    assert np.isinf(cv.risk[0, -1])


def test_the_design_of_a_user_must_be_finite() -> None:
    X = np.random.default_rng(0).random((20, 1))
    term = buser(0, design=lambda x: np.stack([x, x / 0], axis=1))
    with (
        np.errstate(divide="ignore"),
        pytest.raises(ValueError, match=r"design of buser\(0.* finite numbers"),
    ):
        BoostedGAM([term]).fit(X, X[:, 0])


@pytest.mark.filterwarnings("ignore:the risk of the rows held out")
def test_a_fit_forgets_the_risk_of_an_earlier_validation() -> None:
    X = np.random.default_rng(0).random((20, 1))
    model = BoostedGAM(early_stopping=True).fit(X, X[:, 0])
    assert hasattr(model, "validation_risk_")
    model.set_params(early_stopping=False, max_iter=10).fit(X, X[:, 0])
    assert not hasattr(model, "validation_risk_")
