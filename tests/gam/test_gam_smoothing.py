"""The fit of a single learner: its degrees of freedom, and singular matrices.

The oracles are hat matrices from singular vectors, SciPy's bounded least squares, group
means, and figures of mboost.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from gam_models import LEARNERS, RING, columns
from learner_columns import columns_at
from numpy.typing import NDArray
from scipy.linalg import null_space
from scipy.optimize import lsq_linear
from together import together

from gpusolve._device import threads  # the number of BLAS threads within a fit
from gpusolve.gam import BoostedGAM, bbs, bmrf, bols, brandom, bspatial, buser
from gpusolve.gam._boosting import problem  # when it counts threads
from gpusolve.gam.terms import Term

Floats = NDArray[np.float64]

N = 120


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    """Columns of which some are functions of others, and of different units."""
    rng = np.random.default_rng(20261121)
    found = columns(N)
    x = found["x"]
    return found | {
        "line": 2 * x + 1,
        "few": rng.integers(0, 4, N).astype(float),
        "two": rng.integers(0, 2, N).astype(float),
        "one": np.ones(N),
        "income": 1e7 * (1 + rng.random(N)),
        "skewed": rng.random(N) ** 8,
        "f": rng.choice(["a", "b", "c"], N),
        "many": rng.permutation(np.arange(N) % 12),
        "region": rng.choice(["p", "q", "r"], N),
        "y": np.sin(9 * x) + rng.standard_normal(N) / 9,
    }


NEIGHBOURS = {"p": ["q"], "q": ["p", "r"], "r": ["q"], "s": ["t"], "t": ["s"], "u": []}
"""Regions in three components; s, t and u have no rows."""

TERMS: dict[str, Term] = {
    "two intercepts": bbs("x", df=4.5) + bols("f"),
    "three intercepts": bbs("x", df=7.5) + bols("f") + bols("g"),
    "a line twice": bbs("x") + bols("x"),
    "a line, a constant": bbs("x", df=2.5) + bols("line") + bols("one"),
    "a spline twice": bbs("x") + bbs("x"),
    "units": bbs("x") + bols("income", "x"),
    "units and a ridge": bbs("x", df=9) + bols("income") + bols("f", df=2),
    "few values": bbs("few", df=2.5) + bols("few"),
    "by a factor": bbs("x", by="f", df=9) + bols("f"),
    "cyclic": bbs("x", cyclic=True, boundary=(0, 1)) + bols("f"),
    "centred": bbs("x", center=True) + bols("f"),
    "collinear surface": bspatial("x", "line", knots=5),
    "surface of few values": bspatial("few", "x", knots=4),
    "a product with itself": bbs("x", df=5, knots=6) * bols("x"),
    "a product with ones": bbs("x", df=5) * bols("one"),
    "regions without rows": bmrf("region", neighbours=NEIGHBOURS, df=2),
    "regions and ones": bmrf("region", neighbours=NEIGHBOURS, df=2) + bols("one"),
    "a ring": bmrf("g", neighbours=RING, df=2.5),
    "a line": bbs("x", df=2),
    "without a penalty": bols("line", "x", "income"),
    "levels": brandom("many"),
    "slopes": brandom("many", by="z", df=3),
    "levels by a factor": brandom("many", by="f", df=9),
    "one column": bols("z", intercept=False, df=0.5),
    "pairs of levels": brandom("many", df=3) * brandom("f", df=2),
    "slopes by product": brandom("many", df=3) * bols("z", intercept=False),
    "a skewed number": bbs("skewed", df=3),
    "steps": bbs("x", degree=0, differences=1, df=1.5),
    "third differences": bbs("x", differences=3, df=7.5),
    "a ridge": bbs("x", degree=5, differences=0, df=3),
    **{str(term): term for term in LEARNERS},
}
"""Penalised learners, also with dependent columns."""


def hat_matrix(X: Floats, root: Floats) -> Floats:
    """The hat matrix of ``min ||X b - u||^2 + ||root b||^2``, from singular vectors.

    Columns are scaled to norm 1. Directions whose singular value is below 1e-9 of the
    largest have neither data nor a penalty.
    """
    A = np.vstack([X, root])
    norms = np.linalg.norm(A, axis=0)
    U, s, _ = np.linalg.svd(A / np.where(norms > 0, norms, 1), full_matrices=False)
    U = U[: len(X), s > 1e-9 * s[0]]
    return np.asarray(U @ U.T)


def root_of(K: Floats) -> Floats:
    """R with ``R'R = K``, without the null space of K."""
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-10 * max(values[-1], 1e-300)
    return np.asarray(np.sqrt(values[kept])[:, None] * vectors[:, kept].T)


