"""Paths of Tikhonov's penalty against closed forms, scans and SciPy's roots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from together import together

import gpusolve

Array = NDArray[Any]

ROWS, VARIABLES, SYSTEMS = 14, 8, 3
LAMBDAS = np.geomspace(1e-4, 1e3, 15)
FREE = (-np.inf, np.inf)


def systems(rng: Generator, noise: float = 0.1) -> tuple[Array, Array]:
    """Blurred curves that are not negative, with noise."""
    rows, places = np.linspace(0, 1, ROWS), np.linspace(0, 1, VARIABLES)
    A = np.exp(-0.5 * ((rows[:, None] - places) / 0.2) ** 2)
    x = np.maximum(0, 0.5 + rng.standard_normal((SYSTEMS, VARIABLES)).cumsum(axis=-1))
    return A, x @ A.T + noise * rng.standard_normal((SYSTEMS, ROWS))


class OnHost:
    """A path whose arrays are NumPy's."""

    def __init__(self, backend: Any, path: Any) -> None:
        self.backend = backend
        self.path = path

    def __getattr__(self, name: str) -> Any:
        return self.backend.numpy(getattr(self.path, name))

    def choose(self, *args: Any, **given: Any) -> Any:
        return self.backend.call(self.path.choose, *args, **given)


def solve(backend: Any, *args: Any, **given: Any) -> Any:
    path = backend.call(gpusolve.regularization_path, *args, **given)
    return OnHost(backend, path)


class Ridge:
    """The closed form of a ridge regression by the filter factors of the SVD."""

    def __init__(self, A: Array, b: Array) -> None:
        self.U, self.s, self.Vt = np.linalg.svd(A, full_matrices=False)
        self.b = b

    def filters(self, lam: float) -> Array:
        return self.s**2 / (self.s**2 + lam)

    def x(self, lam: float) -> Array:
        return (self.s / (self.s**2 + lam) * (self.b @ self.U)) @ self.Vt

    def rnorm(self, lam: float) -> Array:
        outside = self.b - self.b @ self.U @ self.U.T
        inside = (1 - self.filters(lam)) * (self.b @ self.U)
        return np.sqrt((outside**2).sum(-1) + (inside**2).sum(-1))

    def gcv(self, lam: float) -> Array:
        m = self.b.shape[-1]
        return m * self.rnorm(lam) ** 2 / (m - self.filters(lam).sum()) ** 2


@together("dependent", [False, True])
def test_filter_factors(backend: Any, rng: Generator, dependent: bool) -> None:
    A, b = systems(rng)
    if dependent:
        A[:, 2], A[:, 4], A[:, 5] = A[:, 0] - A[:, 1], 3 * A[:, 3], 0
    path, ridge = solve(backend, A, b, "identity", LAMBDAS, FREE), Ridge(A, b)
    assert_array_equal(path.lambdas, LAMBDAS)
    assert_array_equal(path.status, np.zeros((15, SYSTEMS)))
    for k, lam in enumerate(LAMBDAS):
        x = ridge.x(lam)
        assert_allclose(path.x[k], x, rtol=1e-9, atol=1e-10)
        assert_allclose(path.rnorm[k], ridge.rnorm(lam), rtol=1e-10)
        size = np.linalg.norm(x, axis=-1)
        assert_allclose(path.seminorm[k], size, rtol=1e-9)
        freedom = np.full(SYSTEMS, ridge.filters(lam).sum())
        assert_allclose(path.degrees_of_freedom[k], freedom, rtol=1e-10)
        assert_allclose(path.gcv[k], ridge.gcv(lam), rtol=1e-9)


# ---- the choice ----------------------------------------------------------------------


@together("bounds", [FREE, (0, np.inf)])
def test_the_choices_are_those_of_a_scan(
    backend: Any, rng: Generator, bounds: tuple[float, float]
) -> None:
    A, b = systems(rng)
    lambdas = rng.permutation(LAMBDAS)
    path = solve(backend, A, b, "identity", lambdas, bounds)
    of_gcv, of_noise = path.choose("gcv"), path.choose("discrepancy", sigma=0.12)
    for system in range(SYSTEMS):
        scores, within = [], []
        for lam in lambdas:
            x = gpusolve.lsq_linear(A, b[system], bounds, L="identity", lam=lam).x
            free = (x > bounds[0]) & (x < bounds[1])
            F = A[:, free]
            fitted = np.trace(
                F @ np.linalg.solve(F.T @ F + lam * np.eye(free.sum()), F.T)
            )
            misfit = ((b[system] - A @ x) ** 2).sum()
            scores.append(misfit / (ROWS - fitted) ** 2)
            within.append(misfit <= ROWS * 0.12**2)
        assert of_gcv[system] == np.argmin(scores)
        assert lambdas[of_noise[system]] == lambdas[within].max()


