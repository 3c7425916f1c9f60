"""Terms, compared with SciPy, patsy, Kronecker products and definitions."""

from __future__ import annotations

import json
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.interpolate import BSpline
from scipy.linalg import block_diag
from together import together

from gpusolve._device.arrays import namespace, on_host
from gpusolve.gam._model.store import from_plain, to_plain
from gpusolve.gam._terms.basis import BSplines, differences, penalty_matrix
from gpusolve.gam._terms.frame import Frame
from gpusolve.gam._terms.knots import Knots
from gpusolve.gam._terms.rows import Rows
from gpusolve.gam.terms import (
    Term,
    bbs,
    bmono,
    bols,
    brandom,
    bspatial,
    buser,
)

patsy = pytest.importorskip("patsy")
pd = pytest.importorskip("pandas")

LENIENT = {"unknown": "zero", "missing": "zero"}
DEGREES = range(6)
ROWS = 80
EPS = np.finfo(np.float64).eps


@pytest.fixture
def data(rng: np.random.Generator) -> dict[str, Any]:
    """Numeric columns x, z, lon, lat, day, and factors g of 4 levels and id of 12."""
    g = np.concatenate([list("abcd"), rng.choice(list("abcd"), ROWS - 4)])
    return {
        "x": np.concatenate([[-2.0, 3.0], rng.uniform(-2, 3, ROWS - 2)]),
        "z": rng.standard_normal(ROWS),
        "lon": rng.uniform(5, 10, ROWS),
        "lat": rng.uniform(45, 50, ROWS),
        "day": rng.integers(0, 366, ROWS),
        "g": g,
        "ordered": pd.Categorical(g, ordered=True),
        "id": [f"i{k}" for k in np.arange(ROWS) % 12],
    }


def design(term: Term, data: Any, **options: Any) -> np.ndarray:
    """The columns of a term that learned from the data, (n, columns)."""
    frame = Frame.of(data)
    learned = term.learn(frame)
    return columns_at(learned, frame, **options)


def columns_at(learned: Term, X: Any, **options: Any) -> np.ndarray:
    functions = on_host(learned.rows(Frame.of(X), **options).dense())
    assert functions.shape[1] == learned.functions
    T = learned.transform()
    return functions if T is None else functions @ T


def learn(term: Term, data: Any) -> Any:
    return term.learn(Frame.of(data))


def kronecker_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.array([np.kron(p, q) for p, q in zip(a, b, strict=True)])


def smoother(X: np.ndarray, K: np.ndarray, lambda_: float) -> np.ndarray:
    return X @ np.linalg.solve(X.T @ X + lambda_ * K, X.T)


def powers(x: Any) -> Any:
    """The columns 1, x, x^2 and x^3."""
    return namespace(x).stack([x**power for power in range(4)], axis=1)


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
    (buser("x", design=powers), 4, 0),
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


@together(
    ("degree", "dtype"),
    [(3, np.float32), *((degree, np.float64) for degree in DEGREES)],
)
def test_equidistant_knots_have_the_bits_of_the_uniform_basis(
    backend: Any, data: dict[str, Any], degree: int, dtype: Any
) -> None:
    x = backend.array(data["x"].astype(dtype))
    X = x[:, None]
    expected = BSplines.spanning(X, 21 + degree, degree).evaluate(X, dtype=dtype)
    frame = Frame.of({"x": x})
    rows = bbs("x", degree=degree).learn(frame).rows(frame, dtype=dtype)
    (part,) = [part.stored() for part in rows.parts]
    np.testing.assert_array_equal(on_host(part.first), on_host(expected.first[0]))
    np.testing.assert_array_equal(on_host(part.values), on_host(expected.values[0]))
    assert part.values.dtype == dtype


