"""Terms, compared with SciPy, patsy, Kronecker products and definitions."""

from __future__ import annotations

import pickle
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import patsy
import pytest
from backends import namespace, on_host
from gam_models import columns
from learner_columns import columns_at, design, learn
from scipy.interpolate import BSpline
from scipy.linalg import block_diag
from together import together

from gpusolve.gam import BoostedGAM, load
from gpusolve.gam._terms.frame import Frame  # rows of another dtype
from gpusolve.gam.terms import Term, bbs, bmono, bols, brandom, bspatial, buser

LENIENT = {"unknown": "zero", "missing": "zero"}
ROWS = 80
EPS = np.finfo(np.float64).eps


@pytest.fixture
def data(rng: np.random.Generator) -> dict[str, Any]:
    """Numeric columns x, z, lon, lat, day, and factors g of 4 levels and id of 12."""
    found = columns(ROWS)
    return found | {
        "x": np.concatenate([[-2.0, 3.0], rng.uniform(-2, 3, ROWS - 2)]),
        "day": rng.integers(0, 366, ROWS),
        "ordered": pd.Categorical(found["g"], ordered=True),
        "id": [f"i{k}" for k in np.arange(ROWS) % 12],
    }


def kronecker_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.array([np.kron(p, q) for p, q in zip(a, b, strict=True)])


def powers(x: Any) -> Any:
    """The columns 1, x, x^2 and x^3."""
    return namespace(x).stack([x**power for power in range(4)], axis=1)


OWN = buser("x", design=powers)


def difference(functions: int, order: int) -> np.ndarray:
    return np.diff(np.eye(functions), order, axis=0)


# ---- counts and penalties of all -----------------------------------------------------

TERMS = [
    (bbs("x"), 24, 2),
    (bbs("x", knots=10, degree=2, differences=1), 13, 1),
    (bbs("x", knots=15, degree=1), 17, 2),
    (bbs("x", differences=3), 24, 3),
    (bbs("x", knots=8, differences=0), 12, 0),
    (bbs("day", knots=[60, 120, 180, 240, 300], boundary=(0, 365)), 9, 2),
    (bbs("x", knots=6, knots_at="quantiles"), 10, 2),
    (bbs("x", knots=12, differences=0, end_knots="repeated"), 16, 0),
    (bbs("x", knots=6, knots_at="quantiles", end_knots="repeated"), 10, 2),
    (bbs("day", cyclic=True, boundary=(0, 365)), 21, 1),
    (bbs("day", cyclic=True, knots=12, degree=2, differences=1), 13, 1),
    (bbs("day", cyclic=True, center=True, knots=12), 12, 0),
    (bbs("x", center=True), 22, 0),
    (bbs("x", center="spectral", differences=3), 21, 0),
    (bbs("x", by="z"), 24, 2),
    (bbs("x", by="g", df=7), 72, 6),
    (bspatial("lon", "lat", knots=6), 100, 4),
    (bspatial("lon", "lat", knots=5, center=True), 77, 0),
    (bspatial("lon", "lat", knots=5, differences=1, center=True), 80, 0),
    (bmono("x"), 24, 2),
    (bols("x"), 2, 0),
    (bols("x", "z", intercept=False), 2, 0),
    (bols("g"), 4, 0),
    (bols("g", intercept=False), 3, 0),
    (bols("g", contrasts="sum"), 4, 0),
    (bols("g", contrasts="dummy"), 4, 0),
    (bols("ordered"), 4, 0),
    (bols("x", by="g"), 6, 0),
    (brandom("id"), 12, 0),
    (brandom("id", by="x"), 12, 0),
    (buser("x", "z", K=np.diag([0, 1])), 2, 1),
    (OWN, 4, 0),
    (bols("x") + bols("z", intercept=False), 3, 3),
    (bbs("x", knots=8) + bols("g", df=2), 16, 2),
    (bbs("x", knots=8) + bols("z"), 14, 4),
    (bols("x", lambda_=3) + bbs("z", knots=8, lambda_=4), 14, 2),
    (bols("g", df=2, contrasts="dummy") * bbs("x", knots=8, df=3), 48, 0),
    (bbs("x", knots=5, df=2.5) * bbs("z", knots=6, df=2.5), 90, 4),
    (bols("g", lambda_=0) * bbs("x", knots=8, lambda_=5), 48, 8),
    (bols("g", lambda_=1, contrasts="dummy") * bbs("x", knots=8, lambda_=5), 48, 0),
]