def test_chi2(backend: Any, rng: Generator) -> None:
    A, b = systems(rng)
    weights = np.full(ROWS, 100.0)
    weights[3] = 0
    path = solve(backend, A, b, "second", LAMBDAS, weights=weights)
    chosen = path.choose("chi2")
    assert_array_equal(chosen, path.choose("chi2", ROWS - 1))
    assert_array_equal(chosen, path.choose("discrepancy", np.sqrt(ROWS - 1.0)))
    assert_array_equal(chosen, path.choose("discrepancy", sigma=1.0))
    chi2 = path.rnorm**2
    for system, k in enumerate(chosen):
        assert chi2[k, system] <= ROWS - 1 < chi2[k + 1, system]
    assert_array_equal(path.choose("chi2", 0.0), np.zeros(SYSTEMS))
    assert_array_equal(path.choose("chi2", 1e9), np.full(SYSTEMS, 14))


def test_the_corner_of_the_l_curve(backend: Any) -> None:
    """The curvature of Hansen's formula, for a Picard plot with a clear corner."""
    s = np.geomspace(1, 1e-6, 24)
    b = s * s**0.5 + 1e-4 * np.cos(np.arange(24.0) ** 2)
    lambdas = np.geomspace(1e-11, 1e1, 61)
    path = solve(backend, np.diag(s), b, "identity", lambdas, FREE)

    def exact(lam: float) -> float:
        """From the derivatives of ``log rnorm`` and ``log seminorm`` by ``log lam``."""
        f = s**2 / (s**2 + lam)
        square, left = (f * b / s) ** 2, (1 - f) ** 2 * b**2
        eta, rho = square.sum(), left.sum()
        first = -2 * (square * (1 - f)).sum()
        second = -2 * (square * (1 - f) * (f - 2 * (1 - f))).sum()
        y, dy = first / eta, second / eta - (first / eta) ** 2
        x = -lam * first / rho
        dx = -lam * (first + second) / rho - x**2
        return float(2 * (x * dy - y * dx) / (x**2 + y**2) ** 1.5)

    expected = np.array([exact(lam) for lam in lambdas])
    corner = path.choose("l_curve")
    assert abs(corner - expected.argmax()) <= 1
    inside = slice(15, 45)
    assert_allclose(path.curvature[inside], expected[inside], rtol=0.1)


def test_the_solutions_of_a_choice(backend: Any, rng: Generator) -> None:
    A, b = systems(rng)
    given: dict[str, Any] = {"weights": 0.5 + rng.random(ROWS)}
    path = solve(backend, A, b, "first", LAMBDAS, **given)
    index = np.array([3, 0, 14])
    found = backend.call(path.path.at, index)
    expected = gpusolve.nnls(A, b, L="first", lam=LAMBDAS[index], **given)
    for name in ("x", "rnorm", "seminorm", "residual", "dual", "status"):
        value = backend.numpy(getattr(found, name))
        assert_allclose(value, getattr(expected, name), atol=1e-10)
    for value, other in (
        (found.variance(), expected.variance()),
        (found.vjp(found.x).lam, expected.vjp(expected.x).lam),
    ):
        assert_allclose(backend.numpy(value), other, rtol=1e-7, atol=1e-10)
    assert_array_equal(backend.numpy(path.path.at(3).x), path.x[3])


def test_labels(rng: Generator) -> None:
    A, b = systems(rng)
    columns, index = list("abcdefgh"), list("rst")
    frames = pd.DataFrame(A, columns=columns), pd.DataFrame(b, index=index)
    path = gpusolve.regularization_path(*frames, "first", LAMBDAS)
    expected = gpusolve.regularization_path(A, b, "first", LAMBDAS)
    assert list(path.gcv.columns) == list(path.curvature.columns) == index
    chosen = path.choose("gcv")
    best, plain = path.at(chosen), expected.at(chosen)
    pd.testing.assert_frame_equal(best.x, pd.DataFrame(plain.x, index, columns))
    pd.testing.assert_series_equal(
        best.rnorm, pd.Series(plain.rnorm, index, name="rnorm")
    )


def test_the_plot(rng: Generator) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    path = gpusolve.regularization_path(*systems(rng), "first", LAMBDAS)
    chosen = path.choose("gcv")
    (axis,) = path.plot(1, gcv=chosen, mine=3).axes
    curve, gcv, mine = axis.lines
    assert_array_equal(curve.get_xdata(), path.rnorm[:, 1])
    assert_array_equal(curve.get_ydata(), path.seminorm[:, 1])
    assert_array_equal(gcv.get_xdata(), path.rnorm[[chosen[1]], 1])
    assert_array_equal(mine.get_ydata(), path.seminorm[[3], 1])
    assert mine.get_label() == f"mine: {LAMBDAS[3]:.2g}"
    assert axis.get_xscale() == axis.get_yscale() == "log"
    plt.close("all")
