"""Whether constraints have a solution, beyond the rounding of what was given.

Solutions are known; proofs are checked in exact rationals.
"""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from tight_constraints import FAMILIES, Tight, contradicted, tight, times, violation
from together import together

import gpusolve

INF = np.inf

ROUNDING = {"f4": 1e-6, "f8": 1e-10}
"""The violation that is allowed, relative to the terms."""

METHODS = "auto", "qr", "gram"


def solve(
    backend: Any, given: Tight, dtype: str, function: str, method: str
) -> tuple[Any, dict[str, Any]]:
    """The result, and the options."""
    options = given.options(dtype)
    if function == "bounded_qp":
        T = np.swapaxes(given.A, -1, -2)
        data = (T @ given.A).astype(dtype), times(T, given.b).astype(dtype)
    else:
        data = given.A.astype(dtype), given.b.astype(dtype)
    solver = getattr(gpusolve, function)
    return solved(backend, solver, *data, **options, method=method), options


def solved(backend: Any, solver: Any, *args: Any, **options: Any) -> Any:
    """The fields of a result and its proof, as arrays of NumPy."""
    result = backend.call(solver, *args, **options)
    fields = {name: backend.numpy(value) for name, value in result._asdict().items()}
    proof = gpusolve.Proof(*map(backend.numpy, result.proof()))
    return SimpleNamespace(**fields, proof=proof)


