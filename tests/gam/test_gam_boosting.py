"""Boosting of equal splines, against mboost, the reference and its properties."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gam_figures import NAMES, additive, figures, sums
from gam_models import draw
from plain_boosting import given_splines, plain_path, spline
from together import together

from gpusolve import reference
from gpusolve._device.threads import part_of_batch
from gpusolve.gam import BoostedGAM, BoostedGAMClassifier, bbs, bols, simulate
from gpusolve.gam.families import CoxPH, Gaussian, Huber, Multinomial, Poisson

METHODS = ("stacked", "gram")

RATE = 0.3
"""The learning rate with which two covariates are selected within ten steps."""


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[Any, Any]:
    return additive(rng, 150)


def models_of(backend: Any, steps: int, **options: Any) -> Iterator[BoostedGAM]:
    """Models of splines of ten functions: one for each method that the backend has.

    They have fewer steps on the emulator, and a device makes the steps of "gram" by
    "stacked".
    """
    steps = steps // 3 if backend.emulated else steps
    given = {"n_basis": 10, "df": 4.0, "learning_rate": RATE, "max_iter": steps}
    for method in METHODS if backend.name == "numpy" else ["gram"]:
        found = given | {"outside": "linear", "method": method} | options
        yield BoostedGAM(**found)


def bases_of(X: Any, functions: int = 10) -> Any:
    """The bases of the reference on the ranges of the columns, (K, n, functions)."""
    return np.stack(
        [
            reference.design_matrix(
                x, reference.equidistant_knots(x.min(), x.max(), functions, 3), 3
            )
            for x in X.T
        ]
    )


# ---- simulated data ------------------------------------------------------------------


@pytest.mark.paper(
    "Sieminski, 4.1",
    "y - 7 - the sum of 10 sin(2 pi x) over 20 of 100 uniform covariates has mean 0 "
    "and variance 1e-3, within 5 standard errors, and no other covariate has an effect",
)
@pytest.mark.parametrize(
    "n", [1000, 10_000, pytest.param(100_000, marks=pytest.mark.slow)]
)
def test_the_simulated_data(n: int) -> None:
    """Also their checksums, as mboost got the data."""
    X, y, active = simulate(n)
    expected = sums()[str(n)]
    assert active.tolist() == expected["active_0based"]
    for name, found in (("sum_X", X.sum()), ("sum_y", y.sum()), ("var_y", y.var())):
        assert found == pytest.approx(expected[name], rel=1e-12)
    assert X.shape == (n, 100)
    assert 0 <= X.min() < X.max() < 1
    np.testing.assert_allclose(X.mean(axis=0), 0.5, atol=5 * np.sqrt(1 / 12 / n))
    assert len(np.unique(active)) == 20
    noise = y - 7 - 10 * np.sin(2 * np.pi * X[:, active]).sum(axis=1)
    assert abs(noise.mean()) < 5 * np.sqrt(1e-3 / n)
    assert noise.var() == pytest.approx(1e-3, rel=5 * np.sqrt(2 / n))
    waves = np.sin(2 * np.pi * np.delete(X, active, axis=1)) * np.sqrt(2)
    assert abs(waves.T @ noise).max() < 5 * np.sqrt(1e-3 * n)


def paper_options(name: str) -> dict[str, Any]:
    return figures(name).options | {"n_basis": figures(name).n_basis}


@pytest.mark.paper(
    "Sieminski, 2.2",
    "mboost selects the same learners, and the risk and the coefficients of its 100 "
    "learners differ by at most 1e-8",
)
@pytest.mark.parametrize("name", NAMES)
def test_equals_mboost(numpy_backend: Any, name: str) -> None:
    found = figures(name)
    X, y, _ = simulate(found.n)
    for model in models_of(
        numpy_backend, 100, learning_rate=0.1, **paper_options(name)
    ):
        model.fit(X, y)
        np.testing.assert_array_equal(model.selected_, found.selected)
        np.testing.assert_allclose(model.risk_, found.risk, rtol=1e-8)
        np.testing.assert_allclose(model.lambda_, found.lambda_, rtol=1e-9)
        assert model.intercept_ == pytest.approx(found.offset, rel=1e-12)
        scale = abs(found.coef).max()
        np.testing.assert_allclose(model.coefficients_, found.coef, atol=1e-8 * scale)
        if found.fitted is not None:
            np.testing.assert_allclose(model.predict(X), found.fitted, rtol=1e-7)


# ---- the reference, and properties ---------------------------------------------------


@together("weighted", [False, True])
@together("penalty", ["difference", "ridge", "cyclic"])
def test_equals_the_reference(
    backend: Any, weighted: bool, penalty: str, data: Any
) -> None:
    X, y = data
    w = np.random.default_rng(0).integers(0, 4, len(y)) + 1.0 if weighted else None
    cells = 10 if penalty == "cyclic" else 7
    B, K = bases_of(X, cells + 3), np.eye(10)
    if penalty == "difference":
        D = np.diff(np.eye(10), 2, axis=0)
        K = D.T @ D
    if penalty == "cyclic":  # functions a period of 10 cells apart share a coefficient
        B = B @ np.eye(10)[np.arange(13) % 10]
        D = np.roll(np.eye(10), 1, 0) - 2 * np.eye(10) + np.roll(np.eye(10), -1, 0)
        K = D.T @ D
    for model in models_of(backend, 40, penalty=penalty):
        model.fit(*map(backend.array, (X, y)), sample_weight=backend.array(w))
        assert model.method_ == (model.method if backend.name == "numpy" else "stacked")
        splines = given_splines(B, K, model.lambda_)
        expected = plain_path(splines, Gaussian(), y, model.n_iter_, RATE, w=w)
        np.testing.assert_array_equal(model.selected_, expected.selected[0])
        assert model.intercept_ == pytest.approx(np.average(y, weights=w), rel=1e-12)
        np.testing.assert_allclose(model.risk_, expected.risk, rtol=1e-10)
        fitted = backend.numpy(model.predict(backend.array(X)))
        np.testing.assert_allclose(fitted, expected.f[0], atol=1e-10)


@pytest.mark.parametrize(
    "family", [Gaussian(), Huber(), CoxPH(), Multinomial(3)], ids=str
)
@pytest.mark.parametrize("learners", [5, 70])
def test_bits_do_not_depend_on_the_number_of_threads(
    family: Any, learners: int
) -> None:
    """Of 70 splines a step fits some; Cox's family scans the rows."""
    rows = 2**17 // learners * 4
    X = np.random.default_rng(0).random((rows, learners))
    y, w = draw(family, 2 * X[:, 0] - X[:, 1]), np.arange(rows) % 3 + 0.5
    kind = BoostedGAMClassifier if family == Multinomial(3) else BoostedGAM
    given: Any = {"max_iter": 4} | ({} if kind != BoostedGAM else {"family": family})
    splines, paths = [bbs(j, knots=5) for j in range(learners)], []
    for count in (1, 2, 3):
        with part_of_batch(cores=count):
            paths.append(kind(splines, **given).fit(X, y, w).paths_)
    for other in paths[1:]:
        for path, same in zip(other, paths[0], strict=True):
            np.testing.assert_array_equal(path.updates, same.updates)
            np.testing.assert_array_equal(path.risk, same.risk)


