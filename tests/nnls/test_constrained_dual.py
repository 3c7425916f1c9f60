"""The matrices of the dual problem, against the pseudoinverse of NumPy."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.testing import assert_allclose, assert_array_equal

import gpusolve

# Results show no rank: the matrices of the dual problem are made here.
from gpusolve._nnls.constraint_rows import decomposed
from gpusolve._numerics.arithmetic import inverse_power_of_two
from gpusolve.reference._nnls_constrained import ConstrainedSystem, Dual, eliminate

EPS = float(np.finfo(float).eps)


def dependent_rows(rng: Generator) -> np.ndarray:
    """Rows of rank 3, up to rounding: the last two are sums of the others."""
    rows = rng.standard_normal((20, 3, 6))
    return np.concatenate([rows, rng.standard_normal((20, 2, 3)) @ rows], axis=1)


def test_rounding_errors_are_not_rank() -> None:
    rows = dependent_rows(np.random.default_rng(0))
    left, inverse, right = decomposed(rows)
    found = (np.swapaxes(right, -1, -2) * inverse[:, None]) @ np.swapaxes(left, -1, -2)
    assert_allclose(found, np.linalg.pinv(rows, rcond=1e-12), atol=1e-12)


def test_rows_are_orthogonal_to_equalities_that_they_almost_depend_on() -> None:
    """What is left of the rows has 1e-10 of their size, and full precision."""
    rng = np.random.default_rng(1)
    equal, apart = rng.standard_normal((3, 8)), rng.standard_normal((4, 8))
    near = rng.standard_normal((4, 3)) @ equal + 1e-10 * apart
    none, free = np.zeros(8), np.full(8, np.inf)
    rows = np.concatenate([near, equal]), np.zeros(7), (4, 3, 0)
    given = np.eye(8), np.ones(8), (none, none), (-free, free), rows, False
    dual = Dual.of(ConstrainedSystem.of(*given))
    cosines = equal @ dual.B / np.linalg.norm(dual.B, axis=0)
    assert np.abs(cosines).max() < 64 * EPS


def test_elimination_depends_on_no_scale() -> None:
    """The rank is 3, whatever rows and columns are multiplied by.

    Errors are relative to the terms, element by element. Without a search of pivots in
    whole columns, they may grow: 2**10 is much more than they do here.
    """
    rng = np.random.default_rng(2)
    for spread in 0, 4, 8:
        rows = dependent_rows(rng)
        rows = rows * 10.0 ** rng.uniform(-spread, spread, (20, 5, 1))
        rows = rows * 10.0 ** rng.uniform(-spread, spread, (20, 1, 6))
        inverse, null = map(np.stack, zip(*map(eliminate, rows), strict=True))
        assert_array_equal((null != 0).any(axis=1).sum(axis=1), 3)
        terms = np.abs(rows) @ np.abs(null)
        assert (np.abs(rows @ null) <= 2**10 * EPS * terms).all()
        terms = np.abs(rows) @ np.abs(inverse) @ np.abs(rows)
        assert (np.abs(rows @ inverse @ rows - rows) <= 2**10 * EPS * terms).all()


def test_elimination_begins_where_least_cancels() -> None:
    """Rows that nearly depend on others come before rows that do not.

    In the given order the errors would be up to 3 times those of their terms.
    """
    for seed in range(100):
        a, d = np.random.default_rng(seed).standard_normal((2, 2, 6))
        near = a[0] + a[1] + 1e-10 * d[0], a[0] - a[1] + d[1] + 1e-10 * d[0]
        rows = np.stack([*a, near[0], d[1], near[1]])
        inverse, _ = eliminate(rows)
        terms = np.abs(rows) @ np.abs(inverse) @ np.abs(rows)
        assert (np.abs(rows @ inverse @ rows - rows) <= EPS * terms).all()


def test_columns_may_have_any_size() -> None:
    """A column times a power of two divides its variable, also if squares overflow.

    Where numbers are subnormal, a system may be without a certificate; it does not
    affect the others.
    """
    rng = np.random.default_rng(3)
    A, b, C = (rng.standard_normal(shape) for shape in ((9, 4), 9, (3, 4)))
    factors = np.array([1.0, 2.0**-900, 2.0**-560, 2.0**520, 2.0**900, 2.0**-1060])
    factors = np.stack([factors, np.roll(factors, 1)] * 2, axis=-1)[:, None]
    result = gpusolve.lsq_linear(A * factors, b, A_ub=C * factors, b_ub=-np.ones(3))
    usual = (factors[:, 0] > 2.0**-1000).all(axis=-1)
    x = result.x[usual] * factors[usual, 0]
    assert_allclose(x, [x[0]] * len(x), rtol=1e-12)
    assert (result.status[usual] == 0).all()
    with np.errstate(over="ignore"):
        extreme = rng.standard_normal((2, 9, 4)) * 10.0 ** rng.integers(-320, 0, (9, 4))
        extreme[1, :, 1] = extreme[1, :, 0]
        extreme[1, :, 2:] = 1.7e308 * rng.random((9, 2))
    every = gpusolve.lsq_linear([A, *extreme], b, A_ub=C, b_ub=-np.ones(3))
    alone = gpusolve.lsq_linear(A, b, A_ub=C, b_ub=-np.ones(3))
    assert_allclose(every.x[0], alone.x, rtol=1e-12)


def test_powers_of_two_are_normal_numbers() -> None:
    found = inverse_power_of_two(np.array([5e-324, 1e-310, 0.0, 0.5, 3.0, 1e308]))
    expected = [2.0**1022, 2.0**1022, 1.0, 1.0, 2.0**-2, 2.0**-1022]
    assert_array_equal(found, expected)
