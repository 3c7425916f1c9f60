"""What every model has: all families, and all learners, of all estimators."""

from __future__ import annotations

import json
import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest
from backends import is_cupy, on_host
from gam_models import EVERY_CASE, EVERY_FAMILY_CASE, PAIRS, Case, columns, response
from together import together

from gpusolve.gam import BoostedDistribution, BoostedGAMClassifier, load
from gpusolve.gam._model import fitted  # the rows of a block, fewer than a test has

DATA, NEW = columns(), columns(40, seed=7)

every = pytest.mark.parametrize("case", EVERY_CASE, ids=str)
each_family = together("case", EVERY_FAMILY_CASE, ids=str)


@cache
def fitted_case(name: str) -> Any:
    """The model of a case, which tests do not change."""
    return next(case for case in EVERY_CASE if str(case) == name).fitted(DATA)


def take(data: dict[str, Any], rows: Any) -> dict[str, Any]:
    return {name: column[rows] for name, column in data.items()}


def all_predictions(model: Any, data: dict[str, Any], **options: Any) -> list[Any]:
    """Every kind of prediction that the model has."""
    found = [model.predict(data, **options)]
    for name in ("decision_function", "predict_proba", "predict_parameters"):
        if hasattr(model, name):
            made = getattr(model, name)(data, **options)
            found += [*made.values()] if isinstance(made, dict) else [made]
    if hasattr(model, "survival_function") and not options and model.n_iter_ == 8:
        found.append(model.survival_function(data, [0.0, 0.5, 1.0]))
    return found


def assert_equal(a: list[Any], b: list[Any]) -> None:
    for left, right in zip(a, b, strict=True):
        np.testing.assert_array_equal(left, right)


def private_classes(plain: Any) -> list[str]:
    """The classes of a document that are named with a private module."""
    values = plain.values() if isinstance(plain, dict) else plain
    if not isinstance(plain, dict | list):
        return []
    found = [name for value in values for name in private_classes(value)]
    name = str(plain.get("class", "")) if isinstance(plain, dict) else ""
    return [*found, name] if name.startswith("_") or "._" in name else found


@pytest.mark.parametrize("case", [c for c in EVERY_CASE if c is not PAIRS], ids=str)
def test_integer_weights_count_rows(case: Case) -> None:
    y = response(case.family, DATA)
    weights = np.random.default_rng(3).integers(0, 4, len(y))
    weights[:4] = 1  # of each level
    rows = np.repeat(np.arange(len(y)), weights)
    by_quantiles = "quantiles", "bins=", "robust"  # which weights do not change
    learners = [
        term
        for term in case.learners
        if not any(option in term.label for option in by_quantiles)
    ]
    case = Case(case.kind, case.family, learners, case.options)
    weighted = case.model().fit(DATA, y, sample_weight=weights)
    repeated = case.model().fit(take(DATA, rows), y[rows])
    np.testing.assert_array_equal(weighted.selected_, repeated.selected_)
    np.testing.assert_allclose(weighted.risk_, repeated.risk_, rtol=1e-8)


@every
def test_a_warm_start_equals_one_long_fit(case: Case) -> None:
    whole = fitted_case(str(case))
    parts = case.fitted(DATA, 3, warm_start=True)
    parts.set_params(max_iter=8).fit(DATA, response(case.family, DATA))
    np.testing.assert_array_equal(parts.selected_, whole.selected_)
    np.testing.assert_allclose(parts.risk_, whole.risk_, rtol=1e-9)
    for one, other in zip(parts.paths_, whole.paths_, strict=True):
        assert (one.nuisance is None) == (other.nuisance is None)
        if one.nuisance is not None:
            np.testing.assert_allclose(one.nuisance, other.nuisance, rtol=1e-7)


