"""Kernel learners, against scikit-learn's kernel ridge and SciPy."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from same_steps import assert_same_steps
from scipy.optimize import brentq
from scipy.spatial.distance import cdist
from together import together

from gpusolve.gam import BoostedGAM
from gpusolve.gam._terms.dense import KERNELS, distances, spread_points
from gpusolve.gam._terms.frame import Frame
from gpusolve.gam.terms import bkernel, bols, brad

kernels = pytest.importorskip("sklearn.gaussian_process.kernels")
ridge = pytest.importorskip("sklearn.kernel_ridge")

Floats = NDArray[np.float64]

N = 60

ORACLES = {
    "rbf": lambda scale: kernels.RBF(scale),
    "exponential": lambda scale: kernels.Matern(scale, nu=0.5),
    "matern": lambda scale: kernels.Matern(np.sqrt(3) * scale, nu=1.5),
}
"""scikit-learn's kernels with the same values."""


@pytest.fixture
def data(rng: np.random.Generator) -> dict[str, Any]:
    d = {"x": rng.uniform(0, 3, N), "z": rng.uniform(-1, 1, N)}
    d["y"] = np.sin(3 * d["x"]) * d["z"] + 0.1 * rng.standard_normal(N)
    return d


def points(d: Any) -> Floats:
    return np.column_stack([d["x"], d["z"]])


def polynomial(a: Floats, b: Floats) -> Floats:
    """A kernel of six dimensions: its matrix of 60 rows is singular."""
    return np.asarray((1 + a @ b.T) ** 2)


@together("name", [*ORACLES, "callable"])
def test_with_a_knot_at_every_row_a_fit_is_kernel_ridge_regression(
    name: str, data: Any
) -> None:
    scale, lambda_ = 0.7, 0.3
    kernel = polynomial if name == "callable" else name
    term = bkernel("x", "z", kernel=kernel, knots=N, scale=scale, lambda_=lambda_)
    model = BoostedGAM([term], max_iter=1, learning_rate=1.0)
    model.fit(data, data["y"])
    oracle = polynomial if name == "callable" else ORACLES[name](scale)
    X, y = points(data), data["y"] - data["y"].mean()
    alpha = np.linalg.solve(oracle(X, X) + lambda_ * np.eye(N), y)
    new = {"x": np.linspace(-1, 4, 9), "z": np.linspace(-2, 1, 9)}
    found = model.effects(new)[:, 0]
    np.testing.assert_allclose(found, oracle(points(new), X) @ alpha, rtol=1e-6)
    if name == "rbf":
        given = ridge.KernelRidge(alpha=lambda_, kernel="rbf", gamma=0.5 / scale**2)
        expected = given.fit(X, y).predict(points(new))
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_fewer_knots_span_the_functions_with_their_norm(data: Any) -> None:
    """mboost's brad: the columns k(x, knots) K^-1/2, a ridge, and lambda from df."""
    term = brad("x", "z", knots=12, df=5).learn(Frame.of(data))
    knots = np.array(term.positions)
    scale = np.hypot(*np.ptp(points(data), axis=0)) / KERNELS["matern"].reach
    oracle = ORACLES["matern"](scale)
    values, vectors = np.linalg.eigh(oracle(knots, knots))
    X = oracle(points(data), knots) @ (vectors / np.sqrt(values)) @ vectors.T
    np.testing.assert_allclose(term.rows(Frame.of(data)).dense(), X, atol=1e-10)
    model = BoostedGAM([brad("x", "z", knots=12, df=5)]).fit(data, data["y"])
    G = X.T @ X

    def df(log_lambda: float) -> float:
        S = np.linalg.solve(G + np.exp(log_lambda) * np.eye(12), G)
        return float(np.trace(2 * S - S @ S))

    expected = np.exp(brentq(lambda e: df(e) - 5, -15, 15))
    assert model.lambda_[0] == pytest.approx(expected, rel=1e-6)


@together("name", KERNELS)
def test_kernels_reach_a_thousandth(name: str) -> None:
    kernel = KERNELS[name]
    expected = brentq(lambda d: float(kernel.value(np.array(d))) - 0.001, 0.1, 100)
    assert kernel.reach == pytest.approx(expected, rel=1e-10)
    assert kernel.value(np.zeros(1)) == 1


def test_knots_are_rows_that_cover_the_data(rng: np.random.Generator) -> None:
    X = rng.random((14, 2))

    def radius(chosen: Floats) -> float:
        return float(cdist(X, chosen).min(axis=1).max())

    for count in (1, 2, 3):
        best = min(radius(X[[*some]]) for some in combinations(range(14), count))
        found = spread_points(X, count)
        assert {*map(tuple, found)} <= {*map(tuple, X)}
        assert radius(found) <= 2 * best
    assert len(spread_points(np.ones((5, 2)), 3)) == 1
    np.testing.assert_allclose(distances(X, X[:3]), cdist(X, X[:3]), atol=1e-15)


def test_missing_values_are_rows_of_zeros(data: Any) -> None:
    d = data | {"z": np.where(np.arange(N) < 10, np.nan, data["z"])}
    rest = {name: column[10:] for name, column in d.items()}
    options = {"max_iter": 20, "missing": "zero"}
    offset = {"offset": 0.0}
    found = BoostedGAM([brad("x", "z", knots=9)], **options)
    found.fit(d, d["y"], **offset)
    part = BoostedGAM([brad("x", "z", knots=9)], **options)
    part.fit(rest, rest["y"], **offset)
    np.testing.assert_allclose(
        found.coefficients_, part.coefficients_, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_array_equal(found.effects(d)[:10], 0)


def test_device_kernels_take_the_steps_of_the_host(
    device_backend: Any, data: Any
) -> None:
    terms = [brad("x", "z", knots=20), bkernel("x", by="z", knots=9), bols("z")]

    def fitted(device: str) -> BoostedGAM:
        return BoostedGAM(terms, max_iter=8, device=device).fit(data, data["y"])

    assert_same_steps(fitted, device_backend)


def test_given_knots_are_kept(data: Any) -> None:
    one = bkernel("x", knots=[0.0, 1.0, 2.5]).learn(Frame.of(data))
    assert one.positions == ((0.0,), (1.0,), (2.5,))