@together("degree", DEGREES)
def test_unequal_knots_equal_scipy(
    backend: Any, data: dict[str, Any], degree: int
) -> None:
    interior = (-1.5, -1.4, 0.0, 2.0)
    x = np.concatenate([data["x"], interior])
    frame = Frame.of({"x": backend.array(x)})
    term = bbs("x", knots=interior, degree=degree).learn(frame)
    ours = on_host(term.rows(frame).dense())
    steps = np.arange(1, degree + 1)
    knots = np.concatenate([-2 - steps[::-1], [-2, *interior, 3], 3 + steps])
    inside = x < 3
    scipy = BSpline.design_matrix(x[inside], knots, degree).toarray()
    np.testing.assert_allclose(ours[inside], scipy, atol=1e-13)
    np.testing.assert_allclose(ours.sum(axis=1), 1, atol=1e-14)


@together("degree", DEGREES)
def test_given_equidistant_knots_equal_their_number(
    data: dict[str, Any], degree: int
) -> None:
    given = bbs("x", knots=np.linspace(-2, 3, 8)[1:-1], degree=degree)
    number = bbs("x", knots=6, degree=degree)
    at = {"x": np.concatenate([data["x"] * 1.7, [-2.0, 3.0]])}
    # At a knot, a function of degree 0 may belong to either cell.
    for outside in ("linear", "clamp"):
        np.testing.assert_allclose(
            columns_at(learn(given, data), at, outside=outside),
            columns_at(learn(number, data), at, outside=outside),
            atol=1e-12,
        )


def test_splines_within_boundary_knots_span_those_of_patsy(
    data: dict[str, Any],
) -> None:
    interior = [-1.0, 0.2, 2.0]
    ours = design(bbs("x", knots=interior), data)
    theirs = np.asarray(
        patsy.dmatrix(
            f"bs(x, knots={interior}, degree=3, include_intercept=True,"
            " lower_bound=-2, upper_bound=3) - 1",
            data,
        )
    )
    assert theirs.shape == ours.shape
    fit = ours @ np.linalg.lstsq(ours, theirs, rcond=None)[0]
    np.testing.assert_allclose(fit, theirs, atol=1e-11)


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
    ours = on_host(Rows(functions, (part,)).dense())
    theirs = patsy.bs(x.astype(np.float64), knots=interior, degree=degree,
                      include_intercept=True)  # fmt: skip
    rounding = EPS * 8 * degree + (np.finfo(dtype).eps if dtype == np.float32 else 0)
    least = np.finfo(dtype).smallest_subnormal
    np.testing.assert_allclose(ours, theirs, rtol=rounding, atol=least)


@pytest.mark.parametrize("functions", [6, 15])
def test_quantiles_with_repeated_ends_are_the_knots_of_patsy(
    data: dict[str, Any], functions: int
) -> None:
    term = bbs("x", knots=functions - 4, knots_at="quantiles", end_knots="repeated")
    theirs = patsy.dmatrix(f"bs(x, df={functions}, include_intercept=True) - 1", data)
    np.testing.assert_allclose(design(term, data), theirs, rtol=0, atol=1e-13)


def test_the_penalty_leaves_free_a_line_or_a_curve() -> None:
    x = {"x": np.linspace(0, 1, 50)}
    bends = []
    for end_knots in ("continued", "repeated"):
        f = design(bbs("x", knots=6, end_knots=end_knots), x) @ np.arange(10)
        bends.append(abs(np.diff(f, 2)).max() / np.ptp(f))
    assert bends[0] < 1e-14 < 1e-3 < bends[1]


@together("degree", range(1, 6))
@together("end_knots", ["continued", "repeated"])
@together("knots", [6, (-1.5, 0.5, 1.0)])
def test_the_effect_outside_is_the_tangent_or_the_end(
    data: dict[str, Any], degree: int, end_knots: str, knots: Any
) -> None:
    """The oracle is SciPy: outside the knots `patsy.bs` raises."""
    given = bbs("x", knots=knots, degree=degree, end_knots=end_knots)
    term = learn(given, data)
    coef = np.cos(np.arange(term.functions))
    (margin,) = term._margins
    spline = BSpline(margin.positions(), coef, degree)
    ends, x = np.array([-2.0, 3.0]), np.array([-2.7, 4.5])
    tangent = spline(ends) + spline(ends, 1) * (x - ends)
    at = {"x": x}
    found = columns_at(term, at) @ coef
    np.testing.assert_allclose(found, tangent, rtol=1e-11)
    clamped = columns_at(term, at, outside="clamp") @ coef
    np.testing.assert_allclose(clamped, spline(ends), rtol=1e-11)
    with pytest.raises(ValueError, match=r"x must be within the range -2.0 to 3.0"):
        term.rows(Frame.of(at), outside="error")