FEW_THREADS = """
    import resource
    import numpy as np
    from gpusolve._device.threads import part_of_batch
    from gpusolve.gam import BoostedGAM

    X = np.random.default_rng(0).random((2**17, 8))
    with part_of_batch(cores=1):
        expected = BoostedGAM(max_iter=3).fit(X, X[:, 0] ** 2).risk_
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**31, used + 2**31))
    with part_of_batch(cores=8):
        print((BoostedGAM(max_iter=3).fit(X, X[:, 0] ** 2).risk_ == expected).all())
"""


def big_stacks() -> None:
    """Each thread takes 2**29 bytes of addresses."""
    import resource

    most = resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (2**29, most))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_fewer_threads_than_cores_make_the_same_steps() -> None:
    """The system refuses some of eight threads, whose stacks need more memory."""
    program = [sys.executable, "-c", textwrap.dedent(FEW_THREADS)]
    done = subprocess.run(
        program, capture_output=True, text=True, preexec_fn=big_stacks
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_perfect_fit_and_ties(backend: Any) -> None:
    """The risk is a sum of squares, so no digits cancel; the first is selected."""
    X = np.random.default_rng(0).random((300, 3))
    X[:, 2] = X[:, 1]
    y = bases_of(X)[1] @ np.random.default_rng(1).standard_normal(10)
    X, y, ones = map(backend.array, (X, y, np.full(300, 2.0)))
    options = {"penalty": None, "learning_rate": 1.0, "method": "stacked"}
    model = next(models_of(backend, 12, **options)).fit(X, y)
    assert 0 <= model.risk_[-1] < 1e-24 * model.risk_[0]
    assert model.selected_[0] == 1
    for model in models_of(backend, 12):
        assert model.fit(X, ones).intercept_ == 2
        for found in (model.selected_, model.risk_, model.coefficients_):
            assert not found.any()


def test_auto_chooses_gram_for_many_steps_of_many_rows() -> None:
    rng = np.random.default_rng(0)
    y = rng.random(3000)

    def method_of(rows: int, columns: int, steps: int, functions: int = 10) -> str:
        X = rng.random((rows, columns))
        model = BoostedGAM(n_basis=functions, df=4, max_iter=steps)
        return str(model.fit(X, y[:rows]).method_)

    assert [method_of(150, 5, steps) for steps in (3, 200)] == ["stacked", "gram"]
    assert method_of(50, 30, 100, functions=30) == "stacked"  # large blocks, few rows
    # Blocks of 63 learners are worth their cost in fewer steps than of 64 learners.
    assert [method_of(3000, k, 100, 20) for k in (63, 64)] == ["gram", "stacked"]


# ---- many learners on a CPU ----------------------------------------------------------


@pytest.mark.parametrize("backend", ["numpy", "fallback"], indirect=True)
@together(("kind", "rate"), [
    ("poisson", 0.1), ("gaussian", 0.7), ("exact", 0.7), ("turning", 0.1),
    ("opposite", 0.3), ("hidden", 1.0),
])  # fmt: skip
def test_screened_steps_are_those_of_dense_matrices(
    backend: Any, kind: str, rate: float
) -> None:
    """A hundred learners, of which a step fits the learners that may be the best.

    Pairs of covariates with opposite effects are nearly equal, so that the steps of one
    raise the score of the other. A learner that is hidden has no score at first.
    """
    rng, rows = np.random.default_rng(0), 240 if kind == "hidden" else 60
    X = rng.random((rows, 100))
    X[:, ::5] = np.round(4 * X[:, ::5]) / 4  # singular Gram matrices
    y, w = rng.integers(0, 2, rows) * 1.0, rng.integers(0, 3, rows) * 1.0
    if kind == "exact":
        y = 3 * X[:, 1]
    elif kind == "turning":  # from the span of learner 1 slowly to that of learner 2
        y = np.sin(6 * X[:, 1]) + 0.9 * np.sin(6 * X[:, 2])
    elif kind == "opposite":
        X[:, 50:] = 0.7 * X[:, :50] + 0.3 * X[:, 50:]
        y = np.sin(2 * np.pi * X) @ np.repeat([1.0, -0.8], 50)
    elif kind == "hidden":  # y has no covariance with the second learner
        X = np.round(X)
        X[:, 2] = np.where(rng.random(rows) < 0.1, 1 - X[:, 1], X[:, 1])
        C = np.cov(X[:, 1], X[:, 2], aweights=w)
        y = X[:, 1] - C[0, 1] / C[1, 1] * X[:, 2] + 0.16 * X[:, 3]
    family = Poisson() if kind == "poisson" else Gaussian()
    splines = [bbs(j, knots=6, boundary=(0, 1), lambda_=2.0) for j in range(100)]
    options: Any = {"family": family, "step_rule": "mboost", "learning_rate": rate}
    steps = {"opposite": 40, "hidden": 5}.get(kind, 20)
    model = BoostedGAM(splines, max_iter=steps, **options).fit(X, y, w)
    dense = [spline(x, 10, 2.0) for x in X.T]
    expected = plain_path(dense, family, y, steps, rate, w=w)
    count = 5 if kind == "exact" else steps  # then all gains are rounding errors
    np.testing.assert_array_equal(model.selected_[:count], expected.selected[0, :count])
    atol = 1e-12 * expected.risk[0]
    np.testing.assert_allclose(model.risk_, expected.risk, rtol=1e-9, atol=atol)


@pytest.mark.parametrize("backend", ["numpy", "fallback"], indirect=True)
def test_a_few_learners_are_fitted_to_all_pieces_of_the_rows(backend: Any) -> None:
    """Each step of a learner of two levels takes a tenth of their mean residuals.

    The effect in the last rows exceeds the effect in all, so that no bound corrects it.
    """
    rows = 2**16 + 8000
    X = np.random.default_rng(0).integers(0, 2, (rows, 64))
    y = X[:, 7] * np.where(np.arange(rows) < 2**16, -1.0, 20.0)
    levels = [bbs(j, knots=1, degree=0, differences=0, lambda_=0) for j in range(64)]
    options: Any = {"learning_rate": 0.1, "step_rule": "mboost", "method": "stacked"}
    model = BoostedGAM(levels, max_iter=4, **options).fit(X, y)
    assert set(model.selected_) == {7}
    for level in (0, 1):
        before, after = (
            (y - f)[X[:, 7] == level].mean() for f in (y.mean(), model.predict(X))
        )
        assert after == pytest.approx(0.9**4 * before, rel=1e-9)


def test_the_products_of_columns_are_updated_from_step_to_step() -> None:
    """Lines without intercept; the path is the path of passes over the rows."""
    rng = np.random.default_rng(0)
    X = rng.random((300, 5))
    Z = np.hstack([X, X**2, np.sin(9 * X)]) - 0.5
    y, w = X @ np.arange(5.0) + np.sin(9 * X[:, 0]), np.arange(300) % 3 + 0.5
    lines = [bols(j, intercept=False) for j in range(15)]
    auto, gram, stacked = (
        BoostedGAM(lines, max_iter=200, method=method).fit(Z, y, w)
        for method in ("auto", "gram", "stacked")
    )
    assert (auto.method_, stacked.method_) == ("gram", "stacked")
    np.testing.assert_array_equal(gram.selected_, stacked.selected_)
    np.testing.assert_allclose(gram.risk_, stacked.risk_, rtol=1e-12)
    np.testing.assert_allclose(gram.coefficients_, stacked.coefficients_, rtol=1e-9)
