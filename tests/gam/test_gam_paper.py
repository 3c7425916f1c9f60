"""What Sieminski and Lee define and claim, against dense formulas and patsy's bases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plain_boosting import given_splines, plain_path

from gpusolve import emulator, reference, studies
from gpusolve.gam import BoostedGAM, bbs
from gpusolve.gam.families import Gaussian

patsy = pytest.importorskip("patsy")

K, FUNCTIONS, ROWS = 5, 16, 150

Arrays = np.ndarray


def patsy_basis(x: Arrays, functions: int = FUNCTIONS, at: Arrays | None = None) -> Any:
    """patsy's B-splines on equidistant knots in the range of x, (n, functions)."""
    knots = np.linspace(x.min(), x.max(), functions - 2)[1:-1]
    ends = {"lower_bound": x.min(), "upper_bound": x.max()}
    at = x if at is None else at
    return np.asarray(patsy.bs(at, knots=knots, include_intercept=True, **ends))


def inverse_of(B: Arrays, lambda_: float) -> Arrays:
    return np.linalg.inv(B.T @ B + lambda_ * np.eye(B.shape[1]))


@pytest.fixture
def X(rng: np.random.Generator) -> Arrays:  # noqa: N802
    return rng.random((ROWS, K))


@pytest.fixture
def y(X: Arrays, rng: np.random.Generator) -> Arrays:
    mean = 7 + 10 * np.sin(2 * np.pi * X[:, [1, 3]]).sum(axis=1)
    return mean + np.sqrt(1e-3) * rng.standard_normal(ROWS)


@pytest.fixture
def B(X: Arrays) -> Arrays:  # noqa: N802
    return np.stack([patsy_basis(x) for x in X.T])


# ---- the model and its learners ------------------------------------------------------


def paper_model(functions: int = FUNCTIONS, **options: Any) -> BoostedGAM:
    """The learners of the paper: B-splines of patsy, a ridge, tr(H) = 1."""
    spline = bbs(knots=functions - 4, differences=0, df=1, end_knots="repeated")
    given = {"df_definition": "trace", "learning_rate": 0.1, "outside": "linear"}
    return BoostedGAM(dict.fromkeys(range(K), spline), **given | options)


@pytest.mark.paper(
    "Sieminski, (1), (2)",
    "A prediction for new rows is the mean of y plus the products of patsy's bases, "
    "with the knots of the training rows, and the coefficients",
)
def test_a_prediction_is_the_sum_of_bases_times_coefficients(
    backend: Any, X: Arrays, y: Arrays, B: Arrays, rng: Any
) -> None:
    """The fit equals the reference on patsy's matrices."""
    steps = 8 if backend.emulated else 40
    model = paper_model(max_iter=steps).fit(backend.array(X), backend.array(y))
    lambda_ = np.array(
        [
            reference.smoothing_parameter(
                basis, np.ones(ROWS), np.eye(FUNCTIONS), 1, "trace"
            )
            for basis in B
        ]
    )
    np.testing.assert_allclose(model.lambda_, lambda_, rtol=1e-7)
    splines = given_splines(B, np.eye(FUNCTIONS), lambda_)
    expected = plain_path(splines, Gaussian(), y, steps, rate=0.1)
    np.testing.assert_array_equal(model.selected_, expected.selected[0])
    np.testing.assert_allclose(model.risk_, expected.risk, rtol=1e-7)
    coef = model.coefficients_
    fitted = y.mean() + np.einsum("jnk,jk->n", B, coef)
    np.testing.assert_allclose(fitted, expected.f[0], atol=1e-7)
    new = X.min(axis=0) + rng.random((40, K)) * np.ptp(X, axis=0) / 2
    bases = [patsy_basis(x, at=z) for x, z in zip(X.T, new.T, strict=True)]
    prediction = y.mean() + np.einsum("jnk,jk->n", bases, coef)
    found = backend.numpy(model.predict(backend.array(new)))
    np.testing.assert_allclose(found, prediction, atol=1e-6)


@pytest.mark.paper(
    "Sieminski, 2.1.2, Appendix A",
    "The lambda that is found for tr(H) = 1 gives the dense hat matrix, with weights, "
    "that trace to 1e-9, for 16, 32 and 64 functions",
)
@pytest.mark.paper(
    "Sieminski, Algorithm 1",
    "Each learner has the lambda with tr(H) = 1, the first step is the fit by the "
    "inverse of B'B + lambda I, and the start is the mean of y",
)
@pytest.mark.parametrize("functions", [16, 32, 64])
def test_lambda_gives_the_dense_hat_matrix_its_trace(
    functions: int, X: Arrays, y: Arrays, rng: np.random.Generator
) -> None:
    w = rng.integers(1, 4, ROWS).astype(float)
    options: Any = {"max_iter": 1, "learning_rate": 1.0}
    model = paper_model(functions, **options).fit(X, y, sample_weight=w)
    start = np.average(y, weights=w)
    assert model.path_.offset == pytest.approx(start, rel=1e-14)
    for j, (x, lambda_) in enumerate(zip(X.T, model.lambda_, strict=True)):
        B = patsy_basis(x, functions)
        A = B.T @ (w[:, None] * B) + lambda_ * np.eye(functions)
        H = B @ np.linalg.solve(A, B.T * w)
        assert H.shape == (ROWS, ROWS)
        assert np.trace(H) == pytest.approx(1, rel=1e-9)
        if j == model.selected_[0]:
            first = np.linalg.inv(A) @ (B.T @ (w * (y - start)))
            np.testing.assert_allclose(model.coefficients_[j], first, atol=1e-11)