def constrained_fit(X: Floats, root: Floats, C: Floats, u: Floats) -> Floats:
    """``X b`` of the penalised least squares with ``C b >= 0``, by SciPy."""
    basis = np.linalg.inv(np.vstack([C, null_space(C).T]))
    lower = np.r_[np.zeros(len(C)), np.full(len(basis) - len(C), -np.inf)]
    target = np.r_[u, np.zeros(len(root))]
    A = np.vstack([X, root]) @ basis
    found = lsq_linear(A, target, (lower, np.inf), method="bvls", tol=1e-15)
    return np.asarray(X @ basis @ found.x)


def first_fit(term: Any, data: Any, u: Floats, w: Any, **options: Any) -> BoostedGAM:
    """A model whose only step is the whole fit of the learner to u."""
    given = {"learning_rate": 1.0, "max_iter": 1, "step_rule": "mboost", **options}
    model = BoostedGAM([term], **given)
    return model.fit(data, u, sample_weight=w, offset=np.zeros(len(u)))


@together(("definition", "weighted"), [("2S-SS", False), ("trace", True)])
@together("term", TERMS.values(), ids=TERMS.keys())
def test_the_first_fit_is_that_of_the_hat_matrix_with_the_df(
    data: dict[str, Any], term: Term, definition: str, weighted: bool
) -> None:
    """mboost's shrinkage of singular matrices, by 1.49e-8, changes df by up to 1e-4."""
    rng = np.random.default_rng(0)
    u = rng.standard_normal(N)
    w = rng.integers(1, 4, N) * 1.0 if weighted else np.ones(N)
    w[data["f"] == "c"] *= not weighted  # a level without weight
    model = first_fit(term, data, u, w, df_definition=definition)
    learned, lambda_ = model.terms_[0], model.lambda_[0]
    fit = model.predict(data, kind="link", offset=0.0)
    if "btree" in term.label:
        assert len(set(fit.tolist())) == 2
        return
    X = np.sqrt(w)[:, None] * columns_at(learned, data)
    root = np.sqrt(lambda_) * root_of(learned.penalty())
    S = hat_matrix(X, root)
    df = np.trace(S if definition == "trace" else 2 * S - S @ S)
    if lambda_ > 0 and learned.lambda_ is None:
        assert df == pytest.approx(term.df, rel=1e-4)
    else:
        assert df == pytest.approx(np.linalg.matrix_rank(X), abs=1e-6)
    expected = S @ (np.sqrt(w) * u)
    if learned.constraint() is not None:
        v = np.sqrt(w) * u
        expected = constrained_fit(X, root, learned.constraint(), v)
    np.testing.assert_allclose(np.sqrt(w) * fit, expected, atol=1e-7)


def test_directions_without_data_and_penalty_do_not_change_lambda(data: Any) -> None:
    """If they counted as nearly singular, lambda would change by 1e-8."""
    for terms in (
        (TERMS["a line twice"], bbs("x")),
        (TERMS["regions and ones"], TERMS["regions without rows"]),
    ):
        found = [
            first_fit(term, data, data["y"], np.arange(N) % 3.0).lambda_
            for term in terms
        ]
        np.testing.assert_allclose(*found, rtol=1e-10)


# ---- singular matrices ---------------------------------------------------------------


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_few_levels_are_fitted_exactly(levels: int, rng: np.random.Generator) -> None:
    """A covariate with fewer levels than functions has a singular Gram matrix.

    Between two levels, where data are missing, a straight line costs nothing.
    """
    x = rng.integers(0, levels, 60).astype(float)
    y = rng.standard_normal(60)
    model = first_fit(bbs("x", knots=6, differences=levels), {"x": x}, y, None)
    assert model.lambda_[0] == 0
    means = np.array([y[x == level].mean() for level in range(levels)])
    expected = np.zeros(60) if levels == 1 else means[x.astype(int)]
    found = model.predict({"x": x}, kind="link", offset=0.0)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    if levels == 2:
        at = {"x": np.linspace(0, 1, 11)}
        line = means[0] + np.linspace(0, 1, 11) * np.diff(means)
        np.testing.assert_allclose(model.partial_effect(0, at), line, atol=1e-9)


RIDGE = bbs("x", knots=29, differences=0, df=100)


@together("term", [RIDGE, RIDGE + bols("x"), bols("x") * RIDGE], ids=str)
@together("off", [0, 1e-9])
def test_a_ridge_of_more_degrees_of_freedom_than_the_rank_gives_the_means(
    term: Term, off: float
) -> None:
    """Values on knots, or nearly: B-splines that are nearly 0 there do not count."""
    x = np.repeat([0, 1 + off, 2 - off, 3], 30)
    y = np.random.default_rng(2).standard_normal(120)
    model = first_fit(term, {"x": x}, y, None)
    found = model.predict({"x": x}, kind="link", offset=0.0)
    means = y.reshape(4, 30).mean(axis=1)
    np.testing.assert_allclose(found, means.repeat(30), atol=1e-9)
    assert abs(model.coefficients_[0]).max() < 10