def test_knots_at_quantiles(data: dict[str, Any]) -> None:
    skewed = {"x": np.exp(data["x"])}
    term = learn(bbs("x", knots=4, knots_at="quantiles"), skewed)
    expected = np.quantile(skewed["x"], [0.2, 0.4, 0.6, 0.8])
    np.testing.assert_allclose(term.interior, [expected])
    ties = {"x": np.r_[np.zeros(60), 1:11.0]}
    assert learn(bbs("x", knots=9, knots_at="quantiles"), ties).functions == 5


@pytest.mark.parametrize("at", ["equidistant", "quantiles"])
@pytest.mark.parametrize("ends", ["continued", "repeated"])
def test_the_basis_of_a_constant_is_zero(at: str, ends: str) -> None:
    term = bbs("x", knots=9, knots_at=at, end_knots=ends)
    assert not design(term, {"x": np.ones(9)}).any()


def test_a_range_may_be_narrower_than_its_knots() -> None:
    """The interior knots round to four numbers; the last number is the upper end."""
    x = 1 + np.arange(4) * np.finfo(np.float64).eps
    found = design(bbs("x", knots=20, end_knots="repeated"), {"x": x})
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-15)


# ---- cyclic splines ------------------------------------------------------------------


@together("degree", range(1, 6))
@together("knots", [1, 12, (20.0, 50.0, 200.0, 340.0)])
def test_cyclic_ends_meet_with_their_derivatives(
    data: dict[str, Any], degree: int, knots: Any
) -> None:
    term = bbs("day", knots=knots, degree=degree, differences=1, cyclic=True,
               boundary=(0, 365))  # fmt: skip
    learned = learn(term, data)
    ends = columns_at(learned, {"day": [0.0, 365.0]})
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-12)
    (margin,) = learned._margins
    rng = np.random.default_rng(3)
    coef = learned.transform() @ rng.standard_normal(len(learned.penalty()))
    spline = BSpline(margin.positions(), coef, degree)
    for order in range(degree):
        scale = np.abs(spline(np.linspace(0, 365, 50), order)).max()
        left, right = spline(0.0, order), spline(365.0, order)
        np.testing.assert_allclose(left, right, atol=1e-10 * scale)


def test_cyclic_cubic_splines_span_those_of_patsy(data: dict[str, Any]) -> None:
    inner = [60.0, 100.0, 200.0, 300.0, 330.0]
    term = bbs("day", knots=inner, cyclic=True, boundary=(0, 365))
    ours = design(term, data)
    theirs = np.asarray(
        patsy.dmatrix(
            f"cc(day, knots={inner}, lower_bound=0, upper_bound=365) - 1", data
        )
    )
    assert theirs.shape == ours.shape
    fit = ours @ np.linalg.lstsq(ours, theirs, rcond=None)[0]
    np.testing.assert_allclose(fit, theirs, atol=1e-10)


def test_the_first_cyclic_columns_are_the_functions_of_the_first_cell() -> None:
    day = {"day": np.array([0.0, 2.0, 9.0, 36.4, 365.0])}
    cyclic = design(bbs("day", knots=9, cyclic=True), day)
    plain = design(bbs("day", knots=9), day)
    np.testing.assert_array_equal(cyclic[:4, :4], plain[:4, :4])
    assert not cyclic[:4, 4:].any()


def test_cyclic_penalty_is_that_of_the_ring(data: dict[str, Any]) -> None:
    term = learn(bbs("day", knots=9, cyclic=True), data)
    np.testing.assert_array_equal(term.penalty(), penalty_matrix(10, "cyclic", 2))


