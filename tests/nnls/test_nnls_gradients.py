"""Gradients of solutions with respect to the arguments, against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from every_option import differentiable, solver
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import null_space
from together import together

import gpusolve

SYSTEMS, ROWS, VARIABLES = 6, 9, 4
STEP = 1e-6
TOLERANCE = 1e-6  # of differences: STEP**2, and eps / STEP, times a curvature of x
ROUNDING = 1e-9  # eps / STEP, times x


BOUNDS, CONSTRAINTS = ("lower", "upper"), ("A_ub", "b_ub", "A_eq", "b_eq")
OPTIONS = [
    (),
    ("weights", "l1", "l2"),
    ("weights", "L", "lam"),
    ("L", "lam", "prior", *BOUNDS),
    ("weights", "sum_to", *BOUNDS),
    ("weights", *BOUNDS, *CONSTRAINTS),
]


def program(A: Any, b: Any, lower: Any, upper: Any, **options: Any) -> Any:
    """A quadratic program, of A and b instead of G and c."""
    G = (A + np.swapaxes(A, -1, -2)) / 2
    return gpusolve.bounded_qp(G, b, (lower, upper), **options)


@together(
    ("options", "is_program", "own"),
    [
        *((options, False, k % 2) for k, options in enumerate(OPTIONS)),
        (BOUNDS, True, True),
        (("l2", *BOUNDS, *CONSTRAINTS), True, False),
    ],
)
def test_gradients_are_differences(
    options: tuple[str, ...],
    is_program: bool,
    own: bool,
    numpy_backend: Any,
    rng: Generator,
) -> None:
    """Of least squares and programs, whose systems share a matrix or do not."""
    names, every = ("A", "b", *options), differentiable(rng, SYSTEMS, ROWS, VARIABLES)
    given = {name: np.asarray(every[name]) for name in names}
    if own:
        given["A"] = rng.random((SYSTEMS, ROWS, VARIABLES))
    if is_program:
        A, b = given["A"], given["b"]
        given["A"], given["b"] = np.swapaxes(A, -1, -2) @ A, (b[:, None] @ A)[:, 0]

    def solve(values: dict[str, Any]) -> Any:
        solve_one = solver(gpusolve, names)
        return program(**values) if is_program else solve_one(*values.values())

    result = solve(given)
    x_bar = rng.standard_normal(result.x.shape)
    gradients = result.vjp(x_bar)
    at_bound = np.abs(result.dual) > 1e-9
    assert 0 < at_bound.sum() < at_bound.size
    assert "A_ub" not in options or (result.dual_ub > 0).any()
    for name, value in given.items():
        change, gradient = rng.standard_normal(value.shape), getattr(gradients, name)
        above, below = (
            (solve({**given, name: value + step * change}).x * x_bar).sum()
            for step in (STEP, -STEP)
        )
        # A number for each system has a gradient for each variable.
        assert value.shape[-1:] == (1,) or gradient.shape == value.shape
        size = np.abs(gradient * change).sum()
        found, expected = (gradient * change).sum(), (above - below) / (2 * STEP)
        assert abs(found - expected) <= TOLERANCE * size + ROUNDING


REPEATED = {
    "two inequalities": np.array([1.0, -1.0]),
    "two rows": np.array([1.0, 1.0]),
    "multiples": np.array([1.0, 2.0, -0.5]),
}
"""What the rows of an equality are multiplied by, and given as inequalities."""


@together("misfit", [0.0, 1.0])
@together("name", list(REPEATED))
def test_dependent_active_rows_share_the_gradient(
    name: str, misfit: float, backend: Any, rng: Generator
) -> None:
    """The gradients are those of an equality: each of its rows has the same part.

    Without a misfit, b is the image of a point on the rows, and all multipliers are 0.
    The closed form of the equality is by a basis of its null space.
    """
    factors = REPEATED[name]
    A, E, x = rng.random((9, 5)), rng.standard_normal((2, 5)), rng.random((3, 5))
    push = np.linalg.solve(A.T @ A, E.T @ [1.0, 2.0])
    b = (x + misfit * push) @ A.T + misfit * rng.standard_normal(9) * 1e-3
    if name == "two rows" and not misfit:
        return  # x may leave the rows
    C = np.kron(factors[:, None], E)
    rows = {"A_ub": C, "b_ub": x @ C.T}
    result = backend.call(gpusolve.lsq_linear, A, b, **rows)
    assert_array_equal(backend.numpy(result.status), 0)
    x_bar = rng.standard_normal((3, 5))
    found = fetched(backend, result.vjp(backend.array(x_bar)))
    x = backend.numpy(result.x)
    N = null_space(E)
    v = x_bar @ N @ np.linalg.inv(N.T @ A.T @ A @ N) @ N.T
    z = (x_bar - v @ A.T @ A) @ np.linalg.pinv(E)
    y = ((b - x @ A.T) @ A) @ np.linalg.pinv(E)
    share = np.repeat(1 / (len(factors) * factors), 2)
    assert_allclose(found.b, v @ A.T, atol=1e-10)
    assert_allclose(found.b_ub, share * np.tile(z, len(factors)), atol=1e-9)
    of_rows = -np.einsum("si,sj->ij", y, v) - np.einsum("si,sj->ij", z, x)
    expected = share[:, None] * np.tile(of_rows, (len(factors), 1))
    assert_allclose(found.A_ub, expected, atol=1e-9)
    covariance = N @ np.linalg.inv(N.T @ A.T @ A @ N) @ N.T
    found = backend.numpy(result.covariance(1.0))
    assert_allclose(found, [covariance] * 3, atol=1e-9)


def fetched(backend: Any, gradients: Any) -> Any:
    """The gradients as arrays of NumPy."""
    return gpusolve.Gradients(*map(backend.numpy, gradients))


def test_rows_that_only_a_point_satisfies_are_active(backend: Any) -> None:
    """No two of them are opposite to each other; b is that point.

    They share the gradient: x moves with the point. A row with slack has none.
    """
    C = np.array([[1.0, 0], [0, 1], [-1, -1], [1, 2]])
    rows = {"A_ub": C, "b_ub": C @ [0.5, 0.5] + [0, 0, 0, 1]}
    result = backend.call(gpusolve.lsq_linear, np.eye(2), np.full(2, 0.5), **rows)
    found = fetched(backend, result.vjp([1.0, 0.0]))
    assert_allclose(found.b, 0, atol=1e-12)
    assert_allclose(found.b_ub @ C, [1, 0], atol=1e-12)
    assert (found.b_ub[:3] != 0).all()
    assert found.b_ub[3] == 0


SUM = {"A_ub": [[1.0, 1.0]], "b_ub": [1.0]}

ALONG = np.array([0.05, 0.17, -0.13])
"""Orthogonal to the rows of `PLANE`, of which the last is the sum of the others."""
PLANE = np.array([[0.1, 0.2, 0.3], [0.7, 0.1, 0.4]])
PLANE = np.vstack([PLANE, PLANE.sum(axis=0)])


@together(
    ("A", "b", "given", "x_bar", "expected"),
    [
        # x is on the constraint, and would be there without it.
        (np.eye(2), [1.0, 0.0], SUM, [1, 0], {"b": [1, 0], "b_ub": [0]}),
        # Dependent rows leave a direction in which x leaves the constraint.
        (
            *(np.eye(3), np.ones(3)),
            {
                "A_ub": [[1, 1, 1]],
                "b_ub": [3],
                "A_eq": PLANE,
                "b_eq": PLANE.sum(axis=1),
            },
            *([1, 0, 0], {"b": ALONG * ALONG[0] / (ALONG @ ALONG), "b_ub": [0]}),
        ),
        # A multiplier of zero keeps the variable at its bound.
        (np.eye(2), [1.0, 0.0], {"bounds": (0, np.inf)}, [1, 1], {"b": [1, 0]}),
        # Dependent columns change by the least norm.
        ([[1.0, 1.0]], [2.0], {}, [1, 0], {"b": [0.5]}),
        # Equal bounds share the gradient.
        ([[1.0]], [0.0], {"bounds": (2, 2)}, [3], {"lower": 1.5, "upper": 1.5}),
        # What is not given has none.
        *(
            ([[2.0]], [3.0], {}, [1], {name: None})
            for name in ("weights", "sum_to", "L", "lam", "prior", "b_ub", "A_eq")
        ),
        ([[2.0]], [3.0], {"bounds": (0, np.inf)}, [1], {"lower": 0, "upper": 0}),
        (np.ones((9, 4)), np.zeros((0, 9)), {}, 1.0, {"A": np.zeros((9, 4))}),
    ],
)
def test_small_systems(
    A: Any, b: Any, given: dict[str, Any], x_bar: Any, expected: dict[str, Any]
) -> None:
    found = gpusolve.lsq_linear(A, b, **given).vjp(x_bar)
    for name, value in expected.items():
        if value is None:
            assert getattr(found, name) is None
        else:
            assert_allclose(getattr(found, name), value, atol=1e-14)


def test_a_system_without_a_solution_does_not_affect_others(rng: Generator) -> None:
    A, b = rng.random((ROWS, VARIABLES)), rng.standard_normal(ROWS)
    own, upper = np.stack([A, np.full_like(A, np.nan)]), np.full(VARIABLES, 0.1)
    for matrices, sides in ((A, np.stack([b, b * np.nan])), (own, b)):
        alone = gpusolve.lsq_linear(A, b, (0, upper)).vjp(1.0)
        found = gpusolve.lsq_linear(matrices, sides, (0, upper)).vjp(1.0)
        assert_allclose(found.upper, alone.upper, rtol=1e-12)
        of_A = found.A if matrices is A else found.A[0]
        assert_allclose(of_A, alone.A, rtol=1e-12, atol=1e-15)
        last = found.b[1] if matrices is A else found.A[1]
        assert_array_equal(last, 0)


def test_a_row_of_weight_zero_may_be_missing(rng: Generator) -> None:
    A, b = rng.random((ROWS, VARIABLES)), rng.random(ROWS)
    weights = np.ones(ROWS)
    weights[3] = 0
    alone = gpusolve.nnls(A, b, weights=weights).vjp(1.0)
    A[3, 1] = b[3] = np.nan
    gradients = gpusolve.nnls(A, b, weights=weights).vjp(1.0)
    for found, expected in zip(gradients[:2], alone[:2], strict=True):
        assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    assert gradients.weights[3] == 0
