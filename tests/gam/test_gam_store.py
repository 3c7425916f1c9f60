"""Models in JSON files: equal in every bit, plain data only, clear errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from together import together

from gpusolve.gam import (
    BoostedGAM,
    BoostedGAMClassifier,
    bbs,
    bmono,
    bols,
    brandom,
    bspatial,
    buser,
    load,
    save,
)
from gpusolve.gam._terms.frame import Frame
from gpusolve.gam.families import FAMILIES, Custom, Family, NegativeBinomial
from gpusolve.gam.store import from_plain, to_plain
from gpusolve.gam.terms import Term

VALUES = [
    None,
    True,
    3,
    -0.0,
    0.1,
    5e-324,
    float("inf"),
    "naïve ☃",
    [1, [2.5, None]],
    (1, ("a", 2.0)),
    {"a": 1, ("lon", "lat"): (1.0, {}), 3: []},
    {"class": "dict"},
    np.array([[0.1, -0.0], [np.nan, -np.inf]]),
    np.array([0.1, 1e-45, 3e38], np.float32),
    np.arange(4, dtype=np.longdouble) / 3,
    np.zeros((0, 24)),
    np.array(7.0),
    np.arange(3, dtype=np.int32),
    np.array([True, False]),
    np.array(["yes", "no"]),
    np.array(["age", 3, ("a", 1)], dtype=object),
]


def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((60, 3))
    return X, np.sin(5 * X[:, 1]) + 0.1 * rng.standard_normal(60)


def equal(a: Any, b: Any) -> bool:
    """Whether two values have the same type and the same bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        same = a.dtype == b.dtype and a.shape == b.shape
        return same and (
            a.tolist() == b.tolist()
            if a.dtype.char in "Og"
            else a.tobytes() == b.tobytes()
        )
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, float):
        return np.float64(a).tobytes() == np.float64(b).tobytes()
    return bool(a == b)


@together("value", VALUES, ids=repr)
def test_values_return_from_json(value: Any) -> None:
    text = json.dumps(to_plain(value, "value"), allow_nan=False)
    assert equal(from_plain(json.loads(text)), value)


def test_nan_returns() -> None:
    assert np.isnan(from_plain(to_plain(np.nan, "value")))