def test_a_learner_does_not_have_the_units_of_another(data: dict[str, Any]) -> None:
    """Both have two columns and a ridge; an income and a tiny number have units."""
    d, y = data | {"tiny": 1e-9 * data["z"]}, data["z"]
    spline = bbs("x", knots=0, degree=1, differences=0, df=9)
    terms = [spline, buser("income", "tiny", df=9)]
    model = BoostedGAM(terms, learning_rate=1.0, max_iter=1, step_rule="mboost")
    model.fit(d, y, offset=np.zeros(N))
    np.testing.assert_allclose(model.predict(d, offset=0), y, atol=1e-6)


def test_rank_does_not_depend_on_the_number_of_equal_rows() -> None:
    x = {"x": np.repeat([0.0, 0.3, 1.0], [1, 1, 50_000])}
    assert first_fit(bbs("x"), x, x["x"], None).lambda_[0] == 0


@together("functions", [4, 8, 33])
@together("covariate", ["x", "skewed", "few", "two", "one", "single"])
@together("penalty", ["difference", "ridge", "cyclic", None])
def test_a_fit_without_a_penalty_is_a_projection(
    data: dict[str, Any], functions: int, covariate: str, penalty: Any
) -> None:
    """Fitting a fit again changes nothing, however singular the Gram matrix is.

    Directions that count have at least 1e-12 of the largest eigenvalue, so rounding
    errors grow by up to 1e12. Few values on knots leave B-splines that are 0 but for
    rounding errors.
    """
    x = data[covariate] if covariate != "single" else np.eye(N)[-1]
    for dtype in (np.float32, np.float64):
        X, fits = x[:, None].astype(dtype), [data["y"]]
        for _ in range(2):
            model = BoostedGAM(n_basis=functions, penalty=penalty, df=1e9)
            model.set_params(learning_rate=1.0, max_iter=1, step_rule="mboost")
            model.fit(X, fits[-1], offset=np.zeros(N))
            fits.append(model.predict(X, kind="link", offset=0.0))
        np.testing.assert_allclose(fits[2], fits[1], atol=3e-5)


def test_learners_are_prepared_with_one_blas_thread(
    monkeypatch: pytest.MonkeyPatch, data: dict[str, Any]
) -> None:
    """Their sums do not depend on the number of cores."""
    found, ranks = set(), problem.ranks

    def noted(*args: Any) -> Any:
        info = threads.blas().info()
        found.update(one["num_threads"] for one in info if one["user_api"] == "blas")
        return ranks(*args)

    monkeypatch.setattr(problem, "ranks", noted)
    with threads.blas().limit(limits=2, user_api="blas"):
        BoostedGAM([bbs("x")], max_iter=1).fit(data, data["y"])
    assert found == {1}


# ---- factors of many levels ----------------------------------------------------------


@together("contrasts", ["treatment", "sum", "helmert", "dummy"])
def test_a_fit_without_a_penalty_has_the_means_of_the_levels(
    contrasts: str, data: Any
) -> None:
    y, g = data["y"], data["many"]
    term = bols("many", contrasts=contrasts, levels=range(13))
    model = BoostedGAM([term], learning_rate=1, max_iter=1, unknown="zero")
    found = model.fit(data, y).predict(data)
    means = np.array([y[g == level].mean() for level in range(12)])
    np.testing.assert_allclose(found, means[g])
    assert model.partial_effect(0, {"many": np.array([12])}) == pytest.approx(0)


def test_levels_without_rows_do_not_count_for_the_rank(data: Any) -> None:
    given = {"contrasts": "dummy", "levels": range(14)}
    for df, is_free in ((12.5, True), (11.5, False)):
        model = first_fit(bols("many", df=df, **given), data, data["y"], None)
        assert (model.lambda_[0] == 0) == is_free


def test_a_factor_needs_memory_for_its_levels_only() -> None:
    """30,000 levels, whose matrix would have 7 GB."""
    rng = np.random.default_rng(0)
    g, n = rng.integers(0, 30_000, 60_000), 60_000
    y = rng.standard_normal(30_000)[g] + rng.standard_normal(n)
    tracemalloc.start()
    model = BoostedGAM([brandom("g", df=3000)], learning_rate=0.1, max_iter=5)
    model.fit({"g": g}, y)
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()
    effects = np.bincount(g, y - y.mean()) / (np.bincount(g) + model.lambda_[0])
    first = model.partial_effect(0, {"g": g[:100]}, iteration=1)
    np.testing.assert_allclose(first, 0.1 * effects[g[:100]], rtol=1e-10)


def test_default_factors_of_many_levels_are_penalised_as_splines(data: Any) -> None:
    d = {"g": data["many"].astype(str), "h": data["g"], "x": data["x"]}
    model = BoostedGAM(df=5).fit(d, data["y"])
    assert model.names_[:2] == ["brandom(g)", "bols(h)"]
    assert repr(model.terms_[2]).startswith("bbs('x', df=5")
    assert BoostedGAM(penalty=None).fit(d, data["y"]).names_[0] == "bols(g)"