@together("function", ["lsq_linear", "bounded_qp"])
@together("dtype", ["f4", "f8"])
@together("family", list(FAMILIES))
def test_what_rounding_explains_is_no_contradiction(
    backend: Any, family: str, dtype: str, function: str
) -> None:
    """x satisfies the constraints up to rounding, and is not worse than the point."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        given = tight(family, rng, 20, int(rng.integers(2, 7)), shares=seed % 2 == 0)
        result, options = solve(backend, given, dtype, function, METHODS[seed])
        assert_array_equal(result.status, 0)
        eps = np.finfo(dtype).eps
        assert violation(options, result.x).max() <= ROUNDING[dtype] + eps
        r, best = (
            np.linalg.norm(times(given.A, x) - given.b, axis=-1)
            for x in (result.x.astype(float), given.point)
        )
        assert (r <= best + 1e3 * eps * (1 + best)).all()


GAPS = 10.0 ** np.arange(-12, 1)


@together("function", ["lsq_linear", "bounded_qp"])
@together("far", [INF, 1e15, 1e20, 1e30])
@together("dtype", ["f4", "f8"])
@together("family", list(FAMILIES))
def test_a_contradiction_beyond_rounding_is_found(
    backend: Any, family: str, dtype: str, far: float, function: str
) -> None:
    """Status 0 never hides it. Infinite bounds may be given as huge numbers."""
    rng = np.random.default_rng(0)
    given = contradicted(tight(family, rng, len(GAPS), 4, shares=True), GAPS)
    lower, upper = np.maximum(given.lower, -far), np.minimum(given.upper, far)
    given = given._replace(lower=lower, upper=upper)
    result, options = solve(backend, given, dtype, function, "auto")
    done = result.status == 0
    assert not done[50 * ROUNDING[dtype] < GAPS].any()
    assert (result.status[GAPS > 5e-5] == 4).all()
    allowed = ROUNDING[dtype] + np.finfo(dtype).eps
    assert violation(options, result.x)[done].max(initial=0) <= allowed
    check_proofs(result, options)


def exact(values: Any) -> np.ndarray:
    """The same numbers as fractions."""
    return np.array([Fraction(float(value)) for value in values], dtype=object)


def check_proofs(result: Any, options: dict[str, Any]) -> None:
    """Each proof, as its page says, for all x of 1e8 times the sides, in rationals."""
    proofs = result.proof
    (lower, upper), n = options["bounds"], result.x.shape[-1]
    for k in np.flatnonzero(result.status == 4):
        ub, eq, low, high = (exact(values[k]) for values in proofs[:4])
        assert min([*ub, *low, *high]) >= 0
        sides = exact(options["b_ub"][k]), exact(options["b_eq"][k])
        value = (ub * sides[0]).sum() + (eq * sides[1]).sum()
        total = Fraction(float(proofs.sum_to[k]))
        if total:
            value += total * Fraction(float(options["sum_to"][k]))
        for y, bound, sign in ((low, lower[k], -1), (high, upper[k], 1)):
            at = y > 0
            assert np.isfinite(bound[at]).all()
            value += sign * (y[at] * exact(bound[at])).sum()
        rest = low - high - total
        for y, rows in ((ub, options["A_ub"]), (eq, options["A_eq"])):
            for one, row in zip(y, rows, strict=True):
                rest = rest - one * exact(row)
        assert value < 0
        size = max(1.0, *(float(abs(side).max(initial=0)) for side in sides))
        assert sum(abs(rest), Fraction(0)) * Fraction(1e8 * size) < -value
    others = result.status != 4
    for values in proofs:
        assert np.isnan(values[others]).all()
        assert values.dtype == np.float64
    assert n == proofs.lower.shape[-1]


def test_bounds_that_contradict_each_other_are_a_proof(backend: Any) -> None:
    """Also with constraints; a bound at the wrong infinity has none."""
    lower = np.array([[0.0, 2.0], [0.0, 0.0], [INF, 0.0]])
    rows = {"A_ub": np.array([[1.0, 1.0]]), "b_ub": np.array([5.0])}
    for given in rows, {}:
        result = solved(
            backend,
            *(gpusolve.lsq_linear, np.eye(2), np.ones(2)),
            bounds=(lower, np.ones(2)),
            **given,
        )
        assert_array_equal(result.status, [4, 0, 4])
        proof = result.proof
        for values in proof.lower, proof.upper:
            assert_array_equal(values, [[0, 1], [np.nan] * 2, [np.nan] * 2])
        assert proof.sum_to[0] == 0
        assert np.isnan(result.x[0]).all()


def test_a_sum_that_the_bounds_contradict_has_a_proof(backend: Any) -> None:
    """Without linear constraints, and with weights of zero, which have no proof."""
    given = {"bounds": (0, [1.0, 1.0]), "sum_to": np.array([1.0, 3.0, -1.0])}
    result = solved(backend, gpusolve.lsq_linear, np.eye(2), np.ones(2), **given)
    assert_array_equal(result.status, [0, 4, 4])
    proof = result.proof
    assert_allclose(proof.upper[1] + proof.sum_to[1], 0, atol=1e-15)
    assert_allclose(proof.lower[2] - proof.sum_to[2], 0, atol=1e-15)
    assert proof.upper[1] @ np.ones(2) + 3 * proof.sum_to[1] < 0
    assert proof.sum_to[2] > 0
    none = solved(backend, gpusolve.lsq_linear, np.eye(2), np.ones(2), weights=[0, 0])
    assert none.status == 4
    assert np.isnan(none.proof.lower).all()


def test_one_system_and_blocks_have_the_same_proofs() -> None:
    rows = {"A_ub": np.array([[1.0, 1.0]]), "b_ub": np.array([1.0])}
    one = gpusolve.lsq_linear(np.eye(2), np.ones(2), (1, 9), **rows)
    batch = gpusolve.lsq_linear(
        np.eye(2), np.ones((3, 2)), (1, 9), devices="cpu", **rows
    )
    for alone, each in zip(one.proof(), batch.proof(), strict=True):
        assert_array_equal(each, np.broadcast_to(alone, each.shape))


# ---- dtypes --------------------------------------------------------------------------


@together("options", [{}, {"sum_to": 1.0}, {"warm_start": np.ones(60)}])
def test_a_matrix_keeps_the_rounding_of_its_dtype(
    options: dict[str, Any], backend: Any
) -> None:
    """A singular covariance in float32, whose rounding makes an eigenvalue negative."""
    rng = np.random.default_rng(0)
    G = np.cov(rng.standard_normal((20, 60)), rowvar=False, dtype="f4")
    assert np.linalg.eigvalsh(G.astype(float)).min() < 0
    x = []
    for dtype in "f4", "f8":
        c = (G @ np.ones(60)).astype(dtype)
        result = backend.solve(gpusolve.bounded_qp, G, c, **options)
        assert result.status == 0
        assert result.x.dtype == dtype
        x.append(result.x)
    assert_allclose(G @ x[0], G @ x[1], atol=1e-4)


@together("rows", [{}, {"A_ub": np.eye(3), "b_ub": np.ones(3)}])
@together("function", ["lsq_linear", "bounded_qp"])
def test_bounds_keep_the_rounding_of_their_dtype(
    function: str, rows: dict[str, Any], backend: Any
) -> None:
    """In float32, the sum of these bounds is less than 1 by 7e-9."""
    upper = np.array([0.1, 0.2, 0.7], "f4")
    solver, data = getattr(gpusolve, function), (np.eye(3), np.ones(3))
    result = backend.solve(solver, *data, (np.zeros(3), upper), sum_to=1, **rows)
    assert result.status == 0
    assert_array_equal(result.x, upper)
    exactly = np.zeros(3), upper.astype(float)
    assert backend.solve(solver, *data, exactly, sum_to=1, **rows).status == 4