@every
def test_files_and_pickles_have_the_bits_of_the_model(
    case: Case, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = fitted_case(str(case))
    path = tmp_path_factory.mktemp("model") / "model.json"
    model.save(path)
    assert not private_classes(json.loads(path.read_text()))
    for copy in (load(path), pickle.loads(pickle.dumps(model))):
        assert type(copy) is type(model)
        assert repr(copy) == repr(model)
        assert copy.names_ == model.names_
        assert not hasattr(copy, "_data")
        for name in ("coefficients_", "risk_", "selected_", "lambda_", "intercept_"):
            np.testing.assert_array_equal(getattr(copy, name), getattr(model, name))
        assert_equal(all_predictions(copy, NEW), all_predictions(model, NEW))
        assert_equal(
            all_predictions(copy, NEW, iteration=4),
            all_predictions(model, NEW, iteration=4),
        )


@every
def test_stages_are_the_models_after_each_iteration(case: Case) -> None:
    model = fitted_case(str(case))
    stages = list(model.staged_predict(NEW))
    assert len(stages) == model.n_iter_ == 8
    for iteration in (1, 5, 8):
        found = model.predict(NEW, iteration=iteration)
        if found.dtype.kind == "f":
            np.testing.assert_allclose(stages[iteration - 1], found, rtol=1e-9)
        else:
            np.testing.assert_array_equal(stages[iteration - 1], found)
    five = all_predictions(model, NEW, iteration=5)
    early = pickle.loads(pickle.dumps(model))
    assert early.stop_at(5) is early
    assert_equal(all_predictions(early, NEW), five)


@every
def test_effects_sum_to_the_predictor(case: Case) -> None:
    model = fitted_case(str(case))
    for iteration in (None, 5):
        links = model._links(NEW, iteration, None)
        for fit, link in enumerate(links):
            effects = model.effects(NEW, fit=fit, iteration=iteration)
            parts = np.column_stack([np.full(40, model._intercepts()[fit]), effects])
            np.testing.assert_array_equal(np.cumsum(parts, axis=1)[:, -1], link)
            found = model.explain(NEW, fit=fit, iteration=iteration)
            np.testing.assert_array_equal(found.contributions, effects)
            np.testing.assert_array_equal(found.link, link)
            for j, name in enumerate(model.names_):
                alone = model.partial_effect(name, NEW, fit=fit, iteration=iteration)
                np.testing.assert_array_equal(alone, effects[:, j])


@each_family
def test_predictions_read_rows_in_blocks(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fitted_case(str(case))
    whole, effects = all_predictions(model, NEW), model.effects(NEW)
    with monkeypatch.context() as patch:
        patch.setattr(fitted, "BLOCK", 7)
        assert_equal(all_predictions(model, NEW), whole)
        np.testing.assert_array_equal(model.effects(NEW), effects)


@each_family
def test_the_risk_falls_and_is_the_loss_of_the_predictor(case: Case) -> None:
    """Importances are what each learner of each parameter took from it."""
    model = fitted_case(str(case))
    risk = np.sum([path.risk for path in model.paths_], axis=0)
    assert risk[-1] < risk[0]
    reduced = (risk[0] - risk[-1]) / 60
    assert sum(model.importance().values()) == pytest.approx(reduced)
    assert sum(model.selection_frequencies().values()) == pytest.approx(1)
    lines = model.summary().learners
    assert sum(line.reduction for line in lines) == pytest.approx(reduced)
    assert sum(line.share for line in lines) == pytest.approx(1)
    assert sum(model.feature_importances_) == pytest.approx(1)
    if model.family_.predictors == 1 and len(model.paths_) == 1:
        (f,), family = model._links(DATA, None, None), model.family_
        y = family.prepare(response(case.family, DATA), np.zeros((60, 1)))
        last = np.asarray(model._nuisance(None)[0])
        loss = family.loss(y, f, last).sum()
        assert model.risk_[-1] == pytest.approx(loss, rel=1e-10)


SEVERAL = ["binomial", "multinomial", "prop_odds", "distribution"]


@together("family", SEVERAL)
def test_predictions_are_where_the_data_are(backend: Any, family: Any) -> None:
    """Classes are on the host. A pickled model predicts for data on the host."""
    X = np.random.default_rng(0).random((30, 2))
    y, given = np.digitize(X @ [2.0, 1.0], [1.0, 2.0]), backend.array(X)
    model: Any = BoostedGAMClassifier(family=family, n_basis=6, max_iter=2)
    if family == "distribution":
        model = BoostedDistribution(df=4, max_iter=2)
    model.fit(given, y)
    assert isinstance(model.predict(given), np.ndarray) == (
        backend.name != "cuda" or family != "distribution"
    )
    methods = ["predict_proba", "staged_predict_proba", "effects"]
    if family == "distribution":
        methods = ["predict", "predict_interval", "staged_predict", "effects"]
    loaded = pickle.loads(pickle.dumps(model))
    for method in methods:
        found = [*getattr(model, method)(given)]
        assert is_cupy(found[0]) == (backend.name == "cuda")
        wanted = [*getattr(loaded, method)(X)]
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(on_host(one), other, rtol=1e-7, atol=1e-12)