@together(("term", "columns", "null"), TERMS, ids=lambda value: str(value))
def test_columns_and_null_space(
    data: dict[str, Any], term: Term, columns: int, null: int
) -> None:
    """The numbers of mboost's coefficients, and the rank of the penalty."""
    learned = learn(term, data)
    X = design(term, data)
    assert X.shape == (ROWS, columns)
    K = learned.penalty()
    assert K.shape == (columns, columns)
    np.testing.assert_array_equal(K, K.T)
    spectrum = np.linalg.eigvalsh(K)
    assert (spectrum > 1e-9 * max(1, spectrum[-1])).sum() == columns - null
    assert learned.null_dimension == null


def test_degrees_of_freedom_of_combinations() -> None:
    spline, line, slope = bbs("x", df=3), bols("z", df=2), bols("z")
    given = bbs("x", lambda_=5)
    assert ((spline + line).df, (spline + line).lambda_) == (5, None)
    assert ((spline * line).df, (spline * line).lambda_) == (6, None)
    assert ((spline + slope).df, (spline * slope).df) == (3, 3)
    assert ((spline + given).df, (spline * given).df) == (3, 3)
    assert ((given + slope).lambda_, (given * slope).lambda_) == (1, 1)
    assert ((slope + slope).lambda_, slope.lambda_, slope.df) == (1, None, None)
    assert ((spline + line + line).df, ((spline + line) * line).df) == (7, 10)


# ---- splines -------------------------------------------------------------------------


@together("degree", range(6))
@together(
    ("end_knots", "knots"),
    product(["continued", "repeated"], [4, (-1.5, -1.4, 0.0, 2.0)]),
)
def test_splines_are_those_of_scipy(
    backend: Any, data: dict[str, Any], degree: int, end_knots: Any, knots: Any
) -> None:
    """Knots continue by the mean width of a cell; outside are tangents, or the ends."""
    interior = np.linspace(-2, 3, 6)[1:-1] if knots == 4 else knots
    steps = np.arange(1, degree + 1) * (end_knots == "continued")
    positions = np.concatenate([-2 - steps[::-1], [-2, *interior, 3], 3 + steps])
    scipy = BSpline(positions, np.eye(degree + 5), degree)
    x = np.concatenate([data["x"], interior, [-2.7, 4.5]])
    ends = np.clip(x, -2, 3)
    tangents = scipy(ends, 1) * (x - ends)[:, None]
    term = learn(bbs("x", knots=knots, degree=degree, end_knots=end_knots), data)
    at = {"x": backend.array(x)}
    for outside, beyond in ("linear", tangents), ("clamp", 0):
        found = columns_at(term, at, outside=outside)
        np.testing.assert_allclose(found, scipy(ends) + beyond, rtol=1e-11, atol=1e-13)
    with pytest.raises(ValueError, match=r"x must be within the range -2.0 to 3.0"):
        columns_at(term, at, outside="error")


@pytest.mark.paper(
    "Sieminski, 4.1 basis",
    "Splines with repeated end knots equal patsy's splines to 8 degree eps, for 16, 32 "
    "and 64 functions and for degrees 0 to 5",
)
@together("dtype", [np.float32, np.float64])
@together(("degree", "functions"), [
    (3, 16), (3, 32), (3, 64), (0, 1), (0, 8), (1, 7), (2, 3), (4, 9), (5, 6), (5, 30),
])  # fmt: skip
def test_repeated_end_knots_are_those_of_patsy(
    backend: Any, data: dict[str, Any], degree: int, functions: int, dtype: Any
) -> None:
    """Also at the knots and at both ends; x and the values have the `dtype`."""
    interior = np.linspace(-2, 3, functions - degree + 1)[1:-1]
    x = np.concatenate([data["x"], interior]).astype(dtype)
    frame = Frame.of({"x": backend.array(x)})
    term = bbs("x", knots=len(interior), degree=degree, differences=0,
               end_knots="repeated")  # fmt: skip
    (part,) = term.learn(frame).rows(frame, dtype=dtype).parts
    assert part.values.dtype == dtype
    ours = on_host(term.learn(frame).rows(frame, dtype=dtype).dense())
    theirs = patsy.bs(x.astype(np.float64), knots=interior, degree=degree,
                      include_intercept=True)  # fmt: skip
    rounding = EPS * 8 * degree + (np.finfo(dtype).eps if dtype == np.float32 else 0)
    least = np.finfo(dtype).smallest_subnormal
    np.testing.assert_allclose(ours, theirs, rtol=rounding, atol=least)


