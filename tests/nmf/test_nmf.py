"""gpusolve.NMF against scikit-learn, the objective's definition and known factors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from gpusolve import NMF
from gpusolve._nmf.matrix import Matrix
from gpusolve._nmf.sweeps import Penalty, Rows

pytestmark = pytest.mark.filterwarnings("ignore:.*max_iter")


@pytest.fixture(name="X")
def noisy_product(rng: np.random.Generator) -> np.ndarray:
    """A noisy product of four components."""
    clean = rng.random((30, 4)) ** 3 @ rng.random((4, 20)) ** 3
    return clean * (1 + 0.3 * rng.random(clean.shape))


def objective(
    X: Any, W: Any, H: Any, alpha_W: float = 0, alpha_H: float = 0, ratio: float = 0
) -> float:
    """The objective, as scikit-learn defines it."""
    rows, columns = X.shape
    total = ((X - W @ H) ** 2).sum() / 2
    for size, alpha, F in ((columns, alpha_W, W), (rows, alpha_H, H)):
        total += size * alpha * (ratio * abs(F).sum() + (1 - ratio) * (F**2).sum() / 2)
    return float(total)


def test_the_objective_never_rises(X: np.ndarray) -> None:
    """From half-sweep to half-sweep: (W, H), then (W, next H), then the next W."""
    options = {"tol": 0, "alpha_W": 1e-3, "alpha_H": 2e-3, "l1_ratio": 0.4}
    weights = options["alpha_W"], options["alpha_H"], options["l1_ratio"]
    values, W = [], None
    for sweeps in range(1, 12):
        model = NMF(4, init="random", random_state=0, max_iter=sweeps, **options)
        following = model.fit_transform(X)
        if W is not None:
            values.append(objective(X, W, model.components_, *weights))
        W = following
        values.append(objective(X, W, model.components_, *weights))
    assert (np.diff(values) <= 1e-14 * values[0]).all()
    assert values[-1] < values[0]


def test_separable_data_are_recovered(rng: np.random.Generator) -> None:
    """Each component has a feature, and a sample, of its own."""
    H = np.hstack([np.eye(3), rng.random((3, 9))])
    W = np.vstack([np.eye(3), rng.random((12, 3))])
    model = NMF(3, init="nndsvd", tol=1e-12, max_iter=3000, random_state=0)
    found = model.fit_transform(W @ H)
    assert model.reconstruction_err_ < 1e-8
    order = found[:3].argmax(axis=1)
    np.testing.assert_allclose((found / found.max(axis=0))[:, order], W, atol=1e-7)


@pytest.mark.parametrize(
    ("alphas", "ratio"),
    [((0.0, 0.0), 0.0), ((1e-3, 4e-3), 0.0), ((1e-3, 4e-3), 0.5), ((1e-3, 4e-3), 1.0)],
)
def test_is_as_good_as_scikit_learn(
    X: np.ndarray, alphas: tuple[float, float], ratio: float
) -> None:
    """From scikit-learn's stationary point, no sweep finds a lower objective."""
    sklearn = pytest.importorskip("sklearn.decomposition")
    options = {"alpha_W": alphas[0], "alpha_H": alphas[1], "l1_ratio": ratio}
    peer = sklearn.NMF(4, init="nndsvda", tol=1e-9, max_iter=20_000, **options)
    theirs = objective(X, peer.fit_transform(X), peer.components_, *alphas, ratio)
    model = NMF(4, init="custom", tol=0, max_iter=20, **options)
    W = model.fit_transform(X, H=peer.components_)
    ours = objective(X, W, model.components_, *alphas, ratio)
    assert ours <= theirs * (1 + 1e-12)
    assert ours >= theirs * (1 - 1e-4)


def test_missing_entries_have_weight_zero(
    X: np.ndarray, rng: np.random.Generator
) -> None:
    known = rng.random(X.shape) > 0.3
    model = NMF(3, random_state=0, max_iter=10)
    masked = model.fit_transform(X, weights=known)
    holes = model.fit_transform(np.where(known, X, np.nan))
    np.testing.assert_array_equal(masked, holes)
    error = np.sqrt(((X - holes @ model.components_)[known] ** 2).sum())
    assert model.reconstruction_err_ == pytest.approx(error)


def test_weights_of_one_change_nothing(X: np.ndarray) -> None:
    model = NMF(3, random_state=0, max_iter=10)
    plain = model.fit_transform(X)
    np.testing.assert_allclose(
        model.fit_transform(X, weights=np.ones(20)), plain, rtol=1e-8, atol=1e-10
    )