# ---- Algorithms 1 and 2 --------------------------------------------------------------


@pytest.mark.paper(
    "Sieminski, Algorithm 2",
    "The steps agree with the algorithm as written, with 3 products for each learner "
    "in each step: the residual sum of squares needs the fit of every learner",
)
@pytest.mark.parametrize("variant", ["naive", "threads_per_dot", "threads_per_row"])
def test_algorithm_2_as_written(
    variant: str, X: Arrays, B: Arrays, y: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, steps, rate = 60, 3, 0.3
    lambda_ = paper_model(max_iter=1).fit(X, y).lambda_
    B, y = B[:, :rows], y[:rows]
    mu = np.full(rows, y.mean())
    coef, selected = np.zeros((K, FUNCTIONS)), []
    for _ in range(steps):
        gradient = y - mu
        fits = [inverse_of(B[j], lambda_[j]) @ (B[j].T @ gradient) for j in range(K)]
        rss = [sum((gradient - B[j] @ fits[j]) ** 2) for j in range(K)]
        i = int(np.argmin(rss))
        coef[i] += rate * fits[i]
        mu += B[i] @ (rate * fits[i])
        selected.append(i)
    monkeypatch.setenv("GPUSOLVE_EMULATE", "1")
    given = B, y, np.eye(FUNCTIONS), lambda_
    options = {"learning_rate": rate, "steps": steps}
    with emulator.profile() as report:
        found = studies.boost_directly(*given, variant=variant, **options)
    np.testing.assert_array_equal(found.selected, selected)
    total = np.zeros_like(coef)
    np.add.at(total, found.selected, found.updates)
    np.testing.assert_allclose(total, coef, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.fitted, mu, rtol=0, atol=1e-11)
    assert found.risk[-1] == pytest.approx(sum((y - mu) ** 2), rel=1e-11)
    reads = [
        kernel
        for kernel in report.kernels
        if kernel.name.startswith(f"gemv_{variant}<")
    ]
    assert sum(kernel.launches for kernel in reads) == 3 * steps
    products = ("float64 multiply", "float64 fused")
    multiplied = sum(kernel.arithmetic[kind] for kernel in reads for kind in products)
    assert multiplied == steps * K * (2 * rows * FUNCTIONS + FUNCTIONS**2)


# ---- section 2.2: learners -----------------------------------------------------------


@pytest.mark.paper(
    "Sieminski, 2.2.1",
    "In 300 samples of noise, of two learners with equal bases and traces each is "
    "selected in about 50 %; a learner with twice the trace, or with 32 functions and "
    "the trace of 8, in more than 65 %: the trace alone does not make learners equal",
)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("functions", "traces", "least", "most"),
    [
        ((16, 16), (1, 1), 0.50 - 0.12, 0.50 + 0.12),
        ((16, 16), (1, 2), 0.65, 1),
        ((8, 32), (1, 1), 0.65, 1),
    ],
)
def test_learners_of_equal_bias_are_selected_equally_often(
    functions: tuple[int, int], traces: tuple[int, int], least: float, most: float
) -> None:
    """0.12 is 4 standard errors. How often the second learner is selected."""
    random, degree = np.random.default_rng(0), 3
    learners = [
        bbs(j, knots=k - degree - 1, df=trace, differences=0)
        for j, (k, trace) in enumerate(zip(functions, traces, strict=True))
    ]
    second = 0
    for _ in range(300):
        model = BoostedGAM(learners=learners, df_definition="trace", max_iter=1)
        model.fit(random.random((200, 2)), random.standard_normal(200))
        second += int(model.selected_[0] == 1)
    assert least <= second / 300 <= most


@pytest.mark.paper(
    "Sieminski, 2.2.2",
    "With a fixed lambda of trace 1, one step explains 1 % of 10 sin(10 pi x), 100 "
    "steps 62 % and 5,000 steps 99.9 %: a sum of stiff fits is wiggly",
)
def test_boosting_fits_wiggly_functions() -> None:
    x = np.random.default_rng(0).random((1000, 1))
    y = 10 * np.sin(10 * np.pi * x[:, 0])
    model = BoostedGAM(
        n_basis=32,
        penalty="ridge",
        df=1,
        df_definition="trace",
        learning_rate=0.1,
        max_iter=5_000,
    ).fit(x, y)
    explained = 1 - model.risk_ / model.risk_[0]
    for step, part in ((1, 0.01), (100, 0.62)):
        assert explained[step] == pytest.approx(part, rel=0.1)
    assert explained[5_000] > 0.999
