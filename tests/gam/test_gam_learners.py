"""Gram matrices, degrees of freedom and smoothing parameters, by their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from spline_learners import SplineLearners, boost, prepared
from together import together

from gpusolve._device import threads
from gpusolve._device.arrays import on_host
from gpusolve.gam import BoostedGAM, bbs
from gpusolve.gam._boosting import smoothing
from gpusolve.gam._boosting.problem import designs_of, prepare
from gpusolve.gam._boosting.smoothing import (
    shrunken,
    smoothing_parameters,
    solve_lambda,
)
from gpusolve.gam._terms.basis import BSplines, CompactBasis, penalty_matrix
from gpusolve.gam._terms.frame import Frame
from gpusolve.reference import degrees_of_freedom, smoothing_parameter

KINDS = [("difference", 1), ("difference", 2), ("difference", 3), ("ridge", 0),
         ("cyclic", 2)]  # fmt: skip


def basis_of(X: Any, n_basis: int, degree: int = 3) -> CompactBasis:
    return BSplines.spanning(X, n_basis, degree).evaluate(X)


@pytest.fixture
def X(rng: np.random.Generator) -> np.ndarray:  # noqa: N802
    return np.column_stack([rng.random((150, 3)), rng.standard_normal((150, 2)) * 1e3])


@pytest.fixture
def weights(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 4, 150).astype(float)


def gram_of(learners: SplineLearners) -> np.ndarray:
    B = on_host(learners.dense())
    w = np.ones(B.shape[1]) if learners.weights is None else on_host(learners.weights)
    return np.einsum("knp,n,knq->kpq", B, w, B)


@together("weighted", [False, True])
@together("degree", [0, 3, 5])
def test_gram_and_inverse(
    backend: Any, X: np.ndarray, weights: np.ndarray, weighted: bool, degree: int
) -> None:
    w = backend.array(weights) if weighted else None
    learners = prepared(
        basis_of(backend.array(X), 9, degree), 9, weights=w, penalty="ridge", df=3
    )
    G = gram_of(learners)
    np.testing.assert_allclose(on_host(learners.gram), G, rtol=1e-12, atol=1e-12)
    A = G + on_host(learners.lambda_)[:, None, None] * np.eye(9)
    np.testing.assert_allclose(
        on_host(learners.inverse) @ A, np.broadcast_to(np.eye(9), A.shape), atol=1e-10
    )
    residual = np.cos(np.arange(len(X)))
    w = weights if weighted else np.ones(len(X))
    B = on_host(learners.dense())
    for k in range(len(B)):
        Q = on_host(learners.problem.gain([k])[0, 0])
        c = B[k].T @ (w * residual)
        fit = B[k] @ np.linalg.solve(A[k], c)
        gained = w @ residual**2 - w @ (residual - fit) ** 2
        np.testing.assert_allclose(c @ Q @ c, gained, rtol=1e-9)


@pytest.mark.parametrize("chunk_rows", [1, 10_000])
@pytest.mark.parametrize(("degree", "dtype"), [(3, "float64"), (2, "float32")])
def test_gram_matrices_equal_dense_products(
    X: np.ndarray,
    weights: np.ndarray,
    chunk_rows: int,
    degree: int,
    dtype: str,
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(threads, "CHUNK_ROWS", chunk_rows)
    basis = BSplines.spanning(X, 11, degree).evaluate(X, dtype=dtype)
    B = basis.dense(11).astype(np.float64)
    learners = prepared(basis, 11, weights=weights)
    expected = np.einsum("knp,n,knq->kpq", B, weights, B)
    np.testing.assert_allclose(learners.gram, expected, atol=1e-12)


@together("kind", KINDS, ids=str)
@together("definition", ["2S-SS", "trace"])
@together("df", [3.0, 4.0, 7.5])
def test_smoothing_parameters_give_the_degrees_of_freedom(
    X: np.ndarray,
    weights: np.ndarray,
    kind: tuple[str, int],
    definition: str,
    df: float,
) -> None:
    penalty, order = kind
    if df <= order and penalty == "difference":
        df = order + 0.5
    if penalty == "cyclic":  # 7 cells
        df = min(df, 6.5)
    learners = prepared(
        basis_of(X, 10),
        10,
        penalty=penalty,
        penalty_order=order,
        df=df,
        df_definition=definition,
        weights=weights,
    )
    T = np.eye(10)
    if penalty == "cyclic":  # functions a period apart have one coefficient
        T = np.eye(7)[np.arange(10) % 7]
    K = penalty_matrix(T.shape[1], penalty, order)
    for B, lambda_ in zip(learners.dense() @ T, learners.lambda_, strict=True):
        found = degrees_of_freedom(B, weights, K, lambda_, definition)
        assert found == pytest.approx(df, rel=1e-7)
        expected = smoothing_parameter(B, weights, K, df, definition)
        assert lambda_ == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("factor", [1e-8, 1e8])
def test_lambda_does_not_depend_on_the_first_guess(
    X: np.ndarray, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    gram = prepared(basis_of(X, 20), 20).gram
    P = penalty_matrix(20, "difference", 2)
    expected = smoothing_parameters(gram, P, 2, df=4.0)
    rough = smoothing.rough_spectrum
    monkeypatch.setattr(smoothing, "rough_spectrum", lambda *a: rough(*a) * factor)
    found = smoothing_parameters(gram, P, 2, df=4.0)
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_learners_are_prepared_with_one_blas_thread(
    X: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their sums do not depend on the number of cores."""
    found = set()

    def ranks(*args: Any) -> Any:
        info = threads.blas().info()
        found.update(one["num_threads"] for one in info if one["user_api"] == "blas")
        return smoothing.ranks(*args)

    monkeypatch.setattr(f"{prepare.__module__}.ranks", ranks)
    with threads.blas().limit(limits=2, user_api="blas"):
        prepared(basis_of(X, 20), 20)
    assert found == {1}


