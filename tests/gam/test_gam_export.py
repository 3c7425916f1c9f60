"""Models as Python modules and as JSON files: the same bits, and clear errors."""

from __future__ import annotations

import ast
import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gam_models import LEARNERS as EVERY
from gam_models import SINGLE, columns, draw
from together import together

from gpusolve.gam import (
    BoostedGAM,
    BoostedGAMClassifier,
    bbs,
    bols,
    brandom,
    bspatial,
    gamboost,
    load,
    save,
)
from gpusolve.gam.families import Binomial, Gaussian, Multinomial

N = 120

LEARNERS = {
    "constant": bbs("one", df=1),
    "knots that round to the end": bbs("narrow", end_knots="repeated"),
    "levels of numbers": brandom("h", df=1),
    "map by levels": bspatial("x", "z", by="g", knots=3, df=13),
    "parts of a product": bols("z") * bspatial("x", "z", degree=5, knots=3, df=9),
    **{str(term): term for term in EVERY if not re.search("brad|bkernel", str(term))},
}


def data(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    narrow = 1 + np.finfo(float).eps * rng.integers(0, 4, N)
    return columns(N, seed) | {"one": np.ones(N), "narrow": narrow}


def response(d: dict[str, Any]) -> np.ndarray:
    f = np.sin(6 * d["x"]) + (d["g"] == "b") * d["z"] + d["x"] * d["z"]
    return np.asarray(f + 0.3 * np.random.default_rng(9).normal(size=N))


def module(model: Any, folder: Path) -> dict[str, Any]:
    """The names of the module, in this process."""
    model.to_python(folder / "scorer.py")
    names: dict[str, Any] = {"__name__": "scorer"}
    exec((folder / "scorer.py").read_text(), names)
    return names


def equal(a: Any, b: Any) -> bool:
    return bool(a.dtype == b.dtype and a.tobytes() == b.tobytes())


WRITTEN = {
    "gaussian", "laplace", "quantile", "expectile", "huber", "binomial", "poisson",
    "negative_binomial", "gamma", "tweedie",
}  # fmt: skip
"""The families whose responses a module computes."""

TERMS = [*LEARNERS.values()]
CLASSES = product([Binomial(), Binomial("logit"), "multinomial"], [2, 3])

MODELS: list[tuple[Any, Any]] = [
    *((BoostedGAM([bbs("x")], family=f), f) for f in SINGLE if f.name in WRITTEN),
    *((BoostedGAM([term]), Gaussian()) for term in TERMS),
    *((BoostedGAM([term], outside="clamp"), Gaussian()) for term in TERMS),
    *((BoostedGAMClassifier([bbs("x")], family=f), Multinomial(k)) for f, k in CLASSES),
]
"""Models, and the families of their responses."""


@pytest.mark.filterwarnings("ignore:the risk of the training data rose")
@together(("model", "family"), MODELS, ids=str)
def test_a_module_predicts_the_bits_of_the_model(
    model: Any, family: Any, tmp_path: Path
) -> None:
    d, new, classes = data(), data(1), isinstance(family, Multinomial)
    y = draw(family, response(d))
    y = np.array([*"abc"])[y.astype(int)] if classes else y
    model.set_params(max_iter=9).fit(d, y)
    if "cyclic" not in str(model.learners):  # beyond the range
        new |= {"x": 1.5 * new["x"] - 0.2, "z": 1.5 * new["z"]}
    scorer = module(model, tmp_path)
    assert equal(scorer["predict"](new), model.predict(new))
    if classes:
        assert (scorer["predict_proba"](new) == model.predict_proba(new)).all()
    else:
        link = model.predict(new, kind="link", offset=new["z"])
        assert equal(scorer["predict_link"](new, new["z"])[0], link)


def test_matrices_and_data_frames(tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((N, 4))
    y = np.sin(6 * X[:, 2]) + X[:, 0]
    for learners in (None, [bbs(2), bols(0)]):
        model = BoostedGAM(learners, max_iter=20).fit(X, y)
        scorer = module(model, tmp_path)
        for new in (X, X.astype(np.float32), X.tolist()):
            assert equal(scorer["predict"](new), model.predict(new))
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 2], "g": np.resize([*"uvw"], N)})
    frame["g"] = frame["g"].astype("category")
    model = BoostedGAM(max_iter=20).fit(frame, y)
    scorer = module(model, tmp_path)
    for new in (frame, frame[:1]):
        assert equal(scorer["predict"](new), model.predict(new))
    reordered = scorer["predict"](frame[["g", "b", "a"]])
    assert equal(reordered, model.predict(frame))


