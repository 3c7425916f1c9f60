"""Formulas: the transformations are patsy's, the learners are those written out."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import patsy
import pytest
from patsy.state import stateful_transform

from gpusolve.gam.expression import Expression
from gpusolve.gam.store import from_plain, to_plain

N = 40


def data(seed: int = 0, n: int = N) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.normal(3, 1, n),
        "t": rng.uniform(0.5, 2, n),
        "count": rng.integers(0, 9, n),
        "g": rng.choice(["a", "b", "c"], n),
        "a name": rng.random(n),
    }


@stateful_transform
class largest:  # noqa: N801
    """Divides by the largest value of the first data."""

    def __init__(self) -> None:
        self.value = -np.inf

    def memorize_chunk(self, x: np.ndarray) -> None:
        self.value = max(self.value, float(x.max()))

    def memorize_finish(self) -> None:
        pass

    def transform(self, x: np.ndarray) -> np.ndarray:
        return x / self.value


def doubled(x: np.ndarray) -> np.ndarray:
    return 2 * x


ORACLES = [
    "x",
    "np.log(t)",
    "x ** 2 + t",
    "I(x / t)",
    "center(x)",
    "standardize(center(x) * t)",
    "scale(x, ddof=1) - center(np.log(t))",
    "largest(x)",
    "doubled(x) + shift",
    "np.where(g == 'a', x, count)",
    "Q('a name') * 2",
    "abs(x - 3)",
]


@pytest.mark.parametrize("code", ORACLES)
def test_expressions_are_patsy_s(code: str) -> None:
    """Also with new data, for which the transforms keep what they learned."""
    shift = 7.5
    env = patsy.EvalEnvironment.capture(0)
    expression = Expression.learn(code, data(), env)
    design = patsy.dmatrix(f"I({code}) - 1", data(), env).design_info
    for seed in (0, 1):
        (expected,) = patsy.build_design_matrices([design], data(seed))
        result = np.asarray(expression.evaluate(data(seed)))
        np.testing.assert_array_equal(result, np.asarray(expected)[:, 0])
    assert shift == 7.5


@pytest.mark.parametrize("code", ORACLES)
def test_expressions_survive_pickling(code: str) -> None:
    shift = 7.5
    expression = Expression.learn(code, data(), patsy.EvalEnvironment.capture(0))
    loaded = pickle.loads(pickle.dumps(expression))
    for seed in (0, 1):
        np.testing.assert_array_equal(
            loaded.evaluate(data(seed)), expression.evaluate(data(seed))
        )
    assert shift == 7.5


@pytest.mark.parametrize("code", sorted(set(ORACLES) - {"doubled(x) + shift"}))
def test_expressions_survive_json(code: str) -> None:
    expression = Expression.learn(code, data(), patsy.EvalEnvironment.capture(0))
    if "largest" in code:
        with pytest.raises(TypeError, match=r"model\.values\.?.*largest"):
            to_plain(expression, "model")
        return
    plain = json.loads(json.dumps(to_plain(expression, "model"), allow_nan=False))
    loaded = from_plain(plain)
    for seed in (0, 1):
        np.testing.assert_array_equal(
            loaded.evaluate(data(seed)), expression.evaluate(data(seed))
        )


def test_common_functions_need_no_import() -> None:
    env = patsy.EvalEnvironment([{}])
    for name in ("log", "exp", "sqrt", "log1p"):
        expression = Expression.learn(f"{name}(t)", data(), env)
        assert not expression.values
        np.testing.assert_array_equal(
            expression.evaluate(data(1)), getattr(np, name)(data(1)["t"])
        )


def test_the_caller_s_names_come_before_the_common_ones() -> None:
    log = doubled
    env = patsy.EvalEnvironment.capture(0)
    result = Expression.learn("log(t)", data(), env).evaluate(data())
    np.testing.assert_array_equal(result, log(data()["t"]))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "log(xx)",
            r"log\(xx\) must use a column .*columns are x, t, count, g, a name",
        ),
        ("other", "other must use a column of the data"),
        ("x + xx", r"x \+ xx cannot be computed .*name 'xx' is not defined; the col"),
        ("Q('b name') + x", "no data named 'b name' found; the columns are x, t,"),
        ("log(g)", r"log\(g\) cannot be computed from the data: "),
    ],
)
def test_errors_name_the_expression_and_the_columns(code: str, message: str) -> None:
    other = np.arange(N)
    with pytest.raises(ValueError, match=message):
        Expression.learn(code, data(), patsy.EvalEnvironment.capture(0)).evaluate(
            data()
        )
    assert len(other) == N


def test_a_column_that_new_data_lack() -> None:
    expression = Expression.learn("log(t)", data(), patsy.EvalEnvironment([{}]))
    new: dict[str, Any] = {"x": np.zeros(3)}
    with pytest.raises(ValueError, match=r"log\(t\) cannot .*the columns are x$"):
        expression.evaluate(new)