@pytest.mark.parametrize("outside", ["linear", "clamp", "error"])
def test_values_outside_a_cyclic_range_are_an_error(
    data: dict[str, Any], outside: str
) -> None:
    term = learn(bbs("day", cyclic=True, boundary=(0, 365)), data)
    with pytest.raises(ValueError, match=r"day must be within the range 0.0 to 365"):
        term.rows(Frame.of({"day": [366.0]}), outside=outside)


# ---- centred splines -----------------------------------------------------------------


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
    D = differences(12, order)
    np.testing.assert_allclose(T.T @ D.T @ D @ T, term.penalty(), atol=1e-9)
    if center is True:
        np.testing.assert_allclose(D @ T, np.eye(12 - order), atol=1e-9)


def test_both_centred_forms_fit_alike(data: dict[str, Any]) -> None:
    fits = [
        smoother(design(bbs("x", center=center), data), np.eye(22), 3.0)
        for center in (True, "spectral")
    ]
    np.testing.assert_allclose(*fits, atol=1e-9)


def test_a_centred_surface_leaves_out_products_of_lines(data: dict[str, Any]) -> None:
    term = learn(bspatial("lon", "lat", knots=3, center=True), data)
    T = term.transform()
    line = np.column_stack([np.ones(7), np.arange(7)])
    np.testing.assert_allclose(np.kron(line, line).T @ T, 0, atol=1e-10)
    D = differences(7, 2)
    K = np.kron(D.T @ D, np.eye(7)) + np.kron(np.eye(7), D.T @ D)
    np.testing.assert_allclose(T.T @ K @ T, term.penalty(), atol=1e-10)


# ---- surfaces ------------------------------------------------------------------------


def test_a_surface_is_the_kronecker_product_of_splines(
    backend: Any, data: dict[str, Any]
) -> None:
    frame = Frame.of({name: backend.array(data[name]) for name in ("lon", "lat")})
    term = bspatial("lon", "lat", knots=4, degree=2)
    x, y = (bbs(name, knots=4, degree=2) for name in ("lon", "lat"))
    X = kronecker_rows(design(x, data), design(y, data))
    learned = term.learn(frame)
    ours = on_host(learned.rows(frame).dense())
    np.testing.assert_allclose(ours, X, atol=1e-14)
    np.testing.assert_array_equal(learned.penalty(), learn(x * y, data).penalty())


def test_a_surface_is_linear_outside_in_each_margin(data: dict[str, Any]) -> None:
    term = learn(bspatial("lon", "lat", knots=4), data)
    coef = np.cos(np.arange(term.functions))

    def effect(lon: list[float], lat: list[float]) -> np.ndarray:
        return columns_at(term, {"lon": lon, "lat": lat}) @ coef

    far = effect([12.0, 13.0, 14.0], [47.0] * 3)
    np.testing.assert_allclose(np.diff(far, 2), 0, atol=1e-9)
    corner = effect([12.0, 13.0, 12.0, 13.0], [40.0, 40.0, 41.0, 41.0])
    assert abs(corner @ [1, -1, -1, 1]) > 1e-3
    far = effect([12.0] * 3, [40.0, 41.0, 42.0])
    np.testing.assert_allclose(np.diff(far, 2), 0, atol=1e-9)


def test_two_columns_of_bbs_are_a_surface(data: dict[str, Any]) -> None:
    pair = bbs("lon", "lat", knots=4, df=6)
    X = design(bspatial("lon", "lat", knots=4), data)
    np.testing.assert_array_equal(design(pair, data), X)
    assert (pair.df, bspatial("lon", "lat").df, bbs("x").df) == (6, 6, 4)


def test_each_column_of_a_surface_may_have_its_knots(data: dict[str, Any]) -> None:
    term = bspatial("lon", "lat", knots=([6, 7], [46, 47, 49]),
                    boundary=((4, 11), (44, 51)))  # fmt: skip
    assert design(term, data).shape == (ROWS, 6 * 7)
    assert learn(term, data).ends == ((4, 11), (44, 51))


