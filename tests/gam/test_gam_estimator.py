"""BoostedGAM: scikit-learn's conventions, and difficult data."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from gam_figures import additive
from together import together

import gpusolve
from gpusolve._device.arrays import is_cupy, on_host
from gpusolve._device.kernels import EmulatedDevice
from gpusolve.gam import (
    BoostedDistribution,
    BoostedGAM,
    BoostedGAMClassifier,
    bbs,
    bols,
    brandom,
    buser,
)


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return additive(rng, 200)


Data = tuple[np.ndarray, np.ndarray]


ESTIMATORS = [
    BoostedGAM(),
    BoostedGAMClassifier(),
    BoostedGAMClassifier(family="multinomial"),
    BoostedDistribution(),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_passes_the_checks_of_scikit_learn(estimator: Any) -> None:
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    results = checks.check_estimator(estimator, on_fail=None)
    failed = {
        r["check_name"]: r["exception"] for r in results if r["status"] == "failed"
    }
    assert not failed
    assert len(results) > 55


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", [BoostedGAM, BoostedDistribution])
def test_what_is_masked_is_missing(kind: Any, order: Any, seed: int) -> None:
    """As NaN, whatever number is below the mask."""
    rng = np.random.default_rng(seed)
    X = np.asarray(rng.random((60, 2)), order=order)
    hidden = rng.random((60, 2)) < 0.2
    masked = np.ma.masked_array(np.where(hidden, 1e300, X).copy(order), hidden)
    X, y = np.where(hidden, np.nan, X), rng.random(60)
    expected = kind(missing="zero", max_iter=9).fit(X, y)
    for given in (masked, dict(enumerate(masked.T))):
        model = kind(missing="zero", max_iter=9).fit(given, np.ma.masked_array(y))
        np.testing.assert_array_equal(model.risk_, expected.risk_)
        np.testing.assert_array_equal(model.predict(given), expected.predict(X))
        with pytest.raises(ValueError, match=r"must (be finite|not have missing)"):
            kind(max_iter=9).fit(given, y)
    for name in ("y", "sample_weight"):
        values = {"y": y, "sample_weight": np.ones(60)}
        values[name] = np.ma.masked_array(values[name], np.arange(60) == 7)
        with pytest.raises(ValueError, match=f"{name} must be finite"):
            kind(missing="zero").fit(X, **values)


def labelled(kind: type[Any], y: np.ndarray) -> Any:
    """The response of an estimator: numbers, or three classes."""
    if kind is not BoostedGAMClassifier:
        return y
    return np.array(["low", "middle", "top"])[
        np.digitize(y, np.quantile(y, [0.3, 0.7]))
    ]


each_kind = pytest.mark.parametrize("kind", [BoostedGAM, BoostedGAMClassifier])


@each_kind
def test_works_in_a_pipeline_and_a_grid_search(data: Data, kind: Any) -> None:
    pytest.importorskip("sklearn")
    from sklearn.base import clone, is_classifier, is_regressor
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = data[0], labelled(kind, data[1])
    pipeline = make_pipeline(StandardScaler(), kind(n_basis=10))
    assert cross_val_score(pipeline, X, y, cv=3).min() > 0.7
    learners = {0: bbs(knots=5), 1: bbs(), 3: bols()}
    search = GridSearchCV(
        kind(learners), {"max_iter": [1, 60], "family": [None]}, cv=3
    ).fit(X, y)
    assert search.best_params_["max_iter"] == 60
    model = kind(df=5, penalty="ridge")
    assert clone(model).get_params() == model.get_params()
    assert is_classifier(model) != is_regressor(model)
    assert is_regressor(model) == (kind is BoostedGAM)


@each_kind
def test_meta_estimators_pass_weights(data: Data, kind: Any) -> None:
    sklearn = pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = data[0], labelled(kind, data[1])
    weights = np.random.default_rng(0).integers(1, 4, 200)
    with sklearn.config_context(enable_metadata_routing=True):
        model = kind(n_basis=10, max_iter=5)
        with pytest.raises(ValueError, match="not explicitly set"):
            make_pipeline(StandardScaler(), model).fit(X, y, sample_weight=weights)
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, model).fit(X, y, sample_weight=weights)
        Z = scaler.transform(X)
        alone = kind(n_basis=10, max_iter=5).fit(Z, y, sample_weight=weights)
        np.testing.assert_array_equal(pipeline[-1].risk_, alone.risk_)
        score = pipeline.score(X, y, sample_weight=weights)
        assert score == alone.score(Z, y, sample_weight=weights)
        search = GridSearchCV(clone(model), {"max_iter": [2, 20]}, cv=3)
        search.fit(X, y, sample_weight=weights)
        assert search.best_params_ == {"max_iter": 20}


@pytest.mark.parametrize("kind", ["BoostedGAM", "BoostedGAMClassifier"])
def test_works_without_scikit_learn(kind: str) -> None:
    """Run in an interpreter that cannot import scikit-learn."""
    script = f"""