def test_knots_at_quantiles(data: dict[str, Any]) -> None:
    skewed = {"x": np.exp(data["x"])}
    term = learn(bbs("x", knots=4, knots_at="quantiles"), skewed)
    expected = np.quantile(skewed["x"], [0.2, 0.4, 0.6, 0.8])
    np.testing.assert_allclose(term.interior, [expected])
    ties = {"x": np.r_[np.zeros(60), 1:11.0]}
    assert learn(bbs("x", knots=9, knots_at="quantiles"), ties).functions == 5
    term = bbs("x", knots=11, knots_at="quantiles", end_knots="repeated")
    theirs = patsy.dmatrix("bs(x, df=15, include_intercept=True) - 1", data)
    np.testing.assert_allclose(design(term, data), theirs, rtol=0, atol=1e-13)


def test_ranges_of_a_value_and_of_rounding() -> None:
    for at in ("equidistant", "quantiles"):
        for ends in ("continued", "repeated"):
            term = bbs("x", knots=9, knots_at=at, end_knots=ends)
            assert not design(term, {"x": np.ones(9)}).any()
    # The interior knots round to four numbers; the last number is the upper end.
    x = 1 + np.arange(4) * EPS
    found = design(bbs("x", knots=20, end_knots="repeated"), {"x": x})
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-15)


@together("degree", range(1, 6))
@together("knots", [1, 12, (20.0, 50.0, 200.0, 340.0)])
def test_cyclic_splines_repeat_the_knots_of_the_period(
    data: dict[str, Any], degree: int, knots: Any
) -> None:
    """SciPy's splines a period apart share a coefficient."""
    inner = (
        np.linspace(0, 365, knots + 2)[:-1] if isinstance(knots, int) else [0, *knots]
    )
    cells = len(inner)
    around = np.ravel(inner + 365 * np.arange(-5.0, 6)[:, None])[5 * cells - degree :]
    positions = around[: cells + 2 * degree + 1]
    scipy = BSpline(positions, np.eye(cells)[np.arange(cells + degree) % cells], degree)
    term = bbs("day", knots=knots, degree=degree, differences=1, cyclic=True,
               boundary=(0, 365))  # fmt: skip
    days = np.append(data["day"], [0, 365]) * 1.0
    found = columns_at(learn(term, data), {"day": days})
    np.testing.assert_allclose(found, scipy(days), atol=1e-12)


@together("center", [True, "spectral"])
@together("order", [0, 1, 2, 3])
def test_centred_bases_leave_out_the_polynomials(
    data: dict[str, Any], center: Any, order: int
) -> None:
    """No column has a polynomial part, and K is the penalty of the splines."""
    term = learn(bbs("x", knots=8, differences=order, center=center), data)
    T = term.transform()
    polynomials = np.vander(np.arange(12) / 12, order)
    np.testing.assert_allclose(polynomials.T @ T, 0, atol=1e-9)
    D = difference(12, order)
    np.testing.assert_allclose(T.T @ D.T @ D @ T, term.penalty(), atol=1e-9)
    if center is True:
        np.testing.assert_allclose(D @ T, np.eye(12 - order), atol=1e-9)


# ---- surfaces ------------------------------------------------------------------------


def test_a_surface_has_knots_and_ends_for_each_column(data: Any) -> None:
    ends = ((4, 11), (44, 51))
    term = bspatial("lon", "lat", knots=([6, 7], [46, 47, 49]), boundary=ends)
    assert design(term, data).shape == (ROWS, 6 * 7)
    assert learn(term, data).ends == ends
    far = {"lon": [12.0, 13.0, 14.0], "lat": [47.0] * 3}  # linear in each margin
    found = columns_at(learn(term, data), far) @ np.cos(np.arange(42))
    np.testing.assert_allclose(np.diff(found, 2), 0, atol=1e-9)


# ---- constraints ---------------------------------------------------------------------

SIGNS = {
    "increasing": (1, 1), "decreasing": (-1, 1), "convex": (1, 2), "concave": (-1, 2),
    "positive": (1, 0), "negative": (-1, 0),
}  # fmt: skip
"""The sign of the derivative of some order."""