# ---- constraints ---------------------------------------------------------------------

SIGNS = {
    "increasing": (1, 1), "decreasing": (-1, 1), "convex": (1, 2), "concave": (-1, 2),
    "positive": (1, 0), "negative": (-1, 0),
}  # fmt: skip
"""The sign of the derivative of some order."""


@together("constraint", SIGNS)
@together("degree", range(6))
@together("knots", [7, (-1.5, -1.4, 0.0, 2.0)])
@together("end_knots", ["continued", "repeated"])
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


def test_constraints_of_equidistant_knots_are_differences(data: dict[str, Any]) -> None:
    for constraint, (sign, order) in SIGNS.items():
        C = learn(bmono("x", constraint=constraint, knots=3), data).constraint()
        np.testing.assert_array_equal(C, sign * differences(7, order))
    assert learn(bbs("x"), data).constraint() is None


def test_constraints_of_blocks_and_sums(data: dict[str, Any]) -> None:
    C = learn(bmono("x", knots=3), data).constraint()
    by = learn(bmono("x", knots=3, by="g"), data).constraint()
    np.testing.assert_array_equal(by, block_diag(C, C, C))
    both = learn(bols("z") + bmono("x", knots=3), data).constraint()
    np.testing.assert_array_equal(both, np.hstack([np.zeros((6, 2)), C]))
    assert learn(bols("z") + bbs("x"), data).constraint() is None


# ---- linear effects and factors ------------------------------------------------------

CODINGS = {"treatment": "Treatment", "sum": "Sum", "helmert": "Helmert"}


@pytest.mark.parametrize("contrasts", CODINGS)
def test_contrasts_equal_patsy(data: dict[str, Any], contrasts: str) -> None:
    theirs = np.asarray(patsy.dmatrix(f"C(g, {CODINGS[contrasts]})", data))
    ours = design(bols("g", contrasts=contrasts), data)
    np.testing.assert_array_equal(ours, theirs)
    ours = design(bols("g", contrasts=contrasts, intercept=False), data)
    np.testing.assert_array_equal(ours, theirs[:, 1:])


def test_dummy_coding_equals_patsy(data: dict[str, Any]) -> None:
    theirs = np.asarray(patsy.dmatrix("g - 1", data))
    for term in (bols("g", contrasts="dummy"), brandom("g")):
        np.testing.assert_array_equal(design(term, data), theirs)


def test_numeric_columns_equal_patsy(data: dict[str, Any]) -> None:
    np.testing.assert_array_equal(
        design(bols("x", "z"), data), patsy.dmatrix("x + z", data)
    )
    np.testing.assert_array_equal(
        design(bols("x", "z", intercept=False), data), patsy.dmatrix("x + z - 1", data)
    )


def test_an_ordered_factor_ties_neighbouring_levels(data: dict[str, Any]) -> None:
    b = np.array([3.0, 5.0, 4.0, -1.0])
    K = learn(bols("ordered"), data).penalty()
    assert b @ K @ b == 3**2 + (5 - 3) ** 2 + (4 - 5) ** 2 + (-1 - 4) ** 2
    for term in (bols("g"), bols("ordered", contrasts="sum"), brandom("ordered")):
        np.testing.assert_array_equal(learn(term, data).penalty(), np.eye(4))


def test_a_dummy_coded_effect_does_not_depend_on_the_order_of_levels(
    data: dict[str, Any],
) -> None:
    fits = []
    for levels in ("abcd", "dbca"):
        g = {"g": pd.Categorical(data["g"], list(levels))}
        fits.append(smoother(design(brandom("g"), g), np.eye(4), 2.0))
    np.testing.assert_allclose(*fits, atol=1e-14)


def test_given_levels_make_a_number_a_factor(data: dict[str, Any]) -> None:
    numbers = {"k": np.arange(ROWS) % 3}
    assert design(bols("k"), numbers).shape == (ROWS, 2)
    assert design(bols("k", levels=range(5), contrasts="dummy"), numbers).shape[1] == 5
    assert design(brandom("k"), numbers).shape == (ROWS, 3)