def test_rows_and_columns_without_entries_get_zeros(X: np.ndarray) -> None:
    X[3], X[:, 5] = np.nan, np.nan
    model = NMF(3, random_state=0, max_iter=5)
    W = model.fit_transform(X)
    assert (W[3] == 0).all()
    assert (model.components_[:, 5] == 0).all()
    assert np.isfinite(W).all()


@pytest.mark.parametrize("kind", ["csr_array", "csc_matrix", "coo_array"])
def test_sparse_matrices_give_the_same_factors(
    X: np.ndarray, rng: np.random.Generator, kind: str
) -> None:
    X = np.where(rng.random(X.shape) < 0.3, X, 0)
    model = NMF(3, random_state=0, max_iter=10)
    W = model.fit_transform(X)
    error = model.reconstruction_err_
    sparse = model.fit_transform(getattr(scipy.sparse, kind)(X))
    np.testing.assert_allclose(sparse, W, rtol=1e-8, atol=1e-10)
    assert model.reconstruction_err_ == pytest.approx(error)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_transform_is_the_last_half_sweep(X: np.ndarray, dtype: str) -> None:
    X = X.astype(dtype)
    model = NMF(4, random_state=0, max_iter=10)
    W = model.fit_transform(X)
    assert W.dtype == model.components_.dtype == dtype
    tolerance = 100 * np.finfo(dtype).eps
    np.testing.assert_allclose(model.transform(X), W, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(model.inverse_transform(W), W @ model.components_)


def test_the_sweeps_end_at_the_tolerance(X: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = NMF(4, tol=1e-2, max_iter=1000, random_state=0).fit(X)
    assert model.n_iter_ < 1000
    with pytest.warns(UserWarning, match="max_iter"):
        NMF(4, tol=1e-9, max_iter=1).fit(X)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_slope_is_that_of_the_objective(
    X: np.ndarray, rng: np.random.Generator, weighted: bool
) -> None:
    """By central differences, which are exact for a quadratic objective."""
    W, H = 1 + rng.random((30, 4)), rng.random((4, 20))
    weights = rng.random(X.shape) if weighted else np.ones(X.shape)

    def value(W: Any) -> float:
        fit = (weights * (X - W @ H) ** 2).sum() / 2
        return float(fit + 3 * W.sum() + 5 * (W**2).sum() / 2)

    steps = np.eye(W.size).reshape(-1, *W.shape) / 2
    expected = sum(abs(value(W + step) - value(W - step)) for step in steps)
    rows = Rows.of(Matrix(X, weights if weighted else None), H, Penalty(3, 5))
    assert rows.slope(W) == pytest.approx(expected, rel=1e-9)
    assert Rows.of(Matrix(0 * X), H, Penalty(3, 5)).slope(0 * W) == 0


@pytest.mark.slow
def test_follows_the_conventions_of_scikit_learn() -> None:
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = checks.check_estimator(NMF(max_iter=20), on_fail=None)
    failed = [item["check_name"] for item in results if item["status"] == "failed"]
    assert failed == []
    assert len(results) > 40


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"n_components": 0}, "n_components must be 1 or more, got 0"),
        ({"init": "svd"}, "init must be one of"),
        ({"tol": -1.0}, "tol must be finite and >= 0, got -1.0"),
        ({"alpha_H": -1.0}, "alpha_H must be finite and >= 0"),
        ({"l1_ratio": 2.0}, "l1_ratio must be at most 1"),
        ({"init": "custom"}, "needs H"),
        ({"n_components": 25, "init": "nndsvd"}, "n_components must be at most 20"),
    ],
)
def test_wrong_parameters_are_refused(
    X: np.ndarray, options: dict[str, Any], error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        NMF(**options).fit(X)


def test_wrong_data_are_refused(X: np.ndarray) -> None:
    with pytest.raises(ValueError, match="Negative values in data: X must be >= 0"):
        NMF(2).fit(-X)
    with pytest.raises(ValueError, match="weights must broadcast to shape"):
        NMF(2).fit(X, weights=np.ones(7))
    with pytest.raises(ValueError, match="weights must be None for a sparse X"):
        NMF(2).fit(scipy.sparse.csr_array(X), weights=X)
    with pytest.raises(ValueError, match="H must have shape"):
        NMF(2, init="custom").fit(X, H=np.ones((3, 20)))
    with pytest.raises(TypeError, match="max_iter must be an integer"):
        NMF(2, max_iter=2.5).fit(X)