import sys
sys.modules["sklearn"] = None
import numpy as np
from gpusolve.gam import {kind}
X = np.random.default_rng(0).random((60, 2))
y = X[:, 0] if "{kind}" == "BoostedGAM" else np.where(X[:, 0] > 0.5, "a", "b")
model = {kind}(n_basis=6)
try:
    model.predict(X)
except (ValueError, AttributeError) as error:
    assert type(error).__name__ == "NotFittedError", error
model.fit(X, y)
assert model.score(X, y) > 0.9
print(model)
"""
    printed = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout
    assert printed.strip() == f"{kind}(n_basis=6)"


def test_fitted_attributes(backend: Any, data: Data) -> None:
    X, y = data
    model = BoostedGAM(n_basis=12, max_iter=40, method="stacked")
    assert model.fit(backend.array(X), backend.array(y)) is model
    assert model.n_iter_ == 40
    assert model.method_ == "stacked"
    assert model.coefficients_.shape == (5, 12)
    assert model.lambda_.shape == (5,)
    assert model.selected_.shape == (40,)
    assert model.risk_.shape == (41,)
    assert model.intercept_ == pytest.approx(y.mean())
    never = np.setdiff1d(np.arange(5), model.selected_)
    assert never.size
    assert not model.coefficients_[never].any()
    assert set(model.selected_[:5]) <= {1, 3}
    prediction = model.predict(backend.array(X))
    assert is_cupy(prediction) == (backend.name == "cuda")
    left = ((y - on_host(prediction)) ** 2).sum()
    assert model.risk_[-1] == pytest.approx(left, rel=1e-10)
    score = 1 - left / ((y - y.mean()) ** 2).sum()
    assert model.score(backend.array(X), backend.array(y)) == pytest.approx(score)
    for value in vars(model).values():
        assert not is_cupy(value)


def test_effects_sum_to_the_prediction(backend: Any, data: Data) -> None:
    X, y = data
    model = BoostedGAM(n_basis=12).fit(X, y)
    Z = np.vstack([X[:10], X[:10] + 2])
    effects = [
        on_host(model.partial_effect(j, backend.array(Z[:, j].copy())))
        for j in range(5)
    ]
    np.testing.assert_allclose(
        model.intercept_ + sum(effects), on_host(model.predict(backend.array(Z)))
    )
    with pytest.raises(IndexError, match="learner must be -5 to 4"):
        model.partial_effect(5, Z[:, 0])
    with pytest.raises(ValueError, match=r"x must have shape \(n,\)"):
        model.partial_effect(0, Z)


def test_a_warm_start_continues_the_fit(data: Data) -> None:
    X, y = data
    model = BoostedGAM(n_basis=12, max_iter=10, warm_start=True).fit(X, y)
    first = model.path_
    model.set_params(max_iter=50).fit(X, y)
    whole = BoostedGAM(n_basis=12, max_iter=50).fit(X, y)
    np.testing.assert_array_equal(model.path_.updates[:10], first.updates)
    np.testing.assert_array_equal(model.selected_, whole.selected_)
    np.testing.assert_allclose(model.coefficients_, whole.coefficients_, atol=1e-11)
    np.testing.assert_allclose(model.risk_, whole.risk_)
    with pytest.raises(ValueError, match="max_iter must be at least 50"):
        model.set_params(max_iter=20).fit(X, y)
    with pytest.raises(ValueError, match="warm start needs"):
        model.set_params(max_iter=60).fit(2 * X, y)
    with pytest.raises(ValueError, match="warm start needs"):
        model.fit(X, y + 1)
    assert model.set_params(warm_start=False).fit(2 * X, y).n_iter_ == 60


class RecordingUnpickler(pickle.Unpickler):
    """Records the modules that a pickle names."""

    def __init__(self, pickled: bytes) -> None:
        super().__init__(io.BytesIO(pickled))
        self.modules: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.modules.add(module)
        return super().find_class(module, name)


def test_a_pickle_names_only_public_modules(data: Data) -> None:
    """A model can then still be loaded after a class has moved to another file."""
    X, y = data
    terms = [bbs(0, by=1), bols(2) + brandom(3), buser(4, df=0.5)]
    model = BoostedGAM(terms, family="poisson", max_iter=5).fit(X, np.rint(y**2))
    unpickler = RecordingUnpickler(pickle.dumps(model))
    loaded = unpickler.load()
    named = {name for name in unpickler.modules if name.split(".")[0] != "numpy"}
    assert named == {"gpusolve.gam", "gpusolve.gam.families", "gpusolve.gam.terms"}
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@together("name", ["BSplines", "CompactBasis", "Path", "Simulation"])
def test_a_class_is_pickled_by_its_public_name(name: str) -> None:
    public = getattr(gpusolve.gam, name)
    unpickler = RecordingUnpickler(pickle.dumps(public))
    assert unpickler.load() is public
    assert unpickler.modules == {"gpusolve.gam"}


@pytest.mark.slow
def test_a_pickle_can_be_loaded_without_cupy(backend: Any, data: Data) -> None:
    X, y = data
    model = BoostedGAM(n_basis=12)
    model.fit(backend.array(X), backend.array(y))
    script = f"""