# ---- varying coefficients ------------------------------------------------------------


@together(
    "make",
    [
        lambda **by: bbs("x", knots=5, **by),
        lambda **by: bbs("x", knots=5, center=True, **by),
        lambda **by: bbs("day", knots=5, cyclic=True, **by),
        lambda **by: bspatial("lon", "lat", knots=2, **by),
        lambda **by: bols("x", "z", **by),
        lambda **by: bols("id", **by),
        lambda **by: buser("x", K=[[2.0]], **by),
    ],
)
def test_by_multiplies_rows_or_makes_blocks(data: dict[str, Any], make: Any) -> None:
    X, K = design(make(), data), learn(make(), data).penalty()
    np.testing.assert_allclose(
        design(make(by="z"), data), X * data["z"][:, None], atol=1e-15
    )
    blocks = [X * (data["g"] == level)[:, None] for level in "bcd"]
    np.testing.assert_array_equal(design(make(by="g"), data), np.hstack(blocks))
    np.testing.assert_array_equal(
        learn(make(by="g"), data).penalty(), block_diag(K, K, K)
    )
    assert make(by="g").columns == (*make().covariates, "g")


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


def test_penalties_of_combinations(data: dict[str, Any]) -> None:
    def penalty(term: Term) -> np.ndarray:
        return np.asarray(learn(term, data).penalty())

    a, b = bbs("x", knots=3), bols("g", df=2)
    A, B = penalty(a), penalty(b)
    np.testing.assert_array_equal(penalty(a + b), block_diag(A, B))
    np.testing.assert_array_equal(
        penalty(a * b), np.kron(A, np.eye(4)) + np.kron(np.eye(7), B)
    )
    a, b = bbs("x", knots=3, lambda_=3), bols("g", lambda_=2)
    np.testing.assert_array_equal(penalty(a + b), block_diag(3 * A, 2 * B))
    np.testing.assert_array_equal(
        penalty(a * b), np.kron(3 * A, np.eye(4)) + np.kron(np.eye(7), 2 * B)
    )
    np.testing.assert_array_equal(penalty(a + bols("g")), block_diag(3 * A, 0 * B))


def test_a_product_on_a_grid_is_the_kronecker_product(rng: np.random.Generator) -> None:
    """mboost's ``a %O% b``: the response is a matrix that is read by columns."""
    a, b = rng.random(6), rng.random(5)
    grid = {"a": np.tile(a, 5), "b": np.repeat(b, 6)}
    small = [design(bbs(name, knots=2), {name: x}) for name, x in (("a", a), ("b", b))]
    np.testing.assert_allclose(
        design(bbs("b", knots=2) * bbs("a", knots=2), grid),
        np.kron(small[1], small[0]),
        atol=1e-14,
    )


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
    with pytest.raises(ValueError, match=f"{name} must not have missing values, got"):
        learned.rows(Frame.of(holed))


def test_rows_with_a_missing_value_in_any_column_are_zero() -> None:
    holed = {"x": [1.0, np.nan, 2.0, 3.0], "z": [np.nan, 1.0, 2.0, 3.0]}
    for term in (bols("x", "z"), bols("x") + bols("z"), bols("x", by="z")):
        found = columns_at(learn(term, holed), holed, missing="zero")
        assert found.any(axis=1).tolist() == [False, False, True, True]


