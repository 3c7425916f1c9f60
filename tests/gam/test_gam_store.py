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
    buser,
    load,
    save,
)
from gpusolve.gam._model.store import from_plain, to_plain
from gpusolve.gam.families import Custom

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


# ---- learners and families -----------------------------------------------------------


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