def test_smoothing_parameters_are_solved_to_rounding() -> None:
    d = np.sort(np.exp(np.random.default_rng(1).uniform(-15, 30, (50, 12))))
    d[:, 0] = 0
    for definition in ("2S-SS", "trace"):
        for df in (1.001, 2.0, 6.5, 11.9):
            lambda_ = solve_lambda(d, df, definition)
            found = smoothing.degrees_of_freedom(d, lambda_, definition)
            np.testing.assert_allclose(found, df, rtol=1e-14)


def test_lambda_is_zero_if_nothing_is_penalised(X: np.ndarray) -> None:
    for options in ({"df": 10}, {"df": 1e9}, {"penalty": None}):
        learners = prepared(basis_of(X, 10), 10, **options)
        np.testing.assert_array_equal(learners.lambda_, 0)


def test_a_line_needs_two_degrees_of_freedom(X: np.ndarray) -> None:
    basis = basis_of(X, 10)
    with pytest.raises(ValueError, match="df must be at least 2"):
        prepared(basis, 10, df=1.9)
    line = prepared(basis, 10, df=2)
    np.testing.assert_array_equal(line.lambda_ > 1e14, True)
    y = np.sin(X[:, 0] * 3)
    x, fit = (
        X[:, 0],
        line.dense()[0] @ line.inverse[0] @ (line.dense()[0].T @ y),
    )
    np.testing.assert_allclose(fit, np.polyval(np.polyfit(x, y, 1), x), atol=1e-6)


def test_a_cyclic_penalty_makes_the_effect_periodic(X: np.ndarray) -> None:
    """The learners have one coefficient for each cell, as in `BoostedGAM`."""
    y = np.sin(5 * X[:, 0]) + X[:, 1]
    bases = BSplines.spanning(X, 12)
    learners = prepared(bases.evaluate(X), 12, penalty="cyclic")
    path = boost(learners, y, steps=60)
    ends = np.stack([X.min(axis=0), X.max(axis=0)])
    low, high = bases.evaluate(ends).multiply(path.coef(5)).T
    np.testing.assert_allclose(low, high, atol=1e-12)
    assert np.ptp(bases.evaluate(X).multiply(path.coef(5))[0]) > 1
    model = BoostedGAM(
        [bbs(j, knots=8, cyclic=True) for j in range(5)], learning_rate=0.1, max_iter=60
    ).fit(X, y)
    np.testing.assert_allclose(model.lambda_, learners.lambda_, rtol=1e-12)
    np.testing.assert_allclose(model.path_.updates, path.updates, atol=1e-12)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_few_levels_are_fitted_exactly(levels: int, rng: np.random.Generator) -> None:
    """A covariate with fewer levels than functions has a singular Gram matrix."""
    x = rng.integers(0, levels, 60).astype(float)
    learners = prepared(basis_of(x[:, None], 10), 10, penalty_order=3, df=4)
    assert np.isfinite(learners.inverse).all()
    assert learners.lambda_[0] == 0
    y = rng.standard_normal(60)
    B = learners.dense()[0]
    fit = B @ (learners.inverse[0] @ (B.T @ y))
    means = np.array([y[x == level].mean() for level in range(levels)])
    expected = np.zeros(60) if levels == 1 else means[x.astype(int)]
    np.testing.assert_allclose(fit, expected, atol=1e-9)


def test_fewer_rows_than_functions(rng: np.random.Generator) -> None:
    learners = prepared(basis_of(rng.random((6, 2)), 20), 20, df=4)
    assert np.isfinite(learners.inverse).all()
    assert (learners.lambda_ > 0).all()