@together("contrasts", [*CODINGS, "dummy"])
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
    quiet = [
        bbs("rooms", knots_at="quantiles"),
        bbs("rooms", knots=[1, 2, 3]),
        bols("rooms"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for term in quiet:
            learn(term, {"rooms": x})
        for values in (
            rng.standard_normal(10_000),
            rng.exponential(size=10_000),
            rng.integers(0, 5, 1000) * 1.0 + 1000 * (np.arange(1000) == 7),
            np.ones(100),
            np.r_[np.arange(10.0), 1e6],
        ):
            learn(bbs("rooms"), {"rooms": values})


@together(
    ("term", "message"),
    [
        (bbs("x", boundary=(0, 1)), r"x must be within the range 0.0 to 1.0"),
        (bbs("x", knots=[5.0]), "knots of x must ascend within -2.0 to 3.0"),
        (bbs("x", knots=[1.0, 0.0]), "knots of x must ascend"),
        (bbs("x", knots=1, degree=0), "x must have more than 2 functions"),
        (bbs("day", knots=1, cyclic=True), "day must have more than 2 functions .* 2"),
        (bbs("none"), "none must have values that are not missing"),
        (bols("g", levels="abc"), r"g must have the levels .* got \('d'\)"),
        (bols("one", intercept=False), "one must have at least 2 levels"),
        (bbs("x", by="one"), "one must have at least 2 levels"),
        (buser("x", K=np.eye(2)), r"K of buser\(x.* must have shape \(1, 1\)"),
        (buser("x", design=lambda x: x), "design of .* must return a matrix"),
        (bbs(), r"bbs\(\) must be given a column"),
    ],
)
def test_what_the_data_do_not_allow(
    data: dict[str, Any], term: Term, message: str
) -> None:
    data |= {"none": np.full(ROWS, np.nan), "one": ["only"] * ROWS}
    with pytest.raises(ValueError, match=message):
        learn(term, data)


def test_factors_that_must_be_numeric_are_an_error(data: dict[str, Any]) -> None:
    for term in (bbs("g"), bols("x", "g"), bols("g", "x"), buser("g")):
        with pytest.raises(TypeError, match="g must be numeric"):
            learn(term, data)


@pytest.mark.parametrize("option", ["outside", "unknown", "missing"])
def test_unknown_options_are_an_error(data: dict[str, Any], option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} must be one of"):
        learn(bols("x"), data).rows(Frame.of(data), **{option: "ignore"})


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


def stored(term: Term) -> Term:
    """The term after it was stored as JSON."""
    found: Term = from_plain(json.loads(json.dumps(to_plain(term, "term"))))
    return found


@together("term", [term for term, *_ in TERMS], ids=str)
def test_terms_are_values(data: dict[str, Any], term: Term) -> None:
    learned = learn(term, data)
    assert learned.label == term.label
    if "design" in repr(term):
        return
    assert eval(repr(term)) == term
    assert hash(learned) == hash(pickle.loads(pickle.dumps(learned)))
    for given in (term, learned):
        loaded = stored(given)
        assert loaded == given
        assert loaded.label == given.label
    np.testing.assert_array_equal(columns_at(loaded, data), columns_at(learned, data))
    assert learned.learn(Frame.of(data)) == learned


def test_levels_and_names_of_numpy_are_stored() -> None:
    term = bols(np.int64(2), levels=np.arange(3), lambda_=np.float32(2))
    assert stored(term) == term
    assert term == bols(2, levels=(0, 1, 2), lambda_=2)


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
    with pytest.raises(ValueError, match="key of bbs\\(x\\) must be 'x', got 'y'"):
        bbs("x").with_covariates("y")


def test_values_are_of_the_dtype(data: dict[str, Any]) -> None:
    for term, *_ in TERMS:
        learned = learn(term, data)
        rows = learned.rows(Frame.of(data), dtype=np.float32)
        assert all(part.stored().values.dtype == np.float32 for part in rows.parts)
        assert all(part.stored().first.dtype == np.int32 for part in rows.parts)
        exact = learned.rows(Frame.of(data)).dense()
        scale = np.abs(exact).max()
        np.testing.assert_allclose(rows.dense(), exact, atol=1e-6 * scale)


def test_a_range_of_one_value_has_no_effect() -> None:
    assert not design(bbs("x"), {"x": np.full(5, 3.0)}).any()


def test_knots_beyond_the_range_are_periodic() -> None:
    knots = Knots(0.0, 10.0, (1.0, 4.0), 4, cyclic=True).positions()
    expected = [-16, -10, -9, -6, 0, 1, 4, 10, 11, 14, 20, 21]
    np.testing.assert_array_equal(knots, expected)