import sys, pickle, json
sys.modules["cupy"] = None
model = pickle.loads({pickle.dumps(model)!r})
print(json.dumps(model.predict({X[:5].tolist()!r}).tolist()))
"""
    printed = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout
    np.testing.assert_allclose(json.loads(printed), model.predict(X[:5]), rtol=1e-13)


def test_names_of_a_data_frame_are_kept(data: Data) -> None:
    pandas = pytest.importorskip("pandas")
    X, y = data
    frame = pandas.DataFrame(X, columns=list("abcde"))
    model = BoostedGAM(n_basis=12).fit(frame, pandas.Series(y))
    assert model.feature_names_in_.tolist() == list("abcde")
    np.testing.assert_array_equal(
        model.partial_effect("b", X[:, 1]), model.partial_effect(1, X[:, 1])
    )
    with pytest.raises(ValueError, match="learner must be one of"):
        model.partial_effect("f", X[:, 1])
    with pytest.raises(ValueError, match="same order"):
        model.predict(frame[list("bacde")])
    with pytest.warns(UserWarning, match="valid feature names"):
        model.predict(X)
    assert not hasattr(model.fit(X, y), "feature_names_in_")


def test_a_constant_column_has_no_effect(data: Data) -> None:
    X, y = data
    model = BoostedGAM(n_basis=12).fit(np.column_stack([np.full(200, 7.0), X]), y)
    alone = BoostedGAM(n_basis=12).fit(X, y)
    np.testing.assert_array_equal(model.selected_, alone.selected_ + 1)
    np.testing.assert_array_equal(model.coefficients_[0], 0)
    constant = BoostedGAM().fit(np.ones((20, 2)), y[:20])
    np.testing.assert_array_equal(constant.predict(np.zeros((3, 2))), y[:20].mean())


@together("rows", [1, 2, 3, 10])
def test_fewer_rows_than_functions(data: Data, rows: int) -> None:
    X, y = data
    model = BoostedGAM().fit(X[:rows], y[:rows])
    assert np.isfinite(model.predict(X)).all()
    assert (np.diff(model.risk_) <= 1e-12).all()


def test_one_column(data: Data) -> None:
    X, y = data
    model = BoostedGAM(max_iter=50).fit(X[:, 1:2], y)
    np.testing.assert_array_equal(model.selected_, 0)
    assert 0.5 < model.score(X[:, 1:2], y) < 1


def test_a_constant_target_gives_zero_coefficients(data: Data) -> None:
    X, _ = data
    model = BoostedGAM().fit(X, np.full(200, 0.1))
    np.testing.assert_allclose(model.predict(X), 0.1, rtol=1e-14)
    np.testing.assert_allclose(model.coefficients_, 0, atol=1e-14)


@pytest.mark.parametrize("method", ["stacked", "gram"])
def test_rows_of_weight_zero_are_ignored(data: Data, method: str) -> None:
    X, y = data
    weights = np.ones(200)
    weights[[0, 17]] = 0
    X[0], y[17] = 100.0, 1e6
    model = BoostedGAM(n_basis=12, method=method).fit(X, y, sample_weight=weights)
    kept = weights > 0
    without = BoostedGAM(n_basis=12, method=method).fit(X[kept], y[kept])
    np.testing.assert_array_equal(model.coefficients_, without.coefficients_)


def test_weights_that_are_not_integers_are_scaled(data: Data) -> None:
    X, y = data
    weights = np.random.default_rng(1).random(200)
    model, scaled = (
        BoostedGAM(n_basis=12).fit(X, y, sample_weight=factor * weights)
        for factor in (1, 1e6)
    )
    np.testing.assert_allclose(model.coefficients_, scaled.coefficients_, atol=1e-9)
    np.testing.assert_allclose(model.risk_, scaled.risk_)
    mean = np.average(y, weights=weights)
    spread = np.average((y - mean) ** 2, weights=weights)
    assert model.risk_[0] == pytest.approx(200 * spread)
    for wrong in (np.zeros(200), -weights, weights[:7]):
        with pytest.raises(ValueError, match="sample_weight"):
            BoostedGAM().fit(X, y, sample_weight=wrong)


def test_layout_and_dtype_of_the_data(backend: Any, data: Data) -> None:
    X, y = data
    model = BoostedGAM(n_basis=12, max_iter=30).fit(X, y)
    kinds = {
        "columns": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=1)[:, ::2],
        "big-endian": X.astype(">f8"),
        "reversed": X[:, ::-1].copy()[:, ::-1],
    }
    for kind, Z in kinds.items():
        other = BoostedGAM(n_basis=12, max_iter=30).fit(
            backend.array(Z), backend.array(y)
        )
        np.testing.assert_array_equal(other.selected_, model.selected_, kind)
        np.testing.assert_allclose(
            other.coefficients_, model.coefficients_, atol=1e-10, err_msg=kind
        )
    single = BoostedGAM(n_basis=12, max_iter=30).fit(
        backend.array(X.astype(np.float32)), y
    )
    np.testing.assert_array_equal(single.selected_, model.selected_)
    np.testing.assert_allclose(single.coefficients_, model.coefficients_, atol=1e-4)


def test_integer_data_are_accepted() -> None:
    X = np.arange(60).reshape(30, 2) % 7
    model = BoostedGAM(n_basis=6, learning_rate=0.5).fit(X, X[:, 0])
    assert model.score(X, X[:, 0]) > 0.999


def test_parameters_may_be_numpy_scalars(data: Data) -> None:
    model = BoostedGAM(
        n_basis=np.int32(12), degree=np.int8(3), df=np.float32(4), max_iter=np.int64(5)
    )
    assert model.fit(*data).n_iter_ == 5


@together("value", [0.0, 0.1, 2.0, -1e100, 1e-200])
def test_the_score_of_a_constant_target(backend: Any, data: Data, value: float) -> None:
    X, y = map(backend.array, (data[0], np.full(200, value)))
    model = BoostedGAM(n_basis=12, max_iter=5).fit(X, y)
    weights = backend.array(np.random.default_rng(0).random(200))
    for w in (None, weights):
        assert model.score(X, y, sample_weight=w) == 1
        assert model.score(X, y + abs(y) * 1e-9 + 1e-300, sample_weight=w) == 0


def test_the_score_equals_scikit_learn(data: Data) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    X, y = data
    model = BoostedGAM(n_basis=12).fit(X, y)
    weights = np.random.default_rng(0).integers(0, 3, 200)
    for w in (None, weights):
        expected = metrics.r2_score(y, model.predict(X), sample_weight=w)
        assert model.score(X, y, sample_weight=w) == pytest.approx(expected, rel=1e-12)
    single = (np.arange(200) == 7).astype(float)
    assert model.score(X, y, sample_weight=single) == 0
    with pytest.raises(ValueError, match="not all of it zero"):
        model.score(X, y, sample_weight=np.zeros(200))


def test_huge_weights_count_relative_to_each_other(data: Data) -> None:
    X, y = data

    def fit(weights: Any) -> BoostedGAM:
        return BoostedGAM(n_basis=12).fit(X, y, sample_weight=weights)

    expected = fit(np.ones(200)).predict(X)
    for weight in (1e12, 1e300):
        found = fit(np.full(200, weight)).predict(X)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    with pytest.raises(ValueError, match="must have a finite sum, got weights up to"):
        fit(np.full(200, 1e308))


def test_integer_weights_may_have_rounding_errors(data: Data) -> None:
    X, y = data
    three = np.cumsum([0.1] * 30)[-1]  # sum() compensates rounding since Python 3.12
    assert three != 3
    weights = np.where(np.arange(200) % 2, 1.0, 3.0)
    exact, rounded = (
        BoostedGAM(n_basis=12).fit(X, y, sample_weight=w)
        for w in (weights, np.where(weights == 3, three, 1.0))
    )
    np.testing.assert_allclose(rounded.risk_, exact.risk_, rtol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_a_warm_start_with_another_target_raises(data: Data, scale: float) -> None:
    X, y = data
    model = BoostedGAM(n_basis=12, max_iter=10, warm_start=True).fit(X, 5 + scale * y)
    model.set_params(max_iter=20)
    with pytest.raises(ValueError, match="warm start needs"):
        model.fit(X, 5 + scale * y[::-1])
    assert model.fit(X, 5 + scale * y).n_iter_ == 20


def test_a_warm_start_with_a_constant_target(data: Data) -> None:
    X, y = data[0], np.full(200, 0.1)
    model = BoostedGAM(max_iter=5, warm_start=True).fit(X, y)
    assert model.set_params(max_iter=9).fit(X, y).n_iter_ == 9


def test_the_error_names_cupy_if_it_is_missing(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match="needs CuPy"):
        BoostedGAM(device="cuda").fit(*data)


def test_the_device_of_the_data_is_current(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays are allocated on it, and it is not current afterwards."""
    X, y = data
    entered: list[str] = []
    current: list[str] = []

    @contextmanager
    def on_device(_: Any) -> Iterator[None]:
        entered.append("device")
        current.append("device")
        yield
        current.pop()

    make = EmulatedDevice.empty

    def empty(*args: Any) -> Any:
        assert current
        return make(*args)

    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    monkeypatch.setattr(EmulatedDevice, "current", on_device)
    monkeypatch.setattr(EmulatedDevice, "empty", empty)
    model = BoostedGAM(n_basis=6, max_iter=2, method="stacked").fit(X, y)
    for call in (
        lambda: model.predict(X),
        lambda: model.score(X, y),
        lambda: model.partial_effect(0, X[:, 0]),
        lambda: next(model.staged_predict(X)),
    ):
        entered.clear()
        call()
        assert entered
        assert not current