def test_offsets_of_a_formula_must_be_given(tmp_path: Path) -> None:
    d = data() | {"t": np.full(N, 3.0)}
    d["y"] = np.random.default_rng(0).poisson(3, N)
    model = gamboost(
        "y ~ bbs(x) + bols(np.exp(z)) + offset(log(t))", d, family="poisson"
    )
    scorer = module(model, tmp_path)
    columns = {"x": d["x"], "np.exp(z)": np.exp(d["z"])}
    found = scorer["predict"](columns, np.log(d["t"]))
    assert equal(found, model.predict(d))
    with pytest.raises(ValueError, match="offset must be given"):
        scorer["predict"](columns)


def test_missing_values_and_unknown_levels(tmp_path: Path) -> None:
    """`test_gam_invalid` has the errors of the others."""
    d, new = data(), data(1)
    terms = [bbs("x"), bols("g"), bols("z") * bols("g"), brandom("h", df=1)]
    options = {"missing": "zero", "unknown": "zero"}
    model = BoostedGAM(terms, max_iter=50, **options).fit(d, response(d))
    new["x"][:3] = np.nan
    new["g"] = new["g"].astype(object)
    new["g"][5:8] = [None, "new", float("nan")]
    new["h"][9] = 7
    assert equal(module(model, tmp_path)["predict"](new), model.predict(new))


def test_a_module_has_the_learners_with_an_effect_and_imports_numpy(
    tmp_path: Path,
) -> None:
    d = data()
    model = BoostedGAM([bols("x"), bols("z")], max_iter=30).fit(d, d["x"])
    learners = module(model, tmp_path)["MODEL"]["learners"]
    assert [learner["name"] for learner in learners] == ["bols(x)"]
    imports = {
        name
        for node in ast.walk(ast.parse((tmp_path / "scorer.py").read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else ["numpy"])
    }
    assert imports <= {"__future__", "collections.abc", "functools", "typing", "numpy"}
    scorer = module(BoostedGAM([bols("x")], max_iter=0).fit(d, d["x"]), tmp_path)
    assert scorer["predict"](d).tolist() == [d["x"].mean()] * N


# ---- JSON files ----------------------------------------------------------------------


VALUES: list[Any] = [
    *(None, True, 3, -0.0, 0.1, 5e-324, float("inf"), "naïve ☃", [1, [2.5, None]]),
    *((1, ("a", 2.0)), {"a": 1, ("lon", "lat"): (1.0, {}), 3: []}, {"class": "dict"}),
    *(np.array([[0.1, -0.0], [np.nan, -np.inf]]), np.float32([0.1, 1e-45, 3e38])),
    *(np.arange(4, dtype=np.longdouble) / 3, np.zeros((0, 24)), np.array(7.0)),
    *(np.arange(3, dtype=np.int32), np.array([True, False]), np.array(["yes", "no"])),
    np.array(["age", 3, ("a", 1)], dtype=object),
]
"""Their representations differ if types, shapes or bits differ."""


@together("value", VALUES, ids=repr)
def test_values_return_from_json(value: Any, tmp_path: Path) -> None:
    """As a parameter of a model."""
    save(BoostedGAM(df=value), tmp_path / "model.json")
    found: Any = load(tmp_path / "model.json").df
    assert (type(found), repr(found)) == (type(value), repr(value))
    if isinstance(value, np.ndarray):
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value)


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    save(BoostedGAM(df=5.5), tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    assert (document["format"], document["version"]) == ("gpusolve.gam", 1)
    assert document["model"]["class"] == "BoostedGAM"


def test_nothing_is_written_if_a_part_cannot_be(tmp_path: Path) -> None:
    """`test_gam_invalid` has what cannot be written."""
    model = BoostedGAM(df=3, max_iter=0, family="hurdle")
    model.fit([[1], [2]], [1, 2])
    with pytest.raises(ValueError, match="family must predict"):
        model.to_python(tmp_path / "scorer.py")
    with pytest.raises(TypeError, match="df must be plain data"):
        save(model.set_params(df=np.sin), tmp_path / "model.json")
    assert not [*tmp_path.iterdir()]