def test_numpy_scalars_become_python_s() -> None:
    assert equal(to_plain(np.int64(3), "value"), 3)
    assert equal(to_plain(np.float64(0.1), "value"), 0.1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_loaded_model_is_the_model(tmp_path: Path, dtype: type[Any]) -> None:
    X, y = data()
    model = BoostedGAM(n_basis=9, max_iter=40, outside="clamp").fit(X.astype(dtype), y)
    save(model, tmp_path / "model.json")
    loaded = load(tmp_path / "model.json")
    assert type(loaded) is BoostedGAM
    assert equal(loaded.get_params(), model.get_params())
    new = data(1)[0] * 1.3 - 0.2
    assert equal(loaded.predict(new), model.predict(new))
    assert equal(loaded.predict(new, iteration=7), model.predict(new, iteration=7))
    assert equal(
        loaded.partial_effect(1, new[:, 1]), model.partial_effect(1, new[:, 1])
    )
    for name in ("coefficients_", "risk_", "selected_", "lambda_", "rug_"):
        assert equal(getattr(loaded, name), getattr(model, name))
    assert loaded.score(X, y) == model.score(X, y)


def test_a_loaded_model_continues(tmp_path: Path) -> None:
    X, y = data()
    model = BoostedGAM(max_iter=10, warm_start=True).fit(X, y)
    save(model, tmp_path / "model.json")
    loaded = load(tmp_path / "model.json").set_params(max_iter=30).fit(X, y)
    assert equal(loaded.risk_, model.set_params(max_iter=30).fit(X, y).risk_)


def test_names_of_columns_are_kept(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    X, y = data()
    X = pd.DataFrame(X, columns=["a", "b", "c"])
    model = BoostedGAM(max_iter=5).fit(X, y)
    save(model, str(tmp_path / "model.json"))
    loaded = load(str(tmp_path / "model.json"))
    assert equal(loaded.feature_names_in_, model.feature_names_in_)
    assert equal(loaded.predict(X), model.predict(X))


def test_an_estimator_that_is_not_fitted(tmp_path: Path) -> None:
    save(BoostedGAM(df=5.5), tmp_path / "model.json")
    assert repr(load(tmp_path / "model.json")) == "BoostedGAM(df=5.5)"


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    save(BoostedGAM(), tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    assert document["format"] == "gpusolve.gam"
    assert document["version"] == 1
    assert document["model"]["class"] == "BoostedGAM"


def test_a_function_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    model = BoostedGAM(df=[4, np.sin])  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"model\.df\[1\] must be plain data.*sin.*pickle"
    ):
        save(model, tmp_path / "model.json")
    assert not list(tmp_path.iterdir())


@together(
    "value",
    [np.array([1j]), np.array(["2020-01-01"], "M8[D]"), {1, 2}, Path(), BoostedGAM],
    ids=repr,
)
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"x\.y must be plain data"):
        to_plain(value, "x.y")


def test_only_estimators_are_saved(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="model must be an estimator"):
        save({}, tmp_path / "model.json")  # type: ignore[arg-type]


@together(
    ("text", "message"),
    [
        ("not json", "must be a JSON file"),
        ("[1]", "must be a file that gpusolve.gam.save wrote"),
        ('{"format": "other"}', "must be a file that gpusolve.gam.save wrote"),
        (
            '{"format": "gpusolve.gam", "version": 2, "package": "9.1"}',
            "must have version 1 of the format, got 2; it was written by gpusolve 9.1",
        ),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "file")


@together("name", ["Nothing", "store.json", "nowhere.Path", "boost"])
def test_only_classes_of_the_package_are_made(name: str) -> None:
    with pytest.raises(ValueError, match=f"class must be .*, got '{name}'"):
        from_plain({"class": name})


# ---- learners and families -----------------------------------------------------------

TERMS = [
    bbs("x", knots=[0.2, 0.5], df=3),
    bbs("x", by="g", df=9),
    bbs("x", cyclic=True, boundary=(0, 1)),
    bmono("x", constraint="decreasing", knots=5),
    bols("g", contrasts="sum"),
    brandom("g"),
    bspatial("x", "z", knots=4),
    buser("x", "z", K=np.eye(2), df=1),
    (bols("x") + bols("z")) * bols("g"),
]


def mixed(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"x": rng.random(80), "z": rng.random(80), "g": rng.choice([*"abc"], 80)}


def private_classes(plain: Any) -> list[str]:
    """The classes of a document that are named with a private module."""
    if isinstance(plain, list):
        return [name for value in plain for name in private_classes(value)]
    if not isinstance(plain, dict):
        return []
    below = [name for value in plain.values() for name in private_classes(value)]
    name = str(plain.get("class", ""))
    return [*below, name] if name.startswith("_") or "._" in name else below


@together("family", [family() for family in FAMILIES.values()], ids=repr)
def test_families_are_stored(family: Family) -> None:
    plain = json.loads(json.dumps(to_plain(family, "family")))
    assert from_plain(plain) == family
    assert not private_classes(plain)


@together("term", TERMS, ids=repr)
def test_terms_are_stored(term: Term) -> None:
    for given in (term, term.learn(Frame.of(mixed()))):
        plain = json.loads(json.dumps(to_plain(given, "term")))
        assert from_plain(plain) == given
        assert not private_classes(plain)


def test_a_model_with_learners_of_all_kinds(tmp_path: Path) -> None:
    X, new = mixed(), mixed(1)
    y = np.random.default_rng(3).poisson(1 + 5 * X["x"])
    model = BoostedGAM(TERMS, family=NegativeBinomial(), max_iter=30, unknown="zero")
    model.fit(X, y, sample_weight=1 + X["z"])
    save(model, tmp_path / "model.json")
    loaded = load(tmp_path / "model.json")
    assert loaded.names_ == model.names_
    assert equal(loaded.predict(new), model.predict(new))
    assert equal(loaded.coefficients_, model.coefficients_)
    assert loaded.rug_["g"].tolist() == model.rug_["g"].tolist()
    assert not private_classes(json.loads((tmp_path / "model.json").read_text()))


@pytest.mark.parametrize("classes", [[3, 5], ["a", "b", "c"]])
def test_a_classifier(tmp_path: Path, classes: list[Any]) -> None:
    X, y = data()
    labels = np.array(classes)[
        np.digitize(y, np.quantile(y, [0.3, 0.6])) % len(classes)
    ]
    model = BoostedGAMClassifier(max_iter=9).fit(X, labels)
    save(model, tmp_path / "model.json")
    loaded = load(tmp_path / "model.json")
    assert equal(loaded.classes_, model.classes_)
    assert equal(loaded.predict_proba(X), model.predict_proba(X))
    assert equal(loaded.predict(X), model.predict(X))


def test_functions_of_the_user_are_refused(tmp_path: Path) -> None:
    custom = Custom("own", gradient=lambda y, f: y - f, loss=lambda y, f: (y - f) ** 2)
    for parameters, where in (
        ({"family": custom}, r"model\.family must be plain data.*own"),
        (
            {"learners": [buser(0, design=np.atleast_2d)]},
            r"model\.learners\[0\]\.design ",
        ),
    ):
        with pytest.raises(TypeError, match=where):
            save(BoostedGAM(**parameters), tmp_path / "model.json")