def test_predictions_outside_of_the_range(data: Data) -> None:
    X, y = data
    far = X + 10
    linear, clamp, error = (
        BoostedGAM(outside=outside).fit(X, y)
        for outside in ("linear", "clamp", "error")
    )
    a, b, c = linear.partial_effect(1, np.array([2.0, 3.0, 4.0]))
    assert c - b == pytest.approx(b - a)
    edge = np.tile(X.max(axis=0), (200, 1))
    np.testing.assert_allclose(clamp.predict(far), clamp.predict(edge))
    with pytest.raises(ValueError, match="within the range"):
        error.predict(far)
    error.predict(X)


def test_plot(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X, y = data
    model = BoostedGAM(n_basis=12, max_iter=20).fit(X, y)
    figure = model.plot()
    shown = len(np.unique(model.selected_))
    assert len(figure.axes) == shown + 2
    line = figure.axes[0].lines[0]
    first = int(figure.axes[0].get_title().removeprefix("x"))
    drawn = model.partial_effect(first, line.get_xdata())
    np.testing.assert_allclose(np.ptp(line.get_ydata()), np.ptp(drawn))
    none = BoostedGAM(max_iter=0).fit(X, y).plot()
    assert len(none.axes) == 1
    plt.close("all")
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="needs matplotlib"):
        model.plot()


def test_is_a_public_name() -> None:
    assert gpusolve.gam.BoostedGAM is BoostedGAM