@together("constraint", SIGNS)
@together("degree", range(6))
@together(
    ("knots", "end_knots"),
    product([7, (-1.5, -1.4, 0.0, 2.0)], ["continued", "repeated"]),
)
def test_coefficients_in_the_cone_give_the_shape(
    data: dict[str, Any], constraint: str, degree: int, knots: Any, end_knots: str
) -> None:
    options = {"degree": degree, "knots": knots, "end_knots": end_knots}
    term = learn(bmono("x", constraint=constraint, **options), data)
    C = term.constraint()
    sign, order = SIGNS[constraint]
    if degree == 0 and order == 2:
        return
    assert np.linalg.matrix_rank(C) == len(C) == term.functions - order
    at = {"x": np.linspace(-2, 3, 400)}
    X = columns_at(term, at)
    for edge in np.eye(len(C)):
        f = X @ np.linalg.pinv(C) @ edge
        f = np.diff(f, order) * sign
        assert f.min() > -1e-10
        assert f.max() > 1e-7


def test_constraints_of_differences_blocks_and_sums(data: dict[str, Any]) -> None:
    for constraint, (sign, order) in SIGNS.items():
        C = learn(bmono("x", constraint=constraint, knots=3), data).constraint()
        np.testing.assert_array_equal(C, sign * difference(7, order))
    C = difference(7, 1)
    by = learn(bmono("x", knots=3, by="g"), data).constraint()
    np.testing.assert_array_equal(by, block_diag(C, C, C))
    both = learn(bols("z") + bmono("x", knots=3), data).constraint()
    np.testing.assert_array_equal(both, np.hstack([np.zeros((6, 2)), C]))
    assert learn(bols("z") + bbs("x"), data).constraint() is None


# ---- factors -------------------------------------------------------------------------


def test_an_ordered_factor_ties_neighbouring_levels(data: dict[str, Any]) -> None:
    b = np.array([3.0, 5.0, 4.0, -1.0])
    K = learn(bols("ordered"), data).penalty()
    assert b @ K @ b == 3**2 + (5 - 3) ** 2 + (4 - 5) ** 2 + (-1 - 4) ** 2
    for term in (bols("g"), bols("ordered", contrasts="sum"), brandom("ordered")):
        np.testing.assert_array_equal(learn(term, data).penalty(), np.eye(4))


# ---- combinations --------------------------------------------------------------------


def test_sums_and_products_are_those_of_dense_matrices(
    backend: Any, data: dict[str, Any]
) -> None:
    names = ("x", "z", "day")
    frame = Frame.of({n: backend.array(data[n]) for n in names} | {"g": data["g"]})
    parts = [
        bbs("x", knots=5),
        bbs("day", knots=4, cyclic=True),
        bols("g", df=2),
        bols("z", df=1, intercept=False),
    ]
    for a in parts:
        for b in parts:
            A, B = design(a, data), design(b, data)
            plain = columns_at((a + b).learn(frame), frame)
            np.testing.assert_allclose(plain, np.hstack([A, B]), atol=1e-14)
            plain = columns_at((a * b).learn(frame), frame)
            np.testing.assert_allclose(plain, kronecker_rows(A, B), atol=1e-14)


# ---- missing values and unknown levels -----------------------------------------------

READERS = [
    (bbs("x", knots=5), "x"), (bbs("x", knots=(0.0, 1.0)), "x"), (bols("x"), "x"),
    (bbs("day", knots=5, cyclic=True, by="x"), "x"), (bols("g"), "g"),
    (bbs("x", by="g"), "g"), (brandom("g", by="x"), "x"), (brandom("g"), "g"),
    (bspatial("lon", "lat", knots=2), "lat"), (buser("x", "z"), "x"),
    (bols("x") + bols("g"), "x"), (bols("x") * bols("g"), "g"),
]  # fmt: skip


@together(("term", "name"), READERS)
def test_a_row_with_a_missing_value_is_zero_or_an_error(
    data: dict[str, Any], term: Term, name: str
) -> None:
    holes = np.arange(ROWS) % 7 == 3
    holed = dict(data)
    missing: Any = None if name == "g" else np.nan
    column = np.array(data[name], object if name == "g" else float)
    column[holes] = missing
    holed[name] = column
    expected = columns_at(learn(term, data), data)
    expected[holes] = 0
    found = columns_at(learn(term, data), holed, missing="zero")
    np.testing.assert_allclose(found, expected, atol=1e-15)
    learned = learn(term, holed)
    with pytest.raises(ValueError, match=f"{name} must not have missing values"):
        learned.rows(Frame.of(holed))


