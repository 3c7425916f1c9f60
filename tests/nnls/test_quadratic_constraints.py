"""Linear constraints of bounded_qp, against brute force over the active sets."""

from __future__ import annotations

from typing import Any

import numpy as np
from constrained_systems import brute_force, random_constrained
from together import together

import gpusolve

KINDS = "random", "integers", "deficient", "redundant"

EXCESS = 1e-9
"""What a certified objective may be above the least objective found, relative to 1 plus
this objective."""


def solve(backend: Any, G: Any, c: Any, *args: Any, **options: Any) -> Any:
    given = np.asarray(G), np.asarray(c)
    return backend.solve(gpusolve.bounded_qp, *given, *args, **options)


def normal_equations(A: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
    """``A^T A`` and ``A^T b`` of each system."""
    T = np.swapaxes(A, -1, -2)
    return T @ A, (T @ b[..., None])[..., 0]


@together("kind", KINDS)
def test_random_programs_agree_with_brute_force(backend: Any, kind: str) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        given = random_constrained(rng, 4, int(rng.integers(1, 5)), kind)
        G, c = normal_equations(given.A, given.b)
        options = given.options()
        rows = {name: options[name] for name in ("A_ub", "b_ub", "A_eq", "b_eq")}
        result = solve(backend, G, c, options["bounds"], **rows)
        assert (result.status == 0).all()
        for k in range(4):
            one, x, best = given.system(k), result.x[k], brute_force(given.system(k))
            assert one.infeasibility(x) <= EXCESS
            assert ((one.lower <= x) & (x <= one.upper)).all()
            assert abs(one.objective(x) - best) <= EXCESS * (1 + abs(best))


def test_multipliers_explain_the_gradient(backend: Any) -> None:
    rng = np.random.default_rng(1)
    A, C, E = (rng.standard_normal(shape) for shape in ((9, 5), (7, 5), (2, 5)))
    b = rng.standard_normal((6, 9))
    rows = {"A_ub": C, "b_ub": 0.1 * np.ones(7), "A_eq": E, "b_eq": [0.2, 0]}
    result = solve(backend, A.T @ A, b @ A, (-0.3, 0.3), sum_to=0.1, **rows)
    residual = b @ A - result.x @ (A.T @ A)
    left = residual - result.dual - result.dual_ub @ C - result.dual_eq @ E
    np.testing.assert_allclose(left, left[:, :1] * np.ones(5), atol=1e-13)
    np.testing.assert_allclose(result.x.sum(axis=1), 0.1)
    assert (result.dual_ub >= 0).all()
    assert (result.dual_ub > 0).any()
    inside = np.abs(result.x) < 0.3
    np.testing.assert_allclose(result.dual[inside], 0, atol=1e-13)
    by_rows = gpusolve.lsq_linear(A, b, (-0.3, 0.3), sum_to=0.1, **rows)
    np.testing.assert_allclose(result.x, by_rows.x, atol=1e-13)
    np.testing.assert_allclose(result.dual_ub, by_rows.dual_ub, atol=1e-12)


def test_linear_programs_are_solved_at_a_vertex(backend: Any) -> None:
    """Without curvature, the constraints alone bound x."""
    rows = {"A_ub": [[1, 1, 1]], "b_ub": [[2], [4]]}
    result = solve(backend, np.zeros((3, 3)), [1, 2, 3], **rows)
    np.testing.assert_array_equal(result.status, 0)
    np.testing.assert_allclose(result.x, [[0, 0, 2], [0, 0, 4]])
    np.testing.assert_allclose(result.dual_ub, [[3], [3]])


def test_an_unbounded_program_is_not_certified(backend: Any) -> None:
    G, rows = np.diag([1.0, 0.0]), {"A_ub": [[1, 0]], "b_ub": [1]}
    result = solve(backend, G, [2, 1], (-np.inf, np.inf), **rows)
    assert result.status == 3


def test_a_program_without_a_solution_has_a_proof(backend: Any) -> None:
    rows = {"A_ub": [[1, 1, 1]], "b_ub": [[2], [-1]]}
    result = backend.call(gpusolve.bounded_qp, np.eye(3), np.arange(1.0, 4), **rows)
    np.testing.assert_array_equal(backend.numpy(result.status), [0, 4])
    np.testing.assert_allclose(backend.numpy(result.x)[0], [0, 0.5, 1.5])
    proof = gpusolve.Proof(*map(backend.numpy, result.proof()))
    np.testing.assert_allclose(proof.lower[1], 3 * [proof.ub[1, 0]], rtol=1e-14)
    assert proof.ub[1, 0] > 0
    assert np.isnan(proof.ub[0]).all()


def test_bad_matrices_keep_their_status(backend: Any) -> None:
    G, rows = np.stack([np.eye(2), -np.eye(2)]), {"A_ub": [[1, 1]], "b_ub": [1]}
    result = solve(backend, G, [1, 1], **rows)
    np.testing.assert_array_equal(result.status, [0, 2])
    result = solve(backend, np.eye(2), [[1, 1], [np.nan, 1]], **rows)
    np.testing.assert_array_equal(result.status, [0, 2])


def test_float32_stays_float32(backend: Any) -> None:
    rng = np.random.default_rng(2)
    A, b, C = (rng.standard_normal(shape) for shape in ((9, 4), (5, 9), (3, 4)))
    G, c, rows = A.T @ A, b @ A, {"A_ub": C, "b_ub": np.zeros(3)}
    single = solve(backend, G.astype("f4"), c.astype("f4"), **rows)
    assert single.x.dtype == single.dual.dtype == single.dual_ub.dtype == np.float32
    np.testing.assert_array_equal(single.status, 0)
    np.testing.assert_allclose(single.x, gpusolve.bounded_qp(G, c, **rows).x, atol=1e-5)


def test_empty(backend: Any) -> None:
    rows = {"A_ub": np.ones((1, 2)), "b_ub": [1]}
    assert solve(backend, np.eye(2), np.zeros((0, 2)), **rows).dual_ub.shape == (0, 1)
    rows = {"A_ub": np.zeros((1, 0)), "b_ub": [[1], [-1]]}
    found = solve(backend, np.zeros((0, 0)), np.zeros((2, 0)), **rows)
    np.testing.assert_array_equal(found.status, [0, 4])
    rows = {"A_ub": np.zeros((0, 2)), "b_ub": []}
    np.testing.assert_allclose(solve(backend, np.eye(2), [1, 2], **rows).x, [1, 2])


def test_flat_and_consistent_programs_are_certified() -> None:
    """A variable without curvature, no residual, and no objective at all."""
    rng = np.random.default_rng(3)
    A, E = rng.standard_normal((40, 6, 5)), rng.standard_normal((40, 2, 5))
    A[..., -1], A[..., 1] = 0, A[..., 0]
    point = rng.standard_normal((40, 5, 1))
    rows = {"A_eq": E, "b_eq": (E @ point)[..., 0]}
    G, c = normal_equations(A, rng.standard_normal((40, 6)))
    consistent = (G @ point)[..., 0]
    for matrix, side in ((G, c), (G, consistent), (0 * G, 0 * c)):
        result = gpusolve.bounded_qp(matrix, side, (-np.inf, np.inf), **rows)
        np.testing.assert_array_equal(result.status, 0)


@together("rows", [20, 100])
@together("upper", [np.inf, 0.2])
def test_a_portfolio_of_least_variance_in_float32(rows: int, upper: float) -> None:
    """Of 20 rows, the covariance of 60 columns is singular: no risk may be left."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        data = 0.01 * rng.standard_normal((rows, 5)) @ rng.standard_normal((5, 60))
        data += 0.01 * rng.standard_normal(data.shape)
        G = np.cov(data, rowvar=False, dtype=np.float32)
        found = [
            gpusolve.bounded_qp(G, np.zeros(60, np.float32), (0, upper), **fixed)
            for fixed in ({"sum_to": 1}, {"A_eq": np.ones((1, 60)), "b_eq": [1]})
        ]
        for result in found:
            assert result.status == 0
            assert abs(result.x.astype(float).sum() - 1) < 1e-5
