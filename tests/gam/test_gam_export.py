"""Models as Python modules: the same bits, in a process that has NumPy only."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
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
    bmrf,
    bols,
    brad,
    brandom,
    bspatial,
    btree,
    buser,
    gamboost,
)
from gpusolve.gam.families import FAMILIES, Binomial, Custom

N = 120

LEARNERS = {
    "spline": bbs("x"),
    "knots": bbs("x", knots=[0.2, 0.5], degree=2, df=3),
    "repeated knots": bbs("x", knots_at="quantiles", end_knots="repeated"),
    "constant": bbs("one", df=1),
    "knots that round to the end": bbs("narrow", end_knots="repeated"),
    "cyclic": bbs("x", cyclic=True, boundary=(-1, 2)),
    "monotone": bmono("x", knots=5),
    "centred": bbs("x", center=True, df=3),
    "by numbers": bbs("x", by="z"),
    "by levels": bbs("x", by="g", df=9),
    "line": bols("x"),
    "lines": bols("x", "z", intercept=False),
    "levels": bols("g", contrasts="helmert"),
    "levels of numbers": brandom("h", df=1),
    "map": bspatial("x", "z", knots=4),
    "map by levels": bspatial("x", "z", by="g", knots=3, df=9),
    "user": buser("x", "z", K=np.eye(2), df=1),
    "sum": bols("x") + bbs("x", center=True, df=3),
    "stump": btree("x", bins=9),
    "regions": bmrf("g", neighbours={"a": "b", "b": "ac", "c": "b"}, df=2),
    "product": (bols("x") + bols("z")) * bols("g"),
    "parts of a product": bols("z") * bspatial("x", "z", degree=5, knots=3, df=9),
}


def data(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.random(N),
        "z": rng.normal(size=N),
        "g": rng.choice([*"abc"], N),
        "h": rng.choice([1, 2], N),
        "one": np.ones(N),
        "narrow": 1 + np.finfo(float).eps * rng.integers(0, 4, N),
    }


def response(d: dict[str, Any]) -> np.ndarray:
    f = np.sin(6 * d["x"]) + (d["g"] == "b") * d["z"] + d["x"] * d["z"]
    return np.asarray(f + 0.3 * np.random.default_rng(9).normal(size=N))


def beyond(d: dict[str, Any]) -> dict[str, Any]:
    """The data with values outside the ranges of the training data."""
    return d | {"x": 1.5 * d["x"] - 0.2, "z": 1.5 * d["z"]}


class Imported:
    """A module in a process that cannot import gpusolve, nor SciPy."""

    def __init__(self, model: Any, folder: Path) -> None:
        model.to_python(folder / "scorer.py")
        self.folder = folder

    def call(self, name: str, *arguments: Any) -> Any:
        (self.folder / "in").write_bytes(pickle.dumps(arguments))
        script = (
            "import sys, pickle\n"
            "sys.modules |= {'gpusolve': None, 'scipy': None}\n"
            "import scorer\n"
            "arguments = pickle.load(open('in', 'rb'))\n"
            f"pickle.dump(scorer.{name}(*arguments), open('out', 'wb'))"
        )
        run = subprocess.run(
            [sys.executable, "-c", script], cwd=self.folder, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        if run.returncode:
            raise RuntimeError(run.stderr)
        return pickle.loads((self.folder / "out").read_bytes())


def module(model: Any, folder: Path) -> dict[str, Any]:
    """The names of the module, in this process."""
    model.to_python(folder / "scorer.py")
    names: dict[str, Any] = {"__name__": "scorer"}
    exec((folder / "scorer.py").read_text(), names)
    return names


def equal(a: Any, b: Any) -> bool:
    return bool(a.dtype == b.dtype and a.tobytes() == b.tobytes())


def test_all_learners_in_another_process(tmp_path: Path) -> None:
    d = data()
    terms = [*LEARNERS.values()]
    model = BoostedGAM(terms, max_iter=300, learning_rate=0.5).fit(d, response(d))
    new = data(1)
    imported = Imported(model, tmp_path)
    assert equal(imported.call("predict", new), model.predict(new))
    shifted = model.predict(new, kind="link", offset=new["z"])
    assert equal(imported.call("predict_link", new, new["z"])[0], shifted)


@together("kind", LEARNERS)
@together("outside", ["linear", "clamp"])
def test_every_learner(kind: str, outside: Any, tmp_path: Path) -> None:
    d = data()
    model = BoostedGAM([LEARNERS[kind]], max_iter=20, outside=outside)
    model.fit(d, response(d))
    new = data(1) if kind == "cyclic" else beyond(data(1))
    assert equal(module(model, tmp_path)["predict"](new), model.predict(new))


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


WRITTEN = [
    "gaussian", "laplace", "quantile", "expectile", "huber", "binomial", "poisson",
    "negative_binomial", "gamma", "tweedie",
]  # fmt: skip
RESPONSES = {name: FAMILIES[name]() for name in WRITTEN} | {"logit": Binomial("logit")}


@pytest.mark.filterwarnings("ignore:the risk of the training data rose")
@together("family", RESPONSES)
def test_every_family_with_a_response_of_the_file(family: str, tmp_path: Path) -> None:
    d = data()
    y = np.random.default_rng(0).poisson(9, N) + 1
    if isinstance(RESPONSES[family], Binomial):
        y %= 2
    model = BoostedGAM([bbs("x")], family=RESPONSES[family], max_iter=20).fit(d, y)
    assert equal(module(model, tmp_path)["predict"](d), model.predict(d))


FAMILIES_OF_CLASSES = [Binomial(), Binomial("logit"), "multinomial"]


@together("family", FAMILIES_OF_CLASSES)
@together("classes", [[3, 5], ["a", "b", "c"]], ids=str)
def test_a_classifier(family: Any, classes: list[Any], tmp_path: Path) -> None:
    d = data()
    y = np.array(classes)[np.digitize(response(d), [0, 1][: len(classes) - 1])]
    model = BoostedGAMClassifier([bbs("x"), bols("g")], family=family, max_iter=20)
    model.fit(d, y)
    scorer, new = module(model, tmp_path), data(1)
    assert equal(scorer["predict"](new), model.predict(new))
    probabilities = scorer["predict_proba"](new)
    assert (probabilities == model.predict_proba(new)).all()


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


def test_offsets_of_the_rows_must_be_given(tmp_path: Path) -> None:
    d = data()
    model = BoostedGAM([bbs("x")], max_iter=5).fit(d, response(d), offset=d["z"])
    scorer = module(model, tmp_path)
    assert equal(scorer["predict"](d, d["z"]), model.predict(d, offset=d["z"]))
    with pytest.raises(ValueError, match="offset must be given"):
        scorer["predict"](d)


def test_missing_values_and_unknown_levels(tmp_path: Path) -> None:
    d = data()
    terms = [bbs("x"), bols("g"), bols("z") * bols("g"), brandom("h", df=1)]
    options = {"missing": "zero", "unknown": "zero"}
    model = BoostedGAM(terms, max_iter=50, **options).fit(d, response(d))
    new = data(1)
    new["x"][:3] = np.nan
    new["g"] = new["g"].astype(object)
    new["g"][5:8] = [None, "new", float("nan")]
    new["h"][9] = 7
    assert equal(module(model, tmp_path)["predict"](new), model.predict(new))

    strict = BoostedGAM(terms, max_iter=50).fit(d, response(d))
    scorer = module(strict, tmp_path)
    for name, value, message in (
        ("x", np.nan, "x must not have missing values"),
        ("x", np.inf, "x must be finite"),
        ("g", "new", r"g must have the levels \['a', 'b', 'c'\], got others"),
        ("g", None, "g must not have missing values"),
    ):
        bad = data(1)
        bad[name] = bad[name].astype(object if name == "g" else float)
        bad[name][4] = value
        with pytest.raises(ValueError, match=message):
            scorer["predict"](bad)


def test_ranges_that_must_be_kept(tmp_path: Path) -> None:
    d = data()
    for model in (
        BoostedGAM([bbs("x")], max_iter=5, outside="error"),
        BoostedGAM([LEARNERS["cyclic"]], max_iter=5),
    ):
        scorer = module(model.fit(d, response(d)), tmp_path)
        with pytest.raises(ValueError, match="x must be within"):
            scorer["predict"](d | {"x": 9 * d["x"]})


def test_only_learners_with_an_effect_are_written(tmp_path: Path) -> None:
    d = data()
    model = BoostedGAM([bols("x"), bols("z")], max_iter=30).fit(d, d["x"])
    names = [
        learner["name"] for learner in module(model, tmp_path)["MODEL"]["learners"]
    ]
    assert names == ["bols(x)"]
    scorer = module(BoostedGAM([bols("x")], max_iter=0).fit(d, d["x"]), tmp_path)
    assert scorer["predict"](d).tolist() == [d["x"].mean()] * N


def test_the_module_imports_numpy_alone(tmp_path: Path) -> None:
    model = BoostedGAM([bols("x")], max_iter=1).fit(data(), response(data()))
    model.to_python(tmp_path / "scorer.py")
    tree = ast.parse((tmp_path / "scorer.py").read_text())
    found = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else ["numpy"])
    }
    assert found <= {"__future__", "collections.abc", "functools", "typing", "numpy"}
    with pytest.raises(ValueError, match="predict_proba needs a model of classes"):
        module(model, tmp_path)["predict_proba"](data())


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    d, y = data(), response(data())
    own = Custom("own", gradient=lambda y, f: y - f, loss=lambda y, f: (y - f) ** 2)
    path = tmp_path / "scorer.py"
    with pytest.raises(ValueError, match=r"family must predict .*Custom\('own'\)"):
        BoostedGAM([bbs("x")], family=own, max_iter=3).fit(d, y).to_python(path)
    hurdle = BoostedGAM([bbs("x")], family="hurdle", max_iter=3)
    hurdle.fit(d, 1 + np.random.default_rng(0).poisson(3, N))
    with pytest.raises(ValueError, match=r"family must predict one of .*Hurdle"):
        hurdle.to_python(path)
    design = buser("x", design=lambda x: np.stack([x, x**2], axis=1), df=1)
    with pytest.raises(TypeError, match="design of buser"):
        BoostedGAM([design], max_iter=3).fit(d, y).to_python(path)
    with pytest.raises(TypeError, match=r"learners must be splines, .* got brad\(x, "):
        BoostedGAM([brad("x", knots=5)], max_iter=3).fit(d, y).to_python(path)
    assert not path.exists()