@together("contrasts", ["treatment", "sum", "helmert", "dummy"])
def test_an_unknown_level_has_no_effect_or_is_an_error(
    data: dict[str, Any], contrasts: str
) -> None:
    for term in (bols("g", contrasts=contrasts), bbs("x", by="g")):
        learned = learn(term, data)
        new = {"g": ["c", "new", "b", "new"], "x": [0.0, 1.0, 2.0, 3.0]}
        with pytest.raises(ValueError, match=r"g must have the levels .* \('new'\)"):
            learned.rows(Frame.of(new))
        found = columns_at(learned, new, unknown="zero")
        assert found.any(axis=1).tolist() == [True, False, True, False]
        known = {"g": ["c", "b"], "x": [0.0, 2.0]}
        np.testing.assert_array_equal(found[::2], columns_at(learned, known))


# ---- warnings and errors -------------------------------------------------------------


def test_outliers_that_stretch_knots_are_a_warning(rng: np.random.Generator) -> None:
    x = rng.lognormal(0, 0.5, 1000)
    x[[3, 500, 700]] = 200, 400, 1000
    with pytest.warns(UserWarning, match="rooms has outliers .*quantiles"):
        learn(bbs("rooms"), {"rooms": x})
    few = rng.integers(0, 5, 1000) * 1.0 + 1000 * (np.arange(1000) == 7)
    for term, quiet in (
        (bbs("rooms", knots_at="quantiles"), x),
        (bbs("rooms", knots=[1, 2, 3]), x),
        (bols("rooms"), x),
        *((bbs("rooms"), y) for y in (rng.exponential(size=10_000), few, np.ones(9))),
    ):
        learn(term, {"rooms": quiet})  # warnings are errors


# ---- devices -------------------------------------------------------------------------


def test_rows_on_a_device_equal_those_on_the_host(
    device_backend: Any, data: dict[str, Any]
) -> None:
    """Also with missing values, unknown levels, and values outside the range."""
    new = {
        name: np.where(np.arange(ROWS) % 9 == 4, np.nan, data[name] * 1.0)
        for name in ("x", "z", "lon", "lat", "day")
    }
    new["x"] = new["x"] * 1.5
    labels = {"g": np.where(np.arange(ROWS) % 9 == 5, "new", data["g"])}
    labels |= {"ordered": labels["g"], "id": data["id"]}
    there = {name: device_backend.array(column) for name, column in new.items()}
    for term, *_ in TERMS:
        expected = columns_at(learn(term, data), new | labels, **LENIENT)
        frame = Frame.of(
            {name: device_backend.array(data[name]) for name in new}
            | {name: data[name] for name in labels}
        )
        learned = term.learn(frame)
        assert learned == learn(term, data)
        found = columns_at(learned, there | labels, **LENIENT)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


# ---- values --------------------------------------------------------------------------


@together("term", [term for term, *_ in TERMS if term != OWN], ids=str)
def test_terms_are_values(data: dict[str, Any], term: Term, tmp_path: Path) -> None:
    """Also in the file of a model, before and after they learn."""
    learned = learn(term, data)
    assert eval(repr(term)) == term
    assert hash(learned) == hash(pickle.loads(pickle.dumps(learned)))
    BoostedGAM([term, learned]).save(tmp_path / "model.json")
    loaded = load(tmp_path / "model.json").learners
    assert loaded == [term, learned]
    assert {one.label for one in loaded} == {term.label}
    np.testing.assert_array_equal(columns_at(loaded[1], data), design(term, data))
    assert learn(learned, data) == learned


def test_labels() -> None:
    assert bmono("x").label == "bmono(x)"
    assert bmono("x", constraint="convex").label == "bmono(x, constraint='convex')"
    assert bbs("x1", by="g", df=7).label == "bbs(x1, by=g, df=7)"
    assert (bols("g") * (bbs(0) + bols("z"))).label == "bols(g) * (bbs(0) + bols(z))"
    assert bspatial("a", "b").label == "bspatial(a, b)"


def test_columns_from_the_key_of_a_dict() -> None:
    assert bbs(df=3).with_covariates("age") == bbs("age", df=3)
    assert bspatial().with_covariates(("a", "b")) == bspatial("a", "b")
    assert bbs("x").with_covariates("x") == bbs("x")
    both = (bols() + bbs("z", center=True)).with_covariates("x")
    assert both == bols("x") + bbs("z", center=True)
    assert both.covariates == ("x", "z")
    assert (bbs("x", by="g") * bols("x")).columns == ("x", "g")
