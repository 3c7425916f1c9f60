"""gpusolve.bounded_qp against least squares and the optimality conditions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from backends import without_gpu
from bounded_systems import Bounded, excess, infeasibility, random_systems
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from oracles import check_kkt
from together import together

import gpusolve

# No result of a solver has a known error: the certificate itself is called.
from gpusolve._nnls.bounded_qp import Certificate, Quadratic, certify

EPS = float(np.finfo(np.float64).eps)
INF = np.inf

each_method = together("method", ["auto", "gram", "qr"])


def solve(backend: Any, G: Any, c: Any, *args: Any, **options: Any) -> Any:
    return backend.solve(gpusolve.bounded_qp, G, c, *args, **options)


def program(
    rng: Generator, n: int, rank: int, systems: int = 4
) -> tuple[np.ndarray, np.ndarray]:
    """G of a given rank, and c in its range."""
    F = rng.standard_normal((systems, n, rank))
    y = rng.standard_normal((systems, rank, 1))
    return F @ F.swapaxes(-1, -2), (F @ y)[..., 0]


@together("bounds", [(0.0, INF), (-0.2, 0.3), (-INF, 0.1), (-1.0, 1.0)])
@together(
    ("n", "rank", "dtype"),
    [
        *((5, 5, np.float64), (6, 3, np.float64), (6, 3, np.float32)),
        *((20, 20, np.float64), (12, 2, np.float64)),
    ],
)
@each_method
def test_programs_are_solved(
    backend: Any,
    rng: Generator,
    method: str,
    n: int,
    rank: int,
    bounds: tuple[float, float],
    dtype: Any,
) -> None:
    """Rounding of a singular matrix does not make it indefinite, also in float32."""
    if backend.emulated and n > 8:
        pytest.skip("the kernels are those of lsq_linear")
    G, c = (array.astype(dtype) for array in program(rng, n, rank))
    result = solve(backend, G, c, bounds, method=method)
    assert result.x.dtype == dtype
    if dtype == np.float32:
        assert (result.status != 2).all()
    else:
        check_kkt(G, c, bounds, result)


def test_the_lower_triangle_is_used_and_refused_alone(
    backend: Any, rng: Generator
) -> None:
    (G, *_), (c, *_) = program(rng, 5, 5)
    alone = solve(backend, G, c)
    without = np.tril(G) + np.triu(np.full((5, 5), np.nan), 1)
    result = solve(backend, np.stack([G, np.triu(G), without]), c)
    assert_array_equal(result.status, [0, 2, 0])
    assert_allclose(result.x[::2], [alone.x] * 2, rtol=1e-12, atol=1e-15)
    assert np.isnan(result.x[1]).all()
    if backend.name != "cuda":  # a device is not waited for
        with pytest.raises(ValueError, match="G must be symmetric, got a matrix"):
            solve(backend, np.triu(G), c)


@together(
    ("G", "c", "bounds", "status"),
    [
        (np.diag([1.0, 0.0]), [1.0, 1.0], (0, INF), 3),  # c is outside the range of G
        # G differs from rank 1 only by rounding, and only rounding makes x finite.
        ([[1.0, 1.0], [1.0, 1.0 + 4 * EPS]], [0.0, 1e-7], (-1e9, 1e9), 3),
        # A zero on the diagonal needs a row of zeros.
        ([[0.0, 1e-20], [1e-20, 1.0]], [-1.0, 1.0], (0, INF), 2),
        ([[0.0, 0.0], [0.0, 1.0]], [-1.0, 1.0], (0, INF), 0),
        (np.zeros((0, 0)), [], (0, INF), 0),
        (np.zeros((0, 3, 3)), np.zeros((0, 3)), (0, INF), 0),
        (np.zeros((2, 0, 0)), np.zeros((2, 0)), (0, INF), 0),
    ],
)
def test_programs_at_the_limit(
    backend: Any, G: Any, c: Any, bounds: tuple[float, float], status: int
) -> None:
    result = solve(backend, np.asarray(G), np.asarray(c, float), bounds)
    assert result.x.shape == np.shape(c)
    assert_array_equal(result.status, np.full(np.shape(c)[:-1], status))


@together("bounds", [(0.0, 1.0), (-2.0, 0.5)])
@each_method
def test_no_curvature_leads_to_the_bounds(
    backend: Any, method: str, bounds: tuple[float, float]
) -> None:
    """G = 0: each variable goes where c points, and stays where c is 0."""
    c = np.array([[1.0, -2.0, 0.0, 1e-3], [-1.0, 3.0, 2.0, 0.0]])
    result = solve(backend, np.zeros((4, 4)), c, bounds, method=method)
    assert (result.status == 0).all()
    expected = np.where(c > 0, bounds[1], np.where(c < 0, bounds[0], 0.0))
    assert_array_equal(result.x, expected)


@each_method
def test_indefinite_and_nonfinite_matrices_have_status_2(
    backend: Any, rng: Generator, method: str
) -> None:
    G, c = program(rng, 4, 4, systems=9)
    good = solve(backend, G, c, method=method)
    G[1] = np.diag([1.0, 1.0, -1e-6, 1.0])
    G[2, 2, 0] = np.nan
    G[3, 0, 0] = INF
    c[4, 1] = np.nan
    G[5] = -G[5]
    G[6:8] = 1e308
    np.fill_diagonal(G[6], 1)
    np.fill_diagonal(G[7], 1e-300)
    result = solve(backend, G, c, method=method)
    assert result.status.tolist() == [0, 2, 2, 2, 2, 2, 2, 2, 0]
    for name in ("x", "rnorm", "dual", "kkt"):
        assert np.isnan(getattr(result, name)[1:8]).all()
        for k in (0, 8):
            assert_array_equal(getattr(result, name)[k], getattr(good, name)[k])


def random_programs(index: int, systems: int) -> Bounded:
    """Systems of least squares, some with variables in other units.

    Penalties from 1e-16 to 1 are a part of c that may be outside the range of G.
    """
    rng, (_, given) = (
        np.random.default_rng([index, 29]),
        random_systems(index, 0, systems, 4),
    )
    l1 = given.l1 * 10.0 ** rng.uniform(-16, 0, (systems, 1))
    if given.sum_to is not None:
        return given._replace(l1=l1)
    unit = np.where(
        rng.random((systems, 1)) < 0.5, 1, 10.0 ** rng.uniform(-6, 6, l1.shape)
    )
    limits = given.lower / unit, given.upper / unit
    return Bounded.of(
        given.A * unit[:, None],
        given.b,
        limits,
        l1 * unit,
        given.l2 * unit**2,
        given.weights,
    )


@together("index", range(40))
@each_method
def test_certified_programs_are_optimal(backend: Any, method: str, index: int) -> None:
    """Singular, nearly singular and badly scaled G; at most some are not certified."""
    given = random_programs(index, 16 if backend.emulated else 64)
    (A, b), options = given.weighted(), given.options()
    del options["weights"]
    G, c = np.swapaxes(A, -1, -2) @ A, (b[:, None] @ A)[:, 0]
    result = solve(backend, G, c, **options, method=method)
    good = result.status == 0
    assert good.mean() > 0.7
    certified, x = given.take(good), result.x[good]
    assert infeasibility(certified, x).max() <= 32 * EPS
    assert excess(certified, x).max() <= 1e-8


@without_gpu
@together("seed", [91, 24, 36, 177])
@each_method
def test_equal_columns_have_certified_solutions(
    backend: Any, method: str, seed: int
) -> None:
    """x with large terms that cancel is not taken for a better x."""
    rng = np.random.default_rng(seed)
    A = rng.random((16, 8)) if rng.random() < 0.5 else rng.normal(size=(16, 8))
    A[:, 1] = A[:, 2] = A[:, 0]
    b, lower = rng.normal(size=16), np.where(rng.random(8) < 0.5, 0, -INF)
    G, c = A.T @ A, A.T @ b
    result = solve(backend, G, c, (lower, INF), method=method)
    assert result.status == 0
    assert np.abs(result.x).max() < 1e3
    best = scipy.optimize.lsq_linear(A, b, (lower, INF), method="bvls", tol=1e-14)
    found = np.sum((A @ result.x - b) ** 2) / 2
    assert found <= best.cost * (1 + 1e-9)


def test_the_dual_is_that_of_the_given_matrix(backend: Any, rng: Generator) -> None:
    G, c = program(rng, 6, 3, systems=20)
    result = solve(backend, G, c)
    wide = np.longdouble
    w = c - (G.astype(wide) @ result.x[..., None].astype(wide))[..., 0]
    terms = np.abs(c) + (np.abs(G) @ np.abs(result.x)[..., None])[..., 0]
    limit = 2 * EPS * np.abs(w) + 8 * np.finfo(wide).eps * terms
    assert (np.abs(result.dual - w) <= limit).all()


# ---- options, and where programs are solved ------------------------------------------


@together(
    ("l1", "l2"),
    [
        (0.3, 0.0),
        (0.0, 0.7),
        (np.array([0.0, 0.5, 0.1, 0.0, 2.0]), np.array([[0.1], [0.0], [2.0], [1.0]])),
    ],
)
@together("sum_to", [None, 0.4])
def test_penalties_are_those_of_least_squares(
    backend: Any, rng: Generator, l1: Any, l2: Any, sum_to: float | None
) -> None:
    A, b = rng.standard_normal((4, 12, 5)), rng.standard_normal((4, 12))
    G, c = A.swapaxes(-1, -2) @ A, (A.swapaxes(-1, -2) @ b[..., None])[..., 0]
    bounds, given = (-0.1, 0.3), {"l1": l1, "l2": l2, "sum_to": sum_to}
    result = backend.call(gpusolve.bounded_qp, G, c, bounds, **given)
    x, host = backend.numpy(result.x), backend.numpy
    expected = gpusolve.lsq_linear(A, b, bounds, **given)
    assert_array_equal(host(result.status), 0)
    assert_allclose(x, expected.x, atol=1e-11)
    if sum_to is None:
        assert_allclose(host(result.dual), expected.dual, atol=1e-10)
    assert_allclose(host(result.residual), c - (G @ x[..., None])[..., 0], atol=1e-12)
    assert_allclose(host(result.covariance()), expected.covariance(1.0), atol=1e-10)
    found, other = result.vjp(result.x), expected.vjp(expected.x)
    for name in ("l1", "l2", "lower", "upper"):
        assert_allclose(host(getattr(found, name)), getattr(other, name), atol=1e-8)


# ---- the certificate, for x of which the error is known ------------------------------


def certificate(G: Any, c: Any, x: Any, lower: float = -INF) -> Certificate:
    objective = Quadratic.of(np.asarray(G, float), np.asarray(c, float), EPS)
    return certify(objective, np.asarray(x, float), lower, INF, None)


NEAR = 1.0 + 1e-12
FAR = 1.0 + 100 * np.array([1.0, -1.0]) / np.sqrt(2)


@together(
    ("G", "c", "x", "lower", "expected"),
    [
        # A violation is relative to the gradient, in any units.
        (np.eye(2), [1, 1], [1 + 1e-8, 1], -INF, 1e-8),
        (np.diag([1e-12, 1e12]), [1e-6, 1e6], [1e6 * (1 + 1e-8), 1e-6], -INF, 1e-8),
        # The eigenvalue is 5e-13, and x is off by 100 along its vector; 2 + 4 terms.
        ([[1, 1], [1, NEAR]], [2, 1 + NEAR], FAR, -INF, 5e-13 * 100**2 / 2 / (2 + 4)),
        # The objective is 0 at 0, and falls by 5e-25; the largest slope is 1, twice.
        (np.eye(2), [1e-12, -1], [0, 0], 0.0, 5e-25 / (EPS * 2**2)),
    ],
)
def test_what_a_violation_is_relative_to(
    G: Any, c: Any, x: Any, lower: float, expected: float
) -> None:
    found = certificate(G, c, x, lower)
    assert found.kkt == pytest.approx(expected, rel=0.02)
    assert not found.accepts(None, np.dtype(np.float64))


@pytest.mark.parametrize("difference", [1e-3, 1e-4])
def test_the_part_of_c_outside_the_range_is_complete(difference: float) -> None:
    """A small eigenvalue turns the eigenvectors of 0, and their part of c matters."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        A = rng.normal(size=(8, 4))
        A[:, 1], A[:, 3] = A[:, 0], A[:, 2] + difference * A[:, 3]
        c = np.array([1.0, 1.0, 1.0, -1.0])
        bounds = ([-INF, -INF, -1, -1], [INF, INF, 1, 1])
        result = gpusolve.bounded_qp(A.T @ A, c, bounds, method="qr")
        assert result.status == 0
        assert np.abs(result.x).max() < 1e3
        # Where two columns are equal, the Gram method may leave x far out: status 3.
        by_gram = gpusolve.bounded_qp(A.T @ A, c, bounds, method="gram")
        assert by_gram.status == 3 or np.abs(by_gram.x).max() < 1e3
