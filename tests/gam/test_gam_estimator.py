"""BoostedGAM as an estimator: scikit-learn's conventions, data, offsets, weights."""

from __future__ import annotations

import copy
import pickle
import pickletools
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from backends import is_cupy, on_host
from gam_figures import additive
from gam_models import SINGLE, columns, draw, response, sample
from together import together

import gpusolve
from gpusolve.gam import (
    BoostedDistribution,
    BoostedGAM,
    BoostedGAMClassifier,
    bbs,
    bols,
    brandom,
    bspatial,
    buser,
    cv_stop,
    gamboost,
    load,
)
from gpusolve.gam.families import Poisson

Data = tuple[np.ndarray, np.ndarray]

TERMS = [bbs(0, df=3), bols(1), bbs(2, knots=5, center=True, df=1)]


@pytest.fixture
def data(rng: np.random.Generator) -> Data:
    return additive(rng, 200)


@pytest.fixture
def counts() -> Data:
    return sample(Poisson())


# ---- scikit-learn --------------------------------------------------------------------

ESTIMATORS = [
    BoostedGAM(max_iter=50),
    BoostedGAMClassifier(max_iter=50),
    BoostedGAMClassifier(family="multinomial", max_iter=50),
    BoostedDistribution(max_iter=50),
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


@together("kind", [BoostedGAM, BoostedGAMClassifier])
def test_works_in_pipelines_and_searches_which_pass_weights(
    data: Data, kind: Any
) -> None:
    sklearn = pytest.importorskip("sklearn")
    from sklearn.base import clone, is_classifier, is_regressor
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = data
    if kind is BoostedGAMClassifier:
        y = np.array([*"abc"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    w = np.random.default_rng(0).integers(1, 4, 200)
    learners = {0: bbs(knots=5), 1: bbs(), 3: bols()}
    search = GridSearchCV(kind(learners), {"max_iter": [1, 30], "family": [None]}, cv=3)
    assert search.fit(X, y).best_params_["max_iter"] == 30
    model = kind(df=5, penalty="ridge")
    assert clone(model).get_params() == model.get_params()
    assert is_classifier(model) != is_regressor(model) == (kind is BoostedGAM)
    with sklearn.config_context(enable_metadata_routing=True):
        model = kind(n_basis=10, max_iter=5)
        with pytest.raises(ValueError, match="not explicitly set"):
            make_pipeline(StandardScaler(), model).fit(X, y, sample_weight=w)
        model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, model).fit(X, y, sample_weight=w)
        Z = scaler.transform(X)
        alone = kind(n_basis=10, max_iter=5).fit(Z, y, sample_weight=w)
        np.testing.assert_array_equal(pipeline[-1].risk_, alone.risk_)
        score = pipeline.score(X, y, sample_weight=w)
        assert score == alone.score(Z, y, sample_weight=w)


@pytest.mark.filterwarnings("ignore:offset is not given")  # by a scorer
def test_offsets_are_routed() -> None:
    sklearn = pytest.importorskip("sklearn")
    from sklearn.model_selection import KFold, cross_val_score

    x, start = np.random.default_rng(0).random((200, 1)), np.linspace(-2, 2, 200)
    y = draw(Poisson(), np.sin(6 * x[:, 0]) + start)
    with sklearn.config_context(enable_metadata_routing=True):
        model = BoostedGAM(family="poisson", max_iter=20).set_fit_request(offset=True)
        model.set_score_request(offset=True).set_predict_request(offset=True)
        found = cross_val_score(model, x, y, cv=3, params={"offset": start})
        classes = BoostedGAMClassifier(max_iter=5).set_fit_request(offset=True)
        classes.set_predict_proba_request(offset=True)
        classes.set_decision_function_request(offset=False)
        classes.set_predict_log_proba_request(offset=False)
        losses = cross_val_score(
            classes, x, y > 1, params={"offset": start}, scoring="neg_log_loss"
        )
    for (train, test), score in zip(KFold(3).split(x), found, strict=True):
        part = BoostedGAM(family="poisson", max_iter=20)
        part.fit(x[train], y[train], offset=start[train])
        assert score == part.score(x[test], y[test], offset=start[test])
    assert losses.mean() > -0.7


def test_features_are_selected_and_formulas_cloned() -> None:
    selection = pytest.importorskip("sklearn.feature_selection")
    X = np.random.default_rng(0).random((200, 5))
    y = np.sin(6 * X[:, 3]) + X[:, 1]
    model = BoostedGAM(n_basis=10, max_iter=30)
    found = selection.SelectFromModel(model, threshold=0.01).fit(X, y)
    assert found.get_support().tolist() == [False, True, False, True, False]
    base = pytest.importorskip("sklearn.base")
    frame: dict[str, Any] = {"x": X[:, 0], "g": np.resize([*"ab"], 200)}
    frame["y"] = np.rint(9 * X[:, 0])
    for formula, family in (
        ("y ~ bbs(center(x), knots=4) + g + offset(log(x + 1))", "poisson"),
        ("g ~ x", "binomial"),
    ):
        model = gamboost(formula, frame, family=family, max_iter=9)
        twin = base.clone(model)
        assert repr(formula) in repr(twin)
        twin.fit(frame)
        np.testing.assert_array_equal(twin.risk_, model.risk_)
        np.testing.assert_array_equal(twin.predict(frame), model.predict(frame))
    part = {name: column[:50] for name, column in frame.items()}
    twin = base.clone(gamboost("y ~ center(x)", frame)).fit(part, part["y"])
    alone = gamboost("y ~ center(x)", part)
    np.testing.assert_array_equal(twin.predict(frame), alone.predict(frame))


SCRIPT = """
import sys
sys.modules |= dict.fromkeys(("sklearn", "cupy", "pandas", "matplotlib.pyplot"))
import pickle
import numpy as np
from gpusolve.gam import BoostedGAM, BoostedGAMClassifier, CrossValidation
assert not {"patsy", "matplotlib"} & set(sys.modules)
X = np.random.default_rng(0).random((60, 2))
for kind, y in (
    (BoostedGAM, X[:, 0]), (BoostedGAMClassifier, np.where(X[:, 0] > 0.5, "a", "b"))
):
    model = kind(n_basis=6, max_iter=50)
    try:
        model.predict(X)
    except (ValueError, AttributeError) as error:
        assert type(error).__name__ == "NotFittedError", error
    model.fit(X, y)
    assert pickle.loads(pickle.dumps(model)).score(X, y) > 0.9
    print(model)
for call in (
    model.plot, CrossValidation(np.ones((2, 3))).plot, model.explain(X).to_frame,
    lambda: BoostedGAM(device="cuda").fit(X, y)
):
    try:
        call()
    except ImportError as error:
        print(error)
"""

SAID = """BoostedGAM(max_iter=50, n_basis=6)
BoostedGAMClassifier(max_iter=50, n_basis=6)
plot needs matplotlib: pip install
plot needs matplotlib: pip install
to_frame needs pandas: pip install
device="""


def test_works_without_other_packages() -> None:
    """Run in an interpreter that cannot import them."""
    command = [sys.executable, "-c", SCRIPT]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    for line, expected in zip(run.stdout.splitlines(), SAID.splitlines(), strict=True):
        assert line.startswith(expected)
    assert "needs CuPy" in run.stdout


# ---- pickles -------------------------------------------------------------------------


def modules_of(value: Any) -> set[str]:
    """The modules that a pickle names."""
    codes = pickletools.genops(pickle.dumps(value, protocol=2))
    named = {str(arg).split()[0] for code, arg, _ in codes if code.name == "GLOBAL"}
    return {name for name in named if name.split(".")[0] != "numpy"}


def test_a_pickle_names_only_public_modules_and_has_no_data(data: Data) -> None:
    """A model can then still be loaded after a class has moved to another file."""
    X, y = (np.tile(one, (20, 1)[: one.ndim]) for one in data)
    terms = [bbs(0, by=1), bols(2) + bbs(3), buser(4, df=0.5)]
    model = BoostedGAM(terms, family="poisson", max_iter=3).fit(X, np.rint(y**2))
    public = {"gpusolve.gam", "gpusolve.gam.families", "gpusolve.gam.terms"}
    assert modules_of(model) - {"__builtin__", "copy_reg", "_codecs"} == public
    assert len(pickle.dumps(model)) < 20_000
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(twin.predict(X), model.predict(X))
        with pytest.raises(ValueError, match="must have its training data"):
            cv_stop(twin)
    for name in ("BSplines", "CompactBasis", "Path", "Simulation"):
        assert modules_of(getattr(gpusolve.gam, name)) == {"gpusolve.gam"}


# ---- what X may be -------------------------------------------------------------------


def test_fitted_attributes(backend: Any, data: Data) -> None:
    X, y = data
    there = backend.array(X)
    model = BoostedGAM(n_basis=12, max_iter=12, method="stacked", df=4)
    assert model.fit(there, backend.array(y)) is model
    assert (model.n_iter_, model.method_) == (12, "stacked")
    shapes = {"coefficients_": (5, 12), "lambda_": (5,), "selected_": (12,)}
    for name, shape in (shapes | {"risk_": (13,)}).items():
        assert getattr(model, name).shape == shape
    assert model.intercept_ == pytest.approx(y.mean())
    never = np.setdiff1d(np.arange(5), model.selected_)
    assert never.size
    assert not model.coefficients_[never].any()
    assert is_cupy(model.predict(there)) == (backend.name == "cuda")
    assert not any(map(is_cupy, vars(model).values()))


MIXED: dict[Any, Any] = {
    "x": bbs(df=3),
    "g": bols(),
    ("lon", "lat"): bspatial(knots=4),
    "h": brandom(df=1),
}


def test_learners_and_features_have_names() -> None:
    """A mapping and a data frame are the same, by key or by name."""
    d, new = columns(150), columns(20, seed=1)
    y = response("gaussian", d)
    model = BoostedGAM(MIXED, max_iter=50).fit(d, y)
    names = ["bbs(x, df=3)", "bols(g)", "bspatial(lon, lat, knots=4)"]
    assert model.names_ == [*names, "brandom(h, df=1)"]
    other = BoostedGAM(MIXED, max_iter=50).fit(pd.DataFrame(d), pd.Series(y))
    np.testing.assert_array_equal(model.coefficients_, other.coefficients_)
    assert other.feature_names_in_.tolist() == list(d)
    frame = pd.DataFrame(new)[["h", "lat", "z", "x", "lon", "g"]]
    np.testing.assert_array_equal(model.predict(new), other.predict(frame))
    by_name = model.partial_effect(2, d)
    pairs = np.column_stack([d["lon"], d["lat"]])
    np.testing.assert_array_equal(by_name, model.partial_effect(2, pairs))
    for given in (("lon", "lat"), ("lat", "lon"), "lon", np.int8(2), -2):
        np.testing.assert_array_equal(model.partial_effect(given, d), by_name)
    levels = model.partial_effect("g", ["a", "d"])
    first, last = (model.predict(d | {"g": [level] * 150}) for level in "ad")
    np.testing.assert_allclose(last - first, levels[1] - levels[0], rtol=1e-11)


def test_without_learners_every_column_has_one() -> None:
    d = columns(150)
    y = response("gaussian", d)
    model = BoostedGAM(max_iter=20).fit(d, y)
    names = ["bbs(x)", "bbs(z)", "bols(g)", "bbs(lon)", "bbs(lat)", "bbs(h)"]
    assert model.names_ == names
    assert repr(model.terms_[0]) == "bbs('x', df=6, boundary='robust')"
    backwards = dict(reversed(d.items()))
    np.testing.assert_array_equal(model.predict(backwards), model.predict(d))

    X = np.column_stack([d["lon"], d["lat"]])
    by_key = BoostedGAM({1: bbs(), np.int64(0): bols()}, max_iter=9).fit(X, y)
    listed = BoostedGAM([bbs(1), bols(0)], max_iter=9).fit(X, y)
    np.testing.assert_array_equal(by_key.coefficients_, listed.coefficients_)
    named = BoostedGAM(max_iter=9).fit(pd.DataFrame(X, columns=[*"ab"]), y)
    with pytest.warns(UserWarning, match="valid feature names"):
        named.predict(X)
    assert not hasattr(named.fit(X, y), "feature_names_in_")


def test_importances_are_in_the_order_of_columns_with_integer_names() -> None:
    X = np.random.default_rng(0).random((100, 2))
    y = np.sin(6 * X[:, 0])
    for names in ([10, 20], [1, 0]):
        frame = pd.DataFrame(X, columns=names)
        with_factor = frame.assign(g=["u", "v"] * 50).rename(columns={"g": 30})
        one = {names[0]: bbs()}
        for learners, given in (None, frame), (one, frame), (None, with_factor):
            model = BoostedGAM(learners, max_iter=50).fit(given, y)
            assert len(model.feature_importances_) == given.shape[1]
            assert model.feature_importances_[0] > 0.9
            assert next(iter(model.importance())).startswith(f"bbs({names[0]}")


@together("kind", [BoostedGAM, BoostedDistribution])
@together("order", ["C", "F"])
def test_what_is_masked_is_missing(kind: Any, order: Any) -> None:
    """As NaN, whatever number is below the mask."""
    rng = np.random.default_rng(0)
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


# ---- difficult data ------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the risk of the training data rose")
@together("family", SINGLE, ids=str)
@together("rows", [1, 2, 5])
def test_few_rows(family: Any, rows: int) -> None:
    """A fit is finite, or an error says why it fails."""
    X, y = sample(family, 20)
    try:
        model = BoostedGAM(family=family, max_iter=10, learning_rate=0.1)
        model.fit(X[:rows], y[:rows])
    except ValueError as error:
        assert str(error).startswith(("y of the", "delta of", "event"))  # noqa: PT017
        return
    assert np.isfinite(model.predict(X)).all()


def test_constants_and_few_columns(data: Data) -> None:
    X, y = data
    options: Any = {"n_basis": 12, "df": 4, "max_iter": 30}
    model = BoostedGAM(**options).fit(np.column_stack([np.full(200, 7.0), X]), y)
    alone = BoostedGAM(**options).fit(X, y)
    np.testing.assert_array_equal(model.selected_, alone.selected_ + 1)
    constant = BoostedGAM().fit(np.ones((20, 2)), y[:20])
    np.testing.assert_array_equal(constant.predict(np.zeros((3, 2))), y[:20].mean())
    same = BoostedGAM().fit(X, np.full(200, 0.1))
    np.testing.assert_allclose(same.predict(X), 0.1, rtol=1e-14)
    assert abs(same.coefficients_).max() < 1e-14
    one = BoostedGAM(max_iter=50).fit(X[:, 1:2], y)
    assert 0.5 < one.score(X[:, 1:2], y) < 1
    whole = np.arange(60).reshape(30, 2) % 7
    model = BoostedGAM(n_basis=np.int32(6), df=np.float32(4), max_iter=np.int64(200))
    assert model.fit(whole, whole[:, 0]).score(whole, whole[:, 0]) > 0.99


@together(("origin", "unit"), [(0, 1e-6), (0, 1e6), (2000, 9), (1e5, 9)])
def test_a_line_does_not_depend_on_origin_and_unit(origin: float, unit: float) -> None:
    """Years, incomes and lengths: the limit is the line of least squares."""
    rng = np.random.default_rng(0)
    t = rng.random(100)
    y = 2 * t + rng.standard_normal(100)
    given = {"x": origin + unit * t}
    model = BoostedGAM([bols("x")], max_iter=400).fit(given, y)
    line = np.polyval(np.polyfit(t, y, 1), t)
    np.testing.assert_allclose(model.predict(given), line, rtol=0, atol=1e-8)


# ---- weights -------------------------------------------------------------------------


def test_weights_count_relative_to_each_other(data: Data) -> None:
    X, y = data

    def fit(weights: Any) -> BoostedGAM:
        return BoostedGAM(n_basis=12, df=4, max_iter=30).fit(X, y, weights)

    w = np.random.default_rng(1).random(200) * (np.arange(200) % 10 > 0)
    model, scaled = fit(w), fit(1e6 * w)
    np.testing.assert_allclose(model.risk_, scaled.risk_)
    mean = np.average(y, weights=w)
    spread = np.average((y - mean) ** 2, weights=w)
    assert model.risk_[0] == pytest.approx(180 * spread)
    expected = fit(np.ones(200)).predict(X)
    for weight in (1e12, 1e300):
        found = fit(np.full(200, weight)).predict(X)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    whole = np.where(np.arange(200) % 2, 1.0, 3.0)
    rounded = np.where(whole == 3, np.nextafter(3, 4), 1.0)
    np.testing.assert_allclose(fit(rounded).risk_, fit(whole).risk_, rtol=1e-9)


def test_a_row_left_out_may_have_an_infinite_loss(numpy_backend: Any) -> None:
    """Its weight is zero, so the fit to the other rows does not depend on it."""
    rng = np.random.default_rng(0)
    x = rng.random(60)
    y = rng.poisson(np.exp(2 * x)) + 1.0
    for family, outlier in (("poisson", 1e5), ("gamma", -1e5)):
        x[0] = outlier
        terms = [bols("x", intercept=False), bbs("z", knots=5, boundary=(0, 1))]
        given = {"x": x, "z": rng.random(60)}
        model = BoostedGAM(terms, family=family, max_iter=50).fit(given, y)
        with np.errstate(over="ignore"):
            cv = cv_stop(model, [(np.arange(1, 60), [0])])
        assert cv.best_iteration < 50
        assert np.isinf(cv.risk[0, -1])


# ---- offsets -------------------------------------------------------------------------


def test_a_number_as_offset_is_the_start(counts: Data) -> None:
    X, y = counts
    number, vector = (
        BoostedGAM(TERMS, family="poisson", max_iter=20, step_rule="mboost").fit(
            X, y, offset=start
        )
        for start in (0.3, np.full(200, 0.3))
    )
    assert (number.intercept_, vector.intercept_) == (0.3, 0.0)
    np.testing.assert_array_equal(number.coefficients_, vector.coefficients_)
    found = vector.predict(X, offset=0.3)
    np.testing.assert_allclose(number.predict(X), found, rtol=1e-13)
    start = np.log(np.random.default_rng(1).uniform(0.5, 2, len(y)))
    model = BoostedGAM(TERMS, family="poisson", max_iter=20).fit(X, y, offset=start)
    rate, mean = model.predict(X, offset=0), model.predict(X, offset=start)
    np.testing.assert_allclose(mean, rate * np.exp(start), rtol=1e-13)
    loss = Poisson().loss(y, np.log(mean), 0.0)
    assert model.risk_[-1] == pytest.approx(loss.sum(), rel=1e-12)


@together("family", ["poisson", "binomial", "coxph"])
def test_a_forgotten_offset_is_a_warning(family: str, tmp_path: Path) -> None:
    """Of every method, also of a model that was stored."""
    X, y = sample(Poisson())
    y = (y > 0) * 1.0 if family == "binomial" else y
    y = np.column_stack([1 + y, y < 3]) if family == "coxph" else y
    kind = BoostedGAMClassifier if family == "binomial" else BoostedGAM
    methods: dict[str, Any] = {"score": (X, y), "predict": (X,), "explain": (X,)}
    methods |= dict.fromkeys(("staged_predict", "decision_function"), (X,))
    methods |= dict.fromkeys(("predict_proba", "predict_log_proba"), (X,))
    curves = "cumulative_hazard", "survival_function"
    methods |= {name: (X[:3], [1.0]) for name in curves}
    start = np.linspace(0, 1, len(X))
    for offset in (start, 0.5, None):
        model = kind(family=family, max_iter=3).fit(X, y, offset=offset)
        model.save(tmp_path / "model.json")
        loaded = load(tmp_path / "model.json")
        assert loaded.has_offset_ == model.has_offset_ == (offset is start)
        for name, given in methods.items():
            if hasattr(loaded, name):
                call = partial(getattr(loaded, name), *given)
                call(offset=0)
                if offset is start:
                    with pytest.warns(UserWarning, match="offset is not given") as told:
                        call()
                    assert len(told) == 1
                else:
                    call()


# ---- devices -------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the risk of the rows held out")
@together("way", ["early stopping", "warm start", "missing values", "interactions"])
def test_on_a_device(backend: Any, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    X, y = sample(Poisson(), 60)
    if way == "missing values":
        X[::4, 0] = np.nan
    start, weights = np.linspace(0, 1, 60), np.arange(60) % 3
    options: dict[str, Any] = {"max_iter": 3, "missing": "zero", "random_state": 0}
    options |= {"early_stopping": way == "early stopping", "family": "poisson"}
    options |= {"warm_start": way == "warm start"}
    options |= {"interactions": int(way == "interactions")}

    def mixed(array: Any) -> Any:
        numbers = {j: array(x) for j, x in enumerate(X.T.copy())}
        return numbers | {3: np.array([*"aaabbbcccd"] * 6), 4: array(np.arange(60) % 4)}

    def fitted(array: Any, device: str) -> BoostedGAM:
        given = mixed(array), array(y), array(weights), array(start)
        model = BoostedGAM(
            [*TERMS, *map(brandom, (3, 4))], device=device, **options
        ).fit(*given)
        return model.set_params(max_iter=5).fit(*given)

    with monkeypatch.context() as alone:
        alone.delenv("GPUSOLVE_EMULATE", raising=False)
        expected, here = fitted(np.asarray, "cpu"), mixed(np.asarray)
        prediction = expected.predict(here, offset=start)
        effects = expected.effects(here)
    model, given = fitted(backend.array, "auto"), mixed(backend.array)
    assert model.interactions_ == expected.interactions_
    assert len(model.interactions_) == (way == "interactions")
    np.testing.assert_array_equal(model.selected_, expected.selected_)
    np.testing.assert_allclose(model.risk_, expected.risk_, rtol=1e-10)
    for found, wanted in (
        (model.predict(given, offset=backend.array(start)), prediction),
        (model.effects(given), effects),
        (model.partial_effect(0, backend.array(X[:, 0].copy())), effects[:, 0]),
    ):
        assert is_cupy(found) == (backend.name == "cuda")
        np.testing.assert_allclose(on_host(found), wanted, rtol=1e-9, atol=1e-12)
