"""Boosting, compared with results of mboost and the reference, and its properties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gam_figures import NAMES, Figures, additive, figures, sums
from spline_learners import boost, learners_of
from together import together

from gpusolve import _emulator, reference
from gpusolve.gam import Path
from gpusolve.gam._boosting import stacked
from gpusolve.gam._boosting.stacked import choose_method
from gpusolve.gam._terms.basis import BSplines, penalty_matrix
from gpusolve.gam.simulation import simulate

METHODS = ("stacked", "gram")


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


RATE = 0.3
"""The learning rate with which two covariates are selected within ten steps."""


def steps_on(backend: Any, steps: int) -> int:
    """Fewer steps on the emulator, where each has thousands of threads to switch."""
    return steps // 3 if backend.emulated else steps


@pytest.mark.parametrize("n", [1000, 10_000, 100_000])
def test_the_simulation_has_the_checksums_of_the_data_for_mboost(n: int) -> None:
    X, y, active = simulate(n)
    expected = sums()[str(n)]
    assert active.tolist() == expected["active_0based"]
    assert X.sum() == pytest.approx(expected["sum_X"], rel=1e-12)
    assert y.sum() == pytest.approx(expected["sum_y"], rel=1e-12)
    assert y.var() == pytest.approx(expected["var_y"], rel=1e-12)


def check_path(path: Path, found: Figures, rel: float) -> None:
    steps = len(path)
    np.testing.assert_array_equal(path.selected, found.selected[:steps])
    np.testing.assert_allclose(path.risk, found.risk[: steps + 1], rtol=rel)
    assert path.offset == pytest.approx(found.offset, rel=1e-12)


@pytest.mark.paper(
    "Sieminski, 2.2",
    "mboost selects the same learners, and the risk and the coefficients of its 100 "
    "learners differ by at most 1e-10 if lambda is given, and 1e-8 if it is solved",
)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("given", [True, False], ids=["lambda given", "lambda solved"])
def test_equals_mboost(backend: Any, method: str, name: str, given: bool) -> None:
    found = figures(name)
    if backend.emulated:
        pytest.skip("the emulator is slow: it runs one configuration, below")
    X, y, _ = simulate(found.n)
    options = {**found.options, "lambda_": found.lambda_ if given else None}
    learners = learners_of(backend.array(X), found.n_basis, **options)
    path = boost(learners, backend.array(y), method=method)
    rel = 1e-10 if given else 1e-8
    check_path(path, found, rel)
    coef = path.coef(100)
    np.testing.assert_allclose(coef, found.coef, rtol=0, atol=rel * abs(coef).max())
    if found.fitted is not None:
        on_host = BSplines.spanning(X, found.n_basis).evaluate(X)
        fitted = path.offset + on_host.multiply(coef).sum(axis=0)
        np.testing.assert_allclose(
            fitted, found.fitted, rtol=0, atol=rel * abs(fitted).max()
        )


def test_kernels_equal_mboost(device_backend: Any, method: str) -> None:
    found = figures("sim_n1000_k16_pspline_df4")
    X, y, _ = simulate(found.n)
    options = {**found.options, "lambda_": found.lambda_}
    learners = learners_of(device_backend.array(X), found.n_basis, **options)
    path = boost(learners, device_backend.array(y), steps=4, method=method)
    assert path.method == "stacked"
    check_path(path, found, 1e-10)


def test_the_reference_equals_mboost() -> None:
    found = figures("sim_n1000_k16_ridge_df1")
    X, y, _ = simulate(1000)
    B = np.stack(
        [
            reference.design_matrix(
                x, reference.equidistant_knots(x.min(), x.max(), 16, 3), 3
            )
            for x in X.T
        ]
    )
    model = reference.boost(B, y, np.eye(16), found.lambda_)
    np.testing.assert_array_equal(model.selected, found.selected)
    np.testing.assert_allclose(model.risk, found.risk, rtol=1e-10)
    np.testing.assert_allclose(model.fitted, found.fitted, rtol=1e-10)
    w = np.ones(1000)
    for basis, lambda_ in zip(B[:3], found.lambda_[:3], strict=True):
        solved = reference.smoothing_parameter(basis, w, np.eye(16), 1, "trace")
        assert solved == pytest.approx(lambda_, rel=1e-9)


@together("name", NAMES)
def test_lambda_equals_mboost(name: str) -> None:
    found = figures(name)
    X, _, _ = simulate(found.n)
    X = np.asfortranarray(X)
    learners = learners_of(X, found.n_basis, **found.options)
    np.testing.assert_allclose(learners.lambda_, found.lambda_, rtol=1e-9)


@together("weighted", [False, True])
@together("penalty", ["difference", "ridge", "cyclic"])
def test_equals_the_reference(
    backend: Any, method: str, weighted: bool, penalty: str, rng: np.random.Generator
) -> None:
    X, y = additive(rng, 150)
    weights = rng.integers(0, 4, len(y)) + 0.5 if weighted else None
    learners = learners_of(
        backend.array(X), penalty=penalty, weights=backend.array(weights)
    )
    steps = steps_on(backend, 40)
    path = boost(
        learners, backend.array(y), steps=steps, learning_rate=RATE, method=method
    )
    host = learners_of(X, penalty=penalty, weights=weights)
    T = np.eye(10)
    if penalty == "cyclic":  # functions a period of 7 cells apart share a coefficient
        T = np.eye(7)[np.arange(10) % 7]
    expected = reference.boost(
        host.dense() @ T,
        y,
        penalty_matrix(T.shape[1], penalty),
        host.lambda_,
        steps=steps,
        learning_rate=RATE,
        weights=weights,
    )
    np.testing.assert_array_equal(path.selected, expected.selected)
    assert path.offset == pytest.approx(expected.offset, rel=1e-12)
    np.testing.assert_allclose(path.updates, expected.updates @ T.T, atol=1e-10)
    np.testing.assert_allclose(path.risk, expected.risk, rtol=1e-10)
    fitted = expected.offset + host.basis.multiply(path.coef(5)).sum(axis=0)
    np.testing.assert_allclose(fitted, expected.fitted, atol=1e-10)


def test_float32_bases_give_the_same_path(
    backend: Any, method: str, rng: np.random.Generator
) -> None:
    X, y = additive(rng, 150)
    double, single = (
        boost(
            learners_of(backend.array(X), dtype=dtype),
            backend.array(y),
            steps=steps_on(backend, 30),
            learning_rate=RATE,
            method=method,
        )
        for dtype in (np.float64, np.float32)
    )
    np.testing.assert_array_equal(single.selected, double.selected)
    np.testing.assert_allclose(single.risk, double.risk, rtol=1e-5)
    assert single.updates.dtype == np.float64


def test_many_steps_converge_to_least_squares(
    backend: Any, method: str, rng: np.random.Generator
) -> None:
    """Without a penalty, boosting is coordinate descent for least squares."""
    X, y = additive(rng, n=120)
    X = X[:, :2]
    learners = learners_of(backend.array(X), n_basis=6, penalty=None)
    steps = 100 if backend.emulated else 400
    path = boost(
        learners, backend.array(y), steps=steps, learning_rate=1.0, method=method
    )
    basis = BSplines.spanning(X, 6).evaluate(X).dense(6)
    B = np.hstack([*basis])
    best = B @ np.linalg.lstsq(B, y, rcond=None)[0]
    assert path.risk[-1] == pytest.approx(((y - best) ** 2).sum(), rel=1e-9)


def test_penalised_learners_converge_to_least_squares(rng: np.random.Generator) -> None:
    """The penalty makes the steps smaller; it does not change their limit."""
    x = rng.random((150, 1))
    y = np.sin(6 * x[:, 0]) + 0.1 * rng.standard_normal(150)
    learners = learners_of(x, 6, df=3)
    path = boost(learners, y, steps=20_000, learning_rate=1.0)
    B = learners.dense()[0]
    best = B @ np.linalg.lstsq(B, y, rcond=None)[0]
    assert path.risk[-1] == pytest.approx(((y - best) ** 2).sum(), rel=1e-8)


@together("learning_rate", [0.01, 0.5, 1.0])
def test_risk_never_increases(
    backend: Any, method: str, learning_rate: float, rng: np.random.Generator
) -> None:
    X, y = additive(rng, 150)
    learners = learners_of(backend.array(X), weights=backend.array(rng.random(len(y))))
    steps = steps_on(backend, 60)
    path = boost(
        learners,
        backend.array(y),
        steps=steps,
        learning_rate=learning_rate,
        method=method,
    )
    assert (np.diff(path.risk) <= 1e-12 * path.risk[0]).all()
    assert path.risk.shape == (steps + 1,)


def test_permuting_the_learners_permutes_the_path(
    backend: Any, method: str, rng: np.random.Generator
) -> None:
    X, y = additive(rng, 150)
    order = np.array([3, 0, 4, 1, 2])
    options: Any = {
        "steps": steps_on(backend, 40),
        "learning_rate": RATE,
        "method": method,
    }
    paths = [
        boost(learners_of(backend.array(Z)), backend.array(y), **options)
        for Z in (X, X[:, order])
    ]
    np.testing.assert_array_equal(order[paths[1].selected], paths[0].selected)
    np.testing.assert_allclose(paths[1].updates, paths[0].updates, atol=1e-10)


def test_integer_weights_equal_repeated_rows(
    backend: Any, method: str, rng: np.random.Generator
) -> None:
    X, y = additive(rng, 150)
    counts = rng.integers(1, 4, len(y))
    weighted = learners_of(
        backend.array(X), weights=backend.array(counts.astype(float))
    )
    repeated = learners_of(backend.array(X.repeat(counts, axis=0)))
    options: Any = {
        "steps": steps_on(backend, 40),
        "learning_rate": RATE,
        "method": method,
    }
    paths = [
        boost(learners, backend.array(target), **options)
        for learners, target in ((weighted, y), (repeated, y.repeat(counts)))
    ]
    np.testing.assert_array_equal(paths[0].selected, paths[1].selected)
    np.testing.assert_allclose(paths[0].updates, paths[1].updates, atol=1e-9)
    np.testing.assert_allclose(paths[0].risk, paths[1].risk, rtol=1e-10)


def test_a_path_can_be_continued(
    backend: Any, method: str, rng: np.random.Generator
) -> None:
    X, y = additive(rng, 150)
    learners, y = learners_of(backend.array(X)), backend.array(y)
    first, more = steps_on(backend, 21), steps_on(backend, 30)
    options: Any = {"learning_rate": RATE, "method": method}
    whole = boost(learners, y, steps=first + more, **options)
    part = boost(learners, y, steps=first, **options)
    continued = boost(learners, y, steps=more, start=part, **options)
    np.testing.assert_array_equal(continued.selected, whole.selected)
    np.testing.assert_allclose(continued.updates, whole.updates, atol=1e-11)
    np.testing.assert_allclose(continued.risk, whole.risk, rtol=1e-10)


def test_a_constant_target_gives_zero_updates(backend: Any, method: str) -> None:
    X = np.random.default_rng(0).random((50, 3))
    path = boost(
        learners_of(backend.array(X)),
        backend.array(np.full(50, 2.0)),
        steps=5,
        method=method,
    )
    assert path.offset == 2
    np.testing.assert_array_equal(path.risk, 0)
    np.testing.assert_array_equal(path.updates, 0)
    np.testing.assert_array_equal(path.selected, 0)


def test_no_steps(backend: Any, method: str, rng: np.random.Generator) -> None:
    X, y = additive(rng, 150)
    path = boost(
        learners_of(backend.array(X)), backend.array(y), steps=0, method=method
    )
    assert path.updates.shape == (0, 10)
    assert path.risk[0] == pytest.approx(((y - y.mean()) ** 2).sum())


@pytest.mark.parametrize("method", ["stacked", "gram"])
def test_a_fit_repeats_bit_for_bit(
    backend: Any, method: str, rng: np.random.Generator
) -> None:
    """Also if the emulator runs the threads in another order."""
    X, y = additive(rng, n=300 if backend.emulated else 3000)
    paths = []
    for seed in (1, 2):
        with _emulator.schedule("random", seed):
            learners = learners_of(backend.array(X))
            steps = steps_on(backend, 30)
            paths.append(boost(learners, backend.array(y), steps=steps, method=method))
    np.testing.assert_array_equal(paths[0].updates, paths[1].updates)
    np.testing.assert_array_equal(paths[0].risk, paths[1].risk)


@pytest.mark.parametrize("method", ["stacked", "gram"])
def test_active_covariates_are_selected_first(method: str) -> None:
    X, y, active = simulate(1000)
    path = boost(learners_of(X, 16), y, steps=400, method=method)
    distinct = list(dict.fromkeys(path.selected.tolist()))
    assert sorted(distinct[:20]) == active.tolist()


def test_a_thousand_steps_of_gram_equal_those_of_stacked() -> None:
    X, y, _ = simulate(1000)
    learners = learners_of(X, 16)
    stacked, gram = (
        boost(learners, y, steps=1000, method=method) for method in ("stacked", "gram")
    )
    np.testing.assert_array_equal(gram.selected, stacked.selected)
    np.testing.assert_allclose(gram.risk, stacked.risk, rtol=1e-9)


def test_the_path_names_the_method_that_auto_chose(
    monkeypatch: Any, rng: np.random.Generator
) -> None:
    X, y = additive(rng, 150)
    learners = learners_of(X)
    assert boost(learners, y, steps=3).method == "stacked"
    assert boost(learners, y, steps=200).method == "gram"
    monkeypatch.setattr(stacked, "BLOCK_BYTES", 1000)
    assert boost(learners, y, steps=200).method == "stacked"


def test_auto_avoids_large_blocks_for_few_rows(rng: np.random.Generator) -> None:
    few, many = (learners_of(rng.random((n, 60)), 30).problem for n in (50, 5000))
    assert choose_method(many, 200) == "gram"
    assert choose_method(few, 200) == "stacked"


def test_auto_knows_that_screened_steps_cost_less(rng: np.random.Generator) -> None:
    """Blocks of 63 learners are worth their cost in fewer steps than of 64 learners."""
    few, many = (learners_of(rng.random((3000, k)), 20).problem for k in (63, 64))
    assert [choose_method(few, steps) for steps in (60, 100)] == ["stacked", "gram"]
    assert [choose_method(many, steps) for steps in (300, 600)] == ["stacked", "gram"]


def test_a_device_has_one_method(device_backend: Any, rng: np.random.Generator) -> None:
    """A device makes the steps of "gram" by "stacked"."""
    X, y = map(device_backend.array, additive(rng, 60))
    stacked, gram = (
        boost(learners_of(X), y, steps=3, method=method) for method in METHODS
    )
    assert gram.method == "stacked"
    np.testing.assert_array_equal(gram.updates, stacked.updates)