def hard_covariates(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Covariates whose Gram matrices are regular, nearly singular, singular or zero."""
    return np.column_stack(
        [
            rng.random(rows),
            rng.random(rows) ** 8,
            np.exp(3 * rng.standard_normal(rows)),
            np.eye(rows)[-1],
            rng.integers(0, 5, rows),
            np.zeros(rows),
        ]
    )


@together("dtype", [np.float32, np.float64])
@together("n_basis", [4, 8, 33, 64])
def test_a_fit_without_a_penalty_is_a_projection(
    n_basis: int, dtype: Any, rng: np.random.Generator
) -> None:
    """Fitting a fit again changes nothing, however singular the Gram matrix is.

    Directions that count have at least 1e-12 of the largest eigenvalue, so rounding
    errors grow by up to 1e12.
    """
    X = hard_covariates(rng, 100)
    basis = BSplines.spanning(X, n_basis).evaluate(X, dtype=dtype)
    for kind, order in (*KINDS, (None, 0)):
        if kind == "cyclic" and n_basis - 3 <= order:
            continue
        learners = prepared(basis, n_basis, penalty=kind, penalty_order=order, df=1e9)
        G, cells = learners.gram, n_basis - 3
        change = G @ learners.inverse @ G - G
        if kind == "cyclic":  # functions a period apart have one coefficient
            T = np.eye(cells)[np.arange(n_basis) % cells]
            change = T.T @ change @ T
        change = np.abs(change).max(axis=(1, 2))
        limit = 1e12 * np.finfo(np.float64).eps * np.abs(G).max(axis=(1, 2))
        np.testing.assert_array_less(change, limit + np.finfo(np.float64).tiny)


@together("n_basis", [4, 8, 33, 64])
def test_lambda_and_inverse_by_dense_eigenvalues(
    n_basis: int, rng: np.random.Generator
) -> None:
    """SciPy's generalised eigenvalues give the degrees of freedom and the fit."""
    X = hard_covariates(rng, 300)
    learners = prepared(basis_of(X, n_basis), n_basis, df=3)
    np.testing.assert_array_equal(learners.lambda_[[3, 5]], 0)
    P = penalty_matrix(n_basis, "difference", 2)
    for i in (0, 1, 2, 4):
        A = learners.gram[i] + learners.lambda_[i] * P
        s, V = scipy.linalg.eigh(learners.gram[i], A)
        # mboost's shrinkage changes a nearly singular matrix by 1.49e-8.
        assert (2 * s - s * s).sum() == pytest.approx(3, rel=1e-6)
        np.testing.assert_allclose(
            learners.inverse[i], V @ V.T, atol=1e-9 * np.abs(V @ V.T).max()
        )


def test_nearly_singular_matrices_are_shrunk_as_by_mboost(
    rng: np.random.Generator,
) -> None:
    """mboost repeats the step until the least eigenvalue is large enough."""
    U = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    least = np.array([-1e-9, 0.0, 1e-9, 1.48e-8, 1.5e-8, 1.0])
    values = np.full((6, 6), 100.0)
    values[:, 0] = least
    A = (U * values[:, None, :]) @ U.T
    for found, B in zip(shrunken(A), A, strict=True):
        while (smallest := np.linalg.eigvalsh(B)[0] - 1.49e-8) < -1e-10:
            rho = 1 / (1 - smallest)
            B = rho * B + (1 - rho) * np.eye(6)
        np.testing.assert_allclose(found, B, rtol=0, atol=1e-12)


def test_few_levels_are_joined_smoothly(rng: np.random.Generator) -> None:
    """Data are missing between two levels, and a straight line costs nothing there."""
    x = rng.integers(0, 2, 60).astype(float)[:, None]
    splines = BSplines.spanning(x, 10)
    learners = prepared(splines.evaluate(x), 10)
    y = 3 + 2 * x[:, 0]
    coef = learners.inverse[0] @ (learners.dense()[0].T @ y)
    between = np.linspace(0, 1, 11)
    effect = splines.evaluate(between[:, None]).multiply(coef[None])[0]
    np.testing.assert_allclose(effect, 3 + 2 * between, atol=1e-9)


def test_rank_does_not_depend_on_the_number_of_equal_rows() -> None:
    x = np.repeat([[0.0], [0.3], [1.0]], [1, 1, 50_000], axis=0)
    learners = prepared(basis_of(x, 24), 24)
    np.testing.assert_array_equal(learners.lambda_, 0)


@pytest.mark.parametrize("fits", [1, 2])
def test_rows_of_weight_zero_count_for_the_rank(fits: int) -> None:
    """As in mboost: 3 of 6 levels in a fold are too few for 4 degrees of freedom."""
    x = np.repeat(np.arange(6.0), 5)
    frame = Frame.of({"x": x})
    term = bbs("x", df=4).learn(frame)
    fold = np.tile((x < 3) * 1.0, (fits, 1))
    assert (prepare(designs_of([term], frame), fold).lambda_ > 0).all()
    left = frame.take(x < 3)
    np.testing.assert_array_equal(
        prepare(designs_of([term], left), fold[:, x < 3]).lambda_, 0
    )


def test_many_functions_of_few_rows(rng: np.random.Generator) -> None:
    X = rng.random((30, 40))
    basis = basis_of(X, 300)
    assert max(s.stop - s.start for s in threads.chunked(40, 300**2, 2**17)) == 1
    B = basis.dense(300)
    np.testing.assert_allclose(
        prepared(basis, 300).gram, B.swapaxes(1, 2) @ B, atol=1e-12
    )
